"""What every audit does at its end: rows into tidy columns, and a record of where they came from."""

from __future__ import annotations

import importlib.metadata
import logging
import math
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.cards import is_whole
from evenhand.errors import EvenhandError
from evenhand.findings import Row, row, tidy

__all__ = [
    "Row", "check_min_units", "hidden", "hidden_sizes", "log", "names_of", "notes", "provenance", "row", "suppressed", "tidy",
]  # fmt: skip

log = logging.getLogger("evenhand")
"""Stages of the work, for whoever shows progress."""


def notes(*codes: str) -> str | None:
    """Note codes joined, or nothing."""
    return "; ".join(code for code in codes if code) or None


def provenance(
    plan: Mapping[str, Any], *, rows: int, dropped: Mapping[str, int], seed: int | None, **more: Any
) -> dict[str, Any]:
    """Where the numbers come from: enough to make them again."""
    versions = {"python": platform.python_version()}
    for package in ("evenhand", "numpy", "narwhals", "polars"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    facts = {"rows": rows, "dropped": dict(dropped), "seed": seed, **more}
    plan = {k: v for k, v in plan.items() if v is not None}
    for record in (facts, plan):
        if isinstance(record.get("population"), Mapping):
            parts = plan.get("audit") == "decompose"
            record["population"] = hidden_sizes(record["population"], plan.get("min_units") or 0, parts=parts)
    return {**facts, "versions": versions, "plan": plan}


def hidden_sizes(sizes: Mapping[str, Any], fewest: int, *, parts: bool = False) -> dict[str, Any]:
    """Sizes of slices or groups, without those of suppressed ones; parts of a whole that is shown are then all left out."""
    hide = parts and any(size < fewest for size in sizes.values())
    return {label: "suppressed" if hide or size < fewest else size for label, size in sizes.items()}


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


def check_min_units(min_units: int | None) -> int:
    if min_units is None:
        return 0
    if not is_whole(min_units, 0):
        raise EvenhandError(f"min_units={min_units!r} is not a count. Pass a whole number of zero or more.")
    return int(min_units)


def names_of(value: Any) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
