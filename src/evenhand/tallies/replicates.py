"""Many crosstabs at once: the same users counted again and again, with other weights or under other labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.tallies.crosstab import Crosstab, UserBlock
from evenhand.tallies.shown import Ints

MOST_CELLS = 1 << 22
"""Cells (draws x groups x items) turned into a crosstab at a time."""

EVEN = 8
"""Draws at a time are a multiple of this where they are more: products with short rows of whole words are faster."""

Codes = npt.NDArray[np.int32]
Times = npt.NDArray[np.uint8]


class Weights(Protocol):
    """How often each user counts in each draw, up to `most` times; `rows` are the rows of the crosstab they count in."""

    @property
    def draws(self) -> int: ...
    @property
    def rows(self) -> Ints: ...
    @property
    def most(self) -> int: ...
    @property
    def rest(self) -> int | None:
        """The place of those whom no other place counts: it is what these leave of all, whose weights (U, 1) come instead."""
        ...

    def between(self, start: int, stop: int) -> Iterator[tuple[int | Ints, Times]]:
        """For some draws: the place in `rows` where users count (one for all, or one each), and the weights of all (U, D).

        Who asks for the same draws again gets the same weights.
        """
        ...


@dataclass(frozen=True, slots=True)
class Audience:
    """What every user was shown: so many items each, end to end, with how much of a slot each had where not all had one.

    `marks` (U, M) are the first of `MARKS`.
    """

    lengths: Codes
    items: Codes
    values: Floats | None
    marks: Floats

    @classmethod
    def of(cls, block: UserBlock) -> Audience:
        """Some users."""
        shown, whole = block.shown, block.whole
        lengths, items = (part.astype(np.int32) for part in (shown.lengths, shown.items))
        return cls(lengths, items, None if whole else shown.values, block.marks)

    @classmethod
    def joined(cls, parts: Sequence[Audience]) -> Audience:
        """Users after users."""
        lengths, items, marks = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "items", "marks")
        )
        values = [np.ones(len(part.items)) if part.values is None else part.values for part in parts]
        return cls(lengths, items, None if all(p.values is None for p in parts) else np.concatenate(values), marks)

    @property
    def slots(self) -> Floats:
        """Slots of every user."""
        if self.values is None:
            return self.lengths.astype(np.float64)
        return np.asarray(np.bincount(self.of_slots(np.arange(len(self.lengths))), self.values, len(self.lengths)))

    def of_slots(self, of_users: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For every slot, what its user has."""
        return np.repeat(of_users, self.lengths)


@dataclass(frozen=True, slots=True)
class Replicates:
    """D crosstabs of one audience under weights, or of several whose weights add up; `usual` is how many slots most users have."""

    parts: tuple[tuple[Audience, Weights], ...]
    usual: float

    @property
    def draws(self) -> int:
        return self.parts[0][1].draws

    def with_other(self, other: Replicates) -> Replicates:
        """Both audiences together: the same users in the same rows, each counted by one of the two."""
        return Replicates(self.parts + other.parts, self.usual)

    def crosstabs(self, like: Crosstab) -> Iterator[Crosstab]:
        """The replicates as crosstabs with a leading axis, a bounded number at a time: each is good until the next is asked for.

        They have a column for items that anybody is shown.
        """
        groups, items = like.counts.shape
        seen = np.zeros(items, dtype=bool)
        for audience, _ in self.parts:
            seen[audience.items] = True
        places = np.flatnonzero(seen)
        column = np.cumsum(seen, dtype=np.int32) - 1
        sums = [_Sums(audience, plan, column[audience.items], len(places), self.usual) for audience, plan in self.parts]
        at_once = max(1, MOST_CELLS // max(1, groups * len(places)))
        at_once = min(self.draws, at_once // EVEN * EVEN or at_once)
        held = np.zeros((groups, len(places), at_once))
        for start in range(0, self.draws, at_once):
            stop = min(start + at_once, self.draws)
            counts, marks = held[..., : stop - start], np.zeros((groups, stop - start, like.marks.shape[1]))
            odd: Any = 0.0
            for i, one in enumerate(sums):
                odd = odd + one.add(start, stop, counts, marks, more=i > 0)
            drawn = np.moveaxis(counts, -1, 0)  # draws lie side by side in memory, as the sums are made
            spread = drawn.sum(1)
            spread /= self.usual
            spread += odd
            yield Crosstab(
                drawn, spread, np.moveaxis(marks, 1, 0), like.pair, like.judged, like.cut, places=places, unshown=items - len(places)
            )  # fmt: skip


class _Sums:
    """Sums over the users of one audience under weights: sparse products of what was shown with a few draws at a time."""

    def __init__(self, audience: Audience, plan: Weights, columns: Codes, size: int, usual: float) -> None:
        self.audience, self.plan, self.columns, self.size = audience, plan, columns, size
        self._matrices: dict[bool, Any] = {}
        with np.errstate(divide="ignore"):
            share = 1 / audience.slots
        self.odd = np.flatnonzero((np.abs(share - 1 / usual) > 1e-12) & (audience.lengths > 0))
        self._off = (share - 1 / usual)[self.odd]
        self._odd_matrix: Any = None

    def add(self, start: int, stop: int, counts: Floats, marks: Floats, *, more: bool) -> Floats | float:
        """Fill in (or add, with `more`) times shown (G, J, D), add marks (G, D, M); what spread has beside times shown / usual."""
        odd: Floats | float = 0.0
        own, rows, width = self.audience.marks, self.plan.rows, self.audience.marks.shape[1]
        found: dict[int, Any] = {}
        everybody: tuple[Floats, Floats] | None = None
        for place, weights in self.plan.between(start, stop):
            if not isinstance(place, int):
                made = self._product(weights, place)
                for i, row in enumerate(rows):
                    members = np.flatnonzero(place == i)
                    found[i] = made[i * self.size : (i + 1) * self.size]
                    marks[row, :, :width] += weights[members].T.astype(np.float64) @ own[members]
                odd = self._spread_of_odd(weights)
            elif place == self.plan.rest:
                counted = weights[:, 0].astype(np.float64)
                everybody = self._product(weights)[:, :1].astype(np.float64), counted @ own
            else:
                found[place] = self._product(weights)
                marks[rows[place], :, :width] += weights.T.astype(np.float64) @ own
        for place, made in found.items():
            counts[rows[place]] = counts[rows[place]] + made if more else made
        if everybody is not None and self.plan.rest is not None:
            rest, others = rows[self.plan.rest], [rows[place] for place in found]
            counts[rest] = everybody[0]
            for row in others:
                counts[rest] -= counts[row]
            np.maximum(counts[rest], 0.0, out=counts[rest])  # parts of a slot do not add up to the last digit
            marks[rest, :, :width] = everybody[1] - marks[others, :, :width].sum(0)
        return odd

    def _product(self, weights: Times, place: Ints | None = None) -> npt.NDArray[Any]:
        """Times shown (J, D), or (places x J, D) where every user has a place."""
        from scipy.sparse import csc_array

        grouped = place is not None
        if grouped not in self._matrices:
            at, size = self.columns, self.size
            if place is not None:
                size *= len(self.plan.rows)
                at = self.audience.of_slots((place * self.size).astype(np.int32 if size < 1 << 31 else np.int64)) + at
            starts = np.concatenate([[0], np.cumsum(self.audience.lengths, dtype=at.dtype)]).astype(at.dtype)
            values = self.audience.values
            if values is None:  # whole numbers, in the smallest kind that holds every sum
                kind = np.min_scalar_type(int(np.bincount(at, minlength=1).max()) * self.plan.most)
                values = np.ones(len(at), dtype=kind)
            self._matrices[grouped] = csc_array((values, at, starts), shape=(size, len(starts) - 1))
        matrix = self._matrices[grouped]
        return matrix @ weights.astype(matrix.dtype)  # type: ignore[no-any-return]

    def _spread_of_odd(self, weights: Times) -> Floats | float:
        """(D, J): where users have another number of slots than most, an item's share of them is not times shown / `usual`."""
        from scipy.sparse import csc_array

        if not len(self.odd):
            return 0.0
        if self._odd_matrix is None:
            is_odd = np.zeros(len(self.audience.lengths), dtype=bool)
            is_odd[self.odd] = True
            theirs = self.audience.of_slots(is_odd)
            lengths = self.audience.lengths[self.odd]
            off = np.repeat(self._off, lengths)
            if self.audience.values is not None:
                off *= self.audience.values[theirs]
            starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            self._odd_matrix = csc_array((off, self.columns[theirs], starts), shape=(self.size, len(lengths)))
        return np.asarray(self._odd_matrix @ weights[self.odd].astype(np.float64)).T
