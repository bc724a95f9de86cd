"""One self-contained page that a product manager can be sent: the answer first, everything behind it below.

The page makes no request and says so to the browser (a content security policy). Every word of the user's data goes
through `escape`, or into JSON that no parser can mistake for markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from evenhand import __version__
from evenhand.findings import Findings, label
from evenhand.present import again, explorer, summary, tables
from evenhand.present.charts import kinds_for
from evenhand.present.drawing import Kind, Panel, Picture, speakable
from evenhand.present.lorenz import curves
from evenhand.present.pages import asset, data_script, document, script, vega
from evenhand.present.phrases import is_share
from evenhand.present.tellers import teller
from evenhand.present.text import left_out, number, percent
from evenhand.present.theme import MOST_SERIES, PAGE, theme

MOST_TABLE_ROWS = 500
MOST_SENTENCES = 200
TALL = 14
"""Rows that fit into the box of a table; below it, the page says that there are more."""


def html(findings: Findings) -> str:
    """The report on these findings, as one HTML file."""
    findings = speakable(findings)
    specs: dict[str, Any] = {}
    pictures = {kind: kind.draw(findings) for kind in kinds_for(findings) if kind.reported}
    body = [
        _head(findings),
        _answer(findings, [picture.says for picture in pictures.values() if picture.lead]),
        *_explorer(findings, specs),
        *(_figure(kind, picture, specs) for kind, picture in pictures.items()),
        *_asides(findings),
        _table(findings),
        _cards(findings),
        _provenance(findings),
        f'<p class="made">Made by evenhand {escape(__version__)}. This page is complete in itself and asks nothing of any network.</p>',
    ]
    return document(
        f"{findings.question} · evenhand", asset("report.css"), ["<main>", *body, "</main>"], _scripts(specs)
    )


def _scripts(specs: Mapping[str, Any]) -> list[str]:
    if not specs:
        return [script("document.body.dataset.ready = '';")]
    held = [data_script(name, spec) for name, spec in {**specs, "theme": theme(PAGE)}.items()]
    return [*held, script(vega()), script(asset("report.js"))]


def _head(findings: Findings) -> str:
    facts = " · ".join(escape(fact) for fact in summary.facts(findings))
    return f'<header><h1>{escape(findings.question)}</h1><p class="lede">{facts}</p></header>'


def _answer(findings: Findings, leads: Sequence[str]) -> str:
    """What was found, in sentences to quote, and how far to trust it."""
    short = summary.headlines(findings, leads)
    lines = "".join(f"<li>{escape(line)}</li>" for line in short)
    every = summary.every_sentence(findings, MOST_SENTENCES)
    more = ""
    if not set(every) <= set(short):
        items = "".join(f"<li>{escape(line)}</li>" for line in every)
        more = f"<details><summary>Every finding as a sentence</summary><ul>{items}</ul></details>"
    sure = "".join(f'<p class="{kind}">{escape(line)}</p>' for kind, line in summary.caution(findings))
    return f'<section id="answer"><h2>In short</h2><ul class="answer">{lines}</ul><div class="sure">{sure}</div>{more}</section>'


def _explorer(findings: Findings, specs: dict[str, Any]) -> list[str]:
    if not curves(findings):
        return []
    specs["lorenz-data"] = explorer.data(findings)
    picture = explorer.picture(findings)
    specs["spec-explorer"], legend = _spec(picture.panels[0])
    figure = (
        '<figure id="explorer"><h2>Who holds how much?</h2>'
        '<p class="note">Move the handle, or drag on the chart: how much do the few at the top hold?</p>'
        f'<div class="explore">{explorer.markup(findings)}'
        f'<div class="panel square">{legend}{_place("spec-explorer", escape(picture.says))}</div></div>'
        f"{_behind(picture)}</figure>"
    )
    return [figure]


def _figure(kind: Kind, picture: Picture, specs: dict[str, Any]) -> str:
    panels = "".join(_panel(panel, picture, f"spec-{kind.name}-{i}", specs) for i, panel in enumerate(picture.panels))
    lone = " one" if len(picture.panels) == 1 else ""
    return (
        f'<figure id="{escape(kind.name)}"><h2>{escape(kind.title)}</h2>'
        f'<div class="panels{lone}">{panels}</div>{_behind(picture)}</figure>'
    )


def _panel(panel: Panel, picture: Picture, name: str, specs: dict[str, Any]) -> str:
    specs[name], legend = _spec(panel)
    title = f"<h3>{escape(panel.title)}</h3>" if panel.title else ""
    described = escape(": ".join(filter(None, [panel.title, picture.says])))
    square = " square" if panel.square else ""
    return f'<div class="panel{square}">{title}{legend}{_place(name, described)}</div>'


def _place(name: str, described: str) -> str:
    """Where a chart will stand; Vega takes over its own element, so the description is on the one around it."""
    return (
        f'<div role="img" aria-label="{described}"><div class="draw" id="{name}-chart" data-spec="{name}"></div></div>'
    )


def _spec(panel: Panel) -> tuple[dict[str, Any], str]:
    """A Vega-Lite specification as wide as its place on the page, and its legend as text, which wraps where Vega's does not."""
    spec: dict[str, Any] = panel.chart.properties(width="container", height=panel.height).to_dict(validate=False)
    spec.pop("config", None)
    names: dict[str, None] = {}
    _take_legends(spec, names)
    keys = "".join(f'<li class="key-{i % MOST_SERIES + 1}">{escape(name)}</li>' for i, name in enumerate(names))
    return spec, f'<ul class="legend">{keys}</ul>' if keys else ""


def _take_legends(part: Any, names: dict[str, None]) -> None:
    """Turn off every colour legend and collect what it would have said."""
    if isinstance(part, list):
        for inner in part:
            _take_legends(inner, names)
    elif isinstance(part, dict):
        colour = part.get("encoding", {}).get("color", {}) if "encoding" in part else {}
        if colour.get("legend") is not None and "domain" in colour.get("scale", {}):
            names.update(dict.fromkeys(colour["scale"]["domain"]))
            colour["legend"] = None
        for key, inner in part.items():
            if key not in ("data", "encoding", "datasets"):
                _take_legends(inner, names)


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
    if not more and len(shown) > TALL:
        more = f'<p class="note">{len(shown):,} rows: scroll for the rest.</p>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="table"><table><thead>{line("th", head)}</thead>'
        f"<tbody>{body}</tbody></table></div>{more}"
    )


def _numeric(text: str) -> bool:
    return not text or text[0] in "0123456789-−+." or text in ("undefined", "infinite")


def _asides(findings: Findings) -> list[str]:
    """Tables that help to act on the findings: who can fix what, what the test cannot say."""
    return [
        f'<section class="aside"><h2>{escape(aside.title)}</h2>{table(aside.head, aside.rows) if aside.rows else ""}'
        + "".join(f'<p class="note">{escape(line)}</p>' for line in aside.says)
        + "</section>"
        for aside in teller(findings).asides(findings)
    ]


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
    if outside := left_out(findings):
        lost = f"<p>{escape(outside)}</p>" + (lost if dropped else "")
    commands = "".join(f"<p>{escape(intro)}</p><pre>{escape(text)}</pre>" for intro, text in again.ways(findings))
    known = "dropped" in findings.provenance or outside
    return (
        (f'<section id="dropped"><h2>What was left out, and why</h2>{lost}</section>' if known else "")
        + f'<section id="provenance"><h2>Where the numbers come from</h2><dl class="facts">{facts}</dl></section>'
        + (f'<section id="again"><h2>Make it again</h2>{commands}</section>' if commands else "")
    )
