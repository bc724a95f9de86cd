"""fairlearn: `pip install fairlearn`. Each score of a user is a sample; the user's group is the sensitive feature."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any


def version() -> str:
    return f"fairlearn {importlib.metadata.version('fairlearn')}"


def adapter(question: Mapping[str, Any]) -> float:
    metric, data = question["metric"], question["input"]
    if question["parameters"]:
        raise NotImplementedError
    if metric == "equalized_odds_gap":
        return _odds(data["groups"])
    if metric not in ("mad", "mae_ratio", "rmse_ratio"):
        raise NotImplementedError
    from fairlearn.metrics import MetricFrame, mean_prediction
    from sklearn.metrics import mean_absolute_error, root_mean_squared_error

    rows = [
        (float(v), float(y), g)
        for scores, truth, g in zip(data["scores"], data["relevant"], data["user_groups"], strict=True)
        for v, y in zip(scores, truth, strict=True)
        if v is not None and y is not None
    ]
    chosen = {"mad": mean_prediction, "mae_ratio": mean_absolute_error, "rmse_ratio": root_mean_squared_error}[metric]
    frame = MetricFrame(
        metrics=chosen,
        y_true=[y for _, y, _ in rows],
        y_pred=[v for v, _, _ in rows],
        sensitive_features=[g for *_, g in rows],
    )
    a, b = (float(frame.by_group[data[side]]) for side in ("versus", "protected"))
    return a - b if metric == "mad" else b / a


def _odds(groups: Mapping[str, Any]) -> float:
    """The upper of two scores is a positive decision; it knows no third."""
    from fairlearn.metrics import equalized_odds_difference

    scores = sorted({s for rows in groups.values() for _, s, _ in rows})
    if len(scores) > 2:
        raise NotImplementedError
    cells = [
        (m * c, y, s == scores[-1], g)
        for g, rows in groups.items()
        for m, s, p in rows
        for c, y in ((p, 1), (1 - p, 0))
    ]
    selected = [cell for cell in cells if cell[0] > 0]
    weights, truth, chosen, names = ([cell[i] for cell in selected] for i in range(4))
    return float(
        equalized_odds_difference(truth, [int(c) for c in chosen], sensitive_features=names, sample_weight=weights)
    )


def _no_failures(question: Mapping[str, Any]) -> Any:
    """A rate of nobody counts as 0."""
    groups = question["input"]["groups"]
    scores = sorted({s for rows in groups.values() for _, s, _ in rows})
    worst = 0.0
    for success in (True, False):
        rates = []
        for rows in groups.values():
            mass = [(m * (p if success else 1 - p), s) for m, s, p in rows]
            total = sum(m for m, _ in mass)
            rates.append(sum(m for m, s in mass if s == scores[-1]) / total if total else 0.0)
        worst = max(worst, max(rates) - min(rates))
    return worst


REASONS = {"equalized_odds_gap": [("fairlearn counts a rate of nobody as 0", _no_failures)]}
