"""What a recommender shows: which items differ between two groups of users, and how slots are spread over the catalogue."""

from __future__ import annotations

from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.present.drawing import (
    SHARE,
    Panel,
    Picture,
    chart,
    records,
    series_colour,
    share_x,
    share_y,
    tooltip,
)
from evenhand.present.text import number, percent

ROW = 22
SIDE = 360
MOST_ITEMS = 20
READ_AT = (0.5, 0.8, 0.9, 0.99)


def _no_curve(name: str, words: str) -> Any:
    def problem(findings: Findings) -> str:
        return "" if findings.curves.get(name, {}).get("population" if name == "lorenz" else "item") else words

    return problem


@chart(
    "differences",
    audits=("recommender",),
    title="Which items the two groups are shown differently",
    unless=_no_curve("differences", "no two groups are shown different items"),
    place=2,
)
def differences(findings: Findings) -> Picture:
    """The items whose share of slots differs most between two groups of users, widest gap first."""
    held = findings.curves["differences"]
    versus, protected = str(held["versus"][0]), str(held["protected"][0])
    items = [str(i) for i in held["item"]][:MOST_ITEMS]
    a, b = list(held["versus_share"])[:MOST_ITEMS], list(held["protected_share"])[:MOST_ITEMS]
    base = alt.Y("label:N", sort=items, title="item", axis=alt.Axis(labelLimit=170))
    x = alt.X("x:Q", title="share of the group's slots", axis=alt.Axis(format=SHARE, tickCount=5))
    dots = records(
        label=items * 2,
        x=[*a, *b],
        series=[versus] * len(items) + [protected] * len(items),
        value_text=[percent(v) for v in (*a, *b)],
    )
    layers = [
        alt.Chart(records(label=items, low=a, high=b))
        .mark_rule(style="whisker")
        .encode(y=base, x="low:Q", x2="high:Q"),
        alt.Chart(dots)
        .mark_point(filled=True, size=70)
        .encode(
            y=base,
            x=x,
            color=series_colour([versus, protected]),
            tooltip=tooltip(label="item", series="group", value_text="share"),
        ),
    ]
    table = {
        "item": items,
        f"share shown to {versus}": [percent(v) for v in a],
        f"share shown to {protected}": [percent(v) for v in b],
    }
    says = f"Item {items[0]} differs most: {percent(a[0])} of the slots of {versus} and {percent(b[0])} of those of {protected}."
    note = "Only the widest gaps are drawn; some gap is expected by chance, see the chance column."
    return Picture((Panel(alt.layer(*layers), height=max(80, ROW * len(items))),), table, says, note)


@chart(
    "catalogue",
    audits=("recommender",),
    title="How the slots are spread over the catalogue",
    unless=_no_curve("lorenz", "nothing was shown"),
    place=3,
)
def catalogue(findings: Findings) -> Picture:
    """Share of all slots held by the items shown least; the further below the dashed line, the fewer items are shown."""
    held = findings.curves["lorenz"]
    population, share = list(held["population"]), list(held["share"])
    x = share_x("x", "items, from those shown least to those shown most")
    y = share_y("y", "share of all slots")
    tips = [
        alt.Tooltip("x:Q", title="bottom items", format=".4~%"),
        alt.Tooltip("y:Q", title="hold together", format=".4~%"),
    ]
    line = alt.Chart(records(x=population, y=share))
    layers = [
        alt.Chart(records(x=population, y=share, z=population))
        .mark_area(style="gap")
        .encode(x="x:Q", y="y:Q", y2="z:Q"),
        line.mark_line().encode(x=x, y=y, order="x:Q"),
        line.mark_point(opacity=0, size=60).encode(x=x, y=y, tooltip=tips),
        alt.Chart(records(x=[0, 1], y=[0, 1])).mark_line(style="reference").encode(x="x:Q", y="y:Q"),
    ]
    read = [_at(population, share, p) for p in READ_AT]
    table = {f"held by the bottom {100 * p:g}%": [percent(v)] for p, v in zip(READ_AT, read, strict=True)}
    items = findings.provenance.get("items")
    many = "the" if items is None else number(float(items))
    says = f"The half of {many} items that is shown least holds {percent(read[0])} of all slots."
    return Picture((Panel(alt.layer(*layers), height=SIDE, square=True),), table, says)


def _at(population: list[float], share: list[float], p: float) -> float:
    """The curve between its corners, as straight lines."""
    for i in range(1, len(population)):
        if population[i] >= p:
            width = population[i] - population[i - 1]
            part = (p - population[i - 1]) / width if width else 1.0
            return share[i - 1] + part * (share[i] - share[i - 1])
    return share[-1]
