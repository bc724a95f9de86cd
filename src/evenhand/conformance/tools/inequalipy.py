"""inequalipy: `pip install inequalipy`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np


def version() -> str:
    return f"inequalipy {importlib.metadata.version('inequalipy')}"


def adapter(question: Mapping[str, Any]) -> float:
    import inequalipy

    metric, data, parameters = question["metric"], question["input"], question["parameters"]
    x = np.array(data.get("amounts", []), dtype=float)
    weights = np.array(data["weights"], dtype=float) if "weights" in data else None
    if metric == "gini" and not parameters.get("corrected"):
        return float(inequalipy.gini(x, weights=weights))
    if metric == "atkinson":
        return float(inequalipy.atkinson.index(x, parameters.get("epsilon", 0.5), weights=weights))
    raise NotImplementedError


def _at_one(question: Mapping[str, Any]) -> Any:
    return "raises" if question["parameters"].get("epsilon") == 1 else None


def _weights(question: Mapping[str, Any]) -> Any:
    return "raises" if "weights" in question["input"] else None


REASONS = {
    "atkinson": [
        ("inequalipy's atkinson divides by zero at an aversion of 1", _at_one),
        ("inequalipy's atkinson takes the truth value of an array of weights, which numpy refuses", _weights),
    ],
}
