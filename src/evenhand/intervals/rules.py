"""Rules of every interval, for all audits (formula book F12.8).

An interval holds its own estimate, stays inside the span, has a width unless the value is certain by arithmetic, is not
made of fewer than `MIN_UNITS` units, and says so where it rests on few. Where there is none, a note says why.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenhand.cards import Floats

MIN_UNITS = 5
"""Units, requests, users or buckets below which there is no interval at all."""

FEW_UNITS = 20
"""Units, requests or users below which an interval comes with a caution, unless the metric's card asks for more."""

MIN_CLUSTERS = 10
"""Clusters below which there is neither an interval that is robust to them nor a test that flips their signs."""

ROUNDING = 1e-12
"""Numbers this close, relative to their size, differ by the last bits of sums only."""

ANYTHING = (-math.inf, math.inf)


def t_quantile(level: float, units: Any) -> Floats:
    """Quantile of Student's t for the mean of so many units.

    >>> t_quantile(0.95, [5, 20, 10**6]).round(3).tolist()
    [2.776, 2.093, 1.96]
    """
    from scipy.special import stdtrit

    freedom = np.maximum(np.asarray(units, dtype=np.float64) - 1, 1)
    return np.asarray(stdtrit(freedom, (1 + level) / 2))


def tail_share(level: float, units: Any) -> Floats:
    """Share of bootstrap draws beyond each end ("expanded percentile"; Hesterberg 2015).

    Draws of n units vary by (n - 1) / n too little, and normally rather than as Student's t, so that percentiles lie further
    out for small n.

    >>> tail_share(0.95, [5, 20, 10**9]).round(4).tolist()
    [0.001, 0.0159, 0.025]
    """
    from scipy.special import ndtr

    n = np.maximum(np.asarray(units, dtype=np.float64), 2)
    return np.asarray(ndtr(-np.sqrt(n / (n - 1)) * t_quantile(level, n)))


def reported_ends(
    estimate: float, low: float, high: float, span: tuple[float, float] = ANYTHING, *, certain: bool = False
) -> tuple[float, float, str]:
    """Interval ends as shown, and the note code where there is no interval.

    >>> reported_ends(0.4, 0.5, 1.2, (0.0, 1.0))
    (0.4, 1.0, '')
    >>> reported_ends(0.0, 0.0, 0.0)
    (nan, nan, 'no_variation')
    """
    if certain and math.isfinite(estimate):
        return estimate, estimate, ""
    if math.isnan(low) or math.isnan(high) or not math.isfinite(estimate):
        return math.nan, math.nan, "" if math.isnan(estimate) else "no_interval"
    if high - low <= ROUNDING * max(abs(low), abs(high)) and high - low <= ROUNDING * max(1.0, abs(estimate)):
        return math.nan, math.nan, "no_variation"
    low, high = max(span[0], min(low, high)), min(span[1], max(low, high))
    return min(low, estimate), max(high, estimate), ""
