"""Sentences of a network: what followers, wiring and ranking make of the inequality of exposure."""

from __future__ import annotations

import math

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.comparisons import significance
from evenhand.report.words.headlines import Headline, headline, is_finite
from evenhand.report.words.intervals import interval_in_brackets
from evenhand.report.words.labels import Row, slice_lead
from evenhand.report.words.phrases import metric_title, value_format
from evenhand.report.words.sentences import SentenceWriter
from evenhand.report.words.text import capitalized, first_reason, signed

NAMES = {
    "followers": "With a neutral ranking on a rewired graph (numbers of followers alone)",
    "wiring": "Part of who follows whom",
    "ranking": "Part of the ranking",
}


class NetworkSentences(SentenceWriter, audit="network"):
    """The parts of inequality, and what is claimed of wiring and ranking."""

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """A part with its interval, and its claim."""
        show, lead = value_format(row["metric"]), slice_lead(findings, row, without=("part",))
        title, part = metric_title(row["metric"]), row["part"]
        if math.isnan(read_number(row["estimate"])):
            return f"{lead}{title} ({part}) is undefined: {first_reason(row['note'], 'undefined')}."
        if part == "observed":
            return f"{lead}{title} is {show(row['estimate'])}{interval_in_brackets(row, level, show)}."
        if part == "followers":
            return f"{lead}{NAMES[part]}: {show(row['estimate'])}{interval_in_brackets(row, level, show)}."
        ends = interval_in_brackets(row, level, lambda v: signed(v, show))
        parts = [f"{signed(row['estimate'], show)}{ends}", significance(findings, row)]
        return f"{lead}{NAMES[part]}: {', '.join(filter(None, parts))}."


@headline("network")
def _network(findings: Findings) -> Headline | None:
    """The three parts of the first slice, and what is claimed of wiring and ranking."""
    rows = list(findings.rows())[:4]
    if not all(is_finite(r["estimate"]) for r in rows):
        return None
    by_part = {r["part"]: r for r in rows}
    show, title = value_format(rows[0]["metric"]), metric_title(rows[0]["metric"])
    lead = slice_lead(findings, rows[0], without=("part",))
    sizes = " ".join(f"{signed(by_part[p]['estimate'], show)} {p}," for p in ("wiring", "ranking")).rstrip(",")
    text = f"{lead}{title} {show(by_part['observed']['estimate'])} = {show(by_part['followers']['estimate'])} followers, {sizes}"
    claims = [c for c in (findings.claim(by_part[p]) for p in ("ranking", "wiring")) if c is not None]
    texts = "; ".join(c.text for c in claims)
    return Headline(f"{capitalized(text)}{f': {texts}' if texts else ''}.", row=by_part["observed"])
