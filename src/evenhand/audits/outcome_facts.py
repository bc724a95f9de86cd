"""What an outcome test has to say of itself: scope, bins, errors, families of tests, and what it cannot say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.audits.assemble import untold
from evenhand.audits.outcome_bins import Grid
from evenhand.audits.outcome_rows import Binning, is_binary
from evenhand.cards import Floats
from evenhand.findings import Row, slice_words
from evenhand.metrics.outcome import FEWEST_EXPECTED
from evenhand.sources.outcomes import Outcomes

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
WEIGHTED = (
    "{!r}: least squares, means and the pooled gap are weighted; bins, small cells and degrees of freedom count rows"
)
CANNOT_SAY = (
    "Whether people treat the groups differently once the algorithm has shown them: the test takes outcomes as given.",
    "Anything about scores outside the range that all groups share, or about candidates whose outcome nobody saw.",
    "Whether the outcome is the right one to predict, or why the scores are off.",
    "Anything where scores cannot be compared between requests, as those of a listwise ranker.",
)


def facts_of(
    view: Outcomes, tested: Binning, grid: Grid, kind: str, scope: tuple[float, float], left: Sequence[str], fewest: int
) -> dict[str, Any]:
    """What the test of one slice has to say of itself."""
    how = tested.covariance
    errors = {
        "HC1": "heteroscedasticity-robust (HC1), normal",
        "classical": "classical, t with rows minus coefficients",
        "cluster": f"clustered by {view.roles.cluster!r} (CR1), t with clusters minus 1",
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
        **({"weights": WEIGHTED.format(view.roles.weight)} if view.weighted else {}),
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


def remedies(rows: Sequence[Row], by: Sequence[str], reference: str, level: float) -> dict[str, list[Any]]:
    """Which team can fix which bias (section 5.1 of the source), and what this test found of each: a row per group and source.

    The algorithm's bias is what the pooled gap tells of; of people's bias the test is silent. "found" is beyond chance once all
    groups and slices are counted; "cannot tell" where there is no test.
    """
    names = ("group", "source", "found", "estimate", "low", "high", "p_adjusted", "change_scores", "change_product")
    columns: dict[str, list[Any]] = {name: [] for name in (*by, *names)}
    for r in rows:
        if r["metric"] != "pooled_gap" or r["group"] in (None, reference):
            continue
        p = float(r.get("p_adjusted", math.nan))
        told = "cannot tell" if math.isnan(p) else "found" if p < 1 - level else "not found"
        gap = [r["estimate"], r["low"], r["high"], p]
        nothing = [math.nan] * len(gap)
        for made in (
            [r["group"], "algorithm", told, *gap, "works", "does not work"],
            [r["group"], "people", "not tested", *nothing, "does not work", "works"],
        ):
            for name, value in zip((*by, *names), [*(r[b] for b in by), *made], strict=True):
                columns[name].append(value)
    return columns


OWN = ("scope", "groups", "bins", "clusters", "joint_test")
"""What differs from slice to slice."""


def of_slices(by: Sequence[str], labels: Sequence[Sequence[Any]], facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all slices share, and what each has of its own; everything where there are no slices."""
    if not by:
        return dict(facts[0])
    common = next((f for f in facts if "kind" in f), facts[0] if facts else {})
    each = {slice_words(by, label): {k: f[k] for k in OWN if k in f} for label, f in zip(labels, facts, strict=True)}
    shared = {k: v for k, v in common.items() if k not in OWN}
    family = "Holm over the gaps of all slices whose cells are not small; joint tests and pooled gaps are families of their own"
    return shared | {"family": family, "slices": each}
