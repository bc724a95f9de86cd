"""Findings for experiment trackers: one flat number per name, with names that MLflow takes."""

from __future__ import annotations

import math
import re
from typing import Any

from evenhand.findings import Findings, label

LONGEST = 240
"""MLflow takes names of 250 characters; the rest is for `_high` and a number."""


def tracked(findings: Findings, prefix: str = "") -> dict[str, float]:
    """Estimates and the ends of their intervals by name: `gini`, `gini_low`, `gini_high`, `top_share_p_0.01/source_likes`.

    A slice and a group follow the metric behind slashes. Undefined estimates are NaN; an interval that is not there is
    left out, and so is an infinite number, which trackers would replace by a large one.

    >>> from evenhand.findings import Findings, row, tidy
    >>> rows = [row({"source": "a/b"}, "top_share(p=0.01)", estimate=0.7)]
    >>> tracked(Findings("inequality", "", ("source",), tidy(rows, ["source"])))
    {'top_share_p_0.01/source_a_b': 0.7}
    """
    numbers: dict[str, float] = {}
    for r in findings.rows():
        name = _free(legal(prefix, r, findings.slices), numbers)
        ends = {name: r["estimate"], f"{name}_low": r["low"], f"{name}_high": r["high"]}
        finite = {k: float(v) for k, v in ends.items() if k == name or not math.isnan(v)}
        numbers |= {k: v for k, v in finite.items() if not math.isinf(v)}
    return numbers


def legal(prefix: str, r: dict[str, Any], slices: tuple[str, ...]) -> str:
    """The name of a row, in letters, digits, `_`, `-`, `.` and slashes between its parts."""
    parts = [r["metric"], *(f"{s} {label(r[s])}" for s in slices)]
    parts += [r["group"]] if r["group"] is not None else []
    names = [re.sub(r"[^\w.\-]+", "_", str(p)).strip("_.") or "_" for p in parts]
    return (prefix + "/".join(names))[:LONGEST]


def _free(name: str, taken: dict[str, float]) -> str:
    """The name, numbered where another row already has it."""
    tried, n = name, 1
    while {tried, f"{tried}_low", f"{tried}_high"} & taken.keys():
        n += 1
        tried = f"{name}_{n}"
    return tried
