"""What changed, and when, in words: the alarms first, then where each quantity stands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from evenhand.errors import listing
from evenhand.findings import Findings
from evenhand.report.charts.series import Line, lines
from evenhand.report.words.phrases import is_share, metric_title
from evenhand.report.words.sentences import Aside, Teller
from evenhand.report.words.text import number, percent, short_percent

FEW = 8
MOST = 12

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


class _Alarms(Teller, audit="alarms"):
    """A sentence per alarm, or that there was none."""

    def sentences(self, findings: Findings) -> list[str]:
        return list(_alarms(findings)) or [_quiet(findings)]


class _History(Teller, audit="history"):
    """The alarms, where plans changed, and where each quantity stands."""

    def sentences(self, findings: Findings) -> list[str]:
        return [*_alarms(findings), *_plans(findings), *(_standing(line) for line in lines(findings))]

    def headlines(self, findings: Findings) -> list[str]:
        """How many alarms there were and the newest of them, where plans changed, and where few quantities stand."""
        told = list(_alarms(findings))
        rest = [f"{len(told) - MOST:,} earlier alarms are in the table below."] if len(told) > MOST else []
        drawn = lines(findings)
        standing = [_standing(line) for line in drawn] if len(drawn) <= FEW else []
        return [_quiet(findings), *told[:MOST], *rest, *_plans(findings), *_doubts(findings), *standing]

    def facts(self, findings: Findings) -> list[str]:
        """How long and how much."""
        days = sorted(set(findings.columns["at"]))
        drawn = int(findings.provenance.get("quantities", 0))
        return [
            f"{days[0]} to {days[-1]}", _many(len(days), "day"), f"{drawn:,} {'quantity' if drawn == 1 else 'quantities'}"
        ]  # fmt: skip

    def asides(self, findings: Findings) -> list[Aside]:
        """The alarms as a table, what the alarm assumes, and the plans behind the numbers."""
        rate = short_percent(float(findings.provenance.get("rate", 0.05)))
        promise = f"At most {rate} of stable quantities ever give a false alarm, however often they are looked at."
        rows = tuple(
            (
                str(r["at"]),
                str(r["since"]),
                _name(r["metric"], r["label"]),
                *map(_show(r["metric"]), (r["before"], r["after"])),
            )
            for r in raised(findings)
        )
        head = ("told on", "began about", "quantity", "before", "after")
        return [
            Aside("Alarms, and what they assume", head, rows, (promise, *ASSUMES, *_doubts(findings))),
            Aside("Plans", ("plan", "audit", "first day", "last day", "asked"), tuple(_asked(findings))),
        ]


def _asked(findings: Findings) -> Iterator[tuple[str, ...]]:
    """Every plan with its days and what it asks."""
    days: dict[str, list[Any]] = {}
    for plan, at in zip(findings.columns["plan"], findings.columns["at"], strict=True):
        days.setdefault(plan, []).append(at)
    known = findings.curves.get("plans") or {"plan": [], "audit": [], "asked": []}
    for plan, audit, asked in zip(known["plan"], known["audit"], known["asked"], strict=True):
        told = {k: v for k, v in asked.items() if k not in ("audit", "rng")}
        words = "; ".join(f"{k} {', '.join(map(str, v)) if isinstance(v, list) else v}" for k, v in told.items())
        yield plan, audit, str(min(days[plan])), str(max(days[plan])), words


def raised(findings: Findings) -> list[dict[str, Any]]:
    """The alarms, the newest first."""
    held = findings.curves.get("alarms") or {}
    return [dict(zip(held, values, strict=True)) for values in zip(*held.values(), strict=True)]


def _alarms(findings: Findings) -> Iterator[str]:
    for r in raised(findings):
        show = _show(r["metric"])
        way = "rose" if r["after"] > r["before"] else "fell"
        size = f"{abs(r['deviations']):.1f} standard deviations of its usual days"
        size = size if math.isfinite(r["deviations"]) else "and it had never varied before"
        yield (
            f"{_name(r['metric'], r['label'])} {way} from {show(r['before'])} to {show(r['after'])} about {r['since']}, {size} "
            f"(alarm of {r['at']})."
        )


def _quiet(findings: Findings) -> str:
    held = findings.provenance
    many, ready, drawn = len(raised(findings)), int(held.get("watched", 0)), int(held.get("quantities", 0))
    rate = short_percent(float(held.get("rate", 0.05)))
    found = f"{_many(many, 'alarm')}" if many else "No alarm"
    early = "" if ready == drawn else f"; {drawn - ready:,} of {drawn:,} have too few days yet, 28 are needed"
    watched = "quantity was" if ready == 1 else "quantities were"
    return f"{found}: {ready:,} {watched} watched, each with at most a {rate} chance of a false alarm in a year of daily looks{early}."


def _plans(findings: Findings) -> list[str]:
    """Where a question was asked another way from some day on, or in several ways at once."""
    days: dict[str, dict[str, set[Any]]] = {}
    for row in findings.rows():
        days.setdefault(row["audit"], {}).setdefault(row["plan"], set()).add(row["at"])
    told = []
    for audit, plans in days.items():
        spans = sorted((min(held), max(held)) for held in plans.values())
        for (_, ended), (began, _) in itertools.pairwise(spans):
            how = "changed" if began > ended else "was joined by another"
            told.append(
                f"The plan of {audit.replace('_', ' ')} {how} on {began}: the numbers of each are lines of their own."
            )
    return told


def _doubts(findings: Findings) -> list[str]:
    restless = findings.provenance.get("closely_related_days") or []
    if not restless:
        return []
    return [
        f"Neighbouring days of {listing(restless, 3)} resemble one another more than the alarm allows for: there false alarms "
        "are likelier than it says."
    ]


def _standing(line: Line) -> str:
    """Where a quantity is now, and where it has been."""
    show, name, known = _show(line.metric), _name(line.metric, line.label), line.known
    if not known:
        return f"{name} is undefined on all {len(line.at):,} days."
    day, now = known[-1]
    lost = (
        f" It is undefined on {len(line.at) - len(known):,} of {len(line.at):,} days."
        if len(known) < len(line.at)
        else ""
    )
    if len(known) == 1:
        return f"{name} was {show(now)} on {day}.{lost}"
    low, high = min(x for _, x in known), max(x for _, x in known)
    return f"{name} was {show(now)} on {day}; since {known[0][0]} it lay between {show(low)} and {show(high)} ({len(known):,} days).{lost}"


def _name(metric: str, label: str) -> str:
    return f"{metric_title(metric)}{f' ({label})' if label else ''}"


def _show(metric: str) -> Callable[[float], str]:
    return percent if is_share(metric) else number


def _many(count: int, noun: str) -> str:
    """A number of things.

    >>> _many(1, "day"), _many(2, "day")
    ('1 day', '2 days')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"
