"""What the outcome test says where data are thin, graded, constant or thresholded."""

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import ks_2samp

import evenhand as eh

ROLES = {"score": "s", "outcome": "y", "group": "g"}


def world(rows=600, rate=0.4, grades=2, seed=1, lift=0.5):
    rng = np.random.default_rng(seed)
    g = rng.choice(["a", "b"], rows, p=[0.7, 0.3])
    s = rng.normal(size=rows) + lift * (g == "b")
    y = (rng.random(rows) < rate) * 1 if grades == 2 else rng.integers(0, grades, rows)
    return pl.DataFrame({"s": s, "y": y, "g": g})


def one(result, metric, **where):
    (found,) = [r for r in result.findings.rows() if r["metric"] == metric and all(r[k] == v for k, v in where.items())]
    return found


@pytest.mark.parametrize("grades", [2, 3])
@pytest.mark.parametrize("bins", [2, 200])
def test_equalised_odds_is_a_kolmogorov_distance_that_knows_no_bins(bins, grades):
    frame = world(grades=grades)
    found = one(eh.outcome_test(frame, **ROLES, reference="a", bins=bins), "equalized_odds_gap", group="b")
    s, y, g = (frame[c].to_numpy() for c in "syg")
    given = [side for cut in range(1, grades) for side in (y >= cut, y < cut)]
    wanted = max(ks_2samp(s[at & (g == "a")], s[at & (g == "b")]).statistic for at in given)
    assert found["estimate"] == pytest.approx(wanted)
    assert 0.03 < found["chance"] < wanted


def test_outcomes_that_few_of_a_group_have_are_skipped_and_said():
    frame = world(rows=300, rate=0.05)
    found = one(eh.outcome_test(frame, **ROLES, reference="a", bins=2), "equalized_odds_gap", group="b")
    assert found["note"] == "some_outcomes_skipped"


def test_base_rates_are_called_precision_only_where_somebody_was_left_out():
    frame = world()
    assert "precision" not in eh.outcome_test(frame, **ROLES).findings.columns["metric"]
    cut = eh.outcome_test(frame, **ROLES, kind="classification", threshold=0.0)
    assert "precision" in cut.findings.columns["metric"]
    b = frame.filter((pl.col("g") == "b") & (pl.col("y") == 1))["s"] >= 0
    a = frame.filter((pl.col("g") == "a") & (pl.col("y") == 1))["s"] >= 0
    assert one(cut, "true_positive_rate_gap", group="b")["estimate"] == pytest.approx(b.mean() - a.mean())


@pytest.mark.parametrize("engine", ["polars", "duckdb", "pandas"])
@pytest.mark.parametrize("constant", [0.1, 1.0, 1 / 3])
def test_outcomes_that_are_all_one_number_give_no_p_on_any_engine(engine, constant):
    frame = world().with_columns(y=pl.lit(constant))
    if engine == "duckdb":
        import duckdb

        frame = duckdb.from_arrow(frame.to_arrow())
    elif engine == "pandas":
        frame = frame.to_pandas()
    found = list(eh.outcome_test(frame, **ROLES).findings.rows())
    assert all(r["p"] is None or math.isnan(r["p"]) for r in found)
    assert one(eh.outcome_test(frame, **ROLES), "pooled_gap", group="b")["note"] == "constant_input"


def test_the_pooled_gap_says_which_share_of_the_rows_it_rests_on():
    rng = np.random.default_rng(2)
    s = np.concatenate([rng.random(200), [0.05] * 20, [0.95] * 20])
    frame = pl.DataFrame({"s": s, "y": rng.integers(0, 2, 240), "g": ["a"] * 200 + ["b"] * 40})
    frame = frame.filter((pl.col("g") == "b") | pl.col("s").is_between(0.3, 0.7) | (pl.col("s") > 0.9))
    result = eh.outcome_test(frame, **ROLES, kind="classification", threshold=0.0, bins=[0.1, 0.5, 0.9])
    found = one(result, "pooled_gap", group="b")
    assert found["units"] == 20
    assert found["share_used"] == pytest.approx(0.5)
    assert "bins_missing" in found["note"]
    assert "50.0% of the rows of b" in next(x for x in result.only("pooled_gap").sentences() if "gap of b" in x)


def test_a_gap_denied_by_the_adjustment_only_shows_both_p_and_the_rows_in_the_common_support():
    rng = np.random.default_rng(0)
    g = np.repeat(["a", "b", "c"], [600, 300, 300])
    s = rng.integers(1, 5, 1200) / 4
    s[900:] = np.maximum(s[900:], 0.5)  # c has no score of 0.25
    y = (rng.random(1200) < s * 0.8 - 0.06 * (g == "b")).astype(int)
    result = eh.outcome_test(pl.DataFrame({"s": s, "y": y, "g": g}), **ROLES, bins=4)
    row = one(result, "pooled_gap", group="b")
    assert row["high"] < 0  # although the claim is not made
    share = np.mean(s[g == "b"] >= 0.5)
    (sentence,) = [x for x in result.sentences() if x.startswith("Over all bins") and "gap of b" in x]
    assert f"Over all bins ({share:.1%} of the rows of b)" in sentence
    assert "no significant gap" in sentence
    assert "(p = 0.041 by itself, p = 0.16 adjusted for 4 tests)" in sentence
    assert "by itself" not in next(x for x in result.sentences() if "gap of c" in x)


def test_the_mean_of_zeros_and_ones_stays_between_them():
    found = eh.outcome_test(world(rows=200, rate=0.06), **ROLES, bins=3)
    for r in found.only("mean_outcome").findings.rows():
        assert math.isnan(r["low"]) or 0 <= r["low"] <= r["high"] <= 1
