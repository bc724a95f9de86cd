"""Attention on single items in each ranking, by one query: what the label of an item moves between groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.cards import Floats
from evenhand.sources.sql import exact_sum, select
from evenhand.tallies.group_exposure import AttentionSpec, GroupExposure
from evenhand.tallies.ragged import Ints

if TYPE_CHECKING:
    from evenhand.sources.judged_rankings import JudgedRankings


@dataclass(frozen=True)
class ItemExposure:
    """Cells of rankings times items: the labelled items, or the unlabelled ones.

    Attributes
    ----------
    rankings, items : (n,) number of the ranking and of the item of each cell; cells are in the order of both.
    codes : (n,) group of the item, the number of groups where it has no label. share : (n,) 1 over the inclusion probability of
        its label.
    attended : by attention, (n,).
    """

    rankings: Ints
    items: Ints
    codes: Ints
    share: Floats
    attended: Mapping[AttentionSpec, Floats]

    @classmethod
    def from_rankings(
        cls, tables: JudgedRankings, sums: GroupExposure, specs: Sequence[AttentionSpec], *, labelled: bool
    ) -> ItemExposure:
        """The cells of items that have a label, or of those that have none."""
        weights = {f"attention_{i}": spec.by_place(tables.depth) for i, spec in enumerate(specs)}
        attention = tables.engine.bring({"place": np.arange(1, tables.depth + 1, dtype=np.int64), **weights})
        keys = tables.engine.bring(sums.keys.with_column("ranking", np.arange(len(sums.probability))))
        chosen = {
            "ranking": "keys.ranking",
            "item": "ranked.item",
            "code": f"COALESCE(ranked.label, {len(sums.labels)})",
        }
        added = {"share": "MAX(ranked.share)"} | {name: exact_sum(f"attention.{name}") for name in weights}
        shown = "AND ranked.shown > 0" if "shown" in tables.types else ""
        cells = tables.engine.cells(f"""
            SELECT {select(chosen | added)}
            FROM {tables.ranked} AS ranked
            JOIN {keys} AS keys ON {tables.same_ranking("ranked", "keys")}
            JOIN {attention} AS attention ON attention.place = ranked.place
            WHERE ranked.label IS {"NOT " if labelled else ""}NULL {shown}
            GROUP BY keys.ranking, ranked.item, ranked.label
        """).sorted_by(["ranking", "item"])
        numbers = np.asarray(cells.numbered(["item"])[0], dtype=np.int64)
        attended = {spec: cells.floats(name) for spec, name in zip(specs, weights, strict=True)}
        return cls(cells.integers("ranking"), numbers, cells.integers("code"), cells.floats("share"), attended)

    def within(self, rankings: slice) -> ItemExposure:
        """The cells of a run of rankings, which are numbered from its start, and items from 0."""
        low, high = np.searchsorted(self.rankings, [rankings.start, rankings.stop])
        at = slice(int(low), int(high))
        items = np.unique(self.items[at], return_inverse=True)[1].reshape(-1)
        attended = {spec: values[at] for spec, values in self.attended.items()}
        return ItemExposure(self.rankings[at] - rankings.start, items, self.codes[at], self.share[at], attended)

    @property
    def many(self) -> int:
        """How many items there are."""
        return int(self.items.max(initial=-1)) + 1

    @property
    def are_shared(self) -> bool:
        """Whether an item stands in several rankings."""
        return len(self.items) > self.many
