"""Charts of squares: systems by metrics, metrics by metrics, groups by groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evenhand.cards import REGISTRY, parse_metric
from evenhand.findings import Findings, label, read_number
from evenhand.metrics.agreement import fairness
from evenhand.report.charts.drawing import Panel, Picture, chart, columns_of, distinct, drawable, split
from evenhand.report.charts.shapes import squares
from evenhand.report.charts.theme import SIZES
from evenhand.report.table import ARROWS, BY_CHANCE
from evenhand.report.words.comparisons import agreement_count
from evenhand.report.words.phrases import metric_title, value_text
from evenhand.report.words.text import Row, counted, is_finite, number, percent, slice_labels

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
        for (where, row), place in zip(of_metric, places(fairness([r for _, r in of_metric]).tolist()), strict=True):
            text = value_text(row["estimate"], metric) if not math.isnan(read_number(row["estimate"])) else "–"
            cells.append(
                {
                    "system": where, "heading": heading, "estimate": row["estimate"], "text": text, "strength": place,
                    "series": metric_title(metric),
                }
            )  # fmt: skip
        levels = [level for _, r in of_metric if not math.isnan(level := read_number(r["chance"]))]
        if levels:
            level = sum(levels) / len(levels)
            cells.append(
                {
                    "system": BY_CHANCE, "heading": heading, "estimate": level, "text": value_text(level, metric),
                    "strength": 0.0, "series": metric_title(metric),
                }
            )  # fmt: skip
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
    count = counted(sum(name != BY_CHANCE for name in names), "system" if findings.slices == ("system",) else "slice")
    text = f"{count} by {counted(len(headings), 'metric')}; eh.compare tests which of them differ."
    shades = "Shades rank the systems on each metric separately, less what is expected by chance (here the mean) where that differs."
    note = f"{ARROWS_NOTE} {shades}"
    return Picture((panel,), table, text, note)


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
    return Picture(tuple(panels), table, agreement_count(findings), _few(rows, len(experiments)))


def _taus(rows: Sequence[Row], where: str) -> Panel:
    """The agreement of metrics in one experiment."""
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


def _no_values(findings: Findings) -> str:
    return _no_tau(findings) or ("" if findings.curves.get("systems") else "it has no values of the systems")


@chart("comparison", title="Metric values, and which metrics order the systems alike", unless=_no_values)
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
    return Picture(tuple(panels), columns, agreement_count(findings), note)


def _values(points: Sequence[Row], where: str) -> Panel:
    """Systems by metrics, shaded by their place on each."""
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
    least = (
        f" With {systems} systems p cannot fall below {number(2 / math.factorial(systems))}."
        if 2 <= systems <= 7
        else ""
    )
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
    defined = [r for r in rows if is_finite(r["estimate"])]
    text = "There is no pair of different relevance."
    if defined:
        worst = min(defined, key=lambda r: read_number(r["estimate"]))
        lead = ", ".join(label(worst[name]) for name in findings.slices)
        text = f"{f'For {lead}, ' if lead else ''}{percent(worst['estimate'])} of the pairs {worst['group']} are in the right order."
    table = columns_of(rows, *findings.slices, "metric", "group", "estimate", "low", "high")
    note = "Random scores put half of the pairs in the right order; the darker, the further from that."
    return Picture(tuple(panels), table, text, note)


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
