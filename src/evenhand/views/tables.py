"""Opening a table, whatever it is: a dataframe of any library narwhals knows, or files."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

import narwhals as nw

from evenhand.errors import EvenhandError, listing, refuse_keys, suggestion
from evenhand.sources.files import STANDARD_INPUT, database_of, files_of, kind_apart, literal
from evenhand.sources.opening import Files as Files
from evenhand.sources.stores import SPECIAL, scan_special, scheme, unreadable_place
from evenhand.views.text import as_numbers, as_parquet, as_whole, header, refused, scan
from evenhand.views.warehouses import connect, fetched, of_sqlframe, quoted, relation_of, without_padding

BATCH = 1 << 18
"""Rows that are looked at together where none of them is kept."""

FEW_ROWS = 1 << 16
"""Rows up to which a table in memory, or in small files, is taken in once, and all else is asked of that."""

FEW_BYTES = 1 << 20
"""What small files hold together at most."""

EAGER = frozenset({"polars", "pandas", "pyarrow", "modin"})
"""Libraries that can hold a small frame; the others get theirs as PyArrow."""


@dataclass(frozen=True)
class Table:
    """An opened table: lazy, with the library its owner uses and a few words on where it came from.

    `called` are columns that have another name in here, since an engine takes theirs for a pattern; `text` is true where
    every column came as text, so that a role must say which are numbers. `lacking` are columns of some files only, each with
    a file that lacks it. `count` says how many rows there are, where Polars knows that without reading them; `few` is true
    where they are few and in memory already.
    """

    lazy: nw.LazyFrame[Any]
    backend: str
    origin: str
    called: Mapping[str, str] = field(default_factory=dict)
    text: bool = False
    lacking: Mapping[str, str] = field(default_factory=dict)
    count: Callable[[], int] | None = None
    few: bool = False

    @cached_property
    def schema(self) -> nw.Schema:
        """Columns by the names that their owner gave them."""
        theirs = {inner: name for name, inner in self.called.items()}
        return nw.Schema({theirs.get(name, name): dtype for name, dtype in self.lazy.collect_schema().items()})

    def of(self, rows: nw.LazyFrame[Any]) -> Table:
        """Other rows of it; how many is not known."""
        return replace(self, lazy=rows, count=None, few=False)

    def col(self, name: str) -> nw.Expr:
        """A column by the name that its owner gave it."""
        return nw.col(self.called.get(name, name))

    def numbers(self, *columns: Any) -> Table:
        """The same table, these columns as numbers where they came as text and hold nothing else, or hold nothing at all."""
        schema = self.schema
        named = dict.fromkeys(c for c in columns if isinstance(c, str))
        words = [c for c in named if schema.get(c) in (nw.String, nw.Unknown)]
        inner = [self.called.get(c, c) for c in words]
        if self.text:
            return replace(self, lazy=as_numbers(self.lazy, inner)) if inner else self
        blank = [name for name in inner if not int(to_polars(self.lazy.select(nw.col(name).count()))[name][0])]
        nothing = [nw.lit(None, nw.Float64).alias(name) for name in blank]
        return replace(self, lazy=self.lazy.with_columns(*nothing)) if nothing else self

    def whole_ids(self, *columns: str) -> Table:
        """The same table, these ids as whole numbers where they came as text and nothing is lost, for those who order by id."""
        words = [self.called.get(c, c) for c in columns if self.text and self.schema.get(c) == nw.String]
        return replace(self, lazy=as_whole(self.lazy, words)) if words else self


def open_table(table: Any, *, role: str = "table") -> Table:
    """A lazy table from a dataframe, a path, a glob, or several paths."""
    if isinstance(table, Table):
        return table
    if isinstance(table, Files):
        return _open_files(table.paths, role, table.engine, table.master)
    if isinstance(table, (str, Path)):
        return _open_files([str(table)], role)
    if isinstance(table, (list, tuple)) and table and all(isinstance(t, (str, Path)) for t in table):
        return _open_files([str(t) for t in table], role)
    try:
        with engine_errors(role):
            frame = nw.from_native(table)
            if frame.implementation.is_sqlframe():
                frame = nw.from_native(of_sqlframe(table, role))
            elif frame.implementation.is_ibis():
                frame = nw.from_native(without_padding(table))
            names = frame.collect_schema().names()
    except nw.exceptions.DuplicateError:  # some libraries let two columns have one name
        names = list(table.columns)
    except TypeError as error:
        raise EvenhandError(
            f"{role} is of type {type(table).__name__}, which is not a dataframe. "
            "Pass a pandas, Polars, PyArrow, DuckDB or PySpark table, or a path to Parquet, CSV or JSON lines."
        ) from error
    twice = sorted({str(n) for n in names if names.count(n) > 1})
    if twice or not all(isinstance(n, str) for n in names):
        raise EvenhandError(
            f"{role} has columns named {listing(twice or names)}. Give every column one name of its own, as text."
        )
    name = frame.implementation.name.lower()
    if name == "pyarrow":  # shares its memory with Polars, which streams and does not refuse an int64 as a float64
        import polars as pl

        frame = nw.from_native(pl.from_arrow(frame.to_native()))
    if name == "pandas":
        frame = _with_object_types(frame)
    held = isinstance(frame, nw.DataFrame) and (frame.implementation.is_polars() or name == "pandas")
    few = held and len(frame) <= FEW_ROWS
    lazy, called = _without_patterns(frame.lazy())
    return Table(
        lazy, name if name in EAGER else "pyarrow", f"a {name} table", called,
        count=frame.__len__ if held and name != "pandas" else None, few=few,
    )  # fmt: skip


def _without_patterns(lazy: nw.LazyFrame[Any]) -> tuple[nw.LazyFrame[Any], dict[str, str]]:
    """The table with other names for columns whose own an engine reads as a pattern, a star or a path; which those are."""
    names, engine = lazy.collect_schema().names(), lazy.implementation
    odd = r"\*|\^.*\$" if engine.is_polars() else r'.*[*."].*' if engine.is_duckdb() else r".*[`.\[].*"
    if not (engine.is_polars() or engine.is_duckdb() or engine.is_pyspark()):
        return lazy, {}
    called = {name: f"column {i} of {len(names)}" for i, name in enumerate(names) if re.fullmatch(odd, name, re.DOTALL)}
    if not called:
        return lazy, called
    native, new = lazy.to_native(), [called.get(name, name) for name in names]
    if engine.is_polars():
        return nw.from_native(native.rename(called)), called
    if engine.is_pyspark():
        return nw.from_native(native.toDF(*new)), called
    pairs = (f"{quoted(name)} as {quoted(inner)}" for name, inner in zip(names, new, strict=True))
    return nw.from_native(native.project(", ".join(pairs))).lazy(), called


def _with_object_types(frame: Any) -> Any:
    """The frame with pandas columns of plain objects (True and None, whole numbers, dates, decimals) read as what they hold."""
    native = frame.to_native()
    if half := [c for c, dtype in native.dtypes.items() if dtype == "float16"]:  # pandas cannot group by it
        frame = nw.from_native(native.astype(dict.fromkeys(half, "float32")))
    objects = [c for c, dtype in frame.collect_schema().items() if dtype == nw.Object]
    if not objects:
        return frame
    import pandas as pd
    import pyarrow as pa

    native, t = frame.to_native(), pa.types
    known = (t.is_boolean, t.is_integer, t.is_floating, t.is_date, t.is_time, t.is_decimal, t.is_binary)
    for column in objects:
        try:
            kind = pa.array(native[column], from_pandas=True).type
        except (TypeError, ValueError, NotImplementedError, OverflowError):
            kind = None  # of several types: told of by who needs the column
        if kind is not None and any(fits(kind) for fits in known):
            native = native.assign(**{column: native[column].astype(pd.ArrowDtype(kind))})
        elif all(isinstance(value, UUID) for value in native[column].dropna()):  # as database drivers hand out ids
            native = native.assign(**{column: native[column].map(str, na_action="ignore").astype("string[pyarrow]")})
    return nw.from_native(native)


def _open_files(patterns: Sequence[str], role: str, engine: str = "polars", master: str | None = None) -> Table:
    if any(map(database_of, patterns)):
        if engine == "spark":
            raise EvenhandError(f"{patterns[0]!r} is read by DuckDB only. Leave engine={engine!r} out.")
        return _open_database(patterns, role)
    if engine == "spark":
        return _open_with_spark(patterns, role, master)
    paths, kind = files_of(patterns, role)
    if engine != "polars" and (kind in SPECIAL or any(map(scheme, paths))):
        raise EvenhandError(f"{paths[0]!r} is read by Polars only. Leave engine={engine!r} out.")
    origin = "standard input" if STANDARD_INPUT in patterns else listing(paths)
    with panics(lambda error: _unreadable(paths, kind, role, error)):
        if kind in SPECIAL:
            found, origin = scan_special(paths, kind, role)
            lazy, called = _without_patterns(nw.from_native(found))
            return Table(lazy, "polars", origin, called)
        shared = _shared(paths, kind)
        if engine == "duckdb":
            return _open_with_duckdb(paths, kind, role, origin, shared)
        scanned, text = _scanned(shared, kind, role), kind != "parquet"
        few = _few(scanned, paths)
        lazy, called = _without_patterns(nw.from_native(scanned if few is None else few.lazy()))
        count = few.__len__ if few is not None else None if text else lambda: row_count(lazy)
        at_hand = few is not None and len(few) <= FEW_ROWS
        return Table(lazy, "polars", origin, called, text, shared.lacking, count, at_hand)


def _few(scanned: Any, paths: Sequence[str]) -> Any:
    """All rows of small files; a small file can still hold very many."""
    if any(map(scheme, paths)) or sum(map(os.path.getsize, paths)) > FEW_BYTES:
        return None
    found = scanned.head(BATCH + 1).collect(engine="streaming")
    return found if len(found) <= BATCH else None


def _open_database(words: Sequence[str], role: str) -> Table:
    if len(words) > 1:
        raise EvenhandError(
            f"{role} names several tables, one of them in a database. Pass one, or a view on all of them."
        )
    with engine_errors(role):
        lazy, called = _without_patterns(nw.from_native(relation_of(words[0], role)))
    return Table(lazy, "pyarrow", words[0], called)


@dataclass(frozen=True, slots=True)
class Shared:
    """Files in lots that have the same columns in the same order, and what all of them have.

    `columns` is None where there is one lot only.
    """

    lots: Sequence[Sequence[str]]
    columns: Sequence[str] | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)


def _shared(paths: Sequence[str], kind: str) -> Shared:
    """Which columns all files have: the others were asked for by nobody, or the role that names one is told where it lacks."""
    if len(paths) == 1 or kind == "jsonl":  # lines of JSON name their columns one by one
        return Shared([paths])
    import polars as pl

    lots: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        names = pl.scan_parquet(literal([path])).collect_schema().names() if kind == "parquet" else header(path, kind)
        lots.setdefault(tuple(names), []).append(path)
    if len(lots) == 1:
        return Shared([paths])
    columns = [name for name in next(iter(lots)) if all(name in names for names in lots)]
    if not columns:
        (first, *_), (other, *_) = list(lots.values())[:2]
        odd = listing(sorted({name for names in lots for name in names}))
        raise EvenhandError(f"{other!r} and {first!r} share no column ({odd}). Pass files of one table.")
    every = dict.fromkeys(name for names in lots for name in names if name not in columns)
    lacking = {name: next(some[0] for names, some in lots.items() if name not in names) for name in every}
    return Shared(list(lots.values()), columns, lacking)


def _scanned(shared: Shared, kind: str, role: str) -> Any:
    """The files as one lazy Polars table."""
    import polars as pl

    parts = [pl.scan_parquet(literal(some)) if kind == "parquet" else _text(some, kind, role) for some in shared.lots]
    if shared.columns is None:
        return parts[0]
    return pl.concat([part.select(shared.columns) for part in parts], how="vertical_relaxed")


def _text(paths: Sequence[str], kind: str, role: str) -> Any:
    scanned = scan(paths, kind)
    names = scanned.collect_schema().names()
    refuse_twice(names, role)
    return scanned


def refuse_twice(names: Sequence[str], role: str) -> None:
    """Stop where Polars has had to rename columns of text."""
    if twice := {n for n in names if any(other.startswith(f"{n}_duplicated_") for other in names)}:
        raise EvenhandError(
            f"{role} has several columns named {listing(sorted(twice))}. Give every column one name of its own."
        )


def _unreadable(paths: Sequence[str], kind: str, role: str, error: BaseException) -> EvenhandError:
    """Which of the files cannot be read, and why: the engine names none of them."""
    import polars as pl

    if kind in SPECIAL or (len(paths) == 1 and scheme(paths[0])):  # a store that does not answer is not asked twice
        return unreadable_place(paths[0], error)
    for path in paths:
        try:
            found = pl.scan_parquet(literal([path])) if kind == "parquet" else scan([path], kind)
            found.collect_schema()
        except BaseException as alone:
            if not is_panic(alone) and not isinstance(alone, (pl.exceptions.PolarsError, OSError)):
                raise
            if scheme(path):
                return unreadable_place(path, alone)
            return refused(path, kind, alone) if kind != "parquet" else unreadable(repr(path), alone)
    return unreadable(role, error)


ENGINES = {
    "polars": "Polars", "duckdb": "DuckDB", "pyarrow": "PyArrow", "pyspark": "Spark", "py4j": "Spark", "narwhals": "narwhals",
    "pandas": "pandas", "ibis": "Ibis", "pyo3_runtime": "Polars", "deltalake": "deltalake", "internal": "deltalake",
    "pyiceberg": "PyIceberg", "psycopg": "PostgreSQL", "psycopg2": "PostgreSQL", "sqlframe": "SQLFrame", "sqlglot": "sqlglot",
    "snowflake": "Snowflake", "google": "BigQuery", "databricks": "Databricks", "clickhouse_connect": "ClickHouse",
    "trino": "Trino", "MySQLdb": "MySQL", "pyodbc": "ODBC", "oracledb": "Oracle",
}  # fmt: skip


def _engine_of(error: BaseException) -> str:
    """Which library raised an error, by its name; nothing where none of ours did."""
    return ENGINES.get(type(error).__module__.split(".")[0].lstrip("_"), "")


def is_panic(error: BaseException) -> bool:
    """Whether Rust gave up: such an error is no Exception, so that it passes by those who catch these."""
    return type(error).__name__ == "PanicException"


@contextlib.contextmanager
def panics(told: Callable[[BaseException], EvenhandError]) -> Iterator[None]:
    """Turns what an engine raises over files into the error that `told` makes of it."""
    try:
        yield
    except EvenhandError:
        raise
    except BaseException as error:
        if _engine_of(error) or isinstance(error, OSError):
            raise told(error) from error
        raise


class engine_errors:  # noqa: N801
    """Turns what an engine says of unreadable data into one sentence of fact and one of remedy."""

    def __init__(self, role: str = "table") -> None:
        self.role = role

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        known = (EvenhandError, KeyboardInterrupt, SystemExit, MemoryError, nw.exceptions.DuplicateError)
        if error is None or isinstance(error, known):
            return
        if _engine_of(error) or isinstance(error, (OSError, UnicodeError)):
            raise unreadable(self.role, error) from error


WITHOUT_RIGHTS = ("InsufficientPrivilege", "ReadOnlySqlTransaction")
"""Errors of PostgreSQL about what a user may do."""


def unreadable(what: str, error: BaseException) -> EvenhandError:
    """That an engine gave up, without its own words: they may quote a row of somebody's data, and stand in `__cause__`."""
    engine, kind = _engine_of(error), type(error).__name__
    if kind in WITHOUT_RIGHTS:
        return EvenhandError(
            f"{what} cannot be read: {engine} does not let this user do it ({kind}). Grant SELECT on the table; where another "
            "table is brought along (a population, labels, buckets) also TEMPORARY on the database, outside read-only transactions."
        )
    why = f"{engine} gives up on it ({kind})" if engine else kind
    if isinstance(error, OSError) and error.strerror:
        why = error.strerror
    return EvenhandError(f"{what} cannot be read: {why}. Check that it is whole, or write it again.")


def missing_columns(table: Table, roles: Sequence[tuple[str, str]]) -> list[str]:
    """One problem per role whose column the table does not have."""
    names = list(table.schema.names())
    problems = []
    for role, column in roles:
        if not isinstance(column, str):
            problems.append(f"{role}={column!r} is not a column name. Pass the name of a column as text.")
        elif column in table.lacking:
            problems.append(
                f"{role}={column!r} is not a column of {table.lacking[column]!r}. Pass files that all have it."
            )
        elif column not in names:
            problems.append(
                f"{role}={column!r} is not a column of the table. {suggestion(column, names)}Columns: {listing(names) or 'none'}."
            )
    return problems


def each_once(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Each row once, in no order.

    Databases by their own word for it: `unique` of narwhals sorts all rows to take the first of each, and planners that cannot
    tell how many that leaves join them in loops.
    """
    engine = lazy.implementation
    if engine.is_ibis() or engine.is_duckdb() or engine.is_pyspark():
        once: nw.LazyFrame[Any] = nw.from_native(lazy.to_native().distinct()).lazy()
        return once
    return lazy.unique()


def to_polars(lazy: nw.LazyFrame[Any], *, few: bool = False) -> Any:
    """Collect a small table, whatever engine it lives in, as a Polars frame; one of `few` rows in memory without streaming."""
    import polars as pl

    with engine_errors():
        if lazy.implementation.is_polars():
            return lazy.to_native().collect(engine="in-memory" if few else "streaming")
        schema = lazy.collect_schema()
        if lazy.implementation.is_ibis():
            collected = fetched(_as_told(lazy, schema).to_native())
        else:
            collected = lazy.collect("pyarrow").to_native()
        found: Any = pl.from_arrow(collected.select(schema.names()))  # no index of pandas
        wide = [name for name, dtype in schema.items() if dtype in (nw.Int128, nw.UInt128)]
        return found.with_columns(*(_narrow(found[name]) for name in wide)) if wide else found


def row_count(lazy: nw.LazyFrame[Any]) -> int:
    return int(to_polars(lazy.select(nw.len().alias("n")))["n"][0])


def in_batches(lazy: nw.LazyFrame[Any]) -> Iterator[Any]:
    """The rows of a Polars table in any order, a frame of some of them after another."""
    native = lazy.to_native()
    if not hasattr(native, "collect_batches"):  # Polars before 1.34
        yield from to_polars(lazy).iter_slices(BATCH)
        return
    with engine_errors():
        yield from native.collect_batches(chunk_size=BATCH, maintain_order=False, engine="streaming")


def _as_told(lazy: nw.LazyFrame[Any], schema: nw.Schema) -> nw.LazyFrame[Any]:
    """The table with floats that are such: PostgreSQL takes 1.0 for a decimal, and Ibis leaves out a cast that should do nothing."""
    floats = [name for name, dtype in schema.items() if dtype.is_float()]
    told = [nw.coalesce(nw.col(name), nw.lit(None, nw.Float64)) for name in floats]
    return lazy.with_columns(*told) if told else lazy


def _narrow(decimals: Any) -> Any:
    """Whole numbers of 128 bits, which Arrow knows as decimals only, as int64 where that holds them."""
    import polars as pl

    whole = decimals.cast(pl.Int64, strict=False)
    return whole if whole.null_count() == decimals.null_count() else decimals


def is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def fits_int64(dtype: Any) -> bool:
    """Whether whole numbers of this type can be added up as such; truth values count as 0 and 1."""
    return bool(dtype == nw.Boolean or (dtype.is_integer() and dtype not in (nw.UInt64, nw.Int128, nw.UInt128)))


def _open_with_duckdb(paths: Sequence[str], kind: str, role: str, origin: str, shared: Shared) -> Table:
    """Files as a DuckDB relation, for who has little memory; text arrives as Parquet."""
    connection = connect()
    if kind == "parquet":
        found = connection.read_parquet(literal(paths), union_by_name=shared.columns is not None)
        found = found if shared.columns is None else found.project(", ".join(map(quoted, shared.columns)))
        lazy, called = _without_patterns(nw.from_native(found))
        return Table(lazy, "pyarrow", origin, called, lacking=shared.lacking)
    lines = _scanned(shared, kind, role)
    names = lines.collect_schema().names()
    called = {name: f"column {i} of {len(names)}" for i, name in enumerate(names)}  # DuckDB minds no capitals in names
    relation = connection.read_parquet(glob.escape(as_parquet(lines.rename(called))))
    return Table(nw.from_native(relation), "pyarrow", origin, called, True, shared.lacking)


def _open_with_spark(patterns: Sequence[str], role: str, master: str | None) -> Table:
    """Files as a Spark table; of paths that only the cluster can reach, Spark says what is there."""
    from evenhand.views import spark

    refuse_keys(role, *patterns)
    refuse_keys("master", master)
    apart = any(map(scheme, patterns))
    paths, kind = (list(patterns), kind_apart(patterns, role)) if apart else files_of(patterns, role)
    if kind in SPECIAL:
        raise EvenhandError(f"{paths[0]!r} is read by Polars only. Leave engine='spark' out.")
    shared = Shared([paths]) if apart else _shared(paths, kind)
    with engine_errors(f"{role}={listing(paths)!r}"):
        if kind in spark.SEPARATORS:
            names = [spark.header(paths, kind, master)] if apart else [header(lot[0], kind) for lot in shared.lots]
            refuse_twice(names[0], role)
            columns = names[0] if shared.columns is None else shared.columns
            called = {name: f"column {i} of {len(columns)}" for i, name in enumerate(columns)}
            native = spark.read_text(shared.lots, names, called, kind, master)
            return Table(nw.from_native(native), "pyarrow", listing(paths), called, True, shared.lacking)
        native = (
            spark.read_json(paths, master)
            if kind == "jsonl"
            else spark.read_parquet(shared.lots, shared.columns, master)
        )
        lazy, called = _without_patterns(nw.from_native(native))
    return Table(lazy, "pyarrow", listing(paths), called, kind != "parquet", shared.lacking)
