"""Products of the sums of clusters, added up on a Spark cluster: however many clusters there are, none of them leaves it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.cluster_squares import ClusterSquares
from evenhand.tallies.clusters import SUMS
from evenhand.tallies.moments import Ints
from evenhand.views.tables import to_polars

HELD = "evenhand cells"
"""The cells of a cluster, sorted by group, then by bin, each with its sums."""


class Members:
    """Clusters on Spark, a row for each with all its cells.

    Attributes
    ----------
    packed : the rows. sums : (K, 5) sums of all of them, by bin times number of groups plus group.
    shape : how many bins and groups there are.
    """

    def __init__(self, packed: Any, sums: Floats, shape: tuple[int, int]) -> None:
        self.packed, self.sums, self.shape = packed, sums, shape

    @classmethod
    @contextlib.contextmanager
    def of(cls, summed: nw.LazyFrame[Any], names: list[str], sums: Floats, shape: tuple[int, int]) -> Iterator[Members]:
        """From a row per `cluster` and `cell` (group times number of bins plus bin) with five sums of these `names`."""
        from pyspark.sql import functions as fn

        columns = [fn.col(name).cast("double").alias(f"m{i}") for i, name in enumerate(names)]
        cells = fn.sort_array(fn.collect_list(fn.struct(fn.col("cell").cast("int").alias("cell"), *columns)))
        packed = summed.to_native().groupBy("cluster").agg(cells.alias(HELD)).select(HELD).persist()
        try:
            yield cls(packed, sums, shape)
        finally:
            packed.unpersist()

    def counted(self) -> ClusterSquares:
        """Clusters counted by their steps from bin to bin, without a product yet."""
        from pyspark.sql import functions as fn

        bins, groups = self.shape

        def steps(cells: Any) -> Any:
            """Numbers for (group, bin before in that group counted from 1, or 0, bin)."""

            def step(cell: Any, i: Any) -> Any:
                before, group = fn.get(cells, i - 1), fn.floor(cell / bins)
                met = (i > 0) & (fn.floor(before / bins) == group)
                return (group * (bins + 1) + fn.when(met, before % bins + 1).otherwise(0)) * bins + cell % bins

            return fn.transform(cells, step)

        own = fn.col(HELD).getField("cell")
        any_of = fn.array_sort(fn.array_distinct(fn.transform(own, lambda cell: groups * bins + cell % bins)))
        taken = self.packed.select(fn.explode(fn.concat(steps(own), steps(any_of))).alias("step"))
        found = to_polars(nw.from_native(taken.groupBy("step").agg(fn.count("*").alias("clusters"))))
        count: Ints = np.zeros((groups + 1) * (bins + 1) * bins, dtype=np.int64)
        count[found["step"].to_numpy().astype(np.int64)] = found["clusters"].to_numpy()
        many = count.reshape(groups + 1, bins + 1, bins)
        cells = bins * groups
        return ClusterSquares(np.zeros((cells, SUMS, cells, SUMS)), self.sums, many, int(many[-1, 0].sum()))

    def multiplied(self, counted: ClusterSquares) -> ClusterSquares:
        """The same with the products of every two cells that a cluster has."""
        from pyspark.sql import functions as fn

        rest = fn.slice(HELD, fn.col("i") + 1, fn.size(HELD) - fn.col("i"))
        pairs = self.packed.select(HELD, fn.posexplode(HELD).alias("i", "a")).select("a", fn.explode(rest).alias("b"))
        terms = [
            fn.sum(fn.col(f"a.m{i}") * fn.col(f"b.m{j}")).alias(f"product_{i}{j}") for i, j in np.ndindex(SUMS, SUMS)
        ]
        added = pairs.groupBy(fn.col("a.cell").alias("one"), fn.col("b.cell").alias("other")).agg(*terms)
        found = to_polars(nw.from_native(added))
        bins, groups = self.shape
        one, other = (
            found[name].to_numpy() % bins * groups + found[name].to_numpy() // bins for name in ("one", "other")
        )
        cross = np.zeros_like(counted.cross)
        for i, j in np.ndindex(SUMS, SUMS):
            values = found[f"product_{i}{j}"].to_numpy()
            cross[one, i, other, j] = values
            cross[other, j, one, i] = values
        return replace(counted, cross=cross)
