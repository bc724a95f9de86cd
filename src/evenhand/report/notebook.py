"""A result as a notebook shows it, with or without a network: the sentence, the picture, the table, what its notes mean."""

from __future__ import annotations

from html import escape
from typing import Any

from evenhand.errors import EvenhandError, MissingExtraError
from evenhand.findings import Findings
from evenhand.report.charts import drawn as charts
from evenhand.report.charts.drawing import speakable
from evenhand.report.pages import VEGA_LITE, chart_page
from evenhand.report.static import can_draw
from evenhand.report.table import html_table
from evenhand.report.words import summary
from evenhand.report.words.headlines import verdict


def shown(findings: Findings) -> str:
    """HTML for a notebook's cell; every label is escaped, nothing is fetched."""
    findings = speakable(findings)
    told = verdict(findings)
    lead = (
        f"<p><strong>{escape(told.says)}</strong>{f' ({escape(told.sure)})' if told.sure else ''}</p>" if told else ""
    )
    notes = "".join(f"<li>{escape(line)}</li>" for line in summary.codes(findings))
    return f"{lead}{_picture(findings)}{html_table(findings)}{f'<ul>{notes}</ul>' if notes else ''}"


def _picture(findings: Findings) -> str:
    try:
        return f"<div>{still(charts.draw(findings))}</div>"
    except EvenhandError:  # not every result can be drawn
        return ""


def still(chart: Any) -> str:
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
            return {"image/svg+xml": still(self), "text/plain": words}
        page = escape(chart_page(self.to_dict()))  # type: ignore[attr-defined]
        return {
            "text/html": f'<iframe srcdoc="{page}" width="100%" height="420" frameborder="0"></iframe>',
            "text/plain": words,
        }


def offline(chart: Any) -> Any:
    """The same Altair chart, which needs no network to be seen in a notebook."""
    found = chart.copy(deep=False)
    kind = type(type(chart).__name__, (Offline, type(chart)), {})
    object.__setattr__(found, "__class__", kind)  # Altair would keep it in the chart as one of its properties
    return found
