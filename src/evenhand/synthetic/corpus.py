"""Search and recommendation systems of known bias.

A corpus has rankings, groups and judgments with the gaps that real ones have; a catalogue two groups of users with partly
different tastes, and what four recommenders score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Maker:
    """How a system scores: relevance, popularity, noise, and a handicap of the protected group.

    The score of an item is `skill` times its standardised relevance, plus `popularity` times its standardised popularity,
    plus `noise` times a normal draw, minus `bias` for protected items (times its share where an item is shared out).
    `bias` below zero favours them.
    """

    bias: float = 0.0
    skill: float = 1.0
    popularity: float = 0.0
    noise: float = 0.5

    def scores(self, relevance: Floats, popularity: Floats, share: Floats, draw: np.random.Generator) -> Floats:
        scores = self.skill * relevance + self.popularity * popularity - self.bias * share
        return scores + self.noise * draw.normal(size=relevance.shape)


@dataclass(frozen=True)
class Corpus:
    """Inputs of an audit, and the true bias of each system.

    Attributes
    ----------
    rankings : columns system, request, item, rank, score (predicted utility, zero or more).
    groups : columns item and group (missing where unknown); with `soft`, item and the shares P and U.
    relevance : columns request, item, relevance: what was judged.
    scores : columns system, request, item, score: everything that was scored for the first requests, for `eh.pairwise`.
    bias : the handicap of each system, as `Maker.bias` has it.
    """

    rankings: pl.DataFrame
    groups: pl.DataFrame
    relevance: pl.DataFrame
    scores: pl.DataFrame
    bias: Mapping[str, float]


SYSTEMS: Mapping[str, Maker] = {
    "fair": Maker(),
    "biased": Maker(bias=1.0),
    "popular": Maker(popularity=1.0),
    "random": Maker(skill=0.0, noise=1.0),
}


def corpus(
    items: int = 1_000,
    requests: int = 200,
    *,
    systems: Mapping[str, Maker] | None = None,
    protected: float = 0.3,
    unknown: float = 0.1,
    soft: bool = False,
    merit: float = 0.0,
    candidates: int | None = None,
    relevant: int = 5,
    judged: float = 1.0,
    depth: int = 20,
    scored: int = 0,
    rng: int | np.random.Generator | None = None,
) -> Corpus:
    """Generate a task: `systems` rank `items` for `requests`, with a bias that is known.

    Parameters
    ----------
    systems : name to `Maker` (default: fair, biased, popular, random).
    protected, unknown : share of items of the protected group "P" (others: "U"), and of items without a group.
    soft : items have one to four authors and belong to groups in equal parts.
    merit : how much less relevant protected items are, in standard deviations: a difference that is no system's doing.
    candidates : re-ranking: each request has that many items to order, on average (default: all items).
    relevant : items that are relevant to a request; a third of the candidates at most.
    judged : share of the pairs of request and relevant item that somebody judged; the others count as not relevant.
    depth : length of the lists.
    scored : requests for which all scores are kept.

    >>> found = corpus(50, 3, rng=1)
    >>> found.rankings.columns, found.bias["biased"]
    (['system', 'request', 'item', 'rank', 'score'], 1.0)
    """
    makers = dict(SYSTEMS if systems is None else systems)
    counts = {"items": items, "requests": requests, "depth": depth}
    counts |= {} if candidates is None else {"candidates": candidates}
    _check(makers, counts, {"protected": protected, "unknown": unknown, "judged": judged})
    draw, factors = np.random.default_rng(rng), 8
    share, groups = _groups(items, protected, unknown, soft, draw)
    popularity = draw.normal(size=items)
    taste = draw.normal(size=(requests, factors)) @ draw.normal(size=(items, factors)).T / np.sqrt(factors)
    worth = taste + 0.5 * popularity - merit * share
    pool = _pools(requests, items, candidates, draw)
    best_first = np.where(pool, -worth, np.inf).argsort(1, kind="stable").argsort(1, kind="stable")
    is_relevant = best_first < np.minimum(relevant, np.maximum(1, pool.sum(1) // 3))[:, None]
    relevance = (worth - worth.mean()) / worth.std()
    by_system = {name: maker.scores(relevance, popularity, share, draw) for name, maker in makers.items()}
    judged_relevant = is_relevant & (draw.random(is_relevant.shape) < judged)
    # Where there is a pool, all of it was looked at; in a whole catalogue only what was found relevant is known.
    q, d = np.nonzero(judged_relevant if pool.all() else pool & (~is_relevant | judged_relevant))
    judgments = _table(q, d, relevance=judged_relevant[q, d].astype(np.int64))
    bias = {name: maker.bias for name, maker in makers.items()}
    rankings, scores = _tables(by_system, pool, depth, scored)
    return Corpus(rankings, groups, judgments, scores, bias)


def _check(makers: Mapping[str, Maker], counts: Mapping[str, Any], shares: Mapping[str, Any]) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise EvenhandError(f"{name}={count!r} is not a count. Pass a whole number of one or more.")
    for name, value in shares.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise EvenhandError(f"{name}={value!r} is not a share. Pass a number from 0 to 1.")
    if not makers or not all(isinstance(m, Maker) for m in makers.values()):
        raise EvenhandError("systems does not map names to eh.synthetic.Maker. Pass {'name': Maker(bias=0.5)}.")
    if counts["items"] * counts["requests"] > 200_000_000:
        raise EvenhandError(
            f"{counts['items']:,} items times {counts['requests']:,} requests are too many. Pass fewer of either."
        )


def _groups(
    items: int, protected: float, unknown: float, soft: bool, draw: np.random.Generator  # noqa: FBT001
) -> tuple[Floats, pl.DataFrame]:  # fmt: skip
    """Share of each item that is protected, and the groups as an audit may see them."""
    import polars as pl

    names = [f"d{i}" for i in range(items)]
    hidden = draw.random(items) < unknown
    if not soft:
        is_protected = draw.random(items) < protected
        labels = np.where(is_protected, "P", "U").tolist()
        shown = [None if gone else label for label, gone in zip(labels, hidden.tolist(), strict=True)]
        return is_protected.astype(np.float64), pl.DataFrame(
            {"item": names, "group": shown}, schema_overrides={"group": pl.String}
        )
    authors = draw.integers(1, 5, items)
    leaning = np.clip(protected + 0.35 * draw.normal(size=items), 0, 1)  # authors of a paper are alike
    part = draw.binomial(authors, leaning) / authors
    return part, pl.DataFrame({"item": names, "P": part, "U": 1 - part}).filter(pl.Series(~hidden))


def _pools(requests: int, items: int, candidates: int | None, draw: np.random.Generator) -> npt.NDArray[np.bool_]:
    """(requests, items) which items each request may rank."""
    if candidates is None:
        return np.ones((requests, items), dtype=bool)
    sizes = np.clip(draw.poisson(candidates, requests), min(5, items), items)
    return np.asarray(draw.random((requests, items)).argsort(1).argsort(1) < sizes[:, None])


def _lists(value: Floats, depth: int) -> pl.DataFrame:
    """Best items of every request with rank and predicted utility (logistic of the score)."""
    requests, items = value.shape
    best = np.tile(np.arange(items), (requests, 1))
    if depth < items:
        best = np.argpartition(-value, depth - 1, axis=1)[:, :depth]
    order = np.argsort(-np.take_along_axis(value, best, 1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, 1)
    best_values = np.take_along_axis(value, best, 1)
    q, place = np.nonzero(np.isfinite(best_values))
    return _table(q, best[q, place], rank=place + 1, score=1 / (1 + np.exp(-best_values[q, place])))


def _tables(
    by_system: Mapping[str, Floats], pool: npt.NDArray[np.bool_], depth: int, scored: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    import polars as pl

    q, d = np.nonzero(pool[:scored])
    rankings, scores = [], []
    for name, values in by_system.items():
        system = pl.lit(name).alias("system")
        rankings.append(_lists(np.where(pool, values, -np.inf), depth).with_columns(system))
        scores.append(_table(q, d, score=values[q, d]).with_columns(system))
    first = ["system", "request", "item"]
    return pl.concat(rankings).select(*first, "rank", "score"), pl.concat(scores).select(*first, "score")


def _table(request: Any, item: Any, **columns: Any) -> pl.DataFrame:
    import polars as pl

    frame = pl.DataFrame({"request": request, "item": item, **columns})
    return frame.with_columns(pl.format("q{}", "request").alias("request"), pl.format("d{}", "item").alias("item"))


RECOMMENDERS = ("popularity", "random", "personal", "debiased")
GENRES = 8


@dataclass(frozen=True)
class Catalogue:
    """Users, items, and what is relevant to whom.

    Attributes
    ----------
    groups : group of each user, "majority" or "minority".
    relevant : (users, items) 1 where the item is relevant to the user.
    clicks : (items,) how often each item was clicked in the past; the majority made most of the clicks.
    scores : (users, items) scores of each recommender, by name.
    """

    groups: list[str]
    relevant: Floats
    clicks: Floats
    scores: dict[str, Floats]


def catalogue(
    users: int = 1_000,
    items: int = 400,
    *,
    minority: float = 0.3,
    apart: float = 0.7,
    noise: float = 0.5,
    penalty: float = 0.3,
    rng: Any = None,
) -> Catalogue:
    """A catalogue of `items` in eight genres, and four ways to recommend from it.

    Items differ in appeal. A user likes some genres; the minority's favourites are the majority's for `apart` 0 and the opposite
    for `apart` 1.
    What is relevant follows from appeal and taste, about as many items for every user. Four recommenders score it:

    * popularity: past clicks, the same list for everybody;
    * random: nothing but chance;
    * personal: the taste of the user, learned with `noise` that is larger for the minority, of whom there is less data;
    * debiased: personal minus `penalty` times the logarithm of past clicks.

    >>> made = catalogue(50, 40, rng=1)
    >>> made.relevant.shape, sorted(made.scores), made.groups.count("minority")
    ((50, 40), ['debiased', 'personal', 'popularity', 'random'], 15)
    """
    if users < 20 or items < 20:
        raise EvenhandError(
            f"users={users} and items={items} are too few for two groups and eight genres. Pass 20 or more of each."
        )
    draw = np.random.default_rng(rng)
    small = max(2, round(users * minority))
    groups = ["majority"] * (users - small) + ["minority"] * small
    genre = draw.integers(0, GENRES, items)
    appeal = draw.normal(0.0, 0.8, items)
    majority = np.where(np.arange(GENRES) < GENRES // 2, 1.0, -1.0)  # likes the first half of the genres
    is_minority = (np.array(groups) == "minority")[:, None]
    taste = np.where(is_minority, (1 - 2 * apart) * majority, majority) + 0.7 * draw.normal(size=(users, GENRES))
    liking = appeal + taste[:, genre]
    chance = 1 / (1 + np.exp(-2 * (liking - np.quantile(liking, 0.95, axis=1, keepdims=True))))
    relevant = (draw.random((users, items)) < chance).astype(np.float64)
    clicks = draw.poisson(chance.sum(0) + 0.5).astype(np.float64)
    unsure = np.where(is_minority, 1.6 * noise, noise)
    personal = liking + unsure * draw.normal(size=liking.shape)
    scores = {
        "popularity": np.broadcast_to(clicks + 1e-6 * draw.random(items), relevant.shape).copy(),
        "random": draw.random(relevant.shape),
        "personal": personal,
        "debiased": personal - penalty * np.log1p(clicks),
    }
    return Catalogue(groups, relevant, clicks, scores)
