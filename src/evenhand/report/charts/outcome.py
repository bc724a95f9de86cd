"""Charts of the outcome test: outcomes along the score by group, gaps by bin, calibration, and reallocated slots."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from evenhand.findings import Findings, read_number
from evenhand.report.charts.drawing import (
    Panel,
    Picture,
    chart,
    columns_of,
    distinct,
    drawn_note,
    records,
    split,
    without_curve,
    without_metric,
)
from evenhand.report.charts.shapes import SHARE, Axis, axis_format, in_rows, lines
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.text import Row, is_finite, number, points, word

FEW_ROWS = 30
"""A mean of fewer rows is drawn as a faint point: its bar would dwarf the others."""

BARS = f"Bars are intervals; faint points are means of fewer than {FEW_ROWS} rows."


@chart("outcomes", title="Does the same score mean the same outcome?", unless=without_curve("calibration"))
def outcomes(findings: Findings) -> Picture:
    """Mean outcome per score bin and group (figures 4 and 6 of the outcome-test paper)."""
    curve = points(findings, "calibration")
    groups = distinct(p["group"] for p in curve)
    lane = min(0.12, 0.6 / max(1, len(groups)))  # groups of one bin side by side
    shift = {group: lane * (i - (len(groups) - 1) / 2) for i, group in enumerate(groups)}
    slices = split(curve, findings.slice_label)
    height = SIZES.tall if len(slices) == 1 else SIZES.medium
    panels = tuple(
        _means(
            findings, [{**p, "x": p["bin"] + shift[p["group"]]} for p in rows], _bin_axis(findings, rows), height, where
        )
        for where, rows in list(slices.items())[: SIZES.slice_panels]
    )
    notes = [BARS, "Lines that lie apart mean different standards.", drawn_note(len(panels), len(slices), "slices")]
    return Picture(panels, _table(findings, curve), " ".join(filter(None, notes)))


@chart("calibration", title="Outcome by score", unless=without_curve("calibration"), reported=False)
def calibration(findings: Findings) -> Picture:
    """Mean outcome against mean score per bin and group; the dashed line is where both are equal."""
    curve = points(findings, "calibration")
    scores = [p["score"] for p in curve]
    axis = Axis(f"mean {word(findings, 'score')}", axis_format(scores), scale={"zero": False})
    slices = split(curve, findings.slice_label)
    panels = [
        _means(findings, [{**p, "x": p["score"]} for p in rows], axis, SIZES.square, where)
        for where, rows in list(slices.items())[: SIZES.slice_panels]
    ]
    notes = [BARS]
    if "calibration_gap" in findings.metrics():
        line = records({"x": end, "y": end} for end in (min(scores), max(scores)))
        equal = alt.Chart(line).mark_line(style="reference").encode(x=axis.on(alt.X, "x"), y="y:Q")
        panels = [replace(panel, chart=alt.layer(equal, panel.chart)) for panel in panels]
        notes.append("Dashed: outcome equals score.")
    notes.append(drawn_note(len(panels), len(slices), "slices"))
    return Picture(tuple(panels), _table(findings, curve), " ".join(filter(None, notes)))


def _means(findings: Findings, curve: Sequence[Row], x: Axis, height: int, title: str) -> Panel:
    is_rate = bool(findings.provenance.get("outcomes"))
    outcome = word(findings, "outcome")
    named = f"{outcome} rate" if is_rate else f"mean {outcome}"
    rows = [
        {
            "series": p["group"], "x": p["x"], "y": p["outcome"], "low": p["low"], "high": p["high"], "bin": p["bin"],
            "units": p["units"], "sure": p["units"] >= FEW_ROWS,
        }
        for p in curve
    ]  # fmt: skip
    y = Axis(named, SHARE if is_rate else axis_format([row["y"] for row in rows]), ticks=6, scale={"zero": False})
    tips = {"series": "group", "bin": "bin", "y": named, "low": "low", "high": "high", "units": "rows"}
    return lines(rows, x=x, y=y, tips=tips, series=distinct(row["series"] for row in rows), height=height, title=title)


def _bin_axis(findings: Findings, rows: Sequence[Row]) -> Axis:
    """An axis of bins that names the score at which each ends: bins are counted, but readers think in scores."""
    last = int(max((row["bin"] for row in rows), default=1))
    where = {findings.slice_label(r) for r in rows}  # edges are those of the slice that is drawn
    slice_rows = [r for r in findings.rows() if findings.slice_label(r) in where]
    tops = {int(r["bin"]): r["bin_high"] for r in slice_rows if is_finite(r.get("bin"))}
    names = [number(tops[b]) if b in tops else str(b) for b in range(1, last + 1)]
    ticks = list(range(1, last + 1, max(1, math.ceil(last / 20))))
    named = {"labelExpr": f"{json.dumps(names)}[datum.value - 1]", "grid": False}
    title = f"{word(findings, 'score')} (upper end of the bin)"
    return Axis(title, "d", (0.5, last + 0.5), ticks, scale={"nice": False}, more=named)


def _table(findings: Findings, curve: Sequence[Row]) -> dict[str, list[Any]]:
    return columns_of(curve, *findings.slices, "bin", "group", "score", "outcome", "low", "high", "units")


def _gap_rows(findings: Findings) -> list[dict[str, Any]]:
    reference = findings.words.get("reference")
    rows = [r for r in findings.rows() if r["metric"] == "outcome_gap" and r["group"] != reference]
    return [r for r in rows if is_finite(r.get("bin"))]


def _no_gaps(findings: Findings) -> str:
    return "" if any(is_finite(r["estimate"]) for r in _gap_rows(findings)) else "no gap between groups is defined"


@chart("gaps", title="Who does better than the score says?", unless=_no_gaps)
def gaps(findings: Findings) -> Picture:
    """The gap of each group to the reference in each bin, with intervals (figures 5 and 7 of the outcome-test paper)."""
    rows = _gap_rows(findings)
    groups = distinct(row["group"] for row in rows)
    reference = word(findings, "reference")
    parts = [
        (f"{g}, {where}" if where else str(g), [r for r in part if r["group"] == g])
        for where, part in split(rows, findings.slice_label).items()
        for g in groups[: SIZES.series]
    ]
    y = _gap_axis(findings, rows, reference)
    shown = parts[: SIZES.slice_panels if findings.slices else None]
    panels = tuple(
        _gap_panel(part, title, _bin_axis(findings, part if findings.slices else rows), y) for title, part in shown
    )
    names = ("bin", "group", "estimate", "low", "high", "p", "p_adjusted", "detectable", "units", "note")
    table = columns_of(rows, *findings.slices, *names)
    notes = [
        "Above zero: the group does better than the reference at equal score, so it is under-rated. Bars are intervals; hollow "
        "points have too few rows or events for a reliable interval.",
        drawn_note(min(len(groups), SIZES.series), len(groups), "groups"),
        drawn_note(len(shown), len(parts), "panels"),
    ]
    return Picture(panels, table, " ".join(filter(None, notes)))


def _is_reliable(row: Row) -> bool:
    return "small_cell" not in (row["note"] or "")


def _gap_axis(findings: Findings, rows: Sequence[Row], reference: str) -> Axis:
    """One scale for all groups, so that they can be compared; cells with few rows must not set it."""
    reliable = [read_number(row[end]) for row in rows if _is_reliable(row) for end in ("low", "high")]
    reliable = [v for v in reliable if not math.isnan(v)]
    domain = (min(0.0, *reliable), max(0.0, *reliable)) if reliable else None
    form = SHARE if findings.provenance.get("outcomes") else axis_format(reliable)
    return Axis(f"gap to {reference}", form, domain, clip=True, scale={"nice": True})


def _gap_panel(gap_rows: Sequence[Row], title: str, x: Axis, y: Axis) -> Panel:
    rows = [
        {
            "x": float(r["bin"]), "y": r["estimate"], "low": r["low"], "high": r["high"], "units": r["units"],
            "score_text": f"{number(r['bin_low'])} to {number(r['bin_high'])}", "sure": _is_reliable(r),
            "p_text": number(r["p_adjusted"]) if is_finite(r["p_adjusted"]) else "",
        }
        for r in gap_rows
        if is_finite(r["estimate"])
    ]  # fmt: skip
    tips = {"score_text": "score", "y": "gap", "low": "low", "high": "high", "p_text": "adjusted p", "units": "rows"}
    return lines(rows, x=x, y=y, tips=tips, line=False, zero=True, title=title, height=SIZES.medium)


@chart("slots", title="Who would gain and who would lose slots?", unless=without_metric("slots_gained"))
def slots(findings: Findings) -> Picture:
    """Slots that each group would gain, and the range expected by chance."""

    def name(row: Row) -> str:
        return ", ".join(filter(None, [str(row["group"]), findings.slice_label(row)]))

    by_metric = split(findings.rows(), lambda r: r["metric"])
    null = {name(r): r for r in by_metric.get("slots_gained_null", [])}
    rows = [
        {
            "label": name(r), "x": r["estimate"], "units": r["units"],
            "band_low": null.get(name(r), {}).get("low"), "band_high": null.get(name(r), {}).get("high"),
        }
        for r in by_metric["slots_gained"]
    ]  # fmt: skip
    titles = {
        "label": "group",
        "units": "slots before",
        "x": "slots gained",
        "band_low": "chance, low",
        "band_high": "chance, high",
    }
    panel = in_rows(rows, "dot", x=Axis("slots gained", "+,.6~g", ticks=6), tips=titles, zero=True, each=40, least=80)
    return Picture((panel,), columns_of(rows, **titles), "Shaded: the range expected by chance.")
