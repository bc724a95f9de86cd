"""Warehouses: tables of a DuckDB database file, named as a path; frames of SQLFrame, which are queries on a connection."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections import Counter
from collections.abc import Iterator, MutableMapping
from typing import Any
from weakref import WeakValueDictionary

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.files import WITHIN, database_of, nearby

DISABLED = ("statistics_propagation", "filter_pushdown", "type_pushdown")
"""What DuckDB's optimiser must not do. Parquet statistics leave NaN out, and it believes the statistics: `isnan` is then
always false. And a column of text that is cast to numbers is read as numbers from the start, which `true` is none of."""

_OPEN: MutableMapping[str, Any] = WeakValueDictionary()
"""Database files that are read at the moment: roles of one call share a connection, and who writes next finds no lock."""

_HELD: list[Any] = []
"""Relations of older DuckDB do not keep their connection open."""


def connect(path: str = ":memory:") -> Any:
    """DuckDB that can be believed, on a file for reading only, or on none."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise EvenhandError("duckdb is not installed. Install it with: pip install 'evenhand[duckdb]'.") from error
    connection = duckdb.connect(path, read_only=path != ":memory:")
    known = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    connection.execute(f"SET disabled_optimizers = '{','.join(name for name in DISABLED if name in known)}'")
    if int(duckdb.__version__.split(".")[0]) < 2:
        _HELD.append(connection)
    return connection


def relation_of(word: str, role: str) -> Any:
    """The table of a database file that `file.duckdb::schema.table` names, as a DuckDB relation."""
    path, name = database_of(word) or (word, "")
    connection = _connected(path, role)
    there = _tables(connection)
    names = listing(there) or "none"
    if not name:
        remedy = f"Name one of its tables ({names}), as in {path}{WITHIN}{next(iter(there), 'table')}."
        raise EvenhandError(f"{role}={word!r} is a database, not a table. {remedy}")
    found = _spelled(name, there)
    if found is None:
        raise EvenhandError(
            f"{role}={word!r} names a table that the database does not have. {suggestion(name, there)}Tables: {names}."
        )
    return connection.table(".".join(map(quoted, found)))


def _tables(connection: Any) -> dict[str, tuple[str, str]]:
    """Tables and views of a database with their schemas, by the names that one types."""
    found = connection.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    found += connection.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    return {table if schema == "main" else f"{schema}.{table}": (schema, table) for schema, table in sorted(found)}


def _spelled(name: str, there: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    """The table that is meant; `main` may be written or not, and DuckDB minds no capitals."""
    folded = {known.lower(): found for known, found in there.items()}
    folded = {f"{schema}.{table}".lower(): (schema, table) for schema, table in there.values()} | folded
    return there.get(name) or folded.get(name.lower())


def _connected(path: str, role: str) -> Any:
    """A connection for reading, shared while somebody reads."""
    if not os.path.isfile(path):
        raise EvenhandError(f"{role}={path!r} is not a file. {nearby(path)}Pass the path of a DuckDB database.")
    place = os.path.realpath(path)
    connection = _OPEN.get(place)
    if connection is None:
        try:
            connection = connect(path)
        except EvenhandError:
            raise
        except Exception as error:
            raise _closed(path, error) from error
        _OPEN[place] = connection
    return connection


def _closed(path: str, error: Exception) -> EvenhandError:
    """Why a database file does not open; DuckDB's own words name processes and folders, and stand in `__cause__`."""
    kind, words = type(error).__name__, str(error)
    if "lock" in words:
        return EvenhandError(f"{path!r} is locked: another process writes to it. Let it finish, or pass a copy of it.")
    if "different configuration" in words:
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


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


AT_ONCE = 1 << 16
"""Rows that are made into a column at a time: as the objects that a driver hands out they are large."""


def fetched(table: Any) -> Any:
    """The rows of an Ibis table, as PyArrow."""
    backend = table.get_backend()
    if backend.name != "postgres":
        return table.to_pyarrow()
    import pyarrow as pa

    schema, parts = table.schema(), list[Any]()
    kind = schema.as_struct().to_pyarrow()
    # Ibis would declare a cursor, for which PostgreSQL lets no second process help.
    with backend.con.cursor() as cursor, backend.con.transaction():
        cursor.execute(_query(table))
        while rows := cursor.fetchmany(AT_ONCE):
            parts.append(pa.RecordBatch.from_struct_array(pa.array(rows, type=kind)))
    return pa.Table.from_batches(parts, schema=schema.to_pyarrow())


def _query(table: Any) -> str:
    return str(in_steps(_worded(table)).sql("postgres"))


def _worded(table: Any) -> Any:
    """The query (of sqlglot) of an Ibis table, which finds what it needs."""
    backend = table.get_backend()
    for brought in table.op().find(importlib.import_module("ibis.expr.operations").InMemoryTable):
        # This puts it there: a query in words would bring nothing along.
        backend.to_pyarrow(brought.to_expr().limit(0))
    return backend.compiler.to_sqlglot(table)


def put_there(frame: Any, like: Any) -> Any:
    """A Polars frame as a temporary table beside an Ibis one."""
    ibis, backend, rows = importlib.import_module("ibis"), like.get_backend(), frame.to_arrow()
    if backend.name != "postgres":
        return ibis.memtable(rows)
    # Ibis would insert row by row.
    name = ibis.util.gen_name("evenhand")
    there = backend.create_table(name, schema=ibis.schema(rows.schema), temp=True)
    with backend.con.cursor() as cursor, backend.con.transaction():
        with cursor.copy(f"COPY {quoted(name)} FROM STDIN") as copy:
            for row in frame.iter_rows():
                copy.write_row(row)
        cursor.execute(f"ANALYZE {quoted(name)}")
    return there


@contextlib.contextmanager
def kept(table: Any) -> Iterator[Any]:
    """An Ibis table that is read several times: worked out once by PostgreSQL, where one may make temporary tables there."""
    backend = table.get_backend()
    if backend.name != "postgres" or not _may_keep(backend):
        yield table
        return
    name = importlib.import_module("ibis").util.gen_name("evenhand")
    _run(backend, f"CREATE TEMPORARY TABLE {quoted(name)} AS {_query(table)}", f"ANALYZE {quoted(name)}")
    try:
        yield backend.table(name)
    finally:
        with contextlib.suppress(Exception):  # it is gone with the session
            _run(backend, f"DROP TABLE {quoted(name)}")


def _run(backend: Any, *statements: str) -> None:
    with backend.con.cursor() as cursor, backend.con.transaction():
        for statement in statements:
            cursor.execute(statement)


def _may_keep(backend: Any) -> bool:
    rights = (
        "has_database_privilege(current_database(), 'TEMPORARY') AND current_setting('transaction_read_only') = 'off'"
    )
    with backend.con.cursor() as cursor, backend.con.transaction():
        return bool(cursor.execute(f"SELECT {rights}").fetchone()[0])


PADDED = 1042
"""What PostgreSQL calls the type `char(n)` in its answers."""


def without_padding(table: Any) -> Any:
    """An Ibis table whose text of type `char(n)` is what PostgreSQL compares: without the blanks that fill it up."""
    backend = table.get_backend()
    if backend.name != "postgres" or not any(kind.is_string() for kind in table.schema().values()):
        return table
    with backend.con.cursor() as cursor:
        cursor.execute(_worded(table.limit(0)).sql("postgres"))
        padded = [column.name for column in cursor.description if column.type_code == PADDED]
    if not padded:
        return table
    builtin = importlib.import_module("ibis").udf.scalar.builtin
    bare = builtin(_bare, name="rtrim", signature=(("string",), "string"))
    return table.mutate(**{name: bare(table[name]) for name in padded})


def _bare(text: str) -> str:
    return text.rstrip(" ")


def in_steps(query: Any) -> Any:
    """A query (of sqlglot) in which PostgreSQL works each column out once.

    It puts what a column is made of in place of every mention of it, and again what that is made of: sums of products took
    five times as long. `OFFSET 0` keeps a step of the query apart.
    """
    exp = importlib.import_module("sqlglot.expressions")
    for step in query.find_all(exp.Subquery):
        inner, outer = step.this, step.parent_select
        if outer is None or not isinstance(inner, exp.Select) or inner.args.get("limit") or inner.args.get("offset"):
            continue
        made = {e.alias for e in inner.expressions if isinstance(e, exp.Alias) and not isinstance(e.this, exp.Column)}
        named = Counter(c.name for c in outer.find_all(exp.Column) if c.table == step.alias and c.name in made)
        if any(times > 1 for times in named.values()):
            inner.offset(0, copy=False)
    return query
