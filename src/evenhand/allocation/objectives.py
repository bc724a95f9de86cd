"""How even is the exposure of providers? Concave values of it, the prices that they put on exposure, and what bounds them.

Every function reads x, exposure over its mean, so that the entries add up to the number of providers. Prices g are slopes:
F(y) <= <g, y> + offset for every y that lists can give, which is what makes a bound on the best policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenhand.cards import Floats


@dataclass(frozen=True)
class Slope:
    """A smoothed value and its slope.

    Attributes
    ----------
    value : the smoothed objective. prices : (providers,) its gradient. offset : what <prices, y> misses at most.
    """

    value: float
    prices: Floats
    offset: float


class Objective(Protocol):
    """Value of the exposure of providers; 1 is best, or the best that is not unbounded."""

    def value(self, x: Floats) -> float:
        """The objective itself, not smoothed."""

    def slope(self, x: Floats, centre: Floats, width: float) -> Slope:
        """The objective smoothed by prices near `centre`; closer to it the narrower the width."""


class Evenness:
    """1 - Gini: at fixed total the least of <g, x> over all permutations of the rank prices."""

    def __init__(self, providers: int) -> None:
        ranks = np.arange(1, providers + 1)
        self.by_rank = (providers + 1.0 - 2 * ranks) / providers**2  # falling: the poorest has the highest price

    def value(self, x: Floats) -> float:
        return float(1 + self.by_rank @ np.sort(x))

    def slope(self, x: Floats, centre: Floats, width: float) -> Slope:
        """The Moreau envelope: the prices closest to `centre` - x / width (arXiv 2204.06521)."""
        scale = width * len(x)
        prices = onto_permutahedron(centre - x / scale, self.by_rank)
        away = prices - centre
        return Slope(float(1 + prices @ x + scale / 2 * (away @ away)), prices, 1.0)


def onto_permutahedron(z: Floats, falling: Floats) -> Floats:
    """The point closest to z among all mixtures of permutations of `falling`.

    >>> onto_permutahedron(np.array([0.0, 5.0, 0.1]), np.array([1.0, 0.0, -1.0])).round(2).tolist()
    [-0.55, 1.0, -0.45]
    """
    from scipy.optimize import isotonic_regression

    order = np.argsort(-z, kind="stable")
    ranked = z[order]
    projected = np.empty_like(z)
    projected[order] = ranked - isotonic_regression(ranked - falling, increasing=False).x
    return projected


class Shares:
    """1 - the total variation distance between the shares of providers and their targets."""

    def __init__(self, target: Floats) -> None:
        self.target = target * len(target)  # on the scale of x
        self.most = 0.5 / len(target)

    def value(self, x: Floats) -> float:
        return float(1 - self.most * np.abs(x - self.target).sum())

    def slope(self, x: Floats, centre: Floats, width: float) -> Slope:
        scale = width * len(x)
        prices = np.clip(centre - (x - self.target) / scale, -self.most, self.most)
        away = prices - centre
        offset = float(1 - prices @ self.target)
        return Slope(float(prices @ x + scale / 2 * (away @ away)) + offset, prices, offset)


class Welfare:
    """1 + (mean of x^(1 - epsilon) - 1) / (1 - epsilon); epsilon 1: 1 + mean of ln x."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def value(self, x: Floats) -> float:
        e = self.epsilon
        with np.errstate(divide="ignore"):
            if e == 1:
                return float(1 + np.log(x).mean())
            return float(1 + (np.power(x, 1 - e).mean() - 1) / (1 - e))

    def equivalent(self, y: Floats) -> float:  # noqa: ARG002
        """The slope is (y / equivalent)^-epsilon over the number of providers."""
        return 1.0

    def slope(self, x: Floats, centre: Floats, width: float) -> Slope:
        """The slope at the y that gains most from moving away from x at prices `centre`.

        The slope at nothing has no end; y is above nothing, and a tangent there bounds the objective everywhere.
        """
        e, scale = self.epsilon, width * len(x)
        start, level = x - scale * centre, 1.0
        y = np.zeros_like(x)
        for _ in range(60):  # y = start + scale * slope(y), by Newton from below
            push = scale * level**e / len(x)
            least = np.minimum((push / 2) ** (1 / (1 + e)), (push / np.maximum(-2 * start, push)) ** (1 / e))
            before, y = y, np.maximum(y, np.maximum(start, least))
            y = np.maximum(y + (push * y**-e + start - y) / (1 + e * push * y ** (-1 - e)), least)
            level = self.equivalent(y)
            if np.abs(y - before).max() <= 1e-10 * level:
                break
        prices = (y / level) ** -e / len(x)
        value, away = self.value(y), x - y
        return Slope(value + float(centre @ away - away @ away / (2 * scale)), prices, value - float(prices @ y))


class Atkinson(Welfare):
    """1 - Atkinson: equally distributed equivalent of x, its power mean of order 1 - epsilon."""

    def value(self, x: Floats) -> float:
        e = self.epsilon
        if e >= 1 and (x <= 0).any():
            return 0.0
        if e == 1:
            return float(np.exp(np.log(x).mean()))
        return float(np.power(x, 1 - e).mean() ** (1 / (1 - e)))

    def equivalent(self, y: Floats) -> float:
        return self.value(y)
