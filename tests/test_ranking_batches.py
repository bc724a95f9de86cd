"""Rankings are checked a batch of rows at a time, and batches change nothing."""

from __future__ import annotations

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.engine.labelled import Lookup
from evenhand.errors import EvenhandError
from evenhand.views import batches
from evenhand.views.batches import ranking_facts
from evenhand.views.beside import joined
from evenhand.views.rankings import view_rankings
from evenhand.views.tables import to_polars

ENGINES = {"polars": lambda frame: frame.lazy(), "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow())}


def some_rankings(order, *, twice=True):
    """Rankings of different lengths, one slice without a name; if `twice`, some have an item or a place twice."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(1, 9, 40)
    request = np.repeat(np.arange(40), lengths)
    drawn = rng.integers(0, 12, (2, len(request)))
    own = np.arange(len(request))
    frame = pl.DataFrame({"request": request, "item": drawn[0] if twice else own, "rank": drawn[1] if twice else own})
    frame = frame.with_columns(by_0=pl.when(pl.col("request") % 3 > 0).then(pl.col("request") % 3))
    frame = frame.with_columns(item=pl.concat_str(pl.lit("d"), "item"))
    return frame if order == "together" else frame.sample(fraction=1, shuffle=True, seed=3)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("twice", [True, False])
@pytest.mark.parametrize("order", ["together", "mixed"])
@pytest.mark.parametrize("rows", [1, 5, 50, 10_000])
def test_facts_are_those_of_all_rows_at_once_whatever_the_batches(monkeypatch, order, rows, twice, engine):
    monkeypatch.setattr(batches, "BLOCK", rows)
    monkeypatch.setattr(batches, "SORTED", 4 * rows)
    frame, keys = some_rankings(order, twice=twice), ["by_0", "request"]
    found = nw.from_native(
        ranking_facts(nw.from_native(ENGINES[engine](frame)).lazy(), keys, "rank", "item").per
    ).lazy()
    found = to_polars(found)
    place = pl.col("rank")
    facts = {
        "n": pl.len(),
        "distinct": place.n_unique(),
        "last": place.max(),
        "best": place.min(),
        "items": pl.col("item").n_unique(),
    }
    expected = frame.group_by(keys).agg(**facts)
    assert found.select(expected.columns).sort(keys).rows() == expected.sort(keys).rows()


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_an_item_listed_again_in_another_batch_is_refused(monkeypatch, rows):
    monkeypatch.setattr(batches, "BLOCK", rows)
    run = pl.DataFrame(
        {"request": [1, 1, 1, 2, 2, 2, 3], "item": list("abcdedf"), "rank": [1, 2, 3, 1, 2, 3, 1]},
    )
    with pytest.raises(EvenhandError, match=r"1 of 3 rankings list an item twice \(first: request 2, item 'd'\)"):
        view_rankings(run.lazy())
    tied = run.with_columns(item=pl.Series(list("abcdegf")), rank=pl.Series([1, 2, 3, 1, 2, 1, 1]))
    with pytest.raises(EvenhandError, match=r"ties in 1 of 3 rankings \(first: request 2, rank 1\)"):
        view_rankings(tied.lazy())


@pytest.mark.parametrize("rows", [3, 1_000])
def test_facts_of_all_rows_are_added_up_from_those_of_parts(monkeypatch, tmp_path, rows):
    monkeypatch.setattr(batches, "COUNTED", rows)
    frame = pl.DataFrame({"x": [4.0, None, -2.0, 7.0, 1.0, 5.0, 3.0]})
    frame.write_parquet(tmp_path / "x.parquet")
    lazy = nw.from_native(pl.scan_parquet(tmp_path / "x.parquet"))

    def asked(of):
        x = of.col("x")
        return [
            of.len().alias("rows"),
            x.is_null().sum().alias("lost"),
            x.min().alias("low_x"),
            x.max().alias("high_x"),
        ]

    assert batches.summed(lazy, asked) == {"rows": 7, "lost": 1, "low_x": -2.0, "high_x": 7.0}


def test_only_what_can_be_read_in_slices_is(tmp_path):
    frame = pl.DataFrame({"request": [1, 1, 2], "rank": [1, 2, 1]})
    for name in ("one", "two"):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    frame.write_csv(tmp_path / "one.csv")
    one = pl.scan_parquet(tmp_path / "one.parquet")
    rowwise = one.select("rank", who=pl.col("request").cast(pl.String)).with_columns(pl.col("rank").fill_null(0))
    slow = [
        one.filter(pl.col("rank") > 1),
        one.with_columns(pl.col("rank").rank().over("request")),
        one.join(one, on="request"),
        pl.scan_parquet([tmp_path / "one.parquet", tmp_path / "two.parquet"]),
        pl.scan_csv(tmp_path / "one.csv"),
    ]
    told = [batches._takes_slices(nw.from_native(plan)) for plan in (one, rowwise, frame.lazy(), *slow)]
    assert told == [True] * 3 + [False] * len(slow)


def test_a_table_without_rows_has_no_rankings():
    empty = pl.DataFrame(schema={"request": pl.Int64, "item": pl.String, "rank": pl.Int64})
    assert view_rankings(empty.lazy()).rankings == 0


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
def test_audits_say_the_same_whatever_the_blocks(monkeypatch, order, block, labels):
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
    monkeypatch.setattr(batches, "BLOCK", block)
    monkeypatch.setattr(batches, "SORTED", 2 * block)
    for call, before in zip(calls, expected, strict=True):
        found = call()
        assert_frame_equal(found.frame, before.frame, rel_tol=1e-12, abs_tol=0)
        assert found.per_request.equals(before.per_request)
        assert found.provenance == before.provenance


@pytest.mark.parametrize("kind", [pl.Int64, pl.String])
@pytest.mark.parametrize("grade", [1.0, 0.1])
@pytest.mark.parametrize("order", ["together", "mixed", "a request in two places"])
@pytest.mark.parametrize("block", [7, 1_000])
def test_what_another_table_says_of_rows_is_what_a_join_says(monkeypatch, kind, grade, order, block):
    rng = np.random.default_rng(3)
    pairs = pl.DataFrame({"request": np.arange(600) // 20, "item": np.tile(rng.permutation(40), 15)})
    pairs = pairs.cast(kind).with_columns(relevance=pl.Series(rng.integers(0, 4, 600) * grade))
    said = pairs.filter(pl.Series(rng.random(600) < 0.6), pl.col("request") != pairs["request"][100])
    if order == "mixed":
        requests = said["request"].unique(maintain_order=True).shuffle(1)
        said = pl.concat([said.filter(pl.col("request") == one).sample(fraction=1, shuffle=True) for one in requests])
    if order == "a request in two places":
        said = pl.concat([said[3:], said[:3]])
    rows = pairs.drop("relevance").filter(pl.col("request") != pairs["request"][300]).with_columns(sample=pl.lit(1))
    rows = pl.concat([rows, rows.with_columns(sample=pl.lit(2))]).with_row_index("row")
    monkeypatch.setattr(batches, "BLOCK", block)
    monkeypatch.setattr(batches, "SORTED", 100)
    on, lazies = ["request", "item"], (nw.from_native(frame.lazy()) for frame in (rows, said))
    found = to_polars(joined(*lazies, on, ["sample", "request"])).sort("row")
    assert_frame_equal(found, rows.join(said, on=on, how="left", maintain_order="left"))
    only = to_polars(joined(nw.from_native(rows.lazy()), nw.from_native(said.lazy()), on, on).select("relevance"))
    assert only["relevance"].null_count() == found["relevance"].null_count()


@pytest.mark.parametrize("block", [1, 4, 100])
def test_an_item_scored_twice_is_found_whatever_the_blocks(monkeypatch, block):
    monkeypatch.setattr(batches, "BLOCK", block)
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
def test_exposure_by_blocks_is_what_the_engine_adds_up(monkeypatch, lists, block):
    monkeypatch.setattr(batches, "BLOCK", block)
    monkeypatch.setattr(batches, "SORTED", 2 * block)
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
def test_labels_are_looked_up_whatever_the_ids_are(ids):
    known = pl.DataFrame({"item": ids, "group": ["b", None, "a"]})
    lookup = Lookup.of(known, ["item"], "groups", ("a", "b"))
    other = pl.Series([99] if ids.dtype.is_integer() else ["99"], dtype=ids.dtype)
    rows = pl.DataFrame({"item": pl.concat([ids.reverse(), other, ids])})
    assert lookup.codes(rows).tolist() == [0, 2, 1, 2, 1, 2, 0]
    if ids.dtype == pl.Int64:
        far = pl.DataFrame({"item": [2**63 - 1, -(2**63)]})
        assert lookup.codes(far).tolist() == [2, 2]
