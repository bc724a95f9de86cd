"""Delete-a-bucket jackknife over requests."""

from __future__ import annotations

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.kinds import Scale

BUCKETS = 100
FEWEST = 5
"""Requests below which there is no interval."""


def buckets(requests: int, rng: np.random.Generator, most: int = BUCKETS) -> np.typing.NDArray[np.int64]:
    """(requests,) a bucket for each, dealt at random so that their sizes differ by one at most."""
    dealt = np.empty(requests, dtype=np.int64)
    dealt[rng.permutation(requests)] = np.arange(requests) % max(1, min(most, requests))
    return dealt


def jackknife_ends(estimate: float, without: Floats, level: float, span: tuple[float, float]) -> tuple[float, float]:
    """Interval ends from values that each leave one bucket out, on the scale that fits the span.

    No variation at all, or an estimate on the boundary of its span: NaN, there is nothing to read an error off.
    """
    from scipy.special import stdtrit

    many = len(without)
    error = float(np.sqrt((many - 1) / many * ((without - without.mean()) ** 2).sum())) if many >= FEWEST else 0.0
    if not error > 0 or not np.isfinite(error) or estimate in span:
        return np.nan, np.nan
    reach = float(stdtrit(many - 1, (1 + level) / 2)) * error
    low, high = span
    if min(estimate - low, high - estimate) <= reach:  # so near the end that a curved scale would run away
        return max(low, estimate - reach), min(high, estimate + reach)
    scale = Scale.fitting(span)
    middle = scale.forward(np.array(estimate))
    step = reach * float(scale.slope(np.array(estimate)))
    return float(scale.inverse(middle - step)), float(scale.inverse(middle + step))
