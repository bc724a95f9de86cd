"""RecBole's metrics, outside its pipeline: `pip install recbole`. Tables as its collector makes them."""

from __future__ import annotations

import importlib.metadata
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from conformance_parts import shown

NAMES = {
    "item_gini": ("GiniIndex", "giniindex"),
    "aggregate_diversity": ("ItemCoverage", "itemcoverage"),
    "exposure_entropy": ("ShannonEntropy", "shannonentropy"),
    "recommendation_popularity": ("AveragePopularity", "averagepopularity"),
}


def version() -> str:
    return f"RecBole {importlib.metadata.version('recbole')}"


def lists(inputs: Mapping[str, Any]) -> list[list[int]]:
    """Of each user, the items shown; RecBole numbers items from 1, for 0 is its padding, and needs lists of one length."""
    rows = [[j + 1 for j in row] for row in shown(inputs)]
    if len(set(map(len, rows))) != 1 or not rows[0]:
        raise NotImplementedError  # its recommender always fills a list
    return rows


def adapter(question: Mapping[str, Any]) -> float:
    metric, inputs = question["metric"], question["input"]
    if metric not in NAMES or question["parameters"]:
        raise NotImplementedError
    matrix = lists(inputs)
    import torch
    from recbole.evaluator import metrics
    from recbole.evaluator.collector import DataStruct

    name, key = NAMES[metric]
    data = DataStruct()
    data["rec.items"] = torch.tensor(matrix)
    data["data.num_items"] = len(inputs["scores"][0]) + 1  # dataset.num(item) counts the padding item
    data["data.count_items"] = Counter(
        item for row in matrix for item in row
    )  # what was shown stands for the training data
    k = len(matrix[0])
    value = getattr(metrics, name)({"topk": [k], "metric_decimal_place": 15}).calculate_metric(data)
    return float(value[f"{key}@{k}"])


def _padded(question: Mapping[str, Any]) -> Any:
    """One item more that nobody is ever shown."""
    counts = Counter(item for row in lists(question["input"]) for item in row)
    n, total = len(question["input"]["scores"][0]) + 1, sum(counts.values())
    x = sorted([*counts.values(), *[0] * (n - len(counts))])
    if question["metric"] == "aggregate_diversity":
        return len(counts) / n
    return sum((2 * i - n - 1) * c for i, c in enumerate(x, start=1)) / (n * total)


def _per_item(question: Mapping[str, Any]) -> Any:
    counts = Counter(item for row in lists(question["input"]) for item in row)
    total = sum(counts.values())
    return -sum(c / total * math.log(c / total) for c in counts.values()) / len(counts)


_PAD = "RecBole's number of items counts the padding item 0, which can never be shown"
REASONS = {
    "item_gini": [(_PAD, _padded)],
    "aggregate_diversity": [(_PAD, _padded)],
    "exposure_entropy": [("RecBole divides the entropy by the number of items that were shown", _per_item)],
}
