"""Sums by item: attention item by item, and the sums of groups kept apart by item, so that items can be resampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.tallies.exposure import Amortised
from evenhand.tallies.group_exposure import AttentionSpec, GroupExposure


@dataclass(frozen=True)
class ItemAttention:
    """Attention and predicted utility of every item in every request, weighted: sparse (Q, I)."""

    attention: Any
    utility: Any

    def totals(self, part: slice) -> Amortised:
        """The requests of a slice added up."""
        return Amortised(self.attention[part].sum(0)[None, :], self.utility[part].sum(0)[None, :])

    def resampled(self, part: slice, times: Floats) -> Amortised:
        """The same with every request taken so many times: `times` is (requests, draws)."""
        attention, utility = (np.asarray((x[part].T @ times).T) for x in (self.attention, self.utility))
        return Amortised(attention, utility)

    def cells(self, part: slice) -> int:
        return int(self.attention[part].nnz + self.utility[part].nnz)

    def each(self, ask: MetricSpec) -> Floats:
        """(Q,) the metric of each request alone, over the items that the request shows or scores."""
        edges, found = self.attention.indptr, np.full(self.attention.shape[0], np.nan)
        start = 0
        while start < len(found):
            width = int(np.diff(edges[start : start + MOST_ROWS + 1]).max(initial=1)) or 1
            stop = min(len(found), start + max(1, min(MOST_ROWS, MOST_CELLS // width)))
            seen = Amortised(_padded(self.attention, start, stop), _padded(self.utility, start, stop))
            found[start:stop] = ask.on(seen)
            start = stop
        return found


MOST_ROWS, MOST_CELLS = 1 << 12, 1 << 20
"""Requests, and requests times items, that are laid out at a time."""


def _padded(table: Any, start: int, stop: int) -> Floats:
    """(rows, n) the entries of some rows of a sparse table, side by side, zeros behind."""
    edges = table.indptr[start : stop + 1]
    many = np.diff(edges)
    out = np.zeros((len(many), int(many.max(initial=1))))
    row = np.repeat(np.arange(len(many)), many)
    out[row, np.arange(len(row)) - np.repeat(edges[:-1] - edges[0], many)] = table.data[edges[0] : edges[-1]]
    return out


AT_ONCE = 1 << 16
"""Cells that are multiplied with the counts of their items at a time."""


@dataclass(frozen=True)
class SumsByItem:
    """Sums over the items of each row, apart by item: a sparse table for each name, all of one shape.

    Attributes
    ----------
    edges : (rows + 1,) where the cells of each row begin.
    items : (cells,) the number of the item; values : by name, (cells,).
    """

    edges: np.typing.NDArray[np.int64]
    items: np.typing.NDArray[np.int32]
    values: Mapping[Any, Floats]

    @classmethod
    def from_rows(
        cls, rows: np.typing.NDArray[Any], items: np.typing.NDArray[Any], values: Mapping[Any, Floats], many: int
    ) -> SumsByItem:
        """From the row, of which there are so `many`, the item and the values of every cell, in any order."""
        order = np.lexsort([items, rows])  # so that sums have the same last bits whatever the order was
        edges = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=many))])
        return cls(edges, items.astype(np.int32).take(order), {name: x.take(order) for name, x in values.items()})

    def times(self, counts: np.typing.NDArray[Any]) -> dict[Any, Floats]:
        """(rows, draws) by name, with every item taken as often as (items, draws) `counts` say."""
        from scipy.sparse import csr_array

        rows = len(self.edges) - 1
        found = {name: np.zeros((rows, counts.shape[1])) for name in self.values}
        start = 0
        while start < rows:
            stop = int(np.searchsorted(self.edges, self.edges[start] + AT_ONCE, side="right")) - 1
            stop = min(max(stop, start + 1), rows)
            here = slice(int(self.edges[start]), int(self.edges[stop]))
            taken = counts.take(self.items[here], axis=0).astype(np.float64)
            edges, at = self.edges[start : stop + 1] - self.edges[start], np.arange(len(taken))
            for name, values in self.values.items():
                table = csr_array((values[here], at, edges), shape=(stop - start, len(taken)))
                found[name][start:stop] = table @ taken
            start = stop
        return found


@dataclass(frozen=True)
class CrossedSums:
    """The exposure of groups apart by item; with counts of items the sums are those of a resample.

    Attributes
    ----------
    items : number of items.
    rankings : by name (items, scores, ("a", attention), ("g", attention)), rankings times groups and one; judged : by name
        (worth, relevant, ("t", attention)), requests times groups and one, or None.
    sizes : of groups, one row for each and one.
    """

    items: int
    rankings: SumsByItem
    judged: SumsByItem | None
    sizes: SumsByItem

    def drawn(self, exposure: GroupExposure, counts: np.typing.NDArray[Any]) -> list[tuple[GroupExposure, Floats]]:
        """Exposure and group sizes for each column of (I, draws) item counts."""
        width = len(exposure.labels) + 1
        tables = [
            {name: sums.T.reshape(counts.shape[1], -1, width) for name, sums in table.times(counts).items()}
            if table is not None
            else {}
            for table in (self.rankings, self.judged)
        ]
        sizes = self.sizes.times(counts)["sizes"].T
        return [
            (_with_sums(exposure, *({k: v[b] for k, v in t.items()} for t in tables)), sizes[b])
            for b in range(counts.shape[1])
        ]


def _with_sums(exposure: GroupExposure, ranked: Mapping[Any, Floats], judged: Mapping[Any, Floats]) -> GroupExposure:
    def by_attention(sums: Mapping[Any, Floats], kind: str) -> dict[AttentionSpec, Floats]:
        return {name[1]: values for name, values in sums.items() if isinstance(name, tuple) and name[0] == kind}

    return replace(
        exposure, items=ranked["items"], attended=by_attention(ranked, "a"), gained=by_attention(ranked, "g"),
        scores=ranked.get("scores"), worth=judged.get("worth"), relevant=judged.get("relevant"), due=by_attention(judged, "t"),
    )  # fmt: skip
