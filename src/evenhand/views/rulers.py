"""Parts of a range of scores, so many that few rows share one, and cheap to find: what long tables are counted by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats

PARTS = 1 << 11

TAIL = 5e-4
"""Share of the rows that suggest a range which may lie beyond it on either side, in the outermost parts."""

TIED = 8
"""Times that a score must come among these rows to be one that many rows have."""


@dataclass(frozen=True)
class Ruler:
    """Which part of a range a score lies in: never decreasing in the score, and scores beyond are in the outermost parts.

    Attributes
    ----------
    start : the low end. scale : parts per unit of the score, or None where parts grow with the distance from `start`: then
        `shift` and `first` say which bits of that number are the part.
    """

    start: float
    scale: float | None = None
    shift: int = 0
    first: int = 0

    @classmethod
    def of(cls, scores: Floats, *, whole: bool) -> Ruler:
        """Equal or growing parts, whichever leaves fewer of these rows together; a part for each number, if `whole` and few."""
        least = float(scores.min())
        low, high = np.quantile(scores, [TAIL, 1 - TAIL]).tolist()
        if whole and high - low < PARTS / 2 and abs(low) < 2**52:
            return cls(float(round((low + high - PARTS) / 2)), 1.0)
        with np.errstate(over="ignore", divide="ignore"):
            scale = float(np.float64(PARTS) / (np.float64(high) - low))
            near, far = np.maximum(np.array([low, high]) - least, 0.0).view(np.int64).tolist()
        shift = ((far - near) // PARTS).bit_length()
        rulers = [cls(low, scale if math.isfinite(scale) else 1.0), cls(least, None, shift, near >> shift)]
        return min(rulers, key=lambda one: float((np.bincount(one.part(scores)).astype(np.float64) ** 2).sum()))

    def part(self, scores: Floats) -> np.typing.NDArray[np.int32]:
        with np.errstate(over="ignore", invalid="ignore"):
            away = scores - self.start
            if self.scale is not None:
                away *= self.scale
                return np.clip(away, 0, PARTS - 1, out=away).astype(np.int32)
        bits = np.maximum(away, 0.0, out=away).view(np.int64)  # of numbers from zero on, in their order
        bits >>= self.shift
        bits -= self.first
        return np.clip(bits, 0, PARTS - 1, out=bits).astype(np.int32)

    def starts(self) -> Floats:
        """About where each part begins."""
        part = np.arange(PARTS)
        if self.scale is not None:
            return np.asarray(self.start + part / self.scale)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.start + ((part + self.first) << self.shift).view(np.float64)
        return np.where(np.isfinite(found), found, self.start)  # no number is so large

    def modes(self, scores: Floats) -> Floats:
        """Of each part the score that most of these rows have, if many do, else NaN."""
        values, many = np.unique(scores, return_counts=True)
        often = np.flatnonzero(many >= TIED)
        often = often[np.argsort(many[often], kind="stable")]  # the most frequent is written last
        found = np.full(PARTS, np.nan)
        found[self.part(values[often])] = values[often]
        return found
