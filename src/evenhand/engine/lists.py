"""Some whole rankings, as padded arrays: for what needs the order of the items and can do with a sample of the rankings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenhand.engine.exposures import Rows, ranking_keys, with_groups
from evenhand.engine.gathered import gathered, is_apart
from evenhand.tallies.items import Lists
from evenhand.tallies.ledger import Ledger
from evenhand.views.batches import rows_of
from evenhand.views.labels import Alignment, codes
from evenhand.views.tables import to_polars


def some_lists(rows: Rows, aligned: Alignment, ledger: Ledger, chosen: npt.NDArray[np.int64]) -> Lists:
    """The rankings with these numbers."""
    import polars as pl

    keys = ranking_keys(ledger, rows)
    picked = keys[chosen].with_columns(pl.Series("list", np.arange(len(chosen))))
    names = rows.columns
    asked = ["rank", *(["relevance"] if "relevance" in names else []), "group"]
    needed = [c for c in dict.fromkeys([*rows.rankings, *aligned.keys, *asked]) if c in names]

    few = rows_of(rows.listed.select(*needed), picked.select(rows.rankings))
    few, _ = with_groups(few, aligned, aligned.keys)
    if is_apart(few) and not aligned.soft:
        few = gathered(few, rows.rankings, asked[1:], "rank") or few
    cells = to_polars(few.select(*rows.rankings, *asked, *(["share"] if aligned.soft else [])))
    own = picked.cast({key: cells.schema[key] for key in rows.rankings})  # labels may have lost their precise type
    cells = cells.join(own, on=rows.rankings, how="inner", nulls_equal=True)
    at = cells["list"].to_numpy()
    slot = (cells.select((pl.col("rank").rank("dense").over("list")).cast(pl.Int64) - 1)).to_series().to_numpy()
    shape = (len(chosen), int(slot.max(initial=-1)) + 1)
    ranks, relevance = np.zeros(shape), np.zeros(shape)
    ranks[at, slot] = cells["rank"].to_numpy()
    if "relevance" in cells.columns:
        relevance[at, slot] = cells["relevance"].to_numpy()
    own = codes(cells["group"], ledger.labels)
    if not aligned.soft:
        kinds = np.zeros(shape, dtype=np.int64)
        kinds[at, slot] = own
        return Lists(chosen, ranks, kinds, np.eye(len(ledger.labels) + 1), relevance)
    kinds = np.arange(ranks.size).reshape(shape)
    shares = np.zeros((ranks.size, len(ledger.labels) + 1))
    shares[kinds[at, slot], own] = cells["share"].to_numpy()
    return Lists(chosen, ranks, kinds, shares, relevance)
