"""One self-contained page that a product manager can be sent: the answer first, everything behind it below.

The page makes no request and says so to the browser (a content security policy). Every word of the user's data is escaped by
the templates (`templates/`), or is in JSON that no parser can mistake for markup.
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
from evenhand.report.charts.inequality import curves
from evenhand.report.charts.registry import as_svg, draw, fitted, kinds_for
from evenhand.report.charts.theme import PAGE, SIZES, fading, theme
from evenhand.report.pages import READY, asset, document, packed, packed_vega, part, rendered, script, svg
from evenhand.report.words import summary
from evenhand.report.words.phrases import is_share
from evenhand.report.words.sentences import Headline, headline_for, writer_for
from evenhand.report.words.text import dated, excluded, number, percent

MOST_TABLE_ROWS = 250
MOST_UNFOLDED = 100
"""Rows that unfold to their sentence; more would make a page of many slices too large to mail."""
MOST_SENTENCES = 100
MOST_CHART_ROWS = 100
"""Rows of the table behind a chart; of 200 slices more would make a page of over 1 MB."""

SECTIONS = {
    "answer": "Answer",
    "sure": "How sure are we?",
    "pictures": "Charts",
    "act": "What to do, and what this cannot say",
    "table": "All numbers",
    "dropped": "Excluded rows",
    "provenance": "How it was made",
}


def html(findings: Findings, overall: Findings | None = None) -> str:
    """The report on these findings, as one HTML file; `overall` are those without slices."""
    findings = drawable_labels(findings)
    specs: dict[str, Any] = {}
    cautions = summary.cautions(findings)
    words = {
        **_answer(findings, overall, [line for kind, line in cautions if kind == "care"]),
        **_charts(findings, specs),
        "doubts": [line for kind, line in cautions if kind != "care"],
        "side_tables": [
            (side, table(side.head, side.rows, side.title) if side.rows else "")
            for side in writer_for(findings).side_tables(findings)
        ],
        "numbers": _numbers(findings, overall),
        "notes": summary.explained_notes(findings, summary.WARNINGS),
        "metric_cards": summary.cards(findings),
        "outside": excluded(findings),
        "dropped": _dropped(findings),
        "ways": reproduce.ways(findings),
        "origin": summary.origin(findings),
    }
    present = {
        "sure": words["doubts"],
        "pictures": words["other_figures"],
        "act": words["side_tables"],
        "dropped": words["outside"] or "dropped" in findings.provenance,
    }
    contents = {name: title for name, title in SECTIONS.items() if present.get(name, True)}
    body = rendered("report.html", question=findings.question, contents=contents, version=__version__, **words)
    data = json.dumps({**specs, "theme": theme(PAGE)}, allow_nan=False, separators=(",", ":"))
    scripts = [
        *([packed("data", gzip.compress(data.encode(), 9, mtime=0)), packed_vega()] if specs else []),
        script(asset("report.js")),
    ]
    return document(f"{findings.question} · evenhand", asset("report.css"), [body], scripts)


def _led_by_lorenz(findings: Findings) -> bool:
    first = not findings.charts or findings.charts[0] == "lorenz"
    return bool(curves(findings)) and first and not dated(findings)


def _answer(findings: Findings, overall: Findings | None, care: Sequence[str]) -> dict[str, Any]:
    """Words of the first screen: headline with interval, cautions, large figures, three more sentences, a glossary."""
    short_list = 3  # sentences beside the headline; the others are folded
    headline = headline_for(findings)
    every = summary.key_sentences(findings, headline)
    headline = headline or Headline(every[0] if every else "The result has no numbers.")
    more = [*summary.overall_sentence(overall), *(line for line in every if line != headline.text)]
    few = more[:short_list]
    where = ", overall" if overall else ""
    figures = summary.figures(overall or findings, headline)
    return {
        "headline": headline,
        "facts": summary.facts(findings),
        "figures": [(value, f"{text}{where}", interval) for value, text, interval in figures],
        "care": care,
        "few": few,
        "glossary": summary.glossary(findings),
        "rest": list(dict.fromkeys([*more[short_list:], *summary.every_sentence(findings, MOST_SENTENCES)])),
        "paragraph": summary.paragraph(findings, [headline.text, *few[:2]], headline.uncertainty, care),
    }


def _charts(findings: Findings, specs: dict[str, Any]) -> dict[str, Any]:
    """The chart of the first screen and the others; their specifications are added to `specs`."""
    pictures = {kind: kind.draw(findings) for kind in kinds_for(findings) if kind.reported}
    if _led_by_lorenz(findings):
        first, lead = None, _explorer(findings, specs)
    else:
        fitting = [kind for kind, picture in pictures.items() if len(picture.panels) <= 4]
        over_time = [kind for kind in pictures if kind.name == "intervals" and dated(findings)]
        first = next(iter([*over_time, *fitting]), None)
        lead = _figure(first, _lower(pictures[first]), specs, leading=True) if first else {}
    others = [_figure(kind, picture, specs) for kind, picture in pictures.items() if kind is not first]
    return {"first_figure": lead, "other_figures": others}


def _lower(picture: Picture) -> Picture:
    """A picture made so low that it ends above the fold of the page."""
    rows = 1 if _stacked(picture) else max(1, math.ceil(len(picture.panels) / 2))  # without panels: nothing to draw
    most = (SIZES.above_fold - (rows - 1) * 60) // rows
    heights = [p.height if _stacked(picture) else min(p.height, most) for p in picture.panels]
    return replace(picture, panels=tuple(replace(p, height=h) for p, h in zip(picture.panels, heights, strict=True)))


def _stacked(picture: Picture) -> bool:
    return len(picture.panels) > 1 and sum(panel.height + 70 for panel in picture.panels) <= SIZES.above_fold


def _explorer(findings: Findings, specs: dict[str, Any]) -> dict[str, Any]:
    specs["lorenz-data"] = explorer.data(findings)
    picture = explorer.picture(findings)
    title = "Who gets how much?"
    panel = _panel(picture.panels[0], f"{title} {picture.note}", "spec-explorer", specs, SIZES.lead_width)
    words = {"name": "explorer", "title": title, "panels": [{**panel, "square": False}], "is_stacked": True}
    return {**words, "explorer": explorer.words(findings), **_behind(picture, title)}


def _figure(kind: Kind, picture: Picture, specs: dict[str, Any], *, leading: bool = False) -> dict[str, Any]:
    is_stacked = len(picture.panels) == 1 or (leading and _stacked(picture))
    width = SIZES.lead_width if leading else SIZES.page_width
    width = width if is_stacked else SIZES.lead_width // 2 if leading else SIZES.half_width
    panels = [
        _panel(panel, f"{kind.title}. {picture.note}", f"spec-{kind.name}-{i}", specs, width)
        for i, panel in enumerate(picture.panels)
    ]
    words = {"name": kind.name, "title": kind.title, "panels": panels, "is_stacked": is_stacked, "explorer": None}
    return {**words, **_behind(picture, kind.title)}


def _panel(panel: Panel, text: str, name: str, specs: dict[str, Any], width: int) -> dict[str, Any]:
    specs[name], legend = _spec(panel)
    return {
        "name": name,
        "title": panel.title,
        "text": ": ".join(filter(None, [panel.title, text])),
        "square": panel.square,
        "legend": legend,
        "svg": svg(specs[name], min(width, SIZES.square_width) if panel.square else width, name),
        "has_controls": any("bind" in param for param in specs[name].get("params", [])),
    }


def _spec(panel: Panel) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Vega-Lite specification as wide as its place on the page, and its legend as text, which wraps where Vega's does not."""
    spec: dict[str, Any] = panel.chart.properties(width="container", height=panel.height).to_dict(validate=False)
    spec.pop("config", None)
    names: dict[str, None] = {}
    signs: set[str] = set()
    _take_legends(spec, names, signs)
    fades = fading(len(names)) if "opacity" in signs else [1.0] * len(names)
    keys = [
        (name, i % len(PAGE.series) + 1, f"{fade:.3g}") for i, (name, fade) in enumerate(zip(names, fades, strict=True))
    ]
    return spec, {"names": keys, "signs": "shaped" if "shape" in signs else "filled" if "opacity" in signs else ""}


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


def _behind(picture: Picture, title: str) -> dict[str, Any]:
    head, rows = list(picture.table), list(zip(*picture.table.values(), strict=True))
    metrics = picture.table.get("metric", [""] * len(rows))
    cells = [[_cell(v, m) for v in row] for row, m in zip(rows, metrics, strict=True)]
    return {"note": picture.note, "table": table(head, cells, title, most=MOST_CHART_ROWS)}


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
    *,
    bars: Sequence[Mapping[str, float]] = (),
    texts: Sequence[str] = (),
    most: int = MOST_TABLE_ROWS,
) -> str:
    """A table that scrolls in its own box, by the name of `title`; columns of numbers are set to the right.

    A row ends with its picture in `bars`, and unfolds to its text in `texts`.
    """
    shown = rows[:most]

    def is_numeric(text: str) -> bool:
        return not text or text[0] in "0123456789-−+." or text in ("undefined", "infinite")

    right = [bool(shown) and all(is_numeric(row[i]) for row in shown) for i in range(len(head))]
    left_out = len(rows) - len(shown)
    return part("table", title, head, shown, right, texts, bars, BAR_WIDTH, left_out)


WIDEST = 9
"""Columns of numbers that fit a page of 1280 pixels; the others are behind the row."""


def _with_overall(findings: Findings, overall: Findings | None) -> Findings:
    if overall is None:
        return findings
    blank = {name: ["all" if name in findings.slices else None] * len(overall) for name in findings.columns}
    columns = {name: [*overall.columns.get(name, blank[name]), *column] for name, column in findings.columns.items()}
    return replace(findings, columns=columns)


def _numbers(findings: Findings, overall: Findings | None) -> str:
    """All numbers, each with its interval drawn; a row unfolds to its sentence and the columns that have no room."""
    findings, first = _with_overall(findings, overall), 0 if overall is None else len(overall)
    head, rows = tables.readable(findings)
    shown = tables.shown_rows(findings)
    basic = {*findings.slices, "metric", "group", "estimate", "interval", "chance", "p_adjusted", "units", "note"}
    visible = [i for i, name in enumerate(head) if len(head) <= WIDEST or name in basic]
    behind = [
        "; ".join(f"{head[i].replace('_', ' ')} {row[i]}" for i in range(len(head)) if i not in visible and row[i])
        for row in rows[:MOST_TABLE_ROWS]
    ]
    few = "estimate" in findings.columns and len(rows) <= MOST_UNFOLDED
    of_rows = [(findings if i >= first else overall or findings, row) for i, row in enumerate(shown[: len(behind)])]
    lines = [writer_for(source).sentence(source, row) if few else "" for source, row in of_rows]
    texts = [" ".join(filter(None, [line, more])) for line, more in zip(lines, behind, strict=True)]
    cells = [[row[i] for i in visible] for row in rows]
    bars = _interval_bars(shown[:MOST_TABLE_ROWS])
    return table([head[i] for i in visible], cells, SECTIONS["table"], bars=bars, texts=texts)


BAR_WIDTH = 96
"""Pixels of the small picture of a row."""


def _interval_bars(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Where interval, estimate and chance of each row stand in its small picture; rows of a metric share a scale."""
    if not rows or "estimate" not in rows[0]:
        return []
    names = ("estimate", "low", "high", "chance")
    values = [{name: v for name in names if math.isfinite(v := read_number(row.get(name)))} for row in rows]
    ends: dict[str, list[float]] = {}
    for row, of_row in zip(rows, values, strict=True):
        ends.setdefault(row["metric"], []).extend(of_row.values())
    bars = []
    for row, of_row in zip(rows, values, strict=True):
        least, most = min(ends[row["metric"]], default=0.0), max(ends[row["metric"]], default=0.0)
        scale = (BAR_WIDTH - 8) / ((most - least) or 1)
        bars.append(
            {name: round(4 + scale * (v - least), 1) for name, v in of_row.items()} if "estimate" in of_row else {}
        )
    return bars


def _dropped(findings: Findings) -> str:
    dropped = findings.provenance.get("dropped") or {}
    cells = [[label(why), number(float(many))] for why, many in dropped.items()]
    return table(["why", "rows"], cells, SECTIONS["dropped"]) if cells else ""


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


@dataclass(frozen=True, slots=True)
class Tile:
    """One report in a gallery: its title, the findings, the file of the report, the command that made it."""

    title: str
    findings: Findings
    link: str
    command: str


def gallery(tiles: Sequence[Tile], next_steps: Sequence[tuple[str, str]]) -> str:
    """One page over several reports; `next_steps` are pairs of a sentence and a command to try on one's own data."""
    shown = [_tile(tile, f"tile-{i}") for i, tile in enumerate(tiles, start=1)]
    body = rendered("gallery.html", tiles=shown, next_steps=next_steps)
    return document("evenhand: a tour", asset("report.css"), [body], [READY])


def _tile(tile: Tile, name: str) -> dict[str, Any]:
    findings = drawable_labels(tile.findings)
    pictures = [kind.draw(findings) for kind in kinds_for(findings) if kind.reported]
    headline = headline_for(findings) or Headline(next(iter(summary.key_sentences(findings)), ""))
    words: dict[str, Any] = {
        "title": tile.title,
        "link": tile.link,
        "command": tile.command,
        "headline": headline.text,
        "svg": "",
    }
    first = explorer.picture(findings) if _led_by_lorenz(findings) else next(iter(pictures), None)
    if first is not None:
        panel = first.panels[-1] if headline.where and headline.where in first.panels[-1].title else first.panels[0]
        spec, legend = _spec(replace(panel, height=min(panel.height, SIZES.thumbnail)))
        words |= {"legend": legend, "svg": svg(spec, SIZES.lead_width, name)}
    return words
