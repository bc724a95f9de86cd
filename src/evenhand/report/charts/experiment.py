"""Charts of experiments and changes: null distribution, the arms' Lorenz curves, what a test can detect, the waterfall."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import altair as alt

from evenhand.errors import plural
from evenhand.findings import Findings, read_number
from evenhand.report.charts.drawing import (
    Panel,
    Picture,
    Unless,
    chart,
    columns_of,
    distinct,
    drawn_note,
    long_table,
    records,
    split,
    without_curve,
)
from evenhand.report.charts.shapes import Axis, in_rows, lines, shares
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.experiment import name_of
from evenhand.report.words.phrases import metric_title, value_format
from evenhand.report.words.text import (
    Row,
    capitalized,
    holders,
    is_finite,
    named_slice,
    number,
    percent,
    points,
    signed,
    word,
)


@chart("reassigned", title="The difference and its null distribution", unless=without_curve("reassigned"))
def reassigned(findings: Findings) -> Picture:
    """Differences under re-randomisation; the line is the observed difference, the dashed one what volume alone gives."""
    panels: list[Panel] = []
    table: list[dict[str, Any]] = []
    parts = split(points(findings, "reassigned"), lambda p: (p["where"], p["metric"]))
    for (where, metric), bins in parts.items():
        observed, null = bins[0]["found"], bins[0]["chance"]
        distance, total = abs(observed - null), sum(p["draws"] for p in bins)
        out = sum(p["draws"] for p in bins if abs((p["low"] + p["high"]) / 2 - null) >= distance)
        table.append({
            "arm": where, "metric": metric, "observed": observed, "unequal volume alone": null,
            "re-randomisations at least as extreme": f"about {out / total:.1%}",
        })  # fmt: skip
        if len(panels) < SIZES.panels:
            panels.append(_null_panel(bins, f"{metric_title(metric)}{f' ({where})' if where else ''}"))
    more = f" {len(parts) - SIZES.panels:,} more are in the table." if len(parts) > SIZES.panels else ""
    note = f"Bars: differences when {_randomized(findings)} are re-randomised. Dashed: their mean.{more}"
    return Picture(tuple(panels), columns_of(table, *table[0]), note)


def _null_panel(bins: list[dict[str, Any]], title: str) -> Panel:
    x = Axis("difference from control").on(alt.X, "x")
    bars = alt.Chart(records({"x": p["low"], "x2": p["high"], "y": p["draws"], "y2": 0} for p in bins))
    bars = bars.mark_rect().encode(x=x, x2="x2:Q", y=alt.Y("y:Q", title="re-randomisations"), y2="y2:Q")
    marks = (
        ("chance", f"mean of the re-randomisations: {number(bins[0]['chance'])}", {"strokeDash": [5, 4]}),
        ("found", f"observed: {number(bins[0]['found'])}", {"strokeWidth": 2.5}),
    )
    rules = [
        alt.Chart(records([{"x": bins[0][key], "text": text}]))
        .mark_rule(**style)
        .encode(x="x:Q", tooltip=[alt.Tooltip("text:N", title=" ")])
        for key, text, style in marks
    ]
    return Panel(alt.layer(bars, *rules), title, height=SIZES.short)


@chart("arms", title="Lorenz curves of the arms, at equal volume", unless=without_curve("arms"))
def arms(findings: Findings) -> Picture:
    """Lorenz curves of the arms at equal volume: the further below the straight line, the less equal."""
    panels: list[Panel] = []
    table: list[dict[str, Any]] = []
    control = str(findings.words.get("control", "control"))
    for where, curve in split(points(findings, "arms"), lambda p: p["where"]).items():
        series = [str(curve[0]["arm"]), control]
        rows = [{"series": series[p["side"] == "control"], "x": p["population"], "y": p["share"]} for p in curve]
        for name, corners in split(rows, lambda r: r["series"]).items():
            shown = {
                f"bottom {100 * p:g}% get": min(corners, key=lambda r: abs(r["x"] - p))["y"] for p in (0.5, 0.9, 0.99)
            }
            table.append({"arm": where, "curve": name, **shown})
        if len(panels) < SIZES.panels:
            panels.append(_lorenz_panel(findings, rows, series, where))
    cells = [{k: percent(v) if isinstance(v, float) else v for k, v in t.items()} for t in table]
    return Picture(tuple(panels), columns_of(cells, *cells[0]), "Straight line: perfect equality.")


def _lorenz_panel(findings: Findings, rows: list[dict[str, Any]], series: list[str], where: str) -> Panel:
    drawn = lines(
        rows, x=shares(f"{holders(findings)}, from least to most"), y=shares(f"share of all {word(findings, 'amount')}"),
        series=series, small=True, tips={"series": "arm", "x": "bottom", "y": "get"}, title=where, height=SIZES.tall,
    )  # fmt: skip
    ends = records([{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}])
    equal = alt.Chart(ends).mark_line(style="reference").encode(x="x:Q", y="y:Q")
    return Panel(alt.layer(equal, drawn.chart), drawn.title, height=SIZES.tall, square=True)


@chart("detectable", title="What a test can detect", unless=without_curve("detectable"))
def detectable(findings: Findings) -> Picture:
    """The smallest difference detected with the planned power, by how many are randomised."""
    curve = points(findings, "detectable")
    panels = []
    for metric, of_metric in list(split(curve, lambda p: p["metric"]).items())[: SIZES.panels]:
        rows = [
            {"series": p["where"], "x": p["units"], "y": p["detectable"], "sure": p["note"] is None}
            for p in of_metric
            if not math.isnan(read_number(p["detectable"]))
        ]
        x = Axis(f"{_randomized(findings)} in the arm and control", scale={"type": "log"})
        if rows:
            panels.append(lines(
                rows, x=x, y=Axis("detectable difference"), series=distinct(r["series"] for r in rows),
                tips={"series": "arm", "x": "randomised", "y": "difference"}, title=metric_title(metric), height=SIZES.medium,
            ))  # fmt: skip
    names = [n for n in ("where", "metric", "share", "units", "value", "detectable", "note") if n in curve[0]]
    return Picture(tuple(panels), columns_of(curve, *names), "Hollow: extrapolated beyond the log.")


def _randomized(findings: Findings) -> str:
    return plural(findings.words.get("randomized") or findings.words.get("unit") or "unit")


SERIES = ("raises", "lowers", "in all")


def _has_no_parts(findings: Findings) -> str:
    parts = [r for r in findings.rows() if r["part"] not in ("change", "volume") and is_finite(r["estimate"])]
    return "" if any(r["part"] in ("stayed", "source", "group") for r in parts) else "the result has no parts"


def without_part(name: str) -> Unless:
    return lambda findings: (
        ""
        if any(r["part"] == name and is_finite(r["estimate"]) for r in findings.rows())
        else f"the result has no {name} part"
    )


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
    return Picture(panels, long_table(findings), "The parts add up to the change.")


def _size(row: Row) -> float:
    return abs(read_number(row["estimate"]))


def _steps(findings: Findings, parts: list[Row], change: Row, title: str) -> Panel:
    """A bar per part; the smallest of many are drawn as one."""
    steps = [(capitalized(name_of(findings, r)), read_number(r["estimate"])) for r in parts]
    if len(steps) > SIZES.rows:
        steps = [*steps[: SIZES.rows - 1], ("All others", math.fsum(v for _, v in steps[SIZES.rows - 1 :]))]
    return _waterfall(steps, ("Change", read_number(change["estimate"])), title, value_format(change["metric"]))


def _waterfall(
    steps: list[tuple[str, float]], whole: tuple[str, float], title: str, show: Callable[[float], str]
) -> Panel:
    bars, run = [], 0.0
    for name, value in steps:
        bars.append(_bar(name, run, run + value, signed(value, show), SERIES[value < 0]))
        run += value
    bars.append(_bar(whole[0], 0.0, whole[1], signed(whole[1], show), SERIES[2]))
    return in_rows(
        bars, "span", x=Axis(format=".3~g"), tips={"label": "part", "text": "adds"}, series=SERIES, legend=False, zero=True,
        title=title, each=26,
    )  # fmt: skip


def _bar(name: str, start: float, end: float, text: str, series: str) -> dict[str, Any]:
    return {"label": name, "low": min(start, end), "high": max(start, end), "text": text, "series": series}


@chart("layers", title="What followers, wiring and ranking add", unless=without_part("ranking"))
def layers(findings: Findings) -> Picture:
    """The parts of every slice, each from where the last one ended, and what was observed."""
    panels: list[Panel] = []
    slices = split(list(findings.rows()), lambda r: (named_slice(findings, r, without=("part",)), r["metric"]))
    for (where, metric), rows in slices.items():
        parts = {str(r["part"]): read_number(r["estimate"]) for r in rows}
        if len(panels) < SIZES.panels and all(map(math.isfinite, parts.values())):
            steps = [(capitalized(name), parts[name]) for name in ("followers", "wiring", "ranking")]
            title = metric_title(metric) + (f", {where}" if where else "")
            panels.append(_waterfall(steps, ("Observed", parts["observed"]), title, value_format(metric)))
    notes = ["The parts add up to what was observed.", drawn_note(len(panels), len(slices), "slices")]
    return Picture(tuple(panels), long_table(findings), " ".join(filter(None, notes)))
