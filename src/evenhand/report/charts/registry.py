"""All kinds of charts by name: `draw` makes one from Findings, `save` writes it to a file.

Importing this module imports the others of this folder, which declare their kinds in KINDS.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import textwrap
from html import escape
from pathlib import Path
from typing import Any

import altair as alt

import evenhand.report.charts
from evenhand.errors import EvenhandError, MissingExtraError, unknown_name
from evenhand.findings import Findings
from evenhand.report.charts.drawing import KINDS, Kind, Picture, drawable_labels
from evenhand.report.charts.theme import LIGHT, SIZES, theme
from evenhand.report.files import write_whole
from evenhand.report.pages import VEGA_LITE, can_draw, chart_page

for _module in sorted(m.name for m in pkgutil.iter_modules(evenhand.report.charts.__path__)):
    importlib.import_module(f"evenhand.report.charts.{_module}")

FORMATS = (".svg", ".png", ".html")


def kinds_for(findings: Findings) -> list[Kind]:
    """The kinds that can draw these findings: those of the audit, in its order; else those that fit any result."""
    named = findings.charts or [kind.name for kind in KINDS.values() if kind.general]
    return [KINDS[name] for name in named if name in KINDS and not KINDS[name].problem(findings)]


def picture(findings: Findings, kind: str | None = None) -> tuple[Kind, Picture]:
    """The chosen kind (the first that fits, without one) and its picture."""
    findings = drawable_labels(findings)
    names = [k.name for k in kinds_for(findings)]
    if not names:
        raise EvenhandError(f"No chart fits this {findings.audit} result. Read its frame instead.")
    name = names[0] if kind is None else kind
    if name not in KINDS:
        raise unknown_name("kind", name, names, what="a kind of chart for this result")
    if problem := KINDS[name].problem(findings):
        raise EvenhandError(f"kind={kind!r} cannot draw this result: {problem}. Kinds that can: {', '.join(names)}.")
    return KINDS[name], KINDS[name].draw(findings)


def draw(findings: Findings, kind: str | None = None) -> Any:
    """An Altair chart of these findings that a notebook shows offline; without a kind, the first that fits."""
    chosen, drawn = picture(findings, kind)
    panels = []
    for panel in drawn.panels:
        named = {"title": panel.title} if panel.title else {}
        width = panel.height if panel.square else SIZES.chart_width
        panels.append(panel.chart.properties(width=width, height=panel.height, **named))
    scales = {"color": "independent", "shape": "independent"}
    whole = panels[0] if len(panels) == 1 else alt.concat(*panels, columns=2).resolve_scale(**scales)
    lines = [line for part in drawn.note.splitlines() for line in textwrap.wrap(part, SIZES.chart_width // 7)]
    title = alt.TitleParams(chosen.title, **({"subtitle": lines} if lines else {}))
    titled = whole.properties(title=title).configure(**theme(LIGHT))
    shown_offline = type(type(titled).__name__, (_Offline, type(titled)), {})
    object.__setattr__(titled, "__class__", shown_offline)  # Altair would keep it in the chart as one of its properties
    return titled


class _Offline:
    """Mixed into a chart: it shows itself as a picture, where Altair would fetch scripts from the network."""

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, Any]:
        words = "<evenhand chart; save it with .save('chart.html')>"
        if can_draw():
            return {"image/svg+xml": as_svg(self), "text/plain": words}
        page = escape(chart_page(self.to_dict()))  # type: ignore[attr-defined]
        return {
            "text/html": f'<iframe srcdoc="{page}" width="100%" height="420" frameborder="0"></iframe>',
            "text/plain": words,
        }


def as_svg(chart: Any) -> str:
    """A chart as the text of an SVG picture."""
    if not can_draw():
        raise MissingExtraError("vl-convert-python", "report")
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=VEGA_LITE, allowed_base_urls=[]))


def save(chart: Any, path: str | Path) -> Path:
    """Write a chart atomically as .svg, .png or .html (one file that needs no network)."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise EvenhandError(f"{str(path)!r} is not a picture file. End its name in {', '.join(FORMATS)}.")
    if kind == ".html":
        return write_whole(target, chart_page(chart.to_dict()))
    if kind == ".svg":
        return write_whole(target, as_svg(chart))
    if not can_draw():
        raise MissingExtraError("vl-convert-python", "report")
    with io.BytesIO() as out:
        chart.save(out, format="png", scale_factor=2)
        return write_whole(target, out.getvalue())
