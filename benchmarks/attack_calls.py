"""Calls that should succeed: every audit on small odd tables, and the result used in every way.

    python -m benchmarks.attack_calls --seed 7 --rounds 300      # or --minutes 15

The rule: a result, or an `EvenhandError`; warnings of ours only. A result is then read as frame, sentences, text, charts, report
and pivot, saved and loaded, compared with itself and with that of another call. What breaks the rule is printed with how to make
it again, and the exit code is then 1; at the end stand how many calls were made, succeeded and were refused, by audit.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
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
from evenhand.results import load

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


def amounts(draw: random.Random, n: int) -> list[float]:
    """Counts, zeros, heavy tails, ties and very large or small numbers."""
    kinds: list[Callable[[], float]] = [
        lambda: draw.randrange(9), lambda: draw.choice([0, 0, 0, 1]), lambda: 7, lambda: draw.paretovariate(0.8),
        lambda: draw.random() * 1e-9, lambda: draw.randrange(10**12), lambda: round(draw.lognormvariate(0, 2), 2),
    ]  # fmt: skip
    kind = draw.choice(kinds)
    return [float(kind()) for _ in range(n)] if draw.random() < 0.5 else [int(kind()) for _ in range(n)]


def log(draw: random.Random, slice_name: str) -> pl.DataFrame:
    n, units = draw.choice([1, 12, 60, 200, 400]), draw.choice([3, 20, 60])
    labels, day = draw.choice(LABELS), date(2026, 1, 1)
    authors, viewers = [draw.randrange(units) for _ in range(n)], [draw.randrange(30) for _ in range(n)]
    is_of_unit = draw.random() < 0.5  # arms by author, or by viewer
    return pl.DataFrame(
        {
            "u": [f"u{a}" for a in authors], "v": amounts(draw, n), "g": [f"g{a % 3}" for a in authors],
            slice_name: [draw.choice(labels) for _ in range(n)],
            "arm": [("control", "new")[i % 2] for i in (authors if is_of_unit else viewers)],
            "source": [draw.choice(["feed", "search"]) for _ in range(n)], "viewer": viewers, "n": [draw.randrange(5) for _ in range(n)],
            "w": [(1.0, 2.0, 0.5)[a % 3] for a in authors], "day": [day + timedelta(draw.randrange(90)) for _ in range(n)],
        },
        strict=False,
    )  # fmt: skip


def ranked(draw: random.Random, slice_name: str) -> pl.DataFrame:
    requests, items, top = draw.choice([1, 6, 20]), draw.choice([8, 25]), draw.choice([2, 8])
    labels, slices = draw.choice(LABELS), draw.choice(LABELS)
    of_item = {i: draw.choice(labels) for i in range(items)}
    rows = []
    for q in range(requests):
        where = draw.choice(slices)
        for rank, i in enumerate(draw.sample(range(items), top), 1):
            rows.append(
                {"request": f"q{q}", "item": f"i{i}", "rank": rank, "score": draw.choice([1 / rank, draw.random()]), "g": of_item[i],
                 "relevance": draw.choice([0, 0, 1]), "visit": q // 2, slice_name: where}
            )  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def people(draw: random.Random, slice_name: str) -> pl.DataFrame:
    n, labels = draw.choice([4, 60, 300]), draw.choice(LABELS)
    return pl.DataFrame(
        {
            "p": [draw.random() for _ in range(n)], "y": [draw.choice([0, 1]) for _ in range(n)],
            "g": [draw.choice(labels) for _ in range(n)], "h": [draw.choice("xy") for _ in range(n)],
            slice_name: [draw.choice("mn") for _ in range(n)], "c": [draw.randrange(20) for _ in range(n)],
        },
        strict=False,
    )  # fmt: skip


def scores(draw: random.Random, slice_name: str) -> pl.DataFrame:
    users, items, labels = draw.choice([3, 12, 30]), draw.choice([4, 12]), draw.choice(LABELS)
    of_user = [(draw.choice(labels), draw.choice("mn")) for _ in range(users)]
    return pl.DataFrame(
        [
            {"user": f"u{u}", "item": f"i{i}", "score": draw.choice([draw.random(), 0.5]), "group": g, slice_name: s}
            for u, (g, s) in enumerate(of_user)
            for i in range(items)
        ],
        infer_schema_length=None,
    )


def some(draw: random.Random, options: dict[str, list[Any]]) -> dict[str, Any]:
    """Each option with even odds: one of its values, or as the audit has it."""
    return {name: draw.choice(values) for name, values in options.items() if draw.random() < 0.5}


def drawn(draw: random.Random) -> dict[str, Any]:
    intervals = ["percentile(29)", "bootstrap(29)", "normal", None]
    return {
        "interval": draw.choice(intervals),
        "rng": 1,
        **some(draw, {"level": [0.5, 0.9, 0.99], "min_units": [1, 2, 5, 10]}),
    }


def auto(draw: random.Random) -> dict[str, Any]:
    return {
        "interval": draw.choice(["auto", None]),
        "rng": 1,
        **some(draw, {"level": [0.8, 0.95], "min_units": [2, 5, 10]}),
    }


def metrics(draw: random.Random, names: list[str]) -> list[str]:
    return draw.sample(names, draw.choice([1, 2, 3]))


def units(draw: random.Random) -> dict[str, Any]:
    return {
        "unit": "u",
        "amount": draw.choice(["v", "v", "v", None]),
        "population": draw.choice([None, None, None, 100]),
    }


def spread(draw: random.Random, by: str) -> dict[str, list[Any]]:
    return {"by": [by, "arm", [by, "g"], eh.periods("day", every="month"), eh.log_bins("v", 3)], "weight": ["w"]}


RANKS = ["request", "item"]
Make = Callable[[random.Random, str], tuple[Callable[..., eh.Result], list[Any], dict[str, Any]]]


def inequality(draw: random.Random, by: str) -> Any:
    kwargs = (
        units(draw) | drawn(draw) | some(draw, spread(draw, by) | {"within": ["viewer"], "chance": [None, "events"]})
    )
    return eh.inequality, [log(draw, by)], kwargs | {"metrics": metrics(draw, UNEVEN)}


def sources(draw: random.Random, by: str) -> Any:
    return (
        eh.sources,
        [log(draw, by)],
        {**units(draw), "source": draw.choice(["source", by]), **drawn(draw), **some(draw, {"by": ["arm"]})},
    )


def decompose(draw: random.Random, by: str) -> Any:
    kwargs = {**units(draw), "unit": None, "population": None, "group": draw.choice(["g", by]), **drawn(draw)}
    options = {"index": ["gini", "theil", "ge"], "by": ["arm"], "weight": ["w"], "unknown": ["drop"]}
    return eh.decompose, [log(draw, by)], kwargs | some(draw, options)


def criteria(draw: random.Random, by: str) -> Any:
    kwargs = {**units(draw), "draws": 20, "rng": 1, "metrics": metrics(draw, UNEVEN[:5])}
    return eh.criteria, [log(draw, by)], kwargs | some(draw, {"by": [by, "arm"], "min_units": [2, 8]})


def experiment(draw: random.Random, by: str) -> Any:
    table = log(draw, by)
    is_of_unit = table.group_by("u").agg(pl.col("arm").n_unique())["arm"].max() == 1
    randomized = draw.choice(["u" if is_of_unit else "viewer", None])
    kwargs = {**units(draw), **auto(draw), "arm": "arm", "randomized": randomized, "draws": 99}
    options = {
        "by": [by],
        "metrics": [["gini"], ["top_share(p=0.1)", "equal_share"]],
        "equal": ["amount"],
        "shares": [{"control": 0.5, "new": 0.5}],
    }
    return eh.experiment, [table], kwargs | some(draw, options)


def explain(draw: random.Random, by: str) -> Any:
    options = {"source": [by, "source"], "group": ["g"], "metric": UNEVEN[:4], "top": [1, 3], "weight": ["w"]}
    return eh.explain, [log(draw, by)], {**units(draw), **auto(draw), "arm": "arm", **some(draw, options)}


def network(draw: random.Random, by: str) -> Any:
    table = log(draw, by)
    edges = {(draw.randrange(30), f"u{draw.randrange(60)}") for _ in range(draw.choice([5, 100, 300]))}
    follows = pl.DataFrame(sorted(edges), schema=["follower", "followed"], orient="row")
    kwargs = {"unit": "u", "amount": draw.choice(["n", None]), "viewer": "viewer", "draws": 19, **auto(draw)}
    return (
        eh.network,
        [table, follows],
        kwargs | some(draw, {"by": ["arm", by], "metrics": [["gini"], ["top_share(p=0.1)"]]}),
    )


def impact(draw: random.Random, by: str) -> Any:
    side = draw.choice([{"selected": "y"}, {"score": "p"}])
    options = {"min_share": [0.02, 0.2], "level": [0.9], "interval": [None]}
    return (
        eh.impact,
        [people(draw, by)],
        {"group": draw.choice(["g", ["g", "h"], [by, "h"]]), **side, **some(draw, options)},
    )


def prefix(draw: random.Random, by: str) -> Any:
    table = ranked(draw, by)
    options = {
        "by": [by],
        "protected": [table["g"].drop_nulls()[0]],
        "cluster": ["visit"],
        "chance": [None],
        "unknown": ["group"],
    }
    kwargs = {"group": "g", **drawn(draw), "chance": "permutation(29)", **some(draw, options)}
    return eh.prefix, [table], kwargs


def exposure(draw: random.Random, by: str) -> Any:
    table = ranked(draw, by)
    options = {
        "by": [by], "protected": [table["g"].drop_nulls()[0]], "cluster": ["visit"], "relevance": ["relevance"],
        "attention": ["log", "rbp(patience=0.8)", "geometric(stop=0.5)"], "target": ["equal"], "metrics": [["awrf"], ["eed", "awrf"]],
    }  # fmt: skip
    kwargs = {"groups": "g", **drawn(draw), **some(draw, options)}
    return eh.exposure, [table], kwargs | ({"versus": "*"} if "protected" in kwargs else {})


def pairwise(draw: random.Random, by: str) -> Any:
    table = ranked(draw, by)
    options = {"by": [by], "cluster": ["visit"], "average": ["macro"]}
    sides = {"protected": table["g"].drop_nulls()[0], "versus": "*"}
    return (
        eh.pairwise,
        [table],
        {"groups": "g", "relevance": "relevance", **sides, **drawn(draw), **some(draw, options)},
    )


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
    return (
        eh.outcome_test,
        [people(draw, by)],
        {"score": "p", "outcome": "y", "group": draw.choice(["g", "h"]), **kind, **some(draw, options)},
    )


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
        inequality, sources, decompose, criteria, experiment, explain, network, impact, prefix, exposure, pairwise, outcome_test,
        recommender, rebalance, advise,
    )
}  # fmt: skip


def uses(
    result: eh.Result, other: eh.Result, folder: Path, *, wants_report: bool
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every way in which a result leaves, by name."""
    yield "frame", lambda: list(result.frame.columns)
    yield "sentences", lambda: said(result)
    for form in ("table", "csv", "json", "jsonl", "markdown", "latex", "openmetrics"):
        yield form, lambda form=form: result.to_text(form)
    for kind in result.kinds:
        yield f"plot {kind}", lambda kind=kind: json.dumps(result.plot(kind).to_dict(), allow_nan=False, default=str)
    if wants_report:
        yield "report", lambda: result.report(folder / "r.html")
    yield "saved", lambda: same_again(result, folder / "r.json")
    for column in ("group", *result.findings.slices):
        yield f"pivot {column}", lambda column=column: result.pivot(column)
    yield "compare", lambda: said(result.compare(other, independent=True))
    yield "compare saved", lambda: said(load(folder / "r.json").compare(result))
    if hasattr(result, "per_request"):
        yield "per request", lambda: result.per_request


def said(result: eh.Result) -> None:
    for sentence in [result.headline, *result.sentences(), *(c.text for c in result.claims)]:
        if re.search(r"\bnan\b(?!')|\x1b|\bNone of the\b.*None", sentence):
            raise AssertionError(f"a sentence says {sentence!r}")


def same_again(result: eh.Result, path: Path) -> None:
    path.write_text(result.to_json(), encoding="utf-8")
    if load(path).to_json() != result.to_json():
        raise AssertionError("a saved result is another one when loaded")


def attack(seed: int, index: int, audit: str, folder: Path) -> tuple[str, str]:
    """How a call ended ("result", "refused" or "broken"), and what it said."""
    draw = random.Random(f"{seed}/{audit}/{index}")
    by = draw.choice(SLICES)
    function, tables, kwargs = AUDITS[audit](draw, by)
    frame = draw.choice(list(FRAMES))
    ready = [FRAMES[frame](t) for t in tables]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", eh.DataWarning)
        warnings.simplefilter("ignore", eh.UndefinedWarning)
        try:
            result = function(*ready, **kwargs)
            half = [FRAMES[frame](t.head(max(1, t.height // 2))) for t in tables]
            try:
                other = function(*half, **kwargs)
            except eh.EvenhandError:
                other = result
        except eh.EvenhandError as error:
            return "refused", str(error)
        except Exception:  # noqa: BLE001 - that is what is looked for
            return "broken", f"{audit} {seed}/{index} ({frame}): {kwargs!r}\n{traceback.format_exc(limit=-4)}"
        stage = "charts"
        try:
            for stage, use in uses(result, other, folder, wants_report=index % 4 == 0):  # noqa: B007 - read where it ends
                with contextlib.suppress(eh.EvenhandError):  # a comparison or pivot that makes no sense says so
                    use()
        except Exception:  # noqa: BLE001 - that is what is looked for
            return "broken", f"{audit} {seed}/{index} ({frame}), {stage}: {kwargs!r}\n{traceback.format_exc(limit=-4)}"
    return "result", ""


def play(
    seed: int, rounds: int, only: str = "", minutes: float = float("inf")
) -> tuple[dict[str, collections.Counter[str]], list[str]]:
    """How the calls ended by audit, and what broke or was refused, one text each."""
    ends: dict[str, collections.Counter[str]] = {a: collections.Counter() for a in AUDITS if only in ("", a)}
    texts: list[str] = []
    stop = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as name:
        for index in range(rounds):
            for audit, counts in ends.items():
                if time.monotonic() > stop:
                    return ends, texts
                end, text = attack(seed, index, audit, Path(name))
                counts[end] += 1
                counts[f"{end}: {text.splitlines()[0][:160]}" if end == "refused" else ""] += 1
                texts += [text] if end == "broken" else []
    return ends, texts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20, help="calls of every audit")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many minutes")
    parser.add_argument("--only", default="", choices=["", *AUDITS])
    parser.add_argument("--refusals", action="store_true", help="print the sentences of refusals, most frequent first")
    args = parser.parse_args()
    ends, broken = play(args.seed, args.rounds, args.only, args.minutes)
    print("\n".join(broken))
    total = sum(ends.values(), collections.Counter())
    for audit, counts in [*ends.items(), ("all", total)]:
        calls = counts["result"] + counts["refused"] + counts["broken"]
        print(
            f"{audit:14} {calls:7,} calls  {counts['result'] / max(1, calls):4.0%} results  {counts['broken']:4} broken"
        )
        if args.refusals and audit != "all":
            for text, times in counts.most_common(12):
                print(
                    f"      {times:4} {text}" if text.startswith("refused: ") else "",
                    end="\n" if text.startswith("refused: ") else "",
                )
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
