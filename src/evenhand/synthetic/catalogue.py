"""A catalogue, two groups of users with partly different tastes, and recommenders whose bias is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError

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
