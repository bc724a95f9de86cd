"""The title of a metric, the format of its values, and sentences for figures that have no card."""

from __future__ import annotations

import functools
from collections.abc import Callable

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.cards import REGISTRY, Card, parse_call
from evenhand.errors import EvenhandError
from evenhand.findings import number as read_number
from evenhand.report.words.text import first_reason, number, percent, short_percent

PHRASES: dict[tuple[str, str], str] = {
    ("sources", "share"): "{group} brings {estimate:percent} of all {amount}{interval}.",
    ("sources", "own_gini"): "The Gini index of {amount} from {group} alone is {estimate:number}{interval}.",
    ("sources", "correlation"): (
        "How much {units} get from {group} follows the order of their totals to the degree {estimate:number}{interval}; "
        "1 is the same order, -1 the opposite."
    ),
    ("sources", "contribution"): "{group} contributes {estimate:number} to the Gini index{interval}.",
    ("sources", "marginal"): (
        "If {group} grew by a small part, the Gini index would move by {estimate:number} times that part{interval}; "
        "below zero is towards equality."
    ),
    ("decompose", "total"): "The {index} index of {amount} over {units} is {estimate:number}{interval}.",
    ("decompose", "within"): "Within groups the {index} index is {estimate:number}{interval}.",
    ("decompose", "between"): "Between the groups' means it is {estimate:number}{interval}.",
    ("decompose", "overlap"): "Groups whose ranges interleave account for {estimate:number}{interval}.",
    ("decompose", "index"): "Within {group} alone the {index} index is {estimate:number}{interval}.",
    ("decompose", "share"): "{group} gets {estimate:percent} of all {amount}{interval}.",
    ("decompose", "population_share"): "{group} is {estimate:percent} of all {units}{interval}.",
}
"""Sentences for figures that are parts of a metric and have no card of their own, by audit and name. The blanks are those of
a card's `says`, and `{group}`."""


@functools.lru_cache(maxsize=1024)
def card_of(metric: str) -> Card | None:
    """The card behind a metric string, or nothing for a quantity that has none (`outcome_gap`)."""
    try:
        name, _, _ = parse_call(metric.partition("@")[0], role="metrics")
    except EvenhandError:
        return None
    return REGISTRY[name].card if name in REGISTRY else None


@functools.lru_cache(maxsize=1024)
def metric_title(metric: str) -> str:
    """A metric string as a heading: parameters as people say them.

    >>> metric_title("top_share(p=0.01)"), metric_title("atkinson(epsilon=0.5)"), metric_title("some_gap")
    ('Share of the top 1%', 'Atkinson index (epsilon 0.5)', 'Some gap')
    """
    card = card_of(metric)
    if card is None:
        return metric.replace("_", " ").strip().capitalize()
    called, _, cutoff = metric.partition("@")
    _, args, named = parse_call(called, role="metrics")
    params = dict(zip(REGISTRY[card.name].parameters, args, strict=False)) | named
    point = params.pop("p", None)
    title = f"{card.title} {short_percent(point)}" if isinstance(point, float) else card.title
    chosen = [f"{name} {value}" for name, value in params.items()]
    return " ".join([title, *([f"({', '.join(chosen)})"] if chosen else []), *([f"at {cutoff}"] if cutoff else [])])


_PERCENT_PARTS = frozenset(name for (_, name), phrase in PHRASES.items() if "{estimate:percent}" in phrase)


def is_share(metric: str) -> bool:
    """Whether people read this metric in percent; its sentence says so."""
    card = card_of(metric)
    return metric in _PERCENT_PARTS if card is None else "{estimate:percent}" in card.says


def value_format(metric: str) -> Callable[[float], str]:
    """How values of a metric are printed: in percent where people say percent."""
    return percent if is_share(metric) else number


def value_text(value: float | None, metric: str = "", digits_of: float | None = None) -> str:
    """An estimate as a label in a chart: in percent where people say percent.

    >>> value_text(0.8123), value_text(0.8123, "top_share(p=0.01)")
    ('0.8123', '81.2%')
    """
    estimate = read_number(value)
    return percent(estimate, digits_of) if is_share(metric) else number(estimate)


def reason_text(note: str | None) -> str:
    """Why there is no number, in words."""
    return f"undefined: {reason}" if (reason := first_reason(note)) else "undefined"
