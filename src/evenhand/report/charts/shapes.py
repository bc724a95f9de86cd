"""The few shapes that pictures are made of: rows of dots, bars or spans, lines, squares, and a cloud of points.

A shape takes rows with fixed field names. What a field is called says how it is drawn, and one that no row has is not drawn:

- `label` : the row that a mark stands in; `series` : its colour; `x`, `y` : where it stands;
- `low`, `high` : its interval, or the ends of a span; `band_low`, `band_high` : a shaded stretch behind it;
- `chance` : a diamond; `ideal` : a grey tick; `aim` : a dark tick; `tie` : a line to there; `level` : a dashed line;
- `text` : a number at the right of the row; `inside` : on its bar; `why` : what stands where there is no number;
- `sure` : False where a point is hollow and has no interval; `strength` : how strong a square's colour is, 0 to 1.

Further fields are for the pointer (`tips`: from field to title); those that are words are called `..._text`. Words of the
user's data are values and titles, never field names: Vega reads `a.b` and `a[0]` as paths.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import altair as alt

from evenhand.report.charts.drawing import Panel, distinct, records
from evenhand.report.charts.theme import FAINTEST, MOST_SERIES, SHAPES
from evenhand.report.words.phrases import is_share

Rows = Sequence[Mapping[str, Any]]
Tips = Mapping[str, str]

ROW = 24
"""Pixels from one labelled row to the next; two lines of a label take `TALL`."""
TALL = 34
LANE = 17

MOST_ROWS = 24
"""Labelled rows in one panel; the table has them all."""

MOST_NAMED = 20
"""Points of a cloud that carry their name; the others tell it to the pointer."""

LEGEND = 460
"""Pixels that one line of a legend may take."""

ROOM = 32
"""Letters that column labels may have in all and still stand side by side."""

SHARE = ".3~p"
"""d3 format of axes in percent, down to millionths."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of numbers: its title, where it begins and ends, its ticks (how many, or which), the d3 format of its numbers.

    `cut` : marks beyond the ends are left out; `days` : values are days, as text. `scale` and `more` are what Vega-Lite calls
    properties of scale and axis.
    """

    title: str | None = None
    format: str = "~g"
    domain: tuple[float, float] | None = None
    ticks: int | Sequence[float] = 5
    cut: bool = False
    days: bool = False
    scale: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def on(self, channel: Any, name: str) -> Any:
        """The axis as a channel (`alt.X`, `alt.Y`) of this field."""
        ticks = {"tickCount": self.ticks} if isinstance(self.ticks, int) else {"values": list(self.ticks)}
        ends = {} if self.domain is None else {"domain": list(self.domain)}
        axis = alt.Axis(format=self.format, **ticks, **self.more)
        kind, scale = ("T", {"type": "utc", **self.scale}) if self.days else ("Q", self.scale)
        return channel(f"{name}:{kind}", title=self.title, scale=alt.Scale(**ends, **scale), axis=axis)


def shares(title: str | None) -> Axis:
    """An axis from 0 to 100%: panels stand beside each other, and the same length must mean the same share in all."""
    return Axis(title, SHARE, (0, 1))


def axis_format(values: Iterable[float], metric: str = "") -> str:
    """The d3 format that suits these values: percent, plain numbers, or 10k and 2M.

    >>> axis_format([0.2, 0.9]), axis_format([3, 20_000]), axis_format([0.1], "top_share(p=0.01)")
    ('.6~g', '.3~s', '.3~p')
    """
    if is_share(metric):
        return SHARE
    sizes = [abs(v) for v in values if math.isfinite(v) and v != 0]
    if not sizes or max(sizes) < 10_000:
        return ".6~g"
    return ".3~s" if min(sizes) >= 1 else ",.6~g"


def decades(values: Iterable[float]) -> list[float]:
    """Ticks of a log axis: powers of ten around the values, with 2 and 5 times them where there are few.

    >>> decades([0.02, 0.3]), decades([1, 5000])
    ([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0], [1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    positive = [v for v in values if v > 0]
    if not positive:
        return [1.0]
    first, last = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    steps = (1, 2, 5) if last - first < 3 else (1,)
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [t for t in ticks if t <= float(f"1e{last}")]


def wrapped(text: str, width: int = 26) -> str:
    r"""A label of a row: what does not fit on the first line stands, all of it, on the second.

    >>> wrapped("Normalised discounted difference")
    'Normalised discounted\ndifference'
    """
    first = next(iter(textwrap.wrap(text, width, break_long_words=False)), text)
    rest = text.strip()[len(first) :].strip()
    return f"{first}\n{rest}" if rest and text.strip().startswith(first) else text


def ends(ordered: Sequence[str], most: int = MOST_ROWS) -> list[str]:
    """The first and the last of many labels: where a chart has no room, the extremes are the story."""
    if len(ordered) <= most:
        return list(ordered)
    half = most // 2
    return [*ordered[:half], *ordered[-(most - half) :]]


def series_colour(names: Sequence[str], title: str | None = None, *, legend: bool = True) -> Any:
    """One colour of the palette per series, in this order, by the field `series`."""
    shown = _legend(names, title) if legend else None
    return alt.Color("series:N", scale=alt.Scale(domain=list(names)), sort=list(names), legend=shown)


def series_shape(names: Sequence[str], title: str | None = None, *, legend: bool = True) -> Any:
    """One shape per series, beside its colour: what tells points apart in grey."""
    scale = alt.Scale(domain=list(names), range=list(SHAPES[: len(names)]))
    shown = _legend(names, title) if legend else None
    return alt.Shape("series:N", scale=scale, sort=list(names), legend=shown)


def _legend(names: Sequence[str], title: str | None) -> Any:
    widest = 34 + 7 * min(30, max(map(len, names), default=1))
    across = max(1, LEGEND // widest)  # else a long legend widens the chart
    return alt.Legend(title=title, orient="top", symbolLimit=MOST_SERIES, labelLimit=220, columns=across)


def _fading(names: Sequence[str]) -> Any:
    """Filled marks of several series, each fainter than the one before."""
    step = (1 - FAINTEST) / max(1, len(names) - 1)
    faint = [round(1 - i * step, 3) for i in range(len(names))]
    scale = alt.Scale(
        type="ordinal", domain=list(names), range=faint
    )  # else the ends of the range are taken for all of it
    return alt.Opacity("series:N", scale=scale, sort=list(names), legend=None)


def _coloured(series: Sequence[str], *, legend: bool | str) -> dict[str, Any]:
    title = legend if isinstance(legend, str) else None
    return {"color": series_colour(series, title, legend=legend is not False)}


def _shaped(series: Sequence[str], *, legend: bool | str) -> dict[str, Any]:
    title = legend if isinstance(legend, str) else None
    return {"shape": series_shape(series, title, legend=legend is not False)}


_WORDS = ("label", "series", "column", "text", "why")
_WRITTEN = {"units": ",", "bin": "d", "items": ",", "rank": "d"}


def tooltips(tips: Tips) -> list[Any]:
    """Tooltips from field to title; numbers with four significant digits, fields of `_WRITTEN` in their own format."""
    return [
        alt.Tooltip(f"{name}:N", title=title)
        if name in _WORDS or name.endswith("_text")
        else alt.Tooltip(f"{name}:Q", title=title, format=_WRITTEN.get(name, ".4~g"))
        for name, title in tips.items()
    ]


def _data(rows: Rows) -> Any:
    names = distinct(name for row in rows for name in row)
    return records(**{name: [row.get(name) for row in rows] for name in names})


def _has(rows: Rows, name: str) -> bool:
    """Whether any row has something to draw in this field."""
    values = (row.get(name) for row in rows)
    return any(v not in (None, "") and (not isinstance(v, float) or math.isfinite(v)) for v in values)


def in_rows(
    rows: Rows,
    mark: Literal["dot", "bar", "span"],
    *,
    x: Axis,
    tips: Tips,
    order: Sequence[str] = (),
    series: Sequence[str] = (),
    legend: bool | str = True,
    lanes: bool = False,
    zero: bool = False,
    heading: str | None = None,
    title: str = "",
    each: int = ROW,
    least: int = 60,
) -> Panel:
    """Labelled rows, each with a dot, a bar from zero, or a span from `low` to `high`, and all that is known beside it.

    Rows stand in this `order` (as they come where there is none); with `lanes`, series of one row stand below each other.
    """
    rows = [{**row, "label": wrapped(str(row["label"]))} for row in rows]
    shown = [wrapped(name) for name in order] or distinct(row["label"] for row in rows)
    split = "split(datum.label, '\\n')"
    axis = alt.Axis(labelExpr=split, labelLimit=170, **({"grid": True} if mark == "dot" else {}))
    y = alt.Y("label:N", sort=shown, title=heading, axis=axis)
    lane = {"yOffset": alt.YOffset("series:N", sort=list(series))} if lanes else {}
    base = alt.Chart(_data(rows)).encode(y=y, **lane)
    colour = _coloured(series, legend=legend) if series else {}
    layers = [alt.Chart(records(zero=[0.0])).mark_rule(style="zero").encode(x="zero:Q")] if zero else []
    layers += _behind(base, rows, mark, colour)
    encodings = {**colour, **_second_sign(rows, mark, series, legend=legend)} if series else {}
    place = {"x": x.on(alt.X, "low"), "x2": "high:Q"} if mark == "span" else {"x": x.on(alt.X, "x")}
    layers.append(_mark(base, mark, lanes=lanes).encode(**place, tooltip=tooltips(tips), **encodings))
    layers += _upon(base, rows, mark, tips)
    lines = TALL if any("\n" in label for label in shown) else each
    tall = max(lines, LANE * len(series) + 8 if lanes else 0)
    return Panel(alt.layer(*layers), title, height=max(least, tall * len(shown)))


def _second_sign(rows: Rows, mark: str, series: Sequence[str], *, legend: bool | str) -> dict[str, Any]:
    """An encoding beside colour: shape for points, opacity for spans without text and for bars of uncertain sign."""
    if mark == "bar" and any(row.get("faint") for row in rows):
        return {"opacity": alt.condition("datum.faint", alt.value(0.35), alt.value(1.0))}
    if mark == "dot" and len(series) <= MOST_SERIES:
        return _shaped(series, legend=legend)
    return {"opacity": _fading(series)} if mark == "span" and not _has(rows, "inside") else {}


def _mark(base: Any, mark: str, *, lanes: bool) -> Any:
    if mark == "dot":
        return base.mark_point()
    if mark == "span":
        return base.mark_bar(height={"band": 0.95}, cornerRadiusEnd=0)
    return base.mark_bar(**({} if lanes else {"height": 13}))


def _behind(base: Any, rows: Rows, mark: str, colour: Mapping[str, Any]) -> list[Any]:
    """Layers behind the marks of rows: bands, ideals, links, intervals, chance levels."""
    layers = []
    if _has(rows, "band_low"):
        layers.append(base.mark_bar(style="gap", height=18).encode(x="band_low:Q", x2="band_high:Q"))
    if _has(rows, "ideal"):
        layers.append(base.mark_tick(style="ideal", thickness=2, size=14, clip=True).encode(x="ideal:Q"))
    if _has(rows, "tie"):
        tied = base.copy()
        tied.data = _data([row for row in rows if _has([row], "tie")])  # Vega takes an end that is not there for zero
        layers.append(tied.mark_rule(style="link").encode(x="x:Q", x2="tie:Q"))
    if mark == "dot" and _has(rows, "low"):
        layers.append(base.mark_rule(style="range", clip=True).encode(x="low:Q", x2="high:Q", **colour))
    if _has(rows, "chance"):
        layers.append(base.mark_point(style="chance", clip=True).encode(x="chance:Q"))
    return layers


def _upon(base: Any, rows: Rows, mark: str, tips: Tips) -> list[Any]:
    """Layers on top of the marks of rows: whiskers, targets and texts."""
    layers = []
    if mark == "bar" and _has(rows, "low"):
        layers.append(base.mark_rule(style="whisker").encode(x="low:Q", x2="high:Q"))
    if _has(rows, "aim"):
        tick = base.mark_tick(style="chosen", thickness=2.5, size=20)
        layers.append(tick.encode(x="aim:Q", tooltip=tooltips(tips)))
    if _has(rows, "inside"):
        layers.append(base.mark_text(style="inside", align="left", dx=8).encode(x="low:Q", text="inside:N"))
    if _has(rows, "why"):
        layers += [
            base.mark_text(style=style, align="left").encode(x=alt.value(8), text="why:N") for style in ("halo", "aside")
        ]  # fmt: skip
    if _has(rows, "text"):
        labels = base.mark_text(style="value", align="left", dx=10)
        layers.append(labels.encode(x=alt.value("width"), text="text:N"))
    return layers


def joined(
    labels: Sequence[str],
    first: Sequence[float],
    second: Sequence[float],
    names: tuple[str, str],
    texts: Sequence[str],
    *,
    x: Axis,
    tips: Tips,
    heading: str | None = None,
    title: str = "",
) -> Panel:
    """Two numbers of every label joined by a line; `texts` are both columns of numbers as people read them."""
    both = [*zip(labels, first, second, strict=True), *zip(labels, second, [math.nan] * len(labels), strict=True)]
    rows = [
        {"label": label, "x": value, "tie": tie, "series": names[i >= len(labels)], "value_text": text}
        for i, ((label, value, tie), text) in enumerate(zip(both, texts, strict=True))
    ]
    return in_rows(rows, "dot", x=x, tips=tips, series=names, heading=heading, title=title)


def lines(
    rows: Rows,
    *,
    x: Axis,
    y: Axis,
    tips: Tips,
    series: Sequence[str] = (),
    legend: bool | str = True,
    line: bool = True,
    shaded: bool = False,
    small: bool = False,
    zero: bool = False,
    title: str = "",
    height: int = 260,
) -> Panel:
    """Points along an ordered quantity, joined by a line per series unless they stand alone; intervals as bars or shaded.

    Colours are those of `series`, in that order, also where a panel shows one of them only; more than the palette holds are
    drawn as a crowd.
    """
    crowd = len(series) > MOST_SERIES
    colour = _coloured(series, legend=legend) if len(series) > 1 and not crowd else {}
    shape = _shaped(series, legend=legend) if colour else {}
    detail = {"detail": "series:N"} if crowd else {}
    across, up = x.on(alt.X, "x"), y.on(alt.Y, "y")
    layers = [alt.Chart(records(y=[0.0])).mark_rule(style="zero").encode(y=up)] if zero else []
    sure, thin = ([row for row in rows if bool(row.get("sure", True)) == is_sure] for is_sure in (True, False))
    size = {"size": 22} if small else {}
    if sure:
        base = alt.Chart(_data(sure)).encode(x=across, **colour, **detail)
        layers += _around(base, sure, shaded=shaded)
        if line:
            layers.append(base.mark_line(clip=y.cut, **({"style": "crowd"} if crowd else {})).encode(y=up))
        layers.append(base.mark_point(clip=y.cut, **size).encode(y=up, tooltip=tooltips(tips), **shape))
    if thin:
        points = alt.Chart(_data(thin)).mark_point(filled=False, opacity=0.6, size=40, clip=y.cut)
        layers.append(points.encode(x=across, y=up, tooltip=tooltips(tips), **colour, **shape))
    return Panel(alt.layer(*layers), title, height=height)


def _around(base: Any, rows: Rows, *, shaded: bool) -> list[Any]:
    """Intervals, and the level that a line is read against."""
    layers = []
    if _has(rows, "low"):
        mark = base.mark_area(opacity=0.14) if shaded else base.mark_rule(style="range")
        layers.append(mark.encode(y="low:Q", y2="high:Q"))
    if _has(rows, "level"):
        layers.append(base.mark_line(strokeDash=[5, 4], strokeWidth=1.2).encode(y="level:Q"))
    return layers


def squares(
    rows: Rows,
    *,
    down: Sequence[str],
    across: Sequence[str],
    titles: tuple[str | None, str | None],
    tips: Tips,
    series: Sequence[str] = (),
    strongest: float = 0.75,
    title: str = "",
    each: int = 46,
    least: int = 110,
) -> Panel:
    """A table of squares, `label` down and `column` across: the stronger the more opaque, with their `text` on them."""
    slant = -35 if sum(map(len, across)) > ROOM else 0
    axis = alt.Axis(orient="bottom" if titles[1] else "top", labelAngle=slant, labelLimit=300, labelOverlap=False)
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("column:N", sort=list(across), title=titles[1], axis=axis),
        y=alt.Y("label:N", sort=list(down), title=titles[0], axis=alt.Axis(labelLimit=240)),
        tooltip=tooltips(tips),
    )
    shade = alt.Opacity("strength:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, strongest]), legend=None)
    colour = {"color": series_colour(series)} if series else {}
    layers = [
        base.mark_rect().encode(opacity=shade, **colour),
        base.mark_text(style="value").encode(text="text:N"),
    ]
    return Panel(alt.layer(*layers), title, height=max(least, each * len(down)))


def cloud(rows: Rows, *, x: Axis, y: Axis, tips: Tips, height: int = 320) -> Panel:
    """A point per label, named where there are few."""
    across, up = x.on(alt.X, "x"), y.on(alt.Y, "y")
    base = alt.Chart(_data(rows)).encode(x=across, y=up)
    layers = [base.mark_point().encode(tooltip=tooltips(tips))]
    if len(rows) <= MOST_NAMED:
        layers.append(base.mark_text(style="value", align="left", dx=8, limit=160).encode(text="label:N"))
    return Panel(alt.layer(*layers), height=height)
