"""Pictures of a frontier: relevance against inequality, the Lorenz curve as the strength moves, and who gains and loses."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import (
    Panel,
    Picture,
    chart,
    columns_of,
    distinct,
    holders,
    records,
    without_curve,
    without_metric,
)
from evenhand.report.charts.shapes import SHARE, Axis, series_colour, series_shape, shares, tooltips
from evenhand.report.charts.theme import MOST_SERIES
from evenhand.report.words.sentences_rebalance import UNEVEN, evenness_metric
from evenhand.report.words.text import number, percent

SIDE = 420
NAMES = {
    ("learned", "policy"): "policy, learned requests", ("held_out", "policy"): "policy, held-out requests",
    ("learned", "boosts"): "boosts, learned requests", ("held_out", "boosts"): "boosts, held-out requests",
    ("held_out", "served"): "as served, held-out requests", ("learned", "served"): "as served, learned requests",
}  # fmt: skip


def _points(findings: Findings) -> list[dict[str, Any]]:
    """Where each policy stands: relevance kept and Gini index, with its strength."""
    by_policy: dict[tuple[Any, ...], dict[str, Any]] = {}
    uneven = evenness_metric(findings)
    for row in findings.rows():
        if row["metric"] in ("ndcg", uneven):
            key = (row["strength"], row["on"], row["by_means"])
            point = by_policy.setdefault(
                key, {"series": NAMES[key[1], key[2]], "strength": row["strength"], "served": key[2] == "served"}
            )
            point["x" if row["metric"] == "ndcg" else "y"] = read_number(row["estimate"])
    order = list(NAMES.values())
    return sorted(
        (p for p in by_policy.values() if {"x", "y"} <= p.keys()),
        key=lambda p: (order.index(p["series"]), p["strength"] or 0),
    )


@chart("frontier", title="What evenness costs in relevance", unless=without_metric("ndcg"))
def frontier(findings: Findings) -> Picture:
    """Relevance kept against the Gini index of exposure: down is more even, right is more relevant."""
    points = _points(findings)
    names = distinct(p["series"] for p in points)
    fields = {name: [p[name] for p in points] for name in ("series", "strength", "x", "y")}
    place = {
        "x": Axis("relevance kept (nDCG)", ".4~p", scale={"zero": False}).on(alt.X, "x"),
        "y": Axis(UNEVEN[evenness_metric(findings)], ".3~g", scale={"zero": True}).on(alt.Y, "y"),
        "color": series_colour(names),
    }
    base = alt.Chart(records(**fields))
    tips = tooltips(
        {"series": "lists", "strength": "strength", "x": "relevance kept", "y": UNEVEN[evenness_metric(findings)]}
    )
    layers = [
        base.mark_line().encode(**place, order="strength:Q"),
        base.mark_point().encode(**place, shape=series_shape(names), tooltip=tips),
    ]
    on = "held_out" if any("held-out" in p["series"] for p in points) else "learned"
    judged = [p for p in points if p["series"] == NAMES[on, "policy"]]
    first, last = judged[0], judged[-1]
    uneven = UNEVEN[evenness_metric(findings)]
    text = (
        f"From strength 0 to {last['strength']:g} the {uneven} goes from {number(first['y'])} to {number(last['y'])} while "
        f"{percent(last['x'])} of the relevance is kept."
    )
    table = {
        "lists": fields["series"],
        "strength": fields["strength"],
        "relevance kept": fields["x"],
        uneven: fields["y"],
    }
    return Picture((Panel(alt.layer(*layers), height=320),), table, text, lead=False)


def _strengths(curve: Mapping[str, Any]) -> list[float]:
    return distinct(curve["strength"])


def _slider(strengths: list[float]) -> Any:
    """A handle that picks one of the strengths, one in the middle first."""
    last = len(strengths) - 1
    return alt.param(
        name="picked",
        value=(last + 1) // 2,
        bind=alt.binding_range(min=0, max=last, step=1, name="strength, weakest to strongest "),
    )


@chart("before_after", title="Who holds how much, before and after", unless=without_curve("before_after"))
def before_after(findings: Findings) -> Picture:
    """Lorenz curves of exposure as ranked and at a strength that a handle picks."""
    curve = findings.curves["before_after"]
    strengths = _strengths(curve)
    step = {s: i for i, s in enumerate(strengths)}
    data = records(k=[step[s] for s in curve["strength"]], x=curve["population"], y=curve["share"])
    place = {
        "x": shares(f"{holders(findings)}, from those with least to those with most").on(alt.X, "x"),
        "y": shares("share of all exposure").on(alt.Y, "y"),
    }
    base = alt.Chart(data)
    picked = _slider(strengths)
    captions = records(
        k=list(range(len(strengths))),
        x=[0.04] * len(strengths),
        y=[0.96] * len(strengths),
        text=[f"strength {s:g}" for s in strengths],
    )
    layers = [
        base.transform_filter("datum.k == 0").mark_line(style="reference").encode(**place, order="x:Q"),
        base.transform_filter("datum.k == picked").mark_line().encode(**place, order="x:Q"),
        alt.Chart(captions)
        .transform_filter("datum.k == picked")
        .mark_text(style="aside", align="left")
        .encode(x="x:Q", y="y:Q", text="text:N"),
    ]
    halves = {s: _below(curve, s, 0.5) for s in strengths}
    text = (
        f"The half of {holders(findings)} with least holds {percent(halves[strengths[0]])} of all exposure as ranked and "
        f"{percent(halves[strengths[-1]])} at strength {strengths[-1]:g}."
    )
    table: dict[str, list[Any]] = {
        "strength": strengths,
        "held by the bottom half": [percent(halves[s]) for s in strengths],
    }
    panel = Panel(alt.layer(*layers).add_params(picked), height=SIDE, square=True)
    return Picture((panel,), table, text, "Dashed: as ranked. The handle below moves the strength.")


def _below(curve: Mapping[str, Any], strength: float, p: float) -> float:
    """The share of the bottom p, interpolated on the Lorenz curve."""
    points = [
        (x, y) for s, x, y in zip(curve["strength"], curve["population"], curve["share"], strict=True) if s == strength
    ]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= p <= x1 and x1 > x0:
            return float(y0 + (y1 - y0) * (p - x0) / (x1 - x0))
    return float("nan")


@chart("movers", title="Who gains and who loses", unless=without_curve("movers"))
def movers(findings: Findings) -> Picture:
    """Exposure of each tenth of the providers, by what they had as ranked, at every strength."""
    curve = findings.curves["movers"]
    strengths = _strengths(curve)
    strengths = [strengths[0], *strengths[1:][-(MOST_SERIES - 1) :]]
    names = ["as ranked" if s == 0 else f"strength {s:g}" for s in strengths]
    called = dict(zip(strengths, names, strict=True))
    rows = [dict(zip(curve, point, strict=True)) for point in zip(*curve.values(), strict=True)]
    drawn = [r for r in rows if r["strength"] in called]
    data = records(
        series=[called[r["strength"]] for r in drawn], x=[r["tenth"] for r in drawn], y=[r["after"] for r in drawn]
    )
    many = max(curve["tenth"])
    place = {
        "x": Axis(
            f"{holders(findings)} in {many} parts, from those with least as ranked to those with most",
            "d",
            ticks=list(range(1, many + 1)),
        ).on(alt.X, "x"),
        "y": Axis("share of all exposure", SHARE).on(alt.Y, "y"),
        "color": series_colour(names),
    }
    base = alt.Chart(data)
    tips = tooltips({"series": "lists", "x": "part", "y": "share of exposure"})
    layers = [
        base.mark_line().encode(**place),
        base.mark_point().encode(**place, shape=series_shape(names), tooltip=tips),
    ]
    last = [r for r in rows if r["strength"] == strengths[-1]]
    text = (
        f"At strength {strengths[-1]:g} the part with most goes from {percent(last[-1]['before'])} to {percent(last[-1]['after'])} of all "
        f"exposure, the part with least from {percent(last[0]['before'])} to {percent(last[0]['after'])}."
    )
    return Picture(
        (Panel(alt.layer(*layers), height=300),), columns_of(rows, "strength", "tenth", "before", "after"), text
    )
