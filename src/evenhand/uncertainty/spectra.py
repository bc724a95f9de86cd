"""Bootstrap over units, on their spectra: thousands of populations drawn from a few thousand cells."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from evenhand.cards import Ask, Floats
from evenhand.metrics.inequality import spread_of_mean
from evenhand.tallies.spectrum import Spectra, Spectrum
from evenhand.uncertainty.intervals import Estimates, Interval, normal_ends, percentile_ends, stream, studentised_ends

MOST_CELLS = 1 << 17
"""Cells (slices x draws x amounts) handled at a time: few enough to stay in cache."""

WIDE = 20_000
"""A spectrum with more distinct amounts is resampled on bins of relative width 2^-12; its estimate stays exact."""

HEAVY_TAIL = 3.0
"""Hill's tail exponent below which intervals are known to be too short (formula book F1.8); a warning, never an all-clear."""

FEWEST_FOR_TAIL = 50


def estimates(
    spectra: Spectra,
    asks: Sequence[Ask],
    interval: Interval,
    seed: int,
    labels: Sequence[tuple[Any, ...]],
) -> list[Estimates]:
    """Every metric on every slice, with its interval; one random stream per slice, shared by all metrics."""
    found = [Estimates.blank(len(spectra)) for _ in asks]
    for chosen, batch in spectra.batches(MOST_CELLS):
        for a, out in zip(asks, found, strict=True):
            out.estimate[chosen] = a.on(batch)
    if interval.kind == "none":
        return found
    reduced = Spectra.of([_drawable(spectra[i]) for i in range(len(spectra))]) if _any_wide(spectra) else spectra
    for chosen, batch in reduced.batches(max(1, MOST_CELLS // max(1, interval.draws))):
        _batch_intervals(chosen, batch, asks, interval, [stream(seed, *labels[i]) for i in chosen], found)
    return found


def is_wide(s: Spectrum) -> bool:
    """Whether draws run on bins."""
    return s.weights is None and s.values.shape[-1] > WIDE


def _any_wide(spectra: Spectra) -> bool:
    return spectra.weights is None and len(spectra) > 0 and int(np.diff(spectra.starts).max()) > WIDE


def _drawable(s: Spectrum) -> Spectrum:
    return s.binned() if is_wide(s) else s


def _batch_intervals(
    chosen: Any,
    batch: Spectrum,
    asks: Sequence[Ask],
    interval: Interval,
    streams: list[np.random.Generator],
    found: list[Estimates],
) -> None:
    centres = [a.on(batch) for a in asks]
    errors = [_errors(a, batch, c) for a, c in zip(asks, centres, strict=True)]
    draws, draw_errors = _draw(batch, asks, interval, streams) if interval.draws else ([], [])
    for i, (a, out) in enumerate(zip(asks, found, strict=True)):
        estimate, error = out.estimate[chosen], errors[i]
        if interval.kind == "normal":
            low, high = normal_ends(estimate, error, interval.level, a.span)
        else:
            out.undefined_draws[chosen] = np.isnan(draws[i]).sum(-1)
            low, high = percentile_ends(draws[i], interval.level)
            if interval.kind == "bootstrap" and a.card.studentised:
                t_low, t_high = studentised_ends(
                    estimate, error, draws[i], draw_errors[i], centres[i], interval.level, a.span
                )
                low, high = np.where(np.isnan(error), low, t_low), np.where(np.isnan(error), high, t_high)
        undefined = np.isnan(estimate)
        out.low[chosen] = np.where(undefined, np.nan, low)
        out.high[chosen] = np.where(undefined, np.nan, high)


def _errors(a: Ask, s: Spectrum, estimate: Floats) -> Floats:
    per_unit = a.linearised(s, estimate)
    if per_unit is None:
        return np.full(estimate.shape, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return spread_of_mean(s, per_unit)


def _draw(
    batch: Spectrum, asks: Sequence[Ask], interval: Interval, streams: list[np.random.Generator]
) -> tuple[list[Floats], list[Floats]]:
    """Values and errors of every metric on every draw, a bounded number of cells at a time.

    One thread draws the next populations while the other measures the last ones.
    """
    slices, cells = batch.counts.shape
    values = [np.full((slices, interval.draws), np.nan) for _ in asks]
    errors = [np.full((slices, interval.draws), np.nan) for _ in asks]
    at_once = max(1, MOST_CELLS // max(1, slices * cells))
    weights = None if batch.weights is None else batch.weights[:, None, :]

    def measure(start: int, counts: Floats) -> None:
        drawn = Spectrum(batch.values[:, None, :], counts, weights)
        here = slice(start, start + counts.shape[1])
        for i, a in enumerate(asks):
            values[i][:, here] = a.on(drawn)
            if interval.kind == "bootstrap" and a.card.studentised:
                errors[i][:, here] = _errors(a, drawn, values[i][:, here])

    sizes = batch.counts.sum(-1)
    shares = batch.counts / np.maximum(sizes, 1)[:, None]
    with ThreadPoolExecutor(1) as pool:
        pending = None
        for start in range(0, interval.draws, at_once):
            count = min(at_once, interval.draws - start)
            drawn = np.empty((slices, count, cells))
            for i, rng in enumerate(streams):
                drawn[i] = _populations(rng, round(sizes[i]), shares[i], count)
            if pending is not None:
                pending.result()
            pending = pool.submit(measure, start, drawn)
        if pending is not None:
            pending.result()
    return values, errors


def _populations(rng: np.random.Generator, size: int, shares: Floats, draws: int) -> Any:
    """Multinomial counts; empty cells are left out of the drawing so that padding never moves the stream."""
    held = shares > 0
    if held.all():
        return rng.multinomial(size, shares, draws)
    drawn = np.zeros((draws, len(shares)))
    if held.any():
        drawn[:, held] = rng.multinomial(size, shares[held], draws)
    return drawn


def tail_exponents(s: Spectrum) -> Floats:
    """Hill's estimate of the tail exponent from the top sqrt(n) units; infinite for small populations and flat tops."""
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
    return np.where((units >= FEWEST_FOR_TAIL) & ~np.isnan(exponent), exponent, np.inf)


def heavy_tails(spectra: Spectra) -> Any:
    """Which slices have a tail so heavy that their intervals are too short."""
    heavy = np.zeros(len(spectra), dtype=bool)
    for chosen, batch in spectra.batches(MOST_CELLS):
        heavy[chosen] = tail_exponents(batch) < HEAVY_TAIL
    return heavy
