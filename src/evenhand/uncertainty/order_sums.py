"""Sums over the prefixes of random orders: what `orders` compares rankings with.

An order is drawn as the place of every labelled item. The sum over all prefixes is a sum over the
items (`Terms.by_item`); for shares, very long lists and infinite terms prefixes are gone through one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.template import Reading
from evenhand.tallies.placement import Ints, Placement
from evenhand.uncertainty.intervals import stream

AT_ONCE = 1 << 16
"""Ranks of random orders handled together: they stay in the cache, and memory is not asked for again and again."""


@dataclass(frozen=True)
class Read:
    """A metric, and how much the first k labelled items of each composition count for it."""

    reading: Reading
    weights: list[Floats]

    def by_item(self, batch: Batch, draws: int) -> list[tuple[float, Floats]] | None:
        """For each composition, its sum over prefixes as a sum over its items: a constant, and gains by item and place.

        None where that is not had: of shares, of infinite terms, and of lists so long that orders would look up less.
        """
        p, terms = self.reading.placement, self.reading.terms
        if p.rows is not None or batch.size > draws:
            return None
        shared: dict[int, tuple[float, Floats]] = {}  # lists without gaps have theirs in common
        found = []
        for u, one in zip(batch.some.tolist(), batch.first.tolist(), strict=True):
            kinds = self.reading.kinds[one].tolist()
            made = shared if p.known[one] == p.lengths[one] else {}
            for kind in kinds:
                if kind not in made:
                    made[kind] = terms.by_item(kind, self.weights[u])
                if not np.isfinite(made[kind][1]).all():
                    return None
            found.append(
                (sum(made[kind][0] for kind in kinds), np.concatenate([made[kind][1].ravel() for kind in kinds]))
            )
        return found

    def by_prefix(self, batch: Batch, part: slice, order: Ints) -> Floats:
        """(compositions, many) sums over prefixes of compositions that hold the same items, in these orders."""
        p, terms, one = self.reading.placement, self.reading.terms, batch.first[part.start]
        k = np.arange(1, batch.size + 1)
        held = _held(p, int(one), order)
        found: Any = sum(terms.at(c, k, kind) for kind, c in zip(self.reading.kinds[one], held, strict=False))
        # Not BLAS: threads change last bits.
        weights = np.stack([self.weights[u][: batch.size] for u in batch.some[part]])
        return np.asarray(np.einsum("uk,bk->ub", weights, found))


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


def null_sums(p: Placement, read: Sequence[Read], batch: Batch, draws: int, seed: int) -> list[Floats]:
    """For each metric, (U, draws) sums over prefixes of random orders."""
    labels = [batch.size] if p.rows is None else _shares(p, int(batch.first[0])).round(12).tolist()
    rng = stream(seed, "orders", *labels)
    found = [np.empty((len(batch.some), draws)) for _ in read]
    tables = [r.by_item(batch, draws) for r in read]
    looked_at = max(r.reading.kinds.shape[1] for r in read)
    at_once = max(1, AT_ONCE // batch.size)
    for start in range(0, draws, at_once):
        here = slice(start, min(start + at_once, draws))
        order = shuffled(batch.size, here.stop - start, rng)
        for part in batch.parts:
            places = _places(order, p.counts[batch.first[part.start], :looked_at].astype(np.int64))
            for r, sums, table in zip(read, found, tables, strict=True):
                if table is None:
                    sums[part, here] = r.by_prefix(batch, part, order)
                    continue
                for u in range(part.start, part.stop):
                    constant, gains = table[u]
                    sums[u, here] = constant + np.einsum("bi->b", gains.take(places))
    return found


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


def _places(order: Ints, counts: Ints) -> Ints:
    """(many, items) where tables by item hold the items of some groups, each group's in the order of its places."""
    size, items = order.shape[1], int(counts.sum())
    group = np.repeat(np.arange(len(counts)), counts)
    found: Ints = order[:, :items] + group * size
    found.sort(axis=1)
    found += (np.arange(items) - group) * size
    return found


def _held(p: Placement, one: int, order: Ints) -> Iterator[Any]:
    """(many, size) items of each group, or their shares, down to each rank of a ranking put into these orders."""
    ends = np.cumsum(p.counts[one]).astype(np.int64).tolist()
    shares = None if p.rows is None else _shares(p, one)
    for g, (start, end) in enumerate(pairwise([0, *ends])):
        there = np.zeros(order.shape, dtype=np.int64 if shares is None else np.float64)
        if shares is None:
            np.put_along_axis(there, order[:, start:end], 1, axis=1)
        else:
            np.put_along_axis(there, order, np.broadcast_to(shares[:, g], order.shape), axis=1)
        yield np.cumsum(there, axis=1, out=there)


def _shares(p: Placement, one: int) -> Floats:
    """(items, groups) the labelled items of a ranking that shares them out."""
    here = slice(p.starts[one], p.starts[one + 1])
    rows: Floats = p.rows[here]  # type: ignore[index]
    return rows[p.codes[here] >= 0]
