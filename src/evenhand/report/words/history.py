"""A history in sentences: its lines over time, the alarms first, then the latest value of each quantity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from evenhand.claims import Claim, direction_of
from evenhand.errors import listing
from evenhand.findings import Findings, key_columns, read_number
from evenhand.report.words.phrases import card_of, distinct_texts, metric_title, value_format
from evenhand.report.words.sentences import Headline, SentenceWriter, SideTable, headline
from evenhand.report.words.text import counted, interval_in_brackets, short_percent, slice_names

MOVED = {"higher": "rose", "lower": "fell", "differs": "moved"}
HISTORY_COLUMNS = ("at", "plan", "audit")
"""Columns that a history adds to those of the audits."""

ASSUMES = (
    "Each quantity is watched on its own: a day is compared with earlier days of the same weekday, and the usual spread is learned "
    "from the days themselves, not from their intervals.",
    "An alarm means a lasting shift. It is not designed to detect a single odd day, a slow drift, or a shift of less than about one "
    "standard deviation of the usual days.",
    "It assumes at most one look a day. The more neighbouring days are correlated, the larger a shift must be; the false alarm rate was "
    "checked up to an autocorrelation of 0.5.",
    "It needs 28 days of history. After an alarm the new level is learned, which takes 28 days again; an alarm ends when the old "
    "level is back.",
    "The false alarm rate holds for each quantity, so with many quantities false alarms add up.",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity over time, in order of time. `label` names the slice and the group, as short as can be."""

    plan: str
    audit: str
    metric: str
    group: str | None
    label: str
    at: list[date] = field(default_factory=list)
    estimate: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    labels: dict[str, Any] = field(default_factory=dict)

    @property
    def defined(self) -> list[tuple[date, float]]:
        return [(day, x) for day, x in zip(self.at, self.estimate, strict=True) if not math.isnan(x)]


def lines(findings: Findings) -> list[Line]:
    """Every line of a history, one per plan, slice, metric and group, in the order of the rows on their first day."""
    slices = [name for name in key_columns(findings, HISTORY_COLUMNS) if name not in ("at", "group")]
    rows = sorted(findings.rows(), key=lambda row: row["at"])
    names = slice_names(slices, {name: [row[name] for row in rows] for name in [*slices, "metric"]})
    by_key: dict[tuple[Any, ...], Line] = {}
    for row, name in zip(rows, names, strict=True):
        key = tuple(row[n] for n in ("plan", "metric", "group", *slices))
        if key not in by_key:
            where = [part for part in name.split(", ") if part != "(missing)"]  # slices of other plans
            label = ", ".join([*where, *([] if row["group"] is None else [str(row["group"])])])
            labels = {n: row[n] for n in slices}
            by_key[key] = Line(row["plan"], row["audit"], row["metric"], row["group"], label, labels=labels)
        line = by_key[key]
        line.at.append(row["at"])
        for values, column in ((line.estimate, "estimate"), (line.low, "low"), (line.high, "high")):
            values.append(read_number(row[column]))
    return list(by_key.values())


class AlarmSentences(SentenceWriter, audit="alarms"):
    def sentences(self, findings: Findings) -> list[str]:
        return list(_alarm_sentences(findings)) or [_alarm_count(findings)]

    key_sentences = sentences


class HistorySentences(SentenceWriter, audit="history"):
    def sentences(self, findings: Findings) -> list[str]:
        latest = map(_latest, lines(findings))
        return [*_alarm_sentences(findings), *_plan_changes(findings), *latest, *_trends(findings)]

    def key_sentences(self, findings: Findings) -> list[str]:
        raised, drawn = list(_alarm_sentences(findings)), lines(findings)
        rest = [f"{len(raised) - 12:,} earlier alarms are in the table below."] if len(raised) > 12 else []
        latest = [*map(_latest, drawn), *_trends(findings)] if len(drawn) <= 8 else []
        cautions = [*_autocorrelated(findings), *_thinned(findings)]
        return [_alarm_count(findings), *raised[:12], *rest, *_plan_changes(findings), *cautions, *latest]

    def facts(self, findings: Findings) -> list[str]:
        days = sorted(set(findings.columns["at"]))
        quantities = int(findings.provenance.get("quantities", 0))
        return [f"{days[0]} to {days[-1]}", counted(len(days), "day"), counted(quantities, "quantity")]

    def side_tables(self, findings: Findings) -> list[SideTable]:
        promise = f"At most {_rate(findings)} of stable quantities give a false alarm in a year of daily checks."
        rows = tuple(
            (
                str(r["at"]),
                str(r["since"]),
                str(r["until"] or ""),
                _name(r["metric"], r["label"]),
                *map(value_format(r["metric"]), (r["before"], r["after"])),
            )
            for r in alarms(findings)
        )
        head = ("alarm on", "began about", "back since", "quantity", "before", "after")
        return [
            SideTable("Alarms and their assumptions", head, rows, (promise, *ASSUMES, *_autocorrelated(findings))),
            SideTable("Plans", ("plan", "audit", "first day", "last day", "parameters"), tuple(_plan_rows(findings))),
        ]


def _rate(findings: Findings) -> str:
    return short_percent(float(findings.provenance.get("rate", 0.05)))


def _plan_rows(findings: Findings) -> Iterator[tuple[str, ...]]:
    days: dict[str, list[Any]] = {}
    for plan, at in zip(findings.columns["plan"], findings.columns["at"], strict=True):
        days.setdefault(plan, []).append(at)
    plans = findings.curves.get("plans") or {"plan": [], "audit": [], "asked": []}
    for plan, audit, params in zip(plans["plan"], plans["audit"], plans["asked"], strict=True):
        shown = {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in params.items()}
        words = "; ".join(f"{k} {v}" for k, v in shown.items() if k not in ("audit", "rng"))
        yield plan, audit, str(min(days[plan])), str(max(days[plan])), words


def alarms(findings: Findings) -> list[dict[str, Any]]:
    """The alarms as rows, the newest first."""
    columns = findings.curves.get("alarms") or {}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _name(metric: str, label: str) -> str:
    return f"{metric_title(metric)} ({label})" if label else metric_title(metric)


def alarm_claims(findings: Findings) -> tuple[Claim, ...]:
    """Every alarm as a claim that a quantity moved; its p is the chance of a false alarm, whatever the number of looks."""
    rate = float(findings.provenance["rate"])
    about = ("metric", "group", "since", "until", "before", "after", "deviations", "line", "label")
    claims = []
    for r in alarms(findings):
        show, direction = value_format(r["metric"]), direction_of(r["after"] - r["before"])
        text = f"{_name(r['metric'], r['label'])} {MOVED[direction]} from {show(r['before'])} to {show(r['after'])}"
        where = {name: value for name, value in r.items() if name not in about}
        claims.append(Claim(text, r["metric"], r["group"], where, direction, rate, True, rate))
    return tuple(claims)


def _alarm_sentences(findings: Findings) -> Iterator[str]:
    for r, claim in zip(alarms(findings), findings.claims, strict=True):
        size = f"{abs(r['deviations']):.1f} standard deviations of its usual days"
        size = size if math.isfinite(r["deviations"]) else "and had never varied before"
        ended = "" if r["until"] is None else f" It has been back since {r['until']}."
        yield f"{claim.text} about {r['since']}, {size} (alarm on {r['at']}).{ended}"
    if any((card := card_of(c.metric)) and card.needs.__name__ == "Spectrum" for c in findings.claims):
        yield "eh.explain (evenhand explain), on the log of a day before and a day after, says who changed it."


def _alarm_count(findings: Findings) -> str:
    facts, raised = findings.provenance, len(alarms(findings))
    watched, quantities = int(facts.get("watched", 0)), int(facts.get("quantities", 0))
    if quantities and not watched:
        return f"No alarm can be raised yet: 28 days are needed, and {counted(quantities, 'quantity')} have fewer."
    early = f" {quantities - watched:,} of {quantities:,} have too few days so far (28 are needed)."
    stands = sum(r["until"] is None for r in alarms(findings))
    state = {raised: "", 0: ", all ended,"}.get(
        stands, f", of which {stands:,} {'stands' if stands == 1 else 'stand'},"
    )
    return (
        f"{counted(raised, 'alarm') + state if raised else 'No alarm'} for {counted(watched, 'quantity')}, each with at most a "
        f"{_rate(findings)} chance of a false alarm in a year of daily checks.{'' if watched == quantities else early}"
    )


def _plan_changes(findings: Findings) -> list[str]:
    days: dict[str, dict[str, set[Any]]] = {}
    for row in findings.rows():
        days.setdefault(row["audit"], {}).setdefault(row["plan"], set()).add(row["at"])
    changes = []
    for audit, plans in days.items():
        spans = sorted((min(plan_days), max(plan_days)) for plan_days in plans.values())
        for (_, ended), (began, _) in itertools.pairwise(spans):
            name = audit.replace("_", " ")
            what = f"The plan of {name} changed" if began > ended else f"A second plan of {name} was added"
            changes.append(f"{what} on {began}: each plan has a line of its own.")
    return changes


def _autocorrelated(findings: Findings) -> list[str]:
    names = findings.provenance.get("closely_related_days") or []
    if not names:
        return []
    return [
        f"Neighbouring days of {listing(names, 3)} are closely correlated, so only large shifts raise an alarm. If each day's table covers "
        "several days, say how many when it is added (--window 7)."
    ]


def _thinned(findings: Findings) -> list[str]:
    names = findings.provenance.get("thinned") or []
    return [f"Tables of {listing(names, 3)} overlap: only days whose tables do not are watched."] if names else []


def _trends(findings: Findings) -> list[str]:
    """The straight line through each quantity, with its interval: a number, not a claim."""
    columns = findings.curves.get("trends") or {}
    sentences = []
    for row in (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)):
        ends = interval_in_brackets(findings, row, "{:+.3g}".format)
        sentences.append(f"Trend of {_name(row['metric'], row['label'])}: {row['slope']:+.3g} a year{ends}.")
    return sentences


def _latest(line: Line) -> str:
    name, show, values, days = _name(line.metric, line.label), value_format(line.metric), line.defined, len(line.at)
    if not values:
        return f"{name} is undefined on all {days:,} days."
    day, now = values[-1]
    lost = f" It is undefined on {days - len(values):,} of {days:,} days." if len(values) < days else ""
    if len(values) == 1:
        return f"{name} was {show(now)} on {day}.{lost}"
    low, high = min(x for _, x in values), max(x for _, x in values)
    return (
        f"{name} was {show(now)} on {day}; since {values[0][0]} it has been between {show(low)} and {show(high)} "
        f"({len(values):,} days).{lost}"
    )


@headline("history")
def _history(findings: Findings) -> Headline | None:
    watched, raised = int(findings.provenance.get("watched", 0)), alarms(findings)
    uncertainty = f"Each quantity has at most a {_rate(findings)} chance of a false alarm in a year"
    if not watched:
        return None  # too few days yet: the first sentence says so
    standing = [i for i, r in enumerate(raised) if r["until"] is None]
    if not standing:
        if raised:
            ended = f"{counted(len(raised), 'earlier alarm')} {'has' if len(raised) == 1 else 'have'} ended"
            return Headline(f"No alarm stands for {counted(watched, 'quantity')}; {ended}.", uncertainty)
        which = f"None of {watched:,} quantities has" if watched > 1 else "The quantity has not"
        return Headline(f"{which} shifted.", uncertainty)
    newest = raised[standing[0]]
    moved = len({(raised[i]["metric"], raised[i]["label"]) for i in standing})
    before, after = distinct_texts(newest["metric"], newest["before"], newest["after"])
    verb = MOVED[findings.claims[standing[0]].direction]
    lead = f"{moved:,} of {watched:,} quantities shifted: " if watched > 1 else ""
    return Headline(
        f"{lead}{_name(newest['metric'], newest['label'])} {verb} from {before} to {after} about {newest['since']}.",
        uncertainty,
    )
