"""The headline of a result: its answer in one sentence to repeat in a meeting, and its uncertainty.

An audit whose answer takes more than the first sentence of its summary declares one with `@headline("audit")`, in a module
of `sentences.AUDITS`. Shares are rounded to what people say (92%, not 92.37%); the table has the exact numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.sentences import writer_for
from evenhand.report.words.text import Row, interval_text, rounded_percent, short_percent


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
    writer_for(findings)  # loads the modules that declare headlines
    write = HEADLINES.get(findings.audit)
    return write(findings) if write and len(findings) else None


def is_finite(value: Any) -> bool:
    """Whether there is a finite number."""
    return math.isfinite(read_number(value))


def has_interval(row: Row) -> bool:
    """Whether both ends of the interval of a row are finite."""
    return is_finite(row["low"]) and is_finite(row["high"])


def interval(row: Row, level: float, show: Callable[[float], str] = rounded_percent) -> str:
    """The interval of a row in rounded numbers; empty where an end is missing or infinite."""
    return interval_text(row["low"], row["high"], show, level=level) if has_interval(row) else ""


def intervals(rows: Mapping[str, Row], level: float) -> str:
    """The intervals of a few rows, each after its name."""
    bounded = {name: row for name, row in rows.items() if has_interval(row)}
    if len(bounded) < 2:
        return "".join(interval(row, level) for row in bounded.values())
    texts = (f"{name} {interval_text(row['low'], row['high'], rounded_percent)}" for name, row in bounded.items())
    return f"{short_percent(level)} intervals: {', '.join(texts)}"
