"""The tasks of the fair-ranking study: generated with a known bias, or read from files."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.errors import EvenhandError, listing
from evenhand.studies.study import Table
from evenhand.studies.user_tables import read_table, two_sides
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
    """One experiment: what an audit reads, and the bias of each system where it is known.

    Attributes
    ----------
    hard : whether every item has one group; scored : whether lists come with predicted utility.
    scores : everything that was scored, for pairs; negatives : how many opponents are drawn for each item (None: all).
    weighted : whether rankings have columns `weight` and `sample`.
    about, tables : what a reader should know of the data.
    """

    name: str
    rankings: pl.DataFrame
    groups: Any
    relevance: pl.DataFrame
    protected: str
    versus: str
    hard: bool
    scored: bool
    bias: Mapping[str, float] | None = None
    scores: pl.DataFrame | None = None
    weighted: bool = False
    negatives: int | None = None
    about: str = ""
    tables: tuple[Table, ...] = ()

    @property
    def labels(self) -> dict[str, Any]:
        """Groups, their two sides, and relevance, as arguments of an audit."""
        return {"groups": self.groups, "relevance": self.relevance, "protected": self.protected, "versus": self.versus}

    @property
    def roles(self) -> dict[str, Any]:
        """The arguments of `eh.exposure` for the rankings."""
        weights = {"sample": "sample", "weight": "weight"} if self.weighted else {}
        return {
            **self.labels,
            "system": "system",
            "score": "score" if self.scored else None,
            "chance": False,
            **weights,
        }


def generated(size: int, seed: int) -> list[Task]:
    """Generated tasks: recommendation, two of re-ranking, and ad hoc with soft groups and gaps."""
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
    """Systems that differ in bias, skill and noise, independently of each other."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(0.2, 0.5, systems), rng.uniform(0.2, 1, systems), rng.uniform(0.3, 1, systems)
    makers = zip(*(values.tolist() for values in drawn), strict=True)
    return {f"run {i:02}": Maker(bias=b, skill=s, noise=n) for i, (b, s, n) in enumerate(makers, 1)}


COLUMNS = ("system", "request", "item", "rank", "group", "relevance")
"""What a table of an experiment holds; `score`, the predicted utility, if it is there."""


def from_data(
    path: str | Path, seed: int, *, columns: Mapping[str, str], groups_in_other_file: bool = False, **sides: Any
) -> Task:  # fmt: skip
    """One experiment, from a folder of the TREC Fair track or a table of rankings."""
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
    """A task from the track's queries and groups, with its runs or with re-rankers."""
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
    """Files of these kinds in the folder and the folders below it, also gzipped."""
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
