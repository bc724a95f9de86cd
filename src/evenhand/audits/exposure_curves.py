"""The exposure of each group as points: share with its interval, beside target, relevance and number of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.audits.declare import Call
from evenhand.audits.exposure_asks import ExposureMetricSpec
from evenhand.audits.exposure_measures import ExposureTallies
from evenhand.audits.requests import draws_wanted
from evenhand.cards import Floats
from evenhand.intervals.kinds import percentile_ends, stream
from evenhand.intervals.requests import together
from evenhand.tallies.exposure import Exposure, targets


def curves(
    t: ExposureTallies,
    asked: Sequence[ExposureMetricSpec],
    slice_names: Sequence[str],
    call: Call,
    small: Sequence[bool],
) -> dict[str, dict[str, list[Any]]]:
    """A point for each group in each slice; `small` slices have none."""
    sums, policy = t.sums, t.policy
    if not policy.labels or not asked:
        return {"exposure": {}}
    first = asked[0]
    browsing = first.browsing if first.browsing in sums.attended else next(iter(sums.attended))
    tally = Exposure.from_sums(sums, policy, browsing, t.sizes)
    aim = targets(sums, policy, first.target, t.sizes)
    aim = np.broadcast_to(aim, (len(sums.requests), len(policy.labels))) if aim.ndim == 1 else aim
    aim = aim if len(aim) == len(sums.requests) else sums.expected(np.nan_to_num(aim))
    names = (*slice_names, "group", "exposure", "low", "high", "target", "relevance", "items")
    points: dict[str, list[Any]] = {name: [] for name in names}
    sizes = policy.settled(t.sizes)
    for s, where in enumerate(sums.slices):
        part = sums.part(s)
        if small[s]:
            continue
        received = tally.received[part]
        share = _shares(received.sum(0))
        low, high = _share_ends(received, call, where)
        wanted = np.nanmean(aim[part], axis=0) if not np.isnan(aim[part]).all() else np.full(len(share), np.nan)
        worth = _shares(tally.utility[part].sum(0)) if tally.utility is not None else np.full(len(share), np.nan)
        for g, label in enumerate(policy.labels):
            values = (*where, str(label), share[g], low[g], high[g], wanted[g], worth[g], sizes[g])
            for name, value in zip(names, values, strict=True):
                points[name].append(float(value) if isinstance(value, np.floating) else value)
    return {"exposure": points}


def _shares(totals: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals / totals.sum(-1, keepdims=True))


def _share_ends(received: Floats, call: Call, where: tuple[Any, ...]) -> tuple[Floats, Floats]:
    draws = draws_wanted(call.interval)
    if not draws or not received.any():
        blank = np.full(received.shape[1], np.nan)
        return blank, blank
    drawn = _shares(together([received], draws, stream(call.seed, "exposure", *where))[0])
    return percentile_ends(drawn.T, call.interval.level)
