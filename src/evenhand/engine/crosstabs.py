"""From scores to a crosstab of user groups by items, a block of users at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenhand.tallies.crosstab import MARKS, Crosstab, UserBlock, tabulate
from evenhand.tallies.shown import Cut, Ints, Ragged
from evenhand.tallies.userblocks import UserBlocks
from evenhand.views.scores import BLOCK_CELLS, Block, Scores, common_scale, scaled


@dataclass(frozen=True, slots=True)
class Reading:
    """How scores become "shown" and truth becomes "relevant".

    `normalize` brings both to [0, 1] first; `fill` shows missing items too, as if they scored lowest (holisticai does).
    """

    shown: Cut
    true: Cut
    normalize: bool = False
    fill: bool = False


@dataclass(frozen=True, slots=True)
class Tabulation:
    """The crosstab, the users in blocks where draws are wanted, and how many users had a tie at the last slot."""

    total: Crosstab
    blocks: UserBlocks | None
    tied: int
    slots: float


def user_blocks(view: Scores, reading: Reading) -> Iterator[tuple[int, UserBlock]]:
    """What every user is shown, in order; each block comes with the number of its first user."""
    offset, width = common_scale(view) if reading.normalize else (0.0, 1.0)
    for block in view.blocks():
        for part in _dense_parts(block, view.items) if reading.fill else [block]:
            scores, truth = part.scores, part.truth
            if reading.normalize:
                scores = scaled(scores, offset, width)
                truth = None if truth is None else scaled(truth, offset, width)
            yield part.first, tabulate(scores, truth, reading.shown, reading.true, view.items)


def tabulation(
    view: Scores, reading: Reading, codes: Ints, groups: int, assigned: Ints | None, starts: Ints, *, spread: bool
) -> Tabulation:
    """Add up what was shown to whom; `assigned` gives each user a block for resampling."""
    items, size = view.items, int(starts[-1])
    counts, shares, marks = np.zeros(groups * items), np.zeros(items), np.zeros((groups, len(MARKS)))
    block_counts = np.zeros(size * items, dtype=np.float32)
    block_shares = np.zeros(size * items if spread else 0, dtype=np.float32)
    block_marks = np.zeros((size, len(MARKS)))
    tied, judged = 0, False
    for first, part in user_blocks(view, reading):
        here = slice(first, first + len(part.marks))
        judged, tied = part.judged, tied + int(part.tied.sum())
        shown, rows, per_slot = part.shown, part.shown.rows, part.shares
        counts += np.bincount(codes[here][rows] * items + shown.items, shown.values, groups * items)
        shares += np.bincount(shown.items, per_slot, items)
        marks += _summed(codes[here], part.marks, groups)
        if assigned is not None:
            at = assigned[here][rows] * items + shown.items
            np.add.at(block_counts, at, shown.values.astype(np.float32))
            if spread:
                np.add.at(block_shares, at, per_slot.astype(np.float32))
            block_marks += _summed(assigned[here], part.marks, size)
    total = Crosstab(counts.reshape(groups, items), shares, marks, None, judged)
    blocks = None
    if assigned is not None:
        by_block = block_shares.reshape(size, items) if spread else None
        blocks = UserBlocks(block_counts.reshape(size, items), by_block, block_marks, starts)
    return Tabulation(total, blocks, tied, float(counts.sum()))


def _summed(codes: Ints, marks: np.typing.NDArray[np.float64], size: int) -> np.typing.NDArray[np.float64]:
    return np.stack([np.bincount(codes, column, size) for column in marks.T], axis=1)


def _dense_parts(block: Block, items: int) -> Iterator[Block]:
    """The block in runs of users, every item of the catalogue there: those without a score at minus infinity."""
    users, step = len(block.scores.starts) - 1, max(1, BLOCK_CELLS // max(1, items))
    for start in range(0, users, step):
        stop = min(start + step, users)
        yield Block(
            block.first + start,
            _filled(block.scores, start, stop, items),
            None if block.truth is None else _filled(block.truth, start, stop, items),
        )


def _filled(rows: Ragged, start: int, stop: int, items: int) -> Ragged:
    at = slice(int(rows.starts[start]), int(rows.starts[stop]))
    matrix = np.full((stop - start, items), -np.inf)
    matrix[rows.rows[at] - start, rows.items[at]] = rows.values[at]
    return Ragged.of(matrix, fill=-np.inf)
