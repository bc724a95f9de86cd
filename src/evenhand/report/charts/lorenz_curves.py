"""The Lorenz polygon as a reader meets it: curves per slice, and what can be read off them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.findings import Findings
from evenhand.report.words.text import slice_names

MANY = 20
"""Slices beyond which the explorer stops at fewer sizes of the top, so that a page stays small."""

FINE = tuple(float(f"{digit}e{power}") for power in range(-6, 0) for digit in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9))
COUNTED = 10
"""A top of fewer units than this is counted one by one: a share of it would cut a unit in parts."""

COARSE = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.5)


def stops(slices: int, units: float) -> tuple[float, ...]:
    """Sizes of the top at which a reader can stop: one unit, two, ... nine; then round shares such as 1%, 1.5%, 2%, ... 90%.

    >>> stops(200, 5_000), stops(1, 4)
    ((0.001, 0.01, 0.05, 0.1, 0.2, 0.5), (0.25, 0.5, 0.75))
    """
    if slices > MANY:
        return tuple(stop for stop in COARSE if stop * units >= 1) or COARSE[-1:]
    single = tuple(k / units for k in range(1, COUNTED) if k < units)
    return (*single, *(stop for stop in FINE if stop * units >= COUNTED)) or COARSE[-1:]


def corners(population: Floats, share: Floats, most: int, exact_at: Sequence[float] = ()) -> npt.NDArray[np.intp]:
    """Which corners of a polygon to keep when about `most` are to stand for all.

    Half of them are evenly spaced and half crowd towards the top, which is where the story is. Both ends of every edge
    that is read at a stop of the explorer are kept, so that what is read there is exact however large the data.
    """
    last = len(population) - 1
    if last < most:
        return np.arange(last + 1)
    tops = 1 - np.asarray(exact_at)
    top_shares = 1 - np.interp(tops, population, share)
    edges = np.concatenate([np.searchsorted(population, tops), np.searchsorted(share, top_shares)]).astype(np.intp)
    even = np.linspace(0, 1, most // 2)
    crowding = 1 - np.geomspace(max(1 - population[-2], 1e-12), 1, most - most // 2)
    rise = np.searchsorted(share, 0.0, side="right") - 1
    near = np.searchsorted(population, np.concatenate([even, crowding]))
    return np.unique(np.clip(np.concatenate([[0, rise, last - 1, last], near, edges - 1, edges]), 0, last))


@dataclass(frozen=True, slots=True)
class Curve:
    """The Lorenz polygon of one slice: the bottom `population` of the units hold `share` of everything."""

    name: str
    population: Floats
    share: Floats

    def at(self, p: float) -> float:
        """Share of everything that the bottom `p` hold."""
        return float(np.interp(p, self.population, self.share))

    def point(self, share: float) -> float:
        """How many from the bottom hold this share together; where nobody below holds anything, the first who do."""
        rises = np.flatnonzero(np.diff(self.share) > 0)
        corners = np.append(rises, rises[-1] + 1)
        return float(np.interp(share, self.share[corners], self.population[corners]))

    @property
    def area(self) -> float:
        """The area under the polygon; one half when all are equal."""
        return float((np.diff(self.population) * (self.share[1:] + self.share[:-1])).sum() / 2)

    def thinned(self, most: int) -> Curve:
        """The curve with about `most` corners."""
        keep = corners(self.population, self.share, most)
        return Curve(self.name, self.population[keep], self.share[keep])

    def tail(self, least: float, most: int = 160) -> tuple[Floats, Floats]:
        """The curve as seen from the top, for a log axis: sizes of the top from `least` to all, and what they hold."""
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
    if not points:
        return []
    names = slice_names(findings.slices, points)
    population, share = (np.array([math.nan if v is None else v for v in points[n]]) for n in ("population", "share"))
    where: dict[str, list[int]] = {}
    for i in np.flatnonzero(np.isfinite(share)).tolist():
        where.setdefault(names[i], []).append(i)
    polygons = [Curve(name, population[rows], share[rows]) for name, rows in where.items() if len(rows) > 1]
    return sorted(polygons, key=lambda curve: -curve.area)
