"""Differences between two systems on the same requests: resampled together, and with the systems swapped at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.kinds import percentile_ends
from evenhand.intervals.requests import MANY, blocks, picks
from evenhand.intervals.rules import ROUNDING
from evenhand.streams import stream

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

    def more_signs(self) -> Iterable[Floats]:
        """Further swaps, up to `swaps` in all; kept for the next pair if they fit into 32 MiB."""
        return self._kept_signs if self.swaps * min(self.requests, MANY) <= 1 << 22 else self._draw_signs()

    @cached_property
    def _kept_signs(self) -> list[Floats]:
        return list(self._draw_signs())

    def _draw_signs(self) -> Iterator[Floats]:
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
