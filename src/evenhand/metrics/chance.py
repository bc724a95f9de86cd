"""What a prefix metric would be on average if the labelled items stood in random order: exact, never simulated."""

from __future__ import annotations

import functools

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.terms import Terms

MOST_CELLS = 1 << 18
"""Probabilities held at a time: 2 MB."""


def expected_terms(terms: Terms, kind: int) -> Floats:
    """(size,) mean of the term over random orders of a list of this kind, for every prefix.

    The items of a group among the first k follow the hypergeometric distribution.

    >>> from evenhand.metrics.differences import nd
    >>> one, two = np.array([1.0]), np.array([2.0])
    >>> expected_terms(Terms(nd, one, two, one, two), 0).tolist()
    [0.5, 0.0]
    """
    count, size = int(terms.counts[kind]), int(terms.sizes[kind])
    means = np.empty(size)
    for ranks in np.array_split(np.arange(1, size + 1), max(1, size * (count + 1) // MOST_CELLS)):
        k = ranks[:, None]
        # Counts more than 12 standard deviations (and 30) off their mean weigh less than 1e-30 in all.
        mean = k * (count / size)
        far = 12 * np.sqrt(mean * (1 - count / size) * (size - k) / max(size - 1, 1)) + 30
        c = np.arange(max(0, int((mean - far).min())), min(count, int((mean + far).max()) + 1) + 1)
        chance = _hypergeometric(c, k, count, size)
        with np.errstate(invalid="ignore"):  # an infinite term that no order meets
            means[ranks - 1] = np.where(chance > 0, chance * terms.at(c, k, kind), 0.0).sum(1)
    return means


def _hypergeometric(c: np.typing.NDArray[np.int64], k: np.typing.NDArray[np.int64], count: int, size: int) -> Floats:
    """Probability of c items of the group among the first k, out of `count` in a list of `size`."""
    logs = _log_factorials(1 << (size + 1).bit_length())
    others = size - count
    possible = (c <= k) & (k - c <= others)
    c, rest = np.where(possible, c, 0), np.where(possible, k - c, 0)
    ways = logs[count] - logs[c] - logs[count - c] + logs[others] - logs[rest] - logs[others - rest]
    chance = np.exp(ways - (logs[size] - logs[k] - logs[size - k]))
    return np.where(possible, chance, 0.0)


@functools.lru_cache(maxsize=4)
def _log_factorials(size: int) -> Floats:
    from scipy.special import gammaln

    return np.asarray(gammaln(np.arange(size) + 1.0))


def share_band(count: int, size: int, seen: np.typing.NDArray[np.int64], level: float) -> tuple[Floats, Floats]:
    """Lowest and highest share of a group among the first items of random orders.

    Random orders lie between them with probability `level`, for each number of items in `seen`.

    >>> low, high = share_band(1, 2, np.array([1, 2]), 0.95)
    >>> low.tolist(), high.tolist()
    ([0.0, 0.5], [1.0, 0.5])
    """
    tail = (1 - level) / 2
    low, high = np.zeros(len(seen)), np.ones(len(seen))
    for i, k in enumerate(seen.tolist()):
        if not k:
            continue
        c = np.arange(min(count, k) + 1)
        below = np.cumsum(_hypergeometric(c, np.array([k]), count, size))
        low[i], high[i] = c[np.argmax(below > tail)] / k, c[np.argmax(below >= 1 - tail - 1e-12)] / k
    return low, high
