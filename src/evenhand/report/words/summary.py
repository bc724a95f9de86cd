"""The words of a report: what was found, how far to trust it, what the numbers mean, where they come from."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand.cards import REGISTRY, MetricSpec, parse_metric
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import are_differences, distinct, row_labels, slice_labels, slices_in_words
from evenhand.report.words.headlines import Verdict
from evenhand.report.words.meaning import means
from evenhand.report.words.phrases import card_of, is_share, metric_title, value_text
from evenhand.report.words.sentences import chosen_words, plain_sentence, sentence, sentences, teller
from evenhand.report.words.text import (
    DIRECTION,
    REASONS,
    aside,
    fill,
    left_out,
    number,
    plural,
    short_percent,
    who,
)

FEW = 8
"""Findings that are all said at the top of the page; more are summed up."""

MOST_TERMS = 2
"""Metrics explained on the first screen; the cards below explain all."""

WARNINGS = (
    "heavy_tail",
    "few_receivers",
    "few_at_the_top",
    "few_units",
    "few_requests",
    "few_viewers",
    "part_of_a_unit",
    "no_variation",
    "small_cell",
    "some_undefined",
    "ties_at_edge",
    "suppressed",
)
"""Notes that a reader must know before quoting a number; the others are explained below the table."""


def facts(findings: Findings) -> list[str]:
    """The size of the matter, for the line below the title."""
    if own := teller(findings).facts(findings):
        return own
    found = []
    groups = findings.columns.get("group", [None] * len(findings))
    sizes = list(zip(findings.columns.get("units", []), groups, strict=False))
    whole = [u for u, group in sizes if u is not None and group is None]
    words, units = findings.words, whole or [u for u, _ in sizes if u is not None]
    if "rows" in (scope := findings.provenance.get("scope") or {}):  # units of a bin say nothing of the whole
        units = [scope["rows"]]
    if "unit" in words and units:
        largest, smallest = max(units), min(units)
        many = f"{int(largest):,}" if largest == smallest else f"{int(smallest):,} to {int(largest):,}"
        each = " in each slice" if findings.slices else ""
        found.append(f"{many} {plural(words.get('counted') or words['unit'])}{each}")
    if "amount" in words:
        found.append(str(words["amount"]).replace("_", " "))
    if findings.slices:
        slices = len(set(slice_labels(findings)))
        found.append(f"{slices:,} slice{'s' * (slices != 1)} by {slices_in_words(findings)}")
    if rows := findings.provenance.get("rows"):
        found.append(f"{int(rows):,} rows read")
    return found


def headlines(findings: Findings, leads: Sequence[str] = (), told: Verdict | None = None) -> list[str]:
    """All findings where there are few; elsewhere a sentence per metric, from its lowest to its highest.

    `leads` are what the charts made for this audit say; they come first, and then metrics that have no sentence of their
    own are left to the table. `told` is the sentence above them: what it says is not
    said again, and its slice comes first.
    """
    spoken = told.tells if told else ""
    if own := teller(findings).headlines(findings):
        level, row = float(findings.provenance.get("level", 0.95)), told.row if told else None
        return [line for line in own if row is None or line != teller(findings).sentence(findings, row, level)]
    rows = list(findings.rows())
    if len(findings) <= FEW:
        return [*leads, *_numbers_first(findings, rows, told)]
    if "estimate" not in findings.columns:  # what was measured and what was published, where they differ
        odd = [r for r in rows if r.get("published") and r.get("measured") not in (None, r["published"])]
        return [plain_sentence(r) for r in (odd or rows[:FEW])]
    parts = _by_amount(findings) if "amount" in findings.slices else [findings]  # stars and forks do not share a range
    return [*leads, *(line for part in parts for line in _ranges(part, spoken, worded_only=bool(leads)))]


def _ranges(findings: Findings, spoken: str, *, worded_only: bool) -> list[str]:
    """A sentence per metric, from its lowest to its highest."""
    worded = [m for m in findings.metrics() if (card := card_of(m)) is not None and card.says]
    metrics, rows = worded if worded_only else findings.metrics(), list(findings.rows())
    return [_range(findings, metric, rows) for metric in metrics if metric != spoken]


def _by_amount(findings: Findings) -> list[Findings]:
    """The findings of each amount apart, in its own words."""
    amounts = findings.columns["amount"]
    parts = []
    for amount in distinct(amounts):
        kept = [i for i, other in enumerate(amounts) if other == amount]
        columns = {name: [column[i] for i in kept] for name, column in findings.columns.items() if name != "amount"}
        slices = tuple(name for name in findings.slices if name != "amount")
        parts.append(replace(findings, slices=slices, columns=columns, words={**findings.words, "amount": str(amount)}))
    return parts


def _numbers_first(findings: Findings, rows: list[dict[str, Any]], told: Verdict | None) -> list[str]:
    """Sentences of rows with a number before those that say why there is none; the slice of the verdict first."""
    spoken = sentences(findings)
    if len(spoken) != len(rows):
        return spoken
    metric, slice_ = (told.tells, told.where) if told else ("", "")
    order = [
        (not math.isfinite(read_number(row.get("estimate", 0.0))), bool(slice_) and where != slice_, i)
        for i, (row, where) in enumerate(zip(rows, slice_labels(findings), strict=True))
        if row["metric"] != metric
    ]
    return [spoken[i] for *_, i in sorted(order)]


_REMARK = re.compile(r" \([A-Z](?:[^()]|\([^()]*\))*\.\)")


def said_once(lines: Sequence[str]) -> list[str]:
    """Sentences that stand together: a remark in brackets that one of them has made is not made again.

    >>> said_once(["a is 1. (Few rows.)", "b is 2. (Few rows.)"])
    ['a is 1. (Few rows.)', 'b is 2.']
    """
    made: set[str] = set()
    told = []
    for line in lines:
        told.append(_REMARK.sub(lambda remark: "" if remark[0] in made else remark[0], line))
        made.update(_REMARK.findall(line))
    return told


def terms(findings: Findings) -> list[tuple[str, str]]:
    """What the first metrics are, in a line each, with what their first value means; shares explain themselves."""
    found: dict[str, str] = {}
    if "estimate" not in findings.columns:
        return []
    units = plural(findings.words.get("unit", "unit"))
    for metric in findings.metrics():
        card = card_of(metric)
        if card is None or card.title in found or is_share(metric):
            continue
        asked = parse_metric(metric, REGISTRY)
        low, high = asked.span
        runs = f"{_short(low)} to {_short(high)}; " if math.isfinite(low) and math.isfinite(high) else ""
        rule = f"{runs}{_direction(asked)}."
        value = next((r["estimate"] for r in findings.rows() if r["metric"] == metric), math.nan)
        amount = str(findings.words.get("amount", "amounts")).replace("_", " ")
        levels = "amount" not in findings.slices and not are_differences(findings)
        clause = means(asked, read_number(value), units, amount) if levels else ""
        example = f" {number(value, 2)} means {clause}." if clause else ""
        found[card.title] = f"{_of(units, card.asks)} {rule[0].upper()}{rule[1:]}{example}"
    return list(found.items())[:MOST_TERMS]


def _direction(asked: MetricSpec) -> str:
    """Which way is more even; where it is towards the ideal, what that is."""
    ideal = "" if math.isnan(asked.ideal) else _short(asked.ideal)
    return f"{ideal} is even" if asked.better == "ideal" and ideal else DIRECTION.get(asked.better, "")


def _of(units: str, text: str) -> str:
    """A card's words with the reader's own word for units."""
    return re.sub(r"\bunits\b", units, text)


def _range(findings: Findings, metric: str, rows: list[dict[str, Any]]) -> str:
    card = card_of(metric)
    told = card is not None and "{who}" in card.says and len({r["group"] for r in rows if r["metric"] == metric}) == 1
    labels = slice_labels(findings) if told and findings.slices else row_labels(findings)
    mine = [(row, where) for row, where in zip(rows, labels, strict=True) if row["metric"] == metric]
    if len(mine) == 1:
        return sentence(findings, mine[0][0], float(findings.provenance.get("level", 0.95)))
    there = [(row, where) for row, where in mine if row["estimate"] is not None and row["estimate"] == row["estimate"]]
    if not there:
        return f"{metric_title(metric)} is undefined throughout."
    finite = [(row, where) for row, where in there if math.isfinite(row["estimate"])]
    if not finite:
        return f"{metric_title(metric)} is infinite wherever it is defined."
    told_of, beside = _of_enough(finite)
    known = sorted((row["estimate"], where) for row, where in told_of)
    (low, first), (high, last) = known[0], known[-1]
    lost, endless = len(mine) - len(there), len(there) - len(finite)
    missing = beside + (f" It is undefined for {lost:,} of {len(mine):,}." if lost else "")
    missing += f" It is infinite for {endless:,} of {len(mine):,}." if endless else ""
    value = (
        f"{value_text(low, metric)} {aside(first)} to {value_text(high, metric, beside=low)} {aside(last)}"
        if low < high
        else value_text(low, metric)
    )
    return said(findings, metric, value, mine[0][0]["group"] if told else None) + missing


FEW_UNITS = 20
"""A range over slices does not rest on slices smaller than this where there are others."""


def _of_enough(rows: list[tuple[dict[str, Any], str]]) -> tuple[list[tuple[dict[str, Any], str]], str]:
    """The rows that a range may rest on, and what must be said about the small ones."""
    small = [one for one in rows if one[0].get("units") is not None and one[0]["units"] < FEW_UNITS]
    large = [one for one in rows if one not in small]
    if not small:
        return rows, ""
    if len(large) < 2:
        fewest = min(one[0]["units"] for one in small)
        return rows, f" Some of these rest on few units, down to {fewest:,}."
    return large, f" Left out of this range: {len(small):,} of {len(rows):,} with fewer than {FEW_UNITS} units."


def said(findings: Findings, metric: str, value: str, group: Any = None) -> str:
    """The sentence on a metric's card with a text where its number would stand; what only a row knows is left out."""
    plainly = f"{metric_title(metric)}: {value}."
    card = card_of(metric)
    if card is None or not card.says:
        return plainly
    asked = parse_metric(metric, REGISTRY)
    if "convention" in asked.params or (findings.provenance.get("convention") or "evenhand") != "evenhand":
        return plainly
    params = {n: p.default for n, p in asked.metric.parameters.items()} | dict(asked.params)
    template = re.sub(r"\[[^\[\]]*\]", "", re.sub(r"{estimate:\w+}", "{value}", card.says.replace("{interval}", "")))
    words = {"unit": "unit", "amount": "amount", **findings.words}
    words |= {"units": plural(words["unit"]), "amount": words["amount"].replace("_", " "), "value": value}
    words |= {"who": who(group), "other": words.get("versus") or "the other group"}
    blanks = {name for _, name, _, _ in string.Formatter().parse(template) if name}
    if not blanks <= {*params, *words}:
        return plainly
    return f"{fill(template, params, {**params, **words}).removesuffix('.')}{chosen_words(asked, template)}."


def every_sentence(findings: Findings, most: int) -> list[str]:
    """Every finding as a sentence where the top of the page only sums them up."""
    if len(findings) <= FEW:
        return []
    found = sentences(findings)
    rest = len(found) - most
    return found[:most] + ([f"{rest:,} more are in the table and in the saved result."] if rest > 0 else [])


def caution(findings: Findings) -> list[tuple[str, str]]:
    """How sure we are: the kind of interval, every warning with the number of rows it concerns, what is undefined."""
    if "estimate" not in findings.columns:
        return []
    level = short_percent(float(findings.provenance.get("level", 0.95)))
    how = ", ".join(re.split("[:;]", str(findings.provenance.get("interval") or ""))[0].split(", ")[:2])
    known = [not (e is None or math.isnan(e)) for e in findings.columns["estimate"]]
    bounded = [v is not None and not math.isnan(v) for v in findings.columns["low"]]
    if not any(bounded):
        lines = [("", "There are no intervals: the numbers describe these data and nothing beyond them.")]
    else:
        everywhere = all(b for b, k in zip(bounded, known, strict=True) if k)
        who = "Every number has" if everywhere else "Numbers that allow one have"
        lines = [("", f"{who} a {level} interval{f': {how}' if how else ''}.")]
        if meant := findings.provenance.get("interval_for"):
            lines.append(("", str(meant)))
    counts = _codes(findings)
    for code in WARNINGS:
        if many := counts.get(code, 0):
            who = "All numbers" if many == len(findings) else f"{many:,} of {len(findings):,} numbers"
            lines.append(("care", f"Take care. {who}: {REASONS.get(code, code)}."))
    if outside := left_out(findings):
        lines.append(("care", outside))
    if lost := known.count(False) - counts.get("suppressed", 0):
        lines.append(("care", f"{lost:,} of {len(findings):,} numbers are undefined; the table says why."))
    units = plural(findings.words.get("unit", "unit"))
    return [(kind, _of(units, line)) for kind, line in lines]


def _codes(findings: Findings) -> Counter[str]:
    return Counter(
        code.strip() for note in findings.columns.get("note", ()) for code in (note or "").split(";") if code.strip()
    )


def codes(findings: Findings) -> list[str]:
    """What the codes in the column `note` stand for."""
    return [f"{code}: {REASONS[code]}." for code in _codes(findings) if code in REASONS]


@dataclass(frozen=True, slots=True)
class CardFacts:
    """A metric's card as a reader of the report meets it."""

    title: str
    asks: str
    terms: Mapping[str, str]
    variants: tuple[str, ...]


def cards(findings: Findings) -> list[CardFacts]:
    """The card of every metric in the result, once each."""
    found: dict[str, list[MetricSpec]] = {}
    for metric in findings.metrics():
        card = card_of(metric)
        if card is None:
            continue
        try:
            found.setdefault(card.name, []).append(parse_metric(metric, REGISTRY))
        except EvenhandError:
            continue
    return [_card(asked) for asked in found.values()]


def _card(asked: list[MetricSpec]) -> CardFacts:
    card = asked[0].card
    spans = distinct(
        "any number"
        if math.isinf(a.span[0]) and math.isinf(a.span[1])
        else f"{_short(a.span[0])} to {_short(a.span[1])}"
        for a in asked
    )
    ideals = distinct(_short(a.ideal) for a in asked if not math.isnan(a.ideal))
    terms = {
        "asked as": listing(a.text for a in asked),
        "range": f"{' or '.join(spans)}; {_direction(asked[0])}",
        "ideal": " or ".join(ideals),
        "example": card.example.replace("->", "→"),
        "undefined": f"when {card.undefined}" if card.undefined else "",
    }
    title = f"{card.title} ({card.symbol})" if card.symbol else card.title
    return CardFacts(title, card.asks, {k: v for k, v in terms.items() if v}, card.variants)


NAMES = {"rows": "rows read", "rng": "seed"}


def _short(value: float) -> str:
    """A number from a card or a plan, without trailing zeros."""
    return number(value) if math.isinf(value) else f"{value:.6g}"


def origin(findings: Findings) -> dict[str, str]:
    """Provenance as terms and words; what a reader has seen elsewhere on the page is left out."""
    shown: dict[str, str] = {}
    for name, value in findings.provenance.items():
        if (
            name in ("dropped", "plan", "command", "by_place")
            or value is None
            or value == {}
            or (name == "rows" and not value)
        ):
            continue
        shown[NAMES.get(name, str(name).replace("_", " "))] = short_percent(value) if name == "level" else _said(value)
    for name, value in dict(findings.provenance.get("plan") or {}).items():
        term = NAMES.get(name, str(name).replace("_", " "))
        if term not in shown:
            shown[term] = _said(value)
    return shown


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_said(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return listing(map(_said, value), 40)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else _short(value)
