"""The largest amounts: how heavy their tail is, and populations to draw from in which it goes on beyond what was seen.

A bootstrap that only draws units that were seen never draws one larger than the largest, and under heavy tails that is
where inequality lies: its intervals are too short. So the top sqrt(n) units are drawn from a Pareto tail fitted to them
(Hill), all others as they are (Davidson and Flachaire 2007; Cowell and Flachaire 2007).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.cards import Floats, ask
from evenhand.metrics import inequality as _inequality  # noqa: F401  (declares the Gini index)
from evenhand.tallies.spectrum import Spectra, Spectrum
from evenhand.uncertainty.rules import FEW, FEWEST

LEAST_EXPONENT = 1.1
"""At an exponent of 1 the mean of a Pareto tail is infinite; no fitted tail is heavier than this."""

LIGHT = 10.0
"""A tail with a larger exponent is as good as ended by the largest amount: units are drawn as they are."""

STEP = 0.2
"""Width of the cells of a fitted tail, in logarithms of the share of the tail beyond."""

BEYOND = 100.0
"""The fitted tail is told apart up to what one unit in so many tails exceeds; what lies beyond is one cell, at its mean."""

HEAVY_TAIL = 2.0
"""Hill's exponent below which intervals are known to be too short, unless no unit weighs much; never an all-clear."""

WEIGHS, RULES = 0.08, 0.6
"""Share of the variance of the Gini index that its heaviest unit makes: below the first no tail counts as heavy, above the
second every one does."""

MOST_CELLS = 1 << 17


def tail_exponents(s: Spectrum) -> Floats:
    """Hill's estimate of the tail exponent from the top sqrt(n) units; infinite where the top is flat or the edge is zero."""
    units = s.units
    top = np.floor(np.sqrt(units))
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


def with_tail(s: Spectrum) -> Spectrum:
    """The population to draw from: the top sqrt(n) units as a fitted Pareto tail, the others as they are.

    Counts of the tail are fractions: how many units each of its cells is expected to hold.

    >>> grown = with_tail(Spectrum.of(np.arange(1.0, 101.0) ** 2))
    >>> round(float(grown.units), 6), bool(grown.values.max() > 100**2)
    (100.0, True)
    """
    units = float(s.units)
    if s.weights is not None or units < FEWEST:
        return s
    exponent = max(float(tail_exponents(s)), LEAST_EXPONENT)
    if exponent > LIGHT:
        return s
    top = float(np.floor(np.sqrt(units)))
    reach = np.cumsum(s.counts)
    edge = int(np.searchsorted(reach, units - top))
    below = s.counts[: edge + 1].copy()
    below[-1] -= reach[edge] - (units - top)
    values, counts = _pareto(float(s.values[edge]), exponent, top)
    return Spectrum(np.concatenate([s.values[: edge + 1], values]), np.concatenate([below, counts]))


def _pareto(start: float, exponent: float, units: float) -> tuple[Floats, Floats]:
    """Cells of a Pareto tail from `start`, that hold so many units in all: their means, and how many each holds."""
    steps = int(np.ceil(np.log(units * BEYOND) / STEP))
    beyond = np.append(np.exp(-STEP * np.arange(steps + 1)), 0.0)
    share, rest = -np.diff(beyond), 1 - 1 / exponent
    return start / rest * -np.diff(beyond**rest) / share, units * share


def with_tails(spectra: Spectra) -> Spectra:
    """The same for every slice."""
    return Spectra.of([with_tail(spectra[i]) for i in range(len(spectra))])


def heavy_tails(spectra: Spectra) -> Any:
    """Which slices have a tail so heavy that their intervals are too short, and inequality is understated.

    How often it fires, and what intervals hold there, is measured (docs/inequality.md): rarely for gamma and lognormal 0.7,
    nearly always for lognormal 2 and Pareto 1.5.
    """
    heavy = np.zeros(len(spectra), dtype=bool)
    for chosen, batch in spectra.batches(MOST_CELLS):
        weight = heaviest(batch)
        far = ((tail_exponents(batch) < HEAVY_TAIL) & (weight > WEIGHS)) | (weight > RULES)
        heavy[chosen] = far & (batch.units >= FEW)
    return heavy


def heaviest(s: Spectrum) -> Floats:
    """Share of the variance of the Gini index that one unit makes, the one that makes most of it."""
    gini = ask("gini")
    moves = gini.linearised(s, gini.on(s))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centred = np.asarray(moves) - (s.sum_of(np.asarray(moves)) / s.size)[..., None]
        squares = np.where(s.counts > 0, centred**2, 0.0)
        found = squares.max(-1, initial=0.0) / (s.counts * squares).sum(-1)
    return np.asarray(np.where(np.isfinite(found), found, 0.0))
