"""Inequality of amounts: sums over units and pairs of units, nothing sorted before it must be.

Input: `amounts`, one per unit, and `weights` where units count more than once.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from conformance.definitions import defines
from conformance.exact import Undefined, add, dec, frac, fracs, ln, minus, over, power, times


def read(of):
    x = fracs(of["amounts"])
    w = fracs(of.get("weights") or [1] * len(x))
    kept = [(a, b) for a, b in zip(x, w, strict=True) if b]
    if not x:
        raise Undefined("empty")
    if not kept:
        raise Undefined("zero_weight")
    return [a for a, _ in kept], [b for _, b in kept]


def held(of):
    """Amounts and weights of a population in which somebody received something, and the two totals."""
    x, w = read(of)
    total = sum(a * b for a, b in zip(x, w, strict=True))
    if not total:
        raise Undefined("zero_total")
    return x, w, sum(w), total


@defines("mean")
def mean(of):
    x, w = read(of)
    return sum(a * b for a, b in zip(x, w, strict=True)) / sum(w)


@defines("reach")
def reach(of):
    """Weight of those who received something over the weight of all."""
    x, w = read(of)
    return sum(b for a, b in zip(x, w, strict=True) if a) / sum(w)


@defines("gini")
def gini(of, corrected=False):
    """Mean absolute difference of two units over twice the mean: all ordered pairs, or pairs of two different units."""
    x, w, weight, total = held(of)
    pairs = sum(a * b * abs(u - v) for u, a in zip(x, w, strict=True) for v, b in zip(x, w, strict=True))
    if corrected and weight <= 1:
        raise Undefined("single_member")
    return pairs / (2 * total * ((weight - 1) if corrected else weight))


@defines("atkinson")
def atkinson(of, epsilon=Fraction(1, 2)):
    x, w, weight, total = held(of)
    relative = [a * weight / total for a in x]
    share = [b / weight for b in w]
    if epsilon == math.inf:
        return 1 - min(relative)
    epsilon = frac(epsilon)
    if epsilon >= 1 and min(relative) == 0:
        return Fraction(1)
    if epsilon == 1:
        logs = add(times(s, ln(r)) for s, r in zip(share, relative, strict=True))
        return minus(1, dec(logs).exp() if logs else 1)
    inner = add(times(s, power(r, 1 - epsilon)) for s, r in zip(share, relative, strict=True))
    return minus(1, power(inner, 1 / (1 - epsilon)))


@defines("generalized_entropy")
def generalized_entropy(of, alpha=1):
    x, w, weight, total = held(of)
    alpha = frac(alpha)
    relative = [a * weight / total for a in x]
    share = [b / weight for b in w]
    if alpha <= 0 and min(relative) == 0:
        return math.inf
    if alpha == 0:
        return -add(times(s, ln(r)) for s, r in zip(share, relative, strict=True))
    if alpha == 1:
        return add(times(s, r, ln(r)) for s, r in zip(share, relative, strict=True) if r)
    moment = add(times(s, power(r, alpha)) for s, r in zip(share, relative, strict=True))
    return over(minus(moment, 1), alpha * (alpha - 1))


@defines("theil")
def theil(of):
    return generalized_entropy(of, 1)


@defines("hoover")
def hoover(of):
    """What would have to change hands: half the distance between shares of the total and shares of the population."""
    x, w, weight, total = held(of)
    return sum(abs(a * b / total - b / weight) for a, b in zip(x, w, strict=True)) / 2


@defines("herfindahl")
def herfindahl(of, normalized=False):
    x, w, weight, total = held(of)
    squares = sum(b * (a / total) ** 2 for a, b in zip(x, w, strict=True))
    if not normalized:
        return squares
    if weight == 1:
        raise Undefined("single_member")
    return (squares - 1 / weight) / (1 - 1 / weight)


def corners(of):
    """The Lorenz polygon: one corner per unit, from the poorest up."""
    x, w, weight, total = held(of)
    found, people, has = [(Fraction(0), Fraction(0))], Fraction(0), Fraction(0)
    for a, b in sorted(zip(x, w, strict=True)):
        people, has = people + b, has + a * b
        found.append((people / weight, has / total))
    return found


def lorenz(of, p):
    for (p0, s0), (p1, s1) in itertools.pairwise(corners(of)):
        if p <= p1:
            return s0 + (s1 - s0) * (p - p0) / (p1 - p0)
    raise AssertionError(p)


def holders(of, share):
    """Where the polygon first reaches a height above zero; 0 for none."""
    if share == 0:
        return Fraction(0)
    for (p0, s0), (p1, s1) in itertools.pairwise(corners(of)):
        if s0 < share <= s1:
            return p0 + (p1 - p0) * (share - s0) / (s1 - s0)
    raise AssertionError(share)


@defines("top_share")
def top_share(of, p=Fraction(1, 100)):
    return 1 - lorenz(of, 1 - frac(p))


@defines("bottom_share")
def bottom_share(of, p=Fraction(1, 10)):
    return lorenz(of, frac(p))


@defines("share_ratio")
def share_ratio(of, upper=Fraction(4, 5), lower=Fraction(1, 5)):
    below = lorenz(of, frac(lower))
    if not below:
        raise Undefined("zero_denominator")
    return (1 - lorenz(of, frac(upper))) / below


@defines("palma")
def palma(of):
    return share_ratio(of, Fraction(9, 10), Fraction(2, 5))


@defines("equal_share")
def equal_share(of, inverted=False):
    found = holders(of, Fraction(1, 2))
    return 1 - found if inverted else found


@defines("equivalent_to_top")
def equivalent_to_top(of, p=Fraction(1, 10), inverted=False):
    found = holders(of, top_share(of, p))
    return 1 - found if inverted else found


@defines("percentile")
def percentile(of, p=Fraction(1, 2)):
    """Smallest observed amount that at least a share p of the weight does not exceed."""
    x, w = read(of)
    for candidate in sorted(x):
        if sum(b for a, b in zip(x, w, strict=True) if a <= candidate) >= frac(p) * sum(w):
            return candidate
    raise AssertionError(p)


@defines("percentile_ratio")
def percentile_ratio(of, upper=Fraction(4, 5), lower=Fraction(1, 5)):
    below = percentile(of, lower)
    if not below:
        raise Undefined("zero_total" if not any(fracs(of["amounts"])) else "zero_denominator")
    return percentile(of, upper) / below
