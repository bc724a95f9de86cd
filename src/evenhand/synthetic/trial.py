"""A log of an experiment whose effect is known: viewers in two arms look at the same authors."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

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
