"""holisticai: `pip install holisticai`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from conformance_parts import Prediction, Question, gini, version_of
from conformance_parts import shown as columns

version = version_of("holisticai")

CATALOGUE = {
    "item_gini": "gini_index",
    "aggregate_diversity": "aggregate_diversity",
    "exposure_entropy": "exposure_entropy",
    "recommendation_popularity": "avg_recommendation_popularity",
}
SIDES = {"exposure_tv": "exposure_l1", "exposure_kl": "exposure_kl"}
JUDGED = {"precision_ratio": "avg_precision_ratio", "recall_ratio": "avg_recall_ratio", "f1_ratio": "avg_f1_ratio"}
ERRORS = {"mae_ratio": "recommender_mae_ratio", "rmse_ratio": "recommender_rmse_ratio"}


def matrix(rows: Any) -> Any:
    return np.array([[math.nan if v is None else v for v in row] for row in rows], dtype=float)


def adapter(question: Question) -> float:
    """Its value; group a is `versus` and group b `protected`, as its documentation has them."""
    metric, data = question["metric"], question["input"]
    functions = {**CATALOGUE, **SIDES, **JUDGED, **ERRORS, "mad": "mad_score"}
    corrected = metric == "item_gini" and question["parameters"] == {"corrected": True}
    if metric not in functions or (question["parameters"] and not corrected):
        raise NotImplementedError
    from holisticai.bias import metrics

    function = getattr(metrics, functions[metric])
    scores = matrix(data["scores"])
    sides = [np.array([int(g == data[side]) for g in data["user_groups"]]) for side in ("versus", "protected")]
    cut = {"top": data.get("top")} if data.get("top") is not None else {"thresh": data.get("threshold")}
    if metric == "mad":
        return float(function(*sides, scores))
    if metric in ERRORS:
        return float(function(*sides, scores, matrix(data["relevant"])))
    if metric in JUDGED:
        return float(function(*sides, scores, matrix(data["relevant"]), **cut))
    return float(function(*sides, scores, **cut) if metric in SIDES else function(scores, **cut))


# --- why its numbers differ: the same steps, one at a time ------------------------------------------------------------


def shown(data: Mapping[str, Any]) -> Any:
    """(users, items) 1 where it shows an item: a 0/1 matrix as is, else the last sorted columns."""
    scores = matrix(data["scores"])
    if np.array_equal(scores, scores.astype(bool)):
        return scores
    if data.get("top") is None:
        return (scores >= data["threshold"]) * 1.0
    filled = np.nan_to_num(scores, nan=-np.inf)
    out = np.zeros(scores.shape)
    np.put_along_axis(out, np.argsort(filled, axis=1)[:, -data["top"] :], 1.0, axis=1)
    return out


def by_side(data: Mapping[str, Any], rows: Any) -> list[Any]:
    """The rows of the users of group a, and of group b."""
    return [rows[np.array(data["user_groups"]) == data[side]] for side in ("versus", "protected")]


def with_missing_scores(question: Question) -> Prediction:
    """The metric by its definition on what it shows."""
    metric, exposed = question["metric"], shown(question["input"])
    counts = exposed.sum(0)
    with np.errstate(all="ignore"):
        if metric == "item_gini":
            return gini(counts, corrected=True)
        if metric == "aggregate_diversity":
            return float((counts > 0).mean())
        if metric == "exposure_entropy":
            p = counts[counts > 0] / counts.sum()
            return float(-(p * np.log(p)).sum())
        if metric == "recommendation_popularity":
            return float(np.nanmean((exposed * counts).sum(1) / exposed.sum(1)))
        a, b = (side.sum(0) / side.sum() for side in by_side(question["input"], exposed))
        if metric == "exposure_tv":
            return float(np.abs(a - b).sum() / 2)
        return float(np.where(a > 0, a * np.log(a / b), 0.0).sum())


def a_over_b(question: Question) -> Prediction:
    """Mean of group a over that of group b, on what it shows, the truth cut like the scores."""
    data, exposed = question["input"], shown(question["input"])
    truth = shown({**data, "scores": data["relevant"]})
    hits, sizes, expected = (exposed * truth).sum(1), exposed.sum(1), truth.sum(1)
    over = {"precision_ratio": sizes, "recall_ratio": expected, "f1_ratio": (sizes + expected) / 2}[question["metric"]]
    a, b = by_side(data, np.divide(hits, over, out=np.zeros(len(hits)), where=over > 0))
    return float(a.mean() / b.mean())


def error_a_over_b(question: Question) -> Prediction:
    data = question["input"]
    errors = by_side(data, matrix(data["scores"]) - matrix(data["relevant"]))
    a, b = (np.nanmean(np.abs(e)) if question["metric"] == "mae_ratio" else np.sqrt(np.nanmean(e**2)) for e in errors)
    return float(a / b)


def corrected_gini(question: Question) -> Prediction:
    counts = [0] * len(question["input"]["scores"][0])
    for row in columns(question["input"]):
        for j in row:
            counts[j] += 1
    return gini(counts, corrected=True)


_SLOTS = "holisticai fills slots with missing scores where a user has fewer scores than slots"
_TURNED = "holisticai divides group a by group b, where its documentation defines b over a"
REASONS = {
    **{name: [(_SLOTS, with_missing_scores)] for name in (*CATALOGUE, *SIDES)},
    "item_gini": [
        ("holisticai divides its Gini by n - 1, where its documentation divides by n", corrected_gini),
        (_SLOTS, with_missing_scores),
    ],
    **{name: [(_TURNED, a_over_b)] for name in JUDGED},
    **{name: [(_TURNED, error_a_over_b)] for name in ERRORS},
}
