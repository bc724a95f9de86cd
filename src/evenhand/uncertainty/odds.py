"""Equalised odds on data: how far apart the groups' scores lie among those with the same outcome, and how sure that is.

No bins: the distance is Kolmogorov's, between two groups' distributions of the score given the outcome. A largest distance is
pushed up by noise, and the more so the closer it is to none. So the lower end takes off what noise adds over all scores where
the distance might be the largest (the derivative of a maximum, Fang and Santos 2019), and the upper end adds the noise of the
one score where it is; noise is drawn with normal multipliers per row or per cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    at = np.isin(rows.group, (group, reference))
    order = np.argsort(rows.score[at], kind="stable")
    score, outcome, weight = (x[at][order] for x in (rows.score, rows.outcome, rows.mass))
    mine = (rows.group[at] == group)[order]
    grades = cuts(outcome)
    sides = [(cut, reached) for cut in grades for reached in ((True,) if opportunity else (True, False))]
    given = [outcome >= cut if reached else outcome < cut for cut, reached in sides]
    usable = [k for k, g in enumerate(given) if min(np.count_nonzero(g & mine), np.count_nonzero(g & ~mine)) >= FEWEST]
    if not usable:
        return Odds(np.nan, np.nan, np.nan, np.nan, skipped=True)
    last = np.append(score[1:] != score[:-1], True)  # distribution functions are compared where scores change
    sets = [given[k] for k in usable]
    found = _largest(mine, sets, weight, last)
    draws = max(FEWEST_DRAWS, min(DRAWS, MOST_WORK // (len(score) * len(sets))))
    rng = stream(SEED, "odds", len(score))
    by_chance = [_largest(rng.permutation(mine), sets, weight, last) for _ in range(draws)]
    cluster = None if rows.cluster is None else np.unique(rows.cluster[at][order], return_inverse=True)[1]
    few = cluster is not None and int(cluster.max()) + 1 < FEWEST_CLUSTERS
    grade = np.searchsorted(grades, outcome, side="right")
    noise = _Noise.of(_cells(last), mine, grade, weight, len(grades) + 1)
    reach = [(grades.index(sides[k][0]) + 1, sides[k][1]) for k in usable]
    low, high = (np.nan, np.nan) if few else noise.interval(found, reach, cluster, level)
    return Odds(found, low, high, float(np.nanmean(by_chance)), skipped=len(usable) < len(given), few_clusters=few)


def _largest(mine: Bools, given: list[Bools], weight: Floats, last: Bools) -> float:
    return max(distance(mine & g, ~mine & g, weight, last) for g in given)


def _cells(last: Bools) -> Ints:
    """A cell of the score for each row of a sorted column: every score its own, or neighbours together where they are many."""
    own = np.concatenate([[0], np.cumsum(last)[:-1]]).astype(np.int64)
    many = int(own[-1]) + 1
    return own if many <= MOST_CELLS else np.arange(len(own)) * MOST_CELLS // len(own)


@dataclass(frozen=True)
class _Noise:
    """Rows by side (0 the group, 1 the reference), grade of the outcome and cell of the score.

    Attributes
    ----------
    place : position of each row in a table of this shape. shape : sides, grades, cells. weight : of each row.
    """

    place: Ints
    shape: tuple[int, int, int]
    weight: Floats

    @classmethod
    def of(cls, cell: Ints, mine: Bools, grade: Ints, weight: Floats, grades: int) -> _Noise:
        shape = (2, grades, int(cell.max()) + 1)
        side = np.where(mine, 0, 1)
        return cls(np.ravel_multi_index((side, grade, cell), shape), shape, weight)

    def interval(
        self, found: float, reach: list[tuple[int, bool]], cluster: Ints | None, level: float
    ) -> tuple[float, float]:
        """Both ends, from how the distance moves along the scores where it is, or might be, the largest."""
        held = np.bincount(self.place, self.weight, int(np.prod(self.shape))).reshape(self.shape)
        drawn = self._drawn(cluster)
        apart, moves = [], []
        for cut, reached in reach:
            grades = slice(cut, None) if reached else slice(None, cut)
            mass = held[:, grades].sum(1)
            share = np.cumsum(mass, -1) / mass.sum(-1, keepdims=True)
            noise = np.cumsum(drawn[:, :, grades].sum(2), -1)
            noise = (noise - share * noise[..., -1:]) / mass.sum(-1)[:, None]
            apart.append(share[0] - share[1])
            moves.append(noise[:, 0] - noise[:, 1])
        far, move = np.concatenate(apart), np.concatenate(moves, axis=-1)
        tail = (1 - level) / 2
        slack = 2 * np.quantile(
            np.abs(move).max(-1), level
        )  # so far below the largest a distance might be the largest in truth
        near = [sign * move[:, sign * far >= min(found, np.abs(far).max()) - slack] for sign in (1, -1)]
        pushed = np.quantile(np.concatenate(near, axis=-1).max(-1), 1 - tail)
        peak = int(np.abs(far).argmax())
        fallen = np.quantile(np.sign(far[peak]) * move[:, peak], tail)
        return float(np.clip(found - pushed, 0.0, found)), float(np.clip(found - fallen, found, 1.0))

    def _drawn(self, cluster: Ints | None) -> Floats:
        """(draws, 2, grades, cells) sums of weights times normal multipliers, one for each row or each cluster."""
        rng = stream(SEED, "odds interval", len(self.place))
        size = int(np.prod(self.shape))
        if cluster is None:
            spread = np.sqrt(np.bincount(self.place, self.weight**2, size))
            return (rng.standard_normal((MULTIPLIERS, size)) * spread).reshape(MULTIPLIERS, *self.shape)
        from scipy import sparse

        parts = sparse.csr_array((self.weight, (self.place, cluster)), shape=(size, int(cluster.max()) + 1))
        drawn = parts @ rng.standard_normal((parts.shape[1], MULTIPLIERS))
        return np.asarray(drawn).T.reshape(MULTIPLIERS, *self.shape)


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
