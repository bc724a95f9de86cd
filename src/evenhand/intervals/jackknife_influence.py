"""The largest change that leaving out one unit, request or user makes: what published figures may not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.tallies.spectrum import Spectrum

MOST_NUMBERS = 1 << 21
"""Counts held at a time (16 MB): of a tally with more cells than its root only some cells lose a unit, the ends among them."""


class Counted(Protocol):
    @property
    def counts(self) -> Floats: ...

    def with_counts(self, counts: Floats) -> Any: ...


T = TypeVar("T", bound=Counted)


def counts_without_one(counts: Floats) -> Floats:
    """(k, C) counts with one unit fewer in one cell each: in every cell, or in the first, the last and some between.

    >>> counts_without_one(np.array([2.0, 0.0, 1.0])).tolist()
    [[1.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    """
    cells = np.flatnonzero(counts > 0)
    most = max(3, MOST_NUMBERS // max(1, len(counts)))
    if len(cells) > most:
        cells = cells[np.unique(np.linspace(0, len(cells) - 1, most).round().astype(np.int64))]
    without = np.tile(counts, (len(cells), 1))
    without[np.arange(len(cells)), cells] = np.maximum(without[np.arange(len(cells)), cells] - 1, 0.0)
    return without


def largest_change(values: Floats, estimate: Any) -> Floats:
    """The largest finite distance of (k, ...) values from the estimate; zero where there is none.

    >>> float(largest_change(np.array([0.2, np.nan, 0.5]), 0.25))
    0.25
    """
    with np.errstate(invalid="ignore"):
        moves = np.abs(values - np.asarray(estimate))
    return np.asarray(np.where(np.isfinite(moves), moves, 0.0).max(0, initial=0.0))


def influence_of_units(spectrum: Spectrum, metrics: Sequence[MetricSpec]) -> list[float]:
    """For each metric, the largest change that leaving out one unit makes."""
    without = Spectrum(spectrum.values, counts_without_one(spectrum.counts), spectrum.weights)
    if not len(without.counts):
        return [0.0] * len(metrics)
    with np.errstate(all="ignore"):
        return [float(largest_change(a.on(without), a.on(spectrum))) for a in metrics]


def influence_on_parts(tally: T, figures: Callable[[T], Mapping[str, Floats]]) -> dict[str, Floats]:
    """For each figure of a tally of cells, the largest change that leaving out one unit makes."""
    without = counts_without_one(tally.counts)
    with np.errstate(all="ignore"):
        values = figures(tally.with_counts(without)) if len(without) else {}
        return {
            name: largest_change(values[name], value) if values else 0 * value for name, value in figures(tally).items()
        }


def influence_of_requests(value: Callable[[Floats], Floats], sums: Floats) -> float:
    """The largest change that leaving out one row of (Q, K) sums makes to what their totals mean."""
    total = sums.sum(0)
    with np.errstate(all="ignore"):
        return float(largest_change(value(total - sums), value(total))) if len(sums) > 1 else 0.0
