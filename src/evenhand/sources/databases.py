"""Tables of a DuckDB database file, named as a path; frames of SQLFrame, which are queries on a connection."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import Any

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.columns import StoredTable, by_position, of_duckdb_type
from evenhand.sources.engine import DuckDBEngine
from evenhand.sources.files import WITHIN, database_of, nearby
from evenhand.sources.frames import Choice
from evenhand.sources.sql import quoted, text


def attached_table(engine: DuckDBEngine, word: str, role: str, choose: Choice) -> StoredTable:
    """The table that `file.duckdb::schema.table` names; its rows are read where they are."""
    table = _attached(engine, word, role)
    relation = engine.relation(f"SELECT * FROM {table}")
    chosen = choose(list(relation.columns))
    columns = [of_duckdb_type(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True)]
    columns = [column if column.name in chosen else replace(column, sql="") for column in columns]
    stored = [replace(column, sql="{}") if column.is_stored else column for column in columns]
    return StoredTable(engine.view(by_position(table, columns)), stored)


def _attached(engine: DuckDBEngine, word: str, role: str) -> str:
    """FROM-clause name of a table in a DuckDB database file."""
    path, name = database_of(word) or (word, "")
    if not os.path.isfile(path):
        raise EvenhandError(f"{role}={path!r} is not a file. {nearby(path)}Pass the path of a DuckDB database.")
    database = _attach(engine, path)
    tables = _tables(engine, database)
    names = listing(tables) or "none"
    if not name:
        remedy = f"Name one of its tables ({names}), as in {path}{WITHIN}{next(iter(tables), 'table')}."
        raise EvenhandError(f"{role}={word!r} is a database, not a table. {remedy}")
    table = _spelled(name, tables)
    if table is None:
        raise EvenhandError(
            f"{role}={word!r} names a table that the database does not have. {suggestion(name, tables)}Tables: {names}."
        )
    return ".".join(map(quoted, (database, *table)))


def _attach(engine: DuckDBEngine, path: str) -> str:
    """The name of a database file in the engine, attached for reading until the last engine that reads it is gone."""
    try:
        return engine.attach(os.path.realpath(path))
    except EvenhandError:
        raise
    except Exception as error:
        raise _closed(path, error) from error


def _tables(engine: DuckDBEngine, database: str) -> dict[str, tuple[str, str]]:
    """Tables and views of a database with their schemas, by the names that one types."""
    is_user_table = f"database_name = {text(database)} AND NOT internal"
    pairs = engine.cells(
        f"SELECT schema_name, table_name FROM duckdb_tables() WHERE {is_user_table} "
        f"UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE {is_user_table}"
    ).labels(["schema_name", "table_name"])
    return {table if schema == "main" else f"{schema}.{table}": (schema, table) for schema, table in sorted(pairs)}


def _spelled(name: str, tables: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    """The table that is meant; `main` may be written or not, and DuckDB minds no capitals."""
    folded = {name_in_tables.lower(): schema_and_table for name_in_tables, schema_and_table in tables.items()}
    folded = {f"{schema}.{table}".lower(): (schema, table) for schema, table in tables.values()} | folded
    return tables.get(name) or folded.get(name.lower())


def _closed(path: str, error: Exception) -> EvenhandError:
    """Why a database file does not open; DuckDB's own words name processes and folders, and stand in `__cause__`."""
    kind, words = type(error).__name__, str(error)
    if "lock" in words:
        return EvenhandError(f"{path!r} is locked: another process writes to it. Let it finish, or pass a copy of it.")
    if "different configuration" in words or "already attached" in words or "Unique file handle" in words:
        return EvenhandError(
            f"{path!r} is open for writing in this program. Pass the table itself, as connection.table('name')."
        )
    if "not a valid DuckDB" in words:
        return EvenhandError(f"{path!r} is not a DuckDB database. Check the path, or the ending of the file.")
    return EvenhandError(f"{path!r} cannot be opened: DuckDB gives up on it ({kind}). Check that it is whole.")


def of_sqlframe(frame: Any, role: str) -> Any:
    """A frame of SQLFrame as the relation that DuckDB makes of its query: one engine less that counts in its own way."""
    connection = frame.session._conn  # noqa: SLF001  (it has no public name)
    if type(connection).__module__.split(".")[0].lstrip("_") != "duckdb":
        engine = type(frame.session).__name__.removesuffix("Session")
        raise EvenhandError(
            f"{role} is an SQLFrame frame on {engine}, and only those on DuckDB are read. Pass an Ibis table of that database."
        )
    return connection.sql(frame.sql(dialect="duckdb"))


def is_duckdb(table: Any) -> bool:
    """Whether an Ibis table lives in DuckDB, as tables in memory do."""
    return bool(table.get_backend().name == "duckdb")


def of_ibis(table: Any) -> Any:
    """An Ibis table on DuckDB as the relation that its connection makes of its query."""
    backend = table.get_backend()
    for brought in table.op().find(importlib.import_module("ibis.expr.operations").InMemoryTable):
        backend.to_pyarrow(brought.to_expr().limit(0))  # a query in words would bring nothing along
    return backend.con.sql(backend.compiler.to_sqlglot(table).sql("duckdb"))
