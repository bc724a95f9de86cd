"""The headline of selection rates: the lowest ratio that a test bears out, or that none does."""

from __future__ import annotations

from evenhand.findings import Findings
from evenhand.report.words.headlines import Headline, headline, interval
from evenhand.report.words.labels import confidence_level
from evenhand.report.words.text import number


@headline("impact")
def _impact(findings: Findings) -> Headline | None:
    ratios = [r for r in findings.rows() if r["metric"] == "impact_ratio" and (c := findings.claim(r)) and c.made]
    if not ratios:
        return Headline("No category is selected significantly less often than the one with the highest rate.")
    lowest = min(ratios, key=lambda r: float(r["estimate"]))
    kind = [r for r in findings.rows() if r["metric"] == "selection_rate" and r["category"] == lowest["category"]]
    highest = max(kind, key=lambda r: float(r["estimate"]))["group"]
    text = f"{lowest['group']} is selected {number(float(lowest['estimate']), 2)} times as often as {highest}, which has the highest rate."
    return Headline(text, interval(lowest, confidence_level(findings), lambda x: number(x, 2)), row=lowest)
