"""Sentences of a rebalancing: what more even exposure costs, on held-out requests where there are some."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenhand.findings import Findings, read_number
from evenhand.report.words.sentences import Headline, SentenceWriter, headline, sentence
from evenhand.report.words.text import Row, capitalized, counted, interval_in_brackets, number, percent, rounded_percent

REQUESTS = {"learned": "training requests", "held_out": "held-out requests"}
UNEVEN = {"gini": "Gini index of exposure", "target_distance": "distance from the target shares"}
"""Metrics of evenness in words."""

LEFT_OUT = {"ndcg": "without a score above zero", "ndcg_relevance": "without a relevant item"}
"""Requests that a mean leaves out, by metric."""


def evenness_metric(findings: Findings) -> str:
    """The metric of evenness: the distance from target shares where there are some, else the Gini index."""
    return "target_distance" if "target_distance" in findings.metrics() else "gini"


class RebalanceSentences(SentenceWriter, audit="rebalance"):
    """The cost of more even exposure."""

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """One row as a sentence that begins with the lists it is about."""
        lists = f"With the {row['by_means']} of strength {read_number(row['strength']):g}"
        if row["by_means"] == "served":
            lists = "As served"
        elif read_number(row["strength"]) == 0:
            lists = "As ranked"
        text = "" if math.isnan(read_number(row["estimate"])) else _own_sentence(findings, row, level)
        if not text:
            words = {**findings.words, "unit": findings.words.get("holder", "provider")}  # who gets the exposure
            plain = Findings(findings.audit, findings.question, (), findings.columns, words=words)
            text = sentence(plain, {**row, "undefined": None}, level)
            if row.get("undefined") and row["metric"] in LEFT_OUT:
                text += f" ({counted(int(row['undefined']), 'request')} {LEFT_OUT[row['metric']]} are left out.)"
        start = text if text[:2].isupper() else text[0].lower() + text[1:]
        return f"{lists}, on {REQUESTS.get(str(row['on']), str(row['on']))}: {start}"

    def key_sentences(self, findings: Findings) -> list[str]:
        """For each strength, the relevance that is kept and the evenness that is gained."""
        lines = []
        served = [r for r in findings.rows() if r["by_means"] == "served" and r["metric"] == "attainable_gini"]
        if served:
            lines.append(f"As served: {_attainable(findings, read_number(served[-1]['estimate']))}")
        steps, uneven = frontier(findings), UNEVEN[evenness_metric(findings)]
        return lines + [
            f"Strength {step.strength:g} keeps {percent(step.relevance)} of the relevance and moves the {uneven} from "
            f"{number(steps[0].uneven)} to {number(step.uneven)}, on {step.requests}."
            for step in steps[1:]
        ]


def _own_sentence(findings: Findings, row: Row, level: float) -> str:
    """The sentence of a metric that has another one here than on its card; empty for the others."""
    metric, estimate, note = row["metric"], read_number(row["estimate"]), row["note"] or ""
    interval = interval_in_brackets(
        row, level, number if metric == "target_distance" else lambda v: percent(v, estimate)
    )
    if metric == "duality_gap":
        caution = " (the search has not converged: pass more iterations)" if "not_converged" in note else ""
        return f"no policy improves the objective by more than {number(estimate)}{caution}."
    if metric == "attainable_gini":
        return _attainable(findings, estimate)
    if metric == "target_distance":
        reach = "; the target cannot be reached with these candidates, this is the closest found"
        return (
            f"distance from the target shares: {number(estimate)}{interval}{reach if 'out_of_reach' in note else ''}."
        )
    if metric == "share":
        aim = percent(read_number(row["ideal"]))
        reach = ", out of reach with these candidates" if "out_of_reach" in note else ""
        return f"{row['group']} gets {percent(estimate)} of all exposure{interval}; the target was {aim}{reach}."
    if metric == "ndcg_standard":
        return f"lists keep {percent(estimate)} of the best possible gain (standard nDCG){interval}."
    return ""


def _attainable(findings: Findings, attainable: float) -> str:
    """The Gini index that the same relevance allows, and the one served."""
    rows = (r for r in findings.rows() if r["by_means"] == "served" and r["metric"] == "gini")
    served = next((read_number(r["estimate"]) for r in rows), math.nan)
    if not attainable < served - 5e-4:
        return (
            f"no policy found is more even than the served lists (Gini index {number(served)}) at the same relevance."
        )
    return f"the same relevance allows a Gini index of {number(attainable)} instead of {number(served)}."


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


@headline("rebalance")
def _rebalance(findings: Findings) -> Headline | None:
    """The cost and the gain of the strongest policy and of the weakest."""
    points, uneven = frontier(findings), UNEVEN[evenness_metric(findings)]
    if len(points) < 2:
        return None
    as_ranked, *steps = points
    first, last = steps[0], steps[-1]
    text = (
        f"giving up {rounded_percent(max(0.0, 1 - last.relevance))} of the relevance moves the {uneven} from "
        f"{as_ranked.uneven:.2f} to {last.uneven:.2f}"
    )
    if first is not last:
        text += f"; giving up {rounded_percent(max(0.0, 1 - first.relevance))} moves it to {first.uneven:.2f}"
    strengths = f"{last.strength:g}{'' if first is last else f' and {first.strength:g}'}"
    return Headline(f"{capitalized(text)}.", f"At strength {strengths}, on {last.requests}")
