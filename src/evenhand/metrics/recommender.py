"""Bias of a recommender between groups of users (holisticai's page of metrics).

Every function reads a Crosstab and nothing else, and compares the source's group a (`versus`) with its group b (`protected`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from evenhand.cards import Card, Floats, NotNegative, metric
from evenhand.tallies.crosstab import Crosstab

SEED = ("holisticai2024",)
USERS = frozenset({"users"})
SHOWN = frozenset({"shown"})
SCORED = frozenset({"scores"})
TRUTH = frozenset({"truth"})


def _without(t: Crosstab, mark: str, code: str) -> str:
    """Reason why one of the two groups has no mean: no users, or nothing to average."""
    if not all(side.any() for side in t.sides("users")):
        return "group_absent"
    return "" if all(side.any() for side in t.sides(mark)) else code


@metric(Card(
    name="mad", symbol="MAD", title="Difference of mean scores", needs=Crosstab,
    span=(-math.inf, math.inf), ideal=0.0, better="ideal",
    asks="How much higher are the scores of one group of users than those of the other?",
    undefined="a group has no users or no scores", otherwise=lambda t, **_: _without(t, "cells", "empty"),
    says="Difference of mean scores[, {versus} minus {protected}]: {estimate:number}{interval}.",
    formula=r"\mathrm{MAD} = \bar y_a - \bar y_b", example="a: [1, missing], b: [0, 0.5] -> 0.75",
    variants=(
        "Despite its name neither absolute nor a deviation: positive means that group a (versus) is scored higher.",
        "The source's formula prints b - a; its sentence and holisticai's program are a - b, and so is this.",
    ),
    references=SEED, family="mean scores", reads=USERS | SCORED,
))  # fmt: skip
def mad(t: Crosstab) -> Floats:
    r"""Mean score of group a (`versus`) minus group b (`protected`); missing ones are skipped.

    >>> mad([[1, None], [0, 0.5]], user_groups=["a", "b"])
    0.75
    """
    (score_a, score_b), (cells_a, cells_b) = t.sides("score"), t.sides("cells")
    return score_a / cells_a - score_b / cells_b


def _nothing_shown(t: Crosstab, **_: Any) -> str:
    return _without(t, "viewers", "nothing_shown")


@metric(Card(
    name="exposure_tv", symbol="ETV", title="Total variation of exposure", needs=Crosstab,
    span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="What share of the slots would have to change for both groups of users to be shown the same mix of items?",
    undefined="a group has no users, or was shown nothing", otherwise=_nothing_shown,
    says="{estimate:percent} of what the two groups are shown differs{interval}[; with permuted labels {chance:percent}].",
    formula=r"\mathrm{ETV} = \tfrac12 \sum_j |p_a(j) - p_b(j)|", example="a: items 1, 1; b: items 1, 2 -> 0.5",
    variants=(
        "Never 0 by chance: two samples of 50 users, top 10 of 1,000 items, may differ by 0.5 and more. Read it beside `chance`.",
        "The source's formula has a further factor n that its program takes out again; holisticai's exposure_l1 gives this number.",
    ),
    references=SEED, laws=frozenset({"symmetric"}), family="what groups are shown", reads=USERS | SHOWN,
    shuffled="labels",
))  # fmt: skip
def exposure_tv(t: Crosstab) -> Floats:
    r"""Half the summed differences between the two groups' shares of slots per item.

    >>> exposure_tv([[1, 0], [1, 1]], user_groups=["a", "b"], threshold=0.5)
    0.5
    """
    (a, b), (all_a, all_b) = t.exposure(), t.slots
    return _where_shown(t, 0.5 * np.abs(a / all_a[..., None] - b / all_b[..., None]).sum(-1))


@metric(Card(
    name="exposure_kl", symbol="EKL", title="KL divergence of exposure", needs=Crosstab,
    span=(0.0, math.inf), ideal=0.0, better="lower",
    asks="How much does the mix of items shown to group a diverge from that shown to group b?",
    undefined="a group has no users, or was shown nothing", otherwise=_nothing_shown,
    says="KL divergence of items shown[, {versus} from {protected}]: {estimate:number} nats{interval}.",
    formula=r"\mathrm{EKL} = \sum_j p_a(j) \ln \frac{p_a(j)}{p_b(j)}", example="a: item 2; b: items 1, 2 -> 0.6931",
    variants=(
        "Infinite once group a is shown an item that group b never is; smoothing=1 adds one view to every item.",
        "No chance level: with permuted labels it is infinite too often to have a mean. Read exposure_tv beside it.",
        "Natural logarithm; directed: a against b, not b against a.",
    ),
    references=(*SEED, "kullback1951"), family="divergence of what groups are shown", reads=USERS | SHOWN,
    shuffled="labels", caution=lambda estimate: "shown_to_one_group" if math.isinf(estimate) else "",
))  # fmt: skip
def exposure_kl(t: Crosstab, *, smoothing: NotNegative = 0.0) -> Floats:
    r"""KL divergence of group a's (`versus`) items from group b's (`protected`), in nats.

    `smoothing` is added to the times every item was shown to each group.

    >>> round(exposure_kl([[0, 1], [1, 1]], user_groups=["a", "b"], threshold=0.5), 4)
    0.6931
    """
    from scipy.special import rel_entr  # a ln(a / b): 0 where a is, infinite where b alone is

    (a, b), (all_a, all_b) = t.exposure(), t.slots
    total_a, total_b = all_a + smoothing * t.items, all_b + smoothing * t.items
    value = rel_entr(a + smoothing, b + smoothing).sum(-1) / total_a + np.log(total_b / total_a)
    return _where_shown(t, np.maximum(value, 0.0))


def _where_shown(t: Crosstab, value: Floats) -> Floats:
    a, b = t.slots
    return np.asarray(np.where((a > 0) & (b > 0), value, np.nan))


ZeroDivision = Literal[0, "skip"]


def _ratio(a: Floats, b: Floats) -> Floats:
    """The second over the first, undefined where the first is 0."""
    return np.asarray(np.where(a == 0, np.nan, b / a))


def _mean_ratio(t: Crosstab, mark: str, over: str) -> Floats:
    (sum_a, sum_b), (users_a, users_b) = t.judgement(mark), t.sides(over)
    return _ratio(sum_a / users_a, sum_b / users_b)


def _why_ratio(mark: str, over: str, code: str, default: ZeroDivision = 0) -> Callable[..., str]:
    """Function that gives the reason why a ratio of means is undefined.

    A group without users, without anything to average, or with a mean of 0. Where users without anything to average
    count as 0, a group of such users has a mean: 0.
    """

    def why(t: Crosstab, zero_division: ZeroDivision = default, **_: Any) -> str:
        reason = _without(t, over, code)
        if reason == code and zero_division == 0 and any(side.any() for side in t.sides(over)):
            reason = ""
        return reason or ("zero_denominator" if t.sides(mark)[1].any() else "zero_over_zero")

    return why


def _opportunity(name: str, symbol: str, title: str, question: str, formula: str, why: Callable[..., str]) -> Card:
    return Card(
        name=name, symbol=symbol, title=title, asks=question, needs=Crosstab,
        span=(0.0, math.inf), ideal=1.0, better="ideal",
        undefined="a group has no users, or the mean of group a (versus) is 0", otherwise=why,
        says=f"{title}[, {{protected}} over {{versus}}]: {{estimate:number}}{{interval}}.",
        formula=formula, example="both right for a, one of two right for b -> 0.5",
        variants=(
            "b / a, as the source's page: below 1 is against the protected group. holisticai's program returns a / b.",
            "A user shown nothing, or with nothing relevant, counts as 0 (as in scikit-learn); zero_division='skip' leaves them out.",
            "holisticai cuts the truth with the predictions' top; here it has its own true_top and true_threshold.",
        ),
        references=SEED, family="ratios between groups", reads=USERS | TRUTH | SHOWN,
    )  # fmt: skip


@metric(_opportunity(
    "precision_ratio", "APR", "Ratio of mean precision",
    "Is what the protected group is shown as often right as what the others are shown?",
    r"\mathrm{APR} = \bar P_b / \bar P_a", _why_ratio("precision", "viewers", "nothing_shown"),
))  # fmt: skip
def precision_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean precision (not average precision), group b (`protected`) over group a (`versus`).

    >>> precision_ratio([[1, 1], [1, 1]], user_groups=["a", "b"], relevant=[[1, 1], [1, 0]], threshold=1)
    0.5
    """
    return _mean_ratio(t, "precision", "users" if zero_division == 0 else "viewers")


@metric(_opportunity(
    "recall_ratio", "ARR", "Ratio of mean recall",
    "Is the protected group shown as much of what is relevant to it as the others are?",
    r"\mathrm{ARR} = \bar R_b / \bar R_a", _why_ratio("recall", "seekers", "no_relevant_in_group"),
))  # fmt: skip
def recall_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean recall over the users of group b (`protected`) over that of group a (`versus`).

    >>> recall_ratio([[1, 1], [1, 0]], user_groups=["a", "b"], relevant=[[1, 1], [1, 1]], threshold=1)
    0.5
    """
    return _mean_ratio(t, "recall", "users" if zero_division == 0 else "seekers")


@metric(_opportunity(
    "f1_ratio", "AFR", "Ratio of mean F1",
    "Precision and recall in one: is the protected group served as well as the others?",
    r"\mathrm{AFR} = \overline{F1}_b / \overline{F1}_a", _why_ratio("f1", "either", "nothing_shown"),
))  # fmt: skip
def f1_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean F1 over users, group b (`protected`) over group a (`versus`); not F1 of the means.

    >>> round(f1_ratio([[1, 1], [1, 0]], user_groups=["a", "b"], relevant=[[1, 1], [1, 1]], threshold=1), 4)
    0.6667
    """
    return _mean_ratio(t, "f1", "users" if zero_division == 0 else "either")


def _error_card(name: str, symbol: str, title: str, formula: str, mark: str) -> Card:
    return Card(
        name=name, symbol=symbol, title=title, needs=Crosstab,
        span=(0.0, math.inf), ideal=1.0, better="ideal",
        asks="Are the scores of the protected group as close to the truth as those of the others?",
        undefined="a group has no users or no score with a truth, or the error of group a (versus) is 0",
        otherwise=_why_ratio(mark, "rated", "empty", "skip"),
        says=f"{title}[, {{protected}} over {{versus}}]: {{estimate:number}}{{interval}}.",
        formula=formula, example="errors a: 0.5, b: 1 -> 2",
        variants=(
            "b / a, as the other ratios: above 1 is against the protected group. holisticai's program returns a / b.",
            "Over all scores that have a truth, whatever is shown; not a mean over users.",
        ),
        references=SEED, family="ratios between groups", reads=USERS | TRUTH | SCORED,
    )  # fmt: skip


@metric(_error_card(
    "rmse_ratio", "RMSE_b/RMSE_a", "Ratio of RMSE", r"\mathrm{RMSE}_b / \mathrm{RMSE}_a", "square",
))  # fmt: skip
def rmse_ratio(t: Crosstab) -> Floats:
    """Root mean squared error of scores, group b (`protected`) over group a (`versus`).

    >>> rmse_ratio([[1, 0], [1, 0]], user_groups=["a", "b"], relevant=[[0.5, 0.5], [0, 1]])
    2.0
    """
    (sum_a, sum_b), (cells_a, cells_b) = t.judgement("square"), t.sides("rated")
    return _ratio(np.sqrt(sum_a / cells_a), np.sqrt(sum_b / cells_b))


@metric(_error_card("mae_ratio", "MAE_b/MAE_a", "Ratio of MAE", r"\mathrm{MAE}_b / \mathrm{MAE}_a", "absolute"))
def mae_ratio(t: Crosstab) -> Floats:
    """Mean absolute error of scores, group b (`protected`) over group a (`versus`).

    >>> mae_ratio([[1, 0], [1, 0]], user_groups=["a", "b"], relevant=[[0.5, 0.5], [0, 1]])
    2.0
    """
    return _mean_ratio(t, "absolute", "rated")
