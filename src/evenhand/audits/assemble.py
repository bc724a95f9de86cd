"""Rows of a frame: their notes, their intervals, their adjusted p."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenhand.cards import REGISTRY, MetricSpec, lowercase_name, parse_metric
from evenhand.errors import EvenhandError, unknown_name
from evenhand.findings import Row
from evenhand.intervals.kinds import ANYTHING, FEW_UNITS, MIN_UNITS, holm_by_family, reported_ends


def notes(*codes: str) -> str | None:
    return "; ".join(code for code in codes if code) or None


Points = dict[str, list[Any]]
"""Columns of a curve or table by name, all of one length."""

FEW_OF = {"units": "few_units", "requests": "few_requests"}
"""The note of an interval that rests on few of them."""


def bounded(rows: Sequence[Row], over: str) -> list[Row]:
    """Rows with intervals cut to their span, and a note where there is none or it rests on few.

    A row may carry what its metric's card does not know: `span`, `certain` (a value that no sample could change) and
    `rests_on`, the units behind the interval where they are others than `units` (`few` is then their note).
    """
    specs = {text: card_of(text) for text in dict.fromkeys(r["metric"] for r in rows)}
    return [_bounded(r, specs[r["metric"]], over) for r in rows]


def _bounded(r: Row, spec: MetricSpec | None, over: str) -> Row:
    if r["note"] == "suppressed" or math.isnan(r["estimate"]):
        return {**r, "low": math.nan, "high": math.nan}
    fewest = FEW_UNITS if spec is None or "few" in r else max(FEW_UNITS, spec.interval_units)
    units = r.get("rests_on", r["units"]) if over in FEW_OF else None
    is_too_few, is_few = (False, False) if units is None else (units < MIN_UNITS, units < fewest)
    low, high = (math.nan, math.nan) if is_too_few else (r["low"], r["high"])
    span = r.get("span") or (ANYTHING if spec is None else spec.span)
    certain = bool(r.get("certain", spec is not None and spec.certain))
    low, high, why = reported_ends(r["estimate"], low, high, span, certain=certain)
    codes = [c for c in (r["note"] or "").split("; ") if c]
    has_reason = is_too_few or (why == "no_interval" and codes)
    codes += [r.get("few") or FEW_OF.get(over, "")] if is_few and not certain else []
    return {**r, "low": low, "high": high, "note": notes(*dict.fromkeys([*codes, "" if has_reason else why]))}


def card_of(text: str) -> MetricSpec | None:
    """The metric of a row, where it is one with a card."""
    name = re.split(r"[(@]", text, maxsplit=1)[0].strip()
    try:
        return parse_metric(text) if name in REGISTRY else None
    except EvenhandError:
        return None


def adjusted(rows: Sequence[Row], extra: Sequence[str]) -> list[Row]:
    """Rows with Holm-adjusted p, over all rows that have a p and no adjusted one yet.

    Where an audit adjusted some rows itself, it has families of questions: others are then adjusted within their metric.
    """
    if "p_adjusted" not in extra:
        return list(rows)
    open_ones = [i for i, r in enumerate(rows) if "p_adjusted" not in r]
    has_families = len(open_ones) < len(rows)
    families = [str(rows[i]["metric"]).partition("(")[0] if has_families else "" for i in open_ones]
    by_row = dict(zip(open_ones, holm_by_family([rows[i].get("p") for i in open_ones], families).tolist(), strict=True))
    return [{**r, "p_adjusted": by_row[i]} if i in by_row else r for i, r in enumerate(rows)]


def nan_in_data(r: Row) -> Row:
    """A row of a slice with missing amounts that are propagated: no number is known."""
    return {**r, **dict.fromkeys(("estimate", "low", "high", "chance"), math.nan), "note": "nan_in_data"}


def chosen_figures(metrics: Any, possible: Sequence[str], what: str = "a figure of this audit") -> tuple[str, ...]:
    """The figures named, each once, out of those that an audit has."""
    listed = tuple(lowercase_name(name) if isinstance(name, str) else name for name in names_of(metrics))
    for name in listed:
        if name not in possible:
            raise unknown_name("metrics", str(name), possible, what=what)
    if not listed or len(set(listed)) < len(listed):
        raise EvenhandError(f"metrics={metrics!r} is empty or names one twice. Name some of {', '.join(possible)}.")
    return listed


def as_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Points:
    listed = list(rows)
    return {name: [r[i] for r in listed] for i, name in enumerate(names)}


def join_points(parts: Iterable[tuple[Mapping[str, Any], Mapping[str, Sequence[Any]]]]) -> Points:
    """Points of several slices as one table, each with the labels of its slice.

    >>> join_points([({"by": "x"}, {"rank": [1, 2]}), ({"by": "y"}, {"rank": [1]})])
    {'by': ['x', 'x', 'y'], 'rank': [1, 2, 1]}
    """
    joined: Points = {}
    for labels, points in parts:
        size = len(next(iter(points.values()), ()))
        for name, column in {**{name: [value] * size for name, value in labels.items()}, **points}.items():
            joined.setdefault(name, []).extend(column)
    return joined


def names_of(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
