"""Bootstrap over requests or clusters of them, tests of sums over requests, and two systems on the same requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import MIN_CLUSTERS, ROUNDING, percentile_ends
from evenhand.labels import stream
from evenhand.tallies.exposure import GroupExposure
from evenhand.tallies.ranked_lists import CrossedSums, ItemAttention
from evenhand.tallies.requests import Measured, Requests

MANY = 1 << 12
"""Above this many requests, sums of random blocks are resampled: same variance, flat cost."""


def resampled(sums: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """(draws, K) totals of (Q, K) per-request sums over resamples of the Q requests.

    >>> resampled(np.ones((5, 1)), 3, np.random.default_rng(1)).ravel().tolist()
    [5.0, 5.0, 5.0]
    """
    return np.concatenate([totals for (totals,) in resample_in_batches([sums], draws, rng)])


def resample_in_batches(parts: Sequence[Floats], draws: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
    """Totals of every set of sums over the same resamples, a bounded number of draws at a time."""
    merge = blocks(len(parts[0]), rng)
    parts = [merge(sums) for sums in parts]
    requests, widths = len(parts[0]), [sums.shape[1] for sums in parts]
    if not requests or not draws:
        yield [np.zeros((draws, width)) for width in widths]
        return
    sums = np.concatenate(parts, axis=1)
    # Products of up to 2^18 numbers start no threads, which would wait busily, some 20 ms of every core each time.
    at_once = (1 << 18) // max(1, sums.size)
    if at_once < 32:
        at_once = max(1, (1 << 21) // max(sums.shape))
    for start in range(0, draws, at_once):
        totals = picks(requests, min(at_once, draws - start), rng) @ sums
        yield np.split(totals, np.cumsum(widths)[:-1], axis=1)


def picks(requests: int, draws: int, rng: np.random.Generator) -> Floats:
    """(draws, Q) how often each of Q requests is in a resample of Q.

    >>> picks(4, 3, np.random.default_rng(1)).sum(1).tolist()
    [4.0, 4.0, 4.0]
    """
    drawn = rng.integers(0, max(requests, 1), (draws, requests)) + np.arange(draws)[:, None] * requests
    return np.bincount(drawn.reshape(-1), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)


def blocks(requests: int, rng: np.random.Generator) -> Callable[[Floats], Floats]:
    """A function that sums rows over random blocks of requests, the same for every set of sums."""
    if requests <= MANY:
        return lambda sums: sums
    order = rng.permutation(requests)
    edges = np.linspace(0, requests, MANY + 1).astype(np.int64)[:-1]
    return lambda sums: np.asarray(np.add.reduceat(sums.take(order, axis=0), edges, axis=0))


@dataclass(frozen=True)
class Reduced:
    """Totals of a metric per slice, and the sums per request (cluster, block) that are resampled.

    The measure keeps no sums of its own, so that many metrics of many requests fit.
    """

    measured: Measured
    totals: list[Floats]
    parts: list[Floats]

    @classmethod
    def from_measured(
        cls, measured: Measured, within: Requests, joined: Sequence[Callable[[Floats], Floats]] | None = None
    ) -> Reduced:
        """`joined` puts the requests (or clusters) of each slice into blocks, where that is done at once."""
        parts = [within.unit_sums(s, measured.sums[within.part(s)]) for s in range(len(within.slices))]
        totals = [sums.sum(0) for sums in parts]
        if joined is not None:
            parts = [blocked(sums) for blocked, sums in zip(joined, parts, strict=True)]
        return cls(replace(measured, sums=measured.sums[:0].copy()), totals, parts)

    def estimate(self, s: int, part: slice) -> float:
        resampler = self.measured.resampler
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(self.measured.value(self.totals[s])) if resampler is None else resampler.value(part)

    def reason(self, s: int, part: slice) -> str:
        resampler = self.measured.resampler
        return self.measured.reason(s, self.totals[s]) if resampler is None else resampler.reason(part)


def metric_draws(
    metrics: Sequence[Reduced], s: int, part: slice, draws: int, stream: Callable[[], np.random.Generator]
) -> list[Floats | None]:
    """Every metric on the same resamples of a slice's requests; None where it takes too long."""
    values: list[list[Floats]] = [[] for _ in metrics]
    for totals in resample_in_batches([f.parts[s] for f in metrics], draws, stream()):
        with np.errstate(divide="ignore", invalid="ignore"):
            for f, total, drawn in zip(metrics, totals, values, strict=True):
                if f.measured.resampler is None:
                    drawn.append(f.measured.value(total))
    return [
        np.concatenate(drawn) if f.measured.resampler is None else f.measured.resampler.draws(part, draws, stream())
        for f, drawn in zip(metrics, values, strict=True)
    ]


FEWEST = 5
"""Requests, or clusters of them, below which their spread says nothing."""


def t_test(values: Floats, *, imposed: bool = False) -> tuple[float, float]:
    """P that the sum of independent values is 0 (Student's t), and the standard error of the sum; NaN for few values.

    `imposed` : values that have mean 0 under the null are squared as they stand. Of fewer than `MIN_CLUSTERS` values p is no
    smaller than the share of all flips of their signs that give as large a sum: few values say little of their law (6
    clusters: 7% false claims by t alone).

    >>> t_test(np.array([1.0, -1.0, 1.0, -1.0, 0.0]))
    (1.0, 2.23606797749979)
    """
    from scipy.special import stdtr

    many = len(values)
    if many < FEWEST:
        return math.nan, math.nan
    centre = 0.0 if imposed else values.mean()
    error = math.sqrt(float(((values - centre) ** 2).sum()) * many / (many - 1))
    total = float(values.sum())
    if abs(total) <= 1e-12 * max(1e-300, float(np.abs(values).sum())):
        return 1.0, error
    p = 2 * float(stdtr(many - 1, -abs(total) / error)) if error > 0 else 0.0
    return (p if many >= MIN_CLUSTERS else max(p, 2 * flip_test(math.copysign(1.0, total) * values))), error


def skewed_test(total: float, variance: float, third: float) -> float:
    """P of a sum with mean 0, this variance and this third central moment under the null (Pearson's type III).

    The normal law gives too small a p on the long side: a minority of 5% that heads 4 of 30 lists is no wonder.

    >>> round(skewed_test(1.96, 1.0, 0.0), 3), round(skewed_test(2.0, 1.0, 1.0), 3)
    (0.05, 0.085)
    """
    return min(1.0, 2 * min(skewed_tails(total, variance, third))) if variance > 0 else math.nan


def skewed_tails(total: float, variance: float, third: float) -> tuple[float, float]:
    """Chances of a sum at most and at least as large, by the same law.

    >>> [round(tail, 4) for tail in skewed_tails(2.0, 1.0, 1.0)]
    [0.9576, 0.0424]
    """
    from scipy.special import gammainc, gammaincc, ndtr

    z, skew = total / math.sqrt(variance), third / variance**1.5
    if abs(skew) < 1e-3:
        return float(ndtr(z)), float(ndtr(-z))
    shape = 4 / skew**2
    at = shape + math.copysign(1.0, skew) * z * math.sqrt(shape)  # below 0 the law ends
    tails = float(gammainc(shape, max(at, 0.0))), float(gammaincc(shape, max(at, 0.0)))
    return tails if skew > 0 else tails[::-1]


def flip_test(means: Floats, draws: int = 0, rng: np.random.Generator | None = None) -> float:
    """P that the mean of independent values is no larger than 0, by flipping their signs; NaN for few values.

    All flips where they are no more than the draws, or values are fewer than `MIN_CLUSTERS`. The squares stay as they are, so
    that a studentised mean is as large as observed exactly where the mean is.

    >>> flip_test(np.array([0.1, 0.3, 0.2, 0.4, -0.05]), 999, np.random.default_rng(1))
    0.0625
    """
    many = len(means)
    if many < FEWEST:
        return math.nan
    ordered = np.sort(means)  # no p depends on what values are called
    least = ordered.sum() - 1e-12 * np.abs(ordered).sum()
    if rng is None or 2**many <= draws + 1 or many < MIN_CLUSTERS:
        signs = 1.0 - 2.0 * ((np.arange(2**many)[:, None] >> np.arange(many)) & 1)
        return float((signs @ ordered >= least).mean())
    at_once, reached = max(1, (1 << 20) // many), 0
    for start in range(0, draws, at_once):
        signs = 1.0 - 2.0 * rng.integers(0, 2, (min(at_once, draws - start), many))
        reached += int((signs @ ordered >= least).sum())
    return (1 + reached) / (1 + draws)


MOST_WORK = 4_000_000_000
"""Draws times cells that are resampled; beyond it item-level attention has no interval."""


@dataclass(frozen=True)
class ItemResampler:
    """A metric of attention per item, on resampled requests (or clusters of them) of a sparse request-item table."""

    ask: MetricSpec
    table: ItemAttention
    within: Requests

    def value(self, part: slice) -> float:
        return float(self.ask.on(self.table.totals(part)).reshape(-1)[0])

    def reason(self, part: slice) -> str:
        return self.ask.card.reason(self.table.totals(part), **self.ask.params) if part.stop > part.start else "empty"

    def draws(self, part: slice, draws: int, rng: np.random.Generator) -> Floats | None:
        """The metric on resamples of the requests, or None where that would take too long."""
        requests, items = part.stop - part.start, self.table.attention.shape[1]
        units = self.within.units(int(np.searchsorted(self.within.starts, part.start, side="right")) - 1)
        if not requests or draws * self.table.cells(part) > MOST_WORK:
            return None
        out = np.empty(draws)
        at_once = max(1, (1 << 22) // max(requests, items))
        for start in range(0, draws, at_once):
            count = min(at_once, draws - start)
            times = picks(int(units.max()) + 1, count, rng)[:, units]
            out[start : start + count] = self.ask.on(self.table.resampled(part, times.T))
        return out


def crossed_draws(
    measures: Callable[[GroupExposure, Floats], Sequence[Measured]],
    crossed: CrossedSums,
    sums: GroupExposure,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """(slices, metrics, draws) values on resamples of each slice's requests and of all items.

    `measures` makes the metrics from the exposure of groups and the sizes of groups.
    """
    slices, results, at_once = range(len(sums.slices)), [], 16
    units = [sums.within.units(s) for s in slices]
    for start in range(0, draws, at_once):
        counts = picks(crossed.items.shape[1], min(at_once, draws - start), rng).T
        for drawn, sizes in crossed.drawn(sums, counts):
            times = [picks(int(u.max()) + 1, 1, rng)[0][u] if len(u) else np.zeros(0) for u in units]
            measured = measures(drawn, sizes)
            with np.errstate(divide="ignore", invalid="ignore"):
                finite = [np.nan_to_num(m.sums, posinf=0.0, neginf=0.0) for m in measured]
                values = [
                    [
                        float(m.value(np.asarray(times[s] @ x[sums.part(s)])))
                        for m, x in zip(measured, finite, strict=True)
                    ]
                    for s in slices
                ]
            results.append(values)
    return np.moveaxis(np.array(results), 0, -1)


Value = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Difference:
    """Difference b - a with interval, two-sided p, the two values, and the difference on resampled requests."""

    estimate: float
    low: float
    high: float
    p: float
    a: float
    b: float
    undefined_draws: int
    resampled: Floats


@dataclass(frozen=True)
class Draws:
    """Resamples and swaps of Q requests, shared by all metrics and pairs of systems.

    There are `draws` of each; a p that is small after them is settled by `swaps` swaps, so that it can survive an adjustment
    for many pairs.
    """

    requests: int
    draws: int
    seed: int
    where: tuple[Any, ...] = ()
    swaps: int = 0

    def _stream(self, purpose: str) -> np.random.Generator:
        return stream(self.seed, purpose, self.requests, *self.where)

    @cached_property
    def merge(self) -> Callable[[Floats], Floats]:
        """Sums per-request sums over random blocks of requests where there are many."""
        return blocks(self.requests, self._stream("blocks"))

    @cached_property
    def picks(self) -> Floats:
        """(draws, Q) how often each request is in each resample."""
        return picks(min(self.requests, MANY), self.draws, self._stream("paired resamples"))

    @cached_property
    def signs(self) -> Floats:
        """(draws, Q) 1 where the systems stay as they are, -1 where they are swapped."""
        return _random_signs(self._stream("swaps"), self.draws, min(self.requests, MANY))

    def more_signs(self) -> Iterator[Floats]:
        """Further swaps, up to `swaps` in all."""
        size, rng = min(self.requests, MANY), self._stream("more swaps")
        at_once = max(1, (1 << 22) // size)
        for start in range(self.draws, self.swaps, at_once):
            yield _random_signs(rng, min(at_once, self.swaps - start), size)


def _random_signs(rng: np.random.Generator, draws: int, size: int) -> Floats:
    return np.where(rng.integers(0, 2, (draws, size)) > 0, -1.0, 1.0)


def paired_difference(a: Floats, b: Floats, value: Value, level: float, draws: Draws) -> Difference:
    """Difference of two systems, the second minus the first, from (Q, K) sums of the same Q requests.

    `value` maps (..., K) totals to the metric.

    The interval is the percentile interval of the difference over resampled requests. For p, the two systems are swapped
    in a random half of the requests: if they were one and the same, every swap would be as likely as what was seen.

    >>> ones = np.ones((8, 1))
    >>> paired_difference(ones, ones, lambda t: t[..., 0], 0.95, Draws(8, 199, 1)).p
    1.0
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value_a, value_b = float(value(a.sum(0))), float(value(b.sum(0)))
        seen = value_b - value_a
        if np.isnan(seen) or draws.requests < 2:
            return Difference(seen, np.nan, np.nan, np.nan, value_a, value_b, 0, np.full(draws.draws, np.nan))
        a, b = draws.merge(a), draws.merge(b)
        resampled = np.asarray(value(draws.picks @ b) - value(draws.picks @ a))
        p = _swap_p(a, b, value, seen, draws)
    low, high = percentile_ends(resampled[None, :], level, draws.requests)
    undefined = int(np.isnan(resampled).sum())
    return Difference(seen, float(low[0]), float(high[0]), p, value_a, value_b, undefined, resampled)


def _swap_p(a: Floats, b: Floats, value: Value, seen: float, draws: Draws) -> float:
    """Permutation p: share of random swaps with a difference at least as large as observed."""
    total, gap = (a + b).sum(0), a - b

    def count_as_large(signs: Floats) -> int:
        moved = signs @ gap
        swapped = value((total + moved) / 2) - value((total - moved) / 2)
        # An undefined swap counts as large: never too sure.
        return int((~(np.abs(swapped) < abs(seen) * (1 - 1e-9) - ROUNDING)).sum())

    count, tried = count_as_large(draws.signs), draws.draws
    if count < 10 and draws.swaps > draws.draws:  # so few that p is rough: settled by all swaps of the plan
        count, tried = count + sum(map(count_as_large, draws.more_signs())), draws.swaps
    return (1 + count) / (1 + tried)
