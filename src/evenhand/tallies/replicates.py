"""Many crosstabs at once: the same users counted again and again, with other weights or under other labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.tallies.audience import Audience, Codes
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.shown import Ints

MOST_CELLS = 1 << 22
"""Cells (draws x groups x items) turned into a crosstab at a time."""

EVEN = 8
"""Draws at a time are a multiple of this where they are more: products with short rows of whole words are faster."""

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
        rows = self.parts[0][1].rows
        at_once = max(1, MOST_CELLS // max(1, len(rows) * len(places)))
        at_once = min(self.draws, at_once // EVEN * EVEN or at_once)
        held = np.zeros((groups, len(places), at_once))
        for start in range(0, self.draws, at_once):
            stop = min(start + at_once, self.draws)
            counts, marks = held[..., : stop - start], np.zeros((groups, stop - start, like.marks.shape[1]))
            odd: Any = None
            for i, one in enumerate(sums):
                odd = one.add(start, stop, counts, marks, odd, more=i > 0)
            shown = np.zeros(counts.shape[1:]) if not len(rows) else counts[rows[0]].copy()
            for row in rows[1:]:
                shown += counts[row]
            spread = shown.T / self.usual
            made = Crosstab(
                np.moveaxis(counts, -1, 0),  # draws lie side by side in memory, as the sums are made
                spread if odd is None else spread + odd, np.moveaxis(marks, 1, 0), like.pair, like.judged, like.cut,
                places=places, unshown=items - len(places),
            )  # fmt: skip
            if like.cut:
                vars(made)["popularity"] = shown.T  # as it would find it
            yield made


class _Sums:
    """Sums over the users of one audience under weights: sparse products of what was shown with a few draws at a time."""

    def __init__(self, audience: Audience, plan: Weights, columns: Codes, size: int, usual: float) -> None:
        self.audience, self.plan, self.columns, self.size = audience, plan, columns, size
        with np.errstate(divide="ignore"):
            off = 1 / audience.slots - 1 / usual
        self.odd = np.flatnonzero((np.abs(off) > 1e-12) & (audience.lengths > 0))
        self._off = off[self.odd]
        self._matrices: dict[str, Any] = {}
        self._members: list[tuple[Ints, Floats]] = []
        self._all: tuple[Floats, Floats] | None = None

    def add(
        self, start: int, stop: int, counts: Floats, marks: Floats, odd: Floats | None, *, more: bool
    ) -> Floats | None:
        """Fill in times shown (G, J, D), or add `more`, and add to marks (G, D, M); gives what spread has beside times shown / usual."""
        own, rows, width = self.audience.marks, self.plan.rows, self.audience.marks.shape[1]
        for place, weights in self.plan.between(start, stop):
            if not isinstance(place, int):
                few = np.ascontiguousarray(weights)
                made = self._product(few, place).reshape(len(rows), self.size, few.shape[1])
                self._members = self._members or [
                    (some, own[some]) for some in (np.flatnonzero(place == i) for i in range(len(rows)))
                ]
                for row, shown, (members, theirs) in zip(rows, made, self._members, strict=True):
                    counts[row] = counts[row] + shown if more else shown
                    marks[row, :, :width] += few[members].T.astype(np.float64) @ theirs
                odd = self._with_odd(few, odd)
            elif place != self.plan.rest:
                shown = self._product(weights)
                counts[rows[place]] = counts[rows[place]] + shown if more else shown
                marks[rows[place], :, :width] += weights.T.astype(np.float64) @ own
            elif self._all is None:
                self._all = self._product(weights).astype(np.float64), weights.T.astype(np.float64) @ own
        if self._all is not None and self.plan.rest is not None:
            rest, others = rows[self.plan.rest], np.delete(rows, self.plan.rest)
            counts[rest] = self._all[0]
            for row in others:
                counts[rest] -= counts[row]
            np.maximum(counts[rest], 0.0, out=counts[rest])  # parts of a slot do not add up to the last digit
            marks[rest, :, :width] = self._all[1] - marks[others, :, :width].sum(0)
        return odd

    def _matrix(self, values: npt.NDArray[Any], columns: npt.NDArray[Any], lengths: Codes, size: int) -> Any:
        """What was shown (size, users)."""
        from scipy.sparse import csc_array

        starts = np.concatenate([[0], np.cumsum(lengths, dtype=columns.dtype)]).astype(columns.dtype)
        return csc_array((values, columns, starts), shape=(size, len(lengths)))

    def _product(self, weights: Times, place: Ints | None = None) -> npt.NDArray[Any]:
        """Times shown (J, D), or (places x J, D) where every user has a place."""
        name = "all" if place is None else "placed"
        if name not in self._matrices:
            at, size, values = self.columns, self.size, self.audience.values
            if place is not None:
                size *= len(self.plan.rows)
                at = self.audience.of_slots((place * self.size).astype(np.int32 if size < 1 << 31 else np.int64)) + at
            if values is None:  # whole numbers, in the smallest kind that holds every sum
                most = int(np.bincount(at, minlength=1).max()) * self.plan.most
                values = np.ones(len(at), dtype=np.min_scalar_type(most))
            self._matrices[name] = self._matrix(values, at, self.audience.lengths, size)
        matrix = self._matrices[name]
        return matrix @ weights.astype(matrix.dtype)  # type: ignore[no-any-return]

    def _with_odd(self, weights: Times, odd: Floats | None) -> Floats | None:
        """(D, J): where users have another number of slots than most, an item's share of them is not times shown / `usual`."""
        if not len(self.odd):
            return odd
        if "odd" not in self._matrices:
            is_odd = np.zeros(len(self.audience.lengths), dtype=bool)
            is_odd[self.odd] = True
            theirs, lengths = self.audience.of_slots(is_odd), self.audience.lengths[self.odd]
            off = np.repeat(self._off, lengths)
            if self.audience.values is not None:
                off *= self.audience.values[theirs]
            self._matrices["odd"] = self._matrix(off, self.columns[theirs], lengths, self.size)
        found = np.asarray(self._matrices["odd"] @ weights[self.odd].astype(np.float64)).T
        return found if odd is None else odd + found
