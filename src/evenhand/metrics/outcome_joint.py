"""Statements about all bins together: joint tests, one gap over the whole score, and what other measures see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.metrics.outcome import (
    POWER,
    Bools,
    Covariance,
    Gaps,
    critical,
    meat,
    quantile,
    rounding_error,
    thin,
    two_sided,
)
from evenhand.metrics.outcome_pooled import Pooled, gap_step, leverage_factor, parabola
from evenhand.tallies.moments import Moments, zero_rounding

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
    for gaps, covariance in parts:
        inverse, _, rank = _pseudo_inverse(covariance)
        statistic, q = statistic + float(gaps @ inverse @ gaps), q + rank
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
    """The chosen gaps of a bin, and their covariance."""
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
        ratio = np.divide(np.abs(self.estimate), self.error, out=np.full(len(self.error), np.nan), where=self.error > 0)
        return two_sided(ratio, self.freedom)

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
    """Gaps with what each cluster adds to them if there is none."""
    m, groups = fit.m, fit.m.rows.shape[1]
    square, by_cluster = np.full((groups, 3), np.nan), dict[int, Floats | None]()
    step = gap_step(m, fit.estimate)
    for g in (g for g in range(groups) if g != reference and np.isfinite(fit.estimate[g])):
        along, across = flat[..., g], tilt[..., g]
        variances = []
        for gap in (0.0, step, -step):
            residual = fit.with_gap(g, gap)
            if residual.clusters is None:
                raise ValueError("clustered errors need sums per cluster")
            variance = residual.clusters.products(along.reshape(-1, 1), across.reshape(-1, 1))[0, 0]
            rowwise = meat(residual.squared[..., :3, 2], along[..., None], across[..., None]).sum()
            variances.append(float(zero_rounding(variance, rowwise, m.rows.sum())))
            if not gap:
                by_cluster[g] = residual.clusters.parts(along.ravel(), across.ravel())
        square[g] = parabola(variances, step)
        square[g] *= leverage_factor(fit.with_gap(g, 0.0), along, across, [g, reference])
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
