"""Columns on their way into an engine: the type that their owner gave them, and the SQL that makes it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from evenhand.sources.sql import quoted

Type = nw.dtypes.DType

INTEGERS, TEXT = nw.Int64(), nw.String()
"""Types of columns that are made here."""

NESTED = (nw.List, nw.Struct, nw.Array)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table in an engine.

    Attributes
    ----------
    name : what its owner calls it; two columns may differ by case only, and a name may be empty.
    kind : its type, as narwhals calls it.
    sql : its value, where `{}` or `{0}` stands for the column in the engine; NULL where DuckDB cannot hold what it holds, nothing where
        nobody reads it.
    native : what its owner calls a type whose values no engine compares; such a column is refused as labels.
    """

    name: str
    kind: Type
    sql: str = "{}"
    native: str = ""

    @property
    def is_stored(self) -> bool:
        """Whether the engine holds its values."""
        return "{" in self.sql


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table in an engine.

    Attributes
    ----------
    name : what stands after FROM.
    columns : all columns of the owner, in their order; the table holds the stored ones, by the names of `usable_names`.
    """

    name: str
    columns: Sequence[Column]


def usable_names(names: Sequence[str]) -> list[str]:
    """Names for DuckDB, which minds no capitals and knows no empty name: the same ones where that is possible.

    >>> usable_names(["a", "A", "", "b"])
    ['a', 'column_2', 'column_3', 'b']
    """
    taken = {name.lower() for name in names}
    usable: list[str] = []
    for i, name in enumerate(names, 1):
        if not name.strip("\0") or name.lower() in {other.lower() for other in usable}:
            name = f"column_{i}"
            while name.lower() in taken:
                name = f"{name}_"
            taken.add(name)
        usable.append(name)
    return usable


def by_position(table: str, columns: Sequence[Column]) -> str:
    """A query for the stored ones of all columns of a table, though DuckDB may not be able to tell their names apart.

    >>> by_position("log", [Column("A", nw.Int64(), ""), Column("a", nw.Int64())])
    'SELECT c1 AS "column_2" FROM log AS evenhand_positions(c0, c1)'
    """
    positions = [f"c{i}" for i in range(len(columns))]
    selected = [
        f"{column.sql.format(position)} AS {quoted(inner)}"
        for column, position, inner in zip(columns, positions, usable_names([c.name for c in columns]), strict=True)
        if column.is_stored
    ]
    alias = f" AS evenhand_positions({', '.join(positions)})" if positions else ""
    return f"SELECT {', '.join(selected) or '0 AS none'} FROM {table}{alias}"


def of_duckdb_type(name: str, kind: Any) -> Column:
    """A column by its type in DuckDB, as a relation's `types` lists it."""
    native, narwhals_type = str(kind), type_of(kind)
    if narwhals_type in NESTED:
        return Column(name, narwhals_type, "{}" if narwhals_type == nw.List else "NULL")
    if native in ("UUID", "JSON"):
        return Column(name, nw.String(), "CAST({} AS VARCHAR)")
    if native in NAMELESS:
        return Column(name, nw.Unknown(), "CAST({} AS VARCHAR)")
    if narwhals_type in (nw.Unknown, nw.Duration):  # months have no length, so that no other library holds an interval
        return Column(name, narwhals_type, "NULL", native)
    return Column(name, narwhals_type)


NAMELESS = frozenset({"BIT", "BIGNUM", "TIME_NS", "TIME WITH TIME ZONE", '"NULL"'})
"""Types of labels that narwhals has no name for, though DuckDB compares them; a column of nulls is one missing label."""

_PLAIN_TYPES: Mapping[str, Type] = {
    "tinyint": nw.Int8(), "smallint": nw.Int16(), "integer": nw.Int32(), "bigint": nw.Int64(), "hugeint": nw.Int128(),
    "utinyint": nw.UInt8(), "usmallint": nw.UInt16(), "uinteger": nw.UInt32(), "ubigint": nw.UInt64(), "uhugeint": nw.UInt128(),
    "float": nw.Float32(), "double": nw.Float64(), "boolean": nw.Boolean(), "varchar": nw.String(), "blob": nw.Binary(),
    "date": nw.Date(), "time": nw.Time(), "timestamp": nw.Datetime("us"), "timestamp_ns": nw.Datetime("ns"),
    "timestamp_ms": nw.Datetime("ms"), "timestamp_s": nw.Datetime("s"), "timestamp with time zone": nw.Datetime("us", "UTC"),
    "interval": nw.Duration("us"),
}  # fmt: skip


def type_of(kind: Any) -> Type:
    """A type of DuckDB as narwhals calls it.

    >>> import duckdb
    >>> [type_of(duckdb.dtype(name)) for name in ("BIGINT", "INTEGER[]", "INTEGER[2]", "STRUCT(a VARCHAR)", "UUID")]
    [Int64, List(Int32), Array(Int32, shape=(2,)), Struct({'a': String}), Unknown]
    """
    if kind.id == "list":
        return nw.List(type_of(kind.child))
    if kind.id == "struct":
        return nw.Struct({name: type_of(inner) for name, inner in kind.children})
    if kind.id == "array":
        (_, inner), (_, size) = kind.children
        return nw.Array(type_of(inner), size)
    if kind.id == "decimal":
        (_, precision), (_, scale) = kind.children
        return nw.Decimal(precision, scale)
    if kind.id == "enum":
        return nw.Enum(kind.children[0][1])
    return _PLAIN_TYPES.get(kind.id, nw.Unknown())
