"""Pictures of an experiment: what re-assignment gives and where the difference found stands; the arms' Lorenz curves."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import (
    Panel,
    Picture,
    chart,
    columns_of,
    distinct,
    holders,
    points,
    records,
    without_curve,
    word,
)
from evenhand.report.charts.shapes import Axis, lines, shares
from evenhand.report.words.phrases import metric_title
from evenhand.report.words.text import number as number_text
from evenhand.report.words.text import percent, plural

MOST_PANELS = 6
HEIGHT = 170
READ_AT = (0.5, 0.9, 0.99)


@chart("reassigned", title="What chance gives, and what was found", unless=without_curve("reassigned"))
def reassigned(findings: Findings) -> Picture:
    """Differences when who is in which arm is shuffled; the line is the difference found, the dashed one what volume gives."""
    curve = points(findings, "reassigned")
    named = distinct((p["where"], p["metric"]) for p in curve)
    panels: list[Panel] = []
    table: list[dict[str, Any]] = []
    for where, metric in named:
        bins = [p for p in curve if (p["where"], p["metric"]) == (where, metric)]
        distance = abs(bins[0]["found"] - bins[0]["chance"])
        out = sum(p["draws"] for p in bins if abs((p["low"] + p["high"]) / 2 - p["chance"]) >= distance)
        total = sum(p["draws"] for p in bins)
        table.append({
            "arm": where, "metric": metric, "found": bins[0]["found"], "unequal volume alone": bins[0]["chance"],
            "shuffles at least as far out": f"about {out / total:.1%}",
        })  # fmt: skip
        if len(panels) < MOST_PANELS:
            panels.append(_panel(bins, f"{metric_title(metric)}{f' ({where})' if where else ''}"))
    first = table[0]
    text = (
        f"For {metric_title(first['metric'])} the difference found is {number_text(first['found'])}, where shuffling who is in which arm "
        f"gives {number_text(first['unequal volume alone'])} on average."
    )
    more = f" {len(named) - MOST_PANELS:,} more are in the table." if len(named) > MOST_PANELS else ""
    note = f"Bars: differences when {_randomized(findings)} are dealt to the arms anew. Dashed: their mean.{more}"
    return Picture(tuple(panels), columns_of(table, *table[0]), text, note, lead=False)


def _panel(bins: list[dict[str, Any]], title: str) -> Panel:
    x = Axis("difference from control").on(alt.X, "x")
    edges = {"x": [p["low"] for p in bins], "x2": [p["high"] for p in bins]}
    bars = alt.Chart(records(**edges, y=[p["draws"] for p in bins], y2=[0] * len(bins)))
    bars = bars.mark_rect().encode(x=x, x2="x2:Q", y=alt.Y("y:Q", title="shuffles"), y2="y2:Q")
    rules = [
        alt.Chart(records(x=[bins[0][key]], text=[text])).mark_rule(**style).encode(x="x:Q", tooltip=[alt.Tooltip("text:N", title=" ")])
        for key, text, style in (
            ("chance", f"mean of the shuffles: {number_text(bins[0]['chance'])}", {"strokeDash": [5, 4]}),
            ("found", f"found: {number_text(bins[0]['found'])}", {"strokeWidth": 2.5}),
        )
    ]  # fmt: skip
    return Panel(alt.layer(bars, *rules), title, height=HEIGHT)


@chart("arms", title="Who holds how much in each arm, at equal volume", unless=without_curve("arms"))
def arms(findings: Findings) -> Picture:
    """Lorenz curves of the arms at equal volume: the further below the straight line, the less equal."""
    curve = points(findings, "arms")
    panels: list[Panel] = []
    table: list[dict[str, Any]] = []
    control = str(findings.words.get("control", "control"))
    for where in distinct(p["where"] for p in curve):
        of_slice = [p for p in curve if p["where"] == where]
        series = [str(of_slice[0]["arm"]), control]
        rows = [
            {"series": series[p["side"] == "control"], "x": p["population"], "y": p["share"]} for p in of_slice
        ]  # fmt: skip
        curves = {name: [(r["x"], r["y"]) for r in rows if r["series"] == name] for name in series}
        table += [{"arm": where, "curve": name} | _read_out(polygon) for name, polygon in curves.items() if polygon]
        if len(panels) < MOST_PANELS:
            panels.append(_curves(findings, rows, series, where))
    low, high = sorted((t for t in table[:2]), key=lambda t: t["bottom 90% hold"])[:: max(1, len(table[:2]) - 1)][:2]
    text = (
        f"The bottom 90% of {holders(findings)} hold {percent(high['bottom 90% hold'])} in {high['curve']} and "
        f"{percent(low['bottom 90% hold'])} in {low['curve']}."
    )
    shown = [{k: percent(v) if isinstance(v, float) else v for k, v in t.items()} for t in table]
    return Picture(tuple(panels), columns_of(shown, *shown[0]), text, "Straight: if all had the same.", lead=False)


def _read_out(curve: list[tuple[float, float]]) -> dict[str, float]:
    """Shares of the bottom parts of READ_AT, at the nearest corner of the curve."""
    return {f"bottom {100 * p:g}% hold": min(curve, key=lambda xy: abs(xy[0] - p))[1] for p in READ_AT}


def _curves(findings: Findings, rows: list[dict[str, Any]], series: list[str], where: str) -> Panel:
    across = shares(f"{holders(findings)}, from those with least to those with most")
    drawn = lines(
        rows, x=across, y=shares(f"share of all {word(findings, 'amount').replace('_', ' ')}"), series=series, small=True,
        tips={"series": "arm", "x": "bottom", "y": "hold"}, title=where, height=320,
    )  # fmt: skip
    equal = alt.Chart(records(x=[0.0, 1.0], y=[0.0, 1.0])).mark_line(style="reference").encode(x="x:Q", y="y:Q")
    return Panel(alt.layer(equal, drawn.chart), drawn.title, height=320, square=True)


@chart("detectable", title="What a test would find", unless=without_curve("detectable"))
def detectable(findings: Findings) -> Picture:
    """The smallest difference that is found with the planned power, by how many are randomised."""
    curve = points(findings, "detectable")
    panels = []
    for metric in distinct(p["metric"] for p in curve)[:MOST_PANELS]:
        of_metric = [p for p in curve if p["metric"] == metric and not math.isnan(read_number(p["detectable"]))]
        rows = [
            {"series": p["where"], "x": p["units"], "y": p["detectable"], "sure": p["note"] is None} for p in of_metric
        ]  # fmt: skip
        x = Axis(f"{_randomized(findings)} in the arm and control", scale={"type": "log"})
        if rows:
            panels.append(lines(
                rows, x=x, y=Axis("smallest difference found"), series=distinct(r["series"] for r in rows),
                tips={"series": "arm", "x": "randomised", "y": "difference"}, title=metric_title(metric), height=200,
            ))  # fmt: skip
    first = next(p for p in curve if p["times"] == 1)
    text = (
        f"With as many {_randomized(findings)} as in this log, a difference of {number_text(read_number(first['detectable']))} in "
        f"{metric_title(first['metric'])} would be found."
    )
    names = [n for n in ("where", "metric", "share", "units", "value", "detectable", "note") if n in curve[0]]
    note = "Hollow: beyond the log, by the trend within it."
    return Picture(tuple(panels), columns_of(curve, *names), text, note, lead=False)


def _randomized(findings: Findings) -> str:
    return plural(findings.words.get("randomized") or findings.words.get("unit") or "unit")
