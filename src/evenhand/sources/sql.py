"""Pieces of portable SQL text, and queries in other dialects than DuckDB's, by sqlglot and a few rules of our own."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

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


T = TypeVar("T")

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


def adapted(query: str, dialect: str) -> Any:
    """The tree of a query of ours, with what a dialect calls otherwise."""
    tree, exp = parsed(query), expressions()

    def narrow(node: Any) -> Any:  # few dialects have integers of 128 bits; the others have decimals of 38 digits
        is_wide = isinstance(node, exp.DataType) and node.is_type("int128") and dialect not in ("duckdb", "clickhouse")
        return exp.DataType.build("DECIMAL(38, 0)") if is_wide else node

    def rename_hash(node: Any) -> Any:
        if isinstance(node, exp.Anonymous) and node.name.lower() == "hash" and dialect in HASHES:
            arguments = ", ".join(argument.sql(dialect) for argument in node.expressions)
            return parsed(HASHES[dialect].format(arguments), dialect)
        return node

    return tree.transform(narrow, copy=False).transform(rename_hash, copy=False)


def translated(query: str, dialect: str, *, pretty: bool = False, identify: bool = False) -> str:
    """A query of ours in another dialect; `identify`: every name in quotes.

    >>> translated("SELECT CAST(SUM(a) AS HUGEINT) AS total FROM t", "postgres")
    'SELECT CAST(SUM(a) AS DECIMAL(38, 0)) AS total FROM t'
    """
    return str(adapted(query, dialect).sql(dialect, pretty=pretty, identify=identify))


def steps_read(query: T, steps: Mapping[str, T], names_in: Callable[[T], set[str]]) -> list[str]:
    """The named steps that a query reads, and those that they read, in the order of `steps`."""
    needed: set[str] = set()
    pending = [query]
    while pending:
        names = names_in(pending.pop()) & steps.keys() - needed
        needed |= names
        pending += [steps[name] for name in names]
    return [name for name in steps if name in needed]


def with_steps(tree: Any, steps: Mapping[str, Any], *, in_line: frozenset[str] = frozenset()) -> Any:
    """A query with the steps that it reads in WITH; `in_line` steps are NOT MATERIALIZED."""
    exp = expressions()
    needed = steps_read(tree, steps, lambda step: {table.name for table in step.find_all(exp.Table)})
    if not needed:
        return tree
    tree = tree.copy()
    key = "with_" if "with_" in tree.arg_types else "with"
    inner_steps = tree.args.get(key)
    tree.set(key, None)
    for name in needed:
        materialized = False if name in in_line else None
        tree = tree.with_(name, as_=steps[name].copy(), materialized=materialized, copy=False)
    for step in inner_steps.expressions if inner_steps is not None else ():
        tree.args[key].append("expressions", step)
    return tree


def expressions() -> Any:
    return importlib.import_module("sqlglot.expressions")
