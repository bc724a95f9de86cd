"""Two-sided tests of sums over requests, for what a ranking audit claims."""

from __future__ import annotations

import math

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.rules import MIN_CLUSTERS

FEWEST = 5
"""Requests, or clusters of them, below which their spread says nothing."""


def t_test(values: Floats, *, imposed: bool = False) -> tuple[float, float]:
    """P that the sum of independent values is 0 (Student's t), and the standard error of the sum; NaN for few values.

    `imposed` : values that have mean 0 under the null are squared as they stand. Of fewer than `MIN_CLUSTERS` values p is no
    smaller than the share of all flips of their signs that give as large a sum: few values say little of their law (6
    clusters: 7% false claims by t alone).

    >>> t_test(np.array([1.0, -1.0, 1.0, -1.0, 0.0]))
    (1.0, 2.23606797749979)
    """
    from scipy.special import stdtr

    many = len(values)
    if many < FEWEST:
        return math.nan, math.nan
    centre = 0.0 if imposed else values.mean()
    error = math.sqrt(float(((values - centre) ** 2).sum()) * many / (many - 1))
    total = float(values.sum())
    if abs(total) <= 1e-12 * max(1e-300, float(np.abs(values).sum())):
        return 1.0, error
    p = 2 * float(stdtr(many - 1, -abs(total) / error)) if error > 0 else 0.0
    return (p if many >= MIN_CLUSTERS else max(p, 2 * flip_test(math.copysign(1.0, total) * values))), error


def skewed_test(total: float, variance: float, third: float) -> float:
    """P of a sum with mean 0, this variance and this third central moment under the null (Pearson's type III).

    The normal law gives too small a p on the long side: a minority of 5% that heads 4 of 30 lists is no wonder.

    >>> round(skewed_test(1.96, 1.0, 0.0), 3), round(skewed_test(2.0, 1.0, 1.0), 3)
    (0.05, 0.085)
    """
    return min(1.0, 2 * min(skewed_tails(total, variance, third))) if variance > 0 else math.nan


def skewed_tails(total: float, variance: float, third: float) -> tuple[float, float]:
    """Chances of a sum at most and at least as large, by the same law.

    >>> [round(tail, 4) for tail in skewed_tails(2.0, 1.0, 1.0)]
    [0.9576, 0.0424]
    """
    from scipy.special import gammainc, gammaincc, ndtr

    z, skew = total / math.sqrt(variance), third / variance**1.5
    if abs(skew) < 1e-3:
        return float(ndtr(z)), float(ndtr(-z))
    shape = 4 / skew**2
    at = shape + math.copysign(1.0, skew) * z * math.sqrt(shape)  # below 0 the law ends
    tails = float(gammainc(shape, max(at, 0.0))), float(gammaincc(shape, max(at, 0.0)))
    return tails if skew > 0 else tails[::-1]


def flip_test(means: Floats, draws: int = 0, rng: np.random.Generator | None = None) -> float:
    """P that the mean of independent values is no larger than 0, by flipping their signs; NaN for few values.

    All flips where they are no more than the draws, or values are fewer than `MIN_CLUSTERS`. The squares stay as they are, so
    that a studentised mean is as large as observed exactly where the mean is.

    >>> flip_test(np.array([0.1, 0.3, 0.2, 0.4, -0.05]), 999, np.random.default_rng(1))
    0.0625
    """
    many = len(means)
    if many < FEWEST:
        return math.nan
    ordered = np.sort(means)  # no p depends on what values are called
    least = ordered.sum() - 1e-12 * np.abs(ordered).sum()
    if rng is None or 2**many <= draws + 1 or many < MIN_CLUSTERS:
        signs = 1.0 - 2.0 * ((np.arange(2**many)[:, None] >> np.arange(many)) & 1)
        return float((signs @ ordered >= least).mean())
    at_once, reached = max(1, (1 << 20) // many), 0
    for start in range(0, draws, at_once):
        signs = 1.0 - 2.0 * rng.integers(0, 2, (min(at_once, draws - start), many))
        reached += int((signs @ ordered >= least).sum())
    return (1 + reached) / (1 + draws)
