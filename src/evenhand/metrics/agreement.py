"""Do two orderings agree? Kendall's tau-c, for metrics over systems."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
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
    try:
        a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EvenhandError("x and y must be numbers. Pass two lists with one number per system.") from error
    if a.shape != b.shape or a.ndim != 1:
        raise EvenhandError(f"x has {a.size:,} values and y has {b.size:,}. Pass two lists of the same length.")
    complete = ~(np.isnan(a) | np.isnan(b))
    return a[complete], b[complete]


def tau_c(a: Floats, b: Floats) -> float:
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

    A ratio (ideal 1) is turned to -|ln x|: half is as far from parity as double, and 0 is as bad as infinity.

    >>> oriented([0.2, -0.5], "ideal", 0.0).tolist(), oriented([0.2, 0.5], "lower", 0.0).tolist()
    ([-0.2, -0.5], [-0.2, -0.5])
    >>> oriented([0.0, 0.5, 1.0, 2.0], "ideal", 1.0).round(3).tolist()
    [-inf, -0.693, -0.0, -0.693]
    """
    x = turned(values, better, ideal)
    return np.array([float(f"{v:.12g}") for v in x.reshape(-1)]).reshape(x.shape)


def turned(values: Any, better: str, ideal: Any) -> Floats:
    """As `oriented`, unrounded: for thousands of draws, which never tie."""
    x, neutral = np.asarray(values, dtype=np.float64), np.asarray(ideal, dtype=np.float64)
    if better == "ideal":
        with np.errstate(divide="ignore", invalid="ignore"):
            return -np.abs(np.where(neutral == 1, np.log(x), x - neutral))
    return -x if better == "lower" else x if better == "higher" else np.full(x.shape, np.nan)


def fairness(rows: Sequence[Mapping[str, Any]]) -> Floats:
    """How fair each system is by one metric: its rows, turned so that larger is fairer.

    Where the level expected by chance differs between systems (lists of other lengths, groups of other sizes), it is
    subtracted first: it says nothing about the order that a system chose. A value that is exactly its chance level is that
    of lists with one group only, which no order can change: such a system is last.

    >>> rows = [{"estimate": 0.3, "chance": 0.29}, {"estimate": 0.2, "chance": 0.1}, {"estimate": 0.4, "chance": 0.4}]
    >>> fairness([{**row, "better": "lower", "ideal": 0.0} for row in rows]).tolist()
    [-0.01, -0.1, -inf]
    """
    names = ("estimate", "chance", "ideal")
    estimates, chances, ideals = (
        np.array([np.nan if row.get(name) is None else row[name] for row in rows], dtype=np.float64) for name in names
    )
    better = rows[0]["better"] if rows else ""
    defined = chances[~np.isnan(estimates)]
    # beyond nine digits they differ by rounding only
    if np.isnan(defined).any() or len({f"{chance:.9g}" for chance in defined}) < 2:
        return oriented(estimates, better, ideals)
    return np.where(np.isclose(estimates, chances, rtol=1e-9), -np.inf, oriented(estimates - chances, better, 0.0))


def places(fairness: Floats) -> Floats:
    """Rank of each system, 1 the fairest; ties share the better rank, NaN has none.

    >>> places(np.array([0.5, 0.9, 0.5, np.nan])).tolist()
    [2.0, 1.0, 2.0, nan]
    """
    above = (fairness[None, :] > fairness[:, None]).sum(1) + 1.0
    return np.where(np.isnan(fairness), np.nan, above)
