"""Slices by size of a number that belongs to the unit: bins of followers, age, length."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from evenhand.cards import is_whole, parse_call
from evenhand.errors import EvenhandError

MOST_BINS = 1_000


@dataclass(frozen=True, slots=True)
class LogBins:
    """Bins of equal width on a log scale, from the smallest positive value to the largest; zeros have a bin of their own."""

    column: str
    bins: int

    def __str__(self) -> str:
        return f"log_bins({self.column!r}, {self.bins})"

    as_word = __str__


@dataclass(frozen=True, slots=True)
class QuantileBins:
    """Bins that hold equally many units, as far as ties allow; edges are observed values (inverted CDF)."""

    column: str
    bins: int

    def __str__(self) -> str:
        return f"quantile_bins({self.column!r}, {self.bins})"

    as_word = __str__


Bins = LogBins | QuantileBins


def log_bins(column: str, bins: int = 20) -> LogBins:
    """Slice units by `column` in bins of equal width on a log scale: `by=eh.log_bins("followers", 20)`.

    Bins run from the smallest positive value of a unit to the largest and are right-closed, the lowest with its minimum;
    units at zero have a bin of their own.
    """
    return LogBins(*_checked("log_bins", column, bins))


def quantile_bins(column: str, bins: int = 10) -> QuantileBins:
    """Slice units by `column` in bins of equally many units: `by=eh.quantile_bins("followers", 10)`.

    Edges are inverted-CDF quantiles over units; bins are right-closed, the lowest with its minimum. Ties make bins fewer.
    """
    return QuantileBins(*_checked("quantile_bins", column, bins))


def _checked(name: str, column: Any, bins: Any) -> tuple[str, int]:
    if not isinstance(column, str):
        raise EvenhandError(f"{name}({column!r}) does not name a column. Write {name}('followers', 10).")
    if not is_whole(bins, 1, MOST_BINS):
        raise EvenhandError(
            f"{name}({column!r}, {bins!r}) needs a whole number of bins from 1 to {MOST_BINS:,}. Write {name}({column!r}, 10)."
        )
    return column, int(bins)


_MAKERS: dict[str, Callable[..., Bins]] = {"log_bins": log_bins, "quantile_bins": quantile_bins}


@dataclass(frozen=True, slots=True)
class Slicing:
    """Slice columns of `by=`, and which of them are cut into bins."""

    columns: tuple[str, ...]
    bins: tuple[Bins, ...]
    words: tuple[str, ...]


def slicing(by: str | Bins | Iterable[str | Bins] | None, role: str = "by") -> Slicing:
    """Read `by`: one column or bins, or several; bins may be written as text, as a plan or the command line must.

    `role` is what the argument is called where it is not `by`.

    >>> slicing(["source", "log_bins('followers', 20)"])
    Slicing(columns=('source', 'followers'), bins=(LogBins(column='followers', bins=20),), words=('source', "log_bins('followers', 20)"))
    """
    listed: list[Any] = [] if by is None else list(by) if isinstance(by, (list, tuple)) else [by]
    read = [_read(column, role) if isinstance(column, str) else column for column in listed]
    for column in read:
        if not isinstance(column, (str, LogBins, QuantileBins)):
            raise EvenhandError(f"{role}={column!r} is not a column name. Pass the name of a column as text.")
    columns = tuple(column.column if isinstance(column, (LogBins, QuantileBins)) else column for column in read)
    return Slicing(columns, tuple(b for b in read if isinstance(b, (LogBins, QuantileBins))), tuple(map(str, read)))


def _read(text: str, role: str) -> str | Bins:
    call = re.match(r"\s*(log_bins|quantile_bins)\s*\(", text)
    if not call:
        return text
    name, args, keywords = parse_call(_quoted(text), role=role)
    arguments = dict(zip(("column", "bins"), args, strict=False)) | keywords
    if len(args) > 2 or not set(arguments) <= {"column", "bins"} or "column" not in arguments:
        raise EvenhandError(f"{role}={text!r} cannot be read. Write {name}('followers', 10).")
    return _MAKERS[name](**arguments)


def _quoted(text: str) -> str:
    """A bare column name in brackets is the same as a quoted one: shells eat quotes."""
    return re.sub(r"\(\s*([A-Za-z_]\w*)\s*(?=[,)])", r"('\1'", text)
