"""A follower graph with communities: who there is, and who follows whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Generator = np.random.Generator


@dataclass(frozen=True, slots=True)
class Graph:
    """Follow edges twice over: sorted by the one who follows, and by the one who is followed.

    Attributes
    ----------
    authors : (E,) whom each edge follows, edges sorted by viewer; viewer v owns edges `out[v]` to `out[v + 1]`.
    viewers : (E,) who follows, edges sorted by author; author a owns edges `into[a]` to `into[a + 1]`.
    keys : (E,) viewer * size + author, increasing: answers "does v follow a?".
    """

    keys: Ints
    out: Ints
    authors: Ints
    into: Ints
    viewers: Ints

    @classmethod
    def of(cls, viewers: Any, authors: Any, size: int) -> Graph:
        """The graph of these edges; an edge named twice counts once."""
        keys = _distinct(np.asarray(authors, np.int64) * size + viewers)
        followed, following = keys // size, keys % size
        keys = np.sort(following * size + followed)
        out = np.concatenate([[0], np.cumsum(np.bincount(following, minlength=size))])
        into = np.concatenate([[0], np.cumsum(np.bincount(followed, minlength=size))])
        return cls(keys, out, keys % size, into, following)

    @property
    def size(self) -> int:
        return len(self.out) - 1

    @property
    def followers(self) -> Ints:
        """How many follow each account."""
        return np.diff(self.into)

    @property
    def follows(self) -> Ints:
        """How many each account follows."""
        return np.diff(self.out)

    @property
    def edge_viewers(self) -> Ints:
        """Who follows, for edges in the order of `authors`."""
        return np.repeat(np.arange(self.size), self.follows)

    def followed_by(self, viewers: Ints, rng: Generator) -> Ints:
        """For each viewer somebody he follows, at random; -1 where he follows nobody."""
        return pick(self.out, self.authors, viewers, rng)

    def follower_of(self, authors: Ints, rng: Generator) -> Ints:
        """For each author one of the followers, at random; -1 where there is none."""
        return pick(self.into, self.viewers, authors, rng)

    def has(self, viewers: Ints, authors: Ints) -> npt.NDArray[np.bool_]:
        """Whether each viewer follows each author."""
        wanted = viewers * self.size + authors
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.asarray(self.keys[at] == wanted)

    def rewired(self, rng: Generator) -> Graph:
        """The same numbers of followers and follows with everything else about the graph shuffled away."""
        authors = np.repeat(np.arange(self.size), self.followers)
        return Graph.of(rng.permutation(self.viewers), authors, self.size)


def pick(starts: Ints, values: Ints, rows: Ints, rng: Generator) -> Ints:
    """One of the values of each row, at random; -1 for row -1 and for rows that hold nothing."""
    first = starts[rows]
    length = np.where(rows < 0, 0, starts[rows + 1] - first)
    at = first + (rng.random(len(rows)) * length).astype(np.int64)
    return np.where(length > 0, values[np.minimum(at, len(values) - 1)] if len(values) else -1, -1)


def follower_graph(community: Ints, wanted: Ints, homophily: float, rng: Generator) -> Graph:
    """Each author gets `wanted` followers, a share `homophily` of them from the own community.

    Viewers are found in proportion to their appetite for following. Following the same author twice counts once, so
    that the largest accounts end up a little below what they wanted.
    """
    size = len(community)
    copies = 1 + np.floor(4 * rng.lognormal(-0.5, 1.0, size) + rng.random(size)).astype(np.int64)
    order = np.argsort(community, kind="stable")
    seats = np.repeat(order, copies[order])  # a viewer sits in the pool as often as his appetite asks
    ends = np.concatenate([[0], np.cumsum(np.bincount(community, weights=copies))]).astype(np.int64)
    authors = np.repeat(np.arange(size), wanted)
    home = community[authors]
    inside = rng.random(len(authors)) < homophily
    first = np.where(inside, ends[home], 0)
    length = np.where(inside, ends[home + 1] - first, len(seats))
    viewers = seats[first + (rng.random(len(authors)) * length).astype(np.int64)]
    viewers = np.where(viewers == authors, (viewers + 1) % size, viewers)  # nobody follows himself
    return Graph.of(viewers, authors, size)


def _distinct(keys: Ints) -> Ints:
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
