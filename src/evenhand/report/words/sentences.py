"""Findings in sentences: one per row from the template on the metric's card, more where rows alone do not say it.

An audit whose answer is more than its rows has a `Teller` of its own in a module of this folder called `tell_*`; any other
needs nothing but the cards of its metrics.
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
from evenhand.report.words.phrases import PHRASES
from evenhand.report.words.text import (
    DIRECTION,
    REASONS,
    counted,
    fill,
    in_words,
    interval_words,
    number,
    percent,
    plural,
    who,
)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Aside:
    """A table beside the findings that helps to act on them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    says: tuple[str, ...] = ()


class Teller:
    """How findings are told. A class made with `audit="name"` tells those of that audit."""

    known: ClassVar[dict[str, Teller]] = {}

    def __init_subclass__(cls, *, audit: str) -> None:
        Teller.known[audit] = cls()

    def sentences(self, findings: Findings) -> list[str]:
        """One sentence per row of the frame."""
        level = float(findings.provenance.get("level", 0.95))
        return [self.sentence(findings, row, level) for row in findings.rows()]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """What one row says."""
        return sentence(findings, row, level) if "estimate" in row else plain_sentence(row)

    def headlines(self, findings: Findings) -> list[str]:  # noqa: ARG002  (for those that tell more)
        """The answer in a few sentences; nothing where the summary of any result will do."""
        return []

    def facts(self, findings: Findings) -> list[str]:  # noqa: ARG002
        """The size of the matter, for the line below a title; nothing where units, slices and rows say it."""
        return []

    def asides(self, findings: Findings) -> list[Aside]:  # noqa: ARG002
        """Tables that help to act on the findings."""
        return []


class _Plain(Teller, audit=""):
    """Rows by their templates."""


def teller(findings: Findings) -> Teller:
    """Who tells these findings."""
    for module in pkgutil.iter_modules(evenhand.report.words.__path__):
        if module.name.startswith("sentences_"):
            importlib.import_module(f"evenhand.report.words.{module.name}")
    return Teller.known.get(findings.audit) or Teller.known[""]


def sentences(findings: Findings) -> list[str]:
    """The findings in plain words."""
    return teller(findings).sentences(findings)


def sentence(findings: Findings, row: Mapping[str, Any], level: float = 0.95) -> str:
    """What one row says. A row without a template on its card is stated plainly."""
    where = ", ".join(f"{name} {in_words(row[name])}" for name in findings.slices)
    group = f"{label(row['group'])}: " if row.get("group") else ""
    lead = f"For {where}: " if where else ""
    try:
        found: MetricSpec | None = parse_metric(row["metric"], REGISTRY)
    except EvenhandError:
        found = None
    if found is None:
        template, title, params = PHRASES.get((findings.audit, row["metric"]), ""), row["metric"], {}
    else:
        template, title = "" if _convention(found, row) else found.card.says, found.card.title
        params = {n: p.default for n, p in found.metric.parameters.items()} | dict(found.params)
    group = "" if any(blank in template for blank in ("{group}", "{who}", "{protected}")) else group
    estimate = row["estimate"]
    if estimate is None or math.isnan(estimate):
        code = (row["note"] or "undefined").split(";")[0].strip()
        return f"{lead}{group}{title} ({row['metric']}) is undefined: {REASONS.get(code, code)}."
    if math.isinf(estimate):
        return f"{lead}{group}{title} ({row['metric']}) is {number(estimate)}: one side has something where the other has nothing."
    also = f"{_chance_words(row, template)}{_cautions(findings, row)}"
    if not template:
        by = _by_convention(found, row) if found is not None and _convention(found, row) else ""
        return f"{lead}{group}{title} ({row['metric']}){by} is {number(estimate)}{interval_words(row, level)}{also}"
    words = {"unit": "unit", "amount": "amount", **findings.words}
    words["units"] = plural(words["unit"])
    words["amount"] = str(row["amount"] if "amount" in findings.slices else words["amount"]).replace("_", " ")
    fields = {**row, **params, **words}  # a column `p` must not pass for the parameter p
    fields |= {"other": words.get("versus") or "the other group"}
    fields |= {"who": who(row.get("group")), "group": row.get("group")}  # not the column that words call group
    fields["interval"] = interval_words(row, level, as_percent="{estimate:percent}" in template)
    said = fill(template, params, fields)
    chosen = "" if found is None else chosen_words(found, template)
    overlap = " (The two overlap.)" if "overlap" in (row["note"] or "").split("; ") else ""
    return f"{lead}{group}{said.removesuffix('.')}{chosen}{also}{overlap}"


def chosen_words(found: MetricSpec, template: str) -> str:
    """What was chosen and the template does not say, so that two choices never read alike."""
    unsaid = {n: v for n, v in found.params.items() if "{" + n not in template}
    names = {name: name.replace("_", " ") for name in unsaid}
    parts = [
        names[n] if v is True else f"not {names[n]}" if v is False else f"{names[n]} {v}" for n, v in unsaid.items()
    ]
    parts += [f"in the first {found.cutoff} ranks"] if found.cutoff is not None and "{cutoff" not in template else []
    return f" ({', '.join(parts)})" if parts else ""


def _convention(found: MetricSpec, row: Row) -> str:
    """The convention that a number was computed by, where it is another tool's."""
    name = str(found.params.get("convention") or row.get("convention") or "")
    return name if name in found.metric.conventions else ""


def _by_convention(found: MetricSpec, row: Row) -> str:
    """Whose number it is, what that tool does, and which way it points."""
    kept = found.metric.conventions[_convention(found, row)]
    does, sides = kept.does.rstrip("."), (row.get("versus"), row.get("protected"))
    if None not in sides:
        does = does.replace("a / b", f"{sides[0]} over {sides[1]}").replace("b / a", f"{sides[1]} over {sides[0]}")
    ideal = row.get("ideal")
    aim = "" if ideal is None or math.isnan(ideal) else f"; ideal {number(ideal)}"
    way = f"; {DIRECTION[row['better']]}" if row.get("better") in ("lower", "higher") else ""
    return f", as {kept.tool} has it ({does}{aim}{way}),"


def _chance_words(row: Row, template: str) -> str:
    """What chance alone would give, where the template does not say it itself."""
    chance = row.get("chance")
    if chance is None or math.isnan(chance) or "{chance" in template:
        return "."
    show = percent if "{estimate:percent}" in template else number
    return f", where chance alone would give {show(chance)}."


QUIET = frozenset({"overlap", "some_undefined", "unjudged_requests", "no_interval"})
"""Notes that a sentence says in its own way."""


def _cautions(findings: Findings, row: Row) -> str:
    """What must be known to read the number: requests and items that are left out, and what its notes warn of."""
    said = []
    codes = [code for code in (row.get("note") or "").split("; ") if code]
    lost, units = row.get("undefined"), row.get("units")
    for code, why in (("unjudged_requests", "nobody judged an item of"), ("some_undefined", "there is no value for")):
        if code in codes and lost and units:
            said.append(
                f" ({why} {int(lost):,} of {counted(int(units), findings.words.get('unit', 'request'))}: left out.)"
            )
    said += [
        f" ({REASONS[code][0].upper()}{REASONS[code][1:]}.)" for code in codes if code in REASONS and code not in QUIET
    ]
    part = (findings.provenance.get("unlabelled_share") or {}).get(findings.slice_label(row) or "all")
    if part:
        said.append(f" ({percent(part)} of ranked items have no label and are left out.)")
    return "".join(said)


def plain_sentence(row: Mapping[str, Any]) -> str:
    """A row of a frame that holds no estimates, column by column.

    >>> plain_sentence({"metric": "gini", "other": "hoover", "tau_c": 0.5, "note": None})
    'gini: other hoover, tau c 0.5000.'
    """
    if row.get("reason"):  # advice comes with its own words
        return str(row["reason"])
    if row.get("criterion"):
        return _criterion_sentence(row)
    known = {k: v for k, v in row.items() if k not in ("metric", "note") and v is not None and v == v}
    said = ", ".join(f"{k.replace('_', ' ')} {number(v) if isinstance(v, float) else v}" for k, v in known.items())
    why = "; ".join(REASONS.get(code, code) for code in (row.get("note") or "").split("; ") if code)
    return f"{row['metric']}: {said}{f' ({why})' if why else ''}."


def _criterion_sentence(row: Mapping[str, Any]) -> str:
    """A criterion on this data, beside what its paper says of it.

    >>> _criterion_sentence({"metric": "gini", "criterion": "scale", "measured": "yes", "value": 0.0, "published": "no"})
    'gini, scale: yes on these data (0), no in the paper.'
    """
    value = row.get("value")
    size = "" if value is None or value != value else f" ({number(value)})"
    parts = [f"{row['measured']} on these data{size}"] if row.get("measured") else []
    parts += [f"{row['published']} in the paper"] if row.get("published") else []
    why = "; ".join(REASONS.get(code, code) for code in (row.get("note") or "").split("; ") if code)
    said = ", ".join(parts) or "not known"
    return f"{row['metric']}, {str(row['criterion']).replace('_', ' ')}: {said}{f' ({why})' if why else ''}."
