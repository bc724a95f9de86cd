"""Spark and databases with the same calls as the local engine: the queries go to the rows, and tallies come back."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import narwhals as nw

from evenhand.errors import EvenhandError, listing, refuse_keys
from evenhand.sources.dialects import adapted, parsed, translated, with_steps
from evenhand.sources.engine import Batch, Cells, Engine, frame_of, new_name, whole_groups
from evenhand.sources.failures import reading, unreadable
from evenhand.sources.files import files_of, kind_of_remote
from evenhand.sources.formats import FORMATS, shared_columns
from evenhand.sources.relation import Relation, relation_of
from evenhand.sources.sql import columns, quoted, text
from evenhand.sources.stores import SPECIAL, scheme

T = TypeVar("T")


class SparkEngine:
    """A Spark session: the same queries by Spark SQL; whole groups are tallied where they are, by the same numpy."""

    has_row_order = False
    has_rows = True

    def __init__(self, session: Any) -> None:
        self.session = session
        self._views: list[str] = []
        self._cached: list[Any] = []
        weakref.finalize(self, _forget, session, self._views, self._cached).atexit = False

    def cells(self, query: str) -> Cells:
        with reading():
            return Cells(_polars(self._rows(query).toArrow()))

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        with reading(explain=_explain_executors):
            for (pickled,) in self._mapped(query, key, order, _itself).toLocalIterator():
                yield _unpacked(pickled)

    def tallied(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], T]) -> list[T]:
        with reading(explain=_explain_executors):
            answers = self._mapped(query, key, order, partial).toArrow()
            return [_unpacked(pickled) for pickled in answers.column(0).to_pylist()]

    def bring(self, frame: Any) -> str:
        with reading():
            rows = signed(frame_of(frame)).to_arrow(compat_level=_oldest())
            return self.named(self.session.createDataFrame(rows))

    def keep(self, query: str) -> str:
        with reading():
            rows = self._rows(query).cache()
            self._cached.append(rows)
            return self.named(rows)

    def view(self, query: str) -> str:
        """The name of a view: its query runs wherever it is read."""
        with reading():
            return self.named(self._rows(query))

    def named(self, frame: Any) -> str:
        """The name under which queries find a Spark frame."""
        name = new_name()
        frame.createOrReplaceTempView(name)
        self._views.append(name)
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
        import polars as pl
        import pyarrow as pa

        frames = (pl.DataFrame(pl.from_arrow(batch)) for batch in batches)
        for batch in whole_groups(frames, self.key, self.key, self.order):
            try:
                answer = self.partial(batch)
            except EvenhandError as error:  # told by the driver, in its words and without Java's
                answer = _Refusal(error)
            yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(answer)]})


@dataclass(frozen=True)
class _Refusal:
    error: EvenhandError


def _unpacked(pickled: bytes) -> Any:
    answer = pickle.loads(bytes(pickled))  # noqa: S301  (written by our own executors)
    if isinstance(answer, _Refusal):
        raise answer.error
    return answer


def _itself(batch: Batch) -> Batch:
    return batch


def _polars(table: Any) -> Any:
    import polars as pl

    return pl.DataFrame(pl.from_arrow(table))


def _oldest() -> Any:
    import polars as pl

    return pl.CompatLevel.oldest()


def signed(frame: Any) -> Any:
    """A frame of the types that Spark and databases know: whole numbers with a sign, categories as text."""
    import polars as pl

    kinds: dict[Any, Any] = {pl.UInt8: pl.Int16, pl.UInt16: pl.Int32, pl.UInt32: pl.Int64, pl.UInt64: pl.Decimal(20, 0)}
    kinds |= {pl.Categorical: pl.String, pl.Enum: pl.String, pl.Null: pl.String}
    casts = [
        pl.selectors.by_name(name).cast(kinds[kind.base_type()])
        for name, kind in frame.schema.items()
        if kind.base_type() in kinds
    ]
    return frame.with_columns(*casts) if casts else frame


def _forget(session: Any, views: Sequence[str], cached: Sequence[Any]) -> None:
    with contextlib.suppress(Exception):  # gone with the session
        for name in views:
            session.catalog.dropTempView(name)
        for frame in cached:
            frame.unpersist()


VALUES_ROWS = 1_000
"""Rows up to which a table that is brought along is written into the query: that needs no right to make tables."""

_SQL_TYPES: Mapping[str, str] = {
    "Boolean": "BOOLEAN", "Int8": "SMALLINT", "Int16": "SMALLINT", "Int32": "INTEGER", "Int64": "BIGINT", "Int128": "HUGEINT",
    "Float32": "FLOAT", "Float64": "DOUBLE", "String": "VARCHAR", "Date": "DATE", "Datetime": "TIMESTAMP",
}  # fmt: skip


class DatabaseEngine:
    """The database of an Ibis backend. Named steps are written before each query that reads them, so that nothing need be made there."""

    has_row_order = False
    has_rows = True

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.dialect = str(backend.name)
        self._steps: dict[str, Any] = {}
        self._in_line: set[str] = set()
        self._tables: list[str] = []
        self._answers = _POSTGRES if self.dialect == "postgres" else _ANY
        weakref.finalize(self, _drop, backend, self._answers, self._tables).atexit = False

    def cells(self, query: str) -> Cells:
        with reading():
            return Cells(self._answers.frame(self.backend, self._text(query)))

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        with reading():
            inner = f"SELECT * FROM ({query}) AS rows_in_order"
            kinds = self._answers.frame(self.backend, self._text(f"{inner} LIMIT 0")).schema
            sort = ", ".join(
                self._answers.bytewise(quoted(name)) if str(kinds[name]) == "String" else quoted(name)
                for name in (*key, *order)
            )
            text_of_rows = f"{self._text(inner)} ORDER BY {sort} NULLS LAST"
            yield from whole_groups(self._answers.frames(self.backend, text_of_rows), key, key, order)

    def tallied(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], T]) -> list[T]:
        return [partial(batch) for batch in self.groups(query, key, order)]

    def bring(self, frame: Any) -> str:
        with reading():
            rows, name = signed(frame_of(frame)), new_name()
            if rows.height <= VALUES_ROWS:
                self._steps[name] = self._bytewise_text(values_query(rows), rows)
            else:
                self._answers.put(self.backend, name, rows)
                self._tables.append(name)
            return name

    def keep(self, query: str) -> str:
        with reading():
            name = new_name()
            if self._answers.may_keep(self.backend):
                self._answers.run(self.backend, f"CREATE TEMPORARY TABLE {name} AS {self._text(query)}")
                self._tables.append(name)
            else:
                self._steps[name] = adapted(query, self.dialect)
            return name

    def view(self, query: str) -> str:
        """The name of a step that is written before each query that reads it."""
        name = new_name()
        self._steps[name] = adapted(query, self.dialect)
        return name

    def named(self, table: Any) -> str:
        """The name under which queries find an Ibis table."""
        name = new_name()
        self._steps[name] = self._answers.door(self.backend, table)
        if self.dialect == "postgres":
            self._in_line.add(name)
        return name

    def _text(self, query: str) -> str:
        return str(
            with_steps(adapted(query, self.dialect), self._steps, in_line=frozenset(self._in_line)).sql(self.dialect)
        )

    def _bytewise_text(self, query: str, rows: Any) -> Any:
        words = [name for name, kind in rows.schema.items() if str(kind) == "String"]
        chosen = ", ".join(
            f"{self._answers.bytewise(quoted(name))} AS {quoted(name)}" if name in words else quoted(name)
            for name in rows.columns
        )
        inner = adapted(query, self.dialect).sql(self.dialect)
        return parsed(f"SELECT {chosen} FROM ({inner}) AS brought", self.dialect)


def values_query(rows: Any) -> str:
    """A query that answers the rows of a small frame: written as text, cast by column."""
    cast = ", ".join(
        f"CAST({quoted(name)} AS {_sql_type(kind)}) AS {quoted(name)}" for name, kind in rows.schema.items()
    )
    if not rows.height:
        return f"SELECT {cast} FROM (SELECT {', '.join(f'NULL AS {quoted(name)}' for name in rows.columns)}) AS nothing WHERE FALSE"
    lines = ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in rows.iter_rows())
    return f"SELECT {cast} FROM (VALUES {lines}) AS brought({columns(rows.columns)})"


def _literal(value: Any) -> str:
    return "NULL" if value is None else text(str(value))


def _sql_type(kind: Any) -> str:
    if kind.is_decimal():
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _SQL_TYPES[str(kind.base_type())]


class _AnyBackend:
    """Calls that Ibis offers for every database."""

    def frame(self, backend: Any, query: str) -> Any:
        return _polars(backend.sql(query).to_pyarrow())

    def frames(self, backend: Any, query: str) -> Iterator[Any]:
        return map(_polars, backend.sql(query).to_pyarrow_batches())

    def run(self, backend: Any, statement: str) -> None:
        backend.raw_sql(statement)

    def put(self, backend: Any, name: str, rows: Any) -> None:
        backend.create_table(name, rows.to_arrow(), temp=True)

    def may_keep(self, _: Any) -> bool:
        return False

    def bytewise(self, column: str) -> str:
        """A column of text that is compared by bytes; most databases do so unless told otherwise."""
        return column

    def door(self, backend: Any, table: Any) -> Any:
        """The query (of sqlglot) of an Ibis table, which finds the tables in memory that it reads."""
        for brought in table.op().find(importlib.import_module("ibis.expr.operations").InMemoryTable):
            backend.to_pyarrow(brought.to_expr().limit(0))  # a query in words would bring nothing along
        return backend.compiler.to_sqlglot(table)


_POSTGRES_KINDS = {
    16: "Boolean", 20: "Int64", 21: "Int16", 23: "Int32", 700: "Float32", 701: "Float64", 1082: "Date", 1114: "Datetime", 1184: "Datetime",
}  # fmt: skip
"""Types of Polars by the numbers that PostgreSQL has for its own."""

NUMERIC, PADDED = 1700, 1042
"""PostgreSQL's numbers of the types `numeric` and `char(n)`."""


class _PostgreSQL(_AnyBackend):
    """PostgreSQL by its own driver: Ibis would make a view to learn the types of a query, and insert row by row."""

    def frame(self, backend: Any, query: str) -> Any:
        with backend.con.cursor() as cursor, backend.con.transaction():
            cursor.execute(query)
            return _typed(cursor.fetchall(), cursor.description)

    def frames(self, backend: Any, query: str) -> Iterator[Any]:
        with backend.con.transaction(), backend.con.cursor(name="evenhand") as cursor:
            with backend.con.cursor() as settings:
                settings.execute("SET LOCAL cursor_tuple_fraction = 1")
            cursor.execute(query)
            while rows := cursor.fetchmany(1 << 16):
                yield _typed(rows, cursor.description)

    def run(self, backend: Any, statement: str) -> None:
        with backend.con.cursor() as cursor, backend.con.transaction():
            cursor.execute(statement)

    def put(self, backend: Any, name: str, rows: Any) -> None:
        kinds = ", ".join(f"{quoted(column)} {_postgres_type(kind)}" for column, kind in rows.schema.items())
        with backend.con.cursor() as cursor, backend.con.transaction():
            cursor.execute(f"CREATE TEMPORARY TABLE {name} ({kinds})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows.iter_rows():
                    copy.write_row(row)
            cursor.execute(f"ANALYZE {name}")

    def may_keep(self, backend: Any) -> bool:
        rights = "has_database_privilege(current_database(), 'TEMPORARY') AND current_setting('transaction_read_only') = 'off'"
        with backend.con.cursor() as cursor, backend.con.transaction():
            return bool(cursor.execute(f"SELECT {rights}").fetchone()[0])

    def bytewise(self, column: str) -> str:
        return f'CAST({column} AS TEXT) COLLATE "C"'

    def door(self, backend: Any, table: Any) -> Any:
        """Text is compared by its bytes and without the blanks that fill up `char(n)`; a decimal that is no number is missing."""
        query = super().door(backend, table).sql("postgres")
        with backend.con.cursor() as cursor, backend.con.transaction():
            cursor.execute(f"SELECT * FROM ({query}) AS door LIMIT 0")
            codes = {column.name: column.type_code for column in cursor.description}
        chosen = []
        for name, kind in table.schema().items():
            column = quoted(name)
            if kind.is_string() or kind.is_uuid():
                column = self.bytewise(f"RTRIM({column}, ' ')" if codes[name] == PADDED else column)
            elif codes[name] == NUMERIC:
                column = f"NULLIF({column}, 'NaN')"
            chosen.append(f"{column} AS {quoted(name)}")
        return parsed(f"SELECT {', '.join(chosen)} FROM ({query}) AS door", "postgres")


def _postgres_type(kind: Any) -> str:
    name = _sql_type(kind)
    return {"VARCHAR": 'TEXT COLLATE "C"', "DOUBLE": "DOUBLE PRECISION", "FLOAT": "REAL", "HUGEINT": "NUMERIC"}.get(
        name, name
    )


def _typed(rows: Sequence[Sequence[Any]], description: Sequence[Any]) -> Any:
    """Rows of a driver as a Polars frame, with the types that the database gave them."""
    import polars as pl

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


def _decimals(column: Any, values: Sequence[Any]) -> Any:
    """Decimals as such where the column has a scale; sums, which have none, as whole numbers if they are, else as floats."""
    import polars as pl

    if column.scale is not None and column.precision is not None and column.precision <= 38:
        return pl.Series(column.name, values, pl.Decimal(column.precision, column.scale))
    if all(v is None or (v == int(v) and abs(v) < 2**63) for v in values):
        return pl.Series(column.name, [None if v is None else int(v) for v in values], pl.Int64)
    return pl.Series(column.name, [None if v is None else float(v) for v in values], pl.Float64)


_ANY, _POSTGRES = _AnyBackend(), _PostgreSQL()


def _drop(backend: Any, answers: _AnyBackend, tables: Sequence[str]) -> None:
    with contextlib.suppress(Exception):  # gone with the session
        for name in tables:
            answers.run(backend, f"DROP TABLE IF EXISTS {name}")


def open_frame(table: Any, role: str, engine: Engine | None = None) -> Relation:
    """A relation from a PySpark frame or an Ibis table; in `engine` where that is the same session or database."""
    with reading(role):
        if type(table).__module__.startswith("pyspark"):
            return _open_spark(table, table.columns, role, "a pyspark table", engine)
        backend = table.get_backend()
        kinds = nw.from_native(table).collect_schema()
        database = engine if isinstance(engine, DatabaseEngine) and engine.backend is backend else None
        database = database or DatabaseEngine(backend)
        return relation_of(database, database.named(table), kinds, backend="pyarrow", origin="an ibis table")


def _open_spark(
    table: Any, names: Sequence[str], role: str, origin: str, engine: Engine | None = None, **facts: Any
) -> Relation:
    """A relation from a PySpark frame; its columns get names of ours, since Spark minds no capitals and reads dots as paths."""
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise EvenhandError(
            f"{role} has columns named {listing(repeated)}. Give every column one name of its own, as text."
        )
    inner = [f"c{i}" for i in range(len(names))]
    renamed = table.toDF(*inner)
    kinds = nw.from_native(renamed).collect_schema()
    session = table.sparkSession
    spark = engine if isinstance(engine, SparkEngine) and engine.session is session else SparkEngine(session)
    schema = {name: kinds[at] for name, at in zip(names, inner, strict=True)}
    expressions = {name: quoted(at) for name, at in zip(names, inner, strict=True)}
    return Relation(spark, spark.named(renamed), schema, expressions, "pyarrow", origin, **facts)


def open_files(patterns: Sequence[str], role: str, master: str | None, engine: Engine | None = None) -> Relation:
    """A relation from files that Spark reads; of paths that only the cluster can reach, Spark says what is there."""
    from evenhand.sources import spark_files

    refuse_keys(role, *patterns)
    refuse_keys("master", master)
    is_remote = any(map(scheme, patterns))
    paths, kind = (list(patterns), kind_of_remote(patterns, role)) if is_remote else files_of(patterns, role)
    if kind in SPECIAL or kind == "arrow":
        raise EvenhandError(f"{paths[0]!r} is read by Polars only. Leave engine='spark' out.")
    form = FORMATS[kind]
    shared = shared_columns([] if is_remote else paths, form.header)
    lots = [paths] if is_remote else shared.lots
    with reading(f"{role}={listing(paths)!r}"):
        if kind in spark_files.SEPARATORS:
            headers = [spark_files.header(paths, kind, master)] if is_remote else [form.header(lot[0]) for lot in lots]
            names = headers[0] if shared.columns is None else shared.columns
            frame = spark_files.read_text(lots, headers, names, kind, master)
        elif kind == "jsonl":
            frame = spark_files.read_json(paths, master)
            names = frame.columns
        else:
            frame = spark_files.read_parquet(lots, shared.columns, master)
            names = frame.columns
        facts = {"is_text": form.is_text, "lacking": shared.lacking}
        return _open_spark(frame, names, role, listing(paths), engine, **facts)
