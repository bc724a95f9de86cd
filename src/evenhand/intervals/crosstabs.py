"""Bootstrap over users and permuted user labels: weights that go along while the scores are read once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.kinds import ROUNDING, Interval, drawn_ends, t_quantile, without_noise
from evenhand.labels import stream
from evenhand.tallies.crosstab import Crosstab, ResampledLists, Times, UserLists
from evenhand.tallies.ragged import Bools, Ints

WORK = 4e9
"""Slots times draws that replicates may cost: a few seconds."""

EXACT = 1 << 24
"""Users times draws up to which users are drawn within their group and labels permuted exactly."""

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
        self._stream = seed, "users", *where

    def between(self, start: int, stop: int) -> Iterator[Weighted]:
        """The weights of some draws; each user counts in the row of their group."""
        if self.exact:
            yield self._places, self._weights[:, start:stop]
            return
        yield self._places, _POISSON[_lots(self._stream, len(self._places), range(start, stop), np.uint16)]


class PermutedLabels:
    """Permuted group labels of the users who have one; past `EXACT`, drawn independently."""

    def __init__(self, codes: Ints, groups: int, draws: int, seed: int, where: Sequence[Any] = ()) -> None:
        self.draws, self._codes, self._stream = draws, codes, (seed, "labels", *where)
        self.exact = len(codes) * draws <= EXACT
        self._labelled = codes < groups
        self.sizes = np.bincount(codes[self._labelled], minlength=groups)
        self.rows = np.flatnonzero(self.sizes)

    def between(self, start: int, stop: int) -> Iterator[Weighted]:
        """For every group, which users have its label in which of these draws."""
        labels = self.permuted[:, start:stop] if self.exact else self._independent(range(start, stop))
        for place, row in enumerate(self.rows):
            yield place, (labels == row).view(np.uint8)

    @cached_property
    def permuted(self) -> npt.NDArray[Any]:
        """(U, D) permuted labels, made when first needed."""
        labels, codes = self._unlabelled(self.draws), self._codes[self._labelled]
        labels[self._labelled] = stream(*self._stream).permuted(np.tile(codes, (self.draws, 1)), axis=1).T
        return labels

    def _independent(self, draws: range) -> npt.NDArray[Any]:
        """(U, D) labels of users, each drawn by itself with the groups' shares."""
        labels = self._unlabelled(len(draws))
        lots = _lots(self._stream, len(labels), draws, np.uint32)
        edges = (np.cumsum(self.sizes)[:-1] / self.sizes.sum() * (1 << 32)).astype(np.int64)
        labels[self._labelled] = np.searchsorted(edges, lots[self._labelled], side="right")
        return labels

    def _unlabelled(self, draws: int) -> npt.NDArray[Any]:
        groups = len(self.sizes)
        return np.full((len(self._codes), draws), groups, dtype=np.min_scalar_type(groups + 1))


@dataclass(frozen=True, slots=True)
class PermutedPair:
    """Permuted labels of the users of two groups; users of other groups say nothing about these two.

    Attributes
    ----------
    users : the users of either group; is_second : which of them are of the second.
    labels : their permuted labels; None where nothing is permuted.
    """

    users: Ints
    is_second: Bools
    labels: PermutedLabels | None

    @classmethod
    def from_codes(
        cls, codes: Ints, pair: tuple[int, int], deals: int, seed: int, items: int, slots: float, where: Sequence[Any]
    ) -> PermutedPair:
        """Labels of two groups of a slice, in a random stream of their own."""
        users = np.flatnonzero((codes == pair[0]) | (codes == pair[1]))
        is_second = codes[users] == pair[1]
        if not deals or is_second.all() or not is_second.any():
            return cls(users, is_second, None)
        draws = affordable_draws(deals, 2, items, 2 * slots * len(users) / len(codes))
        return cls(users, is_second, PermutedLabels(codes[users], max(pair) + 1, draws, seed, where))

    def lists(self, lists: UserLists) -> ResampledLists | None:
        """The lists of these users under permuted labels."""
        if self.labels is None:
            return None
        chosen = lists if len(self.users) == len(lists) else lists.take(self.users)
        return ResampledLists(chosen, self.labels)

    def p_of_distance(self, estimate: float, draws: Floats) -> float:
        """How often permuted labels give at least this distance; beyond all draws, a bound from their spread.

        A distance is the norm of a difference: that of one item is half normal, with a skewness of 1, that of many nearly
        normal. The gamma law of the same mean, error and skewness (at least 1) has a heavier tail, and bounds p where no draw
        reaches the estimate.
        """
        from scipy.special import gammaincc

        reached = int((draws >= estimate - ROUNDING).sum())
        p = (1 + reached) / (1 + len(draws))
        if reached or not np.isfinite(draws).all() or not draws.std() > ROUNDING:
            return p
        z = (np.append(draws, estimate) - draws.mean()) / draws.std(ddof=1)
        shape = 4 / max(1.0, float((z[:-1] ** 3).mean())) ** 2
        return min(p, max(float(gammaincc(shape, shape + math.sqrt(shape) * z[-1])), self._least_p))

    def p_of_means(self, sums: Floats, sizes: Floats) -> float:
        """Two-sided p that the two groups have the same mean, `sums` over `sizes` of each of these users.

        The studentised difference under permuted labels: exact where users of both groups are alike, and right in large
        groups where only their means are (Chung and Romano, 2013). Where no draw reaches it, and for many users, Welch's t.
        """
        from scipy.special import stdtr

        second = self.is_second[:, None]
        if min(second.sum(), (~second).sum()) < 2 or not sizes[second[:, 0]].any() or not sizes[~second[:, 0]].any():
            return math.nan
        centred = sums - sums.sum() / sizes.sum() * sizes
        centred[np.abs(centred) <= 1e-12 * np.abs(sums).max()] = 0.0  # rounding is no variation
        terms = np.column_stack([centred, sizes, centred**2, centred * sizes, sizes**2])
        t, freedom = _studentised(second, terms)
        p = float(2 * stdtr(freedom[0], -t[0]))
        if self.labels is None or not self.labels.exact:
            return p
        draws, _ = _studentised(self.labels.permuted == self.labels.rows[0], terms)  # t is the same of either group
        reached = int((draws >= t[0] * (1 - ROUNDING)).sum())
        share = (1 + reached) / (1 + len(draws))
        return share if reached else min(share, max(p, self._least_p))

    @property
    def _least_p(self) -> float:
        """One over the number of ways to deal the labels."""
        n = len(self.users)
        return 1 / math.comb(n, int(self.is_second.sum())) if n < 60 else 0.0


def _studentised(second: npt.NDArray[Any], terms: Floats) -> tuple[Floats, Floats]:
    """Absolute difference of two means in standard errors (D,), and Welch's degrees of freedom, from (U, D) labels."""
    sums_b = second.T.astype(np.float64) @ terms
    sums_a = terms.sum(0) - sums_b
    n_b = second.sum(0)
    means, variances, freedoms = [], [], []
    for (x, w, xx, xw, ww), n in ((sums_a.T, len(second) - n_b), (sums_b.T, n_b)):
        with np.errstate(divide="ignore", invalid="ignore"):
            means.append(x / w)
            variances.append(np.maximum(0.0, xx - 2 * means[-1] * xw + means[-1] ** 2 * ww) / w**2 * n / (n - 1))
        freedoms.append(n - 1)
    (a, b), (var_a, var_b) = means, variances
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.abs(a - b)
        t = np.where(gap > 0, gap / np.sqrt(var_a + var_b), 0.0)
        freedom = (var_a + var_b) ** 2 / (var_a**2 / freedoms[0] + var_b**2 / freedoms[1])
    return np.nan_to_num(t, nan=0.0, posinf=np.inf), np.nan_to_num(freedom, nan=1.0)


def _lots(named: tuple[Any, ...], users: int, draws: range, kind: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    """Random bits of a kind for some draws (users, D).

    As many draws as fill a word of 64 bits have a stream of their own, so that any of them are made without the others.
    """
    each = 8 // np.dtype(kind).itemsize
    first, last = draws.start // each, -(-draws.stop // each)
    words = [stream(*named, word).bit_generator.random_raw(users) for word in range(first, last)]
    lots = np.column_stack(words).view(kind)
    return lots[:, draws.start - each * first : draws.stop - each * first]


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
        tally = tally if self.pair is None else tally.between(*self.pair)
        value = self.ask.on(tally)
        return np.broadcast_to(value, tally.counts.shape[:-2])  # a metric may say the same of all of them

    def influence(self, total: Crosstab, estimate: float) -> Floats | None:
        """(U,) what the value loses without each user; None where its metric does not say."""
        return self.ask.linearised(total, np.asarray(estimate))


def values(replicates: ResampledLists, total: Crosstab, questions: Sequence[Question]) -> list[Floats]:
    every: list[list[Floats]] = [[] for _ in questions]
    for tally in replicates.crosstabs(total):
        for question, draws in zip(questions, every, strict=True):
            draws.append(question.on(tally))
    return [np.concatenate(draws) for draws in every]


def ends(
    question: Question,
    total: Crosstab,
    estimate: float,
    draws: Floats,
    how: Interval,
    users: int,
    chance: Floats | float = np.nan,
) -> tuple[float, float]:
    """Interval ends; percentiles, or normal where draws were too few (`affordable_draws`); the jackknife where one is declared.

    A distance between two groups reads the noise of both as distance, so its bias is taken off. Other metrics say what
    so many users are shown, and their interval is for as many others. A distance that permuted labels (draws of
    `chance`) reach often enough is not significantly different from none: the interval then starts there.
    """
    if question.ask.smooth:
        return _jackknife_ends(question, total, estimate, how)
    span, compares = question.ask.span, question.pair is not None
    low, high = drawn_ends(estimate, draws, how, span, users, biased=compares)
    if compares and how.kind == "bootstrap" and span[0] == question.ask.ideal == 0:
        reached = np.ndim(chance) > 0 and np.mean(np.asarray(chance) >= estimate - ROUNDING) > (1 - how.level) / 2
        low = 0.0 if reached else min(low, without_noise(estimate, draws, how.level, users))
    return low, high


def _jackknife_ends(question: Question, total: Crosstab, estimate: float, how: Interval) -> tuple[float, float]:
    """Interval ends from what the value loses without each user, within what the volume allows.

    A draw with replacement leaves out a third of the users, and with them all that only they are shown: it tells little of
    how many items as many other users would reach (0.77 of such intervals held where lists hardly overlap). The variance of
    the jackknife is never too small on average (Efron and Stein, 1981). NaN where it loses nothing without any single user.
    """
    influence = None if how.kind == "none" or math.isnan(estimate) else question.influence(total, estimate)
    if influence is None or len(influence) < 2 or not np.abs(influence).max() > ROUNDING:
        return math.nan, math.nan
    n = len(influence)
    reach = float(t_quantile(how.level, n) * np.sqrt((n - 1) / n * (influence**2).sum()))
    least, most = question.ask.metric.attainable_on(total, **question.ask.params)
    low, high = np.fmax(estimate - reach, least), np.fmin(estimate + reach, most)
    return float(np.clip(low, *question.ask.span)), float(np.clip(high, *question.ask.span))


def resampled_users(
    codes: Ints, names: Sequence[str], how: Interval, seed: int, items: int, slots: float, where: Sequence[Any] = ()
) -> Resampled | None:
    """Resampled users of a slice, in random streams of its own; None without an interval."""
    if how.kind == "none" or not len(codes):
        return None
    draws = affordable_draws(how.draws or NORMAL_DRAWS, len(np.unique(codes)), items, slots)
    return Resampled(codes, names, draws, seed, where)
