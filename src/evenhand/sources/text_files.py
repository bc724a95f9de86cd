"""Text as people write it: files with lines and quotes that DuckDB reads right, how they are separated, how numbers are written.

Encoding, delimiter, lines above the header, decimal and thousands separators that nobody names are found out from the first
bytes of a file, by rules that a reader can check by eye. A column of text is read as numbers in the one way that fits all its
values. Where two ways fit and differ (1.234), the rest of the file decides; where that does not tell either, the more common
way is taken and said.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import functools
import glob
import gzip
import io
import itertools
import re
import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from evenhand.errors import DataWarning, EvenhandError, listing, suggestion
from evenhand.sources.engine import DuckDBEngine, reading
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

DOTTED = r"^[+-]?([1-9][0-9]{0,2}(\.[0-9]{3})+|[0-9]+)$"
"""Plain numbers that may have dots between thousands."""


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
        if table.is_text:
            aggregates |= {f"{kind}_{i}": _count_matches(column, pattern) for kind, (pattern, _, _) in WRITTEN.items()}
            aggregates[f"dotted_{i}"] = _count_matches(column, DOTTED)
    facts = table.facts(aggregates)
    for i, name in enumerate(columns):
        count = int(facts[f"known_{i}"])
        fitting = [kind for kind in WRITTEN if int(facts.get(f"{kind}_{i}") or 0) == count]
        is_plain = fitting != ["number"] or (PLAIN in table.notation.ways and int(facts[f"dotted_{i}"]) < count)
        if not count:
            table = table.with_column(name, "CAST(NULL AS DOUBLE)", nw.Float64())
        elif fitting and is_plain:
            _, number_type, expression = WRITTEN[fitting[0]]
            table = table.with_column(name, expression.format(table.expressions[name]), number_type)
        elif table.is_text:
            table = _read_written(table, name)
    return table


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
    reading: dict[str, Any] = {way.meaning(mark): mark for mark in marks if way.meaning(mark)}
    if facts["known"] > count:
        reading["null"] = examples(table, name, f"{cleaned} IS NULL")
    if doubtful and not table.notation.is_sure:
        mark, meaning = doubtful[0], way.meaning(doubtful[0])
        reading["doubtful"] = next(iter(examples(table, name, _holds(cleaned, mark))), f"1{mark}234")
        reading["doubt"] = (
            f"{name!r} is written like {reading['doubtful']} and could be read in two ways. {mark!r} was taken for the {meaning} "
            f"separator. If it is not, pass {'thousands' if meaning == 'decimal' else 'decimal'}={mark!r} (eh.read.csv or --csv)."
        )
        warnings.warn(DataWarning(reading["doubt"]), stacklevel=2)
    if reading not in ({}, {"decimal": "."}):
        current().numerals[name] = reading
    kind, sql_type = (nw.Int64(), "BIGINT") if is_whole else (nw.Float64(), "DOUBLE")
    return table.with_column(name, way.sql(cleaned, sql_type), kind)


def not_numbers(table: Relation, name: str) -> str:
    """What a column of text holds that is no number, by example, and what to do about it."""
    column, ways = table.expressions[name], table.notation.ways
    cleaned = cleaned_sql(column)
    counts = {"rows": "COUNT(*)", "known": f"COUNT({column})", "written": f"COUNT({cleaned})"}
    counts |= {f"number_{i}": _count_matches(cleaned, way.number) for i, way in enumerate(ways)}
    facts = {key: int(value or 0) for key, value in table.facts(counts).items()}
    best = max(range(len(ways)), key=lambda i: facts[f"number_{i}"])
    numbers = facts[f"number_{best}"]
    if numbers <= facts["known"] / 2:  # a column of text, not one of numbers with a few words in it
        return "holds text, not numbers. Name a column of numbers, or convert the column first."
    words = examples(table, name, f"NOT regexp_matches({cleaned}, {text(ways[best].number)})")
    shown, odd = listing(map(repr, words)) or "text", facts["written"] - numbers
    fact = f"holds {shown} in {odd:,} of {facts['rows']:,} rows, which are not numbers."
    if not words or not table.is_text:
        return f"{fact} Convert the column first."
    return f"{fact} If they mean a missing value, read the file with eh.read.csv(path, null={words!r})."


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


FIRST_BYTES = 1 << 20
"""How much of a file is looked at before an engine reads it."""

LONGEST_LINE = 16 << 20
"""Bytes that a line of text or a JSON object may have: a packed file of half a megabyte can hold a field of half a gigabyte."""

PACKED = ".gz"
"""What may stand after the ending of text."""


def opened_bytes(path: str) -> Any:
    """A file for reading, unpacked where its ending says that it is packed."""
    return gzip.open(path, "rb") if path.endswith(PACKED) else Path(path).open("rb")


def broken_text(path: str) -> EvenhandError:
    return EvenhandError(
        f"{path!r} has quotes or line ends that cannot be read, or a line of more than {LONGEST_LINE >> 20} MB. Put quotes around "
        "whole fields, write each quote inside one twice, and end all lines alike."
    )


def explain_text(path: str, error: BaseException) -> EvenhandError:
    """Why DuckDB cannot read separated text, without a word of what is in it."""
    reason = str(error).partition("Possible fixes")[0].partition("file =")[0].lower()
    if "expected number of columns" in reason or "too many columns" in reason:
        return EvenhandError(
            f"{path!r} has lines with more fields than its header, or fewer. Put quotes around fields that hold the separator, "
            "and leave missing ones empty between two separators."
        )
    if "unicode" in reason:
        return EvenhandError(
            f"{path!r} is not UTF-8 text all through. Save it as UTF-8, or say its encoding (eh.read.csv or --csv)."
        )
    return broken_text(path)


def has_quotes(path: str, delimiter: str) -> bool:
    """Whether a file has quotes; one is refused that neither begins nor ends a field, nor is written twice inside one.

    Around line ends in quotes DuckDB reads with one thread, and then drops what follows an open quote without a word.
    """
    edges = np.zeros(256, dtype=bool)
    edges[list(b'"\r\n' + delimiter.encode())] = True
    bytes_at_once, count, before = 1 << 23, 0, ord("\n")
    with opened_bytes(path) as handle:
        chunk = handle.read(bytes_at_once).removeprefix(codecs.BOM_UTF8)
        while chunk:
            following = handle.read(bytes_at_once)
            letters = np.frombuffer(chunk + (following[:1] or b"\n"), dtype=np.uint8)
            at = np.flatnonzero(letters[:-1] == ord('"'))
            outer = np.where(at > 0, letters[at - 1], before)  # beside a quote that opens a field
            is_opening = (np.arange(len(at)) + count) % 2 == 0
            if not edges[np.where(is_opening, outer, letters[at + 1])].all():
                raise broken_text(path)
            count, before, chunk = count + len(at), chunk[-1], following
    if count % 2:
        raise broken_text(path)
    return count > 0


NAMES = {
    "comma": ",", "dot": ".", "point": ".", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " ",
    "nbsp": " ", "apostrophe": "'", "none": "", **SAME,
}  # fmt: skip
"""Words for separators that are hard to type."""

RECORDS = 200
"""Records of a file that are looked at for the decimal separator."""

MOST_TITLES = 20
"""Lines above the header that may be titles."""


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
    file : itself, or its copy in UTF-8. names : its header. skipped : lines above it. encoding : as Python calls it.
    notation : how its numbers are written. null : words for a missing value, in every column.
    """

    file: str
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
            "encoding": None if _is_utf8(self.encoding) else self.encoding,
            "lines_skipped": self.skipped or None,
            "null": list(self.null) or None,
        }
        return {name: value for name, value in facts.items() if value is not None}


def dialect_of(path: str, options: CsvOptions, usual: str) -> Dialect:
    """The dialect of a file, looked at once."""
    return _dialect(path, options, usual, file_state(path))


@functools.lru_cache(maxsize=1024)
def _dialect(path: str, options: CsvOptions, usual: str, _state: tuple[int, int, int]) -> Dialect:
    """The dialect as DuckDB's sniffer has it, in UTF-8 and with its header in the first line below titles."""
    with opened_bytes(path) as handle:
        start = handle.read(FIRST_BYTES)
    encoding = options.encoding or encoding_of(path, start)
    file = path if _is_utf8(encoding) else _as_utf8(path, encoding)
    engine, named = DuckDBEngine(), f", delim = {text(options.delimiter)}" if options.delimiter else ""
    with reading(explain=lambda error: explain_text(path, error)):
        sniffed = engine.cells(
            "SELECT Delimiter AS delimiter, LEN(Columns) AS width "
            f"FROM sniff_csv({text(glob.escape(file))}, all_varchar = true, comment = '', {READING}{named})"
        ).row()
        delimiter = options.delimiter or (sniffed["delimiter"] if sniffed["width"] > 1 else usual)
        skipped = _titles(file, delimiter) if sniffed["width"] > 1 else 0
        read = read_csv([file], delimiter, skipped, [f"c{i}" for i in range(sniffed["width"])])
        header, *rows = engine.cells(f"SELECT * FROM {read} LIMIT {RECORDS + 1}").frame.rows() or [()]
    names = tuple((cell or "").strip() or cell or "" for cell in header)
    decimal = likely_decimal([[row[i] for row in rows if row[i]] for i in range(len(names))])
    likely = decimal or ("," if delimiter == ";" else "")  # the delimiter of those whose comma is taken
    notation = Notation(options.decimal, options.thousands, likely, bool(decimal))
    return Dialect(file, names, delimiter, encoding, skipped, notation, options.null, bool(rows))


READING = (
    f"quote = '\"', escape = '\"', strict_mode = true, max_line_size = {LONGEST_LINE}, buffer_size = {2 * LONGEST_LINE}"
)
"""How DuckDB reads any separated text."""


def read_csv(files: Sequence[str], delimiter: str, skipped: int, names: Sequence[str], more: str = "") -> str:
    """What stands after FROM for files with these columns, all of them text; the header is a row unless `more` says so."""
    kinds = ", ".join(f"{name}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({paths_literal(files)}, auto_detect = false, delim = {text(delimiter)}, {READING}, skip = {skipped}, "
        f"columns = {{{kinds}}}, nullstr = '', allow_quoted_nulls = false, hive_partitioning = false{more})"
    )


def paths_literal(paths: Sequence[str]) -> str:
    """Paths as a list in SQL; a bracket or a star in a name is not a pattern."""
    return f"[{', '.join(text(glob.escape(path)) for path in paths)}]"


def _titles(file: str, delimiter: str) -> int:
    """Lines above the header, which alone has something behind the first delimiter: titles, empty lines, Excel's `sep=;`."""
    with opened_bytes(file) as handle:
        start = handle.read(FIRST_BYTES).decode("utf-8-sig", errors="replace")
    records = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter)
    lines_above = 0
    with contextlib.suppress(csv.Error):  # a field over the limit of Python, which DuckDB reads
        for record in itertools.islice(records, MOST_TITLES):
            if any(cell.strip() for cell in record[1:]):
                return lines_above
            lines_above = records.line_num
    return 0


def encoding_of(path: str, start: bytes) -> str:
    """The encoding of text by its first bytes: by its mark, UTF-8 where that is possible, else that of Windows."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start:
        raise EvenhandError(
            f"{path!r} is not text. Give it the ending it should have, or say its encoding (eh.read.csv or --csv)."
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # a character cut at the end is fine
    except UnicodeDecodeError:
        return "windows-1252"
    return "utf-8"


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name.startswith("utf-8")


def _as_utf8(path: str, encoding: str) -> str:
    copy = lasting() / Path(path).name.removesuffix(PACKED)
    reader = io.TextIOWrapper(opened_bytes(path), encoding=encoding, newline="")
    try:
        with reader as handle, copy.open("w", encoding="utf-8", newline="") as written:
            shutil.copyfileobj(handle, written)
    except UnicodeError as error:
        raise EvenhandError(f"{path!r} is not {encoding} text. Say another encoding (eh.read.csv or --csv).") from error
    return str(copy)
