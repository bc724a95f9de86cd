"""The outcome test at its edges: edges on scores, knots between them, cells that are constant, tables of many cells."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

import evenhand as eh

ROLES = {"score": "s", "outcome": "y", "group": "g"}


def rows_of(found, metric):
    return [row for row in found.findings.rows() if row["metric"] == metric]


@pytest.mark.parametrize("kind", ["ranking", "classification"])
def test_edges_that_were_found_may_be_given_again_even_where_the_first_is_the_lowest_score(kind):
    rng = np.random.default_rng(1)
    table = pl.DataFrame(
        {"s": np.repeat([1.0, 2.0, 3.0], 200), "y": rng.integers(0, 2, 600), "g": rng.choice(["a", "b"], 600)}
    )
    found = eh.outcome_test(table, **ROLES, kind=kind, bins=3)
    edges = found.findings.provenance["bins"]["edges"]
    again = eh.outcome_test(table, **ROLES, kind=kind, bins=edges)
    assert edges == again.findings.provenance["bins"]["edges"] == [1.0, 2.0]
    sizes = [[row["units"] for row in rows_of(one, "mean_outcome")] for one in (found, again)]
    assert len(sizes[0]) == 6
    assert sizes[0] == sizes[1]


def test_the_knots_of_the_spline_are_the_edges_also_where_no_score_is():
    rng = np.random.default_rng(1)
    s = np.r_[np.linspace(0, 0.3, 150), np.linspace(0.7, 1, 150)]
    g = np.where(rng.random(300) < np.where(s < 0.5, 0.3, 0.7), "a", "b")
    y = np.maximum(s - 0.5, 0) * 4 + rng.normal(size=300) * 0.1
    table = pl.DataFrame({"s": s, "y": y, "g": g})
    found = eh.outcome_test(table, **ROLES, bins=[0.5], kind="classification", reference="b")
    gap = next(row for row in rows_of(found, "spline_gap") if row["group"] == "a")
    design = np.column_stack([np.ones(300), g == "a", s, np.maximum(s - 0.5, 0)]).astype(float)
    fit = sm.OLS(y, design).fit(cov_type="HC1")
    assert (gap["estimate"], gap["se"]) == pytest.approx((fit.params[1], fit.bse[1]), rel=1e-8)


@pytest.mark.parametrize("clustered", [False, True])
def test_where_all_outcomes_are_one_number_the_mean_has_no_error(clustered):
    rng = np.random.default_rng(2)
    s, g = np.arange(300) / 300, rng.choice(["a", "b"], 300)
    for constant in (0.0, 0.7):
        y = np.where(s > 0.5, rng.random(300), constant)
        table = pl.DataFrame({"s": s, "y": y, "g": g, "q": rng.integers(0, 40, 300)})
        found = eh.outcome_test(table, **ROLES, bins=2, kind="classification", request="q" if clustered else None)
        low, high = ([r for r in rows_of(found, "mean_outcome") if r["bin"] == b] for b in (1, 2))
        assert [(r["se"], math.isnan(r["low"]), r["note"]) for r in low] == [(0.0, True, "no_variation")] * 2
        assert all(r["se"] > 0 for r in high)


@pytest.mark.parametrize("per", [1, 3, 7])
def test_bins_that_tie_for_the_lowest_outcome_are_not_told_apart_by_rounding(per):
    one = [1] * 3 + [0] * 38
    y = one * 2 + [1 - v for v in one] * 2
    table = pl.DataFrame({"s": np.arange(164) / per, "y": y, "g": (["a", "b", "c"] * 55)[:164]})
    (lowest,) = rows_of(eh.outcome_test(table, **ROLES, bins=4, kind="classification"), "lowest_bin")
    assert (lowest["estimate"], lowest["note"]) == (1.0, "no_interval")


@pytest.mark.parametrize("column", ["s", "y"])
@pytest.mark.parametrize("kind", ["ranking", "classification"])
def test_a_nan_in_an_arrow_backed_pandas_column_is_missing(kind, column):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"s": rng.random(200), "y": rng.random(200), "g": rng.choice(["a", "b"], 200)})
    holed = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 5).then(float("nan")).otherwise(pl.col(column)).alias(column)
    )
    table = holed.to_pandas(use_pyarrow_extension_array=True)
    with pytest.raises(eh.EvenhandError, match=f"'{column}' is missing in 1 rows"):
        eh.outcome_test(table, **ROLES, kind=kind)
    assert eh.outcome_test(table, **ROLES, kind=kind, nan_policy="omit").findings.provenance["rows"] == 200
