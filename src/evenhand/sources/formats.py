"""Formats of files: each is one registered function from paths to a relation's name in the local engine.

To add a format, write a function that returns what `engine.view(sql)`, `engine.register(frame)` or `engine.ingest(lazy_frame)`
returned, and register it with its endings.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, listing
from evenhand.sources.engine import DuckDBEngine
from evenhand.sources.files import line_without_object, only_carriage_returns
from evenhand.sources.sql import columns as column_list
from evenhand.sources.sql import quoted, text

Reader = Callable[[DuckDBEngine, Sequence[str], "Sequence[str] | None"], str]
"""From an engine, the paths and the columns that are needed (None: all) to the name of a relation."""


@dataclass(frozen=True, slots=True)
class Format:
    """How files of one kind are read.

    Attributes
    ----------
    read : makes a relation of files that have the same columns.
    header : the names of a file's columns, in their order.
    is_text : whether columns come as text, so that roles say which are numbers.
    explain : why a file cannot be read, in words.
    """

    read: Reader
    header: Callable[[str], list[str]]
    is_text: bool = False
    explain: Callable[[str, BaseException], EvenhandError] | None = None


FORMATS: dict[str, Format] = {}
"""Formats by name; `files.ENDINGS` says which ending has which."""


def paths_literal(paths: Sequence[str]) -> str:
    """Paths as DuckDB must be given them: it would take a bracket or a star in a name for a pattern."""
    return "[" + ", ".join(text(_escaped(path)) for path in paths) + "]"


def _escaped(path: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def _read_parquet(engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[str] | None) -> str:
    chosen = "*" if columns is None else column_list(columns)
    return engine.view(f"SELECT {chosen} FROM read_parquet({paths_literal(paths)})")


def _parquet_header(path: str) -> list[str]:
    import polars as pl

    return list(pl.scan_parquet(path, glob=False).collect_schema().names())


def _read_separated(delimiter: str) -> Reader:
    def read(engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[str] | None) -> str:
        names = _separated_header(delimiter)(paths[0])
        inner = [f"c{i}" for i in range(len(names))]  # names may differ by case only
        kinds = ", ".join(f"{text(name)}: 'VARCHAR'" for name in inner)
        scans = []
        for some, end in _by_line_end(paths):
            options = f"delim = {text(delimiter)}, new_line = {text(end)}, columns = {{{kinds}}}"
            scans.append(
                f"SELECT * FROM read_csv({paths_literal(some)}, {options}, auto_detect = false, header = true, quote = '\"', "
                "escape = '\"', nullstr = '', allow_quoted_nulls = false, null_padding = true, strict_mode = true, "
                "max_line_size = 16777216)"
            )
        rows = " UNION ALL ".join(scans)
        renamed = ", ".join(
            f"{quoted(i)} AS {quoted(n)}" for i, n in zip(inner, names, strict=True) if _wanted(n, columns)
        )
        filled = f"COALESCE({column_list(inner)}) IS NOT NULL"  # a line without anything is no row
        return engine.view(f"SELECT {renamed or '*'} FROM ({rows}) AS lines WHERE {filled}")

    return read


def _wanted(name: str, columns: Sequence[str] | None) -> bool:
    return columns is None or name in columns


def _by_line_end(paths: Sequence[str]) -> list[tuple[list[str], str]]:
    """Files with the way in which their lines end."""
    old = [path for path in paths if only_carriage_returns(path)]
    lots = [(old, "\\r"), ([path for path in paths if path not in old], "\\n")]
    return [(lot, end) for lot, end in lots if lot]


def _separated_header(delimiter: str) -> Callable[[str], list[str]]:
    def header(path: str) -> list[str]:
        opener: Callable[..., Any] = gzip.open if path.endswith(".gz") else open
        with opener(path, "rb") as raw:
            lines = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")
            names = next(csv.reader(lines, delimiter=delimiter), [])
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise EvenhandError(
                f"{path!r} has several columns named {listing(twice)}. Give every column one name of its own."
            )
        return names

    return header


def _explain_separated(kind: str) -> Callable[[str, BaseException], EvenhandError]:
    def explain(path: str, error: BaseException) -> EvenhandError:
        words = str(error)
        if "Expected Number of Columns" in words or "More columns" in words.capitalize():
            return EvenhandError(
                f"{path!r} has lines with more fields than its header. Put quotes around fields that hold the separator."
            )
        if "utf-8" in words.lower() or "unicode" in words.lower():
            return EvenhandError(f"{path!r} is not UTF-8 text. Save it as UTF-8, or give it the ending it should have.")
        if "quote" in words.lower():
            return EvenhandError(
                f"{path!r} has a quote that is never closed, or one inside a field. Put quotes around the whole field and "
                "write each quote inside it twice."
            )
        return EvenhandError(f"{path!r} cannot be read as {kind}. Check that the file is whole, and write it again.")

    return explain


def _read_json_lines(engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[str] | None) -> str:
    """Objects, one per line: numbers and truth values as they are written, what is nested as it is."""
    scan = f"read_json({paths_literal(paths)}, format = 'newline_delimited', "
    types = engine.types(f"SELECT * FROM {scan} sample_size = -1, maximum_object_size = 67108864)")
    nested = ("STRUCT", "MAP", "JSON")
    kinds = {name: kind if kind.endswith("]") or kind.startswith(nested) else "VARCHAR" for name, kind in types.items()}
    listed = ", ".join(f"{text(name)}: {text(kind)}" for name, kind in kinds.items())
    chosen = "*" if columns is None else column_list(columns)
    return engine.view(f"SELECT {chosen} FROM {scan} columns = {{{listed}}}, maximum_object_size = 67108864)")


def _explain_json(path: str, error: BaseException) -> EvenhandError:
    if where := line_without_object([path]):
        return EvenhandError(where)
    return EvenhandError(f"{path!r} cannot be read as JSON lines. Check that the file is whole, and write it again.")


def _no_header(_: str) -> list[str]:
    return []


def _read_arrow(engine: DuckDBEngine, paths: Sequence[str], columns: Sequence[str] | None) -> str:
    import polars as pl

    return engine.ingest(pl.concat([pl.scan_ipc(path) for path in paths]), columns)


def _arrow_header(path: str) -> list[str]:
    import polars as pl

    return list(pl.scan_ipc(path).collect_schema().names())


FORMATS["parquet"] = Format(_read_parquet, _parquet_header)
FORMATS["csv"] = Format(_read_separated(","), _separated_header(","), True, _explain_separated("comma-separated text"))
FORMATS["tsv"] = Format(_read_separated("\t"), _separated_header("\t"), True, _explain_separated("tab-separated text"))
FORMATS["jsonl"] = Format(_read_json_lines, _no_header, True, _explain_json)
FORMATS["arrow"] = Format(_read_arrow, _arrow_header)


@dataclass(frozen=True, slots=True)
class SharedColumns:
    """Files in lots that have the same columns in the same order, and the columns that all of them have."""

    lots: Sequence[Sequence[str]]
    columns: Sequence[str] | None
    """None where there is one lot only."""
    lacking: Mapping[str, str]
    """Columns of some files only, each with a file that lacks it."""


def shared_columns(paths: Sequence[str], header: Callable[[str], list[str]]) -> SharedColumns:
    """Which columns all files have: a role that names another one is told where it is lacking."""
    lots: dict[tuple[str, ...], list[str]] = {}
    for path in paths if len(paths) > 1 else ():
        lots.setdefault(tuple(header(path)), []).append(path)
    if len(lots) <= 1:
        return SharedColumns([paths], None, {})
    columns = [name for name in next(iter(lots)) if all(name in names for names in lots)]
    if not columns:
        (first, *_), (other, *_) = list(lots.values())[:2]
        odd = listing(sorted({name for names in lots for name in names}))
        raise EvenhandError(f"{other!r} and {first!r} share no column ({odd}). Pass files of one table.")
    every = dict.fromkeys(name for names in lots for name in names if name not in columns)
    lacking = {name: next(some[0] for names, some in lots.items() if name not in names) for name in every}
    return SharedColumns(list(lots.values()), columns, lacking)


def read_files(
    engine: DuckDBEngine, paths: Sequence[str], kind: str, needed: Sequence[str] | None
) -> tuple[str, Mapping[str, str]]:
    """The name of a relation with the rows of all files, and which columns only some of them have."""
    form = FORMATS[kind]
    shared = shared_columns(paths, form.header)
    if shared.columns is None:
        names = form.header(paths[0]) if needed is not None else []
        return form.read(engine, paths, _chosen(names, needed) or None), shared.lacking
    chosen = _chosen(shared.columns, needed)
    parts = [form.read(engine, lot, chosen) for lot in shared.lots]
    rows = " UNION ALL ".join(f"SELECT {column_list(chosen)} FROM {part}" for part in parts)
    return engine.view(rows), shared.lacking


def _chosen(names: Sequence[str], needed: Sequence[str] | None) -> list[str]:
    """The columns to be read: all of them where one that is needed is not there, so that an error can list them."""
    if not needed or not set(needed) <= set(names):
        return list(names)
    return [name for name in names if name in needed]


def explain_files(paths: Sequence[str], kind: str) -> Callable[[BaseException], EvenhandError] | None:
    """What to say where files cannot be read: which of them it is, and why."""
    explain = FORMATS[kind].explain
    if explain is None:
        return None
    return lambda error: explain(_named_in(str(error), paths), error)


def _named_in(words: str, paths: Sequence[str]) -> str:
    return next((path for path in paths if path in words or Path(path).name in words), paths[0])
