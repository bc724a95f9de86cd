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

    metric, given = question["metric"], question["input"]
    if (
        question["parameters"]
        or metric not in ("gini", "item_gini", "ndcg")
        or "weights" in given
        or "candidates" in given
    ):
        raise NotImplementedError
    if metric == "gini":
        return float(gini(np.array(given["amounts"])))
    lists = lenskit.data.ItemList
    if metric == "ndcg":
        ids = np.arange(len(given["gains"]))
        truth = lists(item_ids=ids, rating=np.array(given["gains"], dtype=float))
        return float(NDCG(gain="rating").measure_list(lists(item_ids=ids, ordered=True), truth))
    measure = ListGini(items=len(given["scores"][0]))
    made = [lists(item_ids=np.array(row, dtype=np.int64), ordered=True) for row in shown(given)]
    return float(
        measure.global_aggregate([measure.compute_list_data(one, lists(item_ids=np.array([0]))) for one in made])
    )


def _other_discount(question: Mapping[str, Any]) -> Any:
    """Its weight at rank r is 1 / log2(max(r, 2)): ranks 1 and 2 count alike."""
    gains = question["input"]["gains"]
    weight = [1 / np.log2(max(r, 2)) for r in range(1, len(gains) + 1)]
    best = sum(w * g for w, g in zip(weight, sorted(gains, reverse=True), strict=True))
    return sum(w * g for w, g in zip(weight, gains, strict=True)) / best if best else None


REASONS = {
    "ndcg": [
        (
            "LensKit discounts by log2 max(rank, 2), as the paper of 2002 does, where trec_eval takes log2(rank + 1)",
            _other_discount,
        )
    ],
}
