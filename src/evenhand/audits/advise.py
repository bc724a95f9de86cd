"""Which prefix metric to trust: Table 5 and section 5 of Draws et al. (2020), and what chance adds for your lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.audits.advise_goal import Goal, advise_goal
from evenhand.audits.declare import Call, Labels, Rankings, Seed, TableOrColumn, TableOrColumns, audit, log
from evenhand.audits.prefix import protected_labels
from evenhand.cards import REGISTRY, Between
from evenhand.errors import EvenhandError
from evenhand.intervals.orders import random_order_of
from evenhand.labels import Unknown
from evenhand.metrics.prefix import TEMPLATES
from evenhand.results import Result
from evenhand.sources.labels import columns_in, open_labels
from evenhand.sources.rankings import Ties, open_rankings, ranking_table
from evenhand.streams import stream
from evenhand.synthetic.viewpoints import viewpoint_codes
from evenhand.tallies.placed import Placed
from evenhand.tallies.placement import Placement

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
LISTS = 400
CLEARLY = 0.05
DRAWS = 999
COLUMNS = ("metric", "symbol", "advice", "chance", "found", "reason")


@dataclass(frozen=True)
class Situation:
    """Balance, expected bias and number of viewpoints that the advice depends on."""

    balance: Degree | None
    bias: Degree | None
    viewpoints: int
    placement: Placement | None = None


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
    with the expected bias would stand out from random orders.

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
        return advise_goal(call, table, goal, sparse=sparse, groups=groups, relevance=relevance, **roles)
    facts: dict[str, Any] = {}
    backend: Any = "polars"
    if table is None:
        situation = _stated(balance, bias, viewpoints, protected)
    else:
        if group is None:
            raise EvenhandError("group is not given. Name the column of labels, so that their balance can be read off.")
        situation, facts, backend = _read_off(table, group, protected, unknown, balance, bias, roles)
    log.info("weighing the metrics")
    rows = []
    for name, advice, reason in advice_for(situation):
        chance, power = _odds(name, situation, call.seed)
        symbol = REGISTRY[name].card.symbol
        rows.append((name, symbol, advice, chance, power, f"{symbol}: {reason}"))
    columns: dict[str, list[Any]] = {name: [r[i] for r in rows] for i, name in enumerate(COLUMNS)}
    columns["reason"] = _with_evidence(columns)
    facts |= {"thresholds_of_balance": list(EDGES), "bias_in_simulation": ALPHAS}
    return call.result(columns, backend=backend, facts=facts)


def _with_evidence(columns: dict[str, list[Any]]) -> list[str]:
    """Where another metric stands out from chance more often than the recommended one, say so."""
    symbols, power, reasons = columns["symbol"], columns["found"], list(columns["reason"])
    best = int(np.nanargmax(power)) if not np.isnan(power).all() else 0
    if best and power[best] > power[0] + CLEARLY:
        shares = f"{100 * power[best]:.0f}% against {100 * power[0]:.0f}%"
        reasons[best] += (
            f" On lists like yours it stands out from random orders more often than {symbols[0]} ({shares})."
        )
    return reasons


def _stated(balance: Degree | None, bias: Degree | None, viewpoints: int | None, protected: Any) -> Situation:
    many = 2 if viewpoints is None else viewpoints
    if balance is None and bias is None and viewpoints is None:
        raise EvenhandError("Nothing to go by. Pass balance= and bias=, viewpoints=, or a table with group=.")
    return Situation(balance, bias, 2 if balance is not None or protected is not None else many)


def _read_off(
    table: Any, group: Any, protected: Any, unknown: Unknown, balance: Degree | None, bias: Degree | None, roles: dict[str, Any]
) -> tuple[Situation, dict[str, Any], Any]:  # fmt: skip
    """Balance, number of labels and a typical list of the caller's rankings."""
    columns = [*(roles[role] for role in ("request", "item", "rank", "score")), *columns_in(group)]
    opened = ranking_table(table, columns=columns)
    named = roles["item"] if roles["item"] in opened.schema else None
    labels = open_labels(group, opened, request=roles["request"], item=roles["item"], role="group")
    ordered = {"rank": None if roles["score"] is not None else roles["rank"], "score": roles["score"]}
    view = open_rankings(
        opened, request=roles["request"], item=named, **ordered, ties=roles["ties"], carry=labels.carry(opened)
    )
    labels.refuse_bad_rows(view)
    placed = Placed.from_rankings(view, labels.coded(view, role="the labels"), unknown).placement
    if placed.rows is not None:
        raise EvenhandError("Items that are shared out between groups leave no choice: use 'ndjs', or 'pref_kl'.")
    placed = placed.protecting(protected_labels(protected, placed.groups, group))
    seen = placed.sides() if placed.protected is not None else placed
    total = seen.counts.sum(0)
    smaller = float(total.min() / total.sum()) if total.sum() and placed.protected is not None else float("nan")
    if balance is None and placed.protected is not None:
        balance = DEGREES[int(np.searchsorted(EDGES, smaller, side="right"))]
    facts = {
        "rows": view.rows, "rankings": len(placed), "labels": [str(g) for g in placed.groups][:100],
        "share_of_the_smaller_side": smaller, "median_labelled_items": float(np.median(seen.labelled)) if len(seen) else 0.0,
    }  # fmt: skip
    many = 2 if placed.protected is not None else len(placed.groups)
    return Situation(balance, bias, many, _typical(seen)), facts, view.backend


def _typical(p: Placement) -> Placement | None:
    """The ranking with two groups or more that is closest to the median in length and mix."""
    sound = np.flatnonzero((p.counts > 0).sum(1) >= 2)
    if not len(sound):
        return None
    middle = np.median(p.counts[sound], axis=0)
    return p.take(sound[[int(np.abs(p.counts[sound] - middle).sum(1).argmin())]])


def advice_for(s: Situation) -> list[tuple[str, str, str]]:
    """(metric, advice, reason) in order of trust."""
    if s.viewpoints > 2:
        mild = " Read it with care where bias is mild (section 5.2 of the paper)." if s.bias in (None, "low") else ""
        return [
            ("ndjs", "recommended", f"the only one of the four that compares all viewpoints at once.{mild}"),
            ("ndd", "with care", "answers for one viewpoint only; name it with protected= if there is one to protect."),
            ("ndkl", "with care", "answers for one viewpoint only, like nDD; tells severe bias apart better."),
            ("ndr", "avoid", NDR),
        ]
    first = TABLE_5[s.balance or "low", s.bias or "low"]
    second = "ndkl" if first == "ndd" else "ndd"
    cell = (
        f"Table 5 of the paper (Draws et al. 2020), {s.balance or 'unstated'} balance and {s.bias or 'unstated'} bias"
    )
    unstated = "" if s.bias and s.balance else " What is not stated counts as low; nDD is right in six of nine cells."
    return [
        (first, "recommended", f"{cell}: {_why(first, s)}.{unstated}"),
        (second, "second opinion", f"{WHY[second]}."),
        (
            "ndjs",
            "with care",
            "works for two sides too, but its normaliser is a bound: not comparable with the others.",
        ),
        ("ndr", "avoid", NDR),
    ]


def _why(first: str, s: Situation) -> str:
    """Why the table names this metric here: the reason must fit the bias that is expected."""
    if first == "ndd" and s.bias in ("medium", "high"):
        return "with sides so unequal it keeps telling biases apart, where nDKL hardly moves"
    return WHY[first]


WHY = {
    "ndd": "its values differ most where bias is mild",
    "ndkl": "it tells severe bias apart better, where the sides are balanced enough",
}
NDR = (
    "the paper's section 5.1 favours it for a small disadvantaged group and then rules it out altogether; its normaliser is no maximum, "
    "so values exceed 1. one_sided=True repairs that and sees under-representation only."
)


def _odds(metric: str, s: Situation, seed: int) -> tuple[float, float]:
    """Chance level of a typical list, and how often a list as biased as expected stands out from random orders of it."""
    p = s.placement
    if p is None or (TEMPLATES[metric](p).difference.sided and p.protected is None):
        return float("nan"), float("nan")
    template = TEMPLATES[metric](p)
    randomly = random_order_of(template, p, DRAWS, seed)
    if s.bias is None:
        return randomly.mean, float("nan")
    counts = {g: int(n) for g, n in enumerate(p.counts[0]) if n > 0}
    detected = []
    for sign in (-1, 1):
        codes = viewpoint_codes(
            counts, alpha=sign * ALPHAS[s.bias], lists=LISTS, favoured=[0] if p.protected is not None else 1,
            rng=stream(seed, "advise", sign),
        )  # fmt: skip
        places = np.array(list(counts))[codes]
        drawn = Placement(places.ravel(), np.arange(LISTS + 1) * places.shape[1], p.groups, p.protected)
        detected.append(float((TEMPLATES[metric](drawn).values(drawn) > randomly.cut).mean()))
    return randomly.mean, float(np.mean(detected))
