"""Equalised odds on data: how far apart the groups' scores lie among those with the same outcome, and how sure that is.

No bins: the distance is Kolmogorov's, between two groups' distributions of the score given the outcome. A largest distance is
pushed up by noise, and the more so the closer it is to none. So the lower end takes off what noise adds over all scores where
the distance might be the largest (the derivative of a maximum, Fang and Santos 2019), and the upper end adds the noise of the
one score where it is; noise is drawn with normal multipliers per row or per cluster.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.kinds import stream
from evenhand.metrics.outcome import FEWEST_EVENTS, critical
from evenhand.metrics.outcome_rates import cuts, rates
from evenhand.tallies.moments import Ints
from evenhand.tallies.rows import Rows

Bools = np.typing.NDArray[np.bool_]
Singles = np.typing.NDArray[np.float32]
"""Drawn noise, of which seven digits are plenty."""

FEWEST = 30
"""Rows of either group, among those with the same outcome, from which on their scores are compared."""

FEWEST_CLUSTERS = 10
DRAWS, FEWEST_DRAWS = 199, 19
MOST_WORK = 40_000_000
SPREAD, FEWEST_SPREAD = 1 << 13, 1 << 10
"""Rows, from all over the scores, that stand for more of them when labels are permuted; and of each outcome, so many at least:
the distance that permuting makes falls with the root of the rows, whatever the scores."""

MULTIPLIERS = 499
MOST_NUMBERS = 1 << 15
AT_ONCE = 1 << 12
"""Clusters whose multipliers are held at a time."""

KEPT = 2
"""Grades of the outcome for which the drawn numbers are kept: 3 MiB for outcomes of two kinds."""

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
    looked_at = sorted({k for own in usable for k in own})
    if not looked_at:
        return [Odds(np.nan, np.nan, np.nan, np.nan, skipped=True) for _ in asked]
    far = np.full((len(sides), 1 + DRAWS), np.nan)
    some = _spread(len(score), [int(given[k].sum()) for k in looked_at])
    few = mine[some]
    draws = [max(FEWEST_DRAWS, min(DRAWS, MOST_WORK // (len(few) * len(own)))) if own else 0 for own in usable]
    rng = stream(SEED, "odds", len(score))
    deals = _dealt(int(few.sum()), len(few), max(draws), rng)
    for k in looked_at:
        most = max(count for own, count in zip(usable, draws, strict=True) if k in own)
        curves = _Curves.of(given[k], score, weight)
        far[k, :1] = curves.apart(mine[None])
        less = curves if len(few) == len(mine) else _Curves.of(given[k][some], score[some], weight[some])
        far[k, 1 : 1 + most] = less.apart(deals[:most]) * np.sqrt(len(less.at) / len(curves.at))
    cluster = None if rows.cluster is None else np.unique(rows.cluster[at][order], return_inverse=True)[1]
    few = cluster is not None and int(cluster.max(initial=-1)) + 1 < FEWEST_CLUSTERS
    noise = None
    if not few:
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


def _spread(rows: int, sides: Sequence[int]) -> slice:
    """Every so manieth of the sorted rows; each side keeps enough of its own."""
    step = min([rows // SPREAD, *(side // FEWEST_SPREAD for side in sides)])
    return slice(max(step - 1, 0) // 2, None, max(step, 1))


def _dealt(n: int, size: int, draws: int, rng: np.random.Generator) -> Bools:
    """(draws, size) who is among n of them at random: those with the smallest keys of a byte, and of those with the largest such
    key as many as are still wanted, by lot.
    """
    keys = rng.bit_generator.random_raw(-(-draws * size // 8)).view(np.uint8)[: draws * size].reshape(draws, size)
    last = np.sort(keys, axis=1, kind="stable")[:, n - 1, None]  # bytes are counted, not compared
    found = keys < last
    level = rng.permutation(np.flatnonzero(keys == last))
    level = level[np.argsort(level // size, kind="stable")]
    draw = level // size
    wanted = (n - np.count_nonzero(found, axis=1))[draw]
    found.ravel()[level[np.arange(len(draw)) - np.searchsorted(draw, draw) < wanted]] = True
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

    def apart(self, deals: Bools) -> Floats:
        """Kolmogorov distance between the scores of one group and of the others, for every deal of who is in it."""
        whole, at_once, found = self.upto[-1], max(1, MOST_NUMBERS // len(self.at)), np.zeros(len(deals))
        for start in range(0, len(deals), at_once):
            own = deals[start : start + at_once].take(self.at, axis=1)
            sums = np.cumsum(
                own if self.weight is None else own * self.weight, axis=1
            )  # counts add up six times as fast
            sums = sums if len(self.ends) == len(self.at) else sums[:, self.ends]
            many = sums[:, -1]
            held = sums - (many / whole)[:, None] * self.upto
            furthest, both = np.maximum(held.max(1), -held.min(1)), many * (whole - many)
            found[start : start + at_once] = np.divide(furthest * whole, both, out=np.zeros(len(many)), where=both > 0)
        return found


def _cells(last: Bools) -> Ints:
    """A cell of the score for each row of a sorted column: every score its own, or neighbours together where they are many."""
    own = np.concatenate([[0], np.cumsum(last)[:-1]]).astype(np.int64)
    many = int(own[-1]) + 1
    return own if many <= MOST_CELLS else np.arange(len(own)) * MOST_CELLS // len(own)


@dataclass(frozen=True)
class _Moves:
    """Along the scores, for some of the grades: how `far` apart the two groups are, and how noise `moves` (cells, draws) that."""

    far: Floats
    moves: Singles

    @functools.cached_property
    def top(self) -> Floats:
        return np.asarray(self.moves.max(0))

    @functools.cached_property
    def bottom(self) -> Floats:
        return np.asarray(self.moves.min(0))

    def outward(self, least: float) -> list[Floats]:
        """The furthest that noise moves distances of at least so much outwards, in every draw."""
        found = []
        for sign, over_all in ((1, self.top), (-1, -self.bottom)):
            near = sign * self.far >= least
            if near.all():
                found.append(over_all)
            elif near.any():
                some = self.moves[near]
                found.append(some.max(0) if sign == 1 else -some.min(0))
        return found


Reach = tuple[int, bool]
"""A grade, and whether it is reached or missed."""


@dataclass(frozen=True)
class _Noise:
    """Rows by side (0 the group, 1 the reference), grade of the outcome and cell of the score.

    Attributes
    ----------
    held : (2, grades, cells) their weight. drawn : (2, grades, cells, draws) normal multipliers, one for each row or cluster,
        that are summed up times weights, but for the factor `spread` (2, grades, cells).
    known : moves that were worked out already.
    """

    held: Floats
    drawn: Singles
    spread: Floats
    known: dict[Reach, _Moves] = field(default_factory=dict)

    @classmethod
    def of(cls, cell: Ints, mine: Bools, grade: Ints, weight: Floats, grades: int, cluster: Ints | None) -> _Noise:
        shape = (2, grades, int(cell.max()) + 1)
        place = np.ravel_multi_index((np.where(mine, 0, 1), grade, cell), shape)
        held = np.asarray(np.bincount(place, weight, int(np.prod(shape))), dtype=np.float64).reshape(shape)
        if cluster is None:
            spread = np.sqrt(np.bincount(place, weight**2, held.size)).reshape(shape)
            return cls(held, _multipliers(*shape), spread)
        drawn = _drawn(place, held.size, weight, cluster).reshape(*shape, MULTIPLIERS)
        return cls(held, drawn, np.ones(shape))

    def interval(self, found: float, reach: list[Reach], level: float) -> tuple[float, float]:
        """Both ends, from how the distance moves along the scores where it is, or might be, the largest."""
        along = [self._moves(one) for one in reach]
        tail = (1 - level) / 2
        largest = np.max([np.maximum(one.top, -one.bottom) for one in along], axis=0)
        slack = 2 * np.quantile(largest, level)  # so far below the largest a distance might be the largest in truth
        peaks = [float(np.abs(one.far).max()) for one in along]
        least = min(found, max(peaks)) - slack
        pushed = np.quantile(np.max([move for one in along for move in one.outward(least)], axis=0), 1 - tail)
        there = along[int(np.argmax(peaks))]
        peak = int(np.abs(there.far).argmax())
        fallen = np.quantile(np.sign(there.far[peak]) * there.moves[peak], tail)
        return float(np.clip(found - pushed, 0.0, found)), float(np.clip(found - fallen, found, 1.0))

    def _moves(self, reach: Reach) -> _Moves:
        """The noise of both groups' distribution functions, less what moves a whole group, as the difference of the two."""
        if reach not in self.known:
            cut, reached = reach
            grades = slice(cut, None) if reached else slice(cut)
            mass = self.held[:, grades].sum(1)
            at, whole = np.flatnonzero(mass.any(0)), mass.sum(-1, keepdims=True)  # nothing moves in cells without rows
            share, scale = np.cumsum(mass[:, at], -1) / whole, self.spread[:, grades] / whole[..., None]
            own, other = (_bridge(self.drawn[side, grades], scale[side], share[side], at) for side in range(2))
            self.known[reach] = _Moves(share[0] - share[1], np.subtract(own, other, out=own))
        return self.known[reach]


def _bridge(drawn: Singles, scale: Floats, share: Floats, at: Ints) -> Singles:
    """(cells, draws) how noise moves a distribution function: the sums along the scores, less what moves the whole group."""
    parts = (grade.take(at, axis=0) for grade in drawn)
    moved = functools.reduce(np.add, map(np.multiply, parts, scale[:, at, None].astype(drawn.dtype)))
    for before, cell in itertools.pairwise(moved):  # all draws at once; numpy's own sum goes one number after the other
        cell += before
    moved -= share[:, None].astype(drawn.dtype) * moved[-1]
    return np.asarray(moved)


def _multipliers(sides: int, grades: int, cells: int) -> Singles:
    """(sides, grades, cells, draws) normal numbers, the same for all groups, slices and tables."""
    table = _table if grades <= KEPT else _table.__wrapped__
    return table(MULTIPLIERS, sides, grades)[:, :, :cells]


@functools.lru_cache(maxsize=2)
def _table(draws: int, sides: int, grades: int) -> Singles:
    drawn = stream(SEED, "odds interval", grades).standard_normal((draws, sides, grades, MOST_CELLS))
    found = np.ascontiguousarray(np.moveaxis(drawn, 0, -1), dtype=np.float32)
    found.flags.writeable = False
    return found


def _drawn(place: Ints, size: int, weight: Floats, cluster: Ints) -> Singles:
    """(size, draws) sums over the rows of each place; multipliers are drawn for some clusters at a time."""
    from scipy import sparse

    rng = stream(SEED, "odds interval", len(place))
    many = int(cluster.max()) + 1
    parts = sparse.csr_array((weight, (cluster, place)), shape=(many, size))
    some = (parts[start : start + AT_ONCE] for start in range(0, many, AT_ONCE))
    sums = (np.asarray(one.T @ rng.standard_normal((one.shape[0], MULTIPLIERS))) for one in some)
    return functools.reduce(operator.iadd, sums).astype(np.float32)


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
