"""Tables of databases: in a DuckDB file, by a connection, as frames of SQLFrame or Ibis."""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass, field
from typing import Any

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.columns import StoredTable, by_position
from evenhand.sources.conversions import WITHIN
from evenhand.sources.engine import DuckDBEngine
from evenhand.sources.files import database_of, refuse_missing
from evenhand.sources.frames import Choice, as_stored, duckdb_columns, library_of_frame
from evenhand.sources.inputs import record_place
from evenhand.sources.sql import quoted, text


def attached_table(engine: DuckDBEngine, word: str, role: str, choose: Choice) -> StoredTable:
    """The table that `file.duckdb::schema.table` names; its rows are read where they are."""
    path, name = database_of(word) or (word, "")
    refuse_missing(path, "a DuckDB database", role)
    record_place(role, word)
    try:
        database = engine.attach(os.path.realpath(path))
    except EvenhandError:
        raise
    except Exception as error:
        raise _not_opened(path, error) from error
    tables = _tables(engine, database)
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
    table = ".".join(map(quoted, (database, *place)))
    columns = duckdb_columns(engine.relation(f"SELECT * FROM {table}"), choose)
    return StoredTable(engine.view(by_position(table, columns)), as_stored(columns))


def _tables(engine: DuckDBEngine, database: str) -> dict[str, tuple[str, str]]:
    """Tables and views of a database with their schemas, by the names that one types."""
    is_user_table = f"database_name = {text(database)} AND NOT internal"
    pairs = engine.cells(
        f"SELECT schema_name, table_name FROM duckdb_tables() WHERE {is_user_table} "
        f"UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE {is_user_table}"
    ).labels(["schema_name", "table_name"])
    return {table if schema == "main" else f"{schema}.{table}": (schema, table) for schema, table in sorted(pairs)}


def _not_opened(path: str, error: Exception) -> EvenhandError:
    """The error for a database file that does not open; DuckDB's words name processes."""
    words = str(error)
    if "lock" in words:
        return EvenhandError(f"{path!r} is locked: another process writes to it. Let it finish, or pass a copy of it.")
    if "different configuration" in words or "already attached" in words or "Unique file handle" in words:
        return EvenhandError(
            f"{path!r} is open for writing in this program. Pass the table itself, as connection.table('name')."
        )
    if "not a valid DuckDB" in words:
        return EvenhandError(f"{path!r} is not a DuckDB database. Check the path, or the ending of the file.")
    return EvenhandError(f"{path!r} cannot be opened by DuckDB ({type(error).__name__}). Check that the file is whole.")


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
    return backend.con.sql(query_of_ibis(table).sql("duckdb")) if backend.name == "duckdb" else None


def query_of_ibis(table: Any) -> Any:
    """The query of an Ibis table as sqlglot's tree; its tables in memory are sent first."""
    backend = table.get_backend()
    for in_memory in table.op().find(importlib.import_module("ibis.expr.operations").InMemoryTable):
        backend.to_pyarrow(in_memory.to_expr().limit(0))  # a query in words would bring nothing along
    return backend.compiler.to_sqlglot(table)
