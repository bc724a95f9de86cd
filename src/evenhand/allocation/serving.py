"""Lists by score plus boost: the k best candidates of every request, whatever the boosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.ragged import Ints
from evenhand.tallies.slates import Slates


@dataclass
class Block:
    """Requests of similar size, padded: one row each.

    Attributes
    ----------
    rows : (b,) which requests. cost : (b, w) minus the gain, infinite behind the last candidate. item : (b, w) item codes.
    column : (b, w) place among the candidates of the request.
    """

    rows: Ints
    cost: Floats
    item: np.typing.NDArray[np.int32]
    column: np.typing.NDArray[np.int32]

    def best(self, boosts: Floats, top: int) -> tuple[Ints, Floats]:
        """(b, top) columns of the best, in order, and (b, w) the costs that decided."""
        cost = self.cost - boosts[self.item]
        return smallest(cost, top), cost

    def within(self, cost: Floats, limit: Floats) -> Block:
        """Candidates whose cost is at most the limit of their row."""
        keep = cost <= limit[:, None]
        counts = keep.sum(1)
        if 2 * counts.max(initial=0) > keep.shape[1]:
            return self
        row, column = np.nonzero(keep)
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (len(keep), int(counts.max(initial=0)))
        cost, item, number = np.full(shape, np.inf), np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        for packed, whole in ((cost, self.cost), (item, self.item), (number, self.column)):
            packed[row, place] = whole[row, column]
        return Block(self.rows, cost, item, number)


def smallest(cost: Floats, top: int) -> Ints:
    """(b, top) columns of the smallest costs of each row, in order; ties go to the first column.

    >>> smallest(np.array([[3.0, 1.0, 2.0, 1.0]]), 3).tolist()
    [[1, 3, 2]]
    """
    if cost.shape[1] <= top:
        return np.argsort(cost, axis=1, kind="stable")
    columns = np.sort(np.argpartition(cost, top - 1, axis=1)[:, :top], axis=1)
    worth = np.take_along_axis(cost, columns, 1)
    last = worth.max(1, keepdims=True)
    # A tie across the edge: argpartition took any of them, the rule takes the first.
    tied = np.flatnonzero((cost <= last).sum(1) > top)
    if len(tied):
        columns[tied] = np.sort(np.argsort(cost[tied], axis=1, kind="stable")[:, :top], axis=1)
        worth[tied] = np.take_along_axis(cost[tied], columns[tied], 1)
    return np.take_along_axis(columns, np.argsort(worth, axis=1, kind="stable"), 1)


class Server:
    """Fills the lists of a set of requests repeatedly, under boosts that move little each time.

    Candidates that no boosts within reach of the last ones can lift into a list are not looked at again until the boosts
    have left that reach; the lists are those of a full sort.
    """

    def __init__(self, slates: Slates) -> None:
        self.slates = slates
        self._all = _blocks(slates)
        self._near: list[Block] = []
        self._at: Floats | None = None  # boosts around which the near ones were chosen
        self._reach = -1.0

    def fill(self, boosts: Floats) -> Ints:
        """(Q, top) positions of candidates by gain plus the item's boost; -1 behind a list's end."""
        moved = np.inf if self._at is None else float(np.ptp(boosts - self._at))
        if moved <= self._reach:
            return self._lists(self._near, boosts)
        # Four times as far as last time before all candidates are looked at again; at first that is not known.
        self._reach = 4 * moved if np.isfinite(moved) else -1.0
        self._at, self._near = boosts, []
        return self._lists(self._all, boosts, look_around=self._reach >= 0)

    def _lists(self, blocks: list[Block], boosts: Floats, *, look_around: bool = False) -> Ints:
        slates = self.slates
        lists = np.full((slates.requests, slates.top), -1, dtype=np.int64)
        for block in blocks:
            chosen, cost = block.best(boosts, slates.top)
            costs = np.take_along_axis(cost, chosen, 1)
            finite = np.isfinite(costs)
            where = slates.starts[block.rows][:, None] + np.take_along_axis(block.column, chosen, 1)
            lists[block.rows, : chosen.shape[1]] = np.where(finite, where, -1)
            if look_around:
                last = np.where(finite, costs, -np.inf).max(1)
                short = slates.sizes[block.rows] <= slates.top
                limit = np.where(short, np.finfo(np.float64).max, last + self._reach)
                self._near.append(block.within(cost, limit))
        return _best_first(lists, slates.attention)


def _best_first(lists: Ints, attention: Floats) -> Ints:
    """Ranks that get the same attention are filled best score first: it costs no exposure."""
    edges = np.flatnonzero(np.diff(attention)) + 1
    if len(edges) == len(attention) - 1:
        return lists
    behind = np.where(lists < 0, np.iinfo(np.int64).max, lists)
    for block in np.split(np.arange(len(attention)), edges):
        behind[:, block] = np.sort(behind[:, block], axis=1)
    return np.where(behind == np.iinfo(np.int64).max, -1, behind)


def _blocks(slates: Slates) -> list[Block]:
    """All candidates, in blocks of requests that are about as long as each other."""
    by_size = np.argsort(slates.sizes, kind="stable")
    sizes = slates.sizes[by_size]
    blocks, end = [], len(by_size)
    gain, item = slates.gain, slates.item.astype(np.int32)
    while end:
        width = int(sizes[end - 1])
        begin = max(0, end - max(1, 1_000_000 // max(width, 1)))  # candidates that are looked at together
        rows = np.sort(by_size[begin:end])
        column = np.arange(width, dtype=np.int32)
        inside = column < slates.sizes[rows][:, None]
        at = np.where(inside, slates.starts[rows][:, None] + column, 0)
        cost = np.where(inside, -gain[at], np.inf) if len(gain) else np.full(inside.shape, np.inf)
        blocks.append(Block(rows, cost, item[at], np.broadcast_to(column, inside.shape)))
        end = begin
    return blocks
