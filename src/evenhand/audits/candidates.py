"""Scored candidates behind rebalance and rerank: the tally, and what its codes stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.attention import Attention
from evenhand.sources.candidates import CandidateRows, open_candidates
from evenhand.sources.judgments import Judgments
from evenhand.sources.labels import LabelColumns, Labels
from evenhand.sources.rankings import Rankings
from evenhand.tallies.slates import Ints, Slates


@dataclass(frozen=True)
class Candidates:
    """The candidates of every request, and the table that they came from."""

    slates: Slates
    rows: CandidateRows

    @classmethod
    def from_scores(
        cls, scored: Rankings, labels: Labels | LabelColumns | None, judgments: Judgments | None, top: int, attention: Attention,
        *, gains: bool = True,
    ) -> Candidates:  # fmt: skip
        """Every candidate, sorted by request and falling score; equal scores by the order of item ids."""
        rows = open_candidates(scored, labels, judgments, gains=gains)
        return cls(Slates.from_candidates(rows, top, attention.weights(top)), rows)

    @property
    def providers(self) -> tuple[Any, ...]:
        return self.rows.providers

    @property
    def unowned(self) -> int:
        """Items that nobody was named for; each is its own provider."""
        return self.rows.unowned

    def table(self, slates: Slates, which: Ints, lists: Ints, **columns: Any) -> Any:
        """Lists (Q, top) of some requests as a frame of request, item and rank, and of what is the same for all of them."""
        filled = lists >= 0
        row, place = np.nonzero(filled)
        return self.rows.table(which[row], slates.item[lists[filled]], place + 1, **columns)

    def served_lists(self, served: Rankings) -> Ints:
        """(Q, top) the lists of rankings that are shown, as positions among the candidates."""
        slates = self.slates
        request, place, at = self.rows.places_of(served, slates.top, slates.starts, slates.item)
        lists = np.full((slates.requests, slates.top), -1, dtype=np.int64)
        lists[request, place - 1] = at
        return lists
