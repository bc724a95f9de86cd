"""The Lorenz explorer: move a handle and read what the top holds, and how many at the bottom hold as much.

Where all curves hug the corner, nothing can be told apart on the Lorenz curve; it is then seen from the top, on a log axis:
how much do the top 0.1%, 1%, 10% hold? The page is complete without scripts: the handle stands at 1%, the sentence is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from html import escape
from typing import Any

import altair as alt
import numpy as np

from evenhand.findings import Findings, slice_words
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import Picture, drawable, holders, records, slice_labels, slices_in_words, word
from evenhand.report.charts.lorenz import from_the_top, lorenz
from evenhand.report.charts.lorenz_curves import Curve, curves, stops
from evenhand.report.charts.theme import MOST_SERIES
from evenhand.report.words.text import percent

START = 0.01
"""The size of the top that is shown first, or the nearest that makes sense."""

HUGGING = 0.3
"""Curves on which the bottom nine tenths hold less than this hug the corner."""

HEIGHT = 300


def seen_from_the_top(drawn: Sequence[Curve]) -> bool:
    """Whether the curves are so close to the corner that they are better seen from the top."""
    return all(curve.at(0.9) < HUGGING for curve in drawn)


@dataclass(frozen=True, slots=True)
class Reading:
    """One position of the handle: the size of the top, its share, and the bottom with the same share."""

    top: float
    share: float
    equal: float

    @classmethod
    def from_curve(cls, curve: Curve, top: float) -> Reading:
        """Read a curve at this size of the top."""
        share = max(0.0, 1 - curve.at(1 - top))
        return cls(top, share, float(np.interp(share, curve.share, curve.population)) if share > 0 else 0.0)

    @property
    def overlaps(self) -> bool:
        """Whether the bottom that holds as much reaches into the top: then the top holds more than all others together."""
        return self.equal > 1 - self.top

    def sentence(self, name: str, many: float, units: str, amount: str) -> str:
        """The reading as a sentence; report.js writes the same one."""
        lead = f"For {name}, the" if name else "The"
        others = (
            "more than all others together"
            if self.overlaps
            else f"as much as the bottom {percent(self.equal)} together"
        )
        return (
            f"{lead} top {chosen(self.top)} of {units} ({counted(self.top * many)} of {many:,.0f}) hold "
            f"{percent(self.share)} of all {amount}, {others}."
        )


def counted(units: float) -> str:
    """How many units a share is.

    >>> counted(261.88), counted(3.0), counted(2.4)
    ('262', '3', 'about 2')
    """
    off = abs(units - round(units)) > 0.05 and units < 10
    return f"{'about ' if off else ''}{round(units):,}"


def chosen(share: float) -> str:
    """A size of the top, with three digits at most.

    >>> chosen(0.01), chosen(3 / 26_188), chosen(0.015)
    ('1%', '0.0115%', '1.5%')
    """
    return f"{Decimal(f'{100 * share:.3g}'):f}%"


def picture(findings: Findings) -> Picture:
    """The chart with a handle on it; the page moves the handle through the parameters `top`, `held`, `equal`."""
    polygons = curves(findings)
    top_view = seen_from_the_top(polygons)
    drawn = from_the_top(findings) if top_view else lorenz(findings)
    start = Reading.from_curve(polygons[-1], _start(_stops(findings, polygons)))
    panel = drawn.panels[0]
    crowded = _line(polygons[-1], top_view=top_view) if len(polygons) > MOST_SERIES else [{"x": 1.0, "y": 1.0}]
    handle = _handle_on_top(crowded) if top_view else _handle(crowded)
    handled = alt.layer(panel.chart, *handle).add_params(*_params(start))
    return replace(drawn, panels=(replace(panel, chart=handled, height=HEIGHT),))


def _line(curve: Curve, *, top_view: bool) -> list[dict[str, float]]:
    x, y = (1 - curve.population, 1 - curve.share) if top_view else (curve.population, curve.share)
    return [{"x": float(a), "y": float(b)} for a, b in zip(x, y, strict=True) if a > 0 or not top_view]


def _params(start: Reading) -> list[Any]:
    texts = {
        "top_text": f"top {chosen(start.top)}",
        "equal_text": "" if start.overlaps else f"bottom {percent(start.equal)}",
    }
    numbers = {"top": start.top, "held": start.share, "equal": start.equal}
    return [alt.param(name=name, value=value) for name, value in {**numbers, **texts}.items()]


def _where() -> Any:
    return alt.Chart(records(one=[1])).transform_calculate(
        x="1 - top", y="1 - held", end="1", equal="equal", held="held", top="top", top_text="top_text", equal_text="equal_text",
        shown="equal_text == '' ? 0 : 1",
    )  # fmt: skip


def _chosen_line(line: Sequence[dict[str, float]]) -> Any:
    return (
        alt.Chart(alt.InlineData(name="chosen", values=list(line)))
        .mark_line(style="chosen")
        .encode(x="x:Q", y="y:Q", order="x:Q")
    )


def _handle(line: Sequence[dict[str, float]]) -> list[Any]:
    """The top as a band, the point where it begins, and the point below which the others hold as much."""
    where = _where()
    left = {"align": "right", "dx": -14, "fontSize": 13, "fontWeight": 600, "baseline": "middle"}
    texts = [
        where.mark_text(**left, style=style).encode(x=f"{x}:Q", y=f"{y}:Q", text=f"{text}:N")
        for x, y, text in (("equal", "held", "equal_text"), ("x", "y", "top_text"))
        for style in ("halo", "value")
    ]
    hidden = alt.Opacity("shown:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None)
    return [
        where.mark_rect(style="gap", opacity=0.18).encode(x="x:Q", x2="end:Q"),
        where.mark_rule(style="reference").encode(x="x:Q"),
        _chosen_line(line),
        *texts,
        where.mark_point(style="matched").encode(x="equal:Q", y="held:Q", opacity=hidden),
        where.mark_point(style="handle").encode(x="x:Q", y="y:Q"),
    ]


def _handle_on_top(line: Sequence[dict[str, float]]) -> list[Any]:
    """A line at the size of the top, and the point where it meets the curve; its name stands where there is room."""
    where = _where()
    side = {"align": {"expr": "top > 0.05 ? 'right' : 'left'"}, "dx": {"expr": "top > 0.05 ? -12 : 12"}, "dy": 12}
    texts = [
        where.mark_text(**side, fontSize=13, fontWeight=600, style=style).encode(
            x="top:Q", y="held:Q", text="top_text:N"
        )
        for style in ("halo", "value")
    ]
    return [
        where.mark_rule(style="reference").encode(x="top:Q"),
        _chosen_line(line),
        *texts,
        where.mark_point(style="handle").encode(x="top:Q", y="held:Q"),
    ]


def data(findings: Findings) -> dict[str, Any]:
    """Data for the scripts of the page: corners of every curve, stops of the handle, words of the sentence."""
    polygons = curves(findings)
    sizes, units = _stops(findings, polygons), _units(findings, polygons)
    return {
        "curves": [
            {
                "name": c.name,
                "many": n,
                "population": list(map(drawable, c.population.tolist())),
                "share": list(map(drawable, c.share.tolist())),
            }
            for c, n in zip(polygons, units, strict=True)
        ],
        "crowded": len(polygons) > MOST_SERIES,
        "fromTheTop": seen_from_the_top(polygons),
        "stops": sizes,
        "start": sizes.index(_start(sizes)),
        "units": holders(findings),
        "amount": word(findings, "amount", "amounts").replace("_", " "),
    }


def sentence(findings: Findings) -> str:
    """The sentence at the first position of the handle."""
    polygons = curves(findings)
    units, amount = holders(findings), word(findings, "amount", "amounts").replace("_", " ")
    start = Reading.from_curve(polygons[-1], _start(_stops(findings, polygons)))
    return start.sentence(polygons[-1].name, _units(findings, polygons)[-1], units, amount)


def _units(findings: Findings, polygons: Sequence[Curve]) -> list[float]:
    """How many units each curve runs over; those of a curve that no row counts have its finest step."""
    sizes = dict(zip(slice_labels(findings), findings.columns.get("units", ()), strict=False))
    if "items" in findings.provenance and "holder" in findings.words:  # a recommender's curve runs over its items
        sizes = _items(findings, list(sizes))
    counts = [read_number(sizes.get(c.name)) for c in polygons]
    return [
        float(n) if n == n else float(round(1 / (c.population[1] - c.population[0])))
        for n, c in zip(counts, polygons, strict=True)
    ]


def _items(findings: Findings, names: Sequence[str]) -> dict[str, Any]:
    """How many items each slice has, under the names of the slices."""
    items = findings.provenance["items"]
    if not isinstance(items, Mapping):
        return dict.fromkeys(names, items)
    where = zip(*(findings.columns[s] for s in findings.slices), strict=True)
    words = [slice_words(findings.slices, labels) for labels in where]
    return {name: items.get(labels) for name, labels in zip(slice_labels(findings), words, strict=True)}


def _stops(findings: Findings, polygons: Sequence[Curve]) -> list[float]:
    return list(stops(len(set(slice_labels(findings))), min(_units(findings, polygons))))


def _start(sizes: Sequence[float]) -> float:
    return min(sizes, key=lambda size: abs(size - START))


def markup(findings: Findings) -> str:
    """Slider, choice of slice, and the sentence, which screen readers announce as it changes."""
    polygons = curves(findings)
    names = "".join(f'<option value="{i}">{escape(c.name)}</option>' for i, c in enumerate(polygons))
    last = len(polygons) - 1
    choose = (
        f'<label class="pick">{escape(slices_in_words(findings))} <select id="which" data-start="{last}">{names}</select></label>'
        if len(polygons) > 1
        else ""
    )
    sizes = _stops(findings, polygons)
    shown = "".join(f"<span>{escape(chosen(s))}</span>" for s in (sizes[0], sizes[-1]))
    return (
        f'<div class="explorer"><div class="scripted" hidden>{choose}<label class="slide" for="top">Size of the top</label>'
        f'<input type="range" id="top" min="0" max="{len(sizes) - 1}" step="1" aria-describedby="reading">'
        f'<div class="ends" aria-hidden="true">{shown}</div></div>'
        f'<output id="reading" for="top" aria-live="polite">{escape(sentence(findings))}</output></div>'
    )
