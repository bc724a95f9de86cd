"""A table that queries can name: its columns with their types, and its engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError
from evenhand.sources.columns import Type as Type
from evenhand.sources.engine import Cells, Engine
from evenhand.sources.numerals import Notation, read_numbers
from evenhand.sources.sql import nan_as_null, quoted, select

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
    native : columns whose values no engine compares, each with what its owner calls their type.
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
        kind, column = self.schema[name], self.expressions[name]
        if kind in (nw.Categorical, nw.Enum, nw.Unknown):
            return f"CAST({column} AS VARCHAR)"
        return nan_as_null(column) if kind.is_float() else column

    def number(self, name: str, kind: str = "DOUBLE") -> str:
        """SQL of a column of numbers to be added up; booleans are 1 and 0, NaN is NULL."""
        column = self.expressions[name]
        if self.schema[name] == nw.Boolean:
            column = f"CASE WHEN {column} THEN 1 WHEN NOT {column} THEN 0 END"
        number = f"CAST({column} AS {kind})"
        return nan_as_null(number) if self.schema[name].is_float() else number

    def label_type(self, name: str) -> Type:
        """The type of a column once `label` has read it."""
        kind = self.schema[name]
        return nw.String() if kind in (nw.Categorical, nw.Enum, nw.Unknown) else kind

    def with_column(self, name: str, expression: str, kind: Type) -> Relation:
        """The table with a column replaced or added: SQL over its columns, and its type."""
        return replace(self, expressions={**self.expressions, name: expression}, schema={**self.schema, name: kind})

    def where(self, condition: str) -> Relation:
        """The rows that meet a condition on its columns."""
        return replace(self, name=f"(SELECT * FROM {self.name} WHERE {condition})")

    def only(self, *names: str) -> Relation:
        """The table restricted to some of its columns."""
        return replace(
            self,
            expressions={name: self.expressions[name] for name in names},
            schema={name: self.schema[name] for name in names},
        )

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
    return kind is not None and bool(kind.is_numeric() or kind == nw.Boolean)


def fits_int64(kind: Type) -> bool:
    """Whether whole numbers of this type can be added up as such; truth values count as 0 and 1."""
    return bool(kind == nw.Boolean or (kind.is_integer() and kind not in (nw.UInt64, nw.Int128, nw.UInt128)))


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
