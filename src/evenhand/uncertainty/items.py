"""Draws that need single items: attention item by item, items resampled beside requests, and lists in random order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import ceil, comb, sqrt

import numpy as np

from evenhand.cards import Ask, Floats
from evenhand.tallies.exposure import Exposed
from evenhand.tallies.items import Crossed, ItemAttention, Lists
from evenhand.tallies.ledger import Ledger, Look, Policy
from evenhand.tallies.requests import Measured
from evenhand.uncertainty.intervals import stream
from evenhand.uncertainty.requests import picks

MOST_WORK = 4_000_000_000
"""Draws times cells that are resampled; beyond it item-level attention has no interval."""

MOST_CELLS = 1 << 22
AT_ONCE = 16
"""Draws of items whose sums are made together."""

MOST_LISTS = 1_000
"""Rankings per slice that are put in random order; their mean stands for the slice."""

MANY_GROUPS = 200
"""Where there are more groups, fewer rankings and orders stand for a slice, since each takes as long as it has groups."""

FEWEST_ORDERS, ORDERS = 40, 40_000
"""Orders of each list, and of all lists of a slice together: their mean is what is told."""

MOST_ORDERED = 1 << 18
"""Products of attention and labels at a time: they stay in the cache, and numpy starts no threads for them."""

FULL, MOST_ARRANGED = 7, 50_000
"""Lists of up to this many labelled ranks, or of two groups with this many arrangements, are put in every order."""


@dataclass(frozen=True)
class ItemResampler:
    """A metric of attention item by item: a sparse table of requests and items, resampled a few draws at a time."""

    ask: Ask
    table: ItemAttention

    def value(self, part: slice) -> float:
        return float(self.ask.on(self.table.totals(part)).reshape(-1)[0])

    def reason(self, part: slice) -> str:
        return self.ask.card.reason(self.table.totals(part), **self.ask.params) if part.stop > part.start else "empty"

    def draws(self, part: slice, draws: int, rng: np.random.Generator) -> Floats | None:
        """The metric on resamples of the requests, or None where that would take too long."""
        requests, items = part.stop - part.start, self.table.attention.shape[1]
        if not requests or draws * self.table.cells(part) > MOST_WORK:
            return None
        out = np.empty(draws)
        at_once = max(1, MOST_CELLS // max(requests, items))
        for start in range(0, draws, at_once):
            count = min(at_once, draws - start)
            out[start : start + count] = self.ask.on(self.table.resampled(part, picks(requests, count, rng).T))
        return out


def crossed_draws(
    measures: Callable[[Ledger, Floats], Sequence[Measured]],
    crossed: Crossed,
    ledger: Ledger,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """(slices, metrics, draws) the metrics on resamples of the requests of each slice and of all items.

    `measures` makes the metrics from a ledger and the sizes of its groups.
    """
    slices, found = range(len(ledger.slices)), []
    chances = np.full(crossed.items, 1 / max(1, crossed.items))
    for start in range(0, draws, AT_ONCE):
        count = min(AT_ONCE, draws - start)
        counts = rng.multinomial(crossed.items, chances, count).T.astype(np.float64)
        for drawn, sizes in crossed.drawn(ledger, counts):
            times = [_times(ledger.part(s), rng) for s in slices]
            measured = measures(drawn, sizes)
            with np.errstate(divide="ignore", invalid="ignore"):
                values = [[float(m.value(_total(times[s], m.sums[ledger.part(s)]))) for m in measured] for s in slices]
            found.append(values)
    return np.moveaxis(np.array(found), 0, -1)


def _times(part: slice, rng: np.random.Generator) -> Floats:
    requests = part.stop - part.start
    chances = np.full(requests, 1 / max(1, requests))
    return rng.multinomial(requests, chances).astype(np.float64) if requests else np.zeros(0)


def _total(times: Floats, sums: Floats) -> Floats:
    return np.asarray(times @ np.nan_to_num(sums, posinf=0.0, neginf=0.0))


def chosen_lists(ledger: Ledger, part: slice, rng: np.random.Generator) -> np.typing.NDArray[np.int64]:
    """Rankings of a slice that stand for all of it: all, or a sample by their weight."""
    at = np.arange(*ledger.rankings_of(part).indices(len(ledger.probability)))
    most = _affordable(MOST_LISTS, ledger.items.shape[1])
    if len(at) <= most:
        return at
    weight = (ledger.weight[ledger.request_of] * ledger.share)[at]
    if not weight.sum() > 0:
        return at[:0]
    return np.sort(rng.choice(at, most, replace=True, p=weight / weight.sum()))


def _affordable(most: int, groups: int) -> int:
    return max(10, most * MANY_GROUPS // max(MANY_GROUPS, groups))


def in_random_order(lists: Lists, ask: Ask, look: Look, policy: Policy, target: Floats) -> Floats:
    """(m,) mean of the metric when the labels of each list are dealt again among its labelled ranks; `target` is (G,) or (m, G).

    Only labels move; ranks without one stay as they are. Lists whose labels have few arrangements are done in full, the
    others by draws that depend on nothing but their number, so that no seed moves a chance level.
    """
    found = np.full(len(lists.at), np.nan)
    weights, shares = _labelled(lists, look, policy)
    size = (shares.sum(-1) > 0).sum(-1)
    held = shares.sum(1)
    two = np.isin(shares, (0.0, 1.0)).all((1, 2)) & ((held > 0).sum(1) <= 2)
    kinds, which = np.unique(np.column_stack([size, np.where(two[:, None], held, 0.0)]), axis=0, return_inverse=True)
    for kind, (n, *counts) in enumerate(kinds.astype(np.int64).tolist()):
        at = np.flatnonzero(which.reshape(-1) == kind)
        first = next((count for count in counts if count), 0)
        rows = shares[at, :n]
        if not n:
            continue
        if first and comb(n, first) <= MOST_ARRANGED:
            of = np.argsort(-rows @ np.arange(rows.shape[-1], 0, -1.0), axis=1, kind="stable")
            rows, orders = np.take_along_axis(rows, of[..., None], axis=1)[:, :, None], _arranged(n, first)
        elif n <= FULL:
            rows, orders = rows[:, :, None], np.array(list(permutations(range(n))))
        else:
            many = max(FEWEST_ORDERS, -(-_affordable(ORDERS, rows.shape[-1]) // len(found)))
            rows, orders = _dealt(rows, many, stream(0, "orders", len(at), n, *([kind] if kind else [])))
        aim = target[at] if target.ndim == 2 else target
        found[at] = _mean_over(ask, weights[at, :n], rows, orders, aim, policy)
    return found


def _labelled(lists: Lists, look: Look, policy: Policy) -> tuple[Floats, Floats]:
    """Attention and groups of each list's labelled ranks, moved to the front; zeros behind."""
    inside, shares = lists.ranks > 0, policy.settled(lists.shares)
    weights = np.asarray(look.attention.at(np.maximum(lists.ranks, 1)), dtype=np.float64)
    if look.attention.needs_relevance:
        weights = weights * look.attention.survival(lists.relevance)
    seen = inside if look.cutoff is None else inside & (lists.ranks <= look.cutoff)
    labelled = inside & (shares.sum(-1) > 0)
    order = np.argsort(~labelled, axis=1, kind="stable")
    weights = np.take_along_axis(np.where(seen & labelled, weights, 0.0), order, axis=1)
    return weights, np.take_along_axis(np.where(labelled[..., None], shares, 0.0), order[..., None], axis=1)


def _arranged(n: int, k: int) -> np.typing.NDArray[np.int64]:
    """Every choice of k of n ranks, as orders of the ranks: the chosen first."""
    chosen = np.array(list(combinations(range(n), k)), dtype=np.int64).reshape(-1, k)
    inside = np.zeros((len(chosen), n), dtype=bool)
    np.put_along_axis(inside, chosen, values=True, axis=1)
    return np.argsort(~inside, axis=1, kind="stable")


def _dealt(rows: Floats, many: int, rng: np.random.Generator) -> tuple[Floats, np.typing.NDArray[np.int64]]:
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
    ask: Ask,
    weights: Floats,
    shares: Floats,
    orders: np.typing.NDArray[np.int64],
    target: Floats,
    policy: Policy,
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
