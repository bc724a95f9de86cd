"""A table of systems by metrics, as papers print them: arrows say which way is fairer, letters which systems differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.errors import EvenhandError, unknown_name
from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import word
from evenhand.report.table import ARROWS, aligned, escape_latex, escape_markdown
from evenhand.report.words.text import number, plural

FORMATS = ("table", "markdown", "latex")
READ = "Systems that share a letter cannot be told apart on these {over}. ↑ higher is fairer, ↓ lower, → closer to the ideal."


def render(findings: Findings, format: str) -> str:
    """The table of systems in one of three formats."""
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS, what="a format of the table of systems")
    points = findings.curves.get("systems")
    if not points:
        raise EvenhandError("The result holds no table of systems. Make one with eh.compare(result).")
    head, rows = cells(points)
    read = READ.format(over=plural(word(findings, "unit", "request")))
    return {"table": _text, "markdown": _markdown, "latex": _latex}[format](head, rows, read)


def cells(points: Mapping[str, Sequence[Any]]) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """Head, and (text, letters) of every cell; the first cells of a row are its labels."""
    slices = [name for name in points if name not in ("metric", "group", "better", "system", "value", "letters")]
    rows = [dict(zip(points, row, strict=True)) for row in zip(*points.values(), strict=True)]
    several = {m for m in {r["metric"] for r in rows} if len({r["group"] for r in rows if r["metric"] == m}) > 1}

    def column(r: Mapping[str, Any]) -> str:
        name = f"{r['metric']} {r['group']}" if r["metric"] in several else r["metric"]
        return f"{name} {ARROWS.get(r['better'], '')}".strip()

    columns = list(dict.fromkeys(map(column, rows)))
    by_key: dict[tuple[Any, ...], dict[str, tuple[str, str]]] = {}
    for r in rows:
        value = read_number(r["value"])
        cell = number(value), "" if math.isnan(value) else r["letters"]
        by_key.setdefault((*(r[name] for name in slices), r["system"]), {})[column(r)] = cell
    body = [
        [*((str(part), "") for part in key), *(row.get(name, ("", "")) for name in columns)]
        for key, row in by_key.items()
    ]
    return [*slices, "system", *columns], body


def _text(head: list[str], rows: list[list[tuple[str, str]]], read: str) -> str:
    cells = [[f"{value} {letters}".strip() for value, letters in row] for row in rows]
    return "\n".join([*aligned(head, cells), "", read]) + "\n"


def _markdown(head: list[str], rows: list[list[tuple[str, str]]], read: str) -> str:
    cells = [
        [f"{escape_markdown(value)} <sup>{x}</sup>" if x else escape_markdown(value) for value, x in row]
        for row in rows
    ]
    lines = [[escape_markdown(h) for h in head], ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{read}\n"


def _latex(head: list[str], rows: list[list[tuple[str, str]]], read: str) -> str:
    cells = [[escape_latex(value) + (f"$^{{\\mathrm{{{x}}}}}$" if x else "") for value, x in row] for row in rows]
    lines = [" & ".join(line) + r" \\" for line in cells]
    return "\n".join([
        r"\begin{tabular}{" + "l" * len(head) + "}", r"\hline", " & ".join(map(escape_latex, head)) + r" \\", r"\hline",
        *lines, r"\hline", r"\end{tabular}", "% " + read,
    ]) + "\n"  # fmt: skip
