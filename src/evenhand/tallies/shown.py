"""Which items a user is shown: the best `top` of their scores, or every score from `threshold` up.

Scores come as ragged rows, one per user, so that a dense matrix, a sparse one and a long table all meet here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError

Ints = npt.NDArray[np.int64]
Ties = Literal["first", "last", "fractional"]
TIES = ("first", "last", "fractional")

MOST_CELLS = 1 << 22
"""Cells of a padded batch of rows held at a time."""


@dataclass(frozen=True)
class Ragged:
    """Rows of different length, end to end: row i holds cells `starts[i]` to `starts[i + 1]`.

    Within a row `items` rise strictly; a cell that is missing is not there.
    """

    starts: Ints
    items: Ints
    values: Floats

    @classmethod
    def from_matrix(cls, matrix: Floats) -> Ragged:
        """The cells of a dense matrix that are there: NaN and -inf mark the missing ones.

        >>> Ragged.from_matrix(np.array([[0.5, np.nan], [np.nan, np.nan]])).starts.tolist()
        [0, 1, 1]
        """
        missing = np.isnan(matrix) | (matrix == -np.inf)
        if not missing.any():
            rows, columns = matrix.shape
            items = np.broadcast_to(np.arange(columns), matrix.shape).reshape(-1)
            return cls(np.arange(rows + 1, dtype=np.int64) * columns, items, matrix.reshape(-1).astype(np.float64))
        present = ~missing
        starts = np.concatenate([[0], np.cumsum(present.sum(1))]).astype(np.int64)
        return cls(starts, np.nonzero(present)[1].astype(np.int64), matrix[present].astype(np.float64))

    def there(self) -> Ragged:
        """Without the cells that are missing."""
        missing = np.isnan(self.values) | (self.values == -np.inf)
        return self.where(~missing, self.values) if missing.any() else self

    def filled(self, top: int, items: int) -> Ragged:
        """Rows shorter than `top` with the last items that they lack, at minus infinity: as many as that takes, and one that ties.

        >>> Ragged.from_matrix(np.array([[0.5, np.nan, np.nan, 0.1, np.nan]])).filled(3, 5).items.tolist()
        [0, 2, 3, 4]
        """
        first = max(0, items - top - 1)  # a row lacks more of those from here on than it has slots left
        rows, item_parts = [self.rows], [self.items]
        short, some = np.flatnonzero(self.lengths < min(top, items)), max(1, MOST_CELLS // (items - first or 1))
        for chosen in (short[start : start + some] for start in range(0, len(short), some)):
            lacks = np.ones((len(chosen), items - first), dtype=bool)
            at = (self.items >= first) & np.isin(self.rows, chosen)
            lacks[np.searchsorted(chosen, self.rows[at]), self.items[at] - first] = False
            slots = top - self.lengths[chosen] + 1
            lacks &= np.cumsum(lacks[:, ::-1], axis=1)[:, ::-1] <= slots[:, None]
            row, item = np.nonzero(lacks)
            rows.append(chosen[row])
            item_parts.append(item + first)
        row, item = np.concatenate(rows), np.concatenate(item_parts)
        order = np.lexsort((item, row))
        values = np.append(self.values, np.full(len(row) - len(self.values), -np.inf))
        lengths = np.bincount(row, minlength=len(self.lengths))
        return Ragged(np.append(0, np.cumsum(lengths)), item[order], values[order])

    @property
    def whole(self) -> bool:
        """Whether every value is 0 or 1."""
        return bool(((self.values == 1) | (self.values == 0)).all())

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """Rows after rows."""
        starts = np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))])
        items, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("items", "values"))
        return cls(starts, items, values)

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    @cached_property
    def rows(self) -> Ints:
        """The row of every cell."""
        return np.repeat(np.arange(len(self.starts) - 1), self.lengths)

    def sums(self, per_cell: Floats) -> Floats:
        """Sum of a quantity of the cells over each row."""
        row_sums = np.zeros(len(self.starts) - 1)
        filled = np.flatnonzero(self.lengths)
        if len(filled):
            row_sums[filled] = np.add.reduceat(per_cell, self.starts[filled])
        return row_sums

    def where(self, keep: npt.NDArray[np.bool_], values: Floats) -> Ragged:
        """Only some of the cells, with other values."""
        starts, cells = np.append(0, np.cumsum(keep)).take(self.starts), np.flatnonzero(keep)
        return Ragged(starts, self.items.take(cells), values.take(cells))

    def found_in(self, other: Ragged, items: int) -> Ints:
        """For every cell, where the other has the same row and item, or -1."""
        if not len(other.items):
            return np.full(len(self.items), -1, dtype=np.int64)
        if (
            len(self.items) == len(other.items)
            and np.array_equal(self.items, other.items)
            and np.array_equal(self.starts, other.starts)
        ):
            return np.arange(len(self.items))
        keys, other_keys = self.rows * items + self.items, other.rows * items + other.items
        at = np.minimum(np.searchsorted(other_keys, keys), len(other_keys) - 1)
        return np.where(other_keys[at] == keys, at, -1)


@dataclass(frozen=True, slots=True)
class Cut:
    """How scores become "shown": the `top` best, or all from `threshold` up; everything when neither is given."""

    top: int | None = None
    threshold: float | None = None
    ties: Ties = "first"

    @classmethod
    def checked(cls, top: Any, threshold: Any, ties: Any, *, prefix: str = "") -> Cut:
        """A cut from what the user typed; `prefix` is `"true_"` for the truth."""
        if ties not in TIES:
            raise EvenhandError(f"ties={ties!r} is unknown. Use 'first', 'last' or 'fractional'.")
        if top is not None and threshold is not None:
            raise EvenhandError(
                f"{prefix}top={top!r} and {prefix}threshold={threshold!r} are both given. Pass one of them."
            )
        if top is not None and (isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 1):
            raise EvenhandError(f"{prefix}top={top!r} is not a number of items. Pass a whole number of 1 or more.")
        if threshold is not None:
            number = isinstance(threshold, (int, float, np.integer, np.floating)) and not isinstance(threshold, bool)
            if not number or np.isnan(threshold):
                raise EvenhandError(
                    f"{prefix}threshold={threshold!r} is not a number. Pass the lowest score that is shown."
                )
        return cls(None if top is None else int(top), None if threshold is None else float(threshold), ties)

    @property
    def given(self) -> bool:
        return self.top is not None or self.threshold is not None

    def shown(self, scores: Ragged) -> tuple[Ragged, npt.NDArray[np.bool_]]:
        """How much of each item each user is shown (1, or less where tied items share slots), and which users had ties.

        >>> Cut(top=2, ties="fractional").shown(Ragged.from_matrix(np.array([[0.5, 0.5, 0.5, 0.1]])))[0].values.round(2).tolist()
        [0.67, 0.67, 0.67]
        """
        keep, tied = self._weights(scores, self.ties)
        return scores.where(keep > 0, keep.astype(np.float64)), tied

    def _weights(self, scores: Ragged, ties: Ties) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """How much of a slot every cell gets, and which rows had ties."""
        if self.top is None:
            threshold, single = self.reaching
            reached = (scores.values >= threshold) | (scores.values == single)
            return reached, np.zeros(len(scores.starts) - 1, dtype=bool)
        keep: npt.NDArray[Any] = np.ones(len(scores.values), dtype=np.float64 if ties == "fractional" else np.bool_)
        tied = np.zeros(len(scores.starts) - 1, dtype=bool)
        for rows, cells in _batches(scores, self.top):
            weight, tied[rows] = _best(cells.padded(scores.values), cells.inside, self.top, ties)
            cells.put(keep, weight)
        return keep, tied

    @property
    def reaching(self) -> tuple[float, float]:
        """The threshold, and the same in single precision: 0.7 kept so lies below 0.7, and reaches it all the same."""
        threshold = -np.inf if self.threshold is None else self.threshold
        with np.errstate(over="ignore"):
            return threshold, float(np.float32(threshold))


class _Cells(NamedTuple):
    """Rows of similar length side by side: where their cells are (rows, width), and which are inside of their row (None: all)."""

    at: Ints
    inside: npt.NDArray[np.bool_] | None

    def padded(self, values: Floats) -> Floats:
        """Values (rows, width); what is outside is below all."""
        block = values.take(self.at)
        if self.inside is not None:
            block[~self.inside] = -np.inf
        return block

    def put(self, into: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        if self.inside is None:
            into[self.at] = values
        else:
            into[self.at[self.inside]] = values[self.inside]


def _batches(scores: Ragged, top: int) -> Iterator[tuple[Ints, _Cells]]:
    """Rows longer than `top`, those of similar length together, and their cells."""
    lengths = scores.lengths
    order = np.flatnonzero(lengths > top)
    order = order[np.argsort(lengths[order], kind="stable")]
    start = 0
    while start < len(order):
        narrow = int(lengths[order[start]])
        stop = int(np.searchsorted(lengths[order], 2 * narrow, side="right"))
        stop = max(start + 1, min(stop, start + MOST_CELLS // (2 * narrow)))
        rows = order[start:stop]
        offsets, begin = np.arange(int(lengths[rows[-1]])), scores.starts[rows][:, None]
        if len(offsets) == narrow:
            yield rows, _Cells(begin + offsets, None)
        else:
            inside = offsets < lengths[rows][:, None]
            yield rows, _Cells(begin + np.where(inside, offsets, 0), inside)
        start = stop


def _best(
    x: Floats, inside: npt.NDArray[np.bool_] | None, top: int, ties: Ties
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Weights of the `top` best cells of each row, and whether a tie at the last slot had to be broken."""
    last = x.shape[1] - top
    lowest = np.partition(x, last, axis=1)[:, last, None]  # the last of the `top` best of each row
    over, on = x > lowest, x == lowest
    if inside is not None:
        on &= inside
    free, equal = top - np.count_nonzero(over, axis=1), np.count_nonzero(on, axis=1)
    tied = equal > free
    if ties == "fractional":
        return over + on * (free / equal)[:, None], tied
    some = np.flatnonzero(tied)
    if len(some):
        split = on[some] if ties == "first" else on[some, ::-1]
        split &= np.cumsum(split, axis=1) <= free[some, None]
        on[some] = split if ties == "first" else split[:, ::-1]
    return over | on, tied
