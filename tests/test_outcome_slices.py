"""The outcome test with weights and in slices: weighted least squares as statsmodels has it, every slice as if it were alone."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.stats.multitest import multipletests

import evenhand as eh
from evenhand.cards import REGISTRY
from evenhand.intervals import outcomes
from evenhand.metrics import outcome as module
from evenhand.metrics import outcome_joint as joint
from evenhand.metrics.outcome_joint import pooled
from evenhand.tallies.candidates import Rows
from evenhand.tallies.moments import Moments
from oracles import outcome as oracle
from test_outcome_audit import ENGINES, ROLES, candidates, one, rows_of, same
from test_outcome_metrics import COVARIANCES, error_without_gap, world

KINDS = [(c, o) for c in COVARIANCES for o in ("binary", "continuous", "nearly exact")]


def weighted(seed, **options):
    s, y, b, g, c = world(seed, **options)
    w = np.random.default_rng(seed + 100).gamma(1.5, 2.0, len(s))
    return s, y, b, g, c, w


def tally(s, y, b, g, c, w):
    return Moments.from_arrays(s, y, b, g, shape=(b.max() + 1, g.max() + 1), cluster=c, weight=w)


def fitted(x, y, w, c, covariance):
    model = sm.WLS(y, x, weights=w)
    if covariance == "cluster":
        return model.fit(cov_type="cluster", cov_kwds={"groups": c}, use_t=True)
    return model.fit(cov_type="HC1") if covariance == "HC1" else model.fit()


@pytest.mark.parametrize(("covariance", "outcome"), KINDS)
def test_weighted_gaps_and_errors_equal_statsmodels(covariance, outcome):
    s, y, b, g, c, w = weighted(3, outcome=outcome)
    found = module.gaps(tally(s, y, b, g, c, w), 0, covariance)
    for k in range(b.max() + 1):
        at = b == k
        x = np.column_stack([g[at] == 1, g[at] == 2, np.ones(at.sum()), s[at] - s[at].mean()]).astype(float)
        fit = fitted(x, y[at], w[at], c[at], covariance)
        np.testing.assert_allclose(found.estimate[k, 1:], fit.params[:2], rtol=1e-8, atol=1e-10 * y.std())
        np.testing.assert_allclose(found.error[k, 1:], fit.bse[:2], rtol=1e-8)
        np.testing.assert_allclose(found.p[k, 1:], fit.pvalues[:2], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_weighted_spline_equals_statsmodels_with_hat_functions(monkeypatch, covariance):
    monkeypatch.setattr(joint, "leverage_factor", lambda *_: 1.0)  # statsmodels has none
    s, y, b, g, c, w = weighted(5)
    knots = np.concatenate([[s.min()], [s[b <= k].max() for k in range(b.max() + 1)]])
    hats = np.column_stack([np.interp(s, knots, np.eye(len(knots))[k]) for k in range(len(knots))])
    rows = np.column_stack([g == 1, g == 2, hats]).astype(float)
    fit = fitted(rows, y, w, c, covariance)
    found = joint.spline(tally(s, y, b, g, c, w), 0, covariance)
    without_gap = [error_without_gap(rows, y, c, j, w) for j in range(2)]
    np.testing.assert_allclose(found.estimate[1:], fit.params[:2], rtol=1e-8)
    np.testing.assert_allclose(found.error[1:], without_gap if covariance == "cluster" else fit.bse[:2], rtol=1e-8)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_weighted_pooled_gap_has_the_error_of_rows_without_a_gap(monkeypatch, covariance):
    monkeypatch.setattr(joint, "leverage_factor", lambda *_: 1.0)
    s, y, b, g, c, w = weighted(8, groups=2)
    m = tally(s, y, b, g, c, w)
    found = pooled(m, module.gaps(m, 0, covariance), covariance)
    mine = np.bincount(b[g == 1], w[g == 1])
    gaps, pulls, squares = [], np.zeros(len(s)), np.zeros(b.max() + 1)
    for k in range(b.max() + 1):
        at = b == k
        full = np.column_stack([np.ones(at.sum()), g[at], s[at]])
        bread = np.linalg.inv(full.T @ (full * w[at, None]))
        gaps.append((bread @ full.T @ (w[at] * y[at]))[1])
        plain = fitted(full[:, [0, 2]], y[at], w[at], c[at], "classical")
        n, k_null = at.sum(), 2
        share = mine[k] / mine.sum()
        pulls[at] = share * (bread @ full.T)[1] * w[at] * plain.resid
        if covariance == "HC1":
            squares[k] = (pulls[at] ** 2).sum() * n / (n - k_null)
        elif covariance == "classical":
            squares[k] = share**2 * bread[1, 1]
    assert found.estimate[1] == pytest.approx(np.average(gaps, weights=mine))
    if covariance == "cluster":
        variance = sum(pulls[c == one_cluster].sum() ** 2 for one_cluster in set(c))
    elif covariance == "HC1":
        variance = squares.sum()
    else:
        null = [
            fitted(np.column_stack([np.ones((b == k).sum()), s[b == k]]), y[b == k], w[b == k], None, "classical")
            for k in range(b.max() + 1)
        ]
        variance = squares.sum() * sum(f.ssr for f in null) / sum(f.df_resid for f in null)
    assert found.error[1] == pytest.approx(math.sqrt(variance), rel=1e-8)


def test_the_error_of_a_weighted_mean_is_that_of_a_weighted_constant():
    s, y, b, g, c, w = weighted(4)
    for covariance in ("HC1", "cluster"):
        m = tally(s, y, b, g, c, w)
        error, _ = module.mean_errors(m, covariance)
        at = (b == 1) & (g == 2)
        model = sm.WLS(y[at], np.ones(at.sum()), weights=w[at])
        kwds = {"groups": c[at]}
        fit = model.fit(cov_type="HC1") if covariance == "HC1" else model.fit(cov_type="cluster", cov_kwds=kwds)
        assert m.mean_outcome[1, 2] == pytest.approx(fit.params[0])
        assert error[1, 2] == pytest.approx(fit.bse[0])


def test_weights_of_bins_can_be_merged_after_the_fact():
    s, y, b, g, c, w = weighted(6, bins=4)
    fine = tally(s, y, b, g, c, w).merged(np.array([0, 0, 1, 1]))
    coarse = tally(s, y, b // 2, g, c, w)
    for covariance in COVARIANCES:
        here, there = (module.gaps(m, 0, covariance) for m in (fine, coarse))
        np.testing.assert_allclose(here.estimate, there.estimate)
        np.testing.assert_allclose(here.error, there.error)
        assert here.total_freedom == pytest.approx(there.total_freedom)


def with_weights(rows=1_500, seed=4):
    frame = candidates(rows, seed=seed, gap=0.1)
    rng = np.random.default_rng(seed)
    return frame.with_columns(w=rng.gamma(2, 1, rows), land=pl.Series(rng.choice(["at", "de", "ch"], rows)))


def numbers(result, *left):
    return {k: v for k, v in result.findings.columns.items() if k not in left}


@pytest.mark.parametrize("covariance", ["HC1", "cluster"])
def test_a_weighted_test_equals_statsmodels_bin_by_bin_on_every_engine(covariance):
    frame = with_weights()
    call = {**ROLES, "reference": "m", "weight": "w", "bins": 4, "covariance": covariance, "cluster": "q"}
    results = [eh.outcome_test(make(frame), **call) for make in ENGINES.values()]
    for other in results[1:]:
        same(results[0].findings.columns, other.findings.columns)
    scope = results[0].provenance["scope"]
    inside = frame.filter(pl.col("s").is_between(scope["low"], scope["high"])).to_pandas()
    inner = oracle.edges(inside["s"].tolist(), 4)
    inside["bin"] = [oracle.bin_of(s, inner) + 1 for s in inside["s"]]
    for b in range(1, 5):
        part = inside[inside["bin"] == b]
        kwds = {"cov_type": "cluster", "cov_kwds": {"groups": part["q"]}, "use_t": True}
        how = kwds if covariance == "cluster" else {"cov_type": "HC1"}
        fit = smf.wls("y ~ C(g, Treatment('m')) + s", part, weights=part["w"]).fit(**how)
        row = one(results[0], "outcome_gap", bin=b, group="f")
        assert row["estimate"] == pytest.approx(fit.params["C(g, Treatment('m'))[T.f]"], rel=1e-8)
        assert row["se"] == pytest.approx(fit.bse["C(g, Treatment('m'))[T.f]"], rel=1e-8)
        assert row["units"] == (part["g"] == "f").sum()
    mean = np.average(frame.filter(g="f")["y"], weights=frame.filter(g="f")["w"])
    assert one(results[0], "base_rate", group="f")["estimate"] == pytest.approx(mean)


def test_weights_of_one_change_nothing_and_their_scale_neither():
    frame = with_weights()
    plain = eh.outcome_test(frame, **ROLES, request="q")
    same(
        plain.findings.columns,
        eh.outcome_test(frame.with_columns(w=1), **ROLES, request="q", weight="w").findings.columns,
    )
    one_way, other = (
        eh.outcome_test(frame.with_columns(w=pl.col("w") * k), **ROLES, weight="w").findings.columns for k in (1, 1e6)
    )
    same(one_way, other)


def test_whole_weights_give_the_estimates_of_repeated_rows():
    frame = candidates(600, gap=0.1).with_columns(w=pl.Series(np.random.default_rng(2).integers(1, 4, 600)))
    edges = {"bins": [0.3, 0.6]}
    here = eh.outcome_test(frame, **ROLES, weight="w", **edges)
    there = eh.outcome_test(frame.select(pl.exclude("w").repeat_by("w").explode()), **ROLES, **edges)
    for metric in ("outcome_gap", "mean_outcome", "pooled_gap", "spline_gap", "base_rate", "equalized_odds_gap"):
        got = [[r["estimate"] for r in rows_of(result, metric)] for result in (here, there)]
        assert got[0] == pytest.approx(got[1]), metric


def test_a_weight_of_zero_is_no_row_and_is_counted():
    frame = with_weights()
    none = pl.DataFrame({"s": [-5.0], "y": [1], "g": ["u"], "q": [0], "w": [0.0], "land": ["at"]}, schema=frame.schema)
    plain, padded = (eh.outcome_test(f, **ROLES, weight="w") for f in (frame, pl.concat([frame, none])))
    same(plain.findings.columns, padded.findings.columns)
    assert padded.provenance["dropped"] == {"weight='w' is zero": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"w": -1.0}, "weight='w' is negative or infinite in 1,500 rows"),
        ({"w": math.inf}, "weight='w' is negative or infinite in 1,500 rows"),
        ({"w": None}, "weight='w' is missing"),
        ({"w": "x"}, "weight='w' holds text, not numbers"),
    ],
)
def test_bad_weights_say_what_is_wrong(change, said):
    with pytest.raises(eh.EvenhandError, match=said.replace("(", r"\(")):
        eh.outcome_test(with_weights().with_columns(w=pl.lit(change["w"])), **ROLES, weight="w")


def test_slots_are_not_given_to_weighted_rows():
    with pytest.raises(eh.EvenhandError, match="weight= makes a row stand for several"):
        eh.outcome_test(with_weights(), **ROLES, weight="w").counterfactual()


@pytest.mark.parametrize("more", [{"request": "q"}, {"weight": "w"}, {"kind": "classification", "threshold": 0.4}])
def test_every_slice_is_tested_as_if_it_were_alone_and_p_is_adjusted_over_all(more):
    frame = with_weights()
    result = eh.outcome_test(frame, **ROLES, reference="m", by="land", bins=4, **more)
    assert result.findings.slices == ("land",)
    for land in ("at", "ch", "de"):
        alone = eh.outcome_test(frame.filter(land=land), **ROLES, reference="m", bins=4, **more)
        mine = [r for r in result.findings.rows() if r.pop("land") == land]
        for here, there in zip(mine, alone.findings.rows(), strict=True):
            here.pop("p_adjusted"), there.pop("p_adjusted")
            assert here == pytest.approx(there, nan_ok=True)
    claimed = [c.p for c in result.claims if math.isfinite(c.p)]
    assert sorted(c.p_adjusted for c in result.claims if math.isfinite(c.p)) == pytest.approx(
        sorted(multipletests(claimed, method="holm")[1])
    )
    for row in rows_of(result, "pooled_gap"):
        claim = result.findings.claim(row)
        assert claim is None or row["p_adjusted"] == pytest.approx(claim.p_adjusted, nan_ok=True)
    for metric in ("outcome_gap", "spline_gap", "joint_test(bins=2)"):
        rows = [r for r in rows_of(result, metric) if math.isfinite(r["p_adjusted"])]
        expected = multipletests([r["p"] for r in rows], method="holm")[1]
        assert [r["p_adjusted"] for r in rows] == pytest.approx(expected.tolist())
    points = result.findings.curves["calibration"]
    assert len(set(points["land"])) == 3
    assert set(result.provenance["slices"]) == {"land=at", "land=ch", "land=de"}
    assert result.sentences()[0].startswith("For land at: At equal score")
    assert {r["land"] for r in result.only("joint_test").findings.rows()} == {"at", "ch", "de"}


def test_the_reference_is_one_for_all_slices_and_a_slice_without_it_says_so():
    frame = with_weights()
    frame = frame.filter((pl.col("land") != "ch") | (pl.col("g") != "m"))
    most = frame.group_by("g").len().sort("len")["g"][-1]
    result = eh.outcome_test(frame, **ROLES, by="land")
    assert result.findings.words["reference"] == most
    lost = eh.outcome_test(frame, **ROLES, reference="m", by="land", bins=2)
    assert {r["note"] for r in lost.findings.rows() if r["land"] == "ch"} == {"reference_absent"}
    assert all(math.isfinite(r["p"]) for r in rows_of(lost, "joint_test") if r["land"] != "ch")


def test_slices_may_be_weeks_missing_or_several():
    frame = with_weights().with_columns(
        week=pl.when(pl.col("q") % 3 == 0).then(None).otherwise(pl.date(2026, 11, 16)),
        half=(pl.col("q") % 2).cast(pl.Float64),
    )
    result = eh.outcome_test(frame, **ROLES, by=["week", "half"], bins=2, metrics="joint_test")
    assert [(r["week"] is None, r["half"]) for r in result.findings.rows()] == [
        (False, 0),
        (False, 1),
        (True, 0),
        (True, 1),
    ]
    assert result.provenance["rows"] == frame.height


def test_small_groups_of_a_slice_are_left_out_of_that_slice():
    frame = with_weights()
    few = frame.filter((pl.col("land") == "at") & (pl.col("g") == "u"))[:4]
    frame = pl.concat([frame.filter((pl.col("land") != "at") | (pl.col("g") != "u")), few])
    result = eh.outcome_test(frame, **ROLES, reference="m", by="land", bins=2, min_units=5)
    notes = {(r["land"], r["group"]): r["note"] for r in rows_of(result, "pooled_gap")}
    assert notes["at", "u"] == "suppressed"
    assert "suppressed" not in (notes["de", "u"] or "")


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("g", "by='g' is also the group"),
        ("nowhere", "by='nowhere' is not a column"),
        (["land", "land"], "by names 'land' twice"),
        ("s", "more than the 500 that can be tested"),
    ],
)
def test_slices_that_make_no_sense_are_refused(by, said):
    with pytest.raises(eh.EvenhandError, match=said):
        eh.outcome_test(with_weights(), **ROLES, by=by)


def test_slots_are_given_again_slice_by_slice():
    frame = with_weights().with_columns(t=pl.Series(np.random.default_rng(1).integers(0, 2, 1_500)))
    call = {**ROLES, "request": "q", "treated": "t", "reference": "m", "bins": 2}
    together = eh.outcome_test(frame, **call, by="land").counterfactual(null_draws=19, rng=3)
    for land in ("at", "de"):
        alone = eh.outcome_test(frame.filter(land=land), **call).counterfactual(null_draws=19, rng=3)
        mine = [r for r in together.findings.rows() if r.pop("land") == land]
        for here, there in zip(mine, alone.findings.rows(), strict=True):
            here.pop("p_adjusted"), there.pop("p_adjusted")
            assert here == pytest.approx(there, nan_ok=True)
    assert all("land" in said for said in together.sentences())
    assert together.plot("slots") is not None


def test_pictures_of_slices_have_a_panel_for_each(tmp_path):
    result = eh.outcome_test(with_weights(), **ROLES, reference="m", by="land", bins=3)
    for kind, panels in (("outcomes", 1), ("calibration", 1), ("gaps", 2)):
        assert json.dumps(result.plot(kind).to_dict()).count('land=at"') == panels, kind
    assert "land" in result.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_pooled_gap_is_given_with_and_without_the_scores_that_all_groups_share():
    frame = candidates(2_000, gap=0.1)
    tiny = pl.DataFrame({"s": [0.45, 0.5, 0.55], "y": [0, 1, 1], "g": ["x"] * 3, "q": [0, 1, 2]}, schema=frame.schema)
    cut = eh.outcome_test(pl.concat([frame, tiny]), **ROLES, reference="m")
    free = eh.outcome_test(frame, **ROLES, reference="m", bins=cut.provenance["bins"]["edges"])
    everyone = one(cut, "pooled_gap(support='all')", group="f")
    assert one(cut, "pooled_gap", group="f")["units"] < everyone["units"] == (frame["g"] == "f").sum()
    assert everyone["share_used"] == 1
    assert everyone["estimate"] == pytest.approx(0.1, abs=0.06)
    whole = [one(free, metric, group="f") for metric in ("pooled_gap", "pooled_gap(support='all')")]
    low, high = free.provenance["scope"]["low"], free.provenance["scope"]["high"]
    assert whole[1]["units"] == (frame["g"] == "f").sum()
    assert whole[0]["units"] == frame.filter((pl.col("g") == "f") & pl.col("s").is_between(low, high)).height
    assert "including those that do not occur in every group" in cut.only("pooled_gap(support='all')").sentences()[0]


def kolmogorov(rows, group, reference, *, opportunity):
    """By the definition: every cut of the outcome, every score, weighted shares below it."""
    grades = sorted({r["y"] for r in rows})[1:]
    sides = [(lambda r, c=c: r["y"] >= c) for c in grades]
    sides += [] if opportunity else [(lambda r, c=c: r["y"] < c) for c in grades]
    most = 0.0
    for given in sides:
        mine, theirs = ([r for r in rows if r["g"] == g and given(r)] for g in (group, reference))
        for s in {r["s"] for r in rows}:
            shares = [sum(r["w"] for r in part if r["s"] <= s) / sum(r["w"] for r in part) for part in (mine, theirs)]
            most = max(most, abs(shares[0] - shares[1]))
    return most


@pytest.mark.parametrize("grades", [2, 4])
def test_odds_and_opportunity_are_kolmogorov_distances_also_with_weights_and_grades(grades):
    rng = np.random.default_rng(grades)
    frame = pl.DataFrame({"s": rng.random(500).round(2), "y": rng.integers(0, grades, 500), "w": rng.gamma(2, 1, 500)})
    frame = frame.with_columns(g=pl.Series(rng.choice(["f", "m"], 500)))
    rows = frame.to_dicts()
    result = eh.outcome_test(frame, **ROLES, reference="m", weight="w", bins=2)
    for metric, opportunity in (("equalized_odds_gap", False), ("equal_opportunity_gap", True)):
        found = one(result, metric, group="f")
        assert found["estimate"] == pytest.approx(kolmogorov(rows, "f", "m", opportunity=opportunity))
        assert 0 <= found["low"] <= found["estimate"] <= found["high"] <= 1
        assert found["low"] < found["high"]
        assert found["chance"] > 0


@pytest.mark.parametrize("shift", [0.0, 0.15])
def test_the_interval_of_a_distance_holds_the_truth_also_where_there_is_none(shift, monkeypatch):
    for name, fewer in {"DRAWS": 1, "MULTIPLIERS": 99}.items():
        monkeypatch.setattr(outcomes, name, fewer)
    truth = 1 - (1 - shift) if shift else 0.0  # uniform scores, one group's moved up
    held = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, int(100 * shift)])
        g = rng.integers(0, 2, 400)
        rows = Rows.from_arrays(rng.random(400) + shift * g, outcome=rng.integers(0, 2, 400), groups=g)
        found = outcomes.odds_gaps(rows, 1, 0, 0.95, [False])[0]
        held += found.low <= truth <= found.high
    assert held >= 54


def test_every_deal_of_the_labels_is_as_likely_as_any_other():
    deals = outcomes._permuted(2, 5, 20_000, np.random.default_rng(4))
    assert (deals.sum(1) == 2).all()
    _, counts = np.unique(deals, axis=0, return_counts=True)
    assert len(counts) == math.comb(5, 2)
    assert abs(counts - 2_000).max() < 5 * math.sqrt(2_000 * 0.9)


def test_noise_moves_a_distribution_function_as_summed_row_by_row():
    rng = np.random.default_rng(6)
    drawn, scale, at = rng.normal(size=(2, 30, 7)).astype(np.float32), rng.random((2, 30)), np.arange(0, 30, 3)
    scale[:, np.setdiff1d(np.arange(30), at)] = 0.0  # cells without rows
    share = np.cumsum(rng.dirichlet(np.ones(len(at))))
    walk = np.cumsum(np.einsum("gc,gcd->cd", scale, drawn), axis=0)[at]
    assert outcomes._bridge(drawn, scale, share, at) == pytest.approx(walk - np.outer(share, walk[-1]), abs=1e-5)


def test_a_distance_is_the_same_asked_for_alone_or_beside_another():
    rng = np.random.default_rng(8)
    g, y = rng.integers(0, 2, 900), rng.integers(0, 3, 900)
    rows = Rows.from_arrays(rng.integers(0, 40, 900) + g, outcome=y, groups=g, weight=rng.integers(1, 4, 900))
    both = outcomes.odds_gaps(rows, 1, 0, 0.95, [False, True])
    assert both == [*outcomes.odds_gaps(rows, 1, 0, 0.95, [False]), *outcomes.odds_gaps(rows, 1, 0, 0.95, [True])]
    assert both[1].estimate == pytest.approx(
        eh.metrics.equal_opportunity_gap(rows.score, outcome=y, groups=g, weight=rows.weight)
    )


def test_shared_shocks_widen_the_interval_of_a_distance():
    rng = np.random.default_rng(5)
    n, clusters = 1_200, 40
    c = rng.integers(0, clusters, n)
    g = c % 2
    s = rng.normal(size=n) + rng.normal(size=clusters)[c]
    frame = pl.DataFrame({"s": s, "y": rng.integers(0, 2, n), "g": pl.Series(g).cast(str), "q": c})
    width = {}
    for how in ("HC1", "cluster"):
        row = one(
            eh.outcome_test(frame, **ROLES, cluster="q", covariance=how, reference="0"),
            "equal_opportunity_gap",
            group="1",
        )
        width[how] = row["high"] - row["low"]
    assert width["cluster"] > 1.3 * width["HC1"]


@pytest.mark.parametrize("more", [{}, {"request": "q"}, {"weight": "w"}])
def test_gaps_of_rates_have_the_interval_of_a_regression_of_the_treatment(more):
    rng = np.random.default_rng(7)
    frame = with_weights().with_columns(t=pl.Series(rng.random(1_500) < 0.5).cast(int)).filter(pl.col("g") != "u")
    found = one(
        eh.outcome_test(frame, **ROLES, treated="t", reference="m", **more), "true_positive_rate_gap", group="f"
    )
    part = frame.filter(y=1).to_pandas()
    design = sm.add_constant((part["g"] == "f").astype(float))
    fit = sm.WLS(part["t"], design, weights=part["w"] if "weight" in more else 1.0)
    clustered = {"cov_type": "cluster", "cov_kwds": {"groups": part["q"]}}
    fit = fit.fit(**(clustered if "request" in more else {"cov_type": "HC1"}))
    assert found["estimate"] == pytest.approx(fit.params.iloc[1])
    assert (found["high"] - found["low"]) / 2 / fit.bse.iloc[1] == pytest.approx(1.97, abs=0.03)


def test_the_reference_has_no_gap_to_itself_and_says_so_instead_of_an_interval():
    result = eh.outcome_test(with_weights(), **ROLES, reference="m", bins=2)
    for metric in ("equalized_odds_gap", "equal_opportunity_gap", "pooled_gap", "spline_gap"):
        row = one(result, metric, group="m")
        assert (row["estimate"], row["note"]) == (0, "reference")
        assert math.isnan(row["low"])
        assert math.isnan(row["high"])


def test_rows_of_every_metric_have_a_card():
    frame = with_weights().with_columns(t=(pl.col("s") > 0.4).cast(int))
    tested = eh.outcome_test(frame, **ROLES, treated="t", request="q", kind="classification", threshold=0.2)
    names = {
        m.partition("(")[0] for r in (tested, tested.counterfactual(null_draws=9, rng=1)) for m in r.findings.metrics()
    }
    assert names <= set(REGISTRY)
    assert {"joint_test", "lowest_bin", "precision", "calibration_gap", "slots_gained", "bin_test"} <= names
    chosen = eh.outcome_test(frame, **ROLES, metrics=["joint_test", "equalized_odds_gap", "true_positive_rate_gap"])
    assert {r["note"] for r in rows_of(chosen, "true_positive_rate_gap")} == {"nobody_left_out"}


@pytest.mark.parametrize("by", [None, "land"])
def test_who_can_fix_what_is_a_table_of_findings(by, tmp_path):
    result = eh.outcome_test(with_weights(4_000), **ROLES, reference="m", by=by)
    table = result.remedies.to_dicts()
    assert len(table) == 2 * 2 * (3 if by else 1)
    gaps = {tuple(r[k] for k in ("group", *([by] if by else []))): r for r in rows_of(result, "pooled_gap")}
    for r in table:
        assert {r["change_scores"], r["change_product"]} == {"works", "does not work"}
        if r["source"] == "people":
            assert (r["found"], r["change_product"]) == ("not tested", "works")
            continue
        gap = gaps[tuple(r[k] for k in ("group", *([by] if by else [])))]
        assert r["change_scores"] == "works"
        assert r["estimate"] == gap["estimate"]
        assert r["found"] == ("found" if gap["p_adjusted"] < 0.05 else "not found")
    if not by:
        assert {(r["group"], r["found"]) for r in table if r["source"] == "algorithm"} == {
            ("f", "found"),
            ("u", "not found"),
        }
        again = eh.read.result(_saved(result, tmp_path))
        assert again.findings.curves["remedies"]["found"] == result.findings.curves["remedies"]["found"]
        assert "Bias of the algorithm: found for f; not found for u" in result.report(tmp_path / "p.html").read_text()


def _saved(result, folder):
    result.to_json(folder / "r.json")
    return folder / "r.json"


@pytest.mark.parametrize("rare", [False, True])
def test_the_chance_of_odds_gaps_from_rows_spread_over_the_scores_is_that_of_all_rows(rare, monkeypatch):
    rng, many = np.random.default_rng(5), 12_000
    outcome = (rng.random(many) < (0.05 if rare else 0.5)).astype(float)
    rows = Rows.from_arrays(rng.normal(size=many), outcome=outcome, groups=(rng.random(many) < 0.3).astype(int))
    whole = outcomes.odds_gaps(rows, 1, 0, 0.95, [False, True])
    monkeypatch.setattr(outcomes, "SPREAD", 2_000)
    kept = len(range(many)[outcomes._every_nth(many, [int(outcome.sum())])])
    assert kept == (6_000 if rare else 2_000)
    for some, every in zip(outcomes.odds_gaps(rows, 1, 0, 0.95, [False, True]), whole, strict=True):
        assert (some.estimate, some.low, some.high) == (every.estimate, every.low, every.high)
        assert some.chance == pytest.approx(every.chance, rel=0.1)  # some four errors of its draws
