"""The inequality audit: same numbers on every engine, population and slices as the contract says."""

import itertools
import json
import math
from datetime import UTC, datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evenhand as eh
from evenhand import metrics as m
from evenhand.cli import main

ENGINES = {
    "pandas": lambda df: df.to_pandas(),
    "polars": lambda df: df,
    "polars-lazy": lambda df: df.lazy(),
    "pyarrow": lambda df: df.to_arrow(),
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}


def events(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "author": [f"a{i}" for i in rng.integers(0, 600, rows)],
            "source": rng.choice(["likes", "graph", "topics"], rows),
            "views": rng.poisson(2, rows),
            "watch": rng.lognormal(0, 1, rows),
        }
    )


def by_hand(df, by, population, function, amount="views"):
    found = {}
    for (label,), part in df.group_by(by):
        sums = part.group_by("author").agg(pl.col(amount).sum())[amount].to_numpy()
        found[label] = function(np.concatenate([sums, np.zeros(population - len(sums))]))
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_bytes_for_whole_numbers(engine):
    df = events()
    call = dict(unit="author", amount="views", population=700, by="source", rng=3, interval="bootstrap(99)")
    expected = eh.inequality(df, **call).to_text("csv")
    assert eh.inequality(ENGINES[engine](df), **call).to_text("csv") == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_and_row_order_agrees_to_nine_digits_for_floats(engine):
    df = events()
    call = dict(unit="author", amount="watch", population=700, by="source", rng=3, interval="bootstrap(99)")
    expected = pl.DataFrame(eh.inequality(df, **call).findings.columns)
    shuffled = df.sample(fraction=1.0, shuffle=True, seed=5)
    found = pl.DataFrame(eh.inequality(ENGINES[engine](shuffled), **call).findings.columns)
    for column in ("estimate", "low", "high"):
        np.testing.assert_allclose(found[column], expected[column], rtol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_frame_comes_back_in_the_callers_library(engine):
    df = events(200)
    frame = eh.inequality(ENGINES[engine](df), unit="author", amount="views", population=None, interval=None).frame
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "polars-lazy": pl.DataFrame}.get(engine, pa.Table)
    assert isinstance(frame, kind)


def test_slices_are_zero_filled_to_the_population():
    df = events()
    frame = eh.inequality(
        df, unit="author", amount="views", population=700, by="source", metrics=["gini", "mean"], interval=None
    ).frame
    for name, function in (("gini", m.gini), ("mean", m.mean)):
        found = dict(frame.filter(pl.col("metric") == name).select("source", "estimate").iter_rows())
        assert found == pytest.approx(by_hand(df, "source", 700, function))
    assert frame["units"].to_list() == [700] * len(frame)


def test_columns_come_in_the_public_order():
    df = events(100)
    frame = eh.inequality(
        df, unit="author", amount=["views", "watch"], by="source", population=None, interval=None
    ).frame
    assert frame.columns == [
        "source", "amount", "metric", "group", "estimate", "low", "high", "chance", "ideal", "better", "units",
        "undefined_draws", "note",
    ]  # fmt: skip


def test_several_amounts_give_a_slice_each_and_the_same_numbers_as_one_by_one():
    df = events(500)
    call = dict(unit="author", population=None, rng=1, interval="bootstrap(49)")
    both = eh.inequality(df, amount=["views", "watch"], **call).frame
    for name in ("views", "watch"):
        alone = eh.inequality(df, amount=name, **call).frame
        part = both.filter(pl.col("amount") == name).drop("amount")
        assert part.equals(alone)


def test_counting_rows_needs_no_amount():
    df = events(500)
    found = eh.inequality(df, unit="author", amount=None, population=None, metrics="gini", interval=None).frame[
        "estimate"
    ][0]
    assert found == pytest.approx(m.gini(df.group_by("author").len()["len"].to_numpy()))


def test_without_a_unit_every_row_is_one():
    found = eh.inequality(
        pl.DataFrame({"x": [0, 0, 0, 10]}), unit=None, amount="x", population=None, metrics="gini", interval=None
    )
    assert found.frame["estimate"][0] == 0.75


# --- population ---------------------------------------------------------------------------------------------------


def countries():
    return pl.DataFrame({"author": ["a", "b", "c", "d"], "country": ["x", "x", "y", "y"], "views": [1, 3, 5, 0]})


def test_one_size_for_all_slices_is_refused_where_the_slice_is_a_property_of_the_unit():
    with pytest.raises(eh.EvenhandError, match="never varies within a unit"):
        eh.inequality(countries(), unit="author", amount="views", population=100, by="country")


def test_a_table_without_the_slice_column_is_refused_in_the_same_place():
    with pytest.raises(eh.EvenhandError, match="never varies within a unit"):
        eh.inequality(countries(), unit="author", amount="views", population=countries().select("author"), by="country")


def test_one_of_several_slice_columns_that_never_varies_is_named():
    df = pl.DataFrame(
        {"author": [1, 1, 2, 2], "source": ["l", "g", "l", "g"], "country": ["x", "x", "y", "y"], "views": 1}
    )
    with pytest.raises(eh.EvenhandError, match="by='country' never varies"):
        eh.inequality(df, unit="author", amount="views", population=10, by=["source", "country"])


def test_sizes_per_slice_are_accepted_and_unseen_slices_appear_as_undefined():
    frame = eh.inequality(
        countries(), unit="author", amount="views", population={"x": 4, "y": 2, "z": 3}, by="country", metrics="gini",
        interval=None,
    ).frame  # fmt: skip
    assert dict(frame.select("country", "units").iter_rows()) == {"x": 4, "y": 2, "z": 3}
    assert frame["estimate"].to_list()[:2] == pytest.approx([m.gini([0, 0, 1, 3]), m.gini([0, 5])])
    assert math.isnan(frame["estimate"][2])
    assert frame["note"].to_list() == [None, None, "zero_total"]


def test_a_population_table_with_the_slice_column_gives_each_slice_its_own_units():
    authors = pl.DataFrame({"author": list("abcdefg"), "country": ["x", "x", "y", "y", "x", "y", "y"]})
    frame = eh.inequality(
        countries(), unit="author", amount="views", population=authors, by="country", metrics="gini", interval=None
    ).frame
    assert frame["units"].to_list() == [3, 4]
    assert frame["estimate"].to_list() == pytest.approx([m.gini([1, 3, 0]), m.gini([5, 0, 0, 0])])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_slice_column_may_live_in_the_population_table_only(engine):
    authors = pl.DataFrame({"author": list("abcdefg"), "country": ["x", "x", "y", "y", "x", "y", "y"]})
    log = countries().drop("country")
    for population in (authors, authors.to_pandas(), ENGINES[engine](authors)):
        frame = eh.inequality(
            ENGINES[engine](log), unit="author", amount="views", population=population, by="country", metrics="gini",
            interval=None,
        )  # fmt: skip
        assert frame.findings.columns["units"] == [3, 4]
        assert frame.findings.columns["estimate"] == pytest.approx([m.gini([1, 3, 0]), m.gini([5, 0, 0, 0])])


def test_units_outside_the_population_are_counted_and_refused():
    with pytest.raises(eh.EvenhandError, match="2 units received something but are not in population"):
        eh.inequality(
            countries(), unit="author", amount="views", population=pl.DataFrame({"author": ["a", "b"]}), interval=None
        )


def test_a_population_that_is_too_small_names_both_numbers():
    with pytest.raises(eh.EvenhandError, match=r"population=3 is smaller than the 4 units"):
        eh.inequality(countries(), unit="author", amount="views", population=3)


def test_population_has_no_default():
    with pytest.raises(TypeError, match="population"):
        eh.inequality(countries(), unit="author", amount="views")


# --- numbers that must not wrap, and values that must not be there -----------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [2**31 - 1, 2**53 + 1, 2**62])
def test_sums_never_wrap(engine, size):
    dtype = pl.Int32 if size < 2**31 else pl.Int64
    df = pl.DataFrame({"u": ["a", "a", "a", "b"], "x": pl.Series([size, size, size, size], dtype=dtype)})
    frame = eh.inequality(
        ENGINES[engine](df), unit="u", amount="x", population=None, metrics=["gini", "mean"], interval=None
    )
    estimates = frame.findings.columns["estimate"]
    assert estimates == pytest.approx([0.25, 2 * size], rel=1e-11)  # beyond 2^63 the sums are floats, kept to 12 digits


def test_unsigned_64_bit_amounts_are_read_as_they_are():
    df = pl.DataFrame({"u": ["a", "b"], "x": pl.Series([2**63 + 4096, 0], dtype=pl.UInt64)})
    found = eh.inequality(df, unit="u", amount="x", population=None, metrics="mean", interval=None)
    assert found.frame["estimate"][0] == pytest.approx(2**62 + 2048)


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_amounts_raise_are_omitted_or_spoil_their_slice(engine):
    df = pl.DataFrame({"u": ["a", "b", "c", "d"], "s": ["x", "x", "y", "y"], "v": [1.0, None, 2.0, 6.0]})
    table = ENGINES[engine](df)
    call = dict(unit="u", amount="v", by="s", population=None, metrics="gini", interval=None)
    with pytest.raises(eh.EvenhandError, match=r"missing \(null or NaN\) in 1 of 4 rows"):
        eh.inequality(table, **call)
    omitted = eh.inequality(table, nan_policy="omit", **call)
    assert omitted.findings.columns["estimate"] == pytest.approx([0.0, 0.25])
    assert omitted.provenance["dropped"] == {"v is missing": 1}
    spoiled = eh.inequality(table, nan_policy="propagate", **call)
    assert math.isnan(spoiled.findings.columns["estimate"][0])
    assert spoiled.findings.columns["note"][0] == "nan_in_data"
    assert spoiled.findings.columns["estimate"][1] == pytest.approx(0.25)


def test_all_problems_of_a_table_come_at_once():
    df = pl.DataFrame({"u": ["a", None], "x": [-1.0, float("inf")], "y": [None, 2.0]})
    with pytest.raises(eh.EvenhandError) as caught:
        eh.inequality(df, unit="u", amount=["x", "y"], population=None)
    for part in ("'x' is negative in 1", "'x' is infinite", "'y' is missing", "unit='u' is missing in 1"):
        assert part in str(caught.value)


def test_a_missing_slice_label_is_a_slice_of_its_own():
    df = pl.DataFrame({"u": ["a", "b", "c"], "s": ["x", None, None], "v": [1, 2, 4]})
    frame = eh.inequality(df, unit="u", amount="v", by="s", population=None, metrics="mean", interval=None).frame
    assert frame.select("s", "estimate").rows() == [("x", 1.0), (None, 3.0)]


def test_weights_equal_replication():
    df = pl.DataFrame({"u": ["a", "b"], "v": [1, 3], "w": [2.0, 2.0]})
    found = eh.inequality(df, unit="u", amount="v", weight="w", population=None, metrics="gini", interval=None)
    assert found.frame["estimate"][0] == pytest.approx(0.25)


def test_a_weight_that_changes_within_a_unit_is_refused():
    df = pl.DataFrame({"u": ["a", "a"], "v": [1, 3], "w": [2.0, 1.0]})
    with pytest.raises(eh.EvenhandError, match="differs between rows of the same unit"):
        eh.inequality(df, unit="u", amount="v", weight="w", population=None)


# --- uncertainty --------------------------------------------------------------------------------------------------


def test_one_more_slice_or_metric_changes_no_other_number():
    df = events(1500)
    call = dict(unit="author", amount="views", population=700, by="source", rng=11, interval="bootstrap(99)")
    whole = eh.inequality(df, metrics=["gini", "top_share(p=0.1)", "hoover"], **call).frame
    one_metric = eh.inequality(df, metrics=["gini"], **call).frame
    assert whole.filter(pl.col("metric") == "gini").equals(one_metric)
    two_slices = eh.inequality(df.filter(pl.col("source") != "likes"), metrics=["gini"], **call).frame
    assert one_metric.filter(pl.col("source") != "likes").equals(two_slices)


def test_a_seed_is_drawn_and_recorded_when_none_is_given():
    df = events(300)
    first = eh.inequality(df, unit="author", amount="views", population=None, interval="bootstrap(49)")
    again = eh.inequality(
        df, unit="author", amount="views", population=None, interval="bootstrap(49)", rng=first.provenance["seed"]
    )
    assert again.frame.equals(first.frame)


@pytest.mark.parametrize("interval", ["bootstrap(199)", "percentile(199)", "normal"])
def test_intervals_hold_the_estimate_and_stay_in_the_span(interval):
    frame = eh.inequality(events(3000), unit="author", amount="watch", population=None, interval=interval, rng=1).frame
    assert (frame["low"] <= frame["estimate"]).all()
    assert (frame["estimate"] <= frame["high"]).all()
    assert ((frame["low"] >= 0) & (frame["high"] <= 1)).all()


def test_many_amounts_are_drawn_in_bins_and_the_estimate_stays_exact():
    x = np.random.default_rng(1).lognormal(0, 1, 3_000)
    result = eh.inequality(
        pl.DataFrame({"x": x}), unit=None, amount="x", population=None, metrics="gini", interval="bootstrap(49)"
    )
    assert result.frame["estimate"][0] == pytest.approx(m.gini(x), rel=1e-10)
    assert "over 512 different amounts run on bins" in result.provenance["interval"]


def test_undefined_draws_are_counted():
    df = pl.DataFrame({"x": [0] * 30 + [5]})
    frame = eh.inequality(
        df, unit=None, amount="x", population=None, metrics="gini", interval="percentile(400)", rng=1
    ).frame
    assert 50 < frame["undefined_draws"][0] < 250  # (30/31)^31 is 0.36


def test_heavy_tails_are_noted_and_light_ones_are_not():
    rng = np.random.default_rng(0)
    for x, expected in ((rng.pareto(1.2, 2000), "heavy_tail"), (rng.lognormal(0, 0.3, 2000), None)):
        frame = eh.inequality(
            pl.DataFrame({"x": x}), unit=None, amount="x", population=None, metrics="gini", interval="normal"
        ).frame
        assert frame["note"][0] == expected


def test_the_chance_level_of_a_sparse_gini_stands_beside_it():
    x = np.random.default_rng(0).poisson(0.1, 20_000)
    frame = eh.inequality(
        pl.DataFrame({"x": x}), unit=None, amount="x", population=20_000, metrics="gini", interval=None, chance="events"
    ).frame
    assert frame["chance"][0] == pytest.approx(0.909, abs=0.01)
    assert frame["estimate"][0] == pytest.approx(frame["chance"][0], abs=0.01)


def gini_by_chance(table, population=40, **call):
    asked = {"unit": "seller", "population": population, "metrics": "gini", "interval": None} | call
    return eh.inequality(table, **asked).frame["chance"][0]


def test_chance_is_the_mean_of_events_or_rows_dealt_to_the_population():
    rng = np.random.default_rng(8)
    seller, price = rng.integers(40, size=300), rng.integers(100, 5_001, size=300)
    purchases = pl.DataFrame({"seller": seller, "cents": price, "euros": price / 100})

    def simulated(amounts, draws=3_000):
        totals = np.stack([np.bincount(rng.integers(40, size=300), amounts, 40) for _ in range(draws)])
        ginis = np.sort(totals, axis=1) @ (2 * np.arange(40) - 39.0) / (40 * totals.sum(1))
        return ginis.mean(), 2 * ginis.std() / math.sqrt(draws)

    for level, amounts in (
        (gini_by_chance(purchases, amount=None), np.ones(300)),
        (gini_by_chance(purchases, amount="cents", chance="rows"), price),
    ):
        mean, error = simulated(amounts)
        assert level == pytest.approx(mean, abs=error + 3e-4)
    assert gini_by_chance(purchases, amount="euros", chance="rows") == pytest.approx(
        gini_by_chance(purchases, amount="cents", chance="rows"), rel=1e-9
    )
    assert gini_by_chance(purchases, amount="cents", chance="events") < 0.02


def test_chance_of_few_events_is_exact():
    twelve = pl.DataFrame({"seller": np.arange(30) % 7})
    assert gini_by_chance(twelve, amount=None, population=12) == pytest.approx(0.3200, abs=5e-5)


def test_a_null_that_the_data_cannot_tell_is_not_guessed():
    log = pl.DataFrame({"seller": [1, 1, 2], "views": [3, 4, 5]})
    assert math.isnan(gini_by_chance(log, amount="views"))
    assert math.isnan(gini_by_chance(log, amount=None, population=None))
    assert math.isnan(gini_by_chance(log, amount="views", population=None, chance="events"))
    assert math.isnan(gini_by_chance(log, amount=None, chance=None))
    with pytest.raises(eh.EvenhandError, match="whole amounts"):
        gini_by_chance(log.with_columns(pl.col("views") / 2), amount="views", chance="events")


def test_amounts_that_are_all_equal_have_no_heavy_tail():
    for x in (np.full(200, 0.1), np.r_[np.zeros(190), np.full(10, 0.3)]):
        frame = eh.inequality(pl.DataFrame({"x": x}), unit=None, amount="x", population=None, rng=1).frame
        assert "heavy_tail" not in " ".join(note or "" for note in frame["note"])


# --- what comes out -----------------------------------------------------------------------------------------------


def test_small_slices_are_suppressed_everywhere():
    df = pl.DataFrame({"u": list("abcdefgh"), "s": ["big"] * 6 + ["small"] * 2, "v": [1, 2, 3, 4, 5, 777, 31337, 1]})
    result = eh.inequality(
        df, unit="u", amount="v", by="s", population=None, min_units=5, rng=1, interval="bootstrap(49)"
    )
    small = result.frame.filter(pl.col("s") == "small")
    assert small["estimate"].is_nan().all()
    assert set(small["note"]) == {"suppressed"}
    assert "small" not in result.findings.curves["lorenz"]["s"]
    for text in (result.to_json(), repr(result), result._repr_html_(), " ".join(result.sentences())):
        assert "suppressed" in text or "fewer units than min_units" in text
    assert all(u is None or u >= 5 for u in result.findings.columns["units"])


def test_the_size_of_a_suppressed_slice_does_not_follow_from_the_number_of_rows():
    df = pl.DataFrame({"s": ["a"] * 2 + ["b"] * 6 + ["c"] * 9, "v": range(17)})
    call = dict(amount="v", by="s", population=None, min_units=5, metrics="gini", interval=None)
    result = eh.inequality(df, unit=None, **call)
    for found in (result, eh.inequality(df.with_row_index("u"), unit="u", **call)):
        assert found.findings.columns["units"] == [None, 6, 8]  # 9 to a step of 2, which is above 9/6
        assert set(found.findings.curves["lorenz"]["s"]) == {"b", "c"}
        assert found.provenance["rows"] is None
        assert "dropped" not in found.provenance


def test_whole_labels_with_gaps_are_the_same_slices_on_every_engine():
    t = {"u": list("abcdefgh"), "s": [1, 1, 1, 2, 2, 2, None, None], "v": [1, 5, 2, 9, 3, 4, 4, 1]}
    call = dict(unit="u", amount="v", by="s", population=None, metrics="gini", rng=1, interval="bootstrap(49)")
    pandas, polars = (eh.inequality(make(t), **call) for make in (pd.DataFrame, pl.DataFrame))
    assert pandas.to_text("csv") == polars.to_text("csv")
    assert pandas.sentences() == polars.sentences()
    call = dict(unit="u", amount="v", population=None, rng=1, interval="bootstrap(49)")
    for audit, role in ((eh.sources, "source"), (eh.decompose, "group")):
        pandas, polars = (audit(make(t), **{**call, role: "s"}) for make in (pd.DataFrame, pl.DataFrame))
        assert pandas.to_text("csv") == polars.to_text("csv")
        assert {"1", "2"} <= set(pandas.findings.columns["group"])


def test_sizes_of_numbered_slices_may_be_typed_on_the_command_line(tmp_path, capsys):
    df = pl.DataFrame({"u": list("abcd"), "s": [1, 1, 2, 2], "v": [1, 5, 2, 9]})
    df.write_parquet(tmp_path / "log.parquet")
    words = ["--unit=u", "--amount=v", "--by=s", "--population=1=4,2=8,3=5", "--interval=none", "--format=csv"]
    assert main(["inequality", str(tmp_path / "log.parquet"), *words, "-m", "gini"]) == 0
    call = dict(unit="u", amount="v", by="s", population={1: 4, 2: 8, 3: 5}, metrics="gini", interval=None)
    assert capsys.readouterr().out == eh.inequality(df, **call).to_text("csv")


def test_moments_named_in_another_time_zone_draw_the_same_stream():
    days = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)] * 3
    df = pl.DataFrame({"u": list("abcdef"), "s": days, "v": [1, 5, 2, 9, 3, 4]})
    other = df.with_columns(pl.col("s").dt.convert_time_zone("Asia/Tokyo"))
    call = dict(unit="u", amount="v", by="s", population=None, metrics="gini", rng=1, interval="bootstrap(49)")
    one, two = (eh.inequality(x, **call).findings.columns for x in (df, other))
    assert (one["low"], one["high"]) == (two["low"], two["high"])


def test_json_reads_back_as_the_same_result(tmp_path):
    df = pl.DataFrame({"u": list("abcd"), "s": ["x", "x", "y", "y"], "v": [1, 2, 0, 0]})
    result = eh.inequality(
        df,
        unit="u",
        amount="v",
        by="s",
        population=None,
        rng=1,
        metrics=["gini", "generalized_entropy(alpha=0)"],
        interval=None,
    )
    result.to_json(tmp_path / "r.json")
    again = eh.read.result(tmp_path / "r.json")
    assert again.frame.equals(result.frame)
    assert again.to_json() == result.to_json()
    json.loads(result.to_json(), parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))


def test_sentences_can_be_quoted():
    df = pl.DataFrame({"author_id": list("abcdefghij"), "impressions": [0, 0, 0, 0, 0, 0, 0, 0, 0, 5]})
    said = eh.inequality(
        df,
        unit="author_id",
        amount="impressions",
        population=None,
        metrics=["top_share(p=0.1)", "share_ratio"],
        interval=None,
    ).sentences()
    assert said[0] == "The top 10% of authors get 100% of all impressions."
    assert "undefined: the quantity in the denominator is zero" in said[1]


def test_only_and_check():
    result = eh.inequality(events(500), unit="author", amount="views", population=None, rng=1, interval="bootstrap(49)")
    assert result.only("gini").frame["metric"].to_list() == ["gini"]
    with pytest.raises(eh.EvenhandError, match="Did you mean 'gini'"):
        result.only("ginni")
    assert result.check("gini <= 0.99", "top_share(p=0.1) < 90%").passed
    assert not result.check("gini <= 0.01").passed


def test_the_callers_table_is_not_touched():
    df = events(100).to_pandas()
    before = df.copy(deep=True)
    eh.inequality(df, unit="author", amount="views", population=None, interval=None)
    pd.testing.assert_frame_equal(df, before)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "csv.gz"])
def test_files_are_read_by_path_glob_and_list(tmp_path, suffix):
    import gzip

    df = events(300)
    for i, part in enumerate((df[:100], df[100:])):
        path = tmp_path / f"part{i}.{suffix}"
        if suffix == "parquet":
            part.write_parquet(path)
        elif suffix == "jsonl":
            part.write_ndjson(path)
        elif suffix == "csv":
            part.write_csv(path)
        else:
            path.write_bytes(gzip.compress(part.write_csv().encode()))
    call = dict(unit="author", amount="views", population=None, metrics="gini", interval=None)
    expected = eh.inequality(df, **call).frame
    assert eh.inequality(str(tmp_path / f"*.{suffix}"), **call).frame.equals(expected)
    assert eh.inequality([tmp_path / f"part{i}.{suffix}" for i in (0, 1)], **call).frame.equals(expected)


def test_many_slices_are_tallied_in_one_pass():
    rng = np.random.default_rng(0)
    df = pl.DataFrame(
        {"u": rng.integers(0, 500, 60_000), "s": rng.integers(0, 3000, 60_000), "v": rng.poisson(3, 60_000)}
    )
    frame = eh.inequality(
        df, unit="u", amount="v", by="s", population=500, metrics=["gini", "equal_share"], interval=None
    ).frame
    assert frame.height == 6000
    one = df.filter(pl.col("s") == 1234).group_by("u").agg(pl.col("v").sum())["v"].to_list()
    found = frame.filter((pl.col("s") == 1234) & (pl.col("metric") == "gini"))["estimate"][0]
    assert found == pytest.approx(m.gini(one + [0] * (500 - len(one))))


@pytest.mark.parametrize("engine", ENGINES)
def test_where_every_amount_is_left_out_nothing_is_defined(engine):
    nobody = ENGINES[engine](
        pl.DataFrame({"author": ["a", "b"], "views": [None, None]}, schema_overrides={"views": pl.Int64})
    )
    call = {"unit": "author", "amount": "views", "metrics": ["gini", "mean"], "nan_policy": "omit", "rng": 1}
    found = eh.inequality(nobody, population=None, **call).to_dict()["columns"]
    assert (found["estimate"], found["units"], found["note"]) == ([None] * 2, [0, 0], ["empty"] * 2)


@pytest.mark.parametrize(("rows", "units"), [(3, 5), (7, 3), (6, 3), (1, 1)])
def test_counts_of_rows_carry_the_least_and_the_most_that_their_number_allows(rows, units):
    spreads = {tuple(sorted(np.bincount(p, minlength=units))) for p in itertools.product(range(units), repeat=rows)}
    values = [float(eh.metrics.gini(np.array(s, dtype=float))) for s in spreads]
    log = pl.DataFrame({"author": [i % units for i in range(rows)]})
    found = eh.inequality(log, unit="author", population=units, metrics="gini", interval=None).frame
    assert found["least"][0] == pytest.approx(min(values), abs=1e-12)
    assert found["most"][0] == pytest.approx(max(values), abs=1e-12)


def test_sums_of_amounts_have_no_least_and_no_most():
    log = pl.DataFrame({"author": ["a", "b"], "views": [1, 4]})
    found = eh.inequality(log, unit="author", amount="views", population=None, metrics="gini", interval=None).frame
    assert not {"least", "most"} & set(found.columns)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("views", -1, "negative in 1 row"),
        ("views", None, r"missing \(null or NaN\) in 1 of 1,000 rows"),
        ("author", None, "missing in 1 row"),
    ],
)
def test_an_odd_row_is_found_in_whichever_part_of_a_file_it_stands(tmp_path, column, value, says):
    log = events(1000)
    for place in (0, 517, 999):
        odd = log.with_columns(pl.when(pl.int_range(pl.len()) == place).then(value).otherwise(column).alias(column))
        odd.write_parquet(tmp_path / "log.parquet", row_group_size=100)
        for table in (odd, odd.lazy(), tmp_path / "log.parquet"):
            with pytest.raises(eh.EvenhandError, match=says):
                eh.inequality(table, unit="author", amount="views", population=None, interval=None)


def test_sums_that_could_wrap_are_found_by_what_a_file_says_of_its_largest(tmp_path):
    log = pl.DataFrame({"unit": [0, 0, 1, 2], "n": [2**62, 2**62, 2**62, 1]})
    log.write_parquet(tmp_path / "log.parquet", row_group_size=1)
    for table in (log, tmp_path / "log.parquet"):
        found = eh.inequality(table, unit="unit", amount="n", population=None, interval=None, metrics="mean").frame
        assert found["estimate"][0] == pytest.approx(2**62)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, None])
def test_an_odd_float_is_found_whatever_a_file_says_of_its_ends(tmp_path, value):
    log = pl.DataFrame({"u": range(1000), "v": np.random.default_rng(1).random(1000)})
    call = {"unit": "u", "amount": "v", "population": None, "metrics": "gini", "interval": None}
    for place in (0, 517, 999):
        odd = log.with_columns(v=pl.when(pl.int_range(pl.len()) == place).then(value).otherwise("v"))
        odd.write_parquet(tmp_path / "log.parquet", row_group_size=100)
        for table in (odd, tmp_path / "log.parquet"):
            with pytest.raises(eh.EvenhandError, match=r"missing|negative|infinite"):
                eh.inequality(table, **call)
            if value is None or np.isnan(value):
                left = eh.inequality(table, **call, nan_policy="omit").frame
                kept = odd.filter(pl.col("v").is_not_null() & pl.col("v").is_not_nan())
                assert left["estimate"].equals(eh.inequality(kept, **call).frame["estimate"])


def test_more_amount_columns_than_a_query_each_allows_are_refused_with_a_remedy():
    names = [f"a{i}" for i in range(301)]
    table = pl.DataFrame({"u": [1, 2, 3], **{name: [1, 2, 3] for name in names}})
    with pytest.raises(eh.EvenhandError, match=r"301 columns, more than 300\. Reshape the table to one row per unit"):
        eh.inequality(table, unit="u", amount=names, population=None, metrics="gini", rng=1)


@pytest.mark.parametrize(
    ("units", "tops"), [(49, ()), (60, (0.1,)), (100, (0.05, 0.1)), (499, (0.05, 0.1)), (500, (0.01, 0.1))]
)
def test_default_top_shares_have_five_units_in_the_largest_slice_and_the_plan_says_so(units, tops):
    x = np.random.default_rng(3).gamma(1, 1, units)
    table = pl.DataFrame({"author": range(units), "views": x, "market": ["a"] * (units - 20) + ["b"] * 20})
    call = {"unit": "author", "amount": "views", "population": None, "rng": 1}
    result = eh.inequality(table, **call)
    metrics = ["gini", "atkinson(epsilon=0.5)", *(f"top_share(p={p})" for p in tops), "equal_share"]
    assert result.frame["metric"].to_list() == metrics
    plan = result.provenance["plan"]
    assert plan.get("metrics") == (None if units == 500 else metrics)
    assert ("metrics" in result.provenance) == (units < 500)
    assert result.headline.startswith(
        f"The top {tops[0]:.0%}" if tops else "The Gini index of views over authors is 0."
    )
    asked = eh.inequality(table, **call, metrics=["top_share(p=0.01)", "gini"], interval=None)
    assert asked.frame["metric"].to_list() == ["top_share(p=0.01)", "gini"]
    assert ("top 1%" in asked.headline) == (units == 500)
    by = eh.inequality(table, **call, by="market")
    assert "b" not in by.headline.split() or not tops
