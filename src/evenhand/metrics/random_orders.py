"""Chance levels: metrics of attention in random order, and the Gini index of lists filled or rows dealt at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import ceil, log2, sqrt

import numpy as np

from evenhand.cards import Floats
from evenhand.labels import stream
from evenhand.metrics.inequality import gini
from evenhand.tallies.crosstab import spectrum_of
from evenhand.tallies.exposure import AttentionSpec, Exposed, GroupExposure, OrderMoments, Policy
from evenhand.tallies.ragged import Ints, Ragged
from evenhand.tallies.ranked_lists import SampledLists
from evenhand.tallies.spectrum import Spectrum

ORDERS = 40_000
"""Orders of all lists of a slice together: their mean is accurate to the third digit."""


def chosen_lists(sums: GroupExposure, part: slice, rng: np.random.Generator) -> Ints:
    """Rankings of a slice that stand for all of it: all, or a sample by their weight."""
    at = np.arange(*sums.rankings_of(part).indices(len(sums.probability)))
    most = _affordable(1_000, sums.items.shape[1])
    if len(at) <= most:
        return at
    weight = (sums.weight[sums.request_of] * sums.share)[at]
    if not weight.sum() > 0:
        return at[:0]
    return np.sort(rng.choice(at, most, replace=True, p=weight / weight.sum()))


def _attention_by_rank(lists: SampledLists, browsing: AttentionSpec) -> Floats:
    """(m, n) attention on each rank down to the cut-off, before anybody stops at an item above."""
    seen = lists.ranks > 0
    if browsing.cutoff is not None:
        seen &= lists.ranks <= browsing.cutoff
    return np.where(seen, browsing.attention.at(np.maximum(lists.ranks, 1)), 0.0)


def drawn_moments(lists: Sequence[SampledLists], browsing: AttentionSpec, policy: Policy) -> OrderMoments:
    """Exposure over random orders where attention depends on relevance: labelled items move with all they carry.

    Draws depend on nothing but the lists, so that no seed moves a chance level.
    """
    parts = [_drawn(some, browsing, policy.assign_unlabelled(some.shares)) for some in lists]
    return OrderMoments(np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts]))


def _drawn(lists: SampledLists, browsing: AttentionSpec, shares: Floats) -> tuple[Floats, Floats]:
    """(m, G) means and (m,) variances of the exposure of groups in these lists."""
    many, groups = len(lists.at), shares.shape[-1]
    inside, by_rank = lists.ranks > 0, _attention_by_rank(lists, browsing)
    labelled = inside & (shares.sum(-1) > 0)[lists.kinds]
    row, slot = np.nonzero(labelled)
    rng = stream(0, "cascades", many)
    copies = max(1, (1 << 17) // max(1, inside.size))  # orders of every list at a time
    steps = max(40 // copies, 40 * ORDERS // max(1, inside.size * copies)) + 1
    shape = (copies, *inside.shape)
    kinds, relevance = np.broadcast_to(lists.kinds, shape).copy(), np.broadcast_to(lists.relevance, shape).copy()
    total, squares, draws = np.zeros((many, groups)), np.zeros((many, groups)), steps * copies
    for _ in range(steps):
        moved = slot[np.lexsort([rng.random((copies, len(row))), np.broadcast_to(row, (copies, len(row)))])]
        kinds[:, row, slot], relevance[:, row, slot] = lists.kinds[row, moved], lists.relevance[row, moved]
        weights = by_rank * browsing.attention.survival(relevance)
        for g in range(groups):
            received = (weights * shares[:, g][kinds]).sum(-1)
            total[:, g] += received.sum(0)
            squares[:, g] += (received**2).sum(0)
    means = total / draws
    variances = np.maximum(squares - draws * means**2, 0.0) / (draws - 1)
    return means, variances.sum(-1)


def _affordable(most: int, groups: int) -> int:
    """`most` lists or orders, fewer above 200 groups: each takes as long as it has groups."""
    return max(10, most * 200 // max(200, groups))


@dataclass(frozen=True)
class ShuffledLists:
    """Lists whose labels are permuted among their labelled ranks; ranks without a label stay as they are."""

    weights: Floats  # (m, n) attention on the labelled ranks of each list, moved to the front; zeros behind
    kinds: Ints  # (m, n) which row of `shares` each labelled item has; -1 behind
    shares: Floats  # (K, G) shares of the groups in an item
    target: Floats  # (m, G) share that each group should get
    protected: tuple[int, ...] | None  # as in `Exposed`

    @classmethod
    def from_lists(cls, lists: SampledLists, browsing: AttentionSpec, policy: Policy, target: Floats) -> ShuffledLists:
        """Whole rankings under a browsing model; `target` is (G,) or (m, G)."""
        shares = policy.assign_unlabelled(lists.shares)
        weights = _attention_by_rank(lists, browsing)
        if browsing.attention.needs_relevance:
            weights = weights * browsing.attention.survival(lists.relevance)
        labelled = (lists.ranks > 0) & (shares.sum(-1) > 0)[lists.kinds]
        row = np.nonzero(labelled)[0]
        slot = (labelled.cumsum(1) - 1)[labelled]
        front, kinds = np.zeros(weights.shape), np.full(weights.shape, -1)
        front[row, slot] = weights[labelled]
        kinds[row, slot] = lists.kinds[labelled]
        target = np.broadcast_to(target, (len(lists.at), shares.shape[-1]))
        return cls(front, kinds, shares, target, policy.protected)

    def mean(self, metric: Callable[[Exposed], Floats]) -> Floats:
        """(m,) mean of a metric over random orders of each list.

        Lists whose labels have few arrangements are done in full, the others by draws that depend on nothing but the lists,
        so that no seed moves a chance level.
        """
        means = np.full(len(self.kinds), np.nan)
        size = (self.kinds >= 0).sum(1)
        whole = np.append((self.shares == 1).sum(-1) == (self.shares > 0).sum(-1), True)[self.kinds].all(1)
        at = np.flatnonzero(whole & (size > 0))
        if len(at):
            means[at] = self._mean_of_labels(at, metric)
        for kind, n in enumerate(np.unique(size[~whole]).tolist()):
            at = np.flatnonzero(~whole & (size == n))
            rows = self.shares[self.kinds[at, :n]]
            if n <= 7:  # 5,040 orders
                rows, orders = rows[:, :, None], np.array(list(permutations(range(n))))
            else:
                draws = max(40, -(-_affordable(ORDERS, rows.shape[-1]) // len(means)))
                rows, orders = _dealt(rows, draws, stream(0, "orders", len(at), n, *([kind] if kind else [])))
            means[at] = self._mean_of_shares(at, rows, orders, metric)
        return means

    def _mean_of_labels(self, at: Ints, metric: Callable[[Exposed], Floats]) -> Floats:
        """The mean over arrangements of the labels of these lists, whose items have one label each.

        Arrangements are in lexicographic order. All of them are taken where they are no more than the orders that a list is
        worth, and of the lists with the fewest while `ORDERS` last; otherwise one at random out of each of as many equal
        strata. So the first ranks, which get most of the attention, hold each label as often as they should.
        """
        groups = self.shares.shape[-1]
        row, slot = np.nonzero(self.kinds[at] >= 0)
        label = self.shares.argmax(-1)[self.kinds[at][row, slot]]
        counts = np.bincount(row * groups + label, minlength=len(at) * groups).reshape(-1, groups)
        alike: dict[bytes, int] = {}
        keys = np.concatenate([counts, self.weights[at], self.target[at]], axis=1)
        which = np.array([alike.setdefault(key.tobytes(), len(alike)) for key in keys])
        first, times = np.unique(which, return_index=True, return_counts=True)[1:]
        enough = min(
            _affordable(ORDERS, groups), 4_000 * groups
        )  # strata leave the less to chance the fewer groups there are
        worth = times * -(-enough // len(counts))
        counts, weights, target = counts[first], self.weights[at][first], self.target[at][first]
        size = counts.sum(1)
        logs = np.concatenate([[0.0], np.log(np.arange(1, size.max() + 1)).cumsum()])
        ways = np.exp(np.minimum(logs[size] - logs[counts].sum(1), 40.0)).round().astype(np.int64)
        full, fewest = ways <= worth, np.argsort(ways, kind="stable")
        full[fewest[ways[fewest].cumsum(dtype=np.float64) <= _affordable(ORDERS, groups)]] = True
        means = np.empty(len(first))
        for some, orders, rng in ((full, ways, None), (~full, worth, stream(0, "arrangements", len(which)))):
            arrangements = _Arrangements(counts[some], weights[some], orders[some], rng)
            means[some] = arrangements.mean(target[some], lambda received, aim: metric(self._exposed(received, aim)))
        return np.asarray(means[which])

    def _mean_of_shares(self, at: Ints, shares: Floats, orders: Ints, metric: Callable[[Exposed], Floats]) -> Floats:
        """Mean over the deals (m, n, deals, G) of these lists in all orders (orders, n)."""
        m, n, deals, groups = shares.shape
        rows, weights = shares.reshape(m, n, deals * groups), self.weights[at, :n]
        total, defined = np.zeros(m), np.zeros(m)
        weights = weights[:1] if (weights == weights[:1]).all() else weights
        # Products that stay in the cache, and for which numpy starts no threads.
        at_once = max(1, (1 << 18) // max(m * n, m * deals * groups, n * deals * groups))
        for start in range(0, len(orders), at_once):
            received = weights[:, orders[start : start + at_once]] @ rows
            received = np.moveaxis(received.reshape(m, -1, deals, groups), 0, 2)
            values = metric(self._exposed(received, self.target[at]))
            exists = ~np.isnan(values)
            total += np.where(exists, values, 0.0).sum((0, 1))
            defined += exists.sum((0, 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            return total / defined

    def _exposed(self, received: Floats, target: Floats) -> Exposed:
        return Exposed(received, target, np.ones(received.shape[:-1]), self.protected)


class _Arrangements:
    """A number of arrangements of the labels of each list; without `rng` they are all that there are."""

    def __init__(self, counts: Ints, weights: Floats, orders: Ints, rng: np.random.Generator | None) -> None:
        self.rng, self.orders = rng, orders
        left = weights[:, ::-1].cumsum(1)[:, ::-1]
        # Of drawn orders, the last 0.01% of the attention is spread evenly over what is left.
        self.depth = (left > (0.0 if rng is None else 1e-4) * left[:, :1]).sum(1)
        self.weights = np.ascontiguousarray(weights.T)
        self.tail = np.append(left, np.zeros((len(left), 1)), axis=1)[np.arange(len(left)), self.depth]
        self.present = int((counts > 0).sum(1).max(initial=1))
        self.groups = np.argsort(counts == 0, axis=1, kind="stable")[:, : self.present].T
        longest = int(counts.sum(1).max(initial=0))
        self.ends = np.zeros((self.present + 1, len(counts)), dtype=np.int16 if longest < 1 << 15 else np.int32)
        np.cumsum(np.take_along_axis(counts.T, self.groups, axis=0), axis=0, out=self.ends[1:])

    def mean(self, target: Floats, value: Callable[[Floats, Floats], Floats]) -> Floats:
        """Mean over arrangements of a function of attention and target, where it exists."""
        lists, groups = target.shape
        total, defined = np.zeros(lists), np.zeros(lists)
        deepest = np.argsort(-self.depth, kind="stable")
        of = np.repeat(deepest, self.orders[deepest])
        starts = self.orders[deepest].cumsum() - self.orders[deepest]
        number = np.arange(len(of)) - np.repeat(starts, self.orders[deepest])
        at_once = max(1, min(1 << 13, (1 << 20) // groups))  # so that their labels stay in the cache
        for start in range(0, len(of), at_once):
            some = of[start : start + at_once]
            inside = 0.5 if self.rng is None else self.rng.random(len(some))
            present = self._received(some, (number[start : start + at_once] + inside) / self.orders[some])
            received = np.zeros((groups, len(some)))
            np.put_along_axis(received, self.groups.take(some, axis=1), present, axis=0)
            values = value(received.T, target[some])
            exists = ~np.isnan(values)
            total += np.bincount(some, np.where(exists, values, 0.0), minlength=lists)
            defined += np.bincount(some, exists, minlength=lists)
        with np.errstate(invalid="ignore", divide="ignore"):
            return total / defined

    def _received(self, of: Ints, place: Floats) -> Floats:
        """(groups, P) attention on each group in the arrangements at these positions in [0, 1).

        Lists come deepest first. Rank by rank, what is left of each group divides the unit interval; the part that the
        position lies in gives the label, and is the unit interval of the next rank.
        """
        ends, depth, points = self.ends.take(of, axis=1), self.depth[of], np.arange(len(of))
        received = np.zeros((self.present, len(of)))
        reach = np.searchsorted(-depth, -np.arange(depth.max(initial=0)))  # how many look below each rank
        for r, some in enumerate(reach.tolist()):
            at = np.minimum(place[:some], 1 - 1e-12) * ends[-1, :some]  # below the last end, rounding and all
            below = (at.astype(ends.dtype) < ends[1:, :some]).view(np.int8)
            label = (self.present - np.add.reduce(below, axis=0, dtype=ends.dtype)).astype(np.int64)
            label = label * len(of) + points[:some]
            if self.rng is None or r * log2(max(2, self.present)) < 40:  # bits of a position, before it is drawn anew
                low, high = ends.reshape(-1).take(label), ends.reshape(-1).take(label + len(of))
                place[:some] = (at - low) / (high - low)
            else:
                place[:some] = self.rng.random(some)
            ends[1:, :some] -= below
            received.reshape(-1)[label] += self.weights[r].take(of[:some])
        return np.asarray(received + np.diff(ends, axis=0) * (self.tail[of] / np.maximum(ends[-1], 1)))


def _dealt(rows: Floats, many: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """(m, n, deals, G) rows of each list in random order, and (orders, n) orders of those.

    Deals times orders are at least `many`. Any two of these values are independent, since a deal says nothing about what
    stands where after an order and the other way round: so their mean is as good as that of as many orders drawn for each.
    """
    m, n, _ = rows.shape
    orders = min(many, ceil(sqrt(many * m)))
    deals = np.argsort(rng.random((m, ceil(many / orders), n)), axis=-1)
    dealt = np.take_along_axis(rows[:, None], deals[..., None], axis=2)
    return np.moveaxis(dealt, 1, 2), np.argsort(rng.random((orders, n)), axis=-1)


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
