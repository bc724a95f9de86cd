"""Bias of ranks by a number: against the definition, all orders of a list, and worlds with and without bias."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand import metrics
from evenhand.cli import main
from evenhand.metrics.prefix import number_leans
from evenhand.tallies.placement import Placement


def slow_output_bias(values, k=None):
    tops = [[v for v in values[:i] if v is not None] for i in range(1, (k or len(values)) + 1)]
    return np.mean([np.mean(top) for top in tops if top])


@given(st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=1, max_size=12).filter(lambda v: set(v) - {None}))
def test_output_bias_less_input_bias(values):
    known = np.mean([v for v in values if v is not None])
    assert metrics.output_bias(values) == pytest.approx(slow_output_bias(values), abs=1e-9)
    assert metrics.ranking_bias(values) == pytest.approx(slow_output_bias(values) - known, abs=1e-9)


def test_moments_over_random_orders_are_those_of_all_orders():
    values = [0.3, -1.0, 0.7, 0.1, -0.2]
    every = np.array([slow_output_bias(order) - np.mean(values) for order in itertools.permutations(values)])
    lean, spread, third = number_leans(Placement.from_arrays(values))
    assert every.mean() == pytest.approx(0, abs=1e-12)  # the chance level
    assert float(spread[0, 0]) == pytest.approx(every.std())
    assert float(third[0, 0]) == pytest.approx((every**3).mean())
    assert float(lean[0, 0]) == pytest.approx(metrics.ranking_bias(values))


def lists(rng, requests, tilt, ranks=12):
    """Lists in which a higher number is preferred by `tilt`."""
    values = rng.normal(size=(requests, ranks)).round(3)
    order = np.argsort(-(tilt * values + rng.normal(size=values.shape)), axis=1)
    table = {"request": np.repeat(np.arange(requests), ranks), "rank": np.tile(np.arange(1, ranks + 1), requests)}
    return pl.DataFrame({**table, "leaning": np.take_along_axis(values, order, 1).ravel()})


def test_the_first_ranks_are_held_against_the_whole_list():
    table = lists(np.random.default_rng(1), 30, 0.5)
    result = eh.prefix(table, group="leaning", metrics=["ranking_bias@3", "output_bias@3"], rng=1)
    each = table.group_by("request", maintain_order=True).agg("leaning")["leaning"].to_list()
    assert result.frame["estimate"].to_list() == pytest.approx(
        [np.mean([slow_output_bias(v, 3) - np.mean(v) for v in each]), np.mean([slow_output_bias(v, 3) for v in each])]
    )
    assert result.frame["chance"].to_list() == pytest.approx([0, table["leaning"].mean()], abs=1e-12)
    assert [c.text for c in result.claims] == ["A higher value stands nearer to the top than random order gives"]
    assert result.claims[0].made


def test_false_alarms_power_and_coverage():
    rng = np.random.default_rng(2)
    call = {"group": "leaning", "metrics": "ranking_bias", "interval": "bootstrap(99)", "rng": 1}
    fair = [eh.prefix(lists(rng, 40, 0.0), **call).frame.row(0, named=True) for _ in range(80)]
    assert np.mean([r["p"] < 0.05 for r in fair]) <= 0.125
    assert np.mean([r["low"] <= 0 <= r["high"] for r in fair]) >= 0.87
    biased = [eh.prefix(lists(rng, 40, 0.3), **call).frame["p"][0] < 0.05 for _ in range(20)]
    assert np.mean(biased) >= 0.9


def test_labels_that_are_no_numbers_are_refused(tmp_path, capsys):
    table = pl.DataFrame({"request": [1, 1], "rank": [1, 2], "leaning": ["left", "right"]})
    with pytest.raises(eh.EvenhandError, match="The labels hold 'left', and this metric reads numbers"):
        eh.prefix(table, group="leaning", metrics="ranking_bias")
    table.write_csv(tmp_path / "r.csv")
    assert main(["prefix", str(tmp_path / "r.csv"), "--group", "leaning", "-m", "ranking_bias", "--no-progress"]) == 2
    assert "reads numbers" in capsys.readouterr().err
