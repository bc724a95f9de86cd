"""Checked candidates and what became of them: a table of scores, outcomes and groups, checked before any group-by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import matches, order
from evenhand.views.columns import label, label_problems
from evenhand.views.tables import Table, is_number, missing_columns, open_table, to_polars

UNKNOWN = "unknown"
"""What candidates without a group label are called; they are a group of their own."""

Missing = Literal["raise", "omit"]


@dataclass(frozen=True)
class Checked:
    """A checked table with columns `score`, `outcome`, `group`, `used` and, where named, `request` and `cluster`.

    `used` is 1 in rows whose outcome was observed and counts: treated, at or above the threshold, nothing missing.
    `scope` holds those rows only; the ends and the mean are theirs. `whole` is true where the type of the outcomes lets
    them be nothing but whole numbers. `asked` is the reference group that was named and the column of the groups.
    `facts` are the sums and ranges per group, where the check had to look at the groups anyway.
    """

    lazy: nw.LazyFrame[Any]
    scope: nw.LazyFrame[Any]
    backend: str
    origin: str
    score_ends: tuple[float, float]
    outcome_ends: tuple[float, float]
    outcome_mean: float
    whole: bool
    threshold: float | None
    rows: int
    dropped: Mapping[str, int]
    asked: tuple[Any, str]
    facts: Any

    def by_group(self) -> Outcomes:
        """The same view, its groups known; one more pass where the check did not look at them."""
        facts = self.facts
        if facts is None:
            asked = [nw.len().alias("used"), *_range("score", "low", "high"), *_totals("score", "outcome")]
            facts = to_polars(self.scope.group_by("group").agg(*asked))
        facts = facts.filter(facts["used"] > 0)
        refuse_many(facts.height, f"group={self.asked[1]!r}")
        rows = sorted(facts.iter_rows(named=True), key=lambda row: order(row["group"]))
        held = {name: [row[name] for row in rows] for name in ("group", "used", "low", "high", *_SUMS)}
        return self.grouped(held.pop("group"), **held)

    def grouped(self, labels: Sequence[Any], **per_group: Any) -> Outcomes:
        """The same view with these groups and, for each, the rows that count, the ends of their scores and two sums."""
        known: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(Checked)}
        known |= {name: np.array(values, dtype=np.float64) for name, values in per_group.items()}
        return Outcomes(**known, labels=tuple(labels), reference=_position(self.asked, labels, known["used"]))


@dataclass(frozen=True)
class Outcomes(Checked):
    """Checked rows whose groups are known: `labels` as the table has them, and arrays with one entry per group."""

    labels: tuple[Any, ...]
    reference: int
    used: Floats
    low: Floats
    high: Floats
    score_sum: Floats
    outcome_sum: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """The groups in words."""
        return tuple(map(_name, self.labels))

    def within(self, low: float, high: float) -> Outcomes:
        """The same view, its scope cut to scores from `low` to `high`; the sums per group stay those of all rows."""
        return replace(self, scope=self.scope.filter((nw.col("score") >= low) & (nw.col("score") <= high)))


MOST_GROUPS = 1_000
"""Every gap has a covariance with every other one: the work grows with the cube of the groups."""


def refuse_many(groups: int, said: str) -> None:
    """Stop before a column of ids keeps everybody waiting; `said` is what the caller knows the groups as."""
    if groups > MOST_GROUPS:
        raise EvenhandError(
            f"{said} has {groups:,} different values, too many to compare. Group them into at most {MOST_GROUPS:,}."
        )


@dataclass(frozen=True)
class Roles:
    """The columns of the caller's table by role."""

    score: str
    outcome: str
    group: str
    request: str | None = None
    treated: str | None = None
    cluster: str | None = None
    clustered: bool = True
    """Whether the errors are clustered; a cluster that is named for nothing is checked all the same."""

    def named(self) -> list[tuple[str, str]]:
        more = {"request": self.request, "treated": self.treated}
        more |= {"cluster": self.cluster} if self.cluster != self.request else {}
        given = [(role, column) for role, column in more.items() if column is not None]
        return [("score", self.score), ("outcome", self.outcome), ("group", self.group), *given]


def view_outcomes(
    table: Any, roles: Roles, *, reference: Any = None, threshold: float | None = None, nan_policy: Missing = "raise"
) -> Checked:
    """Check the roles and the values, all problems at once; find the range of scores and outcomes."""
    opened = open_table(table).numbers(roles.score, roles.outcome, roles.treated)
    _refuse_bad_roles(opened, roles)
    if nan_policy not in ("raise", "omit"):
        raise EvenhandError(f"nan_policy={nan_policy!r} does not fit this question. Use 'raise' or 'omit'.")
    number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if threshold is not None and not (number and _is_finite(threshold)):
        raise EvenhandError(
            f"threshold={threshold!r} is not a {'finite ' if number else ''}number. "
            "Pass the score from which candidates are treated."
        )
    threshold = None if threshold is None else float(threshold)
    plain = _renamed(opened, roles)
    lazy = _flagged(plain, roles, threshold)
    facts, known = _plain_facts(plain, roles) if roles.treated is None and threshold is None else None, None
    if facts is None:
        facts = known = to_polars(_facts(lazy))
    problems = _value_problems(facts, roles, nan_policy)
    if problems:
        raise all_problems(problems, where="The table")
    columns = ("score", "outcome", "group", *_optional(roles))
    rows, used = int(facts["rows"].sum()), int(facts["used"].sum())
    if used == rows:  # nothing to leave out, so no pass needs to look again
        lazy, scope = plain.select(*columns, nw.lit(1).alias("used")), plain.select(*columns)
    else:
        lazy = lazy.filter(nw.col("kept") == 1).select(*columns, "used")
        scope = lazy.filter(nw.col("used") == 1)
    dtype = opened.schema[roles.outcome]
    return Checked(
        lazy, scope, opened.backend, opened.origin, _ends(facts, "low", "high"), _ends(facts, "outcome_low", "outcome_high"),
        outcome_mean=_middle(_ends(facts, "outcome_low", "outcome_high"), float(facts["outcome_sum"].sum()), used),
        whole=not dtype.is_float() and not dtype.is_decimal(),
        threshold=threshold, rows=rows, dropped=_dropped(facts, roles), asked=(reference, roles.group), facts=known,
    )  # fmt: skip


def without_small_groups(table: Any, roles: Roles, checked: Checked, fewest: int) -> tuple[Table, list[str]]:
    """The table without rows of groups that have fewer rows that count, and what these groups are called."""
    sizes = to_polars(checked.scope.group_by("group").agg(nw.len().alias("n")))
    small = [label for label, n in sizes.select("group", "n").iter_rows() if n < fewest]
    opened = open_table(table)
    if not small:
        return opened, []
    group = label(roles.group, opened)
    named = opened.schema[roles.group] in (nw.Categorical, nw.Enum, nw.String)
    lost = (group.fill_null(UNKNOWN) if named else group).is_in([one for one in small if one is not None])
    kept = ~lost | (group.is_null() if None not in small and UNKNOWN not in small else nw.lit(False))
    return replace(opened, lazy=opened.lazy.filter(kept)), list(map(_name, small))


def _middle(ends: tuple[float, float], total: float, rows: int) -> float:
    """The mean outcome; outcomes that are all one number have that number as their mean, to the last bit on any engine."""
    return 0.0 if not rows else ends[0] if ends[0] == ends[1] else total / rows


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float holds
        return False


def _refuse_bad_roles(opened: Table, roles: Roles) -> None:
    problems = missing_columns(opened, roles.named())
    schema = opened.schema
    for role, column in roles.named():
        if not isinstance(column, str) or column not in schema:
            continue
        if role in ("score", "outcome", "treated") and not is_number(schema[column]):
            problems.append(f"{role}={column!r} holds {schema[column]} values, not numbers. Convert the column first.")
        if role in ("group", "request", "cluster"):
            problems += label_problems(role, column, opened)
    for one, other in itertools.combinations(("score", "outcome", "group"), 2):
        if (column := getattr(roles, one)) == getattr(roles, other) and column is not None:
            problems.append(f"{one} and {other} are both {column!r}. Pass the score, what became of it, and the group.")
    if problems:
        raise all_problems(problems, where="The call")


def _optional(roles: Roles) -> list[str]:
    wanted = ("request", "cluster") if roles.clustered else ("request",)
    return [role for role in wanted if getattr(roles, role) is not None]


def _renamed(opened: Table, roles: Roles) -> nw.LazyFrame[Any]:
    schema = opened.schema
    chosen = [
        opened.col(roles.score).cast(nw.Float64).alias("score"),
        opened.col(roles.outcome).cast(nw.Float64).alias("outcome"),
    ]
    group = label(roles.group, opened)
    named = schema[roles.group] in (nw.Categorical, nw.Enum, nw.String)
    chosen.append((group.fill_null(UNKNOWN) if named else group).alias("group"))
    optional = {role: getattr(roles, role) for role in _optional(roles)}
    chosen += [label(column, opened).alias(role) for role, column in optional.items()]
    chosen += [opened.col(roles.treated).cast(nw.Float64).alias("treated")] if roles.treated is not None else []
    return opened.lazy.select(*chosen)


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


_SUMS = ("score_sum", "outcome_sum")
_FLAGS = ("no_score", "no_outcome", "odd", "untold", "no_request", "no_cluster", "used")


def _facts(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """One pass, a row per group: what is missing, and the range and sums of scores and outcomes that count."""
    held = lazy.collect_schema().names()
    asked = [nw.len().alias("rows"), *(nw.col(name).sum() for name in _FLAGS if name in held)]
    return lazy.group_by("group").agg(*asked, *_ranges("s", "y"))


def _ranges(score: str, outcome: str) -> list[nw.Expr]:
    ends = [*_range(score, "low", "high"), *_range(outcome, "outcome_low", "outcome_high")]
    return [*ends, *_totals(score, outcome)]


def _range(column: str, low: str, high: str) -> list[nw.Expr]:
    return [nw.col(column).min().alias(low), nw.col(column).max().alias(high)]


def _totals(score: str, outcome: str) -> list[nw.Expr]:
    return [nw.col(column).sum().alias(name) for column, name in zip((score, outcome), _SUMS, strict=True)]


def _plain_facts(lazy: nw.LazyFrame[Any], roles: Roles) -> Any:
    """The same for all groups at once, a quarter of the work, if nothing is missing; None where something is."""
    columns = ("score", "outcome", *_optional(roles))
    held = [nw.col(name).count().alias(f"held_{name}") for name in columns]
    facts = to_polars(lazy.select(nw.len().alias("used"), *held, *_ranges("score", "outcome")))
    rows = facts["used"][0]
    full = all(facts[f"held_{name}"][0] == rows for name in columns)
    sums = [facts[name][0] for name in _SUMS]
    finite = rows and all(v is not None and math.isfinite(v) for v in sums)  # a NaN makes its sum one, or none at all
    return facts.with_columns(rows=facts["used"]) if full and finite else None


def _count(facts: Any, name: str) -> int:
    return int(facts[name].sum()) if name in facts.columns and facts.height else 0


def _value_problems(facts: Any, roles: Roles, nan_policy: Missing) -> list[str]:
    problems = []
    ends = [facts[name].max() for name in ("high", "outcome_high")] + [
        facts[name].min() for name in ("low", "outcome_low")
    ]
    if any(end is not None and math.isinf(end) for end in ends):
        problems.append("Some rows have an infinite score or outcome. Pass finite numbers.")
    problems += _scale_problems(facts, roles)
    if odd := _count(facts, "odd"):
        problems.append(f"treated={roles.treated!r} is neither 0 nor 1 in {odd:,} rows. Pass 0, 1 or booleans.")
    for name, where, remedy in _missing_words(roles):
        if (many := _count(facts, name)) and nan_policy == "raise":
            problems.append(f"{where} in {many:,} rows. {remedy}")
    return problems


NARROWEST, WIDEST = 1e-60, 1e60
"""Between these the fourth powers of scores, and the squares of scores times outcomes, are numbers with all their digits."""


def _scale_problems(facts: Any, roles: Roles) -> list[str]:
    problems = []
    for role, low, high in (("score", "low", "high"), ("outcome", "outcome_low", "outcome_high")):
        problems += off_scale(f"{role}={getattr(roles, role)!r}", *_ends(facts, low, high))
    return problems


def off_scale(said: str, least: float, most: float) -> list[str]:
    """A problem where numbers run from `least` to `most` and the powers of that range are none; infinite ends are another."""
    if not least < most or math.isinf(least) or math.isinf(most) or NARROWEST <= most - least <= WIDEST:
        return []
    return [
        f"{said} runs from {least:.6g} to {most:.6g}, a range whose powers no number holds. "
        "Multiply the column so that its range is close to 1, or take logarithms."
    ]


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


def _ends(facts: Any, low: str, high: str) -> tuple[float, float]:
    """The smallest and the largest of all groups; NaN where no row counts."""
    least, most = facts[low].min(), facts[high].max()
    return (math.nan, math.nan) if least is None else (float(least), float(most))


def _name(label: Any) -> str:
    """A group in words; engines that know no missing whole numbers turn 1 into 1.0."""
    if label is None:
        return UNKNOWN
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _position(asked: tuple[Any, str], labels: Sequence[Any], used: Floats) -> int:
    """Where the reference group stands; the largest group where none was named."""
    reference, column = asked
    if reference is None:
        return int(used.argmax()) if len(used) else 0
    known = [UNKNOWN if label is None else label for label in labels]
    (found,) = matches("reference", [reference], known, of=f"{column!r} with observed outcomes")
    return known.index(found)
