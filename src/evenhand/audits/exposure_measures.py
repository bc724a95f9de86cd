"""From the tallies of exposure to one measure per metric: what is added up first, then the metric on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenhand.audits.exposure_asks import Asked, wanted_by
from evenhand.cards import Floats
from evenhand.engine.crossed import cross
from evenhand.engine.exposures import item_norms, tally_exposures, tally_items
from evenhand.engine.lists import some_lists
from evenhand.engine.placements import tally_placements
from evenhand.engine.prepared import Prepared
from evenhand.errors import EvenhandError
from evenhand.metrics.prefix import looked_at, reasons_of, scores_of
from evenhand.metrics.representation import Represented
from evenhand.tallies.exposure import Amortised, Exposed, Exposure
from evenhand.tallies.items import Crossed, ItemAttention, Lists
from evenhand.tallies.ledger import UNKNOWN_LABEL, Ledger, Look, Policy, amortised, exposed, exposure, targets
from evenhand.tallies.placement import UNKNOWN, Placement
from evenhand.tallies.requests import Measured, of_rankings, of_sums
from evenhand.uncertainty.intervals import stream
from evenhand.uncertainty.items import ItemResampler
from evenhand.uncertainty.random_order import chosen_lists, in_random_order

JUDGED = frozenset({"relevance", "gains", "dues"})
"""What metrics read that need judgments."""


@dataclass(frozen=True)
class Tallied:
    """All that was added up for the metrics of one call; nothing is asked of the engine after this.

    Attributes
    ----------
    sizes : (G + 1,) items of each group, the unknown last.
    placement : labels in rank order, for metrics that read them.
    items : attention item by item, by look and whether it is pooled.
    lists : per slice, rankings that stand for it, for chance levels; None where nobody asked.
    crossed : sums kept apart by item, for resampling items too.
    """

    ledger: Ledger
    policy: Policy
    sizes: Floats
    placement: Placement | None = None
    items: Mapping[tuple[Look, bool], ItemAttention] = field(default_factory=dict)
    lists: Sequence[Lists] | None = None
    crossed: Crossed | None = None

    def lasting(self) -> Tallied:
        """What is worth keeping for comparing systems later: neither lists nor sums by item."""
        return replace(self, lists=None, crossed=None)


def tally(
    ready: Prepared, near: Prepared, ledger: Ledger, policy: Policy, sizes: Floats, asked: Sequence[Asked], seed: int, *,
    chance: bool, crossed: bool,
) -> Tallied:  # fmt: skip
    """Everything beside the ledger that these metrics need; lists are asked of what is `near`."""
    pooled = [(a.look, a.settled("normalize") == "pooled") for a in asked if a.of_items]
    table = None
    if crossed:
        _refuse_uncrossed(asked)
        table = cross(ready.rows, ready.aligned, ready.judged, wanted_by(asked), ledger, ready.view.rows)
    simulated = chance and ready.counted is None and bool(policy.labels) and any(a.needs(Exposed) for a in asked)
    return Tallied(
        ledger,
        policy,
        sizes,
        _placement(near, ledger, policy) if any(a.placed for a in asked) else None,
        {key: tally_items(ready.rows, key[0], ledger, pooled=key[1]) for key in dict.fromkeys(pooled)},
        _lists(near, ledger, seed) if simulated else None,
        table,
    )


def _refuse_uncrossed(asked: Sequence[Asked]) -> None:
    """Metrics of single items, or of the order of labels, have no meaning when items come twice or not at all."""
    lost = [a.text for a in asked if a.placed or a.item_level]
    if lost:
        raise EvenhandError(
            f"metrics={lost[0]!r} cannot be resampled over items. Leave it out, or pass resample='requests'."
        )


def _lists(ready: Prepared, ledger: Ledger, seed: int) -> list[Lists]:
    slices = range(len(ledger.slices))
    chosen = [chosen_lists(ledger, ledger.part(s), _stream(seed, ledger, s, "lists")) for s in slices]
    found = some_lists(ready.rows, ready.aligned, ledger, np.concatenate([np.zeros(0, dtype=np.int64), *chosen]))
    edges = np.concatenate([[0], np.cumsum([len(at) for at in chosen])])
    return [found.part(slice(int(edges[s]), int(edges[s + 1]))) for s in slices]


def _stream(seed: int, ledger: Ledger, s: int, *more: Any) -> np.random.Generator:
    return stream(seed, "exposure", *ledger.slices[s], *more)


def _placement(ready: Prepared, ledger: Ledger, policy: Policy) -> Placement:
    """Labels in rank order for the rankings of the ledger."""
    view = replace(ready.view, lazy=ready.rows.listed)
    unknown = "group" if policy.unknown == "unprotected" else policy.unknown
    found = tally_placements(view, ready.aligned, unknown, groups=ledger.labels, some_labelled=False)
    placed = found.placement
    if policy.onto is not None:
        placed = _merged(placed, UNKNOWN_LABEL, policy.labels[policy.onto])
    lengths = np.zeros(len(ledger.probability), dtype=np.int64)  # also of lists that hold no item
    lengths[ledger.items.sum(-1) > 0] = placed.lengths
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


def measure(asked: Asked, t: Tallied, *, chance: bool) -> Measured:
    """The metric over all requests, and per slice what random order would give, where that is known."""
    if asked.placed:
        return _of_placement(asked, t, chance=chance)
    if asked.of_items:
        table = t.items[asked.look, asked.settled("normalize") == "pooled"]
        return _of_items(asked, table)
    found = measured_on(asked, t.ledger, t.policy, t.sizes, chance=_chances(asked, t) if chance else None)
    if chance and asked.metric.has_chance and asked.needs(Exposure):
        tally, within = _sums(asked, t.ledger, t.policy, t.sizes), t.ledger
        kept = np.ones(len(found.sums), dtype=bool) if found.counted is None else found.counted
        parts = [tally.with_sums(found.sums[within.part(s)][kept[within.part(s)]]) for s in range(len(within.slices))]
        found = replace(found, chance=np.array([float(asked.by_chance(part)) for part in parts]))
    return found


def measured_on(asked: Asked, ledger: Ledger, policy: Policy, sizes: Floats, chance: Floats | None = None) -> Measured:
    """A metric of exposure sums, or of single rankings' exposure."""
    group = _group(asked, policy)
    if asked.needs(Exposed):
        seen = exposed(ledger, policy, asked.look, targets(ledger, policy, asked.target, sizes))
        above = ledger.expected(np.nan_to_num(seen.shares - seen.target)) * ledger.weight[:, None]
        gaps = [above[ledger.part(s)].sum(0) for s in range(len(ledger.slices))]
        return _of_rankings(
            asked, ledger, asked.on(seen), seen, group=group, chance=chance,
            cells=lambda s, value: {"favoured": None if np.isnan(value) else _favoured(gaps[s], policy)},
        )  # fmt: skip
    if asked.needs(Amortised):
        pooled = asked.settled("normalize") == "pooled"
        return of_sums(asked, amortised(ledger, policy, asked.look, pooled=pooled), group=group)
    if ledger.judged is None or not asked.reads & JUDGED:
        return of_sums(asked, _sums(asked, ledger, policy, sizes), group=group)
    return _of_judged(asked, ledger, of_sums(asked, _sums(asked, ledger.of_judged(), policy, sizes), group=group))


def _sums(asked: Asked, ledger: Ledger, policy: Policy, sizes: Floats) -> Exposure:
    """Exposure, with what was due by relevance or by the metric's own target."""
    own = asked.settled("target")
    shares = None if own is None else targets(ledger, policy, own, sizes)
    return exposure(ledger, policy, asked.look, sizes, asked.norms, shares)


def _of_judged(asked: Asked, ledger: Ledger, found: Measured) -> Measured:
    """A metric that knows an ideal only where somebody judged: other requests are left out, and said to be."""
    known = ledger.judged
    assert known is not None  # noqa: S101  (asked for by the caller)

    def reason(s: int, total: Floats) -> str:
        part = known[ledger.part(s)]
        return found.reason(s, total) if part.any() or not len(part) else "no_judged_requests"

    lost = np.where(known, found.reasons, np.array("no_judged_requests", object))
    values = np.where(known, found.values, np.nan)
    return replace(found, values=values, reasons=lost, reason=reason, counted=known, left_out="unjudged_requests")


def _of_rankings(asked: Asked, ledger: Ledger, values: Floats, seen: Any, **fields: Any) -> Measured:
    values = np.broadcast_to(values, (len(ledger.probability),))
    reasons = (
        reasons_of(asked, seen, values)
        if asked.needs(Placement)
        else asked.card.reasons(seen, np.isnan(values), **asked.params)
    )
    return of_rankings(
        asked, values, reasons, ledger.within, expected=ledger.expected, first=ledger.request_starts[:-1],
        weight=ledger.weight, **fields,
    )  # fmt: skip


def _favoured(gaps: Floats, policy: Policy) -> str | None:
    """The group whose share of attention is furthest above its target, if any is."""
    return str(policy.labels[int(gaps.argmax())]) if len(gaps) and gaps.max() > 1e-12 else None


def _group(asked: Asked, policy: Policy) -> str | None:
    """The protected group, for metrics that look at it; nothing for those that look at all groups."""
    if "sides" not in asked.reads or not policy.protected:
        return None
    return ", ".join(str(policy.labels[i]) for i in policy.protected)


def _of_items(asked: Asked, table: ItemAttention) -> Measured:
    """Attention item by item, which brings its own way to be resampled."""
    values = table.each(asked)
    lost = np.where(np.isnan(values), "zero_utility", "")
    nothing = np.zeros((len(values), 0))
    return Measured(
        asked, nothing, lambda _: np.array(np.nan), values, lost, lambda *_: "", lambda _: asked.ideal,
        resampler=ItemResampler(asked, table),
    )  # fmt: skip


def _of_placement(asked: Asked, t: Tallied, *, chance: bool) -> Measured:
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
    found = _of_rankings(asked, t.ledger, values, p)
    return replace(found, chance=_slice_means(t.ledger, found, np.broadcast_to(each, (len(p),)))) if chance else found


def _with_share(asked: Asked, t: Tallied) -> Asked:
    """A metric that was not told the share of the protected group takes that of the target."""
    if "p" not in asked.metric.parameters or asked.settled("p") is not None:
        return asked
    aim = targets(t.ledger, t.policy, asked.target, t.sizes)
    if aim.ndim != 1:
        raise EvenhandError(
            f"metrics={asked.text!r} needs one share for all lists. Write '{asked.card.name}(p=0.5)', or pass target= "
            "'population' or 'equal'."
        )
    share = float(np.nan_to_num(aim[list(t.policy.protected or ())].sum()))
    return replace(asked, params={**asked.params, "p": share})


def _slice_means(ledger: Ledger, found: Measured, each: Floats) -> Floats:
    """(slices,) means of a value of every ranking, over requests in which the metric exists."""
    blank = np.zeros(len(each), dtype="<U1")
    sums = of_rankings(
        found.ask, each, blank, ledger.within, expected=ledger.expected, first=ledger.request_starts[:-1], weight=ledger.weight
    ).sums  # fmt: skip
    sums = np.where(np.isnan(found.values)[:, None], 0.0, sums)
    return np.array([found.value(sums[ledger.part(s)].sum(0)) for s in range(len(ledger.slices))])


def _chances(asked: Asked, t: Tallied) -> Floats | None:
    """(slices,) the mean over lists of what each would score in random order, for metrics of single rankings' exposure."""
    if not asked.needs(Exposed) or t.lists is None:
        return None
    ledger, policy = t.ledger, t.policy
    aim = targets(ledger, policy, asked.target, t.sizes)
    found = np.full(len(t.lists), np.nan)
    for s, lists in enumerate(t.lists):
        at = lists.at
        own = aim if aim.ndim == 1 else aim[at if len(aim) == len(ledger.probability) else ledger.request_of[at]]
        values = in_random_order(lists, asked, asked.look, policy, own)
        rankings = ledger.rankings_of(ledger.part(s))
        everything = len(at) == rankings.stop - rankings.start
        weight = (ledger.weight[ledger.request_of] * ledger.share)[at] if everything else np.ones(len(at))
        there = ~np.isnan(values) & (weight > 0)
        found[s] = np.average(values[there], weights=weight[there]) if there.any() else np.nan
    return found


def ledger_of(ready: Prepared, near: Prepared, asked: Sequence[Asked], labels: tuple[Any, ...]) -> Ledger:
    """The sums per ranking, request and group that these metrics need; items are asked of all that is `ready`."""
    wanted = wanted_by(asked)
    if ready.counted is not None:
        return ready.counted.ledger(ready.rows, wanted, labels)
    found = tally_exposures(near.rows, near.aligned, near.judged, wanted, labels, alike=near.alike)
    return replace(found, norms=item_norms(ready.rows, ready.judged, wanted)) if wanted.items else found
