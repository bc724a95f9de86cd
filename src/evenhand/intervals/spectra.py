"""Intervals over units, from their spectra: by standard errors and likely tails, otherwise by thousands of draws."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from evenhand.cards import Floats, MetricSpec, parse_metric
from evenhand.intervals.kinds import (
    FEW_UNITS,
    MIN_UNITS,
    Estimates,
    Interval,
    mixture_ends,
    normal_ends,
    percentile_ends,
    wilson_ends,
)
from evenhand.labels import stream
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
    bound, reach = (units - top)[..., None], np.cumsum(s.counts, axis=-1)
    threshold = np.where(reach >= bound, s.values, np.inf).min(-1, initial=np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip(reach - bound, 0, s.counts)
        exponent = top / np.where(part > 0, part * np.log(s.values / threshold[..., None]), 0.0).sum(-1)
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


log = logging.getLogger("evenhand")

MOST_CELLS = 1 << 17
"""Cells (slices x populations x amounts) measured at a time: few enough to stay in cache."""

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

Target = tuple[MetricSpec, Estimates]
"""A metric, and its estimates that are being filled in."""


def estimates(
    spectra: Spectra,
    specs: Sequence[MetricSpec],
    interval: Interval,
    seed: int,
    labels: Sequence[tuple[Any, ...]],
) -> list[Estimates]:
    """Every metric on every slice, with its interval.

    What has a standard error is not drawn: its interval follows from that and from the populations that the units may come
    from. For all else populations are drawn; each slice has its own random stream, shared by all metrics.
    """
    targets: list[Target] = [(a, Estimates.blank(len(spectra))) for a in specs]
    for chosen, batch in spectra.batches(MOST_CELLS):
        for a, out in targets:
            out.estimate[chosen] = a.on(batch)
    results = [out for _, out in targets]
    if interval.kind == "none":
        return results
    fine = spectra.each(lambda s: s.gathered(FINE), spectra.wider(WIDE))
    units = spectra.units
    smooth = [(a, out) for a, out in targets if a.smooth and (interval.kind != "percentile" or a.card.share_of_units)]
    if smooth:
        reduced = fine.each(_coarse, fine.wider(MANY)) if interval.kind == "bootstrap" else fine
        for chosen, batch in reduced.batches(MOST_CELLS):
            _fill_linearised(chosen, batch, smooth, interval, units[chosen])
    if interval.kind == "normal":
        return results
    missing = [(a, out) for a, out in targets if (np.isnan(out.low) & ~np.isnan(out.estimate)).any()]
    lacks = np.isnan([out.low for _, out in missing]).any(0) if missing else np.zeros(len(spectra), bool)
    for some, cells, which in _spectra_to_draw(fine, missing, np.flatnonzero(lacks)):
        for chosen, batch in cells.batches(max(1, MOST_CELLS // interval.draws)):
            at = which[chosen]
            if len(spectra) > 1:
                log.info(
                    "drawing %s times: slice %s of %s", f"{interval.draws:,}", f"{at[0] + 1:,}", f"{len(spectra):,}"
                )
            rngs = [stream(seed, *labels[i]) for i in at]
            streams = [(rng, rng.spawn(1)[0]) for rng in rngs]
            _fill_drawn(at, batch, some, interval, streams, units[at])
    return results


def _fill_linearised(
    chosen: Ints, batch: Spectrum, targets: Sequence[Target], interval: Interval, units: Floats
) -> None:
    """Write interval ends of metrics with a standard error; NaN where it is zero.

    How the tail goes on makes one part of the error, the other units the rest; never shorter than Student's t for all units.
    """
    level, tails = interval.level, interval.kind == "bootstrap"
    populations, chances = likely_populations(batch) if tails else (batch, np.ones(1))
    for a, out in targets:
        estimate = out.estimate[chosen]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            value = a.on(batch)
            per_unit = np.asarray(a.linearised(batch, value))
            error = spread_of_mean(batch, per_unit)
            low, high = normal_ends(estimate, error, level, a.span, units)
            if a.card.share_of_units:
                # With weights: as many units of equal weight as would say as much.
                equal = units if batch.weights is None else batch.size**2 / batch.sum_of(batch.weights)
                low, high = wilson_ends(estimate, equal, level)
            elif tails:
                possible = a.on(populations) + (estimate - value)[..., None]  # what bins lack of the estimate
                ends = mixture_ends(
                    estimate, spread_given_tail(batch, per_unit), possible, chances, level, a.span, units
                )
                low, high = np.fmin(low, ends[0]), np.fmax(high, ends[1])
        defined = ~np.isnan(estimate) & ((error > 0) | a.card.share_of_units)
        out.low[chosen], out.high[chosen] = (np.where(defined, end, np.nan) for end in (low, high))


def _spectra_to_draw(fine: Spectra, targets: list[Target], which: Ints) -> Iterator[tuple[list[Target], Spectra, Ints]]:
    """Metrics, the spectra that their draws are taken from, and the numbers of these slices.

    Sums over units and points of a curve need few cells; metrics that read amounts at a few places need all cells near these, and
    few elsewhere; all others that read single amounts off a slice get every cell.
    """
    many = fine.wider(MANY)[which]
    narrow, which = which[~many], which[many]
    if len(narrow):
        yield targets, fine.only(np.isin(np.arange(len(fine)), narrow)), narrow
    if not len(which):
        return
    wide = fine.only(np.isin(np.arange(len(fine)), which))
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


def _fill_drawn(
    chosen: Ints,
    batch: Spectrum,
    targets: Sequence[Target],
    interval: Interval,
    streams: Sequence[Streams],
    units: Floats,
) -> None:
    """Write percentiles of the draws of the slices `chosen` where there is no interval yet."""
    for (a, out), draws in zip(targets, _draws(batch, [a for a, _ in targets], interval.draws, streams), strict=True):
        estimate = out.estimate[chosen]
        with np.errstate(invalid="ignore"):  # what the bins that were drawn from lack of the estimate
            lack = np.nan_to_num(estimate - a.on(batch), nan=0.0, posinf=0.0, neginf=0.0)
        low, high = (end + lack for end in percentile_ends(draws, interval.level, units))
        if not a.card.studentised:
            low, high = _snap_to_span(low, high, units, a.span)
        lacks = np.isnan(out.low[chosen]) & ~np.isnan(estimate)
        at = chosen[lacks]
        out.low[at], out.high[at] = np.clip(low[lacks], *a.span), np.clip(high[lacks], *a.span)
        out.undefined_draws[at] = np.isnan(draws[lacks]).sum(-1)


def _snap_to_span(low: Floats, high: Floats, units: Floats, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Ends of a share of units: one within a unit of the span's end is moved to that end."""
    near = np.where(high > low, 1 / np.maximum(units, 1), 0.0)  # where nothing varies there is nothing to widen
    return np.where(low - span[0] < near, span[0], low), np.where(span[1] - high < near, span[1], high)


def _draws(batch: Spectrum, specs: Sequence[MetricSpec], draws: int, streams: Sequence[Streams]) -> list[Floats]:
    """Per metric, (slices, draws) values."""
    origin = batch.spread_out()
    slices, _, cells = origin.counts.shape
    values = [np.full((slices, draws), np.nan) for _ in specs]
    at_once = max(1, MOST_CELLS // max(1, slices * cells))
    sizes = batch.counts.sum(-1)
    shares = batch.counts / np.maximum(sizes, 1)[..., None]
    for start in range(0, draws, at_once):
        at = slice(start, min(start + at_once, draws))
        drawn = [
            draw_populations(rngs, round(n), p, at.stop - start)
            for rngs, n, p in zip(streams, sizes, shares, strict=True)
        ]
        spectrum = Spectrum(origin.values, np.stack(drawn).astype(np.float64), origin.weights)
        for a, value in zip(specs, values, strict=True):
            value[:, at] = a.on(spectrum)
    return values


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
