"""Self-contained web pages, with charts as SVG: they make no request, and no label is ever taken for markup or code."""

from __future__ import annotations

import base64
import functools
import gzip
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from evenhand.report.charts.theme import DARK, LIGHT, PAGE, Colours, theme

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
"""The browser may run the scripts of the page and fetch nothing."""

VEGA_LITE = "6.4"
"""The version that Altair writes for."""

ASSETS = resources.files("evenhand.report") / "assets"


def document(title: str, style: str, body: Sequence[str], scripts: Sequence[str]) -> str:
    """A whole page that follows the reader's light or dark setting, or what its own switch says (`data-theme`)."""
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        '<link rel="icon" href="data:,">',
        f"<style>{_rule(':root', LIGHT)}",
        f"@media screen {{ {_rule(':root[data-theme=dark]', DARK)} }}",
        f"@media screen and (prefers-color-scheme: dark) {{ {_rule(':root:not([data-theme=light])', DARK)} }}",
        f"{style}</style></head><body>",
    ]
    return "\n".join([*lines, *body, *scripts, "</body></html>\n"])


def variables(colours: Colours) -> dict[str, str]:
    """The colours of a surface by the names that `PAGE` asks the page for."""
    named = {"ink": colours.ink, "muted": colours.muted, "grid": colours.grid, "paper": colours.paper}
    return named | {f"series-{i}": colour for i, colour in enumerate(colours.series, start=1)}


def _rule(where: str, colours: Colours) -> str:
    return where + " { " + " ".join(f"--{name}: {colour};" for name, colour in variables(colours).items()) + " }"


@functools.cache
def _templates() -> jinja2.Environment:
    """Templates that escape every word they are given."""
    loader = jinja2.PackageLoader("evenhand.report")
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )


def rendered(template: str, **words: Any) -> str:
    return _templates().get_template(template).render(words)


def part(name: str, *words: Any) -> Markup:
    """A part that pages share (`templates/parts.html`), as markup that is not escaped again."""
    return Markup(getattr(_templates().get_template("parts.html").module, name)(*words))  # noqa: S704  (escaped there)


def asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


@functools.cache
def vega() -> str:
    """Vega, Vega-Lite and Embed as one script, as vl-convert bundles them (`python docs/generate.py` makes the file anew)."""
    return gzip.decompress((ASSETS / "vega.js.gz").read_bytes()).decode()


@functools.cache
def packed_vega() -> str:
    return packed("vega", (ASSETS / "vega.js.gz").read_bytes())


def packed(name: str, compressed: bytes) -> str:
    """Text that a page's scripts unpack by name: base64 of gzip, a fraction of its size and never markup."""
    encoded = base64.b64encode(compressed).decode()
    return f'<script type="application/gzip" id="{escape(name)}">{encoded}</script>'


def script(code: str) -> str:
    """Code in a script element that it cannot end by accident."""
    return f"<script>{code.replace('</script', '<' + chr(92) + '/script')}</script>"


READY = script("document.body.dataset.ready = '';")
"""For pages that need no other script."""


def embedded(value: Any) -> str:
    r"""JSON that can stand inside a script element, whatever the labels hold.

    >>> print(embedded("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def chart_page(spec: Any) -> str:
    """One chart as a page of its own; the specification brings its own theme."""
    show = "vegaEmbed('#chart', JSON.parse(document.getElementById('spec').textContent), {actions: false, renderer: 'svg', ast: true})"
    ready = ".then(() => { document.body.dataset.ready = ''; }, (error) => { document.body.dataset.failed = String(error); });"
    data = f'<script type="application/json" id="spec">{embedded(spec)}</script>'
    scripts = [data, script(vega()), script(show + ready)]
    return document("evenhand", "body { margin: 1rem; background: #fff; }", ['<div id="chart"></div>'], scripts)


_REDUNDANT = re.compile(
    r' (?:xmlns|xmlns:xlink|version|font-family|aria-\w+|role|class|pointer-events|fill-opacity="1"|stroke-miterlimit)="[^"]*"'
)
_UNSEEN = re.compile(r'<path [^>]* opacity="0"[^>]*?(?:/>|></path>)')
_CLIP = re.compile(r"(?<=[\"#])clip\d+(?=[\")])")
_FINE = re.compile(r"\d+\.\d{2,}")


def svg(spec: Mapping[str, Any], width: int, name: str) -> Markup:
    """A Vega-Lite specification as SVG in the page's own colours, for mail previews and readers without scripts.

    To keep reports small, attributes that the page sets once (fonts, descriptions) and invisible points are left out and
    lengths have one decimal. `name` makes the ids of the picture unique on the page. Empty without vl-convert (the extra
    `report`): then only the page's scripts draw the chart.
    """
    if not can_draw():
        return Markup()
    import vl_convert

    sized = {**spec, "width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    image = vl_convert.vegalite_to_svg(
        json.dumps(sized, ensure_ascii=True), vl_version=VEGA_LITE, config=theme(PAGE), allowed_base_urls=[]
    )
    numbers: dict[str, str] = {}
    image = _CLIP.sub(lambda match: numbers.setdefault(match[0], f"{name}-clip-{len(numbers)}"), image)

    def shorter(tag: str) -> str:
        return _FINE.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), _REDUNDANT.sub("", tag))

    parts = re.split(r"(<[^>]*>)", _UNSEEN.sub("", image))
    shortened = (shorter(part) if part.startswith("<") else part for part in parts)
    return Markup("".join(shortened))  # noqa: S704  (labels are escaped in it)


def can_draw() -> bool:
    """Whether charts can be made into pictures: vl-convert is installed."""
    return importlib.util.find_spec("vl_convert") is not None
