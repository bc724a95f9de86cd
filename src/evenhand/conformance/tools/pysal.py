"""PySAL's inequality package: `pip install inequality`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np


def version() -> str:
    return f"PySAL inequality {importlib.metadata.version('inequality')}"


def adapter(question: Mapping[str, Any]) -> float:
    metric, data, parameters = question["metric"], question["input"], question["parameters"]
    if "weights" in data or parameters.get("corrected"):
        raise NotImplementedError
    x = np.array(data.get("amounts", []))
    if metric == "gini":
        from inequality.gini import Gini

        return float(Gini(x).g)
    if metric == "theil":
        from inequality.theil import Theil

        return float(Theil(x).T)
    if metric == "atkinson":
        from inequality.atkinson import Atkinson

        return float(Atkinson(x, parameters.get("epsilon", 0.5)).A)
    if metric == "hoover":
        import pandas as pd
        from inequality.schutz import Schutz

        return float(Schutz(pd.DataFrame({"x": x}), "x").distance)
    raise NotImplementedError


def _zero_and_one(question: Mapping[str, Any]) -> Any:
    return "raises" if 0 in question["input"]["amounts"] else None


def _whole_numbers(question: Mapping[str, Any]) -> Any:
    x, epsilon = question["input"]["amounts"], question["parameters"].get("epsilon", 0.5)
    return "raises" if isinstance(epsilon, int) and epsilon > 1 and all(isinstance(a, int) for a in x) else None


def _made_up(question: Mapping[str, Any]) -> Any:
    x = question["input"]["amounts"]
    return 0.0 if not x or not any(x) else None


REASONS = {
    "atkinson": [
        ("PySAL's atkinson refuses amounts of zero", _zero_and_one),
        ("PySAL's atkinson raises whole numbers to a negative power, which numpy refuses", _whole_numbers),
    ],
    "theil": [
        (
            "PySAL's Theil of no units, or of units that all hold nothing (which it replaces by a tiny amount each), is 0",
            _made_up,
        )
    ],
}
