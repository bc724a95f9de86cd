"""Outcomes at equal score in a sentence, and what giving the slots again would change."""

from __future__ import annotations

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import word
from evenhand.report.words.headlines import Verdict, interval, is_known, judges, level_of
from evenhand.report.words.sentences_outcome import beyond_chance, gap_size, gap_text
from evenhand.report.words.text import number


@judges("outcome_test")
def _outcome(findings: Findings) -> Verdict | None:
    """The widest gap at equal score that chance does not explain; else how wide a gap would have been found."""
    level, reference = level_of(findings), findings.words.get("reference", "the reference")
    gaps = [
        r
        for r in findings.rows()
        if r["metric"] == "pooled_gap" and r["group"] != reference and is_known(r["estimate"])
    ]
    told = [r for r in gaps if "small_cell" not in (r["note"] or "")]
    beyond = [r for r in told if read_number(r.get("p_adjusted")) < 1 - level]
    if beyond:
        row = max(beyond, key=lambda r: abs(r["estimate"]))
        side, judged = ("higher", "under-rates") if row["estimate"] > 0 else ("lower", "over-rates")
        outcome = word(findings, "outcome").replace("_", " ")
        what = f"the {outcome} rate" if findings.provenance.get("outcomes") else outcome
        where = findings.slice_label(row)
        says = (
            f"At equal score{f' in {where}' if where else ''}, {what} is "
            f"{gap_text(findings, abs(row['estimate']), few=True)} {side} for {row['group']} than for {reference}: "
            f"the score {judged} {row['group']}."
        )
        return Verdict(says, interval(row, level, lambda v: gap_size(findings, v, few=True)), row=row)
    seen = [read_number(r.get("detectable")) for r in told if is_known(r.get("detectable"))]
    if len(told) < len(gaps) or not seen or len(seen) < len(told):
        return None
    found = gap_text(findings, max(seen), few=True)
    return Verdict(
        f"At equal score no group was found to do better or worse than {reference}; a gap of {found} was likely to be found."
    )


@judges("counterfactual")
def _counterfactual(findings: Findings) -> Verdict | None:
    """The group that would gain most slots, or places, by more than chance."""
    for metric, better, of in (("slots_gained", 1, "slots"), ("mean_rank_change", -1, "places further up on average")):
        rows = [r for r in findings.rows() if r["metric"] == metric and is_known(r["estimate"])]
        sure = [r for r in rows if beyond_chance(findings, r)]
        if sure:
            most = max(sure, key=lambda r: better * r["estimate"])
            size = better * most["estimate"]
            verb = "hold" if metric == "slots_gained" else "stand"
            if size <= 0:
                continue
            much = f"{number(round(size, 1))} more {of}" if metric == "slots_gained" else f"{size:.1f} {of}"
            return Verdict(f"Without the bias, {most['group']} would {verb} {much}, more than chance gives.", row=most)
    return Verdict("Without the bias no group would gain more than chance alone gives.")
