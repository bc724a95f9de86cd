"""Sums per ranking, group and item: what resampling items as well as requests needs. It is as large as the rankings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.engine.attending import attended, ideal
from evenhand.engine.exposures import Rows, Wanted, ranking_keys, with_groups
from evenhand.errors import EvenhandError
from evenhand.tallies.items import Crossed
from evenhand.tallies.ledger import Ledger
from evenhand.views.columns import flag
from evenhand.views.labels import Alignment, codes
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
    by = aligned.keys
    joined, share = with_groups(attended(rows.lazy, wanted.looks, rows.rankings), aligned, by)
    shown = nw.col("shown") if "shown" in rows.columns else nw.lit(1.0)
    sums: dict[Any, nw.Expr] = {"items": share * shown}
    sums |= {("a", look): share * nw.col(f"a{i}") for i, look in enumerate(wanted.looks)}
    sums |= {("g", wanted.looks[i]): share * nw.col(f"a{i}") * nw.col("relevance") for i in wanted.at(wanted.gained)}
    if wanted.scores:
        sums["scores"] = share * nw.col("score")
    cells = _collected(joined, [*rows.rankings, "item", "group"], sums)
    places = cells.join(
        ranking_keys(ledger, rows).with_row_index("at"),
        on=rows.rankings,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    universe = to_polars(each_once(aligned.lazy.select("item", "group", "share")))
    about = None if judged is None or not wanted.judged else _judged_cells(judged, rows, aligned, by, wanted)
    items = _numbered([cells["item"], universe["item"], *([] if about is None else [about[0]["item"]])])
    ranked = _tables(ledger.labels, cells, places["at"].to_numpy(), sums, len(ledger.probability), items)
    found: Mapping[Any, Any] = {}
    if about is not None:
        frame, names = about
        at = ledger.requests.to_frame("request").with_row_index("at")
        frame = at.join(frame, on="request", how="inner")
        found = _tables(ledger.labels, frame, frame["at"].to_numpy(), names, len(ledger.requests), items)
    sizes = _tables(
        ledger.labels,
        universe.with_columns(x0=universe["share"]),
        np.zeros(universe.height, dtype=np.int64),
        {"x": None},
        1,
        items,
    )["x"]
    return Crossed(len(items), ranked, found, sizes)


def _judged_cells(
    judged: nw.LazyFrame[Any], rows: Rows, aligned: Alignment, by: list[str], wanted: Wanted
) -> tuple[Any, dict[Any, Any]]:
    looks = [wanted.looks[i] for i in wanted.at(wanted.due)]
    target = ideal(judged.join(each_once(rows.lazy.select("request")), on="request", how="semi"), looks)
    joined, share = with_groups(target, aligned, by)
    sums: dict[Any, nw.Expr] = {
        "worth": share * nw.col("relevance"),
        "relevant": share * flag(nw.col("relevance") > 0),
    }
    sums |= {("t", look): share * nw.col(f"t{i}") for i, look in enumerate(looks)}
    return _collected(joined, ["request", "item", "group"], sums), sums


def _collected(lazy: nw.LazyFrame[Any], keys: list[str], sums: Mapping[Any, nw.Expr]) -> Any:
    return to_polars(lazy.select(*keys, *(e.alias(f"x{i}") for i, e in enumerate(sums.values()))))


def _numbered(columns: list[Any]) -> dict[Any, int]:
    """Every item with the number of its column in the sparse tables."""
    import polars as pl

    return {item: i for i, item in enumerate(pl.concat(columns).unique().sort().to_list())}


def _tables(
    labels: tuple[Any, ...], frame: Any, at: Any, names: Mapping[Any, Any], rows: int, items: Mapping[Any, int]
) -> dict[Any, Any]:
    from scipy.sparse import csr_array

    wide = len(labels) + 1
    row = at * wide + codes(frame["group"], labels)
    column = np.array([items[d] for d in frame["item"].to_list()], dtype=np.int64)
    shape = (rows * wide, len(items))
    return {
        name: csr_array((frame[f"x{i}"].fill_null(0.0).to_numpy(), (row, column)), shape=shape)
        for i, name in enumerate(names)
    }
