"""Text files: a column is text until a role asks for numbers, so that 01, 1 and 001 stay three ids.

One reader for all: Polars reads the lines. DuckDB, where it is asked for, gets what was read as Parquet, so that no file is
read one way here and another way there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError
from evenhand.sources.files import literal
from evenhand.sources.folders import lasting
from evenhand.sources.formats import line_without_object, only_carriage_returns

FIRST_ROWS = 10_000
"""Lines of a file of JSON from which its columns are learnt; all of them where that is not enough."""

WHOLE = r"^[+-]?[0-9]{1,18}$"
NUMBER = r"^([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?|NaN|nan|[+-]?inf)$"
TRUTH = r"^(true|false|True|False|TRUE|FALSE)$"


def scan(paths: Sequence[str], kind: str) -> Any:
    """Lines of CSV, TSV or JSON as a lazy Polars table of text, every line looked at; those without anything are left out."""
    import polars as pl

    places = literal(paths)
    if kind == "jsonl":
        return _json(places)
    old = [place for path, place in zip(paths, places, strict=True) if only_carriage_returns(path)]
    separator = "," if kind == "csv" else "\t"
    parts = [
        pl.scan_csv(some, separator=separator, infer_schema=False, eol_char=end)
        for some, end in ((old, "\r"), ([p for p in places if p not in old], "\n"))
        if some
    ]
    scanned = pl.concat(parts) if len(parts) > 1 else parts[0]
    names = [name for name in scanned.collect_schema().names() if '""' in name]
    scanned = scanned.rename({name: name.replace('""', '"') for name in names})
    # Lines with more fields than the header, or with stray quotes, come to light only where all of every line is read.
    blank = scanned.select(pl.all_horizontal(pl.all().is_null()).sum().alias("blank")).collect(engine="streaming")
    return scanned.filter(~pl.all_horizontal(pl.all().is_null())) if blank.item() else scanned


def header(path: str, kind: str) -> list[str]:
    """The names of a file's columns, in their order."""
    import polars as pl

    separator, end = "," if kind == "csv" else "\t", "\r" if only_carriage_returns(path) else "\n"
    lines = pl.scan_csv(literal([path]), separator=separator, infer_schema=False, eol_char=end)
    return [name.replace('""', '"') for name in lines.collect_schema().names()]


def _json(places: list[str]) -> Any:
    """Objects, one per line: numbers and truth values as they are written, what is nested as it is."""
    import polars as pl

    def scanned(rows: int | None) -> Any:
        found = pl.scan_ndjson(places, infer_schema_length=rows).collect_schema()
        kinds = {name: dtype if dtype.is_nested() else pl.String for name, dtype in found.items()}
        table = pl.scan_ndjson(places, schema=kinds)
        table.select(pl.all().null_count()).collect(engine="streaming")
        return table

    try:
        return scanned(FIRST_ROWS)
    except pl.exceptions.ComputeError:
        return scanned(None)


def refused(path: str, kind: str, error: BaseException) -> EvenhandError:
    """Why a text file cannot be read, without a word of what is in it."""
    said = str(error)
    if kind == "jsonl" and (where := line_without_object([path])):
        return EvenhandError(where)
    if "more fields" in said:
        return EvenhandError(
            f"{path!r} has lines with more fields than its header. Put quotes around fields that hold the separator."
        )
    if "utf-8" in said.lower():
        return EvenhandError(f"{path!r} is not UTF-8 text. Save it as UTF-8, or give it the ending it should have.")
    if kind != "jsonl" and ("malformed" in said or "could not parse" in said):
        return EvenhandError(
            f"{path!r} has a quote that is never closed, or one inside a field. Put quotes around the whole field and "
            "write each quote inside it twice."
        )
    shown = {"csv": "comma-separated text", "tsv": "tab-separated text", "jsonl": "JSON lines"}[kind]
    return EvenhandError(f"{path!r} cannot be read as {shown}. Check that the file is whole, and write it again.")


def as_numbers(lazy: nw.LazyFrame[Any], columns: Sequence[str]) -> nw.LazyFrame[Any]:
    """Columns of text as numbers, or as truth values, where all that they hold is that; the others stay text."""
    from evenhand.views.tables import to_polars

    patterns = {"whole": WHOLE, "number": NUMBER, "truth": TRUTH}
    asked = [nw.col(c).count().cast(nw.Int64).alias(f"{i} held") for i, c in enumerate(columns)]
    asked += [
        nw.col(c).str.contains(pattern).cast(nw.Int64).sum().alias(f"{i} {name}")
        for i, c in enumerate(columns)
        for name, pattern in patterns.items()
    ]
    found = to_polars(lazy.select(*asked)).row(0, named=True)
    read = []
    for i, c in enumerate(columns):
        held = int(found[f"{i} held"])
        fits = [name for name in patterns if int(found[f"{i} {name}"] or 0) == held]
        if "truth" in fits and held:
            read.append(nw.col(c).is_in(["true", "True", "TRUE"]).alias(c))
        elif "whole" in fits and held:
            read.append(nw.col(c).cast(nw.Int64))
        elif "number" in fits:
            read.append(nw.col(c).cast(nw.Float64))
    return lazy.with_columns(*read) if read else lazy


WRITTEN = r"^(0|-?[1-9][0-9]{0,17})$"
"""Whole numbers as they are always written: text and number say the same, so that no two ids become one."""


def as_whole(lazy: nw.LazyFrame[Any], columns: Sequence[str]) -> nw.LazyFrame[Any]:
    """Columns of ids as whole numbers where every id is one and is written like one; the others stay text."""
    from evenhand.views.tables import to_polars

    strange = [(~nw.col(c).str.contains(WRITTEN)).cast(nw.Int64).sum().alias(str(i)) for i, c in enumerate(columns)]
    found = to_polars(lazy.select(*strange)).row(0)
    plain = [nw.col(c).cast(nw.Int64) for c, count in zip(columns, found, strict=True) if not int(count or 0)]
    return lazy.with_columns(*plain) if plain else lazy


def as_parquet(lines: Any) -> str:
    """The path of a Parquet file with what was read, where text waits for DuckDB to read it."""
    path = str(lasting() / "lines.parquet")
    lines.sink_parquet(path, compression="lz4")
    return path
