"""What an exposure result asserts: which group gets more or less of the exposure than its target."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.audits.declare import Call
from evenhand.audits.exposure.measures import ExposureMetricSpec, ExposureTallies, exposure_and_targets
from evenhand.cards import Floats
from evenhand.claims import Candidate, detectable_of, direction_of
from evenhand.intervals.request_tests import FEWEST, skewed_test, t_test
from evenhand.report.words.text import percent, rounded_percent
from evenhand.tallies.group_exposure import AttentionSpec, GroupExposure, Policy


def exposure_claims(
    t: ExposureTallies, specs: Sequence[ExposureMetricSpec], names: Sequence[str], small: Sequence[bool], call: Call
) -> list[Candidate]:
    """Per slice, whether the exposure of the protected group (without one: of each) is above or below its target.

    Paired over requests (or clusters of them): received exposure less target share times all exposure. The p is the larger of
    two: Student's t, and that of random orders of the lists (few items near the top make t see too little spread). Of two
    groups one is asked.
    """
    differences = list(_differences(t, specs, small, call)) if t.policy.labels and specs else []
    candidates = []
    for d in differences:
        show = percent if rounded_percent(d.share) == rounded_percent(d.target) else rounded_percent
        gets, target = f"{d.group} gets {show(d.share)} of the exposure", f"its target of {show(d.target)}"
        power = detectable_of(d.error, call.interval.level, len(differences))
        candidates.append(
            Candidate(
                d.p if not d.settles else 1.0, direction_of(d.total), f"{gets}, {'above' if d.total > 0 else 'below'} {target}",
                f"{gets} as far as labels are known; {d.settles}"
                if d.settles
                else f"{gets}, not significantly different from {target}; "
                f"the test had 80% power for differences of {100 * power:.2g} points or more",
                "exposure", d.group, dict(zip(names, t.sums.slices[d.place], strict=True)),
            )
        )  # fmt: skip
    return candidates


@dataclass(frozen=True, slots=True)
class _Difference:
    """A group's exposure less its target, in all and as shares with their standard error, in the slice at `place`.

    `settles` : where missing labels leave the direction open, which labels would settle it.
    """

    place: int
    group: str
    total: float
    share: float
    target: float
    error: float
    p: float
    settles: str = ""


def _differences(
    t: ExposureTallies, specs: Sequence[ExposureMetricSpec], small: Sequence[bool], call: Call
) -> Iterator[_Difference]:
    tally, target, browsing = exposure_and_targets(t, specs)
    sides = [tuple(t.policy.protected)] if t.policy.protected else [(i,) for i in range(len(t.policy.labels))]
    for s in range(len(t.sums.slices)):
        part = t.sums.part(s)
        for side in () if small[s] else sides[:1] if len(t.policy.labels) == 2 else sides:
            received, whole = tally.received[part][:, list(side)].sum(-1), tally.received[part].sum(-1)
            aim = target[part][:, list(side)].sum(-1)
            used = (whole > 0) & ~np.isnan(aim)
            off = t.sums.within.unit_sums(s, received - np.nan_to_num(aim) * whole, used)
            if len(off) < FEWEST:
                continue
            total = float(whole[used].sum())
            p, error = t_test(off)
            variance, third = (m[part][used].sum() for m in order_moments(t.sums, t.policy, side, browsing))
            p = max(p, skewed_test(float(off.sum()), float(variance), float(third))) if variance > 0 else p
            group = ", ".join(str(t.policy.labels[i]) for i in side)
            shares = float(received[used].sum()) / total, float(aim[used].mean())
            share, goal = (call.published(x, int(used.sum())) for x in shares)
            settles = _labels_to_settle(t, s, browsing, total * share, total * goal, total)
            yield _Difference(
                s, group, float(off.sum()), share, goal, max(error, math.sqrt(variance)) / total, p, settles
            )


def _labels_to_settle(
    t: ExposureTallies, s: int, browsing: AttentionSpec, received: float, due: float, whole: float
) -> str:
    """Which labels would settle a direction that missing labels leave open; empty where they do not, or nobody asked."""
    if t.unlabelled is None:
        return ""
    part = t.sums.part(s)
    cells = t.unlabelled.within(t.sums.rankings_of(part))
    scale = (t.sums.weight[t.sums.request_of] * t.sums.share)[t.sums.rankings_of(part)]
    attention = np.sort(np.bincount(cells.items, cells.attended[browsing] * scale[cells.rankings]))[::-1]
    free, share, goal = attention.sum(), received / whole, due / whole
    if share == goal:
        return "missing labels leave it open whether that is more or less than its target"
    # with labels for the k items that get most, split as the known ones are, the rest may all be on one side
    left = free - np.append(0.0, np.cumsum(attention))
    off = np.abs(share - goal) * (whole + free)
    is_settled = left * (share if share > goal else 1 - share) < off
    if received > due and received > goal * (whole + free):
        return ""
    if received < due and received + free < goal * (whole + free):
        return ""
    most = int(np.argmax(is_settled)) if is_settled.any() else len(attention)
    items = "the unlabelled item" if most == 1 else f"the {most:,} unlabelled items"
    return (
        f"missing labels leave it open whether that is more or less than its target, and labels of {items} with most exposure "
        "would settle it if they split as the known ones do"
    )


def order_moments(
    sums: GroupExposure, policy: Policy, side: Sequence[int], browsing: AttentionSpec
) -> tuple[Floats, Floats]:
    """(Q,) variance and third central moment of a side's exposure over random orders of each list, weights applied.

    Lists are taken as if they held ranks 1 to n, and a cascade as if nobody stopped: more spread, never less.
    """
    by_group = policy.assign_unlabelled(sums.items)
    items, labelled = sums.items.sum(-1), by_group.sum(-1)
    weights = browsing.by_place(max(1, int(np.ceil(items.max(initial=1)))))
    powers = [np.append(0.0, np.cumsum(weights**k)) for k in (1, 2, 3)]
    n = np.round(items).astype(np.int64)
    first, second, cubed = (x[n] for x in powers)
    m = np.maximum(labelled, 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = by_group[:, list(side)].sum(-1) / labelled
        mean = first / n
        squares = (second - n * mean**2) * labelled / n
        cubes = (cubed - 3 * mean * second + 2 * n * mean**3) * labelled / n
    spread = share * (1 - share)
    variance = np.nan_to_num(squares * spread * m / (m - 1))
    third = np.nan_to_num(cubes * spread * (1 - 2 * share) * m**2 / ((m - 1) * (m - 2)))
    return (
        sums.weight**2 * sums.sum_per_request(variance * sums.share**2),
        sums.weight**3 * sums.sum_per_request(third * sums.share**3),
    )
