"""The meaning of a value for readers new to the metric ("0.95 means ..."), as it follows from the definition.

A metric that has no entry is explained by its card.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from evenhand.cards import MetricSpec
from evenhand.report.words.text import number

Meaning = Callable[[float, str, str], str]
"""From a value and the words for units and amount to a clause; empty where there is no plain one."""


def _gini(value: float, units: str, amount: str) -> str:
    return f"that the {amount} of two {units} drawn at random differ by {2 * value:.2f} times the mean, on average"


def _times(value: float, units: str, amount: str) -> str:
    return f"{number(math.exp(value), 2)} times as much" if abs(value) < 20 else ""


def _moved(value: float, units: str, amount: str) -> str:
    moved = f"that {value:.0%} of all {amount} would have to change hands for all {units} to have the same"
    return moved if value >= 0.01 else ""


MEANS: dict[str, Meaning] = {"gini": _gini, "hoover": _moved, "log_dp": _times, "log_eur": _times}


def means(metric: MetricSpec, value: float, units: str, amount: str) -> str:
    """The meaning of a value as a clause; empty where the definition allows no plain one.

    >>> from evenhand.cards import REGISTRY, parse_metric
    >>> from evenhand import metrics
    >>> means(parse_metric("gini", REGISTRY), 0.95, "authors", "impressions")
    'that the impressions of two authors drawn at random differ by 1.90 times the mean, on average'
    """
    meaning = MEANS.get(metric.card.name)
    variant = metric.params.get("corrected") or metric.params.get("convention", "evenhand") != "evenhand"
    return meaning(value, units, amount) if meaning and math.isfinite(value) and not variant else ""
