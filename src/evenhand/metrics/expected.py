"""Expected exposure (Diaz et al.): how even exposure is, and how near to what an ideal policy would give.

Group level follows eqs. 5, 9 and 10: exposures are averaged over requests, then norms are taken. At item level, and where
asked for, norms are taken in each request and averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from evenhand.attention import parse, target_weights
from evenhand.cards import Card, Floats, Metric, metric
from evenhand.distances import total
from evenhand.errors import EvenhandError
from evenhand.metrics.exposure import Level, Model
from evenhand.tallies.exposure import Exposure

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
    value = total(t.received**2)
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
    return _over_requests(t, 2 * total(t.received * _due(t, target)))


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
    return _over_requests(t, total(_due(t, target) ** 2))


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
    value = total((t.received - _due(t, target)) ** 2)
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


@eed.chance
def disparity_in_random_order(
    order: InRandomOrder, *, level: str = "group", aggregate: str = "before", **params: Any
) -> Floats:
    """Mean of `eed` over random orders of every list."""
    return _mean_over_orders(eed, order, level=level, aggregate=aggregate, **params)


@eel.chance
def loss_in_random_order(
    order: InRandomOrder, *, level: str = "group", aggregate: str = "before", **params: Any
) -> Floats:
    """Mean of `eel` over random orders of every list; what is due stays."""
    return _mean_over_orders(eel, order, level=level, aggregate=aggregate, **params)


def _mean_over_orders(metric: Metric, order: InRandomOrder, *, level: str, aggregate: str, **params: Any) -> Floats:
    """The metric of mean exposure; the squared norm of a mean over requests adds its variance, norms of requests hold theirs."""
    value = metric.on(order.expected, level=level, aggregate=aggregate, **params)
    before = level == "group" and aggregate == "before"
    return value + order.variance / order.expected.weight**2 if before else value


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
