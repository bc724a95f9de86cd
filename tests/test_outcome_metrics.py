"""Regressions from sums: held against statsmodels, the slow definition, and the laws of least squares."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from evenhand import EvenhandError, UndefinedWarning, metrics
from evenhand.intervals.kinds import holm
from evenhand.metrics import outcome as module
from evenhand.metrics import outcome_joint as joint
from evenhand.metrics.outcome_joint import pooled
from evenhand.tallies.moments import Moments
from golden_cases import CASES, holds, plain
from oracles import outcome as oracle

COVARIANCES = ("HC1", "classical", "cluster")


def world(seed, rows=400, groups=3, bins=4, outcome="binary", scores="uniform", clusters=30):
    """Random rows with bin codes from exact quantiles."""
    rng = np.random.default_rng(seed)
    s = {
        "uniform": lambda: rng.random(rows),
        "heavy tail": lambda: rng.lognormal(0, 2, rows) * 1e-5,
        "far from zero": lambda: rng.normal(size=rows) + 1e6,
        "few values": lambda: rng.integers(0, 6, rows).astype(float),
    }[scores]()
    rank = np.argsort(np.argsort(s)) / rows
    g = rng.integers(0, groups, rows)
    y = {
        "binary": lambda: (rng.random(rows) < 0.2 + 0.5 * rank) * 1.0,
        "graded": lambda: rng.choice([0.0, 0.3, 1.0], rows),
        "continuous": lambda: 100 + rank + 0.2 * g + rng.normal(size=rows) * (1 + rank),
        "nearly exact": lambda: 1e3 * rank + g + rng.normal(size=rows) * 1e-4,
    }[outcome]()
    b = np.searchsorted(oracle.edges(s, bins), s)
    return s, y, b, g, rng.integers(0, clusters, rows)


def tally(s, y, b, g, c):
    return Moments.from_arrays(s, y, b, g, shape=(b.max() + 1, g.max() + 1), cluster=c)


def by_statsmodels(s, y, g, c, covariance, design):
    x = np.column_stack([*[(g == h) * 1.0 for h in range(1, g.max() + 1)], design])
    model = sm.OLS(y, x)
    if covariance == "cluster":
        return model.fit(cov_type="cluster", cov_kwds={"groups": c}, use_t=True)
    return model.fit(cov_type="HC1") if covariance == "HC1" else model.fit()


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("scores", ["uniform", "heavy tail", "far from zero", "few values"])
@pytest.mark.parametrize("outcome", ["binary", "graded", "continuous", "nearly exact"])
def test_gaps_and_errors_equal_statsmodels(covariance, scores, outcome):
    s, y, b, g, c = world(3, outcome=outcome, scores=scores)
    found = module.gaps(tally(s, y, b, g, c), 0, covariance)
    for k in range(b.max() + 1):
        at = b == k
        spread = s[at].std()
        score = [(s[at] - s[at].mean()) / spread] if spread else []
        fit = by_statsmodels(s[at], y[at], g[at], c[at], covariance, np.column_stack([np.ones(at.sum()), *score]))
        np.testing.assert_allclose(found.estimate[k, 1:], fit.params[:2], rtol=1e-8, atol=1e-10 * y.std())
        np.testing.assert_allclose(found.error[k, 1:], fit.bse[:2], rtol=1e-8)
        np.testing.assert_allclose(found.p[k, 1:], fit.pvalues[:2], rtol=1e-7, atol=1e-9)
        if spread:
            assert found.lines.slope[k] == pytest.approx(fit.params[-1] / spread, rel=1e-7, abs=1e-9 * y.std() / spread)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("seed", range(4))
def test_gaps_and_errors_equal_the_slow_definition(covariance, seed):
    s, y, b, g, c = world(seed, rows=120, bins=2)
    found = module.gaps(tally(s, y, b, g, c), 1, covariance)
    for k in range(2):
        at = np.flatnonzero(b == k)
        gaps, _, slope, errors = oracle.regression(s[at], y[at], g[at].tolist(), 1, c[at])
        assert found.lines.slope[k] == pytest.approx(slope, rel=1e-8)
        for h in (0, 2):
            assert found.estimate[k, h] == pytest.approx(gaps[h], rel=1e-8)
            assert found.error[k, h] == pytest.approx(errors[covariance][h], rel=1e-8)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("scores", ["uniform", "heavy tail", "few values"])
def test_the_spline_equals_statsmodels_with_hat_functions(monkeypatch, covariance, scores):
    monkeypatch.setattr(joint, "leverage_factor", lambda *_: 1.0)  # statsmodels has none
    s, y, b, g, c = world(5, outcome="continuous", scores=scores)
    found = joint.spline(tally(s, y, b, g, c), 0, covariance)
    knots = np.unique(np.r_[s.min(), oracle.edges(s, 4), s.max()])
    hats = np.column_stack([np.interp(s, knots, row) for row in np.eye(len(knots))])
    fit = by_statsmodels(s, y, g, c, covariance, hats)
    np.testing.assert_allclose(found.estimate[1:], fit.params[:2], rtol=1e-8)
    if covariance == "cluster":
        rows = np.column_stack([g == 1, g == 2, hats]).astype(float)
        np.testing.assert_allclose(found.error[1:], [error_without_gap(rows, y, c, j) for j in range(2)], rtol=1e-8)
        return
    np.testing.assert_allclose(found.error[1:], fit.bse[:2], rtol=1e-8)
    np.testing.assert_allclose(found.p[1:], fit.pvalues[:2], rtol=1e-7)


def error_without_gap(rows, y, clusters, j, weights=1.0):
    """Root of the squared sums per cluster of what its rows add to coefficient j, with residuals of the fit without it."""
    root = np.sqrt(weights * np.ones(len(y)))
    others = np.delete(rows, j, axis=1)
    residual = y - others @ np.linalg.lstsq(others * root[:, None], y * root)[0]
    pull = np.linalg.pinv(rows * root[:, None])[j] * root
    return np.sqrt((np.bincount(clusters, pull * residual) ** 2).sum())


@pytest.mark.parametrize("covariance", ["HC1", "classical"])
def test_the_test_of_one_bin_equals_statsmodels(covariance):
    s, y, b, g, c = world(7, bins=1)
    found = joint.bin_test(module.gaps(tally(s, y, b, g, c), 0, covariance), 0)
    fit = by_statsmodels(s, y, g, c, covariance, np.column_stack([np.ones(len(s)), s]))
    wald = fit.wald_test(np.eye(2, 4), use_f=covariance == "classical", scalar=True)
    assert found.p == pytest.approx(float(wald.pvalue), rel=1e-8)


def test_a_joint_test_of_one_clustered_gap_is_a_t_test_with_as_many_clusters_as_count():
    found = module.gaps(tally(*world(8, groups=2, bins=1)), 0, "cluster")
    ratio = found.estimate[0, 1] / found.error[0, 1]
    assert joint.joint_test(found).p == pytest.approx(module.two_sided(ratio, found.total_freedom), rel=1e-10)
    assert found.total_freedom < found.freedom[0]


@pytest.mark.parametrize(("sizes", "worth"), [([6, 6, 6, 6], 4.0), ([12, 4, 4, 4], 24**2 / (12**2 + 3 * 4**2))])
def test_clusters_of_one_size_count_in_full_and_lopsided_ones_for_less(sizes, worth):
    c = np.repeat(np.arange(len(sizes)), sizes)
    g = np.arange(len(c)) % 2
    y = np.random.default_rng(4).random(len(c))
    m = Moments.from_arrays(np.ones(len(c)), y, np.zeros(len(c)), g, shape=(1, 2), cluster=c)
    assert module.gaps(m, 0, "cluster").total_freedom == pytest.approx(worth - 1)


def test_few_rows_on_one_side_leave_few_degrees_of_freedom_to_the_joint_test():
    """Constant scores: the gap is a difference of means, and its degrees of freedom are Welch's."""
    rng = np.random.default_rng(6)
    y, g = rng.normal(size=340), np.repeat([0, 1], [300, 40])
    found = module.gaps(Moments.from_arrays(np.ones(340), y, np.zeros(340), g, shape=(1, 2)), 0)
    parts = np.array([y[g == k].var() / (g == k).sum() for k in (0, 1)])
    freedom = parts.sum() ** 2 / (parts**2 / [299, 39]).sum()
    assert found.welch_freedom[0, 1] == pytest.approx(freedom)
    assert joint.joint_test(found).p == pytest.approx(
        module.two_sided(found.estimate[0, 1] / found.error[0, 1], freedom)
    )
    assert found.p[0, 1] < joint.joint_test(found).p


def test_a_cell_enters_the_joint_test_by_the_events_that_it_lets_expect():
    y = np.concatenate([np.arange(100) < 30, np.arange(40) < 6]) * 1.0  # 6 events seen, 10.3 expected
    g = np.repeat([0, 1], [100, 40])
    s = np.tile(np.linspace(0, 1, 20), 7)
    one_bin = Moments.from_arrays(s, y, np.zeros(140), g, shape=(1, 2))
    assert module.gaps(one_bin, 0).jointly[0, 1]
    rarer = np.concatenate([np.arange(100) < 20, np.arange(40) < 6]) * 1.0  # 7.4 expected
    two_bins = Moments.from_arrays(
        np.tile(s, 2), np.concatenate([y, rarer]), np.repeat([0, 1], 140), np.tile(g, 2), shape=(2, 2)
    )
    found = module.gaps(two_bins, 0)
    assert found.tested[:, 1].tolist() == [True, True]
    assert found.jointly[:, 1].tolist() == [True, False]


def test_the_joint_test_adds_up_independent_bins():
    found = module.gaps(tally(*world(9, rows=2_000)), 0, "HC1")
    assert found.tested[:, 1:].all()
    bins = [joint.bin_test(found, b).statistic for b in range(4)]
    assert joint.joint_test(found).statistic == pytest.approx(sum(bins), rel=1e-10)
    assert joint.joint_test(found).gaps == 8


def test_clusters_link_the_bins_as_one_stacked_regression_would():
    """All bins in one design matrix, clustered: the same covariance up to the small-sample factors."""
    s, y, b, g, c = world(10, rows=600, groups=2, bins=3)
    found = module.gaps(tally(s, y, b, g, c), 0, "cluster")
    x = np.column_stack([(b == k) * w for k in range(3) for w in ((g == 1) * 1.0, np.ones(len(s)), s)])
    fit = sm.OLS(y, x).fit(cov_type="cluster", cov_kwds={"groups": c, "use_correction": False})
    where = [0, 3, 6]
    n = np.bincount(b)
    held = np.array([len(set(c[b == k])) for k in range(3)])
    root = np.sqrt(held / (held - 1) * (n - 1) / (n - 3))
    expected = fit.cov_params()[np.ix_(where, where)] * root[:, None] * root
    np.testing.assert_allclose(found.across[1::2, 1::2], expected, rtol=1e-8)


def test_bins_can_be_merged_after_the_fact():
    s, y, b, g, c = world(11, rows=900, bins=8, outcome="continuous", scores="heavy tail")
    merged = tally(s, y, b, g, c).merged(np.arange(8) // 3)
    direct = tally(s, y, b // 3, g, c)
    for covariance in COVARIANCES:
        one, other = (module.gaps(m, 0, covariance) for m in (merged, direct))
        np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-8)
        np.testing.assert_allclose(one.block, other.block, rtol=1e-7, atol=1e-30)
    np.testing.assert_allclose(merged.mean_outcome, direct.mean_outcome, rtol=1e-10)
    assert (merged.rows == direct.rows).all()


def test_a_batch_of_worlds_equals_a_loop():
    worlds = [tally(*world(seed, bins=3)) for seed in range(3)]
    fields = ("sums", "origin", "level", "slope", "low", "high", "above", "below")
    batch = Moments(**{name: np.stack([getattr(w, name) for w in worlds]) for name in fields})
    for covariance in ("HC1", "classical"):
        found = module.gaps(batch, 0, covariance)
        for i, w in enumerate(worlds):
            one = module.gaps(w, 0, covariance)
            np.testing.assert_allclose(found.estimate[i], one.estimate)
            np.testing.assert_allclose(found.error[i], one.error)


rows_strategy = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(0, 2)), min_size=8, max_size=60)


@given(rows_strategy, st.integers(-5, 5), st.integers(1, 9))
def test_gaps_scale_with_the_outcome_and_ignore_the_scale_of_the_score(rows, shift, factor):
    s, y, g = (np.array(column, float) for column in zip(*rows, strict=True))
    g = g.astype(int)
    zero = np.zeros(len(s), int)
    plain_gaps = module.gaps(Moments.from_arrays(s, y, zero, g, shape=(1, 3)), 0)
    moved = module.gaps(Moments.from_arrays(factor * s + shift, factor * y + shift, zero, g, shape=(1, 3)), 0)
    np.testing.assert_allclose(moved.estimate, factor * plain_gaps.estimate, atol=1e-9)
    np.testing.assert_allclose(moved.error, factor * plain_gaps.error, atol=1e-7)  # the root of a sum that cancels


@given(rows_strategy)
def test_swapping_two_groups_flips_the_sign(rows):
    s, y, g = (np.array(column, float) for column in zip(*rows, strict=True))
    g = g.astype(int) % 2
    m = Moments.from_arrays(s, y, np.zeros(len(s), int), g, shape=(1, 2))
    one, other = module.gaps(m, 0), module.gaps(m, 1)
    np.testing.assert_allclose(one.estimate[0, 1], -other.estimate[0, 0], atol=1e-12)
    np.testing.assert_allclose(one.error[0, 1], other.error[0, 0], atol=1e-12)


@given(rows_strategy)
def test_residuals_add_up_to_zero_in_every_cell(rows):
    s, y, g = (np.array(column, float) for column in zip(*rows, strict=True))
    m = Moments.from_arrays(s, y, np.zeros(len(s), int), g.astype(int), shape=(1, 3))
    fitted = module.lines(m)
    residual = m.measured_from(np.nan_to_num(fitted.level), fitted.slope[..., None])
    np.testing.assert_allclose(residual.sums[..., 0, 1], 0, atol=1e-9)


def one_bin(s, y, g, reference=0, covariance="HC1", groups=2):
    m = Moments.from_arrays(s, y, np.zeros(len(s), int), g, shape=(1, groups), cluster=np.arange(len(s)) // 2)
    found = module.gaps(m, reference, covariance)
    return found, module.reasons(m, found)[0]


def test_a_group_that_is_absent_has_no_gap():
    found, why = one_bin([1, 2, 3, 4.0], [0, 1, 0, 1], [0, 0, 2, 2], groups=3)
    assert np.isnan(found.estimate[0, 1])
    assert why == ["", "group_absent", ""]


def test_without_the_reference_there_is_nothing_to_compare_with():
    found, why = one_bin([1, 2, 3.0], [0, 1, 0], [1, 1, 1])
    assert np.isnan(found.estimate).all()
    assert why == ["reference_absent"] * 2


def test_one_group_alone_is_not_compared():
    _, why = one_bin([1, 2, 3.0], [0, 1, 0], [0, 0, 0])
    assert why == ["one_group_only", "group_absent"]


def test_a_score_that_moves_with_the_group_is_collinear():
    found, why = one_bin([1, 1, 2, 2.0], [0, 1, 1, 1], [0, 0, 1, 1])
    assert np.isnan(found.estimate).all()
    assert why == ["collinear"] * 2


def test_a_constant_score_leaves_the_difference_of_means():
    found, why = one_bin([0.1] * 6, [0, 1, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1])
    assert found.estimate[0, 1] == pytest.approx(2 / 3)
    assert not found.lines.scored[0]
    assert why == ["", ""]


def test_as_many_rows_as_coefficients_give_a_gap_without_an_error():
    found, why = one_bin([1, 2, 2.0], [0, 1, 3], [0, 0, 1])
    assert found.estimate[0, 1] == pytest.approx(2)
    assert np.isnan(found.error[0, 1])
    assert why == ["too_short", "too_short"]


def test_one_cluster_gives_no_clustered_error():
    m = Moments.from_arrays([1, 2, 3, 4.0], [0, 1, 1, 0], [0] * 4, [0, 0, 1, 1], shape=(1, 2), cluster=[7] * 4)
    found = module.gaps(m, 0, "cluster")
    assert np.isnan(found.error[0, 1])
    assert module.reasons(m, found)[0] == ["single_member"] * 2


def test_noise_free_outcomes_have_no_error_at_all():
    s = np.tile(np.arange(1, 13) / 20, 2)
    g = np.repeat([0, 1], 12)
    found, _ = one_bin(s, s + 0.5 * g, g)
    assert found.estimate[0, 1] == pytest.approx(0.5, abs=1e-12)
    assert found.error[0, 1] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("rows", "events", "small"), [(29, 10, True), (30, 5, False), (30, 4, True), (40, 35, False), (40, 36, True)]
)
def test_cells_with_few_rows_events_or_non_events_are_small(rows, events, small):
    y = np.concatenate([np.ones(events), np.zeros(rows - events), np.tile([0, 1], 50)])
    s = np.random.default_rng(1).random(len(y))
    found, _ = one_bin(s, y, np.repeat([1, 0], [rows, 100]))
    assert bool(found.small[0, 1]) is small
    assert bool(found.tested[0, 1]) is not small


def test_a_small_cell_stays_out_of_the_joint_test_and_never_out_of_the_pooled_gap():
    rng = np.random.default_rng(2)
    s, y = rng.random(400), rng.random(400)
    b = np.repeat([0, 1], 200)
    g = np.concatenate([rng.integers(0, 2, 200), (np.arange(200) < 10) * 1])
    y[(b == 1) & (g == 1)] += 100
    m = Moments.from_arrays(s, y, b, g, shape=(2, 2))
    found = module.gaps(m, 0)
    assert found.tested[:, 1].tolist() == [True, False]
    assert joint.joint_test(found).gaps == 1
    rows = m.rows[:, 1]
    assert pooled(m, found).estimate[1] == pytest.approx(rows @ found.estimate[:, 1] / rows.sum())


def test_the_pooled_gap_weighs_bins_by_the_rows_of_the_group():
    m = tally(*world(12, rows=3_000, groups=2))
    found = module.gaps(m, 0)
    share = found.rows[:, 1] / found.rows[:, 1].sum()
    assert pooled(m, found).estimate[1] == pytest.approx(share @ found.estimate[:, 1])


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_error_of_the_pooled_gap_is_that_of_rows_without_a_gap(monkeypatch, covariance, groups):
    """By its definition: residuals of each bin's regression without the group's term, times the rows' pull on the gap."""
    monkeypatch.setattr(joint, "leverage_factor", lambda *_: 1.0)  # tests/test_outcome_clusters.py has it
    s, y, b, g, c = world(14, rows=600, groups=groups)
    m = tally(s, y, b, g, c)
    for truth in (0.0, 0.3):
        each, free = np.zeros(len(y)), 0.0
        residuals = np.zeros(len(y))
        for k in range(b.max() + 1):
            at = b == k
            rest = np.column_stack([np.ones(at.sum()), s[at], *[(g[at] == h) * 1.0 for h in range(2, groups)]])
            shifted = y[at] - truth * (g[at] == 1)
            residuals[at] = shifted - rest @ np.linalg.lstsq(rest, shifted, rcond=None)[0]
            full = np.column_stack([(g[at] == 1) * 1.0, rest])
            each[at] = np.linalg.pinv(full)[0] * ((b == k) & (g == 1)).sum() / (g == 1).sum()
            free += at.sum() - rest.shape[1]
        factor = {k: (b == k).sum() / ((b == k).sum() - groups) for k in range(b.max() + 1)}
        wanted = {
            "HC1": sum((each * residuals)[b == k] @ (each * residuals)[b == k] * factor[k] for k in factor),
            "classical": each @ each * (residuals @ residuals) / free,
            "cluster": sum((each * residuals)[c == q].sum() ** 2 for q in set(c.tolist())),
        }[covariance]
        found = pooled(m, module.gaps(m, 0, covariance), covariance)
        assert found.square[1] @ [1, truth, truth**2] == pytest.approx(wanted, rel=1e-8)


def test_the_interval_of_the_pooled_gap_holds_the_truths_that_its_test_does_not_reject():
    s, y, b, g, c = world(15, rows=900, groups=2)
    m = tally(s, y, b, g, c)
    low, high = (end[1] for end in pooled(m, module.gaps(m, 0)).ends(0.95))
    for truth in (low, high):
        moved = tally(s, y - truth * (g == 1), b, g, c)
        assert pooled(moved, module.gaps(moved, 0)).p[1] == pytest.approx(0.05, rel=1e-6)


def test_the_detectable_gap_is_found_with_a_chance_of_80_percent():
    found = module.gaps(tally(*world(13, rows=2_000, groups=2, bins=1)), 0)
    assert found.detectable(0.95)[0, 1] == pytest.approx((1.959964 + 0.841621) * found.error[0, 1], rel=1e-6)


def test_holm_equals_statsmodels():
    p = np.random.default_rng(4).random(12) ** 3
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])


def test_mean_outcomes_and_their_errors():
    s, y, b, g, c = world(14, outcome="continuous")
    m = tally(s, y, b, g, c)
    at = (b == 1) & (g == 2)
    assert m.mean_outcome[1, 2] == pytest.approx(y[at].mean())
    assert module.mean_errors(m)[0][1, 2] == pytest.approx(y[at].std(ddof=1) / math.sqrt(at.sum()))
    fit = sm.OLS(y[at], np.ones(at.sum())).fit(cov_type="cluster", cov_kwds={"groups": c[at]}, use_t=True)
    assert module.mean_errors(m, "cluster")[0][1, 2] == pytest.approx(fit.bse[0], rel=1e-8)


def toys(*names):
    chosen = [c for c in CASES if c["fn"] in names]
    return pytest.mark.parametrize("case", chosen, ids=[c["id"] for c in chosen])


@toys("average_outcome", "marginal_outcome")
def test_toy_worlds_of_the_source(case):
    masses = {plain(q if "/" in q else float(q)): m for q, m in case["args"]["masses"].items()}
    holds(case["expect"], case["tol"], lambda: getattr(metrics, case["fn"])(masses, case["args"]["bar"]))


@toys("equalized_odds_gap")
def test_equalised_odds_of_the_source(case):
    args = case["args"]
    value = lambda text: plain(text) if "/" in str(text) else float(text)  # noqa: E731
    groups = {
        g: [(mass, value(args[f"score_{g}"][q]), value(args["p_y1"][q])) for q, mass in args[f"masses_{g}"].items()]
        for g in "xo"
    }
    holds(case["expect"], case["tol"], lambda: metrics.equalized_odds_gap(groups))


def test_equalised_odds_as_printed_in_the_source_is_no_counterexample():
    """Scores q for O and 1 - q for X on a symmetric distribution: the gap is 0.2, not 0."""
    masses = {0.2: 1, 0.4: 2, 0.6: 2, 0.8: 1}
    o = [(m, q, q) for q, m in masses.items()]
    x = [(m, round(1 - q, 1), q) for q, m in masses.items()]
    assert metrics.equalized_odds_gap({"O": o, "X": x}) == pytest.approx(0.2)


def test_precision_calls_a_fair_rule_unfair_and_an_unfair_one_fair():
    assert metrics.average_outcome({0.6: 4, 0.8: 5, 1: 3}, 0.6) != metrics.average_outcome({0.6: 2, 0.8: 1, 1: 1}, 0.6)
    assert metrics.average_outcome({0.8: 3, 1: 3}, 0.8) == metrics.average_outcome({0.6: 1, 0.8: 1, 1: 4}, 0.6)
    assert metrics.marginal_outcome({0.8: 3, 1: 3}, 0.8) != metrics.marginal_outcome({0.6: 1, 0.8: 1, 1: 4}, 0.6)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: metrics.average_outcome({0.2: 3}, 0.6), "nobody_treated"),
        (lambda: metrics.marginal_outcome({0.9: 0}, 0.6), "empty"),
        (lambda: metrics.equalized_odds_gap({"a": [(1, 0.5, 0.5)]}), "one_group_only"),
        (lambda: metrics.equalized_odds_gap({"a": [(1, 0.5, 0.5)], "b": []}), "group_absent"),
        (lambda: metrics.equalized_odds_gap({"a": [(1, 0.5, 1)], "b": [(1, 0.5, 0.5)]}), "zero_denominator"),
    ],
)
def test_toys_without_a_value_say_why(call, reason):
    with pytest.warns(UndefinedWarning) as caught:
        assert math.isnan(call())
    assert [w.message.reason for w in caught] == [reason]


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.average_outcome({0.2: -1}, 0.6),
        lambda: metrics.average_outcome([1, 2], 0.6),
        lambda: metrics.average_outcome({"x": 1}, 0.6),
        lambda: metrics.equalized_odds_gap({"a": [(1, 0.5)]}),
        lambda: metrics.equalized_odds_gap({"a": [(1, 0.5, 1.5)]}),
    ],
)
def test_toys_refuse_what_is_no_world(call):
    with pytest.raises(EvenhandError):
        call()
