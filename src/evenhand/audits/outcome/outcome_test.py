"""Is somebody held to a higher bar? At equal score, do the groups realise equal outcomes?"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.declare import By, Call, Count, Countable, Label, Level, Metrics, Takes, audit, log, same
from evenhand.audits.outcome import rows as outcome_rows
from evenhand.audits.outcome.remedies import Evidence, OutcomeResult
from evenhand.audits.outcome.rows import ODDS, RATES, Binning, contrast_rows, outcome_claims, remedies, selects
from evenhand.cards import Floats, MetricSpec, needing, parse_metrics
from evenhand.claims import Candidate, Claim, decide, direction_of
from evenhand.errors import EvenhandError
from evenhand.findings import Row, join_points, notes, row
from evenhand.labels import whole_labels
from evenhand.metrics.outcome import Covariance, OrderGaps, gaps, mean_errors
from evenhand.metrics.outcome_joint import lowest_bin_p, pooled, spline
from evenhand.sources.outcomes import NARROWEST, UNKNOWN, Missing, Outcomes, Roles, Unlabelled, open_outcomes
from evenhand.sources.quantiles import Range, quantile_means, quantiles_within
from evenhand.sources.relation import row_slicing
from evenhand.tallies.candidates import PLACES, Neighbours, Rows
from evenhand.tallies.moments import BinnedMoments, Moments, ScoreBins
from evenhand.tallies.spectrum import Label as SliceLabel

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
    charts=("outcomes", "calibration", "gaps", "intervals"),
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
    metrics = ORDER_METRICS if metrics is None and kind == "listwise" else metrics
    askable = needing(Neighbours) if kind == "listwise" else outcome_rows.askable()
    specs = None if metrics is None else parse_metrics(metrics, askable)
    how, roles = _covariance_and_roles(call)
    log.info("checking the table")
    checked = open_outcomes(table, roles, reference=reference, threshold=threshold, nan_policy=nan_policy)
    words = {"unit": "candidate", "score": score, "outcome": outcome, "group": group}
    if roles.by:
        checked, words["reference"] = _fix_reference(checked)
    plan = _Plan(call, kind, bins, how, level, specs, words)
    parts = [_test_slice(label, part, plan) for label, part in checked.slices()]
    return _result(parts, plan, checked, roles)


def _result(parts: Sequence[_Part], plan: _Plan, checked: Outcomes, roles: Roles) -> OutcomeResult:
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
        by_row = order_claims(rows, roles.by, reference, plan.level, points=in_points)
    else:
        by_row = outcome_claims(rows, roles.by, plan.kind, reference, plan.level, points=in_points)
    claims = dict(zip(by_row, decide(by_row.values(), plan.level), strict=True))
    rows = [{**r, "p_adjusted": claims[i].p_adjusted} if i in claims else r for i, r in enumerate(rows)]
    decided = deciding_claims(claims, roles.by) if plan.kind == "listwise" else claims
    curves["remedies"] = remedies(rows, decided, roles.by, plan.level)
    return plan.call.result(
        rows, backend=checked.backend, read=checked.rows, dropped=checked.dropped, slices=roles.by, curves=curves, words=words,
        facts=facts, claims=list(by_row.values()), of=OutcomeResult,
        evidence=tuple(replace(p.evidence, cells=cell) for cell, p in zip(cells, parts, strict=True) if p.evidence),
    )  # fmt: skip


def _covariance_and_roles(call: Call) -> tuple[Covariance, Roles]:
    """How standard errors are computed, and the columns by role; contradictions are refused."""
    arguments = call.arguments
    kind, bins, covariance = arguments["kind"], arguments["bins"], arguments["covariance"]
    cluster = arguments["request"] if arguments["cluster"] is None else arguments["cluster"]
    if kind == "listwise":
        _check_listwise(call)
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
    call: Call
    kind: str
    bins: int | Sequence[float]
    how: Covariance
    level: float
    metrics: Sequence[MetricSpec] | None
    words: Mapping[str, str]


@dataclass(frozen=True)
class _Part:
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
    fewest, left = plan.call.min_units, list[str]()
    if fewest > 1:
        view, left = view.without_small_groups(fewest)
    if plan.words.get("reference") and not view.holds_reference():
        return _undefined(label, view.names, "suppressed" if left else "reference_absent", plan)
    view.check_groups()
    if plan.kind == "listwise" and view.labels:
        log.info("comparing neighbours in the same request")
        rows = outcome_rows.without_few(order_rows(view, plan.metrics or (), plan.level), fewest, left)
        words = {**plan.words, "reference": view.names[view.reference]}
        return _Part(label, rows, {}, order_facts(view, left), words)
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
    single_rows = _SingleRows(view)
    binnings = _binnings(view, (low, high), plan, single_rows)
    if binnings is None:  # nothing lies between ends that are means
        return _undefined(label, view.names, "suppressed", plan, reference)
    (tested, others, whole), words = binnings, {**plan.words, "reference": reference}
    row_metrics = {*ODDS, *RATES} if plan.metrics is None else {a.card.name for a in plan.metrics}
    rows = outcome_rows.all_rows(tested, others, whole if plan.kind == "ranking" else None, view, plan.kind, plan.level)
    seen = single_rows.everyone if row_metrics & {*ODDS} else None
    rows += contrast_rows(view, seen, _people(view, row_metrics), row_metrics, plan.level)
    chosen = rows if plan.metrics is None else outcome_rows.chosen_rows(rows, plan.metrics, tested, view)
    few = outcome_rows.few_cells(tested, view, fewest)
    return _Part(
        label, outcome_rows.without_few(chosen, fewest, left, few),
        outcome_rows.calibration_points(tested, view, plan.level, few),
        outcome_rows.facts_of(view, tested, plan.bins, plan.kind, (low, high), left, fewest), words,
        Evidence(view, tested.ends, (low, high), words, plan.call, left),
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


def _binnings(
    view: Outcomes, ends: Range, plan: _Plan, single_rows: _SingleRows
) -> tuple[Binning, dict[int, Binning], Binning] | None:
    """The test's own bins, other numbers of bins, and bins of all scores, shared or not; None where no row lies in them."""
    log.info("finding the edges of the score bins")
    # Where not every group reaches all scores, or ends are means, the bins of all scores are others.
    ranges = [ends] if ends == view.score_ends else [ends, view.score_ends]
    grids = _grids(view, plan.bins, ranges, plan.call.min_units)
    _refuse_bins(grids, plan, len(view.names))
    log.info("adding up per bin and group")
    bins = [(b, _every_edge(grid)) for grid in grids for b in grid.values()]
    moments = _moments(view, [b for b, _ in bins], plan)
    if not moments[0].rows.sum():
        return None
    tested, *others = [
        Binning.from_moments(
            m, view.reference, plan.how, b.all_edges, functools.partial(single_rows.binned, m, b, every)
        )
        for m, (b, every) in zip(moments, bins, strict=True)
    ]
    _, *other_counts = grids[0]
    return tested, dict(zip(other_counts, others, strict=False)), others[-1] if len(grids) > 1 else tested


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


def _people(view: Outcomes, row_metrics: AbstractSet[str]) -> Rows | None:
    """Everybody whose outcome the table tells, treated or not; None where no rate is asked for, or everybody was treated."""
    is_rated = row_metrics & {*RATES} and selects(view) and view.engine.has_rows
    if not is_rated or view.rows > MOST_ROWS or view.outcome_ends != (0.0, 1.0):
        return None
    people = Rows.from_columns(view.rows_with_outcome())
    return None if people.treated is None or people.treated.all() else people


@dataclass(frozen=True)
class _SingleRows:
    """Rows one by one; None where they are too many to hold."""

    view: Outcomes

    @functools.cached_property
    def everyone(self) -> Rows | None:
        if not self.view.engine.has_rows or self.view.used.sum() > MOST_ROWS:
            return None
        return Rows.from_columns(self.view.rows_that_count(*self.view.score_ends))

    def binned(self, m: Moments, bins: ScoreBins, every: Floats) -> Rows | None:
        """The rows that these moments count, in their bins, sorted by the edges of `every` binning."""
        if m.rows.sum() > MOST_ROWS or not self.view.engine.has_rows:
            return None
        log.info("reading the rows one by one, since a group has few outcomes")
        everyone, ends = self.everyone, (bins.low, bins.high)
        rows = Rows.from_columns(self.view.rows_that_count(*ends)) if everyone is None else everyone.within(*ends)
        return rows.binned(every).merged(np.searchsorted(bins.edges, np.append(every, np.inf)))


Grid = Mapping[int, ScoreBins]
"""Bins by the number asked for: those of the test first, then other numbers, for sensitivity to that choice."""


def _grids(view: Outcomes, bins: int | Sequence[float], ranges: Sequence[Range], fewest: int) -> list[Grid]:
    """A grid for each range of scores, of the first also with half and twice as many bins."""
    by_count: list[dict[int, Floats]]
    if isinstance(bins, int):
        requested, counts = bins, sorted({bins, max(1, bins // 2), min(MOST_BINS, 2 * bins)})
        requests = [([bins] if k else counts, part) for k, part in enumerate(ranges)]
        if fewest > 1:  # an edge that is published would else be a single row's score
            shares = _shares_of(counts)
            edges = quantile_means(view.engine, view.scores(*ranges[0]), shares, ranges[0], fewest)
            sets = [_distinct(counts, shares, edges, ranges[0][1]), *score_edges(view, requests[1:])]
        else:
            sets = score_edges(view, requests)
        by_count = [dict(zip(request[0], edges, strict=True)) for request, edges in zip(requests, sets, strict=True)]
    else:
        edges = _checked_edges(bins)
        requested = len(edges) + 1
        inside = [edges[(edges >= low) & (edges < high)] for low, high in ranges]
        by_count = [{requested: e} for e in inside]
        if len(inside[0]) > 1:
            by_count[0][(len(inside[0]) + 2) // 2] = inside[0][1::2]
    grids: list[Grid] = []
    for of_range, ends in zip(by_count, ranges, strict=True):
        main = of_range[requested]
        others = {count: ScoreBins(edges, *ends) for count, edges in of_range.items() if len(edges) != len(main)}
        grids.append({requested: ScoreBins(main, *ends), **others})
    return grids


def _every_edge(grid: Grid) -> Floats:
    return np.unique(np.concatenate([bins.edges for bins in grid.values()]))


def _refuse_bins(grids: Sequence[Grid], plan: _Plan, groups: int) -> None:
    """Refuse scores so close that their squares lose all digits, and more gaps than a covariance matrix can hold."""
    for grid in grids:
        main = next(iter(grid.values()))
        widths = np.diff([main.low, *_every_edge(grid), main.high])
        if np.any((widths > 0) & (widths < NARROWEST)):
            raise EvenhandError(
                f"score={plan.words['score']!r} has bins of a width below {NARROWEST:g}, too little for a line along them. "
                "Take logarithms of the scores, or pass fewer bins."
            )
    count = groups * (1 + max(len(bins.edges) for bins in grids[0].values()))
    if plan.how == "cluster" and count > MOST_GAPS:
        raise EvenhandError(
            f"bins={next(iter(grids[0]))} makes up to {count:,} gaps of {groups} groups, more than the {MOST_GAPS:,} that can be "
            "tested together. Pass fewer bins, or fewer groups."
        )


def score_edges(view: Outcomes, requests: Sequence[tuple[Sequence[int], Range]]) -> list[list[Floats]]:
    """Distinct inner edges for each number of bins of each range: exact quantiles of its scores."""
    if not requests:
        return []
    ranges = [(_shares_of(bins), part) for bins, part in requests]
    low, high = min(part[0] for _, part in requests), max(part[1] for _, part in requests)
    edges = quantiles_within(view.engine, view.scores(low, high), ranges, (low, high))
    return [
        _distinct(bins, shares, at, part[1])
        for (bins, part), (shares, _), at in zip(requests, ranges, edges, strict=True)
    ]


def _shares_of(bins: Sequence[int]) -> list[Fraction]:
    """Where the edges of so many bins, or so many, lie: shares of the rows."""
    return sorted({Fraction(d, b) for b in bins for d in range(1, b)})


def _distinct(bins: Sequence[int], shares: Sequence[Fraction], edges: Floats, high: float) -> list[Floats]:
    """The inner edges of each number of bins, equal ones merged."""
    at = dict(zip(shares, edges, strict=True))
    return [np.unique([e for d in range(1, b) if (e := at[Fraction(d, b)]) < high]).astype(np.float64) for b in bins]


def _checked_edges(bins: Sequence[float]) -> Floats:
    try:
        edges = np.asarray(bins, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvenhandError(
            f"bins={bins!r} holds edges that are not numbers. Pass scores such as [0.2, 0.5]."
        ) from error
    if edges.ndim != 1 or not len(edges) or not np.isfinite(edges).all() or np.any(np.diff(edges) <= 0):
        raise EvenhandError(f"bins={bins!r} is not a rising list of scores. Pass edges such as [0.2, 0.5].")
    return edges


ORDER_METRICS = ("order_gap", "order_gap(placed='above')")
"""The gap of a group right below the reference, and right above it, as `PLACES` has them."""

UNUSED_BY_ORDER = ("threshold", "weight", "covariance", "bins")
"""What only scores that are comparable between lists have a use for."""

ORDER_CANNOT_SAY = (
    *outcome_rows.CANNOT_SAY[:1],
    "Biases smaller than the step from one place to the next: the order alone does not show them.",
    "What a higher place does to outcomes by itself: where it raises them, a group ranked too low may go unnoticed.",
    outcome_rows.CANNOT_SAY[2],
)


def _check_listwise(call: Call) -> None:
    """Refuse lists that cannot be told from each other, and arguments that would change nothing."""
    if call.arguments["request"] is None:
        raise EvenhandError("kind='listwise' compares candidates of the same list. Name its column as request=.")
    if unused := [name for name in UNUSED_BY_ORDER if not same(call.arguments[name], call.parameters[name].default)]:
        raise EvenhandError(
            f"{unused[0]}= has no meaning for kind='listwise', which reads the order only. Leave it out."
        )


def order_rows(view: Outcomes, metrics: Sequence[MetricSpec], level: float) -> list[Row]:
    """A row per group and side of the reference; one that says which the reference is."""
    gaps = OrderGaps(Neighbours.from_table(view))
    (low, high), detectable = gaps.ends(level), gaps.detectable(level)
    home = view.names[view.reference]
    rows = [row({}, metrics[0].text, group=home, estimate=0.0, units=int(view.used[view.reference]), note="reference")]
    for g, name in enumerate(view.names):
        for spec in metrics if g != view.reference else ():
            side = PLACES.index(spec.params.get("placed", PLACES[0]))
            pairs = int(gaps.tally.pairs[side, g])
            small = "small_cell" if pairs and gaps.small[side, g] else ""
            rows.append(row(
                {}, spec.text, group=name, estimate=float(gaps.estimate[side, g]), low=float(low[side, g]),
                high=float(high[side, g]), units=pairs, se=float(gaps.error[side, g]), p=float(gaps.p[side, g]),
                detectable=float(detectable[side, g]), share_used=math.nan,
                note=notes(small if pairs else "no_pairs"),
            ))  # fmt: skip
    return rows


def order_claims(
    rows: Sequence[Row], by: Sequence[str], reference: str, level: float, *, points: bool
) -> dict[int, Candidate]:
    """Candidates by row: a group that does better right below the reference, or worse right above it."""
    tested = sum(math.isfinite(r.get("p", math.nan)) for r in rows)
    candidates = {}
    for i, r in enumerate(rows):
        if "p" not in r:  # the reference, or nothing to compare
            continue
        rated = f"the lists {'over' if 'above' in r['metric'] else 'under'}-rate {r['group']}"
        otherwise = f"no significant sign that {rated}{outcome_rows.power_clause(r, tested, level, points=points)}"
        if math.isnan(r["p"]):
            otherwise = f"whether {rated} cannot be told"
        where = {name: r[name] for name in by}
        candidates[i] = Candidate(r["p"], direction_of(r["estimate"]), rated, otherwise, r["metric"], r["group"], where)
    return candidates


def deciding_claims(claims: Mapping[int, Claim], by: Sequence[str]) -> dict[int, Claim]:
    """The claim of each group and slice that its smaller p makes: a group is ranked too low, or too high, not both."""
    first: dict[tuple[Any, ...], int] = {}
    for i, claim in sorted(claims.items(), key=lambda pair: (math.isnan(pair[1].p), pair[1].p)):
        first.setdefault((claim.group, *(claim.where[name] for name in by)), i)
    return {i: claims[i] for i in sorted(first.values())}


def order_facts(view: Outcomes, left: Sequence[str]) -> dict[str, Any]:
    counts = dict(zip(view.names, view.used.astype(int).tolist(), strict=True))
    rates = {"outcomes": "0 or 1"} if tuple(view.outcome_ends) == (0.0, 1.0) else {}
    return {
        "kind": "listwise", **rates, "reference": view.names[view.reference],
        "groups": counts | dict.fromkeys(left, "suppressed"),
        "pairs": "a group's and a reference candidate with no other score of the list between theirs; those of a group with equal "
        "scores count as one, with their mean outcome",
        "errors": f"sums of pairs per {view.roles.cluster or view.roles.request!r}, as if there were no gap; normal; the interval "
        "inverts the test",
        "family": f"Holm over every group, {' and '.join(PLACES)} the reference, all slices",
        "detectable": "gap that the test would find with a chance of 80%", "cannot_say": list(ORDER_CANNOT_SAY),
    }  # fmt: skip
