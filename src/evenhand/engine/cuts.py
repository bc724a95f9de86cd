"""What users are shown, cut where their scores live: on a cluster or in a database, so that only short lists leave it.

There the best scores of every user are found, and a few sums over all of them. What travels is, for each user, the numbers of these
items in order with their ties; which of the tied ones are shown is settled here, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import narwhals as nw
import numpy as np

from evenhand.engine.gathered import is_apart, numbered
from evenhand.tallies.crosstab import MARKS, Sums, UserBlock, settled
from evenhand.tallies.shown import Cut, Ragged
from evenhand.views.match import in_our_order, same_engine
from evenhand.views.scores import Scores
from evenhand.views.scoretables import Long, TableScores, listed_twice
from evenhand.views.tables import to_polars

PAIR = ["user", "item"]
REACHED = Cut(threshold=-1.0)
"""Cuts places where scores were cut by a threshold: what reached it is at the first place."""


def lives_apart(view: Scores) -> TypeGuard[TableScores]:
    """Whether scores live on a cluster or in a database that can cut lists."""
    return isinstance(view, TableScores) and is_apart(view.scores.lazy)


def blocks_apart(
    view: TableScores,
    shown_by: Cut,
    true_by: Cut,
    scaled: tuple[float, float] | None,
    *,
    shows: bool,
    offered: bool,
    fill: bool,
) -> Iterator[tuple[int, UserBlock]]:
    """What every user is shown, in order. Places stand for scores; with `offered`, everything that users have a score for is told.

    To `fill` short lists, those of the truth are sent as well: what nobody scored may be relevant.
    """
    for table in (view.scores, view.truth):
        if table is not None:
            _refuse_twice(table)
    scores = rows = _there(view.scores.lazy, scaled)
    truth = relevant = None
    if view.truth is not None:
        truth = _there(same_engine(view.truth.lazy, rows), scaled)
        relevant = _relevant(truth, true_by)
        rows = rows.join(relevant, on=PAIR, how="left").with_columns(nw.col("relevant").fill_null(0.0))
    sums = _sums(view, rows, relevant)
    if not shows:
        yield 0, _scored(sums, judged=relevant is not None, items=view.items)
        return
    cut, true_cut = (by if by.top is not None else REACHED for by in (shown_by, true_by))
    if fill:
        lists = _listed(view, _placed(scores, shown_by, offered=False), true_by)
        if view.truth is not None and truth is not None:
            lists = replace(lists, truth=_sent(view.truth, _placed(truth, true_by, offered=False), []))
    else:
        lists = _listed(view, _placed(rows, shown_by, offered=offered), true_by)
    for block in lists.blocks():
        places, true = Ragged(*block.scores), None if block.truth is None else Ragged(*block.truth)
        own = sums.of(slice(block.first, block.first + len(places.lengths)))
        if fill:
            places = filled(places, cut, view.items)
            true = None if true is None else true_cut.shown(filled(true, true_cut, view.items))[0]
            own = own if true is None else replace(own, wanted=true.sums(true.values))
        yield block.first, settled(places, true, cut, own, view.items)


def filled(scores: Ragged, cut: Cut, items: int) -> Ragged:
    """Scores with items that have none, as far as the cut may show them."""
    return scores if cut.top is None else scores.filled(cut.top, items)


def _scored(sums: Sums, *, judged: bool, items: int) -> UserBlock:
    """All users where nothing says what they are shown: no list travels, and whoever has a score counts as shown something."""
    users = len(sums.cells)
    nothing = Ragged(np.zeros(users + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    part = settled(nothing, nothing if judged else None, Cut(), sums, items)
    part.marks[:, MARKS.index("viewers")] = sums.cells > 0
    return part


def _refuse_twice(table: Long) -> None:
    again = (
        table.lazy.group_by(*PAIR).agg(nw.len().alias("n")).with_columns((nw.col("n").cast(nw.Int64) - 1).alias("n"))
    )
    again = again.filter(nw.col("n") > 0)
    more = to_polars(again.select(nw.col("n").sum()))["n"][0]
    if more:
        user, item, _ = to_polars(again.sort(*PAIR).head(1)).select(*PAIR, "n").row(0)
        raise listed_twice(table.role, int(more), user, item)


def _there(lazy: nw.LazyFrame[Any], scaled: tuple[float, float] | None) -> nw.LazyFrame[Any]:
    """The rows whose value is not missing, brought to a scale."""
    value = nw.col("value")
    lazy = lazy.select(*PAIR, "value").filter(~value.is_null() & ~value.is_nan() & (value != float("-inf")))
    return lazy if scaled is None else lazy.with_columns(((value - scaled[0]) / scaled[1]).alias("value"))


def _relevant(truth: nw.LazyFrame[Any], cut: Cut) -> nw.LazyFrame[Any]:
    """How relevant each row of the truth is (1, or less where tied items share slots), with its value as `truth`."""
    value = nw.col("value")
    if cut.top is None:
        weight = nw.when(_reached(cut) if cut.given else value > 0).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    else:
        truth = _ranked(truth, cut)
        if cut.ties == "fractional":
            equal = nw.len().over("user", "place")
            truth = truth.with_columns(equal.cast(nw.Float64).alias("equal"))
            free = cut.top + 1.0 - nw.col("place")
            weight = (
                nw.when(free >= nw.col("equal"))
                .then(nw.lit(1.0))
                .otherwise(nw.when(free > 0).then(free / nw.col("equal")).otherwise(nw.lit(0.0)))
            )
        else:
            weight = nw.when(nw.col("number") <= cut.top).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    return truth.select(*PAIR, value.alias("truth"), weight.alias("relevant"))


def _ranked(rows: nw.LazyFrame[Any], cut: Cut) -> nw.LazyFrame[Any]:
    """Rows with the `place` of their value among those of the user, shared by equal ones, and a `number` that ties are broken by."""
    rows = in_our_order(rows.with_columns((-nw.col("value")).alias("cost")), "item", "order")
    rows = rows.with_columns(nw.col("cost").rank("min").over("user").cast(nw.Int64).alias("place"))
    if cut.ties == "fractional":
        return rows
    number = (
        nw.col("user").cum_count().over("user", order_by=("cost", "order"))
        if cut.ties == "first"
        else nw.col("user").cum_count(reverse=True).over("user", order_by=("value", "order"))
    )
    return rows.with_columns(number.alias("number"))


def _reached(cut: Cut) -> nw.Expr:
    """Whether values reach the threshold of a cut, as `Cut` itself says it."""
    threshold, single = cut.reaching
    return (nw.col("value") >= threshold) | (nw.col("value") == single)


def _placed(rows: nw.LazyFrame[Any], cut: Cut, *, offered: bool) -> nw.LazyFrame[Any]:
    """Rows that may be shown, with their `place`, and one below that ties with the last of them; or all that were `offered`.

    A threshold knows no places: what was offered stands at it or `below`.
    """
    if cut.top is None:
        if not cut.given:
            return rows
        below = nw.when(_reached(cut)).then(nw.lit(0.0)).otherwise(nw.lit(1.0))
        return rows.with_columns(below.alias("below")) if offered else rows.filter(_reached(cut))
    rows = _ranked(rows, cut)
    if not offered:
        rows = rows.filter(nw.col("place") <= cut.top)
        rows = rows if cut.ties == "fractional" else rows.filter(nw.col("number") <= cut.top + 1)
    return rows


def _sums(view: TableScores, rows: nw.LazyFrame[Any], relevant: nw.LazyFrame[Any] | None) -> Sums:
    """Sums over the scores of every user."""
    asked = {"cells": nw.len(), "score": nw.col("value").sum()}
    if relevant is not None:
        error = nw.col("value") - nw.col("truth")
        rows = rows.with_columns((error * error).alias("square"), error.abs().alias("absolute"))
        asked |= {"rated": nw.col("truth").count()} | {n: nw.col(n).sum() for n in ("square", "absolute")}
    found = {**_per_user(view, rows, asked)}
    if relevant is not None:
        found |= _per_user(view, relevant, {"wanted": nw.col("relevant").sum()})
    return Sums(**found)


def _per_user(view: TableScores, rows: nw.LazyFrame[Any], asked: dict[str, nw.Expr]) -> dict[str, Any]:
    frame = to_polars(rows.group_by("user").agg(*(e.alias(name) for name, e in asked.items())))
    at, found = view.places_of(frame["user"]), {}
    for name in asked:
        found[name] = np.zeros(view.users)
        found[name][at] = frame[name].fill_null(0).to_numpy()
    return found


def _listed(view: TableScores, placed: nw.LazyFrame[Any], true_by: Cut) -> TableScores:
    """The view with rows that came here; the truth is what is relevant of them."""
    flags = [name for name in ("relevant", "below") if name in placed.collect_schema().names()]
    any_share = true_by.top is not None and true_by.ties == "fractional"  # of a slot
    scores = _sent(view.scores, placed, flags, known=not any_share)
    truth = view.truth
    if truth is not None and "relevant" in flags:
        true = scores.lazy.filter(nw.col("relevant") > 0)
        truth = truth.over(true.select(*PAIR, nw.col("relevant").alias("value")))
    return replace(view, scores=scores.over(scores.lazy.select(*PAIR, "value")), truth=truth)


def _sent(table: Long, placed: nw.LazyFrame[Any], flags: Sequence[str], *, known: bool = True) -> Long:
    """A table with the rows of it that came here: places below zero for values, so that the best is highest, beside `flags`."""
    import polars as pl

    values = table.item_ids.alias("item").to_frame()
    for flag in flags:
        values = values.join(pl.DataFrame({flag: [0.0, 1.0]}), how="cross")
    order = "place" if "place" in placed.collect_schema().names() else None
    rows = numbered(placed, ["user"], ["item", *flags], order, known=values if known else None)
    place = nw.col("place") if order else nw.col("below") + 1.0 if "below" in flags else nw.lit(1.0)
    return replace(table.over(rows.with_columns((place * -1.0).alias("value"))), thinning=None)
