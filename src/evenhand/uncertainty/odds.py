"""Equalised odds on data: how far apart the groups' scores lie among those with the same outcome, and how sure that is.

No bins: the distance is Kolmogorov's, between two groups' distributions of the score given the outcome. A largest distance is
pushed up by noise, and the more so the closer it is to none. So the lower end takes off what noise adds over all scores where
the distance might be the largest (the derivative of a maximum, Fang and Santos 2019), and the upper end adds the noise of the
one score where it is; noise is drawn with normal multipliers per row or per cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.outcome import FEWEST_EVENTS, critical
from evenhand.metrics.outcome_rates import cuts, distance, rates
from evenhand.tallies.moments import Ints
from evenhand.tallies.rows import Rows
from evenhand.uncertainty.intervals import stream

Bools = np.typing.NDArray[np.bool_]

FEWEST = 30
"""Rows of either group, among those with the same outcome, from which on their scores are compared."""

FEWEST_CLUSTERS = 10
DRAWS, FEWEST_DRAWS = 199, 19
MOST_WORK = 40_000_000
MOST_NUMBERS = 1 << 17
MULTIPLIERS = 499
MOST_CELLS = 400
"""Scores at which the noise is drawn; the distance itself is taken at every score."""

SEED = 20_220


@dataclass(frozen=True)
class Odds:
    """The largest Kolmogorov distance to the reference over outcomes, its interval, its mean under permuted labels, and whether
    outcomes were skipped, or all clusters too few for an interval.
    """

    estimate: float
    low: float
    high: float
    chance: float
    skipped: bool
    few_clusters: bool = False


def odds_gap(rows: Rows, group: int, reference: int, level: float, *, opportunity: bool = False) -> Odds:
    """Scores of a group against the reference's, given the outcome; graded outcomes are cut at every grade but the lowest.

    `opportunity` : only among those who reach a grade (equal opportunity), not among those who miss it as well.
    """
    return Compared.of(rows, group, reference).odds(level, opportunity=opportunity)


Side = tuple[int, bool]
"""A grade, counted from 0, at which outcomes are cut, and whether rows reach it or miss it."""


@dataclass(frozen=True)
class Compared:
    """Rows of a group and of the reference, sorted by score. What several measures share is worked out once.

    Attributes
    ----------
    mine : whose rows are the group's. last : the last row of each score, where distribution functions are compared.
    weight : None where every row weighs one.
    """

    outcome: Floats
    weight: Floats | None
    mine: Bools
    last: Bools
    cluster: Ints | None
    dealt: dict[Side, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Rows, group: int, reference: int) -> Compared:
        at = np.flatnonzero((rows.group == group) | (rows.group == reference))
        at = at[np.argsort(rows.score[at], kind="stable")]
        score = rows.score[at]
        cluster = None if rows.cluster is None else np.unique(rows.cluster[at], return_inverse=True)[1]
        last = np.append(score[1:] != score[:-1], True)
        weight = None if rows.weight is None else rows.weight[at]
        return cls(rows.outcome[at], weight, rows.group[at] == group, last, cluster)

    @cached_property
    def grades(self) -> list[float]:
        return cuts(self.outcome)

    @cached_property
    def noise(self) -> _Noise:
        grade = np.searchsorted(self.grades, self.outcome, side="right")
        return _Noise.of(_cells(self.last), self.mine, grade, self.mass, len(self.grades) + 1, self.cluster)

    @cached_property
    def mass(self) -> Floats:
        return np.ones(len(self.mine)) if self.weight is None else self.weight

    def given(self, side: Side) -> Bools:
        """The rows on one side of a cut."""
        cut, reached = side
        return np.asarray(self.outcome >= self.grades[cut] if reached else self.outcome < self.grades[cut])

    def odds(self, level: float, *, opportunity: bool = False) -> Odds:
        """The largest distance over the sides of all cuts, with its interval; `opportunity` looks at those who reach one."""
        reached = (True,) if opportunity else (True, False)
        sides = [(cut, side) for cut in range(len(self.grades)) for side in reached]
        usable = [side for side in sides if self._is_usable(side)]
        if not usable:
            return Odds(np.nan, np.nan, np.nan, np.nan, skipped=True)
        sets = [self.given(side) for side in usable]
        found = max(distance(self.mine & g, ~self.mine & g, self.mass, self.last) for g in sets)
        by_chance = self._by_chance(usable)
        few = self.cluster is not None and int(self.cluster.max()) + 1 < FEWEST_CLUSTERS
        low, high = (np.nan, np.nan) if few else self.noise.interval(found, usable, level)
        return Odds(found, low, high, float(np.nanmean(by_chance)), skipped=len(usable) < len(sides), few_clusters=few)

    def _is_usable(self, side: Side) -> bool:
        given = self.given(side)
        ours = np.count_nonzero(given & self.mine)
        return min(ours, np.count_nonzero(given) - ours) >= FEWEST

    def _by_chance(self, sides: list[Side]) -> Floats:
        """The largest distance of these sides, for every time that the rows are dealt to the two groups again."""
        many = len(self.mine)
        draws = max(FEWEST_DRAWS, min(DRAWS, MOST_WORK // (many * len(sides))))
        if wanted := [side for side in sides if len(self.dealt.get(side, ())) < draws]:
            sets = [_Dealt.of(self.given(side), self.mass, self.last) for side in wanted]
            rng, at_once = stream(SEED, "odds", many), max(1, MOST_NUMBERS // many)
            parts: list[list[Floats]] = [[] for _ in sets]
            for start in range(0, draws, at_once):
                again = rng.permuted(np.broadcast_to(self.mine, (min(at_once, draws - start), many)), axis=1)
                for part, one in zip(parts, sets, strict=True):
                    part.append(one.distances(again))
            self.dealt.update({side: np.concatenate(part) for side, part in zip(wanted, parts, strict=True)})
        return np.max([self.dealt[side][:draws] for side in sides], axis=0)


@dataclass(frozen=True)
class _Dealt:
    """A set of rows, sorted by score, that is dealt to two groups again and again.

    Attributes
    ----------
    at : the rows. weight : theirs. reach : weight up to and including each. ends : the last of each score; None where no two tie.
    """

    at: Ints
    weight: Floats
    reach: Floats
    ends: Ints | None

    @classmethod
    def of(cls, given: Bools, weight: Floats, last: Bools) -> _Dealt:
        at, place = np.flatnonzero(given), np.cumsum(last)
        score = place[at] - last[at]  # which of the different scores
        ends = np.flatnonzero(np.append(score[1:] != score[:-1], True))
        return cls(at, weight[at], np.cumsum(weight[at]), None if len(ends) == len(at) else ends)

    def distances(self, mine: Bools) -> Floats:
        """Kolmogorov distance of those dealt to the group from the others, for every deal."""
        held = mine[:, self.at] * self.weight
        np.cumsum(held, axis=1, out=held)
        ours, whole = held[:, -1].copy(), self.reach[-1]
        held -= (ours / whole)[:, None] * self.reach
        if self.ends is not None:
            held = held[:, self.ends]
        both = ours * (whole - ours)
        return np.divide(np.maximum(held.max(1), -held.min(1)) * whole, both, out=np.zeros(len(both)), where=both > 0)


def _cells(last: Bools) -> Ints:
    """A cell of the score for each row of a sorted column: every score its own, or neighbours together where they are many."""
    own = np.concatenate([[0], np.cumsum(last)[:-1]]).astype(np.int64)
    many = int(own[-1]) + 1
    return own if many <= MOST_CELLS else np.arange(len(own)) * MOST_CELLS // len(own)


@dataclass(frozen=True)
class _Moves:
    """Along the scores, on one side of a cut: how `far` apart the two groups are, and how noise `moves` that in every draw."""

    far: Floats
    moves: Floats

    @cached_property
    def top(self) -> Floats:
        return np.asarray(self.moves.max(-1))

    @cached_property
    def bottom(self) -> Floats:
        return np.asarray(self.moves.min(-1))

    def outward(self, least: float) -> list[Floats]:
        """The furthest that noise moves a distance of at least so much, in every draw."""
        found = []
        for sign, all_of_them in ((1, self.top), (-1, -self.bottom)):
            near = sign * self.far >= least
            if near.all():
                found.append(all_of_them)
            elif near.any():
                some = self.moves[:, near]
                found.append(some.max(-1) if sign == 1 else -some.min(-1))
        return found


@dataclass(frozen=True)
class _Noise:
    """Rows by side (0 the group, 1 the reference), grade of the outcome and cell of the score.

    Attributes
    ----------
    place : position of each row in a table of this shape. shape : sides, grades, cells. weight, cluster : of each row.
    """

    place: Ints
    shape: tuple[int, int, int]
    weight: Floats
    cluster: Ints | None
    known: dict[Side, _Moves] = field(default_factory=dict)

    @classmethod
    def of(
        cls, cell: Ints, mine: Bools, grade: Ints, weight: Floats, grades: int, cluster: Ints | None
    ) -> _Noise:
        shape = (2, grades, int(cell.max()) + 1)
        side = np.where(mine, 0, 1)
        return cls(np.ravel_multi_index((side, grade, cell), shape), shape, weight, cluster)

    def interval(self, found: float, sides: list[Side], level: float) -> tuple[float, float]:
        """Both ends, from how the distance moves along the scores where it is, or might be, the largest."""
        along = [self._moves(side) for side in sides]
        tail = (1 - level) / 2
        largest = np.max([np.maximum(one.top, -one.bottom) for one in along], axis=0)
        slack = 2 * np.quantile(largest, level)  # so far below the largest a distance might be the largest in truth
        peaks = [float(np.abs(one.far).max()) for one in along]
        least = min(found, max(peaks)) - slack
        pushed = np.quantile(np.max([move for one in along for move in one.outward(least)], axis=0), 1 - tail)
        there = along[int(np.argmax(peaks))]
        peak = int(np.abs(there.far).argmax())
        fallen = np.quantile(np.sign(there.far[peak]) * there.moves[:, peak], tail)
        return float(np.clip(found - pushed, 0.0, found)), float(np.clip(found - fallen, found, 1.0))

    def _moves(self, side: Side) -> _Moves:
        if side not in self.known:
            cut, reached = side
            grades = range(cut + 1, self.shape[1]) if reached else range(cut + 1)
            mass = self.held[:, list(grades)].sum(1)
            whole = mass.sum(-1)
            share = np.cumsum(mass, -1) / whole[:, None]
            scale = (1 / whole[0], -1 / whole[1])
            parts = [(self.drawn[:, s, g], scale[s] * self.spread[s, g], s) for g in grades for s in range(2)]
            moves, ends = np.zeros((len(self.drawn), self.shape[2])), np.zeros((len(self.drawn), 2))
            for drawn, spread, s in parts:
                moves += drawn * spread
                ends[:, s] += drawn @ spread
            np.cumsum(moves, axis=-1, out=moves)
            moves -= ends @ share
            self.known[side] = _Moves(share[0] - share[1], moves)
        return self.known[side]

    @cached_property
    def held(self) -> Floats:
        """(2, grades, cells) weight."""
        return np.bincount(self.place, self.weight, int(np.prod(self.shape))).reshape(self.shape)

    @cached_property
    def spread(self) -> Floats:
        """(2, grades, cells) how much of a drawn number moves the weight of a cell: sums by cluster have it already."""
        if self.cluster is not None:
            return np.ones(self.shape)
        return np.sqrt(np.bincount(self.place, self.weight**2, int(np.prod(self.shape)))).reshape(self.shape)

    @cached_property
    def drawn(self) -> Floats:
        """(draws, 2, grades, cells) normal numbers; with clusters, sums of weights times one for each cluster."""
        rng = stream(SEED, "odds interval", len(self.place))
        size = int(np.prod(self.shape))
        if self.cluster is None:
            return rng.standard_normal((MULTIPLIERS, *self.shape))
        from scipy import sparse

        parts = sparse.csr_array((self.weight, (self.place, self.cluster)), shape=(size, int(self.cluster.max()) + 1))
        drawn = parts @ rng.standard_normal((parts.shape[1], MULTIPLIERS))
        return np.ascontiguousarray(np.asarray(drawn).T).reshape(MULTIPLIERS, *self.shape)


@dataclass(frozen=True)
class Rate:
    """How much more often a group is treated than the reference, among some of the rows."""

    estimate: float
    low: float
    high: float


def rate_gap(rows: Rows, given: Bools, group: int, reference: int, level: float) -> Rate:
    """Difference of two weighted shares, with a normal interval whose error is that of rows, or of clusters.

    No interval where either side has fewer than 30 rows, or fewer than 5 that were treated or were not.
    """
    found = rates(rows, given, (group, reference))
    gap, nothing = found[0] - found[1], (np.nan, np.nan)
    treated = np.zeros(len(rows.score), dtype=bool) if rows.treated is None else rows.treated
    sides = [given & (rows.group == g) for g in (group, reference)]
    counts = [np.count_nonzero(side & kind) for side in sides for kind in (treated, ~treated)]
    if group == reference or min(counts) < FEWEST_EVENTS or min(map(np.count_nonzero, sides)) < FEWEST:
        return Rate(gap, *nothing)
    w, pull = rows.mass, np.zeros(len(rows.score))
    for side, rate, sign in zip(sides, found, (1, -1), strict=True):
        pull[side] = sign * w[side] * (treated[side] - rate) / w[side].sum()
    if rows.cluster is None:
        sizes = [np.count_nonzero(side) for side in sides]
        variance = float(np.sum([(pull[side] ** 2).sum() * n / (n - 1) for side, n in zip(sides, sizes, strict=True)]))
        freedom = np.inf
    else:
        here = sides[0] | sides[1]
        parts = np.bincount(np.unique(rows.cluster[here], return_inverse=True)[1], pull[here])
        if len(parts) < FEWEST_CLUSTERS:
            return Rate(gap, *nothing)
        variance, freedom = float((parts**2).sum()) * len(parts) / (len(parts) - 1), len(parts) - 1.0
    wide = float(critical(level, freedom) * np.sqrt(variance))
    return Rate(gap, max(-1.0, gap - wide), min(1.0, gap + wide))
