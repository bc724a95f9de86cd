"""The outcome test from a table to an answer: every engine, every role, every way in and out."""

from __future__ import annotations

import json
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.cli import main
from evenhand.report.words.sentences import writer_for
from golden_cases import CASES
from oracles import outcome as oracle

ENGINES = {
    "polars": lambda frame: frame,
    "polars-lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
}
ROLES = {"score": "s", "outcome": "y", "group": "g"}


def candidates(rows=2_000, seed=1, gap=0.0, requests=100):
    """Scores that are the chance of a good outcome, but for a gap of the group "f"."""
    rng = np.random.default_rng(seed)
    g = rng.choice(["f", "m", "u"], rows, p=[0.4, 0.4, 0.2])
    s = np.clip(rng.beta(2, 2, rows) + 0.05 * (g == "m"), 0.01, 0.99)
    y = (rng.random(rows) < np.clip(s + gap * (g == "f"), 0, 1)) * 1
    return pl.DataFrame({"s": s, "y": y, "g": g, "q": rng.integers(0, requests, rows)})


def rows_of(result, metric, **where):
    found = [r for r in result.findings.rows() if r["metric"] == metric]
    return [r for r in found if all(r[k] == v for k, v in where.items())]


def one(result, metric, **where):
    found = rows_of(result, metric, **where)
    assert len(found) == 1
    return found[0]


def same(here, there):
    """Numbers to 1e-9, everything else exactly."""
    assert list(here) == list(there)
    for name in here:
        for one_value, other in zip(here[name], there[name], strict=True):
            if isinstance(one_value, float):
                assert other == pytest.approx(one_value, rel=1e-9, abs=1e-12, nan_ok=True), name
            else:
                assert other == one_value, name


def test_every_engine_gives_the_same_numbers():
    frames = [eh.outcome_test(make(candidates()), **ROLES, request="q").findings for make in ENGINES.values()]
    for other in frames[1:]:
        same(frames[0].columns, other.columns)
        same(frames[0].curves["calibration"], other.curves["calibration"])


def test_the_order_of_the_rows_changes_nothing():
    frame = candidates()
    shuffled = frame.sample(fraction=1, shuffle=True, seed=3)
    same(*(eh.outcome_test(f, **ROLES, cluster="q").findings.columns for f in (frame, shuffled)))


@pytest.mark.parametrize("covariance", ["HC1", "classical", "cluster"])
def test_gaps_equal_statsmodels_bin_by_bin(covariance):
    frame = candidates()
    result = eh.outcome_test(frame, **ROLES, reference="m", covariance=covariance, cluster="q")
    low, high = _support(frame)
    inside = frame.filter(pl.col("s").is_between(low, high)).to_pandas()
    inner = oracle.edges(inside["s"].tolist(), 10)
    inside["bin"] = [oracle.bin_of(s, inner) + 1 for s in inside["s"]]
    for b in range(1, 11):
        part = inside[inside["bin"] == b]
        how = (
            {"cov_type": "cluster", "cov_kwds": {"groups": part["q"]}, "use_t": True} if covariance == "cluster" else {}
        )
        how |= {"cov_type": "HC1"} if covariance == "HC1" else {}
        fit = smf.ols("y ~ C(g, Treatment('m')) + s", part).fit(**how)
        for g in ("f", "u"):
            row = one(result, "outcome_gap", bin=b, group=g)
            name = f"C(g, Treatment('m'))[T.{g}]"
            assert row["estimate"] == pytest.approx(fit.params[name], rel=1e-8)
            assert row["se"] == pytest.approx(fit.bse[name], rel=1e-8)
            assert row["p"] == pytest.approx(fit.pvalues[name], rel=1e-7)
            assert row["slope"] == pytest.approx(fit.params["s"], rel=1e-8)
            assert row["intercept"] == pytest.approx(fit.params["Intercept"], rel=1e-8)
            assert [row["low"], row["high"]] == pytest.approx(fit.conf_int().loc[name].tolist(), rel=1e-7)
            assert row["units"] == (part["g"] == g).sum()


def _support(frame):
    ends = frame.group_by("g").agg(pl.col("s").min().alias("low"), pl.col("s").max().alias("high"))
    return ends["low"].max(), ends["high"].min()


GOLDEN = {c["id"]: c for c in CASES if c["fn"].startswith("outcome_")}


def table_of(case):
    rows = case["args"]["rows"]
    return pl.DataFrame(
        {"g": [r["group"] for r in rows], "s": [r["score"] for r in rows], "y": [float(r["y"]) for r in rows]}
    )


@pytest.mark.parametrize("case", [c for c in GOLDEN.values() if "beta" in c["expect"]], ids=lambda c: c["id"])
def test_regressions_of_the_formula_book(case):
    args, expect = case["args"], case["expect"]
    lowest = min(r["score"] for r in args["rows"])
    kind = (
        {"kind": "ranking"}
        if "ranking" in case["fn"]
        else {"kind": "classification", "threshold": args.get("threshold", lowest)}
    )
    for covariance, errors in (("HC1", "se_hc1"), ("classical", "se_classical")):
        result = eh.outcome_test(
            table_of(case), **ROLES, reference=args["ref"], bins=args.get("bins", 1), covariance=covariance, **kind
        )
        for g, gap in expect["beta"].items():
            row = one(result, "outcome_gap", bin=1, group=g)
            assert row["estimate"] == pytest.approx(gap, abs=case["tol"])
            assert row["se"] == pytest.approx(expect[errors][g], abs=case["tol"])
            assert row["intercept"] == pytest.approx(expect["alpha"], abs=case["tol"])
            assert row["slope"] == pytest.approx(expect["gamma"], abs=case["tol"])
        assert sum(r["units"] for r in rows_of(result, "outcome_gap", bin=1)) == expect["n"]


def test_one_group_alone_of_the_formula_book():
    case = GOLDEN["outcome-018"]
    result = eh.outcome_test(table_of(case), **ROLES, reference="F", bins=1)
    row = one(result, "outcome_gap", group="F")
    assert math.isnan(row["estimate"])
    assert row["note"] == case["expect"]["nan"]


def test_a_reference_that_is_not_in_the_table_is_an_error():
    with pytest.raises(eh.EvenhandError, match="reference='F' is no label of"):
        eh.outcome_test(table_of(GOLDEN["outcome-019"]), **ROLES, reference="F", bins=1)


def test_bin_edges_of_the_formula_book():
    scores = [1, 1, 1, 1, 2, 3]
    frame = pl.DataFrame({"s": scores * 2, "y": [0, 1] * 6, "g": ["a"] * 6 + ["b"] * 6})
    result = eh.outcome_test(frame, **ROLES, bins=3)
    assert result.provenance["bins"] == {
        "asked": 3,
        "made": 2,
        "edges": [1.0],
        "rule": "right-closed; equal edges merged",
    }
    assert [r["units"] for r in rows_of(result, "outcome_gap", group="a")] == [4, 2]
    assert one(result, "outcome_gap", group="a", bin=1)["note"] == "reference; constant_score"


def test_a_reference_absent_from_a_bin_is_noted_there():
    frame = pl.DataFrame({"s": [1.0, 2, 3, 4, 5, 6], "y": [0, 1, 0, 1, 0, 1], "g": ["a", "b", "b", "b", "b", "a"]})
    result = eh.outcome_test(frame, **ROLES, reference="a", bins=[1.5, 4.5], kind="classification")
    assert one(result, "outcome_gap", bin=2, group="b")["note"] == "reference_absent"


def test_the_reference_has_a_row_with_gap_zero_and_is_the_largest_group_by_default():
    result = eh.outcome_test(candidates().filter((pl.col("g") != "f") | (pl.col("s") < 0.4)), **ROLES)
    assert result.provenance["reference"] == "m"
    assert {r["estimate"] for r in rows_of(result, "outcome_gap", group="m")} == {0.0}
    assert all(math.isnan(r["p"]) for r in rows_of(result, "outcome_gap", group="m"))


def test_rankings_are_tested_on_the_scores_that_all_groups_share():
    frame = candidates()
    result = eh.outcome_test(frame, **ROLES)
    low, high = _support(frame)
    assert (result.provenance["scope"]["low"], result.provenance["scope"]["high"]) == (low, high)
    inside = frame.filter(pl.col("s").is_between(low, high))
    assert result.provenance["scope"]["rows"] == inside.height
    assert sum(r["units"] for r in rows_of(result, "outcome_gap")) == inside.height
    assert rows_of(result, "outcome_gap")[0]["bin_low"] == low


def test_groups_without_a_common_score_cannot_be_compared():
    frame = pl.DataFrame({"s": [1.0, 2, 3, 4], "y": [0, 1, 0, 1], "g": ["a", "a", "b", "b"]})
    result = eh.outcome_test(frame, **ROLES)
    assert {r["note"] for r in rows_of(result, "outcome_gap")} == {"no_common_support"}
    assert all(math.isnan(r["estimate"]) for r in rows_of(result, "pooled_gap"))
    assert "do not overlap" in " ".join(result.sentences())


def test_a_tiny_group_that_cuts_the_support_down_is_reported():
    frame = pl.concat(
        [candidates().select("s", "y", "g"), pl.DataFrame({"s": [0.5, 0.52], "y": [0, 1], "g": ["x", "x"]})]
    )
    result = eh.outcome_test(frame, **ROLES)
    assert result.provenance["scope"]["set_by"] == ["x", "x"]
    assert "narrow_support" in one(result, "joint_test")["note"]
    assert "Less than half of the rows" in result.sentences()[0]


def test_classification_tests_the_bin_right_above_the_threshold():
    frame = candidates(6_000, gap=0.15)
    result = eh.outcome_test(frame, **ROLES, kind="classification", threshold=0.4, reference="m", bins=5)
    marginal, first = one(result, "marginal_test"), one(result, "bin_test", bin=1)
    assert marginal["p"] == first["p"] < 0.01
    assert one(result, "outcome_gap", bin=1, group="f")["bin_low"] >= 0.4
    assert result.provenance["scope"]["rows"] == frame.filter(pl.col("s") >= 0.4).height
    assert "right above the threshold" in " ".join(writer_for(result.findings).key_sentences(result.findings))


def test_outcomes_below_the_threshold_need_not_be_known():
    frame = candidates()
    hidden = frame.with_columns(pl.when(pl.col("s") >= 0.4).then(pl.col("y")))
    how = {"kind": "classification", "threshold": 0.4}
    one_way, other = (
        {(r["metric"], r["group"], r["bin"]): r["estimate"] for r in eh.outcome_test(f, **ROLES, **how).findings.rows()}
        for f in (frame, hidden)
    )
    rates = {"true_positive_rate_gap", "false_positive_rate_gap", "equalized_odds_gap"}  # these need the outcomes below
    assert {metric for metric, *_ in set(one_way) ^ set(other)} <= rates
    for key in set(one_way) & set(other):
        if key[0] not in rates:
            np.testing.assert_allclose(one_way[key], other[key], rtol=0, atol=1e-12)


def test_only_treated_rows_count():
    frame = candidates().with_columns((pl.col("q") < 50).alias("seen"))
    hidden = frame.with_columns(pl.when(pl.col("seen")).then(pl.col("y")))
    seen = frame.filter(pl.col("seen"))
    for treated in (hidden, hidden.with_columns(pl.col("seen").cast(pl.Int8))):
        result = eh.outcome_test(treated, **ROLES, treated="seen")
        np.testing.assert_allclose(
            result.findings.columns["estimate"], eh.outcome_test(seen, **ROLES).findings.columns["estimate"]
        )


def test_a_missing_group_is_no_group():
    labelled = candidates().filter(pl.col("g") != "u")
    frame = candidates().with_columns(pl.when(pl.col("g") != "u").then(pl.col("g")).alias("g"))
    result = eh.outcome_test(frame, **ROLES)
    assert list(result.provenance["groups"]) == ["f", "m"]
    assert result.provenance["dropped"] == {"group='g' is missing": frame["g"].null_count()}
    assert result.frame.equals(eh.outcome_test(labelled, **ROLES).frame)
    with pytest.raises(eh.EvenhandError, match=r"group='g' is missing in .* unknown='drop' or 'group'"):
        eh.outcome_test(frame, **ROLES, unknown="raise")


def test_one_row_without_a_label_does_not_narrow_the_common_support():
    frame = candidates().filter(pl.col("g") != "u")
    result = eh.outcome_test(pl.concat([frame, frame[:1].with_columns(g=pl.lit(None, pl.String))]), **ROLES)
    assert result.frame.equals(eh.outcome_test(frame, **ROLES).frame)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_labels_of_pandas_are_missing_values(missing):
    frame = candidates().filter(pl.col("g") != "u")
    labels = [missing if i % 50 == 0 else g for i, g in enumerate(frame["g"])]
    table = frame.to_pandas().assign(g=pd.Series(labels, dtype=object))
    result = eh.outcome_test(table, **ROLES)
    assert list(result.provenance["groups"]) == ["f", "m"]
    assert eh.outcome_test(table, **ROLES, unknown="group").provenance["groups"]["unknown"] == -(-len(frame) // 50)


def test_slices_and_small_groups_leave_rows_without_a_label_out():
    frame = candidates().with_columns(
        pl.when(pl.col("g") != "u").then(pl.col("g")).alias("g"), part=pl.int_range(pl.len()) % 2
    )
    result = eh.outcome_test(frame, **ROLES, by="part", min_units=10)
    assert set(result.findings.columns["group"]) == {"f", "m", None}


def test_a_missing_group_may_be_the_group_unknown():
    frame = candidates().with_columns(pl.when(pl.col("g") != "u").then(pl.col("g")).alias("g"))
    result = eh.outcome_test(frame, **ROLES, unknown="group")
    assert list(result.provenance["groups"]) == ["f", "m", "unknown"]
    np.testing.assert_allclose(
        result.findings.columns["estimate"], eh.outcome_test(candidates(), **ROLES).findings.columns["estimate"]
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_may_be_numbers(engine):
    frame = candidates().with_columns(pl.col("g").replace_strict({"f": 1, "m": 10, "u": None}, return_dtype=pl.Int64))
    result = eh.outcome_test(ENGINES[engine](frame), **ROLES, reference=10, unknown="group")
    assert list(result.provenance["groups"]) == ["1", "10", "unknown"]
    dropped = eh.outcome_test(ENGINES[engine](frame), **ROLES, reference=10)
    assert list(dropped.provenance["groups"]) == ["1", "10"]


def test_a_gap_is_found_with_its_sign_and_size():
    result = eh.outcome_test(candidates(20_000, gap=0.1), **ROLES, reference="m")
    assert one(result, "joint_test")["p"] < 1e-6
    for metric in ("pooled_gap", "spline_gap", "pooled_gap(bins=5)", "pooled_gap(bins=20)"):
        row = one(result, metric, group="f")
        assert row["low"] < 0.1 < row["high"]
        assert one(result, metric, group="u")["p_adjusted"] > 0.05
    assert "the score under-rates f" in " ".join(writer_for(result.findings).key_sentences(result.findings))


def test_p_is_adjusted_over_the_gaps_that_are_tested():
    result = eh.outcome_test(candidates(), **ROLES)
    family = [
        r for r in rows_of(result, "outcome_gap") if math.isfinite(r["p"]) and "small_cell" not in (r["note"] or "")
    ]
    from statsmodels.stats.multitest import multipletests

    adjusted = multipletests([r["p"] for r in family], method="holm")[1]
    assert [r["p_adjusted"] for r in family] == pytest.approx(adjusted.tolist())


def test_bins_may_be_edges():
    result = eh.outcome_test(candidates(), **ROLES, bins=[0.3, 0.6])
    assert result.provenance["bins"]["edges"] == [0.3, 0.6]
    assert len(rows_of(result, "outcome_gap", group="f")) == 3
    wide = eh.outcome_test(candidates(), **ROLES, bins=[0.0, 0.3, 0.6, 1.0])
    one, other = (pl.DataFrame(rows_of(r, "outcome_gap"), infer_schema_length=None) for r in (wide, result))
    assert_frame_equal(one, other, rel_tol=1e-9, abs_tol=1e-12)


def test_outcomes_that_do_not_rise_with_the_score_are_reported():
    frame = candidates().with_columns((1 - pl.col("s")).alias("s"))
    result = eh.outcome_test(frame, **ROLES)
    (claim,) = [c for c in result.claims if c.metric == "lowest_bin"]
    assert claim.made
    assert claim.direction == "lower"
    assert "do not rise" not in result.headline
    assert "do not rise with the score" in " ".join(writer_for(result.findings).key_sentences(result.findings))
    assert one(eh.outcome_test(candidates(), **ROLES), "lowest_bin")["estimate"] == 1


def test_other_measures_stand_beside_the_test():
    frame = candidates()
    result = eh.outcome_test(frame, **ROLES, reference="m")
    f = frame.filter(pl.col("g") == "f")
    assert one(result, "base_rate", group="f")["estimate"] == pytest.approx(f["y"].mean())
    assert one(result, "calibration_gap", group="f")["estimate"] == pytest.approx(f["y"].mean() - f["s"].mean())
    assert one(result, "equalized_odds_gap", group="f")["estimate"] > 0
    assert one(result, "equalized_odds_gap", group="m")["estimate"] == 0
    said = " ".join(result.sentences())
    assert "equalised odds" in said


def test_the_repaired_counterexample_passes_equalised_odds_and_fails_the_outcome_test():
    """Formula book F5.8, as rows: no gap in equalised odds, and X under-scored at every score."""
    parts = [("O", 0.8, 20, 5), ("O", 0.2, 5, 20), ("X", 0.8, 32, 2), ("X", 0.2, 8, 8)]
    rows = [(g, s, y) for g, s, good, bad in parts for y, n in ((1, 20 * good), (0, 20 * bad)) for _ in range(n)]
    frame = pl.DataFrame(rows, schema=["g", "s", "y"], orient="row")
    result = eh.outcome_test(frame, **ROLES, reference="O")
    assert one(result, "equalized_odds_gap", group="X")["estimate"] == pytest.approx(0, abs=1e-12)
    assert [r["estimate"] for r in rows_of(result, "outcome_gap", group="X")] == pytest.approx([0.3, 16 / 17 - 0.8])
    assert one(result, "joint_test")["p"] < 1e-10


def test_nearly_exact_outcomes_keep_their_digits():
    """Outcomes that follow a heavy-tailed score almost exactly: sums around the mean would lose every digit of the error."""
    rng = np.random.default_rng(5)
    s, g = rng.lognormal(0, 3, 3_000), rng.choice(["a", "b"], 3_000)
    frame = pl.DataFrame({"s": s, "g": g, "y": 7 * s + 0.01 * (g == "b") + 1e-3 * rng.normal(size=3_000)})
    result = eh.outcome_test(frame, **ROLES, reference="a", bins=2, covariance="HC1")
    low, high = _support(frame)
    inside = frame.filter(pl.col("s").is_between(low, high))
    inner = oracle.edges(inside["s"].to_list(), 2)
    for b in (0, 1):
        part = inside.filter((pl.col("s") > inner[0]) == bool(b))
        centred = part["s"].to_numpy() - part["s"].mean()
        gaps, _, _, errors = oracle.regression(
            centred, part["y"].to_numpy() - 7 * part["s"].to_numpy(), part["g"].to_list(), "a"
        )
        row = one(result, "outcome_gap", bin=b + 1, group="b")
        assert row["estimate"] == pytest.approx(gaps["b"], rel=1e-6)
        assert row["se"] == pytest.approx(errors["HC1"]["b"], rel=1e-6)


def test_small_cells_are_suppressed_on_request():
    result = eh.outcome_test(candidates(), **ROLES, min_units=50)
    hidden = rows_of(result, "outcome_gap", note="suppressed")
    assert hidden
    assert {r["group"] for r in hidden if r["bin"] == hidden[-1]["bin"]} > {"u"}, "bins hold about as many rows each"
    assert all(math.isnan(r[k]) for r in hidden for k in ("estimate", "se", "p", "detectable"))
    assert all(n >= 50 for n in result.findings.curves["calibration"]["units"])


def test_groups_that_are_left_out_stand_in_order_whatever_the_engine_finds_first():
    few = pl.DataFrame({"g": list("zdmcq"), "s": [0.5] * 5, "y": [1] * 5})
    rng = np.random.default_rng(1)
    many = pl.DataFrame({"g": list("ab") * 100, "s": rng.random(200), "y": rng.integers(0, 2, 200)})
    result = eh.outcome_test(pl.concat([few, many]), score="s", outcome="y", group="g", min_units=5)
    assert [g for g, n in result.provenance["groups"].items() if n == "suppressed"] == list("cdmqz")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": "sc"}, "score='sc' is not a column"),
        ({"group": "s2", "outcome": "yy"}, "2 problems"),
        ({"score": "g"}, "not numbers"),
        ({"outcome": "s"}, "score and outcome are both 's'"),
        ({"reference": "x"}, "reference='x' is no label of"),
        ({"kind": "rank"}, "Did you mean 'ranking'"),
        ({"covariance": "HC3"}, "covariance='HC3' does not fit"),
        ({"covariance": "cluster"}, "needs to know the clusters"),
        ({"threshold": 0.5}, "a ranking has no bar"),
        ({"kind": "classification", "threshold": "high"}, "threshold='high' does not fit"),
        ({"bins": 0}, "bins=0"),
        ({"bins": "ten"}, "bins='ten'"),
        ({"bins": [0.5, 0.2]}, "rising list"),
        ({"level": 2}, "level=2"),
        ({"treated": "q"}, "neither 0 nor 1"),
        ({"nan_policy": "propagate"}, "nan_policy='propagate'"),
        ({"score": None}, "score=None is not a column name"),
        ({"outcome": None}, "outcome=None is not a column name"),
        ({"group": None}, "group=None is not a column name"),
        ({"group": "s"}, "score and group are both 's'"),
        ({"group": "y"}, "outcome and group are both 'y'"),
        ({"cluster": ""}, "cluster='' is not a column"),
        ({"cluster": "nope", "covariance": "HC1"}, "cluster='nope' is not a column"),
        ({"kind": "classification", "threshold": math.nan}, "threshold=nan does not fit"),
        ({"kind": "classification", "threshold": 10**400}, "is too large a number"),
        ({"kind": "classification", "threshold": math.inf}, "threshold=inf is not a finite number"),
        ({"group": "id"}, "group='id' has 1,200 different values, too many to compare"),
        ({"group": "id", "kind": "classification"}, "group='id' has 1,200 different values, too many to compare"),
        ({"score": "tiny"}, "score='tiny' runs from"),
        ({"score": "huge"}, "score='huge' runs from"),
        ({"outcome": "tiny"}, "outcome='tiny' runs from"),
        ({"score": "crowded"}, "score='crowded' has bins of a width below 1e-60"),
    ],
)
def test_bad_calls_say_what_is_wrong(change, said):
    scales = {"tiny": pl.col("s") * 1e-110, "huge": pl.col("s") * 1e155, "crowded": 10.0 ** (-300 * pl.col("s"))}
    frame = candidates(1_200).with_columns(pl.int_range(pl.len()).alias("id"), **scales)
    with pytest.raises(eh.EvenhandError) as caught:
        eh.outcome_test(frame, **{**ROLES, **change})
    assert said in str(caught.value)


def test_more_gaps_than_can_be_tested_together_are_refused(monkeypatch):
    monkeypatch.setattr("evenhand.audits.outcome.outcome_test.MOST_GAPS", 50)
    with pytest.raises(eh.EvenhandError, match="bins=10 makes up to 60 gaps of 3 groups, more than the 50"):
        eh.outcome_test(candidates(300), **ROLES, request="q")


def test_a_request_that_is_not_there_is_one_problem():
    with pytest.raises(eh.EvenhandError) as caught:
        eh.outcome_test(candidates(100), **ROLES, request="nope")
    assert str(caught.value).startswith("request='nope' is not a column")


def test_the_size_of_the_scores_changes_no_gap():
    frame = candidates(600)
    here = eh.outcome_test(frame, **ROLES, bins=3).findings.columns
    for scale in (2.0**-180, 2.0**180):
        there = eh.outcome_test(frame.with_columns(pl.col("s") * scale), **ROLES, bins=3).findings.columns
        at = [i for i, name in enumerate(there["metric"]) if name in ("outcome_gap", "joint_test", "spline_gap")]
        for name in ("estimate", "se", "p"):
            one_side, other = (np.array([c[name][i] for i in at], dtype=float) for c in (here, there))
            np.testing.assert_allclose(other, one_side, rtol=1e-9)


@pytest.mark.parametrize("label", ["z", None])
def test_one_group_alone_is_what_is_said(label):
    frame = candidates(400).with_columns(g=pl.lit(label, dtype=pl.String))
    result = eh.outcome_test(frame, **ROLES, unknown="group")
    assert {r["note"] for r in rows_of(result, "joint_test")} == {"one_group_only"}


def test_clusters_may_be_numbers_of_any_size():
    frame = candidates(500)
    large = frame.with_columns(pl.col("q").cast(pl.UInt64) + 2**63)
    same(*(eh.outcome_test(table, **ROLES, request="q").findings.columns for table in (frame, large)))


@pytest.mark.parametrize("bins", [np.array(2), np.int64(2), np.array([0.5])], ids=["no axes", "integer", "edges"])
def test_bins_may_come_from_numpy(bins):
    found = eh.outcome_test(candidates(500), **ROLES, bins=bins)
    assert found.provenance["bins"]["asked"] == 2
    assert json.loads(found.to_json())["provenance"]["plan"]["bins"] == (2 if np.ndim(bins) == 0 else [0.5])


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_values_are_refused_or_left_out_and_counted(engine):
    frame = candidates(300).with_columns(
        pl.when(pl.int_range(pl.len()) >= 3).then(pl.col("s")).alias("s"),
        pl.when(pl.int_range(pl.len()) < 295).then(pl.col("y")).alias("y"),
    )
    table = ENGINES[engine](frame)
    with pytest.raises(eh.EvenhandError) as caught:
        eh.outcome_test(table, **ROLES)
    assert "in 3 rows" in str(caught.value)
    assert "in 5 rows" in str(caught.value)
    result = eh.outcome_test(table, **ROLES, nan_policy="omit")
    assert sum(result.provenance["dropped"].values()) == 8
    clean = eh.outcome_test(frame.drop_nulls(), **ROLES)
    np.testing.assert_allclose(
        result.findings.columns["estimate"], clean.findings.columns["estimate"], rtol=1e-9, atol=1e-12
    )


def test_infinite_scores_are_refused():
    frame = candidates(100).with_columns(
        pl.when(pl.int_range(pl.len()) == 0).then(math.inf).otherwise(pl.col("s")).alias("s")
    )
    with pytest.raises(eh.EvenhandError, match="infinite"):
        eh.outcome_test(frame, **ROLES)


@pytest.mark.parametrize(("frame", "note"), [(candidates(50).clear(), "empty"), (candidates(50), "nobody_treated")])
def test_nothing_to_test_is_undefined_and_no_error(frame, note):
    result = eh.outcome_test(frame, **ROLES, kind="classification", threshold=5)
    assert {r["note"] for r in result.findings.rows()} == {note}
    assert result.sentences()


def test_a_table_without_rows_has_no_slice():
    assert not list(
        eh.outcome_test(candidates(50).clear().with_columns(land=pl.lit("at")), **ROLES, by="land").findings.rows()
    )


def test_a_cell_whose_outcomes_are_all_alike_has_no_interval():
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"s": rng.beta(2, 3, 400), "g": rng.choice(list("abc"), 400), "y": np.arange(400) % 60 == 0})
    result = eh.outcome_test(frame, score="s", outcome="y", group="g", metrics=["mean_outcome"])
    alike = [r for r in result.findings.rows() if r["units"] > 1 and r["estimate"] < 1e-9]
    assert len(alike) > 20
    assert {r["note"] for r in alike} == {"no_variation"}


def test_the_table_is_not_touched():
    frame = candidates(100).to_pandas()
    before = frame.copy()
    eh.outcome_test(frame, **ROLES)
    assert frame.equals(before)


def test_a_result_can_be_saved_and_read_again(tmp_path):
    result = eh.outcome_test(candidates(), **ROLES, request="q")
    path = tmp_path / "r.json"
    result.to_json(path)
    again = eh.read.result(path)
    assert again.sentences() == result.sentences()
    assert again.plot("gaps").to_dict() is not None
    json.loads(path.read_text())


@pytest.mark.parametrize("kind", ["outcomes", "gaps", "calibration"])
def test_pictures_are_drawn_from_the_findings(kind):
    chart = eh.outcome_test(candidates(), **ROLES).plot(kind).to_dict()
    assert "NaN" not in json.dumps(chart)


def test_the_picture_of_gaps_has_a_panel_for_every_group_but_the_reference():
    chart = eh.outcome_test(candidates(), **ROLES, reference="m").plot("gaps").to_dict()
    assert [panel["title"] for panel in chart["concat"]] == ["f", "u"]


def test_who_can_fix_what_stands_beside_the_findings():
    found = eh.outcome_test(candidates(), **ROLES).findings
    first, second = writer_for(found).side_tables(found)
    assert len(first.rows) == 2
    assert len(first.head) == 3
    assert any("people treat the groups differently" in row[0] for row in second.rows)


def test_the_command_line_gives_the_same_answer(tmp_path, capsys):
    path = tmp_path / "rows.parquet"
    candidates().write_parquet(path)
    words = [
        "outcome-test",
        str(path),
        "--score",
        "s",
        "--outcome",
        "y",
        "--group",
        "g",
        "--request",
        "q",
        "--format",
        "json",
    ]
    assert main([*words, "--bins", "5"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["columns"]["estimate"][0] == pytest.approx(
        eh.outcome_test(candidates(), **ROLES, request="q", bins=5).findings.columns["estimate"][0]
    )
    assert main([*words, "--bins", "0.3,0.6"]) == 0
    capsys.readouterr()
    assert main([*words, "--bins", "many"]) == 2
    assert "--bins 'many'" in capsys.readouterr().err
    assert main([*words, "--reference", "nobody"]) == 2
    assert "Labels: 'f', 'm', 'u'" in capsys.readouterr().err


def test_equal_constant_outcomes_give_a_gap_of_exactly_zero_and_no_alarm():
    """Rounding must not turn a bin in which nobody's outcome varies into a certain difference."""
    rng = np.random.default_rng(6)
    frame = candidates(rows=1_000).with_columns(
        pl.when(pl.col("s") < 0.4).then(0.1 + 0.2).otherwise(pl.lit(pl.Series(rng.random(1_000)))).alias("y")
    )
    result = eh.outcome_test(frame, **ROLES, bins=[0.4], kind="classification")
    first = rows_of(result, "outcome_gap", bin=1)
    assert [r["estimate"] for r in first] == [0.0] * 3
    assert all(math.isnan(r["p"]) for r in first)
    assert one(result, "joint_test")["p"] > 0.001


def test_two_results_are_compared_bin_by_bin():
    frames = [eh.outcome_test(candidates(seed=seed), **ROLES, bins=[0.4, 0.6]) for seed in (1, 2)]
    found = frames[0].compare(frames[1]).findings
    rows = [r for r in found.rows() if r["metric"] == "outcome_gap" and r["group"] == "m"]
    assert [r["bin"] for r in rows] == [1, 2, 3]
    ours = [one(f, "outcome_gap", group="m", bin=2)["estimate"] for f in frames]
    assert rows[1]["estimate"] == pytest.approx(ours[1] - ours[0])


def test_a_table_with_a_single_request_has_gaps_but_no_clustered_error():
    result = eh.outcome_test(candidates(requests=1), **ROLES, request="q", bins=2)
    row = one(result, "outcome_gap", bin=1, group="m")
    assert math.isfinite(row["estimate"])
    assert math.isnan(row["se"])
    assert math.isnan(one(result, "joint_test")["p"])
    assert "single_member" in row["note"]
    assert result.sentences()


@pytest.mark.parametrize("seed", range(40))
def test_odd_little_tables_give_numbers_or_reasons_and_never_a_warning(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    frame = pl.DataFrame(
        {
            "g": rng.choice(["a", "b", "c"], n),
            "s": rng.integers(0, 4, n) * 1.0,
            "y": rng.integers(0, 2, n) * 1.0,
            "q": rng.integers(0, 3, n),
        }
    )
    kind = {"kind": "classification", "threshold": 1.0} if seed % 2 else {}
    result = eh.outcome_test(frame, **ROLES, request="q" if seed % 3 else None, bins=3, **kind)
    for row in result.findings.rows():
        assert not math.isnan(row["estimate"]) or row["note"], row
    sentences = result.sentences()
    assert sum(text.endswith(" is the reference group.") for text in sentences) <= 1
    assert sentences == list(dict.fromkeys(sentences))
    json.loads(result.to_json())


def test_numbers_of_numpy_are_numbers():
    frame, call = candidates(300), {**ROLES, "kind": "classification"}
    here = eh.outcome_test(frame, **call, bins=3, threshold=0.5)
    there = eh.outcome_test(frame, **call, bins=np.int64(3), threshold=np.float32(0.5))
    same(here.findings.columns, there.findings.columns)
    assert json.loads(there.to_json())


@pytest.mark.parametrize("kind", [pl.Int8, pl.Boolean, pl.Float64])
def test_outcomes_of_two_values_need_fewer_sums_and_give_the_same_numbers(kind):
    frame = candidates(500)
    same(
        eh.outcome_test(frame.with_columns(pl.col("y").cast(pl.Float64)), **ROLES, bins=3).findings.columns,
        eh.outcome_test(frame.with_columns(pl.col("y").cast(kind)), **ROLES, bins=3).findings.columns,
    )


def awkward(seed):
    """A small table with ties at the edges, constant stretches, rare groups, labels that are missing; and how to test it."""
    rng = np.random.default_rng(seed)
    n, names = int(rng.integers(12, 90)), ["a", "b", "c", None][: int(rng.integers(2, 5))]
    scores = (rng.random(n), rng.integers(0, 6, n) / 4, -rng.lognormal(0, 3, n), 1e6 + rng.random(n).round(1))[seed % 4]
    outcomes = ((rng.random(n) < 0.4) * 1, rng.integers(0, 4, n), rng.normal(size=n))[seed % 3]
    g = [names[i] for i in rng.choice(len(names), n)]
    frame = pl.DataFrame({"s": scores, "y": outcomes, "g": pl.Series(g, dtype=pl.String)})
    kind = {"kind": "ranking"}
    if seed % 2:
        kind = {"kind": "classification", "threshold": float(rng.choice(scores[: n // 2]))}
    return frame, {**kind, "bins": int(rng.integers(1, 5))}


@pytest.mark.parametrize("seed", range(24))
def test_awkward_tables_equal_the_definition(seed):
    frame, how = awkward(seed)
    rows = frame.with_columns(pl.col("g").fill_null("unknown"), s=pl.col("s").cast(float)).rows()
    rows = [r for r in rows if r[0] >= how.get("threshold", -math.inf)]
    groups = sorted({g for _, _, g in rows})
    result = eh.outcome_test(frame, **ROLES, **how, reference=groups[0], unknown="group")
    if how["kind"] == "ranking":
        sides = [[s for s, _, g in rows if g == name] for name in groups]
        rows = [r for r in rows if max(map(min, sides)) <= r[0] <= min(map(max, sides))]
    inner = oracle.edges([s for s, _, _ in rows], how["bins"]) if rows else []
    for b in range(len(inner) + 1):
        part = [r for r in rows if oracle.bin_of(r[0], inner) == b]
        told = [len({r[0] for r in part if r[2] == g}) > 1 for g in groups]
        if len(part) <= len(groups) + 1 or groups[0] not in {r[2] for r in part}:
            continue  # nothing is left for the error, or the reference is absent
        if len({r[0] for r in part}) > 1 and not any(told):
            continue  # score and group cannot be told apart
        middle = np.mean(
            [s for s, _, _ in part]
        )  # shifting the score moves no gap, and keeps the oracle's inverse exact
        s, y, g = zip(*[(s - middle, y, g) for s, y, g in part], strict=True)
        found, *_, errors = oracle.regression(s, y, g, groups[0])
        for g, gap in found.items():
            row = one(result, "outcome_gap", bin=b + 1, group=g)
            assert row["units"] == sum(r[2] == g for r in part)
            assert row["estimate"] == pytest.approx(gap, rel=1e-6, abs=1e-6)
            assert row["se"] == pytest.approx(errors["HC1"][g], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["equalized_odds_gap", "equal_opportunity_gap", "true_positive_rate_gap", "precision"])
def test_a_measure_asked_for_alone_says_what_it_says_among_all(name):
    rng = np.random.default_rng(5)
    score = rng.random(400)
    table = pl.DataFrame(
        {"s": score, "y": (rng.random(400) < score) * 1, "g": rng.choice(["f", "m"], 400), "t": (score > 0.3) * 1}
    )
    roles = {"score": "s", "outcome": "y", "group": "g", "treated": "t"}
    alone, among = eh.outcome_test(table, **roles, metrics=name), eh.outcome_test(table, **roles).only(name)
    columns = ["metric", "group", "estimate", "low", "high", "units", "note"]
    assert alone.frame.select(columns).equals(among.frame.select(columns))
    assert alone.findings.metrics() == [name]


def test_where_nothing_lies_between_ends_that_are_means_all_is_suppressed():
    scores = [-9.0] * 5 + [0.0, 1.0] * 2 + [9.0] * 5  # four rows that both groups reach, and a mean of five
    rows = pl.DataFrame({"s": scores, "y": range(14), "g": ["a"] * 7 + ["b"] * 7})
    found = eh.outcome_test(rows, score="s", outcome="y", group="g", min_units=5, bins=2, metrics="pooled_gap")
    assert set(found.frame["note"]) == {"suppressed"}


@pytest.mark.parametrize("engine", ENGINES)
def test_outcomes_in_words_are_those_in_numbers(engine):
    frame = candidates()
    words = frame.with_columns(y=pl.when(pl.col("y") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")))
    found = eh.outcome_test(ENGINES[engine](words), **ROLES, positive="yes").findings
    same(found.columns, eh.outcome_test(frame, **ROLES).findings.columns)


def test_two_labels_of_any_kind_are_outcomes():
    frame = candidates()
    expected = eh.outcome_test(frame, **ROLES).frame
    for outcome, positive in (
        (pl.col("y") + 1, 2),
        (pl.col("y") + 1, "2"),
        (pl.col("y") == 1, True),
        (1 - pl.col("y"), 0),
    ):
        assert eh.outcome_test(frame.with_columns(y=outcome), **ROLES, positive=positive).frame.equals(expected)


def test_words_that_are_no_outcomes_are_refused_with_what_to_pass():
    frame = candidates().with_columns(
        words=pl.when(pl.col("y") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")), grade=pl.col("g") + "!"
    )
    call = {"score": "s", "group": "g"}
    with pytest.raises(eh.EvenhandError, match=r"is text: 'no' and 'yes'. Pass positive= .* such as positive='yes'"):
        eh.outcome_test(frame, outcome="words", **call)
    with pytest.raises(eh.EvenhandError, match=r"positive='Yes' is no label of outcome='words'. Did you mean 'yes'"):
        eh.outcome_test(frame, outcome="words", positive="Yes", **call)
    with pytest.raises(eh.EvenhandError, match=r"outcome='grade' has more than two labels: 'f!', 'm!', 'u!'"):
        eh.outcome_test(frame, outcome="grade", positive="f!", **call)
    with pytest.raises(eh.EvenhandError, match="a printed query cannot"):
        eh.sql("outcome_test", table="log", dialect="duckdb", outcome="words", positive="yes", **call)


def test_outcomes_in_words_on_the_command_line(tmp_path, capsys):
    frame = candidates().with_columns(
        pl.when(pl.col("y") == 1).then(pl.lit("good")).otherwise(pl.lit("bad")).alias("y")
    )
    frame.write_csv(tmp_path / "people.csv")
    words = [
        "outcome-test",
        str(tmp_path / "people.csv"),
        "--score",
        "s",
        "--outcome",
        "y",
        "--group",
        "g",
        "-m",
        "pooled_gap",
    ]
    assert main([*words, "--positive", "good", "--no-progress"]) == 0
    assert "pooled_gap" in capsys.readouterr().out
    assert main(words) == 2
    assert "Pass --positive with the label of success, such as --positive good." in capsys.readouterr().err
