"""Random orders: is a prefix metric larger than putting the same items in any order would make it?

What a random order gives depends on the composition of a list only, so the orders are drawn once per composition and
serve every ranking that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats, parse_call
from evenhand.errors import EvenhandError
from evenhand.metrics.template import Reading, Scores, Template
from evenhand.tallies.placement import Ints, Mix, Placement, distinct_rows
from evenhand.uncertainty.intervals import stream

MOST_CELLS = 1 << 20
AT_ONCE = 1 << 14
"""Ranks of random orders handled together: they stay in the cache, and memory is not asked for again and again."""
MOST_KEPT = 1 << 25
"""Values of random orders that are kept, for the mean over few rankings."""
MANY = 200
"""Above this many rankings the mean over random orders is normal for all that matters here."""
NEAR = 1e-9
"""A random order this close to the value counts as reaching it."""


def draws_of(chance: str | None) -> int:
    """Read `"permutation(999)"`; None asks for no random orders.

    >>> draws_of("permutation(99)"), draws_of(None)
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
    """What random orders of every ranking give.

    Attributes
    ----------
    p : (R,) share of random orders at least as far from the whole as the ranking itself.
    means, spreads : (R,) mean and standard deviation of the metric over random orders; the mean is exact where known.
    kept : (U, B) values of the random orders of each composition; None where there are too many.
    which : (R,) the composition of each ranking.
    """

    p: Floats
    means: Floats
    spreads: Floats
    kept: npt.NDArray[np.float32] | None
    which: Ints

    @classmethod
    def empty(cls, scores: Scores, groups: _Compositions, draws: int) -> Orders:
        """What is to be filled in."""
        size, nothing = len(groups.first), np.full(len(scores.values), np.nan)
        kept = np.zeros((size, draws), dtype=np.float32) if size * draws <= MOST_KEPT else None
        return cls(nothing.copy(), scores.chances.copy(), nothing, kept, groups.which)

    def p_of_mean(self, values: Floats, at: Ints, rng: np.random.Generator) -> float:
        """Share of random orders of all these rankings whose mean is at least as large; undefined ones are left out."""
        at = at[~np.isnan(values[at])]
        if len(at) < 2:
            return float(self.p[at[0]]) if len(at) else float("nan")
        mean, expected = float(values[at].mean()), float(self.means[at].mean())
        if len(at) > MANY or self.kept is None:
            error = float(np.sqrt((self.spreads[at] ** 2).sum())) / len(at)
            return 1 - NormalDist().cdf((mean - expected) / error) if error > 0 else float(mean <= expected + NEAR)
        pools = self.kept[self.which[at]]
        picks = rng.integers(0, pools.shape[1], pools.shape)
        off = expected - float(pools.mean(dtype=np.float64))  # the pools' own mean is off by their sampling error
        drawn = np.take_along_axis(pools, picks, axis=1).mean(0, dtype=np.float64) + off
        return float((1 + np.count_nonzero(drawn >= mean - NEAR)) / (1 + len(drawn)))


def random_orders(asked: Sequence[tuple[Reading, Scores]], draws: int, seed: int) -> list[Orders]:
    """Put the labelled items of every ranking into `draws` random orders, once per composition.

    Metrics that see the same labels are read on the same orders.
    """
    together: dict[int, list[int]] = {}
    for i, (reading, _) in enumerate(asked):
        together.setdefault(id(reading.placement), []).append(i)
    found: dict[int, Orders] = {}
    for some in together.values():
        found |= zip(some, _shared_orders([asked[i] for i in some], draws, seed), strict=True)
    return [found[i] for i in range(len(asked))]


def _shared_orders(asked: Sequence[tuple[Reading, Scores]], draws: int, seed: int) -> list[Orders]:
    """The same for metrics that see the same labels."""
    p = asked[0][0].placement
    groups = _Compositions.of(p)
    read = [_Read(reading, groups.weights(reading)) for reading, _ in asked]
    found = [Orders.empty(scores, groups, draws) for _, scores in asked]
    for alike in groups.by_counts(p):
        rankings, column = groups.members(alike)
        sums = _null_sums(p, read, groups.first, alike, draws, seed)
        for orders, (_, scores), total in zip(found, asked, sums, strict=True):
            null = total / scores.normalizers[groups.first[alike]]
            exact = orders.means[rankings]
            orders.means[rankings] = np.where(np.isnan(exact), null.mean(0)[column], exact)
            orders.spreads[rankings] = null.std(0)[column]
            orders.p[rankings] = (1 + _reached(null, column, scores.values[rankings])) / (1 + draws)
            if orders.kept is not None:
                orders.kept[alike] = null.T
    for orders, (_, scores) in zip(found, asked, strict=True):
        orders.p[np.isnan(scores.values)] = np.nan
    return found


@dataclass(frozen=True)
class _Compositions:
    """Every distinct composition: a ranking that has it, and which rankings have it."""

    mixes: list[Mix]
    first: Ints
    which: Ints
    order: Ints
    edges: Ints

    @classmethod
    def of(cls, p: Placement) -> _Compositions:
        mixes, many = list(p.mixes()), 0
        which = np.zeros(len(p), dtype=np.int64)
        for mix in mixes:
            which[mix.at] = mix.which + many
            many += len(mix.first)
        order = np.argsort(which, kind="stable")
        edges = np.searchsorted(which[order], np.arange(many + 1))
        return cls(mixes, np.concatenate([np.zeros(0, np.int64), *(m.first for m in mixes)]), which, order, edges)

    def weights(self, reading: Reading) -> list[Floats]:
        """How much the first k labelled items of each composition count."""
        return [row for mix in self.mixes for row in mix.weights(reading.weights(mix.known.shape[1]))]

    def members(self, alike: Ints) -> tuple[Ints, Ints]:
        """The rankings of these compositions, and the place of each one's composition among them."""
        parts = [self.order[self.edges[u] : self.edges[u + 1]] for u in alike]
        return np.concatenate(parts), np.repeat(np.arange(len(alike)), [len(part) for part in parts])

    def by_counts(self, p: Placement) -> list[Ints]:
        """Compositions that hold the same items, whatever ranks they stand in: they share their random orders."""
        if p.rows is not None:
            return [np.array([u]) for u in range(len(self.first))]
        _, alike = distinct_rows(p.counts[self.first])
        order = np.argsort(alike, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(alike[order])) + 1) if len(order) else []


def _reached(null: Floats, column: Ints, values: Floats) -> Ints:
    """How many random orders come at least as far as each value."""
    at_once = max(1, MOST_CELLS // len(null))
    parts = [
        (null[:, column[i : i + at_once]] >= values[i : i + at_once] - NEAR).sum(0)
        for i in range(0, len(values), at_once)
    ]
    return np.concatenate(parts)


@dataclass(frozen=True)
class _Read:
    """A metric, and how much the first k labelled items of each composition count for it."""

    reading: Reading
    weights: list[Floats]


def _null_sums(p: Placement, read: Sequence[_Read], first: Ints, alike: Ints, draws: int, seed: int) -> list[Floats]:
    """For each metric, (draws, compositions) sums over prefixes of random orders of compositions that hold the same items."""
    one = int(first[alike[0]])
    counts, items = p.counts[one], int(p.known[one])
    weights = [np.stack([r.weights[u][:items] for u in alike], axis=1) for r in read]
    here = slice(p.starts[one], p.starts[one + 1])
    soft = None if p.rows is None else p.rows[here][p.codes[here] >= 0]
    rng = stream(seed, "orders", *(counts.tolist() if soft is None else soft.round(12).tolist()))
    k = np.arange(1, items + 1)
    found = [np.empty((draws, len(alike))) for _ in read]
    at_once = max(1, AT_ONCE // max(1, items))
    looked_at = max((r.reading.kinds.shape[1] for r in read), default=0)
    for start in range(0, draws, at_once):
        many = min(at_once, draws - start)
        shuffled = _shuffled(counts, soft, many, rng)
        differences: list[Any] = [np.zeros((many, items)) for _ in read]
        for g in range(looked_at):
            held = np.cumsum(shuffled == g if soft is None else soft[shuffled, g], axis=1)
            for i, r in enumerate(read):
                if g < r.reading.kinds.shape[1]:
                    differences[i] += r.reading.terms.at(held, k, r.reading.kinds[one, g])
        for sums, weight, difference in zip(found, weights, differences, strict=True):
            # Not BLAS: threads change last bits.
            sums[start : start + many] = np.einsum("bk,ku->bu", difference, weight)
    return found


def _shuffled(counts: Floats, soft: Floats | None, many: int, rng: np.random.Generator) -> Ints:
    """(many, items) group codes in random order; for shares, positions of their rows."""
    items = np.repeat(np.arange(len(counts)), counts.astype(np.int64)) if soft is None else np.arange(len(soft))
    return rng.permuted(np.broadcast_to(items, (many, len(items))), axis=1)


@dataclass(frozen=True, slots=True)
class Random:
    """What random orders of one list give: the exact mean, and the value above which at most a share `tail` of them lie."""

    mean: float
    cut: float


def random_order_of(template: Template, p: Placement, draws: int, seed: int, tail: float = 0.05) -> Random:
    """Chance level and critical value of the first ranking; enough where all rankings hold the same items."""
    one = p.take(np.array([0]))
    reading = Reading.of(template, one, draws)
    scores = reading.scores()
    (orders,) = random_orders([(reading, scores)], draws, seed)
    values = scores.chances if orders.kept is None else orders.kept[0].astype(np.float64)
    cut = float(np.quantile(values, 1 - tail, method="higher"))
    return Random(float(orders.means[0]), cut + 1e-6)  # kept values are good to seven digits
