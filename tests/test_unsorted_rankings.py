"""Rankings whose rows stand in any order, in many batches: the numbers are those of sorted rows in one."""

from __future__ import annotations

from importlib import import_module

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evenhand as eh

LENGTH = 7


def rankings(kind=pl.Int64):
    rows = [
        (q, (q * 5 + i * 3) % 40, i + 1, "abc"[(q + i * i) % 3], (q + i) % 3) for q in range(60) for i in range(LENGTH)
    ]
    frame = pl.DataFrame(rows, schema=["request", "item", "rank", "group", "y"], orient="row")
    return frame.cast({"request": kind, "item": kind}).with_columns(score=-pl.col("rank").cast(pl.Float64))


AUDITS = {
    "prefix": lambda frame: eh.prefix(frame, group="group", protected="b", rng=1),
    "pairwise": lambda frame: eh.pairwise(frame, groups="group", relevance="y", protected="b", versus="a", rng=1),
    "drawn pairs": lambda frame: eh.pairwise(
        frame, groups="group", relevance="y", protected="b", versus="a", negatives=2, rng=1
    ),
    "exposure": lambda frame: eh.exposure(frame, groups="group", relevance="y", protected="b", versus="a", rng=1),
}


@pytest.mark.parametrize("batch_rows", [250_000, 50])
@pytest.mark.parametrize("kind", [pl.Int64, pl.String])
@pytest.mark.parametrize("audit", AUDITS)
def test_rows_in_no_order_and_in_small_batches_give_the_same_numbers(monkeypatch, audit, kind, batch_rows):
    frame = rankings(kind)
    expected = AUDITS[audit](frame).frame
    monkeypatch.setattr(import_module("evenhand.sources.engine"), "BATCH_ROWS", batch_rows)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=4)
    assert_frame_equal(AUDITS[audit](shuffled).frame, expected, rel_tol=1e-9, abs_tol=1e-12)


def test_ties_are_settled_by_the_order_of_rows_however_far_apart_those_of_a_ranking_stand():
    near = rankings().with_columns(score=pl.col("y").cast(pl.Float64))  # heavily tied
    apart = near.sort(near.select(pl.int_range(pl.len()).over("request")).to_series(), maintain_order=True)
    call = {"group": "group", "protected": "b", "rank": None, "score": "score", "ties": "input_order", "rng": 1}
    assert eh.prefix(apart, **call).frame.equals(eh.prefix(near, **call).frame)


def test_an_item_twice_in_one_ranking_among_many_is_refused():
    frame = rankings(pl.String)
    twice = pl.concat(
        [frame, frame.filter(pl.col("request") == "7").head(1).with_columns(rank=pl.lit(99).cast(pl.Int64))]
    )
    with pytest.raises(
        eh.EvenhandError, match=r"1 of 60 rankings list an item twice \(first: request '7', item '35'\)"
    ):
        eh.prefix(twice.sample(fraction=1, shuffle=True, seed=1), group="group")


def test_judgments_in_a_table_in_no_order_are_those_of_the_column():
    frame = rankings(pl.String)
    judged = frame.select("request", "item", relevance="y").sample(fraction=1, shuffle=True, seed=4)
    call = {"groups": "group", "protected": "b", "versus": "a", "rng": 1}
    assert eh.pairwise(frame, relevance=judged, **call).frame.equals(eh.pairwise(frame, relevance="y", **call).frame)
