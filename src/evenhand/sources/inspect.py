"""Guesses at the roles of an unknown table's columns: units, amounts, ranks, groups.

A guess from names, types and a few counts, for somebody who has a file and no question yet. Nothing is measured with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw

from evenhand.sources.engine import Cells
from evenhand.sources.opening import fetch, open_table
from evenhand.sources.relation import is_number

SAMPLE = 100_000
"""Rows that are read."""

NAMES = {
    "request": r"query|queries|request|topic|search|session|serp|viewer|impression_id|qid|list",
    "unit": r"author|creator|seller|artist|channel|account|owner|user|member|publisher|source_id|repo|producer|name|id$",
    "user": r"user|listener|member|customer|reader|viewer",
    "item": r"item|doc|document|product|song|track|movie|video|article|candidate|post|asin|isbn",
    "rank": r"rank|position|pos$|place",
    "score": r"score|pred|prob|estimate|rating|logit|relevance_score",
    "relevance": r"relevance|^rel$|judg|grade|label_relevance",
    "outcome": r"outcome|accepted|clicked|click|hired|hit|success|convert|label|target|y$|approved|default",
    "amount": r"impression|view(?!er)|count|amount|total|star|fork|like|play|sale|download|revenue|income|exposure|display|visit|num_|n_",
    "group": r"group|gender|sex|race|country|region|age|stance|class|category|kind|type|source|segment|size|side|language",
    "system": r"^system$|engine|model|run_?id|^run$|arm|variant|experiment",
}
"""Words that people use for a role in column names."""

IDS = frozenset({"request", "unit", "user", "item"})
"""Roles of columns that name somebody or something."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column as far as its first rows show it."""

    name: str
    kind: str
    distinct: int
    missing: int
    low: float | None
    high: float | None
    example: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of a table: its columns, how many rows, and whether there are more."""

    columns: tuple[Column, ...]
    rows: int
    has_more: bool
    cells: Cells

    def having(self, role: str, *, without: Sequence[str] = ()) -> str:
        """The column that most likely plays a role, or nothing: columns named for it come first."""
        able = [c for c in self.columns if role in c.roles and c.name not in without]
        named = [c.name for c in able if _is_called(c.name, role)]
        return next(iter([*named, *(c.name for c in able)]), "")

    def is_constant_within(self, unit: str, label: str) -> bool:
        """Whether every unit has one label only."""
        return bool(self.cells.frame.select(unit, label).unique()[unit].is_unique().all())

    def rarest(self, column: str) -> str:
        """The label that fewest rows have; of several, the first."""
        counts = self.cells.frame[column].drop_nulls().value_counts().sort("count", column)
        return str(counts[column][0])


def inspect(table: Any) -> Sample:
    """The first rows of a table, with the roles that each column could play."""
    opened = open_table(table)
    opened = opened.with_numbers(*opened.schema)  # text files hold text until somebody asks
    expressions = {
        name: opened.column(name) if is_number(kind) else opened.label(name) for name, kind in opened.schema.items()
    }
    rows = fetch(opened, expressions, most=SAMPLE + 1).frame
    has_more, rows = rows.height > SAMPLE, rows.head(SAMPLE)
    schema = nw.from_native(rows, eager_only=True).schema
    columns = tuple(_column(rows, name, kind) for name, kind in schema.items())
    return Sample(columns, rows.height, has_more, Cells(rows))


def _column(frame: Any, name: str, dtype: Any) -> Column:
    values = frame[name].drop_nulls()
    number = dtype.is_numeric()
    whole = dtype.is_integer() or (number and bool((values == values.round(0)).all()))
    low, high = (float(values.min()), float(values.max())) if number and len(values) else (None, None)
    kind = "yes or no" if dtype == nw.Boolean else "date" if dtype.is_temporal() else "text"
    kind = ("whole number" if whole else "number") if number else kind
    example = str(values[0])[:30] if len(values) else ""
    column = Column(name, kind, values.n_unique(), len(frame) - len(values), low, high, example, ())
    return replace(column, roles=tuple(role for role in NAMES if _may_be(column, role, len(values))))


def _is_called(name: str, role: str) -> bool:
    return bool(re.search(NAMES[role], name.lower()))


def _may_be(column: Column, role: str, rows: int) -> bool:
    """Whether the values allow the role, and the name does not speak for another one."""
    named_roles = {other for other in NAMES if _is_called(column.name, other)}
    is_named = role in named_roles
    is_key = bool(re.search(r"(^|_)(id|key|uuid)$", column.name.lower()))
    is_numeric = column.kind in ("number", "whole number")
    is_zero_or_one = is_numeric and column.distinct == 2 and (column.low, column.high) == (0, 1)
    is_binary = column.kind == "yes or no" or is_zero_or_one
    has_few_values = 2 <= column.distinct <= 30  # as groups do
    if role in IDS:
        is_id = column.kind in ("text", "whole number") and column.distinct > 1
        is_plain_id = not named_roles & IDS and (is_key or (column.kind == "text" and not has_few_values))
        return is_id and (is_named or is_plain_id) and (is_key or not named_roles & {"rank", "amount"})
    if role == "rank":
        return is_named and column.kind == "whole number" and column.low in (0, 1)
    if role in ("score", "relevance"):
        return is_numeric and is_named and not (role == "score" and is_binary)
    if role == "outcome":
        return is_binary and (is_named or "group" not in named_roles)
    if role == "amount":
        is_other = named_roles & {"rank", "score", "relevance", *IDS} and not is_named
        return (
            is_numeric and not is_key and not is_other and not is_binary and column.low is not None and column.low >= 0
        )
    if role == "system":
        return is_named and has_few_values
    return has_few_values and not is_key and column.distinct < max(3, rows) and (not is_numeric or is_named)
