"""Charts of rankings and lists: shares by rank, requests, exposure by group, systems by metrics, pairs, what evenness costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from evenhand.cards import REGISTRY, parse_metric
from evenhand.findings import Findings, label, read_number
from evenhand.metrics.agreement import fairness
from evenhand.report.charts.drawing import (
    Panel,
    Picture,
    chart,
    columns_of,
    distinct,
    drawable,
    drawn_note,
    records,
    split,
    without_curve,
    without_metric,
)
from evenhand.report.charts.shapes import SHARE, Axis, ends, in_rows, joined, line_and_points, lines, shares, squares
from evenhand.report.charts.theme import SIZES
from evenhand.report.table import ARROWS, BY_CHANCE
from evenhand.report.words.phrases import metric_title, value_text
from evenhand.report.words.rankings import REQUESTS, UNEVEN, evenness_metric
from evenhand.report.words.text import (
    Row,
    confidence_level,
    holders,
    is_finite,
    number,
    percent,
    points,
    short_percent,
    slice_labels,
    word,
)

Point = dict[str, Any]


@chart("prefix", title="Shares by rank, and the range of random order", unless=without_curve("prefix"))
def prefix(findings: Findings) -> Picture:
    """Share of each label among the top i, its share of the whole list (dashed), and the band of random orders."""
    curve = points(findings, "prefix")
    slices, groups = distinct(p["where"] for p in curve), distinct(p["group"] for p in curve)
    drawn = groups[:1] if len(groups) == 2 else groups[: SIZES.series]
    parts = [(where, [g]) for where in slices for g in drawn]
    if len(parts) > SIZES.wide_panels:  # no room for a panel each: a line for each label, without bands
        parts = [(where, drawn) for where in slices]
    shown = parts[: SIZES.wide_panels]
    panels = [_share_panel(curve, where, part, drawn, findings) for where, part in shown]
    level = short_percent(confidence_level(findings))
    band = f"Band: {level} of random orders of the same items, rank by rank." if len(parts[0][1]) == 1 else ""
    notes = [band, "Dashed: share of the whole list.", drawn_note(len(shown), len(parts), "slices")]
    return Picture(tuple(panels), _share_table(curve), " ".join(filter(None, notes)))


def _share_panel(
    curve: Sequence[Point], where: str, groups: Sequence[str], drawn: Sequence[str], findings: Findings
) -> Panel:
    is_single = len(groups) == 1
    rows = [
        {
            "series": p["group"], "x": p["rank"], "y": p["share"], "level": p["overall"],
            "share_text": percent(p["share"]), "overall_text": percent(p["overall"]),
            **({"low": p["low"], "high": p["high"]} if is_single else {}),
        }
        for p in curve
        if p["where"] == where and p["group"] in groups
    ]  # fmt: skip
    deepest = max((row["x"] for row in rows), default=1)
    ticks = [t for t in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000) if t <= deepest]
    scale = {"type": "log", "base": 2, "nice": False}
    return lines(
        rows, shaded=True, small=True, series=drawn, legend=False if is_single else word(findings, "group"),
        x=Axis("top i ranks, log scale", "d", (1, max(2, deepest)), ticks, scale=scale), y=shares("share of the top i"),
        tips={"series": "label", "x": "top", "share_text": "share", "overall_text": "share of the whole list"},
        title=", ".join(filter(None, [where, groups[0] if is_single else ""])),
    )  # fmt: skip


def _share_table(curve: Sequence[Point]) -> dict[str, list[Any]]:
    shown = [p for p in curve if p["rank"] in (1, 3, 5, 10, 20, 50, 100)]
    table: dict[str, list[Any]] = {"slice": [p["where"] for p in shown]} if any(p["where"] for p in shown) else {}
    table |= {"label": [p["group"] for p in shown], "top": [p["rank"] for p in shown]}
    titles = {"share": "share", "overall": "share of the whole list", "low": "random from", "high": "random to"}
    return table | {title: [percent(p[name]) for p in shown] for name, title in titles.items()}


@chart("requests", title="Request by request, and expected by chance", unless=without_curve("requests"))
def requests(findings: Findings) -> Picture:
    """The value of each request, highest first, and what a random order of the same items would give."""
    curve = points(findings, "requests")
    by_metric = split(curve, lambda p: p["metric"])
    panels = [_request_panel(of_metric, m) for m, of_metric in list(by_metric.items())[: SIZES.wide_panels]]
    table = {
        "request": list(map(_request_name, curve)),
        "metric": [p["metric"] for p in curve],
        "value": [value_text(p["estimate"]) for p in curve],
        "chance": [value_text(p["chance"]) if is_finite(p["chance"]) else "" for p in curve],
        "labelled items": [p["items"] for p in curve],
    }
    note = "Diamond: average of random orders of the same items."
    if any(len(of_metric) > SIZES.rows for of_metric in by_metric.values()):
        note += f" Of more than {SIZES.rows} requests, the highest and the lowest are drawn."
    return Picture(tuple(panels), table, note)


def _request_name(point: Point) -> str:
    return f"{point['request']} ({point['where']})" if point["where"] else str(point["request"])


def _request_panel(curve: Sequence[Point], metric: str) -> Panel:
    ordered = sorted(curve, key=lambda p: -p["estimate"])
    shown = ends([_request_name(p) for p in ordered])
    rows = [
        {
            "label": _request_name(p), "x": p["estimate"], "chance": p["chance"], "tie": p["chance"], "items": p["items"],
            "value_text": value_text(p["estimate"]),
        }
        for p in ordered
        if _request_name(p) in shown
    ]  # fmt: skip
    largest = max(v for row in rows for v in (row["x"], row["chance"], 0.0) if is_finite(v))
    top = 1.0 if 0.4 < largest <= 1 else 1.15 * largest or 1.0
    tips = {"label": "request", "value_text": "value", "chance": "expected by chance", "items": "labelled items"}
    return in_rows(
        rows, "dot", x=Axis(domain=(0, top)), tips=tips, order=shown, title=metric_title(metric), each=SIZES.lane
    )


@chart("strip", title="The rankings themselves", unless=without_curve("strip"))
def strip(findings: Findings) -> Picture:
    """Every ranking as a row of cells, one per rank, coloured by label; unknown labels are left blank."""
    cells = points(findings, "strip")
    names = distinct(map(_request_name, cells))
    groups = [str(p["group"]) for p in cells if p["group"] is not None]
    common = sorted(distinct(groups), key=lambda g: -groups.count(g))
    curve = distinct((findings.curves.get("prefix") or {}).get("group", []))
    coloured = sorted(common[: SIZES.series - 1] if len(common) > SIZES.series else common)
    coloured.sort(key=lambda g: curve.index(g) if g in curve else len(curve))  # the colours of the prefix curves
    rows = [
        {
            "label": _request_name(p), "series": p["group"] if p["group"] in coloured else "other", "low": p["rank"],
            "high": p["rank"] + 0.94, "group_text": p["group"],
        }
        for p in cells
        if p["group"] is not None
    ]  # fmt: skip
    deepest = max(p["rank"] for p in cells)
    ticks = [t for t in (1, 5, *range(10, 101, 10)) if t <= deepest]
    panel = in_rows(
        rows, "span", x=Axis("rank", "d", (1, deepest + 1), ticks, scale={"nice": False}, more={"grid": False}),
        tips={"label": "request", "low": "rank", "group_text": "label"}, order=names,
        series=[*coloured, *(["other"] if len(common) > len(coloured) else [])], legend=word(findings, "group"), each=16,
    )  # fmt: skip
    ranked = [" ".join(str(p["group"] or "–") for p in cells if _request_name(p) == name)[:300] for name in names]
    note = "Ordered from the least to the most proportional." if len(names) > 1 else ""
    return Picture((panel,), {"request": names, "labels from the top": ranked}, note)


@chart("bias", title="Mean metric value by ranking bias", unless=without_curve("bias"))
def bias(findings: Findings) -> Picture:
    """Mean value of each metric along the ranking bias, a line per set: figures 1 and 2 of Draws et al."""
    curve = points(findings, "bias")
    sets, panels = distinct(p["set"] for p in curve), []
    by_metric = split(curve, lambda p: p["metric"])
    for metric, of_metric in by_metric.items():
        rows = [
            {"series": p["set"], "x": p["alpha"], "y": p["mean"], "level": p["chance"], "value_text": number(p["mean"])}
            for p in of_metric
        ]
        top = 1.0 if max(p["mean"] for p in of_metric) > 0.5 else 0.25
        panels.append(lines(
            rows, x=Axis("ranking bias", ticks=[-1, -0.5, 0, 0.5, 1]), y=Axis("mean value", domain=(0, top), clip=True),
            tips={"series": "set", "x": "ranking bias", "value_text": "mean"}, series=sets, legend="set", small=True,
            title=metric_title(metric),
        ))  # fmt: skip
    table = columns_of(curve, "metric", "set", "alpha") | {"mean": [number(p["mean"]) for p in curve]}
    note = "Left of 0 the first side is favoured, right of 0 the other. Values above 1 are cut off, as in the paper."
    return Picture(tuple(panels), table, note)


@chart("exposure", title="Who gets the exposure, and the target", unless=without_curve("exposure"))
def exposure(findings: Findings) -> Picture:
    """Share of exposure of each group with its interval, and a tick at the target; one panel per slice, or per group."""
    curve = points(findings, "exposure")
    slices = distinct(p["where"] for p in curve)
    by, of = ("where", "group") if len(slices) <= SIZES.panels else ("group", "where")
    panels = tuple(
        _exposure_panel(part, of, title) for title, part in list(split(curve, lambda p: p[by]).items())[: SIZES.panels]
    )
    table = {"slice": [p["where"] for p in curve]} if slices != [""] else {}
    table |= columns_of(curve, "group", "exposure", "low", "high", "target", "items")
    return Picture(panels, table, "Tick: the target. Line: the interval over requests.")


def _exposure_panel(curve: Sequence[Point], of: str, title: str) -> Panel:
    shown = sorted(curve, key=lambda p: -p["exposure"] if is_finite(p["exposure"]) else 0.0)[: SIZES.rows]
    rows = [
        {
            "label": p[of], "x": p["exposure"], "low": p["low"], "high": p["high"], "aim": p["target"],
            "text": percent(p["exposure"]), "aim_text": percent(p["target"]),
        }
        for p in shown
    ]  # fmt: skip
    tips = {"label": " ", "text": "share of exposure", "aim_text": "target"}
    return in_rows(rows, "bar", x=shares("share of exposure"), tips=tips, title=title, each=26, least=64)


def _no_relevance(findings: Findings) -> str:
    curve = findings.curves.get("exposure") or {}
    return "" if any(map(is_finite, curve.get("relevance", []))) else "it has no relevance"


@chart("relevance", title="Exposure and relevance", unless=_no_relevance)
def relevance(findings: Findings) -> Picture:
    """Each group's share of all relevance joined to its share of exposure: in proportion, the two coincide."""
    curve = [p for p in points(findings, "exposure") if is_finite(p["relevance"]) and is_finite(p["exposure"])]
    slices, panels = split(curve, lambda p: p["where"]), []
    for where, part in list(slices.items())[: SIZES.panels]:
        shown = sorted(part, key=lambda p: p["exposure"] - p["relevance"])[: SIZES.rows]
        panels.append(joined(
            [p["group"] for p in shown], ("of relevance", [p["relevance"] for p in shown]), ("of exposure", [p["exposure"] for p in shown]),
            x=shares("share"), tips={"label": "group", "series": "share", "value_text": " "}, title=where,
        ))  # fmt: skip
    table = {"slice": [p["where"] for p in curve], **columns_of(curve, "group", "relevance", "exposure")}
    return Picture(tuple(panels), table, drawn_note(len(panels), len(slices), "slices"))


def _no_differences(findings: Findings) -> str:
    curve = findings.curves.get("differences") or {}
    return "" if curve.get("item") else "no two groups are shown different items"


@chart("differences", title="Items that the two groups are shown unequally", unless=_no_differences)
def differences(findings: Findings) -> Picture:
    """The 20 items whose share of slots differs most between two groups of users, widest gap first."""
    by_slice = split(points(findings, "differences"), lambda p: p["where"])
    drawn = {where: items[:20] for where, items in list(by_slice.items())[: SIZES.panels]}
    rows = [p for items in drawn.values() for p in items]
    versus, protected = str(rows[0]["versus"]), str(rows[0]["protected"])
    table = {
        **columns_of(rows, *findings.slices),
        "item": [str(p["item"]) for p in rows],
        f"share shown to {versus}": [percent(p["versus_share"]) for p in rows],
        f"share shown to {protected}": [percent(p["protected_share"]) for p in rows],
    }
    panels = tuple(
        joined(
            [str(p["item"]) for p in items],
            (versus, [p["versus_share"] for p in items]), (protected, [p["protected_share"] for p in items]),
            x=Axis("share of the group's slots", SHARE), heading="item",
            tips={"label": "item", "series": "group", "value_text": "share"}, title=where,
        )
        for where, items in drawn.items()
    )  # fmt: skip
    notes = ["The widest gaps only. Some gap is expected by chance, see the chance column."]
    notes.append(drawn_note(len(drawn), len(by_slice), "slices"))
    return Picture(panels, table, " ".join(filter(None, notes)))


@chart("stability", title="How the order of systems depends on the choices", unless=without_curve("stability"))
def stability(findings: Findings) -> Picture:
    """Best, mean and worst place of every system over all combinations of choices; 1 is the fairest."""
    curve = points(findings, "stability")
    fixed = ("metric", "system", "best", "worst", "mean", "first", "settings", "where")
    others = [name for name in curve[0] if name not in fixed]
    by_title = split(curve, lambda p: ", ".join([*(label(p[o]) for o in others), metric_title(p["metric"])]))
    panels = tuple(_places_panel(places, title) for title, places in list(by_title.items())[: SIZES.panels])
    table = columns_of(curve, *findings.curves["stability"])
    return Picture(panels, table, "Line: from the best to the worst place. Dot: the mean.")


def _places_panel(places: Sequence[Point], title: str) -> Panel:
    ordered = sorted(places, key=lambda p: (read_number(p["mean"]), str(p["system"])))
    shown = ends([str(p["system"]) for p in ordered])
    rows = [
        {
            "label": str(p["system"]), "x": p["mean"], "low": p["best"], "high": p["worst"],
            "came_text": f"first in {p['first']} of {p['settings']}",
        }
        for p in ordered
        if str(p["system"]) in shown
    ]  # fmt: skip
    tips = {"label": "system", "x": "mean place", "low": "best", "high": "worst", "came_text": "came"}
    ticks = list(range(1, len(places) + 1, max(1, len(places) // 12)))
    x = Axis("place, 1 is the fairest", "d", (0.5, len(places) + 0.5), ticks, scale={"nice": False})
    return in_rows(rows, "dot", x=x, tips=tips, order=shown, heading="system", title=title, least=90)


ARROWS_NOTE = "↓ lower is fairer, ↑ higher is fairer, → closer to the ideal is fairer."


@chart(
    "systems", title="Systems by metric: the darker, the fairer",
    unless=lambda findings: "" if len(set(slice_labels(findings))) > 1 else "it takes two systems or slices",
)  # fmt: skip
def systems(findings: Findings) -> Picture:
    """Every system and metric as a table, as in figure 1 of the fair ranking paper: arrows say which way is fairer.

    Colour is the place of a system among the others on that metric only; metrics do not share a scale.
    """
    cells: list[dict[str, Any]] = []
    by_metric = split(zip(slice_labels(findings), findings.rows(), strict=True), lambda pair: pair[1]["metric"])
    for metric, of_metric in list(by_metric.items())[: SIZES.metrics]:
        heading = f"{metric} {ARROWS.get(of_metric[0][1]['better'], '')}".strip()
        strengths = places(fairness([r for _, r in of_metric]).tolist())
        values = [(where, r["estimate"], place) for (where, r), place in zip(of_metric, strengths, strict=True)]
        levels = [level for _, r in of_metric if not math.isnan(level := read_number(r["chance"]))]
        if levels:
            values.append((BY_CHANCE, sum(levels) / len(levels), 0.0))
        for system, estimate, place in values:
            text = value_text(estimate, metric) if not math.isnan(read_number(estimate)) else "–"
            numbers = {"estimate": estimate, "text": text, "strength": place}
            cells.append({"system": system, "heading": heading, "series": metric_title(metric), **numbers})
    names = sorted(distinct(c["system"] for c in cells), key=lambda name: name == BY_CHANCE)
    headings = distinct(c["heading"] for c in cells)
    table: dict[str, list[Any]] = {"slice": list(names)}
    for heading, of_heading in split(cells, lambda c: c["heading"]).items():
        estimates = {c["system"]: c["estimate"] for c in of_heading}
        table[heading] = [drawable(estimates.get(name)) for name in names]
    shown = names[: SIZES.rows]
    few = len(names) <= 6  # systems that fit side by side
    drawn = [
        {"text": c["text"], "strength": c["strength"], "series": c["series"]}
        | {"label": c["heading" if few else "system"], "column": c["system" if few else "heading"]}
        for c in cells
        if c["system"] in shown
    ]
    panel = squares(
        drawn, down=headings if few else shown, across=shown if few else headings, titles=(None, None), strongest=0.45, each=26,
        least=90, tips={"label": " ", "column": " ", "series": "metric", "text": "value"},
    )  # fmt: skip
    shades = "Shades rank the systems on each metric separately, less what is expected by chance (here the mean) where that differs."
    return Picture((panel,), table, f"{ARROWS_NOTE} {shades} eh.compare tests which of them differ.")


def places(fairness: Sequence[float]) -> list[float]:
    """Place of each value from 0 (least fair) to 1 (fairest); 0 where there is none."""
    levels = sorted({f for f in fairness if not math.isnan(f)})
    span = max(1, len(levels) - 1)
    return [0.0 if math.isnan(f) else 1.0 if len(levels) == 1 else levels.index(f) / span for f in fairness]


def _diagonal(down: Sequence[str], across: Sequence[str]) -> list[str]:
    """The labels across in the order of those down, so that there is one diagonal."""
    return sorted(distinct(across), key=lambda name: down.index(name) if name in down else len(down))


def _no_tau(findings: Findings) -> str:
    return "" if {"other", "tau_c"} <= {*findings.columns} else "it has no agreement of metrics"


@chart("agreement", title="Which metrics order the systems alike", unless=_no_tau)
def agreement(findings: Findings) -> Picture:
    """Kendall's tau-c of every two metrics over the systems: the same order (1), no relation (0), the reverse (-1)."""
    rows = list(findings.rows())
    experiments = split(rows, findings.slice_label)
    panels = [_taus(part, where) for where, part in list(experiments.items())[: SIZES.panels]]
    table = columns_of(rows, *(name for name in findings.columns if name != "note"))
    return Picture(tuple(panels), table, _few(rows, len(experiments)))


def _taus(rows: Sequence[Row], where: str) -> Panel:
    cells = [
        {
            "label": r["metric"], "column": r["other"], "strength": 0.0 if math.isnan(tau) else abs(tau),
            "series": "reverse" if tau < 0 else "alike", "text": "" if math.isnan(tau) else f"{tau:.2f}",
        }
        for r in rows
        for tau in [read_number(r["tau_c"])]
    ]  # fmt: skip
    down = distinct(c["label"] for c in cells)
    return squares(
        cells, down=down, across=_diagonal(down, [c["column"] for c in cells]), titles=("metric", "other metric"),
        tips={"column": "other metric", "label": "metric", "text": "tau-c"}, series=["alike", "reverse"], title=where,
    )  # fmt: skip


@chart(
    "comparison",
    title="Metric values, and which metrics order the systems alike",
    unless=lambda f: _no_tau(f) or ("" if f.curves.get("systems") else "it has no values of the systems"),
)
def comparison(findings: Findings) -> Picture:
    """Figure 1 of the fair ranking paper: for every experiment the systems' values, and tau-c between the metrics."""
    rows = list(findings.rows())
    columns = findings.curves["systems"]
    points = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    by_experiment = split(points, findings.slice_label)
    experiments = split(rows, findings.slice_label)
    panels = []
    for where, part in list(experiments.items())[: SIZES.panels // 2]:
        panels += [_values(by_experiment.get(where, []), where), _taus(part, where)]
    note = f"{ARROWS_NOTE} {_few(rows, len(experiments))}"
    return Picture(tuple(panels), columns, note)


def _values(points: Sequence[Row], where: str) -> Panel:
    cells = []
    by_metric = split(points, lambda p: p["metric"])
    is_narrow = len(by_metric) > 8  # no room for four digits
    for metric, of_metric in by_metric.items():
        arrow = ""
        if metric.partition("(")[0].partition("@")[0] in REGISTRY:
            arrow = ARROWS.get(parse_metric(metric).better, "")
        standing = [read_number(p["fairness"]) for p in of_metric]
        levels = len({f for f in standing if not math.isnan(f)})
        for p, place in zip(of_metric, places(standing) if levels > 1 else [0.0] * len(of_metric), strict=True):
            value = read_number(p["value"])
            short = f"{value:.3f}" if abs(value) < 1 else f"{value:.3g}"
            text = "–" if math.isnan(value) else short if is_narrow else value_text(value, metric)
            column = f"{metric} {arrow}"
            cells.append({"label": p["system"], "column": column, "text": text, "strength": place, "series": metric})
    return squares(
        cells, down=distinct(c["label"] for c in cells), across=distinct(c["column"] for c in cells), titles=(None, None),
        strongest=0.45, each=26, least=90, tips={"label": " ", "column": " ", "text": "value"}, title=where,
    )  # fmt: skip


def _few(rows: Sequence[Row], experiments: int) -> str:
    systems = min((int(r["systems"]) for r in rows), default=0)
    least = ""
    if 2 <= systems <= 7:
        least = f" With {systems} systems p cannot fall below {number(2 / math.factorial(systems))}."
    more = f" {experiments - SIZES.panels} more are in the table." if experiments > SIZES.panels else ""
    return f"The darker, the more alike (or the more in reverse).{least}{more}"


def _no_pairs(findings: Findings) -> str:
    return "" if any(">" in str(g) for g in findings.columns.get("group", ())) else "it has no accuracy by groups"


@chart("pairs", title="How often the more relevant item ranks higher", unless=_no_pairs)
def pairs(findings: Findings) -> Picture:
    """Share of pairs in the right order, by the group of the more relevant item and the group of the other one."""
    rows = [r for r in findings.rows() if r["group"] is not None and ">" in str(r["group"])]
    panels = []
    for where, part in list(split(rows, findings.slice_label).items())[: SIZES.panels]:
        cells = [_pair(r) for r in part]
        down = distinct(c["label"] for c in cells)
        panels.append(
            squares(
                cells, down=down, across=_diagonal(down, [c["column"] for c in cells]),
                titles=("more relevant item", "less relevant item"), series=["right order", "below chance"],
                tips={"column": "less relevant item", "label": "more relevant item", "text": "in the right order"},
                title=where.replace("=", " "),
            )
        )  # fmt: skip
    table = columns_of(rows, *findings.slices, "metric", "group", "estimate", "low", "high")
    note = "Random scores put half of the pairs in the right order; the darker, the further from that."
    return Picture(tuple(panels), table, note)


def _pair(row: Row) -> dict[str, Any]:
    above, below = str(row["group"]).rsplit(">", 1)
    share = read_number(row["estimate"])
    is_defined = not math.isnan(share)
    return {
        "label": above,
        "column": "anyone" if below == "*" else below,
        "strength": min(1.0, abs(2 * share - 1)) if is_defined else 0.0,
        "series": "below chance" if share < 0.5 else "right order",
        "text": percent(share) if is_defined else "none",
    }


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
