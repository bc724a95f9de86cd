"""A table that queries can name, the roles that its columns play, and the slices that are made from them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw

from evenhand.cards import is_whole, parse_call
from evenhand.errors import EvenhandError, listing, suggestion, unknown_name
from evenhand.sources.engine import PLAIN, Cells, Engine
from evenhand.sources.engine import Type as Type
from evenhand.sources.inputs import record_facts
from evenhand.sources.sql import columns, nan_as_null, quoted, select
from evenhand.sources.text_files import Notation, not_numbers, read_numbers

INTEGERS, TEXT = nw.Int64(), nw.String()
"""Types of columns that are made here."""

WRITTEN_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
"""Whole numbers as they are always written: text and number say the same, so that no two ids become one."""


@dataclass(frozen=True)
class Relation:
    """A table by its name in an engine, whatever the caller passed.

    Attributes
    ----------
    engine : where its queries run.
    name : what stands after FROM.
    schema : all columns by the names that their owner gave them, with their types.
    expressions : SQL of each column that was fetched.
    backend : the dataframe library in which results are handed out.
    origin : a few words on where it came from.
    is_text : whether every column came as text, so that a role must say which are numbers.
    lacking : columns of some files only, each with a file that lacks it.
    native : columns whose type is not read, each with what its owner calls it.
    notation : how the numbers of text are written.
    """

    engine: Engine
    name: str
    schema: Mapping[str, Type]
    expressions: Mapping[str, str]
    backend: str
    origin: str
    is_text: bool = False
    lacking: Mapping[str, str] = field(default_factory=dict)
    native: Mapping[str, str] = field(default_factory=dict)
    notation: Notation = field(default_factory=Notation)

    @property
    def names(self) -> list[str]:
        """The columns of the owner's table, for words about what is there."""
        return list(self.schema)

    def column(self, name: str) -> str:
        """SQL of a column as its owner has it."""
        return self.expressions[name]

    def label(self, name: str) -> str:
        """SQL of a column of labels: categories and ids of databases as text, NaN as NULL."""
        self._refuse_unread(name)
        kind, column = self.schema[name], self.expressions[name]
        if kind in (nw.Categorical, nw.Enum, nw.Unknown):
            return f"CAST({column} AS VARCHAR)"
        return nan_as_null(column) if kind.is_float() else column

    def number(self, name: str, kind: str = "DOUBLE") -> str:
        """SQL of a column of numbers to be added up; booleans are 1 and 0, NaN is NULL."""
        self._refuse_unread(name)
        column = self.expressions[name]
        if self.schema[name] == nw.Boolean:
            column = f"CASE WHEN {column} THEN 1 WHEN NOT {column} THEN 0 END"
        number = f"CAST({column} AS {kind})"
        return nan_as_null(number) if self.schema[name].is_float() else number

    def _refuse_unread(self, name: str) -> None:
        if name in self.native:
            raise EvenhandError(f"{name!r} holds {self.native[name]} values. Pass a column of plain labels or numbers.")

    def label_type(self, name: str) -> Type:
        """The type of a column once `label` has read it."""
        kind = self.schema[name]
        return nw.String() if kind in (nw.Categorical, nw.Enum, nw.Unknown) else kind

    def with_column(self, name: str, expression: str, kind: Type) -> Relation:
        """The table with a column replaced or added: SQL over its columns, and its type."""
        return replace(self, expressions={**self.expressions, name: expression}, schema={**self.schema, name: kind})

    def select(self, expressions: Mapping[str, str]) -> str:
        """A query for some expressions of its columns, by the names that they get."""
        return f"SELECT {select(expressions)} FROM {self.name}"

    def facts(self, aggregates: Mapping[str, str]) -> dict[str, Any]:
        """Values of some aggregates over all rows, by one query."""
        return self.engine.cells(self.select(aggregates)).row() if aggregates else {}

    def cells(self, query: str) -> Cells:
        return self.engine.cells(query)

    def with_numbers(self, *columns: Any) -> Relation:
        """The table with text columns that hold only numbers (or nothing) read as numbers."""
        named = dict.fromkeys(c for c in columns if isinstance(c, str))
        words = [c for c in named if self.schema.get(c) in (nw.String, nw.Unknown) and c not in self.native]
        return read_numbers(self, words) if words else self

    def with_whole_ids(self, *columns: str) -> Relation:
        """The table with text ids read as integers, to sort by size, where that loses nothing."""
        words = [c for c in columns if self.is_text and self.schema.get(c) == nw.String]
        odd = {
            str(i): f"SUM(CASE WHEN regexp_matches({self.expressions[c]}, '{WRITTEN_WHOLE}') THEN 0 ELSE 1 END)"
            for i, c in enumerate(words)
        }
        facts = self.facts(odd)
        plain = [c for i, c in enumerate(words) if not int(facts[str(i)] or 0)]
        expressions = {**self.expressions, **{c: f"CAST({self.expressions[c]} AS BIGINT)" for c in plain}}
        return replace(self, expressions=expressions, schema={**self.schema, **dict.fromkeys(plain, nw.Int64())})


def relation_of(engine: Engine, name: str, schema: Mapping[str, Type], **facts: Any) -> Relation:
    """A relation whose columns have in the engine the names that their owner gave them."""
    return Relation(engine, name, schema, {column: quoted(column) for column in schema}, **facts)


def is_number(kind: Type | None) -> bool:
    return kind is not None and kind in PLAIN and bool(kind.is_numeric() or kind == nw.Boolean)


def fits_int64(kind: Type) -> bool:
    """Whether whole numbers of this type can be added up as such; truth values count as 0 and 1."""
    return bool(kind == nw.Boolean or (kind.is_integer() and kind != nw.UInt64))


def comparable(left: Type, right: Type, *, column: str, role: str, other: str = "the rankings") -> tuple[str, str]:
    """SQL patterns (`{}` is the column) that make ids of two tables (`role` and `other`) comparable; whole numbers become text beside text.

    >>> comparable(nw.Int64(), nw.String(), column="item", role="groups")
    ('CAST({} AS VARCHAR)', '{}')
    """
    if left == right or (left.is_integer() and right.is_integer()):
        return "{}", "{}"
    if left.is_integer() and right == nw.String:
        return "CAST({} AS VARCHAR)", "{}"
    if left == nw.String and right.is_integer():
        return "{}", "CAST({} AS VARCHAR)"
    raise EvenhandError(
        f"{column} holds {left} values in {role} and {right} in {other}. Make them the same type, so that they can be joined."
    )


RESERVED = frozenset(
    {"metric", "group", "estimate", "low", "high", "chance", "ideal", "better", "units", "undefined_draws", "note"}
)
"""Columns of every result; a slice column of that name would hide them."""


ITEM_NAMES = ("item", "item_id", "doc_id", "docid", "docno", "id")
"""What the column of items may be called in a second table (groups, judgments, providers), the first that is there."""

WHOLE_TABLE = "(whole table)"
"""The column that stands for the request where nobody named one: it holds the same in every row."""


def with_request(table: Relation, request: str | None) -> tuple[Relation, str]:
    """The table and its column of requests; without one, all rows (of a slice and system) are of one request."""
    if request is not None:
        return table, request
    return table.with_column(WHOLE_TABLE, "CAST('all' AS VARCHAR)", nw.String()), WHOLE_TABLE


def item_column(table: Relation, item: str, role: str) -> str:
    """The column of items in a second table: `item`, or one of the usual names; provenance says which was taken.

    `item` itself where there is none, to be refused as a column that is absent.
    """
    column = next((name for name in (item, *ITEM_NAMES) if name in table.schema), item)
    record_facts(role, item=column)
    return column


def missing_columns(table: Relation, roles: Sequence[tuple[str, Any]], of: str = "the table") -> list[str]:
    """One problem per role whose column a table does not have; `of` is what the caller knows the table as."""
    names = table.names
    problems = []
    for role, column in roles:
        if not isinstance(column, str):
            problems.append(f"{role}={column!r} is not a column name. Pass the name of a column as text.")
        elif column in table.lacking:
            problems.append(
                f"{role}={column!r} is not a column of {table.lacking[column]!r}. Pass files that all have it."
            )
        elif column not in table.schema:
            problems.append(
                f"{role}={column!r} is not a column of {of}. {suggestion(column, names)}Columns: {listing(names) or 'none'}."
            )
    return problems


def role_problems(
    table: Relation, roles: Sequence[tuple[str, Any]], numbers: Collection[str], of: str = "the table"
) -> list[str]:
    """Problems of columns in their roles: absent, not numeric, or not usable as labels."""
    problems, schema = missing_columns(table, roles, of), table.schema
    for role, column in roles:
        if not isinstance(column, str) or column not in schema:
            continue
        if role not in numbers:
            problems += label_problems(role, column, table)
        elif schema[column] == nw.String and column in table.expressions:
            problems.append(f"{role}={column!r} {not_numbers(table, column)}")
        elif not is_number(schema[column]):
            kind = table.native.get(column, schema[column])
            problems.append(f"{role}={column!r} holds {kind} values, not numbers. Convert the column first.")
    return problems


def label_problems(role: str, column: str, table: Relation) -> list[str]:
    """Problems of a label column: mixed types, and types that are not read."""
    kind = table.schema[column]
    if kind == nw.Object:
        return [
            f"{role}={column!r} holds values that are neither all text nor all numbers. Pass a column of plain labels."
        ]
    if column in table.native or (kind not in PLAIN and kind != nw.Unknown):
        return [f"{role}={column!r} holds {table.native.get(column, kind)} values. Pass a column of plain labels."]
    return []


def slice_problems(by: Sequence[str], audit_columns: Collection[str] = ()) -> list[str]:
    """Why a result cannot be sliced so: a column is named twice, or like one of every result or of this audit's `own`."""
    taken = RESERVED.union(audit_columns)
    problems = [
        f"by={b!r} is also a column of every result. Rename that column of the table first." for b in by if b in taken
    ]
    return problems + [f"by names {b!r} twice. Name each column once." for b in dict.fromkeys(by) if by.count(b) > 1]


def count_groups(engine: Engine, rows: str, keys: Sequence[str], having: str = "COUNT(*) > 1") -> int:
    """How many distinct keys of some rows (what stands after FROM) have rows that meet a condition: several, by default."""
    per_key = f"SELECT {columns(keys)} FROM {rows} GROUP BY {columns(keys)} HAVING {having}"
    return int(engine.cells(f"SELECT COUNT(*) AS n FROM ({per_key}) AS per_key").row()["n"])


def may_repeat(engine: Engine, query: str, keys: Sequence[str]) -> bool:
    """Whether two rows have keys of the same hash: if not, none are equal. Hashes of long ids group in half the time."""
    hashed = f"(SELECT hash({columns(keys)}) AS hashed FROM ({query}) AS keyed) AS hashes"
    return count_groups(engine, hashed, ["hashed"]) > 0


def counted_rows(many: Any) -> str:
    """So many rows, in the number that fits.

    >>> counted_rows(1), counted_rows(1200)
    ('1 row', '1,200 rows')
    """
    return f"{int(many):,} row{'s' * (many != 1)}"


MOST_BINS = 1_000


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins of a column, right-closed: of equal width on a log scale, or (`is_log` False) of equally many units."""

    column: str
    bins: int
    is_log: bool

    def __post_init__(self) -> None:
        name = self.name
        if not isinstance(self.column, str):
            raise EvenhandError(f"{name}({self.column!r}) does not name a column. Write {name}('followers', 10).")
        if not is_whole(self.bins, 1, MOST_BINS):
            raise EvenhandError(
                f"{name}({self.column!r}, {self.bins!r}) needs a whole number of bins from 1 to {MOST_BINS:,}. "
                f"Write {name}({self.column!r}, 10)."
            )
        object.__setattr__(self, "bins", int(self.bins))  # numpy's integers print otherwise

    @property
    def name(self) -> str:
        return "log_bins" if self.is_log else "quantile_bins"

    def __str__(self) -> str:
        return f"{self.name}({self.column!r}, {self.bins})"

    as_word = __str__


def log_bins(column: str, bins: int = 20) -> Bins:
    """Slice units by `column` in bins of equal width on a log scale: `by=eh.log_bins("followers", 20)`.

    Bins run from the smallest positive value of a unit to the largest and are right-closed, the lowest with its minimum;
    units at zero have a bin of their own.
    """
    return Bins(column, bins, is_log=True)


def quantile_bins(column: str, bins: int = 10) -> Bins:
    """Slice units by `column` in bins of equally many units: `by=eh.quantile_bins("followers", 10)`.

    Edges are inverted-CDF quantiles over units; bins are right-closed, the lowest with its minimum. Ties make bins fewer.
    """
    return Bins(column, bins, is_log=False)


@dataclass(frozen=True, slots=True)
class Periods:
    """Periods of a column of dates, each called by its first day; weeks begin on Monday."""

    column: str
    every: str

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise EvenhandError(
                f"periods({self.column!r}) does not name a column. Write periods('created_at', every='month')."
            )
        if self.every not in EVERY:
            raise unknown_name("every", str(self.every), EVERY, what="a period")

    def __str__(self) -> str:
        return f"periods({self.column!r}, every={self.every!r})"

    as_word = __str__

    def expression(self, value: str) -> str:
        """SQL of the first day of the period that a value is in."""
        return f"CAST(DATE_TRUNC('{self.every}', CAST({value} AS TIMESTAMP)) AS DATE)"


EVERY = ("day", "week", "month", "quarter", "year")


def periods(column: str, every: str = "month") -> Periods:
    """Slice rows by the period of a date or time: `by=eh.periods("created_at", every="month")`.

    `every` is "day", "week" (from Monday), "month", "quarter" or "year"; a slice is called by the first day of its period.
    """
    return Periods(column, every)


@dataclass(frozen=True, slots=True)
class Slicing:
    """Slice columns of `by=`, and which of them are cut into bins or periods."""

    columns: tuple[str, ...]
    bins: tuple[Bins, ...]
    words: tuple[str, ...]
    periods: tuple[Periods, ...] = ()


def slicing(by: str | Bins | Periods | Iterable[str | Bins | Periods] | None, role: str = "by") -> Slicing:
    """Read `by`: one column or bins, or several; bins may be written as text, as a plan or the command line must.

    `role` is what the argument is called where it is not `by`.

    >>> slicing(["source", "log_bins('followers', 20)"]).words
    ('source', "log_bins('followers', 20)")
    """
    listed: list[Any] = [] if by is None else list(by) if isinstance(by, (list, tuple)) else [by]
    specs = [_parse(spec, role) if isinstance(spec, str) else spec for spec in listed]
    for spec in specs:
        if not isinstance(spec, (str, Bins, Periods)):
            raise EvenhandError(f"{role}={spec!r} is not a column name. Pass the name of a column as text.")
    columns = tuple(spec if isinstance(spec, str) else spec.column for spec in specs)
    bins = tuple(spec for spec in specs if isinstance(spec, Bins))
    return Slicing(columns, bins, tuple(map(str, specs)), tuple(spec for spec in specs if isinstance(spec, Periods)))


def _parse(text: str, role: str) -> str | Bins | Periods:
    if not re.match(r"\s*(log_bins|quantile_bins|periods)\s*\(", text):
        return text
    # shells eat quotes: a bare column name in brackets is the same as a quoted one
    quoted = re.sub(r"\(\s*([A-Za-z_]\w*)\s*(?=[,)])", r"('\1'", text)
    quoted = re.sub(r"((?:every\s*=|,)\s*)([A-Za-z]+)\s*(?=\))", r"\1'\2'", quoted)
    name, args, keywords = parse_call(quoted, role=role)
    names = ("column", "every" if name == "periods" else "bins")
    arguments = dict(zip(names, args, strict=False)) | keywords
    if len(args) > 2 or not set(arguments) <= set(names) or "column" not in arguments:
        example = "periods('created_at', every='month')" if name == "periods" else f"{name}('followers', 10)"
        raise EvenhandError(f"{role}={text!r} cannot be read. Write {example}.")
    if name == "periods":
        return periods(**arguments)
    return log_bins(**arguments) if name == "log_bins" else quantile_bins(**arguments)


def row_slicing(by: str | Bins | Periods | Iterable[str | Bins | Periods] | None) -> Slicing:
    """Read `by` of an audit of rows: columns and periods; bins are of a unit's number, and rows have no units."""
    slices = slicing(by)
    if slices.bins:
        name = slices.bins[0].column
        raise EvenhandError(
            f"by={slices.bins[0]} makes bins of units, and this audit has none. Add a column with the bin of {name!r}."
        )
    return slices


def in_periods(table: Relation, specs: Iterable[Periods], role: str = "by") -> Relation:
    """The table with the first day of its period in place of each date."""
    for spec in specs:
        if spec.column not in table.schema:
            continue  # refused with the other roles
        kind = table.schema[spec.column]
        if is_number(kind):
            raise EvenhandError(
                f"{role}={spec} needs dates, and {spec.column!r} holds numbers. Convert the column to dates first."
            )
        column = table.expressions[spec.column]
        if kind == nw.String:  # 2026-11-16, and what may follow it
            is_text = f"{column} IS NOT NULL AND NOT ({column} LIKE '____-__-__%')"
            is_no_day = f"{column} IS NOT NULL AND TRY_CAST(SUBSTR({column}, 1, 10) AS DATE) IS NULL"
            odd = f"SUM(CASE WHEN {is_text} THEN 1 WHEN {is_no_day} THEN 1 ELSE 0 END)"
            count = table.facts({"odd": odd})["odd"]
            if count:
                raise EvenhandError(
                    f"{role}={spec} needs dates, and {spec.column!r} holds {int(count):,} texts that are none. Write dates as 2026-11-16."
                )
            column = f"SUBSTR({column}, 1, 10)"
        table = table.with_column(spec.column, spec.expression(column), nw.Date())
    return table
