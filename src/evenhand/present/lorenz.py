"""The Lorenz polygon as a reader meets it: curves per slice, and what can be read off them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats
from evenhand.findings import Findings, label

STOPS = tuple(
    float(f"{digit}e{power}")
    for power in range(-6, 0)
    for digit in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    if digit * 10**power < 0.995
)
"""Sizes of the top at which a reader can stop: 0.0001%, 0.00015%, ... 1%, 1.5%, 2%, ... 90%."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The Lorenz polygon of one slice: the bottom `population` of the units hold `share` of everything."""

    name: str
    population: Floats
    share: Floats

    def at(self, p: float) -> float:
        """Share of everything that the bottom `p` hold."""
        return float(np.interp(p, self.population, self.share))

    def point(self, held: float) -> float:
        """How many from the bottom hold this share together; where nobody below holds anything, the first who do."""
        rises = np.flatnonzero(np.diff(self.share) > 0)
        corners = np.append(rises, rises[-1] + 1)
        return float(np.interp(held, self.share[corners], self.population[corners]))

    @property
    def area(self) -> float:
        """The area under the polygon; one half when all are equal."""
        return float((np.diff(self.population) * (self.share[1:] + self.share[:-1])).sum() / 2)

    def thinned(self, most: int) -> Curve:
        """Fewer corners: half of them crowd towards the top end, which is where the story is."""
        if len(self.population) <= most:
            return self
        evenly = np.linspace(0, 1, most // 2)
        upwards = 1 - np.geomspace(1 - self.population[-2], 1, most - most // 2 - 3)
        near = np.searchsorted(self.population, np.append(evenly, upwards))
        rise = np.searchsorted(self.share, 0.0, side="right") - 1
        last = len(self.population) - 1
        keep = np.unique(np.clip(np.concatenate([[0, rise, last - 1, last], near]), 0, last))
        return Curve(self.name, self.population[keep], self.share[keep])

    def bent(self) -> Curve:
        """The same polygon with corners ever closer to zero, for axes on which its straight lines are not straight."""
        held = np.geomspace(1e-8, 1, 120)
        more = np.array([self.point(h) for h in held])
        population, order = np.unique(np.append(self.population, more), return_index=True)
        return Curve(self.name, population, np.append(self.share, held)[order])


def curves(findings: Findings) -> list[Curve]:
    """The curve of every slice in which anything was received, the most equal first."""
    points = findings.curves.get("lorenz") or {}
    if not points:
        return []
    named = [points[name] for name in findings.slices if name in points]
    population, share = (np.array([math.nan if v is None else v for v in points[n]]) for n in ("population", "share"))
    where: dict[str, list[int]] = {}
    for i in np.flatnonzero(np.isfinite(share)).tolist():
        where.setdefault(", ".join(label(column[i]) for column in named), []).append(i)
    found = [Curve(name, population[rows], share[rows]) for name, rows in where.items() if len(rows) > 1]
    return sorted(found, key=lambda curve: -curve.area)
