"""Which metric for which data: what each metric of rankings needs, takes and does not stand, as its card has it.

Table 1 and the questions of section 2.6 of raj2022, answered for every metric of this package.
"""

from __future__ import annotations

from collections.abc import Mapping

from evenhand.cards import REGISTRY, Metric

RELEVANCE = frozenset({"relevance", "gains", "dues"})
LOOKS = {"ranking": "each ranking", "request": "all rankings together", "population": "all rankings together"}


def lookup(metrics: Mapping[str, Metric] | None = None) -> list[dict[str, str]]:
    """One row per metric of rankings: data it needs, what it compares, where it breaks.

    >>> next(row for row in lookup() if row["metric"] == "log_rur")["relevance"]
    'needed'
    """
    listed = REGISTRY if metrics is None else metrics
    return [_row(metric) for _, metric in sorted(listed.items()) if hasattr(metric.card.needs, "unlabelled")]


def _row(metric: Metric) -> dict[str, str]:
    card, tally = metric.card, metric.card.needs
    reads = metric.reads() | getattr(tally, "always", frozenset())
    parameters = metric.parameters
    relevance = "predicted scores" if "scores" in reads else "needed" if reads & RELEVANCE else "not needed"
    if "target" in parameters and reads & RELEVANCE:
        relevance += ", or a target"
    soft = "labels" not in reads and not ("sides" in reads and card.per == "ranking")
    return {
        "metric": card.name,
        "relevance": relevance,
        "groups": "two sides" if "sides" in reads else "any number",
        "soft groups": "yes" if soft else "no",
        "unlabelled items": str(tally.unlabelled),  # type: ignore[attr-defined]
        "looks at": str(getattr(tally, "looks_at", "") or LOOKS[card.per]),
        "target": "yours" if "target" in parameters or "p" in parameters else "built in",
        "attention": "yours" if "attention" in parameters else "built in",
        "breaks when": card.undefined or "never, for well-formed input",
    }
