"""What the caller passed, as a relation: a dataframe, files, a table of a database."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import narwhals as nw
import numpy as np
import polars as pl

from evenhand.errors import EvenhandError, listing
from evenhand.sources import databases, recorded, spark
from evenhand.sources.engine import (
    Cells,
    Choice,
    Column,
    DuckDBEngine,
    Engine,
    OneShot,
    StoredTable,
    Type,
    as_stored,
    by_position,
    column_of,
    library_of_frame,
    of_duckdb_type,
    polars_columns,
    polars_kinds,
    reading,
    refuse_repeated,
    usable_names,
)
from evenhand.sources.files import (
    SPECIAL,
    STANDARD_INPUT,
    WITHIN,
    database_of,
    files_of,
    scan_special,
    unreadable_place,
)
from evenhand.sources.folders import lasting
from evenhand.sources.formats import FORMATS, read_files
from evenhand.sources.inputs import record_frame, scheme, tally_of
from evenhand.sources.relation import Relation
from evenhand.sources.sql import quoted, text
from evenhand.sources.text_files import FOUND_OUT, CsvOptions, Notation

EAGER = frozenset({"polars", "pandas", "pyarrow", "modin"})
"""Libraries that can hold a small frame; the others get theirs as PyArrow."""


@dataclass(frozen=True)
class Files:
    """Files and how they are read; a plan records the files.

    Attributes
    ----------
    engine, master : what reads them, and the Spark master.
    csv : how separated text is written, as far as somebody said so; None where nobody was asked.
    """

    paths: tuple[str, ...]
    engine: str = "duckdb"
    master: str | None = None
    csv: CsvOptions | None = None

    @property
    def reading(self) -> dict[str, Any]:
        """Arguments needed to read the files again: of Spark, where nobody else may reach them, and of text."""
        named = {} if self.master is None else {"master": self.master}
        spark = {"engine": self.engine, **named} if self.engine == "spark" else {}
        csv = {} if self.csv is None else self.csv.named()
        return {**spark, **({"csv": csv} if csv else {})}

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return open_table(self).names

    @property
    def frame(self) -> Any:
        """All rows as a Polars frame; columns that hold only numbers, as numbers."""
        opened = open_table(self)
        return fetch(opened.with_numbers(*opened.schema)).frame

    def __repr__(self) -> str:
        return f"Files({', '.join(map(repr, self.paths))}{''.join(f', {k}={v!r}' for k, v in self.reading.items())})"

    def as_word(self) -> Any:
        return list(self.paths) if len(self.paths) > 1 else self.paths[0]


def csv(
    path: str | Path,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    null: str | Sequence[str] = (),
) -> Files:
    """A table for any audit from separated text; what is left out is found out, and said in the result's provenance.

    Parameters
    ----------
    path : a file or a glob, also packed (.gz, .zst) and with any ending.
    delimiter : what stands between fields, such as `";"` or `"tab"`.
    decimal : `"."` or `","`.
    thousands : what stands between thousands: `"."`, `","`, `"space"`, `"apostrophe"` or `"none"`.
    encoding : such as `"latin-1"` or `"utf-16"`.
    null : words for a missing value, in every column.

    Returns
    -------
    Files
        `.columns` are the names, `.frame` is a Polars frame with all rows.
    """
    return Files((str(path),), csv=CsvOptions.from_words(delimiter, decimal, thousands, encoding, null))


def excel(path: str | Path, *, sheet: str | None = None) -> Files:
    """A table for any audit from a sheet of an Excel workbook: the first that is not empty, unless `sheet` names another.

    The text `"book.xlsx::sheet"` means the same wherever a path does. Needs the extra `excel`.
    """
    return Files((str(path) if sheet is None else f"{path}{WITHIN}{sheet}",))


def open_table(
    table: Any, *, role: str = "table", columns: Sequence[Any] | None = None, same_engine_as: Any = None
) -> Relation:
    """A relation from a dataframe, a path, a glob, or several paths.

    Parameters
    ----------
    columns : the columns that will be read; others need not be fetched. None: all of them.
    same_engine_as : another relation or log, in whose engine this one is to be, so that the two can be joined.
    """
    engine = None if same_engine_as is None else same_engine_as.engine
    if isinstance(engine, recorded.RecordingEngine) and isinstance(table, str):
        return engine.table(table, role)
    opened = _opened(table, role, columns, engine)
    if engine is None or opened.engine is engine:
        return opened
    # a small table goes to another engine by way of this process
    inner = dict(zip(opened.expressions, usable_names(list(opened.expressions)), strict=True))
    cells = opened.engine.cells(opened.select({inner[name]: sql for name, sql in opened.expressions.items()}))
    return replace(
        opened, engine=engine, name=engine.bring(cells), expressions={name: quoted(inner[name]) for name in inner}
    )


def _opened(table: Any, role: str, columns: Sequence[Any] | None, engine: Engine | None) -> Relation:
    if isinstance(table, Relation):
        return table
    if (tally := tally_of(table)) is not None:
        return recorded.open_tally(tally)
    if isinstance(table, (str, Path)):
        table = Files((str(table),))
    elif isinstance(table, (list, tuple)) and table and all(isinstance(t, (str, Path)) for t in table):
        table = Files(tuple(map(str, table)))
    if isinstance(table, Files) and table.engine != "spark":
        return _open_files(table, role, columns, engine)
    if isinstance(table, Files):
        if any(map(database_of, table.paths)):
            raise EvenhandError(f"{table.paths[0]!r} is read by DuckDB only. {spark.WITHOUT_SPARK}")
        if not any(map(scheme, table.paths)) and files_of(table.paths, role, table.csv)[1] != "parquet":
            return _copied_to_spark(table, role, columns, engine)
        return spark.open_files(table.paths, role, table.master, engine)
    return _open_frame(table, role, columns, engine)


def _copied_to_spark(table: Files, role: str, columns: Sequence[Any] | None, engine: Engine | None) -> Relation:
    """Files other than Parquet for Spark: read here as always, then from a copy that executors on this machine can read."""
    local = DuckDBEngine()
    opened = _open_files(table, role, columns, local)
    inner = dict(zip(opened.expressions, usable_names(list(opened.expressions)), strict=True))
    path = str(lasting() / f"{role}.parquet")
    rows = opened.select({inner[name]: sql for name, sql in opened.expressions.items()})
    local.execute(f"COPY ({rows}) TO {text(path)} (FORMAT parquet)")
    copy = spark.open_parquet([path], role, table.master, engine)
    expressions = {name: copy.expressions[inner[name]] for name in inner}
    return replace(opened, engine=copy.engine, name=copy.name, expressions=expressions, backend=copy.backend)


def _open_frame(table: Any, role: str, columns: Sequence[Any] | None, engine: Engine | None) -> Relation:
    library = library_of_frame(table)
    if library == "ibis" and (relation := databases.relation_of_ibis(table)) is not None:
        table, library = relation, "duckdb"
    if library in ("pyspark", "ibis") or isinstance(table, databases.DatabaseQuery):
        open_remote = spark.open_frame if library == "pyspark" else databases.open_frame
        opened = open_remote(table, role, engine)
        record_frame(role, None, len(opened.schema))
        return opened
    local = _local(engine)
    with reading(role):
        if library == "sqlframe":
            library, table = "duckdb", databases.relation_of_sqlframe(table, role)
        stored = store_frame(local, table, role, _choice(role, columns))
        backend = library if library in EAGER else "pyarrow"
        has_length = library in EAGER and hasattr(type(table), "__len__")
        record_frame(role, len(table) if has_length else None, len(stored.columns))
        return _relation(local, stored, backend=backend, origin=f"a {library} table")


def _open_files(table: Files, role: str, columns: Sequence[Any] | None, engine: Engine | None) -> Relation:
    local, choose, patterns = _local(engine), _choice(role, columns), table.paths
    if any(map(database_of, patterns)):
        if len(patterns) > 1:
            raise EvenhandError(
                f"{role} names several tables, one of them in a database. Pass one, or a view on all of them."
            )
        with reading(role):
            stored = store_frame(local, databases.relation_of_file(patterns[0], role), role, choose)
            return _relation(local, stored, backend="pyarrow", origin=patterns[0])
    options = table.csv or FOUND_OUT
    paths, kind = files_of(patterns, role, table.csv)
    origin = "standard input" if STANDARD_INPUT in patterns else listing(paths)
    if kind in SPECIAL or any(map(scheme, paths)):  # read by Polars with their own libraries, the needed columns once
        with reading(role, lambda error: unreadable_place(paths[0], error)):
            lazy, origin = (
                scan_special(paths, kind, role)
                if kind in SPECIAL
                else (FORMATS[kind].with_options(options).scan(paths), origin)
            )
            stored = store_frame(local, lazy, role, choose)
            is_text = kind in FORMATS and FORMATS[kind].is_text
            notation = Notation(options.decimal, options.thousands)
            return _relation(local, stored, backend="polars", origin=origin, is_text=is_text, notation=notation)
    form = FORMATS[kind].with_options(options)

    def explain(error: BaseException) -> EvenhandError:
        words = str(error)
        return form.explain(next((p for p in paths if p in words or Path(p).name in words), paths[0]), error)

    with reading(f"{role}={origin!r}", explain):
        stored, lacking = read_files(local, paths, form, role, choose)
        facts = {"is_text": form.is_text, "lacking": lacking, "notation": form.notation(paths)}
        return _relation(local, stored, backend="polars", origin=origin, **facts)


def _local(engine: Engine | None) -> DuckDBEngine:
    return engine if isinstance(engine, DuckDBEngine) else DuckDBEngine()


def _choice(role: str, columns: Sequence[Any] | None) -> Choice:
    """Which columns of a table will be read; each must have one name of its own, as text."""

    def choose(names: list[Any]) -> Collection[str]:
        refuse_repeated(names, role)
        return names if columns is None else [name for name in names if name in columns]

    return choose


def _relation(engine: DuckDBEngine, table: StoredTable, **facts: Any) -> Relation:
    """A relation from a stored table, whose columns may have other names in DuckDB."""
    kinds = {column.name: column.kind for column in table.columns}
    zones = [getattr(kind, "time_zone", None) for kind in kinds.values() if kind == nw.Datetime]
    if zone := next(filter(None, zones), None):
        engine.use_zone(zone)  # moments are handed out in the zone that the table has
    inner = zip(table.columns, usable_names([column.name for column in table.columns]), strict=True)
    return Relation(
        engine,
        table.name,
        kinds,
        {column.name: column.sql.format(quoted(name)) for column, name in inner if column.sql},
        native={column.name: column.native for column in table.columns if column.native},
        **facts,
    )


def fetch(relation: Relation, expressions: Mapping[str, str] | None = None, *, most: int | None = None) -> Cells:
    """All rows of a small relation, or the first so many (`most`)."""
    named = dict(expressions or relation.expressions)
    inner = [f"column_{i}" for i in range(len(named))]  # no engine quotes the empty name, and DuckDB minds no capitals
    query = relation.select(dict(zip(inner, named.values(), strict=True))) + (
        f" LIMIT {most}" if most is not None else ""
    )
    return Cells(relation.engine.cells(query).frame.rename(dict(zip(inner, named, strict=True))))


ROWS_AT_ONCE = 122_880
"""Rows of a frame that DuckDB is handed at once: a row group, which is what one of its threads works on."""


def store_frame(engine: DuckDBEngine, table: Any, role: str, choose: Choice) -> StoredTable:
    """A frame as a table of the engine, with the columns that `choose` picks of its names."""
    stores = {"pandas": _store_pandas, "polars": _store_polars, "duckdb": _store_duckdb}
    store = stores.get(library_of_frame(table))
    if store is not None:
        return store(engine, table, role, choose)
    try:
        frame = nw.from_native(table)
    except TypeError:
        return _store_stream(engine, table, role, choose)
    except nw.exceptions.DuplicateError as error:
        raise EvenhandError(
            f"{role} has several columns of the same name. Give each column a name of its own."
        ) from error
    rows = frame.collect("polars").to_native() if isinstance(frame, nw.LazyFrame) else frame.to_polars()
    return _store_polars(engine, rows, role, choose)


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
