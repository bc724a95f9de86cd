"""The frame as text, for people and for other programs: Prometheus, Grafana and MLflow among them."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evenhand.errors import EvenhandError, listing, printable, unknown_name, unprintable_escaped
from evenhand.findings import COLUMNS, Findings, hash_of, key_columns, label, plain, read_number
from evenhand.report.words.comparisons import unordered_pairs
from evenhand.report.words.phrases import is_share, metric_title, paper_title
from evenhand.report.words.sentences import sentences
from evenhand.report.words.text import REASONS, capitalized, excluded, interval_text, note_codes, number

MOST_ROWS = 60
"""Rows of a table on a terminal or in a notebook."""
ARROWS = {"lower": "↓", "higher": "↑", "ideal": "→", "": ""}
DELIMITERS = {"csv": ",", "tsv": "\t"}
RIGHT_ALIGNED = frozenset({"estimate", "chance", "units"})
SYSTEM_COLUMNS = frozenset({"metric", "group", "better", "system", "value", "letters", "chance", "ideal"})
LATEX_NUMBERS = RIGHT_ALIGNED | {"a", "b", "control_value", "floor", "p", "p_adjusted", "p_favoured", "treatment"}


def render(findings: Findings, format: str, *, raw: bool = False) -> str:
    """The frame as text in a format of `--format`; `raw` leaves cells of csv and tsv as they are.

    Escape sequences are left out, or escaped where JSON can hold them; text that a spreadsheet would run as a formula is
    marked as text.
    """
    if format not in FORMATS:
        raise unknown_name("format", format, sorted(FORMATS), what="a known format")
    if format in ("json", "jsonl"):
        return unprintable_escaped(FORMATS[format](findings))
    if raw and format in DELIMITERS:
        return _separated(findings, DELIMITERS[format])
    return printable(FORMATS[format](findings))


def readable(findings: Findings) -> tuple[list[str], list[list[str]]]:
    """Head and cells for people: the interval after the estimate, columns without any content left out."""
    if "estimate" in findings.columns:
        extra = [c for c in findings.columns if c not in findings.slices and c not in COLUMNS]
        head = [*findings.slices, "metric", "group", "estimate", "interval", *extra, "chance", "ideal", "units", "note"]
    else:
        head = list(findings.columns)
    rows = [[_cell(findings, name, row) for name in head] for row in shown_rows(findings)]
    blank = {"undefined": ("", "0")}  # requests without a value, where there are none
    filled = [
        i
        for i, name in enumerate(head)
        if name in ("metric", "estimate") or any(row[i] not in blank.get(name, ("",)) for row in rows)
    ]
    return [head[i] for i in filled], [[row[i] for i in filled] for row in rows]


def shown_rows(findings: Findings) -> list[Mapping[str, Any]]:
    """The rows of the readable table: pairs in one order only."""
    return list(unordered_pairs(findings) if "other" in findings.columns else findings.rows())


def _cell(findings: Findings, name: str, row: Mapping[str, Any]) -> str:
    if name in findings.slices:
        return label(row[name])
    if name == "interval":
        return interval_text(row["low"], row["high"])
    if name == "ideal":
        return "" if _absent(row["ideal"]) else f"{number(row['ideal'])} {ARROWS.get(row['better'], '')}".strip()
    value = row[name]
    if name == "estimate":
        return "undefined" if _absent(value) else number(value)
    if _absent(value):
        return ""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value)
    small = name in ("p", "p_adjusted", "p_favoured") and value < 1e-4
    return "<0.0001" if small else number(float(value))


def _absent(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _text(findings: Findings) -> str:
    if not len(findings):
        return "\n".join([findings.question, "", *sentences(findings)]) + "\n"
    head, rows = readable(findings)
    is_prose = "estimate" not in findings.columns  # cells hold sentences, such as advice
    shown = [[cell if is_prose else _on_one_line(cell) for cell in row] for row in rows[:MOST_ROWS]]
    head = [_on_one_line(name) for name in head]
    right, widest = [name in RIGHT_ALIGNED for name in head], [70] * len(head) if is_prose else None
    lines = [findings.question, "", *aligned(head, shown, right=right, widest=widest)]
    if len(rows) > len(shown):
        lines.append(f"... {len(rows) - len(shown):,} more rows; --format csv or result.frame has them all")
    notes = dict.fromkeys(code for note in findings.columns.get("note", ()) for code in note_codes(note))
    below = [f"{code}: {REASONS[code]}." for code in notes if code in REASONS]
    if "chance" in head:
        below.append(f"chance: {_null(findings)}.")
    below += [*filter(None, [excluded(findings)]), *dropped(findings)]
    lines += ["", *below] if below else []
    return "\n".join(lines).rstrip() + "\n"


def _null(findings: Findings) -> str:
    nulls = dict.fromkeys((findings.provenance.get("chance") or {}).values())
    return str(findings.words.get("chance") or f"expected {' or '.join(nulls) or 'by chance alone'}")


def dropped(findings: Findings) -> list[str]:
    """How many of the rows that were read were excluded, and why; nothing where all were used."""
    lost = {str(why): int(many) for why, many in (findings.provenance.get("dropped") or {}).items() if many}
    rows = findings.provenance.get("rows")
    if not lost:
        return []
    of = f" of {int(rows):,}" if rows and int(rows) >= sum(lost.values()) else ""
    return [f"excluded: {sum(lost.values()):,}{of} rows ({listing(f'{why} {many:,}' for why, many in lost.items())})."]


def aligned(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[bool] = (),
    widest: Sequence[int] | None = None,
) -> list[str]:
    """Lines of a table with its columns side by side; cells longer than `widest` are wrapped.

    >>> aligned(["a", "b"], [["1", "two words"]], widest=[4, 5])
    ['a  b', '-  -----', '1  two', '   words']
    """
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    if widest is not None:
        widths = [min(w, most) for w, most in zip(widths, widest, strict=True)]
    flush = list(right) or [False] * len(head)

    def lines(cells: Sequence[str]) -> list[str]:
        parts = [[c] if len(c) <= w else textwrap.wrap(c, w) for c, w in zip(cells, widths, strict=True)]
        padded = [part + [""] * (max(map(len, parts)) - len(part)) for part in parts]
        return [
            "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, flush, strict=True)).rstrip()
            for line in zip(*padded, strict=True)
        ]

    return [*lines(head), *lines(["-" * w for w in widths]), *(line for row in rows for line in lines(row))]


def _on_one_line(cell: str, widest: int = 120) -> str:
    r"""A label as a terminal can show it: no line ends or control characters, and never wider than a line.

    >>> _on_one_line("a\nb")
    'a b'
    """
    line = "".join(c if c.isprintable() else " " for c in printable(cell))
    return line if len(line) <= widest else line[: widest - 1] + "…"


def _separated(findings: Findings, delimiter: str, text: Callable[[str], str] = str) -> str:
    """The frame with all digits; `text` converts cells that are not numbers."""

    def exact(value: Any) -> str:
        return repr(value) if isinstance(value, float) else str(value) if isinstance(value, int) else text(value)

    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(map(text, findings.columns))
    for row in findings.rows():
        writer.writerow(["" if _absent(v) else exact(plain(v)) for v in row.values()])
    return out.getvalue()


def _no_formula(text: str) -> str:
    """Text that no spreadsheet takes for a formula.

    >>> _no_formula("=1+1"), _no_formula("a"), _no_formula("-5")
    ("'=1+1", 'a', '-5')
    """
    harmless = not re.match(r"[\s\x00-\x1f]*[=+\-@]", text) or re.fullmatch(
        r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?|-Infinity", text
    )
    return text if harmless else f"'{text}"


def _json_lines(findings: Findings) -> str:
    rows = (
        json.dumps({k: plain(v) for k, v in row.items()}, ensure_ascii=False, allow_nan=False)
        for row in findings.rows()
    )
    return "".join(row + "\n" for row in rows)


def escape_markdown(text: str) -> str:
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", text).replace("\n", " ")


def _markdown_table(head: Sequence[str], rules: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[escape_markdown(name) for name in head], rules, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _markdown(findings: Findings) -> str:
    head, rows = readable(findings)
    rules = ["---:" if h in RIGHT_ALIGNED else "---" for h in head]
    return _markdown_table(head, rules, [[escape_markdown(cell) for cell in row] for row in rows])


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "→": r"$\rightarrow$",
    **{c: "\\" + c for c in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    """Text in a LaTeX table; arrows become symbols."""
    return "".join(_LATEX.get(c, c) for c in text)


LATEX_NEEDS = r"% Needs \usepackage{booktabs,siunitx}. Bold: the best value of each metric, whether or not it differs significantly."


def _latex_table(head: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[str]]) -> str:
    """A booktabs table; siunitx aligns numeric columns at the decimal point."""
    columns = "".join("S" if n else "l" for n in numeric)
    titles = [f"{{{escape_latex(h)}}}" if n else escape_latex(h) for h, n in zip(head, numeric, strict=True)]
    lines = [LATEX_NEEDS, r"\begin{tabular}{" + columns + "}", r"\toprule", " & ".join(titles) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def latex_float(table: str, caption: str, label: str) -> str:
    """A LaTeX table as a float with this caption and label; as it is without either."""
    if not caption and not label:
        return table
    named = [rf"\caption{{{escape_latex(caption)}}}"] if caption else []
    named += [rf"\label{{{label}}}"] if label else []
    return "\n".join([r"\begin{table}", r"\centering", *named, table + r"\end{table}"]) + "\n"


def _latex_number(text: str, after: str = "", *, bold: bool = False) -> str:
    """A number for a column of siunitx, which takes a comma for the decimal point; anything else stands in braces."""
    digits = text.replace(",", "")
    if not re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", digits):
        return f"{{{escape_latex(text)}{after}}}" if text else ""
    return (r"\bfseries " if bold else "") + digits + (f" {{{after}}}" if after else "")


def _latex(findings: Findings) -> str:
    head, rows = readable(findings)
    numeric = [h in LATEX_NUMBERS for h in head]
    best = best_rows(list(findings.rows())) if len(rows) == len(findings) else set()

    def cell(name: str, text: str, i: int) -> str:
        if name in LATEX_NUMBERS:
            return _latex_number(text, bold=i in best and name == "estimate")
        return escape_latex(paper_title(text) if name == "metric" else text)

    cells = [[cell(name, text, i) for name, text in zip(head, row, strict=True)] for i, row in enumerate(rows)]
    titles = [h if h in findings.slices else capitalized(h.replace("_", " ")) for h in head]
    return _latex_table(titles, numeric, cells)


def best_rows(rows: Sequence[Mapping[str, Any]], within: Sequence[str] = ()) -> set[int]:
    """Indices of the rows that are best among those of the same metric, group and slice `within`, where there are several."""
    by_metric: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
    for i, r in enumerate(rows):
        value, ideal = read_number(r.get("estimate", r.get("value"))), read_number(r.get("ideal"))
        way = {"lower": value, "higher": -value, "ideal": abs(value - ideal)}.get(str(r.get("better")), math.nan)
        if not math.isnan(way):
            by_metric.setdefault((r["metric"], r.get("group"), *(r[name] for name in within)), []).append((way, i))
    several = [pairs for pairs in by_metric.values() if len(pairs) > 1]
    return {i for pairs in several for way, i in pairs if way == min(pairs)[0]}


def html_table(findings: Findings) -> str:
    """The readable table as HTML; every label is escaped."""
    head, rows = readable(findings)
    more = f"<p>{len(rows) - MOST_ROWS:,} more rows.</p>" if len(rows) > MOST_ROWS else ""
    return f"<p>{html.escape(findings.question)}</p>{_html_rows(head, rows[:MOST_ROWS])}{more}"


def _html_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table style='white-space:nowrap'><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"


FORMATS: dict[str, Callable[[Findings], str]] = {
    "table": _text,
    "csv": lambda f: _separated(f, ",", _no_formula),
    "tsv": lambda f: _separated(f, "\t", _no_formula),
    "jsonl": _json_lines,
    "json": lambda f: json.dumps(f.to_dict(), ensure_ascii=False, allow_nan=False, indent=1) + "\n",
    "markdown": _markdown,
    "latex": _latex,
    "openmetrics": lambda f: open_metrics([f]),
    "grafana": lambda f: dashboard([f]),
}


class SystemsTable(str):
    """The table of systems as text, which prints as it is and which a notebook shows as a table."""

    __slots__ = ("html",)
    html: str

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.html


def render_systems(findings: Findings, format: str, caption: str = "", label: str = "") -> str:
    """A table of systems by metrics, as papers print them: arrows say which way is fairer, letters which systems differ."""
    if format not in ("table", "markdown", "latex"):
        raise unknown_name("format", format, ("table", "markdown", "latex"), what="a format of the table of systems")
    points = findings.curves.get("systems")
    if not points:
        raise EvenhandError("The result holds no table of systems. Make one with eh.compare(result).")
    head, rows = system_cells(points, paper_title if format == "latex" else str)
    labels = {"system", *(name for name in points if name not in SYSTEM_COLUMNS)}
    read = (
        "Systems that share a letter do not differ significantly on these requests. ↑ higher is fairer, ↓ lower, → closer to the "
        "ideal."
    )
    if format == "table":
        cells = [[f"{c.text} {c.letters}".strip() for c in row] for row in rows]
        text = SystemsTable("\n".join([*aligned(head, cells), "", read]) + "\n")
        text.html = f"{_html_rows(head, cells)}<p>{html.escape(read)}</p>"
        return text
    if format == "markdown":
        cells = [
            [escape_markdown(c.text) + (f" <sup>{c.letters}</sup>" if c.letters else "") for c in row] for row in rows
        ]
        return _markdown_table(head, ["---" if name in labels else "---:" for name in head], cells) + f"\n{read}\n"
    numeric = [name not in labels for name in head]
    cells = [
        [
            _latex_number(c.text, rf"$^{{\mathrm{{{c.letters}}}}}$" if c.letters else "", bold=c.is_best) if n else escape_latex(c.text)
            for c, n in zip(row, numeric, strict=True)
        ]
        for row in rows
    ]  # fmt: skip
    return latex_float(_latex_table(head, numeric, cells) + f"% {read}\n", caption, label)


@dataclass(frozen=True, slots=True)
class SystemCell:
    """A cell of the table of systems; the first cells of a row are its labels."""

    text: str
    letters: str = ""
    is_best: bool = False


BY_CHANCE = "by chance"
"""The row of a table of systems with what is expected by chance; a range where systems differ in it."""


def system_cells(
    points: Mapping[str, Sequence[Any]], title: Callable[[str], str] = str
) -> tuple[list[str], list[list[SystemCell]]]:
    """Head and cells of the table of systems; metrics are called by their `title`."""
    rows = [dict(zip(points, row, strict=True)) for row in zip(*points.values(), strict=True)]
    slices = [name for name in points if name not in SYSTEM_COLUMNS]
    several = {m for m in {r["metric"] for r in rows} if len({r["group"] for r in rows if r["metric"] == m}) > 1}

    def column(r: Mapping[str, Any]) -> str:
        name = f"{title(r['metric'])} {r['group']}" if r["metric"] in several else title(r["metric"])
        return f"{name} {ARROWS.get(r['better'], '')}".strip()

    columns = list(dict.fromkeys(map(column, rows)))
    best = best_rows(rows, slices)
    body: dict[tuple[Any, ...], dict[str, SystemCell]] = {}
    chances: dict[tuple[Any, ...], dict[str, set[float]]] = {}
    for i, r in enumerate(rows):
        value, where = read_number(r["value"]), tuple(r[name] for name in slices)
        cell = SystemCell(number(value), "" if math.isnan(value) else r["letters"], i in best)
        body.setdefault((*where, r["system"]), {})[column(r)] = cell
        if not math.isnan(chance := read_number(r.get("chance"))):
            chances.setdefault((*where, BY_CHANCE), {}).setdefault(column(r), set()).add(chance)
    for key, levels in chances.items():
        texts = {name: dict.fromkeys((number(min(values)), number(max(values)))) for name, values in levels.items()}
        body[key] = {name: SystemCell(" to ".join(ends)) for name, ends in texts.items()}
    empty = SystemCell("")
    cells = [
        [*(SystemCell(str(part)) for part in key), *(row.get(c, empty) for c in columns)] for key, row in body.items()
    ]
    return [*slices, "system", *columns], cells


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
        if legal in ("audit", "metric", "group", "plan") or not re.match(r"[a-zA-Z]", legal):
            legal = f"slice_{legal}"
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
