"""Users in random blocks: all that resampling users needs, however many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.shown import Ints


@dataclass(frozen=True, slots=True)
class UserBlocks:
    """Sums over blocks of users; a block holds users of one group only, and blocks of a group lie side by side.

    Attributes
    ----------
    counts : (N, J) times each item was shown to the users of a block, in float32: only draws are made of them.
    spread : (N, J) sum over users of the item's share of their slots, or None where no metric reads it.
    marks : (N, M) sums over the users of a block, by `MARKS`.
    starts : (G + 1,) where the blocks of each group begin.
    """

    counts: npt.NDArray[np.float32]
    spread: npt.NDArray[np.float32] | None
    marks: Floats
    starts: Ints

    @property
    def groups(self) -> int:
        return len(self.starts) - 1

    def of_group(self, row: int) -> slice:
        return slice(int(self.starts[row]), int(self.starts[row + 1]))

    def drawn(self, weights: Floats, like: Crosstab) -> Crosstab:
        """The tally of users taken `weights` (D, N) times: D replicates of `like`."""
        narrow = weights.astype(np.float32)
        draws, items = len(weights), self.counts.shape[1]
        counts = np.zeros((draws, self.groups, items))
        marks = np.zeros((draws, self.groups, self.marks.shape[1]))
        for row in range(self.groups):
            here = self.of_group(row)
            if here.stop > here.start:
                counts[:, row] = narrow[:, here] @ self.counts[here]
                marks[:, row] = weights[:, here] @ self.marks[here]
        spread = np.zeros((draws, items)) if self.spread is None else (narrow @ self.spread).astype(np.float64)
        return Crosstab(counts, spread, marks, like.pair, like.judged)

    def pooled(self, weights: Mapping[int, Floats]) -> tuple[Floats, Floats]:
        """Times shown (D, J) and marks (D, M) of users of several groups taken together, each group with its own weights."""
        counts, marks = 0.0, 0.0
        for row, of_blocks in weights.items():
            here = self.of_group(row)
            counts = counts + (of_blocks.astype(np.float32) @ self.counts[here]).astype(np.float64)
            marks = marks + of_blocks @ self.marks[here]
        return np.asarray(counts), np.asarray(marks)
