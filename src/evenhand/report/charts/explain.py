"""A change as a waterfall: parts that add up to it, one panel for each way to split it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import Panel, Picture, Unless, chart, drawn_note, long_table, split
from evenhand.report.charts.shapes import Axis, in_rows
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.explain import name_of
from evenhand.report.words.headlines import is_finite
from evenhand.report.words.labels import Row, named_slice, word
from evenhand.report.words.phrases import metric_title, value_format
from evenhand.report.words.text import capitalized, plural, signed

SERIES = ("raises", "lowers", "in all")


def _has_no_parts(findings: Findings) -> str:
    parts = [r for r in findings.rows() if r["part"] not in ("change", "volume") and is_finite(r["estimate"])]
    return "" if any(r["part"] in ("stayed", "source", "group") for r in parts) else "the result has no parts"


def without_part(name: str) -> Unless:
    """For `unless`: the findings must hold this part."""
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
    text = f"{of} of {signed(change['estimate'], value_format(change['metric']))}, split into parts that add up to it."
    return Picture(panels, long_table(findings), text, lead=False)


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
    """Bars from where the last one ended, and the whole."""
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
    first = next(iter(slices.values()))
    text = f"Of {metric_title(first[0]['metric'])}, followers, wiring and ranking add up to what was observed."
    return Picture(
        tuple(panels), long_table(findings), text, drawn_note(len(panels), len(slices), "slices"), lead=False
    )
