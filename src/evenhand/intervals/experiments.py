"""Arms of an experiment whose viewers, requests or sessions were randomised, compared over the same units.

Both arms hold the same units, so units are not resampled. What could have come out otherwise is who was in which arm:
buckets of viewers are re-assigned for the test and left out for the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.rules import MIN_UNITS, ROUNDING
from evenhand.metrics.shares import lorenz_curve
from evenhand.tallies.buckets import Buckets
from evenhand.tallies.ragged import Bools
from evenhand.tallies.spectrum import Spectrum

GRID = np.unique(np.concatenate([np.linspace(0, 1, 41), 1 - np.geomspace(0.001, 0.1, 9)]))
"""Shares of the units at which the Lorenz curves of arms are read."""


@dataclass(frozen=True)
class Contrast:
    """One arm against control: arrays of one entry per metric.

    `treatment` and `control` are the arms at equal volume, `estimate` their difference (less what the past explains of it),
    `raw` the difference as found and `chance` what it is on average when viewers are re-assigned at random. `draws` holds the
    re-assigned differences and `observed` the value they are compared with, both less what the past explains. `curves` are the Lorenz
    curves of the two arms at equal volume, at `GRID`.
    """

    treatment: Floats
    control: Floats
    estimate: Floats
    low: Floats
    high: Floats
    error: Floats
    raw: Floats
    chance: Floats
    p: Floats
    draws: Floats
    observed: Floats
    undefined: np.typing.NDArray[np.int64]
    explained: Floats
    curves: tuple[Floats, Floats] | None = None


@dataclass(frozen=True)
class Depth:
    """Expected values of an arm at a given volume, with their jackknife variance."""

    value: Floats
    variance: Floats
    freedom: float
    curve: Floats


def contrast(
    tally: Buckets,
    specs: Sequence[MetricSpec],
    *,
    arm: int,
    control: int,
    draws: int,
    level: float | None,
    rng: np.random.Generator,
    equal: Literal["units", "amount"] = "units",
    before: Buckets | None = None,
) -> Contrast:
    """Whether `arm` differs from `control`, and by how much at equal volume.

    The test re-assigns buckets to arms of the same size; the mean over re-assignments is the effect of unequal volume alone.
    The interval leaves buckets out of each arm (delete-d jackknife) at the volume at which the arms are compared.
    """
    in_pair = np.isin(tally.arms, (arm, control))
    pair, past = tally.only(in_pair), None if before is None else before.only(in_pair)
    treated = pair.arms == arm
    chosen = np.concatenate([treated[None], reassignments(treated, pair.movable, draws, rng)])
    adjusted = moved = differences(pair, specs, chosen)
    slope = np.zeros(len(specs))
    if past is not None:
        moved_before = differences(past, specs, chosen)
        slope = past_slope(moved, moved_before)
        adjusted = moved - slope * (moved_before - defined_mean(moved_before))
        mean = defined_mean(adjusted)  # differences of which the past explains all but rounding are the same
        rounding = ROUNDING * np.nan_to_num(np.abs(moved)).max(0)
        adjusted = np.where(np.abs(adjusted - mean) > rounding, adjusted, mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        explained = 1 - defined_variance(adjusted) / defined_variance(moved)
    depths = equal_volume_shares(pair, treated, equal)
    sides = [_at_depth(pair.only(side), specs, depth, rng, past and past.only(side), slope) for side, depth in depths]
    now, adjusted_sides = zip(*sides, strict=True)
    estimate = adjusted_sides[0].value - adjusted_sides[1].value
    low, high, error = welch_ends(estimate, adjusted_sides, level, specs)
    return Contrast(
        now[0].value, now[1].value, estimate, low, high, error, moved[0], defined_mean(moved),
        two_sided_p(adjusted), adjusted[1:], adjusted[0], np.isnan(moved[1:]).sum(0), explained,
        (now[0].curve, now[1].curve),
    )  # fmt: skip


def undefined_contrast(specs: Sequence[MetricSpec]) -> Contrast:
    """A contrast of NaN, for an arm without units."""
    nothing = np.full(len(specs), np.nan)
    return Contrast(
        treatment=nothing, control=nothing, estimate=nothing, low=nothing, high=nothing, error=nothing, raw=nothing,
        chance=nothing, p=nothing, draws=nothing[None], observed=nothing, undefined=np.zeros(len(specs), dtype=np.int64),
        explained=nothing,
    )  # fmt: skip


def reassignments(treated: Bools, movable: Bools, draws: int, rng: np.random.Generator) -> Bools:
    """(draws, buckets) random re-assignments with as many treated; fixed buckets stay."""
    drawn = np.broadcast_to(treated, (draws, len(treated))).copy()
    drawn[:, movable] = rng.permuted(drawn[:, movable], axis=1)
    return drawn


def defined_mean(draws: Floats) -> Floats:
    """Means over draws (the first axis) that have a value; NaN where none has."""
    defined = ~np.isnan(draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(_column_sums(np.where(defined, draws, 0.0)) / defined.sum(0))


def _column_sums(draws: Floats) -> Floats:
    """Sums over draws, column by column: rounding must not depend on how many metrics there are."""
    return np.asarray(np.ascontiguousarray(draws.T).sum(-1))


def defined_variance(draws: Floats) -> Floats:
    """Variances over draws that have a value."""
    return defined_mean((draws - defined_mean(draws)) ** 2)


def values(tally: Buckets, specs: Sequence[MetricSpec], chosen: Bools, curves: int = 0) -> tuple[Floats, Floats]:
    """(draws, metrics) values on the buckets of each draw, and Lorenz curves of the first draws."""
    results, curve = np.full((len(chosen), len(specs)), np.nan), np.full((min(curves, len(chosen)), len(GRID)), np.nan)
    for at, spectrum in tally.spectra(chosen):
        for i, a in enumerate(specs):
            results[at, i] = a.on(spectrum)
        for k in range(at.start, min(at.stop, len(curve))):
            row = k - at.start
            weights = None if spectrum.weights is None else spectrum.weights[row]
            curve[k] = lorenz_on_grid(Spectrum(spectrum.values[row], spectrum.counts[row], weights))
    return results, curve


def lorenz_on_grid(spectrum: Spectrum) -> Floats:
    """Share of everything that the bottom of the units hold, at `GRID`."""
    if spectrum.reason():
        return np.full(len(GRID), np.nan)
    curve = lorenz_curve(spectrum)
    return np.asarray(np.interp(GRID, curve.population, curve.share))


def differences(tally: Buckets, specs: Sequence[MetricSpec], chosen: Bools) -> Floats:
    """Every metric on the buckets chosen less the same on the others: (draws, metrics)."""
    results = np.full((len(chosen), len(specs)), np.nan)
    for at, first, second in tally.halves(chosen):
        for i, a in enumerate(specs):
            results[at, i] = a.on(first) - a.on(second)
    return results


def two_sided_p(moved: Floats) -> Floats:
    """Two-sided permutation p of the first difference among all of them.

    The mean is over all of them, so that under re-assignment none stands out.
    """
    far = np.abs(moved - defined_mean(moved))
    as_far = far >= far[0] * (1 - ROUNDING)
    with np.errstate(invalid="ignore"):
        p = as_far.sum(0) / (~np.isnan(moved)).sum(0)
    return np.where(np.isnan(moved[0]), np.nan, p)


def equal_volume_shares(pair: Buckets, treated: Bools, equal: Literal["units", "amount"]) -> list[tuple[Bools, float]]:
    """Buckets of both arms, and the share of each that makes units or amounts equal."""
    sides = [treated, ~treated]
    size = [float((pair.sizes if equal == "units" else pair.volumes)[side].sum()) for side in sides]
    least = min(size)
    return [(side, least / n if n else 1.0) for side, n in zip(sides, size, strict=True)]


def _at_depth(
    arm: Buckets,
    specs: Sequence[MetricSpec],
    share: float,
    rng: np.random.Generator,
    before: Buckets | None,
    slope: Floats,
) -> tuple[Depth, Depth]:
    """An arm at a share of its randomised units, as it is and less what the past explains."""
    chosen, weight, left = subsets(arm, share, rng)
    results, curves = values(arm, specs, chosen, curves=1 if weight[0] > 0.5 else 40)
    past = values(before, specs, chosen)[0] if before is not None else np.zeros_like(results)
    buckets = int(arm.movable.sum())
    out = []
    for each in (results, results - slope * np.nan_to_num(past)):
        mean = _column_sums(weight[:, None] * each)
        # Only draws that leave out the same number of buckets tell how much buckets differ.
        spread = defined_variance(each[left > 0])
        gone = float(left[left > 0].mean()) if (left > 0).any() else 1.0
        freedom = float(min(buckets - 1, (left > 0).sum() - 1))
        out.append(Depth(mean, spread * (buckets - gone) / gone, freedom, curves.mean(0)))
    return out[0], out[1]


def subsets(arm: Buckets, share: float, rng: np.random.Generator, draws: int = 400) -> tuple[Bools, Floats, Floats]:
    """Draws of buckets at a share of an arm's units, their weights, and buckets left out.

    The number of buckets is the whole number below or above, in such proportion that the mean is right. An arm that is
    taken whole stands first, and the draws after it leave out a bucket each, for the error alone.
    """
    buckets = int(arm.movable.sum())
    size = float(arm.sizes[arm.movable][0]) if buckets else 1.0
    everyone = float(arm.sizes.sum())
    target = share * everyone / size
    if target > buckets - 1:
        return _nearly_whole(arm, target, everyone / size)
    below = int(np.floor(target))
    above = round((target - below) * draws)
    many = np.repeat([below, below + 1], [draws - above, above])
    ranks = rng.permuted(np.broadcast_to(np.arange(buckets), (draws, buckets)), axis=1)
    chosen = np.zeros((draws, len(arm.sizes)), dtype=bool)
    chosen[:, arm.movable] = ranks < many[:, None]
    return chosen, np.full(draws, 1 / draws), (buckets - many).astype(np.float64)


def _nearly_whole(arm: Buckets, target: float, everyone: float) -> tuple[Bools, Floats, Floats]:
    """The whole arm, and each bucket left out in turn; a target between the two is interpolated."""
    movable = np.flatnonzero(arm.movable)
    chosen = np.ones((len(movable) + 1, len(arm.sizes)), dtype=bool)
    chosen[np.arange(1, len(chosen)), movable] = False
    without = min(max(everyone - target, 0.0), 1.0)
    weight = np.concatenate([[1 - without], np.full(len(movable), without / max(1, len(movable)))])
    return chosen, weight, np.concatenate([[0.0], np.ones(len(movable))])


def welch_ends(
    estimate: Floats, sides: Sequence[Depth], level: float | None, specs: Sequence[MetricSpec]
) -> tuple[Floats, Floats, Floats]:
    """Welch interval (t quantile times standard error), clipped to possible differences."""
    from scipy.special import stdtrit

    nothing = np.full(len(estimate), np.nan)
    variance = sides[0].variance + sides[1].variance
    if level is None or min(side.freedom for side in sides) < MIN_UNITS - 1:
        return nothing, nothing.copy(), np.sqrt(variance)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = variance**2 / sum(side.variance**2 / side.freedom for side in sides)
        reach = stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance)
    span = np.array([a.span[1] - a.span[0] for a in specs])
    some = reach > 0
    low = np.where(some, np.maximum(estimate - reach, -span), np.nan)
    high = np.where(some, np.minimum(estimate + reach, span), np.nan)
    return low, high, np.sqrt(variance)


def past_slope(moved: Floats, before: Floats) -> Floats:
    """Slope of a difference on the same difference before, over re-assignments; 0 if undefined."""
    defined = ~(np.isnan(moved) | np.isnan(before))
    a = np.where(defined, moved - defined_mean(moved), 0.0)
    b = np.where(defined, before - defined_mean(before), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.nan_to_num(_column_sums(a * b) / _column_sums(b * b), nan=0.0, posinf=0.0, neginf=0.0))


def detectable(
    tally: Buckets,
    specs: Sequence[MetricSpec],
    shares: tuple[float, float],
    *,
    draws: int,
    level: float,
    power: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Minimum detectable difference between arms with these shares, and the metric's value.

    Arms are drawn from a log without a change; how far their differences scatter is what an effect has to exceed. The value
    is what the metric is in the smaller arm.
    """
    movable = np.flatnonzero(tally.movable)
    many = [max(1, round(share * len(movable))) for share in shares]
    order = rng.permuted(np.broadcast_to(movable, (draws, len(movable))), axis=1)
    sides = []
    for at in (slice(0, many[0]), slice(many[0], many[0] + many[1])):
        chosen = np.zeros((draws, len(tally.sizes)), dtype=bool)
        np.put_along_axis(chosen, order[:, at], True, axis=1)
        sides.append(values(tally, specs, chosen)[0])
    normal = NormalDist()
    reach = normal.inv_cdf((1 + level) / 2) + normal.inv_cdf(power)
    smaller = sides[int(many[1] < many[0])]
    return reach * np.sqrt(defined_variance(sides[0] - sides[1])), defined_mean(smaller)


def sample_ratio(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Chi-square p of arm sizes under a split with these shares (sample ratio mismatch).

    >>> round(sample_ratio([4_900, 5_100], [0.5, 0.5]), 4)
    0.0455
    """
    from scipy.special import chdtrc

    observed, share = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    expected = observed.sum() * share / share.sum()
    return float(chdtrc(len(observed) - 1, ((observed - expected) ** 2 / expected).sum()))


def volume_ratio(tally: Buckets, arm: int, control: int) -> tuple[float, float]:
    """Amount per unit in an arm over that in control, and the standard error of its log."""
    rates, errors = [], []
    for which in (arm, control):
        in_arm = tally.arms == which
        amount, size = tally.volumes[in_arm], tally.sizes[in_arm].astype(np.float64)
        rate = amount.sum() / size.sum() if size.sum() else np.nan
        many = len(amount)
        spread = ((amount - rate * size) ** 2).sum() * many / max(1, many - 1)
        rates.append(rate)
        errors.append(spread / amount.sum() ** 2 if amount.sum() else np.nan)
    ratio = rates[0] / rates[1] if rates[1] else np.nan
    return float(ratio), float(np.sqrt(sum(errors)))
