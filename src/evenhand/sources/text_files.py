"""Text files: unpacked, in UTF-8, with lines and quotes that DuckDB reads right; and how separated text is written.

Encoding, delimiter, lines above the header, decimal and thousands separators that nobody names are found out from the first
bytes of a file, by rules that a reader can check by eye.
"""

from __future__ import annotations

import codecs
import csv
import functools
import gzip
import io
import itertools
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.folders import lasting
from evenhand.sources.numerals import SAME, WAYS, Notation, clean, likely_decimal

FIRST_BYTES = 1 << 16
"""How much of a file is looked at before an engine reads it."""

LONGEST_LINE = 16 << 20
"""Bytes that a line of text or a JSON object may have: a packed file of half a megabyte can hold a field of half a gigabyte."""

PACKED = ".gz"
"""What may stand after the ending of text."""


def opened_bytes(path: str) -> Any:
    """A file for reading, unpacked where its ending says that it is packed."""
    return gzip.open(path, "rb") if path.endswith(PACKED) else Path(path).open("rb")


def stray_quote(path: str) -> EvenhandError:
    return EvenhandError(
        f"{path!r} has a quote that is never closed, or one inside a field. Put quotes around the whole field and "
        "write each quote inside it twice."
    )


UTF8 = ("ascii", "utf-8", "utf-8-sig")
"""Encodings that DuckDB reads; text is ASCII as far as somebody looked."""


def readable_text(path: str, delimiter: str, encoding: str, skipped: int) -> tuple[str, bool, str]:
    """A file that DuckDB reads right (itself, or a copy without the skipped lines), whether it has quotes, its encoding."""
    try:
        file = path if encoding in UTF8 else _as_utf8(path, encoding)
        return *check_text(file, delimiter, skipped), encoding
    except UnicodeDecodeError:
        if encoding != "ascii":
            raise
        encoding = "windows-1252"  # of letters that come late
        return *check_text(_as_utf8(path, encoding), delimiter, skipped), encoding


def _as_utf8(path: str, encoding: str) -> str:
    """The path of a copy in UTF-8."""
    copy = lasting() / Path(path).name.removesuffix(PACKED)
    reading = io.TextIOWrapper(opened_bytes(path), encoding=encoding, newline="")
    with reading as handle, copy.open("w", encoding="utf-8", newline="") as written:
        shutil.copyfileobj(handle, written)
    return str(copy)


def check_text(path: str, delimiter: str, skipped: int = 0) -> tuple[str, bool]:
    """A file in UTF-8 that DuckDB reads right (itself, or a tidied copy), and whether it has quotes.

    DuckDB drops what follows a quote that is never closed without a word, and refuses lines that end in several ways.
    """
    quotes, bytes_at_once, length = _QuoteCheck(delimiter), 1 << 23, 0
    ends = {b"\n": 0, b"\r": 0, b"\r\n": 0}
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened_bytes(path) as handle:
        chunk = handle.read(bytes_at_once).removeprefix(codecs.BOM_UTF8)
        is_late = chunk[:1] in (b"\n", b"\r")  # DuckDB takes the first line for the header, whatever is in it
        while chunk:
            following = handle.read(bytes_at_once)
            if not chunk.isascii() or decoder.getstate()[0]:
                decoder.decode(chunk, final=not following)
            outside = quotes.outside(chunk, following[:1] or b"\n")
            if outside is None:
                raise stray_quote(path)
            length = 0 if b"\n" in outside or b"\r" in outside else length + len(chunk)
            if length > LONGEST_LINE:
                raise EvenhandError(
                    f"{path!r} has a line of more than {LONGEST_LINE >> 20} MB. Shorten that field, or leave its column out."
                )
            for end in ends:
                ends[end] += (outside + following[:1]).count(end) if end == b"\r\n" else outside.count(end)
            chunk = following
    if quotes.is_open:
        raise stray_quote(path)
    has_both = 0 < ends[b"\r\n"] < ends[b"\n"] and ends[b"\r\n"] == ends[b"\r"]
    return _tidied(path, skipped) if has_both or is_late or skipped else path, quotes.has_quotes


def _tidied(path: str, skipped: int) -> str:
    """The path of a copy whose lines end alike, and that begins with its header, below the skipped lines."""
    copy = lasting() / Path(path).name.removesuffix(PACKED)
    with opened_bytes(path) as handle, copy.open("wb") as written:
        has_begun = is_quoted = False
        for line in itertools.islice(handle, skipped, None):
            has_begun = has_begun or bool(line.removeprefix(codecs.BOM_UTF8).strip(b"\r\n"))
            is_quoted ^= bool(line.count(b'"') % 2)
            if has_begun:
                written.write(line[:-2] + b"\n" if line.endswith(b"\r\n") and not is_quoted else line)
    return str(copy)


class _QuoteCheck:
    """Whether each quote of a text begins or ends a field, or is written twice inside one."""

    def __init__(self, delimiter: str) -> None:
        self.is_open = self.has_quotes = False
        self._edges = np.zeros(256, dtype=bool)
        self._edges[list(b'"\r\n' + delimiter.encode())] = True
        self._before = ord("\n")

    def outside(self, chunk: bytes, following: bytes) -> bytes | None:
        """The unquoted bytes of the next chunk; None where a quote is misplaced."""
        unquoted = b"" if self.is_open else chunk
        if b'"' in chunk:
            self.has_quotes = True
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


NAMES = {
    "comma": ",", "dot": ".", "point": ".", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " ",
    "nbsp": " ", "apostrophe": "'", "none": "", **SAME,
}  # fmt: skip
"""Words for separators that are hard to type."""

DELIMITERS = (",", ";", "\t", "|")
"""Delimiters that are found out; others must be given."""

RECORDS = 200
"""Records of a file that are looked at."""

MOST_TITLES = 20
"""Records above the header that may be titles."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    r"""How separated text is written, as far as somebody says so.

    >>> CsvOptions.parse("delimiter=;,decimal=comma,null=N/A|-")
    CsvOptions(delimiter=';', decimal=',', thousands=None, encoding=None, null=('N/A', '-'))
    >>> CsvOptions.from_words(delimiter="\t", thousands="dot").named()
    {'delimiter': 'tab', 'thousands': '.'}
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    null: tuple[str, ...] = ()

    @classmethod
    def from_words(
        cls,
        delimiter: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        encoding: str | None = None,
        null: str | Sequence[str] = (),
    ) -> CsvOptions:
        """Checked options; separators by sign or by name."""
        allowed = {
            "delimiter": (delimiter, "one character, such as ';' or 'tab'", re.compile(r"[^\w\"\r\n.]")),
            "decimal": (decimal, "'.' or ','", re.compile(r"[.,]")),
            "thousands": (thousands, "',', '.', a space, an apostrophe or 'none'", re.compile(r"[,. ']?")),
        }
        signs: dict[str, str | None] = {}
        for name, (word, expected, pattern) in allowed.items():
            signs[name] = NAMES.get(word.lower(), word) if isinstance(word, str) else None
            if word is not None and not (isinstance(word, str) and pattern.fullmatch(signs[name] or "")):
                raise EvenhandError(f"{name}={word!r} cannot be one. Pass {expected}.")
        possible = Notation(signs["decimal"], signs["thousands"]).ways
        if not possible:
            raise EvenhandError(
                f"decimal={decimal!r} and thousands={thousands!r} cannot be told apart. Pass two different separators."
            )
        if encoding is not None:
            try:
                codecs.lookup(encoding)
            except (LookupError, TypeError) as error:
                raise EvenhandError(
                    f"encoding={encoding!r} is not known. Pass one such as 'latin-1' or 'utf-16'."
                ) from error
        words = (null,) if isinstance(null, str) else tuple(null)
        if not all(isinstance(word, str) for word in words):
            raise EvenhandError(
                f"null={null!r} is not text. Pass the words for a missing value, such as null=['N/A', '-']."
            )
        return cls(signs["delimiter"], signs["decimal"], signs["thousands"], encoding, words)

    @classmethod
    def parse(cls, text: str) -> CsvOptions:
        """Options from `name=value,...`; words for a missing value stand between bars."""
        names = [field.name for field in fields(cls)]
        words: dict[str, Any] = {}
        for part in re.split(rf",(?=(?:{'|'.join(names)})=)", text) if text else []:
            name, equals, value = part.partition("=")
            if not equals or name.strip() not in names:
                raise EvenhandError(
                    f"--csv {text!r} has {part!r}, which is no option. {suggestion(name, names)}Write it like "
                    "delimiter=;,decimal=comma,thousands=dot,encoding=latin-1,null=N/A|-."
                )
            words[name.strip()] = value.split("|") if name.strip() == "null" else value
        return cls.from_words(**words)

    def named(self) -> dict[str, str]:
        """The options that were given, as text that `parse` takes again."""
        words = {"\t": "tab", " ": "space", "": "none"}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["null"] = "|".join(self.null) or None
        return {name: words.get(value, value) for name, value in values.items() if value is not None}


FOUND_OUT = CsvOptions()
"""Nothing is given."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file is written.

    Attributes
    ----------
    names : its header. skipped : lines above it. encoding : as Python calls it.
    notation : how its numbers are written. null : words for a missing value, in every column.
    """

    names: tuple[str, ...]
    delimiter: str
    encoding: str
    skipped: int
    notation: Notation
    null: tuple[str, ...]
    has_rows: bool

    def record(self, usual: str) -> dict[str, Any]:
        """What differs from plain text with the usual delimiter."""
        facts = {
            "delimiter": self.delimiter if self.delimiter != usual else None,
            "encoding": self.encoding if self.encoding not in UTF8 else None,
            "lines_skipped": self.skipped or None,
            "null": list(self.null) or None,
        }
        return {name: value for name, value in facts.items() if value is not None}


def dialect_of(path: str, options: CsvOptions, usual: str) -> Dialect:
    """The dialect of a file, looked at once."""
    stat = os.stat(path)  # noqa: PTH116  (what is cached depends on it)
    return _dialect(path, options, usual, (stat.st_size, stat.st_mtime_ns, stat.st_ino))


@functools.lru_cache(maxsize=1024)
def _dialect(path: str, options: CsvOptions, usual: str, _state: tuple[int, int, int]) -> Dialect:
    with opened_bytes(path) as handle:
        start = handle.read(FIRST_BYTES)
        if b"\n" not in start and b"\r" not in start:  # a header of thousands of columns
            start += handle.read(LONGEST_LINE)
    encoding = options.encoding or encoding_of(path, start)
    sample = _decoded(path, start, encoding)
    stated = re.match(r"sep=(.)\r?\n", sample)  # what Excel writes above the header
    body = sample[stated.end() :] if stated else sample
    delimiter = options.delimiter or (stated[1] if stated else _delimiter(body, usual))
    records = _records(body, delimiter)
    at = _header(records)
    names = _names(path, body, delimiter, records, at)
    rows = [record for _, record in records[at + 1 :]]
    columns = [[row[i] for row in rows if i < len(row)] for i in range(len(names))]
    decimal = likely_decimal(columns)
    likely = decimal or ("," if delimiter == ";" else "")  # the delimiter of those whose comma is taken
    notation = Notation(options.decimal, options.thousands, likely, bool(decimal))
    lines = (records[at - 1][0] if at else 0) + bool(stated)
    return Dialect(names, delimiter, encoding, lines, notation, options.null, bool(rows) or len(start) >= FIRST_BYTES)


def encoding_of(path: str, start: bytes) -> str:
    """The encoding of text by its first bytes: by its mark, UTF-8 where that is possible, else that of Windows or latin-1."""
    marks = {
        codecs.BOM_UTF8: "utf-8-sig",
        codecs.BOM_UTF32_LE: "utf-32",
        codecs.BOM_UTF16_LE: "utf-16",
        codecs.BOM_UTF16_BE: "utf-16",
    }
    for mark, encoding in marks.items():
        if start.startswith(mark):
            return encoding
    if b"\0" in start:  # half of the bytes of Western text in UTF-16
        zeros = [start[i::2].count(0) / max(1, len(start) // 2) for i in (0, 1)]
        if max(zeros) > 0.4 and min(zeros) < 0.1:
            return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # a character cut at the end is fine
    except UnicodeDecodeError:
        if any(byte < ord(" ") and byte not in b"\t\n\r\f" for byte in start):
            raise EvenhandError(f"{path!r} is not text. Give it the ending it should have.") from None
        return one_byte_encoding(start)
    return "ascii" if start.isascii() else "utf-8"


def one_byte_encoding(content: bytes) -> str:
    """Latin-1, or that of Windows where quotes and currencies of it occur."""
    windows = range(0x80, 0xA0)
    undefined = (0x81, 0x8D, 0x8F, 0x90, 0x9D)  # in the code page of Windows
    is_windows = any(byte in content for byte in windows) and not any(byte in content for byte in undefined)
    return "windows-1252" if is_windows else "latin-1"


def _decoded(path: str, start: bytes, encoding: str) -> str:
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeError as error:
        raise EvenhandError(f"{path!r} is not {encoding} text. Pass another encoding, or leave it out.") from error
    text = text.removeprefix("\ufeff")
    if len(start) >= FIRST_BYTES and (cut := max(text.rfind("\n"), text.rfind("\r"))) > 0:
        text = text[: cut + 1]  # the last line may be cut
    return text


def _records(sample: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """The first records, each with the number of the line that ends it."""
    reader, records = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter), []
    try:
        for record in reader:
            records.append((reader.line_num, record))
            if len(records) == RECORDS:
                break
    except csv.Error:
        pass  # a field over the limit of Python, which DuckDB reads
    return records


def _delimiter(sample: str, usual: str) -> str:
    """The delimiter that gives most records the same number of fields; of equals, the usual one."""

    def fitness(delimiter: str) -> tuple[float, int]:
        counts = Counter(len(record) for _, record in _records(sample, delimiter) if any(record))
        width, share = counts.most_common(1)[0] if counts else (1, 0)
        return (share / counts.total(), width) if width > 1 else (0, 0)

    return max((usual, *(d for d in DELIMITERS if d != usual)), key=fitness)


def _header(records: Sequence[tuple[int, list[str]]]) -> int:
    """Which record is the header: the first, or the first with names in all fields below titles of a single field."""
    first = next((i for i, (_, record) in enumerate(records) if any(record)), 0)
    for i in range(first, min(first + MOST_TITLES, len(records) - 1)):
        (_, record), (_, following) = records[i], records[i + 1]
        if len(filled := [cell for cell in record if cell.strip()]) > 1:
            is_named = len(filled) >= len(record) - 1 and len(set(filled)) == len(filled) and not _has_number(filled)
            return i if is_named and len(following) == len(record) else first
    return first


def _has_number(cells: Iterable[str]) -> bool:
    return any(re.match(way.number, clean(cell)) for cell in cells for way in WAYS)


def _names(path: str, body: str, delimiter: str, records: Sequence[tuple[int, list[str]]], at: int) -> tuple[str, ...]:
    """The names of the header, without surrounding spaces; one more without a name where all records end in a delimiter."""
    if not records:
        return ()
    lines = body.splitlines(keepends=True)[records[at - 1][0] if at else 0 : records[at][0]]
    try:
        header = next((names for names in csv.reader(lines, delimiter=delimiter, strict=True) if names), [])
    except csv.Error as error:
        raise stray_quote(path) from error
    rows = [record for _, record in records[at + 1 :] if record]
    is_open = bool(rows) and all(len(row) == len(header) + 1 and not row[-1].strip() for row in rows)
    return (*(name.strip() or name for name in header), *([""] if is_open and header else []))


def refuse_unreadable(path: str, dialect: Dialect, usual: str) -> None:
    """Refuse text that only DuckDB reads: in another encoding, or with another delimiter."""
    if facts := dialect.record(usual):
        raise EvenhandError(
            f"{path!r} is not plain separated text ({listing(facts)}), which Spark needs. Leave engine='spark' out, or write "
            "it again as Parquet."
        )
