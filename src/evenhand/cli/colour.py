"""Colour on a terminal: table headers, failed checks, errors. Piped text has none."""

from __future__ import annotations

import os
import re
from typing import TextIO

BOLD, DIM, RED, GREEN = "1", "2", "31", "32"

_RULE = re.compile(r"-+(  -+)*")


def shows(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal with colour and NO_COLOR (no-color.org) is not set."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM", "") == "dumb":
        return False
    return stream.isatty()


def painted(text: str, style: str, stream: TextIO | None) -> str:
    """Text in a style, if the stream shows colour."""
    return f"\033[{style}m{text}\033[0m" if shows(stream) else text


def table(text: str, stream: TextIO | None) -> str:
    """A text table with bold question and headers, and dimmed notes below."""
    if not shows(stream):
        return text
    lines = text.split("\n")
    rules = [i for i, line in enumerate(lines) if _RULE.fullmatch(line)]
    if not rules:
        return text
    styles = {0: BOLD} | {i - 1: BOLD for i in rules} | dict.fromkeys(rules, DIM)
    below = next((i for i in range(rules[-1], len(lines)) if not lines[i]), len(lines))
    styles |= dict.fromkeys(range(below, len(lines)), DIM)
    return "\n".join(painted(line, styles[i], stream) if i in styles and line else line for i, line in enumerate(lines))


def checks(text: str, stream: TextIO | None) -> str:
    """Checks, a line each: passed in green, failed in red."""
    style = {"pass": GREEN, "FAIL": f"{BOLD};{RED}"}
    return "\n".join(
        re.sub(r"^(pass|FAIL)\b", lambda word: painted(word[0], style[word[0]], stream), line)
        for line in text.split("\n")
    )
