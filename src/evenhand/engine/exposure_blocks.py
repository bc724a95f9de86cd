"""Exposure by blocks of whole rankings, where the engine hands rows over in the order in which it reads them.

What comes out are the cells that `exposures` would have the engine make, from one walk over the rows and in little memory:
attention is looked up by rank, labels by item, and what is due to an item depends on its request and grade alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.engine.attending import attended
from evenhand.engine.labelled import Lookup
from evenhand.tallies.ledger import Look
from evenhand.tallies.requests import Ints
from evenhand.views.batches import by_ranking
from evenhand.views.tables import to_polars

GRID = 2.0**24
"""Steps to one on which numbers add up exactly: up to half a billion in all, further than any list is long."""


@dataclass(frozen=True)
class Ranked:
    """Whole rankings as rows by ranking and group (its `code`): items, attention `a0`.., relevance met `g0`.., scores.

    Attributes
    ----------
    keys : columns that name one ranking. gained : places of the looks whose gains are added up.
    each : columns with one number for each ranking; its cells have the largest and, as `least_...`, the smallest.
    """

    keys: list[str]
    looks: Sequence[Look]
    gained: Sequence[int]
    scores: bool
    each: Sequence[str]
    table: Callable[[int], Floats]

    @classmethod
    def of(
        cls, keys: list[str], looks: Sequence[Look], gained: Sequence[int], *, scores: bool, each: Sequence[str] = ()
    ) -> Ranked:
        return cls(keys, looks, gained, scores, each, _attention(looks))

    @property
    def needs(self) -> list[str]:
        """Columns that are read."""
        more = [*(["relevance"] if self.gained else []), *(["score"] if self.scores else []), *self.each]
        return [*self.keys, "rank", *more]

    def cells(self, rows: Any, first: Ints, held: Ints, groups: int) -> Any:
        """A Polars frame of the cells of rankings that begin at `first`; `held` are the rows' groups, of which there are `groups`."""
        import polars as pl

        at = np.repeat(np.arange(len(first)) * groups, np.diff(first, append=rows.height)) + held
        rank = rows["rank"].to_numpy() - 1
        items = np.bincount(at, minlength=len(first) * groups)
        there = np.flatnonzero(items)
        weights = self.table(int(rank.max(initial=0)) + 1)

        def summed(parts: Iterable[Floats]) -> Floats:
            high, low = (np.bincount(at, part, minlength=len(items))[there] for part in parts)
            return np.asarray(high + low)

        length, looks = _level(first, rank) if len(first) and groups <= MOST_GROUPS else 0, range(len(self.looks))
        if length:
            high, low = _of_lists(held.reshape(-1, length), groups, weights)
            found = {f"a{i}": (high[i] + low[i])[there] for i in looks}
        else:
            found = {f"a{i}": summed(part.take(rank) for part in split(weights[i])) for i in looks}
        for i in self.gained:
            found[f"g{i}"] = summed(split(weights[i].take(rank) * rows["relevance"].to_numpy()))
        if self.scores:
            found["scores"] = summed(split(rows["score"].to_numpy()))
        for name in self.each:
            values = rows[name].to_numpy()
            for told, most in ((name, np.maximum), (f"least_{name}", np.minimum)):
                found[told] = (most.reduceat(values, first) if len(first) else values)[there // groups]
        cells = rows.select(self.keys)[first[there // groups]]
        more = {"code": there % groups, "items": items[there].astype(np.float64), **found}
        return cells.with_columns(*(pl.Series(name, values) for name, values in more.items()))


@dataclass(frozen=True)
class Judged:
    """What judgments of whole requests say.

    As rows by request and group (its `code`): `worth`, `relevant` items and what is due to them, `t0`..; and as rows by
    request: the sum of squares of what is due to each item, `x0`...
    """

    looks: int
    table: Callable[[int], Floats]

    @classmethod
    def of(cls, looks: Sequence[Look]) -> Judged:
        return cls(len(looks), _attention(looks))

    needs = ("request", "relevance")

    def cells(self, rows: Any, first: Ints, held: Ints, groups: int) -> tuple[Any, Any]:
        return _judged(rows, first, held, groups, self.looks, self.table)


def cells_of(lazy: nw.LazyFrame[Any], keys: list[str], lookup: Lookup, makers: Sequence[Ranked | Judged]) -> list[Any]:
    """What each of `makers` makes of all rows, from one walk over them: a Polars frame, or as many as it makes."""
    import polars as pl

    groups = len(lookup.labels) + 1
    named = "group" if "group" in lazy.collect_schema().names() else "item"
    wanted = dict.fromkeys([*keys, named, *(name for one in makers for name in one.needs)])

    def block(rows: Any, first: Ints) -> list[Any]:
        held = lookup.codes(rows)
        return [one.cells(rows, first, held, groups) for one in makers]

    made = zip(*by_ranking(lazy.select(*wanted), keys, block), strict=True)
    return [
        tuple(map(pl.concat, zip(*parts, strict=True))) if isinstance(parts[0], tuple) else pl.concat(parts)
        for parts in made
    ]


MOST_GROUPS = 16
"""Groups that are gone through one by one."""

AT_ONCE = 1 << 16
"""Ranks multiplied at a time: they stay in the cache, and numpy starts no threads for them."""


def _level(first: Ints, rank: Ints) -> int:
    """How long rankings are that all have the same length and every rank in order; 0 where they do not."""
    length = int(first[1] - first[0]) if len(first) > 1 else len(rank)
    if len(first) * length != len(rank) or (first != np.arange(len(first)) * length).any():
        return 0
    return length if (rank.reshape(-1, length) == np.arange(length)).all() else 0


def _of_lists(held: Ints, groups: int, weights: Floats) -> tuple[Floats, Floats]:
    """(looks, rankings x groups) attention on each group, from the groups at every rank: the coarse part, and the rest."""
    parts = np.concatenate(split(weights)).T
    found = np.empty((len(held), groups, parts.shape[1]))
    step = max(1, AT_ONCE // held.shape[1])
    for start in range(0, len(held), step):
        here = held[start : start + step]
        for g in range(groups):
            found[start : start + step, g] = (here == g).astype(np.float64) @ parts
    high, low = np.split(found.reshape(-1, parts.shape[1]).T, 2)
    return high, low


def _judged(
    rows: Any, first: Ints, held: Ints, groups: int, looks: int, table: Callable[[int], Floats]
) -> tuple[Any, Any]:
    """Cells of request and grade, best first, in which every item is due the mean of the ranks they share, added up."""
    import polars as pl

    sizes = np.diff(first, append=rows.height)
    grades = np.sort(rows["relevance"].unique().to_numpy())[::-1]
    request, grade, items = _graded(sizes, rows["relevance"].to_numpy(), grades, held, groups)
    n = items.sum(1)
    rank = np.arange(rows.height)
    rank -= np.repeat(first, sizes)
    weights = table(int(sizes.max(initial=0)))
    due: list[Floats] = [
        np.add.reduceat(weights[i].take(rank), np.cumsum(n) - n) / n if len(n) else np.zeros(0) for i in range(looks)
    ]
    start = np.searchsorted(request, np.arange(len(first)))

    def summed(values: Floats, many: Any) -> Floats:
        """Sums over the grades of each request."""
        parts = [many * (part if many.ndim == 1 else part[:, None]) for part in split(values)]
        high, low = (np.add.reduceat(part, start, axis=0) if len(start) else part for part in parts)
        return np.asarray(high + low)

    there = np.flatnonzero(np.add.reduceat(items, start, axis=0).ravel()) if len(start) else start
    sums = {"worth": grade, "relevant": (grade > 0).astype(np.float64), **{f"t{i}": t for i, t in enumerate(due)}}
    found = {name: summed(values, items).ravel()[there] for name, values in sums.items()}
    heads = rows.select("request")[first]
    cells = heads[there // groups].with_columns(
        pl.Series("code", there % groups), *(pl.Series(name, values) for name, values in found.items())
    )
    norms = heads.with_columns(*(pl.Series(f"x{i}", summed(t * t, n)) for i, t in enumerate(due)))
    return cells, norms


def _graded(
    sizes: Ints, relevance: Floats, grades: Floats, held: Ints, groups: int
) -> tuple[Ints, Floats, npt.NDArray[np.int64]]:
    """Cells of request and grade, the best grade of a request first: request, grade, and items of each group."""
    many = max(1, len(grades))
    key = np.repeat(np.arange(1, len(sizes) + 1) * many - 1, sizes)
    key -= np.searchsorted(grades[::-1], relevance)
    if len(sizes) * many * groups <= 4 * len(key) + 1024:
        key *= groups
        key += held
        items = np.bincount(key, minlength=len(sizes) * many * groups).reshape(-1, groups)
        cells = np.flatnonzero(items.any(1))
        items = items[cells]
    else:
        cells, which = np.unique(key, return_inverse=True)
        items = np.bincount(which.reshape(-1) * groups + held, minlength=len(cells) * groups).reshape(-1, groups)
    return cells // many, grades[cells % many], items


def split(values: Floats) -> tuple[Floats, Floats]:
    """The part of numbers on a coarse grid, which adds up without rounding, and the rest."""
    high = np.floor(values * GRID + 0.5) / GRID
    return high, values - high


def _attention(looks: Sequence[Look]) -> Callable[[int], Floats]:
    """What gives the attention that each look pays to the ranks down to a depth, as the engine computes it."""
    import polars as pl

    @cache
    def table(depth: int) -> Floats:
        ranks = nw.from_native(pl.DataFrame({"rank": np.arange(1, depth + 1)})).lazy()
        found = to_polars(attended(ranks, looks, []))
        return np.array([found[f"a{i}"].to_numpy() for i in range(len(looks))])

    return table
