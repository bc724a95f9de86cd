"""How many of each category were selected, and small worlds in which true qualifications are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
        if not isinstance(masses, Mapping):
            raise EvenhandError(f"masses is of type {type(masses).__name__}. Pass {{qualification: mass}}.")
        pairs = sorted((_number("qualification", q), _mass(m)) for q, m in masses.items())
        return cls(np.array([q for q, _ in pairs]), np.array([m for _, m in pairs]))

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
        if not isinstance(groups, Mapping):
            raise EvenhandError(
                f"groups is of type {type(groups).__name__}. Pass {{group: [(mass, score, chance), ...]}}."
            )
        for name, entries in groups.items():
            if isinstance(entries, (str, bytes)) or not isinstance(entries, Iterable):
                raise EvenhandError(
                    f"Group {name!r} holds {entries!r}. Pass a list of (mass, score, chance of outcome 1)."
                )
        rows = [(g, *_entry(name, entry)) for g, (name, entries) in enumerate(groups.items()) for entry in entries]
        scores, where = np.unique([score for _, _, score, _ in rows], return_inverse=True)
        success, failure = np.zeros((len(groups), len(scores))), np.zeros((len(groups), len(scores)))
        for (g, mass, _, chance), at in zip(rows, where, strict=True):
            success[g, at] += mass * chance
            failure[g, at] += mass * (1 - chance)
        return cls(success, failure)

    def reason(self) -> str:
        mass = (self.success + self.failure).sum(-1)
        if not mass.any():
            return "empty"
        return "one_group_only" if len(mass) < 2 else "group_absent" if not mass.all() else ""


def _entry(name: object, entry: Sequence[Any]) -> tuple[float, float, float]:
    try:
        mass, score, chance = entry
    except (TypeError, ValueError) as error:
        raise EvenhandError(
            f"Group {name!r} has the entry {entry!r}. Pass (mass, score, chance of outcome 1)."
        ) from error
    numbers = _mass(mass), _number("score", score), _number("chance", chance)
    if not 0 <= numbers[2] <= 1:
        raise EvenhandError(f"Group {name!r} has the chance {chance!r}. Pass a chance between 0 and 1.")
    return numbers


def _number(what: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise EvenhandError(f"The {what} {value!r} is not a number. Pass numbers.") from error
    if not math.isfinite(number):
        raise EvenhandError(f"The {what} {value!r} is not finite. Pass finite numbers.")
    return number


def _mass(value: Any) -> float:
    mass = _number("mass", value)
    if mass < 0:
        raise EvenhandError(f"The mass {value!r} is negative. Pass masses of zero or more.")
    return mass
