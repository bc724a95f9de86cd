"""How a feed spends a viewer's attention: the posts of those he follows, and four ways of suggesting others.

Every feed draws posts with odds exp(sharpness x interest), where interest is what the viewer would think of the author:
the author's appeal plus a taste of his own. Sources differ in whom they can find, not in how they rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.synthetic.graph import Generator, Graph, Ints, pick

Floats = npt.NDArray[np.float64]

SOURCES = ("in_network", "likes", "graph", "misc", "topics")

BLOCK = 1 << 16
"""Viewers whose suggestions are made at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What a feed does with the attention it gets. The words are explained at `platform`."""

    mix: Mapping[str, float]
    sharpness: float
    candidates: int
    patience: float
    graph_suggestions: bool

    def slots(self, source: str) -> float:
        """The share of a feed that this source fills."""
        return float(self.mix.get(source, 0.0)) / sum(self.mix.values())


@dataclass(frozen=True, slots=True)
class Accounts:
    """Everybody on the platform. Each account writes and reads; a community is also a topic.

    Attributes
    ----------
    interest : log of the author's appeal, so that appeal has mean 1.
    attention : posts displayed to the account as a reader in the month.
    second_topic : a topic that the account follows besides its own.
    """

    community: Ints
    posts: Ints
    interest: Floats
    attention: Floats
    second_topic: Ints
    taste: float


@dataclass(frozen=True, slots=True)
class Likes:
    """Every like given to somebody one follows, sorted by who gave it, and again by the topic of who got it."""

    by_viewer: Ints
    liked: Ints
    by_topic: Ints
    liked_on: Ints

    @classmethod
    def of(cls, graph: Graph, per_edge: Ints, community: Ints) -> Likes:
        liked = np.repeat(graph.authors, per_edge)
        given = np.concatenate([[0], np.cumsum(per_edge)])
        topic = community[liked]
        return cls(given[graph.out], liked, _ends(np.bincount(topic, minlength=community.max() + 1)), liked[np.argsort(topic, kind="stable")])

    def by(self, viewers: Ints, rng: Generator) -> Ints:
        """For each viewer an author he liked, at random."""
        return pick(self.by_viewer, self.liked, viewers, rng)

    def on(self, topics: Ints, rng: Generator) -> Ints:
        """For each topic an author who was liked, at random among the likes."""
        return pick(self.by_topic, self.liked_on, topics, rng)

    def anywhere(self, count: int, rng: Generator) -> Ints:
        """Authors liked by anybody, at random among the likes."""
        return pick(np.array([0, len(self.liked)]), self.liked, np.zeros(count, np.int64), rng)


def in_network(accounts: Accounts, graph: Graph, rankings: list[Ranking], arm: Ints, rng: Generator) -> Floats:
    """Expected displays on each follow edge: a viewer's slots shared among the posts of those he follows."""
    viewers = graph.edge_viewers
    sharpness = np.array([r.sharpness for r in rankings])[arm]
    slots = np.array([r.slots("in_network") for r in rankings])[arm] * accounts.attention
    interest = accounts.interest[graph.authors] + accounts.taste * rng.standard_normal(len(viewers), np.float32)
    odds = accounts.posts[graph.authors] * np.exp(sharpness[viewers] * interest)
    total = np.bincount(viewers, odds, minlength=graph.size)
    return odds * (slots / np.maximum(total, 1e-300))[viewers]


def suggested(
    source: str, viewers: Ints, ranking: Ranking, accounts: Accounts, graph: Graph, likes: Likes, rng: Generator
) -> Floats:
    """Expected displays of each author from one source of suggestions, over all of these viewers."""
    shown = np.zeros(graph.size)
    slots = ranking.slots(source)
    if not slots:
        return shown
    for block in _blocks(viewers):
        found = _found(source, np.repeat(block, ranking.candidates), ranking, accounts, graph, likes, rng)
        order = _ranked(found.reshape(len(block), -1), ranking, accounts, rng)
        attention = np.where(order >= 0, ranking.patience ** np.arange(ranking.candidates), 0.0)
        total = attention.sum(1, keepdims=True)
        share = np.divide(attention, total, out=np.zeros_like(attention), where=total > 0)
        displays = share * (slots * accounts.attention[block])[:, None]
        shown += np.bincount(order[order >= 0], displays[order >= 0], minlength=graph.size)
    return shown


def _found(
    source: str, viewers: Ints, ranking: Ranking, accounts: Accounts, graph: Graph, likes: Likes, rng: Generator
) -> Ints:
    """One candidate author for each entry of `viewers`, -1 where the source finds nobody the viewer could be shown."""
    if source == "topics":
        own = rng.random(len(viewers)) < 0.5
        return likes.on(np.where(own, accounts.community[viewers], accounts.second_topic[viewers]), rng)
    if not ranking.graph_suggestions:
        found = rng.integers(0, graph.size, len(viewers))
    elif source == "likes":  # liked by somebody the viewer follows
        found = likes.by(graph.followed_by(viewers, rng), rng)
    elif source == "graph":  # liked by somebody who follows the same people
        found = likes.by(graph.follower_of(graph.followed_by(viewers, rng), rng), rng)
    else:
        found = _miscellaneous(viewers, accounts, graph, likes, rng)
    known = graph.has(viewers, np.maximum(found, 0))
    return np.where(known | (found == viewers), -1, found)


def _miscellaneous(viewers: Ints, accounts: Accounts, graph: Graph, likes: Likes, rng: Generator) -> Ints:
    """Four ways in equal parts: followed by those one follows, searched for, replying to those one follows, same subject."""
    way = rng.integers(0, 4, len(viewers))
    near = graph.followed_by(viewers, rng)
    subject = likes.by(viewers, rng)
    return np.select(
        [way == 0, way == 1, way == 2],
        [
            graph.followed_by(near, rng),
            likes.anywhere(len(viewers), rng),
            graph.follower_of(near, rng),
        ],
        np.where(subject >= 0, likes.on(accounts.community[subject], rng), -1),
    )


def _ranked(found: Ints, ranking: Ranking, accounts: Accounts, rng: Generator) -> Ints:
    """Each row of candidates in the order shown, those that cannot be shown last."""
    interest = accounts.interest[found] + accounts.taste * rng.standard_normal(found.shape)
    score = ranking.sharpness * interest + rng.gumbel(size=found.shape)
    order = np.argsort(np.where(found >= 0, -score, np.inf), axis=1)
    return np.take_along_axis(found, order, 1)


def _blocks(viewers: Ints) -> Iterator[Ints]:
    return (viewers[at : at + BLOCK] for at in range(0, len(viewers), BLOCK))


def _ends(counts: Any) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
