"""Estimates with intervals and chance levels as rows, the exposure of each group as points, and every request's value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.audits.assemble import notes, suppressed
from evenhand.audits.exposure_asks import TWO_SIDED, Asked, wanted_by
from evenhand.audits.exposure_chance import awrf_in_random_order, chosen_lists
from evenhand.audits.exposure_crossed import crossed_draws, refuse_uncrossed
from evenhand.audits.exposure_items import ItemAttention
from evenhand.audits.exposure_measures import Measure, measure, of_items, of_rankings
from evenhand.audits.exposure_placed import Placer
from evenhand.audits.requests import Held
from evenhand.cards import Floats
from evenhand.engine.crossed import cross
from evenhand.engine.ledgers import Ledger, Policy, exposure, targets
from evenhand.engine.lists import Lists, some_lists
from evenhand.engine.prepared import Prepared
from evenhand.findings import Row, row
from evenhand.tallies.exposure import Amortised
from evenhand.uncertainty.intervals import Interval, percentile_ends, stream
from evenhand.uncertainty.requests import blocks, together


@dataclass(frozen=True)
class Setting:
    """All that the rows of one call share."""

    ready: Prepared
    ledger: Ledger
    policy: Policy
    sizes: Floats
    interval: Interval
    seed: int
    fewest: int
    chance: bool
    both: bool = False

    @property
    def draws(self) -> int:
        """Resamples of requests; an interval without a number of its own takes the usual one."""
        return 0 if self.interval.kind == "none" else self.interval.draws or 999

    def labels(self, s: int) -> dict[str, Any]:
        return dict(zip(self.ready.view.slice_names, self.ledger.slices[s], strict=True))

    def stream(self, s: int, *more: Any) -> np.random.Generator:
        return stream(self.seed, "exposure", *self.ledger.slices[s], *more)

    @cached_property
    def lists(self) -> tuple[list[npt.NDArray[np.int64]], Lists]:
        """Rankings that stand for each slice, by number and whole."""
        parts = [self.ledger.part(s) for s in range(len(self.ledger.slices))]
        picks = [chosen_lists(self.ledger, part, self.stream(s, "lists")) for s, part in enumerate(parts)]
        return picks, some_lists(self.ready.rows, self.ready.aligned, self.ledger, np.concatenate(picks))


@dataclass(frozen=True)
class Summed:
    """A metric ready to be resampled, slice by slice: totals, and sums of requests or of blocks of many."""

    measure: Measure
    chance: Floats
    totals: list[Floats]
    blocks: list[Floats]

    @classmethod
    def of(cls, measure: Measure, chance: Floats, setting: Setting) -> Summed:
        parts = [measure.sums[setting.ledger.part(s)] for s in range(len(setting.ledger.slices))]
        joined = [blocks(len(sums), setting.stream(s, "blocks"))(sums) for s, sums in enumerate(parts)]
        return cls(replace(measure, sums=np.zeros((0, 0))), chance, [sums.sum(0) for sums in parts], joined)


def rows_of(setting: Setting, asked: Sequence[Asked]) -> tuple[list[Row], list[Measure]]:
    """One row per slice and metric, slices in the order of their labels; and the measures behind them."""
    placer = Placer(setting.ready, setting.ledger, setting.policy, setting.sizes)
    found = [Summed.of(*_measured(a, setting, placer), setting) for a in asked]
    over_items = _crossed(setting, asked) if setting.both and setting.draws else None
    once = bool(setting.draws and found) and over_items is None
    rows = []
    for s in range(len(setting.ledger.slices)):
        part = setting.ledger.part(s)
        drawn = (
            together([f.blocks[s] for f in found], setting.draws, setting.stream(s)) if once else [None] * len(found)
        )
        for i, f in enumerate(found):
            draws = _drawn(setting, s, f.measure, drawn[i]) if over_items is None else over_items[s, i]
            made = _row(setting, s, f.measure, f.totals[s], draws, f.chance[s])
            few = part.stop - part.start < setting.fewest
            rows.append(suppressed(made) | {"favoured": None, "undefined": None} if few else made)
    return rows, [f.measure for f in found]


def _drawn(setting: Setting, s: int, m: Measure, totals: Floats | None) -> Floats | None:
    """The metric on resamples of the requests of a slice."""
    if totals is None:
        return None
    if m.items is not None:
        return m.items.draws(setting.ledger.part(s), setting.draws, setting.stream(s))
    with np.errstate(divide="ignore", invalid="ignore"):
        return m.value(totals)


def _crossed(setting: Setting, asked: Sequence[Asked]) -> Floats:
    """(slices, metrics, draws) the metrics on resamples of requests and items."""
    refuse_uncrossed(asked)
    ready = setting.ready
    table = cross(ready.rows, ready.aligned, ready.judged, wanted_by(asked), setting.ledger, ready.view.rows)
    rng = stream(setting.seed, "exposure", "items")
    return crossed_draws(asked, table, setting.ledger, setting.policy, setting.draws, rng)


def _measured(asked: Asked, setting: Setting, placer: Placer) -> tuple[Measure, Floats]:
    """The metric over all requests, and per slice what random order would give, where that is known."""
    ledger = setting.ledger
    nothing = np.full(len(ledger.slices), np.nan)
    if asked.placed:
        measured, each = placer.measure(asked, chance=setting.chance)
        return measured, _slice_means(ledger, measured, each) if setting.chance else nothing
    if asked.ask.card.needs is Amortised and asked.item_level:
        return of_items(asked, ItemAttention.of(asked, setting.ready.rows, ledger)), nothing
    measured = measure(asked, ledger, setting.policy, setting.sizes)
    return measured, _awrf_chances(setting, asked) if asked.name == "awrf" and setting.chance else nothing


def _slice_means(ledger: Ledger, measured: Measure, each: Floats) -> Floats:
    """(slices,) means of a value of every ranking, over those in which the metric exists."""
    sums = of_rankings(measured.asked, ledger, each, np.full(len(each), "")).sums
    sums = np.where(np.isnan(measured.values)[:, None], 0.0, sums)
    totals = [sums[ledger.part(s)].sum(0) for s in range(len(ledger.slices))]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array([measured.value(t) for t in totals])


def _awrf_chances(setting: Setting, asked: Asked) -> Floats:
    """(slices,) the mean over lists of what each would score in random order."""
    ledger, policy = setting.ledger, setting.policy
    if not policy.labels:
        return np.full(len(ledger.slices), np.nan)
    picks, lists = setting.lists
    aim = targets(ledger, policy, asked.target, setting.sizes)
    edges = np.concatenate([[0], np.cumsum([len(p) for p in picks])])
    found = np.full(len(picks), np.nan)
    for s, at in enumerate(picks):
        here = slice(int(edges[s]), int(edges[s + 1]))
        own = aim if aim.ndim == 1 else aim[at if len(aim) == len(ledger.probability) else ledger.request_of[at]]
        part = Lists(lists.ranks[here], lists.shares[here], lists.relevance[here])
        values = awrf_in_random_order(part, asked, policy, own, setting.stream(s, "orders"))
        everything = len(at) == ledger.rankings_of(ledger.part(s)).stop - ledger.rankings_of(ledger.part(s)).start
        weight = (ledger.weight[ledger.request_of] * ledger.share)[at] if everything else np.ones(len(at))
        there = ~np.isnan(values) & (weight > 0)
        found[s] = np.average(values[there], weights=weight[there]) if there.any() else np.nan
    return found


def _row(setting: Setting, s: int, m: Measure, totals: Floats, draws: Floats | None, chance: float) -> Row:
    asked, part = m.asked, setting.ledger.part(s)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(m.value(totals)) if m.items is None else m.items.value(part)
    found = np.full(1, np.nan) if draws is None or np.isnan(estimate) else np.asarray(draws)
    low, high = _ends(estimate, found, setting.interval) if part.stop - part.start > 1 else (np.nan, np.nan)
    endless = int(np.isinf(found).sum())
    undefined = int(np.isnan(m.values[part]).sum()) if m.skips else 0
    reason = (m.reason(totals) if m.items is None else m.items.reason(part)) if np.isnan(estimate) else ""
    said = [reason, "infinite_draws" if endless and np.isfinite(estimate) else ""]
    said.append("some_undefined" if undefined and not reason else "")
    return row(
        setting.labels(s), asked.ask.text, group=_group(asked, setting.policy), estimate=estimate, low=low, high=high,
        chance=chance, ideal=m.ideal(totals), better=asked.ask.better, units=part.stop - part.start,
        undefined_draws=int((~np.isfinite(found)).sum()) if draws is not None and not np.isnan(estimate) else 0,
        note=notes(*said), favoured=None if np.isnan(estimate) else _favoured(m, setting, s), undefined=undefined,
    )  # fmt: skip


def _favoured(m: Measure, setting: Setting, s: int) -> str | None:
    """The group whose share of attention is furthest above its target, if any is."""
    mean = np.zeros(0) if m.gaps is None else m.gaps[s]
    return str(setting.policy.labels[int(mean.argmax())]) if len(mean) and mean.max() > 1e-12 else None


def _group(asked: Asked, policy: Policy) -> str | None:
    """The protected group, for metrics that look at it; nothing for those that look at all groups."""
    one_side = asked.name in TWO_SIDED or (asked.name == "awrf" and asked.ask.params.get("distance") in ("nd", "rd"))
    if not one_side or not policy.protected:
        return None
    return ", ".join(str(policy.labels[i]) for i in policy.protected)


def _ends(estimate: float, draws: Floats, interval: Interval) -> tuple[float, float]:
    if np.isnan(draws).all():
        return np.nan, np.nan
    if interval.kind == "normal":
        spread = NormalDist().inv_cdf((1 + interval.level) / 2) * float(np.nanstd(draws, ddof=1))
        return estimate - spread, estimate + spread
    low, high = percentile_ends(draws[None, :], interval.level)
    return float(low[0]), float(high[0])


def curves(setting: Setting, asked: Sequence[Asked]) -> dict[str, dict[str, list[Any]]]:
    """Share of exposure of each group in each slice with its interval, beside target, relevance and number of items."""
    ledger, policy = setting.ledger, setting.policy
    if not policy.labels or not asked:
        return {"exposure": {}}
    first = asked[0]
    look = first.look if first.look in ledger.attended else next(iter(ledger.attended))
    tally = exposure(ledger, policy, look, setting.sizes)
    aim = targets(ledger, policy, first.target, setting.sizes)
    aim = np.broadcast_to(aim, (len(ledger.requests), len(policy.labels))) if aim.ndim == 1 else aim
    aim = aim if len(aim) == len(ledger.requests) else ledger.expected(np.nan_to_num(aim))
    names = (*setting.ready.view.slice_names, "group", "exposure", "low", "high", "target", "relevance", "items")
    points: dict[str, list[Any]] = {name: [] for name in names}
    sizes = policy.settled(setting.sizes)
    for s in range(len(ledger.slices)):
        part = ledger.part(s)
        if part.stop - part.start < setting.fewest:
            continue
        received = tally.received[part]
        share = _shares(received.sum(0))
        low, high = _share_ends(received, setting, s)
        wanted = np.nanmean(aim[part], axis=0) if not np.isnan(aim[part]).all() else np.full(len(share), np.nan)
        worth = _shares(tally.utility[part].sum(0)) if tally.utility is not None else np.full(len(share), np.nan)
        for g, label in enumerate(policy.labels):
            values = (*ledger.slices[s], str(label), share[g], low[g], high[g], wanted[g], worth[g], sizes[g])
            for name, value in zip(names, values, strict=True):
                points[name].append(float(value) if isinstance(value, np.floating) else value)
    return {"exposure": points}


def _shares(totals: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals / totals.sum(-1, keepdims=True))


def _share_ends(received: Floats, setting: Setting, s: int) -> tuple[Floats, Floats]:
    if not setting.draws or not received.any():
        blank = np.full(received.shape[1], np.nan)
        return blank, blank
    draws = _shares(together([received], setting.draws, setting.stream(s))[0])
    return percentile_ends(draws.T, setting.interval.level)


@dataclass(frozen=True)
class PerRequest:
    """Columns of every request's value, made when somebody looks; until then only the values are kept."""

    requests: Any
    slices: Sequence[tuple[Any, ...]]
    names: Sequence[str]
    owner: npt.NDArray[np.int64]
    metrics: Sequence[tuple[str, str | None, Floats, npt.NDArray[Any]]]

    @classmethod
    def of(cls, setting: Setting, measures: Sequence[Measure]) -> PerRequest:
        """All requests but those of suppressed slices."""
        ledger = setting.ledger
        counts = np.diff(ledger.slice_starts)
        at = np.flatnonzero(np.repeat(counts >= setting.fewest, counts))
        kept = [(m.asked.ask.text, _group(m.asked, setting.policy), m.values[at], m.reasons[at]) for m in measures]
        owner = np.repeat(np.arange(len(counts)), counts)[at]
        return cls(ledger.requests[at], ledger.slices, setting.ready.view.slice_names, owner, kept)

    def __call__(self) -> dict[str, list[Any]]:
        many, size = len(self.metrics), len(self.owner)
        found: dict[str, list[Any]] = {"request": self.requests.to_list() * many}
        for i, name in enumerate(self.names):
            found[name] = [self.slices[s][i] for s in self.owner] * many
        found.setdefault("system", [None] * (size * many))
        found["metric"] = [text for text, *_ in self.metrics for _ in range(size)]
        found["group"] = [group for _, group, *_ in self.metrics for _ in range(size)]
        found["estimate"] = [v for *_, values, _ in self.metrics for v in values.tolist()]
        found["note"] = [r or None for *_, reasons in self.metrics for r in reasons.tolist()]
        return found


def held_sums(setting: Setting, asked: Sequence[Asked]) -> list[Held]:
    """The sums of every request, for comparing systems; item-level attention cannot be added up and is left out.

    They are worked out when somebody compares, not kept: a result stays small however many requests there are.
    """
    ledger, found = setting.ledger, []
    placer = Placer(setting.ready, ledger, setting.policy, setting.sizes)
    measures = [_measured(a, replace(setting, chance=False), placer)[0] for a in asked]
    for s, where in enumerate(ledger.slices):
        part = ledger.part(s)
        if part.stop - part.start < setting.fewest:
            continue
        ids = ledger.requests[part].to_list()
        for m in measures:
            if m.items is None:
                group = _group(m.asked, setting.policy)
                found.append(Held(where, m.asked.ask.text, group, ids, m.sums[part], m.value))
    return found
