"""From a log to what units received on two occasions: two arms of the same units, or during an experiment and before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.engine.spectra import (
    Label,
    Slices,
    added_up,
    refuse_changing_weights,
    rounded,
    rows_in_order,
    sound_rows,
)
from evenhand.errors import EvenhandError
from evenhand.tallies.paired_amounts import PairedAmounts
from evenhand.tallies.spectrum import Spectra
from evenhand.views.benefits import Amount, Benefits
from evenhand.views.match import matched_ids, same_engine
from evenhand.views.tables import each_once, to_polars


@dataclass(frozen=True)
class Occasions:
    """Pairs of amounts per slice, in the order of the labels, and the slices that hold a NaN."""

    labels: tuple[Label, ...]
    tallies: tuple[PairedAmounts, ...]
    broken: frozenset[Label] = frozenset()

    @property
    def pooled(self) -> Slices:
        """The slices by their first amounts; how many units each has is what counts."""
        spectra = [tally.sides[0].spectrum(tally.counts) for tally in self.tallies]
        return Slices(self.labels, Spectra.of(spectra), self.broken)

    def among(self, everyone: Slices) -> Occasions:
        """The same with units that nobody saw: `everyone` says how many each slice has in all."""
        mine = dict(zip(self.labels, self.tallies, strict=True))
        units = dict(zip(everyone.labels, everyone.spectra.units.tolist(), strict=True))
        kept = tuple(label for label in everyone.labels if label in mine)
        unseen = {k: units[k] - mine[k].units for k in kept}
        padded = [
            mine[k].merge(PairedAmounts.from_arrays([0.0], [0.0], [unseen[k]])) if unseen[k] else mine[k] for k in kept
        ]
        return Occasions(kept, tuple(padded), self.broken)


def arms_of(view: Benefits) -> tuple[Any, ...]:
    """Labels of the arms, in order."""
    found = [(v,) for v in to_polars(each_once(view.lazy.select("arm")))["arm"].to_list()]
    return tuple(found[i][0] for i in rows_in_order(found))


def tally_arms(view: Benefits, amount: Amount, arm: Any, control: Any) -> Occasions:
    """What each unit received in one arm and in another; who is in one of them only received nothing in the other."""
    lazy, broken = sound_rows(view, amount)
    per_arm = added_up(lazy, view, amount, [*view.keys, "unit", "arm"])
    zero = nw.lit(0).cast(nw.Int64 if amount.integer else nw.Float64)
    sides = [
        nw.when(nw.col("arm") == nw.lit(label)).then(nw.col("amount")).otherwise(zero).alias(name)
        for name, label in (("first", arm), ("second", control))
    ]
    return _occasions(per_arm.with_columns(*sides), view, broken)


def tally_before(view: Benefits, amount: Amount, before: Benefits, past: Amount) -> Occasions:
    """What each unit received during the experiment and before it; slices are those of the experiment."""
    lazy, broken = sound_rows(view, amount)
    now = added_up(lazy, view, amount, [*view.keys, "unit"]).with_columns(nw.col("amount").alias("first"))
    earlier = added_up(sound_rows(before, past)[0], replace(before, weight=None), past, ["unit"])
    earlier = same_engine(earlier.select("unit", nw.col("amount").alias("second")), now)
    earlier, now = matched_ids(earlier, now, ["unit"], role="before")
    both = now.join(earlier, on="unit", how="left").with_columns(nw.col("second").fill_null(0))
    return _occasions(both, view, broken)


def refuse_several_arms(view: Benefits, key: str) -> None:
    """A unit that was randomised is in one arm."""
    pairs = each_once(view.lazy.select("unit", key)).group_by("unit").agg(nw.len().alias("arms"))
    several = int(to_polars(pairs.filter(nw.col("arms") > 1).select(nw.len().alias("n")))["n"][0])
    if several:
        raise EvenhandError(
            f"{several:,} units (unit={view.unit!r}) have rows in several arms, so they were not what was randomised. "
            "Name the column that was as randomized, or pass None if nothing was."
        )


def _occasions(lazy: nw.LazyFrame[Any], view: Benefits, broken: frozenset[Label]) -> Occasions:
    """Rows with `first` and `second`, added up by unit and counted by pairs."""
    keys = view.keys
    added = [nw.col("first").sum(), nw.col("second").sum()]
    weighted = ["weight", "least_weight"] if view.weight is not None else []
    if weighted:
        added += [nw.col("weight").max(), nw.col("least_weight").min()]
    pairs = lazy.group_by(*keys, "unit").agg(*added)
    counted = pairs.group_by(*keys, "first", "second", *weighted).agg(nw.len().alias("units"))
    cells = to_polars(counted.with_columns(nw.col("units").cast(nw.Int64)))
    if weighted:
        refuse_changing_weights(cells, view)
    parts = [((), cells)] if not keys else [(tuple(k), v) for k, v in cells.partition_by(keys, as_dict=True).items()]
    order = rows_in_order([label for label, _ in parts])
    return Occasions(tuple(parts[i][0] for i in order), tuple(_twice(parts[i][1], weighted) for i in order), broken)


def _twice(cells: Any, weighted: Sequence[str]) -> PairedAmounts:
    sides = [cells[name].to_numpy().astype(np.float64) for name in ("first", "second")]
    sides = [
        rounded(x) if cells[name].dtype.is_float() else x for x, name in zip(sides, ("first", "second"), strict=True)
    ]
    weights = cells["weight"].to_numpy() if weighted else None
    return PairedAmounts.from_arrays(sides[0], sides[1], cells["units"].to_numpy(), weights)
