"""Do metrics agree on which system is fairer? Kendall's tau-c between metrics, over systems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from evenhand.audits.declare import Call, Seed, Takes, audit
from evenhand.cards import Between, Floats
from evenhand.claims import Candidate, direction_of
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Findings, as_columns
from evenhand.intervals.kinds import holm
from evenhand.labels import stream
from evenhand.metrics.agreement import EXACT, both_known, fairness, tau_c, tau_c_p
from evenhand.results import Result, load
from evenhand.sources.inputs import record_files, record_rows
from evenhand.tallies.spectrum import Label

Saved = Annotated[Result | str | Path, Takes("RESULT.json", files="a saved result")]
"""What an audit gave, or the path of what it saved."""


def opened(result: Result | str | Path) -> Result:
    """The result, read where it was saved."""
    if isinstance(result, Result):
        return result
    saved = load(result)
    record_files("results", {str(result): str(result)})
    record_rows(str(result), len(saved.findings))
    return saved


@dataclass(frozen=True)
class Standing:
    """One experiment (a slice beside the systems): systems by metrics.

    Attributes
    ----------
    where : labels of the other slice columns. systems, metrics : names, in order of first appearance.
    values, fairness : (systems, metrics) as measured, and turned so that larger is fairer; NaN where undefined.
    """

    where: Label
    systems: tuple[Any, ...]
    metrics: tuple[str, ...]
    values: Floats
    fairness: Floats

    @classmethod
    def from_cells(cls, where: Label, cells: Mapping[tuple[str, Any], Mapping[str, Any]]) -> Standing:
        metrics = tuple(dict.fromkeys(name for name, _ in cells))
        systems = tuple(dict.fromkeys(system for _, system in cells))
        values, standing = np.full((2, len(systems), len(metrics)), np.nan)
        for j, name in enumerate(metrics):
            measured = [i for i, system in enumerate(systems) if (name, system) in cells]
            of_metric = [cells[name, systems[i]] for i in measured]
            values[measured, j] = [np.nan if row["estimate"] is None else row["estimate"] for row in of_metric]
            standing[measured, j] = fairness(of_metric)
        return cls(where, systems, metrics, values, standing)


def system_column(findings: Findings) -> str:
    """The column that tells systems apart: `system`, or the only slice column there is."""
    if "system" in findings.slices:
        return "system"
    if len(findings.slices) == 1:
        return findings.slices[0]
    raise EvenhandError("The result has no column of systems. Pass system= with the column that names them.")


def named(results: Sequence[Result | str | Path]) -> list[str]:
    """Distinct names of results: by file, or by position."""
    names = [f"result {i}" if isinstance(r, Result) else Path(r).name.split(".")[0] for i, r in enumerate(results, 1)]
    return names if len(set(names)) == len(names) else [f"{name} ({i})" for i, name in enumerate(names, 1)]


def sides(results: Sequence[Result | str | Path], plans: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Names of two compared results: by file, or by the one argument that differs."""
    if not any(isinstance(result, Result) for result in results):
        return dict(zip("ab", named(results), strict=True))
    names = dict.fromkeys(name for plan in plans for name in plan if name != "rng")
    differing = [name for name in names if plans[0].get(name) != plans[1].get(name)]
    values = [plan.get(name) for name in differing for plan in plans]
    if len(differing) != 1 or not all(isinstance(v, (str, int, float)) for v in values):
        return {}
    if differing == ["table"]:
        called = [Path(str(v)).name.split(".")[0] for v in values]
    else:
        called = [f"{differing[0]} {v}" for v in values]
    return dict(zip("ab", called, strict=True)) if len(set(called)) == 2 else {}


def standings(results: Sequence[Result], called: Sequence[str]) -> tuple[tuple[str, ...], list[Standing]]:
    """Names of the other slice columns, and one standing per experiment.

    Several results are put side by side, system by system; those that measured the same metric of the same system are
    different experiments, and kept apart under what they are `called`.
    """
    names = {tuple(s for s in r.findings.slices if s != system_column(r.findings)) for r in results}
    if len(names) > 1:
        raise EvenhandError(
            f"The results are sliced differently: {listing(map(list, names))}. Pass results with the same by=."
        )
    others = names.pop() if names else ()
    keys = [
        {(row["metric"], row["group"], *(row[s] for s in r.findings.slices)) for row in r.findings.rows()}
        for r in results
    ]
    overlap = len(set().union(*keys)) < sum(map(len, keys))
    cells_by_slice: dict[tuple[Any, ...], dict[tuple[str, Any], dict[str, Any]]] = {}
    for r, result_name in zip(results, called, strict=True):
        columns, column = r.findings.columns, system_column(r.findings)
        pairs = set(zip(columns["metric"], columns["group"], strict=True))
        groups = Counter(metric for metric, _ in pairs)
        for row in r.findings.rows():
            name = f"{row['metric']} {row['group']}" if groups[row["metric"]] > 1 else row["metric"]
            where = (*([result_name] if overlap else []), *(row[s] for s in others))
            cells_by_slice.setdefault(where, {})[name, row[column]] = row
    others = ("experiment", *others) if overlap else others
    return others, [Standing.from_cells(where, cells) for where, cells in cells_by_slice.items()]


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
