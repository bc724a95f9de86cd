"""The outcome test's findings as rows of the frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.audits.assemble import hidden_cells, notes, suppressed
from evenhand.audits.outcome_contrast import Everybody, contrast_rows
from evenhand.cards import REGISTRY, Floats, Metric, MetricSpec, needing
from evenhand.findings import Row, row
from evenhand.intervals.difference import holm, holm_by_family
from evenhand.intervals.pooled import tested as tested_by_chance
from evenhand.metrics.outcome import Covariance, Gaps, critical, gaps, mean_errors, reasons
from evenhand.metrics.outcome_joint import (
    Effect,
    Wald,
    bin_test,
    joint_test,
    spline,
)
from evenhand.metrics.outcome_means import lowest_bin
from evenhand.metrics.outcome_pooled import Pooled, pooled
from evenhand.sources.outcomes import Outcomes
from evenhand.tallies.moments import Moments
from evenhand.tallies.rows import Rows

EXTRA = ("bin", "bin_low", "bin_high", "se", "p", "p_adjusted", "intercept", "slope", "detectable", "share_used")
Cells = frozenset[tuple[int | None, str | None]]
"""Bins, counted from 1, and groups."""

WHOLE = "pooled_gap(support='all')"
"""The pooled gap over all scores, also those that not every group reaches."""

NARROW = 0.5
"""Where less than this share of the rows lies in the common support, the joint test says so."""


@dataclass(frozen=True)
class Binning:
    """One binning of the data, tested."""

    moments: Moments
    gaps: Gaps
    pooled: Pooled
    covariance: Covariance
    ends: Floats

    @classmethod
    def of(
        cls,
        moments: Moments,
        reference: int,
        covariance: Covariance,
        ends: Floats | None,
        rows: Callable[[], Rows | None],
    ) -> Binning:
        """Test one binning; `rows` are read where few outcomes leave nothing but permuting the labels."""
        found = gaps(moments, reference, covariance)
        over_all = tested_by_chance(moments, found, pooled(moments, found, covariance), rows)
        return cls(moments, found, over_all, covariance, np.zeros(0) if ends is None else ends)


def all_rows(
    tested: Binning,
    others: Mapping[int, Binning],
    view: Outcomes,
    *,
    kind: str,
    level: float,
    everybody: Everybody,
    wanted: AbstractSet[str],
    whole: Binning | None = None,
) -> list[Row]:
    """Summaries first, then every bin, then what other measures say, the costly ones where `wanted`; `whole` has bins of all
    scores, shared or not.
    """
    rows = _summary(tested, view, level, kind)
    if whole is not None:
        rows += _effects(whole.pooled, WHOLE, whole, view, level)
    for count, other in others.items():
        rows += _effects(other.pooled, f"pooled_gap(bins={count})", other, view, level)
        rows.append(_test(joint_test(other.gaps), f"joint_test(bins={count})", other.moments.rows))
    rows += _gap_rows(tested, view, level)
    rows += _mean_rows(tested, view, level)
    rows += [_bin_test_row(tested, b) for b in range(len(tested.ends) - 1)]
    return rows + contrast_rows(view, everybody, level, wanted)


def askable() -> dict[str, Metric]:
    """Metrics that may be asked for: those of the sums of bins, and what other measures see row by row."""
    return {**needing(Moments), **needing(Rows), "equalized_odds_gap": REGISTRY["equalized_odds_gap"]}


def over_slices(rows: Sequence[Row]) -> list[Row]:
    """Rows of all slices: p that were adjusted within a slice are adjusted over all of them, metric by metric."""
    tested = [i for i, r in enumerate(rows) if np.isfinite(r.get("p_adjusted", np.nan))]
    p = [rows[i]["p"] for i in tested]
    found = dict(zip(tested, holm_by_family(p, [rows[i]["metric"] for i in tested]).tolist(), strict=True))
    return [{**r, "p_adjusted": found[i]} if i in found else r for i, r in enumerate(rows)]


def chosen_rows(rows: Sequence[Row], asked: Sequence[MetricSpec], tested: Binning, view: Outcomes) -> list[Row]:
    """The metrics asked for: as the test has them, with their errors, or else the value on the tested bins."""
    said: dict[str, list[Row]] = {}
    for r in rows:
        said.setdefault(r["metric"], []).append(r)
    return [r for a in asked for r in said.get(a.text) or _otherwise(a, tested, view)]


def _otherwise(a: MetricSpec, tested: Binning, view: Outcomes) -> list[Row]:
    if a.card.needs is Moments:
        return _measured(a, tested, view)
    told = view.roles.treated is not None or view.threshold is not None
    why = "no_single_rows" if not view.engine.has_rows and told else "nobody_left_out"
    return [row({}, a.text, group=name, ideal=a.ideal, better=a.better, note=why) for name in view.names]


def _measured(a: MetricSpec, tested: Binning, view: Outcomes) -> list[Row]:
    """A metric that is no part of the test: one value, one per group, or one per bin and group."""
    m = tested.moments
    at = {"reference": view.reference} if "reference" in a.metric.parameters else {}
    found = a.metric.on(m, **{**at, **a.params})
    by_group, by_bin = found.ndim > 0, found.ndim > 1
    rows = []
    for place in np.ndindex(found.shape):
        held = m.rows[place] if by_bin else m.rows[:, place[0]].sum() if by_group else m.rows.sum()
        rows.append(
            row(
                {}, a.text, group=view.names[place[-1]] if by_group else None, estimate=float(found[place]), ideal=a.ideal,
                better=a.better, units=int(held), note=a.card.reason(m, **a.params) if np.isnan(found[place]) else None,
                **(_place(tested, place[0]) if by_bin else {}),
            )
        )  # fmt: skip
    return rows


def nothing_rows(names: Sequence[str], why: str, asked: Sequence[MetricSpec] | None = None) -> list[Row]:
    """What is left to say where nothing can be compared."""
    if asked is not None:
        return [row({}, a.text, ideal=a.ideal, better=a.better, note=why) for a in asked]
    groups: list[str | None] = list(names) or [None]
    rows = [
        row({}, "joint_test", note=why),
        *(row({}, "pooled_gap", group=g, ideal=0.0, better="ideal", note=why) for g in groups),
    ]
    return rows + [row({}, "outcome_gap", group=g, ideal=0.0, better="ideal", note=why) for g in groups]


def _summary(tested: Binning, view: Outcomes, level: float, kind: str) -> list[Row]:
    held = tested.moments.rows
    narrow = "narrow_support" if held.sum() < NARROW * view.used.sum() else ""
    rows = [_test(joint_test(tested.gaps), "joint_test", held, narrow)]
    if kind == "classification":
        rows.append({**_bin_test_row(tested, 0), "metric": "marginal_test"})
    rows += _effects(tested.pooled, "pooled_gap", tested, view, level)
    bent = spline(tested.moments, view.reference, tested.covariance, tested.ends)
    rows += _effects(bent, "spline_gap", tested, view, level)
    rows.append(_lowest(tested))
    return rows


def _test(found: Wald, metric: str, held: Floats, also: str = "") -> Row:
    """A test of bins that hold so many rows per group. One of all bins is a family of its own, whatever other bins say."""
    alone = np.count_nonzero(held.reshape(-1, held.shape[-1]).any(0)) < 2
    few = "one_group_only" if alone else "too_few_clusters" if found.gaps else "small_cell"
    missing = "" if np.isfinite(found.p) else few
    made = row({}, metric, estimate=found.statistic, units=int(held.sum()), p=found.p, note=notes(missing, also))
    return {**made, "p_adjusted": found.p} if metric.startswith("joint_test") else made


def _effects(found: Effect | Pooled, metric: str, tested: Binning, view: Outcomes, level: float) -> list[Row]:
    """One row per group for a gap over all bins; p adjusted over the groups."""
    (low, high), seen, p = found.ends(level), found.detectable(level), found.p
    others = np.arange(len(view.labels)) != view.reference
    p = np.where(others & ~found.small, p, np.nan)
    adjusted = holm(p)
    rows, held = [], tested.moments.rows.sum(0)
    used = np.where(others, found.rows, held) if isinstance(found, Pooled) else held
    for g, name in enumerate(view.names):
        shown = others[g] and not found.small[g]
        ends = (low[g], high[g]) if shown else (np.nan, np.nan)
        rows.append(
            row(
                {}, metric, group=name, estimate=found.estimate[g], low=ends[0], high=ends[1], ideal=0.0, better="ideal",
                units=int(used[g]), se=found.error[g], p=p[g], p_adjusted=adjusted[g],
                detectable=seen[g] if shown else np.nan, share_used=used[g] / view.used[g],
                note=_effect_note(found, g, tested, view, ends) if others[g] or not held[g] else "reference",
            )
        )  # fmt: skip
    return [_plain(r) for r in rows]


def _effect_note(
    found: Effect | Pooled, g: int, tested: Binning, view: Outcomes, ends: tuple[float, float]
) -> str | None:
    """Why there is no gap over all bins, or no test of it, and whether bins are missing from it."""
    held = tested.moments.rows
    if np.isnan(found.estimate[g]):
        here = held.sum(0)
        absent = "group_absent" if not here[g] else "reference_absent" if not here[view.reference] else "collinear"
        return absent if here.astype(bool).sum() > 1 else "one_group_only"
    bins = np.count_nonzero(held.any(1))
    missing = "bins_missing" if isinstance(found, Pooled) and found.bins[g] < bins else ""
    drawn = "permuted_labels" if isinstance(found, Pooled) and g in found.drawn and found.few[g] else ""
    constant = "constant_input" if not found.error[g] > 0 else ""
    few = "few_outcomes" if not constant and np.isnan(ends[0]) else ""
    return notes(missing, constant, few, drawn if not few and not constant else "")


def _place(tested: Binning, b: int) -> dict[str, Any]:
    return {"bin": b + 1, "bin_low": float(tested.ends[b]), "bin_high": float(tested.ends[b + 1])}


def _gap_rows(tested: Binning, view: Outcomes, level: float) -> list[Row]:
    found, why = tested.gaps, reasons(tested.moments, tested.gaps)
    adjusted = holm(np.where(found.tested, found.p, np.nan).ravel()).reshape(found.p.shape)
    thin = found.small | found.small[:, [found.reference]]
    wide, seen, error = found.half_width(level), found.detectable(level), found.error
    still = np.minimum(tested.moments.above, tested.moments.below) == 0  # all the lowest, or all the highest: no error
    p = np.where(still | still[:, [found.reference]], np.nan, found.p)
    level_at_zero = found.lines.level[:, found.reference] - found.lines.slope * tested.moments.origin
    rows = []
    for b in range(len(tested.ends) - 1):
        flat = "" if found.lines.scored[b] or found.lines.collinear[b] else "constant_score"
        for g, name in enumerate(view.names):
            gap, units = found.estimate[b, g], int(found.rows[b, g])
            alone = g == found.reference and why[b][g] == "one_group_only"
            home = "reference" if g == found.reference and not why[b][g] and not np.isnan(gap) else ""
            small = "small_cell" if thin[b, g] and g != found.reference and not np.isnan(gap) else ""
            reach = np.nan if home else wide[b, g]
            made = row(
                {}, "outcome_gap", group=name, estimate=np.nan if alone else gap, low=gap - reach, high=gap + reach,
                ideal=0.0, better="ideal", units=units, note=notes(home, why[b][g], small, flat if not np.isnan(gap) else ""),
                se=error[b, g], p=p[b, g], p_adjusted=adjusted[b, g], detectable=seen[b, g],
                intercept=level_at_zero[b] if not np.isnan(gap) else np.nan,
                slope=found.lines.slope[b] if found.lines.scored[b] and not np.isnan(gap) else np.nan, **_place(tested, b),
            )  # fmt: skip
            rows.append(_plain(made))
    return rows


def _mean_rows(tested: Binning, view: Outcomes, level: float) -> list[Row]:
    """Mean outcome per bin and group (figures 4 and 6 of the source)."""
    mean, (error, _) = means(tested, view), mean_errors(tested.moments, tested.covariance)
    low, high = mean_ends(tested, view, level)
    rows = []
    for b in range(len(tested.ends) - 1):
        for g, name in enumerate(view.names):
            units = int(tested.moments.rows[b, g])
            still = "single_member" if units == 1 else "no_variation" if np.isnan(low[b, g]) else ""
            made = row(
                {}, "mean_outcome", group=name, estimate=mean[b, g], low=low[b, g], high=high[b, g],
                units=units, se=error[b, g], note=notes(still if units else "group_absent"), **_place(tested, b),
            )  # fmt: skip
            rows.append(_plain(made))
    return rows


def means(tested: Binning, view: Outcomes) -> Floats:
    """Mean outcome of every cell; the last digit of a sum must not carry it beyond the outcomes there are."""
    return np.clip(tested.moments.mean_outcome, *view.outcome_ends)


def mean_ends(tested: Binning, view: Outcomes, level: float) -> tuple[Floats, Floats]:
    """Ends of the interval of each cell's mean: none where its outcomes are all one number, and none beyond 0 and 1 of a share."""
    error, freedom = mean_errors(tested.moments, tested.covariance)
    wide = np.where(error > 0, critical(level, freedom) * error, np.nan)
    least, most = view.outcome_ends if is_binary(tested.moments) else (-np.inf, np.inf)
    mean = means(tested, view)
    return np.maximum(mean - wide, least), np.minimum(mean + wide, most)


def _bin_test_row(tested: Binning, b: int) -> Row:
    found = bin_test(tested.gaps, b)
    return {**_test(found, "bin_test", tested.moments.rows[b]), **_place(tested, b)}


def _lowest(tested: Binning) -> Row:
    """Which bin has the lowest outcomes: if not the first, outcomes do not rise with the score (note 13 of the source)."""
    lowest = float(lowest_bin.on(tested.moments))
    units = int(tested.moments.rows.sum())
    return row(
        {},
        "lowest_bin",
        estimate=lowest,
        ideal=1.0,
        better="ideal",
        units=units,
        note="not_rising" if lowest > 1 else None,
    )


def is_binary(m: Moments) -> bool:
    """Whether every outcome is the lowest or the highest one."""
    return bool(np.all(m.above + m.below == m.rows))


def calibration_points(tested: Binning, view: Outcomes, level: float, few: Cells) -> dict[str, list[Any]]:
    """Mean score and mean outcome per bin and group, for the pictures; none of `few` cells."""
    m = tested.moments
    (low, high), mean, score = mean_ends(tested, view, level), means(tested, view), m.mean_score
    out: dict[str, list[Any]] = {name: [] for name in ("bin", "group", "score", "outcome", "low", "high", "units")}
    for b in range(m.rows.shape[0]):
        for g, name in enumerate(view.names):
            if not m.rows[b, g] or (b + 1, name) in few:
                continue
            numbers = (float(part[b, g]) for part in (score, mean, low, high))
            values = (b + 1, name, *numbers, int(m.rows[b, g]))
            for column, value in zip(out, values, strict=True):
                out[column].append(value)
    return out


def _plain(r: Row) -> Row:
    """Numbers as Python has them, not numpy."""
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in r.items()}


def without_few(rows: Sequence[Row], fewest: int, left: Sequence[str] = (), few: Cells = frozenset()) -> list[Row]:
    """The same rows; where a group has too few members in them, in a bin or over all, no number survives.

    Tests of a bin with one of the `few` cells go with it. Groups that were `left` out have rows without numbers too, as
    many as the others.
    """
    bins = {(b, None) for b, _ in few}
    made = [_bare(r) if (r.get("bin"), r["group"]) in few | bins or _too_few(r, fewest) else r for r in rows]
    others = [r for r in rows if r["group"] is not None]
    like = [r for r in others if r["group"] == others[-1]["group"]]
    return made + [{**_bare(r), "group": name} for name in left for r in like]


def _too_few(r: Row, fewest: int) -> bool:
    return r["group"] is not None and r["units"] is not None and r["units"] < fewest


def _bare(r: Row) -> Row:
    nothing = dict.fromkeys(("se", "p", "p_adjusted", "intercept", "slope", "detectable", "share_used"), np.nan)
    return {**suppressed(r), **{k: v for k, v in nothing.items() if k in r}}


def few_cells(tested: Binning, view: Outcomes, fewest: int) -> Cells:
    """Bins (counted from 1) of a group with too few rows, and others beside them, or a subtraction would tell.

    All bins hold about as many rows, and of a group all its rows are known: those outside the bins are a cell too.
    """
    if fewest <= 1:
        return frozenset()
    inside = tested.moments.rows
    outside = view.used - inside.sum(0)
    hide = hidden_cells([*inside.tolist(), *([*np.diag(outside)] if outside.any() else [])], fewest)
    return frozenset(
        (b + 1, name) for b in range(len(inside)) for name, few in zip(view.names, hide[b], strict=True) if few
    )
