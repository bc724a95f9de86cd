"""Slots given again: who holds them before and after, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.cards import Floats


@dataclass(frozen=True)
class Allocation:
    """Who holds the slots, and what that is worth; leading axes are draws.

    Attributes
    ----------
    slots : (..., G) slots of each group.
    rank : (..., G) mean place of its slots; NaN where it has none.
    outcome : (...) sum of the outcomes that are expected of those who hold them.
    """

    slots: Floats
    rank: Floats
    outcome: Floats

    @classmethod
    def of(cls, slots: Any, rank: Any, outcome: Any) -> Allocation:
        return cls(*(np.asarray(x, dtype=np.float64) for x in (slots, rank, outcome)))


@dataclass(frozen=True)
class Change:
    """Slots before and after."""

    before: Allocation
    after: Allocation

    @classmethod
    def of(cls, before: Allocation, after: Allocation) -> Change:
        return cls(before, after)

    @property
    def outcome_change(self) -> Floats:
        """Relative change of the outcome; NaN where there was none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(
                (self.after.outcome - self.before.outcome) / np.where(self.before.outcome, self.before.outcome, np.nan)
            )
