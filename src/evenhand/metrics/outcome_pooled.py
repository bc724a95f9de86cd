"""One gap per group over all bins, tested as if there were none: errors from residuals of lines that all share.

With the full model a lone row has leverage 1 and residual 0, and a group without a single success has no error at all.
So the errors impose what is tested, and nothing is left out by how outcomes fell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.metrics.outcome import POWER, Bools, Covariance, Gaps, critical, gaps, influence, quantile, two_sided
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
        nothing = np.full(len(self.estimate), np.nan)
        return np.asarray(np.divide(self.estimate, self.error, out=nothing, where=self.error > 0))

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
    square, by_cluster = np.full((groups, 3), np.nan), {}
    few = np.asarray(_few(m, usable, fitted.reference) & (rows > 0) & (covariance != "cluster"))
    flat, tilt = influence(m, fitted.lines, np.isfinite(fitted.estimate), fitted.reference)
    step = gap_step(m, estimate)
    for g in np.flatnonzero(rows > 0).tolist():
        null = Null(m, fitted, g, flat[..., g] * share[:, g, None], tilt[..., g] * share[:, g, None])
        at = null.variances(np.array([0.0, step, -step]), "alike" if few[g] else covariance).tolist()
        if at[0] <= 0:  # outcomes that do not vary around their lines
            square[g] = 0.0
            continue
        square[g] = parabola(at, step)
        if covariance == "cluster":
            by_cluster[g] = null.by_cluster()
            square[g] *= leverage_factor(null.without_gap, null.flat, null.tilt, [g, fitted.reference])
    square[fitted.reference] = 0.0
    left = float(np.maximum(m.rows.sum() - fitted.lines.parameters.sum(), 1))
    freedom = left if covariance == "classical" else np.inf
    return Pooled(estimate, square, share, rows, usable.sum(0).astype(float), freedom, few, by_cluster)


def gap_step(m: Moments, estimate: Floats) -> float:
    """How far from zero the variance of a gap is looked at: about as far as the gaps are."""
    largest = np.abs(np.nan_to_num(estimate)).max()
    return float(max(largest, 1e-3 * np.nanmax(np.abs(m.mean_outcome), initial=0.0)) or 1.0)


def parabola(at: Sequence[float], step: float) -> tuple[float, float, float]:
    """The variance of a gap as a polynomial in the true one, from its values at 0, `step` and -`step`."""
    return at[0], (at[1] - at[2]) / (2 * step), (at[1] + at[2] - 2 * at[0]) / (2 * step**2)


def leverage_factor(residual: Moments, flat: Floats, tilt: Floats, groups: Sequence[int]) -> float:
    """How much too small the squares of what clusters add to a gap are on average; at least 1.

    A large cluster pulls the levels that its own residuals are measured from. As Bell and McCaffrey (2002) do, both variances
    are worked out for rows of one variance that share a shock within their cluster, as large as the residuals say (Imbens
    and Kolesar 2016); the levels are those of the bins, common to both groups.
    """
    if residual.clusters is None:
        raise ValueError("clustered errors need sums per cluster")
    chosen = np.zeros(residual.mass.shape, dtype=bool)
    chosen[:, list(groups)] = True
    mass, bins = np.where(chosen, residual.mass, 0.0).sum(-1), len(chosen)
    sums = residual.clusters.pulls(flat.ravel(), tilt.ravel(), chosen.ravel())
    a, d, cross = sums[:bins], sums[bins : 2 * bins], sums[-2]
    per_mass = np.divide(1.0, mass, out=np.zeros(bins), where=mass > 0)
    rows, squares = mass.sum(), float(residual.sums[..., 0, 2][chosen].sum())
    pairs = max(float(d.sum()) - rows, 1.0)
    shock = min(max((sums[-1, 0] - squares) / pairs, 0.0), squares / rows)
    noise = squares / rows - shock
    s0, s1, s2 = (residual.sums[..., i, 0] for i in range(3))
    single = float((s0 * flat**2 + 2 * s1 * flat * tilt + s2 * tilt**2)[chosen].sum())
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
    # (B, G) a residual e of a row at offset u adds e * (flat + tilt * u) to the gap; not needed for the lines
    flat: Floats = field(default_factory=lambda: np.zeros(0))
    tilt: Floats = field(default_factory=lambda: np.zeros(0))

    def lines(self, d: float | Floats) -> tuple[Floats, Floats]:
        """Level per cell and slope per bin where group and reference share a line, `d` (...) apart."""
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
        return level, slope

    def residuals(self, d: float | Floats) -> Moments:
        """The rows measured from those lines."""
        level, slope = self.lines(d)
        return self.m.residuals(level, slope[..., None])

    def variances(self, d: Floats, covariance: Covariance | Literal["alike"]) -> Floats:
        """Variance of the gap for each `d`.

        With "alike" all rows of a bin have one variance, with "classical" all rows: with few outcomes a row's own residual
        tells little, and a group without any would have the smallest error of all.
        """
        if covariance == "cluster":
            return np.array([self._clustered(gap) for gap in d.tolist()])
        residual = self.residuals(d)
        parts = residual.squared[..., :3, 2] if covariance == "HC1" else self.m.sums[..., :3, 0]
        per_cell = self._rowwise(parts)
        n, left = self.m.rows.sum(-1), np.maximum(self.m.rows.sum(-1) - self.fitted.lines.parameters + 1, 1)
        if covariance == "HC1":
            return np.asarray((per_cell.sum(-1) * n / left).sum(-1))
        squares = residual.sums[..., 0, 2].sum(-1)
        each = squares / left if covariance == "alike" else squares.sum(-1, keepdims=True) / left.sum()
        return np.asarray((per_cell.sum(-1) * each).sum(-1))

    def _rowwise(self, parts: Floats) -> Floats:
        """Part of the variance per cell that comes from single rows, out of sums of w, wu and wu^2."""
        flat, tilt = self.flat, self.tilt
        return np.asarray(parts[..., 0] * flat**2 + 2 * parts[..., 1] * flat * tilt + parts[..., 2] * tilt**2)

    @cached_property
    def without_gap(self) -> Moments:
        """The rows measured from lines that the group and the reference share."""
        return self.residuals(0.0)

    def _clustered(self, d: float) -> float:
        residual = self.residuals(d) if d else self.without_gap
        if residual.clusters is None:
            raise ValueError("clustered errors need sums per cluster")
        variance = residual.clusters.products(self.flat.reshape(-1, 1), self.tilt.reshape(-1, 1))[0, 0]
        rowwise = self._rowwise(residual.squared[..., :3, 2]).sum()
        return float(zero_rounding(variance, rowwise, self.m.rows.sum()))

    def by_cluster(self) -> Floats | None:
        """Contribution of each cluster to the gap under no gap; None where clusters are many."""
        clusters = self.without_gap.clusters
        return None if clusters is None else clusters.parts(self.flat.ravel(), self.tilt.ravel())


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
