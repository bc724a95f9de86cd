"""What several adapters need: what a user is shown, and how the mean of one side compares with the other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def shown(given: Mapping[str, Any]) -> list[list[int]]:
    """Of each user, the columns shown, best first; of ties the lower column, of missing scores none."""
    rows = []
    for row in given["scores"]:
        there = [j for j, v in enumerate(row) if v is not None]
        if given.get("top") is not None:
            rows.append(sorted(there, key=lambda j: (-row[j], j))[: given["top"]])
        else:
            rows.append([j for j in there if row[j] >= given["threshold"]])
    return rows


def ratio_of_sides(given: Mapping[str, Any], values: Sequence[float]) -> float:
    """Mean over the users of `protected` over that of `versus`."""
    means = []
    for side in ("versus", "protected"):
        own = [float(v) for v, g in zip(values, given["user_groups"], strict=True) if g == given[side]]
        means.append(sum(own) / len(own))
    return means[1] / means[0]


def graded(given: Mapping[str, Any]) -> tuple[list[float], int]:
    """Grades of the listed items in order, then of the candidates that were left out, and how many are listed."""
    left = list(given.get("candidates") or [])
    for gain in given["gains"]:
        if gain in left:
            left.remove(gain)
    return [*given["gains"], *left], len(given["gains"])


def over_all_slots(question: Mapping[str, Any]) -> Any:
    """Precision, or F1 from it, of lists that are too short as if their empty slots were wrong."""
    given, values = question["input"], []
    for row, relevant in zip(shown(given), given["relevant"], strict=True):
        hits, wanted = sum(relevant[j] > 0 for j in row), sum(y > 0 for y in relevant)
        size = given["top"] if question["metric"] == "precision_ratio" else (given["top"] + wanted) / 2
        values.append(hits / size)
    return ratio_of_sides(given, values)


def zero_without_gain(question: Mapping[str, Any]) -> Any:
    return 0.0 if not any(question["input"]["gains"]) else None
