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
    """

    rows: Ints
    cost: Floats
    item: np.typing.NDArray[np.int32]


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
    """Fills the lists of a set of requests repeatedly, under other boosts each time."""

    def __init__(self, slates: Slates) -> None:
        self.slates, self._blocks = slates, _blocks(slates)

    def fill(self, boosts: Floats) -> Ints:
        """(Q, top) positions of candidates by gain plus the item's boost; -1 behind a list's end."""
        slates = self.slates
        lists = np.full((slates.requests, slates.top), -1, dtype=np.int64)
        for block in self._blocks:
            cost = block.cost - boosts[block.item]
            chosen = smallest(cost, slates.top)
            is_candidate = np.isfinite(np.take_along_axis(cost, chosen, 1))
            positions = slates.starts[block.rows][:, None] + chosen
            lists[block.rows, : chosen.shape[1]] = np.where(is_candidate, positions, -1)
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
        column = np.arange(width)
        inside = column < slates.sizes[rows][:, None]
        at = np.where(inside, slates.starts[rows][:, None] + column, 0)
        cost = np.where(inside, -gain[at], np.inf) if len(gain) else np.full(inside.shape, np.inf)
        blocks.append(Block(rows, cost, item[at]))
        end = begin
    return blocks
