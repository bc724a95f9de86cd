"""Exact quantiles of a column that a query answers: a pass that counts, a second over the buckets that hold a quantile, no sort.

The p-quantile is the smallest value that at least a share p of the rows do not exceed (inverted CDF). Rows are counted in
equal buckets between the smallest and the largest value; only the buckets that hold a wanted rank are looked into, and a
bucket that is itself crowded is cut into buckets again.

Every query here has one column, `value`, of finite doubles without NULL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from evenhand.cards import Floats
from evenhand.sources.engine import Engine
from evenhand.sources.sql import count_where, double, select

Ints = np.typing.NDArray[np.int64]
Range = tuple[float, float]

BUCKETS = 1 << 12
CROWDED = 1 << 17
"""Rows in a bucket above which it is cut again instead of having its values fetched."""

ROUNDING = 1e-12
"""0.55 * 100 is 55.00000000000001 in floating point; a rank this close to a whole number is that number."""


def quantiles(engine: Engine, query: str, shares: Sequence[float | Fraction], ends: Range | None = None) -> Floats:
    """The smallest value that at least each share of the rows do not exceed; NaN where there are no rows.

    A `Fraction` makes the rank exact; a float is taken to be the decimal it prints. `ends`, the smallest and the largest
    value, saves a pass where they are known.
    """
    if ends is None:
        facts = engine.cells(f"SELECT MIN(value) AS low, MAX(value) AS high FROM ({query}) AS numbers").row()
        if facts["low"] is None:
            return np.full(len(shares), np.nan)
        ends = (float(facts["low"]), float(facts["high"]))
    return quantiles_within(engine, query, [(shares, ends)], ends)[0]


def quantiles_within(
    engine: Engine, query: str, ranges: Sequence[tuple[Sequence[float | Fraction], Range]], ends: Range
) -> list[Floats]:
    """Quantiles of several ranges of the values, none of them empty, in as many passes as of one; `ends` are those of all rows."""
    low, high = map(float, ends)
    if low == high:
        return [np.full(len(shares), low) for shares, _ in ranges]
    inner = {i: part for i, (_, part) in enumerate(ranges) if tuple(part) != (low, high)}
    sides = {f"before_{i}": f"value < {double(part[0])}" for i, part in inner.items()}
    sides |= {f"upto_{i}": f"value <= {double(part[1])}" for i, part in inner.items()}
    counted = Buckets.from_query(engine, query, (low, high), sum(len(shares) for shares, _ in ranges), sides)
    ranks: list[int] = []
    for i, (shares, _) in enumerate(ranges):
        first = counted.sides.get(f"before_{i}", 0)
        last = counted.sides.get(f"upto_{i}", int(counted.cumulative[-1]))
        ranks += [first + rank_of(share, last - first) for share in shares]
    values = counted.at(np.array(ranks, dtype=np.int64))
    return np.split(values, np.cumsum([len(shares) for shares, _ in ranges])[:-1])


def quantile_means(
    engine: Engine, query: str, shares: Sequence[float | Fraction], ends: Range, neighbours: int
) -> Floats:
    """The mean of the `neighbours` rows around each quantile (of all rows where they are fewer), which is no row's own value.

    The engine counts how often each value occurs, and one sum is made of that: the mean is the same number on all engines. It
    has twelve digits, for a value that is the mean must be so whatever the sum ends in.
    """
    low, high = map(float, ends)
    if low == high or not shares:
        return np.full(len(shares), low)
    counted = Buckets.from_query(engine, query, (low, high), 2 * len(shares))
    rows = int(counted.rows.sum())
    if not rows:
        return np.full(len(shares), low)
    first = np.array([rank_of(share, rows) for share in shares], dtype=np.int64) - neighbours // 2
    first = np.clip(first, 1, max(1, rows - neighbours + 1))
    lows, highs = counted.at(first), counted.at(np.minimum(first + neighbours - 1, rows))
    means, varied = lows.copy(), np.flatnonzero(lows < highs)
    if len(varied):
        means[varied] = significant(_means_between(engine, query, lows[varied], highs[varied]))
    return means


def _means_between(engine: Engine, query: str, lows: Floats, highs: Floats) -> Floats:
    """The mean of the values from each of these to each of those, of which there are some."""
    inside = " OR ".join(
        f"(value >= {double(low)} AND value <= {double(high)})"
        for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
    )
    values, rows = _value_counts(engine, f"SELECT value FROM ({query}) AS numbers WHERE {inside}")
    ends = zip(
        np.searchsorted(values, lows).tolist(), np.searchsorted(values, highs, side="right").tolist(), strict=True
    )
    return np.array([np.average(values[first:last], weights=rows[first:last]) for first, last in ends])


def quantile_edges(engine: Engine, query: str, bins: int) -> Floats:
    """The distinct inner edges of `bins` equally filled bins, right-closed; ties make them fewer.

    The largest value is never an edge: the bin above it would be empty.
    """
    inner = quantiles(engine, query, [*(Fraction(d, bins) for d in range(1, bins)), Fraction(1)])
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
    engine, query : where the values come from.
    bucket : SQL of the bucket that a value is in.
    numbers : (n,) buckets with a row, increasing. rows : (n,) how many rows each has. cumulative : (n,) the same added up.
    lows, highs : (n,) the smallest and the largest value of each.
    sides : rows on one side of some limits, by the name of the condition.
    """

    engine: Engine
    query: str
    bucket: str
    numbers: Ints
    rows: Ints
    cumulative: Ints
    lows: Floats
    highs: Floats
    sides: Mapping[str, int]

    @classmethod
    def from_query(
        cls, engine: Engine, query: str, ends: Range, targets: int, sides: Mapping[str, str] = MappingProxyType({})
    ) -> Buckets:
        """Count the values between two ends, in more buckets where more quantiles (`targets`) are wanted."""
        bucket = _bucket(*ends, max(BUCKETS, 1 << (64 * targets).bit_length()))
        aggregates = {"row_count": "COUNT(*)", "low": "MIN(value)", "high": "MAX(value)"}
        aggregates |= {name: count_where(condition) for name, condition in sides.items()}
        cells = engine.cells(f"SELECT {bucket} AS bucket, {select(aggregates)} FROM ({query}) AS numbers GROUP BY 1")
        order = np.argsort(cells.integers("bucket"))
        numbers, rows = (cells.integers(name)[order] for name in ("bucket", "row_count"))
        lows, highs = (cells.floats(name)[order] for name in ("low", "high"))
        counts = {name: int(cells.integers(name).sum()) for name in sides}
        return cls(engine, query, bucket, numbers, rows, np.cumsum(rows), lows, highs, counts)

    def at(self, ranks: Ints) -> Floats:
        """The values at `ranks`, counted from 1 among the rows of the buckets."""
        ranks, inverse = np.unique(ranks, return_inverse=True)
        at = np.searchsorted(self.cumulative, ranks)
        inside = ranks - (self.cumulative - self.rows)[at]
        values = np.full(len(ranks), np.nan)
        needed = np.unique(at)
        light = needed[self.rows[needed] <= CROWDED]
        if len(light):
            chosen = np.isin(at, light)
            values[chosen] = self._fetch(light, at[chosen], inside[chosen])
        for place in needed[self.rows[needed] > CROWDED].tolist():
            chosen, low, high = at == place, float(self.lows[place]), float(self.highs[place])
            if low == high:
                values[chosen] = low
                continue
            inner = f"value >= {double(low)} AND value <= {double(high)}"
            part = f"SELECT value FROM ({self.query}) AS numbers WHERE {inner}"
            finer = Buckets.from_query(self.engine, part, (low, high), int(chosen.sum()))
            values[chosen] = finer.at(inside[chosen])
        return values[inverse]

    def _fetch(self, light: Ints, at: Ints, inside: Ints) -> Floats:
        """Values at ranks within buckets that hold few rows: each value of these with its count leaves the engine."""
        numbers = ", ".join(map(str, self.numbers[light].tolist()))
        rows_of_buckets = f"SELECT value FROM ({self.query}) AS numbers WHERE {self.bucket} IN ({numbers})"
        values, rows = _value_counts(self.engine, rows_of_buckets)
        skipped = np.cumsum(self.rows[light]) - self.rows[light]  # rows of the buckets before, among those fetched
        place = np.searchsorted(np.cumsum(rows), skipped[np.searchsorted(light, at)] + inside)
        return np.asarray(values[place], dtype=np.float64)


def _value_counts(engine: Engine, query: str) -> tuple[Floats, Ints]:
    """The distinct values that a query answers, increasing, and how many rows have each."""
    cells = engine.cells(f"SELECT value, COUNT(*) AS row_count FROM ({query}) AS chosen GROUP BY value")
    values = cells.floats("value")
    order = np.argsort(values, kind="stable")
    return values[order], cells.integers("row_count")[order]


def _bucket(low: float, high: float, buckets: int) -> str:
    """SQL of which of `buckets` equal parts of [low, high] a value lies in; never decreasing in the value."""
    shrink = 1.0 if math.isfinite(high - low) else 0.25  # the spread of -1e308 and 1e308 is not a number
    value = "value" if shrink == 1 else f"value * {double(shrink)}"
    share = f"({value} - {double(low * shrink)}) / {double(high * shrink - low * shrink)}"
    return f"CAST(LEAST(FLOOR({share} * {double(buckets)}), {double(buckets - 1)}) AS INTEGER)"


def significant(x: Floats, digits: int = 12) -> Floats:
    """Round to significant digits, so that 0.1 + 0.2 ties with 0.3.

    Whole numbers stay as they are, however large, and so do those under 1e-290, which no power of ten makes whole.

    >>> significant(np.array([0.1 + 0.2, 1e15 + 1, 0.0, 1e-300])).tolist() == [0.3, 1e15 + 1, 0.0, 1e-300]
    True
    """
    broken = (x != np.rint(x)) & (np.abs(x) >= 1e-290)
    if not broken.any():
        return x
    some = x[broken]
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(some))))
    out = x.copy()
    out[broken] = np.rint(some * scale) / scale
    return out
