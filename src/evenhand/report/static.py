"""Charts that stand still: SVG in the page itself, for mail previews, for readers without scripts, and until scripts have run."""

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

_SAID_ELSEWHERE = re.compile(
    r' (?:xmlns|xmlns:xlink|version|font-family|aria-\w+|role|class|pointer-events|fill-opacity="1"|stroke-miterlimit)="[^"]*"'
)
_UNSEEN = re.compile(r'<path [^>]* opacity="0"[^>]*?(?:/>|></path>)')
_CLIP = re.compile(r"(?<=[\"#])clip\d+(?=[\")])")
_FINE = re.compile(r"\d+\.\d{2,}")


def svg(spec: Mapping[str, Any], width: int, name: str) -> str:
    """A Vega-Lite specification as SVG in the page's own colours.

    What the page says once (fonts, descriptions) is not said again on every mark, points that only answer to the pointer are
    left out, and lengths keep one digit behind the point: a report with its pictures stays small. `name` sets what the
    picture calls its parts apart from those of others on the page. Without vl-convert (the extra `report`) there is none,
    and the page's scripts draw the chart alone.
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
    return "".join(
        _smaller(part) if part.startswith("<") else part for part in re.split(r"(<[^>]*>)", _UNSEEN.sub("", image))
    )


def can_draw() -> bool:
    """Whether charts can be made into pictures: vl-convert is installed."""
    return importlib.util.find_spec("vl_convert") is not None


def _smaller(tag: str) -> str:
    return _FINE.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), _SAID_ELSEWHERE.sub("", tag))
