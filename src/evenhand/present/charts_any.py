"""Charts that fit every audit: the estimates with their intervals, and one quantity against another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from evenhand.cards import REGISTRY, ask
from evenhand.findings import Findings, in_bins
from evenhand.present.drawing import (
    MOST_ROWS,
    Panel,
    Picture,
    axis_format,
    card_of,
    chart,
    decades,
    distinct,
    drawable,
    ends,
    is_share,
    label_axis,
    long_table,
    metric_title,
    reason_text,
    records,
    row_labels,
    series_colour,
    value_text,
    wrapped,
)

ROW = 24
"""Pixels from one labelled row to the next."""

NARROW = 0.2
"""Estimates closer together than this are drawn on an axis that does not start at zero."""


@dataclass(frozen=True, slots=True)
class _Dot:
    """One estimate as it is drawn."""

    label: str
    series: str
    x: float
    low: float
    high: float
    chance: float
    ideal: float
    text: str
    why: str
    metric: str


def _in_bins(findings: Findings) -> str:
    return "its rows are bins of a score, which have charts of their own" if in_bins(findings) else ""


@chart("intervals", title="The numbers, and how sure we are", unless=_in_bins, place=1)
def intervals(findings: Findings) -> Picture:
    """Every estimate with its interval, the level that chance alone would give, and the ideal.

    Metrics of one family share axes, as in figures 2 and 3 of the inequality paper; the equivalences, all close to 100%,
    are turned round (100% minus the value) and drawn on a log axis.
    """
    labels = row_labels(findings)
    dots = [_dot(row, where) for row, where in zip(findings.rows(), labels, strict=True)]
    families: dict[_Family, list[_Dot]] = {}
    scalars = {m for m, rows in Counter(findings.columns["metric"]).items() if rows == 1}
    for dot in dots:
        families.setdefault(_family(dot.metric, alone=dot.metric in scalars), []).append(dot)
    split = Counter(family.name for family in families)
    turning = findings.audit == "inequality"
    binned = any(f"{name}_low" in findings.columns for name in findings.slices)
    along = distinct(labels) if binned else []
    panels = tuple(
        _family_panel(family, inside, along, split=split[family.name] > 1, turning=turning)
        for family, inside in families.items()
    )
    return Picture(panels, long_table(findings), _in_words(findings, dots), _note(findings, dots))


MOST_NAMED = 20
"""Points of a scatter that carry their name; the others tell it to the pointer."""

MOST_PANELS = 4


def _too_few(findings: Findings) -> str:
    if in_bins(findings):
        return _in_bins(findings)
    if len(findings.metrics()) < 2:
        return "it takes two metrics to set one against the other"
    return "" if len(set(row_labels(findings))) > 2 else "it takes three slices or more"


@chart("scatter", title="One number against another", unless=_too_few, place=3, reported=False)
def scatter(findings: Findings) -> Picture:
    """The first metric against each of the others, a point per slice, as in figure 4 of the inequality paper.

    `result.only("gini", "mean").plot("scatter")` chooses the pair.
    """
    metrics = findings.metrics()[: MOST_PANELS + 1]
    labels = row_labels(findings)
    values: dict[str, dict[str, float]] = {m: {} for m in metrics}
    for where, metric, estimate in zip(labels, findings.columns["metric"], findings.columns["estimate"], strict=True):
        if metric in values:
            values[metric][where] = math.nan if estimate is None else float(estimate)
    names = distinct(labels)
    panels = tuple(_scatter_panel(names, values, metrics[0], other) for other in metrics[1:])
    table = {"slice": names, **{m: [drawable(values[m].get(n, math.nan)) for n in names] for m in metrics}}
    says = f"{metric_title(metrics[0])} of {len(names):,} slices against {', '.join(map(metric_title, metrics[1:]))}."
    return Picture(panels, table, says)


def _scatter_panel(names: Sequence[str], values: Mapping[str, Mapping[str, float]], one: str, other: str) -> Panel:
    xs, ys = ([values[m].get(name, math.nan) for name in names] for m in (one, other))
    base = alt.Chart(records(label=names, x=xs, y=ys))
    x, y = _free_axis(alt.X, "x", one, xs), _free_axis(alt.Y, "y", other, ys)
    tips = [
        alt.Tooltip("label:N", title=" "),
        alt.Tooltip("x:Q", title=metric_title(one), format=".4~g"),
        alt.Tooltip("y:Q", title=metric_title(other), format=".4~g"),
    ]
    layers = [base.mark_point().encode(x=x, y=y, tooltip=tips)]
    if len(names) <= MOST_NAMED:
        layers.append(base.mark_text(style="value", align="left", dx=8, limit=160).encode(x=x, y=y, text="label:N"))
    return Panel(alt.layer(*layers), height=320)


def _free_axis(channel: Any, field: str, metric: str, values: Sequence[float]) -> Any:
    axis = alt.Axis(format=axis_format(values, metric), tickCount=5)
    return channel(f"{field}:Q", title=metric_title(metric), scale=alt.Scale(zero=False, padding=16), axis=axis)


@dataclass(frozen=True, slots=True)
class _Family:
    """What shares axes: metrics of one kind, in the same measure and with the same range."""

    name: str
    share: bool
    span: tuple[float, float]

    def title(self, series: Sequence[str], *, split: bool) -> str:
        """The metric where there is one; else the family, with its range where the family fills several panels."""
        if len(series) == 1:
            return series[0]
        low, high = self.span
        bounds = (
            "0 to 1"
            if self.span == (0, 1)
            else "0 and above"
            if low == 0
            else "either side of 0"
            if low < 0 < high
            else ""
        )
        return f"{self.name.capitalize()}, {bounds}" if split and bounds else self.name.capitalize()


def _family(metric: str, *, alone: bool) -> _Family:
    card = card_of(metric)
    if card is None or not card.family:
        return _Family("overall" if alone else metric_title(metric), is_share(metric), (0, 0))
    return _Family(card.family, is_share(metric), ask(metric, REGISTRY).span)


def _dot(row: Mapping[str, Any], where: str) -> _Dot:
    metric = row["metric"]
    x, low, high, chance, ideal = (
        math.nan if row[k] is None else float(row[k]) for k in ("estimate", "low", "high", "chance", "ideal")
    )
    text, why = ("–", reason_text(row["note"])) if math.isnan(x) else (value_text(x, metric), "")
    return _Dot(where, metric_title(metric), x, low, high, chance, ideal, text, why, metric)


def _family_panel(family: _Family, dots: list[_Dot], along: Sequence[str], *, split: bool, turning: bool) -> Panel:
    """Rows are slices and groups, told apart by colour where a family has several metrics; or the metrics themselves.

    They stand in the order `along` where the slices have one of their own (bins), else the largest first.
    """
    series = distinct(dot.series for dot in dots)
    single = len(dots) == len(series)
    if single:
        same = len({d.label for d in dots}) == 1
        parts = [(d.series if len(series) > 1 else "", "" if same else d.label) for d in dots]
        dots = [replace(d, label=": ".join(filter(None, part))) for d, part in zip(dots, parts, strict=True)]
        order = [d.label for d in dots]
    else:
        order = list(along) or _by_size([d for d in dots if d.series == series[0]], dots)
    shown = ends(order)
    rows = [replace(d, label=wrapped(d.label)) for d in dots if d.label in shown]
    lanes = 1 if single else len(series)
    turned = turning and family.name == "equivalences"
    rows = [_turned(d) for d in rows] if turned else rows
    layers = _dot_layers(rows, [wrapped(s) for s in shown], series if lanes > 1 else [], turned=turned)
    tall = 34 if any("\n" in d.label for d in rows) else ROW
    return Panel(
        alt.layer(*layers), family.title(series, split=split), height=max(56, max(tall, 17 * lanes + 8) * len(shown))
    )


def _dot_layers(dots: Sequence[_Dot], shown: Sequence[str], series: Sequence[str], *, turned: bool) -> list[Any]:
    """Ideal, interval, chance level and estimate of every row, its number in a column at the right."""
    fields = ("label", "series", "x", "low", "high", "chance", "ideal", "text", "why")
    data = records(**{name: [getattr(d, name) for d in dots] for name in fields})
    y = alt.Y("label:N", sort=list(shown), title=None, axis=label_axis(grid=True))
    base = alt.Chart(data).encode(y=y, **({"yOffset": alt.YOffset("series:N", sort=list(series))} if series else {}))
    colour = {"color": series_colour(series)} if series else {}
    title = "100% minus the value, log scale" if turned else None
    x = alt.X("x:Q", title=title, scale=_scale(dots, turned=turned), axis=_axis(dots, turned=turned))
    marks = {
        "ideal": base.mark_tick(style="ideal", thickness=2, size=14, clip=True).encode(x="ideal:Q"),
        "low": base.mark_rule(style="range", clip=True).encode(x="low:Q", x2="high:Q", **colour),
        "chance": base.mark_point(style="chance", clip=True).encode(x="chance:Q"),
    }
    known = [mark for field, mark in marks.items() if any(math.isfinite(getattr(d, field)) for d in dots)]
    return [
        *known,
        base.mark_point().encode(x=x, tooltip=_tips(), **colour),
        base.mark_text(style="aside", align="left").encode(x=alt.value(8), text="why:N"),
        base.mark_text(style="value", align="left", dx=10).encode(x=alt.value("width"), text="text:N"),
    ]


def _by_size(first: Sequence[_Dot], dots: Sequence[_Dot]) -> list[str]:
    """Row labels, largest value of the panel's first metric on top; undefined ones last."""
    size = {d.label: d.x for d in first}
    labels = distinct(d.label for d in dots)
    return sorted(labels, key=lambda where: -_or_least(size.get(where, math.nan)))


def _or_least(x: float) -> float:
    return -math.inf if math.isnan(x) else x


def _turned(dot: _Dot) -> _Dot:
    """100% minus the value, unless the metric was asked for that way round."""
    if "inverted=True" in dot.metric.replace(" ", ""):
        return dot
    x, low, high, chance, ideal = (1 - v for v in (dot.x, dot.high, dot.low, dot.chance, dot.ideal))
    return replace(dot, x=x, low=low, high=high, chance=chance, ideal=ideal)


def _spread(dots: Sequence[_Dot]) -> list[float]:
    return [v for d in dots for v in (d.x, d.low, d.high, d.chance) if math.isfinite(v)]


def _scale(dots: Sequence[_Dot], *, turned: bool) -> Any:
    """From 0 to 1 where that shows the differences; closer where it does not; a log axis for what was turned round."""
    values = _spread(dots)
    if not values:
        return alt.Scale(domain=[0, 1])
    low, high = min(values), max(values)
    if turned and low > 0:
        return alt.Scale(type="log", domain=[low / 1.3, min(high * 1.3, 1.0)])
    if low >= 0 and high <= 1 and (high - low > NARROW or len(dots) == 1):
        return alt.Scale(domain=[0, 1])
    room = (high - low or abs(high) or 1.0) * 0.08
    return alt.Scale(domain=[low - room, high + room], nice=True)


def _axis(dots: Sequence[_Dot], *, turned: bool) -> Any:
    ticks = {"values": decades(_spread(dots))} if turned else {"tickCount": 5}
    return alt.Axis(format=axis_format(_spread(dots), dots[0].metric), **ticks)


def _tips() -> list[Any]:
    return [
        alt.Tooltip("label:N", title=" "),
        alt.Tooltip("series:N", title="metric"),
        alt.Tooltip("text:N", title="estimate"),
        alt.Tooltip("low:Q", title="low", format=".4~g"),
        alt.Tooltip("high:Q", title="high", format=".4~g"),
        alt.Tooltip("chance:Q", title="chance alone", format=".4~g"),
    ]


def _in_words(findings: Findings, dots: Sequence[_Dot]) -> str:
    metrics = findings.metrics()
    parts = []
    for metric in metrics[:4]:
        known = [d for d in dots if d.metric == metric and math.isfinite(d.x)]
        if not known:
            continue
        low, high = min(known, key=lambda d: d.x), max(known, key=lambda d: d.x)
        if low.label == high.label:
            parts.append(f"{metric_title(metric)} is {low.text}")
        else:
            parts.append(f"{metric_title(metric)} runs from {low.text} ({low.label}) to {high.text} ({high.label})")
    return "; ".join(parts) + "." if parts else "No number is defined."


def _note(findings: Findings, dots: Sequence[_Dot]) -> str:
    notes = ["Differences: the first result minus the second."] if findings.audit == "compare" else []
    if any(math.isfinite(d.low) for d in dots):
        notes.append("Bars are intervals.")
    if any(math.isfinite(d.chance) for d in dots):
        notes.append("The diamond is what chance alone would give.")
    if any(math.isfinite(d.ideal) for d in dots):
        notes.append("The grey tick is the ideal, where it falls on the axis.")
    rows = len({d.label for d in dots})
    if rows > MOST_ROWS:
        notes.append(f"{MOST_ROWS} of {rows:,} rows are drawn, the highest and the lowest; the table has all.")
    return " ".join(notes)
