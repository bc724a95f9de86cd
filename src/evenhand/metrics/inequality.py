"""Inequality of one amount over one population, and what is read off its Lorenz curve.

Every function reads a Spectrum and nothing else: no dataframe, no group, no randomness. Sums run over the last axis, so
replicates and slices broadcast. The Lorenz curve is the polygon through (share of units, share of the total), poorest first; a
fraction of a unit holds its share pro rata. That makes every reading invariant to replication, which sums over whole members are not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Between, Card, Floats, Fraction, Metric, metric
from evenhand.errors import EvenhandError, UndefinedWarning
from evenhand.tallies.spectrum import Spectrum, before, crossing, dot, entries

Aversion = Annotated[float, Between(0, math.inf)]

NEAR = 1e-9
"""How close a parameter must be to a removable singularity for its limit to be taken."""


@metric(Card(
    name="gini", symbol="G", title="Gini index", needs=Spectrum, span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="How far apart are two units drawn at random, relative to the mean?",
    undefined="no unit received anything; with corrected=True also a single unit", otherwise="single_member",
    says="The Gini index of {amount} over {units} is {estimate:number}{interval}.",
    formula=r"G = \frac{\sum_i (2i - n - 1)\, x_{(i)}}{n \sum_i x_i}", example="[0, 0, 0, 10] -> 0.75",
    variants=(
        "evenhand, LensKit, PySAL and FairDiverse divide by n: [0, 0, 0, 10] gives 0.75, at most 1 - 1/n.",
        "holisticai divides by n - 1 (our corrected=True): [0, 0, 0, 10] gives 1.0.",
        "RecBole counts a padding item: [0, 0, 0, 10] becomes five items and gives 0.8.",
        "Elliot returns one minus the corrected Gini: [0, 0, 0, 10] gives 0.0, and equality gives 1.",
        "Evidently looks at items that were shown at all: [0, 0, 0, 10] is one item and gives nan.",
    ),
    references=("gini1912", "lazovich2022"), laws=frozenset({"scale-free", "replication", "transfer"}),
    family="inequality",
))  # fmt: skip
def gini(s: Spectrum, *, corrected: bool = False) -> Floats:
    r"""Half the mean absolute difference between two units, over the mean.

    .. math:: G = \frac{1}{2 n^2 \mu} \sum_i \sum_j |x_i - x_j| = \frac{\sum_i (2i - n - 1)\, x_{(i)}}{n \sum_i x_i}

    The right-hand form needs one pass over sorted amounts; units that tie share the mean of the ranks they span.
    `corrected` divides by n - 1 instead of n (the mean over distinct pairs).

    >>> gini([0, 0, 0, 10])
    0.75
    >>> gini([0, 0, 0, 10], corrected=True)
    1.0
    """
    size, total = s.size, s.total
    rank = 2 * s.reach - s.mass - size[..., None]
    spread = (rank * s.amount).sum(-1)  # each product rounded, or equal amounts would leave a rest
    value = np.maximum(spread, 0.0) / (size * total)  # the last bits of weighted sums may fall below zero
    return np.where(size > 1, value * (size / (size - 1)), np.nan) if corrected else value


@gini.influence
def _(s: Spectrum, estimate: Floats, *, corrected: bool = False) -> Floats:
    """Z_i / mean with Z_i = -(G + 1) x_i + (2 / n) sum_j max(x_i - x_j, 0), centred."""
    size, mean, value = s.size[..., None], (s.total / s.size)[..., None], estimate[..., None]
    correction = size / (size - 1) if corrected else np.ones_like(size)
    above = s.values * s.reach - s.cum_amount
    return 2 * correction / (size * mean) * above - (value + correction) / mean * s.values + correction - value


def gini_chance(mean: Floats) -> Floats:
    r"""Gini index that equal rates would give: Poisson counts with this mean.

    .. math:: e^{-2\lambda} [I_0(2\lambda) + I_1(2\lambda)]

    >>> float(gini_chance(np.array(1.0)).round(3))
    0.524
    """
    from scipy.special import i0e, i1e  # scaled by exp(-x), so that no rate is too large

    rate = 2 * np.asarray(mean, dtype=np.float64)
    return np.asarray(i0e(rate) + i1e(rate))


MOST_EVENTS = 1 << 20
"""Beyond so many events Poisson counts differ from dealt ones by less than one part in eight million."""


def gini_of_events(events: Floats, units: Floats) -> Floats:
    r"""Mean Gini index where so many events go to as many units at random, each independently.

    Two units differ by a sum of one step per event, up or down with a chance of 1/n each. For whole numbers
    :math:`|d| = \frac1\pi \int_0^\pi (1 - \cos dt)/(1 - \cos t)\,dt`, and the mean of the cosine is a power; the midpoint rule
    is exact with more points than the two can differ by.

    >>> gini_of_events(np.array([30.0]), np.array([12.0])).round(4)
    array([0.32])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.asarray((1 - 1 / units) * gini_chance(events / units))
        far = np.minimum(events + 1, 12 * np.sqrt(2 * events / units) + 40)  # but for a chance of 1e-30
    width = 2 ** np.ceil(np.log2(np.where(events > 0, far, 1.0))).astype(np.int64)
    exact = (events > 0) & (events <= MOST_EVENTS) & (units > 1)
    for points in np.unique(width[exact]).tolist():
        away = 2 * np.sin((np.arange(points) + 0.5) * math.pi / (2 * points)) ** 2  # 1 - cos t
        for at in np.array_split(np.flatnonzero(exact & (width == points)), 1 + exact.sum() * points // MOST_EVENTS):
            n, many = units[at, None], events[at, None]
            cosine = (1 - 2 / n * away) ** many
            level[at] = (n[:, 0] - 1) * ((1 - cosine) / away).mean(-1) / (2 * events[at])
    return np.where(events > 0, level, np.nan)


@gini.chance
def _(s: Spectrum, *, corrected: bool = False) -> Floats:
    """For counts of events; weights are none."""
    if s.weights is not None:
        return np.full(s.size.shape, np.nan)
    scale = s.size / np.where(s.size > 1, s.size - 1, np.nan) if corrected else 1.0
    return np.asarray(gini_of_events(s.total, s.size) * scale)


@gini.attainable
def _(s: Spectrum, *, corrected: bool = False) -> tuple[float, float]:
    """For counts of rows: as equal as their number allows, and all with one unit."""
    total, size = float(s.total), float(s.size)
    if not total or (corrected and size < 2):
        return np.nan, np.nan
    scale = size / (size - 1) if corrected else 1.0
    return least_gini(total, size) * scale, (1 - 1 / size) * scale


def least_gini(slots: float, units: float) -> float:
    """The Gini index of counts as equal as a whole number of slots allows.

    >>> least_gini(3, 4), least_gini(8, 4)
    (0.25, 0.0)
    """
    over = slots % units
    return over * (units - over) / (units * slots)


@metric(Card(
    name="atkinson", symbol="A", title="Atkinson index", needs=Spectrum, local=lambda epsilon: epsilon > 2,
    span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="What share of everything could be thrown away if the rest were spread evenly, at this aversion to inequality?",
    undefined="no unit received anything",
    says="The Atkinson index of {amount} over {units} (epsilon {epsilon:number}) is {estimate:number}{interval}.",
    formula=r"A_\epsilon = 1 - \frac1\mu\Big[\frac1n\sum_i x_i^{1-\epsilon}\Big]^{1/(1-\epsilon)}",
    example="[1, 2, 3, 4, 10], epsilon 0.5 -> 0.1335",
    variants=(
        "A zero with epsilon >= 1 gives 1 (the limit); PySAL raises there, and overflows for large epsilon.",
        "epsilon=inf gives 1 - min/mean, which is 1 only when somebody has nothing.",
    ),
    references=("atkinson1970", "lazovich2022"), laws=frozenset({"scale-free", "replication", "transfer"}),
    family="inequality",
))  # fmt: skip
def atkinson(s: Spectrum, *, epsilon: Aversion = 0.5) -> Floats:
    r"""Share of the total that inequality wastes, for someone with aversion `epsilon`.

    Computed as a generalised mean relative to a base, with `expm1` and `log1p`, so that neither epsilon near 1 nor a
    large epsilon loses digits. A zero with epsilon >= 1 gives 1.

    >>> round(atkinson([0, 0, 0, 10]), 2)
    0.75
    >>> round(atkinson([1, 2], epsilon=float("inf")), 4)
    0.3333
    """
    size, mean = s.size, s.total / s.size
    lowest: Any = _lowest(s) if epsilon >= 1 else np.inf
    if math.isinf(epsilon):
        return np.where(mean > 0, np.maximum(1 - lowest / mean, 0.0), np.nan)
    if epsilon == 0:
        return np.where(mean > 0, 0.0, np.nan)
    power = 1 - epsilon
    # Below 1 any fixed base will do; above, the base is the poorest unit, whose term then dominates and cannot overflow.
    base = np.where(lowest > 0, lowest, 1.0)[..., None] if power < 0 else _typical(s)
    logs = np.log(s.values) - np.log(base)
    if abs(power) < NEAR:
        log_ede = s.sum_of(logs) / size
    else:
        log_ede = np.log1p(s.sum_of(np.expm1(power * logs)) / size) / power
    value = 1 - np.exp(log_ede + np.log(base[..., 0]) - np.log(mean))
    value = np.where((lowest == 0) & (epsilon >= 1), 1.0, np.maximum(value, 0.0))
    return np.where(mean > 0, value, np.nan)


@atkinson.influence
def _(s: Spectrum, estimate: Floats, *, epsilon: float = 0.5) -> Floats:
    """(1 - A) [(x / mean - 1) - (x^(1 - eps) / M - 1) / (1 - eps)], M the mean of x^(1 - eps)."""
    if math.isinf(epsilon):
        return np.full(np.broadcast_shapes(s.counts.shape, s.values.shape), np.nan)
    mean, power = (s.total / s.size)[..., None], 1 - epsilon
    lowest: Any = _lowest(s)[..., None] if epsilon >= 1 else np.inf
    relative = s.values / (np.where(lowest > 0, lowest, 1.0) if epsilon > 1 else _typical(s))
    if abs(power) < NEAR:
        bent = _centred(s, np.log(relative))
    else:
        powers = relative**power
        bent = (powers / (s.sum_of(powers) / s.size)[..., None] - 1) / power
    influence = (1 - estimate[..., None]) * (s.values / mean - 1 - bent)
    return np.where(lowest == 0, 0.0, influence)


Alpha = Annotated[float, Between(-math.inf, math.inf, open_low=True, open_high=True)]


@metric(Card(
    name="generalized_entropy", symbol="GE", title="Generalised entropy", needs=Spectrum,
    local=lambda alpha: not -1 <= alpha <= 2,
    span=(0.0, math.inf), ideal=0.0, better="lower",
    asks="How far is the spread of amounts from equality, with weight on the top (large alpha) or the bottom (small)?",
    undefined="no unit received anything; infinite when alpha <= 0 meets a zero",
    says="The generalised entropy of {amount} over {units} (alpha {alpha:number}) is {estimate:number}{interval}.",
    formula=r"GE(\alpha) = \frac{1}{\alpha(\alpha-1)}\Big[\frac1n\sum_i (x_i/\mu)^\alpha - 1\Big]",
    example="[1, 3], alpha 2 -> 0.125",
    variants=("AIF360 divides by the mean once more at alpha 0, so its value changes with the unit of measurement.",),
    references=("shorrocks1980",), laws=frozenset({"scale-free", "replication", "transfer"}), family="inequality",
))  # fmt: skip
def generalized_entropy(s: Spectrum, *, alpha: Alpha = 1.0) -> Floats:
    r"""Distance from equality, with weight on the top (large alpha) or the bottom (small).

    Alpha 2 is half the squared coefficient of variation, 1 is Theil T, 0 is Theil L.

    >>> generalized_entropy([1, 3], alpha=2)
    0.125
    """
    size, mean = s.size, s.total / s.size
    relative = s.values / mean[..., None]
    # A ratio too small for a float still has a logarithm.
    logs = np.where(relative > 0, np.log(relative), np.log(s.values) - np.log(mean[..., None]))
    if abs(alpha) < 1e-290:  # below, a power of an amount no longer differs from 1
        value = -s.sum_of(logs) / size
    elif abs(alpha - 1) < NEAR:
        value = s.sum_of(np.where(s.values > 0, relative * logs, 0.0)) / size
    elif alpha > 0.5:  # the mean of x/mu is 1, so expm1 around it keeps the digits near alpha = 1
        terms = np.where(s.values > 0, relative * np.expm1((alpha - 1) * logs), 0.0)
        value = s.sum_of(terms) / size / (alpha * (alpha - 1))
    else:
        value = s.sum_of(np.expm1(alpha * logs)) / size / (alpha * (alpha - 1))
    return np.where(mean > 0, np.maximum(value, 0.0), np.nan)


@generalized_entropy.influence
def _(s: Spectrum, estimate: Floats, *, alpha: float = 1.0) -> Floats:
    mean = (s.total / s.size)[..., None]
    relative, value = s.values / mean, estimate[..., None]
    if abs(alpha - 1) < NEAR:
        return np.where(s.values > 0, relative * np.log(relative), 0.0) - value - (relative - 1) * (value + 1)
    if abs(alpha) < NEAR:
        return _centred(s, relative - 1 - np.log(relative))
    moment = value * alpha * (alpha - 1) + 1
    return (relative**alpha - moment - alpha * moment * (relative - 1)) / (alpha * (alpha - 1))


@metric(Card(
    name="theil", symbol="T", title="Theil index", needs=Spectrum, span=(0.0, math.inf), ideal=0.0, better="lower",
    asks="How much information does knowing who received what carry, against an equal spread?",
    undefined="no unit received anything",
    says="The Theil index of {amount} over {units} is {estimate:number}{interval}.",
    formula=r"T = \frac1n\sum_i \frac{x_i}{\mu}\ln\frac{x_i}{\mu}", example="[0, 0, 0, 10] -> ln 4 = 1.3863",
    variants=("PySAL adds a tiny number to zeros; AIF360 overflows on counts; ours counts 0 ln 0 as 0.",),
    references=("theil1967",), laws=frozenset({"scale-free", "replication", "transfer"}), family="inequality",
))  # fmt: skip
def theil(s: Spectrum) -> Floats:
    """Generalised entropy at alpha 1; at most ln n.

    >>> round(theil([0, 0, 0, 10]), 4)
    1.3863
    """
    return generalized_entropy.on(s, alpha=1.0)


@theil.influence
def _(s: Spectrum, estimate: Floats) -> Floats:
    return generalized_entropy.linearised(s, estimate, {"alpha": 1.0})  # type: ignore[return-value]


@metric(Card(
    name="hoover", symbol="H", title="Hoover index", needs=Spectrum, span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="What share of everything would have to change hands to make all equal?",
    undefined="no unit received anything",
    says="{estimate:percent} of all {amount} would have to be redistributed to make all {units} equal{interval}.",
    formula=r"H = \tfrac12\sum_i |x_i / S - 1/n|", example="[1, 2, 3, 4, 10] -> 0.3",
    references=("hoover1936",), laws=frozenset({"scale-free", "replication", "weak-transfer"}), family="inequality",
))  # fmt: skip
def hoover(s: Spectrum) -> Floats:
    """Half the mean distance from the mean, over the mean (Pietra or Robin Hood index).

    >>> round(hoover([1, 2, 3, 4, 10]), 4)
    0.3
    """
    mean = s.total / s.size
    return s.sum_of(np.abs(s.values / mean[..., None] - 1)) / s.size / 2


@hoover.influence
def _(s: Spectrum, estimate: Floats) -> Floats:
    relative = s.values / (s.total / s.size)[..., None]
    poor = (s.sum_of(np.where(relative < 1, 1.0, 0.0)) / s.size)[..., None]
    value = estimate[..., None]
    return _centred(s, np.maximum(1 - relative, 0) - value + (relative - 1) * (poor - value))


@metric(Card(
    name="herfindahl", symbol="HHI", title="Herfindahl-Hirschman index", needs=Spectrum,
    span=(0.0, 1.0), ideal=lambda normalized: 0.0 if normalized else math.nan, better="lower",
    asks="How likely is it that two shares of the total, drawn at random, belong to the same unit?",
    undefined="no unit received anything; normalised also for a single unit", otherwise="single_member",
    says="The Herfindahl-Hirschman index of {amount} over {units} is {estimate:number}{interval}.",
    formula=r"HHI = \sum_i (x_i/S)^2,\quad \frac{HHI - 1/n}{1 - 1/n}", example="[1, 1, 2] -> 0.375",
    variants=("Equality gives 1/n, not 0, unless normalized=True.",),
    references=("hirschman1964",), laws=frozenset({"scale-free", "transfer"}), family="inequality",
))  # fmt: skip
def herfindahl(s: Spectrum, *, normalized: bool = False) -> Floats:
    """Sum of squared shares; 1/n when all are equal, 1 when one holds everything.

    >>> herfindahl([1, 1, 2])
    0.375
    """
    shares = s.values / s.total[..., None]
    value = s.sum_of(shares**2)
    if normalized:
        return np.where(s.size > 1, np.maximum((value - 1 / s.size) / (1 - 1 / s.size), 0.0), np.nan)
    return np.where(s.total > 0, value, np.nan)


@herfindahl.influence
def _(s: Spectrum, estimate: Floats, *, normalized: bool = False) -> Floats:
    size = s.size[..., None]
    relative = s.values / (s.total / s.size)[..., None]
    second = (s.sum_of(relative**2) / s.size)[..., None]
    influence = (relative**2 - second - 2 * second * (relative - 1)) / size
    return influence / (1 - 1 / size) if normalized else influence + 0 * estimate[..., None]


@metric(Card(
    name="mean", symbol="mu", title="Mean amount", needs=Spectrum,
    span=(0.0, math.inf), ideal=math.nan, better="", at_zero=0.0,
    asks="How much does a unit receive on average?",
    undefined="there are no units",
    says="Mean {amount} per {unit}: {estimate:number}{interval}.",
    formula=r"\mu = S / n", example="[0, 0, 0, 10] -> 2.5",
    laws=frozenset({"replication"}), family="level",
))  # fmt: skip
def mean(s: Spectrum) -> Floats:
    """Total over number of units, those with nothing included.

    >>> mean([0, 0, 0, 10])
    2.5
    """
    return s.total / s.size


@mean.influence
def _(s: Spectrum, estimate: Floats) -> Floats:
    return s.values - estimate[..., None]


@metric(Card(
    name="reach", symbol="R", title="Share that gets anything", needs=Spectrum,
    span=(0.0, 1.0), ideal=1.0, better="higher", at_zero=0.0,
    asks="What share of units received anything at all?",
    undefined="there are no units",
    says="{estimate:percent} of {units} get any {amount} at all{interval}.",
    formula=r"\#\{i : x_i > 0\} / n", example="[0, 0, 0, 10] -> 0.25",
    variants=("Only as true as the population: a log holds nobody who received nothing, and with population=None it is 1.",),
    references=("lazovich2022",), laws=frozenset({"scale-free", "replication"}), family="level", share_of_units=True,
))  # fmt: skip
def reach(s: Spectrum) -> Floats:
    """Share of units whose amount is above zero: the opportunity, before how much of it.

    >>> reach([0, 0, 0, 10])
    0.25
    """
    return s.sum_of(_any(s)) / s.size


@reach.influence
def _(s: Spectrum, estimate: Floats) -> Floats:
    return _any(s) - estimate[..., None]


def _any(s: Spectrum) -> Floats:
    return np.where(s.values > 0, 1.0, 0 * s.values)  # what is missing stays missing


def gini_se(x: object, *, weights: object = None) -> float:
    """Linearised standard error of the Gini index, for units drawn independently.

    >>> round(gini_se([1, 2, 3, 4, 10]), 4)
    0.0735
    """
    return standard_error(gini, Spectrum.from_arrays(x, weights=weights))


def standard_error(of: Metric, s: Spectrum, **params: object) -> float:
    """Linearised standard error of a metric on one spectrum; NaN where it has none."""
    if code := s.reason():
        warnings.warn(UndefinedWarning(f"The error of {of.card.name} is undefined: {code}.", code), stacklevel=3)
        return math.nan
    estimate = of.on(s, **params)
    per_unit = of.linearised(s, estimate, params)
    return math.nan if per_unit is None else float(spread_of_mean(s, per_unit))


def spread_of_mean(s: Spectrum, per_unit: Floats) -> Floats:
    """Standard error of a weighted mean of independent units whose influence is given per cell."""
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        pull = np.where(s.counts > 0, _centred(s, per_unit), 0.0)  # cells without units may hold anything
        if s.weights is not None:
            pull = s.weights * pull
        # Squares of huge and tiny numbers leave the range of floats. Dividing by a power of two loses no digit.
        largest = np.abs(pull).max(-1, keepdims=True, initial=0.0)
        scale = np.where((largest > 0) & np.isfinite(largest), np.exp2(np.floor(np.log2(largest))), 1.0)
        pull = pull / scale
        return np.asarray(np.sqrt(dot(s.counts * pull, pull)) / s.size * scale[..., 0])


def _centred(s: Spectrum, per_unit: Floats) -> Floats:
    return per_unit - (s.sum_of(per_unit) / s.size)[..., None]


def _lowest(s: Spectrum) -> Floats:
    return np.asarray(np.where(s.mass > 0, s.values, np.inf).min(-1, initial=np.inf))


def _typical(s: Spectrum) -> Floats:
    """(..., 1) some positive amount inside each row, to divide by before taking powers.

    Read off the amounts and not the counts: draws of one population share it, and no other slice can move it.
    """
    least = np.where(s.values > 0, s.values, np.inf).min(-1, keepdims=True, initial=np.inf)
    middle = np.sqrt(least) * np.sqrt(s.values.max(-1, keepdims=True, initial=0.0))
    return np.where(np.isfinite(middle) & (middle > 0), middle, 1.0)


ROUNDING = 1e-12
"""0.55 * 100 is 55.00000000000001 in floating point; a rank this close to a whole number is that number."""


def lorenz_at(s: Spectrum, p: float | Floats) -> Floats:
    """Share of the total held by the bottom `p` (one for all rows, or one per row).

    All below the cell that p lies in, and of that cell the part of its mass that lies below p.
    """
    bound = np.asarray(p * s.size)
    cell, is_reached = crossing(s.reach, bound)
    amount = before(s.cum_amount, cell) + (bound - before(s.reach, cell)) * entries(s.values, cell)
    return np.where(is_reached & (bound < s.size), amount, s.total) / s.total


def population_at(s: Spectrum, share: Floats) -> Floats:
    """Share of the units, poorest first, who together hold `share` > 0 of the total."""
    bound = share * s.total
    cell, is_reached = crossing(s.cum_amount, bound)
    units = before(s.reach, cell) + (bound - before(s.cum_amount, cell)) / entries(s.values, cell)
    below = np.where(is_reached & ~np.isnan(units), units, s.size)
    return np.where(s.total > 0, np.minimum(below / s.size, 1.0), np.nan)


def quantile(s: Spectrum, p: float | Floats) -> Floats:
    """Smallest amount that at least a share `p` of the units do not exceed (inverted CDF)."""
    bound = np.maximum(p * s.size * (1 - ROUNDING), 1e-290)  # above 0: no cell without units gets so far
    cell, is_reached = crossing(s.reach, bound)
    return np.where(is_reached, entries(s.values, cell), np.nan)


def lorenz_influence(s: Spectrum, p: float | Floats, share: Floats | None = None) -> Floats:
    """[(x - q) 1(x <= q) + p q - L(p) x] / mean, q the p-quantile and `share` L(p) if known."""
    mean, q = (s.total / s.size)[..., None], quantile(s, p)
    bottom = (lorenz_at(s, p) if share is None else share)[..., None]
    return (np.minimum(s.values, q[..., None]) + (p * q - q)[..., None] - bottom * s.values) / mean


TOP_UNITS = 5
"""Units in the top below which the share of the top needs a caution."""


def _few_above(share: float, units: float) -> str:
    """The caution of a point that only so large a share of the units lies above."""
    return "few_at_the_top" if share * units < TOP_UNITS else ""


@metric(Card(
    name="top_share", symbol="T_p", title="Share of the top", needs=Spectrum, local=True,
    span=(0.0, 1.0), ideal=lambda p: p, better="lower",
    asks="How much of everything goes to the top p of units?",
    undefined="no unit received anything",
    says="The top {p:percent} of {units} get {estimate:percent} of all {amount}{interval}.",
    headline="the top {p:percent} of {units} get {value} of all {amount}",
    formula=r"1 - L(1-p)", example="[1, 2, 3, 4, 10], p 0.1 -> 0.25 (half of the richest unit)",
    variants=("Summing whole members (as the source's Table 1 does) is not invariant to replication.",),
    references=("lazovich2022",), laws=frozenset({"scale-free", "replication", "weak-transfer"}), family="tail shares",
    caution=lambda units, p: "part_of_a_unit" if 0 < p * units < 1 else "",
    interval_units=lambda p: TOP_UNITS / p if p else 0.0, certain=lambda p: p in (0, 1),
))  # fmt: skip
def top_share(s: Spectrum, p: Fraction = 0.01) -> Floats:
    """Share of the total that the top `p` of units hold; `p` itself when all are equal.

    >>> top_share([1, 2, 3, 4, 10], 0.1)
    0.25
    """
    return np.maximum(1 - lorenz_at(s, 1 - p), 0.0)


@top_share.influence
def _(s: Spectrum, estimate: Floats, p: float = 0.01) -> Floats:
    return -lorenz_influence(s, 1 - p, 1 - estimate)


@metric(Card(
    name="bottom_share", symbol="B_p", title="Share of the bottom", needs=Spectrum, local=True,
    span=(0.0, 1.0), ideal=lambda p: p, better="higher",
    asks="How much of everything goes to the bottom p of units?",
    undefined="no unit received anything",
    says="The bottom {p:percent} of {units} get {estimate:percent} of all {amount}{interval}.",
    formula=r"L(p)", example="[1, 2, 3, 4, 10], p 0.2 -> 0.05",
    references=("lazovich2022",), laws=frozenset({"scale-free", "replication", "weak-transfer"}), family="tail shares",
    certain=lambda p: p in (0, 1),
))  # fmt: skip
def bottom_share(s: Spectrum, p: Fraction = 0.1) -> Floats:
    """Share of the total that the bottom `p` of units hold; `p` itself when all are equal.

    >>> bottom_share([1, 2, 3, 4, 10], 0.2)
    0.05
    """
    return lorenz_at(s, p)


@bottom_share.influence
def _(s: Spectrum, estimate: Floats, p: float = 0.1) -> Floats:
    return lorenz_influence(s, p, estimate)


@metric(Card(
    name="share_ratio", symbol="S_u/S_l", title="Share ratio", needs=Spectrum, local=True,
    span=(0.0, math.inf), ideal=lambda upper, lower: (1 - upper) / lower if lower else math.nan, better="lower",
    asks="How many times as much as the bottom does the top hold?",
    undefined="the bottom holds nothing", otherwise="zero_denominator",
    says="The top {upper:rest} of {units} get {estimate:number} times the {amount} of the bottom {lower:percent}{interval}.",
    formula=r"(1 - L(u)) / L(l)", example="[1, 2, 3, 4, 10], 0.8 over 0.2 -> 10",
    references=("lazovich2022",), laws=frozenset({"scale-free", "replication"}), family="ratios",
    interval_units=lambda upper: TOP_UNITS / (1 - upper) if upper < 1 else 0.0,
    certain=lambda upper, lower: upper in (0, 1) and lower == 1,
))  # fmt: skip
def share_ratio(s: Spectrum, *, upper: Fraction = 0.8, lower: Fraction = 0.2) -> Floats:
    """Share of those above `upper` over that of those below `lower`, if these hold anything.

    >>> share_ratio([1, 2, 3, 4, 10])
    10.0
    """
    # Asked of the percentile: lower * n may round past the last zero.
    holds_nothing = (quantile(s, lower) == 0) | (lower == 0)
    return np.where(holds_nothing, np.nan, np.maximum(1 - lorenz_at(s, upper), 0) / lorenz_at(s, lower))


@share_ratio.influence
def _(s: Spectrum, estimate: Floats, upper: float = 0.8, lower: float = 0.2) -> Floats:
    above, below = (lorenz_influence(s, p) for p in (upper, lower))
    return (-above - estimate[..., None] * below) / lorenz_at(s, lower)[..., None]


@metric(Card(
    name="palma", symbol="Palma", title="Palma ratio", needs=Spectrum, local=True,
    span=(0.0, math.inf), ideal=0.25, better="lower",
    asks="How many times as much as the bottom 40% do the top 10% hold?",
    undefined="the bottom 40% hold nothing", otherwise="zero_denominator",
    says="The top 10% of {units} get {estimate:number} times the {amount} of the bottom 40%{interval}.",
    formula=r"(1 - L(0.9)) / L(0.4)", example="[1, 1, 1, 1, 6] -> 1.5",
    references=("palma2011",), laws=frozenset({"scale-free", "replication"}), family="ratios",
    interval_units=TOP_UNITS / 0.1,
))  # fmt: skip
def palma(s: Spectrum) -> Floats:
    """Share of the top 10% over the share of the bottom 40%; one quarter when all are equal.

    >>> round(palma([1, 1, 1, 1, 6]), 6)
    1.5
    """
    return share_ratio.on(s, upper=0.9, lower=0.4)


@palma.influence
def _(s: Spectrum, estimate: Floats) -> Floats:
    return share_ratio.linearised(s, estimate, {"upper": 0.9, "lower": 0.4})  # type: ignore[return-value]


@metric(Card(
    name="equal_share", symbol="E", title="Point of equal share", needs=Spectrum, local=True, studentised=False,
    span=(0.0, 1.0), ideal=0.5, better=lambda inverted: "higher" if inverted else "lower",
    asks="What bottom share of units together holds half of everything?",
    undefined="no unit received anything",
    says="About one {unit} in {estimate:one_in} gets half of all {amount}{interval}.",
    formula=r"p : L(p) = 1/2", example="[0, 0, 0, 1] -> 0.875",
    variants=("The source's appendix has it reversed: the bottom f holds as much as the top 1 - f.",),
    references=("lazovich2022",), laws=frozenset({"scale-free", "replication"}), family="equivalences",
    caution=lambda estimate, units, inverted: _few_above(estimate if inverted else 1 - estimate, units),
))  # fmt: skip
def equal_share(s: Spectrum, *, inverted: bool = False) -> Floats:
    """Bottom share of units that holds half of the total; `inverted` gives the top share.

    >>> equal_share([0, 0, 0, 1])
    0.875
    """
    point = population_at(s, np.asarray(0.5))
    return 1 - point if inverted else point


@equal_share.influence
def _(s: Spectrum, estimate: Floats, inverted: bool = False) -> Floats:  # noqa: FBT001, FBT002
    point = 1 - estimate if inverted else estimate
    moved = _inverse_influence(s, point, lorenz_influence(s, point))
    return -moved if inverted else moved


@metric(Card(
    name="equivalent_to_top", symbol="Q_p", title="Equivalent to the top", needs=Spectrum, local=True,
    studentised=False,
    span=(0.0, 1.0), ideal=lambda p, inverted: 1 - p if inverted else p,
    better=lambda inverted: "higher" if inverted else "lower",
    asks="How many from the bottom does it take to match the top p?",
    undefined="no unit received anything",
    says="It takes the bottom {estimate:percent} of {units} to match the {amount} of the top {p:percent}{interval}.",
    formula=r"q : L(q) = 1 - L(1-p)", example="[1, 2, 3, 4, 10], p 0.1 -> 0.5333",
    variants=("Once the top holds more than half, the bottom q overlaps the top p: q > 1 - p.",),
    references=("lazovich2022",), laws=frozenset({"scale-free", "replication"}), family="equivalences",
    caution=lambda estimate, units, p, inverted: "; ".join(
        code
        for code in (
            "overlap" if not inverted and estimate > 1 - p else "",
            _few_above(estimate if inverted else 1 - estimate, units),
        )
        if code
    ),
    interval_units=lambda p: TOP_UNITS / p if p else 0.0, certain=lambda p: p in (0, 1),
))  # fmt: skip
def equivalent_to_top(s: Spectrum, p: Fraction = 0.1, *, inverted: bool = False) -> Floats:
    """Bottom share of units that holds as much as the top `p`; `p` itself when all are equal.

    >>> round(equivalent_to_top([1, 2, 3, 4, 10], 0.1), 4)
    0.5333
    """
    top = 1 - lorenz_at(s, 1 - p)
    point = np.where(top > 0, population_at(s, top), np.where(s.total > 0, 0.0, np.nan))
    return 1 - point if inverted else point


@equivalent_to_top.influence
def _(s: Spectrum, estimate: Floats, p: float = 0.1, inverted: bool = False) -> Floats:  # noqa: FBT001, FBT002
    point = 1 - estimate if inverted else estimate
    curve, top = (lorenz_influence(s, at) for at in (point, 1 - p))
    moved = _inverse_influence(s, point, curve + top)
    return -moved if inverted else moved


def _inverse_influence(s: Spectrum, points: Floats, on_curve: Floats) -> Floats:
    """A point read off the curve moves against the curve, divided by its slope q / mean."""
    slope = quantile(s, points) / (s.total / s.size)
    return -on_curve / slope[..., None]


@metric(Card(
    name="percentile", symbol="P_p", title="Percentile", needs=Spectrum, local=True, quantiles=lambda p: (p,),
    span=(0.0, math.inf), ideal=math.nan, better="", at_zero=0.0,
    asks="What is the most that anybody among the bottom share p of units gets?",
    undefined="there are no units",
    says="{p:percent} of {units} get at most {estimate:number} {amount}{interval}.",
    formula=r"\min\{v : \#\{x \le v\} \ge p\,n\}", example="[1, 2, 3, 4, 10], p 0.5 -> 3",
    variants=("The inverted CDF (numpy method='inverted_cdf'): always an observed amount; interpolating ones are not.",),
    references=("lazovich2022",), laws=frozenset({"replication"}), family="level",
))  # fmt: skip
def percentile(s: Spectrum, p: Fraction = 0.5) -> Floats:
    """Smallest observed amount that at least a share `p` of the units do not exceed.

    >>> percentile([1, 2, 3, 4, 10], 0.5)
    3.0
    """
    return quantile(s, p)


@metric(Card(
    name="percentile_ratio", symbol="P_u/P_l", title="Percentile ratio", needs=Spectrum, local=True,
    quantiles=lambda lower, upper: (lower, upper),
    span=(0.0, math.inf), ideal=1.0, better="lower",
    asks="How many times as much does a unit near the top get as one near the bottom?",
    undefined="the lower percentile is zero", otherwise="zero_denominator",
    says="At the {upper:ordinal} percentile, {units} get {estimate:number} times the {amount} of the {lower:ordinal}{interval}.",
    formula=r"P_u / P_l", example="[1, 2, 3, 4, 10], 0.8 over 0.2 -> 4",
    references=("lazovich2022",), laws=frozenset({"scale-free", "replication"}), family="ratios",
))  # fmt: skip
def percentile_ratio(s: Spectrum, *, upper: Fraction = 0.8, lower: Fraction = 0.2) -> Floats:
    """One percentile over another; undefined where the lower one is zero.

    >>> percentile_ratio([1, 2, 3, 4, 10])
    4.0
    """
    below = quantile(s, lower)
    return np.where(below > 0, quantile(s, upper) / below, np.nan)


def top_share_se(x: object, p: float = 0.01, *, weights: object = None) -> float:
    """Linearised standard error of a top share; unreliable where `1 - p` is between ties."""
    return standard_error(top_share, Spectrum.from_arrays(x, weights=weights), **top_share.checked({"p": p}))


@dataclass(frozen=True, slots=True)
class Lorenz:
    """The Lorenz polygon: `share` of the total held by the bottom `population` of the units."""

    population: Floats
    share: Floats

    def at(self, p: float) -> float:
        """Share of the total that the bottom `p` hold."""
        if isinstance(p, bool) or not isinstance(p, (int, float, np.number)) or not 0 <= p <= 1:
            raise EvenhandError(f"p={p!r} is outside [0, 1]. Pass a share of the units.")
        return float(np.interp(p, self.population, self.share))

    def dominates(self, other: Lorenz) -> bool:
        """Whether this curve is nowhere below the other: more equal by every index with transfers."""
        if not isinstance(other, Lorenz):
            raise EvenhandError("A Lorenz curve is compared with another. Pass what eh.metrics.lorenz gives.")
        points = np.union1d(self.population, other.population)
        curve = np.interp(points, self.population, self.share)
        other_curve = np.interp(points, other.population, other.share)
        return bool((curve >= other_curve - ROUNDING).all())


def lorenz(x: object, *, weights: object = None) -> Lorenz:
    """Lorenz curve of plain amounts; NaN with a warning where nothing was received.

    >>> round(lorenz([1, 2, 3, 4, 10]).at(0.5), 4)
    0.225
    """
    spectrum = x if isinstance(x, Spectrum) else Spectrum.from_arrays(x, weights=weights)
    if code := spectrum.reason():
        warnings.warn(UndefinedWarning(f"The Lorenz curve is undefined: {code}.", code), stacklevel=2)
    return lorenz_curve(spectrum)


def lorenz_curve(s: Spectrum) -> Lorenz:
    """Corners of the polygon, one per distinct amount; empty where nothing was received."""
    if s.reason():
        return Lorenz(np.array([0.0, 1.0]), np.array([np.nan, np.nan]))
    reach, amount = np.append(0.0, s.reach), np.append(0.0, s.cum_amount)
    return Lorenz(reach / reach[-1], amount / amount[-1])


FINE = tuple(float(f"{digit}e{power}") for power in range(-6, 0) for digit in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9))
COARSE = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.5)
"""Sizes of the top; the coarse ones keep a page with many slices small."""


def stops(slices: int, units: float) -> tuple[float, ...]:
    """Sizes of the top at which a reader can stop: one unit, two, ... nine; then round shares such as 1%, 1.5%, 2%, ... 90%.

    >>> stops(200, 5_000), stops(1, 4)
    ((0.001, 0.01, 0.05, 0.1, 0.2, 0.5), (0.25, 0.5, 0.75))
    """
    if slices > 20:
        return tuple(stop for stop in COARSE if stop * units >= 1) or COARSE[-1:]
    single = tuple(k / units for k in range(1, 10) if k < units)  # a share of fewer than ten would split a unit
    return (*single, *(stop for stop in FINE if stop * units >= 10)) or COARSE[-1:]


def corners(population: Floats, share: Floats, most: int, exact_at: Sequence[float] = ()) -> npt.NDArray[np.intp]:
    """Indices of about `most` corners that approximate a polygon.

    Half of them are evenly spaced and half crowd towards the top. Both ends of every edge that is read at a stop of the
    explorer (`exact_at`) are kept, so that the reading there is exact however large the data.
    """
    last = len(population) - 1
    if last < most:
        return np.arange(last + 1)
    tops = 1 - np.asarray(exact_at)
    top_shares = 1 - np.interp(tops, population, share)
    edges = np.concatenate([np.searchsorted(population, tops), np.searchsorted(share, top_shares)]).astype(np.intp)
    even = np.linspace(0, 1, most // 2)
    crowding = 1 - np.geomspace(max(1 - population[-2], 1e-12), 1, most - most // 2)
    rise = np.searchsorted(share, 0.0, side="right") - 1
    near = np.searchsorted(population, np.concatenate([even, crowding]))
    return np.unique(np.clip(np.concatenate([[0, rise, last - 1, last], near, edges - 1, edges]), 0, last))
