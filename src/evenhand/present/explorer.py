"""The Lorenz explorer: move a handle and read what the top holds, and how many at the bottom hold as much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.present.charts_lorenz import lorenz
from evenhand.present.drawing import Picture, drawable, holders, records, slice_labels, slices_in_words, word
from evenhand.present.lorenz import Curve, curves, stops
from evenhand.present.text import short_percent
from evenhand.present.theme import MOST_SERIES

START = 0.01
"""The size of the top that is shown first, or the nearest that makes sense."""


def picture(findings: Findings) -> Picture:
    """The Lorenz chart with a handle on it; the page moves the handle through the parameters `top`, `held`, `equal`."""
    drawn = lorenz(findings)
    panel = drawn.panels[0]
    handled = alt.layer(panel.chart, *_handle()).add_params(*_params())
    return replace(drawn, panels=(replace(panel, chart=handled),))


def _params() -> list[Any]:
    return [
        alt.param(name="top", value=START),
        alt.param(name="held", value=START),
        alt.param(name="equal", value=START),
        alt.param(name="top_text", value=""),
        alt.param(name="equal_text", value=""),
    ]


def _handle() -> list[Any]:
    """The top as a band, the point where it begins, and the point below which the others hold as much."""
    where = alt.Chart(records(one=[1])).transform_calculate(
        x="1 - top", y="1 - held", end="1", equal="equal", held="held", top_text="top_text", equal_text="equal_text"
    )
    left = {"align": "right", "dx": -14, "fontSize": 13, "fontWeight": 600, "baseline": "middle"}
    said = [
        where.mark_text(**left, style=style).encode(x=f"{x}:Q", y=f"{y}:Q", text=f"{text}:N")
        for x, y, text in (("equal", "held", "equal_text"), ("x", "y", "top_text"))
        for style in ("halo", "value")
    ]
    return [
        where.mark_rect(style="gap", opacity=0.18).encode(x="x:Q", x2="end:Q"),
        where.mark_rule(style="reference").encode(x="x:Q"),
        alt.Chart(alt.InlineData(name="chosen", values=[{"x": 0, "y": 0}]))
        .mark_line(style="chosen")
        .encode(x="x:Q", y="y:Q", order="x:Q"),
        *said,
        where.mark_point(style="matched").encode(x="equal:Q", y="held:Q"),
        where.mark_point(style="handle").encode(x="x:Q", y="y:Q"),
    ]


def data(findings: Findings) -> dict[str, Any]:
    """What the page computes with: the corners of every polygon, the stops of the handle, the words of the sentence."""
    found = curves(findings)
    sizes = _stops(findings, found)
    return {
        "curves": [
            {"name": c.name, "population": _plain(c.population.tolist()), "share": _plain(c.share.tolist())}
            for c in found
        ],
        "crowded": len(found) > MOST_SERIES,
        "stops": sizes,
        "start": min(range(len(sizes)), key=lambda i: abs(sizes[i] - START)),
        "units": holders(findings),
        "amount": word(findings, "amount", "amounts").replace("_", " "),
    }


def _plain(values: Sequence[float]) -> list[Any]:
    return [drawable(v) for v in values]


def _stops(findings: Findings, found: Sequence[Curve]) -> list[float]:
    """Sizes of the top, none below a tenth of the smallest step of a curve: inside one unit there is nothing to see."""
    slices = len(set(slice_labels(findings)))
    smallest = min(float(1 - c.population[-2]) for c in found)
    return [stop for stop in stops(slices) if stop >= min(smallest / 10, START)]


def markup(findings: Findings) -> str:
    """Slider, choice of slice, and the sentence, which screen readers announce as it changes."""
    found = curves(findings)
    names = "".join(f'<option value="{i}">{escape(c.name)}</option>' for i, c in enumerate(found))
    last = len(found) - 1
    choose = (
        f'<label class="pick">{escape(slices_in_words(findings))} <select id="which" data-start="{last}">{names}</select></label>'
        if len(found) > 1
        else ""
    )
    sizes = _stops(findings, found)
    shown = "".join(f"<span>{escape(short_percent(s))}</span>" for s in (sizes[0], sizes[-1]))
    return (
        f'<div class="explorer">{choose}<label class="slide" for="top">Size of the top</label>'
        f'<input type="range" id="top" min="0" max="{len(sizes) - 1}" step="1" aria-describedby="reading">'
        f'<div class="ends" aria-hidden="true">{shown}</div>'
        '<output id="reading" for="top" aria-live="polite"></output></div>'
    )
