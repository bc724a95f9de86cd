"""A fuzzer, by seed: commands that are wrong in some way, and calls of every audit that should succeed.

    python -m benchmarks.attack --seed 7 --rounds 300 --only plans     # commands: plans, words, columns, mangled, tampered
    python -m benchmarks.attack --calls 100000 --append calls.jsonl    # audits, until so many calls are in the file

The rule of a command: exit code 0, or 2 and a sentence of ours; never a traceback, a fault of ours, an engine's own words or an
escape sequence. The rule of a call: a result, or an `EvenhandError` of a fact and a remedy; warnings of ours only. A result is
then used in two ways at random (`--all-ways`: in every way): as frame, sentences, text, charts, report, pivot, history and gate, saved and
loaded, compared with that of half of its table. What breaks the rule is printed with how to make it again, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import os
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl

import evenhand as eh
from evenhand.cli import main as evenhand
from evenhand.results import load

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


COMMANDS: dict[str, Callable[[random.Random, Path], list[str]]] = {
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
        for kind, make in COMMANDS.items():
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


LABELS: list[list[Any]] = [
    ["a", "b", "c"], ["a", "b"], [f"g{i}" for i in range(12)], ["", "b", " "], ["ünï", "\N{SNOWMAN}", "a\nb"], [1, 2, 3],
    ["\x1b[31m", "\x1b[32m", "x"], [True, False], ["<b>", "&amp;", "'\""], ["a", None, "b"],
    [date(2026, 1, 1), date(2026, 1, 2)],
    ["total", "estimate", "null"], ["a" * 200, "b"], ["=1+1", "-x", "@y"],
]  # fmt: skip
SLICES = ["s", "a.b", "land\nland", "q'uote", "x" * 80, "a:b", "ünï"]
FRAMES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda t: t, "lazy": lambda t: t.lazy(), "pandas": lambda t: t.to_pandas(), "arrow": lambda t: t.to_arrow(),
}  # fmt: skip
UNEVEN = [
    "gini", "atkinson(epsilon=0.5)", "atkinson", "top_share(p=0.1)", "equal_share", "generalized_entropy(alpha=2)",
    "percentile_ratio", "share_ratio", "equivalent_to_top", "percentile(p=0.9)",
]  # fmt: skip


def amounts(draw: random.Random, n: int, *, whole: bool = False) -> list[float]:
    """Counts, zeros, heavy tails, ties and very large or small numbers."""
    kinds: list[Callable[[], float]] = [
        lambda: draw.randrange(9), lambda: draw.choice([0, 0, 0, 1]), lambda: 7, lambda: draw.paretovariate(0.8),
        lambda: draw.random() * 1e-9, lambda: draw.randrange(10**12), lambda: round(draw.lognormvariate(0, 2), 2),
    ]  # fmt: skip
    kind = draw.choice(kinds[:4] if whole else kinds)
    return [int(kind()) for _ in range(n)] if whole or draw.random() < 0.5 else [float(kind()) for _ in range(n)]


def log(draw: random.Random, slice_name: str, *, whole: bool = False, arms: str = "") -> pl.DataFrame:
    """Amounts of units; `arms` belong to the `unit`, the `viewer` or either."""
    n, units = draw.choice([1, 12, 40, 90] if not arms else [12, 40, 90]), draw.choice([3, 20, 40])
    labels, day = draw.choice(LABELS), date(2026, 1, 1)
    authors, viewers = [draw.randrange(units) for _ in range(n)], [draw.randrange(30) for _ in range(n)]
    codes = authors if (arms or draw.choice(["unit", "viewer"])) == "unit" else viewers
    return pl.DataFrame(
        {
            "u": [f"u{a}" for a in authors], "v": amounts(draw, n, whole=whole), "g": [f"g{a % 3}" for a in authors],
            slice_name: [draw.choice(labels) for _ in range(n)], "arm": [("control", "new")[i % 2] for i in codes],
            "source": [draw.choice(["feed", "search"]) for _ in range(n)], "viewer": viewers, "n": [draw.randrange(5) for _ in range(n)],
            "w": [(1.0, 2.0, 0.5)[a % 3] for a in authors], "size": [a % 7 for a in authors],
            "day": [day + timedelta(draw.randrange(90)) for _ in range(n)],
        },
        strict=False,
    )  # fmt: skip


def ranked(draw: random.Random, slice_name: str) -> pl.DataFrame:
    requests, items, top = draw.choice([1, 6, 12]), draw.choice([8, 25]), draw.choice([2, 6])
    labels, slices = draw.choice(LABELS), draw.choice(LABELS)
    of_item = {i: labels[i] if i < len(labels) else draw.choice(labels) for i in range(items)}
    rows = []
    for q in range(requests):
        where = draw.choice(slices)
        for rank, i in enumerate(draw.sample(range(items), top), 1):
            rows.append(
                {"request": f"q{q}", "item": f"i{i}", "rank": rank, "score": draw.choice([1 / rank, draw.random()]), "g": of_item[i],
                 "relevance": draw.choice([0, 0, 1]), "visit": q // 2, "run": "AB"[q % 2], slice_name: where}
            )  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def people(draw: random.Random, slice_name: str) -> pl.DataFrame:
    n, labels = draw.choice([4, 30, 120]), draw.choice(LABELS)
    return pl.DataFrame(
        {
            "p": [draw.random() for _ in range(n)], "y": [draw.choice([0, 1]) for _ in range(n)],
            "g": [draw.choice(labels) for _ in range(n)], "h": [draw.choice("xy") for _ in range(n)],
            slice_name: [draw.choice("mn") for _ in range(n)], "c": [draw.randrange(20) for _ in range(n)],
        },
        strict=False,
    )  # fmt: skip


def scores(draw: random.Random, slice_name: str) -> pl.DataFrame:
    users, items, labels = draw.choice([3, 8, 20]), draw.choice([4, 10]), draw.choice(LABELS)
    of_user = [(draw.choice(labels), draw.choice("mn")) for _ in range(users)]
    return pl.DataFrame(
        [
            {"user": f"u{u}", "item": f"i{i}", "score": draw.choice([draw.random(), 0.5]), "group": g, slice_name: s}
            for u, (g, s) in enumerate(of_user)
            for i in range(items)
        ],
        infer_schema_length=None,
    )


def first_label(rankings: pl.DataFrame) -> Any:
    labels = rankings["g"].drop_nulls()
    return labels[0] if len(labels) else "a"


def some(draw: random.Random, options: dict[str, list[Any]]) -> dict[str, Any]:
    """Each option with even odds: one of its values, or as the audit has it."""
    return {name: draw.choice(values) for name, values in options.items() if draw.random() < 0.5}


def drawn(
    draw: random.Random, intervals: tuple[str | None, ...] = ("percentile(20)", "bootstrap(20)", "normal", None)
) -> dict[str, Any]:
    options = {"level": [0.5, 0.9, 0.99], "min_units": [1, 2, 5, 10]}
    return {"interval": draw.choice(intervals), "rng": 1, **some(draw, options)}


def metrics(draw: random.Random, names: list[str]) -> list[str]:
    return draw.sample(names, draw.choice([1, 2, 3]))


def units(draw: random.Random) -> dict[str, Any]:
    return {"unit": "u", "amount": draw.choice(["v", "v", "v", None])}


Kwargs = dict[str, Any]
Make = Callable[[random.Random, str], tuple[Callable[..., eh.Result], list[Any], Kwargs]]


def inequality(draw: random.Random, by: str) -> Any:
    slices = [by, "arm", [by, "g"], eh.periods("day", every="month"), eh.log_bins("size", 3)]
    options: dict[str, list[Any]] = {"by": slices, "chance": [None, "events"]}
    unseen = draw.choice([{"population": None}, {"population": None, "weight": "w"}, {"population": 100}])
    if "weight" not in unseen:
        options["within"] = ["viewer"]
    extra = some(draw, options)
    if extra.get("by") in slices[2:]:  # units that nobody saw have no group and no size
        unseen["population"] = None
    kwargs = units(draw) | drawn(draw) | unseen | extra
    return eh.inequality, [log(draw, by)], kwargs | {"metrics": metrics(draw, UNEVEN)}


def sources(draw: random.Random, by: str) -> Any:
    kwargs = {
        **units(draw),
        "population": draw.choice([None, 100]),
        "source": draw.choice(["source", by]),
        **drawn(draw),
    }
    return eh.sources, [log(draw, by)], kwargs | some(draw, {"by": ["arm"]})


def decompose(draw: random.Random, by: str) -> Any:
    kwargs = {**units(draw), "unit": None, "population": None, "group": draw.choice(["g", by]), **drawn(draw)}
    options = {"index": ["gini", "theil", "ge"], "by": ["arm"], "weight": ["w"], "unknown": ["drop"]}
    return eh.decompose, [log(draw, by)], kwargs | some(draw, options)


def criteria(draw: random.Random, by: str) -> Any:
    kwargs = {
        **units(draw),
        "population": draw.choice([None, 100]),
        "draws": 20,
        "rng": 1,
        "metrics": metrics(draw, UNEVEN[:5]),
    }
    return eh.criteria, [log(draw, by)], kwargs | some(draw, {"by": [by, "arm"], "min_units": [2, 8]})


def experiment(draw: random.Random, by: str) -> Any:
    arms = draw.choice(["unit", "viewer"])
    randomized = draw.choice(["u" if arms == "unit" else "viewer", None])
    options: dict[str, list[Any]] = {
        "by": [by], "metrics": [["gini"], ["top_share(p=0.1)", "equal_share"]], "shares": [{"control": 0.5, "new": 0.5}],
    }  # fmt: skip
    if randomized == "viewer":
        options["equal"] = ["amount"]
    extra = some(draw, options)
    kwargs = {
        **units(draw),
        "population": None,
        **drawn(draw, ("auto", None)),
        "arm": "arm",
        "randomized": randomized,
        "draws": 99,
    }
    return eh.experiment, [log(draw, by, whole="equal" in extra, arms=arms)], kwargs | extra


def explain(draw: random.Random, by: str) -> Any:
    options = {"source": [by, "source"], "group": ["g"], "metric": UNEVEN[:4], "top": [1, 3], "weight": ["w"]}
    kwargs = {**units(draw), "population": None, **drawn(draw, ("auto", None, None, None, None)), "arm": "arm"}
    return eh.explain, [log(draw, by, arms=draw.choice(["unit", "viewer"]))], kwargs | some(draw, options)


def network(draw: random.Random, by: str) -> Any:
    edges = {(draw.randrange(30), f"u{draw.randrange(40)}") for _ in range(draw.choice([20, 60, 120]))}
    follows = pl.DataFrame(sorted(edges), schema=["follower", "followed"], orient="row")
    kwargs = {
        "unit": "u",
        "amount": draw.choice(["n", None]),
        "viewer": "viewer",
        "draws": 19,
        **drawn(draw, ("auto", None)),
    }
    options = {"by": ["arm", by], "metrics": [["gini"], ["top_share(p=0.1)"]]}
    return eh.network, [log(draw, by, arms="viewer"), follows], kwargs | some(draw, options)


def impact(draw: random.Random, by: str) -> Any:
    kwargs = {"group": draw.choice(["g", ["g", "h"], [by, "h"]]), **draw.choice([{"selected": "y"}, {"score": "p"}])}
    options = {"min_share": [0.02, 0.2], "level": [0.9], "interval": [None], "min_units": [2, 5]}
    return eh.impact, [people(draw, by)], kwargs | some(draw, options)


def prefix(draw: random.Random, by: str) -> Any:
    table = ranked(draw, by)
    options = {
        "by": [by], "protected": [first_label(table)], "cluster": ["visit"], "chance": [None], "unknown": ["group"],
        "system": ["run"],
    }  # fmt: skip
    return eh.prefix, [table], {"group": "g", **drawn(draw), "chance": "permutation(29)", **some(draw, options)}


def exposure(draw: random.Random, by: str) -> Any:
    table = ranked(draw, by)
    options = {
        "by": [by], "protected": [first_label(table)], "cluster": ["visit"], "relevance": ["relevance"],
        "attention": ["log", "rbp(patience=0.8)", "geometric(stop=0.5)"], "target": ["equal"], "metrics": [["awrf"], ["eed", "awrf"]],
        "system": ["run"],
    }  # fmt: skip
    kwargs = {"groups": "g", **drawn(draw), **some(draw, options)}
    return eh.exposure, [table], kwargs | ({"versus": "*"} if "protected" in kwargs else {})


def pairwise(draw: random.Random, by: str) -> Any:
    table = ranked(draw, by)
    sides = {"protected": first_label(table), "versus": "*"}
    kwargs = {"groups": "g", "relevance": "relevance", **sides, **drawn(draw)}
    return eh.pairwise, [table], kwargs | some(draw, {"by": [by], "cluster": ["visit"], "average": ["macro"]})


def sensitivity(draw: random.Random, by: str) -> Any:
    vary = draw.choice(
        [
            {"attention": ["log", "rbp(patience=0.8)"]},
            {"metrics": ["awrf", "awrf@2"], "target": ["equal", "population"]},
        ]
    )
    kwargs = {"groups": "g", "system": "run", "vary": vary, **drawn(draw, ("percentile(20)", None))}
    return lambda table, **options: eh.sensitivity(eh.exposure, table, **options), [ranked(draw, by)], kwargs


def agreement(draw: random.Random, by: str) -> Any:
    def agree(table: Any, **options: Any) -> eh.Result:
        return eh.agreement(eh.exposure(table, **options), draws=99, rng=1)

    kwargs = {"groups": "g", "system": "run", "interval": None, "metrics": ["awrf", "awrf@2"]}
    return agree, [ranked(draw, by)], kwargs | some(draw, {"by": [by], "min_units": [2]})


def outcome_test(draw: random.Random, by: str) -> Any:
    options = {
        "by": [by],
        "bins": [2, 3, 5],
        "cluster": ["c"],
        "min_units": [2, 10],
        "level": [0.9],
        "unknown": ["group"],
    }
    kind = draw.choice([{}, {"kind": "classification", "threshold": 0.5}])
    kwargs = {"score": "p", "outcome": "y", "group": draw.choice(["g", "h"]), **kind}
    return eh.outcome_test, [people(draw, by)], kwargs | some(draw, options)


def recommender(draw: random.Random, by: str) -> Any:
    options = {"by": [by], "user_groups": ["group"], "ties": ["last", "fractional"], "normalize": [True]}
    kwargs = {"top": draw.choice([1, 2, 3]), "chance": draw.choice([None, "permutation(29)"]), **drawn(draw)}
    return eh.recommender, [scores(draw, by)], kwargs | some(draw, options)


def rebalance(draw: random.Random, by: str) -> Any:
    options = {"providers": ["g"], "strength": [[0.1], [0.02, 0.5]], "holdout": [0, 0.5], "relevance": ["relevance"]}
    kwargs = {"top": draw.choice([1, 2]), "iterations": 5, "rng": 1, "interval": draw.choice(["normal", None])}
    return eh.rebalance, [ranked(draw, by)], kwargs | some(draw, options)


def advise(draw: random.Random, by: str) -> Any:
    options = {"balance": ["low", "high"], "bias": ["low", "high"], "viewpoints": [2, 5]}
    table = draw.choice([[], [ranked(draw, by)]])
    return eh.advise, table, (({"group": "g", "rng": 1} if table else {}) | some(draw, options))


AUDITS: dict[str, Make] = {
    f.__name__: f
    for f in (
        inequality, sources, decompose, criteria, experiment, explain, network, impact, prefix, exposure, pairwise, sensitivity,
        agreement, outcome_test, recommender, rebalance, advise,
    )
}  # fmt: skip
SLOW_WAYS = {"plot": 0.3, "report": 0.15}
"""How often a use is drawn where the others have 1: a chart takes 100 ms, a report 400 ms, the others 1 ms."""


def uses(result: eh.Result, repeat: Callable[[], eh.Result], folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every way in which a result leaves, by name; `repeat` makes the call on half of the table."""
    yield "frame", lambda: list(result.frame.columns)
    yield "sentences", lambda: said(result)
    for form in ("table", "csv", "json", "jsonl", "markdown", "latex", "openmetrics"):
        yield form, lambda form=form: result.to_text(form)
    for kind in result.kinds:
        yield f"plot {kind}", lambda kind=kind: json.dumps(result.plot(kind).to_dict(), allow_nan=False, default=str)
    yield "report", lambda: result.report(folder / "r.html")
    yield "saved", lambda: same_again(result, folder / "r.json")
    for column in ("group", *result.findings.slices):
        yield f"pivot {column}", lambda column=column: result.pivot(column)
    yield "compare", lambda: said(result.compare(repeat(), independent=True))
    yield "compare saved", lambda: said(same_again(result, folder / "r.json").compare(result))
    yield "check", lambda: str(result.check([f"{result.frame['metric'][0]} <= 0.5"]))
    yield "history", lambda: kept(result, folder / "h.parquet")
    if hasattr(result, "per_request"):
        yield "per request", lambda: result.per_request


def said(result: eh.Result) -> None:
    for sentence in [result.headline, *result.sentences(), *(c.text for c in result.claims)]:
        if re.search(r"\bnan\b(?!')|\x1b|\bNone of the\b.*None", sentence):
            raise AssertionError(f"a sentence says {sentence!r}")


def same_again(result: eh.Result, path: Path) -> eh.Result:
    path.write_text(result.to_json(), encoding="utf-8")
    loaded = load(path)
    if loaded.to_json() != result.to_json():
        raise AssertionError("a saved result is another one when loaded")
    return loaded


def kept(result: eh.Result, path: Path) -> None:
    path.unlink(missing_ok=True)
    past = eh.History(path)
    past.append(result, at=date(2026, 1, 1))
    past.append(result, at=date(2026, 1, 2))
    said(past.trend())
    _ = past.frame, past.latest(), past.alarms()


def is_two_sentences(error: eh.EvenhandError) -> bool:
    """A fact and a remedy, in our words."""
    text = str(error)
    return len(re.findall(r"[.:?](\s|$)", text)) >= 2 and not re.search(
        r"datetime\.|Traceback|<class|object at 0x", text
    )


def call(seed: int, index: int, audit: str, folder: Path, ways: int | None = 2) -> tuple[str, str]:
    """How a call ended ("result", "refused" or "broken"), and what it said."""
    draw = random.Random(f"{seed}/{audit}/{index}")
    function, tables, kwargs = AUDITS[audit](draw, draw.choice(SLICES))
    frame = draw.choice(list(FRAMES))
    where = "call"

    def run(portion: int) -> eh.Result:
        return function(*(FRAMES[frame](t.head(max(1, t.height // portion))) for t in tables), **kwargs)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", eh.DataWarning)
        warnings.simplefilter("ignore", eh.UndefinedWarning)
        try:
            result = run(1)
            where = "charts"
            named = list(uses(result, lambda: run(2), folder))
            if ways is not None:
                named = draw.choices(named, [SLOW_WAYS.get(name.split()[0], 1.0) for name, _ in named], k=ways)
            for where, use in named:  # noqa: B007 - read where it ends
                try:
                    use()
                except eh.EvenhandError as error:  # a comparison or pivot that makes no sense says so
                    if not is_two_sentences(error):
                        raise AssertionError(f"no remedy in {error}") from error
        except eh.EvenhandError as error:
            if is_two_sentences(error):
                return "refused", str(error)
            return "broken", f"{audit} {seed}/{index} ({frame}), {where}: no remedy in {error}"
        except Exception:  # noqa: BLE001 - that is what is looked for
            return "broken", f"{audit} {seed}/{index} ({frame}), {where}: {kwargs!r}\n{traceback.format_exc(limit=-4)}"
    return "result", ""


Ends = dict[str, collections.Counter[str]]


def play(seed: int, rounds: int, only: str = "", ways: int | None = 2) -> tuple[Ends, list[str]]:
    """How the calls ended by audit, and what broke, one text each."""
    ends: Ends = {a: collections.Counter() for a in AUDITS if only in ("", a)}
    broken: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for index in range(rounds):
            for audit, counts in ends.items():
                end, text = call(seed, index, audit, Path(name), ways)
                counts[end] += 1
                counts[f"refused: {text.splitlines()[0][:160]}" if end == "refused" else ""] += 1
                broken += [text] if end == "broken" else []
    return ends, broken


def table_of(ends: Ends, *, with_refusals: bool) -> Iterator[str]:
    """Calls, results and refusals by audit."""
    total = sum(ends.values(), collections.Counter())
    for audit, counts in [*ends.items(), ("all", total)]:
        calls = counts["result"] + counts["refused"] + counts["broken"]
        yield f"{audit:14} {calls:7,} calls  {counts['result'] / max(1, calls):4.0%} results  {counts['broken']:4} broken"
        if with_refusals and audit != "all":
            yield from (f"      {n:4} {text}" for text, n in counts.most_common(12) if text.startswith("refused: "))


ROUNDS = 10
"""Calls of every audit for one seed: a line of the file in half a minute."""


def many(calls: int, path: Path) -> Ends:
    """Calls appended to a file, a line per seed, until it holds so many."""
    ends: Ends = collections.defaultdict(collections.Counter)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        for line in path.read_text().splitlines():
            for audit, counts in json.loads(line)["ends"].items():
                ends[audit].update(counts)
    done = sum(n for counts in ends.values() for n in counts.values())
    seed = 1000 + done // (ROUNDS * len(AUDITS))
    while done < calls:
        start = time.monotonic()
        found, broken = play(seed, ROUNDS)
        plain = {a: {end: counts[end] for end in ("result", "refused", "broken")} for a, counts in found.items()}
        line = {"seed": seed, "seconds": round(time.monotonic() - start, 1), "ends": plain, "broken": broken}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        for audit, ended in plain.items():
            ends[audit].update(ended)
        done, seed = done + ROUNDS * len(AUDITS), seed + 1
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20, help="commands of each kind, or calls of every audit")
    parser.add_argument("--only", default="", choices=["", *COMMANDS, *AUDITS])
    parser.add_argument("--all-ways", action="store_true", help="use results in every way, not in two")
    parser.add_argument("--refusals", action="store_true", help="print the sentences of refusals, most frequent first")
    parser.add_argument("--calls", type=int, default=0, help="make so many calls, with --append")
    parser.add_argument("--append", type=Path, help="a file for their ends, a line per seed")
    args = parser.parse_args()
    broken: list[str] = []
    ends: Ends = {}
    if args.calls:
        ends = many(args.calls, args.append)
        broken = [text for line in args.append.read_text().splitlines() for text in json.loads(line)["broken"]]
    else:
        if args.only not in AUDITS:
            broken += attack(args.seed, args.rounds, args.only)
        if args.only not in COMMANDS:
            ends, texts = play(args.seed, args.rounds, args.only, None if args.all_ways else 2)
            broken += texts
    print("\n".join([*(broken or ["nothing broke"]), *table_of(ends, with_refusals=args.refusals)]))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
