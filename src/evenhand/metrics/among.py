"""The Gini index by chance where scores are missing: lists filled at random among what each user has a score for."""

from __future__ import annotations

import math

import numpy as np

from evenhand.metrics.inequality import gini
from evenhand.tallies.crosstab import spectrum_of
from evenhand.tallies.shown import Ints, Ragged

EXACT_STEPS = 1 << 25
"""Pairs of items on one list times points, up to which the level is exact."""

MOST_DEALS = 2_000
DEALT_CELLS = 2_000_000
"""How often lists are filled at random where that is too much, and how many scores this may go over in all."""

LOTS = 1 << 18
"""Lots that are put in order at a time."""

SURE = 35.0
"""Items differ by more than is looked at with a chance of exp(-SURE) at most."""


def gini_of_lists_among(odds: Ragged, items: int) -> float:
    """The Gini index that lists filled at random among what each user was offered would give on average.

    `odds` has a row per user: the items offered and, the same for each of them, the length of the list over their number.

    >>> round(gini_of_lists_among(Ragged.of(np.array([[0.5, 0.5, np.nan], [np.nan, 1.0, 1.0]])), 3), 4)
    0.2222
    """
    offered, at = np.unique(odds.items, return_inverse=True)
    odds, more = Ragged(odds.starts, at, odds.values), items - len(offered)
    later, points = odds.lengths[odds.rows] - 1 - _place(odds), _points(odds)
    if (points + 20) * int(later.sum()) <= EXACT_STEPS:
        return _exact(odds, more, points, later)
    return _dealt(odds, more, min(MOST_DEALS, DEALT_CELLS // max(1, len(odds.items))))


def _place(odds: Ragged) -> Ints:
    """The place of every cell in its row."""
    return np.arange(len(odds.items)) - odds.starts[odds.rows]


def _points(odds: Ragged) -> int:
    """Points that the sum over angles needs: more than two items differ by, at most or all but surely (Bernstein)."""
    p = odds.values
    most, mean, variance = (np.bincount(odds.items, part) for part in (np.ceil(p), p, p * (1 - p)))
    likely = mean + np.sqrt(2 * SURE * variance) + 2 / 3 * SURE
    return int(np.minimum(most, likely).max(initial=0.0)) + 2


def _exact(odds: Ragged, more: int, points: int, later: Ints) -> float:
    r"""The mean by characteristic functions, as in `gini_of_random_lists`; `more` items were offered to nobody.

    For whole numbers :math:`|d| = \frac1\pi \int_0^\pi (1 - \cos dt)/(1 - \cos t)\,dt`. The mean of the cosine of two items'
    difference is that of two items that no list offers both (a product over users, so a sum over all pairs is a squared sum
    over items), times a factor for every user who was offered both. Pairs with one such user are summed user by user; pairs
    with several are looked at one by one.
    """
    rows, held = odds.rows, odds.items
    items = int(held.max(initial=-1)) + 1 + more
    p = np.zeros(len(odds.lengths))
    p[rows] = odds.values
    spread = p * (1 - p)
    both = spread * odds.lengths / np.maximum(odds.lengths - 1, 1)
    one, other, user = _shared(odds, later)
    pair = np.cumsum(np.append(True, (one[1:] != one[:-1]) | (other[1:] != other[:-1]))) - 1 if len(one) else one
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    apart = 0.0
    angles = (np.arange(points) + 0.5) * math.pi / points
    for angle in angles:
        away = 1 - math.cos(angle)
        size = 1 - 2 * spread * away  # squared modulus of a user's part in the characteristic function of an item
        factor = (1 - 2 * both * away) / size
        log_size = np.bincount(held, 0.5 * np.log(size)[rows])
        turn = np.bincount(held, np.arctan2(p * math.sin(angle), 1 - p * away)[rows])
        x, y = np.exp(log_size) * np.cos(turn), np.exp(log_size) * np.sin(turn)
        square = np.exp(2 * log_size)
        mean = (x.sum() + more) ** 2 + y.sum() ** 2 - square.sum() - more
        own = odds.sums(x[held]) ** 2 + odds.sums(y[held]) ** 2 - odds.sums(square[held])
        mean += float((factor - 1) @ own)
        if len(one):
            first, second = one[starts], other[starts]
            with np.errstate(divide="ignore"):
                logs = np.bincount(pair, np.log(np.abs(factor))[user])
            odd = np.bincount(pair, factor[user] < 0) % 2
            scale = log_size[first] + log_size[second]
            plain = np.exp(scale) * (1 + np.bincount(pair, (factor - 1)[user]))
            mean += 2 * float(
                (np.cos(turn[first] - turn[second]) * ((1 - 2 * odd) * np.exp(scale + logs) - plain)).sum()
            )
        apart += (items * (items - 1.0) - mean) / away / points
    return max(0.0, float(apart / (2 * items * odds.values.sum())))


def _shared(odds: Ragged, later: Ints) -> tuple[Ints, Ints, Ints]:
    """Pairs of items that several users were offered, one entry for each of these users, in the order of pairs."""
    first = np.repeat(np.arange(len(later)), later)
    second = np.arange(len(first)) - (np.cumsum(later) - later)[first] + first + 1
    items = int(odds.items.max(initial=0)) + 1
    key = odds.items[first] * items + odds.items[second]
    order = np.argsort(key, kind="stable")
    key = key[order]
    again = key[1:] == key[:-1]
    several = np.append(again, False) | np.append(False, again) if len(key) else np.zeros(0, dtype=bool)
    key, first = key[several], first[order][several]
    return key // items, key % items, odds.rows[first]


def _dealt(odds: Ragged, more: int, deals: int) -> float:
    """The mean over lists that are filled at random so many times."""
    if not deals:
        return math.nan
    slots = np.rint(odds.sums(odds.values)).astype(np.int64)
    taken_first = _place(odds) < slots[odds.rows]
    rng = np.random.default_rng(0)  # the level by chance has no seed of its own to ask for
    items = int(odds.items.max(initial=0)) + 1
    shown = np.zeros((deals, items))
    edges = np.searchsorted(odds.starts, np.arange(0, len(odds.items), max(1, LOTS // deals)))
    edges = np.unique(np.append(edges, [0, len(slots)]))
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        cells = slice(int(odds.starts[start]), int(odds.starts[stop]))
        many = cells.stop - cells.start
        if not many:
            continue
        by_user = np.add.outer(np.arange(deals) * (stop - start), odds.rows[cells] - start).ravel()
        lots = rng.random((many, deals)).T.ravel()  # user by user: how many are taken at a time does not matter
        taken = np.argsort(by_user + lots)[np.tile(taken_first[cells], deals)]
        at = taken // many * items + odds.items[cells][taken % many]
        shown += np.bincount(at, minlength=deals * items).reshape(deals, items)
    return float(np.mean(gini.on(spectrum_of(shown, more))))
