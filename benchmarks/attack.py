"""A fuzzer: malformed plans, odd column names, mangled files and tampered results, by seed.

    python -m benchmarks.attack --seed 7 --rounds 300

The rule of every call: exit code 0, or 2 and a sentence of ours; never a traceback, a fault of ours, an engine's own words or
an escape sequence. What breaks it is printed with how to make it again, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from evenhand.cli import main as evenhand

FORBIDDEN = re.compile(
    r"Traceback|fault in evenhand|panicked|Binder Error|Parser Error|Catalog Error|Conversion Error|Invalid Input Error|"
    r"LINE \d+:|polars\.|ColumnNotFound|SchemaError|pyarrow|RuntimeWarning|nanobind|\x1b"
)
NAMES = [
    "^v$", "*", "a.b", 'q"uote', "it's", "new\nline", "constructor", "__proto__", "toString", "", " ", "a:b", "a[0]", "\x1b[31m",
    "$1", "%s", "{x}", "\\", "--x", "=1+1", "select", "COLUMNS('.*')", "ünï", "x" * 300, "0", "true", "/*", "-- ",
]  # fmt: skip
JUNK: list[Any] = [
    0, -1, 3, 10**26, -(10**26), 0.5, -0.0, 1e308, float("nan"), float("inf"), True, False, "", " ", "x", "none", "*", "^.*$",
    "gini", "gini(", "gini(p=)", "gini(p=1e999)", "@5", "a" * 5000, "\x1b[2J", "../../x", "/dev/null", "log.csv", [], {}, [[]],
    [{}], {"a": {}}, [None], ["gini", "gini"], [1, "x"], {"a": "b"}, {"a": 1.5}, {"": 0}, {"a": -1}, [[[[[[1]]]]]], ["\x00"],
    "2026-01-01", "bootstrap(0)", "bootstrap(10**9)", "percentile(-1)", "normal(", "log_bins('v', 0)", "log_bins('v', 10**9)",
    "quantile_bins('u', 3)", "rbp(patience=2)", "$NOPE", "${NOPE}", "\N{SNOWMAN}",
]  # fmt: skip


def folder_of_data(folder: Path, draw: random.Random) -> None:
    """Small tables of every kind that audits read."""
    log = [
        {
            "u": f"u{draw.randrange(30)}",
            "v": draw.randrange(9),
            "s": draw.choice("abc"),
            "arm": draw.choice(["control", "new"]),
        }
        for _ in range(200)
    ]
    table = pl.DataFrame(log).with_columns(viewer=pl.int_range(pl.len()) % 40)
    table.write_csv(folder / "log.csv")
    table.write_parquet(folder / "log.parquet")
    ranked = [
        {"request": f"q{q}", "item": f"i{(q * 7 + r) % 25}", "rank": r + 1, "score": 1 / (r + 1), "g": "xy"[(q * 7 + r) % 2],
         "relevance": int(draw.random() < 0.5)}
        for q in range(12) for r in range(8)
    ]  # fmt: skip
    pl.DataFrame(ranked).write_csv(folder / "ranked.csv")
    people = [{"s": draw.random(), "y": int(draw.random() < 0.5), "g": draw.choice("ab")} for _ in range(300)]
    pl.DataFrame(people).write_csv(folder / "people.csv")
    users = [
        {"user": f"u{i}", "item": f"i{j}", "score": draw.random(), "group": "ab"[i % 2]}
        for i in range(12)
        for j in range(9)
    ]
    pl.DataFrame(users).write_csv(folder / "scores.csv")


UNITS = {"table": "log.csv", "unit": "u", "amount": "v", "population": "none", "rng": 1}
RANKED = {"request": "request", "item": "item", "rng": 1, "interval": "percentile(19)"}
PLANS: dict[str, dict[str, Any]] = {
    "inequality": {**UNITS, "by": "s", "metrics": ["gini"], "interval": "percentile(19)", "min_units": 2},
    "sources": {**UNITS, "source": "s", "interval": "none"},
    "decompose": {**UNITS, "unit": "none", "group": "s", "index": "gini", "interval": "none"},
    "criteria": {**UNITS, "metrics": ["gini"], "draws": 20},
    "experiment": {**UNITS, "arm": "arm", "randomized": "viewer", "metrics": ["gini"], "draws": 99},
    "prefix": {"table": "ranked.csv", "group": "g", "protected": "x", "rank": "rank", "chance": "none", **RANKED},
    "exposure": {"rankings": "ranked.csv", "groups": "g", "protected": "x", "rank": "rank", "metrics": ["awrf"], **RANKED},
    "pairwise": {"scores": "ranked.csv", "groups": "g", "relevance": "relevance", "protected": "x", "score": "score", **RANKED},
    "outcome_test": {"table": "people.csv", "score": "s", "outcome": "y", "group": "g", "bins": 3},
    "recommender": {"scores": "scores.csv", "user_groups": "group", "top": 2, "rng": 1, "interval": "none", "chance": "none"},
    "rebalance": {"scores": "ranked.csv", "top": 3, "strength": [0.1], "iterations": 5, "rng": 1, "interval": "none"},
}  # fmt: skip
VERBS = [
    ["look", "log.csv"], ["look", "ranked.csv"], ["plan", "inequality", "log.csv", "--unit", "u"], ["metrics", "gini"],
    ["advise", "--balance", "low"], ["history", "log.parquet"], ["compare", "one.json", "one.json"], ["agreement", "one.json"],
    ["rerank", "ranked.csv", "--method", "det_const_sort", "--top", "3", "--groups", "g"],
    ["inequality", "log.csv", "--unit", "u", "--amount", "v", "--population", "none", "--interval", "none"],
    ["rebalance", "ranked.csv", "--top", "3", "--iterations", "5"], ["completion", "bash"], ["study", "inequality", "--x"],
    ["experiment", "log.csv", "--unit", "u", "--arm", "arm", "--randomized", "viewer", "--population", "none", "--draws", "99"],
]  # fmt: skip


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float) and value != value:
        return "nan"
    return "'none'" if value is None else json.dumps(value).replace("Infinity", "inf")


def plans(draw: random.Random, folder: Path) -> list[str]:
    """A plan with one or two keys that hold something else, are gone, or were never there."""
    audit = draw.choice(list(PLANS))
    plan: dict[str, Any] = {"audit": audit, **PLANS[audit]}
    for _ in range(draw.choice([1, 1, 2])):
        key = draw.choice(
            [
                *plan,
                "by",
                "metrics",
                "level",
                "min_units",
                "weight",
                "check",
                "html",
                "variables",
                "data",
                draw.choice(NAMES),
            ]
        )
        if draw.random() < 0.1:
            plan.pop(key, None)
        else:
            plan[key] = draw.choice(JUNK)
    (folder / "plan.toml").write_text(
        "".join(f"{json.dumps(k)} = {toml(v)}\n" for k, v in plan.items()), encoding="utf-8"
    )
    return ["run", "plan.toml", *draw.choice([[], ["--format", "json"], ["--format", "csv"], ["--at", "2026-01-01"]])]


def words(draw: random.Random, folder: Path) -> list[str]:
    """A command with a word changed, added or gone."""
    typed = list(draw.choice(VERBS))
    at, other = draw.randrange(1, len(typed) + 1), str(draw.choice(JUNK))
    if draw.random() < 0.5:
        typed.insert(at, draw.choice([other, "--format", "--by", "--check", "--min-units", "--seed", "--level"]))
    typed[min(at, len(typed) - 1)] = other
    return [word.replace("\x00", "") for word in typed]


def columns(draw: random.Random, folder: Path) -> list[str]:
    """The columns of a log have odd names; half of the time a role is given by the name of another."""
    unit, amount, by = draw.sample(NAMES, 3)
    table = pl.read_csv(folder / "log.csv").select(
        pl.col("u").alias(unit), pl.col("v").alias(amount), pl.col("s").alias(by)
    )
    ending = draw.choice(["csv", "parquet", "jsonl"])
    path = folder / f"odd.{ending}"
    {"csv": table.write_csv, "parquet": table.write_parquet, "jsonl": table.write_ndjson}[ending](path)
    engine = draw.choice(["polars", "duckdb"])
    typed = [
        "inequality",
        path.name,
        f"--unit={unit}",
        f"--amount={amount}",
        "--population",
        "none",
        f"--by={by}",
        "--engine",
        engine,
    ]
    return [
        *typed,
        "--interval",
        "none",
        "--format",
        draw.choice(["json", "json", "table", "csv", "markdown", "latex"]),
    ]


def mangled(draw: random.Random, folder: Path) -> list[str]:
    """A file of which some bytes are others."""
    name = draw.choice(["log.csv", "log.parquet", "ranked.csv"])
    content = bytearray((folder / name).read_bytes())
    for _ in range(draw.choice([1, 2, 9])):
        at = draw.randrange(len(content))
        content[at : at + draw.choice([0, 1, 1, 40])] = draw.choice(
            [b"", b"\x00", b'"', b"\r", b"\n\n", b",", b"\xff", b"0x10", b"\x1b[3"]
        )
    path = folder / f"bad.{name.partition('.')[2]}"
    path.write_bytes(content)
    if name == "ranked.csv":
        return [
            "exposure",
            path.name,
            "--groups",
            "g",
            "--interval",
            "none",
            "--engine",
            draw.choice(["polars", "duckdb"]),
        ]
    typed = ["inequality", path.name, "--unit", "u", "--amount", "v", "--population", "none", "--interval", "none"]
    return [*typed, "--engine", draw.choice(["polars", "duckdb"])]


def tampered(draw: random.Random, folder: Path) -> list[str]:
    """A saved result in which something is something else."""
    saved = json.loads((folder / "one.json").read_text())
    at: Any = saved
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw.choice(keys)
        if not isinstance(at[key], (dict, list)) or not at[key] or draw.random() < 0.3:
            break
        at = at[key]
    at[key] = draw.choice([one for one in JUNK if one == one and one != float("inf")])
    (folder / "two.json").write_text(json.dumps(saved))
    return draw.choice(
        [
            ["compare", "one.json", "two.json"],
            ["agreement", "two.json"],
            ["compare", "two.json", "one.json", "--html", "r.html"],
        ]
    )


ATTACKS: dict[str, Callable[[random.Random, Path], list[str]]] = {
    "plans": plans, "words": words, "columns": columns, "mangled": mangled, "tampered": tampered,
}  # fmt: skip


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def asked(typed: list[str]) -> tuple[int, str, str]:
    """Exit code, answer and messages of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = evenhand(
                [
                    *typed,
                    *(["--no-progress"] if typed[0] not in ("metrics", "completion", "look", "plan", "advise") else []),
                ]
            )
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


def estimates(saved: str) -> list[Any]:
    """The numbers of a saved result: odd names of columns change none of them."""
    return list(json.loads(saved)["columns"]["estimate"])


def attack(seed: int, rounds: int, only: str = "") -> list[str]:
    """What broke the rule, one line each."""
    broken = []
    with tempfile.TemporaryDirectory() as name, inside(Path(name)):
        folder = Path(name)
        folder_of_data(folder, random.Random(seed))
        asked([*VERBS[9], "--by", "s", "--seed", "1", "--format", "json", "--output", "one.json"])
        expected = estimates((folder / "one.json").read_text())
        for kind, make in ATTACKS.items():
            for i in range(rounds if only in ("", kind) else 0):
                typed = make(random.Random(f"{seed}/{kind}/{i}"), folder)
                code, out, err = asked(typed)
                checked = any("check" in word for word in typed) or kind == "plans"
                silent, coloured = code == 2 and not err.strip(), "\x1b" in out
                other = kind == "columns" and code == 0 and typed[-1] == "json" and estimates(out) != expected
                if (
                    FORBIDDEN.search(err)
                    or code not in ((0, 1, 2) if checked else (0, 2))
                    or silent
                    or coloured
                    or other
                ):
                    made = (folder / "plan.toml").read_text() if kind == "plans" else ""
                    broken.append(f"{kind} {seed}/{i} [{code}]: {typed!r} {made!r} -> {err.strip()[-300:]!r}")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--only", default="", choices=["", *ATTACKS])
    args = parser.parse_args()
    broken = attack(args.seed, args.rounds, args.only)
    print("\n".join(broken) or "nothing broke")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
