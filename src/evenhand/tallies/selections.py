"""How many of each category there are, and how many of them were selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.sources.relation import Relation


@dataclass(frozen=True)
class Selections:
    """Candidates and selected ones of each category.

    Attributes
    ----------
    selected, total : (..., categories) counts.
    """

    selected: Floats
    total: Floats

    @classmethod
    def from_arrays(cls, selected: Any, *, total: Any) -> Selections:
        """Counts from arrays, one entry per category."""
        counts, totals = np.asarray(selected, dtype=np.float64), np.asarray(total, dtype=np.float64)
        if counts.shape != totals.shape or counts.ndim == 0:
            raise EvenhandError("selected and total differ in length. Pass one entry of each per category.")
        if not ((counts >= 0) & (counts <= totals)).all():
            raise EvenhandError("More are selected than there are, or fewer than none. Pass counts of candidates.")
        return cls(counts, totals)

    def reason(self) -> str:
        return "" if self.total.sum() else "empty"


Cell = tuple[tuple[Any, ...], float | None, int]


def cells_of(table: Relation, categories: Sequence[str], value: str) -> list[Cell]:
    """Rows of a table by category labels and value, counted in one query."""
    named: Mapping[str, str] = {f"category_{i}": table.label(name) for i, name in enumerate(categories)}
    keys = ", ".join(named.values())
    query = table.select({**named, "chosen": table.number(value), "candidates": "COUNT(*)"})
    counted = table.cells(f"{query} GROUP BY {keys}, {table.number(value)}")
    labels = counted.labels(list(named))
    return list(zip(labels, counted.values("chosen"), map(int, counted.values("candidates")), strict=True))
