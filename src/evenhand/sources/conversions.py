"""Files that are read by way of a copy in another format: JSON, spreadsheets, and what Zstandard packed.

To add one, put its ending and a function from a path to the path of a copy into `CONVERSIONS`.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import json
import os
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.folders import lasting
from evenhand.sources.inputs import record_copy

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
        record_copy(copy, path)
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
    """A sheet of a workbook, the first one that has rows unless it is named."""
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
                rows = rows or _rows(book[name])
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
        import zstandard as reader
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
