"""Sums per cluster and cell of the outcome test, a range of clusters at a time.

Few of them are handed on one by one. Many would not fit: each range is added up into products and forgotten.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.quantiles import quantiles
from evenhand.tallies.clusters import FLIPPED, SUMS, Clusters, ClusterSquares
from evenhand.tallies.moments import Ints, Moments
from evenhand.views.outcomes import Outcomes
from evenhand.views.tables import to_polars

AT_ONCE = 1 << 22
"""Cells of clusters that are collected at a time."""

LISTED = 1 << 21
"""Up to so many cells, clusters are handed on one by one."""

WIDEST = 2_000
"""Sums of a cluster over all cells beyond which their products would be more work than a list."""

MOST_PASSES = 32
"""Ranges of clusters at most: each is a pass over the rows."""


T = TypeVar("T", Moments, ClusterSquares)


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

    def of(self, fine: T) -> T:
        return fine.part(self.first, self.last).merged(self.into)


def group_code(labels: Sequence[Any]) -> nw.Expr:
    """Position of a row's group among the labels."""
    found: nw.Expr = nw.lit(len(labels) - 1)
    for i, label in reversed(list(enumerate(labels[:-1]))):
        same = nw.col("group").is_null() if label is None else nw.col("group") == label
        found = nw.when(same).then(nw.lit(i)).otherwise(found)
    return found.cast(nw.Int64)


def tally_clusters(
    rows: nw.LazyFrame[Any], view: Outcomes, held: Floats, mass: float, uses: Sequence[Use]
) -> Clusters | ClusterSquares:
    """Sums per cluster and cell of rows that have u and v; `held` are the rows of each bin and group, `mass` all their weight.

    Products are handed on only where, in every use, each bin that holds the reference has so many clusters of it that
    nobody will ask what each of them adds.
    """
    cells = _Cells(rows, view, len(held))
    parts = list(_ranges(cells, int(held.sum())))
    if len(parts) == 1:
        return _settled(cells.of(rows), view.reference, uses)
    listed: list[Clusters] = []
    added: ClusterSquares | None = None
    for part in parts:
        found = cells.of(rows.filter(part))
        if added is None and sum(len(one.cell) for one in listed) + len(found.cell) <= LISTED:
            listed.append(found)
            continue
        for one in (*listed, found):
            squares = ClusterSquares.of(one)
            added = squares if added is None else added + squares
        listed = []
    if added is None:
        return Clusters.joined(listed)
    whole = np.isclose(
        added.sums[:, 0].sum(), mass, rtol=1e-12
    )  # ranges in an order that is not the engine's would lose rows
    return added if whole and _countless(added, view.reference, uses) else cells.of(rows)


def _settled(found: Clusters, reference: int, uses: Sequence[Use]) -> Clusters | ClusterSquares:
    if len(found.cell) <= LISTED or found.groups * found.bins * SUMS > WIDEST:
        return found
    added = ClusterSquares.of(found)
    return added if _countless(added, reference, uses) else found


def _countless(found: ClusterSquares, reference: int, uses: Sequence[Use]) -> bool:
    used = (use.of(found).steps[reference].sum(0) for use in uses)
    return all(bool(np.all((clusters == 0) | (clusters > FLIPPED))) for clusters in used)


def _ranges(cells: _Cells, rows: int) -> Iterator[nw.Expr]:
    """Conditions on the cluster that every row meets one of, each with few enough cells to be collected."""
    whole = nw.lit(True)
    wide = cells.within * SUMS > WIDEST
    cluster = nw.col("cluster")
    if wide or rows <= AT_ONCE:
        yield whole
        return
    if cells.ends is not None:
        least, most = cells.ends
        count = _passes(min(rows, (most - least + 1) * cells.within))
        cluster = cluster.cast(nw.Float64)
        edges: list[Any] = quantiles(
            cells.rows, "cluster", [Fraction(i, count) for i in range(1, count)], cells.ends
        ).tolist()
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
        yield whole
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
    """

    def __init__(self, rows: nw.LazyFrame[Any], view: Outcomes, bins: int) -> None:
        self.rows, self.groups, self.bins, self.weighted = rows, len(view.labels), bins, view.weighted
        self.within = self.groups * bins
        self.ends = self._ends()
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
        cell, cluster = (
            (cells["cell"], cells["cluster"])
            if self.ends is None
            else (cells["key"] % self.within, cells["key"] // self.within)
        )
        place = cell.to_numpy().astype(np.int64)
        place = place % self.bins * self.groups + place // self.bins
        sums = tuple(
            cells[name].to_numpy().astype(np.float64) for name in (named if self.weighted else ("rows", *named))
        )
        return Clusters(cluster.rle_id().to_numpy().astype(np.int64), place, sums, self.bins, self.groups)
