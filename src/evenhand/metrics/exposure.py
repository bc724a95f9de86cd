"""Exposure over many rankings: what groups receive against each other, against relevance, predicted utility or a target.

Expectations over requests come first, then the ratio or the norm (Diaz et al.: eqs. 5, 9 and 10); at item level, and where
asked for, norms are taken in each request and averaged. Every function reads a tally of sums; leading axes are replicates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from evenhand.attention import parse, target_weights
from evenhand.cards import Card, Floats, Metric, NotNegative, metric
from evenhand.errors import EvenhandError
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
    shown, worth = t.attention.sum(-1), t.utility.sum(-1)
    gap = np.abs(t.attention / shown[..., None] - t.utility / worth[..., None]).sum(-1)
    return np.where((shown > 0) & (worth > 0), gap, np.nan)


Aggregate = Literal["before", "per_request"]
RBP = "rbp(patience=0.5)"

_EE_VARIANTS = (
    "Group level follows eqs. 5 and 9: exposures are averaged over requests, then the norm is taken. per_request takes the "
    "norm in each request first, as Diaz et al. do; item level can only be taken so.",
    "unbiased=True removes what few draws of a stochastic policy add to the squared norm.",
)


_OWN_TARGET = (
    "eel(target={'f': 0.5, 'm': 0.5}) or target='equal' aims at shares of all labelled exposure instead of relevance, as Raj et "
    "al. recommend it for a target distribution."
)

Target = Any
"""None where relevance decides what is due; `{group: share}`, "equal" or "population" of all labelled exposure otherwise."""


def _aimed(target: Any) -> frozenset[str]:
    """Relevance is read where nothing else says what is due."""
    return frozenset({"relevance", "dues"} if target is None else ())


def _reason(t: Exposure, *, level: str = "group", **_: Any) -> Any:
    """(...,) nothing ranked, nothing labelled, or a single draw where several are needed."""
    labelled = "single_member" if t.received.shape[-1] or level == "item" else "no_labelled_items"
    return np.where(t.weight > 0, labelled, "empty")


@metric(Card(
    name="eed", symbol="EED", title="Expected exposure disparity", needs=Exposure,
    span=(0.0, math.inf), ideal=math.nan, better="lower",
    asks="How concentrated is exposure?",
    undefined="there is no request; with unbiased=True also a request with a single draw", otherwise=_reason,
    says="Expected exposure disparity: {estimate:number}{interval} (lower is more even).",
    formula=r"\lVert \epsilon_\pi \rVert_2^2", example="exposure 1.5 and 0.5 -> 2.5",
    variants=(
        *_EE_VARIANTS,
        "Its least value is (sum of exposure)^2 / groups, not 0 as table 1 of the paper says.",
    ),
    references=("diaz2020", "raj2022"), per="request", family="exposure",
))  # fmt: skip
def eed(
    t: Exposure, *, level: Level = "group", aggregate: Aggregate = "before", unbiased: bool = False,
    attention: Model = RBP,
) -> Floats:  # fmt: skip
    """Squared length of the exposure vector (eq. 5): smaller is more even, for the same total.

    >>> eed([1.5, 0.5])
    2.5
    """
    if level == "item" or aggregate == "per_request":
        norms = _norms(t)
        return (norms.exposure - norms.noise if unbiased else norms.exposure) / t.weight
    value = np.asarray((t.received**2).sum(-1))
    return _over_requests(t, value - _norms(t).noise_of_mean if unbiased else value)


@metric(Card(
    name="eer", symbol="EER", title="Expected exposure relevance", needs=Exposure,
    span=(0.0, math.inf), ideal=math.nan, better="higher",
    asks="How well does exposure match what an ideal ranking by relevance would give?",
    undefined="there is no request", otherwise=_reason,
    says="Expected exposure relevance: {estimate:number}{interval} (higher is better aligned with relevance).",
    formula=r"2\, \epsilon_\pi^{\top} \epsilon^*", example="exposure 1.5 and 0.5, due 1 and 1 -> 4",
    variants=(
        *_EE_VARIANTS,
        _OWN_TARGET,
        "Diaz et al.'s program reports the product without the factor 2 of eq. 10.",
    ),
    references=("diaz2020", "raj2022"), per="request", family="exposure", reads=_aimed,
))  # fmt: skip
def eer(
    t: Exposure, *, level: Level = "group", aggregate: Aggregate = "before", attention: Model = RBP,
    target: Target = None,
) -> Floats:  # fmt: skip
    """Twice the product of exposure and target exposure (eq. 10).

    >>> eer([1.5, 0.5], due=[1, 1])
    4.0
    """
    if level == "item" or aggregate == "per_request":
        return 2 * _norms(t).product / t.weight
    return _over_requests(t, 2 * (t.received * _due(t, target)).sum(-1))


@metric(Card(
    name="target_norm", symbol="|e*|^2", title="Squared norm of target exposure", needs=Exposure,
    span=(0.0, math.inf), ideal=math.nan, better="",
    asks="How concentrated would exposure be under the ideal policy?",
    undefined="there is no request", otherwise=_reason,
    says="Squared norm of the target exposure: {estimate:number}{interval}.",
    formula=r"\lVert \epsilon^* \rVert_2^2", example="due 1 and 1 -> 2",
    references=("diaz2020",), per="request", family="exposure", reads=_aimed,
))  # fmt: skip
def target_norm(
    t: Exposure, *, level: Level = "group", aggregate: Aggregate = "before", attention: Model = RBP,
    target: Target = None,
) -> Floats:  # fmt: skip
    """The part of `eel` that no system can change: EEL = EED - EER + target_norm.

    >>> target_norm([1.5, 0.5], due=[1, 1])
    2.0
    """
    if level == "item" or aggregate == "per_request":
        return _norms(t).due / t.weight
    return _over_requests(t, (_due(t, target) ** 2).sum(-1))


@metric(Card(
    name="eel", symbol="EEL", title="Expected exposure loss", needs=Exposure,
    span=(0.0, math.inf), ideal=0.0, better="lower",
    asks="How far is exposure from what an ideal policy, fair among equally relevant items, would give?",
    undefined="there is no request; with unbiased=True also a request with a single draw", otherwise=_reason,
    says="Expected exposure loss: {estimate:number}{interval} (0 is the ideal policy).",
    formula=r"\lVert \epsilon_\pi - \epsilon^* \rVert_2^2", example="exposure 1.5 and 0.5, due 1 and 1 -> 0.5",
    variants=(
        *_EE_VARIANTS,
        _OWN_TARGET,
    ),
    references=("diaz2020", "raj2022"), per="request", family="exposure", reads=_aimed,
))  # fmt: skip
def eel(
    t: Exposure, *, level: Level = "group", aggregate: Aggregate = "before", unbiased: bool = False,
    attention: Model = RBP, target: Target = None,
) -> Floats:  # fmt: skip
    """Squared distance between exposure and target exposure (eq. 9).

    What is due comes from relevance; with `target`, `{group: share}` or "equal", a group is due its share of all labelled
    exposure, and no relevance is needed.

    >>> eel([1.5, 0.5], due=[1, 1])
    0.5
    >>> eel([1.5, 0.5], target="equal")
    0.5
    """
    if level == "item" or aggregate == "per_request":
        norms = _norms(t)
        value = norms.exposure - 2 * norms.product + norms.due
        # The three parts cancel where exposure meets its target; rounding may leave a trace below zero.
        return (value - norms.noise if unbiased else np.maximum(value, 0.0)) / t.weight
    value = ((t.received - _due(t, target)) ** 2).sum(-1)
    return _over_requests(t, value - _norms(t).noise_of_mean if unbiased else value)


@eed.ideally
def least_disparity(
    t: Exposure, *, level: str = "group", aggregate: str = "before", unbiased: bool = False, **_: Any
) -> Floats:
    """Smallest `eed` at the same total exposure: all groups get the same. Known for groups only."""
    if level != "group" or aggregate != "before" or unbiased:
        return np.array(np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((t.received.sum(-1) / t.weight) ** 2 / t.received.shape[-1])


class InRandomOrder(NamedTuple):
    """Exposure of requests whose lists are in random order: its mean (a tally of sums), and its variance.

    `variance` : (...,) that of each request times its weight squared, added up over groups and requests.
    """

    expected: Exposure
    variance: Floats


def _mean_over_orders(metric: Metric, order: InRandomOrder, **params: Any) -> Floats:
    """Mean of a squared norm over random orders of every list; what is due stays.

    That of mean exposure; the squared norm of a mean over requests adds its variance, norms of requests hold theirs.
    """
    value = metric.on(order.expected, **params)
    before = params.get("level", "group") == "group" and params.get("aggregate", "before") == "before"
    return value + order.variance / order.expected.weight**2 if before else value


for _metric in (eed, eel):
    _metric.chance(functools.partial(_mean_over_orders, _metric))


def loss_floor(
    t: Exposure, *, level: str = "group", aggregate: str = "before", unbiased: bool = False, **_: Any
) -> float:
    """`eel` that an ideal policy would score on as many requests: sampling noise, estimated between requests."""
    if level != "group" or aggregate != "before" or unbiased or t.due is None:
        return math.nan
    weight, sums, requests = t.weight[:, None], t.received - t.due, len(t.weight)
    if requests < 2 or not t.weight.sum() > 0 or not sums.shape[-1]:
        return math.nan
    off = sums - weight * sums.sum(0) / weight.sum()
    noise = float((off**2).sum() / weight.sum() ** 2 * requests / (requests - 1))
    return noise if noise > 1e-24 else 0.0  # requests that are all alike leave the rounding of 0


def _over_requests(t: Exposure, square: Floats) -> Floats:
    """A squared sum over requests as the square of a mean; NaN without groups."""
    if not t.received.shape[-1]:
        return np.full(t.weight.shape, np.nan)
    return np.asarray(square / t.weight**2)


def _due(t: Exposure, target: Any) -> Floats:
    """Exposure due to each group: that of the tally, or from a target."""
    if t.due is not None:
        return t.due
    if isinstance(target, str) and target == "equal":
        return np.asarray(t.received.sum(-1, keepdims=True) / max(1, t.received.shape[-1]) + 0 * t.received)
    if target is not None:
        raise EvenhandError(f"target={target!r} needs to know the groups. Pass due= here, or use eh.exposure.")
    raise EvenhandError("This metric needs target exposure, made from relevance. Pass relevance=, due= or target=.")


class _Norms(NamedTuple):
    """Squared norms of each request, added up over requests: `exposure`, its `product` with what is `due`, `due`.

    `noise` is what few draws of a stochastic policy add to `exposure`, `noise_of_mean` to the norm of the mean.
    """

    exposure: Floats
    product: Floats
    due: Floats
    noise: Floats
    noise_of_mean: Floats


def _norms(t: Exposure) -> _Norms:
    if t.norms is None:
        raise EvenhandError("level='item', aggregate='per_request' and unbiased=True need rankings. Use eh.exposure.")
    return _Norms(*np.moveaxis(t.norms, -1, 0))


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
