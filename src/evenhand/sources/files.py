"""The files that a path, a folder or a pattern means, checked before they are read.

JSON, spreadsheets and what Zstandard packed are read by way of a copy in another format. To add one, put its ending and a
function from a path to the path of a copy into `CONVERSIONS`.

Object stores and tables of the formats Delta and Iceberg are named by their paths and read by Polars. Who may read an object store
is told by the environment (`AWS_ACCESS_KEY_ID` and the like), never by the path: paths stand in plans, reports and messages.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from evenhand.errors import EvenhandError, listing, suggestion, without_keys
from evenhand.sources.folders import lasting
from evenhand.sources.formats import FORMATS, Format, known_endings
from evenhand.sources.inputs import URL, current, file_state, record_files, record_place, scheme
from evenhand.sources.text_files import FIRST_BYTES, FOUND_OUT, PACKED, CsvOptions, opened_bytes

SCHEMES = {"s3": "AWS", "s3a": "AWS", "gs": "GOOGLE", "gcs": "GOOGLE", "az": "AZURE", "abfs": "AZURE", "abfss": "AZURE"}
"""How paths in object stores begin, and how the variables begin that hold the credentials."""

TABLES = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""Table formats and the packages that read their logs."""

SPECIAL = (*TABLES, "parquet folder")
"""Kinds that an ending does not tell."""


def refuse_place(path: str, role: str) -> None:
    """Refuse a path of a store that is not read, or one that holds credentials."""
    match = URL.fullmatch(path)
    if match is None:
        return
    begin = scheme(path)
    if begin not in SCHEMES:
        raise EvenhandError(
            f"{role} begins with {begin + '://'!r}, which is not read. Pass a file, or a path that begins with "
            f"{listing([f'{name}://' for name in SCHEMES])}."
        )
    if ":" in match["rest"].partition("/")[0] or without_keys(path) != path:
        raise EvenhandError(
            f"{role} has a path with credentials or a query in it. Leave them out, and set {SCHEMES[begin]}_... variables in "
            "the environment instead."
        )


def refuse_unreachable(paths: Sequence[str]) -> None:
    """Refuse a store that does not answer within seconds; each bucket is asked once."""
    buckets = {match["rest"].partition("/")[0]: path for path in paths if (match := URL.fullmatch(path))}
    if buckets:  # it looks the region up, which is no business of the reader's
        warnings.filterwarnings("ignore", message=r"'\(default_\)region' not set")
    # who answers at all is then asked with the patience of Polars itself
    quick = {"max_retries": 1, "retry_timeout_ms": 3_000, "timeout": "5s", "connect_timeout": "3s"}
    for path in buckets.values():
        try:
            pl.scan_parquet(path, storage_options=quick).collect_schema()
        except (FileNotFoundError, pl.exceptions.PolarsError):  # the store is there, and no Parquet file
            continue
        except OSError as error:
            raise unreadable_place(path, error) from error


def special(path: str) -> str:
    """The kind of a table that is no file with a known ending: of `SPECIAL`, or nothing."""
    if path.endswith(".metadata.json"):
        return "iceberg"
    if scheme(path):
        if Path(path).suffix or any(c in path for c in "*?["):
            return ""
        try:
            pl.scan_ndjson(f"{path.rstrip('/')}/_delta_log/*.json", infer_schema_length=1).collect_schema()
        except (pl.exceptions.PolarsError, OSError):
            return "parquet folder"
        return "delta"
    if not os.path.isdir(path):
        return ""
    if os.path.isdir(os.path.join(path, ".hoodie")):  # noqa: PTH118
        raise EvenhandError(
            f"{path!r} is a Hudi table, which is not read. Read it with Spark and pass the Spark table."
        )
    if os.path.isdir(os.path.join(path, "_delta_log")):  # noqa: PTH118
        return "delta"
    return "iceberg" if list(Path(path).glob("metadata/*.metadata.json")) else ""


def scan_special(paths: Sequence[str], kind: str, role: str) -> tuple[pl.LazyFrame, str]:
    """A table that an ending does not tell as a lazy Polars table, and what it is called."""
    if kind == "parquet folder":
        return pl.scan_parquet([f"{path.rstrip('/')}/*.parquet" for path in paths]), listing(paths)
    if len(paths) > 1:
        raise EvenhandError(f"{role} has {len(paths)} {kind.capitalize()} tables. Pass one.")
    (path,) = paths
    if importlib.util.find_spec(TABLES[kind]) is None:
        raise EvenhandError(
            f"{path!r} is a table of the format {kind.capitalize()}, and {TABLES[kind]} is not installed. "
            f"Install it with: pip install 'evenhand[{kind}]'."
        )
    if kind == "iceberg":
        newest = _newest(path)
        os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else Polars warns that a plugin would be faster
        if not scheme(newest):
            return pl.scan_iceberg(Path(newest).resolve().as_uri()), f"{path} (Iceberg)"
        unread = {"AWS_ENDPOINT_URL": "s3.endpoint", "AWS_REGION": "s3.region"}  # PyIceberg does not look at these
        options = {name: os.environ[key] for key, name in unread.items() if os.environ.get(key)}
        return pl.scan_iceberg(newest, storage_options=options), f"{path} (Iceberg)"
    from deltalake import DeltaTable

    table = DeltaTable(path)
    return pl.scan_delta(table), f"{path} (Delta, version {table.version()})"


def _newest(path: str) -> str:
    """The file that says what an Iceberg table holds now."""
    if path.endswith(".metadata.json"):
        return path
    folder = Path(path) / "metadata"
    hint = folder / "version-hint.text"
    if hint.is_file() and (named := folder / f"v{hint.read_text(encoding='utf-8').strip()}.metadata.json").is_file():
        return str(named)
    numbered: dict[int, list[Path]] = {}
    for path_of_state in folder.glob("*.metadata.json"):
        version = re.match(r"v?(\d+)", path_of_state.name)
        numbered.setdefault(int(version[1]) if version else -1, []).append(path_of_state)
    newest = numbered[max(numbered)]
    if len(newest) > 1:
        raise EvenhandError(
            f"{path!r} has several newest states ({listing(sorted(p.name for p in newest))}). Pass the path of the "
            ".metadata.json file that your catalogue names."
        )
    return str(newest[0])


def unreadable_place(path: str, error: BaseException) -> EvenhandError:
    """The error for a place that cannot be read; a store's words may quote signatures."""
    begin = scheme(path)
    absent = ("expanded paths were empty", "NoSuchBucket", "NoSuchKey")  # in the words of Polars or of a store
    if isinstance(error, FileNotFoundError) or any(words in str(error) for words in absent):
        return EvenhandError(f"{path!r} is not there. Check bucket and path.")
    variables = f" and the {SCHEMES[begin]}_... variables of the environment" if begin in SCHEMES else ""
    return EvenhandError(f"{path!r} cannot be read ({type(error).__name__}). Check the path{variables}.")


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
    try:
        while convert := CONVERSIONS.get(Path(path).suffix.lower()):
            copy = convert(path, sheet_of(word)[1], file_state(path))
            current().copies[copy] = path
            path = copy
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or "it is not UTF-8"
        raise EvenhandError(f"{path!r} cannot be read ({reason}). Check the file and its permissions.") from error
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
    remote = [path for path in paths if scheme(path) or special(path)]
    local = dict.fromkeys(path for path in paths if path not in remote)
    record_files(role, {path: STANDARD_INPUT if names[path] == STANDARD_INPUT else path for path in local})
    for path in remote:
        record_place(role, path)
    paths = [converted(names[path], path) if path in local else path for path in paths]
    kind = common_kind(paths, role, unknown="" if csv is None else "csv")
    form = None if kind in SPECIAL else FORMATS[kind].with_options(csv or FOUND_OUT)
    filled = [path for path in paths if form is None or _has_rows(path, form)]
    if not filled and role in ("table", "rankings", "scores"):
        raise EvenhandError(
            f"{role}={listing(sorted(names))!r} has no rows, only a header. Check the path, or the filter before it."
        )
    return filled or paths, kind


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
