"""Sums per cluster and cell of the outcome test, a range of clusters at a time.

Few of them are handed on one by one. Many would not fit: each range is added up into products and forgotten.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.buckets import dense
from evenhand.engine.quantiles import quantiles
from evenhand.tallies.cluster_squares import ClusterSquares, Loose, Recut, added_up
from evenhand.tallies.clusters import FLIPPED, SUMS, Clusters
from evenhand.tallies.moments import Ints, Moments
from evenhand.views.outcomes import Outcomes
from evenhand.views.tables import to_polars

AT_ONCE = 1 << 22
"""Cells of clusters, or rows, that are collected at a time."""

FULL = 2
"""Rows of a cell, on average, from which on they are added up before they are collected."""

LISTED = 1 << 21
"""Up to so many cells, clusters are handed on one by one."""

WIDEST = 2_000
"""Sums of a cluster over all cells beyond which their products would be more work than a list."""

MOST_PASSES = 32
"""Ranges of clusters at most: each is a pass over the rows."""


@dataclass(frozen=True)
class Use:
    """What is made of fine bins: those from `first` to `last`, joined as `into` says."""

    first: int
    last: int
    into: Ints

    @classmethod
    def between(cls, every: Floats, edges: Floats, low: float, high: float) -> Use:
        """Bins with these inner edges of the scores from `low` to `high`, out of bins that end at `every` edge."""
        first, last = np.searchsorted(every, [low, high])
        into = np.concatenate([np.searchsorted(edges, every[first:last]), [len(edges)]])
        return cls(int(first), int(last) + 1, into.astype(np.int64))

    def of(self, fine: Moments) -> Moments:
        return fine.part(self.first, self.last).merged(self.into)

    def recut(self, fine: Moments, joined: Moments) -> Recut:
        """What happens to the cells of fine bins when they are joined."""
        groups = fine.rows.shape[1]
        into = np.full(len(fine.origin), -1)
        into[self.first : self.last] = self.into
        cell = np.where(into[:, None] < 0, -1, into[:, None] * groups + np.arange(groups))
        move = np.broadcast_to((fine.origin - joined.origin[into])[:, None], cell.shape)
        lift, lean = fine.level - joined.level[into] - fine.slope * move, fine.slope - joined.slope[into]
        return Recut(cell.ravel(), move.ravel(), lift.ravel(), lean.ravel(), len(joined.origin), groups)


def group_code(labels: Sequence[Any]) -> nw.Expr:
    """Position of a row's group among the labels."""
    found: nw.Expr = nw.lit(len(labels) - 1)
    for i, label in reversed(list(enumerate(labels[:-1]))):
        same = nw.col("group").is_null() if label is None else nw.col("group") == label
        found = nw.when(same).then(nw.lit(i)).otherwise(found)
    return found.cast(nw.Int64)


def tally_clusters(rows: nw.LazyFrame[Any], view: Outcomes, fine: Moments, uses: Sequence[Use]) -> list[Moments]:
    """The sums of every use of `fine` bins, with those per cluster of `rows`, which have u and v as the fine bins have.

    Products are handed on only where, in every use, each bin that holds the reference has so many clusters of it that
    nobody will ask what each of them adds.
    """
    many, joined = int(fine.rows.sum()), [use.of(fine) for use in uses]
    recuts = [use.recut(fine, into) for use, into in zip(uses, joined, strict=True)]
    cells = _Cells(rows, view, len(fine.origin))
    wide = max(into.rows.size for into in joined) * SUMS > WIDEST
    parts = [rows] if wide or many <= AT_ONCE else [rows.filter(part) for part in _ranges(cells, many)] or [rows]
    listed: list[Clusters] = []
    added: list[ClusterSquares] = []
    loose = False
    for part in parts:
        found = cells.loose(part) if loose else cells.of(part)
        if isinstance(found, Clusters) and not added:
            if wide or sum(len(one.cell) for one in (*listed, found)) <= LISTED:
                listed.append(found)
                continue
            loose = cells.local and many < FULL * len(parts) * len(found.cell)
        for one in (*listed, found):
            more = added_up(one, recuts)
            added = [before + here for before, here in zip(added, more, strict=True)] if added else more
        listed = []
    if added and all(_countless(one, into, view.reference) for one, into in zip(added, joined, strict=True)):
        return [replace(into, clusters=one) for into, one in zip(joined, added, strict=True)]
    whole = replace(fine, clusters=Clusters.joined(listed) if not added else cells.of(rows))
    return [use.of(whole) for use in uses]


def _countless(found: ClusterSquares, fine: Moments, reference: int) -> bool:
    """Whether products will do, and hold every row: ranges in an order that is not the engine's would lose some."""
    clusters = found.steps[reference].sum(0)
    whole = np.isclose(found.sums[:, 0].sum(), fine.mass.sum(), rtol=1e-12)
    return bool(whole and np.all((clusters == 0) | (clusters > FLIPPED)))


def _ranges(cells: _Cells, rows: int) -> Iterator[nw.Expr]:
    """Conditions on the cluster that every row meets one of, each with few enough cells to be collected; none where all are."""
    cluster = nw.col("cluster")
    if cells.ends is not None:
        least, most = cells.ends
        count = _passes(min(rows, (most - least + 1) * cells.within))
        shares = [Fraction(i, count) for i in range(1, count)]
        edges: list[Any] = [int(edge) for edge in quantiles(cells.rows, "cluster", shares, cells.ends)]
    elif (
        cells.rows.collect_schema()["cluster"] == nw.String and not cells.rows.implementation.is_ibis()
    ):  # orders its own way
        known = to_polars(cells.rows.select("cluster").unique())["cluster"].sort()
        count = _passes(min(rows, len(known) * cells.within))
        edges = [known[len(known) * i // count] for i in range(1, count)]
    else:
        edges = []
    edges = sorted(set(edges))
    if not edges:
        return
    yield cluster <= edges[0]
    for low, high in itertools.pairwise(edges):
        yield (cluster > low) & (cluster <= high)
    yield cluster > edges[-1]


def _passes(cells: int) -> int:
    return max(1, min(MOST_PASSES, -(-cells // AT_ONCE)))


class _Cells:
    """How rows are grouped by cluster and cell: by one whole number where clusters are such, else by both.

    Attributes
    ----------
    within : cells that a cluster can have.
    ends : the smallest and the largest cluster, where they are whole numbers small enough to be multiplied.
    local : whether rows may be collected as they are: they do not travel, and a whole number says where each belongs.
    """

    def __init__(self, rows: nw.LazyFrame[Any], view: Outcomes, bins: int) -> None:
        self.rows, self.groups, self.bins, self.weighted = rows, len(view.labels), bins, view.weighted
        self.within = self.groups * bins
        self.ends = self._ends()
        self.local = self.ends is not None and rows.implementation.is_polars()
        cell = group_code(view.labels) * bins + nw.col("bin").cast(nw.Int64)
        if self.ends is None:
            self.key = {"cluster": nw.col("cluster"), "cell": cell}
        else:
            self.key = {"key": (nw.col("cluster").cast(nw.Int64) - self.ends[0]) * self.within + cell}

    def _ends(self) -> tuple[int, int] | None:
        if not self.rows.collect_schema()["cluster"].is_integer():
            return None
        cluster = nw.col("cluster")
        least, most = to_polars(self.rows.select(cluster.min().alias("least"), cluster.max().alias("most"))).row(0)
        if least is None or least < -(2**63) or most >= 2**63 or (most - least + 1) * self.within >= 2**62:
            return None
        return int(least), int(most)

    def of(self, rows: nw.LazyFrame[Any]) -> Clusters:
        """Clusters with their sums, one by one, in order of cluster, group and bin."""
        u, v = nw.col("u"), nw.col("v")
        named = {"su": u, "sv": v, "suu": u * u, "suv": u * v}
        if self.weighted:
            weight = nw.col("weight")
            named = {"mass": weight, **{name: weight * term for name, term in named.items()}}
        summed = rows.select(**self.key, **named).group_by(*self.key)
        cells = to_polars(summed.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in named))).sort(*self.key)
        cluster, cell = self._placed(cells)
        sums = tuple(
            cells[name].to_numpy().astype(np.float64, copy=False)
            for name in (named if self.weighted else ("rows", *named))
        )
        return Clusters(cluster.rle_id().to_numpy().astype(np.int64), cell, sums, self.bins, self.groups)

    def loose(self, rows: nw.LazyFrame[Any]) -> Loose:
        """The rows as they are, with their cluster and cell."""
        more = ["weight"] if self.weighted else []
        found = to_polars(rows.select(**self.key, **{name: nw.col(name) for name in ("u", "v", *more)}))
        cluster, cell = self._placed(found)
        u, v, *weight = (found[name].to_numpy() for name in ("u", "v", *more))
        return Loose(dense(cluster)[0], cell, u, v, *weight or [None])

    def _placed(self, found: Any) -> tuple[Any, Ints]:
        """The clusters of collected rows, and their cells: bin times number of groups plus group."""
        place = np.arange(self.within).reshape(self.bins, self.groups).T.ravel()
        if self.ends is None:
            return found["cluster"], place[found["cell"].to_numpy()]
        import polars as pl

        cluster, cell = np.divmod(found["key"].to_numpy(), self.within)
        return pl.Series(cluster), place[cell]
