"""The comparison of fair ranking metrics (Raj et al., 2022), rerun on four tasks.

The corpora are generated, so that the bias of every system is known and a metric's order can be held against the truth.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audits.declare import Label
from evenhand.errors import EvenhandError, MissingExtraError, listing
from evenhand.report.table import BY_CHANCE, system_cells
from evenhand.sources.labels import Labels  # ratings and their groups have no public reader
from evenhand.sources.trec import item_groups
from evenhand.sources.trec import ratings as read_ratings
from evenhand.studies.study import (
    UNKNOWN,
    Claim,
    Figure,
    File,
    Paths,
    Replicates,
    Study,
    Table,
    decide,
    read_table,
    select,
    two_sides,
)
from evenhand.synthetic import Maker

if TYPE_CHECKING:
    from evenhand.audits.requests import RankingResult

log = logging.getLogger("evenhand")
HALVES = 12  # of the requests, drawn at random; each is one more run of the study
TITLE = "Do fair ranking metrics agree on which system is fairer?"
CAVEAT = (
    "The tasks are made up in the shape of the paper's four (sizes, gaps, soft groups), and the bias of every system is drawn: a "
    "yes or no says what these metrics do on such data, not what they did on the paper's."
)
SYSTEMS = "Verdicts are about these systems: they allow for other requests, not for other systems."


@dataclass(frozen=True)
class Run:
    task: Task
    parts: tuple[RankingResult, ...]
    agreed: eh.Result

    @property
    def systems(self) -> int:
        return len(self.agreed.provenance["systems"])


def study(
    *, size: int | None = None, seed: int = 1, data: Paths = None, ratings: File = None, groups: Paths = None,
    group: str | None = None, protected: Label = None, versus: Label = None, system: str | None = None,
    request: str | None = None, item: str | None = None, rank: str | None = None, relevance: str | None = None,
    score: str | None = None,
) -> Study:  # fmt: skip
    """Rerun the comparison.

    On generated tasks of about `size` requests each; or on experiments of one's own: tables or folders of `data`, and a file
    of `ratings`, from which four recommenders of LensKit learn and are asked for up to `size` users.

    Parameters
    ----------
    data : folder of the TREC Fair track, or table with one row per system, request and ranked item; may be repeated,
        for several experiments.
    ratings : MovieLens (u.data, ratings.dat, ratings.csv) or GoodReads interactions (JSON lines, .gz); needs the
        extra lenskit.
    groups : with ratings, file with the group of each item; or two files, items to authors and authors to groups
        (default: thirds by popularity).
    group : column with the label of each item (default: group; with ratings also gender, or the only one).
    protected : the protected group (default: the smallest).
    versus : the group that the protected one is compared with (default: the largest).
    system : column with the name of the system, in tables of data (default: system).
    request : column with the request id (default: request).
    item : column with the item id (default: item).
    rank : column with the rank, 1 is best (default: rank).
    relevance : column with the relevance grade (default: relevance).
    score : column with the predicted utility, for metrics that need it (default: score, if there is one).
    """
    chosen = {"groups": groups, "group": group, "protected": protected, "versus": versus}
    columns = {
        "system": system, "request": request, "item": item, "rank": rank, "relevance": relevance, "score": score,
    }  # fmt: skip
    where, tasks = _tasks(size, seed, data, ratings, chosen, {k: v for k, v in columns.items() if v is not None})
    runs = []
    for task in tasks:
        log.info("task %s", task.name)
        runs.append(_run(task, seed))
    compared = [[eh.compare(part, rng=seed) for part in run.parts] for run in runs]
    tables = [_values(run, comparisons) for run, comparisons in zip(runs, compared, strict=True)] + [_taus(runs)]
    about = "".join(f"{task.about} " for task in tasks if task.about)
    sizes = "; ".join(f"{run.task.name}: {run.systems} systems" for run in runs)
    return Study(
        name="fair-ranking",
        title=TITLE,
        setting=f"{where} (seed {seed}). {sizes}. {about}Unknown groups are left out of AWRF and logDP and are a group of their own "
        "in IAA and EE*.",
        claims=claims(_replicates(runs, seed)),
        tables=tuple(tables),
        figures=_figures(runs),
        caveats=(SYSTEMS,) if data is not None or ratings is not None else (CAVEAT, SYSTEMS),
    )


def _tasks(
    size: int | None,
    seed: int,
    data: str | Path | Sequence[str | Path] | None,
    ratings: str | Path | None,
    chosen: Mapping[str, Any],
    columns: Mapping[str, str],
) -> tuple[str, list[Task]]:
    requests = 150 if size is None else size
    if isinstance(requests, bool) or not isinstance(requests, int) or requests < 20:
        raise EvenhandError(f"size={size!r} is too small for four tasks. Pass 20 requests or more.")
    if ratings is None and chosen["groups"] is not None:
        raise EvenhandError("groups= belongs to a file of ratings. Pass ratings= too.")
    if data is None and ratings is None:
        if lost := [f"{name}=" for name, value in {**chosen, **columns}.items() if value is not None]:
            raise EvenhandError(f"{listing(lost)} belongs to data of one's own. Pass data= or ratings= too.")
        return f"Generated tasks of about {requests:,} requests", generated(requests, seed)
    paths = [] if data is None else [data] if isinstance(data, (str, Path)) else list(data)
    if chosen["group"] is not None:
        columns = {**columns, "group": chosen["group"]}
    if columns.keys() - ({"group"} if ratings is not None else set()) and all(os.path.isdir(path) for path in paths):
        lost = [f"{name}=" for name in columns]
        raise EvenhandError(f"{listing(lost)} names columns of a table of rankings, and there is none. Leave it out.")
    tasks = [from_data(path, seed, columns, chosen["protected"], chosen["versus"]) for path in paths]
    tasks += [] if ratings is None else [from_ratings(ratings, seed, users=size, **chosen)]
    names = [task.name for task in tasks]
    tasks = [
        task if names.count(task.name) == 1 else replace(task, name=f"{task.name} ({i})")
        for i, task in enumerate(tasks, 1)
    ]
    return f"Files in {listing([*paths, *([] if ratings is None else [ratings])])}", tasks


def _run(task: Task, seed: int, permutations: int = 9_999) -> Run:
    measure = partial(eh.exposure, task.rankings, interval=None, **task.roles)
    hard = ["fair", "log_eur", "log_rur"] if task.hard else []
    scored = ["iaa"] if task.scored else []
    parts: tuple[RankingResult, ...] = (
        measure(unknown="drop", metrics=[AWRF, AWRF_EQUAL, "log_dp", *hard], rng=seed),
        measure(unknown="group", metrics=["eed", "eel", "eer", *scored], rng=seed),
    )
    if task.scores is not None:
        parts += (
            eh.pairwise(
                task.scores, **task.labels, system="system", metrics=("intra_acc", "inter_acc"), negatives=task.negatives,
                interval=None, rng=seed, nan_policy="omit",
            ),
        )  # fmt: skip
    return Run(task, parts, eh.agreement(*parts, draws=permutations, rng=seed))


def _replicates(runs: Sequence[Run], seed: int) -> Replicates[Tasks]:
    log.info("the same on %s halves of the requests, for its errors", HALVES)
    halves = []
    for i in range(HALVES):
        tasks = [_half(run.task, np.random.default_rng([seed, i])) for run in runs]
        halves.append(Tasks([_measured(_run(task, seed, permutations=99)) for task in tasks]))
    return Replicates(Tasks([_measured(run) for run in runs]), halves, is_halved=True)


def _half(task: Task, rng: np.random.Generator) -> Task:
    requests = task.rankings["request"].unique().sort()
    half = requests.gather(rng.permutation(len(requests))[: (len(requests) + 1) // 2])
    is_kept = pl.col("request").is_in(half.implode())
    scores = None if task.scores is None else task.scores.filter(is_kept)
    return replace(
        task, rankings=task.rankings.filter(is_kept), scores=scores if scores is not None and scores.height else None
    )


def _measured(run: Run) -> Measured:
    taus = {
        frozenset((r["metric"], r["other"])): float(r["tau_c"]) for r in select(run.agreed) if r["tau_c"] is not None
    }
    task, metric = run.task, "pref_nd" if run.task.hard else "pref_kl(normalizer=None)"
    prefix = eh.exposure(task.rankings, metrics=metric, interval=None, **task.roles).per_request
    lost = {"pref": float(np.mean(np.isnan(np.asarray(prefix["estimate"]))))}
    each = run.parts[0].per_request
    for name in ("log_eur", "log_rur"):
        estimates = [v for m, v in zip(each["metric"], each["estimate"], strict=True) if m == name]
        if estimates:
            lost[name] = float(np.mean(~np.isfinite(estimates)))
    return Measured(task.name, run.systems, taus, lost, _accuracy_by_scores_and_lists(task))


def _accuracy_by_scores_and_lists(task: Task) -> tuple[float, float] | None:
    """Inter-group accuracy of the most biased (or first) system, from all scores and from lists."""
    if task.scores is None:
        return None
    bias = task.bias or dict.fromkeys(task.rankings["system"].unique(maintain_order=True), 0.0)
    worst = max(bias, key=lambda s: abs(bias[s]))
    accuracies = []
    for table in (task.scores, task.rankings):
        scored = table.filter(table["system"] == worst).select("request", "item", "score")
        # A model has no score for what it was never trained on.
        result = eh.pairwise(scored, **task.labels, metrics="inter_acc", interval=None, nan_policy="omit")
        accuracies.append(float(select(result)[0]["estimate"]))
    return accuracies[0], accuracies[1]


def _values(run: Run, compared: Sequence[eh.Result]) -> Table:
    head: list[str] = []
    rows: dict[str, list[str]] = {}
    for result in compared:
        names, cells = system_cells(result.findings.curves["systems"])
        head += names[1:] if head else names
        for row in cells:
            if row[0].text == BY_CHANCE:
                continue
            texts = [f"{cell.text} {cell.letters}".strip() for cell in row]
            rows.setdefault(texts[0], [texts[0]]).extend(texts[1:])
    title = f"{run.task.name}: values, the fairer direction, and letters for systems that cannot be told apart"
    return Table(title, tuple(head), tuple(tuple(row) for row in rows.values()))


def _taus(runs: list[Run]) -> Table:
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for run in runs:
        for r in select(run.agreed):
            if r["metric"] < r["other"]:
                text = "undefined" if np.isnan(r["tau_c"]) else f"{r['tau_c']:.2f} (p {r['p']:.3f})"
                cells.setdefault((r["metric"], r["other"]), {})[run.task.name] = text
    names = [run.task.name for run in runs]
    rows = tuple((a, b, *(by_task.get(name, "") for name in names)) for (a, b), by_task in sorted(cells.items()))
    return Table("Kendall's tau-c between metrics, over systems", ("metric", "other", *names), rows)


def _figures(runs: list[Run]) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            f"figure-1-{i}",
            f"Figure 1, {run.task.name}: metric results, and Kendall's tau-c between the metrics.",
            partial(run.agreed.plot, "comparison"),
        )
        for i, run in enumerate(runs, 1)
    )


AWRF, AWRF_EQUAL = "awrf(distance='nd')", "awrf(distance='nd', target='equal')"
HIGH = 0.5  # a tau-c that counts as comparatively high
MANY = 0.1  # a share of lists without a value that counts as breaking down
APART = 0.05  # a difference of accuracies that counts

Pair = frozenset[str]
PAIR = frozenset(("eel", AWRF_EQUAL))
"""The two metrics that the paper names."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements on one task."""

    task: str
    systems: int
    taus: Mapping[Pair, float]
    lost: Mapping[str, float]  # share of requests without a finite value, by metric
    cut: tuple[float, float] | None  # inter-group accuracy from all scores, and from the lists alone


@dataclass(frozen=True)
class Tasks:
    """All tasks, on all of their requests or on half of them."""

    measured: Sequence[Measured]

    def taus(self, pair: Pair) -> list[float]:
        """Tau-c of two metrics in every task; NaN where it is undefined."""
        return [m.taus.get(pair, math.nan) for m in self.measured]

    def least(self, pair: Pair) -> float:
        """The least tau-c of two metrics in any task; NaN where one is undefined."""
        return float(min(taus)) if not any(map(math.isnan, taus := self.taus(pair))) else math.nan

    def high(self, pairs: Sequence[Pair]) -> int:
        return sum(self.least(pair) >= HIGH for pair in pairs)

    def once(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for pair in pairs if max(self.taus(pair)) >= HIGH]

    def broken(self, pairs: Sequence[Pair]) -> float:
        """Of the pairs that agree in some task, the share that does not in another; NaN where none agrees."""
        once = self.once(pairs)
        return sum(self.least(pair) < HIGH for pair in once) / len(once) if once else math.nan

    def apart(self, task: int) -> float:
        """How far accuracy from the lists is from that from all scores."""
        cut = self.measured[task].cut
        return math.nan if cut is None else abs(cut[0] - cut[1])


Runs = Replicates[Tasks]


def claims(runs: Runs) -> tuple[Claim, ...]:
    return decide(
        (*_consensus(runs), *_closest(runs), _prefix_breaks(runs), _ratios_break(runs), _pairs_need_scores(runs))
    )


def _shared(tasks: Tasks) -> list[Pair]:
    """Pairs of metrics that have a tau-c in every task."""
    return [pair for pair in tasks.measured[0].taus if not math.isnan(tasks.least(pair))]


def _consensus(runs: Runs) -> list[Claim]:
    whole, pairs = runs.whole, _shared(runs.whole)
    several = len(whole.measured) > 1
    where = "in every task" if several else "in the one experiment there is"
    once = whole.once(pairs)
    text = f"{sum(whole.least(p) < HIGH for p in once)} of {len(once)} pairs that agree in one task do not in another"
    return [
        Claim(
            "The metrics do not show clear consensus across data sets", "section 3.3", "no consensus",
            f"{whole.high(pairs)} of {len(pairs)} pairs of metrics have a tau-c of {HIGH} or more {where}",
            runs.above(lambda t: 0.5 - t.high(pairs) / len(pairs)) if pairs and several else UNKNOWN,
            counts=f"significantly fewer than half of the pairs reach {HIGH} in every task",
        ),
        Claim(
            "Metrics that agree in one experiment often do not agree on others", "section 3.3", "often",
            text if several else f"{len(once)} of {len(pairs)} pairs agree in the one experiment there is",
            runs.above(lambda t: t.broken(pairs), 0.5) if several else UNKNOWN, counts="significantly more than half of them",
        ),
    ]  # fmt: skip


def _closest(runs: Runs) -> list[Claim]:
    whole, pairs = runs.whole, _shared(runs.whole)
    several, nothing = len(whole.measured) > 1, "the pair is undefined in some task"
    is_defined = several and PAIR in pairs
    taus = whole.taus(PAIR) if PAIR in pairs else []
    best = max(pairs, key=lambda p: (whole.least(p), sum(whole.taus(p))), default=PAIR)
    winner = f"{' and '.join(sorted(best))}, least tau-c {whole.least(best):.2f}" if best in pairs else nothing
    listed = ", ".join(f"{m.task} {t:.2f}" for m, t in zip(whole.measured, taus, strict=False)) or nothing
    others = [pair for pair in pairs if pair != PAIR]
    return [
        Claim(
            "The most consistently agreeing pair is EEL and AWRF with an equal target", "section 3.3", "this pair",
            winner if several else f"{winner}, of one experiment",
            runs.all_above(lambda t: [t.least(PAIR) - t.least(other) for other in others]) if is_defined else UNKNOWN,
            counts="its least tau-c is significantly above that of each other pair",
        ),
        Claim(
            "EEL and AWRF with an equal target agree in all experiments", "section 3.3", "tau-c > 0", listed,
            runs.all_above(lambda t: t.taus(PAIR)) if is_defined else UNKNOWN, counts="significantly, in each of them",
        ),
        Claim(
            "Their agreement is comparatively high in three of the four", "section 3.3", "3 of 4",
            f"{sum(t >= HIGH for t in taus)} of {len(taus)} at {HIGH} or more",
            runs.above(lambda t: sorted(t.taus(PAIR))[-3], HIGH) if len(taus) == 4 else UNKNOWN,
            counts=f"the third highest tau-c is significantly above {HIGH}",
        ),
    ]  # fmt: skip


def _prefix_breaks(runs: Runs) -> Claim:
    tasks = runs.whole.measured
    listed = ", ".join(f"{m.task} {m.lost['pref']:.0%}" for m in tasks)
    are_few = runs.all_above(lambda t: [MANY - m.lost["pref"] for m in t.measured])
    return Claim(
        f"Prefix metrics ({eh.metrics.pref_nd.card.symbol}) break down on missing data and short lists", "sections 2.6 and 3.2",
        "excluded", f"lists without a value: {listed}", ~are_few,
        counts=f"significantly more than {MANY:.0%} in some task",
    )  # fmt: skip


def _ratios_break(runs: Runs) -> Claim:
    statement = "RUR is even more brittle than EUR"
    place = next((i for i, m in enumerate(runs.whole.measured) if "log_rur" in m.lost), None)
    if place is None:
        return Claim(statement, "section 2.6", "more", "needs one group per item", UNKNOWN)
    task = runs.whole.measured[place]
    text = f"requests without a finite value: logEUR {task.lost['log_eur']:.0%}, logRUR {task.lost['log_rur']:.0%} ({task.task})"
    more = runs.above(lambda t: t.measured[place].lost["log_rur"] - t.measured[place].lost["log_eur"])
    return Claim(statement, "section 2.6", "more", text, more, counts="significantly more, of the same requests")


def _pairs_need_scores(runs: Runs) -> Claim:
    statement, counts = (
        "Pairwise accuracy is not a function of the top list",
        f"they differ significantly by more than {APART}",
    )
    place = next((i for i, m in enumerate(runs.whole.measured) if m.cut is not None), None)
    if place is None:
        return Claim(statement, "section 3.2", "scores needed", "no scores to look at", UNKNOWN, counts=counts)
    whole, cut = runs.whole.measured[place].cut or (math.nan, math.nan)
    text = f"InterAcc {whole:.2f} from all scores, {'undefined' if math.isnan(cut) else f'{cut:.2f}'} from the lists"
    differs = runs.above(lambda t: t.apart(place), APART)
    return Claim(statement, "section 3.2", "scores needed", text, differs, counts=counts)


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
        hard = "group" in drawn.groups.columns
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


def from_data(path: str | Path, seed: int, columns: Mapping[str, str], protected: Any, versus: Any) -> Task:
    if os.path.isdir(path):
        return from_trec(path, seed, protected, versus)
    if not os.path.isfile(path):
        raise EvenhandError(
            f"{str(path)!r} is not there. Pass a folder of the TREC Fair track, or a table of rankings."
        )
    return from_table(path, columns, protected, versus)


def from_table(path: str | Path, columns: Mapping[str, str], protected: Any, versus: Any) -> Task:
    """A task from a table of rankings; `columns` maps roles to differently named columns."""
    names = {role: columns.get(role, role) for role in (*COLUMNS, "score")}
    numbers = [names[role] for role in ("rank", "relevance", "score")]
    table, _ = read_table(str(path), [], None, numbers)
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


def from_trec(folder: str | Path, seed: int, protected: Any, versus: Any) -> Task:
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
    protected: Any = None, versus: Any = None, users: int | None = None,
) -> Task:  # fmt: skip
    """Train the four recommenders on a file of ratings and collect what an audit reads.

    As in the paper, every rating is an interaction, five interactions of each of up to 5,000 users are held out and count as
    relevant, and pairs are read off the models' scores of the held out items and of items that the user never rated.
    """
    try:
        import lenskit.data  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("lenskit", "lenskit") from error
    rated = read_ratings(path)
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
