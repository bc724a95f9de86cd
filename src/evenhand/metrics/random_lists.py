"""Chance levels of the Gini index: its mean where every user's list is filled, or every row of a log dealt, at random."""

from __future__ import annotations

import math

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.inequality import gini
from evenhand.tallies.crosstab import spectrum_of
from evenhand.tallies.ragged import Ints, Ragged
from evenhand.tallies.spectrum import Spectrum

EXACT_STEPS = 1 << 25
"""Pairs of items on one list times points, up to which the level is exact: a second's work. Beyond, lists are drawn."""


def gini_of_random_lists(lengths: Floats, items: int) -> float:
    r"""Mean Gini index of lists that are filled with any items at random: exact.

    Two items differ by a sum of one step per user, up or down with a chance of k(n - k)/(n(n - 1)) each, k the length of the
    user's list. For whole numbers :math:`|d| = \frac1\pi \int_0^\pi (1 - \cos dt)/(1 - \cos t)\,dt`, and the mean of the
    cosine is a product over users; the midpoint rule is exact with more points than users.

    >>> round(gini_of_random_lists(np.array([0, 0, 0, 5.0]), 1_000), 4)
    0.9852
    """
    k = np.flatnonzero(lengths)
    k = k[k > 0]
    slots, users = float(lengths @ np.arange(len(lengths))), float(lengths[k].sum())
    if items < 2:
        return 0.0
    step = k * (items - k) / (items * (items - 1.0))
    points = int(min(users + 1, 1 << 20))  # between so many points the integrand is smooth
    away = 2 * np.sin((np.arange(points) + 0.5) * math.pi / (2 * points)) ** 2  # 1 - cos t
    logs = np.zeros(points)
    negative = np.zeros(points)
    for chance, count in zip(step.tolist(), lengths[k].tolist(), strict=True):
        factor = 1 - 2 * chance * away
        with np.errstate(divide="ignore"):
            logs += count * np.log(np.abs(factor))
        negative += count * (factor < 0)
    cosine = np.where(negative % 2 == 1, -1.0, 1.0) * np.exp(logs)
    mean_difference = float(((1 - cosine) / away).mean())
    return (items - 1) * mean_difference / (2 * slots)


def gini_of_offered_lists(odds: Ragged, items: int) -> float:
    """Mean Gini index of lists that are filled at random with items each user was offered.

    `odds` has a row per user: the items offered and, the same for each of them, the length of the list over their number.

    >>> round(gini_of_offered_lists(Ragged.from_matrix(np.array([[0.5, 0.5, np.nan], [np.nan, 1.0, 1.0]])), 3), 4)
    0.2222
    """
    offered, at = np.unique(odds.items, return_inverse=True)
    odds, never_offered = Ragged(odds.starts, at, odds.values), items - len(offered)
    pairs_after = odds.lengths[odds.rows] - 1 - _column(odds)
    p = odds.values
    most, mean, variance = (np.bincount(odds.items, part) for part in (np.ceil(p), p, p * (1 - p)))
    # More points than two items differ by: at most, or but for a probability of exp(-35) by Bernstein's bound.
    likely = mean + np.sqrt(2 * 35.0 * variance) + 2 / 3 * 35.0
    points = int(np.minimum(most, likely).max(initial=0.0)) + 2
    if (points + 20) * int(pairs_after.sum()) <= EXACT_STEPS:
        return _exact(odds, never_offered, points, pairs_after)
    return _simulated(odds, never_offered, min(2_000, 2_000_000 // max(1, len(odds.items))))


def _column(odds: Ragged) -> Ints:
    """The position of every cell in its row."""
    return np.arange(len(odds.items)) - odds.starts[odds.rows]


def _exact(odds: Ragged, never_offered: int, points: int, pairs_after: Ints) -> float:
    r"""The mean by characteristic functions, as in `gini_of_random_lists`.

    The mean of the cosine of two items' difference is that of two items that no list offers both (a product over users, so a
    sum over all pairs is a squared sum over items), times a factor for every user who was offered both. Pairs with one such
    user are summed user by user; pairs with several are corrected pair by pair.
    """
    rows, item = odds.rows, odds.items
    items = int(item.max(initial=-1)) + 1 + never_offered
    p = np.zeros(len(odds.lengths))
    p[rows] = odds.values
    variance = p * (1 - p)
    covariance = variance * odds.lengths / np.maximum(odds.lengths - 1, 1)
    left, right, user = _shared_pairs(odds, pairs_after)
    pair = np.cumsum(np.append(True, (left[1:] != left[:-1]) | (right[1:] != right[:-1]))) - 1 if len(left) else left
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    difference = 0.0
    for angle in (np.arange(points) + 0.5) * math.pi / points:
        away = 1 - math.cos(angle)
        size = 1 - 2 * variance * away  # squared modulus of a user's part in the characteristic function of an item
        factor = (1 - 2 * covariance * away) / size
        log_size = np.bincount(item, 0.5 * np.log(size)[rows])
        turn = np.bincount(item, np.arctan2(p * math.sin(angle), 1 - p * away)[rows])
        x, y = np.exp(log_size) * np.cos(turn), np.exp(log_size) * np.sin(turn)
        square = np.exp(2 * log_size)
        cosine = (x.sum() + never_offered) ** 2 + y.sum() ** 2 - square.sum() - never_offered
        per_user = odds.sums(x[item]) ** 2 + odds.sums(y[item]) ** 2 - odds.sums(square[item])
        cosine += float((factor - 1) @ per_user)
        if len(left):
            first, second = left[starts], right[starts]
            with np.errstate(divide="ignore"):
                logs = np.bincount(pair, np.log(np.abs(factor))[user])
            odd = np.bincount(pair, factor[user] < 0) % 2
            scale = log_size[first] + log_size[second]
            added = np.exp(scale) * (1 + np.bincount(pair, (factor - 1)[user]))
            product = (1 - 2 * odd) * np.exp(scale + logs)
            cosine += 2 * float((np.cos(turn[first] - turn[second]) * (product - added)).sum())
        difference += (items * (items - 1.0) - cosine) / away / points
    return max(0.0, float(difference / (2 * items * odds.values.sum())))


def _shared_pairs(odds: Ragged, pairs_after: Ints) -> tuple[Ints, Ints, Ints]:
    """Pairs of items offered to several users, sorted, with one entry for each of these users."""
    first = np.repeat(np.arange(len(pairs_after)), pairs_after)
    second = np.arange(len(first)) - (np.cumsum(pairs_after) - pairs_after)[first] + first + 1
    items = int(odds.items.max(initial=0)) + 1
    key = odds.items[first] * items + odds.items[second]
    order = np.argsort(key, kind="stable")
    key = key[order]
    repeats = key[1:] == key[:-1]
    several = np.append(repeats, False) | np.append(False, repeats) if len(key) else np.zeros(0, dtype=bool)
    key, first = key[several], first[order][several]
    return key // items, key % items, odds.rows[first]


def _simulated(odds: Ragged, never_offered: int, draws: int) -> float:
    """The mean over lists that are filled at random `draws` times."""
    if not draws:
        return math.nan
    slots = np.rint(odds.sums(odds.values)).astype(np.int64)
    taken_first = _column(odds) < slots[odds.rows]
    rng = np.random.default_rng(0)  # a chance level must not depend on the caller's seed
    items = int(odds.items.max(initial=0)) + 1
    shown = np.zeros((draws, items))
    edges = np.searchsorted(odds.starts, np.arange(0, len(odds.items), max(1, (1 << 18) // draws)))
    edges = np.unique(np.append(edges, [0, len(slots)]))
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        cells = slice(int(odds.starts[start]), int(odds.starts[stop]))
        count = cells.stop - cells.start
        if not count:
            continue
        by_user = np.add.outer(np.arange(draws) * (stop - start), odds.rows[cells] - start).ravel()
        keys = rng.random((count, draws)).T.ravel()  # user by user, so that the size of a block does not matter
        taken = np.argsort(by_user + keys)[np.tile(taken_first[cells], draws)]
        at = taken // count * items + odds.items[cells][taken % count]
        shown += np.bincount(at, minlength=draws * items).reshape(draws, items)
    return float(np.mean(gini.on(spectrum_of(shown, never_offered))))


def gini_of_dealt_rows(rows: Spectrum, units: float, steps: int) -> float:
    """Mean Gini index where every row, with its amount, goes to one of the units at random.

    The difference of two units decides it, so a part of them is drawn where they are many. `steps`: rows to deal in all.

    >>> uniform = Spectrum.from_arrays(np.arange(100.0, 5000.0, 16.0))
    >>> round(gini_of_dealt_rows(uniform, 40, 1 << 20), 2)
    0.23
    """
    values, counts = rows.values[rows.values > 0], rows.counts[rows.values > 0].astype(np.int64)
    total = float(values @ counts)
    if not total or units < 2:
        return 0.0 if total else math.nan
    some = int(min(units, max(2, steps * units // counts.sum()), 1 << 12))
    dealt = counts.sum() * some / units
    at_once = int(max(1, min(steps, 1 << 18) // max(dealt, some)))
    rng = np.random.default_rng(0)  # a chance level must not depend on the caller's seed
    differences = []
    for _ in range(int(max(1, min(steps // max(dealt, some), (1 << 20) // some) // at_once))):
        received = np.zeros((at_once, some))
        for amounts in received:
            chosen = counts if some == units else rng.binomial(counts, some / units)
            if len(values) * some < chosen.sum():
                amounts += values @ rng.multinomial(chosen, np.full(some, 1 / some))
            else:
                amounts += np.bincount(rng.integers(some, size=chosen.sum()), np.repeat(values, chosen), some)
        received.sort(axis=1)
        differences.append(received @ (2 * np.arange(some) - some + 1.0))
    mean_difference = float(np.mean(differences)) * 2 / (some * (some - 1.0))
    return (units - 1) * mean_difference / (2 * total)
