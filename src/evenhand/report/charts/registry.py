"""All kinds of charts by name: `draw` makes one from Findings, `save` writes it to a file.

Importing this module imports the others of this folder, which declare their kinds in KINDS.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import re
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
FIGURE_FORMATS = (".svg", ".png", ".pdf")
VEGA_LITE_MIME = f"application/vnd.vegalite.v{VEGA_LITE.partition('.')[0]}+json"
FIGURE_FONT = 8 / 12
"""Size of the letters of a figure: charts have 12, papers 8 points."""
UNITS_PER_MM = 72 / 25.4 / FIGURE_FONT
LEAST_MM, MOST_MM, LEAST_DPI, MOST_DPI = 30, 1000, 10, 2400
"""A narrower figure has no room beside its labels; a larger one is no page, and its pixels may not fit into memory."""


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


def draw(
    findings: Findings, kind: str | None = None, *, width: float | None = None, height: float | None = None
) -> Any:
    """An Altair chart of these findings that a notebook shows offline; without a kind, the first that fits.

    `width` and `height` are those of each panel, in pixels.
    """
    for name, size in (("width", width), ("height", height)):
        if size is not None and not size > 0:
            raise EvenhandError(f"{name}={size!r} is no length. Pass a number of pixels.")
    chosen, drawn = picture(findings, kind)
    whole = _panels(drawn, width, height)
    line_width = int(width or SIZES.chart_width) // 7  # pixels of a letter
    lines = [line for part in drawn.note.splitlines() for line in textwrap.wrap(part, max(20, line_width))]
    title = alt.TitleParams(chosen.title, **({"subtitle": lines} if lines else {}))
    titled = whole.properties(title=title).configure(**theme(LIGHT))
    shown_offline = type(type(titled).__name__, (_Offline, type(titled)), {})
    object.__setattr__(titled, "__class__", shown_offline)  # Altair would keep it in the chart as one of its properties
    return titled


def _panels(drawn: Picture, width: float | None, height: float | None, columns: int = 2) -> Any:
    panels = []
    for panel in drawn.panels:
        named = {"title": panel.title} if panel.title else {}
        high = height or panel.height
        wide = width or (high if panel.square else SIZES.chart_width)
        panels.append(panel.chart.properties(width=wide, height=high, **named))
    scales = {"color": "independent", "shape": "independent"}
    return panels[0] if len(panels) == 1 else alt.concat(*panels, columns=columns).resolve_scale(**scales)


class _Offline:
    """Mixed into a chart: notebooks that can draw Vega-Lite do so, others show a picture, and nothing is fetched.

    A renderer that the user chose, such as `alt.renderers.enable("jupyter", offline=True)`, is left to Altair.
    """

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
        words = "<evenhand chart; save it with .save('chart.html')>"
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*args, **kwargs)  # type: ignore[misc]
        if can_draw():
            live = {VEGA_LITE_MIME: self.to_dict()}  # type: ignore[attr-defined]
            return {**live, "image/svg+xml": fitted(as_svg(self)), "text/plain": words}
        page = escape(chart_page(self.to_dict()))  # type: ignore[attr-defined]
        return {
            "text/html": f'<iframe srcdoc="{page}" width="100%" height="420" frameborder="0"></iframe>',
            "text/plain": words,
        }


def as_svg(chart: Any) -> str:
    if not can_draw():
        raise MissingExtraError("vl-convert-python", "report")
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=VEGA_LITE, allowed_base_urls=[]))


def fitted(svg: str) -> str:
    """An SVG picture that shrinks with its cell."""
    return svg.replace("<svg ", '<svg style="max-width: 100%; height: auto" ', 1)


def save_figure(
    findings: Findings, path: str | Path, kind: str | None, width_mm: float, height_mm: float | None, dpi: float
) -> Path:
    """Write a chart as a figure of a paper: this wide in all, letters of 8 points, no title (the caption has it)."""
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in FIGURE_FORMATS:
        raise EvenhandError(f"{str(path)!r} is not a figure file. End its name in {', '.join(FIGURE_FORMATS)}.")
    if not all(LEAST_MM <= size <= MOST_MM for size in (width_mm, height_mm or width_mm)):
        raise EvenhandError(f"A figure has {LEAST_MM} to {MOST_MM} mm. Pass other values of width_mm and height_mm.")
    if not LEAST_DPI <= dpi <= MOST_DPI:
        raise EvenhandError(f"dpi={dpi!r} is not a resolution. Pass {LEAST_DPI} to {MOST_DPI}.")
    image = _figure_svg(picture(findings, kind)[1], width_mm * UNITS_PER_MM, (height_mm or 0) * UNITS_PER_MM)
    drawn_width, drawn_height = _svg_size(image)
    unit, scale = ("mm", 1.0) if ending == ".svg" else ("", 72 / 25.4)  # points, of which PDF is made
    for name, length in (("width", width_mm), ("height", width_mm * drawn_height / drawn_width)):
        image = re.sub(rf' {name}="[^"]*"', f' {name}="{length * scale:.2f}{unit}"', image, count=1)
    if ending == ".svg":
        return write_whole(target, image)
    import vl_convert

    pdf = ending == ".pdf"
    return write_whole(target, vl_convert.svg_to_pdf(image) if pdf else vl_convert.svg_to_png(image, ppi=dpi))


def _figure_svg(drawn: Picture, width: float, height: float) -> str:
    """Panels one under the other, `width` (and `height`, unless 0) units in all.

    What axes and legends take of it is measured on the drawing before.
    """
    panels, wide, high = len(drawn.panels), width, height / len(drawn.panels)
    for _ in range(3):  # labels are cut or turned as a chart narrows, which takes another look
        image = as_svg(_panels(drawn, wide, high or None, columns=1).configure(**theme(LIGHT)))
        size = _svg_size(image)
        wide = max(width / 4, wide + width - size[0])
        high = max(height / panels / 4, high + (height - size[1]) / panels) if height else 0.0
    return image


def _svg_size(image: str) -> tuple[float, float]:
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', image)[0]
    return float(width), float(height)


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
