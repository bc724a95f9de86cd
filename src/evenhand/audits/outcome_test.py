"""Is somebody held to a higher bar? At equal score, do the groups realise equal outcomes?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import names_of
from evenhand.audits.counterfactual import Evidence, OutcomeResult
from evenhand.audits.declare import Call, Columns, Count, Countable, Label, Level, Metrics, audit, log
from evenhand.audits.outcome_bins import (
    MOST_BINS,
    Bins,
    Grid,
    counted_edges_of,
    counts_of,
    given_edges,
    refuse_crowded,
    refuse_many_gaps,
)
from evenhand.audits.outcome_contrast import ODDS, RATES, Everybody
from evenhand.audits.outcome_facts import CANNOT_SAY, facts_of, of_slices, remedies
from evenhand.audits.outcome_rows import (
    EXTRA,
    Binning,
    all_rows,
    askable,
    calibration_points,
    chosen_rows,
    few_cells,
    nothing_rows,
    over_slices,
    without_few,
)
from evenhand.cards import Ask, Floats, asks
from evenhand.engine.counted_outcomes import view_counted_outcomes
from evenhand.engine.gathered import is_apart
from evenhand.engine.moments import (
    read_few,
    shared_ends,
    tally_apart,
    tally_known,
    tally_moments,
    tally_ordered,
    tally_rows,
)
from evenhand.engine.queries_outcomes import shares_of
from evenhand.engine.sketches import look_into
from evenhand.errors import EvenhandError
from evenhand.findings import Row
from evenhand.labels import whole as whole_labels
from evenhand.metrics.outcome import Covariance
from evenhand.tallies.moments import Ints, Moments
from evenhand.tallies.rows import Rows
from evenhand.views.outcomes import UNKNOWN, Checked, Missing, Outcomes, Roles, view_outcomes
from evenhand.views.sketch import Wish
from evenhand.views.tables import FEW_ROWS
from evenhand.views.tally import tally_of

MOST_ROWS = 2_000_000
"""Rows whose labels can be permuted: more of them are not read into memory, and a group with few outcomes gets no p."""


@audit(
    "outcome_test",
    question="Is somebody held to a higher bar?",
    charts=("outcomes", "calibration", "gaps"),
    default="all that the test says",
    extra=EXTRA,
    over="rows",
    stands_for="The interval is for other people like these, scored and treated in the same way: how far the number would "
    "move had others come.",
)
def outcome_test(
    call: Call,
    table: Countable,
    *,
    score: str,
    outcome: str,
    group: str,
    reference: Label = None,
    kind: Literal["ranking", "classification"] = "ranking",
    threshold: float | None = None,
    bins: Bins = 10,
    request: str | None = None,
    treated: str | None = None,
    covariance: Covariance | None = None,
    cluster: str | None = None,
    weight: str | None = None,
    by: Columns = None,
    metrics: Metrics | None = None,
    level: Level = 0.95,
    min_units: Count | None = None,
    nan_policy: Missing = "raise",
) -> OutcomeResult:
    """Whether equally scored candidates of different groups realise equal outcomes, along the score.

    A group with a positive gap does better than the reference at the same score: it is under-scored, held to a higher bar.

    Parameters
    ----------
    table : a dataframe or a path; one row per scored candidate. `"tally:rows.csv"` are the rows of the query that
        `evenhand sql outcome-test` prints.
    score : column of the score; comparable between requests, not necessarily on the scale of the outcome.
    outcome : column of what became of the candidate.
    group : column of the group; a missing one is the group "unknown", and there may be 1,000 at most.
    reference : the group that others are compared with; None is the largest.
    kind : "ranking" tests every bin of the scores that all groups share; "classification" tests the bin right above
        `threshold` and shows the others.
    threshold : score from which candidates are treated (classification only); None is the lowest score seen.
    bins : how many equally filled bins, or the scores at which one bin ends and the next begins.
    request : column that says which query or job a row belongs to; its rows share shocks, so errors are then clustered.
    treated : column that says (0 or 1) whose outcome could be observed; None means every row's.
    covariance : "HC1", "classical" or "cluster"; None clusters where `cluster` or `request` is named, else HC1.
    cluster : column to cluster by, if not `request`.
    weight : column of a weight per row: least squares and means are weighted, bins are not. A weight of zero is no row.
    by : columns to slice by (country, week): a test of its own for every slice, p adjusted over all of them.
    metrics : metric strings; left out, all that the test says.
    min_units : groups with fewer rows are left out before anything is measured; cells with fewer are suppressed, and the
        next smallest of the group beside one alone.
    nan_policy : what a missing score or outcome does: "raise", or "omit" the row.

    Examples
    --------
    >>> import polars as pl
    >>> half = [i / 100 for i in range(100)]
    >>> rows = pl.DataFrame({"s": half * 2, "sex": ["f"] * 100 + ["m"] * 100, "y": half + [s + 0.5 for s in half]})
    >>> found = outcome_test(rows, score="s", outcome="y", group="sex", reference="f", bins=4)
    >>> [round(gap, 6) for gap in found.only("pooled_gap").frame["estimate"]]
    [0.0, 0.5]
    """
    asked = None if metrics is None else asks(metrics, askable())
    how, roles = roles_of(call.arguments)
    log.info("checking the table")
    held = tally_of(table)
    if held is None:
        checked = view_outcomes(
            table,
            roles,
            reference=reference,
            threshold=threshold,
            nan_policy=nan_policy,
            by_group=call.fewest > 1,
            wish=_wish(bins),
        )
    else:
        checked = view_counted_outcomes(
            held,
            roles,
            kind=kind,
            bins=bins,
            edges=counted_edges_of(bins),
            reference=reference,
            threshold=threshold,
            nan_policy=nan_policy,
            fewest=call.fewest,
        )
    words = {"unit": "candidate", "score": score, "outcome": outcome, "group": group}
    if roles.by:
        checked, words["reference"] = _one_reference(checked)
    plan = _Plan(call, kind, bins, how, level, asked, words)
    parts = [_tested(label, part, plan) for label, part in checked.slices()]
    labels = whole_labels_of([part.label for part in parts])
    cells = [dict(zip(roles.by, label, strict=True)) for label in labels]
    rows = [{**cell, **r} for cell, part in zip(cells, parts, strict=True) for r in part.rows]
    rows = over_slices(rows) if roles.by else rows
    told = parts[0].words if len(parts) == 1 else words
    fixes = {"remedies": remedies(rows, roles.by, told.get("reference", ""), level)}
    return call.result(
        rows, backend=checked.backend, read=checked.rows, dropped=checked.dropped,
        slices=roles.by, curves=_curves(cells, parts) | fixes, words=told,
        facts=of_slices(roles.by, labels, [part.facts for part in parts]), of=OutcomeResult,
        evidence=tuple(replace(p.evidence, cells=cell) for cell, p in zip(cells, parts, strict=True) if p.evidence),
    )  # fmt: skip


def roles_of(given: Mapping[str, Any]) -> tuple[Covariance, Roles]:
    """How errors are found, and the columns by role."""
    cluster, request = given["cluster"], given["request"]
    how = _checked(given["kind"], given["threshold"], given["bins"], given["covariance"], cluster, request)
    clustered = how == "cluster"
    own = request if cluster is None and clustered else cluster
    columns = {role: given[role] for role in ("score", "outcome", "group", "request", "treated", "weight")}
    return how, Roles(**columns, cluster=own, clustered=clustered, by=names_of(given["by"]))


@dataclass(frozen=True)
class _Plan:
    """How every slice is tested."""

    call: Call
    kind: str
    bins: Any
    how: Covariance
    level: float
    asked: Sequence[Ask] | None
    words: Mapping[str, str]


@dataclass(frozen=True)
class _Part:
    """What the test of one slice gave."""

    label: tuple[Any, ...]
    rows: Sequence[Row]
    curve: Mapping[str, list[Any]]
    facts: Mapping[str, Any]
    words: Mapping[str, str]
    evidence: Evidence | None = None


def _one_reference(checked: Checked) -> tuple[Checked, str]:
    """The same group to compare with in every slice: the one that was named, or the largest of all."""
    groups = checked.by_group()
    if not groups.labels:
        return checked, ""
    label = groups.labels[groups.reference]
    return replace(checked, asked=(UNKNOWN if label is None else label, checked.roles.group)), groups.names[
        groups.reference
    ]


def _tested(label: tuple[Any, ...], checked: Checked, plan: _Plan) -> _Part:
    """The test of one slice, or of the whole table."""
    call, left = plan.call, list[str]()
    if call.fewest > 1:
        checked, left = checked.without_small_groups(call.fewest)
    if plan.words.get("reference") and not checked.holds_reference():
        return _undefined(label, checked.group_names(), "suppressed" if left else "reference_absent", plan)
    known, held = _read(checked, plan.bins)
    scoped, (low, high) = _scope(known, plan.kind)
    if not low <= high:
        view = checked.by_group()
        why = (
            "no_common_support" if view.labels else "suppressed" if left else "nobody_treated" if view.rows else "empty"
        )
        return _undefined(label, view.names, why, plan, view.names[view.reference] if view.labels else "")
    if call.fewest > 1:
        scoped, (low, high) = _shared_scope(scoped, (low, high), call.fewest)
    view, grid, moments, wide = _tallied(checked, scoped, (low, high), plan, held)
    words = {**plan.words, "reference": view.names[view.reference]}
    if not moments.rows.sum():  # nothing lies between ends that are means
        return _undefined(label, view.names, "suppressed", plan, words["reference"])
    if plan.how == "cluster":
        refuse_many_gaps(len(view.names), grid)
    tested, others = _binnings(view, moments, grid, plan, (low, high), held)
    whole = _whole(replace(view, scope=checked.scope), *wide, plan, held) if wide else tested
    wanted = {*ODDS, *RATES} if plan.asked is None else {a.card.name for a in plan.asked}
    rows = all_rows(
        tested, others, view, kind=plan.kind, level=plan.level, everybody=_everybody(checked, view, wanted, held, grid.edges),
        wanted=wanted,
        whole=whole if plan.kind == "ranking" else None,
    )  # fmt: skip
    chosen = rows if plan.asked is None else chosen_rows(rows, plan.asked, tested, view)
    few = few_cells(tested, view, call.fewest)
    return _Part(
        label, without_few(chosen, call.fewest, left, few), calibration_points(tested, view, plan.level, few),
        facts_of(view, tested, grid, plan.kind, (low, high), left, call.fewest), words,
        Evidence(view, plan.kind, tested.ends, (low, high), words, call, left),
    )  # fmt: skip


def _read(checked: Checked, bins: Any) -> tuple[Checked, Rows | None]:
    """The view with its groups and all its rows, if they are few and not on a cluster or a server, where they stay; else the
    view with what one pass tells of its groups and of the edges of bins.
    """
    few = checked.counted is None and checked.rows <= min(FEW_ROWS, MOST_ROWS) and not is_apart(checked.scope)
    if few:
        return read_few(checked)
    return look_into(checked, _wish(bins)), None


def _wish(bins: Any) -> Wish:
    """What will be asked of the scores."""
    return Wish(shares_of(counts_of(bins))) if isinstance(bins, int) else Wish(edges=given_edges(bins).tolist())


def _tallied(
    checked: Checked, scoped: Checked, ends: tuple[float, float], plan: _Plan, held: Rows | None
) -> tuple[Outcomes, Grid, Moments, tuple[Grid, Moments] | None]:
    """The view with its groups, the bins and their sums; and the same for all scores, if not every group reaches all."""
    log.info("finding the edges of the score bins")
    score, fewest, clustered = plan.words["score"], plan.call.fewest, plan.how == "cluster"
    if not isinstance(scoped, Outcomes) or ends == checked.score_ends:
        grid = Grid.of(scoped, plan.bins, *ends, fewest=fewest, rows=held)
        refuse_crowded(score, np.diff([ends[0], *grid.edges, ends[1]]))
        log.info("adding up per bin and group")
        if held is not None and isinstance(scoped, Outcomes):
            return scoped, grid, _summed(held, grid, scoped, ends, clustered=clustered), None
        view, moments = tally_moments(scoped, grid.edges, *ends, clustered=clustered, shared=fewest > 1)
        return view, grid, moments, None
    groups, (least, most) = replace(scoped, scope=checked.scope), checked.score_ends
    grid, wide = Grid.pair(groups, plan.bins, *ends, fewest=fewest, rows=held)
    refuse_crowded(score, np.diff([ends[0], *grid.edges, ends[1]]))
    refuse_crowded(score, np.diff([least, *wide.edges, most]))
    log.info("adding up per bin and group")
    if held is not None:
        inside, over_all = (
            _summed(held, one, scoped, part, clustered=clustered)
            for one, part in ((grid, ends), (wide, checked.score_ends))
        )
        return scoped, grid, inside, (wide, over_all)
    known, moments, over_all = tally_apart(groups, grid.edges, ends, wide.edges, clustered=clustered)
    return known.within(*ends), grid, moments, (wide, over_all)


def _summed(rows: Rows, grid: Grid, view: Outcomes, ends: tuple[float, float], *, clustered: bool) -> Moments:
    return rows.within(*ends).moments(grid.edges, len(view.labels), view.outcome_ends, clustered=clustered)


def _binnings(
    view: Outcomes, moments: Moments, grid: Grid, plan: _Plan, ends: tuple[float, float], held: Rows | None
) -> tuple[Binning, dict[int, Binning]]:
    """The test's own bins, and half and twice as many."""
    rows_of = _RowsOnce(view, grid.edges, int(moments.rows.sum()), None if held is None else held.within(*ends))
    tested = Binning.of(
        moments.merged(grid.main), view.reference, plan.how, grid.ends(*ends), lambda: rows_of(grid.main)
    )
    others = {
        count: Binning.of(moments.merged(into), view.reference, plan.how, None, lambda into=into: rows_of(into))  # type: ignore[misc]
        for count, into in grid.others.items()
    }
    return tested, others


def _whole(groups: Outcomes, grid: Grid, moments: Moments, plan: _Plan, held: Rows | None) -> Binning:
    """The same bins of all scores, also those that not every group reaches."""
    rows_of = _RowsOnce(groups, grid.edges, int(moments.rows.sum()), held)
    return Binning.of(moments, groups.reference, plan.how, grid.ends(*groups.score_ends), lambda: rows_of(grid.main))


def _curves(cells: Sequence[Mapping[str, Any]], parts: Sequence[_Part]) -> dict[str, Any]:
    """Points of all slices, with the columns that tell slices apart before the others."""
    if not any(part.curve for part in parts):
        return {}
    names = next(part.curve for part in parts if part.curve)
    columns: dict[str, list[Any]] = {name: [] for name in (*cells[0], *names)}
    for cell, part in zip(cells, parts, strict=True):
        for name, values in part.curve.items():
            columns[name] += values
        for name, value in cell.items():
            columns[name] += [value] * len(part.curve.get("bin", ()))
    return {"calibration": columns}


def whole_labels_of(labels: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Labels of slices as their owner wrote them, column by column."""
    return list(zip(*(whole_labels(column) for column in zip(*labels, strict=True)), strict=True)) or [()] * len(labels)


def _checked(
    kind: str,
    threshold: float | None,
    bins: Any,
    covariance: Covariance | None,
    cluster: str | None,
    request: str | None,
) -> Covariance:
    """Refuse what does not fit together; the covariance to use."""
    if threshold is not None and kind == "ranking":
        raise EvenhandError(
            "threshold is for kind='classification': a ranking has no bar. Leave it out, or change the kind."
        )
    if covariance == "cluster" and cluster is None and request is None:
        raise EvenhandError("covariance='cluster' needs to know the clusters. Name a column as cluster= or request=.")
    if isinstance(bins, int) and not 1 <= bins <= MOST_BINS:
        raise EvenhandError(f"bins={bins!r} is not between 1 and {MOST_BINS:,}. Pass a number such as 10.")
    if covariance in ("HC1", "classical"):
        return covariance
    return "cluster" if cluster is not None or request is not None else "HC1"


def _scope(view: Checked, kind: str) -> tuple[Checked, tuple[float, float]]:
    """The rows that are tested, and the range of their scores: that of all groups at once, or all at or above the threshold."""
    if kind == "classification":
        return view, view.score_ends
    groups = view if isinstance(view, Outcomes) else view.by_group()
    ends = (float(groups.low.max()), float(groups.high.min())) if len(groups.labels) else (math.nan, math.nan)
    return groups.within(*ends), ends


def _shared_scope(view: Checked, ends: tuple[float, float], fewest: int) -> tuple[Checked, tuple[float, float]]:
    """The same without the outermost rows: an end is the mean of `fewest` scores, or the threshold, not somebody's own."""
    low, high = shared_ends(view, *ends, fewest)
    low = low if view.threshold is None else min(view.threshold, low)
    grouped = view if isinstance(view, Outcomes) else view.by_group()
    return grouped.within(low, high), (low, high)


def _everybody(
    checked: Checked, view: Outcomes, wanted: AbstractSet[str], held: Rows | None, edges: Floats
) -> Everybody:
    """The rows of all scores, and who of those with a known outcome was treated, as far as they are `wanted`.

    `edges` : scores with about as many rows between each two of them.
    """
    cut = checked.roles.treated is not None or checked.threshold is not None
    if checked.counted is not None:
        return Everybody(None, None, cut, "no_single_rows")
    whole = replace(view, scope=checked.scope)
    seen = held
    if held is None and wanted & {*ODDS} and view.used.sum() <= MOST_ROWS:
        seen = tally_ordered(whole, edges)
    if not cut or not wanted & {*RATES} or checked.rows > MOST_ROWS or checked.outcome_ends != (0.0, 1.0):
        return Everybody(seen, None, cut)
    known = tally_known(whole, edges)
    return Everybody(seen, None if known.treated is None or known.treated.all() else known, cut)


@dataclass
class _RowsOnce:
    """The rows in scope by bin, read when first asked for and not again; nothing where they are too many to hold.

    `few` : the same rows, where they were read already.
    """

    view: Outcomes
    edges: Floats
    many: int
    few: Rows | None
    held: Rows | None = None

    def __call__(self, into: Ints) -> Rows | None:
        if self.many > MOST_ROWS or self.view.counted is not None:
            return None
        if self.held is None:
            log.info("reading the rows one by one, since a group has few outcomes")
            self.held = tally_rows(self.view, self.edges) if self.few is None else self.few.binned(self.edges)
        return self.held.merged(into)


def _undefined(label: tuple[Any, ...], names: Sequence[str], why: str, plan: _Plan, reference: str = "") -> _Part:
    words = {**plan.words, **({"reference": reference} if reference else {})}
    return _Part(label, nothing_rows(names, why, plan.asked), {}, {"cannot_say": list(CANNOT_SAY)}, words)
