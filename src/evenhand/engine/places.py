"""Where ids stand in a table of ids: found by their hash, whatever they are, in a few reads for each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[Any]


@dataclass(frozen=True)
class Places:
    """A hash table over the rows of a table, made once and asked for one block of rows after the other.

    Attributes
    ----------
    ids : a Polars frame, no row twice, and a row of nothing behind the last.
    hashes : (n + 1,) of its rows; `seed` is one with which they differ.
    slots : which row stands there; n where none does. A row stands in the first free slot from that of its hash on.
    """

    ids: Any
    hashes: npt.NDArray[np.uint64]
    seed: int
    slots: Ints

    @classmethod
    def of(cls, ids: Any) -> Places:
        """Of a Polars frame, no row twice."""
        hashes, seed = _told_apart(ids)
        n, bits = ids.height, ids.height.bit_length() + 1  # a quarter to a half of the slots are taken
        slots = np.full(1 << bits, n, dtype=np.int32)  # Polars has no more rows
        left, at = np.arange(n, dtype=np.int32), _slot(hashes, bits)
        while len(left):
            free = slots[at] == n
            slots[at[free]] = left[free]  # of several, one stays
            out = slots[at] != left
            left, at = left[out], (at[out] + 1) & (len(slots) - 1)
        return cls(ids.clear(1) if not n else ids.vstack(ids.clear(1)), np.append(hashes, np.uint64(0)), seed, slots)

    def of_rows(self, rows: Any) -> Ints:
        """(rows,) where the ids of a frame with the same columns stand; n where they are not."""
        n = len(self.hashes) - 1
        hashes = _hashes(rows, self.seed)
        at = _slot(hashes, len(self.slots).bit_length() - 1)
        found = self.slots.take(at)
        other = np.flatnonzero((self.hashes.take(found) != hashes) & (found < n))
        while len(other):
            at[other] = (at[other] + 1) & (len(self.slots) - 1)
            found[other] = self.slots.take(at[other])
            other = other[(self.hashes.take(found[other]) != hashes[other]) & (found[other] < n)]
        for name in rows.columns:  # the same hash is not yet the same id
            same = self.ids[name].gather(found).eq(rows[name]).fill_null(value=False).to_numpy()
            found[~same] = n
        return found


def _told_apart(ids: Any) -> tuple[npt.NDArray[np.uint64], int]:
    """Hashes of distinct rows that differ as the rows do, and the seed that gave them."""
    for seed in count():
        hashes = _hashes(ids, seed)
        ordered = np.sort(hashes)
        if (ordered[1:] != ordered[:-1]).all():
            break
    return hashes, seed


def _hashes(rows: Any, seed: int) -> npt.NDArray[np.uint64]:
    columns = rows.get_columns()
    found = columns[0].hash(seed) if len(columns) == 1 else rows.hash_rows(seed)
    return np.asarray(found.to_numpy())


def _slot(hashes: npt.NDArray[np.uint64], bits: int) -> Ints:
    """The first bits of every hash."""
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)
