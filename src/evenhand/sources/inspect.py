"""Guesses at the roles of an unknown table's columns: units, amounts, ranks, groups.

Structure decides (what repeats, what determines what, in which columns ranks run from 1), names choose between columns that would
do. For somebody who has a file and no question yet; nothing is measured with it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import narwhals as nw

from evenhand.sources.engine import Cells
from evenhand.sources.files import trec_kind
from evenhand.sources.opening import fetch, open_table
from evenhand.sources.rankings import are_runs
from evenhand.sources.relation import is_number

SAMPLE = 100_000
"""Rows that are read."""

NAMES = {
    "request": r"quer|request|topic|search|session|serp|viewer|impression_id|qid|keyword|list|anfrage|requete|consulta",
    "unit": r"aut(h?or|eur)|creator|seller|vend(?!_)|artist|channel|owner|publisher|advertiser|brand|store(?!_)|merchant|developer|"
    r"compan|organi|journal|source_id|repo|full_name|producer|provider|writer|employer|host_id|account|verkauf|firma|tienda|magasin",
    "user": r"user|uid|listener|member|customer|reader|viewer|cookie|visitor|subscriber|client|device_id|kunde|utilisateur|usuario",
    "item": r"item|iid|doc|product|song|track|movie|video|article|candidate|post|asin|isbn|paper|book|game|app(?!l)|package|listing|"
    r"ad_id|creative|recipe|course|job|url",
    "rank": r"rank|rang|posi|^pos$|_pos$|place(?!ment)|platz",
    "score": r"score|pred|prob(?!lem)|^est(imate)?$|rating|logit|^l?sat$|gpa|fico|test$|punkte",
    "relevance": r"relevance|^rel$|judg|grade|^label$",
    "outcome": r"outcome|accept|click|hired|^hit$|success|convert|label|target|^y$|approv|default|recid|admi|opened|passed|purchas|"
    r"churn|select|invit|status|einge|embauch|contratad",
    "amount": r"impression|view(?!er)|stream(?!_time)|count|cnt|amount|tot|star|fork|like|play(?!er|list)|sale|vent[ae]|vendid|verkauf|"
    r"download|install|revenue|income|exposure|num_|number_of|^n_|citation|open|click|q.*ty|listen|read|lect|follower|points|vote|review|turnover|umsatz|chiffre|"
    r"salary|spend|cost|users|member|subscriber|ratings|mention",
    "group": r"group|gender|sex|geschlecht|race|ethnic|country|pais|region|age_|stance|class|categor|sec+ion|genre|kind|type|source|"
    r"segment|side|language|venue|placement|department|license|size|party|outlet|ville|land$",
    "system": r"^system$|engine|model|run_?id|^run$|arm$|variant|experiment",
    "arm": r"^arm$|_arm$|variant|^exp|treat|test_group|^bucket$|condition",
}
"""Words that people use for a role in column names, accents left out; structure decides first."""

KEY = r"(^|_)([a-z]?id|key|uuid|uri|hash|nr|no)$|nr$"
"""Ends of the names of ids."""

IDS = frozenset({"request", "unit", "user", "item"})
"""Roles of columns that name somebody or something."""

RECEIVED = r"impression|view|stream(?!_time)|play|listen|download|install|revenue|sales|total|income|star|citation|exposure|opens|tot$|lect"
"""Names of amounts that somebody receives, before those that only come along (likes, forks, prices)."""

NO_AMOUNT = (
    r"price|rate$|_rate|rating(?!s|_c)|^age$|_age$|year|month|size|bytes|duration|length|second|lat$|latitude|lon|zip|bpm|percent|"
    r"pct|ratio|avg|average|mean|propensity|feature|version|height|width|index|unnamed|order_?id|serial|availability"
)
"""Names of numbers that describe, and cannot be added up."""

EVENTS = r"order|transaction|invoice|event|session|request|row|log_id|impression_id|link|date|time|subject|hash"
"""Names of ids of events, which nobody competes as."""

YES = ("yes", "y", "true", "t", "1", "ja", "oui", "si", "good", "accepted", "hired", "approved", "pass", "passed", "won", "admitted",
       "paid", "success", "clicked", "opened", "selected", "converted", "fully paid")  # fmt: skip
"""Labels of success, in lower case and without accents."""

NO = ("no", "n", "false", "f", "0", "nein", "non", "bad", "rejected", "not hired", "declined", "denied", "fail", "failed", "lost",
      "default", "charged off", "failure", "not selected", "-")  # fmt: skip

CONTROL = ("control", "baseline", "base", "old", "a", "off", "before", "0", "c", "false")
"""Labels of a control arm, the surest first."""

TREATMENT = ("treatment", "treated", "test", "b", "on", "new", "1", "t", "variant", "exposed", "true")
DATE = r"^\d{4}-?W\d{1,2}$|^\d{4}-\d{2}(-\d{2}([ T].*)?)?$|^\d{1,2}[/.]\d{1,2}[/.]\d{2,4}( .*)?$|^\d{4}/\d{2}/\d{2}.*$"
EPOCH = 100_000_000
"""Whole numbers above this in a column called a time are seconds since 1970."""

NEARLY = 0.8
"""Share of the values of a text column that are numbers, however they are written, where the column is nearly one."""

LOOSE_NUMBER = r"^[$€£]?\s*[+-]?\d[\d.,' ]*\s*[+%kKMB]?$"
MOST_OWNERS = 10
"""Different values of a column called publisher or artist up to which it may group items; more are units."""

FEWEST_ROWS = 2
"""Rows per ranking on average, below which a column does not name rankings."""

RANKED = 0.9
"""Share of rankings whose ranks run from 1 to their number of rows, where a column is a rank."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column as far as its first rows show it.

    Attributes
    ----------
    is_unique : whether no value stands twice. is_counter : whether it numbers the rows. odd : why it is not quite a number.
    """

    name: str
    kind: str
    distinct: int
    missing: int
    low: float | None
    high: float | None
    example: str
    is_unique: bool = False
    is_counter: bool = False
    odd: str = ""
    roles: tuple[str, ...] = ()

    @property
    def is_numeric(self) -> bool:
        return self.kind in ("number", "whole number")

    def is_called(self, pattern: str) -> bool:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])|[ .-]+", "_", folded(self.name)).strip("_")
        return bool(re.search(pattern, words.lower()))


@dataclass(frozen=True)
class Sample:
    """The first rows of a table: its columns, how many rows, and whether there are more; `trec` says which TREC file it is."""

    columns: tuple[Column, ...]
    rows: int
    has_more: bool
    cells: Cells
    trec: str = ""

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)

    def all_having(self, role: str, *, without: Sequence[str] = ()) -> list[str]:
        """Columns that may play a role: those named for it come first."""
        able = [c for c in self.columns if role in c.roles and c.name not in without]
        if role == "group":
            able.sort(key=lambda c: c.distinct)  # leagues before clubs
        named = [c.name for c in able if c.is_called(NAMES[role])]
        return [*named, *(c.name for c in able if c.name not in named)]

    def having(self, role: str, *, without: Sequence[str] = ()) -> str:
        """The column that most likely plays a role, or nothing."""
        return next(iter(self.all_having(role, without=without)), "")

    def distinct(self, *names: str) -> int:
        return int(self.cells.frame.select(list(dict.fromkeys(names))).drop_nulls().n_unique())

    def determines(self, key: str, label: str) -> bool:
        """Whether rows with the same key have the same label, in the sample."""
        pairs = self.cells.frame.select(list(dict.fromkeys((key, label)))).drop_nulls()
        return bool(pairs.n_unique() == pairs[key].n_unique())

    def labels(self, column: str) -> list[str]:
        return sorted(map(str, self.cells.frame[column].drop_nulls().unique().to_list()))

    def rarest(self, column: str) -> str:
        """The label that fewest rows have; of several, the first."""
        counts = self.cells.frame[column].drop_nulls().value_counts().sort("count", column)
        return str(counts[column][0])

    def positive(self, outcome: str) -> str:
        """The label of success among two texts; nothing where outcomes are 0 and 1."""
        if self.column(outcome).kind != "text":
            return ""
        labels = self.labels(outcome)
        likely = [label for label in labels if folded(label).lower() in YES] or [
            x for x in labels if folded(x).lower() not in NO
        ]
        return (likely or labels)[-1]

    @cached_property
    def ranking(self) -> tuple[str, tuple[str, ...]]:
        """The column of ranks and the columns within which they run 1, 2, 3 without repeats; nothing where there is none."""
        return self._ranking(first=1)

    @cached_property
    def ranking_from_zero(self) -> str:
        """A column called a rank that runs 0, 1, 2 within others."""
        rank, keys = self._ranking(first=0)
        return rank if keys and self.column(rank).is_called(NAMES["rank"]) else ""

    def _ranking(self, first: int) -> tuple[str, tuple[str, ...]]:
        able = [
            c for c in self.columns if c.kind == "whole number" and not c.missing and c.low == first and c.distinct > 1
        ]
        named = [c for c in able if c.is_called(NAMES["rank"])]
        others = [c for c in able if c not in named and not c.roles]
        for column in [*named, *others]:
            for keys in self._keys(column):
                if self._runs(column.name, keys, first):
                    return column.name, keys
        return "", ()

    def _keys(self, rank: Column) -> list[tuple[str, ...]]:
        """Columns, alone and in pairs, that may name rankings: requests first; none, where the table is one ranking."""
        able = [
            c for c in self.columns
            if c is not rank and 1 < c.distinct <= self.rows / FEWEST_ROWS and c.kind != "number" and not c.missing
        ]  # fmt: skip
        able.sort(key=lambda c: (not c.is_called(NAMES["request"]), c.kind != "text", -c.distinct))
        names = [c.name for c in able]
        whole: list[tuple[str, ...]] = [()] if rank.is_called(NAMES["rank"]) else []
        return [*whole, *((name,) for name in names), *combinations(names[:10], 2)]

    def _runs(self, rank: str, keys: Sequence[str], first: int) -> bool:
        import polars as pl

        frame: Any = self.cells.frame
        if frame.select(rank, *keys).n_unique() < self.rows:
            return False
        lists = frame.group_by(keys) if keys else frame.group_by(pl.lit(1))
        ends = lists.agg((pl.col(rank).max() + 1 - first).alias("deepest"), pl.len().alias("rows"))
        return bool((ends["deepest"] == ends["rows"]).mean() >= RANKED)

    def unit(self) -> tuple[str, str]:
        """Who receives, and a note where ids were taken instead of names that repeat."""
        able = [c for c in self.columns if c.name and IDS & set(c.roles) and not c.is_called(EVENTS) and c.distinct > 1]
        called = [c for role in ("unit", "item") for c in able if c.is_called(NAMES[role])]
        chosen = next(iter([*called, *(c for c in able if c.is_unique), *able]), None)
        if chosen is None:
            return "", ""
        ids = [c for c in able if c.is_unique and c.is_called(KEY)]
        names = [c for c in able if c.kind == "text" and not c.is_unique and 2 * c.distinct >= self.rows]
        names = [c for c in names if c is chosen or c.is_called(r"name|title")]
        if chosen in names and ids and not chosen.is_called(NAMES["unit"]):
            chosen = ids[0]
        if chosen not in ids or not names:
            return chosen.name, ""
        repeated = self.rows - names[0].missing - names[0].distinct
        return chosen.name, f"{names[0].name} repeats in {repeated:,} rows, so {chosen.name} tells the units apart."

    def amount(self, *, without: Sequence[str] = ()) -> str:
        """What is received: named for it first, then the number with the widest spread; nothing where rows are counted."""
        able = [c for c in self.columns if "amount" in c.roles and c.name not in (*without, self.ranking_from_zero)]
        received = [c for c in able if c.is_called(RECEIVED)] or [c for c in able if c.is_called(NAMES["amount"])]
        if received:
            return received[0].name
        values: Any = self.cells.frame
        spread = {c.name: float(values[c.name].std() or 0) / float(values[c.name].mean() or 1) for c in able}
        return max(spread, key=lambda name: spread[name], default="")

    def nearly_amounts(self) -> list[Column]:
        """Columns called like an amount that are text because of some of their values."""
        return [c for c in self.columns if c.odd and c.is_called(NAMES["amount"]) and not c.is_called(NO_AMOUNT)]


def inspect(table: Any) -> Sample:
    """The first rows of a table, with the roles that each column could play."""
    if are_runs(table) and (trec := _inspect_trec(table)) is not None:
        return trec
    opened = open_table(table)
    opened = opened.with_numbers(*opened.schema)  # text files hold text until somebody asks
    expressions = {
        name: opened.column(name) if is_number(kind) else opened.label(name)
        for name, kind in opened.schema.items()
        if name not in opened.native  # of a type that no role reads
    }
    return _sample(fetch(opened, expressions, most=SAMPLE + 1).frame)


def folded(text: str) -> str:
    """Text without accents.

    >>> folded("Sección")
    'Seccion'
    """
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _inspect_trec(table: Any) -> Sample | None:
    """A TREC run or judgments; None where the file is something else."""
    from evenhand.sources.trec import qrels, trec_runs

    paths = [table] if isinstance(table, (str, Path)) else list(table)
    kind = trec_kind(str(paths[0]))
    if kind == "judgments":
        return replace(_sample(qrels(paths[0])), trec=kind)
    return replace(_sample(trec_runs(paths, duplicates="first").drop("tied")), trec=kind) if kind else None


def _sample(rows: Any) -> Sample:
    has_more, rows = rows.height > SAMPLE, rows.head(SAMPLE)
    schema = nw.from_native(rows, eager_only=True).schema
    columns = [
        column
        for name, kind in schema.items()
        for column in (_lists(rows[name], kind) if kind == nw.List else [_column(rows, name, kind)])
    ]
    return Sample(tuple(columns), rows.height, has_more, Cells(rows))


def _lists(values: Any, kind: Any) -> list[Column]:
    """A column of lists; of lists of objects, a column for each of their fields."""
    items = [item for row in values.drop_nulls().head(1).to_list() for item in row][:3]
    names = [field.name for field in kind.inner.fields] if kind.inner == nw.Struct else []
    examples = {name: [item[name] for item in items] for name in names} or {values.name: items}
    return [
        Column(name, "list", 0, values.null_count(), None, None, f"{', '.join(map(str, some))[:25]}, ...")
        for name, some in examples.items()
    ]


def _column(frame: Any, name: str, dtype: Any) -> Column:
    values = frame[name].drop_nulls()
    number = dtype.is_numeric()
    whole = dtype.is_integer() or (number and bool((values == values.round(0)).all()))
    low, high = (float(values.min()), float(values.max())) if number and len(values) else (None, None)
    kind = "yes or no" if dtype == nw.Boolean else "date" if dtype.is_temporal() else "text"
    kind = ("whole number" if whole else "number") if number else kind
    if kind == "text" and dtype == nw.String and len(values) and bool(values.head(1000).str.contains(DATE).all()):
        kind = "date"
    distinct, example = values.n_unique(), str(values[0])[:30] if len(values) else ""
    is_unique = bool(len(frame)) and distinct == len(frame)
    is_counter = whole and is_unique and bool((values.diff().drop_nulls() == 1).all())
    odd = _odd_numbers(values) if kind == "text" and dtype == nw.String else ""
    column = Column(name, kind, distinct, len(frame) - len(values), low, high, example, is_unique, is_counter, odd)
    if column.is_numeric and high is not None and high >= EPOCH and column.is_called(r"time|date|created|_at$|^ts$"):
        column = replace(column, kind="date")
    yes_or_no = kind == "text" and distinct == 2 and {folded(str(v)).lower() for v in values.unique()} <= {*YES, *NO}
    return replace(
        column, roles=tuple(role for role in NAMES if _may_be(column, role, len(values), yes_or_no=yes_or_no))
    )


def _odd_numbers(values: Any) -> str:
    """Which values keep a text column from being one of numbers; nothing where it is far from one."""
    if not len(values) or float(values.str.contains(LOOSE_NUMBER).mean()) < NEARLY:
        return ""
    odd = values.filter(~values.str.contains(r"^[+-]?\d+(\.\d*)?$"))
    if not len(odd):
        return ""
    written = odd.filter(odd.str.contains(LOOSE_NUMBER)).head(1).to_list()
    words = odd.filter(~odd.str.contains(LOOSE_NUMBER)).unique(maintain_order=True).head(2).to_list()
    return f"{len(odd):,} of {len(values):,} values are {'like ' if written else ''}{' or '.join(map(repr, [*written, *words]))}"


def _may_be(column: Column, role: str, rows: int, *, yes_or_no: bool) -> bool:
    """Whether the values allow the role, and the name does not speak for another one."""
    named_roles = {other for other, pattern in NAMES.items() if column.is_called(pattern)}
    is_named = role in named_roles
    is_key = column.is_called(KEY)
    is_zero_or_one = column.is_numeric and column.distinct == 2 and (column.low, column.high) == (0, 1)
    is_binary = column.kind == "yes or no" or is_zero_or_one
    has_few_values = 2 <= column.distinct <= 30  # as groups do
    if (
        column.kind in ("date", "list")
        or (column.is_counter and not is_key and not named_roles & {"amount", *IDS})
        or column.odd
    ):
        return False
    if role in IDS:
        is_group = "group" in named_roles and has_few_values
        is_id = column.kind in ("text", "whole number") and column.distinct > 1 and not yes_or_no and not is_group
        is_plain_id = not named_roles & IDS and (is_key or (column.kind == "text" and not has_few_values))
        return (
            is_id
            and (is_named or is_plain_id)
            and (is_key or not (column.is_numeric and named_roles & {"rank", "amount"}))
        )
    if role == "rank":
        return is_named and column.kind == "whole number" and column.low == 1
    if role in ("score", "relevance"):
        return (
            column.is_numeric
            and is_named
            and not (role == "score" and is_binary)
            and not column.is_called(r"count|cnt|propensity")
        )
    if role == "outcome":
        two_texts = column.kind == "text" and column.distinct == 2 and (yes_or_no or is_named)
        return (is_binary and (is_named or "group" not in named_roles)) or (two_texts and "group" not in named_roles)
    if role == "amount":
        is_other = named_roles & {"rank", "score", "relevance", *IDS} and not is_named
        is_share = column.kind == "number" and column.high is not None and column.high <= 1
        describes = column.is_called(NO_AMOUNT) and not column.is_called(r"count|cnt|total|tot$")
        is_amount = (
            column.is_numeric and not is_key and not is_other and not is_binary and not describes and not is_share
        )
        return is_amount and column.distinct > 1 and column.low is not None and column.low >= 0
    if role == "system":
        return is_named and has_few_values
    if role == "arm":
        return 2 <= column.distinct <= 6 and (is_named or is_binary or column.kind == "text")
    is_name = bool(named_roles & IDS) and column.distinct > MOST_OWNERS
    is_label = (column.kind in ("text", "yes or no") and not is_name) or is_named
    return (
        has_few_values
        and not is_key
        and column.distinct < max(3, rows / 2)
        and is_label
        and not (yes_or_no and not is_named)
    )
