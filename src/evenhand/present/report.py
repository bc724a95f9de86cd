"""One self-contained page that a product manager can be sent: the answer first, everything behind it below.

The page makes no request and says so to the browser (a content security policy). Every word of the user's data goes
through `escape`, or into JSON that no parser can mistake for markup.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from evenhand import __version__
from evenhand.findings import Findings, label
from evenhand.present import again, explorer, summary, tables
from evenhand.present.charts import kinds_for
from evenhand.present.drawing import Panel, Picture, is_share
from evenhand.present.lorenz import curves
from evenhand.present.text import number, percent
from evenhand.present.theme import DARK, LIGHT, PAGE, Colours, theme

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
MOST_TABLE_ROWS = 500
MOST_SENTENCES = 200
VEGA_LITE = "6.4"
"""The version that Altair writes for."""


def html(findings: Findings) -> str:
    """The report on these findings, as one HTML file."""
    specs: dict[str, Any] = {}
    body = [
        _head(findings),
        _answer(findings),
        *_explorer(findings, specs),
        *_figures(findings, specs),
        _table(findings),
        _cards(findings),
        _provenance(findings),
        f'<p class="made">Made by evenhand {escape(__version__)}. This page is complete in itself and asks nothing of any network.</p>',
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(findings.question)} · evenhand</title>",
            '<link rel="icon" href="data:,">',
            f"<style>{_style()}</style></head><body><main>",
            *body,
            "</main>",
            *_scripts(specs),
            "</body></html>",
        ]
    )


def _style() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{ {_variables(DARK)} }}"
    return "\n".join([_variables(LIGHT), dark, _asset("report.css")])


def _variables(colours: Colours) -> str:
    named = {"ink": colours.ink, "muted": colours.muted, "grid": colours.grid, "paper": colours.paper}
    named |= {f"series-{i}": colour for i, colour in enumerate(colours.series, start=1)}
    return ":root { " + " ".join(f"--{name}: {colour};" for name, colour in named.items()) + " }"


def _asset(name: str) -> str:
    return (resources.files("evenhand.present") / "page" / name).read_text(encoding="utf-8")


@functools.cache
def _vega() -> str:
    """Vega, Vega-Lite and Embed as one script; making it takes seconds, so once per process."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE))
    return bundle.replace("</script", "<\\/script")


def embedded(value: Any) -> str:
    r"""JSON that can stand inside a script element, whatever the labels hold.

    >>> print(embedded("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _scripts(specs: Mapping[str, Any]) -> list[str]:
    if not specs:
        return ["<script>document.body.dataset.ready = '';</script>"]
    held = [f'<script type="application/json" id="{name}">{embedded(spec)}</script>' for name, spec in specs.items()]
    configuration = f'<script type="application/json" id="theme">{embedded(theme(PAGE))}</script>'
    return [*held, configuration, f"<script>{_vega()}</script>", f"<script>{_asset('report.js')}</script>"]


def _head(findings: Findings) -> str:
    facts = " · ".join(escape(fact) for fact in summary.facts(findings))
    return f'<header><h1>{escape(findings.question)}</h1><p class="lede">{facts}</p></header>'


def _answer(findings: Findings) -> str:
    """What was found, in sentences to quote, and how far to trust it."""
    lines = "".join(f"<li>{escape(line)}</li>" for line in summary.headlines(findings))
    every = summary.every_sentence(findings, MOST_SENTENCES)
    more = ""
    if every:
        items = "".join(f"<li>{escape(line)}</li>" for line in every)
        more = f"<details><summary>Every finding as a sentence</summary><ul>{items}</ul></details>"
    sure = "".join(f'<p class="{kind}">{escape(line)}</p>' for kind, line in summary.caution(findings))
    return f'<section id="answer"><h2>In short</h2><ul class="answer">{lines}</ul><div class="sure">{sure}</div>{more}</section>'


def _explorer(findings: Findings, specs: dict[str, Any]) -> list[str]:
    if not curves(findings):
        return []
    specs["lorenz-data"] = explorer.data(findings)
    picture = explorer.picture(findings)
    specs["spec-explorer"] = _spec(picture.panels[0])
    figure = (
        '<figure id="explorer"><h2>Who holds how much?</h2>'
        '<p class="note">Move the handle, or drag on the chart: how much do the few at the top hold?</p>'
        f'<div class="explore">{explorer.markup(findings)}'
        '<div class="panel square"><div class="draw" id="explorer-chart" data-spec="spec-explorer" role="img" '
        f'aria-label="{escape(picture.says)}"></div></div></div>{_behind(picture)}</figure>'
    )
    return [figure]


def _figures(findings: Findings, specs: dict[str, Any]) -> Iterable[str]:
    for kind in kinds_for(findings):
        if not kind.reported:
            continue
        picture = kind.draw(findings)
        panels = "".join(
            _panel(panel, picture, f"spec-{kind.name}-{i}", specs) for i, panel in enumerate(picture.panels)
        )
        lone = " one" if len(picture.panels) == 1 else ""
        yield (
            f'<figure id="{escape(kind.name)}"><h2>{escape(kind.title)}</h2>'
            f'<div class="panels{lone}">{panels}</div>{_behind(picture)}</figure>'
        )


def _panel(panel: Panel, picture: Picture, name: str, specs: dict[str, Any]) -> str:
    specs[name] = _spec(panel)
    title = f"<h3>{escape(panel.title)}</h3>" if panel.title else ""
    described = escape(": ".join(filter(None, [panel.title, picture.says])))
    square = " square" if panel.square else ""
    return f'<div class="panel{square}">{title}<div class="draw" data-spec="{name}" role="img" aria-label="{described}"></div></div>'


def _spec(panel: Panel) -> dict[str, Any]:
    """A Vega-Lite specification as wide as its place on the page; the theme is the page's."""
    spec: dict[str, Any] = panel.chart.properties(width="container", height=panel.height).to_dict()
    spec.pop("config", None)
    return spec


def _behind(picture: Picture) -> str:
    """Caption and table of a chart."""
    said = f"<figcaption><p>{escape(picture.note or picture.says)}</p></figcaption>"
    head, rows = list(picture.table), list(zip(*picture.table.values(), strict=True))
    metrics = picture.table.get("metric", [""] * len(rows))
    cells = [[_cell(v, m) for v in row] for row, m in zip(rows, metrics, strict=True)]
    return f"{said}<details><summary>The numbers behind this chart</summary>{table(head, cells)}</details>"


def _cell(value: Any, metric: str = "") -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return percent(float(value)) if metric and is_share(metric) else number(float(value))
    return str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls in its own box; columns of numbers are set to the right."""
    shown = rows[:MOST_TABLE_ROWS]
    right = [bool(shown) and all(_numeric(row[i]) for row in shown) for i in range(len(head))]

    def line(tag: str, cells: Sequence[str]) -> str:
        marked = (f"<{tag}{' class=n' if r else ''}>{escape(c)}</{tag}>" for c, r in zip(cells, right, strict=True))
        return f"<tr>{''.join(marked)}</tr>"

    body = "".join(line("td", row) for row in shown)
    rest = len(rows) - len(shown)
    more = f'<p class="note">{rest:,} more rows are in the saved result (JSON or CSV).</p>' if rest > 0 else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="table"><table><thead>{line("th", head)}</thead>'
        f"<tbody>{body}</tbody></table></div>{more}"
    )


def _numeric(text: str) -> bool:
    return not text or text[0] in "0123456789-−+." or text in ("undefined", "infinite")


def _table(findings: Findings) -> str:
    head, rows = tables.readable(findings)
    reasons = "".join(f'<p class="note">{escape(line)}</p>' for line in summary.codes(findings))
    return f'<section id="table"><h2>All numbers</h2>{table(head, rows)}{reasons}</section>'


def _cards(findings: Findings) -> str:
    cards = "".join(_card(facts) for facts in summary.cards(findings))
    return (
        f'<section id="cards"><h2>What the numbers mean</h2><div class="cards">{cards}</div></section>' if cards else ""
    )


def _card(facts: summary.CardFacts) -> str:
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in facts.terms.items())
    others = "".join(f"<li>{escape(line)}</li>" for line in facts.variants)
    differ = f"<details open><summary>How other tools differ</summary><ul>{others}</ul></details>" if others else ""
    return (
        f'<article class="card"><h3>{escape(facts.title)}</h3><p>{escape(facts.asks)}</p>'
        f"<dl>{rows}</dl>{differ}</article>"
    )


def _provenance(findings: Findings) -> str:
    """What was read, what was dropped and why, and how to make the same numbers again."""
    facts = "".join(
        f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in summary.origin(findings).items()
    )
    dropped = findings.provenance.get("dropped") or {}
    lost = (
        table(["why", "rows"], [[label(why), number(float(many))] for why, many in dropped.items()])
        if dropped
        else "<p>No row was dropped.</p>"
    )
    commands = "".join(f"<p>{escape(intro)}</p><pre>{escape(text)}</pre>" for intro, text in again.ways(findings))
    return (
        f'<section id="dropped"><h2>What was left out, and why</h2>{lost}</section>'
        f'<section id="provenance"><h2>Where the numbers come from</h2><dl class="facts">{facts}</dl></section>'
        + (f'<section id="again"><h2>Make it again</h2>{commands}</section>' if commands else "")
    )
