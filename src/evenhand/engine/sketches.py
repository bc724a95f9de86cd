"""From sums by part of the scores to the ends of every group, exact quantiles and sums per bin: mostly without another pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.engine.quantiles import Range, rank_of
from evenhand.labels import in_order
from evenhand.tallies.moments import Ints, Moments
from evenhand.views.outcomes import Checked
from evenhand.views.sketch import Sketch, Wish


def look_into(view: Checked, wish: Wish) -> Checked:
    """The view with its groups, the ends of their scores and what it takes to fulfil this wish, for all rows or for the common
    support; the same view without a sketch where there is none, or where too many rows would have to be kept one by one.
    """
    sketch = view.sketch
    if sketch is not None:
        wanted = sketch.wanted(wish)
        sketch = sketch.keeping(view.scope, wanted)
    if sketch is None:
        return replace(view, sketch=None)
    labels = in_order(sketch.labels)
    sketch = sketch.regrouped(sketch.labels, labels)
    values, rows = _looked(sketch, wanted)
    low, high = sketch.ends
    used, origin = sketch.sums[..., 0, 0].sum(0), sketch.places.origins()[:, None]
    sums = {
        "score_sum": (origin * sketch.sums[..., 0, 0] + sketch.sums[..., 1, 0]).sum(0),
        "outcome_sum": sketch.level * used + sketch.sums[..., 0, 1].sum(0),
    }
    known = view.grouped(labels, used=used, mass=used, low=low, high=high, **sums)
    return replace(known, sketch=replace(sketch, values=values, rows=rows, looked=wanted))


def sketched_quantiles(sketch: Sketch, shares: Sequence[Fraction], part: Range) -> Floats:
    """Quantiles of the rows with scores from one end to the other, out of parts that were looked into."""
    values, held, counts = sketch.values, sketch.rows, sketch.counts
    place, upto = sketch.places.ruler.part(values), np.cumsum(held)
    before = np.append(0, upto)[np.searchsorted(place, place)]  # rows that were looked at in the parts before
    upto += (np.cumsum(counts) - counts)[place] - before
    first, last = _rows_below(sketch, part[0], upto - held), _rows_below(sketch, part[1], upto)
    ranks = [first + rank_of(share, last - first) for share in shares]
    return np.asarray(values[np.searchsorted(upto, ranks)], dtype=np.float64)


def sketched_moments(sketch: Sketch, edges: Floats, origin: Floats, level: float, ends: Range) -> Moments | None:
    """Sums over all rows in right-closed bins with these inner edges, u measured from an origin per bin and v from one level;
    None where rows next to an edge were not looked at. `ends` are those of the outcomes.
    """
    places, groups, bins = sketch.places, len(sketch.labels), len(edges) + 1
    ends_in = places.ruler.part(edges)
    if sketch.looked is None or not sketch.looked[ends_in].all():
        return None
    split = np.zeros_like(sketch.looked)
    split[ends_in] = True
    part = np.arange(len(split))
    into = np.searchsorted(ends_in, part)  # edges in parts before this one
    if places.modes is not None:
        at_mode = np.where(split, np.searchsorted(edges, places.modes), into)
        into = np.stack([into, at_mode], axis=1).ravel()
    alone = np.flatnonzero(~places.loose(split) & (sketch.sums[..., 0, 0].sum(1) > 0))
    of_places = Moments(
        sketch.sums[alone], places.origins()[alone], *_level(sketch.level, (len(alone), groups)),
        sketch.low[alone], sketch.high[alone], sketch.above[alone], sketch.below[alone],
    )  # fmt: skip
    rows = sketch.kept.at(places.loose(split)[places.of_scores(sketch.kept.score)])
    of_rows = Moments.of(
        rows.score, rows.outcome, np.searchsorted(edges, rows.score), rows.code, shape=(bins, groups), ends=ends,
        around=(origin, *_level(level, (bins, groups))),
    )  # fmt: skip
    joined = np.concatenate([into[alone], np.arange(bins)])
    order = np.argsort(joined, kind="stable")
    of_places = of_places.measured_from(*_level(level, (1, groups))).shifted(origin[into[alone]])
    return _beside(of_places, of_rows, order).merged(joined[order])


def _level(level: float, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    return np.full(shape, level), np.zeros(shape)


_COLUMNS = ("sums", "origin", "level", "slope", "low", "high", "above", "below")


def _beside(one: Moments, other: Moments, order: Ints) -> Moments:
    """The bins of one and those of the other, in this order."""
    both: dict[str, Any] = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])[order] for name in _COLUMNS
    }
    for name, parts in (("lost", (one.unsure, other.unsure)), ("blurred", (one.blur, other.blur))):
        both[name] = np.concatenate(parts)[order]
    return replace(one, **both)


def _rows_below(sketch: Sketch, end: float, rows: Ints) -> int:
    """Rows below the low end of a range, or up to the high one, where `rows` says that of each value that was looked at."""
    if end == sketch.low.min():
        return 0
    if end == sketch.high.max():
        return int(sketch.counts.sum())
    return int(rows[np.searchsorted(sketch.values, end)])


def _looked(sketch: Sketch, parts: Any) -> tuple[Floats, Ints]:
    """The scores in these parts, in order, and how many rows have each."""
    values, rows = np.unique(sketch.kept.score, return_counts=True)
    if sketch.places.modes is None:
        return values, rows
    many = sketch.sums[1::2, :, 0, 0].sum(1)
    at = np.flatnonzero(parts & (many > 0))
    values, rows = np.append(values, sketch.places.modes[at]), np.append(rows, many[at].astype(np.int64))
    order = np.argsort(values, kind="stable")
    return values[order], rows[order]
