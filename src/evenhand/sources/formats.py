"""The register of file formats: their endings, and how columns and rows are read.

To add a format that Polars reads, put a `PolarsFormat` in `FORMATS`; for one that DuckDB reads, write a `Format` with its columns and rows.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from evenhand.errors import EvenhandError, listing
from evenhand.sources.engine import (
    Choice,
    Column,
    DuckDBEngine,
    StoredTable,
    as_stored,
    column_of,
    of_duckdb_type,
    polars_columns,
    polars_kinds,
    refuse_repeated,
    type_of,
    unreadable,
    usable_names,
)
from evenhand.sources.inputs import is_recording, record_dialect, record_rows, scheme
from evenhand.sources.sql import quoted, text
from evenhand.sources.text_files import (
    FOUND_OUT,
    LONGEST_LINE,
    CsvOptions,
    Dialect,
    Notation,
    dialect_of,
    explain_text,
    has_quotes,
    opened_bytes,
    paths_literal,
    read_csv,
)

FILE = "evenhand_file"
"""Column of a table of several text files: which of them a row comes from. It has two bytes, for rows may be many."""

MOST_FILES = 1 << 16
"""Files that such a column can tell apart."""


class Format:
    """How files of one kind are read.

    Attributes
    ----------
    name : what people call the format.
    endings : how names of such files end, the usual one first.
    mark : the bytes with which a whole file begins and ends; text has none.
    is_text : whether it is text: columns come as text, so that roles say which are numbers.
    is_uniform : whether all rows of a file have the same columns. Files with other columns are then read apart.
    """

    name: str
    endings: tuple[str, ...]
    mark = b""
    is_text = False
    is_uniform = True

    def columns(self, engine: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
        """All columns of some files, in their order."""
        raise NotImplementedError

    def rows(self, engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[Column]) -> str:
        """What stands after FROM for files with the same columns: all of these by position, and for text the file's number."""
        raise NotImplementedError

    def scan(self, paths: Sequence[str]) -> pl.LazyFrame:
        """The rows of files as a lazy Polars frame, which reads object stores too."""
        raise NotImplementedError

    def with_options(self, options: CsvOptions) -> Format:
        """The format as somebody says that its text is written; others than separated text have one way."""
        return self

    def variant(self, path: str) -> Any:
        """What files must share, beside their columns, to be read together."""
        return None

    def notation(self, paths: Sequence[str]) -> Notation:
        """How the numbers of text are written."""
        return Notation()

    def header(self, path: str) -> list[str]:
        return self.scan([path]).collect_schema().names()

    def has_rows(self, path: str, start: bytes) -> bool:
        """Whether a file holds more than a header, by its first bytes; cut files are refused."""
        if self.is_text:
            codecs.getincrementaldecoder("utf-8")().decode(start)  # a character cut at the end is fine
        if self.mark:
            with Path(path).open("rb") as handle:
                size = handle.seek(0, io.SEEK_END)
                handle.seek(max(0, size - len(self.mark)))
                is_whole = start.startswith(self.mark) and handle.read() == self.mark and size >= 12
            if not is_whole:
                raise EvenhandError(
                    f"{path!r} is not a whole {self.name} file. Write it again, or check that its copy finished."
                )
        return True

    def row_counts(self, engine: DuckDBEngine, table: str, paths: Sequence[str]) -> Sequence[int]:
        """Rows of each file; of text by the column `FILE` of the table that it was read into."""
        if len(paths) == 1:
            return [engine.cells(f"SELECT COUNT(*) AS n FROM {table}").row()["n"]]
        counted = engine.cells(f"SELECT {FILE} AS file, COUNT(*) AS n FROM {table} GROUP BY {FILE}")
        counts = dict(zip(counted.values("file"), counted.values("n"), strict=True))
        return [counts.get(i, 0) for i in range(len(paths))]

    def check(self, engine: DuckDBEngine, table: str, paths: Sequence[str]) -> None:
        """Refuse what the engine reads and should not, once it is a table."""

    def explain(self, path: str, error: BaseException) -> EvenhandError:
        """Why a file cannot be read, in words."""
        return unreadable(repr(path), error)


class Parquet(Format):
    name, endings, mark = "Parquet", (".parquet", ".pq"), b"PAR1"

    def scan(self, paths: Sequence[str]) -> pl.LazyFrame:
        return pl.scan_parquet(list(paths), glob=any(map(scheme, paths)))

    def columns(self, engine: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
        """Types as DuckDB reads them; categories, durations and zones from Arrow's schema."""
        types = engine.relation(f"SELECT * FROM {self.rows(engine, paths[:1], ())}").types
        kinds = polars_kinds(self.scan(paths[:1]).collect_schema())
        return [_parquet_column(name, kinds[name], t) for name, t in zip(kinds, types, strict=True)]

    def row_counts(self, engine: DuckDBEngine, table: str, paths: Sequence[str]) -> list[int]:
        """As the footers have it."""
        footers = engine.cells(f"SELECT file_name, num_rows FROM parquet_file_metadata({paths_literal(paths)})")
        counts = dict(zip(footers.values("file_name"), footers.values("num_rows"), strict=True))
        return [int(counts[path]) for path in paths]

    def rows(self, engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[Column]) -> str:
        return f"read_parquet({paths_literal(paths)})"


def _parquet_column(name: str, kind: Any, duckdb_type: Any) -> Column:
    if kind == nw.Unknown:
        return Column(name, kind, "CAST(NULL AS VARCHAR)")
    if kind == nw.Duration:  # DuckDB finds plain numbers
        return column_of(name, kind)
    column = of_duckdb_type(name, duckdb_type)
    is_finer = kind in (nw.Categorical, nw.Enum, nw.List) or (kind == nw.Datetime and column.kind == nw.Datetime)
    return replace(column, kind=kind) if is_finer else column


class PolarsFormat(Format):
    """A format that Polars reads, once: `read` makes a lazy frame of a path."""

    def __init__(
        self, name: str, endings: tuple[str, ...], read: Callable[[str], pl.LazyFrame], mark: bytes = b""
    ) -> None:
        self.name, self.endings, self.mark = name, endings, mark
        self._read = read

    def scan(self, paths: Sequence[str]) -> pl.LazyFrame:
        return pl.concat(list(map(self._read, paths)))

    def columns(self, engine: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
        schema = self._read(paths[0]).collect_schema()
        return polars_columns(schema, schema.names())[0]

    def row_counts(self, engine: DuckDBEngine, table: str, paths: Sequence[str]) -> list[int]:
        return [int(self._read(path).select(pl.len()).collect().item()) for path in paths]

    def rows(self, engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[Column]) -> str:
        chosen = [column.name for column in columns if column.is_stored]
        expressions = polars_columns(self._read(paths[0]).collect_schema(), chosen)[1]
        stored = engine.ingest(self.scan(paths).select(expressions or pl.repeat(0, pl.len()).alias("none")))
        inner = usable_names([column.name for column in columns])
        values = [quoted(name) if column.is_stored else "NULL" for column, name in zip(columns, inner, strict=True)]
        return f"(SELECT {', '.join(values)} FROM {stored})"


class Separated(Format):
    """Text whose fields are separated by a character; the first line names the columns."""

    is_text = True

    def __init__(self, name: str, ending: str, delimiter: str, options: CsvOptions = FOUND_OUT) -> None:
        self.name, self.endings, self.delimiter, self.options = name, (ending,), delimiter, options

    def with_options(self, options: CsvOptions) -> Separated:
        return Separated(self.name, self.endings[0], self.delimiter, options)

    def dialect(self, path: str) -> Dialect:
        return dialect_of(path, self.options, self.delimiter)

    def variant(self, path: str) -> Any:
        dialect = self.dialect(path)
        return dialect.delimiter, dialect.skipped, dialect.null

    def notation(self, paths: Sequence[str]) -> Notation:
        """How numbers are written, where all files agree."""
        notations = {self.dialect(path).notation for path in paths}
        first = next(iter(notations))
        return first if len(notations) == 1 else replace(first, likely="", is_sure=False)

    def columns(self, engine: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
        return [Column(name, nw.String()) for name in self.dialect(paths[0]).names]

    def rows(self, engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[Column]) -> str:
        dialects = [self.dialect(path) for path in paths]
        for path, dialect in zip(paths, dialects, strict=True):
            if facts := dialect.record(self.delimiter):
                record_dialect(path, facts)
        first, files = dialects[0], [dialect.file for dialect in dialects]
        are_quoted = [has_quotes(file, first.delimiter) for file in files]
        names = [f"c{i}" for i in range(len(columns))]
        more = f", header = true, parallel = {not any(are_quoted)}"  # threads would refuse some line ends in quotes
        read = read_csv(files, first.delimiter, first.skipped, names, more)
        filled = f"COALESCE({', '.join(names)}) IS NOT NULL"  # a line without anything is no row
        words = ", ".join(map(text, first.null))
        values = (
            [f"CASE WHEN TRIM({name}) IN ({words}) THEN NULL ELSE {name} END" for name in names] if words else ["*"]
        )
        return f"(SELECT {', '.join(values)}, file_index FROM {read} WHERE {filled})"

    def scan(self, paths: Sequence[str]) -> pl.LazyFrame:
        scanned = pl.scan_csv(list(paths), separator=self.options.delimiter or self.delimiter, infer_schema=False)
        names = scanned.collect_schema().names()
        refuse_repeated([name.partition("_duplicated_")[0] for name in names], repr(paths[0]))
        scanned = scanned.rename({name: name.replace('""', '"') for name in names if '""' in name})
        return scanned.filter(~pl.all_horizontal(pl.all().is_null()))

    def has_rows(self, path: str, start: bytes) -> bool:
        return self.dialect(path).has_rows

    def explain(self, path: str, error: BaseException) -> EvenhandError:
        return explain_text(path, error)


class JsonLines(Format):
    """One JSON object per line. Every line is looked at, for each may have keys of its own."""

    name, endings = "JSON lines", (".jsonl", ".ndjson")
    is_text, is_uniform = True, False

    def columns(self, engine: DuckDBEngine, paths: Sequence[str]) -> list[Column]:
        """The keys of all objects, in the order in which they come up."""
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
        columns = []
        for name, is_nested in zip(names, keys.values("is_nested"), strict=True):
            kind: Any = nw.String()
            sql = "{}"
            if is_nested:
                structure = f"json_group_structure(json_extract(json, {_pointer(name)}))"
                stated = engine.cells(f"SELECT {structure} AS types FROM {_json_objects(paths)}").row()["types"]
                types = text(
                    re.sub(r'"(JSON|NULL)"(?!:)', '"VARCHAR"', stated)
                )  # of lists that hold several, or nothing
                kind = type_of(engine.relation(f"SELECT json_transform('null', {types})").types[0])
                braced = types.replace("{", "{{").replace("}", "}}")
                sql = f"json_transform({{}}, {braced})" if kind == nw.List else "NULL"
            columns.append(Column(name, kind, sql))
        return columns

    def rows(self, engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[Column]) -> str:
        """Numbers and truth values as they are written."""
        pointers = ", ".join(_pointer(column.name) for column in columns)
        picked = ", ".join(f"picked[{i}] AS c{i}" for i in range(1, len(columns) + 1))
        values = f"SELECT json_extract_string(json, [{pointers}]) AS picked, file_index FROM {_json_objects(paths)}"
        if not columns:
            return f"(SELECT file_index FROM {_json_objects(paths)})"
        return f"(SELECT {picked}, file_index FROM ({values}) AS objects)"

    def scan(self, paths: Sequence[str]) -> pl.LazyFrame:
        schema = pl.scan_ndjson(list(paths), infer_schema_length=None).collect_schema()
        plain = {name: native if native.is_nested() else pl.String for name, native in schema.items()}
        return pl.scan_ndjson(list(paths), schema=plain)

    def has_rows(self, path: str, start: bytes) -> bool:
        if start.startswith(codecs.BOM_UTF8):
            raise EvenhandError(f"{path!r} begins with a byte order mark. Save it as UTF-8 without one.")
        return super().has_rows(path, start)

    def check(self, engine: DuckDBEngine, table: str, paths: Sequence[str]) -> None:
        """NaN and Infinity are no JSON, though DuckDB reads them."""
        names = [name for name, kind in engine.types(f"SELECT * FROM {table}").items() if kind == "VARCHAR"]
        odd = "'nan', '-nan', 'inf', '-inf', 'infinity', '-infinity'"
        is_odd = " OR ".join(f"LOWER({quoted(name)}) IN ({odd})" for name in names) or "FALSE"
        count = engine.cells(f"SELECT COUNT(*) AS odd FROM {table} WHERE {is_odd}").row()["odd"]
        if count and (where := line_without_object(paths)):
            raise EvenhandError(where)

    def explain(self, path: str, error: BaseException) -> EvenhandError:
        where = line_without_object([path])
        return EvenhandError(
            where or f"{path!r} cannot be read as JSON lines. Check that the file is whole, and write it again."
        )


def _json_objects(paths: Sequence[str]) -> str:
    options = f"format = 'newline_delimited', maximum_object_size = {LONGEST_LINE}"
    return f"read_json_objects({paths_literal(paths)}, {options})"


def _pointer(name: str) -> str:
    """A key as a JSON pointer, in which capitals count and no letter is special."""
    return text("/" + name.replace("~", "~0").replace("/", "~1"))


def line_without_object(paths: Sequence[str]) -> str:
    """The sentence that names the first line without a JSON object; else nothing."""

    def refuse(name: str) -> Any:
        raise ValueError(name)  # NaN and Infinity are no JSON

    for path in paths:
        with io.TextIOWrapper(opened_bytes(path), encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    is_object = not line.strip() or isinstance(json.loads(line, parse_constant=refuse), dict)
                except (ValueError, RecursionError):
                    is_object = False
                if not is_object:
                    return f"{path!r} has no JSON object in line {number:,}. Write one object per line, null where a value is missing."
    return ""


FORMATS: dict[str, Format] = {
    "parquet": Parquet(),
    "csv": Separated("comma-separated text", ".csv", ","),
    "tsv": Separated("tab-separated text", ".tsv", "\t"),
    "jsonl": JsonLines(),
    "arrow": PolarsFormat(
        "Arrow", (".arrow", ".feather", ".ipc"), lambda path: pl.scan_ipc(path, glob=bool(scheme(path))), b"ARROW1"
    ),
}
"""Formats by name."""


def known_endings() -> dict[str, str]:
    return {ending: name for name, form in FORMATS.items() for ending in form.endings}


@dataclass(frozen=True, slots=True)
class Lot:
    """Files with the same columns."""

    columns: Sequence[Column]
    paths: list[str]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def column(self, name: str) -> Column:
        return self.columns[self.names.index(name)]


def shared_names(lots: Sequence[Lot]) -> tuple[list[str], dict[str, str]]:
    """The columns that all files have, and those of some files, each with a file without it."""
    names = [name for name in lots[0].names if all(name in lot.names for lot in lots)]
    if not names and any(lot.names for lot in lots):
        odd = listing(sorted({name for lot in lots for name in lot.names}))
        raise EvenhandError(
            f"{lots[1].paths[0]!r} and {lots[0].paths[0]!r} share no column ({odd}). Pass files of one table."
        )
    others = dict.fromkeys(name for lot in lots for name in lot.names if name not in names)
    return names, {name: next(lot.paths[0] for lot in lots if name not in lot.names) for name in others}


def read_files(
    engine: DuckDBEngine, paths: Sequence[str], form: Format, role: str, choose: Choice
) -> tuple[StoredTable, dict[str, str]]:
    """Files as one table, and the columns of some files only, each with a file without it.

    Text is read once, into a temporary table; the others are read where they are.
    """
    by_columns: dict[str, Lot] = {}
    for files in [[path] for path in paths] if form.is_uniform else [paths]:
        columns = form.columns(engine, files)
        by_columns.setdefault(str((form.variant(files[0]), columns)), Lot(columns, [])).paths.extend(files)
    lots = list(by_columns.values())
    for lot in lots:
        refuse_repeated(lot.names, role)
    names, lacking = shared_names(lots)
    chosen = choose(names)
    merged = [_merged_column(name, lots) if name in chosen else replace(lots[0].column(name), sql="") for name in names]
    is_numbered = form.is_text and 1 < len(paths) <= MOST_FILES and is_recording()
    starts = [sum(len(lot.paths) for lot in lots[:i]) for i in range(len(lots))] if is_numbered else [None] * len(lots)
    numbered = zip(lots, starts, strict=True)
    rows = " UNION ALL ".join(_rows_of(engine, form, lot, merged, start) for lot, start in numbered)
    table = (engine.keep if form.is_text else engine.view)(rows)
    form.check(engine, table, paths)
    if is_recording() and (is_numbered or not form.is_text or len(paths) == 1):
        in_order = [path for lot in lots for path in lot.paths]
        for path, count in zip(in_order, form.row_counts(engine, table, in_order), strict=True):
            record_rows(path, count)
    return StoredTable(table, as_stored(merged)), lacking


def _merged_column(name: str, lots: Sequence[Lot]) -> Column:
    """A column of files that may have different types of numbers in it."""
    first = lots[0].column(name)
    kinds = [lot.column(name).kind for lot in lots]
    if all(str(kind) == str(first.kind) for kind in kinds) or all(kind == nw.Datetime for kind in kinds):
        return first
    if all(kind in (nw.String, nw.Categorical, nw.Enum) for kind in kinds):
        return Column(name, nw.String())
    if all(kind.is_integer() for kind in kinds):
        return Column(name, nw.Int64())
    if all(kind.is_numeric() for kind in kinds):
        return Column(name, nw.Float64())
    other = next(lot for lot in lots if str(lot.column(name).kind) != str(first.kind))
    raise EvenhandError(
        f"{other.paths[0]!r} cannot be read together with {lots[0].paths[0]!r}: {name!r} holds {other.column(name).kind} values in the one "
        f"and {first.kind} values in the other. Write both with the same type."
    )


def _rows_of(engine: DuckDBEngine, form: Format, lot: Lot, merged: Sequence[Column], start: int | None) -> str:
    """A query for the chosen columns of a lot, cast to the types that all lots share.

    Its files are numbered from `start`, unless that is None.
    """
    chosen = {column.name for column in merged if column.is_stored}
    columns = [column if column.name in chosen else replace(column, sql="") for column in lot.columns]
    positions = {name: f"c{i}" for i, name in enumerate(lot.names)}
    wide_types = {"Int64": "BIGINT", "Float64": "DOUBLE"}
    values = []
    for column, inner in zip(merged, usable_names([column.name for column in merged]), strict=True):
        if column.is_stored:
            in_lot = lot.column(column.name)
            value = in_lot.sql.format(positions[column.name])
            if in_lot.kind != column.kind and str(column.kind) in wide_types:
                value = f"CAST({value} AS {wide_types[str(column.kind)]})"
            values.append(f"{value} AS {quoted(inner)}")
    values = values or ["0 AS none"]
    if start is not None:
        values.append(f"CAST({start} + file_index AS USMALLINT) AS {FILE}")
    named = [*positions.values(), *(["file_index"] if form.is_text else [])]
    alias = f" AS evenhand_positions({', '.join(named)})" if named else ""
    return f"SELECT {', '.join(values)} FROM {form.rows(engine, lot.paths, columns)}{alias}"
