"""The answer in one sentence that somebody can repeat in a meeting, and how sure it is.

An audit whose answer takes more than its first sentence has a judge in a module of this folder called `verdict_*`, declared
with `@judges("name")`. Shares are rounded to what people say (92%, not 92.37%): the numbers themselves stand below, with
their intervals.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import evenhand.report.words
from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.phrases import is_share
from evenhand.report.words.text import in_words, number, percent, short_percent

Row = Mapping[str, Any]
Show = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to say, and the interval or the doubt that belongs to it (nothing where there is none).

    `tells` : the metric, or the kind of chart, whose own sentence says no more than this one; `row` : the same for a single row;
    `where` : the slice it is about.
    """

    says: str
    sure: str = ""
    tells: str = ""
    where: str = ""
    row: Row | None = None


Judge = Callable[[Findings], Verdict | None]
JUDGES: dict[str, Judge] = {}


def judges(audit: str) -> Callable[[Judge], Judge]:
    """Declare who sums up the findings of an audit; None leaves it to the first sentence of the summary."""

    def declare(judge: Judge) -> Judge:
        JUDGES[audit] = judge
        return judge

    return declare


def verdict(findings: Findings) -> Verdict | None:
    """The one sentence of these findings; None where the first of the summary is as good."""
    for module in pkgutil.iter_modules(evenhand.report.words.__path__):
        if module.name.startswith("headline_"):
            importlib.import_module(f"evenhand.report.words.{module.name}")
    judge = JUDGES.get(findings.audit)
    return judge(findings) if judge and len(findings) else None


def brief(share: float) -> str:
    """A share as people say it: whole percents, finer only where a whole one would say all or nothing.

    >>> brief(0.9237), brief(0.0042), brief(0.9962), brief(1.0), brief(0.99998)
    ('92%', '0.42%', '99.6%', '100%', '99.998%')
    """
    if not 0 < share < 1:
        return f"{100 * share:.0f}%"
    room = 100 * min(share, 1 - share)
    digits = 0 if room >= 1 else min(6, -math.floor(math.log10(room)) + (share < 0.5))
    return f"{100 * share:.{digits}f}%"


def side_by_side(metric: str, *values: float) -> list[str]:
    """Values of a metric with the few digits that tell them apart.

    >>> side_by_side("gini", 0.534, 0.6762), side_by_side("gini", 0.9940, 0.9946), side_by_side("top_share(p=0.1)", 0.372, 0.51)
    (['0.53', '0.68'], ['0.994', '0.995'], ['37%', '51%'])
    """
    share = is_share(metric)
    tries: list[Show] = [brief, percent] if share else [lambda v, d=d: _few(v, d) for d in (2, 3, 4)]  # type: ignore[misc]
    shown = [number(v) for v in values]
    for show in tries:
        shown = [show(v) for v in values]
        if len(set(shown)) == len(set(values)):
            break
    return shown


def _few(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if abs(value) < 100 and value != round(value) else number(value)


def is_known(value: Any) -> bool:
    """Whether there is a finite number."""
    return math.isfinite(read_number(value))


def level_of(findings: Findings) -> float:
    """The coverage of the intervals."""
    return float(findings.provenance.get("level", 0.95))


def interval(row: Row, level: float, show: Show = brief) -> str:
    """The interval of a row, or nothing."""
    if not (is_known(row["low"]) and is_known(row["high"])):
        return ""
    return f"{short_percent(level)} interval {show(row['low'])} to {show(row['high'])}"


def intervals(rows: Mapping[str, Row], level: float) -> str:
    """The intervals of a few rows by name."""
    known = {name: row for name, row in rows.items() if interval(row, level)}
    if len(known) < 2:
        return next((interval(row, level) for row in known.values()), "")
    listed = (f"{name} {brief(row['low'])} to {brief(row['high'])}" for name, row in known.items())
    return f"{short_percent(level)} intervals: {', '.join(listed)}"


def slice_of(findings: Findings, row: Row, *, without: tuple[str, ...] = ()) -> str:
    """Which slice a row or a point is about, by the names of its columns: "source likes"."""
    named = [name for name in findings.slices if name not in without]
    return ", ".join(f"{name.replace('_', ' ')} {in_words(row[name])}" for name in named)
