"""From scores counted by part to the ends of every group and to exact quantiles: one pass that looks into a few parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from evenhand.cards import Floats
from evenhand.engine.quantiles import Range, rank_of
from evenhand.labels import in_order
from evenhand.tallies.moments import Ints
from evenhand.views.outcomes import Checked
from evenhand.views.sketch import Sketch
from evenhand.views.tables import in_batches

MOST_APART = 1 << 22
"""Different scores that are looked at one by one."""

TOGETHER = 1 << 20
"""Scores that are held before the same ones of several batches are counted together."""

TIED = 8
"""Times that a score must come in a sample to be one that many rows have."""

Bools = np.typing.NDArray[np.bool_]


def look_into(view: Checked, shares: Sequence[Fraction]) -> Checked:
    """The view with its groups, the ends of their scores and what it takes to tell these quantiles, of all rows or of the common
    support; the same view without a sketch where there is none, or where too many scores would have to be looked at.

    The sums per group are not known yet.
    """
    sketch = view.sketch
    if sketch is not None and _apart(sketch, _wanted(sketch, shares)) > MOST_APART:
        sketch = sketch.again(view.scope)
    if sketch is None or _apart(sketch, wanted := _wanted(sketch, shares)) > MOST_APART:
        return replace(view, sketch=None)
    labels = in_order(sketch.labels)
    at, unknown = [sketch.labels.index(label) for label in labels], np.full(len(labels), np.nan)
    used = sketch.used[at]
    ends = {"low": sketch.low[at], "high": sketch.high[at]}
    known = view.grouped(labels, used=used, mass=used, **ends, score_sum=unknown, outcome_sum=unknown)
    values, rows = _looked(view, sketch, wanted)
    return replace(known, sketch=replace(sketch, values=values, rows=rows, looked=True))


def sketched_quantiles(sketch: Sketch, shares: Sequence[Fraction], part: Range) -> Floats:
    """Quantiles of the rows with scores from one end to the other, out of parts that were looked into."""
    values, held = sketch.values, sketch.rows
    place, upto = sketch.ruler.part(values), np.cumsum(held)
    before = np.append(0, upto)[np.searchsorted(place, place)]  # rows that were looked at in the parts before
    upto += (np.cumsum(sketch.counts) - sketch.counts)[place] - before
    first, last = _rows_below(sketch, part[0], upto - held), _rows_below(sketch, part[1], upto)
    ranks = [first + rank_of(share, last - first) for share in shares]
    return np.asarray(values[np.searchsorted(upto, ranks)], dtype=np.float64)


def _rows_below(sketch: Sketch, end: float, rows: Ints) -> int:
    """Rows below the low end of a range, or up to the high one, where `rows` says that of each value that was looked at."""
    if end == sketch.low.min():
        return 0
    if end == sketch.high.max():
        return int(sketch.counts.sum())
    return int(rows[np.searchsorted(sketch.values, end)])


def _wanted(sketch: Sketch, shares: Sequence[Fraction]) -> Bools:
    """Parts that may hold one of the quantiles, and those in which the common support begins and ends, if it does not where
    all scores do.
    """
    reach, wanted = np.cumsum(sketch.counts), np.zeros(len(sketch.counts), dtype=bool)
    if not shares:
        return wanted
    low, high, total = sketch.low.max(), sketch.high.min(), int(reach[-1])
    scopes = [((0, total), (0, total))]
    if low <= high:
        one, other = sketch.ruler.part(np.array([low, high])).tolist()
        firsts, lasts = [0, 0], [total, total]
        if low > sketch.low.min():
            wanted[one], firsts = True, [int(reach[one] - sketch.counts[one]), int(reach[one])]
        if high < sketch.high.max():
            wanted[other], lasts = True, [int(reach[other] - sketch.counts[other]), int(reach[other])]
        scopes.append(((firsts[0], lasts[0]), (firsts[1], lasts[1])))
    for share in shares:
        for scope in scopes:
            ranks = [first + rank_of(share, max(last - first, 1)) for first, last in scope]
            one, other = np.searchsorted(reach, np.clip(ranks, 1, total))
            wanted[one : other + 1] = True
    return wanted


def _apart(sketch: Sketch, wanted: Bools) -> float:
    """About how many different scores these parts hold: what comes often in the sample is one score."""
    here = sketch.sample[wanted[sketch.ruler.part(sketch.sample)]]
    often = np.unique(here, return_counts=True)[1]
    return float(sketch.counts[wanted].sum()) * (float(often[often < TIED].sum()) / len(here) if len(here) else 1.0)


def _looked(view: Checked, sketch: Sketch, wanted: Bools) -> tuple[Floats, Ints]:
    """The scores in these parts, and how many rows have each."""
    start, scale = sketch.ruler.start, sketch.ruler.scale
    if sketch.whole and scale == 1.0 and start.is_integer() and not wanted[[0, -1]].any():  # a part is one number
        parts = np.flatnonzero(wanted & (sketch.counts > 0))
        return np.asarray(start + parts, dtype=np.float64), sketch.counts[parts]
    held: list[Floats] = []
    rows: list[Ints] = []
    if wanted.any():
        for batch in in_batches(view.scope.select("score")):
            scores = batch["score"].to_numpy()
            values, many = np.unique(scores[wanted[sketch.ruler.part(scores)]], return_counts=True)
            held.append(values)
            rows.append(many)
            if sum(map(len, held)) > TOGETHER:
                found = _together(held, rows)
                held, rows = [found[0]], [found[1]]
    return _together(held, rows)


def _together(scores: Sequence[Floats], rows: Sequence[Ints]) -> tuple[Floats, Ints]:
    """Scores in order, those of several rows once."""
    if not scores:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    values, where = np.unique(np.concatenate(scores), return_inverse=True)
    return values, np.bincount(where, np.concatenate(rows), len(values)).astype(np.int64)
