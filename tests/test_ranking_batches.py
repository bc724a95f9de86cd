"""Rankings are streamed in batches of whole groups, and neither batches nor the order of rows change anything."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.errors import EvenhandError
from evenhand.sources import engine
from evenhand.sources.rankings import open_rankings, ranking_table


def test_an_item_or_a_rank_listed_again_is_refused():
    run = pl.DataFrame(
        {"request": [1, 1, 1, 2, 2, 2, 3], "item": list("abcdedf"), "rank": [1, 2, 3, 1, 2, 3, 1]},
    )
    with pytest.raises(EvenhandError, match=r"1 of 3 rankings list an item twice \(first: request 2, item 'd'\)"):
        open_rankings(ranking_table(run))
    tied = run.with_columns(item=pl.Series(list("abcdegf")), rank=pl.Series([1, 2, 3, 1, 2, 1, 1]))
    with pytest.raises(EvenhandError, match=r"ties in 1 of 3 rankings \(first: request 2, rank 1\)"):
        open_rankings(ranking_table(tied))


def test_a_table_without_rows_has_no_rankings():
    empty = pl.DataFrame(schema={"request": pl.Int64, "item": pl.String, "rank": pl.Int64})
    assert open_rankings(ranking_table(empty)).rankings == 0


def labelled_rankings(order):
    """Rankings with gaps, labels of some items, scores and relevance; a ranking's rows together, mixed, or systems after another."""
    rng = np.random.default_rng(11)
    lengths = rng.integers(1, 12, 60)
    request = np.repeat(rng.permutation(60), lengths)
    rank = np.concatenate([np.sort(np.append(rng.choice(np.arange(2, 15), n - 1, replace=False), 1)) for n in lengths])
    size = len(request)
    frame = pl.DataFrame({"request": request, "rank": rank, "item": rng.permutation(size), "score": rng.random(size)})
    label = pl.Series("group", ["a", "b", "c", None], dtype=pl.String).gather(rng.integers(0, 4, size))
    frame = frame.with_columns(label, relevance=pl.Series(rng.integers(0, 3, size)), site=pl.col("request") % 3)
    return frame if order == "together" else frame.sample(fraction=1, shuffle=True, seed=5)


@pytest.mark.parametrize("labels", ["column", "table"])
@pytest.mark.parametrize("order", ["together", "mixed"])
@pytest.mark.parametrize("block", [9, 100])
def test_audits_say_the_same_whatever_the_batches(monkeypatch, order, block, labels):
    frame = labelled_rankings(order)
    group = "group" if labels == "column" else frame.select("item", "group").drop_nulls()
    rows = frame if labels == "column" else frame.drop("group")
    judged = frame.select("request", "item", "relevance").filter(pl.col("item") % 4 > 0)
    calls = [
        lambda: eh.prefix(
            rows, group=group, protected="b", by="site", unknown="group", metrics=["ndd", "ndkl@5"], rng=1
        ),
        lambda: eh.prefix(rows, group=group, rng=1, chance=None),
        lambda: eh.pairwise(
            rows, groups=group, protected="a", versus="b", relevance="relevance", by="site", unknown="group", rng=1
        ),
        lambda: eh.pairwise(rows, groups=group, protected="a", versus="b", relevance=judged, rng=1),
        lambda: eh.exposure(rows, groups=group, relevance=judged, metrics=["eel", "awrf"], rng=1),
    ]
    expected = [call() for call in calls]
    monkeypatch.setattr(engine, "BATCH_ROWS", block)
    for call, before in zip(calls, expected, strict=True):
        found = call()
        assert_frame_equal(found.frame, before.frame, rel_tol=1e-12, abs_tol=0)
        assert found.per_request.equals(before.per_request)
        assert found.provenance == before.provenance


def test_an_item_scored_twice_is_found():
    run = pl.DataFrame(
        {"request": [1, 1, 2, 2, 2], "item": list("abcdc"), "score": [2, 1, 3, 2, 1], "y": [1, 0, 1, 0, 0]}
    )
    with pytest.raises(EvenhandError, match="1 items are scored twice"):
        eh.pairwise(
            run,
            groups={"a": "x", "b": "z", "c": "x", "d": "z"},
            relevance=run.rename({"y": "relevance"})[:4],
            protected="x",
        )
    with pytest.raises(EvenhandError, match="1 pairs of request and item more than one relevance"):
        run = run.with_columns(system=pl.Series(list("AAAAB")))  # each system scores it once
        eh.pairwise(run, groups={"a": "x", "b": "z", "c": "x", "d": "z"}, relevance="y", protected="x", system="system")


@pytest.mark.parametrize("block", [9, 1_000])
@pytest.mark.parametrize("lists", ["of one length", "with gaps"])
def test_exposure_is_the_same_in_any_order_of_rows_and_batches(monkeypatch, lists, block):
    monkeypatch.setattr(engine, "BATCH_ROWS", block)
    frame = labelled_rankings("together")
    if lists == "of one length":
        rows = {"request": np.repeat(np.arange(20), 6), "rank": np.tile(np.arange(1, 7), 20), "score": np.arange(120.0)}
        frame = frame.select("item", "group", "relevance", "site").head(120).with_columns(**rows)
    call = {
        "groups": frame.select("item", "group").drop_nulls(), "relevance": "relevance", "protected": "a", "versus": "b",
        "metrics": ["awrf", "eed", "eel", "eur", "log_dp@3"], "unknown": "group", "interval": None, "rng": 1,
    }  # fmt: skip
    rows = frame.drop("group")
    found, mixed = (eh.exposure(table, **call) for table in (rows, rows.sample(fraction=1, shuffle=True, seed=1)))
    added_up = eh.exposure(duckdb.from_arrow(rows.to_arrow()), **call)
    assert mixed.frame.equals(found.frame)
    for one in (mixed, added_up):
        each = pl.from_arrow(one.per_request) if one is added_up else one.per_request
        assert_frame_equal(each, found.per_request, rel_tol=1e-12, abs_tol=1e-14)
    assert added_up.findings.columns["estimate"] == pytest.approx(found.findings.columns["estimate"], rel=1e-12)
    assert added_up.provenance["requests_without_judgment"] == found.provenance["requests_without_judgment"]


@pytest.mark.parametrize(
    "ids",
    [
        pl.Series([3, 1, 7]), pl.Series([-5, 0, 4]), pl.Series([10**15, -(10**15), 0]), pl.Series([200, 0, 7], dtype=pl.UInt8),
        pl.Series(["x", "", "z"]),
    ],
)  # fmt: skip
def test_labels_are_joined_whatever_the_ids_are(ids):
    known = pl.DataFrame({"item": ids, "group": ["b", None, "a"]})
    ranked = pl.DataFrame({"request": 1, "item": ids, "rank": [1, 2, 3]})
    found = eh.exposure(ranked, groups=known, target="equal", metrics="awrf", interval=None, rng=1)
    wanted = eh.metrics.awrf(["b", None, "a"], target="equal")
    assert found.frame["estimate"].to_list() == pytest.approx([wanted])
