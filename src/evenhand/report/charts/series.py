"""The rows of a history as lines over time: one per plan, slice, metric and group."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from evenhand.findings import Findings, key_columns
from evenhand.findings import number as read_number
from evenhand.report.words.text import slice_names

HISTORY_COLUMNS = ("at", "plan", "audit")
"""Columns that a history adds to those of the audits."""


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
    def defined(self) -> list[tuple[date, float]]:
        """The days on which there is a number, with it."""
        return [(day, x) for day, x in zip(self.at, self.estimate, strict=True) if not math.isnan(x)]


def lines(findings: Findings) -> list[Line]:
    """Every line of a history, in the order of its rows on their first day."""
    slices = [name for name in key_columns(findings, HISTORY_COLUMNS) if name not in ("at", "group")]
    rows = sorted(findings.rows(), key=lambda row: row["at"])
    names = slice_names(slices, {name: [row[name] for row in rows] for name in [*slices, "metric"]})
    by_key: dict[tuple[Any, ...], Line] = {}
    for row, name in zip(rows, names, strict=True):
        key = tuple(row[n] for n in ("plan", "metric", "group", *slices))
        if key not in by_key:
            where = [part for part in name.split(", ") if part != "(missing)"]  # slices of other plans
            label = ", ".join([*where, *([] if row["group"] is None else [str(row["group"])])])
            labels = {n: row[n] for n in slices}
            by_key[key] = Line(row["plan"], row["audit"], row["metric"], row["group"], label, labels=labels)
        line = by_key[key]
        line.at.append(row["at"])
        for values, name in ((line.estimate, "estimate"), (line.low, "low"), (line.high, "high")):
            values.append(read_number(row[name]))
    return list(by_key.values())
