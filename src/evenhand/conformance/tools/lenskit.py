"""LensKit: `pip install lenskit`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np
from conformance_parts import shown


def version() -> str:
    return f"LensKit {importlib.metadata.version('lenskit')}"


def adapter(question: Mapping[str, Any]) -> float:
    import lenskit.data  # comes first, or lenskit.stats imports itself in a circle
    from lenskit.metrics import NDCG, ListGini
    from lenskit.stats import gini

    metric, data = question["metric"], question["input"]
    if metric == "ranked_gini":
        return _exposure_gini(data, question["parameters"].get("attention", "rbp(patience=0.8)"))
    if (
        question["parameters"]
        or metric not in ("gini", "item_gini", "ndcg")
        or "weights" in data
        or "candidates" in data
    ):
        raise NotImplementedError
    if metric == "gini":
        return float(gini(np.array(data["amounts"])))
    lists = lenskit.data.ItemList
    if metric == "ndcg":
        ids = np.arange(len(data["gains"]))
        truth = lists(item_ids=ids, rating=np.array(data["gains"], dtype=float))
        return float(NDCG(gain="rating").measure_list(lists(item_ids=ids, ordered=True), truth))
    measure = ListGini(items=len(data["scores"][0]))
    item_lists = [lists(item_ids=np.array(row, dtype=np.int64), ordered=True) for row in shown(data)]
    return float(
        measure.global_aggregate(
            [measure.compute_list_data(item_list, lists(item_ids=np.array([0]))) for item_list in item_lists]
        )
    )


def _exposure_gini(data: Mapping[str, Any], attention: str) -> float:
    import lenskit.data
    from lenskit.metrics import ExposureGini, GeometricRankWeight

    if not attention.startswith("rbp("):
        raise NotImplementedError
    patience = float(attention.removeprefix("rbp(patience=").rstrip(")"))
    measure = ExposureGini(items=data["items"], weight=GeometricRankWeight(patience))
    lists = lenskit.data.ItemList
    item_lists = [lists(item_ids=np.array(row, dtype=np.int64), ordered=True) for row in data["lists"]]
    return float(
        measure.global_aggregate(
            [measure.compute_list_data(item_list, lists(item_ids=np.array([0]))) for item_list in item_lists]
        )
    )


def _other_discount(question: Mapping[str, Any]) -> Any:
    """Its weight at rank r is 1 / log2(max(r, 2)): ranks 1 and 2 count alike."""
    gains = question["input"]["gains"]
    weight = [1 / np.log2(max(r, 2)) for r in range(1, len(gains) + 1)]
    best = sum(w * g for w, g in zip(weight, sorted(gains, reverse=True), strict=True))
    return sum(w * g for w, g in zip(weight, gains, strict=True)) / best if best else None


def _empty_list(question: Mapping[str, Any]) -> Any:
    lists = question["input"]["lists"]
    return "raises" if any(lists) and not all(lists) else None


def _single_precision(question: Mapping[str, Any]) -> Any:
    """Weights and what items add up to are kept in 32 bits."""
    data = question["input"]
    patience = float(
        question["parameters"].get("attention", "rbp(patience=0.8)").removeprefix("rbp(patience=").rstrip(")")
    )
    received = np.zeros(data["items"])
    for row in data["lists"]:
        for rank, item in enumerate(row):
            received[item] += np.float32(patience**rank)
    x = np.sort(received.astype(np.float32)).astype(np.float64)
    n = len(x)
    return float((2 * np.arange(1, n + 1) - n - 1) @ x / (n * x.sum()))


REASONS = {
    "ranked_gini": [
        ("LensKit's ExposureGini cannot join a list without items to others", _empty_list),
        ("LensKit's ExposureGini keeps exposures in 32 bits, so that nine digits do not hold", _single_precision),
    ],
    "ndcg": [
        (
            "LensKit discounts by log2 max(rank, 2), as the paper of 2002 does, where trec_eval takes log2(rank + 1)",
            _other_discount,
        )
    ],
}
