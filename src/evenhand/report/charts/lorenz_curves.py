"""Lorenz curves: a polygon per slice, and what can be read off it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.findings import Findings
from evenhand.report.words.text import slice_names

FINE = tuple(float(f"{digit}e{power}") for power in range(-6, 0) for digit in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9))
COARSE = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.5)
"""Sizes of the top; the coarse ones keep a page with many slices small."""


def stops(slices: int, units: float) -> tuple[float, ...]:
    """Sizes of the top at which a reader can stop: one unit, two, ... nine; then round shares such as 1%, 1.5%, 2%, ... 90%.

    >>> stops(200, 5_000), stops(1, 4)
    ((0.001, 0.01, 0.05, 0.1, 0.2, 0.5), (0.25, 0.5, 0.75))
    """
    if slices > 20:
        return tuple(stop for stop in COARSE if stop * units >= 1) or COARSE[-1:]
    single = tuple(k / units for k in range(1, 10) if k < units)  # a share of fewer than ten would split a unit
    return (*single, *(stop for stop in FINE if stop * units >= 10)) or COARSE[-1:]


def corners(population: Floats, share: Floats, most: int, exact_at: Sequence[float] = ()) -> npt.NDArray[np.intp]:
    """Indices of about `most` corners that approximate a polygon.

    Half of them are evenly spaced and half crowd towards the top. Both ends of every edge that is read at a stop of the
    explorer (`exact_at`) are kept, so that the reading there is exact however large the data.
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
