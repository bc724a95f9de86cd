"""Bootstrap over units where a cell is more than an amount: units of a group, amounts from sources or on two occasions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.jackknife import T
from evenhand.intervals.kinds import (
    ANYTHING,
    MIN_UNITS,
    ROUNDING,
    Estimates,
    Interval,
    centred_ends,
    normal_ends,
    percentile_ends,
    studentised_ends,
    t_quantile,
)
from evenhand.intervals.spectra import draw_populations
from evenhand.metrics.inequality import spread_of_mean
from evenhand.tallies.paired_amounts import Side, side_of
from evenhand.tallies.sources import Partition
from evenhand.tallies.spectrum import BIN_WIDTH, Spectrum, collapse

WIDE = 1 << 16
"""A tally with more cells is not resampled: its intervals are normal, with the linearised error."""


Figures = Mapping[str, Floats]


def ends_of_draws(draws: Figures, estimates: Figures, interval: Interval, size: int) -> dict[str, Estimates]:
    """Percentiles of the draws of every figure, bias-corrected for `bootstrap`; `size` units were resampled."""
    ends = {}
    for name, every in draws.items():
        estimate = np.asarray(estimates[name])
        if interval.kind == "bootstrap":  # a part that noise alone fills is above what it measures
            both = centred_ends(estimate, every, interval.level, size, biased=True)
        else:
            both = percentile_ends(every, interval.level, size)
        low, high = (np.where(np.isnan(estimate), np.nan, end) for end in both)
        ends[name] = Estimates(estimate, low, high, np.asarray(np.isnan(every).sum(-1)))
    return ends


def bootstrap_draws(
    tally: T, figures: Callable[[T], Figures], draws: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Every figure of resampled units; draws are the last axis."""
    size, cells = round(float(tally.counts.sum())), len(tally.counts)
    batches: dict[str, list[Floats]] = {}
    rngs = rng, rng.spawn(1)[0]
    at_once = max(1, (1 << 17) // max(1, cells))  # 1 MiB for every array of draws: stays in cache
    for start in range(0, draws, at_once):
        many = min(at_once, draws - start)
        counts = draw_populations(rngs, size, tally.counts / tally.counts.sum(), many).astype(np.float64)
        for name, values in figures(tally.with_counts(counts)).items():
            batches.setdefault(name, []).append(values)
    return {name: np.moveaxis(np.concatenate(parts), 0, -1) for name, parts in batches.items()}


def studentised_p(estimate: Floats, error: Floats, draws: Floats, draw_errors: Floats, units: float) -> Floats:
    """Two-sided p of zero, from the distances of draws (last axis) from the estimate in their own errors.

    Beyond the draws it follows Student's t, stretched to their 95% and 99% quantiles.

    >>> rng = np.random.default_rng(1)
    >>> z = rng.normal(size=999)
    >>> p = studentised_p(np.array([2.0, 9.0]), np.ones(2), np.array([2.0, 9.0])[:, None] + z, np.ones((2, 999)), 1000)
    >>> bool(0.03 < p[0] < 0.08), bool(p[1] < 1e-10)
    (True, True)
    """
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(estimate / error)
        ratios = np.abs((draws - estimate[..., None]) / draw_errors)
    ratios = np.where(np.isnan(ratios), np.inf, ratios)  # no spread within a draw: as far off as any
    stretch = np.ones(t.shape)
    for level in (0.95, 0.99):
        bound = np.quantile(ratios, level, axis=-1, method="higher")
        stretch = np.maximum(stretch, bound / t_quantile(level, units))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = 2 * stdtr(max(units - 1, 1), -t / stretch)
    return np.asarray(np.maximum(tail, (ratios >= t[..., None]).mean(-1)))


def sign_flip_p(steps: Floats, counts: Floats, draws: int, rng: np.random.Generator) -> float:
    """Two-sided p of a sum of steps whose signs are random; cells hold `counts` units with the same step.

    Beyond the draws it follows the normal curve, which has the heavier tails.

    >>> rng = np.random.default_rng(1)
    >>> bool(sign_flip_p(np.ones(5), np.ones(5), 9_999, rng) > 0.05), bool(sign_flip_p(np.ones(1), np.full(1, 90.0), 999, rng) < 1e-9)
    (True, True)
    """
    total, scale = abs(float(steps @ counts)), float(np.sqrt(steps**2 @ counts))
    if not scale > 0:
        return 1.0
    flipped = 0
    at_once = max(1, (1 << 20) // max(1, len(counts)))
    many = counts.astype(np.int64)
    for start in range(0, draws, at_once):
        ups = rng.binomial(many, 0.5, (min(at_once, draws - start), len(many)))
        flipped += int((np.abs((2 * ups - many) @ steps) >= total * (1 - ROUNDING)).sum())
    return max(flipped / draws, math.erfc(total / scale / math.sqrt(2)))


def permuted_partitions(tally: Partition, draws: int, rng: np.random.Generator) -> Iterator[Partition]:
    """The units of a partition with their groups permuted: `draws` replicates in batches, groups as large as they are.

    Amounts are binned where there are many; nothing is drawn where that does not suffice.
    """
    pooled = tally.pooled
    if pooled.weights is None:
        width = BIN_WIDTH
        pooled = collapse(pooled.values, pooled.counts)
        while len(pooled.values) * len(tally) > WIDE and width <= 1 / 16:
            pooled, width = pooled.binned(width), 4 * width
    cells, groups, sizes = len(pooled.values), len(tally), [int(tally[g].units) for g in range(len(tally))]
    if cells * groups > 4 * WIDE or sum(sizes) > 5e8:
        return
    every = Partition.joined(tally.groups, [pooled] * groups)
    shuffles = sum(sizes) <= WIDE  # unit by unit, else cell by cell
    cell_of_unit = (
        np.repeat(np.arange(cells), pooled.counts.astype(np.int64)) if shuffles else np.zeros(0, dtype=np.int64)
    )
    first_cell = np.repeat(np.arange(groups) * cells, sizes) if shuffles else cell_of_unit
    at_once = max(1, (1 << 20) // max(1, cells * groups))  # 8 MiB
    for start in range(0, draws, at_once):
        counts = np.zeros((min(at_once, draws - start), groups, cells))
        for replicate in counts:
            if shuffles:
                placed = np.bincount(first_cell + rng.permutation(cell_of_unit), minlength=groups * cells)
                replicate += placed.reshape(groups, cells)
                continue
            rest = pooled.counts.astype(np.int64)
            for g, size in enumerate(sizes[:-1]):
                replicate[g] = rng.multivariate_hypergeometric(rest, size)
                rest -= replicate[g].astype(np.int64)
            replicate[-1] = rest
        yield every.with_counts(counts.reshape(len(counts), -1))


def linearised_ends(
    units: Spectrum, influence: Figures, estimates: Figures, spans: Mapping[str, tuple[float, float]], level: float
) -> dict[str, Estimates]:
    """Normal intervals of every figure, from the influence of a unit per cell (last axis)."""
    ends = {}
    for name, per_cell in influence.items():
        with np.errstate(invalid="ignore", divide="ignore"):
            error = spread_of_mean(units, per_cell)
        both = normal_ends(estimates[name], error, level, spans[name], float(units.units))
        low, high = (np.where(np.isnan(estimates[name]), np.nan, end) for end in both)
        ends[name] = Estimates(estimates[name], low, high, np.zeros(estimates[name].shape, dtype=np.int64))
    return ends


def blank(estimates: Figures) -> dict[str, Estimates]:
    return {name: Estimates.without_interval(np.asarray(estimate)) for name, estimate in estimates.items()}


DRAWS = 999
MOST_CELLS = 5 * 10**8
"""Cells (worlds x units' cells x draws) that are drawn; with more, intervals are normal with the linearised error."""


@dataclass(frozen=True)
class Measured:
    """(parts,) figures of a change: estimate, interval, and p against zero."""

    estimate: Floats
    low: Floats
    high: Floats
    p: Floats
    undefined: Floats


@dataclass(frozen=True)
class Split:
    """Worlds of one tally, and how they add up to parts.

    Attributes
    ----------
    amounts : (C,) amounts of every world.
    shares : (parts, worlds) of each world in each part.
    counts : (C,) units. weights : (C,) of each unit, or None.
    """

    amounts: Sequence[Floats]
    shares: Floats
    counts: Floats
    weights: Floats | None

    def sides(self) -> list[Side]:
        return [side_of(x, self.weights) for x in self.amounts]

    def measured(self, spec: MetricSpec, sides: Sequence[Side], counts: Floats) -> tuple[Floats, Floats]:
        """(..., parts) the parts for counts (..., C) of units, and their linearised errors; NaN where there is none."""
        units = Spectrum(self.amounts[0], counts, self.weights)
        values = np.empty((*counts.shape[:-1], len(sides)))
        influence = np.zeros((len(self.shares), *counts.shape)) if spec.card.studentised else None
        for w, side in enumerate(sides):
            spectrum = side.spectrum(counts)
            values[..., w] = spec.on(spectrum)
            if influence is not None:
                per_unit = spec.linearised(spectrum, values[..., w])
                in_cells = np.broadcast_to(per_unit, spectrum.counts.shape)[..., side.cell]  # type: ignore[arg-type]
                for part in np.flatnonzero(self.shares[:, w]):
                    influence[part] += self.shares[part, w] * in_cells
        parts = np.nan_to_num(values) @ self.shares.T
        parts[np.isnan(values) @ (self.shares.T != 0)] = np.nan
        if influence is None:
            return parts, np.full(parts.shape, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = [spread_of_mean(units, of_part) for of_part in influence]
        return parts, np.stack(errors, axis=-1)


def measured_parts(
    splits: Sequence[Split], spec: MetricSpec, level: float | None, rng: np.random.Generator
) -> Measured:
    """The parts with studentised intervals over units, and the p of each against zero."""
    sides = [s.sides() for s in splits]
    whole = [s.measured(spec, of_split, s.counts) for s, of_split in zip(splits, sides, strict=True)]
    estimate, error = (np.mean([pair[i] for pair in whole], axis=0) for i in (0, 1))
    size = float(splits[0].counts.sum())
    nothing = np.full(len(estimate), np.nan)
    if level is None or size < MIN_UNITS:
        return Measured(estimate, nothing, nothing, nothing, np.zeros(len(estimate)))
    cost = sum(len(s.counts) * len(s.amounts) for s in splits) / len(splits)
    least = normal_ends(estimate, error, level, ANYTHING, size)
    if cost * DRAWS > MOST_CELLS:
        flat = np.zeros((len(estimate), 1))
        return Measured(estimate, *least, studentised_p(estimate, error, flat, flat, size), np.zeros(len(estimate)))
    offsets, errors = [], []
    for (parts, _), split, of_split in zip(whole, splits, sides, strict=True):
        many = -(-DRAWS // len(splits))
        at_once = max(1, (1 << 21) // max(1, len(split.counts) * len(estimate)))
        for start in range(0, many, at_once):
            shape = (min(at_once, many - start), len(split.counts))
            counts = rng.multinomial(round(size), split.counts / split.counts.sum(), shape[0]).astype(np.float64)
            drawn, drawn_errors = split.measured(spec, of_split, counts)
            offsets.append(drawn - parts)
            errors.append(drawn_errors)
    draws, draw_errors = estimate[:, None] + np.concatenate(offsets).T, np.concatenate(errors).T
    undefined = np.isnan(draws).sum(-1)
    with np.errstate(invalid="ignore"):  # a draw without anyone whom a part is about says nothing
        draws = np.where(draw_errors <= ROUNDING * np.abs(error)[:, None], np.nan, draws)
    if np.isnan(error).all():
        low, high = centred_ends(estimate, draws, level, size, biased=True)
        spread = np.ma.masked_invalid(draws).std(axis=-1).filled(np.nan)  # a part without any draw has none
        return Measured(estimate, low, high, studentised_p(estimate, spread, draws, spread[:, None], size), undefined)
    low, high = studentised_ends(estimate, error, draws, draw_errors, estimate[:, None], level, ANYTHING)
    p = studentised_p(estimate, error, draws, draw_errors, size)
    return Measured(estimate, np.fmin(low, least[0]), np.fmax(high, least[1]), p, undefined)
