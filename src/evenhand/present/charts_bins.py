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
    Panel,
    Picture,
    axis_format,
    chart,
    decades,
    distinct,
    long_table,
    metric_title,
    records,
    series_colour,
    value_text,
    word,
)
from evenhand.present.text import in_words, plural
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
    """The ends that a label such as "[10, 100)" says, or nothing.

    >>> edges("[10, 1,000)"), edges("likes")
    ((10.0, 1000.0), None)
    """
    found = _INTERVAL.fullmatch(str(value))
    return (float(found[1].replace(",", "")), float(found[2].replace(",", ""))) if found else None


def middle(low: float, high: float) -> float:
    """Where a bin stands on an axis: the geometric middle, since bins that matter are log-spaced."""
    if math.isinf(high):
        return low
    return math.sqrt(low * high) if low > 0 else (low + high) / 2


def _places(findings: Findings, name: str) -> list[float]:
    """Where on the axis each row's bin stands, by the columns of edges or else by its label; NaN for none."""
    lows, highs = findings.columns.get(f"{name}_low"), findings.columns.get(f"{name}_high")
    if lows is not None and highs is not None:
        ends = [
            None if low is None or high is None else (float(low), float(high))
            for low, high in zip(lows, highs, strict=True)
        ]
    else:
        ends = [edges(value) for value in findings.columns[name]]
    return [math.nan if e is None else middle(*e) for e in ends]


def _binned_slice(findings: Findings) -> str:
    """The first slice column that holds bins, or nothing."""
    for name in findings.slices:
        known = {x for x in _places(findings, name) if not math.isnan(x)}
        if len(known) >= FEWEST:
            return name
    return ""


def _no_bins(findings: Findings) -> str:
    return "" if _binned_slice(findings) else f"no slice column holds {FEWEST} bins or more"


@chart("bins", audits=("inequality",), title="How it changes along the bins", unless=_no_bins)
def bins(findings: Findings) -> Picture:
    """Each metric along the bins with its interval, and how many units each bin holds.

    Bins are a slice column `b` with its edges in `b_low` and `b_high`, or one whose labels are intervals.
    """
    name = _binned_slice(findings)
    rows = _rows(findings, name)
    series = distinct(row.series for row in rows)
    metrics = findings.metrics()
    panels = [_line_panel([r for r in rows if r.metric == m], m, name, series) for m in metrics]
    panels.append(_units_panel([r for r in rows if r.metric == metrics[0]], name, word(findings, "unit"), series))
    return Picture(tuple(panels), long_table(findings), _in_words(rows, metrics[0], name))


def _rows(findings: Findings, name: str) -> list[_Row]:
    others = [s for s in findings.slices if s != name]
    found = []
    for row, x in zip(findings.rows(), _places(findings, name), strict=True):
        if math.isnan(x):
            continue
        series = ", ".join(label(row[o]) for o in others)
        y, low, high, units = (
            math.nan if row[k] is None else float(row[k]) for k in ("estimate", "low", "high", "units")
        )
        found.append(_Row(row["metric"], series, label(row[name]), x, y, low, high, units))
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


def _axis(channel: Any, field: str, title: str | None, values: Sequence[float], metric: str = "") -> Any:
    """A log axis where the values spread over many sizes (zeros stand at its foot), a plain one elsewhere."""
    known = [v for v in values if math.isfinite(v)]
    positive = [v for v in known if v > 0]
    wide = bool(positive) and min(known) >= 0 and max(positive) / min(positive) > WIDE
    shown: dict[str, Any] = {"tickCount": 5}
    scale = alt.Scale(zero=False, padding=10)
    if wide:
        zeros = len(positive) < len(known)
        kind = {"type": "symlog", "constant": min(positive) / 2} if zeros else {"type": "log"}
        scale = alt.Scale(nice=False, padding=10, **kind)
        shown = {"values": [*([0.0] if zeros else []), *decades(positive)]}
    said = ", ".join(filter(None, [title, "log scale" if wide else ""])) or None
    return channel(f"{field}:Q", title=said, scale=scale, axis=alt.Axis(format=axis_format(known, metric), **shown))


def _line_panel(rows: Sequence[_Row], metric: str, name: str, series: Sequence[str]) -> Panel:
    coloured = 1 < len(series) <= MOST_SERIES
    colour = {"color": series_colour(series)} if coloured else {}
    detail = {} if coloured else {"detail": "series:N"}
    base = alt.Chart(_data(rows)).encode(x=_axis(alt.X, "x", name, [r.x for r in rows]), **colour, **detail)
    y = _axis(alt.Y, "y", None, [v for r in rows for v in (r.y, r.low, r.high)], metric)
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
    x, y = _axis(alt.X, "x", name, [r.x for r in rows]), _axis(alt.Y, "units", plural(unit), [r.units for r in shown])
    tips = [alt.Tooltip("label:N", title=name), alt.Tooltip("units:Q", format=",")]
    base = alt.Chart(_data(shown)).encode(x=x, y=y)
    return Panel(
        alt.layer(base.mark_line(), base.mark_point().encode(tooltip=tips)),
        f"{plural(unit).capitalize()} per bin{several}",
        height=260,
    )


def _in_words(rows: Sequence[_Row], metric: str, name: str) -> str:
    known = [r for r in rows if r.metric == metric and math.isfinite(r.y)]
    if not known:
        return f"{metric_title(metric)} is undefined in every bin of {name}."
    first, last = known[0], known[-1]
    return (
        f"{metric_title(metric)} goes from {value_text(first.y, metric)} where {name} is {in_words(first.bin)} "
        f"to {value_text(last.y, metric)} where it is {in_words(last.bin)}."
    )
