"""inequalipy: `pip install inequalipy`."""

from __future__ import annotations

import numpy as np
from conformance_parts import Question, version_of

version = version_of("inequalipy")


def adapter(question: Question) -> float:
    import inequalipy

    metric, data, parameters = question["metric"], question["input"], question["parameters"]
    x = np.array(data.get("amounts", []), dtype=float)
    weights = np.array(data["weights"], dtype=float) if "weights" in data else None
    if metric == "gini" and not parameters.get("corrected"):
        return float(inequalipy.gini(x, weights=weights))
    if metric == "atkinson":
        return float(inequalipy.atkinson.index(x, parameters.get("epsilon", 0.5), weights=weights))
    raise NotImplementedError


_AT_ONE = "inequalipy's atkinson divides by zero at an aversion of 1"
_WEIGHTS = "inequalipy's atkinson takes the truth value of an array of weights, which numpy refuses"
REASONS = {
    "atkinson": [
        (_AT_ONE, lambda q: "raises" if q["parameters"].get("epsilon") == 1 else None),
        (_WEIGHTS, lambda q: "raises" if "weights" in q["input"] else None),
    ],
}
