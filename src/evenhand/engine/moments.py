"""From scored candidates to sums per score bin and group: exact edges, then one pass over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.quantiles import quantiles
from evenhand.tallies.moments import POWERS, Clusters, Moments
from evenhand.views.outcomes import Outcomes
from evenhand.views.tables import to_polars

LOSS = 1e-3
"""Sums are taken again around better centres when less than this share of them is what matters."""

NEIGHBOURS = 4
"""Bins measured from one score: looking up an origin costs as much as several sums, and neighbours lie close together."""


def score_edges(view: Outcomes, bins: Sequence[int], low: float, high: float) -> list[Floats]:
    """For each number of bins the distinct inner edges, exact inverted-CDF quantiles of the scores in scope."""
    shares = sorted({Fraction(d, b) for b in bins for d in range(1, b)})
    found = dict(zip(shares, quantiles(view.scope, "score", shares, (low, high)) if shares else (), strict=True))
    return [np.unique([e for d in range(1, b) if (e := found[Fraction(d, b)]) < high]).astype(np.float64) for b in bins]


def tally_moments(view: Outcomes, edges: Floats, low: float, high: float, *, clustered: bool = False) -> Moments:
    """Sums per bin and group over the rows in scope; bins are right-closed, with these inner edges.

    A first pass measures from the edges and the overall mean. Where that would lose digits to cancellation (outcomes that
    follow the score almost exactly, scores crowded in a corner of a wide bin) a second pass measures from fitted lines.
    """
    shape = (len(edges) + 1, len(view.labels))
    total = view.used.sum()
    origin = _centres(edges, low, high)
    level = np.full(shape, view.outcome_sum.sum() / total if total else 0.0)
    rows = view.scope.with_columns(_bin(edges).alias("bin"))
    tally = _tally(rows, view, origin, level, np.zeros(shape))
    if _loses_digits(tally):
        better = tally.shifted(_mean_scores(tally))
        level, slope = _fitted(better)
        origin = better.origin
        tally = _tally(rows, view, origin, level, slope)
    if not clustered:
        return tally
    clusters = _clusters(rows, view, tally.origin, tally.level, tally.slope)
    return Moments(
        tally.sums, tally.origin, tally.level, tally.slope, tally.low, tally.high, tally.above, tally.below, clusters
    )


def _centres(edges: Floats, low: float, high: float) -> Floats:
    """A score close to each bin, the same for a few neighbours: an edge in their midst, since tails are long."""
    if not len(edges):
        return np.array([low / 2 + high / 2])
    blocks = np.array_split(np.arange(len(edges) + 1), -(-(len(edges) + 1) // NEIGHBOURS))
    middle = [edges[min(block[(len(block) - 1) // 2], len(edges) - 1)] for block in blocks]
    return np.repeat(middle, [len(block) for block in blocks])


def _bin(edges: Floats) -> nw.Expr:
    """The number of edges below a score: which bin it is in, from 0. A tree of comparisons is what engines do fastest."""

    def between(first: int, last: int) -> nw.Expr:
        if first == last:
            return nw.lit(first, dtype=nw.Int16)  # narrow numbers are chosen between, and grouped by, the faster
        middle = (first + last) // 2
        low, high = between(first, middle), between(middle + 1, last)
        return nw.when(nw.col("score") <= float(edges[middle])).then(low).otherwise(high)

    return between(0, len(edges))


def lookup(code: nw.Expr, values: Sequence[float]) -> nw.Expr:
    """values[code], as a tree of comparisons: engines need no join, and a run of equal values is one leaf."""
    starts = [i for i, value in enumerate(values) if not i or value != values[i - 1]]

    def between(first: int, last: int) -> nw.Expr:
        if first == last:
            return nw.lit(float(values[starts[first]]))
        middle = (first + last + 1) // 2
        return nw.when(code < starts[middle]).then(between(first, middle - 1)).otherwise(between(middle, last))

    return between(0, len(starts) - 1)


def group_code(labels: Sequence[Any]) -> nw.Expr:
    """Position of a row's group among the labels."""
    found: nw.Expr = nw.lit(len(labels) - 1)
    for i, label in reversed(list(enumerate(labels[:-1]))):
        same = nw.col("group").is_null() if label is None else nw.col("group") == label
        found = nw.when(same).then(nw.lit(i)).otherwise(found)
    return found.cast(nw.Int64)


def _measured(
    rows: nw.LazyFrame[Any], view: Outcomes, origin: Floats, level: Floats, slope: Floats
) -> nw.LazyFrame[Any]:
    """Rows with u and v: the score from its bin's origin, the outcome from its cell's line."""
    groups = len(view.labels)
    rows = rows.with_columns((nw.col("score") - lookup(nw.col("bin"), origin.tolist())).alias("u"))
    flat, straight = level.ravel().tolist(), slope.ravel().tolist()
    if len(set(flat)) == 1 and not any(straight):
        return rows.with_columns((nw.col("outcome") - flat[0]).alias("v"))
    rows = rows.with_columns((nw.col("bin") * groups + group_code(view.labels)).alias("cell"))
    line = lookup(nw.col("cell"), flat) + lookup(nw.col("bin"), slope[:, 0].tolist()) * nw.col("u")
    return rows.with_columns((nw.col("outcome") - line).alias("v"))


def _tally(rows: nw.LazyFrame[Any], view: Outcomes, origin: Floats, level: Floats, slope: Floats) -> Moments:
    u, v, binary = nw.col("u"), nw.col("v"), view.binary and not slope.any()
    powers = {(i, j): f"sum_{i}{j}" for i, j in POWERS if i + j and not (binary and j == 2)}
    columns = {name: _power(u, v, i, j) for (i, j), name in powers.items()}
    least, most = view.outcome_ends
    if not binary:
        columns |= {"above": _one(nw.col("outcome") > least), "below": _one(nw.col("outcome") < most)}
    summed = _measured(rows, view, origin, level, slope).with_columns(**columns).group_by("bin", "group")
    asked = [nw.len().alias("sum_00"), *(nw.col(name).sum() for name in columns)]
    cells = to_polars(summed.agg(*asked, nw.col("score").min().alias("low"), nw.col("score").max().alias("high")))
    cells = coded(cells, view)
    at = _cell(cells, view)

    def place(name: str, blank: float = 0.0) -> Floats:
        return _placed(cells[name].to_numpy(), at, level.shape, blank)

    sums = np.zeros((*level.shape, 5, 3))
    for (i, j), name in {(0, 0): "sum_00", **powers}.items():
        sums[..., i, j] = place(name)
    if binary:
        sums, above = _squared(sums, level - least)
        below = sums[..., 0, 0] - above
    else:
        above, below = place("above"), place("below")
    return Moments(sums, origin, level, slope, place("low", np.inf), place("high", -np.inf), above, below)


def _squared(sums: Floats, level: Floats) -> tuple[Floats, Floats]:
    """The sums with v^2 filled in, and the rows with the higher outcome, where v is 1 - level or -level and nothing else."""
    out = sums.copy()
    by, free = (1 - 2 * level)[..., None], (level * (1 - level))[..., None]
    out[..., :3, 2] = by * sums[..., :3, 1] + free * sums[..., :3, 0]
    return out, np.rint(sums[..., 0, 1] + level * sums[..., 0, 0])


def _power(u: nw.Expr, v: nw.Expr, i: int, j: int) -> nw.Expr:
    factors = [u] * i + [v] * j
    found = factors[0]
    for factor in factors[1:]:
        found = found * factor
    return found


def _one(condition: nw.Expr) -> nw.Expr:
    return nw.when(condition).then(nw.lit(1)).otherwise(nw.lit(0)).cast(nw.Int64)


def coded(cells: Any, view: Outcomes) -> Any:
    """Collected cells with the position of their group among the labels."""
    import polars as pl

    labels = pl.Series("group", list(view.labels), dtype=cells["group"].dtype)
    codes = pl.DataFrame([labels, pl.Series("code", range(len(labels)), dtype=pl.Int64)])
    return cells.join(codes, on="group", how="left", nulls_equal=True, maintain_order="left")


def _cell(coded: Any, view: Outcomes) -> Any:
    """Which cell each collected row is: bin times number of groups plus group."""
    return coded["bin"].to_numpy().astype(np.int64) * len(view.labels) + coded["code"].to_numpy()


def _placed(values: Any, at: Any, shape: tuple[int, int], blank: float) -> Floats:
    out = np.full(shape[0] * shape[1], blank)
    out[at] = values
    return out.reshape(shape)


def _mean_scores(tally: Moments) -> Floats:
    rows = tally.rows.sum(-1)
    offset = np.divide(tally.sums[..., 1, 0].sum(-1), rows, out=np.zeros_like(rows), where=rows > 0)
    return np.asarray(tally.origin + offset)


def _fitted(tally: Moments) -> tuple[Floats, Floats]:
    """Lines to measure from: the mean of each cell and the common slope of its bin."""
    rows = np.maximum(tally.rows, 1)
    offset = tally.sums[..., 1, 0] / rows
    within = (tally.sums[..., 2, 0] - offset * tally.sums[..., 1, 0]).sum(-1)
    across = (tally.sums[..., 1, 1] - offset * tally.sums[..., 0, 1]).sum(-1)
    slope = np.divide(across, within, out=np.zeros_like(within), where=within > 0)
    level = tally.level + tally.sums[..., 0, 1] / rows - slope[:, None] * offset
    return level, np.repeat(slope[:, None], tally.rows.shape[1], axis=1)


def _loses_digits(tally: Moments) -> bool:
    """Whether squares around the centres are much larger than what is left of them in the regression."""
    better = tally.shifted(_mean_scores(tally))
    residual = better.measured_from(*_fitted(better))
    varies = tally.low.min(-1) < tally.high.max(-1)
    spread, around = better.sums[..., 2, 0].sum(-1), tally.sums[..., 2, 0].sum(-1)
    left, before = residual.sums[..., 0, 2].sum(-1), tally.sums[..., 0, 2].sum(-1)
    return bool(np.any(varies & (spread < LOSS * around)) or np.any((before > 0) & (left < LOSS * before)))


def _clusters(rows: nw.LazyFrame[Any], view: Outcomes, origin: Floats, level: Floats, slope: Floats) -> Clusters:
    """Sums per cluster and cell, with the clusters numbered."""
    u, v = nw.col("u"), nw.col("v")
    named = {"su": u, "sv": v, "suu": u * u, "suv": u * v}
    summed = _measured(rows, view, origin, level, slope).with_columns(**named).group_by("cluster", "bin", "group")
    cells = to_polars(summed.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in named)))
    cells = coded(cells, view)
    within = len(view.labels) * len(origin)
    key = (_numbered(cells["cluster"], within) * within + cells["code"] * len(origin) + cells["bin"]).alias("key")
    cells = cells.select(key, "code", "bin", "rows", *named).sort("key")
    sums = tuple(cells[name].to_numpy().astype(np.float64) for name in ("rows", *named))
    numbers = (cells["key"] // within).rle_id().to_numpy().astype(np.int64)
    return Clusters(numbers, _cell(cells, view), sums, len(view.labels))


def _numbered(labels: Any, within: int) -> Any:
    """Clusters as whole numbers: their own where they are such and small enough, otherwise their rank."""
    if labels.dtype.is_integer() and labels.len() and (labels.max() - labels.min()) * within < 2**62:
        return labels.cast(int) - labels.min()
    return labels.rank("dense").cast(int) - 1
