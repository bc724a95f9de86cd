"""fairlearn: `pip install fairlearn`. Each score of a user is a sample; the user's group is the sensitive feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance_parts import Prediction, Question, two_scores, version_of

version = version_of("fairlearn")


def adapter(question: Question) -> float:
    metric, data = question["metric"], question["input"]
    if question["parameters"] or metric not in ("equalized_odds_gap", "mad", "mae_ratio", "rmse_ratio"):
        raise NotImplementedError
    if metric == "equalized_odds_gap":
        return _odds(data["groups"])
    from fairlearn.metrics import MetricFrame, mean_prediction
    from sklearn.metrics import mean_absolute_error, root_mean_squared_error

    rows = [
        (float(v), float(y), g)
        for scores, truth, g in zip(data["scores"], data["relevant"], data["user_groups"], strict=True)
        for v, y in zip(scores, truth, strict=True)
        if v is not None and y is not None
    ]
    predicted, true, groups = (list(column) for column in zip(*rows, strict=True))
    chosen = {"mad": mean_prediction, "mae_ratio": mean_absolute_error, "rmse_ratio": root_mean_squared_error}[metric]
    frame = MetricFrame(metrics=chosen, y_true=true, y_pred=predicted, sensitive_features=groups)
    a, b = (float(frame.by_group[data[side]]) for side in ("versus", "protected"))
    return a - b if metric == "mad" else b / a


def _odds(groups: Mapping[str, Any]) -> float:
    from fairlearn.metrics import equalized_odds_difference

    upper = two_scores(groups)[-1]
    cells = [
        (mass * chance, label, int(score == upper), g)
        for g, rows in groups.items()
        for mass, score, p in rows
        for chance, label in ((p, 1), (1 - p, 0))
        if mass * chance > 0
    ]
    weights, truth, decisions, names = (list(column) for column in zip(*cells, strict=True))
    return float(equalized_odds_difference(truth, decisions, sensitive_features=names, sample_weight=weights))


def rate_of_nobody_is_zero(question: Question) -> Prediction:
    groups = question["input"]["groups"]
    upper = max(s for rows in groups.values() for _, s, _ in rows)
    worst = 0.0
    for success in (True, False):
        rates = []
        for rows in groups.values():
            mass = [(m * (p if success else 1 - p), s) for m, s, p in rows]
            total = sum(m for m, _ in mass)
            rates.append(sum(m for m, s in mass if s == upper) / total if total else 0.0)
        worst = max(worst, max(rates) - min(rates))
    return worst


REASONS = {"equalized_odds_gap": [("fairlearn counts a rate of nobody as 0", rate_of_nobody_is_zero)]}
