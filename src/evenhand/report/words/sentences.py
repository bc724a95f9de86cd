"""Findings in sentences: one per row, from the template on the metric's card; more where rows do not say it all.

An audit that needs more than the cards of its metrics has a `SentenceWriter` of its own in a module of this folder called
`sentences_*`.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import evenhand.report.words
from evenhand.cards import REGISTRY, MetricSpec, parse_metric
from evenhand.errors import EvenhandError
from evenhand.findings import Findings, label
from evenhand.findings import number as read_number
from evenhand.report.words.intervals import interval_in_brackets
from evenhand.report.words.phrases import PHRASES
from evenhand.report.words.text import (
    DIRECTION,
    REASONS,
    capitalized,
    confidence_level,
    counted,
    fill,
    first_reason,
    in_words,
    note_codes,
    number,
    percent,
    percent_like,
    plural,
    who,
)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SideTable:
    """A table beside the findings that helps to act on them, with notes below it."""

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
        """One sentence per row of the frame."""
        level = confidence_level(findings)
        return [self.sentence(findings, row, level) for row in findings.rows()]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """One row as a sentence."""
        return sentence(findings, row, level) if "estimate" in row else plain_sentence(row)

    def key_sentences(self, findings: Findings) -> list[str]:  # noqa: ARG002  (for subclasses)
        """The answer in a few sentences; empty where the summary of any result will do."""
        return []

    def facts(self, findings: Findings) -> list[str]:  # noqa: ARG002
        """The size of the data, for the line below a title; empty where units, slices and rows say it."""
        return []

    def side_tables(self, findings: Findings) -> list[SideTable]:  # noqa: ARG002
        """Tables that help to act on the findings."""
        return []


class _CardSentences(SentenceWriter, audit=""):
    """Sentences by the templates of the cards."""


def writer_for(findings: Findings) -> SentenceWriter:
    """The writer of the audit of these findings."""
    for module in pkgutil.iter_modules(evenhand.report.words.__path__):
        if module.name.startswith("sentences_"):
            importlib.import_module(f"evenhand.report.words.{module.name}")
    return SentenceWriter.registry.get(findings.audit) or SentenceWriter.registry[""]


def sentences(findings: Findings) -> list[str]:
    """The findings in plain words."""
    return writer_for(findings).sentences(findings)


def slice_lead(findings: Findings, row: Row, *, without: tuple[str, ...] = ()) -> str:
    """The beginning of a sentence about one slice: "For source likes: "."""
    where = ", ".join(f"{name} {in_words(row[name])}" for name in findings.slices if name not in without)
    return f"For {where}: " if where else ""


def sentence(findings: Findings, row: Row, level: float = 0.95) -> str:
    """One row as a sentence, by the template on the metric's card; without a template, title and number."""
    lead = slice_lead(findings, row)
    group = f"{label(row['group'])}: " if row.get("group") else ""
    try:
        metric: MetricSpec | None = parse_metric(row["metric"], REGISTRY)
    except EvenhandError:
        metric = None
    convention = ""
    if metric is None:
        template, title, params = PHRASES.get((findings.audit, row["metric"]), ""), row["metric"], {}
    else:
        convention = _convention(metric, row)
        template, title = "" if convention else metric.card.says, metric.card.title
        params = {n: p.default for n, p in metric.metric.parameters.items()} | dict(metric.params)
    group = "" if any(blank in template for blank in ("{group}", "{who}", "{protected}")) else group
    estimate = read_number(row["estimate"])
    name = f"{lead}{group}{title} ({row['metric']})"
    if math.isnan(estimate):
        return f"{name} is undefined: {first_reason(row['note'], 'undefined')}."
    if math.isinf(estimate):
        return f"{name} is {number(estimate)}: one side has something where the other has nothing."
    as_percent = "{estimate:percent}" in template
    chance = read_number(row.get("chance"))
    end = "."
    if not math.isnan(chance) and "{chance" not in template:
        end = f", where chance alone would give {(percent if as_percent else number)(chance)}."
    end += _cautions(findings, row)
    if not template:
        return f"{name}{convention} is {number(estimate)}{interval_in_brackets(row, level)}{end}"
    words = {"unit": "unit", "amount": "amount", **findings.words}
    words["units"] = plural(words["unit"])
    words["amount"] = str(row["amount"] if "amount" in findings.slices else words["amount"]).replace("_", " ")
    fields = {**row, **params, **words}  # a column `p` must not pass for the parameter p
    fields |= {"other": words.get("versus") or "the other group"}
    fields |= {"who": who(row.get("group")), "group": row.get("group")}  # not the column that words call group
    fields["interval"] = interval_in_brackets(row, level, percent_like(estimate) if as_percent else number)
    choices = "" if metric is None else unnamed_choices(metric, template)
    overlap = " (The two overlap.)" if "overlap" in note_codes(row["note"]) else ""
    return f"{lead}{group}{fill(template, params, fields).removesuffix('.')}{choices}{end}{overlap}"


def unnamed_choices(metric: MetricSpec, template: str) -> str:
    """Parameters that the template does not name, in brackets, so that two choices never read alike."""
    unnamed = {n.replace("_", " "): v for n, v in metric.params.items() if "{" + n not in template}
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
    does, versus, protected = convention.does.rstrip("."), row.get("versus"), row.get("protected")
    if versus is not None and protected is not None:
        does = does.replace("a / b", f"{versus} over {protected}").replace("b / a", f"{protected} over {versus}")
    ideal = read_number(row.get("ideal"))
    aim = "" if math.isnan(ideal) else f"; ideal {number(ideal)}"
    way = f"; {DIRECTION[row['better']]}" if row.get("better") in ("lower", "higher") else ""
    return f", as {convention.tool} has it ({does}{aim}{way}),"


QUIET = frozenset({"overlap", "some_undefined", "unjudged_requests", "no_interval"})
"""Notes that a sentence puts into words of its own, or not at all."""


def _cautions(findings: Findings, row: Row) -> str:
    """Requests and items that are left out, and the warnings of the row's notes, in brackets."""
    cautions = []
    codes = note_codes(row.get("note"))
    undefined, units = row.get("undefined"), row.get("units")
    for code, why in (("unjudged_requests", "nobody judged an item of"), ("some_undefined", "there is no value for")):
        if code in codes and undefined and units:
            requests = counted(int(units), findings.words.get("unit", "request"))
            cautions.append(f"{why} {int(undefined):,} of {requests}: left out.")
    cautions += [f"{capitalized(REASONS[code])}." for code in codes if code in REASONS and code not in QUIET]
    part = (findings.provenance.get("unlabelled_share") or {}).get(findings.slice_label(row) or "all")
    if part:
        cautions.append(f"{percent(part)} of ranked items have no label and are left out.")
    return "".join(f" ({caution})" for caution in cautions)


def plain_sentence(row: Row) -> str:
    """A row of a frame that holds no estimates, column by column.

    >>> plain_sentence({"metric": "gini", "other": "hoover", "tau_c": 0.5, "note": None})
    'gini: other hoover, tau c 0.5000.'
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
        return f"{name}: {', '.join(parts) or 'not known'}{reason}."
    columns = {k: v for k, v in row.items() if k not in ("metric", "note") and v is not None and v == v}
    cells = (f"{k.replace('_', ' ')} {number(v) if isinstance(v, float) else v}" for k, v in columns.items())
    return f"{row['metric']}: {', '.join(cells)}{reason}."
