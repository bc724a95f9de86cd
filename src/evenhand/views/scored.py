"""What a model scored: a table with one row per request and item, checked. Ties are fine here, and so are missing scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, all_problems
from evenhand.views.batches import Along, Asked, every, made_along, nothing, repeated
from evenhand.views.columns import how_many, label, number, role_problems, slice_problems
from evenhand.views.rankings import in_memory_as_polars
from evenhand.views.tables import Table

ORDERING = ("score", "rank")
"""What items can be ordered by."""


@dataclass(frozen=True)
class Scored:
    """Checked scores.

    Attributes
    ----------
    lazy : columns by_0.., system (if named), request, item, score, and what the caller asked to carry along.
    by : the slice columns as the user calls them. keys : our names of the columns that name one request.
    rows : how many there were; dropped : rows left out, and why.
    sums : what was asked of all rows; nothing where some were left out.
    single : whether no pair of a request and an item is known to have two rows.
    made : what was made on the way of some requests after the other, all of them; None where it is still to be made.
    """

    lazy: nw.LazyFrame[Any]
    backend: str
    origin: str
    by: tuple[str, ...]
    keys: tuple[str, ...]
    rows: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, Any] = field(default_factory=dict)
    single: bool = False
    made: Sequence[Any] | None = None

    @property
    def slices(self) -> tuple[str, ...]:
        """Our names of the slice columns, system last."""
        return self.keys[:-1]

    @property
    def slice_names(self) -> tuple[str, ...]:
        """The user's names of the slice columns; the system is always called system."""
        return (*self.by, *(k for k in self.keys if k == "system"))


def view_scored(
    opened: Table,
    *,
    request: str,
    item: str,
    score: str,
    by: tuple[str, ...] = (),
    system: str | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    carry: Mapping[str, nw.Expr] | None = None,
    ranked: bool = False,
    asked: Asked = nothing,
    along: Along | None = None,
) -> Scored:
    """Check the roles, then the values, all problems at once. Rows without a score are left out, or refused.

    With `ranked`, the column that stands for the score holds ranks: the lowest is best. What is `asked` of all rows is
    counted on the way, and what goes `along` makes something of them while they are there.
    """
    if nan_policy not in ("raise", "omit"):
        raise EvenhandError(f"nan_policy={nan_policy!r} does not fit scores. Use 'raise' or 'omit'.")
    opened = opened.numbers(score)
    ordering = "rank" if ranked else "score"
    roles = [("request", request), ("item", item), (ordering, score)]
    roles += [("system", system)] if system is not None else []
    _refuse_bad_names(opened, roles, by)
    chosen = [label(b, opened).alias(f"by_{i}") for i, b in enumerate(by)]
    chosen += [label(column, opened).alias(role) for role, column in roles if role != ordering]
    chosen.append((number(score, opened) * (-1.0 if ranked else 1.0)).alias("score"))
    lazy = opened.lazy.select(*chosen, *(expression.alias(name) for name, expression in (carry or {}).items()))
    lazy = in_memory_as_polars(lazy)
    keys = (*(f"by_{i}" for i in range(len(by))), *(["system"] if system is not None else []), "request")
    going = made_along(along, lazy, keys, _are_sound)
    count, first, seen = repeated(lazy, keys, "item", lambda of: [*_of_values(dict(roles), of), *asked(of)], going)
    sums, made = seen.sums, seen.made
    rows, missing = _sound_values(sums, dict(roles), nan_policy)
    if missing:
        value = nw.col("score")
        count, first, seen = repeated(seen.lazy.filter(~(value.is_null() | value.is_nan())), keys)
        sums, made = {}, ()
    _refuse_twice(count, first)
    dropped = {f"{score} is missing": missing} if missing else {}
    return Scored(
        seen.lazy,
        opened.backend,
        opened.origin,
        by,
        keys,
        rows,
        dropped,
        sums,
        keys == ("request",),
        every(made),
    )


def _are_sound(rows: Any) -> bool:
    return not rows["score"].null_count() and bool(np.isfinite(rows["score"].to_numpy()).all())


def _refuse_bad_names(opened: Table, roles: list[tuple[str, str]], by: tuple[str, ...]) -> None:
    problems = role_problems(opened, [*roles, *(("by", b) for b in by)], ORDERING) + slice_problems(by, {"system"})
    if problems:
        raise all_problems(problems, where="The call")


def _of_values(roles: Mapping[str, str], of: Any) -> list[Any]:
    """What must be known of all rows for their values to be sound, in the words of narwhals or of Polars."""
    value = of.col("score")
    absent = value.is_null() | value.is_nan()
    return [
        of.len().alias("rows"),
        how_many(absent, of).alias("score"),
        how_many(~absent & ~value.is_finite(), of).alias("infinite"),
        *(how_many(of.col(role).is_null(), of).alias(f"missing_{role}") for role in roles if role not in ORDERING),
    ]


def _sound_values(facts: Mapping[str, Any], roles: Mapping[str, str], nan_policy: str) -> tuple[int, int]:
    """The number of rows and of missing scores; missing ids and infinite scores are refused."""
    ids = [role for role in roles if role not in ORDERING]
    told = next(f"{role}={roles[role]!r}" for role in roles if role in ORDERING)
    rows, missing = int(facts["rows"]), int(facts["score"] or 0)
    problems = [
        f"{role}={roles[role]!r} is missing in {int(facts[f'missing_{role}']):,} of {rows:,} rows. Fill it, or remove those rows."
        for role in ids
        if facts[f"missing_{role}"]
    ]
    if facts["infinite"]:
        problems.append(f"{told} is infinite in some rows. Pass finite numbers.")
    if missing and nan_policy == "raise":
        problems.append(
            f"{told} is missing in {missing:,} of {rows:,} rows. Remove those rows, or pass nan_policy='omit'."
        )
    if problems:
        raise all_problems(problems, where="The table of scores")
    return rows, missing


def _refuse_twice(count: int, first: Mapping[str, Any]) -> None:
    if count:
        raise EvenhandError(
            f"{count:,} items are scored twice for the same request (first: request {first['request']!r}, item "
            f"{first['item']!r}). Keep one row for each, or name what tells them apart with by= or system=."
        )
