"""Who received what: a table of units and amounts, checked before any group-by."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.views.columns import how_many, label, number, role_problems, slice_problems
from evenhand.views.tables import Table, fits_int64, missing_columns, open_table, to_polars

LARGEST_SUM = 9e18
"""Above this an int64 sum could wrap; amounts are then added as float64, good to 16 digits."""

NO_ROWS = "The table has no rows. Pass a table of who received what; check the path or the filter before it."

NanPolicy = Literal["raise", "omit", "propagate"]


@dataclass(frozen=True)
class Amount:
    """One amount column: its name in the user's table, its name here, and how it may be added up."""

    name: str | None
    column: str
    integer: bool
    missing: int


@dataclass(frozen=True)
class Benefits:
    """A checked table with columns `unit`, `by_0..`, `amount_0..` and `weight`, whichever roles were named, and `marks`."""

    lazy: nw.LazyFrame[Any]
    backend: str
    origin: str
    unit: str | None
    by: tuple[str, ...]
    amounts: tuple[Amount, ...]
    weight: str | None
    rows: int
    nan_policy: NanPolicy
    dropped: dict[str, int]
    counted: Any = None
    """What a database counted already (`engine/counted.py`); the lazy table is then empty."""
    anywhere: bool = False
    """Whether Polars can look at some rows, wherever they stand, without reading those before them."""

    @property
    def keys(self) -> list[str]:
        """Our names of the slice columns."""
        return [f"by_{i}" for i in range(len(self.by))]

    @property
    def missing(self) -> int:
        return sum(a.missing for a in self.amounts)

    def with_lazy(self, lazy: nw.LazyFrame[Any]) -> Benefits:
        return replace(self, lazy=lazy, anywhere=False)


def view_benefits(
    table: Any,
    *,
    unit: str | None,
    amount: str | Sequence[str] | None,
    by: Sequence[str] = (),
    weight: str | None = None,
    nan_policy: NanPolicy = "raise",
    elsewhere: Sequence[str] = (),
    part: str = "",
    marks: Mapping[str, str] | None = None,
) -> Benefits:
    """Check the roles and count what is wrong with the values, all at once.

    `elsewhere` names slice columns that another table (the population) holds; they are joined in later. `part` is the
    role (`"source"`, `"group"`) that the last column of `by` plays where that one is not a slice. `marks` are labels that
    every row has, by role (`{"arm": "variant"}`); they come out under the name of the role.
    """
    marks = dict(marks or {})
    names: list[Any] = [] if amount is None else list(amount) if isinstance(amount, (list, tuple)) else [amount]
    opened = open_table(table).numbers(*names, weight)
    if nan_policy not in ("raise", "omit", "propagate"):
        raise EvenhandError(f"nan_policy={nan_policy!r} is unknown. Use 'raise', 'omit' or 'propagate'.")
    own_by = [b for b in by if b not in elsewhere]
    _refuse_bad_names(
        opened,
        unit,
        names,
        own_by,
        list(by),
        weight,
        part,
        marks,
        multiple=not isinstance(amount, str) and amount is not None,
    )
    lazy = _renamed(opened, unit, names, list(by), elsewhere, weight, marks)
    needed = ({"unit": unit} if unit is not None else {}) | marks
    held = to_polars(lazy, few=True) if opened.few else None
    if held is not None:  # chosen and cast once for all that follows
        lazy = nw.from_native(held.lazy())
    facts = _facts(lazy, names, needed, weight, opened.count, held)
    problems = value_problems(facts, names, needed, weight, nan_policy)
    if problems:
        raise all_problems(problems, where="The table")
    dropped = {}
    for role, column in needed.items():
        if facts[f"{role}_null"]:
            lazy = lazy.filter(~nw.col(role).is_null())
            dropped[f"{column} is missing"] = int(facts[f"{role}_null"])
    amounts = tuple(
        Amount(name, f"amount_{i}", _stays_integer(opened.schema[name], facts, i), int(facts[f"missing_{i}"]))
        for i, name in enumerate(names)
    ) or (Amount(None, "", True, 0),)
    for a in amounts:
        if a.missing and nan_policy == "omit":
            dropped[f"{a.name} is missing"] = a.missing
    return Benefits(
        lazy, opened.backend, opened.origin, unit, tuple(by), amounts, weight, int(facts["rows"]), nan_policy, dropped,
        anywhere=opened.count is not None and not dropped,
    )  # fmt: skip


def _refuse_bad_names(
    opened: Table,
    unit: str | None,
    names: list[str],
    own_by: list[str],
    by: list[str],
    weight: str | None,
    part: str,
    marks: Mapping[str, str],
    *,
    multiple: bool,
) -> None:
    named: list[tuple[str, Any]] = [("unit", unit), ("weight", weight), *marks.items()]
    named += [("amount", a) for a in names] + [("by", b) for b in by]
    nameless = [(role, name) for role, name in named if name is not None and not isinstance(name, str)]
    if nameless:
        raise all_problems(missing_columns(opened, nameless), where="The call")
    role_of = dict.fromkeys(by, "by") | ({by[-1]: part} if part else {})
    roles = [("unit", unit)] if unit is not None else []
    roles += (
        [("amount", a) for a in names]
        + [(role_of[b], b) for b in own_by]
        + ([("weight", weight)] if weight is not None else [])
        + list(marks.items())
    )
    problems = role_problems(opened, roles, ("amount", "weight"))
    if any(not isinstance(column, str) for _, column in roles):
        raise all_problems(problems, where="The call")
    problems += name_problems(unit, names, by, part, multiple=multiple)
    if problems:
        if not missing_columns(opened, roles) and not _has_rows(opened):
            raise EvenhandError(NO_ROWS)  # a file of a header alone has no types to speak of
        raise all_problems(problems, where="The call")


def name_problems(unit: str | None, names: Sequence[str], by: Sequence[str], part: str, *, multiple: bool) -> list[str]:
    """What is wrong with the columns that were named, whatever the table holds; `part` is the role of the last of `by`."""
    slices = list(by[:-1] if part else by)
    problems = slice_problems(slices, {"amount"} if multiple else ())
    problems += [
        f"amount names {a!r} twice. Name each column once." for a in sorted({a for a in names if names.count(a) > 1})
    ]
    problems += [f"unit={unit!r} is also named in by. A unit cannot be its own slice." for b in slices if b == unit]
    if part and by[-1] in [unit, *slices]:
        problems.append(
            f"{part}={by[-1]!r} is also named as {'unit' if by[-1] == unit else 'by'}. Name another column."
        )
    if multiple and not names:
        problems.append("amount is an empty list. Name at least one column, or pass None to count rows.")
    return problems


def _has_rows(opened: Table) -> bool:
    """Counted by the engine: not every column can leave it."""
    return bool(to_polars(opened.lazy.head(1).select(nw.len().alias("n")))["n"][0])


def _renamed(
    opened: Table,
    unit: str | None,
    names: list[str],
    by: list[str],
    elsewhere: Sequence[str],
    weight: str | None,
    marks: Mapping[str, str],
) -> nw.LazyFrame[Any]:
    """Our own column names, and numbers wide enough to be added up."""
    chosen = [label(unit, opened).alias("unit")] if unit is not None else []
    chosen += [label(column, opened).alias(role) for role, column in marks.items()]
    chosen += [label(b, opened).alias(f"by_{i}") for i, b in enumerate(by) if b not in elsewhere]
    chosen += [_number(a, opened).alias(f"amount_{i}") for i, a in enumerate(names)]
    chosen += [number(weight, opened).alias("weight")] if weight is not None else []
    if not chosen:
        chosen = [nw.lit(1).alias("row")]
        return opened.lazy.with_columns(*chosen).select("row")
    return opened.lazy.select(*chosen)


def _number(name: str, opened: Table) -> nw.Expr:
    return number(name, opened, nw.Int64 if fits_int64(opened.schema[name]) else nw.Float64)


def _facts(
    lazy: nw.LazyFrame[Any],
    names: list[str],
    needed: Mapping[str, str],
    weight: str | None,
    count: Callable[[], int] | None,
    held: Any,
) -> dict[str, Any]:
    """Rows and missing values counted, and the extremes found: of `held` rows in memory, or in one pass.

    Where `count` will do, since no row is odd, only floats are looked at.
    """
    schema = lazy.collect_schema()
    numbers = [(f"amount_{i}", str(i)) for i in range(len(names))] + (
        [("weight", "weight")] if weight is not None else []
    )
    floats = [(column, tag) for column, tag in numbers if schema[column].is_float()]
    asked = [(f"{role}_null", role, "null_count") for role in needed]
    for column, tag in numbers:
        asked += [(f"{word}_{tag}", column, does) for word, does in WHOLE.items()]
    asked += [(f"sum_{tag}", column, "sum") for column, tag in floats]
    sums = [nw.col(column).sum().alias(f"sum_{tag}") for column, tag in floats]
    rows = None if count is None or held is not None else count()
    if held is not None:
        facts = {"rows": len(held)} | {name: _known(getattr(held[column], does)()) for name, column, does in asked}
    elif rows is None or _any_odd(lazy, [*needed], numbers, floats, rows):
        told = [getattr(nw.col(column), does)().alias(name) for name, column, does in asked]
        facts = _told(lazy, [nw.len().alias("rows"), *told])
    else:  # nothing is null, and no end of the amounts is one that a check minds; whether a float is NaN is told by sums alone
        facts = {"rows": rows} | {name: 0.0 for name, _, _ in asked} | _told(lazy, sums)
    again = []
    for column, tag in floats:  # a finite sum has no NaN in it, and to ask every number would take as long as the rest
        if not math.isfinite(facts[f"sum_{tag}"]):
            missing = nw.col(column).is_null() | nw.col(column).is_nan()
            known = nw.when(~missing).then(nw.col(column))
            again += [how_many(missing).alias(f"missing_{tag}"), *_extremes(known, tag)]
    facts |= _told(lazy, again)
    again = [how_many(nw.col(c) < 0).alias(f"negative_{tag}") for c, tag in numbers if facts[f"min_{tag}"] < 0]
    again += [
        nw.col(c).cast(nw.Float64).sum().alias(f"sum_{tag}")
        for c, tag in numbers
        if facts["rows"] * facts[f"max_{tag}"] > LARGEST_SUM
    ]  # hardly ever: how many are negative, and whether sums can wrap
    return facts | _told(lazy, again)


WHOLE = {"missing": "null_count", "min": "min", "max": "max"}
"""What is asked of every column of numbers."""


def _any_odd(
    lazy: nw.LazyFrame[Any],
    labels: list[str],
    numbers: Sequence[tuple[str, str]],
    floats: Sequence[tuple[str, str]],
    rows: int,
) -> bool:
    """Whether something may be wrong with a row: Parquet files say of most of their parts that nothing is, unread.

    What they say of floats leaves NaN out, and so does this.
    """
    import polars as pl

    odd = [pl.col(name).is_null() for name in labels]
    for name, tag in numbers:
        odd += [pl.col(name).is_null(), pl.col(name) < 0]
        if (name, tag) not in floats:
            odd.append(pl.col(name) > int(LARGEST_SUM / max(1, rows)))
    if not odd:
        return False
    found = lazy.to_native().filter(functools.reduce(operator.or_, odd)).select(pl.len())
    return bool(to_polars(nw.from_native(found).lazy())["len"][0])


def _extremes(column: nw.Expr, tag: str) -> list[nw.Expr]:
    return [column.min().alias(f"min_{tag}"), column.max().alias(f"max_{tag}")]


def _told(lazy: nw.LazyFrame[Any], asked: list[nw.Expr]) -> dict[str, Any]:
    """What one pass answers; nothing known is zero."""
    if not asked:
        return {}
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite sum is told of later
        row = to_polars(lazy.select(*asked)).row(0, named=True)
    return {name: _known(value) for name, value in row.items()}


def _known(value: Any) -> float:
    return 0 if value is None else float(value)


def value_problems(
    facts: dict[str, Any], names: list[str], needed: Mapping[str, str], weight: str | None, nan_policy: NanPolicy
) -> list[str]:
    if not facts["rows"]:
        return [NO_ROWS]
    problems = []
    for i, name in enumerate(names):
        missing, negative, top = int(facts[f"missing_{i}"]), int(facts.get(f"negative_{i}", 0)), facts[f"max_{i}"]
        if missing and nan_policy == "raise":
            problems.append(
                f"amount={name!r} is missing (null or NaN) in {missing:,} of {int(facts['rows']):,} rows. "
                "Fill them, or pass nan_policy='omit' or nan_policy='propagate'."
            )
        if negative:
            problems.append(f"amount={name!r} is negative in {counted_rows(negative)}. Pass amounts of zero or more.")
        if top == math.inf:
            problems.append(f"amount={name!r} is infinite in some rows. Pass finite amounts.")
        elif facts.get(f"sum_{i}", 0.0) == math.inf:
            problems.append(f"amount={name!r} adds up to more than a number can hold. Pass it in a larger unit.")
        if math.isnan(top):  # counted as sound by an engine that trusts Parquet statistics, which leave NaN out
            problems.append(
                f"amount={name!r} is NaN in rows that DuckDB hides from its own filters. "
                "Pass the path of the file, or turn NaN into NULL in the query."
            )
    problems += [
        f"{role}={column!r} is missing in {counted_rows(facts[f'{role}_null'])}. Remove them, or pass nan_policy='omit'."
        for role, column in needed.items()
        if facts[f"{role}_null"] and nan_policy != "omit"
    ]
    if weight is not None and (facts["missing_weight"] or facts["min_weight"] < 0 or facts["max_weight"] == math.inf):
        problems.append(f"weight={weight!r} holds missing, negative or infinite values. Pass weights of zero or more.")
    return problems


def counted_rows(many: Any) -> str:
    """So many rows, in the number that fits."""
    return f"{int(many):,} row{'s' * (many != 1)}"


def _stays_integer(dtype: Any, facts: dict[str, Any], i: int) -> bool:
    """Whether amounts are added up as int64: DuckDB's sums, for one, come in a wider type that they do not need."""
    exact = fits_int64(dtype) or (dtype.is_integer() and facts[f"max_{i}"] <= 2**53)
    return bool(exact and facts.get(f"sum_{i}", 0.0) <= LARGEST_SUM)


def slice_words(labels: Sequence[Any]) -> str:
    """Slice labels in an error message."""
    return listing(repr(label if len(label) > 1 else label[0]) for label in labels)
