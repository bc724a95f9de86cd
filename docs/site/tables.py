"""Tables that a page asks for by a comment, made from the cards and the words of the package."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import get_args

import evenhand as eh
from evenhand import metrics  # noqa: F401  (fills the registry)
from evenhand.audits.advise import DEGREES, Degree, Goal
from evenhand.cards import REGISTRY, Metric
from evenhand.cli.metrics import lookup
from evenhand.report.words.text import DIRECTION, REASONS, number

sys.path.insert(0, str(Path(__file__).parents[1]))
from generate import anchor, page_of  # docs/generate.py

ASKED = re.compile(r"^<!-- table: (\w+)(?: ([\w, ]+))? -->$", re.MULTILINE)


def filled(markdown: str) -> str:
    """The page with `<!-- table: cards Spectrum -->` and `<!-- table: notes -->` replaced."""
    made = {"cards": cards, "notes": notes, "viewpoints": viewpoints, "goals": goals, "rankings": rankings}
    return ASKED.sub(lambda found: made[found[1]](*(w.strip() for w in (found[2] or "").split(",") if w)), markdown)


def cards(*needs: str) -> str:
    """Every metric that reads one of these tallies: what it asks, what it needs, where it is fair."""
    unknown = set(needs) - {m.card.needs.__name__ for m in REGISTRY.values()}
    if unknown:
        raise ValueError(f"no metric reads {', '.join(sorted(unknown))}")
    chosen = sorted((n, m) for n, m in REGISTRY.items() if m.card.needs.__name__ in needs)
    lines = [f"| [`{n}`]({page_of(m)}#{anchor(m)}) | {m.card.asks} | {_reads(m)} | {_fair(m)} |" for n, m in chosen]
    return "\n".join(["| metric | asks | beside the table | even at |", "|---|---|---|---|", *lines])


def viewpoints() -> str:
    """What `eh.advise` recommends for every balance of the labels and every expected bias."""
    lines = [f"| {balance} | " + " | ".join(_first(balance, bias) for bias in DEGREES) + " |" for balance in DEGREES]
    head = "| balance of the sides | " + " | ".join(f"{bias} bias" for bias in DEGREES) + " |"
    return "\n".join([head, "|---|---|---|---|", *lines])


def _first(balance: Degree, bias: Degree) -> str:
    return f"`{next(iter(eh.advise(balance=balance, bias=bias).findings.rows()))['metric']}`"


def goals() -> str:
    """What `eh.advise` says of every goal."""
    said = [(goal, row) for goal in get_args(Goal) for row in eh.advise(goal=goal).findings.rows()]
    lines = [f"| `{goal}` | `{row['metric']}` | {row['advice']} | {row['reason']} |" for goal, row in said]
    return "\n".join(["| goal | metric | advice | reason |", "|---|---|---|---|", *lines])


def rankings() -> str:
    """Metrics of rankings by what they need and where they break, as `evenhand metrics --table` prints them."""
    rows = lookup()
    lines = [f"| {' | '.join([f'`{name}`', *rest])} |" for name, *rest in (row.values() for row in rows)]
    return "\n".join([f"| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|", *lines])


def notes() -> str:
    """Every code that may stand in the column `note`."""
    lines = [f"| `{code}` | {words} |" for code, words in sorted(REASONS.items())]
    return "\n".join(["| note | meaning |", "|---|---|", *lines])


def _reads(metric: Metric) -> str:
    return ", ".join(sorted(metric.reads())) or "nothing"


def _fair(metric: Metric) -> str:
    ideal = metric.ideal()
    return (f"{number(ideal)}; " if ideal == ideal else "") + DIRECTION[metric.better()]
