"""Tails of amounts: how heavy they are, and populations whose tail goes on beyond the largest amount seen.

No sample shows a unit larger than its largest, and under heavy tails that is where inequality lies: intervals from the units
seen are too short. So the top sqrt(n) units are taken for a sample of a tail, generalised Pareto or Pareto, light or heavy
(Davidson and Flachaire 2007; Cowell and Flachaire 2007); and as so few units hardly say which, there are several such
populations, and how likely each is given these units. All constants here were set by coverage and width of intervals in
the designs that `benchmarks/coverage.py` was tuned on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.cards import Floats, parse_metric
from evenhand.intervals.rules import FEW_UNITS, MIN_UNITS
from evenhand.metrics import inequality as _inequality  # noqa: F401  (declares the Gini index)
from evenhand.metrics.inequality import spread_of_mean
from evenhand.tallies.spectrum import Spectra, Spectrum

CHANCES = np.array([0.1, 0.2, 0.2, 0.2, 0.15, 0.1, 0.05])
"""How likely each of the populations is that a slice may come from, lightest tail first; finer where upper ends are."""

SHAPE_SPREAD = 0.3
"""Standard deviation of the shape of a generalised Pareto tail before a unit is seen: 0 is exponential, 2/3 Pareto 1.5."""

PARETO_ODDS = 1 / 28
"""Odds of a Pareto tail against a generalised Pareto tail, for each unit of it: few units alone are no reason for a wide interval."""

LARGEST_SHAPE = 1 / 1.15
"""The heaviest tail; at a shape of 1 its mean is infinite."""


def tail_units(units: Floats) -> Floats:
    """How many of so many units are the tail."""
    return np.floor(np.sqrt(units))


def tail_exponents(s: Spectrum) -> Floats:
    """Hill's tail exponent from the top sqrt(n) units; infinite where the top is flat or zero."""
    units = s.units
    top = tail_units(units)
    bound = (units - top)[..., None]
    threshold = np.full(units.shape, np.inf)
    for b in Spectrum(s.values, s.counts).walk():
        threshold = np.minimum(threshold, np.where(b.reach >= bound, b.values, np.inf).min(-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.zeros(units.shape)
        for b in Spectrum(s.values, s.counts).walk():
            part = np.clip(b.reach - bound, 0, b.mass)
            excess = excess + np.where(part > 0, part * np.log(b.values / threshold[..., None]), 0.0).sum(-1)
        exponent = top / excess
    return np.where(np.isnan(exponent) | (threshold <= 0), np.inf, exponent)


def likely_populations(s: Spectrum) -> tuple[Spectrum, Floats]:
    """Populations (axis before the cells) that these units may be drawn from, and how likely each is.

    Counts of a tail are fractions: how many units each of its cells is expected to hold. Leading axes are slices. Where the
    top is flat all are as it is; units with weights are one population, as they are.

    >>> s, chances = likely_populations(Spectrum.from_arrays(np.arange(1.0, 101.0) ** 2))
    >>> s.units.round(6).tolist() == [100.0] * len(CHANCES)
    True
    >>> bool(s.values[0].max() < 2 * 100**2 < s.values[-1].max())
    True
    """
    if s.weights is not None:
        return s.spread_out(), np.ones(1)
    start, below, top = _split(s)
    excess = np.where(s.counts > below, s.values - start, 0.0)
    scale = excess.max(-1, keepdims=True, initial=0.0)
    as_is = (s.units[..., None] < MIN_UNITS) | (scale <= 0)
    scale, excess, start = np.where(as_is, 1.0, scale), np.where(as_is, 0.0, excess), np.where(as_is, 0.0, start)
    top = np.maximum(top, 2.0)  # where there are fewer units, they are as they are
    rate, shape = _likely_tails(excess / scale, s.counts - below, top, start / scale)
    as_is, scale, start, top, below = (x[..., None, :] for x in (as_is, scale, start, top, below))
    beyond, counts = _tail_cells(rate, shape, top)
    values = s.values[..., None, :]
    body = np.where(as_is, values, np.minimum(values, start)) + np.zeros_like(shape)
    tail = np.where(as_is, values[..., -1:], start + scale * beyond)
    units = np.where(as_is, s.counts[..., None, :], below) + np.zeros_like(shape)
    counts = np.concatenate([units, np.where(as_is, 0.0, counts)], -1)
    return Spectrum(np.concatenate([body, tail], -1), counts), CHANCES


def spread_given_tail(s: Spectrum, per_unit: Floats) -> Floats:
    """Standard error of a mean of influences, units of the tail all at theirs: how their tail goes on is known.

    >>> s = Spectrum.from_arrays([1, 2, 3, 4, 20])
    >>> spread_given_tail(s, s.values).round(3).tolist(), spread_of_mean(s, s.values).round(3).tolist()
    (2.209, 3.162)
    """
    if s.weights is not None:
        return spread_of_mean(s, per_unit)
    _, below, top = _split(s)
    with np.errstate(invalid="ignore"):
        tail = np.where(s.counts > below, (s.counts - below) * per_unit, 0.0).sum(-1, keepdims=True) / top
    cells = Spectrum(s.values[..., :1], np.concatenate([below, top], -1))
    return spread_of_mean(cells, np.concatenate([per_unit, tail], -1))


def _split(s: Spectrum) -> tuple[Floats, Floats, Floats]:
    """Amount at which the tail begins, units of each cell below it, and units of the tail."""
    units = s.units[..., None]
    top = np.minimum(np.maximum(tail_units(units), 2.0), units)  # of a single unit nothing follows
    reach, bound = np.cumsum(s.counts, axis=-1), units - top
    at = np.minimum((reach < bound).sum(-1, keepdims=True), s.values.shape[-1] - 1)
    return np.take_along_axis(s.values, at, -1), np.clip(bound - (reach - s.counts), 0.0, s.counts), top


def _likely_tails(excess: Floats, counts: Floats, units: Floats, start: Floats) -> tuple[Floats, Floats]:
    r"""(..., CHANCES, 1) rate and shape of tails that so many units may be from; the largest excess is 1.

    An excess y over the start of the tail has the density :math:`\tfrac{\theta}{\xi}(1 + \theta y)^{-1/\xi - 1}`: Pareto where
    :math:`\theta` is one over the start, bounded where it is negative, exponential near 0. Given the rate :math:`\theta`, one over
    the size of the shape :math:`\xi` has a gamma distribution; rates are a grid. Both are chosen at even quantiles of the mean
    of the tail.
    """
    from scipy.special import gammaincinv, gammaln

    mean = (counts * excess).sum(-1, keepdims=True) / units
    mean = np.where(mean > 0, mean, 1.0)
    grid = np.exp(np.arange(-4.0, 4.0, 0.4))
    pareto = start > 0
    rates = np.concatenate([1 / np.where(pareto, start, 1.0), grid / mean, -0.98 * grid[grid <= 1] + 0 * mean], -1)
    # Cells first: sums then add one cell after the other, and cells without units at the end change no bit.
    filled = counts > 0
    first, last = filled.argmax(-1)[..., None], (np.cumsum(filled, -1)).argmax(-1)[..., None]
    cells = first + np.arange(int((last - first).max(initial=0)) + 1)
    counts = np.where(cells <= last, np.take_along_axis(counts, np.minimum(cells, last), -1), 0.0)
    excess = np.take_along_axis(excess, np.minimum(cells, last), -1)
    excess, counts = (np.moveaxis(x, -1, 0)[..., None] for x in (excess, counts))
    sign, summed = np.sign(rates), np.abs((counts * np.log1p(rates * excess)).sum(0))
    # Degrees of freedom: one less for a uniform density of the shape than for one of its logarithm, which Pareto tails have.
    is_pareto = np.arange(rates.shape[-1]) == 0
    freedom = units - ~is_pareto
    quantiles = (np.arange(8) + 0.5) / 8
    shapes = sign[..., None] * summed[..., None] / gammaincinv(freedom[..., :2, None], quantiles)[..., 1 - is_pareto, :]
    summed = np.maximum(summed, 1e-300)
    evidence = units * np.log(np.abs(rates)) - sign * summed + gammaln(freedom) - freedom * np.log(summed)
    density = -((shapes / SHAPE_SPREAD) ** 2) / 2 - np.log(SHAPE_SPREAD * np.sqrt(2 * np.pi)) + np.log(0.4)
    density[..., 0, :] = np.where(pareto, np.log(PARETO_ODDS * units), -np.inf)
    shapes = np.minimum(shapes, LARGEST_SHAPE)
    likely = (evidence[..., None] + density).reshape(*units.shape[:-1], -1)
    means = (shapes / (1 - shapes) / rates[..., None]).reshape(likely.shape)
    order = np.argsort(means, axis=-1, kind="stable")
    weights = np.exp(likely - likely.max(-1, keepdims=True))
    reach = np.cumsum(np.take_along_axis(weights, order, -1), axis=-1)
    quantile_sums = (np.cumsum(CHANCES) - CHANCES / 2) * reach[..., -1:]
    at = np.take_along_axis(order, (reach[..., None, :] < quantile_sums[..., None]).sum(-1), -1)
    return (
        np.take_along_axis(rates, at // len(quantiles), -1)[..., None],
        np.take_along_axis(shapes.reshape(likely.shape), at, -1)[..., None],
    )


def _tail_cells(
    rate: Floats, shape: Floats, units: Floats, *, cells: int = 16, beyond: float = 100.0
) -> tuple[Floats, Floats]:
    """Mean excess and units of the cells of a tail with so many units.

    The same number of cells for every slice, so that sums round the same way whatever other slices there are. Cells end at
    what one unit in so many tails (`beyond`) exceeds; what lies further out is one cell, at its mean.
    """
    exceeding = np.exp(-np.log(units * beyond) * (np.arange(cells) / (cells - 1)))
    exceeding = np.concatenate([exceeding, np.zeros_like(units)], axis=-1)
    share, rest = -np.diff(exceeding, axis=-1), 1 - shape
    return (-np.diff(exceeding**rest, axis=-1) / share / rest - 1) / rate, units * share + np.zeros_like(shape)


def heavy_tails(spectra: Spectra, *, heavy: float = 2.0, little: float = 0.08, most: float = 0.6) -> Any:
    """Slices whose tail is so heavy that intervals are too short and inequality is understated.

    An exponent below `heavy`, unless the heaviest unit makes only a `little` share of the variance of the Gini index; and
    every slice in which it makes `most` of it. Never an all-clear. How often it fires, and what intervals hold there, is
    measured (docs/inequality.md): rarely for gamma and lognormal 0.7, nearly always for lognormal 2 and Pareto 1.5.
    """
    is_heavy = np.zeros(len(spectra), dtype=bool)
    for chosen, batch in spectra.batches(1 << 17):
        share = largest_variance_share(batch)
        far = ((tail_exponents(batch) < heavy) & (share > little)) | (share > most)
        received = (batch.counts > 0) & (batch.values > 0)
        largest = np.where(received, batch.values, 0.0).max(-1, initial=0.0)
        smallest = np.where(received, batch.values, np.inf).min(-1, initial=np.inf)
        is_heavy[chosen] = far & (batch.units >= FEW_UNITS) & (largest > smallest)  # equal amounts have no tail
    return is_heavy


def largest_variance_share(s: Spectrum) -> Floats:
    """Largest share of the variance of the Gini index that a single unit makes."""
    gini = parse_metric("gini")
    influence = np.asarray(gini.linearised(s, gini.on(s)))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centred = influence - (s.sum_of(influence) / s.size)[..., None]
        squares = np.where(s.counts > 0, centred**2, 0.0)
        share = squares.max(-1, initial=0.0) / (s.counts * squares).sum(-1)
    return np.asarray(np.where(np.isfinite(share), share, 0.0))


def cautions(spectra: Spectra) -> list[str]:
    """Note code per slice: a heavy tail, few receivers, or none."""
    units, receivers = spectra.units, spectra.receivers
    # A sample with fewer than 50 receivers may well hold none of the few that receive most.
    few_receivers = (units >= FEW_UNITS) & (receivers < units) & (receivers < 50)
    heavy = heavy_tails(spectra)
    return ["heavy_tail" if h else "few_receivers" if f else "" for h, f in zip(heavy, few_receivers, strict=True)]
