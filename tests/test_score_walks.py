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

import evenhand as eh
from evenhand.views import batches
from evenhand.views.numbering import Numbering
from evenhand.views.spilled import Folder
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
