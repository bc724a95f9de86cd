"""Rows of an outcome test, what other measures see on the same data, and facts about the test itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.audits.min_units import hidden_cells, must_withhold, suppressed
from evenhand.cards import REGISTRY, Floats, Metric, MetricSpec, needing
from evenhand.claims import Candidate, Claim, adjusted_detectable, direction_of, power_text
from evenhand.findings import Points, Row, as_columns, notes, read_number, row, slice_words
from evenhand.intervals.kinds import holm, holm_by_family
from evenhand.intervals.outcomes import odds_gaps, rate_gap, with_flipped_signs, with_null_draws
from evenhand.metrics.outcome import Covariance, Gaps, critical, gaps, mean_errors, reasons
from evenhand.metrics.outcome_joint import (
    Effect,
    Pooled,
    Wald,
    bin_test,
    joint_test,
    lowest_bin,
    lowest_bin_p,
    pooled,
    spline,
)
from evenhand.sources.outcomes import Outcomes
from evenhand.tallies.candidates import Rows
from evenhand.tallies.moments import Moments

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
    def from_moments(
        cls, moments: Moments, reference: int, covariance: Covariance, ends: Floats, rows: Callable[[], Rows | None]
    ) -> Binning:
        """Test one binning; `rows` are read where labels have to be permuted."""
        bin_gaps = gaps(moments, reference, covariance)
        over_all = with_null_draws(moments, bin_gaps, pooled(moments, bin_gaps, covariance), rows)
        return cls(moments, bin_gaps, over_all, covariance, ends)


def all_rows(
    tested: Binning, others: Mapping[int, Binning], whole: Binning | None, view: Outcomes, kind: str, level: float
) -> list[Row]:
    """Rows of one slice: summaries, then every bin; `whole` has bins of all scores, shared or not."""
    m = tested.moments
    narrow = "narrow_support" if m.rows.sum() < NARROW * view.used.sum() else ""
    rows = [_test(joint_test(tested.gaps), "joint_test", m.rows, narrow)]
    by_bin = [
        {**_test(bin_test(tested.gaps, b), "bin_test", m.rows[b]), **_place(tested, b)}
        for b in range(len(tested.ends) - 1)
    ]
    if kind == "classification":
        rows.append({**by_bin[0], "metric": "marginal_test"})
    rows += _effects(tested.pooled, "pooled_gap", tested, view, level)
    bent = spline(m, view.reference, tested.covariance, tested.ends)
    bent = with_flipped_signs(bent) if isinstance(bent, Pooled) else bent
    rows += _effects(bent, "spline_gap", tested, view, level)
    lowest = row({}, "lowest_bin", estimate=float(lowest_bin.on(m)), ideal=1.0, better="ideal", units=int(m.rows.sum()))
    rows.append({**lowest, "p": lowest_bin_p(m, tested.covariance)})
    if whole is not None:
        rows += _effects(whole.pooled, WHOLE, whole, view, level)
    for count, other in others.items():
        rows += _effects(other.pooled, f"pooled_gap(bins={count})", other, view, level)
        rows.append(_test(joint_test(other.gaps), f"joint_test(bins={count})", other.moments.rows))
    rows += _gap_rows(tested, view, level)
    rows += _mean_rows(tested, view, level)
    return [{k: v.item() if isinstance(v, np.generic) else v for k, v in r.items()} for r in rows + by_bin]


def askable() -> dict[str, Metric]:
    return {**needing(Moments), **needing(Rows), "equalized_odds_gap": REGISTRY["equalized_odds_gap"]}


def over_slices(rows: Sequence[Row]) -> list[Row]:
    """Rows with p adjusted over all slices, metric by metric."""
    tested = [i for i, r in enumerate(rows) if np.isfinite(r.get("p_adjusted", np.nan))]
    p = [rows[i]["p"] for i in tested]
    adjusted = dict(zip(tested, holm_by_family(p, [rows[i]["metric"] for i in tested]).tolist(), strict=True))
    return [{**r, "p_adjusted": adjusted[i]} if i in adjusted else r for i, r in enumerate(rows)]


def chosen_rows(rows: Sequence[Row], specs: Sequence[MetricSpec], tested: Binning, view: Outcomes) -> list[Row]:
    """Rows of the metrics asked for: those of the test, or else the value on its bins."""
    by_metric: dict[str, list[Row]] = {}
    for r in rows:
        by_metric.setdefault(r["metric"], []).append(r)
    why = "no_single_rows" if not view.engine.has_rows and selects(view) else "nobody_left_out"
    chosen: list[Row] = []
    for a in specs:
        if a.text in by_metric:
            chosen += by_metric[a.text]
        elif a.card.needs is Moments:
            chosen += _measured(a, tested, view)
        else:
            chosen += [row({}, a.text, group=name, ideal=a.ideal, better=a.better, note=why) for name in view.names]
    return chosen


def _measured(a: MetricSpec, tested: Binning, view: Outcomes) -> list[Row]:
    """A metric that is no part of the test: one value, one per group, or one per bin and group."""
    m = tested.moments
    at = {"reference": view.reference} if "reference" in a.metric.parameters else {}
    values = a.metric.on(m, **{**at, **a.params})
    by_group, by_bin = values.ndim > 0, values.ndim > 1
    rows = []
    for place in np.ndindex(values.shape):
        row_count = m.rows[place] if by_bin else m.rows[:, place[0]].sum() if by_group else m.rows.sum()
        rows.append(row(
            {}, a.text, group=view.names[place[-1]] if by_group else None, estimate=float(values[place]), ideal=a.ideal,
            better=a.better, units=int(row_count), note=a.card.reason(m, **a.params) if np.isnan(values[place]) else None,
            **(_place(tested, place[0]) if by_bin else {}),
        ))  # fmt: skip
    return rows


def nothing_rows(names: Sequence[str], why: str, specs: Sequence[MetricSpec] | None = None) -> list[Row]:
    """Rows without numbers, where nothing can be compared."""
    if specs is not None:
        return [row({}, a.text, ideal=a.ideal, better=a.better, note=why) for a in specs]
    gaps = [(metric, g) for metric in ("pooled_gap", "outcome_gap") for g in (names or (None,))]
    rows = [row({}, metric, group=g, ideal=0.0, better="ideal", note=why) for metric, g in gaps]
    return [row({}, "joint_test", note=why), *rows]


def _test(wald: Wald, metric: str, row_counts: Floats, also: str = "") -> Row:
    """Row of a Wald test; a joint test is a family of its own, so its p needs no adjustment."""
    single_group = np.count_nonzero(row_counts.reshape(-1, row_counts.shape[-1]).any(0)) < 2
    few = "one_group_only" if single_group else "too_few_clusters" if wald.gaps else "small_cell"
    missing = "" if np.isfinite(wald.p) else few
    cells = row({}, metric, estimate=wald.statistic, units=int(row_counts.sum()), p=wald.p, note=notes(missing, also))
    return {**cells, "p_adjusted": wald.p} if metric.startswith("joint_test") else cells


def _effects(effect: Effect | Pooled, metric: str, tested: Binning, view: Outcomes, level: float) -> list[Row]:
    """One row per group for a gap over all bins; p adjusted over the groups."""
    (low, high), seen, p = effect.ends(level), effect.detectable(level), effect.p
    others = np.arange(len(view.labels)) != view.reference
    p = np.where(others & ~effect.small, p, np.nan)
    adjusted = holm(p)
    rows, row_counts = [], tested.moments.rows.sum(0)
    used = np.where(others, effect.rows, row_counts) if isinstance(effect, Pooled) else row_counts
    for g, name in enumerate(view.names):
        shown = others[g] and not effect.small[g]
        ends = (low[g], high[g]) if shown else (np.nan, np.nan)
        rows.append(
            row(
                {}, metric, group=name, estimate=effect.estimate[g], low=ends[0], high=ends[1], ideal=0.0, better="ideal",
                units=int(used[g]), se=effect.error[g], p=p[g], p_adjusted=adjusted[g],
                detectable=seen[g] if shown else np.nan, share_used=used[g] / view.used[g],
                note=_effect_note(effect, g, tested, view, ends) if others[g] or not row_counts[g] else "reference",
            )
        )  # fmt: skip
    return rows


def _effect_note(
    effect: Effect | Pooled, g: int, tested: Binning, view: Outcomes, ends: tuple[float, float]
) -> str | None:
    """Why there is no gap over all bins, or no test of it, and whether bins are missing from it."""
    row_counts = tested.moments.rows
    if np.isnan(effect.estimate[g]):
        by_group = row_counts.sum(0)
        absent = (
            "group_absent" if not by_group[g] else "reference_absent" if not by_group[view.reference] else "collinear"
        )
        return absent if by_group.astype(bool).sum() > 1 else "one_group_only"
    bins = np.count_nonzero(row_counts.any(1))
    missing = "bins_missing" if isinstance(effect, Pooled) and effect.bins[g] < bins else ""
    drawn = "permuted_labels" if isinstance(effect, Pooled) and g in effect.drawn and effect.few[g] else ""
    constant = "constant_input" if not effect.error[g] > 0 else ""
    too_few = "too_few_clusters" if tested.covariance == "cluster" else "few_outcomes"
    few = too_few if not constant and np.isnan(ends[0]) else ""
    return notes(missing, constant, few, drawn if not few and not constant else "")


def _place(tested: Binning, b: int) -> dict[str, Any]:
    return {"bin": b + 1, "bin_low": float(tested.ends[b]), "bin_high": float(tested.ends[b + 1])}


def _gap_rows(tested: Binning, view: Outcomes, level: float) -> list[Row]:
    gaps_by_bin, why = tested.gaps, reasons(tested.moments, tested.gaps)
    adjusted = holm(np.where(gaps_by_bin.tested, gaps_by_bin.p, np.nan).ravel()).reshape(gaps_by_bin.p.shape)
    thin = gaps_by_bin.small | gaps_by_bin.small[:, [gaps_by_bin.reference]]
    wide, seen, error = gaps_by_bin.half_width(level), gaps_by_bin.detectable(level), gaps_by_bin.error
    still = np.minimum(tested.moments.above, tested.moments.below) == 0  # all the lowest, or all the highest: no error
    p = np.where(still | still[:, [gaps_by_bin.reference]], np.nan, gaps_by_bin.p)
    level_at_zero = gaps_by_bin.lines.level[:, gaps_by_bin.reference] - gaps_by_bin.lines.slope * tested.moments.origin
    rows = []
    for b in range(len(tested.ends) - 1):
        flat = "" if gaps_by_bin.lines.scored[b] or gaps_by_bin.lines.collinear[b] else "constant_score"
        for g, name in enumerate(view.names):
            gap, units = gaps_by_bin.estimate[b, g], int(gaps_by_bin.rows[b, g])
            single_group = g == gaps_by_bin.reference and why[b][g] == "one_group_only"
            home = "reference" if g == gaps_by_bin.reference and not why[b][g] and not np.isnan(gap) else ""
            small = "small_cell" if thin[b, g] and g != gaps_by_bin.reference and not np.isnan(gap) else ""
            reach = np.nan if home else wide[b, g]
            rows.append(row(
                {}, "outcome_gap", group=name, estimate=np.nan if single_group else gap, low=gap - reach, high=gap + reach,
                ideal=0.0, better="ideal", units=units, note=notes(home, why[b][g], small, flat if not np.isnan(gap) else ""),
                se=error[b, g], p=p[b, g], p_adjusted=adjusted[b, g], detectable=seen[b, g],
                intercept=level_at_zero[b] if not np.isnan(gap) else np.nan,
                slope=gaps_by_bin.lines.slope[b] if gaps_by_bin.lines.scored[b] and not np.isnan(gap) else np.nan, **_place(tested, b),
            ))  # fmt: skip
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
            rows.append(row(
                {}, "mean_outcome", group=name, estimate=mean[b, g], low=low[b, g], high=high[b, g],
                units=units, se=error[b, g], note=notes(still if units else "group_absent"), **_place(tested, b),
            ))  # fmt: skip
    return rows


def means(tested: Binning, view: Outcomes) -> Floats:
    """Mean outcome of every cell, clipped to the outcomes there are: sums round."""
    return np.clip(tested.moments.mean_outcome, *view.outcome_ends)


def mean_ends(tested: Binning, view: Outcomes, level: float) -> tuple[Floats, Floats]:
    """Interval of the mean of each cell; NaN where outcomes do not vary."""
    error, freedom = mean_errors(tested.moments, tested.covariance)
    wide = np.where(error > 0, critical(level, freedom) * error, np.nan)
    least, most = view.outcome_ends if is_binary(tested.moments) else (-np.inf, np.inf)
    mean = means(tested, view)
    return np.maximum(mean - wide, least), np.minimum(mean + wide, most)


def is_binary(m: Moments) -> bool:
    return bool(np.all(m.above + m.below == m.rows))


def calibration_points(tested: Binning, view: Outcomes, level: float, few: Cells) -> Points:
    """Mean score and mean outcome per bin and group, for the pictures; none of `few` cells."""
    m = tested.moments
    numbers = np.stack([m.mean_score, means(tested, view), *mean_ends(tested, view, level)], axis=-1)
    points = [
        (b + 1, name, *numbers[b, g].tolist(), int(m.rows[b, g]))
        for b in range(m.rows.shape[0])
        for g, name in enumerate(view.names)
        if m.rows[b, g] and (b + 1, name) not in few
    ]
    return as_columns(("bin", "group", "score", "outcome", "low", "high", "units"), points)


def without_few(rows: Sequence[Row], fewest: int, left: Sequence[str] = (), few: Cells = frozenset()) -> list[Row]:
    """Rows with every number about fewer than `fewest` members of a group suppressed.

    Tests of a bin with one of the `few` cells go with it. Groups that were `left` out have rows without numbers too, as
    many as the others.
    """
    hidden = few | {(b, None) for b, _ in few}

    def is_small(r: Row) -> bool:
        too_few = r["group"] is not None and r["units"] is not None and r["units"] < fewest
        return too_few or (r.get("bin"), r["group"]) in hidden

    shown = [_bare(r) if is_small(r) else r for r in rows]
    others = [r for r in rows if r["group"] is not None]
    like = [r for r in others if r["group"] == others[-1]["group"]]
    return shown + [{**_bare(r), "group": name} for name in left for r in like]


def _bare(r: Row) -> Row:
    nothing = dict.fromkeys(("se", "p", "p_adjusted", "intercept", "slope", "detectable", "share_used"), np.nan)
    return {**suppressed(r), **{k: v for k, v in nothing.items() if k in r}}


def few_cells(tested: Binning, view: Outcomes, fewest: int) -> Cells:
    """Cells (bin from 1, group) that are suppressed: too few rows, or found by subtraction.

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


ODDS = ("equalized_odds_gap", "equal_opportunity_gap")
RATES = ("true_positive_rate_gap", "false_positive_rate_gap")
"""Measures that read the rows one by one, which takes longer than all the rest: they are left out where nobody asks."""


def selects(view: Outcomes) -> bool:
    """Whether the table says who was treated."""
    return view.roles.treated is not None or view.threshold is not None


def contrast_rows(
    view: Outcomes, seen: Rows | None, people: Rows | None, row_metrics: AbstractSet[str], level: float
) -> list[Row]:
    """Averages, calibration gaps, and gaps of odds and rates where in `row_metrics`.

    Odds read the rows whose outcome was `seen`, rates all `people` whose outcome the table tells, one by one; both are None where
    they cannot be held.
    """
    rows = []
    for g, name in enumerate(view.names):
        units, outcome = int(view.used[g]), view.outcome_sum[g] / view.mass[g]
        average = "precision" if selects(view) else "base_rate"
        rows.append(row({}, average, group=name, estimate=float(outcome), units=units))
        if on_outcome_scale(view):
            gap = outcome - view.score_sum[g] / view.mass[g]
            cells = {"estimate": float(gap), "ideal": 0.0, "better": "ideal", "units": units}
            rows.append(row({}, "calibration_gap", group=name, **cells))
    rows += _odds_rows(view, seen, [metric for metric in ODDS if metric in row_metrics], level)
    if people is not None:
        rows += [r for metric in RATES if metric in row_metrics for r in _rate_rows(view, people, metric, level)]
    return rows


def _odds_rows(view: Outcomes, seen: Rows | None, metrics: Sequence[str], level: float) -> list[Row]:
    kinds = [metric == "equal_opportunity_gap" for metric in metrics]
    unseen = "too_many_rows" if view.engine.has_rows else "no_single_rows"
    rows: dict[str, list[Row]] = {metric: [] for metric in metrics}
    for g, name in enumerate(view.names):
        home = g == view.reference
        gaps = [] if home or seen is None or not kinds else odds_gaps(seen, g, view.reference, level, kinds)
        for i, metric in enumerate(metrics):
            r = row({}, metric, group=name, ideal=0.0, better="lower", units=int(view.used[g]))
            r |= {"estimate": 0.0, "note": "reference"} if home else {"note": unseen}
            if gaps:
                odds = gaps[i]
                skipped = "some_outcomes_skipped" if odds.skipped else ""
                few = "few_given_outcome" if np.isnan(odds.estimate) else skipped
                r |= {"estimate": odds.estimate, "low": odds.low, "high": odds.high, "chance": odds.chance}
                r["note"] = notes(few, "too_few_clusters" if odds.few_clusters else "")
            rows[metric].append(r)
    return [r for by_group in rows.values() for r in by_group]


def _rate_rows(view: Outcomes, people: Rows, metric: str, level: float) -> list[Row]:
    """Gaps of the rate at which those with a good outcome, or a bad one, are treated."""
    rows, at = [], people.outcome == (metric == RATES[0])
    for g, name in enumerate(view.names):
        gap = rate_gap(people, at, g, view.reference, level)
        home = g == view.reference and not np.isnan(gap.estimate)
        note = "zero_denominator" if np.isnan(gap.estimate) else "few_given_outcome" if np.isnan(gap.low) else None
        rows.append(row(
            {}, metric, group=name, estimate=gap.estimate, low=np.nan if home else gap.low,
            high=np.nan if home else gap.high, ideal=0.0, better="ideal",
            units=int(np.count_nonzero(at & (people.group == g))), p=gap.p, note="reference" if home else note,
        ))  # fmt: skip
    return rows


def on_outcome_scale(view: Outcomes) -> bool:
    """Whether scores can be read as predicted outcomes: none is outside their range."""
    low, high = view.outcome_ends
    return bool(low <= view.low.min() and view.high.max() <= high and low < high)


FAMILY = (
    "Holm over everything that the result could claim (deciding test, gap of each group, fall of outcomes, gaps of rates; all "
    "slices); what is shown without a claim (bins, other numbers of bins, spline) within its metric"
)
BIN_RULE = "right-closed; equal edges merged"
SMALL_RULE = (
    "left out of the joint test and the family of p-values, never out of the pooled gap: fewer than 30 rows, fewer than 5 outcomes "
    "above the lowest or below the highest on either side, or fewer than 10 clusters"
)
POOLED_RULE = (
    "gaps weighted by the group's rows, over every bin that holds it and the reference; errors as if there were no gap; with few outcomes "
    "labels are permuted within bins, with clusters the signs of whole clusters are flipped"
)
WEIGHTED = (
    "{!r}: least squares, means and the pooled gap are weighted; bins, small cells and degrees of freedom count rows"
)
CANNOT_SAY = (
    "Whether people treat the groups differently once the algorithm has shown them: the test takes outcomes as given.",
    "Anything about scores outside the range that all groups share, or about candidates whose outcome nobody saw.",
    "Whether the outcome is the right one to predict, or why the scores are off.",
    "Anything where scores cannot be compared between requests, as those of a listwise ranker (kind='listwise').",
)


def facts_of(
    view: Outcomes,
    tested: Binning,
    bins: int | Sequence[float],
    kind: str,
    scope: tuple[float, float],
    left: Sequence[str],
    fewest: int,
) -> dict[str, Any]:
    how, count = tested.covariance, bins if isinstance(bins, int) else len(bins) + 1
    errors = {
        "HC1": "heteroscedasticity-robust (HC1), normal",
        "classical": "classical, t with rows minus coefficients",
        "cluster": f"clustered by {view.roles.cluster!r} (CR1), t with clusters minus 1",
    }[how]
    hide = dict.fromkeys(left, "suppressed")
    rates = {"outcomes": "0 or 1"} if is_binary(tested.moments) and tuple(view.outcome_ends) == (0.0, 1.0) else {}
    return {
        "kind": kind,
        **rates,
        "reference": view.names[view.reference],
        "groups": _counts(view.names, view.used) | hide,
        "scope": _scope_facts(view, tested, kind, scope, hide, fewest),
        "bins": {"asked": count, "made": len(tested.ends) - 1, "edges": tested.ends[1:-1].tolist(), "rule": BIN_RULE},
        "errors": errors,
        **({"weights": WEIGHTED.format(view.roles.weight)} if view.weighted else {}),
        "clusters": tested.gaps.clusters,
        "family": FAMILY,
        "small_cell": SMALL_RULE,
        "joint_test": f"Wald test of {int(tested.gaps.jointly.sum())} gaps whose cells are not small",
        "pooled_gap": POOLED_RULE,
        "detectable": "gap that the test would find with a chance of 80%",
        "cannot_say": list(CANNOT_SAY),
    }


def _scope_facts(
    view: Outcomes, tested: Binning, kind: str, scope: tuple[float, float], hide: Mapping[str, str], fewest: int
) -> dict[str, Any]:
    names, inside, ranking = view.names, tested.moments.rows.sum(0), kind == "ranking"
    outside = _counts(names, view.used - inside)
    set_by = [names[int(view.low.argmax())], names[int(view.high.argmin())]] if ranking else None
    facts = {
        "low": scope[0], "high": scope[1],
        "rule": "scores that all groups share" if ranking else "at or above the threshold",
        "set_by": set_by if fewest <= 1 else None,
    }  # fmt: skip
    if fewest > 1 and must_withhold(outside, fewest, ()):
        return facts
    return {**facts, "rows": int(inside.sum()), "rows_outside": sum(outside.values()), "left_out": {**outside, **hide}}


def _counts(names: Sequence[str], counts: Floats) -> dict[str, int]:
    return dict(zip(names, counts.astype(int).tolist(), strict=True))


OWN = ("scope", "groups", "bins", "clusters", "joint_test")
"""What differs from slice to slice."""


def of_slices(by: Sequence[str], labels: Sequence[Sequence[Any]], facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Facts that all slices share, and those that differ by slice."""
    if not by:
        return dict(facts[0])
    common = next((f for f in facts if "kind" in f), facts[0] if facts else {})
    each = {slice_words(by, label): {k: f[k] for k in OWN if k in f} for label, f in zip(labels, facts, strict=True)}
    shared = {k: v for k, v in common.items() if k not in OWN}
    return shared | {"slices": each}


TESTS = {"ranking": "joint_test", "classification": "marginal_test"}
AMONG = {"true_positive_rate_gap": "with the outcome", "false_positive_rate_gap": "without the outcome"}


def outcome_claims(
    rows: Sequence[Row], by: Sequence[str], kind: str, reference: str, level: float, *, points: bool
) -> dict[int, Candidate]:
    """Candidates by the number of the row they are about.

    A ranking is decided by the pooled gaps and the joint test, a threshold by the gaps and the test right above it; with
    one group beside the reference its gap is that test. `points` : gaps are in percentage points.
    """
    deciding = {i: r for i, r in enumerate(rows) if r["group"] not in (None, reference) and _decides(r, kind)}
    is_same_test = kind == "classification" and len({r["group"] for r in deciding.values()}) == 1
    tests = {} if is_same_test else {i: r for i, r in enumerate(rows) if r["metric"] == TESTS[kind]}
    falls = {i: r for i, r in enumerate(rows) if r["metric"] == "lowest_bin"}
    rates = {i: r for i, r in enumerate(rows) if r["metric"] in AMONG and r["group"] != reference}
    tested = sum(math.isfinite(_p(r)) for r in [*deciding.values(), *tests.values(), *falls.values(), *rates.values()])
    at = "" if kind == "ranking" else " right above the threshold"
    candidates = {}
    for i, r in {**tests, **deciding, **falls, **rates}.items():
        group, direction = r["group"], direction_of(r["estimate"])
        if i in tests:
            text, direction = f"at equal score{at}, the groups' outcomes differ", "differs"
            otherwise = f"at equal score{at}, no significant difference between the groups' outcomes"
            untested = f"whether the groups' outcomes differ at equal score{at}"
        elif i in deciding:
            text = f"the score {'under-rates' if r['estimate'] > 0 else 'over-rates'} {group}{at}"
            power = power_clause(r, tested, level, points=points)
            otherwise = f"no significant gap between {group} and {reference} at equal score{at}{power}"
            untested = f"whether the score under- or over-rates {group}{at}"
        elif i in falls:
            text = f"outcomes are lower in bin {r['estimate']:.0f} than in the first: they do not rise with the score"
            otherwise, direction = "no significant fall of outcomes as the score rises", "lower"
            untested = "whether outcomes fall as the score rises"
        else:
            often, among = "more" if r["estimate"] > 0 else "less", f"among those {AMONG[r['metric']]}"
            text = f"{among}, {group} are treated {often} often than {reference}"
            otherwise = f"{among}, no significant difference in how often {group} and {reference} are treated"
            untested = f"{among}, whether {group} or {reference} are treated more often"
        where = {name: r[name] for name in by} | ({"bin": r["bin"]} if r.get("bin") else {})
        otherwise = f"{untested} cannot be told" if math.isnan(_p(r)) else otherwise
        candidates[i] = Candidate(_p(r), direction, text, otherwise, r["metric"], group, where)
    return candidates


def power_clause(r: Row, tests: int, level: float, *, points: bool) -> str:
    """What the test of a gap could find, behind the words that nothing was; `points` : gaps are in percentage points."""
    size = adjusted_detectable(read_number(r.get("detectable")), tests, level)
    return "" if math.isnan(size) else f"; {power_text(size, points=points)}"


def counterfactual_claims(
    rows: Sequence[Row], by: Sequence[str], moves: Mapping[tuple[Any, ...], str]
) -> dict[int, Candidate]:
    """Candidates by row: what each group would gain, in what `moves` in its slice (slots or mean ranks), and the outcome's change."""
    candidates = {}
    for i, r in enumerate(rows):
        where, group, change = {name: r[name] for name in by}, r["group"], r["estimate"]
        moved = moves.get(tuple(where.values()), "")
        if r["metric"] == "outcome_relative_change":
            text = "the outcome would rise, by more than chance gives"
            if change <= 0:
                text = "the outcome would change by more or less than chance gives, but not rise"
            otherwise = "no significant change of the outcome"
        elif r["metric"] == "slots_gained" == moved:
            text = f"{group} would {'gain' if change > 0 else 'lose'} slots"
            otherwise = f"no significant change of the slots of {group}"
        elif r["metric"] == "mean_rank_change" == moved:
            text = f"{group} would rank {'lower' if change > 0 else 'higher'} on average"
            otherwise = f"no significant change of the mean rank of {group}"
        else:
            continue
        p = float(r.get("p", math.nan))
        candidates[i] = Candidate(p, direction_of(change), text, otherwise, r["metric"], group, where)
    return candidates


def _decides(r: Row, kind: str) -> bool:
    if kind == "ranking":
        return bool(r["metric"] == "pooled_gap")
    return r["metric"] == "outcome_gap" and r.get("bin") in (1, None)


def _p(r: Row) -> float:
    """The p of a row; NaN where its cell was too small to enter a family of tests."""
    p = r.get("p", math.nan)
    return math.nan if p is None or math.isnan(r.get("p_adjusted", 0.0)) else float(p)


def remedies(rows: Sequence[Row], claims: Mapping[int, Claim], by: Sequence[str], level: float) -> Points:
    """Which team can fix which bias (section 5.1 of the source), and what was claimed of it.

    The algorithm's bias is what the deciding gap tells of; of people's bias the test is silent. "not found" comes with the gap
    that would have been found in 80% of cases; "cannot tell" where nothing could be tested.
    """
    points = []
    tested = sum(math.isfinite(claim.p) for claim in claims.values())
    for i, claim in claims.items():
        if not claim.metric.startswith(("pooled_gap", "outcome_gap", "order_gap")):
            continue
        r, missing = rows[i], [math.nan] * 5
        answer = "cannot tell" if math.isnan(claim.p) else "found" if claim.made else "not found"
        where, gap = [r[b] for b in by], [r["estimate"], r["low"], r["high"], claim.p_adjusted]
        size = adjusted_detectable(read_number(r.get("detectable")), tested, level)
        points.append([*where, r["group"], "algorithm", answer, *gap, size, "works", "does not work"])
        points.append([*where, r["group"], "people", "not tested", *missing, "does not work", "works"])
    names = ("estimate", "low", "high", "p_adjusted", "detectable", "change_scores", "change_product")
    return as_columns((*by, "group", "source", "found", *names), points)
