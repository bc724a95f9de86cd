"""A social platform at work: who follows whom, what the feed shows, and what comes back.

Only mechanics are set: how followers, posts and attention are spread, and how each source finds and ranks what it shows.
How unequal the outcome is follows from them and is never a parameter.

Every feed shows posts with odds exp(sharpness x interest). Interest is what this viewer would think of this author: the
author's appeal and the viewer's own taste. Sources differ in whom they can find, not in how they rank.

`trial` is the log of an experiment whose effect is known: viewers in two arms look at the same authors.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand.cards import Between, Floats, check_value
from evenhand.errors import EvenhandError, all_problems, unknown_name

if TYPE_CHECKING:
    import polars as pl

Ints = npt.NDArray[np.int64]
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
        keys = np.sort((viewers << 32) | authors)
        return cls(
            Lists.from_lengths(follows, keys & _LOW),
            Lists.from_lengths(np.bincount(authors, minlength=size), viewers),
            keys,
        )

    @property
    def size(self) -> int:
        return len(self.followed.starts) - 1

    def has(self, viewers: Ints, authors: Ints) -> npt.NDArray[np.bool_]:
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


SOURCES = ("in_network", "likes", "graph", "misc", "topics")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Settings of a feed; `platform` explains the fields."""

    mix: Mapping[str, float]
    sharpness: float
    proof: float
    graph_suggestions: bool

    def slots(self, source: str) -> float:
        return float(self.mix.get(source, 0.0)) / sum(self.mix.values())


@dataclass(frozen=True, slots=True)
class Accounts:
    """Everybody on the platform. Each account writes and reads; a community is a topic too.

    Attributes
    ----------
    interest : log of the author's appeal, whose mean is 1.
    attention : posts that the account looks through in the month.
    second_topic : a topic that the account follows besides that of its community.
    """

    community: Ints
    posts: Ints
    interest: Floats
    attention: Floats
    second_topic: Ints


@dataclass(frozen=True, slots=True)
class Home:
    """The month in the network: counts per arm and author, and what everybody can see of it.

    Attributes
    ----------
    displays, likes, replies, rest : (arms, authors); `displays` are expected, `rest` are expected impressions that
        brought neither like nor reply.
    liked_by : the authors each viewer liked, once per like.
    liked_on : the authors liked on each topic, once per like.
    repliers : who replied to each author, once per reply.
    proof : log of one plus the likes of each author.
    """

    displays: Floats
    likes: Floats
    replies: Floats
    rest: Floats
    liked_by: Lists
    liked_on: Lists
    repliers: Lists
    proof: Floats


@dataclass(frozen=True, slots=True)
class World:
    """All that a feed knows, and a random stream for every purpose and block of viewers."""

    accounts: Accounts
    graph: Graph
    rankings: Sequence[Ranking]
    arm: Ints
    stream: Callable[[str, int], Generator]

    def blocks(self, serve: Callable[[int, Ints], Any]) -> Iterator[Any]:
        """Results of `serve` for each block of viewers, in order, on two threads."""
        starts = range(0, self.graph.size, BLOCK)
        with ThreadPoolExecutor(2) as pool:
            yield from pool.map(lambda at: serve(at, np.arange(at, min(at + BLOCK, self.graph.size))), starts)


def home(world: World, like: Floats, reply: Floats) -> Home:
    """Everything the in-network source shows, and the likes and replies it brings.

    `like` and `reply` are chances per impression, by author; those who post more also reply more.
    """
    graph, arms = world.graph, len(world.rankings)
    totals, likes, replies = np.zeros((4, arms, graph.size)), [], []
    for counts, liked, replied in world.blocks(lambda at, viewers: _home_block(world, like, reply, at, viewers)):
        totals += counts
        likes.append(liked)
        replies.append(replied)
    liked, replied = np.concatenate(likes), np.concatenate(replies)
    liked_ends = np.concatenate([[0], np.cumsum(liked)])[graph.followed.starts]
    written = np.concatenate([[0], np.cumsum(replied)])[graph.followed.starts]
    who_was_liked = np.repeat(graph.followed.values, liked)
    topic = world.accounts.community[who_was_liked]
    replying = np.repeat(np.arange(graph.size), np.diff(written))
    displays, like_counts, reply_counts, rest = totals
    return Home(
        displays=displays,
        likes=like_counts,
        replies=reply_counts,
        rest=rest,
        liked_by=Lists(liked_ends, who_was_liked),
        liked_on=Lists.sorted_into(topic, who_was_liked, world.accounts.community.max() + 1),
        repliers=Lists.sorted_into(np.repeat(graph.followed.values, replied), replying, graph.size),
        proof=np.log1p(like_counts.sum(0)),
    )


def _home_block(
    world: World, like_chance: Floats, reply_chance: Floats, at: int, viewers: Ints
) -> tuple[Floats, Ints, Ints]:
    """Counts per arm and author of a block of viewers; likes and replies per follow edge."""
    accounts, rng = world.accounts, world.stream("in_network", at)
    edges = slice(*world.graph.followed.starts[[viewers[0], viewers[-1] + 1]])
    authors = world.graph.followed.values[edges]
    row = np.repeat(np.arange(len(viewers)), world.graph.followed.lengths[viewers])
    arm = world.arm[viewers]
    sharpness = np.array([r.sharpness for r in world.rankings])[arm]
    slots = np.array([r.slots("in_network") for r in world.rankings])[arm] * accounts.attention[viewers]
    interest = accounts.interest[authors] + TASTE * rng.standard_normal(len(authors))
    odds = np.exp(sharpness[row] * interest)
    posts = accounts.posts[authors]
    total = np.bincount(row, posts * odds, minlength=len(viewers))
    per_post = odds * np.divide(slots, total, out=np.zeros_like(slots), where=total > 0)[row]
    displays = posts * -np.expm1(-per_post)  # a post is displayed to a viewer once at most
    shown = displays * LINGER
    like = shown * like_chance[authors]
    voice = accounts.posts[viewers][row] / accounts.posts.mean()
    reply = shown * np.minimum(reply_chance[authors] * voice, 0.5)
    liked, replied = _split(like, reply, rng)
    cell = arm[row] * world.graph.size + authors
    shape = (len(world.rankings), world.graph.size)
    sums = [np.bincount(cell, x, math.prod(shape)) for x in (displays, liked, replied, shown - like - reply)]
    return np.reshape(sums, (len(sums), *shape)), liked, replied


def _split(like: Floats, reply: Floats, rng: Generator) -> tuple[Ints, Ints]:
    """Poisson counts of likes and replies, drawn together since both are mostly zero."""
    both = rng.poisson(like + reply)
    some = np.flatnonzero(both)
    replied = np.zeros_like(both)
    replied[some] = rng.binomial(both[some], reply[some] / (like[some] + reply[some]))
    return both - replied, replied


def suggested(world: World, source: str, seen: Home) -> Floats:
    """Expected displays (arms, authors) from one source of suggestions."""
    shown = np.zeros((len(world.rankings), world.graph.size))
    if any(r.slots(source) for r in world.rankings):
        for counts in world.blocks(lambda at, viewers: _suggested_block(world, source, seen, at, viewers)):
            shown += counts
    return shown


def _suggested_block(world: World, source: str, seen: Home, at: int, viewers: Ints) -> Floats:
    shown = np.zeros((len(world.rankings), world.graph.size))
    for i, ranking in enumerate(world.rankings):
        chosen, rng = viewers[world.arm[viewers] == i], world.stream(source, at)
        asking = np.repeat(chosen, CANDIDATES)
        authors, posts = _retrieved(world, source, ranking, seen, asking, rng)
        order = _ranked(world, ranking, seen, authors.reshape(len(chosen), -1), posts.reshape(len(chosen), -1), rng)
        patience = np.where(order >= 0, PATIENCE ** np.arange(CANDIDATES), 0.0)
        total = patience.sum(1)
        slots = ranking.slots(source) * world.accounts.attention[chosen]
        displays = patience * np.divide(slots, total, out=np.zeros_like(slots), where=total > 0)[:, None]
        shown[i] = np.bincount(np.maximum(order, 0).ravel(), displays.ravel(), minlength=world.graph.size)
    return shown


def _retrieved(
    world: World, source: str, ranking: Ranking, seen: Home, viewers: Ints, rng: Generator
) -> tuple[Ints, Any]:
    """An author for each viewer, and how many posts compete (1 where a single post was found).

    An author is -1 where the source finds nobody who could be shown.
    """
    single = np.ones(len(viewers))
    if source == "topics":  # liked on a topic that the viewer follows; he may follow the author too
        own_topic = rng.random(len(viewers)) < 0.5
        accounts = world.accounts
        return seen.liked_on.one_of(
            np.where(own_topic, accounts.community[viewers], accounts.second_topic[viewers]), rng
        ), single
    if not ranking.graph_suggestions:
        authors = rng.integers(0, world.graph.size, len(viewers))
        posts: Any = world.accounts.posts[authors]
    elif source == "likes":  # liked by somebody the viewer follows
        authors, posts = seen.liked_by.one_of(world.graph.followed.one_of(viewers, rng), rng), single
    elif source == "graph":  # liked by somebody who follows the same people
        alike = world.graph.followers.one_of(world.graph.followed.one_of(viewers, rng), rng)
        authors, posts = seen.liked_by.one_of(alike, rng), single
    else:
        authors, posts = _miscellaneous(world, seen, viewers, rng)
    followed = world.graph.has(viewers, np.maximum(authors, 0))
    return np.where(followed | (authors == viewers), -1, authors), posts


def _miscellaneous(world: World, seen: Home, viewers: Ints, rng: Generator) -> tuple[Ints, Any]:
    """Authors from four sources in equal parts: friends' follows, search, replies, liked topics."""
    way = rng.integers(0, 4, len(viewers))
    near = world.graph.followed.one_of(viewers, rng)
    subject = seen.liked_by.one_of(viewers, rng)
    subject = np.where(subject >= 0, world.accounts.community[subject], -1)
    everything = Lists.from_lengths([len(seen.liked_by.values)], seen.liked_by.values)
    ways = [
        world.graph.followed.one_of(near, rng),
        everything.one_of(np.zeros_like(viewers), rng),
        seen.repliers.one_of(near, rng),
        seen.liked_on.one_of(subject, rng),
    ]
    authors = np.choose(way, ways)
    return authors, np.where(way == 0, world.accounts.posts[authors], 1)


def _ranked(world: World, ranking: Ranking, seen: Home, authors: Ints, posts: Any, rng: Generator) -> Ints:
    """Each row of candidates in the order shown, those that cannot be shown last."""
    interest = world.accounts.interest[authors] + TASTE * rng.standard_normal(authors.shape)
    score = (
        ranking.sharpness * interest
        + ranking.proof * seen.proof[authors]
        + np.log(posts)
        + rng.gumbel(size=authors.shape)
    )
    order = np.argsort(np.where(authors >= 0, -score, np.inf), axis=1)
    return np.take_along_axis(authors, order, 1)


EFFORT = {"profile_clicks": 2.4, "likes": 2.1, "retweets": 2.7, "replies": 2.9, "quotes": 3.4}
"""How much interest it takes to engage with a post that one has looked at, in units of `taste`: the more effort, the rarer."""

ENGAGEMENTS = ("impressions", *EFFORT)

MIX = dict(zip(SOURCES, (0.7, 0.09, 0.07, 0.07, 0.07), strict=True))
"""Share of a feed that each source may fill."""

LINGER = 0.5
"""Chance that a displayed post is looked at long enough to be an impression."""

FOLLOWS = 25.0  # mean number of follows drawn per account; twice the same author counts once, so the table has fewer
COMMUNITIES = 50  # with sizes that fall as one over their rank; each is a topic too
HOMOPHILY = 0.5  # share of an author's followers who come from the own community
POSTS, POSTS_SPREAD = 15.0, 1.8  # mean, and sigma of the lognormal: a tenth of the authors writes 70% of the posts
APPEAL_SPREAD = 0.6  # sigma of the lognormal appeal of authors, which raises rank and engagement alike
TASTE = 1.0  # how far viewers differ about one author, on the same scale
ATTENTION, ATTENTION_SPREAD = 900.0, 1.0  # posts that a viewer looks through: mean, and sigma of the lognormal
CANDIDATES = 10  # posts that a source of suggestions retrieves for a viewer and ranks
PATIENCE = 0.5  # chance that a viewer who has read one suggestion reads the next one below

ARMS = ("control", "treatment")

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
    pull: Weight = 0.5,
    rewired: bool = False,
    mix: Mapping[str, float] = MIX,
    sharpness: Weight = 1.0,
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
    pull : how fast followers grow with posts, as a power of the posts.
    rewired : shuffle who follows whom, keeping everybody's number of followers and of follows.
    mix : share of a feed that each source may fill; shares count relative to their sum, a source left out is off.
    sharpness : weight of interest in the ranking: posts are shown with odds exp(sharpness * interest); 0 ignores it.
    proof : weight of social proof in the ranking of suggestions: the log of one plus the likes an author already has.
    graph_suggestions : False fills the slots of likes, graph and misc with authors drawn from the whole platform at
        random, so that these suggestions know nothing of the follower graph.
    change : what is different for a random half of the viewers, the arm "treatment": any of mix, sharpness, proof and
        graph_suggestions. The engagements then have a column `arm`.

    Examples
    --------
    >>> month = platform(1000, rng=7)
    >>> month.authors.columns
    ['author_id', 'community', 'followers', 'posts', 'displays']
    """
    _check(locals())
    ranking = Ranking(mix, sharpness, proof, graph_suggestions)
    rankings = [ranking] if change is None else [ranking, replace(ranking, **change)]
    seed = _seed(rng)
    draws, sizes = _stream(seed, "accounts"), 1 / np.arange(1, COMMUNITIES + 1)
    community = np.sort(draws.choice(COMMUNITIES, authors, p=sizes / sizes.sum()))
    accounts = Accounts(
        community=community,
        posts=1 + draws.poisson(POSTS * _lognormal(POSTS_SPREAD, authors, draws)),
        interest=np.log(_lognormal(APPEAL_SPREAD, authors, draws)),
        attention=ATTENTION * _lognormal(ATTENTION_SPREAD, authors, draws),
        second_topic=community[draws.integers(0, authors, authors)],
    )
    followers = _followers(accounts.posts.astype(np.float64) ** pull, tail, _stream(seed, "followers"))
    graph = follower_graph(
        accounts.community, followers, accounts.attention, HOMOPHILY, lambda block: _stream(seed, "follows", block)
    )
    if rewired:
        graph = graph.rewired(_stream(seed, "rewiring"))
    arm = _stream(seed, "arms").permutation(authors) % len(rankings)
    world = World(accounts, graph, rankings, arm, lambda name, block: _stream(seed, name, block))
    return _month(world, _stream(seed, "log"))


def _month(world: World, rng: Generator) -> Platform:
    from scipy.special import ndtr

    interest = world.accounts.interest
    mood = 1.0  # how far a viewer's interest in one author moves from post to post (standard deviation, normal)
    chance = {name: np.minimum(ndtr((interest - effort) / mood), 0.5) for name, effort in EFFORT.items()}
    seen = home(world, chance["likes"], chance["replies"])
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


def _lognormal(spread: float, size: int, rng: Generator) -> Floats:
    """Lognormal numbers with mean 1."""
    return rng.lognormal(-spread * spread / 2, spread, size)


def _followers(pull: Floats, tail: float, rng: Generator) -> Ints:
    """Followers per author: one, plus a heavy tail that grows with posts."""
    size = len(pull)
    beyond = pull if math.isinf(tail) else pull * rng.pareto(tail, size)
    expected = beyond * (FOLLOWS - 1) / beyond.mean()
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


Habit = Literal["even", "skewed", "bingeing"]
SPREAD = 1.2
"""How much viewers differ in activity (sigma of a lognormal)."""

FAVOURITES = 2
LOYAL = 0.6
"""Share of a bingeing viewer's views that go to the favourites."""


def trial(
    viewers: int = 2_000,
    authors: int = 300,
    *,
    share: float = 0.5,
    effect: float = 0.0,
    habit: Habit = "skewed",
    views: float = 8.0,
    rng: int | np.random.Generator | None = None,
) -> Any:
    """Rows of viewer, author, arm and views; a `share` of the viewers is in arm `new`.

    Authors are looked at by their popularity; in `new` it is flattened: to the power 1 - `effect`, so that 0 is no effect and 1
    treats all authors alike. Viewers are equally active (`even`), differ widely (`skewed`), or also return to two favourites
    for most of their views (`bingeing`).

    >>> trial(viewers=3, authors=5, rng=1).columns
    ['viewer', 'author', 'arm', 'views']
    """
    import polars as pl

    stream = np.random.default_rng(rng)
    popular = np.sort(stream.lognormal(0, 1.5, authors))
    sigma = 0.0 if habit == "even" else SPREAD
    many = stream.poisson(views * stream.lognormal(-(sigma**2) / 2, sigma, viewers))
    treated = stream.permutation(viewers) < round(viewers * share)
    viewer = np.repeat(np.arange(viewers), many)
    chances = [np.cumsum(popular ** (1 - effect * arm)) for arm in (0, 1)]

    def looks(of: Any) -> Any:
        drawn = stream.random(len(of))
        both = [np.searchsorted(c, drawn * c[-1]) for c in chances]
        return np.where(treated[of], both[1], both[0])

    author = looks(viewer)
    if habit == "bingeing":
        favourites = np.stack([looks(np.arange(viewers)) for _ in range(FAVOURITES)], 1)
        chosen = favourites[viewer, stream.integers(0, FAVOURITES, len(viewer))]
        author = np.where(stream.random(len(viewer)) < LOYAL, chosen, author)
    arm = np.where(treated, "new", "control")[viewer]
    return pl.DataFrame({"viewer": viewer, "author": author, "arm": arm, "views": np.ones(len(viewer), dtype=np.int64)})
