"""Outcomes of neighbours in a list: the outcome test for scores that order one list only (equations of roth2021)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.metrics.outcome import FEWEST_CLUSTERS, FEWEST_EXPECTED, FEWEST_ROWS, POWER, critical, quantile, two_sided
from evenhand.tallies.candidates import PLACES, Neighbours

Bools = np.typing.NDArray[np.bool_]


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
    nothing = np.full(t.gap[side].shape, np.nan)
    return np.asarray(np.divide(t.gap[side], t.pairs[side], out=nothing, where=t.pairs[side] > 0))


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
        t = self.tally
        nothing = np.full(t.gap.shape, np.nan)
        return np.asarray(np.divide(np.sqrt(t.gap_gap), t.pairs, out=nothing, where=t.pairs > 0))

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
