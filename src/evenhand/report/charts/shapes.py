"""The few shapes that pictures are made of: rows of dots, bars or spans, lines, squares, and a cloud of points.

A shape takes rows with fixed field names. What a field is called says how it is drawn, and one that no row has is not drawn:

- `label` : the row that a mark stands in; `series` : its colour; `x`, `y` : where it stands;
- `low`, `high` : its interval, or the ends of a span; `band_low`, `band_high` : a shaded stretch behind it;
- `chance` : a diamond; `ideal` : a grey tick; `aim` : a dark tick; `tie` : a line to there; `level` : a dashed line;
- `text` : a number at the right of the row; `why` : what stands where there is no number;
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
from evenhand.report.charts.theme import SHAPES, SIZES, fading
from evenhand.report.words.phrases import is_share
from evenhand.report.words.text import Row, percent

Rows = Sequence[Row]
Tips = Mapping[str, str]
Legend = bool | str
"""Whether there is a legend; a text is its title."""

SHARE = ".3~p"
"""d3 format of axes in percent, down to millionths."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of numbers: its title, where it begins and ends, its ticks (how many, or which), the d3 format of its numbers.

    `clip` : marks beyond the ends are left out; `days` : values are days, as text. `scale` and `more` are what Vega-Lite calls
    properties of scale and axis.
    """

    title: str | None = None
    format: str = "~g"
    domain: tuple[float, float] | None = None
    ticks: int | Sequence[float] = 5
    clip: bool = False
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


def ends(ordered: Sequence[str], most: int = SIZES.rows) -> list[str]:
    """The first and the last of many labels: where a chart has no room, the extremes are the story."""
    if len(ordered) <= most:
        return list(ordered)
    half = most // 2
    return [*ordered[:half], *ordered[-(most - half) :]]


def series_colour(names: Sequence[str], legend: Legend = True) -> Any:  # noqa: FBT002
    return alt.Color("series:N", scale=alt.Scale(domain=list(names)), sort=list(names), legend=_legend(names, legend))


def series_shape(names: Sequence[str], legend: Legend = True) -> Any:  # noqa: FBT002
    """One shape per series, beside its colour, which distinguishes points in grey."""
    scale = alt.Scale(domain=list(names), range=list(SHAPES[: len(names)]))
    return alt.Shape("series:N", scale=scale, sort=list(names), legend=_legend(names, legend))


def _legend(names: Sequence[str], legend: Legend) -> Any:
    if legend is False:
        return None
    title = legend if isinstance(legend, str) else None
    widest = 34 + 7 * min(30, max(map(len, names), default=1))
    across = max(1, SIZES.legend_line // widest)  # else a long legend widens the chart
    return alt.Legend(title=title, orient="top", symbolLimit=SIZES.series, labelLimit=220, columns=across)


def line_and_points(rows: Rows, *, x: Axis, y: Axis, series: Sequence[str], tips: Tips) -> list[Any]:
    """A line and the points on it, in the colour and shape of their series."""
    base = alt.Chart(records(rows))
    coloured = {"x": x.on(alt.X, "x"), "y": y.on(alt.Y, "y"), "color": series_colour(series)}
    points = base.mark_point().encode(**coloured, shape=series_shape(series), tooltip=tooltips(tips))
    return [base.mark_line().encode(**coloured), points]


def tooltips(tips: Tips) -> list[Any]:
    """Tooltips from field to title; numbers with four significant digits, counts in full."""
    counts = {"units": ",", "bin": "d", "items": ",", "rank": "d"}
    return [
        alt.Tooltip(f"{name}:N", title=title)
        if name in ("label", "series", "column", "text", "why") or name.endswith("_text")
        else alt.Tooltip(f"{name}:Q", title=title, format=counts.get(name, ".4~g"))
        for name, title in tips.items()
    ]


def _has(rows: Rows, name: str) -> bool:
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
    legend: Legend = True,
    lanes: bool = False,
    zero: bool = False,
    heading: str | None = None,
    title: str = "",
    each: int = SIZES.row,
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
    base = alt.Chart(records(rows)).encode(y=y, **lane)
    colour = {"color": series_colour(series, legend)} if series else {}
    layers = [alt.Chart(records([{"zero": 0.0}])).mark_rule(style="zero").encode(x="zero:Q")] if zero else []
    layers += _behind(base, rows, mark, colour)
    encodings = {**colour, **_second_sign(rows, mark, series, legend=legend)} if series else {}
    place = {"x": x.on(alt.X, "low"), "x2": "high:Q"} if mark == "span" else {"x": x.on(alt.X, "x")}
    marks = {
        "dot": base.mark_point(),
        "span": base.mark_bar(height={"band": 0.95}, cornerRadiusEnd=0),
        "bar": base.mark_bar(**({} if lanes else {"height": 13})),
    }
    layers.append(marks[mark].encode(**place, tooltip=tooltips(tips), **encodings))
    layers += _upon(base, rows, mark, tips)
    lines = SIZES.two_line_row if any("\n" in label for label in shown) else each
    tall = max(lines, SIZES.lane * len(series) + 8 if lanes else 0)
    return Panel(alt.layer(*layers), title, height=max(least, tall * len(shown)))


def _second_sign(rows: Rows, mark: str, series: Sequence[str], *, legend: Legend) -> dict[str, Any]:
    """An encoding beside colour: shape for points, opacity for spans without text and for bars of uncertain sign."""
    if mark == "bar" and any(row.get("faint") for row in rows):
        return {"opacity": alt.condition("datum.faint", alt.value(0.35), alt.value(1.0))}
    if mark == "dot" and len(series) <= SIZES.series:
        return {"shape": series_shape(series, legend)}
    if mark == "span":
        # ordinal: else the ends of the range are taken for all of it
        scale = alt.Scale(type="ordinal", domain=list(series), range=fading(len(series)))
        return {"opacity": alt.Opacity("series:N", scale=scale, sort=list(series), legend=None)}
    return {}


def _behind(base: Any, rows: Rows, mark: str, colour: Mapping[str, Any]) -> list[Any]:
    """Layers behind the marks of rows: bands, ideals, links, intervals, chance levels."""
    layers = []
    if _has(rows, "band_low"):
        layers.append(base.mark_bar(style="gap", height=18).encode(x="band_low:Q", x2="band_high:Q"))
    if _has(rows, "ideal"):
        layers.append(base.mark_tick(style="ideal", thickness=2, size=14, clip=True).encode(x="ideal:Q"))
    if _has(rows, "tie"):
        tied = base.copy()
        tied.data = records([row for row in rows if _has([row], "tie")])  # Vega takes an end that is not there for zero
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
    first: tuple[str, Sequence[float]],
    second: tuple[str, Sequence[float]],
    *,
    x: Axis,
    tips: Tips,
    heading: str | None = None,
    title: str = "",
) -> Panel:
    """Two shares of every label joined by a line; each series has a name and its values."""
    ties = (second[1], [math.nan] * len(labels))
    rows = [
        {"label": label, "x": value, "tie": tie, "series": name, "value_text": percent(value)}
        for (name, values), ends in zip((first, second), ties, strict=True)
        for label, value, tie in zip(labels, values, ends, strict=True)
    ]
    return in_rows(rows, "dot", x=x, tips=tips, series=(first[0], second[0]), heading=heading, title=title)


def lines(
    rows: Rows,
    *,
    x: Axis,
    y: Axis,
    tips: Tips,
    series: Sequence[str] = (),
    legend: Legend = True,
    line: bool = True,
    shaded: bool = False,
    small: bool = False,
    zero: bool = False,
    title: str = "",
    height: int = SIZES.medium,
) -> Panel:
    """Points along an ordered quantity, joined by a line per series unless they stand alone; intervals as bars or shaded.

    Colours are those of `series`, in that order, also where a panel shows one of them only; more than the palette holds are
    drawn as a crowd.
    """
    crowd = len(series) > SIZES.series
    colour = {"color": series_colour(series, legend)} if len(series) > 1 and not crowd else {}
    shape = {"shape": series_shape(series, legend)} if colour else {}
    detail = {"detail": "series:N"} if crowd else {}
    across, up = x.on(alt.X, "x"), y.on(alt.Y, "y")
    layers = [alt.Chart(records([{"y": 0.0}])).mark_rule(style="zero").encode(y=up)] if zero else []
    sure, thin = ([row for row in rows if bool(row.get("sure", True)) == is_sure] for is_sure in (True, False))
    size = {"size": 22} if small else {}
    if sure:
        base = alt.Chart(records(sure)).encode(x=across, **colour, **detail)
        if _has(sure, "low"):
            interval = base.mark_area(opacity=0.14) if shaded else base.mark_rule(style="range")
            layers.append(interval.encode(y="low:Q", y2="high:Q"))
        if _has(sure, "level"):
            layers.append(base.mark_line(strokeDash=[5, 4], strokeWidth=1.2).encode(y="level:Q"))
        if line:
            layers.append(base.mark_line(clip=y.clip, **({"style": "crowd"} if crowd else {})).encode(y=up))
        layers.append(base.mark_point(clip=y.clip, **size).encode(y=up, tooltip=tooltips(tips), **shape))
    if thin:
        points = alt.Chart(records(thin)).mark_point(filled=False, opacity=0.6, size=40, clip=y.clip)
        layers.append(points.encode(x=across, y=up, tooltip=tooltips(tips), **colour, **shape))
    return Panel(alt.layer(*layers), title, height=height)


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
    slant = -35 if sum(map(len, across)) > 32 else 0  # letters that stand side by side
    axis = alt.Axis(orient="bottom" if titles[1] else "top", labelAngle=slant, labelLimit=300, labelOverlap=False)
    base = alt.Chart(records(rows)).encode(
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


def cloud(rows: Rows, *, x: Axis, y: Axis, tips: Tips, height: int = SIZES.tall) -> Panel:
    """A point per label, named where there are few."""
    across, up = x.on(alt.X, "x"), y.on(alt.Y, "y")
    base = alt.Chart(records(rows)).encode(x=across, y=up)
    layers = [base.mark_point().encode(tooltip=tooltips(tips))]
    if len(rows) <= SIZES.labels:
        layers.append(base.mark_text(style="value", align="left", dx=8, limit=160).encode(text="label:N"))
    return Panel(alt.layer(*layers), height=height)
