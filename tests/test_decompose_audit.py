"""The decompose audit: within groups or between them, from any table."""

import math

import duckdb
import numpy as np
import polars as pl
import pytest

import evenhand as eh
import evenhand.intervals.parts
from evenhand import metrics as m
from golden_cases import cases

ENGINES = {
    "pandas": lambda df: df.to_pandas(),
    "polars": lambda df: df,
    "polars-lazy": lambda df: df.lazy(),
    "pyarrow": lambda df: df.to_arrow(),
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}
CALL = dict(unit="author", amount="views", group="band")
INDICES = {
    "gini": ("gini", {}),
    "theil": ("theil", {}),
    "ge(alpha=2)": ("ge", {"alpha": 2}),
    "ge(alpha=0.5)": ("ge", {"alpha": 0.5}),
    "atkinson(epsilon=0.5)": ("atkinson", {"epsilon": 0.5}),
    "atkinson(1)": ("atkinson", {"epsilon": 1}),
}


def people(n=240, seed=1):
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"author": [f"a{i}" for i in range(n)], "band": rng.choice(["big", "mid", "small"], n)})


def events(rows=2500, seed=0):
    rng = np.random.default_rng(seed)
    who = people().sample(rows, with_replacement=True, seed=seed)
    pull = who["band"].replace_strict({"big": 9, "mid": 3, "small": 1}, return_dtype=pl.Int64).to_numpy()
    return who.with_columns(
        views=pl.Series(rng.poisson(pull)), watch=pl.Series(rng.lognormal(np.log(pull), 1)),
        day=pl.Series(rng.choice(["mon", "tue"], rows)),
    )  # fmt: skip


def held(result, x, groups, index, params, where=None):
    wanted = m.decompose(x, groups, index=index, **params)
    frame = result.frame if where is None else result.frame.filter(where)
    found = {(metric, group): value for metric, group, value in frame.select("metric", "group", "estimate").iter_rows()}
    for name in ("total", "within", "between", *(("overlap",) if index == "gini" else ())):
        assert found[name, None] == pytest.approx(getattr(wanted, name), abs=1e-9, nan_ok=True)
    assert ("overlap", None) in found or index != "gini"
    for label, part in wanted.groups.items():
        for name in ("index", "share", "population_share"):
            assert found[name, label] == pytest.approx(getattr(part, name), abs=1e-9, nan_ok=True)


@cases(["gini_decomposition", "ge_decomposition", "atkinson_decomposition"])
def test_cases_through_the_audit(case):
    args = case["args"]
    df = pl.DataFrame({"author": range(len(args["x"])), "band": args["groups"], "views": args["x"]})
    index = {"gini_decomposition": "gini", "ge_decomposition": "ge", "atkinson_decomposition": "atkinson"}[case["fn"]]
    params = {name: float(args[key]) for key, name in (("alpha", "alpha"), ("eps", "epsilon")) if key in args}
    frame = eh.decompose(df, **CALL, population=None, index=index, interval=None, **params).frame
    found = dict(frame.filter(pl.col("group").is_null()).select("metric", "estimate").iter_rows())
    for name, value in case["expect"].items():
        assert found[name] == pytest.approx(value, abs=case["tol"])


@pytest.mark.parametrize("text", INDICES)
@pytest.mark.parametrize("amount", ["views", "watch"])
def test_equals_the_plain_function_on_everyone(text, amount):
    df, everyone = events(), people()
    index, params = INDICES[text]
    call = CALL | {"amount": amount, "index": text, "population": everyone, "interval": None}
    sums = everyone.join(df.group_by("author").agg(pl.col(amount).sum()), on="author", how="left").fill_null(0)
    held(eh.decompose(df, **call), sums[amount].to_numpy(), sums["band"].to_list(), index, params)
    # The group may live in the population alone.
    held(eh.decompose(df.drop("band"), **call), sums[amount].to_numpy(), sums["band"].to_list(), index, params)


def test_sizes_per_group_fill_with_zeros():
    df = pl.DataFrame({"author": list("abc"), "band": list("xxy"), "views": [1, 2, 3]})
    result = eh.decompose(df, **CALL, population={"x": 4, "y": 1, "z": 2}, interval=None)
    held(result, [1, 2, 0, 0, 3, 0, 0], list("xxxxyzz"), "gini", {})


def test_every_row_can_be_a_unit():
    df = pl.DataFrame({"band": list("aabb"), "views": [1, 1, 3, 3]})
    held(
        eh.decompose(df, **(CALL | {"unit": None}), population=None, interval=None),
        [1, 1, 3, 3],
        list("aabb"),
        "gini",
        {},
    )


def test_weights_count_units_several_times():
    df = pl.DataFrame({"author": list("abcd"), "band": list("xxyy"), "views": [1, 4, 2, 7], "w": [1, 2, 3, 1]})
    result = eh.decompose(df, **CALL, population=None, weight="w", interval=None)
    held(result, np.repeat([1, 4, 2, 7], [1, 2, 3, 1]), np.repeat(list("xxyy"), [1, 2, 3, 1]), "gini", {})


def test_a_unit_may_change_group_from_slice_to_slice():
    df = pl.DataFrame({"author": list("aabb"), "band": list("xyyx"), "views": [1, 2, 3, 4], "day": list("mnmn")})
    result = eh.decompose(df, **CALL, population=None, by="day", interval=None)
    held(result, [1, 3], list("xy"), "gini", {}, pl.col("day") == "m")
    held(result, [2, 4], list("yx"), "gini", {}, pl.col("day") == "n")


def test_groups_can_be_bins():
    df = pl.DataFrame({"author": list("abcd"), "followers": [1, 2, 30, 40], "views": [1, 1, 3, 3]})
    result = eh.decompose(df, **(CALL | {"group": eh.quantile_bins("followers", 2)}), population=None, interval=None)
    held(result, [1, 1, 3, 3], ["[1, 2]", "[1, 2]", "(2, 40]", "(2, 40]"], "gini", {})


def test_a_table_column_may_be_called_group():
    df = pl.DataFrame({"author": list("abcd"), "group": list("xxyy"), "views": [1, 1, 3, 3]})
    result = eh.decompose(df, **(CALL | {"group": "group"}), population=None, interval=None)
    held(result, [1, 1, 3, 3], list("xxyy"), "gini", {})


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_bytes_for_whole_numbers(engine):
    df, everyone = events(), people()
    call = CALL | {"by": "day", "rng": 3, "interval": "bootstrap(49)"}
    wanted = eh.decompose(df, **call, population=everyone).to_text("csv")
    shuffled = df.sample(fraction=1.0, shuffle=True, seed=5)
    found = eh.decompose(ENGINES[engine](shuffled), **call, population=ENGINES[engine](everyone))
    assert found.to_text("csv") == wanted


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_agrees_to_nine_digits_for_floats(engine):
    df = events()
    call = CALL | {"amount": "watch", "population": None, "rng": 3, "interval": "bootstrap(49)"}
    wanted = eh.decompose(df, **call).findings.columns
    found = eh.decompose(ENGINES[engine](df.sample(fraction=1.0, shuffle=True, seed=5)), **call).findings.columns
    for column in ("estimate", "low", "high"):
        np.testing.assert_allclose(found[column], wanted[column], rtol=1e-9, atol=1e-12)


def test_the_total_row_is_that_of_the_inequality_audit():
    df, call = (
        events(),
        {"unit": "author", "amount": "views", "population": people(), "rng": 5, "interval": "bootstrap(99)"},
    )
    here = eh.decompose(df, **call, group="band").only("total").findings.columns
    there = eh.inequality(df, **call, metrics="gini").findings.columns
    for column in ("estimate", "low", "high"):
        assert here[column] == pytest.approx(there[column], rel=1e-13)


@pytest.mark.parametrize("text", INDICES)
def test_the_normal_interval_is_about_as_wide_as_the_bootstrap(text):
    df = events().with_columns(views=pl.col("views") + 1)
    call = CALL | {"index": text, "population": None}
    drawn = eh.decompose(df, **call, rng=1, interval="percentile(999)").findings.columns
    normal = eh.decompose(df, **call, interval="normal").findings.columns
    width = lambda c: np.array(c["high"]) - np.array(c["low"])  # noqa: E731
    np.testing.assert_allclose(width(normal), width(drawn), rtol=0.2)


def test_intervals_hold_their_estimate_and_the_seed_decides_them():
    call = CALL | {"population": people(), "interval": "percentile(199)"}
    first, again, other = (eh.decompose(events(), **call, rng=s).findings.columns for s in (1, 1, 2))
    assert str(first) == str(again)
    assert first["low"] != other["low"]
    for low, estimate, high in zip(first["low"], first["estimate"], first["high"], strict=True):
        assert low < estimate < high


def test_wide_tallies_are_drawn_on_bins(monkeypatch):
    from evenhand.audits import decompose as audit

    df = events()
    call = CALL | {"amount": "watch", "population": None, "rng": 1, "interval": "percentile(999)"}
    exact = eh.decompose(df, **call).findings.columns
    monkeypatch.setattr(audit, "BINNED", 10)
    binned = eh.decompose(df, **call).findings.columns
    assert binned["estimate"] == exact["estimate"]
    np.testing.assert_allclose(binned["low"], exact["low"], rtol=0.1)


def test_undefined_figures_say_why():
    df = pl.DataFrame({"author": list("abcd"), "band": list("xxyy"), "views": [0, 0, 2, 5]})
    frame = eh.decompose(df, **CALL, population=None, rng=1, interval="percentile(20)").frame
    note = {(metric, group): note for metric, group, note in frame.select("metric", "group", "note").iter_rows()}
    assert note["index", "x"] == "zero_total"
    zeros = df.with_columns(views=pl.Series([0, 1, 0, 3]))
    found = (
        eh.decompose(zeros, **CALL, population=None, index="atkinson(epsilon=1)", interval=None).only("between").frame
    )
    assert math.isnan(found["estimate"][0])
    assert found["note"][0] == "zero_over_zero"
    nothing = eh.decompose(df.with_columns(views=0), **CALL, population=None, interval="percentile(20)").frame
    assert set(nothing.filter(pl.col("group").is_null())["note"]) == {"zero_total"}


def test_an_infinite_entropy_stays_infinite():
    df = pl.DataFrame({"author": list("abcd"), "band": list("xxyy"), "views": [0, 1, 2, 5]})
    frame = eh.decompose(df, **CALL, population=None, index="ge", alpha=0.0, rng=1, interval="percentile(20)").frame
    found = dict(frame.filter(pl.col("group").is_null()).select("metric", "estimate").iter_rows())
    assert found["total"] == found["within"] == math.inf
    assert math.isfinite(found["between"])


def test_missing_groups_are_one_group():
    df = pl.DataFrame({"author": list("abc"), "band": ["x", None, None], "views": [1, 2, 3]})
    frame = eh.decompose(df, **CALL, population=None, interval=None).only("population_share").frame
    assert dict(frame.select("group", "estimate").iter_rows()) == {
        "(missing)": pytest.approx(2 / 3),
        "x": pytest.approx(1 / 3),
    }


def test_missing_amounts_hurt_their_slice_only():
    df = pl.DataFrame(
        {"author": list("abcd"), "band": list("xyxy"), "views": [None, 2.0, 3.0, 4.0], "day": list("mmnn")}
    )
    frame = eh.decompose(df, **CALL, population=None, by="day", nan_policy="propagate", interval=None).frame
    assert set(frame.filter(pl.col("day") == "m")["note"]) == {"nan_in_data"}
    assert not frame.filter((pl.col("day") == "n") & (pl.col("metric") == "total"))["estimate"].is_nan().any()


def test_small_groups_are_suppressed():
    df = pl.DataFrame({"author": list("abcde"), "band": list("xzyyy"), "views": [1, 2, 3, 4, 5]})
    frame = eh.decompose(df, **CALL, population=None, min_units=2, interval=None).frame
    few = pl.col("group").is_in(["x", "z"])
    assert set(frame.filter(few)["note"]) == {"suppressed"}
    assert frame.filter(few)["estimate"].is_nan().all()
    assert not frame.filter(pl.col("group") == "y")["estimate"].is_nan().any()


@pytest.mark.parametrize("day", [None, "day"])
def test_the_size_of_a_suppressed_group_does_not_follow_by_subtraction(day):
    df = pl.DataFrame(
        {"author": range(40), "band": ["x"] * 3 + ["y"] * 12 + ["z"] * 25, "views": range(40), "day": ["m"] * 40}
    )
    sizes = {"x": 3, "y": 12, "z": 30} if day is None else {("m", "x"): 3, ("m", "y"): 12, ("m", "z"): 30}
    result = eh.decompose(df, **CALL, population=sizes, by=day, min_units=5, interval=None)
    shown = {r["group"]: r["units"] for r in result.findings.rows() if r["metric"] in ("total", "share")}
    assert shown == {None: 45, "x": None, "y": None, "z": 30, "(small groups)": 15}
    assert sum(not math.isnan(r["estimate"]) for r in result.findings.rows() if r["metric"] == "population_share") == 2
    assert set(result.provenance["plan"]["population"].values()) == {"suppressed"}
    unaffected = eh.decompose(df, **CALL, population=sizes, by=day, min_units=2, interval=None)  # one of x got nothing
    assert "suppressed" not in unaffected.findings.columns["note"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"group": "bnad"}, "group='bnad' is not a column of the table. Did you mean 'band'"),
        ({"group": None}, "group=None is not a column name"),
        ({"group": 3}, "group=3 is not a column name"),
        ({"group": "author"}, "group='author' is also named as unit"),
        ({"by": "band"}, "group='band' is also named as by"),
        ({"group": "day"}, "group='day' differs between rows of the same unit"),
        ({"population": 999}, "population=999 does not say which group"),
        ({"population": people().drop("band")}, "does not say which group"),
        ({"population": people()[:5]}, "not in population"),
        ({"index": "hoover"}, "index='hoover'"),
        ({"index": "gini(alpha=2)"}, "no parameter 'alpha'"),
        ({"index": "ge(1, 2)"}, "too many values"),
        ({"index": 3}, "index=3 does not fit"),
        ({"index": "atkinson", "epsilon": -1.0}, "outside"),
        ({"metrics": "overlp"}, "Did you mean 'overlap'"),
        ({"metrics": "overlap", "index": "theil"}, "metrics='overlap'"),
        ({"metrics": ["total", "total"]}, "twice"),
        ({"metrics": "total@3"}, "metrics='total@3' is not a figure"),
        ({"metrics": 3}, "metrics=3 does not fit"),
        ({"index": "gini@3"}, "index='gini@3' cannot be read"),
        ({"amount": ["views"]}, "is not a column name"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    with pytest.raises(eh.EvenhandError, match=said.replace("(", r"\(")):
        eh.decompose(events(), **(CALL | {"population": None} | change))


def test_where_every_amount_is_left_out_there_is_nothing_to_split():
    table = pl.DataFrame({"author": [0, 1], "band": ["a", "a"], "views": [float("nan")] * 2})
    call = {"unit": "author", "amount": "views", "group": "band", "population": None, "nan_policy": "omit", "rng": 1}
    found = eh.decompose(table, **call).frame
    assert found["metric"].to_list() == ["total", "within", "between", "overlap"]
    assert set(found["note"]) == {"empty"}


def test_groups_beyond_what_memory_holds_are_refused_only_with_intervals():
    n = 40_000
    table = pl.DataFrame({"u": range(n), "g": [i // 2 for i in range(n)], "a": [float(i) for i in range(n)]})
    call = {"unit": "u", "amount": "a", "group": "g", "population": None, "rng": 1}
    with pytest.raises(eh.EvenhandError, match="20,000 groups over 40,000 amounts"):
        eh.decompose(table, **call)
    assert len(eh.decompose(table, **call, interval=None).only("share").findings) == n // 2


@pytest.mark.parametrize("groups", [2, 5])
def test_the_gini_between_groups_that_are_alike_holds_zero_and_overlap_what_noise_took_from_it(groups):
    rng = np.random.default_rng(12)
    held, overlaps = [], []
    for seed in range(40):
        table = pl.DataFrame({"u": range(60), "n": rng.lognormal(0, 1, 60), "g": rng.integers(0, groups, 60)})
        call = {"unit": "u", "amount": "n", "group": "g", "population": None, "interval": "bootstrap(199)", "rng": seed}
        found = {r["metric"]: r for r in eh.decompose(table, metrics=["between", "overlap"], **call).findings.rows()}
        held.append(found["between"]["low"] <= 0)
        assert held[-1] == (found["between"]["p"] > 0.05) or abs(found["between"]["p"] - 0.05) < 0.002
        overlap = math.erf(0.5) * (1 - 1 / groups)
        overlaps.append(found["overlap"]["low"] <= overlap <= found["overlap"]["high"])
    assert min(np.mean(held), np.mean(overlaps)) > 0.88  # two Monte Carlo errors below 0.95


def test_groups_that_differ_by_far_keep_a_gini_between_them_above_zero():
    rng = np.random.default_rng(3)
    g = np.repeat([0, 1], 40)
    table = pl.DataFrame({"u": range(80), "n": rng.lognormal(2.0 * g, 0.5), "g": g})
    call = {"unit": "u", "amount": "n", "group": "g", "population": None, "rng": 1}
    (between,) = eh.decompose(table, metrics="between", **call).findings.rows()
    assert 0.8 * between["estimate"] < between["low"] < between["estimate"]


def test_groups_too_many_to_be_permuted_have_neither_chance_nor_p_and_say_so(monkeypatch):
    monkeypatch.setattr(evenhand.intervals.parts, "WIDE", 1)
    table = pl.DataFrame({"u": range(40), "g": [i % 3 for i in range(40)], "n": [1.5**i for i in range(40)]})
    r = eh.decompose(table, unit="u", amount="n", group="g", population=None, interval="bootstrap(99)", rng=1)
    (between,) = r.frame.filter(pl.col("metric") == "between").to_dicts()
    assert math.isnan(between["p"])
    assert math.isnan(between["chance"])
    assert "no_permutation" in between["note"]
    assert "too many to be permuted" in " ".join(r.sentences())
