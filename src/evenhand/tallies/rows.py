"""Candidates one by one, for what sums cannot say: what chance alone makes of a group with few outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenhand.cards import Floats
from evenhand.tallies.moments import Ints


@dataclass(frozen=True)
class Rows:
    """Rows in scope: score, outcome, bin and group code, in an order that does not depend on the engine's."""

    score: Floats
    outcome: Floats
    bin: Ints
    group: Ints

    def merged(self, into: Ints) -> Rows:
        """The same rows in coarser bins."""
        return replace(self, bin=into[self.bin])
