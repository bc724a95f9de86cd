"""Small made-up tables for the demo: searches with stances, a shop with two systems, invitations with scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import polars as pl

STANCES = ("against", "neutral", "for")


def searches(queries: int = 40, depth: int = 20, *, rng: int | np.random.Generator | None = None) -> pl.DataFrame:
    """Result pages of two engines with a stance per result; one demotes results `against`.

    Columns `engine`, `query`, `rank`, `stance`.
    """
    import polars as pl

    stream = np.random.default_rng(rng)
    parts = []
    for engine, push in (("plain", 0.0), ("slanted", 1.5)):
        stance = stream.choice(len(STANCES), (queries, depth), p=(0.3, 0.4, 0.3))
        pull = stream.gumbel(size=(queries, depth)) - push * (stance == 0)
        ordered = np.take_along_axis(stance, np.argsort(-pull, axis=1), axis=1)
        parts.append(
            pl.DataFrame(
                {
                    "engine": [engine] * (queries * depth),
                    "query": np.repeat(np.arange(queries), depth),
                    "rank": np.tile(np.arange(1, depth + 1), queries),
                    "stance": np.array(STANCES)[ordered.ravel()],
                }
            )
        )
    return pl.concat(parts)


def shop(
    requests: int = 200, items: int = 300, depth: int = 20, *, rng: int | np.random.Generator | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Rankings of two systems, the sellers of the items, and what shoppers wanted.

    One system ranks by a noisy guess of the relevance, the other also by past sales, of which small sellers have few.
    Rankings `system`, `request`, `item`, `rank`; sellers `item`, `group`; judgments `request`, `item`, `relevance`.
    """
    import polars as pl

    stream = np.random.default_rng(rng)
    small = stream.random(items) < 0.4
    sales = stream.lognormal(np.where(small, 0.0, 1.2), 1.0)
    is_relevant = stream.random((requests, items)) < 0.1
    guess = is_relevant + stream.normal(0, 0.6, (requests, items))
    names = np.array([f"item{i}" for i in range(items)])
    parts = []
    for system, weight in (("relevance", 0.0), ("bestseller", 0.5)):
        top = np.argsort(-(guess + weight * np.log(sales)), axis=1)[:, :depth]
        parts.append(
            pl.DataFrame(
                {
                    "system": [system] * top.size,
                    "request": np.repeat(np.arange(requests), depth),
                    "item": names[top.ravel()],
                    "rank": np.tile(np.arange(1, depth + 1), requests),
                }
            )
        )
    sellers = pl.DataFrame({"item": names, "group": np.where(small, "small seller", "large seller")})
    request, item = np.nonzero(is_relevant)
    judged = pl.DataFrame({"request": request, "item": names[item], "relevance": np.ones(len(request), dtype=np.int64)})
    return pl.concat(parts), sellers, judged


def invitations(
    viewers: int = 2_000, shown: int = 8, *, bias: float = 0.08, rng: int | np.random.Generator | None = None
) -> pl.DataFrame:
    """Invitations with score and answer; the score under-rates one group by `bias`.

    Columns `viewer_id`, `gender`, `score`, `accepted`.
    """
    import polars as pl

    stream = np.random.default_rng(rng)
    rows = viewers * shown
    gender: Any = stream.choice(["female", "male", "unknown"], rows, p=(0.4, 0.45, 0.15))
    chance = stream.beta(2.0, 3.0, rows)
    accepted = stream.random(rows) < chance
    noise = stream.normal(0, 0.05, rows)
    score = np.clip(chance - bias * (gender == "female") + noise, 0.0, 1.0)
    viewer = np.repeat(np.arange(viewers), shown)
    return pl.DataFrame(
        {"viewer_id": viewer, "gender": gender, "score": score.round(4), "accepted": accepted.astype(np.int64)}
    )


def listeners(
    users: int = 300, items: int = 200, rated: int = 60, *, rng: int | np.random.Generator | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Scores of a recommender that knows its many adult users better than its few young ones.

    Scores `user`, `item`, `score`; users `user`, `group`.
    """
    import polars as pl

    stream = np.random.default_rng(rng)
    young = stream.random(users) < 0.25
    popular = stream.lognormal(0, 1, items)
    taste = np.where(young[:, None], stream.permutation(popular), popular) * stream.lognormal(0, 0.5, (users, items))
    blur = np.where(young, 1.5, 0.4)[:, None]
    score = np.log(taste) + blur * stream.normal(size=(users, items))
    seen = np.argsort(stream.random((users, items)), axis=1)[:, :rated]
    table = pl.DataFrame(
        {
            "user": np.repeat(np.arange(users), rated),
            "item": seen.ravel(),
            "score": np.take_along_axis(score, seen, axis=1).ravel().round(4),
        }
    )
    return table, pl.DataFrame({"user": np.arange(users), "group": np.where(young, "young", "adult")})
