"""Metrics against metrics, systems under other choices, groups against groups: tables of squares, and places that move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from evenhand.findings import Findings, label
from evenhand.present.drawing import (
    MOST_ROWS,
    Panel,
    Picture,
    chart,
    distinct,
    ends,
    metric_title,
    records,
    series_colour,
    tooltip,
    without_curve,
)
from evenhand.present.text import number, percent

SQUARE = 46
ROW = 24
MOST_PANELS = 6
ROOM = 32
"""Letters that column labels may have in all and still stand side by side."""


def _squares(
    labels: Sequence[str], against: Sequence[str], strength: Sequence[float], series: Sequence[str], texts: Sequence[str],
    names: Sequence[str], titles: tuple[str, str, str],
) -> Any:  # fmt: skip
    """Squares in one of two colours, the stronger the more opaque, with their number on them."""
    rows = distinct(labels)
    columns = sorted(distinct(against), key=lambda c: rows.index(c) if c in rows else len(rows))  # one diagonal
    data = records(label=labels, column=against, strength=strength, series=series, value_text=texts)
    slant = -35 if sum(map(len, map(str, columns))) > ROOM else 0
    x = alt.X(
        "column:N", sort=columns, title=titles[1], axis=alt.Axis(labelAngle=slant, labelLimit=160, labelOverlap=False)
    )
    y = alt.Y("label:N", sort=rows, title=titles[0], axis=alt.Axis(labelLimit=170))
    shade = alt.Opacity("strength:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 0.75]), legend=None)
    tips = [alt.Tooltip("column:N", title=titles[1]), *tooltip(label=titles[0], value_text=titles[2])]
    base = alt.Chart(data).encode(x=x, y=y, tooltip=tips)
    return alt.layer(
        base.mark_rect().encode(color=series_colour(names), opacity=shade),
        base.mark_text(style="value").encode(text="value_text:N"),
    )


@chart("agreement", audits=("agreement",), title="Which metrics order the systems alike")
def agreement(findings: Findings) -> Picture:
    """Kendall's tau-c of every two metrics over the systems: the same order (1), no relation (0), the other way round (-1)."""
    rows = list(findings.rows())
    experiments = distinct(findings.slice_label(r) for r in rows)
    panels = []
    for where in experiments[:MOST_PANELS]:
        own = [r for r in rows if findings.slice_label(r) == where]
        taus = [_number(r["tau_c"]) for r in own]
        names = distinct(r["metric"] for r in own)
        squares = _squares(
            [r["metric"] for r in own], [r["other"] for r in own], [0.0 if math.isnan(t) else abs(t) for t in taus],
            ["opposed" if t < 0 else "alike" for t in taus], ["" if math.isnan(t) else f"{t:.2f}" for t in taus],
            ["alike", "opposed"], ("metric", "other metric", "tau-c"),
        )  # fmt: skip
        panels.append(Panel(squares, where, height=max(120, SQUARE * len(names))))
    table = {name: [_shown(r[name]) for r in rows] for name in findings.columns if name != "note"}
    return Picture(tuple(panels), table, _agreement_in_words(rows), _few(rows, len(experiments)))


def _agreement_in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    known = [r for r in rows if not math.isnan(_number(r["tau_c"]))]
    if not known:
        return "No two metrics can be compared: too few systems, or values that never vary."
    best, worst = (pick(known, key=lambda r: _number(r["tau_c"])) for pick in (max, min))
    opposed = sum(_number(r["tau_c"]) < 0 for r in known)
    said = f"{best['metric']} and {best['other']} order the systems most alike (tau-c {number(_number(best['tau_c']))})"
    return (
        f"{said}, {worst['metric']} and {worst['other']} least ({number(_number(worst['tau_c']))}); "
        f"{percent(opposed / len(known))} of the pairs of metrics are opposed."
    )


def _few(rows: Sequence[Mapping[str, Any]], experiments: int) -> str:
    fewest = min((int(r["systems"]) for r in rows), default=0)
    least = (
        f" With {fewest} systems p cannot fall below {number(2 / math.factorial(fewest))}." if 2 <= fewest <= 7 else ""
    )
    more = f" {experiments - MOST_PANELS} more are in the table." if experiments > MOST_PANELS else ""
    return f"The stronger the colour, the more (or the less) alike.{least}{more}"


@chart(
    "stability",
    audits=("sensitivity",),
    title="Where each system stands under other choices",
    unless=without_curve("stability"),
)
def stability(findings: Findings) -> Picture:
    """Best, mean and worst place of every system over all combinations of choices; 1 is the fairest."""
    held = findings.curves["stability"]
    own = ("metric", "system", "best", "worst", "mean", "first", "settings")
    others = [name for name in held if name not in own]
    rows = [dict(zip(held, row, strict=True)) for row in zip(*held.values(), strict=True)]
    titles = [", ".join([*(label(r[o]) for o in others), metric_title(r["metric"])]) for r in rows]
    panels = [
        _ranges([r for r, t in zip(rows, titles, strict=True) if t == title], title)
        for title in distinct(titles)[:MOST_PANELS]
    ]
    moved = sum(_number(r["best"]) != _number(r["worst"]) for r in rows if not math.isnan(_number(r["best"])))
    says = f"{moved} of {len(rows)} places of a system change with the choices; {len(rows) - moved} stay what they are."
    table = {name: [_shown(v) for v in held[name]] for name in held}
    note = "A line from the best to the worst place, a dot at the mean."
    return Picture(tuple(panels), table, says, note)


def _ranges(rows: Sequence[Mapping[str, Any]], title: str) -> Panel:
    ordered = sorted(rows, key=lambda r: (_number(r["mean"]), str(r["system"])))
    shown = ends([str(r["system"]) for r in ordered], MOST_ROWS)
    kept = [r for r in ordered if str(r["system"]) in shown]
    data = records(
        label=[str(r["system"]) for r in kept], x=[_number(r["mean"]) for r in kept], low=[_number(r["best"]) for r in kept],
        high=[_number(r["worst"]) for r in kept],
        value_text=[f"first in {r['first']} of {r['settings']}" for r in kept],
    )  # fmt: skip
    y = alt.Y("label:N", sort=shown, title="system", axis=alt.Axis(labelLimit=170))
    scale = alt.Scale(domain=[0.5, len(rows) + 0.5], nice=False)
    x = alt.X("x:Q", title="place, 1 is the fairest", scale=scale, axis=alt.Axis(tickMinStep=1, format="d"))
    tips = tooltip(label="system", x="mean place", low="best", high="worst", value_text="came")
    base = alt.Chart(data)
    layers = alt.layer(
        base.mark_rule(style="range").encode(y=y, x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_point(filled=True).encode(y=y, x=x, tooltip=tips),
    )
    return Panel(layers, title, height=max(90, ROW * len(shown)))


def _no_table(findings: Findings) -> str:
    return "" if any(">" in str(g) for g in findings.columns["group"]) else "it holds no accuracy by groups"


@chart("pairs", audits=("pairwise",), title="How often the more relevant item stands above", unless=_no_table)
def pairs(findings: Findings) -> Picture:
    """Share of pairs in the right order, by the group of the more relevant item and the group of the other one."""
    rows = [r for r in findings.rows() if r["group"] is not None and ">" in str(r["group"])]
    places = distinct(findings.slice_label(r) for r in rows)
    panels = []
    for where in places[:MOST_PANELS]:
        own = [r for r in rows if findings.slice_label(r) == where]
        above, below = zip(*(str(r["group"]).rsplit(">", 1) for r in own), strict=True)
        values = [_number(r["estimate"]) for r in own]
        squares = _squares(
            above, [b if b != "*" else "anyone" for b in below], [0.0 if math.isnan(v) else min(1.0, abs(2 * v - 1)) for v in values],
            ["below chance" if v < 0.5 else "right order" for v in values],
            ["none" if math.isnan(v) else percent(v) for v in values], ["right order", "below chance"],
            ("more relevant item", "less relevant item", "in the right order"),
        )  # fmt: skip
        panels.append(Panel(squares, where.replace("=", " "), height=max(110, SQUARE * len(set(above)))))
    known = [r for r in rows if not math.isnan(_number(r["estimate"]))]
    says = "There is no pair of different relevance."
    if known:
        worst = min(known, key=lambda r: _number(r["estimate"]))
        lead = ", ".join(label(worst[name]) for name in findings.slices)
        says = (
            f"{f'In {lead}, ' if lead else ''}{worst['group']} has the smallest share of pairs in the right order, "
            f"{percent(worst['estimate'])}."
        )
    names = [*findings.slices, "metric", "group", "estimate", "low", "high"]
    table = {name: [_shown(r[name]) for r in rows] for name in names}
    note = "Half of the pairs in the right order is what random scores give: the stronger the colour, the further from that."
    return Picture(tuple(panels), table, says, note)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _shown(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
