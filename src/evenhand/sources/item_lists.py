"""LensKit's collections of item lists as tables, without importing LensKit."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError, listing

USERS = ("request", "user_id", "query_id")
"""Keys that name who asked, where a collection has several."""


def are_item_lists(thing: Any) -> bool:
    """Whether this is an ItemListCollection of LensKit, of whatever class it makes them."""
    made_by = [k for k in type(thing).__mro__ if k.__module__.split(".")[0] == "lenskit"]
    return any(k.__name__ == "ItemListCollection" for k in made_by)


def table_of(lists: Any, *, request: str, item: str, role: str) -> Any:
    """One row per item of every list: the request, the item, rank and score where the lists have them, further keys.

    A rank is there where a list is ordered, and is not the place of the row: LensKit keeps lists in any order.
    """
    keys = list(lists.key_fields)
    if not any(len(items) for items in lists.lists()):
        import polars as pl

        return pl.DataFrame(schema={request: pl.String, item: pl.String, "rank": pl.Int64, "score": pl.Float64})
    frame = nw.from_native(lists.to_df(), eager_only=True)
    names = {} if item in frame.columns else {"item_id": item}
    if request not in frame.columns:
        asking = [k for k in USERS if k in keys] or (keys if len(keys) == 1 else [])
        if not asking:
            raise EvenhandError(
                f"{role} is keyed by {listing(keys)}, none of which is known to be the request. Pass request= with one of them."
            )
        names[asking[0]] = request
    return frame.rename(names).to_native()


def judged_by(lists: Any, *, request: str, item: str) -> Any:
    """Test data as judgments: every item of a test list is relevant, with relevance 1."""
    frame = nw.from_native(table_of(lists, request=request, item=item, role="relevance"), eager_only=True)
    return frame.select(request, item, nw.lit(1.0).alias("relevance")).to_native()
