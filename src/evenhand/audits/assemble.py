"""Rows of a frame: their notes, their intervals, and which of them are too small to be shown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenhand.cards import REGISTRY, MetricSpec, lowercase_name, parse_metric
from evenhand.errors import EvenhandError, unknown_name
from evenhand.findings import RANGE, Row
from evenhand.intervals.kinds import ANYTHING, FEW_UNITS, MIN_UNITS, holm_by_family, reported_ends


def notes(*codes: str) -> str | None:
    """Note codes joined, or nothing."""
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


def hidden(
    units: Sequence[float], fewest: int, *, total_shown: bool = True, already: Sequence[bool] = ()
) -> list[bool]:
    """Which parts of a whole are suppressed: those with too few units; and where the size of the whole is shown, the next
    smallest until a subtraction gives no single one away, and none of them all that is about too few.

    Parts that are hidden `already`, for another reason, stay so.

    >>> hidden([50, 3, 20], fewest=5)
    [False, True, True]
    >>> hidden([50, 1, 1, 20], fewest=5)
    [False, True, True, True]
    >>> hidden([50, 3, 20], fewest=5, total_shown=False)
    [False, True, False]
    """
    before = already or [False] * len(units)
    small = [n < fewest or hide for n, hide in zip(units, before, strict=True)]
    lost = [n for n, hide in zip(units, small, strict=True) if hide and n > 0]  # an empty part hides nothing
    for i in sorted((i for i, hide in enumerate(small) if not hide), key=lambda i: units[i]):
        if total_shown and lost and (len(lost) < 2 or sum(lost) < fewest):
            small[i] = True
            lost.append(units[i])
    return small


def hidden_cells(units: Sequence[Sequence[float]], fewest: int) -> list[list[bool]]:
    """Which cells of a table with known row and column totals are suppressed.

    >>> hidden_cells([[50, 3], [40, 60], [70, 80]], fewest=5)
    [[True, True], [True, True], [False, False]]
    """
    suppressed_cells = [[False] * len(row) for row in units]
    while True:
        along = [hidden(row, fewest, already=hide) for row, hide in zip(units, suppressed_cells, strict=True)]
        columns = [
            hidden(column, fewest, already=hide)
            for column, hide in zip(zip(*units, strict=True), zip(*along, strict=True), strict=True)
        ]
        updated = [list(row) for row in zip(*columns, strict=True)]
        if updated == suppressed_cells:
            return suppressed_cells
        suppressed_cells = updated


def must_withhold(counts: Any, fewest: int, rows: Any) -> bool:
    """Whether counts are withheld: one is below `fewest`, or would give away a suppressed row.

    >>> must_withhold({"rows": 500, "dropped": {"amount is missing": 3}}, 10, [])
    True
    """
    hides = any(
        note == "suppressed"
        for note in (rows.get("note", ()) if isinstance(rows, Mapping) else (r["note"] for r in rows))
    )
    return fewest > 1 and (hides or _counts_few(counts, fewest))


def _counts_few(counts: Any, fewest: int) -> bool:
    if isinstance(counts, Mapping):
        return any(_counts_few(part, fewest) for part in counts.values())
    whole = isinstance(counts, int) or (isinstance(counts, float) and counts > 1)  # shares are none
    return whole and 0 < counts < fewest


def enough(fewest: int, metrics: Sequence[MetricSpec], *, arms: int = 1) -> int:
    """`min_units`, or more: as many exact figures as units could be solved for single units."""
    exact = arms * sum(not a.local for a in metrics)
    return fewest if fewest <= 1 else max(fewest, exact + 2)


def suppressed(r: Row) -> Row:
    """A row with too few units to be shown: no number survives, not even how few."""
    hidden = dict.fromkeys({"estimate", "low", "high", "chance", *(set(RANGE) & set(r))}, math.nan)
    return {**r, **hidden, "units": None, "undefined_draws": 0, "note": "suppressed"}


SUPPRESSED = "(suppressed)"


def without_labels(rows: Sequence[Row], slices: Sequence[str], columns: Sequence[str]) -> list[Row]:
    """Rows with those that are suppressed once per metric and group, their slice unnamed.

    Where slices are cells of several columns, that a cell is there at all tells of the few in it.
    """
    kinds = {name: {type(r[name]) for r in rows if r[name] is not None} for name in slices}
    blank = {name: SUPPRESSED if kinds[name] == {str} else None for name in slices}
    blank |= {name: None for name in columns if name not in slices}
    merged: dict[Any, Row] = {}
    for i, r in enumerate(rows):
        is_hidden = r["note"] == "suppressed"
        merged.setdefault((r["metric"], r["group"]) if is_hidden else i, {**r, **blank} if is_hidden else r)
    return list(merged.values())


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
    """Rows of values as columns by name."""
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
    """One name or several, as a tuple."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
