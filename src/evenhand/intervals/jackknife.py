"""Delete-a-bucket jackknife: requests, or those who looked at the units, are left out in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import Interval, Scale, normal_ends
from evenhand.intervals.rules import MIN_UNITS, t_quantile
from evenhand.tallies.buckets import Buckets


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
    scale = Scale.fitting(span)
    middle, step = scale.forward(np.array(estimate)), reach * float(scale.slope(np.array(estimate)))
    return float(scale.inverse(middle - step)), float(scale.inverse(middle + step))


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
