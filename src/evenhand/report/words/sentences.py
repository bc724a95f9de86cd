"""Findings in sentences: one per row, from the template on the metric's card.

An audit that says more than the cards of its metrics has a `SentenceWriter` in a module of `AUDITS`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from evenhand.cards import REGISTRY, MetricSpec, parse_metric
from evenhand.claims import Claim
from evenhand.errors import EvenhandError, listing, plural, singular
from evenhand.findings import Findings, label, read_number
from evenhand.report.words.phrases import PHRASES, estimate_format
from evenhand.report.words.text import (
    DIRECTION,
    REASONS,
    Row,
    confidence_level,
    counted,
    fill,
    first_reason,
    interval_in_brackets,
    interval_text,
    is_finite,
    note_codes,
    number,
    one_in_words,
    p_text,
    percent,
    row_labels,
    slice_lead,
    word,
)

AUDITS = ("comparisons", "experiment", "history", "inequality", "outcome", "rankings")
"""Modules of this folder that declare the sentences and headlines of audits."""


@dataclass(frozen=True, slots=True)
class SideTable:
    """A table in a report that helps to act on the findings, with notes below it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class SentenceWriter:
    """Writes the sentences of findings. A subclass made with `audit="name"` writes those of that audit."""

    registry: ClassVar[dict[str, SentenceWriter]] = {}

    def __init_subclass__(cls, *, audit: str) -> None:
        SentenceWriter.registry[audit] = cls()

    def sentences(self, findings: Findings) -> list[str]:
        """A sentence for each row, then each caution once."""
        return [*self.row_sentences(findings), *row_cautions(findings)]

    def row_sentences(self, findings: Findings) -> list[str]:
        return [self.sentence(findings, row) for row in findings.rows()]

    def sentence(self, findings: Findings, row: Row) -> str:
        return sentence(findings, row) if "estimate" in row else plain_sentence(row)

    def key_sentences(self, findings: Findings) -> list[str]:  # noqa: ARG002  (for subclasses)
        """The answer in a few sentences; empty where the summary of any result will do."""
        return []

    def facts(self, findings: Findings) -> list[str]:  # noqa: ARG002
        """The size of the data, for the line below a title; empty where units, slices and rows say it."""
        return []

    def side_tables(self, findings: Findings) -> list[SideTable]:  # noqa: ARG002
        return []


def writer_for(findings: Findings) -> SentenceWriter:
    for module in AUDITS:
        importlib.import_module(f"evenhand.report.words.{module}")
    return SentenceWriter.registry.get(findings.audit) or SentenceWriter()


def sentences(findings: Findings) -> list[str]:
    """The findings in plain words."""
    return writer_for(findings).sentences(findings)


def sentence(findings: Findings, row: Row) -> str:
    """One row as a sentence, by the template on the metric's card; without a template, title and number."""
    try:
        metric: MetricSpec | None = parse_metric(row["metric"], REGISTRY)
    except EvenhandError:
        metric = None
    convention = ""
    if metric is None:
        template, title, params = PHRASES.get((findings.audit, row["metric"]), ""), row["metric"], {}
    else:
        convention = _convention(metric, row)
        template, title, params = "" if convention else metric.card.says, metric.card.title, metric_params(metric)
    lead = slice_lead(findings, row)
    if row.get("group") and not any(blank in template for blank in ("{group}", "{who}", "{protected}")):
        lead += f"{label(row['group'])}: "
    estimate, chance = read_number(row["estimate"]), read_number(row.get("chance"))
    name = f"{lead}{title} ({row['metric']})"
    if math.isnan(estimate):
        return f"{name} is undefined: {first_reason(row['note'], 'undefined')}."
    if math.isinf(estimate):
        why = _empty_side(findings, row, estimate)
        if "shown_to_one_group" in note_codes(row.get("note")):
            why = f"{row.get('versus')} is shown an item that {row.get('protected')} never is"
        return f"{name} is {number(estimate)}: {why}."
    claim = findings.claim(row) if metric is None else None
    if claim is None or not claim.made:
        template = template.replace("{raise}", "move")
    unclear = f", not statistically significant{both_p(findings, claim)}" if claim and not claim.made else ""
    show = estimate_format(template)
    null = (findings.provenance.get("chance") or {}).get(row["metric"], "expected by chance")
    levels = [] if math.isnan(chance) or "{chance" in template else [f"{null}: {show(chance)}"]
    if not math.isnan(floor := read_number(row.get("floor"))):
        levels.append(f"an ideal policy judged on as few requests would score {show(floor)}")
    if (findings.provenance.get("plan") or {}).get("unknown") == "bounds" and (
        spread := interval_text(row.get("least"), row.get("most"), show)
    ):
        levels.append(f"{spread} whatever the missing labels are")
    end = "".join(f"; {level}" for level in levels) + "."
    if not template:
        return f"{name}{convention} is {number(estimate)}{interval_in_brackets(findings, row)}{end}"
    spoken = _as_spoken(row, template, params)
    if "{estimate:one_in}" in template and half_is_of_one(findings, spoken):
        template = f"One {{unit}} of {row['units']:,} gets more than half of all {{amount}}{{interval}}."
        show = one_in_words
    fields = {**spoken, **params, **template_words(findings, row)}  # a column `p` must not pass for the parameter p
    fields["raise"] = "raise" if estimate > 0 else "lower"
    if show is percent:
        fields["interval"] = interval_in_brackets(findings, spoken, lambda v: percent(v, spoken["estimate"]))
    else:
        fields["interval"] = interval_in_brackets(findings, spoken, show)
    choices = "" if metric is None else unnamed_choices(metric, template)
    overlap = " (The two overlap.)" if "overlap" in note_codes(row["note"]) else ""
    return f"{lead}{fill(template, params, fields).removesuffix('.')}{unclear}{choices}{end}{overlap}"


def both_p(findings: Findings, claim: Claim) -> str:
    """Both p of a claim that only the adjustment prevents: the interval beside it, for one number by itself, denies the null."""
    if claim.made or not claim.p <= round(1 - confidence_level(findings), 12):
        return ""
    tests = sum(not math.isnan(c.p) for c in findings.claims)
    return f" ({p_text(claim.p)} by itself, {p_text(claim.p_adjusted)} adjusted for {counted(tests, 'test')})"


def half_is_of_one(findings: Findings, row: Row) -> bool:
    """Whether one unit alone holds more than half, so that "one in 400" could be said of 300 units."""
    is_weighted = bool((findings.provenance.get("plan") or {}).get("weight"))
    return not is_weighted and (1 - read_number(row["estimate"])) * read_number(row.get("units")) < 1


def _empty_side(findings: Findings, row: Row, estimate: float) -> str:
    versus = row.get("versus") or findings.words.get("versus")
    if not versus or not row.get("group"):
        return "one side has something where the other has nothing"
    sides = (str(row.get("protected") or row["group"]), str(versus))
    full, empty = sides if estimate > 0 else sides[::-1]
    return f"{full} has something and {empty} has nothing"


def metric_params(metric: MetricSpec) -> dict[str, Any]:
    return {name: p.default for name, p in metric.metric.parameters.items()} | dict(metric.params)


def template_words(findings: Findings, row: Row) -> dict[str, Any]:
    """The blanks of a template that are words of the data: units, amount, groups."""
    words = findings.words
    return {
        **words,
        "unit": singular(words.get("unit", "unit")),
        "units": plural(words.get("unit", "unit")),
        "amount": str(row["amount"]).replace("_", " ") if "amount" in findings.slices else word(findings, "amount"),
        "other": words.get("versus") or "the other group",
        "who": label(row["group"]) if row.get("group") else "the protected group",
        "group": row.get("group"),  # not the column that words call group
    }


def _as_spoken(row: Row, template: str, params: dict[str, Any]) -> Row:
    """The row with the number that the sentence is about.

    A metric with `inverted=True` is said as its complement, and "lower by 0.1" is a negative number without its sign.
    """
    if params.get("inverted"):
        return {**row, "estimate": 1 - row["estimate"], "low": 1 - row["high"], "high": 1 - row["low"]}
    if "{raise}" in template and row["estimate"] < 0:
        return {**row, "estimate": -row["estimate"], "low": -row["high"], "high": -row["low"]}
    return row


def unnamed_choices(metric: MetricSpec, template: str) -> str:
    """Parameters that the template does not name, in brackets, so that two choices never read alike."""
    unnamed = {n.replace("_", " "): v for n, v in metric.params.items() if "{" + n not in template and n != "inverted"}
    parts = [n if v is True else f"not {n}" if v is False else f"{n} {v}" for n, v in unnamed.items()]
    if metric.cutoff is not None and "{cutoff" not in template:
        parts.append(f"in the first {metric.cutoff} ranks")
    return f" ({', '.join(parts)})" if parts else ""


def _convention(metric: MetricSpec, row: Row) -> str:
    """The tool whose convention the number follows, what that does and which way is better; empty for our own."""
    name = str(metric.params.get("convention") or row.get("convention") or "")
    if name not in metric.metric.conventions:
        return ""
    convention = metric.metric.conventions[name]
    formula, versus, protected = convention.does.rstrip("."), row.get("versus"), row.get("protected")
    if versus is not None and protected is not None:
        formula = formula.replace("a / b", f"{versus} over {protected}").replace("b / a", f"{protected} over {versus}")
    ideal = read_number(row.get("ideal"))
    aim = "" if math.isnan(ideal) else f"; ideal {number(ideal)}"
    way = f"; {DIRECTION[row['better']]}" if row.get("better") in ("lower", "higher") else ""
    return f", computed as in {convention.tool} ({formula}{aim}{way}),"


QUIET = frozenset(
    {"overlap", "some_undefined", "unjudged_requests", "no_interval", "reference", "bins_missing", "narrow_support"}
)
"""Notes that are no cautions, or for which the sentence has words of its own."""


CAUTION = "Caution for "
"""How the sentence of a caution begins."""


def row_cautions(findings: Findings) -> list[str]:
    """Each caution once, with the numbers that it concerns."""
    concerned: dict[str, list[str]] = {}
    finite = [
        (r, where)
        for r, where in zip(findings.rows(), row_labels(findings), strict=True)
        if is_finite(r.get("estimate"))
    ]
    for row, where in finite:
        for text in _cautions(findings, row):
            concerned.setdefault(text, []).append(f"{row['metric']} ({where})" if where else row["metric"])
    return [
        f"{CAUTION}{'all numbers' if len(names) == len(finite) else listing(dict.fromkeys(names), 4)}: {text}."
        for text, names in concerned.items()
    ]


def _cautions(findings: Findings, row: Row) -> list[str]:
    codes = note_codes(row.get("note"))
    cautions = [REASONS[code] for code in codes if code in REASONS and code not in QUIET]
    undefined, units = row.get("undefined"), row.get("units")
    for code, why in (("unjudged_requests", "have no judgments"), ("some_undefined", "have no value")):
        if code in codes and undefined and units:
            requests = counted(int(units + undefined), findings.words.get("unit", "request"))
            cautions.append(f"{int(undefined):,} of {requests} {why} and are excluded")
    if gaps := findings.provenance.get("rankings_with_empty_ranks"):
        rankings = counted(int(findings.provenance["rankings"]), "ranking")
        cautions.append(f"{int(gaps):,} of {rankings} have gaps in their ranks, which count as ranks without an item")
    part = (findings.provenance.get("unlabelled_share") or {}).get(findings.slice_label(row) or "all")
    if part:
        cautions.append(f"{percent(part)} of ranked items have no label and are excluded")
    return cautions


def plain_sentence(row: Row) -> str:
    """A row of a frame that holds no estimates, column by column.

    >>> plain_sentence({"metric": "gini", "other": "hoover", "tau_c": 0.5, "note": None})
    'gini: other hoover, tau c 0.5.'
    >>> plain_sentence({"metric": "gini", "criterion": "scale", "measured": "yes", "value": 0.0, "published": "no"})
    'gini, scale: yes on these data (0), no in the paper.'
    """
    if row.get("reason"):  # advice comes with its own words
        return str(row["reason"])
    why = "; ".join(REASONS.get(code, code) for code in note_codes(row.get("note")))
    reason = f" ({why})" if why else ""
    if row.get("criterion"):
        value = read_number(row.get("value"))
        size = "" if math.isnan(value) else f" ({number(value)})"
        parts = [f"{row['measured']} on these data{size}"] if row.get("measured") else []
        parts += [f"{row['published']} in the paper"] if row.get("published") else []
        name = f"{row['metric']}, {str(row['criterion']).replace('_', ' ')}"
        return f"{name}: {', '.join(parts) or 'unknown'}{reason}."
    columns = {k: v for k, v in row.items() if k not in ("metric", "note") and v is not None and v == v}
    cells = (f"{k.replace('_', ' ')} {number(v) if isinstance(v, float) else v}" for k, v in columns.items())
    return f"{row['metric']}: {', '.join(cells)}{reason}."


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer as a sentence, and its interval or what is doubtful about it.

    `where` is the label of its slice. The sentences of the metric that it `repeats`, and that of its `row`, would only say it
    again.
    """

    text: str
    uncertainty: str = ""
    repeats: str = ""
    where: str = ""
    row: Row | None = None


HeadlineWriter = Callable[[Findings], Headline | None]
HEADLINES: dict[str, HeadlineWriter] = {}


def headline(audit: str) -> Callable[[HeadlineWriter], HeadlineWriter]:
    """Declare the headline of an audit; a function that returns None leaves it to the first sentence of the summary."""

    def declare(write: HeadlineWriter) -> HeadlineWriter:
        HEADLINES[audit] = write
        return write

    return declare


def headline_for(findings: Findings) -> Headline | None:
    """The headline of these findings; None where the first sentence of the summary is as good."""
    writer_for(findings)  # loads the modules that declare headlines
    write = HEADLINES.get(findings.audit)
    return write(findings) if write and len(findings) else None
