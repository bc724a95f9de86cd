"""DuckDB as the local engine: one database per process, one cursor per audit.

It has a limit on memory and a private folder to spill into. What engines and readers raise becomes one sentence of fact and
one of remedy (`reading`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import narwhals as nw
import numpy as np
import polars as pl

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, listing
from evenhand.labels import NUMERAL
from evenhand.sources.folders import Folder
from evenhand.sources.sql import columns, quoted, text

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


T = TypeVar("T")

BATCH_ROWS = 250_000
"""Rows that a batch of whole groups has at least, so that numpy works on long arrays."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The rows that a query answered, column by column."""

    frame: pl.DataFrame
    """Only `sources` may look at it."""

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Cells:
        """Rows made here, to be brought to the engine."""
        return cls(pl.DataFrame(dict(columns)))

    def __len__(self) -> int:
        return int(self.frame.height)

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    def floats(self, name: str) -> Floats:
        """A column as float64; NULL is NaN."""
        return np.asarray(self.frame[name].cast(pl.Float64).to_numpy(), dtype=np.float64)

    def integers(self, name: str) -> Any:
        """A column as int64; it may hold no NULL."""
        return self.frame[name].cast(pl.Int64).to_numpy()

    def values(self, name: str) -> list[Any]:
        """A column as plain Python values; NULL is None."""
        return list(self.frame[name].to_list())

    def column(self, name: str) -> pl.Series:
        """A column of ids to be handed out: it has a length, items by place and `to_list`."""
        return self.frame[name]

    def row(self) -> dict[str, Any]:
        return dict(self.frame.row(0, named=True))

    def labels(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of some columns as tuples of plain Python values."""
        return self.frame.select(names).rows() if names else [()] * len(self)

    def codes(self, names: Sequence[str]) -> tuple[Any, list[tuple[Any, ...]]]:
        """The code of each row's label, and the labels in order: numerals by size, NULL last."""
        if not names:
            return np.zeros(len(self), dtype=np.int64), [()]
        distinct = self.frame.select(names).unique()
        order: list[pl.Expr] = []
        for name in names:
            if distinct.schema[name] == pl.String:
                numeral = pl.when(pl.col(name).str.contains(f"^{NUMERAL}$")).then(pl.col(name)).cast(pl.Float64)
                order += [pl.col(name).is_null(), numeral]
            order.append(pl.col(name))
        distinct = distinct.sort(order, nulls_last=True)
        return self._places_in(distinct), distinct.rows()

    def numbered(self, names: Sequence[str]) -> tuple[Any, Cells]:
        """The code of each row, and the distinct rows in order with a column `number`."""
        distinct = self.frame.select(names).unique().sort(names, nulls_last=True)
        return self._places_in(distinct), Cells(distinct.with_columns(pl.int_range(pl.len()).alias("number")))

    def _places_in(self, distinct: pl.DataFrame) -> Any:
        numbered = distinct.with_columns(pl.int_range(pl.len()).alias("evenhand_place"))
        names = distinct.columns
        rows = self.frame.select(names).join(numbered, on=names, how="left", nulls_equal=True, maintain_order="left")
        return rows["evenhand_place"].to_numpy()

    def where(self, mask: Any) -> Cells:
        return Cells(self.frame.filter(pl.Series(np.asarray(mask, dtype=bool))))

    def distinct(self, names: Sequence[str]) -> int:
        """How many different rows some columns have."""
        return int(self.frame.select(names).n_unique())

    def sorted_by(self, names: Sequence[str]) -> Cells:
        """The rows in the order of some columns: text by its bytes, NULL last."""
        return Cells(self.frame.sort(names, nulls_last=True))

    def order(self, names: Sequence[str]) -> Any:
        """(rows,) the stable sort order by some columns: text by its bytes, NULL last."""
        places = self.frame.select(pl.arg_sort_by(names, nulls_last=True, maintain_order=True))
        return places.to_series().to_numpy().astype(np.int64)

    def with_column(self, name: str, values: Any) -> Cells:
        return Cells(self.frame.with_columns(pl.Series(name, values)))

    def select(self, names: Sequence[str]) -> Cells:
        return Cells(self.frame.select(names))

    def take(self, index: Any) -> Cells:
        return Cells(self.frame[np.asarray(index, dtype=np.int64)])

    def followed_by(self, others: Sequence[Cells]) -> Cells:
        """The rows and those of others with the same columns, one after another."""
        return Cells(pl.concat([self.frame, *(cells.frame for cells in others)])) if others else self

    def runs(self, names: Sequence[str]) -> Any:
        """(rows,) the number of the run of rows with equal values in some columns that a row is in."""
        if not names:
            return np.zeros(len(self), dtype=np.int64)
        return self.frame.select(pl.struct(names).rle_id().cast(pl.Int64)).to_series().to_numpy()


@dataclass(frozen=True, slots=True)
class Batch(Cells):
    """Rows of whole groups, one group after another."""

    starts: Any
    """(groups + 1,) the row at which each group begins, and the number of rows."""

    @property
    def groups(self) -> int:
        return len(self.starts) - 1

    def firsts(self, names: Sequence[str]) -> Cells:
        return Cells(self.frame.select(names)[self.starts[:-1]])


def frame_of(table: Any) -> pl.DataFrame:
    """A Polars frame of what is brought along: such a frame, cells, or arrays by name."""
    if isinstance(table, Mapping):
        return pl.DataFrame(dict(table))
    return table.frame if isinstance(table, Cells) else table


class Engine(Protocol):
    """Where a relation lives and its queries run."""

    has_row_order: bool
    """Whether rows have an order that `row_number() OVER ()` tells."""

    has_rows: bool
    """Whether single rows can be read; a tally that a database counted holds none."""

    def cells(self, query: str) -> Cells:
        """Run a query whose answer is small; its rows as columns."""

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        """Batches of whole groups: rows of one key contiguous, in `order`; keys in any order."""

    def tallied(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], T]) -> list[T]:
        """`partial` applied to every batch of whole groups; on a cluster it runs on the executors."""
        return [partial(batch) for batch in self.groups(query, key, order)]

    def bring(self, frame: Any) -> str:
        """The name of a table with the rows of a frame, cells or arrays, for queries to join."""

    def keep(self, query: str) -> str:
        """The name of a temporary table with the answer of a query that several queries read."""

    def view(self, query: str) -> str:
        """The name of a view: its query runs wherever it is read."""


class DuckDBEngine(Engine):
    """A cursor on the database of this process, with the frames that were registered on it."""

    has_row_order = True
    has_rows = True

    def __init__(self) -> None:
        self._cursor = _database().cursor()
        self._frames: list[str] = []
        self._folders: list[Folder] = []
        self._zone: str | None = None
        weakref.finalize(self, _close, self._cursor, self._frames, os.getpid())

    def execute(self, statement: str) -> None:
        with reading():
            self._cursor.execute(statement)

    def relation(self, query: str) -> Any:
        """A query with the names and types of its columns, before it is run."""
        with reading():
            return self._cursor.sql(query)

    def types(self, query: str) -> dict[str, str]:
        """The columns that a query answers, with DuckDB's names of their types."""
        relation = self.relation(query)
        return dict(zip(relation.columns, map(str, relation.types), strict=True))

    def cells(self, query: str) -> Cells:
        with reading():
            return Cells(_plain(pl.DataFrame(_reader(self._cursor.sql(query)).read_all())))

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        kinds = self.cells(f"SELECT {columns(key)} FROM ({query}) AS rows_in_order LIMIT 0").frame.schema
        by_hash = any(not kind.is_integer() for kind in kinds.values())
        hashed = f", hash({columns(key)}) AS evenhand_hash" if by_hash else ""
        first = ["evenhand_hash"] if by_hash else list(key)
        ordered = f"SELECT *{hashed} FROM ({query}) AS rows_in_order ORDER BY {columns([*first, *order])}"
        yield from whole_groups(self._stream(ordered), key, first, order)

    def _stream(self, query: str) -> Iterator[pl.DataFrame]:
        with reading():
            for batch in _reader(self._cursor.sql(query)):
                yield _plain(pl.DataFrame(batch), narrow=False)  # all batches with the same types

    def bring(self, frame: Any) -> str:
        return self.register(frame_of(frame))

    def register(self, frame: Any) -> str:
        """The name under which queries find a pandas frame, or anything with an Arrow stream."""
        is_pandas = type(frame).__module__.split(".")[0] == "pandas"
        name = new_name()
        with reading():
            self._cursor.register(name, frame if is_pandas or isinstance(frame, ArrowStream) else ArrowStream(frame))
        self._frames.append(name)
        return name

    def keep(self, query: str) -> str:
        name = new_name()
        self.execute(f"CREATE TEMPORARY TABLE {name} AS {query}")
        return name

    def collect(self, frames: Iterable[pl.DataFrame]) -> str:
        """The name of a temporary table with the rows of one or more Polars frames."""
        name = ""
        for frame in frames:
            rows = self.register(frame)
            if name:
                self.execute(f"INSERT INTO {name} SELECT * FROM {rows}")
            else:
                name = self.keep(f"SELECT * FROM {rows}")
            self._cursor.unregister(self._frames.pop())
        return name

    def view(self, query: str) -> str:
        name = new_name()
        self.execute(f"CREATE TEMPORARY VIEW {name} AS {query}")
        return name

    def ingest(self, lazy: pl.LazyFrame) -> str:
        """The name of a view on a temporary Parquet file with the rows of a lazy frame."""
        self._folders.append(Folder())
        path = f"{self._folders[-1].name}/rows.parquet"
        with reading():
            lazy.sink_parquet(path, compression="lz4")
        return self.view(f"SELECT * FROM read_parquet({text(path)})")

    def use_zone(self, zone: str) -> None:
        """Hand moments out in the zone of a table; the first one that asks for a zone gets it."""
        if self._zone is None:
            with contextlib.suppress(Exception):  # DuckDB knows named zones only; moments stay the same in any
                self._cursor.execute(f"SET TimeZone = {text(zone)}")
            self._zone = zone


class ArrowStream:
    """A frame of which DuckDB sees the Arrow stream only: for others it imports PyArrow."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


class OneShot(ArrowStream):
    """A reader of Arrow batches, whose rows are there once: DuckDB gets its schema apart."""

    def __arrow_c_schema__(self) -> Any:
        return self._frame.schema.__arrow_c_schema__()


def _reader(relation: Any) -> Any:
    from arro3.core import RecordBatchReader

    return RecordBatchReader.from_stream(relation)


def _plain(frame: pl.DataFrame, *, narrow: bool = True) -> pl.DataFrame:
    """A frame with integers where DuckDB sends HUGEINT as a decimal."""
    plain = []
    for name, kind in frame.schema.items():
        if kind == pl.Decimal(38, 0):
            short = frame[name].cast(pl.Int64, strict=False)
            is_enough = narrow and short.null_count() == frame[name].null_count()
            plain.append(short if is_enough else frame[name].cast(pl.Int128))
    return frame.with_columns(plain) if plain else frame


_NUMBERS = itertools.count(1)


def new_name() -> str:
    """A name that no other table of this process has."""
    return f"evenhand_{next(_NUMBERS)}"


def whole_groups(
    frames: Iterable[pl.DataFrame], key: Sequence[str], sorted_by: Sequence[str], order: Sequence[str]
) -> Iterator[Batch]:
    """Batches of whole groups from sorted frames; a group may go on in the next frame."""
    pending: pl.DataFrame | None = None
    for frame in frames:
        pending = frame if pending is None else pl.concat([pending, frame])
        runs = Cells(pending).runs(sorted_by)
        last = int(np.searchsorted(runs, runs[-1])) if len(runs) else 0  # where the last group begins
        if last >= BATCH_ROWS:
            yield _batch(pending[:last], key, sorted_by, order)
            pending = pending[last:]
    if pending is not None and pending.height:
        yield _batch(pending, key, sorted_by, order)


def _batch(rows: pl.DataFrame, key: Sequence[str], sorted_by: Sequence[str], order: Sequence[str]) -> Batch:
    """Rows with the starts of their groups; two keys with one hash are told apart."""
    runs = Cells(rows).runs(sorted_by)
    if list(key) != list(sorted_by):
        exact = [*sorted_by, *key]
        if Cells(rows).runs(exact)[-1] != runs[-1]:
            rows = rows.sort([*exact, *order], nulls_last=True, maintain_order=True)
        runs = Cells(rows).runs(exact)
        rows = rows.drop(sorted_by)
    return Batch(rows, np.append(np.flatnonzero(np.diff(runs, prepend=-1)), rows.height))


def _close(cursor: Any, frames: Sequence[str], process: int) -> None:
    """Let go of what an engine held; a process that was forked has no part in it."""
    if process != os.getpid():
        return
    with contextlib.suppress(Exception):  # a stream that nobody read to its end, at the end of Python
        for name in frames:
            cursor.unregister(name)
    cursor.close()


_DATABASE: list[tuple[int, Any, Folder]] = []
"""The process that made the database of this process, its connection, and the folder that it spills into."""

_STARTING = threading.Lock()


def _database() -> Any:
    """The connection to the database of this process; a forked process is refused."""
    import duckdb

    with _STARTING:
        if _DATABASE and _DATABASE[0][0] == os.getpid() and not _answers(_DATABASE[0][1]):
            _DATABASE.clear()
        if not _DATABASE:
            connection, folder = duckdb.connect(), Folder()
            # Parquet statistics leave NaN out, and a cast of text is moved into a reader that knows no `true`
            disabled = ("statistics_propagation", "type_pushdown")
            optimizers = connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()
            settings = {
                "allocator_background_threads": "true",  # else memory that a query gave back stays with the process
                "memory_limit": f"{memory_limit() // 2**20}MiB",
                "temp_directory": folder.name,
                "TimeZone": "UTC",
                "disabled_optimizers": ",".join(name for (name,) in optimizers if name in disabled),
            }
            for name, value in settings.items():
                connection.execute(f"SET GLOBAL {name} = {text(value)}")
            _DATABASE.append((os.getpid(), connection, folder))
        process, connection, _ = _DATABASE[0]
        if process != os.getpid():
            raise EvenhandError(
                "This process was forked from one that has measured something, and the threads of Polars and DuckDB did not come "
                "along. Start processes with multiprocessing.get_context('spawn'), or before anything is measured."
            )
        return connection


def _answers(connection: Any) -> bool:
    """Whether a database answers at all: after a fatal error (JSON nested too deeply) DuckDB refuses everything."""
    import duckdb

    try:
        connection.execute("SELECT 1")
    except duckdb.FatalException:
        return False
    return True


def memory_limit() -> int:
    """Bytes for DuckDB: EVENHAND_MEMORY, else a quarter of the machine's, at most 1.5 GiB."""
    typed = os.environ.get("EVENHAND_MEMORY", "").strip()
    if not typed:
        most = 3 << 29
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 * most
        return min(most, machine // 4)
    size = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(?:([KMG]?)(I?)B)?", typed.upper())
    if size is None:
        raise EvenhandError(f"EVENHAND_MEMORY={typed!r} is not a size. Write it as in 400MB or 4GiB.")
    return int(float(size[1]) * (1024 if size[3] else 1000) ** " KMG".index(size[2] or " "))


Type = nw.dtypes.DType

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


def library_of_frame(table: Any) -> str:
    return type(table).__module__.split(".")[0].lstrip("_")


def polars_columns(schema: pl.Schema, chosen: Collection[str]) -> tuple[list[Column], list[pl.Expr]]:
    """Columns of a Polars frame, and expressions that select the chosen ones for DuckDB, categories as text."""
    kinds = polars_kinds(schema)
    columns, expressions = [], []
    for i, (name, inner) in enumerate(zip(kinds, usable_names(list(kinds)), strict=True)):
        column = Column(name, kinds[name]) if schema[name] == pl.Null else column_of(name, kinds[name])
        column = column if name in chosen else replace(column, sql="")
        columns.append(column)
        if column.is_stored:
            values = pl.nth(i)  # by position: a name may read like a pattern
            is_text = isinstance(schema[name], (pl.Categorical, pl.Enum, pl.Null))
            expressions.append((values.cast(pl.String) if is_text else values).alias(inner))
    return columns, expressions


def polars_kinds(schema: pl.Schema) -> dict[str, Type]:
    return dict(nw.from_native(pl.DataFrame(schema=schema)).schema)


def as_stored(columns: Sequence[Column]) -> list[Column]:
    """Columns once their SQL has been run: the engine holds their values as they are."""
    return [replace(column, sql="{}") if column.is_stored else column for column in columns]
