"""How many of each category were selected, and small worlds in which true qualifications are known."""

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


@dataclass(frozen=True)
class Qualifications:
    """How many candidates of a group have each true qualification.

    Attributes
    ----------
    values : (D,) qualifications, increasing; the chance of a good outcome.
    mass : (D,) candidates holding each.
    """

    values: Floats
    mass: Floats

    @classmethod
    def from_arrays(cls, masses: Any) -> Qualifications:
        """Tally `{qualification: mass}`.

        >>> Qualifications.from_arrays({1.0: 1, 0.6: 2}).values.tolist()
        [0.6, 1.0]
        """
        problem = EvenhandError(
            "masses cannot be read. Pass {qualification: mass}, finite numbers, masses of zero or more."
        )
        try:
            pairs = np.array(sorted((float(q), float(m)) for q, m in masses.items())).reshape(-1, 2)
        except (AttributeError, TypeError, ValueError) as error:
            raise problem from error
        if not np.isfinite(pairs).all() or (pairs[:, 1] < 0).any():
            raise problem
        return cls(pairs[:, 0], pairs[:, 1])

    def reason(self) -> str:
        return "" if self.mass.sum() > 0 else "empty"


@dataclass(frozen=True)
class ScoredGroups:
    """Scores of each group, with the outcomes of those who have them.

    Attributes
    ----------
    success, failure : (G, D) mass of each group with each of D scores whose outcome is 1, and 0.
    """

    success: Floats
    failure: Floats

    @classmethod
    def from_arrays(cls, groups: Any) -> ScoredGroups:
        """Tally `{group: [(mass, score, chance of outcome 1), ...]}`."""
        problem = EvenhandError(
            "groups cannot be read. Pass {group: [(mass, score, chance of outcome 1), ...]}, finite numbers, masses of zero or more, "
            "chances from 0 to 1."
        )
        try:
            rows = [(g, *map(float, entry)) for g, entries in enumerate(groups.values()) for entry in entries]
            number, mass, score, chance = np.array(rows).T if rows else np.zeros((4, 0))
        except (AttributeError, TypeError, ValueError) as error:
            raise problem from error
        if not np.isfinite([mass, score, chance]).all() or (mass < 0).any() or (np.abs(chance - 0.5) > 0.5).any():
            raise problem
        scores, where = np.unique(score, return_inverse=True)
        success, failure = np.zeros((2, len(groups), len(scores)))
        at = number.astype(np.int64), where.reshape(-1)
        np.add.at(success, at, mass * chance)
        np.add.at(failure, at, mass * (1 - chance))
        return cls(success, failure)

    def reason(self) -> str:
        mass = (self.success + self.failure).sum(-1)
        if not mass.any():
            return "empty"
        return "one_group_only" if len(mass) < 2 else "group_absent" if not mass.all() else ""
