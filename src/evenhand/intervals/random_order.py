"""What a metric of attention would be if each list stood in random order: the mean over all orders, or over a sample of them."""

from __future__ import annotations

from itertools import permutations
from math import ceil, log2, sqrt

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import stream
from evenhand.tallies.exposure import Exposed
from evenhand.tallies.exposure_policy import Policy
from evenhand.tallies.group_exposure import AttentionSpec, GroupExposure
from evenhand.tallies.sampled_lists import SampledLists

Ints = npt.NDArray[np.int64]

MOST_LISTS = 1_000
"""Rankings per slice that are put in random order; their mean stands for the slice."""

MANY_GROUPS = 200
"""Where there are more groups, fewer rankings and orders stand for a slice, since each takes as long as it has groups."""

FEWEST_ORDERS, ORDERS = 40, 40_000
"""Orders of each list, and of all lists of a slice together: their mean is what is told."""

STRATIFIED = 4_000
"""As many for each group do where they are drawn from strata, which leaves the less to chance the fewer groups there are."""

AT_ONCE, MOST_CELLS = 1 << 13, 1 << 20
"""Orders that are made together, so that their labels stay in the cache, and orders times groups."""

MOST_ORDERED = 1 << 18
"""Products of attention and labels at a time: they stay in the cache, and numpy starts no threads for them."""

TAIL = 1e-4
"""Of drawn orders, ranks with less than this share of the attention get the mean of what is left: of the error the square counts."""

BELOW_ONE = 1 - 1e-12
"""The last place: times a number of items it is less than that number, rounding and all."""

BITS = 40
"""How much of a place between 0 and 1 is read, before the rest is drawn anew."""

FULL = 7
"""Lists of up to this many items that belong to several groups in part are put in every order."""


def chosen_lists(sums: GroupExposure, part: slice, rng: np.random.Generator) -> Ints:
    """Rankings of a slice that stand for all of it: all, or a sample by their weight."""
    at = np.arange(*sums.rankings_of(part).indices(len(sums.probability)))
    most = _affordable(MOST_LISTS, sums.items.shape[1])
    if len(at) <= most:
        return at
    weight = (sums.weight[sums.request_of] * sums.share)[at]
    if not weight.sum() > 0:
        return at[:0]
    return np.sort(rng.choice(at, most, replace=True, p=weight / weight.sum()))


def _affordable(most: int, groups: int) -> int:
    return max(10, most * MANY_GROUPS // max(MANY_GROUPS, groups))


def in_random_order(
    lists: SampledLists, ask: MetricSpec, browsing: AttentionSpec, policy: Policy, target: Floats
) -> Floats:
    """(m,) mean of the metric when the labels of each list are dealt again among its labelled ranks; `target` is (G,) or (m, G).

    Only labels move; ranks without one stay as they are. Lists whose labels have few arrangements are done in full, the
    others by draws that depend on nothing but the lists, so that no seed moves a chance level.
    """
    found = np.full(len(lists.at), np.nan)
    shares = policy.settled(lists.shares)
    weights, kinds = _labelled(lists, browsing, shares.sum(-1) > 0)
    size = (kinds >= 0).sum(1)
    whole = np.append((shares == 1).sum(-1) == (shares > 0).sum(-1), True)[kinds].all(1)
    target = np.broadcast_to(target, (len(found), shares.shape[-1]))
    at = np.flatnonzero(whole & (size > 0))
    if len(at):
        counts = _counts(kinds[at], shares.argmax(-1), shares.shape[-1])
        found[at] = _arranged(ask, counts, weights[at], target[at], policy)
    for kind, n in enumerate(np.unique(size[~whole]).tolist()):
        at = np.flatnonzero(~whole & (size == n))
        rows = shares[kinds[at, :n]]
        if n <= FULL:
            rows, orders = rows[:, :, None], np.array(list(permutations(range(n))))
        else:
            many = max(FEWEST_ORDERS, -(-_affordable(ORDERS, rows.shape[-1]) // len(found)))
            rows, orders = _dealt(rows, many, stream(0, "orders", len(at), n, *([kind] if kind else [])))
        found[at] = _mean_over(ask, weights[at, :n], rows, orders, target[at], policy)
    return found


def _labelled(lists: SampledLists, browsing: AttentionSpec, known: npt.NDArray[np.bool_]) -> tuple[Floats, Ints]:
    """Attention and kind of each list's labelled ranks, moved to the front; zeros and -1 behind."""
    inside = lists.ranks > 0
    weights = np.asarray(browsing.attention.at(np.maximum(lists.ranks, 1)), dtype=np.float64)
    if browsing.attention.needs_relevance:
        weights = weights * browsing.attention.survival(lists.relevance)
    seen = inside if browsing.cutoff is None else inside & (lists.ranks <= browsing.cutoff)
    labelled = inside & known[lists.kinds]
    row = np.nonzero(labelled)[0]
    slot = (labelled.cumsum(1) - 1)[labelled]
    front, kinds = np.zeros(weights.shape), np.full(weights.shape, -1)
    front[row, slot] = np.where(seen, weights, 0.0)[labelled]
    kinds[row, slot] = lists.kinds[labelled]
    return front, kinds


def _counts(kinds: Ints, group: Ints, groups: int) -> Ints:
    """(m, G) items of each group in each list."""
    row, slot = np.nonzero(kinds >= 0)
    return np.bincount(row * groups + group[kinds[row, slot]], minlength=len(kinds) * groups).reshape(-1, groups)


def _arranged(ask: MetricSpec, counts: Ints, weights: Floats, target: Floats, policy: Policy) -> Floats:
    """(m,) mean of the metric over arrangements of (m, G) labels on ranks with attention (m, n).

    Arrangements stand in the order of the alphabet. All of them are taken where they are no more than the orders that a list
    is worth, and of the lists with the fewest while `ORDERS` last; otherwise one at random out of each of as many equal strata.
    So the first ranks, which get most of the attention, hold each label as often as they should.
    """
    groups = counts.shape[1]
    alike: dict[bytes, int] = {}
    keys = np.concatenate([counts, weights, target], axis=1)
    which = np.array([alike.setdefault(key.tobytes(), len(alike)) for key in keys])
    first, times = np.unique(which, return_index=True, return_counts=True)[1:]
    enough = min(_affordable(ORDERS, groups), STRATIFIED * groups)
    worth = times * -(-enough // len(counts))
    counts, weights, target = counts[first], weights[first], target[first]
    size = counts.sum(1)
    logs = np.concatenate([[0.0], np.log(np.arange(1, size.max() + 1)).cumsum()])
    ways = np.exp(np.minimum(logs[size] - logs[counts].sum(1), 40.0)).round().astype(np.int64)
    full, fewest = ways <= worth, np.argsort(ways, kind="stable")
    full[fewest[ways[fewest].cumsum(dtype=np.float64) <= _affordable(ORDERS, groups)]] = True
    found = np.empty(len(first))
    for some, orders, rng in ((full, ways, None), (~full, worth, stream(0, "arrangements", len(which)))):
        dealt = _Dealt(counts[some], weights[some], orders[some], rng)
        found[some] = dealt.mean(ask, target[some], policy)
    return np.asarray(found[which])


class _Dealt:
    """So many arrangements of each list; without `rng` they are all that there are."""

    def __init__(self, counts: Ints, weights: Floats, orders: Ints, rng: np.random.Generator | None) -> None:
        self.rng, self.orders = rng, orders
        left = weights[:, ::-1].cumsum(1)[:, ::-1]
        self.depth = (left > (0.0 if rng is None else TAIL) * left[:, :1]).sum(1)
        self.weights = np.ascontiguousarray(weights.T)
        self.tail = np.append(left, np.zeros((len(left), 1)), axis=1)[np.arange(len(left)), self.depth]
        self.present = int((counts > 0).sum(1).max(initial=1))
        self.groups = np.argsort(counts == 0, axis=1, kind="stable")[:, : self.present].T
        longest = int(counts.sum(1).max(initial=0))
        self.ends = np.zeros((self.present + 1, len(counts)), dtype=np.int16 if longest < 1 << 15 else np.int32)
        np.cumsum(np.take_along_axis(counts.T, self.groups, axis=0), axis=0, out=self.ends[1:])

    def mean(self, ask: MetricSpec, target: Floats, policy: Policy) -> Floats:
        """The mean of the metric over the arrangements of each list, of those where it exists."""
        total, there = np.zeros(len(target)), np.zeros(len(target))
        deepest = np.argsort(-self.depth, kind="stable")
        of = np.repeat(deepest, self.orders[deepest])
        starts = self.orders[deepest].cumsum() - self.orders[deepest]
        within = np.arange(len(of)) - np.repeat(starts, self.orders[deepest])
        at_once = max(1, min(AT_ONCE, MOST_CELLS // target.shape[1]))
        for start in range(0, len(of), at_once):
            own = of[start : start + at_once]
            inside = 0.5 if self.rng is None else self.rng.random(len(own))
            got = self._received(own, (within[start : start + at_once] + inside) / self.orders[own])
            received = np.zeros((target.shape[1], len(own)))
            np.put_along_axis(received, self.groups.take(own, axis=1), got, axis=0)
            seen = Exposed(received.T, target[own], np.ones(len(own)), policy.protected, policy.labels)
            values = np.broadcast_to(ask.on(seen), own.shape)
            exists = ~np.isnan(values)
            total += np.bincount(own, np.where(exists, values, 0.0), minlength=len(total))
            there += np.bincount(own, exists, minlength=len(total))
        with np.errstate(invalid="ignore", divide="ignore"):
            return total / there

    def _received(self, of: Ints, place: Floats) -> Floats:
        """(groups, P) attention in the arrangements at these places between 0 and 1 of these lists, deepest first.

        Rank by rank, what is left of each group divides the unit; the part that the place lies in is the label, and the next unit.
        """
        ends, depth, points = self.ends.take(of, axis=1), self.depth[of], np.arange(len(of))
        found = np.zeros((self.present, len(of)))
        reach = np.searchsorted(-depth, -np.arange(depth.max(initial=0)))  # how many look below each rank
        for r, some in enumerate(reach.tolist()):
            here = points[:some]
            at = np.minimum(place[:some], BELOW_ONE) * ends[-1, :some]
            below = (at.astype(ends.dtype) < ends[1:, :some]).view(np.int8)
            label = (self.present - np.add.reduce(below, axis=0, dtype=ends.dtype)).astype(np.int64) * len(of) + here
            if self.rng is None or r * log2(max(2, self.present)) < BITS:
                low, high = ends.reshape(-1).take(label), ends.reshape(-1).take(label + len(of))
                place[:some] = (at - low) / (high - low)
            else:
                place[:some] = self.rng.random(some)
            ends[1:, :some] -= below
            found.reshape(-1)[label] += self.weights[r].take(of[:some])
        return np.asarray(found + np.diff(ends, axis=0) * (self.tail[of] / np.maximum(ends[-1], 1)))


def _dealt(rows: Floats, many: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """(m, n, deals, G) the rows of each list dealt at random a few times, and (orders, n) orders that serve all of them.

    Deals times orders are at least `many`. Any two of these values are independent, since a deal says nothing about what
    stands where after an order and the other way round: so their mean is as good as that of as many orders drawn for each.
    """
    m, n, _ = rows.shape
    orders = min(many, ceil(sqrt(many * m)))
    deals = np.argsort(rng.random((m, ceil(many / orders), n)), axis=-1)
    dealt = np.take_along_axis(rows[:, None], deals[..., None], axis=2)
    return np.moveaxis(dealt, 1, 2), np.argsort(rng.random((orders, n)), axis=-1)


def _mean_over(
    ask: MetricSpec, weights: Floats, shares: Floats, orders: Ints, target: Floats, policy: Policy
) -> Floats:
    """(m,) mean of the metric over the deals (m, n, deals, G) in all orders (orders, n), of those where it exists."""
    m, n, deals, groups = shares.shape
    rows = shares.reshape(m, n, deals * groups)
    total, there = np.zeros(m), np.zeros(m)
    weights = weights[:1] if (weights == weights[:1]).all() else weights
    at_once = max(1, MOST_ORDERED // max(m * n, m * deals * groups, n * deals * groups))
    for start in range(0, len(orders), at_once):
        received = weights[:, orders[start : start + at_once]] @ rows
        received = np.moveaxis(received.reshape(m, -1, deals, groups), 0, 2)
        shape = received.shape[:-1]
        seen = Exposed(received, target, np.full(shape, float(n)), policy.protected, policy.labels)
        values = np.broadcast_to(ask.on(seen), shape)
        exists = ~np.isnan(values)
        total += np.where(exists, values, 0.0).sum((0, 1))
        there += exists.sum((0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / there
