"""Spark and databases: queries go to where the rows are, and tallies come back."""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import narwhals as nw
import polars as pl

from evenhand.errors import EvenhandError, listing, refuse_keys
from evenhand.sources.columns import Column, Type
from evenhand.sources.csv_dialect import refuse_unreadable
from evenhand.sources.databases import DatabaseQuery, query_of_ibis
from evenhand.sources.dialects import adapted, parsed, translated, with_steps
from evenhand.sources.engine import Batch, Cells, Engine, frame_of, new_name, whole_groups
from evenhand.sources.failures import reading, refuse_repeated, unreadable
from evenhand.sources.files import common_kind, files_of
from evenhand.sources.formats import FORMATS, Lot, Separated, lots_of, shared_names
from evenhand.sources.inputs import record_place
from evenhand.sources.relation import Relation, relation_of
from evenhand.sources.sql import columns, quoted, text
from evenhand.sources.stores import SPECIAL, scheme

T = TypeVar("T")


class SparkEngine(Engine):
    """A Spark session: queries run in Spark SQL, whole groups are tallied on the executors."""

    has_row_order = False
    has_rows = True

    def __init__(self, session: Any) -> None:
        self.session = session
        self._undo: list[Callable[[], Any]] = []
        weakref.finalize(self, _run_all, self._undo).atexit = False

    def cells(self, query: str) -> Cells:
        with reading():
            return Cells(_polars(self._rows(query).toArrow()))

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        with reading(explain=_explain_executors):
            for (pickled,) in self._mapped(query, key, order, lambda batch: batch).toLocalIterator():
                yield _unpacked(pickled)

    def tallied(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], T]) -> list[T]:
        with reading(explain=_explain_executors):
            answers = self._mapped(query, key, order, partial).toArrow()
            return [_unpacked(pickled) for pickled in answers.column(0).to_pylist()]

    def bring(self, frame: Any) -> str:
        with reading():
            rows = signed(frame_of(frame)).to_arrow(compat_level=pl.CompatLevel.oldest())
            return self.named(self.session.createDataFrame(rows))

    def keep(self, query: str) -> str:
        with reading():
            rows = self._rows(query).cache()
            self._undo.append(rows.unpersist)
            return self.named(rows)

    def view(self, query: str) -> str:
        with reading():
            return self.named(self._rows(query))

    def named(self, frame: Any) -> str:
        """The name under which queries find a Spark frame."""
        name = new_name()
        frame.createOrReplaceTempView(name)
        self._undo.append(functools.partial(self.session.catalog.dropTempView, name))
        return name

    def _rows(self, query: str) -> Any:
        return self.session.sql(translated(query, "spark"))

    def _mapped(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], Any]) -> Any:
        """A Spark frame of pickled answers, one row for each batch of whole groups."""
        from pyspark.sql import functions as fn

        rows = self._rows(query)
        sort = [fn.col(f"`{name}`").asc_nulls_last() for name in (*key, *order)]
        partitions = rows.repartition(*(fn.col(f"`{name}`") for name in key)).sortWithinPartitions(*sort)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on versions of pandas, which is not asked here
            return partitions.mapInArrow(_OnExecutor(tuple(key), tuple(order), partial), "answer binary")


def _explain_executors(error: BaseException) -> EvenhandError:
    """Whole groups are tallied by Python on the executors, which must have evenhand."""
    lacking = re.search(r"No module named '(\w+)", str(error))
    if lacking is None:
        return unreadable("table", error)
    return EvenhandError(
        f"Spark's executors have no Python package {lacking[1]!r}, and this audit counts whole groups there. Install evenhand "
        "in the Python of the executors, which PYSPARK_PYTHON names."
    )


@dataclass(frozen=True)
class _OnExecutor:
    """Applies `partial` to the sorted rows of a partition on an executor."""

    key: tuple[str, ...]
    order: tuple[str, ...]
    partial: Callable[[Batch], Any]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in whole_groups(map(_polars, batches), self.key, self.key, self.order):
            try:
                answer = self.partial(batch)
            except EvenhandError as error:  # told by the driver, in its words and without Java's
                answer = error
            yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(answer)]})


def _unpacked(pickled: bytes) -> Any:
    answer = pickle.loads(bytes(pickled))  # noqa: S301  (written by our own executors)
    if isinstance(answer, EvenhandError):
        raise answer
    return answer


def _polars(table: Any) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table))


def signed(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame of types that Spark and databases have: signed integers, categories as text."""
    kinds: dict[Any, Any] = {pl.UInt8: pl.Int16, pl.UInt16: pl.Int32, pl.UInt32: pl.Int64, pl.UInt64: pl.Decimal(20, 0)}
    kinds |= {pl.Categorical: pl.String, pl.Enum: pl.String, pl.Null: pl.String}
    return frame.with_columns(
        pl.selectors.by_name(name).cast(kinds[kind.base_type()])
        for name, kind in frame.schema.items()
        if kind.base_type() in kinds
    )


def _run_all(actions: Sequence[Callable[[], Any]]) -> None:
    with contextlib.suppress(Exception):  # gone with the session
        for action in actions:
            action()


VALUES_ROWS = 1_000
"""Rows up to which a table that is brought along is written into the query: that needs no right to make tables."""

_SQL_TYPES: Mapping[str, str] = {
    "Boolean": "BOOLEAN", "Int8": "SMALLINT", "Int16": "SMALLINT", "Int32": "INTEGER", "Int64": "BIGINT", "Int128": "HUGEINT",
    "Float32": "FLOAT", "Float64": "DOUBLE", "String": "VARCHAR", "Date": "DATE", "Datetime": "TIMESTAMP",
}  # fmt: skip


class DatabaseEngine(Engine):
    """A database. Views are written as WITH before each query, so that nothing is created."""

    has_row_order = False
    has_rows = True

    def __init__(self, database: IbisDatabase) -> None:
        self.database = database
        self._steps: dict[str, Any] = {}
        self._in_line: set[str] = set()
        self._undo: list[Callable[[], Any]] = []
        weakref.finalize(self, _run_all, self._undo).atexit = False

    def cells(self, query: str) -> Cells:
        with reading():
            return Cells(self.database.frame(self._text(query)))

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        with reading():
            inner = f"SELECT * FROM ({query}) AS rows_in_order"
            kinds = self.database.frame(self._text(f"{inner} LIMIT 0")).schema
            sort = ", ".join(
                self.database.bytewise(quoted(name)) if kinds[name] == pl.String else quoted(name)
                for name in (*key, *order)
            )
            in_order = self.database.frames(f"{self._text(inner)} ORDER BY {sort} NULLS LAST")
            yield from whole_groups(in_order, key, key, order)

    def bring(self, frame: Any) -> str:
        with reading():
            rows, name = signed(frame_of(frame)), new_name()
            if rows.height > VALUES_ROWS:
                self.database.put(name, rows)
                self._undo.append(functools.partial(self.database.run, f"DROP TABLE IF EXISTS {name}"))
                return name
            values = ", ".join(
                f"{self.database.bytewise(quoted(column))} AS {quoted(column)}" if kind == pl.String else quoted(column)
                for column, kind in rows.schema.items()
            )
            inner = adapted(values_query(rows), self.database.dialect).sql(self.database.dialect)
            self._steps[name] = parsed(f"SELECT {values} FROM ({inner}) AS brought", self.database.dialect)
            return name

    def keep(self, query: str) -> str:
        with reading():
            if not self.database.may_keep():
                return self.view(query)
            name = new_name()
            self.database.run(f"CREATE TEMPORARY TABLE {name} AS {self._text(query)}")
            self._undo.append(functools.partial(self.database.run, f"DROP TABLE IF EXISTS {name}"))
            return name

    def view(self, query: str) -> str:
        name = new_name()
        self._steps[name] = adapted(query, self.database.dialect)
        return name

    def named(self, query: Any, kinds: Mapping[str, Type]) -> str:
        """The name under which other queries find a query (sqlglot) with columns of these types."""
        name = new_name()
        self._steps[name] = self.database.as_compared(query, kinds)
        if self.database.dialect == "postgres":  # else it would work out columns that nobody reads
            self._in_line.add(name)
        return name

    def _text(self, query: str) -> str:
        dialect = self.database.dialect
        return str(with_steps(adapted(query, dialect), self._steps, in_line=frozenset(self._in_line)).sql(dialect))


def values_query(rows: Any) -> str:
    """A query that answers the rows of a small frame: written as text, cast by column."""
    cast = ", ".join(
        f"CAST({quoted(name)} AS {_sql_type(kind)}) AS {quoted(name)}" for name, kind in rows.schema.items()
    )
    if not rows.height:
        return f"SELECT {cast} FROM (SELECT {', '.join(f'NULL AS {quoted(name)}' for name in rows.columns)}) AS nothing WHERE FALSE"
    lines = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows.iter_rows())
    return f"SELECT {cast} FROM (VALUES {lines}) AS brought({columns(rows.columns)})"


def literal(value: Any) -> str:
    """A value as SQL text, for columns that say their types; NULL where it is missing."""
    return "NULL" if value is None else text(str(value))


def _sql_type(kind: Any) -> str:
    if kind.is_decimal():
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _SQL_TYPES[str(kind.base_type())]


class IbisDatabase:
    """A database by the calls that Ibis offers for every one of them."""

    def __init__(self, backend: Any) -> None:
        self.connection = backend
        self.dialect = str(backend.name)

    def frame(self, query: str) -> pl.DataFrame:
        return _polars(self.connection.sql(query).to_pyarrow())

    def frames(self, query: str) -> Iterator[pl.DataFrame]:
        return map(_polars, self.connection.sql(query).to_pyarrow_batches())

    def run(self, statement: str) -> None:
        self.connection.raw_sql(statement)

    def put(self, name: str, rows: pl.DataFrame) -> None:
        self.connection.create_table(name, rows.to_arrow(), temp=True)

    def may_keep(self) -> bool:
        return False

    def bytewise(self, column: str) -> str:
        """A column of text that is compared by bytes; most databases do so unless told otherwise."""
        return column

    def as_compared(self, query: Any, _: Mapping[str, Type]) -> Any:
        """A query (of sqlglot) whose columns, with their types, compare as in the other engines."""
        return query


_POSTGRES_KINDS = {
    16: "Boolean", 20: "Int64", 21: "Int16", 23: "Int32", 700: "Float32", 701: "Float64", 1082: "Date", 1114: "Datetime", 1184: "Datetime",
}  # fmt: skip
"""Types of Polars and narwhals by the numbers that PostgreSQL has for its own."""

NUMERIC, PADDED, UUID = 1700, 1042, 2950
"""PostgreSQL's numbers of the types `numeric`, `char(n)` and `uuid`."""

TEXTS = frozenset({18, 19, 25, 1043, PADDED, UUID})
"""PostgreSQL's numbers of the types that are read as text."""


class PostgreSQL(IbisDatabase):
    """PostgreSQL by psycopg: Ibis would create views to learn types, and insert row by row."""

    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @contextlib.contextmanager
    def _cursor(self, **options: Any) -> Iterator[Any]:
        from psycopg.rows import tuple_row

        with self.connection.transaction(), self.connection.cursor(row_factory=tuple_row, **options) as cursor:
            yield cursor

    def frame(self, query: str) -> pl.DataFrame:
        with self._cursor() as cursor:
            cursor.execute(query)
            return _typed(cursor.fetchall(), cursor.description)

    def frames(self, query: str) -> Iterator[pl.DataFrame]:
        with self._cursor() as settings, self._cursor(name="evenhand") as cursor:
            settings.execute("SET LOCAL cursor_tuple_fraction = 1")  # all rows will be read
            cursor.execute(query)
            while rows := cursor.fetchmany(1 << 16):
                yield _typed(rows, cursor.description)

    def run(self, statement: str) -> None:
        with self._cursor() as cursor:
            cursor.execute(statement)

    def put(self, name: str, rows: pl.DataFrame) -> None:
        other = {"VARCHAR": 'TEXT COLLATE "C"', "DOUBLE": "DOUBLE PRECISION", "FLOAT": "REAL", "HUGEINT": "NUMERIC"}
        types = {column: _sql_type(kind) for column, kind in rows.schema.items()}
        kinds = ", ".join(f"{quoted(column)} {other.get(kind, kind)}" for column, kind in types.items())
        with self._cursor() as cursor:
            cursor.execute(f"CREATE TEMPORARY TABLE {name} ({kinds})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows.iter_rows():
                    copy.write_row(row)
            cursor.execute(f"ANALYZE {name}")

    def may_keep(self) -> bool:
        rights = "has_database_privilege(current_database(), 'TEMPORARY') AND current_setting('transaction_read_only') = 'off'"
        with self._cursor() as cursor:
            return bool(cursor.execute(f"SELECT {rights}").fetchone()[0])

    def bytewise(self, column: str) -> str:
        return f'CAST({column} AS TEXT) COLLATE "C"'

    def kinds(self, query: str) -> dict[str, Type]:
        """The types of a query's columns, as narwhals calls them."""
        kinds: dict[str, Type] = {}
        for name, code in self.type_codes(query).items():
            kind = "Decimal" if code == NUMERIC else "String" if code in TEXTS else _POSTGRES_KINDS.get(code, "Unknown")
            kinds[name] = getattr(nw, kind)()
        return kinds

    def type_codes(self, query: str) -> dict[str, int]:
        """PostgreSQL's numbers of the types of a query's columns."""
        with self._cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({query}) AS door LIMIT 0")
            return {column.name: column.type_code for column in cursor.description}

    def as_compared(self, query: Any, kinds: Mapping[str, Type]) -> Any:
        """Text compares by bytes, without the padding of `char(n)`; a decimal NaN is NULL."""
        words = query.sql("postgres")
        codes = self.type_codes(words)
        chosen = []
        for name, kind in kinds.items():
            column = quoted(name)
            if kind == nw.String or codes[name] == UUID:
                column = self.bytewise(f"RTRIM({column}, ' ')" if codes[name] == PADDED else column)
            elif codes[name] == NUMERIC:
                column = f"NULLIF({column}, 'NaN')"
            chosen.append(f"{column} AS {quoted(name)}")
        return parsed(f"SELECT {', '.join(chosen)} FROM ({words}) AS door", "postgres")


def _typed(rows: Sequence[Sequence[Any]], description: Sequence[Any]) -> pl.DataFrame:
    """Rows of a driver as a Polars frame, with the types that the database gave them."""
    by_column = list(zip(*rows, strict=True)) if rows else [()] * len(description)
    series = []
    for values, column in zip(by_column, description, strict=True):
        if column.type_code == NUMERIC:
            series.append(_decimals(column, values))
        elif column.type_code in _POSTGRES_KINDS:
            series.append(pl.Series(column.name, values, getattr(pl, _POSTGRES_KINDS[column.type_code])))
        else:
            series.append(pl.Series(column.name, [None if v is None else str(v) for v in values], pl.String))
    return pl.DataFrame(series)


def _decimals(column: Any, values: Sequence[Any]) -> pl.Series:
    """Decimals where the column has a scale; sums, which have none, as integers or floats."""
    if column.scale is not None and column.precision is not None and column.precision <= 38:
        return pl.Series(column.name, values, pl.Decimal(column.precision, column.scale))
    if all(v is None or (v == int(v) and abs(v) < 2**63) for v in values):
        return pl.Series(column.name, [None if v is None else int(v) for v in values], pl.Int64)
    return pl.Series(column.name, [None if v is None else float(v) for v in values], pl.Float64)


def open_frame(table: Any, role: str, engine: Engine | None = None) -> Relation:
    """A relation from a PySpark frame, an Ibis table or a query; in `engine` if that is the same."""
    with reading(role):
        if type(table).__module__.startswith("pyspark"):
            return _open_spark(table, table.columns, role, "a pyspark table", engine)
        database: IbisDatabase
        if isinstance(table, DatabaseQuery):
            database, query, origin = (
                PostgreSQL(table.connection),
                parsed(table.text, "postgres"),
                "a query on PostgreSQL",
            )
            kinds = database.kinds(table.text)
        else:
            backend, query, origin = table.get_backend(), query_of_ibis(table), "an ibis table"
            database = PostgreSQL(backend.con) if backend.name == "postgres" else IbisDatabase(backend)
            kinds = nw.from_native(table).collect_schema()
        if not (isinstance(engine, DatabaseEngine) and engine.database.connection is database.connection):
            engine = DatabaseEngine(database)
        return relation_of(engine, engine.named(query, kinds), kinds, backend="pyarrow", origin=origin)


def _open_spark(
    table: Any, names: Sequence[str], role: str, origin: str, engine: Engine | None = None, **facts: Any
) -> Relation:
    """A relation from a PySpark frame, with new names: Spark ignores case and splits at dots."""
    refuse_repeated(names, role)
    inner = [f"c{i}" for i in range(len(names))]
    renamed = table.toDF(*inner)
    kinds = nw.from_native(renamed).collect_schema()
    session = table.sparkSession
    spark = engine if isinstance(engine, SparkEngine) and engine.session is session else SparkEngine(session)
    schema = {name: kinds[at] for name, at in zip(names, inner, strict=True)}
    expressions = {name: quoted(at) for name, at in zip(names, inner, strict=True)}
    return Relation(spark, spark.named(renamed), schema, expressions, "pyarrow", origin, **facts)


def open_files(patterns: Sequence[str], role: str, master: str | None, engine: Engine | None = None) -> Relation:
    """A relation from files that Spark reads, on this machine or where only Spark can reach."""
    from evenhand.sources import spark_files

    refuse_keys(role, *patterns)
    refuse_keys("master", master)
    is_remote = any(map(scheme, patterns))
    for pattern in patterns if is_remote else ():
        record_place(role, pattern)
    paths, kind = (
        (list(patterns), common_kind(patterns, role, unknown="parquet")) if is_remote else files_of(patterns, role)
    )
    form = None if kind in SPECIAL else FORMATS[kind]
    if not isinstance(form, spark_files.READABLE):
        raise EvenhandError(f"{paths[0]!r} is read by Polars only. Leave engine='spark' out.")
    if isinstance(form, Separated) and not is_remote:
        for path in paths:
            refuse_unreadable(path, form.dialect(path), form.delimiter)
    lots = [Lot((), paths)]
    if form.is_uniform and not is_remote:
        lots = lots_of(paths, lambda path: [Column(name, nw.String()) for name in form.header(path)], form.variant)
    names, lacking = shared_names(lots)
    with reading(f"{role}={listing(paths)!r}"):
        frame, columns_read = spark_files.read_files(form, lots, names, master)
        return _open_spark(frame, columns_read, role, listing(paths), engine, is_text=form.is_text, lacking=lacking)
