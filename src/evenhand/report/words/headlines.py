"""The headline of a result: its answer in one sentence that people can repeat in a meeting, and its uncertainty.

An audit whose answer takes more than the first sentence of its summary declares a headline in a module of this folder called
`headline_*`, with `@headline("audit")`. Shares are rounded to what people say (92%, not 92.37%); the exact numbers and their
intervals are in the table.
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
from evenhand.report.words.intervals import interval_text
from evenhand.report.words.phrases import is_share
from evenhand.report.words.text import in_words, number, percent, short_percent

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer as a sentence.

    Attributes
    ----------
    text : the sentence.
    uncertainty : its interval or what is doubtful about it, if anything.
    repeats : the metric, or the kind of chart, whose own sentence would only repeat it.
    where : the label of the slice it is about.
    row : the row whose sentence would only repeat it.
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
    for module in pkgutil.iter_modules(evenhand.report.words.__path__):
        if module.name.startswith("headline_"):
            importlib.import_module(f"evenhand.report.words.{module.name}")
    write = HEADLINES.get(findings.audit)
    return write(findings) if write and len(findings) else None


def rounded_percent(share: float) -> str:
    """A share in whole percent; finer only where that would round to 0% or 100%.

    >>> rounded_percent(0.9237), rounded_percent(0.0042), rounded_percent(0.9962), rounded_percent(1.0), rounded_percent(0.99998)
    ('92%', '0.42%', '99.6%', '100%', '99.998%')
    """
    if not 0 < share < 1:
        return f"{100 * share:.0f}%"
    room = 100 * min(share, 1 - share)
    digits = 0 if room >= 1 else min(6, -math.floor(math.log10(room)) + (share < 0.5))
    return f"{100 * share:.{digits}f}%"


def distinct_texts(metric: str, *values: float) -> list[str]:
    """Values of a metric with as few digits as distinguish them.

    >>> distinct_texts("gini", 0.534, 0.6762), distinct_texts("gini", 0.9940, 0.9946), distinct_texts("top_share(p=0.1)", 0.372, 0.51)
    (['0.53', '0.68'], ['0.994', '0.995'], ['37%', '51%'])
    """

    def fixed(digits: int) -> Callable[[float], str]:
        return lambda v: f"{v:.{digits}f}" if abs(v) < 100 and v != round(v) else number(v)

    formats: list[Callable[[float], str]] = (
        [rounded_percent, percent] if is_share(metric) else [fixed(2), fixed(3), fixed(4)]
    )
    texts: list[str] = []
    for show in formats:
        texts = [show(v) for v in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def is_finite(value: Any) -> bool:
    """Whether there is a finite number."""
    return math.isfinite(read_number(value))


def interval(row: Row, level: float, show: Callable[[float], str] = rounded_percent) -> str:
    """The interval of a row in rounded numbers; empty where an end is missing or infinite."""
    return interval_text(row["low"], row["high"], show, level=level) if has_interval(row) else ""


def has_interval(row: Row) -> bool:
    """Whether both ends of the interval of a row are finite."""
    return is_finite(row["low"]) and is_finite(row["high"])


def intervals(rows: Mapping[str, Row], level: float) -> str:
    """The intervals of a few rows, each after its name."""
    bounded = {name: row for name, row in rows.items() if has_interval(row)}
    if len(bounded) < 2:
        return "".join(interval(row, level) for row in bounded.values())
    texts = (f"{name} {interval_text(row['low'], row['high'], rounded_percent)}" for name, row in bounded.items())
    return f"{short_percent(level)} intervals: {', '.join(texts)}"


def named_slice(findings: Findings, row: Row, *, without: tuple[str, ...] = ()) -> str:
    """The slice of a row or a point, with the names of its columns: "source likes"."""
    names = [name for name in findings.slices if name not in without]
    return ", ".join(f"{name.replace('_', ' ')} {in_words(row[name])}" for name in names)
