"""Rows of different length, end to end, and the index arithmetic that tallies share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def starts_of(lengths: Any) -> Ints:
    """(n + 1,) where each of n rows of these lengths begins, and where the last ends.

    >>> starts_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


def run_starts(*columns: npt.NDArray[Any]) -> Ints:
    """The first row of each run of rows that agree in all columns.

    >>> run_starts(np.array([0, 0, 1, 2, 2])).tolist()
    [0, 2, 3]
    """
    is_first = np.ones(len(columns[0]), dtype=bool)
    is_first[1:] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        is_first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_first)


def run_bounds(*columns: npt.NDArray[Any]) -> Ints:
    """The first row of each run, and the number of rows."""
    return np.append(run_starts(*columns), len(columns[0]))


def sorted_runs(*columns: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """The order of rows by these columns, and where in it each run of rows that agree begins."""
    order = np.lexsort(columns[::-1])
    return order, run_starts(*(column[order] for column in columns))


def segment_sums(values: npt.NDArray[Any], starts: Any) -> npt.NDArray[Any]:
    """(n,) sums between starts, in the widest type of their kind; zero where nothing is between."""
    wide = np.float64 if values.dtype.kind == "f" else np.int64
    sums = np.add.reduceat(np.append(values, values.dtype.type(0)), starts[:-1], dtype=wide)
    sums[np.diff(starts) == 0] = 0
    return np.asarray(sums)


def cells_of(starts: Ints, rows: Any) -> tuple[Ints, Ints]:
    """The cells of some rows, row after row, and where each row then starts.

    >>> at, starts = cells_of(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> at.tolist(), starts.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    lengths = (starts[1:] - starts[:-1])[rows]
    new_starts = starts_of(lengths)
    return np.arange(new_starts[-1]) + np.repeat(starts[:-1][rows] - new_starts[:-1], lengths), new_starts


def order_by(codes: npt.NDArray[Any], values: npt.NDArray[Any]) -> Ints:
    """The order of rows by code (none negative) and value; rows that agree in any order."""
    order = np.argsort(values)
    most = codes.max(initial=0)
    # Narrow integers are sorted in linear time.
    return order[np.argsort(codes[order].astype(np.min_scalar_type(most)), kind="stable")] if most else order


def sums_by(codes: npt.NDArray[Any], values: npt.NDArray[Any], size: int) -> Floats:
    """(size,) sums of values by the code of each."""
    return np.asarray(np.bincount(codes, values, size), dtype=np.float64)


def batches_of_rows(starts: Ints, most_cells: int) -> Iterator[tuple[int, int]]:
    """First and last (not included) of neighbouring rows of up to so many cells, or of one row."""
    first, rows = 0, len(starts) - 1
    while first < rows:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + most_cells, side="right")) - 1)
        yield first, last
        first = last


def similar_rows(lengths: Ints, most_cells: int) -> Iterator[Ints]:
    """Rows of similar length, shortest first, so many at a time as can be padded to up to so many cells."""
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    start = 0
    while start < len(order):
        stop = int(np.searchsorted(ordered, int(ordered[start] * 1.25) + 4, side="right"))
        stop = max(start + 1, min(stop, start + most_cells // max(1, int(ordered[stop - 1]))))
        yield order[start:stop]
        start = stop


def padded_cells(starts: Ints, rows: Ints) -> tuple[Ints, Bools]:
    """(rows, longest) the cells of some rows side by side, 0 past the end of a row, and which are inside."""
    lengths = starts[rows + 1] - starts[rows]
    offsets = np.arange(int(lengths.max(initial=0)))
    inside = offsets < lengths[:, None]
    return np.where(inside, starts[rows][:, None] + offsets, 0), inside


@dataclass(frozen=True)
class Ragged:
    """Rows of different length: row i holds cells `starts[i]` to `starts[i + 1]`.

    Within a row `items` rise strictly; a missing cell is not stored.
    """

    starts: Ints
    items: Ints
    values: Floats

    @classmethod
    def from_matrix(cls, matrix: Floats) -> Ragged:
        """The cells of a dense matrix; NaN and -inf mark missing ones.

        >>> Ragged.from_matrix(np.array([[0.5, np.nan], [np.nan, np.nan]])).starts.tolist()
        [0, 1, 1]
        """
        rows, columns = matrix.shape
        items = np.broadcast_to(np.arange(columns), matrix.shape).reshape(-1)
        return cls(np.arange(rows + 1) * columns, items, matrix.reshape(-1).astype(np.float64)).drop_missing()

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        items, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("items", "values"))
        return cls(starts_of(np.concatenate([part.lengths for part in parts])), items, values)

    def drop_missing(self) -> Ragged:
        missing = np.isnan(self.values) | (self.values == -np.inf)
        return self.where(~missing, self.values) if missing.any() else self

    def filled(self, top: int, items: int) -> Ragged:
        """Rows shorter than `top` with the last items that they lack at -inf, one more than fits.

        >>> Ragged.from_matrix(np.array([[0.5, np.nan, np.nan, 0.1, np.nan]])).filled(3, 5).items.tolist()
        [0, 2, 3, 4]
        """
        first = max(0, items - top - 1)  # a row lacks more of the items from here on than it has slots left
        rows, item_parts = [self.rows], [self.items]
        short, at_once = np.flatnonzero(self.lengths < min(top, items)), max(1, (1 << 22) // (items - first or 1))
        for chosen in (short[start : start + at_once] for start in range(0, len(short), at_once)):
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
        return Ragged(starts_of(np.bincount(row, minlength=len(self.lengths))), item[order], values[order])

    @property
    def is_binary(self) -> bool:
        return bool(((self.values == 1) | (self.values == 0)).all())

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    @cached_property
    def rows(self) -> Ints:
        return np.repeat(np.arange(len(self.starts) - 1), self.lengths)

    def sums(self, per_cell: Floats) -> Floats:
        """Sum of a quantity of the cells over each row."""
        return segment_sums(per_cell, self.starts)

    def where(self, keep: Bools, values: Floats) -> Ragged:
        """Only some of the cells, with other values."""
        starts, cells = np.append(0, np.cumsum(keep)).take(self.starts), np.flatnonzero(keep)
        return Ragged(starts, self.items.take(cells), values.take(cells))

    def lookup(self, other: Ragged, items: int) -> Ints:
        """For every cell, where the other has the same row and item, or -1."""
        if not len(other.items):
            return np.full(len(self.items), -1, dtype=np.int64)
        keys, other_keys = self.rows * items + self.items, other.rows * items + other.items
        at = np.minimum(np.searchsorted(other_keys, keys), len(other_keys) - 1)
        return np.where(other_keys[at] == keys, at, -1)
