"""What another order does to lists: where the shown items stood before, and what they gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.attention import parse, sound_relevance
from evenhand.cards import Floats
from evenhand.errors import EvenhandError

Ints = np.typing.NDArray[np.int64]

NOWHERE = np.iinfo(np.int64).max
"""The old rank of an item that was in no list before."""


@dataclass(frozen=True)
class Reordered:
    """Lists, by the ranks that their items had before.

    Attributes
    ----------
    was : (R, k) old rank, from 1, of the item at each new rank; 0 behind the end of a list.
    """

    was: Ints

    @classmethod
    def of(cls, after: Sequence[Any], *, before: Sequence[Any]) -> Reordered:
        """One list, best first, and the same list before; items are compared by equality."""
        for name, items in (("after", after), ("before", before)):
            if isinstance(items, str) or len(set(items)) < len(items):
                raise EvenhandError(f"{name} is no list of different items. Pass each item once, best first.")
        place = {item: rank for rank, item in enumerate(before, 1)}
        return cls(np.array([[place.get(item, NOWHERE) for item in after]], dtype=np.int64))

    @property
    def lengths(self) -> Ints:
        """(R,) items in each list."""
        return np.asarray((self.was > 0).sum(1))

    def reason(self) -> str:
        return "" if (self.was > 0).any() else "empty"


@dataclass(frozen=True)
class Gained:
    """What lists gain, and what the best order of the same candidates would.

    Attributes
    ----------
    gained, ideal : (R,) attention-weighted gains.
    """

    gained: Floats
    ideal: Floats

    @classmethod
    def of(cls, gains: Any, *, candidates: Any = None, attention: Any = "log(offset=1)") -> Gained:
        """One list: the gain at each rank, and those of all candidates where they are more than the list."""
        shown = sound_relevance(gains)
        best = np.sort(shown if candidates is None else sound_relevance(candidates))[::-1][: len(shown)]
        model = parse(attention)
        return cls(np.atleast_1d(shown @ model.weights(len(shown))), np.atleast_1d(best @ model.weights(len(best))))

    def reason(self) -> str:
        return "" if (self.ideal > 0).any() else "zero_utility"
