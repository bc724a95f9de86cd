"""Least and most of a metric over all ways to label the items that have no label (F19).

Every labeling is tried where there are at most `MOST`. Otherwise the attention of unlabelled items is shared out freely: the
largest distance from a target is then reached with one label for all, and the smallest is that of the two sets of groups
that lie furthest apart whatever the labels, by the data-processing inequality.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.metrics.prefix import looked_at, scores_of
from evenhand.tallies.exposure import Exposed
from evenhand.tallies.placement import Placement
from evenhand.tallies.ragged import Bools, Ints

MOST = 4_096
"""Labelings that are tried one by one: some milliseconds for a list."""


@dataclass(frozen=True)
class Range:
    """(n,) least and most of a metric; where a labeling reaches both, and where some labeling leaves it undefined."""

    least: Floats
    most: Floats
    reached: Bools
    may_lack: Bools

    @classmethod
    def from_values(cls, values: Floats, *, reached: bool = True) -> Range:
        """From (labelings, n) values, NaN where undefined."""
        undefined = np.isnan(values)
        least, most = np.where(undefined, np.inf, values).min(0), np.where(undefined, -np.inf, values).max(0)
        never = undefined.all(0)
        return cls(
            np.where(never, np.nan, least),
            np.where(never, np.nan, most),
            np.full(len(least), reached),
            np.asarray(undefined.any(0) & ~never),
        )

    def part(self, rows: slice) -> Range:
        return Range(self.least[rows], self.most[rows], self.reached[rows], self.may_lack[rows])

    def mean(self, weights: Floats) -> tuple[float, float]:
        """Least and most of the mean over those that are defined."""
        return -_largest_mean(-self.least, weights, self.may_lack), _largest_mean(self.most, weights, self.may_lack)


def _largest_mean(values: Floats, weights: Floats, may_lack: Bools) -> float:
    """The largest weighted mean: of all that must be counted, and of those others that raise it."""
    used = ~np.isnan(values) & (weights > 0)
    must, may = used & ~may_lack, used & may_lack
    total, mass = float(values[must] @ weights[must]), float(weights[must].sum())
    order = np.argsort(-values[may], kind="stable")
    for value, weight in zip(values[may][order].tolist(), weights[may][order].tolist(), strict=True):
        if mass > 0 and value <= total / mass:
            break
        total, mass = total + value * weight, mass + weight
    return total / mass if mass > 0 else np.nan


def count_labelings(items: Any, groups: int) -> Any:
    """How many labelings so many items have; far beyond `MOST`, some larger number."""
    return float(groups) ** np.minimum(items, 60)


def all_labelings(items: int, groups: int) -> Ints:
    """(labelings, items) every way to give items a group.

    >>> all_labelings(2, 2).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    number = np.arange(round(float(groups) ** items))[:, None]
    return np.asarray(number // np.array([groups**i for i in range(items)], dtype=np.int64) % max(groups, 1))


def one_hot(labelings: Ints, groups: int) -> Floats:
    return np.asarray((labelings[..., None] == np.arange(groups)).astype(np.float64))


def range_of_shares(spec: MetricSpec, seen: Exposed, free: Floats, slack: Floats) -> Range:
    """A range that holds for every way to share out `free` attention, and `slack` of the target, over the groups."""
    groups, corners = seen.received.shape[-1], np.eye(seen.received.shape[-1])
    target = np.broadcast_to(seen.target, seen.received.shape)
    received = seen.received + corners[:, None, None, :] * free[:, None]
    aims = target + corners[None, :, None, :] * slack[:, None]
    shape = (groups, groups, *seen.received.shape)
    ends = replace(seen, received=np.broadcast_to(received, shape), target=np.broadcast_to(aims, shape))
    values = np.asarray(spec.on(ends)).reshape(groups * groups, -1)
    corner = Range.from_values(values, reached=False)
    # near a corner without a value (odds of a share of 1) the metric grows without bound
    most = np.where(corner.may_lack, np.inf, corner.most)
    if spec.params.get("signed"):
        return replace(corner, most=most)
    whole = seen.whole + free
    with np.errstate(divide="ignore", invalid="ignore"):
        share = seen.received / whole[:, None]
    above = share > target
    first = np.where(above, share, 0.0).sum(-1)
    second = 1 - np.where(above, 0.0, target).sum(-1)
    sides = [np.stack([x, 1 - x], axis=-1) for x in (first, second)]
    turned = [np.where(above[:, :1], x, x[:, ::-1]) for x in sides]
    distance = spec.on(replace(seen, received=turned[0], target=turned[1], protected=(0,)))
    least = np.where(first > second + 1e-12, distance, 0.0)  # shares add up to 1 but for rounding
    return replace(corner, least=np.where(np.isnan(corner.least), np.nan, np.fmin(least, corner.least)), most=most)


def range_over_rankings(spec: MetricSpec, p: Placement, unlabelled: Ints) -> Range:
    """Least and most of a prefix metric on each ranking; `unlabelled` are places of its codes.

    A ranking with too many labelings has the range that the metric has at all.
    """
    if "sides" in spec.metric.reads(**spec.params) and p.protected is not None:
        p = p.sides()
    many, groups = len(p), len(p.groups)
    edges = np.searchsorted(unlabelled, p.starts)
    labelings = count_labelings(np.diff(edges), groups)
    few = labelings <= MOST
    least, most = (np.full(many, float(end)) for end in spec.span)
    may_lack = ~few
    cells = np.cumsum(np.where(few, labelings * p.lengths, 0))
    for at in np.split(np.flatnonzero(few), np.flatnonzero(np.diff(cells[few] // (1 << 19))) + 1):
        codes, counts = [p.codes[:0]], []
        for r in at.tolist():
            first, last = int(p.starts[r]), int(p.starts[r + 1])
            places = unlabelled[edges[r] : edges[r + 1]] - first
            labels = all_labelings(len(places), groups)
            lists = np.tile(p.codes[first:last], (len(labels), 1))
            lists[:, places] = labels
            codes.append(lists.reshape(-1))
            counts.append(len(labels))
        lengths = np.repeat(p.lengths[at], counts)
        tried = replace(p, codes=np.concatenate(codes), starts=np.concatenate([[0], np.cumsum(lengths)]))
        values = np.asarray(scores_of(spec, looked_at(spec, tried), chance=False).values)
        parts = np.split(values, np.cumsum(counts)[:-1]) if counts else []
        for r, part in zip(at.tolist(), parts, strict=True):
            ends = Range.from_values(part[:, None])
            least[r], most[r], may_lack[r] = ends.least[0], ends.most[0], ends.may_lack[0]
    return Range(least, most, few, may_lack)
