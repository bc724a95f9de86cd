"""A change of inequality taken apart: Shapley values of who or what changed, and single units left out.

Between two occasions lie worlds in which some players (kinds of units, groups, sources) already have their later amounts
and the others still their earlier ones. A player's part is the mean of what it adds when players switch in random order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.tallies.paired_amounts import Changes, side_of
from evenhand.tallies.ragged import Bools, Ints
from evenhand.tallies.spectrum import Spectrum

MOST_PLAYERS = 12
"""Players up to which all worlds are measured; beyond, random orders are walked."""

ORDERS = 200
"""Random orders where there are more players, each also walked backwards."""

EXACT = 4_000
"""Different amounts up to which each is left out once; of more, as many are, and between them the value is interpolated."""


@dataclass(frozen=True)
class Worlds:
    """Which players have switched in each world, and how much each world counts for each player's part.

    Attributes
    ----------
    switched : (worlds, players); the first world is the earlier occasion, the last one the later.
    shares : (players, worlds) of the Shapley value; they add up to -1 for the first world and 1 for the last.
    steps : (orders, players, 2) the worlds before and after each player switches; None where all worlds are measured.
    """

    switched: Bools
    shares: Floats
    steps: Ints | None = None

    @classmethod
    def between(cls, players: int, rng: np.random.Generator) -> Worlds:
        """All worlds of few players, those on random walks of many."""
        return cls._all(players) if players <= MOST_PLAYERS else cls._walked(players, rng)

    @classmethod
    def _all(cls, players: int) -> Worlds:
        sets = [set(s) for size in range(players + 1) for s in combinations(range(players), size)]
        switched = np.array([[i in s for i in range(players)] for s in sets], dtype=bool)
        size = switched.sum(1)
        factorial = np.array([math.factorial(n) for n in range(players + 1)], dtype=np.float64)
        joins = factorial[np.maximum(size - 1, 0)] * factorial[players - size] / factorial[players]
        stays = factorial[size] * factorial[np.maximum(players - size - 1, 0)] / factorial[players]
        return cls(switched, np.where(switched, joins[:, None], -stays[:, None]).T)

    @classmethod
    def _walked(cls, players: int, rng: np.random.Generator) -> Worlds:
        one_way = [rng.permutation(players) for _ in range(ORDERS)]
        orders = [order for forward in one_way for order in (forward, forward[::-1])]
        paths = np.zeros((len(orders), players + 1, players), dtype=bool)
        for k, order in enumerate(orders):
            for i, player in enumerate(order):
                paths[k, i + 1 :, player] = True
        switched, world = np.unique(paths.reshape(-1, players), axis=0, return_inverse=True)  # in order: none, ..., all
        world = world.reshape(len(orders), players + 1)
        steps = np.empty((len(orders), players, 2), dtype=np.int64)
        np.put_along_axis(steps[..., 0], np.array(orders), world[:, :-1], 1)
        np.put_along_axis(steps[..., 1], np.array(orders), world[:, 1:], 1)
        shares = np.zeros((players, len(switched)))
        for sign, at in ((-1.0, steps[..., 0]), (1.0, steps[..., 1])):
            np.add.at(shares, (np.arange(players)[None, :], at), sign / len(orders))
        return cls(switched, shares, steps)

    def sampling_error(self, values: Floats) -> Floats:
        """(players,) standard error of the parts because only some orders were walked; zero where all were."""
        if self.steps is None:
            return np.zeros(len(self.shares))
        gains = values[self.steps[..., 1]] - values[self.steps[..., 0]]
        return np.asarray(gains.reshape(ORDERS, 2, -1).mean(1).std(0, ddof=1) / math.sqrt(ORDERS))


def amounts_of_units(tally: Changes, code: Ints, worlds: Worlds) -> list[Floats]:
    """(C,) amounts in every world where players are sets of units, given the player of each cell."""
    before, after = tally.totals
    return [np.where(switched[code], after, before) for switched in worlds.switched]


def amounts_of_sources(tally: Changes, worlds: Worlds) -> list[Floats]:
    """(C,) amounts in every world where players are the sources."""
    return [np.where(switched, tally.after, tally.before).sum(-1) for switched in worlds.switched]


def values_without(values: Floats, counts: Floats, weights: Floats | None, spec: MetricSpec) -> Floats:
    """(C,) the metric without one unit of each cell.

    >>> from evenhand.cards import parse_metric
    >>> values_without(np.array([0.0, 1.0, 3.0]), np.ones(3), None, parse_metric("gini")).round(4).tolist()
    [0.25, 0.5, 0.5]
    """
    side = side_of(values, weights)
    whole = side.spectrum(counts)
    every = np.arange(len(whole.values))
    cells = every
    if len(every) > EXACT:
        spread = np.linspace(0, len(every) - 1, EXACT // 2).astype(np.int64)
        cells = np.unique(np.concatenate([spread, every[-EXACT // 2 :]]))  # the largest one by one
    without = np.empty(len(cells))
    step = max(1, (1 << 21) // len(every))
    for start in range(0, len(cells), step):
        at = cells[start : start + step]
        fewer = np.repeat(whole.counts[None], len(at), 0)
        fewer[np.arange(len(at)), at] -= 1
        without[start : start + step] = spec.on(Spectrum(whole.values, fewer, whole.weights))
    return np.interp(every, cells, without)[side.cell]


def largest_first(effects: Floats, counts: Floats, units: int) -> list[tuple[int, int]]:
    """Cells with the largest effects, and how many units of each, until there are so many units."""
    taken: list[tuple[int, int]] = []
    for cell in np.lexsort((np.arange(len(effects)), -np.abs(np.nan_to_num(effects)))).tolist():
        if units <= 0:
            break
        taken.append((cell, min(units, int(counts[cell]))))
        units -= taken[-1][1]
    return taken
