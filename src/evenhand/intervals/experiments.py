"""Arms of an experiment compared: of the same units seen by randomised viewers, of different units, or on two occasions.

Both arms hold the same units, so units are not resampled. What could have come out otherwise is who was in which arm:
buckets of viewers are re-assigned for the test and left out for the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import DEFAULT_DRAWS, MIN_UNITS, ROUNDING, percentile_ends
from evenhand.metrics.inequality import lorenz_curve, spread_of_mean
from evenhand.tallies.buckets import Buckets
from evenhand.tallies.paired_amounts import PairedAmounts, joined
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
    depths = equal_volume_shares(pair, treated, equal)
    sides = [_at_depth(pair.only(side), specs, depth, rng, past and past.only(side), slope) for side, depth in depths]
    now, adjusted_sides = zip(*sides, strict=True)
    estimate = adjusted_sides[0].value - adjusted_sides[1].value
    low, high, error = welch_ends(estimate, adjusted_sides, level, specs)
    return Contrast(
        now[0].value, now[1].value, estimate, low, high, error, moved[0], defined_mean(moved),
        two_sided_p(adjusted), adjusted[1:], adjusted[0], np.isnan(moved[1:]).sum(0),
        (now[0].curve, now[1].curve),
    )  # fmt: skip


def undefined_contrast(specs: Sequence[MetricSpec]) -> Contrast:
    """A contrast of NaN, for an arm without units."""
    nothing = np.full(len(specs), np.nan)
    return Contrast(
        treatment=nothing, control=nothing, estimate=nothing, low=nothing, high=nothing, error=nothing, raw=nothing,
        chance=nothing, p=nothing, draws=nothing[None], observed=nothing, undefined=np.zeros(len(specs), dtype=np.int64),
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
    return values(tally, specs, chosen)[0] - values(tally, specs, ~chosen)[0]


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


MOST_CELLS = 1 << 20
"""Cells (draws x pairs) handled at a time."""


@dataclass(frozen=True)
class PairedValues:
    """(draws, metrics) values on both occasions, and standard errors of first - slope * second."""

    first: Floats
    second: Floats
    error: Floats

    def combined(self, slope: Floats) -> Floats:
        return self.first - slope * self.second


def units_contrast(
    arm: PairedAmounts,
    control: PairedAmounts,
    specs: Sequence[MetricSpec],
    *,
    draws: int,
    level: float | None,
    rng: np.random.Generator,
) -> Contrast:
    """Difference between arms of different units, adjusted for what units received before.

    Units are re-assigned to arms, and every difference is divided by its own error: that gives p, and the quantiles of
    these ratios the interval. The bias that few units bring to an arm is taken off (jackknife).
    """
    pooled, in_arm = arm.pool(control)
    pooled, order, starts = pooled.binned()
    draws = cheap_draws(draws, len(pooled.first))
    chosen = np.concatenate([joined(in_arm, order, starts)[None], pooled.split(round(arm.units), draws, rng)])
    rest = pooled.counts - chosen
    treated, others = measure(pooled, chosen, specs), measure(pooled, rest, specs)
    moved = plain = treated.first - others.first
    slope = past_slope(plain, treated.second - others.second)
    if slope.any():
        treated, others = (measure(pooled, counts, specs, slope) for counts in (chosen, rest))
        moved = treated.combined(slope) - others.combined(slope)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = moved / _divisor(np.hypot(treated.error, others.error), specs)
    sides = [measure(side, side.counts[None], specs, slope) for side in (arm, control)]
    bias = [_bias(side, specs, slope) for side in (arm, control)]
    gap = (sides[0].combined(slope) - sides[1].combined(slope))[0]
    error = np.hypot(sides[0].error, sides[1].error)[0]
    low, high = _studentised_interval(
        gap, _divisor(error[None], specs)[0], ratios[1:], level if has_enough_units(arm, control) else None, specs
    )
    estimate = gap - (bias[0][1] - bias[1][1])
    return Contrast(
        sides[0].first[0] - bias[0][0], sides[1].first[0] - bias[1][0], estimate,
        np.minimum(low, estimate), np.maximum(high, estimate), error, (sides[0].first - sides[1].first)[0],
        defined_mean(plain), tail_p(ratios) if has_enough_units(arm, control) else np.full(len(specs), np.nan),
        moved[1:], moved[0], np.isnan(moved[1:]).sum(0),
        (_curve(arm, 0), _curve(control, 0)),
    )  # fmt: skip


def paired_contrast(
    pairs: PairedAmounts, specs: Sequence[MetricSpec], *, draws: int, level: float | None, rng: np.random.Generator
) -> Contrast:
    """Difference between two occasions of the same units.

    p swaps the two amounts within units, each difference divided by its own error. The interval is the wider of that test
    inverted and of a bootstrap that draws units with both amounts.
    """
    ones = np.ones(len(specs))
    exact = measure(pairs, pairs.counts[None], specs, ones)
    gap, scale = exact.combined(ones)[0], _divisor(exact.error, specs)[0]
    narrow = pairs.binned()[0]
    centre, _ = _changes(narrow, specs, 1, lambda _: narrow.counts[None])
    moved, errors = _changes(narrow, specs, draws, lambda many: narrow.resample(many, rng))
    spread = moved - centre
    p, swapped = _swap_test(pairs, specs, draws, rng)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = spread / errors
    used = level if has_enough_units(pairs) else None
    ends = [_studentised_interval(gap, scale, r, used, specs) for r in (ratios, np.concatenate([swapped, -swapped]))]
    low, high = np.fmin(ends[0][0], ends[1][0]), np.fmax(ends[0][1], ends[1][1])
    nothing = np.full(len(specs), np.nan)
    return Contrast(
        exact.first[0], exact.second[0], gap, np.minimum(low, gap), np.maximum(high, gap),
        np.where(np.isnan(exact.error[0]), np.sqrt(defined_variance(spread)), exact.error[0]), gap, nothing,
        np.where(np.isnan(gap), np.nan, p) if has_enough_units(pairs) else nothing, spread, gap,
        np.isnan(spread).sum(0), (_curve(pairs, 0), _curve(pairs, 1)),
    )  # fmt: skip


def _swap_test(
    pairs: PairedAmounts, specs: Sequence[MetricSpec], draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Exact p of "nothing changed, volume included", and the studentised differences of swaps.

    Where nothing changed, the two amounts of a unit could as well stand in the other order. A p that is rough after `draws`
    swaps is settled by more where they are cheap, so that it can survive an adjustment for many rows.
    """
    mirrored, in_order, sizes = pairs.mirrored()

    def ratios(many: int, draw: Callable[[int], Floats]) -> Floats:
        moved, errors = _changes(mirrored, specs, many, lambda n: np.hstack([ordered := draw(n), sizes - ordered]))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(moved == 0, 0.0, moved / errors)

    def swap(many: int) -> Floats:
        return rng.binomial(sizes.astype(np.int64), 0.5, (many, len(sizes))).astype(np.float64)

    def as_large(swapped: Floats) -> Floats:  # an undefined one counts, so that p is never too sure
        return np.asarray((~(np.abs(swapped) < bound * (1 - 1e-9))).sum(0))

    bound = np.abs(ratios(1, lambda _: in_order[None])[0])
    swapped = ratios(draws, swap)
    count, tried = as_large(swapped), cheap_draws(draws, len(sizes))
    if tried == draws or count.min(initial=10) >= 10:
        return (1 + count) / (1 + draws), swapped
    return (1 + count + as_large(ratios(tried - draws, swap))) / (1 + tried), swapped


def _changes(
    tally: PairedAmounts, specs: Sequence[MetricSpec], draws: int, draw: Callable[[int], Floats]
) -> tuple[Floats, Floats]:
    """(draws, metrics) differences between the occasions and what they are divided by, a batch of draws at a time."""
    ones, at_once = np.ones(len(specs)), max(1, MOST_CELLS // max(1, len(tally.first)))
    sizes = [min(at_once, draws - start) for start in range(0, draws, at_once)]
    values = [measure(tally, draw(many), specs, ones) for many in sizes]
    errors = np.concatenate([v.error for v in values])
    return np.concatenate([v.combined(ones) for v in values]), _divisor(errors, specs)


def cheap_draws(draws: int, cells: int) -> int:
    """More draws than asked for where they are cheap: p can then survive an adjustment for many rows."""
    return draws if draws < DEFAULT_DRAWS else max(draws, min(9_999, (1 << 22) // max(1, cells)))


def _curve(tally: PairedAmounts, side: int) -> Floats:
    return lorenz_on_grid(tally.sides[side].spectrum(tally.counts))


def has_enough_units(*tallies: PairedAmounts) -> bool:
    return min(tally.units for tally in tallies) >= MIN_UNITS


def with_volume_effect(
    contrast: Contrast,
    pairs: PairedAmounts,
    specs: Sequence[MetricSpec],
    *,
    equal: bool,
    rng: np.random.Generator,
    draws: int = 20,
) -> Contrast:
    """The contrast with the effect of volume: the larger occasion is thinned to the smaller one.

    Each event stays with the same chance. With `equal` the difference itself is the one at equal volume. Not worked out for
    more than 20 million units.
    """
    totals = [float((x * pairs.counts).sum()) for x in (pairs.first, pairs.second)]
    if min(totals) <= 0 or pairs.units > 20_000_000 or pairs.weights is not None:
        return contrast
    larger = int(totals[1] > totals[0])
    amounts = np.repeat((pairs.first, pairs.second)[larger], pairs.counts.astype(np.int64)).astype(np.int64)
    thin = np.empty((draws, len(specs)))
    for k in range(draws):
        spectrum = Spectrum.from_arrays(rng.binomial(amounts, min(totals) / max(totals)))
        thin[k] = [float(a.on(spectrum)) for a in specs]
    less = thin.mean(0) - (contrast.treatment, contrast.control)[larger]
    shift = less if larger == 0 else -less  # what thinning adds to the difference
    if not equal:
        return replace(contrast, chance=-shift)
    sides = {"treatment": contrast.treatment + less} if larger == 0 else {"control": contrast.control + less}
    moved = {name: getattr(contrast, name) + shift for name in ("estimate", "low", "high")}
    return replace(contrast, chance=-shift, p=np.full(len(specs), np.nan), **sides, **moved)


def measure(
    tally: PairedAmounts, counts: Floats, specs: Sequence[MetricSpec], slope: Floats | None = None
) -> PairedValues:
    """Every metric on both occasions for counts (draws, pairs), with its standard error."""
    shape = (len(counts), len(specs))
    results = PairedValues(np.full(shape, np.nan), np.zeros(shape), np.full(shape, np.nan))
    step = max(1, MOST_CELLS // max(1, counts.shape[-1]))
    for start in range(0, len(counts), step):
        at = slice(start, start + step)
        sides = [side.spectrum(counts[at]) for side in tally.sides]
        units = Spectrum(tally.first, counts[at], tally.weights)
        for i, a in enumerate(specs):
            results.first[at, i] = a.on(sides[0])
            influence = _influence(a, sides[0], results.first[at, i], tally.sides[0].cell)
            if tally.has_second:
                results.second[at, i] = a.on(sides[1])
                if slope is not None and slope[i] and influence is not None:
                    past = _influence(a, sides[1], results.second[at, i], tally.sides[1].cell)
                    influence = None if past is None else influence - slope[i] * past
            if influence is not None:
                with np.errstate(invalid="ignore", divide="ignore"):
                    results.error[at, i] = spread_of_mean(units, influence)
    return results


def _influence(a: MetricSpec, s: Spectrum, estimate: Floats, cell: np.typing.NDArray[np.int64]) -> Floats | None:
    """Influence of a unit on the value, per pair; None where the card has no linearisation."""
    per_unit = a.linearised(s, estimate) if a.card.studentised else None
    return None if per_unit is None else np.broadcast_to(per_unit, s.counts.shape)[..., cell]


def _bias(tally: PairedAmounts, specs: Sequence[MetricSpec], slope: Floats) -> tuple[Floats, Floats]:
    """Jackknife bias of a value, and of first - slope * second: each unit is left out once."""
    narrow = tally.binned()[0]
    biases = []
    for side in narrow.sides[: 2 if narrow.has_second else 1]:
        whole = side.spectrum(narrow.counts)
        n = float(whole.units)
        without = np.empty((len(whole.counts), len(specs)))
        step = max(1, MOST_CELLS // max(1, len(whole.counts)))
        for start in range(0, len(without), step):
            at = np.arange(start, min(start + step, len(without)))
            counts = np.repeat(whole.counts[None], len(at), 0)
            counts[np.arange(len(at)), at] -= 1
            for i, a in enumerate(specs):
                without[at, i] = a.on(Spectrum(whole.values, counts, whole.weights))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (whole.counts[:, None] * without).sum(0) / n
        biases.append((n - 1) * (mean - np.array([float(a.on(whole)) for a in specs])))
    first = np.nan_to_num(biases[0])
    return first, first - slope * np.nan_to_num(biases[1]) if len(biases) > 1 else first


def _divisor(error: Floats, specs: Sequence[MetricSpec]) -> Floats:
    """The standard error that a difference is divided by; 1 where the metric has none."""
    defined = np.array([a.card.studentised for a in specs]) & ~np.isnan(error).all(0)
    return np.where(defined, error, 1.0)


def tail_p(ratios: Floats) -> Floats:
    """Twice the smaller tail in which the first of the ratios lies, itself counted among them."""
    defined = (~np.isnan(ratios)).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        above = (ratios >= ratios[0] - ROUNDING * np.abs(ratios[0])).sum(0) / defined
        below = (ratios <= ratios[0] + ROUNDING * np.abs(ratios[0])).sum(0) / defined
    return np.where(np.isnan(ratios[0]), np.nan, np.minimum(2 * np.minimum(above, below), 1.0))


def _studentised_interval(
    gap: Floats, scale: Floats, ratios: Floats, level: float | None, specs: Sequence[MetricSpec]
) -> tuple[Floats, Floats]:
    """Interval ends: the difference less the quantiles of studentised draws times its error."""
    nothing = np.full(len(gap), np.nan)
    if level is None:
        return nothing, nothing
    with np.errstate(invalid="ignore"):
        informative = np.where(np.isfinite(ratios), ratios, np.nan)  # no spread within a draw says nothing about scale
        t_low, t_high = percentile_ends(informative.T, level)
        span = np.array([a.span[1] - a.span[0] for a in specs])
        low, high = np.maximum(gap - t_high * scale, -span), np.minimum(gap - t_low * scale, span)
    return np.where(high > low, low, np.nan), np.where(high > low, high, np.nan)
