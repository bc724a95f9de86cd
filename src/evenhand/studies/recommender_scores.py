"""Scores that the recommender study measures: a generated catalogue, or a table of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.errors import EvenhandError
from evenhand.studies.own_data import read_table, two_sides
from evenhand.synthetic.catalogue import RECOMMENDERS

TOP = 10  # items in the list of each user
MOST_CELLS = 20_000_000  # users times items of a table: each recommender is a full matrix, 160 MB at this size


@dataclass(frozen=True)
class Case:
    """Scores of four recommenders, with relevance and groups of users; `versus` and `protected` are the source's groups a and b."""

    catalogue: eh.synthetic.Catalogue
    versus: str = "majority"
    protected: str = "minority"
    top: int = TOP

    @property
    def items(self) -> int:
        return int(self.catalogue.relevant.shape[1])

    @property
    def users(self) -> int:
        return len(self.catalogue.groups)

    def roles(self, name: str, mask: Any = slice(None)) -> dict[str, Any]:
        """The arguments of `eh.recommender`, and of its metrics, for one recommender and the users in a mask."""
        catalogue = self.catalogue
        return {
            "scores": catalogue.scores[name][mask], "user_groups": np.array(catalogue.groups)[mask].tolist(), "versus": self.versus,
            "protected": self.protected, "relevant": catalogue.relevant[mask], "top": self.top,
        }  # fmt: skip


def case_of_data(
    data: Any, columns: Mapping[str, str], sides: Mapping[str, Any], top: int, seed: int
) -> tuple[Case, str]:
    """The scores of a table as `personal`, with three recommenders made from them; and what they are, in words."""
    numbers = [columns["score"], columns["relevance"]]
    table, origin = read_table(data, list(columns.items()), numbers=numbers)
    table = table.select(**{role: pl.col(name) for role, name in columns.items()}).drop_nulls(["user", "item", "group"])
    users = table.group_by("group").agg(pl.col("user").n_unique())
    b, a = two_sides(dict(users.iter_rows()), **sides)
    table = table.filter(pl.col("group").is_in([a, b]))
    users = table.group_by("user", maintain_order=True).agg(pl.col("group").unique())
    items = table["item"].unique(maintain_order=True)
    if table.select("user", "item").is_duplicated().any():
        raise EvenhandError("The table scores an item twice for a user. Give each user and item one row.")
    if (users["group"].list.len() > 1).any():
        raise EvenhandError("The table gives a user two groups. Give each user one.")
    if (cells := users.height * len(items)) > MOST_CELLS:
        raise EvenhandError(
            f"{users.height:,} users times {len(items):,} items are {cells:,} scores, and the study holds {MOST_CELLS:,} at most. "
            "Pass a sample of the users."
        )
    if not 0 < top < len(items):
        raise EvenhandError(f"top={top} does not fit {len(items):,} items. Pass 1 to {len(items) - 1:,}.")
    groups = users["group"].list.first().cast(pl.String).to_list()
    words = (
        f"{origin}: {users.height:,} users and {len(items):,} items. Group a is {a}, group b is {b}. The recommender personal has the "
        "table's scores, popularity their mean by item (the same for all), debiased the scores less that mean, random draws"
    )
    return Case(_catalogue_of(table, users["user"], items, groups, seed), str(a), str(b), top), words


def _catalogue_of(
    table: pl.DataFrame, users: pl.Series, items: pl.Series, groups: list[str], seed: int
) -> eh.synthetic.Catalogue:
    """Full matrices of a table; what was not scored stays missing in all of them."""
    row = table["user"].replace_strict(users, np.arange(len(users))).to_numpy()
    column = table["item"].replace_strict(items, np.arange(len(items))).to_numpy()
    predicted, relevant = np.full((len(users), len(items)), np.nan), np.zeros((len(users), len(items)))
    predicted[row, column] = table["score"].cast(pl.Float64).to_numpy()
    relevant[row, column] = table["relevance"].cast(pl.Float64).fill_null(0.0).to_numpy() > 0
    is_scored = ~np.isnan(predicted)
    means = np.nansum(predicted, axis=0) / np.maximum(is_scored.sum(0), 1)
    scores = {
        "popularity": np.broadcast_to(means, predicted.shape),
        "random": np.random.default_rng([seed, 1]).random(predicted.shape),
        "personal": predicted,
        "debiased": predicted - means,
    }
    scores = {name: np.where(is_scored, scores[name], np.nan) for name in RECOMMENDERS}
    return eh.synthetic.Catalogue(groups, relevant, means, scores)
