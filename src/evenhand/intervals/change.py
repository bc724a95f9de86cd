"""Intervals of the parts of a change: units are drawn with the amounts of both occasions, every world is measured on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import centred_ends, normal_ends, studentised_ends
from evenhand.intervals.parts import studentised_p
from evenhand.intervals.rules import ANYTHING, MIN_UNITS, ROUNDING
from evenhand.metrics.inequality import spread_of_mean
from evenhand.tallies.paired_amounts import Side, side_of
from evenhand.tallies.spectrum import Spectrum

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
        spread = np.nanstd(draws, axis=-1)
        return Measured(estimate, low, high, studentised_p(estimate, spread, draws, spread[:, None], size), undefined)
    low, high = studentised_ends(estimate, error, draws, draw_errors, estimate[:, None], level, ANYTHING)
    p = studentised_p(estimate, error, draws, draw_errors, size)
    return Measured(estimate, np.fmin(low, least[0]), np.fmax(high, least[1]), p, undefined)
