"""Do metrics agree on which system is fairer? Kendall's tau-c between metrics, over systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from evenhand.audits.assemble import as_columns
from evenhand.audits.declare import Call, audit
from evenhand.audits.parameters import Seed, Takes
from evenhand.audits.systems import Standing, named, opened, standings
from evenhand.cards import Between
from evenhand.claims import Candidate, direction_of
from evenhand.errors import EvenhandError
from evenhand.intervals.difference import holm
from evenhand.metrics.agreement import EXACT, both_known, tau_c, tau_c_p
from evenhand.results import Result
from evenhand.streams import stream

COLUMNS = ("metric", "other", "tau_c", "p", "p_adjusted", "systems", "note")
"""Every pair stands there in both orders; `p_adjusted` counts it once."""
Several = Annotated[
    Result | str | Path | Sequence[Result | str | Path],
    Takes("RESULT.json", many=True, files="saved results with systems"),
]


@audit("agreement", question="Do the metrics agree on which system is fairer?", charts=("agreement", "comparison"))
def agreement(
    call: Call, *results: Several, draws: Annotated[int, Between(99, 1_000_000)] = 9_999, rng: Seed = None
) -> Result:
    """Kendall's tau-c between every two metrics, over the systems of a result. Frame: metric, other, tau_c, p, systems.

    Every metric is turned so that larger is fairer: 1 means that two metrics order the systems alike, -1 the other way
    round. Systems without a value of both are left out; `systems` counts the others. p is the chance of a |tau-c| at least
    as large if the systems were paired at random: exact up to seven systems, else from `draws` permutations, (1 + as large)
    / (1 + draws). With n systems it cannot fall below 2 / n!: with four that is 2/24.

    Parameters
    ----------
    results : results with several systems (of `eh.exposure`, `eh.prefix`, `eh.pairwise`), or paths of saved ones.
        Results are joined by system; those with the same metrics of the same systems count as separate experiments,
        named by file or position.
    draws : permutations for p-values with more than seven systems.

    Examples
    --------
    >>> import polars as pl, evenhand as eh
    >>> run = pl.DataFrame({"system": list("aabb"), "request": [1] * 4, "item": list("xyyx"), "rank": [1, 2, 1, 2]})
    >>> both = eh.exposure(run, groups={"x": "f", "y": "m"}, protected="f", system="system", metrics=["log_dp", "dp"])
    >>> eh.agreement(both).frame["note"][0]
    'constant_input'
    """
    sources = [r for element in results for r in ([element] if isinstance(element, (Result, str, Path)) else element)]
    read = [opened(r) for r in sources]
    if not read:
        raise EvenhandError("No result was given. Pass a result with systems.")
    others, experiments = standings(read, named(sources))
    rows = [(*s.where, *pair) for s in experiments for pair in _pairs(s, draws, call.seed)]
    if not rows:
        raise EvenhandError("The result holds fewer than two metrics with a direction. Ask for two or more.")
    columns = as_columns((*others, *COLUMNS), rows)
    # Both orders of two metrics are one question.
    keys = [(*r[: len(others)], frozenset(r[len(others) : len(others) + 2])) for r in rows]
    p_once = dict(zip(keys, columns["p"], strict=True))
    p_adjusted = dict(zip(p_once, holm(list(p_once.values())).tolist(), strict=True))
    columns["p_adjusted"] = [p_adjusted[key] for key in keys]
    facts = {
        "systems": sorted({str(system) for s in experiments for system in s.systems}),
        "p": f"exact up to {EXACT} systems, else {draws:,} permutations with the +1 rule",
        "least_p": {str(n): 2 / math.factorial(n) for n in sorted(set(columns["systems"])) if 2 <= n <= EXACT},
        "of": [dict(r.findings.provenance.get("plan", {})) for r in read],
    }  # fmt: skip
    points = [
        (*s.where, str(system), metric, float(s.values[i, j]), float(s.fairness[i, j]))
        for s in experiments
        for i, system in enumerate(s.systems)
        for j, metric in enumerate(s.metrics)
    ]
    curves = {"systems": as_columns((*others, "system", "metric", "value", "fairness"), points)}
    claims = _claims(columns, others)
    return call.result(columns, backend=read[0].backend, slices=others, curves=curves, facts=facts, claims=claims)


def _claims(columns: Mapping[str, Sequence[Any]], others: Sequence[str]) -> list[Candidate]:
    """For every two metrics, whether they order the systems alike or in reverse; both orders of two are one question."""
    candidates: dict[tuple[Any, ...], Candidate] = {}
    for r in (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)):
        first, second, where = r["metric"], r["other"], {name: r[name] for name in others}
        order = "alike" if r["tau_c"] > 0 else "in reverse"
        text = f"{first} and {second} order the systems {order}"
        otherwise = f"{first} and {second}: no significant agreement on the order of the systems"
        candidate = Candidate(r["p"], direction_of(r["tau_c"]), text, otherwise, first, None, where | {"other": second})
        candidates.setdefault((*where.values(), frozenset((first, second))), candidate)
    return [c for c in candidates.values() if not math.isnan(c.p)]


def _pairs(standing: Standing, draws: int, seed: int) -> list[tuple[Any, ...]]:
    """Both orders of every two metrics that have a direction."""
    metrics = [j for j in range(len(standing.metrics)) if not np.isnan(standing.fairness[:, j]).all()]
    rows: dict[tuple[int, int], tuple[Any, ...]] = {}
    for i, j in combinations(metrics, 2):
        a, b = both_known(standing.fairness[:, i], standing.fairness[:, j])
        first, second = standing.metrics[i], standing.metrics[j]
        rng = stream(seed, "agreement", *standing.where, first, second)
        tau, p = tau_c(a, b), tau_c_p(a, b, draws, rng)
        # With so few systems even perfect agreement may be chance.
        few = "few_systems" if 2 / math.factorial(min(len(a), EXACT)) > 0.05 else None
        note = few if not math.isnan(tau) else "constant_input" if len(a) else "empty"
        rows[i, j] = (first, second, tau, p, p, len(a), note)
        rows[j, i] = (second, first, tau, p, p, len(a), note)
    return [rows[i, j] for i in metrics for j in metrics if i != j]
