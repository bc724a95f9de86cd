"""What the columns of an unknown table could be: units, amounts, ranks, groups, scores, outcomes.

A guess from names, types and a few counts, for somebody who has a file and no question yet. Nothing is measured with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from evenhand.views.tables import open_table, to_polars

SAMPLE = 100_000
"""Rows that are looked at."""

FEW_LABELS = 30
"""Different values that a column of groups may have."""

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
class Sight:
    """What was seen of a table: its columns, how many rows were looked at, and whether there are more."""

    columns: tuple[Column, ...]
    rows: int
    more: bool
    frame: Any

    def having(self, role: str, *, without: Sequence[str] = ()) -> str:
        """The column that most likely plays a role, or nothing: columns named for it come first."""
        able = [c for c in self.columns if role in c.roles and c.name not in without]
        named = [c.name for c in able if _is_called(c.name, role)]
        return next(iter([*named, *(c.name for c in able)]), "")


def sight(table: Any) -> Sight:
    """Look at the first rows of a table."""
    opened = open_table(table)
    opened = opened.numbers(*opened.schema.names())  # what could be a number; text files hold text until somebody asks
    frame = to_polars(opened.lazy.head(SAMPLE + 1))
    more, frame = len(frame) > SAMPLE, frame.head(SAMPLE)
    schema = nw.from_native(frame, eager_only=True).schema
    return Sight(tuple(_column(frame, name, dtype) for name, dtype in schema.items()), len(frame), more, frame)


def _column(frame: Any, name: str, dtype: Any) -> Column:
    held = frame[name].drop_nulls()
    number = dtype.is_numeric()
    whole = dtype.is_integer() or (number and bool((held == held.round(0)).all()))
    low, high = (float(held.min()), float(held.max())) if number and len(held) else (None, None)
    kind = "yes or no" if dtype == nw.Boolean else "date" if dtype.is_temporal() else "text"
    kind = ("whole number" if whole else "number") if number else kind
    found = Column(
        name, kind, held.n_unique(), len(frame) - len(held), low, high, str(held[0])[:30] if len(held) else "", ()
    )
    roles = tuple(role for role in NAMES if _may_be(found, role, len(held)))
    return Column(found.name, found.kind, found.distinct, found.missing, low, high, found.example, roles)


def _is_called(name: str, role: str) -> bool:
    return bool(re.search(NAMES[role], name.lower()))


def _may_be(column: Column, role: str, rows: int) -> bool:
    """Whether the values allow the role, and the name does not speak for another one."""
    called = {r for r in NAMES if _is_called(column.name, r)}
    named = bool(re.search(r"(^|_)(id|key|uuid)$", column.name.lower()))
    number = column.kind in ("number", "whole number")
    binary = column.kind == "yes or no" or (number and column.distinct == 2 and (column.low, column.high) == (0, 1))
    labels = 2 <= column.distinct <= FEW_LABELS
    counted = column.kind in ("text", "whole number") and column.distinct > 1
    if role in IDS:
        free = not called & IDS and (named or (column.kind == "text" and not labels))
        return counted and (role in called or free) and (named or not called & {"rank", "amount"})
    if role == "rank":
        return role in called and column.kind == "whole number" and column.low in (0, 1)
    if role == "score":
        return number and role in called and not binary
    if role == "relevance":
        return number and role in called
    if role == "outcome":
        return binary and (role in called or "group" not in called)
    if role == "amount":
        other = called & {"rank", "score", "relevance", *IDS} and role not in called
        return number and not named and not other and column.low is not None and column.low >= 0 and not binary
    if role == "system":
        return role in called and 2 <= column.distinct <= FEW_LABELS
    return labels and not named and column.distinct < max(3, rows) and (not number or role in called)
