"""Sums over the prefixes of random orders: what `orders` compares rankings with.

An order is drawn as the place of every labelled item. The sum over all prefixes is a sum over the
items (`Terms.by_item`); for shares, very long lists and infinite terms prefixes are gone through one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.template import Reading
from evenhand.metrics.terms import Terms
from evenhand.streams import stream
from evenhand.tallies.placement import Placement
from evenhand.tallies.ragged import Ints

AT_ONCE = 1 << 16
"""Ranks of random orders handled together: they stay in the cache, and memory is not asked for again and again."""


MOST_KEPT = 1 << 22
"""Sums of random orders that are kept for the compositions to come: 32 MB."""


Orders = Callable[[], Iterable[tuple[slice, Ints]]]
"""Which draws, and (many, size) their orders; the same at every call."""


@dataclass(eq=False)
class Gains:
    """Contribution of one group to a sum over prefixes: a constant and (items, ranks) terms.

    Attributes
    ----------
    drawn : by the first of the group's items, what they add in each random order.
    """

    constant: float
    table: Floats
    drawn: dict[int, Floats] = field(default_factory=dict)

    @cached_property
    def finite(self) -> bool:
        """Whether sums can be taken apart by item: of infinite terms nothing can be taken away."""
        return bool(np.isfinite(self.table).all())


@dataclass(eq=False)
class Drawn:
    """Random orders of lists of one size, and what groups of items add in them.

    Compositions of one size are put into the same orders, and many hold as many of a group, from the same item on: that
    is added up once.

    Attributes
    ----------
    labels : what is put into these orders, so many items or shares.
    gains : by metric and kind, of lists without gaps: they have theirs in common.
    """

    size: int
    draws: int
    labels: tuple[Any, ...]
    orders: Orders
    gains: dict[tuple[int, int], Gains] = field(default_factory=dict)
    stored: int = 0

    @classmethod
    def for_batch(cls, p: Placement, batch: Batch, draws: int, seed: int, last: Drawn | None) -> Drawn:
        """Orders of this batch, shared with or cut from those of the last batch where possible.

        What is left of a random order is a random order. So that no number depends on what other lists there are, orders
        begin with one of a few sizes above the list's own.
        """
        size = batch.size
        labels = (size,) if p.rows is None else tuple(_shares(p, int(batch.first[0])).round(12).tolist())
        if last is not None and last.labels == labels:
            return last
        if p.rows is not None:
            orders: Orders = partial(_draw_orders, size, draws, seed, labels)
        elif last is not None and _drawn_size(last.size) == _drawn_size(size) and last.size * draws <= MOST_KEPT:
            orders = last.orders  # of no fewer items, since long lists come first
        else:
            orders = partial(_draw_orders, _drawn_size(size), draws, seed, (_drawn_size(size),))
        shortened = partial(_restricted, orders, size)
        stored = list(shortened()) if size * draws <= MOST_KEPT else None
        return cls(size, draws, labels, shortened if stored is None else lambda: stored)

    def _keep(self, more: int) -> None:
        """Make room for as many numbers."""
        if self.stored > MOST_KEPT:
            self.gains.clear()
            self.stored = 0
        self.stored += more

    def gains_of(self, terms: Terms, kind: int, weights: Floats, metric: int | None) -> Gains:
        """Those of lists of this kind, kept where they go by a metric."""
        gains = None if metric is None else self.gains.get((metric, kind))
        if gains is None:
            gains = Gains(*terms.by_item(kind, weights))
            if metric is not None:
                self._keep(gains.table.size)
                self.gains[metric, kind] = gains
        return gains

    def add_up(self, gains: Sequence[Gains], start: int, stop: int) -> None:
        """Fill in the contribution of these items in every order, for gains that lack it."""
        if not gains:
            return
        self._keep(len(gains) * self.draws)
        for gain in gains:
            gain.drawn[start] = np.full(self.draws, gain.constant)
        rows = np.arange(stop - start) * self.size
        for at, order in self.orders():
            places = np.sort(order[:, start:stop], axis=1) + rows
            for gain in gains:
                gain.drawn[start][at] += np.einsum("bi->b", gain.table.take(places))


@dataclass(frozen=True)
class Read:
    """A metric, and how much the first k labelled items of each composition count for it."""

    reading: Reading
    weights: list[Floats]

    def by_item(self, batch: Batch, drawn: Drawn, metric: int) -> list[list[Gains]] | None:
        """For each composition, its sum over prefixes as a sum over the items of its groups.

        None where that is not had: of shares, of infinite terms, and of lists so long that orders would look up less.
        """
        p, terms = self.reading.placement, self.reading.terms
        if p.rows is not None or batch.size > drawn.draws:
            return None
        rows = []
        for u, ranking in zip(batch.some.tolist(), batch.first.tolist(), strict=True):
            shared = metric if p.labelled[ranking] == p.lengths[ranking] else None
            rows.append(
                [drawn.gains_of(terms, kind, self.weights[u], shared) for kind in self.reading.kinds[ranking].tolist()]
            )
            if not all(gains.finite for gains in rows[-1]):
                return None
        return rows

    def by_prefix(self, batch: Batch, part: slice, order: Ints) -> Floats:
        """(compositions, draws) sums over prefixes of compositions of the same items."""
        p, terms, ranking = self.reading.placement, self.reading.terms, batch.first[part.start]
        k = np.arange(1, batch.size + 1)
        counts = _cumulated_counts(p, int(ranking), order)
        per_rank: Any = sum(terms.at(c, k, kind) for kind, c in zip(self.reading.kinds[ranking], counts, strict=False))
        # Not BLAS: threads change last bits.
        weights = np.stack([self.weights[u][: batch.size] for u in batch.some[part]])
        return np.asarray(np.einsum("uk,bk->ub", weights, per_rank))


@dataclass(frozen=True)
class Batch:
    """Compositions that are put into the same random orders.

    Every one's orders are random; where several rankings count together, each draws its own among them (`p_of_mean`).

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


def null_sums(p: Placement, read: Sequence[Read], batch: Batch, drawn: Drawn) -> list[Floats]:
    """For each metric, (U, draws) sums over prefixes of random orders."""
    results = [np.zeros((len(batch.some), drawn.draws)) for _ in read]
    tables = [r.by_item(batch, drawn, metric) for metric, r in enumerate(read)]
    added = [(sums, table) for sums, table in zip(results, tables, strict=True) if table is not None]
    for part in batch.parts:
        ends = np.cumsum(p.counts[batch.first[part.start]]).astype(np.int64).tolist()
        for g, (start, stop) in enumerate(pairwise([0, *ends])):
            gains = [table[u][g] for _, table in added for u in range(part.start, part.stop) if g < len(table[u])]
            drawn.add_up(list({id(gain): gain for gain in gains if start not in gain.drawn}.values()), start, stop)
            for sums, table in added:
                for u in range(part.start, part.stop):
                    if g < len(table[u]):
                        sums[u] += table[u][g].drawn[start]
        for r, sums, by_item in zip(read, results, tables, strict=True):
            if by_item is None:
                for some, order in drawn.orders():
                    sums[part, some] = r.by_prefix(batch, part, order)
    return results


def _drawn_size(size: int) -> int:
    """Size of the orders that so many items are taken from: 2^k or 3/4 of it."""
    top = 1 << (size - 1).bit_length()
    return top * 3 // 4 if size <= top * 3 // 4 else top


def _draw_orders(size: int, draws: int, seed: int, labels: tuple[Any, ...]) -> Iterator[tuple[slice, Ints]]:
    rng = stream(seed, "orders", *labels)
    at_once = max(1, AT_ONCE // size)
    for start in range(0, draws, at_once):
        at = slice(start, min(start + at_once, draws))
        yield at, shuffled(size, at.stop - start, rng)


def _restricted(orders: Orders, size: int) -> Iterator[tuple[slice, Ints]]:
    """Orders restricted to the first `size` items."""
    for at, order in orders():
        few = order if order.shape[1] == size else np.compress((order < size).reshape(-1), order).reshape(-1, size)
        yield at, few


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


def _cumulated_counts(p: Placement, ranking: int, order: Ints) -> Iterator[Any]:
    """Per group, (draws, size) cumulated items or shares of a ranking put into these orders."""
    ends = np.cumsum(p.counts[ranking]).astype(np.int64).tolist()
    shares = None if p.rows is None else _shares(p, ranking)
    for g, (start, end) in enumerate(pairwise([0, *ends])):
        counts = np.zeros(order.shape, dtype=np.int64 if shares is None else np.float64)
        if shares is None:
            np.put_along_axis(counts, order[:, start:end], 1, axis=1)
        else:
            np.put_along_axis(counts, order, np.broadcast_to(shares[:, g], order.shape), axis=1)
        yield np.cumsum(counts, axis=1, out=counts)


def _shares(p: Placement, ranking: int) -> Floats:
    """(items, groups) the labelled items of a ranking that shares them out."""
    at = slice(p.starts[ranking], p.starts[ranking + 1])
    rows: Floats = p.rows[at]  # type: ignore[index]
    return rows[p.codes[at] >= 0]
