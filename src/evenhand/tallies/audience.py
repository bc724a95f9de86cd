"""What all users were shown, in the smallest form: made once, and added up again and again under other weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.tallies.shown import Ragged

AT_ONCE = 1 << 20
"""Slots that are added up at a time, at least."""

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Audience:
    """So many items for every user, end to end, with how much of a slot each had where not all had one.

    `marks` (U, M) are the first of `MARKS`.
    """

    lengths: Codes
    items: Codes
    values: Floats | None
    marks: Floats

    @classmethod
    def of(cls, shown: Ragged, marks: Floats) -> Audience:
        """Some users."""
        lengths, items = (part.astype(np.int32) for part in (shown.lengths, shown.items))
        return cls(lengths, items, None if shown.whole else shown.values, marks)

    @classmethod
    def joined(cls, parts: Sequence[Audience]) -> Audience:
        """Users after users."""
        if not parts:
            return cls(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), None, np.zeros((0, 1)))
        lengths, items, marks = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "items", "marks")
        )
        if all(part.values is None for part in parts):
            return cls(lengths, items, None, marks)
        values = [np.ones(len(part.items)) if part.values is None else part.values for part in parts]
        return cls(lengths, items, np.concatenate(values), marks)

    def many_of_length(self) -> Floats | None:
        """(K + 1,) users by the length of their list; None where tied items share slots."""
        return None if self.values is not None else np.bincount(self.lengths, minlength=1).astype(np.float64)

    def shown_nothing(self) -> Audience:
        """The same users, were they shown nothing."""
        return replace(self, lengths=np.zeros_like(self.lengths), items=self.items[:0], values=None)

    @property
    def slots(self) -> Floats:
        """Slots of every user."""
        if self.values is None:
            return self.lengths.astype(np.float64)
        return np.asarray(np.bincount(self.of_slots(np.arange(len(self.lengths))), self.values, len(self.lengths)))

    @property
    def usual(self) -> float:
        """How many slots most of those have who have any."""
        many = np.bincount(np.rint(self.slots).astype(np.int64), minlength=2)[1:]
        return float(1 + many.argmax())

    def of_slots(self, of_users: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For every slot, what its user has."""
        return np.repeat(of_users, self.lengths)

    def summed(self, codes: npt.NDArray[np.int64], groups: int, items: int) -> tuple[Floats, Floats]:
        """Times each item was shown to each group (G, J), and the sum of its shares of its users' slots (J,)."""
        counts, spread = np.zeros(groups * items), np.zeros(items)
        with np.errstate(divide="ignore"):
            share = 1 / self.slots
        for users, at in self.runs(max(AT_ONCE, groups * items)):
            lengths = self.lengths[users]
            held = np.repeat(codes[users] * items, lengths) + self.items[at]
            values = None if self.values is None else self.values[at]
            counts += np.bincount(held, values, groups * items)
            own = np.repeat(share[users], lengths)
            spread += np.bincount(self.items[at], own if values is None else own * values, items)
        return counts.reshape(groups, items), spread

    def runs(self, most: int) -> Iterator[tuple[slice, slice]]:
        """Users, and their slots, at most so many at a time or those of one user."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        start, done = 0, 0
        while start < len(ends):
            stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
            yield slice(start, stop), slice(done, int(ends[stop - 1]))
            start, done = stop, int(ends[stop - 1])
