"""Queries in other dialects than DuckDB's, by sqlglot and a few rules of our own."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from evenhand.errors import EvenhandError

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
    tree, exp = parsed(query), _expressions()

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
    exp = _expressions()
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


def _expressions() -> Any:
    return importlib.import_module("sqlglot.expressions")
