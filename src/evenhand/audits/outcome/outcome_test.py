"""Is somebody held to a higher bar? At equal score, do the groups realise equal outcomes?"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import join_points
from evenhand.audits.declare import Call, audit, log
from evenhand.audits.outcome import listwise
from evenhand.audits.outcome import rows as outcome_rows
from evenhand.audits.outcome.remedies import Evidence, OutcomeResult
from evenhand.audits.outcome.rows import ODDS, RATES, AllRows, Binning, outcome_claims, remedies
from evenhand.audits.parameters import Count, Countable, Label, Level, Metrics, Takes
from evenhand.audits.units import By
from evenhand.cards import Floats, MetricSpec, needing, parse_metrics
from evenhand.claims import decide
from evenhand.errors import EvenhandError
from evenhand.findings import Row
from evenhand.labels import whole_labels
from evenhand.metrics.outcome import Covariance, gaps, mean_errors
from evenhand.metrics.outcome_joint import pooled, spline
from evenhand.metrics.outcome_means import lowest_bin_p
from evenhand.sources.outcomes import NARROWEST, UNKNOWN, Missing, Outcomes, Roles, Unlabelled, open_outcomes
from evenhand.sources.quantiles import Range, quantile_means, quantiles_within
from evenhand.sources.relation import row_slicing
from evenhand.tallies.candidates import Neighbours, Rows
from evenhand.tallies.moments import BinnedMoments, Moments, ScoreBins
from evenhand.tallies.slices import Label as SliceLabel

MOST_ROWS = 2_000_000
"""Rows whose labels can be permuted: more of them are not read into memory, and a group with few outcomes gets no p."""

MOST_BINS = 1_000
MOST_GAPS = 6_000
"""Gaps of all bins and groups whose covariances are held at once, where clusters reach over bins."""


def read_bins(words: list[str]) -> int | list[float]:
    """A number of bins, or edges with commas between."""
    text = ",".join(words)
    try:
        return int(text) if "," not in text and "." not in text else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise EvenhandError(f"--bins {text!r} cannot be read. Write a number, or edges such as 0.2,0.5,0.8.") from error


Bins = Annotated[int | Sequence[float], Takes("N|EDGES", many=True, read=read_bins)]


@audit(
    "outcome_test",
    question="Is somebody held to a higher bar?",
    charts=("outcomes", "calibration", "gaps", "neighbours"),
    default="all that the test says",
    extra=outcome_rows.EXTRA,
    over="rows",
    stands_for="The interval is for other people like these, scored and treated in the same way: how far the number would "
    "move had others come.",
    null="with group labels permuted",
)
def outcome_test(
    call: Call,
    table: Countable,
    *,
    score: str,
    outcome: str,
    group: str,
    reference: Label = None,
    kind: Literal["ranking", "classification", "listwise"] = "ranking",
    threshold: float | None = None,
    bins: Bins = 10,
    request: str | None = None,
    treated: str | None = None,
    covariance: Covariance | None = None,
    cluster: str | None = None,
    weight: str | None = None,
    by: By = None,
    metrics: Metrics | None = None,
    level: Level = 0.95,
    min_units: Count | None = None,
    nan_policy: Missing = "raise",
    unknown: Unlabelled = "drop",
    positive: Label = None,
) -> OutcomeResult:
    """Whether equally scored candidates of different groups realise equal outcomes, along the score.

    A group with a positive gap does better than the reference at the same score: it is under-scored, held to a higher bar.

    Parameters
    ----------
    table : a dataframe or a path; one row per scored candidate. `"tally:rows.csv"` are the rows of the query that
        `evenhand sql outcome-test` prints.
    score : column with the score; it must be comparable between requests (unless `kind` is "listwise"), but need not be
        on the scale of the outcome.
    outcome : column with the outcome of each candidate: 0 or 1, an amount, or one of two labels (see `positive`).
    group : column with the group of each candidate, at most 1,000 groups; `unknown` says what becomes of
        missing values.
    reference : the group that others are compared with; None is the largest.
    kind : "ranking" tests every score bin that all groups share; "classification" tests the bin just above
        `threshold` and shows the others; "listwise" compares neighbours of the same request, for scores that only order it.
    threshold : score at which candidates are treated (classification only); None is the lowest score seen.
    bins : number of score bins with equally many rows, or the scores that separate bins.
    request : column with the query or job id; standard errors are then clustered by it.
    treated : column (0 or 1) with whether the outcome could be observed; None means always.
    covariance : "HC1", "classical" or "cluster"; None is cluster if `cluster` or `request` is passed, otherwise HC1.
    cluster : column to cluster standard errors by, if not `request`.
    weight : column with the weight of each row: regressions and means are weighted, bins are not; rows of weight zero
        are left out.
    by : column(s) to slice by (country, week); every slice has its own test, and p-values of all claims are adjusted
        together.
    metrics : metric strings (default: all that the test reports).
    min_units : leave out groups with fewer rows before anything is measured; suppress cells with fewer, and one more
        cell of the group where a single one could be found by subtraction.
    nan_policy : what to do with a missing score or outcome: "raise" an error, or "omit" the row.
    unknown : what to do with candidates without a group label: "drop" them (counted in the provenance), make them the
        "group" called unknown, or "raise" an error.
    positive : label of success where outcomes are two labels, such as yes and no.

    Examples
    --------
    >>> import polars as pl
    >>> half = [i / 100 for i in range(100)]
    >>> rows = pl.DataFrame({"s": half * 2, "sex": ["f"] * 100 + ["m"] * 100, "y": half + [s + 0.5 for s in half]})
    >>> found = outcome_test(rows, score="s", outcome="y", group="sex", reference="f", bins=4)
    >>> [round(gap, 6) for gap in found.only("pooled_gap").frame["estimate"]]
    [0.0, 0.5]
    """
    metrics = listwise.METRICS if metrics is None and kind == "listwise" else metrics
    askable = needing(Neighbours) if kind == "listwise" else outcome_rows.askable()
    specs = None if metrics is None else parse_metrics(metrics, askable)
    how, roles = _covariance_and_roles(call.arguments)
    log.info("checking the table")
    checked = open_outcomes(table, roles, reference=reference, threshold=threshold, nan_policy=nan_policy)
    words = {"unit": "candidate", "score": score, "outcome": outcome, "group": group}
    if roles.by:
        checked, words["reference"] = _fix_reference(checked)
    plan = _Plan(call, kind, bins, how, level, specs, words)
    parts = [_test_slice(label, part, plan) for label, part in checked.slices()]
    return _result(parts, plan, checked, roles)


def _result(parts: Sequence[_Part], plan: _Plan, checked: Outcomes, roles: Roles) -> OutcomeResult:
    """All slices, p adjusted over them."""
    labels = whole_labels([part.label for part in parts])
    cells = [dict(zip(roles.by, label, strict=True)) for label in labels]
    rows = [{**cell, **r} for cell, part in zip(cells, parts, strict=True) for r in part.rows]
    rows = outcome_rows.over_slices(rows) if roles.by else rows
    words = parts[0].words if len(parts) == 1 else plan.words
    points = join_points((cell, part.curve) for cell, part in zip(cells, parts, strict=True) if part.curve)
    curves = {"calibration": points} if points else {}
    facts = outcome_rows.of_slices(roles.by, labels, [part.facts for part in parts])
    reference, in_points = words.get("reference", ""), "outcomes" in facts
    if plan.kind == "listwise":
        by_row = listwise.order_claims(rows, roles.by, reference, plan.level, points=in_points)
    else:
        by_row = outcome_claims(rows, roles.by, plan.kind, reference, plan.level, points=in_points)
    claims = dict(zip(by_row, decide(by_row.values(), plan.level), strict=True))
    rows = [{**r, "p_adjusted": claims[i].p_adjusted} if i in claims else r for i, r in enumerate(rows)]
    decided = listwise.deciding(claims, roles.by) if plan.kind == "listwise" else claims
    curves["remedies"] = remedies(rows, decided, roles.by, plan.level)
    return plan.call.result(
        rows, backend=checked.backend, read=checked.rows, dropped=checked.dropped, slices=roles.by, curves=curves, words=words,
        facts=facts, claims=list(by_row.values()), of=OutcomeResult,
        evidence=tuple(replace(p.evidence, cells=cell) for cell, p in zip(cells, parts, strict=True) if p.evidence),
    )  # fmt: skip


def _covariance_and_roles(arguments: Mapping[str, Any]) -> tuple[Covariance, Roles]:
    """How standard errors are computed, and the columns by role; contradictions are refused."""
    kind, bins, covariance = arguments["kind"], arguments["bins"], arguments["covariance"]
    cluster = arguments["request"] if arguments["cluster"] is None else arguments["cluster"]
    if kind == "listwise":
        listwise.check_arguments(arguments)
    if arguments["threshold"] is not None and kind == "ranking":
        raise EvenhandError(
            "threshold is for kind='classification': a ranking has no bar. Leave it out, or change the kind."
        )
    if covariance == "cluster" and cluster is None:
        raise EvenhandError("covariance='cluster' needs to know the clusters. Name a column as cluster= or request=.")
    if isinstance(bins, int) and not 1 <= bins <= MOST_BINS:
        raise EvenhandError(f"bins={bins!r} is not between 1 and {MOST_BINS:,}. Pass a number such as 10.")
    how: Covariance = "HC1" if cluster is None else "cluster"
    if covariance in ("HC1", "classical"):
        how, cluster = covariance, arguments["cluster"]
    columns = {role: arguments[role] for role in ("score", "outcome", "group", "request", "treated", "weight")}
    choices = {name: arguments[name] for name in ("unknown", "positive")}
    slices = row_slicing(arguments["by"])
    return how, Roles(
        **columns, cluster=cluster, clustered=how == "cluster", by=slices.columns, periods=slices.periods, **choices
    )


@dataclass(frozen=True)
class _Plan:
    """How every slice is tested."""

    call: Call
    kind: str
    bins: int | Sequence[float]
    how: Covariance
    level: float
    metrics: Sequence[MetricSpec] | None
    words: Mapping[str, str]


@dataclass(frozen=True)
class _Part:
    """Rows, curve and facts of one slice."""

    label: SliceLabel
    rows: Sequence[Row]
    curve: Mapping[str, list[Any]]
    facts: Mapping[str, Any]
    words: Mapping[str, str]
    evidence: Evidence | None = None


def _fix_reference(checked: Outcomes) -> tuple[Outcomes, str]:
    """The reference group of all slices: the one named, or the largest of all."""
    checked.check_groups()
    if not checked.labels:
        return checked, ""
    label = checked.labels[checked.reference]
    fixed = replace(checked, reference_group=(UNKNOWN if label is None else label, checked.roles.group))
    return fixed, checked.names[checked.reference]


def _test_slice(label: SliceLabel, view: Outcomes, plan: _Plan) -> _Part:
    """The test of one slice, or of the whole table."""
    fewest, left = plan.call.min_units, list[str]()
    if fewest > 1:
        view, left = view.without_small_groups(fewest)
    if plan.words.get("reference") and not view.holds_reference():
        return _undefined(label, view.names, "suppressed" if left else "reference_absent", plan)
    view.check_groups()
    if plan.kind == "listwise" and view.labels:
        log.info("comparing neighbours in the same request")
        rows = outcome_rows.without_few(listwise.order_rows(view, plan.metrics or (), plan.level), fewest, left)
        words = {**plan.words, "reference": view.names[view.reference]}
        return _Part(label, rows, {}, listwise.facts(view, left), words)
    low, high = _scope(view, plan.kind)
    if not low <= high:
        absent = "suppressed" if left else "nobody_treated" if view.has_labels else "empty"
        reference = view.names[view.reference] if view.labels else ""
        return _undefined(label, view.names, "no_common_support" if view.labels else absent, plan, reference)
    if fewest > 1:  # ends are means of so many scores, or the threshold: no single row's score
        both_ends = [Fraction(0), Fraction(1)]
        ends = quantile_means(view.engine, view.scores(low, high), both_ends, (low, high), fewest)
        low, high = (float(end) for end in ends)
        low = low if view.threshold is None else min(view.threshold, low)
    reference = view.names[view.reference]
    binnings = _binnings(view, (low, high), plan)
    if binnings is None:  # nothing lies between ends that are means
        return _undefined(label, view.names, "suppressed", plan, reference)
    tested, words = binnings.tested, {**plan.words, "reference": reference}
    row_metrics = {*ODDS, *RATES} if plan.metrics is None else {a.card.name for a in plan.metrics}
    rows = outcome_rows.all_rows(
        tested, binnings.others, view, kind=plan.kind, level=plan.level, row_metrics=row_metrics,
        single_rows=_all_rows(view, row_metrics, binnings.rows), whole=binnings.whole if plan.kind == "ranking" else None,
    )  # fmt: skip
    chosen = rows if plan.metrics is None else outcome_rows.chosen_rows(rows, plan.metrics, tested, view)
    few = outcome_rows.few_cells(tested, view, fewest)
    return _Part(
        label, outcome_rows.without_few(chosen, fewest, left, few),
        outcome_rows.calibration_points(tested, view, plan.level, few),
        outcome_rows.facts_of(view, tested, binnings.requested, plan.kind, (low, high), left, fewest), words,
        Evidence(view, plan.kind, tested.ends, (low, high), words, plan.call, left),
    )  # fmt: skip


def _undefined(label: SliceLabel, names: Sequence[str], why: str, plan: _Plan, reference: str = "") -> _Part:
    words = {**plan.words, **({"reference": reference} if reference else {})}
    facts = {"cannot_say": list(outcome_rows.CANNOT_SAY)}
    return _Part(label, outcome_rows.nothing_rows(names, why, plan.metrics), {}, facts, words)


def _scope(view: Outcomes, kind: str) -> Range:
    """Range of the tested scores: common support, or all at or above the threshold."""
    if kind == "classification":
        return view.score_ends
    return (float(view.low.max()), float(view.high.min())) if len(view.labels) else (math.nan, math.nan)


@dataclass(frozen=True)
class _Binnings:
    """The test's own bins, other numbers of bins, and bins of all scores, shared or not."""

    tested: Binning
    others: dict[int, Binning]
    whole: Binning
    requested: int
    rows: _CachedRows


def _binnings(view: Outcomes, ends: Range, plan: _Plan) -> _Binnings | None:
    """Every binning, tested; None where no row lies in the bins."""
    log.info("finding the edges of the score bins")
    # Where not every group reaches all scores, or ends are means, the bins of all scores are others.
    ranges = [ends] if ends == view.score_ends else [ends, view.score_ends]
    grids = Grid.from_scores(view, plan.bins, ranges, plan.call.min_units)
    for grid in grids:
        grid.refuse_crowded(plan.words["score"])
    log.info("adding up per bin and group")
    if plan.how == "cluster":
        grids[0].refuse_many_gaps(len(view.names))
    bins = [(b, grid.every) for grid in grids for b in (grid.main, *grid.others.values())]
    moments = _moments(view, [b for b, _ in bins], plan)
    if not moments[0].rows.sum():
        return None
    rows = _CachedRows(view)
    tested, *others = [
        Binning.from_moments(m, view.reference, plan.how, b.all_edges, functools.partial(rows.binned, m, b, every))
        for m, (b, every) in zip(moments, bins, strict=True)
    ]
    by_count = dict(zip(grids[0].others, others, strict=False))
    return _Binnings(tested, by_count, others[-1] if len(grids) > 1 else tested, grids[0].requested, rows)


def _moments(view: Outcomes, bins: Sequence[ScoreBins], plan: _Plan) -> list[Moments]:
    """Sums per bin and group of every binning, with what errors ask of the clusters."""
    binned = BinnedMoments.from_table(view, bins, clustered=plan.how == "cluster")
    if plan.how != "cluster":
        return binned.moments

    def ask(moments: Sequence[Moments]) -> None:
        for m in moments:
            pooled(m, gaps(m, view.reference, plan.how), plan.how)
        spline(moments[0], view.reference, plan.how, bins[0].all_edges)
        mean_errors(moments[0], plan.how)
        lowest_bin_p(moments[0], plan.how)

    return binned.with_clusters(ask)


def _all_rows(view: Outcomes, row_metrics: AbstractSet[str], rows: _CachedRows) -> AllRows:
    """Single rows for the metrics that read them."""
    cut = view.roles.treated is not None or view.threshold is not None
    if not view.engine.has_rows:
        return AllRows(None, None, cut, "no_single_rows")
    seen = rows.everyone() if row_metrics & {*ODDS} else None
    if not cut or not row_metrics & {*RATES} or view.rows > MOST_ROWS or view.outcome_ends != (0.0, 1.0):
        return AllRows(seen, None, cut)
    people = Rows.from_columns(view.rows_with_outcome())
    return AllRows(seen, None if people.treated is None or people.treated.all() else people, cut)


@dataclass
class _CachedRows:
    """Single rows, read once when first asked for; None where they are too many to hold."""

    view: Outcomes
    cached: Rows | None = field(default=None, init=False)

    def everyone(self) -> Rows | None:
        """Rows of all scores."""
        if not self.view.engine.has_rows or self.view.used.sum() > MOST_ROWS:
            return None
        if self.cached is None:
            self.cached = Rows.from_columns(self.view.rows_that_count(*self.view.score_ends))
        return self.cached

    def binned(self, m: Moments, bins: ScoreBins, every: Floats) -> Rows | None:
        """The rows that these moments count, in their bins, sorted by the edges of `every` binning."""
        if m.rows.sum() > MOST_ROWS or not self.view.engine.has_rows:
            return None
        log.info("reading the rows one by one, since a group has few outcomes")
        cached, ends = self.everyone(), (bins.low, bins.high)
        rows = cached.within(*ends) if cached is not None else Rows.from_columns(self.view.rows_that_count(*ends))
        return rows.binned(every).merged(np.searchsorted(bins.edges, np.append(every, np.inf)))


@dataclass(frozen=True)
class Grid:
    """The bins of the test, and other numbers of bins, for sensitivity to that choice.

    Attributes
    ----------
    others : bins by the number asked for. requested : number of bins asked for.
    """

    main: ScoreBins
    others: dict[int, ScoreBins]
    requested: int

    @classmethod
    def from_scores(
        cls, view: Outcomes, bins: int | Sequence[float], ranges: Sequence[Range], fewest: int
    ) -> list[Grid]:
        """A grid for each range of scores, of the first also with half and twice as many bins."""
        if not isinstance(bins, int):
            edges = _checked_edges(bins)
            inside = [edges[(edges >= low) & (edges < high)] for low, high in ranges]
            half = {(len(inside[0]) + 2) // 2: inside[0][1::2]} if len(inside[0]) > 1 else {}
            return [cls._from_edges(e, {} if k else half, ranges[k], len(edges) + 1) for k, e in enumerate(inside)]
        counts = sorted({bins, max(1, bins // 2), min(MOST_BINS, 2 * bins)})
        requests = [([bins] if k else counts, part) for k, part in enumerate(ranges)]
        if fewest > 1:  # an edge that is published would else be a single row's score
            shares = _shares_of(counts)
            scores = view.scores(*ranges[0])
            edges = quantile_means(view.engine, scores, shares, ranges[0], fewest) if shares else np.zeros(0)
            sets = [_distinct(counts, shares, edges, ranges[0][1]), *score_edges(view, requests[1:])]
        else:
            sets = score_edges(view, requests)
        by_count = [dict(zip(request[0], edges, strict=True)) for request, edges in zip(requests, sets, strict=True)]
        return [cls._from_edges(e.pop(bins), e, part, bins) for e, part in zip(by_count, ranges, strict=True)]

    @classmethod
    def _from_edges(cls, main: Floats, others: Mapping[int, Floats], ends: Range, requested: int) -> Grid:
        differing = {count: ScoreBins(edges, *ends) for count, edges in others.items() if len(edges) != len(main)}
        return cls(ScoreBins(main, *ends), differing, requested)

    @property
    def every(self) -> Floats:
        """The inner edges of all these bins."""
        return np.unique(np.concatenate([bins.edges for bins in (self.main, *self.others.values())]))

    def refuse_crowded(self, score: str) -> None:
        """Refuse scores so close that their squares lose all digits: standard errors would be wrong."""
        widths = np.diff([self.main.low, *self.every, self.main.high])
        if np.any((widths > 0) & (widths < NARROWEST)):
            raise EvenhandError(
                f"score={score!r} has bins of a width below {NARROWEST:g}, too little for a line along them. "
                "Take logarithms of the scores, or pass fewer bins."
            )

    def refuse_many_gaps(self, groups: int) -> None:
        """Refuse more gaps than the joint test can hold a covariance matrix of."""
        gaps = groups * (1 + max(len(bins.edges) for bins in (self.main, *self.others.values())))
        if gaps > MOST_GAPS:
            raise EvenhandError(
                f"bins={self.requested} makes up to {gaps:,} gaps of {groups} groups, more than the {MOST_GAPS:,} that can be tested "
                "together. Pass fewer bins, or fewer groups."
            )


def score_edges(view: Outcomes, requests: Sequence[tuple[Sequence[int], Range]]) -> list[list[Floats]]:
    """Distinct inner edges for each number of bins of each range: exact quantiles of its scores."""
    shares = [_shares_of(bins) for bins, _ in requests]
    needed = [(fractions, part) for fractions, (_, part) in zip(shares, requests, strict=True) if fractions]
    edges = [np.zeros(0)] * len(requests)
    if needed:
        low, high = min(part[0] for _, part in requests), max(part[1] for _, part in requests)
        quantiles = iter(quantiles_within(view.engine, view.scores(low, high), needed, (low, high)))
        edges = [next(quantiles) if fractions else np.zeros(0) for fractions in shares]
    return [
        _distinct(bins, fractions, at, part[1])
        for (bins, part), fractions, at in zip(requests, shares, edges, strict=True)
    ]


def _shares_of(bins: Sequence[int]) -> list[Fraction]:
    """Where the edges of so many bins, or so many, lie: shares of the rows."""
    return sorted({Fraction(d, b) for b in bins for d in range(1, b)})


def _distinct(bins: Sequence[int], shares: Sequence[Fraction], edges: Floats, high: float) -> list[Floats]:
    """The inner edges of each number of bins, equal ones merged."""
    at = dict(zip(shares, edges, strict=True))
    return [np.unique([e for d in range(1, b) if (e := at[Fraction(d, b)]) < high]).astype(np.float64) for b in bins]


def _checked_edges(bins: Sequence[float]) -> Floats:
    """The scores at which one bin ends and the next begins."""
    try:
        edges = np.asarray(bins, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvenhandError(
            f"bins={bins!r} holds edges that are not numbers. Pass scores such as [0.2, 0.5]."
        ) from error
    if edges.ndim != 1 or not len(edges) or not np.isfinite(edges).all() or np.any(np.diff(edges) <= 0):
        raise EvenhandError(f"bins={bins!r} is not a rising list of scores. Pass edges such as [0.2, 0.5].")
    return edges
