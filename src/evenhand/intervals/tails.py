"""The largest amounts: how heavy their tail is, and populations to draw from in which it goes on beyond what was seen.

A bootstrap that only draws units that were seen never draws one larger than the largest, and under heavy tails that is
where inequality lies: its intervals are too short. So the top sqrt(n) units are drawn from a Pareto tail fitted to them
(Hill), all others as they are (Davidson and Flachaire 2007; Cowell and Flachaire 2007); and as so few units hardly say how
heavy their tail is, from several tails that they may have come from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.cards import Floats, parse_metric
from evenhand.intervals.rules import FEW, FEWEST
from evenhand.metrics import inequality as _inequality  # noqa: F401  (declares the Gini index)
from evenhand.tallies.spectrum import Spectra, Spectrum

LEAST_EXPONENT = 1.1
"""At an exponent of 1 the mean of a Pareto tail is infinite; no fitted tail is heavier than this."""

LIGHT = 10.0
"""A tail with a larger exponent is as good as ended by the largest amount: units are drawn as they are."""

TAIL_CELLS = 32
"""Cells of a fitted tail: the same for every slice, so that sums group the same way whatever other slices there are."""

EXPONENTS = 9
"""Tails that are drawn from, as their exponent is not known better."""

BEYOND = 100.0
"""The fitted tail is told apart up to what one unit in so many tails exceeds; what lies beyond is one cell, at its mean."""

HEAVY_TAIL = 2.0
"""Hill's exponent below which intervals are known to be too short, unless no unit weighs much; never an all-clear."""

WEIGHS, RULES = 0.08, 0.6
"""Share of the variance of the Gini index that its heaviest unit makes: below the first no tail counts as heavy, above the
second every one does."""

FEW_RECEIVERS = 50
"""Receivers among units without any below which a sample may well hold none of the few that receive most."""

MOST_CELLS = 1 << 17


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


def grown(s: Spectrum) -> Spectrum:
    """`EXPONENTS` populations (axis before the cells) whose top sqrt(n) units are a Pareto tail.

    So few units say little about the exponent of their tail. Given the data it is Hill's estimate times a gamma variable of
    mean 1 with as many degrees as the tail has units; each population has the exponent of one quantile of that. Counts of a
    tail are fractions: how many units each of its cells is expected to hold. Leading axes are slices. Units with weights are
    one population, as they are.

    >>> found = grown(Spectrum.from_arrays(np.arange(1.0, 101.0) ** 2))
    >>> found.units.round(6).tolist() == [100.0] * EXPONENTS
    True
    >>> bool(found.values[0].max() > found.values[-1].max() >= 100**2)
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
    as_is = (units < FEWEST) | (exponent[..., None] > LIGHT)
    reach, bound = np.cumsum(s.counts, axis=-1), units - top
    last = s.values.shape[-1] - 1
    start = np.take_along_axis(s.values, np.minimum((reach < bound).sum(-1, keepdims=True), last), -1)
    below = np.clip(bound - (reach - s.counts), 0.0, s.counts)
    values, counts = _pareto(start, np.clip(exponent[..., None], LEAST_EXPONENT, LIGHT), np.maximum(top, 1.0))
    return Spectrum(
        np.concatenate(
            [
                np.where(as_is, s.values, np.minimum(s.values, start)),
                np.where(as_is, s.values[..., -1:], values),
            ],
            axis=-1,
        ),
        np.concatenate([np.where(as_is, s.counts, below), np.where(as_is, 0.0, counts)], axis=-1),
    )


def _pareto(start: Floats, exponent: Floats, units: Floats) -> tuple[Floats, Floats]:
    """Means and counts of the cells of a Pareto tail from `start` with so many units."""
    beyond = np.exp(-np.log(units * BEYOND) * (np.arange(TAIL_CELLS) / (TAIL_CELLS - 1)))
    beyond = np.concatenate([beyond, np.zeros_like(units)], axis=-1)
    share, rest = -np.diff(beyond, axis=-1), 1 - 1 / exponent
    return start / rest * -np.diff(beyond**rest, axis=-1) / share, units * share


def heavy_tails(spectra: Spectra) -> Any:
    """Slices whose tail is so heavy that intervals are too short and inequality is understated.

    How often it fires, and what intervals hold there, is measured (docs/inequality.md): rarely for gamma and lognormal 0.7,
    nearly always for lognormal 2 and Pareto 1.5.
    """
    heavy = np.zeros(len(spectra), dtype=bool)
    for chosen, batch in spectra.batches(MOST_CELLS):
        weight = heaviest(batch)
        far = ((tail_exponents(batch) < HEAVY_TAIL) & (weight > WEIGHS)) | (weight > RULES)
        heavy[chosen] = far & (batch.units >= FEW)
    return heavy


def cautions(spectra: Spectra) -> list[str]:
    """Note code per slice: a heavy tail, few receivers, or none."""
    shorter, few = heavy_tails(spectra), few_receivers(spectra)
    return ["heavy_tail" if h else "few_receivers" if f else "" for h, f in zip(shorter, few, strict=True)]


def few_receivers(spectra: Spectra) -> Any:
    """Slices with units that received nothing and few that received anything."""
    units, receivers = spectra.units, spectra.receivers
    return (units >= FEW) & (receivers < units) & (receivers < FEW_RECEIVERS)


def heaviest(s: Spectrum) -> Floats:
    """Largest share of the variance of the Gini index that a single unit makes."""
    gini = parse_metric("gini")
    moves = gini.linearised(s, gini.on(s))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centred = np.asarray(moves) - (s.sum_of(np.asarray(moves)) / s.size)[..., None]
        squares = np.where(s.counts > 0, centred**2, 0.0)
        share = squares.max(-1, initial=0.0) / (s.counts * squares).sum(-1)
    return np.asarray(np.where(np.isfinite(share), share, 0.0))
