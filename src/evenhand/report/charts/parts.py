"""Charts of parts of a total (sources, groups) and of bins of a quantity."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.findings import Findings, label, read_number
from evenhand.report.charts.drawing import Panel, Picture, chart, distinct, drawn_note, long_table, without_metric
from evenhand.report.charts.shapes import SHARE, Axis, axis_format, decades, ends, in_rows, joined, lines
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.phrases import metric_title, value_text
from evenhand.report.words.text import Row, in_words, number, percent, plural, slice_labels, word

Parts = dict[str, dict[str, Row]]
"""Rows of one slice by metric and group; no group is the empty text."""


def _by_slice(findings: Findings) -> dict[str, Parts]:
    slices: dict[str, Parts] = {}
    for where, row in zip(slice_labels(findings), findings.rows(), strict=True):
        group = "" if row["group"] is None else str(row["group"])
        slices.setdefault(where, {}).setdefault(str(row["metric"]), {})[group] = row
    return slices


def _values(rows: Mapping[str, Row]) -> dict[str, float]:
    """The finite estimates by group."""
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
        panels.append(
            _bars(
                findings,
                rows["contribution"],
                f"{lead}ontribution to the Gini index, {number(_total(rows, 'gini'))} in total",
            )
        )
        if "marginal" in rows:
            faint = "; faint: not significant" if any(_is_open(findings, r) for r in rows["marginal"].values()) else ""
            title = f"More of the source lowers (left) or raises (right) the index{faint}"
            panels.append(_bars(findings, rows["marginal"], title))
    note = drawn_note(min(len(slices), SIZES.panels), len(slices), "slices")
    return Picture(tuple(panels), long_table(findings), _sources_in_words(findings, slices), note)


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


def _sources_in_words(findings: Findings, slices: dict[str, Parts], most: int = 3) -> str:
    """The contributions to the index, and the last claim of the slice: whether one source stands out."""
    where, rows = next(iter(slices.items()))
    contributions = _values(rows["contribution"])
    if not contributions:
        return "No contribution is defined."
    named = sorted(contributions, key=lambda n: -contributions[n])[:most]
    listed = ", ".join(f"{number(contributions[name])} from {name}" for name in named)
    total = _total(rows, "gini")
    of = f" of {number(total)}" if math.isfinite(total) else ""
    text = f"{f'For {where}, of' if where else 'Of'} the Gini index{of}, {listed}"
    marginals = rows.get("marginal", {}).values()
    texts = [claim.text for claim in findings.claims if any(claim.is_about(r) for r in marginals)]
    return f"{text}. {texts[-1]}." if texts else f"{text}."


MEANING = {"within": "within groups", "between": "between groups", "overlap": "from overlapping ranges"}
"""The parts of a total, and where they come from."""


@chart("decomposition", title="Within groups, or between them", unless=without_metric("total"))
def decomposition(findings: Findings) -> Picture:
    """The parts of the total as one bar per slice, and each group's share of units and of the amount."""
    slices = _by_slice(findings)
    shown = dict(list(slices.items())[: SIZES.rows])
    panels = [_parts_panel(shown)]
    if {"share", "population_share"} <= set(findings.metrics()):
        panels += [_share_panel(parts, where, findings) for where, parts in list(shown.items())[: SIZES.panels]]
    where, first = next(iter(slices.items()))
    total, sizes = _total(first, "total"), _sizes(first)
    text = "The total is undefined."
    if sizes and not math.isnan(total):
        parts = ", ".join(f"{number(v)} is {MEANING[part]}" for part, v in sizes.items())
        text = f"{f'For {where}, of' if where else 'Of'} the total of {number(total)}, {parts}."
    note = drawn_note(min(len(slices), SIZES.panels), len(slices), "slices")
    return Picture(tuple(panels), long_table(findings), text, note)


def _sizes(parts: Parts) -> dict[str, float]:
    return {part: size for part in MEANING if math.isfinite(size := _total(parts, part))}


def _parts_panel(slices: dict[str, Parts]) -> Panel:
    """Stacked where the parts add up to the total; side by side where they do not (Atkinson multiplies)."""
    totals = {where: _total(parts, "total") for where, parts in slices.items()}
    adds_up = all(
        math.isclose(sum(_sizes(slices[where]).values()), total, rel_tol=1e-6, abs_tol=1e-6)
        for where, total in totals.items()
        if math.isfinite(total)
    )
    rows: list[dict[str, Any]] = []
    for where, total in totals.items():
        start = 0.0
        for part, size in _sizes(slices[where]).items():
            share = f"{size / total:.0%}" if size > 0.1 * total > 0 else ""
            size_text = number(size) + (f" ({percent(size / total)})" if adds_up and total > 0 else "")
            place = {"low": start, "high": start + size, "inside": share} if adds_up else {"x": size}
            rows.append({"label": where or "total", "series": part, "size_text": size_text, **place})
            start += size
    series = [part for part in MEANING if any(row["series"] == part for row in rows)]
    shared: Any = {"x": Axis(format=".3~g", ticks=6), "tips": {"series": "part", "size_text": "size"}, "series": series}
    if adds_up:
        return in_rows(rows, "span", title="The parts add up to the total", each=34, least=64, **shared)
    return in_rows(rows, "bar", lanes=True, title="The parts multiply, they do not add up", least=90, **shared)


def _share_panel(parts: Parts, where: str, findings: Findings) -> Panel:
    """Share of the units and share of the amount, joined by a line: the gap is what a group gets beyond its size."""
    has, gets = _values(parts["population_share"]), _values(parts["share"])
    shown = ends(sorted(parts["share"], key=lambda name: -(gets.get(name, 0.0) - has.get(name, gets.get(name, 0.0)))))
    return joined(
        shown, (f"of {plural(word(findings, 'unit'))}", [has.get(name, math.nan) for name in shown]),
        (f"of {word(findings, 'amount')}", [gets.get(name, math.nan) for name in shown]), x=Axis(format=SHARE),
        tips={"label": "group", "series": "share", "value_text": " "},
        title=f"{where}: each group's share" if where else "Each group's share",
    )  # fmt: skip


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
    """The first slice column with at least three bins, or nothing."""
    bins = ((name, {x for x in _places(findings, name) if not math.isnan(x)}) for name in findings.slices)
    return next((name for name, places in bins if len(places) >= 3), "")


@chart(
    "bins", title="By bin",
    unless=lambda findings: "" if _binned_slice(findings) else "no slice column has three bins or more",
)  # fmt: skip
def bins(findings: Findings) -> Picture:
    """Each metric by bin with its interval, and how many units each bin has (figures 5 and 7).

    Bins are a slice column `b` with its edges in `b_low` and `b_high`, or one whose labels are intervals.
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
    title = metric_title(metrics[0])
    defined = [r for r in rows if r["metric"] == metrics[0] and math.isfinite(r["y"])]
    text = f"{title} is undefined in every bin of {name}."
    if defined:
        first, last = (f"{r['value_text']} for {name} {in_words(r['label'])}" for r in (defined[0], defined[-1]))
        text = f"{title} goes from {first} to {last}."
    return Picture(tuple(panels), long_table(findings), text)


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
