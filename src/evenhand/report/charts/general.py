"""Charts that fit every audit: the estimates with their intervals, and one quantity against another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from evenhand.cards import REGISTRY, parse_metric
from evenhand.findings import Findings, in_bins, read_number
from evenhand.report.charts.drawing import Panel, Picture, chart, columns_of, distinct, long_table, split
from evenhand.report.charts.shapes import Axis, axis_format, cloud, decades, ends, in_rows, lines
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.phrases import card_of, is_share, metric_title, value_format, value_text
from evenhand.report.words.text import (
    Row,
    are_differences,
    dated,
    first_reason,
    is_finite,
    row_labels,
    signed,
    slice_names,
    word,
)

TURNED = "equivalences"
"""The family whose values, all close to 100%, are drawn as 100% minus the value."""

Dot = dict[str, Any]
Family = tuple[str, bool, tuple[float, float]]
"""Metrics that share axes: their kind, whether they are shares, their range."""


def _in_bins(findings: Findings) -> str:
    bins = findings.columns["bin"] if in_bins(findings) else ()
    return "its rows are bins of a score, which have their own charts" if any(map(is_finite, bins)) else ""


@chart("intervals", title="Estimates and intervals", unless=_in_bins, general=True)
def intervals(findings: Findings) -> Picture:
    """Every estimate with its interval, the value expected by chance, and the ideal.

    Metrics of one family share axes, as in figures 2 and 3 of the inequality paper; the equivalences, all close to 100%,
    are turned round (100% minus the value) and drawn on a log axis.
    """
    labels = row_labels(findings)
    as_difference = are_differences(findings)
    if dated(findings):
        return _over_time(findings)
    dots = [_dot(row, where, as_difference=as_difference) for row, where in zip(findings.rows(), labels, strict=True)]
    scalars = {m for m, rows in Counter(findings.columns["metric"]).items() if rows == 1}
    families = split(dots, lambda dot: _family(dot["metric"], is_single=dot["metric"] in scalars))
    drawn = {f: inside for f, inside in families.items() if any(math.isfinite(d["x"]) or d["why"] for d in inside)}
    families = drawn or families  # without empty axes; the note names what was left out
    panel_counts = Counter(name for name, _, _ in families)
    binned = any(f"{name}_low" in findings.columns for name in findings.slices)
    along = distinct(labels) if binned else []
    panels = []
    for family, inside in families.items():
        title = _family_title(family, inside, fills_several=panel_counts[family[0]] > 1)
        turned = family[0] == TURNED and not as_difference
        panels.append(_panel(inside, along, title=title, turned=turned, as_difference=as_difference))
    return Picture(tuple(panels), long_table(findings), _note(findings, dots))


def _over_time(findings: Findings) -> Picture:
    """A line per slice and group along the days, a panel per metric; the band is the interval."""
    day, *others = sorted(findings.slices, key=lambda name: name not in dated(findings))
    groups = findings.columns["group"]
    names = slice_names([*others, *(["group"] if any(g is not None for g in groups) else [])], findings.columns)
    dots = [{**_dot(row, name), "day": str(row[day])} for row, name in zip(findings.rows(), names, strict=True)]
    series = distinct(names)
    panels = []
    for metric in findings.metrics():
        of_metric = sorted((d for d in dots if d["metric"] == metric), key=lambda d: d["day"])
        values = [v for d in of_metric for v in (d["x"], d["low"], d["high"]) if math.isfinite(v)]
        rows = [
            {
                "series": d["label"], "x": d["day"], "y": d["x"], "low": d["low"], "high": d["high"], "level": d["chance"],
                "day_text": d["day"], "value_text": d["text"],
            }
            for d in of_metric
        ]  # fmt: skip
        tips = {"day_text": day, "value_text": "estimate", **({"series": " "} if len(series) > 1 else {})}
        y = Axis(format=axis_format(values, metric), ticks=4, scale={"zero": False})
        x = Axis(format="%-d %b %y", ticks=4, days=True)
        panels.append(lines(
            rows, x=x, y=y, tips=tips, series=series, shaded=True, small=True, title=metric_title(metric), height=SIZES.short
        ))  # fmt: skip
    chance = any(math.isfinite(dot["chance"]) for dot in dots)
    note = "The band is the interval of each day." + (" Dashed: expected by chance." if chance else "")
    return Picture(tuple(panels), long_table(findings), note)


def _family(metric: str, *, is_single: bool) -> Family:
    card = card_of(metric)
    if card is None or not card.family:
        return "overall" if is_single else metric_title(metric), is_share(metric), (0, 0)
    return card.family, is_share(metric), parse_metric(metric, REGISTRY).span


def _family_title(family: Family, dots: Sequence[Dot], *, fills_several: bool) -> str:
    """The metric where there is one; else the family, with its range where the family fills several panels."""
    series = distinct(dot["series"] for dot in dots)
    if len(series) == 1:
        return str(series[0])
    name, _, (low, high) = family
    bounds = "either side of 0" if low < 0 < high else ""
    if low == 0:
        bounds = "0 to 1" if high == 1 else "0 and above"
    return f"{name.capitalize()}, {bounds}" if fills_several and bounds else name.capitalize()


def _dot(row: Row, where: str, *, as_difference: bool = False) -> Dot:
    metric = row["metric"]
    named = {"x": "estimate", "low": "low", "high": "high", "chance": "chance", "ideal": "ideal"}
    numbers = {field: read_number(row[column]) for field, column in named.items()}
    value, undefined = numbers["x"], math.isnan(numbers["x"])
    text = signed(value, value_format(metric)) if as_difference and value else value_text(value, metric)
    why = ": ".join(filter(None, ["undefined", first_reason(row["note"])])) if undefined else ""
    texts = {"text": "–" if undefined else text, "why": why}
    return {"label": where, "series": metric_title(metric), "metric": metric, **numbers, **texts}


def _panel(dots: list[Dot], along: Sequence[str], *, title: str, turned: bool, as_difference: bool) -> Panel:
    """Rows are slices and groups, told apart by colour where a family has several metrics; or the metrics themselves.

    They stand in the order `along` where the slices have one of their own (bins), else the largest first.
    """
    series = distinct(dot["series"] for dot in dots)
    single = len(dots) == len(series)
    if single:
        dots = _named_by_metric(dots)
        order = [dot["label"] for dot in dots]
    else:
        order = list(along) or _by_size(dots, series[0])
    several = len(series) > 1 and not single
    shown = ends(order)
    rows = [_on_log(_complement(dot)) if turned else dot for dot in dots if dot["label"] in shown]
    rows = [{**d, "ideal": math.nan} if math.isnan(d["x"]) else d for d in rows]  # its tick would cross the reason out
    values = _axis_values(rows)
    low, high = (min(values), max(values)) if values else (math.nan, math.nan)
    rows = [{**d, "chance": d["chance"] if low <= d["chance"] <= high else math.nan} for d in rows]
    tips = {
        "label": " ", "series": "metric", "text": "estimate", "low": "low", "high": "high", "chance": "expected by chance"
    }  # fmt: skip
    axis = _axis(values, rows[0]["metric"], is_single=len(rows) == 1 and not as_difference, turned=turned)
    return in_rows(
        rows, "dot", x=axis, tips=tips, order=shown,
        series=series if several else [], lanes=several, title=title, least=56,
    )  # fmt: skip


def _on_log(dot: Dot) -> Dot:
    """The dot without ends at or below zero; a reason in place of a value of zero."""
    if dot["x"] > 0 or math.isnan(dot["x"]):
        return dot if dot["low"] > 0 else {**dot, "low": math.nan, "high": math.nan}
    missing = dict.fromkeys(("x", "low", "high", "ideal"), math.nan)
    return {**dot, **missing, "why": "0 (not on a log axis)"}


def _axis_values(rows: Sequence[Dot]) -> list[float]:
    """Values that the axis must include: estimates, their ends, and chance levels unless those would crowd the others."""
    estimates = [v for d in rows for v in (d["x"], d["low"], d["high"]) if math.isfinite(v)]
    levels = [d["chance"] for d in rows if math.isfinite(d["chance"])]
    every = [*estimates, *levels]
    if not estimates or not levels or len(rows) == 1:
        return every
    is_crowded = 0 < max(estimates) - min(estimates) < 0.25 * (max(every) - min(every))
    return estimates if is_crowded else every


def _named_by_metric(dots: Sequence[Dot]) -> list[Dot]:
    same = len({dot["label"] for dot in dots}) == 1
    parts = [(dot["series"] if len(dots) > 1 else "", "" if same else dot["label"]) for dot in dots]
    return [{**dot, "label": ": ".join(filter(None, part))} for dot, part in zip(dots, parts, strict=True)]


def _by_size(dots: Sequence[Dot], first: str) -> list[str]:
    """Row labels, largest value of the panel's first metric on top; undefined ones last."""
    size = {dot["label"]: dot["x"] for dot in dots if dot["series"] == first and not math.isnan(dot["x"])}
    return sorted(distinct(dot["label"] for dot in dots), key=lambda where: -size.get(where, -math.inf))


def _complement(dot: Dot) -> Dot:
    if "inverted=True" in dot["metric"].replace(" ", ""):
        return dot
    others = {"x": "x", "low": "high", "high": "low", "chance": "chance", "ideal": "ideal"}
    return {**dot, **{field: 1 - dot[other] for field, other in others.items()}}


def _axis(values: Sequence[float], metric: str, *, is_single: bool, turned: bool) -> Axis:
    """From 0 to 1 where that shows the differences; closer where it does not; a log axis for what was turned round."""
    form = axis_format(values, metric)
    low, high = min(values, default=0.0), max(values, default=1.0)
    if turned:
        title, ticks = "100% minus the value, log scale", decades(values)
        if values and low > 0:
            return Axis(title, form, (low / 1.3, min(high * 1.3, 1.0)), ticks, scale={"type": "log"})
        return Axis(title, form, (0, 1), ticks)
    if low >= 0 and high <= 1 and (high - low > 0.2 or is_single):
        return Axis(format=form, domain=(0, 1))
    is_unbounded = bool(card_of(metric)) and math.isinf(parse_metric(metric, REGISTRY).span[1])
    if is_unbounded and low > 0 and high / low >= 30:
        return Axis("log scale", form, (low / 1.5, high * 1.5), decades(values), scale={"type": "log"})
    room = (high - low or abs(high) or 1.0) * 0.08
    first = low - room if low < 0 else max(low - room, 0.0)
    last = high + room if high > 1 else min(high + room, 1.0)
    return Axis(format=form, domain=(first, last), scale={"nice": True, "zero": False})


def _note(findings: Findings, dots: Sequence[Dot]) -> str:
    notes = [f"Differences: {_minus(findings)}."] if are_differences(findings) else []
    sentences = {
        "low": "Bars: intervals.",
        "chance": "Diamonds: expected by chance.",
        "ideal": "Grey ticks: the ideal.",
    }
    notes += [line for field, line in sentences.items() if any(math.isfinite(dot[field]) for dot in dots)]
    endless = distinct(dot["series"] for dot in dots if math.isinf(dot["x"]))
    notes += [f"{', '.join(endless)}: infinite values are in the table only."] if endless else []
    rows = len({dot["label"] for dot in dots})
    if rows > SIZES.rows:
        notes.append(f"{SIZES.rows} of {rows:,} rows are drawn, the highest and the lowest; the table has all.")
    return " ".join(notes)


def _minus(findings: Findings) -> str:
    if "treatment" in findings.columns:
        return f"each arm minus {word(findings, 'control')}"
    if "versus" in findings.slices:
        return "the second system minus the first"
    return f"{word(findings, 'b')} minus {word(findings, 'a')}"


def _too_few(findings: Findings) -> str:
    if problem := _in_bins(findings):
        return problem
    if len(findings.metrics()) < 2:
        return "it takes two metrics"
    return "" if len(set(row_labels(findings))) > 2 else "it takes three slices or more"


@chart("scatter", title="One number against another", unless=_too_few, general=True, reported=False)
def scatter(findings: Findings) -> Picture:
    """The first metric against each of the others, a point per slice, as in figure 4 of the inequality paper.

    `result.only("gini", "mean").plot("scatter")` chooses the pair.
    """
    first, *others = findings.metrics()[: SIZES.wide_panels + 1]
    labels = row_labels(findings)
    slices: dict[str, dict[str, Any]] = {where: {"slice": where} for where in labels}
    for where, metric, estimate in zip(labels, findings.columns["metric"], findings.columns["estimate"], strict=True):
        slices[where][metric] = read_number(estimate)
    rows = [{**dict.fromkeys((first, *others), math.nan), **values} for values in slices.values()]

    def axis(metric: str) -> Axis:
        form = axis_format([row[metric] for row in rows], metric)
        return Axis(metric_title(metric), form, scale={"zero": False, "padding": 16})

    panels = tuple(
        cloud(
            [{"label": row["slice"], "x": row[first], "y": row[other]} for row in rows], x=axis(first), y=axis(other),
            tips={"label": " ", "x": metric_title(first), "y": metric_title(other)},
        )
        for other in others
    )  # fmt: skip
    return Picture(panels, columns_of(rows, "slice", first, *others), "A point for each slice.")
