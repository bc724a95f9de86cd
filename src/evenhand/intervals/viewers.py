"""Intervals for these units seen by other viewers: whoever looked (or asked, or clicked) is left out in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.cards import MetricSpec
from evenhand.intervals.kinds import Interval, normal_ends
from evenhand.tallies.buckets import Buckets


def viewer_ends(
    tally: Buckets, specs: Sequence[MetricSpec], estimates: Sequence[float], interval: Interval
) -> list[tuple[float, float]]:
    """Interval ends of every metric of one slice, for as many other viewers.

    Each bucket of viewers is left out once (jackknife), with Student's t for so many buckets. Drawing viewers with
    replacement would not do: a viewer drawn twice sees the same units again, which looks like inequality.
    """
    active = np.flatnonzero(tally.volumes > 0)
    left = np.ones((len(active), len(tally.sizes)), dtype=bool)
    left[np.arange(len(active)), active] = False
    values = [np.full(len(active), np.nan) for _ in specs]
    for at, spectrum in tally.spectra(left):
        for a, without in zip(specs, values, strict=True):
            without[at] = a.on(spectrum)
    ends, buckets = [], len(active)
    for a, estimate, without in zip(specs, estimates, values, strict=True):
        if buckets < 2 or not np.isfinite(without).all():
            ends.append((np.nan, np.nan))
            continue
        error = np.sqrt((buckets - 1) / buckets * ((without - without.mean()) ** 2).sum())
        low, high = normal_ends(np.array([estimate]), np.array([error]), interval.level, a.span, buckets)
        ends.append((float(low[0]), float(high[0])))
    return ends


def both_ends(estimate: float, seen: tuple[float, float], drawn: tuple[float, float]) -> tuple[float, float]:
    """Interval ends for other viewers and other units: distances of both add in squares.

    What single views add by chance is in both, so that the sum is wide rather than too short.

    >>> both_ends(0.5, (0.47, 0.53), (0.46, 0.54))
    (0.45, 0.55)
    """
    (low, high), (other_low, other_high) = seen, drawn
    down, up = np.hypot(estimate - low, estimate - other_low), np.hypot(high - estimate, other_high - estimate)
    return float(estimate - down), float(estimate + up)


def viewers(tally: Buckets) -> int:
    """How many viewers gave somebody something, or how many buckets of them where they are many."""
    return int((tally.volumes > 0).sum())
