"""The inequality metrics as the formula book defines them, slowly and in exact fractions where there is no root or log.

Nothing is sorted before it must be, nothing is collapsed, nothing is shared with the product. `x` are amounts, one per
unit; `w` weights, one per unit (default: everybody counts once). A share `p` is best given as a `Fraction`: 55/100 of
100 units are 55 units, while the float 0.55 is a little more. `None` stands for undefined.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

Amounts = Sequence[float]


def _exact(x: Amounts, w: Amounts | None) -> tuple[list[Fraction], list[Fraction]]:
    weights = [1] * len(x) if w is None else list(w)
    kept = [(Fraction(a), Fraction(b)) for a, b in zip(x, weights, strict=True) if b != 0]
    return [a for a, _ in kept], [b for _, b in kept]


def gini(x: Amounts, w: Amounts | None = None) -> Fraction | None:
    """Mean absolute difference over all ordered pairs (a unit with itself too), over twice the mean."""
    x, w = _exact(x, w)
    weight, total = sum(w), sum(a * b for a, b in zip(x, w, strict=True))
    if not x or total == 0:
        return None
    apart = sum(wi * wj * abs(xi - xj) for xi, wi in zip(x, w, strict=True) for xj, wj in zip(x, w, strict=True))
    return apart / (2 * weight * total)


def gini_over_distinct_pairs(x: Amounts) -> Fraction | None:
    """The same mean over pairs of two different units."""
    x, _ = _exact(x, None)
    n, total = len(x), sum(x)
    if n < 2 or total == 0:
        return None
    apart = sum(abs(x[i] - x[j]) for i in range(n) for j in range(n) if i != j)
    return apart / (n * (n - 1)) / (2 * total / n)


def gini_area(x: Amounts) -> Fraction | None:
    """One minus twice the area under the Lorenz polygon, by trapezia."""
    corners = lorenz_corners(x)
    if corners is None:
        return None
    area = sum((p1 - p0) * (s0 + s1) / 2 for (p0, s0), (p1, s1) in itertools.pairwise(corners))
    return 1 - 2 * area


def atkinson(x: Amounts, epsilon: float, w: Amounts | None = None) -> float | None:
    """One minus the equally distributed equivalent over the mean, each limit written out."""
    x, w = _exact(x, w)
    weight, total = sum(w), sum(a * b for a, b in zip(x, w, strict=True))
    if not x or total == 0:
        return None
    relative = [float(a * weight / total) for a in x]  # amounts over the mean
    share = [float(b / weight) for b in w]
    if epsilon == 0:
        return 0.0
    if math.isinf(epsilon):
        return 1 - min(relative)
    if epsilon >= 1 and min(relative) == 0:
        return 1.0
    if epsilon == 1:
        return 1 - math.exp(math.fsum(s * math.log(r) for s, r in zip(share, relative, strict=True)))
    least = min(r for r in relative if r > 0)
    powers = math.fsum(s * (r / least) ** (1 - epsilon) for s, r in zip(share, relative, strict=True))
    return 1 - least * powers ** (1 / (1 - epsilon))


def generalized_entropy(x: Amounts, alpha: float, w: Amounts | None = None) -> float | None:
    x, w = _exact(x, w)
    weight, total = sum(w), sum(a * b for a, b in zip(x, w, strict=True))
    if not x or total == 0:
        return None
    relative = [float(a * weight / total) for a in x]
    share = [float(b / weight) for b in w]
    if alpha <= 0 and min(relative) == 0:
        return math.inf
    if alpha == 0:
        return -math.fsum(s * math.log(r) for s, r in zip(share, relative, strict=True))
    if alpha == 1:
        return math.fsum(s * r * math.log(r) for s, r in zip(share, relative, strict=True) if r > 0)
    moment = math.fsum(s * r**alpha for s, r in zip(share, relative, strict=True))
    return (moment - 1) / (alpha * (alpha - 1))


def hoover(x: Amounts, w: Amounts | None = None) -> Fraction | None:
    """Half the sum of the distances between a unit's share of the total and its share of the population."""
    x, w = _exact(x, w)
    weight, total = sum(w), sum(a * b for a, b in zip(x, w, strict=True))
    if not x or total == 0:
        return None
    return sum(abs(a * b / total - b / weight) for a, b in zip(x, w, strict=True)) / 2


def herfindahl(x: Amounts, *, normalized: bool = False) -> Fraction | None:
    x, _ = _exact(x, None)
    total = sum(x)
    if not x or total == 0:
        return None
    value = sum((a / total) ** 2 for a in x)
    if not normalized:
        return value
    equal = Fraction(1, len(x))
    return None if len(x) == 1 else (value - equal) / (1 - equal)


def mean(x: Amounts, w: Amounts | None = None) -> Fraction | None:
    x, w = _exact(x, w)
    return sum(a * b for a, b in zip(x, w, strict=True)) / sum(w) if x else None


def lorenz_corners(x: Amounts, w: Amounts | None = None) -> list[tuple[Fraction, Fraction]] | None:
    """The corners of the polygon, one per unit from the poorest up."""
    x, w = _exact(x, w)
    weight, total = sum(w), sum(a * b for a, b in zip(x, w, strict=True))
    if not x or total == 0:
        return None
    corners, people, held = [(Fraction(0), Fraction(0))], Fraction(0), Fraction(0)
    for a, b in sorted(zip(x, w, strict=True)):
        people, held = people + b, held + a * b
        corners.append((people / weight, held / total))
    return corners


def lorenz(x: Amounts, p: Fraction, w: Amounts | None = None) -> Fraction | None:
    """Height of the polygon at p."""
    corners = lorenz_corners(x, w)
    if corners is None:
        return None
    for (p0, s0), (p1, s1) in itertools.pairwise(corners):
        if p <= p1:
            return s0 + (s1 - s0) * (p - p0) / (p1 - p0)
    raise AssertionError(p)


def holders_of(x: Amounts, share: Fraction, w: Amounts | None = None) -> Fraction | None:
    """Where the polygon reaches a height above zero."""
    corners = lorenz_corners(x, w)
    if corners is None:
        return None
    for (p0, s0), (p1, s1) in itertools.pairwise(corners):
        if s0 < share <= s1:
            return p0 + (p1 - p0) * (share - s0) / (s1 - s0)
    raise AssertionError(share)


def top_share(x: Amounts, p: Fraction, w: Amounts | None = None) -> Fraction | None:
    below = lorenz(x, 1 - p, w)
    return None if below is None else 1 - below


def share_ratio(x: Amounts, upper: Fraction, lower: Fraction, w: Amounts | None = None) -> Fraction | None:
    below = lorenz(x, lower, w)
    return None if not below else top_share(x, 1 - upper, w) / below


def equal_share(x: Amounts, w: Amounts | None = None) -> Fraction | None:
    return holders_of(x, Fraction(1, 2), w)


def equivalent_to_top(x: Amounts, p: Fraction, w: Amounts | None = None) -> Fraction | None:
    top = top_share(x, p, w)
    return None if top is None else holders_of(x, top, w)


def percentile(x: Amounts, p: Fraction, w: Amounts | None = None) -> Fraction | None:
    """Smallest observed amount that at least a share p of the weight does not exceed."""
    x, w = _exact(x, w)
    for candidate in sorted(x):
        if sum(b for a, b in zip(x, w, strict=True) if a <= candidate) >= p * sum(w):
            return candidate
    return None


def percentile_ratio(x: Amounts, upper: Fraction, lower: Fraction, w: Amounts | None = None) -> Fraction | None:
    below = percentile(x, lower, w)
    return None if not below else percentile(x, upper, w) / below


def gini_se(x: Amounts) -> float:
    """Z_i = -(G + 1) x_i + (2 / n) sum_j max(x_i - x_j, 0); se = sqrt(sum (Z_i - mean Z)^2) / (n mean)."""
    x, _ = _exact(x, None)
    n, average, index = len(x), sum(x) / len(x), gini(x)
    z = [-(index + 1) * a + Fraction(2, n) * sum(max(a - b, 0) for b in x) for a in x]
    return math.sqrt(sum((v - sum(z) / n) ** 2 for v in z)) / float(n * average)


def top_share_se(x: Amounts, p: Fraction) -> float:
    """IF_i = [(x_i - q) 1(x_i <= q) + pi q - L(pi) x_i] / mean at pi = 1 - p; se = sqrt(sum (IF - mean)^2) / n."""
    x, _ = _exact(x, None)
    n, average, at = len(x), sum(x) / len(x), 1 - p
    q, height = percentile(x, at), lorenz(x, at)
    influence = [(((a - q) if a <= q else 0) + at * q - height * a) / average for a in x]
    return math.sqrt(sum((v - sum(influence) / n) ** 2 for v in influence)) / n


def gini_of_poisson(rate: float, cells: int = 400) -> float:
    """Half the mean absolute difference of two Poisson counts, over their mean: the sum over all pairs."""
    chance = [math.exp(-rate + k * math.log(rate) - math.lgamma(k + 1)) for k in range(cells)]
    return math.fsum(p * q * abs(i - j) for i, p in enumerate(chance) for j, q in enumerate(chance)) / (2 * rate)
