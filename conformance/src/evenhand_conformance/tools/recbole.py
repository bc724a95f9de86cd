"""RecBole's metrics, outside its pipeline: `pip install recbole`. Tables as its collector makes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from conformance_parts import Prediction, Question, gini, shown, version_of

version = version_of("RecBole", "recbole")
NAMES = {
    "item_gini": ("GiniIndex", "giniindex"),
    "aggregate_diversity": ("ItemCoverage", "itemcoverage"),
    "exposure_entropy": ("ShannonEntropy", "shannonentropy"),
    "recommendation_popularity": ("AveragePopularity", "averagepopularity"),
}


def lists(inputs: Mapping[str, Any]) -> list[list[int]]:
    """Of each user, the items shown, numbered from 1 (0 is padding), in lists of one length."""
    rows = [[j + 1 for j in row] for row in shown(inputs)]
    if len(set(map(len, rows))) != 1 or not rows[0]:
        raise NotImplementedError  # its recommender always fills a list
    return rows


def counts_of(inputs: Mapping[str, Any]) -> Counter[int]:
    return Counter(item for row in lists(inputs) for item in row)


def adapter(question: Question) -> float:
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
    data["data.count_items"] = counts_of(inputs)  # what was shown stands for the training data
    k = len(matrix[0])
    value = getattr(metrics, name)({"topk": [k], "metric_decimal_place": 15}).calculate_metric(data)
    return float(value[f"{key}@{k}"])


def with_padding_item(question: Question) -> Prediction:
    """One item more that nobody is ever shown."""
    counts = counts_of(question["input"])
    n = len(question["input"]["scores"][0]) + 1
    if question["metric"] == "aggregate_diversity":
        return len(counts) / n
    return gini([*counts.values(), *[0] * (n - len(counts))])


def entropy_per_item(question: Question) -> Prediction:
    counts = counts_of(question["input"])
    total = sum(counts.values())
    return -sum(c / total * math.log(c / total) for c in counts.values()) / len(counts)


_PAD = "RecBole's number of items counts the padding item 0, which can never be shown"
REASONS = {
    "item_gini": [(_PAD, with_padding_item)],
    "aggregate_diversity": [(_PAD, with_padding_item)],
    "exposure_entropy": [("RecBole divides the entropy by the number of items that were shown", entropy_per_item)],
}
