"""Which metric for which data: what each metric of rankings needs, takes and does not stand, as its card has it.

Table 1 and the questions of section 2.6 of raj2022, answered for every metric of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.cards import REGISTRY, Metric

RELEVANCE = frozenset({"relevance", "gains", "dues"})
LOOKS = {"ranking": "each ranking", "request": "all rankings together", "population": "all rankings together"}


def lookup(metrics: Mapping[str, Metric] | None = None) -> list[dict[str, str]]:
    """One row per metric of rankings: data it needs, what it compares, where it breaks.

    >>> next(row for row in lookup() if row["metric"] == "log_rur")["relevance"]
    'needed'
    """
    rows = []
    for name, metric in sorted((REGISTRY if metrics is None else metrics).items()):
        tally: Any = metric.card.needs
        if not hasattr(tally, "unlabelled"):  # reads no rankings
            continue
        reads, parameters = metric.reads() | getattr(tally, "always", frozenset()), metric.parameters
        relevance = "predicted scores" if "scores" in reads else "needed" if reads & RELEVANCE else "not needed"
        if "target" in parameters and reads & RELEVANCE:
            relevance += ", or a target"
        soft = "labels" not in reads and not ("sides" in reads and metric.card.per == "ranking")
        rows.append({
            "metric": name,
            "relevance": relevance,
            "groups": "two sides" if "sides" in reads else "any number",
            "soft groups": "yes" if soft else "no",
            "unlabelled items": str(tally.unlabelled),
            "looks at": str(getattr(tally, "looks_at", "") or LOOKS[metric.card.per]),
            "target": "yours" if "target" in parameters or "p" in parameters else "built in",
            "attention": "yours" if "attention" in parameters else "built in",
            "breaks when": metric.card.undefined or "never, for well-formed input",
        })  # fmt: skip
    return rows
