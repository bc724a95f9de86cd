"""Least and most of exposure metrics over all labelings of the unlabelled items (F19)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.audits.exposure.measures import ExposureMetricSpec, ExposureTallies
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.metrics.labelings import MOST, Range, all_labelings, count_labelings, one_hot, range_of_shares
from evenhand.tallies.exposure import Exposed, Exposure, targets
from evenhand.tallies.group_exposure import GroupExposure, ItemExposure
from evenhand.tallies.ragged import Ints
from evenhand.tallies.requests import Measured

MOST_CELLS, AT_ONCE = 1 << 24, 1 << 21
"""Labelings times rankings times groups that are tried together, 128 MB; and those of lists by themselves."""

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
    bounds = _list_bounds if spec.needs(Exposed) else _sum_bounds

    def cells(s: int, estimate: float) -> dict[str, Any]:
        if not t.policy.labels:
            return dict(measured.cells(s, estimate))
        with np.errstate(divide="ignore", invalid="ignore"):
            least, most, is_exact = bounds(spec, t, s, items.within(t.sums.rankings_of(t.sums.part(s))))
        return {**measured.cells(s, estimate), "least": least, "most": most, "code": "" if is_exact else "bound"}

    return replace(measured, cells=cells)


def _sum_bounds(spec: ExposureMetricSpec, t: ExposureTallies, s: int, items: ItemExposure) -> tuple[float, float, bool]:
    """Bounds of a metric of exposure added up over requests."""
    sums, groups = t.sums, len(t.policy.labels)
    tally = Exposure.from_sums(sums, t.policy, spec.browsing, t.sizes)
    part = sums.part(s)
    total = tally.with_sums(tally.stacked()[part].sum(0))
    sizes, per_item = t.policy.assign_unlabelled(t.sizes), bool(spec.settled("per_item"))
    scale = (sums.weight[sums.request_of] * sums.share)[sums.rankings_of(part)][items.rankings]
    attention = np.bincount(items.items, items.attended[spec.browsing] * scale, minlength=items.many).astype(np.float64)
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
    values = _on_totals(spec, total, received, sizes + labels.sum(1) * per_item)
    return float(np.nanmin(values)), float(np.nanmax(values)), is_exact


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
    """Bounds of a ratio of means: the lowest mean that items may give one side, against the highest of the other."""
    ranked, k = np.append(0.0, np.cumsum(np.sort(attention))), np.arange(len(attention) + 1)
    means = []
    for side, size in zip((total.protected, total.versus), total.side_sizes(), strict=True):
        received = total.received[list(side or ())].sum()
        lowest, highest = (received + ranked) / (size + k), (received + ranked[-1] - ranked[::-1]) / (size + k)
        means.append((np.nanmin(lowest), np.nanmax(highest)))
    extremes = np.array([[means[0][0], means[1][1]], [means[0][1], means[1][0]]])
    least, most = _on_totals(spec, replace(total, protected=(0,), versus=(1,)), extremes, np.ones((2, 2)))
    return float(least), float(most), False


def _list_bounds(
    spec: ExposureMetricSpec, t: ExposureTallies, s: int, items: ItemExposure
) -> tuple[float, float, bool]:
    """Bounds of a mean over requests of a metric of their rankings."""
    sums, policy, part = t.sums, t.policy, t.sums.part(s)
    rankings = sums.rankings_of(part)
    seen = Exposed.from_sums(sums, policy, spec.browsing, targets(sums, policy, spec.target, t.sizes))
    target = np.broadcast_to(seen.target, seen.received.shape)[rankings]
    seen = replace(seen, received=seen.received[rankings], items=seen.items[rankings], target=target)
    if "sides" in spec.reads:  # the protected group and all others: what a metric of one group sees
        received, target = (np.stack([seen.side(x), seen.others(x)], axis=-1) for x in (seen.received, seen.target))
        seen = replace(seen, received=received, target=target, protected=(0,))
    moving = spec.target == "population" and float(t.sizes[-1]) > 0
    unlabelled = max(items.many, round(float(t.sizes[-1]))) if moving else items.many
    labelled, groups = float(t.sizes[:-1].sum()) if moving else None, seen.received.shape[-1]
    labelings = count_labelings(unlabelled, groups)
    if (items.are_shared or moving) and labelings <= MOST and labelings * seen.received.size <= MOST_CELLS:
        values = _tried(spec, seen, items, all_labelings(unlabelled, groups), labelled)
        means = [_per_request(sums, part, Range.from_values(row[None])).mean(sums.weight[part])[0] for row in values]
        return float(np.nanmin(means)), float(np.nanmax(means)), True
    if labelled is not None:
        share = labelled / (labelled + unlabelled)
        seen = replace(seen, target=np.nan_to_num(seen.target) * share)
        free = np.bincount(items.rankings, items.attended[spec.browsing], minlength=len(seen.items)).astype(np.float64)
        ranges = range_of_shares(spec, seen, free, np.full(len(seen.items), 1 - share))
    else:
        ranges = _over_lists(spec, seen, items)
    least, most = _per_request(sums, part, ranges).mean(sums.weight[part])
    return least, most, bool(ranges.reached.all()) and not items.are_shared


def _tried(
    spec: ExposureMetricSpec, seen: Exposed, items: ItemExposure, labelings: Ints, labelled: float | None = None
) -> Floats:
    """(labelings, rankings) the metric with every labeling of the items.

    A target that counts items counts these too: those of a list, or with `labelled` items all of the population.
    """
    received = np.repeat(seen.received[None], len(labelings), axis=0)
    cells = (np.arange(len(labelings))[:, None], items.rankings, labelings[:, items.items])
    np.add.at(received, cells, items.attended[spec.browsing])
    target = seen.target
    if spec.target == "ranking":
        listed = np.bincount(items.rankings, minlength=len(seen.items))
        counts = np.repeat((np.nan_to_num(target) * (seen.items - listed)[:, None])[None], len(labelings), axis=0)
        np.add.at(counts, cells, 1.0)
        target = counts / np.maximum(seen.items, 1)[:, None]
    elif labelled is not None:
        counts = np.nan_to_num(target) * labelled + one_hot(labelings, received.shape[-1]).sum(1)[:, None, :]
        target = counts / (labelled + labelings.shape[1])
    return np.broadcast_to(spec.on(replace(seen, received=received, target=target)), received.shape[:2])


def _over_lists(spec: ExposureMetricSpec, seen: Exposed, items: ItemExposure) -> Range:
    """Least and most on each ranking by itself: every labeling where they are few, else all ways to share its attention out."""
    many, groups, attention = len(seen.items), seen.received.shape[-1], items.attended[spec.browsing]
    counts = np.bincount(items.rankings, minlength=many)
    free, slack, labelled = (
        np.bincount(items.rankings, attention, minlength=many).astype(np.float64),
        np.zeros(many),
        seen,
    )
    if spec.target == "ranking":
        slack = counts / np.maximum(seen.items, 1)
        labelled = replace(seen, target=np.nan_to_num(seen.target) * (1 - slack)[:, None])
    everything = range_of_shares(spec, labelled, free, slack)
    few = count_labelings(counts, groups) <= MOST
    least, most, may_lack = everything.least.copy(), everything.most.copy(), everything.may_lack.copy()
    starts = np.searchsorted(items.rankings, np.arange(many + 1))
    for size in np.unique(counts[few]).tolist():
        labelings, chosen = all_labelings(size, groups), np.flatnonzero(few & (counts == size))
        at_once = max(1, AT_ONCE // (len(labelings) * groups))
        for at in np.split(chosen, range(at_once, len(chosen), at_once)):
            cells = (starts[at][:, None] + np.arange(size)).ravel()
            part = replace(seen, received=seen.received[at], items=seen.items[at], target=seen.target[at])
            numbers = np.repeat(np.arange(len(at)), size), np.tile(np.arange(size), len(at))
            of_lists = replace(items, rankings=numbers[0], items=numbers[1], attended={spec.browsing: attention[cells]})
            ends = Range.from_values(_tried(spec, part, of_lists, labelings))
            least[at], most[at], may_lack[at] = ends.least, ends.most, ends.may_lack
    return Range(least, most, few, may_lack)


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
