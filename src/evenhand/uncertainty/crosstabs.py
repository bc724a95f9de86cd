"""Bootstrap over users and permuted user labels, on blocks of users: a draw is a matrix product, never a rerun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.cards import Ask, Floats
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.shown import Ints
from evenhand.tallies.userblocks import UserBlocks
from evenhand.uncertainty.intervals import Interval, normal_ends, percentile_ends, stream

MOST_CELLS = 1 << 22
"""Cells (draws x groups x items) held at a time."""

BLOCK_CELLS = 1 << 25
ROOM = (64, 2048)
"""Blocks of users: as many as `BLOCK_CELLS` allow, within these ends. Fewer users than that are each a block of their own."""

FEWEST = 32
"""Blocks that even a small group gets, if it has as many users."""

NORMAL_DRAWS = 199


@dataclass(frozen=True, slots=True)
class Question:
    """A metric, and the groups it compares (None where it looks at all users together)."""

    ask: Ask
    pair: tuple[int, int] | None

    def on(self, tally: Crosstab) -> Floats:
        return self.ask.on(tally if self.pair is None else tally.between(*self.pair))


def assigned(codes: Ints, names: Sequence[str], items: int, seed: int) -> tuple[Ints, Ints]:
    """A block for every user, at random within their group, and where the blocks of each group begin.

    Users are drawn within their group, so that no draw lacks a group; sums of random blocks have the variance of single users.
    """
    sizes = np.bincount(codes, minlength=len(names))
    room = int(np.clip(BLOCK_CELLS // max(1, items), *ROOM))
    blocks = np.minimum(sizes, np.maximum(np.ceil(room * sizes / max(1, sizes.sum())), FEWEST)).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(blocks)]).astype(np.int64)
    found = np.zeros(len(codes), dtype=np.int64)
    for row, name in enumerate(names):
        members = np.flatnonzero(codes == row)
        if blocks[row] < len(members):
            members = stream(seed, "blocks", name).permutation(members)
        found[members] = starts[row] + np.arange(len(members)) % max(1, blocks[row])
    return found, starts


def bootstrap(blocks: UserBlocks, names: Sequence[str], draws: int, seed: int, items: int) -> Iterator[Floats]:
    """Weights of the blocks in each draw (D, N), a bounded number of draws at a time."""
    streams = [stream(seed, "users", name) for name in names]
    sizes = np.diff(blocks.starts)
    for count in _chunks(draws, blocks.groups * max(1, items)):
        weights = np.zeros((count, int(blocks.starts[-1])))
        for row, rng in enumerate(streams):
            if sizes[row]:
                weights[:, blocks.of_group(row)] = rng.multinomial(sizes[row], np.full(sizes[row], 1 / sizes[row]), count)
        yield weights


def _chunks(draws: int, cells: int) -> Iterator[int]:
    at_once = max(1, MOST_CELLS // cells)
    return (min(at_once, draws - start) for start in range(0, draws, at_once))


def intervals(
    blocks: UserBlocks, total: Crosstab, questions: Sequence[Question], names: Sequence[str], how: Interval, seed: int
) -> list[tuple[float, float, int]]:
    """Low end, high end and number of undefined draws for every question; all share the same draws."""
    values: list[list[Floats]] = [[] for _ in questions]
    for weights in bootstrap(blocks, names, how.draws or NORMAL_DRAWS, seed, total.items):
        drawn = blocks.drawn(weights, total)
        for question, found in zip(questions, values, strict=True):
            found.append(question.on(drawn))
    ends = []
    for question, found in zip(questions, values, strict=True):
        draws = np.concatenate(found)
        low, high = _ends(float(question.on(total)), draws, how, question.ask.span)
        ends.append((low, high, int(np.isnan(draws).sum())))
    return ends


def _ends(estimate: float, draws: Floats, how: Interval, span: tuple[float, float]) -> tuple[float, float]:
    """Interval ends. Draws of a count-based measure lie off the estimate: sampling twice adds noise twice, which these
    measures read as inequality. What is wanted is how far the estimate moves with other users, so the draws are centred on it.
    """
    sound = draws[~np.isnan(draws)]
    if not np.isfinite(estimate) or not len(sound):
        return np.nan, np.nan
    if how.kind == "normal":
        error = np.asarray([np.std(sound)]) if np.isfinite(sound).all() else np.asarray([np.nan])
        ends = normal_ends(np.asarray([estimate]), error, how.level, span)
        return float(ends[0][0]), float(ends[1][0])
    low, high = (float(end[0]) for end in percentile_ends(draws[None, :], how.level))
    if how.kind == "percentile":
        return low, high
    middle = float(np.median(sound))
    if not np.isfinite(middle):
        return np.nan, np.nan
    return max(span[0], estimate + low - middle), min(span[1], estimate + high - middle)


def permuted(
    blocks: UserBlocks, total: Crosstab, asks: Sequence[Ask], pair: tuple[int, int], labels: tuple[Any, Any], draws: int, seed: int
) -> list[Floats]:
    """Values of the metrics when the labels of the two groups are dealt out to their users at random.

    A permuted group takes a hypergeometric number of users from either group; random unions of random blocks are random sets
    of users, so that blocks change nothing but the rounding of one block.
    """
    rng = stream(seed, "permutation", *labels)
    users = [blocks.marks[blocks.of_group(row), 0] for row in pair]
    many = [int(u.sum()) for u in users]
    values: list[list[Floats]] = [[] for _ in asks]
    for count in _chunks(draws, 2 * max(1, total.items)):
        stay = rng.hypergeometric(many[0], many[1], many[0], count) if min(many) else np.full(count, many[0])
        taken = [_taken(users[0], stay, rng), _taken(users[1], many[0] - stay, rng)]
        dealt = [blocks.pooled(dict(zip(pair, part, strict=True))) for part in (taken, [1 - t for t in taken])]
        counts, marks = (np.stack(sums, axis=1) for sums in zip(*dealt, strict=True))
        tally = Crosstab(counts, np.zeros(counts.shape[::2]), marks, (0, 1), total.judged)
        for ask, found in zip(asks, values, strict=True):
            found.append(ask.on(tally))
    return [np.concatenate(found) for found in values]


def _taken(users: Floats, wanted: Floats, rng: np.random.Generator) -> Floats:
    """Blocks in random order until the wanted number of users is reached, the last one in part: (draws, blocks)."""
    order = np.argsort(rng.random((len(wanted), len(users))), axis=1)
    before = np.cumsum(users[order], axis=1) - users[order]
    share = np.clip((wanted[:, None] - before) / users[order], 0.0, 1.0)
    taken = np.empty_like(share)
    np.put_along_axis(taken, order, share, axis=1)
    return taken
