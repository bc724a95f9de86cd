"""Findings for other tools: metrics for Prometheus, a dashboard for Grafana that reads them."""

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
    "estimate": "What was measured; the label metric says of what.",
    "low": "Lower end of the interval.",
    "high": "Upper end of the interval.",
    "chance": "What no bias at all would give on data of this size.",
    "units": "How many it rests on.",
}
"""Columns that are exported, each as a gauge `evenhand_NAME`, with what its help says."""
DAY = "evenhand_day_timestamp_seconds"
OWN = ("audit", "metric", "group", "plan")


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
        lines += [f"# HELP {DAY} The day that the numbers of a plan are for.", f"# TYPE {DAY} gauge"]
        seconds = {at: datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() for _, at in days}
        lines += [_sample(DAY, {"audit": f.audit, "plan": hash_of(f)}, seconds[at]) for f, at in days]
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
        legal = f"slice_{legal}" if legal in OWN or not re.match(r"[a-zA-Z]", legal) else legal
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
    """The labels that tell the lines of one metric apart, as Grafana writes them."""
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
    ends = {"low": f"{legend} low", "high": f"{legend} high"}
    queries = {"estimate": legend, **ends}
    hidden = [
        {"id": "custom.lineWidth", "value": 0},
        {"id": "custom.hideFrom", "value": {"legend": True, "tooltip": False, "viz": False}},
    ]
    unit, plainly = (
        "percentunit" if is_share(metric) else "none",
        {"drawStyle": "line", "lineWidth": 2, "fillOpacity": 0},
    )
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
