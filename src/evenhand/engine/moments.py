"""From scored candidates to sums per score bin and group: exact edges, then one pass over the rows."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.brought import brought, brought_in_order
from evenhand.engine.clusters import Use, group_code, multiplied_apart, tally_clusters
from evenhand.engine.counted_outcomes import counted_edges, counted_ends, counted_moments, reach_of
from evenhand.engine.quantiles import quantile_means, quantiles_within, rank_of
from evenhand.engine.queries_outcomes import shares_of
from evenhand.engine.sketches import sketched_moments, sketched_quantiles
from evenhand.labels import in_order
from evenhand.tallies.moments import POWERS, Ints, Moments, steady_slope
from evenhand.tallies.rows import Rows
from evenhand.views.columns import flag
from evenhand.views.outcomes import Checked, Outcomes, refuse_many
from evenhand.views.tables import to_polars

LOSS = 1e-3
"""Sums are taken again around better centres when less than this share of them is what matters."""

NEIGHBOURS = 4
"""Bins measured from one score: looking up an origin costs as much as several sums, and neighbours lie close together."""

REACH = 4
"""How many times its width a bin may lie away from there: further off, most of its squares would be that distance."""


GRADES = 8
"""Outcomes of so few different values are grouped by, not multiplied: their powers need no sums of their own."""


Range = tuple[float, float]


def score_edges(
    view: Checked, wanted: Sequence[tuple[Sequence[int], Range]], ends: Range, rows: Rows | None = None
) -> list[list[Floats]]:
    """For each number of bins of each range of scores the distinct inner edges: exact inverted-CDF quantiles of its rows.

    `ends` are those of all scores in scope; `rows` are all that is in scope, where they were read already.
    """
    shares = [shares_of(bins) for bins, _ in wanted]
    if rows is not None:
        scores = [np.sort(rows.within(*part).score) for _, part in wanted]
        held = [at[[rank_of(share, len(at)) - 1 for share in own]] for own, at in zip(shares, scores, strict=True)]
        return [_inner(bins, own, at, part[1]) for (bins, part), own, at in zip(wanted, shares, held, strict=True)]
    if view.counted is not None:
        found_in = [counted_edges(view, reach_of(view, *part)) for _, part in wanted]
        known = [dict(zip(view.counted.edges, at, strict=True)) for at in found_in]
        held = [np.array([at[share] for share in own]) for own, at in zip(shares, known, strict=True)]
        return [_inner(bins, own, at, part[1]) for (bins, part), own, at in zip(wanted, shares, held, strict=True)]
    if view.sketch is not None and view.sketch.looked is not None:
        held = [sketched_quantiles(view.sketch, own, part) for own, (_, part) in zip(shares, wanted, strict=True)]
        return [_inner(bins, own, at, part[1]) for (bins, part), own, at in zip(wanted, shares, held, strict=True)]
    asked = [(own, part) for own, (_, part) in zip(shares, wanted, strict=True) if own]
    found = iter(quantiles_within(view.scope, "score", asked, ends) if asked else ())
    edges = [next(found) if own else np.zeros(0) for own in shares]
    return [_inner(bins, own, at, part[1]) for (bins, part), own, at in zip(wanted, shares, edges, strict=True)]


def mean_edges(view: Checked, bins: Sequence[int], ends: Range, fewest: int) -> list[Floats]:
    """The same where an edge is the mean of `fewest` scores around it, since it leaves and is else somebody's own score."""
    shares = shares_of(bins)
    if view.counted is not None:
        found = counted_edges(view, "shared")
        return _inner(bins, shares, found if len(found) else np.full(len(shares), ends[1]), ends[1])
    edges = quantile_means(view.scope, "score", shares, ends, fewest) if shares else np.zeros(0)
    return _inner(bins, shares, edges, ends[1])


def _inner(bins: Sequence[int], shares: Sequence[Fraction], edges: Floats, high: float) -> list[Floats]:
    found = dict(zip(shares, edges, strict=True))
    return [np.unique([e for d in range(1, b) if (e := found[Fraction(d, b)]) < high]).astype(np.float64) for b in bins]


def shared_ends(view: Checked, low: float, high: float, fewest: int) -> tuple[float, float]:
    """The ends of a scope as they may leave: the mean of its `fewest` lowest scores, and of its highest."""
    if view.counted is not None:
        return counted_ends(view)
    least, most = quantile_means(view.scope, "score", [Fraction(0), Fraction(1)], (low, high), fewest).tolist()
    return float(least), float(most)


def tally_moments(
    view: Checked, edges: Floats, low: float, high: float, *, clustered: bool = False, shared: bool = False
) -> tuple[Outcomes, Moments]:
    """The view with its groups, and sums per bin and group over the rows in scope; bins are right-closed, with these inner edges.

    Groups are found in the same pass, where nobody has before. `shared` : a query has sums of the scope apart, whatever its ends.
    """
    if view.counted is not None:
        return counted_moments(view, edges, high, "shared" if shared else reach_of(view, low, high))
    every = Use(0, len(edges) + 1, np.arange(len(edges) + 1))
    known, (moments,) = _tallied(view, edges, (low, high), [every], clustered=clustered)
    return known, moments


def tally_apart(
    view: Outcomes, edges: Floats, ends: Range, wide: Floats, *, clustered: bool = False
) -> tuple[Outcomes, Moments, Moments]:
    """The view with the sums of its groups; sums over the rows with scores from one end to the other, in bins with these inner
    edges, and over all rows, in `wide` ones.

    One pass: bins that end wherever one of either kind does are joined afterwards.
    """
    (low, high), (least, most) = ends, view.score_ends
    if view.counted is not None:
        inside, over_all = (counted_moments(view, *one)[1] for one in ((edges, high, "shared"), (wide, most, "all")))
        return view, inside, over_all
    outer = [*([np.nextafter(low, -np.inf)] if low > least else []), *([high] if high < most else [])]
    every = np.unique(np.concatenate([edges, wide, outer]))
    uses = [Use.between(every, edges, low, high), Use.between(every, wide, least, most)]
    known, (inside, over_all) = _tallied(view, every, (least, most), uses, clustered=clustered)
    return known, inside, over_all


def _tallied(
    view: Checked, edges: Floats, ends: Range, uses: Sequence[Use], *, clustered: bool
) -> tuple[Outcomes, list[Moments]]:
    """Sums per bin and group, joined as each of the `uses` says.

    A first pass measures from the edges and the overall mean. Where that would lose digits to cancellation (outcomes that
    follow the score almost exactly, scores crowded in a corner of a wide bin) a second pass measures from fitted lines.
    """
    origin = _origins(edges, ends, uses[0])
    rows = view.scope.with_columns(_bin(edges).alias("bin"))
    known, tally = _around(view, edges, ends, origin) or _around_mean(view, rows, origin)
    labels = known.labels
    if any(_loses_digits(use.of(tally)) for use in uses):
        better = tally.shifted(_mean_scores(tally))
        lines = (better.origin, *_fitted(better))
        tally = _moments(_summed(_from_lines(rows, labels, *lines), view), labels, *lines)
    if not clustered:
        return known, [use.of(tally) for use in uses]
    if multiplied_apart(rows) and not tally.slope.any():
        # Seen from afar, nothing but its size would be left of a large cluster once it is squared.
        better = tally.shifted(_mean_scores(tally))
        tally = better.measured_from(*_fitted(better))
    lined = _from_lines(rows, labels, tally.origin, tally.level, tally.slope)
    return known, tally_clusters(lined, known, tally, uses)


def _around(view: Checked, edges: Floats, ends: Range, origin: Floats) -> tuple[Outcomes, Moments] | None:
    """The view and its sums around the origins and the overall mean, where the check has made them already."""
    if not isinstance(view, Outcomes) or view.sketch is None or ends != view.score_ends:
        return None
    tally = sketched_moments(view.sketch, edges, origin, view.outcome_mean, view.outcome_ends)
    return None if tally is None else (view, tally)


def _around_mean(view: Checked, rows: nw.LazyFrame[Any], origin: Floats) -> tuple[Outcomes, Moments]:
    """The same by a pass over the rows, which have their bin."""
    cells = _cells_from_mean(_from_origin(rows, origin), view)
    if not isinstance(view, Outcomes):
        refuse_many(cells["group"].n_unique(), f"group={view.asked[1]!r}")
    labels = view.labels if isinstance(view, Outcomes) else in_order(cells["group"].unique())
    level = np.full((len(origin), len(labels)), view.outcome_mean)
    tally = _moments(cells, labels, origin, level, np.zeros_like(level))
    return view if isinstance(view, Outcomes) else view.grouped(labels, **_per_group(tally)), tally


def tally_rows(view: Outcomes, edges: Floats) -> Rows:
    """The rows in scope one by one, ordered by what they hold; bins are right-closed, with these inner edges."""
    more = _more(view.scope)
    held = brought(view.scope, _bin(edges), ["group", "score", "outcome", *more], view.rows)
    return _in_no_bin(held, view, ["code", "score", "outcome", *more]).binned(edges)


def tally_ordered(view: Outcomes, edges: Floats) -> Rows:
    """The same in one bin, for who reads no more of a score than its order: from afar it is another number, in the same order.

    `edges` : scores that cut the rows into parts, the same for whatever they are.
    """
    more = _more(view.scope)
    held = brought_in_order(view.scope, _bin(edges), ["group", "outcome", *more], view.rows)
    return _in_no_bin(held, view, ["code", "score", "outcome", *more])


def _more(lazy: nw.LazyFrame[Any]) -> list[str]:
    names = lazy.collect_schema().names()
    return [name for name in ("weight", "cluster") if name in names]


def _in_no_bin(rows: Any, view: Outcomes, order: Sequence[str]) -> Rows:
    """Collected rows, ordered by what they hold."""
    held = _sorted(coded(rows, view.labels), *order)
    return _one_by_one(held, np.zeros(held.height, dtype=np.int64))


def read_few(view: Checked) -> tuple[Outcomes, Rows]:
    """The view with its groups, and all rows in its scope: one reading for all that is to be known of them."""
    more = _more(view.scope)
    found = to_polars(view.scope.select("group", "score", "outcome", *more))
    labels = in_order(found["group"].unique())
    refuse_many(len(labels), f"group={view.asked[1]!r}")
    held = coded(found, labels).sort("code", "score", "outcome", *more)
    rows = _one_by_one(held, np.zeros(held.height, dtype=np.int64))
    many, code, mass = len(labels), rows.group, rows.mass
    low, high = np.full(many, np.inf), np.full(many, -np.inf)
    np.minimum.at(low, code, rows.score)
    np.maximum.at(high, code, rows.score)
    sums = {"mass": mass, "score_sum": mass * rows.score, "outcome_sum": mass * rows.outcome}
    added = {name: np.bincount(code, column, many) for name, column in sums.items()}
    return view.grouped(labels, used=np.bincount(code, minlength=many), low=low, high=high, **added), rows


def tally_known(view: Outcomes, edges: Floats) -> Rows:
    """All rows of the view's groups whose outcome the table tells, and whether each was treated; nobody asks for their score.

    `edges` : scores that cut the rows into parts, the same for whatever they are.
    """
    outcome, more = nw.col("outcome"), _more(view.lazy)
    told = view.lazy.filter(~outcome.is_null()).filter(~outcome.is_nan())
    rows = coded(brought(told, _bin(edges), ["group", "outcome", "used", *more], view.rows), view.labels).drop_nulls(
        "code"
    )
    held = _sorted(rows, "code", "outcome", "used", *more).with_columns(score=0.0)
    known = _one_by_one(held, np.zeros(held.height, dtype=np.int64))
    return replace(known, treated=held["used"].to_numpy().astype(bool))


def _sorted(held: Any, *columns: str) -> Any:
    """Collected rows in order of these columns: a stable sort by each, last one first, is faster than one by all of them."""
    for name in reversed(columns):
        held = held.sort(name, maintain_order=True)
    return held


def _one_by_one(held: Any, bins: Ints) -> Rows:
    """Collected rows as arrays."""
    score, outcome = (held[name].to_numpy().astype(np.float64) for name in ("score", "outcome"))
    weight = held["weight"].to_numpy().astype(np.float64) if "weight" in held.columns else None
    cluster = held["cluster"].rank("dense").to_numpy().astype(np.int64) - 1 if "cluster" in held.columns else None
    return Rows(score, outcome, bins, held["code"].to_numpy().astype(np.int64), weight, cluster)


def _centres(edges: Floats, low: float, high: float) -> Floats:
    """A score close to each bin, the same for a few neighbours that are no wider apart than they are wide: an edge in their midst."""
    if not len(edges):
        return np.array([low / 2 + high / 2])
    lower, upper, bins = np.append(low, edges), np.append(edges, high), len(edges) + 1
    widths = upper - lower
    if bins > 2:  # tails are long, and most of their rows are close to the edge
        widths[[0, -1]] = np.minimum(widths[[0, -1]], widths[[1, -2]])
    found: list[float] = []
    while len(found) < bins:
        first = len(found)
        for last in range(min(first + NEIGHBOURS, bins) - 1, first - 1, -1):
            at, block = edges[min((first + last) // 2, bins - 2)], slice(first, last + 1)
            away = np.maximum(lower[block] - at, at - upper[block])
            if first == last or np.all(away <= REACH * widths[block]):
                found += [at] * (last + 1 - first)
                break
    return np.array(found)


def _origins(edges: Floats, ends: Range, use: Use) -> Floats:
    """A score close to each fine bin: that of the bin of this use which it is joined into, or lies beyond."""
    bounds = np.concatenate([ends[:1], edges, ends[1:]])[use.first : use.last + 1]
    inner = bounds[1:-1][np.diff(use.into) > 0]
    place = np.clip(np.arange(len(edges) + 1) - use.first, 0, use.last - use.first - 1)
    return _centres(inner, bounds[0], bounds[-1])[use.into[place]]


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

    kinds = _kinds(view)
    columns = {f"{k}_{i}0": _product([*w, *[nw.col("u")] * i]) for k, w in kinds.items() for i in range(5) if w or i}
    cells = _collected(rows.with_columns(**columns).group_by("bin", "group", "outcome"), columns)
    y, v = pl.col("outcome"), pl.col("outcome") - view.outcome_mean
    powers = [(pl.col(f"{k}_{i}0") * v**j).sum().alias(f"{k}_{i}{j}") for k in kinds for i, j in POWERS]
    sides = {name: pl.col("rows").filter(side).sum() for name, side in (("above", y > least), ("below", y < most))}
    ends = pl.col("low").min(), pl.col("high").max()
    return cells.group_by("bin", "group").agg(pl.col("rows").sum(), *powers, *ends, **sides)


def _summed(rows: nw.LazyFrame[Any], view: Checked) -> Any:
    """Collected sums per bin and group of rows that have u and v."""
    least, most = view.outcome_ends
    u, v = nw.col("u"), nw.col("v")
    terms = [(f"{k}_{i}{j}", [*w, *[u] * i, *[v] * j]) for k, w in _kinds(view).items() for i, j in POWERS]
    columns = {name: _product(factors) for name, factors in terms if factors}
    columns |= {"above": flag(nw.col("outcome") > least), "below": flag(nw.col("outcome") < most)}
    return _collected(rows.with_columns(**columns).group_by("bin", "group"), columns)


def _kinds(view: Checked) -> dict[str, list[nw.Expr]]:
    """The sums that are kept, by the factors that every term of them has: the weight once, and for robust errors twice."""
    weight = nw.col("weight")
    return {"sum": [weight], "square": [weight, weight]} if view.weighted else {"sum": []}


def _collected(grouped: Any, columns: Iterable[str]) -> Any:
    """Rows, sums of these columns and the range of scores; rows without weights weigh one each."""
    ends = (nw.col("score").min().alias("low"), nw.col("score").max().alias("high"))
    cells = to_polars(grouped.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in columns), *ends))
    return cells if "sum_00" in cells.columns else cells.with_columns(sum_00=cells["rows"])


def _moments(cells: Any, labels: Sequence[Any], origin: Floats, level: Floats, slope: Floats) -> Moments:
    cells = coded(cells, labels)
    at = _cell(cells, labels)

    def place(name: str, blank: float = 0.0) -> Floats:
        out = np.full(level.size, blank)
        out[at] = cells[name].to_numpy()
        return out.reshape(level.shape)

    def powers(kind: str) -> Floats:
        sums = np.zeros((*level.shape, 5, 3))
        for i, j in POWERS:
            sums[..., i, j] = place(f"{kind}_{i}{j}")
        return sums

    weighted = "square_00" in cells.columns
    return Moments(
        powers("sum"), origin, level, slope, place("low", np.inf), place("high", -np.inf), place("above"), place("below"),
        squares=powers("square") if weighted else None, held=place("rows") if weighted else None,
    )  # fmt: skip


def _per_group(tally: Moments) -> dict[str, Floats]:
    """What a view knows of its groups, from sums over all of its rows."""
    mass, u, v = tally.mass, tally.sums[..., 1, 0], tally.sums[..., 0, 1]
    sums = {"score_sum": tally.origin[:, None] * mass + u, "outcome_sum": tally.level * mass + v}
    sums |= {"used": tally.rows, "mass": mass}
    ends = {"low": tally.low.min(0), "high": tally.high.max(0)}
    return ends | {name: found.sum(0) for name, found in sums.items()}


def _product(factors: Sequence[nw.Expr]) -> nw.Expr:
    return functools.reduce(operator.mul, factors)


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
    mass = tally.mass.sum(-1)
    offset = np.divide(tally.sums[..., 1, 0].sum(-1), mass, out=np.zeros_like(mass), where=mass > 0)
    return np.asarray(tally.origin + offset)


def _fitted(tally: Moments) -> tuple[Floats, Floats]:
    """Lines to measure from: the mean of each cell and the common slope of its bin."""
    mass = np.where(tally.mass > 0, tally.mass, 1.0)
    offset = tally.sums[..., 1, 0] / mass
    within = (tally.sums[..., 2, 0] - offset * tally.sums[..., 1, 0]).sum(-1)
    across = (tally.sums[..., 1, 1] - offset * tally.sums[..., 0, 1]).sum(-1)
    slope = steady_slope(across, within, tally.sums[..., 2, 0].sum(-1))
    level = tally.level + tally.sums[..., 0, 1] / mass - slope[:, None] * offset
    return level, np.repeat(slope[:, None], tally.rows.shape[1], axis=1)


def _loses_digits(tally: Moments) -> bool:
    """Whether squares around the centres are much larger than what is left of them in the regression."""
    better = tally.shifted(_mean_scores(tally))
    residual = better.measured_from(*_fitted(better))
    varies = tally.low.min(-1) < tally.high.max(-1)
    spread, around = better.sums[..., 2, 0].sum(-1), tally.sums[..., 2, 0].sum(-1)
    left, before = residual.sums[..., 0, 2], tally.sums[..., 0, 2]
    # Cells of one outcome have no squares of their own, whatever is left.
    varied = (tally.above > 0) & (tally.below > 0)
    unsure = varied & (LOSS * left < residual.unsure)
    left, before = left.sum(-1), before.sum(-1)
    lost = np.any(varies & (spread < LOSS * around)) or np.any((before > 0) & (left < LOSS * before))
    return bool(lost or unsure.any())
