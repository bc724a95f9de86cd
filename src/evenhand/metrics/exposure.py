"""Exposure over many rankings: what groups receive against each other, and against relevance or predicted utility.

Expectations over requests come first, then the ratio or the norm. Every function reads a tally of sums; leading axes are
replicates.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from evenhand.cards import Card, Floats, NotNegative, metric
from evenhand.distances import total
from evenhand.tallies.exposure import Amortised, Exposure

Level = Literal["group", "item"]
Model = Any
"""A browsing model or its text form; it shapes the tally, so the functions here only declare its default (table 1)."""
LOG, GEOMETRIC = "log", "geometric(stop=0.5)"

_DP_VARIANTS = (
    "As printed the groups' totals are compared, so a small group is asked to get as much as a large one; per_item=True "
    "compares the mean per item, as Singh and Joachims do.",
    "The authors' program multiplies by the reciprocal of the weights, so lower ranks count more: -0.442 for our -0.344.",
    "epsilon=1e-6 is what the authors' program adds to both sides; ours adds nothing, and zeros give infinities.",
)
_EUR_VARIANTS = (
    "Totals over totals. as_printed=True divides relevance by group size, as the authors' program does; the ratio then "
    "carries a factor n+/n- that has nothing to do with relevance.",
    "epsilon=1e-6 is what the authors' program adds to both sides; ours adds nothing, and zeros give infinities.",
)


TWO_SIDES = frozenset({"sides"})
PER_RELEVANCE = frozenset({"sides", "relevance", "labels"})
"""What the ratios read; those per relevance take no shares, since a share of an item has no relevance of its own."""


def _utility_reason(t: Exposure, **_: Any) -> Any:
    """(...,) a side without relevance; or nothing at all on either side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        protected, others = t.both(t.utility)
    lost = (t.weight > 0) & ~((protected > 0) & (others > 0))
    return np.where(lost, "no_relevant_in_group", "zero_over_zero")


@metric(Card(
    name="dp", symbol="DP", title="Demographic parity of exposure", needs=Exposure,
    span=(0.0, math.inf), ideal=1.0, better="ideal",
    asks="How much exposure does the protected group get for each unit the other group gets?",
    undefined="neither group was exposed at all", otherwise="zero_over_zero",
    says="The exposure{per_item:? per item} of {who} is {estimate:number} times that of {other}{interval}.",
    formula=r"\mathrm{DP} = \epsilon_\pi(G^+) / \epsilon_\pi(G^-)", example="exposure 1.5 and 0.5 -> 3",
    variants=_DP_VARIANTS,
    references=("singh2018", "raj2022"), laws=frozenset({"two-sided"}), per="request", family="exposure",
    reads=TWO_SIDES,
))  # fmt: skip
def dp(t: Exposure, *, per_item: bool = False, epsilon: NotNegative = 0.0, attention: Model = LOG) -> Floats:
    """Exposure of the protected group over that of the other group.

    `per_item` divides each by its number of items. Nothing on one side gives 0 or infinity, on both NaN.

    >>> dp([1.5, 0.5])
    3.0
    """
    protected, others = _exposures(t, per_item=per_item, epsilon=epsilon)
    return protected / others


@metric(Card(
    name="exposure_share", symbol="s", title="Share of exposure", needs=Exposure,
    span=(0.0, 1.0), ideal=math.nan, better="",
    asks="What share of the exposure of all groups goes to the protected group?",
    undefined="no group was exposed at all", otherwise="zero_over_zero",
    says="{who} gets {estimate:percent} of the exposure{interval}.",
    formula=r"\epsilon_\pi(G^+) / \sum_g \epsilon_\pi(g)", example="exposure 1.5 and 0.5 -> 0.75",
    variants=("Which share is right depends on the target; awrf compares with one.",),
    references=("singh2018", "raj2022"), per="request", family="exposure", reads=TWO_SIDES,
))  # fmt: skip
def exposure_share(t: Exposure, *, attention: Model = LOG) -> Floats:
    """Exposure of the protected group over that of all labelled groups.

    >>> exposure_share([1.5, 0.5])
    0.75
    """
    protected = t.received[..., list(t.protected or ())].sum(-1)
    return np.asarray(protected / t.received.sum(-1))


def _log_card(ratio: Card, **fields: Any) -> Card:
    """Card of the logarithm of a ratio of two groups."""
    return replace(
        ratio, name=f"log_{ratio.name}", symbol=f"log{ratio.symbol}", title=f"{ratio.title}, as a log ratio",
        span=(-math.inf, math.inf), ideal=0.0, laws=frozenset({"antisymmetric"}), **fields,
    )  # fmt: skip


@metric(_log_card(
    dp.card,
    asks="Does the protected group get less exposure (below zero) or more (above) than the other group?",
    says="Log ratio of exposure{per_item:? per item}, {who} to {other}: {estimate:number}{interval}"
    "[, {estimate:times} times as much].",
    formula=r"\ln \epsilon_\pi(G^+) - \ln \epsilon_\pi(G^-)", example="exposure 1 and 1 -> 0",
))  # fmt: skip
def log_dp(t: Exposure, *, per_item: bool = False, epsilon: NotNegative = 0.0, attention: Model = LOG) -> Floats:
    """Natural logarithm of `dp`: 0 is parity, and swapping the groups flips the sign.

    >>> log_dp([1, 1])
    0.0
    >>> log_dp([0, 1])
    -inf
    """
    return _log_ratio(_exposures(t, per_item=per_item, epsilon=epsilon))


@metric(Card(
    name="eur", symbol="EUR", title="Exposed utility ratio", needs=Exposure,
    span=(0.0, math.inf), ideal=1.0, better="ideal",
    asks="Is each group's exposure in proportion to the relevance of its items?",
    undefined="one of the groups has no relevant item, or neither was exposed", otherwise=_utility_reason,
    says="Relative to its relevance, {who} gets {estimate:number} times the exposure of {other}{interval}.",
    formula=r"\frac{\epsilon_\pi(G^+)/\Upsilon(G^+)}{\epsilon_\pi(G^-)/\Upsilon(G^-)}",
    example="exposure 1 and 1, relevance 2 and 1 -> 0.5",
    variants=_EUR_VARIANTS,
    references=("singh2018", "raj2022"), laws=frozenset({"two-sided"}), per="request", family="exposure",
    reads=PER_RELEVANCE,
))  # fmt: skip
def eur(t: Exposure, *, as_printed: bool = False, epsilon: NotNegative = 0.0, attention: Model = LOG) -> Floats:
    """Exposure per unit of relevance, protected over other group (eq. 6).

    >>> eur([1, 1], utility=[2, 1])
    0.5
    """
    protected, others = _per_utility(t, t.received, as_printed=as_printed, epsilon=epsilon)
    return protected / others


@metric(_log_card(
    eur.card,
    asks="For its relevance, is the protected group exposed less (below zero) or more (above) than the other group?",
    says="Log ratio of exposure relative to relevance, {who} to {other}: "
    "{estimate:number}{interval}[, {estimate:times} times as much].",
    formula=r"\ln \mathrm{EUR}", example="exposure 2 and 1, relevance 2 and 1 -> 0",
))  # fmt: skip
def log_eur(t: Exposure, *, as_printed: bool = False, epsilon: NotNegative = 0.0, attention: Model = LOG) -> Floats:
    """Natural logarithm of `eur`.

    >>> log_eur([2, 1], utility=[2, 1])
    0.0
    """
    return _log_ratio(_per_utility(t, t.received, as_printed=as_printed, epsilon=epsilon))


@metric(Card(
    name="rur", symbol="RUR", title="Realised utility ratio", needs=Exposure,
    span=(0.0, math.inf), ideal=1.0, better="ideal",
    asks="Is the relevance that readers see from each group in proportion to what the group offers?",
    undefined="one of the groups has no relevant item, or no relevant item of either was exposed",
    otherwise=_utility_reason,
    says="Relative to its relevance, {who} realises {estimate:number} times the utility of {other}{interval}.",
    formula=r"\frac{\Gamma(G^+)/\Upsilon(G^+)}{\Gamma(G^-)/\Upsilon(G^-)}",
    example="discounted relevance 1 and 1 out of 2 and 1 -> 0.5",
    variants=_EUR_VARIANTS,
    references=("singh2018", "raj2022"), laws=frozenset({"two-sided"}), per="request", family="exposure",
    reads=PER_RELEVANCE | {"gains"},
))  # fmt: skip
def rur(t: Exposure, *, as_printed: bool = False, epsilon: NotNegative = 0.0, attention: Model = LOG) -> Floats:
    """Discounted relevance per unit of relevance, protected over other group (eq. 7).

    >>> rur([1, 1], utility=[2, 1], gained=[1, 1])
    0.5
    """
    protected, others = _per_utility(t, t.gained, as_printed=as_printed, epsilon=epsilon)
    return protected / others


@metric(_log_card(
    rur.card,
    asks="Does the protected group realise less of its relevance (below zero) or more (above) than the other group?",
    says="Log ratio of realised utility relative to relevance, {who} to {other}: "
    "{estimate:number}{interval}[, {estimate:times} times as much].",
    formula=r"\ln \mathrm{RUR}", example="discounted relevance 2 and 1 out of 2 and 1 -> 0",
))  # fmt: skip
def log_rur(t: Exposure, *, as_printed: bool = False, epsilon: NotNegative = 0.0, attention: Model = LOG) -> Floats:
    """Natural logarithm of `rur`.

    >>> log_rur([2, 1], utility=[2, 1], gained=[2, 1])
    0.0
    """
    return _log_ratio(_per_utility(t, t.gained, as_printed=as_printed, epsilon=epsilon))


def _exposures(t: Exposure, *, per_item: bool, epsilon: float) -> tuple[Floats, Floats]:
    """Exposure of the two sides, in all or per item."""
    protected, others = t.both(t.received)
    if per_item:
        n, m = t.side_sizes()
        protected, others = protected / (n or 1), others / (m or 1)  # nobody there: nothing to divide
    return protected + epsilon, others + epsilon


def _per_utility(t: Exposure, achieved: Floats | None, *, as_printed: bool, epsilon: float) -> tuple[Floats, Floats]:
    """Sums of both sides per unit of relevance; NaN where one of them has none."""
    protected, others = t.both(achieved)
    protected_utility, other_utility = t.both(t.utility)
    n, m = t.side_sizes() if as_printed else (1.0, 1.0)
    relevant = np.where((protected_utility > 0) & (other_utility > 0), 1.0, np.nan)
    return relevant * protected * n / protected_utility + epsilon, relevant * others * m / other_utility + epsilon


def _log_ratio(sides: tuple[Floats, Floats]) -> Floats:
    """Difference of logarithms: antisymmetric to the last digit, and it cannot overflow."""
    return np.asarray(np.log(sides[0]) - np.log(sides[1]))


@metric(Card(
    name="iaa", symbol="IAA", title="Inequity of amortised attention", needs=Amortised,
    span=(0.0, 2.0), ideal=0.0, better="lower",
    asks="Over a sequence of rankings, how far is attention from the utility the system itself predicts?",
    undefined="nothing was ranked, or every predicted score is zero", otherwise="zero_utility",
    says="IAA: {estimate:number}{interval} (0 is attention proportional to predicted utility, 2 the maximum).",
    formula=r"\sum_g |\bar A_g - \bar R_g|", example="attention 1 and 1, utility 3 and 1 -> 0.5",
    variants=(
        "Attention and utility are normalised ranking by ranking (Biega et al.), so lists of different length or score "
        "scale weigh the same; normalize='pooled' adds everything up first, as the authors' program does.",
        "The printed range [0, inf) is that of the form without normalisation. FairRankTune returns after the first ranking.",
    ),
    references=("biega2018", "raj2022"), per="request", family="exposure", reads=frozenset({"scores"}),
))  # fmt: skip
def iaa(
    t: Amortised, *, normalize: Literal["per_ranking", "pooled"] = "per_ranking", level: Level = "group",
    attention: Model = GEOMETRIC,
) -> Floats:  # fmt: skip
    """Summed differences between share of attention and share of predicted utility (eq. 8).

    Over groups, or over items: `normalize` and `level` say what the tally adds up; the last step is the same.

    >>> iaa([1, 1], utility=[3, 1])
    0.5
    """
    shown, worth = total(t.attention), total(t.utility)
    gap = total(np.abs(t.attention / shown[..., None] - t.utility / worth[..., None]))
    return np.where((shown > 0) & (worth > 0), gap, np.nan)
