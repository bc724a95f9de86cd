"""Points behind the pictures of a prefix audit: shares by rank with the band of random orders, requests, strips."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.chance import share_band
from evenhand.metrics.template import Scores
from evenhand.tallies.placed import Placed
from evenhand.tallies.placement import Batch, Ints, Placement

MOST_SLICES = 12
MOST_GROUPS = 8
MOST_RANKS = 120
MOST_REQUESTS = 150
MOST_STRIPS = 40
STRIP_DEPTH = 100

Columns = dict[str, list[Any]]


def curves_of(
    placed: Placed,
    p: Placement,
    scores_by_metric: Sequence[tuple[str, Scores]],
    names: tuple[str, ...],
    level: float,
    fewest: int,
    small: Sequence[bool],
) -> dict[str, Columns]:
    """Everything that pictures of these findings need; slices with too few requests are left out.

    One request is fewer than any `min_units` above 1: then none is shown by itself.
    """
    single = fewest <= 1
    if p.rows is not None:
        return {"requests": _requests(placed, scores_by_metric, names)} if single else {}
    seen = p.sides() if p.protected is not None else p
    shares: Columns = {}
    shown = [s for s in range(len(placed.slices)) if placed.starts[s + 1] > placed.starts[s] and not small[s]]
    for s in shown[:MOST_SLICES]:
        points = _shares(seen.take(placed.rankings_of(s)), level, fewest)
        _append(shares, dict(zip(names, placed.slices[s], strict=True)), points)
    if not single:
        return {"prefix": shares}
    return {
        "prefix": shares,
        "requests": _requests(placed, scores_by_metric, names),
        "strip": _strips(placed, p, scores_by_metric, names, shown),
    }


def _append(into: Columns, labels: dict[str, Any], points: Columns) -> None:
    size = len(next(iter(points.values()), []))
    for name, value in labels.items():
        into.setdefault(name, []).extend([value] * size)
    for name, column in points.items():
        into.setdefault(name, []).extend(column)


def _shares(p: Placement, level: float, fewest: int) -> Columns:
    """Mean share of each group among the first i, its share of the whole lists, and where random orders would keep it."""
    depth = int(p.lengths.max(initial=0))
    largest = np.argsort(-p.counts.sum(0), kind="stable")[:MOST_GROUPS]
    chosen = largest if p.protected is None else np.arange(2)
    totals = {g: np.zeros((4, depth)) for g in chosen.tolist()}
    for b in p.batches():
        for g, total in totals.items():
            for row, part in enumerate(_sums(b, p.counts[b.where], g)):
                total[row, : b.width] += part
    ranks = _thinned(depth)
    points: Columns = {"group": [], "rank": [], "share": [], "overall": [], "low": [], "high": [], "rankings": []}
    for g, total in totals.items():
        at = ranks[total[0, ranks] >= max(1, fewest)]
        many, share, overall, spread = total[:, at]
        share, overall = share / many, overall / many
        low, high = _band(p, g, at, overall, np.sqrt(spread) / many, level)
        points["group"] += [str(p.groups[g])] * len(at)
        columns = {"rank": at + 1, "share": share, "overall": overall, "low": low, "high": high, "rankings": many}
        for name, column in columns.items():
            points[name] += column.tolist()
    return points


def _sums(b: Batch, counts: Floats, g: int) -> tuple[Any, ...]:
    """By rank, over lists that reach it: how many, the group's share so far and of the whole, and the share's variance."""
    sizes = counts.sum(1)[:, None]
    q = counts[:, g, None] / np.maximum(sizes, 1)
    spread = q * (1 - q) / np.maximum(sizes - 1, 1)
    if b.complete:  # nothing but the counts differs between lists
        cumulative = np.cumsum(np.count_nonzero(b.codes == g, axis=0))
        return len(q), cumulative / b.seen, q.sum(), spread.sum() * (b.width - b.seen) / b.seen
    reached = (np.arange(b.width) < b.lengths[:, None]) & (b.seen > 0)
    seen = np.maximum(b.seen, 1)
    parts = (1, b.cum_counts(g) / seen, q, spread * (sizes - b.seen) / seen)
    return tuple(np.where(reached, part, 0).sum(0) for part in parts)


def _band(p: Placement, g: int, at: Ints, overall: Floats, error: Floats, level: float) -> tuple[Floats, Floats]:
    """Exact for a single list (hypergeometric), normal for the mean of several."""
    if len(p) == 1:
        labelled = np.cumsum(p.codes >= 0, dtype=np.int64)[at]
        return share_band(int(p.counts[0, g]), int(p.labelled[0]), labelled, level)
    z = NormalDist().inv_cdf((1 + level) / 2)
    return np.clip(overall - z * error, 0, 1), np.clip(overall + z * error, 0, 1)


def _thinned(depth: int) -> Ints:
    """All near ranks and ever fewer of the far ones, the last one always."""
    if depth <= MOST_RANKS:
        return np.arange(depth)
    near = np.arange(MOST_RANKS // 2)
    far = np.unique(np.geomspace(len(near), depth - 1, MOST_RANKS - len(near)).round().astype(np.int64))
    return np.concatenate([near, far])


def _requests(placed: Placed, scores_by_metric: Sequence[tuple[str, Scores]], names: tuple[str, ...]) -> Columns:
    """Value and chance level of each request, ordered by value; of many, an even selection with both ends."""
    points: Columns = {}
    for text, scores in scores_by_metric:
        for s, labels in enumerate(placed.slices):
            rankings = placed.rankings_of(s)
            rankings = rankings[~np.isnan(scores.values[rankings])]
            if not len(rankings):
                continue
            ordered = rankings[np.argsort(-scores.values[rankings], kind="stable")]
            most = max(2, MOST_REQUESTS // max(1, len(placed.slices)))
            selected = ordered[
                np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(np.int64))
            ]
            columns = {
                "metric": [text] * len(selected),
                "request": [str(name) for name in placed.requests.gather(selected).to_list()],
                "estimate": scores.values[selected].tolist(),
                "chance": scores.chances[selected].tolist(),
                "items": placed.placement.labelled[selected].tolist(),
            }
            _append(points, dict(zip(names, labels, strict=True)), columns)
    return points


def _strips(
    placed: Placed,
    p: Placement,
    scores_by_metric: Sequence[tuple[str, Scores]],
    names: tuple[str, ...],
    shown: list[int],
) -> Columns:
    """The labels of rankings rank by rank: all of few, of many those furthest from and closest to the whole."""
    rankings = np.concatenate([placed.rankings_of(s) for s in shown]) if shown else np.zeros(0, dtype=np.int64)
    ordered = rankings[np.argsort(-scores_by_metric[0][1].values[rankings], kind="stable")]  # undefined ones last
    half = MOST_STRIPS // 2
    selected = ordered if len(ordered) <= MOST_STRIPS else np.concatenate([ordered[:half], ordered[-half:]])
    slice_of = np.repeat(np.arange(len(placed.slices)), np.diff(placed.starts))
    points: Columns = {}
    for i in selected.tolist():
        codes = p.codes[p.starts[i] : p.starts[i + 1]][:STRIP_DEPTH]
        columns: Columns = {
            "request": [str(placed.requests[i])] * len(codes),
            "rank": list(range(1, len(codes) + 1)),
            "group": [None if c < 0 else str(p.groups[c]) for c in codes.tolist()],
        }
        _append(points, dict(zip(names, placed.slices[slice_of[i]], strict=True)), columns)
    return points
