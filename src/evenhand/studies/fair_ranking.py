"""The comparison of fair ranking metrics (Raj et al., 2022), rerun on four tasks.

The corpora are generated, so that the bias of every system is known and a metric's order can be held against the truth.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audits.declare import Label
from evenhand.errors import EvenhandError, listing
from evenhand.report.table import BY_CHANCE, system_cells
from evenhand.studies.fair_ranking_tasks import Task, from_data, from_ratings, generated
from evenhand.studies.study import UNKNOWN, Claim, Figure, File, Paths, Replicates, Study, Table, decide, select

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
    stable = eh.sensitivity(
        eh.exposure, tasks[-1].rankings, metrics=["awrf", "eed"], **tasks[-1].roles,
        vary={
            "attention": ["geometric(stop=0.5)", "rbp(patience=0.8)", "log"], "target": ["population", "equal"],
            "unknown": ["drop", "group"],
        },
    )  # fmt: skip
    compared = [[eh.compare(part, rng=seed) for part in run.parts] for run in runs]
    tables = [_values(run, comparisons) for run, comparisons in zip(runs, compared, strict=True)] + [_taus(runs)]
    tables += [_truth(runs)] if all(task.bias for task in tasks) else []
    about = "".join(f"{task.about} " for task in tasks if task.about)
    sizes = "; ".join(f"{run.task.name}: {run.systems} systems" for run in runs)
    return Study(
        name="fair-ranking",
        title=TITLE,
        setting=f"{where} (seed {seed}). {sizes}. {about}Unknown groups are left out of AWRF and logDP and are a group of their own "
        "in IAA and EE*.",
        claims=claims(_replicates(runs, seed)),
        tables=(*(table for task in tasks for table in task.tables), *tables),
        figures=_figures(runs, stable),
        sentences=_sentences(runs, stable),
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
    sides = {name: chosen[name] for name in ("protected", "versus")} if ratings is None else {}
    tasks = [
        from_data(path, seed, columns=columns, groups_in_other_file=ratings is not None, **sides) for path in paths
    ]
    tasks += [] if ratings is None else [from_ratings(ratings, seed, users=size, **chosen)]
    where = [
        *(["Files in " + listing(paths)] if paths else []),
        *([f"ratings in {ratings}"] if ratings is not None else []),
    ]
    names = [task.name for task in tasks]
    tasks = [
        task if names.count(task.name) == 1 else replace(task, name=f"{task.name} ({i})")
        for i, task in enumerate(tasks, 1)
    ]
    return " and ".join(where) if paths else " and ".join(where).capitalize(), tasks


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


def _truth(runs: list[Run]) -> Table:
    cells: dict[str, dict[str, str]] = {}
    for run in runs:
        points, bias = run.agreed.findings.curves["systems"], run.task.bias or {}
        for metric in dict.fromkeys(points["metric"]):
            pairs = [
                (fairness, -abs(bias[str(system)]))
                for name, system, fairness in zip(points["metric"], points["system"], points["fairness"], strict=True)
                if name == metric and not math.isnan(fairness)
            ]
            is_constant = any(len(set(side)) < 2 for side in zip(*pairs, strict=True)) or not pairs
            text = "undefined" if is_constant else f"{eh.metrics.kendall_tau_c(*zip(*pairs, strict=True)):.2f}"
            cells.setdefault(metric, {})[run.task.name] = text
    names = [run.task.name for run in runs]
    rows = tuple((metric, *(by_task.get(name, "") for name in names)) for metric, by_task in cells.items())
    return Table("Against the truth: tau-c of each metric with the known bias of the systems", ("metric", *names), rows)


def _figures(runs: list[Run], stable: eh.Result) -> tuple[Figure, ...]:
    maps = [
        Figure(
            f"figure-1-{i}",
            f"Figure 1, {run.task.name}: metric results, and Kendall's tau-c between the metrics.",
            partial(run.agreed.plot, "comparison"),
        )
        for i, run in enumerate(runs, 1)
    ]
    moved = Figure("stability", f"{runs[-1].task.name}: places under other choices.", lambda: stable.plot("stability"))
    return (*maps, moved)


def _sentences(runs: list[Run], stable: eh.Result) -> tuple[str, ...]:
    stability = stable.findings.curves["stability"]
    moved = sum(b != w for b, w in zip(stability["best"], stability["worst"], strict=True))
    few = min(run.systems for run in runs)
    return (
        f"In {runs[-1].task.name}, {moved} of {len(stability['best'])} places change with attention model, target or rule for the unknown.",
        f"The smallest task has {few} systems: no agreement there can be statistically significant at 5%."
        if few <= 4
        else f"The smallest task has {few} systems.",
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
