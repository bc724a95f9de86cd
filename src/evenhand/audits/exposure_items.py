"""Amortised attention item by item: a sparse table of requests and items, resampled a few draws at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.audits.exposure_asks import Asked
from evenhand.cards import Floats
from evenhand.engine.exposures import Rows, amortised_items
from evenhand.engine.ledgers import Ledger
from evenhand.tallies.exposure import Amortised
from evenhand.uncertainty.requests import picks

MOST_WORK = 4_000_000_000
"""Draws times cells that are resampled; beyond it item-level amortised attention has no interval."""

MOST_CELLS = 1 << 22


@dataclass(frozen=True)
class ItemAttention:
    """Attention and predicted utility of every item in every request, weighted.

    Attributes
    ----------
    attention, utility : sparse (Q, I).
    """

    asked: Asked
    attention: Any
    utility: Any

    @classmethod
    def of(cls, asked: Asked, rows: Rows, ledger: Ledger) -> ItemAttention:
        from scipy.sparse import csr_array

        cells = amortised_items(rows, asked.look, pooled=asked.ask.params.get("normalize") == "pooled")
        cells = cells.sort(rows.requests, nulls_last=True)
        keys = ledger.keys(list(rows.slices)).with_row_index("at")
        at = cells.join(keys, on=rows.requests, how="left", nulls_equal=True, maintain_order="left")["at"].to_numpy()
        items = cells["item"].rank("dense").to_numpy().astype(np.int64) - 1
        shape = (len(ledger.requests), int(items.max(initial=-1)) + 1)
        scale = (ledger.weight / ledger.mass)[at]
        parts = [
            csr_array((cells[name].to_numpy() * scale, (at, items)), shape=shape) for name in ("attention", "utility")
        ]
        return cls(asked, *parts)

    def value(self, part: slice) -> float:
        return float(self._on(*(x[part].sum(0)[None, :] for x in (self.attention, self.utility)))[0])

    def reason(self, part: slice) -> str:
        return "zero_utility" if self.attention[part].shape[0] else "empty"

    def values(self) -> Floats:
        """(Q,) the metric of each request alone."""
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = [1 / np.asarray(x.sum(1)).reshape(-1, 1) for x in (self.attention, self.utility)]
            gap = abs(self.attention.multiply(scale[0]) - self.utility.multiply(scale[1]))
            found = np.asarray(gap.sum(1)).reshape(-1)
        return np.where(np.isfinite(scale[0][:, 0]) & np.isfinite(scale[1][:, 0]), found, np.nan)

    def draws(self, part: slice, draws: int, rng: np.random.Generator) -> Floats | None:
        """The metric on resamples of the requests, or None where that would take too long."""
        attention, utility = self.attention[part], self.utility[part]
        requests = attention.shape[0]
        if draws * (attention.nnz + utility.nnz) > MOST_WORK or not requests:
            return None
        out = np.empty(draws)
        at_once = max(1, MOST_CELLS // max(requests, attention.shape[1]))
        for start in range(0, draws, at_once):
            count = min(at_once, draws - start)
            drawn = picks(requests, count, rng).T
            out[start : start + count] = self._on((attention.T @ drawn).T, (utility.T @ drawn).T)
        return out

    def _on(self, attention: Floats, utility: Floats) -> Floats:
        return self.asked.ask.on(Amortised(np.asarray(attention), np.asarray(utility)))
