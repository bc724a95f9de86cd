"""What a total is made of: the sources that feed it, and what lies within and between groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from evenhand.findings import Findings
from evenhand.present.drawing import (
    MOST_ROWS,
    SHARE,
    Panel,
    Picture,
    chart,
    distinct,
    ends,
    label_axis,
    long_table,
    records,
    series_colour,
    slice_labels,
    word,
    wrapped,
)
from evenhand.present.text import number, percent, plural

Row = Mapping[str, Any]
Slices = dict[str, dict[str, dict[str, Row]]]
"""Rows by slice, metric and group; no group is the empty text."""

BAR = 26
MOST_SLICES = 6
ADDS_UP = 1e-6


def _by_slice(findings: Findings) -> Slices:
    found: Slices = {}
    for where, row in zip(slice_labels(findings), findings.rows(), strict=True):
        group = "" if row["group"] is None else str(row["group"])
        found.setdefault(where, {}).setdefault(str(row["metric"]), {})[group] = row
    return found


def _value(row: Mapping[str, Any] | None, name: str = "estimate") -> float:
    return math.nan if row is None or row[name] is None else float(row[name])


def _lacks(*metrics: str) -> Any:
    def problem(findings: Findings) -> str:
        missing = [m for m in metrics if m not in findings.metrics()]
        return f"it holds no {missing[0]}" if missing else ""

    return problem


@chart("sources", audits=("sources",), title="Which source makes the skew", unless=_lacks("contribution"))
def sources(findings: Findings) -> Picture:
    """Contributions that add up to the Gini index, and what a little more of each source would do."""
    slices = _by_slice(findings)
    panels: list[Panel] = []
    for where in list(slices)[:MOST_SLICES]:
        rows = slices[where]
        total = _value(rows.get("gini", {}).get(""))
        lead = f"{where}: c" if where else "C"
        panels.append(_bars(rows["contribution"], f"{lead}ontribution to the Gini index, {number(total)} in all"))
        if "marginal" in rows:
            panels.append(_bars(rows["marginal"], "If the source grew a little: more equal (left) or less (right)"))
    return Picture(tuple(panels), long_table(findings), _sources_in_words(slices), _more_slices(slices))


def _bars(rows: dict[str, Row], title: str) -> Panel:
    """A bar per group with its interval; negative ones in the second colour."""
    names = sorted(rows, key=lambda n: -_or_zero(_value(rows[n])))
    shown = ends(names)
    values = [_value(rows[n]) for n in shown]
    data = records(
        label=[wrapped(n) for n in shown],
        x=values,
        low=[_value(rows[n], "low") for n in shown],
        high=[_value(rows[n], "high") for n in shown],
        series=["raises" if _or_zero(v) >= 0 else "lowers" for v in values],
        text=[number(v) for v in values],
    )
    y = alt.Y("label:N", sort=[wrapped(n) for n in shown], title=None, axis=label_axis())
    base = alt.Chart(data).encode(y=y)
    x = alt.X("x:Q", title=None, axis=alt.Axis(format=".3~g", tickCount=5))
    layers = [
        base.mark_bar(height=14).encode(
            x=x, color=series_colour(["raises", "lowers"], legend=False), tooltip=["label:N", "text:N"]
        ),
        base.mark_rule(style="whisker").encode(x="low:Q", x2="high:Q"),
        alt.Chart(records(zero=[0])).mark_rule(style="zero").encode(x="zero:Q"),
        base.mark_text(style="value", align="left", dx=10).encode(x=alt.value("width"), text="text:N"),
    ]
    return Panel(alt.layer(*layers), title, height=max(60, BAR * len(shown)))


def _or_zero(x: float) -> float:
    return 0.0 if math.isnan(x) else x


def _sources_in_words(slices: Slices) -> str:
    where, rows = next(iter(slices.items()))
    known = {n: _value(r) for n, r in rows["contribution"].items() if math.isfinite(_value(r))}
    if not known:
        return "No contribution is defined."
    largest = max(known, key=lambda n: known[n])
    lead = f"In {where}, " if where else ""
    said = f"{lead}{largest} contributes most to the Gini index: {number(known[largest])}"
    total = _value(rows.get("gini", {}).get(""))
    said += f" of {number(total)}" if math.isfinite(total) else ""
    growing = {n: _value(r) for n, r in rows.get("marginal", {}).items() if math.isfinite(_value(r))}
    worst, best = (choose(growing, key=lambda n: growing[n], default="") for choose in (max, min))
    if worst and growing[worst] > 0:
        said += f"; a little more of {worst} would raise it most"
    if best and growing[best] < 0:
        said += f"; a little more of {best} would lower it most"
    return said + "."


def _more_slices(slices: Mapping[str, Any]) -> str:
    rest = len(slices) - MOST_SLICES
    return f"The first {MOST_SLICES} of {len(slices):,} slices are drawn; the table has all." if rest > 0 else ""


PARTS = ("within", "between", "overlap")
MEANING = {
    "within": "lies inside the groups",
    "between": "between the groups' means",
    "overlap": "comes from groups whose ranges interleave",
}


@chart("decomposition", audits=("decompose",), title="Within groups, or between them", unless=_lacks("total"))
def decomposition(findings: Findings) -> Picture:
    """The parts of the total as one bar per slice, and each group's share of units beside its share of the amount."""
    slices = _by_slice(findings)
    shown = list(slices)[:MOST_ROWS]
    panels = [_parts_panel({w: slices[w] for w in shown})]
    if {"share", "population_share"} <= set(findings.metrics()):
        panels += [_share_panel(slices[where], where, findings) for where in shown[:MOST_SLICES]]
    return Picture(tuple(panels), long_table(findings), _parts_in_words(slices), _more_slices(slices))


def _parts_panel(slices: Slices) -> Panel:
    """Stacked where the parts add up to the total; side by side where they do not (Atkinson multiplies)."""
    rows, adding = [], True
    for where, metrics in slices.items():
        total = _value(metrics.get("total", {}).get(""))
        parts = {
            p: _value(metrics[p].get("")) for p in PARTS if p in metrics and math.isfinite(_value(metrics[p].get("")))
        }
        if math.isfinite(total):
            adding = adding and abs(sum(parts.values()) - total) <= ADDS_UP * max(1.0, abs(total))
        start = 0.0
        for part, size in parts.items():
            rows.append((where or "total", part, size, start, start + size, total))
            start += size
    present = [p for p in PARTS if any(r[1] == p for r in rows)]
    text = [number(r[2]) + (f" ({percent(r[2] / r[5])})" if adding and r[5] > 0 else "") for r in rows]
    part_of = [f"{r[2] / r[5]:.0%}" if r[5] > 0 else "" for r in rows]
    fields = ("label", "series", "size", "low", "high", "total")
    data = records(**{name: [r[i] for r in rows] for i, name in enumerate(fields)}, text=text, inside=part_of)
    labels = distinct(r[0] for r in rows)
    base = alt.Chart(data).encode(y=alt.Y("label:N", sort=labels, title=None))
    colour = series_colour(present)
    tips = [alt.Tooltip("series:N", title="part"), alt.Tooltip("text:N", title="size")]
    axis = alt.Axis(format=".3~g", tickCount=6)
    if adding:
        bars = base.mark_bar(height=22).encode(
            x=alt.X("low:Q", title=None, axis=axis), x2="high:Q", color=colour, tooltip=tips
        )
        said = base.transform_filter("datum.size > 0.1 * datum.total").mark_text(style="inside", align="left", dx=8)
        bars = alt.layer(bars, said.encode(x="low:Q", text="inside:N"))
        return Panel(bars, "The parts add up to the total", height=max(64, 34 * len(labels)))
    lanes = base.encode(yOffset=alt.YOffset("series:N", sort=present))
    bars = lanes.mark_bar().encode(x=alt.X("size:Q", title=None, axis=axis), color=colour, tooltip=tips)
    return Panel(alt.layer(bars), "The parts multiply, they do not add up", height=max(90, 60 * len(labels)))


def _share_panel(rows: dict[str, dict[str, Row]], where: str, findings: Findings) -> Panel:
    """Share of the units and share of the amount, joined by a line: the gap is what a group gets beyond its size."""
    names = sorted(
        rows["share"], key=lambda n: -_or_zero(_value(rows["share"][n]) - _value(rows["population_share"].get(n)))
    )
    shown = ends(names)
    of_units, of_amount = f"of {plural(word(findings, 'unit'))}", f"of {word(findings, 'amount').replace('_', ' ')}"
    has, gets = ([_value(rows[m].get(n)) for n in shown] for m in ("population_share", "share"))
    joined = alt.Chart(records(label=shown, low=has, high=gets)).encode(y=alt.Y("label:N", sort=shown, title=None))
    dots = alt.Chart(records(label=shown * 2, series=[of_units] * len(shown) + [of_amount] * len(shown), x=has + gets))
    x = alt.X("x:Q", title=None, axis=alt.Axis(format=SHARE, tickCount=5))
    marks = dots.mark_point().encode(
        x=x, y=alt.Y("label:N", sort=shown, title=None), color=series_colour([of_units, of_amount]),
        tooltip=[alt.Tooltip("label:N", title="group"), alt.Tooltip("series:N", title="share"), alt.Tooltip("x:Q", format=".3~p")],
    )  # fmt: skip
    lead = f"{where}: e" if where else "E"
    layers = [joined.mark_rule(style="link").encode(x="low:Q", x2="high:Q"), marks]
    return Panel(alt.layer(*layers), f"{lead}ach group's share", height=max(64, BAR * len(shown)))


def _parts_in_words(slices: Slices) -> str:
    where, rows = next(iter(slices.items()))
    total = _value(rows["total"].get(""))
    known = [(p, _value(rows[p].get(""))) for p in PARTS if p in rows and math.isfinite(_value(rows[p].get("")))]
    if not known or math.isnan(total):
        return "The total is undefined."
    lead = f"In {where}, of" if where else "Of"
    return f"{lead} the total of {number(total)}, " + ", ".join(f"{number(v)} {MEANING[p]}" for p, v in known) + "."
