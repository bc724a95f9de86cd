"""Sentences of a history: the alarms first, then the latest value of each quantity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from evenhand.errors import listing
from evenhand.findings import Findings
from evenhand.report.charts.series import Line, lines
from evenhand.report.words.phrases import metric_title, value_format
from evenhand.report.words.sentences import SentenceWriter, SideTable
from evenhand.report.words.text import counted, short_percent

FEW = 8
"""Quantities whose latest values are all printed."""
MOST = 12
"""Alarms printed as sentences; the table has them all."""

ASSUMES = (
    "Each quantity is watched by itself: every day is held against the earlier days of its weekday, and their spread is learned "
    "from the days themselves, not from their intervals, so days may vary more than the intervals say.",
    "An alarm tells of a lasting shift. A single odd day, a slow drift and a shift of less than about one and a half standard "
    "deviations of the usual days are not what it is made for.",
    "It assumes one look a day at most, days alike in spread and not strongly skewed, and that neighbouring days resemble one "
    "another no more than an autocorrelation of 0.3.",
    "It can speak after 28 days of history; after an alarm it starts afresh and needs as many again.",
    "With many quantities watched, false alarms add up: the rate holds for each of them.",
)


class AlarmSentences(SentenceWriter, audit="alarms"):
    """A sentence per alarm, or that there was none."""

    def sentences(self, findings: Findings) -> list[str]:
        return list(_alarm_sentences(findings)) or [_alarm_count(findings)]


class HistorySentences(SentenceWriter, audit="history"):
    """The alarms, changes of plans, and the latest value of each quantity."""

    def sentences(self, findings: Findings) -> list[str]:
        return [*_alarm_sentences(findings), *_plan_changes(findings), *map(_latest, lines(findings))]

    def key_sentences(self, findings: Findings) -> list[str]:
        """The number of alarms, the newest of them, changes of plans, and the latest values of few quantities."""
        raised, drawn = list(_alarm_sentences(findings)), lines(findings)
        rest = [f"{len(raised) - MOST:,} earlier alarms are in the table below."] if len(raised) > MOST else []
        latest = map(_latest, drawn) if len(drawn) <= FEW else []
        return [
            _alarm_count(findings), *raised[:MOST], *rest, *_plan_changes(findings), *_autocorrelated(findings), *latest
        ]  # fmt: skip

    def facts(self, findings: Findings) -> list[str]:
        """The period, and the numbers of days and quantities."""
        days = sorted(set(findings.columns["at"]))
        quantities = int(findings.provenance.get("quantities", 0))
        return [f"{days[0]} to {days[-1]}", counted(len(days), "day"), counted(quantities, "quantity")]

    def side_tables(self, findings: Findings) -> list[SideTable]:
        """The alarms as a table, what the alarm assumes, and the plans behind the numbers."""
        rate = short_percent(float(findings.provenance.get("rate", 0.05)))
        promise = f"At most {rate} of stable quantities ever give a false alarm, however often they are looked at."
        rows = tuple(
            (
                str(r["at"]),
                str(r["since"]),
                _name(r["metric"], r["label"]),
                *map(value_format(r["metric"]), (r["before"], r["after"])),
            )
            for r in alarms(findings)
        )
        head = ("told on", "began about", "quantity", "before", "after")
        return [
            SideTable("Alarms, and what they assume", head, rows, (promise, *ASSUMES, *_autocorrelated(findings))),
            SideTable("Plans", ("plan", "audit", "first day", "last day", "asked"), tuple(_plan_rows(findings))),
        ]


def _plan_rows(findings: Findings) -> Iterator[tuple[str, ...]]:
    """Every plan with its audit, its first and last day and its parameters."""
    days: dict[str, list[Any]] = {}
    for plan, at in zip(findings.columns["plan"], findings.columns["at"], strict=True):
        days.setdefault(plan, []).append(at)
    plans = findings.curves.get("plans") or {"plan": [], "audit": [], "asked": []}
    for plan, audit, params in zip(plans["plan"], plans["audit"], plans["asked"], strict=True):
        words = "; ".join(
            f"{k} {', '.join(map(str, v)) if isinstance(v, list) else v}"
            for k, v in params.items()
            if k not in ("audit", "rng")
        )
        yield plan, audit, str(min(days[plan])), str(max(days[plan])), words


def alarms(findings: Findings) -> list[dict[str, Any]]:
    """The alarms as rows, the newest first."""
    columns = findings.curves.get("alarms") or {}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _alarm_sentences(findings: Findings) -> Iterator[str]:
    for r in alarms(findings):
        show = value_format(r["metric"])
        way = "rose" if r["after"] > r["before"] else "fell"
        size = f"{abs(r['deviations']):.1f} standard deviations of its usual days"
        size = size if math.isfinite(r["deviations"]) else "and it had never varied before"
        yield (
            f"{_name(r['metric'], r['label'])} {way} from {show(r['before'])} to {show(r['after'])} about {r['since']}, {size} "
            f"(alarm of {r['at']})."
        )


def _alarm_count(findings: Findings) -> str:
    """The number of alarms and of quantities watched, with the rate of false alarms."""
    facts, raised = findings.provenance, len(alarms(findings))
    watched, quantities = int(facts.get("watched", 0)), int(facts.get("quantities", 0))
    rate = short_percent(float(facts.get("rate", 0.05)))
    early = f"; {quantities - watched:,} of {quantities:,} have too few days yet, 28 are needed"
    return (
        f"{counted(raised, 'alarm') if raised else 'No alarm'}: {watched:,} {'quantity was' if watched == 1 else 'quantities were'} "
        f"watched, each with at most a {rate} chance of a false alarm in a year of daily looks"
        f"{'' if watched == quantities else early}."
    )


def _plan_changes(findings: Findings) -> list[str]:
    """The days on which the plan of an audit changed, or was joined by another."""
    days: dict[str, dict[str, set[Any]]] = {}
    for row in findings.rows():
        days.setdefault(row["audit"], {}).setdefault(row["plan"], set()).add(row["at"])
    changes = []
    for audit, plans in days.items():
        spans = sorted((min(plan_days), max(plan_days)) for plan_days in plans.values())
        for (_, ended), (began, _) in itertools.pairwise(spans):
            how = "changed" if began > ended else "was joined by another"
            name = audit.replace("_", " ")
            changes.append(f"The plan of {name} {how} on {began}: the numbers of each are lines of their own.")
    return changes


def _autocorrelated(findings: Findings) -> list[str]:
    names = findings.provenance.get("closely_related_days") or []
    if not names:
        return []
    return [
        f"Neighbouring days of {listing(names, 3)} resemble one another more than the alarm allows for: there false alarms "
        "are likelier than it says."
    ]


def _latest(line: Line) -> str:
    """The latest value of a quantity, and its range so far."""
    show, name, values = value_format(line.metric), _name(line.metric, line.label), line.defined
    days = len(line.at)
    if not values:
        return f"{name} is undefined on all {days:,} days."
    day, now = values[-1]
    lost = f" It is undefined on {days - len(values):,} of {days:,} days." if len(values) < days else ""
    if len(values) == 1:
        return f"{name} was {show(now)} on {day}.{lost}"
    low, high = min(x for _, x in values), max(x for _, x in values)
    return (
        f"{name} was {show(now)} on {day}; since {values[0][0]} it lay between {show(low)} and {show(high)} "
        f"({len(values):,} days).{lost}"
    )


def _name(metric: str, label: str) -> str:
    return f"{metric_title(metric)}{f' ({label})' if label else ''}"
