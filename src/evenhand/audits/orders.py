"""Whether the order of systems survives other choices: which pairs keep it, which reverse, and which choice moves it most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from evenhand.audits.compare import PairedTest, Systems
from evenhand.audits.declare import Call
from evenhand.audits.requests import RankingResult, RequestSums
from evenhand.cards import Floats
from evenhand.claims import Candidate
from evenhand.metrics.agreement import fairness, turned

Setting = tuple[str, ...]
"""One choice of every varied argument."""
Key = tuple[Any, ...]
"""What systems are ordered by: labels of other slices, the metric, its group."""


@dataclass(frozen=True)
class Ordering:
    """The systems under one setting, by one metric: how fair each is, and its sums per request, turned so that larger is fairer."""

    fairness: Mapping[Any, float]
    sums: Mapping[Any, RequestSums]


def orderings_of(result: RankingResult, *, by_position: bool) -> dict[Key, Ordering]:
    """The orders that one result gives, by metric, or by the position of the metric where metrics themselves are varied."""
    table = Systems.from_result(result)
    sums: dict[Key, dict[Any, RequestSums]] = {}
    for h in result.request_sums():
        system, where = table.split(h.where)
        sums.setdefault((where, h.metric, h.group), {})[system] = h
    numbers = list(dict.fromkeys((metric, group) for _, metric, group in table.rows))
    orderings = {}
    for (where, metric, group), by_system in table.rows.items():
        fair = dict(zip(by_system, fairness(list(by_system.values())).tolist(), strict=True))
        first = next(iter(by_system.values()))
        of_systems = {
            system: replace(h, value=_fairer(h.value, first["better"], first["ideal"]))
            for system, h in sums.get((where, metric, group), {}).items()
        }
        key = (where, numbers.index((metric, group)), None) if by_position else (where, metric, group)
        orderings[key] = Ordering(fair, of_systems)
    return orderings


def _fairer(value: Callable[[Floats], Floats], better: str, ideal: Any) -> Callable[[Floats], Floats]:
    neutral = math.nan if ideal is None else ideal
    return lambda totals: turned(value(totals), better, neutral)


@dataclass(frozen=True)
class Pair:
    """Two systems by one metric: which is fairer under every setting.

    Attributes
    ----------
    p : (settings,) of systems swapped within requests.
    signs : (settings, 1 + draws) of second minus first in fairness: as measured, then on resampled requests.
    """

    key: Key
    first: Any
    second: Any
    p: Floats
    signs: Floats

    def candidate(self, settings: Sequence[str]) -> Candidate:
        """Whether one system is the fairer under every setting, or each is under some.

        The first needs the largest p of all settings. The second needs a significant difference each way, and settings were
        searched for both: the smallest p each way, times the number of settings.
        """
        by = f" by {self.key[1]}" if isinstance(self.key[1], str) else ""
        undecided = f"which of {self.first} and {self.second} is fairer{by} under all choices cannot be told"
        where = {"system": self.first, "versus": self.second}
        metric, group = str(self.key[1]), self.key[2]
        if (sign := _common_sign(self.signs[:, 0])) is not None:
            better, worse = (self.second, self.first) if sign > 0 else (self.first, self.second)
            text = f"{better} is fairer than {worse}{by} under all choices"
            return Candidate(float(self.p.max()), "higher", text, undecided, metric, group, where)
        ps = [np.where(self.signs[:, 0] == sign, self.p, np.nan) for sign in (-1, 1)]
        if any(np.isnan(p).all() for p in ps):
            return Candidate(1.0, "differs", "", undecided, metric, group, where)
        first, second = (settings[int(np.nanargmin(p))] for p in ps)
        text = f"{self.first} is fairer than {self.second}{by} under {first}, and less fair under {second}"
        p = min(1.0, len(settings) * max(float(np.nanmin(p)) for p in ps))
        return Candidate(p, "differs", text, undecided, metric, group, where)


def _common_sign(signs: Floats) -> float | None:
    return float(signs[0]) if signs[0] != 0 and (signs == signs[0]).all() else None


@dataclass(frozen=True)
class Survival:
    """All orders, by setting and metric.

    Attributes
    ----------
    names, settings : the varied arguments, and every combination of their choices.
    orderings : (settings,) what each combination gave.
    """

    call: Call
    names: tuple[str, ...]
    settings: Sequence[Setting]
    orderings: Sequence[Mapping[Key, Ordering]]

    @cached_property
    def _shared(self) -> dict[Key, list[Any]]:
        """The metrics that every setting has, and their systems that can be resampled under each."""
        shared = {}
        for key in self.orderings[0]:
            if all(key in o for o in self.orderings):
                systems = [s for s in self.orderings[0][key].sums if all(s in o[key].sums for o in self.orderings)]
                shared[key] = systems
        return {key: systems for key, systems in shared.items() if len(systems) > 1}

    @cached_property
    def _test(self) -> PairedTest:
        pairs = sum(math.comb(len(systems), 2) for systems in self._shared.values())
        return PairedTest.for_call(self.call, None, self.call.interval.level, 2 * pairs * len(self.settings))

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every two systems by every metric."""
        return [self._pair(key, a, b) for key, systems in self._shared.items() for a, b in combinations(systems, 2)]

    def _pair(self, key: Key, a: Any, b: Any) -> Pair:
        signs, ps = [], []
        for by_key in self.orderings:
            ordering = by_key[key]
            difference, _ = self._test.difference(ordering.sums[a], ordering.sums[b], key[0])
            lead = ordering.fairness[b] - ordering.fairness[a]
            chance = lead - difference.estimate  # differs from 0 where random order gives the two systems other values
            drawn = difference.resampled + (chance if math.isfinite(chance) else 0.0)
            # The swaps test the values: where chance decides which is fairer, they say nothing about it.
            ps.append(difference.p if np.sign(difference.estimate) == np.sign(lead) else 1.0)
            signs.append(np.sign(np.nan_to_num(np.append(lead, drawn), posinf=1, neginf=-1)))
        return Pair(key, a, b, np.nan_to_num(ps, nan=1.0), np.array(signs))

    def candidates(self) -> list[Candidate]:
        """What may be claimed: of every pair, and of the choice that moves the order most."""
        named = [", ".join(f"{n}={c}" for n, c in zip(self.names, s, strict=True)) for s in self.settings]
        pairs = [pair.candidate(named) for pair in self.pairs]
        return [*pairs, *self._most()] if pairs else []

    def _most(self) -> Iterator[Candidate]:
        """Whether one choice turns more pairs round than each other choice, on the same resampled requests."""
        moves = self.moved
        if len(moves) < 2:
            return
        order = sorted(moves, key=lambda name: -moves[name][0])
        top = order[0]
        if not moves[top][0]:
            return
        excess = np.array([moves[top] - moves[name] for name in order[1:]])[:, 1:]
        p = float((2 * (1 + (excess <= 0).sum(1)) / (1 + excess.shape[1])).max())
        shares = ", ".join(f"{name} {100 * moves[name][0]:.0f}%" for name in order)
        text = f"{top} moves it most (pairs turned round by another choice: {shares})"
        yield Candidate(
            min(1.0, p), "most", text, f"no choice moves it more than the others ({shares})", "", where={"choice": top}
        )

    @cached_property
    def moved(self) -> dict[str, Floats]:
        """Share of pairs that another choice of one argument turns round: as measured, then on resampled requests.

        Of the pairs that differ significantly under some setting (Bonferroni); nothing where there is none.
        """
        tests = max(1, len(self.pairs) * len(self.settings))
        differing = [pair for pair in self.pairs if pair.p.min() * tests <= 1 - self.call.interval.level]
        moves = {}
        for n, name in enumerate(self.names):
            steps = [
                (i, j) for i, j in combinations(range(len(self.settings)), 2)
                if [k for k, (x, y) in enumerate(zip(self.settings[i], self.settings[j], strict=True)) if x != y] == [n]
            ]  # fmt: skip
            if steps and differing:
                moves[name] = np.mean([pair.signs[i] != pair.signs[j] for pair in differing for i, j in steps], axis=0)
        return moves
