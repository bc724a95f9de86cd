"""Roles as data: which column plays which part, and one query that counts every problem of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import narwhals as nw

from evenhand.errors import listing, suggestion
from evenhand.sources.columns import NESTED
from evenhand.sources.engine import Engine
from evenhand.sources.inputs import record_facts
from evenhand.sources.numerals import not_numbers
from evenhand.sources.relation import Relation, is_number
from evenhand.sources.sql import columns, count_where

RESERVED = frozenset(
    {"metric", "group", "estimate", "low", "high", "chance", "ideal", "better", "units", "undefined_draws", "note"}
)
"""Columns of every result; a slice column of that name would hide them."""


ITEM_NAMES = ("item", "item_id", "doc_id", "docid", "docno", "id")
"""What the column of items may be called in a second table (groups, judgments, providers), the first that is there."""

WHOLE_TABLE = "(whole table)"
"""The column that stands for the request where nobody named one: it holds the same in every row."""


def with_request(table: Relation, request: str | None) -> tuple[Relation, str]:
    """The table and its column of requests; without one, all rows (of a slice and system) are of one request."""
    if request is not None:
        return table, request
    return table.with_column(WHOLE_TABLE, "CAST('all' AS VARCHAR)", nw.String()), WHOLE_TABLE


def item_column(table: Relation, item: str, role: str) -> str:
    """The column of items in a second table: `item`, or one of the usual names; provenance says which was taken.

    `item` itself where there is none, to be refused as a column that is absent.
    """
    column = next((name for name in (item, *ITEM_NAMES) if name in table.schema), item)
    record_facts(role, item=column)
    return column


def missing_columns(table: Relation, roles: Sequence[tuple[str, Any]], of: str = "the table") -> list[str]:
    """One problem per role whose column a table does not have; `of` is what the caller knows the table as."""
    names = table.names
    problems = []
    for role, column in roles:
        if not isinstance(column, str):
            problems.append(f"{role}={column!r} is not a column name. Pass the name of a column as text.")
        elif column in table.lacking:
            problems.append(
                f"{role}={column!r} is not a column of {table.lacking[column]!r}. Pass files that all have it."
            )
        elif column not in table.schema:
            problems.append(
                f"{role}={column!r} is not a column of {of}. {suggestion(column, names)}Columns: {listing(names) or 'none'}."
            )
    return problems


def role_problems(
    table: Relation, roles: Sequence[tuple[str, Any]], numbers: Collection[str], of: str = "the table"
) -> list[str]:
    """Problems of columns in their roles: absent, not numeric, or not usable as labels."""
    problems, schema = missing_columns(table, roles, of), table.schema
    for role, column in roles:
        if not isinstance(column, str) or column not in schema:
            continue
        if role not in numbers:
            problems += label_problems(role, column, table)
        elif schema[column] == nw.String and column in table.expressions:
            problems.append(f"{role}={column!r} {not_numbers(table, column)}")
        elif not is_number(schema[column]):
            problems.append(f"{role}={column!r} holds {schema[column]} values, not numbers. Convert the column first.")
    return problems


def label_problems(role: str, column: str, table: Relation) -> list[str]:
    """Problems of a label column: nested values, mixed types, types that engines cannot compare."""
    kind = table.schema[column]
    if kind == nw.Object:
        return [
            f"{role}={column!r} holds values that are neither all text nor all numbers. Pass a column of plain labels."
        ]
    if kind in NESTED:
        return [f"{role}={column!r} holds {kind} values. Pass a column of plain labels."]
    if kind == nw.Duration and column in table.native:
        return [f"{role}={column!r} holds durations, which this engine does not hand out. Cast them to text first."]
    if column in table.native:
        return [f"{role}={column!r} holds {table.native[column]} values. Pass a column of plain labels."]
    return []


def slice_problems(by: Sequence[str], audit_columns: Collection[str] = ()) -> list[str]:
    """Why a result cannot be sliced so: a column is named twice, or like one of every result or of this audit's `own`."""
    taken = RESERVED.union(audit_columns)
    problems = [
        f"by={b!r} is also a column of every result. Rename that column of the table first." for b in by if b in taken
    ]
    return problems + [f"by names {b!r} twice. Name each column once." for b in dict.fromkeys(by) if by.count(b) > 1]


def number_facts(numbers: Mapping[str, str]) -> dict[str, str]:
    """SQL aggregates of numeric columns, by role: missing, negative, lowest, highest."""
    aggregates = {}
    for role, column in numbers.items():
        aggregates[f"missing_{role}"] = count_where(f"{column} IS NULL")
        aggregates[f"negative_{role}"] = count_where(f"{column} < 0")
        aggregates[f"low_{role}"] = f"MIN({column})"
        aggregates[f"high_{role}"] = f"MAX({column})"
    return aggregates


def label_facts(labels: Mapping[str, str]) -> dict[str, str]:
    """SQL aggregates of label and id columns, by role: how many are missing."""
    return {f"missing_{role}": count_where(f"{column} IS NULL") for role, column in labels.items()}


def count_groups(engine: Engine, rows: str, keys: Sequence[str], having: str = "COUNT(*) > 1") -> int:
    """How many distinct keys of some rows (what stands after FROM) have rows that meet a condition: several, by default."""
    per_key = f"SELECT {columns(keys)} FROM {rows} GROUP BY {columns(keys)} HAVING {having}"
    return int(engine.cells(f"SELECT COUNT(*) AS n FROM ({per_key}) AS per_key").row()["n"])


def may_repeat(engine: Engine, query: str, keys: Sequence[str]) -> bool:
    """Whether two rows have keys of the same hash: if not, none are equal. Hashes of long ids group in half the time."""
    hashed = f"(SELECT hash({columns(keys)}) AS hashed FROM ({query}) AS keyed) AS hashes"
    return count_groups(engine, hashed, ["hashed"]) > 0


def counted_rows(many: Any) -> str:
    """So many rows, in the number that fits.

    >>> counted_rows(1), counted_rows(1200)
    ('1 row', '1,200 rows')
    """
    return f"{int(many):,} row{'s' * (many != 1)}"
