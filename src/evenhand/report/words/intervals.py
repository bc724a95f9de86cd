"""How an interval is printed, everywhere: tables, sentences, headlines, chart tooltips and the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from evenhand.findings import number as read_number
from evenhand.report.words.text import number, short_percent


def interval_text(low: Any, high: Any, show: Callable[[float], str] = number, *, level: float | None = None) -> str:
    """Both ends of an interval, named by its level if one is passed; empty where an end is missing.

    >>> interval_text(0.12, 0.34), interval_text(0.12, 0.34, level=0.95), interval_text(None, 0.34)
    ('0.12 to 0.34', '95% interval 0.12 to 0.34', '')
    """
    first, last = read_number(low), read_number(high)
    if math.isnan(first) or math.isnan(last):
        return ""
    name = "" if level is None else f"{short_percent(level)} interval "
    return f"{name}{show(first).removesuffix(' points')} to {show(last)}"  # a unit is printed once


def interval_in_brackets(row: Mapping[str, Any], level: float, show: Callable[[float], str] = number) -> str:
    """The interval of a row to append to its estimate; empty where there is none.

    >>> interval_in_brackets({"low": 0.12, "high": 0.34}, 0.95)
    ' (95% interval 0.12 to 0.34)'
    """
    text = interval_text(row["low"], row["high"], show, level=level)
    return f" ({text})" if text else ""
