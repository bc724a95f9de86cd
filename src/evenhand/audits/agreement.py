"""Do metrics agree on which system is fairer? Kendall's tau-c between metrics, over systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from evenhand.audits.declare import Call, Seed, Takes, audit
from evenhand.audits.systems import Standing, named, opened, standings
from evenhand.cards import Between
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
SURE = 0.05


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
    sources = [
        r for standing in results for r in ([standing] if isinstance(standing, (Result, str, Path)) else standing)
    ]
    read = [opened(r) for r in sources]
    if not read:
        raise EvenhandError("No result was given. Pass a result with systems.")
    others, experiments = standings(read, named(sources))
    names = (*others, *COLUMNS)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for standing in experiments:
        for row in _pairs(standing, draws, call.seed):
            for name, value in zip(names, (*standing.where, *row), strict=True):
                columns[name].append(value)
    if not columns["metric"]:
        raise EvenhandError("The result holds fewer than two metrics with a direction. Ask for two or more.")
    columns["p_adjusted"] = _adjusted(columns)
    systems = sorted({str(s) for standing in experiments for s in standing.systems})
    facts = {
        "systems": systems, "p": f"exact up to {EXACT} systems, else {draws:,} permutations with the +1 rule",
        "least_p": {str(n): 2 / math.factorial(n) for n in sorted(set(columns["systems"])) if 2 <= n <= EXACT},
        "of": [dict(r.findings.provenance.get("plan", {})) for r in read],
    }  # fmt: skip
    return call.result(
        columns, backend=read[0].backend, slices=others, curves={"systems": _values(others, experiments)}, facts=facts
    )


def _adjusted(columns: Mapping[str, Sequence[Any]]) -> list[float]:
    """Holm over every two metrics, each pair once."""
    pairs = [frozenset(both) for both in zip(columns["metric"], columns["other"], strict=True)]
    others = [name for name in columns if name not in COLUMNS]
    keys = list(zip(*(columns[name] for name in others), pairs, strict=True))
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    adjusted = dict(zip(first, holm([columns["p"][i] for i in first.values()]).tolist(), strict=True))
    return [adjusted[key] for key in keys]


def _pairs(standing: Standing, draws: int, seed: int) -> list[tuple[Any, ...]]:
    """Both orders of every two metrics that have a direction."""
    metrics = [j for j in range(len(standing.metrics)) if not np.isnan(standing.fairness[:, j]).all()]
    rows: dict[tuple[int, int], tuple[Any, ...]] = {}
    for i in metrics:
        for j in metrics:
            if i < j:
                a, b = both_known(standing.fairness[:, i], standing.fairness[:, j])
                rng = stream(seed, "agreement", *standing.where, standing.metrics[i], standing.metrics[j])
                tau, p = tau_c(a, b), tau_c_p(a, b, draws, rng)
                note = _note(len(a), tau)
                rows[i, j] = (standing.metrics[i], standing.metrics[j], tau, p, p, len(a), note)
                rows[j, i] = (standing.metrics[j], standing.metrics[i], tau, p, p, len(a), note)
    return [rows[i, j] for i in metrics for j in metrics if i != j]


def _note(systems: int, tau: float) -> str | None:
    if math.isnan(tau):
        return "constant_input" if systems else "empty"
    return "few_systems" if 2 / math.factorial(min(systems, EXACT)) > SURE else None


def _values(others: tuple[str, ...], experiments: list[Standing]) -> dict[str, list[Any]]:
    """The systems' values as points, for pictures."""
    points: dict[str, list[Any]] = {name: [] for name in (*others, "system", "metric", "value", "fairness")}
    for standing in experiments:
        for i, system in enumerate(standing.systems):
            for j, metric in enumerate(standing.metrics):
                cells = (
                    *standing.where,
                    str(system),
                    metric,
                    float(standing.values[i, j]),
                    float(standing.fairness[i, j]),
                )
                for name, value in zip(points, cells, strict=True):
                    points[name].append(value)
    return points
