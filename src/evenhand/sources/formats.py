"""Formats of files: the register that knows their endings, and how the columns and rows of each are read.

To add a format, write a function that tells the columns of a file and one that returns what stands after FROM for several
files with these columns, and put them in `FORMATS`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, listing
from evenhand.sources.columns import NESTED, Column, StoredTable, by_position, of_duckdb_type, usable_names
from evenhand.sources.engine import DuckDBEngine
from evenhand.sources.failures import unreadable
from evenhand.sources.folders import lasting
from evenhand.sources.frames import DURATIONS, Choice, polars_columns, polars_kinds
from evenhand.sources.sql import quoted, text

FIRST_BYTES = 1 << 16
"""How much of a file is looked at before an engine reads it."""

LONGEST_LINE = 64 << 20
"""Bytes that a line of text or a JSON object may have."""


@dataclass(frozen=True, slots=True)
class Format:
    """How files of one kind are read.

    Attributes
    ----------
    endings : how names of such files end, the usual one first.
    columns : all columns of some files, in their order. Files with other columns are read apart, if `is_uniform`.
    rows : what stands after FROM for files with the same columns: all of these by position.
    header : the names of a file's columns, where all rows have the same ones.
    is_text : whether it is text: columns come as text, so that roles say which are numbers.
    is_uniform : whether all rows of a file have the same columns.
    explain : why a file cannot be read, in words.
    check : refuses what the engine reads and should not, once it is a table.
    """

    endings: tuple[str, ...]
    columns: Callable[[DuckDBEngine, Sequence[str]], Sequence[Column]]
    rows: Callable[[DuckDBEngine, Sequence[str], Sequence[Column]], str]
    header: Callable[[str], list[str]]
    is_text: bool = False
    is_uniform: bool = True
    explain: Callable[[str, BaseException], EvenhandError] = lambda path, error: unreadable(repr(path), error)
    check: Callable[[DuckDBEngine, str, Sequence[str]], None] | None = None


def paths_literal(paths: Sequence[str]) -> str:
    """Paths as DuckDB must be given them: it would take a bracket or a star in a name for a pattern."""
    escaped = ("".join(f"[{c}]" if c in "*?[" else c for c in path) for path in paths)
    return f"[{', '.join(map(text, escaped))}]"


def opened_bytes(path: str) -> Any:
    """A file for reading, unpacked where its ending says that it is packed."""
    return gzip.open(path, "rb") if path.endswith(".gz") else Path(path).open("rb")


# Parquet


def _parquet_columns(engine: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
    """DuckDB says what it reads; names, categories, durations and zones are told by the schema that Arrow wrote beside it."""
    schema = _parquet_schema(paths[0])
    kinds = polars_kinds(schema)
    types = engine.column_types(f"SELECT * FROM {_parquet_rows(engine, paths[:1], ())}")
    return [
        _parquet_column(name, kinds[name], schema[name], duckdb_type)
        for name, duckdb_type in zip(kinds, types, strict=True)
    ]


def _parquet_schema(path: str) -> Any:
    import polars as pl

    return pl.scan_parquet(path, glob=False).collect_schema()


UNSIGNED_BYTES = "CAST('0x' || array_to_string(list_reverse(regexp_extract_all(hex({0}), '..')), '') AS UHUGEINT)"
SIGNED_BYTES = (
    f"CASE WHEN {UNSIGNED_BYTES} >> 127 = 0 THEN CAST({UNSIGNED_BYTES} AS HUGEINT) "
    f"ELSE -CAST(CAST({2**128 - 1} AS UHUGEINT) - {UNSIGNED_BYTES} AS HUGEINT) - 1 END"
)
"""Whole numbers of 128 bits, which only Polars writes to Parquet: as 16 bytes, the lowest first."""


def _parquet_column(name: str, kind: Any, native: Any, duckdb_type: Any) -> Column:
    column = of_duckdb_type(name, duckdb_type)
    if kind in (nw.Int128, nw.UInt128):
        return Column(name, kind, SIGNED_BYTES if kind == nw.Int128 else UNSIGNED_BYTES)
    if kind == nw.Duration and column.kind == nw.Int64:
        return Column(name, kind, DURATIONS[native.time_unit])
    if kind == nw.Time:
        return Column(name, kind, "CAST({} AS TIME)")
    if kind == nw.Unknown:
        return Column(name, kind, "CAST(NULL AS VARCHAR)")
    is_finer = kind in (nw.Categorical, nw.Enum, *NESTED) or (kind == nw.Datetime and column.kind == nw.Datetime)
    return replace(column, kind=kind) if is_finer else column


def _parquet_rows(_: DuckDBEngine, paths: Sequence[str], __: Sequence[Column]) -> str:
    return f"read_parquet({paths_literal(paths)})"


# Text with separators


def _separated(delimiter: str, words: str, ending: str) -> Format:
    def columns(_: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
        return [Column(name, nw.String()) for name in header(paths[0])]

    def rows(_: DuckDBEngine, paths: Sequence[str], columns: Sequence[Column]) -> str:
        names = [f"c{i}" for i in range(len(columns))]
        kinds = ", ".join(f"{name}: 'VARCHAR'" for name in names)
        options = (
            f"delim = {text(delimiter)}, columns = {{{kinds}}}, auto_detect = false, header = true, quote = '\"', escape = '\"', "
            "nullstr = '', allow_quoted_nulls = false, null_padding = true, strict_mode = true, "
            f"max_line_size = {LONGEST_LINE}, buffer_size = {2 * LONGEST_LINE}, "
            "parallel = false"  # else short lines and line ends in quotes are refused in one file
        )
        checked = [checked_text(path, delimiter) for path in paths]
        filled = f"COALESCE({', '.join(names)}) IS NOT NULL"  # a line without anything is no row
        return f"(SELECT * FROM read_csv({paths_literal(checked)}, {options}) WHERE {filled})"

    def explain(path: str, error: BaseException) -> EvenhandError:
        return _explain_separated(path, words, error)

    def header(path: str) -> list[str]:
        return separated_header(path, delimiter)

    return Format((ending,), columns, rows, header, is_text=True, explain=explain)


def separated_header(path: str, delimiter: str) -> list[str]:
    """The names of the columns of a file of separated text."""
    with io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig", errors="replace", newline="") as lines:
        try:
            return next((names for names in csv.reader(lines, delimiter=delimiter, strict=True) if names), [])
        except csv.Error as error:
            raise _stray_quote(path) from error


BYTES_AT_ONCE = 1 << 23
"""Bytes of text that are checked together."""


def checked_text(path: str, delimiter: str) -> str:
    """The path of a file whose quotes are in their places and whose lines all end alike: itself, or a copy.

    DuckDB drops what follows a quote that is never closed without a word, and refuses lines that end in several ways.
    """
    quotes = _QuoteCheck(delimiter)
    ends = {b"\n": 0, b"\r": 0, b"\r\n": 0}
    with opened_bytes(path) as handle:
        chunk = handle.read(BYTES_AT_ONCE).removeprefix(codecs.BOM_UTF8)
        is_late = chunk[:1] in (b"\n", b"\r")  # DuckDB takes the first line for the header, whatever is in it
        while chunk:
            following = handle.read(BYTES_AT_ONCE)
            outside = quotes.outside(chunk, following[:1] or b"\n")
            if outside is None:
                raise _stray_quote(path)
            for end in ends:
                ends[end] += (outside + following[:1]).count(end) if end == b"\r\n" else outside.count(end)
            chunk = following
    if quotes.is_open:
        raise _stray_quote(path)
    has_both = 0 < ends[b"\r\n"] < ends[b"\n"] and ends[b"\r\n"] == ends[b"\r"]
    return _tidied(path) if has_both or is_late else path


def _tidied(path: str) -> str:
    """The path of a copy whose lines end alike, and that begins with its header."""
    copy = lasting() / f"{Path(path).name.removesuffix(PACKED)}"
    with opened_bytes(path) as handle, copy.open("wb") as written:
        has_begun = is_quoted = False
        for line in handle:
            has_begun = has_begun or bool(line.removeprefix(codecs.BOM_UTF8).strip(b"\r\n"))
            is_quoted ^= bool(line.count(b'"') % 2)
            if has_begun:
                written.write(line[:-2] + b"\n" if line.endswith(b"\r\n") and not is_quoted else line)
    return str(copy)


class _QuoteCheck:
    """Whether each quote of a text begins or ends a field, or is written twice inside one."""

    def __init__(self, delimiter: str) -> None:
        self.is_open = False
        self._edges = np.zeros(256, dtype=bool)
        self._edges[list(b'"\r\n' + delimiter.encode())] = True
        self._before = ord("\n")

    def outside(self, chunk: bytes, following: bytes) -> bytes | None:
        """The unquoted bytes of the next chunk; None where a quote is misplaced."""
        unquoted = b"" if self.is_open else chunk
        if b'"' in chunk:
            letters = np.frombuffer(chunk + following, dtype=np.uint8)
            is_quote = letters[:-1] == ord('"')
            at = np.flatnonzero(is_quote)
            before = np.where(at > 0, letters[at - 1], self._before)
            opens = (np.arange(len(at)) + self.is_open) % 2 == 0
            if not self._edges[np.where(opens, before, letters[at + 1])].all():
                return None
            if b"\r" in chunk:
                inside = (np.cumsum(is_quote, dtype=np.uint8) + np.uint8(self.is_open)) % 2
                unquoted = letters[:-1][inside == 0].tobytes()
            self.is_open ^= bool(len(at) % 2)
        self._before = chunk[-1]
        return unquoted


def _stray_quote(path: str) -> EvenhandError:
    return EvenhandError(
        f"{path!r} has a quote that is never closed, or one inside a field. Put quotes around the whole field and "
        "write each quote inside it twice."
    )


def _explain_separated(path: str, words: str, error: BaseException) -> EvenhandError:
    """Why separated text cannot be read, without a word of what is in it."""
    reason = str(error).partition("Possible fixes")[0].partition("file =")[0].lower()
    if "expected number of columns" in reason or "too many columns" in reason:
        return EvenhandError(
            f"{path!r} has lines with more fields than its header. Put quotes around fields that hold the separator."
        )
    if "utf-8" in reason or "unicode" in reason:
        return EvenhandError(f"{path!r} is not UTF-8 text. Save it as UTF-8, or give it the ending it should have.")
    if "quote" in reason:
        return _stray_quote(path)
    return EvenhandError(f"{path!r} cannot be read as {words}. Check that the file is whole, and write it again.")


# Objects, one per line


def _json_objects(paths: Sequence[str]) -> str:
    return (
        f"read_json_objects({paths_literal(paths)}, format = 'newline_delimited', maximum_object_size = {LONGEST_LINE})"
    )


def _json_columns(engine: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
    """The keys of all objects, in the order in which they come up; every line is looked at."""
    keys = engine.cells(
        f"""
        SELECT key, MIN(line) AS line, BOOL_AND(kind IN ('ARRAY', 'OBJECT', 'NULL')) AND BOOL_OR(kind <> 'NULL') AS is_nested
        FROM (
            SELECT UNNEST(keys) AS key, UNNEST(kinds) AS kind, UNNEST(RANGE(LEN(keys))) AS place, line
            FROM (
                SELECT CASE WHEN json_type(json) = 'OBJECT' THEN json_keys(json) ELSE [NULL] END AS keys,
                    CASE WHEN json_type(json) = 'OBJECT' THEN json_type(json, '$.*') ELSE [NULL] END AS kinds,
                    ROW_NUMBER() OVER () AS line
                FROM {_json_objects(paths)}
            ) AS lines
        ) AS entries
        GROUP BY key ORDER BY line, MIN(place)
        """
    )
    names = keys.values("key")
    if None in names:
        raise EvenhandError(line_without_object(paths))
    nested = [name for name, is_nested in zip(names, keys.values("is_nested"), strict=True) if is_nested]
    kinds = _nested_kinds(engine, paths, nested) if nested else {}
    return [Column(name, kinds.get(name, nw.String()), "NULL" if name in kinds else "{}") for name in names]


def _nested_kinds(engine: DuckDBEngine, paths: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    structures = ", ".join(
        f"json_group_structure(json_extract(json, {_pointer(name)})) AS c{i}" for i, name in enumerate(names)
    )
    row = engine.cells(f"SELECT {structures} FROM {_json_objects(paths)}").row()
    return {name: _json_kind(json.loads(row[f"c{i}"])) for i, name in enumerate(names)}


_JSON_KINDS = {
    "UBIGINT": nw.Int64(),
    "BIGINT": nw.Int64(),
    "DOUBLE": nw.Float64(),
    "BOOLEAN": nw.Boolean(),
    "NULL": nw.Unknown(),
}


def _json_kind(structure: Any) -> Any:
    """A type by the structure that DuckDB tells of JSON."""
    if isinstance(structure, list):
        return nw.List(_json_kind(structure[0]) if structure else nw.String())
    if isinstance(structure, Mapping):
        return nw.Struct({name: _json_kind(inner) for name, inner in structure.items()})
    return _JSON_KINDS.get(structure, nw.String())


def _pointer(name: str) -> str:
    """A key as a JSON pointer, in which capitals count and no letter is special."""
    return text("/" + name.replace("~", "~0").replace("/", "~1"))


def _json_rows(_: DuckDBEngine, paths: Sequence[str], columns: Sequence[Column]) -> str:
    """Numbers and truth values as they are written."""
    pointers = ", ".join(_pointer(column.name) for column in columns)
    picked = ", ".join(f"picked[{i}] AS c{i}" for i in range(1, len(columns) + 1))
    values = f"SELECT json_extract_string(json, [{pointers}]) AS picked FROM {_json_objects(paths)}"
    return f"(SELECT {picked} FROM ({values}) AS objects)" if columns else f"(SELECT 0 FROM {_json_objects(paths)})"


def _refuse_json_infinity(engine: DuckDBEngine, table: str, paths: Sequence[str]) -> None:
    """NaN and Infinity are no JSON, though DuckDB reads them."""
    names = engine.types(f"SELECT * FROM {table}")
    odd = "'nan', '-nan', 'inf', '-inf', 'infinity', '-infinity'"
    listed = [f"LOWER({quoted(name)}) IN ({odd})" for name, kind in names.items() if kind == "VARCHAR"]
    count = engine.cells(f"SELECT COUNT(*) AS odd FROM {table} WHERE {' OR '.join(listed) or 'FALSE'}").row()["odd"]
    if count and (where := line_without_object(paths)):
        raise EvenhandError(where)


def line_without_object(paths: Sequence[str]) -> str:
    """Where JSON lines go wrong, in words; nothing where every line is an object, or nobody can tell."""
    for path in paths:
        with io.TextIOWrapper(opened_bytes(path), encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip() and not _is_object(line):
                    return f"{path!r} has no JSON object in line {number:,}. Write one object per line, null where a value is missing."
    return ""


def _is_object(line: str) -> bool:
    def refuse(name: str) -> Any:
        raise ValueError(name)  # NaN and Infinity are no JSON

    try:
        return isinstance(json.loads(line, parse_constant=refuse), dict)
    except ValueError:
        return False


def _explain_json(path: str, _: BaseException) -> EvenhandError:
    if where := line_without_object([path]):
        return EvenhandError(where)
    return EvenhandError(f"{path!r} cannot be read as JSON lines. Check that the file is whole, and write it again.")


# Arrow files


def _arrow_schema(path: str) -> Any:
    import polars as pl

    return pl.scan_ipc(path, glob=False).collect_schema()


def _arrow_columns(_: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
    schema = _arrow_schema(paths[0])
    return polars_columns(schema, schema.names())[0]


def _arrow_rows(engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[Column]) -> str:
    """Read by Polars, once, into a temporary file."""
    import polars as pl

    chosen = [column.name for column in columns if column.is_stored]
    scans = [pl.scan_ipc(path, glob=False) for path in paths]
    expressions = polars_columns(scans[0].collect_schema(), chosen)[1]
    lazy = pl.concat([scan.select(expressions) for scan in scans])
    stored = engine.ingest(lazy if chosen else pl.concat(scans).select(pl.repeat(0, pl.len()).alias("none")))
    inner = usable_names([column.name for column in columns])
    listed = [quoted(name) if column.is_stored else "NULL" for column, name in zip(columns, inner, strict=True)]
    return f"(SELECT {', '.join(listed)} FROM {stored})"


FORMATS: dict[str, Format] = {
    "parquet": Format(
        (".parquet", ".pq"), _parquet_columns, _parquet_rows, lambda path: list(_parquet_schema(path).names())
    ),
    "csv": _separated(",", "comma-separated text", ".csv"),
    "tsv": _separated("\t", "tab-separated text", ".tsv"),
    "jsonl": Format(
        (".jsonl", ".ndjson"),
        _json_columns,
        _json_rows,
        lambda _: [],
        is_text=True,
        is_uniform=False,
        explain=_explain_json,
        check=_refuse_json_infinity,
    ),
    "arrow": Format(
        (".arrow", ".feather", ".ipc"), _arrow_columns, _arrow_rows, lambda path: list(_arrow_schema(path).names())
    ),
}
"""Formats by name."""

ENDINGS = {ending: name for name, form in FORMATS.items() for ending in form.endings}
"""The format of each ending."""

PACKED = ".gz"
"""What may stand after the ending of text."""


# Several files


@dataclass(frozen=True, slots=True)
class TableOfFiles:
    """The rows of all files, and the columns that only some of them have, each with a file that lacks it."""

    table: StoredTable
    lacking: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Lot:
    """Files with the same columns."""

    columns: Sequence[Column]
    paths: Sequence[str]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def unread(self, name: str) -> Column:
        """A column that nobody reads."""
        return replace(self.columns[self.names.index(name)], sql="")


def read_files(engine: DuckDBEngine, paths: Sequence[str], kind: str, role: str, choose: Choice) -> TableOfFiles:
    """Files as one table: text is read once, into a temporary table; the others are read where they are."""
    form = FORMATS[kind]
    lots = _lots(engine, paths, form)
    for lot in lots:
        _refuse_repeated(lot.names, role)
    names, lacking = _shared_names(lots)
    chosen = choose(names)
    columns = [_merged_column(name, lots) if name in chosen else lots[0].unread(name) for name in names]
    rows = " UNION ALL ".join(_rows_of(engine, form, lot, columns) for lot in lots)
    table = (engine.keep if form.is_text else engine.view)(rows)
    if form.check is not None:
        form.check(engine, table, paths)
    stored = [replace(column, sql="{}") if column.is_stored else column for column in columns]
    return TableOfFiles(StoredTable(table, stored), lacking)


def _lots(engine: DuckDBEngine, paths: Sequence[str], form: Format) -> list[Lot]:
    if not form.is_uniform or len(paths) == 1:
        return [Lot(form.columns(engine, paths), paths)]
    lots: dict[Any, Lot] = {}
    for path in paths:
        columns = form.columns(engine, [path])
        lot = lots.setdefault(str(columns), Lot(columns, []))
        lots[str(columns)] = replace(lot, paths=[*lot.paths, path])
    return list(lots.values())


def _refuse_repeated(names: Sequence[str], role: str) -> None:
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise EvenhandError(
            f"{role} has several columns named {listing(repeated)}. Give every column one name of its own."
        )


def _shared_names(lots: Sequence[Lot]) -> tuple[list[str], dict[str, str]]:
    """The columns that all files have; a role that names another one is told where it is lacking."""
    names = [name for name in lots[0].names if all(name in lot.names for lot in lots)]
    if not names and any(lot.names for lot in lots):
        odd = listing(sorted({name for lot in lots for name in lot.names}))
        raise EvenhandError(
            f"{lots[1].paths[0]!r} and {lots[0].paths[0]!r} share no column ({odd}). Pass files of one table."
        )
    every = dict.fromkeys(name for lot in lots for name in lot.names if name not in names)
    lacking = {name: next(lot.paths[0] for lot in lots if name not in lot.names) for name in every}
    return names, lacking


@dataclass(frozen=True, slots=True)
class SharedColumns:
    """Files in lots that have the same columns in the same order, and the columns that all of them have.

    Attributes
    ----------
    columns : None where there is one lot only.
    lacking : columns of some files only, each with a file that lacks it.
    """

    lots: Sequence[Sequence[str]]
    columns: Sequence[str] | None
    lacking: Mapping[str, str]


def shared_columns(paths: Sequence[str], header: Callable[[str], list[str]]) -> SharedColumns:
    """Which columns files have, by their names alone."""
    lots: dict[tuple[str, ...], list[str]] = {}
    for path in paths if len(paths) > 1 else ():
        lots.setdefault(tuple(header(path)), []).append(path)
    if len(lots) <= 1:
        return SharedColumns([paths], None, {})
    shared, lacking = _shared_names(
        [Lot([Column(name, nw.String()) for name in names], some) for names, some in lots.items()]
    )
    return SharedColumns(list(lots.values()), shared, lacking)


def _merged_column(name: str, lots: Sequence[Lot]) -> Column:
    """A column of files that may have different types of numbers in it."""
    sources = [(lot.columns[lot.names.index(name)], lot.paths[0]) for lot in lots]
    first, kinds = sources[0][0], {str(column.kind): column.kind for column, _ in sources}
    if len(kinds) == 1:
        return first
    words = (nw.String, nw.Categorical, nw.Enum)
    if all(kind in words for kind in kinds.values()):
        return Column(name, nw.String())
    if all(kind == nw.Datetime for kind in kinds.values()):
        return first
    if all(kind.is_integer() for kind in kinds.values()):
        wide = any(kind in (nw.UInt64, nw.Int128, nw.UInt128) for kind in kinds.values())
        return Column(name, nw.Int128() if wide else nw.Int64())
    if all(kind.is_numeric() for kind in kinds.values()):
        return Column(name, nw.Float64())
    (other, path) = next((column, path) for column, path in sources if str(column.kind) != str(first.kind))
    raise EvenhandError(
        f"{path!r} cannot be read beside {sources[0][1]!r}: {name!r} holds {other.kind} values in the one and {first.kind} in the "
        "other. Write the files again with one type."
    )


_WIDE_ENOUGH = {nw.Int64: "BIGINT", nw.Int128: "HUGEINT", nw.Float64: "DOUBLE"}


def _rows_of(engine: DuckDBEngine, form: Format, lot: Lot, columns: Sequence[Column]) -> str:
    """A query for the chosen columns of files, under the names and with the types that they have in all of them."""
    merged = {column.name: column for column in columns}
    cast_columns = [
        _cast(column, merged[column.name]) if column.name in merged else replace(column, sql="")
        for column in lot.columns
    ]
    query = by_position(form.rows(engine, lot.paths, cast_columns), cast_columns)
    inner = dict(zip(lot.names, usable_names(lot.names), strict=True))
    outer = dict(zip(merged, usable_names(list(merged)), strict=True))
    listed = [f"{quoted(inner[c.name])} AS {quoted(outer[c.name])}" for c in columns if c.is_stored]
    return f"SELECT {', '.join(listed) or '0 AS none'} FROM ({query}) AS files"


def _cast(column: Column, merged: Column) -> Column:
    """A column of some files, read as the type that it has in all of them."""
    if not merged.sql or column.kind == merged.kind:
        return replace(column, sql=column.sql if merged.sql else "")
    wide = next((name for kind, name in _WIDE_ENOUGH.items() if merged.kind == kind), "")
    return replace(column, sql=f"CAST({column.sql} AS {wide})") if wide else column


def explain_files(paths: Sequence[str], kind: str) -> Callable[[BaseException], EvenhandError]:
    """A function from an engine's error to one that names the unreadable file and the reason."""
    explain = FORMATS[kind].explain
    return lambda error: explain(_named_in(str(error), paths), error)


def _named_in(words: str, paths: Sequence[str]) -> str:
    return next((path for path in paths if path in words or Path(path).name in words), paths[0])
