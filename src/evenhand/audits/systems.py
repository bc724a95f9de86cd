"""Results that are asked about again: saved ones opened, and the systems of one, turned so that larger is fairer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from evenhand.audits.parameters import Takes
from evenhand.cards import Floats
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Findings
from evenhand.metrics.agreement import fairness
from evenhand.results import Result, load
from evenhand.sources.inputs import record_files, record_rows
from evenhand.tallies.slices import Label

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
    rows : the row of the frame behind each value that there is.
    """

    where: Label
    systems: tuple[Any, ...]
    metrics: tuple[str, ...]
    values: Floats
    fairness: Floats
    rows: Mapping[tuple[int, int], Mapping[str, Any]]

    @classmethod
    def from_cells(cls, where: Label, cells: Mapping[tuple[str, Any], Mapping[str, Any]]) -> Standing:
        """From rows of a frame by metric and system."""
        metrics = tuple(dict.fromkeys(name for name, _ in cells))
        systems = tuple(dict.fromkeys(system for _, system in cells))
        values, standing = np.full((2, len(systems), len(metrics)), np.nan)
        rows = {(systems.index(system), metrics.index(name)): row for (name, system), row in cells.items()}
        for j in range(len(metrics)):
            measured = [i for i in range(len(systems)) if (i, j) in rows]
            of_metric = [rows[i, j] for i in measured]
            values[measured, j] = [np.nan if row["estimate"] is None else row["estimate"] for row in of_metric]
            standing[measured, j] = fairness(of_metric)
        return cls(where, systems, metrics, values, standing, rows)


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


def standings(results: Sequence[Result], called: Sequence[str] = ()) -> tuple[tuple[str, ...], list[Standing]]:
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
    for r, result_name in zip(results, called or [f"result {i}" for i in range(1, len(results) + 1)], strict=True):
        columns, column = r.findings.columns, system_column(r.findings)
        pairs = set(zip(columns["metric"], columns["group"], strict=True))
        groups = Counter(metric for metric, _ in pairs)
        for row in r.findings.rows():
            name = f"{row['metric']} {row['group']}" if groups[row["metric"]] > 1 else row["metric"]
            where = (*([result_name] if overlap else []), *(row[s] for s in others))
            cells_by_slice.setdefault(where, {})[name, row[column]] = row
    others = ("experiment", *others) if overlap else others
    return others, [Standing.from_cells(where, cells) for where, cells in cells_by_slice.items()]
