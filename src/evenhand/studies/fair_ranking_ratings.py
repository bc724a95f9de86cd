"""The recommendation task on real ratings: four recommenders of LensKit, trained here.

As in the paper: every rating is an interaction, five interactions of each of up to 5,000 users are held out and count as
relevant, and pairs are read off the models' scores of the held out items and of items that the user never rated.
LensKit is imported where it is used: it is an extra, with an environment of its own.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evenhand.errors import EvenhandError, MissingExtraError
from evenhand.sources.labels import Labels  # ratings and their groups have no public reader
from evenhand.sources.ratings import item_groups, ratings
from evenhand.studies.fair_ranking_tasks import Task
from evenhand.studies.study import Table
from evenhand.studies.user_tables import two_sides

log = logging.getLogger("evenhand")
LEAST, HELD_OUT = 10, 5  # interactions that a test user must have, and how many of them are held out
THIRDS = ("tail", "middle", "head")


@dataclass(frozen=True)
class Split:
    """Interactions to train on, and those held out, with columns user and item."""

    train: pl.DataFrame
    test: pl.DataFrame

    @property
    def users(self) -> list[Any]:
        return list(self.test["user"].unique(maintain_order=True))


def from_ratings(
    path: str | Path, seed: int, *, groups: str | Path | Sequence[str | Path] | None = None, group: str | None = None,
    protected: str | None = None, versus: str | None = None, users: int | None = None,
) -> Task:  # fmt: skip
    """Train the four recommenders on a file of ratings and collect what an audit reads."""
    try:
        import lenskit.data  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("lenskit", "lenskit") from error
    rated = ratings(path)
    split = held_out(rated, 5_000 if users is None else users, seed)
    labels = _thirds(rated) if groups is None else item_groups(groups, group=group)
    protected_label, versus_label, note = _sides(labels, rated, protected, versus)
    by_popularity = "" if groups is not None else (
        "No groups were named, so items are grouped by popularity: the most rated ones that together hold a third of all "
        "ratings are the head, the least rated ones that hold a third are the tail. "
    )  # fmt: skip
    rankings, scores = _recommendations(split, seed)
    pairs = "" if labels.soft else f"Pairs rest on the scores of {scores['request'].n_unique():,} users. "
    return Task(
        f"recommendation ({Path(path).name})", rankings, labels,
        split.test.select(request="user", item="item").with_columns(relevance=1.0), protected_label, versus_label, not labels.soft, True,
        scores=None if labels.soft else scores,
        about=f"{rated.height:,} interactions of {rated['user'].n_unique():,} users with {rated['item'].n_unique():,} items; "
        f"{len(split.users):,} users with {LEAST} or more were tested on {HELD_OUT} each, held out. {by_popularity}{note}"
        f"{pairs}Models learn that a user rated, not how; for IAA, scores of MF below zero count as zero and those of BPR go "
        "through the logistic function.",
        tables=(_recall(rankings, split),),
    )  # fmt: skip


def held_out(rated: pl.DataFrame, users: int, seed: int) -> Split:
    """A split with five test items for up to `users` users; independent of the file's order."""
    many = rated.group_by("user").len().filter(pl.col("len") >= LEAST).sort("user")["user"]
    if len(many) < 20:
        raise EvenhandError(
            f"Only {len(many)} users have {LEAST} interactions or more, and 20 are needed. Pass a file with more of them."
        )
    draw = np.random.default_rng([seed, 1])
    chosen = many if len(many) <= users else many.gather(np.sort(draw.choice(len(many), users, replace=False)))
    luck = pl.Series("luck", draw.random(rated.height))
    place = rated.with_columns(luck).with_columns(pl.col("luck").rank("ordinal").over("user").alias("place"))
    test = pl.col("user").is_in(chosen.implode()) & (pl.col("place") <= HELD_OUT)
    return Split(place.filter(~test).select("user", "item"), place.filter(test).select("user", "item"))


def _thirds(rated: pl.DataFrame) -> Labels:
    """Items by popularity, each third with a third of all ratings."""
    counts = rated.group_by("item").len("ratings").sort("ratings", "item")
    middle = (pl.col("ratings").cum_sum() - pl.col("ratings") / 2) / pl.col("ratings").sum()
    third = (middle * 3).floor().clip(0, 2).cast(pl.Int64).replace_strict(dict(enumerate(THIRDS)))
    labels = counts.select("item", third.alias("group"), pl.lit(1.0).alias("share"))
    return Labels.from_frame(labels, soft=False, origin="popularity")


def _sides(labels: Labels, rated: pl.DataFrame, protected: str | None, versus: str | None) -> tuple[str, str, str]:
    """The protected group and the other, and what a reader should know about who has a label."""
    items = rated.select(pl.col("item").unique().cast(pl.String))
    labelled = labels.frame.drop_nulls("group").with_columns(pl.col("item").cast(pl.String))
    rows = items.join(labelled, on="item")
    sizes = rows.group_by("group").agg(pl.col("share").sum()).cast({"group": pl.String})
    counted = dict(sizes.iter_rows())
    # Thirds by popularity hold as many ratings each: the tail is compared with the head.
    order = {third: i for i, third in enumerate(THIRDS)} if labels.origin == "popularity" else counted
    protected_label, versus_label = two_sides(order, protected, versus)
    unlabelled = 1 - rows["item"].n_unique() / items.height
    return protected_label, versus_label, (
        f"Protected: {protected_label} ({counted[protected_label]:,.0f} items), against {versus_label} ({counted[versus_label]:,.0f}); "
        f"{unlabelled:.0%} of the items have no known group. "
    )  # fmt: skip


def _models() -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """The recommenders, and how their scores become utility, which must not be negative."""
    from lenskit.als import ImplicitMFScorer
    from lenskit.flexmf import FlexMFImplicitScorer
    from lenskit.knn import ItemKNNScorer, UserKNNScorer

    return {
        "user-user": (UserKNNScorer(feedback="implicit", max_nbrs=30), lambda s: s),
        "item-item": (ItemKNNScorer(feedback="implicit", max_nbrs=20), lambda s: s),
        "implicit MF": (ImplicitMFScorer(embedding_size=50, epochs=10), lambda s: np.maximum(s, 0)),
        "BPR": (FlexMFImplicitScorer(preset="bpr", embedding_size=50, epochs=20), lambda s: 1 / (1 + np.exp(-s))),
    }


def _recommendations(split: Split, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lists of all systems with rank and score, and scores of the candidate pairs."""
    from lenskit import batch
    from lenskit.data import ItemList, ItemListCollection, from_interactions_df
    from lenskit.pipeline import topn_pipeline
    from lenskit.training import TrainingOptions

    data = from_interactions_df(split.train.rename({"user": "user_id", "item": "item_id"}).to_pandas())
    candidates = {user: ItemList(item_ids=ids) for user, ids in _candidates(split, seed).items()}
    pairs = ItemListCollection.from_dict(candidates, "user_id")
    lists, scores = [], []
    for name, (scorer, utility) in _models().items():
        log.info("training %s", name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LensKit's and Torch's own, about each other
            pipeline = topn_pipeline(scorer, n=50)
            # Compiling needs a C++ compiler and takes longer than training.
            options = TrainingOptions(rng=seed, device="cpu", environment={"LK_TORCH_COMPILE": "0"})
            pipeline.train(data, options)
            log.info("asking %s", name)
            recommended: Any = pl.from_arrow(batch.recommend(pipeline, split.users, n_jobs=1).to_arrow(layout="flat"))
            scored: Any = pl.from_arrow(batch.score(pipeline, pairs, n_jobs=1).to_arrow(layout="flat"))
        named = {
            "system": pl.lit(name),
            "request": "user_id",
            "item": "item_id",
            "score": pl.col("score").cast(pl.Float64),
        }
        lists.append(recommended.select("rank", **named).with_columns(pl.col("score").map_batches(utility, pl.Float64)))
        scores.append(scored.select(**named))
    return pl.concat(lists), pl.concat(scores)


def _candidates(split: Split, seed: int) -> dict[Any, Any]:
    """Items to score per user: the test items and (a sample of) those the user never rated."""
    draw = np.random.default_rng([seed, 2])
    items = split.train["item"].unique().sort().to_numpy()
    sampled = min(len(items), 10_000)
    users = split.users
    most = max(20, 10_000_000 // (4 * (sampled + HELD_OUT)))  # ten million scores in all, of four systems
    if len(users) > most:
        users = [users[i] for i in np.sort(draw.choice(len(users), most, replace=False))]
    rated = dict(split.train.group_by("user").agg("item").iter_rows())
    test = dict(split.test.group_by("user").agg("item").iter_rows())
    candidates = {}
    for user in users:
        negatives = items if sampled == len(items) else items[np.sort(draw.choice(len(items), sampled, replace=False))]
        negatives = negatives[~np.isin(negatives, rated.get(user, []))]
        candidates[user] = np.union1d(negatives, test[user])
    return candidates


def _recall(rankings: pl.DataFrame, split: Split) -> Table:
    """Recall of the held-out items by system, to show one that learned nothing."""
    hits = rankings.join(split.test.rename({"user": "request"}), on=["request", "item"])
    hit_counts = dict(hits.group_by("system").len().iter_rows())
    lists = rankings.group_by("system", maintain_order=True).agg(
        pl.col("request").n_unique(), pl.len() / pl.col("request").n_unique()
    )
    rows = tuple(
        (name, f"{requests:,}", f"{length:.1f}", f"{hit_counts.get(name, 0) / split.test.height:.1%}")
        for name, requests, length in lists.iter_rows()
    )
    return Table(
        "How well the systems work",
        ("system", "users with a list", "items per list", f"found of the {HELD_OUT} held out"),
        rows,
    )
