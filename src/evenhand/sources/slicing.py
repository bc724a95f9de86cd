"""Slices by size of a number that belongs to the unit: bins of followers, age, length."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from evenhand.cards import is_whole, parse_call
from evenhand.errors import EvenhandError

MOST_BINS = 1_000


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins of a column, right-closed: of equal width on a log scale, or (`is_log` False) of equally many units."""

    column: str
    bins: int
    is_log: bool

    def __post_init__(self) -> None:
        name = self.name
        if not isinstance(self.column, str):
            raise EvenhandError(f"{name}({self.column!r}) does not name a column. Write {name}('followers', 10).")
        if not is_whole(self.bins, 1, MOST_BINS):
            raise EvenhandError(
                f"{name}({self.column!r}, {self.bins!r}) needs a whole number of bins from 1 to {MOST_BINS:,}. "
                f"Write {name}({self.column!r}, 10)."
            )
        object.__setattr__(self, "bins", int(self.bins))  # numpy's integers print otherwise

    @property
    def name(self) -> str:
        return "log_bins" if self.is_log else "quantile_bins"

    def __str__(self) -> str:
        return f"{self.name}({self.column!r}, {self.bins})"

    as_word = __str__


def log_bins(column: str, bins: int = 20) -> Bins:
    """Slice units by `column` in bins of equal width on a log scale: `by=eh.log_bins("followers", 20)`.

    Bins run from the smallest positive value of a unit to the largest and are right-closed, the lowest with its minimum;
    units at zero have a bin of their own.
    """
    return Bins(column, bins, is_log=True)


def quantile_bins(column: str, bins: int = 10) -> Bins:
    """Slice units by `column` in bins of equally many units: `by=eh.quantile_bins("followers", 10)`.

    Edges are inverted-CDF quantiles over units; bins are right-closed, the lowest with its minimum. Ties make bins fewer.
    """
    return Bins(column, bins, is_log=False)


@dataclass(frozen=True, slots=True)
class Slicing:
    """Slice columns of `by=`, and which of them are cut into bins."""

    columns: tuple[str, ...]
    bins: tuple[Bins, ...]
    words: tuple[str, ...]


def slicing(by: str | Bins | Iterable[str | Bins] | None, role: str = "by") -> Slicing:
    """Read `by`: one column or bins, or several; bins may be written as text, as a plan or the command line must.

    `role` is what the argument is called where it is not `by`.

    >>> slicing(["source", "log_bins('followers', 20)"]).words
    ('source', "log_bins('followers', 20)")
    """
    listed: list[Any] = [] if by is None else list(by) if isinstance(by, (list, tuple)) else [by]
    specs = [_parse(spec, role) if isinstance(spec, str) else spec for spec in listed]
    for spec in specs:
        if not isinstance(spec, (str, Bins)):
            raise EvenhandError(f"{role}={spec!r} is not a column name. Pass the name of a column as text.")
    columns = tuple(spec.column if isinstance(spec, Bins) else spec for spec in specs)
    return Slicing(columns, tuple(spec for spec in specs if isinstance(spec, Bins)), tuple(map(str, specs)))


def _parse(text: str, role: str) -> str | Bins:
    if not re.match(r"\s*(log_bins|quantile_bins)\s*\(", text):
        return text
    # shells eat quotes: a bare column name in brackets is the same as a quoted one
    name, args, keywords = parse_call(re.sub(r"\(\s*([A-Za-z_]\w*)\s*(?=[,)])", r"('\1'", text), role=role)
    arguments = dict(zip(("column", "bins"), args, strict=False)) | keywords
    if len(args) > 2 or not set(arguments) <= {"column", "bins"} or "column" not in arguments:
        raise EvenhandError(f"{role}={text!r} cannot be read. Write {name}('followers', 10).")
    return log_bins(**arguments) if name == "log_bins" else quantile_bins(**arguments)
