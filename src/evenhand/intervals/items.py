"""Draws that need single items: attention item by item, and items resampled as well as requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.requests import picks
from evenhand.tallies.group_exposure import GroupExposure
from evenhand.tallies.ranked_lists import CrossedSums, ItemAttention
from evenhand.tallies.requests import Measured, Requests

MOST_WORK = 4_000_000_000
"""Draws times cells that are resampled; beyond it item-level attention has no interval."""


@dataclass(frozen=True)
class ItemResampler:
    """A metric of attention per item, on resampled requests (or clusters of them) of a sparse request-item table."""

    ask: MetricSpec
    table: ItemAttention
    within: Requests

    def value(self, part: slice) -> float:
        return float(self.ask.on(self.table.totals(part)).reshape(-1)[0])

    def reason(self, part: slice) -> str:
        return self.ask.card.reason(self.table.totals(part), **self.ask.params) if part.stop > part.start else "empty"

    def draws(self, part: slice, draws: int, rng: np.random.Generator) -> Floats | None:
        """The metric on resamples of the requests, or None where that would take too long."""
        requests, items = part.stop - part.start, self.table.attention.shape[1]
        units = self.within.units(int(np.searchsorted(self.within.starts, part.start, side="right")) - 1)
        if not requests or draws * self.table.cells(part) > MOST_WORK:
            return None
        out = np.empty(draws)
        at_once = max(1, (1 << 22) // max(requests, items))
        for start in range(0, draws, at_once):
            count = min(at_once, draws - start)
            times = picks(int(units.max()) + 1, count, rng)[:, units]
            out[start : start + count] = self.ask.on(self.table.resampled(part, times.T))
        return out


def crossed_draws(
    measures: Callable[[GroupExposure, Floats], Sequence[Measured]],
    crossed: CrossedSums,
    sums: GroupExposure,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """(slices, metrics, draws) values on resamples of each slice's requests and of all items.

    `measures` makes the metrics from the exposure of groups and the sizes of groups.
    """
    slices, results, at_once = range(len(sums.slices)), [], 16
    units = [sums.within.units(s) for s in slices]
    for start in range(0, draws, at_once):
        counts = item_counts(crossed.items, min(at_once, draws - start), rng)
        for drawn, sizes in crossed.drawn(sums, counts):
            times = [picks(int(u.max()) + 1, 1, rng)[0][u] if len(u) else np.zeros(0) for u in units]
            measured = measures(drawn, sizes)
            with np.errstate(divide="ignore", invalid="ignore"):
                finite = [np.nan_to_num(m.sums, posinf=0.0, neginf=0.0) for m in measured]
                values = [
                    [
                        float(m.value(np.asarray(times[s] @ x[sums.part(s)])))
                        for m, x in zip(measured, finite, strict=True)
                    ]
                    for s in slices
                ]
            results.append(values)
    return np.moveaxis(np.array(results), 0, -1)


def item_counts(items: int, draws: int, rng: np.random.Generator) -> np.typing.NDArray[np.uint8]:
    """(items, draws) how often each item is in a resample; a byte holds it in practice."""
    counts = np.empty((items, draws), dtype=np.uint8)
    for draw in range(draws):
        counts[:, draw] = picks(items, 1, rng)[0] if items else 0
    return counts
