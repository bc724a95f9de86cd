"""FairRankTune: `pip install FairRankTune numpy pandas scipy` (it names no dependencies)."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from typing import Any

OFFSET = "log(offset=1)"
"""The only attention it has."""


def version() -> str:
    return f"FairRankTune {importlib.metadata.version('FairRankTune')}"


def orders(data: Mapping[str, Any]) -> list[list[str]]:
    """One list per request: it has neither weights nor policies."""
    if any(r["weight"] != 1 or len(r["rankings"]) > 1 for r in data["requests"]):
        raise NotImplementedError
    return [r["rankings"][0]["items"] for r in data["requests"]]


def adapter(question: Mapping[str, Any]) -> float:
    metric, data, parameters = question["metric"], question["input"], question["parameters"]
    if metric == "geyik_ndkl" and not parameters:
        return _ndkl(data["labels"])
    if parameters.get("attention") != OFFSET or metric not in ("dp", "eur", "iaa"):
        raise NotImplementedError
    import FairRankTune
    import pandas as pd

    if metric == "iaa":
        if parameters.get("level") != "item":
            raise NotImplementedError
        worth = [
            [r["scores"].get(d, 0) for d in items] for r, items in zip(data["requests"], orders(data), strict=True)
        ]
        return float(FairRankTune.Metrics.IAA(_columns(orders(data)), _columns(worth)))
    groups = {item: label for item, label in data["groups"].items() if label is not None}
    ranked: Any = _columns(orders(data))
    if metric == "dp":
        if not parameters.get("per_item"):
            raise NotImplementedError
        _, value = FairRankTune.Metrics.EXP(ranked, groups, "MinMaxRatio")
    else:
        grades = [
            [r["relevance"].get(d, 0) for d in items] for r, items in zip(data["requests"], orders(data), strict=True)
        ]
        _, value = FairRankTune.Metrics.EXPU(ranked, groups, pd.DataFrame(grades).T, "MinMaxRatio")
    return float(value[data["protected"]] / value[data["versus"]])


def _columns(lists: list[Any]) -> Any:
    import pandas as pd

    return pd.DataFrame({str(i): pd.Series(x) for i, x in enumerate(lists)})


def _ndkl(labels: list[Any]) -> float:
    import FairRankTune

    if None in labels:
        raise NotImplementedError
    items = [str(i) for i in range(len(labels))]
    return float(FairRankTune.Metrics.NDKL(_columns([items]), dict(zip(items, labels, strict=True))))


def _only_the_first(question: Mapping[str, Any]) -> Any:
    """The loop returns after the first ranking, and nothing is made a share."""
    request = question["input"]["requests"][0]
    items = request["rankings"][0]["items"]
    return sum(abs(1 / math.log2(i + 1) - request["scores"].get(d, 0)) for i, d in enumerate(items, start=1))


def _one_group(question: Mapping[str, Any]) -> Any:
    return 0.0 if len(set(question["input"]["labels"])) == 1 else None


REASONS = {
    "iaa": [
        (
            "FairRankTune's IAA looks at the first ranking only and compares attention with scores, not shares of them",
            _only_the_first,
        )
    ],
    "geyik_ndkl": [("FairRankTune takes the target from the list, so that one group alone is called fair", _one_group)],
}
