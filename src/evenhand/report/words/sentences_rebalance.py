"""A frontier in plain words: what evenness costs, on requests that nothing was learned from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.sentences import Row, Teller, sentence
from evenhand.report.words.text import interval_words, number, percent

ON = {"learned": "the requests it was learned from", "held_out": "held-out requests"}


UNEVEN = {"gini": "Gini index of exposure", "target_distance": "distance from the target shares"}
"""What evenness is measured by, in words."""


def aimed_at(findings: Findings) -> str:
    """The metric that says how far from even: the distance from target shares where there are some, else the Gini index."""
    return "target_distance" if "target_distance" in findings.metrics() else "gini"


def where(row: Row) -> str:
    """Which lists a row is about."""
    on = ON.get(str(row["on"]), str(row["on"]))
    if row["by_means"] == "served":
        return f"As served, on {on}: "
    strength = read_number(row["strength"])
    if strength == 0:
        return f"As ranked, on {on}: "
    return f"With the {row['by_means']} of strength {strength:g}, on {on}: "


class RebalanceTeller(Teller, audit="rebalance"):
    """What evenness costs."""

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """What one row says, led by the lists that it is about."""
        estimate = read_number(row["estimate"])
        if row["metric"] == "duality_gap" and not math.isnan(estimate):
            caution = (
                " (the search has not converged: pass more iterations)"
                if "not_converged" in (row["note"] or "")
                else ""
            )
            return f"{where(row)}no policy is better by more than {number(estimate)} in what is maximised{caution}."
        if row["metric"] == "attainable_gini" and not math.isnan(estimate):
            return where(row) + _room(estimate, _served_gini(findings))
        if row["metric"] == "target_distance" and not math.isnan(estimate):
            reach = (
                "; the candidates do not allow the target, and this is the nearest found"
                if "out_of_reach" in (row["note"] or "")
                else ""
            )
            return f"{where(row)}shares of exposure are {number(estimate)} away from the target{interval_words(row, level)}{reach}."
        if row["metric"] == "share" and not math.isnan(estimate):
            reach = "; more than the candidates allow" if "out_of_reach" in (row["note"] or "") else ""
            return (
                f"{where(row)}{row['group']} gets {percent(estimate)} of all exposure{interval_words(row, level, as_percent=True)}; "
                f"{percent(read_number(row['ideal']))} was aimed at{reach}."
            )
        kinds = {"ndcg_standard": " (standard nDCG)", "ndcg_relevance": " by judgments"}
        if row["metric"] in kinds and not math.isnan(estimate):
            said = interval_words(row, level, as_percent=True)
            return (
                f"{where(row)}lists keep {percent(estimate)} of the gain of the best order{kinds[row['metric']]}{said}."
            )
        words = {**findings.words, "unit": findings.words.get("holder", "provider")}  # who holds the exposure
        plain = Findings(findings.audit, findings.question, (), findings.columns, words=words)
        told = sentence(plain, row, level)
        return where(row) + told[0].lower() + told[1:]

    def headlines(self, findings: Findings) -> list[str]:
        """For each strength, what is kept and what is gained."""
        lines = []
        served = [r for r in findings.rows() if r["by_means"] == "served" and r["metric"] == "attainable_gini"]
        if served:
            lines.append(f"As served: {_room(read_number(served[-1]['estimate']), _served_gini(findings))}")
        found, uneven = frontier(findings), UNEVEN[aimed_at(findings)]
        return lines + [
            f"Strength {step.strength:g} keeps {percent(step.kept)} of the relevance and moves the {uneven} from "
            f"{number(found[0].uneven)} to {number(step.uneven)}, on {step.on}."
            for step in found[1:]
        ]


@dataclass(frozen=True, slots=True)
class Step:
    """One policy: the relevance it keeps, how uneven it leaves exposure, and the requests that say so."""

    strength: float
    kept: float
    uneven: float
    on: str


def frontier(findings: Findings) -> list[Step]:
    """The policies from "as ranked" to the strongest, on requests that nothing was learned from where there are some."""
    rows = {(r["strength"], r["on"], r["by_means"], r["metric"]): r for r in findings.rows()}
    on, uneven = "held_out" if any(key[1] == "held_out" for key in rows) else "learned", aimed_at(findings)
    found = []
    for strength in sorted({key[0] for key in rows if key[0] is not None}):
        kept, left = rows.get((strength, on, "policy", "ndcg")), rows.get((strength, on, "policy", uneven))
        if kept is not None and left is not None:
            found.append(Step(strength, read_number(kept["estimate"]), read_number(left["estimate"]), ON[on]))
    return found if found and found[0].strength == 0 else []


def _served_gini(findings: Findings) -> float:
    rows = (r for r in findings.rows() if r["by_means"] == "served" and r["metric"] == "gini")
    return next((read_number(r["estimate"]) for r in rows), math.nan)


def _room(attainable: float, now: float) -> str:
    """What the same relevance allows, beside what there is."""
    if not attainable < now - 5e-4:
        return (
            f"no policy found is more even at the same relevance than the Gini index of {number(now)} that is served."
        )
    return f"the same relevance allows a Gini index of {number(attainable)} where it is {number(now)}."
