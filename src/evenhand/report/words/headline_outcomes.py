"""Headlines of the outcome test and of its counterfactual."""

from __future__ import annotations

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import word
from evenhand.report.words.headlines import Headline, headline, interval, is_finite
from evenhand.report.words.sentences_outcome import beyond_chance, gap_size, gap_text
from evenhand.report.words.text import confidence_level, number


@headline("outcome_test")
def _outcome(findings: Findings) -> Headline | None:
    """The widest significant gap at equal score; else the gap that would have been detected."""
    level, reference = confidence_level(findings), findings.words.get("reference", "the reference")
    gaps = [
        r
        for r in findings.rows()
        if r["metric"] == "pooled_gap" and r["group"] != reference and is_finite(r["estimate"])
    ]
    large = [r for r in gaps if "small_cell" not in (r["note"] or "")]
    significant = [r for r in large if read_number(r.get("p_adjusted")) < 1 - level]
    if significant:
        row = max(significant, key=lambda r: abs(r["estimate"]))
        side, rated = ("higher", "under-rates") if row["estimate"] > 0 else ("lower", "over-rates")
        outcome = word(findings, "outcome").replace("_", " ")
        what = f"the {outcome} rate" if findings.provenance.get("outcomes") else outcome
        where = findings.slice_label(row)
        text = (
            f"At equal score{f' in {where}' if where else ''}, {what} is "
            f"{gap_text(findings, abs(row['estimate']), few=True)} {side} for {row['group']} than for {reference}: "
            f"the score {rated} {row['group']}."
        )
        return Headline(text, interval(row, level, lambda v: gap_size(findings, v, few=True)), row=row)
    detectable = [read_number(r.get("detectable")) for r in large if is_finite(r.get("detectable"))]
    if len(large) < len(gaps) or not detectable or len(detectable) < len(large):
        return None
    size = gap_text(findings, max(detectable), few=True)
    return Headline(
        f"At equal score no group was found to do better or worse than {reference}; a gap of {size} was likely to be found."
    )


@headline("counterfactual")
def _counterfactual(findings: Findings) -> Headline | None:
    """The group that would gain most slots, or ranks, beyond chance."""
    for metric, sign in (("slots_gained", 1), ("mean_rank_change", -1)):
        rows = [r for r in findings.rows() if r["metric"] == metric and is_finite(r["estimate"])]
        most = max((r for r in rows if beyond_chance(findings, r)), key=lambda r: sign * r["estimate"], default=None)
        if most is None or sign * most["estimate"] <= 0:
            continue
        size = sign * most["estimate"]
        slots, ranks = f"hold {number(round(size, 1))} more slots", f"stand {size:.1f} places further up on average"
        gain = slots if metric == "slots_gained" else ranks
        return Headline(f"Without the bias, {most['group']} would {gain}, more than chance gives.", row=most)
    return Headline("Without the bias no group would gain more than chance alone gives.")
