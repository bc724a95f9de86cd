"""A stochastic policy that any ranker can replay: boosts to sort by, the lists they make, and what these do on a set of requests.

How even the exposure of providers is, is a concave function of x, exposure over its mean, so that the entries add up to the number of
providers. Prices g are slopes: F(y) <= <g, y> + offset for every y that lists can give, which is what makes a bound on the best policy.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenhand.attention import log as logarithmic
from evenhand.cards import Floats
from evenhand.metrics.reorder import least_promoted, ndcg, ndcg_relevance, rank_biased_overlap
from evenhand.tallies.ragged import Ints, padded_cells, similar_rows
from evenhand.tallies.slates import Gained, Judged, Reordered, Slates


@dataclass(frozen=True)
class Slope:
    """A smoothed value and its slope.

    Attributes
    ----------
    value : the smoothed objective. prices : (providers,) its gradient. offset : what <prices, y> misses at most.
    """

    value: float
    prices: Floats
    offset: float


class Evenness:
    """1 - Gini: at fixed total the least of <g, x> over all permutations of the rank prices."""

    def __init__(self, providers: int) -> None:
        ranks = np.arange(1, providers + 1)
        self.by_rank = (providers + 1.0 - 2 * ranks) / providers**2  # falling: the poorest has the highest price

    def value(self, x: Floats) -> float:
        return float(1 + self.by_rank @ np.sort(x))

    def slope(self, x: Floats, centre: Floats, width: float) -> Slope:
        """The Moreau envelope: the prices closest to `centre` - x / width (arXiv 2204.06521)."""
        scale = width * len(x)
        prices = onto_permutahedron(centre - x / scale, self.by_rank)
        away = prices - centre
        return Slope(float(1 + prices @ x + scale / 2 * (away @ away)), prices, 1.0)


def onto_permutahedron(z: Floats, falling: Floats) -> Floats:
    """The point closest to z among all mixtures of permutations of `falling`.

    >>> onto_permutahedron(np.array([0.0, 5.0, 0.1]), np.array([1.0, 0.0, -1.0])).round(2).tolist()
    [-0.55, 1.0, -0.45]
    """
    from scipy.optimize import isotonic_regression

    order = np.argsort(-z, kind="stable")
    ranked = z[order]
    projected = np.empty_like(z)
    projected[order] = ranked - isotonic_regression(ranked - falling, increasing=False).x
    return projected


class Shares:
    """1 - the total variation distance between the shares of providers and their targets."""

    def __init__(self, target: Floats) -> None:
        self.target = target * len(target)  # on the scale of x
        self.most = 0.5 / len(target)

    def value(self, x: Floats) -> float:
        return float(1 - self.most * np.abs(x - self.target).sum())

    def slope(self, x: Floats, centre: Floats, width: float) -> Slope:
        scale = width * len(x)
        prices = np.clip(centre - (x - self.target) / scale, -self.most, self.most)
        away = prices - centre
        offset = float(1 - prices @ self.target)
        return Slope(float(prices @ x + scale / 2 * (away @ away)) + offset, prices, offset)


class Welfare:
    """1 + (mean of x^(1 - epsilon) - 1) / (1 - epsilon); epsilon 1: 1 + mean of ln x."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def value(self, x: Floats) -> float:
        e = self.epsilon
        with np.errstate(divide="ignore"):
            if e == 1:
                return float(1 + np.log(x).mean())
            return float(1 + (np.power(x, 1 - e).mean() - 1) / (1 - e))

    def equivalent(self, y: Floats) -> float:  # noqa: ARG002
        """The slope is (y / equivalent)^-epsilon over the number of providers."""
        return 1.0

    def slope(self, x: Floats, centre: Floats, width: float) -> Slope:
        """The slope at the y that gains most from moving away from x at prices `centre`.

        The slope at nothing has no end; y is above nothing, and a tangent there bounds the objective everywhere.
        """
        e, scale = self.epsilon, width * len(x)
        start, level = x - scale * centre, 1.0
        y = np.zeros_like(x)
        for _ in range(60):  # y = start + scale * slope(y), by Newton from below
            push = scale * level**e / len(x)
            least = np.minimum((push / 2) ** (1 / (1 + e)), (push / np.maximum(-2 * start, push)) ** (1 / e))
            before, y = y, np.maximum(y, np.maximum(start, least))
            y = np.maximum(y + (push * y**-e + start - y) / (1 + e * push * y ** (-1 - e)), least)
            level = self.equivalent(y)
            if np.abs(y - before).max() <= 1e-10 * level:
                break
        prices = (y / level) ** -e / len(x)
        value, away = self.value(y), x - y
        return Slope(value + float(centre @ away - away @ away / (2 * scale)), prices, value - float(prices @ y))


class Atkinson(Welfare):
    """1 - Atkinson: equally distributed equivalent of x, its power mean of order 1 - epsilon."""

    def value(self, x: Floats) -> float:
        e = self.epsilon
        if e >= 1 and (x <= 0).any():
            return 0.0
        if e == 1:
            return float(np.exp(np.log(x).mean()))
        return float(np.power(x, 1 - e).mean() ** (1 / (1 - e)))

    def equivalent(self, y: Floats) -> float:
        return self.value(y)


Objective = Evenness | Shares | Welfare
"""`value` of the exposure of providers, 1 where it is best; `slope` of the same smoothed by prices near `centre`, closer to it the
narrower the width.
"""


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


def smallest(cost: Floats, top: int) -> Ints:
    """(b, top) columns of the smallest costs of each row, in order; ties go to the first column.

    >>> smallest(np.array([[3.0, 1.0, 2.0, 1.0]]), 3).tolist()
    [[1, 3, 2]]
    """
    if cost.shape[1] <= top:
        return np.argsort(cost, axis=1, kind="stable")
    columns = np.sort(np.argpartition(cost, top - 1, axis=1)[:, :top], axis=1)
    worth = np.take_along_axis(cost, columns, 1)
    last = worth.max(1, keepdims=True)
    # A tie across the edge: argpartition took any of them, the rule takes the first.
    tied = np.flatnonzero((cost <= last).sum(1) > top)
    if len(tied):
        columns[tied] = np.sort(np.argsort(cost[tied], axis=1, kind="stable")[:, :top], axis=1)
        worth[tied] = np.take_along_axis(cost[tied], columns[tied], 1)
    return np.take_along_axis(columns, np.argsort(worth, axis=1, kind="stable"), 1)


class Server:
    """Fills the lists of a set of requests repeatedly, under other boosts each time.

    Requests of similar size are padded to blocks: which they are, (b, w) minus the gain, infinite behind the last candidate, and
    (b, w) item codes.
    """

    def __init__(self, slates: Slates) -> None:
        self.slates, self._blocks = slates, []
        for some in similar_rows(slates.sizes, 1_000_000):  # candidates that are looked at together
            rows = np.sort(some)
            at, inside = padded_cells(slates.starts, rows)
            cost = np.where(inside, -slates.gain[at], np.inf) if at.size else np.full(inside.shape, np.inf)
            self._blocks.append((rows, cost, slates.item[at].astype(np.int32)))

    def fill(self, boosts: Floats) -> Ints:
        """(Q, top) positions of candidates by gain plus the item's boost; -1 behind a list's end."""
        slates = self.slates
        lists = np.full((slates.requests, slates.top), -1, dtype=np.int64)
        for rows, unboosted, item in self._blocks:
            cost = unboosted - boosts[item]
            chosen = smallest(cost, slates.top)
            is_candidate = np.isfinite(np.take_along_axis(cost, chosen, 1))
            positions = slates.starts[rows][:, None] + chosen
            lists[rows, : chosen.shape[1]] = np.where(is_candidate, positions, -1)
        return _best_first(lists, slates.attention)


def _best_first(lists: Ints, attention: Floats) -> Ints:
    """Ranks that get the same attention are filled best score first: it costs no exposure."""
    edges = np.flatnonzero(np.diff(attention)) + 1
    if len(edges) == len(attention) - 1:
        return lists
    behind = np.where(lists < 0, np.iinfo(np.int64).max, lists)
    for block in np.split(np.arange(len(attention)), edges):
        behind[:, block] = np.sort(behind[:, block], axis=1)
    return np.where(behind == np.iinfo(np.int64).max, -1, behind)


@dataclass(frozen=True)
class Replayed:
    """Metrics and exposure under a policy.

    Attributes
    ----------
    each : by metric, (Q,) the value of every request, NaN where it has none.
    exposure : (buckets, providers) exposure from each bucket of requests.
    """

    each: dict[str, Floats]
    exposure: Floats

    @property
    def received(self) -> Floats:
        return np.asarray(self.exposure.sum(0))


class Stage:
    """Requests (`which` of all) on which policies are replayed; `bucket` groups them for the jackknife."""

    def __init__(self, slates: Slates, which: Ints, bucket: Ints) -> None:
        self.slates, self.which, self.bucket = slates, which, bucket
        self.server = Server(slates)
        self.standard = logarithmic(offset=1).weights(slates.top)

    @property
    def buckets(self) -> int:
        return int(self.bucket.max(initial=-1)) + 1

    def lists(self, draw: Draw) -> Ints:
        return self.server.fill(self.slates.owners.per_item(draw.boosts))

    def replay(self, draws: Sequence[Draw], probability: Floats) -> Replayed:
        return self.judged([self.lists(draw) for draw in draws], probability)

    def judged(self, lists: Sequence[Ints], probability: Floats) -> Replayed:
        """The expectation over lists that are shown with these probabilities."""
        parts = list(zip(probability, map(self._replay_lists, lists), strict=True))
        each = {name: np.asarray(sum(p * part.each[name] for p, part in parts)) for name in parts[0][1].each}
        return Replayed(each, np.asarray(sum(p * part.exposure for p, part in parts)))

    def _replay_lists(self, lists: Ints) -> Replayed:
        slates = self.slates
        moved = Reordered(np.where(lists >= 0, lists - slates.starts[:-1, None] + 1, 0))
        each = {"ndcg": ndcg.on(Gained(slates.value(lists, slates.score), slates.ideal))}
        if not np.array_equal(self.standard, slates.attention):
            padded = np.append(slates.score, 0.0)
            best = padded[slates.as_ranked] @ self.standard
            each["ndcg_standard"] = ndcg.on(Gained(padded[lists] @ self.standard, best))
        if slates.relevance is not None and slates.most_relevant is not None:
            judged = Judged(slates.value(lists, slates.relevance), slates.most_relevant)
            each["ndcg_relevance"] = ndcg_relevance.on(judged)
        each["rank_biased_overlap"] = rank_biased_overlap.on(moved)
        each["least_promoted"] = least_promoted.on(moved)
        return Replayed(each, self._exposure(lists))

    def _exposure(self, lists: Ints) -> Floats:
        slates = self.slates
        filled = lists >= 0
        cell = self.bucket[:, None] * slates.owners.items + slates.item[np.where(filled, lists, 0)]
        attention = np.broadcast_to(slates.attention, lists.shape)
        counts = np.bincount(cell[filled], attention[filled], self.buckets * slates.owners.items)
        cells = np.asarray(counts, dtype=np.float64).reshape(self.buckets, slates.owners.items)
        return slates.owners.per_provider(cells)


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
    def converged(self) -> bool:
        return self.gap <= TOLERANCE * self.strength


class Search:
    """Policies for one objective on one set of requests: the best for a strength, and a bound on what it misses.

    Maximises (1 - strength) * relevance + strength * evenness over all stochastic policies, by Frank-Wolfe. A step sorts every
    request by what the smoothed evenness pays for exposure (Do and Usunier, arXiv 2110.15781, 2204.06521), keeps the outcome as
    one more draw of the policy, and chooses the probabilities of all draws anew. Any prices bound the best policy, so the least
    bound seen, less what the policy is worth, is all that can be missing. Prices are kept near those of the least bound, as in a
    proximal bundle method, so that the smoothing vanishes without having to get narrow.
    """

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

    def frontier(self, increasing: Sequence[float]) -> list[SearchResult]:
        """A policy for each strength, each searched from the one below."""
        results: list[SearchResult] = []
        for n, strength in enumerate(increasing, 1):
            log.info("searching: strength %s of %s", n, len(increasing))
            results.append(self.at(strength, results[-1] if results else None))
        return results

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
