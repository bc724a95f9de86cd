"""Lorenz curves: a polygon per slice, and what can be read off it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats
from evenhand.findings import Findings
from evenhand.metrics.inequality import corners
from evenhand.report.words.text import slice_names


@dataclass(frozen=True, slots=True)
class Curve:
    """The Lorenz polygon of one slice: the bottom `population` of the units get `share` of everything."""

    name: str
    population: Floats
    share: Floats

    def at(self, p: float) -> float:
        """Share of everything that the bottom `p` get."""
        return float(np.interp(p, self.population, self.share))

    def point(self, share: float) -> float:
        """The bottom share of units that gets this share together (the inverse of `at`)."""
        rises = np.flatnonzero(np.diff(self.share) > 0)
        corners = np.append(rises, rises[-1] + 1)
        return float(np.interp(share, self.share[corners], self.population[corners]))

    @property
    def area(self) -> float:
        """The area under the polygon; one half when all are equal."""
        return float((np.diff(self.population) * (self.share[1:] + self.share[:-1])).sum() / 2)

    def thinned(self, most: int) -> Curve:
        keep = corners(self.population, self.share, most)
        return Curve(self.name, self.population[keep], self.share[keep])

    def tail(self, least: float, most: int) -> tuple[Floats, Floats]:
        """The curve from the top, for a log axis: sizes of the top from `least` to all, and what they get."""
        tops = np.geomspace(least, 1, most)
        return tops, 1 - np.interp(1 - tops, self.population, self.share)

    def bent(self) -> Curve:
        """The curve with more corners near zero, for axes on which its straight lines are not straight."""
        shares = np.geomspace(1e-8, 1, 120)
        more = np.array([self.point(h) for h in shares])
        population, order = np.unique(np.append(self.population, more), return_index=True)
        return Curve(self.name, population, np.append(self.share, shares)[order])


def curves(findings: Findings) -> list[Curve]:
    """The curve of every slice in which anything was received, the most equal first."""
    points = findings.curves.get("lorenz") or {}
    if not points.get("population"):  # no point is about enough users
        return []
    names = slice_names(findings.slices, points)
    population, share = (np.array([math.nan if v is None else v for v in points[n]]) for n in ("population", "share"))
    where: dict[str, list[int]] = {}
    for i in np.flatnonzero(np.isfinite(share)).tolist():
        where.setdefault(names[i], []).append(i)
    polygons = [Curve(name, population[rows], share[rows]) for name, rows in where.items() if len(rows) > 1]
    return sorted(polygons, key=lambda curve: -curve.area)
