"""Sums per ranking, group and item: what resampling items as well as requests needs. It is as large as the rankings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.engine.attending import attended, ideal
from evenhand.engine.exposures import Rows, Wanted, ranking_keys, with_groups
from evenhand.errors import EvenhandError
from evenhand.tallies.items import Crossed, SumsByItem
from evenhand.tallies.ledger import Ledger
from evenhand.views.columns import flag
from evenhand.views.labels import Alignment, codes
from evenhand.views.places import Places
from evenhand.views.tables import each_once, to_polars

MOST_ROWS = 20_000_000


def cross(
    rows: Rows, aligned: Alignment, judged: nw.LazyFrame[Any] | None, wanted: Wanted, ledger: Ledger, size: int
) -> Crossed:
    """The sums of a ledger, kept apart by item; `size` is how many rows there are."""
    if size > MOST_ROWS:
        raise EvenhandError(
            f"{size:,} rows are too many to resample items in memory (at most {MOST_ROWS:,}). Pass resample='requests'."
        )
    asked = None
    if judged is not None and wanted.judged:
        asked = judged.join(each_once(rows.lazy.select("request")), on="request", how="semi")
    items = _numbered([table.select("item") for table in (rows.lazy, aligned.lazy, asked) if table is not None])
    universe = to_polars(each_once(aligned.lazy.select("item", "group", "share"))).rename({"share": "x0"})
    sizes = _table(ledger.labels, universe, np.zeros(universe.height, dtype=np.int64), ["sizes"], 1, items)
    found = None if asked is None else _judged_table(asked, aligned, wanted, ledger, items)
    return Crossed(items.size, _ranked_table(rows, aligned, wanted, ledger, items), found, sizes)


def _numbered(tables: list[nw.LazyFrame[Any]]) -> Places:
    """Every item with its number: its place among all of them, in order."""
    import polars as pl

    return Places.of(pl.concat([to_polars(each_once(table)) for table in tables]).unique().sort("item"))


def _ranked_table(rows: Rows, aligned: Alignment, wanted: Wanted, ledger: Ledger, items: Places) -> SumsByItem:
    joined, share = with_groups(attended(rows.lazy, wanted.looks, rows.rankings), aligned, aligned.keys)
    shown = nw.col("shown") if "shown" in rows.columns else nw.lit(1.0)
    sums: dict[Any, nw.Expr] = {"items": share * shown}
    sums |= {("a", look): share * nw.col(f"a{i}") for i, look in enumerate(wanted.looks)}
    sums |= {("g", wanted.looks[i]): share * nw.col(f"a{i}") * nw.col("relevance") for i in wanted.at(wanted.gained)}
    if wanted.scores:
        sums["scores"] = share * nw.col("score")
    cells = _collected(joined, [*rows.rankings, "item", "group"], sums)
    own = ranking_keys(ledger, rows).with_row_index("at")
    named = cells.select(rows.rankings).join(own, on=rows.rankings, how="left", nulls_equal=True, maintain_order="left")
    return _table(ledger.labels, cells, named["at"].to_numpy(), sums, len(ledger.probability), items)


def _judged_table(
    judged: nw.LazyFrame[Any], aligned: Alignment, wanted: Wanted, ledger: Ledger, items: Places
) -> SumsByItem:
    looks = [wanted.looks[i] for i in wanted.at(wanted.due)]
    joined, share = with_groups(ideal(judged, looks), aligned, aligned.keys)
    sums: dict[Any, nw.Expr] = {
        "worth": share * nw.col("relevance"),
        "relevant": share * flag(nw.col("relevance") > 0),
    }
    sums |= {("t", look): share * nw.col(f"t{i}") for i, look in enumerate(looks)}
    cells = _collected(joined, ["request", "item", "group"], sums)
    own = ledger.requests.to_frame("request").with_row_index("at")  # a request of several slices is there in each
    named = own.join(cells, on="request", maintain_order="left")
    return _table(ledger.labels, named, named["at"].to_numpy(), sums, len(ledger.requests), items)


def _collected(lazy: nw.LazyFrame[Any], keys: list[str], sums: Mapping[Any, nw.Expr]) -> Any:
    return to_polars(lazy.select(*keys, *(e.alias(f"x{i}") for i, e in enumerate(sums.values()))))


def _table(
    labels: tuple[Any, ...], frame: Any, at: npt.NDArray[Any], names: Iterable[Any], rows: int, items: Places
) -> SumsByItem:
    """The numbers `x0`, `x1`, ... of a frame by ranking or request (its place `at`) and group, and by item."""
    wide = len(labels) + 1
    row = at.astype(np.int64) * wide + codes(frame["group"], labels)
    column = items.of_known(frame.select("item"))
    order = np.argsort(row * items.size + column)  # engines give rows in any order, which would move last bits of sums
    return SumsByItem(
        np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows * wide))]),
        column.astype(np.int32).take(order),
        {name: frame[f"x{i}"].fill_null(0.0).to_numpy().take(order) for i, name in enumerate(names)},
    )
