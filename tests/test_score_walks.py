"""Scores are read once, whatever the ids, the order of rows and the engine."""

import gc
import os
import tempfile
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.sources.folders import Folder
from evenhand.views import batches
from evenhand.views.numbering import Numbering
from evenhand.views.walked import Runs, Walked

RNG = np.random.default_rng(6)
CALL = {"user_groups": "kind", "top": 2, "rng": 1, "interval": "percentile(29)", "chance": "permutation(29)"}


def scores(users=40, items=30):
    cells = np.flatnonzero(RNG.random(users * items) < 0.5)
    user, item = np.divmod(cells, items)
    table = pl.DataFrame({"user": user, "item": item, "score": RNG.random(len(cells)).round(2)})
    return table.with_columns(kind=pl.Series(np.where(user % 3, "a", "b")))


@settings(max_examples=20)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), max_size=20), max_size=5))
def test_numbers_are_those_of_first_appearance(frames):
    for kind in (pl.Int64, pl.String):
        numbering, known = Numbering(), {}
        for frame in frames:
            ids = pl.Series(frame, dtype=pl.Int64).cast(kind)
            assert numbering.of(ids).tolist() == [known.setdefault(one, len(known)) for one in ids]
        assert not frames or numbering.ids.to_list() == list(known)


def test_categories_are_numbered_as_the_text_they_stand_for():
    numbering, words = Numbering(), [["b", "a", "b"], ["c", "a"], [], ["d", "b", "e", "d"]]
    kinds = [pl.Categorical, pl.String, pl.Categorical, pl.Enum(["e", "d", "c", "b"])]
    found = [numbering.of(pl.Series(some, dtype=kind)).tolist() for some, kind in zip(words, kinds, strict=True)]
    assert found == [[0, 1, 0], [2, 1], [], [3, 0, 4, 3]]
    assert numbering.ids.to_list() == ["b", "a", "c", "d", "e"]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 4_001) | st.integers(-9_000, 9_000), st.integers(1, 3)), max_size=6
    )
)
def test_whole_numbers_close_together_and_far_apart_are_told_apart(spans):
    numbering, known = Numbering(), {}
    for low, step in spans:  # up to 1,300 ids from here on, in any order
        ids = low + step * np.random.default_rng(step).permutation(4_000 // 3)[: 1_300 // step]
        assert numbering.of(pl.Series(ids)).tolist() == [known.setdefault(one, len(known)) for one in ids.tolist()]
    assert not spans or numbering.ids.to_list() == list(known)


def test_a_walk_says_whether_users_stand_together():
    def together(*users):
        frames = [pl.DataFrame({"user": some, "item": range(len(some)), "value": [1.0] * len(some)}) for some in users]
        return Walked.of(frames, 3).together

    assert together(["b", "b", "a"], ["a", "c"])
    assert not together(["b", "a", "b"], ["c"])
    assert not together(["b", "a"], ["b", "c"])
    assert not together(["b", "a"], ["a", "b"])


@pytest.mark.parametrize(("users", "items"), [(3, 9_000), (300, 60), (200_000, 5)])  # long, uneven and very many rows
def test_runs_hold_every_row_by_user_and_item(users, items):
    rng = np.random.default_rng(users)
    cells = np.unique((users * rng.random(20_000) ** 2).astype(np.int64) * items + rng.integers(0, items, 20_000))
    rows = rng.permutation(cells)
    values = rng.random(users * items)[rows]
    frame = pl.DataFrame({"user": rows // items, "item": rows % items, "value": values})
    walked = Walked.of([frame[:7_000], frame[7_000:]], 10**6)
    places = walked.users.to_numpy().astype(np.int32), walked.items.to_numpy().astype(np.int32)
    (run,) = Runs(walked, *places, (users, items)).of([(0, users)])
    expected = frame.sort("user", "item")
    assert (np.diff(run.starts) == np.bincount(cells // items, minlength=users)).all()
    assert (run.items == expected["item"].to_numpy()).all()
    assert (run.values == expected["value"].to_numpy()).all()
    assert run.twice is None
    again = pl.concat([frame, expected[[5_000, 6_000, 6_000]]])
    (run,) = Runs(Walked.of([again], 10**6), *places, (users, items)).of([(0, users)])
    assert run.twice == (*expected.select("user", "item").row(5_000), 3)


@pytest.mark.parametrize("ids", [pl.Int64, pl.String, pl.Categorical])
@pytest.mark.parametrize("order", ["sorted", "shuffled", "by score"])
def test_scores_that_lie_in_files_give_the_same_numbers(ids, order, monkeypatch):
    table = scores().with_columns(pl.format("{}", pl.col("user")), pl.format("{}", pl.col("item")))
    table = table.with_columns(pl.col("user", "item").cast(pl.Int64 if ids not in (pl.String, pl.Categorical) else ids))
    expected = eh.recommender(table, **CALL)
    table = {
        "sorted": table,
        "shuffled": table.sample(fraction=1.0, shuffle=True, seed=1),
        "by score": table.sort("user", "score"),
    }[order]
    for name, size in (("scoretables.READ_CELLS", 70), ("batches.BLOCK", 50), ("walked.AT_ONCE", 64)):
        monkeypatch.setattr(f"evenhand.views.{name}", size)
    found = eh.recommender(table.cast({"user": ids, "item": ids}), **CALL)
    assert found.to_text("csv") == expected.to_text("csv")
    assert (
        found.shown.sort("user", "item").select("user", "item", "shown").rows()
        == expected.shown.sort("user", "item").select("user", "item", "shown").rows()
    )


@pytest.fixture
def thinned(monkeypatch):
    """Tables of more than 100 scores keep those that may be shown; how often one is walked, and what its records were."""
    held = []

    def walked(frames, most, thinning=None):
        found = of(frames, most, thinning)
        held.append((found.records.size, found.sums is not None))
        return found

    of = Walked.of
    monkeypatch.setattr("evenhand.engine.crosstabs.MOST_OFFERED", 100)
    monkeypatch.setattr(batches, "BLOCK", 50)
    monkeypatch.setattr(Walked, "of", walked)
    return held


def numbers(table, **call):
    return eh.recommender(table, **{**CALL, **call}).frame


@pytest.mark.parametrize(
    "cut", [{"top": 2}, {"top": 3, "ties": "fractional"}, {"top": 40, "ties": "last"}, {"top": None, "threshold": 0.7}]
)
@pytest.mark.parametrize("order", ["sorted", "by score", "by another id"])
def test_of_many_scores_only_those_that_may_be_shown_are_kept(cut, order, thinned, monkeypatch):
    holes = pl.when(pl.col("item") % 7 == 0).then(None).when(pl.col("item") % 5 == 0).then(-np.inf)
    table = scores().with_columns(holes.otherwise(pl.col("score").round(1)).alias("score"))
    table = {
        "sorted": table,
        "by score": table.sort("user", "score"),
        "by another id": table.with_columns(user=17 * pl.col("user") % 41),
    }[order]
    found = numbers(table, **cut)
    assert [some for _, some in thinned] == [True]
    assert thinned[0][0] < table.height // 2 or cut["top"] == 40
    monkeypatch.setattr("evenhand.engine.crosstabs.Reading.thinning", None)
    expected = numbers(table, **cut)
    assert thinned[1] == (table.height, False)
    assert_frame_equal(found, expected, rel_tol=1e-12)  # sums are made in another order


def test_all_scores_are_kept_where_users_come_again(thinned):
    table = scores()
    expected = numbers(table)
    late = pl.concat([table[1:], table[:1]])
    assert_frame_equal(numbers(late), expected)
    assert [some for _, some in thinned] == [True, False]  # found out at the last row: walked once more
    assert_frame_equal(numbers(table.sample(fraction=1.0, shuffle=True, seed=1)), expected)
    assert [some for _, some in thinned] == [True, False, False]  # found out before any was dropped
    duckdb = pytest.importorskip("duckdb")
    found = numbers(duckdb.from_arrow(late.to_arrow()))
    assert_frame_equal(pl.DataFrame(found), expected)


def test_an_item_that_a_user_has_twice_is_told_however_low_it_scores(thinned):
    table = scores()
    lowest = table.filter(pl.col("user") == 20).sort("score").head(1).with_columns(score=pl.lit(-1.0))
    table = pl.concat([table.filter(pl.col("user") <= 20), lowest, table.filter(pl.col("user") > 20)])
    with pytest.raises(eh.EvenhandError, match=f"1 rows for a user and item .* user 20, item {lowest['item'][0]}"):
        numbers(table)


@pytest.mark.parametrize("engine", ["polars", "pandas", "pyarrow", "duckdb", "parquet"])
def test_rows_are_read_once(engine, monkeypatch, tmp_path):
    table, read = scores(), []
    table.write_parquet(tmp_path / "scores.parquet")
    given = {
        "polars": lambda: table.lazy(),
        "pandas": table.to_pandas,
        "pyarrow": table.to_arrow,
        "duckdb": lambda: __import__("duckdb").read_parquet(str(tmp_path / "scores.parquet")),
        "parquet": lambda: tmp_path / "scores.parquet",
    }[engine]()
    monkeypatch.setattr(batches, "BLOCK", 100)

    def walked(lazy):
        for frame in batches.frames(lazy):
            read.append(frame.height)
            yield frame

    monkeypatch.setattr("evenhand.views.scoretables.frames", walked)
    groups = {user: "ab"[user % 2] for user in range(40)}
    eh.recommender(given, **{**CALL, "user_groups": groups})
    assert sum(read) == table.height
    assert max(read) <= 100 or engine == "duckdb"


def test_files_of_records_are_gone_once_they_are_read(monkeypatch):
    monkeypatch.setattr("evenhand.views.scoretables.READ_CELLS", 50)
    made = []

    class Watched(Folder):
        def __init__(self):
            super().__init__()
            made.append(self.name)

    monkeypatch.setattr("evenhand.views.spilled.Folder", Watched)
    result = eh.recommender(scores().sample(fraction=1.0, shuffle=True, seed=1), **CALL)
    gc.collect()
    assert made
    assert not [name for name in made if os.path.exists(name)]
    assert result.shown.height  # which reads the scores again


def test_no_room_for_records_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("evenhand.views.scoretables.READ_CELLS", 50)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        patch("pathlib.Path.open", side_effect=OSError(28, "No space left on device")),
        pytest.raises(eh.EvenhandError, match=r"has no room for them \(OSError\)\. Set TMPDIR"),
    ):
        eh.recommender(scores(), **CALL)


@pytest.mark.parametrize("engine", ["polars", "pandas", "pyarrow", "duckdb"])
def test_a_table_without_rows_says_nothing_on_any_engine(engine):
    table = scores().head(0)
    given = {
        "polars": lambda: table,
        "pandas": table.to_pandas,
        "pyarrow": table.to_arrow,
        "duckdb": lambda: __import__("duckdb").from_arrow(table.to_arrow()),
    }[engine]()
    found = eh.recommender(given, **{**CALL, "user_groups": {0: "a", 1: "b"}}).frame
    assert {*pl.DataFrame(found)["note"]} == {"empty"}
