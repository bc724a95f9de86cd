"""F(k, c) for many lists at once.

A *kind* is "count of size": how many items of a group a list of that many labelled items holds. F depends on the kind
and on (k, c) only, so what is computed per kind serves the normaliser and the chance level of every list alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.metrics.differences import Term


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
