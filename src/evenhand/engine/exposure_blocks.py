"""Exposure by blocks of whole rankings, where the engine hands rows over in the order in which it reads them.

What comes out are the cells that `exposures` would have the engine make, from one walk over the rows and in little memory:
attention is looked up by rank, labels by item, and what is due to an item depends on its request and grade alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.attending import attended
from evenhand.engine.labelled import Lookup
from evenhand.tallies.ledger import Look
from evenhand.tallies.requests import Ints
from evenhand.views.batches import Scattered, first_of_runs, whole_rankings
from evenhand.views.labels import codes
from evenhand.views.tables import to_polars

GRID = 2.0**24
"""Steps to one on which numbers add up exactly: up to half a billion in all, further than any list is long."""


def ranked_cells(
    lazy: nw.LazyFrame[Any],
    keys: list[str],
    lookup: Lookup,
    looks: Sequence[Look],
    gained: Sequence[int],
    *,
    scores: bool,
) -> Any:
    """A Polars frame of a row per ranking and group (its `code`): items, attention `a0`.., relevance met `g0`.., scores.

    None where the rows of a ranking stand apart.
    """
    import polars as pl

    names = lazy.collect_schema().names()
    carried = "group" in names
    wanted = [*keys, "rank", "group" if carried else "item"]
    wanted += [*(["relevance"] if gained else []), *(["score"] if scores else [])]
    table, groups = _attention(looks), len(lookup.labels) + 1

    def block(rows: Any) -> Any:
        first = first_of_runs(rows, keys)
        held = codes(rows["group"], lookup.labels) if carried else lookup.codes(rows)
        at = np.repeat(np.arange(len(first)) * groups, np.diff(first, append=rows.height)) + held
        rank = rows["rank"].to_numpy() - 1
        items = np.bincount(at, minlength=len(first) * groups)
        there = np.flatnonzero(items)
        weights = table(int(rank.max()) + 1)

        def summed(parts: Iterable[Floats]) -> Floats:
            high, low = (np.bincount(at, part, minlength=len(items))[there] for part in parts)
            return np.asarray(high + low)

        found = {f"a{i}": summed(part.take(rank) for part in split(weights[i])) for i in range(len(looks))}
        for i in gained:
            found[f"g{i}"] = summed(split(weights[i].take(rank) * rows["relevance"].to_numpy()))
        if scores:
            found["scores"] = summed(split(rows["score"].to_numpy()))
        cells = rows.select(keys)[first[there // groups]]
        more = {"code": there % groups, "items": items[there].astype(np.float64), **found}
        return cells.with_columns(*(pl.Series(name, values) for name, values in more.items()))

    try:
        return pl.concat([block(rows) for rows in whole_rankings(lazy.select(*dict.fromkeys(wanted)), keys)])
    except Scattered:
        return None


def judged_cells(judged: nw.LazyFrame[Any], lookup: Lookup, looks: Sequence[Look]) -> tuple[Any, Any]:
    """What judgments say, as Polars frames.

    A row per request and group (its `code`): `worth`, `relevant` items and what is due to them, `t0`..; and a row per
    request: the sum of squares of what is due to each item, `x0`...
    """
    import polars as pl

    lazy, table = judged.select("request", "item", "relevance"), _attention(looks)
    try:
        found = [_judged(rows, lookup, len(looks), table) for rows in whole_rankings(lazy, ["request"])]
    except Scattered:
        found = [_judged(to_polars(lazy).sort("request"), lookup, len(looks), table)]
    cells, norms = zip(*found, strict=True)
    return pl.concat(cells), pl.concat(norms)


def _judged(rows: Any, lookup: Lookup, looks: int, table: Callable[[int], Floats]) -> tuple[Any, Any]:
    """Whole requests: cells of request and grade, best first, in which every item is due the mean of the ranks they share."""
    import polars as pl

    groups = len(lookup.labels) + 1
    first = first_of_runs(rows, ["request"])
    sizes = np.diff(first, append=rows.height)
    grades = np.sort(rows["relevance"].unique().to_numpy())[::-1]
    request, which, grade, n = _graded(sizes, rows["relevance"].to_numpy(), grades)
    items = np.bincount(which * groups + lookup.codes(rows), minlength=len(n) * groups).reshape(len(n), groups)
    rank = np.arange(rows.height) - np.repeat(first, sizes)
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


def _graded(sizes: Ints, relevance: Floats, grades: Floats) -> tuple[Ints, Ints, Floats, Ints]:
    """Cells of request and grade: their request, the cell of each row, their grade, how many rows they have."""
    many = max(1, len(grades))
    code = many - 1 - np.searchsorted(grades[::-1], relevance)
    key = np.repeat(np.arange(len(sizes)) * many, sizes) + code
    if len(sizes) * many <= 4 * len(key) + 1024:
        n = np.bincount(key, minlength=len(sizes) * many)
        cells = np.flatnonzero(n)
        which, n = (np.cumsum(n > 0) - 1)[key], n[cells]
    else:
        cells, which, n = np.unique(key, return_inverse=True, return_counts=True)
    return cells // many, which.reshape(-1), grades[cells % many], n


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
