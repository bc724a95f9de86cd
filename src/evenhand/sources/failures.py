"""What engines and readers raise, as one sentence of fact and one of remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from evenhand.errors import EvenhandError, listing

LIBRARIES = {
    "polars": "Polars", "duckdb": "DuckDB", "arro3": "Arrow", "pyarrow": "PyArrow", "pyspark": "Spark", "py4j": "Spark",
    "narwhals": "narwhals", "pandas": "pandas", "ibis": "Ibis", "pyo3_runtime": "Polars", "deltalake": "deltalake",
    "internal": "deltalake", "pyiceberg": "PyIceberg", "psycopg": "PostgreSQL", "psycopg2": "PostgreSQL", "sqlframe": "SQLFrame",
    "sqlglot": "sqlglot", "snowflake": "Snowflake", "google": "BigQuery", "databricks": "Databricks",
    "clickhouse_connect": "ClickHouse", "trino": "Trino", "MySQLdb": "MySQL", "pyodbc": "ODBC", "oracledb": "Oracle",
}  # fmt: skip

WITHOUT_RIGHTS = ("InsufficientPrivilege", "ReadOnlySqlTransaction")
"""Errors of PostgreSQL about what a user may do."""


def library_of(error: BaseException) -> str:
    """Which library raised an error, by its name; nothing where none of ours did."""
    return LIBRARIES.get(type(error).__module__.split(".")[0].lstrip("_"), "")


class UnreadableError(EvenhandError):
    """That a library gave up, which who reads a file may be able to explain."""


def unreadable(what: str, error: BaseException) -> EvenhandError:
    """The error for data that a library cannot read; its own words may quote rows."""
    library, kind = library_of(error), type(error).__name__
    if kind in WITHOUT_RIGHTS:
        return UnreadableError(
            f"{what} cannot be read: {library} denies it to this user ({kind}). Grant SELECT on the table. Where another table is "
            "sent along (a population, labels, buckets), also grant TEMPORARY on the database, outside read-only transactions."
        )
    if kind == "OutOfMemoryException":
        return EvenhandError(
            f"{what} needs more memory than {library} may use. Raise EVENHAND_MEMORY, as in EVENHAND_MEMORY=4GiB, or set TMPDIR "
            "to a folder with more space."
        )
    why = f"{library} failed with {kind}" if library else kind
    if isinstance(error, OSError) and error.strerror:
        why = error.strerror
    return UnreadableError(f"{what} cannot be read: {why}. Check that the data is complete, or write it again.")


def refuse_repeated(names: Sequence[Any], owner: str) -> None:
    """Refuse a table in which two columns have the same name, or one has a name that is no text."""
    if repeated := sorted({str(name) for name in names if list(names).count(name) > 1}):
        raise EvenhandError(
            f"{owner} has several columns named {listing(repeated)}. Give each column a name of its own."
        )
    if odd := [name for name in names if not isinstance(name, str)]:
        raise EvenhandError(
            f"{owner} has columns whose names are not text: {listing(odd)}. Give each column a name as text."
        )


@contextlib.contextmanager
def reading(role: str = "table", explain: Callable[[BaseException], EvenhandError] | None = None) -> Iterator[None]:
    """Turn what a library raises over data into one error in words, by `explain` if given."""
    try:
        yield
    except UnreadableError as error:
        if explain is None or error.__cause__ is None:
            raise
        raise explain(error.__cause__) from error.__cause__
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from error
        raise
    except (EvenhandError, KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit):
        raise
    except BaseException as error:
        if library_of(error) or isinstance(error, (OSError, UnicodeError)):
            raise (explain(error) if explain else unreadable(role, error)) from error
        raise
