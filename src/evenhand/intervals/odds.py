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
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.kinds import MIN_CLUSTERS
from evenhand.labels import stream
from evenhand.metrics.outcome import FEWEST_EVENTS, FEWEST_ROWS, critical, two_sided
from evenhand.metrics.outcome_means import cuts, rates
from evenhand.tallies.candidates import Rows
from evenhand.tallies.ragged import Ints

Bools = np.typing.NDArray[np.bool_]
Singles = np.typing.NDArray[np.float32]
"""Drawn noise, of which seven digits are plenty."""

SEED = 20_220
"""Tests without a seed of their own: the same data always give the same p and interval."""

DRAWS, MULTIPLIERS = 199, 499
"""Permutations of the labels for the chance level, and draws of the noise for the interval."""

SPREAD = 1 << 13
"""Rows, from all over the scores, that stand for more of them when labels are permuted: the distance that permuting makes falls
with the root of the rows, whatever the scores."""

MOST_CELLS = 400
"""Scores at which the noise is drawn; the distance itself is taken at every score."""


@dataclass(frozen=True)
class Odds:
    """The largest Kolmogorov distance to the reference, with interval and chance level.

    `chance` is its mean under permuted labels; `skipped`, that some outcomes had too few rows; `few_clusters`, that clusters
    are too few for an interval.
    """

    estimate: float
    low: float
    high: float
    chance: float
    skipped: bool
    few_clusters: bool = False


UNDEFINED = Odds(np.nan, np.nan, np.nan, np.nan, skipped=True)


def odds_gaps(rows: Rows, group: int, reference: int, level: float, opportunity: Sequence[bool]) -> list[Odds]:
    """Distances between a group's scores and the reference's, given the outcome.

    Graded outcomes are cut at every grade but the lowest.

    `opportunity` : for every answer that is wanted, whether only those who reach a grade are looked at (equal opportunity),
    not those who miss it as well. The labels are permuted, and the noise is drawn, once for all of them.
    """
    at = np.isin(rows.group, (group, reference))
    order = np.argsort(rows.score[at], kind="stable")
    score, outcome, weight = (x[at][order] for x in (rows.score, rows.outcome, rows.mass))
    in_group = (rows.group[at] == group)[order]
    grades = cuts(outcome)
    sides = [(cut, reached) for cut in grades for reached in (True, False)]
    masks = [outcome >= cut if reached else outcome < cut for cut, reached in sides]
    enough = [min(np.count_nonzero(m & in_group), np.count_nonzero(m & ~in_group)) >= FEWEST_ROWS for m in masks]
    required = [[k for k, (_, reached) in enumerate(sides) if reached or not only] for only in opportunity]
    usable = [[k for k in needed if enough[k]] for needed in required]
    if not any(usable):
        return [UNDEFINED for _ in required]
    distances, draws = _permuted_distances(masks, in_group, score, weight, usable)
    cluster = None if rows.cluster is None else np.unique(rows.cluster[at][order], return_inverse=True)[1]
    few_clusters = cluster is not None and int(cluster.max(initial=-1)) + 1 < MIN_CLUSTERS
    gaps: dict[int, _Gap] = {}
    if not few_clusters:
        noise = _Noise.from_rows(score, in_group, np.searchsorted(grades, outcome, side="right"), weight, cluster)
        for k in sorted({k for which in usable for k in which}):
            cut = grades.index(sides[k][0]) + 1
            gaps[k] = noise.gap(slice(cut, None) if sides[k][1] else slice(cut))
    results = []
    for which, needed, count in zip(usable, required, draws, strict=True):
        if not which:
            results.append(UNDEFINED)
            continue
        largest, *chance = distances[which, : count + 1].max(0).tolist()
        low, high = (np.nan, np.nan) if few_clusters else _interval(largest, [gaps[k] for k in which], level)
        skipped = len(which) < len(needed)
        results.append(Odds(largest, low, high, float(np.mean(chance)), skipped=skipped, few_clusters=few_clusters))
    return results


def _permuted_distances(
    masks: Sequence[Bools], in_group: Bools, score: Floats, weight: Floats, usable: Sequence[Sequence[int]]
) -> tuple[Floats, list[int]]:
    """(masks, 1 + draws) observed and permuted Kolmogorov distances, and draws per question."""
    rows, compared = len(score), sorted({k for which in usable for k in which})
    thin = _every_nth(rows, [int(masks[k].sum()) for k in compared])
    members = in_group[thin]
    most_work = 40_000_000  # rows times draws: about a second
    draws = [min(DRAWS, max(19, most_work // (len(members) * len(w)))) if w else 0 for w in usable]
    permuted = _permuted(int(members.sum()), len(members), max(draws), stream(SEED, "odds", rows))
    distances = np.full((len(masks), 1 + DRAWS), np.nan)
    for k in compared:
        most = max(count for which, count in zip(usable, draws, strict=True) if k in which)
        distances[k, :1] = _kolmogorov(in_group[None], masks[k], score, weight)
        scale = np.sqrt(np.count_nonzero(masks[k][thin]) / np.count_nonzero(masks[k]))
        distances[k, 1 : 1 + most] = _kolmogorov(permuted[:most], masks[k][thin], score[thin], weight[thin]) * scale
    return distances, draws


def _every_nth(rows: int, sides: Sequence[int]) -> slice:
    """Every n-th of the sorted rows, such that each side keeps an eighth of `SPREAD` rows."""
    step = min([rows // SPREAD, *(side // (SPREAD // 8) for side in sides)])
    return slice(max(step - 1, 0) // 2, None, max(step, 1))


def _permuted(n: int, size: int, draws: int, rng: np.random.Generator) -> Bools:
    """(draws, size) n random members: the smallest random bytes, ties broken by lot."""
    keys = rng.bit_generator.random_raw(-(-draws * size // 8)).view(np.uint8)[: draws * size].reshape(draws, size)
    last = np.sort(keys, axis=1, kind="stable")[:, n - 1, None]  # bytes are counted, not compared
    chosen = keys < last
    tied = rng.permutation(np.flatnonzero(keys == last))
    tied = tied[np.argsort(tied // size, kind="stable")]
    draw = tied // size
    missing = (n - np.count_nonzero(chosen, axis=1))[draw]
    chosen.ravel()[tied[np.arange(len(draw)) - np.searchsorted(draw, draw) < missing]] = True
    return chosen


def _kolmogorov(members: Bools, mask: Bools, score: Floats, weight: Floats) -> Floats:
    """(draws,) Kolmogorov distance between scores of members and others, in the rows of `mask`."""
    at = np.flatnonzero(mask)
    ends = np.flatnonzero(np.append(score[at][1:] != score[at][:-1], True))  # the last row of each score
    mass = None if np.all(weight == 1) else weight[at]  # counts add up six times as fast
    upto = np.cumsum(weight[at])[ends]
    whole, at_once, distances = upto[-1], max(1, (1 << 15) // len(at)), np.zeros(len(members))
    for start in range(0, len(members), at_once):
        some = members[start : start + at_once].take(at, axis=1)
        sums = np.cumsum(some if mass is None else some * mass, axis=1)[:, ends]
        total = sums[:, -1]
        gaps = sums - (total / whole)[:, None] * upto
        furthest, both = np.maximum(gaps.max(1), -gaps.min(1)), total * (whole - total)
        distances[start : start + at_once] = np.divide(furthest * whole, both, out=np.zeros(len(total)), where=both > 0)
    return distances


@dataclass(frozen=True)
class _Gap:
    """(cells,) difference of two distribution functions, and (cells, draws) its drawn noise."""

    distance: Floats
    noise: Singles


def _interval(distance: float, gaps: Sequence[_Gap], level: float) -> tuple[float, float]:
    """Interval ends from the noise where the distance is, or might be, the largest."""
    tail = (1 - level) / 2
    peaks = [float(np.abs(gap.distance).max()) for gap in gaps]
    largest_noise = np.max([np.abs(gap.noise).max(0) for gap in gaps], axis=0)
    slack = 2 * np.quantile(largest_noise, level)  # so far below the largest a distance might be the largest in truth
    least = min(distance, max(peaks)) - slack
    outward = [
        (sign * gap.noise[near]).max(0)
        for gap in gaps
        for sign in (1, -1)
        if (near := sign * gap.distance >= least).any()
    ]
    pushed = np.quantile(np.max(outward, axis=0), 1 - tail)
    furthest = gaps[int(np.argmax(peaks))]
    peak = int(np.abs(furthest.distance).argmax())
    fallen = np.quantile(np.sign(furthest.distance[peak]) * furthest.noise[peak], tail)
    return float(np.clip(distance - pushed, 0.0, distance)), float(np.clip(distance - fallen, distance, 1.0))


@dataclass(frozen=True)
class _Noise:
    """Rows by side (0 the group, 1 the reference), grade of the outcome and cell of the score.

    Attributes
    ----------
    mass : (2, grades, cells) their weight. drawn : (2, grades, cells, draws) normal multipliers, one for each row or cluster,
        that are summed up times weights, but for the factor `spread` (2, grades, cells).
    """

    mass: Floats
    drawn: Singles
    spread: Floats

    @classmethod
    def from_rows(cls, score: Floats, in_group: Bools, grade: Ints, weight: Floats, cluster: Ints | None) -> _Noise:
        """From rows sorted by score: a cell for each score, or `MOST_CELLS` of equal size."""
        cell = np.concatenate([[0], np.cumsum(score[1:] != score[:-1])]).astype(np.int64)
        if cell[-1] >= MOST_CELLS:
            cell = np.arange(len(score)) * MOST_CELLS // len(score)
        shape = (2, int(grade.max()) + 1, int(cell.max()) + 1)
        place = np.ravel_multi_index((np.where(in_group, 0, 1), grade, cell), shape)
        mass = np.asarray(np.bincount(place, weight, int(np.prod(shape))), dtype=np.float64).reshape(shape)
        if cluster is None:
            spread = np.sqrt(np.bincount(place, weight**2, mass.size)).reshape(shape)
            return cls(mass, _normals(MULTIPLIERS, *shape[:2])[:, :, : shape[2]], spread)
        drawn = _cluster_sums(place, mass.size, weight, cluster).reshape(*shape, MULTIPLIERS)
        return cls(mass, drawn, np.ones(shape))

    def gap(self, grades: slice) -> _Gap:
        """Difference of both groups' distribution functions over these grades, with its drawn noise."""
        mass = self.mass[:, grades].sum(1)
        at, whole = np.flatnonzero(mass.any(0)), mass.sum(-1, keepdims=True)  # nothing moves in cells without rows
        share, scale = np.cumsum(mass[:, at], -1) / whole, self.spread[:, grades] / whole[..., None]
        noise, other = (_bridge(self.drawn[side, grades], scale[side], share[side], at) for side in range(2))
        return _Gap(share[0] - share[1], np.subtract(noise, other, out=noise))


def _bridge(drawn: Singles, scale: Floats, share: Floats, at: Ints) -> Singles:
    """(cells, draws) noise of a distribution function: cumulated, less its share of the total."""
    parts = (grade.take(at, axis=0) for grade in drawn)
    moved = functools.reduce(np.add, map(np.multiply, parts, scale[:, at, None].astype(drawn.dtype)))
    for before, cell in itertools.pairwise(moved):  # all draws at once; numpy's own sum goes one number after the other
        cell += before
    moved -= share[:, None].astype(drawn.dtype) * moved[-1]
    return np.asarray(moved)


@functools.lru_cache(maxsize=1)
def _normals(draws: int, sides: int, grades: int) -> Singles:
    """(sides, grades, cells, draws) normal numbers, the same for all groups, slices and tables."""
    drawn = stream(SEED, "odds interval", grades).standard_normal((draws, sides, grades, MOST_CELLS))
    table = np.ascontiguousarray(np.moveaxis(drawn, 0, -1), dtype=np.float32)
    table.flags.writeable = False
    return table


def _cluster_sums(place: Ints, size: int, weight: Floats, cluster: Ints) -> Singles:
    """(size, draws) sums of cluster multipliers times weights over the rows of each place."""
    from scipy import sparse

    rng = stream(SEED, "odds interval", len(place))
    clusters, at_once = int(cluster.max()) + 1, 1 << 12  # multipliers held at a time: 16 MiB
    parts = sparse.csr_array((weight, (cluster, place)), shape=(clusters, size))
    some = (parts[start : start + at_once] for start in range(0, clusters, at_once))
    sums = (np.asarray(part.T @ rng.standard_normal((part.shape[0], MULTIPLIERS))) for part in some)
    return functools.reduce(operator.iadd, sums).astype(np.float32)


@dataclass(frozen=True)
class Rate:
    """How much more often a group is treated than the reference, among some of the rows."""

    estimate: float
    low: float
    high: float
    p: float


def rate_gap(rows: Rows, mask: Bools, group: int, reference: int, level: float) -> Rate:
    """Difference of two weighted shares, with a normal interval robust to clusters and a p as if the shares were equal.

    Neither where either side has fewer than 30 rows, or fewer than 5 that were treated or were not.
    """
    shares = rates(rows, mask, (group, reference))
    gap, nothing = shares[0] - shares[1], (np.nan, np.nan, np.nan)
    treated = np.zeros(len(rows.score), dtype=bool) if rows.treated is None else rows.treated
    sides = (mask & (rows.group == group), mask & (rows.group == reference))
    counts = [np.count_nonzero(side & kind) for side in sides for kind in (treated, ~treated)]
    if group == reference or min(counts) < FEWEST_EVENTS or min(map(np.count_nonzero, sides)) < FEWEST_ROWS:
        return Rate(gap, *nothing)
    common = float(np.average(treated[sides[0] | sides[1]], weights=rows.mass[sides[0] | sides[1]]))
    error, freedom = _rate_error(rows, treated, sides, shares)
    null_error, _ = _rate_error(rows, treated, sides, (common, common))
    if np.isnan(error):
        return Rate(gap, *nothing)
    wide = float(critical(level, freedom) * error)
    return Rate(gap, max(-1.0, gap - wide), min(1.0, gap + wide), float(two_sided(gap / null_error, freedom)))


def _rate_error(
    rows: Rows, treated: Bools, sides: tuple[Bools, Bools], shares: tuple[float, float]
) -> tuple[float, float]:
    """Standard error of a difference of shares, and its degrees of freedom; NaN where clusters are few."""
    w, pull = rows.mass, np.zeros(len(rows.score))
    for side, rate, sign in zip(sides, shares, (1, -1), strict=True):
        pull[side] = sign * w[side] * (treated[side] - rate) / w[side].sum()
    if rows.cluster is None:
        sizes = [np.count_nonzero(side) for side in sides]
        variance = float(np.sum([(pull[side] ** 2).sum() * n / (n - 1) for side, n in zip(sides, sizes, strict=True)]))
        return float(np.sqrt(variance)), np.inf
    either = sides[0] | sides[1]
    parts = np.bincount(np.unique(rows.cluster[either], return_inverse=True)[1], pull[either])
    if len(parts) < MIN_CLUSTERS:
        return np.nan, np.nan
    return float(np.sqrt((parts**2).sum() * len(parts) / (len(parts) - 1))), len(parts) - 1.0
