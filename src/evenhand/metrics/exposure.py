"""Exposure over many rankings: what groups receive against each other, against their relevance, against an ideal.

Expectations over requests come first, then the ratio or the norm. Every function reads a tally of sums; leading axes are
replicates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from evenhand.attention import parse, target_weights
from evenhand.cards import Card, Floats, NotNegative, metric
from evenhand.errors import EvenhandError
from evenhand.tallies.exposure import Amortised, Exposure

Level = Literal["group", "item"]
Aggregate = Literal["before", "per_request"]
Model = Any
"""A browsing model or its text form; it shapes the tally, so the functions here only declare its default (table 1)."""
LOG, RBP, GEOMETRIC = "log", "rbp(patience=0.5)", "geometric(stop=0.5)"

_DP_VARIANTS = (
    "As printed the groups' totals are compared, so a small group is asked to get as much as a large one; per_item=True "
    "compares the mean per item, as Singh and Joachims do.",
    "The authors' program multiplies by the reciprocal of the weights, so lower ranks count more: -0.442 for our -0.344.",
    "epsilon=1e-6 is what the authors' program adds to both sides; ours adds nothing, and zeros give infinities.",
)
_EUR_VARIANTS = (
    "Totals over totals. as_printed=True divides relevance by group size, as the authors' program does; the ratio then "
    "carries a factor n+/n- that has nothing to do with relevance.",
)
_EE_VARIANTS = (
    "Group level follows eqs. 5 and 9: exposures are averaged over requests, then the norm is taken. per_request takes the "
    "norm in each request first, as Diaz et al. do; item level can only be taken so.",
    "unbiased=True removes what few draws of a stochastic policy add to the squared norm.",
)


def _utility_reason(t: Exposure, **_: Any) -> str:
    """A side without relevance, or nothing on either side."""
    if t.reason():
        return t.reason()
    if t.utility is not None and any(not np.any(side > 0) for side in t.both(t.utility)):
        return "no_relevant_in_group"
    return "zero_over_zero"


@metric(
    Card(
        name="dp",
        symbol="DP",
        title="Demographic parity of exposure",
        asks="How much exposure does the protected group get for each unit the other group gets?",
        needs=Exposure,
        span=(0.0, math.inf),
        ideal=1.0,
        better="ideal",
        undefined="neither group was exposed at all",
        otherwise="zero_over_zero",
        says="The protected group gets {estimate:number} times the exposure of the other group{interval}.",
        formula=r"\mathrm{DP} = \epsilon_\pi(G^+) / \epsilon_\pi(G^-)",
        example="exposure 1.5 and 0.5 -> 3",
        variants=_DP_VARIANTS,
        references=("singh2018", "raj2022"),
        laws=frozenset({"two-sided"}),
        per="request",
        family="exposure",
    )
)
def dp(t: Exposure, *, per_item: bool = False, epsilon: NotNegative = 0.0, attention: Model = LOG) -> Floats:
    """Exposure of the protected group over that of the other group.

    `per_item` divides each by its number of items. Nothing on one side gives 0 or infinity, on both NaN.

    >>> dp([1.5, 0.5])
    3.0
    """
    ours, theirs = t.both(t.received)
    if per_item:
        n, m = t.side_sizes()
        ours, theirs = (ours / n if n else ours), (theirs / m if m else theirs)  # nobody there: nothing to divide
    return (ours + epsilon) / (theirs + epsilon)


@metric(
    Card(
        name="log_dp",
        symbol="logDP",
        title="Demographic parity of exposure, as a log ratio",
        asks="Does the protected group get less exposure (below zero) or more (above) than the other group?",
        needs=Exposure,
        span=(-math.inf, math.inf),
        ideal=0.0,
        better="ideal",
        undefined="neither group was exposed at all",
        otherwise="zero_over_zero",
        says="The log ratio of the protected group's exposure to the other's is {estimate:number}{interval}.",
        formula=r"\ln \epsilon_\pi(G^+) - \ln \epsilon_\pi(G^-)",
        example="exposure 1 and 1 -> 0",
        variants=_DP_VARIANTS,
        references=("singh2018", "raj2022"),
        laws=frozenset({"antisymmetric"}),
        per="request",
        family="exposure",
    )
)
def log_dp(t: Exposure, *, per_item: bool = False, epsilon: NotNegative = 0.0, attention: Model = LOG) -> Floats:
    """Natural logarithm of `dp`: 0 is parity, and swapping the groups flips the sign.

    >>> log_dp([1, 1])
    0.0
    >>> log_dp([0, 1])
    -inf
    """
    return np.log(dp.function(t, per_item=per_item, epsilon=epsilon))


@metric(
    Card(
        name="eur",
        symbol="EUR",
        title="Exposed utility ratio",
        asks="Is each group's exposure in proportion to the relevance of its items?",
        needs=Exposure,
        span=(0.0, math.inf),
        ideal=1.0,
        better="ideal",
        undefined="one of the groups has no relevant item, or neither was exposed",
        otherwise=_utility_reason,
        says="For its relevance, the protected group gets {estimate:number} times the exposure of the other group{interval}.",
        formula=r"\frac{\epsilon_\pi(G^+)/\Upsilon(G^+)}{\epsilon_\pi(G^-)/\Upsilon(G^-)}",
        example="exposure 1 and 1, relevance 2 and 1 -> 0.5",
        variants=_EUR_VARIANTS,
        references=("singh2018", "raj2022"),
        laws=frozenset({"two-sided"}),
        per="request",
        family="exposure",
    )
)
def eur(t: Exposure, *, as_printed: bool = False, attention: Model = LOG) -> Floats:
    """Exposure per unit of relevance in the protected group, over the same in the other group (eq. 6).

    >>> eur([1, 1], utility=[2, 1])
    0.5
    """
    return _utility_ratio(t, t.received, as_printed=as_printed)


@metric(
    Card(
        name="log_eur",
        symbol="logEUR",
        title="Exposed utility ratio, as a log ratio",
        asks="For its relevance, is the protected group exposed less (below zero) or more (above) than the other group?",
        needs=Exposure,
        span=(-math.inf, math.inf),
        ideal=0.0,
        better="ideal",
        undefined="one of the groups has no relevant item, or neither was exposed",
        otherwise=_utility_reason,
        says="For its relevance, the log ratio of the protected group's exposure to the other's is {estimate:number}{interval}.",
        formula=r"\ln \mathrm{EUR}",
        example="exposure 2 and 1, relevance 2 and 1 -> 0",
        variants=_EUR_VARIANTS,
        references=("singh2018", "raj2022"),
        laws=frozenset({"antisymmetric"}),
        per="request",
        family="exposure",
    )
)
def log_eur(t: Exposure, *, as_printed: bool = False, attention: Model = LOG) -> Floats:
    """Natural logarithm of `eur`.

    >>> log_eur([2, 1], utility=[2, 1])
    0.0
    """
    return np.log(_utility_ratio(t, t.received, as_printed=as_printed))


@metric(
    Card(
        name="rur",
        symbol="RUR",
        title="Realised utility ratio",
        asks="Is the relevance that readers meet from each group in proportion to what the group has?",
        needs=Exposure,
        span=(0.0, math.inf),
        ideal=1.0,
        better="ideal",
        undefined="one of the groups has no relevant item, or no relevant item of either was exposed",
        otherwise=_utility_reason,
        says="Of its relevance, the protected group realises {estimate:number} times what the other group does{interval}.",
        formula=r"\frac{\Gamma(G^+)/\Upsilon(G^+)}{\Gamma(G^-)/\Upsilon(G^-)}",
        example="discounted relevance 1 and 1 out of 2 and 1 -> 0.5",
        variants=_EUR_VARIANTS,
        references=("singh2018", "raj2022"),
        laws=frozenset({"two-sided"}),
        per="request",
        family="exposure",
    )
)
def rur(t: Exposure, *, as_printed: bool = False, attention: Model = LOG) -> Floats:
    """Discounted relevance per unit of relevance in the protected group, over the same in the other group (eq. 7).

    >>> rur([1, 1], utility=[2, 1], gained=[1, 1])
    0.5
    """
    return _utility_ratio(t, t.gained, as_printed=as_printed)


@metric(
    Card(
        name="log_rur",
        symbol="logRUR",
        title="Realised utility ratio, as a log ratio",
        asks="Does the protected group realise less of its relevance (below zero) or more (above) than the other group?",
        needs=Exposure,
        span=(-math.inf, math.inf),
        ideal=0.0,
        better="ideal",
        undefined="one of the groups has no relevant item, or no relevant item of either was exposed",
        otherwise=_utility_reason,
        says="The log ratio of the share of relevance that the two groups realise is {estimate:number}{interval}.",
        formula=r"\ln \mathrm{RUR}",
        example="discounted relevance 2 and 1 out of 2 and 1 -> 0",
        variants=_EUR_VARIANTS,
        references=("singh2018", "raj2022"),
        laws=frozenset({"antisymmetric"}),
        per="request",
        family="exposure",
    )
)
def log_rur(t: Exposure, *, as_printed: bool = False, attention: Model = LOG) -> Floats:
    """Natural logarithm of `rur`.

    >>> log_rur([2, 1], utility=[2, 1], gained=[2, 1])
    0.0
    """
    return np.log(_utility_ratio(t, t.gained, as_printed=as_printed))


def _utility_ratio(t: Exposure, achieved: Floats | None, *, as_printed: bool) -> Floats:
    ours, theirs = t.both(achieved)
    utility, other_utility = t.both(t.utility)
    ratio = (ours / utility) / (theirs / other_utility)
    if as_printed:
        n, m = t.side_sizes()
        ratio = ratio * (n / m)
    return np.where((utility > 0) & (other_utility > 0), ratio, np.nan)


@metric(
    Card(
        name="iaa",
        symbol="IAA",
        title="Inequity of amortised attention",
        asks="Over a sequence of rankings, how far is attention from the utility the system itself predicts?",
        needs=Amortised,
        span=(0.0, 2.0),
        ideal=0.0,
        better="lower",
        undefined="nothing was ranked, or every predicted score is zero",
        otherwise="zero_utility",
        says="Attention and predicted utility differ by {estimate:number} in all, where 0 is proportional and 2 the most{interval}.",
        formula=r"\sum_g |\bar A_g - \bar R_g|",
        example="attention 1 and 1, utility 3 and 1 -> 0.5",
        variants=(
            "Attention and utility are normalised ranking by ranking (Biega et al.), so lists of different length or score "
            "scale weigh the same; normalize='pooled' adds everything up first, as the authors' program does.",
            "The printed range [0, inf) is that of the form without normalisation. FairRankTune returns after the first ranking.",
        ),
        references=("biega2018", "raj2022"),
        per="request",
        family="exposure",
    )
)
def iaa(
    t: Amortised,
    *,
    normalize: Literal["per_ranking", "pooled"] = "per_ranking",
    level: Level = "group",
    attention: Model = GEOMETRIC,
) -> Floats:
    """Sum over groups (or items) of the difference between share of attention and share of predicted utility (eq. 8).

    `normalize` and `level` say what the tally adds up; the last step is the same.

    >>> iaa([1, 1], utility=[3, 1])
    0.5
    """
    shown, worth = t.attention.sum(-1, keepdims=True), t.utility.sum(-1, keepdims=True)
    gap = np.abs(t.attention / shown - t.utility / worth).sum(-1)
    return np.where((shown > 0) & (worth > 0), gap[..., None], np.nan)[..., 0]


@metric(
    Card(
        name="eed",
        symbol="EED",
        title="Expected exposure disparity",
        asks="How concentrated is exposure?",
        needs=Exposure,
        span=(0.0, math.inf),
        ideal=math.nan,
        better="lower",
        undefined="there is no request; with unbiased=True also a request with a single draw",
        otherwise="single_member",
        says="Expected exposure disparity is {estimate:number}{interval}; lower is more even.",
        formula=r"\lVert \epsilon_\pi \rVert_2^2",
        example="exposure 1.5 and 0.5 -> 2.5",
        variants=(
            *_EE_VARIANTS,
            "Its least value is (sum of exposure)^2 / groups, not 0 as table 1 of the paper says.",
        ),
        references=("diaz2020", "raj2022"),
        per="request",
        family="exposure",
    )
)
def eed(
    t: Exposure,
    *,
    level: Level = "group",
    aggregate: Aggregate = "before",
    unbiased: bool = False,
    attention: Model = RBP,
) -> Floats:
    """Squared length of the exposure vector (eq. 5): smaller is more even, for the same total.

    >>> eed([1.5, 0.5])
    2.5
    """
    if level == "item" or aggregate == "per_request":
        norms = _norms(t)
        value = norms[..., 0] - norms[..., 3] if unbiased else norms[..., 0]
        return value / t.weight
    value = (t.received**2).sum(-1)
    if unbiased:
        value = value - _norms(t)[..., 4]
    return value / t.weight**2


@metric(
    Card(
        name="eer",
        symbol="EER",
        title="Expected exposure relevance",
        asks="How well does exposure go where an ideal ranking by relevance would send it?",
        needs=Exposure,
        span=(0.0, math.inf),
        ideal=math.nan,
        better="higher",
        undefined="there is no request",
        otherwise="empty",
        says="Expected exposure relevance is {estimate:number}{interval}; higher is better aligned.",
        formula=r"2\, \epsilon_\pi^{\top} \epsilon^*",
        example="exposure 1.5 and 0.5, due 1 and 1 -> 4",
        variants=(*_EE_VARIANTS, "Diaz et al.'s program reports the product without the factor 2 of eq. 10."),
        references=("diaz2020", "raj2022"),
        per="request",
        family="exposure",
    )
)
def eer(t: Exposure, *, level: Level = "group", aggregate: Aggregate = "before", attention: Model = RBP) -> Floats:
    """Twice the product of exposure and target exposure (eq. 10).

    >>> eer([1.5, 0.5], due=[1, 1])
    4.0
    """
    if level == "item" or aggregate == "per_request":
        return 2 * _norms(t)[..., 1] / t.weight
    return 2 * (t.received * _due(t)).sum(-1) / t.weight**2


@metric(
    Card(
        name="target_norm",
        symbol="|e*|^2",
        title="Squared norm of target exposure",
        asks="How concentrated would exposure be under the ideal policy?",
        needs=Exposure,
        span=(0.0, math.inf),
        ideal=math.nan,
        better="",
        undefined="there is no request",
        otherwise="empty",
        says="The squared norm of the target exposure is {estimate:number}{interval}.",
        formula=r"\lVert \epsilon^* \rVert_2^2",
        example="due 1 and 1 -> 2",
        references=("diaz2020",),
        per="request",
        family="exposure",
    )
)
def target_norm(
    t: Exposure, *, level: Level = "group", aggregate: Aggregate = "before", attention: Model = RBP
) -> Floats:
    """The part of `eel` that no system can change: EEL = EED - EER + target_norm.

    >>> target_norm([1.5, 0.5], due=[1, 1])
    2.0
    """
    if level == "item" or aggregate == "per_request":
        return _norms(t)[..., 2] / t.weight
    return (_due(t) ** 2).sum(-1) / t.weight**2


@metric(
    Card(
        name="eel",
        symbol="EEL",
        title="Expected exposure loss",
        asks="How far is exposure from what an ideal policy, fair among equally relevant items, would give?",
        needs=Exposure,
        span=(0.0, math.inf),
        ideal=0.0,
        better="lower",
        undefined="there is no request; with unbiased=True also a request with a single draw",
        otherwise="single_member",
        says="Expected exposure loss is {estimate:number}{interval}; 0 is the ideal policy.",
        formula=r"\lVert \epsilon_\pi - \epsilon^* \rVert_2^2",
        example="exposure 1.5 and 0.5, due 1 and 1 -> 0.5",
        variants=_EE_VARIANTS,
        references=("diaz2020", "raj2022"),
        per="request",
        family="exposure",
    )
)
def eel(
    t: Exposure,
    *,
    level: Level = "group",
    aggregate: Aggregate = "before",
    unbiased: bool = False,
    attention: Model = RBP,
) -> Floats:
    """Squared distance between exposure and target exposure (eq. 9).

    >>> eel([1.5, 0.5], due=[1, 1])
    0.5
    """
    if level == "item" or aggregate == "per_request":
        norms = _norms(t)
        value = norms[..., 0] - 2 * norms[..., 1] + norms[..., 2]
        # The three parts cancel where exposure meets its target; rounding may leave a trace below zero.
        value = value - norms[..., 3] if unbiased else np.maximum(value, 0.0)
        return value / t.weight
    value = ((t.received - _due(t)) ** 2).sum(-1)
    if unbiased:
        value = value - _norms(t)[..., 4]
    return value / t.weight**2


def least_disparity(t: Exposure) -> Floats:
    """The smallest `eed` (group level) that the same total exposure allows: everyone gets the same."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((t.received.sum(-1) / t.weight) ** 2 / t.received.shape[-1])


def _due(t: Exposure) -> Floats:
    if t.due is None:
        raise EvenhandError("This metric needs target exposure, made from relevance. Pass relevance= (or due=).")
    return t.due


def _norms(t: Exposure) -> Floats:
    if t.norms is None:
        raise EvenhandError("level='item', aggregate='per_request' and unbiased=True need rankings. Use eh.exposure.")
    return t.norms


def target_exposure(relevance: Mapping[Any, float], attention: Any = "rbp(patience=0.5)") -> dict[Any, float]:
    """Attention each judged item would get under the ideal policy.

    All rankings by falling relevance are equally likely, so items that tie share the mean of the weights of their ranks.

    >>> target_exposure({"a": 1, "b": 1, "c": 0}, "rbp(patience=0.5)")
    {'a': 0.75, 'b': 0.75, 'c': 0.25}
    """
    if not isinstance(relevance, Mapping):
        raise EvenhandError(f"relevance is of type {type(relevance).__name__}. Pass {{item: relevance}}.")
    weights = target_weights(list(relevance.values()), parse(attention))
    return dict(zip(relevance, weights.tolist(), strict=True))
