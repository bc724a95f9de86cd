"""Charts of inequality: Lorenz curves (figures 1 and 6 of the paper), parts of a total, and bins of a quantity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import numpy as np

from evenhand.cards import Floats
from evenhand.errors import plural
from evenhand.findings import Findings, label, read_number
from evenhand.metrics.inequality import corners
from evenhand.report.charts.drawing import (
    Panel,
    Picture,
    chart,
    columns_of,
    distinct,
    drawn_note,
    long_table,
    records,
    without_metric,
)
from evenhand.report.charts.shapes import (
    SHARE,
    Axis,
    axis_format,
    decades,
    ends,
    in_rows,
    lines,
    series_colour,
    series_shape,
    shares,
)
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.phrases import metric_title, value_text
from evenhand.report.words.text import Row, holders, number, percent, short_percent, slice_labels, slice_names, word


@dataclass(frozen=True, slots=True)
class Curve:
    """The Lorenz polygon of one slice: the bottom `population` of the units get `share` of everything."""

    name: str
    population: Floats
    share: Floats

    def at(self, p: float) -> float:
        """Share of everything that the bottom `p` get."""
        return float(np.interp(p, self.population, self.share))

    def point(self, share: float) -> float:
        """The bottom share of units that gets this share together (the inverse of `at`)."""
        rises = np.flatnonzero(np.diff(self.share) > 0)
        corners = np.append(rises, rises[-1] + 1)
        return float(np.interp(share, self.share[corners], self.population[corners]))

    @property
    def area(self) -> float:
        """The area under the polygon; one half when all are equal."""
        return float((np.diff(self.population) * (self.share[1:] + self.share[:-1])).sum() / 2)

    def thinned(self, most: int) -> Curve:
        keep = corners(self.population, self.share, most)
        return Curve(self.name, self.population[keep], self.share[keep])

    def tail(self, least: float, most: int) -> tuple[Floats, Floats]:
        """The curve from the top, for a log axis: sizes of the top from `least` to all, and what they get."""
        tops = np.geomspace(least, 1, most)
        return tops, 1 - np.interp(1 - tops, self.population, self.share)

    def bent(self) -> Curve:
        """The curve with more corners near zero, for axes on which its straight lines are not straight."""
        shares = np.geomspace(1e-8, 1, 120)
        more = np.array([self.point(h) for h in shares])
        population, order = np.unique(np.append(self.population, more), return_index=True)
        return Curve(self.name, population, np.append(self.share, shares)[order])


def curves(findings: Findings) -> list[Curve]:
    """The curve of every slice in which anything was received, the most equal first."""
    points = findings.curves.get("lorenz") or {}
    if not points.get("population"):  # no point is about enough users
        return []
    names = slice_names(findings.slices, points)
    population, share = (np.array([math.nan if v is None else v for v in points[n]]) for n in ("population", "share"))
    where: dict[str, list[int]] = {}
    for i in np.flatnonzero(np.isfinite(share)).tolist():
        where.setdefault(names[i], []).append(i)
    polygons = [Curve(name, population[rows], share[rows]) for name, rows in where.items() if len(rows) > 1]
    return sorted(polygons, key=lambda curve: -curve.area)


LINEAR_BELOW = 1e-6
"""The log axis of figure 1b turns linear here, so that the stretch of units with nothing can be seen."""

Polygon = tuple[str, Floats, Floats]
"""The name of a curve, and its x and y as they are drawn."""


def _no_curve(findings: Findings) -> str:
    return "" if curves(findings) else "it has no Lorenz curve"


@chart("lorenz", title="The Lorenz curve: who gets how much", unless=_no_curve)
def lorenz(findings: Findings) -> Picture:
    """Share of everything that the bottom part of the units gets; the further below the dashed line, the less equal."""
    drawn = curves(findings)
    layers = [*_gap(drawn), *_lines(findings, drawn, _share_axis(findings)), *_equality()]
    return _picture(findings, drawn, layers, "Dashed: perfect equality.")


@chart("lorenz_log", title="The Lorenz curve on a log axis", unless=_no_curve, reported=False)
def lorenz_log(findings: Findings) -> Picture:
    """Lorenz curves on a log axis that is linear below one in a million, to show where units start to get anything."""
    drawn = [curve.thinned(SIZES.points // 4).bent() for curve in curves(findings)]
    ticks = [0, *(10.0**k for k in range(-6, 1))]
    title = f"share of all {word(findings, 'amount', 'amounts')}, log scale"
    y = Axis(title, SHARE, (0, 1), ticks, scale={"type": "symlog", "constant": LINEAR_BELOW})
    note = f"The axis is logarithmic above {short_percent(LINEAR_BELOW)} and linear below. Dashed: perfect equality."
    layers = [*_lines(findings, drawn, y), _equality()[0]]  # no room for its name on a log axis
    plotted = _picture(findings, drawn, layers, note)
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
    return _picture(findings, drawn, layers, "Dashed: perfect equality.")


def _lines(findings: Findings, drawn: Sequence[Curve], y: Axis) -> list[Any]:
    def polygon(curve: Curve, most: int) -> Polygon:
        thin = curve.thinned(most)
        return curve.name, thin.population, thin.share

    def marks(curve: Curve, at: Floats) -> Polygon:
        return curve.name, at, np.interp(at, curve.population, curve.share)

    x = shares(f"{holders(findings)}, from least to most")
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
        crowd = _chart([polygon(c, max(15, SIZES.points // len(drawn))) for c in drawn[1:-1]])
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
    named: dict[str, list[Any]] = {", ".join(findings.slices): [c.name for c in drawn]} if findings.slices else {}
    panel = Panel(alt.layer(*layers), height=SIZES.square, square=True)
    if len(drawn) > SIZES.series:
        note = f"{note} {len(drawn):,} curves; the highest and the lowest are in colour."
    return Picture((panel,), named | _read_out(drawn, _bottoms(curves(findings))), note)


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
    panel = Panel(alt.layer(*layers), height=SIZES.square, square=True)
    return Picture((panel,), columns_of(rows, "letter", "meaning"), note)


Parts = dict[str, dict[str, Row]]
"""Rows of one slice by metric and group; no group is the empty text."""


def _by_slice(findings: Findings) -> dict[str, Parts]:
    slices: dict[str, Parts] = {}
    for where, row in zip(slice_labels(findings), findings.rows(), strict=True):
        group = "" if row["group"] is None else str(row["group"])
        slices.setdefault(where, {}).setdefault(str(row["metric"]), {})[group] = row
    return slices


def _values(rows: Mapping[str, Row]) -> dict[str, float]:
    estimates = {group: read_number(row["estimate"]) for group, row in rows.items()}
    return {group: estimate for group, estimate in estimates.items() if math.isfinite(estimate)}


def _total(parts: Parts, metric: str) -> float:
    return _values(parts.get(metric, {})).get("", math.nan)


@chart("sources", title="Which source drives inequality", unless=without_metric("contribution"))
def sources(findings: Findings) -> Picture:
    """Contributions that add up to the Gini index, and the effect of 1% more of each source."""
    slices = _by_slice(findings)
    panels: list[Panel] = []
    for where, rows in list(slices.items())[: SIZES.panels]:
        lead = f"{where}: c" if where else "C"
        title = f"{lead}ontribution to the Gini index, {number(_total(rows, 'gini'))} in total"
        panels.append(_bars(findings, rows["contribution"], title))
        if "marginal" in rows:
            faint = "; faint: not significant" if any(_is_open(findings, r) for r in rows["marginal"].values()) else ""
            title = f"More of the source lowers (left) or raises (right) the index{faint}"
            panels.append(_bars(findings, rows["marginal"], title))
    note = drawn_note(min(len(slices), SIZES.panels), len(slices), "slices")
    return Picture(tuple(panels), long_table(findings), note)


def _bars(findings: Findings, rows: dict[str, Row], title: str) -> Panel:
    """A bar per group with its interval; negative ones in the second colour, faint where the sign is not significant."""
    sizes = _values(rows)
    bars = [
        {
            "label": name, "x": sizes.get(name, math.nan), "low": rows[name]["low"], "high": rows[name]["high"],
            "text": number(sizes.get(name, math.nan)), "series": "raises" if sizes.get(name, 0.0) >= 0 else "lowers",
            "faint": _is_open(findings, rows[name]),
        }
        for name in ends(sorted(rows, key=lambda name: -sizes.get(name, 0.0)))
    ]  # fmt: skip
    return in_rows(
        bars, "bar", x=Axis(format=".3~g"), tips={"label": "source", "text": "value"}, series=["raises", "lowers"], legend=False,
        zero=True, title=title, each=26,
    )  # fmt: skip


def _is_open(findings: Findings, row: Row) -> bool:
    """Whether nothing is claimed about the direction of a row that could be."""
    claim = findings.claim(row)
    return claim is not None and not claim.made


PARTS = ("total", "within", "between", "overlap")
"""Metrics of a decomposition."""


@chart("decomposition", title="Within groups, or between them", unless=without_metric("total"))
def decomposition(findings: Findings) -> Picture:
    """The total and its parts, as bars below each other, for every slice."""
    slices = _by_slice(findings)
    rows = [
        {"label": where or "all", "series": part, "x": size, "text": number(size)}
        for where, parts in list(slices.items())[: SIZES.rows]
        for part in PARTS
        if math.isfinite(size := _total(parts, part))
    ]
    series = [part for part in PARTS if any(row["series"] == part for row in rows)]
    panel = in_rows(
        rows, "bar", x=Axis(format=".3~g", ticks=6), tips={"series": "part", "text": "size"}, series=series, lanes=True, least=90
    )  # fmt: skip
    note = drawn_note(min(len(slices), SIZES.rows), len(slices), "slices")
    return Picture((panel,), long_table(findings), note)


def middle(low: float, high: float) -> float:
    """Where a bin stands on an axis: the geometric middle, since bins that matter are log-spaced."""
    if math.isinf(high):
        return low
    return math.sqrt(low * high) if low > 0 else (low + high) / 2


def _places(findings: Findings, name: str) -> list[float]:
    """Where on the axis each row's bin stands; NaN for none."""
    lows, highs = (findings.columns.get(f"{name}_{end}", [None] * len(findings)) for end in ("low", "high"))
    pairs = zip(lows, highs, strict=True)
    return [math.nan if None in pair else middle(float(pair[0]), float(pair[1])) for pair in pairs]


def _binned_slice(findings: Findings) -> str:
    bins = ((name, {x for x in _places(findings, name) if not math.isnan(x)}) for name in findings.slices)
    return next((name for name, places in bins if len(places) >= 3), "")


@chart(
    "bins", title="By bin",
    unless=lambda findings: "" if _binned_slice(findings) else "no slice column has three bins or more",
)  # fmt: skip
def bins(findings: Findings) -> Picture:
    """Each metric by bin with its interval, and how many units each bin has (figures 5 and 7).

    Bins are a slice column `b` with its edges in `b_low` and `b_high`.
    """
    name = _binned_slice(findings)
    others = [s for s in findings.slices if s != name]
    rows = [
        {
            "metric": row["metric"], "series": ", ".join(label(row[o]) for o in others), "label": label(row[name]), "x": x,
            "y": read_number(row["estimate"]), "low": read_number(row["low"]), "high": read_number(row["high"]),
            "units": read_number(row["units"]), "value_text": value_text(read_number(row["estimate"]), row["metric"]),
        }
        for row, x in zip(findings.rows(), _places(findings, name), strict=True)
        if not math.isnan(x)
    ]  # fmt: skip
    rows.sort(key=lambda row: row["x"])
    series, metrics = distinct(row["series"] for row in rows), findings.metrics()
    panels = [_along([r for r in rows if r["metric"] == m], m, name, series) for m in metrics]
    panels.append(_units([r for r in rows if r["metric"] == metrics[0]], name, word(findings, "unit"), series))
    return Picture(tuple(panels), long_table(findings), "Bars are intervals.")


def _wide_axis(title: str, values: Sequence[float], metric: str = "") -> Axis:
    """A log axis where values spread over a factor of 50 or more (zeros stand at its foot), a plain one elsewhere."""
    finite = [v for v in values if math.isfinite(v)]
    positive = [v for v in finite if v > 0]
    form = axis_format(finite, metric)
    if not positive or min(finite) < 0 or max(positive) / min(positive) <= 50:
        return Axis(title or None, form, scale={"zero": False, "padding": 10})
    zeros = len(positive) < len(finite)
    kind = {"type": "symlog", "constant": min(positive) / 2} if zeros else {"type": "log"}
    full_title = ", ".join(filter(None, [title, "log scale"]))
    return Axis(
        full_title, form, ticks=[*([0.0] * zeros), *decades(positive)], scale={"nice": False, "padding": 10, **kind}
    )


def _along(rows: Sequence[Row], metric: str, name: str, series: Sequence[str]) -> Panel:
    tips = {"label": name, **({"series": "slice"} if len(series) > 1 else {}), "value_text": metric_title(metric)}
    return lines(
        rows, x=_wide_axis(name, [r["x"] for r in rows]),
        y=_wide_axis("", [v for r in rows for v in (r["y"], r["low"], r["high"])], metric),
        tips={**tips, "low": "low", "high": "high", "units": "units"}, series=series, title=metric_title(metric),
    )  # fmt: skip


def _units(rows: Sequence[Row], name: str, unit: str, series: Sequence[str]) -> Panel:
    """Figure 7: how many units each bin has; the largest slice stands for all where bins are shared."""
    most: dict[float, Row] = {}
    for row in rows:
        if row["x"] not in most or row["units"] > most[row["x"]]["units"]:
            most[row["x"]] = row
    shown = [{"label": r["label"], "x": x, "y": r["units"], "units": r["units"]} for x, r in sorted(most.items())]
    several = " in the largest slice" if len(series) > 1 else ""
    return lines(
        shown, x=_wide_axis(name, [r["x"] for r in rows]), y=_wide_axis(plural(unit), [r["y"] for r in shown]),
        tips={"label": name, "units": "units"}, title=f"{plural(unit).capitalize()} per bin{several}",
    )  # fmt: skip
