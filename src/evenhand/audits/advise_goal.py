"""Which exposure metric to trust: section 4 of Raj et al. (2022), with what the data at hand rule out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evenhand.audits.declare import Call
from evenhand.cards import REGISTRY
from evenhand.results import Result
from evenhand.sources.judged_rankings import open_judged_rankings

Goal = Literal["one_ranking", "parity", "opportunity"]
QUESTION = "Which exposure metric for these rankings?"
COLUMNS = ("metric", "symbol", "advice", "reason")
SPARSE = 0.5
"""Share of ranked items without a judgment from which judgments are sparse."""


@dataclass(frozen=True)
class Case:
    """Facts that the advice depends on; None where unknown."""

    sparse: bool | None = None
    soft: bool | None = None
    groups: int | None = None
    scores: bool | None = None


def advise_goal(
    call: Call, table: Any, goal: Goal, *, sparse: bool | None, groups: Any, relevance: Any, **roles: Any
) -> Result:
    """The metrics for a goal, the recommended ones first, each with its reason."""
    facts: dict[str, Any] = {}
    case, backend = Case(sparse), "polars"
    if table is not None and groups is not None:
        case, facts, backend = _read_off(table, groups, relevance, roles, sparse=sparse)
    rows = [(m, REGISTRY[m].card.symbol, advice, reason) for m, advice, reason in _advice(goal, case)]
    columns = {name: [r[i] for r in rows] for i, name in enumerate(COLUMNS)}
    return call.result(
        columns, backend=backend, question=QUESTION, facts={**facts, "source": "Raj et al. (2022), section 4"}
    )


def _read_off(
    table: Any, groups: Any, relevance: Any, roles: dict[str, Any], *, sparse: bool | None
) -> tuple[Case, dict[str, Any], str]:
    """Number and kind of groups, and how many ranked items nobody judged."""
    full = {"sample": None, "probability": None, "weight": None, "system": None, **roles}
    tables = open_judged_rankings(
        table, groups=groups, relevance=relevance, missing="zero", by=(), unranked=False, nan_policy="raise", **full
    )
    labels, rows = tables.count_labels(), tables.view.rows
    unjudged = tables.count_unjudged() / rows if relevance is not None and rows else None
    facts = {
        "rows": rows, "groups": labels, "soft_groups": tables.soft, "share_of_ranked_items_without_judgment": unjudged,
    }  # fmt: skip
    thin = sparse if sparse is not None or unjudged is None else unjudged > SPARSE
    return Case(thin, tables.soft, labels, roles.get("score") is not None), facts, tables.view.backend


def _advice(goal: Goal, case: Case) -> list[tuple[str, str, str]]:
    two = case.groups is None or case.groups == 2
    hard = not case.soft
    ratio = "two groups only, and infinite or undefined where a group has nothing" + (
        "" if two and hard else "; not for these groups"
    )
    if goal == "one_ranking":
        return [
            ("awrf", "recommended", "several groups, soft membership, and a choice of attention, target and distance."),
            ("fair", "possible" if two and hard else "not here", "two groups, fixed membership; over-representation is never penalised."),
            ("pref_kl", "avoid", "breaks down on missing labels and lists of fewer than ten labelled items."),
        ]  # fmt: skip
    if goal == "parity":
        return [
            ("eed", "recommended", "several groups and soft membership, without the edge cases of ratios."),
            ("log_dp", "possible" if two else "not here", f"easy to read; {ratio}."),
        ]
    expected = [
        ("eel", "recommended", "several groups, soft membership, and a target that follows relevance."),
        ("eer", "recommended", "what part of the exposure goes where the target wants it; read beside eel."),
    ]
    predicted = " Needs the utility that the system predicts: pass score=." if case.scores is False else ""
    attention = (
        "iaa",
        "recommended" if case.sparse else "possible",
        f"needs no judgments: use it where they are sparse.{predicted}",
    )
    rest = [
        ("log_eur", "possible" if two and hard else "not here", f"exposure in proportion to relevance; {ratio}."),
        (
            "log_rur",
            "avoid",
            "even more brittle than log_eur: it needs relevant items of the other group among those shown.",
        ),
    ]
    if not case.sparse:
        return [*expected, attention, *rest]
    weak = [(m, "possible", f"{reason[:-1]}; but judgments are sparse here.") for m, _, reason in expected]
    return [attention, *weak, *rest]
