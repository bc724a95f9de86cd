"""Exposure metrics of a call: their attention and targets, the sums they need, and their values per request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.attention import Attention, parse
from evenhand.audits.declare import Call
from evenhand.audits.requests import draws_wanted
from evenhand.cards import Floats, MetricSpec, needing, parse_metrics
from evenhand.claims import Candidate, direction_of
from evenhand.errors import EvenhandError
from evenhand.findings import Points, as_columns
from evenhand.intervals.kinds import percentile_ends
from evenhand.intervals.label_errors import Confusion
from evenhand.intervals.requests import ItemResampler, resampled
from evenhand.labels import UNKNOWN_LABEL, stream
from evenhand.metrics.exposure import InRandomOrder, loss_floor
from evenhand.metrics.prefix import looked_at, reasons_of, scores_of
from evenhand.metrics.random_orders import ShuffledLists, chosen_lists, drawn_moments
from evenhand.metrics.representation import Represented
from evenhand.sources.judged_rankings import JudgedRankings
from evenhand.tallies.exposure import (
    Amortised,
    AttentionSpec,
    Exposed,
    Exposure,
    GroupExposure,
    OrderMoments,
    Policy,
    RequiredSums,
    target_shares,
    targets,
)
from evenhand.tallies.placement import UNKNOWN, LabelledRankings, Placement
from evenhand.tallies.ranked_lists import (
    CrossedSums,
    ItemAttention,
    ItemExposure,
    SampledLists,
    item_attention,
    judge_requests,
    number_items,
    refuse_strangers,
    sum_lists,
    with_lists,
)
from evenhand.tallies.requests import Measured, measure_rankings, measure_sums
from evenhand.tallies.spectrum import Label

TARGETS = ("population", "equal", "ranking", "relevant")


@dataclass(frozen=True)
class ExposureMetricSpec(MetricSpec):
    """A metric as asked for, with the attention and target that hold for it."""

    browsing: AttentionSpec = AttentionSpec(parse("uniform"))  # noqa: RUF009  (frozen)
    target: Any = "population"

    @property
    def reads(self) -> frozenset[str]:
        """Inputs of its card, and relevance where attention or target need it."""
        by_card = self.metric.reads(**self.params)
        by_attention = not self.placed and self.browsing.attention.needs_relevance
        by_target = self.needs(Exposed) and isinstance(self.target, str) and self.target == "relevant"
        return by_card | {"relevance"} if by_attention or by_target else by_card

    def needs(self, tally: type) -> bool:
        return self.card.needs is tally

    @property
    def placed(self) -> bool:
        """Whether the metric reads labels in rank order, not attention."""
        return issubclass(self.card.needs, Placement)

    @property
    def item_level(self) -> bool:
        return bool(self.settled("level") == "item")

    @property
    def of_items(self) -> bool:
        """Whether it reads attention item by item, which cannot be added up by group."""
        return self.needs(Amortised) and self.item_level

    @property
    def in_random_order(self) -> Literal["", "exact", "drawn"]:
        """How its chance level is made, if it has one: lists in random order, by formula or drawn."""
        if not self.metric.has_chance:
            return ""
        return "exact" if self.placed or (self.needs(Exposure) and self.browsing.is_by_rank) else "drawn"

    @property
    def norms(self) -> Literal["group", "item"] | None:
        """Which norms of each request the metric needs, if any."""
        if not self.needs(Exposure):
            return None
        if self.item_level:
            return "item"
        return "group" if self.settled("aggregate") == "per_request" or self.settled("unbiased") else None


def parse_exposure_metrics(
    metrics: str | Sequence[str] | None, attention: Attention | None, target: Any
) -> list[ExposureMetricSpec]:
    usual = ("awrf", "log_dp", "log_dp(per_item=True)", "eed", "log_eur", "eel", "eer")
    possible = needing(Exposed, Exposure, Amortised, Placement, Represented)
    parsed = parse_metrics(usual if metrics is None else metrics, possible)
    return [_exposure_spec(a, attention, target) for a in parsed]


def _exposure_spec(ask: MetricSpec, attention: Attention | None, target: Any) -> ExposureMetricSpec:
    """A metric with its own attention and target, or those of the call."""
    model = ask.params.get("attention")
    if model is None and attention is None:
        model = ask.settled("attention")
    chosen = parse(model) if model is not None else attention or parse("uniform")
    metric_target = ask.params.get("target") if ask.card.needs is Exposed else None
    aim = target if metric_target is None else metric_target
    if isinstance(aim, Mapping):
        target_shares(aim, ())
    elif aim not in TARGETS:
        raise EvenhandError(
            f"metrics={ask.text!r} names an unknown target. Use 'population', 'equal', 'ranking' or 'relevant'."
        )
    spec = ExposureMetricSpec(
        ask.text, ask.metric, ask.params, ask.cutoff, browsing=AttentionSpec(chosen, ask.cutoff), target=aim
    )
    if spec.needs(Exposure) and ask.settled("target") is not None:
        _refuse_bad_target(spec)
    if spec.norms == "item" and ask.params.get("aggregate") == "before":
        raise EvenhandError(
            f"metrics={ask.text!r} cannot be taken before requests are joined. Leave aggregate out, or 'per_request'."
        )
    return spec


def _refuse_bad_target(spec: ExposureMetricSpec) -> None:
    """A target of expected exposure is one of groups, known beforehand."""
    target = spec.settled("target")
    if isinstance(target, Mapping):
        target_shares(target, ())
    elif target not in ("equal", "population"):
        raise EvenhandError(
            f"metrics={spec.text!r} names an unknown target. Write {{group: share}}, 'equal' or 'population'; without, "
            "relevance decides."
        )
    if spec.item_level or spec.settled("unbiased"):
        raise EvenhandError(
            f"metrics={spec.text!r} aims at shares of groups. Leave level='item' and unbiased=True out, or the target."
        )


def required_by(metrics: Sequence[ExposureMetricSpec]) -> RequiredSums:
    """The sums that these metrics and their chance levels need: one query, whether or not chance is asked for."""
    summed = [a for a in metrics if not a.placed]
    specs = tuple(dict.fromkeys(a.browsing for a in summed))
    return RequiredSums(
        specs or (AttentionSpec(parse("geometric(stop=0.5)")),),
        gained=frozenset(a.browsing for a in summed if "gains" in a.reads),
        due=frozenset(a.browsing for a in summed if "dues" in a.reads),
        items=frozenset(a.browsing for a in summed if a.norms == "item"),
        squared=frozenset(a.browsing for a in summed if a.needs(Exposure) and a.in_random_order == "exact"),
        scores=any(a.needs(Amortised) for a in summed),
        judged=any("relevance" in a.metric.reads(**a.params) or a.target == "relevant" for a in summed),
        by_item=tuple(dict.fromkeys((a.browsing, a.settled("normalize") == "pooled") for a in metrics if a.of_items)),
    )


@dataclass(frozen=True)
class ExposureTallies:
    """All that was added up for the metrics of one call.

    Attributes
    ----------
    sizes : (G + 1,) items of each group, the unknown last.
    placement : labels in rank order, for metrics that read them.
    items : attention item by item, by attention and whether it is pooled.
    lists : per slice, rankings that stand for it, for chance levels; None where nobody asked.
    crossed : sums held item by item, for resampling items too.
    unlabelled : attention on the items without a label, where bounds over their labels are asked for.
    sampled : attention on the labelled items, where labels are a sample; `size_variance` of the groups' sizes then.
    confusion : how often labels are wrong.
    """

    sums: GroupExposure
    policy: Policy
    sizes: Floats
    placement: Placement | None = None
    items: Mapping[tuple[AttentionSpec, bool], ItemAttention] = field(default_factory=dict)
    lists: Sequence[SampledLists] | None = None
    crossed: CrossedSums | None = None
    unlabelled: ItemExposure | None = None
    sampled: ItemExposure | None = None
    size_variance: Floats | None = None
    confusion: Confusion | None = None


def add_up(
    tables: JudgedRankings, specs: Sequence[ExposureMetricSpec], labels: Label
) -> tuple[GroupExposure, dict[tuple[AttentionSpec, bool], ItemAttention]]:
    """Sums by group, and attention by item."""
    required = required_by(specs)
    sums, judged = GroupExposure.from_rankings(tables, required, labels), None
    if tables.judged is not None and required.judged:
        sums, judged = judge_requests(tables, sums, required)
        if sums.judged is not None and not sums.judged.any():
            refuse_strangers(sums, tables.first_judged())
    if not required.by_list:
        return sums, {}
    items, many = number_items(tables) if required.needs_items else ("", 0)
    parts = sum_lists(tables, sums, required, judged, items)
    sums = with_lists(sums, required, parts)
    return sums, {key: item_attention(sums, key, parts, many) for key in required.by_item}


def lists_by_slice(
    tables: JudgedRankings, sums: GroupExposure, specs: Sequence[ExposureMetricSpec], seed: int
) -> list[SampledLists]:
    """Per slice, whole rankings that stand for it."""
    slices = range(len(sums.slices))
    chosen = [chosen_lists(sums, sums.part(s), stream(seed, "exposure", *sums.slices[s], "lists")) for s in slices]
    needs_relevance = any(not a.browsing.is_by_rank for a in specs if a.in_random_order == "drawn")
    lists = SampledLists.from_rankings(
        tables, sums, np.concatenate([np.zeros(0, dtype=np.int64), *chosen]), relevance=needs_relevance
    )
    edges = np.concatenate([[0], np.cumsum([len(at) for at in chosen])])
    return [lists.part(slice(int(edges[s]), int(edges[s + 1]))) for s in slices]


def placement_of(tables: JudgedRankings, sums: GroupExposure, policy: Policy) -> Placement:
    """Labels in rank order, for the rankings of the sums."""
    labels = replace(tables.labels, labels=sums.labels)
    if "shown" in tables.types:
        labels = replace(labels, rows=f"SELECT * FROM ({labels.rows}) AS listed WHERE shown > 0")
    unknown = "group" if policy.unknown == "unprotected" else policy.unknown
    placed = LabelledRankings.from_rankings(tables.view, labels, unknown, some_labelled=False).placement
    if policy.onto is not None and UNKNOWN_LABEL in placed.groups:  # they count under another label
        renamed = [policy.labels[policy.onto] if g == UNKNOWN_LABEL else g for g in placed.groups]
        groups = tuple(dict.fromkeys(renamed))
        code = np.array([*map(groups.index, renamed), UNKNOWN], dtype=np.int32)
        placed = replace(placed, codes=code[placed.codes], groups=groups)
    lengths = np.zeros(len(sums.probability), dtype=np.int64)  # also of lists that hold no item
    lengths[sums.items.sum(-1) > 0] = placed.lengths
    placed = replace(placed, starts=np.concatenate([[0], np.cumsum(lengths)]))
    sides = None if policy.protected is None else [policy.labels[i] for i in policy.protected]
    return placed.protecting(sides or None)


def measure(spec: ExposureMetricSpec, t: ExposureTallies, *, chance: bool) -> Measured:
    """The metric over all requests, with its chance level per slice where that is known."""
    if spec.placed:
        return _measured_on_placement(spec, t, chance=chance)
    if spec.of_items:  # attention item by item brings its own way to be resampled
        table = t.items[spec.browsing, spec.settled("normalize") == "pooled"]
        values = table.each(spec)
        return Measured(
            spec, np.zeros((len(values), 0)), lambda _: np.array(np.nan), values, np.where(np.isnan(values), "zero_utility", ""),
            lambda *_: "", lambda _: spec.ideal, resampler=ItemResampler(spec, table, t.sums.within),
        )  # fmt: skip
    measured = measured_on(spec, t.sums, t.policy, t.sizes, chance=_chances(spec, t) if chance else None)
    if chance and spec.needs(Exposure) and spec.in_random_order:
        measured = replace(measured, chance=_in_random_order(spec, t))
    if spec.card.name == "eel":
        measured = replace(measured, floor=_floors(spec, t, measured))
    return measured


def _in_random_order(spec: ExposureMetricSpec, t: ExposureTallies) -> Floats:
    """(slices,) mean of expected exposure's norms over random orders; NaN where a cascade has too many lists to draw.

    Over the items of one list per request, EED is the same in every order: there is no chance level.
    """
    sums = t.sums.only_judged() if "relevance" in spec.reads else t.sums
    slices = range(len(sums.slices))
    if spec.in_random_order == "exact":
        moments = OrderMoments.from_sums(sums, t.policy, spec.browsing)
    elif t.lists is None or spec.item_level or sum(len(lists.at) for lists in t.lists) < len(sums.probability):
        return np.full(len(slices), np.nan)
    else:
        moments = drawn_moments(t.lists, spec.browsing, t.policy)
    tally = _sums(spec, sums, t.policy, t.sizes, moments)
    rows, variance = tally.stacked(), sums.weight**2 * moments.variance_of_requests(sums)
    parts = [sums.part(s) for s in slices]
    orders = [InRandomOrder(tally.with_sums(rows[part].sum(0)), variance[part].sum()) for part in parts]
    is_constant = [
        spec.item_level and spec.card.name == "eed" and bool((sums.draws[part] <= 1).all()) for part in parts
    ]
    levels = [np.nan if same else float(spec.by_chance(o)) for o, same in zip(orders, is_constant, strict=True)]
    return np.array(levels)


def _floors(spec: ExposureMetricSpec, t: ExposureTallies, measured: Measured) -> Floats:
    """(slices,) what an ideal policy would score on as few requests."""
    tally, sums = _sums(spec, t.sums, t.policy, t.sizes), measured.sums
    counted = np.ones(len(sums), dtype=bool) if measured.counted is None else measured.counted
    units = [
        t.sums.within.unit_sums(s, sums[part], counted[part])
        for s, part in enumerate(t.sums.part(s) for s in range(len(t.sums.slices)))
    ]
    return np.array([loss_floor(tally.with_sums(each), **spec.params) for each in units])


def measured_on(
    spec: ExposureMetricSpec, sums: GroupExposure, policy: Policy, sizes: Floats, chance: Floats | None = None
) -> Measured:
    """A metric of exposure sums, or of single rankings' exposure."""
    has_side = "sides" in spec.reads and policy.protected
    group = ", ".join(str(policy.labels[i]) for i in policy.protected or ()) if has_side else None
    if spec.needs(Exposed):
        seen = Exposed.from_sums(sums, policy, spec.browsing, targets(sums, policy, spec.target, sizes))
        above = sums.expected(np.nan_to_num(seen.shares - seen.target)) * sums.weight[:, None]
        gaps = [above[sums.part(s)].sum(0) for s in range(len(sums.slices))]

        def favoured(s: int, value: float) -> dict[str, str | None]:
            """The group whose share of attention is furthest above its target."""
            is_any = not np.isnan(value) and len(gaps[s]) > 0 and gaps[s].max() > 1e-12
            return {"favoured": str(policy.labels[int(gaps[s].argmax())]) if is_any else None}

        return _measured_on_rankings(spec, sums, spec.on(seen), seen, group=group, chance=chance, cells=favoured)
    if spec.needs(Amortised):
        pooled = spec.settled("normalize") == "pooled"
        return measure_sums(spec, Amortised.from_sums(sums, policy, spec.browsing, pooled=pooled), group=group)
    if sums.judged is None or not spec.reads & {"relevance", "gains", "dues"}:
        return measure_sums(spec, _sums(spec, sums, policy, sizes), group=group)
    return _of_judged(spec, sums, measure_sums(spec, _sums(spec, sums.only_judged(), policy, sizes), group=group))


def _sums(
    spec: ExposureMetricSpec, sums: GroupExposure, policy: Policy, sizes: Floats, moments: OrderMoments | None = None
) -> Exposure:
    """Exposure, with what was due by relevance or by the metric's own target; with `moments`, its mean over orders."""
    target = spec.settled("target")
    shares = None if target is None else targets(sums, policy, target, sizes)
    return Exposure.from_sums(sums, policy, spec.browsing, sizes, spec.norms, shares, moments)


def _of_judged(spec: ExposureMetricSpec, sums: GroupExposure, measured: Measured) -> Measured:
    """A metric of judged requests only: others are left out, with a note."""
    is_judged = sums.judged
    assert is_judged is not None  # noqa: S101  (asked for by the caller)

    def reason(s: int, total: Floats) -> str:
        part = is_judged[sums.part(s)]
        return measured.reason(s, total) if part.any() or not len(part) else "no_judged_requests"

    lost = np.where(is_judged, measured.reasons, np.array("no_judged_requests", object))
    values = np.where(is_judged, measured.values, np.nan)
    return replace(
        measured, values=values, reasons=lost, reason=reason, counted=is_judged, left_out="unjudged_requests"
    )


def _measured_on_rankings(
    spec: ExposureMetricSpec, sums: GroupExposure, values: Floats, seen: Exposed | Placement, **fields: Any
) -> Measured:
    values = np.broadcast_to(values, (len(sums.probability),))
    if isinstance(seen, Placement) and spec.needs(Placement):
        reasons = reasons_of(spec, seen, values)
    else:
        reasons = spec.card.reasons(seen, np.isnan(values), **spec.params)
    return measure_rankings(
        spec, values, reasons, sums.within, expected=sums.expected, first=sums.request_starts[:-1],
        weight=sums.weight, **fields,
    )  # fmt: skip


def _measured_on_placement(spec: ExposureMetricSpec, t: ExposureTallies, *, chance: bool) -> Measured:
    """A metric of labels in rank order, and what a random order would give on average."""
    assert t.placement is not None  # noqa: S101  (tallied because this metric was asked for)
    sums, p = t.sums, looked_at(spec, t.placement)
    if spec.needs(Represented):
        p = Represented(p.codes, p.starts, p.groups, p.protected, p.rows)
        spec = _with_share(spec, t)
        values = spec.on(p)
        each = spec.metric.by_chance(t.placement, **spec.params, looked=p.labelled) if chance else np.nan
    else:
        scores = scores_of(spec, p, chance=chance)
        values, each = scores.values, scores.chances
    measured = _measured_on_rankings(spec, sums, values, p)
    if not chance:
        return measured
    # The mean over those requests in which the metric exists.
    by_chance = measure_rankings(
        spec, np.broadcast_to(each, (len(p),)), np.zeros(len(p), dtype="<U1"), sums.within, expected=sums.expected,
        first=sums.request_starts[:-1], weight=sums.weight,
    )  # fmt: skip
    means = np.where(np.isnan(measured.values)[:, None], 0.0, by_chance.sums)
    levels = [measured.value(means[sums.part(s)].sum(0)) for s in range(len(sums.slices))]
    return replace(measured, chance=np.array(levels))


def _with_share(spec: ExposureMetricSpec, t: ExposureTallies) -> ExposureMetricSpec:
    """A metric that was not told the share of the protected group takes that of the target."""
    if "p" not in spec.metric.parameters or spec.settled("p") is not None:
        return spec
    aim = targets(t.sums, t.policy, spec.target, t.sizes)
    if aim.ndim != 1:
        raise EvenhandError(
            f"metrics={spec.text!r} needs one share for all lists. Write '{spec.card.name}(p=0.5)', or pass target= "
            "'population' or 'equal'."
        )
    share = float(np.nan_to_num(aim[list(t.policy.protected or ())].sum()))
    return replace(spec, params={**spec.params, "p": share})


def _chances(spec: ExposureMetricSpec, t: ExposureTallies) -> Floats | None:
    """(slices,) mean over lists of the expected value in random order."""
    if not spec.needs(Exposed) or not spec.metric.has_chance or t.lists is None:
        return None
    sums, policy = t.sums, t.policy
    aim = targets(sums, policy, spec.target, t.sizes)
    means = np.full(len(t.lists), np.nan)
    for s, lists in enumerate(t.lists):
        at = lists.at
        list_targets = aim if aim.ndim == 1 else aim[at if len(aim) == len(sums.probability) else sums.request_of[at]]
        values = spec.by_chance(ShuffledLists.from_lists(lists, spec.browsing, policy, list_targets))
        rankings = sums.rankings_of(sums.part(s))
        everything = len(at) == rankings.stop - rankings.start
        weight = (sums.weight[sums.request_of] * sums.share)[at] if everything else np.ones(len(at))
        defined = ~np.isnan(values) & (weight > 0)
        means[s] = np.average(values[defined], weights=weight[defined]) if defined.any() else np.nan
    return means


def exposure_and_targets(
    t: ExposureTallies, specs: Sequence[ExposureMetricSpec]
) -> tuple[Exposure, Floats, AttentionSpec]:
    """Exposure of groups under the attention of the first metric, (Q, G) their target shares, and that attention."""
    sums, policy, first = t.sums, t.policy, specs[0]
    browsing = first.browsing if first.browsing in sums.attended else next(iter(sums.attended))
    aim = targets(sums, policy, first.target, t.sizes)
    aim = np.broadcast_to(aim, (len(sums.requests), len(policy.labels))) if aim.ndim == 1 else aim
    aim = aim if len(aim) == len(sums.requests) else sums.expected(np.nan_to_num(aim))
    return Exposure.from_sums(sums, policy, browsing, t.sizes), aim, browsing


def curves(
    t: ExposureTallies,
    specs: Sequence[ExposureMetricSpec],
    slice_names: Sequence[str],
    call: Call,
    small: Sequence[bool],
) -> dict[str, Points]:
    """A point for each group in each slice; `small` slices have none."""
    sums, policy = t.sums, t.policy
    if not policy.labels or not specs:
        return {"exposure": {}}
    tally, aim, _ = exposure_and_targets(t, specs)
    sizes = policy.assign_unlabelled(t.sizes)
    points = []
    for s, where in enumerate(sums.slices):
        part = sums.part(s)
        if small[s]:
            continue
        received = tally.received[part]
        share, unknown = _shares(received.sum(0)), np.full(len(policy.labels), np.nan)
        low, high, draws = unknown, unknown, draws_wanted(call.interval)
        if draws and received.any():
            by_unit = sums.within.unit_sums(s, received)
            drawn = _shares(resampled(by_unit, draws, stream(call.seed, "exposure", *where)))
            low, high = percentile_ends(drawn.T, call.interval.level)
        target = unknown if np.isnan(aim[part]).all() else np.nanmean(aim[part], axis=0)
        worth = unknown if tally.utility is None else _shares(tally.utility[part].sum(0))
        numbers = np.stack([share, low, high, target, worth, sizes], axis=1).tolist()
        points += [(*where, str(label), *row) for label, row in zip(policy.labels, numbers, strict=True)]
    names = (*slice_names, "group", "exposure", "low", "high", "target", "relevance", "items")
    return {"exposure": as_columns(names, points)}


def _shares(totals: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals / totals.sum(-1, keepdims=True))


def claimed_sides(policy: Policy) -> list[tuple[int, ...]]:
    """The protected group, or without one each; of two groups one is asked."""
    each: list[tuple[int, ...]] = [(i,) for i in range(len(policy.labels))]
    sides = [tuple(policy.protected)] if policy.protected else each
    return sides[:1] if len(policy.labels) == 2 else sides


def exposure_claim(
    policy: Policy, side: Sequence[int], off: float, share: str, target: str, p: float, where: Mapping[str, Any]
) -> Candidate:
    """That a side gets more or less of the exposure than its target."""
    group = ", ".join(str(policy.labels[i]) for i in side)
    gets, aim = f"{group} gets {share} of the exposure", f"its target of {target}"
    text = f"{gets}, {'above' if off > 0 else 'below'} {aim}"
    otherwise = f"{gets}, not significantly different from {aim}"
    return Candidate(p, direction_of(off), text, otherwise, "exposure", group, where)
