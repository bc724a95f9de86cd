"""Some whole rankings as padded arrays: for what needs the order of the items and can do with a sample of the rankings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.sources.sql import select
from evenhand.tallies.group_exposure import GroupExposure

if TYPE_CHECKING:
    from evenhand.sources.judged_rankings import JudgedRankings

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SampledLists:
    """Whole rankings, best rank first, padded at the end.

    Attributes
    ----------
    at : (m,) which rankings they are.
    ranks : (m, n) rank of each item; 0 past the end.
    kinds : (m, n) which row of `shares` each item has; shares : (K, G + 1) of groups, the last unknown.
    relevance : (m, n).
    """

    at: Ints
    ranks: Floats
    kinds: Ints
    shares: Floats
    relevance: Floats

    @classmethod
    def from_rankings(
        cls, tables: JudgedRankings, exposure: GroupExposure, chosen: Ints, *, relevance: bool
    ) -> SampledLists:
        """The rankings with these numbers, any of which may come several times; `relevance` is read where attention needs it."""
        distinct, times = np.unique(chosen, return_inverse=True)
        groups = len(exposure.labels)
        keys = exposure.keys.take(distinct).with_column("list_number", np.arange(len(distinct)))
        query = _query(tables, tables.engine.bring(keys), groups, relevance=relevance)
        rows = tables.engine.cells(query).sorted_by(["list_number", "place", "code"])
        at, place, code = (rows.integers(name) for name in ("list_number", "place", "code"))
        fresh = (np.diff(at, prepend=-1) != 0) | (np.diff(place, prepend=-1) != 0)
        slot = np.cumsum(fresh) - 1
        slot -= slot[np.searchsorted(at, at)] if len(at) else slot
        shape = (len(distinct), int(slot.max(initial=-1)) + 1)
        ranks, grades = np.zeros(shape), np.zeros(shape)
        ranks[at, slot] = place
        if relevance:
            grades[at, slot] = rows.floats("relevance")
        if tables.soft:
            kinds = np.arange(ranks.size).reshape(shape)
            shares = np.zeros((ranks.size, groups + 1))
            shares[kinds[at, slot], code] = rows.floats("share")
        else:
            kinds = np.full(shape, groups, dtype=np.int64)
            kinds[at, slot] = code
            present, kinds = np.unique(kinds, return_inverse=True)  # of many groups, lists hold a few
            kinds, shares = kinds.reshape(shape), np.zeros((len(present), groups + 1))
            shares[np.arange(len(present)), present] = 1.0
        times = times.reshape(-1)
        return cls(chosen, ranks[times], kinds[times], shares, grades[times])

    def part(self, rows: slice) -> SampledLists:
        return replace(
            self, at=self.at[rows], ranks=self.ranks[rows], kinds=self.kinds[rows], relevance=self.relevance[rows]
        )


def _query(tables: JudgedRankings, keys: str, groups: int, *, relevance: bool) -> str:
    """The rows of the rankings in the table `keys`, which numbers them."""
    numbers = {
        "list_number": "keys.list_number", "place": "ranked.place", "code": f"COALESCE(ranked.label, {groups})",
    }  # fmt: skip
    chosen = {name: f"CAST({number} AS INTEGER)" for name, number in numbers.items()}  # they may travel far
    if tables.soft:
        chosen["share"] = "ranked.share"
    if relevance:
        chosen["relevance"] = f"COALESCE({tables.relevance}, 0)"
    return f"""
    SELECT {select(chosen)}
    FROM {tables.source(relevance=relevance)}
    JOIN {keys} AS keys ON {tables.same_ranking("ranked", "keys")}
    {"WHERE ranked.shown > 0" if "shown" in tables.columns else ""}
    """
