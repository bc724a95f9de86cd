"""Scores and treatment given the outcome, row by row and without bins: equalised odds, equal opportunity, rates above a bar."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.tallies.candidates import Rows

Bools = np.typing.NDArray[np.bool_]


def cuts(outcome: Floats, most: int = 20) -> list[float]:
    """Grades at which outcomes are cut: all but the lowest, or `most` of them."""
    grades = np.unique(outcome)[1:]
    if len(grades) > most:
        grades = np.unique(grades[np.linspace(0, len(grades) - 1, most).round().astype(np.int64)])
    return [float(g) for g in grades]


def distance(a: Bools, b: Bools, weight: Floats, last: Bools) -> float:
    """Kolmogorov distance of two sets of sorted rows; `last` marks the last row of each score."""
    many, others = weight[a].sum(), weight[b].sum()
    if not many or not others:
        return 0.0
    difference = np.cumsum(weight * (a / many - b / others))
    return float(np.abs(difference[last]).max())


def rates(rows: Rows, mask: Bools, groups: tuple[int, int]) -> tuple[float, float]:
    """Weighted shares of those treated among the rows of two groups; NaN where there are none."""
    if rows.treated is None:
        return math.nan, math.nan
    sides = [mask & (rows.group == g) for g in groups]
    first, second = (
        float(np.average(rows.treated[side], weights=rows.mass[side])) if side.any() else math.nan for side in sides
    )
    return first, second


def _card(name: str, title: str, question: str, formula: str, **more: Any) -> Card:
    usual: dict[str, Any] = {
        "span": (-1.0, 1.0), "ideal": 0.0, "better": "ideal", "needs": Rows, "references": ("yu2022",),
        "undefined": "a group has no row with that outcome", "otherwise": "zero_denominator", "family": "outcome",
        "variants": ("It mixes scoring with how qualified the groups are, as equalised odds does.",),
    }  # fmt: skip
    return Card(name=name, title=title, asks=question, formula=formula, **usual | more)


@metric(_card(
    "equal_opportunity_gap", "Equal opportunity gap",
    "Among those with a good outcome, how differently are the groups scored?",
    r"\max_{r, s} |P(S \le s \mid g, Y \ge r) - P(S \le s \mid h, Y \ge r)|",
    span=(0.0, 1.0), better="lower",
    example="scores 1, 2 of one group and 3, 4 of the other, all with a good outcome -> 1",
))  # fmt: skip
def equal_opportunity_gap(r: Rows, which: int = 1, reference: int = 0) -> float:
    """Largest Kolmogorov distance of two groups' scores among those who reach a grade.

    >>> equal_opportunity_gap([1, 2, 3, 4, 5], outcome=[1, 1, 1, 1, 0], groups=[0, 0, 1, 1, 1])
    1.0
    """
    order = np.argsort(r.score, kind="stable")
    score, outcome, weight = (x[order] for x in (r.score, r.outcome, r.mass))
    group = r.group[order]
    last = np.append(score[1:] != score[:-1], True)
    sets = [outcome >= cut for cut in cuts(outcome)]
    return max((distance(g & (group == which), g & (group == reference), weight, last) for g in sets), default=math.nan)


@metric(_card(
    "true_positive_rate_gap", "Gap of true positive rates", "Of those with the outcome, is the group treated as often?",
    r"P(T \mid Y = 1, g) - P(T \mid Y = 1, ref)",
    example="2 of 4 treated, against 3 of 4 -> -0.25",
))  # fmt: skip
def true_positive_rate_gap(r: Rows, which: int = 1, reference: int = 0) -> float:
    """How much more often a group is treated than the reference, among those with outcome 1.

    >>> true_positive_rate_gap([1, 2, 3, 4], outcome=[1, 1, 1, 1], groups=[1, 1, 0, 0], treated=[0, 1, 1, 1])
    -0.5
    """
    rate, reference_rate = rates(r, r.outcome == 1, (which, reference))
    return rate - reference_rate


@metric(_card(
    "false_positive_rate_gap", "Gap of false positive rates",
    "Of those without the outcome, is the group treated as often?", r"P(T \mid Y = 0, g) - P(T \mid Y = 0, ref)",
    example="1 of 4 treated, against none of 4 -> 0.25",
))  # fmt: skip
def false_positive_rate_gap(r: Rows, which: int = 1, reference: int = 0) -> float:
    """How much more often a group is treated than the reference, among those with outcome 0.

    >>> false_positive_rate_gap([1, 2, 3, 4], outcome=[0, 0, 0, 0], groups=[1, 1, 0, 0], treated=[0, 1, 0, 0])
    0.5
    """
    rate, reference_rate = rates(r, r.outcome == 0, (which, reference))
    return rate - reference_rate
