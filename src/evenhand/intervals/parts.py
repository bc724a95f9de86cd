"""Bootstrap over units where a cell is more than an amount: units of a group, or a vector of amounts from sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.kinds import Interval, centred_ends, normal_ends, percentile_ends
from evenhand.intervals.spectra import draw_populations
from evenhand.metrics.inequality import spread_of_mean
from evenhand.tallies.spectrum import Spectrum

WIDE = 1 << 16
"""A tally with more cells is not resampled: its intervals are normal, with the linearised error."""


class Cells(Protocol):
    """A tally that can be filled with other units."""

    @property
    def counts(self) -> Floats: ...

    def with_counts(self, counts: Floats) -> Self: ...


T = TypeVar("T", bound=Cells)
Figures = Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Ends:
    """The interval of one figure: arrays of its shape."""

    low: Floats
    high: Floats
    undefined_draws: np.typing.NDArray[np.int64]

    def reaching(self, low: Floats, high: Floats) -> Ends:
        """Widened to these, where they are known."""
        return Ends(np.fmin(self.low, low), np.fmax(self.high, high), self.undefined_draws)

    def in_proportion(self, figure: Floats, whole: float, low: float, high: float) -> Ends:
        """Widened to at least the relative width of the interval of the `whole`.

        >>> found = Ends(np.array(0.9), np.array(1.1), np.array(0)).in_proportion(np.array(1.0), 2.0, 1.0, 2.1)
        >>> float(found.low), float(found.high)
        (0.5, 1.1)
        """
        if not (np.isfinite(whole) and whole > 0):
            return self
        return self.reaching(np.asarray(figure * (low / whole)), np.asarray(figure * (high / whole)))


def drawn_ends(
    tally: T, figures: Callable[[T], Figures], estimates: Figures, interval: Interval, rng: np.random.Generator
) -> dict[str, Ends]:
    """Bootstrap intervals of every figure: percentiles, bias-corrected for `bootstrap`."""
    size, cells = round(float(tally.counts.sum())), len(tally.counts)
    if not size:
        return blank(estimates)
    draws: dict[str, list[Floats]] = {name: [] for name in estimates}
    rngs = rng, rng.spawn(1)[0]
    at_once = max(1, (1 << 20) // max(1, cells))  # 8 MiB
    for start in range(0, interval.draws, at_once):
        many = min(at_once, interval.draws - start)
        counts = draw_populations(rngs, size, tally.counts / tally.counts.sum(), many).astype(np.float64)
        for name, values in figures(tally.with_counts(counts)).items():
            draws[name].append(values)
    ends = {}
    for name, batches in draws.items():
        every = np.moveaxis(np.concatenate(batches), 0, -1)
        undefined = np.isnan(estimates[name])
        if interval.kind == "bootstrap":  # a part that noise alone fills is above what it measures
            both = centred_ends(np.asarray(estimates[name]), every, interval.level, size, biased=True)
        else:
            both = percentile_ends(every, interval.level, size)
        low, high = (np.where(undefined, np.nan, end) for end in both)
        ends[name] = Ends(low, high, np.asarray(np.isnan(every).sum(-1)))
    return ends


def linearised_ends(
    units: Spectrum, influence: Figures, estimates: Figures, spans: Mapping[str, tuple[float, float]], level: float
) -> dict[str, Ends]:
    """Normal intervals of every figure, from the influence of a unit per cell (last axis)."""
    ends = {}
    for name, per_cell in influence.items():
        with np.errstate(invalid="ignore", divide="ignore"):
            error = spread_of_mean(units, per_cell)
        both = normal_ends(estimates[name], error, level, spans[name], float(units.units))
        low, high = (np.where(np.isnan(estimates[name]), np.nan, end) for end in both)
        ends[name] = Ends(low, high, np.zeros(estimates[name].shape, dtype=np.int64))
    return ends


def blank(estimates: Figures) -> dict[str, Ends]:
    """No intervals."""
    return {
        name: Ends(np.full(v.shape, np.nan), np.full(v.shape, np.nan), np.zeros(v.shape, dtype=np.int64))
        for name, v in estimates.items()
    }
