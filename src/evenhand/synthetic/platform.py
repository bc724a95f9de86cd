"""A social platform at work: who follows whom, what the feed shows, and what comes back.

Only mechanics are set: how followers, posts and attention are spread, and how each source finds and ranks what it shows.
How unequal the outcome is follows from them and is never a parameter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenhand.errors import EvenhandError, unknown_name
from evenhand.synthetic.feeds import SOURCES, Accounts, Floats, Likes, Ranking, in_network, suggested
from evenhand.synthetic.graph import Generator, Graph, Ints, follower_graph

if TYPE_CHECKING:
    import polars as pl

RATES = {"profile_clicks": 0.01, "likes": 0.02, "retweets": 0.004, "replies": 0.003, "quotes": 0.0005}
"""Chance that an impression of an author of average appeal brings this engagement: the more effort, the rarer."""

ENGAGEMENTS = ("impressions", *RATES)

MIX = dict(zip(SOURCES, (0.6, 0.12, 0.1, 0.1, 0.08), strict=True))

LINGER = 0.5
"""Chance that a displayed post is looked at long enough to be an impression."""

ARMS = ("control", "treatment")

STREAMS = ("accounts", "followers", "follows", "rewiring", "arms", "taste", "liking", "logging", *SOURCES)


class Platform(NamedTuple):
    """What a platform logged in a month, as Polars frames.

    Attributes
    ----------
    authors : one row per author: `author_id`, `community`, `followers`, `posts`, `displays` (posts selected for a
        timeline, looked at or not).
    engagements : one row per author and source (and arm) with at least one impression: `author_id`, `source`, (`arm`,)
        `impressions`, `profile_clicks`, `likes`, `retweets`, `replies`, `quotes`.
    """

    authors: pl.DataFrame
    engagements: pl.DataFrame


def platform(
    authors: int = 50_000,
    *,
    rng: int | Generator | None = None,
    tail: float = 1.1,
    follows: float = 25.0,
    communities: int = 50,
    homophily: float = 0.5,
    rewired: bool = False,
    posts: float = 10.0,
    posts_spread: float = 1.2,
    appeal_spread: float = 0.8,
    taste: float = 1.0,
    attention: float = 900.0,
    attention_spread: float = 1.0,
    mix: Mapping[str, float] = MIX,
    sharpness: float = 1.0,
    candidates: int = 10,
    patience: float = 0.8,
    graph_suggestions: bool = True,
    change: Mapping[str, Any] | None = None,
) -> Platform:
    """A month on a platform of `authors` accounts, each of which writes and reads."""
    ranking = Ranking(
        mix=mix, sharpness=sharpness, candidates=candidates, patience=patience, graph_suggestions=graph_suggestions
    )
    draw = _streams(rng)
    accounts = _accounts(
        authors, communities, posts, posts_spread, appeal_spread, taste, attention, attention_spread, draw["accounts"]
    )
    wanted = _wanted(authors, tail, follows, draw["followers"])
    graph = follower_graph(accounts.community, wanted, homophily, draw["follows"])
    if rewired:
        graph = graph.rewired(draw["rewiring"])
    rankings = [ranking] if change is None else [ranking, replace(ranking, **change)]
    return _month(accounts, graph, rankings, draw)


def _streams(rng: int | Generator | None) -> dict[str, Generator]:
    """One random stream per mechanism, so that switching one off leaves the draws of the others as they are."""
    root = np.random.SeedSequence(int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else rng)
    return {name: np.random.default_rng(s) for name, s in zip(STREAMS, root.spawn(len(STREAMS)), strict=True)}


def _accounts(
    size: int, communities: int, posts: float, posts_spread: float, appeal_spread: float, taste: float,
    attention: float, attention_spread: float, rng: Generator,
) -> Accounts:  # fmt: skip
    weight = 1 / np.arange(1, communities + 1)  # Zipf: a few large communities, many small ones
    community = np.sort(rng.choice(communities, size, p=weight / weight.sum()))
    return Accounts(
        community=community,
        posts=1 + rng.poisson(posts * _lognormal(posts_spread, size, rng)),
        interest=np.log(_lognormal(appeal_spread, size, rng)),
        attention=attention * _lognormal(attention_spread, size, rng),
        second_topic=community[rng.integers(0, size, size)],
        taste=taste,
    )


def _lognormal(spread: float, size: int, rng: Generator) -> Floats:
    """Lognormal with mean 1."""
    return rng.lognormal(-spread * spread / 2, spread, size)


def _wanted(size: int, tail: float, follows: float, rng: Generator) -> Ints:
    """How many followers each author would have: one, and a heavy tail above (Lomax with this exponent)."""
    beyond = np.ones(size) if math.isinf(tail) else rng.pareto(tail, size)
    expected = beyond * (follows - 1) / beyond.mean()
    return 1 + np.minimum(np.floor(expected + rng.random(size)), size - 2).astype(np.int64)


def _month(accounts: Accounts, graph: Graph, rankings: list[Ranking], draw: dict[str, Generator]) -> Platform:
    size, arms = graph.size, len(rankings)
    arm = draw["arms"].integers(0, arms, size)
    appeal = np.exp(accounts.interest)
    like = np.minimum(RATES["likes"] * appeal, 1.0)
    rate = in_network(accounts, graph, rankings, arm, draw["taste"])
    liked = draw["liking"].poisson(rate * (LINGER * like)[graph.authors])
    cell = arm[graph.edge_viewers] * size + graph.authors
    likes = Likes.of(graph, liked, accounts.community)
    displays = np.zeros((arms, len(SOURCES), size))
    displays[:, 0] = np.bincount(cell, rate, minlength=arms * size).reshape(arms, size)
    for source in range(1, len(SOURCES)):
        for i, ranking in enumerate(rankings):
            name = SOURCES[source]
            displays[i, source] = suggested(name, np.flatnonzero(arm == i), ranking, accounts, graph, likes, draw[name])
    counts = {"likes": draw["logging"].poisson(displays * LINGER * like)}
    counts["likes"][:, 0] = np.bincount(cell, liked, minlength=arms * size).reshape(arms, size)
    return _logged(accounts, graph, displays, counts, appeal, draw["logging"])


def _logged(accounts: Accounts, graph: Graph, displays: Floats, counts: dict[str, Ints], appeal: Floats, rng: Generator) -> Platform:
    """Counts from expected displays. Likes are drawn first: Poisson counts split by a chance are independent Poisson."""
    import polars as pl

    like = np.minimum(RATES["likes"] * appeal, 1.0)
    impressions = counts["likes"] + rng.poisson(displays * LINGER * (1 - like))
    unread = rng.poisson(displays.sum((0, 1)) * (1 - LINGER))
    held = np.flatnonzero(impressions)
    arm, source, author = np.unravel_index(held, impressions.shape)
    columns = {"author_id": author, "source": pl.Series(np.array(SOURCES)[source], dtype=pl.Enum(SOURCES))}
    if len(displays) > 1:
        columns["arm"] = pl.Series(np.array(ARMS)[arm], dtype=pl.Enum(ARMS))
    columns["impressions"] = impressions.ravel()[held]
    for name, chance in RATES.items():
        columns[name] = (
            counts["likes"].ravel()[held] if name == "likes"
            else rng.binomial(columns["impressions"], np.minimum(chance * appeal[author], 1.0))
        )
    people = {
        "author_id": np.arange(graph.size), "community": accounts.community, "followers": graph.followers,
        "posts": accounts.posts, "displays": impressions.sum((0, 1)) + unread,
    }
    return Platform(pl.DataFrame(people), pl.DataFrame(columns))
