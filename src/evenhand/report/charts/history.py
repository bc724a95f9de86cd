"""A history as lines over time: a small chart per slice, intervals as bands, alarms marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.report.charts.drawing import Panel, Picture, chart, distinct, drawable, records
from evenhand.report.charts.series import Line, lines
from evenhand.report.charts.shapes import axis_format
from evenhand.report.words.intervals import interval_text
from evenhand.report.words.phrases import metric_title, value_format, value_text
from evenhand.report.words.text import counted

MOST_PANELS = 24
HEIGHT = 150


@chart("trend", title="Over time", unless=lambda findings: "" if "at" in findings.columns else "it holds no days")
def trend(findings: Findings) -> Picture:
    """A panel per metric, slice and group; plans that ask the same follow one another in it, as lines of their own.

    Panels of one metric share their scale. Those with alarms come first where there are too many to draw.
    """
    raised: dict[int, list[tuple[Any, Any]]] = {}
    alarms = findings.curves.get("alarms") or {"line": [], "at": [], "since": []}
    for place, at, since in zip(alarms["line"], alarms["at"], alarms["since"], strict=True):
        raised.setdefault(place, []).append((at, since))
    drawn = lines(findings)
    panels: dict[tuple[str, str], list[int]] = {}
    for place, line in enumerate(drawn):
        panels.setdefault((line.metric, line.label), []).append(place)
    order = list(panels)
    if len(panels) > MOST_PANELS:
        order = sorted(panels, key=lambda key: not any(p in raised for p in panels[key]))[:MOST_PANELS]
    charts = tuple(
        _panel(
            [drawn[p] for p in panels[key]], [a for p in panels[key] for a in raised.get(p, [])], _span(drawn, key[0])
        )
        for key in order
    )
    note = "The band is the interval of each day." + (
        " A dashed line is an alarm; the shade before it, since when." if raised else ""
    )
    if len(panels) > MOST_PANELS:
        note += f" {MOST_PANELS} of {len(panels):,} quantities are drawn, those with alarms first; the table has all."
    days, metrics = (
        sorted({day for line in drawn for day in line.at}),
        distinct(metric_title(line.metric) for line in drawn),
    )
    count = sum(map(len, raised.values()))
    many = counted(count, "alarm") if count else "no alarm"
    text = f"{', '.join(metrics)} from {days[0]} to {days[-1]}, {len(drawn):,} lines, {many}."
    return Picture(charts, _table(drawn), text, note, lead=False)


def _span(drawn: Sequence[Line], metric: str) -> list[float] | None:
    """The scale that all panels of a metric share: its estimates, with some room; wide intervals may run off."""
    values = [x for line in drawn if line.metric == metric for x in line.estimate if math.isfinite(x)]
    if not values:
        return None
    low, high = min(values), max(values)
    room = (high - low) * 0.25 or abs(high) * 0.05 or 1.0
    return [low - room, high + room]


def _panel(parts: Sequence[Line], alarms: Sequence[tuple[Any, Any]], span: list[float] | None) -> Panel:
    metric = parts[0].metric
    rows = [
        (str(d), y, low, high, line.plan)
        for line in parts
        for d, y, low, high in zip(line.at, line.estimate, line.low, line.high, strict=True)
    ]
    days, ys, lows, highs, plans = (list(column) for column in zip(*rows, strict=True))
    texts = [value_text(y, metric) for y in ys]
    ranges = [interval_text(a, b, value_format(metric)) for a, b in zip(lows, highs, strict=True)]
    base = alt.Chart(records(day=days, y=ys, low=lows, high=highs, plan=plans, value_text=texts, range_text=ranges))
    x = alt.X("day:T", title=None, scale=alt.Scale(type="utc"), axis=alt.Axis(format="%-d %b %y", tickCount=4))
    scale = alt.Scale(domain=span, zero=False) if span else alt.Scale(zero=False)
    y = alt.Y(
        "y:Q",
        title=None,
        scale=scale,
        axis=alt.Axis(format=axis_format([v for v in ys if math.isfinite(v)], metric), tickCount=4),
    )
    tips = [alt.Tooltip("day:T", title="day", format="%Y-%m-%d"), alt.Tooltip("value_text:N", title="value"),
            alt.Tooltip("range_text:N", title="interval"), alt.Tooltip("plan:N", title="plan")]  # fmt: skip
    layers = [
        *_marks(alarms, x),
        base.mark_area(style="gap", clip=True).encode(
            x=x, y=alt.Y("low:Q", title=None, scale=scale), y2="high:Q", detail="plan:N"
        ),
        base.mark_line(clip=True).encode(x=x, y=y, detail="plan:N"),
        base.mark_point(size=16).encode(x=x, y=y, tooltip=tips),
    ]
    title = f"{metric_title(metric)}{f': {parts[0].label}' if parts[0].label else ''}"
    return Panel(alt.layer(*layers), title, height=HEIGHT)


def _marks(alarms: Sequence[tuple[Any, Any]], x: Any) -> list[Any]:
    """The days of the alarms, and the stretch from the day that each dates the change to."""
    if not alarms:
        return []
    base = alt.Chart(records(day=[str(at) for at, _ in alarms], since=[str(since) for _, since in alarms]))
    tips = [
        alt.Tooltip("day:T", title="alarm of", format="%Y-%m-%d"),
        alt.Tooltip("since:T", title="since about", format="%Y-%m-%d"),
    ]
    return [
        base.mark_rect(style="gap").encode(x=alt.X("since:T", title=None, scale=alt.Scale(type="utc")), x2="day:T"),
        base.mark_rule(style="reference").encode(x=x, tooltip=tips),
    ]


def _table(drawn: Sequence[Line]) -> dict[str, list[Any]]:
    """The numbers behind the lines, the newest first."""
    rows = [
        (day, line.metric, line.label, y, low, high)
        for line in drawn
        for day, y, low, high in zip(line.at, line.estimate, line.low, line.high, strict=True)
    ]
    rows.sort(key=lambda row: row[0], reverse=True)
    columns = zip(*rows, strict=True) if rows else ([] for _ in range(6))
    named = dict(zip(("at", "metric", "of", "estimate", "low", "high"), (list(c) for c in columns), strict=True))
    named["at"] = list(map(str, named["at"]))
    return {n: [drawable(v) for v in c] for n, c in named.items() if n != "of" or any(c)}
