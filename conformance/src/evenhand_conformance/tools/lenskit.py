"""LensKit: `pip install lenskit`."""

from __future__ import annotations

from typing import Any

import numpy as np
from conformance_parts import Prediction, Question, gini, shown, version_of

version = version_of("LensKit", "lenskit")


def adapter(question: Question) -> float:
    import lenskit.data  # comes first, or lenskit.stats imports itself in a circle
    from lenskit import metrics, stats

    metric, data = question["metric"], question["input"]
    if metric == "ranked_gini":
        weight = metrics.GeometricRankWeight(patience(question))
        return _over_lists(metrics.ExposureGini(items=data["items"], weight=weight), data["lists"])
    if question["parameters"] or metric not in ("gini", "item_gini", "ndcg") or data.keys() & {"weights", "candidates"}:
        raise NotImplementedError
    if metric == "gini":
        return float(stats.gini(np.array(data["amounts"])))
    if metric == "item_gini":
        return _over_lists(metrics.ListGini(items=len(data["scores"][0])), shown(data))
    lists = lenskit.data.ItemList
    ids = np.arange(len(data["gains"]))
    truth = lists(item_ids=ids, rating=np.array(data["gains"], dtype=float))
    return float(metrics.NDCG(gain="rating").measure_list(lists(item_ids=ids, ordered=True), truth))


def _over_lists(measure: Any, rows: list[list[int]]) -> float:
    """A measure of a whole run, given as items in order."""
    from lenskit.data import ItemList

    lists = [ItemList(item_ids=np.array(row, dtype=np.int64), ordered=True) for row in rows]
    nothing = ItemList(item_ids=np.array([0]))
    return float(measure.global_aggregate([measure.compute_list_data(item_list, nothing) for item_list in lists]))


def patience(question: Question) -> float:
    """Of the only attention that it has."""
    attention = question["parameters"].get("attention", "rbp(patience=0.8)")
    if not attention.startswith("rbp("):
        raise NotImplementedError
    return float(attention.removeprefix("rbp(patience=").rstrip(")"))


def ndcg_of_2002(question: Question) -> Prediction:
    """Its weight at rank r is 1 / log2(max(r, 2)): ranks 1 and 2 count alike."""
    gains = question["input"]["gains"]
    weight = [1 / np.log2(max(r, 2)) for r in range(1, len(gains) + 1)]
    best = sum(w * g for w, g in zip(weight, sorted(gains, reverse=True), strict=True))
    return float(sum(w * g for w, g in zip(weight, gains, strict=True)) / best) if best else None


def empty_list(question: Question) -> Prediction:
    lists = question["input"]["lists"]
    return "raises" if any(lists) and not all(lists) else None


def in_single_precision(question: Question) -> Prediction:
    """Weights and what items add up to are kept in 32 bits."""
    received = np.zeros(question["input"]["items"])
    for row in question["input"]["lists"]:
        for rank, item in enumerate(row):
            received[item] += np.float32(patience(question) ** rank)
    return gini(received.astype(np.float32).astype(np.float64).tolist())


_DISCOUNT = "LensKit discounts by log2 max(rank, 2), as the paper of 2002 does, where trec_eval takes log2(rank + 1)"
REASONS = {
    "ranked_gini": [
        ("LensKit's ExposureGini cannot join a list without items to others", empty_list),
        ("LensKit's ExposureGini keeps exposures in 32 bits, so that nine digits do not hold", in_single_precision),
    ],
    "ndcg": [(_DISCOUNT, ndcg_of_2002)],
}
