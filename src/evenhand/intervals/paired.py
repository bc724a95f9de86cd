"""Differences between two systems on the same requests: resampled together, and with the systems swapped at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.kinds import percentile_ends
from evenhand.intervals.requests import picks
from evenhand.streams import stream

MANY = 1 << 12
"""Above this many requests, sums of random blocks are resampled and swapped: same law, flat cost."""

FEW = 10
"""Swaps as large as what was seen below which more of them are tried, where the plan has more."""

AT_ONCE = 1 << 22
"""Signs held at a time."""

Value = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Difference:
    """Difference a - b with interval, two-sided p, and the two values."""

    estimate: float
    low: float
    high: float
    p: float
    a: float
    b: float
    undefined_draws: int


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

    @cached_property
    def _blocks(self) -> tuple[np.typing.NDArray[np.int64], np.typing.NDArray[np.int64]] | None:
        if self.requests <= MANY:
            return None
        order = stream(self.seed, "blocks", self.requests, *self.where).permutation(self.requests)
        return order, np.linspace(0, self.requests, MANY + 1).astype(np.int64)[:-1]

    @cached_property
    def picks(self) -> Floats:
        """(draws, Q) how often each request is in each resample."""
        size = min(self.requests, MANY)
        rng = stream(self.seed, "paired resamples", self.requests, *self.where)
        return picks(size, self.draws, rng)

    @cached_property
    def signs(self) -> Floats:
        """(draws, Q) 1 where the systems stay as they are, -1 where they are swapped."""
        size = min(self.requests, MANY)
        swapped = stream(self.seed, "swaps", self.requests, *self.where).integers(0, 2, (self.draws, size))
        return np.where(swapped > 0, -1.0, 1.0)

    def more_signs(self) -> Iterable[Floats]:
        """Further swaps in batches; cached for the next pair of systems where they are few."""
        small = self.swaps * min(self.requests, MANY) <= AT_ONCE
        return self._cached_signs if small else self._drawn_signs()

    @cached_property
    def _cached_signs(self) -> list[Floats]:
        return list(self._drawn_signs())

    def _drawn_signs(self) -> Iterator[Floats]:
        size = min(self.requests, MANY)
        rng = stream(self.seed, "more swaps", self.requests, *self.where)
        for start in range(self.draws, self.swaps, max(1, AT_ONCE // size)):
            many = min(max(1, AT_ONCE // size), self.swaps - start)
            yield np.where(rng.integers(0, 2, (many, size)) > 0, -1.0, 1.0)

    def reduced(self, sums: Floats) -> Floats:
        """Per-request sums, or sums of random blocks of requests where there are many."""
        if self._blocks is None:
            return sums
        order, edges = self._blocks
        return np.add.reduceat(sums[order], edges, axis=0)


def paired_difference(a: Floats, b: Floats, value: Value, level: float, draws: Draws) -> Difference:
    """Difference of two systems, from (Q, K) sums of the same Q requests.

    `value` maps (..., K) totals to the metric.

    The interval is the percentile interval of the difference over resampled requests. For p, the two systems are swapped
    in a random half of the requests: if they were one and the same, every swap would be as likely as what was seen.

    >>> ones = np.ones((8, 1))
    >>> paired_difference(ones, ones, lambda t: t[..., 0], 0.95, Draws(8, 199, 1)).p
    1.0
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value_a, value_b = float(value(a.sum(0))), float(value(b.sum(0)))
        seen = value_a - value_b
        if np.isnan(seen) or draws.requests < 2:
            return Difference(seen, np.nan, np.nan, np.nan, value_a, value_b, 0)
        a, b = draws.reduced(a), draws.reduced(b)
        resampled = value(draws.picks @ a) - value(draws.picks @ b)
        p = _swap_p(a, b, value, seen, draws)
    low, high = percentile_ends(np.asarray(resampled)[None, :], level, draws.requests)
    return Difference(seen, float(low[0]), float(high[0]), p, value_a, value_b, int(np.isnan(resampled).sum()))


def _swap_p(a: Floats, b: Floats, value: Value, seen: float, draws: Draws) -> float:
    """Permutation p: share of random swaps with a difference at least as large as observed."""
    total, gap = (a + b).sum(0), a - b

    def as_large(signs: Floats) -> int:
        moved = signs @ gap
        swapped = value((total + moved) / 2) - value((total - moved) / 2)
        # An undefined swap counts as large: never too sure.
        return int((~(np.abs(swapped) < abs(seen) * (1 - 1e-9) - 1e-12)).sum())

    count, tried = as_large(draws.signs), draws.draws
    if count < FEW and draws.swaps > draws.draws:
        count, tried = count + sum(map(as_large, draws.more_signs())), draws.swaps
    return (1 + count) / (1 + tried)
