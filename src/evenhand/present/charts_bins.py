"""Curves over bins: how a number changes along an ordered quantity, as in figures 5 and 7 of the inequality paper."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from evenhand.findings import Findings, label
from evenhand.present.drawing import (
    AMOUNT,
    SHARE,
    Panel,
    Picture,
    chart,
    distinct,
    is_share,
    long_table,
    metric_title,
    records,
    series_colour,
    value_text,
    word,
)
from evenhand.present.text import plural
from evenhand.present.theme import MOST_SERIES

FEWEST = 3
WIDE = 50
"""Bins that spread over more than this factor are drawn on a log axis."""

_NUMBER = r"[-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_INTERVAL = re.compile(rf"\s*[\[(]?\s*({_NUMBER})\s*(?:,|to|\.\.|–)\s*({_NUMBER}|inf)\s*[\])]?\s*")


@dataclass(frozen=True, slots=True)
class _Row:
    """One estimate and where on the axis it stands."""

    metric: str
    series: str
    bin: str
    x: float
    y: float
    low: float
    high: float
    units: float


def edges(value: Any) -> tuple[float, float] | None:
    """The ends of a bin: a number is its own bin, a label such as "[10, 100)" says them.

    >>> edges("[10, 1,000)"), edges(3), edges("likes")
    ((10.0, 1000.0), (3.0, 3.0), None)
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return (float(value), float(value)) if math.isfinite(value) else None
    found = _INTERVAL.fullmatch(str(value))
    return (float(found[1].replace(",", "")), float(found[2].replace(",", ""))) if found else None


def middle(low: float, high: float) -> float:
    """Where a bin stands on an axis: the geometric middle, since bins that matter are log-spaced."""
    if math.isinf(high):
        return low
    return math.sqrt(low * high) if low > 0 else (low + high) / 2


def _ordered_slice(findings: Findings) -> str:
    """The first slice column whose labels are numbers or intervals of numbers, or nothing."""
    for name in findings.slices:
        labels = distinct(findings.columns[name])
        known = [v for v in labels if edges(v) is not None]
        if len(known) >= FEWEST and len(labels) - len(known) <= 1:
            return name
    return ""


def _no_bins(findings: Findings) -> str:
    return "" if _ordered_slice(findings) else f"no slice column holds {FEWEST} or more bins or numbers"


@chart("bins", audits=("inequality",), title="How it changes along the bins", unless=_no_bins)
def bins(findings: Findings) -> Picture:
    """Each metric along the bins with its interval, and how many units each bin holds."""
    name = _ordered_slice(findings)
    rows = _rows(findings, name)
    series = distinct(row.series for row in rows)
    metrics = findings.metrics()
    panels = [_line_panel([r for r in rows if r.metric == m], m, name, series) for m in metrics]
    panels.append(_units_panel([r for r in rows if r.metric == metrics[0]], name, word(findings, "unit"), series))
    return Picture(tuple(panels), long_table(findings), _in_words(rows, metrics[0], name))


def _rows(findings: Findings, name: str) -> list[_Row]:
    others = [s for s in findings.slices if s != name]
    found = []
    for row in findings.rows():
        ends = edges(row[name])
        if ends is None:
            continue
        series = ", ".join(label(row[o]) for o in others)
        y, low, high, units = (
            math.nan if row[k] is None else float(row[k]) for k in ("estimate", "low", "high", "units")
        )
        found.append(_Row(row["metric"], series, label(row[name]), middle(*ends), y, low, high, units))
    return sorted(found, key=lambda r: r.x)


def _data(rows: Sequence[_Row]) -> Any:
    return records(
        series=[r.series for r in rows],
        label=[r.bin for r in rows],
        x=[r.x for r in rows],
        y=[r.y for r in rows],
        low=[r.low for r in rows],
        high=[r.high for r in rows],
        units=[r.units for r in rows],
        text=[value_text(r.y, r.metric) for r in rows],
    )


def _bin_axis(rows: Sequence[_Row], name: str) -> Any:
    places = [r.x for r in rows]
    wide = min(places) > 0 and max(places) / min(places) > WIDE
    scale = alt.Scale(type="log", nice=False) if wide else alt.Scale(zero=False)
    return alt.X(
        "x:Q", title=name + (", log scale" if wide else ""), scale=scale, axis=alt.Axis(format=AMOUNT, tickCount=6)
    )


def _line_panel(rows: Sequence[_Row], metric: str, name: str, series: Sequence[str]) -> Panel:
    coloured = 1 < len(series) <= MOST_SERIES
    colour = {"color": series_colour(series)} if coloured else {}
    detail = {} if coloured else {"detail": "series:N"}
    base = alt.Chart(_data(rows)).encode(x=_bin_axis(rows, name), **colour, **detail)
    values = [v for r in rows for v in (r.y, r.low, r.high) if math.isfinite(v)]
    tall = bool(values) and min(values) > 0 and max(values) / min(values) > WIDE
    scale = alt.Scale(type="log") if tall else alt.Scale(zero=False)
    axis = alt.Axis(format=SHARE if is_share(metric) else AMOUNT, tickCount=5)
    y = alt.Y("y:Q", title="log scale" if tall else None, scale=scale, axis=axis)
    tips = [
        alt.Tooltip("label:N", title=name),
        *([alt.Tooltip("series:N", title="slice")] if len(series) > 1 else []),
        alt.Tooltip("text:N", title=metric_title(metric)),
        alt.Tooltip("low:Q", format=".4~g"),
        alt.Tooltip("high:Q", format=".4~g"),
        alt.Tooltip("units:Q", format=","),
    ]
    layers = [
        base.mark_line(style="crowd" if len(series) > MOST_SERIES else "series").encode(y=y),
        base.mark_rule(style="range").encode(y="low:Q", y2="high:Q"),
        base.mark_point().encode(y=y, tooltip=tips),
    ]
    return Panel(alt.layer(*layers), metric_title(metric), height=260)


def _units_panel(rows: Sequence[_Row], name: str, unit: str, series: Sequence[str]) -> Panel:
    """Figure 7: how many units each bin holds; the largest slice stands for all where bins are shared."""
    most: dict[float, _Row] = {}
    for row in rows:
        if row.x not in most or row.units > most[row.x].units:
            most[row.x] = row
    shown = [most[x] for x in sorted(most)]
    several = " in the largest slice" if len(series) > 1 else ""
    y = alt.Y("units:Q", title=None, axis=alt.Axis(format=AMOUNT, tickCount=5))
    tips = [alt.Tooltip("label:N", title=name), alt.Tooltip("units:Q", format=",")]
    bars = alt.Chart(_data(shown)).mark_bar(size=10).encode(x=_bin_axis(rows, name), y=y, tooltip=tips)
    return Panel(alt.layer(bars), f"{plural(unit).capitalize()} per bin{several}", height=260)


def _in_words(rows: Sequence[_Row], metric: str, name: str) -> str:
    known = [r for r in rows if r.metric == metric and math.isfinite(r.y)]
    if not known:
        return f"{metric_title(metric)} is undefined in every bin of {name}."
    first, last = known[0], known[-1]
    return (
        f"{metric_title(metric)} goes from {value_text(first.y, metric)} where {name} is {first.bin} "
        f"to {value_text(last.y, metric)} where it is {last.bin}."
    )
