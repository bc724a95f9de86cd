"""Products of the sums of clusters, added up where the rows live, on a Spark cluster or in a database: none of them leaves it.

Either way a first query counts clusters by the bins that they step through; whether anybody asks for the products, that says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.cluster_squares import ClusterSquares
from evenhand.tallies.clusters import SUMS
from evenhand.tallies.moments import Ints
from evenhand.views.match import in_our_order
from evenhand.views.tables import each_once, engine_errors, to_polars
from evenhand.views.warehouses import kept

HELD = "evenhand cells"
"""The cells of a cluster, sorted by group, then by bin, each with its sums."""

EVERY = tuple(np.ndindex(SUMS, SUMS))
"""Which sum is multiplied with which."""

ORDER = "evenhand order"


class Members(Protocol):
    """Clusters that live elsewhere."""

    def counted(self) -> ClusterSquares:
        """Clusters counted by their steps from bin to bin, without a product yet."""
        ...

    def multiplied(self, counted: ClusterSquares) -> ClusterSquares:
        """The same with the products of every two cells that a cluster has."""
        ...


@contextlib.contextmanager
def members(summed: nw.LazyFrame[Any], names: list[str], sums: Floats, shape: tuple[int, int]) -> Iterator[Members]:
    """Clusters from a row per `cluster` and `cell` (group times number of bins plus bin) with five sums of these `names`.

    `sums` : (K, 5) sums of all of them, by bin times number of groups plus group. `shape` : how many bins and groups there are.
    """
    if not summed.implementation.is_pyspark():
        with kept(_numbers(summed, names).to_native()) as rows, engine_errors():
            yield _Joined(nw.from_native(rows), sums, shape)
        return
    packed = _packed(summed.to_native(), names).persist()
    try:
        yield _Packed(packed, sums, shape)
    finally:
        packed.unpersist()


class _Packed:
    """Clusters on Spark, a row for each with all its cells.

    `packed` are the rows.
    """

    def __init__(self, packed: Any, sums: Floats, shape: tuple[int, int]) -> None:
        self.packed, self.sums, self.shape = packed, sums, shape

    def counted(self) -> ClusterSquares:
        from pyspark.sql import functions as fn

        bins, groups = self.shape

        def steps(cells: Any) -> Any:
            def step(cell: Any, i: Any) -> Any:
                before, group = fn.get(cells, i - 1), fn.floor(cell / bins)
                met = (i > 0) & (fn.floor(before / bins) == group)
                return (group * (bins + 1) + fn.when(met, before % bins + 1).otherwise(0)) * bins + cell % bins

            return fn.transform(cells, step)

        own = fn.col(HELD).getField("cell")
        any_of = fn.array_sort(fn.array_distinct(fn.transform(own, lambda cell: groups * bins + cell % bins)))
        taken = self.packed.select(fn.explode(fn.concat(steps(own), steps(any_of))).alias("step"))
        found = to_polars(nw.from_native(taken.groupBy("step").agg(fn.count("*").alias("clusters"))))
        return _of_steps(found, self.sums, self.shape)

    def multiplied(self, counted: ClusterSquares) -> ClusterSquares:
        from pyspark.sql import functions as fn

        rest = fn.slice(HELD, fn.col("i") + 1, fn.size(HELD) - fn.col("i"))
        pairs = self.packed.select(HELD, fn.posexplode(HELD).alias("i", "a")).select("a", fn.explode(rest).alias("b"))
        terms = [fn.sum(fn.col(f"a.m{i}") * fn.col(f"b.m{j}")).alias(f"product_{i}{j}") for i, j in EVERY]
        added = pairs.groupBy(fn.col("a.cell").alias("one"), fn.col("b.cell").alias("other")).agg(*terms)
        return _of_products(to_polars(nw.from_native(added)), counted, self.shape)


def _packed(summed: Any, names: list[str]) -> Any:
    from pyspark.sql import functions as fn

    columns = [fn.col(name).cast("double").alias(f"m{i}") for i, name in enumerate(names)]
    cells = fn.sort_array(fn.collect_list(fn.struct(fn.col("cell").cast("int").alias("cell"), *columns)))
    return summed.groupBy("cluster").agg(cells.alias(HELD)).select(HELD)


class _Joined:
    """Clusters in a database, a row for each of their cells, and every two of a cluster side by side where they are multiplied."""

    def __init__(self, rows: nw.LazyFrame[Any], sums: Floats, shape: tuple[int, int]) -> None:
        self.rows, self.sums, self.shape = rows, sums, shape

    def counted(self) -> ClusterSquares:
        bins, groups = self.shape
        cell = nw.col("cell")
        own = self.rows.select("cluster", (cell // bins).alias("kind"), (cell % bins).alias("bin"))
        any_of = each_once(own.select("cluster", nw.lit(groups).cast(nw.Int64).alias("kind"), "bin"))
        held = nw.concat([own, any_of])
        before = nw.col("bin").shift(1).over("cluster", "kind", order_by="bin") + 1
        step = (nw.col("kind") * (bins + 1) + nw.coalesce(before, nw.lit(0))) * bins + nw.col("bin")
        found = to_polars(held.select(step.alias("step")).group_by("step").agg(nw.len().alias("clusters")))
        return _of_steps(found, self.sums, self.shape)

    def multiplied(self, counted: ClusterSquares) -> ClusterSquares:
        others = self.rows.rename({name: f"other_{name}" for name in self.rows.collect_schema().names()})
        pairs = self.rows.join(others, left_on="cluster", right_on="other_cluster", how="inner")
        pairs = pairs.filter(nw.col("cell") <= nw.col("other_cell"))
        terms = {f"product_{i}{j}": nw.col(f"m{i}") * nw.col(f"other_m{j}") for i, j in EVERY}
        pairs = pairs.select(one="cell", other="other_cell", **terms)
        added = pairs.group_by("one", "other").agg(*(nw.col(name).sum() for name in terms))
        return _of_products(to_polars(added), counted, self.shape)


def _numbers(summed: nw.LazyFrame[Any], names: list[str]) -> nw.LazyFrame[Any]:
    """The same rows with sums that are no whole numbers, and clusters that PostgreSQL compares byte by byte."""
    sums = {f"m{i}": nw.col(name).cast(nw.Float64) for i, name in enumerate(names)}
    ordered = in_our_order(summed, "cluster", ORDER)
    return ordered.select(nw.col("cell").cast(nw.Int64), cluster=nw.col(ORDER), **sums)


def _of_steps(found: Any, sums: Floats, shape: tuple[int, int]) -> ClusterSquares:
    """Clusters counted by numbers for (group, or any; bin before in that group counted from 1, or 0; bin)."""
    bins, groups = shape
    count: Ints = np.zeros((groups + 1) * (bins + 1) * bins, dtype=np.int64)
    count[found["step"].to_numpy().astype(np.int64)] = found["clusters"].to_numpy()
    many = count.reshape(groups + 1, bins + 1, bins)
    cells = bins * groups
    return ClusterSquares(np.zeros((cells, SUMS, cells, SUMS)), sums, many, int(many[-1, 0].sum()))


def _of_products(found: Any, counted: ClusterSquares, shape: tuple[int, int]) -> ClusterSquares:
    """The same with the sums of products of every two cells, each pair of them once."""
    bins, groups = shape
    one, other = (found[name].to_numpy() % bins * groups + found[name].to_numpy() // bins for name in ("one", "other"))
    cross = np.zeros_like(counted.cross)
    for i, j in EVERY:
        values = found[f"product_{i}{j}"].to_numpy()
        cross[one, i, other, j] = values
        cross[other, j, one, i] = values
    return replace(counted, cross=cross)
