"""FairRankTune: `pip install FairRankTune numpy pandas scipy` (it names no dependencies)."""

from __future__ import annotations

import math
from typing import Any

from conformance_parts import Prediction, Question, version_of

version = version_of("FairRankTune")


def adapter(question: Question) -> float:
    metric, data, parameters = question["metric"], question["input"], question["parameters"]
    if metric == "geyik_ndkl" and not parameters and None not in data["labels"]:
        from FairRankTune.Metrics import NDKL

        items = [str(i) for i in range(len(data["labels"]))]
        return float(NDKL(_columns([items]), dict(zip(items, data["labels"], strict=True))))
    needed = {"dp": ("per_item", True), "eur": ("attention", "log(offset=1)"), "iaa": ("level", "item")}
    if metric not in needed or parameters.get("attention") != "log(offset=1)":  # the only attention it has
        raise NotImplementedError
    name, value = needed[metric]
    if parameters.get(name) != value or any(r["weight"] != 1 or len(r["rankings"]) > 1 for r in data["requests"]):
        raise NotImplementedError  # it has neither weights nor policies
    import pandas as pd
    from FairRankTune.Metrics import EXP, EXPU, IAA

    lists = [r["rankings"][0]["items"] for r in data["requests"]]
    if metric == "iaa":
        return float(IAA(_columns(lists), _columns(_of_items(data, lists, "scores"))))
    groups = {item: label for item, label in data["groups"].items() if label is not None}
    if metric == "dp":
        _, by_group = EXP(_columns(lists), groups, "MinMaxRatio")
    else:
        grades = pd.DataFrame(_of_items(data, lists, "relevance")).T
        _, by_group = EXPU(_columns(lists), groups, grades, "MinMaxRatio")
    return float(by_group[data["protected"]] / by_group[data["versus"]])


def _of_items(data: Any, lists: list[list[str]], what: str) -> list[list[float]]:
    """Scores or relevance of the items of every list."""
    return [[r[what].get(d, 0) for d in items] for r, items in zip(data["requests"], lists, strict=True)]


def _columns(lists: list[Any]) -> Any:
    import pandas as pd

    return pd.DataFrame({str(i): pd.Series(x) for i, x in enumerate(lists)})


def first_ranking_only(question: Question) -> Prediction:
    """The loop returns after the first ranking, and nothing is made a share."""
    request = question["input"]["requests"][0]
    items = request["rankings"][0]["items"]
    return float(sum(abs(1 / math.log2(i + 1) - request["scores"].get(d, 0)) for i, d in enumerate(items, start=1)))


_IAA = "FairRankTune's IAA looks at the first ranking only and compares attention with scores, not shares of them"
_NDKL = "FairRankTune takes the target from the list, so that one group alone is called fair"
REASONS = {
    "iaa": [(_IAA, first_ranking_only)],
    "geyik_ndkl": [(_NDKL, lambda question: 0.0 if len(set(question["input"]["labels"])) == 1 else None)],
}
