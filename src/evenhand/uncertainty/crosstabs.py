"""Bootstrap over users and permuted user labels: weights that go along while the scores are read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Ask, Floats
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.replicates import Replicates
from evenhand.tallies.shown import Ints
from evenhand.uncertainty.intervals import Interval, drawn_ends, stream, without_noise

CELLS = 1 << 25
"""Cells (draws x groups x items) that replicates may hold."""

WORK = 4e9
"""Slots times draws that replicates may cost: a few seconds."""

FEWEST = 40
"""Draws that are made whatever they cost; enough for an error, too few for percentiles."""

EXACT = 1 << 24
"""Users times draws up to which users are drawn within their group and labels dealt out exactly."""

AT_ONCE = 1 << 12
"""Users who are dealt labels at a time."""

NORMAL_DRAWS = 199

Weighted = tuple[int | Ints, npt.NDArray[np.float32]]
"""Where users count (one place for all, or one each), and their weights (R, D)."""


def affordable(draws: int, groups: int, items: int, slots: float) -> int:
    """As many draws as memory and time allow, at least `FEWEST`."""
    most = min(CELLS // max(1, groups * items), int(WORK / max(1.0, slots)))
    return min(draws, max(FEWEST, most))


class Resampled:
    """Users drawn with replacement within their group; past `EXACT`, every user a Poisson number of times."""

    rest = None

    def __init__(self, codes: Ints, names: Sequence[str], draws: int, seed: int, where: Sequence[Any] = ()) -> None:
        self.draws, self.rows = draws, np.unique(codes)
        self._weights: npt.NDArray[np.uint8] | None = None
        if len(codes) * draws <= EXACT:
            self._weights = np.zeros((len(codes), draws), dtype=np.uint8)
            for row, name in enumerate(names):
                members = np.flatnonzero(codes == row)
                if len(members):
                    rng = stream(seed, "users", *where, name)
                    self._weights[members] = rng.multinomial(
                        len(members), np.full(len(members), 1 / len(members)), draws
                    ).T
        self._rng = stream(seed, "users", *where)

    @property
    def exact(self) -> bool:
        """Whether users are drawn within their group."""
        return self._weights is not None

    def of_users(self, first: int, codes: Ints) -> Iterator[Weighted]:
        """The weights of some users; each counts in the row of their group."""
        if self._weights is not None:
            weights = self._weights[first : first + len(codes)]
        else:
            weights = _poisson(self._rng, len(codes), self.draws)
        yield np.searchsorted(self.rows, codes), weights.astype(np.float32)


class Dealt:
    """Group labels dealt out at random to the users whose group is known; past `EXACT`, each by itself."""

    def __init__(self, codes: Ints, known: int, draws: int, seed: int, where: Sequence[Any] = ()) -> None:
        self.draws = draws
        labelled = codes < known
        self.sizes = np.bincount(codes[labelled], minlength=known)
        self._labels: npt.NDArray[np.int32] | None = None
        rng = stream(seed, "labels", *where)
        if len(codes) * draws <= EXACT:
            self._labels = np.full((len(codes), draws), -1, dtype=np.int32)
            self._labels[labelled] = rng.permuted(np.tile(codes[labelled], (draws, 1)), axis=1).T
        self.rows, self._known, self._rng = np.flatnonzero(self.sizes), known, rng
        self.rest = int(self.sizes[self.rows].argmax()) if len(self.rows) else None

    def of_users(self, first: int, codes: Ints) -> Iterator[Weighted]:
        """For every group, which users have its label in which draw."""
        if self._labels is not None:
            labels = self._labels[first : first + len(codes)]
        else:
            labels = self._dealt(len(codes))
            labels[codes >= self._known] = -1
        for place, row in enumerate(self.rows):
            if place == self.rest:
                yield place, (codes < self._known)[:, None].astype(np.float32)
            else:
                yield place, (labels == row).astype(np.float32)

    def _dealt(self, users: int) -> npt.NDArray[np.int32]:
        """Labels of some users, each by itself; a few users at a time, since random numbers are wide."""
        labels = np.zeros((users, self.draws), dtype=np.int32)
        edges = np.cumsum(self.sizes) / self.sizes.sum()
        for start in range(0, users, AT_ONCE):
            some = labels[start : start + AT_ONCE]
            lots = self._rng.random(some.shape)
            for edge in edges:
                some += lots >= edge
        return labels


class Swapped:
    """Which users two systems are swapped for: one half of them in each draw, or with `other` the other half."""

    rest = None

    def __init__(self, codes: Ints, draws: int, seed: int, where: Sequence[Any] = (), *, other: bool = False) -> None:
        self.draws, self.rows, self._other = draws, np.unique(codes), other
        self._rng = stream(seed, "swaps of users", *where)

    def of_users(self, first: int, codes: Ints) -> Iterator[Weighted]:
        """The weights of some users; each takes whole words of random bits, so blocks of users change nothing."""
        del first  # users come in order
        words = self._rng.integers(0, 1 << 64, (len(codes), -(-self.draws // 64)), dtype=np.uint64)
        bits = np.unpackbits(words.view(np.uint8), axis=1)[:, : self.draws]
        yield np.searchsorted(self.rows, codes), (bits ^ 1 if self._other else bits).astype(np.float32)


def _poisson(rng: np.random.Generator, users: int, draws: int) -> npt.NDArray[np.uint8]:
    """Poisson(1) counts from 16 random bits each; every user takes whole words, so blocks of users change nothing."""
    words = -(-draws // 4)
    bits = rng.integers(0, 1 << 64, (users, words), dtype=np.uint64).view(np.uint16)[:, :draws]
    return _POISSON[bits]


def _poisson_table() -> npt.NDArray[np.uint8]:
    terms = np.cumprod(np.concatenate([[1.0], 1 / np.arange(1, 12)])) * np.exp(-1.0)
    return np.searchsorted(np.cumsum(terms), (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)


_POISSON = _poisson_table()


@dataclass(frozen=True, slots=True)
class Question:
    """A metric, and the groups it compares (None where it looks at all users together)."""

    ask: Ask
    pair: tuple[int, int] | None

    def on(self, tally: Crosstab) -> Floats:
        """The value on every replicate of the tally."""
        found = self.ask.on(tally if self.pair is None else tally.between(*self.pair))
        return np.broadcast_to(found, tally.counts.shape[:-2])  # a metric may say the same of all of them


def values(replicates: Replicates, total: Crosstab, questions: Sequence[Question]) -> list[Floats]:
    """Every question on every replicate."""
    found: list[list[Floats]] = [[] for _ in questions]
    for tally in replicates.crosstabs(total):
        for question, draws in zip(questions, found, strict=True):
            draws.append(question.on(tally))
    return [np.concatenate(draws) for draws in found]


def ends(
    question: Question, estimate: float, draws: Floats, how: Interval, users: int, chance: Floats | float = np.nan
) -> tuple[float, float]:
    """Interval ends; fewer draws than asked for (see `affordable`) give an error, not percentiles.

    A distance between two groups reads the noise of both as distance, so its bias is taken off. Other metrics say what
    so many users are shown, and their interval is for as many others. A distance that labels dealt out at random (draws of
    `chance`) reach often enough is not told apart from none: the interval then starts there.
    """
    span, apart = question.ask.span, question.pair is not None
    low, high = drawn_ends(estimate, draws, how, span, users, biased=apart)
    if apart and how.kind == "bootstrap" and span[0] == question.ask.ideal == 0:
        reached = np.ndim(chance) > 0 and np.mean(np.asarray(chance) >= estimate) > (1 - how.level) / 2
        low = 0.0 if reached else min(low, without_noise(estimate, draws, how.level, users))
    return low, high


def plans(
    codes: Ints, names: Sequence[str], known: int, how: Interval, deals: int, seed: int, items: int, slots: float,
    where: Sequence[Any] = (),
) -> tuple[Resampled | None, Dealt | None]:  # fmt: skip
    """The draws that a slice needs, in streams of its own: users resampled, and labels dealt out."""
    present = len(np.unique(codes))
    resampled = dealt = None
    if how.kind != "none" and len(codes):
        resampled = Resampled(codes, names, affordable(how.draws or NORMAL_DRAWS, present, items, slots), seed, where)
    if deals and known and len(codes):
        dealt = Dealt(codes, known, affordable(deals, known, items, slots * known), seed, where)
    return resampled, dealt
