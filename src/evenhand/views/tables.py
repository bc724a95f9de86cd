"""Opening a table, whatever it is: a dataframe of any library narwhals knows, or files."""

from __future__ import annotations

import codecs
import functools
import glob
import gzip
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError, listing, suggestion

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


def open_table(table: Any, *, role: str = "table") -> Table:
    """A lazy table from a dataframe, a path, a glob, or several paths."""
    if isinstance(table, Table):
        return table
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
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            continue  # of several types: told of by who needs the column
        if any(fits(kind) for fits in known):
            native = native.assign(**{column: native[column].astype(pd.ArrowDtype(kind))})
    return nw.from_native(native)


def _open_files(patterns: Sequence[str], role: str) -> Table:
    paths = sorted({path for pattern in patterns for path in _matches(pattern, role)})
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise EvenhandError(f"{role} mixes files of the kinds {listing(sorted(kinds))}. Pass files of one kind.")
    kind = kinds.pop()
    filled = [_look_inside(path, kind) for path in paths]
    if not any(filled) and role in ("table", "rankings", "scores"):
        raise EvenhandError(
            f"{role}={listing(paths)!r} has no rows, only a header. Check the path, or the filter before it."
        )
    return Table(_scan(paths, kind, role), "polars", listing(paths))


def _matches(pattern: str, role: str) -> list[str]:
    if not pattern.strip():
        raise EvenhandError(f"{role}={pattern!r} names no file. Pass the path of a Parquet, CSV or JSON lines file.")
    if os.path.isfile(pattern):
        return [pattern]
    if os.path.isdir(pattern):
        inside = [p for p in sorted(glob.glob(str(Path(pattern) / "*"))) if _kind(p, strict=False)]
        if not inside:
            raise EvenhandError(
                f"{role}={pattern!r} is a folder without Parquet, CSV or JSON lines files. Name the files."
            )
        return inside
    found = [p for p in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(p)]
    if not found:
        wild = any(c in pattern for c in "*?[")
        lost = "is a link to a file that is not there" if os.path.islink(pattern) else "is not a file"
        fact = "matches no file" if wild else lost
        remedy = f"{nearby(pattern)}Pass the path of a Parquet, CSV or JSON lines file."
        raise EvenhandError(f"{role}={pattern!r} {fact}. {remedy}")
    return found


def nearby(path: str | Path) -> str:
    """The name in the same folder that is most like this one, as a question, or nothing."""
    place = Path(path)
    try:
        names = os.listdir(place.parent)[:1000]
    except OSError:
        return ""
    return suggestion(place.name, [name for name in names if name != place.name])


_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def _kind(path: str, *, strict: bool = True) -> str:
    suffixes = Path(path).suffixes
    if suffixes and suffixes[-1] == ".gz":
        suffixes = suffixes[:-1]
    kind = _SUFFIXES.get(suffixes[-1].lower(), "") if suffixes else ""
    if not kind and strict:
        raise EvenhandError(
            f"{path!r} has an ending that is not known. Pass .parquet, .csv, .tsv or .jsonl (also .gz)."
        )
    return kind


def may_be_file(text: str) -> bool:
    """Whether a word that may be a column or a file is the second."""
    return os.path.exists(text) or Path(text).suffix != "" or any(c in text for c in "/*?[")


def has_known_ending(path: str) -> bool:
    """Whether a file's ending is that of a table."""
    return bool(_kind(path, strict=False))


def _look_inside(path: str, kind: str) -> bool:
    """Open each file once up front: the engines would say it only much later, and in their own words.

    Returns whether there is more than a header in it, as far as can be seen from its beginning.
    """
    try:
        opener: Callable[..., Any] = gzip.open if path.endswith(".gz") else open
        with opener(path, "rb") as handle:
            start = handle.read(1 << 16)
        if kind == "parquet":
            with Path(path).open("rb") as handle:
                handle.seek(0, 2)
                size = handle.tell()
                handle.seek(max(0, size - 4))
                whole = start[:4] == b"PAR1" and handle.read(4) == b"PAR1" and size >= 12
            if not whole:
                raise EvenhandError(
                    f"{path!r} is not a whole Parquet file. Write it again, or check that its copy finished."
                )
        else:
            codecs.getincrementaldecoder("utf-8")().decode(start)  # a character cut at the end is fine
    except (OSError, EOFError, zlib.error) as error:
        raise EvenhandError(f"{path!r} cannot be read ({error}). Check the file and its permissions.") from error
    except UnicodeDecodeError as error:
        raise EvenhandError(
            f"{path!r} is not UTF-8 text. Save it as UTF-8, or give it the ending it should have."
        ) from error
    if not start:
        raise EvenhandError(f"{path!r} is empty. Pass a file with a header and rows.")
    if kind not in ("csv", "tsv"):
        return True
    header, _, rest = start.partition(b"\n")
    other = next((mark for mark in (b";", b"\t", b"|") if mark in header), None)
    if kind == "csv" and other and b"," not in header:
        shown = {b"\t": "tabs"}.get(other, f"{other.decode()!r}")
        raise EvenhandError(
            f"{path!r} separates its columns by {shown}, not by commas. Save it with commas, or with tabs and the ending .tsv."
        )
    return bool(rest.strip())


def _scan(paths: list[str], kind: str, role: str) -> nw.LazyFrame[Any]:
    import polars as pl

    def scan(rows: int | None) -> pl.LazyFrame:
        if kind == "parquet":
            return pl.scan_parquet(paths)
        if kind == "jsonl":
            return pl.scan_ndjson(paths, infer_schema_length=rows)
        return pl.scan_csv(paths, separator="," if kind == "csv" else "\t", infer_schema_length=rows)

    with engine_errors(role):
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
    if twice:
        raise EvenhandError(
            f"{role} has several columns named {listing(sorted(twice))}. Give every column one name of its own."
        )
    return nw.from_native(scanned)


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
            said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise EvenhandError(
                f"{self.role} cannot be read: {said[:300]}. Check the file or table it comes from."
            ) from error


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
        found = lazy.collect("pyarrow").to_native()
        return pl.from_arrow(found.select(lazy.collect_schema().names()))  # without the index that pandas adds


def is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def open_with_duckdb(files: Sequence[str]) -> Any:
    """Files as a DuckDB relation, for who has little memory."""
    try:
        import duckdb  # noqa: F401
    except ModuleNotFoundError as error:
        raise EvenhandError("duckdb is not installed. Install it with: pip install 'evenhand[duckdb]'.") from error
    paths = sorted({path for pattern in files for path in _matches(pattern, "table")})
    kinds = {_kind(path) for path in paths}
    for path in paths:
        _look_inside(path, _kind(path))
    if len(kinds) > 1:
        raise EvenhandError(f"table mixes files of the kinds {listing(sorted(kinds))}. Pass files of one kind.")
    with engine_errors():
        return _duckdb_reader(kinds.pop())(paths)


def _duckdb_reader(kind: str) -> Any:
    """Reads files of a kind as they are, without guessing separators, on a connection that sees NaN.

    Parquet statistics leave NaN out, and DuckDB's optimiser believes the statistics: `isnan` is then always false.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET disabled_optimizers = 'statistics_propagation,filter_pushdown'")
    if kind == "parquet":
        return connection.read_parquet
    if kind == "jsonl":
        return functools.partial(connection.read_json, format="newline_delimited")
    return functools.partial(connection.read_csv, sep="," if kind == "csv" else "\t", header=True, quotechar='"')
