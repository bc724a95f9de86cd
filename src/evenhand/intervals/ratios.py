"""Koopman's interval and test of the ratio of two shares, by inverting the score test."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import ndtr, ndtri


def ratio_score(ratio: float, count: float, total: float, base: float, base_total: float) -> float:
    """Koopman's score statistic (signed, standard normal) for share / base share = `ratio`."""
    a, b = (total + base_total) * ratio, -((total + base) * ratio + count + base_total)
    base_share = (-b - math.sqrt(max(0.0, b * b - 4 * a * (count + base)))) / (2 * a)
    share = min(1.0, ratio * base_share)
    variance = share * (1 - share) / total + ratio * ratio * base_share * (1 - base_share) / base_total
    gap = count / total - ratio * base / base_total
    return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap) if gap else 0.0


def ratio_interval(count: float, total: float, base: float, base_total: float, level: float) -> tuple[float, float]:
    """Koopman's interval of the ratio of two independent shares; it holds for no selected candidate too.

    >>> [round(end, 2) for end in ratio_interval(36, 40, 16, 80, 0.95)]  # Koopman (1984), table 1
    [2.94, 7.15]
    """
    z = float(ndtri(0.5 + level / 2))
    estimate = (count / total) / (base / base_total)

    def score(log_ratio: float) -> float:
        return ratio_score(math.exp(log_ratio), count, total, base, base_total)

    centre, far = math.log(estimate) if estimate > 0 else 0.0, 30.0  # e^30: beyond any ratio of counts
    low = math.exp(brentq(lambda x: score(x) - z, centre - far, centre)) if estimate > 0 else 0.0
    start = centre if estimate > 0 else -far
    return low, math.exp(brentq(lambda x: score(x) + z, start, centre + far))


def ratio_p(count: float, total: float, base: float, base_total: float) -> float:
    """Two-sided p that two shares are equal, by the score test."""
    return float(2 * ndtr(-abs(ratio_score(1.0, count, total, base, base_total))))
