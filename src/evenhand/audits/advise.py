"""Which metric to trust: Draws et al. (2020) for prefix metrics, Raj et al. (2022) for exposure, on your own rankings."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.audits.declare import Call, Labels, Rankings, Seed, TableOrColumn, TableOrColumns, audit, log
from evenhand.audits.prefix import protected_labels
from evenhand.cards import REGISTRY, Between
from evenhand.claims import Candidate, decide, direction_of
from evenhand.errors import EvenhandError
from evenhand.findings import Points, as_columns
from evenhand.intervals.orders import NEAR, random_order_of
from evenhand.labels import Unknown, stream
from evenhand.metrics.prefix import TEMPLATES
from evenhand.results import Result
from evenhand.sources.judged_rankings import JudgedRankings, open_judged_rankings
from evenhand.sources.labels import columns_in, open_labels
from evenhand.sources.rankings import Ties, open_rankings, ranking_table
from evenhand.sources.relation import row_slicing
from evenhand.synthetic.viewpoints import viewpoint_codes
from evenhand.tallies.placement import LabelledRankings, Placement

Goal = Literal["one_ranking", "parity", "opportunity"]
Degree = Literal["low", "medium", "high"]
DEGREES: tuple[Degree, ...] = ("low", "medium", "high")
TABLE_5: dict[tuple[Degree, Degree], str] = {
    ("low", "low"): "ndd", ("low", "medium"): "ndd", ("low", "high"): "ndd",
    ("medium", "low"): "ndd", ("medium", "medium"): "ndd", ("medium", "high"): "ndkl",
    ("high", "low"): "ndd", ("high", "medium"): "ndkl", ("high", "high"): "ndkl",
}  # fmt: skip
"""(balance, expected bias) -> metric."""

EDGES = (0.30, 0.39)
"""Share of the smaller side at which balance turns medium and high: between the sets S3, S2 and S1 of the paper."""
ALPHAS: dict[Degree, float] = {"low": 0.2, "medium": 0.5, "high": 0.8}
"""What degrees of bias mean in the simulation of the paper."""
Advice = list[tuple[str, str, str]]
"""(metric, advice, reason), the most trusted first."""


@dataclass(frozen=True)
class Situation:
    """What advice on prefix metrics depends on; `placement` is a typical one of the `lists`."""

    balance: Degree | None
    bias: Degree | None
    viewpoints: int
    placement: Placement | None = None
    lists: Placement | None = None


@audit("advise", question="Which prefix metric for these rankings?")
def advise(
    call: Call,
    table: Rankings = None,
    *,
    balance: Degree | None = None,
    bias: Degree | None = None,
    viewpoints: Annotated[int, Between(2, float("inf"))] | None = None,
    goal: Goal | None = None,
    sparse: bool | None = None,
    groups: TableOrColumns = None,
    relevance: TableOrColumn = None,
    group: TableOrColumns = None,
    protected: Labels = None,
    request: str = "request",
    item: str = "item",
    rank: str | None = "rank",
    score: str | None = None,
    ties: Ties = "raise",
    unknown: Unknown = "drop",
    rng: Seed = None,
) -> Result:
    """Which prefix metric to use, the recommended one first, each with its reason.

    With a table of rankings, `chance` is what random order gives on a typical list of yours, and `found` how often a list
    with the expected bias would stand out from random orders. `effect` is the mean over your lists less what random order
    gives, in standard deviations between lists, and `stability` how much the mean varies from sample to sample of lists
    (coefficient of variation, as in `eh.criteria`: less is more stable).

    With a goal, `found` is how often a metric calls a system with a mild bias less fair than one without, in the least
    favourable of the simulated settings nearest to yours (`evenhand study response`). Where another metric finds
    significantly more than the paper's, it is recommended, and the paper's choice comes second.

    Parameters
    ----------
    table : your rankings, as for `eh.prefix`; left out, the advice rests on what you state.
    balance : how balanced protected and other items are: `"low"`, `"medium"` or `"high"`. Measured if a table is
        passed.
    bias : how biased you expect the rankings to be, before looking at them.
    viewpoints : number of labels; more than two without a protected group call for a metric of all labels.
    goal : advise on exposure metrics instead (section 4 of Raj et al., 2022): is `"one_ranking"` representative, is
        exposure even over many rankings (`"parity"`), or even among relevant items (`"opportunity"`)? The kind of
        groups and judgments is read from the table, if there is one, and from `groups` and `relevance`, as for
        `eh.exposure`.
    sparse : few items have a relevance judgment.
    groups : with `goal`: groups of items, as for `eh.exposure`.
    relevance : with `goal`: relevance judgments, as for `eh.exposure`.
    group : column with the label (viewpoint, group) of each item, or labels by item.
    protected : label of the protected group; several labels form one group.
    request : column with the query or user id.
    item : column with the item id; optional.
    rank : column with the rank, 1 is best.
    score : column with a score to order by instead of the rank, highest first.
    ties : what to do with equal ranks: `"raise"` an error, or keep the order of the table (`"input_order"`).
    unknown : what to do with items without a label, as for `eh.prefix`.

    >>> advise(balance="medium", bias="high").frame["metric"][0]
    'ndkl'
    """
    roles = {"request": request, "item": item, "rank": rank, "score": score, "ties": ties}
    if goal is not None:
        return _advise_exposure(call, roles)
    facts: dict[str, Any] = {}
    backend: Any = "polars"
    if table is None and balance is None and bias is None and viewpoints is None:
        raise EvenhandError("Nothing to go by. Pass balance= and bias=, viewpoints=, or a table with group=.")
    if table is None:
        situation = Situation(balance, bias, 2 if balance is not None or protected is not None else viewpoints or 2)
    elif group is None:
        raise EvenhandError("group is not given. Name the column of labels, so that their balance can be read off.")
    else:
        situation, facts, backend = _situation_of(table, group, protected, unknown, balance, bias, roles)
    columns, claims = _advise_prefix(situation, call.seed)
    facts |= {"thresholds_of_balance": list(EDGES), "bias_in_simulation": ALPHAS}
    return call.result(columns, backend=backend, facts=facts, claims=claims)


def _situation_of(
    table: Any, group: Any, protected: Any, unknown: Unknown, balance: Degree | None, bias: Degree | None, roles: dict[str, Any]
) -> tuple[Situation, dict[str, Any], Any]:  # fmt: skip
    """Balance, number of labels and a typical list of the caller's rankings."""
    request, item, rank, score, ties = roles.values()
    opened = ranking_table(table, columns=[request, item, rank, score, *columns_in(group)], item=item)
    labels = open_labels(group, opened, request=request, item=item, role="group")
    view = open_rankings(
        opened, request=request, item=item if item in opened.schema else None, rank=None if score is not None else rank,
        score=score, ties=ties, carry=labels.carry(opened),
    )  # fmt: skip
    placed = LabelledRankings.from_rankings(view, labels.coded(view, role="the labels"), unknown).placement
    if placed.rows is not None:
        raise EvenhandError("Items that are shared out between groups leave no choice: use 'ndjs', or 'pref_kl'.")
    placed = placed.protecting(protected_labels(protected, placed.groups, group))
    has_sides = placed.protected is not None
    seen = placed.sides() if has_sides else placed
    total = seen.counts.sum(0)
    smaller = float(total.min() / total.sum()) if total.sum() and has_sides else float("nan")
    if balance is None and has_sides:
        balance = DEGREES[int(np.searchsorted(EDGES, smaller, side="right"))]
    facts = {
        "rows": view.rows, "rankings": len(placed), "labels": [str(g) for g in placed.groups][:100],
        "share_of_the_smaller_side": smaller, "median_labelled_items": float(np.median(seen.labelled)) if len(seen) else 0.0,
    }  # fmt: skip
    typical = None
    if len(mixed := np.flatnonzero((seen.counts > 0).sum(1) >= 2)):  # closest to the median in length and mix
        distance = np.abs(seen.counts[mixed] - np.median(seen.counts[mixed], axis=0)).sum(1)
        typical = seen.take(mixed[[int(distance.argmin())]])
    return Situation(balance, bias, 2 if has_sides else len(placed.groups), typical, seen), facts, view.backend


def advice_for(s: Situation) -> Advice:
    if s.viewpoints > 2:
        mild = ""
        if s.bias in (None, "low"):
            mild = f" The paper (section 5.2) advises care where bias is mild; {STUDY}, it stands out in 6 to 13%."
        return [
            ("ndjs", "recommended", f"the only one of the four that compares all viewpoints at once.{mild}"),
            ("ndd", "with care", "answers for one viewpoint only; name it with protected= if there is one to protect."),
            ("ndkl", "with care", "answers for one viewpoint only, like nDD."),
            ("ndr", "avoid", NDR),
        ]
    first = TABLE_5[s.balance or "low", s.bias or "low"]
    second = "ndkl" if first == "ndd" else "ndd"
    cell = f"{s.balance or 'unstated'} balance and {s.bias or 'unstated'} bias"
    why = f"named for {cell} by Table 5 of the paper (Draws et al. 2020)."
    other = REFUTED.get((s.balance, s.bias))
    against = f" Our rerun of its simulation differs: {other} rises more there." if other else ""
    unstated = " What is not stated counts as low; Table 5 names nDD in six of nine cells."
    unstated = "" if s.bias and s.balance else unstated
    only_bound = "works for two sides too, but its normaliser is a bound: not comparable with the others."
    return [
        (first, "recommended", f"{why}{against}{unstated}"),
        (second, "second opinion", OPINIONS[second]),
        ("ndjs", "with care", only_bound),
        ("ndr", "avoid", NDR),
    ]


STUDY = "in our rerun of its simulation, at a bias of 0.2 on lists of 700 (evenhand study viewpoints)"
REFUTED: dict[tuple[Degree | None, Degree | None], str] = {("low", "high"): "nDKL", ("high", "medium"): "nDD"}
"""Cells of Table 5 that the rerun does not bear out: (balance, bias) -> the metric that rises more."""
OPINIONS = {
    "ndd": f"the paper prefers it where bias is mild; {STUDY}, it stands out from random orders in 71 to 88%, nDKL in 12 to 33%.",
    "ndkl": f"the paper prefers it for severe bias and balanced sides; {STUDY}, it stands out from random orders in 12 to 33%, "
    "nDD in 71 to 88%.",
}

NDR = (
    "the paper's section 5.1 favours it for a small disadvantaged group and then rules it out altogether; its normaliser is no maximum, "
    "so values exceed 1. one_sided=True repairs that and sees under-representation only."
)


def _advise_prefix(s: Situation, seed: int) -> tuple[Points, list[Candidate]]:
    """The prefix metrics, the recommended one first, each with its reason and power; and which finds bias more often."""
    log.info("weighing the metrics")
    rows = []
    for name, advice, reason in advice_for(s):
        symbol = REGISTRY[name].card.symbol
        measured = (*_chance_and_power(name, s, seed), *_stability_and_effect(name, s.lists))
        rows.append([name, symbol, advice, *measured, f"{symbol}: {reason}"])
    columns = as_columns(("metric", "symbol", "advice", "chance", "found", "stability", "effect", "reason"), rows)
    return _by_power(columns, [2 * LISTS] * len(rows), "On lists like yours it stands out from random orders", {1})


def _by_power(columns: Points, trials: Sequence[int], finding: str, rivals: set[int]) -> tuple[Points, list[Candidate]]:
    """Metrics with what they find compared with the paper's choice; a rival that finds significantly more comes first."""
    candidates = _power_claims(columns, trials, finding)
    decided = decide(candidates, 0.95)
    for i, claim in enumerate(decided, 1):
        columns["reason"][i] += f" {claim.text}." if claim.made else ""
    better = [i for i, claim in enumerate(decided, 1) if claim.direction == "higher" and i in rivals]
    if not better:
        return columns, candidates
    best = max(better, key=lambda i: columns["found"][i])
    columns["advice"][0], columns["advice"][best] = PAPERS, "recommended"
    order = [best, *(i for i in range(len(candidates) + 1) if i != best)]
    return {name: [column[i] for i in order] for name, column in columns.items()}, candidates


PAPERS = "the paper's choice"
"""Advice on a metric that the paper names and another one outdoes on such data."""


def _power_claims(columns: Points, trials: Sequence[int], finding: str) -> list[Candidate]:
    """Whether each further metric finds bias more or less often than the first one."""
    metrics = list(zip(columns["metric"], columns["symbol"], columns["found"], trials, strict=True))
    (_, symbol_of_first, first, trials_of_first), candidates = metrics[0], []
    for metric, symbol, share, many in metrics[1:]:
        pooled = (first + share) / 2
        p, shares = math.nan, "(undefined on such lists)"
        if not math.isnan(pooled):
            error = math.sqrt(pooled * (1 - pooled) * (1 / max(1, many) + 1 / max(1, trials_of_first)))
            p = math.erfc(abs(share - first) / error / math.sqrt(2)) if error > 0 else 1.0
            shares = f"({100 * share:.0f}% against {100 * first:.0f}%)"
        way = "more" if share > first else "less"
        text = f"{finding} {way} often than {symbol_of_first} {shares}"
        otherwise = f"no significant difference between what {symbol} and {symbol_of_first} find {shares}"
        candidates.append(Candidate(p, direction_of(share - first), text, otherwise, metric))
    return candidates


LISTS = 400
"""Lists that are simulated with each sign of a bias."""


def _chance_and_power(metric: str, s: Situation, seed: int, lists: int = LISTS) -> tuple[float, float]:
    """Chance level of a typical list, and how often one with the expected bias exceeds it."""
    p = s.placement
    if p is None or not _is_readable(metric, p):
        return float("nan"), float("nan")
    mean, cut = random_order_of(TEMPLATES[metric](p), p, 999, seed)
    if s.bias is None:
        return mean, float("nan")
    counts = {g: int(n) for g, n in enumerate(p.counts[0]) if n > 0}
    detected = []
    for sign in (-1, 1):
        codes = viewpoint_codes(
            counts, alpha=sign * ALPHAS[s.bias], lists=lists, favoured=[0] if p.protected is not None else 1,
            rng=stream(seed, "advise", sign),
        )  # fmt: skip
        places = np.array(list(counts))[codes]
        drawn = Placement(places.ravel(), np.arange(lists + 1) * places.shape[1], p.groups, p.protected)
        detected.append(float((TEMPLATES[metric](drawn).values(drawn) > cut).mean()))
    return mean, float(np.mean(detected))


def _is_readable(metric: str, p: Placement) -> bool:
    """Whether a metric can read these rankings: one of two sides needs a protected one."""
    return p.protected is not None or not TEMPLATES[metric](p).difference.sided


def _stability_and_effect(metric: str, p: Placement | None) -> tuple[float, float]:
    """Coefficient of variation of the mean over lists, and its distance from chance in standard deviations between lists.

    The error of the mean is the one that resampling lists has in the limit; the deviations are those of value less chance.
    """
    if p is None or not _is_readable(metric, p):
        return math.nan, math.nan
    scores = TEMPLATES[metric](p).scores(p)
    defined = np.isfinite(scores.values) & np.isfinite(scores.chances)
    values, beyond = scores.values[defined], (scores.values - scores.chances)[defined]
    if len(values) < 2:
        return math.nan, math.nan
    stability = float(values.std() / math.sqrt(len(values)) / values.mean()) if values.any() else math.nan
    return stability, float(beyond.mean() / beyond.std(ddof=1)) if np.ptp(beyond) > NEAR else math.nan


@dataclass(frozen=True)
class Case:
    """Facts that advice on exposure metrics depends on; None where unknown."""

    sparse: bool | None = None
    soft: bool | None = None
    groups: int | None = None
    scores: bool | None = None


def _advise_exposure(call: Call, roles: dict[str, Any]) -> Result:
    """The exposure metrics for a goal, the recommended ones first, each with its reason."""
    named = ("table", "goal", "sparse", "groups", "relevance")
    table, goal, sparse, groups, relevance = (call.arguments[name] for name in named)
    case, backend = Case(sparse), "polars"
    facts: dict[str, Any] = {}
    situation: dict[str, float] = {}
    if table is not None and groups is not None:
        tables = open_judged_rankings(
            table, groups=groups, relevance=relevance, missing="zero", by=row_slicing(None), unranked=False, nan_policy="raise",
            duplicates="raise", sample=None, probability=None, weight=None, system=None, **roles,
        )  # fmt: skip
        labels, read = len(tables.labels.labels), tables.view.rows
        unjudged = tables.count_unjudged() / read if relevance is not None and read else None
        situation = _nearest_facts(tables, sparse=bool(sparse or (unjudged or 0) > 0.5))
        facts = {
            "rows": read, "groups": labels, "situation": situation, "soft_groups": tables.soft,
            "share_of_ranked_items_without_judgment": unjudged,
        }  # fmt: skip
        thin = sparse if sparse is not None or unjudged is None else unjudged > 0.5  # more than half are not judged
        case, backend = Case(thin, tables.soft, labels, roles["score"] is not None), tables.view.backend
    rows, trials = [], []
    for metric, advice, reason in exposure_advice_for(goal, case):
        hits, worlds = responses_of(metric, situation)
        rows.append((metric, REGISTRY[metric].card.symbol, advice, hits / worlds if worlds else math.nan, reason))
        trials.append(worlds)
    columns = as_columns(("metric", "symbol", "advice", "found", "reason"), rows)
    claims: list[Candidate] = []
    if situation:
        rivals = {i for i, advice in enumerate(columns["advice"]) if advice in ("recommended", "possible")}
        columns, claims = _by_power(columns, trials, "On data like yours it finds a mild bias", rivals)
    question = "Which exposure metric for these rankings?"
    source = "Raj et al. (2022), section 4; evenhand study response"
    return call.result(columns, backend=backend, question=question, facts={**facts, "source": source}, claims=claims)


def _nearest_facts(tables: JudgedRankings, *, sparse: bool) -> dict[str, float]:
    """What the study of responses varies, read off these tables."""
    sizes = tables.group_sizes(unknown=True)
    total, labelled = float(sizes.sum()), sizes[:-1][sizes[:-1] > 0]
    return {
        "labelled": float(labelled.sum()) / total if total else 1.0, "judged": 0.1 if sparse else 1.0,
        "depth": float(max(1, tables.depth)), "share": float(labelled.min() / labelled.sum()) if len(labelled) else 0.5,
    }  # fmt: skip


@functools.cache
def _responses() -> list[dict[str, Any]]:
    """How often each metric finds a mild bias, by setting: `evenhand study response`, written by benchmarks/responses.py."""
    return list(json.loads(files("evenhand.audits").joinpath("responses.json").read_text(encoding="utf-8")))


def responses_of(metric: str, situation: Mapping[str, float]) -> tuple[int, int]:
    """Hits and worlds in the least favourable of the settings nearest to a situation; the usual setting for an empty one.

    >>> responses_of("log_dp", {})[1]
    60
    """
    usual, *others = _responses()
    nearest = [usual]
    for factor, value in situation.items():
        varied = [usual, *(s for s in others if all(s[f] == usual[f] for f in usual if f not in (factor, "counts")))]
        at_least = max(value, 1e-3)  # 0.1%: far below any setting
        nearest.append(min(varied, key=lambda s: abs(math.log(at_least / s[factor]))))
    counts = [tuple(setting["counts"][metric]) for setting in nearest]
    hits, worlds = min(counts, key=lambda pair: pair[0] / pair[1] if pair[1] else -1.0)
    return int(hits), int(worlds)


def exposure_advice_for(goal: Goal, case: Case) -> Advice:
    """Advice on exposure metrics: section 4 of Raj et al. (2022)."""
    two = case.groups is None or case.groups == 2
    two_hard = two and not case.soft
    ratio = "two groups only, and infinite or undefined where a group has nothing" + (
        "" if two_hard else "; not for these groups"
    )
    if goal == "one_ranking":
        return [
            ("awrf", "recommended", "several groups, soft membership, and a choice of attention, target and distance."),
            ("fair", "possible" if two_hard else "not here", "two groups, fixed membership; over-representation is never penalised."),
            ("pref_kl", "avoid", "breaks down on missing labels and lists of fewer than ten labelled items."),
        ]  # fmt: skip
    if goal == "parity":
        return [
            ("eed", "recommended", "several groups and soft membership, without the edge cases of ratios."),
            ("log_dp", "possible" if two else "not here", f"easy to read; {ratio}."),
        ]
    by_relevance = [
        ("eel", "recommended", "several groups, soft membership, and a target that follows relevance."),
        ("eer", "recommended", "what part of the exposure goes where the target wants it; read beside eel."),
    ]
    predicted = " Needs the utility that the system predicts: pass score=." if case.scores is False else ""
    no_judgments = f"needs no judgments: use it where they are sparse.{predicted}"
    brittle = "even more brittle than log_eur: it needs relevant items of the other group among those shown."
    ratios = [
        ("log_eur", "possible" if two_hard else "not here", f"exposure in proportion to relevance; {ratio}."),
        ("log_rur", "avoid", brittle),
    ]
    if not case.sparse:
        return [*by_relevance, ("iaa", "possible", no_judgments), *ratios]
    weak = [(m, "possible", f"{reason[:-1]}; but judgments are sparse here.") for m, _, reason in by_relevance]
    return [("iaa", "recommended", no_judgments), *weak, *ratios]
