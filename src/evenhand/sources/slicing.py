"""Slices that are made from a column: bins of a number that belongs to the unit (followers, age, length), periods of a date."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from evenhand.cards import is_whole, parse_call
from evenhand.errors import EvenhandError, unknown_name
from evenhand.sources.relation import Relation, is_number

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
class Periods:
    """Periods of a column of dates, each called by its first day; weeks begin on Monday."""

    column: str
    every: str

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise EvenhandError(
                f"periods({self.column!r}) does not name a column. Write periods('created_at', every='month')."
            )
        if self.every not in EVERY:
            raise unknown_name("every", str(self.every), EVERY, what="a period")

    def __str__(self) -> str:
        return f"periods({self.column!r}, every={self.every!r})"

    as_word = __str__

    def expression(self, value: str) -> str:
        """SQL of the first day of the period that a value is in."""
        return f"CAST(DATE_TRUNC('{self.every}', CAST({value} AS TIMESTAMP)) AS DATE)"


EVERY = ("day", "week", "month", "quarter", "year")


def periods(column: str, every: str = "month") -> Periods:
    """Slice rows by the period of a date or time: `by=eh.periods("created_at", every="month")`.

    `every` is "day", "week" (from Monday), "month", "quarter" or "year"; a slice is called by the first day of its period.
    """
    return Periods(column, every)


@dataclass(frozen=True, slots=True)
class Slicing:
    """Slice columns of `by=`, and which of them are cut into bins or periods."""

    columns: tuple[str, ...]
    bins: tuple[Bins, ...]
    words: tuple[str, ...]
    periods: tuple[Periods, ...] = ()


def slicing(by: str | Bins | Periods | Iterable[str | Bins | Periods] | None, role: str = "by") -> Slicing:
    """Read `by`: one column or bins, or several; bins may be written as text, as a plan or the command line must.

    `role` is what the argument is called where it is not `by`.

    >>> slicing(["source", "log_bins('followers', 20)"]).words
    ('source', "log_bins('followers', 20)")
    """
    listed: list[Any] = [] if by is None else list(by) if isinstance(by, (list, tuple)) else [by]
    specs = [_parse(spec, role) if isinstance(spec, str) else spec for spec in listed]
    for spec in specs:
        if not isinstance(spec, (str, Bins, Periods)):
            raise EvenhandError(f"{role}={spec!r} is not a column name. Pass the name of a column as text.")
    columns = tuple(spec if isinstance(spec, str) else spec.column for spec in specs)
    bins = tuple(spec for spec in specs if isinstance(spec, Bins))
    return Slicing(columns, bins, tuple(map(str, specs)), tuple(spec for spec in specs if isinstance(spec, Periods)))


def _parse(text: str, role: str) -> str | Bins | Periods:
    if not re.match(r"\s*(log_bins|quantile_bins|periods)\s*\(", text):
        return text
    # shells eat quotes: a bare column name in brackets is the same as a quoted one
    quoted = re.sub(r"\(\s*([A-Za-z_]\w*)\s*(?=[,)])", r"('\1'", text)
    quoted = re.sub(r"((?:every\s*=|,)\s*)([A-Za-z]+)\s*(?=\))", r"\1'\2'", quoted)
    name, args, keywords = parse_call(quoted, role=role)
    names = ("column", "every" if name == "periods" else "bins")
    arguments = dict(zip(names, args, strict=False)) | keywords
    if len(args) > 2 or not set(arguments) <= set(names) or "column" not in arguments:
        example = "periods('created_at', every='month')" if name == "periods" else f"{name}('followers', 10)"
        raise EvenhandError(f"{role}={text!r} cannot be read. Write {example}.")
    if name == "periods":
        return periods(**arguments)
    return log_bins(**arguments) if name == "log_bins" else quantile_bins(**arguments)


def row_slicing(by: str | Bins | Periods | Iterable[str | Bins | Periods] | None) -> Slicing:
    """Read `by` of an audit of rows: columns and periods; bins are of a unit's number, and rows have no units."""
    slices = slicing(by)
    if slices.bins:
        name = slices.bins[0].column
        raise EvenhandError(
            f"by={slices.bins[0]} makes bins of units, and this audit has none. Add a column with the bin of {name!r}."
        )
    return slices


def in_periods(table: Relation, specs: Iterable[Periods], role: str = "by") -> Relation:
    """The table with the first day of its period in place of each date."""
    for spec in specs:
        if spec.column not in table.schema:
            continue  # refused with the other roles
        kind = table.schema[spec.column]
        if is_number(kind):
            raise EvenhandError(
                f"{role}={spec} needs dates, and {spec.column!r} holds numbers. Convert the column to dates first."
            )
        column = table.expressions[spec.column]
        if kind == nw.String:  # 2026-11-16, and what may follow it
            odd = f"{column} IS NOT NULL AND NOT ({column} LIKE '____-__-__%')"
            count = table.facts({"odd": f"SUM(CASE WHEN {odd} THEN 1 ELSE 0 END)"})["odd"]
            if count:
                raise EvenhandError(
                    f"{role}={spec} needs dates, and {spec.column!r} holds {int(count):,} texts that are none. Write dates as 2026-11-16."
                )
            column = f"SUBSTR({column}, 1, 10)"
        table = table.with_column(spec.column, spec.expression(column), nw.Date())
    return table
