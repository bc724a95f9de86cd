"""Bootstrap over requests: every ranking audit keeps a few sums per request, and a draw adds them up again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.uncertainty.intervals import Interval, percentile_ends

MOST_CELLS = 1 << 21
MANY = 1 << 14
"""Above this many requests, sums of random blocks are resampled: same variance, flat cost."""

FEW = 512
"""From this many requests on, it is several times quicker to draw requests and count them than to draw the counts."""


def resampled(sums: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Totals of (Q, K) per-request sums over `draws` resamples of the Q requests: (draws, K).

    >>> resampled(np.ones((5, 1)), 3, np.random.default_rng(1)).ravel().tolist()
    [5.0, 5.0, 5.0]
    """
    return together([sums], draws, rng)[0]


def together(parts: Sequence[Floats], draws: int, rng: np.random.Generator) -> list[Floats]:
    """The same for several sets of sums over the same requests, all on the same resamples."""
    joined = blocks(len(parts[0]), rng)
    parts = [joined(sums) for sums in parts]
    requests, widths = len(parts[0]), [sums.shape[1] for sums in parts]
    if not requests:
        return [np.zeros((draws, width)) for width in widths]
    sums = np.concatenate(parts, axis=1)
    out = np.empty((draws, sums.shape[1]))
    at_once = max(1, MOST_CELLS // requests)
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        out[start : start + count] = picks(requests, count, rng) @ sums
    return np.split(out, np.cumsum(widths)[:-1], axis=1)


def picks(requests: int, draws: int, rng: np.random.Generator) -> Floats:
    """(draws, Q) how often each of Q requests is in a resample of Q.

    >>> picks(4, 3, np.random.default_rng(1)).sum(1).tolist()
    [4.0, 4.0, 4.0]
    """
    if requests < FEW:
        return rng.multinomial(requests, np.full(requests, 1 / requests), draws).astype(np.float64)
    out = np.empty((draws, requests))
    for draw in out:
        draw[:] = np.bincount(rng.integers(0, requests, requests), minlength=requests)
    return out


def blocks(requests: int, rng: np.random.Generator) -> Callable[[Floats], Floats]:
    """What makes few rows of many: sums over random blocks of requests, the same blocks for every set of sums."""
    if requests <= MANY:
        return lambda sums: sums
    order = rng.permutation(requests)
    edges = np.linspace(0, requests, MANY + 1).astype(np.int64)[:-1]
    return lambda sums: np.asarray(np.add.reduceat(sums.take(order, axis=0), edges, axis=0))


def interval_of(
    function: Callable[[Floats], Floats], sums: Floats, interval: Interval, rng: np.random.Generator
) -> tuple[float, float, float, int]:
    """Estimate, low, high and number of undefined draws of a function of summed per-request quantities.

    `function` maps (..., K) totals to (...) values. Rows of `sums` that are all zero still count as requests.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(function(sums.sum(0)))
        if interval.kind == "none" or not len(sums) or np.isnan(estimate):
            return estimate, np.nan, np.nan, 0
        draws = function(resampled(sums, interval.draws or 999, rng))
    low, high = percentile_ends(np.asarray(draws)[None, :], interval.level)
    return estimate, float(low[0]), float(high[0]), int(np.isnan(draws).sum())


def mean_interval(
    values: Floats, interval: Interval, rng: np.random.Generator, weights: Floats | None = None
) -> tuple[float, float, float, int]:
    """The mean of the defined per-request values, with a bootstrap over requests."""
    w: Any = np.ones(len(values)) if weights is None else weights
    defined = ~np.isnan(values)
    sums = np.stack([np.where(defined, values, 0.0) * w, np.where(defined, w, 0.0)], axis=1)
    return interval_of(lambda total: total[..., 0] / total[..., 1], sums, interval, rng)
