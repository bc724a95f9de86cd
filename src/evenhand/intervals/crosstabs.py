"""Bootstrap over users and permuted user labels: weights that go along while the scores are read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import Interval, drawn_ends, without_noise
from evenhand.intervals.rules import ROUNDING
from evenhand.streams import stream
from evenhand.tallies.crosstab import MOST_CELLS, Crosstab, ResampledLists, Times
from evenhand.tallies.ragged import Ints

WORK = 4e9
"""Slots times draws that replicates may cost: a few seconds."""

EXACT = 1 << 24
"""Users times draws up to which users are drawn within their group and labels permuted exactly."""

AT_ONCE = 1 << 12
"""Users who are drawn or relabelled at a time, since random numbers are wide."""

NORMAL_DRAWS = 199
"""Draws behind the standard error of a normal interval."""

Weighted = tuple[int | Ints, Times]
"""Where users count (one place for all, or one each), and their weights (U, D)."""


def affordable_draws(draws: int, groups: int, items: int, slots: float) -> int:
    """As many draws as memory and time allow; at least 40, enough for an error."""
    most = min((1 << 25) // max(1, groups * items), int(WORK / max(1.0, slots)))
    return min(draws, max(40, most))


class Resampled:
    """Users drawn with replacement within their group; past `EXACT`, Poisson weights per user."""

    def __init__(self, codes: Ints, names: Sequence[str], draws: int, seed: int, where: Sequence[Any] = ()) -> None:
        self.draws, self.rows = draws, np.unique(codes)
        self._places = np.searchsorted(self.rows, codes)
        self.exact = len(codes) * draws <= EXACT
        self._weights = np.zeros((len(codes), draws if self.exact else 0), dtype=np.uint8)
        if self.exact:
            for row, name in enumerate(names):
                members = np.flatnonzero(codes == row)
                if n := len(members):
                    rng = stream(seed, "users", *where, name)
                    self._weights[members] = rng.multinomial(n, np.full(n, 1 / n), draws).T
        self.most = int(self._weights.max(initial=1)) if self.exact else int(_POISSON.max())
        self._stream = seed, "users", *where

    def between(self, start: int, stop: int) -> Iterator[Weighted]:
        """The weights of some draws; each user counts in the row of their group."""
        if self.exact:
            yield self._places, self._weights[:, start:stop]
            return
        weights = np.zeros((len(self._places), stop - start), dtype=np.uint8)
        for users, lots in _lots(self._stream, len(weights), range(start, stop), np.uint16):
            weights[users] = _POISSON[lots]
        yield self._places, weights


class PermutedLabels:
    """Permuted group labels of the users who have one; past `EXACT`, drawn independently."""

    def __init__(self, codes: Ints, groups: int, draws: int, seed: int, where: Sequence[Any] = ()) -> None:
        self.draws, self.most, self._codes, self._stream = draws, 1, codes, (seed, "labels", *where)
        self._labelled = codes < groups
        self.sizes = np.bincount(codes[self._labelled], minlength=groups)
        self.rows = np.flatnonzero(self.sizes)

    def between(self, start: int, stop: int) -> Iterator[Weighted]:
        """For every group, which users have its label in which of these draws."""
        exact = len(self._codes) * self.draws <= EXACT
        labels = self._permuted[:, start:stop] if exact else self._independent(range(start, stop))
        for place, row in enumerate(self.rows):
            yield place, (labels == row).view(np.uint8)

    @cached_property
    def _permuted(self) -> npt.NDArray[Any]:
        """(U, D) permuted labels, made when first needed."""
        labels, codes = self._unlabelled(self.draws), self._codes[self._labelled]
        labels[self._labelled] = stream(*self._stream).permuted(np.tile(codes, (self.draws, 1)), axis=1).T
        return labels

    def _independent(self, draws: range) -> npt.NDArray[Any]:
        """(U, D) labels of users, each drawn by itself with the groups' shares."""
        labels = self._unlabelled(len(draws))
        edges = (np.cumsum(self.sizes)[:-1] / self.sizes.sum() * (1 << 32)).astype(np.int64).tolist()
        for users, lots in _lots(self._stream, len(labels), draws, np.uint32):
            labels[users] = 0
            for edge in edges:
                labels[users] += lots >= edge
        labels[~self._labelled] = len(self.sizes)
        return labels

    def _unlabelled(self, draws: int) -> npt.NDArray[Any]:
        groups = len(self.sizes)
        return np.full((len(self._codes), draws), groups, dtype=np.min_scalar_type(groups + 1))


def _lots(
    named: tuple[Any, ...], users: int, draws: range, kind: type[np.unsignedinteger[Any]]
) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """Random bits of a kind for some draws (users, D), some users at a time.

    As many draws as fill a word of 64 bits have a stream of their own: any of them are made without others, in the memory of these.
    """
    each = 8 // np.dtype(kind).itemsize
    first = draws.start // each
    streams = [stream(*named, word).bit_generator for word in range(first, -(-draws.stop // each))]
    for start in range(0, users, AT_ONCE):
        words = np.empty((min(AT_ONCE, users - start), len(streams)), dtype=np.uint64)
        for i, bits in enumerate(streams):
            words[:, i] = bits.random_raw(len(words))
        lots = words.view(kind)[:, draws.start - each * first : draws.stop - each * first]
        yield slice(start, start + len(words)), lots


class Swapped:
    """Random half of the users for whom two systems are swapped; with `other`, the other half."""

    most = 1

    def __init__(self, codes: Ints, draws: int, seed: int, where: Sequence[Any] = (), *, other: bool = False) -> None:
        self.draws, self.rows, self._other = draws, np.unique(codes), other
        self._places = np.searchsorted(self.rows, codes)
        rng = stream(seed, "swaps of users", *where)
        self._bits = rng.integers(0, 1 << 64, (len(codes), -(-draws // 64)), dtype=np.uint64).view(np.uint8)

    def between(self, start: int, stop: int) -> Iterator[Weighted]:
        """The weights of some draws: a bit each."""
        first = start // 8
        bits = np.unpackbits(self._bits[:, first : -(-stop // 8)], axis=1)[:, start - 8 * first : stop - 8 * first]
        yield self._places, np.asarray(bits ^ 1, dtype=np.uint8) if self._other else bits


_POISSON = np.searchsorted(
    np.cumsum(np.cumprod(np.concatenate([[1.0], 1 / np.arange(1, 12)])) * np.exp(-1.0)),
    (np.arange(1 << 16) + 0.5) / (1 << 16),
).astype(np.uint8)
"""Quantiles of the Poisson distribution with mean 1, by 16 random bits."""


@dataclass(frozen=True, slots=True)
class Question:
    """A metric, and the groups it compares (None where it looks at all users together)."""

    ask: MetricSpec
    pair: tuple[int, int] | None

    def on(self, tally: Crosstab) -> Floats:
        """The value on every replicate of the tally."""
        return self.on_pair(tally if self.pair is None else tally.between(*self.pair))

    def on_pair(self, tally: Crosstab) -> Floats:
        """The value on a tally that compares the two groups of the question."""
        value = self.ask.on(tally if self.ask.card.compact else tally.everything)
        return np.broadcast_to(value, tally.counts.shape[:-2])  # a metric may say the same of all of them


def values(replicates: ResampledLists, total: Crosstab, questions: Sequence[Question]) -> list[Floats]:
    """Every question on every replicate."""
    every: list[list[Floats]] = [[] for _ in questions]
    for tally in replicates.crosstabs(total):
        sides = {pair: tally.between(*pair) for pair in {q.pair for q in questions} if pair is not None}
        for question, draws in zip(questions, every, strict=True):
            draws.append(question.on_pair(tally if question.pair is None else sides[question.pair]))
    return [np.concatenate(draws) for draws in every]


def ends(
    question: Question, estimate: float, draws: Floats, how: Interval, users: int, chance: Floats | float = np.nan
) -> tuple[float, float]:
    """Interval ends; percentiles, or normal where draws were too few (`affordable_draws`).

    A distance between two groups reads the noise of both as distance, so its bias is taken off. Other metrics say what
    so many users are shown, and their interval is for as many others. A distance that permuted labels (draws of
    `chance`) reach often enough is not significantly different from none: the interval then starts there.
    """
    span, compares = question.ask.span, question.pair is not None
    low, high = drawn_ends(estimate, draws, how, span, users, biased=compares)
    if compares and how.kind == "bootstrap" and span[0] == question.ask.ideal == 0:
        reached = np.ndim(chance) > 0 and np.mean(np.asarray(chance) >= estimate - ROUNDING) > (1 - how.level) / 2
        low = 0.0 if reached else min(low, without_noise(estimate, draws, how.level, users))
    return low, high


def seconds_of_pairs(
    questions: Sequence[Question], groups: int, items: int, slots: float, draws: int, deals: int
) -> float:
    """Estimated seconds for the metrics, with users resampled and labels permuted.

    Measured on one core: a cell of a crosstab, a slot under a draw, a metric on some draws, a row of a result.
    """
    per_cell, per_slot, per_call, per_row = 5e-9, 2.5e-9, 5e-5, 2e-4
    draws = affordable_draws(draws, groups, items, slots) if draws else 0
    deals = affordable_draws(deals, groups, items, slots * groups) if deals else 0
    calls = [(draws + 1) + deals * bool(q.ask.card.shuffled) for q in questions]
    read = sum(n for n, q in zip(calls, questions, strict=True) if "shown" in q.ask.reads)
    at_once = max(1, MOST_CELLS // max(1, groups * items))
    counting = per_cell * items * (read + groups * (draws + deals)) + per_slot * slots * (draws + deals * groups)
    return counting + per_call * sum(calls) / at_once + per_row * len(questions)


def plans(
    codes: Ints, names: Sequence[str], groups: int, how: Interval, deals: int, seed: int, items: int, slots: float,
    where: Sequence[Any] = (),
) -> tuple[Resampled | None, PermutedLabels | None]:  # fmt: skip
    """Resampled users and permuted labels of a slice, in random streams of its own."""
    present = len(np.unique(codes))
    resampled = permuted = None
    if how.kind != "none" and len(codes):
        draws = affordable_draws(how.draws or NORMAL_DRAWS, present, items, slots)
        resampled = Resampled(codes, names, draws, seed, where)
    if deals and groups and len(codes):
        permuted = PermutedLabels(codes, groups, affordable_draws(deals, groups, items, slots * groups), seed, where)
    return resampled, permuted
