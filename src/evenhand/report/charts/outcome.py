"""Pictures of the outcome test: outcomes along the score by group, the gaps by bin, calibration, and slots given again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    drawable,
    points,
    records,
    without_curve,
    without_metric,
    word,
)
from evenhand.report.charts.shapes import SHARE, Axis, axis_format, in_rows, lines
from evenhand.report.charts.theme import MOST_SERIES
from evenhand.report.words.text import number

FEWEST = 30
"""A mean of fewer rows is drawn as a faint point: its bar would dwarf the others."""

BARS = f"Bars are intervals; faint points are means of fewer than {FEWEST} rows."
LANE = 0.12
"""Groups of one bin are drawn side by side, this far apart."""

Row = Mapping[str, Any]


@chart("outcomes", title="Does the same score mean the same outcome?", unless=without_curve("calibration"))
def outcomes(findings: Findings) -> Picture:
    """Mean outcome per score bin and group (figures 4 and 6 of the outcome-test paper)."""
    curve = points(findings, "calibration")
    groups = distinct(p["group"] for p in curve)
    lane = min(LANE, 0.6 / max(1, len(groups)))
    shift = {group: lane * (i - (len(groups) - 1) / 2) for i, group in enumerate(groups)}
    title = f"mean {word(findings, 'outcome')}".capitalize()
    lead = f"{title} in {len({p['bin'] for p in curve})} score bins for {len(groups)} groups"
    parts = _in_slices(findings, curve)
    shifted = [(where, [{**p, "x": p["bin"] + shift[p["group"]]} for p in part_rows]) for where, part_rows in parts]
    panels = tuple(
        _means(findings, part_rows, _bin_axis(findings, part_rows), height=340 if len(parts) == 1 else 240, title=where)
        for where, part_rows in shifted[:MOST_PANELS]
    )
    sentence = lead + (f": {_ends(curve)}." if len(parts) == 1 else f", slice by slice ({len(parts)}).")
    note = f"{BARS} Lines that lie apart mean different standards.{_left(parts)}"
    return Picture(panels, _table(findings, curve), sentence, note)


@chart("calibration", title="Outcome against score", unless=without_curve("calibration"), reported=False)
def calibration(findings: Findings) -> Picture:
    """Mean outcome against mean score per bin and group; the dashed line is where both are equal."""
    curve = points(findings, "calibration")
    scores = [p["score"] for p in curve]
    axis = Axis(f"mean {word(findings, 'score')}", axis_format(scores), scale={"zero": False})
    parts = _in_slices(findings, curve)
    panels = [
        _means(findings, [{**p, "x": p["score"]} for p in part_rows], axis, height=420, title=where)
        for where, part_rows in parts[:MOST_PANELS]
    ]
    note = BARS
    if "calibration_gap" in findings.metrics():
        line = [min(scores), max(scores)]
        equal = alt.Chart(records(x=line, y=line)).mark_line(style="reference").encode(x=axis.on(alt.X, "x"), y="y:Q")
        panels = [replace(panel, chart=alt.layer(equal, panel.chart)) for panel in panels]
        note += " On the dashed line the score is the outcome it promises."
    title = f"mean {word(findings, 'outcome')}".capitalize()
    sentence = f"{title} against mean score" + (f": {_ends(curve)}." if len(parts) == 1 else f", {len(parts)} slices.")
    return Picture(tuple(panels), _table(findings, curve), sentence, note + _left(parts))


MOST_PANELS = 12
"""Slices that are drawn; all are in the table."""


def _in_slices(findings: Findings, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Rows slice by slice, with what each is called; one without a name where there are none."""
    parts: dict[str, list[Row]] = {}
    for r in rows:
        parts.setdefault(findings.slice_label(r), []).append(r)
    return list(parts.items())


def _left(parts: Sequence[Any]) -> str:
    return f" {len(parts) - MOST_PANELS} more panels are in the table." if len(parts) > MOST_PANELS else ""


def _means(findings: Findings, curve: Sequence[Row], x: Axis, *, height: int, title: str = "") -> Panel:
    rates = bool(findings.provenance.get("outcomes"))
    outcome = word(findings, "outcome").replace("_", " ")
    named = f"{outcome} rate" if rates else f"mean {outcome}"
    rows = [
        {
            "series": p["group"], "x": p["x"], "y": p["outcome"], "low": p["low"], "high": p["high"], "bin": p["bin"],
            "units": p["units"], "sure": p["units"] >= FEWEST,
        }
        for p in curve
    ]  # fmt: skip
    form = SHARE if rates else axis_format([row["y"] for row in rows])
    y = Axis(named, form, ticks=6, scale={"zero": False})
    tips = {"series": "group", "bin": "bin", "y": named, "low": "low", "high": "high", "units": "rows"}
    return lines(rows, x=x, y=y, tips=tips, series=distinct(row["series"] for row in rows), height=height, title=title)


def _bin_axis(findings: Findings, rows: Sequence[Row]) -> Axis:
    """An axis of bins that names the score at which each ends: bins are counted, but readers think in scores."""
    last = int(max((row["bin"] for row in rows), default=1))
    where = {findings.slice_label(r) for r in rows}  # edges are those of the slice that is drawn
    slice_rows = [r for r in findings.rows() if findings.slice_label(r) in where]
    tops = {int(r["bin"]): r["bin_high"] for r in slice_rows if not math.isnan(read_number(r.get("bin")))}
    names = [number(tops[b]) if b in tops else str(b) for b in range(1, last + 1)]
    ticks = list(range(1, last + 1, max(1, math.ceil(last / 20))))
    named = {"labelExpr": f"{json.dumps(names)}[datum.value - 1]", "grid": False}
    title = f"{word(findings, 'score')}, in bins that end at"
    return Axis(title, "d", (0.5, last + 0.5), ticks, scale={"nice": False}, more=named)


def _table(findings: Findings, curve: Sequence[Row]) -> dict[str, list[Any]]:
    return columns_of(curve, *findings.slices, "bin", "group", "score", "outcome", "low", "high", "units")


def _ends(curve: Sequence[Row]) -> str:
    """From the first to the last bin, group by group."""
    means: dict[str, list[float]] = {}
    for p in curve:
        means.setdefault(p["group"], []).append(p["outcome"])
    shown = list(means.items())[:MOST_SERIES]
    return "; ".join(
        f"{group} from {number(group_means[0])} to {number(group_means[-1])}" for group, group_means in shown
    )


def _gap_rows(findings: Findings) -> list[Row]:
    reference = findings.words.get("reference")
    rows = [r for r in findings.rows() if r["metric"] == "outcome_gap" and r["group"] != reference]
    return [r for r in rows if not math.isnan(read_number(r.get("bin")))]


def _no_gaps(findings: Findings) -> str:
    defined = [r for r in _gap_rows(findings) if not math.isnan(read_number(r["estimate"]))]
    return "" if defined else "no gap between groups is defined"


@chart("gaps", title="Who does better than the score says?", unless=_no_gaps)
def gaps(findings: Findings) -> Picture:
    """The gap of each group to the reference in each bin, with intervals (figures 5 and 7 of the outcome-test paper)."""
    rows = _gap_rows(findings)
    groups = distinct(row["group"] for row in rows)
    x = _bin_axis(findings, rows)
    reference = word(findings, "reference")
    parts = [
        (f"{g}, {where}" if where else str(g), [r for r in part_rows if r["group"] == g])
        for where, part_rows in _in_slices(findings, rows)
        for g in groups[:MOST_SERIES]
    ]
    shown = parts[: MOST_PANELS if findings.slices else None]
    y = _gap_axis(findings, rows, reference)
    panels = tuple(
        _gap_panel(part_rows, title, _bin_axis(findings, part_rows) if findings.slices else x, y)
        for title, part_rows in shown
    )
    table = columns_of(
        rows,
        *findings.slices,
        "bin",
        "group",
        "estimate",
        "low",
        "high",
        "p",
        "p_adjusted",
        "detectable",
        "units",
        "note",
    )
    beyond = sum(read_number(r["p_adjusted"]) < 0.05 for r in rows if not math.isnan(read_number(r["estimate"])))
    where = f"{len({r['bin'] for r in rows})} bins for {len(groups)} groups"
    sentence = f"Gaps to {reference} in {where}; {beyond} are beyond chance after adjustment."
    left = f" {len(groups) - MOST_SERIES} more groups are in the table." if len(groups) > MOST_SERIES else ""
    note = (
        "Above zero: the group does better than the reference at equal score, so it is under-rated. Bars are intervals; "
        "hollow points are cells with too few rows or events for an interval to be trusted."
        + left
        + (_left(parts) if findings.slices else "")
    )
    return Picture(panels, table, sentence, note)


def _is_sure(row: Row) -> bool:
    return "small_cell" not in (row["note"] or "")


def _gap_axis(findings: Findings, rows: Sequence[Row], reference: str) -> Axis:
    """One scale for all groups, which are there to be compared; thin cells must not set it."""
    trusted = [read_number(row[end]) for row in rows if _is_sure(row) for end in ("low", "high")]
    trusted = [v for v in trusted if not math.isnan(v)]
    domain = (min(0.0, *trusted), max(0.0, *trusted)) if trusted else None
    form = SHARE if findings.provenance.get("outcomes") else axis_format(trusted)
    return Axis(f"gap to {reference}", form, domain, cut=True, scale={"nice": True})


def _gap_panel(gap_rows: Sequence[Row], group: str, x: Axis, y: Axis) -> Panel:
    rows = [
        {
            "x": float(r["bin"]), "y": r["estimate"], "low": r["low"], "high": r["high"], "units": r["units"],
            "score_text": f"{number(r['bin_low'])} to {number(r['bin_high'])}", "sure": _is_sure(r),
            "p_text": "" if math.isnan(read_number(r["p_adjusted"])) else number(r["p_adjusted"]),
        }
        for r in gap_rows
        if not math.isnan(read_number(r["estimate"]))
    ]  # fmt: skip
    tips = {"score_text": "score", "y": "gap", "low": "low", "high": "high", "p_text": "adjusted p", "units": "rows"}
    return lines(rows, x=x, y=y, tips=tips, line=False, zero=True, title=str(group), height=240)


@chart("slots", title="Who would gain and who would lose slots?", unless=without_metric("slots_gained"))
def slots(findings: Findings) -> Picture:
    """Slots that each group would gain, over the band that chance alone would give."""
    band = {_whose(findings, r): r for r in findings.rows() if r["metric"] == "slots_gained_null"}
    rows = [
        {
            "label": _whose(findings, r), "x": r["estimate"], "units": r["units"],
            "band_low": band.get(_whose(findings, r), {}).get("low"), "band_high": band.get(_whose(findings, r), {}).get("high"),
        }
        for r in findings.rows()
        if r["metric"] == "slots_gained"
    ]  # fmt: skip
    named = {"label": "group", "units": "slots before", "x": "slots gained"}
    named |= {"band_low": "chance, low", "band_high": "chance, high"}
    panel = in_rows(rows, "dot", x=Axis("slots gained", "+,.6~g", ticks=6), tips=named, zero=True, each=40, least=80)
    table = {title: [drawable(row[name]) for row in rows] for name, title in named.items()}
    moves = [f"{row['label']} {'gain' if row['x'] >= 0 else 'lose'} {number(abs(row['x']))}" for row in rows]
    return Picture((panel,), table, f"Slots: {'; '.join(moves)}.", "The shaded band is what chance alone would give.")


def _whose(findings: Findings, row: Row) -> str:
    where = findings.slice_label(row)
    return f"{row['group']}, {where}" if where else str(row["group"])
