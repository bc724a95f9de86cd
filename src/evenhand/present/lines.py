"""The rows of a history as lines over time: one per plan, slice, metric and group."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from evenhand.findings import COLUMNS, Findings
from evenhand.present.text import slice_names

BESIDE = ("at", "plan", "audit")
"""Columns of a history that are not the audit's own."""


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity over time, in order of time. `label` names the slice and the group, as short as can be."""

    plan: str
    audit: str
    metric: str
    group: str | None
    label: str
    at: list[date] = field(default_factory=list)
    estimate: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    labels: dict[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> list[tuple[date, float]]:
        """The days on which there is a number."""
        return [(day, x) for day, x in zip(self.at, self.estimate, strict=True) if not math.isnan(x)]


def lines(findings: Findings) -> list[Line]:
    """Every line of a history, in the order of its rows on their first day."""
    rows = sorted(findings.rows(), key=lambda row: row["at"])
    kept = [name for name in findings.slices if name != "at"]
    more = _told_apart(rows, ["plan", *kept, "metric", "group"], _extra(findings))
    names = slice_names([*kept, *more], {n: [row[n] for row in rows] for n in [*kept, *more, "metric"]})
    found: dict[tuple[Any, ...], Line] = {}
    for row, name in zip(rows, names, strict=True):
        key = _key(row, ["plan", *kept, *more, "metric", "group"])
        if key not in found:
            where = [part for part in name.split(", ") if part != "(missing)"]  # slices of other plans
            label = ", ".join([*where, *([] if row["group"] is None else [str(row["group"])])])
            labels = {n: row[n] for n in [*kept, *more]}
            found[key] = Line(row["plan"], row["audit"], row["metric"], row["group"], label, labels=labels)
        line = found[key]
        line.at.append(row["at"])
        for held, value in zip(
            (line.estimate, line.low, line.high), (row["estimate"], row["low"], row["high"]), strict=True
        ):
            held.append(math.nan if value is None else float(value))
    return list(found.values())


def _extra(findings: Findings) -> list[str]:
    return [name for name in findings.columns if name not in {*COLUMNS, *BESIDE, *findings.slices}]


def _key(row: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _told_apart(rows: Sequence[Mapping[str, Any]], names: list[str], extra: list[str]) -> list[str]:
    """Columns of the audit's own that it takes to tell the rows of a day apart: bins, arms, strengths."""
    needed: list[str] = []
    distinct = len({_key(row, ["at", *names]) for row in rows})
    for name in extra:
        if distinct == len(rows):
            break
        more = len({_key(row, ["at", *names, *needed, name]) for row in rows})
        if more > distinct:
            distinct, needed = more, [*needed, name]
    return needed
