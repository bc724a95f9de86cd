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
    import polars as pl

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
    named = pl.concat([f["item"] for f in (cells, universe, *([] if about is None else [about[0]]))]).unique().sort()
    items = Places.of(named.to_frame())
    ranked = _table(ledger.labels, cells, places["at"].to_numpy(), sums, len(ledger.probability), items)
    found = None
    if about is not None:
        frame, names = about
        at = ledger.requests.to_frame("request").with_row_index("at")
        frame = at.join(frame, on="request", how="inner")
        found = _table(ledger.labels, frame, frame["at"].to_numpy(), names, len(ledger.requests), items)
    universe = universe.rename({"share": "x0"})
    sizes = _table(ledger.labels, universe, np.zeros(universe.height, dtype=np.int64), ["sizes"], 1, items)
    return Crossed(items.size, ranked, found, sizes)


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


def _table(
    labels: tuple[Any, ...], frame: Any, at: npt.NDArray[Any], names: Iterable[Any], rows: int, items: Places
) -> SumsByItem:
    """The numbers `x0`, `x1`, ... of a frame by ranking or request (its place `at`) and group, and by item."""
    wide = len(labels) + 1
    row = at.astype(np.int64) * wide + codes(frame["group"], labels)
    order = np.argsort(row, kind="stable")
    return SumsByItem(
        np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows * wide))]),
        items.of_known(frame.select("item")).astype(np.int32).take(order),
        {name: frame[f"x{i}"].fill_null(0.0).to_numpy().take(order) for i, name in enumerate(names)},
    )
