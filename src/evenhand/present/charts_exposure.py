"""Pictures of exposure: who gets it against the target and against relevance, and systems beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.present.drawing import (
    MOST_ROWS,
    SHARE,
    Panel,
    Picture,
    chart,
    distinct,
    drawable,
    metric_title,
    records,
    series_colour,
    slice_labels,
    value_text,
    without_curve,
)
from evenhand.present.text import percent

ROW = 26
MOST_PANELS = 6
MOST_METRICS = 12
FEW = 6
ONE_SCALE = alt.Scale(domain=[0, 1])
"""Panels stand beside each other: the same length must mean the same share in all."""
NEAR = 0.01
"""Shares closer than this are called about the same."""
ARROWS = {"lower": "↓", "higher": "↑", "ideal": "→"}

Point = dict[str, Any]


def _points(findings: Findings) -> list[Point]:
    """The exposure of every group in every slice."""
    columns = findings.curves["exposure"]
    where = slice_labels(findings, columns)
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) | {"where": w} for row, w in zip(rows, where, strict=True)]


def _known(value: Any) -> bool:
    return value is not None and math.isfinite(value)


@chart(
    "exposure", audits=("exposure",), title="Who gets the exposure, and the target", unless=without_curve("exposure")
)
def exposure(findings: Findings) -> Picture:
    """Share of exposure of each group with its interval, and a tick at the target; one panel per slice, or per group."""
    points = _points(findings)
    slices, groups = distinct(p["where"] for p in points), distinct(p["group"] for p in points)
    if len(slices) <= MOST_PANELS:
        parts = [(where, "group", [p for p in points if p["where"] == where]) for where in slices]
    else:
        parts = [(g, "where", [p for p in points if p["group"] == g]) for g in groups[:MOST_PANELS]]
    panels = tuple(_share_panel(inside, by, title) for title, by, inside in parts)
    table = {
        "slice": [p["where"] for p in points], "group": [p["group"] for p in points],
        **{name: [drawable(p[name]) for p in points] for name in ("exposure", "low", "high", "target", "items")},
    }  # fmt: skip
    if slices == [""]:
        table.pop("slice")
    return Picture(panels, table, _exposure_in_words(points), "Tick: the target. Line: the interval over requests.")


def _share_panel(points: Sequence[Point], by: str, title: str) -> Panel:
    shown = sorted(points, key=lambda p: -p["exposure"] if _known(p["exposure"]) else 0.0)[:MOST_ROWS]
    labels = [p[by] for p in shown]
    data = records(
        label=labels, x=[p["exposure"] for p in shown], low=[p["low"] for p in shown], high=[p["high"] for p in shown],
        aim=[p["target"] for p in shown], text=[percent(p["exposure"]) for p in shown],
        aim_text=[percent(p["target"]) for p in shown],
    )  # fmt: skip
    base = alt.Chart(data).encode(y=alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labelLimit=170)))
    tips = [
        alt.Tooltip("label:N", title=" "),
        alt.Tooltip("text:N", title="share of exposure"),
        alt.Tooltip("aim_text:N", title="target"),
    ]
    axis = alt.X("x:Q", title="share of exposure", scale=ONE_SCALE, axis=alt.Axis(format=SHARE, tickCount=5))
    layers = [
        base.mark_bar(height=12).encode(x=axis, tooltip=tips),
        base.mark_rule(style="whisker").encode(x="low:Q", x2="high:Q"),
        base.mark_tick(style="chosen", thickness=2.5, size=20).encode(x="aim:Q", tooltip=tips),
        base.mark_text(style="value", align="left", dx=10).encode(x=alt.value("width"), text="text:N"),
    ]
    return Panel(alt.layer(*layers), title, height=max(64, ROW * len(shown)))


def _exposure_in_words(points: Sequence[Point]) -> str:
    gaps = [(p["exposure"] - p["target"], p) for p in points if _known(p["exposure"]) and _known(p["target"])]
    if not gaps:
        return "No labelled item was exposed."
    gap, most = max(gaps, key=lambda pair: abs(pair[0]))
    where = f"{most['where']}: " if most["where"] else ""
    side = "above" if gap >= 0 else "below"
    found = f"{where}{most['group']} gets {percent(most['exposure'])} of the exposure, {side} its target of {percent(most['target'])}"
    if _known(most["low"]) and _known(most["high"]) and most["low"] <= most["target"] <= most["high"]:
        return f"{found}; other requests like these could well close that gap, the largest there is."
    return f"{found}: the largest gap there is."


def _no_relevance(findings: Findings) -> str:
    points = findings.curves.get("exposure") or {}
    return "" if any(_known(y) for y in points.get("relevance", [])) else "it holds no relevance"


@chart("relevance", audits=("exposure",), title="Exposure against relevance", unless=_no_relevance)
def relevance(findings: Findings) -> Picture:
    """Each group's share of all relevance joined to its share of exposure: in proportion, the two coincide."""
    points = [p for p in _points(findings) if _known(p["relevance"]) and _known(p["exposure"])]
    slices = distinct(p["where"] for p in points)
    panels = tuple(_joined([p for p in points if p["where"] == w], w) for w in slices[:MOST_PANELS])
    table = {
        "slice": [p["where"] for p in points], "group": [p["group"] for p in points],
        **{name: [drawable(p[name]) for p in points] for name in ("relevance", "exposure")},
    }  # fmt: skip
    rest = f"{MOST_PANELS} of {len(slices)} slices are drawn; the table has all." if len(slices) > MOST_PANELS else ""
    gap, most = max(((p["exposure"] - p["relevance"], p) for p in points), key=lambda pair: abs(pair[0]))
    lead = f"{most['where']}: " if most["where"] else ""
    part = "about its part" if abs(gap) < NEAR else f"{'more' if gap > 0 else 'less'} than its part"
    says = (
        f"{lead}{most['group']} has {percent(most['relevance'])} of the relevance and gets {percent(most['exposure'])} of "
        f"the exposure, {part}."
    )
    return Picture(panels, table, says, rest)


def _joined(points: Sequence[Point], title: str) -> Panel:
    shown = sorted(points, key=lambda p: p["exposure"] - p["relevance"])[:MOST_ROWS]
    labels = [p["group"] for p in shown]
    has, gets = [p["relevance"] for p in shown], [p["exposure"] for p in shown]
    names = ["of relevance", "of exposure"]
    y = alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labelLimit=170))
    joined = (
        alt.Chart(records(label=labels, low=has, high=gets)).mark_rule(style="link").encode(y=y, x="low:Q", x2="high:Q")
    )
    shares = [*has, *gets]
    series = [name for name in names for _ in labels]
    dots = alt.Chart(records(label=labels * 2, series=series, x=shares, text=[percent(v) for v in shares]))
    marks = dots.mark_point().encode(
        x=alt.X("x:Q", title="share", scale=ONE_SCALE, axis=alt.Axis(format=SHARE, tickCount=5)), y=y, color=series_colour(names),
        tooltip=[alt.Tooltip("label:N", title="group"), alt.Tooltip("series:N", title="share"), alt.Tooltip("text:N", title=" ")],
    )  # fmt: skip
    return Panel(alt.layer(joined, marks), title, height=max(64, ROW * len(labels)))


def _one_slice(findings: Findings) -> str:
    return "" if len(set(slice_labels(findings))) > 1 else "it takes two systems or slices"


@chart("systems", audits=("exposure",), title="Systems by metric: darker is fairer", unless=_one_slice)
def systems(findings: Findings) -> Picture:
    """Every system and metric as a table, as in figure 1 of the fair ranking paper: arrows say which way is fairer.

    Colour is the place of a system among the others on that metric only; metrics do not share a scale.
    """
    metrics = findings.metrics()[:MOST_METRICS]
    rows = [(w, r) for w, r in zip(slice_labels(findings), findings.rows(), strict=True) if r["metric"] in metrics]
    names = distinct(w for w, _ in rows)
    cells = []
    for metric in metrics:
        own = [(w, r) for w, r in rows if r["metric"] == metric]
        places = _places([r for _, r in own])
        heading = f"{metric} {ARROWS.get(own[0][1]['better'], '')}".strip()
        cells += [(w, heading, metric, r, place) for (w, r), place in zip(own, places, strict=True)]
    headings = distinct(c[1] for c in cells)
    shown = set(names[:MOST_ROWS])
    cells = [c for c in cells if c[0] in shown]
    data = records(
        label=[c[0] for c in cells], series=[c[1] for c in cells], text=[_cell_text(c[3], c[2]) for c in cells],
        shade=[c[4] for c in cells], title=[metric_title(c[2]) for c in cells],
    )  # fmt: skip
    across = len(names) <= FEW  # few systems stand side by side, many one under the other
    (wide, columns_of), (tall, rows_of) = (
        (("label", names), ("series", headings)) if across else (("series", headings), ("label", names))
    )
    top = alt.Axis(orient="top", labelAngle=0 if across else -40, labelLimit=220, labelOverlap=False)
    base = alt.Chart(data).encode(
        x=alt.X(f"{wide}:N", sort=columns_of, title=None, axis=top),
        y=alt.Y(f"{tall}:N", sort=rows_of, title=None, axis=alt.Axis(labelLimit=240)),
        tooltip=[
            alt.Tooltip("label:N", title=" "),
            alt.Tooltip("title:N", title=" "),
            alt.Tooltip("text:N", title="value"),
        ],
    )
    opacity = alt.Opacity("shade:Q", scale=alt.Scale(domain=[0, 1], range=[0.05, 0.45]), legend=None)
    layers = [base.mark_rect().encode(opacity=opacity), base.mark_text(style="value").encode(text="text:N")]
    columns: dict[str, list[Any]] = {"slice": list(names)}
    for heading in headings:
        found = {c[0]: c[3]["estimate"] for c in cells if c[1] == heading}
        columns[heading] = [drawable(found.get(n)) for n in names]
    note = "↓ lower is fairer, ↑ higher is fairer, → nearer the ideal is fairer. Darker: fairer than the others on that metric."
    return Picture(
        (Panel(alt.layer(*layers), height=max(90, ROW * len(headings if across else shown))),),
        columns,
        _fairest(cells),
        note,
    )


def _cell_text(row: dict[str, Any], metric: str) -> str:
    return (
        value_text(row["estimate"], metric)
        if _known(row["estimate"]) or row["estimate"] in (math.inf, -math.inf)
        else "–"
    )


def _places(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Place of each row from 0 (least fair) to 1 (fairest) among those with a number; 0 where there is none."""
    fair = [_fairness(r) for r in rows]
    known = sorted({f for f in fair if not math.isnan(f)})
    span = max(1, len(known) - 1)
    return [0.0 if math.isnan(f) else 1.0 if len(known) == 1 else known.index(f) / span for f in fair]


def _fairness(row: dict[str, Any]) -> float:
    """Larger is fairer, whichever way the metric points."""
    value, ideal = row["estimate"], row["ideal"]
    if value is None or math.isnan(value):
        return math.nan
    if row["better"] == "higher":
        return float(value)
    if row["better"] == "ideal" and _known(ideal):
        return -abs(float(value) - float(ideal))
    return -float(value) if row["better"] == "lower" else math.nan


def _fairest(cells: Sequence[tuple[str, str, str, dict[str, Any], float]]) -> str:
    firsts: dict[str, int] = {}
    for where, _, _, _, place in cells:
        firsts[where] = firsts.get(where, 0) + (place == 1.0)
    if not firsts or not max(firsts.values()):
        return "No system has a number."
    best = max(firsts, key=lambda w: firsts[w])
    return f"{best} has the fairest value on {firsts[best]} of {len(distinct(c[1] for c in cells))} metrics."
