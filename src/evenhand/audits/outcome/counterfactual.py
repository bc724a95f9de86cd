"""What if the bias were gone? Slots given again to those with the highest predicted outcome, as many as before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from evenhand.audits.assemble import adjusted
from evenhand.audits.declare import Call, log
from evenhand.audits.outcome.rows import without_few
from evenhand.cards import Floats, is_whole
from evenhand.errors import EvenhandError
from evenhand.findings import Findings, Row, row, slice_words, tidy
from evenhand.intervals.kinds import seed_of
from evenhand.metrics.counterfactual import Reallocation, folded
from evenhand.metrics.outcome import FEWEST_ROWS
from evenhand.results import Result, as_frame
from evenhand.sources.outcomes import Outcomes
from evenhand.streams import stream
from evenhand.tallies.candidates import Candidates, Change
from evenhand.tallies.moments import Ints

QUESTION = "What would change without the bias?"
EXTRA = ("p", "p_adjusted")
BAND = (
    "The band is what chance alone would change if no group were under- or over-rated: a change outside it is more than chance. "
    "It does not say how far the change itself would move."
)
CHARTS = ("slots", "intervals")
MOST_DRAWS = 100_000

ROUNDING = 1e-12
"""Changes closer than this are the same: where every candidate has a slot, all changes are rounding."""


@dataclass(frozen=True)
class Evidence:
    """Checked table, bins and call of the test that a counterfactual follows."""

    view: Outcomes
    kind: str
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
        null_draws: int = 200,
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
        null_draws : how often outcomes without any group difference are drawn, for the band of changes by chance alone.
        """
        if not self.evidence:
            raise EvenhandError(
                "This result holds nothing to compare. Run outcome_test on a table with two groups first."
            )
        if not self.evidence[0].view.engine.has_rows:
            raise EvenhandError(
                "Slots are given again row by row, and a tally holds no rows. Pass the table to the test."
            )
        if self.evidence[0].view.weighted:
            raise EvenhandError(
                "A slot goes to one row, and weight= makes a row stand for several. Run outcome_test without weight= first."
            )
        _check(folds, window, baseline, null_draws)
        return counterfactual(self.evidence, folds, window, baseline, null_draws, seed_of(rng), self.backend)


def _check(folds: Any, window: Any, baseline: Any, draws: Any) -> None:
    if not is_whole(folds, 1, 100):
        raise EvenhandError(f"folds={folds!r} is not a number of parts from 1 to 100. Pass 2.")
    if window not in ("bin", None):
        raise EvenhandError(f"window={window!r} is unknown. Use 'bin', or None for any distance.")
    if baseline not in ("recalibrated", None):
        raise EvenhandError(f"baseline={baseline!r} is unknown. Use 'recalibrated' or None.")
    if not is_whole(draws, 0, MOST_DRAWS):
        raise EvenhandError(f"null_draws={draws!r} is not a number of draws from 0 to {MOST_DRAWS:,}. Pass 200.")


def counterfactual(
    evidence: Sequence[Evidence],
    folds: int,
    window: str | None,
    baseline: str | None,
    draws: int,
    seed: int,
    backend: Any,
) -> Result:
    """Allocate again, value both allocations, and draw what chance alone would give, slice by slice."""
    call, slices = evidence[0].call, tuple(evidence[0].cells)
    chosen = {"folds": folds, "window": window, "baseline": baseline, "null_draws": draws, "rng": seed}
    rows: list[Row] = []
    each: dict[str, Any] = {}
    for e in evidence:
        slice_rows, facts = _reallocated(e, folds, window, baseline, draws, seed)
        rows += [{**e.cells, **r} for r in without_few(slice_rows, call.min_units, e.left)]
        each[slice_words(slices, list(e.cells.values()))] = facts
    more = next(iter(each.values()))
    if slices:
        more = {k: v for k, v in more.items() if k not in OWN} | {
            "slices": {k: {name: v[name] for name in OWN} for k, v in each.items()}
        }
    read = sum(e.view.rows for e in evidence)
    dropped = {k: sum(e.view.dropped.get(k, 0) for e in evidence) for e in evidence for k in e.view.dropped}
    counts = {k: more[k] for k in COUNTED if k in more} if not slices else {"slices": more["slices"]}
    more = {k: v for k, v in more.items() if k not in counts}
    provenance = call.provenance(read, dropped, {"seed": seed, "counterfactual": chosen, **more}, counts, rows)
    columns = tidy(adjusted(rows, EXTRA), slices, EXTRA)
    return Result(
        Findings("counterfactual", QUESTION, slices, columns, {}, evidence[0].words, provenance, CHARTS), backend
    )


COUNTED = ("requests", "slots", "candidates")
OWN = (*COUNTED, "folds", "window")


def _reallocated(
    e: Evidence, folds: int, window: str | None, baseline: str | None, draws: int, seed: int
) -> tuple[list[Row], dict[str, Any]]:
    """The rows of one slice, and how they were made."""
    log.info("collecting the candidates of every request")
    bar = e.view.threshold if e.view.threshold is not None else e.scope[0]
    bounded = window == "bin" and e.kind == "classification"
    lowest = bar - _lowest_width(bar, e.ends) if bounded else -np.inf
    c = Candidates.from_table(e.view, e.ends[1:-1], e.scope, lowest)
    c, fold = _dealt(c, folds, seed, requests=e.requests)
    plan = Reallocation(c, fold, folds, recalibrated=baseline == "recalibrated")
    log.info("giving %s slots again", f"{int(c.slots.sum()):,}")
    change = plan.change()
    null = plan.null(draws, stream(seed, "null")) if draws else None
    return _rows(change, null, e), _facts(c, e, folds, baseline, lowest, bounded=bounded)


def _lowest_width(bar: float, ends: Floats) -> float:
    """Width of the lowest bin; where scores are so few that it holds a single one, the step to the next bin."""
    steps = np.diff([bar, *ends[1:]])
    return float(steps[steps > 0][0]) if (steps > 0).any() else 0.0


def _dealt(c: Candidates, folds: int, seed: int, *, requests: bool) -> tuple[Candidates, Ints]:
    """The candidates, and the part that each request is dealt into; without requests every part is a pool of its own."""
    many = c.requests if requests else len(c.request)
    if many < folds:
        what = "requests" if requests else "rows"
        raise EvenhandError(f"folds={folds} needs as many {what}, and there are {many:,}. Pass folds=1.")
    part = folded(many, folds, stream(seed, "folds")) if folds > 1 else np.zeros(many, dtype=np.int64)
    return (c, part) if requests else (c.pooled(part), np.arange(folds))


def _facts(
    c: Candidates, e: Evidence, folds: int, baseline: str | None, lowest: float, *, bounded: bool
) -> dict[str, Any]:
    predicted = "by the lines of the outcome test: bin and group; scores outside the bins by the nearest bin"
    return {
        "interval_for": BAND,
        "kind": e.kind,
        "reference": e.words.get("reference"),
        "requests": c.requests if e.requests else None,
        "slots": int(c.slots.sum()),
        "candidates": len(c.request),
        "predicted": predicted,
        "folds": f"{c.clusters:,} {'requests' if e.requests else 'rows, no requests: one pool per part'} in "
        f"{folds} parts; slots of one given by the outcomes of the others, valued by its own"
        if folds > 1
        else "as printed: one fit",
        "window": f"scores from {lowest:.6g}" if bounded else "every scored candidate",
        "compared_with": "slots by predictions without group terms" if baseline else "slots as they were",
        "null": "restricted wild bootstrap by request: in every bin the line without group terms stays as it is, and each "
        "request's residuals get a random sign",
        "band": f"the outcome's change passes either end by chance in {1 - e.level:.3g} of cases (one-sided, as its p); slots "
        f"and ranks pass one of the two ends in {1 - e.level:.3g} of cases",
    }


def _rows(observed: Change, null: Change | None, e: Evidence) -> list[Row]:
    rows = _outcome_rows(observed, null, e.level)
    gained = observed.after.slots - observed.before.slots
    moved = observed.after.rank - observed.before.rank
    for g, name in enumerate(e.view.names):
        before, after = float(observed.before.slots[g]), float(observed.after.slots[g])
        units = int(before)
        thin = "small_cell" if units < FEWEST_ROWS else None
        rows += [
            row({}, "slots_before", group=name, estimate=before, units=units),
            row({}, "slots_after", group=name, estimate=after, units=units),
        ]
        rows.append(
            _with_p(
                row({}, "slots_gained", group=name, estimate=float(gained[g]), units=units, note=thin), _slots(null, g)
            )
        )
        change = row({}, "slots_relative_change", group=name, units=units, note="zero_denominator")
        rows.append({**change, "estimate": after / before - 1, "note": None} if before else change)
        rows += [
            _rank_row("mean_rank_before", name, float(observed.before.rank[g]), units),
            _rank_row("mean_rank_after", name, float(observed.after.rank[g]), units),
            _with_p(_rank_row("mean_rank_change", name, float(moved[g]), units, thin), _ranks(null, g)),
        ]
        if null is not None:
            rows.append(_band("slots_gained_null", _slots(null, g), (1 + e.level) / 2, group=name, units=units))
            rows.append(_band("mean_rank_change_null", _ranks(null, g), (1 + e.level) / 2, group=name, units=units))
    return rows


def _outcome_rows(observed: Change, null: Change | None, level: float) -> list[Row]:
    units = int(observed.before.slots.sum())
    change = float(observed.outcome_change)
    rows = [
        row({}, "outcome_before", estimate=float(observed.before.outcome), units=units),
        row({}, "outcome_after", estimate=float(observed.after.outcome), units=units),
    ]
    note = "zero_denominator" if np.isnan(change) else None if null is not None else "no_null"
    p = np.nan
    if null is not None and not np.isnan(change):
        draws = null.outcome_change
        p = (1 + np.count_nonzero(draws >= change - ROUNDING)) / (1 + len(draws))
    rows.append({**row({}, "outcome_relative_change", estimate=change, units=units, note=note), "p": float(p)})
    if null is not None:
        rows.append(_band("outcome_relative_change_null", null.outcome_change, level, units=units))
    return rows


def _slots(null: Change | None, g: int) -> Floats | None:
    return None if null is None else np.asarray((null.after.slots - null.before.slots)[:, g])


def _ranks(null: Change | None, g: int) -> Floats | None:
    return None if null is None else np.asarray((null.after.rank - null.before.rank)[:, g])


def _rank_row(metric: str, group: str, value: float, units: int, note: str | None = None) -> Row:
    why = "nothing_shown" if np.isnan(value) else note
    return row({}, metric, group=group, estimate=value, units=units, note=why)


def _with_p(r: Row, draws: Floats | None) -> Row:
    """How often chance alone is as far out, on either side."""
    defined = np.zeros(0) if draws is None else draws[~np.isnan(draws)]
    if np.isnan(r["estimate"]) or not len(defined):
        return {**r, "p": np.nan}
    rarer = min(np.count_nonzero(defined >= r["estimate"]), np.count_nonzero(defined <= r["estimate"]))
    return {**r, "p": min(1.0, 2 * (1 + rarer) / (1 + len(defined)))}


def _band(metric: str, draws: Floats | None, level: float, *, group: str | None = None, units: int) -> Row:
    """Median by chance alone, and ends of which each is passed with probability 1 - level.

    The ends are draws: with n of them a further one lies above the k-th smallest with a chance of 1 - k / (n + 1), so that
    what lies beyond an end is what has a p of at most 1 - level.
    """
    defined = np.sort(draws[~np.isnan(draws)]) if draws is not None else np.zeros(0)
    if not len(defined):
        return row({}, metric, group=group, units=units, note="zero_denominator")
    k = min(len(defined), math.ceil((len(defined) + 1) * level * (1 - 1e-12)))
    lost = 0 if draws is None else len(draws) - len(defined)
    return row(
        {},
        metric,
        group=group,
        estimate=float(np.median(defined)),
        low=float(defined[-k]),
        high=float(defined[k - 1]),
        units=units,
        undefined_draws=lost,
    )
