"""Pieces of portable SQL text: identifiers, literals, lists of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

INFINITY = "CAST('Infinity' AS DOUBLE)"


def quoted(name: str) -> str:
    """A column or table by its exact name.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def double(value: float) -> str:
    """A number as a double: a bare 0.1 is a decimal in SQL.

    >>> double(0.1)
    "CAST('0.1' AS DOUBLE)"
    """
    return f"CAST('{float(value)!r}' AS DOUBLE)"


def columns(names: Iterable[str], *, table: str = "", leading: bool = False) -> str:
    """Names as a list of columns; with `leading`, a comma goes before them where there are any.

    >>> columns(["by_0", "unit"]), columns(["by_0"], table="a", leading=True), columns([], leading=True)
    ('"by_0", "unit"', ', a."by_0"', '')
    """
    prefix = f"{table}." if table else ""
    listed = ", ".join(prefix + quoted(name) for name in names)
    return f", {listed}" if leading and listed else listed


def select(expressions: Mapping[str, str]) -> str:
    """Expressions with the names that they get.

    >>> select({"unit": '"author"', "amount": "1"})
    '"author" AS "unit", 1 AS "amount"'
    """
    return ", ".join(f"{expression} AS {quoted(name)}" for name, expression in expressions.items())


def count_where(condition: str) -> str:
    """How many rows meet a condition, 0 where there is no row."""
    return f"COALESCE(SUM(CASE WHEN {condition} THEN 1 ELSE 0 END), 0)"


def nan_as_null(expression: str) -> str:
    """A double with NaN made NULL; NaN sorts above infinity in DuckDB, PostgreSQL and Spark."""
    return f"CASE WHEN {expression} <= {INFINITY} THEN {expression} END"


def same(left: str, right: str) -> str:
    """Whether two values are equal, two missing ones included."""
    return f"({left} = {right} OR ({left} IS NULL AND {right} IS NULL))"


GRID = double(2.0**24)
"""Steps to one on which numbers add up exactly: up to half a billion in all."""


def exact_sum(expression: str) -> str:
    """A sum of doubles that does not depend on the order in which threads add them up.

    The part of a number on a coarse grid adds up without rounding; the rest is too small for its rounding to show.

    >>> exact_sum("x").count("SUM")
    2
    """
    coarse = f"ROUND(({expression}) * {GRID}) / {GRID}"
    return f"SUM({coarse}) + SUM(({expression}) - {coarse})"
