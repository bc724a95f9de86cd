"""What other measures see on the rows of an outcome test: averages, calibration, equalised odds, rates above a threshold."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from evenhand.audits.assemble import notes
from evenhand.findings import Row, row
from evenhand.intervals.odds import Odds, odds_gaps, rate_gap
from evenhand.sources.outcomes import Outcomes
from evenhand.tallies.rows import Rows


@dataclass(frozen=True)
class Everybody:
    """Rows one by one, whatever their score.

    Attributes
    ----------
    seen : those whose outcome was observed; None where they are not held, as `unseen` says.
    known : those whose outcome the table tells, also below the threshold or untreated, with who was treated; None where
        everybody was, or outcomes are not 0 and 1.
    thresholded : whether the table says who was treated.
    """

    seen: Rows | None
    known: Rows | None
    thresholded: bool
    unseen: str = "too_many_rows"
    """Why rows are not held one by one, where they are not."""


ODDS = ("equalized_odds_gap", "equal_opportunity_gap")
RATES = ("true_positive_rate_gap", "false_positive_rate_gap")
"""Measures that read the rows one by one, which takes longer than all the rest: they are left out where nobody asks."""


def contrast_rows(view: Outcomes, everybody: Everybody, level: float, wanted: AbstractSet[str]) -> list[Row]:
    """What other measures see on the same rows; of those that read them one by one, the `wanted`."""
    rows = []
    for g, name in enumerate(view.names):
        units, outcome = int(view.used[g]), view.outcome_sum[g] / view.mass[g]
        average = "precision" if everybody.thresholded else "base_rate"
        rows.append(row({}, average, group=name, estimate=float(outcome), units=units))
        if on_outcome_scale(view):
            gap = outcome - view.score_sum[g] / view.mass[g]
            rows.append(
                row({}, "calibration_gap", group=name, estimate=float(gap), ideal=0.0, better="ideal", units=units)
            )
    asked, seen = [metric for metric in ODDS if metric in wanted], everybody.seen
    kinds = [metric == "equal_opportunity_gap" for metric in asked]
    odds = {
        g: odds_gaps(seen, g, view.reference, level, kinds)
        for g in range(len(view.names))
        if seen is not None and kinds and g != view.reference
    }
    for i, metric in enumerate(asked):
        rows += [
            _odds_row(metric, view, g, odds[g][i] if g in odds else None, everybody.unseen)
            for g in range(len(view.names))
        ]
    return rows + [r for metric in RATES if metric in wanted for r in _rate_rows(view, everybody, metric, level)]


def _odds_row(metric: str, view: Outcomes, g: int, found: Odds | None, unseen: str) -> Row:
    home = g == view.reference
    made = row(
        {}, metric, group=view.names[g], ideal=0.0, better="lower", units=int(view.used[g]),
        estimate=0.0 if home else np.nan, note="reference" if home else unseen,
    )  # fmt: skip
    if found is None:
        return made
    few = "few_given_outcome" if np.isnan(found.estimate) else "some_outcomes_skipped" if found.skipped else ""
    ends = {"low": found.low, "high": found.high}
    clusters = "too_few_clusters" if found.few_clusters else ""
    return made | ends | {"estimate": found.estimate, "chance": found.chance, "note": notes(few, clusters)}


def _rate_rows(view: Outcomes, everybody: Everybody, metric: str, level: float) -> list[Row]:
    """Gaps of the rate at which those with a good outcome, or a bad one, are treated."""
    known = everybody.known
    if known is None:
        return []
    rows, at = [], known.outcome == (metric == RATES[0])
    for g, name in enumerate(view.names):
        found = rate_gap(known, at, g, view.reference, level)
        home = g == view.reference and not np.isnan(found.estimate)
        note = "zero_denominator" if np.isnan(found.estimate) else "few_given_outcome" if np.isnan(found.low) else None
        rows.append(
            row(
                {}, metric, group=name, estimate=found.estimate, low=np.nan if home else found.low,
                high=np.nan if home else found.high, ideal=0.0, better="ideal",
                units=int(np.count_nonzero(at & (known.group == g))), note="reference" if home else note,
            )
        )  # fmt: skip
    return rows


def on_outcome_scale(view: Outcomes) -> bool:
    """Whether scores can be read as predicted outcomes: they stay inside the range of the outcomes."""
    low, high = view.outcome_ends
    return bool(low <= view.low.min() and view.high.max() <= high and low < high)
