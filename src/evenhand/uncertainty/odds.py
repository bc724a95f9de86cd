"""Equalised odds on data: how far apart the groups' scores lie among those with the same outcome, and how sure that is.

No bins: the distance is Kolmogorov's, between two groups' distributions of the score given the outcome. A largest distance is
pushed up by noise, and the more so the closer it is to none. So the lower end takes off what noise adds over all scores where
the distance might be the largest (the derivative of a maximum, Fang and Santos 2019), and the upper end adds the noise of the
one score where it is; noise is drawn with normal multipliers per row or per cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.outcome import FEWEST_EVENTS, critical
from evenhand.metrics.outcome_rates import cuts, rates
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
AT_ONCE = 1 << 12
"""Clusters whose multipliers are held at a time."""

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


def odds_gaps(rows: Rows, group: int, reference: int, level: float, opportunity: Sequence[bool]) -> list[Odds]:
    """Scores of a group against the reference's, given the outcome; graded outcomes are cut at every grade but the lowest.

    `opportunity` : for every answer that is wanted, whether only those who reach a grade are looked at (equal opportunity),
    not those who miss it as well. The labels are permuted, and the noise is drawn, once for all of them.
    """
    at = np.isin(rows.group, (group, reference))
    order = np.argsort(rows.score[at], kind="stable")
    score, outcome, weight = (x[at][order] for x in (rows.score, rows.outcome, rows.mass))
    mine = (rows.group[at] == group)[order]
    grades = cuts(outcome)
    sides = [(cut, reached) for cut in grades for reached in (True, False)]
    given = [outcome >= cut if reached else outcome < cut for cut, reached in sides]
    enough = [min(np.count_nonzero(g & mine), np.count_nonzero(g & ~mine)) >= FEWEST for g in given]
    asked = [[k for k, (_, reached) in enumerate(sides) if reached or not only] for only in opportunity]
    usable = [[k for k in own if enough[k]] for own in asked]
    draws = [max(FEWEST_DRAWS, min(DRAWS, MOST_WORK // (len(score) * len(own)))) if own else 0 for own in usable]
    rng = stream(SEED, "odds", len(score))
    deals = [mine, *(rng.permutation(mine) for _ in range(max(draws)))]
    looked_at = sorted({k for own in usable for k in own})
    far = np.full((len(sides), len(deals)), np.nan)
    for k in looked_at:
        curves = _Curves.of(given[k], score, weight)
        most = 1 + max(count for own, count in zip(usable, draws, strict=True) if k in own)
        far[k, :most] = [curves.apart(dealt) for dealt in deals[:most]]
    cluster = None if rows.cluster is None else np.unique(rows.cluster[at][order], return_inverse=True)[1]
    few = cluster is not None and int(cluster.max(initial=-1)) + 1 < FEWEST_CLUSTERS
    noise = None
    if looked_at and not few:
        grade, last = np.searchsorted(grades, outcome, side="right"), np.append(score[1:] != score[:-1], True)
        noise = _Noise.of(_cells(last), mine, grade, weight, len(grades) + 1, cluster)
    found = []
    for own, every, count in zip(usable, asked, draws, strict=True):
        if not own:
            found.append(Odds(np.nan, np.nan, np.nan, np.nan, skipped=True))
            continue
        largest, *chance = far[own, : count + 1].max(0).tolist()
        reach = [(grades.index(sides[k][0]) + 1, sides[k][1]) for k in own]
        low, high = (np.nan, np.nan) if noise is None else noise.interval(largest, reach, level)
        found.append(Odds(largest, low, high, float(np.mean(chance)), skipped=len(own) < len(every), few_clusters=few))
    return found


@dataclass(frozen=True)
class _Curves:
    """Some of the rows, sorted by score, of which a set is compared with the rest.

    Attributes
    ----------
    at : the rows. weight : theirs, or None where it is one each. ends : the last of them with each score.
    upto : their weight up to each end.
    """

    at: Ints
    weight: Floats | None
    ends: Ints
    upto: Floats

    @classmethod
    def of(cls, given: Bools, score: Floats, weight: Floats) -> _Curves:
        at = np.flatnonzero(given)
        ends = np.flatnonzero(np.append(score[at][1:] != score[at][:-1], True))
        return cls(at, None if np.all(weight == 1) else weight[at], ends, np.cumsum(weight[at])[ends])

    def apart(self, mine: Bools) -> float:
        """Kolmogorov distance between the scores of those who are `mine` and of the others."""
        own = mine[self.at] if self.weight is None else self.weight * mine[self.at]
        held = np.cumsum(own, dtype=np.float64)[self.ends]
        many, others = held[-1], self.upto[-1] - held[-1]
        if not many > 0 or not others > 0:
            return 0.0
        held *= 1 / many + 1 / others
        held -= self.upto / others
        return float(max(held.max(), -held.min()))


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
    held : (2, grades, cells) their weight. drawn : (draws, 2, grades, cells) sums of weights times normal multipliers, one
        for each row or each cluster.
    """

    held: Floats
    drawn: Floats

    @classmethod
    def of(cls, cell: Ints, mine: Bools, grade: Ints, weight: Floats, grades: int, cluster: Ints | None) -> _Noise:
        shape = (2, grades, int(cell.max()) + 1)
        place = np.ravel_multi_index((np.where(mine, 0, 1), grade, cell), shape)
        held = np.asarray(np.bincount(place, weight, int(np.prod(shape))), dtype=np.float64).reshape(shape)
        return cls(held, _drawn(place, held.size, weight, cluster).reshape(MULTIPLIERS, *shape))

    def interval(self, found: float, reach: list[tuple[int, bool]], level: float) -> tuple[float, float]:
        """Both ends, from how the distance moves along the scores where it is, or might be, the largest."""
        apart, moves = [], []
        for cut, reached in reach:
            grades = slice(cut, None) if reached else slice(None, cut)
            mass = self.held[:, grades].sum(1)
            share = np.cumsum(mass, -1) / mass.sum(-1, keepdims=True)
            noise = np.cumsum(self.drawn[:, :, grades].sum(2), -1)
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


def _drawn(place: Ints, size: int, weight: Floats, cluster: Ints | None) -> Floats:
    """(draws, size) sums over the rows of each place; multipliers are drawn for some clusters at a time."""
    rng = stream(SEED, "odds interval", len(place))
    if cluster is None:
        return rng.standard_normal((MULTIPLIERS, size)) * np.sqrt(np.bincount(place, weight**2, size))
    from scipy import sparse

    many = int(cluster.max()) + 1
    parts, out = sparse.csr_array((weight, (cluster, place)), shape=(many, size)), np.zeros((size, MULTIPLIERS))
    for start in range(0, many, AT_ONCE):
        some = parts[start : start + AT_ONCE]
        out += np.asarray(some.T @ rng.standard_normal((some.shape[0], MULTIPLIERS)))
    return out.T


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
