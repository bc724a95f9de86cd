"""What a value of a metric means, for those who meet the metric for the first time: "0.95 means: ...".

Only what follows from the definition is said, in the units of the data; a metric that has no entry is explained by its card.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from evenhand.cards import MetricSpec
from evenhand.report.words.text import number

Means = Callable[[float, str, str], str]
"""From a value and the words for units and amount to a clause, or nothing where the value is no case for it."""


def _gini(value: float, units: str, amount: str) -> str:
    return f"that the {amount} of two {units} drawn at random differ by {2 * value:.2f} times the mean, on average"


def _times(value: float, units: str, amount: str) -> str:
    return f"{number(math.exp(value), 2)} times as much" if abs(value) < 20 else ""


def _moved(value: float, units: str, amount: str) -> str:
    return (
        f"that {value:.0%} of all {amount} would have to change hands for all {units} to have the same"
        if value >= 0.01
        else ""
    )


MEANS: dict[str, Means] = {"gini": _gini, "hoover": _moved, "log_dp": _times, "log_eur": _times}


def means(asked: MetricSpec, value: float, units: str, amount: str) -> str:
    """What this value means, as a clause; nothing where the definition allows no plain one.

    >>> from evenhand.cards import REGISTRY, parse_metric
    >>> from evenhand import metrics
    >>> means(parse_metric("gini", REGISTRY), 0.95, "authors", "impressions")
    'that the impressions of two authors drawn at random differ by 1.90 times the mean, on average'
    """
    found = MEANS.get(asked.card.name)
    odd = asked.params.get("corrected") or asked.params.get("convention", "evenhand") != "evenhand"
    return found(value, units, amount) if found and math.isfinite(value) and not odd else ""
