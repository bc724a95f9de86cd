"""Shared by adapters: versions, the items a user is shown, and the ratio of two sides' means."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Question = Mapping[str, Any]
Prediction = float | str | None
"""The number that a reason leads to, `"raises"`, or None for no claim."""


def version_of(name: str, package: str | None = None) -> Callable[[], str]:
    """A function that says the name and the installed version of a tool."""
    return lambda: f"{name} {importlib.metadata.version(package or name)}"


def shown(data: Mapping[str, Any]) -> list[list[int]]:
    """Of each user, the columns shown, best first; ties by column, missing scores never."""
    rows = []
    for row in data["scores"]:
        present = [j for j, v in enumerate(row) if v is not None]
        if data.get("top") is not None:
            rows.append(sorted(present, key=lambda j: (-row[j], j))[: data["top"]])
        else:
            rows.append([j for j in present if row[j] >= data["threshold"]])
    return rows


def gini(amounts: Sequence[float], *, corrected: bool = False) -> float:
    """Gini index over n, or over n - 1 if corrected; NaN where nobody has anything."""
    n, total = len(amounts), sum(amounts)
    spread = sum((2 * i - n - 1) * x for i, x in enumerate(sorted(amounts), start=1))
    return spread / ((n - 1 if corrected else n) * total) if total else math.nan


def ratio_of_sides(data: Mapping[str, Any], values: Sequence[float]) -> float:
    """Mean over the users of `protected` over that of `versus`."""
    means = []
    for side in ("versus", "protected"):
        members = [float(v) for v, g in zip(values, data["user_groups"], strict=True) if g == data[side]]
        means.append(sum(members) / len(members))
    return means[1] / means[0]


def graded(data: Mapping[str, Any]) -> tuple[list[float], int]:
    """Grades of listed items in order, then of candidates left out; how many are listed."""
    left = list(data.get("candidates") or [])
    for gain in data["gains"]:
        if gain in left:
            left.remove(gain)
    return [*data["gains"], *left], len(data["gains"])


def two_scores(groups: Mapping[str, Any]) -> list[float]:
    """The two scores of all groups; the upper is a positive decision, a third is not known."""
    scores = sorted({s for rows in groups.values() for _, s, _ in rows})
    if len(scores) > 2:
        raise NotImplementedError
    return scores


def over_all_slots(question: Question) -> Prediction:
    """Precision, or F1 from it, of lists that are too short as if their empty slots were wrong."""
    data, values = question["input"], []
    for row, relevant in zip(shown(data), data["relevant"], strict=True):
        hits, expected = sum(relevant[j] > 0 for j in row), sum(y > 0 for y in relevant)
        size = data["top"] if question["metric"] == "precision_ratio" else (data["top"] + expected) / 2
        values.append(hits / size)
    return ratio_of_sides(data, values)


def zero_without_gain(question: Question) -> Prediction:
    return 0.0 if not any(question["input"]["gains"]) else None
