"""A result in a notebook, without a network: headline, chart, table, and the meaning of its notes."""

from __future__ import annotations

import contextlib
from html import escape
from typing import Any

from evenhand.errors import EvenhandError, MissingExtraError
from evenhand.findings import Findings
from evenhand.report.charts import registry as charts
from evenhand.report.charts.drawing import drawable_labels
from evenhand.report.pages import VEGA_LITE, chart_page
from evenhand.report.static import can_draw
from evenhand.report.table import html_table
from evenhand.report.words import summary
from evenhand.report.words.headlines import headline_for


def shown(findings: Findings) -> str:
    """HTML for a notebook's cell; every label is escaped, nothing is fetched."""
    findings = drawable_labels(findings)
    lead = picture = ""
    if headline := headline_for(findings):
        uncertainty = f" ({escape(headline.uncertainty)})" if headline.uncertainty else ""
        lead = f"<p><strong>{escape(headline.text)}</strong>{uncertainty}</p>"
    with contextlib.suppress(EvenhandError):  # not every result can be drawn
        picture = f"<div>{as_svg(charts.draw(findings))}</div>"
    notes = "".join(f"<li>{escape(line)}</li>" for line in summary.explained_notes(findings))
    return f"{lead}{picture}{html_table(findings)}{f'<ul>{notes}</ul>' if notes else ''}"


def as_svg(chart: Any) -> str:
    """An Altair chart as SVG."""
    if not can_draw():
        raise MissingExtraError("vl-convert-python", "report")
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=VEGA_LITE, allowed_base_urls=[]))


class Offline:
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


def offline(chart: Any) -> Any:
    """A copy of an Altair chart that a notebook shows without a network."""
    copied = chart.copy(deep=False)
    kind = type(type(chart).__name__, (Offline, type(chart)), {})
    object.__setattr__(copied, "__class__", kind)  # Altair would keep it in the chart as one of its properties
    return copied
