"""Exposure metrics where labels are missing (`unknown="bounds"`), a sample (`label_probability`) or partly wrong (`confusion`): F19."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from evenhand.audits.declare import Call
from evenhand.audits.exposure.measures import ExposureMetricSpec, ExposureTallies, claimed_sides, exposure_claim
from evenhand.cards import REGISTRY, Floats
from evenhand.claims import Candidate, detectable_of
from evenhand.errors import EvenhandError, listing
from evenhand.intervals.label_errors import (
    MOST,
    Confusion,
    LabelDraws,
    PooledMetric,
    PooledSlice,
    Range,
    all_labelings,
    count_labelings,
    one_hot,
    range_of_shares,
)
from evenhand.intervals.requests import FEWEST
from evenhand.labels import match, stream
from evenhand.report.words.text import percent
from evenhand.tallies.exposure import Exposed, Exposure, GroupExposure, targets
from evenhand.tallies.ragged import Ints
from evenhand.tallies.ranked_lists import ItemExposure
from evenhand.tallies.requests import Measured

CLAIM_DRAWS = 999
"""Draws behind the standard error of a claim, as behind an interval."""


BOUNDS = "unknown='bounds'"
RESAMPLED_ITEMS = "resample='requests_and_items'"


def answerable(specs: list[ExposureMetricSpec], option: str, *, named: bool) -> list[ExposureMetricSpec]:
    """The metrics that `option` corrects, bounds or resamples; one that was named and is not among them is refused."""
    lost = [a.text for a in specs if not _is_answerable(a, option)]
    if not named or not lost:
        return [a for a in specs if _is_answerable(a, option)]
    if option == BOUNDS:
        raise EvenhandError(
            f"metrics={lost[0]!r} has no bounds over labelings. Name awrf, dp, log_dp, exposure_share or eed with attention by "
            "rank, or pass unknown='drop'."
        )
    if option == RESAMPLED_ITEMS:
        raise EvenhandError(
            f"metrics={lost[0]!r} cannot be resampled over items. Name awrf, dp, log_dp, exposure_share or eed with attention by "
            "rank, or pass resample='requests'."
        )
    raise EvenhandError(
        f"metrics={lost[0]!r} cannot be corrected by {option}=: it needs the labels of single lists. Name dp, log_dp, "
        "exposure_share, eed or \"awrf(distance='nd', signed=True)\" with attention by rank."
    )


def _is_answerable(spec: ExposureMetricSpec, option: str) -> bool:
    """Corrected are metrics of pooled exposure and those linear in it; bounded and resampled also distances of single lists."""
    if not spec.browsing.is_by_rank:
        return False
    if spec.needs(Exposed):
        is_linear = bool(spec.params.get("signed")) and spec.target != "ranking"
        return bool(spec.target != "relevant") and (is_linear or option in (BOUNDS, RESAMPLED_ITEMS))
    return spec.card.name in ("dp", "log_dp", "exposure_share") or (spec.card.name == "eed" and spec.norms is None)


def read_confusion(confusion: Any, labels: Sequence[Any]) -> Confusion:
    """The matrix of a mapping `{true: {observed: share}}`, taken as known, or of a table true, observed, count."""
    is_known = isinstance(confusion, Mapping)
    listed = [(t, o, v) for t, of in confusion.items() for o, v in of.items()] if is_known else _counted(confusion)
    matrix = np.zeros((len(labels), len(labels)))
    for true, observed, value in listed:
        at = [match(true, labels), match(observed, labels)]
        if lost := [label for label in at if label not in labels]:
            raise EvenhandError(
                f"confusion names {lost[0]!r}, which is no label of the groups. Labels: {listing(map(repr, labels))}."
            )
        matrix[labels.index(at[0]), labels.index(at[1])] += float(value)
    total = matrix.sum(1)
    if (matrix < 0).any() or not (total > 0).all() or not np.isfinite(matrix).all():
        raise EvenhandError(
            "confusion needs a row for every true label, of numbers of zero or more. Add the labels that it lacks."
        )
    if is_known and (np.abs(total - 1) > 1e-6).any():
        raise EvenhandError(
            "confusion has shares that do not add up to 1 for each true label. Pass shares, or a table true, observed, count."
        )
    shares = matrix / total[:, None]
    if np.linalg.cond(shares) > 1e8:
        raise EvenhandError(
            "confusion cannot be inverted: two true labels are observed alike. Merge them, or measure labels better."
        )
    return Confusion(shares, None if is_known else matrix)


def _counted(confusion: Any) -> list[tuple[Any, Any, float]]:
    """Rows true, observed, count of a table."""
    from evenhand.sources.opening import open_table

    table = open_table(confusion, role="confusion")
    if lost := [c for c in ("true", "observed", "count") if c not in table.names]:
        raise EvenhandError(f"confusion has no column {lost[0]!r}. Pass a table with true, observed and count.")
    table = table.with_numbers("count")
    cells = table.engine.cells(
        f"SELECT {table.label('true')} AS truth, {table.label('observed')} AS seen, {table.number('count')} AS n FROM {table.name}"
    )
    return list(zip(cells.values("truth"), cells.values("seen"), cells.floats("n").tolist(), strict=True))


def corrected(spec: ExposureMetricSpec, t: ExposureTallies) -> Measured:
    """The metric with its own estimate and draws; requests by themselves have no value."""
    sums = t.sums
    slices = [_pooled(spec, t, s) for s in range(len(sums.slices))]
    fixed = None
    if spec.needs(Exposed) and spec.target != "population":
        fixed = targets(sums, t.policy, spec.target, t.sizes)
    pooled = PooledMetric(spec, slices, sums.within.starts, t.policy, fixed)
    many, reason = len(sums.requests), "pooled_labels"
    group = ", ".join(str(t.policy.labels[i]) for i in t.policy.protected or ()) if "sides" in spec.reads else None
    return Measured(
        spec, np.zeros((many, 0)), lambda _: np.array(np.nan), np.full(many, np.nan), np.full(many, reason, object),
        lambda *_: "", lambda _: spec.ideal, group=group, resampler=pooled,
        counted=np.ones(many, dtype=bool),
    )  # fmt: skip


def _pooled(spec: ExposureMetricSpec, t: ExposureTallies, s: int) -> PooledSlice:
    sums, policy, groups = t.sums, t.policy, len(t.policy.labels)
    part = sums.part(s)
    rankings = sums.rankings_of(part)
    attended = sums.attended[spec.browsing][rankings]
    request = sums.request_of[rankings] - part.start
    scale = (sums.weight[sums.request_of] * sums.share)[rankings]
    cells = None if t.sampled is None else t.sampled.within(rankings)
    plain = policy.assign_unlabelled(attended).sum(-1)
    if cells is not None:
        attention = cells.attended[spec.browsing]
        plain = np.bincount(cells.rankings, attention, minlength=len(scale)) + attended[:, -1]
    if spec.needs(Exposed):  # a mean over lists of shares of each list
        scale = np.where(plain > 0, scale / np.maximum(plain, 1e-300), 0.0)
    units = sums.within.units(s)
    many = int(units.max(initial=-1)) + 1

    def by_unit(values: Floats) -> Floats:
        return np.bincount(units[request], values, minlength=many).astype(np.float64)

    received = np.stack([by_unit(scale * policy.assign_unlabelled(attended)[:, g]) for g in range(groups)], axis=-1)
    weight = np.bincount(units, sums.weight[part], minlength=many).astype(np.float64)
    labels = (
        None
        if cells is None
        else _label_draws(cells, attention * scale[cells.rankings], units[request], t.size_variance)
    )
    return PooledSlice(received, by_unit(scale * plain), weight, policy.assign_unlabelled(t.sizes), labels, t.confusion)


def _label_draws(cells: ItemExposure, exposure: Floats, units: Any, size_variance: Any) -> LabelDraws:
    """The labelled items of a slice, with what their label draws add to the spread between units."""
    groups = len(size_variance)
    first = np.unique(cells.items, return_index=True)[1]
    inverse = cells.share[first]
    pairs, which = np.unique(units[cells.rankings] * (cells.many + 1) + cells.items, return_inverse=True)
    squares = np.bincount(which.reshape(-1), exposure) ** 2
    item = pairs % (cells.many + 1)
    noise = np.bincount(item, squares, minlength=cells.many) * inverse * (inverse - 1)
    within = np.diag(np.bincount(cells.codes[first], noise, minlength=groups)[:groups]).astype(np.float64)
    total = np.bincount(cells.items, exposure, minlength=cells.many).astype(np.float64)
    ranked = np.bincount(cells.codes[first], inverse * (inverse - 1), minlength=groups)[:groups]
    return LabelDraws(cells.codes[first], total, inverse, within, np.maximum(size_variance - ranked, 0.0))


def corrected_claims(
    t: ExposureTallies, specs: Sequence[ExposureMetricSpec], names: Sequence[str], small: Sequence[bool], call: Call
) -> list[Candidate]:
    """Per slice, whether the exposure of the protected group (without one: of each) is above or below its target.

    Tested by Student's t with the error of the draws. Where labels are a sample, the text says how many would settle it.
    """
    if not specs or not t.policy.labels:
        return []
    spec = replace(
        specs[0], metric=REGISTRY["awrf"], params={"distance": "nd", "signed": True}, text="awrf", cutoff=None
    )
    candidates = []
    for side in claimed_sides(t.policy):
        policy = replace(t.policy, protected=side)
        pooled = corrected(spec, replace(t, policy=policy)).resampler
        assert isinstance(pooled, PooledMetric)  # noqa: S101
        for s, where in enumerate(t.sums.slices):
            part, units = t.sums.part(s), t.sums.within.unit_count(s)
            if small[s] or units < FEWEST:
                continue
            off = pooled.value(part)
            draws = pooled.draws(part, CLAIM_DRAWS, stream(call.seed, "exposure", *where, "claims"))
            if draws is None or np.isnan(off):
                continue
            error = float(np.nanstd(draws, ddof=1))
            p = 2 * float(stdtr(units - 1, -abs(off) / error)) if error > 0 else math.nan
            received = pooled.slice_at(part).totals()[0][0]
            share = float(received[list(side)].sum() / received.sum())
            labels = dict(zip(names, where, strict=True))
            candidate = exposure_claim(policy, side, off, percent(share), percent(share - off), p, labels)
            settles = labels_to_settle(pooled, part, off, error, call)
            candidates.append(replace(candidate, otherwise=f"{candidate.otherwise}{settles}"))
    return candidates


def labels_to_settle(pooled: PooledMetric, part: slice, off: float, error: float, call: Call) -> str:
    """How many labels would give 80% power for a difference as large as the observed one."""
    labels = pooled.slice_at(part).labels
    if labels is None or not off:
        return ""
    spread = pooled.draws_of_labels(part, CLAIM_DRAWS, stream(call.seed, "labels"))
    by_labels = min(float(np.nanvar(spread, ddof=1)), error**2)
    allowed = (off / detectable_of(1.0, call.interval.level)) ** 2 - (error**2 - by_labels)
    if allowed <= 0:
        return "; more labels alone would not settle it, the requests differ too much"
    drawn, items = 1 / len(labels.codes), 1 / float(labels.inverse.sum())
    # With all items labelled nothing is left to draw.
    needed = math.ceil(1 / (items + (drawn - items) * allowed / by_labels)) if by_labels > 0 else 0
    if needed <= len(labels.codes):
        return ""
    return f"; about {needed:,} labels of ranked items ({len(labels.codes):,} now) would give 80% power for this difference"


MOST_CELLS, AT_ONCE = 1 << 24, 1 << 21
"""Labelings times rankings times groups that are tried together, 128 MB; and those of lists by themselves."""


def label_bounds(
    spec: ExposureMetricSpec, t: ExposureTallies, items: ItemExposure, s: int
) -> tuple[float, float, bool]:
    """Least and most of a metric over all labels of the `items`, and whether a labeling reaches them."""
    bounds = _list_bounds if spec.needs(Exposed) else _sum_bounds
    with np.errstate(divide="ignore", invalid="ignore"):
        return bounds(spec, t, s, items.within(t.sums.rankings_of(t.sums.part(s))))


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
