"""holisticai: `pip install holisticai`."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from conformance_parts import shown as columns

CATALOGUE = {
    "item_gini": "gini_index",
    "aggregate_diversity": "aggregate_diversity",
    "exposure_entropy": "exposure_entropy",
    "recommendation_popularity": "avg_recommendation_popularity",
}
SIDES = {"exposure_tv": "exposure_l1", "exposure_kl": "exposure_kl"}
JUDGED = {"precision_ratio": "avg_precision_ratio", "recall_ratio": "avg_recall_ratio", "f1_ratio": "avg_f1_ratio"}
ERRORS = {"mae_ratio": "recommender_mae_ratio", "rmse_ratio": "recommender_rmse_ratio"}


def version() -> str:
    return f"holisticai {importlib.metadata.version('holisticai')}"


def matrix(rows: Any) -> Any:
    return np.array([[math.nan if v is None else v for v in row] for row in rows], dtype=float)


def adapter(question: Mapping[str, Any]) -> float:
    """Group a is `versus`, group b `protected`, as its documentation names them; `base` and the like it has not."""
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
    """(users, items) 1 where it shows an item: a 0/1 matrix as it is, else the last sorted columns, NaN first."""
    scores = matrix(data["scores"])
    if np.array_equal(scores, scores.astype(bool)):
        return scores
    if data.get("top") is None:
        return (scores >= data["threshold"]) * 1.0
    filled = np.nan_to_num(scores, nan=-np.inf)
    out = np.zeros(scores.shape)
    np.put_along_axis(out, np.argsort(filled, axis=1)[:, -data["top"] :], 1.0, axis=1)
    return out


def _as_it_shows(question: Mapping[str, Any]) -> Any:
    """The metric by its definition on what it shows."""
    data, exposed = question["input"], shown(question["input"])
    counts = exposed.sum(0)
    n, total = len(counts), counts.sum()
    ordered = np.sort(counts)
    with np.errstate(all="ignore"):
        if question["metric"] == "item_gini":
            return (2 * np.arange(1, n + 1) - n - 1) @ ordered / ((n - 1) * total)
        if question["metric"] == "aggregate_diversity":
            return (counts > 0).mean()
        if question["metric"] == "exposure_entropy":
            p = counts[counts > 0] / total
            return -(p * np.log(p)).sum()
        if question["metric"] == "recommendation_popularity":
            return np.nanmean((exposed * counts).sum(1) / exposed.sum(1))
        mixes = [exposed[np.array(data["user_groups"]) == data[side]].sum(0) for side in ("versus", "protected")]
        a, b = (m / m.sum() for m in mixes)
        if question["metric"] == "exposure_tv":
            return np.abs(a - b).sum() / 2
        terms = np.where(a > 0, a * np.log(a / b), 0.0)
        return float(terms.sum())


def _upside_down(question: Mapping[str, Any]) -> Any:
    """Mean of group a over mean of group b, on what it shows and with the truth cut like the scores."""
    data, exposed = question["input"], shown(question["input"])
    truth = shown({**data, "scores": data["relevant"]})
    hits, sizes, expected = (exposed * truth).sum(1), exposed.sum(1), truth.sum(1)
    over = {"precision_ratio": sizes, "recall_ratio": expected, "f1_ratio": (sizes + expected) / 2}[question["metric"]]
    each = np.divide(hits, over, out=np.zeros(len(hits)), where=over > 0)
    a, b = (each[np.array(data["user_groups"]) == data[side]].mean() for side in ("versus", "protected"))
    return a / b


def _errors_upside_down(question: Mapping[str, Any]) -> Any:
    data = question["input"]
    scores, truth = matrix(data["scores"]), matrix(data["relevant"])
    groups = np.array(data["user_groups"])
    errors = [(scores - truth)[groups == data[side]] for side in ("versus", "protected")]
    a, b = (np.nanmean(np.abs(e)) if question["metric"] == "mae_ratio" else np.sqrt(np.nanmean(e**2)) for e in errors)
    return a / b


def _corrected(question: Mapping[str, Any]) -> Any:
    counts = np.sort(
        np.bincount(
            [j for row in columns(question["input"]) for j in row], minlength=len(question["input"]["scores"][0])
        )
    )
    n = len(counts)
    return (2 * np.arange(1, n + 1) - n - 1) @ counts / ((n - 1) * counts.sum())


_SLOTS = "holisticai fills slots with missing scores where a user has fewer scores than slots"
_TURNED = "holisticai divides group a by group b, where its documentation defines b over a"
REASONS = {
    **{name: [(_SLOTS, _as_it_shows)] for name in (*CATALOGUE, *SIDES)},
    "item_gini": [
        ("holisticai divides its Gini by n - 1, where its documentation divides by n", _corrected),
        (_SLOTS, _as_it_shows),
    ],
    **{name: [(_TURNED, _upside_down)] for name in JUDGED},
    **{name: [(_TURNED, _errors_upside_down)] for name in ERRORS},
}
