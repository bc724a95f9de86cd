"""A stochastic policy that any ranker can replay: boosts to sort by, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenhand.allocation.objectives import Objective, Slope
from evenhand.cards import Floats


@dataclass(frozen=True)
class Draw:
    """One way to rank every request, and what it gave on the requests it was learned from.

    Attributes
    ----------
    boosts : (providers,) sort by gain plus boost. relevance : mean nDCG. x : (providers,) exposure over its mean.
    """

    boosts: Floats
    relevance: float
    x: Floats


@dataclass(frozen=True)
class Mixture:
    """A stochastic policy: draws and their probabilities, valued by relevance and evenness."""

    draws: tuple[Draw, ...]
    probability: Floats
    strength: float
    objective: Objective

    @cached_property
    def relevances(self) -> Floats:
        return np.array([d.relevance for d in self.draws])

    @cached_property
    def exposures(self) -> Floats:
        return np.stack([d.x for d in self.draws])

    @property
    def relevance(self) -> float:
        return float(self.probability @ self.relevances)

    @property
    def x(self) -> Floats:
        return np.asarray(self.probability @ self.exposures)

    @cached_property
    def value(self) -> float:
        """Objective of the policy, not smoothed."""
        return self.worth(self.relevance, self.objective.value(self.x))

    def worth(self, relevance: float, evenness: float) -> float:
        return (1 - self.strength) * relevance + self.strength * evenness

    def priced(self, draw: Draw, slope: Slope) -> float:
        """Value of a draw at these prices; for the best draw of all it bounds every policy."""
        return self.worth(draw.relevance, float(slope.prices @ draw.x) + slope.offset)

    def with_draws(self, draws: Sequence[Draw], probability: Floats) -> Mixture:
        return Mixture(tuple(draws), probability, self.strength, self.objective)

    def with_draw(self, draw: Draw) -> Mixture:
        """One more draw, not shown yet; draws that are never shown are forgotten."""
        shown = np.flatnonzero(self.probability > 0)
        return self.with_draws([*(self.draws[i] for i in shown), draw], np.append(self.probability[shown], 0.0))

    def without_rare_draws(self, least: float = 0.001) -> Mixture:
        """The policy without draws that are less probable than is worth a list in every request."""
        likely = np.flatnonzero(self.probability >= min(least, self.probability.max()))
        probability = self.probability[likely]
        return self.with_draws([self.draws[i] for i in likely], probability / probability.sum())

    def smoothed(self, probability: Floats, centre: Floats, width: float) -> tuple[float, Floats, Slope]:
        """Smoothed objective at other probabilities, its gradient, and the slope of evenness."""
        slope = self.objective.slope(probability @ self.exposures, centre, width)
        ascent = (1 - self.strength) * self.relevances + self.strength * (self.exposures @ slope.prices)
        return self.worth(float(probability @ self.relevances), slope.value), ascent, slope

    def improved(self, centre: Floats, width: float, enough: float, steps: int = 200) -> tuple[Mixture, Slope]:
        """Re-optimised probabilities, by accelerated projected gradients to within `enough`."""
        now = self.probability
        value, ascent, slope = self.smoothed(now, centre, width)
        ahead, value_ahead, ascent_ahead = now, value, ascent
        away = self.exposures - self.exposures.mean(0)
        steepness = float(self.strength * (away**2).sum(1).max() / (width * away.shape[1]))  # of the slope, about
        momentum, step = 1.0, 1 / max(steepness, 1e-12)
        for _ in range(steps):
            if float(ascent.max() - now @ ascent) <= enough:
                break
            new = onto_simplex(ahead + step * ascent_ahead)
            value_new, ascent_new, slope_new = self.smoothed(new, centre, width)
            away = new - ahead
            if value_new < value_ahead + ascent_ahead @ away - (away @ away) / (2 * step) - 1e-12:
                step /= 2
            elif value_new < value:  # too much momentum: start again from here
                momentum, ahead, value_ahead, ascent_ahead = 1.0, now, value, ascent
            else:
                later = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
                ahead = new + (momentum - 1) / later * (new - now)
                now, value, ascent, slope, momentum = new, value_new, ascent_new, slope_new, later
                value_ahead, ascent_ahead, _ = self.smoothed(ahead, centre, width)
                step *= 1.1
        return self.with_draws(self.draws, now), slope


def onto_simplex(z: Floats) -> Floats:
    """The probabilities closest to z.

    >>> onto_simplex(np.array([0.5, 0.9, -3.0])).round(2).tolist()
    [0.3, 0.7, 0.0]
    """
    falling = np.sort(z)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(z) + 1)
    return np.asarray(np.maximum(z - excess[np.count_nonzero(falling > excess) - 1], 0.0))
