"""Pictures of the outcome test: outcomes along the score by group, the gaps by bin, and calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.present.drawing import (
    Panel,
    Picture,
    axis_format,
    chart,
    distinct,
    drawable,
    records,
    series_colour,
    without_curve,
    word,
)
from evenhand.present.text import number
from evenhand.present.theme import MOST_SERIES

AUDITS = ("outcome_test",)
FEWEST = 30
"""A mean of fewer rows is drawn as a faint point: its bar would dwarf the others."""

BARS = f"Bars are intervals; faint points are means of fewer than {FEWEST} rows."
LANE = 0.12
"""Groups of one bin are drawn side by side, this far apart."""


@chart(
    "outcomes", audits=AUDITS, title="Does the same score mean the same outcome?", unless=without_curve("calibration")
)
def outcomes(findings: Findings) -> Picture:
    """Mean outcome per score bin and group (figures 4 and 6 of the outcome-test paper)."""
    points = findings.curves["calibration"]
    groups = distinct(points["group"])
    title = f"mean {word(findings, 'outcome')}"
    x = alt.X("x:Q", title=f"bin of {word(findings, 'score')}, lowest scores first", **_bin_axis(points["bin"]))
    shifted = _side_by_side(points["bin"], points["group"], groups)
    panel = _lines(points, groups, x=shifted, axis=x, y_title=title, height=340)
    says = f"{title.capitalize()} in {len(set(points['bin']))} score bins for {len(groups)} groups: {_ends(points)}."
    return Picture((panel,), _table(points), says, f"{BARS} Lines that lie apart mean different standards.")


@chart("calibration", audits=AUDITS, title="Outcome against score", unless=without_curve("calibration"), reported=False)
def calibration(findings: Findings) -> Picture:
    """Mean outcome against mean score per bin and group; the dashed line is where both are equal."""
    points = findings.curves["calibration"]
    groups = distinct(points["group"])
    axis = alt.X(
        "x:Q",
        title=f"mean {word(findings, 'score')}",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format=axis_format(points["score"])),
    )
    title = f"mean {word(findings, 'outcome')}"
    panel = _lines(points, groups, x=points["score"], axis=axis, y_title=title, height=420)
    note = BARS
    if "calibration_gap" in findings.columns["metric"]:
        low, high = min(points["score"]), max(points["score"])
        line = alt.Chart(records(x=[low, high], y=[low, high])).mark_line(style="reference").encode(x=axis, y="y:Q")
        panel = Panel(alt.layer(line, panel.chart), height=420)
        note += " On the dashed line the score is the outcome it promises."
    return Picture((panel,), _table(points), f"{title.capitalize()} against mean score: {_ends(points)}.", note)


def _no_gaps(findings: Findings) -> str:
    return "" if any(_defined(row) for row in _gap_rows(findings)) else "no gap between groups is defined"


@chart("gaps", audits=AUDITS, title="Who does better than the score says?", unless=_no_gaps)
def gaps(findings: Findings) -> Picture:
    """The gap of each group to the reference in each bin, with intervals (figures 5 and 7 of the outcome-test paper)."""
    rows = _gap_rows(findings)
    reference = word(findings, "reference")
    groups = distinct(row["group"] for row in rows)
    panels = tuple(_gap_panel([r for r in rows if r["group"] == g], g, reference) for g in groups[:MOST_SERIES])
    names = ("bin", "group", "estimate", "low", "high", "p", "p_adjusted", "detectable", "units", "note")
    table = {name: [drawable(row[name]) for row in rows] for name in names}
    found = [r for r in rows if _defined(r) and r["p_adjusted"] is not None and r["p_adjusted"] < 0.05]
    where = f"{len({r['bin'] for r in rows})} bins for {len(groups)} groups"
    says = f"Gaps to {reference} in {where}; {len(found)} are beyond chance after adjustment."
    left = f" {len(groups) - MOST_SERIES} more groups are in the table." if len(groups) > MOST_SERIES else ""
    note = (
        "Above zero: the group does better than the reference at equal score, so it is under-rated. Bars are intervals; "
        "hollow points are cells with too few rows or events to trust. Each group has a scale of its own." + left
    )
    return Picture(panels, table, says, note)


def _gap_rows(findings: Findings) -> list[Mapping[str, Any]]:
    reference = findings.words.get("reference")
    kept = [r for r in findings.rows() if r["metric"] == "outcome_gap" and r["group"] != reference]
    return [r for r in kept if r.get("bin") is not None and not _nan(r["bin"])]


def _nan(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _defined(row: Mapping[str, Any]) -> bool:
    return not _nan(row["estimate"])


def _gap_panel(rows: Sequence[Mapping[str, Any]], group: str, reference: str) -> Panel:
    defined = [r for r in rows if _defined(r)]
    solid = [r for r in defined if "small_cell" not in (r["note"] or "")]
    hollow = [r for r in defined if "small_cell" in (r["note"] or "")]
    trusted = [v for r in solid for v in (r["low"], r["high"]) if not _nan(v)]
    domain = {"domain": [min(0.0, *trusted), max(0.0, *trusted)]} if trusted else {}  # thin cells must not set the axis
    scale = alt.Scale(nice=True, **domain)
    x = alt.X("x:Q", title="score bin, lowest scores first", **_bin_axis([int(r["bin"]) for r in rows]))
    y = alt.Y("y:Q", title=f"gap to {reference}", axis=alt.Axis(format=axis_format(trusted)), scale=scale)
    layers = [alt.Chart(records(y=[0.0])).mark_rule(style="zero").encode(y=y)]
    for part, filled in ((solid, True), (hollow, False)):
        if part:
            base = alt.Chart(_gap_data(part)).encode(x=x)
            layers.append(base.mark_rule(style="range", clip=True).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"))
            layers.append(base.mark_point(filled=filled, clip=True).encode(y=y, tooltip=_gap_tips()))
    return Panel(alt.layer(*layers), str(group), height=240)


def _gap_data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return records(
        x=[float(r["bin"]) for r in rows],
        y=[r["estimate"] for r in rows],
        low=[r["low"] for r in rows],
        high=[r["high"] for r in rows],
        label=[f"{number(r['bin_low'])} to {number(r['bin_high'])}" for r in rows],
        units=[r["units"] for r in rows],
        p_text=["" if _nan(r["p_adjusted"]) else number(r["p_adjusted"]) for r in rows],
    )


def _gap_tips() -> list[Any]:
    return [
        alt.Tooltip("label:N", title="score"),
        alt.Tooltip("y:Q", title="gap", format=".4~g"),
        alt.Tooltip("low:Q", format=".4~g"),
        alt.Tooltip("high:Q", format=".4~g"),
        alt.Tooltip("p_text:N", title="adjusted p"),
        alt.Tooltip("units:Q", title="rows", format=","),
    ]


def _bin_axis(bins: Sequence[int]) -> dict[str, Any]:
    last = max(bins, default=1)
    step = max(1, math.ceil(last / 20))
    ticks = list(range(1, last + 1, step))
    return {
        "scale": alt.Scale(domain=[0.5, last + 0.5], nice=False),
        "axis": alt.Axis(values=ticks, format="d", grid=False),
    }


def _side_by_side(bins: Sequence[int], groups: Sequence[str], order: Sequence[str]) -> list[float]:
    middle = (len(order) - 1) / 2
    lane = min(LANE, 0.6 / max(1, len(order)))
    return [b + lane * (order.index(g) - middle) for b, g in zip(bins, groups, strict=True)]


def _lines(
    points: Mapping[str, Sequence[Any]],
    groups: Sequence[str],
    *,
    x: Sequence[float],
    axis: Any,
    y_title: str,
    height: int,
) -> Panel:
    columns = {**points, "x": x, "sure": [units >= FEWEST for units in points["units"]]}
    colour = {"color": series_colour(groups)} if len(groups) <= MOST_SERIES else {"detail": "series:N"}
    y = alt.Y(
        "y:Q",
        title=y_title,
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format=axis_format(points["outcome"]), tickCount=6),
    )
    tips = [
        alt.Tooltip("series:N", title="group"),
        alt.Tooltip("bin:Q", title="bin"),
        alt.Tooltip("y:Q", title=y_title, format=".4~g"),
        alt.Tooltip("low:Q", format=".4~g"),
        alt.Tooltip("high:Q", format=".4~g"),
        alt.Tooltip("units:Q", title="rows", format=","),
    ]
    layers = []
    if any(columns["sure"]):
        base = alt.Chart(_part(columns, sure=True)).encode(x=axis, **colour)
        layers += [base.mark_line().encode(y=y), base.mark_rule(style="range").encode(y="low:Q", y2="high:Q")]
        layers.append(base.mark_point().encode(y=y, tooltip=tips))
    if not all(columns["sure"]):
        thin = alt.Chart(_part(columns, sure=False)).encode(x=axis, **colour)
        layers.append(thin.mark_point(filled=False, opacity=0.5, size=30).encode(y=y, tooltip=tips))
    return Panel(alt.layer(*layers), height=height)


def _part(columns: Mapping[str, Sequence[Any]], *, sure: bool) -> Any:
    """The points that have enough rows, or those that have not; the latter without the ends of their intervals."""
    at = [i for i, enough in enumerate(columns["sure"]) if enough == sure]
    taken = {name: [columns[name][i] for i in at] for name in ("group", "x", "outcome", "units", "bin", "low", "high")}
    ends = {name: taken[name] for name in ("low", "high")} if sure else {}
    named = {"series": taken["group"], "y": taken["outcome"], **{name: taken[name] for name in ("x", "units", "bin")}}
    return records(**named, **ends)


def _table(points: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {
        name: [drawable(v) for v in points[name]]
        for name in ("bin", "group", "score", "outcome", "low", "high", "units")
    }


def _ends(points: Mapping[str, Sequence[Any]]) -> str:
    """From the first to the last bin, group by group."""
    parts = []
    for group in distinct(points["group"])[:MOST_SERIES]:
        mine = [y for y, g in zip(points["outcome"], points["group"], strict=True) if g == group]
        parts.append(f"{group} from {number(mine[0])} to {number(mine[-1])}")
    return "; ".join(parts)


def _no_slots(findings: Findings) -> str:
    return "" if "slots_gained" in findings.columns["metric"] else "no slots were given again"


@chart("slots", audits=("counterfactual",), title="Who would gain and who would lose slots?", unless=_no_slots)
def slots(findings: Findings) -> Picture:
    """Slots that each group would gain, over the band that chance alone would give."""
    rows = [r for r in findings.rows() if r["metric"] == "slots_gained"]
    band = {r["group"]: r for r in findings.rows() if r["metric"] == "slots_gained_null"}
    names = [str(r["group"]) for r in rows]
    ends = [[band[g][e] if g in band else None for g in names] for e in ("low", "high")]
    data = records(
        label=names, x=[r["estimate"] for r in rows], low=ends[0], high=ends[1], units=[r["units"] for r in rows]
    )
    y = alt.Y("label:N", sort=names, title=None, axis=alt.Axis(labelLimit=170, domain=False))
    x = alt.X("x:Q", title="slots gained", axis=alt.Axis(format="+,.6~g", tickCount=6))
    base = alt.Chart(data).encode(y=y)
    tips = [
        alt.Tooltip("label:N", title="group"),
        alt.Tooltip("x:Q", title="slots gained", format=",.6~g"),
        alt.Tooltip("low:Q", title="chance, low", format=",.4~g"),
        alt.Tooltip("high:Q", title="chance, high", format=",.4~g"),
        alt.Tooltip("units:Q", title="slots before", format=","),
    ]
    layers = [alt.Chart(records(x=[0.0])).mark_rule(style="zero").encode(x="x:Q")]
    if band:
        layers.append(base.mark_bar(style="gap", height=18).encode(x="low:Q", x2="high:Q"))
    layers.append(base.mark_point().encode(x=x, tooltip=tips))
    table = {
        "group": names,
        "slots before": [r["units"] for r in rows],
        "slots gained": [drawable(r["estimate"]) for r in rows],
        "chance, low": [drawable(v) for v in ends[0]],
        "chance, high": [drawable(v) for v in ends[1]],
    }
    moves = [f"{r['group']} {'gain' if r['estimate'] >= 0 else 'lose'} {number(abs(r['estimate']))}" for r in rows]
    says = "; ".join(moves)
    panel = Panel(alt.layer(*layers), height=max(80, 40 * len(names)))
    return Picture((panel,), table, f"Slots: {says}.", "The shaded band is what chance alone would give.")
