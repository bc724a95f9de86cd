"""One look for every chart and page: colours, fonts, sizes, and the styles that marks may name.

- lines: `reference` (equality), `zero` (what bars stand on), `link` (joins two points), `crowd` (the many behind the few
  that matter), `range` (an interval), `whisker` (an interval on a bar), `gap` (the area between curves);
- points: `ideal` (a tick at the best value), `chance` (what no bias at all would give);
- texts: `value` (a number beside a mark), `aside` (small print), `halo` (keeps a text apart from the
  lines it crosses);
- the explorer's curve and point: `chosen`, `handle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SHAPES = ("circle", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left", "wedge")
"""The points of a series, in the order of the colours, so that series differ in grey too. A diamond is chance."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lengths in pixels, and how much of the data a chart shows; the table below it has all."""

    chart_width: int = 560  # a chart in a file
    page_width: int = 700  # a chart alone in its row of a page
    half_width: int = 440
    lead_width: int = 520  # the first chart of a page
    square_width: int = 500
    above_fold: int = 400  # height of the first chart, so that it ends above the fold of a small laptop
    thumbnail: int = 260
    square: int = 420  # height of a Lorenz curve
    explorer: int = 300
    tall: int = 320
    medium: int = 260
    short: int = 150  # one of many panels
    row: int = 24  # from one labelled row to the next
    two_line_row: int = 34
    lane: int = 17  # one of several series in a row
    legend_line: int = 460

    series: int = 8  # colours that can be told apart
    points: int = 3000  # points in one picture, however large the data
    corners: int = 500  # corners of one drawn Lorenz curve, finer than its pixels
    hits: int = 240  # invisible points that answer to the pointer
    rows: int = 24  # labelled rows in one panel
    labels: int = 20  # points of a scatter plot that carry their name
    panels: int = 6
    wide_panels: int = 4
    slice_panels: int = 12
    trend_panels: int = 24
    metrics: int = 12  # columns of a table of systems


SIZES = Sizes()


def fading(series: int, faintest: float = 0.3) -> list[float]:
    """Opacity of several filled series, from 1 to the faintest: a second sign beside their colours."""
    step = (1 - faintest) / max(1, series - 1)
    return [round(1 - i * step, 3) for i in range(series)]


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
    series=tuple(f"var(--series-{i})" for i in range(1, SIZES.series + 1)),
)  # fmt: skip
"""The page's own variables, so that a report follows the reader's light or dark setting and prints on white."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"


def theme(colours: Colours) -> dict[str, Any]:
    ink, muted, first = colours.ink, colours.muted, colours.series[0]
    return {
        "background": "transparent" if colours is PAGE else colours.paper,
        "font": FONT,
        "aria": False,  # the page describes a chart as a whole; a name for every mark would be read out one by one
        "view": {"stroke": None},
        "range": {"category": list(colours.series)},
        "axis": {
            "labelColor": muted, "titleColor": ink, "gridColor": colours.grid, "domain": False, "labelFontSize": 12,
            "titleFontSize": 12, "titleFontWeight": 500, "titlePadding": 10, "labelLimit": 200, "labelPadding": 6,
            "labelOverlap": "greedy", "ticks": False,
        },
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
        "text": _text(ink),
        "style": _styles(colours),
    }  # fmt: skip


def _text(colour: str) -> dict[str, Any]:
    return {"font": FONT, "color": colour, "fontSize": 12}


def _styles(colours: Colours) -> dict[str, dict[str, Any]]:
    ink, muted, paper, first = colours.ink, colours.muted, colours.paper, colours.series[0]
    return {
        "reference": {"color": muted, "strokeDash": [5, 4], "strokeWidth": 1.4},
        "ideal": {"color": muted, "opacity": 0.9},
        "chance": {"color": ink, "filled": False, "strokeWidth": 1.6, "shape": "diamond", "size": 55},
        "range": {"color": first, "strokeWidth": 3, "opacity": 0.55},
        "link": {"color": muted, "strokeWidth": 2, "opacity": 0.5},
        "whisker": {"color": ink, "strokeWidth": 1.4},
        "zero": {"color": muted, "strokeWidth": 1},
        "chosen": {"color": ink, "strokeWidth": 2.4},
        "handle": {"color": ink, "filled": True, "size": 150, "stroke": paper, "strokeWidth": 2},
        "value": _text(ink),
        "halo": {**_text(paper), "stroke": paper, "strokeWidth": 5, "strokeJoin": "round"},
        "aside": {**_text(muted), "fontSize": 11.5},
        "trend": {"color": muted, "strokeWidth": 1.4},
        "gap": {"color": first, "opacity": 0.12},
        "crowd": {"color": muted, "strokeWidth": 1, "opacity": 0.4},
    }
