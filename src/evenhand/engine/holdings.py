"""What units hold, bucket by bucket, from a cluster or a database: without their ids, and once for all that hold the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from evenhand.views.tables import to_polars

ROWS = "evenhand rows"

NARROW = 1 << 15
"""Amounts below this travel in two bytes."""


def holdings(lazy: nw.LazyFrame[Any], keys: Sequence[str], weights: Sequence[str]) -> Any:
    """Rows of `unit`, `bucket` and `amount` in Polars, units as numbers; `units` says for how many each of them stands.

    Units with the same whole amounts in the same buckets are counted where they are, unless they have `weights`.
    """
    import polars as pl

    keys, weights = list(keys), list(weights)
    counted = not weights and lazy.collect_schema()["amount"].is_integer()
    if lazy.implementation.is_pyspark():
        held = to_polars(nw.from_native(_on_spark(lazy.to_native(), keys, weights, counted=counted)))
        if counted:
            held = held.with_columns(pl.col("amount").cast(pl.List(pl.Int64)).fill_null(pl.col("wide"))).drop("wide")
    elif counted:
        text = pl.col("bucket", "amount").str.split(",").cast(pl.List(pl.Int64))
        held = to_polars(nw.from_native(_in_a_query(lazy.to_native(), keys))).with_columns(text)
    else:
        return to_polars(lazy).with_columns(units=1)
    return held.with_row_index("unit").explode("bucket", "amount")


def _on_spark(native: Any, keys: list[str], weights: list[str], *, counted: bool) -> Any:
    """A row per unit, or per way to hold something, with lists of buckets and amounts."""
    from pyspark.sql import functions as fn

    merged = {"weight": fn.max("weight"), "least_weight": fn.min("least_weight")}
    listed = fn.sort_array(fn.collect_list(fn.struct("bucket", "amount"))).alias(ROWS)
    held = native.groupBy(*keys, "unit").agg(listed, *(merged[name].alias(name) for name in weights))
    bucket, amount = (fn.col(ROWS).getField(name) for name in ("bucket", "amount"))
    if not counted:
        return held.select(*keys, *weights, fn.lit(1).alias("units"), bucket.alias("bucket"), amount.alias("amount"))
    few = fn.array_max(amount) < NARROW
    narrow, wide = fn.when(few, amount.cast("array<smallint>")), fn.when(~few, amount)
    held = held.select(*keys, bucket.alias("bucket"), narrow.alias("amount"), wide.alias("wide"))
    return held.groupBy(*held.columns).agg(fn.count("*").cast("int").alias("units"))


def _in_a_query(table: Any, keys: list[str]) -> Any:
    """A row per way to hold something, lists as text."""
    lists = {
        name: table[name].cast("string").group_concat(",", order_by=table["bucket"]) for name in ("bucket", "amount")
    }
    held = table.group_by(*keys, "unit").agg(**lists)
    return held.group_by(*keys, "bucket", "amount").agg(units=held.count())
