"""Random orders: is a prefix metric larger than putting the same items in any order would make it?

What a random order gives depends on the composition of a list only, so the orders are drawn once per composition and
serve every ranking that has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats, parse_call
from evenhand.errors import EvenhandError
from evenhand.metrics.template import Reading, Scores, Template
from evenhand.tallies.placement import Ints, Placement, distinct_rows
from evenhand.uncertainty.intervals import stream

MOST_CELLS = 1 << 20
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


def random_orders(template: Template, p: Placement, scores: Scores, draws: int, seed: int) -> Orders:
    """Put the labelled items of every ranking into `draws` random orders, once per composition."""
    reading = replace(Reading.of(template, p), draws=draws)
    seen = reading.placement
    groups = _Compositions.of(reading)
    share, spreads = np.full(len(p), np.nan), np.full(len(p), np.nan)
    means = scores.chances.copy()
    size = len(groups.first)
    kept = np.zeros((size, draws), dtype=np.float32) if size * draws <= MOST_KEPT else None
    for alike in groups.by_counts(seen):
        null = _null_sums(reading, groups, alike, draws, seed) / scores.normalizers[groups.first[alike]]
        rankings, column = groups.members(alike)
        exact = means[rankings]
        means[rankings] = np.where(np.isnan(exact), null.mean(0)[column], exact)
        spreads[rankings] = null.std(0)[column]
        reached = _reached(null, column, scores.values[rankings])
        share[rankings] = (1 + reached) / (1 + draws)
        if kept is not None:
            kept[alike] = null.T
    undefined = np.isnan(scores.values)
    share[undefined] = np.nan
    return Orders(share, means, spreads, kept, groups.which)


@dataclass(frozen=True)
class _Compositions:
    """Every distinct composition: a ranking that has it, its weights, and which rankings have it."""

    first: Ints
    weights: list[Floats]
    which: Ints
    order: Ints
    edges: Ints

    @classmethod
    def of(cls, reading: Reading) -> _Compositions:
        first: list[Ints] = []
        weights: list[Floats] = []
        which = np.zeros(len(reading.placement), dtype=np.int64)
        for mix in reading.placement.mixes():
            which[mix.at] = mix.which + len(weights)
            first.append(mix.first)
            weights += list(mix.weights(reading.weights(mix.known.shape[1])))
        order = np.argsort(which, kind="stable")
        edges = np.searchsorted(which[order], np.arange(len(weights) + 1))
        return cls(np.concatenate(first or [np.zeros(0, dtype=np.int64)]), weights, which, order, edges)

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


def _null_sums(reading: Reading, groups: _Compositions, alike: Ints, draws: int, seed: int) -> Floats:
    """(draws, compositions) sums over prefixes of random orders, for compositions that hold the same items."""
    p = reading.placement
    one = int(groups.first[alike[0]])
    kinds, counts = reading.kinds[one], p.counts[one]
    items = int(p.known[one])
    weights = np.stack([groups.weights[u][:items] for u in alike], axis=1)
    here = slice(p.starts[one], p.starts[one + 1])
    soft = None if p.rows is None else p.rows[here][p.codes[here] >= 0]
    rng = stream(seed, "orders", *(counts.tolist() if soft is None else soft.round(12).tolist()))
    k = np.arange(1, items + 1)
    found = np.empty((draws, len(alike)))
    at_once = max(1, MOST_CELLS // max(1, items))
    for start in range(0, draws, at_once):
        many = min(at_once, draws - start)
        shuffled = _shuffled(counts, soft, many, rng)
        differences: Any = np.zeros((many, items))
        for g, kind in enumerate(kinds):
            held = np.cumsum(shuffled == g if soft is None else soft[shuffled, g], axis=1)
            differences = differences + reading.terms.at(held, k, kind)
        found[start : start + many] = np.einsum("bk,ku->bu", differences, weights)  # not BLAS: threads change last bits
    return found


def _shuffled(counts: Floats, soft: Floats | None, many: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """(many, items) group codes in random order; for shares, positions of their rows."""
    items = np.repeat(np.arange(len(counts)), counts.astype(np.int64)) if soft is None else np.arange(len(soft))
    kind = np.int16 if len(items) < 2**15 and len(counts) < 2**15 else np.int64
    return rng.permuted(np.broadcast_to(items.astype(kind), (many, len(items))), axis=1)


@dataclass(frozen=True, slots=True)
class Random:
    """What random orders of one list give: the exact mean, and the value above which at most a share `tail` of them lie."""

    mean: float
    cut: float


def random_order_of(template: Template, p: Placement, draws: int, seed: int, tail: float = 0.05) -> Random:
    """Chance level and critical value of the first ranking; enough where all rankings hold the same items."""
    one = p.take(np.array([0]))
    scores = template.scores(one)
    orders = random_orders(template, one, scores, draws, seed)
    values = scores.chances if orders.kept is None else orders.kept[0].astype(np.float64)
    cut = float(np.quantile(values, 1 - tail, method="higher"))
    return Random(float(orders.means[0]), cut + 1e-6)  # kept values are good to seven digits
