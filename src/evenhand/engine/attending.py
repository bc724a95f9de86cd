"""Attention and target exposure as columns: the formulas of `attention.py` on whatever engine holds the rows."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import narwhals as nw

from evenhand.tallies.ledger import Look
from evenhand.views.columns import flag


def _looked_up(rank: nw.Expr, values: Sequence[float]) -> nw.Expr:
    """The value of a rank: one of them and zeros besides, so that the sum is exact on every engine."""
    parts = [flag(rank == i).cast(nw.Float64) * value for i, value in enumerate(values, 1) if value]
    return nw.sum_horizontal(*parts) if parts else rank * 0.0


COLUMNS = SimpleNamespace(
    log2=lambda x: x.log(2), at_least=lambda x, low: x.clip(lower_bound=low), looked_up=_looked_up
)  # fmt: skip


def attended(
    lazy: nw.LazyFrame[Any], looks: Sequence[Look], keys: Sequence[str], prefix: str = "a"
) -> nw.LazyFrame[Any]:
    """Add columns `a0, a1, ...`: the attention on each row, which needs columns rank and, for a cascade, relevance.

    `keys` name one ranking. The share of readers who got past the items above is a product of powers, one for each grade,
    so that a reader who always stops (a power of zero) is no special case. Where a column `shown` is zero nobody looks,
    and nobody stops.
    """
    seen = nw.col("shown") if "shown" in lazy.collect_schema().names() else None
    grades = sorted({g for look in looks for g in look.attention.keeps()}, key=lambda g: -1.0 if g is None else g)
    relevance = nw.col("relevance")
    for j, grade in enumerate(grades):
        hit = (relevance > 0) if grade is None else (relevance == grade)
        hit = hit if seen is None else hit & (seen > 0)
        lazy = lazy.with_columns(flag(hit).alias(f"hit_{j}"))
    for j in range(len(grades)):
        above = nw.col(f"hit_{j}").cum_sum().over(*keys, order_by="rank").cast(nw.Int64) - nw.col(f"hit_{j}")
        lazy = lazy.with_columns(above.cast(nw.Float64).alias(f"above_{j}"))
    columns = []
    for i, look in enumerate(looks):
        weight = look.attention.at(nw.col("rank").cast(nw.Float64), COLUMNS)
        for grade, going_on in look.attention.keeps().items():
            weight = weight * going_on ** nw.col(f"above_{grades.index(grade)}")
        if look.cutoff is not None:
            weight = nw.when(nw.col("rank") <= look.cutoff).then(weight).otherwise(nw.lit(0.0))
        columns.append((weight if seen is None else weight * seen).alias(f"{prefix}{i}"))
    return lazy.with_columns(*columns) if columns else lazy


def ideal(judged: nw.LazyFrame[Any], looks: Sequence[Look]) -> nw.LazyFrame[Any]:
    """Add columns `t0, t1, ...` to judged pairs: attention under the ideal policy.

    Any one order by falling relevance will do: tied items have the same grade, so the weights of the ranks they share are
    the same in every order, and each gets their mean.
    """
    if not looks:
        return judged
    order = nw.col("relevance").rank("ordinal", descending=True).over("request").cast(nw.Int64)
    placed = attended(judged.with_columns(order.alias("rank")), looks, ["request"], prefix="w")
    return placed.with_columns(
        *(nw.col(f"w{i}").mean().over("request", "relevance").alias(f"t{i}") for i in range(len(looks)))
    )
