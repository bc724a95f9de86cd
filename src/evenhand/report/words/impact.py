"""Selection rates in words: rates as shares, ratios as claims that a test bears out, or that none does."""

from __future__ import annotations

import math
from collections.abc import Callable

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.headlines import Headline, headline, interval
from evenhand.report.words.intervals import interval_in_brackets
from evenhand.report.words.labels import Row, confidence_level
from evenhand.report.words.sentences import SentenceWriter, both_p
from evenhand.report.words.text import number, percent


@headline("impact")
def _impact(findings: Findings) -> Headline | None:
    ratios = [r for r in findings.rows() if r["metric"] == "impact_ratio" and (c := findings.claim(r)) and c.made]
    if not ratios:
        return Headline(
            "No category is selected significantly less often than the one with the highest rate in the data."
        )
    lowest = min(ratios, key=lambda r: float(r["estimate"]))
    text = f"{lowest['group']} is selected {number(float(lowest['estimate']), 2)} times as often as {lowest['versus']}."
    return Headline(text, interval(lowest, confidence_level(findings), lambda x: number(x, 2)), row=lowest)


class _ImpactSentences(SentenceWriter, audit="impact"):
    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        lead = f"By {row['category']}: {row['group']}"
        if row["note"] == "suppressed":
            return (
                f"{lead} is suppressed: it, or a category that it would give away, has fewer candidates than min_units."
            )
        if math.isnan(read_number(row["estimate"])):
            return super().sentence(findings, row, level)
        if row["metric"] == "selection_rate":
            return f"{lead}: {_shown(row, level, percent)} selected, {row['selected']:,.0f} of {row['units']:,.0f} candidates."
        if row["group"] == row["versus"]:
            return f"{lead} has the highest rate in the data; ratios are to it."
        claim = findings.claim(row)
        verdict = f" {claim.text}{both_p(findings, claim)}." if claim else ""
        return f"{lead}: impact ratio to {row['versus']} {_shown(row, level, lambda x: number(x, 3))}.{verdict}"


def _shown(row: Row, level: float, text: Callable[[float], str]) -> str:
    """The estimate with its interval."""
    return f"{text(read_number(row['estimate']))}{interval_in_brackets(row, level, text)}"
