"""Sums per cluster and cell of the outcome test, cluster by cluster: all that clustered errors need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.cards import Floats

Ints = np.typing.NDArray[np.int64]

MOST_CELLS = 1 << 22

FLIPPED = 2_000
"""With more clusters than this nobody asks what each of them adds: a sum of their flipped parts is as good as normal."""

LINEAR = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1))
"""Powers of u and v whose sums over a cluster its errors are made of: 1, u, v, u^2 and uv."""

SUMS = len(LINEAR)

Piece = tuple[Ints, Ints, tuple[Floats, ...]]
"""Clusters, counted from 0, cells, and the five sums, in any order."""


@dataclass(frozen=True)
class Clusters:
    """The rows of each cluster and cell added up; where they are many, `ClusterSquares` say the same.

    Attributes
    ----------
    cluster : (L,) cluster codes from 0; rows are sorted by cluster, then group, then bin, and no cell comes twice.
    cell : (L,) bin times number of groups plus group.
    sums : five columns (L,), the sums of 1, u, v, u^2 and uv, each times the weight of its row.
    bins, groups : how many there are.
    """

    cluster: Ints
    cell: Ints
    sums: tuple[Floats, ...]
    bins: int
    groups: int

    @classmethod
    def of(cls, cluster: Any, cell: Ints, u: Floats, v: Floats, shape: tuple[int, int], weight: Any = None) -> Clusters:
        """Tally rows with their cluster and cell, of so many bins and groups."""
        bins, groups = shape
        codes = np.unique(cluster, return_inverse=True)[1].reshape(-1)
        keys, where = np.unique((codes * groups + cell % groups) * bins + cell // groups, return_inverse=True)
        w = np.ones_like(u) if weight is None else np.asarray(weight, dtype=np.float64)
        parts = (w, w * u, w * v, w * u * u, w * u * v)
        sums = (np.asarray(np.bincount(where, part, len(keys)), dtype=np.float64) for part in parts)
        group = keys // bins % groups
        return cls(keys // (bins * groups), keys % bins * groups + group, tuple(sums), *shape)

    @classmethod
    def joined(cls, parts: Sequence[Clusters]) -> Clusters:
        """Clusters of one part after those of another."""
        if len(parts) == 1:
            return parts[0]
        first = np.cumsum([0, *(part.total for part in parts)])
        cluster = np.concatenate([part.cluster + start for part, start in zip(parts, first, strict=False)])
        sums = tuple(np.concatenate(columns) for columns in zip(*(part.sums for part in parts), strict=True))
        return cls(cluster, np.concatenate([part.cell for part in parts]), sums, parts[0].bins, parts[0].groups)

    @property
    def bin(self) -> Ints:
        return self.cell // self.groups

    @property
    def total(self) -> int:
        """Number of clusters."""
        return int(self.cluster[-1]) + 1 if len(self.cluster) else 0

    def per_bin(self) -> Ints:
        """Clusters with a row in each bin."""
        bins = self.bins
        found = np.zeros(bins, dtype=np.int64)
        for rows, start, size in self.batches(bins):
            place = (self.cluster[rows] - start) * bins + self.bin[rows]
            found += (np.bincount(place, minlength=size * bins).reshape(size, bins) > 0).sum(0)
        return found

    def batches(self, columns: int) -> Iterator[tuple[slice, int, int]]:
        """Runs of clusters few enough for a table with this many columns: their rows, the first, and how many."""
        at_once = max(1, MOST_CELLS // columns)
        for start in range(0, self.total, at_once):
            first, last = np.searchsorted(self.cluster, [start, start + at_once])
            yield slice(int(first), int(last)), start, min(at_once, self.total - start)

    def pieces(self, size: int) -> Iterator[Piece]:
        """Rows of so many clusters after another."""
        ends = np.searchsorted(self.cluster, np.arange(0, self.total + size, size))
        for i, (first, last) in enumerate(itertools.pairwise(ends.tolist())):
            at = slice(first, last)
            yield self.cluster[at] - i * size, self.cell[at], tuple(column[at] for column in self.sums)

    def per_cell(self) -> Ints:
        """Clusters with a row in each cell."""
        return np.bincount(self.cell, minlength=self.bins * self.groups)

    def tilted(self, by: Floats, turn: Floats) -> Clusters:
        """The same sums with v replaced by v + by + turn * u."""
        d, t = by.ravel()[self.cell], turn.ravel()[self.cell]
        n, u, v, uu, uv = self.sums
        return replace(self, sums=(n, u, v + d * n + t * u, uu, uv + d * u + t * uu))

    def stilled(self, cells: np.typing.NDArray[np.bool_]) -> Clusters:
        """The same sums without v in these cells."""
        still = cells[self.cell]
        n, u, v, uu, uv = self.sums
        return replace(self, sums=(n, u, np.where(still, 0.0, v), uu, np.where(still, 0.0, uv)))

    def shifted(self, by: Floats) -> Clusters:
        """The same sums with u replaced by u + by."""
        d = by[self.bin]
        n, u, v, uu, uv = self.sums
        return replace(self, sums=(n, u + d * n, v, uu + 2 * d * u + d * d * n, uv + d * v))

    def part(self, first: int, last: int) -> Clusters:
        """The bins from `first` up to, not including, `last`, and the clusters that have rows there."""
        here = (self.bin >= first) & (self.bin < last)
        cluster = self.cluster[here]
        codes = np.asarray(np.cumsum(np.diff(cluster, prepend=cluster[:1]) > 0), dtype=np.int64)
        sums = tuple(column[here] for column in self.sums)
        return Clusters(codes, self.cell[here] - first * self.groups, sums, last - first, self.groups)

    def merged(self, into: Ints) -> Clusters:
        """Bins joined; u and v of the joined bins must already agree."""
        cell = into[self.bin] * self.groups + self.cell % self.groups
        new = np.ones(len(cell), dtype=bool)
        new[1:] = (self.cluster[1:] != self.cluster[:-1]) | (cell[1:] != cell[:-1])  # joining bins keeps the order
        first = np.flatnonzero(new)
        added = tuple(np.add.reduceat(column, first) for column in self.sums) if len(first) else self.sums
        return Clusters(self.cluster[first], cell[first], added, int(into[-1]) + 1, self.groups)

    def products(self, flat: Floats, tilt: Floats, bins: int | None = None) -> Floats:
        """Sum over clusters of z z', where z adds v * (flat + tilt * u) over the rows of a cluster.

        `flat` and `tilt` are (cells, H). With `bins` a cluster's sums are kept apart per bin, and the result is
        (bins * H, bins * H).
        """
        wide, slots = flat.shape[1], bins or 1
        out = np.zeros((slots, wide, slots, wide))
        for rows, start, size in self.batches(slots * wide):
            cell, v, uv = self.cell[rows], self.sums[2][rows], self.sums[4][rows]
            place = (self.cluster[rows] - start) * slots + (0 if bins is None else cell // self.groups)
            z = [
                np.bincount(place, flat[cell, h] * v + tilt[cell, h] * uv, size * slots).reshape(size, slots)
                for h in range(wide)
            ]
            for h, i in np.ndindex(wide, wide):
                out[:, h, :, i] += z[h].T @ z[i]
        return out.reshape(slots * wide, slots * wide)

    def parts(self, flat: Floats, tilt: Floats) -> Floats:
        """What each cluster adds to the sum of v * (flat + tilt * u), which are (cells,)."""
        each = flat[self.cell] * self.sums[2] + tilt[self.cell] * self.sums[4]
        return np.asarray(np.bincount(self.cluster, each, self.total), dtype=np.float64)

    def squares(self) -> Floats:
        """The squared sums of v of each cluster in a cell, added up."""
        return np.asarray(np.bincount(self.cell, self.sums[2] ** 2, self.bins * self.groups))

    def effective(self, flat: Floats, tilt: Floats) -> float:
        """How many clusters of one size are worth as much: fewer than there are, where some weigh far more than others.

        A cluster's weight is the variance that its rows would give the gaps if all rows were equally uncertain (those of
        a larger weight less so, as weighted least squares takes them to be).
        """
        n, u, _, uu, _ = self.sums
        weight = np.zeros(self.total)
        for h in range(flat.shape[1]):
            f, t = flat[self.cell, h], tilt[self.cell, h]
            own = f * f * n + 2 * f * t * u + t * t * uu
            part = np.bincount(self.bin, own)[self.bin]
            share = np.divide(own, part, out=np.zeros_like(own), where=part > 0)
            weight += np.bincount(self.cluster, share, self.total)
        square = float((weight**2).sum())
        return float(weight.sum() ** 2 / square) if square > 0 else float(self.total)
