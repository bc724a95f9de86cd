"""Pictures of rankings: shares by rank against chance, requests one by one, the rankings themselves; and bias curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.present.drawing import (
    MOST_ROWS,
    Panel,
    Picture,
    card_of,
    chart,
    distinct,
    ends,
    metric_title,
    records,
    series_colour,
    share_y,
    slice_labels,
    value_text,
    without_curve,
    word,
)
from evenhand.present.text import number, percent, plural, short_percent
from evenhand.present.theme import MOST_SERIES

MOST_PANELS = 4
CELL = 16
"""Pixels from one ranking to the next in a strip."""
READ_AT = (1, 3, 5, 10, 20, 50, 100)
"""Ranks that the table of a prefix curve reads out."""

Point = dict[str, Any]


def _points(findings: Findings, curve: str) -> list[Point]:
    """The points of a curve, each with the label of its slice."""
    columns = findings.curves[curve]
    where = slice_labels(findings, columns)
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) | {"where": w} for row, w in zip(rows, where, strict=True)]


@chart(
    "prefix",
    audits=("prefix",),
    title="Who stands near the top: shares by rank, and where random orders would keep them",
    unless=without_curve("prefix"),
)
def prefix(findings: Findings) -> Picture:
    """Share of each label among the first i, its share of the whole (dashed), and the band of random orders."""
    points = _points(findings, "prefix")
    slices = distinct(p["where"] for p in points)
    groups = distinct(p["group"] for p in points)
    drawn = groups[:1] if len(groups) == 2 else groups[:MOST_SERIES]
    parts = [(where, [g]) for where in slices for g in drawn]
    if len(parts) > MOST_PANELS:  # no room for a panel each: a line for each label, without bands
        parts = [(where, drawn) for where in slices]
    panels = [_share_panel(points, where, part, drawn, findings) for where, part in parts[:MOST_PANELS]]
    level = short_percent(float(findings.provenance.get("level", 0.95)))
    notes = [f"Band: where the line stays in {level} of random orders of the same items, rank by rank."]
    notes = notes if len(parts[0][1]) == 1 else []
    notes += ["Dashed: share of the whole."]
    if len(parts) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(parts)} slices are drawn.")
    return Picture(tuple(panels), _share_table(points), _shares_in_words(points, drawn), " ".join(notes))


def _share_panel(
    points: Sequence[Point], where: str, groups: Sequence[str], drawn: Sequence[str], findings: Findings
) -> Panel:
    points = [p for p in points if p["where"] == where and p["group"] in groups]
    data = records(
        series=[p["group"] for p in points], x=[p["rank"] for p in points], y=[p["share"] for p in points],
        overall=[p["overall"] for p in points], low=[p["low"] for p in points], high=[p["high"] for p in points],
        share_text=[percent(p["share"]) for p in points], overall_text=[percent(p["overall"]) for p in points],
    )  # fmt: skip
    x = _rank_axis(max((p["rank"] for p in points), default=1))
    quiet = series_colour(drawn, legend=False)
    loud = series_colour(drawn, word(findings, "group")) if len(groups) > 1 else quiet
    base = alt.Chart(data)
    tips = [
        alt.Tooltip("series:N", title="label"),
        alt.Tooltip("x:Q", title="top"),
        alt.Tooltip("share_text:N", title="share"),
        alt.Tooltip("overall_text:N", title="share of the whole"),
    ]
    band = base.mark_area(opacity=0.14).encode(x=x, y="low:Q", y2="high:Q", color=quiet)
    y = share_y("y", "share among the top i")
    layers = [
        *([band] if len(groups) == 1 else []),
        base.mark_line(strokeDash=[5, 4], strokeWidth=1.2).encode(x=x, y="overall:Q", color=quiet),
        base.mark_line(point={"size": 22}).encode(x=x, y=y, color=loud, tooltip=tips),
    ]
    title = ", ".join(filter(None, [where, groups[0] if len(groups) == 1 else ""]))
    return Panel(alt.layer(*layers), title, height=260)


def _rank_axis(deepest: int) -> Any:
    scale = alt.Scale(type="log", base=2, domain=[1, max(2, deepest)], nice=False)
    ticks = [t for t in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000) if t <= deepest]
    return alt.X("x:Q", title="top i ranks, log scale", scale=scale, axis=alt.Axis(values=ticks, format="d"))


def _share_table(points: Sequence[Point]) -> dict[str, list[Any]]:
    kept = [p for p in points if p["rank"] in READ_AT]
    table: dict[str, list[Any]] = {"slice": [p["where"] for p in kept]} if any(p["where"] for p in kept) else {}
    table |= {"label": [p["group"] for p in kept], "top": [p["rank"] for p in kept]}
    named = (("share", "share"), ("overall", "share of the whole"), ("low", "random from"), ("high", "random to"))
    return table | {title: [percent(p[name]) for p in kept] for name, title in named}


def _shares_in_words(points: Sequence[Point], groups: Sequence[str]) -> str:
    """The top 10 of the slice in which the first label is furthest from its share of the whole."""

    def at(where: str, group: str) -> Point:
        mine = [p for p in points if p["group"] == group and p["where"] == where]
        return next((p for p in mine if p["rank"] == 10), mine[-1])

    slices = distinct(p["where"] for p in points if p["group"] == groups[0])
    where = max(slices, key=lambda w: abs(at(w, groups[0])["share"] - at(w, groups[0])["overall"]))
    shown = [at(where, g) for g in groups[:3] if any(p["group"] == g and p["where"] == where for p in points)]
    parts = [
        f"{percent(p['share'])} of the top {p['rank']} are {p['group']}, of the whole {percent(p['overall'])}: {_against_chance(p)}"
        for p in shown
    ]
    return (f"{where}: " if where else "") + "; ".join(parts) + "."


def _against_chance(point: Point) -> str:
    if point["share"] < point["low"] - 1e-12:
        return "fewer than random orders give"
    return "more than random orders give" if point["share"] > point["high"] + 1e-12 else "as random orders give"


@chart("requests", audits=("prefix",), title="Request by request, against chance", unless=without_curve("requests"))
def requests(findings: Findings) -> Picture:
    """The value of each request, highest first, beside what a random order of the same items would give."""
    points = _points(findings, "requests")
    metrics = distinct(p["metric"] for p in points)
    panels = [_request_panel([p for p in points if p["metric"] == m], m) for m in metrics[:MOST_PANELS]]
    table = {
        "request": [_request_name(p) for p in points],
        "metric": [p["metric"] for p in points],
        "value": [value_text(p["estimate"]) for p in points],
        "chance": ["" if not math.isfinite(p["chance"]) else value_text(p["chance"]) for p in points],
        "labelled items": [p["items"] for p in points],
    }
    note = "The diamond is what a random order of the same items gives on average."
    if any(len([p for p in points if p["metric"] == m]) > MOST_ROWS for m in metrics):
        note += f" Where there are more than {MOST_ROWS} requests, the highest and the lowest are drawn."
    return Picture(tuple(panels), table, _requests_in_words(findings, points, metrics), note)


def _request_name(point: Point) -> str:
    return f"{point['request']} ({point['where']})" if point["where"] else str(point["request"])


def _request_panel(points: Sequence[Point], metric: str) -> Panel:
    ordered = sorted(points, key=lambda p: -p["estimate"])
    shown = ends([_request_name(p) for p in ordered])
    kept = [p for p in ordered if _request_name(p) in shown]
    data = records(
        label=[_request_name(p) for p in kept], x=[p["estimate"] for p in kept], chance=[p["chance"] for p in kept],
        items=[p["items"] for p in kept], value_text=[value_text(p["estimate"]) for p in kept],
    )  # fmt: skip
    base = alt.Chart(data).encode(y=alt.Y("label:N", sort=shown, title=None, axis=alt.Axis(labelLimit=170, grid=True)))
    tips = [
        alt.Tooltip("label:N", title="request"),
        alt.Tooltip("value_text:N", title="value"),
        alt.Tooltip("chance:Q", title="chance alone", format=".4~g"),
        alt.Tooltip("items:Q", title="labelled items"),
    ]
    largest = max(v for p in kept for v in (p["estimate"], p["chance"], 0.0) if math.isfinite(v))
    top = 1.0 if 0.4 < largest <= 1 else 1.15 * largest or 1.0
    x = alt.X("x:Q", title=None, scale=alt.Scale(domain=[0, top]), axis=alt.Axis(tickCount=5, format="~g"))
    layers = [
        base.mark_rule(style="crowd").encode(x=x, x2="chance:Q"),
        base.mark_point(style="chance").encode(x="chance:Q"),
        base.mark_point().encode(x=x, tooltip=tips),
    ]
    return Panel(alt.layer(*layers), metric_title(metric), height=max(60, 17 * len(shown)))


def _requests_in_words(findings: Findings, points: Sequence[Point], metrics: Sequence[str]) -> str:
    """Which request is the furthest from even, by which metric, and how many are worse than chance."""
    unit = word(findings, "unit")
    furthest: dict[str, list[str]] = {}
    counts = []
    for metric in metrics[:3]:
        mine = [p for p in points if p["metric"] == metric]
        above = sum(p["estimate"] > p["chance"] for p in mine if math.isfinite(p["chance"]))
        worst = max(mine, key=lambda p: p["estimate"])
        card = card_of(metric)
        symbol = card.symbol if card is not None and card.symbol else metric
        largest = " (the largest possible)" if math.isclose(worst["estimate"], 1.0) else ""
        furthest.setdefault(_called(worst, unit), []).append(f"{symbol} {number(worst['estimate'])}{largest}")
        every = len(mine) == _measured(findings, metric)
        part = f"{above:,} of {len(mine):,}" if every else f"about {above / len(mine):.0%} of all"
        counts.append(f"{part} {plural(unit)} by {symbol}")
    listed = [
        f"{name}{'' if i else ' is the furthest from even'}: {' and '.join(v)}"
        for i, (name, v) in enumerate(furthest.items())
    ]
    return (
        f"{'; '.join(listed)}. Less even than a random order of their items would be on average: {', '.join(counts)}."
    )


def _measured(findings: Findings, metric: str) -> int:
    """Requests with a value; of many, the points of the curve are an even selection."""
    rows = [r for r in findings.rows() if r["metric"] == metric and r["undefined"] is not None]
    return sum(int(r["units"] - r["undefined"]) for r in rows)


def _called(point: Point, unit: str) -> str:
    """A request as a sentence can begin with it: a bare number needs to be told what it is the number of."""
    name = str(point["request"])
    bare = name.replace(".", "", 1).replace("-", "", 1).isdigit()
    named = f"{unit.replace('_', ' ')} {name}" if bare else name
    return f"{named} ({point['where']})" if point["where"] else named


@chart("strip", audits=("prefix",), title="The rankings themselves", unless=without_curve("strip"))
def strip(findings: Findings) -> Picture:
    """Every ranking as a row of cells, one per rank, coloured by label; unknown labels are left blank."""
    points = _points(findings, "strip")
    rows = distinct(_request_name(p) for p in points)
    groups = distinct(str(p["group"]) for p in points if p["group"] is not None)
    common = sorted(groups, key=lambda g: -sum(p["group"] == g for p in points))
    curve = distinct((findings.curves.get("prefix") or {}).get("group", []))  # the same colours as in the curve
    named = sorted(common[: MOST_SERIES - 1] if len(common) > MOST_SERIES else common)
    named.sort(key=lambda g: curve.index(g) if g in curve else len(curve))
    series = [None if p["group"] is None else p["group"] if p["group"] in named else "other" for p in points]
    shown = named + (["other"] if len(common) > len(named) else [])
    data = records(
        label=[_request_name(p) for p in points], series=series, x=[p["rank"] for p in points],
        end=[p["rank"] + 0.94 for p in points], group_text=[p["group"] or "unknown" for p in points],
    )  # fmt: skip
    deepest = max(p["rank"] for p in points)
    ticks = [t for t in (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100) if t <= deepest]
    scale = alt.Scale(domain=[1, deepest + 1], nice=False)
    x = alt.X("x:Q", title="rank", scale=scale, axis=alt.Axis(values=ticks, grid=False))
    y = alt.Y("label:N", sort=rows, title=None, axis=alt.Axis(labelLimit=170), scale=alt.Scale(padding=0.15))
    tips = [
        alt.Tooltip("label:N", title="request"),
        alt.Tooltip("x:Q", title="rank"),
        alt.Tooltip("group_text:N", title="label"),
    ]
    cells = alt.Chart(data).transform_filter("datum.series != null")
    colour = series_colour(shown, word(findings, "group"))
    marks = cells.mark_bar(cornerRadiusEnd=0).encode(x=x, x2="end:Q", y=y, color=colour, tooltip=tips)
    table = {
        "request": rows,
        "labels from the top": [
            " ".join(str(p["group"] or "–") for p in points if _request_name(p) == row)[:300] for row in rows
        ],
    }
    says = f"{len(rows):,} rankings with their labels rank by rank, down to rank {deepest}."
    note = "Furthest from the whole first, closest last." if len(rows) > 1 else ""
    return Picture((Panel(marks, height=max(60, CELL * len(rows))),), table, says, note, lead=False)


@chart("bias", audits=("viewpoints",), title="Mean metric value by ranking bias", unless=without_curve("bias"))
def bias(findings: Findings) -> Picture:
    """Mean value of each metric along the ranking bias, a line per set: figures 1 and 2 of Draws et al."""
    points = _points(findings, "bias")
    metrics = distinct(p["metric"] for p in points)
    sets = distinct(p["set"] for p in points)
    panels = [_bias_panel([p for p in points if p["metric"] == m], m, sets) for m in metrics]
    table = {name: [p[name] for p in points] for name in ("metric", "set", "alpha")}
    table["mean"] = [number(p["mean"]) for p in points]
    settings = len({p["alpha"] for p in points})
    says = f"Means of {', '.join(map(metric_title, metrics))} for {len(sets)} sets over {settings} settings."
    note = "Left of 0 the first side is favoured, right of 0 the other. Values above 1 are cut off, as in the paper."
    return Picture(tuple(panels), table, says, note)


def _bias_panel(points: Sequence[Point], metric: str, sets: Sequence[str]) -> Panel:
    data = records(
        series=[p["set"] for p in points], x=[p["alpha"] for p in points], y=[p["mean"] for p in points],
        chance=[p["chance"] for p in points], value_text=[number(p["mean"]) for p in points],
    )  # fmt: skip
    highest = max((p["mean"] for p in points), default=1.0)
    y = alt.Y(
        "y:Q", title="mean value", scale=alt.Scale(domain=[0, 1.0 if highest > 0.5 else 0.25], clamp=False),
        axis=alt.Axis(tickCount=5, format="~g"),
    )  # fmt: skip
    x = alt.X("x:Q", title="ranking bias", axis=alt.Axis(values=[-1, -0.5, 0, 0.5, 1], format="~g"))
    tips = [
        alt.Tooltip("series:N", title="set"),
        alt.Tooltip("x:Q", title="ranking bias", format="~g"),
        alt.Tooltip("value_text:N", title="mean"),
    ]
    base = alt.Chart(data).encode(color=series_colour(sets, "set"))
    layers = [
        base.mark_line(clip=True, point={"size": 20}).encode(x=x, y=y, tooltip=tips),
        base.mark_line(strokeDash=[3, 3], strokeWidth=1).encode(x=x, y="chance:Q"),
    ]
    return Panel(alt.layer(*layers), metric_title(metric), height=280)
