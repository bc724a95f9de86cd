"""Rows of a frame: their notes, their intervals, and which of them are too small to be shown."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from evenhand.cards import REGISTRY, Metric, MetricSpec, parse_metric
from evenhand.errors import EvenhandError
from evenhand.findings import RANGE, Row
from evenhand.intervals.difference import holm_by_family
from evenhand.intervals.rules import ANYTHING, FEW, few, settled


def notes(*codes: str) -> str | None:
    """Note codes joined, or nothing."""
    return "; ".join(code for code in codes if code) or None


FEW_OF = {"units": "few_units", "requests": "few_requests"}
"""The note of an interval that rests on few of them."""


def bounded(rows: Sequence[Row], over: str, *, sure: bool) -> list[Row]:
    """Rows with intervals as the rules have them (`uncertainty.rules`), and notes where there is none or it rests on few.

    A row may carry what its metric's card does not know: `span`, `certain` (a value that no sample could change) and
    `rests_on`, the units behind the interval where they are others than `units` (`few` is then their note).
    `sure` : intervals were asked for.
    """
    if not sure:
        return list(rows)
    rules = {text: _rules_of(text, _named(text)) for text in dict.fromkeys(r["metric"] for r in rows)}
    return [_bounded(r, rules[r["metric"]], over) for r in rows]


class _Rules(NamedTuple):
    """Fewest units, span and certainty of a metric's intervals, from its card."""

    fewest: float = FEW
    span: tuple[float, float] = ANYTHING
    certain: bool = False


@functools.lru_cache(maxsize=512)
def _rules_of(text: str, of: Metric | None) -> _Rules:
    """Rules for a metric as it is written; `of` is the one that goes by that name."""
    spec = None if of is None else card_of(text)
    return _Rules() if spec is None else _Rules(max(FEW, spec.fewest), spec.span, spec.certain)


def _bounded(r: Row, rules: _Rules, over: str) -> Row:
    if r["note"] == "suppressed" or math.isnan(r["estimate"]):
        return {**r, "low": math.nan, "high": math.nan}
    units = r.get("rests_on", r["units"]) if over in FEW_OF else None
    none, caution = few(units, FEW if "few" in r else rules.fewest)
    span = r.get("span") or rules.span
    certain = bool(r.get("certain", rules.certain))
    ends = (math.nan, math.nan) if none else (r["low"], r["high"])
    low, high, why = settled(r["estimate"], ends[0], ends[1], span, certain=certain)
    codes = [c for c in (r["note"] or "").split("; ") if c]
    codes += [r.get("few") or FEW_OF.get(over, "")] * (caution and not certain) + [why] * bool(
        why and not none and not (why == "no_interval" and codes)
    )
    return {**r, "low": low, "high": high, "note": notes(*dict.fromkeys(codes))}


def _named(text: str) -> Metric | None:
    return REGISTRY.get(re.split(r"[(@]", text, maxsplit=1)[0].strip())


def card_of(text: str) -> MetricSpec | None:
    """The metric of a row, where it is one with a card."""
    if _named(text) is None:
        return None
    try:
        return parse_metric(text)
    except EvenhandError:
        return None


def adjusted(rows: Sequence[Row], extra: Sequence[str]) -> list[Row]:
    """Rows with p adjusted for how many questions were asked (Holm), over all rows that have a p and no adjusted one yet.

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
    """Which cells of a table are suppressed whose rows and columns have known totals: no subtraction along either may tell.

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
    """Whether counts stay here: one of them is of fewer than `fewest`, or a row is not shown, whose size they would tell.

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
    """`min_units`, and more where more figures of all units are asked: so many equations would give single units away."""
    exact = arms * sum(not a.local for a in metrics)
    return fewest if fewest <= 1 else max(fewest, exact + 2)


def suppressed(r: Row) -> Row:
    """A row with too few units to be shown: no number survives, not even how few."""
    hidden = dict.fromkeys({"estimate", "low", "high", "chance", *(set(RANGE) & set(r))}, math.nan)
    return {**r, **hidden, "units": None, "undefined_draws": 0, "note": "suppressed"}


def names_of(value: Any) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
