"""Random orders: is a prefix metric larger than putting the same items in any order would make it?

What a random order gives depends on the composition of a list only, so for the p of single rankings orders are drawn once per
composition and serve every ranking that has it. In the mean of several rankings each has orders of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.cards import Floats, parse_call
from evenhand.errors import EvenhandError
from evenhand.intervals.requests import skewed_tails
from evenhand.labels import stream
from evenhand.metrics.prefix import Reading, Scores, Template
from evenhand.tallies.placement import Placement
from evenhand.tallies.ragged import Ints


def random_places(
    p: Placement, ranking: int, draws: int, seed: int, owner: Sequence[Any] = ()
) -> Iterator[tuple[slice, Ints]]:
    """Some draws at a time, and (many, size) the places of the labelled items of a ranking in random order.

    No number depends on what other lists there are: lists of one size have the same orders. What is left of a random order is
    a random order, so orders are drawn for the next of a few sizes and restricted to the items of the list; items that are
    shared out have orders of their own, and so has every list of an `owner`.
    """
    size = drawn_size = int(p.labelled[ranking])
    labels = tuple(owner)
    if p.rows is not None and not owner:
        labels = tuple(shares_of(p, ranking).round(12).tolist())
    elif not owner:
        top = 1 << (size - 1).bit_length()
        drawn_size = top * 3 // 4 if size <= top * 3 // 4 else top
        labels = (drawn_size,)
    rng = stream(seed, "orders", *labels)
    at_once = max(1, (1 << 16) // drawn_size)  # ranks that stay in the cache
    for start in range(0, draws, at_once):
        at = slice(start, min(start + at_once, draws))
        order = shuffled(drawn_size, at.stop - start, rng)
        if drawn_size > size:
            order = np.compress((order < size).reshape(-1), order).reshape(-1, size)
        yield at, order


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


def null_sums(
    reading: Reading, rankings: Ints, weights: Floats, draws: int, seed: int, owner: Sequence[Any] = ()
) -> Floats:
    """(rankings, draws) sums over prefixes of rankings with equally many labelled items, in the same random orders.

    `weights` : how much the first k labelled items of each count. Lists without gaps that hold as many of a group from the
    same item on share its sums.
    """
    p, sums = reading.placement, np.zeros((len(rankings), draws))
    is_complete = p.labelled == p.lengths
    for at, order in random_places(p, int(rankings[0]), draws, seed, owner):
        seen = np.arange(1, order.shape[1] + 1)
        shared: dict[tuple[int, int], Floats] = {}
        for u, ranking in enumerate(rankings.tolist()):
            for block in item_blocks(reading, ranking):
                kind = int(reading.kinds[ranking, block[0]])
                of_group = shared.get((kind, block[1])) if is_complete[ranking] else None
                if of_group is None:
                    terms = reading.terms.at(_cumulated_counts(p, ranking, order, block), seen, kind)
                    # Not BLAS: threads change last bits.
                    of_group = np.einsum("bk,k->b", terms, weights[u][: order.shape[1]])
                    if is_complete[ranking]:
                        shared[kind, block[1]] = of_group
                sums[u, at] += of_group
    return sums


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
"""Sums over random orders that are held at a time."""
MOST_ORDERED_AT_ONCE = 1 << 22
"""Items that rankings which are made of the same put into orders of one stream."""
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
            (mix,) = p.take(first).mixes
            weights = mix.weights(self.reading.weights(mix.is_labelled.shape[1]))
            at_once = max(1, MOST_ORDERED_AT_ONCE // max(1, self.draws * size))
            for start in range(0, len(rankings), at_once):
                many = min(at_once, len(rankings) - start)
                owner = ("own", *contents, start)
                sums = null_sums(self.reading, first, weights, many * self.draws, self.seed, owner)
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


def random_orders(reading: Reading, scores: Scores, draws: int, seed: int) -> Orders:
    """Put the labelled items of every ranking into `draws` random orders, once per composition."""
    placement, means = reading.placement, scores.chances.copy()
    p, variances, thirds = np.full((3, len(means)), np.nan)
    for mix in placement.mixes:
        weights = mix.weights(reading.weights(mix.is_labelled.shape[1]))
        sizes = np.where(np.isnan(scores.normalizers[mix.first]), 0, placement.labelled[mix.first])
        for some in _batches(sizes, 1 if placement.rows is not None else max(1, MOST_CELLS // draws)):
            first, row = mix.first[some], np.full(len(mix.first), -1)
            row[some] = np.arange(len(some))
            row = row[mix.which]
            rankings, row = mix.at[row >= 0], row[row >= 0]
            null = null_sums(reading, first, weights[some], draws, seed) / scores.normalizers[first, None]
            exact = means[rankings]
            means[rankings] = np.where(np.isnan(exact), null.mean(1)[row], exact)
            with np.errstate(invalid="ignore"):  # a list that its target rules out is infinitely far in every order
                off = null - null.mean(1, keepdims=True)
                variances[rankings], thirds[rankings] = (off**2).mean(1)[row], (off**3).mean(1)[row]
            p[rankings] = (1 + _count_reached(null, row, scores.values[rankings])) / (1 + draws)
    p[np.isnan(scores.values)] = np.nan
    return Orders(p, means, variances, thirds, reading, scores, draws, seed)


def _batches(sizes: Ints, most: int) -> Iterator[Ints]:
    """Compositions with equally many labelled items, at most so many at a time; none of those without any.

    Where items are shared out, each stands alone: the mean over its orders is not known exactly, so they must be its own.
    """
    for size in np.unique(sizes[sizes > 0]):
        alike = np.flatnonzero(sizes == size)
        yield from (alike[start : start + most] for start in range(0, len(alike), most))


def _count_reached(null: Floats, row: Ints, values: Floats) -> Ints:
    """How many random orders come at least as far as each value."""
    at_once = max(1, MOST_CELLS // null.shape[1])
    parts = [
        np.count_nonzero(null[row[i : i + at_once]] >= values[i : i + at_once, None] - NEAR, axis=1)
        for i in range(0, len(values), at_once)
    ]
    return np.concatenate(parts)


def random_order_of(template: Template, p: Placement, draws: int, seed: int, tail: float = 0.05) -> tuple[float, float]:
    """Mean over random orders of the first ranking (all rankings if items are the same), and their upper `tail` quantile."""
    reading = Reading.from_placement(template, p.take(np.array([0])))
    orders = random_orders(reading, reading.scores(), draws, seed)
    cut = float(np.quantile(orders.null_means(np.zeros(1, dtype=np.int64)), 1 - tail, method="higher"))
    return float(orders.means[0]), cut + NEAR
