"""The Lorenz explorer: move a handle and read what the top gets, and how many at the bottom get as much.

Curves are drawn from the top, on a log axis, where those that hug the corner can be told apart. The page is complete without
scripts: the handle is at 1%.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import altair as alt
import numpy as np

from evenhand.findings import Findings, read_number
from evenhand.metrics.inequality import stops
from evenhand.report.charts.drawing import Picture, drawable, records
from evenhand.report.charts.inequality import Curve, curves, from_the_top
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.text import holders, percent, slice_labels, word


@dataclass(frozen=True, slots=True)
class Reading:
    """One position of the handle: the size of the top, its share, and the bottom with the same share."""

    top: float
    share: float
    equal: float

    @classmethod
    def from_curve(cls, curve: Curve, top: float) -> Reading:
        share = max(0.0, 1 - curve.at(1 - top))
        return cls(top, share, float(np.interp(share, curve.share, curve.population)) if share > 0 else 0.0)

    @property
    def overlaps(self) -> bool:
        """Whether the bottom that gets as much reaches into the top: then the top gets more than all others together."""
        return self.equal > 1 - self.top

    def sentence(self, name: str, many: float, units: str, amount: str) -> str:
        """The reading as a sentence; report.js writes the same one."""
        lead = f"For {name}, the" if name else "The"
        others = "more than all others together" if self.overlaps else f"as much as the bottom {percent(self.equal)}"
        return (
            f"{lead} top {chosen(self.top)} of {units} ({counted(self.top * many)} of {many:,.0f}) get "
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


@dataclass(frozen=True, slots=True)
class Explorer:
    """The curves of a result, how many units each runs over, the stops of the handle, and the reading it starts with."""

    curves: list[Curve]
    units: list[float]
    stops: list[float]
    start: Reading

    @classmethod
    def from_findings(cls, findings: Findings) -> Explorer:
        polygons = curves(findings)
        units = _units(findings, polygons)
        sizes = list(stops(len(set(slice_labels(findings))), min(units)))
        start = Reading.from_curve(polygons[-1], min(sizes, key=lambda size: abs(size - 0.01)))
        return cls(polygons, units, sizes, start)


def picture(findings: Findings) -> Picture:
    """The chart with a handle on it; the page moves the handle through the parameters `top`, `held` and `top_text`."""
    e = Explorer.from_findings(findings)
    drawn = from_the_top(findings)
    panel, last = drawn.panels[0], e.curves[-1]
    line = [{"x": 1.0, "y": 1.0}]
    if len(e.curves) > SIZES.series:  # no colour of its own: the page draws the chosen curve
        corners = zip((1 - last.population).tolist(), (1 - last.share).tolist(), strict=True)
        line = [{"x": x, "y": y} for x, y in corners if x > 0]
    params = {"top": e.start.top, "held": e.start.share, "top_text": f"top {chosen(e.start.top)}"}
    layers = alt.layer(panel.chart, *_handle(line)).add_params(*(alt.param(name=k, value=v) for k, v in params.items()))
    return replace(drawn, panels=(replace(panel, chart=layers, height=SIZES.explorer),))


def _handle(line: Sequence[dict[str, float]]) -> list[Any]:
    """The chosen curve, and the point on it where the top ends."""
    where = alt.Chart(records([{"one": 1}])).transform_calculate(top="top", held="held", top_text="top_text")
    side = {"align": {"expr": "top > 0.05 ? 'right' : 'left'"}, "dx": {"expr": "top > 0.05 ? -12 : 12"}, "dy": 12}
    texts = [where.mark_text(**side, fontSize=13, fontWeight=600, style=style) for style in ("halo", "value")]
    curve = alt.Chart(alt.InlineData(name="chosen", values=list(line))).mark_line(style="chosen")
    return [
        where.mark_rule(style="reference").encode(x="top:Q"),
        curve.encode(x="x:Q", y="y:Q", order="x:Q"),
        *(text.encode(x="top:Q", y="held:Q", text="top_text:N") for text in texts),
        where.mark_point(style="handle").encode(x="top:Q", y="held:Q"),
    ]


def data(findings: Findings) -> dict[str, Any]:
    """Data for the scripts of the page: corners of every curve, stops of the handle, words of the sentence."""
    e = Explorer.from_findings(findings)
    return {
        "curves": [
            {"name": c.name, "many": n}
            | {key: list(map(drawable, getattr(c, key).tolist())) for key in ("population", "share")}
            for c, n in zip(e.curves, e.units, strict=True)
        ],
        "crowded": len(e.curves) > SIZES.series,
        "stops": e.stops,
        "start": e.stops.index(e.start.top),
        "units": holders(findings),
        "amount": word(findings, "amount", "amounts"),
    }


def _units(findings: Findings, polygons: Sequence[Curve]) -> list[float]:
    """How many units each curve runs over; those of a curve that no row counts have its finest step."""
    sizes = dict(zip(slice_labels(findings), findings.columns.get("units", ()), strict=False))
    counts = [read_number(sizes.get(c.name)) for c in polygons]
    return [
        float(n) if n == n else float(round(1 / (c.population[1] - c.population[0])))
        for n, c in zip(counts, polygons, strict=True)
    ]


def words(findings: Findings) -> dict[str, Any]:
    """What slider, choice of slice and sentence say before scripts run."""
    e = Explorer.from_findings(findings)
    amount = word(findings, "amount", "amounts")
    return {
        "names": [curve.name for curve in e.curves],
        "slices": ", ".join(findings.slices),
        "last_stop": len(e.stops) - 1,
        "ends": [chosen(e.stops[0]), chosen(e.stops[-1])],
        "reading": e.start.sentence(e.curves[-1].name, e.units[-1], holders(findings), amount),
    }
