"""F(i) in eq. 1 of Draws et al. (2020), how far the first i items are from the whole; its mean in random order; its largest sum.

Each function reads counts that broadcast: `c` items of a group among the first `k`, against `share_of` in `whole`
(the counts of the whole list, or a target share and 1). F is the sum of `term` over the groups looked at; where one
side is protected, only its count is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.distances import kl_terms, p_log_p
from evenhand.errors import EvenhandError
from evenhand.tallies.ragged import Ints

Term = Callable[[Floats, Floats, Floats, Floats], Floats]


@dataclass(frozen=True)
class Difference:
    """A term and what is known about it."""

    term: Term  # the summand of one group; the whole of F where `sided`
    sided: bool  # whether F looks at the protected count only
    symmetric: bool = False  # whether swapping the two sides leaves F as it is
    # whether F never rises with more protected items, so that "protected last" is the worst order
    falling: bool = False


def nd(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """|c/k - S/N|, eq. 2."""
    return np.abs(c / k - share_of / whole)


def rd(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """|c/(k - c) - S/(N - S)|, eq. 3; a fraction whose denominator is 0 counts as 0."""
    return np.abs(_ratio(c, k) - _ratio(share_of, whole))


def rd_one_sided(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """Shortfall of the protected ratio against the whole list; 0 where there is none."""
    short = np.maximum(_ratio(share_of, whole) - _ratio(c, k), 0.0)
    return np.where(c < k, short, 0.0)


def kl_of_sides(smoothing: float | None) -> Term:
    """KL divergence of the two sides among the first k from the whole, in bits (eq. 4).

    A prefix of one side only is smoothed to (smoothing, 1 - smoothing), whichever side it is.
    """

    def term(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
        p, q = c / k, share_of / whole
        if smoothing is not None:
            p = np.where(c <= 0, smoothing, np.where(c >= k, 1 - smoothing, p))
        return np.asarray(kl_terms(p, q) + kl_terms(1 - p, (whole - share_of) / whole))

    return term


def kl(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """One group's part of KL(first k || whole), in bits; infinite where the whole has none."""
    return kl_terms(c / k, share_of / whole)


def kl_with_added(epsilon: float) -> Term:
    """One group's part of KL in nats, `epsilon` added to every share as tools after Geyik do."""

    def term(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
        p, q = c / k + epsilon, share_of / whole + epsilon
        return np.asarray(kl_terms(p, q) * np.log(2))

    return term


def js(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """One group's part of the Jensen-Shannon divergence from the whole, in bits (eq. 6)."""
    p, q = c / k, share_of / whole
    return np.asarray((p_log_p(p) + p_log_p(q)) / 2 - p_log_p((p + q) / 2))


def _ratio(part: Floats, whole: Floats) -> Floats:
    rest = whole - part
    return np.where(rest > 0, part / np.where(rest > 0, rest, 1.0), 0.0)


@dataclass(frozen=True)
class Terms:
    """The terms of a difference for every kind of list."""

    term: Term
    counts: Floats  # (Q,) items of the group, per kind
    sizes: Floats  # (Q,) labelled items in all
    part: Floats  # (Q,) what prefixes are compared with: `part` of `whole`
    whole: Floats

    def at(self, c: npt.NDArray[Any], k: npt.NDArray[Any], kind: Any) -> Floats:
        """F at c items of the group among the first k, for lists of these kinds; 0 for k = 0."""
        seen = np.maximum(k, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.term(np.minimum(c, seen), seen, self.part[kind], self.whole[kind])
        return np.where(k > 0, values, 0.0)


MOST_CELLS = 1 << 18
"""Probabilities held at a time: 2 MB."""


def expected_terms(terms: Terms, kind: int) -> Floats:
    """(size,) mean of the term over random orders of a list of this kind, for every prefix.

    The items of a group among the first k follow the hypergeometric distribution.

    >>> one, two = np.array([1.0]), np.array([2.0])
    >>> expected_terms(Terms(nd, one, two, one, two), 0).tolist()
    [0.5, 0.0]
    """
    count, size = int(terms.counts[kind]), int(terms.sizes[kind])
    means = np.empty(size)
    for ranks in np.array_split(np.arange(1, size + 1), max(1, size * (count + 1) // MOST_CELLS)):
        k = ranks[:, None]
        # Counts more than 12 standard deviations (and 30) off their mean weigh less than 1e-30 in all.
        mean = k * (count / size)
        far = 12 * np.sqrt(mean * (1 - count / size) * (size - k) / max(size - 1, 1)) + 30
        c = np.arange(max(0, int((mean - far).min())), min(count, int((mean + far).max()) + 1) + 1)
        chance = _hypergeometric(c, k, count, size)
        with np.errstate(invalid="ignore"):  # an infinite term that no order meets
            means[ranks - 1] = np.where(chance > 0, chance * terms.at(c, k, kind), 0.0).sum(1)
    return means


def _hypergeometric(c: Ints, k: Ints, count: int, size: int) -> Floats:
    """Probability of c items of the group among the first k, out of `count` in a list of `size`."""
    from scipy.special import gammaln

    logs, others = gammaln(np.arange(size + 1) + 1.0), size - count
    possible = (c <= k) & (k - c <= others)
    c, rest = np.where(possible, c, 0), np.where(possible, k - c, 0)
    ways = logs[count] - logs[c] - logs[count - c] + logs[others] - logs[rest] - logs[others - rest]
    chance = np.exp(ways - (logs[size] - logs[k] - logs[size - k]))
    return np.where(possible, chance, 0.0)


def share_band(count: int, size: int, seen: Ints, level: float) -> tuple[Floats, Floats]:
    """Lowest and highest share of a group among the first items of random orders.

    Random orders lie between them with probability `level`, for each number of items in `seen`.

    >>> low, high = share_band(1, 2, np.array([1, 2]), 0.95)
    >>> low.tolist(), high.tolist()
    ([0.0, 0.5], [1.0, 0.5])
    """
    tail = (1 - level) / 2
    low, high = np.zeros(len(seen)), np.ones(len(seen))
    for i, k in enumerate(seen.tolist()):
        if not k:
            continue
        c = np.arange(min(count, k) + 1)
        below = np.cumsum(_hypergeometric(c, np.array([k]), count, size))
        low[i], high[i] = c[np.argmax(below > tail)] / k, c[np.argmax(below >= 1 - tail - 1e-12)] / k
    return low, high


MOST_PATH_CELLS = 1 << 16
"""States of all compositions that are searched at a time: few enough to stay in cache."""
MOST_STATES = 50_000_000
"""States (prefix, protected count) of one composition that the exact search of two sides may visit."""
MOST_LATTICE = 500_000
"""States (count vectors) that the exact search of several groups may visit."""


def arranged(terms: Terms, weights: Floats, kinds: Ints, *, first: bool) -> Floats:
    """(U,) sum over prefixes with all protected items first, or last."""
    k = np.arange(1, weights.shape[1] + 1)
    counts, sizes = (a[kinds, None].astype(np.int64) for a in (terms.counts, terms.sizes))
    seen = np.minimum(k, counts) if first else np.maximum(0, k - (sizes - counts))
    values = terms.at(np.minimum(seen, counts), np.minimum(k, sizes), kinds[:, None])
    return np.asarray((np.where(k <= sizes, values, 0.0) * weights).sum(1))


def largest_of_sides(difference: Difference, terms: Terms, weights: Floats, kinds: Ints) -> Floats:
    """(U,) the exact maximum over all orders of two sides.

    F depends on (k, c) only, so the worst order is the longest path over those states: one step more, one protected
    item more or not.
    """
    if difference.falling:
        return arranged(terms, weights, kinds, first=False)
    counts = terms.counts[kinds]
    if _last_counted(weights) * (counts.max(initial=0) + 1) > MOST_STATES:
        if not difference.symmetric:
            raise EvenhandError(
                f"A ranking of {weights.shape[1]:,} items is too long for the exact maximum of a ratio. "
                "Pass normalizer='published' or None, or one_sided=True."
            )
        # For differences and divergences of long lists, one of the two extremes is the maximum.
        return np.maximum(*(arranged(terms, weights, kinds, first=first) for first in (True, False)))
    parts = 1 + int(len(kinds) * (counts.max(initial=0) + 1)) // MOST_PATH_CELLS
    every = np.array_split(np.arange(len(kinds)), parts)
    return np.concatenate([longest_paths(terms, weights[at], kinds[at]) for at in every])


def longest_paths(terms: Terms, weights: Floats, kinds: Ints) -> Floats:
    """(U,) the largest sum over prefixes, going through all states."""
    counts, sizes = (a[kinds].astype(np.int64) for a in (terms.counts, terms.sizes))
    last = np.minimum(sizes, _last_counted(weights))  # what comes later adds nothing
    protected = np.arange(counts.max(initial=0) + 1)[:, None]
    # With fewer, more unprotected items would have been seen than there are.
    possible = (protected <= counts) & (protected >= last - (sizes - counts))
    longest = np.zeros(len(kinds))
    # Counts by lists, for numpy is slow along a short axis; a row more than there are counts: nobody comes from below none.
    best = np.full((len(protected) + 1, len(kinds)), -np.inf)
    best[1] = 0.0
    for k in range(1, int(last.max(initial=0)) + 1):
        best[1:] = np.maximum(best[1:], best[:-1])
        if weights[:, k - 1].any():
            with np.errstate(invalid="ignore"):  # an infinite gain at a state that no order reaches
                best[1:] += terms.at(protected, np.array(k), kinds) * weights[:, k - 1]
        ending = last == k
        if ending.any():
            longest[ending] = np.where(possible, best[1:], -np.inf).max(0)[ending]
    return longest


def _last_counted(weights: Floats) -> int:
    """Labelled items down to the last prefix that counts."""
    return int(np.flatnonzero(weights.any(0)).max(initial=-1)) + 1


def largest_of_groups(terms: Terms, weights: Floats, kinds: Ints) -> float:
    """Maximum over all orders of several groups, for one composition: (K,) weights, (g,) kinds.

    Exact, over count vectors; more than `MOST_LATTICE` of them are refused.
    """
    missed = 0.0  # groups that only the target names are missed in any order
    for kind in kinds[terms.counts[kinds] == 0]:
        k = np.arange(1, int(terms.sizes[kind]) + 1)
        missed += float((terms.at(np.zeros_like(k), k, kind) * weights[: len(k)]).sum())
    kinds = kinds[terms.counts[kinds] > 0]
    counts = terms.counts[kinds].astype(np.int64)
    if float(np.prod(counts + 1.0)) > MOST_LATTICE:
        raise EvenhandError(
            f"The exact maximum over all orders of {counts.sum():,} items in {len(counts)} groups is out of reach. Pass "
            "normalizer=None, fewer groups or a cutoff, as in 'ndjs@50'."
        )
    return missed + _lattice(terms, weights, kinds, counts)


def _lattice(terms: Terms, weights: Floats, kinds: Ints, counts: Ints) -> float:
    """Longest path over count vectors, one layer of equal sums at a time."""
    shape = tuple(counts + 1)
    vectors = np.indices(shape).reshape(len(counts), -1)
    seen = vectors.sum(0)
    strides = np.cumprod((1, *shape[:0:-1]))[::-1]
    weight = np.concatenate([[0.0], weights])[seen]
    looked_at = np.flatnonzero(weight)
    gain = np.zeros(len(seen))
    for group_counts, kind in zip(vectors, kinds, strict=True):
        gain[looked_at] += terms.at(group_counts[looked_at], seen[looked_at], kind)
    gain *= weight
    if np.isinf(gain).any():  # every vector lies on some path
        return float("inf")
    best = np.full(len(seen), -np.inf)
    best[:1] = 0.0
    by_layer = np.argsort(seen, kind="stable")
    edges = np.searchsorted(seen[by_layer], np.arange(counts.sum() + 2))
    for k in range(1, int(counts.sum()) + 1):
        layer = by_layer[edges[k] : edges[k + 1]]
        for group_counts, stride in zip(vectors, strides, strict=True):
            came = layer[group_counts[layer] > 0]
            best[came] = np.maximum(best[came], best[came - stride])
        best[layer] += gain[layer]
    return float(best[-1])
