"""Output files appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import io
import math
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, printable, refuse_keys

TABLES = {".csv": "write_csv", ".parquet": "write_parquet", ".jsonl": "write_ndjson"}
"""Endings of tables that can be written, and what Polars calls it."""


WRITTEN: list[str] = []
"""Files that this process wrote, for words on an interruption."""


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file so that no reader, and no interruption, ever sees half of it.

    The bytes go to a hidden neighbour, and a rename puts the whole file in place. A link stays one, and what it points at is
    replaced; a pipe or device is written to as it stands, since a rename would put an end to it.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if _takes_bytes(path):
            Path(path).write_bytes(data)
            return Path(path)
        target = Path(os.path.realpath(path))
        hidden = target.parent / f".{target.name[:60]}.{os.getpid()}-{secrets.token_hex(4)}.part"
        try:
            with hidden.open("wb") as handle:
                handle.write(data)
                handle.flush()
                with contextlib.suppress(OSError, AttributeError):  # no file there yet; a system without such modes
                    os.fchmod(handle.fileno(), stat.S_IMODE(target.stat().st_mode))
                os.fsync(handle.fileno())
            hidden.replace(target)
        finally:
            hidden.unlink(missing_ok=True)
        WRITTEN.append(str(path))
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    return Path(path)


def write_table(path: str | Path, frame: Any) -> Path:
    """Write a dataframe (pandas, Polars, PyArrow) as its ending says: .csv, .parquet or .jsonl; whole or not at all."""
    return write_whole(path, table_bytes(frame, Path(path).suffix.lower(), str(path)))


def table_bytes(frame: Any, ending: str, path: str = "") -> bytes:
    import polars as pl

    if ending not in TABLES:
        raise EvenhandError(f"{path!r} has an ending that is not known. End the file in {', '.join(TABLES)}.")
    table = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    out = io.BytesIO()
    getattr(table, TABLES[ending])(out)
    return out.getvalue()


SPREADSHEET = ".xlsx"
NO_TEXT = (
    ".xls",
    ".xlsm",
    ".ods",
    ".numbers",
    ".parquet",
    ".pq",
    ".arrow",
    ".feather",
    ".duckdb",
    ".gz",
    ".zst",
    ".zip",
    ".pdf",
    ".docx",
)
"""Endings of files that hold no text: an answer under such a name could not be opened."""


def refuse_ending(path: str) -> None:
    """Refuse an answer under a name that promises what it is not, before any work is done."""
    ending = Path(path).suffix.lower()
    if ending in NO_TEXT:
        raise EvenhandError(
            f"{path!r} has the ending of a file that is not written. End it in .xlsx for a spreadsheet, in .csv or .json for others."
        )
    if ending == SPREADSHEET and importlib.util.find_spec("openpyxl") is None:
        raise EvenhandError(
            f"{path!r} is a spreadsheet, and openpyxl is not installed. Install it with: pip install 'evenhand[excel]'."
        )


def workbook_bytes(sheets: Mapping[str, Mapping[str, Sequence[Any]]]) -> bytes:
    """Tables, by the names of their sheets, as an Excel workbook; what is undefined is an empty cell, and no text is a formula."""
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    book = openpyxl.Workbook(write_only=True)
    for name, columns in sheets.items():
        sheet = book.create_sheet(re.sub(r"[\\/*?:\[\]]", " ", name)[:31])  # what Excel allows
        for row in (columns, *zip(*columns.values(), strict=True)):
            cells = []
            for value in row:
                is_number = isinstance(value, (bool, int, float))
                is_absent = value is None or (isinstance(value, float) and not math.isfinite(value))
                cell = WriteOnlyCell(sheet, None if is_absent else value if is_number else printable(str(value)))
                if not is_number and not is_absent:
                    cell.data_type = "s"  # also where it begins like a formula
                cells.append(cell)
            sheet.append(cells)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _takes_bytes(path: str | Path) -> bool:
    """Whether the path leads to something that is there but is no file: a pipe, a terminal, a device."""
    try:
        return not stat.S_ISREG(Path(path).stat().st_mode)
    except FileNotFoundError:
        return False


def refuse_unwritable(paths: Iterable[str | Path], inputs: Iterable[str | Path] = ()) -> None:
    """Find a path that cannot be written, or must not be, before the first of several files is."""
    taken = {os.path.realpath(path) for path in inputs}
    for path in paths:
        if place := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", str(path)):
            raise EvenhandError(
                f"A path begins with {place[0]!r}, and answers are written on this machine. Write to a file here, and copy it."
            )
        refuse_keys("An output", str(path))
        if (whole := os.path.realpath(path)) in taken:
            raise EvenhandError(f"{str(path)!r} is read or written by this command already. Write to another file.")
        taken.add(whole)
        if fault := _fault(path, Path(whole).parent):
            raise _unwritable(path, os.strerror(fault))


def _fault(path: str | Path, folder: Path) -> int:
    """Why a path cannot be written, as the system numbers it; 0 where it can."""
    try:
        straight = _takes_bytes(path)
    except OSError as error:
        return error.errno or errno.EIO
    if not folder.is_dir():
        return errno.ENOENT
    if Path(path).is_dir():
        return errno.EISDIR
    return 0 if os.access(path if straight else folder, os.W_OK) else errno.EACCES


def _unwritable(path: str | Path, why: str) -> EvenhandError:
    return EvenhandError(
        f"{str(path)!r} cannot be written ({why}). Pass a path in a folder that exists and is writable."
    )
