"""From a log of who received what from where to the vectors of amounts that units hold, alike ones taken together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.engine.spectra import Label, Slices, missing, rounded, rows_in_order, sorted_by_label
from evenhand.errors import EvenhandError
from evenhand.labels import in_order, whole
from evenhand.tallies.sources import Sources
from evenhand.tallies.spectrum import Spectra
from evenhand.views.benefits import Amount, Benefits
from evenhand.views.tables import each_once, to_polars

MOST_SOURCES = 200
"""Each source is a column of the per-unit group-by."""


@dataclass(frozen=True)
class SourceSlices:
    """One tally of sources per slice, in the order of the labels, and the slices that hold a NaN."""

    labels: tuple[Label, ...]
    tallies: tuple[Sources, ...]
    broken: frozenset[Label] = frozenset()

    @property
    def totals(self) -> Slices:
        """The units' totals, as the inequality audit sees them."""
        return Slices(self.labels, Spectra.of([t.spectrum for t in self.tallies]), self.broken)

    def padded(self, totals: Slices, names: tuple[Any, ...]) -> SourceSlices:
        """The same units as in `totals`, whose slices also hold those nobody saw."""
        mine = dict(zip(self.labels, self.tallies, strict=True))
        nobody = Sources(names, np.zeros((0, len(names))), np.zeros(0))
        everyone = []
        for label, units in zip(totals.labels, totals.spectra.units.tolist(), strict=True):
            seen = mine.get(label, nobody)
            everyone.append(seen.padded(units - float(seen.units)))
        return SourceSlices(totals.labels, tuple(everyone), totals.broken)


def tally_sources(view: Benefits, amount: Amount, key: str) -> SourceSlices:
    """How many units of each slice hold each vector of amounts; `key` is the column that says where an amount came from."""
    lazy, broken = view.lazy, frozenset[Label]()
    if view.counted is not None:
        broken = view.counted.broken[amount.column] if view.nan_policy == "propagate" else broken
        return _split(view.counted.spread(amount), view, tuple(view.counted.names), broken)
    if amount.missing:
        gone = missing(lazy, amount)
        if view.nan_policy == "propagate":
            hurt = to_polars(each_once(lazy.filter(gone).select(*(view.keys or [key]))))
            broken = frozenset(hurt.iter_rows()) if view.keys else frozenset({()} if hurt.height else set())
        lazy = lazy.filter(~gone)
    names = source_names(view, key)
    if not names:  # the table has no rows
        nobody = Sources((), np.zeros((0, 0)), np.zeros(0))
        return SourceSlices((), ()) if view.keys else SourceSlices(((),), (nobody,))
    cells = to_polars(_cells(lazy, view, amount, key, names))
    return _split(cells, view, names, broken)


def source_names(view: Benefits, key: str) -> tuple[Any, ...]:
    """The sources of the table, in an order that does not depend on its rows; a missing one is a source of its own."""
    if view.counted is not None:
        return tuple(view.counted.names)
    found = to_polars(each_once(view.lazy.select(key)).head(MOST_SOURCES + 1))[key].to_list()
    if len(found) > MOST_SOURCES:
        raise EvenhandError(
            f"source has more than {MOST_SOURCES} different values, too many to tell apart. Group them into fewer sources."
        )
    return tuple(whole(in_order(set(found))))


def _cells(
    lazy: nw.LazyFrame[Any], view: Benefits, amount: Amount, key: str, names: tuple[Any, ...]
) -> nw.LazyFrame[Any]:
    """One row per slice and vector of amounts: a column per source, added up per unit, then counted."""
    wanted = nw.Int64 if amount.integer else nw.Float64
    value = nw.lit(1).cast(wanted) if amount.name is None else nw.col(amount.column).cast(wanted)
    columns = [f"from_{k}" for k in range(len(names))]
    spread = [
        nw.when(_is(key, name)).then(value).otherwise(nw.lit(0).cast(wanted)).alias(column)
        for name, column in zip(names, columns, strict=True)
    ]
    per_unit = lazy.with_columns(*spread).group_by(*view.keys, "unit").agg(*(nw.col(c).sum() for c in columns))
    per_unit = per_unit.with_columns(*(nw.col(c).cast(wanted) for c in columns))
    cells = per_unit.group_by(*view.keys, *columns).agg(nw.len().alias("units"))
    return cells.with_columns(nw.col("units").cast(nw.Int64))


def _is(key: str, name: Any) -> nw.Expr:
    return nw.col(key).is_null() if name is None else nw.col(key) == nw.lit(name)


def _split(cells: Any, view: Benefits, names: tuple[Any, ...], broken: frozenset[Label]) -> SourceSlices:
    columns = [f"from_{k}" for k in range(len(names))]
    amounts = cells.select(columns).to_numpy()
    amounts = rounded(amounts) if amounts.dtype.kind == "f" else amounts.astype(np.float64)
    counts = cells["units"].to_numpy().astype(np.float64)
    if not view.keys:
        labels, members = [()], [np.arange(cells.height)]
    else:
        slices = sorted_by_label(cells.select(view.keys).unique(), view.keys).with_row_index("slice")
        labels = [tuple(row) for row in slices.select(view.keys).iter_rows()]
        places = cells.join(slices, on=view.keys, how="left", nulls_equal=True)["slice"].to_numpy()
        order = np.argsort(places, kind="stable")
        members = np.split(order, np.searchsorted(places[order], np.arange(1, len(labels))))
    tallies = [Sources.collapsed(names, amounts[m], counts[m]) for m in members]
    lost = [label for label in broken if label not in set(labels)]
    tallies += [Sources(names, np.zeros((0, len(names))), np.zeros(0)) for _ in lost]
    every = [*labels, *lost]
    rising = rows_in_order(every) if lost else range(len(every))
    return SourceSlices(tuple(every[i] for i in rising), tuple(tallies[i] for i in rising), broken)
