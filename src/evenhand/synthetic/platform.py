"""A social platform at work: who follows whom, what the feed shows, and what comes back.

Only mechanics are set: how followers, posts and attention are spread, and how each source finds and ranks what it shows.
How unequal the outcome is follows from them and is never a parameter.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from evenhand.cards import Between, Fraction, check_value
from evenhand.errors import EvenhandError, all_problems, unknown_name
from evenhand.synthetic.feeds import (
    SOURCES,
    Accounts,
    Chances,
    Floats,
    Generator,
    Ints,
    Ranking,
    World,
    follower_graph,
    home,
    suggested,
)

if TYPE_CHECKING:
    import polars as pl

EFFORT = {"profile_clicks": 2.4, "likes": 2.1, "retweets": 2.7, "replies": 2.9, "quotes": 3.4}
"""How much interest it takes to engage with a post that one has looked at, in units of `taste`: the more effort, the rarer."""

ENGAGEMENTS = ("impressions", *EFFORT)

MIX = dict(zip(SOURCES, (0.7, 0.09, 0.07, 0.07, 0.07), strict=True))
"""Share of a feed that each source may fill."""

LINGER = 0.5
"""Chance that a displayed post is looked at long enough to be an impression."""

ARMS = ("control", "treatment")

Mean = Annotated[float, Between(0, 1e6, open_low=True)]
Spread = Annotated[float, Between(0, 5)]
Weight = Annotated[float, Between(0, 10)]


class Platform(NamedTuple):
    """A month's log of a platform, as Polars frames.

    Attributes
    ----------
    authors : one row per author: `author_id`, `community`, `followers`, `posts`, `displays` (how often a post of his was
        selected for a timeline, looked at or not).
    engagements : one row per author and source (and arm) with at least one impression: `author_id`, `source`, (`arm`,)
        `impressions`, `profile_clicks`, `likes`, `retweets`, `replies`, `quotes`.
    """

    authors: pl.DataFrame
    engagements: pl.DataFrame


def platform(
    authors: Annotated[int, Between(10, 10**8)] = 50_000,
    *,
    rng: int | Generator | None = None,
    tail: Annotated[float, Between(0.5, math.inf)] = 1.1,
    follows: Annotated[float, Between(1, 10_000)] = 25.0,
    pull: Weight = 0.5,
    communities: Annotated[int, Between(1, 10_000)] = 50,
    homophily: Fraction = 0.5,
    rewired: bool = False,
    posts: Mean = 15.0,
    posts_spread: Spread = 1.8,
    appeal_spread: Spread = 0.6,
    taste: Spread = 1.0,
    attention: Mean = 900.0,
    attention_spread: Spread = 1.0,
    mix: Mapping[str, float] = MIX,
    sharpness: Weight = 1.0,
    candidates: Annotated[int, Between(1, 1000)] = 10,
    patience: Annotated[float, Between(0, 1, open_low=True)] = 0.5,
    proof: Weight = 0.5,
    graph_suggestions: bool = True,
    change: Mapping[str, Any] | None = None,
) -> Platform:
    """A month on a platform of `authors` accounts, each of which writes and reads.

    Everybody has at least one follower. Viewers look through a limited number of posts; a feed shows them posts of those
    they follow and suggestions from four sources (`likes`: liked by somebody they follow; `graph`: liked by somebody who
    follows the same accounts; `misc`: followed by those they follow, searched for, replying to them, or on a subject they
    liked; `topics`: liked on a topic they follow). The same seed gives the same tables.

    Parameters
    ----------
    authors : number of accounts.
    rng : seed or Generator.
    tail : exponent of the Pareto tail of followers; smaller is heavier. `math.inf` with `pull=0`: everybody has the same
        number.
    follows : mean number of follows drawn per account. Following the same author twice counts once, so the mean in the
        table is lower.
    pull : how fast followers grow with posts, as a power of the posts.
    communities : number of communities, with sizes falling as one over their rank. Each is a topic too.
    homophily : share of an author's followers who come from the own community.
    rewired : shuffle who follows whom, keeping everybody's number of followers and of follows.
    posts, posts_spread : posts per author in the month: mean, and sigma of the lognormal. A sigma of 1.8 means that a
        tenth of the authors writes 70% of the posts.
    appeal_spread : sigma of the lognormal appeal of authors, which raises rank and engagement alike.
    taste : how far viewers differ about one author, on the same scale.
    attention, attention_spread : posts a viewer looks through in the month: mean, and sigma of the lognormal.
    mix : share of a feed that each source may fill; shares count relative to their sum, a source left out is off.
    sharpness : weight of interest in the ranking: posts are shown with odds exp(sharpness * interest); 0 ignores it.
    candidates : posts that a source of suggestions retrieves for a viewer and ranks.
    patience : chance that a viewer who has read one suggestion reads the next one below.
    proof : weight of social proof in the ranking of suggestions: the log of one plus the likes an author already has.
    graph_suggestions : False fills the slots of likes, graph and misc with authors drawn from the whole platform at
        random, so that these suggestions know nothing of the follower graph.
    change : what is different for a random half of the viewers, the arm "treatment": any of mix, sharpness, candidates,
        patience, proof and graph_suggestions. The engagements then have a column `arm`.

    Examples
    --------
    >>> month = platform(1000, rng=7)
    >>> month.authors.columns
    ['author_id', 'community', 'followers', 'posts', 'displays']
    """
    _check(locals())
    ranking = Ranking(mix, sharpness, candidates, patience, proof, graph_suggestions)
    rankings = [ranking] if change is None else [ranking, replace(ranking, **change)]
    seed = _seed(rng)
    spreads = (posts, posts_spread), appeal_spread, taste, (attention, attention_spread)
    accounts = _accounts(authors, communities, *spreads, _stream(seed, "accounts"))
    followers = _followers(accounts.posts.astype(np.float64) ** pull, tail, follows, _stream(seed, "followers"))
    graph = follower_graph(
        accounts.community, followers, accounts.attention, homophily, lambda block: _stream(seed, "follows", block)
    )
    if rewired:
        graph = graph.rewired(_stream(seed, "rewiring"))
    arm = _stream(seed, "arms").permutation(authors) % len(rankings)
    world = World(accounts, graph, rankings, arm, lambda name, block: _stream(seed, name, block))
    return _month(world, _stream(seed, "log"))


def _month(world: World, rng: Generator) -> Platform:
    """Displays of the feeds, and the engagements that follow."""
    from scipy.special import ndtr

    interest, posts = world.accounts.interest, world.accounts.posts
    mood = 1.0  # how far a viewer's interest in one author moves from post to post (standard deviation, normal)
    chance = {name: np.minimum(ndtr((interest - effort) / mood), 0.5) for name, effort in EFFORT.items()}
    seen = home(world, Chances(LINGER, chance["likes"], chance["replies"], posts / posts.mean()))
    shown = [suggested(world, source, seen) for source in SOURCES[1:]]
    displays = np.stack([seen.displays, *shown], axis=1)
    impressions = rng.poisson(displays * LINGER)  # (arms, sources, authors); thinned Poisson counts are Poisson
    impressions[:, 0] = seen.likes + seen.replies + rng.poisson(seen.rest)
    counts = {name: rng.binomial(impressions, p) for name, p in chance.items()}
    counts["likes"][:, 0], counts["replies"][:, 0] = seen.likes, seen.replies
    unread = rng.poisson(displays.sum((0, 1)) * (1 - LINGER))
    return _tables(world, impressions, counts, impressions.sum((0, 1)) + unread)


def _tables(world: World, impressions: Ints, counts: Mapping[str, Ints], displays: Ints) -> Platform:
    import polars as pl

    nonzero = np.flatnonzero(impressions)
    arm, source, author = np.unravel_index(nonzero, impressions.shape)
    columns: dict[str, Any] = {"author_id": author, "source": pl.Series(SOURCES).gather(source)}
    if len(world.rankings) > 1:
        columns["arm"] = pl.Series(ARMS).gather(arm)
    columns["impressions"] = impressions.ravel()[nonzero]
    columns |= {name: count.ravel()[nonzero] for name, count in counts.items()}
    people = {
        "author_id": np.arange(world.graph.size),
        "community": world.accounts.community,
        "followers": world.graph.followers.lengths,
        "posts": world.accounts.posts,
        "displays": displays,
    }
    return Platform(pl.DataFrame(people), pl.DataFrame(columns))


def _accounts(
    size: int, communities: int, posts: tuple[float, float], appeal_spread: float, taste: float,
    attention: tuple[float, float], rng: Generator,
) -> Accounts:  # fmt: skip
    sizes = 1 / np.arange(1, communities + 1)
    community = np.sort(rng.choice(communities, size, p=sizes / sizes.sum()))
    return Accounts(
        community=community,
        posts=1 + rng.poisson(posts[0] * _lognormal(posts[1], size, rng)),
        interest=np.log(_lognormal(appeal_spread, size, rng)),
        attention=attention[0] * _lognormal(attention[1], size, rng),
        second_topic=community[rng.integers(0, size, size)],
        taste=taste,
    )


def _lognormal(spread: float, size: int, rng: Generator) -> Floats:
    """Lognormal numbers with mean 1."""
    return rng.lognormal(-spread * spread / 2, spread, size)


def _followers(pull: Floats, tail: float, follows: float, rng: Generator) -> Ints:
    """Followers per author: one, plus a heavy tail that grows with posts."""
    size = len(pull)
    beyond = pull if math.isinf(tail) else pull * rng.pareto(tail, size)
    expected = beyond * (follows - 1) / beyond.mean()
    return np.asarray(1 + np.minimum(expected + rng.random(size), size - 2), dtype=np.int64)


def _seed(rng: int | Generator | None) -> int:
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return int(rng)
    raise EvenhandError(f"rng={rng!r} is not a seed. Pass a whole number of zero or more, a numpy Generator, or None.")


def _stream(seed: int, name: str, block: int = 0) -> Generator:
    """A random stream per mechanism and block: switching one off leaves the others' draws."""
    return np.random.default_rng([seed, block, *name.encode()])


def _check(arguments: Mapping[str, Any]) -> None:
    """Check every argument, and those in `change`, against the ranges in the signature."""
    hints = typing.get_type_hints(platform, include_extras=True)
    problems = []
    changed = arguments["change"] or {}
    differs = [f.name for f in fields(Ranking)]
    for name, value in [*arguments.items(), *changed.items()]:
        try:
            if name in changed and name not in differs:
                raise unknown_name("change", name, differs, what="something that may differ between viewers")
            check_value(f"platform({name}=", value, hints[name])
            if name == "mix":
                _check_mix(value)
        except EvenhandError as problem:
            problems.append(str(problem))
    if problems:
        raise all_problems(problems, where="The platform")


def _check_mix(mix: Mapping[str, float]) -> None:
    for source in mix:
        if source not in SOURCES:
            raise unknown_name("mix", source, SOURCES, what="a source of the feed")
    if min(mix.values(), default=0) < 0 or not 0 < sum(mix.values()) < math.inf:
        raise EvenhandError(f"mix={dict(mix)!r} has no share above 0, or one below. Pass shares such as {MIX!r}.")
