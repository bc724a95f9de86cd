"""Columns of lists: a row per request with a list of its items, best first, becomes a row per item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError
from evenhand.sources.engine import DuckDBEngine
from evenhand.sources.frames import Type
from evenhand.sources.inputs import record_numerals
from evenhand.sources.relation import Relation, counted_rows
from evenhand.sources.sql import count_where, quoted, text

POSITION = "rank"
"""The column that holds the place of an item in its list, where the table has none of that name."""


def lists_with(table: Relation, names: Sequence[str]) -> list[str]:
    """Columns of lists of objects that have fields of these names, which no column has."""
    absent = {name for name in names if name not in table.schema}
    return [name for name in table.schema if absent & set(_fields(table, name))]


def unnested(table: Relation, names: Sequence[str], item: str | None) -> Relation:
    """A row per element of the lists among some columns, which run side by side; the position is the rank.

    The table as it is where its rows are items: a list is then one of labels of an item.
    """
    if POSITION in table.schema if item is None or item not in table.schema else table.schema[item] != nw.List:
        return table
    elements = dict(_elements(table, names))
    lists = list(dict.fromkeys(column for column, _, _ in elements.values()))
    if not lists:
        return table
    if not isinstance(table.engine, DuckDBEngine):
        raise EvenhandError(
            f"{lists[0]!r} holds lists, which are read by the local engine only. Unnest them where the table is, with the position "
            "as rank (Spark: posexplode), or pass a file."
        )
    lengths = [f"COALESCE(LEN({table.column(name)}), 0)" for name in lists]
    uneven = " OR ".join(f"{lengths[0]} <> {other}" for other in lengths[1:]) or "FALSE"
    facts = table.facts({"uneven": count_where(uneven), "empty": count_where(f"{lengths[0]} = 0")})
    if facts["uneven"]:
        raise EvenhandError(
            f"The lists in {' and '.join(map(repr, lists))} differ in length in {counted_rows(facts['uneven'])}. "
            "Pass lists with a value for each item."
        )
    record_numerals(lists[0], {"list": "items", **({"empty": int(facts["empty"])} if facts["empty"] else {})})
    plain = {name: sql for name, sql in table.expressions.items() if name not in lists}
    values = {name: value.format(f"UNNEST({table.column(column)})") for name, (column, value, _) in elements.items()}
    place = {} if POSITION in table.schema else {POSITION: f"GENERATE_SUBSCRIPTS({table.column(lists[0])}, 1)"}
    expressions = {**plain, **values, **place}
    inner = dict(zip(expressions, (f"c{i}" for i in range(len(expressions))), strict=True))
    view = table.engine.view(table.select({inner[name]: sql for name, sql in expressions.items()}))
    kinds = {name: kind for name, (_, _, kind) in elements.items()} | ({POSITION: nw.Int64()} if place else {})
    schema = {name: kind for name, kind in table.schema.items() if name not in lists} | kinds
    return replace(table, name=view, schema=schema, expressions={name: quoted(inner[name]) for name in expressions})


def _elements(table: Relation, names: Sequence[str]) -> Iterator[tuple[str, tuple[str, str, Type]]]:
    """What each name stands for in a row of the table: its column, SQL of its value in an element, its type."""
    kind: Any
    for column, kind in table.schema.items():
        if column in names and kind == nw.List:
            yield column, (column, "{}", kind.inner)
        for field, field_kind in _fields(table, column).items():
            if field in names and field not in table.schema:
                yield field, (column, f"STRUCT_EXTRACT({{}}, {text(field)})", field_kind)


def _fields(table: Relation, column: str) -> dict[str, Type]:
    """The fields of the objects that a column lists."""
    kind: Any = table.schema[column]
    inner = kind.inner if kind == nw.List else None
    return (
        dict(zip((f.name for f in inner.fields), (f.dtype for f in inner.fields), strict=True))
        if inner == nw.Struct
        else {}
    )
