"""From scored candidates to sums per score bin and group: exact edges, then one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.quantiles import quantile_means, quantiles
from evenhand.labels import in_order
from evenhand.tallies.moments import POWERS, Clusters, Moments
from evenhand.tallies.rows import Rows
from evenhand.views.outcomes import Checked, Outcomes, refuse_many
from evenhand.views.tables import to_polars

LOSS = 1e-3
"""Sums are taken again around better centres when less than this share of them is what matters."""

NEIGHBOURS = 4
"""Bins measured from one score: looking up an origin costs as much as several sums, and neighbours lie close together."""


GRADES = 8
"""Outcomes of so few different values are grouped by, not multiplied: their powers need no sums of their own."""


def score_edges(view: Checked, bins: Sequence[int], low: float, high: float, fewest: int = 0) -> list[Floats]:
    """For each number of bins the distinct inner edges, exact inverted-CDF quantiles of the scores in scope.

    With `fewest` above 1, an edge is the mean of so many scores around it, since it leaves and is else somebody's own score.
    """
    shares = sorted({Fraction(d, b) for b in bins for d in range(1, b)})
    edges: Any = ()
    if shares and fewest > 1:
        edges = quantile_means(view.scope, "score", shares, (low, high), fewest)
    elif shares:
        edges = quantiles(view.scope, "score", shares, (low, high))
    found = dict(zip(shares, edges, strict=True))
    return [np.unique([e for d in range(1, b) if (e := found[Fraction(d, b)]) < high]).astype(np.float64) for b in bins]


def shared_ends(view: Checked, low: float, high: float, fewest: int) -> tuple[float, float]:
    """The ends of a scope as they may leave: the mean of its `fewest` lowest scores, and of its highest."""
    least, most = quantile_means(view.scope, "score", [Fraction(0), Fraction(1)], (low, high), fewest).tolist()
    return float(least), float(most)


def tally_moments(
    view: Checked, edges: Floats, low: float, high: float, *, clustered: bool = False
) -> tuple[Outcomes, Moments]:
    """The view with its groups, and sums per bin and group over the rows in scope; bins are right-closed, with these inner edges.

    A first pass measures from the edges and the overall mean; it also finds the groups, where nobody has before. Where that
    would lose digits to cancellation (outcomes that follow the score almost exactly, scores crowded in a corner of a wide
    bin) a second pass measures from fitted lines.
    """
    origin = _centres(edges, low, high)
    rows = view.scope.with_columns(_bin(edges).alias("bin"))
    cells = _cells_from_mean(_from_origin(rows, origin), view)
    if not isinstance(view, Outcomes):
        refuse_many(cells["group"].n_unique(), f"group={view.asked[1]!r}")
    labels = view.labels if isinstance(view, Outcomes) else in_order(cells["group"].unique())
    level = np.full((len(origin), len(labels)), view.outcome_mean)
    tally = _moments(cells, labels, origin, level, np.zeros_like(level))
    known = view if isinstance(view, Outcomes) else view.grouped(labels, **_per_group(tally))
    if _loses_digits(tally):
        better = tally.shifted(_mean_scores(tally))
        lines = (better.origin, *_fitted(better))
        tally = _moments(_summed(_from_lines(rows, labels, *lines), view), labels, *lines)
    if not clustered:
        return known, tally
    lined = _from_lines(rows, labels, tally.origin, tally.level, tally.slope)
    return known, replace(tally, clusters=_clusters(lined, labels, len(origin)))


def tally_rows(view: Outcomes, edges: Floats) -> Rows:
    """The rows in scope one by one, ordered by what they hold; bins are right-closed, with these inner edges."""
    wanted = view.scope.with_columns(_bin(edges).alias("bin")).select("bin", "group", "score", "outcome")
    held = coded(to_polars(wanted), view.labels).sort("bin", "code", "score", "outcome")
    score, outcome = (held[name].to_numpy().astype(np.float64) for name in ("score", "outcome"))
    return Rows(score, outcome, *(held[name].to_numpy().astype(np.int64) for name in ("bin", "code")))


def tally_known(view: Outcomes) -> tuple[Rows, np.typing.NDArray[np.bool_]]:
    """All rows of the view's groups whose outcome the table tells, whatever their score, and whether each was treated."""
    outcome = nw.col("outcome")
    told = view.lazy.filter(~outcome.is_null()).filter(~outcome.is_nan()).select("group", "score", "outcome", "used")
    held = coded(to_polars(told), view.labels).drop_nulls("code").sort("code", "score", "outcome")
    score, found = (held[name].to_numpy().astype(np.float64) for name in ("score", "outcome"))
    code = held["code"].to_numpy().astype(np.int64)
    return Rows(score, found, np.zeros_like(code), code), held["used"].to_numpy().astype(bool)


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


def _from_origin(rows: nw.LazyFrame[Any], origin: Floats) -> nw.LazyFrame[Any]:
    """Rows with u, the score from its bin's origin."""
    return rows.with_columns((nw.col("score") - lookup(nw.col("bin"), origin.tolist())).alias("u"))


def _from_lines(
    rows: nw.LazyFrame[Any], labels: Sequence[Any], origin: Floats, level: Floats, slope: Floats
) -> nw.LazyFrame[Any]:
    """Rows with u and v, the outcome from its cell's line."""
    rows, flat = _from_origin(rows, origin), level.ravel().tolist()
    if len(set(flat)) == 1 and not slope.any():
        return rows.with_columns((nw.col("outcome") - flat[0]).alias("v"))
    rows = rows.with_columns((nw.col("bin").cast(nw.Int64) * len(labels) + group_code(labels)).alias("cell"))
    line = lookup(nw.col("cell"), flat) + lookup(nw.col("bin"), slope[:, 0].tolist()) * nw.col("u")
    return rows.with_columns((nw.col("outcome") - line).alias("v"))


def _cells_from_mean(rows: nw.LazyFrame[Any], view: Checked) -> Any:
    """Collected sums per bin and group with v measured from the mean outcome."""
    least, most = view.outcome_ends
    if not view.whole or most - least >= GRADES:
        return _summed(rows.with_columns((nw.col("outcome") - view.outcome_mean).alias("v")), view)
    import polars as pl

    columns = {_sum(i, 0): _power(nw.col("u"), nw.col("u"), i, 0) for i in range(1, 5)}
    cells = to_polars(rows.with_columns(**columns).group_by("bin", "group", "outcome").agg(*_asked(columns)))
    y, v = pl.col("outcome"), pl.col("outcome") - view.outcome_mean
    powers = [(pl.col(_sum(i, 0)) * v**j).sum().alias(_sum(i, j)) for i, j in POWERS]
    sides = {name: pl.col(_sum(0, 0)).filter(side).sum() for name, side in (("above", y > least), ("below", y < most))}
    return cells.group_by("bin", "group").agg(*powers, pl.col("low").min(), pl.col("high").max(), **sides)


def _summed(rows: nw.LazyFrame[Any], view: Checked) -> Any:
    """Collected sums per bin and group of rows that have u and v."""
    least, most = view.outcome_ends
    columns = {_sum(i, j): _power(nw.col("u"), nw.col("v"), i, j) for i, j in POWERS if i + j}
    columns |= {"above": _one(nw.col("outcome") > least), "below": _one(nw.col("outcome") < most)}
    return to_polars(rows.with_columns(**columns).group_by("bin", "group").agg(*_asked(columns)))


def _sum(i: int, j: int) -> str:
    return f"sum_{i}{j}"


def _asked(columns: Iterable[str]) -> list[nw.Expr]:
    ends = (nw.col("score").min().alias("low"), nw.col("score").max().alias("high"))
    return [nw.len().alias(_sum(0, 0)), *(nw.col(name).sum() for name in columns), *ends]


def _moments(cells: Any, labels: Sequence[Any], origin: Floats, level: Floats, slope: Floats) -> Moments:
    cells = coded(cells, labels)
    at = _cell(cells, labels)

    def place(name: str, blank: float = 0.0) -> Floats:
        out = np.full(level.size, blank)
        out[at] = cells[name].to_numpy()
        return out.reshape(level.shape)

    sums = np.zeros((*level.shape, 5, 3))
    for i, j in POWERS:
        sums[..., i, j] = place(_sum(i, j))
    sides = place("above"), place("below")
    return Moments(sums, origin, level, slope, place("low", np.inf), place("high", -np.inf), *sides)


def _per_group(tally: Moments) -> dict[str, Floats]:
    """What a view knows of its groups, from sums over all of its rows."""
    rows, u, v = tally.rows, tally.sums[..., 1, 0], tally.sums[..., 0, 1]
    sums = {"score_sum": tally.origin[:, None] * rows + u, "outcome_sum": tally.level * rows + v}
    ends = {"used": rows.sum(0), "low": tally.low.min(0), "high": tally.high.max(0)}
    return ends | {name: found.sum(0) for name, found in sums.items()}


def _power(u: nw.Expr, v: nw.Expr, i: int, j: int) -> nw.Expr:
    factors = [u] * i + [v] * j
    found = factors[0]
    for factor in factors[1:]:
        found = found * factor
    return found


def _one(condition: nw.Expr) -> nw.Expr:
    return nw.when(condition).then(nw.lit(1)).otherwise(nw.lit(0)).cast(nw.Int64)


def coded(cells: Any, labels: Sequence[Any]) -> Any:
    """Collected cells with the position of their group among the labels."""
    import polars as pl

    named = pl.Series("group", list(labels), dtype=cells["group"].dtype)
    codes = pl.DataFrame([named, pl.Series("code", range(len(named)), dtype=pl.Int64)])
    return cells.join(codes, on="group", how="left", nulls_equal=True, maintain_order="left")


def _cell(coded: Any, labels: Sequence[Any]) -> Any:
    """Which cell each collected row is: bin times number of groups plus group."""
    return coded["bin"].to_numpy().astype(np.int64) * len(labels) + coded["code"].to_numpy()


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


def _clusters(rows: nw.LazyFrame[Any], labels: Sequence[Any], bins: int) -> Clusters:
    """Sums per cluster and cell of rows that have u and v, with the clusters numbered."""
    u, v = nw.col("u"), nw.col("v")
    named = {"su": u, "sv": v, "suu": u * u, "suv": u * v}
    summed = rows.with_columns(**named).group_by("cluster", "bin", "group")
    cells = to_polars(summed.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in named)))
    cells = coded(cells, labels)
    within = len(labels) * bins
    key = (_numbered(cells["cluster"], within) * within + cells["code"] * bins + cells["bin"]).alias("key")
    cells = cells.select(key, "code", "bin", "rows", *named).sort("key")
    sums = tuple(cells[name].to_numpy().astype(np.float64) for name in ("rows", *named))
    numbers = (cells["key"] // within).rle_id().to_numpy().astype(np.int64)
    return Clusters(numbers, _cell(cells, labels), sums, len(labels))


def _numbered(labels: Any, within: int) -> Any:
    """Clusters as whole numbers: their own where they are such and small enough, otherwise their rank."""
    if labels.dtype.is_integer() and labels.len():
        least, most = labels.min(), labels.max()
        if least >= -(2**63) and most < 2**63 and (most - least) * within < 2**62:
            return labels.cast(int) - least
    return labels.rank("dense").cast(int) - 1
