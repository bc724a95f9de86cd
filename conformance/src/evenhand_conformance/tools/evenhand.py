"""evenhand: `pip install .` in a copy of its repository. Plain functions, or the audit where a metric is one of many requests."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import evenhand as eh
from evenhand import metrics  # noqa: F401  (fills the registry)
from evenhand.cards import REGISTRY
from evenhand.tallies.candidates import Allocation, Change, Rows
from evenhand.tallies.exposure import Amortised, Exposure
from evenhand.tallies.moments import Moments


def version() -> str:
    return f"evenhand {eh.__version__}"


def adapter(question: Mapping[str, Any]) -> float:
    """The value that evenhand gives."""
    metric, data, parameters = REGISTRY[question["metric"]], question["input"], question["parameters"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if metric.card.needs in (Exposure, Amortised):
            return _exposure_value(question["metric"], data, parameters)
        if metric.card.needs is Moments:
            return _gap(metric, data)
        if metric.card.needs is Rows:
            return _among_rows(metric, data)
        if metric.card.needs is Change:
            sides = [[data[when][name] for name in ("slots", "rank", "outcome")] for when in ("before", "after")]
            return float(metric.on(Change(*(Allocation.from_arrays(*side) for side in sides))))
        first, keywords = _arguments(data)
        return float(metric(first, **keywords, **parameters))


def _arguments(data: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The first argument of a plain function, and all others by name."""
    names = ("amounts", "labels", "scores", "gains", "after", "lists", "groups", "masses", "selected")
    first = next(name for name in names if name in data)
    value = dict(map(tuple, data["masses"])) if first == "masses" else data[first]
    return value, {name: x for name, x in data.items() if name != first and x is not None}


def _gap(metric: Any, data: Mapping[str, Any]) -> float:
    """One cell of what the outcome test gives for every bin and group."""
    groups = sorted(set(data["group"]))
    codes = [groups.index(g) for g in data["group"]]
    tally = Moments.from_arrays(
        data["score"], data["outcome"], data["bin"], codes, shape=(max(data["bin"]) + 1, len(groups))
    )
    cells = metric.on(
        tally, **({"reference": groups.index(data["reference"])} if "reference" in metric.parameters else {})
    )
    if cells.ndim == 0:
        return float(cells)
    of = groups.index(data["of"]) if cells.shape[-1] == len(groups) else 0
    return float(cells[data.get("at", 0), of] if cells.ndim == 2 else cells[of])


def _among_rows(metric: Any, data: Mapping[str, Any]) -> float:
    """One group against the reference, row by row."""
    groups = sorted(set(data["group"]))
    rows = Rows.from_arrays(
        data["score"], outcome=data["outcome"], groups=[groups.index(g) for g in data["group"]], treated=data.get("treated")
    )  # fmt: skip
    return float(metric.on(rows, which=groups.index(data["of"]), reference=groups.index(data["reference"])))


def _exposure_value(name: str, data: Mapping[str, Any], parameters: Mapping[str, Any]) -> float:
    """The estimate of `eh.exposure` on the requests of a question."""
    import polars as pl

    rows = [
        {
            "request": str(q), "sample": s, "item": item, "rank": rank, "probability": float(ranking["probability"]),
            "weight": float(request["weight"]), "score": float(request.get("scores", {}).get(item, 0)),
        }
        for q, request in enumerate(data["requests"])
        for s, ranking in enumerate(request["rankings"])
        for rank, item in enumerate(ranking["items"], start=1)
    ]  # fmt: skip
    judged = {str(q): request["relevance"] for q, request in enumerate(data["requests"]) if request["relevance"]}
    inside = ", ".join(f"{key}={value!r}" for key, value in parameters.items() if key != "attention")
    result = eh.exposure(
        pl.DataFrame(rows), groups={k: v for k, v in data["groups"].items() if v is not None}, relevance=judged or None,
        protected=data["protected"], versus=data["versus"], attention=parameters.get("attention"), sample="sample",
        probability="probability", weight="weight", score="score", metrics=f"{name}({inside})" if inside else name,
        interval=None, chance=False,
    )  # fmt: skip
    return float(np.asarray(next(iter(result.findings.rows()))["estimate"], dtype=np.float64))
