"""Many crosstabs at once: the same users counted again, with other weights or under other labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.shown import Ints
from evenhand.tallies.user_lists import UserLists

MOST_CELLS = 1 << 21
"""Cells (draws x groups x items) that a crosstab has at most, beyond one draw."""

FEWEST_DRAWS = 16
"""Draws made at a time where twice the cells allow it: products with fewer columns are slow."""

MOST_WEIGHTS = 1 << 23
"""Weights (users x draws) that are held at a time, beyond `FEWEST_DRAWS` draws."""

EXACT_SUM = 1 << 24
"""Whole sums up to here are exact in single precision, which is half the memory to move."""

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

        Asked for the same draws, it gives the same weights.
        """
        ...


@dataclass(frozen=True, slots=True)
class ResampledLists:
    """D crosstabs of one set of lists under weights, or of several whose weights add up."""

    parts: tuple[tuple[UserLists, Weights], ...]

    @property
    def draws(self) -> int:
        return self.parts[0][1].draws

    def with_other(self, other: ResampledLists) -> ResampledLists:
        """Both lists together: the same users in the same rows, each counted by one of the two."""
        return ResampledLists(self.parts + other.parts)

    def crosstabs(self, total: Crosstab) -> Iterator[Crosstab]:
        """The replicates of a crosstab, on a leading axis, a bounded number at a time.

        They have a column for items that anybody is shown.
        """
        groups, items = total.counts.shape
        is_shown = np.zeros(items, dtype=bool)
        for lists, _ in self.parts:
            is_shown[lists.items] = True
        places = np.flatnonzero(is_shown)
        sums = [_Sums(lists, weights, np.cumsum(is_shown) - 1, len(places)) for lists, weights in self.parts]
        rows = self.parts[0][1].rows
        users = float(total.mark("users")[rows].sum())
        cells = max(1, len(rows) * len(places))
        at_once = max(1, MOST_CELLS // cells, min(FEWEST_DRAWS, 2 * MOST_CELLS // cells))
        at_once = min(at_once, max(FEWEST_DRAWS, MOST_WEIGHTS // max(1, len(self.parts[0][0]))))
        for start in range(0, self.draws, at_once):
            stop = min(start + at_once, self.draws)
            counts, spread = np.zeros((groups, len(places), stop - start)), np.zeros((len(places), stop - start))
            marks = np.zeros((groups, stop - start, total.marks.shape[1]))
            for each in sums:
                each.add(start, stop, counts, spread, marks)
            drawn = marks[rows, :, 0].sum(0)
            yield Crosstab(
                np.moveaxis(counts, -1, 0), spread.T, np.moveaxis(marks, 1, 0), total.pair, total.judged, total.cut,
                places=places, unshown=items - len(places),
                for_each=np.divide(users, drawn, out=np.ones_like(drawn), where=drawn > 0),
            )  # fmt: skip


class _Sums:
    """Sums over users under weights: sparse products of what they were shown with a few draws at a time."""

    def __init__(self, lists: UserLists, weights: Weights, columns: npt.NDArray[Any], size: int) -> None:
        self._lists, self._weights, self._size = lists, weights, size
        self._columns = columns[lists.items].astype(np.int32)
        slots = lists.slots
        lengths = np.unique(slots[slots > 0])
        self._slots_each = float(lengths[0]) if len(lengths) == 1 else None
        values = lists.values
        if values is None and len(lists) * weights.most < EXACT_SUM:
            values = np.ones(len(lists.items), dtype=np.float32)
        self._values = np.ones(len(lists.items)) if values is None else values
        self._matrices: dict[str, Any] = {}

    def add(self, start: int, stop: int, counts: Floats, spread: Floats, marks: Floats) -> None:
        """Add to times shown (G, J, D), shares of users' slots (J, D) and marks (G, D, M) what some draws give."""
        rows, rest, width = self._weights.rows, self._weights.rest, self._lists.marks.shape[1]
        whole: Any = None
        for place, weights in self._weights.between(start, stop):
            if isinstance(place, int):
                shown, marked = self._product("all", weights), self._marked(weights, slice(None))
                if place == rest:
                    whole = shown, marked
                    spread += self._shares(weights, shown)
                else:
                    counts[rows[place]] += shown
                    marks[rows[place], :, :width] += marked
                continue
            shown = self._product("placed", weights, place).reshape(len(rows), self._size, stop - start)
            counts[rows] += shown
            spread += self._shares(weights, shown.sum(0))
            for i, row in enumerate(rows):
                marks[row, :, :width] += self._marked(weights, np.flatnonzero(place == i))
        if whole is not None and rest is not None:
            left = np.repeat(whole[0], stop - start, axis=1)
            others = np.delete(rows, rest)
            for row in others:
                left -= counts[row]
            counts[rows[rest]] = np.maximum(left, 0.0)  # parts of a slot do not add up to the last digit
            marks[rows[rest], :, :width] = whole[1] - marks[others, :, :width].sum(0)

    def _product(self, name: str, weights: Times, place: Ints | None = None) -> Floats:
        """Times shown (J, D), or (places x J, D) where every user has a place."""
        if name not in self._matrices:
            at, size = self._columns, self._size
            if place is not None:
                size *= len(self._weights.rows)
                first = (place * self._size).astype(np.int32 if size < 1 << 31 else np.int64)
                at = np.repeat(first, self._lists.lengths) + at
            self._matrices[name] = self._matrix(self._values, at, size)
        matrix = self._matrices[name]
        return np.asarray(matrix @ weights.astype(matrix.dtype), dtype=np.float64)

    def _shares(self, weights: Times, shown: Floats) -> Floats:
        """(J, D) sum over users of the share of their slots that went to the item, given how often it was shown."""
        if self._slots_each is not None:
            return shown / self._slots_each
        if "shares" not in self._matrices:
            with np.errstate(divide="ignore"):
                shares = np.repeat(1 / self._lists.slots, self._lists.lengths) * self._values
            self._matrices["shares"] = self._matrix(shares, self._columns, self._size)
        return np.asarray(self._matrices["shares"] @ weights.astype(np.float64))

    def _marked(self, weights: Times, users: Any) -> Floats:
        """(D, M) sums of the marks of some users."""
        return np.asarray(weights[users].T.astype(np.float64) @ self._lists.marks[users])

    def _matrix(self, values: npt.NDArray[Any], at: npt.NDArray[Any], size: int) -> Any:
        """What was shown (size, users)."""
        from scipy.sparse import csc_array

        starts = self._lists.starts.astype(at.dtype if len(at) < np.iinfo(at.dtype).max else np.int64)
        return csc_array((values, at, starts), shape=(size, len(self._lists)))
