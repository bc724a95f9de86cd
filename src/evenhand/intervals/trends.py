r"""The trend of a series that is looked at again and again, with an interval that allows for related looks.

Least squares on the day; the error is that of independent residuals times the square root of the long-run variance
:math:`V = (1 + \rho)/(1 - \rho)` of an AR(1), with :math:`\rho` corrected for the two parameters fitted, and as many degrees of freedom
as there would be independent looks, :math:`n / V - 2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.intervals.rules import t_quantile

Floats = npt.NDArray[np.float64]

YEAR = 365.25
FEWEST = 8  # looks for a trend: six residual degrees of freedom


@dataclass(frozen=True, slots=True)
class Trend:
    """Change a year with its interval, and the ends of the fitted line."""

    slope: float
    low: float
    high: float
    first: float
    last: float


def trend(days: npt.ArrayLike, levels: npt.ArrayLike, level: float = 0.95) -> Trend | None:
    """The straight line through levels at these days (numbers, in order); None where looks are too few.

    >>> trend(np.arange(20) * 7, 0.5 + 0.01 * np.arange(20) + 0.001 * (-1) ** np.arange(20)).slope.__round__(2)
    0.52
    """
    t, y = np.asarray(days, dtype=np.float64), np.asarray(levels, dtype=np.float64)
    t, y = t[np.isfinite(y)], y[np.isfinite(y)]
    n = len(t)
    if n < FEWEST:
        return None
    t = t / YEAR
    centred = t - t.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (y - y.mean())) / spread
    residuals = y - y.mean() - slope * centred
    squares = float(residuals @ residuals)
    rho = float(residuals[1:] @ residuals[:-1]) / squares if squares > 0 else 0.0
    rho = min(max(rho + (2 + 4 * rho) / n, 0.0), 0.98)  # bias of an autocorrelation about a fitted line (Tanaka 1984)
    variance = (1 + rho) / (1 - rho)
    looks = max(n / variance - 1, 2.0)
    error = math.sqrt(squares / (n - 2) * variance / spread) * float(t_quantile(level, looks))
    ends = y.mean() + slope * centred[[0, -1]]
    return Trend(slope, slope - error, slope + error, float(ends[0]), float(ends[1]))
