"""Sums per cluster and cell of the outcome test, a range of clusters at a time.

Few of them are handed on one by one. Many would not fit: each range is added up into products and forgotten.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.buckets import dense
from evenhand.engine.cluster_products import members
from evenhand.engine.quantiles import quantiles
from evenhand.tallies.cluster_squares import ClusterSquares, Loose, Recut, added_up, is_thin
from evenhand.tallies.clusters import FLIPPED, LINEAR, SUMS, Clusters
from evenhand.tallies.moments import Ints, Moments
from evenhand.views.outcomes import Outcomes
from evenhand.views.tables import each_once, to_polars

AT_ONCE = 3 << 20
"""Cells of clusters, or rows, that are collected at a time."""

FULL = 2
"""Rows of a cell, on average, from which on they are added up before they are collected."""

LISTED = 1 << 19
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


def multiplied_apart(rows: nw.LazyFrame[Any]) -> bool:
    """Whether products are added up where the rows live, before bins are joined."""
    return bool(rows.implementation.is_pyspark() or rows.implementation.is_ibis())


def tally_clusters(rows: nw.LazyFrame[Any], view: Outcomes, fine: Moments, uses: Sequence[Use]) -> list[Moments]:
    """The sums of every use of `fine` bins, with those per cluster of `rows`, which have u and v as the fine bins have.

    Products are handed on only where, in every use, each bin that holds the reference has so many clusters of it that
    nobody will ask what each of them adds.
    """
    many, joined = int(fine.rows.sum()), [use.of(fine) for use in uses]
    recuts = [use.recut(fine, into) for use, into in zip(uses, joined, strict=True)]
    cells = _Cells(rows, view, len(fine.origin))
    wide = max(into.rows.size for into in joined) * SUMS > WIDEST
    if multiplied_apart(rows) and not wide:
        return _where_they_live(cells, view, fine, uses)
    parts = [(rows, many)] if wide or many <= AT_ONCE else _ranges(cells, many)
    listed: list[Clusters] = []
    added: list[ClusterSquares] = []
    loose = thin = False
    for part, size in parts:
        found = cells.loose(part) if loose and size <= 2 * AT_ONCE else cells.of(part)
        if isinstance(found, Clusters) and not added:
            if wide or sum(len(one.cell) for one in (*listed, found)) <= LISTED:
                listed.append(found)
                continue
            loose = size < FULL * len(found.cell) and rows.implementation.is_polars()  # elsewhere rows would travel
            thin = is_thin(found, [into.rows.size for into in joined])  # then once, over fine bins, is enough
            recuts = [Recut.nothing(*fine.rows.shape)] if thin else recuts
        for one in (*listed, found):
            more = added_up(one, recuts)
            added = [before + here for before, here in zip(added, more, strict=True)] if added else more
        listed = []
        del found, one  # before the next are collected
    if added:
        clustered = [replace(into, clusters=one) for into, one in zip([fine] if thin else joined, added, strict=True)]
        clustered = [use.of(clustered[0]) for use in uses] if thin else clustered
        if all(_countless(one, view.reference) for one in clustered):
            return clustered
    whole = replace(fine, clusters=Clusters.joined(listed) if not added else cells.of(rows))
    return [use.of(whole) for use in uses]


def _where_they_live(cells: _Cells, view: Outcomes, fine: Moments, uses: Sequence[Use]) -> list[Moments]:
    """The same from a Spark cluster or a database, which adds up products itself; clusters are listed only where somebody looks
    at each.
    """
    sums = np.stack([fine.sums[..., i, j].ravel() for i, j in LINEAR], axis=1)
    summed, names = cells.summed(cells.rows, coded=False)
    with members(summed, names, sums, (cells.bins, cells.groups)) as there:
        counted = there.counted()
        found = [use.of(replace(fine, clusters=counted)) for use in uses]
        if all(_countless(one, view.reference) for one in found):
            whole: Clusters | ClusterSquares = there.multiplied(counted)
        else:
            whole = cells.of(cells.rows)
    return [use.of(replace(fine, clusters=whole)) for use in uses]


def _countless(found: Moments, reference: int) -> bool:
    """Whether products will do, and hold every row: ranges in an order that is not the engine's would lose some."""
    if not isinstance(found.clusters, ClusterSquares):
        return False
    clusters = found.clusters.steps[reference].sum(0)
    whole = np.isclose(found.clusters.sums[:, 0].sum(), found.mass.sum(), rtol=1e-12)
    return bool(whole and np.all((clusters == 0) | (clusters > FLIPPED)))


def _ranges(cells: _Cells, rows: int) -> list[tuple[nw.LazyFrame[Any], float]]:
    """Parts of the table, each with whole clusters and few enough cells to be collected, and about how many rows each has."""
    if cells.rows.implementation.is_polars() and not cells.coded:
        return _dealt(cells.rows, _passes(rows))
    cluster, edges = nw.col("cluster"), list[Any]()
    if cells.ends is not None:
        cluster = cluster if cells.coded else cluster.cast(nw.Float64)
        count = _passes(min(rows, cells.most))
        found = quantiles(cells.rows, "cluster", [Fraction(i, count) for i in range(1, count)], cells.ends)
        edges = [int(edge) if cells.coded else float(edge) for edge in found]
    elif cells.rows.collect_schema()["cluster"] == nw.String and not cells.rows.implementation.is_ibis():
        # Not of Ibis, whose databases order text their own way.
        known = to_polars(each_once(cells.rows.select("cluster")))["cluster"].sort()
        count = _passes(min(rows, len(known) * cells.within))
        edges = [known[len(known) * i // count] for i in range(1, count)]
    if not edges:
        return [(cells.rows, rows)]
    sizes = [rows / count * len(list(same)) for _, same in itertools.groupby(edges)]  # a large cluster takes up several
    edges = sorted(set(edges))
    between = [(cluster > low) & (cluster <= high) for low, high in itertools.pairwise(edges)]
    parts = [cluster <= edges[0], *between, cluster > edges[-1]]
    return [(cells.rows.filter(part), size) for part, size in zip(parts, [*sizes, rows / count], strict=True)]


def _dealt(rows: nw.LazyFrame[Any], count: int) -> list[tuple[nw.LazyFrame[Any], float]]:
    """Clusters of any type dealt out by their hash, which Polars alone tells."""
    import polars as pl

    dealt: nw.LazyFrame[Any] = nw.from_native(rows.to_native().with_columns(dealt=pl.col("cluster").hash() % count))
    sizes = to_polars(dealt.group_by("dealt").agg(nw.len().alias("rows")))
    return [(dealt.filter(nw.col("dealt") == i), n) for i, n in sizes.sort("dealt").iter_rows()]


def _passes(cells: float) -> int:
    return max(1, min(MOST_PASSES, math.ceil(cells / AT_ONCE)))


def _ends(rows: nw.LazyFrame[Any]) -> tuple[Any, Any] | None:
    cluster = nw.col("cluster")
    least, most = to_polars(rows.select(cluster.min().alias("least"), cluster.max().alias("most"))).row(0)
    return None if least is None or not math.isfinite(least) or not math.isfinite(most) else (least, most)


class _Cells:
    """How rows are grouped by cluster and cell: by one whole number where clusters are such, else by both.

    Attributes
    ----------
    within : cells that a cluster can have.
    ends : the smallest and the largest cluster, where they are numbers.
    most : cells of all clusters, if there are clusters of all whole numbers between the ends.
    coded : whether clusters are whole numbers small enough to be multiplied.
    text : whether they are texts that Polars may number.
    """

    def __init__(self, rows: nw.LazyFrame[Any], view: Outcomes, bins: int) -> None:
        self.rows, self.groups, self.bins, self.weighted = rows, len(view.labels), bins, view.weighted
        self.within = self.groups * bins
        dtype = rows.collect_schema()["cluster"]
        self.ends = ends = _ends(rows) if dtype.is_numeric() and not dtype.is_decimal() else None
        self.most = math.inf if ends is None or not dtype.is_integer() else (ends[1] - ends[0] + 1) * self.within
        self.coded = self.most < 2**62 and ends is not None and ends[0] >= -(2**63) and ends[1] < 2**63
        self.cell = cell = group_code(view.labels) * bins + nw.col("bin").cast(nw.Int64)
        self.key = {"cluster": nw.col("cluster"), "cell": cell}
        if ends is not None and self.coded:
            self.key = {"key": (nw.col("cluster").cast(nw.Int64) - ends[0]) * self.within + cell}
        self.text = dtype == nw.String and rows.implementation.is_polars()

    def summed(self, rows: nw.LazyFrame[Any], *, coded: bool = True) -> tuple[nw.LazyFrame[Any], list[str]]:
        """A row per cluster and cell, and what its five sums are called; `coded` where one number may stand for both."""
        key = self.key if coded else {"cluster": nw.col("cluster"), "cell": self.cell}
        u, v = nw.col("u"), nw.col("v")
        named = {"su": u, "sv": v, "suu": u * u, "suv": u * v}
        if self.weighted:
            weight = nw.col("weight")
            named = {"mass": weight, **{name: weight * term for name, term in named.items()}}
        summed = rows.select(**key, **named).group_by(*key)
        found = summed.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in named))
        return found, [*named] if self.weighted else ["rows", *named]

    def of(self, rows: nw.LazyFrame[Any]) -> Clusters:
        """Clusters with their sums, one by one, in order of cluster, group and bin."""
        summed, names = self.summed(_as_categories(rows) if self.text else rows)
        cells = to_polars(summed)
        if self.text:
            cells = cells.with_columns(self._key(_places(cells["cluster"]), cells["cell"]))
        cells = cells.sort("key" if self.text else [*self.key])
        cluster, cell = self._placed(cells)
        sums = tuple(cells[name].to_numpy().astype(np.float64, copy=False) for name in names)
        return Clusters(
            cluster.rle_id().to_numpy().astype(np.int64), cell.astype(np.int64), sums, self.bins, self.groups
        )

    def loose(self, rows: nw.LazyFrame[Any]) -> Loose:
        """The rows as they are, with their cluster and cell, in order of cluster, group and bin."""
        more = ["weight"] if self.weighted else []
        rows = _as_categories(rows) if self.text else rows
        found = to_polars(rows.select(**self.key, **{name: nw.col(name) for name in ("u", "v", *more)}))
        if not self.coded:  # one number is sorted the faster
            cluster = found["cluster"].to_physical().to_numpy() if self.text else dense(found["cluster"])[0]
            found = found.select("u", "v", *more, self._key(cluster, found["cell"]))
        found = found.sort("key")
        cluster, cell = self._placed(found)
        u, v, *weight = (found[name].to_numpy() for name in ("u", "v", *more))
        return Loose(cluster.rle_id().to_numpy().astype(np.int64), cell, u, v, *weight or [None])

    def _key(self, cluster: Any, cell: Any) -> Any:
        """Numbers of clusters and cells as one number."""
        return _series("key", cluster.astype(np.int64) * self.within + cell.to_numpy())

    def _placed(self, found: Any) -> tuple[Any, Any]:
        """The clusters of collected rows, and their cells: bin times number of groups plus group."""
        place = np.arange(self.within, dtype=np.int32).reshape(self.bins, self.groups).T.ravel()
        if "key" not in found.columns:
            return found["cluster"], place[found["cell"].to_numpy()]
        key = found["key"].to_numpy()
        cluster = key // self.within
        return _series("cluster", cluster), place[key - cluster * self.within]


def _as_categories(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The same rows with texts that Polars numbers while it reads them: numbers are grouped by, and kept, at far less cost."""
    import polars as pl

    own = pl.Categorical(pl.Categories.random())  # forgotten with these rows
    found: nw.LazyFrame[Any] = nw.from_native(rows.to_native().with_columns(pl.col("cluster").cast(own)))
    return found


def _places(names: Any) -> Ints:
    """Where each category stands among all that are here, in the order of their texts."""
    import polars as pl

    once = names.unique()
    numbers = once.to_physical().to_numpy()
    places = np.zeros(int(numbers.max()) + 1 if len(numbers) else 0, dtype=np.int64)
    places[numbers[once.cast(pl.String).arg_sort().to_numpy()]] = np.arange(len(numbers))
    return np.asarray(places[names.to_physical().to_numpy()])


def _series(name: str, values: Any) -> Any:
    import polars as pl

    return pl.Series(name, values)
