"""The title of a metric, how its values are printed and what they mean, and sentences for figures that have no card."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.cards import REGISTRY, Card, MetricSpec, parse_call
from evenhand.errors import EvenhandError
from evenhand.findings import read_number
from evenhand.report.words.text import FORMATS, number, percent, rounded_percent, short_percent

PHRASES: dict[tuple[str, str], str] = {
    ("sources", "share"): "{group} accounts for {estimate:percent} of all {amount}{interval}.",
    ("sources", "own_gini"): "The Gini index of {amount} from {group} alone is {estimate:number}{interval}.",
    ("sources", "correlation"): (
        "Gini correlation of {group} with total {amount}: {estimate:number}{interval} (1 is the same order, -1 the opposite)."
    ),
    ("sources", "contribution"): "{group} contributes {estimate:number} to the Gini index{interval}.",
    ("sources", "contribution_share"): "{group} makes up {estimate:percent} of the Gini index{interval}.",
    (
        "sources",
        "marginal",
    ): "1% more {group} {amount} would {raise} the Gini index by {estimate:per_1_percent}{interval}.",
    ("decompose", "total"): "The {index} index of {amount} over {units} is {estimate:number}{interval}.",
    ("decompose", "within"): "Inequality within groups: {estimate:number}{interval}.",
    ("decompose", "between"): "Inequality between groups: {estimate:number}{interval}.",
    ("decompose", "overlap"): "Overlap of the groups' ranges: {estimate:number}{interval}.",
    ("decompose", "index"): "Within {group}, the {index} index is {estimate:number}{interval}.",
    ("decompose", "share"): "{group} gets {estimate:percent} of all {amount}{interval}.",
    ("decompose", "population_share"): "{group} makes up {estimate:percent} of all {units}{interval}.",
}
"""Sentences for figures that are parts of a metric and have no card of their own, by audit and name.

The blanks are those of a card's `says`, and `{group}`.
"""


@functools.lru_cache(maxsize=1024)
def card_of(metric: str) -> Card | None:
    """The card behind a metric string; None for a quantity that has none (`contribution`)."""
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


LONG_TITLE = 24
"""Letters of a metric's name beyond which a paper's table has its abbreviation: seven columns then fit a page."""


def paper_title(metric: str) -> str:
    """A metric string as a heading in a paper: abbreviated where its name is long and has an abbreviation.

    >>> paper_title("log_dp(per_item=True)"), paper_title("gini")
    ('logDP (per_item True)', 'Gini index')
    """
    title, card = metric_title(metric), card_of(metric)
    is_short = card is None or not card.symbol or len(card.title) <= LONG_TITLE
    return title if is_short or card is None else title.replace(card.title, card.symbol, 1)


def estimate_format(template: str) -> Callable[[float], str]:
    """How a sentence prints its estimate, and so the ends of its interval."""
    spec = re.search(r"{estimate:(\w+)}{interval}|{estimate:(\w+)}", template)
    return FORMATS[(spec[1] or spec[2])] if spec else number


_PERCENT_PARTS = frozenset(name for (_, name), phrase in PHRASES.items() if "{estimate:percent}" in phrase)


def is_share(metric: str) -> bool:
    """Whether tables and axes show this metric in percent: its sentence is about a share."""
    card = card_of(metric)
    return metric in _PERCENT_PARTS if card is None else bool(re.search("{estimate:(percent|one_in)}", card.says))


def value_format(metric: str) -> Callable[[float], str]:
    """How values of a metric are printed: in percent where people say percent."""
    return percent if is_share(metric) else number


def value_text(value: float | None, metric: str = "") -> str:
    """An estimate as a label in a chart: in percent where people say percent.

    >>> value_text(0.8123), value_text(0.8123, "top_share(p=0.01)")
    ('0.8123', '81.2%')
    """
    return value_format(metric)(read_number(value))


def distinct_texts(metric: str, *values: float) -> list[str]:
    """Values of a metric with as few digits as distinguish them.

    >>> distinct_texts("gini", 0.534, 0.6762), distinct_texts("gini", 0.9940, 0.9946), distinct_texts("top_share(p=0.1)", 0.372, 0.51)
    (['0.53', '0.68'], ['0.994', '0.995'], ['37%', '51%'])
    """

    def fixed(digits: int) -> Callable[[float], str]:
        return lambda v: f"{v:.{digits}f}" if 0.1**digits <= abs(v) < 100 and v != round(v) else number(v)

    formats: list[Callable[[float], str]] = (
        [rounded_percent, percent] if is_share(metric) else [fixed(2), fixed(3), fixed(4)]
    )
    texts: list[str] = []
    for show in formats:
        texts = [show(v) for v in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def meaning(metric: MetricSpec, value: float, units: str, amount: str) -> str:
    """What a value means for readers new to the metric, as a clause; empty where the definition allows no plain one.

    >>> from evenhand.cards import parse_metric
    >>> meaning(parse_metric("gini", REGISTRY), 0.95, "authors", "impressions")
    'that two random authors differ by 1.90 times the mean in impressions, on average'
    """
    if not math.isfinite(value) or metric.params.get("corrected"):
        return ""
    if metric.params.get("convention", "evenhand") != "evenhand":
        return ""
    match metric.card.name:
        case "gini":
            return f"that two random {units} differ by {2 * value:.2f} times the mean in {amount}, on average"
        case "hoover" if value >= 0.01:
            return f"that {value:.0%} of all {amount} would have to be redistributed for all {units} to have the same"
        case "log_dp" | "log_eur" if abs(value) < 20:
            return f"{number(math.exp(value), 2)} times as much"
    return ""
