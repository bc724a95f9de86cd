"""Where ids stand in a table of ids: found by their hash, whatever they are, in a few reads for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.views.tables import to_polars

Ints = npt.NDArray[Any]

AT_ONCE = 1 << 16
"""Rows looked up at a time: few enough for what is made of them to stay in the cache."""


@dataclass(frozen=True)
class Places:
    """A hash table over the rows of a table, made once and asked for one block of rows after the other.

    Attributes
    ----------
    ids : a Polars frame, no row twice, and a row of nothing behind the last.
    hashes : (n + 1,) of its rows; `seed` is one with which they differ.
    slots : which row stands there; n where none does. A row stands in the first free slot from that of its hash on.
    witnesses : (n + 1,) by column, what tells its ids from others of the same hash.
    """

    ids: Any
    hashes: npt.NDArray[np.uint64]
    seed: int
    slots: Ints
    witnesses: dict[str, Any] = field(default_factory=dict)

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
        found = self.of_known(rows)
        for name in rows.columns:  # the same hash is not yet the same id
            if name not in self.witnesses:
                self.witnesses[name] = _witness(self.ids[name], self.seed)
            same = self.witnesses[name].gather(found).eq(_witness(rows[name], self.seed)).fill_null(value=False)
            found[~same.to_numpy()] = len(self.hashes) - 1
        return found

    def of_known(self, rows: Any) -> Ints:
        """The same for rows of which all are known to be among the ids: hashes tell these apart."""
        found = [self._some(some) for some in rows.iter_slices(AT_ONCE)]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int32)

    def _some(self, rows: Any) -> Ints:
        n = len(self.hashes) - 1
        hashes = _hashes(rows, self.seed)
        at = _slot(hashes, len(self.slots).bit_length() - 1)
        found = self.slots.take(at)
        other = np.flatnonzero((self.hashes.take(found) != hashes) & (found < n))
        while len(other):
            at[other] = (at[other] + 1) & (len(self.slots) - 1)
            found[other] = self.slots.take(at[other])
            other = other[(self.hashes.take(found[other]) != hashes[other]) & (found[other] < n)]
        return found


def _witness(ids: Any, seed: int) -> Any:
    """The ids themselves; of text a second hash, so that ids that are taken for one another are alike in 128 bits."""
    import polars as pl

    if ids.dtype != pl.String:
        return ids
    hashes = ids.hash(~seed & 0xFFFFFFFF)
    return hashes.zip_with(ids.is_not_null(), hashes.clear(ids.len())) if ids.null_count() else hashes


def are_distinct(lazy: nw.LazyFrame[Any], keys: Sequence[str]) -> bool:
    """Whether no two rows of a Polars table are alike in the keys; in doubt it says no."""
    import polars as pl

    named = pl.col(keys[0]) if len(keys) == 1 else pl.struct(*keys)
    whole = len(keys) == 1 and lazy.collect_schema()[keys[0]].is_integer()
    asked = named.cast(pl.Int64, strict=False) if whole else named.hash()
    found = to_polars(nw.from_native(lazy.to_native().select(asked.alias("key"))))["key"]
    return not found.null_count() and _differ(found.to_numpy())


def _told_apart(ids: Any) -> tuple[npt.NDArray[np.uint64], int]:
    """Hashes of distinct rows that differ as the rows do, and the seed that gave them."""
    for seed in count():
        hashes = _hashes(ids, seed)
        if _differ(hashes):
            break
    return hashes, seed


def _differ(numbers: npt.NDArray[Any]) -> bool:
    import polars as pl

    if (numbers[1:] > numbers[:-1]).all():
        return True
    ordered = pl.Series(numbers).sort().to_numpy()
    return bool((ordered[1:] != ordered[:-1]).all())


def _hashes(rows: Any, seed: int) -> npt.NDArray[np.uint64]:
    columns = rows.get_columns()
    found = columns[0].hash(seed) if len(columns) == 1 else rows.hash_rows(seed)
    return np.asarray(found.to_numpy())


def _slot(hashes: npt.NDArray[np.uint64], bits: int) -> Ints:
    """The first bits of every hash."""
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)
