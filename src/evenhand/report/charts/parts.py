"""Pictures of rows that belong together: parts of a total, bins of a quantity, systems, pairs of metrics or of groups."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.findings import Findings, label
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import (
    Panel,
    Picture,
    chart,
    distinct,
    long_table,
    slice_labels,
    without_metric,
    word,
)
from evenhand.report.charts.shapes import (
    MOST_ROWS,
    SHARE,
    Axis,
    axis_format,
    decades,
    ends,
    in_rows,
    joined,
    lines,
)
from evenhand.report.words.phrases import metric_title, value_text
from evenhand.report.words.text import in_words, number, percent, plural

Row = Mapping[str, Any]
Slices = dict[str, dict[str, dict[str, Row]]]
"""Rows by slice, metric and group; no group is the empty text."""

MOST_PANELS = 6
MOST_METRICS = 12
ADDS_UP = 1e-6


def _by_slice(findings: Findings) -> Slices:
    slices: Slices = {}
    for where, row in zip(slice_labels(findings), findings.rows(), strict=True):
        group = "" if row["group"] is None else str(row["group"])
        slices.setdefault(where, {}).setdefault(str(row["metric"]), {})[group] = row
    return slices


def _value(row: Row | None) -> float:
    return math.nan if row is None else read_number(row["estimate"])


def _or_zero(x: float) -> float:
    return 0.0 if math.isnan(x) else x


def _more_slices(slices: Mapping[str, Any]) -> str:
    rest = len(slices) - MOST_PANELS
    return f"The first {MOST_PANELS} of {len(slices):,} slices are drawn; the table has all." if rest > 0 else ""


@chart("sources", title="Which source makes the skew", unless=without_metric("contribution"))
def sources(findings: Findings) -> Picture:
    """Contributions that add up to the Gini index, and what a little more of each source would do."""
    slices = _by_slice(findings)
    panels: list[Panel] = []
    for where in list(slices)[:MOST_PANELS]:
        rows = slices[where]
        total = _value(rows.get("gini", {}).get(""))
        lead = f"{where}: c" if where else "C"
        panels.append(_bars(rows["contribution"], f"{lead}ontribution to the Gini index, {number(total)} in all"))
        if "marginal" in rows:
            faint = "; faint: cannot be told" if any(map(_open, rows["marginal"].values())) else ""
            panels.append(
                _bars(rows["marginal"], f"If the source grew a little: more equal (left) or less (right){faint}")
            )
    return Picture(tuple(panels), long_table(findings), _sources_in_words(slices), _more_slices(slices))


def _bars(rows: dict[str, Row], title: str) -> Panel:
    """A bar per group with its interval; negative ones in the second colour, faint where the interval leaves the sign open."""
    shown = ends(sorted(rows, key=lambda name: -_or_zero(_value(rows[name]))))
    values = {name: _value(rows[name]) for name in shown}
    bars = [
        {
            "label": name, "x": x, "low": rows[name]["low"], "high": rows[name]["high"], "text": number(x),
            "series": "raises" if _or_zero(x) >= 0 else "lowers", "faint": _open(rows[name]),
        }
        for name, x in values.items()
    ]  # fmt: skip
    tips = {"label": "source", "text": "value"}
    series = ["raises", "lowers"]
    axis = Axis(format=".3~g")
    return in_rows(bars, "bar", x=axis, tips=tips, series=series, legend=False, zero=True, title=title, each=26)


def _open(row: Row) -> bool:
    """Whether the interval leaves open which way a source moves the index."""
    return bool(row["low"] <= 0 <= row["high"] and row["low"] < row["high"])


def _sources_in_words(slices: Slices) -> str:
    where, rows = next(iter(slices.items()))
    contributions = {n: _value(r) for n, r in rows["contribution"].items() if math.isfinite(_value(r))}
    if not contributions:
        return "No contribution is defined."
    largest = max(contributions, key=lambda n: contributions[n])
    lead = f"In {where}, " if where else ""
    text = f"{lead}{largest} contributes most to the Gini index: {number(contributions[largest])}"
    total = _value(rows.get("gini", {}).get(""))
    text += f" of {number(total)}" if math.isfinite(total) else ""
    growing = {n: _value(r) for n, r in rows.get("marginal", {}).items() if math.isfinite(_value(r)) and not _open(r)}
    worst, best = (choose(growing, key=lambda n: growing[n], default="") for choose in (max, min))
    if worst and growing[worst] > 0:
        text += f"; a little more of {worst} would raise it most"
    if best and growing[best] < 0:
        text += f"; a little more of {best} would lower it most"
    return text + "."


MEANING = {
    "within": "lies inside the groups",
    "between": "between the groups' means",
    "overlap": "comes from groups whose ranges interleave",
}
"""The parts of a total, and where they come from."""


@chart("decomposition", title="Within groups, or between them", unless=without_metric("total"))
def decomposition(findings: Findings) -> Picture:
    """The parts of the total as one bar per slice, and each group's share of units beside its share of the amount."""
    slices = _by_slice(findings)
    shown = list(slices)[:MOST_ROWS]
    panels = [_parts_panel({where: slices[where] for where in shown})]
    if {"share", "population_share"} <= set(findings.metrics()):
        panels += [_share_panel(slices[where], where, findings) for where in shown[:MOST_PANELS]]
    return Picture(tuple(panels), long_table(findings), _parts_in_words(slices), _more_slices(slices))


def _parts(metrics: Mapping[str, Mapping[str, Row]]) -> dict[str, float]:
    sizes = {part: _value(metrics.get(part, {}).get("")) for part in MEANING}
    return {part: size for part, size in sizes.items() if math.isfinite(size)}


def _parts_panel(slices: Slices) -> Panel:
    """Stacked where the parts add up to the total; side by side where they do not (Atkinson multiplies)."""
    totals = {where: _value(metrics.get("total", {}).get("")) for where, metrics in slices.items()}
    adding = all(
        abs(sum(_parts(slices[where]).values()) - total) <= ADDS_UP * max(1.0, abs(total))
        for where, total in totals.items()
        if math.isfinite(total)
    )
    rows = [
        row for where, total in totals.items() for row in _stack(where, _parts(slices[where]), total, adding=adding)
    ]
    series = [part for part in MEANING if any(row["series"] == part for row in rows)]
    named: Any = {"x": Axis(format=".3~g", ticks=6), "tips": {"series": "part", "size_text": "size"}, "series": series}
    if adding:
        return in_rows(rows, "span", title="The parts add up to the total", each=34, least=64, **named)
    return in_rows(rows, "bar", lanes=True, title="The parts multiply, they do not add up", least=90, **named)


def _stack(where: str, parts: Mapping[str, float], total: float, *, adding: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    start = 0.0
    for part, size in parts.items():
        share = f"{size / total:.0%}" if size > 0.1 * total > 0 else ""
        size_text = number(size) + (f" ({percent(size / total)})" if adding and total > 0 else "")
        ends = {"low": start, "high": start + size, "inside": share} if adding else {"x": size}
        rows.append({"label": where or "total", "series": part, "size_text": size_text, **ends})
        start += size
    return rows


def _share_panel(rows: dict[str, dict[str, Row]], where: str, findings: Findings) -> Panel:
    """Share of the units and share of the amount, joined by a line: the gap is what a group gets beyond its size."""
    has, gets = ({name: _value(row) for name, row in rows[m].items()} for m in ("population_share", "share"))
    shown = ends(sorted(gets, key=lambda name: -_or_zero(gets[name] - has.get(name, math.nan))))
    first, second = [has.get(name, math.nan) for name in shown], [gets[name] for name in shown]
    names = (f"of {plural(word(findings, 'unit'))}", f"of {word(findings, 'amount').replace('_', ' ')}")
    return joined(
        shown, first, second, names, [percent(v) for v in (*first, *second)], x=Axis(format=SHARE),
        tips={"label": "group", "series": "share", "value_text": " "},
        title=f"{where}: each group's share" if where else "Each group's share",
    )  # fmt: skip


def _parts_in_words(slices: Slices) -> str:
    where, rows = next(iter(slices.items()))
    total, sizes = _value(rows["total"].get("")), _parts(rows)
    if not sizes or math.isnan(total):
        return "The total is undefined."
    lead = f"In {where}, of" if where else "Of"
    parts = ", ".join(f"{number(v)} {MEANING[part]}" for part, v in sizes.items())
    return f"{lead} the total of {number(total)}, {parts}."


FEWEST_BINS = 3
WIDE = 50
"""Bins that spread over more than this factor are drawn on a log axis."""

_NUMBER = r"[-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_INTERVAL = re.compile(rf"\s*[\[(]?\s*({_NUMBER})\s*(?:,|to|\.\.|–)\s*({_NUMBER}|inf)\s*[\])]?\s*")


def edges(value: Any) -> tuple[float, float] | None:
    """The ends in a label such as "[10, 100)"; None for other labels.

    >>> edges("[10, 1,000)"), edges("likes")
    ((10.0, 1000.0), None)
    """
    match = _INTERVAL.fullmatch(str(value))
    return (float(match[1].replace(",", "")), float(match[2].replace(",", ""))) if match else None


def middle(low: float, high: float) -> float:
    """Where a bin stands on an axis: the geometric middle, since bins that matter are log-spaced."""
    if math.isinf(high):
        return low
    return math.sqrt(low * high) if low > 0 else (low + high) / 2


def _places(findings: Findings, name: str) -> list[float]:
    """Where on the axis each row's bin stands, by the columns of edges or else by its label; NaN for none."""
    columns = findings.columns
    if f"{name}_low" in columns and f"{name}_high" in columns:
        pairs = zip(columns[f"{name}_low"], columns[f"{name}_high"], strict=True)
        return [math.nan if None in pair else middle(float(pair[0]), float(pair[1])) for pair in pairs]
    return [middle(*limits) if (limits := edges(value)) else math.nan for value in columns[name]]


def _binned_slice(findings: Findings) -> str:
    """The first slice column that holds bins, or nothing."""
    for name in findings.slices:
        if len({x for x in _places(findings, name) if not math.isnan(x)}) >= FEWEST_BINS:
            return name
    return ""


@chart(
    "bins", title="How it changes along the bins",
    unless=lambda findings: "" if _binned_slice(findings) else f"no slice column holds {FEWEST_BINS} bins or more",
)  # fmt: skip
def bins(findings: Findings) -> Picture:
    """Each metric along the bins with its interval, and how many units each bin holds (figures 5 and 7).

    Bins are a slice column `b` with its edges in `b_low` and `b_high`, or one whose labels are intervals.
    """
    name = _binned_slice(findings)
    rows = _in_order(findings, name)
    series = distinct(row["series"] for row in rows)
    metrics = findings.metrics()
    panels = [_along([r for r in rows if r["metric"] == m], m, name, series) for m in metrics]
    panels.append(_units([r for r in rows if r["metric"] == metrics[0]], name, word(findings, "unit"), series))
    return Picture(tuple(panels), long_table(findings), _ends_in_words(rows, metrics[0], name))


def _in_order(findings: Findings, name: str) -> list[dict[str, Any]]:
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
    return sorted(rows, key=lambda row: row["x"])


def _wide_axis(title: str, values: Sequence[float], metric: str = "") -> Axis:
    """A log axis where values spread over orders of magnitude (zeros stand at its foot), a plain one elsewhere."""
    finite = [v for v in values if math.isfinite(v)]
    positive = [v for v in finite if v > 0]
    form = axis_format(finite, metric)
    if not positive or min(finite) < 0 or max(positive) / min(positive) <= WIDE:
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
    """Figure 7: how many units each bin holds; the largest slice stands for all where bins are shared."""
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


def _ends_in_words(rows: Sequence[Row], metric: str, name: str) -> str:
    defined = [r for r in rows if r["metric"] == metric and math.isfinite(r["y"])]
    if not defined:
        return f"{metric_title(metric)} is undefined in every bin of {name}."
    first, last = defined[0], defined[-1]
    return (
        f"{metric_title(metric)} goes from {value_text(first['y'], metric)} where {name} is {in_words(first['label'])} "
        f"to {value_text(last['y'], metric)} where it is {in_words(last['label'])}."
    )
