"""What is left of clusters that are too many to list: the products of their sums, added up a few clusters at a time.

Clustered errors are squares of sums over whole clusters. Whatever line the rows are measured from and whatever each row
weighs, such a sum is linear in five sums per cell: those of 1, u, v, u^2 and uv. So the products of these sums, added up
over clusters, give every clustered error, and no cluster needs to be remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.clusters import SUMS, Clusters, Ints, Piece

AT_ONCE = 1_920
"""Clusters whose sums are laid out side by side: few enough to stay in the processor's cache, a multiple of `DEEP`."""

ROWS_AT_ONCE, MOST_AT_ONCE = 1 << 20, 1 << 16
"""Rows, and clusters, that are worked on at a time where sums are not laid out."""

PAIRS_AT_ONCE = 1 << 17
"""About how many pairs of rows are gathered at a time."""

WIDE, DEEP = 40, 160
"""Columns and rows of matrices that are multiplied: larger ones would be shared out between threads, which here spend more
time on waiting for each other than they save."""


THIN = 4
"""Cells for every row of a cluster from which on its rows are multiplied two by two: most of such a table would be empty."""


@dataclass(frozen=True)
class Loose:
    """Rows in any order that nobody has added up: for clusters with hardly ever two rows in a cell, that would be lost work.

    Attributes
    ----------
    cluster : (L,) cluster codes from 0, none left out. cell : (L,) bin times number of groups plus group.
    u, v : (L,) as in `Moments`. weight : (L,), or None where every row weighs one.
    """

    cluster: Ints
    cell: Ints
    u: Floats
    v: Floats
    weight: Floats | None

    def pieces(self, size: int) -> Iterator[Piece]:
        """Rows of so many clusters after another."""
        piece = (self.cluster // size).astype(np.uint16)  # which numpy sorts by counting
        order, ends = np.argsort(piece, kind="stable"), np.cumsum(np.bincount(piece))
        for i, at in enumerate(np.split(order, ends[:-1])):
            u, v = self.u[at], self.v[at]
            w = np.ones_like(u) if self.weight is None else self.weight[at]
            wu, wv = w * u, w * v
            yield self.cluster[at] - i * size, self.cell[at], (w, wu, wv, wu * u, wu * v)


@dataclass(frozen=True)
class Recut:
    """From cells of fine bins to those of bins that are joined, or left out, and that measure from other lines.

    Attributes
    ----------
    into : (K,) the new cell, or -1 where rows are left out. move : (K,) what u grows by.
    lift, lean : (K,) v becomes v + lift + lean * u, with the u that was moved.
    bins, groups : of the new cells.
    """

    into: Ints
    move: Floats
    lift: Floats
    lean: Floats
    bins: int
    groups: int

    @classmethod
    def nothing(cls, bins: int, groups: int) -> Recut:
        """The same cells, as they are."""
        still = np.zeros(bins * groups)
        return cls(np.arange(bins * groups), still, still, still, bins, groups)

    def of(self, piece: Piece) -> Piece:
        """The piece with its new cells and sums."""
        cluster, cell, sums = piece
        into = self.into[cell]
        if self.into.min() < 0:
            here = np.flatnonzero(into >= 0)
            cluster, cell, into, sums = cluster[here], cell[here], into[here], tuple(column[here] for column in sums)
        n, u, v, uu, uv = sums
        if self.move.any():
            d = self.move[cell]
            uu, uv, u = uu + d * (2 * u + d * n), uv + d * v, u + d * n
        if self.lift.any() or self.lean.any():
            d, t = self.lift[cell], self.lean[cell]
            v, uv = v + d * n + t * u, uv + d * u + t * uu
        return cluster, into, (n, u, v, uu, uv)


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
    change : (K, 5, 5) by what combinations the sums of each cell are replaced before they are multiplied, or None: it is cheaper
        to change what is asked of the products than all of them.
    """

    cross: Floats
    sums: Floats
    steps: Ints
    total: int
    change: Floats | None = None

    @classmethod
    def of(cls, rows: Clusters) -> ClusterSquares:
        """Clusters one by one, added up."""
        return added_up(rows, [Recut.nothing(rows.bins, rows.groups)])[0]

    def __add__(self, other: ClusterSquares) -> ClusterSquares:
        """With other clusters beside these."""
        one, two = self._multiplied(), other._multiplied()
        steps, total = self.steps + other.steps, self.total + other.total
        return ClusterSquares(one.cross + two.cross, one.sums + two.sums, steps, total)

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

    def stilled(self, cells: np.typing.NDArray[np.bool_]) -> ClusterSquares:
        """The same sums without v in these cells."""
        change = np.tile(np.eye(SUMS), (cells.size, 1, 1))
        change[cells, 2, 2] = change[cells, 4, 4] = 0.0
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
        every = change if self.change is None else change @ self.change
        return replace(self, change=every, sums=np.einsum("kij,kj->ki", change, self.sums))

    def _multiplied(self) -> ClusterSquares:
        """The same with products of the sums as they are."""
        if self.change is None:
            return self
        cells, every = len(self.sums), self.sums.size
        half = (self.change @ self.cross.reshape(cells, SUMS, every)).reshape(every, every)
        cross = (self.change @ half.T.reshape(cells, SUMS, every)).reshape(self.cross.shape)  # alike on both sides
        return replace(self, cross=cross, change=None)

    def part(self, first: int, last: int) -> ClusterSquares:
        """The bins from `first` up to, not including, `last`, and the clusters that have rows there."""
        cells = slice(first * self.groups, last * self.groups)
        steps = self.steps[:, first : last + 1, first:last].copy()
        steps[:, 0] = self.steps[:, : first + 1, first:last].sum(1)  # whatever came before, the first here
        total = int(steps[-1, 0].sum())
        change = None if self.change is None else self.change[cells]
        return ClusterSquares(self.cross[cells, :, cells], self.sums[cells], steps, total, change)

    def merged(self, into: Ints) -> ClusterSquares:
        """Bins joined; u and v of the joined bins must already agree."""
        bins, groups = int(into[-1]) + 1, self.groups
        first = np.searchsorted(into, np.arange(bins))
        cut, whole = (len(into), groups, SUMS), self._multiplied().cross
        cross = np.add.reduceat(np.add.reduceat(whole.reshape(cut + cut), first, axis=0), first, axis=3)
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
        rows = weights.reshape(*self.sums.shape, -1)
        if self.change is not None:
            rows = np.einsum("kij,kih->kjh", self.change, rows)
        rows = rows.reshape(size, -1)
        return np.asarray(rows.T @ self.cross.reshape(size, size) @ rows)

    def squares(self) -> Floats:
        """The squared sums of v of each cluster in a cell, added up."""
        if self.change is None:
            return np.asarray(np.einsum("kk->k", self.cross[:, 2, :, 2]))
        own, v = np.einsum("kikj->kij", self.cross), self.change[:, 2]
        return np.asarray(np.einsum("ki,kij,kj->k", v, own, v))

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


def is_thin(rows: Clusters | Loose, cells: int) -> bool:
    """Whether most clusters have rows in few of their cells."""
    return THIN * len(rows.cell) <= cells * (int(rows.cluster.max(initial=0)) + 1)


def added_up(rows: Clusters | Loose, recuts: Sequence[Recut]) -> list[ClusterSquares]:
    """The products of clusters, each of which is here with all its rows, in bins of several kinds."""
    sums = [_Adding(recut) for recut in recuts]
    size, clusters = AT_ONCE, int(rows.cluster.max(initial=0)) + 1
    if is_thin(rows, min(recut.bins * recut.groups for recut in recuts)):
        size = min(MOST_AT_ONCE, max(1, clusters * ROWS_AT_ONCE // max(1, len(rows.cell))))
    for piece in rows.pieces(size):
        for one in sums:
            one.add(piece, size)
    return [one.squares() for one in sums]


@dataclass
class _Adding:
    """Products that grow.

    Attributes
    ----------
    cross, total, steps : as in `ClusterSquares`, by sum, then by cell.
    thin : what clusters with few rows add to `cross`, by cell, then by sum, each pair of rows once.
    """

    recut: Recut
    cross: Floats | None = field(init=False, default=None)
    thin: Floats | None = field(init=False, default=None)
    total: Floats = field(init=False)
    steps: Ints = field(init=False)

    def __post_init__(self) -> None:
        bins, groups = self.recut.bins, self.recut.groups
        self.total = np.zeros(SUMS * bins * groups)
        self.steps = np.zeros((groups + 1, bins + 1, bins), dtype=np.int64)

    def add(self, piece: Piece, size: int) -> None:
        """More clusters, at most so many."""
        cluster, cell, sums = self.recut.of(piece)
        bins, groups = self.recut.bins, self.recut.groups
        cells = bins * groups
        self.total += np.concatenate([np.bincount(cell, column, cells) for column in sums])
        held = np.zeros((size, bins, groups), dtype=bool)
        held.reshape(-1)[cluster * cells + cell] = True
        self.steps[:-1] += _steps(held.transpose(0, 2, 1))
        self.steps[-1:] += _steps(np.any(held, axis=2, keepdims=True).transpose(0, 2, 1))
        thick = THIN * np.bincount(cluster, minlength=size) > cells
        if thick.all():
            return self._add_table(cluster, cell, sums)
        if thick.any():
            at = np.flatnonzero(thick[cluster])
            code = (np.cumsum(thick) - 1)[cluster[at]]
            for start in range(0, int(thick.sum()), AT_ONCE):
                here = (code >= start) & (code < start + AT_ONCE)
                self._add_table(code[here] - start, cell[at[here]], tuple(column[at[here]] for column in sums))
            at = np.flatnonzero(~thick[cluster])
            cluster, cell, sums = cluster[at], cell[at], tuple(column[at] for column in sums)
        if self.thin is None:
            self.thin = np.zeros((cells, SUMS * cells, SUMS))
        _add_pairs(self.thin, cluster, cell, sums)
        return None

    def _add_table(self, cluster: Ints, cell: Ints, sums: Sequence[Floats]) -> None:
        """More clusters, at most `AT_ONCE`, of which most have rows in many cells."""
        cells = self.recut.bins * self.recut.groups
        place = cluster * cells + cell
        added = [np.bincount(place, column, AT_ONCE * cells).reshape(AT_ONCE, cells) for column in sums]
        found = _square(np.concatenate(added, axis=1))
        self.cross = found if self.cross is None else self.cross + found

    def squares(self) -> ClusterSquares:
        cells = self.recut.bins * self.recut.groups
        cross = np.zeros((cells, SUMS, cells, SUMS))
        if self.cross is not None:
            cross += self.cross.reshape(SUMS, cells, SUMS, cells).transpose(1, 0, 3, 2)
        if self.thin is not None:
            once = self.thin.reshape(cells, cells, SUMS, SUMS).transpose(0, 3, 1, 2)
            cross += once
            cross += once.transpose(2, 3, 0, 1)
        total = int(self.steps[-1, 0].sum())
        return ClusterSquares(cross, self.total.reshape(SUMS, cells).T.copy(), self.steps, total)


def _square(table: Floats) -> Floats:
    """The product of a table with itself, columns by columns."""
    wide = table.shape[1]
    out, deep = np.empty((wide, wide)), table.reshape(-1, DEEP, wide)
    for i in range(0, wide, WIDE):
        left = deep[:, :, i : i + WIDE].transpose(0, 2, 1)
        for j in range(i, wide, WIDE):
            block = np.matmul(left, deep[:, :, j : j + WIDE]).sum(0)
            out[i : i + WIDE, j : j + WIDE] = block
            out[j : j + WIDE, i : i + WIDE] = block.T
    return out


def _add_pairs(once: Floats, cluster: Ints, cell: Ints, sums: Sequence[Floats]) -> None:
    """Add to `once`, by cell, then by sum, the products of all pairs of rows of a cluster, and half of a row's with itself.

    Cell by cell: what a cell's rows add then stays in the processor's cache.
    """
    from scipy import sparse

    order = np.argsort(cluster.astype(np.uint16), kind="stable")  # which numpy sorts by counting
    cell, table = cell[order].astype(np.int32), np.stack(sums, axis=1)[order]
    size = np.bincount(cluster)
    after = np.repeat(np.cumsum(size), size) - np.arange(len(cell))  # rows of the cluster from this one on
    column = cell[:, None] * np.int32(SUMS) + np.arange(SUMS, dtype=np.int32)
    by_cell = np.argsort(cell.astype(np.uint16), kind="stable")
    for k, own in enumerate(np.split(by_cell, np.cumsum(np.bincount(cell, minlength=len(once)))[:-1])):
        for rows in np.array_split(own, 1 + int(after.take(own).sum()) // PAIRS_AT_ONCE) if len(own) else ():
            many = after.take(rows)
            upto = np.cumsum(many)
            other = np.arange(upto[-1]) + np.repeat(rows - upto + many, many)
            values = table.take(other, axis=0)
            values[upto - many] /= 2  # the row itself
            ends = np.append(0, SUMS * upto).astype(np.int32)
            parts = values.ravel(), column.take(other, axis=0).ravel(), ends
            once[k] += sparse.csr_array(parts, shape=(len(rows), once.shape[1])).T @ table.take(rows, axis=0)


def _steps(held: np.typing.NDArray[np.bool_]) -> Ints:
    """Of clusters, kinds and bins, whether there is a row: by kind, how many clusters step from which bin to which."""
    _, kinds, bins = held.shape
    line, bin = np.divmod(np.flatnonzero(held), bins)
    before = np.zeros_like(bin)
    before[1:] = np.where(line[1:] == line[:-1], bin[:-1] + 1, 0)
    found = np.bincount((line % kinds * (bins + 1) + before) * bins + bin, minlength=kinds * (bins + 1) * bins)
    return np.asarray(found.reshape(kinds, bins + 1, bins), dtype=np.int64)
