"""Rules of every interval (formula book F12.8): plans, ends from draws, few units, Holm, differences and ratios. No tally is known here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from evenhand.cards import Floats, is_whole, parse_call
from evenhand.errors import EvenhandError, unknown_name

MIN_UNITS = 5
"""Units, requests, users or buckets below which there is no interval at all."""

FEW_UNITS = 20
"""Units, requests or users below which an interval comes with a caution, unless the metric's card asks for more."""

MIN_CLUSTERS = 10
"""Clusters below which there is neither an interval that is robust to them nor a test that flips their signs."""

ROUNDING = 1e-12
"""Numbers this close, relative to their size, differ by the last bits of sums only."""

ANYTHING = (-math.inf, math.inf)

Kind = Literal["bootstrap", "percentile", "normal", "none"]
KINDS = ("bootstrap", "percentile", "normal")
DEFAULT_DRAWS = 999
BISECTIONS = 24
"""Halvings of a range until an end is known to a millionth of a standard error."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Method of an interval: studentised or percentile bootstrap, normal, or none."""

    kind: Kind
    draws: int = 0
    level: float = 0.95

    @classmethod
    def parse(cls, text: str | None, level: float = 0.95) -> Interval:
        """Read `"bootstrap(999)"`, `"percentile(999)"`, `"normal"` or None.

        >>> Interval.parse("percentile(199)")
        Interval(kind='percentile', draws=199, level=0.95)
        """
        if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
            raise EvenhandError(f"level={level!r} is not between 0 and 1. Pass a coverage such as 0.95.")
        if text is None or text == "none":
            return cls("none", 0, level)
        if not isinstance(text, str):
            raise EvenhandError(
                f"interval={text!r} is not text. Pass 'bootstrap(999)', 'percentile(999)', 'normal' or None."
            )
        name, args, keywords = parse_call(text, role="interval")
        if name not in KINDS:
            raise unknown_name("interval", text, KINDS, what="a known interval")
        if name == "normal" and not args and not keywords:
            return cls("normal", 0, level)
        draws = args[0] if args else keywords.get("draws", DEFAULT_DRAWS)
        unclear = name == "normal" or len(args) + len(keywords) > 1 or not keywords.keys() <= {"draws"}
        if unclear or not is_whole(draws, 20, 1_000_000):
            raise EvenhandError(
                f"interval={text!r} needs a whole number of draws from 20 to 1,000,000, or none for 'normal'. Write 'bootstrap(999)'."
            )
        return cls(name, draws, level)  # type: ignore[arg-type]


def seed_of(rng: int | np.random.Generator | np.random.SeedSequence | None) -> int:
    """The seed of one call, to be recorded: as passed, or drawn."""
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint32)[0])
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**32))
    if isinstance(rng, np.random.SeedSequence):
        return int(rng.generate_state(1, np.uint32)[0])
    if is_whole(rng, 0):
        return int(rng)
    raise EvenhandError(f"rng={rng!r} is not a seed. Pass a whole number of zero or more, a numpy Generator, or None.")


@dataclass(frozen=True, slots=True)
class Estimates:
    """A figure with its interval: arrays of one shape, such as one entry per slice."""

    estimate: Floats
    low: Floats
    high: Floats
    undefined_draws: np.typing.NDArray[np.int64]

    @classmethod
    def blank(cls, slices: int) -> Estimates:
        nothing = np.full(slices, np.nan)
        return cls(nothing.copy(), nothing.copy(), nothing.copy(), np.zeros(slices, dtype=np.int64))

    @classmethod
    def without_interval(cls, estimate: Floats) -> Estimates:
        nothing = np.full(estimate.shape, np.nan)
        return cls(estimate, nothing, nothing, np.zeros(estimate.shape, dtype=np.int64))

    def at(self, *place: int) -> dict[str, Any]:
        """The numbers of one entry, for a row."""
        numbers = {name: float(np.asarray(getattr(self, name))[place]) for name in ("estimate", "low", "high")}
        return numbers | {"undefined_draws": int(np.asarray(self.undefined_draws)[place])}

    def reaching(self, low: Floats, high: Floats) -> Estimates:
        """Widened to these, where they are known."""
        return replace(self, low=np.fmin(self.low, low), high=np.fmax(self.high, high))

    def in_proportion(self, whole: Estimates) -> Estimates:
        """Widened to at least the relative width of the interval of the `whole`.

        >>> whole, part = (Estimates(*map(np.array, ends), np.array(0)) for ends in ((2.0, 1.0, 2.1), (1.0, 0.9, 1.1)))
        >>> part.in_proportion(whole).at()["low"]
        0.5
        """
        if not (np.isfinite(whole.estimate) and whole.estimate > 0):
            return self
        return self.reaching(
            self.estimate * (whole.low / whole.estimate), self.estimate * (whole.high / whole.estimate)
        )


def t_quantile(level: float, units: Any) -> Floats:
    """Quantile of Student's t for the mean of so many units.

    >>> t_quantile(0.95, [5, 20, 10**6]).round(3).tolist()
    [2.776, 2.093, 1.96]
    """
    freedom = np.maximum(np.asarray(units, dtype=np.float64) - 1, 1)
    return np.asarray(stdtrit(freedom, (1 + level) / 2))


def tail_share(level: float, units: Any) -> Floats:
    """Share of bootstrap draws beyond each end ("expanded percentile"; Hesterberg 2015).

    Draws of n units vary by (n - 1) / n too little, and normally rather than as Student's t, so that percentiles lie further
    out for small n.

    >>> tail_share(0.95, [5, 20, 10**9]).round(4).tolist()
    [0.001, 0.0159, 0.025]
    """
    n = np.maximum(np.asarray(units, dtype=np.float64), 2)
    return np.asarray(ndtr(-np.sqrt(n / (n - 1)) * t_quantile(level, n)))


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale on which errors are closer to symmetric and ends stay inside the span."""

    forward: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]

    @classmethod
    def fitting(cls, span: tuple[float, float]) -> Scale:
        """Logit for shares and indices in [0, 1], log for non-negative quantities, none otherwise."""
        if span == (0.0, 1.0):
            return cls(lambda x: np.log(x / (1 - x)), lambda y: 1 / (1 + np.exp(-y)), lambda x: 1 / (x * (1 - x)))
        if span == (0.0, math.inf):
            return cls(np.log, np.exp, lambda x: 1 / x)
        return cls(lambda x: x, lambda y: y, np.ones_like)


def _on_scale(
    estimate: Floats, error: Floats, low_t: Floats, high_t: Floats, span: tuple[float, float]
) -> tuple[Floats, Floats]:
    scale = Scale.fitting(span)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        middle, step = scale.forward(estimate), error * scale.slope(estimate)
        low, high = scale.inverse(middle + low_t * step), scale.inverse(middle + high_t * step)
        # At an end of the span the scale is infinite: as it stands there. No spread at all is no width.
        plain = np.isin(estimate, span) | (error == 0)
        low, high = np.where(plain, estimate + low_t * error, low), np.where(plain, estimate + high_t * error, high)
        return np.clip(low, *span), np.clip(high, *span)


def percentile_ends(draws: Floats, level: float, units: Any = None) -> tuple[Floats, Floats]:
    """Order statistics (B + 1) a / 2 and (B + 1)(1 - a / 2) of the defined draws (last axis).

    `units` : how many were resampled; a is then as small as few of them make it (see `tail_share`).
    """
    ordered = np.sort(draws, axis=-1)  # NaN go last
    defined = (~np.isnan(ordered)).sum(-1)
    tail = (1 - level) / 2 if units is None else tail_share(level, units)
    last = np.maximum(defined - 1, 0)
    # (1 - 0.9) / 2 * 1000 is 49.99999999999999 in floating point and means the 50th draw.
    place = np.floor((defined + 1) * tail * (1 + ROUNDING)).astype(np.int64)
    low_at, high_at = np.clip(place - 1, 0, last), np.clip(defined - place, 0, last)
    low, high = (np.take_along_axis(ordered, at[..., None], -1)[..., 0] for at in (low_at, high_at))
    return low, high


def centred_ends(
    estimate: Floats, draws: Floats, level: float, units: Any = None, *, biased: bool = False
) -> tuple[Floats, Floats]:
    """Percentiles of the draws, shifted so that their mean is the estimate.

    Where `biased`, they reach down to the estimate less its bias.

    A measure that reads noise as unfairness (a squared norm, a distance) is above what it measures by the noise of its
    units, and a draw holds the noise twice. What the draws lie off the estimate is the bias: it is taken off once to say how
    far the estimate moves with other units, and twice to say where the value without noise lies; where `biased`, the
    interval holds both. Draws that are not finite are no part of the mean; where they are many, plain percentiles stand.
    """
    low, high = percentile_ends(draws, level, units)
    finite = np.isfinite(draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        off = np.where(finite, draws, 0.0).sum(-1) / finite.sum(-1) - estimate
        off = np.where(finite.mean(-1) > 0.9, off, 0.0)
        low, high = low - off, high - off
    return (low - np.maximum(off, 0.0), high - np.minimum(off, 0.0)) if biased else (low, high)


def without_noise(estimate: float, draws: Floats, level: float, units: int) -> float:
    """Lower end of a distance less its noise; both add in squares, so squares are corrected.

    Without any true distance, draws lie by a factor of the root of two above the estimate:

    >>> noise = np.random.default_rng(1).normal(size=(2, 500, 40))
    >>> draws = np.abs(noise[0] + noise[1, :1]).sum(1)
    >>> without_noise(float(np.abs(noise[1, 0]).sum()), draws, 0.95, 30)
    0.0
    """
    low, _ = centred_ends(np.array([estimate**2]), draws[None, :] ** 2, level, units, biased=True)
    return float(np.sqrt(np.maximum(low[0], 0.0)))


def normal_ends(
    estimate: Floats, error: Floats, level: float, span: tuple[float, float], units: Any = None
) -> tuple[Floats, Floats]:
    """Estimate -/+ quantile times standard error, on the scale that fits the span.

    `units` : degrees of freedom plus one of Student's t; None for the normal quantile.
    """
    z = NormalDist().inv_cdf((1 + level) / 2) if units is None else t_quantile(level, units)
    spread = np.broadcast_to(z, estimate.shape)
    return _on_scale(estimate, error, -spread, spread, span)


def drawn_ends(
    estimate: float, draws: Floats, interval: Interval, span: tuple[float, float], units: int, *, biased: bool = False
) -> tuple[float, float]:
    """Interval ends from draws of one estimate that rests on so many units.

    `bootstrap` moves the percentiles of the draws (see `centred_ends`), `percentile` takes them as they are, `normal` their
    spread.

    >>> drawn_ends(0.01, np.array([0.0, 0.01, 0.04]), Interval("normal"), (0.0, 1.0), 30)[0] > 0
    True
    """
    if np.isnan(estimate) or np.isnan(draws).all():
        return np.nan, np.nan
    if interval.kind == "normal" or len(draws) < interval.draws:
        defined = draws[~np.isnan(draws)]
        sound = len(defined) > 1 and np.isfinite(defined).all()
        error = float(defined.std(ddof=1)) * np.sqrt(units / max(1, units - 1)) if sound else np.nan
        low, high = normal_ends(np.array([estimate]), np.array([error]), interval.level, span, units)
    elif interval.kind == "percentile":
        low, high = percentile_ends(draws[None, :], interval.level, units)
    else:
        low, high = centred_ends(np.array([estimate]), draws[None, :], interval.level, units, biased=biased)
    return float(np.clip(low[0], *span)), float(np.clip(high[0], *span))


def studentised_ends(
    estimate: Floats,
    error: Floats,
    draws: Floats,
    draw_errors: Floats,
    centre: Floats,
    level: float,
    span: tuple[float, float],
) -> tuple[Floats, Floats]:
    """Bootstrap-t ends: distances of draws from `centre` in their own standard errors."""
    scale = Scale.fitting(span)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = scale.forward(draws) - scale.forward(centre)
        ratios = distance / (draw_errors * scale.slope(draws))
        ratios = np.where(np.isfinite(ratios), ratios, np.nan)  # a draw without spread says nothing about scale
    t_low, t_high = (np.where(error > 0, t, 0.0) for t in percentile_ends(ratios, level))
    return _on_scale(estimate, error, -t_high, -t_low, span)


def mixture_ends(
    estimate: Floats,
    error: Floats,
    possible: Floats,
    chances: Floats,
    level: float,
    span: tuple[float, float],
    units: Any,
) -> tuple[Floats, Floats]:
    """Quantiles of a mixture of normals around `possible` values (last axis), all with this error, on the span's scale.

    >>> values, chances = np.array([0.5, 0.6]), np.array([0.9, 0.1])
    >>> low, high = mixture_ends(np.array(0.5), np.array(0.01), values, chances, 0.95, (0.0, 1.0), 10**6)
    >>> low.round(2).tolist(), high.round(2).tolist()
    (0.48, 0.61)
    """
    scale, tail = Scale.fitting(span), (1 - level) / 2
    widened = t_quantile(level, units) / NormalDist().inv_cdf(1 - tail)
    step = np.asarray(error * scale.slope(estimate) * widened)
    at = scale.forward(possible)
    ends = []
    for share in (tail, 1 - tail):
        low, high = at.min(-1) - 8 * step, at.max(-1) + 8 * step
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            is_below = ndtr((middle[..., None] - at) / step[..., None]) @ chances < share
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        ends.append(scale.inverse(high))
    return ends[0], ends[1]


def wilson_ends(share: Any, units: Any, level: float) -> tuple[Floats, Floats]:
    """Wilson's score interval of a share of units, also where it is 0 or 1.

    >>> [end.round(4).tolist() for end in wilson_ends(np.array([997 / 998, 1.0]), np.array([998, 100]), 0.95)]
    [[0.9943, 0.963], [0.9998, 1.0]]
    """
    square = NormalDist().inv_cdf((1 + level) / 2) ** 2 / units
    half = np.sqrt(square * (share * (1 - share) + square / 4))
    low, high = ((share + square / 2 + side * half) / (1 + square) for side in (-1, 1))
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


def reported_ends(
    estimate: float, low: float, high: float, span: tuple[float, float] = ANYTHING, *, certain: bool = False
) -> tuple[float, float, str]:
    """Interval ends as shown, and the note code where there is no interval.

    >>> reported_ends(0.4, 0.5, 1.2, (0.0, 1.0))
    (0.4, 1.0, '')
    >>> reported_ends(0.0, 0.0, 0.0)
    (nan, nan, 'no_variation')
    """
    if certain and math.isfinite(estimate):
        return estimate, estimate, ""
    if math.isnan(low) or math.isnan(high) or not math.isfinite(estimate):
        return math.nan, math.nan, "" if math.isnan(estimate) else "no_interval"
    if high - low <= ROUNDING * max(abs(low), abs(high)) and high - low <= ROUNDING * max(1.0, abs(estimate)):
        return math.nan, math.nan, "no_variation"
    low, high = max(span[0], min(low, high)), min(span[1], max(low, high))
    return min(low, estimate), max(high, estimate), ""


def difference(
    a: tuple[Floats, Floats, Floats], b: tuple[Floats, Floats, Floats], level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Difference b - a with interval and p, from (estimate, low, high) of independent samples.

    The distances of each estimate from the end that faces the other are added in squares (MOVER; Zou and Donner, 2008),
    so that lopsided intervals stay lopsided. p is two-sided, from the distance that faces zero.

    >>> d, low, high, p = difference(*[tuple(map(np.array, t)) for t in ((0.8, 0.77, 0.83), (0.9, 0.88, 0.92))], 0.95)
    >>> round(float(d), 2), round(float(low), 3), round(float(high), 3), float(p) < 0.001
    (0.1, 0.064, 0.136, True)
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # estimates may be infinite
        gap = np.asarray(b[0] - a[0])
        down = np.sqrt((b[0] - b[1]) ** 2 + (a[2] - a[0]) ** 2)
        up = np.sqrt((b[2] - b[0]) ** 2 + (a[0] - a[1]) ** 2)
        facing = np.where(gap >= 0, down, up) / NormalDist().inv_cdf((1 + level) / 2)
        z = np.abs(gap) / facing
    p = np.vectorize(lambda x: math.erfc(x / math.sqrt(2)), otypes=[float])(z)  # exact where it is tiny, NaN where z is
    return gap, gap - down, gap + up, np.where(gap == 0, 1.0, p)


def holm(p: Any) -> Floats:
    """Holm's adjustment of several p-values; undefined ones are not counted.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.array([np.nan if x is None else x for x in p], dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    defined = np.flatnonzero(~np.isnan(values))
    order = defined[np.argsort(values[defined], kind="stable")]
    scaled = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0) if len(order) else scaled
    return adjusted


def holm_by_family(p: Sequence[Any], families: Sequence[str]) -> Floats:
    """Holm's adjustment within each family of questions.

    >>> holm_by_family([0.01, 0.04, 0.03], ["a", "b", "a"]).round(3).tolist()
    [0.02, 0.04, 0.03]
    """
    adjusted = np.full(len(p), np.nan)
    for family in dict.fromkeys(families):
        at = [i for i, name in enumerate(families) if name == family]
        adjusted[at] = holm([p[i] for i in at])
    return adjusted


def ratio_score(ratio: float, count: float, total: float, base: float, base_total: float) -> float:
    """Koopman's score statistic (signed, standard normal) for share / base share = `ratio`."""
    a, b = (total + base_total) * ratio, -((total + base) * ratio + count + base_total)
    base_share = (-b - math.sqrt(max(0.0, b * b - 4 * a * (count + base)))) / (2 * a)
    share = min(1.0, ratio * base_share)
    variance = share * (1 - share) / total + ratio * ratio * base_share * (1 - base_share) / base_total
    gap = count / total - ratio * base / base_total
    return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap) if gap else 0.0


def ratio_interval(count: float, total: float, base: float, base_total: float, level: float) -> tuple[float, float]:
    """Koopman's interval of the ratio of two independent shares; it holds for no selected candidate too.

    >>> [round(end, 2) for end in ratio_interval(36, 40, 16, 80, 0.95)]  # Koopman (1984), table 1
    [2.94, 7.15]
    """
    from scipy.optimize import brentq

    z = float(ndtri(0.5 + level / 2))
    estimate = (count / total) / (base / base_total)

    def score(log_ratio: float) -> float:
        return ratio_score(math.exp(log_ratio), count, total, base, base_total)

    centre, far = math.log(estimate) if estimate > 0 else 0.0, 30.0  # e^30: beyond any ratio of counts
    low = math.exp(brentq(lambda x: score(x) - z, centre - far, centre)) if estimate > 0 else 0.0
    start = centre if estimate > 0 else -far
    return low, math.exp(brentq(lambda x: score(x) + z, start, centre + far))


def ratio_p(count: float, total: float, base: float, base_total: float) -> float:
    """Two-sided p that two shares are equal, by the score test."""
    return float(2 * ndtr(-abs(ratio_score(1.0, count, total, base, base_total))))
