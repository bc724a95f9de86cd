"""Pieces of portable SQL text, and queries in other dialects than DuckDB's, by sqlglot and a few rules of our own."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.errors import EvenhandError

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


HASHES: Mapping[str, str] = {
    "spark": "XXHASH64({})",
    "databricks": "XXHASH64({})",
    "postgres": "HASHTEXTEXTENDED(CAST(ROW({}) AS TEXT), 0)",
    "bigquery": "FARM_FINGERPRINT(TO_JSON_STRING(STRUCT({})))",
    "snowflake": "HASH({})",
    "trino": "XXHASH64(TO_UTF8(JSON_FORMAT(CAST(ROW({}) AS JSON))))",
    "clickhouse": "cityHash64({})",
}
"""What other dialects have for DuckDB's `hash` of some columns."""


def parsed(query: str, dialect: str = "duckdb") -> Any:
    """A query as sqlglot's tree."""
    if importlib.util.find_spec("sqlglot") is None:
        raise EvenhandError("sqlglot is not installed. Install it with: pip install 'evenhand[sql]'.")
    return importlib.import_module("sqlglot").parse_one(query, dialect=dialect)


def translated(query: str, dialect: str, *, pretty: bool = False, identify: bool = False) -> str:
    """A query of ours in another dialect; `identify`: every name in quotes.

    >>> translated("SELECT CAST(SUM(a) AS HUGEINT) AS total FROM t", "postgres")
    'SELECT CAST(SUM(a) AS DECIMAL(38, 0)) AS total FROM t'
    """
    tree, exp = parsed(query), expressions()

    def narrow(node: Any) -> Any:  # few dialects have integers of 128 bits; the others have decimals of 38 digits
        is_wide = isinstance(node, exp.DataType) and node.is_type("int128") and dialect not in ("duckdb", "clickhouse")
        return exp.DataType.build("DECIMAL(38, 0)") if is_wide else node

    def rename_hash(node: Any) -> Any:
        if isinstance(node, exp.Anonymous) and node.name.lower() == "hash" and dialect in HASHES:
            arguments = ", ".join(argument.sql(dialect) for argument in node.expressions)
            return parsed(HASHES[dialect].format(arguments), dialect)
        return node

    adapted = tree.transform(narrow, copy=False).transform(rename_hash, copy=False)
    return str(adapted.sql(dialect, pretty=pretty, identify=identify))


def steps_read(query: str, steps: Mapping[str, str]) -> dict[str, str]:
    """The named steps that a query reads, and those that they read, in the order of `steps`."""
    needed: set[str] = set()
    pending = [query]
    while pending:
        names = set(re.findall(r"\w+", pending.pop())) & steps.keys() - needed
        needed |= names
        pending += [steps[name] for name in names]
    return {name: step for name, step in steps.items() if name in needed}


def expressions() -> Any:
    return importlib.import_module("sqlglot.expressions")
