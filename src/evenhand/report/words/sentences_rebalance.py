"""Sentences of a rebalancing: what more even exposure costs, on held-out requests where there are some."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.intervals import interval_in_brackets
from evenhand.report.words.sentences import Row, SentenceWriter, sentence
from evenhand.report.words.text import number, percent, percent_like

REQUESTS = {"learned": "the requests it was learned from", "held_out": "held-out requests"}

UNEVEN = {"gini": "Gini index of exposure", "target_distance": "distance from the target shares"}
"""Metrics of evenness in words."""


def evenness_metric(findings: Findings) -> str:
    """The metric of evenness: the distance from target shares where there are some, else the Gini index."""
    return "target_distance" if "target_distance" in findings.metrics() else "gini"


def _lead(row: Row) -> str:
    """The lists that a row is about."""
    requests = REQUESTS.get(str(row["on"]), str(row["on"]))
    if row["by_means"] == "served":
        return f"As served, on {requests}: "
    strength = read_number(row["strength"])
    if strength == 0:
        return f"As ranked, on {requests}: "
    return f"With the {row['by_means']} of strength {strength:g}, on {requests}: "


class RebalanceSentences(SentenceWriter, audit="rebalance"):
    """The cost of more even exposure."""

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """One row as a sentence that begins with the lists it is about."""
        if not math.isnan(read_number(row["estimate"])) and (text := _own_sentence(findings, row, level)):
            return _lead(row) + text
        words = {**findings.words, "unit": findings.words.get("holder", "provider")}  # who holds the exposure
        text = sentence(Findings(findings.audit, findings.question, (), findings.columns, words=words), row, level)
        return _lead(row) + text[0].lower() + text[1:]

    def key_sentences(self, findings: Findings) -> list[str]:
        """For each strength, the relevance that is kept and the evenness that is gained."""
        lines = []
        served = [r for r in findings.rows() if r["by_means"] == "served" and r["metric"] == "attainable_gini"]
        if served:
            lines.append(f"As served: {_attainable(read_number(served[-1]['estimate']), _served_gini(findings))}")
        steps, uneven = frontier(findings), UNEVEN[evenness_metric(findings)]
        return lines + [
            f"Strength {step.strength:g} keeps {percent(step.relevance)} of the relevance and moves the {uneven} from "
            f"{number(steps[0].uneven)} to {number(step.uneven)}, on {step.requests}."
            for step in steps[1:]
        ]


def _own_sentence(findings: Findings, row: Row, level: float) -> str:
    """The sentence of a metric that has another one here than on its card; empty for the others."""
    metric, estimate, note = row["metric"], read_number(row["estimate"]), row["note"] or ""
    interval = interval_in_brackets(row, level, number if metric == "target_distance" else percent_like(estimate))
    if metric == "duality_gap":
        caution = " (the search has not converged: pass more iterations)" if "not_converged" in note else ""
        return f"no policy is better by more than {number(estimate)} in what is maximised{caution}."
    if metric == "attainable_gini":
        return _attainable(estimate, _served_gini(findings))
    if metric == "target_distance":
        nearest = "; the candidates do not allow the target, and this is the nearest found"
        reach = nearest if "out_of_reach" in note else ""
        return f"shares of exposure are {number(estimate)} away from the target{interval}{reach}."
    if metric == "share":
        reach = "; more than the candidates allow" if "out_of_reach" in note else ""
        aim = percent(read_number(row["ideal"]))
        return f"{row['group']} gets {percent(estimate)} of all exposure{interval}; {aim} was aimed at{reach}."
    kinds = {"ndcg_standard": " (standard nDCG)", "ndcg_relevance": " by judgments"}
    if metric in kinds:
        return f"lists keep {percent(estimate)} of the gain of the best order{kinds[metric]}{interval}."
    return ""


@dataclass(frozen=True, slots=True)
class Step:
    """One policy: the relevance it keeps, how uneven it leaves exposure, and on which requests."""

    strength: float
    relevance: float
    uneven: float
    requests: str


def frontier(findings: Findings) -> list[Step]:
    """The policies from "as ranked" to the strongest, on held-out requests where there are some."""
    rows = {(r["strength"], r["on"], r["by_means"], r["metric"]): r for r in findings.rows()}
    on, metric = "held_out" if any(key[1] == "held_out" for key in rows) else "learned", evenness_metric(findings)
    steps = []
    for strength in sorted({key[0] for key in rows if key[0] is not None}):
        ndcg, uneven = rows.get((strength, on, "policy", "ndcg")), rows.get((strength, on, "policy", metric))
        if ndcg is not None and uneven is not None:
            step = Step(strength, read_number(ndcg["estimate"]), read_number(uneven["estimate"]), REQUESTS[on])
            steps.append(step)
    return steps if steps and steps[0].strength == 0 else []


def _served_gini(findings: Findings) -> float:
    rows = (r for r in findings.rows() if r["by_means"] == "served" and r["metric"] == "gini")
    return next((read_number(r["estimate"]) for r in rows), math.nan)


def _attainable(attainable: float, served: float) -> str:
    """The Gini index that the same relevance allows, beside the one served."""
    if not attainable < served - 5e-4:
        return f"no policy found is more even at the same relevance than the Gini index of {number(served)} that is served."
    return f"the same relevance allows a Gini index of {number(attainable)} where it is {number(served)}."
