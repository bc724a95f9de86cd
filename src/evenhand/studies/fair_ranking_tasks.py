"""The tasks of the fair-ranking study: generated with a known bias, or read from files.

On real ratings, four recommenders of LensKit are trained here. As in the paper: every rating is an interaction, five
interactions of each of up to 5,000 users are held out and count as relevant, and pairs are read off the models' scores of the
held out items and of items that the user never rated. LensKit is an extra, and is imported where it is used.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.errors import EvenhandError, MissingExtraError, listing
from evenhand.sources.labels import Labels  # ratings and their groups have no public reader
from evenhand.sources.trec import item_groups, ratings
from evenhand.studies.study import Table, read_table, two_sides
from evenhand.synthetic import Maker

RECOMMENDERS: Mapping[str, Maker] = {
    "UU-like": Maker(bias=0.2, skill=0.8, popularity=0.4, noise=0.6),
    "II-like": Maker(bias=-0.1, skill=0.9, popularity=0.0, noise=0.7),
    "MF-like": Maker(bias=0.5, skill=1.0, popularity=0.2, noise=0.4),
    "BPR-like": Maker(bias=0.9, skill=0.7, popularity=0.9, noise=0.5),
}
"""Four recommenders: who rates what, what is popular, and how much women's books are held back, all known."""


@dataclass(frozen=True)
class Task:
    """One experiment: what an audit reads, and the bias of each system where it is known."""

    name: str
    rankings: pl.DataFrame
    groups: Any
    relevance: pl.DataFrame
    protected: str
    versus: str
    hard: bool  # whether every item has one group
    scored: bool  # whether lists come with predicted utility
    bias: Mapping[str, float] | None = None
    scores: pl.DataFrame | None = None  # everything that was scored, for pairs
    weighted: bool = False  # whether rankings have columns `weight` and `sample`
    negatives: int | None = None  # opponents drawn for each item of a pair; None: all
    about: str = ""
    tables: tuple[Table, ...] = ()

    @property
    def labels(self) -> dict[str, Any]:
        return {"groups": self.groups, "relevance": self.relevance, "protected": self.protected, "versus": self.versus}

    @property
    def roles(self) -> dict[str, Any]:
        weights = {"sample": "sample", "weight": "weight"} if self.weighted else {}
        return {
            **self.labels,
            "system": "system",
            "score": "score" if self.scored else None,
            "chance": False,
            **weights,
        }


def generated(size: int, seed: int) -> list[Task]:
    shape: dict[str, Any] = {"soft": True, "unknown": 0.3, "protected": 0.2, "depth": 100}
    corpora = {
        "recommendation": eh.synthetic.corpus(
            1_500, size, systems=RECOMMENDERS, protected=0.1, unknown=0.1, relevant=5, depth=50, merit=0.2,
            scored=min(size, 60), rng=seed,
        ),
        "rerank 2019": eh.synthetic.corpus(2_052, size, systems=_many(14, seed + 1), candidates=8, relevant=3, **shape, rng=seed + 1),
        "rerank 2020": eh.synthetic.corpus(
            2_112, max(20, 2 * size // 3), systems=_many(23, seed + 2), candidates=15, relevant=4, **shape, rng=seed + 2
        ),
        "ad hoc 2020": eh.synthetic.corpus(
            2_112, max(20, 2 * size // 3), systems=_many(5, seed + 3), relevant=12, judged=0.4, **shape, rng=seed + 3
        ),
    }  # fmt: skip
    tasks = []
    for name, drawn in corpora.items():
        hard = "share" not in drawn.groups.columns
        scores = drawn.scores if hard and drawn.scores.height else None
        tasks.append(
            Task(
                name, drawn.rankings, drawn.groups, drawn.relevance, "P", "U", hard, scored=True, bias=drawn.bias, scores=scores,
                negatives=1_000,
            )
        )  # fmt: skip
    return tasks


def _many(systems: int, seed: int) -> dict[str, Maker]:
    rng = np.random.default_rng(seed)
    drawn = rng.normal(0.2, 0.5, systems), rng.uniform(0.2, 1, systems), rng.uniform(0.3, 1, systems)
    makers = zip(*(values.tolist() for values in drawn), strict=True)
    return {f"run {i:02}": Maker(bias=b, skill=s, noise=n) for i, (b, s, n) in enumerate(makers, 1)}


COLUMNS = ("system", "request", "item", "rank", "group", "relevance")
"""What a table of an experiment holds; `score`, the predicted utility, if it is there."""


def from_data(
    path: str | Path, seed: int, *, columns: Mapping[str, str], groups_in_other_file: bool = False, **sides: Any
) -> Task:  # fmt: skip
    if os.path.isdir(path):
        return from_trec(path, seed, **sides)
    if not os.path.isfile(path):
        raise EvenhandError(
            f"{str(path)!r} is not there. Pass a folder of the TREC Fair track, or a table of rankings."
        )
    return from_table(path, columns=columns, groups_in_other_file=groups_in_other_file, **sides)


def from_table(
    path: str | Path, *, columns: Mapping[str, str], groups_in_other_file: bool = False, protected: str | None = None,
    versus: str | None = None,
) -> Task:  # fmt: skip
    """A task from a table of rankings; `columns` maps roles to differently named columns.

    `groups_in_other_file` says that the column of groups may be meant for another file.
    """
    names = {role: columns.get(role, role) for role in (*COLUMNS, "score")}
    numbers = [names[role] for role in ("rank", "relevance", "score")]
    table, _ = read_table(str(path), [], None, numbers)
    if groups_in_other_file and names["group"] not in table.columns:
        names["group"] = "group"
    lost = [name for role, name in names.items() if name not in table.columns and (role in COLUMNS or role in columns)]
    if lost:
        raise EvenhandError(
            f"{str(path)!r} lacks {listing(lost)}. A table of rankings has columns for {listing(COLUMNS)}: name those that are "
            f"called otherwise. It has {listing(table.columns)}."
        )
    table = table.select(pl.col(name).alias(role) for role, name in names.items() if name in table.columns)
    if table["system"].n_unique() < 2:
        raise EvenhandError(f"{str(path)!r} holds one system, and metrics agree over systems. Pass two or more.")
    table = table.with_columns(pl.col("system").cast(pl.String), pl.col("relevance").cast(pl.Float64))
    sizes = table.drop_nulls("group").group_by("group").agg(pl.col("item").n_unique())
    protected_label, versus_label = two_sides(dict(sizes.iter_rows()), protected, versus)
    scored = "score" in table.columns and bool((table["score"].fill_null(-1.0) >= 0).all())
    rankings = table.select("system", "request", "item", "rank", "group", *(["score"] if scored else []))
    judged = table.select("request", "item", "relevance").unique()
    if judged.select("request", "item").is_duplicated().any():
        raise EvenhandError(f"{str(path)!r} gives an item of a request two grades of relevance. Give each item one.")
    about = f"{Path(path).name}: {judged['request'].n_unique():,} requests. Protected: {protected_label}, against {versus_label}."
    return Task(
        Path(path).stem, rankings, "group", judged, protected_label, versus_label, hard=True, scored=scored, about=about
    )


def from_trec(folder: str | Path, seed: int, *, protected: str | None = None, versus: str | None = None) -> Task:
    place = Path(folder)
    kinds = {path: _keys(path) for path in _files(place, "*.jsonl", "*.json")}
    queries = [p for p, keys in kinds.items() if "documents" in keys]
    labels = sorted(_files(place, "article*.csv"), key=lambda p: ("level" not in p.name, p.name))
    labels = labels or _files(place, "*group*.csv")
    if not queries or not labels:
        raise EvenhandError(
            f"{str(folder)!r} lacks queries (JSON lines with documents) or groups of documents (article-*.csv). Add them."
        )
    judged = eh.read.trec_fair_queries(min(queries, key=lambda p: ("eval" not in p.name, p.name)))
    groups = eh.read.trec_fair_groups(labels[0])
    runs = [p for p, keys in kinds.items() if "ranking" in keys]
    shares = groups.frame.drop_nulls("group").group_by("group").agg(pl.col("share").sum())
    protected_label, versus_label = two_sides(dict(shares.iter_rows()), protected, versus)
    lacking = "" if runs else "The folder holds no runs, so six re-rankers of the judged pools take their place. "
    return Task(
        place.resolve().name, eh.read.trec_fair_run(runs) if runs else _rerankers(judged, seed), groups,
        judged.select("request", "item", "relevance"), protected_label, versus_label, hard=False, scored=not runs,
        weighted=bool(runs),
        about=f"{judged['request'].n_unique():,} queries with {judged.height:,} judged documents, groups from {labels[0].name}. "
        f"{lacking}Protected: {protected_label}, against {versus_label}.",
    )  # fmt: skip


def _files(place: Path, *patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for ending in ("", ".gz") for path in place.rglob(pattern + ending))


def _keys(path: Path) -> set[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as handle:
        try:
            record = json.loads(handle.readline())
        except ValueError:
            return set()
    return set(record) if isinstance(record, dict) else set()


def _rerankers(judged: pl.DataFrame, seed: int) -> pl.DataFrame:
    """As listed, at random, by relevance, and by relevance with more and more noise."""
    draw = np.random.default_rng(seed)
    relevance = judged["relevance"].fill_null(0).to_numpy()
    noise = {"by relevance": 0.0, "some noise": 0.5, "more noise": 1.0, "much noise": 2.0}
    scores = {"as listed": -judged["rank"].to_numpy() / 10.0, "random": draw.normal(size=len(relevance))}
    scores |= {name: relevance + by * draw.normal(size=len(relevance)) for name, by in noise.items()}
    lists = [
        judged.select("request", "item").with_columns(
            pl.lit(name).alias("system"), pl.Series("score", 1 / (1 + np.exp(-value)))
        )
        for name, value in scores.items()
    ]
    place = pl.col("score").rank("ordinal", descending=True).over("system", "request").cast(pl.Int64)
    return pl.concat(lists).with_columns(place.alias("rank")).select("system", "request", "item", "rank", "score")


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
    labels = counts.select("item", third.alias("group"))
    return Labels.from_frame(labels, origin="popularity")


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
