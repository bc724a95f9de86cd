"""Rows that are needed one by one, from wherever they live.

A cluster or a database sends them as lists, a byte or two for what a row holds (see `gathered`), and not the names of columns
and groups row by row; who reads no more of a score than its order gets that, and the scores stay behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from evenhand.engine.gathered import by_cluster, gathered, is_apart, itemised
from evenhand.views.tables import to_polars

RUN = "evenhand run"
"""Rows that travel in one list, where nothing else says which: any number that follows the score will do."""


def brought(lazy: nw.LazyFrame[Any], run: nw.Expr, columns: Sequence[str], rows: int) -> Any:
    """These columns of all rows as a Polars frame, in no order; a cluster is the number that it has among them.

    There are at most so many `rows`.
    """
    found = None
    if lazy.implementation.is_ibis():
        found = _from_a_database(lazy, run, columns, rows)
    elif is_apart(lazy):
        keys = [name for name in columns if name == "cluster"] or [RUN]
        rest = [name for name in columns if name not in keys]
        found = gathered(lazy.with_columns(run.alias(RUN)), keys, rest, plain=_plain(rest))
    return to_polars((lazy if found is None else found).select(*columns))


def brought_in_order(lazy: nw.LazyFrame[Any], run: nw.Expr, columns: Sequence[str], rows: int) -> Any:
    """The same with `score`, which from afar is a number that ties and orders rows as the score does; and so may be the outcome."""
    import polars as pl

    found = None
    if lazy.implementation.is_ibis():
        found = _from_a_database(lazy, run, columns, rows, "score")
    elif is_apart(lazy) and "cluster" in columns:  # lists of clusters are in no order of all, so that places travel
        return to_polars(_by_cluster(lazy, run, columns))
    elif is_apart(lazy):
        found = gathered(lazy.with_columns(run.alias(RUN)), [RUN], columns, "score", plain=_plain(columns))
    if found is None:
        return brought(lazy, run, ["score", *columns], rows)
    held = to_polars(found)
    return held.with_columns(pl.col("score") + pl.col(RUN).cast(pl.Float64) * held.height).drop(RUN)


def _plain(columns: Sequence[str]) -> list[str]:
    """Which of these columns have the most values, those with more of them first."""
    return [name for name in ("score", "weight") if name in columns]


def _by_cluster(lazy: nw.LazyFrame[Any], run: nw.Expr, columns: Sequence[str]) -> nw.LazyFrame[Any]:
    """Rows from a Spark cluster with the place of their score among those of its run, and a number of the cluster."""
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    rows = lazy.with_columns(run.alias(RUN)).to_native()
    place = fn.dense_rank().over(Window.partitionBy(RUN).orderBy("score"))
    rows = rows.withColumn("score", place)
    values = [name for name in columns if name != "cluster"]
    found = by_cluster(nw.from_native(rows), "cluster", [RUN, *values, "score"], _plain(["score", *values]))
    score = nw.col("score").cast(nw.Float64) + nw.col(RUN).cast(nw.Float64) * 2.0**32
    return found.with_columns(score.alias("score")).select("score", *columns)


def _from_a_database(
    lazy: nw.LazyFrame[Any], run: nw.Expr, columns: Sequence[str], rows: int, order: str | None = None
) -> nw.LazyFrame[Any] | None:
    """Rows in lists, each as the number of what it holds, of as many columns as have few values together."""
    if not is_apart(lazy):
        return None
    lazy, schema = lazy.with_columns(run.alias(RUN)), lazy.collect_schema()
    ranked = [name for name in columns if name == "cluster"]
    rest = [name for name in columns if name not in ranked]
    for many in ([], [name for name in rest if schema[name].is_float()], [name for name in rest if name != "group"]):
        apart = [name for name in many if name == "outcome" and order is not None]
        plain = [name for name in many if name not in apart]
        values = [name for name in rest if name not in many]
        found = itemised(lazy, [RUN], values, order, [*ranked, *apart], plain, rows)
        if found is not None:
            return found
    return None
