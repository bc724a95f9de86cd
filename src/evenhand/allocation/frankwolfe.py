"""The best policy for a strength: Frank-Wolfe with one sort per request and step, and a bound on what it misses.

Maximise (1 - strength) * relevance + strength * evenness over all stochastic policies. A step sorts every request by what the
smoothed evenness pays for exposure (Do and Usunier, arXiv 2110.15781, 2204.06521), keeps the outcome as one more draw of the
policy, and chooses the probabilities of all draws anew. Any prices bound the best policy, so the least bound seen, less what
the policy is worth, is all that can be missing. Prices are kept near those of the least bound, as in a proximal bundle
method, so that the smoothing vanishes without having to get narrow.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from evenhand.allocation.policies import Draw, Mixture, Objective, Server
from evenhand.cards import Floats

log = logging.getLogger("evenhand")

TOLERANCE = 0.001
"""A policy counts as found when none of the same relevance can be more even by more than this."""

STRONGEST = 0.9999
"""At strength 1 scores would not matter at all; this close to it they decide among equally even lists."""


@dataclass(frozen=True)
class SearchResult:
    """The policy for one strength.

    Attributes
    ----------
    strength : as asked. policy : the draws and how often each is shown. best_draw : the draw that is worth most by itself.
    prices : of the least bound. bound : no policy is worth more. steps : how often every request was sorted.
    """

    strength: float
    policy: Mixture
    best_draw: Draw
    prices: Floats
    bound: float
    steps: int

    @property
    def gap(self) -> float:
        """How much better than this policy the best one can be."""
        if self.strength > STRONGEST:  # relevance is at least 0, which bounds evenness alone
            evenness = self.policy.objective.value(self.policy.x)
            return max(0.0, self.bound / self.policy.strength - evenness)
        return max(0.0, self.bound - self.policy.value)

    @property
    def tolerance(self) -> float:
        return TOLERANCE * self.strength

    @property
    def converged(self) -> bool:
        return self.gap <= self.tolerance


class Search:
    """Policies for one objective on one set of requests."""

    def __init__(self, server: Server, objective: Objective, iterations: int = 200) -> None:
        self.server, self.objective, self.iterations = server, objective, iterations
        slates = server.slates
        self.exchange = len(slates.scored) * slates.owners.providers / slates.exposure
        self.as_ranked = self.draw(np.zeros(slates.owners.providers))

    def draw(self, boosts: Floats) -> Draw:
        """Fill every list once."""
        slates = self.server.slates
        lists = self.server.fill(slates.owners.per_item(boosts))
        worth = slates.value(lists, slates.gain)[slates.scored]
        return Draw(boosts, float(worth.mean()) if len(worth) else 0.0, slates.relative(lists))

    def frontier(self, strengths: Iterable[float]) -> list[SearchResult]:
        """A policy for each strength, each searched from the one below; in the order asked."""
        requested = list(strengths)
        increasing = sorted(set(requested))
        results: dict[float, SearchResult] = {}
        weaker = None
        for n, strength in enumerate(increasing, 1):
            log.info("searching: strength %s of %s", n, len(increasing))
            weaker = results[strength] = self.at(strength, weaker)
        return [results[s] for s in requested]

    def at(self, strength: float, before: SearchResult | None = None) -> SearchResult:
        """The best policy for a strength, searched from that of another one."""
        weight = min(strength, STRONGEST)
        centre = self._start(weight, before)
        mix = Mixture((self.as_ranked,), np.ones(1), weight, self.objective)
        if before is not None:
            mix = mix.with_draws(before.policy.draws, before.policy.probability)
        if not weight:
            mix = mix.with_draws([self.as_ranked], np.ones(1))
            return SearchResult(strength, mix, self.as_ranked, centre, self.as_ranked.relevance, 0)
        best, best_draw, enough = mix, mix.draws[0], TOLERANCE * weight / 2
        bound = at_centre = np.inf
        prices, width = centre, 2 * min(odds(weight), 2.0)
        step = 0
        while step < self.iterations and bound - best.value > enough:
            step += 1
            missing = bound - best.value
            mix, slope = mix.improved(centre, width, 0.01 * min(missing, 0.1))
            draw = self.draw(slope.prices * (self.exchange * odds(weight)))
            reached, hoped = mix.priced(draw, slope), max(mix.priced(d, slope) for d in mix.draws)
            best = mix if mix.value >= best.value else best
            best_draw = max(best_draw, draw, key=lambda d: mix.worth(d.relevance, self.objective.value(d.x)))
            if reached < bound:
                bound, prices = reached, slope.prices
            if at_centre == np.inf or reached <= at_centre - 0.1 * (at_centre - hoped):
                width *= 0.8 if np.isfinite(at_centre) else 1.0  # a better bound: the prices are near the best ones
                centre, at_centre = slope.prices, reached
            else:
                width *= 1.05
            mix = mix.with_draw(draw)
        return SearchResult(strength, best.without_rare_draws(), best_draw, prices, bound, step)

    def _start(self, strength: float, before: SearchResult | None) -> Floats:
        """Prices that give the lists of another strength; at first, those of equal exposure."""
        if before is None or not before.strength:
            equal = np.ones(len(self.as_ranked.x))
            return self.objective.slope(equal, np.zeros(len(equal)), 1.0).prices
        level = before.prices.mean()
        shrunk = (before.prices - level) * min(1.0, odds(before.policy.strength) / odds(strength))
        return np.asarray(level + shrunk)


def odds(strength: float) -> float:
    """The weight of evenness for each unit of relevance."""
    return strength / (1 - strength)
