"""Averages and rates beside the outcome test: per bin, over everybody, against the score, given the outcome."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.metrics.outcome import FEWEST_CLUSTERS, FEWEST_EXPECTED, ROUNDING, Bools, Covariance, gaps, two_sided
from evenhand.metrics.outcome_joint import bin_test as test_of_bin
from evenhand.metrics.outcome_joint import joint_test as test_of_all
from evenhand.tallies.candidates import Rows
from evenhand.tallies.moments import Moments


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
    return np.asarray(test_of_all(gaps(m, reference)).statistic)


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
    return np.array([[test_of_bin(fitted, b).statistic] for b in range(m.rows.shape[0])])


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
    return np.asarray(test_of_bin(gaps(m, reference), 0).statistic)


def _over_bins(m: Moments, each: Floats) -> Floats:
    mass = m.mass.sum(-2)
    return np.asarray((m.mass * np.nan_to_num(each)).sum(-2) / np.where(mass > 0, mass, np.nan))


def cuts(outcome: Floats, most: int = 20) -> list[float]:
    """Grades at which outcomes are cut: all but the lowest, or `most` of them."""
    grades = np.unique(outcome)[1:]
    if len(grades) > most:
        grades = np.unique(grades[np.linspace(0, len(grades) - 1, most).round().astype(np.int64)])
    return [float(g) for g in grades]


def distance(a: Bools, b: Bools, weight: Floats, last: Bools) -> float:
    """Kolmogorov distance of two sets of sorted rows; `last` marks the last row of each score."""
    many, others = weight[a].sum(), weight[b].sum()
    if not many or not others:
        return 0.0
    difference = np.cumsum(weight * (a / many - b / others))
    return float(np.abs(difference[last]).max())


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
    order = np.argsort(r.score, kind="stable")
    score, outcome, weight = (x[order] for x in (r.score, r.outcome, r.mass))
    group = r.group[order]
    last = np.append(score[1:] != score[:-1], True)
    sets = [outcome >= cut for cut in cuts(outcome)]
    return max((distance(g & (group == which), g & (group == reference), weight, last) for g in sets), default=math.nan)


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
