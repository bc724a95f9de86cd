"""Slices by size: bins of a number that belongs to the unit."""

import duckdb
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand import metrics as m
from evenhand.sources.relation import slicing

ENGINES = {
    "pandas": lambda df: df.to_pandas(),
    "polars": lambda df: df,
    "polars-lazy": lambda df: df.lazy(),
    "pyarrow": lambda df: df.to_arrow(),
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}
CALL = dict(unit="author", amount="views", metrics=["mean", "gini"], interval=None)


def people(n=300, seed=1):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {"author": [f"a{i}" for i in range(n)], "followers": np.floor(rng.pareto(1, n) * 20).astype(int)}
    )


def log_of(authors, rows=2000, seed=2):
    rng = np.random.default_rng(seed)
    who = authors.sample(rows, with_replacement=True, seed=seed)
    return who.with_columns(views=pl.Series(rng.poisson(3, rows)), source=pl.Series(rng.choice(["in", "out"], rows)))


def by_hand(authors, events, inner):
    """Bin every author with numpy, zero-fill, and measure each bin."""
    sums = authors.join(events.group_by("author").agg(pl.col("views").sum()), on="author", how="left").fill_null(0)
    place = np.searchsorted(inner, sums["followers"].to_numpy(), side="left")
    return [(m.mean(x), m.gini(x), len(x)) for x in (sums["views"].to_numpy()[place == k] for k in np.unique(place))]


def test_quantile_bins_hold_everyone_in_the_population():
    authors = people()
    events = log_of(authors).drop("followers")
    inner = np.unique(np.quantile(authors["followers"], np.arange(1, 5) / 5, method="inverted_cdf"))
    frame = eh.inequality(events, population=authors, by=eh.quantile_bins("followers", 5), **CALL).frame
    found = list(zip(frame["estimate"][::2], frame["estimate"][1::2], frame["units"][::2], strict=True))
    assert found == [pytest.approx(row) for row in by_hand(authors, events, inner)]
    assert frame.columns[:4] == ["followers", "followers_low", "followers_high", "metric"]
    assert frame["followers_low"].to_list()[::2] == [authors["followers"].min(), *inner]
    assert frame["followers_high"].to_list()[::2] == [*inner, authors["followers"].max()]


def test_log_bins_have_equal_ratios_and_a_bin_for_zero():
    authors = pl.DataFrame({"author": list("abcdef"), "followers": [0, 1, 10, 11, 100, 1000]})
    events = pl.DataFrame({"author": list("abcdef"), "views": [0, 1, 2, 3, 4, 5]})
    frame = eh.inequality(events, population=authors, by=eh.log_bins("followers", 3), **CALL).frame[::2]
    assert frame["followers"].to_list() == ["0", "[1, 10]", "(10, 100]", "(100, 1000]"]
    assert frame["followers_low"].to_list() == [0, 1, 10, 100]
    assert frame["followers_high"].to_list() == [0, 10, 100, 1000]
    assert frame["units"].to_list() == [1, 2, 2, 1]
    assert frame["estimate"].to_list() == [0, 1.5, 3.5, 5]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("spec", [eh.log_bins("followers", 6), eh.quantile_bins("followers", 6)], ids=str)
def test_every_engine_gives_the_same_bins(engine, spec):
    authors = people()
    events = log_of(authors)
    call = CALL | {"interval": "bootstrap(49)", "rng": 4}
    for population in (authors, None):
        wanted = eh.inequality(events, population=population, by=["source", spec], **call)
        handed = population if population is None else ENGINES[engine](population)
        found = eh.inequality(ENGINES[engine](events), population=handed, by=["source", spec], **call)
        assert found.to_text("csv") == wanted.to_text("csv")


def test_bins_without_a_population_count_units_not_rows():
    events = pl.DataFrame({"author": ["a"] * 8 + ["b", "c", "d"], "followers": [1] * 8 + [2, 3, 4], "views": [1] * 11})
    frame = eh.inequality(events, population=None, by=eh.quantile_bins("followers", 2), **CALL).frame[::2]
    assert frame["units"].to_list() == [2, 2]
    assert frame["followers_high"].to_list() == [2, 4]


def test_every_row_can_be_a_unit():
    events = pl.DataFrame({"followers": [1, 2, 3, 4], "views": [5, 6, 7, 8]})
    frame = eh.inequality(events, population=None, by=eh.quantile_bins("followers", 2), **(CALL | {"unit": None})).frame
    assert frame["units"].to_list() == [2, 2, 2, 2]


def test_a_bin_nobody_was_seen_in_stays_in_its_place():
    authors = pl.DataFrame({"author": list("abcd"), "followers": [1, 2, 3, 4]})
    events = pl.DataFrame({"author": ["a", "d"], "views": [3, 1]})
    frame = eh.inequality(events, population=authors, by=eh.quantile_bins("followers", 4), **CALL).frame[::2]
    assert frame["followers_high"].to_list() == [1, 2, 3, 4]
    assert frame["estimate"].to_list() == [3, 0, 0, 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_values_are_a_slice_of_their_own(engine):
    events = pl.DataFrame({"author": list("abc"), "followers": [1.0, None, float("nan")], "views": [1, 2, 3]})
    found = eh.inequality(ENGINES[engine](events), population=None, by=eh.log_bins("followers", 2), **CALL).findings
    assert found.columns["followers"][::2] == ["[1, 1]", None]
    assert found.columns["units"][::2] == [1, 2]
    assert np.isnan(found.columns["followers_low"][-1])


def test_sizes_by_the_name_of_a_bin_are_refused():
    events = pl.DataFrame({"author": list("abcd"), "followers": [1, 2, 3, 4], "views": [1, 2, 3, 4]})
    with pytest.raises(eh.EvenhandError, match="does not say which units are in which bin"):
        eh.inequality(events, population={"[1, 2]": 4, "(2, 4]": 2}, by=eh.quantile_bins("followers", 2), **CALL)


def test_bins_survive_saving(tmp_path):
    authors = people()
    result = eh.inequality(log_of(authors), population=None, by=eh.log_bins("followers", 4), **CALL)
    result.to_json(tmp_path / "r.json")
    assert eh.read.result(tmp_path / "r.json").to_text("csv") == result.to_text("csv")
    assert result.provenance["plan"]["by"] == "log_bins('followers', 4)"


@pytest.mark.parametrize(
    "text", ["log_bins('followers', 4)", 'log_bins("followers", bins=4)', "log_bins(followers, 4)"]
)
def test_bins_can_be_written_as_text(text):
    assert slicing(text) == slicing(eh.log_bins("followers", 4))


EVENTS = pl.DataFrame({"author": list("aab"), "followers": [1, 2, 3], "views": [1, 2, 3], "name": list("xyz")})
STEADY = EVENTS.with_columns(followers=pl.Series([-1.0, -1.0, 3.0]))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: eh.log_bins(3, 2), "does not name a column"),
        (lambda: eh.quantile_bins("followers", 0), "from 1 to 1,000"),
        (lambda: eh.quantile_bins("followers", True), "from 1 to 1,000"),
        (lambda: slicing("log_bins(followers, 4, 5)"), "cannot be read"),
        (lambda: slicing("log_bins(followers,"), "cannot be read"),
        (lambda: eh.inequality(STEADY, population=9, by=eh.quantile_bins("followers", 2), **CALL), "population=9"),
        (lambda: eh.inequality(STEADY, population=None, by=eh.log_bins("followers", 2), **CALL), "negative"),
        (lambda: eh.inequality(EVENTS, population=None, by=eh.log_bins("followers", 2), **CALL), "for 1 units"),
        (
            lambda: eh.inequality(EVENTS, population=None, by=eh.log_bins("folowers", 2), **CALL),
            "Did you mean 'followers'",
        ),
        (lambda: eh.inequality(EVENTS, population=None, by=eh.log_bins("name", 2), **CALL), "needs numbers"),
        (
            lambda: eh.inequality(
                STEADY.with_columns(followers=pl.lit(float("inf"))),
                population=None,
                by=eh.log_bins("followers"),
                **CALL,
            ),
            "infinite",
        ),
        (
            lambda: eh.inequality(
                STEADY.drop("followers"), population=EVENTS, by=eh.quantile_bins("followers", 2), **CALL
            ),
            "more than once",
        ),
    ],
)
def test_bins_that_do_not_fit_are_refused(call, said):
    with pytest.raises(eh.EvenhandError, match=said) as caught:
        call()
    assert str(caught.value).count(". ") >= 1


def test_a_source_nobody_of_a_bin_was_seen_in_gave_that_bin_nothing():
    authors = pl.DataFrame({"author": list("abcd"), "followers": [1, 2, 3, 4]})
    events = pl.DataFrame({"author": ["a", "d", "a"], "source": ["in", "in", "out"], "views": [3, 1, 1]})
    by = ["source", eh.quantile_bins("followers", 2)]
    frame = eh.inequality(events, population=authors, by=by, **CALL).frame[::2]
    assert frame.select("source", "followers", "estimate", "units").rows() == [
        ("in", "[1, 2]", 1.5, 2), ("in", "(2, 4]", 0.5, 2), ("out", "[1, 2]", 0.5, 2), ("out", "(2, 4]", 0.0, 2),
    ]  # fmt: skip
