"""Scored candidates and what became of them: a table of scores, outcomes and groups, checked before any group-by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.views.tables import Table, is_number, missing_columns, open_table, to_polars

UNKNOWN = "unknown"
"""What candidates without a group label are called; they are a group of their own."""

Missing = Literal["raise", "omit"]


@dataclass(frozen=True)
class Outcomes:
    """A checked table with columns `score`, `outcome`, `group`, `used` and, where named, `request` and `cluster`.

    `used` is 1 in rows whose outcome was observed and counts: treated, at or above the threshold, nothing missing.
    `scope` holds those rows only. `labels` are the groups among those rows, as the table has them; the arrays hold one entry per group.
    `binary` is true where the column's type tells that an outcome is one of two neighbouring whole numbers.
    """

    lazy: nw.LazyFrame[Any]
    scope: nw.LazyFrame[Any]
    backend: str
    origin: str
    labels: tuple[Any, ...]
    reference: int
    used: Floats
    low: Floats
    high: Floats
    score_sum: Floats
    outcome_sum: Floats
    outcome_ends: tuple[float, float]
    binary: bool
    threshold: float | None
    rows: int
    dropped: Mapping[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        """The groups in words."""
        return tuple(map(_name, self.labels))

    def within(self, low: float, high: float) -> Outcomes:
        """The same view, its scope cut to scores from `low` to `high`; the sums per group stay those of all rows."""
        return replace(self, scope=self.scope.filter((nw.col("score") >= low) & (nw.col("score") <= high)))


@dataclass(frozen=True)
class Roles:
    """The columns of the caller's table by role."""

    score: str
    outcome: str
    group: str
    request: str | None = None
    treated: str | None = None
    cluster: str | None = None

    def named(self) -> list[tuple[str, str]]:
        pairs = [(role, getattr(self, role)) for role in ("score", "outcome", "group", "request", "treated", "cluster")]
        return [(role, column) for role, column in pairs if column is not None]


def view_outcomes(
    table: Any, roles: Roles, *, reference: Any = None, threshold: float | None = None, nan_policy: Missing = "raise"
) -> Outcomes:
    """Check the roles and the values, all problems at once; find the groups and the range of their scores."""
    opened = open_table(table)
    _refuse_bad_roles(opened, roles)
    if nan_policy not in ("raise", "omit"):
        raise EvenhandError(f"nan_policy={nan_policy!r} does not fit this question. Use 'raise' or 'omit'.")
    if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, Real)):
        raise EvenhandError(
            f"threshold={threshold!r} is not a number. Pass the score from which candidates are treated."
        )
    threshold = None if threshold is None else float(threshold)
    plain = _renamed(opened, roles)
    lazy = _flagged(plain, roles, threshold)
    facts = _plain_facts(plain, roles) if roles.treated is None and threshold is None else None
    if facts is None:
        facts = to_polars(_facts(lazy))
    problems = _value_problems(facts, roles, nan_policy)
    if problems:
        raise all_problems(problems, where="The table")
    columns = ("score", "outcome", "group", *_optional(roles))
    rows, held = int(facts["rows"].sum()), _per_group(facts)
    if sum(held["used"]) == rows:  # nothing to leave out, so no pass needs to look again
        lazy, scope = plain.select(*columns, nw.lit(1).alias("used")), plain.select(*columns)
    else:
        lazy = lazy.filter(nw.col("kept") == 1).select(*columns, "used")
        scope = lazy.filter(nw.col("used") == 1)
    chosen = _position(reference, held["label"], held["used"], roles.group)
    ends = (_least(held["outcome_low"]), -_least([-v for v in held["outcome_high"]]))
    whole = not opened.schema[roles.outcome].is_float() and not opened.schema[roles.outcome].is_decimal()
    arrays = {k: np.array(held[k], dtype=np.float64) for k in ("used", "low", "high", "score_sum", "outcome_sum")}
    return Outcomes(
        lazy, scope, opened.backend, opened.origin, tuple(held["label"]), chosen, **arrays, outcome_ends=ends,
        binary=whole and ends[1] - ends[0] == 1, threshold=threshold, rows=rows, dropped=_dropped(facts, roles),
    )  # fmt: skip


def _refuse_bad_roles(opened: Table, roles: Roles) -> None:
    problems = missing_columns(opened, roles.named())
    schema = opened.schema
    for role, column in roles.named():
        if not isinstance(column, str) or column not in schema:
            continue
        if role in ("score", "outcome", "treated") and not is_number(schema[column]):
            problems.append(f"{role}={column!r} holds {schema[column]} values, not numbers. Convert the column first.")
        if role in ("group", "request", "cluster") and schema[column] in (nw.List, nw.Struct, nw.Array):
            problems.append(f"{role}={column!r} holds {schema[column]} values. Pass a column of plain labels.")
    if roles.score == roles.outcome:
        problems.append(f"score and outcome are both {roles.score!r}. Pass the score and what became of it.")
    if problems:
        raise all_problems(problems, where="The call")


def _optional(roles: Roles) -> list[str]:
    return [role for role in ("request", "cluster") if getattr(roles, role) is not None]


def _renamed(opened: Table, roles: Roles) -> nw.LazyFrame[Any]:
    schema = opened.schema
    chosen = [
        nw.col(roles.score).cast(nw.Float64).alias("score"),
        nw.col(roles.outcome).cast(nw.Float64).alias("outcome"),
    ]
    chosen.append(_label(roles.group, schema).alias("group"))
    chosen += [nw.col(getattr(roles, role)).alias(role) for role in _optional(roles)]
    chosen += [nw.col(roles.treated).cast(nw.Float64).alias("treated")] if roles.treated is not None else []
    return opened.lazy.select(*chosen)


def _label(name: str, schema: nw.Schema) -> nw.Expr:
    """Group labels; a missing one, NaN included, is the group "unknown"."""
    dtype = schema[name]
    if dtype in (nw.Categorical, nw.Enum, nw.Object, nw.String):
        return nw.col(name).cast(nw.String).fill_null(UNKNOWN)
    return nw.when(~nw.col(name).is_nan()).then(nw.col(name)) if dtype.is_float() else nw.col(name)


def _flag(condition: nw.Expr) -> nw.Expr:
    """1 where the condition holds, 0 where it does not or cannot be told."""
    return nw.when(condition).then(nw.lit(1)).otherwise(nw.lit(0)).cast(nw.Int64)


def _flagged(lazy: nw.LazyFrame[Any], roles: Roles, threshold: float | None) -> nw.LazyFrame[Any]:
    """Flags that say what is wrong with a row and whether its outcome counts."""
    score, outcome = nw.col("score"), nw.col("outcome")
    wanted = _flag(nw.col("treated") > 0) if roles.treated is not None else nw.lit(1).cast(nw.Int64)
    if threshold is not None:
        wanted = wanted * _flag(score >= threshold)
    flags = {
        "no_score": _flag(score.is_null() | score.is_nan()),
        "no_outcome": wanted * _flag(outcome.is_null() | outcome.is_nan()),
    }
    if roles.treated is not None:
        treated = nw.col("treated")
        flags["odd"] = _flag(~((treated == 0) | (treated == 1)) & ~treated.is_null() & ~treated.is_nan())
        flags["untold"] = _flag(treated.is_null() | treated.is_nan())
    flags |= {f"no_{role}": _flag(nw.col(role).is_null()) for role in _optional(roles)}
    lazy = lazy.with_columns(**flags, wanted=wanted)
    wrong = [nw.col(name) for name in flags if name != "odd"]
    lazy = lazy.with_columns(_flag(sum(wrong[1:], wrong[0]) == 0).alias("kept"))
    lazy = lazy.with_columns((nw.col("kept") * nw.col("wanted")).alias("used"))
    counted = nw.col("used") == 1
    return lazy.with_columns(nw.when(counted).then(score).alias("s"), nw.when(counted).then(outcome).alias("y"))


_FLAGS = ("no_score", "no_outcome", "odd", "untold", "no_request", "no_cluster", "used")


def _facts(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """One pass, a row per group: what is missing, and the range and sums of scores and outcomes that count."""
    held = lazy.collect_schema().names()
    asked = [nw.len().alias("rows"), *(nw.col(name).sum() for name in _FLAGS if name in held)]
    return lazy.group_by("group").agg(*asked, *_ranges("s", "y"))


def _ranges(score: str, outcome: str) -> list[nw.Expr]:
    s, y = nw.col(score), nw.col(outcome)
    ends = [s.min().alias("low"), s.max().alias("high"), y.min().alias("outcome_low"), y.max().alias("outcome_high")]
    return [*ends, s.sum().alias("score_sum"), y.sum().alias("outcome_sum")]


def _plain_facts(lazy: nw.LazyFrame[Any], roles: Roles) -> Any:
    """The same where every row counts and nothing is missing, which takes half the time; None where something is."""
    columns = ("score", "outcome", *_optional(roles))
    held = [nw.col(name).count().alias(f"held_{name}") for name in columns]
    facts = to_polars(lazy.group_by("group").agg(nw.len().alias("used"), *held, *_ranges("score", "outcome")))
    full = all((facts[f"held_{name}"] == facts["used"]).all() for name in columns)
    finite = all(facts[name].is_finite().all() for name in ("score_sum", "outcome_sum"))  # a NaN makes its sum one
    return facts.with_columns(rows=facts["used"]) if full and finite and facts.height else None


def _count(facts: Any, name: str) -> int:
    return int(facts[name].sum()) if name in facts.columns and facts.height else 0


def _value_problems(facts: Any, roles: Roles, nan_policy: Missing) -> list[str]:
    problems = []
    ends = [facts[name].max() for name in ("high", "outcome_high")] + [
        facts[name].min() for name in ("low", "outcome_low")
    ]
    if any(end is not None and math.isinf(end) for end in ends):
        problems.append("Some rows have an infinite score or outcome. Pass finite numbers.")
    if odd := _count(facts, "odd"):
        problems.append(f"treated={roles.treated!r} is neither 0 nor 1 in {odd:,} rows. Pass 0, 1 or booleans.")
    for name, where, remedy in _missing_words(roles):
        if (many := _count(facts, name)) and nan_policy == "raise":
            problems.append(f"{where} in {many:,} rows. {remedy}")
    return problems


def _missing_words(roles: Roles) -> list[tuple[str, str, str]]:
    drop = "Fill them, or pass nan_policy='omit'."
    observed = "treated rows" if roles.treated is not None else "treated= if the outcome is seen for some rows only"
    hint = drop if roles.treated is not None else f"Pass {observed}, fill them, or pass nan_policy='omit'."
    return [
        ("no_score", f"score={roles.score!r} is missing (null or NaN)", drop),
        ("no_outcome", f"outcome={roles.outcome!r} is missing (null or NaN)", hint),
        ("untold", f"treated={roles.treated!r} is missing", drop),
        ("no_request", f"request={roles.request!r} is missing", drop),
        *([("no_cluster", f"cluster={roles.cluster!r} is missing", drop)] if roles.cluster != roles.request else []),
    ]


def _dropped(facts: Any, roles: Roles) -> dict[str, int]:
    counts = {fact: _count(facts, name) for name, fact, _ in _missing_words(roles)}
    return {fact: rows for fact, rows in counts.items() if rows}


def _per_group(facts: Any) -> dict[str, list[Any]]:
    """The groups that have a row whose outcome counts, in the order of their labels, the unknown last."""
    rows = [row for row in facts.iter_rows(named=True) if row["used"]]
    rows.sort(key=lambda row: (row["group"] is None, _sortable(row["group"])))
    names = ("used", "low", "high", "score_sum", "outcome_sum", "outcome_low", "outcome_high")
    return {"label": [row["group"] for row in rows], **{name: [row[name] for row in rows] for name in names}}


def _sortable(label: Any) -> tuple[float, str]:
    number = isinstance(label, (int, float)) and not isinstance(label, bool)
    return (float(label), "") if number else (math.inf, str(label))


def _least(values: list[float]) -> float:
    return min(values) if values else math.nan


def _name(label: Any) -> str:
    """A group in words; engines that know no missing whole numbers turn 1 into 1.0."""
    if label is None:
        return UNKNOWN
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _position(reference: Any, labels: list[Any], used: list[int], column: str) -> int:
    """Where the reference group stands; the largest group where none was named."""
    names = list(map(_name, labels))
    if reference is None:
        return used.index(max(used)) if used else 0
    wanted = _name(reference)
    if wanted not in names:
        raise EvenhandError(
            f"reference={reference!r} is not a group of {column!r} with observed outcomes. "
            f"{suggestion(wanted, names)}Groups: {listing(names) or 'none'}."
        )
    return names.index(wanted)
