"""One self-contained page that a product manager can be sent: the answer first, everything behind it below.

The page makes no request and says so to the browser (a content security policy). Every word of the user's data goes
through `escape`, or into JSON that no parser can mistake for markup.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from evenhand import __version__
from evenhand.errors import EvenhandError
from evenhand.findings import Findings, label, read_number
from evenhand.report import explorer, reproduce
from evenhand.report import table as tables
from evenhand.report.charts.drawing import Kind, Panel, Picture, drawable_labels
from evenhand.report.charts.lorenz_curves import curves
from evenhand.report.charts.registry import as_svg, draw, fitted, kinds_for
from evenhand.report.charts.theme import PAGE, SIZES, fading, theme
from evenhand.report.pages import asset, document, packed, packed_vega, script, svg
from evenhand.report.words import summary
from evenhand.report.words.phrases import card_of, is_share, metric_title
from evenhand.report.words.sentences import Headline, headline_for, writer_for
from evenhand.report.words.text import dated, excluded, number, percent

MOST_TABLE_ROWS = 250
MOST_UNFOLDED = 100
"""Rows that unfold to their sentence; more would make a page of many slices too large to mail."""
MOST_SENTENCES = 100
MOST_CHART_ROWS = 100
"""Rows of the table behind a chart; of 200 slices more would make a page of over 1 MB."""

SWITCH = (
    '<label class="scripted" hidden>Colours <select id="colours"><option value="">system</option>'
    '<option value="light">light</option><option value="dark">dark</option></select></label>'
)
"""Light or dark, whatever the system says; there only where scripts run."""


def html(findings: Findings, overall: Findings | None = None) -> str:
    """The report on these findings, as one HTML file; `overall` are those without slices."""
    findings = drawable_labels(findings)
    specs: dict[str, Any] = {}
    pictures = {kind: kind.draw(findings) for kind in kinds_for(findings) if kind.reported}
    headline = headline_for(findings)
    first, rest = _first_chart(findings, pictures, specs)
    cautions = summary.cautions(findings)
    care = [line for kind, line in cautions if kind == "care"]
    sections = {
        "answer": ("Answer", _answer(findings, overall, headline, first, care)),
        "sure": ("How sure are we?", "".join(f"<p>{escape(line)}</p>" for kind, line in cautions if kind != "care")),
        "pictures": ("Charts", "".join(rest)),
        "act": ("What to do, and what this cannot say", _side_tables(findings)),
        "table": ("All numbers", _table(findings, overall) + _cards(findings)),
        "dropped": ("Excluded rows", _dropped(findings)),
        "provenance": ("How it was made", _provenance(findings)),
    }
    shown = {name: part for name, part in sections.items() if part[1]}
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, (title, _) in shown.items())
    parts = [_section(name, title, inside) for name, (title, inside) in shown.items()]
    body = [
        '<div class="page">',
        f'<nav aria-label="Contents"><p class="brand">evenhand</p><ol>{links}</ol>{SWITCH}</nav>',
        "<main>",
        *parts,
        "</main></div>",
        f'<footer class="made">Made by evenhand {escape(__version__)}. This page is self-contained and makes no network '
        "requests.</footer>",
    ]
    data = json.dumps({**specs, "theme": theme(PAGE)}, allow_nan=False, separators=(",", ":"))
    scripts = [
        *([packed("data", gzip.compress(data.encode(), 9, mtime=0)), packed_vega()] if specs else []),
        script(asset("report.js")),
    ]
    return document(f"{findings.question} · evenhand", asset("report.css"), body, scripts)


def _led_by_lorenz(findings: Findings) -> bool:
    first = not findings.charts or findings.charts[0] == "lorenz"
    return bool(curves(findings)) and first and not dated(findings)


def _section(name: str, title: str, inside: str) -> str:
    if name == "answer":  # has the title of the page
        return f'<section id="answer" aria-label="{escape(title)}">{inside}</section>'
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>{inside}</section>'


def _answer(
    findings: Findings, overall: Findings | None, headline: Headline | None, chart: str, care: Sequence[str]
) -> str:
    """The first screen: headline with interval, cautions, large figures, first chart, three more sentences, a glossary."""
    short_list = 3  # sentences beside the headline; the others are folded
    every = summary.key_sentences(findings, headline)
    headline = headline or Headline(every[0] if every else "The result has no numbers.")
    more = [*summary.overall_sentence(overall), *(line for line in every if line != headline.text)]
    facts = " · ".join(escape(fact) for fact in summary.facts(findings))
    sure = f'<p class="interval">{escape(headline.uncertainty)}.</p>' if headline.uncertainty else ""
    few = more[:short_list]
    lines = "".join(f"<li>{escape(line)}</li>" for line in few)
    short = f'<h2>In short</h2><ul class="answer">{lines}</ul>' if lines else ""
    terms = "".join(f"<p><dfn>{escape(title)}</dfn> {escape(text)}</p>" for title, text in summary.glossary(findings))
    rest = list(dict.fromkeys([*more[short_list:], *summary.every_sentence(findings, MOST_SENTENCES)]))
    listed = "".join(f"<li>{escape(line)}</li>" for line in rest)
    folded = f"<details><summary>All findings as sentences</summary><ul>{listed}</ul></details>" if rest else ""
    copied = summary.paragraph(findings, [headline.text, *few[:2]], headline.uncertainty, care)
    careful = "".join(f'<p class="care">{escape(line)}</p>' for line in care)
    texts = (
        f'<div class="said">{_figures(findings, overall, headline)}{careful}{short}'
        f'<div class="terms">{terms}</div>{folded}<details><summary>A paragraph to copy</summary>'
        f'<p id="paragraph">{escape(copied)}</p><button class="scripted" id="copy" hidden>Copy</button></details></div>'
    )
    return (
        f'<header><h1>{escape(findings.question)}</h1><p class="lede">{facts}</p></header>'
        f'<p class="verdict">{escape(headline.text)}</p>{sure}'
        f'<div class="first{"" if chart else " alone"}">{texts}{chart}</div>'
    )


def _figures(findings: Findings, overall: Findings | None, headline: Headline) -> str:
    where = ", overall" if overall else ""
    shown = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(text)}{where}</span><small>{escape(interval)}</small></div>"
        for value, text, interval in summary.figures(overall or findings, headline)
    )
    return f'<div class="figures">{shown}</div>' if shown else ""


def _first_chart(findings: Findings, pictures: Mapping[Kind, Picture], specs: dict[str, Any]) -> tuple[str, list[str]]:
    if _led_by_lorenz(findings):
        return _explorer(findings, specs), [_figure(kind, picture, specs) for kind, picture in pictures.items()]
    fitting = [kind for kind, picture in pictures.items() if len(picture.panels) <= 4]
    over_time = [kind for kind in pictures if kind.name == "intervals" and dated(findings)]
    first = next(iter([*over_time, *fitting]), None)
    lead = _figure(first, _lower(pictures[first]), specs, leading=True) if first else ""
    return lead, [_figure(kind, picture, specs) for kind, picture in pictures.items() if kind is not first]


def _lower(picture: Picture) -> Picture:
    """A picture made so low that it ends above the fold of the page."""
    rows = 1 if _stacked(picture) else max(1, math.ceil(len(picture.panels) / 2))  # without panels: nothing to draw
    most = (SIZES.above_fold - (rows - 1) * 60) // rows
    heights = [p.height if _stacked(picture) else min(p.height, most) for p in picture.panels]
    return replace(picture, panels=tuple(replace(p, height=h) for p, h in zip(picture.panels, heights, strict=True)))


def _stacked(picture: Picture) -> bool:
    return len(picture.panels) > 1 and sum(panel.height + 70 for panel in picture.panels) <= SIZES.above_fold


def _explorer(findings: Findings, specs: dict[str, Any]) -> str:
    specs["lorenz-data"] = explorer.data(findings)
    picture = explorer.picture(findings)
    specs["spec-explorer"], legend = _spec(picture.panels[0])
    title = "Who gets how much?"
    drawn = _place("spec-explorer", f"{title} {picture.note}", specs["spec-explorer"], SIZES.lead_width)
    return (
        f'<figure id="explorer"><h2>{title}</h2><div class="panel">{legend}{drawn}</div>'
        f"{explorer.markup(findings)}{_behind(picture, title)}</figure>"
    )


def _figure(kind: Kind, picture: Picture, specs: dict[str, Any], *, leading: bool = False) -> str:
    stacked = len(picture.panels) == 1 or (leading and _stacked(picture))
    width = SIZES.lead_width if leading else SIZES.page_width
    width = width if stacked else SIZES.lead_width // 2 if leading else SIZES.half_width
    panels = "".join(
        _panel(panel, f"{kind.title}. {picture.note}", f"spec-{kind.name}-{i}", specs, width)
        for i, panel in enumerate(picture.panels)
    )
    return (
        f'<figure id="{escape(kind.name)}"><h2>{escape(kind.title)}</h2>'
        f'<div class="panels{" one" if stacked else ""}">{panels}</div>{_behind(picture, kind.title)}</figure>'
    )


def _panel(panel: Panel, text: str, name: str, specs: dict[str, Any], width: int) -> str:
    specs[name], legend = _spec(panel)
    title = f"<h3>{escape(panel.title)}</h3>" if panel.title else ""
    described = ": ".join(filter(None, [panel.title, text]))
    square = " square" if panel.square else ""
    drawn = _place(name, described, specs[name], min(width, SIZES.square_width) if panel.square else width)
    return f'<div class="panel{square}">{title}{legend}{drawn}</div>'


def _place(name: str, described: str, spec: Mapping[str, Any], width: int) -> str:
    """A static chart that scripts replace by a live one; controls such as sliders go below it."""
    bound = f'<div id="{name}-bound"></div>' if any("bind" in p for p in spec.get("params", [])) else ""
    return (
        f'<div role="img" aria-label="{escape(described)}"><div class="draw" aria-hidden="true" id="{name}-chart" data-spec="{name}">'
        f"{svg(spec, width, name)}</div></div>{bound}"
    )


def _spec(panel: Panel) -> tuple[dict[str, Any], str]:
    """A Vega-Lite specification as wide as its place on the page, and its legend as text, which wraps where Vega's does not."""
    spec: dict[str, Any] = panel.chart.properties(width="container", height=panel.height).to_dict(validate=False)
    spec.pop("config", None)
    names: dict[str, None] = {}
    signs: set[str] = set()
    _take_legends(spec, names, signs)
    opacity = fading(len(names)) if "opacity" in signs else [1.0] * len(names)
    keys = "".join(
        f'<li class="key-{i % len(PAGE.series) + 1}" style="--fade:{opacity[i]:.3g}">{escape(name)}</li>'
        for i, name in enumerate(names)
    )
    how = " shaped" if "shape" in signs else " filled" if "opacity" in signs else ""
    return spec, f'<ul class="legend{how}">{keys}</ul>' if keys else ""


def _take_legends(part: Any, names: dict[str, None], signs: set[str]) -> None:
    """Turn off every legend and collect what it would have said, and what tells series apart beside their colour."""
    if isinstance(part, list):
        for inner in part:
            _take_legends(inner, names, signs)
    elif isinstance(part, dict):
        encoding = part.get("encoding", {})
        colour = encoding.get("color", {})
        if colour.get("legend") is not None and "domain" in colour.get("scale", {}):
            names.update(dict.fromkeys(colour["scale"]["domain"]))
            colour["legend"] = None
        for sign in ("shape", "opacity"):
            if encoding.get(sign, {}).get("field") == "series":
                encoding[sign]["legend"] = None
                signs.add(sign)
        for key, inner in part.items():
            if key not in ("data", "encoding", "datasets"):
                _take_legends(inner, names, signs)


def _behind(picture: Picture, title: str) -> str:
    caption = f"<figcaption><p>{escape(picture.note)}</p></figcaption>" if picture.note else ""
    head, rows = list(picture.table), list(zip(*picture.table.values(), strict=True))
    metrics = picture.table.get("metric", [""] * len(rows))
    cells = [[_cell(v, m) for v in row] for row, m in zip(rows, metrics, strict=True)]
    return f"{caption}<details><summary>Data of this chart</summary>{table(head, cells, title, most=MOST_CHART_ROWS)}</details>"


def _cell(value: Any, metric: str = "") -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return percent(float(value)) if metric and is_share(metric) else number(float(value))
    return str(value)


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str,
    hints: Mapping[str, str] | None = None,
    *,
    drawn: Sequence[str] = (),
    unfolded: Sequence[str] = (),
    most: int = MOST_TABLE_ROWS,
) -> str:
    """A table that scrolls in its own box, by the name of `title`; columns of numbers are set to the right.

    Cells that are a key of `hints` show its value as a tooltip. A row begins with its picture in `drawn`, and unfolds to its
    text in `unfolded`.
    """
    hinted = {cell: f'<abbr title="{escape(hint)}">{escape(cell)}</abbr>' for cell, hint in (hints or {}).items()}
    shown = rows[:most]

    def is_numeric(text: str) -> bool:
        return not text or text[0] in "0123456789-−+." or text in ("undefined", "infinite")

    right = [bool(shown) and all(is_numeric(row[i]) for row in shown) for i in range(len(head))]

    def line(tag: str, cells: Sequence[str], picture: str = "", text: str = "") -> str:
        marked = (
            f"<{tag}{' class=n' if r else ''}>{hinted.get(c, escape(c))}</{tag}>"
            for c, r in zip(cells, right, strict=True)
        )
        more = f' data-more="{escape(text)}"' if text else ""
        return f"<tr{more}>{''.join(marked)}{f'<{tag}>{picture}</{tag}>' if drawn else ''}</tr>"

    pictures, texts = [*drawn, *[""] * len(shown)], [*unfolded, *[""] * len(shown)]
    body = "".join(line("td", *cells) for cells in zip(shown, pictures, texts, strict=False))
    rest = len(rows) - len(shown)
    more = f'<p class="note">{rest:,} more rows are in the saved result (JSON or CSV).</p>' if rest > 0 else ""
    if not more and len(shown) > 14:  # rows that fit into the box
        more = f'<p class="note">{len(shown):,} rows; scroll to see them all.</p>'
    search = ""
    if len(shown) > 14:
        search = f'<input type="search" class="scripted find" hidden placeholder="Search" aria-label="Search {escape(title)}">'
    return (
        f'{search}<div class="scroll" tabindex="0" role="group" aria-label="{escape(title)}: table"><table>'
        f"<thead>{line('th', head)}</thead><tbody>{body}</tbody></table></div>{more}"
    )


def _side_tables(findings: Findings) -> str:
    return "".join(
        f"<h3>{escape(side.title)}</h3>{table(side.head, side.rows, side.title) if side.rows else ''}"
        + "".join(f'<p class="note">{escape(line)}</p>' for line in side.notes)
        for side in writer_for(findings).side_tables(findings)
    )


WIDEST = 9
"""Columns of numbers that fit a page of 1280 pixels; the others are behind the row."""


def _with_overall(findings: Findings, overall: Findings | None) -> Findings:
    if overall is None:
        return findings
    blank = {name: ["all" if name in findings.slices else None] * len(overall) for name in findings.columns}
    columns = {name: [*overall.columns.get(name, blank[name]), *column] for name, column in findings.columns.items()}
    return replace(findings, columns=columns)


def _table(findings: Findings, overall: Findings | None) -> str:
    """All numbers, each with its interval drawn; a row unfolds to its sentence and the columns that have no room."""
    findings, first = _with_overall(findings, overall), 0 if overall is None else len(overall)
    head, rows = tables.readable(findings)
    said_above = summary.WARNINGS
    reasons = "".join(f'<p class="note">{escape(line)}</p>' for line in summary.explained_notes(findings, said_above))
    hints = {
        metric: f"{metric_title(metric)}: {card.asks}" for metric in findings.metrics() if (card := card_of(metric))
    }
    hints |= summary.note_hints(findings)
    shown = tables.shown_rows(findings)
    pictures = _interval_bars(shown[:MOST_TABLE_ROWS])
    basic = {*findings.slices, "metric", "group", "estimate", "interval", "chance", "p_adjusted", "units", "note"}
    visible = [i for i, name in enumerate(head) if len(head) <= WIDEST or name in basic]
    behind = [
        "; ".join(f"{head[i].replace('_', ' ')} {row[i]}" for i in range(len(head)) if i not in visible and row[i])
        for row in rows[:MOST_TABLE_ROWS]
    ]
    few = "estimate" in findings.columns and len(rows) <= MOST_UNFOLDED
    of_rows = [(findings if i >= first else overall or findings, row) for i, row in enumerate(shown[: len(behind)])]
    lines = [writer_for(source).sentence(source, row) if few else "" for source, row in of_rows]
    unfolded = [" ".join(filter(None, [line, more])) for line, more in zip(lines, behind, strict=True)]
    cells = [[row[i] for i in visible] for row in rows]
    names = [head[i] for i in visible]
    numbers = table(names, cells, "All numbers", hints, drawn=pictures, unfolded=unfolded)
    return f"{numbers}{reasons}"


def _interval_bars(rows: Sequence[Mapping[str, Any]], width: int = 96) -> list[str]:
    """Interval, estimate and chance of each row as a small picture; rows of a metric share a scale."""
    if not rows or "estimate" not in rows[0]:
        return []
    ends: dict[str, list[float]] = {}
    for r in rows:
        values = (read_number(r.get(name)) for name in ("estimate", "low", "high", "chance"))
        ends.setdefault(r["metric"], []).extend(v for v in values if math.isfinite(v))

    def bar(r: Mapping[str, Any]) -> str:
        least, span = min(ends[r["metric"]], default=0.0), max(ends[r["metric"]], default=0.0)
        at = {
            name: round(4 + (width - 8) * (v - least) / ((span - least) or 1), 1)
            for name in ("estimate", "low", "high", "chance")
            if math.isfinite(v := read_number(r.get(name)))
        }
        if "estimate" not in at:
            return ""
        whole = f'<path d="M{at["low"]} 7H{at["high"]}"/>' if {"low", "high"} <= at.keys() else ""
        tick = f'<path class="c" d="M{at["chance"]} 2V12"/>' if "chance" in at else ""
        point = f'<circle cx="{at["estimate"]}" cy="7" r="3"/>'
        return f'<svg class="bar" width="{width}" height="14" aria-hidden="true">{whole}{tick}{point}</svg>'

    return [bar(r) for r in rows]


def _cards(findings: Findings) -> str:
    cards = ""
    for facts in summary.cards(findings):
        rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in facts.terms.items())
        others = "".join(f"<li>{escape(line)}</li>" for line in facts.variants)
        differ = f"<details><summary>How other tools differ</summary><ul>{others}</ul></details>" if others else ""
        cards += (
            f'<div class="card"><h4>{escape(facts.title)}</h4><p>{escape(facts.asks)}</p><dl>{rows}</dl>{differ}</div>'
        )
    return f'<h3 id="cards">What the numbers mean</h3><div class="cards">{cards}</div>' if cards else ""


def _dropped(findings: Findings) -> str:
    dropped = findings.provenance.get("dropped") or {}
    lost = "<p>No row was dropped.</p>"
    if dropped:
        cells = [[label(why), number(float(many))] for why, many in dropped.items()]
        lost = table(["why", "rows"], cells, "Excluded rows")
    if outside := excluded(findings):
        lost = f"<p>{escape(outside)}</p>" + (lost if dropped else "")
    return lost if "dropped" in findings.provenance or outside else ""


def _provenance(findings: Findings) -> str:
    facts = "".join(
        f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in summary.origin(findings).items()
    )
    commands = "".join(f"<p>{escape(intro)}</p><pre>{escape(text)}</pre>" for intro, text in reproduce.ways(findings))
    remake = f'<h3 id="again">Reproduce it</h3>{commands}' if commands else ""
    return f'{remake}<h3>Where the numbers come from</h3><dl class="facts">{facts}</dl>'


def notebook_html(findings: Findings) -> str:
    """A result in a notebook's cell: headline, chart, table and notes; every label is escaped, nothing is fetched."""
    findings = drawable_labels(findings)
    lead = picture = ""
    if headline := headline_for(findings):
        lead = f"<p><strong>{escape(headline.text)}</strong> {escape(headline.uncertainty)}</p>"
    with contextlib.suppress(EvenhandError):  # not every result can be drawn
        picture = f"<div>{fitted(as_svg(draw(findings)))}</div>"
    notes = "".join(f"<li>{escape(line)}</li>" for line in summary.explained_notes(findings))
    return f"{lead}{picture}{tables.html_table(findings)}{f'<ul>{notes}</ul>' if notes else ''}"


TILES_CSS = """
.tiles { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); margin-top: 1.5rem; }
.tile { border: 1px solid var(--grid); border-radius: .6rem; padding: 1rem 1.15rem; display: flex; flex-direction: column; gap: .5rem; }
.tile h2 { font-size: 1.1rem; margin: 0; }
.tile a { color: inherit; }
.tile .verdict { font-size: 1rem; margin: 0; }
.tile pre { margin: auto 0 0; font-size: .78rem; }
.page { display: block; }
"""


@dataclass(frozen=True, slots=True)
class Tile:
    """One report in a gallery: its title, the findings, the file of the report, the command that made it."""

    title: str
    findings: Findings
    link: str
    command: str


def gallery(tiles: Sequence[Tile], next_steps: Sequence[tuple[str, str]]) -> str:
    """One page over several reports; `next_steps` are pairs of a sentence and a command to try on one's own data."""
    shown = "".join(_tile(tile, number) for number, tile in enumerate(tiles, start=1))
    typed = "".join(f"<p>{escape(text)}</p><pre>{escape(command)}</pre>" for text, command in next_steps)
    body = [
        '<div class="page"><main><header><h1>evenhand: a tour</h1>',
        '<p class="verdict">Who gets seen, and is it even-handed? Every kind of audit, on generated data.</p></header>',
        f'<div class="tiles">{shown}</div>',
        f'<section aria-labelledby="own"><h2 id="own">For your own data</h2>{typed}</section></main></div>',
    ]
    ready = script("document.body.dataset.ready = '';")
    return document("evenhand: a tour", asset("report.css") + TILES_CSS, body, [ready])


def _tile(tile: Tile, number: int) -> str:
    findings = drawable_labels(tile.findings)
    pictures = [kind.draw(findings) for kind in kinds_for(findings) if kind.reported]
    headline = headline_for(findings)
    if headline is None:
        lines = summary.key_sentences(findings)
        headline = Headline(lines[0] if lines else "")
    first = explorer.picture(findings) if _led_by_lorenz(findings) else next(iter(pictures), None)
    chart = ""
    if first is not None:
        panel = first.panels[-1] if headline.where and headline.where in first.panels[-1].title else first.panels[0]
        spec, legend = _spec(replace(panel, height=min(panel.height, SIZES.thumbnail)))
        described = escape(f"{tile.title} {headline.text}")
        drawn = f"{legend}{svg(spec, SIZES.lead_width, f'tile-{number}')}"
        chart = f'<div role="img" aria-label="{described}"><div class="draw" aria-hidden="true">{drawn}</div></div>'
    return (
        f'<article class="tile"><h2><a href="{escape(tile.link)}">{escape(tile.title)}</a></h2>'
        f'<p class="verdict">{escape(headline.text)}</p>{chart}<pre>{escape(tile.command)}</pre></article>'
    )
