"""What an outcome test could claim, and which team can act on it: one claim per question, slice and group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.audits.assemble import Points, as_columns
from evenhand.claims import Candidate, Claim, Direction, adjusted_detectable, direction_of
from evenhand.findings import Row, number
from evenhand.report.words.outcome import power_text

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

    def candidate(r: Row, text: str, otherwise: str, untested: str, direction: Direction | None = None) -> Candidate:
        """`otherwise` where the test does not bear the text out, `untested` where there is no test."""
        otherwise = f"{untested} cannot be told" if math.isnan(_p(r)) else otherwise
        where = {name: r[name] for name in by} | ({"bin": r["bin"]} if r.get("bin") else {})
        return Candidate(
            _p(r), direction or direction_of(r["estimate"]), text, otherwise, r["metric"], r["group"], where
        )

    def gap(r: Row) -> Candidate:
        rated, size = (
            "under-rates" if r["estimate"] > 0 else "over-rates",
            adjusted_detectable(number(r.get("detectable")), tested, level),
        )
        power = "" if math.isnan(size) else f"; {power_text(size, points=points)}"
        otherwise = f"no significant gap between {r['group']} and {reference} at equal score{at}{power}"
        untested = f"whether the score under- or over-rates {r['group']}{at}"
        return candidate(r, f"the score {rated} {r['group']}{at}", otherwise, untested)

    def test(r: Row) -> Candidate:
        text = f"at equal score{at}, the groups' outcomes differ"
        otherwise = f"at equal score{at}, no significant difference between the groups' outcomes"
        return candidate(r, text, otherwise, f"whether the groups' outcomes differ at equal score{at}", "differs")

    def fall(r: Row) -> Candidate:
        text = f"outcomes are lower in bin {r['estimate']:.0f} than in the first: they do not rise with the score"
        otherwise, untested = (
            "no significant fall of outcomes as the score rises",
            "whether outcomes fall as the score rises",
        )
        return candidate(r, text, otherwise, untested, "lower")

    def rate(r: Row) -> Candidate:
        often, among = "more" if r["estimate"] > 0 else "less", f"among those {AMONG[r['metric']]}"
        text = f"{among}, {r['group']} are treated {often} often than {reference}"
        otherwise = f"{among}, no significant difference in how often {r['group']} and {reference} are treated"
        return candidate(r, text, otherwise, f"{among}, whether {r['group']} or {reference} are treated more often")

    families = ((test, tests), (gap, deciding), (fall, falls), (rate, rates))
    return {i: of_row(r) for of_row, members in families for i, r in members.items()}


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
    """Whether a row is the gap by which this kind of test decides."""
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
        points.append(
            [
                *where,
                r["group"],
                "algorithm",
                answer,
                *gap,
                adjusted_detectable(number(r.get("detectable")), tested, level),
                "works",
                "does not work",
            ]
        )
        points.append([*where, r["group"], "people", "not tested", *missing, "does not work", "works"])
    names = ("estimate", "low", "high", "p_adjusted", "detectable", "change_scores", "change_product")
    return as_columns((*by, "group", "source", "found", *names), points)
