"""Tables of databases: in a DuckDB file, by a connection, as frames of SQLFrame or Ibis; queries go to where the rows are."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import polars as pl

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.engine import (
    Batch,
    Cells,
    Engine,
    Type,
    frame_of,
    library_of_frame,
    new_name,
    reading,
    whole_groups,
)
from evenhand.sources.files import WITHIN, database_of, refuse_missing
from evenhand.sources.inputs import record_place
from evenhand.sources.relation import Relation, relation_of
from evenhand.sources.sql import columns, quoted, steps_read, text, translated


def relation_of_file(word: str, role: str) -> Any:
    """A DuckDB relation of the table that `file.duckdb::schema.table` names, on a connection of its own."""
    import duckdb

    path, name = database_of(word) or (word, "")
    refuse_missing(path, "a DuckDB database", role)
    record_place(role, word)
    try:
        connection = duckdb.connect(os.path.realpath(path), read_only=True)
    except duckdb.Error as error:
        raise EvenhandError(
            f"{path!r} is not a DuckDB database, or is open for writing ({type(error).__name__}). Check the path, let the writer "
            "finish, or pass the table itself, as connection.table('name')."
        ) from error
    pairs = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal "
        "UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    tables = {table if schema == "main" else f"{schema}.{table}": (schema, table) for schema, table in sorted(pairs)}
    names = listing(tables) or "none"
    if not name:
        remedy = f"Name one of its tables ({names}), as in {path}{WITHIN}{next(iter(tables), 'table')}."
        raise EvenhandError(f"{role}={word!r} is a database, not a table. {remedy}")
    # `main` may be written or not, and DuckDB minds no capitals
    folded = {f"{schema}.{table}".lower(): (schema, table) for schema, table in tables.values()}
    folded |= {shown.lower(): place for shown, place in tables.items()}
    place = tables.get(name) or folded.get(name.lower())
    if place is None:
        raise EvenhandError(
            f"{role}={word!r} names a table that the database does not have. {suggestion(name, tables)}Tables: {names}."
        )
    return connection.sql(f"SELECT * FROM {'.'.join(map(quoted, place))}")


@dataclass(frozen=True)
class DatabaseQuery:
    """A query on a connection to PostgreSQL, which is passed as a table."""

    connection: Any = field(repr=False)
    text: str


def database(connection: Any, table: str) -> Any:
    """A table or a query of a database, to be passed as a table; it is counted there.

    `connection` is one of psycopg (PostgreSQL) or DuckDB; `table` a name such as `"sales.events"`, or a query that begins with SELECT or
    WITH: `eh.inequality(eh.read.database(connection, "events"), unit=..., ...)`.
    """
    query = table if re.match(r"\s*(SELECT|WITH)\b", table, re.IGNORECASE) else f"SELECT * FROM {table}"
    library = library_of_frame(connection)
    if library == "duckdb":
        return connection.sql(query)
    if library != "psycopg":
        raise EvenhandError(
            f"connection is of type {type(connection).__module__}.{type(connection).__name__}, which is not read. Pass a connection of "
            "psycopg or DuckDB, or an Ibis table of that database as the table."
        )
    return DatabaseQuery(connection, query.rstrip().rstrip(";"))


def relation_of_sqlframe(frame: Any, role: str) -> Any:
    """A frame of SQLFrame as a DuckDB relation of its query."""
    connection = frame.session._conn  # noqa: SLF001  (it has no public name)
    if library_of_frame(connection) != "duckdb":
        engine = type(frame.session).__name__.removesuffix("Session")
        raise EvenhandError(
            f"{role} is an SQLFrame frame on {engine}, and only those on DuckDB are read. Pass an Ibis table of that database."
        )
    return connection.sql(frame.sql(dialect="duckdb"))


def relation_of_ibis(table: Any) -> Any:
    """An Ibis table on DuckDB as a DuckDB relation; None for one on another database."""
    backend = table.get_backend()
    return backend.con.sql(query_of_ibis(table)) if backend.name == "duckdb" else None


def query_of_ibis(table: Any) -> str:
    """The query of an Ibis table in words; its tables in memory are sent first."""
    backend = table.get_backend()
    for in_memory in table.op().find(importlib.import_module("ibis.expr.operations").InMemoryTable):
        backend.to_pyarrow(in_memory.to_expr().limit(0))  # a query in words would bring nothing along
    return str(backend.compiler.to_sqlglot(table).sql(backend.name))


def open_frame(table: Any, role: str, engine: Engine | None = None) -> Relation:
    """A relation from an Ibis table or a query; in `engine` if that is the same."""
    with reading(role):
        database: IbisDatabase
        if isinstance(table, DatabaseQuery):
            database, query, origin = PostgreSQL(table.connection), table.text, "a query on PostgreSQL"
            kinds = database.kinds(query)
        else:
            backend, query, origin = table.get_backend(), query_of_ibis(table), "an ibis table"
            database = PostgreSQL(backend.con) if backend.name == "postgres" else IbisDatabase(backend)
            kinds = nw.from_native(table).collect_schema()
        if not (isinstance(engine, DatabaseEngine) and engine.database.connection is database.connection):
            engine = DatabaseEngine(database)
        return relation_of(engine, engine.named(query, kinds), kinds, backend="pyarrow", origin=origin)


def polars_frame(table: Any) -> pl.DataFrame:
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


VALUES_ROWS = 1_000
"""Rows up to which a table that is brought along is written into the query: that needs no right to make tables."""

_SQL_TYPES: Mapping[str, str] = {
    "Boolean": "BOOLEAN", "Int8": "SMALLINT", "Int16": "SMALLINT", "Int32": "INTEGER", "Int64": "BIGINT", "Int128": "HUGEINT",
    "Float32": "FLOAT", "Float64": "DOUBLE", "String": "VARCHAR", "Date": "DATE", "Datetime": "TIMESTAMP",
}  # fmt: skip


class RemoteEngine(Engine):
    """Where rows have no order; what it made there (`_undo`) is removed with it."""

    has_row_order = False
    has_rows = True

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        weakref.finalize(self, _run_all, self._undo).atexit = False


def _run_all(actions: Sequence[Callable[[], Any]]) -> None:
    with contextlib.suppress(Exception):  # gone with the session
        for action in actions:
            action()


class DatabaseEngine(RemoteEngine):
    """A database. Views are written as WITH before each query, so that nothing is created."""

    def __init__(self, database: IbisDatabase) -> None:
        super().__init__()
        self.database = database
        self._steps: dict[str, str] = {}
        self._in_line: set[str] = set()

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
            inner = translated(values_query(rows), self.database.dialect)
            self._steps[name] = f"SELECT {values} FROM ({inner}) AS brought"
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
        self._steps[name] = translated(query, self.database.dialect)
        return name

    def named(self, query: str, kinds: Mapping[str, Type]) -> str:
        """The name under which other queries find one of the database's own, with columns of these types."""
        name = new_name()
        self._steps[name] = self.database.as_compared(query, kinds)
        if self.database.dialect == "postgres":  # else it would work out columns that nobody reads
            self._in_line.add(name)
        return name

    def _text(self, query: str) -> str:
        words = translated(query, self.database.dialect)
        steps = ", ".join(
            f"{name} AS {'NOT MATERIALIZED ' if name in self._in_line else ''}({step})"
            for name, step in steps_read(words, self._steps).items()
        )
        return f"WITH {steps} SELECT * FROM ({words}) AS answered" if steps else words


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
        return polars_frame(self.connection.sql(query).to_pyarrow())

    def frames(self, query: str) -> Iterator[pl.DataFrame]:
        return map(polars_frame, self.connection.sql(query).to_pyarrow_batches())

    def run(self, statement: str) -> None:
        self.connection.raw_sql(statement)

    def put(self, name: str, rows: pl.DataFrame) -> None:
        self.connection.create_table(name, rows.to_arrow(), temp=True)

    def may_keep(self) -> bool:
        return False

    def bytewise(self, column: str) -> str:
        """A column of text that is compared by bytes; most databases do so unless told otherwise."""
        return column

    def as_compared(self, query: str, _: Mapping[str, Type]) -> str:
        """A query whose columns, with their types, compare as in the other engines."""
        return query


_POSTGRES_KINDS = {
    16: "Boolean", 20: "Int64", 21: "Int16", 23: "Int32", 700: "Float32", 701: "Float64", 1082: "Date", 1114: "Datetime", 1184: "Datetime",
}  # fmt: skip
"""Types of Polars and narwhals by the numbers that PostgreSQL has for its own."""

NUMERIC, UUID = 1700, 2950
"""PostgreSQL's numbers of the types `numeric` and `uuid`."""

TEXTS = frozenset({18, 19, 25, 1042, 1043, UUID})
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
        """The cast also takes off the blanks that fill up `char(n)`."""
        return f'CAST({column} AS TEXT) COLLATE "C"'

    def kinds(self, query: str) -> dict[str, Type]:
        kinds: dict[str, Type] = {}
        for name, code in self.type_codes(query).items():
            kind = "Decimal" if code == NUMERIC else "String" if code in TEXTS else _POSTGRES_KINDS.get(code, "Unknown")
            kinds[name] = getattr(nw, kind)()
        return kinds

    def type_codes(self, query: str) -> dict[str, int]:
        with self._cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({query}) AS door LIMIT 0")
            return {column.name: column.type_code for column in cursor.description}

    def as_compared(self, query: str, kinds: Mapping[str, Type]) -> str:
        """Text compares by bytes; a decimal NaN is NULL."""
        codes = self.type_codes(query)
        chosen = []
        for name, kind in kinds.items():
            column = quoted(name)
            if kind == nw.String or codes[name] == UUID:
                column = self.bytewise(column)
            elif codes[name] == NUMERIC:
                column = f"NULLIF({column}, 'NaN')"
            chosen.append(f"{column} AS {quoted(name)}")
        return f"SELECT {', '.join(chosen)} FROM ({query}) AS door"


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
