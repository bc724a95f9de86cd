"""Sentences of a change taken apart, and of what followers, wiring and ranking make of inequality."""

from __future__ import annotations

import math

from evenhand.findings import Findings, read_number
from evenhand.report.words.comparisons import NOT_SIGNIFICANT, difference_text, significance
from evenhand.report.words.phrases import distinct_texts, metric_title, value_format
from evenhand.report.words.sentences import Headline, SentenceWriter, headline
from evenhand.report.words.text import (
    Row,
    capitalized,
    confidence_level,
    first_reason,
    interval_in_brackets,
    is_finite,
    number,
    plural,
    signed,
    slice_lead,
    word,
)

ROBUST = ("without_largest", "without_top_1%")
KINDS = dict.fromkeys(("entry", "exit", "stayed"), "units")
"""Parts that are kinds of units: one way to split a change."""


class ExplainSentences(SentenceWriter, audit="explain"):
    """The change, its parts, and the change without those that it goes with most."""

    def sentences(self, findings: Findings) -> list[str]:
        """The change, every part that is one, and one sentence where the arms share no unit."""
        level = confidence_level(findings)
        rows = [r for r in _distinct_rows(findings) if read_number(r["estimate"]) or r["part"] in ("change", *ROBUST)]
        return [*(self.sentence(findings, r, level) for r in rows), *_for_all(findings)]

    def key_sentences(self, findings: Findings) -> list[str]:
        """The change, every largest part that is one, and the change without those that it goes with most."""
        level = confidence_level(findings)
        rows = [r for r in _distinct_rows(findings) if r["part"] in ("change", *ROBUST) and is_finite(r["estimate"])]
        largest = [f"{capitalized(text)}." for text in _largest_parts(findings)]
        lines = [self.sentence(findings, r, level) for r in rows]
        return [*lines[:1], *largest, *lines[1:], *_for_all(findings)]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """The change with both values, or a part with its interval."""
        show, part = value_format(row["metric"]), row["part"]
        what = name_of(findings, row)
        if math.isnan(read_number(row["estimate"])):
            return f"{what}: {first_reason(row['note'], 'undefined')}."
        if part == "change":
            sides = distinct_texts(row["metric"], row["control_value"], row["treatment"])
            both = f"{sides[0]} in {word(findings, 'control')} and {sides[1]} in {word(findings, 'arm')}"
            tested = ", ".join(filter(None, [difference_text(findings, row), significance(findings, row)]))
            return f"{metric_title(row['metric'])} is {both}: {tested}."
        if part in ROBUST:
            tested = ", ".join(filter(None, [difference_text(findings, row), significance(findings, row)]))
            return f"{what}: {tested}."
        ends = interval_in_brackets(row, level, lambda v: signed(v, show))
        return f"Of the change, {signed(row['estimate'], show)} comes from {what}{ends}."


def name_of(findings: Findings, row: Row) -> str:
    """A part of the change in words."""
    units, moved = plural(word(findings, "unit")), _first_mover(findings)
    names = {
        "change": "Change", "volume": "the different volume alone", "entry": f"{units} that entered", "exit": f"{units} that left",
        "stayed": f"{units} that stayed", "source": f"{word(findings, 'source')} {row['group']}",
        "group": f"{word(findings, 'group')} {row['group']}",
        ROBUST[0]: f"Without the {word(findings, 'unit')} that it goes with most{moved}",
        ROBUST[1]: f"Without the 1% of {units} that it goes with most",
    }  # fmt: skip
    return names[str(row["part"])]


def _largest_parts(findings: Findings) -> list[str]:
    """The largest part of each way to split the change, where that is more than one part."""
    parts = [KINDS.get(r["part"], r["part"]) for r in findings.rows() if read_number(r["estimate"])]
    ways = [(c.text, KINDS.get(c.where["part"], c.where["part"])) for c in findings.claims if c.direction == "most"]
    return [text for text, way in ways if parts.count(way) > 1]


def _first_mover(findings: Findings) -> str:
    """The unit that the change goes with most and its two amounts; nothing where nobody may be named."""
    movers = findings.curves.get("movers", {})
    if not movers.get("unit"):
        return ""
    before, after = (number(movers[name][0]) for name in ("before", "after"))
    amounts = f"{before} in {word(findings, 'control')}, {after} in {word(findings, 'arm')}"
    return f", {movers['unit'][0]} ({amounts})"


def _distinct_rows(findings: Findings) -> list[Row]:
    """Rows; where 1% of the units are one, the change is without the same one and said once."""
    rows = list(findings.rows())
    without = {r["part"]: r["estimate"] for r in rows}
    return [r for r in rows if r["part"] != ROBUST[1] or r["estimate"] != without.get(ROBUST[0])]


def _for_all(findings: Findings) -> list[str]:
    if "arms" not in findings.provenance:
        return []
    return [f"No {word(findings, 'unit')} is in both arms, so there are no parts. eh.experiment compares such arms."]


@headline("explain")
def _explain(findings: Findings) -> Headline | None:
    """The change and its largest part; that it rests on a few units, where it does."""
    rows = {r["part"]: r for r in findings.rows() if r["part"] in ("change", *ROBUST) and is_finite(r["estimate"])}
    if "change" not in rows:
        return None
    change = rows["change"]
    values = distinct_texts(change["metric"], change["control_value"], change["treatment"])
    title, doubt = metric_title(change["metric"]), capitalized(difference_text(findings, change))
    sides = f"from {values[0]} in {word(findings, 'control')} to {values[1]} in {word(findings, 'arm')}"
    claim = findings.claim(change)
    if claim is None or not claim.made:
        tested = "No statistically significant change" if claim else "Change"
        return Headline(f"{tested} of the {title}: {sides}.", doubt, row=change)
    verb = "rose" if claim.direction == "higher" else "fell"
    for part, on in zip(
        ROBUST, (f"one {word(findings, 'unit')}", f"1% of {plural(word(findings, 'unit'))}"), strict=True
    ):
        fewer = findings.claim(rows[part]) if part in rows else None
        if fewer is not None and fewer.direction != claim.direction:
            rest = "the other way" if fewer.made else NOT_SIGNIFICANT
            return Headline(
                f"The change of the {title} ({sides}) rests on {on}: without {'it' if part == ROBUST[0] else 'them'}, it is "
                f"{signed(rows[part]['estimate'], value_format(change['metric']))}, {rest}.",
                doubt, row=change,
            )  # fmt: skip
    largest = "".join(f"; {text}" for text in _largest_parts(findings))
    return Headline(f"{title} {verb} {sides}{largest}.", doubt, row=change)


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
