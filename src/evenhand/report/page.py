"""One self-contained page that a product manager can be sent: the answer first, everything behind it below.

The page makes no request and says so to the browser (a content security policy). Every word of the user's data goes
through `escape`, or into JSON that no parser can mistake for markup.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from evenhand import __version__
from evenhand.findings import Findings, label
from evenhand.report import explorer
from evenhand.report import reproduce as again
from evenhand.report import static as still
from evenhand.report import table as tables
from evenhand.report.charts.drawing import Kind, Panel, Picture, dated, speakable
from evenhand.report.charts.drawn import kinds_for
from evenhand.report.charts.lorenz_curves import curves
from evenhand.report.charts.theme import FAINTEST, MOST_SERIES, PAGE, theme
from evenhand.report.pages import asset, document, packed, packed_vega, script
from evenhand.report.words import summary
from evenhand.report.words.headlines import Verdict, verdict
from evenhand.report.words.phrases import card_of, is_share, metric_title
from evenhand.report.words.sentences import teller
from evenhand.report.words.text import left_out, number, percent

MOST_TABLE_ROWS = 500
MOST_SENTENCES = 200
TALL = 14
"""Rows that fit into the box of a table; below it, the page says that there are more."""

SHORT = 3
"""Findings said beside the verdict; the others are folded."""

FOLD = 400
"""Pixels that the first picture may be high, so that it ends above the fold of a small laptop."""

MOST_LEADING = 4
"""Panels of the first picture."""

LEAD_WIDTH = 520
EXPLORER_WIDTH = 520
SQUARE = 500
THUMB = 260

SWITCH = (
    '<label class="scripted" hidden>Colours <select id="colours"><option value="">as the system</option>'
    '<option value="light">light</option><option value="dark">dark</option></select></label>'
)
"""Light or dark, whatever the system says; there only where scripts run."""


def html(findings: Findings) -> str:
    """The report on these findings, as one HTML file."""
    findings = speakable(findings)
    specs: dict[str, Any] = {}
    pictures = {kind: kind.draw(findings) for kind in kinds_for(findings) if kind.reported}
    told = verdict(findings)
    leads = [p.says for kind, p in pictures.items() if p.lead and not (told and told.tells == kind.name)]
    first, rest = _lead(findings, pictures, specs)
    sections = {
        "answer": ("Answer", _answer(findings, told, leads, first)),
        "sure": ("How sure are we?", _sure(findings)),
        "pictures": ("Pictures", "".join(rest)),
        "act": ("What to do, and what this cannot say", _asides(findings)),
        "table": ("All numbers", _table(findings) + _cards(findings)),
        "dropped": ("What was left out, and why", _dropped(findings)),
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
        f'<footer class="made">Made by evenhand {escape(__version__)}. This page is complete in itself and asks nothing of any '
        "network.</footer>",
    ]
    return document(f"{findings.question} · evenhand", asset("report.css"), body, _scripts(specs))


def thumbnail(findings: Findings, name: str) -> tuple[str, str]:
    """The sentence and the first picture of a report, which stands still (nothing where there is none)."""
    findings = speakable(findings)
    pictures = {kind: kind.draw(findings) for kind in kinds_for(findings) if kind.reported}
    told = verdict(findings)
    says = (
        told.says
        if told
        else next(iter(summary.headlines(findings, [p.says for p in pictures.values() if p.lead])), "")
    )
    first = explorer.picture(findings) if _led_by_lorenz(findings) else next(iter(pictures.values()), None)
    if first is None:
        return says, ""
    panel = first.panels[-1] if told and told.where and told.where in first.panels[-1].title else first.panels[0]
    spec, legend = _spec(replace(panel, height=min(panel.height, THUMB)))
    return says, f"{legend}{still.svg(spec, LEAD_WIDTH, name)}"


def _led_by_lorenz(findings: Findings) -> bool:
    first = not findings.charts or findings.charts[0] == "lorenz"
    return bool(curves(findings)) and first and not dated(findings)


def _section(name: str, title: str, inside: str) -> str:
    if name == "answer":  # has the title of the page
        return f'<section id="answer" aria-label="{escape(title)}">{inside}</section>'
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>{inside}</section>'


def _scripts(specs: Mapping[str, Any]) -> list[str]:
    held = json.dumps({**specs, "theme": theme(PAGE)}, allow_nan=False, separators=(",", ":"))
    drawn = [packed("data", held), packed_vega()] if specs else []
    return [*drawn, script(asset("report.js"))]


def _answer(findings: Findings, told: Verdict | None, leads: Sequence[str], lead: str) -> str:
    """The first screen: the one sentence, the one picture that shows it, at most three more to quote, and how sure they are."""
    every = summary.headlines(findings, leads, told)
    found = told or Verdict(every[0] if every else "The result holds no numbers.")
    more = [line for line in every if line != found.says]
    facts = " · ".join(escape(fact) for fact in summary.facts(findings))
    sure = f'<p class="interval">{escape(found.sure)}.</p>' if found.sure else ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in summary.said_once(more[:SHORT]))
    short = f'<h2>In short</h2><ul class="answer">{lines}</ul>' if lines else ""
    terms = "".join(f"<p><dfn>{escape(title)}</dfn> {escape(said)}</p>" for title, said in summary.terms(findings))
    rest = list(dict.fromkeys([*more[SHORT:], *summary.every_sentence(findings, MOST_SENTENCES)]))
    listed = "".join(f"<li>{escape(line)}</li>" for line in rest)
    folded = f"<details><summary>Every finding as a sentence</summary><ul>{listed}</ul></details>" if rest else ""
    return (
        f'<header><h1>{escape(findings.question)}</h1><p class="lede">{facts}</p></header>'
        f'<p class="verdict">{escape(found.says)}</p>{sure}'
        f'<div class="first{"" if lead else " alone"}"><div class="said">{short}<div class="terms">{terms}</div>{folded}</div>{lead}</div>'
    )


def _sure(findings: Findings) -> str:
    """How far to trust the numbers."""
    return "".join(f'<p class="{kind or "plain"}">{escape(line)}</p>' for kind, line in summary.caution(findings))


def _lead(findings: Findings, pictures: Mapping[Kind, Picture], specs: dict[str, Any]) -> tuple[str, list[str]]:
    """The picture of the first screen, and all others."""
    explored = _explorer(findings, specs) if curves(findings) else ""
    if _led_by_lorenz(findings):
        return explored, [_figure(kind, picture, specs) for kind, picture in pictures.items()]
    fitting = [kind for kind, picture in pictures.items() if len(picture.panels) <= MOST_LEADING]
    over_time = [kind for kind in pictures if kind.name == "intervals" and dated(findings)]
    first = next(iter([*over_time, *fitting]), None)
    lead = _figure(first, _lower(pictures[first]), specs, leading=True) if first else ""
    rest = [_figure(kind, picture, specs) for kind, picture in pictures.items() if kind is not first]
    return lead, [*([explored] if explored else []), *rest]


def _lower(picture: Picture) -> Picture:
    """The same picture, so low that it ends above the fold: rows of it move together."""
    rows = 1 if _stacked(picture) else math.ceil(len(picture.panels) / 2)
    most = (FOLD - (rows - 1) * 60) // rows
    heights = [p.height if _stacked(picture) else min(p.height, most) for p in picture.panels]
    return replace(picture, panels=tuple(replace(p, height=h) for p, h in zip(picture.panels, heights, strict=True)))


def _stacked(picture: Picture) -> bool:
    """Whether all panels fit one under the other on the first screen."""
    return len(picture.panels) > 1 and sum(panel.height + 70 for panel in picture.panels) <= FOLD


def _explorer(findings: Findings, specs: dict[str, Any]) -> str:
    specs["lorenz-data"] = explorer.data(findings)
    picture = explorer.picture(findings)
    specs["spec-explorer"], legend = _spec(picture.panels[0])
    drawn = _place("spec-explorer", escape(picture.says), specs["spec-explorer"], EXPLORER_WIDTH)
    return (
        '<figure id="explorer"><h2>Who holds how much?</h2>'
        f'<div class="panel">{legend}{drawn}</div>'
        f"{explorer.markup(findings)}{_behind(picture, 'Who holds how much?')}</figure>"
    )


def _figure(kind: Kind, picture: Picture, specs: dict[str, Any], *, leading: bool = False) -> str:
    stacked = len(picture.panels) == 1 or (leading and _stacked(picture))
    width = (LEAD_WIDTH if leading else still.WIDTH) if stacked else LEAD_WIDTH // 2 if leading else still.HALF
    panels = "".join(
        _panel(panel, picture, f"spec-{kind.name}-{i}", specs, width) for i, panel in enumerate(picture.panels)
    )
    return (
        f'<figure id="{escape(kind.name)}"><h2>{escape(kind.title)}</h2>'
        f'<div class="panels{" one" if stacked else ""}">{panels}</div>{_behind(picture, kind.title)}</figure>'
    )


def _panel(panel: Panel, picture: Picture, name: str, specs: dict[str, Any], width: int) -> str:
    specs[name], legend = _spec(panel)
    title = f"<h3>{escape(panel.title)}</h3>" if panel.title else ""
    described = escape(": ".join(filter(None, [panel.title, picture.says])))
    square = " square" if panel.square else ""
    drawn = _place(name, described, specs[name], min(width, SQUARE) if panel.square else width)
    return f'<div class="panel{square}">{title}{legend}{drawn}</div>'


def _place(name: str, described: str, spec: Mapping[str, Any], width: int) -> str:
    """A chart that stands still, until scripts draw it again where it stands; the description is on what is around it.

    What a hand can move stands below: a picture holds nothing to be moved.
    """
    bound = f'<div id="{name}-bound"></div>' if any("bind" in p for p in spec.get("params", [])) else ""
    return (
        f'<div role="img" aria-label="{described}"><div class="draw" aria-hidden="true" id="{name}-chart" data-spec="{name}">'
        f"{still.svg(spec, width, name)}</div></div>{bound}"
    )


def _spec(panel: Panel) -> tuple[dict[str, Any], str]:
    """A Vega-Lite specification as wide as its place on the page, and its legend as text, which wraps where Vega's does not."""
    spec: dict[str, Any] = panel.chart.properties(width="container", height=panel.height).to_dict(validate=False)
    spec.pop("config", None)
    names: dict[str, None] = {}
    signs: set[str] = set()
    _take_legends(spec, names, signs)
    fade = (1 - FAINTEST) / max(1, len(names) - 1) if "opacity" in signs else 0.0
    keys = "".join(
        f'<li class="key-{i % MOST_SERIES + 1}" style="--fade:{1 - i * fade:.3g}">{escape(name)}</li>'
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
    """Caption and table of a chart."""
    told = picture.note or ("" if picture.lead else picture.says)  # what a lead says stands at the top of the page
    said = f"<figcaption><p>{escape(told)}</p></figcaption>" if told else ""
    head, rows = list(picture.table), list(zip(*picture.table.values(), strict=True))
    metrics = picture.table.get("metric", [""] * len(rows))
    cells = [[_cell(v, m) for v in row] for row, m in zip(rows, metrics, strict=True)]
    return f"{said}<details><summary>The numbers behind this chart</summary>{table(head, cells, title)}</details>"


def _cell(value: Any, metric: str = "") -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return percent(float(value)) if metric and is_share(metric) else number(float(value))
    return str(value)


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], title: str, hints: Mapping[str, str] | None = None
) -> str:
    """A table that scrolls in its own box, by the name of `title`; columns of numbers are set to the right.

    Cells that are a key of `hints` tell what it says to the pointer.
    """
    told = {cell: f'<abbr title="{escape(hint)}">{escape(cell)}</abbr>' for cell, hint in (hints or {}).items()}
    shown = rows[:MOST_TABLE_ROWS]
    right = [bool(shown) and all(_numeric(row[i]) for row in shown) for i in range(len(head))]

    def line(tag: str, cells: Sequence[str]) -> str:
        marked = (
            f"<{tag}{' class=n' if r else ''}>{told.get(c, escape(c))}</{tag}>"
            for c, r in zip(cells, right, strict=True)
        )
        return f"<tr>{''.join(marked)}</tr>"

    body = "".join(line("td", row) for row in shown)
    rest = len(rows) - len(shown)
    more = f'<p class="note">{rest:,} more rows are in the saved result (JSON or CSV).</p>' if rest > 0 else ""
    if not more and len(shown) > TALL:
        more = f'<p class="note">{len(shown):,} rows: scroll for the rest.</p>'
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(title)}: table"><table><thead>{line("th", head)}</thead>'
        f"<tbody>{body}</tbody></table></div>{more}"
    )


def _numeric(text: str) -> bool:
    return not text or text[0] in "0123456789-−+." or text in ("undefined", "infinite")


def _asides(findings: Findings) -> str:
    """Tables that help to act on the findings: who can fix what, what the test cannot say."""
    return "".join(
        f"<h3>{escape(aside.title)}</h3>{table(aside.head, aside.rows, aside.title) if aside.rows else ''}"
        + "".join(f'<p class="note">{escape(line)}</p>' for line in aside.says)
        for aside in teller(findings).asides(findings)
    )


def _table(findings: Findings) -> str:
    head, rows = tables.readable(findings)
    reasons = "".join(f'<p class="note">{escape(line)}</p>' for line in summary.codes(findings))
    hints = {
        metric: f"{metric_title(metric)}: {card.asks}" for metric in findings.metrics() if (card := card_of(metric))
    }
    return f"{table(head, rows, 'All numbers', hints)}{reasons}"


def _cards(findings: Findings) -> str:
    cards = "".join(_card(facts) for facts in summary.cards(findings))
    return f'<h3 id="cards">What the numbers mean</h3><div class="cards">{cards}</div>' if cards else ""


def _card(facts: summary.CardFacts) -> str:
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in facts.terms.items())
    others = "".join(f"<li>{escape(line)}</li>" for line in facts.variants)
    differ = f"<details><summary>How other tools differ</summary><ul>{others}</ul></details>" if others else ""
    return f'<div class="card"><h4>{escape(facts.title)}</h4><p>{escape(facts.asks)}</p><dl>{rows}</dl>{differ}</div>'


def _dropped(findings: Findings) -> str:
    """What was left out and why."""
    dropped = findings.provenance.get("dropped") or {}
    lost = (
        table(["why", "rows"], [[label(why), number(float(many))] for why, many in dropped.items()], "Rows left out")
        if dropped
        else "<p>No row was dropped.</p>"
    )
    if outside := left_out(findings):
        lost = f"<p>{escape(outside)}</p>" + (lost if dropped else "")
    return lost if "dropped" in findings.provenance or outside else ""


def _provenance(findings: Findings) -> str:
    """What was read, and how to make the same numbers again."""
    facts = "".join(
        f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in summary.origin(findings).items()
    )
    commands = "".join(f"<p>{escape(intro)}</p><pre>{escape(text)}</pre>" for intro, text in again.ways(findings))
    made_again = f'<h3 id="again">Make it again</h3>{commands}' if commands else ""
    return f'{made_again}<h3>Where the numbers come from</h3><dl class="facts">{facts}</dl>'
