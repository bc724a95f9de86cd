"""Runs the Python blocks of a page in order, as a notebook would, and puts what they show below them."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import Any

import altair as alt

FENCE = re.compile(r"^```(python|python \w+)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
HOST = re.compile(r"^```(\w+) \w+$", re.MULTILINE)
"""A block that belongs to a host or an engine which this environment lacks: shown, never run."""
MOST_LINES = 40
WIDTH = 100
CHART = (
    alt.Chart, alt.LayerChart, alt.FacetChart, alt.HConcatChart, alt.VConcatChart, alt.ConcatChart, alt.RepeatChart,
)  # fmt: skip


def shown(markdown: str, page: str) -> tuple[str, dict[str, bytes]]:
    """The page with output below every block that has any, and the pictures and reports it made, by their path in the site."""
    files: dict[str, bytes] = {}
    names: dict[str, Any] = {"__name__": page}

    def run(found: re.Match[str]) -> str:
        if found[1] != "python":
            return found[0]
        told = markdown[found.end() :].lstrip("\n").startswith("```text")  # the page itself says what it prints
        return found[0] + ("" if told else _output(_run(found[2], names, page, files)))

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        return HOST.sub(r"```\1", FENCE.sub(run, markdown)), files


def _run(code: str, names: dict[str, Any], page: str, files: dict[str, bytes]) -> list[tuple[str, str]]:
    """What the block shows, in order: text, pictures, reports."""
    told: list[tuple[str, str]] = []
    for node in ast.parse(code).body:
        printed, value = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            if isinstance(node, ast.Expr):
                value = eval(compile(ast.Expression(node.value), page, "eval"), names)
            else:
                exec(compile(ast.Module([node], []), page, "exec"), names)
        if printed.getvalue().strip():
            told.append(("text", printed.getvalue().rstrip()))
        told += _value(value, page, files)
    return told


def _value(value: Any, page: str, files: dict[str, bytes]) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, CHART):
        name = f"figures/{page}-{len(files) + 1}.svg"
        drawn = io.StringIO()
        value.save(drawn, format="svg")
        files[name] = drawn.getvalue().encode()
        return [("picture", name)]
    if isinstance(value, Path) and value.suffix == ".html":
        name = f"figures/{page}-{value.name}"
        files[name] = value.read_bytes()
        return [("report", name)]
    return [("text", value if isinstance(value, str) else repr(value))]


def _output(told: list[tuple[str, str]]) -> str:
    made = [line for kind, text in told if kind == "text" for whole in text.split("\n") for line in _lines(whole)]
    lines = [*made[:MOST_LINES], *([f"... {len(made) - MOST_LINES} more lines"] if len(made) > MOST_LINES else [])]
    parts = ["\n```{.text .output}\n" + "\n".join(lines) + "\n```\n"] if any(made) else []
    for kind, name in told:
        if kind == "picture":
            parts.append(f"\n[![The chart that the code above draws]({name}){{ .figure }}]({name})\n")
        elif kind == "report":
            parts.append(f"\n[Open the report that this wrote]({name}){{ .md-button }}\n")
    return "".join(parts)


def _lines(line: str) -> list[str]:
    """A sentence over as many lines as it takes; a row of a table as it is."""
    sentence = len(line) > WIDTH and "  " not in line and "│" not in line
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ") if sentence else [line]
