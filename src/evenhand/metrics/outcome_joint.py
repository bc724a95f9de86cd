"""Statements about all bins together: one gap per group, joint tests, a spline in the score; averages and rates beside them.

The gap over all bins is tested as if there were none, by residuals of lines that all share. With the full model a lone row
has leverage 1 and residual 0, and a group without a single success has no error at all. So the errors impose what is
tested, and nothing is left out by how outcomes fell.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.metrics.outcome import (
    FEWEST_CLUSTERS,
    FEWEST_EXPECTED,
    POWER,
    ROUNDING,
    Bools,
    Covariance,
    Gaps,
    clusters_of,
    critical,
    gaps,
    influence,
    meat,
    quantile,
    ratio,
    rounding_error,
    squares,
    thin,
    two_sided,
)
from evenhand.tallies.candidates import Rows
from evenhand.tallies.moments import Moments, zero_rounding


@dataclass(frozen=True)
class Pooled:
    """The gap that an average member of each group meets."""

    # (G,) gaps weighted by the group's rows (their weights, where they have any), over every bin that holds the
    # group and the reference; 0 for the reference, NaN where there is no such bin
    estimate: Floats
    square: Floats  # (G, 3) variance of the gap if the truth were `d`, as the polynomial [0] + [1] d + [2] d^2
    share: Floats  # (B, G) weight of each bin
    rows: Floats  # (G,) rows of the group in those bins
    bins: Floats  # (G,) how many bins they are
    freedom: float  # degrees of freedom of the reference distribution; infinite for the normal
    few: Bools  # (G,) whether the normal cannot be trusted, so that labels have to be permuted
    # what each cluster adds to the gap of a group if there is none, by group, or None where clusters are too many
    # to be listed; empty without clusters
    by_cluster: Mapping[int, Floats | None] = field(default_factory=dict)
    # sizes of the studentised gap where there is none, by group: from permuted labels or flipped clusters
    drawn: Mapping[int, Floats] = field(default_factory=dict)

    @property
    def error(self) -> Floats:
        """Standard error of each gap if the truth were none."""
        return np.asarray(np.sqrt(np.maximum(self.square[:, 0], 0.0)))

    @property
    def ratio(self) -> Floats:
        """The gap in units of its error; NaN where outcomes do not vary."""
        return ratio(self.estimate, self.error)

    @property
    def small(self) -> Bools:
        """Groups that cannot be tested: too few events for the normal, and nothing was drawn."""
        without = np.array([g not in self.drawn for g in range(len(self.estimate))])
        return np.asarray(self.few & without)

    @property
    def p(self) -> Floats:
        """Two-sided p-value of each gap; NaN where there is nothing to refer it to."""
        p_values = np.where(self.small, np.nan, two_sided(self.ratio, self.freedom))
        for g, sizes in self.drawn.items():
            beyond = np.count_nonzero(sizes >= abs(self.ratio[g]) * (1 - 1e-9))
            p_values[g] = (1 + beyond) / (1 + len(sizes)) if len(sizes) and np.isfinite(self.ratio[g]) else np.nan
        return p_values

    def critical(self, level: float) -> Floats:
        """How many errors a gap must lie away from the truth to be found."""
        values = np.where(self.small, np.nan, critical(level, self.freedom))
        for g, sizes in self.drawn.items():
            beyond = int((1 - level) * (1 + len(sizes)))  # so many may lie beyond, the gap's own included
            at = len(sizes) - beyond
            values[g] = np.partition(sizes, at)[at] if 0 < beyond <= len(sizes) else np.nan
        return values

    def ends(self, level: float) -> tuple[Floats, Floats]:
        """Ends of the confidence interval: gaps d with (gap - d)^2 <= critical^2 * variance(d)."""
        reach = self.critical(level) ** 2
        a, b, c = (part * reach for part in self.square.T)
        with np.errstate(invalid="ignore", divide="ignore"):
            lead, half = 1 - c, self.estimate + b / 2
            root = np.sqrt(half**2 - lead * (self.estimate**2 - a))
            low, high = (half - root) / lead, (half + root) / lead
        bounded = (lead > 0) & (a > 0)
        return np.where(bounded, low, np.nan), np.where(bounded, high, np.nan)

    def detectable(self, level: float) -> Floats:
        """The gap that the test would find with a chance of 80%."""
        return (self.critical(level) + quantile(POWER, self.freedom)) * np.where(self.error > 0, self.error, np.nan)


def pooled(m: Moments, fitted: Gaps, covariance: Covariance = "HC1") -> Pooled:
    """Gaps weighted by the group's rows, over all bins where it can be compared."""
    groups = m.rows.shape[-1]
    usable = np.isfinite(fitted.estimate) & (np.arange(groups) != fitted.reference)
    weight, rows = np.where(usable, m.mass, 0.0), np.where(usable, m.rows, 0.0).sum(0)
    share = np.divide(weight, weight.sum(0), out=np.zeros_like(weight), where=rows > 0)
    estimate = np.where(rows > 0, (share * np.nan_to_num(fitted.estimate)).sum(0), np.nan)
    estimate[fitted.reference] = 0.0
    square, by_cluster = np.full((groups, 3), np.nan), dict[int, Floats | None]()
    few = np.asarray(_few(m, usable, fitted.reference) & (rows > 0) & (covariance != "cluster"))
    flat, tilt = influence(m, fitted.lines, np.isfinite(fitted.estimate), fitted.reference)
    step = gap_step(m, estimate)
    for g in np.flatnonzero(rows > 0).tolist():
        null, weights = Null(m, fitted, g), (flat[..., g] * share[:, g, None], tilt[..., g] * share[:, g, None])
        if covariance == "cluster":
            square[g], by_cluster[g] = _clustered_square(null.residuals, *weights, step, [g, fitted.reference])
        else:
            at = null.variances(np.array([0.0, step, -step]), *weights, "alike" if few[g] else covariance)
            square[g] = _parabola(at.tolist(), step)
        if square[g, 0] <= 0:  # outcomes that do not vary around their lines
            square[g] = 0.0
            by_cluster.pop(g, None)
    square[fitted.reference] = 0.0
    left = float(np.maximum(m.rows.sum() - fitted.lines.parameters.sum(), 1))
    freedom = left if covariance == "classical" else np.inf
    return Pooled(estimate, square, share, rows, usable.sum(0).astype(float), freedom, few, by_cluster)


def gap_step(m: Moments, estimate: Floats) -> float:
    """How far from zero the variance of a gap is looked at: about as far as the gaps are."""
    largest = np.abs(np.nan_to_num(estimate)).max()
    return float(max(largest, 1e-3 * np.nanmax(np.abs(m.mean_outcome), initial=0.0)) or 1.0)


def _parabola(at: Sequence[float], step: float) -> Floats:
    """The variance of a gap as a polynomial in the true one, from its values at 0, `step` and -`step`."""
    return np.array([at[0], (at[1] - at[2]) / (2 * step), (at[1] + at[2] - 2 * at[0]) / (2 * step**2)])


def _clustered_square(
    residuals: Callable[[float], Moments], flat: Floats, tilt: Floats, step: float, groups: Sequence[int]
) -> tuple[Floats, Floats | None]:
    """The variance of a gap as such a polynomial, and what each cluster adds to the gap if there is none.

    `residuals` measures the rows from lines with a gap; a residual e at offset u adds e * (flat + tilt * u) to the estimate.
    """
    null, at = residuals(0.0), []
    for residual in (null, residuals(step), residuals(-step)):
        variance = clusters_of(residual).products(flat.reshape(-1, 1), tilt.reshape(-1, 1))[0, 0]
        rowwise = squares(residual.squared[..., :3, 2], flat, tilt).sum()
        at.append(float(zero_rounding(variance, rowwise, residual.rows.sum())))
    square = _parabola(at, step) * leverage_factor(null, flat, tilt, groups)
    return square, clusters_of(null).parts(flat.ravel(), tilt.ravel())


def leverage_factor(residual: Moments, flat: Floats, tilt: Floats, groups: Sequence[int]) -> float:
    """How much too small the squares of what clusters add to a gap are on average; at least 1.

    A large cluster pulls the levels that its own residuals are measured from. As Bell and McCaffrey (2002) do, both variances
    are worked out for rows of one variance that share a shock within their cluster, as large as the residuals say (Imbens
    and Kolesar 2016); the levels are those of the bins, common to both groups.
    """
    chosen = np.zeros(residual.mass.shape, dtype=bool)
    chosen[:, list(groups)] = True
    mass, bins = np.where(chosen, residual.mass, 0.0).sum(-1), len(chosen)
    sums = clusters_of(residual).pulls(flat.ravel(), tilt.ravel(), chosen.ravel())
    a, d, cross = sums[:bins], sums[bins : 2 * bins], sums[-2]
    per_mass = np.divide(1.0, mass, out=np.zeros(bins), where=mass > 0)
    rows, square = mass.sum(), float(residual.sums[..., 0, 2][chosen].sum())
    pairs = max(float(d.sum()) - rows, 1.0)
    shock = min(max((sums[-1, 0] - square) / pairs, 0.0), square / rows)
    noise = square / rows - shock
    single = float(squares(residual.sums[..., :3, 0], flat, tilt)[chosen].sum())
    shared = float(a.sum())
    left_single = single - float(np.diagonal(a) @ per_mass)
    left_shared = shared - 2 * float(cross @ per_mass) + float((a * d.T * per_mass * per_mass[:, None]).sum())
    left = noise * left_single + shock * left_shared
    return max((noise * single + shock * shared) / left, 1.0) if left > 0 else 1.0


def _few(m: Moments, usable: Bools, reference: int) -> Bools:
    """Groups with fewer than ten events, or five rows in a bin: no case for the normal."""
    sides = [np.where(usable, side, 0).sum(0) for kind in (m.above, m.below) for side in (kind, kind[:, [reference]])]
    thin = usable & ((m.rows < 5) | (m.rows[:, [reference]] < 5))
    return np.asarray((np.min(sides, axis=0) < 10) | thin.any(0))


@dataclass(frozen=True)
class Null:
    """What the gap of one group would be made of if it were `d` in every bin."""

    m: Moments
    fitted: Gaps
    group: int

    def residuals(self, d: float | Floats) -> Moments:
        """The rows measured from lines that group and reference share, `d` (...) apart."""
        m, g, ref, lines = self.m, self.group, self.fitted.reference, self.fitted.lines
        d = np.asarray(d)[..., None]
        u, y = np.nan_to_num(m.mean_offset), np.nan_to_num(m.mean_outcome)
        y = np.broadcast_to(y, (*d.shape[:-1], *y.shape)).copy()
        y[..., g] -= d
        n, other = m.mass[:, g], m.mass[:, ref]
        both = np.where(n + other > 0, n + other, 1.0)
        score_gap, between = u[:, g] - u[:, ref], n * other / both
        along = lines.spread + between * score_gap**2
        across = lines.slope * lines.spread + between * score_gap * (y[..., g] - y[..., ref])
        slope = np.divide(across, along, out=np.zeros_like(across), where=lines.scored & (along > 0))
        level = y - slope[..., None] * u
        shared = (n * level[..., g] + other * level[..., ref]) / both
        level[..., ref], level[..., g] = shared, shared + d
        return m.residuals(level, slope[..., None])

    def variances(
        self, d: Floats, flat: Floats, tilt: Floats, covariance: Literal["HC1", "classical", "alike"]
    ) -> Floats:
        """Variance of the gap for each `d`; a residual e of a row at offset u adds e * (flat + tilt * u) to the gap.

        With "alike" all rows of a bin have one variance, with "classical" all rows: with few outcomes a row's own residual
        tells little, and a group without any would have the smallest error of all.
        """
        residual = self.residuals(d)
        weights = residual.squared[..., :3, 2] if covariance == "HC1" else self.m.sums[..., :3, 0]
        per_bin = squares(weights, flat, tilt).sum(-1)
        n, left = self.m.rows.sum(-1), np.maximum(self.m.rows.sum(-1) - self.fitted.lines.parameters + 1, 1)
        if covariance == "HC1":
            return np.asarray((per_bin * n / left).sum(-1))
        square = residual.sums[..., 0, 2].sum(-1)
        each = square / left if covariance == "alike" else square.sum(-1, keepdims=True) / left.sum()
        return np.asarray((per_bin * each).sum(-1))


@metric(Card(
    name="pooled_gap", symbol="β̄_g", title="Outcome gap over all bins", needs=Moments,
    span=(-np.inf, np.inf), ideal=0.0, better="ideal",
    asks="How large is the gap for an average member of the group?",
    undefined="the group or the reference is absent", otherwise="group_absent",
    formula=r"\sum_b n_{bg} \beta_{bg} / \sum_b n_{bg}",
    example="gaps of 0.1 and 0.3 in bins with 300 and 100 rows of the group -> 0.15",
    variants=(
        "Over every bin that holds the group and the reference, however few rows or events: leaving out thin cells "
        "would select on the outcome.",
    ),
    references=("yu2022",), family="outcome",
))  # fmt: skip
def pooled_gap(m: Moments, reference: int = 0) -> Floats:
    """Gaps of every group, weighted by its rows in each bin.

    >>> m = Moments.from_arrays([1, 2, 3, 1, 2, 3], [1, 2, 3, 1.5, 2.5, 3.5], [0] * 6, [0, 0, 0, 1, 1, 1], shape=(1, 2))
    >>> pooled_gap.on(m).round(9).tolist()
    [0.0, 0.5]
    """
    return pooled(m, gaps(m, reference)).estimate


RANK = 1e-10
"""Eigenvalues of a scaled cross-product below this share of the largest one are rounding."""


@dataclass(frozen=True)
class Wald:
    """A joint test that several gaps are all zero."""

    statistic: float
    p: float
    gaps: int
    freedom: float


NO_TEST = Wald(np.nan, np.nan, 0, np.nan)


def wald(parts: Sequence[tuple[Floats, Floats]], freedom: float, clusters: int | None) -> Wald:
    """Are all these gaps zero? Chi-square, or F where the errors have few degrees of freedom.

    `parts` are gaps and their covariance; gaps of different parts are independent. With clusters the statistic is referred
    to Hotelling's T^2 with clusters - 1 degrees of freedom, which is F(q, clusters - q) after scaling: the plain
    F(q, clusters - 1) rejects too often once the gaps are not few against the clusters.
    """
    from scipy import special

    estimate = np.concatenate([np.zeros(0), *(gaps for gaps, _ in parts)])
    if not len(estimate) or not all(np.isfinite(covariance).all() for _, covariance in parts):
        return NO_TEST
    scale = np.sqrt(np.concatenate([np.diagonal(covariance) for _, covariance in parts]))
    if not (scale > 0).all():  # outcomes that do not vary leave nothing to test with
        return NO_TEST
    statistic, q = 0.0, 0  # along the directions that the covariances span, and their number
    for estimates, covariance in parts:
        inverse, _, rank = _pseudo_inverse(covariance)
        statistic, q = statistic + float(estimates @ inverse @ estimates), q + rank
    if not np.isfinite(freedom):
        return Wald(statistic, float(special.chdtrc(q, statistic)), q, freedom)
    left = freedom if clusters is None else freedom + 1 - q
    if left <= 0:
        return Wald(statistic, np.nan, q, left)
    scaled = statistic / q if clusters is None else statistic / q * left / freedom
    return Wald(statistic, float(special.fdtrc(q, left, scaled)), q, left)


def bin_test(fitted: Gaps, b: int) -> Wald:
    """Are all gaps of one bin zero? Small cells are left out."""
    freedom = float(fitted.freedom[b])
    clusters = int(freedom) + 1 if fitted.clusters is not None and freedom > 0 else None
    return wald([_part(fitted, b, fitted.tested)], freedom, clusters)


def _part(fitted: Gaps, b: int, chosen: Bools) -> tuple[Floats, Floats]:
    at = np.flatnonzero(chosen[b])
    return fitted.estimate[b].take(at), fitted.block[b].take(at, 0).take(at, 1)


def joint_test(fitted: Gaps) -> Wald:
    """Are the gaps of all groups in all bins zero? Small cells are left out.

    Robust errors of thin cells are themselves uncertain, and the chi-square of all bins adds that up to false alarms. So
    every bin's statistic is first referred to Hotelling's T^2 with the degrees of freedom of its errors (Welch's), and then
    replaced by the chi-square that is as unlikely; these add up over bins.
    """
    if fitted.across is None:
        parts = [_part(fitted, b, fitted.jointly) for b in np.flatnonzero(fitted.jointly.any(-1)).tolist()]
    else:
        chosen = fitted.jointly.ravel()
        parts = [(fitted.estimate.ravel()[chosen], fitted.across[np.ix_(chosen, chosen)])]
    plain = wald(parts, fitted.total_freedom, fitted.clusters)
    if fitted.across is not None or not np.isfinite(fitted.welch_freedom).any() or not 0 < plain.p < 1:
        return plain
    return replace(plain, p=_welch_p(fitted))


def _welch_p(fitted: Gaps) -> float:
    """p-value of all bins' statistics, each referred to its own degrees of freedom first."""
    from scipy import special

    total, gaps = 0.0, 0
    for b, chosen in enumerate(fitted.jointly):
        if chosen.any():
            freedom = float(fitted.welch_freedom[b][chosen].min())
            test = wald([_part(fitted, b, fitted.jointly)], freedom, int(min(freedom, 1e15)) + 1)
            few = np.isfinite(test.p)  # more groups than degrees of freedom: nothing better than the chi-square itself
            total += float(special.chdtri(test.gaps, test.p) if few else test.statistic)
            gaps += test.gaps
    return float(special.chdtrc(gaps, total))


@dataclass(frozen=True)
class Effect:
    """One number about each group over all bins."""

    estimate: Floats
    error: Floats
    freedom: float
    small: Bools

    @property
    def p(self) -> Floats:
        """Two-sided p-value of each group; NaN where outcomes do not vary."""
        return two_sided(ratio(self.estimate, self.error), self.freedom)

    def ends(self, level: float) -> tuple[Floats, Floats]:
        """Both ends of the interval of each group."""
        wide = critical(level, self.freedom) * self.error
        return self.estimate - wide, self.estimate + wide

    def detectable(self, level: float) -> Floats:
        return (critical(level, self.freedom) + quantile(POWER, self.freedom)) * self.error


@dataclass(frozen=True)
class _SplineFit:
    """Least squares over all scores; a row's regressors are `level + turn * u`, group terms come first."""

    m: Moments
    level: Floats  # (B, G, K)
    turn: Floats  # (B, G, K)
    inverse: Floats  # (K, K) of the cross-products
    theta: Floats  # (K,)
    rank: int
    estimate: Floats  # (G,) gaps; NaN where score and group cannot be told apart

    @classmethod
    def from_moments(cls, m: Moments, reference: int, ends: Floats | None) -> _SplineFit:
        groups = m.rows.shape[1]
        level, turn = _spline_design(m, reference, ends)
        s0, s1, s2 = (m.sums[..., i, 0] for i in range(3))
        wide = level.shape[-1]
        gram = meat(m.sums[..., :3, 0].reshape(-1, 3), level.reshape(-1, wide), turn.reshape(-1, wide))
        y0 = m.level * s0 + m.slope * s1 + m.sums[..., 0, 1]
        y1 = m.level * s1 + m.slope * s2 + m.sums[..., 1, 1]
        inverse, projector, rank = _pseudo_inverse(gram)
        theta = inverse @ _along(y0, y1, level, turn)
        rest = m.measured_from(level @ theta, turn @ theta).sums
        theta = theta + inverse @ _along(rest[..., 0, 1], rest[..., 1, 1], level, turn)  # what rounding left of it
        lacking = np.abs(projector[:groups] - np.eye(len(gram))[:groups]).max(-1) > 1e-6
        others = np.arange(groups) != reference
        estimate = np.where(others & ~lacking, theta[:groups], np.where(others, np.nan, 0.0))
        estimate = np.where(np.abs(estimate) <= rounding_error(m), 0.0, estimate)
        return cls(m, level, turn, inverse, theta, rank, estimate)

    def residuals(self, theta: Floats) -> Moments:
        return self.m.residuals(self.level @ theta, self.turn @ theta)

    def with_gap(self, g: int, gap: float) -> Moments:
        """The rows measured from the least-squares fit among those where the gap of a group is this."""
        step = (self.theta[g] - gap) / self.inverse[g, g]
        return self.residuals(self.theta - self.inverse[:, g] * step)


def spline(m: Moments, reference: int, covariance: Covariance = "HC1", ends: Floats | None = None) -> Effect | Pooled:
    """One gap per group over all scores, with the score as a spline with knots at bin edges.

    The flexible form beside the line per bin: inside a bin a spline is a line, so the same sums give it. `ends` are the
    edges with both ends of the scores; without them the highest score of each bin is its edge. With clusters the errors
    impose that there is no gap, as those of the pooled gap, so that whole clusters can be flipped: with few or unequal
    clusters the sandwich gave 25% false alarms.
    """
    fit, groups = _SplineFit.from_moments(m, reference, ends), m.rows.shape[1]
    flat, tilt = fit.level @ fit.inverse[:, :groups], fit.turn @ fit.inverse[:, :groups]
    if covariance == "cluster":
        return _clustered_spline(fit, reference, flat, tilt)
    residual, n, freedom = fit.residuals(fit.theta), m.rows.sum(), np.inf
    left = n - fit.rank if n > fit.rank else np.nan
    if covariance == "classical":
        variance, freedom = np.diagonal(fit.inverse)[:groups] * residual.sums[..., 0, 2].sum() / left, left
    else:
        variance = np.diagonal(meat(residual.squared[..., :3, 2], flat, tilt).sum(0)) * n / left
    error = np.where(np.isnan(fit.estimate), np.nan, np.sqrt(np.maximum(variance, 0.0)))
    error[reference] = 0.0
    return Effect(fit.estimate, error, float(freedom), thin(m.rows.sum(0), m.above.sum(0), m.below.sum(0)))


def _clustered_spline(fit: _SplineFit, reference: int, flat: Floats, tilt: Floats) -> Pooled:
    m, groups = fit.m, fit.m.rows.shape[1]
    square, by_cluster = np.full((groups, 3), np.nan), dict[int, Floats | None]()
    step = gap_step(m, fit.estimate)
    for g in (g for g in range(groups) if g != reference and np.isfinite(fit.estimate[g])):
        residuals = functools.partial(fit.with_gap, g)
        square[g], by_cluster[g] = _clustered_square(residuals, flat[..., g], tilt[..., g], step, [g, reference])
    square[reference] = 0.0
    bins = np.full(groups, float(np.count_nonzero(m.rows.any(1))))
    few = np.zeros(groups, dtype=bool)
    return Pooled(fit.estimate, square, np.zeros_like(m.rows), m.rows.sum(0), bins, np.inf, few, by_cluster)


def _along(flat: Floats, tilted: Floats, level: Floats, turn: Floats) -> Floats:
    """Products with every regressor, from sums per cell of a number and of that number times u."""
    return np.asarray(np.einsum("bg,bgi->i", flat, level) + np.einsum("bg,bgi->i", tilted, turn))


def _spline_design(m: Moments, reference: int, ends: Floats | None) -> tuple[Floats, Floats]:
    """Regressors of a row as `level + turn * u` per cell: group dummies, then a hat per knot.

    The reference has no dummy. In a bin of one score hats do not turn, and one that no row lies under is zero.
    """
    (bins, groups), least, most = m.rows.shape, m.low.min(-1), m.high.max(-1)
    if ends is None:
        low = least.min()
        ends = np.concatenate([[low], np.maximum(most, low)])  # an empty bin has no highest score
    knots = np.unique(ends)
    left = np.clip(np.searchsorted(knots, ends[1:]) - 1, 0, max(len(knots) - 2, 0))
    level = np.zeros((bins, groups, groups + len(knots)))
    turn = np.zeros_like(level)
    at = np.arange(groups)
    level[:, at, at] = at != reference
    if len(knots) == 1:
        level[..., groups] = 1.0
        return level, turn
    width, one_score = knots[left + 1] - knots[left], least == most
    b, start = np.arange(bins), np.where(one_score, least, m.origin)
    for hat, where, sign in ((left, knots[left + 1], 1.0), (left + 1, knots[left], -1.0)):
        level[b, :, groups + hat] = (sign * (where - start) / width)[:, None]
        turn[b, :, groups + hat] = np.where(one_score, 0.0, -sign / width)[:, None]
    return level, turn


def _pseudo_inverse(gram: Floats) -> tuple[Floats, Floats, int]:
    """Pseudo-inverse of a covariance or cross-product, the projector on its range, and its rank."""
    scale = np.sqrt(np.diagonal(gram))
    scale = np.where(scale > 0, scale, 1.0)
    roots, axes = np.linalg.eigh(gram / scale[:, None] / scale)
    spanned = roots > RANK * roots.max()
    used = axes[:, spanned]
    inverse = (used / roots[spanned]) @ used.T / scale[:, None] / scale
    return inverse, (used @ used.T) * scale / scale[:, None], int(spanned.sum())


@metric(Card(
    name="spline_gap", symbol="β_g", title="Outcome gap with the score as a spline", needs=Moments,
    span=(-np.inf, np.inf), ideal=0.0, better="ideal",
    asks="Is there still a gap when outcomes may depend on the score along a bent line?",
    undefined="the group or the reference is absent, or score and group cannot be told apart", otherwise="collinear",
    formula=r"Y = \sum_{g \ne ref} \beta_g 1(g) + \sum_k \gamma_k B_k(s) + \epsilon \text{ over all scores}",
    example="one gap per group; B_k are the hat functions on the edges of the score bins",
    references=("yu2022",), family="outcome",
))  # fmt: skip
def spline_gap(m: Moments, reference: int = 0) -> Floats:
    """One gap per group over all scores.

    >>> m = Moments.from_arrays([1, 2, 3, 1, 2, 3], [1, 2, 3, 1.5, 2.5, 3.5], [0] * 6, [0, 0, 0, 1, 1, 1], shape=(1, 2))
    >>> spline_gap.on(m).round(9).tolist()
    [0.0, 0.5]
    """
    return spline(m, reference).estimate


def _card(name: str, title: str, question: str, formula: str, **more: Any) -> Card:
    usual: dict[str, Any] = {
        "span": (-math.inf, math.inf), "ideal": math.nan, "better": "", "needs": Moments,
        "undefined": "the group has no rows", "otherwise": "group_absent", "references": ("yu2022",), "family": "outcome",
    }  # fmt: skip
    return Card(name=name, title=title, asks=question, formula=formula, **usual | more)


@metric(_card(
    "mean_outcome", "Mean outcome in a bin", "How do the members of a group do who are scored alike?",
    r"\sum_{i \in b, g} w_i Y_i / \sum_{i \in b, g} w_i",
    says="In bin {bin:number}, the mean outcome of {group} is {estimate:number}{interval}.",
    example="outcomes 0, 1, 1 of the group in the bin -> 0.667",
))  # fmt: skip
def mean_outcome(m: Moments) -> Floats:
    """Mean outcome of every group in every bin (figures 4 and 6 of the source).

    >>> m = Moments.from_arrays([1, 2, 3, 1], [0, 1, 1, 0], [0] * 4, [0, 0, 0, 1], shape=(1, 2))
    >>> mean_outcome.on(m).round(3).tolist()
    [[0.667, 0.0]]
    """
    return m.mean_outcome


@metric(_card(
    "base_rate", "Mean outcome of everybody", "How does the group do on average?", r"E[Y \mid g]",
    says="Over everybody, the mean outcome of {group} is {estimate:number} (base rate). Nobody was left out, so this says "
    "nothing about a threshold.",
    example="outcomes 0, 1, 1 of the group -> 0.667",
))  # fmt: skip
def base_rate(m: Moments) -> Floats:
    """Mean outcome of each group over all scores.

    >>> base_rate.on(Moments.from_arrays([1, 2, 3, 1], [0, 1, 1, 0], [0] * 4, [0, 0, 0, 1], shape=(1, 2))).round(3).tolist()
    [0.667, 0.0]
    """
    return _over_bins(m, m.mean_outcome)


@metric(_card(
    "precision", "Mean outcome of those treated", "How do those of the group do who got the opportunity?",
    r"E[Y \mid T = 1, g]",
    says="Among those treated, the mean outcome of {group} is {estimate:number} (precision). This mixes the threshold with how "
    "qualified the group is above it.",
    example="outcomes 0, 1, 1 of those treated -> 0.667",
    variants=("Infra-marginality: one bar for all gives unequal precisions, and unequal bars can give equal ones.",),
))  # fmt: skip
def precision(m: Moments) -> Floats:
    """Mean outcome of each group among those treated: a base rate of rows that somebody chose.

    >>> precision.on(Moments.from_arrays([1, 2, 3, 1], [0, 1, 1, 0], [0] * 4, [0, 0, 0, 1], shape=(1, 2))).round(3).tolist()
    [0.667, 0.0]
    """
    return _over_bins(m, m.mean_outcome)


@metric(_card(
    "calibration_gap", "Calibration gap", "Do the outcomes of the group lie above its scores on average?",
    r"E[Y - s \mid g]",
    ideal=0.0, better="ideal",
    example="mean outcome 0.5, mean score 0.4 -> 0.1",
    variants=("Given where scores are on the scale of the outcome. Errors at low and high scores can cancel in it.",),
))  # fmt: skip
def calibration_gap(m: Moments) -> Floats:
    """Mean outcome less mean score of each group.

    >>> calibration_gap.on(Moments.from_arrays([0.3, 0.5, 0.2], [0, 1, 0], [0] * 3, [0, 0, 1], shape=(1, 2))).round(9).tolist()
    [0.1, -0.2]
    """
    return _over_bins(m, m.mean_outcome - m.mean_score)


@metric(_card(
    "lowest_bin", "Bin of the lowest outcomes", "Are outcomes lowest where scores are?", r"\arg\min_b E[Y \mid b]",
    span=(1.0, math.inf), ideal=1.0, better="ideal",
    undefined="there are no rows", otherwise="empty",
    example="mean outcomes 0.2, 0.1, 0.5 -> 2",
    variants=(
        "Not 1: outcomes may not rise with the score (note 13 of the source); p tests the bin against the first one, times the bins "
        "that might have been the lowest.",
    ),
))  # fmt: skip
def lowest_bin(m: Moments) -> Floats:
    """Number of the bin, from 1, whose outcomes are the lowest; the first of those that tie.

    >>> float(lowest_bin.on(Moments.from_arrays([1, 2, 3, 4], [1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], shape=(2, 2))))
    2.0
    """
    mean = _bin_means(m)
    least = np.nanmin(mean) + ROUNDING * np.nanmax(np.abs(mean))  # bins that tie must not be told apart by a last digit
    return np.asarray(1.0 + np.flatnonzero(mean <= least)[0])


def lowest_bin_p(m: Moments, covariance: Covariance = "HC1") -> float:
    """P that the bin of the lowest outcomes lies below the first one; NaN where outcomes of a kind are few, or clusters.

    Two-sided, over the rows of all groups, with the error as if both bins did alike, times the bins that might have been the
    lowest (the data chose it).
    """
    if not m.above.any() or not m.below.any():
        return math.nan
    mean, mass, rows = _bin_means(m), m.mass.sum(-1), m.rows.sum(-1)
    others, lowest = np.count_nonzero(rows) - 1, int(lowest_bin.on(m)) - 1
    first = int(np.flatnonzero(rows)[0])
    if lowest == first:
        return 1.0
    pair = [first, lowest]
    rarer = min(m.above.sum(-1)[pair].sum(), m.below.sum(-1)[pair].sum())
    if (rarer * rows[pair] / rows[pair].sum()).min() < FEWEST_EXPECTED:
        return math.nan
    common = float((mean[pair] * mass[pair]).sum() / mass[pair].sum())
    residual = m.residuals(np.full(m.level.shape, common), np.zeros_like(m.slope))
    contrast = np.zeros(len(mass))
    contrast[pair] = -1 / mass[first], 1 / mass[lowest]
    if covariance == "cluster" and residual.clusters is not None:
        clusters = int(residual.clusters.per_bin()[pair].min())
        flat = np.repeat(contrast, m.rows.shape[-1])[:, None]
        square = float(residual.clusters.products(flat, 0 * flat)[0, 0])
        if clusters < FEWEST_CLUSTERS:
            return math.nan
        variance, freedom = square * clusters / (clusters - 1), clusters - 1.0
    else:
        variance, freedom = float((residual.squared[..., 0, 2].sum(-1) * contrast**2).sum()), math.inf
    ratio = abs(mean[lowest] - mean[first]) / math.sqrt(variance) if variance > 0 else math.nan
    return min(1.0, others * float(two_sided(ratio, freedom)))


def _bin_means(m: Moments) -> Floats:
    """Mean outcome of each bin over all groups; NaN where it has no rows."""
    mass = m.mass.sum(-1)
    return np.asarray(np.nansum(m.mass * np.nan_to_num(m.mean_outcome), axis=-1) / np.where(mass > 0, mass, np.nan))


_WALD = {
    "span": (0.0, math.inf), "undefined": "no cell is large enough, or clusters are too few", "otherwise": "small_cell",
    "variants": ("The value is the Wald statistic; its p-value is in column p, after Welch or Hotelling where cells are thin.",),
    "example": "gaps of one and of two standard errors in independent bins -> 5",
}  # fmt: skip


@metric(_card(
    "joint_test", "Joint test of all gaps", "Are the gaps of all groups in all bins zero?",
    r"\hat\beta' V^{-1} \hat\beta",
    **_WALD,
))  # fmt: skip
def joint(m: Moments, reference: int = 0) -> Floats:
    """Wald statistic of all gaps whose cells are not small.

    >>> rows = np.arange(80.0)
    >>> m = Moments.from_arrays(0 * rows, rows % 4 < 2, 0 * rows, rows % 2, shape=(1, 2))
    >>> round(float(joint.on(m)), 9)
    0.0
    """
    return np.asarray(joint_test(gaps(m, reference)).statistic)


@metric(_card(
    "bin_test", "Test of one bin", "Are the gaps of all groups in this bin zero?", r"\hat\beta_b' V_b^{-1} \hat\beta_b",
    **_WALD,
))  # fmt: skip
def in_bin(m: Moments, reference: int = 0) -> Floats:
    """Wald statistic of the gaps of every bin.

    >>> rows = np.arange(80.0)
    >>> m = Moments.from_arrays(0 * rows, rows % 4 < 2, 0 * rows, rows % 2, shape=(1, 2))
    >>> in_bin.on(m).round(9).tolist()
    [[0.0]]
    """
    fitted = gaps(m, reference)
    return np.array([[bin_test(fitted, b).statistic] for b in range(m.rows.shape[0])])


@metric(_card(
    "marginal_test", "Test right above the threshold", "Are the gaps right above the threshold zero?",
    r"\hat\beta_1' V_1^{-1} \hat\beta_1",
    **_WALD,
))  # fmt: skip
def at_margin(m: Moments, reference: int = 0) -> Floats:
    """Wald statistic of the gaps of the lowest bin: the test that decides for a threshold.

    >>> rows = np.arange(80.0)
    >>> m = Moments.from_arrays(0 * rows, rows % 4 < 2, 0 * rows, rows % 2, shape=(1, 2))
    >>> round(float(at_margin.on(m)), 9)
    0.0
    """
    return np.asarray(bin_test(gaps(m, reference), 0).statistic)


def _over_bins(m: Moments, each: Floats) -> Floats:
    mass = m.mass.sum(-2)
    return np.asarray((m.mass * np.nan_to_num(each)).sum(-2) / np.where(mass > 0, mass, np.nan))


def cuts(outcome: Floats, most: int = 20) -> list[float]:
    """Grades at which outcomes are cut: all but the lowest, or `most` of them."""
    grades = np.unique(outcome)[1:]
    if len(grades) > most:
        grades = np.unique(grades[np.linspace(0, len(grades) - 1, most).round().astype(np.int64)])
    return [float(g) for g in grades]


def kolmogorov(members: Bools, mask: Bools, score: Floats, weight: Floats) -> Floats:
    """(draws,) Kolmogorov distance between scores of members and others, in the rows of `mask`; rows are sorted by score."""
    at = np.flatnonzero(mask)
    if not len(at):
        return np.zeros(len(members))
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


def rates(rows: Rows, mask: Bools, groups: tuple[int, int]) -> tuple[float, float]:
    """Weighted shares of those treated among the rows of two groups; NaN where there are none."""
    if rows.treated is None:
        return math.nan, math.nan
    sides = [mask & (rows.group == g) for g in groups]
    first, second = (
        float(np.average(rows.treated[side], weights=rows.mass[side])) if side.any() else math.nan for side in sides
    )
    return first, second


_ODDS: dict[str, Any] = {
    "needs": Rows, "ideal": 0.0, "undefined": "a group has no row with that outcome", "otherwise": "zero_denominator",
    "variants": ("It mixes scoring with how qualified the groups are, as equalised odds does.",),
}  # fmt: skip


@metric(_card(
    "equal_opportunity_gap", "Equal opportunity gap",
    "Among those with a good outcome, how differently are the groups scored?",
    r"\max_{r, s} |P(S \le s \mid g, Y \ge r) - P(S \le s \mid h, Y \ge r)|",
    span=(0.0, 1.0), better="lower", **_ODDS,
    example="scores 1, 2 of one group and 3, 4 of the other, all with a good outcome -> 1",
))  # fmt: skip
def equal_opportunity_gap(r: Rows, which: int = 1, reference: int = 0) -> float:
    """Largest Kolmogorov distance of two groups' scores among those who reach a grade.

    >>> equal_opportunity_gap([1, 2, 3, 4, 5], outcome=[1, 1, 1, 1, 0], groups=[0, 0, 1, 1, 1])
    1.0
    """
    at = np.flatnonzero(np.isin(r.group, (which, reference)))
    at = at[np.argsort(r.score[at], kind="stable")]
    score, outcome, weight, members = r.score[at], r.outcome[at], r.mass[at], (r.group[at] == which)[None]
    gaps = [float(kolmogorov(members, outcome >= cut, score, weight)[0]) for cut in cuts(r.outcome)]
    return max(gaps, default=math.nan)


@metric(_card(
    "true_positive_rate_gap", "Gap of true positive rates", "Of those with the outcome, is the group treated as often?",
    r"P(T \mid Y = 1, g) - P(T \mid Y = 1, ref)",
    span=(-1.0, 1.0), better="ideal", **_ODDS,
    example="2 of 4 treated, against 3 of 4 -> -0.25",
))  # fmt: skip
def true_positive_rate_gap(r: Rows, which: int = 1, reference: int = 0) -> float:
    """How much more often a group is treated than the reference, among those with outcome 1.

    >>> true_positive_rate_gap([1, 2, 3, 4], outcome=[1, 1, 1, 1], groups=[1, 1, 0, 0], treated=[0, 1, 1, 1])
    -0.5
    """
    rate, reference_rate = rates(r, r.outcome == 1, (which, reference))
    return rate - reference_rate


@metric(_card(
    "false_positive_rate_gap", "Gap of false positive rates",
    "Of those without the outcome, is the group treated as often?", r"P(T \mid Y = 0, g) - P(T \mid Y = 0, ref)",
    span=(-1.0, 1.0), better="ideal", **_ODDS,
    example="1 of 4 treated, against none of 4 -> 0.25",
))  # fmt: skip
def false_positive_rate_gap(r: Rows, which: int = 1, reference: int = 0) -> float:
    """How much more often a group is treated than the reference, among those with outcome 0.

    >>> false_positive_rate_gap([1, 2, 3, 4], outcome=[0, 0, 0, 0], groups=[1, 1, 0, 0], treated=[0, 1, 0, 0])
    0.5
    """
    rate, reference_rate = rates(r, r.outcome == 0, (which, reference))
    return rate - reference_rate
