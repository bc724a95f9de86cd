"""Checked candidates and what became of them: a table of scores, outcomes and groups, checked before any group-by."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import matches, order
from evenhand.views.columns import flag, label, number, role_problems, slice_problems
from evenhand.views.sketch import Sketch, Wish, sketched
from evenhand.views.tables import Table, open_table, to_polars

OWN = frozenset({"bin_low", "bin_high", "se", "p", "p_adjusted", "intercept", "slope", "detectable", "share_used"})
"""Columns of the answer that no slice may be called like."""

UNKNOWN = "unknown"
"""What candidates without a group label are called; they are a group of their own."""

Missing = Literal["raise", "omit"]


@dataclass(frozen=True)
class CountedOutcomes:
    """Sums that a database made: a row per slice, scope, bin and group, bins between `edges` (shares of the rows, or scores)."""

    cells: Any
    edges: tuple[Any, ...]

    def where(self, condition: nw.Expr) -> CountedOutcomes:
        """Those of some slices or groups."""
        return replace(self, cells=nw.from_native(self.cells).filter(condition).to_native())


@dataclass(frozen=True)
class Checked:
    """A checked table with columns `score`, `outcome`, `group`, `used` and, where named, `request`, `cluster`, `weight`, `by_0`...

    `used` is 1 in rows whose outcome was observed and counts: treated, at or above the threshold, nothing missing.
    `scope` holds those rows only; the ends and the mean are theirs. `whole` is true where the type of the outcomes lets
    them be nothing but whole numbers. `asked` is the reference group that was named and the column of the groups.
    `facts` are the sums and ranges per slice and group, where the check had to look at the groups anyway. `roles` are the
    columns by role.
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
    roles: Roles
    counted: CountedOutcomes | None
    """What a database counted already; None where the rows are at hand."""

    sketch: Sketch | None
    """Sums by part of the scores, over all of `scope` before it was cut to a range; None where the check did not make them."""

    @property
    def weighted(self) -> bool:
        return self.roles.weight is not None

    def slices(self) -> list[tuple[tuple[Any, ...], Checked]]:
        """The same view slice by slice; one slice without a label where none were asked for."""
        keys = self.roles.keys
        if not keys:
            return [((), self)]
        many = self.facts.select(keys).unique().height
        if many > MOST_SLICES:
            raise EvenhandError(
                f"by={list(self.roles.by)} makes {many:,} slices, more than the {MOST_SLICES:,} that can be tested. "
                "Name columns with fewer values."
            )
        return [(label, self._part(label)) for label in slice_labels(self.facts, keys)]

    def _part(self, label: Sequence[Any]) -> Checked:
        where = zip(self.roles.keys, label, strict=True)
        here = [nw.col(key).is_null() if value is None else nw.col(key) == value for key, value in where]
        return self._restricted(functools.reduce(operator.and_, here))

    def without_small_groups(self, fewest: int) -> tuple[Checked, list[str]]:
        """The view without rows of groups that have fewer rows that count, and what these groups are called."""
        sizes = _over_slices(self.facts)
        small = [label for label, n in sizes.select("group", "used").iter_rows() if n < fewest]
        if not small:
            return self, []
        group = nw.col("group")
        kept = ~group.is_in([one for one in small if one is not None])
        kept = kept & ~group.is_null() if None in small else kept | group.is_null()
        left = replace(self._restricted(kept), counted=self.counted)  # whose query has left them out
        return left, list(map(_name, sorted(small, key=order)))

    def _restricted(self, condition: nw.Expr) -> Checked:
        """The same view where a condition on slices or groups holds."""
        facts = nw.from_native(self.facts).filter(condition).to_native()
        return replace(
            self, lazy=self.lazy.filter(condition), scope=self.scope.filter(condition), facts=facts,
            counted=None if self.counted is None else self.counted.where(condition),
            rows=int(facts["rows"].sum()), dropped=_dropped(facts, self.roles), sketch=None, **_ranges_of(facts),
        )  # fmt: skip

    def group_names(self) -> tuple[str, ...]:
        """What the groups with rows that count are called; a view of slices knows its groups."""
        found = self.facts.filter(self.facts["used"] > 0)["group"].unique()
        return tuple(map(_name, sorted(found, key=order)))

    def holds_reference(self) -> bool:
        """Whether the group that was named as the reference has rows that count."""
        return _name(self.asked[0]) in self.group_names()

    def by_group(self) -> Outcomes:
        """The same view, its groups known; one more pass where the check did not look at them."""
        facts = self.facts
        if facts is None:
            asked = [nw.len().alias("used"), nw.len().alias("mass"), *_range("score", "low", "high")]
            facts = to_polars(self.scope.group_by("group").agg(*asked, *_totals("score", "outcome")))
        facts = facts.filter(facts["used"] > 0)
        if self.roles.by:
            facts = _over_slices(facts)
        refuse_many(facts.height, f"group={self.asked[1]!r}")
        rows = sorted(facts.iter_rows(named=True), key=lambda row: order(row["group"]))
        held = {name: [row[name] for row in rows] for name in ("group", "used", "mass", "low", "high", *_SUMS)}
        return self.grouped(held.pop("group"), **held)

    def grouped(self, labels: Sequence[Any], **per_group: Any) -> Outcomes:
        """The same view with these groups and, for each, the rows that count, the ends of their scores and two sums."""
        known: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(Checked)}
        known |= {name: np.array(values, dtype=np.float64) for name, values in per_group.items()}
        return Outcomes(**known, labels=tuple(labels), reference=_position(self.asked, labels, known["used"]))


@dataclass(frozen=True)
class Outcomes(Checked):
    """Checked rows whose groups are known: `labels` as the table has them, and arrays with one entry per group.

    `used` are rows, `mass` their weights; the sums of scores and outcomes are weighted.
    """

    labels: tuple[Any, ...]
    reference: int
    used: Floats
    mass: Floats
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


MOST_SLICES = 500
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

    weight: str | None = None
    by: tuple[str, ...] = ()

    @property
    def keys(self) -> list[str]:
        """The columns of a checked table that say which slice a row belongs to."""
        return [f"by_{i}" for i in range(len(self.by))]

    def named(self) -> list[tuple[str, str]]:
        more = {"request": self.request, "treated": self.treated, "weight": self.weight}
        more |= {"cluster": self.cluster} if self.cluster != self.request else {}
        given = [(role, column) for role, column in more.items() if column is not None]
        given += [("by", column) for column in self.by]
        return [("score", self.score), ("outcome", self.outcome), ("group", self.group), *given]


def view_outcomes(
    table: Any,
    roles: Roles,
    *,
    reference: Any = None,
    threshold: float | None = None,
    nan_policy: Missing = "raise",
    by_group: bool = False,
    wish: Wish = Wish(),  # noqa: B008
) -> Checked:
    """Check the roles and the values, all problems at once; find the range of scores and outcomes, per group if asked to.

    `wish` : what will be asked of the scores, so that the same pass may find it.
    """
    opened = open_table(table).numbers(roles.score, roles.outcome, roles.treated, roles.weight)
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
    if opened.few:  # chosen and cast once for all that follows
        plain = nw.from_native(to_polars(plain, few=True).lazy())
    simple = not (roles.treated or roles.weight or roles.by or by_group) and threshold is None
    (facts, sketch), known = _plain_facts(plain, opened, roles, wish) if simple else (None, None), None
    lazy = plain if facts is not None else _flagged(plain, roles, threshold)
    if facts is None:
        facts = known = to_polars(_facts(lazy, roles))
    problems = _value_problems(facts, roles, nan_policy)
    if problems:
        raise all_problems(problems, where="The table")
    columns = ("score", "outcome", "group", *_optional(roles), *(["weight"] if roles.weight else []), *roles.keys)
    rows, used = int(facts["rows"].sum()), int(facts["used"].sum())
    if used == rows:  # nothing to leave out, so no pass needs to look again
        lazy, scope = plain.select(*columns, nw.lit(1).alias("used")), plain.select(*columns)
    else:
        lazy = lazy.filter(nw.col("kept") == 1).select(*columns, "used")
        scope = lazy.filter(nw.col("used") == 1)
    dtype = opened.schema[roles.outcome]
    return Checked(
        lazy, scope, opened.backend, opened.origin, **_ranges_of(facts),
        whole=not dtype.is_float() and not dtype.is_decimal(),
        threshold=threshold, rows=rows, dropped=_dropped(facts, roles), asked=(reference, roles.group), facts=known,
        roles=roles, counted=None, sketch=sketch,
    )  # fmt: skip


def view_counted(
    lazy: nw.LazyFrame[Any], backend: str, origin: str, facts: Any, counted: CountedOutcomes, roles: Roles, *, reference: Any,
    threshold: float | None, nan_policy: Missing,
) -> Checked:  # fmt: skip
    """The same from `facts` per slice and group that a database counted, and its sums per bin; `lazy` has no rows."""
    if problems := _value_problems(facts, roles, nan_policy):
        raise all_problems(problems, where="The table")
    return Checked(
        lazy, lazy, backend, origin, **_ranges_of(facts), whole=False, threshold=threshold, rows=int(facts["rows"].sum()),
        dropped=_dropped(facts, roles), asked=(reference, roles.group), facts=facts, roles=roles, counted=counted,
        sketch=None,
    )  # fmt: skip


def _ranges_of(facts: Any) -> dict[str, Any]:
    """The ends of scores and outcomes over all that was counted, and the middle of the outcomes."""
    ends = _ends(facts, "outcome_low", "outcome_high")
    return {
        "score_ends": _ends(facts, "low", "high"),
        "outcome_ends": ends,
        "outcome_mean": _middle(ends, float(facts["outcome_sum"].sum()), float(facts["mass"].sum())),
    }


def _over_slices(facts: Any) -> Any:
    """Facts per group, whatever the slice."""
    import polars as pl

    sums = [pl.col(name).sum() for name in ("used", "mass", *_SUMS)]
    return facts.group_by("group").agg(*sums, pl.col("low").min(), pl.col("high").max())


def slice_labels(facts: Any, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """Labels of the slices, in order."""
    found = list(facts.select(keys).unique().iter_rows())
    return sorted(found, key=lambda label: tuple(map(order, label)))


def _middle(ends: tuple[float, float], total: float, rows: float) -> float:
    """The mean outcome; outcomes that are all one number have that number as their mean, to the last bit on any engine."""
    return 0.0 if not rows else ends[0] if ends[0] == ends[1] else total / rows


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float holds
        return False


def _refuse_bad_roles(opened: Table, roles: Roles) -> None:
    problems = role_problems(opened, roles.named(), ("score", "outcome", "treated", "weight")) + name_problems(roles)
    if problems:
        raise all_problems(problems, where="The call")


def name_problems(roles: Roles) -> list[str]:
    """What is wrong with the columns that were named, whatever the table holds."""
    problems = []
    for one, other in itertools.combinations(("score", "outcome", "group"), 2):
        if (column := getattr(roles, one)) == getattr(roles, other) and column is not None:
            problems.append(f"{one} and {other} are both {column!r}. Pass the score, what became of it, and the group.")
    problems += slice_problems(roles.by, OWN | {"bin"})
    return problems + [f"by={b!r} is also the group. Name another column." for b in roles.by if b == roles.group]


def _optional(roles: Roles) -> list[str]:
    wanted = ("request", "cluster") if roles.clustered else ("request",)
    return [role for role in wanted if getattr(roles, role) is not None]


def _renamed(opened: Table, roles: Roles, *, as_categories: bool = False) -> nw.LazyFrame[Any]:
    """The columns by role; groups as text, or as the categories they are: to tell these apart, nobody has to read."""
    schema = opened.schema
    chosen = [
        number(roles.score, opened).alias("score"),
        number(roles.outcome, opened).alias("outcome"),
    ]
    group = label(roles.group, opened)
    named = schema[roles.group] in (nw.Categorical, nw.Enum, nw.String)
    if as_categories and schema[roles.group] in (nw.Categorical, nw.Enum):
        chosen.append(opened.col(roles.group).alias("group"))
    else:
        chosen.append((group.fill_null(UNKNOWN) if named else group).alias("group"))
    optional = {role: getattr(roles, role) for role in _optional(roles)}
    chosen += [label(column, opened).alias(role) for role, column in optional.items()]
    numbers = {"treated": roles.treated, "weight": roles.weight}
    chosen += [number(column, opened).alias(role) for role, column in numbers.items() if column is not None]
    chosen += [label(b, opened).alias(key) for key, b in zip(roles.keys, roles.by, strict=True)]
    return opened.lazy.select(*chosen)


def _flagged(lazy: nw.LazyFrame[Any], roles: Roles, threshold: float | None) -> nw.LazyFrame[Any]:
    """Flags that say what is wrong with a row and whether its outcome counts."""
    score, outcome = nw.col("score"), nw.col("outcome")
    wanted = flag(nw.col("treated") > 0) if roles.treated is not None else nw.lit(1).cast(nw.Int64)
    if threshold is not None:
        wanted = wanted * flag(score >= threshold)
    flags = {
        "no_score": flag(score.is_null() | score.is_nan()),
        "no_outcome": wanted * flag(outcome.is_null() | outcome.is_nan()),
    }
    if roles.treated is not None:
        treated = nw.col("treated")
        flags["odd"] = flag(~((treated == 0) | (treated == 1)) & ~treated.is_null() & ~treated.is_nan())
        flags["untold"] = flag(treated.is_null() | treated.is_nan())
    flags |= {f"no_{role}": flag(nw.col(role).is_null()) for role in _optional(roles)}
    if roles.weight is not None:
        weight = nw.col("weight")
        flags["no_weight"] = flag(weight.is_null() | weight.is_nan())
        flags["negative_weight"] = flag(~weight.is_nan() & ((weight < 0) | (weight == math.inf)))
        flags["zero_weight"] = flag(weight == 0)
    lazy = lazy.with_columns(**flags, wanted=wanted)
    wrong = [nw.col(name) for name in flags if name not in ("odd", "negative_weight")]
    lazy = lazy.with_columns(flag(sum(wrong[1:], wrong[0]) == 0).alias("kept"))
    lazy = lazy.with_columns((nw.col("kept") * nw.col("wanted")).alias("used"))
    counted = nw.col("used") == 1
    weight = nw.col("weight") if roles.weight is not None else nw.lit(1.0)
    seen = {"s": score, "y": outcome, "w": weight, "ws": weight * score, "wy": weight * outcome}
    return lazy.with_columns(**{name: nw.when(counted).then(value) for name, value in seen.items()})


_SUMS = ("score_sum", "outcome_sum")
_FLAGS = (
    "no_score", "no_outcome", "odd", "untold", "no_request", "no_cluster", "no_weight", "negative_weight", "zero_weight", "used",
)  # fmt: skip


def _facts(lazy: nw.LazyFrame[Any], roles: Roles) -> nw.LazyFrame[Any]:
    """One pass, a row per slice and group: what is missing, and the range and sums of scores and outcomes that count."""
    held = lazy.collect_schema().names()
    asked = [nw.len().alias("rows"), *(nw.col(name).sum() for name in _FLAGS if name in held)]
    return lazy.group_by(*roles.keys, "group").agg(
        *asked, nw.col("w").sum().alias("mass"), *_ranges("s", "y"), *_totals("ws", "wy")
    )


def _ranges(score: str, outcome: str) -> list[nw.Expr]:
    return [*_range(score, "low", "high"), *_range(outcome, "outcome_low", "outcome_high")]


def _range(column: str, low: str, high: str) -> list[nw.Expr]:
    return [nw.col(column).min().alias(low), nw.col(column).max().alias(high)]


def _totals(score: str, outcome: str) -> list[nw.Expr]:
    return [nw.col(column).sum().alias(name) for column, name in zip((score, outcome), _SUMS, strict=True)]


def _plain_facts(lazy: nw.LazyFrame[Any], opened: Table, roles: Roles, wish: Wish) -> tuple[Any, Sketch | None]:
    """The same for all groups at once, a quarter of the work, if nothing is missing; None where something is."""
    columns = ("score", "outcome", *_optional(roles))
    if lazy.implementation.is_polars():
        whole = opened.schema[roles.score].is_integer()
        categories = not opened.few and opened.schema[roles.group] in (nw.Categorical, nw.Enum)
        rows = _renamed(opened, roles, as_categories=True) if categories else lazy
        facts, sketch = sketched(rows, columns, wish, whole=whole) or (None, None)
        if sketch is not None and categories:
            sketch = sketch.regrouped([UNKNOWN if label is None else label for label in sketch.labels])
        return facts, sketch
    held = [nw.col(name).count().alias(f"held_{name}") for name in columns]
    sums = _totals("score", "outcome")
    facts = to_polars(lazy.select(nw.len().alias("used"), *held, *_ranges("score", "outcome"), *sums))
    rows = facts["used"][0]
    full = all(facts[f"held_{name}"][0] == rows for name in columns)
    found = [facts[name][0] for name in _SUMS]
    finite = rows and all(v is not None and math.isfinite(v) for v in found)  # a NaN makes its sum one, or none at all
    return facts.with_columns(rows=facts["used"], mass=facts["used"]) if full and finite else None, None


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
    if odd := _count(facts, "negative_weight"):
        problems.append(
            f"weight={roles.weight!r} is negative or infinite in {odd:,} rows. Pass weights of zero or more."
        )
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
        ("no_weight", f"weight={roles.weight!r} is missing (null or NaN)", drop),
        *([("no_cluster", f"cluster={roles.cluster!r} is missing", drop)] if roles.cluster != roles.request else []),
    ]


def _dropped(facts: Any, roles: Roles) -> dict[str, int]:
    counts = {fact: _count(facts, name) for name, fact, _ in _missing_words(roles)}
    counts[f"weight={roles.weight!r} is zero"] = _count(facts, "zero_weight")
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
