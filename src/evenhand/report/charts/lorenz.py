"""Lorenz curves: who holds how much, as in figures 1 and 6 of the inequality paper, and how slots are spread over items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from evenhand.findings import Findings
from evenhand.report.charts.drawing import (
    MOST_POINTS,
    Panel,
    Picture,
    chart,
    holders,
    records,
    slices_in_words,
    word,
)
from evenhand.report.charts.lorenz_curves import Curve, curves
from evenhand.report.charts.shapes import SHARE, Axis, series_colour, series_shape, shares
from evenhand.report.charts.theme import MOST_SERIES
from evenhand.report.words.text import number, percent, short_percent

LINEAR_BELOW = 1e-6
"""The log axis of figure 1b turns linear here, so that the stretch of units with nothing can be seen."""

MOST_CORNERS = 500
"""Corners of one drawn curve, finer than its pixels; the explorer computes with more."""

MOST_HITS = 240
"""Invisible points that answer to the pointer."""

SIGNS = 5
"""Points on a curve that show the shape of its series."""

SIDE = 420
READ_AT = (0.5, 0.8, 0.9, 0.99, 0.999)
"""Points of a curve that its table reads out."""


def _no_curve(findings: Findings) -> str:
    return "" if curves(findings) else "it holds no Lorenz curve"


@chart("lorenz", title="Who holds how much: the Lorenz curve", unless=_no_curve, reported=False)
def lorenz(findings: Findings) -> Picture:
    """Share of everything held by the bottom part of the units; the further below the dashed line, the less equal."""
    drawn = curves(findings)
    layers = [*_gap(drawn), *_lines(findings, drawn, _held(findings)), *_equality()]
    return _picture(findings, drawn, layers, _crowd_note(drawn))


@chart("lorenz_log", title="Who holds how much, on a log axis", unless=_no_curve)
def lorenz_log(findings: Findings) -> Picture:
    """Lorenz curves on a log axis that is linear below one in a million, to show where holding anything begins."""
    drawn = [curve.thinned(MOST_POINTS // 4).bent() for curve in curves(findings)]
    ticks = [0, *(10.0**k for k in range(-6, 1))]
    title = f"share of all {_amount(findings)}, log scale"
    y = Axis(title, SHARE, (0, 1), ticks, scale={"type": "symlog", "constant": LINEAR_BELOW})
    note = (
        f"The axis is logarithmic above {short_percent(LINEAR_BELOW)} and linear below it. Dashed: if all had the same."
    )
    layers = [*_lines(findings, drawn, y), *_equality(named=False)]
    return _picture(findings, drawn, layers, " ".join(filter(None, [note, _crowd_note(drawn)])))


@chart("top", title="What the few at the top hold", unless=_no_curve, reported=False)
def from_the_top(findings: Findings) -> Picture:
    """Lorenz curves from the top, on a log axis: how much do the top 0.1%, 1%, 10% hold?"""
    drawn = curves(findings)
    crowded = len(drawn) > MOST_SERIES
    shown = [drawn[0], drawn[-1]] if crowded else list(drawn)
    least = max(1e-9, min(float(np.diff(c.population[-2:])[0]) for c in drawn))
    ticks = [10.0**k for k in range(-8, 1) if 10.0**k >= least]
    x = Axis(
        f"{holders(findings)} with most, log scale", SHARE, (least, 1), ticks, scale={"type": "log", "nice": False}
    )
    place = {"x": x.on(alt.X, "x"), "y": _held(findings).on(alt.Y, "y")}
    coloured = {} if len(shown) == 1 else {"color": series_colour([c.name for c in shown], slices_in_words(findings))}
    layers = [
        alt.Chart(_tails(shown, least, 160)).mark_line().encode(**place, detail="k:N", order="x:Q", **coloured),
        alt.Chart(_tails(shown, least, MOST_HITS // len(shown)))
        .mark_point(opacity=0, size=60)
        .encode(**place, tooltip=_tips(findings, "top")),
        alt.Chart(_tails([Curve("", np.array([0.0, 1.0]), np.array([0.0, 1.0]))], least, 100))
        .mark_line(style="reference")
        .encode(**place, order="x:Q"),
    ]
    if len(shown) > 1:
        layers.append(_signs(findings, [_on_tail(curve, least, k, len(shown)) for k, curve in enumerate(shown)], place))
    if crowded:
        crowd = alt.Chart(_tails(drawn[1:-1], least, max(12, MOST_POINTS // len(drawn))))
        layers.insert(
            0, crowd.mark_line(style="crowd", opacity=max(0.06, 8 / len(drawn))).encode(**place, detail="k:N")
        )
    note = " ".join(filter(None, ["Dashed: if all had the same.", _crowd_note(drawn)]))
    return _picture(findings, drawn, layers, note)


def _tails(drawn: Sequence[Curve], least: float, most: int) -> Any:
    rows = [
        (curve.name, k, float(x), float(y))
        for k, curve in enumerate(drawn)
        for x, y in zip(*curve.tail(least, most), strict=True)
    ]
    series, ks, xs, ys = zip(*rows, strict=True)
    return records(series=series, k=ks, x=xs, y=ys)


Marked = tuple[str, Sequence[float], Sequence[float]]
"""The name of a curve, and where points of its shape stand on it."""


def _on_tail(curve: Curve, least: float, k: int, many: int) -> Marked:
    """Places along a log axis, other ones for each of several curves."""
    xs = [least ** (1 - (j + (k + 0.5) / many) / SIGNS) for j in range(SIGNS)]
    return curve.name, xs, [1 - curve.at(1 - x) for x in xs]


def _on_curve(curve: Curve, k: int, many: int) -> Marked:
    xs = [(j + (k + 0.5) / many) / SIGNS for j in range(SIGNS)]
    return curve.name, xs, [curve.at(x) for x in xs]


def _signs(findings: Findings, marked: Sequence[Marked], place: Mapping[str, Any]) -> Any:
    """A few points on every curve, in the shape of its series: curves can be told apart in grey."""
    names, title = [name for name, _, _ in marked], slices_in_words(findings)
    rows = [(name, x, y) for name, xs, ys in marked for x, y in zip(xs, ys, strict=True)]
    series, across, up = zip(*rows, strict=True)
    signs = {"color": series_colour(names, title), "shape": series_shape(names, title)}
    return alt.Chart(records(series=series, x=across, y=up)).mark_point(size=45).encode(**place, **signs)


def _tips(findings: Findings, side: str) -> list[Any]:
    return [
        *([alt.Tooltip("series:N", title=slices_in_words(findings))] if findings.slices else []),
        alt.Tooltip("x:Q", title=f"{side} {holders(findings)}", format=".4~%"),
        alt.Tooltip("y:Q", title="hold together", format=".4~%"),
    ]


def _picture(findings: Findings, drawn: Sequence[Curve], layers: Sequence[Any], note: str) -> Picture:
    least = drawn[-1]
    who = f" of {least.name}" if least.name else ""
    sentence = (
        (f"On the least equal curve{who}, " if len(drawn) > 1 else "On this curve, ")
        + f"the bottom half of {holders(findings)} hold {percent(least.at(0.5))} and the top 1% hold {percent(1 - least.at(0.99))}."
    )
    named: dict[str, list[Any]] = {slices_in_words(findings): [c.name for c in drawn]} if findings.slices else {}
    panel = Panel(alt.layer(*layers), height=SIDE, square=True)
    return Picture((panel,), named | _read_out(drawn), sentence, note, lead=False)


def _read_out(drawn: Sequence[Curve]) -> dict[str, list[Any]]:
    return {f"held by the bottom {100 * p:g}%": [percent(c.at(p)) for c in drawn] for p in READ_AT}


def _held(findings: Findings) -> Axis:
    return shares(f"share of all {_amount(findings)}")


def _lines(findings: Findings, drawn: Sequence[Curve], y: Axis, across: str = "") -> list[Any]:
    """A colour per curve; where there are too many, the two extremes stand out from the crowd."""
    most = max(20, min(MOST_CORNERS, MOST_POINTS // len(drawn)))
    crowded = len(drawn) > MOST_SERIES
    shown = [drawn[0], drawn[-1]] if crowded else list(drawn)
    x = shares(across or f"{holders(findings)}, from those with least to those with most").on(alt.X, "x")
    place = {"x": x, "y": y.on(alt.Y, "y")}
    coloured = {} if len(shown) == 1 else {"color": series_colour([c.name for c in shown], slices_in_words(findings))}
    lines = alt.Chart(_points(shown, MOST_CORNERS if crowded else most)).mark_line()
    hits = alt.Chart(_points(shown, MOST_HITS // len(shown))).mark_point(opacity=0, size=60)
    layers = [
        lines.encode(**place, detail="k:N", order="x:Q", **coloured),
        hits.encode(**place, tooltip=_tips(findings, "bottom")),
    ]
    if len(shown) > 1:
        layers.append(_signs(findings, [_on_curve(curve, k, len(shown)) for k, curve in enumerate(shown)], place))
    if not crowded:
        return layers
    crowd = alt.Chart(_points(drawn[1:-1], most)).mark_line(style="crowd", opacity=max(0.06, 8 / len(drawn)))
    return [crowd.encode(**place, detail="k:N", order="x:Q"), *layers]


def _points(drawn: Sequence[Curve], most: int) -> Any:
    rows = [
        (curve.name, k, float(x), float(y))
        for k, curve in enumerate(c.thinned(most) for c in drawn)
        for x, y in zip(curve.population, curve.share, strict=True)
    ]
    series, ks, xs, ys = zip(*rows, strict=True)
    return records(series=series, k=ks, x=xs, y=ys)


def _equality(*, named: bool = True) -> list[Any]:
    """The dashed line; its name stands on it where there is room, which on a log axis there is not."""
    line = [i / 200 for i in range(201)]  # many points, since the straight line is a bent one on the log axis
    ends = alt.Chart(records(x=line, y=line)).mark_line(style="reference").encode(x="x:Q", y="y:Q")
    caption = alt.Chart(records(x=[0.5], y=[0.5], text=["if all had the same"])).encode(x="x:Q", y="y:Q", text="text:N")
    texts = [caption.mark_text(style=style, align="right", dx=-10, dy=-4) for style in ("halo", "aside")]
    return [ends, *(texts if named else [])]


def _gap(drawn: Sequence[Curve]) -> list[Any]:
    """The area between one curve and equality, which is half the Gini index."""
    if len(drawn) > 1:
        return []
    curve = drawn[0].thinned(MOST_POINTS // 2)
    data = records(x=curve.population.tolist(), y=curve.share.tolist(), z=curve.population.tolist())
    return [alt.Chart(data).mark_area(style="gap").encode(x="x:Q", y="y:Q", y2="z:Q")]


def _crowd_note(drawn: Sequence[Curve]) -> str:
    many = len(drawn) > MOST_SERIES
    return f"{len(drawn):,} curves; the most and the least equal one are in colour." if many else ""


def _amount(findings: Findings) -> str:
    return word(findings, "amount", "amounts").replace("_", " ")


@chart("lorenz_annotated", title="How to read a Lorenz curve", unless=_no_curve, reported=False)
def lorenz_annotated(findings: Findings) -> Picture:
    """Figure 6: the areas and lengths from which the metrics are read. With several slices, the least equal one."""
    curve = curves(findings)[-1].thinned(MOST_POINTS // 2)
    top, half = 1 - curve.at(0.8), curve.point(0.5)
    matched = curve.point(top)
    guides = [  # x, y, x2, y2: the lengths c to f of the figure
        (0.2, 0, 0.2, curve.at(0.2)), (0.8, curve.at(0.8), 0.8, 1), (0, top, matched, top), (matched, 0, matched, top),
        (0, 0.5, half, 0.5), (half, 0, half, 0.5),
    ]  # fmt: skip
    words = {
        "A": f"area between equality and the curve; the Gini index A / (A + B) is {number(1 - 2 * curve.area)}",
        "B": "area below the curve",
        "c": f"the bottom 20% of {holders(findings)} hold {percent(curve.at(0.2))}",
        "d": f"the top 20% hold {percent(top)}",
        "e": f"the bottom {percent(matched)} hold as much as the top 20%",
        "f": f"the bottom {percent(half)} hold half of all {_amount(findings)}",
    }
    places = _letter_places(curve, half, matched, top)
    letters = alt.Chart(records(x=[p[0] for p in places], y=[p[1] for p in places], text=list(words)))
    rules = alt.Chart(records(**{k: [g[i] for g in guides] for i, k in enumerate(("x", "y", "x2", "y2"))}))
    layers = [
        *_gap([curve]),
        _lines(findings, [curve], _held(findings))[0],
        _equality()[0],
        rules.mark_rule(style="reference").encode(x="x:Q", y="y:Q", x2="x2:Q", y2="y2:Q"),
        letters.mark_text(style="value", fontSize=15, fontWeight=600).encode(x="x:Q", y="y:Q", text="text:N"),
    ]
    table = {"letter": list(words), "meaning": list(words.values())}
    whose = [f"The curve of {curve.name}."] if curve.name else []
    note = "\n".join([*whose, *(f"{k}: {v}" for k, v in words.items())])
    sentence = f"Letters mark what can be read off: {words['d']}; {words['f']}."
    return Picture((Panel(alt.layer(*layers), height=SIDE, square=True),), table, sentence, note, lead=False)


def _letter_places(curve: Curve, half: float, matched: float, top: float) -> list[tuple[float, float]]:
    """Where the letters stand: A between the lines, B below the curve, the others beside their lengths."""
    side = 0.03 if top >= 0.5 else -0.03
    return [
        (0.62, (0.62 + curve.at(0.62)) / 2), (0.9, max(0.03, curve.at(0.9) / 2)), (0.22, max(0.025, curve.at(0.2) / 2)),
        (0.77, (1 + curve.at(0.8)) / 2), (matched / 4, top + side), (half / 4, 0.5 - side),
    ]  # fmt: skip


@chart(
    "catalogue", title="How the slots are spread over the catalogue", reported=False,
    unless=lambda findings: "" if curves(findings) else "nothing was shown",
)  # fmt: skip
def catalogue(findings: Findings) -> Picture:
    """Share of all slots held by the items shown least; the further below the dashed line, the fewer items are shown."""
    drawn = curves(findings)
    across = "items, from those shown least to those shown most"
    layers = [*_gap(drawn), *_lines(findings, drawn, shares("share of all slots"), across), *_equality()]
    items = findings.provenance.get("items")
    many = number(float(items)) if isinstance(items, (int, float)) else "the"
    share_text = f"half of {many} items that is shown least holds {percent(drawn[-1].at(0.5))} of all slots."
    sentence = f"{drawn[-1].name}: the {share_text}" if drawn[-1].name else f"The {share_text}"
    return Picture((Panel(alt.layer(*layers), height=360, square=True),), _read_out(drawn), sentence, lead=False)
