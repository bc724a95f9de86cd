"""Who stands where: a table of rankings, checked before anything is measured.

One row per ranked item. A ranking is what shares its slice, system, request and sample; `rank` (1 is best) or `score`
(highest first) orders it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.sources.files import has_known_ending
from evenhand.views.batches import (
    Along,
    Asked,
    by_score,
    every,
    hands_parts,
    made_along,
    nothing,
    ranking_facts,
    repeated,
)
from evenhand.views.columns import how_many, label, number, role_problems, slice_problems
from evenhand.views.tables import Table, fits_int64, open_table, to_polars

NUMBERS = ("rank", "score", "probability", "weight")
"""Roles that are played by numbers; the others are labels and ids."""

Ties = Literal["raise", "input_order"]

DEEPEST = 1_000
"""Empty ranks that a ranking may have beside as many as it has items: a rank further down is no rank."""


@dataclass(frozen=True)
class Rankings:
    """Checked rankings.

    Attributes
    ----------
    lazy : columns by_0.., system, request, sample, item, rank (whole, from 1, no two alike in a ranking), score,
        probability, weight, whichever roles were named, and what the caller asked to carry along.
    by : the slice columns as the user calls them; `slices` are ours.
    rows, rankings : how many there are.
    gaps : rankings in which some rank is empty. An empty rank counts as an unknown item: the others keep theirs.
    ties : rows that shared their score (or rank) with another of the same ranking.
    ordered_by : "rank" or "score".
    dropped : rows left out, and why.
    sums : what was asked of all rows; nothing where some were left out.
    single : whether every request is known to have one ranking.
    made : what was made on the way of some rankings after the other, all of them; None where it is still to be made.
    """

    lazy: nw.LazyFrame[Any]
    backend: str
    origin: str
    by: tuple[str, ...]
    keys: tuple[str, ...]
    rows: int
    rankings: int
    gaps: int
    ties: int
    ordered_by: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, Any] = field(default_factory=dict)
    single: bool = False
    made: Sequence[Any] | None = None

    @property
    def slices(self) -> tuple[str, ...]:
        """Our names of the slice columns, system last."""
        return tuple(k for k in self.keys if k == "system" or k.startswith("by_"))

    @property
    def slice_names(self) -> tuple[str, ...]:
        """The user's names of the slice columns; the system is always called system."""
        return (*self.by, *(k for k in self.keys if k == "system"))

    def counts(self) -> dict[str, Any]:
        """What a reader of the numbers should know about the rankings, for provenance."""
        return {"rankings": self.rankings, "rankings_with_empty_ranks": self.gaps, "tied_rows": self.ties}


@dataclass(frozen=True)
class Roles:
    """Which column plays which part, in the user's words."""

    request: str
    item: str | None
    rank: str | None
    score: str | None
    by: tuple[str, ...] = ()
    system: str | None = None
    sample: str | None = None
    probability: str | None = None
    weight: str | None = None

    def named(self) -> list[tuple[str, str]]:
        """(role, column) of every role in use."""
        names = ("system", "request", "sample", "item", "rank", "score", "probability", "weight")
        found = [(role, getattr(self, role)) for role in names]
        return [("by", b) for b in self.by] + [(role, column) for role, column in found if column is not None]

    @property
    def keys(self) -> tuple[str, ...]:
        """Our names of the columns that name one ranking."""
        more = [role for role in ("system", "request", "sample") if getattr(self, role) is not None]
        return (*(f"by_{i}" for i in range(len(self.by))), *more)

    @property
    def order(self) -> str:
        """The column that orders: rank where there is one, else score."""
        return "rank" if self.rank is not None else "score"

    def words(self, role: str) -> str:
        """A role as it was typed."""
        return f"{role}={getattr(self, role)!r}"


def open_rankings(table: Any) -> Table:
    """A table of rankings, one or more TREC runs, or runs of the TREC Fair track."""
    from evenhand.sources.trec_fair import fair_paths, trec_fair_run

    if (fair := fair_paths(table)) is not None:
        return open_table(trec_fair_run(fair), role="rankings")
    if not are_runs(table):
        return open_table(table, role="rankings")
    from evenhand.sources.trec import trec_runs

    found = open_table(trec_runs(table), role="rankings")
    return Table(found.lazy, found.backend, listing([table] if isinstance(table, (str, Path)) else table))


def are_runs(table: Any) -> bool:
    """Whether what was passed are TREC runs: paths whose ending is none of a table's."""
    paths = [table] if isinstance(table, (str, Path)) else table
    listed = isinstance(paths, (list, tuple)) and bool(paths) and all(isinstance(p, (str, Path)) for p in paths)
    return listed and not any(has_known_ending(str(p)) or os.path.isdir(p) for p in paths)


def system_of(table: Any, opened: Table) -> str | None:
    """The column that tells systems apart where nobody named one: that of several TREC runs."""
    several = are_runs(table) and to_polars(opened.lazy.select(nw.col("system").n_unique())).item() > 1
    return "system" if several else None


def view_rankings(
    table: Any,
    *,
    request: str = "request",
    item: str | None = "item",
    rank: str | None = "rank",
    score: str | None = None,
    by: Sequence[str] = (),
    system: str | None = None,
    sample: str | None = None,
    probability: str | None = None,
    weight: str | None = None,
    ties: Ties = "raise",
    nan_policy: Literal["raise", "omit"] = "raise",
    carry: Mapping[str, nw.Expr] | None = None,
    asked: Asked = nothing,
    along: Along | None = None,
) -> Rankings:
    """Check the roles, then the values, all problems at once.

    `rank` orders; where the table has no such column, `score` does. `item=None`: items are not looked at. `carry` are
    further columns to keep, by their name in the result; what is `asked` of all rows is counted on the way, and what goes
    `along` makes something of them while they are there. TREC runs of several systems are told apart without being asked.
    """
    opened = open_rankings(table).numbers(rank, score, probability, weight)
    system = system_of(table, opened) if system is None else system
    if ties not in ("raise", "input_order"):
        raise EvenhandError(f"ties={ties!r} is unknown. Use 'raise' or 'input_order'.")
    if nan_policy not in ("raise", "omit"):
        raise EvenhandError(f"nan_policy={nan_policy!r} does not fit rankings. Use 'raise' or 'omit'.")
    if rank is not None and score is not None and rank not in opened.schema.names():
        rank = None
    roles = Roles(request, item, rank, score, tuple(by), system, sample, probability, weight)
    _refuse_bad_names(opened, roles)
    lazy = in_memory_as_polars(_renamed(opened, roles, carry or {}))
    named, schema = None if item is None else "item", lazy.collect_schema()
    going = made_along(along if schema.get("rank") == nw.Int64 else None, lazy, roles.keys, partial(_are_sound, roles))
    seen = ranking_facts(
        lazy, roles.keys, roles.order, named, lambda of: [*_of_values(schema, roles, of), *asked(of)], going
    )
    sums, made = seen.sums, seen.made
    rows, dropped = _sound_values(sums, roles, nan_policy)
    if dropped:
        left = seen.lazy.filter(*(~_is_missing(schema, role) for role in dropped))
        seen, made = ranking_facts(left, roles.keys, roles.order, named), ()
    facts = _sound_rankings(seen.lazy, roles, seen.per, ties)
    lazy, tied = _ordered(seen.lazy, roles, facts["tied"] > 0)
    tied += _ties_of_run(opened, roles)
    return Rankings(
        lazy,
        opened.backend,
        opened.origin,
        roles.by,
        roles.keys,
        rows,
        facts["rankings"],
        facts["gaps"],
        tied,
        roles.order,
        {f"{getattr(roles, role)} is missing": count for role, count in dropped.items()},
        {} if dropped else sums,
        facts["requests"] == facts["rankings"],
        every(made),
    )


def in_memory_as_polars(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The same rows in an engine with window functions: pandas becomes Polars, engines stay what they are."""
    here = lazy.implementation
    if here.is_polars() or here.is_duckdb() or here.is_pyspark() or here.is_ibis():
        return lazy
    found: nw.LazyFrame[Any] = nw.from_native(to_polars(lazy)).lazy()
    return found


def _refuse_bad_names(opened: Table, roles: Roles) -> None:
    problems = role_problems(opened, roles.named(), NUMBERS)
    if roles.rank is not None and roles.rank not in opened.schema.names():
        problems.append("To order by score instead, pass score= with its column.")
    problems += name_problems(roles)
    if problems:
        raise all_problems(problems, where="The call")


def name_problems(roles: Roles) -> list[str]:
    """What is wrong with the columns that were named, whatever the table holds."""
    none = roles.rank is None and roles.score is None
    problems = ["Neither rank nor score orders the rankings. Name the column of one of them."] if none else []
    return problems + slice_problems(roles.by, {"system"})


def _renamed(opened: Table, roles: Roles, carry: Mapping[str, nw.Expr]) -> nw.LazyFrame[Any]:
    chosen = [label(b, opened).alias(f"by_{i}") for i, b in enumerate(roles.by)]
    for role, column in roles.named():
        if role in ("score", "probability", "weight"):
            chosen.append(number(column, opened).alias(role))
        elif role == "rank":
            whole = fits_int64(opened.schema[column])
            chosen.append(number(column, opened, nw.Int64 if whole else nw.Float64).alias(role))
        elif role != "by":
            chosen.append(label(column, opened).alias(role))
    return opened.lazy.select(*chosen, *(expression.alias(name) for name, expression in carry.items()))


def _is_missing(schema: nw.Schema, role: str, of: Any = nw) -> Any:
    column = of.col(role)
    return column.is_null() | column.is_nan() if schema[role].is_float() else column.is_null()


def _of_values(schema: nw.Schema, roles: Roles, of: Any) -> list[Any]:
    """What must be known of all rows for their values to be sound, in the words of narwhals or of Polars."""
    asked = [of.len().alias("rows")]
    present = [role for role, _ in roles.named() if role != "by"]
    for role in present:
        asked.append(how_many(_is_missing(schema, role, of), of).alias(f"missing_{role}"))
        if role in NUMBERS:
            there = of.when(~_is_missing(schema, role, of)).then(of.col(role))
            asked += [there.min().alias(f"low_{role}"), there.max().alias(f"high_{role}")]
    if "rank" in present and schema["rank"].is_float():
        asked.append(how_many(of.col("rank") != of.col("rank").round(), of).alias("broken_rank"))
    return asked


def _sound_values(sums: Mapping[str, Any], roles: Roles, nan_policy: str) -> tuple[int, dict[str, int]]:
    """Refuse missing and impossible values; the number of rows, and how many miss which role where they are left out."""
    facts = {k: v or 0 for k, v in sums.items()}
    rows = int(facts["rows"])
    present = [role for role, _ in roles.named() if role != "by"]
    missing = {role: int(facts[f"missing_{role}"]) for role in present if facts[f"missing_{role}"]}
    problems = missing_words(missing, roles, rows) if nan_policy == "raise" else []
    problems += bad_numbers(facts, roles) if rows else []
    if problems:
        raise all_problems(problems, where="The table of rankings")
    return rows, missing


def missing_words(missing: Mapping[str, int], roles: Roles, rows: int) -> list[str]:
    """That some rows lack a role."""
    return [
        f"{roles.words(role)} is missing in {count:,} of {rows:,} rows. Fill it, remove those rows, or pass nan_policy='omit'."
        for role, count in missing.items()
    ]


def bad_numbers(facts: Mapping[str, Any], roles: Roles) -> list[str]:
    """Ranks that are none, and numbers that are infinite or negative."""
    problems = []
    if roles.rank is not None and facts["low_rank"] < 1:
        remedy = "Add 1 to it" if facts["low_rank"] == 0 else "Pass ranks counted from 1"
        problems.append(f"{roles.words('rank')} goes down to {facts['low_rank']:g}, but 1 is the best rank. {remedy}.")
    if facts.get("broken_rank"):
        problems.append(
            f"{roles.words('rank')} is no whole number in {int(facts['broken_rank']):,} rows. Pass whole ranks, or score=."
        )
    for role in ("score", "probability", "weight"):
        if getattr(roles, role) is None:
            continue
        low, high = facts[f"low_{role}"], facts[f"high_{role}"]
        if math.isinf(low) or math.isinf(high):
            problems.append(f"{roles.words(role)} is infinite in some rows. Pass finite numbers.")
        elif role != "score" and low < 0:
            problems.append(f"{roles.words(role)} is negative in some rows. Pass numbers of zero or more.")
    return problems


def _odd_rankings(held: Callable[[str], Any], roles: Roles) -> dict[str, Any]:
    """Which rankings are not what they should be, by what is `held` of them: numpy arrays, or expressions of an engine."""
    n = held("n")
    tied = n != held("distinct")
    odd = {"tied": tied} if roles.item is None else {"tied": tied, "twice": n != held("items")}
    if roles.rank is None:
        return odd
    last = held("last")
    return {**odd, "gaps": ~tied & (last != n), "late": held("best") > 1, "deep": last > 2 * n + DEEPEST}


def _are_sound(roles: Roles, rows: Any, per: Any) -> bool:
    """Whether these rankings, by the facts of them, have ranks that can be told apart and counted on."""
    odd = _odd_rankings(lambda name: per[name].to_numpy(), roles)
    return not (rows["rank"].null_count() or odd["tied"].any() or odd["deep"].any() or (per["best"] < 1).any())


def _sound_rankings(lazy: nw.LazyFrame[Any], roles: Roles, per: Any, ties: Ties) -> dict[str, int]:
    """Refuse ties (unless their order is that of the rows), items listed twice, and ranks that are none."""
    facts = dict.fromkeys(("tied", "twice", "gaps", "late", "deep"), 0)
    if hands_parts(lazy):
        facts |= {name: int(odd.sum()) for name, odd in _odd_rankings(lambda c: per[c].to_numpy(), roles).items()}
        alone = roles.keys == ("request",)
        facts |= {"rankings": per.height, "requests": per.height if alone else per["request"].n_unique()}
    else:
        told = {"rankings": nw.len(), **{name: how_many(e) for name, e in _odd_rankings(nw.col, roles).items()}}
        counts = to_polars(per.select(*(e.alias(name) for name, e in told.items())))
        facts |= {k: int(v or 0) for k, v in counts.row(0, named=True).items()}
        # how many requests there are would take another shuffle
        facts["requests"] = facts["rankings"] if roles.keys == ("request",) else 0
    problems = _bad_rankings(lazy, roles, facts, ties)
    if problems:
        raise all_problems(problems, where="The table of rankings")
    return facts


def _bad_rankings(lazy: nw.LazyFrame[Any], roles: Roles, facts: Mapping[str, int], ties: Ties) -> list[str]:
    problems, rankings = [], f"{facts['rankings']:,} rankings"
    if facts["twice"]:
        problems.append(
            f"{facts['twice']:,} of {rankings} list an item twice (first: {_first_double(lazy, roles, 'item')}). "
            "Keep one row per item, or name what tells the lists apart with by= or system=."
        )
    if facts["tied"] and ties == "raise":
        problems.append(
            f"{roles.words(roles.order)} has ties in {facts['tied']:,} of {rankings} "
            f"(first: {_first_double(lazy, roles, roles.order)}). Pass ties='input_order', or break them before calling."
        )
    if facts["late"] > 1 and 2 * facts["late"] > facts["rankings"]:
        problems.append(
            f"{roles.words('rank')} does not start at 1 in {facts['late']:,} of {rankings}. "
            "Count ranks from 1 within each request, or order by score."
        )
    elif facts["deep"]:
        problems.append(
            f"{roles.words('rank')} goes far beyond the number of items in {facts['deep']:,} of {rankings}. "
            "Count ranks from 1 within each request, or order by score."
        )
    return problems


def _first_double(lazy: nw.LazyFrame[Any], roles: Roles, column: str) -> str:
    _, first, *_ = repeated(lazy, roles.keys, column)
    return f"request {first['request']!r}, {column} {first[column]!r}"


def _ordered(lazy: nw.LazyFrame[Any], roles: Roles, tied: bool) -> tuple[nw.LazyFrame[Any], int]:  # noqa: FBT001
    """The rows with a whole rank, and how many of them had to be told apart by their place in the table."""
    if tied:
        return _by_input_order(lazy, roles)
    if roles.rank is None:
        return by_score(lazy, roles.keys), 0
    return lazy.with_columns(nw.col("rank").cast(nw.Int64)), 0


def _by_input_order(lazy: nw.LazyFrame[Any], roles: Roles) -> tuple[nw.LazyFrame[Any], int]:
    import polars as pl

    if lazy.implementation.is_pyspark() or lazy.implementation.is_ibis():
        raise EvenhandError("ties='input_order' needs a table whose rows have an order. Break ties before calling.")
    frame = to_polars(lazy).with_row_index("row")
    falling = -1 if roles.rank is None else 1
    place = pl.struct(pl.col(roles.order) * falling, "row").rank("ordinal").over(*roles.keys).cast(pl.Int64)
    same = (pl.len().over(*roles.keys, roles.order) > 1).alias("same")
    frame = frame.with_columns(same, place.alias("place"))
    if roles.rank is not None:  # rankings without ties keep their empty ranks
        unsettled = pl.col("same").any().over(*roles.keys)
        place = pl.when(unsettled).then(pl.col("place")).otherwise(pl.col("rank").cast(pl.Int64))
        frame = frame.with_columns(place.alias("place"))
    ranked = frame.with_columns(pl.col("place").alias("rank")).drop("row", "place", "same")
    return nw.from_native(ranked).lazy(), int(frame["same"].sum())


def _ties_of_run(opened: Table, roles: Roles) -> int:
    """Rows of a TREC run that shared their score: the reader settled them by document id and marked them."""
    marked = roles.rank == "rank" and opened.schema.get("tied") == nw.Boolean and "score" in opened.schema.names()
    return int(to_polars(opened.lazy.select(how_many(nw.col("tied")).alias("n")))["n"][0] or 0) if marked else 0
