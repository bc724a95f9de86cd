"""Do two orderings agree? Kendall's tau-c, for metrics over systems."""

from __future__ import annotations

import math
import warnings
from itertools import permutations
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, UndefinedWarning

EXACT = 7
"""Up to this many systems every permutation is tried."""


def kendall_tau_c(x: Any, y: Any) -> float:
    """Stuart's tau-c between two lists: 2 m (C - D) / (n^2 (m - 1)).

    C and D are the concordant and discordant pairs, m the smaller number of distinct values. Pairs with a NaN are left
    out; a list that never varies gives NaN with reason `constant_input`.

    >>> round(kendall_tau_c([1, 2, 3, 4], [4, 3, 2, 1]), 6)
    -1.0
    """
    a, b = both_known(x, y)
    value = tau_c(a, b)
    if math.isnan(value):
        code = "constant_input" if len(a) else "empty"
        warnings.warn(UndefinedWarning(f"kendall_tau_c is undefined: {code}.", code), stacklevel=2)
    return value


def both_known(x: Any, y: Any) -> tuple[Floats, Floats]:
    """The entries that both lists have."""
    try:
        a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EvenhandError("x and y must be numbers. Pass two lists with one number per system.") from error
    if a.shape != b.shape or a.ndim != 1:
        raise EvenhandError(f"x has {a.size:,} values and y has {b.size:,}. Pass two lists of the same length.")
    complete = ~(np.isnan(a) | np.isnan(b))
    return a[complete], b[complete]


def tau_c(a: Floats, b: Floats) -> float:
    """tau-c of two lists without NaN."""
    smaller = min(len(np.unique(a)), len(np.unique(b)))
    if smaller < 2:
        return math.nan
    agreement = (_signs(a) * _signs(b)).sum() / 2
    return float(2 * smaller * agreement / (len(a) ** 2 * (smaller - 1)))


def _signs(a: Floats) -> Floats:
    return np.asarray(np.greater.outer(a, a).astype(float) - np.less.outer(a, a))


def tau_c_p(a: Floats, b: Floats, draws: int, rng: np.random.Generator) -> float:
    """Probability of a |tau-c| at least as large under a random pairing.

    Exact up to seven systems, else a permutation test with the observed order counted in.
    """
    if math.isnan(tau_c(a, b)):
        return math.nan
    x, y = _signs(a), _signs(b)
    observed = abs(float((x * y).sum()))
    n = len(a)
    exact = n <= EXACT
    orders = (
        np.array(list(permutations(range(n)))) if exact else rng.permuted(np.tile(np.arange(n), (draws, 1)), axis=1)
    )
    drawn = np.abs((x[None] * y[orders[:, :, None], orders[:, None, :]]).sum((1, 2)))
    as_large = int((drawn >= observed - 1e-9).sum())
    return as_large / len(orders) if exact else (as_large + 1) / (draws + 1)


def oriented(values: Any, better: str, ideal: Any) -> Floats:
    """Values turned so that larger is fairer, to twelve digits so that equal ones tie.

    >>> oriented([0.2, -0.5], "ideal", 0.0).tolist(), oriented([0.2, 0.5], "lower", 0.0).tolist()
    ([-0.2, -0.5], [-0.2, -0.5])
    """
    x = np.asarray(values, dtype=np.float64)
    if better == "ideal":
        x = -np.abs(x - np.asarray(ideal, dtype=np.float64))
    elif better == "lower":
        x = -x
    elif better != "higher":
        return np.full(x.shape, np.nan)
    return np.array([float(f"{v:.12g}") for v in x.reshape(-1)]).reshape(x.shape)


def places(fairness: Floats) -> Floats:
    """Rank of each system, 1 the fairest; ties share the better rank, NaN has none.

    >>> places(np.array([0.5, 0.9, 0.5, np.nan])).tolist()
    [2.0, 1.0, 2.0, nan]
    """
    above = (fairness[None, :] > fairness[:, None]).sum(1) + 1.0
    return np.where(np.isnan(fairness), np.nan, above)
