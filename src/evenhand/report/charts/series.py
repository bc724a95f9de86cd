"""The rows of a history as lines over time: one per plan, slice, metric and group."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from evenhand.findings import Findings, key_columns
from evenhand.report.words.text import slice_names

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
    kept = [name for name in key_columns(findings, BESIDE) if name not in ("at", "group")]
    rows = sorted(findings.rows(), key=lambda row: row["at"])
    names = slice_names(kept, {name: [row[name] for row in rows] for name in [*kept, "metric"]})
    found: dict[tuple[Any, ...], Line] = {}
    for row, name in zip(rows, names, strict=True):
        key = tuple(row[n] for n in ("plan", "metric", "group", *kept))
        if key not in found:
            where = [part for part in name.split(", ") if part != "(missing)"]  # slices of other plans
            label = ", ".join([*where, *([] if row["group"] is None else [str(row["group"])])])
            labels = {n: row[n] for n in kept}
            found[key] = Line(row["plan"], row["audit"], row["metric"], row["group"], label, labels=labels)
        line = found[key]
        line.at.append(row["at"])
        for held, value in ((line.estimate, "estimate"), (line.low, "low"), (line.high, "high")):
            held.append(math.nan if row[value] is None else float(row[value]))
    return list(found.values())
