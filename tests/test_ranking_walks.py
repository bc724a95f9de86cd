"""Tables of rankings are walked over, not grouped: how often, and how many rows are looked at together."""

from __future__ import annotations

import gc
from pathlib import Path

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from polars.io.plugins import register_io_source
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.views import batches
from evenhand.views.places import Places, are_distinct
from evenhand.views.spilled import Spilled

RANKINGS, LENGTH = 60, 7


def rankings(kind=pl.Int64):
    """Rankings of items that many of them share, with a label and a relevance."""
    rng = np.random.default_rng(5)
    item = np.concatenate([rng.choice(40, LENGTH, replace=False) for _ in range(RANKINGS)])
    frame = pl.DataFrame({"request": np.repeat(np.arange(RANKINGS), LENGTH), "item": item})
    frame = frame.with_columns(rank=pl.Series(np.tile(np.arange(1, LENGTH + 1), RANKINGS)))
    frame = frame.with_columns(score=-pl.col("rank").cast(pl.Float64), y=pl.Series(rng.integers(0, 3, len(item))))
    frame = frame.with_columns(group=pl.when(pl.col("item") % 3 > 0).then(pl.lit("a")).otherwise(pl.lit("b")))
    return frame.with_columns(pl.col("request", "item").cast(kind))


def labels(frame):
    return frame.select("item", "group").unique()


AUDITS = {
    "exposure": lambda rows, groups: eh.exposure(
        rows, groups=groups, relevance="y", protected="b", metrics=["awrf", "eel", "eur"], rng=1
    ),
    "prefix": lambda rows, groups: eh.prefix(rows, group=groups, protected="b", rng=1),
    "pairwise": lambda rows, groups: eh.pairwise(rows, groups=groups, relevance="y", protected="b", rng=1),
}


class Counted:
    """A table that counts the rows that are read from it."""

    def __init__(self, frame):
        self.frame, self.rows = frame, 0
        self.lazy = register_io_source(self._read, schema=frame.schema)

    def _read(self, columns, predicate, rows, _):
        found = self.frame if columns is None else self.frame.select(columns)
        found = found if predicate is None else found.filter(predicate)
        found = found if rows is None else found.head(rows)
        self.rows += found.height
        yield found

    @property
    def walks(self):
        return self.rows // self.frame.height


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("kind", [pl.Int64, pl.String])
@pytest.mark.parametrize("audit", AUDITS)
def test_rankings_are_walked_over_once_to_check_and_add_up(monkeypatch, audit, kind, many):
    frame = rankings(kind)
    expected = AUDITS[audit](frame, labels(frame)).frame
    if many:
        monkeypatch.setattr(batches, "BLOCK", 50)
    table = Counted(frame)
    assert AUDITS[audit](table.lazy, labels(frame)).frame.equals(expected)
    # exposure adds up on a walk of its own, and picks out the lists that are looked at in random order
    assert table.walks == (3 if many and audit == "exposure" else 1)


@pytest.mark.parametrize("audit", AUDITS)
def test_hashes_that_look_alike_are_settled_within_their_block(monkeypatch, audit):
    frame, looked_at = rankings(pl.String), []
    expected = AUDITS[audit](frame.lazy(), labels(frame)).frame
    grouped = nw.LazyFrame.group_by

    def group_by(lazy, *keys, **more):
        if "item" in lazy.collect_schema().names() and "request" in lazy.collect_schema().names():
            looked_at.append(lazy.select(nw.len()).collect("polars").item())
        return grouped(lazy, *keys, **more)

    monkeypatch.setattr(batches, "BLOCK", 50)
    monkeypatch.setattr(batches, "_twice", lambda *_: True)  # as two of a hundred million hashes do
    monkeypatch.setattr(nw.LazyFrame, "group_by", group_by)
    assert AUDITS[audit](frame.lazy(), labels(frame)).frame.equals(expected)
    assert looked_at
    assert max(looked_at) <= 50 + LENGTH


@pytest.mark.parametrize("kind", [pl.Int64, pl.String, pl.Date])
def test_an_id_stands_where_the_table_has_it_and_nowhere_else(kind):
    rng = np.random.default_rng(3)
    drawn = pl.Series("item", rng.permutation(5_000)[:1_200] * 7).cast(pl.Int32).cast(kind)
    known, strange = drawn[:1_000].to_frame(), drawn[1_000:].to_frame()
    places = Places.of(known)
    asked = pl.concat([strange, known.reverse(), known.clear(1)])
    assert places.of_rows(asked).tolist() == [1_000] * 200 + list(range(999, -1, -1)) + [1_000]
    assert Places.of(known.clear()).of_rows(asked[:3]).tolist() == [0, 0, 0]


def test_a_ranking_longer_than_a_block_is_read_whole(monkeypatch):
    lengths = [3, 40, 1, 8, 16]
    frame = pl.DataFrame({"request": np.repeat(np.arange(5), lengths), "x": np.arange(sum(lengths))})
    monkeypatch.setattr(batches, "BLOCK", 8)
    made = batches.by_ranking(nw.from_native(frame.lazy()), ["request"], lambda rows, first: (rows, first))
    found = [rows for rows, _ in made]
    assert all(rows["request"][first].equals(rows["request"].unique(maintain_order=True)) for rows, first in made)
    assert pl.concat(found).equals(frame)
    assert pl.concat([rows.select("request").unique() for rows in found])["request"].is_unique().all()


def test_places_by_score_are_found_some_rankings_at_a_time(monkeypatch):
    frame, heights, honest = rankings().drop("rank"), [], nw.DataFrame.with_columns
    expected = frame.with_columns(rank=pl.col("score").rank("ordinal", descending=True).over("request").cast(pl.Int64))

    def with_columns(rows, *made):
        heights.append(len(rows))
        return honest(rows, *made)

    monkeypatch.setattr(batches, "BLOCK", 50)
    monkeypatch.setattr(nw.DataFrame, "with_columns", with_columns)
    found = batches.by_score(nw.from_native(frame.lazy()), ["request"]).to_native()
    assert_frame_equal(found.collect(), expected)
    assert_frame_equal(found.select("rank", "item").collect(), expected.select("rank", "item"))
    assert max(heights) <= 50


def test_rows_are_known_to_be_distinct_by_all_of_their_keys():
    frame = nw.from_native(pl.LazyFrame({"request": [1, 1, 2], "item": ["a", "b", "a"]}))
    assert are_distinct(frame, ["request", "item"])
    assert not are_distinct(frame, ["item"])


def test_ids_of_one_hash_are_told_apart(monkeypatch):
    from evenhand.views import places

    known = pl.DataFrame({"request": [1, 1, 2], "item": ["a", "b", "a"]})
    asked = pl.DataFrame({"request": [2, 2, 1], "item": ["a", "b", "b"]})
    honest = places._hashes
    monkeypatch.setattr(places, "_hashes", lambda rows, seed: honest(rows, seed) >> np.uint64(0 if seed else 64 - 1))
    made = Places.of(known)
    assert made.seed > 0  # of the first seed, some of three hashes of one bit are alike
    held = places._hashes(known, made.seed)[[2, 2, 1]]
    monkeypatch.setattr(places, "_hashes", lambda *_: held)  # a stranger with the hash of the third
    assert made.of_rows(asked).tolist() == [2, 3, 1]


@pytest.mark.parametrize("audit", AUDITS)
def test_rows_that_stand_apart_are_read_from_their_table_once_more_at_most(monkeypatch, tmp_path, audit):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(batches, "SORTED", 100)
    frame = rankings(pl.String)
    table = Counted(frame.sample(fraction=1, shuffle=True, seed=2))
    found = AUDITS[audit](table.lazy, labels(frame)).frame
    assert found.drop("note").equals(AUDITS[audit](frame, labels(frame)).frame.drop("note"))
    assert table.walks <= 3  # until it shows, to count them, and to bring them together
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_judgments_in_a_table_and_of_two_systems_are_the_same_in_parts(monkeypatch):
    frame = rankings(pl.String)
    judged = frame.select("request", "item", relevance="y").sample(fraction=1, shuffle=True, seed=4)
    other = frame.with_columns(rank=LENGTH + 1 - pl.col("rank"), score=-pl.col("score"), system=pl.lit("B"))
    both = pl.concat([frame.with_columns(system=pl.lit("A")), other])

    def found():
        more = {"groups": labels(frame), "protected": "b", "rng": 1}
        yield eh.exposure(frame, relevance=judged, metrics=["eel", "eur"], **more).frame
        yield eh.pairwise(frame, relevance=judged, **more).frame
        yield eh.exposure(both, relevance="y", system="system", metrics=["eel", "eur"], **more).frame

    expected = list(found())
    monkeypatch.setattr(batches, "SORTED", 100)
    for here, there in zip(found(), expected, strict=True):
        assert_frame_equal(here, there, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize("together", [1_000_000, 50])
def test_ties_are_settled_by_the_order_of_rows_however_far_apart_those_of_a_ranking_stand(monkeypatch, together):
    near = rankings().with_columns(score=pl.col("y").cast(pl.Float64))  # heavily tied
    apart = near.sort(near.select(pl.int_range(pl.len()).over("request")).to_series(), maintain_order=True)
    expected = eh.prefix(near, group="group", protected="b", rank=None, score="score", ties="input_order", rng=1)
    monkeypatch.setattr(batches, "SORTED", together)
    monkeypatch.setattr(batches, "BLOCK", 30)
    found = eh.prefix(apart, group="group", protected="b", rank=None, score="score", ties="input_order", rng=1)
    assert found.frame.equals(expected.frame)


def test_no_room_for_rows_that_stand_apart_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Spilled, "_file", lambda *_: Path("/dev/full"))
    with pytest.raises(eh.EvenhandError, match=r"has no room to bring them together \(OSError\)\. Sort the table"):
        Spilled([pl.DataFrame({"request": [1, 2, 1]})], ["request"], 2)
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_rows_that_stand_apart_take_a_file_for_each_part_however_many_blocks_they_come_in(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kinds = {
        "request": pl.Int128,
        "item": pl.Categorical,
        "at": pl.Datetime("us", "UTC"),
        "rank": pl.UInt8,
        "none": pl.Null,
    }
    rows = pl.DataFrame({"request": np.arange(60) % 7, "item": [f"item {i}" for i in range(60)], "rank": np.arange(60)})
    rows = rows.with_columns(at=pl.lit("2026-11-17").str.to_datetime(), none=None).select(*kinds).cast(kinds)
    spilled = Spilled(rows.iter_slices(5), ["request"], 3)
    assert len([file for file in tmp_path.rglob("*") if file.suffix == ".arrows"]) == 3
    parts = [spilled.part(i) for i in range(3)]
    for request in range(7):
        (held,) = (part for part in parts if request in part["request"])
        assert_frame_equal(held.filter(pl.col("request") == request), rows.filter(pl.col("request") == request))
