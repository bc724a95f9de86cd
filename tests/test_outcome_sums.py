"""Edges and sums that queries find are those of the rows sorted and added up one by one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.metrics.outcome import gaps
from evenhand.tallies.moments import Moments

MEASURES = ["pooled_gap", "joint_test", "outcome_gap", "mean_outcome", "base_rate"]
ROLES = {"score": "s", "outcome": "y", "group": "g", "metrics": MEASURES}
RNG = np.random.default_rng(1)
ROWS = 3_000
NORMAL, GROUPS = RNG.normal(size=ROWS), RNG.choice(["a", "b", "c"], ROWS, p=[0.6, 0.3, 0.1])
SHAPES = {
    "normal": NORMAL,
    "whole": np.round(NORMAL * 100).astype(np.int64),
    "far_whole": np.r_[np.arange(ROWS - 9), [10**7 + i for i in range(9)]],
    "tied": np.round(NORMAL * 2),
    "single": NORMAL.astype(np.float32),
    "spike": np.where(NORMAL < 0, 0.0, NORMAL),
    "capped": np.minimum(NORMAL, 0.5),
    "skewed": np.exp(5 * NORMAL),
    "far": 1e6 + NORMAL / 1e3,
    "sorted": np.sort(np.exp(NORMAL)),
    "falling": -np.sort(np.exp(4 * NORMAL)),
    "apart": NORMAL + (GROUPS == "c") * 1.5,
    "constant": np.ones(ROWS),
}
OUTCOMES = {
    "continuous": NORMAL * 2 + RNG.normal(size=ROWS),
    "floats of two values": (RNG.random(ROWS) < 0.4) * 1.0,
    "five": RNG.integers(10, 15, ROWS),
    "more later": np.r_[np.arange(1_000) % 2, np.arange(ROWS - 1_000) % 7 - 2.5],
    "truth values": RNG.random(ROWS) < 0.3,
}


def table(scores, groups=GROUPS):
    rng = np.random.default_rng(2)
    chance = 1 / (1 + np.exp(-NORMAL))
    return pl.DataFrame({"s": scores, "y": (rng.random(ROWS) < chance).astype(np.int8), "g": groups})


def assert_as_by_hand(made, bins=10, kind="ranking", errors=None):
    """The bins, gaps and errors of a test are those of its rows."""
    found = eh.outcome_test(made, **ROLES, bins=bins, kind=kind, **(errors or {}))
    s, y = (made[name].cast(pl.Float64).to_numpy() for name in "sy")
    names = sorted(made["g"].unique().to_list())
    g = np.searchsorted(names, made["g"].to_numpy())
    low, high = s.min(), s.max()
    if kind == "ranking":
        low, high = max(s[g == k].min() for k in range(len(names))), min(s[g == k].max() for k in range(len(names)))
    inside = (s >= low) & (s <= high)
    shares = np.arange(1, bins) / bins if isinstance(bins, int) else []
    edges = np.quantile(s[inside], shares, method="inverted_cdf") if isinstance(bins, int) else np.array(bins)
    edges = np.unique(edges[(edges >= low) & (edges < high)])
    assert found.findings.provenance["bins"]["edges"] == edges.tolist()
    more = {role: made[column].to_numpy()[inside] for role, column in (errors or {}).items() if role != "covariance"}
    at = np.searchsorted(edges, s[inside])
    m = Moments.from_arrays(s[inside], y[inside], at, g[inside], shape=(len(edges) + 1, len(names)), **more)
    how = "cluster" if "cluster" in more else (errors or {}).get("covariance", "HC1")
    expected = gaps(m, int(np.bincount(g).argmax()), how)
    rows = found.frame.filter(pl.col("metric") == "outcome_gap")
    np.testing.assert_allclose(rows["estimate"].to_numpy(), expected.estimate.ravel(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(rows["se"].to_numpy(), expected.error.ravel(), rtol=1e-7, atol=1e-9)
    assert rows["units"].to_list() == m.rows.ravel().tolist()
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_edges_and_sums_are_those_of_sorted_rows(shape):
    assert_as_by_hand(table(SHAPES[shape]))


@pytest.mark.parametrize("bins", [1, 7, [-0.5, 0.2]])
@pytest.mark.parametrize("kind", ["ranking", "classification"])
def test_any_bins_of_either_kind_are_found(bins, kind):
    assert_as_by_hand(table(SHAPES["apart"]), bins, kind)


@pytest.mark.parametrize(
    "errors", [{"covariance": "classical"}, {"weight": "w"}, {"cluster": "c"}, {"cluster": "c", "weight": "w"}]
)
def test_errors_of_every_kind_are_those_of_the_rows(errors):
    rng = np.random.default_rng(7)
    made = table(SHAPES["apart"]).with_columns(
        c=pl.Series(rng.integers(0, 90, ROWS)), w=pl.Series(rng.gamma(1.5, 2.0, ROWS))
    )
    assert_as_by_hand(made, 6, errors=errors)


@pytest.mark.parametrize("outcomes", OUTCOMES)
def test_outcomes_of_any_kind_are_added_up(outcomes):
    assert_as_by_hand(table(SHAPES["spike"]).with_columns(y=pl.Series(OUTCOMES[outcomes])))


def test_rows_without_a_group_are_one():
    late = np.where(np.arange(ROWS) < 2_000, np.where(NORMAL > 0, 1, 2), RNG.choice([1, 2, 3, 4], ROWS))
    made = table(NORMAL, late)
    found, expected = (
        eh.outcome_test(one, **ROLES, unknown="group").frame.drop("group")
        for one in (made.with_columns(g=pl.when(pl.col("g") != 4).then(pl.col("g"))), made)
    )
    for one, other in zip(found.iter_columns(), expected.iter_columns(), strict=True):
        assert (
            one.to_list() == pytest.approx(other.to_list(), nan_ok=True) if one.dtype.is_float() else one.equals(other)
        )


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a", "b", "c", "unknown", "nobody"])])
def test_categories_are_labels_and_those_without_one_are_unknown(dtype):
    named = pl.Series(np.where(NORMAL > 2, "unknown", GROUPS))
    made = table(NORMAL, named.set(pl.Series(NORMAL < -1.8), None))
    found = eh.outcome_test(made.with_columns(pl.col("g").cast(dtype)), **ROLES, unknown="group").frame
    assert found.equals(eh.outcome_test(made, **ROLES, unknown="group").frame)


@pytest.mark.parametrize("wrong", [None, np.nan])
def test_a_missing_score_far_down_the_table_is_seen(wrong):
    scores = pl.Series([*NORMAL[:-1].tolist(), wrong], strict=False)
    with pytest.raises(eh.EvenhandError, match="missing"):
        eh.outcome_test(table(scores), **ROLES)
