"""What to do about an outcome gap: slots given to those with the highest predicted outcome, and recalibrated scores."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from evenhand.audits.declare import Call, log
from evenhand.audits.outcome.rows import counterfactual_claims, without_few
from evenhand.cards import REGISTRY, Floats, is_whole
from evenhand.claims import decide
from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.findings import Findings, Row, adjusted, row, slice_words, tidy
from evenhand.intervals.kinds import seed_of
from evenhand.labels import listed, missing, stream
from evenhand.metrics.counterfactual import Reallocation, folded
from evenhand.metrics.outcome import FEWEST_ROWS, Lines, gaps, lines
from evenhand.metrics.outcome_joint import joint_test, pooled_gap
from evenhand.report.files import write_whole
from evenhand.report.words.text import number
from evenhand.results import Result, as_frame
from evenhand.sources.outcomes import UNKNOWN, Outcomes, off_scale, refuse_many
from evenhand.tallies.candidates import Candidates, Change
from evenhand.tallies.moments import Moments
from evenhand.tallies.ragged import Ints

BAND = (
    "The band is what chance alone would change if no group were under- or over-rated: a change outside it is more than chance. "
    "It does not say how far the change itself would move."
)
CHARTS = ("slots", "intervals")
DRAWS_PER_CLAIM, MOST_DRAWS = 200, 5_000
"""A two-sided p of n draws is at least 2 / (n + 1): with 200 for each claim, Holm leaves it below 0.01."""

ROUNDING = 1e-12
"""Changes closer than this are the same: where every candidate has a slot, all changes are rounding."""


@dataclass(frozen=True)
class Evidence:
    """Checked table, bins and call of the test that a counterfactual follows."""

    view: Outcomes
    ends: Floats
    scope: tuple[float, float]
    words: Mapping[str, str]
    call: Call
    left: Sequence[str] = ()
    cells: Mapping[str, Any] = field(default_factory=dict)

    @property
    def level(self) -> float:
        return self.call.interval.level

    @property
    def requests(self) -> bool:
        """Whether the table says which rows compete for the same slots."""
        return self.call.arguments["request"] is not None


@dataclass(frozen=True, repr=False)
class OutcomeResult(Result):
    """The outcome test's answer; it keeps the checked table to ask what would change without the bias."""

    evidence: tuple[Evidence, ...] = ()

    @property
    def remedies(self) -> Any:
        """Which team can fix which bias, and what was found of it: a row per group and source of the bias."""
        return as_frame(self.findings.curves["remedies"], self.backend, self.findings.slices)

    def counterfactual(
        self,
        *,
        folds: int = 2,
        window: Literal["bin"] | None = "bin",
        baseline: Literal["recalibrated"] | None = None,
        null_draws: int | None = None,
        rng: int | np.random.Generator | None = None,
    ) -> Result:
        """Give every request's slots to the candidates with the highest predicted outcome, and see who gains.

        Parameters
        ----------
        folds : into how many parts whole requests are dealt; each part's slots are given by what the others predict and
            valued by what its own outcomes predict. 1 predicts and values with the same rows, as the source printed it;
            its gain is then never below zero, bias or not. Without requests rows are dealt, and each part is one pool.
        window : how far below the threshold a candidate may come from: one width of the lowest bin, or None for any.
        baseline : "recalibrated" compares with the slots that the same predictions without group terms would give, so
            that what is left is the effect of the group.
        null_draws : how often outcomes without any group difference are drawn, for the band of changes by chance alone;
            None is 200 for every claim, so that the smallest adjusted p is about 0.01, and at most 5,000.
        """
        if not self.evidence:
            raise EvenhandError(
                "This result holds no scores to compare. Run outcome_test of kind ranking or classification on two groups first."
            )
        if not self.evidence[0].view.engine.has_rows:
            raise EvenhandError(
                "Slots are given again row by row, and a tally holds no rows. Pass the table to the test."
            )
        if self.evidence[0].view.weighted:
            raise EvenhandError(
                "A slot goes to one row, and weight= makes a row stand for several. Run outcome_test without weight= first."
            )
        if not is_whole(folds, 1, 100):
            raise EvenhandError(f"folds={folds!r} is not a number of parts from 1 to 100. Pass 2.")
        if window not in ("bin", None):
            raise EvenhandError(f"window={window!r} is unknown. Use 'bin', or None for any distance.")
        if baseline not in ("recalibrated", None):
            raise EvenhandError(f"baseline={baseline!r} is unknown. Use 'recalibrated' or None.")
        if null_draws is None:
            claims = sum(len(e.view.labels) + 1 for e in self.evidence)
            null_draws = min(DRAWS_PER_CLAIM * claims, MOST_DRAWS)
        if not is_whole(null_draws, 0, 100_000):
            raise EvenhandError(f"null_draws={null_draws!r} is not a number of draws from 0 to 100,000. Pass 200.")
        how = _Counterfactual(int(folds), window, baseline, int(null_draws), seed_of(rng))
        return how.result(self.evidence, self.backend)


@dataclass(frozen=True)
class _Counterfactual:
    folds: int
    window: str | None
    baseline: str | None
    null_draws: int
    rng: int

    def result(self, evidence: Sequence[Evidence], backend: Any) -> Result:
        """Both allocations valued, slice by slice, and what chance alone would give."""
        call, slices = evidence[0].call, tuple(evidence[0].cells)
        rows: list[Row] = []
        by_slice: dict[str, dict[str, Any]] = {}
        moves: dict[tuple[Any, ...], str] = {}
        for e in evidence:
            slice_rows, slice_facts = self._reallocate(e)
            only_order = slice_facts["candidates"] == slice_facts["slots"]  # everybody has a slot
            moves[tuple(e.cells.values())] = "mean_rank_change" if only_order else "slots_gained"
            rows += [{**e.cells, **r} for r in without_few(slice_rows, call.min_units, e.left)]
            by_slice[slice_words(slices, list(e.cells.values()))] = slice_facts
        facts = next(iter(by_slice.values()))
        counted = ("requests", "slots", "candidates")
        counts = {name: facts[name] for name in counted}
        if slices:
            differing = (*counted, "folds", "window")
            counts = {"slices": {k: {name: v[name] for name in differing} for k, v in by_slice.items()}}
            facts = {k: v for k, v in facts.items() if k not in differing}
        facts = {k: v for k, v in facts.items() if k not in counts}
        read = sum(e.view.rows for e in evidence)
        dropped = {k: sum(e.view.dropped.get(k, 0) for e in evidence) for e in evidence for k in e.view.dropped}
        chosen = {"seed": self.rng, "counterfactual": asdict(self), **facts}
        if rounding := call.rounding(rows):
            rows, chosen = [rounding.row(r) for r in rows], rounding.facts(chosen)
        provenance = call.provenance(read, dropped, chosen, counts, rows, rounding=rounding)
        extra = ("p", "p_adjusted")
        by_row = counterfactual_claims(rows, slices, moves)
        claims = dict(zip(by_row, decide(by_row.values(), evidence[0].level), strict=True))
        rows = [{**r, "p_adjusted": claims[i].p_adjusted} if i in claims else r for i, r in enumerate(rows)]
        columns = tidy(adjusted(rows, extra), slices, extra)
        question, words = "What would change without the bias?", evidence[0].words
        findings = Findings(
            "counterfactual", question, slices, columns, {}, words, provenance, CHARTS, tuple(claims.values())
        )
        return Result(findings, backend)

    def _reallocate(self, e: Evidence) -> tuple[list[Row], dict[str, Any]]:
        """The rows of one slice, and how they were made."""
        log.info("collecting the candidates of every request")
        bar = e.view.threshold if e.view.threshold is not None else e.scope[0]
        bounded, lowest = self.window == "bin" and e.call.arguments["kind"] == "classification", -np.inf
        if bounded:  # the width of the lowest bin, or the step to the next where it holds a single score
            steps = np.diff([bar, *e.ends[1:]])
            lowest = bar - (float(steps[steps > 0][0]) if (steps > 0).any() else 0.0)
        rows = e.view.candidates(lowest)
        c = Candidates.from_arrays(
            rows["request"],
            rows["score"],
            rows["code"],
            rows["outcome"],
            rows["used"],
            edges=e.ends[1:-1],
            groups=len(e.view.labels),
            reference=e.view.reference,
            scope=e.scope,
        )
        dealt = c.requests if e.requests else len(c.request)
        if dealt < self.folds:
            what = "requests" if e.requests else "rows"
            raise EvenhandError(f"folds={self.folds} needs as many {what}, and there are {dealt:,}. Pass folds=1.")
        rng = stream(self.rng, "folds")
        fold = folded(dealt, self.folds, rng) if self.folds > 1 else np.zeros(dealt, dtype=np.int64)
        if not e.requests:  # every fold is one pool of candidates
            c, fold = c.pooled(fold), np.arange(self.folds)
        plan = Reallocation(c, fold, self.folds, recalibrated=self.baseline == "recalibrated")
        log.info("giving %s slots again", f"{int(c.slots.sum()):,}")
        change = plan.change()
        null = plan.null(self.null_draws, stream(self.rng, "null")) if self.null_draws else None
        window = f"scores from {lowest:.6g}" if bounded else "every scored candidate"
        return _rows(change, null, e), self._facts(c, e, window)

    def _facts(self, c: Candidates, e: Evidence, window: str) -> dict[str, Any]:
        dealt = "requests" if e.requests else "rows, no requests: one pool per part"
        parts = f"{c.clusters:,} {dealt} in {self.folds} parts; slots of one given by the outcomes of the others, valued by its own"
        share = f"{1 - e.level:.3g}"
        return {
            "interval_for": BAND,
            "kind": e.call.arguments["kind"],
            "reference": e.words.get("reference"),
            "requests": c.requests if e.requests else None,
            "slots": int(c.slots.sum()),
            "candidates": len(c.request),
            "predicted": "by the lines of the outcome test: bin and group; scores outside the bins by the nearest bin",
            "folds": parts if self.folds > 1 else "as printed: one fit",
            "window": window,
            "compared_with": "slots by predictions without group terms" if self.baseline else "slots as they were",
            "null": "restricted wild bootstrap by request: in every bin the line without group terms stays as it is, and each "
            "request's residuals get a random sign",
            "band": f"a change passes one of the two ends by chance in {share} of cases",
        }


OVERALL = ("outcome_before", "outcome_after", "outcome_relative_change")
PER_GROUP = (
    "slots_before", "slots_after", "slots_gained", "slots_relative_change", "mean_rank_before", "mean_rank_after",
    "mean_rank_change",
)  # fmt: skip
CHANGES = ("outcome_relative_change", "slots_gained", "mean_rank_change")
"""What is held against chance: each has a row of its band too, called `..._null`."""


def _rows(observed: Change, null: Change | None, e: Evidence) -> list[Row]:
    rows = _rows_of(OVERALL, observed, null, e.level)
    for g, name in enumerate(e.view.names):
        rows += _rows_of(PER_GROUP, observed, null, e.level, g, name)
    return rows


def _rows_of(
    metrics: Sequence[str], observed: Change, null: Change | None, level: float, g: int | None = None, group: str | None = None
) -> list[Row]:  # fmt: skip
    """Rows of metrics that are about all slots, or about those of a group, and then the bands of chance."""
    slots = observed.before.slots
    rows, bands, units = [], [], int(slots.sum() if g is None else slots[g])
    unsure = (
        "no_null" if g is None and null is None else "small_cell" if g is not None and units < FEWEST_ROWS else None
    )
    for name in metrics:
        metric = REGISTRY[name]
        value = float(metric.on(observed)[() if g is None else g])
        r = row({}, name, group=group, estimate=value, units=units)
        if name in CHANGES:
            draws = None if null is None else metric.on(null)[(..., *(() if g is None else (g,)))]
            r |= {"note": unsure, "p": _two_sided(value, draws)}
            bands += [] if draws is None else [_band(f"{name}_null", draws, (1 + level) / 2, group=group, units=units)]
        rows.append({**r, "note": metric.card.otherwise} if np.isnan(value) else r)
    return rows + bands


def _two_sided(estimate: float, draws: Floats | None) -> float:
    """How often chance alone is as far out, on either side."""
    defined = np.zeros(0) if draws is None else draws[~np.isnan(draws)]
    if np.isnan(estimate) or not len(defined):
        return math.nan
    rarer = min(np.count_nonzero(defined >= estimate - ROUNDING), np.count_nonzero(defined <= estimate + ROUNDING))
    return min(1.0, 2 * (1 + rarer) / (1 + len(defined)))


def _band(metric: str, draws: Floats, level: float, *, group: str | None = None, units: int) -> Row:
    """Median by chance alone, and ends of which each is passed with probability 1 - level.

    The ends are draws: with n of them a further one lies above the k-th smallest with a chance of 1 - k / (n + 1), so that
    what lies beyond an end is what has a p of at most 1 - level.
    """
    defined = np.sort(draws[~np.isnan(draws)])
    if not len(defined):
        return row({}, metric, group=group, units=units, note="zero_denominator")
    k = min(len(defined), math.ceil((len(defined) + 1) * level * (1 - 1e-12)))
    return row(
        {}, metric, group=group, estimate=float(np.median(defined)), low=float(defined[-k]), high=float(defined[k - 1]),
        units=units, undefined_draws=len(draws) - len(defined),
    )  # fmt: skip


LEARNED = ("groups", "rows", "knots", "curves", "pooled")


class OutcomeRecalibrator:
    """Predicts the outcome from score and group; the prediction, used as the score, treats equal outcomes alike.

    In every score bin the outcome is regressed on group and score, as in `outcome_test`. Of a group's gaps only what noise
    alone would not give is corrected: first one gap for all scores, then its rise or fall along them, then bin by bin.
    Within a group the new score never falls where the old one rises. It follows scikit-learn's conventions: parameters in
    the constructor, `fit` returns the object, what was learned ends in an underscore.

    Scores that were right mostly stay as they are. Where there is bias the gap is learned from as many rows as were fitted:
    tested on as many new rows, corrected scores still fail in 10 to 26% of worlds at the 5% level (200 worlds each of 1,000 to
    8,000 rows), with four times as many to fit on in 6 to 8%. Rows that share shocks (requests, jobs) tell less than as many
    others: name their `clusters`.

    Parameters
    ----------
    bins : number of score bins with equally many rows.
    reference : the group that gaps are measured from; None is the largest. It changes rounding, not the result.

    Examples
    --------
    >>> scores, groups = [0.1, 0.2, 0.3, 0.4] * 2, ["a"] * 4 + ["b"] * 4
    >>> outcomes = [0.1, 0.2, 0.3, 0.4, 0.3, 0.4, 0.5, 0.6]
    >>> fair = OutcomeRecalibrator(bins=2).fit(scores, groups, outcomes)
    >>> fair.transform([0.2, 0.2], ["a", "b"]).round(6).tolist()
    [0.2, 0.4]
    """

    def __init__(self, *, bins: int = 10, reference: Any = None) -> None:
        self.bins = bins
        self.reference = reference

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002
        """The parameters of the constructor."""
        return {"bins": self.bins, "reference": self.reference}

    def set_params(self, **params: Any) -> OutcomeRecalibrator:
        """Change parameters of the constructor; fit again afterwards."""
        for name, value in params.items():
            if name not in self.get_params():
                raise EvenhandError(f"{name!r} is not a parameter. Its parameters: bins, reference.")
            setattr(self, name, value)
        return self

    def fit(
        self, scores: Any, groups: Any, outcomes: Any, *, weights: Any = None, clusters: Any = None
    ) -> OutcomeRecalibrator:
        """Learn a curve from score to outcome for every group.

        Parameters
        ----------
        weights : the weight of each row: regressions and means are weighted, bins are not.
        clusters : what rows share (the request, the job): how much is noise is then judged by whole clusters.
        """
        if not is_whole(self.bins, 1):
            raise EvenhandError(f"bins={self.bins!r} is not a number of bins. Pass a whole number such as 10.")
        s, y, labels = _numbers("scores", scores), _numbers("outcomes", outcomes), _labels(groups)
        w, c = _weights(weights, len(s)), _clusters(clusters, len(s))
        _same_length(s, y, labels)
        if problems := [p for name, x in (("scores", s), ("outcomes", y)) for p in off_scale(name, x.min(), x.max())]:
            raise all_problems(problems)
        names, codes = np.unique(labels, return_inverse=True)
        refuse_many(len(names), "groups")
        self.groups_ = names.tolist()
        counts = np.bincount(codes)
        if self.reference is not None and str(self.reference) not in self.groups_:
            raise EvenhandError(
                f"reference={self.reference!r} is not among the groups. Groups: {listing(self.groups_)}."
            )
        home = int(counts.argmax()) if self.reference is None else self.groups_.index(str(self.reference))
        m = _tally(s, y, codes, self.bins, len(names), w, c)
        knots, curves, alike = _curves(m, home)
        self.knots_, self.rows_ = knots.tolist(), counts.tolist()
        self.curves_ = {name: curves[:, g].tolist() for g, name in enumerate(self.groups_)}
        self.pooled_ = alike.tolist()
        return self

    def transform(self, scores: Any, groups: Any) -> Floats:
        """The outcome expected of each candidate; a group that was not seen in `fit` gets the curve of all groups."""
        self._must_be_fitted()
        s, labels, knots = _numbers("scores", scores), _labels(groups), np.array(self.knots_)
        _same_length(s, labels)
        out = np.empty(len(s))
        for name in np.unique(labels):
            rows, curve = labels == name, np.array(self.curves_.get(str(name), self.pooled_))
            if len(knots) == 1:
                out[rows] = curve[0]
                continue
            at = np.clip(np.searchsorted(knots, s[rows]) - 1, 0, len(knots) - 2)  # straight on beyond the ends
            slope = (curve[at + 1] - curve[at]) / (knots[at + 1] - knots[at])
            out[rows] = curve[at] + slope * (s[rows] - knots[at])
        return out

    def fit_transform(
        self, scores: Any, groups: Any, outcomes: Any, *, weights: Any = None, clusters: Any = None
    ) -> Floats:
        """`fit`, then `transform` of the same scores."""
        return self.fit(scores, groups, outcomes, weights=weights, clusters=clusters).transform(scores, groups)

    def evaluate(self, scores: Any, groups: Any, outcomes: Any, *, weights: Any = None, clusters: Any = None) -> Gain:
        """Gaps, joint test and top outcomes before and after, on rows held back from `fit`."""
        new, s = self.transform(scores, groups), _numbers("scores", scores)
        y, labels = _numbers("outcomes", outcomes), _labels(groups)
        _same_length(s, y)
        codes = np.unique(labels, return_inverse=True)[1].reshape(-1)
        home = int(np.bincount(codes).argmax())
        w, c = _weights(weights, len(s)), _clusters(clusters, len(s))
        results = []
        for score in (s, new):
            tally = _tally(score, y, codes, self.bins, int(codes.max()) + 1, w, c)
            tested = gaps(tally, home, "HC1" if c is None else "cluster")
            over_all = pooled_gap.on(tally, reference=home)
            top = np.argsort(-score, kind="stable")[: max(1, round(0.1 * len(score)))]
            best = float(np.average(y[top], weights=None if w is None else w[top]))
            results.append((float(np.nanmax(np.abs(over_all))), joint_test(tested).p, best))
        (gap, p, best), (new_gap, new_p, new_best) = results
        return Gain(len(s), gap, new_gap, p, new_p, best, new_best)

    def to_json(self, path: str | Path | None = None) -> str:
        """The fitted curves as JSON text; written to `path` if one is given."""
        self._must_be_fitted()
        learned = {name: getattr(self, f"{name}_") for name in LEARNED}
        head = {"kind": "evenhand.OutcomeRecalibrator", "version": 1, **self.get_params(), "bins": int(self.bins)}
        text = json.dumps({**head, **learned}, ensure_ascii=False, indent=1)
        if path is not None:
            write_whole(path, text)
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> OutcomeRecalibrator:
        """The recalibrator that `to_json` wrote: a path, or the text itself."""
        text = str(source)
        try:
            data = json.loads(text if text.lstrip().startswith("{") else Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EvenhandError(f"{text[:80]!r} is no saved recalibrator. Pass what to_json wrote.") from error
        is_complete = isinstance(data, dict) and {"bins", *LEARNED} <= data.keys()
        if not is_complete or data.get("kind") != "evenhand.OutcomeRecalibrator":
            raise EvenhandError("The JSON holds no recalibrator. Pass what to_json wrote.")
        recalibrator = cls(bins=data["bins"], reference=data.get("reference"))
        for name in LEARNED:
            setattr(recalibrator, f"{name}_", data[name])
        return recalibrator

    def _must_be_fitted(self) -> None:
        if not hasattr(self, "knots_"):
            raise EvenhandError("This recalibrator has not been fitted. Call fit(scores, groups, outcomes) first.")

    def __repr__(self) -> str:
        return f"OutcomeRecalibrator(bins={self.bins!r}, reference={self.reference!r})"


@dataclass(frozen=True, slots=True)
class Gain:
    """The largest gap between groups, the joint test, and the mean outcome of the top tenth, before and after."""

    rows: int
    gap_before: float
    gap_after: float
    p_before: float
    p_after: float
    top_before: float
    top_after: float

    def __str__(self) -> str:
        return (
            f"On {self.rows:,} rows held back: largest pooled gap {number(self.gap_before)} before, {number(self.gap_after)} "
            f"after (joint test p {number(self.p_before)}, {number(self.p_after)}); mean outcome of the top 10% by score "
            f"{number(self.top_before)} before, {number(self.top_after)} after."
        )


def _numbers(name: str, values: Any) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvenhandError(f"{name} must be numbers. Pass one number per candidate.") from error
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise EvenhandError(f"{name} must be a list of finite numbers, at least one. Remove missing values first.")
    return array


def _weights(weights: Any, rows: int) -> Floats | None:
    if weights is None:
        return None
    w = _numbers("weights", weights)
    _same_length(w, range(rows))
    if not (w > 0).all():
        raise EvenhandError("weights must be above zero. Leave out rows that weigh nothing.")
    return w


def _clusters(clusters: Any, rows: int) -> Ints | None:
    if clusters is None:
        return None
    labels = listed(clusters)
    _same_length(labels, range(rows))
    if any(map(missing, labels)):
        raise EvenhandError("clusters has missing values. Fill them, or leave those rows out.")
    return np.unique(np.array([str(label) for label in labels]), return_inverse=True)[1].reshape(-1)


def _labels(groups: Any) -> Any:
    return np.array([UNKNOWN if missing(label) else str(label) for label in listed(groups)])


def _same_length(*columns: Sequence[Any] | Floats) -> None:
    if len({len(c) for c in columns}) > 1:
        raise EvenhandError(f"The columns differ in length: {[len(c) for c in columns]}. Pass one entry per candidate.")


def _tally(
    s: Floats, y: Floats, codes: Ints, bins: int, groups: int, weights: Floats | None, clusters: Ints | None
) -> Moments:
    ranks = np.clip([-(-d * len(s) // bins) - 1 for d in range(1, bins)], 0, None).astype(np.int64)
    ordered = np.sort(s)
    inner = np.unique(ordered[ranks])
    inner = inner[inner < ordered[-1]]
    shape, bin_of = (len(inner) + 1, groups), np.searchsorted(inner, s)
    return Moments.from_arrays(s, y, bin_of, codes, shape=shape, cluster=clusters, weight=weights)


def _curves(m: Moments, home: int) -> tuple[Floats, Floats, Floats]:
    """Knots, the curve of every group at them, and the curve of all groups together."""
    rows, mass, knots, groups = m.rows.sum(-1), m.mass, m.origin, m.rows.shape[1]
    fitted = lines(m)
    # Robust errors of thin cells are too small.
    tested = gaps(m, home, "classical" if m.clusters is None else "cluster")
    # Kish's design effect: rows of unequal weight tell as much as fewer of one weight.
    unequal = np.sqrt(rows * m.squared[..., 0, 0].sum(-1) / mass.sum(-1) ** 2)
    noise = tested.error * (unequal[:, None] if m.clusters is None else 1.0)
    # A gap is the same along the score, and then rises or falls with it, before it is anything else.
    design = np.vander(_scaled(knots), 2 if len(knots) > 2 else 1, increasing=True)
    each = [_shrink_noise(knots, tested.estimate[:, g], noise[:, g], design) for g in range(groups)]
    gap = np.stack(each, axis=-1)
    levels = np.where(np.isfinite(fitted.level), fitted.level, 0.0)
    common = (mass * (levels - gap)).sum(-1) / mass.sum(-1)  # every row tells of the shape, whatever its group
    bend = np.vander(_scaled(knots), min(3, (len(knots) - 1) // 2) + 1)
    base = _shrink_noise(knots, common, _level_errors(m, fitted) * unequal, bend, shrunk=False)
    curves = np.stack([_rising(base + gap[:, g], mass[:, g]) for g in range(groups)], axis=-1)
    alike = np.nansum(mass * np.nan_to_num(m.mean_outcome), axis=-1) / mass.sum(-1)
    return knots, curves, _rising(alike, mass.sum(-1))


def _level_errors(m: Moments, fitted: Lines) -> Floats:
    """Standard error of the mean outcome of each bin around its lines; rows are taken as independent."""
    rows, mean = m.rows.sum(-1), m.mass.sum(-1) / m.rows.sum(-1)
    levels = np.where(np.isfinite(fitted.level), fitted.level, 0.0)
    residual = m.measured_from(levels, fitted.slope[:, None]).sums[..., 0, 2].sum(-1) / mean
    left = rows - fitted.parameters
    return np.asarray(
        np.sqrt(np.divide(np.maximum(residual, 0.0), left * rows, out=np.zeros_like(rows), where=left > 0))
    )


def _scaled(knots: Floats) -> Floats:
    return np.asarray((knots - knots.mean()) / (np.ptp(knots) or 1.0))


def _shrink_noise(knots: Floats, values: Floats, error: Floats, design: Floats, *, shrunk: bool = True) -> Floats:
    """Values of which only that is kept which noise of this size does not give.

    The columns of the design are fitted one after the other (each as what it adds), then the bins around them. If `shrunk`,
    each of the columns has to show itself too; otherwise they are kept whole.
    """
    defined = np.isfinite(values) & np.isfinite(error)
    if not defined.any():
        return np.zeros_like(values)
    if (error[defined] == 0).any():  # no noise: nothing to be steadied, and the bins in between follow
        return np.interp(knots, knots[defined], values[defined])
    weight = np.where(defined, 1 / np.where(defined, error, 1.0), 0.0)
    scaled = np.where(defined, values, 0.0) * weight
    axes, turn = np.linalg.qr(design[defined] * weight[defined, None])
    sizes = axes.T @ scaled[defined]  # independent of each other, with a standard error of one
    off = scaled[defined] - axes @ sizes
    if shrunk:
        sizes = sizes * np.array([_signal_share(float(z * z), 1) for z in sizes])
    fitted = design @ np.linalg.lstsq(turn, sizes, rcond=None)[0]
    fitted[defined] += _signal_share(float(off @ off), int(defined.sum()) - design.shape[1]) * off / weight[defined]
    return np.asarray(fitted)


def _signal_share(square: float, free: int) -> float:
    """Share of a part that exceeds noise, given its sum of squares in standard errors.

    Noise gives `free` on average; it is given its standard deviation on top, so that scores that are right stay as they are.
    """
    return max(0.0, 1 - (free + np.sqrt(2 * free)) / square) if square > 0 and free > 0 else 0.0


def _rising(values: Floats, weight: Floats) -> Floats:
    return np.asarray(isotonic_regression(values, weights=np.maximum(weight, 1e-9)).x)
