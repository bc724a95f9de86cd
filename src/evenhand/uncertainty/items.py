"""Draws that need single items: attention item by item, items resampled beside requests, and lists in random order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.attention import Attention
from evenhand.cards import Ask, Floats
from evenhand.tallies.exposure import Exposed
from evenhand.tallies.items import Crossed, ItemAttention, Lists
from evenhand.tallies.ledger import Ledger, Look, Policy
from evenhand.tallies.requests import Measured
from evenhand.uncertainty.requests import picks

MOST_WORK = 4_000_000_000
"""Draws times cells that are resampled; beyond it item-level attention has no interval."""

MOST_CELLS = 1 << 22
AT_ONCE = 16
"""Draws of items whose sums are made together."""

MOST_LISTS = 1_000
"""Rankings per slice that are put in random order; their mean stands for the slice."""

FEWEST_ORDERS, ORDERS = 10, 10_000
MOST_ORDERED = 1 << 21


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
    if len(at) <= MOST_LISTS:
        return at
    weight = (ledger.weight[ledger.request_of] * ledger.share)[at]
    if not weight.sum() > 0:
        return at[:0]
    return np.sort(rng.choice(at, MOST_LISTS, replace=True, p=weight / weight.sum()))


def in_random_order(
    lists: Lists, ask: Ask, look: Look, policy: Policy, target: Floats, rng: np.random.Generator
) -> Floats:
    """(m,) mean of the metric over many random orders of each list, of those where it exists; `target` is (G,) or (m, G)."""
    m, n = lists.ranks.shape
    if not m or not n:
        return np.full(m, np.nan)
    orders = max(FEWEST_ORDERS, -(-ORDERS // m))
    at_once = max(1, MOST_ORDERED // (orders * n * lists.shares.shape[-1]))
    found = np.empty(m)
    for start in range(0, m, at_once):
        here = slice(start, min(start + at_once, m))
        aim = target[here] if target.ndim == 2 else target
        tally = _shuffled(lists.part(here), look, policy, aim, orders, rng)
        values = np.broadcast_to(ask.on(tally), tally.items.shape)
        there = ~np.isnan(values)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[here] = np.where(there, values, 0.0).sum(0) / there.sum(0)
    return found


def _shuffled(
    lists: Lists, look: Look, policy: Policy, target: Floats, orders: int, rng: np.random.Generator
) -> Exposed:
    """(orders, m) exposure of each list in each order; items change places among the ranks the list has."""
    inside = lists.ranks > 0
    keys = np.where(inside, rng.random((orders, *lists.ranks.shape)), 2.0)
    order = np.argsort(keys, axis=-1)
    weights = _weights(look.attention, lists, order)
    if look.cutoff is not None:
        weights = np.where(lists.ranks <= look.cutoff, weights, 0.0)
    weights = np.where(inside, weights, 0.0)
    by_item = np.empty_like(weights)
    np.put_along_axis(by_item, order, weights, axis=-1)
    received = policy.settled(np.einsum("omn,mng->omg", by_item, lists.shares))
    items = np.broadcast_to(inside.sum(-1).astype(np.float64), received.shape[:2])
    return Exposed(received, target, items, policy.protected, policy.labels)


def _weights(attention: Attention, lists: Lists, order: np.typing.NDArray[np.int64]) -> Floats:
    base = np.asarray(attention.at(np.maximum(lists.ranks, 1)), dtype=np.float64)
    if not attention.needs_relevance:
        return np.broadcast_to(base, order.shape)
    relevance = np.take_along_axis(np.broadcast_to(lists.relevance, order.shape), order, axis=-1)
    return base * attention.survival(relevance)
