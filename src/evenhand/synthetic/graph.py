"""A follower graph with communities: who follows whom."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Generator = np.random.Generator

BLOCK = 1 << 16
"""Accounts handled at a time. Each block has its own random stream, so threads change nothing."""

_LOW = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Lists:
    """Ragged lists, end to end: row i is `values[starts[i]:starts[i + 1]]`."""

    starts: Ints
    values: npt.NDArray[np.int32]

    @classmethod
    def from_lengths(cls, lengths: Any, values: Any) -> Lists:
        return cls(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), values.astype(np.int32, copy=False))

    @classmethod
    def sorted_into(cls, rows: Any, values: Any, count: int) -> Lists:
        """The values sorted into their rows."""
        return cls.from_lengths(np.bincount(rows, minlength=count), values[np.argsort(rows, kind="stable")])

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    def one_of(self, rows: Any, rng: Generator) -> Ints:
        """A random value of each of these rows; -1 for row -1 and for empty rows."""
        if not len(self.values):
            return np.full(len(rows), -1)
        first = self.starts[rows]
        length = np.where(rows < 0, 0, self.starts[rows + 1] - first)
        at = first + (rng.random(len(rows)) * length).astype(np.int64)
        return np.where(length > 0, self.values[np.minimum(at, len(self.values) - 1)], np.int64(-1))


@dataclass(frozen=True, slots=True)
class Graph:
    """Follow edges three times over.

    Attributes
    ----------
    followed : whom each viewer follows.
    followers : who follows each author.
    keys : viewer and author of every edge packed into one number, increasing: answers "does v follow a?".
    """

    followed: Lists
    followers: Lists
    keys: Ints

    @classmethod
    def from_edges(cls, edges: Ints, size: int) -> Graph:
        """The graph of distinct edges, packed author first and increasing."""
        authors, viewers = edges >> 32, edges & _LOW
        follows = np.bincount(viewers, minlength=size)
        keys = (viewers << 32) | authors
        front = keys < (size // 2) << 32
        with ThreadPoolExecutor(2) as pool:
            keys = np.concatenate(list(pool.map(np.sort, (keys[front], keys[~front]))))
        return cls(
            Lists.from_lengths(follows, keys & _LOW),
            Lists.from_lengths(np.bincount(authors, minlength=size), viewers),
            keys,
        )

    @property
    def size(self) -> int:
        return len(self.followed.starts) - 1

    def has(self, viewers: Ints, authors: Ints) -> npt.NDArray[np.bool_]:
        """Whether each viewer follows each author."""
        keys = (viewers << 32) | authors
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray(self.keys[at] == keys)

    def rewired(self, rng: Generator) -> Graph:
        """A random graph with the same numbers of followers and follows.

        An edge that the shuffle makes twice counts once, so that the largest accounts lose a few followers.
        """
        authors = np.repeat(np.arange(self.size), self.followers.lengths)
        return Graph.from_edges(_distinct(authors, rng.permutation(self.followers.values), self.size), self.size)


def follower_graph(
    community: Ints, followers: Ints, activity: Floats, homophily: float, stream: Callable[[int], Generator]
) -> Graph:
    """A graph with so many followers per author, a share `homophily` from their community.

    Viewers are found in proportion to their activity: who reads more follows more. Following the same author twice
    counts once, so the largest accounts end up below what they wanted.
    """
    size = len(community)
    seats_of = 1 + np.floor(4 * activity / activity.mean() + stream(size).random(size)).astype(np.int64)
    seats = Lists.sorted_into(np.repeat(community, seats_of), np.repeat(np.arange(size), seats_of), community.max() + 1)

    def edges(at: int) -> Ints:
        rng = stream(at)
        authors = np.repeat(np.arange(at, min(at + BLOCK, size)), followers[at : at + BLOCK])
        home = np.where(rng.random(len(authors)) < homophily, community[authors], -1)
        first = np.where(home < 0, 0, seats.starts[home])
        length = np.where(home < 0, len(seats.values), seats.lengths[home])
        viewers = seats.values[first + (rng.random(len(authors)) * length).astype(np.int64)]
        return _distinct(authors, viewers, size)

    with ThreadPoolExecutor(2) as pool:
        return Graph.from_edges(np.concatenate(list(pool.map(edges, range(0, size, BLOCK)))), size)


def _distinct(authors: Ints, viewers: Any, size: int) -> Ints:
    """Distinct edges packed author first, increasing; self-follows go to the next viewer."""
    viewers = np.where(viewers == authors, (viewers + 1) % size, viewers)
    edges = np.sort((authors << 32) | viewers)
    return np.asarray(edges[np.concatenate([[True], edges[1:] != edges[:-1]])])
