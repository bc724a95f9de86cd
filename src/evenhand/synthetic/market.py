"""A market of providers: candidates of every request with scores, and who provides them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from evenhand.cards import Between

if TYPE_CHECKING:
    import polars as pl


def market(
    requests: Annotated[int, Between(1, 10**7)] = 500,
    candidates: Annotated[int, Between(1, 100_000)] = 60,
    *,
    providers: Annotated[int, Between(2, 10**6)] = 50,
    items: Annotated[int, Between(1, 10**7)] = 600,
    skew: Annotated[float, Between(0, 10)] = 1.0,
    taste: Annotated[float, Between(0, 10)] = 1.0,
    rng: int | np.random.Generator | None = None,
) -> pl.DataFrame:
    """Candidates of every request with provider, score and relevance.

    Columns `request`, `item`, `provider`, `score` in (0, 1), `relevance` 0 or 1.

    A provider has a reputation, normal with standard deviation `skew`; an item adds an appeal of its own, and a request a
    `taste` for it. The score is the chance that the item is relevant, so scores are right on average. The larger `skew` is
    beside `taste`, the more do a few providers head every list, and the dearer it is to change that.

    >>> made = market(3, 5, providers=4, items=20, rng=1)
    >>> made.height, made.columns
    (15, ['request', 'item', 'provider', 'score', 'relevance'])
    """
    import polars as pl

    draws = np.random.default_rng(rng)
    many = min(candidates, items)
    provider = np.concatenate([np.arange(providers), draws.integers(0, providers, max(0, items - providers))])[:items]
    appeal = skew * draws.normal(size=providers)[provider] + 0.5 * draws.normal(size=items)
    # the `many` smallest of random keys: a sample without replacement for each request
    item = np.argpartition(draws.random((requests, items)), many - 1, axis=1)[:, :many]
    logit = appeal[item] + taste * draws.normal(size=item.shape) - 1.0
    score = 1 / (1 + np.exp(-logit))
    relevant = draws.random(item.shape) < score
    return pl.DataFrame(
        {
            "request": np.repeat(np.arange(requests), many), "item": item.ravel(), "provider": provider[item].ravel(),
            "score": score.ravel(), "relevance": relevant.ravel().astype(np.int64),
        }
    )  # fmt: skip
