"""Bootstrap over units, on their spectra: thousands of populations drawn from a few thousand cells."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import Estimates, Interval, normal_ends, percentile_ends, stream, studentised_ends
from evenhand.intervals.tails import grown, tail_units
from evenhand.metrics.inequality import spread_of_mean
from evenhand.tallies.spectrum import Spectra, Spectrum

log = logging.getLogger("evenhand")

MOST_CELLS = 1 << 17
"""Cells (slices x draws x amounts) handled at a time: few enough to stay in cache."""

WIDE = 20_000
"""A spectrum with more distinct amounts is reduced to `FINE` parts before single amounts, or errors, are read off it."""

FINE = 1 << 13

MANY = 1 << 9
"""A spectrum with more distinct amounts is drawn in `COARSE` parts for metrics that are sums over units or points of a curve."""

COARSE = 96
"""Some 400 bins: their standard errors are off by 1e-4 (points of the curve: 1e-2), and 999 draws know them to 2e-2."""

OFTEN = 20
"""A cell that more units of a draw are expected in is drawn at once; units of the others are drawn one by one."""

CLOSE = 1 << 15
"""Units drawn at a time: few enough to stay in cache."""


def estimates(
    spectra: Spectra,
    asks: Sequence[MetricSpec],
    interval: Interval,
    seed: int,
    labels: Sequence[tuple[Any, ...]],
) -> list[Estimates]:
    """Every metric on every slice, with its interval; one random stream per slice, shared by all metrics."""
    found = [Estimates.blank(len(spectra)) for _ in asks]
    errors = [np.full(len(spectra), np.nan) for _ in asks]
    wide = spectra.wider(WIDE)
    for chosen, batch in spectra.batches(MOST_CELLS):
        for a, out, error in zip(asks, found, errors, strict=True):
            out.estimate[chosen] = a.on(batch)
            if _reads_error(a, interval) and not wide.any():
                error[chosen] = _errors(a, batch, out.estimate[chosen])
    if interval.kind == "none":
        return found
    fine = spectra.each(lambda s: s.gathered(FINE), wide)
    for chosen, batch in fine.batches(MOST_CELLS) if wide.any() else ():
        for a, error in zip(asks, errors, strict=True):
            if _reads_error(a, interval):
                error[chosen] = _errors(a, batch, a.on(batch))
    units = spectra.units
    if interval.kind == "normal":
        for a, out, error in zip(asks, found, errors, strict=True):
            out.low[:], out.high[:] = normal_ends(out.estimate, error, interval.level, a.span, units)
        return found
    every = list(zip(asks, found, errors, strict=True))
    for some, drawn, which in _drawn(fine, every, interval):
        for chosen, batch in drawn.batches(max(1, MOST_CELLS // interval.draws)):
            at = which[chosen]
            if len(spectra) > 1:
                log.info(
                    "drawing %s times: slice %s of %s", f"{interval.draws:,}", f"{at[0] + 1:,}", f"{len(spectra):,}"
                )
            _batch_intervals(at, batch, some, interval, [streams_of(stream(seed, *labels[i])) for i in at], units[at])
    return found


Ints = np.typing.NDArray[np.int64]

Streams = tuple[np.random.Generator, np.random.Generator]
"""Random numbers of a slice: for cells, and for single units."""


def streams_of(cells: np.random.Generator) -> Streams:
    return cells, cells.spawn(1)[0]


Asked = tuple[MetricSpec, Estimates, Floats]
"""A metric, what is found of it, and its error in every slice."""


def _drawn(fine: Spectra, every: list[Asked], interval: Interval) -> Iterator[tuple[list[Asked], Spectra, Any]]:
    """What to draw from for which metrics, and the numbers of its slices.

    Sums over units and points of a curve need few cells; what reads amounts at a few places needs all cells near these, and
    few elsewhere; what else reads single amounts off a slice sees all that are kept.
    """
    many = fine.wider(MANY)
    smooth = [one for one in every if one[0].smooth]
    placed = [one for one in every if not one[0].smooth and one[0].places]
    rest = [one for one in every if not one[0].smooth and not one[0].places]
    for some, which in ((every, ~many), (rest, many)):
        if some and which.any():
            yield some, fine.only(which), np.flatnonzero(which)
    for some in (smooth, *([one] for one in placed)) if many.any() else ():
        if some:
            read = partial(_coarse, places=some[0][0].places, neighbours=some[0][0].neighbours)
            yield some, fine.only(many).each(read), np.flatnonzero(many)


def _coarse(s: Spectrum, places: Sequence[float] = (), neighbours: int = 1) -> Spectrum:
    """Few cells that have nearly the same draws; the tail begins where it does in all of them.

    How many units of a draw come from a cell or from all cells of a bin has the same law. So a percentile has it too while it
    falls where cells are kept: how many units are below it varies by a standard deviation, and nobody sees eight of these and
    32 units more.
    """
    units = float(s.units)
    around = [(p * units, 8 * math.sqrt(units * p * (1 - p)) + 32 + 2 * neighbours) for p in places]
    near = [(rank - far, rank + far) for rank, far in around]
    return s.gathered(COARSE, apart=float(units - tail_units(s.units)), near=near)


def _batch_intervals(
    chosen: Any,
    batch: Spectrum,
    asked: Sequence[Asked],
    interval: Interval,
    streams: Sequence[Streams],
    units: Floats,
) -> None:
    """Ends for the slices of a batch, whose numbers are `chosen`; of metrics that get them in the same way, together."""
    drawn = _draws(batch, [a for a, _, _ in asked], interval, streams)
    ways = [(a.card.studentised, a.span) for a, _, _ in asked]
    for way in dict.fromkeys(ways):
        at = [i for i, own in enumerate(ways) if own == way]
        draws, draw_errors, centres = (np.stack([one[i] for i in at]) for one in drawn)
        estimate = np.stack([asked[i][1].estimate[chosen] for i in at])
        error = np.stack([asked[i][2][chosen] for i in at])
        own, span = way
        rough = np.ones(estimate.shape, bool)
        low, high = np.full((2, *estimate.shape), np.nan)
        if own and interval.kind == "bootstrap":
            rough = ~(error > 0) | (estimate == span[0]) | (estimate == span[1])
            low, high = studentised_ends(estimate, error, draws, draw_errors, centres, interval.level, span)
            # Errors of draws of few units are rough to divide by: never shorter than Student's t.
            least_low, least_high = normal_ends(estimate, error, interval.level, span, units)
            low, high = np.fmin(low, least_low), np.fmax(high, least_high)
        if rough.any():
            off = _off(estimate, np.stack([asked[i][0].on(batch) for i in at]))
            least, most = (end + off for end in percentile_ends(draws, interval.level, units))
            if not own:
                least, most = _to_a_unit(least, most, units, span)
            low, high = np.where(rough, least, low), np.where(rough, most, high)
        undefined, lost = np.isnan(estimate), np.isnan(draws).sum(-1)
        low, high = (np.where(undefined, np.nan, np.clip(end, *span)) for end in (low, high))
        for i, least, most, many in zip(at, low, high, lost, strict=True):
            _, out, _ = asked[i]
            out.low[chosen], out.high[chosen], out.undefined_draws[chosen] = least, most, many


def _off(estimate: Floats, drawn: Floats) -> Floats:
    """What the bins that were drawn from lack of the estimate."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(estimate - drawn, nan=0.0, posinf=0.0, neginf=0.0)


def _to_a_unit(low: Floats, high: Floats, units: Floats, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Ends of a share of the units that is read off the curve: one within the last unit may lie anywhere up to the end."""
    near = np.where(high > low, 1 / np.maximum(units, 1), 0.0)  # where nothing varies there is nothing to widen
    return np.where(low - span[0] < near, span[0], low), np.where(span[1] - high < near, span[1], high)


def _reads_error(a: MetricSpec, interval: Interval) -> bool:
    """Whether the interval of a metric rests on its linearised error."""
    return interval.kind == "normal" or (interval.kind == "bootstrap" and a.card.studentised)


def _errors(a: MetricSpec, s: Spectrum, estimate: Floats) -> Floats:
    per_unit = a.moves(s, estimate)
    if per_unit is None:
        return np.full(estimate.shape, np.nan)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return spread_of_mean(s, per_unit)


def _draws(
    batch: Spectrum, asks: Sequence[MetricSpec], interval: Interval, streams: Sequence[Streams]
) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Every metric on draws of what the slices may be samples of: values, errors, and what the population drawn from has."""
    populations = grown(batch) if interval.kind == "bootstrap" else batch.spread_out()
    kinds = populations.counts.shape[1]
    many = [len(part) for part in np.array_split(np.arange(interval.draws), kinds)]
    found = [
        _draw(some, asks, draws, streams, errors_too=interval.kind == "bootstrap")
        for some, draws in _lots(populations, many)
    ]
    values, errors, centres = (
        [np.concatenate(parts, axis=1) for parts in zip(*kind, strict=True)] for kind in zip(*found, strict=True)
    )
    return values, errors, centres


def _lots(populations: Spectrum, many: Sequence[int]) -> Iterator[tuple[Spectrum, int]]:
    """Neighbouring populations of which as many draws are wanted, as few cells at a time as stay close; and how many draws.

    Several are few enough to be drawn at once, so that the stream runs the same way whatever fits.
    """
    slices, kinds, cells = populations.counts.shape
    start = 0
    while start < kinds:
        most = max(1, MOST_CELLS // max(1, slices * cells * (1 + many[start])))
        stop = start + 1
        while stop < min(kinds, start + most) and many[stop] == many[start]:
            stop += 1
        yield populations.among(start, stop), many[start]
        start = stop


def _draw(
    batch: Spectrum, asks: Sequence[MetricSpec], draws: int, streams: Sequence[Streams], *, errors_too: bool
) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Every metric on so many draws of each population, a bounded number of cells at a time: values, errors, and its value there.

    One thread draws the next counts while the other measures the last ones. The population itself is measured first.
    """
    slices, kinds, cells = batch.counts.shape
    shape = (slices, kinds, 1 + draws)
    values, errors = ([np.full(shape, np.nan) for _ in asks] for _ in range(2))
    at_once = max(1, MOST_CELLS // max(1, slices * kinds * cells))
    held = batch.spread_out()

    def measure(start: int, counts: Floats) -> None:
        drawn = Spectrum(held.values, counts, held.weights)
        here = slice(start, start + counts.shape[2])
        for i, a in enumerate(asks):
            values[i][..., here] = a.on(drawn)
            if errors_too and a.card.studentised:
                errors[i][..., here] = _errors(a, drawn, values[i][..., here])

    sizes = batch.counts.sum(-1)
    shares = batch.counts / np.maximum(sizes, 1)[..., None]

    def counted(start: int, stop: int) -> Floats:
        own = int(start == 0)
        counts, many = np.empty((slices, kinds, stop - start, cells)), stop - start - own
        counts[:, :, :own] = held.counts
        for i in range(slices):
            changes = np.flatnonzero((shares[i, 1:] != shares[i, :-1]).any(-1)) + 1
            for first, last in pairwise([0, *changes.tolist(), kinds]):  # those that differ in amounts alone
                found = populations(streams[i], round(sizes[i, first]), shares[i, first], (last - first) * many)
                counts[i, first:last, own:] = found.reshape(last - first, many, cells)
        return counts

    if draws < at_once:  # a thread would take longer to start
        measure(0, counted(0, 1 + draws))
    else:
        with ThreadPoolExecutor(1) as pool:
            pending = None
            for start in range(0, 1 + draws, at_once):
                drawn = counted(start, min(start + at_once, 1 + draws))
                if pending is not None:
                    pending.result()
                pending = pool.submit(measure, start, drawn)
            if pending is not None:
                pending.result()
    drawn_values, drawn_errors = ([one[..., 1:].reshape(slices, -1) for one in found] for found in (values, errors))
    return drawn_values, drawn_errors, [np.repeat(one[..., 0], draws, axis=1) for one in values]


def populations(rngs: Streams, size: int, shares: Floats, draws: int) -> Any:
    """Multinomial counts of so many populations; which cells are empty never moves the streams, so that padding does not."""
    often = size * shares > OFTEN
    rare, left = np.flatnonzero((shares > 0) & ~often), np.full(draws, size)
    if len(rare) == len(shares):
        return _one_by_one(rngs[1], left, shares)
    found = np.zeros((draws, len(shares)), dtype=np.int64)
    if often.any():
        chances = np.append(shares[often], shares[rare].sum()) if len(rare) else shares[often]
        drawn = rngs[0].multinomial(size, chances / chances.sum(), draws)
        found[:, often], left = drawn[:, : np.count_nonzero(often)], drawn[:, -1]
    if len(rare):
        found[:, rare] = _one_by_one(rngs[1], left, shares[rare])
    return found


def _one_by_one(rng: np.random.Generator, sizes: Ints, shares: Floats) -> Any:
    """Counts of populations of these sizes from a draw of every unit, which takes less time than one of every cell where few are in it.

    A unit is a number of 32 binary digits. A table tells its cell by the first of them, unless a cell ends among those that
    share these. Each population begins with a new word of 64, so that it is the same however many are drawn at a time.
    """
    cells = len(shares)
    ends = np.cumsum(shares)
    ends = np.rint(ends / ends[-1] * 2.0**32).astype(np.int64)
    digits = min(32, (64 * cells).bit_length())
    rest = 32 - digits
    table = np.repeat(
        np.arange(cells + 1, dtype=np.min_scalar_type(cells)),
        np.diff(-(-ends >> rest), prepend=0, append=1 << digits),
    )
    table[ends[(ends & ((1 << rest) - 1)) > 0] >> rest] = cells
    at_once = max(1, CLOSE // max(1, int(sizes.max(initial=0))))
    found = np.empty((len(sizes), cells), dtype=np.int64)
    for start in range(0, len(sizes), at_once):
        own = sizes[start : start + at_once]
        words = (own + 1) // 2
        drawn = rng.bit_generator.random_raw(int(words.sum())).view(np.uint32)
        cell = table.take(drawn >> rest)
        left = np.flatnonzero(cell == cells)
        cell[left] = np.searchsorted(ends, drawn.take(left), side="right")
        place = np.repeat(np.arange(0, len(own) * cells, cells), 2 * words)
        place += cell
        unused = (np.cumsum(2 * words) - 1)[own % 2 > 0]  # the second half of a word that had one unit to draw
        place[unused] = len(own) * cells
        counts = np.bincount(place, minlength=len(own) * cells)[: len(own) * cells]
        found[start : start + at_once] = counts.reshape(-1, cells)
    return found
