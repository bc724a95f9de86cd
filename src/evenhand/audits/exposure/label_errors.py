"""Exposure metrics where labels are a sample (`label_probability`) or partly wrong (`confusion`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from evenhand.audits.declare import Call
from evenhand.audits.exposure.measures import ExposureMetricSpec, ExposureTallies
from evenhand.cards import REGISTRY, Floats
from evenhand.claims import Candidate, detectable_of, direction_of
from evenhand.errors import EvenhandError, listing
from evenhand.intervals.label_errors import Confusion, LabelDraws, PooledMetric, PooledSlice
from evenhand.intervals.request_tests import FEWEST
from evenhand.labels import match
from evenhand.report.words.text import percent
from evenhand.streams import stream
from evenhand.tallies.exposure import Exposed, targets
from evenhand.tallies.group_exposure import ItemExposure
from evenhand.tallies.requests import Measured

CLAIM_DRAWS = 999
"""Draws behind the standard error of a claim, as behind an interval."""


def is_pooled(spec: ExposureMetricSpec) -> bool:
    """Whether a metric reads pooled exposure alone, or is linear in it."""
    if not spec.browsing.is_by_rank:
        return False
    if spec.needs(Exposed):
        return bool(spec.params.get("signed")) and spec.target not in ("ranking", "relevant")
    return spec.card.name in ("dp", "log_dp", "exposure_share") or (spec.card.name == "eed" and spec.norms is None)


def refuse_unpooled(spec: ExposureMetricSpec, option: str) -> None:
    if not is_pooled(spec):
        raise EvenhandError(
            f"metrics={spec.text!r} cannot be corrected by {option}=: it needs the labels of single lists. Name dp, log_dp, "
            "exposure_share, eed or \"awrf(distance='nd', signed=True)\" with attention by rank."
        )


def read_confusion(confusion: Any, labels: Sequence[Any], rows: Sequence[tuple[Any, Any, float]] | None) -> Confusion:
    """The matrix of a mapping `{true: {observed: share}}`, or of `rows` true, observed, count."""
    listed = [(t, o, v) for t, of in confusion.items() for o, v in of.items()] if rows is None else list(rows)
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
    if rows is None and (np.abs(total - 1) > 1e-6).any():
        raise EvenhandError(
            "confusion has shares that do not add up to 1 for each true label. Pass shares, or a table true, observed, count."
        )
    shares = matrix / total[:, None]
    if np.linalg.cond(shares) > 1e8:
        raise EvenhandError(
            "confusion cannot be inverted: two true labels are observed alike. Merge them, or measure labels better."
        )
    return Confusion(shares, None if rows is None else matrix)


def corrected(spec: ExposureMetricSpec, t: ExposureTallies) -> Measured:
    """The metric with its own estimate and draws; requests by themselves have no value."""
    sums, items, confusion = t.sums, t.sampled, t.confusion
    slices = [_pooled(spec, t, s, items, confusion) for s in range(len(sums.slices))]
    fixed = None
    if spec.needs(Exposed) and spec.target != "population":
        fixed = targets(sums, t.policy, spec.target, t.sizes)
    pooled = PooledMetric(spec, slices, sums.slice_starts, t.policy, fixed)
    many, reason = len(sums.requests), "pooled_labels"
    group = ", ".join(str(t.policy.labels[i]) for i in t.policy.protected or ()) if "sides" in spec.reads else None
    return Measured(
        spec, np.zeros((many, 0)), lambda _: np.array(np.nan), np.full(many, np.nan), np.full(many, reason, object),
        lambda *_: "", lambda _: spec.ideal, group=group, resampler=pooled,
        counted=np.ones(many, dtype=bool),
    )  # fmt: skip


def _pooled(
    spec: ExposureMetricSpec, t: ExposureTallies, s: int, items: ItemExposure | None, confusion: Confusion | None
) -> PooledSlice:
    sums, policy, groups = t.sums, t.policy, len(t.policy.labels)
    part = sums.part(s)
    rankings = sums.rankings_of(part)
    attended = sums.attended[spec.browsing][rankings]
    request = sums.request_of[rankings] - part.start
    scale = (sums.weight[sums.request_of] * sums.share)[rankings]
    cells = None if items is None else items.within(rankings)
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
    return PooledSlice(received, by_unit(scale * plain), weight, policy.assign_unlabelled(t.sizes), labels, confusion)


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


def confusion_rows(confusion: Any) -> list[tuple[Any, Any, float]] | None:
    """Rows true, observed, count of a table; None for a mapping, whose shares are taken as known."""
    if isinstance(confusion, Mapping):
        return None
    from evenhand.sources.opening import open_table

    table = open_table(confusion, role="confusion")
    if lost := [c for c in ("true", "observed", "count") if c not in table.names]:
        raise EvenhandError(f"confusion has no column {lost[0]!r}. Pass a table with true, observed and count.")
    table = table.with_numbers("count")
    cells = table.engine.cells(
        f"SELECT {table.label('true')} AS truth, {table.label('observed')} AS seen, {table.number('count')} AS n FROM {table.name}"
    )
    return list(zip(cells.values("truth"), cells.values("seen"), cells.floats("n").tolist(), strict=True))


def corrected_claims(
    t: ExposureTallies, specs: Sequence[ExposureMetricSpec], names: Sequence[str], small: Sequence[bool], call: Call
) -> list[Candidate]:
    """Per slice, whether the exposure of the protected group (without one: of each) is above or below its target.

    Tested by Student's t with the error of the draws. Where labels are a sample, the text says how many would settle it.
    """
    if not specs or not t.policy.labels:
        return []
    sides = [tuple(t.policy.protected)] if t.policy.protected else [(i,) for i in range(len(t.policy.labels))]
    spec = replace(
        specs[0], metric=REGISTRY["awrf"], params={"distance": "nd", "signed": True}, text="awrf", cutoff=None
    )
    candidates = []
    for side in sides[:1] if len(t.policy.labels) == 2 else sides:
        policy = replace(t.policy, protected=side)
        pooled = corrected(spec, replace(t, policy=policy)).resampler
        assert isinstance(pooled, PooledMetric)  # noqa: S101
        for s, where in enumerate(t.sums.slices):
            if small[s] or t.sums.within.unit_count(s) < FEWEST:
                continue
            labels = dict(zip(names, where, strict=True))
            rng = stream(call.seed, "exposure", *where, "claims")
            candidates += _candidate(pooled, t.sums.part(s), side, t.sums.within.unit_count(s), labels, call, rng)
    return candidates


def _candidate(
    pooled: PooledMetric, part: slice, side: Sequence[int], units: int, where: Mapping[str, Any], call: Call, rng: Any
) -> list[Candidate]:
    off = pooled.value(part)
    draws = pooled.draws(part, CLAIM_DRAWS, rng)
    if draws is None or np.isnan(off):
        return []
    error = float(np.nanstd(draws, ddof=1))
    p = 2 * float(stdtr(units - 1, -abs(off) / error)) if error > 0 else math.nan
    received = pooled.slice_at(part).totals()[0][0]
    share = float(received[list(side)].sum() / received.sum())
    group = ", ".join(str(pooled.policy.labels[i]) for i in side)
    gets, target = f"{group} gets {percent(share)} of the exposure", f"its target of {percent(share - off)}"
    more = labels_to_settle(pooled, part, off, error, call)
    return [
        Candidate(
            p, direction_of(off), f"{gets}, {'above' if off > 0 else 'below'} {target}",
            f"{gets}, not significantly different from {target}{more}", "exposure", group, where,
        )
    ]  # fmt: skip


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
    drawn, items = (
        1 / len(labels.codes),
        1 / float(labels.inverse.sum()),
    )  # with all items labelled nothing is left to draw
    needed = math.ceil(1 / (items + (drawn - items) * allowed / by_labels)) if by_labels > 0 else 0
    if needed <= len(labels.codes):
        return ""
    return f"; about {needed:,} labels of ranked items ({len(labels.codes):,} now) would give 80% power for this difference"
