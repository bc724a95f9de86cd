"""Two arms of different units, or the same units on two occasions: differences of inequality with interval and p.

Errors come from units here. Where units were randomised they are re-assigned to arms for the test and drawn anew within
each arm for the interval; where nothing was, the two amounts of a unit change places for the test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.experiments import Contrast, defined_mean, defined_variance, lorenz_on_grid, past_slope
from evenhand.intervals.kinds import DEFAULT_DRAWS, percentile_ends
from evenhand.intervals.rules import MIN_UNITS, ROUNDING
from evenhand.metrics.inequality import spread_of_mean
from evenhand.tallies.paired_amounts import PairedAmounts, joined
from evenhand.tallies.spectrum import Spectrum

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
    with np.errstate(invalid="ignore", divide="ignore"):
        explained = 1 - defined_variance(moved) / defined_variance(plain)
    return Contrast(
        sides[0].first[0] - bias[0][0], sides[1].first[0] - bias[1][0], estimate,
        np.minimum(low, estimate), np.maximum(high, estimate), error, (sides[0].first - sides[1].first)[0],
        defined_mean(plain), tail_p(ratios) if has_enough_units(arm, control) else np.full(len(specs), np.nan),
        moved[1:], moved[0], np.isnan(moved[1:]).sum(0), explained,
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
        np.isnan(spread).sum(0), np.zeros(len(specs)), (_curve(pairs, 0), _curve(pairs, 1)),
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
    """Whether every tally has enough units for an interval."""
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
