"""Where ids stand in a table of ids: found by their hash, whatever they are, in a few reads for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.views.tables import to_polars

Ints = npt.NDArray[np.int64]

AT_ONCE = 1 << 16
"""Rows looked up at a time: few enough for what is made of them to stay in the cache."""


@dataclass(frozen=True)
class Places:
    """A hash table over the rows of a table, made once and asked for one block of rows after the other.

    Attributes
    ----------
    size : rows of the table, n; what is not there has place n.
    seed : of a hash with which all rows are found.
    words : (2^b,) in the last bits the row that stands there, before them the end of its hash; n where none does. A row stands
        in the first free slot from that of the first b bits of its hash on.
    witnesses : columns (n + 1,) that tell ids from others of the same hash.
    """

    size: int
    seed: int
    words: npt.NDArray[np.uint64]
    witnesses: list[npt.NDArray[Any]]

    @classmethod
    def of(cls, ids: Any) -> Places:
        """Of a Polars frame, no row twice."""
        rows = np.arange(ids.height, dtype=np.uint64)
        for seed in count():
            held = [np.append(w, w.dtype.type(0)) for w in _witnesses(ids, seed)]
            made = cls(ids.height, seed, _table(_hashes(ids, seed)), held)
            if (made.of_known(ids) == rows).all():
                break
        return made

    def of_rows(self, rows: Any) -> Ints:
        """(rows,) where the ids of a frame with the same columns stand; n where they are not."""
        found = self.of_known(rows)
        for theirs, ours in zip(self.witnesses, _witnesses(rows, self.seed), strict=True):
            found[theirs.take(found) != ours] = self.size  # the same hash is not yet the same id
        for column in rows.get_columns():
            if column.null_count():
                found[column.is_null().to_numpy()] = self.size
        return found

    def of_known(self, rows: Any) -> Ints:
        """The same for rows of which all are known to be among the ids: hashes tell these apart."""
        found = [self._some(_hashes(some, self.seed)) for some in rows.iter_slices(AT_ONCE)]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _some(self, hashes: npt.NDArray[np.uint64]) -> Ints:
        at, ours, rest = _slot(hashes, self.words), hashes << _bits(self.size), _last(self.size)
        found = self.words.take(at)
        other = np.flatnonzero(found ^ ours > rest)
        while len(other):
            other = other[found[other] != self.size]
            at[other] = (at[other] + 1) & (len(self.words) - 1)
            found[other] = self.words.take(at[other])
            other = other[found[other] ^ ours[other] > rest]
        return (found & rest).view(np.int64)


def _table(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The words of rows with these hashes; a quarter to a half of the slots are taken."""
    n = len(hashes)
    words = np.full(2 << n.bit_length(), n, dtype=np.uint64)
    left, at = hashes << _bits(n) | np.arange(n, dtype=np.uint64), _slot(hashes, words)
    while len(left):
        free = words[at] == n
        words[at[free]] = left[free]  # of several, one stays
        out = words[at] != left
        left, at = left[out], (at[out] + 1) & (len(words) - 1)
    return words


def _bits(n: int) -> np.uint64:
    return np.uint64(n.bit_length())


def _last(n: int) -> np.uint64:
    """The bits that a place from 0 to n takes."""
    return np.uint64((1 << n.bit_length()) - 1)


def _witnesses(ids: Any, seed: int) -> list[npt.NDArray[Any]]:
    """Whole numbers as they are; of other columns a second hash, so that ids that are taken for one another are alike in 128 bits."""
    return [
        (c.fill_null(0) if c.dtype.is_integer() else c.hash(~seed & 0xFFFFFFFF)).to_numpy() for c in ids.get_columns()
    ]


def are_distinct(lazy: nw.LazyFrame[Any], keys: Sequence[str]) -> bool:
    """Whether no two rows of a Polars table are alike in the keys; in doubt it says no."""
    import polars as pl

    named = pl.col(keys[0]) if len(keys) == 1 else pl.struct(*keys)
    whole = len(keys) == 1 and lazy.collect_schema()[keys[0]].is_integer()
    asked = named.cast(pl.Int64, strict=False) if whole else named.hash()
    found = to_polars(nw.from_native(lazy.to_native().select(asked.alias("key"))))["key"]
    return not found.null_count() and _differ(found.to_numpy())


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


def _slot(hashes: npt.NDArray[np.uint64], words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The first bits of every hash, by which a slot is chosen."""
    return (hashes >> np.uint64(65 - len(words).bit_length())).view(np.int64)
