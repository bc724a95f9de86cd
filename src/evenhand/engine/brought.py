"""Rows that are needed one by one, from wherever they live.

A cluster or a database sends them as lists, a byte or two for what a row holds (see `gathered`), and not the names of columns
and groups row by row; who reads no more of a score than its order gets that, and the scores stay behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from evenhand.engine.gathered import gathered, is_apart
from evenhand.views.tables import to_polars

RUN = "evenhand run"
"""Rows that travel in one list, where nothing else says which: any number that follows the score will do."""


def brought(lazy: nw.LazyFrame[Any], run: nw.Expr, columns: Sequence[str]) -> Any:
    """These columns of all rows as a Polars frame, in no order."""
    found = None
    if is_apart(lazy):
        keys = [name for name in columns if name == "cluster"] or [RUN]
        rest = [name for name in columns if name not in keys]
        found = gathered(lazy.with_columns(run.alias(RUN)), keys, rest)
    return to_polars((lazy if found is None else found).select(*columns))


def brought_in_order(lazy: nw.LazyFrame[Any], run: nw.Expr, columns: Sequence[str]) -> Any:
    """The same with `score`, which from afar is a number that ties and orders rows as the score does."""
    import polars as pl

    found = None
    if is_apart(lazy) and "cluster" not in columns:  # lists of clusters are in no order of all
        found = gathered(lazy.with_columns(run.alias(RUN)), [RUN], columns, "score")
    if found is None:
        return brought(lazy, run, ["score", *columns])
    rows = to_polars(found)
    return rows.with_columns(pl.col("score") + pl.col(RUN).cast(pl.Float64) * rows.height).drop(RUN)
