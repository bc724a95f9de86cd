"""Exact quantiles, the same on every engine and equal to sorting."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.sources import quantiles as module
from evenhand.sources.opening import open_table
from evenhand.sources.quantiles import quantile_edges, quantile_means, quantiles, rank_of

ENGINES = {
    "polars": lambda frame: frame,
    "polars-lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
}


def column(values, engine="polars"):
    """The engine and the query of a table with one column."""
    opened = open_table(ENGINES[engine](pl.DataFrame({"s": values})))
    return opened.engine, opened.select({"value": opened.number("s")})


def by_sorting(values, shares):
    ordered = sorted(values)
    return [ordered[max(1, math.ceil(share * len(ordered))) - 1] for share in shares]


DECILES = [Fraction(d, 10) for d in range(1, 10)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "kind", ["uniform", "heavy tail", "ties", "clumps far apart", "nearly all zero", "huge and tiny"]
)
def test_equal_to_sorting_on_every_engine(engine, kind):
    rng = np.random.default_rng(5)
    values = {
        "uniform": rng.random(5_000),
        "heavy tail": rng.lognormal(0, 5, 5_000),
        "ties": rng.integers(0, 4, 1_000).astype(float),
        "clumps far apart": rng.integers(0, 5, 5_000) * 1e9 + rng.random(5_000),
        "nearly all zero": np.concatenate([np.zeros(5_000), rng.random(9)]),
        "huge and tiny": np.array([1e308, -1e308, 5e-324, 0.0, 0.0, 7.0]),
    }[kind]
    assert quantiles(*column(values, engine), DECILES).tolist() == by_sorting(values, DECILES)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_crowded_bucket_is_cut_again(engine, monkeypatch):
    monkeypatch.setattr(module, "BUCKETS", 8)
    monkeypatch.setattr(module, "CROWDED", 20)
    values = np.concatenate([np.random.default_rng(3).random(2_000), [1e6]])
    assert quantiles(*column(values, engine), DECILES).tolist() == by_sorting(values, DECILES)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60),
    st.lists(st.fractions(0, 1, max_denominator=20), min_size=1, max_size=8),
)
@settings(max_examples=60)
def test_any_numbers_and_any_shares(values, shares):
    assert quantiles(*column(values), shares).tolist() == by_sorting(values, shares)


def test_a_decimal_share_means_the_decimal_and_not_its_rounding():
    assert rank_of(0.55, 100) == 55
    assert rank_of(0.07, 100) == 7


def test_an_empty_table_has_no_quantiles():
    assert np.isnan(quantiles(*column(np.zeros(0)), [0.5])).all()


def test_integers_are_counted_as_numbers():
    assert quantiles(*column([3, 1, 2, 2]), [0.5, 1.0]).tolist() == [2.0, 3.0]


def test_equal_edges_merge_and_the_largest_value_is_no_edge():
    assert quantile_edges(*column([1, 1, 1, 1, 2, 3]), 3).tolist() == [1.0]
    assert quantile_edges(*column([1, 3, 3, 3]), 2).tolist() == []
    assert quantile_edges(*column([4, 4]), 10).tolist() == []
    assert quantile_edges(*column(np.arange(1, 101)), 4).tolist() == [25.0, 50.0, 75.0]


def test_the_mean_around_a_quantile_does_not_depend_on_the_engine_nor_on_the_order_of_rows():
    rng = np.random.default_rng(4)
    values = rng.integers(-20, 20, 400) / 10
    ends = (values.min(), values.max())
    shares = [Fraction(d, 10) for d in range(1, 10)]
    found = {
        tuple(quantile_means(*column(ordered, engine), shares, ends, 7).tolist())
        for engine in ENGINES
        for ordered in (values, np.sort(values), values[::-1])
    }
    assert len(found) == 1


def test_a_value_that_is_the_mean_of_its_neighbours_equals_it_to_the_last_digit():
    values = column([0.1, 0.2, 0.3])  # whose sum is 0.6000000000000001
    assert quantile_means(*values, [Fraction(1, 2)], (0.1, 0.3), 3).tolist() == [0.2]
