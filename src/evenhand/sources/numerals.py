"""Numbers as people write them: decimal and thousands separators, and words for a missing value.

A column of text is read in the one way that fits all its values. Where two ways fit and differ (1.234), the rest of the file
decides; where that does not tell either, the more common way is taken and said.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw

from evenhand.errors import DataWarning, listing
from evenhand.sources.inputs import current
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
        """Pattern of whole numbers."""
        return f"^[+-]?({self._grouped}[0-9]{{1,18}})$"

    @property
    def number(self) -> str:
        """Pattern of numbers."""
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
    return (
        bool(others)
        and not table.cells(f"SELECT 1 AS n FROM {table.name} WHERE {' AND '.join(fails)} LIMIT 1").frame.height
    )


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
