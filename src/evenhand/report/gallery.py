"""One page over several reports: every question with its headline, a chart, and the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from evenhand.findings import Findings
from evenhand.report import page as report
from evenhand.report.pages import asset, document, script

STYLE = """
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
    """A question: its title, the findings, the file of the report, the command that made it."""

    title: str
    findings: Findings
    link: str
    command: str


def page(tiles: Sequence[Tile], next_steps: Sequence[tuple[str, str]]) -> str:
    """The page; `next_steps` are pairs of a sentence and a command to try on one's own data."""
    shown = "".join(_tile(tile, number) for number, tile in enumerate(tiles, start=1))
    typed = "".join(f"<p>{escape(text)}</p><pre>{escape(command)}</pre>" for text, command in next_steps)
    body = [
        '<div class="page"><main><header><h1>evenhand: a tour</h1>',
        '<p class="verdict">Who gets seen, and is it even-handed? The same questions, asked of made-up data.</p></header>',
        f'<div class="tiles">{shown}</div>',
        f'<section aria-labelledby="own"><h2 id="own">For your own data</h2>{typed}</section></main></div>',
    ]
    ready = script("document.body.dataset.ready = '';")
    return document("evenhand: a tour", asset("report.css") + STYLE, body, [ready])


def _tile(tile: Tile, number: int) -> str:
    headline, drawn = report.thumbnail(tile.findings, f"tile-{number}")
    described = escape(f"{tile.title} {headline}")
    picture = (
        f'<div role="img" aria-label="{described}"><div class="draw" aria-hidden="true">{drawn}</div></div>'
        if drawn
        else ""
    )
    return (
        f'<article class="tile"><h2><a href="{escape(tile.link)}">{escape(tile.title)}</a></h2>'
        f'<p class="verdict">{escape(headline)}</p>{picture}<pre>{escape(tile.command)}</pre></article>'
    )
