"""Rankings by composition: each composition needs one exact normaliser or chance level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.cards import Floats
from evenhand.distances import total
from evenhand.tallies.ragged import Bools, Ints, starts_of

if TYPE_CHECKING:
    from evenhand.tallies.placement import Placement


@dataclass(frozen=True)
class Mix:
    """Distinct compositions: what stays when the labelled items of a ranking are permuted.

    Attributes
    ----------
    first : (U,) a ranking of each composition.
    is_labelled : (U, W) which ranks hold a labelled item.
    lengths : (U,) ranks, unknown ones included.
    at, which : (m,) the rankings, and the composition of each.
    """

    first: Ints
    is_labelled: Bools
    lengths: Ints
    at: Ints
    which: Ints

    def weights(self, discount: Floats) -> Floats:
        """(U, K) weight of the first k labelled items: discounts of ranks with k seen so far.

        Unknown items keep their ranks, so the prefix metric of a ranking with gaps is that of the list without them
        under these weights.
        """
        compositions, width = self.is_labelled.shape
        inside = np.arange(width) < self.lengths[:, None]
        if np.array_equal(inside, self.is_labelled):
            return np.asarray(inside * discount)
        seen = counts_down(self.is_labelled)
        cells = seen + np.arange(compositions)[:, None] * (width + 1)
        sums = np.bincount(cells.ravel(), (inside * discount).ravel(), minlength=compositions * (width + 1))
        return np.asarray(sums.reshape(compositions, width + 1)[:, 1:])


@dataclass(frozen=True)
class Kinds:
    """Kinds of lists, each "so many items of a group among so many".

    Attributes
    ----------
    which : (R, G) the kind of each ranking for each group looked at.
    counts, sizes : (Q,) items of the group and labelled items in all.
    groups : (Q,) the group, where lists of other groups are of other kinds; else 0.
    """

    which: Ints
    counts: Floats
    sizes: Floats
    groups: Ints

    @classmethod
    def from_placement(cls, p: Placement, group_counts: Floats, *, by_group: bool = False) -> Kinds:
        """From (R, G) items of each group; `by_group` keeps groups of the same size separate."""
        examples, makeup = (np.arange(len(p)),) * 2 if p.rows is not None else p.makeups
        list_sizes, group_counts = total(p.counts[examples]), group_counts[examples]
        group = np.arange(group_counts.shape[1]) if by_group else 0
        rows = np.stack([x.ravel() for x in np.broadcast_arrays(list_sizes[:, None], group_counts, group)], axis=1)
        first, which = (np.arange(len(rows)),) * 2 if p.rows is not None else distinct_rows(rows)
        sizes, counts, groups = rows[first].T
        return cls(which.reshape(group_counts.shape).take(makeup, axis=0), counts, sizes, groups.astype(np.int64))


def distinct_rows(rows: Floats) -> tuple[Ints, Ints]:
    """First index of each distinct row, in ascending order of rows, and the code of every row."""
    if not rows.shape[1] or not len(rows):
        return np.zeros(min(1, len(rows)), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    low = rows.min(0)
    spans = rows.max(0) - low + 1
    if (
        float(np.prod(spans)) < 2**53 and (rows == np.floor(rows)).all()
    ):  # one exact number says it all, and sorts faster
        keys = (rows - low) @ np.append(np.cumprod(spans[:0:-1])[::-1], 1.0)
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def grouped(which: Ints, many: int) -> tuple[Ints, Ints]:
    """Indices sorted by code, and (many + 1,) where those of each code begin."""
    short = which.astype(np.uint16) if many <= 1 << 16 else which  # short numbers are sorted by their digits
    return np.argsort(short, kind="stable"), starts_of(np.bincount(which, minlength=many))


def counts_down(mask: Bools) -> Ints:
    """How many are true down to each column."""
    return np.cumsum(mask.astype(np.int64), axis=1)  # numpy takes six times as long to add truth values up row by row
