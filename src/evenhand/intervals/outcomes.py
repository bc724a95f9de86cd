"""The outcome test without a normal law: equalised odds, gaps of rates, and how large a pooled gap chance alone makes.

Equalised odds: how far apart the groups' scores lie among those with the same outcome. No bins: the distance is Kolmogorov's,
between two groups' distributions of the score given the outcome. A largest distance is
pushed up by noise, and the more so the closer it is to none. So the lower end takes off what noise adds over all scores where
the distance might be the largest (the derivative of a maximum, Fang and Santos 2019), and the upper end adds the noise of the
one score where it is; noise is drawn with normal multipliers per row or per cluster.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.kinds import MIN_CLUSTERS, ROUNDING
from evenhand.labels import stream
from evenhand.metrics.outcome import FEWEST_EVENTS, FEWEST_ROWS, Gaps, critical, two_sided
from evenhand.metrics.outcome_joint import Null, Pooled, cuts, kolmogorov, rates
from evenhand.tallies.candidates import Rows
from evenhand.tallies.clusters import FLIPPED
from evenhand.tallies.moments import Moments
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
        distances[k, :1] = kolmogorov(in_group[None], masks[k], score, weight)
        scale = np.sqrt(np.count_nonzero(masks[k][thin]) / np.count_nonzero(masks[k]))
        distances[k, 1 : 1 + most] = kolmogorov(permuted[:most], masks[k][thin], score[thin], weight[thin]) * scale
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


NULL_DRAWS = 4_999
"""Permutations of labels within score bins, or flips of the signs of whole clusters, for pooled gaps."""


def with_null_draws(m: Moments, gaps: Gaps, pooled: Pooled, rows: Callable[[], Rows | None]) -> Pooled:
    """Pooled gaps with permutation or sign-flip draws where the normal does not apply.

    `rows` are read only if needed.
    """
    if pooled.by_cluster:
        return with_flipped_signs(pooled)
    needed = np.flatnonzero(pooled.few).tolist()
    row_data = rows() if needed else None
    if row_data is None:
        return pooled
    return replace(pooled, drawn={g: _permute_labels(m, gaps, pooled, g, row_data) for g in needed})


def with_flipped_signs(pooled: Pooled) -> Pooled:
    """Sign-flip draws of clusters' contributions; no test with few contributing clusters."""
    few, alike = pooled.few.copy(), dict[int, dict[int, Floats]]()
    for g, parts in pooled.by_cluster.items():
        if parts is None:
            continue
        parts = parts[np.abs(parts) > ROUNDING * np.abs(parts).max(initial=0.0)]  # what is left of rounding is no part
        if len(parts) < MIN_CLUSTERS:
            few[g] = True
        elif len(parts) <= FLIPPED:
            alike.setdefault(len(parts), {})[g] = parts
    drawn: dict[int, Floats] = {}
    for many, groups in alike.items():
        # Not as a product of matrices, which would be shared out between threads that wait for each other.
        bits, at_once = _sign_bits(1 << (many - 1).bit_length())[:, :many], max(1, (1 << 21) // many)
        blocks = (2.0 * bits[start : start + at_once] - 1 for start in range(0, NULL_DRAWS, at_once))
        sums = [[np.einsum("dc,c->d", signs, parts) for parts in groups.values()] for signs in blocks]
        for g, sizes in zip(groups, map(np.concatenate, zip(*sums, strict=True)), strict=True):
            drawn[g] = np.abs(sizes) / np.sqrt((groups[g] ** 2).sum())
    return replace(pooled, drawn=drawn, few=few)


@functools.lru_cache(maxsize=1)
def _sign_bits(many: int) -> np.typing.NDArray[np.int8]:
    """(draws, many) random bits shared by all groups and tables, which must not be written to."""
    bits = stream(SEED, "flips", many).integers(0, 2, (NULL_DRAWS, many), dtype=np.int8)
    bits.flags.writeable = False
    return bits


def _permute_labels(m: Moments, gaps: Gaps, pooled: Pooled, g: int, rows: Rows) -> Floats:
    """(draws,) studentised gap of one group with labels permuted within every bin."""
    null, draws = Null(m, gaps, g), NULL_DRAWS
    squares = np.maximum(null.residuals(0.0).sums[..., 0, 2].sum(-1), 0.0)
    spread = squares / np.maximum(m.rows.sum(-1) - gaps.lines.parameters + 1, 1)
    gap, square = np.zeros(draws), np.zeros(draws)
    rng = stream(SEED, "permuted", int(pooled.rows[g]))
    both = np.flatnonzero((rows.group == g) | (rows.group == gaps.reference))
    place, weight = rows.bin[both], rows.mass
    along, across = _other_products(m, [h for h in range(m.rows.shape[1]) if h not in (g, gaps.reference)])
    for b in np.flatnonzero(pooled.share[:, g] > 0).tolist():
        at = both[place == b]
        w, n = weight[at], int((rows.group[at] == g).sum())
        size = w.sum()
        u, y = (x - (w * x).sum() / size for x in (rows.score[at], rows.outcome[at]))
        sums = np.stack([w * u, w * y, w][: 2 if rows.weight is None else 3], axis=1)
        picked = _random_sums(sums, n, draws, rng).T
        mass = float(n) if rows.weight is None else picked[2]
        ease, total = 1 / mass + 1 / (size - mass), ((w * u * u).sum() + along[b], (w * u * y).sum() + across[b])
        bin_gap, pull = _bin_gap(ease, picked[0], picked[1], total, scored=bool(gaps.lines.scored[b]))
        gap += pooled.share[b, g] * bin_gap
        square += pooled.share[b, g] ** 2 * spread[b] * pull
    sizes = np.divide(np.abs(gap), np.sqrt(square), out=np.zeros(draws), where=square > 0)
    return np.asarray(sizes)


def _other_products(m: Moments, others: list[int]) -> tuple[Floats, Floats]:
    """Cross-products of the other groups in each bin: score squared, score times outcome."""
    s, mean = m.sums[:, others], np.nan_to_num(m.mean_offset[:, others])
    along = s[..., 2, 0] - mean * s[..., 1, 0]
    across = s[..., 1, 1] - mean * s[..., 0, 1] + m.slope[:, others] * along
    return along.sum(-1), across.sum(-1)


def _bin_gap(
    ease: Floats | float, u: Floats, y: Floats, total: tuple[float, float], *, scored: bool
) -> tuple[Floats, Floats]:
    """Gap of a bin, and its variance in units of the residual variance, per permutation.

    `u` and `y` are the group's sums of score and outcome, measured from the means of both groups; `ease` what the two weights
    1/n + 1/m make of them; `total` the squares of the score, and its products with the outcome, over all.
    """
    shift = ease * u
    along = total[0] - shift * u
    steep = scored & (along > ROUNDING * total[0])
    slope = np.divide(total[1] - shift * y, along, out=np.zeros_like(along), where=steep)
    lean = np.divide(shift, along, out=np.zeros_like(along), where=steep)
    return ease * y - slope * shift, ease + lean * shift


def _random_sums(columns: Floats, n: int, draws: int, rng: np.random.Generator) -> Floats:
    """(draws, columns) sums of the columns over n rows drawn without replacement."""
    size = len(columns)
    if 2 * n > size:
        return np.asarray(columns.sum(0) - _random_sums(columns, size - n, draws, rng))
    out = np.zeros((draws, columns.shape[1]))
    at_once = max(1, min(draws, (1 << 22) // size))
    order = np.repeat(np.arange(size, dtype=np.min_scalar_type(size)), at_once)  # a shuffle is a column of this table
    places = order.reshape(size, at_once)
    for start in range(0, draws, at_once):
        line = np.arange(min(at_once, draws - start))
        total = out[start : start + len(line)]
        for k, at in enumerate(_fisher_yates_steps(n, size, len(line), rng)):  # of many shuffles at once
            at *= at_once
            at += line
            taken = order.take(at)
            order[at] = places[k, : len(line)]
            places[k, : len(line)] = taken
            total += columns.take(taken, axis=0)
    return out


def _fisher_yates_steps(n: int, size: int, many: int, rng: np.random.Generator) -> Iterator[Ints]:
    """The first n Fisher-Yates steps; digits of one random number serve several steps."""
    per_number = max(1, int(62 / math.log2(max(size, 2))))  # digits that fit into an int64
    for start in range(0, n, per_number):
        left = range(size - start, size - min(start + per_number, n), -1)  # places that each step may go to
        number = rng.integers(0, math.prod(left), many)
        for places in left:
            rest = number // places
            number -= rest * places
            number += size - places
            yield number
            number = rest
