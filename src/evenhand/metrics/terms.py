"""F(k, c) for many lists at once: looked up in tables where lists share their make-up, computed where they do not.

A *kind* is "count of size": how many items of a group a list of that many labelled items holds. F depends on the kind
and on (k, c) only, so a table per kind serves the values, the normaliser and the chance level of every list alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.metrics.differences import Term
from evenhand.tallies.placement import Kinds

Ints = npt.NDArray[np.int64]

MOST_CELLS = 1 << 23
"""Entries of all tables together: 64 MB."""
MOST_KINDS = 1 << 14
AT_ONCE = 1 << 14
"""Entries that are computed together."""


@dataclass(frozen=True)
class Terms:
    """The terms of a difference for every kind of list.

    Attributes
    ----------
    term : the summand.
    counts, sizes : (Q,) items of the group and labelled items in all, per kind.
    part, whole : (Q,) what prefixes of each kind are compared with.
    kinds : what the tables are laid out by; metrics of the same kinds find their terms in the same places.
    flat : all tables end to end; None where computing is cheaper than tabulating.
    """

    term: Term
    counts: Floats
    sizes: Floats
    part: Floats
    whole: Floats
    kinds: Kinds | None = None
    flat: Floats | None = None

    @classmethod
    def of(cls, term: Term, kinds: Kinds, part: Floats, whole: Floats, *, uses: float) -> Terms:
        """Tabulate when the tables have fewer entries than there are `uses` of them."""
        plain = cls(term, kinds.counts, kinds.sizes, part, whole)
        if kinds.offsets[-1] > min(uses, MOST_CELLS) or len(kinds.counts) > MOST_KINDS:
            return plain
        flat = np.empty(int(kinds.offsets[-1]))
        for first, last in kinds.blocks(AT_ONCE):
            flat[kinds.offsets[first] : kinds.offsets[last]] = plain.at(*kinds.entries(first, last))
        return replace(plain, kinds=kinds, flat=flat)

    def at(self, c: npt.NDArray[Any], k: npt.NDArray[Any], kind: Any) -> Floats:
        """F at c items of the group among the first k, for lists of these kinds; 0 before anything is seen."""
        if self.flat is not None and self.kinds is not None:
            return np.asarray(self.flat.take(self.kinds.places(c, k, kind)))
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.maximum(k, 1)
            found = self.term(np.minimum(c, seen), seen, self.part[kind], self.whole[kind])
        return np.where(k > 0, found, 0.0)

    def by_item(self, kind: int, weights: Floats) -> tuple[float, Floats]:
        """The weighted sum over all prefixes as a sum over the items of the group: a constant, and (count, size) gains.

        With the j-th of them at place p (both from 0), it is the constant plus the sum of gains[j, p]: from there on j + 1
        items have been seen, no longer j. So an order needs as many terms as the group has items, not as there are ranks.
        """
        count, size = int(self.counts[kind]), int(self.sizes[kind])
        k, c = np.arange(1, size + 1)[:, None], np.arange(count + 1)
        reached = (c <= k) & (count - c <= size - k) & (weights[:size, None] > 0)
        sums = np.zeros((size + 1, count + 1))
        with np.errstate(invalid="ignore"):  # of infinite terms nothing can be taken away
            np.cumsum(np.where(reached, self.at(c, k, kind) * weights[:size, None], 0.0), axis=0, out=sums[1:])
            return float(sums[-1, -1]), np.ascontiguousarray((sums[:-1, :-1] - sums[:-1, 1:]).T)
