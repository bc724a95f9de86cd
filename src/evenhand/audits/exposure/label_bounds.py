"""Least and most of exposure metrics over all labelings of the unlabelled items (F19)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.audits.exposure.measures import ExposureMetricSpec, ExposureTallies
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.metrics.labelings import (
    MOST,
    Range,
    all_labelings,
    count_labelings,
    one_hot,
    range_of_shares,
    range_over_lists,
)
from evenhand.tallies.exposure import Exposed, Exposure, targets
from evenhand.tallies.group_exposure import GroupExposure, ItemExposure
from evenhand.tallies.requests import Measured

MOST_CELLS = 1 << 24
"""Labelings times rankings times groups that are held at once: 128 MB."""

RATIOS = ("dp", "log_dp")


def has_bounds(spec: ExposureMetricSpec) -> bool:
    """Whether the labelings of a metric can be bounded."""
    if not spec.browsing.is_by_rank:
        return False
    if spec.needs(Exposed):
        return bool(spec.target != "relevant")
    return spec.card.name in (*RATIOS, "exposure_share") or (spec.card.name == "eed" and spec.norms is None)


def refuse_unbounded(spec: ExposureMetricSpec) -> None:
    if not has_bounds(spec):
        raise EvenhandError(
            f"metrics={spec.text!r} has no bounds over labelings. Name awrf, dp, log_dp, exposure_share or eed with attention by "
            "rank, or pass unknown='drop'."
        )


def with_bounds(spec: ExposureMetricSpec, measured: Measured, t: ExposureTallies, items: ItemExposure) -> Measured:
    """The metric with `least` and `most` in the row of each slice, and a note where no labeling may reach them."""

    def cells(s: int, estimate: float) -> dict[str, Any]:
        if not t.policy.labels:
            return dict(measured.cells(s, estimate))
        rankings = t.sums.rankings_of(t.sums.part(s))
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = _bounds(spec, t, s, items.within(rankings))
        least, most, is_exact = ends
        return {**measured.cells(s, estimate), "least": least, "most": most, "code": "" if is_exact else "bound"}

    return replace(measured, cells=cells)


def _bounds(spec: ExposureMetricSpec, t: ExposureTallies, s: int, items: ItemExposure) -> tuple[float, float, bool]:
    return _list_bounds(spec, t, s, items) if spec.needs(Exposed) else _sum_bounds(spec, t, s, items)


def _pooled(t: ExposureTallies, s: int, items: ItemExposure, values: Floats) -> Floats:
    """(items,) attention of each item over the requests of a slice, weighted."""
    sums = t.sums
    scale = (sums.weight[sums.request_of] * sums.share)[sums.rankings_of(sums.part(s))]
    return np.bincount(items.items, values * scale[items.rankings], minlength=items.many).astype(np.float64)


def _sum_bounds(spec: ExposureMetricSpec, t: ExposureTallies, s: int, items: ItemExposure) -> tuple[float, float, bool]:
    """Bounds of a metric of exposure added up over requests."""
    tally = Exposure.from_sums(t.sums, t.policy, spec.browsing, t.sizes)
    part = t.sums.part(s)
    total = tally.with_sums(tally.stacked()[part].sum(0))
    sizes, groups = t.policy.assign_unlabelled(t.sizes), len(t.policy.labels)
    attention = _pooled(t, s, items, items.attended[spec.browsing])
    per_item = bool(spec.settled("per_item"))
    if per_item:  # items that are ranked elsewhere or nowhere count in the sizes
        attention = np.concatenate([attention, np.zeros(max(0, round(float(t.sizes[-1])) - len(attention)))])
    is_exact = True
    if count_labelings(len(attention), groups) <= MOST:
        labels = one_hot(all_labelings(len(attention), groups), groups)
    elif per_item:
        return _per_item_bounds(spec, total, attention)
    else:  # one label for all reaches the ends of a ratio, and the largest norm
        labels = np.broadcast_to(np.eye(groups)[:, None, :], (groups, len(attention), groups))
        is_exact = spec.card.name != "eed"
    received = total.received + np.einsum("m,lmg->lg", attention, labels)
    if not is_exact:
        received = np.vstack([received, _most_even(total.received, float(attention.sum()))])
    ends = Range.from_values(_on_totals(spec, total, received, sizes + labels.sum(1) * per_item)[:, None])
    return float(ends.least[0]), float(ends.most[0]), is_exact


def _on_totals(spec: ExposureMetricSpec, total: Exposure, received: Floats, sizes: Floats) -> Floats:
    """(L,) the metric on rows of exposure by group, with as many sizes where these matter."""
    weight = np.broadcast_to(total.weight, received.shape[:1])
    if not spec.settled("per_item"):
        return np.asarray(spec.on(replace(total, weight=weight, received=received)))
    rows = zip(weight, received, sizes, strict=True)
    return np.array([float(spec.on(replace(total, weight=w, received=r, sizes=n))) for w, r, n in rows])


def _most_even(received: Floats, free: float) -> Floats:
    """Exposure with the free part where it evens groups out most.

    >>> _most_even(np.array([1.0, 4.0, 2.0]), 2.0).tolist()
    [2.5, 4.0, 2.5]
    """
    ordered = np.sort(received)
    levels = (np.cumsum(ordered) + free) / np.arange(1, len(ordered) + 1)
    above = np.append(ordered[1:], np.inf)
    return np.asarray(np.maximum(received, levels[np.flatnonzero(levels <= above)[0]]))


def _per_item_bounds(spec: ExposureMetricSpec, total: Exposure, attention: Floats) -> tuple[float, float, bool]:
    """Bounds of a ratio of means: for each number of items on a side, its mean is largest with those that get most attention."""
    protected, versus = list(total.protected or ()), list(total.versus or ())
    n, m = total.side_sizes()
    ranked = np.append(0.0, np.cumsum(np.sort(attention)))
    lowest, highest, k = ranked, ranked[-1] - ranked[::-1], np.arange(len(ranked))
    two_sided = len(protected) + len(versus) == len(total.received)
    first, second = total.received[protected].sum(), total.received[versus].sum()
    ends = []
    for protected_gain, other_gain in ((lowest, highest), (highest, lowest)):
        counts: tuple[Any, ...] = (k, k[::-1])
        gained = (first + protected_gain, second + (other_gain[::-1]))
        if not two_sided:  # each side by itself: a third group takes the rest
            sign = 1 if protected_gain is highest else -1
            means = (sign * (first + protected_gain) / (n + k), -sign * (second + other_gain) / (m + k))
            at = [int(np.nanargmax(np.where(np.isfinite(x), x, np.nan))) for x in means]
            counts = tuple(np.array([x]) for x in at)
            gained = (first + protected_gain[at[:1]], second + other_gain[at[1:]])
        received = np.stack(gained, axis=-1)
        sizes = np.stack([n + counts[0], m + counts[1]], axis=-1)
        sided = replace(total, protected=(0,), versus=(1,))
        values = _on_totals(spec, sided, received, sizes)
        ends.append(float(np.nanmin(values) if protected_gain is lowest else np.nanmax(values)))
    return ends[0], ends[1], two_sided


def _list_bounds(
    spec: ExposureMetricSpec, t: ExposureTallies, s: int, items: ItemExposure
) -> tuple[float, float, bool]:
    """Bounds of a mean over requests of a metric of their rankings."""
    sums, policy = t.sums, t.policy
    part, attention = sums.part(s), items.attended[spec.browsing]
    rankings = sums.rankings_of(part)
    aim = targets(sums, policy, spec.target, t.sizes)
    seen = Exposed.from_sums(sums, policy, spec.browsing, aim)
    target = seen.target if seen.target.ndim == 1 else seen.target[rankings]
    seen = replace(seen, received=seen.received[rankings], items=seen.items[rankings], target=target)
    if "sides" in spec.reads:
        seen = _two_sides(seen)
    moving = spec.target == "population" and float(t.sizes[-1]) > 0
    unlabelled = max(items.many, round(float(t.sizes[-1]))) if moving else items.many
    groups = seen.received.shape[-1]
    labelings = count_labelings(unlabelled, groups)
    if (items.are_shared or moving) and labelings <= MOST and labelings * seen.received.size <= MOST_CELLS:
        values = _on_labelings(spec, t, part, seen, items, unlabelled, moving=moving)
        ends = Range.from_values(values[:, None])
        return float(ends.least[0]), float(ends.most[0]), True
    if moving:
        labelled = float(t.sizes[:-1].sum())
        share = labelled / (labelled + unlabelled)
        seen = replace(seen, target=np.nan_to_num(seen.target) * share)
        free = np.bincount(items.rankings, attention, minlength=len(seen.items)).astype(np.float64)
        ranges = range_of_shares(spec, seen, free, np.full(len(seen.items), 1 - share))
    else:
        ranges = range_over_lists(spec, seen, items.rankings, attention, by_list=spec.target == "ranking")
    least, most = _per_request(sums, part, ranges).mean(sums.weight[part])
    return least, most, bool(ranges.reached.all()) and not items.are_shared


def _two_sides(seen: Exposed) -> Exposed:
    """The protected group and all others: what a metric of one group sees."""
    received, target = (np.stack([seen.side(x), seen.others(x)], axis=-1) for x in (seen.received, seen.target))
    return replace(seen, received=received, target=target, protected=(0,))


def _on_labelings(
    spec: ExposureMetricSpec,
    t: ExposureTallies,
    part: slice,
    seen: Exposed,
    items: ItemExposure,
    many: int,
    *,
    moving: bool,
) -> Floats:
    """(labelings,) the mean over requests for every labeling of all unlabelled items together."""
    groups = seen.received.shape[-1]
    labelings = all_labelings(many, groups)
    received = np.repeat(seen.received[None], len(labelings), axis=0)
    at = np.arange(len(labelings))
    for cell, (ranking, item) in enumerate(zip(items.rankings.tolist(), items.items.tolist(), strict=True)):
        received[at, ranking, labelings[:, item]] += items.attended[spec.browsing][cell]
    target = seen.target
    if moving:
        labelled = float(t.sizes[:-1].sum())
        counts = np.nan_to_num(target) * labelled + one_hot(labelings, groups).sum(1)
        target = (counts / (labelled + many))[:, None, :]
    elif spec.target == "ranking":
        listed = np.bincount(items.rankings, minlength=len(seen.items))
        counts = np.repeat((np.nan_to_num(target) * (seen.items - listed)[:, None])[None], len(labelings), axis=0)
        for ranking, item in zip(items.rankings.tolist(), items.items.tolist(), strict=True):
            counts[at, ranking, labelings[:, item]] += 1
        target = counts / seen.items[:, None]
    values = np.broadcast_to(spec.on(replace(seen, received=received, target=target)), received.shape[:2])
    sums = t.sums
    starts = sums.request_starts[part.start : part.stop] - sums.request_starts[part.start]
    share = sums.share[sums.rankings_of(part)] * ~np.isnan(values)
    per_request, defined = (np.add.reduceat(x, starts, axis=1) for x in (np.nan_to_num(values) * share, share))
    weight = sums.weight[part] * (defined > 0)
    return np.asarray((np.where(defined > 0, per_request / defined, 0.0) * weight).sum(1) / weight.sum(1))


def _per_request(sums: GroupExposure, part: slice, ranges: Range) -> Range:
    """Ranges of requests from those of their draws."""
    if (sums.draws[part] == 1).all():
        return ranges
    starts = sums.request_starts[part.start : part.stop] - sums.request_starts[part.start]
    share, lacks = sums.share[sums.rankings_of(part)], np.maximum.reduceat(ranges.may_lack, starts)
    ends = []
    for values, furthest in ((ranges.least, np.fmin), (ranges.most, np.fmax)):
        defined = ~np.isnan(values)
        mean = np.add.reduceat(np.where(defined, values, 0.0) * share, starts) / np.add.reduceat(
            share * defined, starts
        )
        ends.append(np.where(lacks, furthest.reduceat(values, starts), mean))
    reached = np.minimum.reduceat(ranges.reached, starts)
    return Range(ends[0], ends[1], reached, np.minimum.reduceat(ranges.may_lack, starts))
