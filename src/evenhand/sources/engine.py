"""DuckDB as the local engine: one database per process, one cursor per audit, a limit on memory, a private folder to spill into."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import NUMERAL
from evenhand.sources.failures import reading
from evenhand.sources.folders import Folder
from evenhand.sources.sql import columns, quoted, text

T = TypeVar("T")

BATCH_ROWS = 250_000
"""Rows that a batch of whole groups has at least, so that numpy works on long arrays."""

MOST_MEMORY = 3 << 29
"""Bytes that DuckDB may use where EVENHAND_MEMORY does not say otherwise; a quarter of the machine's memory if that is less."""

DISABLED_OPTIMIZERS = ("statistics_propagation", "type_pushdown")
"""Parquet statistics leave NaN out, and DuckDB believes them; a cast of text is moved into the reader, which knows no `true`."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The rows that a query answered, column by column."""

    frame: Any
    """A Polars frame; only `sources` may look at it."""

    def __len__(self) -> int:
        return int(self.frame.height)

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    def floats(self, name: str) -> Floats:
        """A column as float64; NULL is NaN."""
        import polars as pl

        return np.asarray(self.frame[name].cast(pl.Float64).to_numpy(), dtype=np.float64)

    def integers(self, name: str) -> Any:
        """A column as int64; it may hold no NULL."""
        import polars as pl

        return self.frame[name].cast(pl.Int64).to_numpy()

    def hashes(self, name: str) -> Any:
        """A column of hashes or other whole numbers in their own width."""
        return self.frame[name].to_numpy()

    def values(self, name: str) -> list[Any]:
        """A column as plain Python values; NULL is None."""
        return list(self.frame[name].to_list())

    def row(self) -> dict[str, Any]:
        """The only row, by column."""
        return dict(self.frame.row(0, named=True))

    def labels(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of some columns as tuples of plain Python values."""
        return [tuple(row) for row in self.frame.select(names).iter_rows()] if names else [()] * len(self)

    def codes(self, names: Sequence[str]) -> tuple[Any, list[tuple[Any, ...]]]:
        """Which of the distinct labels each row has, and these labels in the order of results: numerals by size, NULL last."""
        import polars as pl

        if not names:
            return np.zeros(len(self), dtype=np.int64), [()]
        distinct = sorted_by_label(self.frame.select(names).unique(), names)
        numbered = distinct.with_row_index("evenhand_code")
        joined = self.frame.select(names).join(
            numbered, on=list(names), how="left", nulls_equal=True, maintain_order="left"
        )
        return joined["evenhand_code"].cast(pl.Int64).to_numpy(), [tuple(row) for row in distinct.iter_rows()]

    def where(self, mask: Any) -> Cells:
        """The rows that a mask keeps."""
        import polars as pl

        return Cells(self.frame.filter(pl.Series(np.asarray(mask, dtype=bool))))

    def distinct(self, names: Sequence[str]) -> int:
        """How many different rows some columns have."""
        return int(self.frame.select(names).n_unique())

    def sorted_by(self, names: Sequence[str]) -> Cells:
        """The rows in the order of some columns: text by its bytes, NULL last."""
        return Cells(self.frame.sort(names, nulls_last=True))

    def with_column(self, name: str, values: Any) -> Cells:
        """The rows with one more column."""
        import polars as pl

        return Cells(self.frame.with_columns(pl.Series(name, values)))

    def select(self, names: Sequence[str]) -> Cells:
        """Some of the columns."""
        return Cells(self.frame.select(names))

    def take(self, index: Any) -> Cells:
        """The rows at some places."""
        return Cells(self.frame[np.asarray(index, dtype=np.int64)])

    def followed_by(self, others: Sequence[Cells]) -> Cells:
        """The rows and those of others with the same columns, one after another."""
        import polars as pl

        return Cells(pl.concat([self.frame, *(cells.frame for cells in others)])) if others else self

    def order(self, names: Sequence[str]) -> Any:
        """(rows,) the places of the rows in the order of some columns: text by its bytes, NULL last, equal rows as they stand."""
        frame = self.frame.select(names).with_row_index("evenhand_place")
        return frame.sort(names, nulls_last=True, maintain_order=True)["evenhand_place"].to_numpy().astype(np.int64)

    def column(self, name: str) -> Any:
        """A column of ids to be handed out: it has a length, items by place and `to_list`."""
        return self.frame[name]

    def runs(self, names: Sequence[str]) -> Any:
        """(rows,) the number of the run of rows with equal values in some columns that a row is in."""
        return _runs(self.frame, names)

    def numbered(self, names: Sequence[str]) -> tuple[Any, Cells]:
        """Which of the distinct rows of some columns each row has, and these in order with a column `number`."""
        import polars as pl

        distinct = self.frame.select(names).unique().sort(names, nulls_last=True)
        distinct = distinct.with_columns(pl.Series("number", np.arange(distinct.height)))
        joined = self.frame.select(names).join(
            distinct, on=list(names), how="left", nulls_equal=True, maintain_order="left"
        )
        return joined["number"].to_numpy(), Cells(distinct)


@dataclass(frozen=True, slots=True)
class Batch(Cells):
    """Rows of whole groups, one group after another."""

    starts: Any
    """(groups + 1,) the row at which each group begins, and the number of rows."""

    @property
    def groups(self) -> int:
        return len(self.starts) - 1

    def firsts(self, names: Sequence[str]) -> Cells:
        """The first row of each group."""
        return Cells(self.frame.select(names)[self.starts[:-1]])


def frame_of(table: Any) -> Any:
    """A Polars frame of what is brought along: such a frame, cells, or arrays by name."""
    import polars as pl

    if isinstance(table, Mapping):
        return pl.DataFrame(dict(table))
    return table.frame if isinstance(table, Cells) else table


def sorted_by_label(frame: Any, keys: Sequence[str]) -> Any:
    """Rows of a Polars frame in the order of their labels: text that is a number by its size, the missing last."""
    import polars as pl

    order: list[Any] = []
    for key in keys:
        if frame.schema[key] == pl.String:
            numeral = pl.when(pl.col(key).str.contains(f"^{NUMERAL}$")).then(pl.col(key)).cast(pl.Float64)
            order += [pl.col(key).is_null(), numeral]
        order.append(pl.col(key))
    return frame.sort(order, nulls_last=True)


class Engine(Protocol):
    """Where a relation lives and its queries run."""

    has_row_order: bool
    """Whether rows have an order that `row_number() OVER ()` tells."""

    has_rows: bool
    """Whether single rows can be read; a tally that a database counted holds none."""

    def cells(self, query: str) -> Cells:
        """Run a query whose answer is small; its rows as columns."""

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        """Rows in batches of whole groups: rows of one key together, in `order`; keys in no promised order."""

    def tallied(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], T]) -> list[T]:
        """`partial` applied to every batch of whole groups; on a cluster it runs on the executors."""

    def bring(self, frame: Any) -> str:
        """The name of a table with the rows of a Polars frame, of cells or of arrays by name, for queries of this engine to join."""

    def keep(self, query: str) -> str:
        """The name of a temporary table with the answer of a query that several queries read."""

    def view(self, query: str) -> str:
        """The name of a view: its query runs wherever it is read."""


class InEngine(Protocol):
    """Whatever lives in an engine: a relation, a log."""

    @property
    def engine(self) -> Engine: ...


class DuckDBEngine:
    """A cursor on the database of this process, with the frames that were registered on it."""

    has_row_order = True
    has_rows = True
    dialect = "duckdb"

    def __init__(self) -> None:
        self._cursor = _database().cursor()
        self._frames: list[str] = []
        self._folders: list[Folder] = []
        self._zone: str | None = None
        self._attached: list[str] = []
        weakref.finalize(self, _close, self._cursor, self._frames, self._attached, id(self), os.getpid())

    def execute(self, statement: str) -> None:
        """Run a statement that answers nothing."""
        with reading():
            self._cursor.execute(statement)

    def attach(self, path: str) -> str:
        """The name of a database file, attached for reading; what DuckDB says against it is told by who asked."""
        with _ATTACHING:
            users = _ATTACHED.setdefault((os.getpid(), path), set())
            name = f"evenhand_file_{zlib.crc32(path.encode()):08x}"
            if not users:
                self._cursor.execute(f"ATTACH {text(path)} AS {name} (READ_ONLY)")
            users.add(id(self))
            self._attached.append(path)
        return name

    def cells(self, query: str) -> Cells:
        with reading():
            return Cells(_frame(self._cursor.sql(query)))

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        kinds = self.cells(f"SELECT {columns(key)} FROM ({query}) AS rows_in_order LIMIT 0").frame.schema
        by_hash = any(not kind.is_integer() for kind in kinds.values())
        hashed = f", hash({columns(key)}) AS evenhand_hash" if by_hash else ""
        first = ["evenhand_hash"] if by_hash else list(key)
        ordered = f"SELECT *{hashed} FROM ({query}) AS rows_in_order ORDER BY {columns([*first, *order])}"
        yield from whole_groups(self._stream(ordered), key, first, order)

    def tallied(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], T]) -> list[T]:
        return [partial(batch) for batch in self.groups(query, key, order)]

    def bring(self, frame: Any) -> str:
        return self.register(frame_of(frame))

    def keep(self, query: str) -> str:
        name = new_name()
        self.execute(f"CREATE TEMPORARY TABLE {name} AS {query}")
        return name

    def collect(self, frames: Iterable[Any]) -> str:
        """The name of a temporary table with the rows of several Polars frames, of which there is one at least."""
        name = ""
        for frame in frames:
            rows = self.register(frame)
            if name:
                self.execute(f"INSERT INTO {name} SELECT * FROM {rows}")
            else:
                name = self.keep(f"SELECT * FROM {rows}")
            self._cursor.unregister(rows)
            self._frames.remove(rows)
        return name

    def view(self, query: str) -> str:
        """The name of a view: its query runs wherever it is read."""
        name = new_name()
        self.execute(f"CREATE TEMPORARY VIEW {name} AS {query}")
        return name

    def ingest(self, lazy: Any, columns: Sequence[str] | None = None) -> str:
        """The name of a view on a temporary file with the rows of a lazy Polars frame, which is run once."""
        from polars.selectors import by_name

        folder = Folder()
        self._folders.append(folder)
        path = f"{folder.name}/rows.parquet"
        with reading():
            (lazy if columns is None else lazy.select(by_name(*columns))).sink_parquet(path, compression="lz4")
        return self.view(f"SELECT * FROM read_parquet({text(path)})")

    def register(self, frame: Any) -> str:
        """The name under which queries find a frame: a pandas frame, or anything with an Arrow stream."""
        name = new_name()
        with reading():
            self._cursor.register(name, frame if _is_scanned_natively(frame) else _ArrowStream(frame))
        self._frames.append(name)
        return name

    def use_zone(self, zone: str) -> None:
        """Hand moments out in the zone of a table; the first one that asks for a zone gets it."""
        if self._zone is None:
            with contextlib.suppress(Exception):  # DuckDB knows named zones only; moments stay the same in any
                self._cursor.execute(f"SET TimeZone = {text(zone)}")
            self._zone = zone

    def relation(self, query: str) -> Any:
        """A query with the names and types of its columns, before it is run."""
        with reading():
            return self._cursor.sql(query)

    def column_types(self, query: str) -> list[Any]:
        """The types of the columns that a query answers, as DuckDB has them."""
        return list(self.relation(query).types)

    def types(self, query: str) -> dict[str, str]:
        """The columns that a query answers, with DuckDB's names of their types."""
        with reading():
            relation = self._cursor.sql(query)
            return dict(zip(relation.columns, map(str, relation.types), strict=True))

    def _stream(self, query: str) -> Iterator[Any]:
        import polars as pl

        with reading():
            reader, durations = _reader(self._cursor.sql(query))
            for batch in reader:
                yield _plain(pl.DataFrame(batch), durations, wide=pl.Int128)


class OneShot:
    """A reader of Arrow batches whose schema is asked for apart: its rows are there once."""

    def __init__(self, reader: Any) -> None:
        self._reader, self._schema = reader, reader.schema

    def __arrow_c_schema__(self) -> Any:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._reader.__arrow_c_stream__(requested_schema)


class _ArrowStream:
    """A frame of which DuckDB sees its Arrow stream only: it would ask PyArrow for anything else."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


def _is_scanned_natively(frame: Any) -> bool:
    return isinstance(frame, OneShot) or type(frame).__module__.split(".")[0] == "pandas"


def _frame(relation: Any) -> Any:
    import polars as pl

    reader, durations = _reader(relation)
    return _plain(pl.DataFrame(reader.read_all()), durations)


def _reader(relation: Any) -> tuple[Any, list[str]]:
    """The batches of a relation, and its columns of durations, which come as microseconds: Polars reads no intervals."""
    from arro3.core import DataType, RecordBatchReader

    reader = RecordBatchReader.from_stream(relation)
    schema = reader.schema
    durations = [name for name in schema.names if DataType.is_interval(schema.field(name).type)]
    if not durations:
        return reader, []
    listed = (
        f"EPOCH_US({quoted(name)}) AS {quoted(name)}" if name in durations else quoted(name)
        for name in relation.columns
    )
    del reader  # no second query while the first is open
    return RecordBatchReader.from_stream(relation.project(", ".join(listed))), durations


def _plain(frame: Any, durations: Sequence[str], wide: Any = None) -> Any:
    """A frame with durations, and with the whole numbers of 128 bits that DuckDB sends as decimals."""
    import polars as pl

    columns = [frame[name].cast(pl.Duration("us")) for name in durations]
    for name, kind in frame.schema.items():
        if kind == pl.Decimal(38, 0):
            narrow = frame[name].cast(pl.Int64, strict=False) if wide is None else None
            fits = narrow is not None and narrow.null_count() == frame[name].null_count()
            columns.append(narrow if fits else frame[name].cast(pl.Int128))
    return frame.with_columns(columns) if columns else frame


_NUMBERS = itertools.count(1)


def new_name() -> str:
    """A name that no other table of this process has."""
    return f"evenhand_{next(_NUMBERS)}"


def whole_groups(
    frames: Iterable[Any], key: Sequence[str], sorted_by: Sequence[str], order: Sequence[str]
) -> Iterator[Batch]:
    """Batches of whole groups from sorted Polars frames: a group that goes on in the next frame waits for it."""
    import polars as pl

    pending: Any = None
    for frame in frames:
        rows = frame if pending is None else pl.concat([pending, frame])
        last = _start_of_last_group(rows, sorted_by)
        if last < BATCH_ROWS:
            pending = rows
            continue
        yield _batch(rows[:last], key, sorted_by, order)
        pending = rows[last:]
    if pending is not None and pending.height:
        yield _batch(pending, key, sorted_by, order)


def _start_of_last_group(rows: Any, key: Sequence[str]) -> int:
    """The row at which the last group begins: it may go on in the next batch."""
    ids = _runs(rows, key)
    return int(np.searchsorted(ids, ids[-1])) if len(ids) else 0


def _runs(rows: Any, key: Sequence[str]) -> Any:
    """(rows,) the number of the run of equal keys that a row is in."""
    changed = np.zeros(rows.height, dtype=bool)
    for name in key:
        column = rows[name]
        if not rows.height:
            break
        changed[1:] |= column.slice(1).ne_missing(column.slice(0, rows.height - 1)).to_numpy()
    return np.cumsum(changed)


def _batch(rows: Any, key: Sequence[str], sorted_by: Sequence[str], order: Sequence[str]) -> Batch:
    """Rows with the starts of their groups; two keys with one hash are told apart."""
    runs = _runs(rows, sorted_by)
    if list(key) != list(sorted_by):
        exact = _runs(rows, [*sorted_by, *key])
        if exact[-1] != runs[-1] if len(runs) else False:
            rows = rows.sort([*sorted_by, *key, *order], nulls_last=True, maintain_order=True)
            exact = _runs(rows, [*sorted_by, *key])
        rows, runs = rows.drop("evenhand_hash"), exact
    starts = np.flatnonzero(np.diff(runs, prepend=-1)) if len(runs) else np.zeros(0, dtype=np.int64)
    return Batch(rows, np.append(starts, rows.height))


_ATTACHED: dict[tuple[int, str], set[int]] = {}
"""Database files that are read at the moment, by process and path, with the engines that read them: who writes next finds no lock."""

_ATTACHING = threading.RLock()


def _close(cursor: Any, frames: Sequence[str], attached: Sequence[str], engine: int, process: int) -> None:
    """Let go of what an engine held; a process that was forked has no part in it."""
    if process != os.getpid():
        return
    with contextlib.suppress(Exception):  # a stream that nobody read to its end, at the end of Python
        for name in frames:
            cursor.unregister(name)
    with _ATTACHING:
        for path in attached:
            users = _ATTACHED.get((process, path), set())
            users.discard(engine)
            if not users:
                with contextlib.suppress(Exception):
                    cursor.execute(f"DETACH evenhand_file_{zlib.crc32(path.encode()):08x}")
    cursor.close()


class _Database:
    """The database of this process with the folder that it spills into."""

    def __init__(self) -> None:
        import duckdb

        self.process = os.getpid()
        self.folder = Folder()
        self.connection = duckdb.connect()
        optimizers = self.connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()
        settings = {
            "allocator_background_threads": "true",  # else memory that a query gave back is not handed back to the system
            "memory_limit": f"{memory_limit() // 2**20}MiB",
            "temp_directory": self.folder.name,
            "TimeZone": "UTC",
            "disabled_optimizers": ",".join(name for (name,) in optimizers if name in DISABLED_OPTIMIZERS),
        }
        for name, value in settings.items():
            self.connection.execute(f"SET GLOBAL {name} = {text(value)}")


_DATABASES: list[_Database] = []
_STARTING = threading.Lock()


def _database() -> Any:
    """The connection to the database of this process; a process that was forked from one with a database gets none."""
    with _STARTING:
        if not _DATABASES:
            _DATABASES.append(_Database())
        if _DATABASES[0].process != os.getpid():
            raise EvenhandError(
                "This process was forked from one that has measured something, and the threads of Polars and DuckDB did not come "
                "along. Start processes with multiprocessing.get_context('spawn'), or before anything is measured."
            )
        return _DATABASES[0].connection


def memory_limit() -> int:
    """Bytes that DuckDB may use: EVENHAND_MEMORY (as in 400MB or 4GiB), else a quarter of the machine's, at most 1.5 GiB."""
    typed = os.environ.get("EVENHAND_MEMORY", "").strip()
    if not typed:
        machine = (
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 * MOST_MEMORY
        )
        return min(MOST_MEMORY, machine // 4)
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
    digits = typed.rstrip("BbKkMmGgIi ")
    unit = typed[len(digits) :].strip().upper()
    try:
        return int(float(digits) * units[unit])
    except (KeyError, ValueError) as error:
        raise EvenhandError(f"EVENHAND_MEMORY={typed!r} is no size. Write it as in 400MB or 4GiB.") from error
