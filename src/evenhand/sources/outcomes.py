"""Scored candidates and what became of them: a table of scores, outcomes and groups with known column names, checked first."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, listing, refuse_problems
from evenhand.labels import match, matches, no_label, order, whole
from evenhand.sources.engine import Cells, Engine
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Periods, Relation, in_periods, is_number, role_problems, slice_problems
from evenhand.sources.sql import INFINITY, columns, count_where, double, quoted, select, text

Ints = np.typing.NDArray[np.int64]

OWN = frozenset({"bin_low", "bin_high", "se", "p", "p_adjusted", "intercept", "slope", "detectable", "share_used"})
"""Columns of the answer that no slice may be called like."""

UNKNOWN = "unknown"
"""What candidates without a group label are called where they form a group."""

MOST_SLICES = 500
MOST_GROUPS = 1_000
"""Every gap has a covariance with every other one: the work grows with the cube of the groups."""

NARROWEST, WIDEST = 1e-60, 1e60
"""Between these the fourth powers of scores, and the squares of scores times outcomes, are numbers with all their digits."""

Missing = Literal["raise", "omit"]
Unlabelled = Literal["drop", "group", "raise"]


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
    periods: tuple[Periods, ...] = ()
    """Which columns of `by` are dates, and how long their periods are."""

    unknown: Unlabelled = "drop"
    """What becomes of rows without a group label."""

    positive: Any = None
    """The label of success, where outcomes are two labels."""

    @property
    def keys(self) -> list[str]:
        return [f"by_{i}" for i in range(len(self.by))]

    @property
    def shared(self) -> list[str]:
        """Roles of columns that say which rows belong together."""
        roles = ("request", "cluster") if self.clustered else ("request",)
        return [role for role in roles if getattr(self, role) is not None]

    def named(self) -> list[tuple[str, str]]:
        """Every role that was given a column, with that column."""
        more = {"request": self.request, "treated": self.treated, "weight": self.weight}
        more |= {"cluster": self.cluster} if self.cluster != self.request else {}
        optional = [(role, column) for role, column in more.items() if column is not None]
        optional += [("by", column) for column in self.by]
        return [("score", self.score), ("outcome", self.outcome), ("group", self.group), *optional]


@dataclass(frozen=True)
class Outcomes:
    """A checked table of candidates, or the rows of one slice or of some groups.

    Arrays have one entry per group that has rows that count; `used` are rows, `mass` their weights, and the sums of scores and
    outcomes are weighted.

    Attributes
    ----------
    engine : where its queries run.
    table : what stands after FROM: `by_0..`, `label`, `score`, `outcome`, and `request`, `cluster`, `weight` where named.
    numbered : the same with a `row_number` where rows have an order and requests are named, else nothing.
    complete : condition on rows that nothing is missing from. observable : on those whose outcome could be observed; both are
        empty where all rows meet them. A row that meets both counts.
    backend : the dataframe library in which results are handed out.
    threshold : the score from which candidates are treated.
    reference_group : the label of the reference group that was named, and the column of the groups.
    facts : a frame with a row per slice and group: rows, flags, sums and ranges.
    roles : the columns by role.
    """

    engine: Engine
    table: str
    numbered: str
    complete: str
    observable: str
    backend: str
    threshold: float | None
    reference_group: tuple[Any, str]
    facts: Any
    roles: Roles

    @property
    def weighted(self) -> bool:
        return self.roles.weight is not None

    @cached_property
    def rows(self) -> int:
        return int(self.facts["rows"].sum())

    @cached_property
    def dropped(self) -> dict[str, int]:
        words = _missing_words(self.roles) | {"no_mass": f"weight={self.roles.weight!r} is zero"}
        return {fact: rows for name, fact in words.items() if (rows := _count(self.facts, name))}

    @cached_property
    def score_ends(self) -> tuple[float, float]:
        return _ends(self.facts, "low", "high")

    @cached_property
    def outcome_ends(self) -> tuple[float, float]:
        return _ends(self.facts, "outcome_low", "outcome_high")

    @cached_property
    def outcome_mean(self) -> float:
        """The mean outcome; outcomes that are all one number have that as their mean, to the last bit on any engine."""
        (low, high), mass = self.outcome_ends, float(self.facts["mass"].sum())
        return 0.0 if not mass else low if low == high else float(self.facts["outcome_sum"].sum()) / mass

    @cached_property
    def groups(self) -> Any:
        """A frame with a row per group that has rows that count, in order: its label, counts, ranges and sums."""
        groups = _over_slices(self.facts.filter(self.facts["used"] > 0))
        labels = groups["label"].to_list()
        return groups[sorted(range(len(labels)), key=lambda i: order(labels[i]))]

    def _per_group(self, name: str) -> Floats:
        return np.asarray(self.groups[name].to_numpy(), dtype=np.float64)

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        return tuple(self.groups["label"].to_list())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The groups in words."""
        return tuple(map(name_of, self.labels))

    @cached_property
    def used(self) -> Floats:
        return self._per_group("used")

    @cached_property
    def mass(self) -> Floats:
        return self._per_group("mass")

    @cached_property
    def low(self) -> Floats:
        return self._per_group("low")

    @cached_property
    def high(self) -> Floats:
        return self._per_group("high")

    @cached_property
    def score_sum(self) -> Floats:
        return self._per_group("score_sum")

    @cached_property
    def outcome_sum(self) -> Floats:
        return self._per_group("outcome_sum")

    @cached_property
    def reference(self) -> int:
        """Where the reference group stands among the labels; the largest group where none was named."""
        reference, column = self.reference_group
        if reference is None:
            return int(self.used.argmax()) if len(self.used) else 0
        labels = [UNKNOWN if label is None else label for label in self.labels]
        (match,) = matches("reference", [reference], labels, of=f"{column!r} with observed outcomes")
        return labels.index(match)

    @property
    def has_labels(self) -> bool:
        """Whether any row read belongs to a group."""
        return self.rows > _count(self.facts, "no_group")

    def holds_reference(self) -> bool:
        """Whether the group that was named as the reference has rows that count."""
        return name_of(self.reference_group[0]) in self.names

    def check_groups(self) -> None:
        """Refuse too many groups, and a reference that is none of them."""
        refuse_many(self.groups.height, f"group={self.reference_group[1]!r}")
        _ = self.reference

    @property
    def sql(self) -> str:
        """A SELECT of the complete rows, with `used`: 1 where they count, else 0."""
        return self._select(self.table, "", f"{self._used} AS used")

    @property
    def scope(self) -> str:
        return self._select(self.table, self.observable)

    @property
    def ordered(self) -> str:
        """`sql` with a `row_number`; nothing where rows have no order, or no requests."""
        return self._select(self.numbered, "", f"{self._used} AS used", "row_number") if self.numbered else ""

    @property
    def _used(self) -> str:
        return f"CASE WHEN {self.observable} THEN 1 ELSE 0 END" if self.observable else "1"

    @property
    def _columns(self) -> list[str]:
        weight = ["weight"] if self.weighted else []
        return [*self.roles.keys, "label", "score", "outcome", *self.roles.shared, *weight]

    def _select(self, table: str, condition: str, *more: str) -> str:
        where = " AND ".join(filter(None, [self.complete, condition]))
        listed = ", ".join([columns(self._columns), *more])
        return f"SELECT {listed} FROM {table} AS candidates{f' WHERE {where}' if where else ''}"

    def slices(self) -> list[tuple[tuple[Any, ...], Outcomes]]:
        """The table slice by slice; one slice without a label where there is no `by`."""
        import polars as pl

        keys = self.roles.keys
        if not keys:
            return [((), self)]
        labels = sorted(self.facts.select(keys).unique().iter_rows(), key=lambda label: tuple(map(order, label)))
        if len(labels) > MOST_SLICES:
            raise EvenhandError(
                f"by={list(self.roles.by)} makes {len(labels):,} slices, more than the {MOST_SLICES:,} that can be tested. "
                "Name columns with fewer values."
            )
        slices = pl.DataFrame(labels, schema={key: self.facts.schema[key] for key in keys}, orient="row")
        slices = slices.with_columns(slice_number=pl.int_range(pl.len(), dtype=pl.Int32))
        facts = self.facts.join(slices, on=keys, how="left", nulls_equal=True, maintain_order="left")
        # in a temporary table sorted by slice, so that a slice's queries read no other
        table = self.engine.keep(
            f"SELECT candidates.*, slices.slice_number FROM ({self.ordered or self.sql}) AS candidates "
            f"JOIN {self.engine.bring(slices)} AS slices ON {_same('slices', keys)} ORDER BY slices.slice_number"
        )
        rows = replace(self, table=table, numbered=table if self.numbered else "", observable="used = 1")
        return [
            (label, replace(rows, complete=f"slice_number = {k}", facts=facts.filter(pl.col("slice_number") == k)))
            for k, label in enumerate(labels)
        ]

    def without_small_groups(self, min_units: int) -> tuple[Outcomes, list[str]]:
        """The table without rows of groups that have fewer rows that count, and what these groups are called."""
        import polars as pl

        sizes = _over_slices(self.facts)
        if self.roles.unknown != "group":
            sizes = sizes.filter(pl.col("label").is_not_null())
        small = sizes.filter(pl.col("used") < min_units)["label"]
        if not len(small):
            return self, []
        large = sizes.filter(pl.col("used") >= min_units).select("label")
        join = f"JOIN {self.engine.bring(large)} AS large ON {_same('large', ['label'])}"
        table, numbered = (
            f"(SELECT candidates.* FROM {rows} AS candidates {join})" if rows else ""
            for rows in (self.table, self.numbered)
        )
        facts = self.facts.join(large, on="label", how="semi", nulls_equal=True)
        left_out = list(map(name_of, sorted(small.to_list(), key=order)))
        return replace(self, table=table, numbered=numbered, facts=facts), left_out

    def within(self, low: float, high: float) -> str:
        """A SELECT of the rows that count with scores from one end to the other."""
        if (low, high) == self.score_ends:
            return self.scope
        return f"SELECT * FROM ({self.scope}) AS scope WHERE score >= {double(low)} AND score <= {double(high)}"

    def scores(self, low: float, high: float) -> str:
        """A SELECT of these scores as `value`."""
        return f"SELECT score AS value FROM ({self.within(low, high)}) AS scope"

    def bring_cells(self, bins: int, **numbers: Floats) -> str:
        """The name of a table in the engine with a row per `bin` and `label`, bin by bin, and these numbers."""
        import polars as pl

        label = pl.Series("label", list(self.labels) * bins, dtype=self.facts.schema["label"])
        number = np.repeat(np.arange(bins, dtype=np.int32), len(self.labels))
        return self.engine.bring({"bin": number, "label": label, **numbers})

    @cached_property
    def group_codes(self) -> str:
        """The name of a table in the engine with the `code` of every group's `label`: its position among the labels."""
        return self.engine.bring(self._coded_labels)

    @property
    def _coded_labels(self) -> Any:
        import polars as pl

        label = pl.Series("label", list(self.labels), dtype=self.facts.schema["label"])
        return pl.DataFrame([label, pl.Series("code", range(len(self.labels)), dtype=pl.Int32)])

    def codes(self, cells: Cells) -> Ints:
        """Positions among the labels of the `label` of each cell; -1 where a label is none of them."""
        joined = cells.frame.select("label").join(
            self._coded_labels, on="label", how="left", nulls_equal=True, maintain_order="left"
        )
        return np.asarray(joined["code"].fill_null(-1).to_numpy().astype(np.int64))

    def rows_that_count(self, low: float, high: float) -> dict[str, Any]:
        """Code, score and outcome, weight and cluster where named, of the rows between two scores, ordered by what they hold."""
        return self._fetch(self.within(low, high), ["score", "outcome"])

    def rows_with_outcome(self) -> dict[str, Any]:
        """Code, outcome, `used`, and weight and cluster where named, of all rows whose outcome the table has, in their order."""
        return self._fetch(f"SELECT * FROM ({self.sql}) AS candidates WHERE outcome IS NOT NULL", ["outcome", "used"])

    def _fetch(self, query: str, names: Sequence[str]) -> dict[str, Any]:
        """Columns of rows, weight and cluster where named, sorted by code and then by each of them; clusters as codes."""
        names = [*names, *(name for name in ("weight", "cluster") if name in self._columns)]
        frame = self._with_codes(query, names).sort("code", *names)
        columns_of_rows = {name: frame[name].to_numpy() for name in names if name != "cluster"}
        columns_of_rows["code"] = frame["code"].to_numpy().astype(np.int64)
        if "cluster" in names:
            columns_of_rows["cluster"] = frame["cluster"].rank("dense").to_numpy().astype(np.int64) - 1
        return columns_of_rows

    def _with_codes(self, query: str, names: Sequence[str]) -> Any:
        """A frame of some columns of rows and of the `code` of their group; rows of other groups are left out."""
        labels = f"{self.group_codes} AS labels ON labels.label IS NOT DISTINCT FROM chosen.label"
        return self.engine.cells(f"SELECT code, {columns(names)} FROM ({query}) AS chosen JOIN {labels}").frame

    def candidates(self, lowest: float) -> dict[str, Any]:
        """Request, code, score, outcome (0 where nobody saw) and `used` of rows that hold a slot or are scored at least `lowest`.

        In the order of the table; in one of their own where there are no requests, so that the table's does not decide which
        part a row is dealt into. Rows of groups of whom no outcome was ever seen are left out: nothing can be predicted for them.
        """
        has_requests = self.roles.request is not None
        names = [*(["request"] if has_requests else []), "score", "outcome", "used"]
        rows, place = (self.ordered, ["row_number"]) if self.ordered else (self.sql, [])
        where = f" WHERE used = 1 OR score >= {double(lowest)}" if lowest > -np.inf else ""
        frame = self._with_codes(f"SELECT * FROM ({rows}) AS candidates{where}", [*names, *place])
        frame = frame.sort(*(place or ["score", "code", "outcome", "used"]))
        return {
            "request": frame["request"].rank("dense").to_numpy() if has_requests else np.zeros(frame.height, np.int64),
            "score": frame["score"].to_numpy(),
            "code": frame["code"].to_numpy().astype(np.int64),
            "outcome": frame["outcome"].fill_null(0.0).to_numpy(),
            "used": frame["used"].to_numpy() == 1,
        }


def refuse_many(groups: int, words: str) -> None:
    """Stop before a column of ids keeps everybody waiting; `words` is what the caller knows the groups as."""
    if groups > MOST_GROUPS:
        raise EvenhandError(
            f"{words} has {groups:,} different values, too many to compare. Group them into at most {MOST_GROUPS:,}."
        )


def open_outcomes(
    table: Any, roles: Roles, *, reference: Any = None, threshold: float | None = None, nan_policy: Missing = "raise"
) -> Outcomes:
    """A table with its roles checked and everything that is wrong with its values counted by one query."""
    opened = open_table(table, columns=[column for _, column in roles.named()])
    opened = in_periods(opened, roles.periods)
    opened = _with_success(opened, roles) if roles.positive is not None else opened
    opened = opened.with_numbers(roles.score, roles.outcome, roles.treated, roles.weight)
    problems = role_problems(opened, roles.named(), ("score", "outcome", "treated", "weight"))
    if is_text(opened, roles.outcome) and len(labels := _labels_of(opened, roles.outcome)) == 2:
        generic = role_problems(opened, [("outcome", roles.outcome)], ("outcome",))
        remedy = f"Pass positive= with the label of success, such as positive={labels[-1]!r}."
        in_words = f"outcome={roles.outcome!r} is text: {labels[0]!r} and {labels[1]!r}. {remedy}"
        problems = [in_words if p in generic else p for p in problems]
    refuse_problems(problems + name_problems(roles), where="The call")
    if nan_policy not in ("raise", "omit"):
        raise EvenhandError(f"nan_policy={nan_policy!r} does not fit this question. Use 'raise' or 'omit'.")
    if threshold is not None:
        threshold = _checked_threshold(threshold)
    candidates = _candidates(opened, roles)
    facts = _facts(opened.engine, opened.select(candidates), roles, threshold)
    refuse_problems(_value_problems(facts, roles, nan_policy), where="The table")
    has_order = opened.engine.has_row_order and roles.request is not None
    numbered = {**candidates, "row_number": "ROW_NUMBER() OVER ()"}
    # where there is nothing to leave out, no query needs to look again
    is_whole = int(facts["used"].sum()) == int(facts["rows"].sum())
    return Outcomes(
        opened.engine, f"({opened.select(candidates)})", f"({opened.select(numbered)})" if has_order else "",
        "" if is_whole else _complete(roles, threshold), "" if is_whole else _observable(roles, threshold),
        opened.backend, threshold, (reference, roles.group), facts, roles,
    )  # fmt: skip


MOST_LABELS = 10
"""Labels of an outcome that a message lists, and one more is asked for."""


def is_text(opened: Relation, column: str) -> bool:
    return column in opened.schema and opened.label_type(column) == nw.String


def _labels_of(opened: Relation, column: str) -> list[Any]:
    """A few of the labels of a column, missing ones left out."""
    labels = f"SELECT DISTINCT label FROM ({opened.select({'label': opened.label(column)})}) AS labels"
    cells = opened.engine.cells(f"{labels} WHERE label IS NOT NULL LIMIT {MOST_LABELS + 1}")
    return sorted(whole(cells.frame["label"].to_list()), key=order)


def _with_success(opened: Relation, roles: Roles) -> Relation:
    """The table with outcomes of 1 where the label is that of success, and 0 where it is the other one."""
    column = roles.outcome
    if column not in opened.schema or not (is_text(opened, column) or is_number(opened.schema[column])):
        return opened  # no column of labels: said with all other problems
    labels = _labels_of(opened, column)
    if len(labels) > 2:
        raise EvenhandError(
            f"outcome={column!r} has more than two labels: {listing(map(repr, labels), MOST_LABELS)}. positive= is for two: make "
            "the others missing, or pass a column of 0 and 1."
        )
    success = match(roles.positive, labels)
    if success not in labels and labels:
        raise EvenhandError(no_label("positive", [roles.positive], labels, of=f"outcome={column!r}"))
    is_success = text(success) if is_text(opened, column) else double(float(success))
    label = opened.label(column) if is_text(opened, column) else opened.number(column)
    outcome = f"CASE WHEN {label} = {is_success} THEN 1 WHEN {label} IS NOT NULL THEN 0 END"
    return opened.with_column(column, outcome, nw.Int64())


def _checked_threshold(threshold: Any) -> float:
    is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    with contextlib.suppress(OverflowError):  # a whole number that no float holds
        if is_number and math.isfinite(threshold):
            return float(threshold)
    raise EvenhandError(
        f"threshold={threshold!r} is not a {'finite ' if is_number else ''}number. "
        "Pass the score from which candidates are treated."
    )


def _candidates(opened: Relation, roles: Roles) -> dict[str, str]:
    """SQL of every column by our name."""
    chosen = {key: opened.label(b) for key, b in zip(roles.keys, roles.by, strict=True)}
    label = opened.label(roles.group)
    is_text = opened.label_type(roles.group) == nw.String
    chosen["label"] = f"COALESCE({label}, {text(UNKNOWN)})" if is_text and roles.unknown == "group" else label
    chosen |= {"score": opened.number(roles.score), "outcome": opened.number(roles.outcome)}
    chosen |= {role: opened.label(getattr(roles, role)) for role in roles.shared}
    numbers = {"weight": roles.weight, "treated": roles.treated}
    return chosen | {role: opened.number(column) for role, column in numbers.items() if column is not None}


def _observable(roles: Roles, threshold: float | None) -> str:
    """Condition on rows whose outcome could be observed; nothing where that is all of them."""
    conditions = ["treated > 0"] if roles.treated is not None else []
    conditions += [f"score >= {double(threshold)}"] if threshold is not None else []
    return " AND ".join(conditions)


def _flags(roles: Roles, threshold: float | None) -> dict[str, str]:
    """Conditions on rows that something is wrong with, by name; those with a flag `no_...` are left out."""
    observable = _observable(roles, threshold)
    flags = {"no_score": "score IS NULL", "no_outcome": f"outcome IS NULL{f' AND {observable}' if observable else ''}"}
    flags |= {} if roles.unknown == "group" else {"no_group": "label IS NULL"}
    flags |= {f"no_{role}": f"{role} IS NULL" for role in roles.shared}
    if roles.treated is not None:
        flags |= {"no_treated": "treated IS NULL", "odd": "treated <> 0 AND treated <> 1"}
    if roles.weight is not None:
        flags |= {"no_weight": "weight IS NULL", "no_mass": "weight = 0"}
        flags["negative_weight"] = f"weight < 0 OR weight = {INFINITY}"
    return flags


def _complete(roles: Roles, threshold: float | None) -> str:
    """Condition on rows that nothing is missing from."""
    flags = _flags(roles, threshold)
    return " AND ".join(f"NOT ({condition})" for name, condition in flags.items() if name.startswith("no_"))


def _facts(engine: Engine, candidates: str, roles: Roles, threshold: float | None) -> Any:
    """A frame with a row per slice and group: what is missing, and the range and sums of scores and outcomes that count."""
    import polars as pl

    counting = " AND ".join(filter(None, [_complete(roles, threshold), _observable(roles, threshold)]))
    mass, weight = ("weight", "weight * ") if roles.weight is not None else ("1", "")
    counts = {"rows": "COUNT(*)"}
    counts |= {name: count_where(condition) for name, condition in _flags(roles, threshold).items()}
    counts["used"] = count_where("is_used = 1")
    sums = {"mass": mass, "score_sum": f"{weight}score", "outcome_sum": f"{weight}outcome"}
    numbers = {name: f"COALESCE(SUM(CASE WHEN is_used = 1 THEN {value} END), 0)" for name, value in sums.items()}
    for prefix, value in (("", "score"), ("outcome_", "outcome")):
        numbers[f"{prefix}low"] = f"MIN(CASE WHEN is_used = 1 THEN {value} END)"
        numbers[f"{prefix}high"] = f"MAX(CASE WHEN is_used = 1 THEN {value} END)"
    keys = columns([*roles.keys, "label"])
    marked = f"SELECT *, CASE WHEN {counting} THEN 1 ELSE 0 END AS is_used FROM ({candidates}) AS candidates"
    cells = engine.cells(f"SELECT {keys}, {select(counts | numbers)} FROM ({marked}) AS marked GROUP BY {keys}")
    return cells.frame.with_columns(pl.col(list(counts)).cast(pl.Int64), pl.col(list(numbers)).cast(pl.Float64))


def _same(table: str, keys: Sequence[str]) -> str:
    """Join condition: the labels are equal, two missing ones included."""
    return " AND ".join(f"candidates.{quoted(key)} IS NOT DISTINCT FROM {table}.{quoted(key)}" for key in keys)


def _over_slices(facts: Any) -> Any:
    """Facts per group, whatever the slice."""
    import polars as pl

    sums = [pl.col(name).sum() for name in ("used", "mass", "score_sum", "outcome_sum")]
    return facts.group_by("label", maintain_order=True).agg(*sums, pl.col("low").min(), pl.col("high").max())


def name_problems(roles: Roles) -> list[str]:
    """Problems with the named columns alone, whatever the table holds."""
    problems = []
    for role, other in itertools.combinations(("score", "outcome", "group"), 2):
        if (column := getattr(roles, role)) == getattr(roles, other) and column is not None:
            problems.append(
                f"{role} and {other} are both {column!r}. Pass the score, what became of it, and the group."
            )
    problems += slice_problems(roles.by, OWN | {"bin"})
    return problems + [f"by={b!r} is also the group. Name another column." for b in roles.by if b == roles.group]


def _count(facts: Any, name: str) -> int:
    return int(facts[name].sum()) if name in facts.columns and facts.height else 0


def _value_problems(facts: Any, roles: Roles, nan_policy: Missing) -> list[str]:
    problems = []
    ends = {"score": _ends(facts, "low", "high"), "outcome": _ends(facts, "outcome_low", "outcome_high")}
    if any(math.isinf(end) for both in ends.values() for end in both):
        problems.append("Some rows have an infinite score or outcome. Pass finite numbers.")
    for role, both in ends.items():
        problems += off_scale(f"{role}={getattr(roles, role)!r}", *both)
    if odd := _count(facts, "odd"):
        problems.append(f"treated={roles.treated!r} is neither 0 nor 1 in {odd:,} rows. Pass 0, 1 or booleans.")
    if odd := _count(facts, "negative_weight"):
        problems.append(
            f"weight={roles.weight!r} is negative or infinite in {odd:,} rows. Pass weights of zero or more."
        )
    words_by_flag = _missing_words(roles)
    if roles.unknown == "raise" and (many := _count(facts, "no_group")):
        problems.append(f"{words_by_flag['no_group']} in {many:,} rows. Fill it, or pass unknown='drop' or 'group'.")
    for name, words in words_by_flag.items():
        if (many := _count(facts, name)) and nan_policy == "raise" and name != "no_group":
            is_never_treated = name == "no_outcome" and roles.treated is None
            treated = " If the outcome is seen for some rows only, pass treated=." if is_never_treated else ""
            problems.append(f"{words} in {many:,} rows. Fill them, or pass nan_policy='omit'.{treated}")
    return problems


def off_scale(words: str, least: float, most: float) -> list[str]:
    """A problem where numbers run from `least` to `most` and the powers of that range are none; infinite ends are another."""
    if not least < most or math.isinf(least) or math.isinf(most) or NARROWEST <= most - least <= WIDEST:
        return []
    return [
        f"{words} runs from {least:.6g} to {most:.6g}, a range whose powers no number holds. "
        "Multiply the column so that its range is close to 1, or take logarithms."
    ]


def _missing_words(roles: Roles) -> dict[str, str]:
    """What is missing in rows with a flag, by its name."""
    return {f"no_{role}": f"{role}={column!r} is missing" for role, column in roles.named() if role != "by"}


def _ends(facts: Any, low: str, high: str) -> tuple[float, float]:
    """The smallest and the largest of all groups; NaN where no row counts."""
    least, most = facts[low].min(), facts[high].max()
    return (math.nan, math.nan) if least is None else (float(least), float(most))


def name_of(label: Any) -> str:
    """A group in words; engines that know no missing whole numbers turn 1 into 1.0."""
    if label is None:
        return UNKNOWN
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
