"""Static charts: SVG in the page itself, for mail previews, for readers without scripts, and until scripts have run."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from typing import Any

from evenhand.report.charts.theme import PAGE, theme
from evenhand.report.pages import VEGA_LITE

WIDTH = 700
"""Pixels of a chart that has its row of the page to itself."""

HALF = 440
"""Pixels of one that shares its row."""

_REDUNDANT = re.compile(
    r' (?:xmlns|xmlns:xlink|version|font-family|aria-\w+|role|class|pointer-events|fill-opacity="1"|stroke-miterlimit)="[^"]*"'
)
_UNSEEN = re.compile(r'<path [^>]* opacity="0"[^>]*?(?:/>|></path>)')
_CLIP = re.compile(r"(?<=[\"#])clip\d+(?=[\")])")
_FINE = re.compile(r"\d+\.\d{2,}")


def svg(spec: Mapping[str, Any], width: int, name: str) -> str:
    """A Vega-Lite specification as SVG in the page's own colours.

    To keep reports small, attributes that the page sets once (fonts, descriptions) and invisible points are left out and
    lengths have one decimal. `name` makes the ids of the picture unique on the page. Empty without vl-convert (the extra
    `report`): then only the page's scripts draw the chart.
    """
    if not can_draw():
        return ""
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
    return "".join(shorter(part) if part.startswith("<") else part for part in parts)


def can_draw() -> bool:
    """Whether charts can be made into pictures: vl-convert is installed."""
    return importlib.util.find_spec("vl_convert") is not None
