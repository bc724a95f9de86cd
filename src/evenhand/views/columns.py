"""Columns of labels and ids: read alike on every engine, and refused where engines cannot compare what they hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import narwhals as nw

from evenhand.views.tables import Table, is_number, missing_columns

NESTED = (nw.List, nw.Struct, nw.Array)

NAMELESS = frozenset({"UUID", "BIT", "BIGNUM", "TIME_NS", "TIME WITH TIME ZONE", '"NULL"', "Null", "null[pyarrow]"})
"""Types of labels that narwhals has no name for, though engines compare them; a column of nulls is one missing label."""

RESERVED = frozenset(
    {"metric", "group", "estimate", "low", "high", "chance", "ideal", "better", "units", "undefined_draws", "note"}
)
"""Columns of every result; a slice column of that name would hide them."""


def in_words(column: nw.Expr) -> nw.Expr:
    """Labels as text, the missing ones missing: pandas 2 would write None and nan for them."""
    return nw.when(~column.is_null()).then(column.cast(nw.String))


def flag(condition: Any, of: Any = nw) -> Any:
    """1 where the condition holds, 0 where it does not or cannot be told; PostgreSQL casts no truth value to a number.

    `of` is the library whose expression that is: narwhals, or Polars.
    """
    return of.when(condition).then(of.lit(1)).otherwise(of.lit(0)).cast(of.Int64)


def how_many(condition: Any, of: Any = nw) -> Any:
    """Rows for which a condition holds; not every engine adds up truth values."""
    return flag(condition, of).sum()


def number(name: str, table: Table, dtype: type[nw.Int64 | nw.Float64] = nw.Float64) -> nw.Expr:
    """A column of numbers wide enough to be added up; truth values are 1 and 0."""
    column = table.col(name)
    if table.schema[name] == nw.Boolean and not table.lazy.implementation.is_pandas():
        column = nw.when(~column.is_null()).then(flag(column)).alias(name)
    return column.cast(dtype)


def label(name: str, table: Table) -> nw.Expr:
    """A column of labels without surprises: categories as text, NaN as missing."""
    column, dtype = table.col(name), table.schema[name]
    engine = table.lazy.implementation
    if dtype in (nw.Categorical, nw.Enum) or (dtype == nw.Unknown and (engine.is_ibis() or engine.is_duckdb())):
        return in_words(column)  # of databases: ids like UUID, which drivers hand out as objects
    return nw.when(~column.is_nan()).then(column) if dtype.is_float() else column


def role_problems(table: Table, roles: Sequence[tuple[str, str]], numbers: Collection[str]) -> list[str]:
    """What keeps columns from their roles: they are not there, or hold no numbers where numbers are meant, or no labels."""
    problems, schema = missing_columns(table, roles), table.schema
    for role, column in roles:
        if not isinstance(column, str) or column not in schema:
            continue
        if role not in numbers:
            problems += label_problems(role, column, table)
        elif not is_number(schema[column]):
            problems.append(f"{role}={column!r} holds {schema[column]} values, not numbers. Convert the column first.")
    return problems


def slice_problems(by: Sequence[str], own: Collection[str] = ()) -> list[str]:
    """Why a result cannot be sliced so: a column is named twice, or like one of every result or of this audit's `own`."""
    taken = RESERVED.union(own)
    problems = [
        f"by={b!r} is also a column of every result. Rename that column of the table first." for b in by if b in taken
    ]
    return problems + [f"by names {b!r} twice. Name each column once." for b in dict.fromkeys(by) if by.count(b) > 1]


def label_problems(role: str, column: str, table: Table) -> list[str]:
    """What keeps a column from being labels: nested values, several types in one column, types that engines cannot compare."""
    dtype, engine = table.schema[column], table.lazy.implementation
    if dtype == nw.Duration and not (engine.is_polars() or engine.is_pandas()):
        return [f"{role}={column!r} holds durations, which this engine does not hand out. Cast them to text first."]
    if dtype == nw.Object or (dtype == nw.String and engine.is_pandas() and not _all_text(table, column)):
        return [
            f"{role}={column!r} holds values that are neither all text nor all numbers. Pass a column of plain labels."
        ]
    if dtype in NESTED:
        return [f"{role}={column!r} holds {dtype} values. Pass a column of plain labels."]
    if dtype == nw.Unknown and (name := _native_type(table, column)) not in NAMELESS:
        return [f"{role}={column!r} holds {name} values. Pass a column of plain labels."]
    return []


def _all_text(table: Table, column: str) -> bool:
    """Whether a pandas column that begins with text goes on with it; its first rows are all that narwhals looks at."""
    import pandas as pd

    values = table.lazy.to_native()[column]
    return values.dtype != object or pd.api.types.infer_dtype(values, skipna=True) in ("string", "empty")


def _native_type(table: Table, column: str) -> str:
    """What an engine calls a type that narwhals does not know; those of Spark and Ibis are left to them."""
    engine, native = table.lazy.implementation, table.lazy.to_native()
    if engine.is_pandas():
        return str(native[column].dtype)
    return str(native.types[native.columns.index(column)]) if engine.is_duckdb() else "Null"
