"""Rows of a frame: their notes, and which of them are too small to be shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evenhand.findings import Row


def notes(*codes: str) -> str | None:
    """Note codes joined, or nothing."""
    return "; ".join(code for code in codes if code) or None


def hidden(units: Sequence[float], fewest: int, *, total_shown: bool = True) -> list[bool]:
    """Which parts of a whole are suppressed: those with too few units; and where the size of the whole is shown, the next
    smallest until a subtraction gives no single one away, and none of them all that is about too few.

    >>> hidden([50, 3, 20], fewest=5)
    [False, True, True]
    >>> hidden([50, 1, 1, 20], fewest=5)
    [False, True, True, True]
    >>> hidden([50, 3, 20], fewest=5, total_shown=False)
    [False, True, False]
    """
    small = [n < fewest for n in units]
    lost = [n for n in units if 0 < n < fewest]  # an empty part hides nothing
    for i in sorted((i for i, few in enumerate(small) if not few), key=lambda i: units[i]):
        if total_shown and lost and (len(lost) < 2 or sum(lost) < fewest):
            small[i] = True
            lost.append(units[i])
    return small


def suppressed(r: Row) -> Row:
    """A row with too few units to be shown: no number survives, not even how few."""
    hidden = dict.fromkeys(("estimate", "low", "high", "chance"), math.nan)
    return {**r, **hidden, "units": None, "undefined_draws": 0, "note": "suppressed"}


def names_of(value: Any) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
