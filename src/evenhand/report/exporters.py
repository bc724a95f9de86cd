"""Findings for other tools: metrics for Prometheus, a dashboard for Grafana that reads them, flat numbers for MLflow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from evenhand.findings import Findings, hash_of, key_columns, label
from evenhand.report.words.phrases import is_share, metric_title

GAUGES = {
    "estimate": "Estimate of the metric in the label metric.",
    "low": "Lower end of the interval.",
    "high": "Upper end of the interval.",
    "chance": "Expected without any bias, on data of this size.",
    "units": "Number of units behind the estimate.",
}
"""Columns that are exported, each as a gauge `evenhand_NAME`, with what its help says."""


def open_metrics(results: Sequence[Findings]) -> str:
    """Findings as OpenMetrics text, for Prometheus and what reads its format.

    Slices are labels. There are no timestamps, which the textfile collector refuses: the day that numbers are for, where
    it is known, is a gauge of its own.
    """
    lines: list[str] = []
    for column, help in GAUGES.items():
        samples = [_sample(f"evenhand_{column}", labels, value) for labels, value in _values(results, column)]
        if samples:
            lines += [f"# HELP evenhand_{column} {help}", f"# TYPE evenhand_{column} gauge", *samples]
    days = [(f, f.provenance["at"]) for f in results if f.provenance.get("at")]
    if days:
        name = "evenhand_day_timestamp_seconds"
        lines += [f"# HELP {name} The day that the numbers of a plan are for.", f"# TYPE {name} gauge"]
        seconds = {at: datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() for _, at in days}
        lines += [_sample(name, {"audit": f.audit, "plan": hash_of(f)}, seconds[at]) for f, at in days]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _values(results: Sequence[Findings], column: str) -> Iterator[tuple[dict[str, str], float]]:
    for findings in results:
        if "estimate" not in findings.columns:
            continue
        plan, names = hash_of(findings), [name for name in key_columns(findings) if name != "group"]
        for row in findings.rows():
            value = row.get(column)
            if value is not None and not math.isnan(value):
                yield _labels(findings.audit, names, row, plan), float(value)


def _labels(audit: str, names: Sequence[str], row: Mapping[str, Any], plan: str) -> dict[str, str]:
    """The labels of a row; a slice with the name of one of our own labels gets a prefix."""
    labels = {"audit": audit, "metric": str(row["metric"]), "group": label(row["group"] or ""), "plan": plan}
    labels = {name: value for name, value in labels.items() if value}
    for name in names:
        legal = re.sub(r"\W", "_", name, flags=re.ASCII)
        legal = (
            f"slice_{legal}"
            if legal in ("audit", "metric", "group", "plan") or not re.match(r"[a-zA-Z]", legal)
            else legal
        )
        while legal in labels:
            legal += "_"
        labels[legal] = label(row[name])
    return labels


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    shown = {math.inf: "+Inf", -math.inf: "-Inf"}.get(value) or repr(value)
    return f"{name}{{{pairs}}} {shown}"


def _escaped(text: str) -> str:
    r"""A label's value between its quotes.

    >>> print(_escaped('say "a\\b"'))
    say \"a\\b\"
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def dashboard(results: Sequence[Findings]) -> str:
    """A Grafana dashboard, as JSON to import: a panel per metric with its intervals, for the gauges of `open_metrics`."""
    metrics = dict.fromkeys((f.audit, metric) for f in results if "estimate" in f.columns for metric in f.metrics())
    panels = [_panel(i, audit, metric, _legend(results, audit)) for i, (audit, metric) in enumerate(metrics)]
    board = {
        "title": "evenhand", "uid": "evenhand", "schemaVersion": 39, "editable": True, "refresh": "1h", "timezone": "utc",
        "tags": ["evenhand"], "time": {"from": "now-90d", "to": "now"},
        "templating": {"list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }  # fmt: skip
    return json.dumps(board, ensure_ascii=False, indent=1) + "\n"


def _legend(results: Sequence[Findings], audit: str) -> str:
    """The labels that distinguish the lines of one metric, as Grafana writes them."""
    of_audit = [f for f in results if f.audit == audit]
    names = {
        n: None
        for f in of_audit
        for row in f.rows()
        for n in _labels(audit, [c for c in key_columns(f) if c != "group"], row, "")
        if n not in ("audit", "metric", "plan")
    }
    return " ".join(f"{{{{{name}}}}}" for name in names) or "{{metric}}"


def _panel(place: int, audit: str, metric: str, legend: str) -> dict[str, Any]:
    chosen = f'audit="{_escaped(audit)}",metric="{_escaped(metric)}"'
    source = {"type": "prometheus", "uid": "${source}"}
    queries = {"estimate": legend, "low": f"{legend} low", "high": f"{legend} high"}
    hidden = [
        {"id": "custom.lineWidth", "value": 0},
        {"id": "custom.hideFrom", "value": {"legend": True, "tooltip": False, "viz": False}},
    ]
    unit = "percentunit" if is_share(metric) else "none"
    plainly = {"drawStyle": "line", "lineWidth": 2, "fillOpacity": 0}
    return {
        "id": place + 1, "type": "timeseries", "title": metric_title(metric), "datasource": source,
        "gridPos": {"x": 12 * (place % 2), "y": 9 * (place // 2), "w": 12, "h": 9},
        "fieldConfig": {
            "defaults": {"unit": unit, "custom": plainly},
            "overrides": [
                {"matcher": {"id": "byRegexp", "options": "/ low$/"}, "properties": hidden},
                {"matcher": {"id": "byRegexp", "options": "/ high$/"}, "properties": [*hidden, {"id": "custom.fillOpacity", "value": 10}]},
            ],
        },
        "targets": [
            {"refId": "ABC"[i], "datasource": source, "expr": f"evenhand_{name}{{{chosen}}}", "legendFormat": text}
            for i, (name, text) in enumerate(queries.items())
        ],
    }  # fmt: skip


def tracked(findings: Findings, prefix: str = "") -> dict[str, float]:
    """Estimates and the ends of their intervals by name: `gini`, `gini_low`, `gini_high`, `top_share_p_0.01/source_likes`.

    A slice and a group follow the metric behind slashes. Undefined estimates are NaN; an interval that is not there is
    left out, and so is an infinite number, which trackers would replace by a large one.

    >>> from evenhand.findings import Findings, row, tidy
    >>> rows = [row({"source": "a/b"}, "top_share(p=0.01)", estimate=0.7)]
    >>> tracked(Findings("inequality", "", ("source",), tidy(rows, ["source"])))
    {'top_share_p_0.01/source_a_b': 0.7}
    """
    numbers: dict[str, float] = {}
    for r in findings.rows():
        parts = [r["metric"], *(f"{s} {label(r[s])}" for s in findings.slices)]
        parts += [r["group"]] if r["group"] is not None else []
        legal = [re.sub(r"[^\w.\-]+", "_", str(p)).strip("_.") or "_" for p in parts]
        first = (prefix + "/".join(legal))[:240]  # MLflow takes 250 characters; the rest is for `_high` and a number
        name, n = first, 1
        while {name, f"{name}_low", f"{name}_high"} & numbers.keys():
            n += 1
            name = f"{first}_{n}"
        ends = {name: r["estimate"], f"{name}_low": r["low"], f"{name}_high": r["high"]}
        finite = {k: float(v) for k, v in ends.items() if k == name or not math.isnan(v)}
        numbers |= {k: v for k, v in finite.items() if not math.isinf(v)}
    return numbers
