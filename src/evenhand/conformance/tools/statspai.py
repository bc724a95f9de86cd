"""StatsPAI: `pip install StatsPAI`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np

INDEX = {"gini": "gini", "theil": "theil_t", "atkinson": "atkinson", "generalized_entropy": "ge2"}


def version() -> str:
    return f"StatsPAI {importlib.metadata.version('StatsPAI')}"


def adapter(question: Mapping[str, Any]) -> float:
    import statspai

    metric, data, parameters = question["metric"], question["input"], dict(question["parameters"])
    if metric not in INDEX or parameters.pop("corrected", False):
        raise NotImplementedError
    more: dict[str, Any] = {}
    if metric == "atkinson":
        more["eps"] = parameters.get("epsilon", 0.5)
    if metric == "generalized_entropy":
        more["alpha"] = float(parameters.get("alpha", 1))
    weights = np.array(data["weights"], dtype=float) if "weights" in data else None
    return float(
        statspai.inequality_index(np.array(data["amounts"], dtype=float), INDEX[metric], weights=weights, **more)
    )


def _clipped(question: Mapping[str, Any]) -> Any:
    """Zeros count as 1e-12."""
    x = np.clip(np.array(question["input"]["amounts"], dtype=float), 1e-12, None)
    w = np.array(question["input"].get("weights", np.ones(len(x))), dtype=float)
    mean = np.average(x, weights=w)
    p, r = question["parameters"], x / mean
    with np.errstate(all="ignore"):
        if question["metric"] == "theil":
            return np.average(r * np.log(r), weights=w)
        if question["metric"] == "generalized_entropy":
            alpha = p.get("alpha", 1)
            if alpha == 1:
                return np.average(r * np.log(r), weights=w)
            if alpha == 0:
                return -np.average(np.log(r), weights=w)
            return (np.average(r**alpha, weights=w) - 1) / (alpha * (alpha - 1))
        epsilon = p.get("epsilon", 0.5)
        if epsilon == 1:
            return 1 - np.exp(np.average(np.log(x), weights=w)) / mean
        return 1 - np.average(x ** (1 - epsilon), weights=w) ** (1 / (1 - epsilon)) / mean


def _nothing(question: Mapping[str, Any]) -> Any:
    return 0.0 if not sum(question["input"]["amounts"]) else None


def _corrected(question: Mapping[str, Any]) -> Any:
    """The population Gini over one minus the sum of squared shares of the weights, which is 1 - 1/n where all count once."""
    x = np.array(question["input"]["amounts"], dtype=float)
    w = np.array(question["input"].get("weights", np.ones(len(x))), dtype=float)
    w = w / w.sum()
    differences = (w[:, None] * w[None, :] * np.abs(x[:, None] - x[None, :])).sum()
    with np.errstate(all="ignore"):
        return differences / (2 * (w @ x)) / (1 - (w**2).sum())


_ZEROS = (
    "StatsPAI counts a zero as 1e-12, and so gives a number where there is none or where the limit is 1 or infinite"
)
_NOBODY = "StatsPAI gives 0 where nobody received anything"
_PAIRS = "StatsPAI's Gini is over pairs of different units (n - 1; with weights, one minus their squared shares), so one unit has none"
REASONS = {
    "gini": [(_PAIRS, _corrected)],
    **{name: [(_NOBODY, _nothing), (_ZEROS, _clipped)] for name in ("theil", "atkinson", "generalized_entropy")},
}
