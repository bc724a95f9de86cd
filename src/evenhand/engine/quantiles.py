"""Exact quantiles on any engine: a few narrow passes that count, and no sort.

The p-quantile is the smallest value that at least a share p of the rows do not exceed (inverted CDF). Rows are counted in
equal buckets between the smallest and the largest value; only the buckets that hold a wanted rank are looked into, and a
bucket that is itself crowded is cut into buckets again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.views.tables import to_polars

BUCKETS = 1 << 14
CROWDED = 1 << 17
"""Rows in a bucket above which it is cut again instead of having its values collected."""

ROUNDING = 1e-12
"""0.55 * 100 is 55.00000000000001 in floating point; a rank this close to a whole number is that number."""


def quantiles(lazy: nw.LazyFrame[Any], column: str, shares: Sequence[float | Fraction]) -> Floats:
    """The smallest value that at least each share of the rows do not exceed; NaN for an empty table.

    `column` must hold finite numbers only. A `Fraction` makes the rank exact; a float is taken to be the decimal it prints.
    """
    values = lazy.select(nw.col(column).cast(nw.Float64).alias("value"))
    asked = [nw.len().alias("rows"), nw.col("value").min().alias("low"), nw.col("value").max().alias("high")]
    facts = to_polars(values.select(*asked)).row(0, named=True)
    if not facts["rows"]:
        return np.full(len(shares), np.nan)
    ranks = np.array([rank_of(share, int(facts["rows"])) for share in shares], dtype=np.int64)
    wanted, back = np.unique(ranks, return_inverse=True)
    return ranked(values, wanted, float(facts["low"]), float(facts["high"]))[back]


def quantile_edges(lazy: nw.LazyFrame[Any], column: str, bins: int) -> Floats:
    """The distinct inner edges of `bins` equally filled bins, right-closed; ties make them fewer.

    The largest value is never an edge: the bin above it would be empty.
    """
    inner = quantiles(lazy, column, [*(Fraction(d, bins) for d in range(1, bins)), Fraction(1)])
    return np.unique(inner[:-1][inner[:-1] < inner[-1]])


def rank_of(share: float | Fraction, rows: int) -> int:
    """Which of the sorted rows, counted from 1, is the quantile.

    >>> rank_of(0.55, 100), rank_of(Fraction(1, 3), 6), rank_of(0, 5)
    (55, 2, 1)
    """
    exact = share * rows if isinstance(share, Fraction) else share * rows * (1 - ROUNDING)
    return min(max(1, math.ceil(exact)), rows)


def ranked(values: nw.LazyFrame[Any], ranks: Any, low: float, high: float) -> Floats:
    """The values at sorted distinct `ranks` (from 1) among the rows that lie in [low, high]."""
    if low == high:
        return np.full(len(ranks), low)
    buckets = max(BUCKETS, 1 << (64 * len(ranks)).bit_length())
    within = values.filter((nw.col("value") >= low) & (nw.col("value") <= high))
    bucketed = within.with_columns(_bucket(low, high, buckets).alias("bucket"))
    found = to_polars(
        bucketed.group_by("bucket").agg(
            nw.len().alias("rows"), nw.col("value").min().alias("low"), nw.col("value").max().alias("high")
        )
    ).sort("bucket")
    rows, lows, highs = (found[name].to_numpy() for name in ("rows", "low", "high"))
    reach = np.cumsum(rows.astype(np.int64))
    at = np.searchsorted(reach, ranks)
    inside = ranks - (reach - rows)[at]
    out = np.where(lows[at] == highs[at], lows[at], np.nan)
    mixed = np.unique(at[lows[at] < highs[at]])
    light = mixed[rows[mixed] <= CROWDED]
    if len(light):
        chosen = bucketed.filter(nw.col("bucket").is_in(found["bucket"].gather(light).to_list()))
        counts = to_polars(chosen.group_by("value").agg(nw.len().alias("rows"))).sort("value")
        held, upto = counts["value"].to_numpy(), np.cumsum(counts["rows"].to_numpy().astype(np.int64))
        before = np.searchsorted(held, lows)  # where each bucket's values begin among those collected
        skipped = np.concatenate([[0], upto])[before]
        here = np.isin(at, light)
        out[here] = held[np.searchsorted(upto, (skipped[at] + inside)[here])]
    for one in mixed[rows[mixed] > CROWDED]:
        here, low, high = at == one, float(lows[one]), float(highs[one])
        out[here] = ranked(values, inside[here], low, high)
    return out


def _bucket(low: float, high: float, buckets: int) -> nw.Expr:
    """Which of `buckets` equal parts of [low, high] a value lies in; never decreasing in the value."""
    shrink = 1.0 if math.isfinite(high - low) else 0.25  # the spread of -1e308 and 1e308 is not a number
    spread = high * shrink - low * shrink
    part = (nw.col("value") * shrink - low * shrink) / spread * buckets
    return part.clip(0, buckets - 1).floor().cast(nw.Int64)
