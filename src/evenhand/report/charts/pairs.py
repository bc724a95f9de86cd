"""Tables of squares: systems by metrics, metrics against metrics, groups against groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.cards import REGISTRY, parse_metric
from evenhand.findings import Findings, label
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import Panel, Picture, chart, columns_of, distinct, drawable, slice_labels
from evenhand.report.charts.shapes import MOST_ROWS, squares
from evenhand.report.table import ARROWS
from evenhand.report.words.phrases import metric_title, value_text
from evenhand.report.words.text import number, percent

Row = Mapping[str, Any]

MOST_PANELS = 6
MOST_METRICS = 12
FEW = 6
"""Systems that stand side by side; more stand one under the other."""


@chart(
    "systems", title="Systems by metric: the stronger the shade, the fairer",
    unless=lambda findings: "" if len(set(slice_labels(findings))) > 1 else "it takes two systems or slices",
)  # fmt: skip
def systems(findings: Findings) -> Picture:
    """Every system and metric as a table, as in figure 1 of the fair ranking paper: arrows say which way is fairer.

    Colour is the place of a system among the others on that metric only; metrics do not share a scale.
    """
    cells: list[dict[str, Any]] = []
    for metric in findings.metrics()[:MOST_METRICS]:
        of_metric = [
            (w, r) for w, r in zip(slice_labels(findings), findings.rows(), strict=True) if r["metric"] == metric
        ]
        heading = f"{metric} {ARROWS.get(of_metric[0][1]['better'], '')}".strip()
        for (where, row), place in zip(of_metric, places([r for _, r in of_metric]), strict=True):
            text = "–" if math.isnan(read_number(row["estimate"])) else value_text(row["estimate"], metric)
            cells.append(
                {
                    "system": where, "heading": heading, "estimate": row["estimate"], "text": text, "strength": place,
                    "series": metric_title(metric),
                }
            )  # fmt: skip
    names, headings = distinct(c["system"] for c in cells), distinct(c["heading"] for c in cells)
    table: dict[str, list[Any]] = {"slice": list(names)}
    for heading in headings:
        estimates = {c["system"]: c["estimate"] for c in cells if c["heading"] == heading}
        table[heading] = [drawable(estimates.get(name)) for name in names]
    shown = names[:MOST_ROWS]
    down, across = (headings, shown) if len(names) <= FEW else (shown, headings)
    drawn = [
        {"text": c["text"], "strength": c["strength"], "series": c["series"]}
        | dict(zip(("label", "column"), (c["heading"], c["system"])[:: 1 if down is headings else -1], strict=True))
        for c in cells
        if c["system"] in shown
    ]
    panel = squares(
        drawn, down=down, across=across, titles=(None, None), strongest=0.45, each=26, least=90,
        tips={"label": " ", "column": " ", "series": "metric", "text": "value"},
    )  # fmt: skip
    note = "↓ lower is fairer, ↑ higher is fairer, → nearer the ideal is fairer. Shades rank the systems on each metric alone."
    return Picture((panel,), table, _fairest(cells), note)


def places(rows: Sequence[Row]) -> list[float]:
    """Place of each row from 0 (least fair) to 1 (fairest) among those with a number; 0 where there is none."""
    fair = [_fairness(r) for r in rows]
    levels = sorted({f for f in fair if not math.isnan(f)})
    span = max(1, len(levels) - 1)
    return [0.0 if math.isnan(f) else 1.0 if len(levels) == 1 else levels.index(f) / span for f in fair]


def _fairness(row: Row) -> float:
    """Larger is fairer, whichever way the metric points."""
    value, ideal = read_number(row["estimate"]), read_number(row["ideal"])
    if row["better"] == "ideal" and not math.isnan(ideal):
        return -abs(value - ideal)
    return {"higher": value, "lower": -value}.get(row["better"], math.nan)


def _fairest(cells: Sequence[Row]) -> str:
    firsts = {
        name: sum(c["strength"] == 1.0 for c in cells if c["system"] == name)
        for name in distinct(c["system"] for c in cells)
    }
    if not firsts or not max(firsts.values()):
        return "No system has a number."
    best = max(firsts, key=lambda name: firsts[name])
    return f"{best} has the fairest value on {firsts[best]} of {len(distinct(c['heading'] for c in cells))} metrics."


def _diagonal(down: Sequence[str], across: Sequence[str]) -> list[str]:
    """The labels across in the order of those down, so that there is one diagonal."""
    return sorted(distinct(across), key=lambda name: down.index(name) if name in down else len(down))


def _no_tau(findings: Findings) -> str:
    return "" if {"other", "tau_c"} <= {*findings.columns} else "it holds no agreement of metrics"


@chart("agreement", title="Which metrics order the systems alike", unless=_no_tau)
def agreement(findings: Findings) -> Picture:
    """Kendall's tau-c of every two metrics over the systems: the same order (1), no relation (0), the other way round (-1)."""
    rows = list(findings.rows())
    experiments = distinct(findings.slice_label(r) for r in rows)
    panels = [_taus(findings, rows, where) for where in experiments[:MOST_PANELS]]
    table = columns_of(rows, *(name for name in findings.columns if name != "note"))
    return Picture(tuple(panels), table, _agreement_in_words(rows), _few(rows, len(experiments)))


def _taus(findings: Findings, rows: Sequence[Row], where: str) -> Panel:
    """The agreement of metrics in one experiment."""
    cells = [
        {
            "label": r["metric"], "column": r["other"], "strength": 0.0 if math.isnan(tau) else abs(tau),
            "series": "opposed" if tau < 0 else "alike", "text": "" if math.isnan(tau) else f"{tau:.2f}",
        }
        for r in rows
        if findings.slice_label(r) == where
        for tau in [read_number(r["tau_c"])]
    ]  # fmt: skip
    down = distinct(c["label"] for c in cells)
    return squares(
        cells, down=down, across=_diagonal(down, [c["column"] for c in cells]), titles=("metric", "other metric"),
        tips={"column": "other metric", "label": "metric", "text": "tau-c"}, series=["alike", "opposed"], title=where,
    )  # fmt: skip


def _no_values(findings: Findings) -> str:
    return _no_tau(findings) or ("" if findings.curves.get("systems") else "it holds no values of the systems")


@chart("comparison", title="Metric results, and which metrics order the systems alike", unless=_no_values)
def comparison(findings: Findings) -> Picture:
    """Figure 1 of the fair ranking paper: for every experiment the systems' values, and tau-c between the metrics."""
    rows = list(findings.rows())
    points = findings.curves["systems"]
    each = [dict(zip(points, values, strict=True)) for values in zip(*points.values(), strict=True)]
    experiments = distinct(findings.slice_label(r) for r in rows)
    panels = []
    for where in experiments[: MOST_PANELS // 2]:
        of_slice = [p for p in each if findings.slice_label(p) == where]
        panels += [_values(of_slice, where), _taus(findings, rows, where)]
    note = f"↓ lower is fairer, ↑ higher is fairer, → nearer the ideal is fairer. {_few(rows, len(experiments))}"
    return Picture(tuple(panels), points, _agreement_in_words(rows), note)


NARROW = 8
"""Metrics side by side above which a square has no room for four digits."""


def _values(points: Sequence[Row], where: str) -> Panel:
    """Systems by metrics, shaded by their place on each."""
    cells = []
    metrics = distinct(p["metric"] for p in points)
    for metric in metrics:
        of_metric = [p for p in points if p["metric"] == metric]
        levels = sorted({p["fairness"] for p in of_metric if not math.isnan(p["fairness"])})
        for p in of_metric:
            place = levels.index(p["fairness"]) / max(1, len(levels) - 1) if p["fairness"] in levels else 0.0
            short = f"{p['value']:.3f}" if abs(p["value"]) < 1 else f"{p['value']:.3g}"
            text = short if len(metrics) > NARROW else value_text(p["value"], metric)
            text = "–" if math.isnan(p["value"]) else text
            cells.append(
                {
                    "label": p["system"],
                    "column": f"{metric} {_arrow(metric)}",
                    "text": text,
                    "strength": place,
                    "series": metric,
                }
            )
    return squares(
        cells, down=distinct(c["label"] for c in cells), across=distinct(c["column"] for c in cells), titles=(None, None),
        strongest=0.45, each=26, least=90, tips={"label": " ", "column": " ", "text": "value"}, title=where,
    )  # fmt: skip


def _arrow(metric: str) -> str:
    """Which way is fairer, as the card says."""
    return ARROWS.get(parse_metric(metric).better, "") if metric.partition("(")[0].partition("@")[0] in REGISTRY else ""


def _agreement_in_words(rows: Sequence[Row]) -> str:
    defined = [r for r in rows if not math.isnan(read_number(r["tau_c"]))]
    if not defined:
        return "No two metrics can be compared: too few systems, or values that never vary."
    best, worst = (pick(defined, key=lambda r: read_number(r["tau_c"])) for pick in (max, min))
    opposed = sum(read_number(r["tau_c"]) < 0 for r in defined)
    most = f"{best['metric']} and {best['other']} order the systems most alike (tau-c {number(best['tau_c'])})"
    return (
        f"{most}, {worst['metric']} and {worst['other']} least ({number(worst['tau_c'])}); "
        f"{percent(opposed / len(defined))} of the pairs of metrics are opposed."
    )


def _few(rows: Sequence[Row], experiments: int) -> str:
    fewest = min((int(r["systems"]) for r in rows), default=0)
    least = f" With {fewest} systems p cannot fall below {number(2 / math.factorial(fewest))}."
    more = f" {experiments - MOST_PANELS} more are in the table." if experiments > MOST_PANELS else ""
    return f"The stronger the colour, the more (or the less) alike.{least if 2 <= fewest <= 7 else ''}{more}"


def _no_table(findings: Findings) -> str:
    return "" if any(">" in str(g) for g in findings.columns.get("group", ())) else "it holds no accuracy by groups"


@chart("pairs", title="How often the more relevant item stands above", unless=_no_table)
def pairs(findings: Findings) -> Picture:
    """Share of pairs in the right order, by the group of the more relevant item and the group of the other one."""
    rows = [r for r in findings.rows() if r["group"] is not None and ">" in str(r["group"])]
    panels = []
    for where in distinct(findings.slice_label(r) for r in rows)[:MOST_PANELS]:
        cells = [_pair(r) for r in rows if findings.slice_label(r) == where]
        down = distinct(c["label"] for c in cells)
        panels.append(
            squares(
                cells, down=down, across=_diagonal(down, [c["column"] for c in cells]),
                titles=("more relevant item", "less relevant item"), series=["right order", "below chance"],
                tips={"column": "less relevant item", "label": "more relevant item", "text": "in the right order"},
                title=where.replace("=", " "),
            )
        )  # fmt: skip
    defined = [r for r in rows if not math.isnan(read_number(r["estimate"]))]
    text = "There is no pair of different relevance."
    if defined:
        worst = min(defined, key=lambda r: read_number(r["estimate"]))
        lead = ", ".join(label(worst[name]) for name in findings.slices)
        text = (
            f"{f'In {lead}, ' if lead else ''}{worst['group']} has the smallest share of pairs in the right order, "
            f"{percent(worst['estimate'])}."
        )
    table = columns_of(rows, *findings.slices, "metric", "group", "estimate", "low", "high")
    note = "Half of the pairs in the right order is what random scores give: the stronger the colour, the further from that."
    return Picture(tuple(panels), table, text, note)


def _pair(row: Row) -> dict[str, Any]:
    above, below = str(row["group"]).rsplit(">", 1)
    share = read_number(row["estimate"])
    defined = not math.isnan(share)
    return {
        "label": above, "column": "anyone" if below == "*" else below, "strength": min(1.0, abs(2 * share - 1)) if defined else 0.0,
        "series": "below chance" if share < 0.5 else "right order", "text": percent(share) if defined else "none",
    }  # fmt: skip
