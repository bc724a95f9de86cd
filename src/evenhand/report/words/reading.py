"""Sentences on how messy text was read: delimiter, encoding, separators of numbers, words for a missing value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.errors import listing

DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
SEPARATORS = {".": "dots", ",": "commas", " ": "spaces", "'": "apostrophes"}
DECIMALS = {".": "decimal points", ",": "decimal commas"}


def reading_sentences(reading: Mapping[str, Any]) -> list[str]:
    """How files and columns of numbers were read, a sentence for each that is not plain.

    >>> reading_sentences({"files": {"de.csv": {"delimiter": ";", "encoding": "latin-1"}}})
    ["'de.csv': columns separated by semicolons, latin-1."]
    >>> reading_sentences({"columns": {"Views": {"thousands": ".", "null": ["-"]}}})
    ["'Views': dots between thousands, '-' means missing."]
    """
    sentences = [f"{name!r}: {', '.join(_of_file(facts))}." for name, facts in reading.get("files", {}).items()]
    plain = {name: facts for name, facts in reading.get("columns", {}).items() if "doubtful" not in facts}
    return sentences + [f"{name!r}: {', '.join(_of_column(facts))}." for name, facts in plain.items()]


def doubts(reading: Mapping[str, Any]) -> list[str]:
    """A sentence for each column whose numbers could be read in two ways."""
    return [facts["doubt"] for facts in reading.get("columns", {}).values() if "doubtful" in facts]


def _of_file(facts: Mapping[str, Any]) -> list[str]:
    parts = []
    if "delimiter" in facts:
        parts.append(f"columns separated by {DELIMITERS.get(facts['delimiter'], repr(facts['delimiter']))}")
    if "encoding" in facts:
        parts.append(facts["encoding"])
    if count := facts.get("lines_skipped"):
        parts.append(f"{count:,} line{'s' * (count > 1)} above the header skipped")
    return parts + _missing(facts)


def _of_column(facts: Mapping[str, Any]) -> list[str]:
    parts = [f"{SEPARATORS[facts['thousands']]} between thousands"] if facts.get("thousands") else []
    parts += [DECIMALS[facts["decimal"]]] if "decimal" in facts else []
    parts += ["lists of items, each item ranked by its position"] if "list" in facts else []
    if count := facts.get("empty"):
        parts.append(f"{count:,} empty list{'s' * (count > 1)} left out")
    return parts + _missing(facts)


def _missing(facts: Mapping[str, Any]) -> list[str]:
    words = facts.get("null") or ()
    return [f"{listing(map(repr, words))} {'means' if len(words) == 1 else 'mean'} missing"] if words else []
