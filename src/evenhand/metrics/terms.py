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
from evenhand.tallies.compositions import Kinds
from evenhand.tallies.placement import Batch

Ints = npt.NDArray[np.int64]

MOST_CELLS = 1 << 23
"""Entries of all tables together: 64 MB."""


@dataclass(frozen=True)
class Terms:
    """The terms of a difference for every kind of list."""

    term: Term  # the summand
    counts: Floats  # (Q,) items of the group and labelled items in all, per kind
    sizes: Floats
    part: Floats  # (Q,) what prefixes of each kind are compared with
    whole: Floats
    # what the tables are laid out by; metrics of the same kinds find their terms in the same places
    kinds: Kinds | None = None
    flat: Floats | None = None  # all tables end to end; None where computing is cheaper than tabulating

    @classmethod
    def tabulated(cls, term: Term, kinds: Kinds, part: Floats, whole: Floats, *, uses: float) -> Terms:
        """Tabulate when the tables have fewer entries than there are `uses` of them."""
        plain = cls(term, kinds.counts, kinds.sizes, part, whole)
        if not len(kinds.counts) or kinds.cells > min(uses, MOST_CELLS):
            return plain
        flat = np.zeros(kinds.cells)
        for block in kinds.blocks:
            tables, step = block.tables(flat), max(1, (1 << 17) // (block.tall * block.wide))  # 1 MB at a time
            for i in range(0, len(tables), step):
                some = np.arange(block.first + i, min(block.first + i + step, block.last))
                tables[i : i + step, 1:] = plain.tables(block.wide, np.arange(1, block.tall), some)
        return replace(plain, kinds=kinds, flat=flat)

    def at(self, c: npt.NDArray[Any], k: npt.NDArray[Any], kind: Any) -> Floats:
        """F at c items of the group among the first k, for lists of these kinds; 0 for k = 0."""
        if self.flat is not None and self.kinds is not None:
            return np.asarray(self.flat.take(self.kinds.places(c, k, kind)))
        return self._computed(c, k, kind)

    def _computed(self, c: npt.NDArray[Any], k: npt.NDArray[Any], kind: Any) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.maximum(k, 1)
            values = self.term(np.minimum(c, seen), seen, self.part[kind], self.whole[kind])
        return values if np.min(k, initial=1) > 0 else np.where(k > 0, values, 0.0)

    def tables(self, wide: int, k: Ints, kinds: Ints) -> Floats:
        """(U, K, wide) F at 0, 1, ... items of the group among the first k in lists of these kinds."""
        if self.flat is not None and self.kinds is not None and (block := self.kinds.block(kinds)) is not None:
            return block.tables(self.flat)[kinds[:, None] - block.first, k, :wide]
        return self._computed(np.arange(wide), k[:, None], kinds[:, None, None])

    def along(self, b: Batch, group: int, kind: Ints, ends: slice) -> Floats:
        """(m, ...) F at the prefixes `ends` of a block of rankings."""
        if self.flat is None or self.kinds is None:
            return self.at(b.cum_counts(group)[:, ends], b.seen[..., ends], kind[:, None])
        # Every rank is a step in the table of its list: a row down for a labelled item, a column on for one of the group.
        cells = (b.codes == group) + b.is_labelled * self.kinds.strides[kind][:, None]
        cells[:, 0] += self.kinds.offsets[kind]
        return self.flat.take(np.cumsum(cells, axis=1)[:, ends])

    def by_item(self, kind: int, weights: Floats) -> tuple[float, Floats]:
        """The sum over prefixes by the group's items: a constant and (count, size) gains.

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
