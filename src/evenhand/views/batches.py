"""Facts of each ranking in little memory: a batch of rows at a time, for distinct values hold on to every row they count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw

from evenhand.views.tables import engine_errors

ROWS = 200_000
"""Rows looked at together."""


def per_ranking(lazy: nw.LazyFrame[Any], keys: Sequence[str], facts: Sequence[nw.Expr]) -> nw.LazyFrame[Any]:
    """One row per ranking with its facts, exact in whatever order the rows come.

    Tables mostly hold a ranking's rows together. Then a batch settles the rankings that lie within it, and only those cut
    by the end of a batch are looked at again. Where rows are mixed, the engine does all at once.
    """

    def settled(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return rows.group_by(*keys).agg(*facts)

    if not lazy.implementation.is_polars():
        return settled(lazy)
    import polars as pl

    native = lazy.to_native()
    with engine_errors():
        parts = _by_batch(native, list(keys), settled)
    if not parts:
        return settled(lazy)
    found = pl.concat(parts)
    cut = pl.struct(keys).is_duplicated()
    again = found.filter(cut).select(keys).unique()
    whole: nw.LazyFrame[Any] = nw.from_native(found.filter(~cut).lazy())
    if not again.height:
        return whole
    rest = settled(nw.from_native(native.join(again.lazy(), on=list(keys), how="semi", nulls_equal=True)))
    return nw.concat([whole, rest])


def _by_batch(native: Any, keys: list[str], settled: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]]) -> list[Any]:
    """Facts of the rankings in each batch; nothing where most rankings of a batch go on in the next."""
    parts: list[Any] = []
    if not hasattr(native, "collect_batches"):  # Polars before 1.34
        return parts
    for batch in native.collect_batches(chunk_size=ROWS):
        found = settled(nw.from_native(batch.lazy())).collect("polars").to_native()
        if parts and 2 * found.join(parts[-1], on=keys, how="semi", nulls_equal=True).height > found.height > 1:
            return []
        parts.append(found)
    return parts
