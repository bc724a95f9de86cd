"""Curves over bins: how a number changes along an ordered quantity, as in figures 5 and 7 of the inequality paper."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt

from evenhand.findings import Findings, label
from evenhand.present.drawing import (
    AMOUNT,
    SHARE,
    Panel,
    Picture,
    chart,
    distinct,
    drawable,
    is_share,
    metric_title,
    records,
    series_colour,
    value_text,
    word,
)
from evenhand.present.text import number, plural
from evenhand.present.theme import MOST_SERIES

FEWEST = 3
_NUMBER = r"[-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_INTERVAL = re.compile(rf"\s*[\[(]?\s*({_NUMBER}|-inf)\s*(?:,|to|\.\.|–|-)\s*({_NUMBER}|inf)\s*[\])]?\s*")


@dataclass(frozen=True, slots=True)
class _Axis:
    """The slice column that has an order, and where each of its labels lies."""

    name: str
    places: Mapping[Any, float]

    @property
    def log(self) -> bool:
        """Whether the bins spread over so many sizes that a log axis is the only readable one."""
        low, high = min(self.places.values()), max(self.places.values())
        return low > 0 and high / low > 50


def _edges(value: Any) -> tuple[float, float] | None:
    """The ends of a bin: a number is its own bin, a label such as "[10, 100)" says them."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return (float(value), float(value)) if math.isfinite(value) else None
    found = _INTERVAL.fullmatch(str(value))
    return (float(found[1].replace(",", "")), float(found[2].replace(",", ""))) if found else None


def _middle(low: float, high: float) -> float:
    if math.isinf(high):
        return low
    return math.sqrt(low * high) if low > 0 else (low + high) / 2


def _ordered(findings: Findings) -> _Axis | None:
    """The first slice column whose labels are numbers or intervals of numbers."""
    if {"bin_low", "bin_high"} <= set(findings.columns) and findings.slices:
        low, high = findings.columns["bin_low"], findings.columns["bin_high"]
        return _Axis(findings.slices[-1], {i: _middle(float(a), float(b)) for i, (a, b) in enumerate(zip(low, high, strict=True))})
    for name in findings.slices:
        edges = {v: _edges(v) for v in distinct(findings.columns[name])}
        known = {v: _middle(*e) for v, e in edges.items() if e is not None}
        if len(known) >= FEWEST and len(edges) - len(known) <= 1:
            return _Axis(name, known)
    return None
