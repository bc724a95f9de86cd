"""Bootstrap over units, on their spectra: thousands of populations drawn from a few thousand cells."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import Estimates, Interval, normal_ends, percentile_ends, studentised_ends
from evenhand.intervals.tails import likely_populations, tail_units
from evenhand.metrics.inequality import spread_of_mean
from evenhand.streams import stream
from evenhand.tallies.spectrum import Spectra, Spectrum

log = logging.getLogger("evenhand")

MOST_CELLS = 1 << 17
"""Cells (slices x draws x amounts) measured at a time: few enough to stay in cache."""

WIDE, FINE = 20_000, 1 << 13
"""A spectrum with more distinct amounts is reduced to `FINE` parts before single amounts, or standard errors, are read off it."""

MANY, COARSE = 1 << 9, 96
"""A spectrum with more distinct amounts is drawn in `COARSE` parts (some 400 bins) for metrics that are sums over units or
points of a curve: standard errors are off by 1e-4 (points of the curve: 1e-2), and 999 draws know them to 2e-2."""

OFTEN = 20
"""A cell that more units of a draw are expected in is drawn at once; units of the others are drawn one by one."""

Ints = np.typing.NDArray[np.int64]

Streams = tuple[np.random.Generator, np.random.Generator]
"""Random numbers of a slice: for cells, and for single units."""

Target = tuple[MetricSpec, Estimates, Floats]
"""A metric, its estimates that are being filled in, and its standard error in every slice."""


def estimates(
    spectra: Spectra,
    specs: Sequence[MetricSpec],
    interval: Interval,
    seed: int,
    labels: Sequence[tuple[Any, ...]],
) -> list[Estimates]:
    """Every metric on every slice, with its interval.

    Each slice has its own random stream, shared by all metrics.
    """
    targets: list[Target] = [(a, Estimates.blank(len(spectra)), np.full(len(spectra), np.nan)) for a in specs]
    needs_error = [interval.kind == "normal" or (interval.kind == "bootstrap" and a.card.studentised) for a in specs]
    wide = spectra.wider(WIDE)
    for chosen, batch in spectra.batches(MOST_CELLS):
        for (a, out, error), reads_error in zip(targets, needs_error, strict=True):
            out.estimate[chosen] = a.on(batch)
            if reads_error and not wide.any():
                error[chosen] = _standard_errors(a, batch, out.estimate[chosen])
    results = [out for _, out, _ in targets]
    if interval.kind == "none":
        return results
    fine = spectra.each(lambda s: s.gathered(FINE), wide)
    for chosen, batch in fine.batches(MOST_CELLS) if wide.any() else ():
        for (a, _, error), reads_error in zip(targets, needs_error, strict=True):
            if reads_error:
                error[chosen] = _standard_errors(a, batch, a.on(batch))
    units = spectra.units
    if interval.kind == "normal":
        for a, out, error in targets:
            out.low[:], out.high[:] = normal_ends(out.estimate, error, interval.level, a.span, units)
        return results
    for some, reduced, which in _spectra_to_draw(fine, targets):
        for chosen, batch in reduced.batches(max(1, MOST_CELLS // interval.draws)):
            at = which[chosen]
            if len(spectra) > 1:
                log.info(
                    "drawing %s times: slice %s of %s", f"{interval.draws:,}", f"{at[0] + 1:,}", f"{len(spectra):,}"
                )
            rngs = [stream(seed, *labels[i]) for i in at]
            streams = [(rng, rng.spawn(1)[0]) for rng in rngs]
            _fill_intervals(at, batch, some, interval, streams, units[at])
    return results


def _spectra_to_draw(fine: Spectra, targets: list[Target]) -> Iterator[tuple[list[Target], Spectra, Ints]]:
    """Metrics, the spectra that their draws are taken from, and the numbers of these slices.

    Sums over units and points of a curve need few cells; metrics that read amounts at a few places need all cells near these, and
    few elsewhere; all others that read single amounts off a slice get every cell.
    """
    many = fine.wider(MANY)
    if not many.all():
        yield targets, fine.only(~many), np.flatnonzero(~many)
    if not many.any():
        return
    wide, which = fine.only(many), np.flatnonzero(many)
    smooth = [target for target in targets if target[0].smooth]
    rest = [target for target in targets if not target[0].smooth and not target[0].quantiles]
    if rest:
        yield rest, wide, which
    for some in (smooth, *([target] for target in targets if not target[0].smooth and target[0].quantiles)):
        if some:
            bin_cells = partial(_coarse, places=some[0][0].quantiles, neighbours=some[0][0].neighbours)
            yield some, wide.each(bin_cells), which


def _coarse(s: Spectrum, places: Sequence[float] = (), neighbours: int = 1) -> Spectrum:
    """Few cells that have nearly the same draws; the tail begins where it does in all of them.

    How many units of a draw come from a cell or from all cells of a bin has the same law. So a percentile has it too while it
    falls where cells are kept: how many units are below it varies by a standard deviation, and nobody sees eight of these and
    32 units more.
    """
    units = float(s.units)
    around = [(p * units, 8 * math.sqrt(units * p * (1 - p)) + 32 + 2 * neighbours) for p in places]
    near = [(rank - far, rank + far) for rank, far in around]
    return s.gathered(COARSE, separate_rank=float(units - tail_units(s.units)), near=near)


def _fill_intervals(
    chosen: Ints,
    batch: Spectrum,
    targets: Sequence[Target],
    interval: Interval,
    streams: Sequence[Streams],
    units: Floats,
) -> None:
    """Write interval ends of the slices `chosen`; metrics with the same method share a pass."""
    all_draws, all_errors, all_centres = _draws(batch, [a for a, _, _ in targets], interval, streams)
    methods = [(a.card.studentised, a.span) for a, _, _ in targets]
    for method in dict.fromkeys(methods):
        studentised, span = method
        at = [i for i, other in enumerate(methods) if other == method]
        draws, draw_errors, centres = (np.stack([x[i] for i in at]) for x in (all_draws, all_errors, all_centres))
        estimate = np.stack([targets[i][1].estimate[chosen] for i in at])
        error = np.stack([targets[i][2][chosen] for i in at])
        rough = np.ones(estimate.shape, bool)
        low, high = np.full((2, *estimate.shape), np.nan)
        if studentised and interval.kind == "bootstrap":
            rough = ~(error > 0) | (estimate == span[0]) | (estimate == span[1])
            low, high = studentised_ends(estimate, error, draws, draw_errors, centres, interval.level, span)
            # Errors of draws of few units are rough to divide by: never shorter than Student's t.
            least_low, least_high = normal_ends(estimate, error, interval.level, span, units)
            low, high = np.fmin(low, least_low), np.fmax(high, least_high)
        if rough.any():
            with np.errstate(invalid="ignore"):  # what the bins that were drawn from lack of the estimate
                lack = estimate - np.stack([targets[i][0].on(batch) for i in at])
            lack = np.nan_to_num(lack, nan=0.0, posinf=0.0, neginf=0.0)
            least, most = (end + lack for end in percentile_ends(draws, interval.level, units))
            if not studentised:
                least, most = _snap_to_span(least, most, units, span)
            low, high = np.where(rough, least, low), np.where(rough, most, high)
        undefined, undefined_draws = np.isnan(estimate), np.isnan(draws).sum(-1)
        low, high = (np.where(undefined, np.nan, np.clip(end, *span)) for end in (low, high))
        for k, i in enumerate(at):
            out = targets[i][1]
            out.low[chosen], out.high[chosen], out.undefined_draws[chosen] = low[k], high[k], undefined_draws[k]


def _snap_to_span(low: Floats, high: Floats, units: Floats, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Ends of a share of units: one within a unit of the span's end is moved to that end."""
    near = np.where(high > low, 1 / np.maximum(units, 1), 0.0)  # where nothing varies there is nothing to widen
    return np.where(low - span[0] < near, span[0], low), np.where(span[1] - high < near, span[1], high)


def _standard_errors(a: MetricSpec, s: Spectrum, estimate: Floats) -> Floats:
    per_unit = a.linearised(s, estimate)
    if per_unit is None:
        return np.full(estimate.shape, np.nan)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return spread_of_mean(s, per_unit)


def _draws(
    batch: Spectrum, specs: Sequence[MetricSpec], interval: Interval, streams: Sequence[Streams]
) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Per metric, (slices, draws) values, standard errors, and values of the population.

    Populations of a slice (their tails differ) are drawn in turn, each for its part of the draws.
    """
    studentised = interval.kind == "bootstrap"
    origins = likely_populations(batch) if studentised else batch.spread_out()
    slices, populations, cells = origins.counts.shape
    values, errors, centres = ([np.full((slices, interval.draws), np.nan) for _ in specs] for _ in range(3))
    at_once = max(1, MOST_CELLS // max(1, slices * cells))
    for which, part in enumerate(np.array_split(np.arange(interval.draws), populations)):
        origin = origins.among(which, which + 1)
        sizes = origin.counts.sum(-1)
        shares = (origin.counts / np.maximum(sizes, 1)[..., None])[:, 0]
        for i, a in enumerate(specs):
            centres[i][:, part] = a.on(origin)
        for start in range(0, len(part), at_once):
            at = part[start : start + at_once]
            drawn = [
                draw_populations(rngs, round(n), p, len(at))
                for rngs, n, p in zip(streams, sizes[:, 0], shares, strict=True)
            ]
            spectrum = Spectrum(origin.values, np.stack(drawn).astype(np.float64), origin.weights)
            for i, a in enumerate(specs):
                values[i][:, at] = a.on(spectrum)
                if studentised and a.card.studentised:
                    errors[i][:, at] = _standard_errors(a, spectrum, values[i][:, at])
    return values, errors, centres


def draw_populations(streams: Streams, size: int, shares: Floats, draws: int) -> Ints:
    """(draws, cells) multinomial counts; empty cells (padding) never move the streams."""
    often = size * shares > OFTEN
    rare, left = np.flatnonzero((shares > 0) & ~often), np.full(draws, size)
    if len(rare) == len(shares):
        return _draw_units(streams[1], left, shares)
    counts = np.zeros((draws, len(shares)), dtype=np.int64)
    if often.any():
        chances = np.append(shares[often], shares[rare].sum()) if len(rare) else shares[often]
        drawn = streams[0].multinomial(size, chances / chances.sum(), draws)
        counts[:, often], left = drawn[:, : np.count_nonzero(often)], drawn[:, -1]
    if len(rare):
        counts[:, rare] = _draw_units(streams[1], left, shares[rare])
    return counts


def _draw_units(rng: np.random.Generator, sizes: Ints, shares: Floats) -> Ints:
    """(draws, cells) counts of populations of these sizes; faster where cells have few units.

    A unit is a number of 32 bits. A lookup table by its first bits gives the cell, unless a cell ends among the numbers that
    begin with these. Each population begins with a new word of 64 bits, so that it is the same however many are drawn at a time.
    """
    cells = len(shares)
    ends = np.cumsum(shares)
    ends = np.rint(ends / ends[-1] * 2.0**32).astype(np.int64)
    bits = min(32, (64 * cells).bit_length())
    rest = 32 - bits
    table = np.repeat(
        np.arange(cells + 1, dtype=np.min_scalar_type(cells)),
        np.diff(-(-ends >> rest), prepend=0, append=1 << bits),
    )
    table[ends[(ends & ((1 << rest) - 1)) > 0] >> rest] = cells
    at_once = max(1, (1 << 15) // max(1, int(sizes.max(initial=0))))  # few enough to stay in cache
    counts = np.empty((len(sizes), cells), dtype=np.int64)
    for start in range(0, len(sizes), at_once):
        some = sizes[start : start + at_once]
        words = (some + 1) // 2
        drawn = rng.bit_generator.random_raw(int(words.sum())).view(np.uint32)
        cell = table.take(drawn >> rest)
        unclear = np.flatnonzero(cell == cells)
        cell[unclear] = np.searchsorted(ends, drawn.take(unclear), side="right")
        flat = np.repeat(np.arange(0, len(some) * cells, cells), 2 * words)
        flat += cell
        unused = (np.cumsum(2 * words) - 1)[some % 2 > 0]  # the second half of a word that had one unit to draw
        flat[unused] = len(some) * cells
        tallied = np.bincount(flat, minlength=len(some) * cells)[: len(some) * cells]
        counts[start : start + at_once] = tallied.reshape(-1, cells)
    return counts
