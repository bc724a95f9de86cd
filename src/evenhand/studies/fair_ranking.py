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
from typing import Any

import numpy as np

from evenhand.audits.agreement import agreement
from evenhand.audits.compare import compare
from evenhand.audits.exposure.exposure import exposure
from evenhand.audits.pairwise import pairwise
from evenhand.audits.parameters import Label
from evenhand.audits.requests import RankingResult
from evenhand.audits.sensitivity import sensitivity
from evenhand.audits.systems import standings
from evenhand.errors import EvenhandError, listing
from evenhand.metrics.agreement import both_known, tau_c
from evenhand.report.words import systems as system_tables
from evenhand.results import Result
from evenhand.studies.fair_ranking_findings import AWRF, AWRF_EQUAL, Measured, claims
from evenhand.studies.fair_ranking_ratings import from_ratings
from evenhand.studies.fair_ranking_tasks import REQUESTS, Task, from_data, generated
from evenhand.studies.study import Figure, File, Paths, Study, Table

log = logging.getLogger("evenhand")
TITLE = "Do fair ranking metrics agree on which system is fairer?"
CAVEAT = (
    "The tasks are made up in the shape of the paper's four (sizes, gaps, soft groups), and the bias of every system is drawn: a "
    "yes or no says what these metrics do on such data, not what they did on the paper's."
)
DROPPED = (AWRF, AWRF_EQUAL, "log_dp")
HARD = ("fair", "log_eur", "log_rur")
GROUPED = ("eed", "eel", "eer")


@dataclass(frozen=True)
class Run:
    """One task with everything that was measured on it."""

    task: Task
    parts: tuple[RankingResult, ...]
    agreed: Result


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
    stable = _stable(tasks[-1])
    compared = [[compare(part, rng=seed) for part in run.parts] for run in runs]
    tables = [_values(run, comparisons) for run, comparisons in zip(runs, compared, strict=True)] + [_taus(runs)]
    tables += [_truth(runs)] if all(task.bias for task in tasks) else []
    tables += [_differences(comparisons) for comparisons in compared] if ratings is not None else []
    about = "".join(f"{task.about} " for task in tasks if task.about)
    sizes = "; ".join(f"{r.task.name}: {len(r.agreed.provenance['systems'])} systems" for r in runs)
    return Study(
        name="fair-ranking",
        title=TITLE,
        setting=f"{where} (seed {seed}). {sizes}. {about}Unknown groups are left out of AWRF and logDP and are a group of their own "
        "in IAA and EE*.",
        claims=claims([_measured(run) for run in runs]),
        tables=(*(table for task in tasks for table in task.tables), *tables),
        figures=_figures(runs, stable),
        sentences=_sentences(runs, stable),
        caveats=() if data is not None or ratings is not None else (CAVEAT,),
    )


def _tasks(
    size: int | None,
    seed: int,
    data: str | Path | Sequence[str | Path] | None,
    ratings: str | Path | None,
    chosen: Mapping[str, Any],
    columns: Mapping[str, str],
) -> tuple[str, list[Task]]:
    """The tasks to compare, and a few words on where they come from."""
    requests = REQUESTS if size is None else size
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
    return " and ".join(where).capitalize() if not paths else " and ".join(where), _with_unique_names(tasks)


def _with_unique_names(tasks: Sequence[Task]) -> list[Task]:
    """The tasks, those of one name numbered."""
    names = [task.name for task in tasks]
    return [
        replace(task, name=task.name if names.count(task.name) == 1 else f"{task.name} ({i})")
        for i, task in enumerate(tasks, 1)
    ]


def _run(task: Task, seed: int) -> Run:
    roles = _roles(task)
    first = exposure(
        task.rankings,
        unknown="drop",
        metrics=[*DROPPED, *(HARD if task.hard else ())],
        interval=None,
        rng=seed,
        **roles,
    )
    grouped = [*GROUPED, *(["iaa"] if task.scored else [])]
    second = exposure(task.rankings, unknown="group", metrics=grouped, interval=None, rng=seed, **roles)
    parts: tuple[RankingResult, ...] = (first, second)
    if task.scores is not None:
        parts += (
            pairwise(
                task.scores, groups=task.groups, relevance=task.relevance, protected=task.protected, versus=task.versus,
                system="system", metrics=("intra_acc", "inter_acc"), negatives=task.negatives, interval=None, rng=seed,
                nan_policy="omit",
            ),
        )  # fmt: skip
    return Run(task, parts, agreement(*parts, rng=seed))


def _roles(task: Task) -> dict[str, Any]:
    return {
        "groups": task.groups, "relevance": task.relevance, "protected": task.protected, "versus": task.versus,
        "system": "system", "score": "score" if task.scored else None, "sample": task.sample, "weight": task.weight,
        "chance": False,
    }  # fmt: skip


def _measured(run: Run) -> Measured:
    """The numbers of one task that the findings rest on."""
    taus = {
        frozenset((r["metric"], r["other"])): float(r["tau_c"])
        for r in run.agreed.findings.rows()
        if r["tau_c"] is not None
    }
    task, roles = run.task, _roles(run.task)
    prefix = exposure(
        task.rankings, metrics="pref_nd" if task.hard else "pref_kl(normalizer=None)", interval=None, **roles
    ).per_request
    lost = {"pref": float(np.mean(np.isnan(np.asarray(prefix["estimate"]))))}
    each = run.parts[0].per_request
    for metric in ("log_eur", "log_rur"):
        estimates = [v for m, v in zip(each["metric"], each["estimate"], strict=True) if m == metric]
        if estimates:
            lost[metric] = float(np.mean(~np.isfinite(estimates)))
    return Measured(task.name, len(run.agreed.provenance["systems"]), taus, lost, _cut(task))


def _cut(task: Task) -> tuple[float, float] | None:
    """Inter-group accuracy of the most biased (or first) system, from all scores and from lists."""
    if task.scores is None:
        return None
    bias = task.bias or dict.fromkeys(task.rankings["system"].unique(maintain_order=True), 0.0)
    worst = max(bias, key=lambda s: abs(bias[s]))
    accuracies = []
    for table in (task.scores, task.rankings):
        scored = table.filter(table["system"] == worst).select("request", "item", "score")
        roles = {"groups": task.groups, "relevance": task.relevance, "protected": task.protected, "versus": task.versus}
        # What a model was never trained on it has no score for.
        findings = pairwise(scored, **roles, metrics="inter_acc", interval=None, nan_policy="omit").findings
        accuracies.append(findings.columns["estimate"][0])
    return float(accuracies[0]), float(accuracies[1])


def _stable(task: Task) -> Result:
    roles = _roles(task)
    return sensitivity(
        exposure, task.rankings, metrics=["awrf", "eed"], **roles,
        vary={
            "attention": ["geometric(stop=0.5)", "rbp(patience=0.8)", "log"], "target": ["population", "equal"],
            "unknown": ["drop", "group"],
        },
    )  # fmt: skip


def _values(run: Run, compared: Sequence[Result]) -> Table:
    """Systems by metrics with arrows and letters."""
    head: list[str] = []
    rows: dict[str, list[str]] = {}
    for result in compared:
        names, cells = system_tables.cells(result.findings.curves["systems"])
        head += names[1:] if head else names
        for row in cells:
            texts = [f"{value} {letters}".strip() for value, letters in row]
            rows.setdefault(texts[0], [texts[0]]).extend(texts[1:])
    title = f"{run.task.name}: values, the fairer direction, and letters for systems that cannot be told apart"
    return Table(title, tuple(head), tuple(tuple(row) for row in rows.values()))


def _differences(compared: Sequence[Result]) -> Table:
    """Every two systems on the same requests."""
    rows = []
    for result in compared:
        for r in result.findings.rows():
            named = (r["metric"], str(r["system"]), str(r["versus"]))
            if math.isnan(r["estimate"]):
                rows.append((*named, "undefined", "", ""))
                continue
            p = "below 0.001" if r["p_adjusted"] < 0.001 else f"{r['p_adjusted']:.3f}"
            rows.append((*named, f"{r['estimate']:+.3g}", f"{r['low']:+.3g} to {r['high']:+.3g}", p))
    head = ("metric", "system", "minus", "difference", "95% interval", "p (Holm)")
    return Table("Differences between systems on the same users", head, tuple(rows))


def _taus(runs: list[Run]) -> Table:
    """Every pair of metrics by task."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for run in runs:
        for r in run.agreed.findings.rows():
            if r["metric"] < r["other"]:
                text = "undefined" if np.isnan(r["tau_c"]) else f"{r['tau_c']:.2f} (p {r['p']:.3f})"
                cells.setdefault((r["metric"], r["other"]), {})[run.task.name] = text
    names = [run.task.name for run in runs]
    rows = tuple((a, b, *(by_task.get(name, "") for name in names)) for (a, b), by_task in sorted(cells.items()))
    return Table("Kendall's tau-c between metrics, over systems", ("metric", "other", *names), rows)


def _truth(runs: list[Run]) -> Table:
    """How far each metric orders the systems as their known bias does."""
    cells: dict[str, dict[str, str]] = {}
    for run in runs:
        _, (standing,) = standings(run.parts)
        truth = np.array([-abs((run.task.bias or {})[str(s)]) for s in standing.systems])
        for j, metric in enumerate(standing.metrics):
            tau = tau_c(*both_known(standing.fairness[:, j], truth))
            cells.setdefault(metric, {})[run.task.name] = "undefined" if np.isnan(tau) else f"{tau:.2f}"
    names = [run.task.name for run in runs]
    rows = tuple((metric, *(by_task.get(name, "") for name in names)) for metric, by_task in cells.items())
    return Table("Against the truth: tau-c of each metric with the known bias of the systems", ("metric", *names), rows)


def _figures(runs: list[Run], stable: Result) -> tuple[Figure, ...]:
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


def _sentences(runs: list[Run], stable: Result) -> tuple[str, ...]:
    stability = stable.findings.curves["stability"]
    moved = sum(b != w for b, w in zip(stability["best"], stability["worst"], strict=True))
    few = min(len(run.agreed.provenance["systems"]) for run in runs)
    return (
        f"In {runs[-1].task.name}, {moved} of {len(stability['best'])} places change with attention model, target or rule for the unknown.",
        f"The smallest task has {few} systems: no agreement there can be told from chance at 5%."
        if few <= 4
        else f"The smallest task has {few} systems.",
    )
