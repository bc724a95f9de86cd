"""What is left of clusters that are too many to list: the products of their sums, added up a few clusters at a time.

Clustered errors are squares of sums over whole clusters. Whatever line the rows are measured from and whatever each row
weighs, such a sum is linear in five sums per cell: those of 1, u, v, u^2 and uv. So the products of these sums, added up
over clusters, give every clustered error, and no cluster needs to be remembered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.clusters import SUMS, Clusters, Ints, Piece, runs

AT_ONCE = 1_920
"""Clusters whose sums are laid out side by side: few enough to stay in the processor's cache, a multiple of `DEEP`."""

ROWS_AT_ONCE = 1 << 20
"""Rows that are worked on at a time where sums are not laid out."""

PAIRS_AT_ONCE = 1 << 16
"""About how many pairs of rows are gathered at a time."""

WIDE, DEEP = 40, 160
"""Columns and rows of matrices that are multiplied: larger ones would be shared out between threads, which here spend more
time on waiting for each other than they save."""


THIN = 6
"""Cells for every row of a cluster from which on its rows are multiplied two by two: most of such a table would be empty."""


@dataclass(frozen=True)
class Loose:
    """Rows that nobody has added up: for clusters with hardly ever two rows in a cell, that would be lost work.

    Attributes
    ----------
    cluster : (L,) cluster codes from 0, none left out; rows are sorted by cluster, then group, then bin.
    cell : (L,) bin times number of groups plus group.
    u, v : (L,) as in `Moments`. weight : (L,), or None where every row weighs one.
    """

    cluster: Ints
    cell: Ints
    u: Floats
    v: Floats
    weight: Floats | None

    def pieces(self, size: int) -> Iterator[Piece]:
        """Rows of so many clusters after another."""
        for i, at in enumerate(runs(self.cluster, size)):
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


def is_thin(rows: Clusters | Loose, cells: Sequence[int]) -> bool:
    """Whether most clusters have so few rows that tables of all their cells, of each kind, are more work than pairs of rows."""
    return THIN * len(rows.cell) <= math.hypot(*cells) * (int(rows.cluster.max(initial=0)) + 1)


def added_up(rows: Clusters | Loose, recuts: Sequence[Recut]) -> list[ClusterSquares]:
    """The products of clusters, each of which is here with all its rows, in bins of several kinds."""
    sums = [_Adding(recut) for recut in recuts]
    size, clusters = AT_ONCE, int(rows.cluster.max(initial=0)) + 1
    thin = is_thin(rows, [recut.bins * recut.groups for recut in recuts])
    if thin:
        size = max(1, clusters * ROWS_AT_ONCE // max(1, len(rows.cell)))
    for piece in rows.pieces(size):
        for one in sums:
            one.add(piece, size, thin=thin)
    return [one.squares() for one in sums]


@dataclass
class _Adding:
    """Products that grow.

    Attributes
    ----------
    table : (clusters, 5 K) the sums of some clusters. cross, total, steps : as in `ClusterSquares`, by sum, then by cell.
    thin : what clusters with few rows add to `cross`, by cell, then by sum, each pair of rows once.
    """

    recut: Recut
    table: Floats | None = field(init=False, default=None)
    cross: Floats | None = field(init=False, default=None)
    thin: Floats | None = field(init=False, default=None)
    total: Floats = field(init=False)
    steps: Ints = field(init=False)

    def __post_init__(self) -> None:
        bins, groups = self.recut.bins, self.recut.groups
        self.total = np.zeros(SUMS * bins * groups)
        self.steps = np.zeros((groups + 1, bins + 1, bins), dtype=np.int64)

    def add(self, piece: Piece, size: int, *, thin: bool) -> None:
        """More clusters, at most so many; if they are `thin`, those with few rows are not laid out."""
        cluster, cell, sums = self.recut.of(piece)
        bins, groups = self.recut.bins, self.recut.groups
        cells = bins * groups
        self.total += np.concatenate([np.bincount(cell, column, cells) for column in sums])
        self.steps += _steps(cluster, cell, bins, groups)
        few = cells if thin else 0
        thick = (THIN * np.bincount(cluster, minlength=size) > few)[cluster]
        if thick.any():
            many, places, more = _only(thick, cluster, cell, sums)
            code = np.cumsum(np.diff(many, prepend=many[:1]) > 0, dtype=np.int64)
            for i, at in enumerate(runs(code, AT_ONCE)):
                self._add_table(code[at] - i * AT_ONCE, places[at], tuple(column[at] for column in more))
        if not thick.all():
            if self.thin is None:
                self.thin = np.zeros((cells, SUMS * cells, SUMS))
            _add_pairs(self.thin, *_only(~thick, cluster, cell, sums))

    def _add_table(self, cluster: Ints, cell: Ints, sums: Sequence[Floats]) -> None:
        """More clusters, at most `AT_ONCE`, of which most have rows in many cells."""
        cells = self.recut.bins * self.recut.groups
        place = cluster * cells + cell
        added = [np.bincount(place, column, AT_ONCE * cells).reshape(AT_ONCE, cells) for column in sums]
        if self.cross is None:
            self.cross, self.table = np.zeros((SUMS * cells, SUMS * cells)), np.empty((AT_ONCE, SUMS * cells))
        self.cross += _square(np.concatenate(added, axis=1, out=self.table))

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


def _only(here: np.typing.NDArray[np.bool_], cluster: Ints, cell: Ints, sums: tuple[Floats, ...]) -> Piece:
    """Some rows of a piece."""
    if here.all():
        return cluster, cell, sums
    at = np.flatnonzero(here)
    return cluster[at], cell[at], tuple(column[at] for column in sums)


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

    A few cells at a time: what their rows add then stays in the processor's cache.
    """
    from scipy import sparse

    rows, wide, size = len(cell), once.shape[1], np.bincount(cluster)
    table, cell = np.stack(sums, axis=1), cell.astype(np.int32)
    column = cell[:, None] * np.int32(SUMS) + np.arange(SUMS, dtype=np.int32)
    ends = np.repeat(np.cumsum(size), size)
    # Line 2 i of this matrix is row i with all that follow it in its cluster; nobody asks for the lines between.
    cuts = np.stack([np.arange(rows), ends], axis=1).ravel() * SUMS
    onwards = sparse.csr_array((table.ravel(), column.ravel(), cuts.astype(np.int32)), shape=(2 * rows - 1, wide))
    by_cell = np.argsort(cell.astype(np.uint16), kind="stable")  # which numpy sorts by counting
    pairs = np.append(0, np.cumsum((ends - np.arange(rows))[by_cell]))
    last = np.cumsum(np.bincount(cell, minlength=len(once)))
    stops = last[np.append(np.diff(pairs[last] // PAIRS_AT_ONCE) > 0, True)]
    for start, stop in itertools.pairwise([0, *stops.tolist()]):
        parts = 1 + int(pairs[stop] - pairs[start]) // (2 * PAIRS_AT_ONCE)
        for own in np.array_split(by_cell[start:stop], parts) if stop > start else ():
            some, k = onwards[2 * own], cell.take(own)
            some.data.reshape(-1, SUMS)[some.indptr[:-1] // SUMS] /= 2  # the row itself
            here = slice(int(k[0]), int(k[-1]) + 1)
            many = here.stop - here.start
            if many > 1:
                some.indices += np.repeat((k - k[0]) * np.int32(wide), np.diff(some.indptr))
            each = sparse.csr_array((some.data, some.indices, some.indptr), shape=(len(own), many * wide))
            once[here] += (each.T @ table.take(own, axis=0)).reshape(many, wide, SUMS)


def _steps(cluster: Ints, cell: Ints, bins: int, groups: int) -> Ints:
    """By group, and last for any: how many clusters step from which bin to which; rows are in order of cluster, group and bin."""
    every = np.arange(bins * groups)
    bin, group = (every // groups)[cell], (every % groups)[cell]
    held = np.zeros((int(cluster.max(initial=0)) + 1) * bins, dtype=bool)
    held[cluster * bins + bin] = True
    in_any = np.flatnonzero(held)
    line = in_any // bins
    by_group = _stepped(cluster * groups + group, bin, bins, group), _stepped(line, in_any - line * bins, bins)
    found = [np.bincount(code, minlength=n * (bins + 1) * bins) for code, n in zip(by_group, (groups, 1), strict=True)]
    return np.concatenate(found).reshape(groups + 1, bins + 1, bins)


def _stepped(line: Ints, bin: Ints, bins: int, kind: Ints | int = 0) -> Ints:
    """Every step to another bin in a line: its kind, from which bin, counted from 1 or 0 for none, and to which, as one number."""
    same = line[1:] == line[:-1]
    before = np.zeros_like(bin)
    before[1:] = np.where(same, bin[:-1] + 1, 0)
    new = np.ones(len(bin), dtype=bool)
    new[1:] = ~same | (bin[1:] != bin[:-1])
    return np.asarray(((kind * (bins + 1) + before) * bins + bin)[new])
