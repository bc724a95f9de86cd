"""Exact quantiles on any engine: a few narrow passes that count, and no sort.

The p-quantile is the smallest value that at least a share p of the rows do not exceed (inverted CDF). Rows are counted in
equal buckets between the smallest and the largest value; only the buckets that hold a wanted rank are looked into, and a
bucket that is itself crowded is cut into buckets again.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.sources import significant
from evenhand.views.tables import in_batches, to_polars

BUCKETS = 1 << 12
CROWDED = 1 << 17
"""Rows in a bucket above which it is cut again instead of having its values collected."""

MOST_VALUES = 1 << 18
"""Values that means are made of in one pass."""

ROUNDING = 1e-12
"""0.55 * 100 is 55.00000000000001 in floating point; a rank this close to a whole number is that number."""


def quantiles(
    lazy: nw.LazyFrame[Any],
    column: str,
    shares: Sequence[float | Fraction],
    ends: tuple[float, float] | None = None,
) -> Floats:
    """The smallest value that at least each share of the rows do not exceed; NaN for an empty table.

    `column` must hold finite numbers only. A `Fraction` makes the rank exact; a float is taken to be the decimal it prints.
    `ends`, the smallest and the largest value, saves a pass where they are known.
    """
    if ends is None:
        value = nw.col(column).cast(nw.Float64)
        ends = to_polars(lazy.select(value.min().alias("low"), value.max().alias("high"))).row(0)
        if ends[0] is None or ends[0] != ends[0]:
            return np.full(len(shares), np.nan)
    return quantiles_within(lazy, column, [(shares, ends)], ends)[0]


Range = tuple[float, float]


def quantiles_within(
    lazy: nw.LazyFrame[Any], column: str, wanted: Sequence[tuple[Sequence[float | Fraction], Range]], ends: Range
) -> list[Floats]:
    """Quantiles of several ranges of a column, none of them empty, in as many passes as of one; `ends` are those of all rows."""
    low, high = map(float, ends)
    if low == high:
        return [np.full(len(shares), low) for shares, _ in wanted]
    values, value = lazy.select(nw.col(column).cast(nw.Float64).alias("value")), nw.col("value")
    inner = {i: part for i, (_, part) in enumerate(wanted) if tuple(part) != (low, high)}
    sides = {f"before_{i}": value < float(part[0]) for i, part in inner.items()}
    sides |= {f"upto_{i}": value <= float(part[1]) for i, part in inner.items()}
    cut = Buckets.of(values, low, high, sum(len(shares) for shares, _ in wanted), sides)
    ranks: list[int] = []
    for i, (shares, _) in enumerate(wanted):
        first, last = cut.sides.get(f"before_{i}", 0), cut.sides.get(f"upto_{i}", int(cut.reach[-1]))
        ranks += [first + rank_of(share, last - first) for share in shares]
    found = cut.at(np.array(ranks, dtype=np.int64))
    return np.split(found, np.cumsum([len(shares) for shares, _ in wanted])[:-1])


def quantile_means(
    lazy: nw.LazyFrame[Any], column: str, shares: Sequence[float | Fraction], ends: tuple[float, float], many: int
) -> Floats:
    """The mean of the `many` rows that lie around each quantile (of all rows where they are fewer), which is no row's own.

    Engines count how often each value is there, and one sum is made of that: the mean is the same number on all of them. It has
    twelve digits, for a value that is the mean must be so whatever the sum ends in.
    """
    low, high = map(float, ends)
    if low == high or not shares:
        return np.full(len(shares), low)
    values = lazy.select(nw.col(column).cast(nw.Float64).alias("value"))
    cut = Buckets.of(values, low, high, 2 * len(shares))
    rows = int(cut.rows.sum())
    if not rows:
        return np.full(len(shares), low)
    first = np.array([rank_of(share, rows) for share in shares], dtype=np.int64) - many // 2
    first = np.clip(first, 1, max(1, rows - many + 1))
    low_ends, high_ends = cut.at(first), cut.at(np.minimum(first + many - 1, rows))
    means, some = low_ends.copy(), np.flatnonzero(low_ends < high_ends)
    at_once = max(1, MOST_VALUES // many)
    for start in range(0, len(some), at_once):
        at = some[start : start + at_once]
        means[at] = significant(_means_between(values, low_ends[at], high_ends[at]))
    return means


def _means_between(values: nw.LazyFrame[Any], lows: Floats, highs: Floats) -> Floats:
    """The mean of the values from each of these to each of those, of which there are some."""
    value = nw.col("value")
    inside = [(value >= low) & (value <= high) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
    counted = values.filter(functools.reduce(operator.or_, inside)).group_by("value").agg(nw.len().alias("rows"))
    found = to_polars(counted).sort("value")
    known, rows = found["value"].to_numpy(), found["rows"].to_numpy()
    ends = zip(np.searchsorted(known, lows).tolist(), np.searchsorted(known, highs, side="right").tolist(), strict=True)
    return np.array([np.average(known[first:last], weights=rows[first:last]) for first, last in ends])


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


@dataclass(frozen=True)
class Buckets:
    """Equal parts of a range of values, and how many rows each holds.

    Attributes
    ----------
    values : the table; only rows from `low` to `high` are counted.
    code : which part a value lies in, never decreasing in the value.
    number, rows, reach : the parts that hold a row, how many they hold, and how many up to and including them.
    sides : how many rows meet each of the conditions that were asked about.
    """

    values: nw.LazyFrame[Any]
    code: nw.Expr
    number: Any
    rows: Any
    reach: Any
    sides: Mapping[str, int]

    @classmethod
    def of(
        cls,
        values: nw.LazyFrame[Any],
        low: float,
        high: float,
        targets: int,
        sides: Mapping[str, nw.Expr] = MappingProxyType({}),
    ) -> Buckets:
        buckets = max(BUCKETS, 1 << (64 * targets).bit_length())
        code = _bucket(low, high, buckets)
        if values.implementation.is_polars():
            number, rows, held = _counted(values.select(code.alias("bucket"), **sides), buckets)
            return cls(values, code, number, rows, np.cumsum(rows), held)
        flags = {
            name: nw.when(side).then(nw.lit(1)).otherwise(nw.lit(0)).cast(nw.Int64) for name, side in sides.items()
        }
        counted = values.select(code.alias("bucket"), **flags).group_by("bucket")
        found = to_polars(counted.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in sides))).sort("bucket")
        rows = found["rows"].to_numpy().astype(np.int64)
        held = {name: int(found[name].sum()) for name in sides}
        return cls(values, code, found["bucket"].to_numpy(), rows, np.cumsum(rows), held)

    def at(self, ranks: Any) -> Floats:
        """The values at `ranks`, counted from 1."""
        wanted, back = np.unique(ranks, return_inverse=True)
        return self.ranked(wanted)[back]

    def ranked(self, ranks: Any) -> Floats:
        """The values at sorted distinct `ranks`, counted from 1 among the rows of the buckets."""
        at = np.searchsorted(self.reach, ranks)
        inside = ranks - (self.reach - self.rows)[at]
        out = np.full(len(ranks), np.nan)
        wanted = np.unique(at)
        light = wanted[self.rows[wanted] <= CROWDED]
        if len(light):
            here = np.isin(at, light)
            out[here] = self._collected(light, at[here], inside[here])
        crowded = wanted[self.rows[wanted] > CROWDED]
        for one, low, high in self._ends(crowded):
            here = at == one
            part = self.values.filter((nw.col("value") >= low) & (nw.col("value") <= high))
            out[here] = low if low == high else Buckets.of(part, low, high, int(here.sum())).ranked(inside[here])
        return out

    def _collected(self, light: Any, at: Any, inside: Any) -> Floats:
        """Look into buckets that hold few rows: their values, each with its count, leave the engine."""
        chosen = self.values.filter(self.code.is_in(self.number[light].tolist()))
        counts = to_polars(chosen.group_by("value").agg(nw.len().alias("rows"))).sort("value")
        skipped = np.cumsum(self.rows[light]) - self.rows[light]  # rows of the buckets before, among those collected
        upto = np.cumsum(counts["rows"].to_numpy().astype(np.int64))
        place = np.searchsorted(upto, skipped[np.searchsorted(light, at)] + inside)
        return np.asarray(counts["value"].to_numpy()[place], dtype=np.float64)

    def _ends(self, crowded: Any) -> Iterator[tuple[int, float, float]]:
        """Smallest and largest value of buckets that must be cut again."""
        if not len(crowded):
            return
        chosen = self.values.with_columns(self.code.alias("bucket"))
        chosen = chosen.filter(nw.col("bucket").is_in(self.number[crowded].tolist()))
        low, high = nw.col("value").min().alias("low"), nw.col("value").max().alias("high")
        found = to_polars(chosen.group_by("bucket").agg(low, high)).sort("bucket")
        for one, least, most in zip(crowded, found["low"], found["high"], strict=True):
            yield int(one), float(least), float(most)


def _counted(rows: nw.LazyFrame[Any], buckets: int) -> tuple[Any, Any, dict[str, int]]:
    """Buckets that hold a row, how many each holds, and how many rows have each flag: counting beats a group-by here."""
    counts, held = np.zeros(buckets, dtype=np.int64), dict.fromkeys(rows.collect_schema().names()[1:], 0)
    for batch in in_batches(rows):
        counts += np.bincount(batch["bucket"].to_numpy(), minlength=buckets)
        held = {name: many + int(batch[name].sum()) for name, many in held.items()}
    number = np.flatnonzero(counts)
    return number, counts[number], held


def _bucket(low: float, high: float, buckets: int) -> nw.Expr:
    """Which of `buckets` equal parts of [low, high] a value lies in; never decreasing in the value."""
    shrink = 1.0 if math.isfinite(high - low) else 0.25  # the spread of -1e308 and 1e308 is not a number
    spread = high * shrink - low * shrink
    value = nw.col("value") if shrink == 1 else nw.col("value") * shrink
    part = (value - low * shrink) / spread * buckets
    return part.floor().clip(0, buckets - 1).cast(nw.Int16 if buckets <= 1 << 15 else nw.Int64)
