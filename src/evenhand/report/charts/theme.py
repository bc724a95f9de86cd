"""One look for every chart and page: colours, fonts, and the styles that marks may name.

- lines: `reference` (equality), `zero` (what bars stand on), `link` (joins two points), `crowd` (the many behind the few
  that matter), `range` (an interval), `whisker` (an interval on a bar), `gap` (the area between curves);
- points: `ideal` (a tick at the best value), `chance` (what no bias at all would give);
- texts: `value` (a number beside a mark), `inside` (on a bar), `aside` (small print), `halo` (keeps a text apart from the
  lines it crosses);
- the explorer's curve and points: `chosen`, `handle`, `matched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MOST_SERIES = 8
"""Colours that can be told apart."""

SHAPES = ("circle", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left", "wedge")
"""The points of a series, in the order of the colours: so that series can be told apart in grey. A diamond is chance."""

FAINTEST = 0.3
"""How opaque the last of several filled series is, the first being 1: a second sign beside its colour."""


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of one surface. The eight of `series` can be told apart by people with any colour vision."""

    ink: str
    muted: str
    grid: str
    paper: str
    series: tuple[str, ...]


LIGHT = Colours(
    ink="#1c2733", muted="#5d6b7a", grid="#e3e8ee", paper="#ffffff",
    series=("#0072b2", "#d55e00", "#00875f", "#b0559b", "#946600", "#3a9bd9", "#5d6b7a", "#7a4fc4"),
)  # fmt: skip

DARK = Colours(
    ink="#e8edf3", muted="#9fadbc", grid="#303b47", paper="#12181f",
    series=("#4aa8e0", "#f2924a", "#2bbd8f", "#d98cc7", "#d9a92e", "#8fd0f5", "#aab6c3", "#b499ee"),
)  # fmt: skip

PAGE = Colours(
    ink="var(--ink)", muted="var(--muted)", grid="var(--grid)", paper="var(--paper)",
    series=tuple(f"var(--series-{i})" for i in range(1, MOST_SERIES + 1)),
)  # fmt: skip
"""The page's own variables, so that a report follows the reader's light or dark setting and prints on white."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"


def theme(colours: Colours) -> dict[str, Any]:
    """The Vega-Lite configuration of a surface."""
    ink, muted, first = colours.ink, colours.muted, colours.series[0]
    text = {"font": FONT, "color": ink, "fontSize": 12}
    return {
        "background": "transparent" if colours is PAGE else colours.paper,
        "font": FONT,
        "aria": False,  # the page describes a chart as a whole; a name for every mark would be read out one by one
        "view": {"stroke": None},
        "range": {"category": list(colours.series)},
        "axis": _axis(colours),
        "legend": {
            "labelColor": ink, "titleColor": muted, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 500,
            "symbolStrokeWidth": 3, "symbolType": "circle",
        },
        "title": {
            "color": ink, "fontSize": 14, "fontWeight": 600, "anchor": "start", "frame": "bounds", "offset": 12, "subtitleColor": muted,
        },
        "mark": {"color": first, "invalid": "filter"},
        "line": {"strokeWidth": 2.2, "strokeJoin": "round", "strokeCap": "round"},
        "bar": {"cornerRadiusEnd": 2},
        "point": {"size": 70, "filled": True, "opacity": 1},
        "text": text,
        "style": {
            "reference": {"color": muted, "strokeDash": [5, 4], "strokeWidth": 1.4},
            "ideal": {"color": muted, "opacity": 0.9},
            "chance": {"color": ink, "filled": False, "strokeWidth": 1.6, "shape": "diamond", "size": 55},
            "range": {"color": first, "strokeWidth": 3, "opacity": 0.55},
            "link": {"color": muted, "strokeWidth": 2, "opacity": 0.5},
            "whisker": {"color": ink, "strokeWidth": 1.4},
            "zero": {"color": muted, "strokeWidth": 1},
            "chosen": {"color": ink, "strokeWidth": 2.4},
            "handle": {"color": ink, "filled": True, "size": 150, "stroke": colours.paper, "strokeWidth": 2},
            "matched": {"color": ink, "filled": False, "size": 90, "strokeWidth": 2},
            "value": text,
            "halo": {**text, "color": colours.paper, "stroke": colours.paper, "strokeWidth": 5, "strokeJoin": "round"},
            "inside": {**text, "color": colours.paper, "fontWeight": 600},
            "aside": {**text, "color": muted, "fontSize": 11.5},
            "gap": {"color": first, "opacity": 0.12},
            "crowd": {"color": muted, "strokeWidth": 1, "opacity": 0.4},
        },
    }  # fmt: skip


def _axis(colours: Colours) -> dict[str, Any]:
    return {
        "labelColor": colours.muted, "titleColor": colours.ink, "gridColor": colours.grid, "domain": False,
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 500, "titlePadding": 10, "labelLimit": 200,
        "labelPadding": 6, "labelOverlap": "greedy", "ticks": False,
    }  # fmt: skip
