"""What attention-weighted rank fairness would be if every list stood in random order."""

from __future__ import annotations

import numpy as np

from evenhand.attention import Attention
from evenhand.audits.exposure_asks import Asked
from evenhand.cards import Floats
from evenhand.engine.ledgers import Ledger, Policy
from evenhand.engine.lists import Lists
from evenhand.tallies.exposure import Exposed

MOST_LISTS = 1_000
"""Rankings per slice that are put in random order; their mean stands for the slice."""

FEWEST_ORDERS, ORDERS = 10, 10_000
MOST_CELLS = 1 << 21


def chosen_lists(ledger: Ledger, part: slice, rng: np.random.Generator) -> np.typing.NDArray[np.int64]:
    """Rankings of a slice that stand for all of it: all, or a sample by their weight."""
    at = np.arange(*ledger.rankings_of(part).indices(len(ledger.probability)))
    if len(at) <= MOST_LISTS:
        return at
    weight = (ledger.weight[ledger.request_of] * ledger.share)[at]
    if not weight.sum() > 0:
        return at[:0]
    return np.sort(rng.choice(at, MOST_LISTS, replace=True, p=weight / weight.sum()))


def awrf_in_random_order(
    lists: Lists, asked: Asked, policy: Policy, target: Floats, rng: np.random.Generator
) -> Floats:
    """(m,) mean over random orders of each list; `target` is (G,) or (m, G)."""
    m, n = lists.ranks.shape
    if not m or not n:
        return np.full(m, np.nan)
    orders = max(FEWEST_ORDERS, -(-ORDERS // m))
    at_once = max(1, MOST_CELLS // (orders * n * lists.shares.shape[-1]))
    found = np.empty(m)
    for start in range(0, m, at_once):
        here = slice(start, min(start + at_once, m))
        part = Lists(lists.ranks[here], lists.shares[here], lists.relevance[here])
        aim = target[here] if target.ndim == 2 else target
        values = _values(part, asked, policy, aim, orders, rng)
        found[here] = _mean_of_defined(values)
    return found


def _mean_of_defined(values: Floats) -> Floats:
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(there, values, 0.0).sum(0) / there.sum(0))


def _values(
    lists: Lists, asked: Asked, policy: Policy, target: Floats, orders: int, rng: np.random.Generator
) -> Floats:
    """(orders, m) the metric of each list in each order; items change places among the ranks the list has."""
    inside = lists.ranks > 0
    keys = np.where(inside, rng.random((orders, *lists.ranks.shape)), 2.0)
    order = np.argsort(keys, axis=-1)
    weights = _weights(asked.look.attention, lists, order)
    if asked.look.cutoff is not None:
        weights = np.where(lists.ranks <= asked.look.cutoff, weights, 0.0)
    weights = np.where(inside, weights, 0.0)
    by_item = np.empty_like(weights)
    np.put_along_axis(by_item, order, weights, axis=-1)
    received = policy.settled(np.einsum("omn,mng->omg", by_item, lists.shares))
    items = np.broadcast_to(inside.sum(-1).astype(np.float64), received.shape[:2])
    return asked.ask.on(Exposed(received, target, items, policy.protected, policy.labels))


def _weights(attention: Attention, lists: Lists, order: np.typing.NDArray[np.int64]) -> Floats:
    base = np.asarray(attention.at(np.maximum(lists.ranks, 1)), dtype=np.float64)
    if not attention.needs_relevance:
        return np.broadcast_to(base, order.shape)
    relevance = np.take_along_axis(np.broadcast_to(lists.relevance, order.shape), order, axis=-1)
    return base * attention.survival(relevance)
