"""Some whole rankings, as padded arrays: for what needs the order of the items and can do with a sample of the rankings."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.engine.exposures import Rows, ranking_keys
from evenhand.tallies.items import Lists
from evenhand.tallies.ledger import Ledger
from evenhand.views.groups import Alignment
from evenhand.views.labels import Labels
from evenhand.views.match import tidy_label
from evenhand.views.tables import to_polars


def some_lists(rows: Rows, aligned: Alignment, ledger: Ledger, chosen: npt.NDArray[np.int64]) -> Lists:
    """The rankings with these numbers."""
    import polars as pl

    keys = ranking_keys(ledger, rows)
    picked = keys[chosen].with_columns(pl.Series("list", np.arange(len(chosen))))
    requests = picked["request"].unique().to_list()
    by = [c for c in aligned.lazy.collect_schema().names() if c in ("request", "item")]
    few = rows.listed.filter(nw.col("request").is_in(requests))
    wanted = [*rows.rankings, "item", "rank", *(["relevance"] if "relevance" in rows.columns else [])]
    if "group" in rows.columns:
        few = few.select(*wanted, "group").with_columns(nw.lit(1.0).alias("share"))
    else:
        few = few.select(*wanted).join(aligned.lazy.select(*by, "group", "share"), on=by, how="left")
    cells = to_polars(few)
    picked = picked.cast({key: cells.schema[key] for key in rows.rankings})  # labels may have lost their precise type
    cells = cells.join(picked, on=rows.rankings, how="inner", nulls_equal=True)
    place = {label: i for i, label in enumerate(ledger.labels)}
    code = np.array(
        [len(place) if g is None else place[tidy_label(g)] for g in cells["group"].to_list()], dtype=np.int64
    )
    at = cells["list"].to_numpy()
    slot = (cells.select((pl.col("rank").rank("dense").over("list")).cast(pl.Int64) - 1)).to_series().to_numpy()
    shape = (len(chosen), int(slot.max(initial=-1)) + 1)
    ranks, relevance = np.zeros(shape), np.zeros(shape)
    shares = np.zeros((*shape, len(place) + 1))
    ranks[at, slot] = cells["rank"].to_numpy()
    if "relevance" in cells.columns:
        relevance[at, slot] = cells["relevance"].to_numpy()
    shares[at, slot, code] = cells["share"].fill_null(1.0).to_numpy()
    return Lists(chosen, ranks, shares, relevance)


def labels_of(aligned: Alignment, rows: Rows, labels: tuple[Any, ...]) -> Labels:
    """Groups in the form that placements read: one label per item, or a column of shares per group."""
    import polars as pl

    if "group" in rows.columns:
        return Labels({}, (), None, aligned.origin)
    frame = to_polars(aligned.lazy)
    if not aligned.soft:
        return Labels({}, (), frame.drop("share"), aligned.origin)
    known = frame.filter(pl.col("group").is_not_null())
    whole = pl.col("share").sum().over("item")  # what is known of an item is all that a prefix can count
    wide = known.with_columns(pl.col("share") / whole)
    columns = [
        pl.when(pl.col("group") == label).then(pl.col("share")).otherwise(0.0).sum().alias(f"share_{i}")
        for i, label in enumerate(labels)
    ]
    return Labels({}, tuple(str(g) for g in labels), wide.group_by("item").agg(columns), aligned.origin)
