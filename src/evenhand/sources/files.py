"""The files that a path, a folder or a pattern means, checked before they are read.

JSON, spreadsheets and what Zstandard packed are read by way of a copy in another format. To add one, put its ending and a
function from a path to the path of a copy into `CONVERSIONS`.
"""

from __future__ import annotations

import codecs
import csv
import functools
import glob
import importlib.util
import json
import os
import re
import shutil
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.folders import lasting
from evenhand.sources.formats import FORMATS, Format, known_endings
from evenhand.sources.inputs import current, record_files, record_place
from evenhand.sources.stores import SPECIAL, refuse_place, refuse_unreachable, scheme, special
from evenhand.sources.text_files import FIRST_BYTES, FOUND_OUT, PACKED, CsvOptions, opened_bytes

WITHIN = "::"
"""What stands between a database file and the table in it, or a spreadsheet and its sheet."""


def sheet_of(word: str) -> tuple[str, str]:
    """The path and the sheet that a word such as `book.xlsx::Views` names; no sheet where it names none.

    >>> sheet_of("book.xlsx::Views"), sheet_of("log.csv")
    (('book.xlsx', 'Views'), ('log.csv', ''))
    """
    path, within, sheet = word.rpartition(WITHIN)
    is_sheet = bool(within) and Path(path).suffix.lower() in SPREADSHEETS and not os.path.exists(word)
    return (path, sheet) if is_sheet else (word, "")


def converted(word: str, path: str) -> str:
    """The path of what is read in place of a file; the file itself where it is read as it is."""
    while convert := CONVERSIONS.get(Path(path).suffix.lower()):
        stat = Path(path).stat()
        copy = convert(path, sheet_of(word)[1], (stat.st_size, stat.st_mtime_ns, stat.st_ino))
        current().copies[copy] = path
        path = copy
    return path


@functools.lru_cache(maxsize=64)
def json_lines(path: str, _sheet: str, _state: Any) -> str:
    """The objects of a JSON array, one per line."""
    content = Path(path).read_text(encoding="utf-8-sig")
    copy = lasting() / f"{Path(path).stem}.jsonl"
    try:
        rows = _objects(path, json.loads(content))
    except ValueError as error:
        if isinstance(error, EvenhandError):
            raise
        if not re.match(r"\s*\{.*\}\s*[\r\n]", content):
            raise EvenhandError(
                f"{path!r} is not JSON. Pass a JSON array of objects, or JSON lines (.jsonl)."
            ) from error
        copy.write_text(content, encoding="utf-8")  # JSON lines under the name of JSON
        return str(copy)
    copy.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(copy)


def _objects(path: str, content: Any) -> Sequence[Any]:
    """The array of objects of a JSON file: the whole, or the only one inside an object."""
    arrays = dict(_arrays(content))
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    if len(arrays) > 1:
        raise EvenhandError(
            f"{path!r} holds several arrays of objects: {listing(arrays)}. Write the one to be read to a file of its own."
        )
    raise EvenhandError(f"{path!r} is no array of objects. Pass [{{...}}, ...], or JSON lines (.jsonl).")


def _arrays(content: Any, name: str = "", depth: int = 3) -> Iterator[tuple[str, Sequence[Any]]]:
    """Arrays of objects inside objects, with the keys that lead to them; not those inside rows."""
    if isinstance(content, list) and all(isinstance(row, Mapping) for row in content) and (content or not name):
        yield name, content
    elif isinstance(content, Mapping) and depth:
        for key, value in content.items():
            yield from _arrays(value, f"{name}.{key}" if name else str(key), depth - 1)


@functools.lru_cache(maxsize=64)
def sheet_as_csv(path: str, sheet: str, _state: Any) -> str:
    """A sheet of a workbook, the first one that has rows below a header unless it is named."""
    if importlib.util.find_spec("openpyxl") is None:
        raise EvenhandError(
            f"{path!r} is a spreadsheet, and openpyxl is not installed. Install it with: pip install 'evenhand[excel]'."
        )
    import openpyxl

    copy = lasting() / f"{Path(path).stem}.csv"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and extensions of Excel
        try:
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        except (
            OSError,
            ValueError,
            KeyError,
            zipfile.BadZipFile,
            openpyxl.utils.exceptions.InvalidFileException,
        ) as error:
            raise EvenhandError(f"{path!r} is not a whole Excel file. Save it again as .xlsx.") from error
        try:
            if sheet and sheet not in book.sheetnames:
                raise EvenhandError(
                    f"{path!r} has no sheet {sheet!r}. {suggestion(sheet, book.sheetnames)}Sheets: {listing(book.sheetnames)}."
                )
            rows: list[list[str]] = []
            for name in [sheet] if sheet else book.sheetnames:
                rows = rows if len(rows) > 1 else _rows(book[name]) or rows
        finally:
            book.close()
    with copy.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows(rows)
    return str(copy)


def _rows(sheet: Any) -> list[list[str]]:
    """The cells of a sheet, without columns that are empty to the right; nothing where all are."""
    rows = [[_cell(value) for value in row] for row in sheet.iter_rows(values_only=True)]
    width = max((i + 1 for row in rows for i, cell in enumerate(row) if cell), default=0)
    return [[*row, *[""] * width][:width] for row in rows] if width else []


def _cell(value: Any) -> str:
    """A cell as plain text; a fraction of three digits gets a fourth, so that nobody takes it for thousands."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        written = repr(int(value)) if value.is_integer() else repr(value)
        return f"{written}0" if re.fullmatch(r"-?\d{1,3}\.\d{3}", written) else written
    if isinstance(value, datetime):
        return str(value.date() if value.time() == value.time().min else value)
    return str(value)


@functools.lru_cache(maxsize=64)
def unpacked(path: str, _sheet: str, _state: Any) -> str:
    """What Zstandard packed."""
    copy = lasting() / Path(path).stem
    try:
        from compression import zstd as reader  # Python 3.14
    except ImportError:
        from backports import zstd as reader
    with reader.open(path, "rb") as handle, copy.open("wb") as written:
        try:
            shutil.copyfileobj(handle, written)
        except (OSError, EOFError, reader.ZstdError) as error:
            raise EvenhandError(f"{path!r} is not a whole Zstandard file. Check that its copy finished.") from error
    return str(copy)


SPREADSHEETS = (".xlsx", ".xlsm")
CONVERSIONS: dict[str, Callable[[str, str, Any], str]] = {
    ".json": json_lines, **dict.fromkeys(SPREADSHEETS, sheet_as_csv), ".zst": unpacked,
}  # fmt: skip
"""How files of an ending are copied into a format of the register."""


STANDARD_INPUT = "-"
"""The path of what is piped in."""


def files_of(patterns: Sequence[str], role: str, csv: CsvOptions | None = None) -> tuple[list[str], str]:
    """The files that are meant and their kind; files with a header only are left out.

    `csv` says how separated text is written, and that files without a known ending are.
    """
    for pattern in patterns:
        refuse_place(pattern, role)
    refuse_unreachable(patterns)
    names = {path: pattern for pattern in patterns for path in _matches(pattern, role)}
    paths = sorted(names)
    _record(role, paths, piped={path for path, pattern in names.items() if pattern == STANDARD_INPUT})
    paths = [path if scheme(path) or special(path) else _converted(names[path], path) for path in paths]
    kind = common_kind(paths, role, unknown="" if csv is None else "csv")
    form = None if kind in SPECIAL else FORMATS[kind].with_options(csv or FOUND_OUT)
    filled = [path for path in paths if form is None or _has_rows(path, form)]
    if not filled and role in ("table", "rankings", "scores"):
        raise EvenhandError(
            f"{role}={listing(sorted(names))!r} has no rows, only a header. Check the path, or the filter before it."
        )
    return filled or paths, kind


def _record(role: str, paths: Sequence[str], piped: Collection[str]) -> None:
    """Record the files of a role as inputs; those of stores and table formats by name only."""
    is_elsewhere = {path: bool(scheme(path) or special(path)) for path in paths}
    record_files(role, {p: STANDARD_INPUT if p in piped else p for p in paths if not is_elsewhere[p]})
    for path in paths:
        if is_elsewhere[path]:
            record_place(role, path)


def _converted(word: str, path: str) -> str:
    try:
        return converted(word, path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or "it is not UTF-8"
        raise EvenhandError(f"{path!r} cannot be read ({reason}). Check the file and its permissions.") from error


def _matches(pattern: str, role: str) -> list[str]:
    if pattern == STANDARD_INPUT:
        return [_standard_input()]
    if not pattern.strip():
        raise EvenhandError(f"{role}={pattern!r} names no file. Pass the path of a Parquet, CSV or JSON lines file.")
    pattern = sheet_of(pattern)[0]
    if os.path.isfile(pattern) or scheme(pattern) or special(pattern):
        return [pattern]
    if os.path.isdir(pattern):
        paths = sorted(glob.glob(str(Path(glob.escape(pattern)) / "*")))
        inside = [p for p in paths if has_known_ending(p) and Path(p).is_file()]  # a pipe would be waited for
        if not inside:
            raise EvenhandError(
                f"{role}={pattern!r} is a folder without Parquet, CSV or JSON lines files. Name the files."
            )
        return inside
    paths = [p for p in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(p)]
    if not paths:
        is_broken_link = os.path.islink(pattern) and not os.path.exists(pattern)
        fact = "is a link to a file that is not there" if is_broken_link else "is not a file"
        fact = "matches no file" if any(c in pattern for c in "*?[") else fact
        raise EvenhandError(
            f"{role}={pattern!r} {fact}. {nearby(pattern)}Pass the path of a Parquet, CSV or JSON lines file."
        )
    return paths


def nearby(path: str | Path) -> str:
    """The name in the same folder that is most like this one, as a question, or nothing."""
    place = Path(path)
    try:
        names = os.listdir(place.parent)[:1000]
    except OSError:
        return ""
    # a file that differs in its date only is that of another day, not a misspelling
    date = re.compile(r"\d{4}(\D?\d\d){0,2}")
    return suggestion(place.name, [name for name in names if date.sub("0", name) != date.sub("0", place.name)])


def refuse_missing(path: str | Path, expected: str, role: str = "") -> None:
    """Refuse a path that is not a file, and suggest the most similar name in its folder."""
    if not os.path.isfile(path):
        shown = f"{role}={str(path)!r}" if role else repr(str(path))
        raise EvenhandError(f"{shown} is not a file. {nearby(path)}Pass the path of {expected}.")


def literal(paths: Iterable[str]) -> list[str]:
    """Paths in which a bracket or a star of a file's name is not read as a pattern.

    In an object store they are patterns, which the engine looks up there.
    """
    return [path if scheme(path) else glob.escape(path) for path in paths]


def database_of(word: str) -> tuple[str, str] | None:
    """The database file and the table that a path such as `file.duckdb::table` names.

    >>> database_of("warehouse.duckdb::sales.events"), database_of("warehouse.duckdb"), database_of("events.csv")
    (('warehouse.duckdb', 'sales.events'), ('warehouse.duckdb', ''), None)
    """
    path, _, name = word.partition(WITHIN) if not os.path.exists(word) else (word, "", "")
    return (path, name.strip()) if Path(path).suffix.lower() in (".duckdb", ".ddb") else None


def _kind(path: str, *, strict: bool = True) -> str:
    """The kind of a path: a format, by its ending, or one of `SPECIAL`; else nothing."""
    endings = known_endings()
    ending = Path(path.removesuffix(PACKED)).suffix.lower()
    kind = special(path) or endings.get(ending, "")
    if kind or not strict:
        return kind
    if ending in (".xls", ".ods", ".numbers"):
        raise EvenhandError(f"{path!r} is a spreadsheet of a kind that is not read. Save it as .xlsx or CSV.")
    readable = ", ".join([*endings, *CONVERSIONS])
    raise EvenhandError(
        f"{path!r} has an unknown file ending. Pass a file that ends in {readable} (text also with {PACKED})."
    )


def common_kind(paths: Sequence[str], role: str, *, unknown: str = "") -> str:
    """The kind of all files; `unknown` is that of files whose ending tells nothing, where they may be of any."""
    kinds = sorted({_kind(path, strict=not unknown) or unknown for path in paths})
    if len(kinds) > 1:
        raise EvenhandError(f"{role} mixes files of the kinds {listing(kinds)}. Pass files of one kind.")
    return kinds[0]


def may_be_file(text: str) -> bool:
    """Whether a word that may be a column or a file is the second."""
    return text == STANDARD_INPUT or os.path.exists(text) or Path(text).suffix != "" or any(c in text for c in "/*?[")


def has_known_ending(path: str) -> bool:
    """Whether a file's ending is that of a table, and no TREC file has it; what is piped in is a table."""
    is_converted = Path(sheet_of(path)[0]).suffix.lower() in CONVERSIONS
    is_known = is_converted or bool(_kind(path, strict=False)) or database_of(path) is not None
    return path == STANDARD_INPUT or (is_known and not (path.lower().endswith(".tsv") and trec_kind(path)))


def trec_kind(path: str) -> str:
    """Whether the first line is one of a TREC run or of judgments, which have no header; empty where it is neither."""
    try:
        with opened_bytes(path) as handle:
            fields = handle.readline().decode("utf-8", errors="replace").split()
    except OSError:
        return ""
    is_judged = len(fields) == 4 and fields[1] in ("0", "Q0") and bool(re.fullmatch(r"-?\d+", fields[3]))
    is_run = len(fields) >= 5 and fields[1] in ("0", "Q0") and fields[3].isdigit()
    return "judgments" if is_judged else "run" if is_run else ""


@functools.cache
def _standard_input() -> str:
    """The path of a temporary file with standard input; its first bytes tell its format."""
    if sys.stdin is None or sys.stdin.isatty():
        raise EvenhandError("Nothing was piped in for '-'. Pass the path of a file, or pipe one in.")
    start = sys.stdin.buffer.read(FIRST_BYTES)
    inside = zlib.decompressobj(wbits=31).decompress(start, FIRST_BYTES) if start[:2] == b"\x1f\x8b" else start
    header = inside.lstrip(codecs.BOM_UTF8).partition(b"\n")[0]
    text_ending = ".tsv" if b"\t" in header and b"," not in header else ".csv"
    text_ending = ".jsonl" if header.lstrip()[:1] == b"{" else text_ending
    marked = (form.endings[0] for form in FORMATS.values() if form.mark and inside.startswith(form.mark))
    ending = next(marked, text_ending)
    path = lasting() / f"standard input{ending}{'.gz' if inside is not start else ''}"
    with path.open("wb") as handle:
        handle.write(start)
        shutil.copyfileobj(sys.stdin.buffer, handle)
    return str(path)


def _has_rows(path: str, form: Format) -> bool:
    """Whether there is more than a header in a file, as far as can be seen from its beginning.

    Each file is opened once up front: the engines would say much later that it cannot be read, and in their own words.
    """
    if scheme(path):
        return True
    try:
        with opened_bytes(path) as handle:
            start = handle.read(FIRST_BYTES)
        if not start:
            raise EvenhandError(f"{path!r} is empty. Pass a file with a header and rows.")
        return form.has_rows(path, start)
    except (OSError, EOFError, zlib.error) as error:
        raise EvenhandError(f"{path!r} cannot be read ({error}). Check the file and its permissions.") from error
    except UnicodeDecodeError as error:
        raise EvenhandError(
            f"{path!r} is not UTF-8 text. Save it as UTF-8, or give it the ending it should have."
        ) from error
