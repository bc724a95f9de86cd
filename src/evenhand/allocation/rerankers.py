"""Re-rankers that people know, each by its definition, every request at once: one step per rank, none per request.

All read a tally of candidates, best score first, and the group code of every item; they return lists of positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenhand.allocation.policies import Server
from evenhand.cards import Floats
from evenhand.tallies.ragged import Ints
from evenhand.tallies.slates import Slates


def boosted(slates: Slates, boosts: Floats) -> Ints:
    """Score over the ideal gain of the request, plus the boost of the item's providers."""
    return Server(slates).fill(slates.owners.per_item(boosts))


@dataclass
class Queues:
    """Candidates of every request in one queue per group, best first.

    Attributes
    ----------
    heads : (Q, groups + 1) where each queue begins among the candidates, sorted by request, group and score.
    at : (n,) positions in that order. taken : (Q, groups). lists : (Q, top) what was placed so far.
    """

    slates: Slates
    heads: Ints
    at: Ints
    taken: Ints
    lists: Ints

    @classmethod
    def from_slates(cls, slates: Slates, group: Ints, groups: int) -> Queues:
        """`group` has a code per item."""
        groups_of = group[slates.item]
        request = np.repeat(np.arange(slates.requests), slates.sizes)
        order = np.argsort(request * groups + groups_of, kind="stable")
        counts = np.bincount(request * groups + groups_of, minlength=slates.requests * groups).reshape(-1, groups)
        heads = np.zeros((slates.requests, groups + 1), dtype=np.int64)
        heads[:, 1:] = np.cumsum(counts, axis=1)
        heads += slates.starts[:-1, None]
        lists = np.full((slates.requests, slates.top), -1, dtype=np.int64)
        return cls(slates, heads, order, np.zeros_like(counts), lists)

    @property
    def left(self) -> Ints:
        """(Q, groups) candidates that were not taken."""
        return np.diff(self.heads, axis=1) - self.taken

    def next(self) -> Ints:
        """(Q, groups) position of each group's best candidate left; len(candidates) if none is."""
        place = np.minimum(self.heads[:, :-1] + self.taken, max(len(self.at) - 1, 0))
        return np.asarray(np.where(self.left > 0, self.at[place], len(self.at)))

    def take(self, rows: Ints, group: Ints) -> Ints:
        """Take the next of one group in each of these requests; returns their positions."""
        positions = np.asarray(self.at[self.heads[rows, group] + self.taken[rows, group]])
        self.taken[rows, group] += 1
        return positions


def fa_star_ir(slates: Slates, protected: Ints, needed: Callable[[int], Ints]) -> Ints:
    """FA*IR: the best candidate, or the best protected one where the prefix needs it.

    `protected` is 0 for protected items and 1 for others; `needed(k)` the least number of protected items in every prefix of
    a list of length k. Where the protected run out, the others go on.
    """
    queues = Queues.from_slates(slates, protected, 2)
    lengths, which = np.unique(slates.lengths, return_inverse=True)
    table = np.zeros((len(lengths), slates.top), dtype=np.int64)
    for i, k in enumerate(lengths.tolist()):  # one table per length of list
        table[i, :k] = needed(k)
    table = table[which]
    for rank in range(slates.top):
        rows = np.flatnonzero(slates.lengths > rank)
        first = queues.next()[rows]  # positions are ordered by score
        short = (queues.taken[rows, 0] < table[rows, rank]) & (queues.left[rows, 0] > 0)
        queues.lists[rows, rank] = queues.take(rows, np.where(short, 0, first.argmin(1)))
    return queues.lists


def det_const_sort(slates: Slates, group: Ints, target: Floats) -> Ints:
    """DetConstSort (Geyik et al. 2019, algorithm 3): lists that meet the groups' minimum counts.

    After the k-th look at the targets every group has had its floor(k * target) items placed; an item that enters moves up past lower
    scores as long as nobody is pushed below the rank at which it was needed. A group that has run out is passed over; what
    is still empty when all targets are met goes to the best candidates left.
    """
    queues = Queues.from_slates(slates, group, len(target))
    many, top = slates.requests, slates.top
    latest = np.zeros((many, top), dtype=np.int64)  # the rank, from 0, that the item here may not fall below
    filled = np.zeros(many, dtype=np.int64)
    for k in range(1, top + len(target) + 1):
        least = np.floor(k * target + 1e-9).astype(np.int64)
        for _ in range(len(target)):  # groups whose least number rose, the better item first
            waiting = (queues.taken < least) & (queues.left > 0) & (filled < slates.lengths)[:, None]
            rows = np.flatnonzero(waiting.any(1))
            if not len(rows):
                break
            order = np.where(waiting[rows], queues.next()[rows], len(queues.at))
            place = filled[rows]
            queues.lists[rows, place] = queues.take(rows, order.argmin(1))
            latest[rows, place] = k - 1
            _move_up(queues.lists, latest, rows, place, slates.score)
            filled[rows] += 1
    for rank in range(top):
        rows = np.flatnonzero((filled == rank) & (slates.lengths > rank))
        queues.lists[rows, rank] = queues.take(rows, queues.next()[rows].argmin(1))
        filled[rows] += 1
    return queues.lists


def _move_up(lists: Ints, latest: Ints, rows: Ints, place: Ints, score: Floats) -> None:
    """Swap the item at `place` upwards past lower scores that may stand one rank lower."""
    while len(rows):
        inside = place > 0
        rows, place = rows[inside], place[inside]
        above = lists[rows, place - 1]
        swap = (latest[rows, place - 1] >= place) & (score[above] < score[lists[rows, place]])
        rows, place = rows[swap], place[swap]
        for table in (lists, latest):
            table[rows, place - 1], table[rows, place] = table[rows, place], table[rows, place - 1]
        place = place - 1


def calibrated(slates: Slates, group: Ints, target: Floats, strength: float) -> Ints:
    """Steck (2018): greedy (1 - strength) * scores - strength * KL(target || shares).

    Only the best candidate left of each group can win, so each rank compares as many candidates as there are groups.
    """
    queues = Queues.from_slates(slates, group, len(target))
    padded = np.append(slates.score, -np.inf)
    for rank in range(slates.top):
        rows = np.flatnonzero(slates.lengths > rank)
        first = queues.next()[rows]
        taken = queues.taken[rows]
        now, then = (_divergence(target, (taken + more) / (rank + 1)) for more in (0, 1))
        away = now.sum(1, keepdims=True) - now + then  # (rows, groups): if the next item is of that group
        worth = (1 - strength) * padded[first] - strength * away
        worth = np.where(queues.left[rows] > 0, worth, -np.inf)
        best = worth.max(1, keepdims=True)
        choice = np.where(worth == best, first, len(queues.at)).argmin(1)  # of equally good ones the higher score
        queues.lists[rows, rank] = queues.take(rows, choice)
    return queues.lists


def _divergence(target: Floats, shares: Floats) -> Floats:
    """(..., groups) terms of KL(target || shares), in bits.

    1% of the target is mixed into the shares, so that a group without an item costs much but not everything.
    """
    mixed = (1 - 0.01) * shares + 0.01 * target
    aims = target > 0
    parts = np.zeros(mixed.shape)
    parts[..., aims] = target[aims] * np.log2(target[aims] / mixed[..., aims])
    return parts
