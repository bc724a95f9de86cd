"""What is read off the Lorenz curve: who holds what share.

The curve is the polygon through (share of units, share of the total), poorest first; a fraction of a unit holds its share
pro rata. That makes every reading invariant to replication, which sums over whole members are not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.cards import Card, Floats, Fraction, metric
from evenhand.errors import EvenhandError, UndefinedWarning
from evenhand.metrics.inequality import standard_error
from evenhand.tallies.spectrum import Spectrum, before, entries

ROUNDING = 1e-12
"""0.55 * 100 is 55.00000000000001 in floating point; a rank this close to a whole number is that number."""


def lorenz_at(s: Spectrum, p: float | Floats) -> Floats:
    """Share of the total held by the bottom `p` (one for all rows, or one per row).

    All below the cell that p lies in, and of that cell the part of its mass that lies below p.
    """
    bound = np.asarray(p * s.size)
    amount = np.full(s.size.shape, np.nan)
    for b in s.walk():
        cell, reached = b.crossed(b.reach, bound)
        if reached.any():
            part = (bound - before(b.reach, cell, b.reached)) * entries(b.values, cell)
            amount = np.where(np.isnan(amount) & reached, before(b.cum_amount, cell, b.before) + part, amount)
    return np.where(np.isnan(amount) | (bound >= s.size), s.total, amount) / s.total


def population_at(s: Spectrum, share: Floats) -> Floats:
    """Share of the units, poorest first, who together hold `share` > 0 of the total."""
    bound = share * s.total
    units = np.full(s.size.shape, np.nan)
    for b in s.walk():
        cell, crossed = b.crossed(b.cum_amount, bound)
        if crossed.any():
            part = (bound - before(b.cum_amount, cell, b.before)) / entries(b.values, cell)
            units = np.where(np.isnan(units) & crossed, before(b.reach, cell, b.reached) + part, units)
    below = np.where(np.isnan(units), s.size, units)
    return np.where(s.total > 0, np.minimum(below / s.size, 1.0), np.nan)


def quantile(s: Spectrum, p: float | Floats) -> Floats:
    """Smallest amount that at least a share `p` of the units do not exceed (inverted CDF)."""
    bound = np.maximum(p * s.size * (1 - ROUNDING), 1e-290)  # above 0: no cell without units gets so far
    amount = np.full(s.size.shape, np.nan)
    for b in s.walk():
        cell, reached = b.crossed(b.reach, bound)
        if reached.any():
            amount = np.where(np.isnan(amount) & reached, entries(b.values, cell), amount)
    return amount


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
    blocks = list(s.walk())
    reach = np.concatenate([[0.0], *(b.reach for b in blocks)])
    amount = np.concatenate([[0.0], *(b.cum_amount for b in blocks)])
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
