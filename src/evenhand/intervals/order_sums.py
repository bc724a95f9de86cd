"""Sums over the prefixes of random orders: what `orders` compares rankings with.

An order is drawn as the place of every labelled item. The sum over all prefixes is a sum over the items (`Terms.by_item`); for
shares, very long lists and infinite terms prefixes are gone through one by one, which takes 4 to 13 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.template import Reading
from evenhand.streams import stream
from evenhand.tallies.placement import Placement
from evenhand.tallies.ragged import Ints

MOST_KEPT = 1 << 22
"""Places of random orders, and sums over them, that are kept for the compositions to come: 32 MB each."""

Orders = Iterator[tuple[slice, Ints]]
"""Which draws, and (many, size) the places of their items."""


@dataclass(frozen=True)
class Batch:
    """Compositions that are put into the same random orders.

    Every one's orders are random; where several rankings count together, each has its own (`Orders.null_means`).

    Attributes
    ----------
    size : labelled items of each.
    some, first : (U,) the compositions, and a ranking of each.
    parts : those that hold the same items, in other ranks.
    """

    size: int
    some: Ints
    first: Ints
    parts: list[slice]


@dataclass
class RandomOrders:
    """Random orders of lists of any size.

    No number depends on what other lists there are. Compositions of one size are put into the same orders. What is left of a
    random order is a random order, so orders are drawn for the next of a few sizes and restricted to the items of the list;
    items that are shared out have orders of their own, and so has every list of an `owner`.
    """

    draws: int
    seed: int
    owner: tuple[Any, ...] = ()
    stored: tuple[tuple[Any, ...], list[tuple[slice, Ints]]] = ((), [])
    group_sums: dict[tuple[int, ...], Floats] = field(default_factory=dict)

    def of_batch(self, p: Placement, batch: Batch) -> Orders:
        """The orders of a batch; those drawn last are kept, as far as they fit."""
        if self.owner:
            drawn_size, labels = batch.size, self.owner
        elif p.rows is None:
            top = 1 << (batch.size - 1).bit_length()
            drawn_size = top * 3 // 4 if batch.size <= top * 3 // 4 else top
            labels = (drawn_size,)
        else:
            drawn_size, labels = batch.size, tuple(shares_of(p, int(batch.first[0])).round(12).tolist())
        orders: Any = self._draw(drawn_size, labels)
        if drawn_size * self.draws <= MOST_KEPT:
            if self.stored[0] != labels:
                self.stored = labels, list(orders)
            orders = self.stored[1]
        for at, order in orders:
            if drawn_size > batch.size:
                order = np.compress((order < batch.size).reshape(-1), order).reshape(-1, batch.size)
            yield at, order

    def remember(self, key: tuple[int, ...], sums: Floats) -> None:
        """Keep what a group of items adds in every order; all is forgotten once it takes 32 MB."""
        if len(self.group_sums) * self.draws > MOST_KEPT:
            self.group_sums.clear()
        if key:
            self.group_sums[key] = sums

    def _draw(self, size: int, labels: tuple[Any, ...]) -> Orders:
        rng = stream(self.seed, "orders", *labels)
        at_once = max(1, (1 << 16) // size)  # ranks that stay in the cache
        for start in range(0, self.draws, at_once):
            at = slice(start, min(start + at_once, self.draws))
            yield at, shuffled(size, at.stop - start, rng)


@dataclass(frozen=True)
class Read:
    """A metric, and how much the first k labelled items of each composition count for it."""

    reading: Reading
    weights: list[Floats]

    def by_item(self, batch: Batch, u: int, orders: RandomOrders, metric: int) -> Floats | None:
        """(draws,) sums over prefixes of a composition, as sums over the items of its groups.

        None where that is not had: of shares, of infinite terms (of which nothing can be taken away), and of lists so long
        that orders would look up less. Lists without gaps that hold as many of a group from the same item on share its sums.
        """
        p, ranking = self.reading.placement, int(batch.first[u])
        if p.rows is not None or batch.size > orders.draws:
            return None
        complete, total = p.labelled[ranking] == p.lengths[ranking], np.zeros(orders.draws)
        for group, start, stop in item_blocks(self.reading, ranking):
            kind = int(self.reading.kinds[ranking, group])
            key = (batch.size, metric, kind, start) if complete else ()
            sums = orders.group_sums.get(key)
            if sums is None:
                constant, gains = self.reading.terms.by_item(kind, self.weights[batch.some[u]])
                if not np.isfinite(gains).all():
                    return None
                sums, rows = np.full(orders.draws, constant), np.arange(stop - start) * batch.size
                for at, order in orders.of_batch(p, batch):
                    sums[at] += np.einsum("bi->b", gains.take(np.sort(order[:, start:stop], axis=1) + rows))
                orders.remember(key, sums)
            total += sums
        return total

    def by_prefix(self, batch: Batch, part: slice, order: Ints) -> Floats:
        """(compositions, draws) sums over prefixes of compositions of the same items."""
        p, terms, ranking = self.reading.placement, self.reading.terms, batch.first[part.start]
        k = np.arange(1, batch.size + 1)
        kinds = self.reading.kinds[ranking]
        per_rank: Any = sum(
            terms.at(_cumulated_counts(p, int(ranking), order, block), k, kinds[block[0]])
            for block in item_blocks(self.reading, int(ranking))
        )
        # Not BLAS: threads change last bits.
        weights = np.stack([self.weights[u][: batch.size] for u in batch.some[part]])
        return np.asarray(np.einsum("uk,bk->ub", weights, per_rank))


def null_sums(p: Placement, read: Sequence[Read], batch: Batch, orders: RandomOrders) -> list[Floats]:
    """For each metric, (U, draws) sums over prefixes of random orders."""
    results = [np.zeros((len(batch.some), orders.draws)) for _ in read]
    for part in batch.parts:
        for metric, (r, sums) in enumerate(zip(read, results, strict=True)):
            by_item = [r.by_item(batch, u, orders, metric) for u in range(part.start, part.stop)]
            if all(total is not None for total in by_item):
                sums[part] = by_item
            else:
                for at, order in orders.of_batch(p, batch):
                    sums[part, at] = r.by_prefix(batch, part, order)
    return results


def shuffled(size: int, many: int, rng: np.random.Generator) -> Ints:
    """(many, size) the numbers below `size` in random order.

    Random numbers that carry their place in the last digits are sorted, in half the time that shuffling takes.
    """
    last = np.uint64((size - 1).bit_length())
    keys = rng.integers(0, 1 << 64, (many, size), dtype=np.uint64)
    keys <<= last
    keys |= np.arange(size, dtype=np.uint64)
    keys.sort(axis=1)
    keys &= (np.uint64(1) << last) - np.uint64(1)
    return keys.view(np.int64)


def item_blocks(reading: Reading, ranking: int) -> list[tuple[int, int, int]]:
    """Which of the items of a ranking are of each group looked at: the group, its first item and the one after its last.

    The smallest groups come first where none is singled out, so that no number depends on what groups are called.
    """
    counts = reading.placement.counts[ranking].astype(np.int64)
    groups = np.arange(len(counts)) if reading.template.difference.sided else np.argsort(counts, kind="stable")
    ends = np.cumsum(counts[groups]).tolist()
    looked_at = reading.kinds.shape[1]
    return [block for block in zip(groups.tolist(), [0, *ends], ends, strict=False) if block[0] < looked_at]


def _cumulated_counts(p: Placement, ranking: int, order: Ints, block: tuple[int, int, int]) -> Any:
    """(draws, size) cumulated items or shares of a group (see `item_blocks`) of a ranking put into these orders."""
    group, start, stop = block
    counts = np.zeros(order.shape, dtype=np.int64 if p.rows is None else np.float64)
    if p.rows is None:
        np.put_along_axis(counts, order[:, start:stop], 1, axis=1)
    else:
        np.put_along_axis(counts, order, np.broadcast_to(shares_of(p, ranking)[:, group], order.shape), axis=1)
    return np.cumsum(counts, axis=1, out=counts)


def shares_of(p: Placement, ranking: int) -> Floats:
    """(items, groups) the labelled items of a ranking that shares them out."""
    at = slice(p.starts[ranking], p.starts[ranking + 1])
    rows: Floats = p.rows[at]  # type: ignore[index]
    return rows[p.codes[at] >= 0]
