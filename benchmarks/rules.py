"""`python -m benchmarks.rules`: the rules of every interval, in random worlds over all audits.

No interval may exclude its own estimate, leave the span of its metric, have no width, or be missing without a note, and every
answer says what its intervals are for. Exit 1 where one does not. The tests run a few hundred of these worlds.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.findings import card_of

Rng = np.random.Generator
DRAWS = 29


def amounts(rng: Rng, units: int) -> np.ndarray:
    """Amounts as people have them: counts, whales, zeros, a constant, heavy tails."""
    kind = rng.integers(6)
    if kind == 0:
        return rng.poisson(rng.lognormal(0, 1, units)).astype(float)
    if kind == 1:
        return np.where(rng.random(units) < 0.7, 0.0, rng.lognormal(0, 2, units))
    if kind == 2:
        return np.full(units, float(rng.integers(0, 3)))
    if kind == 3:
        return rng.pareto(1.2, units) + 1
    if kind == 4:
        return np.where(rng.random(units) < 0.03, 1e6, 1.0)
    return rng.gamma(rng.uniform(0.2, 5), 1, units)


def how(rng: Rng) -> dict[str, Any]:
    kind = ("bootstrap", "bootstrap", "percentile", "normal")[rng.integers(4)]
    return {"interval": kind if kind == "normal" else f"{kind}({DRAWS})", "rng": int(rng.integers(1 << 30))}


def of_units(rng: Rng) -> Any:
    units = int(rng.integers(1, 80))
    table = pl.DataFrame({"unit": np.arange(units), "amount": amounts(rng, units)})
    metrics = [
        "gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "top_share(p=0.1)", "top_share(p=1)", "equal_share",
        "equivalent_to_top", "palma", "theil", "hoover", "percentile(p=0.9)", "bottom_share(p=0.5)",
    ]  # fmt: skip
    population = None if rng.random() < 0.5 else units + int(rng.integers(0, 50))
    return eh.inequality(table, unit="unit", amount="amount", population=population, metrics=metrics, **how(rng))


def of_viewers(rng: Rng) -> Any:
    rows = int(rng.integers(1, 300))
    table = pl.DataFrame(
        {"unit": rng.integers(0, 20, rows), "viewer": rng.integers(0, int(rng.integers(1, 40)), rows), "n": rng.poisson(2, rows)}
    )  # fmt: skip
    within = "viewer" if rng.random() < 0.5 else ["viewer", "unit"]
    return eh.inequality(table, unit="unit", amount="n", population=25, within=within, **how(rng))


def of_parts(rng: Rng) -> Any:
    units = int(rng.integers(1, 60))
    table = pl.DataFrame(
        {"unit": np.arange(units), "amount": amounts(rng, units), "part": rng.choice(["a", "b", "c"], units)}
    )
    if rng.random() < 0.5:
        return eh.sources(table, unit="unit", amount="amount", source="part", population=units + 3, **how(rng))
    index = ("gini", "theil", "atkinson(epsilon=0.5)")[rng.integers(3)]
    return eh.decompose(table, unit="unit", amount="amount", group="part", population=None, index=index, **how(rng))


def rankings(rng: Rng, systems: int = 1) -> pl.DataFrame:
    requests, long = int(rng.integers(1, 30)), int(rng.integers(1, 8))
    size = systems * requests * long
    order = np.argsort(rng.random((systems * requests, 12)), axis=1)[:, :long]
    return pl.DataFrame(
        {
            "system": np.repeat([f"s{i}" for i in range(systems)], requests * long),
            "request": np.tile(np.repeat(np.arange(requests), long), systems),
            "item": order.ravel(),
            "rank": np.tile(np.arange(1, long + 1), systems * requests),
            "score": rng.random(size),
            "relevance": rng.integers(0, 2, size),
            "group": np.where(order.ravel() < rng.integers(1, 12), "f", "m"),
        }
    )


def of_exposure(rng: Rng) -> Any:
    run = rankings(rng)
    groups = {i: "f" if i < 5 else "m" for i in range(12)}
    call = {"groups": groups, "protected": "f", "relevance": "relevance", "chance": False}
    metrics = ["awrf", "log_dp", "eed", "eel", "eer", "log_eur", "dp"]
    if rng.random() < 0.3:  # items are resampled where relevance is not read
        call |= {"resample": "requests_and_items"}
        metrics = ["awrf", "log_dp", "eed", "dp"]
    return eh.exposure(run, **call, metrics=metrics, **how(rng))


def of_prefixes(rng: Rng) -> Any:
    run = rankings(rng)
    side = run["group"][0]
    return eh.prefix(run, group="group", protected=side, metrics=["ndd", "ndkl"], chance=None, **how(rng))


def of_pairs(rng: Rng) -> Any:
    return eh.pairwise(rankings(rng), groups="group", relevance="relevance", protected="f", **how(rng))


def of_systems(rng: Rng) -> Any:
    groups = {i: "f" if i < 5 else "m" for i in range(12)}
    run = rankings(rng, systems=2)
    call = {"groups": groups, "protected": "f", "system": "system", "chance": False, "interval": None}
    return eh.compare(eh.exposure(run, **call, metrics=["awrf", "eed"]), draws=99, rng=1)


def of_recommendations(rng: Rng) -> Any:
    users, items = int(rng.integers(2, 60)), int(rng.integers(3, 30))
    scores = rng.random((users, items)) + (rng.random(items) * rng.integers(0, 3))
    groups = ["a", "b", *rng.choice(["a", "b"], users - 2)]
    return eh.recommender(scores, user_groups=groups, top=2, chance=None, **how(rng))


def of_outcomes(rng: Rng) -> Any:
    rows = int(rng.integers(30, 200))
    table = pl.DataFrame(
        {
            "score": rng.random(rows).round(2), "outcome": (rng.random(rows) < rng.random()).astype(int),
            "group": ["a", "b", *rng.choice(["a", "b"], rows - 2)], "treated": np.ones(rows, dtype=bool),
        }
    )  # fmt: skip
    return eh.outcome_test(table, score="score", outcome="outcome", group="group", bins=3)


def of_arms(rng: Rng) -> Any:
    """An experiment: viewers or units in arms, or the same units seen twice."""
    rows = int(rng.integers(40, 400))
    viewer, unit = rng.integers(0, int(rng.integers(2, 60)), rows), rng.integers(0, int(rng.integers(2, 40)), rows)
    design = (("viewer", viewer), ("unit", unit), (None, rng.integers(0, 2, rows)))[rng.integers(3)]
    table = pl.DataFrame({"viewer": viewer, "unit": unit, "n": rng.poisson(2, rows), "arm": design[1] % 2})
    call = {"unit": "unit", "amount": "n", "arm": "arm", "randomized": design[0], "control": 0, "population": None}
    metrics = ["gini", "top_share(p=0.1)", "atkinson(epsilon=0.5)"]
    return eh.experiment(table, **call, metrics=metrics, draws=99, rng=int(rng.integers(1 << 30)))


def of_policies(rng: Rng) -> Any:
    requests, items = int(rng.integers(2, 40)), int(rng.integers(2, 12))
    request, item = np.repeat(np.arange(requests), items), np.tile(np.arange(items), requests)
    table = pl.DataFrame({"request": request, "item": item, "score": rng.random(requests * items)})
    return eh.rebalance(table, top=2, strength=(0.1, 0.9), iterations=5, rng=int(rng.integers(1 << 30)))


def of_two_results(rng: Rng) -> Any:
    asked = how(rng)
    one, other = (
        eh.inequality(pl.DataFrame({"n": amounts(rng, int(rng.integers(1, 80)))}), unit=None, amount="n", population=None, **asked)
        for _ in range(2)
    )  # fmt: skip
    return eh.compare(one, other, independent=bool(rng.random() < 0.7))


WORLDS: tuple[Callable[[Rng], Any], ...] = (
    of_units, of_units, of_viewers, of_parts, of_exposure, of_prefixes, of_pairs, of_systems, of_recommendations, of_outcomes,
    of_arms, of_policies, of_two_results,
)  # fmt: skip


def broken(result: Any) -> Iterator[str]:
    """What is wrong with the intervals of a result."""
    compared = result.findings.audit in ("compare", "experiment")  # differences: no card has their span
    alone = len({g for g in result.findings.columns["group"] if g}) == 1  # what lies between groups is then certain
    if not result.provenance.get("interval_for") and any(x == x for x in result.findings.columns["low"]):
        yield f"{result.findings.audit}: nothing says what its intervals are for"
    for r in result.findings.rows():
        estimate, low, high = (math.nan if r[k] is None else r[k] for k in ("estimate", "low", "high"))
        asked = None if compared else card_of(r["metric"])
        span = (-math.inf, math.inf) if asked is None else asked.span
        certain = asked is not None and asked.certain
        where = f"{result.findings.audit} {r['metric']} {r['group'] or ''}: {estimate} [{low}, {high}] note {r['note']}"
        if math.isnan(low) != math.isnan(high):
            yield f"one end only: {where}"
        elif math.isnan(low):
            if not r["note"]:
                yield f"no interval and no note: {where}"
        elif math.isnan(estimate) or not low <= estimate <= high:
            yield f"does not hold its estimate: {where}"
        elif low < span[0] or high > span[1]:
            yield f"leaves the span {span}: {where}"
        elif low == high and not certain and not alone:
            yield f"has no width: {where}"


def faults(worlds: int, seed: int, measured: Counter[str] | None = None) -> Iterator[str]:
    """All that is wrong in so many random worlds; `measured` counts, by kind, those that had something to measure."""
    for i in range(worlds):
        rng = np.random.default_rng([seed, i])
        world = WORLDS[i % len(WORLDS)]
        try:
            found = world(rng)
        except eh.EvenhandError:
            continue  # this world has nothing to measure, and says so
        if measured is not None:
            measured[world.__name__] += 1
        yield from (f"world {i}: {fault}" for fault in broken(found))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=2026)
    args = parser.parse_args(words)
    count, measured = 0, Counter[str]()
    for fault in faults(args.worlds, args.seed, measured):
        count += 1
        print(fault, flush=True)
    print(f"{args.worlds:,} random worlds, seed {args.seed}: {count} faults; measured {dict(measured)}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
