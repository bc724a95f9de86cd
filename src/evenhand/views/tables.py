"""Opening a table, whatever it is: a dataframe of any library narwhals knows, or files."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import narwhals as nw

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.views.files import files_of, line_without_object, literal

EAGER = frozenset({"polars", "pandas", "pyarrow", "modin"})
"""Libraries that can hold a small frame; the others get theirs as PyArrow."""


FIRST_ROWS = 10_000
"""Lines of a text file from which the types of its columns are guessed; all of them where that guess fails."""


@dataclass(frozen=True)
class Table:
    """An opened table: lazy, with the library its owner uses and a few words on where it came from."""

    lazy: nw.LazyFrame[Any]
    backend: str
    origin: str

    @property
    def schema(self) -> nw.Schema:
        return self.lazy.collect_schema()


@dataclass(frozen=True)
class Files:
    """Files with the engine that reads them; a plan records the files."""

    paths: tuple[str, ...]
    engine: str = "polars"

    def as_word(self) -> Any:
        return list(self.paths) if len(self.paths) > 1 else self.paths[0]

    def opened(self) -> Any:
        """What a view opens: paths for Polars, a relation for DuckDB."""
        return open_with_duckdb(self.paths) if self.engine == "duckdb" else self.as_word()


def open_table(table: Any, *, role: str = "table") -> Table:
    """A lazy table from a dataframe, a path, a glob, or several paths."""
    if isinstance(table, Table):
        return table
    if isinstance(table, Files):
        table = table.opened()
    if isinstance(table, (str, Path)):
        return _open_files([str(table)], role)
    if isinstance(table, (list, tuple)) and table and all(isinstance(t, (str, Path)) for t in table):
        return _open_files([str(t) for t in table], role)
    try:
        with engine_errors(role):
            frame = nw.from_native(table)
            names = list(frame.columns)
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
    return Table(frame.lazy(), name if name in EAGER else "pyarrow", f"a {name} table")


def _with_object_types(frame: Any) -> Any:
    """The frame with pandas columns of plain objects (True and None, whole numbers, dates, decimals) read as what they hold."""
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


def _open_files(patterns: Sequence[str], role: str) -> Table:
    import polars as pl

    paths, kind = files_of(patterns, role)
    try:
        return Table(_scan(paths, kind, role), "polars", listing(paths))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(paths, kind, role, error) from error


def _unreadable(paths: Sequence[str], kind: str, role: str, error: Exception) -> EvenhandError:
    """Which of the files cannot be read, and why: the engine names none of them."""
    import polars as pl

    first: list[str] = []
    if kind == "jsonl" and (where := line_without_object(paths)):
        return EvenhandError(where)
    for path in paths:
        try:
            names = _scan([path], kind, role).collect_schema().names()
        except (pl.exceptions.PolarsError, OSError) as alone:
            return unreadable(repr(path), alone)
        first = first or names
        if names != first:
            odd = listing(sorted(set(names) ^ set(first))) or "their order"
            return EvenhandError(
                f"{path!r} and {paths[0]!r} have different columns ({odd}). Pass files with the same columns."
            )
    return unreadable(role, error)


def _scan(paths: list[str], kind: str, role: str) -> nw.LazyFrame[Any]:
    """Files as one lazy table; what Polars says of them is left to the caller."""
    import polars as pl

    places = literal(paths)

    def scan(rows: int | None) -> pl.LazyFrame:
        if kind == "parquet":
            return pl.scan_parquet(places)
        if kind == "jsonl":
            return pl.scan_ndjson(places, infer_schema_length=rows)
        return pl.scan_csv(places, separator="," if kind == "csv" else "\t", infer_schema_length=rows)

    scanned = scan(FIRST_ROWS)
    names = scanned.collect_schema().names()
    twice = {n for n in names if any(other.startswith(f"{n}_duplicated_") for other in names)}
    if kind != "parquet" and not twice:
        # Text has no types: lines with more fields than the header, or with a type that the first lines do not show,
        # come to light only where every column of every line is read.
        everything = pl.all().null_count()
        try:
            scanned.select(everything).collect(engine="streaming")
        except pl.exceptions.ComputeError:
            scanned = scan(None)
            scanned.select(everything).collect(engine="streaming")
        scanned = _unsigned(scanned)
    if twice:
        raise EvenhandError(
            f"{role} has several columns named {listing(sorted(twice))}. Give every column one name of its own."
        )
    return nw.from_native(scanned)


def _unsigned(scanned: Any) -> Any:
    """Ids of 64 bits without a sign as such: the reader of text takes them for numbers of 128 bits, which few things take."""
    import polars as pl

    wide = [name for name, dtype in scanned.collect_schema().items() if dtype == pl.Int128]
    if not wide:
        return scanned
    fits = ((pl.col(wide) >= 0) & (pl.col(wide) < 2**64)).all()
    found = scanned.select(fits).collect(engine="streaming").row(0, named=True)
    return scanned.with_columns(pl.col([name for name in wide if found[name]]).cast(pl.UInt64))


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
        module = type(error).__module__.split(".")[0].lstrip("_")
        if module in {"polars", "duckdb", "pyarrow", "pyspark", "py4j", "narwhals", "pandas", "ibis"} or isinstance(
            error, (OSError, UnicodeError)
        ):
            raise unreadable(self.role, error) from error


def unreadable(what: str, error: BaseException) -> EvenhandError:
    """What an engine says, in one line; DuckDB's word on a CSV file is the third, and the file comes much later."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    said = re.split(r",? (?:hint:|consider passing) ", lines[0])[0]  # advice on the engine's own functions
    if "CSV Error on Line" in said and len(lines) > 2:
        file = next((line.removeprefix("file = ") for line in lines if line.startswith("file = ")), "the file")
        said = f"line {said.rpartition(' ')[2]} of {file!r}: {lines[2]}"
    return EvenhandError(f"{what} cannot be read: {said[:300].rstrip('.')}. Check the file or table it comes from.")


def missing_columns(table: Table, roles: Sequence[tuple[str, str]]) -> list[str]:
    """One problem per role whose column the table does not have."""
    names = list(table.schema.names())
    problems = []
    for role, column in roles:
        if not isinstance(column, str):
            problems.append(f"{role}={column!r} is not a column name. Pass the name of a column as text.")
        elif column not in names:
            problems.append(
                f"{role}={column!r} is not a column of the table. {suggestion(column, names)}Columns: {listing(names) or 'none'}."
            )
    return problems


def to_polars(lazy: nw.LazyFrame[Any]) -> Any:
    """Collect a small table, whatever engine it lives in, as a Polars frame."""
    import polars as pl

    with engine_errors():
        if lazy.implementation.is_polars():
            return lazy.collect("polars", engine="streaming").to_native()
        schema = lazy.collect_schema()
        found: Any = pl.from_arrow(lazy.collect("pyarrow").to_native().select(schema.names()))  # no index of pandas
        wide = [name for name, dtype in schema.items() if dtype in (nw.Int128, nw.UInt128)]
        return found.with_columns(*(_narrow(found[name]) for name in wide)) if wide else found


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


def open_with_duckdb(files: Sequence[str]) -> Any:
    """Files as a DuckDB relation, for who has little memory."""
    try:
        import duckdb  # noqa: F401
    except ModuleNotFoundError as error:
        raise EvenhandError("duckdb is not installed. Install it with: pip install 'evenhand[duckdb]'.") from error
    paths, kind = files_of(files, "table", through=True)
    with engine_errors():
        return _duckdb_relation(literal(paths), kind)


DISABLED = ("statistics_propagation", "filter_pushdown", "type_pushdown")
"""What DuckDB's optimiser must not do. Parquet statistics leave NaN out, and it believes the statistics: `isnan` is then
always false. And a column of text that is cast to numbers is read as numbers from the start, which `true` is none of."""


def _duckdb_relation(paths: list[str], kind: str) -> Any:
    """Files as they are, without guessing separators."""
    import duckdb

    connection = duckdb.connect()
    known = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    connection.execute(f"SET disabled_optimizers = '{','.join(name for name in DISABLED if name in known)}'")
    if kind == "parquet":
        return connection.read_parquet(paths)
    if kind == "jsonl":
        return _unrounded(functools.partial(connection.read_json, paths, format="newline_delimited"), "columns")
    separator = "," if kind == "csv" else "\t"
    return _unrounded(
        functools.partial(
            connection.read_csv, paths, sep=separator, header=True, quotechar='"', hive_partitioning=False
        ),
        "dtype",
    )


def _unrounded(read: Callable[..., Any], types: str) -> Any:
    """What is read, every line looked at: fractions in a column that begins with whole numbers are rounded by DuckDB.

    `types` is the option that tells the reader the types of columns.
    """
    import duckdb

    found = read()
    kinds = {c: str(kind) for c, kind in zip(found.columns, found.types, strict=True)}
    whole = [c for c, kind in kinds.items() if kind in ("BIGINT", "HUGEINT")]
    if not whole:
        return found
    names = ['"' + c.replace('"', '""') + '"' for c in whole]
    try:
        as_floats = read(**{types: kinds | dict.fromkeys(whole, "DOUBLE")})
        (broken,) = as_floats.aggregate(", ".join(f"bool_or({c} <> round({c}))" for c in names)).fetchall()
    except duckdb.Error:  # words after thousands of numbers: told of where somebody asks for that column
        as_text = read(**{types: kinds | dict.fromkeys(whole, "VARCHAR")})
        number = "try_cast({0} as double)".format
        tests = (f"bool_or({number(c)} <> round({number(c)}))" for c in names)
        (broken,) = as_text.aggregate(", ".join(tests)).fetchall()
    floats = {c: "DOUBLE" for c, is_broken in zip(whole, broken, strict=True) if is_broken}
    return read(**{types: kinds | floats}) if floats else found
