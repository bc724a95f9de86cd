"""Lorenz curves, as in figures 1 and 6 of the inequality paper, and how slots are spread over items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np

from evenhand.cards import Floats
from evenhand.findings import Findings
from evenhand.report.charts.drawing import Panel, Picture, chart, columns_of, records
from evenhand.report.charts.lorenz_curves import Curve, curves
from evenhand.report.charts.shapes import SHARE, Axis, series_colour, series_shape, shares
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.text import holders, number, percent, short_percent, word

LINEAR_BELOW = 1e-6
"""The log axis of figure 1b turns linear here, so that the stretch of units with nothing can be seen."""

Polygon = tuple[str, Floats, Floats]
"""The name of a curve, and its x and y as they are drawn."""


def _no_curve(findings: Findings) -> str:
    return "" if curves(findings) else "it has no Lorenz curve"


@chart("lorenz", title="The Lorenz curve: who gets how much", unless=_no_curve, reported=False)
def lorenz(findings: Findings) -> Picture:
    """Share of everything that the bottom part of the units gets; the further below the dashed line, the less equal."""
    drawn = curves(findings)
    layers = [*_gap(drawn), *_lines(findings, drawn, _share_axis(findings)), *_equality()]
    return _picture(findings, drawn, layers, _crowd_note(drawn))


@chart("lorenz_log", title="The Lorenz curve on a log axis", unless=_no_curve)
def lorenz_log(findings: Findings) -> Picture:
    """Lorenz curves on a log axis that is linear below one in a million, to show where units start to get anything."""
    drawn = [curve.thinned(SIZES.points // 4).bent() for curve in curves(findings)]
    ticks = [0, *(10.0**k for k in range(-6, 1))]
    title = f"share of all {word(findings, 'amount', 'amounts')}, log scale"
    y = Axis(title, SHARE, (0, 1), ticks, scale={"type": "symlog", "constant": LINEAR_BELOW})
    note = f"The axis is logarithmic above {short_percent(LINEAR_BELOW)} and linear below. Dashed: perfect equality."
    layers = [*_lines(findings, drawn, y), _equality()[0]]  # no room for its name on a log axis
    plotted = _picture(findings, drawn, layers, " ".join(filter(None, [note, _crowd_note(drawn)])))
    return replace(plotted, panels=(replace(plotted.panels[0], height=SIZES.tall, square=False),))


@chart("top", title="What the top gets", unless=_no_curve, reported=False)
def from_the_top(findings: Findings) -> Picture:
    """Lorenz curves from the top, on a log axis: how much do the top 0.1%, 1%, 10% get?"""
    drawn = curves(findings)
    least = max(1e-9, min(float(np.diff(c.population[-2:])[0]) for c in drawn))
    ticks = [10.0**k for k in range(-8, 1) if 10.0**k >= least]
    title = f"{holders(findings)} from the top, log scale"
    x = Axis(title, SHARE, (least, 1), ticks, scale={"type": "log", "nice": False})

    def tail(curve: Curve, most: int) -> Polygon:
        return curve.name, *curve.tail(least, most)

    def marks(curve: Curve, at: Floats) -> Polygon:
        xs = least ** (1 - at)
        return curve.name, xs, 1 - np.interp(1 - xs, curve.population, curve.share)

    layers = _curve_layers(findings, drawn, (x, _share_axis(findings)), "top", 160, tail, marks)
    equality = tail(Curve("", np.array([0.0, 1.0]), np.array([0.0, 1.0])), 100)
    layers.append(_chart([equality]).mark_line(style="reference").encode(x="x:Q", y="y:Q", order="x:Q"))
    note = " ".join(filter(None, ["Dashed: perfect equality.", _crowd_note(drawn)]))
    return _picture(findings, drawn, layers, note)


def _lines(findings: Findings, drawn: Sequence[Curve], y: Axis, across: str = "") -> list[Any]:
    def polygon(curve: Curve, most: int) -> Polygon:
        thin = curve.thinned(most)
        return curve.name, thin.population, thin.share

    def marks(curve: Curve, at: Floats) -> Polygon:
        return curve.name, at, np.interp(at, curve.population, curve.share)

    x = shares(across or f"{holders(findings)}, from least to most")
    corners = SIZES.corners
    if len(drawn) <= SIZES.series:
        corners = max(20, min(SIZES.corners, SIZES.points // len(drawn)))
    return _curve_layers(findings, drawn, (x, y), "bottom", corners, polygon, marks)


def _curve_layers(
    findings: Findings,
    drawn: Sequence[Curve],
    axes: tuple[Axis, Axis],
    side: str,
    corners: int,
    polygon: Any,
    marks: Any,
) -> list[Any]:
    """A colour per curve with points for the pointer; where there are too many, the two extremes stand out from the crowd.

    `polygon(curve, most)` is the drawn curve with about `most` corners, `marks(curve, places)` points on it.
    """
    is_crowded = len(drawn) > SIZES.series
    shown = [drawn[0], drawn[-1]] if is_crowded else list(drawn)
    names, title = [c.name for c in shown], ", ".join(findings.slices)
    place = {"x": axes[0].on(alt.X, "x"), "y": axes[1].on(alt.Y, "y")}
    coloured = {"color": series_colour(names, title)} if len(shown) > 1 else {}
    tips = [
        *([alt.Tooltip("series:N", title=title)] if findings.slices else []),
        alt.Tooltip("x:Q", title=f"{side} {holders(findings)}", format=".4~%"),
        alt.Tooltip("y:Q", title="get together", format=".4~%"),
    ]
    lines = _chart([polygon(c, corners) for c in shown]).mark_line()
    hits = _chart([polygon(c, SIZES.hits // len(shown)) for c in shown]).mark_point(opacity=0, size=60)
    layers = [lines.encode(**place, detail="k:N", order="x:Q", **coloured), hits.encode(**place, tooltip=tips)]
    if len(shown) > 1:  # a few points in the shape of each series, so that curves differ in grey too
        places = [(np.arange(5) + (k + 0.5) / len(shown)) / 5 for k in range(len(shown))]
        signs = _chart([marks(c, at) for c, at in zip(shown, places, strict=True)]).mark_point(size=45)
        layers.append(signs.encode(**place, **coloured, shape=series_shape(names, title)))
    if is_crowded:
        crowd = _chart([polygon(c, max(20, SIZES.points // len(drawn))) for c in drawn[1:-1]])
        crowd = crowd.mark_line(style="crowd", opacity=max(0.06, 8 / len(drawn)))
        layers.insert(0, crowd.encode(**place, detail="k:N", order="x:Q"))
    return layers


def _chart(polygons: Sequence[Polygon]) -> Any:
    return alt.Chart(
        records(
            {"series": name, "k": k, "x": float(x), "y": float(y)}
            for k, (name, xs, ys) in enumerate(polygons)
            for x, y in zip(xs, ys, strict=True)
        )
    )


def _picture(findings: Findings, drawn: Sequence[Curve], layers: Sequence[Any], note: str) -> Picture:
    least = drawn[-1]
    lead = f"On the lowest curve{f' ({least.name})' if least.name else ''}, " if len(drawn) > 1 else "On this curve, "
    last = max(p for p in _bottoms(curves(findings)[-1:]) if p <= 0.99)
    top = f" and the top {short_percent(1 - last)} get {percent(1 - least.at(last))}" if last > 0.5 else ""
    sentence = f"{lead}the bottom half of {holders(findings)} get {percent(least.at(0.5))}{top}."
    named: dict[str, list[Any]] = {", ".join(findings.slices): [c.name for c in drawn]} if findings.slices else {}
    panel = Panel(alt.layer(*layers), height=SIZES.square, square=True)
    return Picture((panel,), named | _read_out(drawn, _bottoms(curves(findings))), sentence, note, lead=False)


def _bottoms(drawn: Sequence[Curve]) -> list[float]:
    """Shares of the units whose share of everything some curve shows: beyond its last point before the end it is a guess."""
    return [p for p in (0.5, 0.8, 0.9, 0.99, 0.999) if p == 0.5 or any(p <= c.population[-2] for c in drawn)]


def _read_out(drawn: Sequence[Curve], bottoms: Sequence[float]) -> dict[str, list[Any]]:
    return {f"share of the bottom {100 * p:g}%": [percent(c.at(p)) for c in drawn] for p in bottoms}


def _share_axis(findings: Findings) -> Axis:
    return shares(f"share of all {word(findings, 'amount', 'amounts')}")


def _equality() -> list[Any]:
    """The dashed line, and its name."""
    line = records({"x": i / 200, "y": i / 200} for i in range(201))  # many points: on a log axis the line is bent
    ends = alt.Chart(line).mark_line(style="reference").encode(x="x:Q", y="y:Q")
    caption = alt.Chart(records([{"x": 0.5, "y": 0.5, "text": "perfect equality"}]))
    caption = caption.encode(x="x:Q", y="y:Q", text="text:N")
    return [ends, *(caption.mark_text(style=style, align="right", dx=-10, dy=-4) for style in ("halo", "aside"))]


def _gap(drawn: Sequence[Curve]) -> list[Any]:
    """The area between one curve and equality, which is half the Gini index."""
    if len(drawn) > 1:
        return []
    curve = drawn[0].thinned(SIZES.points // 2)
    corners = zip(curve.population.tolist(), curve.share.tolist(), strict=True)
    data = records({"x": x, "y": y, "z": x} for x, y in corners)
    return [alt.Chart(data).mark_area(style="gap").encode(x="x:Q", y="y:Q", y2="z:Q")]


def _crowd_note(drawn: Sequence[Curve]) -> str:
    many = len(drawn) > SIZES.series
    return f"{len(drawn):,} curves; the highest and the lowest are in colour." if many else ""


@chart("lorenz_annotated", title="How to read a Lorenz curve", unless=_no_curve, reported=False)
def lorenz_annotated(findings: Findings) -> Picture:
    """Figure 6: the areas and lengths from which the metrics are read. With several slices, the least equal one."""
    curve = curves(findings)[-1].thinned(SIZES.points // 2)
    top, half = 1 - curve.at(0.8), curve.point(0.5)
    matched = curve.point(top)
    guides = [  # x, y, x2, y2: the lengths c to f of the figure
        (0.2, 0, 0.2, curve.at(0.2)), (0.8, curve.at(0.8), 0.8, 1), (0, top, matched, top), (matched, 0, matched, top),
        (0, 0.5, half, 0.5), (half, 0, half, 0.5),
    ]  # fmt: skip
    side = 0.03 if top >= 0.5 else -0.03
    letters = {  # A between the lines, B below the curve, the others beside their lengths
        "A": (0.62, (0.62 + curve.at(0.62)) / 2, f"area above the curve; the Gini index A / (A + B) is {number(1 - 2 * curve.area)}"),
        "B": (0.9, max(0.03, curve.at(0.9) / 2), "area below the curve"),
        "c": (0.22, max(0.025, curve.at(0.2) / 2), f"the bottom 20% of {holders(findings)} get {percent(curve.at(0.2))}"),
        "d": (0.77, (1 + curve.at(0.8)) / 2, f"the top 20% get {percent(top)}"),
        "e": (matched / 4, top + side, f"the bottom {percent(matched)} get as much as the top 20%"),
        "f": (half / 4, 0.5 - side, f"the bottom {percent(half)} get half of all {word(findings, 'amount', 'amounts')}"),
    }  # fmt: skip
    rules = alt.Chart(records(dict(zip(("x", "y", "x2", "y2"), guide, strict=True)) for guide in guides))
    texts = alt.Chart(records({"x": x, "y": y, "text": letter} for letter, (x, y, _) in letters.items()))
    layers = [
        *_gap([curve]),
        _lines(findings, [curve], _share_axis(findings))[0],
        _equality()[0],
        rules.mark_rule(style="reference").encode(x="x:Q", y="y:Q", x2="x2:Q", y2="y2:Q"),
        texts.mark_text(style="value", fontSize=15, fontWeight=600).encode(x="x:Q", y="y:Q", text="text:N"),
    ]
    rows = [{"letter": letter, "meaning": meaning} for letter, (_, _, meaning) in letters.items()]
    note = "\n".join(
        [*([f"The curve of {curve.name}."] if curve.name else []), *(f"{r['letter']}: {r['meaning']}" for r in rows)]
    )
    sentence = f"Letters mark what can be read off: {letters['d'][2]}; {letters['f'][2]}."
    panel = Panel(alt.layer(*layers), height=SIZES.square, square=True)
    return Picture((panel,), columns_of(rows, "letter", "meaning"), sentence, note, lead=False)


@chart(
    "catalogue", title="How the slots are spread over the catalogue", reported=False,
    unless=lambda findings: "" if curves(findings) else "nothing was shown",
)  # fmt: skip
def catalogue(findings: Findings) -> Picture:
    """Share of all slots that the items shown least get; the further below the dashed line, the fewer items are shown."""
    drawn = curves(findings)
    across = "items, from least to most shown"
    layers = [*_gap(drawn), *_lines(findings, drawn, shares("share of all slots"), across), *_equality()]
    items = findings.provenance.get("items")
    many = f"{number(float(items))} items" if isinstance(items, (int, float)) else "the items"
    lead = f"{drawn[-1].name}: the" if drawn[-1].name else "The"
    sentence = f"{lead} less shown half of {many} gets {percent(drawn[-1].at(0.5))} of all slots."
    panel = Panel(alt.layer(*layers), height=SIZES.square, square=True)
    return Picture((panel,), _read_out(drawn, _bottoms(drawn)), sentence, lead=False)
