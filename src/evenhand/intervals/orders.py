"""Random orders: is a prefix metric larger than putting the same items in any order would make it?

What a random order gives depends on the composition of a list only, so for the p of single rankings orders are drawn once per
composition and serve every ranking that has it. In the mean of several rankings each has orders of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from evenhand.cards import Floats, parse_call
from evenhand.errors import EvenhandError
from evenhand.intervals.requests import skewed_tails
from evenhand.labels import stream
from evenhand.metrics.prefix import Reading, Scores, Template
from evenhand.tallies.placement import Mix, Placement, distinct_rows, grouped
from evenhand.tallies.ragged import Ints

MOST_KEPT = 1 << 22
"""Places of random orders, and sums over them, that are kept for the compositions to come: 32 MB each."""

OrderBatches = Iterator[tuple[slice, Ints]]
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

    def of_batch(self, p: Placement, batch: Batch) -> OrderBatches:
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

    def _draw(self, size: int, labels: tuple[Any, ...]) -> OrderBatches:
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


MOST_CELLS = 1 << 20
MANY = 200
"""Rankings whose mean needs no orders of its own: its law follows from three moments."""
MOST_ORDERED = 1 << 24
"""Items that are put into orders for the p of one mean, a second or two; beyond it three moments stand for them."""
NEAR = 1e-9
"""A random order this close to the value counts as reaching it."""


def parse_draws(chance: str | None) -> int:
    """Read `"permutation(999)"`; None asks for no random orders.

    >>> parse_draws("permutation(99)"), parse_draws(None)
    (99, 0)
    """
    if chance is None or chance == "none":
        return 0
    problem = EvenhandError(f"chance={chance!r} cannot be read. Write 'permutation(999)', or None.")
    if not isinstance(chance, str):
        raise problem
    name, args, keywords = parse_call(chance, role="chance")
    draws = args[0] if args else keywords.get("draws", 999)
    if name != "permutation" or len(args) > 1 or not isinstance(draws, int) or isinstance(draws, bool):
        raise problem
    if not 20 <= draws <= 1_000_000:
        raise EvenhandError(f"chance={chance!r} needs 20 to 1,000,000 random orders. Write 'permutation(999)'.")
    return draws


@dataclass(frozen=True)
class Orders:
    """Distribution of a metric over random orders of every ranking.

    Attributes
    ----------
    p : (R,) share of random orders at least as far from the whole as the ranking itself.
    means : (R,) mean of the metric over random orders, exact where known. variances, thirds : (R,) its central moments.
    """

    p: Floats
    means: Floats
    variances: Floats
    thirds: Floats
    reading: Reading
    scores: Scores
    draws: int
    seed: int

    @classmethod
    def empty(cls, reading: Reading, scores: Scores, draws: int, seed: int) -> Orders:
        p, variances, thirds = np.full((3, len(scores.values)), np.nan)
        return cls(p, scores.chances.copy(), variances, thirds, reading, scores, draws, seed)

    def p_of_mean(self, at: Ints) -> float:
        """Permutation p of the mean over these rankings; undefined values are left out."""
        values = self.scores.values
        at = at[~np.isnan(values[at])]
        if len(at) < 2:
            return float(self.p[at[0]]) if len(at) else float("nan")
        mean, expected = float(values[at].mean()), float(self.means[at].mean())
        items = float(self.reading.placement.labelled[at].sum()) * self.draws
        if len(at) > MANY or items > MOST_ORDERED:
            total, variance = len(at) * (mean - expected), float(self.variances[at].sum())
            thirds = float(self.thirds[at].sum())
            return skewed_tails(total, variance, thirds)[1] if variance > 0 else float(mean <= expected + NEAR)
        reached = np.count_nonzero(self.null_means(at) >= mean - NEAR)
        return (1 + reached) / (1 + self.draws)

    def null_means(self, at: Ints) -> Floats:
        """(draws,) means of the metric over these rankings, every one of them in random orders of its own.

        Orders belong to what a list is made of and not to its name or row: rankings that are made of the same take theirs
        from one stream.
        """
        p, total = self.reading.placement, np.zeros(self.draws)
        alike: dict[tuple[Any, ...], list[int]] = {}
        for ranking in at.tolist():
            alike.setdefault(_contents(self.reading, ranking), []).append(ranking)
        for contents, rankings in sorted(alike.items()):
            first, size = np.array(rankings[:1]), int(p.labelled[rankings[0]])
            (weights,) = _Compositions.from_placement(p.take(first)).weights(self.reading)
            at_once = max(1, MOST_KEPT // max(1, self.draws * size))
            for start in range(0, len(rankings), at_once):
                many = min(at_once, len(rankings) - start)
                orders = RandomOrders(many * self.draws, self.seed, ("own", *contents, start))
                batch = Batch(size, np.zeros(1, dtype=np.int64), first, [slice(0, 1)])
                ((sums,),) = null_sums(p, [Read(self.reading, [weights])], batch, orders)
                total += sums.reshape(many, self.draws).sum(0) / self.scores.normalizers[rankings[0]]
        return total / len(at)


def _contents(reading: Reading, ranking: int) -> tuple[Any, ...]:
    """What stays when a ranking is permuted: its size, the items of each group, and the ranks that hold any."""
    p = reading.placement
    codes = p.codes[p.starts[ranking] : p.starts[ranking + 1]]
    items: tuple[Any, ...]
    if p.rows is not None:
        items = tuple(map(tuple, shares_of(p, ranking).round(12).tolist()))
    else:
        counts = [int(p.counts[ranking, group]) for group, _, _ in item_blocks(reading, ranking)]
        items = tuple(n for n in counts if n or reading.shares is not None)
    return len(codes), items, tuple(np.flatnonzero(codes < 0).tolist())


def random_orders(scored: Sequence[tuple[Reading, Scores]], draws: int, seed: int) -> list[Orders]:
    """Put the labelled items of every ranking into `draws` random orders, once per composition.

    Metrics that see the same labels are read on the same orders.
    """
    by_placement: dict[int, list[int]] = {}
    for i, (reading, _) in enumerate(scored):
        by_placement.setdefault(id(reading.placement), []).append(i)
    results: dict[int, Orders] = {}
    for some in by_placement.values():
        results |= zip(some, _shared_orders([scored[i] for i in some], draws, seed), strict=True)
    return [results[i] for i in range(len(scored))]


def _shared_orders(scored: Sequence[tuple[Reading, Scores]], draws: int, seed: int) -> list[Orders]:
    """Random orders of metrics that share a placement."""
    p = scored[0][0].placement
    compositions = _Compositions.from_placement(p)
    read = [Read(reading, compositions.weights(reading)) for reading, _ in scored]
    results = [Orders.empty(reading, scores, draws, seed) for reading, scores in scored]
    defined = np.any([~np.isnan(scores.normalizers[compositions.first]) for _, scores in scored], axis=0)
    random_orders = RandomOrders(draws, seed)
    for batch in compositions.batches(p, np.flatnonzero(defined), draws):
        rankings, row = compositions.members(batch.some)
        sums = null_sums(p, read, batch, random_orders)
        for orders, (_, scores), total in zip(results, scored, sums, strict=True):
            null = total / scores.normalizers[batch.first, None]
            exact = orders.means[rankings]
            orders.means[rankings] = np.where(np.isnan(exact), null.mean(1)[row], exact)
            with np.errstate(invalid="ignore"):  # a list that its target rules out is infinitely far in every order
                off = null - null.mean(1, keepdims=True)
                orders.variances[rankings] = (off**2).mean(1)[row]
                orders.thirds[rankings] = (off**3).mean(1)[row]
            orders.p[rankings] = (1 + _count_reached(null, row, scores.values[rankings])) / (1 + draws)
    for orders, (_, scores) in zip(results, scored, strict=True):
        orders.p[np.isnan(scores.values)] = np.nan
    return results


@dataclass(frozen=True)
class _Compositions:
    """Every distinct composition: a ranking that has it, and which rankings have it."""

    mixes: Sequence[Mix]
    first: Ints
    which: Ints
    order: Ints
    edges: Ints

    @classmethod
    def from_placement(cls, p: Placement) -> _Compositions:
        mixes, many = p.mixes, 0
        which = np.zeros(len(p), dtype=np.int64)
        for mix in mixes:
            which[mix.at] = mix.which + many
            many += len(mix.first)
        order, edges = grouped(which, many)
        return cls(mixes, np.concatenate([np.zeros(0, np.int64), *(m.first for m in mixes)]), which, order, edges)

    def weights(self, reading: Reading) -> list[Floats]:
        """How much the first k labelled items of each composition count."""
        return [row for mix in self.mixes for row in mix.weights(reading.weights(mix.is_labelled.shape[1]))]

    def members(self, alike: Ints) -> tuple[Ints, Ints]:
        """The rankings of these compositions, and the place of each one's composition among them."""
        parts = [self.order[self.edges[u] : self.edges[u + 1]] for u in alike]
        return np.concatenate(parts), np.repeat(np.arange(len(alike)), [len(part) for part in parts])

    def batches(self, p: Placement, some: Ints, draws: int) -> Iterator[Batch]:
        """Compositions with equally many labelled items, a bounded number of cells at a time.

        Where items are shared out, each stands alone: the mean over its orders is not known exactly, so they must be its own.
        """
        first = self.first[some]
        alike = np.arange(len(some)) if p.rows is not None else distinct_rows(p.counts[first])[1]
        size = p.labelled[first]
        order = np.lexsort([alike, -size])  # long lists first: short ones take over their orders
        size, alike, some, first = size[order], alike[order], some[order], first[order]
        starts = np.flatnonzero(np.diff(alike if p.rows is not None else size, prepend=-1))
        for start, stop in pairwise([*starts.tolist(), len(some)]):
            most = max(1, MOST_CELLS // max(draws, int(size[start]) ** 2))
            for i in range(start, stop, most):
                at = slice(i, min(i + most, stop))
                edges = [0, *(np.flatnonzero(np.diff(alike[at])) + 1).tolist(), at.stop - i]
                yield Batch(int(size[i]), some[at], first[at], [slice(*ends) for ends in pairwise(edges)])


def _count_reached(null: Floats, row: Ints, values: Floats) -> Ints:
    """How many random orders come at least as far as each value."""
    at_once = max(1, MOST_CELLS // null.shape[1])
    parts = [
        np.count_nonzero(null[row[i : i + at_once]] >= values[i : i + at_once, None] - NEAR, axis=1)
        for i in range(0, len(values), at_once)
    ]
    return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Random:
    """Mean of random orders of one list, and their upper `tail` quantile."""

    mean: float
    cut: float


def random_order_of(template: Template, p: Placement, draws: int, seed: int, tail: float = 0.05) -> Random:
    """Chance level and critical value of the first ranking (all rankings if items are the same)."""
    first = p.take(np.array([0]))
    reading = Reading.from_placement(template, first)
    scores = reading.scores()
    (orders,) = random_orders([(reading, scores)], draws, seed)
    cut = float(np.quantile(orders.null_means(np.zeros(1, dtype=np.int64)), 1 - tail, method="higher"))
    return Random(float(orders.means[0]), cut + NEAR)
