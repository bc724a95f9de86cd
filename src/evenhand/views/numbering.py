"""Ids as numbers, in the order in which they first come: text is read once and compared by its hash."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]

ODD = np.uint64(0x9E3779B97F4A7C15)
"""Spreads whole numbers over the slots."""


class Numbering:
    """The numbers of the ids of a column, given out while rows come, one frame after the other.

    Whole numbers are compared as they are, other ids by 128 bits of their hash: of a billion ids, two are taken for one with a
    chance of 1e-21. An id has the first free slot from that of its hash on; `_slots` holds its number + 1, 0 where none is. Whole
    numbers that lie close together have a slot each, counted from `_base`, and the last slot is free.
    """

    def __init__(self) -> None:
        self._ids: list[Any] = []
        self.size = 0
        self._keys: list[Words] = []
        self._slots = np.zeros(1 << 10, dtype=np.int32)
        self._base: Any = None

    @property
    def ids(self) -> Any:
        """A Polars series of all ids, in the order of their numbers."""
        import polars as pl

        return pl.concat(self._ids)

    def of(self, ids: Any) -> Codes:
        """(rows,) the numbers of a series without nulls; ids that are new get the next ones, categories as the text they stand for."""
        import polars as pl

        if ids.dtype in (pl.Categorical, pl.Enum):
            return self._of_categories(ids)
        if not self._ids:
            self._ids.append(ids.head(0))
        keys = _keys(ids)
        self._keys = self._keys or [np.zeros(1, dtype=np.uint64) for _ in keys]
        numbers, unknown = self._found(keys)
        if len(unknown):
            new = ids.gather(unknown).unique(maintain_order=True)
            self._add(new)
            numbers[unknown] = self._found([key[unknown] for key in keys])[0]
        return numbers

    def _of_categories(self, ids: Any) -> Codes:
        """Each category of these rows is put into words once."""
        import polars as pl

        codes = ids.to_physical().to_numpy()
        held = np.full(int(codes.max(initial=0)) + 1, -1, dtype=np.int32)
        held[codes[::-1]] = np.arange(len(codes) - 1, -1, -1, dtype=np.int32)  # of several rows, the first stays
        first = np.sort(held[held >= 0])
        held[codes.take(first)] = self.of(ids.gather(first).cast(pl.String))
        return np.asarray(held.take(codes))

    def _found(self, keys: list[Words]) -> tuple[Codes, npt.NDArray[np.int64]]:
        """The numbers of keys, and which of them have none."""
        if self._base is not None:
            numbers = self._slots.take(self._direct(keys[0])) - np.int32(1)
            return numbers, np.flatnonzero(numbers < 0)
        at = _slot(keys[0], self._slots)
        held = self._slots.take(at)
        left, unknown = np.flatnonzero(~self._same(held, keys)), []
        while len(left):
            free = held[left] == 0
            unknown.append(left[free])
            left = left[~free]
            at[left] = (at[left] + 1) & (len(self._slots) - 1)
            held[left] = self._slots.take(at[left])
            left = left[~self._same(held[left], [key[left] for key in keys])]
        held -= 1
        return held, np.sort(np.concatenate(unknown)) if unknown else np.zeros(0, dtype=np.int64)

    def _same(self, held: Codes, keys: list[Words]) -> npt.NDArray[np.bool_]:
        same = held > 0
        for known, key in zip(self._keys, keys, strict=True):
            same &= known.take(held) == key
        return same

    def _add(self, new: Any) -> None:
        """Ids that have no number yet, none twice."""
        self._ids.append(_apart(new))
        first, self.size = self.size, self.size + len(new)
        self._keys = [np.concatenate([held, key]) for held, key in zip(self._keys, _keys(new), strict=True)]
        left = np.arange(first + 1, self.size + 1, dtype=np.int32)
        outside = self._base is not None and bool(
            (self._direct(self._keys[0].take(left)) == len(self._slots) - 1).any()
        )
        if outside or 4 * self.size > len(self._slots):
            left, self._slots = np.arange(1, self.size + 1, dtype=np.int32), np.zeros(self._many, dtype=np.int32)
            self._base = _before(self._keys, len(self._slots))
        if self._base is not None:
            self._slots[self._direct(self._keys[0].take(left))] = left
            return
        at = _slot(self._keys[0].take(left), self._slots)
        while len(left):
            free = self._slots[at] == 0
            self._slots[at[free]] = left[free]  # of several, one stays
            out = self._slots[at] != left
            left, at = left[out], (at[out] + 1) & (len(self._slots) - 1)

    @property
    def _many(self) -> int:
        """Slots for as many ids as there are, and some more."""
        return max(len(self._slots), 1 << (8 * self.size).bit_length())

    def _direct(self, keys: Words) -> npt.NDArray[np.int64]:
        """The slots of whole numbers; the last one for those that have none."""
        return np.asarray(np.minimum(keys - self._base, np.uint64(len(self._slots) - 1)).view(np.int64))


def _before(keys: list[Words], slots: int) -> np.uint64 | None:
    """Where slots begin that hold all ids, those of them in the middle: None where these are no whole numbers or lie too far apart."""
    if len(keys) > 1:
        return None
    whole = keys[0][1:].view(np.int64)
    low, high = int(whole.min()), int(whole.max())
    room = slots - 2 - (high - low)
    return np.uint64((low - room // 2) % (1 << 64)) if room >= 0 else None


def _apart(ids: Any) -> Any:
    """The same ids in memory of their own: text points into that of the rows it came from, and would hold all of it."""
    import polars as pl

    return ids + "" if ids.dtype == pl.String else ids


def _keys(ids: Any) -> list[Words]:
    """What tells ids apart, in words of 64 bits."""
    import polars as pl

    if ids.dtype == pl.Int64:
        return [ids.to_numpy().view(np.uint64)]
    return [np.asarray(ids.hash(seed).to_numpy()) for seed in (0, 1)]


def _slot(key: Words, slots: Codes) -> npt.NDArray[np.int64]:
    bits = len(slots).bit_length() - 1
    return ((key * ODD) >> np.uint64(64 - bits)).view(np.int64)
