"""Bootstrap over requests, or clusters of them: audits keep a few sums per request, and a draw adds them up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand.cards import Floats
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
    out = np.empty((draws, requests))
    at_once = max(1, (1 << 16) // max(1, requests))  # what is drawn together stays in the cache
    for start in range(0, draws, at_once):
        some = out[start : start + at_once]
        drawn = rng.integers(0, requests, some.shape) + np.arange(len(some))[:, None] * requests
        some[:] = np.bincount(drawn.reshape(-1), minlength=some.size).reshape(some.shape)
    return out


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
