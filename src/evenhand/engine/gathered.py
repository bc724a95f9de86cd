"""Whole rankings out of Spark in few bytes: one row for each, its items in order, labels as codes of one byte.

A cluster holds the rows of a ranking apart from one another, so that they cannot be read as a stream of whole rankings;
and what reaches the driver is what it has to hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.views.batches import BLOCK
from evenhand.views.labels import Alignment
from evenhand.views.tables import to_polars


def is_apart(lazy: nw.LazyFrame[Any]) -> bool:
    """Whether rows live on a cluster, so that they are gathered there before they are sent."""
    return bool(lazy.implementation.is_pyspark())


def labelled(lazy: nw.LazyFrame[Any], found: Alignment) -> nw.LazyFrame[Any]:
    """Rows with the label of their item beside them, joined where the rows are."""
    aligned, lazy = found.beside(lazy)
    return lazy.join(aligned.lazy.select(*aligned.keys, "group"), on=aligned.keys, how="left")


def gathered(lazy: nw.LazyFrame[Any], keys: Sequence[str], values: Sequence[str]) -> Iterator[Any]:
    """Rows of whole rankings as Polars frames, with `keys` and `values`, in the order of their `rank` where they have one.

    A rank that is the place of the row is not sent, nor is a label: `group` travels as a code.
    """
    import polars as pl
    from pyspark.sql import functions as fn

    native, labels = _coded(lazy, values)
    row = fn.struct(*(fn.col(name) for name in values))
    rows = fn.sort_array(fn.collect_list(row)) if values[0] == "rank" else fn.collect_list(row)
    packed = native.groupBy(*keys).agg(rows.alias("evenhand rows"))
    inside = {name: fn.col("evenhand rows").getField(name) for name in values}
    if values[0] == "rank":
        ranks = inside["rank"].cast("array<int>")
        inside["rank"] = fn.when(fn.element_at(ranks, -1) != fn.size(ranks), ranks)  # without gaps, ranks say nothing
    size = fn.size("evenhand rows").alias("evenhand size")
    held = to_polars(nw.from_native(packed.select(*keys, size, *(e.alias(name) for name, e in inside.items()))))
    held = held.sort(*keys, nulls_last=True)
    for part in _parts(held):
        whole = part
        if values[0] == "rank":
            whole = whole.with_columns(pl.col("rank").fill_null(pl.int_ranges(1, pl.col("evenhand size") + 1)))
        flat = whole.drop("evenhand size").explode(*values)
        if "group" in values:
            group = flat["group"].replace_strict(range(len(labels)), labels, return_dtype=labels.dtype, default=None)
            flat = flat.with_columns(group.alias("group"))
        yield flat.cast({"rank": pl.Int64}) if "rank" in values else flat


def _coded(lazy: nw.LazyFrame[Any], values: Sequence[str]) -> tuple[Any, Any]:
    """The rows with codes for labels, and the labels."""
    native = lazy.to_native()
    if "group" not in values:
        return native, None
    from pyspark.sql import functions as fn

    labels = to_polars(lazy.select("group").unique())["group"].drop_nulls()
    kind = native.schema["group"].dataType
    known = fn.array(*(fn.lit(label).cast(kind) for label in labels.to_list())).cast(f"array<{kind.simpleString()}>")
    code = fn.array_position(known, fn.col("group")) - 1
    return native.withColumn("group", code.cast("tinyint" if len(labels) < 120 else "int")), labels


def _parts(held: Any) -> Iterator[Any]:
    """Some rankings after the other, of a bounded number of rows in all."""
    ends = np.cumsum(held["evenhand size"].to_numpy().astype(np.int64))
    start = 0
    while start < held.height or not start:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + BLOCK, side="right")))
        yield held[start:stop]
        start = stop
