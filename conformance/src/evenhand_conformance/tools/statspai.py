"""StatsPAI: `pip install StatsPAI`."""

from __future__ import annotations

from typing import Any

import numpy as np
from conformance_parts import Prediction, Question, version_of

version = version_of("StatsPAI")
INDEX = {"gini": "gini", "theil": "theil_t", "atkinson": "atkinson", "generalized_entropy": "ge2"}


def adapter(question: Question) -> float:
    import statspai

    metric, data, parameters = question["metric"], question["input"], dict(question["parameters"])
    if metric not in INDEX or parameters.pop("corrected", False):
        raise NotImplementedError
    more: dict[str, Any] = {}
    if metric == "atkinson":
        more["eps"] = parameters.get("epsilon", 0.5)
    if metric == "generalized_entropy":
        more["alpha"] = float(parameters.get("alpha", 1))
    amounts = np.array(data["amounts"], dtype=float)
    weights = np.array(data["weights"], dtype=float) if "weights" in data else None
    return float(statspai.inequality_index(amounts, INDEX[metric], weights=weights, **more))


def amounts_and_weights(question: Question) -> tuple[Any, Any]:
    x = np.array(question["input"]["amounts"], dtype=float)
    return x, np.array(question["input"].get("weights", np.ones(len(x))), dtype=float)


def with_tiny_zeros(question: Question) -> Prediction:
    """Zeros count as 1e-12."""
    x, w = amounts_and_weights(question)
    x = np.clip(x, 1e-12, None)
    mean = np.average(x, weights=w)
    p, r = question["parameters"], x / mean
    alpha = 1 if question["metric"] == "theil" else p.get("alpha", 1)
    with np.errstate(all="ignore"):
        if question["metric"] != "atkinson":
            if alpha == 1:
                return float(np.average(r * np.log(r), weights=w))
            if alpha == 0:
                return float(-np.average(np.log(r), weights=w))
            return float((np.average(r**alpha, weights=w) - 1) / (alpha * (alpha - 1)))
        epsilon = p.get("epsilon", 0.5)
        if epsilon == 1:
            return float(1 - np.exp(np.average(np.log(x), weights=w)) / mean)
        return float(1 - np.average(x ** (1 - epsilon), weights=w) ** (1 / (1 - epsilon)) / mean)


def gini_of_pairs(question: Question) -> Prediction:
    """The population Gini over 1 - sum of squared weight shares (1 - 1/n without weights)."""
    x, w = amounts_and_weights(question)
    w = w / w.sum()
    differences = (w[:, None] * w[None, :] * np.abs(x[:, None] - x[None, :])).sum()
    with np.errstate(all="ignore"):
        return float(differences / (2 * (w @ x)) / (1 - (w**2).sum()))


def zero_of_nothing(question: Question) -> Prediction:
    return 0.0 if not sum(question["input"]["amounts"]) else None


_ZEROS = (
    "StatsPAI counts a zero as 1e-12, and so gives a number where there is none or where the limit is 1 or infinite"
)
_NOBODY = "StatsPAI gives 0 where nobody received anything"
_PAIRS = "StatsPAI's Gini is over pairs of different units (n - 1; with weights, one minus their squared shares), so one unit has none"
REASONS = {
    "gini": [(_PAIRS, gini_of_pairs)],
    **{
        name: [(_NOBODY, zero_of_nothing), (_ZEROS, with_tiny_zeros)]
        for name in ("theil", "atkinson", "generalized_entropy")
    },
}
