"""How far one distribution over groups is from another (table 4 of raj2022, with the two it lacks).

Logarithms are to base 2, so that `js` lies in [0, 1]. 0 log 0 is 0; mass where the other distribution has none makes
`kl` infinite, and nothing is smoothed. Distributions lie along the last axis; leading axes broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError

TINY = 1e-300
"""Stands in for 0 under a logarithm that is multiplied by 0: the product is then 0, as 0 log 0 is by convention."""


def kl(p: Any, q: Any, *, base: float = 2) -> Any:
    """Kullback-Leibler divergence of p from q, in bits.

    >>> round(kl([0.5, 0.5], [0.25, 0.75]), 4)
    0.2075
    >>> kl([0.5, 0.5], [1, 0])
    inf
    """
    return _number(kl_of(*_distributions(p, q)) / math.log2(base))


def js(p: Any, q: Any, *, base: float = 2) -> Any:
    """Jensen-Shannon divergence (not its root): 0 for equal, 1 bit for disjoint distributions.

    >>> js([1, 0], [0, 1])
    1.0
    """
    return _number(js_of(*_distributions(p, q)) / math.log2(base))


def tv(p: Any, q: Any) -> Any:
    """Total variation: the share of mass that would have to move.

    >>> tv([0.75, 0.25], [0.5, 0.5])
    0.25
    """
    return _number(tv_of(*_distributions(p, q)))


def nd(p: Any, q: Any, *, signed: bool = False) -> Any:
    """Difference between the shares of one group; `signed` is negative where it gets less.

    >>> nd(0.25, 0.5)
    0.25
    """
    first, second = _shares(p, q)
    difference = np.asarray(first - second)
    return _number(difference if signed else np.abs(difference))


def rd(p: Any, q: Any) -> Any:
    """Difference between the odds p / (1 - p) and q / (1 - q); NaN where a share is 1.

    >>> rd(0.5, 0.75)
    2.0
    """
    first, second = _shares(p, q)
    return _number(rd_of((first, 1 - first), (second, 1 - second)))


def kl_of(p: Floats, q: Floats) -> Floats:
    return np.asarray(kl_terms(p, q).sum(-1))


def kl_terms(p: Floats, q: Floats) -> Floats:
    """P log2(p / q), with 0 log 0 = 0 and p log(p / 0) infinite."""
    terms = p * (np.log2(np.maximum(p, TINY)) - np.log2(np.maximum(q, TINY)))
    return np.where((q <= 0) & (p > 0), np.inf, terms)


def js_of(p: Floats, q: Floats) -> Floats:
    # The mean of two entropies taken from that of the middle, so it is never negative but for rounding.
    terms = (p_log_p(p) + p_log_p(q)) / 2 - p_log_p((p + q) / 2)
    return np.asarray(np.maximum(terms.sum(-1), 0.0))


def p_log_p(p: Floats) -> Floats:
    """P log2 p, with 0 log 0 = 0."""
    return np.asarray(p * np.log2(np.maximum(p, TINY)))


def tv_of(p: Floats, q: Floats) -> Floats:
    return np.asarray(np.abs(p - q).sum(-1) / 2)


def rd_of(p: tuple[Floats, Floats], q: tuple[Floats, Floats]) -> Floats:
    """Difference of odds from the shares of one group and of all others.

    Where several shares are added up, one minus the sum would not be exactly zero.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.abs(p[0] / p[1] - q[0] / q[1])
    return np.where((p[1] == 0) | (q[1] == 0), np.nan, difference)


BETWEEN: dict[str, Callable[[Floats, Floats], Floats]] = {"kl": kl_of, "js": js_of, "tv": tv_of}
"""Distances over all groups; `nd` and `rd` look at the share of one group."""


def _distributions(p: Any, q: Any) -> tuple[Floats, Floats]:
    first, second = _numbers(p, q)
    for name, x in (("p", first), ("q", second)):
        if not x.ndim or (x < 0).any() or not np.allclose(x.sum(-1), 1, rtol=0, atol=1e-6):
            raise EvenhandError(f"{name} is not a distribution. Pass shares of zero or more that add up to 1.")
    if first.shape[-1] != second.shape[-1]:
        raise EvenhandError(f"p has shape {first.shape} and q {second.shape}. Pass one share per group in both.")
    return first, second


def _shares(p: Any, q: Any) -> tuple[Floats, Floats]:
    first, second = _numbers(p, q)
    for name, typed, shares in (("p", p, first), ("q", q, second)):
        if (shares < 0).any() or (shares > 1).any():
            raise EvenhandError(f"{name}={typed!r} is outside [0, 1]. Pass the share of one group.")
    return first, second


def _numbers(p: Any, q: Any) -> tuple[Floats, Floats]:
    try:
        first, second = (np.asarray(x, dtype=np.float64) for x in (p, q))
    except (TypeError, ValueError, OverflowError) as error:
        raise EvenhandError("p and q must be numbers. Pass shares between 0 and 1.") from error
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise EvenhandError("p or q holds NaN or infinite numbers. Pass shares between 0 and 1.")
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except ValueError as error:
        raise EvenhandError(f"p has shape {first.shape} and q {second.shape}. Pass the same shape in both.") from error
    return first, second


def _number(x: Floats) -> Any:
    return float(x) if not np.ndim(x) else x
