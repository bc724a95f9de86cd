"""PySAL's inequality package: `pip install inequality`."""

from __future__ import annotations

import numpy as np
from conformance_parts import Prediction, Question, version_of

version = version_of("PySAL inequality", "inequality")


def adapter(question: Question) -> float:
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


def whole_numbers(question: Question) -> Prediction:
    x, epsilon = question["input"]["amounts"], question["parameters"].get("epsilon", 0.5)
    return "raises" if isinstance(epsilon, int) and epsilon > 1 and all(isinstance(a, int) for a in x) else None


_MADE_UP = (
    "PySAL's Theil of no units, or of units that all hold nothing (which it replaces by a tiny amount each), is 0"
)
_POWERS = "PySAL's atkinson raises whole numbers to a negative power, which numpy refuses"
REASONS = {
    "atkinson": [
        ("PySAL's atkinson refuses amounts of zero", lambda q: "raises" if 0 in q["input"]["amounts"] else None),
        (_POWERS, whole_numbers),
    ],
    "theil": [(_MADE_UP, lambda q: 0.0 if not any(q["input"]["amounts"]) else None)],
}
