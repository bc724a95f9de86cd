"""Many crosstabs at once: the same users counted again and again, with other weights or under other labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.shown import Ints

MOST_CELLS = 1 << 22
"""Cells (draws x groups x items) turned into a crosstab at a time."""


class Weights(Protocol):
    """How often each user counts in each draw, user by user in order; `rows` are the rows of the crosstab they count in."""

    @property
    def draws(self) -> int: ...
    @property
    def rows(self) -> Ints: ...
    @property
    def rest(self) -> int | None:
        """The place of those whom no other place counts: it is what these leave of all, whose weights (R, 1) come instead."""
        ...

    def of_users(self, first: int, codes: Ints) -> Iterator[tuple[int | Ints, npt.NDArray[np.float32]]]:
        """For users `first` onwards: the place in `rows` where they count (one for all, or one each), and weights (R, D)."""
        ...


@dataclass(frozen=True, slots=True)
class Replicates:
    """D crosstabs of one audience.

    Attributes
    ----------
    rows : rows of the crosstab that have users.
    counts : (rows, J, D) times each item was shown, in float32: whole numbers are exact up to 2^24.
    odd : (J, D) what has to be added to times shown / `usual` to give the spread; None for nothing.
    marks : (rows, D, M) sums over users, by `MARKS`.
    usual : number of slots that most users have.
    """

    rows: Ints
    counts: npt.NDArray[np.float32]
    odd: npt.NDArray[np.float32] | None
    marks: Floats
    usual: float

    @property
    def draws(self) -> int:
        return int(self.marks.shape[1])

    def with_other(self, other: Replicates) -> Replicates:
        """Both audiences together: the same users in the same rows, each counted by one of the two."""
        odd = self.odd if other.odd is None else other.odd if self.odd is None else self.odd + other.odd
        return replace(self, counts=self.counts + other.counts, odd=odd, marks=self.marks + other.marks)

    def crosstabs(self, like: Crosstab) -> Iterator[Crosstab]:
        """The replicates as crosstabs with a leading axis, a bounded number at a time."""
        groups, items = like.counts.shape
        at_once = max(1, MOST_CELLS // max(1, groups * items))
        for start in range(0, self.draws, at_once):
            here = slice(start, min(start + at_once, self.draws))
            counts = np.zeros((here.stop - here.start, groups, items))
            marks = np.zeros((len(counts), groups, self.marks.shape[2]))
            for i, row in enumerate(self.rows):
                counts[:, row] = self.counts[i, :, here].T
                marks[:, row] = self.marks[i, here]
            spread = counts.sum(1) / self.usual
            if self.odd is not None:
                spread += self.odd[:, here].T
            yield Crosstab(counts, spread, marks, like.pair, like.judged, like.cut)
