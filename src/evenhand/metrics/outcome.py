"""The outcome test: at equal score, do the groups realise equal outcomes?

In every score bin the outcome is regressed on the group and the score; a group's coefficient is its gap to the reference.
Everything is read off a Moments tally in closed form: no row is seen and no matrix larger than the number of gaps is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from evenhand.cards import Floats
from evenhand.tallies.moments import Moments

Covariance = Literal["HC1", "classical", "cluster"]
Bools = np.typing.NDArray[np.bool_]

FEWEST_ROWS = 30
FEWEST_EVENTS = 5
"""Below these, robust variances are useless: with a 5% outcome rate and 10 rows they reject a true null in 58% of runs."""

FEWEST_CLUSTERS = 10
POWER = 0.8
RANK = 1e-10
"""Eigenvalues of a scaled cross-product below this share of the largest one are rounding."""


@dataclass(frozen=True)
class Lines:
    """Least-squares lines per bin: one slope, one level per group, `outcome = level + slope * u`.

    Attributes
    ----------
    level : (..., B, G) outcome of each group where u is zero; NaN where the cell is empty.
    slope : (..., B) rise of the outcome with the score; 0 where the score is constant in the bin.
    spread : (..., B) squared deviations of the score from its group means.
    scored : (..., B) whether the score varies, so that it has a coefficient.
    collinear : (..., B) whether score and group cannot be told apart.
    parameters : (..., B) number of coefficients.
    """

    level: Floats
    slope: Floats
    spread: Floats
    scored: Bools
    collinear: Bools
    parameters: Floats


def lines(m: Moments) -> Lines:
    """Regress the outcome on group and score in every bin (eqs. 1 and 2 of the source)."""
    present, offset = m.rows > 0, np.nan_to_num(m.mean_offset)
    within = m.sums[..., 2, 0] - offset * m.sums[..., 1, 0]
    across = m.sums[..., 1, 1] - offset * m.sums[..., 0, 1] + m.slope * within
    scored = m.low.min(-1) < m.high.max(-1)
    collinear = scored & ~(m.low < m.high).any(-1)
    varies = scored & ~collinear
    spread = np.where(varies, within.sum(-1), 0.0)
    slope = np.divide(across.sum(-1), spread, out=np.zeros_like(spread), where=spread > 0)
    level = m.mean_outcome - slope[..., None] * offset
    return Lines(level, slope, spread, varies, collinear, present.sum(-1) + varies)


@dataclass(frozen=True)
class Gaps:
    """How far each group's outcomes lie above the reference's at equal score, with their errors.

    Attributes
    ----------
    estimate : (..., B, G) gap; 0 for the reference, NaN where there is none.
    block : (..., B, G, G) covariance of the gaps of one bin.
    across : (B * G, B * G) covariance over bins, or None where bins are independent.
    freedom : (..., B) degrees of freedom of each bin's t, infinite for the normal.
    total_freedom : degrees of freedom of a statement about all bins.
    clusters : number of clusters, or None.
    lines : the fitted lines.
    rows : (..., B, G) rows per cell.
    small : (..., B, G) cells too thin for their error to be trusted.
    reason : (B, G) reason codes where the gap or its error does not exist.
    reference : position of the reference group.
    """

    estimate: Floats
    block: Floats
    across: Floats | None
    freedom: Floats
    total_freedom: float
    clusters: int | None
    lines: Lines
    rows: Floats
    small: Bools
    reference: int

    @property
    def error(self) -> Floats:
        """Standard error of each gap; 0 for the reference, NaN where there is none."""
        variance = np.diagonal(self.block, axis1=-2, axis2=-1)
        return np.sqrt(np.where(np.isnan(self.estimate), np.nan, np.maximum(variance, 0.0)))

    @property
    def p(self) -> Floats:
        """Two-sided p-value of each gap; NaN for the reference."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(self.estimate) / self.error
        p = two_sided(ratio, self.freedom[..., None])
        p[..., self.reference] = np.nan
        return p

    @property
    def tested(self) -> Bools:
        """Gaps that enter the family of tests: defined, not the reference's, and neither side's cell is small."""
        thin = self.small | self.small[..., self.reference, None]
        found = np.isfinite(self.p) & ~thin
        found[..., self.reference] = False
        return found

    def half_width(self, level: float) -> Floats:
        """Half of the interval of each gap."""
        return critical(level, self.freedom[..., None]) * self.error

    def detectable(self, level: float) -> Floats:
        """The gap that the test would find with a chance of 80%: a smaller one is likely to stay unseen."""
        reach = critical(level, self.freedom[..., None]) + quantile(POWER, self.freedom[..., None])
        found = np.asarray(reach * self.error)
        found[..., self.reference] = np.nan
        return found


def two_sided(ratio: Any, freedom: Any) -> Floats:
    """Chance of a |t| or |z| at least this large; infinite freedom is the normal.

    >>> round(float(two_sided(1.959964, np.inf)), 6), round(float(two_sided(2.0, 10.0)), 6)
    (0.05, 0.073388)
    """
    ratio, freedom = np.broadcast_arrays(np.asarray(ratio, float), np.asarray(freedom, float))
    finite = np.isfinite(freedom)
    with np.errstate(invalid="ignore"):
        student = 2 * special.stdtr(np.where(finite & (freedom > 0), freedom, np.nan), -np.abs(ratio))
    return np.where(finite, student, 2 * special.ndtr(-np.abs(ratio)))


def quantile(p: float, freedom: Any) -> Floats:
    """The p-quantile of t, or of the normal where freedom is infinite."""
    freedom = np.asarray(freedom, dtype=np.float64)
    finite = np.isfinite(freedom)
    usable = np.where(finite & (freedom > 0), freedom, np.nan)
    return np.where(finite, special.stdtrit(usable, p), special.ndtri(p))


def critical(level: float, freedom: Any) -> Floats:
    """How many standard errors an interval of this coverage reaches to each side."""
    return quantile((1 + level) / 2, freedom)


def gaps(m: Moments, reference: int, covariance: Covariance = "HC1") -> Gaps:
    """The gap of every group in every bin, with heteroscedasticity-robust, classical or clustered errors.

    HC1 is n/(n - k) times the sandwich, with the normal; classical has t(n - k); clustered is CR1 with t(clusters - 1).
    """
    fitted = lines(m)
    rows, offset = m.rows, np.nan_to_num(m.mean_offset)
    n, k = rows.sum(-1), fitted.parameters
    defined = (rows > 0) & _comparable(rows, fitted, reference)[..., None]
    estimate = np.where(defined, fitted.level - fitted.level[..., reference, None], np.nan)
    residual = m.measured_from(np.nan_to_num(fitted.level), fitted.slope[..., None])
    flat, tilt = _influence(rows, offset, fitted, defined, reference)
    across, clusters = None, None
    if covariance == "cluster":
        if residual.clusters is None:
            raise ValueError("clustered errors need sums per cluster")
        held = residual.clusters.per_bin(rows.shape[-2])
        scale = _over(held, held - 1) * _over(n - 1, n - k)
        across = residual.clusters.products(flat.reshape(-1, flat.shape[-1]), tilt.reshape(-1, tilt.shape[-1]), rows.shape[-2])
        root = np.repeat(np.sqrt(scale), rows.shape[-1])
        across = across * root[:, None] * root
        block = np.stack([across[s, s] for s in _bin_slices(rows)])
        freedom, total, clusters = np.where(held > 1, held - 1.0, np.nan), residual.clusters.total - 1.0, residual.clusters.total
    else:
        block, freedom = _sandwich(residual, flat, tilt, n, k, covariance)
        total = np.inf if covariance == "HC1" else float(np.sum(np.maximum(n - k, 0)))
    small = (rows < FEWEST_ROWS) | (m.above < FEWEST_EVENTS) | (m.below < FEWEST_EVENTS)
    if m.clusters is not None and covariance == "cluster":
        small = small | (m.clusters.per_cell(rows.size).reshape(rows.shape) < FEWEST_CLUSTERS)
    return Gaps(estimate, block, across, freedom, total, clusters, fitted, rows, small, reference)


def _comparable(rows: Floats, fitted: Lines, reference: int) -> Bools:
    """Bins that hold the reference and somebody else, told apart from the score."""
    return np.asarray((rows[..., reference] > 0) & ((rows > 0).sum(-1) > 1) & ~fitted.collinear)


def _bin_slices(rows: Floats) -> list[slice]:
    groups = rows.shape[-1]
    return [slice(b * groups, (b + 1) * groups) for b in range(rows.shape[-2])]


def _over(top: Any, bottom: Any) -> Floats:
    """A small-sample factor; NaN where nothing is left to estimate the error from."""
    top, bottom = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def _influence(rows: Floats, offset: Floats, fitted: Lines, defined: Bools, reference: int) -> tuple[Floats, Floats]:
    """What a residual e of a row of group g, at offset u, adds to the gap of group h: e * (flat + tilt * u) at [g, h]."""
    groups = rows.shape[-1]
    share = np.divide(1.0, rows, out=np.zeros_like(rows), where=rows > 0)
    apart = offset - offset[..., reference, None]
    lean = np.divide(apart, fitted.spread[..., None], out=np.zeros_like(apart), where=fitted.spread[..., None] > 0)
    flat = np.eye(groups) * share[..., None, :] + offset[..., :, None] * lean[..., None, :]
    flat[..., reference, :] -= share[..., reference, None]
    tilt = -lean[..., None, :] + np.zeros_like(flat)
    keep = defined[..., None, :] & (np.arange(groups) != reference)
    return np.where(keep, flat, 0.0), np.where(keep, tilt, 0.0)


def _sandwich(
    residual: Moments, flat: Floats, tilt: Floats, n: Floats, k: Floats, covariance: Covariance
) -> tuple[Floats, Floats]:
    """Covariance of the gaps of each bin, and the degrees of freedom that go with it."""
    left = np.where(n - k > 0, n - k, np.nan)
    if covariance == "classical":
        variance = residual.sums[..., 0, 2].sum(-1) / left
        return meat(residual.sums[..., :3, 0], flat, tilt) * variance[..., None, None], left
    robust = meat(residual.sums[..., :3, 2], flat, tilt) * (n / left)[..., None, None]
    return robust, np.full(n.shape, np.inf)


def meat(weights: Floats, flat: Floats, tilt: Floats) -> Floats:
    """Sum over rows of w (flat + tilt u)(flat + tilt u)', from the sums of w, wu and wu^2 per group."""
    mixed = np.einsum("...g,...gh,...gi->...hi", weights[..., 1], flat, tilt)
    return np.asarray(
        np.einsum("...g,...gh,...gi->...hi", weights[..., 0], flat, flat)
        + mixed
        + np.swapaxes(mixed, -1, -2)
        + np.einsum("...g,...gh,...gi->...hi", weights[..., 2], tilt, tilt)
    )


def reasons(m: Moments, found: Gaps) -> list[list[str]]:
    """Why a gap, or its error, does not exist: a code per bin and group, empty where all is well."""
    rows, reference = m.rows, found.reference
    out = []
    for b in range(rows.shape[0]):
        present = rows[b] > 0
        if not present[reference]:
            codes = ["reference_absent"] * len(present)
        elif present.sum() == 1:
            codes = ["one_group_only" if g == reference else "group_absent" for g in range(len(present))]
        elif found.lines.collinear[b]:
            codes = ["collinear" if p else "group_absent" for p in present]
        else:
            short = np.isnan(found.error[b]) & present
            single = found.clusters is not None and not found.freedom[b] > 0
            codes = [
                "group_absent" if not p else ("single_member" if single else "too_short") if s else ""
                for p, s in zip(present, short, strict=True)
            ]
        out.append(codes)
    return out


@dataclass(frozen=True)
class Wald:
    """A joint test that several gaps are all zero."""

    statistic: float
    p: float
    gaps: int
    freedom: float


NO_TEST = Wald(np.nan, np.nan, 0, np.nan)


def wald(estimate: Floats, covariance: Floats, freedom: float, clusters: int | None) -> Wald:
    """Are all these gaps zero? Chi-square, or F where the errors have few degrees of freedom.

    With clusters the statistic is referred to Hotelling's T^2 with clusters - 1 degrees of freedom, which is F(q, clusters - q)
    after scaling: the plain F(q, clusters - 1) rejects too often once the gaps are not few against the clusters.
    """
    if not len(estimate) or not np.isfinite(covariance).all():
        return NO_TEST
    scale = np.sqrt(np.diagonal(covariance))
    if not (scale > 0).all():
        return Wald(np.inf, 0.0, len(estimate), freedom) if np.any(estimate[scale == 0] != 0) else NO_TEST
    roots, axes = np.linalg.eigh(covariance / scale[:, None] / scale)
    kept = roots > RANK * roots.max()
    q = int(kept.sum())
    statistic = float((((estimate / scale) @ axes)[kept] ** 2 / roots[kept]).sum())
    if not np.isfinite(freedom):
        return Wald(statistic, float(special.chdtrc(q, statistic)), q, freedom)
    left = freedom if clusters is None else freedom + 1 - q
    if left <= 0:
        return Wald(statistic, np.nan, q, left)
    scaled = statistic / q if clusters is None else statistic / q * left / freedom
    return Wald(statistic, float(special.fdtrc(q, left, scaled)), q, left)


def bin_test(found: Gaps, b: int) -> Wald:
    """Are all gaps of one bin zero? Small cells are left out."""
    chosen = found.tested[b]
    return wald(
        found.estimate[b][chosen], found.block[b][np.ix_(chosen, chosen)], float(found.freedom[b]), _clusters_in(found, b)
    )


def _clusters_in(found: Gaps, b: int) -> int | None:
    return None if found.clusters is None else int(found.freedom[b]) + 1


def joint_test(found: Gaps) -> Wald:
    """Are the gaps of all groups in all bins zero? Small cells are left out."""
    chosen = found.tested.ravel()
    full = covariance_of(found)
    return wald(found.estimate.ravel()[chosen], full[np.ix_(chosen, chosen)], found.total_freedom, found.clusters)


def covariance_of(found: Gaps) -> Floats:
    """The covariance of all gaps, bins by groups."""
    if found.across is not None:
        return found.across
    bins, groups = found.estimate.shape
    full = np.zeros((bins, groups, bins, groups))
    full[np.arange(bins), :, np.arange(bins), :] = found.block
    return full.reshape(bins * groups, bins * groups)


@dataclass(frozen=True)
class Effect:
    """One number about each group over all bins."""

    estimate: Floats
    error: Floats
    freedom: float
    small: Bools

    @property
    def p(self) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return two_sided(np.abs(self.estimate) / self.error, self.freedom)

    def half_width(self, level: float) -> Floats:
        return critical(level, self.freedom) * self.error

    def detectable(self, level: float) -> Floats:
        return (critical(level, self.freedom) + quantile(POWER, self.freedom)) * self.error


def pooled_gap(found: Gaps) -> Effect:
    """The gap that an average member of the group meets: gaps weighted by the group's rows in each bin.

    Small cells are left out; a group that has nothing but small cells is pooled over those and marked.
    """
    usable = np.isfinite(found.error)
    tested = found.tested
    small = ~tested.any(-2)
    chosen = np.where(small, usable, tested)
    weight = np.where(chosen, found.rows, 0.0)
    total = weight.sum(-2)
    share = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    estimate = (share * np.nan_to_num(found.estimate)).sum(-2)
    bins, groups = share.shape
    full = np.nan_to_num(covariance_of(found)).reshape(bins, groups, bins, groups)
    error = np.sqrt(np.einsum("bg,bgcg,cg->g", share, full, share))
    absent = total == 0
    estimate, error = np.where(absent, np.nan, estimate), np.where(absent, np.nan, error)
    estimate[found.reference], error[found.reference] = 0.0, 0.0
    return Effect(estimate, error, found.total_freedom, small)


def holm(p: Floats) -> Floats:
    """Holm's step-down adjustment; NaN entries are not part of the family.

    >>> holm(np.array([0.01, np.nan, 0.04, 0.03])).round(6).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    flat = p.ravel()
    order = np.argsort(flat)[: int(np.isfinite(flat).sum())]
    out = np.full(flat.shape, np.nan)
    steps = np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(flat[order] * steps), 1.0)
    return out.reshape(p.shape)


def spline_gap(m: Moments, reference: int, covariance: Covariance = "HC1") -> Effect:
    """One gap per group over the whole support, the score entering as a linear spline with a knot at every bin edge.

    The flexible form beside the line per bin: inside a bin a spline is a line, so the same sums give it.
    """
    bins, groups = m.rows.shape
    level, turn = _spline_design(m, reference)
    s0, s1, s2 = (m.sums[..., i, 0] for i in range(3))
    mixed = np.einsum("bg,bgi,bgj->ij", s1, level, turn)
    gram = np.einsum("bg,bgi,bgj->ij", s0, level, level) + mixed + mixed.T + np.einsum("bg,bgi,bgj->ij", s2, turn, turn)
    y0 = m.level * s0 + m.slope * s1 + m.sums[..., 0, 1]
    y1 = m.level * s1 + m.slope * s2 + m.sums[..., 1, 1]
    right = np.einsum("bg,bgi->i", y0, level) + np.einsum("bg,bgi->i", y1, turn)
    inverse, projector, rank = _pseudo_inverse(gram)
    theta = inverse @ right
    lacking = np.abs(projector[:groups] - np.eye(len(gram))[:groups]).max(-1) > 1e-6
    others = np.arange(groups) != reference
    estimate = np.where(others & ~lacking, theta[:groups], np.where(others, np.nan, 0.0))
    residual = m.measured_from(level @ theta, turn @ theta)
    flat, tilt = level @ inverse[:, :groups], turn @ inverse[:, :groups]
    n, freedom = m.rows.sum(), np.inf
    left = n - rank if n > rank else np.nan
    if covariance == "cluster" and residual.clusters is not None:
        clusters = residual.clusters.total
        variance = residual.clusters.products(flat.reshape(-1, groups), tilt.reshape(-1, groups))
        variance = variance * _over(clusters, clusters - 1) * (n - 1) / left
        freedom = clusters - 1.0 if clusters > 1 else np.nan
    elif covariance == "classical":
        variance, freedom = inverse[:groups, :groups] * residual.sums[..., 0, 2].sum() / left, left
    else:
        variance = meat(residual.sums[..., :3, 2], flat, tilt).sum(0) * n / left
    error = np.where(np.isnan(estimate), np.nan, np.sqrt(np.maximum(np.diagonal(variance), 0.0)))
    error[reference] = 0.0
    return Effect(estimate, error, float(freedom), np.zeros(groups, dtype=bool))


def _spline_design(m: Moments, reference: int) -> tuple[Floats, Floats]:
    """Regressors of a row as `level + turn * u` per cell: a dummy per group (none for the reference), then a hat per knot."""
    bins, groups = m.rows.shape
    filled = m.rows.sum(-1) > 0
    low, high = m.low.min(-1), m.high.max(-1)
    knots = np.unique(np.concatenate([[low[filled].min()], high[filled]]))
    left = np.clip(np.searchsorted(knots, np.where(filled, high, knots[0])) - 1, 0, max(len(knots) - 2, 0))
    level = np.zeros((bins, groups, groups + len(knots)))
    turn = np.zeros_like(level)
    at = np.arange(groups)
    level[:, at, at] = at != reference
    if len(knots) == 1:
        level[..., groups] = 1.0
        return level, turn
    width = knots[left + 1] - knots[left]
    b = np.arange(bins)
    for hat, where, sign in ((left, knots[left + 1], 1.0), (left + 1, knots[left], -1.0)):
        level[b, :, groups + hat] = (sign * (where - m.origin) / width)[:, None]
        turn[b, :, groups + hat] = (-sign / width)[:, None]
    return level, turn


def _pseudo_inverse(gram: Floats) -> tuple[Floats, Floats, int]:
    """Inverse of a cross-product on the space it spans, the projector on that space, and its dimension."""
    scale = np.sqrt(np.diagonal(gram))
    scale = np.where(scale > 0, scale, 1.0)
    roots, axes = np.linalg.eigh(gram / scale[:, None] / scale)
    kept = roots > RANK * roots.max()
    used = axes[:, kept]
    inverse = (used / roots[kept]) @ used.T / scale[:, None] / scale
    return inverse, (used @ used.T) * scale / scale[:, None], int(kept.sum())


def mean_errors(m: Moments, covariance: Covariance = "HC1") -> tuple[Floats, Floats]:
    """Standard error of the mean outcome of every cell, and the degrees of freedom that go with it."""
    centred = m.measured_from(np.nan_to_num(m.mean_outcome), np.zeros_like(m.slope))
    if covariance == "cluster" and centred.clusters is not None:
        parts, cells = centred.clusters, m.rows.size
        held = parts.per_cell(cells).reshape(m.rows.shape)
        square = np.bincount(parts.cell, parts.sums[:, 2] ** 2, cells).reshape(m.rows.shape)
        left = np.where(held > 1, held - 1.0, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(square * held / left) / m.rows, left
    left = np.where(m.rows > 1, m.rows - 1, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(centred.sums[..., 0, 2] / left / m.rows), left


def odds_gap(m: Moments, reference: int) -> Floats:
    """Largest difference between a group and the reference in the share of a score bin, given the outcome (binary only)."""
    found = np.zeros(m.rows.shape[-1])
    for counts in (m.above, m.rows - m.above):
        with np.errstate(invalid="ignore"):
            share = counts / counts.sum(-2, keepdims=True)
        found = np.maximum(found, np.abs(share - share[:, [reference]]).max(0))
    return found

