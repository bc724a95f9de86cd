"""F(k, c) for many lists at once: looked up in tables where lists share their make-up, computed where they do not.

A *kind* is "count of size": how many items of a group a list of that many labelled items holds. F depends on the kind
and on (k, c) only, so a table per kind serves the values, the normaliser and the chance level of every list alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.metrics.differences import Term

Ints = npt.NDArray[np.int64]

MOST_CELLS = 1 << 23
"""Entries of all tables together: 64 MB."""
MOST_KINDS = 1 << 14


@dataclass(frozen=True)
class Terms:
    """The terms of a difference for every kind of list.

    Attributes
    ----------
    term : the summand.
    counts, sizes : (Q,) items of the group and labelled items in all, per kind.
    part, whole : (Q,) what prefixes of each kind are compared with.
    flat : all tables end to end, entry [k, c] of kind q at `offsets[q] + k * strides[q] + c`; None where computing is
        cheaper than tabulating.
    """

    term: Term
    counts: Floats
    sizes: Floats
    part: Floats
    whole: Floats
    flat: Floats | None = None
    offsets: Ints | None = None
    strides: Ints | None = None

    @classmethod
    def of(cls, term: Term, counts: Floats, sizes: Floats, part: Floats, whole: Floats, *, uses: float) -> Terms:
        """Tabulate when the tables have fewer entries than there are `uses` of them."""
        plain = cls(term, counts, sizes, part, whole)
        cells = (sizes + 1) * (counts + 1)
        if cells.sum() > min(uses, MOST_CELLS) or len(cells) > MOST_KINDS:
            return plain
        offsets = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)
        flat = np.empty(int(offsets[-1]))
        for q, start in enumerate(offsets[:-1]):
            k, c = np.arange(sizes[q] + 1)[:, None], np.arange(counts[q] + 1)
            flat[start : offsets[q + 1]] = plain.at(c, k, np.int64(q)).ravel()
        return cls(term, counts, sizes, part, whole, flat, offsets[:-1], (counts + 1).astype(np.int64))

    def at(self, c: npt.NDArray[Any], k: npt.NDArray[Any], kind: Any) -> Floats:
        """F at c items of the group among the first k, for lists of these kinds; 0 before anything is seen."""
        if self.flat is not None and self.offsets is not None and self.strides is not None:
            return np.asarray(self.flat.take(self.offsets[kind] + k * self.strides[kind] + c))
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.maximum(k, 1)
            found = self.term(np.minimum(c, seen), seen, self.part[kind], self.whole[kind])
        return np.where(k > 0, found, 0.0)
