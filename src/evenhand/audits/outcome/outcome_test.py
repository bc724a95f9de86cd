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
from evenhand.audits.assemble import names_of
from evenhand.audits.declare import Call, Columns, Count, Countable, Label, Level, Metrics, Takes, audit, log
from evenhand.audits.outcome.counterfactual import Evidence, OutcomeResult
from evenhand.audits.outcome.rows import (
    CANNOT_SAY,
    EXTRA,
    ODDS,
    RATES,
    AllRows,
    Binning,
    all_rows,
    askable,
    calibration_points,
    chosen_rows,
    facts_of,
    few_cells,
    nothing_rows,
    of_slices,
    over_slices,
    remedies,
    without_few,
)
from evenhand.cards import Floats, MetricSpec, parse_metrics
from evenhand.errors import EvenhandError
from evenhand.findings import Row
from evenhand.labels import whole as whole_labels
from evenhand.metrics.outcome import Covariance, gaps, mean_errors
from evenhand.metrics.outcome_joint import spline
from evenhand.metrics.outcome_pooled import pooled
from evenhand.sources.outcomes import NARROWEST, UNKNOWN, Checked, Missing, Outcomes, Roles, open_outcomes
from evenhand.sources.quantiles import Range, quantile_means, quantiles_within
from evenhand.tallies.moments import BinnedMoments, Ints, Moments
from evenhand.tallies.moments import Bins as ScoreBins
from evenhand.tallies.rows import Rows

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
    score : column with the score; it must be comparable between requests, but need not be on the scale of the
        outcome.
    outcome : column with the outcome of each candidate: 0 or 1, or an amount.
    group : column with the group of each candidate, at most 1,000 groups; missing values form the group "unknown".
    reference : the group that others are compared with; None is the largest.
    kind : "ranking" tests every score bin that all groups share; "classification" tests the bin just above
        `threshold` and shows the others.
    threshold : score at which candidates are treated (classification only); None is the lowest score seen.
    bins : number of score bins with equally many rows, or the scores that separate bins.
    request : column with the query or job id; standard errors are then clustered by it.
    treated : column (0 or 1) with whether the outcome could be observed; None means always.
    covariance : "HC1", "classical" or "cluster"; None is cluster if `cluster` or `request` is passed, otherwise HC1.
    cluster : column to cluster standard errors by, if not `request`.
    weight : column with the weight of each row: regressions and means are weighted, bins are not; rows of weight zero
        are left out.
    by : column(s) to slice by (country, week); every slice has its own test, and p-values are adjusted over all
        slices.
    metrics : metric strings (default: all that the test reports).
    min_units : leave out groups with fewer rows before anything is measured; suppress cells with fewer, and one more
        cell of the group where a single one could be found by subtraction.
    nan_policy : what to do with a missing score or outcome: "raise" an error, or "omit" the row.

    Examples
    --------
    >>> import polars as pl
    >>> half = [i / 100 for i in range(100)]
    >>> rows = pl.DataFrame({"s": half * 2, "sex": ["f"] * 100 + ["m"] * 100, "y": half + [s + 0.5 for s in half]})
    >>> found = outcome_test(rows, score="s", outcome="y", group="sex", reference="f", bins=4)
    >>> [round(gap, 6) for gap in found.only("pooled_gap").frame["estimate"]]
    [0.0, 0.5]
    """
    specs = None if metrics is None else parse_metrics(metrics, askable())
    how, roles = roles_of(call.arguments)
    log.info("checking the table")
    checked = open_outcomes(table, roles, reference=reference, threshold=threshold, nan_policy=nan_policy)
    words = {"unit": "candidate", "score": score, "outcome": outcome, "group": group}
    if roles.by:
        checked, words["reference"] = _one_reference(checked)
    plan = _Plan(call, kind, bins, how, level, specs, words)
    parts = [_tested(label, part, plan) for label, part in checked.slices()]
    labels = whole_labels_of([part.label for part in parts])
    cells = [dict(zip(roles.by, label, strict=True)) for label in labels]
    rows = [{**cell, **r} for cell, part in zip(cells, parts, strict=True) for r in part.rows]
    rows = over_slices(rows) if roles.by else rows
    slice_words = parts[0].words if len(parts) == 1 else words
    fixes = {"remedies": remedies(rows, roles.by, slice_words.get("reference", ""), level)}
    return call.result(
        rows, backend=checked.backend, read=checked.rows, dropped=checked.dropped,
        slices=roles.by, curves=_curves(cells, parts) | fixes, words=slice_words,
        facts=of_slices(roles.by, labels, [part.facts for part in parts]), of=OutcomeResult,
        evidence=tuple(replace(p.evidence, cells=cell) for cell, p in zip(cells, parts, strict=True) if p.evidence),
    )  # fmt: skip


def roles_of(arguments: Mapping[str, Any]) -> tuple[Covariance, Roles]:
    """How errors are found, and the columns by role."""
    cluster, request = arguments["cluster"], arguments["request"]
    how = _checked(
        arguments["kind"], arguments["threshold"], arguments["bins"], arguments["covariance"], cluster, request
    )
    clustered = how == "cluster"
    cluster_column = request if cluster is None and clustered else cluster
    columns = {role: arguments[role] for role in ("score", "outcome", "group", "request", "treated", "weight")}
    return how, Roles(**columns, cluster=cluster_column, clustered=clustered, by=names_of(arguments["by"]))


@dataclass(frozen=True)
class _Plan:
    """How every slice is tested."""

    call: Call
    kind: str
    bins: Any
    how: Covariance
    level: float
    metrics: Sequence[MetricSpec] | None
    words: Mapping[str, str]


@dataclass(frozen=True)
class _Part:
    """Rows, curve and facts of one slice."""

    label: tuple[Any, ...]
    rows: Sequence[Row]
    curve: Mapping[str, list[Any]]
    facts: Mapping[str, Any]
    words: Mapping[str, str]
    evidence: Evidence | None = None


def _one_reference(checked: Checked) -> tuple[Checked, str]:
    """Fix the reference group for all slices: the one named, or the largest of all."""
    groups = checked.by_group()
    if not groups.labels:
        return checked, ""
    label = groups.labels[groups.reference]
    return replace(checked, reference_group=(UNKNOWN if label is None else label, checked.roles.group)), groups.names[
        groups.reference
    ]


def _tested(label: tuple[Any, ...], checked: Checked, plan: _Plan) -> _Part:
    """The test of one slice, or of the whole table."""
    call, left = plan.call, list[str]()
    if call.min_units > 1:
        checked, left = checked.without_small_groups(call.min_units)
    if plan.words.get("reference") and not checked.holds_reference():
        return _undefined(label, checked.group_names(), "suppressed" if left else "reference_absent", plan)
    view = checked.by_group()
    low, high = _scope(view, plan.kind)
    if not low <= high:
        why = (
            "no_common_support" if view.labels else "suppressed" if left else "nobody_treated" if view.rows else "empty"
        )
        return _undefined(label, view.names, why, plan, view.names[view.reference] if view.labels else "")
    if call.min_units > 1:
        low, high = _shared_scope(view, (low, high), call.min_units)
    binnings, grid = _binnings(view, (low, high), plan)
    words = {**plan.words, "reference": view.names[view.reference]}
    if binnings is None:  # nothing lies between ends that are means
        return _undefined(label, view.names, "suppressed", plan, words["reference"])
    row_metrics = {*ODDS, *RATES} if plan.metrics is None else {a.card.name for a in plan.metrics}
    tested = binnings.tested
    rows = all_rows(
        tested, binnings.others, view, kind=plan.kind, level=plan.level, single_rows=_all_rows(view, row_metrics, binnings.rows),
        row_metrics=row_metrics,
        whole=binnings.whole if plan.kind == "ranking" else None,
    )  # fmt: skip
    chosen = rows if plan.metrics is None else chosen_rows(rows, plan.metrics, tested, view)
    few = few_cells(tested, view, call.min_units)
    return _Part(
        label, without_few(chosen, call.min_units, left, few), calibration_points(tested, view, plan.level, few),
        facts_of(view, tested, grid.requested, plan.kind, (low, high), left, call.min_units), words,
        Evidence(view, plan.kind, tested.ends, (low, high), words, call, left),
    )  # fmt: skip


@dataclass(frozen=True)
class _Binnings:
    """The test's own bins, half and twice as many, and the same number of all scores, shared or not."""

    tested: Binning
    others: dict[int, Binning]
    whole: Binning
    rows: _CachedRows


def _binnings(view: Outcomes, ends: tuple[float, float], plan: _Plan) -> tuple[_Binnings | None, Grid]:
    """Every binning, tested, and the bins; None where no row lies in them."""
    log.info("finding the edges of the score bins")
    score, fewest = plan.words["score"], plan.call.min_units
    differs = ends != view.score_ends  # not every group reaches all scores, or ends are means
    if differs:
        grid, wide = Grid.pair(view, plan.bins, *ends, fewest=fewest)
        refuse_crowded(score, np.diff([ends[0], *grid.edges, ends[1]]))
        refuse_crowded(score, np.diff([view.score_ends[0], *wide.edges, view.score_ends[1]]))
    else:
        grid = wide = Grid.from_view(view, plan.bins, *ends, fewest=fewest)
        refuse_crowded(score, np.diff([ends[0], *grid.edges, ends[1]]))
    log.info("adding up per bin and group")
    bins = [*grid.binnings(*ends), *(wide.binnings(*view.score_ends) if differs else [])]
    if plan.how == "cluster":
        refuse_many_gaps(len(view.names), grid)
    moments = _moments(view, bins, plan)
    if not moments[0].rows.sum():
        return None, grid
    rows = _CachedRows(view)

    def binning(m: Moments, grid: Grid, into: Ints, ends: tuple[float, float], edges: Floats | None) -> Binning:
        few = int(m.rows.sum())
        return Binning.from_moments(
            m, view.reference, plan.how, edges, lambda: rows.binned(few, grid.edges, into, ends)
        )

    tested = binning(moments[0], grid, grid.main, ends, grid.ends(*ends))
    others = {
        count: binning(m, grid, into, ends, None)
        for (count, into), m in zip(grid.others.items(), moments[1:], strict=False)
    }
    whole = tested
    if differs:
        whole = binning(moments[-1], wide, wide.main, view.score_ends, wide.ends(*view.score_ends))
    return _Binnings(tested, others, whole, rows), grid


def _moments(view: Outcomes, bins: Sequence[ScoreBins], plan: _Plan) -> list[Moments]:
    """Sums per bin and group of every binning, with what errors ask of the clusters."""
    binned = BinnedMoments.from_table(view, bins, clustered=plan.how == "cluster")
    if plan.how != "cluster":
        return binned.moments

    def ask(moments: Sequence[Moments]) -> None:
        for m in moments:
            pooled(m, gaps(m, view.reference, plan.how), plan.how)
        spline(moments[0], view.reference, plan.how, np.concatenate([[bins[0].low], bins[0].edges, [bins[0].high]]))
        mean_errors(moments[0], plan.how)

    return binned.with_clusters(ask)


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


def _scope(view: Outcomes, kind: str) -> tuple[float, float]:
    """The range of the scores that are tested: that which all groups share, or all at or above the threshold."""
    if kind == "classification":
        return view.score_ends
    return (float(view.low.max()), float(view.high.min())) if len(view.labels) else (math.nan, math.nan)


def _shared_scope(view: Outcomes, ends: tuple[float, float], fewest: int) -> tuple[float, float]:
    """The scope with ends that are means of `fewest` scores, or the threshold: no single row's score."""
    low, high = shared_ends(view, *ends, fewest)
    return low if view.threshold is None else min(view.threshold, low), high


def _all_rows(view: Outcomes, row_metrics: AbstractSet[str], rows: _CachedRows) -> AllRows:
    """The rows of all scores, and who of those with a known outcome was treated, as far as they are `wanted`."""
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
    """The rows that count one by one, read when first asked for and not again; nothing where they are too many to hold."""

    view: Outcomes
    every: Rows | None = None

    def everyone(self) -> Rows | None:
        """Rows of all scores."""
        if not self.view.engine.has_rows or self.view.used.sum() > MOST_ROWS:
            return None
        if self.every is None:
            self.every = Rows.from_columns(self.view.rows_that_count(*self.view.score_ends))
        return self.every

    def binned(self, many: int, edges: Floats, into: Ints, ends: tuple[float, float]) -> Rows | None:
        """The `many` rows between two scores, in fine bins with these inner edges that are joined as `into` says."""
        if many > MOST_ROWS or not self.view.engine.has_rows:
            return None
        log.info("reading the rows one by one, since a group has few outcomes")
        every = self.everyone()
        rows = every.within(*ends) if every is not None else Rows.from_columns(self.view.rows_that_count(*ends))
        return rows.binned(edges).merged(into)


def _undefined(label: tuple[Any, ...], names: Sequence[str], why: str, plan: _Plan, reference: str = "") -> _Part:
    words = {**plan.words, **({"reference": reference} if reference else {})}
    return _Part(label, nothing_rows(names, why, plan.metrics), {}, {"cannot_say": list(CANNOT_SAY)}, words)


MOST_BINS = 1_000
MOST_GAPS = 6_000


def _read_bins(words: list[str]) -> int | list[float]:
    """A number of bins, or edges with commas between."""
    text = ",".join(words)
    try:
        return int(text) if "," not in text and "." not in text else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise EvenhandError(f"--bins {text!r} cannot be read. Write a number, or edges such as 0.2,0.5,0.8.") from error


Bins = Annotated[int | Sequence[float], Takes("N|EDGES", many=True, read=_read_bins)]


@dataclass(frozen=True)
class Grid:
    """Fine bins of which every wanted number of bins is a merger.

    Attributes
    ----------
    edges : inner edges of the fine bins.
    main : which bin of the test each fine bin belongs to.
    others : the same for other numbers of bins, to see whether the answer hangs on that choice.
    requested : number of bins requested.
    """

    edges: Floats
    main: Ints
    others: dict[int, Ints]
    requested: int

    @classmethod
    def from_view(
        cls, view: Outcomes, bins: int | Sequence[float], low: float, high: float, *, fewest: int = 0
    ) -> Grid:
        """Bins of the scores from `low` to `high`; an edge is the mean of `fewest` scores where that is more than one."""
        if not isinstance(bins, int):
            return cls._from_edges(bins, low, high)
        counts = counts_of(bins)
        if fewest > 1:
            return cls._from_quantiles(bins, counts, mean_edges(view, counts, (low, high), fewest))
        return cls._from_quantiles(bins, counts, score_edges(view, [(counts, (low, high))])[0])

    @classmethod
    def pair(
        cls, view: Outcomes, bins: int | Sequence[float], low: float, high: float, *, fewest: int = 0
    ) -> tuple[Grid, Grid]:
        """Bins of the scores from `low` to `high`, and the same number of all scores, with no others beside them."""
        wide = view.score_ends
        if not isinstance(bins, int):
            return cls._from_edges(bins, low, high), cls._from_edges(bins, *wide, single=True)
        if fewest > 1:
            (all_edges,) = score_edges(view, [([bins], wide)])
            return cls.from_view(view, bins, low, high, fewest=fewest), cls._from_quantiles(bins, [bins], all_edges)
        counts = counts_of(bins)
        inside, all_edges = score_edges(view, [(counts, (low, high)), ([bins], wide)])
        return cls._from_quantiles(bins, counts, inside), cls._from_quantiles(bins, [bins], all_edges)

    @classmethod
    def _from_edges(cls, bins: Sequence[float], low: float, high: float, *, single: bool = False) -> Grid:
        edges = checked_edges(bins)
        inside = edges[(edges >= low) & (edges < high)]
        sets = {(len(inside) + 2) // 2: inside[1::2]} if len(inside) > 1 and not single else {}
        return cls._merged(inside, sets, len(edges) + 1)

    @classmethod
    def _from_quantiles(cls, bins: int, counts: Sequence[int], edges: Sequence[Floats]) -> Grid:
        sets = dict(zip(counts, edges, strict=True))
        return cls._merged(sets.pop(bins), sets, bins)

    @classmethod
    def _merged(cls, main: Floats, sets: dict[int, Floats], requested: int) -> Grid:
        every = np.unique(np.concatenate([main, *sets.values()]))
        into = {count: _into(every, edges) for count, edges in sets.items() if len(edges) != len(main)}
        return cls(every, _into(every, main), into, requested)

    def ends(self, low: float, high: float) -> Floats:
        """The edges of the test's bins, with both ends of the scope."""
        return np.concatenate([[low], self._inner(self.main), [high]])

    def binnings(self, low: float, high: float) -> list[ScoreBins]:
        """The test's bins, then those of every other number."""
        return [ScoreBins(self._inner(into), low, high) for into in (self.main, *self.others.values())]

    def _inner(self, into: Ints) -> Floats:
        return np.asarray(self.edges[np.flatnonzero(np.diff(into))])


def score_edges(view: Outcomes, requests: Sequence[tuple[Sequence[int], Range]]) -> list[list[Floats]]:
    """For each number of bins of each range of scores the distinct inner edges: exact inverted-CDF quantiles of its rows."""
    shares = [shares_of(bins) for bins, _ in requests]
    low, high = min(part[0] for _, part in requests), max(part[1] for _, part in requests)
    needed = [(fractions, part) for fractions, (_, part) in zip(shares, requests, strict=True) if fractions]
    scores = view.scores(low, high)
    quantiles = iter(quantiles_within(view.source, scores, needed, (low, high)) if needed else ())
    edges = [next(quantiles) if fractions else np.zeros(0) for fractions in shares]
    return [
        _distinct(bins, fractions, at, part[1])
        for (bins, part), fractions, at in zip(requests, shares, edges, strict=True)
    ]


def mean_edges(view: Outcomes, bins: Sequence[int], ends: Range, fewest: int) -> list[Floats]:
    """Inner edges as means of `fewest` scores, since a published edge would else be a single row's score."""
    shares = shares_of(bins)
    edges = quantile_means(view.source, view.scores(*ends), shares, ends, fewest) if shares else np.zeros(0)
    return _distinct(bins, shares, edges, ends[1])


def shared_ends(view: Outcomes, low: float, high: float, fewest: int) -> Range:
    """The ends of a scope as they may leave: the mean of its `fewest` lowest scores, and of its highest."""
    both = [Fraction(0), Fraction(1)]
    least, most = quantile_means(view.source, view.scores(low, high), both, (low, high), fewest).tolist()
    return float(least), float(most)


def _distinct(bins: Sequence[int], shares: Sequence[Fraction], edges: Floats, high: float) -> list[Floats]:
    at = dict(zip(shares, edges, strict=True))
    return [np.unique([e for d in range(1, b) if (e := at[Fraction(d, b)]) < high]).astype(np.float64) for b in bins]


def shares_of(bins: Sequence[int]) -> list[Fraction]:
    """Where the edges of so many bins, or so many, lie: shares of the rows."""
    return list(_shares_of(tuple(bins)))


@functools.lru_cache(maxsize=8)
def _shares_of(bins: tuple[int, ...]) -> tuple[Fraction, ...]:
    return tuple(sorted({Fraction(d, b) for b in bins for d in range(1, b)}))


def refuse_many_gaps(groups: int, grid: Grid) -> None:
    """Where clusters reach over bins, the joint test holds the covariance of every gap with every other one."""
    gaps = groups * (1 + max(int(into[-1]) for into in (grid.main, *grid.others.values())))
    if gaps > MOST_GAPS:
        raise EvenhandError(
            f"bins={grid.requested} makes up to {gaps:,} gaps of {groups} groups, more than the {MOST_GAPS:,} that can be tested "
            "together. Pass fewer bins, or fewer groups."
        )


def refuse_crowded(score: str, widths: Floats) -> None:
    """Scores that differ, but by so little that their powers are lost, would give wrong errors and no sign of it."""
    if np.any((widths > 0) & (widths < NARROWEST)):
        raise EvenhandError(
            f"score={score!r} has bins of a width below {NARROWEST:g}, too little for a line along them. "
            "Take logarithms of the scores, or pass fewer bins."
        )


def counts_of(bins: int) -> list[int]:
    """The number of bins that was asked for, half and twice as many."""
    return sorted({bins, max(1, bins // 2), min(MOST_BINS, 2 * bins)})


def checked_edges(bins: Sequence[float]) -> Floats:
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


def _into(every: Floats, edges: Floats) -> Ints:
    """Which bin each fine bin belongs to: a fine bin ends at `every`, a bin at `edges`."""
    return np.concatenate([np.searchsorted(edges, every), [len(edges)]]).astype(np.int64)
