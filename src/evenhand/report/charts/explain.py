"""A change as a waterfall: parts that add up to it, one panel for each way to split it."""

from __future__ import annotations

import math
from typing import Any

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import Panel, Picture, chart, long_table
from evenhand.report.charts.shapes import Axis, in_rows
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.explain import name_of
from evenhand.report.words.headlines import is_finite
from evenhand.report.words.labels import Row, word
from evenhand.report.words.phrases import metric_title, value_format
from evenhand.report.words.text import capitalized, plural, signed

SERIES = ("raises", "lowers", "in all")


def _has_no_parts(findings: Findings) -> str:
    parts = [r for r in findings.rows() if r["part"] not in ("change", "volume") and is_finite(r["estimate"])]
    return "" if any(r["part"] in ("stayed", "source", "group") for r in parts) else "the result has no parts"


@chart("waterfall", title="What the change is made of", unless=_has_no_parts)
def waterfall(findings: Findings) -> Picture:
    """Parts one after another, each from where the last one ended, and the change in all."""
    rows = list(findings.rows())
    change = next(r for r in rows if r["part"] == "change")
    lead = [r for r in rows if r["part"] == "volume" and is_finite(r["estimate"])]
    units, of = plural(word(findings, "unit")), f"Change of the {metric_title(change['metric'])}"
    ways = {
        f"{of} by {units} that entered, left or stayed": [r for r in rows if r["part"] in ("entry", "exit", "stayed")],
        f"{of} by {word(findings, 'source')}": [r for r in rows if r["part"] == "source"],
        f"{of} by {word(findings, 'group')}": [r for r in rows if r["part"] == "group"],
    }
    panels = tuple(
        _steps(findings, [*lead, *sorted(parts, key=_size, reverse=True)], change, title)
        for title, parts in ways.items()
        if parts and all(is_finite(r["estimate"]) for r in parts)
    )
    text = f"{of} of {signed(change['estimate'], value_format(change['metric']))}, split into parts that add up to it."
    return Picture(panels, long_table(findings), text, lead=False)


def _size(row: Row) -> float:
    return abs(read_number(row["estimate"]))


def _steps(findings: Findings, parts: list[Row], change: Row, title: str) -> Panel:
    """A bar per part; the smallest of many are drawn as one."""
    show, run = value_format(change["metric"]), 0.0
    bars: list[dict[str, Any]] = []
    steps = [(capitalized(name_of(findings, r).removeprefix("From ")), read_number(r["estimate"])) for r in parts]
    if len(steps) > SIZES.rows:
        steps = [*steps[: SIZES.rows - 1], ("All others", math.fsum(v for _, v in steps[SIZES.rows - 1 :]))]
    for name, value in steps:
        bars.append(_bar(name, run, run + value, signed(value, show), SERIES[value < 0]))
        run += value
    bars.append(_bar("Change", 0.0, read_number(change["estimate"]), signed(change["estimate"], show), SERIES[2]))
    return in_rows(
        bars, "span", x=Axis(format=".3~g"), tips={"label": "part", "text": "adds"}, series=SERIES, legend=False, zero=True,
        title=title, each=26,
    )  # fmt: skip


def _bar(name: str, start: float, end: float, text: str, series: str) -> dict[str, Any]:
    return {"label": name, "low": min(start, end), "high": max(start, end), "text": text, "series": series}
