"""The outcome test: at equal score, do the groups realise equal outcomes?

In every score bin the outcome is regressed on the group and the score; a group's coefficient is its gap to the reference.
Everything is read off a Moments tally in closed form: no row is seen and no matrix larger than the number of gaps is made.
Where scores order one list only, outcomes of neighbours in the list are compared (equations of roth2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.tallies.candidates import PLACES, Neighbours
from evenhand.tallies.clusters import Clusters, PendingClusters
from evenhand.tallies.moments import Moments, zero_rounding
from evenhand.tallies.ragged import Ints

Covariance = Literal["HC1", "classical", "cluster"]
Bools = np.typing.NDArray[np.bool_]

FEWEST_ROWS = 30
FEWEST_EVENTS = 5
"""Below these, robust variances are useless: with a 5% outcome rate and 10 rows they reject a true null in 58% of runs."""

FEWEST_EXPECTED = 10
"""A cell enters the joint test by the events that its rows let expect, not by those it has: cells with few events are those
with low outcomes, and a test that leaves them out finds a true null too rarely (3.4% instead of 5% at an outcome rate of 12%)."""

FEWEST_CLUSTERS = 10
"""Below this, cluster-robust variances are too uncertain."""

ROUNDING = 1e-13
"""Outcomes that differ by less, relative to their size, are equal."""

POWER = 0.8
"""Power at which the detectable gap is stated, as is usual."""


@dataclass(frozen=True)
class Lines:
    """Least-squares lines per bin: one slope, one level per group, `outcome = level + slope * u`."""

    level: Floats  # (..., B, G) outcome of each group where u is zero; NaN where the cell is empty
    slope: Floats  # (..., B) rise of the outcome with the score; 0 where the score is constant in the bin
    spread: Floats  # (..., B) squared deviations of the score from its group means
    scored: Bools  # (..., B) whether the score varies, so that it has a coefficient
    collinear: Bools  # (..., B) whether score and group cannot be told apart
    parameters: Floats  # (..., B) number of coefficients


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
    """How far each group's outcomes lie above the reference's at equal score, with their errors."""

    estimate: Floats  # (..., B, G) gap; 0 for the reference, NaN where there is none
    block: Floats  # (..., B, G, G) covariance of the gaps of one bin
    across: Floats | None  # (B * G, B * G) covariance over bins, or None where bins are independent
    freedom: Floats  # (..., B) degrees of freedom of each bin's t, infinite for the normal
    # degrees of freedom of a statement about all bins; with clusters, as many as clusters of one size would give
    total_freedom: float
    clusters: int | None  # number of clusters, or None
    lines: Lines  # the fitted lines
    rows: Floats  # (..., B, G) rows per cell
    small: Bools  # (..., B, G) cells too thin for their error to be trusted
    # (..., B, G) cells that would hold enough outcomes of either kind if their group did as its bin does
    likely: Bools
    # (..., B, G) degrees of freedom of each robust error by Welch and Satterthwaite; infinite for other errors
    welch_freedom: Floats
    reference: int  # position of the reference group

    @cached_property
    def error(self) -> Floats:
        """Standard error of each gap; 0 for the reference, NaN where there is none."""
        variance = np.diagonal(self.block, axis1=-2, axis2=-1)
        return np.sqrt(np.where(np.isnan(self.estimate), np.nan, np.maximum(variance, 0.0)))

    @cached_property
    def p(self) -> Floats:
        """Two-sided p-value of each gap; NaN for the reference and where residuals do not vary."""
        p = two_sided(ratio(self.estimate, self.error), self.freedom[..., None])
        p[..., self.reference] = np.nan
        return p

    @cached_property
    def tested(self) -> Bools:
        """Gaps in the family of tests: defined, not the reference's, no small cell on either side."""
        mask = np.isfinite(self.p) & ~(self.small | self.small[..., self.reference, None])
        mask[..., self.reference] = False
        return mask

    @cached_property
    def jointly(self) -> Bools:
        """Gaps in the joint test: tested, and expected to hold enough events; or all tested ones."""
        mask = self.tested & self.likely & self.likely[..., self.reference, None]
        return mask if mask.any() else self.tested

    def half_width(self, level: float) -> Floats:
        return critical(level, self.freedom[..., None]) * self.error

    def detectable(self, level: float) -> Floats:
        """Gap that the test has 80% power to detect."""
        reach = critical(level, self.freedom[..., None]) + quantile(POWER, self.freedom[..., None])
        gap = np.asarray(reach * self.error)
        gap[..., self.reference] = np.nan
        return gap


def two_sided(size: Any, freedom: Any) -> Floats:
    """Chance of a |t| or |z| at least this large; infinite freedom is the normal, none gives NaN.

    >>> round(float(two_sided(1.959964, np.inf)), 6), round(float(two_sided(2.0, 10.0)), 6)
    (0.05, 0.073388)
    """
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(freedom, -np.abs(size)))


def quantile(p: float, freedom: Any) -> Floats:
    """The p-quantile of t, or of the normal where freedom is infinite."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, p))


def critical(level: float, freedom: Any) -> Floats:
    """How many standard errors an interval of this coverage reaches to each side."""
    return quantile((1 + level) / 2, freedom)


def gaps(m: Moments, reference: int, covariance: Covariance = "HC1") -> Gaps:
    """Gap of every group in every bin, with robust, classical or cluster-robust standard errors.

    HC1 is n/(n - k) times the sandwich, with the normal; classical has t(n - k); clustered is CR1 with t(clusters - 1).
    """
    fitted = lines(m)
    rows = m.rows
    n, k = rows.sum(-1), fitted.parameters
    # Bins that hold the reference and somebody else, told apart from the score.
    comparable = (rows[..., reference] > 0) & ((rows > 0).sum(-1) > 1) & ~fitted.collinear
    defined = (rows > 0) & comparable[..., None]
    estimate = np.where(defined, fitted.level - fitted.level[..., reference, None], np.nan)
    residual = m.residuals(np.nan_to_num(fitted.level), fitted.slope[..., None])
    flat, tilt = influence(m, fitted, defined, reference)
    across, clusters, small = None, None, thin(rows, m.above, m.below)
    welch_freedom = np.full(rows.shape, np.inf)
    if covariance == "cluster":
        per_bin, across = _clustered(residual, flat, tilt, n, k)
        bins, groups = rows.shape
        block = np.stack([across.reshape(bins, groups, bins, groups)[b, :, b] for b in range(bins)])
        clusters = clusters_of(m).total()
        small = small | (clusters_of(m).per_cell().reshape(rows.shape) < FEWEST_CLUSTERS)
        freedom, total = np.where(per_bin > 1, per_bin - 1.0, np.nan), _effective_clusters(m, flat, tilt) - 1.0
    else:
        block, freedom = _sandwich(residual, flat, tilt, n, k, covariance)
        total = np.inf if covariance == "HC1" else float(np.sum(np.maximum(n - k, 0)))
        if covariance == "HC1":
            welch_freedom = _welch(residual.squared[..., :3, 2], flat, tilt, rows)
    estimate = np.where(np.abs(estimate) <= rounding_error(m)[..., None, None], 0.0, estimate)
    # Cells that would hold enough events of both kinds at the rate of their bin.
    rarer = np.minimum(m.above.sum(-1, keepdims=True), m.below.sum(-1, keepdims=True))
    likely = rows * rarer >= FEWEST_EXPECTED * np.maximum(n[..., None], 1)
    return Gaps(
        estimate, block, across, freedom, total, clusters, fitted, rows, small, likely, welch_freedom, reference
    )


def rounding_error(m: Moments) -> Floats:
    """Differences of outcomes up to this size are rounding, and make a gap of zero."""
    spread = np.sqrt(np.maximum(m.sums[..., 0, 2], 0.0) / np.where(m.mass > 0, m.mass, 1))
    return np.asarray(ROUNDING * (np.abs(np.nan_to_num(m.mean_outcome)) + spread).max((-1, -2)))


def _clustered(residual: Moments, flat: Floats, tilt: Floats, n: Floats, k: Floats) -> tuple[Ints, Floats]:
    """Clusters in each bin, and the covariance of all gaps with CR1's factor of each bin."""
    bins, groups = residual.rows.shape
    per_bin = clusters_of(residual).per_bin()
    across = clusters_of(residual).products(flat.reshape(-1, groups), tilt.reshape(-1, groups), bins)
    row_variance = squares(residual.squared[..., None, :3, 2], flat, tilt).sum(-2)
    rowwise = np.sqrt(np.maximum(row_variance, 0.0)).ravel()
    across = zero_rounding(across, rowwise[:, None] * rowwise, n.sum())
    root = np.repeat(np.sqrt(ratio(per_bin, per_bin - 1) * ratio(n - 1, n - k)), groups)
    return per_bin, across * root[:, None] * root


def _effective_clusters(m: Moments, flat: Floats, tilt: Floats) -> float:
    """Effective number of clusters: fewer than there are, where some weigh far more than others.

    A cluster's weight is the variance that its rows would give the gaps if all rows were equally uncertain (those of
    a larger weight less so, as weighted least squares takes them to be).
    """
    parts = squares(m.sums[..., None, :3, 0], flat, tilt)
    total = parts.sum(-2, keepdims=True)
    share = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    level, turn, bend = ((product * share).sum(-1) for product in (flat * flat, 2 * flat * tilt, tilt * tilt))
    square = clusters_of(m).squared_sizes(level.ravel(), turn.ravel(), bend.ravel())
    return float((parts * share).sum()) ** 2 / square if square > 0 else float(clusters_of(m).total())


def clusters_of(m: Moments) -> Clusters | PendingClusters:
    if m.clusters is None:
        raise ValueError("clustered errors need sums per cluster")
    return m.clusters


def thin(rows: Floats, above: Floats, below: Floats) -> Bools:
    """Cells with too few rows or events for their standard error to be trusted."""
    return np.asarray((rows < FEWEST_ROWS) | (above < FEWEST_EVENTS) | (below < FEWEST_EVENTS))


def _welch(weights: Floats, flat: Floats, tilt: Floats, rows: Floats) -> Floats:
    """Welch-Satterthwaite degrees of freedom: few where few rows make most of the variance."""
    parts = squares(weights[..., None, :], flat, tilt)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = parts.sum(-2) ** 2 / (parts**2 / np.maximum(rows - 1, 1)[..., None]).sum(-2)
    return np.asarray(np.where(np.isfinite(freedom), freedom, np.inf))


def ratio(top: Any, bottom: Any) -> Floats:
    """The first over the second, NaN where the second is not above zero."""
    return np.asarray(np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > 0))


def squares(weights: Floats, flat: Floats, tilt: Floats) -> Floats:
    """Sum over rows of w (flat + tilt u)^2 per cell, from sums (..., 3) of w, wu and wu^2."""
    w0, w1, w2 = (weights[..., i] for i in range(3))
    return np.asarray(w0 * flat**2 + 2 * w1 * flat * tilt + w2 * tilt**2)


def influence(m: Moments, fitted: Lines, defined: Bools, reference: int) -> tuple[Floats, Floats]:
    """(flat, tilt): a residual e at offset u in group g moves the gap of h by e (flat + tilt u)."""
    mass, offset = m.mass, np.nan_to_num(m.mean_offset)
    groups = mass.shape[-1]
    share = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
    score_gap = offset - offset[..., reference, None]
    spread = fitted.spread[..., None]
    lean = np.divide(score_gap, spread, out=np.zeros_like(score_gap), where=spread > 0)
    tilt = np.where((m.low < m.high)[..., :, None], -lean[..., None, :], 0.0)
    flat = np.eye(groups) * share[..., None, :] - offset[..., :, None] * tilt
    flat[..., reference, :] -= share[..., reference, None]
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
    robust = meat(residual.squared[..., :3, 2], flat, tilt) * (n / left)[..., None, None]
    return robust, np.full(n.shape, np.inf)


def meat(weights: Floats, flat: Floats, tilt: Floats) -> Floats:
    """Sum over rows of w (flat + tilt u)(flat + tilt u)', from sums of w, wu and wu^2 per group."""
    w0, w1, w2 = (weights[..., i, None] for i in range(3))
    across = np.swapaxes(flat, -1, -2) @ (w0 * flat + w1 * tilt) + np.swapaxes(tilt, -1, -2) @ (w1 * flat + w2 * tilt)
    return np.asarray(across + np.swapaxes(across, -1, -2)) / 2  # alike on both sides to the last digit


def reasons(m: Moments, fitted: Gaps) -> list[list[str]]:
    """Reason code per bin and group where a gap or its error does not exist, else nothing."""
    rows, reference = m.rows, fitted.reference
    out = []
    for b in range(rows.shape[0]):
        present = rows[b] > 0
        if not present[reference]:
            codes = ["reference_absent"] * len(present)
        elif present.sum() == 1:
            codes = ["one_group_only" if g == reference else "group_absent" for g in range(len(present))]
        elif fitted.lines.collinear[b]:
            codes = ["collinear" if p else "group_absent" for p in present]
        else:
            short = np.isnan(fitted.error[b]) & present
            single = fitted.clusters is not None and not fitted.freedom[b] > 0
            codes = [
                "group_absent" if not p else ("single_member" if single else "too_short") if s else ""
                for p, s in zip(present, short, strict=True)
            ]
        out.append(codes)
    return out


def mean_errors(m: Moments, covariance: Covariance = "HC1") -> tuple[Floats, Floats]:
    """Standard error of the mean outcome of every cell, and its degrees of freedom."""
    mean = np.nan_to_num(m.mean_outcome)
    centred = m.residuals(mean, np.zeros_like(m.slope))
    varied = (m.above > 0) & (m.below > 0)
    squares = np.where(varied, centred.squared[..., 0, 2], 0.0)  # zero: all outcomes of the cell are one number
    if covariance == "cluster" and centred.clusters is not None:
        clusters, square = (x.reshape(m.rows.shape) for x in (centred.clusters.per_cell(), centred.clusters.squares()))
        square = zero_rounding(square, squares, m.rows)
        left = np.where(clusters > 1, clusters - 1.0, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(squares > 0, np.sqrt(square * clusters / left), 0.0 * left) / m.mass, left
    left = np.where(m.rows > 1, m.rows - 1, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(squares / left * m.rows) / m.mass, left


@metric(Card(
    name="outcome_gap", symbol="β_g", title="Outcome gap at equal score", needs=Moments,
    span=(-np.inf, np.inf), ideal=0.0, better="ideal",
    asks="At equal score, does a group realise better outcomes than the reference?",
    undefined="the group or the reference is absent from the bin, or score and group cannot be told apart",
    otherwise="collinear",
    formula=r"Y = \alpha + \sum_{g \ne ref} \beta_g 1(g) + \gamma s + \epsilon \text{ in each score bin}",
    example="outcomes of F equal the score, those of M the score plus 0.5: the gap of M to F is 0.5 in every bin",
    variants=("Positive: the group does better than the score says, so it is under-rated, held to a higher bar.",),
    references=("yu2022",), family="outcome",
))  # fmt: skip
def outcome_gap(m: Moments, reference: int = 0) -> Floats:
    """Gap of every group to the reference in every bin.

    >>> m = Moments.from_arrays([1, 2, 3, 1, 2, 3], [1, 2, 3, 1.5, 2.5, 3.5], [0] * 6, [0, 0, 0, 1, 1, 1], shape=(1, 2))
    >>> outcome_gap.on(m).round(9).tolist()
    [[0.0, 0.5]]
    """
    return gaps(m, reference).estimate


@metric(Card(
    name="order_gap", symbol="δ_g", title="Outcome gap of neighbours in a list", needs=Neighbours,
    span=(-np.inf, np.inf), ideal=np.nan, better="",
    asks="Right below the reference in the same list, does a group still do better than it?",
    undefined="no candidate of the group stands there next to one of the reference", otherwise="no_pairs",
    formula=r"E[Y_g - Y_{ref} \mid ref\ right\ above\ g] \le 0 \le E[Y_g - Y_{ref} \mid g\ right\ above\ ref]",
    example="in a list of m, f, m the outcomes are 0, 1, 1; of f against m right above it -> 1",
    variants=(
        "Only the order within lists is used, so scores need not be comparable between requests.",
        "Above 0 with placed='below': exchanging the two would raise the outcome, so the group is ranked too low. Below 0 with "
        "placed='above': it is ranked too high. The gap at equal merit lies between the two.",
        "A higher place that itself raises outcomes hides such gaps, and never makes one.",
    ),
    references=("roth2021", "yu2022"), family="outcome",
))  # fmt: skip
def order_gap(t: Neighbours, placed: Literal["below", "above"] = "below") -> Floats:
    """Mean outcome of a group minus the reference's, over neighbours with the group `placed` below or above.

    >>> order_gap([3, 2, 1], outcome=[0, 1, 1], groups=["m", "f", "m"], protected="f", versus="m")
    1.0
    """
    side = PLACES.index(placed)
    return ratio(t.gap[side], t.pairs[side])


@dataclass(frozen=True)
class OrderGaps:
    """Gaps of all groups, (2, groups), with tests that impose no gap: by the squares of the clusters' own sums."""

    tally: Neighbours

    @cached_property
    def estimate(self) -> Floats:
        return np.stack([order_gap.on(self.tally, placed=placed) for placed in PLACES])

    @cached_property
    def error(self) -> Floats:
        """Standard error of each gap, were it zero."""
        return ratio(np.sqrt(self.tally.gap_gap), self.tally.pairs)

    @cached_property
    def small(self) -> Bools:
        """Too few pairs, pairs of unequal outcomes, or clusters for the normal to hold."""
        t = self.tally
        return (t.pairs < FEWEST_ROWS) | (t.unequal < FEWEST_EXPECTED) | (t.clusters < FEWEST_CLUSTERS)

    @cached_property
    def p(self) -> Floats:
        """Against gaps that a fair order may have; doubled, so that it agrees with the interval. NaN where small."""
        ratio = np.divide(self.estimate, self.error, out=np.zeros(self.error.shape), where=self.error > 0)
        against = np.array([[1.0], [-1.0]]) * ratio
        return np.where(self.small, np.nan, np.where(against > 0, two_sided(ratio, np.inf), 1.0))

    def ends(self, level: float) -> tuple[Floats, Floats]:
        """Interval of each gap: the values that the same test does not reject; NaN where small.

        (gap - m pairs)^2 <= z^2 sum_c (gap_c - m pairs_c)^2 is a quadratic in m.
        """
        t, z = self.tally, critical(level, np.inf)
        a, b, c = (t.pairs**2 - z**2 * t.pairs_pairs, t.gap * t.pairs - z**2 * t.gap_pairs, t.gap**2 - z**2 * t.gap_gap)
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(np.maximum(b * b - a * c, 0.0))
            ends = np.where(self.small | (a <= 0), np.nan, np.stack([b - root, b + root]) / a)
        return ends[0], ends[1]

    def detectable(self, level: float) -> Floats:
        """Gap that the test has 80% power to detect."""
        reach = critical(level, np.inf) + quantile(POWER, np.inf)
        return np.where(self.small, np.nan, reach * self.error)
