"""Delete-a-bucket jackknife over requests or viewers, and the largest change that leaving out one unit makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import MIN_UNITS, Interval, normal_ends, t_quantile
from evenhand.tallies.buckets import Buckets
from evenhand.tallies.spectrum import Spectrum


def random_buckets(requests: int, rng: np.random.Generator, most: int = 100) -> np.typing.NDArray[np.int64]:
    """(requests,) a bucket for each at random, of sizes that differ by one at most."""
    bucket = np.empty(requests, dtype=np.int64)
    bucket[rng.permutation(requests)] = np.arange(requests) % max(1, min(most, requests))
    return bucket


def jackknife_error(without: Floats) -> float:
    """Standard error from values that each leave one bucket out."""
    buckets = len(without)
    return float(np.sqrt((buckets - 1) / buckets * ((without - without.mean()) ** 2).sum()))


def jackknife_ends(estimate: float, without: Floats, level: float, span: tuple[float, float]) -> tuple[float, float]:
    """Interval ends from values that each leave one bucket out, on the scale that fits the span.

    No variation at all, or an estimate on the boundary of its span: NaN, there is nothing to read an error off.
    """
    error = jackknife_error(without) if len(without) >= MIN_UNITS else 0.0
    if not error > 0 or not np.isfinite(error) or estimate in span:
        return np.nan, np.nan
    reach = float(t_quantile(level, len(without))) * error
    low, high = span
    if min(estimate - low, high - estimate) <= reach:  # so near the end that a curved scale would run away
        return max(low, estimate - reach), min(high, estimate + reach)
    ends = normal_ends(np.array([estimate]), np.array([error]), level, span, len(without))
    return float(ends[0][0]), float(ends[1][0])


def viewer_ends(
    tally: Buckets, specs: Sequence[MetricSpec], estimates: Sequence[float], interval: Interval
) -> list[tuple[float, float]]:
    """Interval ends of every metric of one slice, for these units seen by as many other viewers.

    Each bucket of viewers is left out once, with Student's t for so many buckets. Drawing viewers with replacement would
    not do: a viewer drawn twice sees the same units again, which looks like inequality.
    """
    active = np.flatnonzero(tally.volumes > 0)
    remaining = np.ones((len(active), len(tally.sizes)), dtype=bool)
    remaining[np.arange(len(active)), active] = False
    values = [np.full(len(active), np.nan) for _ in specs]
    for at, spectrum in tally.spectra(remaining):
        for a, without in zip(specs, values, strict=True):
            without[at] = a.on(spectrum)
    ends = []
    for a, estimate, without in zip(specs, estimates, values, strict=True):
        if len(active) < 2 or not np.isfinite(without).all():
            ends.append((np.nan, np.nan))
            continue
        error = np.array([jackknife_error(without)])
        low, high = normal_ends(np.array([estimate]), error, interval.level, a.span, len(active))
        ends.append((float(low[0]), float(high[0])))
    return ends


def both_ends(estimate: float, viewers: tuple[float, float], units: tuple[float, float]) -> tuple[float, float]:
    """Interval ends for other viewers and other units: distances of both add in squares.

    What single views add by chance is in both, so that the sum is wide rather than too short.

    >>> both_ends(0.5, (0.47, 0.53), (0.46, 0.54))
    (0.45, 0.55)
    """
    down = np.hypot(estimate - viewers[0], estimate - units[0])
    up = np.hypot(viewers[1] - estimate, units[1] - estimate)
    return float(estimate - down), float(estimate + up)


MOST_NUMBERS = 1 << 21
"""Counts held at a time (16 MB): of a tally with more cells than its root only some cells lose a unit, the ends among them."""


T = TypeVar("T", bound=Any)
"""A tally of units in cells: their `counts`, and the same tally `with_counts` of others."""


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
