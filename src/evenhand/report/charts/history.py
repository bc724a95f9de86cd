"""A history as lines over time: a small chart per slice, intervals as bands, alarms marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.report.charts.drawing import Panel, Picture, chart, columns_of, drawn_note, records, split
from evenhand.report.charts.shapes import Axis, axis_format
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.history import Line, alarms, lines
from evenhand.report.words.phrases import metric_title, value_format, value_text
from evenhand.report.words.text import interval_text


@chart("trend", title="Over time", unless=lambda findings: "" if "at" in findings.columns else "it has no days")
def trend(findings: Findings) -> Picture:
    """A panel per metric, slice and group; plans that ask the same follow one another in it, as lines of their own.

    Panels of one metric share their scale. Those with alarms come first where there are too many to draw.
    """
    raised = split(alarms(findings), lambda alarm: alarm["line"])
    drawn = lines(findings)
    panels = split(range(len(drawn)), lambda i: (drawn[i].metric, drawn[i].label))
    order = list(panels)
    if len(panels) > SIZES.trend_panels:
        order = sorted(panels, key=lambda key: not any(i in raised for i in panels[key]))[: SIZES.trend_panels]
    fitted = _trend_lines(findings)
    charts = tuple(
        _panel(
            [drawn[i] for i in panels[key]],
            [a for i in panels[key] for a in raised.get(i, [])],
            [end for i in panels[key] for end in fitted.get(i, [])],
            _span(drawn, key[0]),
        )
        for key in order
    )
    notes = ["The band is the interval of each day."]
    notes += ["The straight line is the trend over the whole series."] if fitted else []
    notes += (
        ["A dashed line is an alarm; the shading runs from where the shift began to where it ended."] if raised else []
    )
    notes.append(drawn_note(len(order), len(panels), "quantities (those with alarms first)"))
    rows = [point for line in drawn for point in _points(line)]
    rows.sort(key=lambda row: row["day"], reverse=True)
    columns = {"day": "at", "metric": "metric", "label": "of", "y": "estimate", "low": "low", "high": "high"}
    table = {name: column for name, column in columns_of(rows, **columns).items() if name != "of" or any(column)}
    return Picture(charts, table, " ".join(filter(None, notes)))


def _points(line: Line) -> list[dict[str, Any]]:
    show = value_format(line.metric)
    return [
        {
            "day": str(day), "y": y, "low": low, "high": high, "plan": line.plan, "value_text": value_text(y, line.metric),
            "range_text": interval_text(low, high, show), "metric": line.metric, "label": line.label,
        }
        for day, y, low, high in zip(line.at, line.estimate, line.low, line.high, strict=True)
    ]  # fmt: skip


def _span(drawn: Sequence[Line], metric: str) -> tuple[float, float] | None:
    """The scale that all panels of a metric share: its estimates, with some room; wide intervals may run off."""
    values = [x for line in drawn if line.metric == metric for x in line.estimate if math.isfinite(x)]
    if not values:
        return None
    low, high = min(values), max(values)
    room = (high - low) * 0.25 or abs(high) * 0.05 or 1.0
    return low - room, high + room


def _trend_lines(findings: Findings) -> dict[int, list[dict[str, Any]]]:
    columns = findings.curves.get("trends") or {"line": [], "first_day": [], "last_day": [], "first": [], "last": []}
    names = ("line", "first_day", "last_day", "first", "last")
    return {
        line: [{"day": str(first_day), "y": first, "line": line}, {"day": str(last_day), "y": last, "line": line}]
        for line, first_day, last_day, first, last in zip(*(columns[name] for name in names), strict=True)
    }


def _panel(
    parts: Sequence[Line],
    raised: Sequence[dict[str, Any]],
    trend_ends: Sequence[dict[str, Any]],
    span: tuple[float, float] | None,
) -> Panel:
    metric, label = parts[0].metric, parts[0].label
    rows = [point for line in parts for point in _points(line)]
    base = alt.Chart(records(rows))
    x = Axis(format="%-d %b %y", ticks=4, days=True).on(alt.X, "day")
    form = axis_format([r["y"] for r in rows if math.isfinite(r["y"])], metric)
    y = Axis(format=form, domain=span, ticks=4, scale={"zero": False}).on(alt.Y, "y")
    low = alt.Y("low:Q", title=None, scale=y["scale"])
    day = {"format": "%Y-%m-%d"}
    tips = [alt.Tooltip("day:T", title="day", **day), alt.Tooltip("value_text:N", title="value"),
            alt.Tooltip("range_text:N", title="interval"), alt.Tooltip("plan:N", title="plan")]  # fmt: skip
    layers = [
        base.mark_area(style="gap", clip=True).encode(x=x, y=low, y2="high:Q", detail="plan:N"),
        base.mark_line(clip=True).encode(x=x, y=y, detail="plan:N"),
        base.mark_point(size=16).encode(x=x, y=y, tooltip=tips),
    ]
    if trend_ends:
        fitted = alt.Chart(records(trend_ends)).mark_line(style="trend", clip=True)
        layers.append(fitted.encode(x=x, y=y, detail="line:N"))
    if raised:
        last = str(max(day for line in parts for day in line.at))
        marks = alt.Chart(
            records({"day": str(a["at"]), "since": str(a["since"]), "until": str(a["until"] or last)} for a in raised)
        )
        since = alt.X("since:T", title=None, scale=alt.Scale(type="utc"))
        tips = [alt.Tooltip("day:T", title="alarm on", **day), alt.Tooltip("since:T", title="since about", **day)]
        shade = marks.mark_rect(style="gap").encode(x=since, x2="until:T")
        layers = [shade, marks.mark_rule(style="reference").encode(x=x, tooltip=tips), *layers]
    return Panel(alt.layer(*layers), f"{metric_title(metric)}{f': {label}' if label else ''}", height=SIZES.short)
