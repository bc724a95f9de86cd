"""Sentences of rankings and lists: exposure and its target, shares near the top, relevant pairs, what evenness costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.claims import Claim
from evenhand.findings import Findings, read_number
from evenhand.report.words.sentences import Headline, SentenceWriter, headline, row_cautions, sentence
from evenhand.report.words.text import (
    Row,
    capitalized,
    confidence_level,
    counted,
    has_interval,
    interval,
    interval_in_brackets,
    interval_text,
    is_finite,
    named_slice,
    number,
    percent,
    points,
    rounded_percent,
)


def _lead(findings: Findings, point: Mapping[str, Any]) -> str:
    where = named_slice(findings, point)
    return f"For {where}, " if where else ""


def leading_claim(findings: Findings, metric: str) -> Claim | None:
    """The claim of this kind with the smallest p, or the first that could be made."""
    claims = [claim for claim in findings.claims if claim.metric == metric]
    return min(claims, key=lambda claim: (not claim.made, claim.p if claim.made else 0.0), default=None)


def _claimed(findings: Findings, claim: Claim) -> str:
    """A claim as a sentence, with its slice, and in how many slices such a claim is made."""
    lead = _lead(findings, claim.where)
    alike = [c for c in findings.claims if c.metric == claim.metric]
    slices = {tuple(c.where.values()) for c in alike}
    significant = {tuple(c.where.values()) for c in alike if c.made}
    count = ""
    if len(slices) > 1:
        many = f"{len(significant):,}" if significant else "none"
        count = f" Statistically significant in {many} of the {len(slices):,} slices."
    return f"{lead}{claim.text}.{count}" if lead else f"{_sentence(claim)}{count}"


def _sentence(claim: Claim) -> str:
    """The clause of a claim as a sentence; a label at its head stays as it is written."""
    return f"{claim.text if claim.text.startswith(str(claim.group)) else capitalized(claim.text)}."


class _PrefixSentences(SentenceWriter, audit="prefix"):
    """Sentences of the cards, and who stands nearer to the top."""

    def sentences(self, findings: Findings) -> list[str]:
        leads = [(_lead(findings, claim.where), claim) for claim in findings.claims]
        claims = [f"{lead}{claim.text}." if lead else _sentence(claim) for lead, claim in leads]
        return [*self.row_sentences(findings), *claims, *row_cautions(findings)]


@headline("exposure")
def _exposure(findings: Findings) -> Headline | None:
    claim = leading_claim(findings, "exposure")
    curve = points(findings, "exposure")
    if claim is None:
        return _untested_exposure(findings, curve)
    point = next((p for p in curve if claim.is_about({**p, "metric": "exposure"})), None)
    bounds = "" if point is None else interval(findings, point)
    return Headline(_claimed(findings, claim), bounds, where="" if point is None else point["where"])


def _untested_exposure(findings: Findings, curve: Sequence[Row]) -> Headline | None:
    """Share and target of the protected group (or the first), where nothing was tested."""
    defined = [p for p in curve if is_finite(p["exposure"]) and is_finite(p["target"])]
    protected = str((findings.provenance.get("plan") or {}).get("protected"))
    point = next((p for p in defined if p["group"] == protected), defined[0] if defined else None)
    if point is None:
        return None
    text = (
        f"{_lead(findings, point)}{point['group']} gets {rounded_percent(point['exposure'])} of the exposure; its target is "
        f"{rounded_percent(point['target'])}."
    )
    return Headline(text, interval(findings, point), where=point["where"])


@headline("prefix")
def _prefix(findings: Findings) -> Headline | None:
    """Which group stands nearer to or further from the top than random order gives, and its share there."""
    claim = leading_claim(findings, "favoured")
    if claim is None:
        return None
    curve = in_slice(points(findings, "prefix"), claim)
    point = prefix_point(curve, str(claim.group), claim.direction)
    shares, band = "", ""
    if point is not None:
        shares = (
            f" It makes up {rounded_percent(point['share'])} of the top {point['rank']} and {rounded_percent(point['overall'])} "
            "of the whole list."
        )
        if is_finite(point["low"]) and rounded_percent(point["low"]) != rounded_percent(point["high"]):
            band = f"Random order gives {interval_text(point['low'], point['high'], rounded_percent)}"
    return Headline(f"{_claimed(findings, claim)}{shares}", band, where=curve[0]["where"] if curve else "")


def in_slice(curve: Sequence[Row], claim: Claim) -> list[Row]:
    return [p for p in curve if all(str(p[name]) == str(value) for name, value in claim.where.items())]


def prefix_point(curve: Sequence[Row], group: str, direction: str = "none") -> Row | None:
    """The share of a group in the top 10, 5, 3, ... of lists at least twice as long, on the side that the claim names."""
    ranks = [p for p in curve if p["group"] == group and is_finite(p["share"])]
    depth = max((p["rank"] for p in ranks), default=0)
    for top in (10, 5, 3, 2, 1):
        for p in ranks:
            side = "higher" if p["share"] > p["overall"] else "lower"
            if p["rank"] == top and 2 * top <= depth and direction in ("none", side):
                return p
    return None


@headline("pairwise")
def _pairwise(findings: Findings) -> Headline | None:
    """How often the more relevant item ranks higher, if it is of the protected group and if it is of the other."""
    claim = leading_claim(findings, "inter_acc")
    if claim is None:
        return None
    rows = [r for r in findings.rows() if claim.is_about({**r, "metric": "inter_acc", "group": claim.group})]
    protected, other = str(claim.group), findings.words.get("versus", "")
    pairs = {f"{protected}>{other}": protected, f"{other}>{protected}": other}
    ends = [
        f"{name} {interval(findings, r)}" for pair, name in pairs.items() for r in rows if r["group"] == pair and has_interval(r)
    ]  # fmt: skip
    return Headline(_claimed(findings, claim), "; ".join(ends))


@headline("recommender")
def _recommender(findings: Findings) -> Headline | None:
    """How far the lists of two groups differ, and with permuted labels: where the claim is made, the pair that exceeds it most."""
    rows = [r for r in findings.rows() if r["metric"] == "exposure_tv" and r["group"] and is_finite(r["estimate"])]
    tested = [(r, claim) for r in rows if (claim := findings.claim(r)) is not None]
    significant = [r for r, claim in tested if claim.made]
    if not rows or (tested and not significant and len(tested) > 1):
        claim = next((c for c in findings.claims if c.made), None)
        if claim is not None:
            return Headline(f"{capitalized(claim.text)}.")
        return Headline("No two groups are shown significantly different items.") if rows else None
    row = max(significant or rows[:1], key=lambda r: r["estimate"] - read_number(r["chance"]))
    share, chance = rounded_percent(row["estimate"]), ""
    if is_finite(row["chance"]):
        chance = f"with permuted labels {rounded_percent(row['chance'])}"
    text = f"{share} of what {row['protected']} and {row['versus']} are shown differs; {chance}"
    if tested and not significant:
        text = f"{tested[0][1].text}: {share} differs, {chance}"
    text = capitalized(f"{_lead(findings, row)}{text}".rstrip("; "))
    return Headline(f"{text}.", interval(findings, row), "exposure_tv", row=row)


class _RecommenderSentences(SentenceWriter, audit="recommender"):
    def sentence(self, findings: Findings, row: Row) -> str:
        claim = findings.claim(row)
        unclear = " Not statistically significant." if claim is not None and not claim.made else ""
        return sentence(findings, row) + unclear


REQUESTS = {"learned": "training requests", "held_out": "held-out requests"}
UNEVEN = {"gini": "Gini index of exposure", "target_distance": "distance from the target shares"}
"""Metrics of evenness in words."""

LEFT_OUT = {"ndcg": "without a score above zero", "ndcg_relevance": "without a relevant item"}
"""Requests that a mean leaves out, by metric."""


def evenness_metric(findings: Findings) -> str:
    """The metric of evenness: the distance from target shares where there are some, else the Gini index."""
    return "target_distance" if "target_distance" in findings.metrics() else "gini"


class RebalanceSentences(SentenceWriter, audit="rebalance"):
    def sentence(self, findings: Findings, row: Row) -> str:
        lists = f"With the {row['by_means']} of strength {read_number(row['strength']):g}"
        if row["by_means"] == "served":
            lists = "As served"
        elif read_number(row["strength"]) == 0:
            lists = "As ranked"
        text = "" if math.isnan(read_number(row["estimate"])) else _own_sentence(findings, row)
        if not text:
            words = {**findings.words, "unit": findings.words.get("holder", "provider")}  # who gets the exposure
            level = {"level": confidence_level(findings)}
            plain = Findings(findings.audit, findings.question, (), findings.columns, words=words, provenance=level)
            text = sentence(plain, {**row, "undefined": None})
            if row.get("undefined") and row["metric"] in LEFT_OUT:
                text += f" ({counted(int(row['undefined']), 'request')} {LEFT_OUT[row['metric']]} are left out.)"
        start = text if text[:2].isupper() else text[0].lower() + text[1:]
        return f"{lists}, on {REQUESTS.get(str(row['on']), str(row['on']))}: {start}"

    def key_sentences(self, findings: Findings) -> list[str]:
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


def _own_sentence(findings: Findings, row: Row) -> str:
    """The sentence of a metric that has another one here than on its card; empty for the others."""
    metric, estimate, note = row["metric"], read_number(row["estimate"]), row["note"] or ""
    show = number if metric == "target_distance" else lambda v: percent(v, estimate)
    interval = interval_in_brackets(findings, row, show)
    if metric == "duality_gap":
        caution = " (the search has not converged: pass more iterations)" if "not_converged" in note else ""
        return f"no policy improves the objective by more than {number(estimate)}{caution}."
    if metric == "attainable_gini":
        return _attainable(findings, estimate)
    if metric == "target_distance":
        return f"distance from the target shares: {number(estimate)}{interval}."
    if metric == "ndcg_standard":
        return f"lists keep {percent(estimate)} of the best possible gain (standard nDCG){interval}."
    return ""


def _attainable(findings: Findings, attainable: float) -> str:
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
