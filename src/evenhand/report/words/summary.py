"""The texts of a report: key sentences, cautions, glossary, cards of the metrics, provenance."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import __version__
from evenhand.cards import REGISTRY, MetricSpec, parse_metric
from evenhand.errors import EvenhandError, listing, plural
from evenhand.findings import Findings, read_number
from evenhand.report.words.phrases import card_of, distinct_texts, is_share, meaning, metric_title, value_format
from evenhand.report.words.sentences import (
    CAUTION,
    Headline,
    half_is_of_one,
    headline_for,
    plain_sentence,
    sentence,
    sentences,
    writer_for,
)
from evenhand.report.words.text import (
    DIRECTION,
    REASONS,
    Row,
    are_differences,
    capitalized,
    confidence_level,
    counted,
    excluded,
    has_interval,
    holders,
    interval_text,
    is_finite,
    note_codes,
    number,
    one_in,
    one_in_words,
    rounded_percent,
    row_labels,
    short_percent,
    slice_labels,
    word,
)

DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
SEPARATORS = {".": "dots", ",": "commas", " ": "spaces", "'": "apostrophes"}
DECIMALS = {".": "decimal points", ",": "decimal commas"}


def reading_sentences(reading: Mapping[str, Any]) -> list[str]:
    """How files and columns of numbers were read, a sentence for each that is not plain.

    >>> reading_sentences({"files": {"de.csv": {"delimiter": ";", "encoding": "latin-1"}}})
    ["'de.csv': columns separated by semicolons, latin-1."]
    >>> reading_sentences({"columns": {"Views": {"thousands": ".", "null": ["-"]}}})
    ["'Views': dots between thousands, '-' means missing."]
    """
    sentences = [f"{name!r}: {', '.join(_of_file(facts))}." for name, facts in reading.get("files", {}).items()]
    plain = {name: facts for name, facts in reading.get("columns", {}).items() if "doubtful" not in facts}
    return sentences + [f"{name!r}: {', '.join(_of_column(facts))}." for name, facts in plain.items()]


def _of_file(facts: Mapping[str, Any]) -> list[str]:
    parts = []
    if "delimiter" in facts:
        parts.append(f"columns separated by {DELIMITERS.get(facts['delimiter'], repr(facts['delimiter']))}")
    if "encoding" in facts:
        parts.append(facts["encoding"])
    if count := facts.get("lines_skipped"):
        parts.append(f"{count:,} line{'s' * (count > 1)} above the header skipped")
    return parts + _missing(facts)


def _of_column(facts: Mapping[str, Any]) -> list[str]:
    parts = [f"{SEPARATORS[facts['thousands']]} between thousands"] if facts.get("thousands") else []
    parts += [DECIMALS[facts["decimal"]]] if "decimal" in facts else []
    parts += ["lists of items, each item ranked by its position"] if "list" in facts else []
    if count := facts.get("empty"):
        parts.append(f"{count:,} empty list{'s' * (count > 1)} left out")
    return parts + _missing(facts)


def _missing(facts: Mapping[str, Any]) -> list[str]:
    words = facts.get("null") or ()
    return [f"{listing(map(repr, words))} {'means' if len(words) == 1 else 'mean'} missing"] if words else []


FEW = 8
"""Rows whose sentences are all at the top of the page; more are summed up."""

WARNINGS = (
    "heavy_tail", "few_receivers", "few_at_the_top", "few_units", "few_requests", "few_clusters", "few_viewers",
    "part_of_a_unit", "no_variation", "small_cell", "some_undefined", "ties_at_edge", "suppressed",
)  # fmt: skip
"""Notes to read before quoting a number; the others are explained below the table."""


def facts(findings: Findings) -> list[str]:
    """The size of the data, for the line below the title: units, amount, slices, rows read."""
    if of_audit := writer_for(findings).facts(findings):
        return of_audit
    parts = []
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
        parts.append(f"{many} {plural(words.get('counted') or words['unit'])}{each}")
    if "amount" in words:
        parts.append(word(findings, "amount"))
    if findings.slices:
        parts.append(f"{counted(len(set(slice_labels(findings))), 'slice')} by {', '.join(findings.slices)}")
    if rows := findings.provenance.get("rows"):
        parts.append(f"{int(rows):,} rows read")
    return parts


def key_sentences(findings: Findings, headline: Headline | None = None) -> list[str]:
    """A sentence per row where there are few; else one per metric, with its lowest and its highest value.

    Sentences that would repeat the `headline` are left out, and its slice comes first.
    """
    headline = headline or Headline("")
    writer = writer_for(findings)
    if of_audit := writer.key_sentences(findings):
        repeated = headline.row and writer.sentence(findings, headline.row)
        return [line for line in of_audit if line != repeated]
    rows = list(findings.rows())
    if len(findings) <= FEW:
        return _numbers_first(findings, rows, headline)
    if "estimate" not in findings.columns:  # what was measured and what was published, where they differ
        odd = [r for r in rows if r.get("published") and r.get("measured") not in (None, r["published"])]
        return [plain_sentence(r) for r in (odd or rows[:FEW])]
    return _ranges(findings, headline.repeats)


def _numbers_first(findings: Findings, rows: Sequence[Row], headline: Headline) -> list[str]:
    """Sentences of rows with a number before those without one; the slice of the headline first."""
    every = writer_for(findings).row_sentences(findings)
    order = [
        (not math.isfinite(read_number(row.get("estimate", 0.0))), bool(headline.where) and where != headline.where, i)
        for i, (row, where) in enumerate(zip(rows, slice_labels(findings), strict=True))
        if row["metric"] != headline.repeats
    ]
    return [every[i] for *_, i in sorted(order)]


def overall_sentence(overall: Findings | None) -> list[str]:
    if overall is None:
        return []
    first = headline_for(overall)
    return [f"Overall: {first.text if first else key_sentences(overall)[0]}"]


def figures(findings: Findings, headline: Headline, most: int = 3) -> list[tuple[str, str, str]]:
    """The first numbers of a result, of one slice or of the headline's metric in a few: number, words below it, interval.

    Differences have none: "1 in 4 authors" is a level.
    """
    if are_differences(findings):
        return []
    labelled = zip(findings.rows(), row_labels(findings), strict=True)
    rows = [(r, where) for r, where in labelled if math.isfinite(read_number(r.get("estimate")))]
    if len({where for _, where in rows}) > 1:
        metric = headline.row["metric"] if headline.row else findings.metrics()[0]
        compared = [(r, where) for r, where in rows if r["metric"] == metric and has_interval(r)]
        rows = compared if len(compared) <= most else []
    rows.sort(key=lambda pair: not (is_share(pair[0]["metric"]) or pair[0]["metric"] == "equal_share"))
    return [_figure(findings, r, where) for r, where in rows[:most]]


def _figure(findings: Findings, row: Row, where: str) -> tuple[str, str, str]:
    metric, estimate = row["metric"], row["estimate"]
    show: Callable[[float], str] = rounded_percent if is_share(metric) else value_format(metric)
    value, text = show(estimate) if is_share(metric) else number(estimate, 2), metric_title(metric)
    if metric == "equal_share":
        value, show = f"1 in {one_in(estimate)}", one_in
        text = f"{holders(findings)} gets half of all {word(findings, 'amount', 'amounts')}"
        if half_is_of_one(findings, row):
            value, text, show = f"1 of {row['units']:,}", text.replace("gets half", "gets more than half"), one_in_words
    interval = interval_text(row["low"], row["high"], show) if has_interval(row) else ""
    return value, f"{text}, {where}" if where else text, interval


def paragraph(findings: Findings, lines: Sequence[str], uncertainty: str, care: Sequence[str]) -> str:
    """The answer as a paragraph for a mail: question, findings, cautions, and where it comes from."""
    first, *rest = lines or [""]
    answer = " ".join(f"{part.removesuffix('.')}." for part in (first, uncertainty) if part)
    source = f"Source: {', '.join(facts(findings))}; evenhand {__version__}."
    return " ".join([findings.question, answer, *rest, *care, source])


def glossary(findings: Findings, most: int = 2) -> list[tuple[str, str]]:
    """A line on each of the first metrics: what it is and the meaning of its first value; shares need none."""
    lines: dict[str, str] = {}
    if "estimate" not in findings.columns:
        return []
    units = plural(findings.words.get("unit", "unit"))
    for metric in findings.metrics():
        card = card_of(metric)
        if card is None or card.title in lines or is_share(metric):
            continue
        spec = parse_metric(metric, REGISTRY)
        low, high = spec.span
        span = f"{_short(low)} to {_short(high)}; " if math.isfinite(low) and math.isfinite(high) else ""
        rule = capitalized(f"{span}{_direction(spec)}.")
        value = next((r["estimate"] for r in findings.rows() if r["metric"] == metric), math.nan)
        levels = "amount" not in findings.slices and not are_differences(findings)
        clause = meaning(spec, read_number(value), units, word(findings, "amount", "amounts")) if levels else ""
        example = f" {number(value, 2)} means {clause}." if clause else ""
        lines[card.title] = f"{_with_units(units, card.asks)} {rule}{example}"
    return list(lines.items())[:most]


def _direction(metric: MetricSpec) -> str:
    ideal = "" if math.isnan(metric.ideal) else _short(metric.ideal)
    return f"{ideal} is even" if metric.better == "ideal" and ideal else DIRECTION.get(metric.better, "")


def _with_units(units: str, text: str) -> str:
    """A card's text with the noun of the data for "units"."""
    return re.sub(r"\bunits\b", units, text)


def _ranges(findings: Findings, without: str) -> list[str]:
    """The lowest and the highest value of every metric over the slices; amounts such as stars and forks share no range."""
    several = "amount" in findings.slices
    parts: dict[tuple[Any, str], list[tuple[Row, str]]] = {}
    for row, where in zip(findings.rows(), row_labels(findings), strict=True):
        if row["metric"] != without:
            parts.setdefault((row["amount"] if several else "", row["metric"]), []).append((row, where))
    return [_range(findings, metric, rows) for (_, metric), rows in parts.items()]


def _range(findings: Findings, metric: str, rows: Sequence[tuple[Row, str]]) -> str:
    if len(rows) == 1:
        return sentence(findings, rows[0][0])
    title = metric_title(metric)
    finite = [(row, where) for row, where in rows if is_finite(row["estimate"])]
    if not finite:
        return f"{title} is undefined or infinite everywhere."
    large, remarks = _large_slices(finite)
    if lost := len(rows) - len(finite):
        remarks += f" It is undefined or infinite for {lost:,} of {len(rows):,}."
    (low, lowest), (high, highest) = (f((row["estimate"], where) for row, where in large) for f in (min, max))
    texts = distinct_texts(metric, low, high)
    values = f"{texts[0]} ({lowest}) to {texts[1]} ({highest})" if low < high else f"{texts[0]} everywhere"
    return f"{title}: {values}.{remarks}"


def _large_slices(rows: Sequence[tuple[Row, str]], fewest: int = 20) -> tuple[Sequence[tuple[Row, str]], str]:
    """Rows with at least `fewest` units, and a remark on the others; all rows where fewer than two are that large."""
    sizes = [math.inf if row.get("units") is None else row["units"] for row, _ in rows]
    large = [pair for pair, size in zip(rows, sizes, strict=True) if size >= fewest]
    if len(large) == len(rows):
        return rows, ""
    if len(large) < 2:
        return rows, f" Some have few units, down to {min(sizes):,}."
    return large, f" {len(rows) - len(large):,} of {len(rows):,} with fewer than {fewest} units are not included."


def every_sentence(findings: Findings, most: int) -> list[str]:
    """A sentence per row, at most `most`, where the top of the page is a summary."""
    if len(findings) <= FEW:
        return []
    every = [line for line in sentences(findings) if not line.startswith(CAUTION)]  # these stand at the top
    rest = len(every) - most
    return every[:most] + ([f"{rest:,} more are in the table and in the saved result."] if rest > 0 else [])


LIMITATIONS = (
    "Inequality metrics suit what is better when it is less skewed; where it is unclear who benefits, they say little.",
    "They need no labels and replace no comparison of groups: how groups fare must be measured as well.",
    "Which metric is stable or telling was judged on data as concentrated as impressions; on other data, measure it "
    "(eh.criteria).",
)
"""What the authors of the inequality metrics name as limits of theirs (Lazovich et al. 2022)."""


def cautions(findings: Findings) -> list[tuple[str, str]]:
    """The kind of interval, every warning with the number of rows it concerns, and how many numbers are undefined."""
    if "estimate" not in findings.columns:
        return []
    level = short_percent(confidence_level(findings))
    how = ", ".join(re.split("[:;]", str(findings.provenance.get("interval") or ""))[0].split(", ")[:2])
    defined = [not math.isnan(read_number(e)) for e in findings.columns["estimate"]]
    bounded = [not math.isnan(read_number(v)) for v in findings.columns["low"]]
    if not any(bounded):
        lines = [("", "There are no intervals: the numbers describe these data only.")]
    else:
        everywhere = all(b for b, d in zip(bounded, defined, strict=True) if d)
        which = "Every number has" if everywhere else "Where possible, numbers have"
        lines = [("", f"{which} a {level} interval{f': {how}' if how else ''}.")]
        if meant := findings.provenance.get("interval_for"):
            lines.append(("", str(meant)))
    counts = _note_counts(findings)
    for code in WARNINGS:
        if many := counts.get(code, 0):
            which = "all numbers" if many == len(findings) else f"{many:,} of {len(findings):,} numbers"
            lines.append(("care", f"{CAUTION}{which}: {REASONS.get(code, code)}."))
    if outside := excluded(findings):
        lines.append(("care", outside))
    reading = findings.provenance.get("reading") or {}
    columns = reading.get("columns", {}).values()
    lines += [("care", facts["doubt"]) for facts in columns if "doubtful" in facts]  # numbers that read in two ways
    lines += [("", line) for line in reading_sentences(reading)]
    if lost := defined.count(False) - counts.get("suppressed", 0):
        lines.append(("care", f"{lost:,} of {len(findings):,} numbers are undefined; the table says why."))
    units = plural(findings.words.get("unit", "unit"))
    limits = LIMITATIONS if findings.audit == "inequality" else ()
    return [*((kind, _with_units(units, line)) for kind, line in lines), *(("", line) for line in limits)]


def _note_counts(findings: Findings) -> Counter[str]:
    return Counter(code for note in findings.columns.get("note", ()) for code in note_codes(note))


def explained_notes(findings: Findings, without: Sequence[str] = ()) -> list[str]:
    """The codes in the column `note`, each with its meaning."""
    return [f"{code}: {REASONS[code]}." for code in _note_counts(findings) if code in REASONS and code not in without]


@dataclass(frozen=True, slots=True)
class CardFacts:
    title: str
    asks: str
    terms: Mapping[str, str]
    variants: tuple[str, ...]


def cards(findings: Findings) -> list[CardFacts]:
    variants: dict[str, list[MetricSpec]] = {}
    for metric in findings.metrics():
        with contextlib.suppress(EvenhandError):
            if card := card_of(metric):
                variants.setdefault(card.name, []).append(parse_metric(metric, REGISTRY))
    return [_card(metrics) for metrics in variants.values()]


def _card(variants: Sequence[MetricSpec]) -> CardFacts:
    card = variants[0].card
    spans = dict.fromkeys(
        "any number" if all(map(math.isinf, m.span)) else f"{_short(m.span[0])} to {_short(m.span[1])}"
        for m in variants
    )
    ideals = dict.fromkeys(_short(m.ideal) for m in variants if not math.isnan(m.ideal))
    terms = {
        "name": listing(m.text for m in variants),
        "range": f"{' or '.join(spans)}; {_direction(variants[0])}",
        "ideal": " or ".join(ideals),
        "example": card.example.replace("->", "→"),
        "undefined": f"when {card.undefined}" if card.undefined else "",
    }
    title = f"{card.title} ({card.symbol})" if card.symbol else card.title
    return CardFacts(title, card.asks, {k: v for k, v in terms.items() if v}, card.variants)


def _short(value: float) -> str:
    """A number from a card or a plan, without trailing zeros."""
    return number(value) if math.isinf(value) else f"{value:.6g}"


def origin(findings: Findings) -> dict[str, str]:
    """Provenance as terms and words, without what is elsewhere on the page."""
    names = {"rows": "rows read", "rng": "seed"}
    shown: dict[str, str] = {}
    for name, value in findings.provenance.items():
        empty = value is None or value == {} or (name == "rows" and not value)
        if name not in ("dropped", "plan", "command", "by_place") and not empty:
            term = names.get(name, str(name).replace("_", " "))
            shown[term] = short_percent(value) if name == "level" else plain_text(value)
    for name, value in dict(findings.provenance.get("plan") or {}).items():
        shown.setdefault(names.get(name, str(name).replace("_", " ")), plain_text(value))
    return shown


def plain_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {plain_text(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return listing(map(plain_text, value), 40)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else _short(value)
