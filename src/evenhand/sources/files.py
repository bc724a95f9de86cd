"""Files of tables: which ones a path, a folder or a pattern means, and whether each of them can be one."""

from __future__ import annotations

import codecs
import functools
import glob
import json
import os
import shutil
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.folders import lasting
from evenhand.sources.formats import (
    ENDINGS,
    FIRST_BYTES,
    FORMATS,
    PACKED,
    opened_bytes,
)
from evenhand.sources.stores import SPECIAL, knock, refuse_place, scheme, special

KINDS = ("trec-fair:", "tally:")
"""What may stand before a path and says what the file is."""


def split_kind(word: str) -> tuple[str, str]:
    """The prefix of a path (`kind:path`), if any, and the path.

    >>> split_kind("tally:rows.csv"), split_kind("log.csv")
    (('tally:', 'rows.csv'), ('', 'log.csv'))
    """
    kind = next((kind for kind in KINDS if word.startswith(kind)), "")
    return kind, word.removeprefix(kind)


STANDARD_INPUT = "-"
"""The path of what is piped in."""


def files_of(patterns: Sequence[str], role: str) -> tuple[list[str], str]:
    """The files that are meant and their kind, each looked into at its beginning; headers alone are left out."""
    for pattern in patterns:
        refuse_place(pattern, role)
    knock(patterns)
    paths = sorted({path for pattern in patterns for path in _matches(pattern, role)})
    paths = [
        _as_json_lines(path, role) if path.lower().endswith(".json") and not special(path) else path for path in paths
    ]
    kind = _one_kind([_kind(path) for path in paths], role)
    filled = [path for path in paths if _look_inside(path, kind)]
    if not filled and role in ("table", "rankings", "scores"):
        raise EvenhandError(
            f"{role}={listing(paths)!r} has no rows, only a header. Check the path, or the filter before it."
        )
    return filled or paths, kind


@functools.cache
def _as_json_lines(path: str, role: str) -> str:
    """The path of a file with the objects of a JSON array, one per line; it is gone when Python ends."""
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise EvenhandError(f"{role}={path!r} cannot be read ({error.strerror}). Pass the path of a file.") from error
    except ValueError as error:
        raise EvenhandError(
            f"{role}={path!r} is not JSON. Pass a JSON array of objects, or JSON lines (.jsonl)."
        ) from error
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise EvenhandError(f"{role}={path!r} is no array of objects. Pass [{{...}}, ...], or JSON lines (.jsonl).")
    copy = lasting() / f"{Path(path).stem}.jsonl"
    copy.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(copy)


def _matches(pattern: str, role: str) -> list[str]:
    if pattern == STANDARD_INPUT:
        return [_standard_input()]
    if not pattern.strip():
        raise EvenhandError(f"{role}={pattern!r} names no file. Pass the path of a Parquet, CSV or JSON lines file.")
    if os.path.isfile(pattern) or scheme(pattern) or special(pattern):
        return [pattern]
    if os.path.isdir(pattern):
        paths = sorted(glob.glob(str(Path(glob.escape(pattern)) / "*")))
        inside = [p for p in paths if _kind(p, strict=False) and Path(p).is_file()]  # a pipe would be waited for
        if not inside:
            raise EvenhandError(
                f"{role}={pattern!r} is a folder without Parquet, CSV or JSON lines files. Name the files."
            )
        return inside
    paths = [p for p in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(p)]
    if not paths:
        wild = any(c in pattern for c in "*?[")
        lost = (
            "is a link to a file that is not there"
            if os.path.islink(pattern) and not os.path.exists(pattern)
            else "is not a file"
        )
        fact = "matches no file" if wild else lost
        remedy = f"{nearby(pattern)}Pass the path of a Parquet, CSV or JSON lines file."
        raise EvenhandError(f"{role}={pattern!r} {fact}. {remedy}")
    return paths


def nearby(path: str | Path) -> str:
    """The name in the same folder that is most like this one, as a question, or nothing."""
    place = Path(path)
    try:
        names = os.listdir(place.parent)[:1000]
    except OSError:
        return ""
    return suggestion(place.name, [name for name in names if name != place.name])


def literal(paths: Iterable[str]) -> list[str]:
    """Paths as engines must be told them: they would take a bracket or a star in a name for a pattern.

    In an object store they are patterns, which the engine looks up there.
    """
    return [path if scheme(path) else glob.escape(path) for path in paths]


WITHIN = "::"
"""What stands between a database file and the table in it."""

_DATABASES = (".duckdb", ".ddb")


def database_of(word: str) -> tuple[str, str] | None:
    """The file and the table of a word that names a table in a database file; nothing for other words.

    >>> database_of("warehouse.duckdb::sales.events"), database_of("warehouse.duckdb"), database_of("events.csv")
    (('warehouse.duckdb', 'sales.events'), ('warehouse.duckdb', ''), None)
    """
    path, _, name = word.partition(WITHIN) if not os.path.exists(word) else (word, "", "")
    return (path, name.strip()) if Path(path).suffix.lower() in _DATABASES else None


_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")


def _kind(path: str, *, strict: bool = True) -> str:
    if special_kind := special(path):
        return special_kind
    suffixes = Path(path).suffixes
    if suffixes and suffixes[-1] == PACKED:
        suffixes = suffixes[:-1]
    kind = ENDINGS.get(suffixes[-1].lower(), "") if suffixes else ""
    if not kind and strict and suffixes and suffixes[-1].lower() in _SHEETS:
        raise EvenhandError(
            f"{path!r} has an ending that is not known: a spreadsheet's. Save the sheet as CSV and pass that file."
        )
    if not kind and strict:
        raise EvenhandError(
            f"{path!r} has an ending that is not known. Pass .parquet, .csv, .tsv or .jsonl (also .gz)."
        )
    return kind


def kind_of_remote(paths: Sequence[str], role: str) -> str:
    """The kind of files that only a cluster can reach, by their endings; of others, Parquet."""
    return _one_kind([_kind(path, strict=False) or "parquet" for path in paths], role)


def _one_kind(kinds: Sequence[str], role: str) -> str:
    if len(set(kinds)) > 1:
        raise EvenhandError(f"{role} mixes files of the kinds {listing(sorted({*kinds}))}. Pass files of one kind.")
    return kinds[0]


def may_be_file(text: str) -> bool:
    """Whether a word that may be a column or a file is the second."""
    return text == STANDARD_INPUT or os.path.exists(text) or Path(text).suffix != "" or any(c in text for c in "/*?[")


def has_known_ending(path: str) -> bool:
    """Whether a file's ending is that of a table; what is piped in is one."""
    return path == STANDARD_INPUT or bool(_kind(path, strict=False)) or database_of(path) is not None


@functools.cache
def _standard_input() -> str:
    """The path of a file with what was piped in, which can be read once only; its kind is told from its first bytes."""
    if sys.stdin is None or sys.stdin.isatty():
        raise EvenhandError("Nothing is piped into '-'. Pass the path of a file, or pipe one in.")
    start = sys.stdin.buffer.read(FIRST_BYTES)
    inside = zlib.decompressobj(wbits=31).decompress(start, FIRST_BYTES) if start[:2] == b"\x1f\x8b" else start
    header = inside.lstrip(codecs.BOM_UTF8).partition(b"\n")[0]
    ending = ".parquet" if inside[:4] == b"PAR1" else ".jsonl" if header.lstrip()[:1] == b"{" else ".csv"
    ending = ".tsv" if ending == ".csv" and b"\t" in header and b"," not in header else ending
    path = lasting() / f"standard input{ending}{'.gz' if inside is not start else ''}"
    with path.open("wb") as handle:
        handle.write(start)
        shutil.copyfileobj(sys.stdin.buffer, handle)
    return str(path)


MARKS = {"parquet": (b"PAR1", "Parquet"), "arrow": (b"ARROW1", "Arrow")}
"""How files that are no text begin and end."""


def _look_inside(path: str, kind: str) -> bool:
    """Open each file once up front: the engines would say it only much later, and in their own words.

    Returns whether there is more than a header in it, as far as can be seen from its beginning.
    """
    if scheme(path) or kind in SPECIAL:
        return True
    try:
        with opened_bytes(path) as handle:
            start = handle.read(FIRST_BYTES)
        if kind in MARKS:
            with Path(path).open("rb") as handle:
                mark, name = MARKS[kind]
                handle.seek(0, 2)
                size = handle.tell()
                handle.seek(max(0, size - len(mark)))
                whole = start[: len(mark)] == mark and handle.read(len(mark)) == mark and size >= 12
            if not whole:
                raise EvenhandError(
                    f"{path!r} is not a whole {name} file. Write it again, or check that its copy finished."
                )
        elif FORMATS[kind].is_text:
            codecs.getincrementaldecoder("utf-8")().decode(start)  # a character cut at the end is fine
    except (OSError, EOFError, zlib.error) as error:
        raise EvenhandError(f"{path!r} cannot be read ({error}). Check the file and its permissions.") from error
    except UnicodeDecodeError as error:
        raise EvenhandError(
            f"{path!r} is not UTF-8 text. Save it as UTF-8, or give it the ending it should have."
        ) from error
    if not start:
        raise EvenhandError(f"{path!r} is empty. Pass a file with a header and rows.")
    if kind == "jsonl" and start.startswith(codecs.BOM_UTF8):
        raise EvenhandError(f"{path!r} begins with a byte order mark. Save it as UTF-8 without one.")
    if kind not in ("csv", "tsv"):
        return True
    header, _, rest = start.partition(b"\n")
    other = next((mark for mark in (b";", b"\t", b"|") if mark in header), None)
    if kind == "csv" and other and b"," not in header:
        shown = {b"\t": "tabs"}.get(other, f"{other.decode()!r}")
        raise EvenhandError(
            f"{path!r} separates its columns by {shown}, not by commas. Save it with commas, or with tabs and the ending .tsv."
        )
    old_mac = b"\r" in header.rstrip(b"\r")  # its lines end in no more than that
    return len(start) == FIRST_BYTES or old_mac or bool(rest.strip())
