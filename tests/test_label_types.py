"""Labels and ids of every type come out as they went in, on every engine, and meet those of the population."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import polars as pl
import pytest

import evenhand as eh

ENGINES = {
    "pandas": pl.DataFrame.to_pandas,
    "polars": pl.DataFrame.lazy,
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}
CALL = {"unit": None, "amount": "views", "population": None, "metrics": "mean", "interval": None}
HOME = ZoneInfo("Europe/Amsterdam")

SLICES = {
    # what the table holds, twice over; every label once, in order
    "booleans with gaps": (pl.Series([True, None, False]), [False, True, None]),
    "hashes": (pl.Series([2**63 + 1, 5], dtype=pl.UInt64), [5, 2**63 + 1]),
    "hours of a zone": (pl.Series([datetime(2020, 7, 1, tzinfo=HOME)]), [datetime(2020, 7, 1, tzinfo=HOME)]),
    "hours at Greenwich": (pl.Series([datetime(2020, 7, 1, tzinfo=UTC)]), [datetime(2020, 7, 1, tzinfo=UTC)]),
}


def sliced(column: pl.Series, engine: str, by: str = "bin") -> eh.Result:
    column = pl.concat([column, column]).alias(by)
    return eh.inequality(ENGINES[engine](pl.DataFrame({"views": range(len(column)), by: column})), by=by, **CALL)


def listed(frame: object, column: str) -> list[object]:
    found = frame[column].to_pylist() if type(frame).__module__.startswith("pyarrow") else frame[column].to_list()
    return [None if pd.isna(v) else v for v in found]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SLICES)
def test_slices_are_labelled_as_the_table_has_them(name, engine, tmp_path):
    column, labels = SLICES[name]
    found = sliced(column, engine)
    assert listed(found.frame, "bin") == labels
    assert listed(found.pivot("bin"), "bin") == labels
    found.to_json(tmp_path / "result.json")
    assert len(eh.read.result(tmp_path / "result.json").frame) == len(labels)


def test_whole_numbers_that_no_float_or_int_holds_are_shown_as_text():
    assert sliced(pl.Series([2**60 + 1, None]), "polars").frame["bin"].to_list() == [str(2**60 + 1), None]
    with pytest.raises(eh.EvenhandError, match="by='bin' holds Int128 values"):
        sliced(pl.Series([2**100], dtype=pl.Int128), "polars")


def test_a_slice_called_bin_is_no_bin_of_a_score():
    found = sliced(pl.Series(["x", "y"]), "polars")
    assert found.compare(found).frame["bin"].to_list() == ["x", "y"]
    found.plot("intervals")
    table = pl.DataFrame({"views": [1, 2, 3], "bin": [1, 10, 100]})
    assert eh.inequality(table, by=eh.log_bins("bin", 2), **CALL).frame["bin"].to_list() == ["[1, 10]", "(10, 100]"]


def test_a_slice_called_like_a_column_of_comparisons_is_not_overwritten():
    found = sliced(pl.Series(["x", "y"]), "polars", by="p")
    with pytest.raises(eh.EvenhandError, match="'p' is also a column of every comparison"):
        found.compare(found)


def test_bins_are_called_by_name_as_sources_and_as_groups():
    log = pl.DataFrame({"who": list("abc"), "views": [1, 2, 3], "fans": [1, 10, None]})
    call = {"unit": "who", "amount": "views", "population": None, "interval": None}
    names = ["[1, 3.162]", "(3.162, 10]", "(missing)"]
    for bins in (eh.log_bins("fans", 2), "log_bins(fans, 2)"):
        assert eh.sources(log, source=bins, metrics="share", **call).frame["group"].to_list() == names
        assert eh.decompose(log, group=bins, metrics="share", **call).frame["group"].to_list() == names


@pytest.mark.parametrize("engine", ENGINES)
def test_slices_that_are_whole_on_one_side_and_fractions_on_the_other_meet(engine):
    log = pl.DataFrame({"who": list("abc"), "views": [1, 2, 3], "band": [1, 2, 2]})
    everyone = pl.DataFrame({"who": list("abcd"), "band": [1.0, 2.0, 2.0, 3.0]})
    call = {"unit": "who", "amount": "views", "by": "band", "metrics": "mean", "interval": None}
    for table, population in ((log, everyone), (log.cast({"band": pl.Float64}), everyone.cast({"band": pl.Int64}))):
        found = eh.inequality(ENGINES[engine](table), population=ENGINES[engine](population), **call).findings
        assert list(zip(found.columns["band"], found.columns["units"], strict=True)) == [(1, 1), (2, 2), (3, 1)]


def test_moments_of_another_precision_are_the_same_units():
    log = pl.DataFrame({"who": [datetime(2020, 1, 1, tzinfo=UTC)], "views": [4]})
    everyone = pl.DataFrame({"who": [datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)]}).cast(
        pl.Datetime("ns", "UTC")
    )
    found = eh.inequality(log, **(CALL | {"unit": "who", "population": everyone}))
    assert found.findings.columns["estimate"] == [2.0]


def test_the_wide_numbers_that_duckdb_adds_up_are_labels_like_any_others():
    log = pl.DataFrame({"who": [7, 8, 9, 9], "views": [1, 2, 3, 4], "band": [5, 10, 10, 10]})
    wide = duckdb.from_arrow(log.to_arrow()).query(
        "log", "select * replace (band::hugeint as band, who::hugeint as who) from log"
    )
    call = CALL | {"unit": "who", "by": "band", "population": {5: 3, 10: 3}, "metrics": "gini"}
    assert eh.inequality(wide, **call).to_dict()["columns"] == eh.inequality(log, **call).to_dict()["columns"]


def test_hashes_in_text_are_ids_like_any_others(tmp_path):
    rows = [f"{2**63 + q},{2**64 - item},{item},{'xy'[item % 2]}" for q in range(3) for item in range(1, 5)]
    (tmp_path / "run.csv").write_text("\n".join(["request,item,rank,side", *rows]))
    found = eh.prefix(tmp_path / "run.csv", group="side", protected="x", metrics="ndd", interval=None)
    assert found.per_request["request"].to_list() == [str(2**63), str(2**63 + 1), str(2**63 + 2)]


@pytest.mark.parametrize("engine", ENGINES)
def test_days_are_slices_of_rankings(engine):
    run = pl.DataFrame({"request": [1, 1, 1, 1, 2, 2], "item": list("abcdab"), "rank": [1, 2, 3, 4, 1, 2]})
    run = run.with_columns(side=pl.col("item"), day=pl.lit("2020-07-01").str.to_datetime(time_unit="ms"))
    found = eh.exposure(ENGINES[engine](run), groups="side", by="day", metrics="awrf", interval=None)
    assert found.findings.columns["units"][0] == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_ranking_may_stand_apart(engine):
    run = pl.DataFrame({"request": [1, 2] * 4, "item": list("aabbccdd"), "rank": [4, 1, 3, 2, 2, 3, 1, 4]})
    run = run.with_columns(score=1 / pl.col("rank"), y=pl.col("rank") % 3, side=pl.col("item").is_in(["a", "c"]))
    asks = {
        "prefix": lambda t: eh.prefix(t, group="side", protected=True, interval=None, rng=1),
        "by score": lambda t: eh.prefix(t, group="side", rank=None, score="score", interval=None, rng=1),
        "pairwise": lambda t: eh.pairwise(t, groups="side", protected=True, relevance="y", interval=None),
        "exposure": lambda t: eh.exposure(t, groups="side", relevance="y", metrics=["awrf", "eel"], interval=None),
    }
    for audit in asks.values():
        found, expected = (audit(t).findings.columns["estimate"] for t in (ENGINES[engine](run), run.sort("request")))
        assert found == pytest.approx(expected, nan_ok=True)
