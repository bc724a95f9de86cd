"""Sums per cluster and cell of the outcome test: cluster by cluster where they are few, else their products added up.

Clustered errors are squares of sums over whole clusters. Whatever line the rows are measured from and whatever each row
weighs, such a sum is linear in five sums per cell: those of 1, u, v, u^2 and uv. So the products of these sums, added up
over clusters, give every clustered error, and no cluster needs to be remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.cards import Floats

Ints = np.typing.NDArray[np.int64]

MOST_CELLS = 1 << 22

FLIPPED = 2_000
"""With more clusters than this nobody asks what each of them adds: a sum of their flipped parts is as good as normal."""

SUMS = 5
"""Of 1, u, v, u^2 and uv."""


@dataclass(frozen=True)
class Clusters:
    """The rows of each cluster and cell added up: all that clustered errors need.

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

    def per_cell(self) -> Ints:
        """Clusters with a row in each cell."""
        return np.bincount(self.cell, minlength=self.bins * self.groups)

    def tilted(self, by: Floats, turn: Floats) -> Clusters:
        """The same sums with v replaced by v + by + turn * u."""
        d, t = by.ravel()[self.cell], turn.ravel()[self.cell]
        n, u, v, uu, uv = self.sums
        return replace(self, sums=(n, u, v + d * n + t * u, uu, uv + d * u + t * uu))

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


@dataclass(frozen=True)
class ClusterSquares:
    """Products of the sums of clusters, added up over clusters that are too many to list.

    Attributes
    ----------
    cross : (K, 5, K, 5) sum over clusters of the product of two of their sums, over K cells.
    sums : (K, 5) the sums themselves, over all clusters.
    steps : (G + 1, B + 1, B) clusters with a row in a bin by the last bin before it in which they have one, 0 for none and
        1 for the first; in one group, and last in any. So clusters of joined bins can be counted.
    total : number of clusters.
    """

    cross: Floats
    sums: Floats
    steps: Ints
    total: int

    @classmethod
    def of(cls, rows: Clusters) -> ClusterSquares:
        """Clusters one by one, added up."""
        cells = rows.bins * rows.groups
        cross, stacked = np.zeros((cells * SUMS,) * 2), np.stack(rows.sums, axis=1)
        sums = np.stack([np.bincount(rows.cell, column, cells) for column in rows.sums], axis=1).astype(np.float64)
        for part, start, size in rows.batches(cells * SUMS):
            table = np.zeros((size * cells, SUMS))
            table[(rows.cluster[part] - start) * cells + rows.cell[part]] = stacked[part]
            flat = table.reshape(size, -1)
            cross += flat.T @ flat
        steps = np.stack([*_steps(rows), _any_steps(rows)])
        return cls(cross.reshape(cells, SUMS, cells, SUMS), sums, steps, rows.total)

    def __add__(self, other: ClusterSquares) -> ClusterSquares:
        """With other clusters beside these."""
        cross, sums = self.cross + other.cross, self.sums + other.sums
        return ClusterSquares(cross, sums, self.steps + other.steps, self.total + other.total)

    @property
    def groups(self) -> int:
        return len(self.steps) - 1

    def per_bin(self) -> Ints:
        """Clusters with a row in each bin."""
        return np.asarray(self.steps[-1].sum(0))

    def per_cell(self) -> Ints:
        """Clusters with a row in each cell."""
        return np.asarray(self.steps[:-1].sum(1).T.ravel())

    def tilted(self, by: Floats, turn: Floats) -> ClusterSquares:
        """The same sums with v replaced by v + by + turn * u."""
        change = np.tile(np.eye(SUMS), (by.size, 1, 1))
        change[:, 2, 0] = change[:, 4, 1] = by.ravel()
        change[:, 2, 1] = change[:, 4, 3] = turn.ravel()
        return self._changed(change)

    def shifted(self, by: Floats) -> ClusterSquares:
        """The same sums with u replaced by u + by."""
        d = np.repeat(by, self.groups)
        change = np.tile(np.eye(SUMS), (d.size, 1, 1))
        change[:, 1, 0] = change[:, 4, 2] = d
        change[:, 3, 1], change[:, 3, 0] = 2 * d, d * d
        return self._changed(change)

    def _changed(self, change: Floats) -> ClusterSquares:
        """The sums of each cell replaced by combinations of them."""
        cross = np.einsum("kij,kjlm->kilm", change, self.cross)
        cross = np.einsum("lnm,kilm->kiln", change, cross)
        return replace(self, cross=cross, sums=np.einsum("kij,kj->ki", change, self.sums))

    def part(self, first: int, last: int) -> ClusterSquares:
        """The bins from `first` up to, not including, `last`, and the clusters that have rows there."""
        cells = slice(first * self.groups, last * self.groups)
        steps = self.steps[:, first : last + 1, first:last].copy()
        steps[:, 0] = self.steps[:, : first + 1, first:last].sum(1)  # whatever came before, the first here
        return ClusterSquares(self.cross[cells, :, cells], self.sums[cells], steps, int(steps[-1, 0].sum()))

    def merged(self, into: Ints) -> ClusterSquares:
        """Bins joined; u and v of the joined bins must already agree."""
        bins, groups = int(into[-1]) + 1, self.groups
        first = np.searchsorted(into, np.arange(bins))
        cut = (len(into), groups, SUMS)
        cross = np.add.reduceat(np.add.reduceat(self.cross.reshape(cut + cut), first, axis=0), first, axis=3)
        sums = np.add.reduceat(self.sums.reshape(cut), first, axis=0)
        steps = np.add.reduceat(self.steps, first, axis=2)
        steps = np.add.reduceat(steps, np.concatenate([[0], first + 1]), axis=1)
        steps[:, np.arange(bins) + 1, np.arange(bins)] = 0  # from a bin to itself: counted already
        size = (bins * groups, SUMS)
        return ClusterSquares(cross.reshape(size + size), sums.reshape(size), steps, self.total)

    def products(self, flat: Floats, tilt: Floats, bins: int | None = None) -> Floats:
        """Sum over clusters of z z', where z adds v * (flat + tilt * u) over the rows of a cluster, as of listed clusters."""
        wide, slots = flat.shape[1], bins or 1
        weights = np.zeros((*self.sums.shape, slots, wide))
        slot = np.arange(len(flat)) // self.groups if bins else np.zeros(len(flat), dtype=np.int64)
        weights[np.arange(len(flat)), 2, slot] = flat
        weights[np.arange(len(flat)), 4, slot] = tilt
        return self._product(weights.reshape(*self.sums.shape, -1))

    def _product(self, weights: Floats) -> Floats:
        size = self.sums.size
        rows = weights.reshape(size, -1)
        return np.asarray(rows.T @ self.cross.reshape(size, size) @ rows)

    def squares(self) -> Floats:
        """The squared sums of v of each cluster in a cell, added up."""
        return np.asarray(np.einsum("kk->k", self.cross[:, 2, :, 2]))

    def effective(self, flat: Floats, tilt: Floats) -> float:
        """How many clusters of one size are worth as much, as of listed clusters."""
        n, u, uu = (self.sums[:, i, None] for i in (0, 1, 3))
        own = flat * flat * n + 2 * flat * tilt * u + tilt * tilt * uu
        cut = (-1, self.groups, flat.shape[1])
        part = np.repeat(own.reshape(cut).sum(1), self.groups, axis=0)
        share = np.divide(1.0, part, out=np.zeros_like(part), where=part > 0)
        weights = np.zeros_like(self.sums)
        weights[:, 0] = (flat * flat * share).sum(1)
        weights[:, 1] = (2 * flat * tilt * share).sum(1)
        weights[:, 3] = (tilt * tilt * share).sum(1)
        square = float(self._product(weights[..., None])[0, 0])
        return float((weights * self.sums).sum() ** 2 / square) if square > 0 else float(self.total)


def _steps(rows: Clusters) -> Ints:
    """By group: how many clusters step from which bin to which."""
    group, bin = rows.cell % rows.groups, rows.bin
    same = (rows.cluster[1:] == rows.cluster[:-1]) & (group[1:] == group[:-1])
    return _stepped(group, bin, same, rows.groups, rows.bins)


def _any_steps(rows: Clusters) -> Ints:
    """The same whatever the group."""
    found = np.zeros((rows.bins + 1, rows.bins), dtype=np.int64)
    for part, start, size in rows.batches(rows.bins):
        held = np.zeros((size, rows.bins), dtype=bool)
        held[rows.cluster[part] - start, rows.bin[part]] = True
        cluster, bin = np.nonzero(held)
        found += _stepped(np.zeros_like(bin), bin, cluster[1:] == cluster[:-1], 1, rows.bins)[0]
    return found


def _stepped(kind: Ints, bin: Ints, same: np.typing.NDArray[np.bool_], kinds: int, bins: int) -> Ints:
    """Bins in order within what is the `same` as the one before: how often each follows which, or is the first."""
    before = np.zeros_like(bin)
    before[1:] = np.where(same, bin[:-1] + 1, 0)
    found = np.bincount((kind * (bins + 1) + before) * bins + bin, minlength=kinds * (bins + 1) * bins)
    return np.asarray(found.reshape(kinds, bins + 1, bins), dtype=np.int64)
