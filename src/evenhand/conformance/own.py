"""evenhand's own adapter: plain functions where there are any, the audit where a metric is one of many requests."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import evenhand as eh
from evenhand import metrics  # noqa: F401  (fills the registry)
from evenhand.cards import REGISTRY
from evenhand.tallies.candidates import Allocation, Change
from evenhand.tallies.exposure import Amortised, Exposure
from evenhand.tallies.moments import Moments
from evenhand.tallies.rows import Rows


def version() -> str:
    return f"evenhand {eh.__version__}"


def adapter(question: Mapping[str, Any]) -> float:
    """The value that evenhand gives."""
    metric, given, parameters = REGISTRY[question["metric"]], question["input"], question["parameters"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if metric.card.needs in (Exposure, Amortised):
            return _asked(question["metric"], given, parameters)
        if metric.card.needs is Moments:
            return _gap(metric, given)
        if metric.card.needs is Rows:
            return _among_rows(metric, given)
        if metric.card.needs is Change:
            sides = [[given[when][name] for name in ("slots", "rank", "outcome")] for when in ("before", "after")]
            return float(metric.on(Change(*(Allocation.from_arrays(*side) for side in sides))))
        return float(metric(*_data(given), **_named(given), **parameters))


def _data(given: Mapping[str, Any]) -> tuple[Any]:
    """The first argument of a plain function, as the vectors name it."""
    for name in ("amounts", "labels", "scores", "gains", "after", "lists", "groups"):
        if name in given:
            return (given[name],)
    return (dict(map(tuple, given["masses"])),)


def _named(given: Mapping[str, Any]) -> dict[str, Any]:
    """Everything else of the input, by name."""
    first = {"amounts", "labels", "gains", "after", "lists", "masses"}
    if "scores" in given:
        first = {"scores"}
    elif isinstance(given.get("groups"), Mapping):
        first = {"groups"}
    return {name: value for name, value in given.items() if name not in first and value is not None}


def _gap(metric: Any, given: Mapping[str, Any]) -> float:
    """One cell of what the outcome test gives for every bin and group."""
    groups = sorted(set(given["group"]))
    codes = [groups.index(g) for g in given["group"]]
    tally = Moments.from_arrays(
        given["score"], given["outcome"], given["bin"], codes, shape=(max(given["bin"]) + 1, len(groups))
    )
    found = metric.on(
        tally, **({"reference": groups.index(given["reference"])} if "reference" in metric.parameters else {})
    )
    if found.ndim == 0:
        return float(found)
    of = groups.index(given["of"]) if found.shape[-1] == len(groups) else 0
    return float(found[given.get("at", 0), of] if found.ndim == 2 else found[of])


def _among_rows(metric: Any, given: Mapping[str, Any]) -> float:
    """One group against the reference, row by row."""
    groups = sorted(set(given["group"]))
    rows = Rows.from_arrays(
        given["score"], outcome=given["outcome"], groups=[groups.index(g) for g in given["group"]], treated=given.get("treated")
    )  # fmt: skip
    return float(metric.on(rows, which=groups.index(given["of"]), reference=groups.index(given["reference"])))


def _asked(name: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> float:
    """The estimate of `eh.exposure` on the requests of a question."""
    import polars as pl

    rows = [
        {
            "request": str(q), "sample": s, "item": item, "rank": rank, "probability": float(ranking["probability"]),
            "weight": float(request["weight"]), "score": float(request.get("scores", {}).get(item, 0)),
        }
        for q, request in enumerate(given["requests"])
        for s, ranking in enumerate(request["rankings"])
        for rank, item in enumerate(ranking["items"], start=1)
    ]  # fmt: skip
    judged = {str(q): request["relevance"] for q, request in enumerate(given["requests"]) if request["relevance"]}
    inside = ", ".join(f"{key}={value!r}" for key, value in parameters.items() if key != "attention")
    result = eh.exposure(
        pl.DataFrame(rows), groups={k: v for k, v in given["groups"].items() if v is not None}, relevance=judged or None,
        protected=given["protected"], versus=given["versus"], attention=parameters.get("attention"), sample="sample",
        probability="probability", weight="weight", score="score", metrics=f"{name}({inside})" if inside else name,
        interval=None, chance=False,
    )  # fmt: skip
    return float(np.asarray(next(iter(result.findings.rows()))["estimate"], dtype=np.float64))
