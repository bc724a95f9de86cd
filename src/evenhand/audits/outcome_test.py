"""Is somebody held to a higher bar? At equal score, do the groups realise equal outcomes?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import untold
from evenhand.audits.counterfactual import Evidence, OutcomeResult
from evenhand.audits.declare import Call, Count, Label, Level, Metrics, Table, Takes, audit, log
from evenhand.audits.outcome_rows import (
    EXTRA,
    Binning,
    Everybody,
    all_rows,
    calibration_points,
    chosen_rows,
    few_cells,
    is_binary,
    nothing_rows,
    without_few,
)
from evenhand.cards import Ask, Floats, asks, needing
from evenhand.engine.moments import score_edges, shared_ends, tally_known, tally_moments, tally_rows
from evenhand.errors import EvenhandError
from evenhand.metrics.outcome import FEWEST_EXPECTED, Covariance
from evenhand.tallies.moments import Ints, Moments
from evenhand.tallies.rows import Rows
from evenhand.views.outcomes import NARROWEST, Checked, Missing, Outcomes, Roles, view_outcomes, without_small_groups

MOST_BINS = 1_000
MOST_GAPS = 6_000
MOST_ROWS = 2_000_000
"""Rows whose labels can be permuted: more of them are not read into memory, and a group with few outcomes gets no p."""

BIN_RULE = "right-closed; equal edges merged"
SMALL_RULE = (
    "left out of the joint test and the family of p-values, never out of the pooled gap: fewer than 30 rows, or fewer than 5 "
    "outcomes above the lowest or below the highest, on either side"
)
_POOLED = "gaps weighted by the group's rows, over every bin that holds it and the reference; errors as if there were no gap, "
POOLED_RULE = {
    "cluster": f"{_POOLED}signs of whole clusters flipped, none with fewer than 10 clusters",
    "classical": f"{_POOLED}one variance for all rows, t; labels permuted within bins where outcomes are few",
    "HC1": f"{_POOLED}normal; labels permuted within bins where a group has fewer than 10 outcomes of a kind in all or a bin with "
    "fewer than 5 rows of either side, exact where scores within a bin do not depend on the group",
}
CANNOT_SAY = (
    "Whether people treat the groups differently once the algorithm has shown them: the test takes outcomes as given.",
    "Anything about scores outside the range that all groups share, or about candidates whose outcome nobody saw.",
    "Whether the outcome is the right one to predict, or why the scores are off.",
    "Anything where scores cannot be compared between requests, as those of a listwise ranker.",
)


def _read_bins(words: list[str]) -> int | list[float]:
    """A number of bins, or edges with commas between."""
    text = ",".join(words)
    try:
        return int(text) if "," not in text and "." not in text else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise EvenhandError(f"--bins {text!r} cannot be read. Write a number, or edges such as 0.2,0.5,0.8.") from error


Bins = Annotated[int | Sequence[float], Takes("N|EDGES", many=True, read=_read_bins)]


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
    table: Table,
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
    metrics: Metrics | None = None,
    level: Level = 0.95,
    min_units: Count | None = None,
    nan_policy: Missing = "raise",
) -> OutcomeResult:
    """Whether equally scored candidates of different groups realise equal outcomes, along the score.

    A group with a positive gap does better than the reference at the same score: it is under-scored, held to a higher bar.

    Parameters
    ----------
    table : a dataframe or a path; one row per scored candidate.
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
    asked = None if metrics is None else asks(metrics, needing(Moments))
    how = _checked(kind, threshold, bins, covariance, cluster, request)
    clustered = how == "cluster"
    by = request if cluster is None and clustered else cluster
    roles = Roles(score, outcome, group, request, treated, by, clustered)
    log.info("checking the table")
    checked = view_outcomes(table, roles, reference=reference, threshold=threshold, nan_policy=nan_policy)
    left: list[str] = []
    if call.fewest > 1:
        kept, left = without_small_groups(table, roles, checked, call.fewest)
        checked = (
            view_outcomes(kept, roles, reference=reference, threshold=threshold, nan_policy=nan_policy)
            if left
            else checked
        )
    words = {"unit": "candidate", "score": score, "outcome": outcome, "group": group}
    scoped, (low, high) = _scope(checked, kind)
    if not low <= high:
        return _undefined(call, checked.by_group(), asked, words)
    if call.fewest > 1:
        scoped, (low, high) = _shared_scope(scoped, (low, high), call.fewest)
    log.info("finding the edges of the score bins")
    grid = Grid.of(scoped, bins, low, high, call.fewest)
    _refuse_crowded(score, np.diff([low, *grid.edges, high]))
    log.info("adding up per bin and group")
    view, moments = tally_moments(scoped, grid.edges, low, high, clustered=clustered)
    words["reference"] = view.names[view.reference]
    if clustered:
        _refuse_many_gaps(len(view.names), grid)
    rows_of = _RowsOnce(view, grid.edges, int(moments.rows.sum()))
    tested = Binning.of(
        moments.merged(grid.main), view.reference, how, grid.ends(low, high), lambda: rows_of(grid.main)
    )
    others = {
        count: Binning.of(moments.merged(into), view.reference, how, None, lambda into=into: rows_of(into))  # type: ignore[misc]
        for count, into in grid.others.items()
    }
    everybody = _everybody(checked, view, treated=treated, threshold=threshold)
    rows = all_rows(tested, others, view, kind=kind, level=level, everybody=everybody)
    chosen = rows if asked is None else chosen_rows(rows, asked, tested, view)
    few = few_cells(tested, view, call.fewest)
    return call.result(
        without_few(chosen, call.fewest, left, few), backend=view.backend, read=view.rows, dropped=view.dropped,
        curves={"calibration": calibration_points(tested, view, level, few)}, words=words,
        facts=_facts(view, tested, grid, kind, (low, high), how, roles, left, call.fewest),
        of=OutcomeResult, evidence=Evidence(view, kind, tested.ends, (low, high), words, call, left),
    )  # fmt: skip


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
    groups = view.by_group()
    ends = (float(groups.low.max()), float(groups.high.min())) if len(groups.labels) else (math.nan, math.nan)
    return groups.within(*ends), ends


def _shared_scope(view: Checked, ends: tuple[float, float], fewest: int) -> tuple[Checked, tuple[float, float]]:
    """The same without the outermost rows: an end is the mean of `fewest` scores, or the threshold, not somebody's own."""
    low, high = shared_ends(view, *ends, fewest)
    low = low if view.threshold is None else min(view.threshold, low)
    grouped = view if isinstance(view, Outcomes) else view.by_group()
    return grouped.within(low, high), (low, high)


def _refuse_crowded(score: str, widths: Floats) -> None:
    """Scores that differ, but by so little that their powers are lost, would give wrong errors and no sign of it."""
    if np.any((widths > 0) & (widths < NARROWEST)):
        raise EvenhandError(
            f"score={score!r} has bins of a width below {NARROWEST:g}, too little for a line along them. "
            "Take logarithms of the scores, or pass fewer bins."
        )


@dataclass(frozen=True)
class Grid:
    """Fine bins of which every wanted number of bins is a merger.

    Attributes
    ----------
    edges : inner edges of the fine bins.
    main : which bin of the test each fine bin belongs to.
    others : the same for other numbers of bins, to see whether the answer hangs on that choice.
    asked : how many bins were asked for.
    """

    edges: Floats
    main: Ints
    others: dict[int, Ints]
    asked: int

    @classmethod
    def of(cls, view: Checked, bins: int | Sequence[float], low: float, high: float, fewest: int = 0) -> Grid:
        if isinstance(bins, int):
            counts = sorted({bins, max(1, bins // 2), min(MOST_BINS, 2 * bins)})
            sets = dict(zip(counts, score_edges(view, counts, low, high, fewest), strict=True))
            wanted, asked = sets.pop(bins), bins
        else:
            given = _edges_given(bins)
            wanted, asked = given[(given >= low) & (given < high)], len(given) + 1
            sets = {(len(wanted) + 2) // 2: wanted[1::2]} if len(wanted) > 1 else {}
        every = np.unique(np.concatenate([wanted, *sets.values()]))
        into = {count: _into(every, edges) for count, edges in sets.items() if len(edges) != len(wanted)}
        return cls(every, _into(every, wanted), into, asked)

    def ends(self, low: float, high: float) -> Floats:
        """The edges of the test's bins, with both ends of the scope."""
        inner = self.edges[np.flatnonzero(np.diff(self.main))]
        return np.concatenate([[low], inner, [high]])


def _everybody(checked: Checked, view: Outcomes, *, treated: str | None, threshold: float | None) -> Everybody:
    """The rows of all scores, and who of those with a known outcome was treated."""
    whole = replace(view, scope=checked.scope)
    seen = tally_rows(whole, np.zeros(0)) if view.used.sum() <= MOST_ROWS else None
    cut = treated is not None or threshold is not None
    if not cut or checked.rows > MOST_ROWS or checked.outcome_ends != (0.0, 1.0):
        return Everybody(seen, None, None, cut)
    known, used = tally_known(whole)
    return Everybody(seen, None, None, cut) if used.all() else Everybody(seen, known, used, cut)


@dataclass
class _RowsOnce:
    """The rows in scope, read when first asked for and not again; nothing where they are too many to hold."""

    view: Outcomes
    edges: Floats
    many: int
    held: Rows | None = None

    def __call__(self, into: Ints) -> Rows | None:
        if self.many > MOST_ROWS:
            return None
        if self.held is None:
            log.info("reading the rows one by one, since a group has few outcomes")
            self.held = tally_rows(self.view, self.edges)
        return self.held.merged(into)


def _refuse_many_gaps(groups: int, grid: Grid) -> None:
    """Where clusters reach over bins, the joint test holds the covariance of every gap with every other one."""
    gaps = groups * (1 + max(int(into[-1]) for into in (grid.main, *grid.others.values())))
    if gaps > MOST_GAPS:
        raise EvenhandError(
            f"bins={grid.asked} makes up to {gaps:,} gaps of {groups} groups, more than the {MOST_GAPS:,} that can be tested "
            "together. Pass fewer bins, or fewer groups."
        )


def _edges_given(bins: Sequence[float]) -> Floats:
    try:
        given = np.asarray(bins, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvenhandError(
            f"bins={bins!r} holds edges that are not numbers. Pass scores such as [0.2, 0.5]."
        ) from error
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all() or np.any(np.diff(given) <= 0):
        raise EvenhandError(f"bins={bins!r} is not a rising list of scores. Pass edges such as [0.2, 0.5].")
    return given


def _into(every: Floats, edges: Floats) -> Ints:
    """Which bin each fine bin belongs to: a fine bin ends at `every`, a bin at `edges`."""
    return np.concatenate([np.searchsorted(edges, every), [len(edges)]]).astype(np.int64)


def _facts(
    view: Outcomes,
    tested: Binning,
    grid: Grid,
    kind: str,
    scope: tuple[float, float],
    how: str,
    roles: Roles,
    left: Sequence[str],
    fewest: int,
) -> dict[str, Any]:
    errors = {
        "HC1": "heteroscedasticity-robust (HC1), normal",
        "classical": "classical, t with rows minus coefficients",
        "cluster": f"clustered by {roles.cluster!r} (CR1), t with clusters minus 1",
    }[how]
    names, inside = view.names, tested.moments.rows.sum(0)
    ranking = kind == "ranking"
    hide = dict.fromkeys(left, "suppressed")
    outside = _counts(names, view.used - inside)
    set_by = [names[int(view.low.argmax())], names[int(view.high.argmin())]] if ranking else None
    scope_facts: dict[str, Any] = {
        "low": scope[0],
        "high": scope[1],
        "rule": "scores that all groups share" if ranking else "at or above the threshold",
        "set_by": set_by if fewest <= 1 else None,
    }
    if not untold(outside, fewest, ()):
        scope_facts |= {
            "rows": int(inside.sum()), "rows_outside": sum(outside.values()), "left_out": outside | hide,
        }  # fmt: skip
    rates = {"outcomes": "0 or 1"} if is_binary(tested.moments) and tuple(view.outcome_ends) == (0.0, 1.0) else {}
    return {
        "kind": kind,
        **rates,
        "reference": names[view.reference],
        "groups": _counts(names, view.used) | hide,
        "scope": scope_facts,
        "bins": {
            "asked": grid.asked,
            "made": len(tested.ends) - 1,
            "edges": tested.ends[1:-1].tolist(),
            "rule": BIN_RULE,
        },
        "errors": errors,
        "clusters": tested.gaps.clusters,
        "family": f"Holm over the {int(tested.gaps.tested.sum())} gaps (bins times groups) whose cells are not small",
        "small_cell": SMALL_RULE + (", or fewer than 10 clusters" if how == "cluster" else ""),
        "joint_test": _joint_rule(tested),
        "pooled_gap": POOLED_RULE[how],
        "detectable": "gap that the test would find with a chance of 80%",
        "cannot_say": list(CANNOT_SAY),
    }


def _joint_rule(tested: Binning) -> str:
    """Which gaps enter the joint test, and what it is referred to."""
    found = tested.gaps
    reference = {
        "HC1": "chi-square, each bin first referred to Hotelling's T^2 with Welch's degrees of freedom",
        "classical": "F with all bins' rows minus coefficients",
        "cluster": f"Hotelling's T^2 with {found.total_freedom + 1:.1f} clusters of one size, which these are worth",
    }[tested.covariance]
    return (
        f"Wald test of {int(found.jointly.sum())} gaps, those that are not small and whose cells would hold "
        f"{FEWEST_EXPECTED} outcomes of either kind at the rate of their bin; {reference}"
    )


def _counts(names: Sequence[str], counts: Floats) -> dict[str, int]:
    return dict(zip(names, counts.astype(int).tolist(), strict=True))


def _undefined(call: Call, view: Outcomes, asked: Sequence[Ask] | None, words: dict[str, str]) -> OutcomeResult:
    why = "no_common_support" if len(view.labels) else "nobody_treated" if view.rows else "empty"
    rows = nothing_rows(view, why, asked)
    if len(view.labels):
        words = {**words, "reference": view.names[view.reference]}
    return call.result(
        rows, backend=view.backend, read=view.rows, dropped=view.dropped, words=words,
        facts={"cannot_say": list(CANNOT_SAY)}, of=OutcomeResult,
    )  # fmt: skip
