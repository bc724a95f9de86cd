"""From checked scores to the candidates of every request, sorted, and back from lists to a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.attention import Attention
from evenhand.errors import EvenhandError
from evenhand.tallies.slates import Ints, Owners, Slates
from evenhand.views.judgments import Judgments
from evenhand.views.labels import Alignment, Carried, codes
from evenhand.views.match import matched_ids, same_engine
from evenhand.views.rankings import Rankings
from evenhand.views.scored import Scored
from evenhand.views.tables import to_polars


@dataclass(frozen=True)
class Candidates:
    """The tally, and what its codes stand for.

    Attributes
    ----------
    requests, items : Polars series of ids, by code. providers : labels, by code.
    alone : items that nobody was named for; each is its own provider.
    """

    slates: Slates
    requests: Any
    items: Any
    providers: tuple[Any, ...]
    alone: int

    def table(self, slates: Slates, which: Ints, lists: Ints, **columns: Any) -> dict[str, Any]:
        """Lists (Q, top) of some requests as columns request, item, rank, and whatever stands for the whole of them."""
        there = lists >= 0
        row, rank = np.nonzero(there)
        return {
            "request": self.requests.gather(which[row]),
            "item": self.items.gather(slates.item[lists[there]]),
            "rank": rank + 1,
            **{name: np.full(len(row), value) for name, value in columns.items()},
        }


def tally_candidates(
    view: Scored, owners: Alignment | Carried | None, judgments: Judgments | None, top: int, attention: Attention, *,
    gains: bool = True,
) -> Candidates:  # fmt: skip
    """Every candidate, sorted by request and falling score; equal scores by the order of item ids.

    Scores are `gains`, of which none may be negative, unless only their order counts.
    """
    import polars as pl

    rows = view.lazy
    found = None
    if owners is not None:
        found, rows = owners.beside(rows)
        if "request" in found.keys:
            raise EvenhandError(
                "providers gives some items several providers, one per request. Give each item one, or pass eh.rollup(...)."
            )
    if judgments is not None:
        judged, rows = matched_ids(same_engine(judgments.lazy, rows), rows, ["request", "item"], role="relevance")
        names = [n for n in rows.collect_schema().names() if n != "relevance"]
        rows = rows.select(*names).join(judged, on=["request", "item"], how="left")
    keep = ["request", "item", "score", *(["relevance"] if judgments is not None else [])]
    frame = to_polars(rows.select(*keep))
    _sound_gains(frame, gains=gains)
    requests, items = frame["request"].unique().sort(), frame["item"].unique().sort()
    frame = frame.with_columns(
        pl.Series("request", codes(frame["request"], requests.to_list()), dtype=pl.Int64),
        pl.Series("item", codes(frame["item"], items.to_list()), dtype=pl.Int64),
    ).sort("request", "score", "item", descending=[False, True, False])
    whose, providers, alone = _owners(found, items)
    counts = np.bincount(frame["request"].to_numpy(), minlength=len(requests))
    slates = Slates(
        np.concatenate([[0], np.cumsum(counts)]), frame["item"].to_numpy(), frame["score"].to_numpy(), whose, top,
        attention.weights(top), _relevance(frame) if judgments is not None else None,
    )  # fmt: skip
    return Candidates(slates, requests, items, providers, alone)


def _sound_gains(frame: Any, *, gains: bool) -> None:
    if not frame.height:
        raise EvenhandError("scores holds no candidate. Pass one row per request and item with a score.")
    below = int((frame["score"] < 0).sum()) if gains else 0
    if below:
        raise EvenhandError(
            f"score is below zero in {below:,} of {frame.height:,} rows (least: {frame['score'].min():g}). Pass gains of zero or "
            "more: a probability, an expected rating, or the score less its least value."
        )


def _relevance(frame: Any) -> Any:
    """Judgments, zero where nobody judged the item; NaN where nobody judged the request at all."""
    import polars as pl

    told = pl.col("relevance").fill_nan(None)
    judged = told.is_not_null().any().over("request")
    return frame.select(pl.when(judged).then(told.fill_null(0.0)).otherwise(float("nan")).alias("y"))["y"].to_numpy()


def _owners(found: Alignment | None, items: Any) -> tuple[Owners, tuple[Any, ...], int]:
    """Who owns each item, by code; the labels of providers; how many items own themselves."""
    import polars as pl

    if found is None:
        return Owners.of(np.arange(len(items))), tuple(items.to_list()), 0
    place = pl.DataFrame({"item": items, "code": np.arange(len(items))})
    pairs = found.frame.select("item", "group", "share").filter(pl.col("group").is_not_null() & (pl.col("share") > 0))
    pairs = pairs.group_by("item", "group").agg(pl.col("share").sum()).join(place, on="item", how="inner")
    labels = pairs["group"].unique().sort()
    owned = np.unique(pairs["code"].to_numpy())
    alone = np.setdiff1d(np.arange(len(items)), owned)
    pairs = pairs.sort("code", "group")
    provider = np.concatenate([codes(pairs["group"], labels.to_list()), len(labels) + np.arange(len(alone))])
    item = np.concatenate([pairs["code"].to_numpy(), alone])
    share = np.concatenate([pairs["share"].to_numpy(), np.ones(len(alone))])
    names = (*labels.to_list(), *(str(i) if labels.dtype == pl.String else i for i in items.gather(alone).to_list()))
    return Owners(item, provider, share, len(items), len(names)), names, len(alone)


def served_lists(candidates: Candidates, served: Rankings) -> Ints:
    """(Q, top) the lists of rankings that are shown, as positions among the candidates."""
    import polars as pl

    slates = candidates.slates
    frame = to_polars(served.lazy.select("request", "item", "rank")).filter(pl.col("rank") <= slates.top)
    for name, ids in (("request", candidates.requests), ("item", candidates.items)):
        if frame[name].dtype != ids.dtype:
            frame = frame.with_columns(pl.col(name).cast(ids.dtype, strict=False))
    place = pl.DataFrame(
        {
            "request": candidates.requests.gather(np.repeat(np.arange(slates.requests), slates.sizes)),
            "item": candidates.items.gather(slates.item),
            "at": np.arange(len(slates.item)),
            "row": np.repeat(np.arange(slates.requests), slates.sizes),
        }
    )
    known = frame.filter(pl.col("request").is_in(candidates.requests.implode()))
    found = known.join(place, on=["request", "item"], how="left")
    strange = int(found["at"].is_null().sum())
    absent = slates.requests - known["request"].n_unique()
    if strange or absent:
        raise EvenhandError(
            f"rankings lacks {absent:,} of the {slates.requests:,} requests of scores and ranks {strange:,} items that are no "
            "candidates of their request. Pass a list for every request, from the candidates that were scored."
        )
    lists = np.full((slates.requests, slates.top), -1, dtype=np.int64)
    lists[found["row"].to_numpy(), found["rank"].to_numpy() - 1] = found["at"].to_numpy()
    return lists
