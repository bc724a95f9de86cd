"""From the tallies of exposure to one measure per metric: what is added up first, then the metric on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenhand.audits.exposure_asks import ExposureMetricSpec, required_by
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.intervals.items import ItemResampler
from evenhand.intervals.kinds import stream
from evenhand.labels import UNKNOWN_LABEL
from evenhand.metrics.prefix import looked_at, reasons_of, scores_of
from evenhand.metrics.random_orders import ShuffledLists, chosen_lists
from evenhand.metrics.representation import Represented
from evenhand.sources.judged_rankings import JudgedRankings
from evenhand.tallies.exposure import Amortised, Exposed, Exposure, targets
from evenhand.tallies.group_exposure import AttentionSpec, GroupExposure, Policy
from evenhand.tallies.judged_requests import JudgedRequests, refuse_strangers
from evenhand.tallies.placed import Placed
from evenhand.tallies.placement import UNKNOWN, Placement
from evenhand.tallies.ranked_lists import (
    CrossedSums,
    ItemAttention,
    ListSpec,
    ListSums,
    crossed_sums,
    item_attention,
    number_items,
    refuse_many_rows,
    with_lists,
)
from evenhand.tallies.requests import Measured, of_rankings, of_sums
from evenhand.tallies.sampled_lists import SampledLists

JUDGED = frozenset({"relevance", "gains", "dues"})
"""What metrics read that need judgments."""


@dataclass(frozen=True)
class ExposureTallies:
    """All that was added up for the metrics of one call; nothing is asked of the engine after this.

    Attributes
    ----------
    sizes : (G + 1,) items of each group, the unknown last.
    placement : labels in rank order, for metrics that read them.
    items : attention item by item, by attention and whether it is pooled.
    lists : per slice, rankings that stand for it, for chance levels; None where nobody asked.
    crossed : sums kept apart by item, for resampling items too.
    """

    sums: GroupExposure
    policy: Policy
    sizes: Floats
    placement: Placement | None = None
    items: Mapping[tuple[AttentionSpec, bool], ItemAttention] = field(default_factory=dict)
    lists: Sequence[SampledLists] | None = None
    crossed: CrossedSums | None = None

    def lasting(self) -> ExposureTallies:
        """What is worth keeping for comparing systems later: neither lists nor sums by item."""
        return replace(self, lists=None, crossed=None)


def add_up(
    tables: JudgedRankings, asked: Sequence[ExposureMetricSpec], labels: tuple[Any, ...], *, resample_items: bool
) -> tuple[GroupExposure, dict[tuple[AttentionSpec, bool], ItemAttention], CrossedSums | None]:
    """The sums by group that these metrics need, attention item by item, and the sums apart by item where items are resampled."""
    required = required_by(asked)
    sums, judged = GroupExposure.from_rankings(tables, required, labels), None
    if tables.judged is not None and required.judged:
        judged = JudgedRequests.from_rankings(tables, sums, required)
        sums = judged.beside(sums)
        if sums.judged is not None and not sums.judged.any():
            refuse_strangers(sums, tables.first_judged())
    by_item = tuple(dict.fromkeys((a.browsing, a.settled("normalize") == "pooled") for a in asked if a.of_items))
    norms = tuple(required.among(required.items))
    spec = ListSpec(
        len(labels), tuple(required.by_list), required.gained, norms, tuple(required.among(required.due)), by_item,
        required if resample_items else None,
    )  # fmt: skip
    if spec.is_empty:
        return sums, {}, None
    if resample_items:
        _refuse_uncrossed(asked)
        refuse_many_rows(tables.view.rows)
    items = ("", 0)
    if spec.needs_items:
        requests = tables.engine.bring(judged.requests) if resample_items and judged is not None else ""
        items = number_items(tables, everything=resample_items, requests=requests)
    parts = ListSums.from_rankings(tables, sums, spec, judged, items[0])
    sums = with_lists(sums, required, parts)
    tables_by_item = {key: item_attention(sums, key, parts, items[1]) for key in by_item}
    crossed = crossed_sums(tables, sums, required, parts, judged, items) if resample_items else None
    return sums, tables_by_item, crossed


def _refuse_uncrossed(asked: Sequence[ExposureMetricSpec]) -> None:
    """Metrics of single items, or of the order of labels, have no meaning when items come twice or not at all."""
    lost = [a.text for a in asked if a.placed or a.item_level]
    if lost:
        raise EvenhandError(
            f"metrics={lost[0]!r} cannot be resampled over items. Leave it out, or pass resample='requests'."
        )


def lists_by_slice(
    tables: JudgedRankings, sums: GroupExposure, asked: Sequence[ExposureMetricSpec], seed: int
) -> list[SampledLists]:
    """Per slice, whole rankings that stand for it."""
    slices = range(len(sums.slices))
    chosen = [chosen_lists(sums, sums.part(s), stream(seed, "exposure", *sums.slices[s], "lists")) for s in slices]
    needs_relevance = any(not a.browsing.is_by_rank for a in asked if a.needs(Exposed))
    lists = SampledLists.from_rankings(
        tables, sums, np.concatenate([np.zeros(0, dtype=np.int64), *chosen]), relevance=needs_relevance
    )
    edges = np.concatenate([[0], np.cumsum([len(at) for at in chosen])])
    return [lists.part(slice(int(edges[s]), int(edges[s + 1]))) for s in slices]


def placement_of(tables: JudgedRankings, sums: GroupExposure, policy: Policy) -> Placement:
    """Labels in rank order, for the rankings of the sums."""
    labels = replace(tables.labels, labels=sums.labels)
    if "shown" in tables.columns:
        labels = replace(labels, rows=f"SELECT * FROM ({labels.rows}) AS listed WHERE shown > 0")
    unknown = "group" if policy.unknown == "unprotected" else policy.unknown
    placed = Placed.from_rankings(tables.view, labels, unknown, some_labelled=False).placement
    if policy.onto is not None:
        placed = _merged(placed, UNKNOWN_LABEL, policy.labels[policy.onto])
    lengths = np.zeros(len(sums.probability), dtype=np.int64)  # also of lists that hold no item
    lengths[sums.items.sum(-1) > 0] = placed.lengths
    placed = replace(placed, starts=np.concatenate([[0], np.cumsum(lengths)]))
    sides = None if policy.protected is None else [policy.labels[i] for i in policy.protected]
    return placed.protecting(sides or None)


def _merged(placed: Placement, label: Any, into: Any) -> Placement:
    """The same rankings with the items of one label counted under another."""
    if label not in placed.groups:
        return placed
    groups = tuple(dict.fromkeys(into if g == label else g for g in placed.groups))
    code = np.array([groups.index(into if g == label else g) for g in placed.groups] + [UNKNOWN], dtype=np.int32)
    return replace(placed, codes=code[placed.codes], groups=groups)


def measure(asked: ExposureMetricSpec, t: ExposureTallies, *, chance: bool) -> Measured:
    """The metric over all requests, and per slice what random order would give, where that is known."""
    if asked.placed:
        return _of_placement(asked, t, chance=chance)
    if asked.of_items:
        table = t.items[asked.browsing, asked.settled("normalize") == "pooled"]
        return _of_items(asked, table)
    found = measured_on(asked, t.sums, t.policy, t.sizes, chance=_chances(asked, t) if chance else None)
    if chance and asked.metric.has_chance and asked.needs(Exposure):
        tally, within = _sums(asked, t.sums, t.policy, t.sizes), t.sums
        kept = np.ones(len(found.sums), dtype=bool) if found.counted is None else found.counted
        parts = [tally.with_sums(found.sums[within.part(s)][kept[within.part(s)]]) for s in range(len(within.slices))]
        found = replace(found, chance=np.array([float(asked.by_chance(part)) for part in parts]))
    return found


def measured_on(
    asked: ExposureMetricSpec, sums: GroupExposure, policy: Policy, sizes: Floats, chance: Floats | None = None
) -> Measured:
    """A metric of exposure sums, or of single rankings' exposure."""
    group = _group(asked, policy)
    if asked.needs(Exposed):
        seen = Exposed.from_sums(sums, policy, asked.browsing, targets(sums, policy, asked.target, sizes))
        above = sums.expected(np.nan_to_num(seen.shares - seen.target)) * sums.weight[:, None]
        gaps = [above[sums.part(s)].sum(0) for s in range(len(sums.slices))]
        return _of_rankings(
            asked, sums, asked.on(seen), seen, group=group, chance=chance,
            cells=lambda s, value: {"favoured": None if np.isnan(value) else _favoured(gaps[s], policy)},
        )  # fmt: skip
    if asked.needs(Amortised):
        pooled = asked.settled("normalize") == "pooled"
        return of_sums(asked, Amortised.from_sums(sums, policy, asked.browsing, pooled=pooled), group=group)
    if sums.judged is None or not asked.reads & JUDGED:
        return of_sums(asked, _sums(asked, sums, policy, sizes), group=group)
    return _of_judged(asked, sums, of_sums(asked, _sums(asked, sums.of_judged(), policy, sizes), group=group))


def _sums(asked: ExposureMetricSpec, sums: GroupExposure, policy: Policy, sizes: Floats) -> Exposure:
    """Exposure, with what was due by relevance or by the metric's own target."""
    own = asked.settled("target")
    shares = None if own is None else targets(sums, policy, own, sizes)
    return Exposure.from_sums(sums, policy, asked.browsing, sizes, asked.norms, shares)


def _of_judged(asked: ExposureMetricSpec, sums: GroupExposure, found: Measured) -> Measured:
    """A metric that knows an ideal only where somebody judged: other requests are left out, and said to be."""
    known = sums.judged
    assert known is not None  # noqa: S101  (asked for by the caller)

    def reason(s: int, total: Floats) -> str:
        part = known[sums.part(s)]
        return found.reason(s, total) if part.any() or not len(part) else "no_judged_requests"

    lost = np.where(known, found.reasons, np.array("no_judged_requests", object))
    values = np.where(known, found.values, np.nan)
    return replace(found, values=values, reasons=lost, reason=reason, counted=known, left_out="unjudged_requests")


def _of_rankings(asked: ExposureMetricSpec, sums: GroupExposure, values: Floats, seen: Any, **fields: Any) -> Measured:
    values = np.broadcast_to(values, (len(sums.probability),))
    reasons = (
        reasons_of(asked, seen, values)
        if asked.needs(Placement)
        else asked.card.reasons(seen, np.isnan(values), **asked.params)
    )
    return of_rankings(
        asked, values, reasons, sums.within, expected=sums.expected, first=sums.request_starts[:-1],
        weight=sums.weight, **fields,
    )  # fmt: skip


def _favoured(gaps: Floats, policy: Policy) -> str | None:
    """The group whose share of attention is furthest above its target, if any is."""
    return str(policy.labels[int(gaps.argmax())]) if len(gaps) and gaps.max() > 1e-12 else None


def _group(asked: ExposureMetricSpec, policy: Policy) -> str | None:
    """The protected group, for metrics that look at it; nothing for those that look at all groups."""
    if "sides" not in asked.reads or not policy.protected:
        return None
    return ", ".join(str(policy.labels[i]) for i in policy.protected)


def _of_items(asked: ExposureMetricSpec, table: ItemAttention) -> Measured:
    """Attention item by item, which brings its own way to be resampled."""
    values = table.each(asked)
    lost = np.where(np.isnan(values), "zero_utility", "")
    nothing = np.zeros((len(values), 0))
    return Measured(
        asked, nothing, lambda _: np.array(np.nan), values, lost, lambda *_: "", lambda _: asked.ideal,
        resampler=ItemResampler(asked, table),
    )  # fmt: skip


def _of_placement(asked: ExposureMetricSpec, t: ExposureTallies, *, chance: bool) -> Measured:
    """A metric of labels in rank order, and what a random order would give on average."""
    assert t.placement is not None  # noqa: S101  (tallied because this metric was asked for)
    p = looked_at(asked, t.placement)
    if asked.needs(Represented):
        p = Represented(p.codes, p.starts, p.groups, p.protected, p.rows)
        asked = _with_share(asked, t)
        values = asked.on(p)
        each = asked.metric.by_chance(t.placement, **asked.params, looked=p.known) if chance else np.nan
    else:
        scores = scores_of(asked, p, chance=chance)
        values, each = scores.values, scores.chances
    found = _of_rankings(asked, t.sums, values, p)
    return replace(found, chance=_slice_means(t.sums, found, np.broadcast_to(each, (len(p),)))) if chance else found


def _with_share(asked: ExposureMetricSpec, t: ExposureTallies) -> ExposureMetricSpec:
    """A metric that was not told the share of the protected group takes that of the target."""
    if "p" not in asked.metric.parameters or asked.settled("p") is not None:
        return asked
    aim = targets(t.sums, t.policy, asked.target, t.sizes)
    if aim.ndim != 1:
        raise EvenhandError(
            f"metrics={asked.text!r} needs one share for all lists. Write '{asked.card.name}(p=0.5)', or pass target= "
            "'population' or 'equal'."
        )
    share = float(np.nan_to_num(aim[list(t.policy.protected or ())].sum()))
    return replace(asked, params={**asked.params, "p": share})


def _slice_means(sums: GroupExposure, found: Measured, each: Floats) -> Floats:
    """(slices,) means of a value of every ranking, over requests in which the metric exists."""
    blank = np.zeros(len(each), dtype="<U1")
    means = of_rankings(
        found.ask, each, blank, sums.within, expected=sums.expected, first=sums.request_starts[:-1], weight=sums.weight
    ).sums  # fmt: skip
    means = np.where(np.isnan(found.values)[:, None], 0.0, means)
    return np.array([found.value(means[sums.part(s)].sum(0)) for s in range(len(sums.slices))])


def _chances(asked: ExposureMetricSpec, t: ExposureTallies) -> Floats | None:
    """(slices,) the mean over lists of what each would score in random order, for metrics of single rankings' exposure."""
    if not asked.needs(Exposed) or not asked.metric.has_chance or t.lists is None:
        return None
    sums, policy = t.sums, t.policy
    aim = targets(sums, policy, asked.target, t.sizes)
    found = np.full(len(t.lists), np.nan)
    for s, lists in enumerate(t.lists):
        at = lists.at
        own = aim if aim.ndim == 1 else aim[at if len(aim) == len(sums.probability) else sums.request_of[at]]
        values = asked.by_chance(ShuffledLists.from_lists(lists, asked.browsing, policy, own))
        rankings = sums.rankings_of(sums.part(s))
        everything = len(at) == rankings.stop - rankings.start
        weight = (sums.weight[sums.request_of] * sums.share)[at] if everything else np.ones(len(at))
        there = ~np.isnan(values) & (weight > 0)
        found[s] = np.average(values[there], weights=weight[there]) if there.any() else np.nan
    return found
