"""What rounding leaves is nothing: rows on their lines have no error, whatever the errors are made of."""

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.metrics.outcome import gaps
from evenhand.metrics.outcome_joint import spline
from evenhand.tallies.moments import Moments

ROLES = {"score": "s", "outcome": "y", "group": "g"}
ERRORS = [{}, {"covariance": "classical"}, {"cluster": "c"}, {"weight": "w"}]


def scores(kind, n, rng):
    return {
        "uniform": lambda: rng.random(n),
        "normal": lambda: rng.normal(size=n),
        "whole": lambda: rng.integers(0, 30, n) * 1.0,
        "far off": lambda: 1e4 + rng.random(n),
        "skewed": lambda: np.exp(3 * rng.normal(size=n)),
    }[kind]()


def rows_of(table, metrics, **more):
    found = eh.outcome_test(table, **ROLES, **more, metrics=metrics).frame
    return [r for r in found.iter_rows(named=True) if r["note"] != "reference"]


def table(n, rng, kind, groups=3):
    return pl.DataFrame(
        {
            "s": scores(kind, n, rng),
            "g": rng.integers(0, groups, n),
            "c": rng.integers(0, n // 5, n),
            "w": rng.random(n) + 0.1,
        }
    )


@pytest.mark.parametrize(
    ("kind", "errors"),
    [
        *((kind, {}) for kind in ("uniform", "normal", "whole", "far off", "skewed")),
        *(("skewed", e) for e in ERRORS[1:]),
    ],
    ids=str,
)
def test_outcomes_on_lines_have_no_error(kind, errors):
    rng = np.random.default_rng(len(kind))
    for n, slope in ((60, 0.0), (900, 3.7e-3), (2_000, -1234.5)):
        made = table(n, rng, kind).with_columns(y=0.3 + slope * pl.col("s"))
        for r in rows_of(made, ["pooled_gap", "spline_gap", "outcome_gap"], **errors):
            assert not r["se"] > 0
            assert np.isnan(r["p"])
            assert np.isnan(r["low"])


def test_cells_of_a_row_or_two_that_are_joined_have_no_error():
    for seed in range(25):
        rng = np.random.default_rng(seed)
        made = table(int(rng.integers(40, 80)), rng, "uniform", groups=4).with_columns(y=2 * pl.col("s") + 1)
        for r in rows_of(made, ["pooled_gap", "outcome_gap"], bins=10):
            assert not r["se"] > 0


@pytest.mark.parametrize("errors", ERRORS, ids=str)
def test_lines_with_a_gap_have_no_error_in_any_bin(errors):
    rng = np.random.default_rng(3)
    for kind in ("normal", "whole", "far off"):
        made = table(3_000, rng, kind).with_columns(y=700.3 - 3.1 * pl.col("s") + 411.7 * pl.col("g"))
        for r in rows_of(made, ["outcome_gap"], **errors):
            assert not r["se"] > 0


def test_noise_that_a_number_can_hold_is_an_error():
    """The rule takes no noise away that is larger than rounding: of the same noise the error is the same, far off or not."""
    rng = np.random.default_rng(4)
    made, noise = table(4_000, rng, "uniform"), 1e-7 * rng.normal(size=4_000)
    near = rows_of(made.with_columns(y=pl.lit(noise)), ["outcome_gap"])
    far = rows_of(made.with_columns(y=1000 + 50 * pl.col("s") + pl.lit(noise)), ["outcome_gap"])
    assert [r["se"] for r in far] == pytest.approx([r["se"] for r in near], rel=1e-4)


def test_clusters_whose_rows_cancel_out_have_no_error():
    """Every cluster has one row above its group's mean and one below, as far off: sums over clusters are all the same."""
    pair = np.repeat(np.arange(400), 2)
    up = np.tile([1.0, -1.0], 400) * np.repeat(np.random.default_rng(5).random(400), 2)
    made = pl.DataFrame({"s": np.full(800, 0.3), "g": pair % 2, "c": pair, "y": 0.1 + up})
    found = rows_of(made, ["outcome_gap"], cluster="c")
    assert {r["se"] for r in found} == {0.0}


def test_residuals_of_a_cell_of_one_outcome_are_none_however_many_rows():
    n = 300_000
    outcome = np.where(np.arange(n) % 2, 0.3, 7.7)
    m = Moments.from_arrays(np.zeros(n), outcome, np.zeros(n), np.arange(n) % 2, shape=(1, 2))
    m = m.measured_from(np.full((1, 2), 3.1), np.zeros((1, 2)))
    assert not m.residuals(m.mean_outcome, m.slope).sums[..., 0, 2].any()


@pytest.mark.parametrize("errors", ERRORS, ids=str)
def test_a_spline_is_that_of_the_rows_also_with_empty_bins(errors):
    """Rows next to an empty bin lie at the knot they share with it, so that no row is under the hat of the one before."""
    for seed in (4, 5, 6, 13):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(80, 600))
        made = table(n, rng, "whole").with_columns(y=pl.lit(rng.normal(size=n)) + 0.1 * pl.col("s"))
        first, last = (0.1 * end + 0.3 for end in sorted(rng.integers(0, 30, 2).tolist()))
        made = made.with_columns(s=0.1 * pl.col("s") + 0.3)
        made = made.filter(~pl.col("s").is_between(first - 1e-9, last + 1e-9))
        edges = sorted({*made["s"].unique().sort()[::3][:-1].to_list(), first + 0.02, first + 0.04})
        low, high = (made.group_by("g").agg(end)["s"] for end in (pl.col("s").min(), pl.col("s").max()))
        low, high = low.max(), high.min()
        inside, inner = made.filter(pl.col("s").is_between(low, high)), np.array([e for e in edges if low <= e < high])
        arrays = {name: inside[name].to_numpy() for name in "sgcwy"}
        reference = int(np.bincount(made["g"].to_numpy()).argmax())
        m = Moments.from_arrays(
            arrays["s"], arrays["y"], np.searchsorted(inner, arrays["s"]), arrays["g"], shape=(len(inner) + 1, 3),
            cluster=arrays["c"] if "cluster" in errors else None, weight=arrays["w"] if "weight" in errors else None,
        )  # fmt: skip
        how = errors.get("covariance", "cluster" if "cluster" in errors else "HC1")
        expected = spline(m, reference, how, np.array([low, *inner, high]))
        found = eh.outcome_test(made, **ROLES, **errors, bins=edges, metrics=["spline_gap"]).frame
        assert found["se"].to_list() == pytest.approx(expected.error.tolist(), rel=1e-9, nan_ok=True)
        assert found["estimate"].to_list() == pytest.approx(
            expected.estimate.tolist(), rel=1e-9, abs=1e-12, nan_ok=True
        )


@pytest.mark.parametrize("seed", range(4))
def test_weighted_rows_in_bins_of_one_score_are_joined_as_they_are(seed):
    """Means of weighted scores end in other digits than the scores: what that makes of their squares is no spread to fit a line to."""
    rng = np.random.default_rng(seed)
    s, g, w, y = rng.integers(0, 12, 1_500), rng.integers(0, 3, 1_500), rng.random(1_500) + 0.1, rng.normal(size=1_500)
    joined = gaps(Moments.from_arrays(s, y, s, g, shape=(12, 3), weight=w).merged(np.arange(12) // 3), 0)
    at_once = gaps(Moments.from_arrays(s, y, s // 3, g, shape=(4, 3), weight=w), 0)
    assert joined.estimate == pytest.approx(at_once.estimate, rel=1e-9)
    assert joined.error == pytest.approx(at_once.error, rel=1e-9)
