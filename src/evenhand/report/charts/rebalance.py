"""Charts of a frontier: relevance against inequality, the Lorenz curve as the strength moves, and who gains and loses."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from evenhand.findings import Findings, read_number
from evenhand.report.charts.drawing import (
    Panel,
    Picture,
    chart,
    columns_of,
    distinct,
    records,
    split,
    without_curve,
    without_metric,
)
from evenhand.report.charts.shapes import SHARE, Axis, line_and_points, shares
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.rankings import REQUESTS, UNEVEN, evenness_metric
from evenhand.report.words.text import holders, percent, points

LISTS = {
    (on, means): f"{title}, {requests}"
    for means, title in (("policy", "policy"), ("boosts", "boosts"), ("served", "as served"))
    for on, requests in REQUESTS.items()
}
"""The lists of a point, by the requests and by how they were made."""


@chart("frontier", title="What evenness costs in relevance", unless=without_metric("ndcg"))
def frontier(findings: Findings) -> Picture:
    """Relevance kept against the Gini index of exposure: down is more even, right is more relevant."""
    metric = evenness_metric(findings)
    uneven, order = UNEVEN[metric], list(LISTS.values())
    by_policy: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in findings.rows():
        if row["metric"] in ("ndcg", metric):
            lists = LISTS[row["on"], row["by_means"]]
            point = by_policy.setdefault((row["strength"], lists), {"series": lists, "strength": row["strength"]})
            point["x" if row["metric"] == "ndcg" else "y"] = read_number(row["estimate"])
    rows = [p for p in by_policy.values() if {"x", "y"} <= p.keys()]
    rows.sort(key=lambda p: (order.index(p["series"]), p["strength"] or 0))
    x, y = Axis("relevance kept (nDCG)", ".4~p", scale={"zero": False}), Axis(uneven, ".3~g", scale={"zero": True})
    tips = {"series": "lists", "strength": "strength", "x": "relevance kept", "y": uneven}
    line, dots = line_and_points(rows, x=x, y=y, series=distinct(p["series"] for p in rows), tips=tips)
    table = columns_of(rows, series="lists", strength="strength", x="relevance kept", y=uneven)
    return Picture((Panel(alt.layer(line.encode(order="strength:Q"), dots)),), table)


@chart("before_after", title="Who gets how much, before and after", unless=without_curve("before_after"))
def before_after(findings: Findings) -> Picture:
    """Lorenz curves of exposure as ranked and at a strength that a slider picks."""
    by_strength = split(points(findings, "before_after"), lambda p: p["strength"])
    strengths, last = list(by_strength), len(by_strength) - 1
    corners = [
        {"k": k, "x": p["population"], "y": p["share"]} for k, part in enumerate(by_strength.values()) for p in part
    ]
    place = {
        "x": shares(f"{holders(findings)}, from least to most").on(alt.X, "x"),
        "y": shares("share of all exposure").on(alt.Y, "y"),
    }
    slider = alt.binding_range(min=0, max=last, step=1, name="strength, weakest to strongest ")
    picked = alt.param(name="picked", value=(last + 1) // 2, bind=slider)
    base = alt.Chart(records(corners))
    captions = alt.Chart(
        records({"k": k, "x": 0.04, "y": 0.96, "text": f"strength {s:g}"} for k, s in enumerate(strengths))
    )
    layers = [
        base.transform_filter("datum.k == 0").mark_line(style="reference").encode(**place, order="x:Q"),
        base.transform_filter("datum.k == picked").mark_line().encode(**place, order="x:Q"),
        captions.transform_filter("datum.k == picked")
        .mark_text(style="aside", align="left")
        .encode(x="x:Q", y="y:Q", text="text:N"),
    ]
    halves = [
        percent(float(np.interp(0.5, [p["population"] for p in part], [p["share"] for p in part])))
        for part in by_strength.values()
    ]
    panel = Panel(alt.layer(*layers).add_params(picked), height=SIZES.square, square=True)
    table = {"strength": strengths, "share of the bottom half": halves}
    return Picture((panel,), table, "Dashed: as ranked. The slider below sets the strength.")


@chart("movers", title="Who gains and who loses", unless=without_curve("movers"))
def movers(findings: Findings) -> Picture:
    """Exposure of each tenth of the providers, by what they had as ranked, at every strength."""
    rows = points(findings, "movers")
    every = distinct(r["strength"] for r in rows)
    strengths = [every[0], *every[1:][-(SIZES.series - 1) :]]
    names = {s: "as ranked" if s == 0 else f"strength {s:g}" for s in strengths}
    drawn = [{"series": names[r["strength"]], "x": r["tenth"], "y": r["after"]} for r in rows if r["strength"] in names]
    many = max(r["tenth"] for r in rows)
    title = f"{holders(findings)} in {many} parts, from least to most exposed as ranked"
    x, y = Axis(title, "d", ticks=list(range(1, many + 1))), Axis("share of all exposure", SHARE)
    tips = {"series": "lists", "x": "part", "y": "share of exposure"}
    layers = line_and_points(drawn, x=x, y=y, series=list(names.values()), tips=tips)
    return Picture((Panel(alt.layer(*layers)),), columns_of(rows, "strength", "tenth", "before", "after"))
