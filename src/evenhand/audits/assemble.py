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
    """Which parts of a whole are suppressed: those with too few units, and where that is one alone and the size of the
    whole is shown, the next smallest too, or a subtraction would give the first away.

    >>> hidden([50, 3, 20], fewest=5)
    [False, True, True]
    >>> hidden([50, 3, 20], fewest=5, total_shown=False)
    [False, True, False]
    """
    small = [n < fewest for n in units]
    alone = sum(small) == 1 or sum(0 < n < fewest for n in units) == 1  # an empty part hides nothing
    rest = [i for i, few in enumerate(small) if not few]
    if total_shown and alone and rest:
        small[min(rest, key=lambda i: units[i])] = True
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
