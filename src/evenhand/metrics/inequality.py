"""Inequality of one amount over one population.

Every function reads a Spectrum and nothing else: no dataframe, no group, no randomness. Sums run over the last axis, so
replicates and slices broadcast.
"""

from __future__ import annotations

import math
import warnings
from typing import Annotated, Any

import numpy as np

from evenhand.cards import Between, Card, Floats, Metric, metric
from evenhand.errors import UndefinedWarning
from evenhand.tallies.spectrum import Spectrum, dot

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
    # A power of two loses no digit; only amounts near the largest float need it.
    shrink = np.where(np.isfinite(size * total), 1.0, 2.0**-200)
    spread = np.zeros(size.shape)
    for b in s.walk():
        rank = 2 * b.reach  # and on in place: at 10^8 cells a new array costs more than the sum
        rank -= b.mass
        rank -= size[..., None]
        rank *= b.amount if (shrink == 1).all() else b.amount * shrink[..., None]
        spread = spread + rank.sum(-1)  # each product rounded, or equal amounts would leave a rest
    value = np.maximum(spread, 0.0) / (size * (total * shrink))  # the last bits of weighted sums may fall below zero
    return np.where(size > 1, value * (size / (size - 1)), np.nan) if corrected else value


@gini.influence
def _(s: Spectrum, estimate: Floats, *, corrected: bool = False) -> Floats:
    """Z_i / mean with Z_i = -(G + 1) x_i + (2 / n) sum_j max(x_i - x_j, 0), centred."""
    size, mean, value = s.size[..., None], (s.total / s.size)[..., None], estimate[..., None]
    correction = size / (size - 1) if corrected else np.ones_like(size)
    above: Floats = np.concatenate([b.values * b.reach - b.cum_amount for b in s.walk()], axis=-1)
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
    lowest = np.full(s.size.shape, np.inf)
    for b in s.walk():
        lowest = np.minimum(lowest, np.where(b.mass > 0, b.values, np.inf).min(-1))
    return lowest


def _typical(s: Spectrum) -> Floats:
    """(..., 1) some positive amount inside each row, to divide by before taking powers.

    Read off the amounts and not the counts: draws of one population share it, and no other slice can move it.
    """
    least = np.where(s.values > 0, s.values, np.inf).min(-1, keepdims=True, initial=np.inf)
    middle = np.sqrt(least) * np.sqrt(s.values.max(-1, keepdims=True, initial=0.0))
    return np.where(np.isfinite(middle) & (middle > 0), middle, 1.0)
