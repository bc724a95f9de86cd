"""Heavy tails: how heavy they are, and populations to draw from whose tail goes on beyond the largest amount seen.

A bootstrap that only draws units that were seen never draws one larger than the largest, and under heavy tails that is
where inequality lies: its intervals are too short. So the top sqrt(n) units are drawn from a Pareto tail fitted to them
(Hill), all others as they are (Davidson and Flachaire 2007; Cowell and Flachaire 2007); and as so few units hardly say how
heavy their tail is, from several tails that they may have come from. All constants here were set by the coverage and width
of intervals in `benchmarks/coverage.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.cards import Floats, parse_metric
from evenhand.intervals.rules import FEW_UNITS, MIN_UNITS
from evenhand.metrics import inequality as _inequality  # noqa: F401  (declares the Gini index)
from evenhand.tallies.spectrum import Spectra, Spectrum

EXPONENTS = 9
"""Tails that are drawn from, as their exponent is not known better."""

LIGHT = 10.0
"""A tail with a larger exponent is as good as ended by the largest amount: units are drawn as they are."""


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


def likely_populations(s: Spectrum) -> Spectrum:
    """`EXPONENTS` populations (axis before the cells) whose top sqrt(n) units are a Pareto tail.

    So few units say little about the exponent of their tail. Given the data it is Hill's estimate times a gamma variable of
    mean 1 with as many degrees as the tail has units; each population has the exponent of one quantile of that. Counts of a
    tail are fractions: how many units each of its cells is expected to hold. Leading axes are slices. Units with weights are
    one population, as they are.

    >>> s = likely_populations(Spectrum.from_arrays(np.arange(1.0, 101.0) ** 2))
    >>> s.units.round(6).tolist() == [100.0] * EXPONENTS
    True
    >>> bool(s.values[0].max() > s.values[-1].max() >= 100**2)
    True
    """
    origin = s.spread_out()
    if s.weights is not None:
        return origin
    from scipy.special import gammaincinv

    hill, top = tail_exponents(s)[..., None], np.maximum(tail_units(s.units), 1)[..., None]
    likely = gammaincinv(top, (np.arange(EXPONENTS) + 0.5) / EXPONENTS) / top
    return with_tail(origin, np.where(np.isfinite(hill), hill * likely, LIGHT + 1))


def with_tail(s: Spectrum, exponent: Floats) -> Spectrum:
    """The population with a Pareto tail of this exponent; unchanged where the tail is light.

    Several exponents of one population make as many populations.
    """
    units = s.units[..., None]
    top = tail_units(units)
    as_is = (units < MIN_UNITS) | (exponent[..., None] > LIGHT)
    reach, bound = np.cumsum(s.counts, axis=-1), units - top
    last = s.values.shape[-1] - 1
    start = np.take_along_axis(s.values, np.minimum((reach < bound).sum(-1, keepdims=True), last), -1)
    below = np.clip(bound - (reach - s.counts), 0.0, s.counts)
    least = 1.1  # at an exponent of 1 the mean of a Pareto tail is infinite
    values, counts = _pareto_cells(start, np.clip(exponent[..., None], least, LIGHT), np.maximum(top, 1.0))
    all_values = [np.where(as_is, s.values, np.minimum(s.values, start)), np.where(as_is, s.values[..., -1:], values)]
    all_counts = [np.where(as_is, s.counts, below), np.where(as_is, 0.0, counts)]
    return Spectrum(np.concatenate(all_values, axis=-1), np.concatenate(all_counts, axis=-1))


def _pareto_cells(
    start: Floats, exponent: Floats, units: Floats, *, cells: int = 32, beyond: float = 100.0
) -> tuple[Floats, Floats]:
    """Means and counts of the cells of a Pareto tail from `start` with so many units.

    The same number of cells for every slice, so that sums round the same way whatever other slices there are. Cells end at
    what one unit in so many tails (`beyond`) exceeds; what lies further out is one cell, at its mean.
    """
    exceeding = np.exp(-np.log(units * beyond) * (np.arange(cells) / (cells - 1)))
    exceeding = np.concatenate([exceeding, np.zeros_like(units)], axis=-1)
    share, rest = -np.diff(exceeding, axis=-1), 1 - 1 / exponent
    return start / rest * -np.diff(exceeding**rest, axis=-1) / share, units * share


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
