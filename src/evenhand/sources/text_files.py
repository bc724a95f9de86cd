"""Text as people write it: files with lines and quotes that DuckDB reads right, how they are separated, how numbers are written.

Encoding, delimiter, lines above the header, decimal and thousands separators that nobody names are found out from the first
bytes of a file, by rules that a reader can check by eye. A column of text is read as numbers in the one way that fits all its
values. Where two ways fit and differ (1.234), the rest of the file decides; where that does not tell either, the more common
way is taken and said.
"""

from __future__ import annotations

import codecs
import csv
import functools
import gzip
import io
import itertools
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from evenhand.errors import DataWarning, EvenhandError, listing, suggestion
from evenhand.sources.folders import lasting
from evenhand.sources.inputs import current, file_state
from evenhand.sources.sql import count_where, text

if TYPE_CHECKING:
    from evenhand.sources.relation import Relation

WRITTEN = {
    "truth": (r"^(true|false|True|False|TRUE|FALSE)$", nw.Boolean(), "CASE LOWER({0}) WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END"),
    "whole": (r"^[+-]?[0-9]{1,18}$", nw.Int64(), "CAST({0} AS BIGINT)"),
    "number": (r"^([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?|NaN|nan|[+-]?inf)$", nw.Float64(), "CAST({0} AS DOUBLE)"),
}  # fmt: skip
"""What text may be read as, the first that fits: how it is written, its type, its SQL."""

SAME = {"\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'", "\u2212": "-"}
"""Characters that stand for another one in numbers: spaces that do not break, typographic apostrophes and minus signs."""

NULL_WORDS = ("n/a", "#n/a", "na", "n.a.", "nan", "null", "none", "k.a.", "k. a.", "n.d.", "s.o.", "-", "--", "–", "—")
"""Words for a missing value, in small letters, where all other values of a column are numbers."""

EXAMPLES = 3
"""Values that a message quotes."""

LONGEST = 12
"""Characters of a value that a message quotes: enough for a placeholder, too few for somebody's data."""


@dataclass(frozen=True, slots=True)
class Numerals:
    """One way to write numbers: the decimal separator, and what stands between thousands, if anything."""

    decimal: str = "."
    thousands: str = ""

    @property
    def _grouped(self) -> str:
        return f"[1-9][0-9]{{0,2}}({re.escape(self.thousands)}[0-9]{{3}}){{1,5}}|" if self.thousands else ""

    @property
    def whole(self) -> str:
        return f"^[+-]?({self._grouped}[0-9]{{1,18}})$"

    @property
    def number(self) -> str:
        point = re.escape(self.decimal)
        return f"^[+-]?(({self._grouped}[0-9]+)({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]{{1,4}})?$"

    def sql(self, cleaned: str, kind: str) -> str:
        """The value of a cleaned text as a number of a type."""
        digits = f"REPLACE({cleaned}, {text(self.thousands)}, '')" if self.thousands else cleaned
        plain = digits if self.decimal == "." else f"REPLACE({digits}, {text(self.decimal)}, '.')"
        return f"CAST({plain} AS {kind})"

    def meaning(self, separator: str) -> str:
        """What a separator is in these numerals: decimal, thousands or nothing."""
        return "decimal" if separator == self.decimal else "thousands" if separator == self.thousands else ""


PLAIN = Numerals()
SEPARATORS = (".", ",", " ", "'")
WAYS = (
    PLAIN, Numerals(".", ","), Numerals(",", ""), Numerals(",", "."), Numerals(".", " "), Numerals(",", " "),
    Numerals(".", "'"), Numerals(",", "'"),
)  # fmt: skip
"""Ways to write numbers, the more common one first where a text can be read in two: 1.234 is a fraction, 1,234 is not."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How the numbers of a table are written.

    Attributes
    ----------
    decimal, thousands : separators that somebody named; None: they are found out.
    likely : the decimal separator that the rest of the file speaks for. is_sure : whether it does so beyond doubt.
    """

    decimal: str | None = None
    thousands: str | None = None
    likely: str = ""
    is_sure: bool = False

    @property
    def ways(self) -> tuple[Numerals, ...]:
        """The ways that are possible, the likely ones first."""
        possible = [
            way
            for way in WAYS
            if self.decimal in (None, way.decimal) and (self.thousands is None or way.thousands == self.thousands)
        ]
        return tuple(sorted(possible, key=lambda way: way.decimal != self.likely)) if self.likely else tuple(possible)


def clean(value: str) -> str:
    """A written value without surrounding spaces, each separator in its one form; empty if it is a word for nothing.

    >>> clean(" 1\u00a0234 "), clean("N/A")
    ('1 234', '')
    """
    for other, usual in SAME.items():
        value = value.replace(other, usual)
    value = value.strip(" ")
    return "" if value.lower() in NULL_WORDS else value


def likely_decimal(columns: Iterable[Sequence[str]]) -> str:
    """The decimal separator of the columns that can be read in one way only; nothing if they disagree or none speaks."""
    votes = set()
    for values in columns:
        written = [value for value in map(clean, values) if value]
        ways = [way for way in WAYS if all(re.match(way.number, value) for value in written)] if written else []
        for separator in ".,":
            if any(separator in value for value in written):
                decimals = {way.decimal for way in ways if way.meaning(separator)}
                votes |= decimals if len(decimals) == 1 else set()
    return votes.pop() if len(votes) == 1 else ""


def read_numbers(table: Relation, columns: Sequence[str]) -> Relation:
    """The table with those text columns as numbers that hold nothing else; what was found out is recorded."""
    aggregates = {}
    for i, name in enumerate(columns):
        column = f"CAST({table.expressions[name]} AS VARCHAR)"
        aggregates[f"known_{i}"] = f"COUNT({column})"
        for kind, (pattern, _, _) in WRITTEN.items() if table.is_text else ():
            aggregates[f"{kind}_{i}"] = count_where(f"regexp_matches({column}, '{pattern}')")
    facts = table.facts(aggregates)
    for i, name in enumerate(columns):
        count = int(facts[f"known_{i}"])
        fitting = [kind for kind in WRITTEN if int(facts.get(f"{kind}_{i}") or 0) == count]
        if not count:
            table = table.with_column(name, "CAST(NULL AS DOUBLE)", nw.Float64())
        elif fitting and not (fitting == ["number"] and _has_other_way(table, name)):
            _, number_type, expression = WRITTEN[fitting[0]]
            table = table.with_column(name, expression.format(table.expressions[name]), number_type)
        elif table.is_text:
            table = _read_written(table, name)
    return table


def _has_other_way(table: Relation, name: str) -> bool:
    """Whether dots of a column that reads as plain numbers may stand between thousands; answered by the first that may not."""
    others = [way for way in table.notation.ways if way.thousands == "."]
    if PLAIN not in table.notation.ways:
        return True
    column = table.expressions[name]
    fails = [f"NOT regexp_matches({column}, {text(way.number)})" for way in others]
    query = f"SELECT 1 AS n FROM {table.name} WHERE {' AND '.join(fails)} LIMIT 1"
    return bool(others) and not len(table.cells(query))


def _read_written(table: Relation, name: str) -> Relation:
    """The table with a column read in the way that fits all its values, if there is one."""
    cleaned, ways = cleaned_sql(table.expressions[name]), table.notation.ways
    aggregates = {"values": f"COUNT({cleaned})", "known": f"COUNT({table.expressions[name]})"}
    for i, way in enumerate(ways):
        aggregates[f"number_{i}"] = _count_matches(cleaned, way.number)
        aggregates[f"whole_{i}"] = _count_matches(cleaned, way.whole)
    aggregates |= {f"mark_{i}": count_where(_holds(cleaned, mark)) for i, mark in enumerate(SEPARATORS)}
    facts = {key: int(value or 0) for key, value in table.facts(aggregates).items()}
    count, marks = facts["values"], [mark for i, mark in enumerate(SEPARATORS) if facts[f"mark_{i}"]]
    fitting = [i for i in range(len(ways)) if facts[f"number_{i}"] == count > 0]
    if not fitting:
        return table
    way, is_whole = ways[fitting[0]], facts[f"whole_{fitting[0]}"] == count
    doubtful = [m for m in marks if len({ways[i].meaning(m) for i in fitting} - {""}) > 1]
    reading: dict[str, Any] = {mark: way.meaning(mark) for mark in marks}
    reading = {meaning: mark for mark, meaning in reading.items() if meaning}
    if facts["known"] > count:
        reading["null"] = examples(table, name, f"{cleaned} IS NULL")
    if doubtful and not table.notation.is_sure:
        reading["doubtful"] = next(iter(examples(table, name, _holds(cleaned, doubtful[0]))), f"1{doubtful[0]}234")
        reading["doubt"] = doubt(name, reading)
        warnings.warn(DataWarning(reading["doubt"]), stacklevel=2)
    if reading not in ({}, {"decimal": "."}):
        current().numerals[name] = reading
    kind, sql_type = (nw.Int64(), "BIGINT") if is_whole else (nw.Float64(), "DOUBLE")
    return table.with_column(name, way.sql(cleaned, sql_type), kind)


def doubt(name: str, reading: Mapping[str, Any]) -> str:
    """The sentence on a column that can be read in two ways.

    >>> doubt("Views", {"decimal": ".", "doubtful": "1.234"})
    "'Views' is written like 1.234 and could be read in two ways. It was read as 1.234. For 1234, pass thousands='.' ..."
    """
    value = reading["doubtful"]
    mark, digits = ("," if "," in value else "."), re.sub(r"[.,]", "", value)
    fraction = value.replace(",", ".")
    is_decimal = reading.get("decimal") == mark
    taken, other = (fraction, digits) if is_decimal else (digits, fraction)
    remedy = f"{'thousands' if is_decimal else 'decimal'}={mark!r}"
    return (
        f"{name!r} is written like {value} and could be read in two ways. It was read as {taken}. For {other}, pass {remedy} "
        "(eh.read.csv or --csv)."
    )


def not_numbers(table: Relation, name: str) -> str:
    """What a column of text holds that is no number, by example, and what to do about it."""
    column = table.expressions[name]
    cleaned = cleaned_sql(column)
    counts = {"rows": "COUNT(*)", "known": f"COUNT({column})", "written": f"COUNT({cleaned})"}
    ways = table.notation.ways
    counts |= {f"number_{i}": _count_matches(cleaned, way.number) for i, way in enumerate(ways)}
    facts = {key: int(value or 0) for key, value in table.facts(counts).items()}
    best = max(range(len(ways)), key=lambda i: facts[f"number_{i}"])
    numbers, odd = facts[f"number_{best}"], facts["written"] - facts[f"number_{best}"]
    if numbers <= facts["known"] / 2:  # a column of text, not one of numbers with a few words in it
        return "holds text, not numbers. Name a column of numbers, or convert the column first."
    words = examples(table, name, f"NOT regexp_matches({cleaned}, {text(ways[best].number)})")
    rows = f"in {odd:,} of {facts['rows']:,} rows"
    if not words or not table.is_text:
        shown = listing(map(repr, words)) or "text"
        return f"holds {shown} {rows}, which are not numbers. Convert the column first."
    fact = f"holds {listing(map(repr, words))} {rows}, which are not numbers."
    null = repr(words[0]) if len(words) == 1 else repr(words)
    return f"{fact} If they mean a missing value, read the file with eh.read.csv(path, null={null})."


def cleaned_sql(column: str) -> str:
    """SQL of `clean`, with NULL for a word for nothing."""
    value = f"CAST({column} AS VARCHAR)"
    for other, usual in SAME.items():
        value = f"REPLACE({value}, {text(other)}, {text(usual)})"
    value = f"TRIM({value})"
    words = ", ".join(map(text, ("", *NULL_WORDS)))
    return f"CASE WHEN LOWER({value}) IN ({words}) THEN NULL ELSE {value} END"


def examples(table: Relation, name: str, condition: str) -> list[str]:
    """The first few different short texts of a column under a condition, in alphabetical order."""
    column = f"CAST({table.expressions[name]} AS VARCHAR)"
    where = f"{column} IS NOT NULL AND LENGTH({column}) BETWEEN 1 AND {LONGEST} AND {condition}"
    query = f"SELECT DISTINCT {column} AS value FROM {table.name} WHERE {where} ORDER BY value LIMIT {EXAMPLES}"
    return list(map(str, table.cells(query).values("value")))


def _count_matches(column: str, pattern: str) -> str:
    return count_where(f"regexp_matches({column}, {text(pattern)})")


def _holds(column: str, mark: str) -> str:
    return f"STRPOS({column}, {text(mark)}) > 0"


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
    return _dialect(path, options, usual, file_state(path))


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
            has_number = any(re.match(way.number, clean(cell)) for cell in filled for way in WAYS)
            is_named = len(filled) >= len(record) - 1 and len(set(filled)) == len(filled) and not has_number
            return i if is_named and len(following) == len(record) else first
    return first


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
