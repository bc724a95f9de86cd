"""Dataframes of every library as tables that DuckDB reads: each column with its owner's type, and the SQL that makes it again.

Numbers, text, categories, truth values, days and moments are read, and lists of them; other types are refused where they are named.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import narwhals as nw
import numpy as np
import polars as pl

from evenhand.errors import EvenhandError
from evenhand.sources.engine import DuckDBEngine, OneShot
from evenhand.sources.sql import quoted

Type = nw.dtypes.DType

INTEGERS, TEXT = nw.Int64(), nw.String()
"""Types of columns that are made here."""

PLAIN = (
    nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64, nw.Float32, nw.Float64, nw.Decimal,
    nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Date, nw.Datetime,
)  # fmt: skip
"""Types of labels and numbers."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table in an engine.

    Attributes
    ----------
    name : what its owner calls it; two columns may differ by case only, and a name may be empty.
    kind : its type, as narwhals calls it.
    sql : its value, where `{}` stands for the column in the engine; NULL where its type is not read, nothing where nobody reads it.
    native : what its owner calls a type that is not read.
    """

    name: str
    kind: Type
    sql: str = "{}"
    native: str = ""

    @property
    def is_stored(self) -> bool:
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


def column_of(name: str, kind: Type, native: str = "") -> Column:
    """A column by its type, and what its owner calls that."""
    if kind in PLAIN or kind == nw.List:
        return Column(name, kind)
    return Column(name, kind, "NULL", native or str(kind))


def of_duckdb_type(name: str, kind: Any) -> Column:
    """A column by its type in DuckDB, as a relation's `types` lists it."""
    native = str(kind)
    if native in ("UUID", "JSON"):
        return Column(name, nw.String(), "CAST({} AS VARCHAR)")
    if native in ("HUGEINT", "UHUGEINT"):  # sums of integers; those that do not fit are refused by DuckDB
        return Column(name, nw.Int64(), "CAST({} AS BIGINT)")
    if native == '"NULL"':  # one missing label
        return Column(name, nw.Unknown(), "CAST({} AS VARCHAR)")
    narwhals_type = type_of(kind)
    return column_of(name, narwhals_type, native if narwhals_type == nw.Unknown else "")


_PLAIN_TYPES: Mapping[str, Type] = {
    "tinyint": nw.Int8(), "smallint": nw.Int16(), "integer": nw.Int32(), "bigint": nw.Int64(),
    "utinyint": nw.UInt8(), "usmallint": nw.UInt16(), "uinteger": nw.UInt32(), "ubigint": nw.UInt64(),
    "float": nw.Float32(), "double": nw.Float64(), "boolean": nw.Boolean(), "varchar": nw.String(),
    "date": nw.Date(), "timestamp": nw.Datetime("us"), "timestamp_ns": nw.Datetime("ns"),
    "timestamp_ms": nw.Datetime("ms"), "timestamp_s": nw.Datetime("s"), "timestamp with time zone": nw.Datetime("us", "UTC"),
}  # fmt: skip


def type_of(kind: Any) -> Type:
    """A type of DuckDB as narwhals calls it.

    >>> import duckdb
    >>> [type_of(duckdb.dtype(name)) for name in ("BIGINT", "INTEGER[]", "STRUCT(a VARCHAR)", "UUID")]
    [Int64, List(Int32), Struct({'a': String}), Unknown]
    """
    if kind.id == "list":
        return nw.List(type_of(kind.child))
    if kind.id == "struct":
        return nw.Struct({name: type_of(inner) for name, inner in kind.children})
    if kind.id == "decimal":
        (_, precision), (_, scale) = kind.children
        return nw.Decimal(precision, scale)
    if kind.id == "enum":
        return nw.Enum(kind.children[0][1])
    return _PLAIN_TYPES.get(kind.id, nw.Unknown())


Choice = Callable[[list[Any]], Collection[str]]
"""From the names of a table's columns to those that will be read; it refuses names that are no text, or there twice."""

ROWS_AT_ONCE = 122_880
"""Rows of a frame that DuckDB is handed at once: a row group, which is what one of its threads works on."""


def library_of_frame(table: Any) -> str:
    return type(table).__module__.split(".")[0].lstrip("_")


def store_frame(engine: DuckDBEngine, table: Any, role: str, choose: Choice) -> StoredTable:
    """A frame as a table of the engine, with the columns that `choose` picks of its names."""
    stores = {"pandas": _store_pandas, "polars": _store_polars, "pyarrow": _store_arrow, "duckdb": _store_duckdb}
    store = stores.get(library_of_frame(table))
    if store is not None:
        return store(engine, table, role, choose)
    try:
        frame = nw.from_native(table)
    except TypeError:
        return _store_stream(engine, table, role, choose)
    lazy = frame if isinstance(frame, nw.LazyFrame) else frame.lazy()
    chosen = choose(list(lazy.collect_schema().names()))
    return _store_polars(engine, lazy.collect("polars").to_native(), role, lambda _: chosen)


def no_frame(table: Any, role: str) -> EvenhandError:
    return EvenhandError(
        f"{role} is of type {type(table).__name__}, which is not a dataframe. "
        "Pass a pandas, Polars, PyArrow, DuckDB or PySpark table, or a path to Parquet, CSV or JSON lines."
    )


def _store_pandas(engine: DuckDBEngine, frame: Any, role: str, choose: Choice) -> StoredTable:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise no_frame(frame, role)
    names: list[Any] = list(frame.columns)
    chosen, columns, arrays = choose(names), [], {}
    for i, inner in enumerate(usable_names(names)):
        column, values = _pandas_column(names[i], frame.iloc[:, i], is_read=names[i] in chosen)
        columns.append(column)
        if column.is_stored:
            arrays[inner] = values.array
    arrays = arrays or {"none": pd.array([0] * len(frame), dtype="int8")}
    return StoredTable(engine.register(pd.DataFrame(arrays, copy=False)), columns)


def _pandas_column(name: str, values: Any, *, is_read: bool) -> tuple[Column, Any]:
    """A column of pandas with values that DuckDB reads."""
    import pandas as pd

    kind = nw.from_native(values, series_only=True).dtype
    if not is_read:
        return Column(name, kind, ""), values
    if isinstance(values.dtype, pd.CategoricalDtype):
        types = {type(category) for category in values.cat.categories}
        if len(types) > 1:
            return column_of(name, nw.Object()), values
        if types != {str}:
            values = values.cat.rename_categories([str(category) for category in values.cat.categories])
    if values.dtype == object:
        return _pandas_objects(name, values)
    return column_of(name, kind, str(values.dtype)), values


_PANDAS_OBJECTS: dict[str, tuple[Type, str | None]] = {
    "string": (nw.String(), None), "empty": (nw.String(), "string"), "boolean": (nw.Boolean(), "boolean"),
    "integer": (nw.Int64(), "Int64"), "floating": (nw.Float64(), "float64"), "mixed-integer-float": (nw.Float64(), "float64"),
    "date": (nw.Date(), None), "decimal": (nw.Decimal(), None),
}  # fmt: skip
"""What pandas infers of plain objects that are all of one kind, and the type to cast them to."""


def _pandas_objects(name: str, values: Any) -> tuple[Column, Any]:
    """Objects of one type (booleans, integers, dates, decimals) are read as that type."""
    import pandas as pd

    inferred = pd.api.types.infer_dtype(values, skipna=True)
    if inferred in _PANDAS_OBJECTS:
        kind, cast = _PANDAS_OBJECTS[inferred]
        try:
            return Column(name, kind), values if cast is None else values.astype(cast)
        except (OverflowError, TypeError, ValueError):  # whole numbers of more than 64 bits
            return column_of(name, nw.Object()), values
    if all(isinstance(value, UUID) for value in values.dropna()):  # as database drivers hand out ids
        return Column(name, nw.String()), values.map(str, na_action="ignore")
    if all(isinstance(value, (list, tuple, np.ndarray)) for value in values.dropna()):
        element, _ = _pandas_objects(name, values.explode())
        return (element if element.native else Column(name, nw.List(element.kind))), values
    return column_of(name, nw.Object()), values


def _store_polars(engine: DuckDBEngine, frame: Any, role: str, choose: Choice) -> StoredTable:
    if not isinstance(frame, (pl.DataFrame, pl.LazyFrame)):
        raise no_frame(frame, role)
    schema = frame.collect_schema()
    columns, expressions = polars_columns(schema, choose(schema.names()))
    plain = frame.select(expressions) if expressions else frame.select(pl.repeat(0, pl.len()).alias("none"))
    if isinstance(plain, pl.LazyFrame):
        return StoredTable(engine.ingest(plain), columns)
    if len(plain) > ROWS_AT_ONCE:  # in chunks, which the threads of DuckDB share; nothing is copied
        plain = pl.concat(plain.iter_slices(ROWS_AT_ONCE), rechunk=False)
    return StoredTable(engine.register(plain), columns)


def polars_columns(schema: pl.Schema, chosen: Collection[str]) -> tuple[list[Column], list[pl.Expr]]:
    """Columns of a Polars frame, and expressions that select the chosen ones for DuckDB."""
    kinds = polars_kinds(schema)
    columns, expressions = [], []
    for i, (name, inner) in enumerate(zip(kinds, usable_names(list(kinds)), strict=True)):
        column, cast = _polars_column(name, schema[name], kinds[name])
        column = column if name in chosen else replace(column, sql="")
        columns.append(column)
        if column.is_stored:
            values = pl.nth(i)  # by position: a name may read like a pattern
            expressions.append((values if cast is None else values.cast(cast)).alias(inner))
    return columns, expressions


def polars_kinds(schema: pl.Schema) -> dict[str, Type]:
    return dict(nw.from_native(pl.DataFrame(schema=schema)).schema)


def _polars_column(name: str, native: Any, kind: Type) -> tuple[Column, Any]:
    """A column with the type that Polars casts it to, where DuckDB does not read its own."""
    if native == pl.Null:
        return Column(name, kind, "CAST(NULL AS VARCHAR)"), None
    return column_of(name, kind), pl.String if isinstance(native, (pl.Categorical, pl.Enum)) else None


def _store_arrow(engine: DuckDBEngine, table: Any, role: str, choose: Choice) -> StoredTable:
    """A table of PyArrow shares its memory with Polars; a reader is one of many streams."""
    import pyarrow as pa

    if not isinstance(table, (pa.Table, pa.RecordBatch)):
        return _store_stream(engine, table, role, choose)
    chosen = choose(list(table.schema.names))
    names = list(table.schema.names)
    if not names:
        return _store_polars(engine, pl.DataFrame({"none": [0] * table.num_rows}), role, lambda _: chosen)
    frame = pl.DataFrame(pl.from_arrow(table.rename_columns([f"c{i}" for i in range(len(names))])))
    frame.columns = names  # Polars would give columns without a name another one
    return _store_polars(engine, frame, role, lambda _: chosen)


def _store_stream(engine: DuckDBEngine, table: Any, role: str, choose: Choice) -> StoredTable:
    """An Arrow stream, which may be there once only: written to a temporary table."""
    from arro3.core import RecordBatchReader

    try:
        reader = RecordBatchReader.from_stream(table)
    except (AttributeError, TypeError, ValueError) as error:
        raise no_frame(table, role) from error
    columns, _ = polars_columns(_polars_schema(reader), choose(list(reader.schema.names)))
    return StoredTable(engine.keep(by_position(engine.register(OneShot(reader)), columns)), as_stored(columns))


def _polars_schema(reader: Any) -> pl.Schema:
    return pl.DataFrame(reader.schema.empty_table()).schema


def as_stored(columns: Sequence[Column]) -> list[Column]:
    """Columns once their SQL has been run: the engine holds their values as they are."""
    return [replace(column, sql="{}") if column.is_stored else column for column in columns]


def _store_duckdb(engine: DuckDBEngine, relation: Any, role: str, choose: Choice) -> StoredTable:
    """A relation of the caller's connection: its query runs there, once."""
    from arro3.core import RecordBatchReader

    if not hasattr(relation, "columns") or not hasattr(relation, "types"):
        raise no_frame(relation, role)
    chosen = choose(list(relation.columns))
    columns = [of_duckdb_type(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True)]
    columns = [column if column.name in chosen else replace(column, sql="") for column in columns]
    reader = RecordBatchReader.from_stream(
        relation.query("evenhand_relation", by_position("evenhand_relation", columns))
    )
    kinds = polars_kinds(_polars_schema(reader))  # with the zone of the connection
    for i, (column, inner) in enumerate(zip(columns, usable_names(relation.columns), strict=True)):
        if column.is_stored:
            columns[i] = replace(column, kind=kinds[inner] if column.kind == nw.Datetime else column.kind, sql="{}")
    return StoredTable(engine.keep(f"SELECT * FROM {engine.register(OneShot(reader))}"), columns)


def native(frame: pl.DataFrame, backend: str) -> Any:
    """A Polars frame in the caller's library, PyArrow where that is lazy only; without PyArrow, by which Polars hands over, as it is.

    pandas takes the values one by one then.
    """
    if backend == "polars":
        return frame
    if importlib.util.find_spec("pyarrow") is not None:
        return frame.to_pandas() if backend == "pandas" else frame.to_arrow()
    if backend != "pandas":
        return frame
    import pandas as pd

    return pd.DataFrame(frame.to_dict(as_series=False))
