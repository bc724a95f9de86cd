"""The recommender audit: the same numbers whatever form the scores come in, against permuted labels, with intervals."""

import itertools
import json
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import i0, i1

import evenhand as eh
from evenhand import EvenhandError
from evenhand import metrics as m
from evenhand.intervals import crosstabs as draws
from evenhand.sources import engine
from evenhand.sources import scores as opened_scores
from evenhand.tallies.crosstab import Crosstab, Cut, ResampledLists, tabulate
from evenhand.tallies.ragged import Ragged
from golden_cases import CASES, cases, holds, plain
from test_recommender_metrics import OPPORTUNITY, PAIRED, SINGLE, audits, groups_of, how_of

NAMES = {"average_recommendation_popularity": "recommendation_popularity", "exposure_total_variation": "exposure_tv"}
QUICK = {"interval": None, "chance": None}


def audit_case(case):
    args = plain(case["args"])
    how = how_of(args)
    params = ", ".join(f"{k}={how.pop(k)!r}" for k in ("corrected", "base") if k in how)
    name = f"{args['which']}_ratio" if case["fn"] == "opportunity_ratio" else NAMES.get(case["fn"], case["fn"])
    sides = {"user_groups": groups_of(args), "versus": "a", "protected": "b"} if "in_a" in args else {}
    truth = {"relevant": args["mat_true"]} if "mat_true" in args else {}
    metric = f"{name}({params})" if params else name
    found = eh.recommender(args.get("mat", args.get("mat_pred")), metrics=metric, **sides, **truth, **how, **QUICK)
    return float(found.frame["estimate"][0])


@cases([*SINGLE, *PAIRED, "opportunity_ratio"])
def test_worked_cases_through_the_audit(case):
    holds(case["expect"], case["tol"], lambda: audit_case(case))


def test_shown_of_the_worked_case():
    (case,) = [c for c in CASES if c["fn"] == "shown"]
    found = eh.recommender(case["args"]["mat"], top=case["args"]["top"], ties=case["args"]["ties"], **QUICK)
    np.testing.assert_allclose(found.shown, case["expect"], atol=case["tol"])
    assert found.provenance["users_with_ties"] == 1


def long_of(matrix, name="score"):
    rows = [(u, j, v) for u, row in enumerate(matrix) for j, v in enumerate(row) if v is not None and not np.isnan(v)]
    return pl.DataFrame(rows, schema={"user": pl.Int64, "item": pl.Int64, name: pl.Float64}, orient="row")


def sparse_of(matrix):
    rows = long_of(matrix)
    shape = (len(matrix), len(matrix[0]))
    return sparse.coo_array((rows["score"], (rows["user"], rows["item"])), shape=shape)


def columns(result):
    return {k: v for k, v in result.findings.columns.items() if k not in ("p", "p_adjusted")}


def same(found, expected):
    assert list(found) == list(expected)
    for name in expected:
        for x, y in zip(found[name], expected[name], strict=True):
            assert x == y or (isinstance(x, float) and x == pytest.approx(y, abs=1e-9, nan_ok=True)), name


@settings(max_examples=25)
@given(audits())
def test_dense_sparse_and_long_give_the_same_numbers(audit):
    matrix, truth, groups, cut, true, ties = audit
    matrix, truth = np.array(matrix, dtype=float), np.array(truth, dtype=float)
    call = {**cut, **true, "ties": ties, "versus": "a", "protected": "b", "rng": 3, "interval": "percentile(39)"}
    call |= {"chance": "permutation(39)"}
    dense = eh.recommender(matrix, relevant=truth, user_groups=groups, **call)
    thin = eh.recommender(sparse_of(matrix), relevant=sparse_of(truth), user_groups=groups, **call)
    long = eh.recommender(
        long_of(matrix), relevant=long_of(truth, "relevance"), user_groups=dict(enumerate(groups)),
        items=matrix.shape[1], **call,
    )  # fmt: skip
    same(columns(thin), columns(dense))
    same(columns(long), columns(dense))
    np.testing.assert_allclose(thin.shown.toarray(), dense.shown)
    listed = np.zeros_like(matrix)
    for user, item, share in long.shown.iter_rows():
        listed[user, item] = share
    np.testing.assert_allclose(listed, dense.shown)


def generated(users=80, items=30, seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    matrix = np.round(rng.random((users, items)) ** 2, 2)
    matrix[rng.random(matrix.shape) < missing] = np.nan
    truth = (rng.random(matrix.shape) < 0.2).astype(float)
    return matrix, truth, rng.choice(["a", "b", "c"], users).tolist()


ENGINES = {
    "pandas": lambda df: df.to_pandas(),
    "polars": lambda df: df,
    "polars-lazy": lambda df: df.lazy(),
    "pyarrow": lambda df: df.to_arrow(),
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}


def long_call(matrix, truth, groups, convert=lambda df: df):
    named = {f"u{u:03d}": g for u, g in enumerate(groups)}
    rename = lambda df: df.with_columns(  # noqa: E731
        pl.format("u{}", pl.col("user").cast(pl.String).str.zfill(3)).alias("user"),
        pl.format("i{}", pl.col("item").cast(pl.String).str.zfill(3)).alias("item"),
    ).sample(fraction=1.0, shuffle=True, seed=4)
    people = pl.DataFrame({"user": list(named), "group": list(named.values())})
    return eh.recommender(
        convert(rename(long_of(matrix))), relevant=convert(rename(long_of(truth, "relevance"))), user_groups=convert(people),
        top=5, true_threshold=0.5, rng=3, interval="bootstrap(49)", chance="permutation(49)",
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_table(engine):
    data = generated()
    expected = long_call(*data)
    found = long_call(*data, ENGINES[engine])
    assert found.to_text("csv") == expected.to_text("csv")
    dense = eh.recommender(
        data[0], relevant=data[1], user_groups=data[2], top=5, true_threshold=0.5, rng=3, interval="bootstrap(49)",
        chance="permutation(49)",
    )  # fmt: skip
    same(columns(found), columns(dense))


def test_blocks_of_users_change_nothing(monkeypatch):
    data = generated(users=200)
    call = {"top": 5, "true_threshold": 0.5, "rng": 3, "interval": "bootstrap(49)", "chance": "permutation(49)"}
    whole = eh.recommender(data[0], relevant=data[1], user_groups=data[2], **call)
    expected_long = long_call(*data)
    monkeypatch.setattr(opened_scores, "BATCH_CELLS", 100)
    monkeypatch.setattr(engine, "BATCH_ROWS", 300)
    same(columns(eh.recommender(data[0], relevant=data[1], user_groups=data[2], **call)), columns(whole))
    same(columns(eh.recommender(sparse_of(data[0]), relevant=data[1], user_groups=data[2], **call)), columns(whole))
    same(columns(long_call(*data)), columns(expected_long))
    monkeypatch.setattr(draws, "EXACT", 0)
    large = eh.recommender(data[0], relevant=data[1], user_groups=data[2], **call)
    monkeypatch.setattr("evenhand.tallies.crosstab.MOST_CELLS", 500)
    same(columns(eh.recommender(data[0], relevant=data[1], user_groups=data[2], **call)), columns(large))


@pytest.mark.parametrize("number", [lambda i: i - 7, lambda i: i * 10**12, lambda i: i + 10**9])
def test_ids_may_be_any_whole_numbers_and_rows_in_any_order(number):
    matrix, _, groups = generated(users=60)
    call = {"top": 5, "rng": 3, "interval": "bootstrap(49)", "chance": "permutation(49)"}
    expected = eh.recommender(matrix, user_groups=groups, **call)
    scores = long_of(matrix).with_columns(number(pl.col("user")).alias("user"), number(pl.col("item")).alias("item"))
    scores = scores.sample(fraction=1.0, shuffle=True, seed=2)
    people = {number(user): group for user, group in enumerate(groups)}
    same(columns(eh.recommender(scores, user_groups=people, **call)), columns(expected))
    with pytest.raises(EvenhandError, match="3 rows for a user and item that already had one"):
        eh.recommender(pl.concat([scores, scores.filter(pl.col("user") == scores["user"].max()).head(3)]), **call)


def test_files_give_the_same_numbers(tmp_path):
    matrix, truth, groups = generated()
    call = {"top": 5, "true_threshold": 0.5, "rng": 1, "interval": "bootstrap(29)"}
    expected = columns(eh.recommender(matrix, relevant=truth, user_groups=groups, **call))
    np.savez(tmp_path / "scores.npz", scores=matrix, other=truth)
    np.save(tmp_path / "truth.npy", truth)
    sparse.save_npz(tmp_path / "sparse.npz", sparse.csr_array(sparse_of(matrix)))
    long_of(matrix).write_parquet(tmp_path / "scores.parquet")
    long_of(truth, "relevance").write_csv(tmp_path / "truth.csv")
    pl.DataFrame({"user": range(len(groups)), "group": groups}).write_csv(tmp_path / "users.csv")
    for scores, relevant, people in [
        ("scores.npz", "truth.npy", "users.csv"),
        ("sparse.npz", "truth.npy", "users.csv"),
        ("scores.parquet", "truth.csv", "users.csv"),
    ]:
        found = eh.recommender(
            str(tmp_path / scores), relevant=str(tmp_path / relevant), user_groups=str(tmp_path / people), **call
        )
        same(columns(found), expected)


def test_user_groups_may_lie_in_several_files(tmp_path):
    matrix, _, groups = generated()
    people = pl.DataFrame({"user": range(len(groups)), "group": groups})
    people[:20].write_csv(tmp_path / "one.csv")
    people[20:].write_csv(tmp_path / "two.csv")
    call = {"top": 3, "interval": None, "chance": None}
    for scores in (matrix, long_of(matrix)):
        expected = columns(eh.recommender(scores, user_groups=dict(enumerate(groups)), **call))
        same(columns(eh.recommender(scores, user_groups=str(tmp_path / "*.csv"), **call)), expected)
        with pytest.raises(EvenhandError, match="user_groups has"):
            eh.recommender(scores, user_groups=[str(tmp_path / "one.csv"), str(tmp_path / "two.csv")], **call)


def test_users_that_are_numbers_here_and_text_there_are_the_same_users(tmp_path):
    scores = pl.DataFrame({"user": [1, 1, 2, 2, 10], "item": [1, 2, 1, 3, 3], "score": [0.9, 0.8, 0.7, 0.6, 0.5]})
    groups = {"1": "a", "2": "b", "10": "b"}
    expected = eh.recommender(scores, user_groups={int(k): v for k, v in groups.items()}, top=1, **QUICK)
    assert columns(eh.recommender(scores, user_groups=groups, top=1, **QUICK)) == columns(expected)
    scores.write_csv(tmp_path / "scores.csv")
    pl.DataFrame({"user": list(groups), "group": list(groups.values())}).write_csv(tmp_path / "users.csv")
    found = eh.recommender(tmp_path / "scores.csv", user_groups=tmp_path / "users.csv", top=1, **QUICK)
    assert columns(found) == columns(expected)
    zeros = scores.with_columns(user=pl.Series(["01", "01", "1", "1", "001"]))
    zeros.write_csv(tmp_path / "zeros.csv")
    assert eh.recommender(tmp_path / "zeros.csv", top=1, **QUICK).shown["user"].to_list() == ["001", "01", "1"]


def test_frames_come_back_in_the_library_they_went_in():
    matrix, _, _ = generated()
    assert isinstance(eh.recommender(long_of(matrix).to_pandas(), top=2, **QUICK).frame, pd.DataFrame)
    assert isinstance(eh.recommender(long_of(matrix).to_pandas(), top=2, **QUICK).shown, pd.DataFrame)
    assert isinstance(eh.recommender(matrix, top=2, **QUICK).frame, pl.DataFrame)


def test_nothing_the_caller_passed_is_changed():
    matrix, truth, groups = generated()
    unsorted = sparse.csr_array(sparse_of(matrix))
    for row in range(unsorted.shape[0]):
        at = slice(unsorted.indptr[row], unsorted.indptr[row + 1])
        unsorted.indices[at], unsorted.data[at] = unsorted.indices[at][::-1].copy(), unsorted.data[at][::-1].copy()
    unsorted.has_sorted_indices = False
    kept = matrix.copy(), truth.copy(), unsorted.indices.copy()
    call = {
        "user_groups": groups,
        "relevant": truth,
        "top": 3,
        "normalize": True,
        "rng": 1,
        "interval": "bootstrap(29)",
    }
    same(columns(eh.recommender(unsorted, **call)), columns(eh.recommender(matrix, **call)))
    np.testing.assert_array_equal(matrix, kept[0])
    np.testing.assert_array_equal(truth, kept[1])
    np.testing.assert_array_equal(unsorted.indices, kept[2])


CATALOGUE = [
    "aggregate_diversity", "item_gini", "exposure_entropy", "recommendation_popularity", "jain_index", "satisfied_items",
    "count_disparity",
]  # fmt: skip


def test_the_default_is_all_that_the_input_allows():
    matrix, truth, groups = generated()

    def asked(**call):
        return eh.recommender(matrix, **call, **QUICK).findings.metrics()

    assert asked(top=3, user_groups=groups, relevant=truth) == [
        "mad", "exposure_tv", "exposure_kl", "precision_ratio", "recall_ratio", "f1_ratio", "rmse_ratio", "mae_ratio",
        *CATALOGUE,
    ]  # fmt: skip
    assert asked(top=3) == CATALOGUE
    assert asked(user_groups=groups) == ["mad"]
    assert asked(user_groups=groups, relevant=truth) == ["mad", "rmse_ratio", "mae_ratio"]


def test_every_pair_of_groups_has_a_row_and_names_its_sides():
    matrix, _, groups = generated()
    found = eh.recommender(matrix, user_groups=groups, metrics="mad", **QUICK).frame
    assert found["group"].to_list() == ["b vs a", "c vs a", "c vs b"]
    one = eh.recommender(matrix, user_groups=groups, protected="a", metrics="mad", **QUICK).frame
    assert one["group"].to_list() == ["a vs b", "a vs c"]
    both = eh.recommender(matrix, user_groups=groups, protected=["a", "b"], versus="c", metrics="mad", **QUICK).frame
    joined = ["ab" if g in "ab" else g for g in groups]
    assert both["estimate"][0] == pytest.approx(m.mad(matrix, user_groups=joined, protected="ab", versus="c"))
    assert both.select("group", "protected", "versus").row(0) == ("a, b vs c", "a, b", "c")


def test_users_listed_without_a_score_are_shown_nothing():
    long = pl.DataFrame({"user": [1, 2], "item": ["x", "y"], "score": [1.0, 1.0]})
    call = {"relevant": long.select("user", "item"), "top": 1, "metrics": "recall_ratio", **QUICK}
    without = eh.recommender(long, user_groups={1: "a", 2: "b"}, **call)
    listed = eh.recommender(long, user_groups={1: "a", 2: "b", 3: "b"}, **call)
    assert without.frame["estimate"][0] == 1.0
    assert listed.frame["estimate"][0] == 0.5
    assert listed.provenance["users_shown_nothing"] == 1


def test_the_catalogue_of_a_long_table():
    long = pl.DataFrame({"user": [1, 2], "item": ["x", "y"], "score": [1.0, 1.0]})

    def ask(**call):
        return eh.recommender(long, top=1, metrics="aggregate_diversity", **QUICK, **call).frame["estimate"][0]

    assert ask() == 1.0
    assert ask(items=8) == 0.25
    for items in (["x", "y", "z"], long, 2.5, True, 10**40):
        with pytest.raises(EvenhandError, match="items="):
            ask(items=items)


def test_a_list_of_recommendations_without_scores():
    listed = pl.DataFrame({"user": [1, 1, 2], "item": ["x", "y", "x"], "gender": ["f", "f", "m"]})
    found = eh.recommender(listed, score=None, user_groups="gender", protected="f", **QUICK)
    expected = m.exposure_tv([[1, 1], [1, 0]], user_groups=["f", "m"], protected="f", threshold=1)
    assert dict(zip(found.frame["metric"], found.frame["estimate"], strict=True))["exposure_tv"] == expected
    assert found.shown.height == 3


def test_shares_of_slots_are_drawn_like_times_shown_where_lists_are_of_one_length():
    lists = tabulate(Ragged.from_matrix(np.random.default_rng(1).random((6, 5))), None, Cut(3), Cut(), 5)
    codes = np.zeros(6, dtype=np.int64)
    total = Crosstab.from_lists(lists, codes, 1, 5, cut=True, everywhere=True)
    (again,) = ResampledLists(lists, draws.Resampled(codes, ["all"], 9, 1)).crosstabs(total)
    np.testing.assert_allclose(again.spread, again.counts[:, 0] / 3)


def test_identical_groups_differ_by_what_noise_alone_gives():
    # Items shown a Poisson(1/2) number of times to either group: TV = exp(-1) (I0(1) + I1(1)).
    rng = np.random.default_rng(5)
    matrix = rng.random((100, 1000))
    found = eh.recommender(matrix, user_groups=["a"] * 50 + ["b"] * 50, top=10, rng=1, interval=None)
    row = dict(zip(found.frame["metric"], found.frame.iter_rows(named=True), strict=True))["exposure_tv"]
    assert row["chance"] == pytest.approx(math.exp(-1) * (i0(1) + i1(1)), abs=0.02)
    assert row["estimate"] == pytest.approx(row["chance"], abs=0.06)
    assert 0.01 < row["p"] <= 1


def test_groups_that_are_shown_other_items_stand_out_from_chance():
    matrix = np.zeros((40, 10))
    matrix[:20, :2] = 1
    matrix[20:, 1:3] = 1
    row = eh.recommender(
        matrix, user_groups=["a"] * 20 + ["b"] * 20, threshold=0.5, metrics="exposure_tv", rng=1, interval=None
    ).frame.row(0, named=True)
    assert row["estimate"] == 0.5
    assert row["p"] < 1e-4  # beyond all 199 draws: a bound from their spread
    assert row["chance"] < 0.2


@pytest.mark.parametrize("exact", [1 << 24, 0])
def test_permuted_labels_keep_their_shares(exact, monkeypatch):
    monkeypatch.setattr(draws, "EXACT", exact)
    codes = np.repeat([0, 1, 2], [300, 600, 100])
    dealt = draws.PermutedLabels(codes, 2, 50, 1)
    parts = dict(dealt.between(0, 50))
    assert parts[0][900:].sum() == parts[1][900:].sum() == 0
    assert (parts[0] + parts[1])[:900].min() == 1
    assert parts[0].sum(0).mean() == pytest.approx(300, rel=0.05)
    if exact:
        assert set(parts[0].sum(0)) == {300.0}


@pytest.mark.parametrize("exact", [1 << 24, 0])
def test_resampled_users_have_the_mean_and_variance_of_the_bootstrap(exact, monkeypatch):
    monkeypatch.setattr(draws, "EXACT", exact)
    codes = np.repeat([0, 1], 500)
    ((_, weights),) = draws.Resampled(codes, ["a", "b"], 999, 1).between(0, 999)
    assert weights.mean() == pytest.approx(1, abs=0.01)
    assert weights.var() == pytest.approx(1, abs=0.02)
    assert np.corrcoef(weights[:100])[np.triu_indices(100, 1)].mean() == pytest.approx(0, abs=0.01)
    assert np.corrcoef(weights[:, :100].T)[np.triu_indices(100, 1)].mean() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("cut", [{"top": 5}, {"threshold": 0.7}])
def test_ends_of_metrics_that_grow_with_users_do_not_widen_where_draws_vary_in_users(cut, monkeypatch):
    scores = np.random.default_rng(3).random((800, 40))
    widths = []
    for exact in (1 << 24, 0):
        monkeypatch.setattr(draws, "EXACT", exact)
        row = eh.recommender(scores, metrics="recommendation_popularity", rng=1, **cut).frame.row(0, named=True)
        widths.append(row["high"] - row["low"])
    assert widths[1] == pytest.approx(widths[0], rel=0.15)


@pytest.mark.parametrize(
    "make",
    [lambda: draws.Resampled(np.zeros(70), ["a"], 90, 1), lambda: draws.PermutedLabels(np.arange(70) % 3, 3, 90, 1)],
)
def test_draws_do_not_depend_on_which_are_made_together(make, monkeypatch):
    monkeypatch.setattr(draws, "EXACT", 0)
    plan = make()
    expected = [weights for _, weights in plan.between(0, 90)]
    for start, stop in ((0, 1), (3, 50), (50, 61), (61, 90)):
        for (_, weights), all_draws in zip(plan.between(start, stop), expected, strict=True):
            assert (weights == all_draws[:, start:stop]).all()


def test_a_group_that_nobody_is_in_is_dealt_to_nobody(monkeypatch):
    monkeypatch.setattr(draws, "EXACT", 0)
    for codes in (np.repeat([0, 1], 50), np.repeat([1, 2], 50), np.repeat([0, 2], 50)):
        dealt = draws.PermutedLabels(codes, 3, 8, 1)
        assert dealt.rows.tolist() == sorted(set(codes.tolist()))
        assert all(20 <= weights.sum(0).mean() <= 80 for _, weights in dealt.between(0, 8))


def test_replicates_of_weight_one_are_the_tally_itself():
    matrix, truth, groups = generated()
    found = eh.recommender(
        matrix, relevant=truth, user_groups=groups, top=4, true_threshold=0.5, rng=1, interval="bootstrap(29)"
    )

    class Once:
        draws, rows, most = 2, np.array([0, 1, 2]), 1

        def between(self, start, stop):
            yield codes, np.ones((len(codes), stop - start), dtype=np.uint8)

    codes = np.array(["abc".index(g) for g in groups])
    lists = tabulate(Ragged.from_matrix(matrix), Ragged.from_matrix(truth), Cut(4), Cut(threshold=0.5), matrix.shape[1])
    total = Crosstab.from_lists(lists, codes, 3, matrix.shape[1], cut=True, everywhere=False)
    (again,) = ResampledLists(lists, Once()).crosstabs(total)
    np.testing.assert_allclose(again.counts[1], total.counts)
    np.testing.assert_allclose(again.marks[1], total.marks)
    np.testing.assert_allclose(again.spread[1], total.spread, rtol=1e-5)
    assert found.frame["undefined_draws"].sum() == 0


@pytest.mark.slow
def test_intervals_cover_the_value_that_other_users_would_give():
    rng = np.random.default_rng(2)
    weight = np.log(1 / np.arange(1, 201) ** 0.8)
    metrics = ["exposure_tv", "item_gini", "exposure_entropy", "aggregate_diversity", "recommendation_popularity"]
    groups = ["a"] * 100 + ["b"] * 100

    def ask(**call):
        sample = weight + rng.gumbel(size=(200, 200))
        return eh.recommender(sample, user_groups=groups, top=10, metrics=metrics, chance=None, **call).frame

    truth = np.median([ask(interval=None)["estimate"] for _ in range(80)], axis=0)
    inside = np.zeros(len(metrics))
    for seed in range(50):
        frame = ask(interval="bootstrap(99)", rng=seed)
        inside += (frame["low"].to_numpy() <= truth) & (truth <= frame["high"].to_numpy())
    assert (inside >= 42).all(), dict(zip(metrics, inside, strict=True))


def test_an_interval_holds_its_estimate_even_where_plain_percentiles_do_not():
    rng = np.random.default_rng(0)
    matrix, groups = rng.random((60, 500)), ["a"] * 30 + ["b"] * 30
    call = {"user_groups": groups, "top": 5, "metrics": "exposure_tv", "rng": 1, "chance": None}
    centred = eh.recommender(matrix, **call).frame.row(0, named=True)
    plain_ends = eh.recommender(matrix, interval="percentile(999)", **call).frame.row(0, named=True)
    assert centred["low"] < centred["estimate"] < centred["high"]
    assert plain_ends["low"] == plain_ends["estimate"]  # all draws lie above it, and the interval is widened to hold it


def test_few_draws_where_many_would_not_fit(monkeypatch):
    matrix, _, groups = generated()
    monkeypatch.setattr(draws, "WORK", 1.0)
    found = eh.recommender(matrix, user_groups=groups, top=3, rng=1)
    assert "40 draws" in found.provenance["interval"]
    assert "999 would not fit" in found.provenance["interval"]
    row = found.only("item_gini").frame.row(0, named=True)
    assert row["low"] < row["estimate"] < row["high"]


def test_more_pairs_of_groups_than_a_minute_allows_are_refused():
    scores = np.random.default_rng(1).random((2_000, 20))
    groups = [f"g{u % 1_000}" for u in range(2_000)]
    with pytest.raises(EvenhandError, match="1,000 different values, too many to compare two by two"):
        eh.recommender(scores, user_groups=groups, top=3)
    call = {"metrics": ["mad", "exposure_tv"], "rng": 1, "interval": "percentile(29)", "chance": "permutation(29)"}
    found = eh.recommender(scores, user_groups=groups, protected="g0", versus="*", top=3, **call)
    assert found.frame["group"].n_unique() == 1


def test_small_groups_are_suppressed():
    matrix, _, _ = generated(users=10)
    found = eh.recommender(
        matrix, user_groups=["a"] * 8 + ["b"] * 2, top=2, min_units=3, rng=1, interval="bootstrap(29)"
    )
    rows = {r["metric"]: r for r in found.frame.iter_rows(named=True)}
    assert rows["exposure_tv"]["note"] == "suppressed"
    assert math.isnan(rows["exposure_tv"]["estimate"])
    assert rows["item_gini"]["note"] != "suppressed"
    assert "differences" not in found.findings.curves


def test_the_size_of_a_suppressed_group_does_not_follow_by_subtraction():
    matrix, _, _ = generated(users=20)
    groups = ["a"] * 10 + ["b"] * 8 + ["c"] * 2  # a and b together, taken from all users, would give c away
    found = eh.recommender(matrix, user_groups=groups, top=2, min_units=3, rng=1, interval=None)
    rows = list(found.only("exposure_tv").findings.rows())
    assert {r["group"] for r in rows if r["note"] == "suppressed"} == {r["group"] for r in rows if "c" in r["group"]}
    assert [r["units"] for r in rows if r["group"] == "b vs a"] == [18], "the pair of two large groups stays"
    assert found.only("item_gini").findings.columns["units"] == [None]
    assert found.provenance["rows"] is None


def test_the_same_seed_gives_the_same_bytes_and_one_more_metric_changes_nothing():
    matrix, _, groups = generated()
    call = {"user_groups": groups, "top": 3, "rng": 9, "interval": "bootstrap(49)"}
    one = eh.recommender(matrix, metrics=["item_gini"], **call)
    two = eh.recommender(matrix, metrics=["mad", "item_gini"], **call)
    assert one.to_text("csv") == eh.recommender(matrix, metrics=["item_gini"], **call).to_text("csv")
    assert one.to_text("csv").splitlines()[1] == two.to_text("csv").splitlines()[-1]


def test_a_result_says_it_in_words_and_survives_json():
    matrix, truth, groups = generated()
    found = eh.recommender(matrix, relevant=truth, user_groups=groups, top=3, rng=1, interval="bootstrap(29)")
    said = found.only("exposure_tv").sentences()[0]
    assert said.startswith("b vs a: ")
    assert "with permuted labels" in said
    data = json.loads(found.to_json())
    assert data["audit"] == "recommender"
    assert data["provenance"]["plan"]["top"] == 3


def test_undefined_rows_carry_their_reason():
    found = eh.recommender([[0.1], [0.2]], user_groups=["a", "a"], threshold=0.5, **QUICK)
    notes = dict(zip(found.frame["metric"], found.frame["note"], strict=True))
    assert notes["mad"] == notes["exposure_tv"] == "group_absent"
    assert notes["item_gini"] == "zero_total"
    assert notes["recommendation_popularity"] == "nothing_shown"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: eh.recommender([[1.0]], metrics="item_gini"), "Pass top or threshold, or leave the metric out"),
        (lambda: eh.recommender([[1.0]]), "nothing to measure"),
        (lambda: eh.recommender([[1.0]], top=1, metrics="mad"), "Pass user_groups, or leave the metric out"),
        (
            lambda: eh.recommender([[1.0]], top=1, user_groups=["a"], metrics="recall_ratio"),
            "Pass relevant, or leave the metric out",
        ),
        (lambda: eh.recommender([[1.0]], top=1, metrics="gini"), "does not fit this question"),
        (lambda: eh.recommender([[1.0]], top=1, user_groups=["a", "b"]), "2 labels for 1 users"),
        (lambda: eh.recommender([[1.0]], top=1, protected="a"), "Pass user_groups"),
        (lambda: eh.recommender([[1.0]], top=1, user_groups={5: "a"}), "numbered from 0"),
        (
            lambda: eh.recommender([[1.0]] * 2, top=1, user_groups=["a", "b"], protected="a", versus="a"),
            "share a group",
        ),
        (lambda: eh.recommender([[1.0]], top=1, convention="ginni"), "Known: elliot, evidently, holisticai"),
        (
            lambda: eh.recommender([[1.0]], top=1, convention="elliot", metrics="recommendation_popularity"),
            "not computed by elliot",
        ),
        (lambda: eh.recommender([[1.0]], top=1, chance="shuffle"), "permutation"),
        (lambda: eh.recommender([[1.0]], top=1, items=5), "Leave items out"),
        (lambda: eh.recommender([[1.0]], relevant=pl.DataFrame({"user": [0]}), top=1), "same form"),
        (lambda: eh.recommender(pl.DataFrame({"user": [1], "itm": [1]}), top=1), "Did you mean 'itm'"),
        (lambda: eh.recommender(pl.DataFrame({"user": [1], "item": [1], "score": ["x"]}), top=1), "not numbers"),
        (
            lambda: eh.recommender(pl.DataFrame({"user": [1, 1], "item": [2, 2], "score": [1, 2]}), top=1),
            "already had one",
        ),
        (
            lambda: eh.recommender(pl.DataFrame({"user": [1, None], "item": [2, 2], "score": [1, 2]}), top=1),
            "missing in 1 rows",
        ),
        (
            lambda: eh.recommender(
                pl.DataFrame({"user": [1], "item": [2], "score": [1.0]}),
                relevant=pl.DataFrame({"user": [1], "item": [2], "rating": [1.0]}),
                top=1,
            ),
            "relevance='rating'",
        ),
        (
            lambda: eh.recommender(pl.DataFrame({"user": [1], "item": [2], "score": [1.0]}), top=1, items=0),
            "smaller than",
        ),
        (lambda: eh.recommender(pl.DataFrame({"user": [1], "item": [2]}), score=None, top=1), "Leave them out"),
        (lambda: eh.recommender("nowhere.npz", top=1), "cannot be read"),
        (lambda: eh.recommender([[1.0]], top=1, metrics="item_gini@3"), "knows no ranks"),
        (lambda: eh.recommender(pd.DataFrame({"x": [0.1], "y": [0.2]}), top=1), r"scores.to_numpy\(\)"),
    ],
)
def test_bad_input_says_what_is_wrong_and_what_to_do(call, words):
    with pytest.raises(EvenhandError, match=words):
        call()


def test_a_wrong_shape_of_shown_is_refused_until_it_is_said_what_is_shown():
    with pytest.raises(EvenhandError, match="Pass top or threshold"):
        _ = eh.recommender([[1.0], [2.0]], user_groups=["a", "b"], **QUICK).shown


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 1000))
def test_long_rows_of_different_length_are_cut_like_short_ones(users, top, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 60, users)
    rows = Ragged(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([np.sort(rng.choice(100, n, replace=False)) for n in lengths] or [np.zeros(0)]).astype(np.int64),
        rng.integers(0, 5, lengths.sum()).astype(float),
    )
    shown, _ = Cut(top=top, ties="first").shown(rows)
    for u in range(users):
        at = slice(rows.starts[u], rows.starts[u + 1])
        best = sorted(zip(-rows.values[at], rows.items[at], strict=True))[:top]
        assert sorted(shown.items[shown.starts[u] : shown.starts[u + 1]]) == sorted(item for _, item in best)


def test_plain_functions_and_the_audit_agree():
    matrix, truth, groups = generated()
    groups = ["a" if g == "c" else g for g in groups]
    call = {"user_groups": groups, "relevant": truth, "top": 4, "true_threshold": 0.5}
    found = eh.recommender(matrix, **call, **QUICK).frame
    for name, estimate in zip(found["metric"], found["estimate"], strict=True):
        assert estimate == pytest.approx(getattr(m, name)(matrix, **call)), name
    assert isinstance(Crosstab.from_arrays(matrix, groups, top=4), Crosstab)
    assert set(OPPORTUNITY) == {"precision", "recall", "f1"}


def test_a_column_of_numbers_stays_one_where_no_row_has_a_number():
    found = eh.recommender([[0.9, 0.1], [0.2, 0.8]], top=1, metrics="item_gini", interval=None)
    assert found.frame.schema["p"] == pl.Float64


def test_items_that_a_convention_shows_and_nobody_scored_have_no_id():
    rows = pl.DataFrame({"user": list("xxyy"), "item": list("pqpq"), "score": [0.1, 0.2, 0.3, 0.1]})
    asked = {"user_groups": {"x": "a", "y": "b"}, "protected": "a", "versus": "b", "interval": None, "chance": None}
    shown = eh.recommender(rows, items=5, top=100, convention="holisticai", **asked).shown
    assert shown["item"].to_list() == ["p", "q", None, None, None] * 2


def two_groups(users=120, items=30, *, shift=0.0, lift=0.0, seed=1):
    rng = np.random.default_rng(seed)
    scores = rng.random((users, items)) + rng.random(items)
    labels = np.array(["a", "b"])[np.arange(users) % 2]
    scores[labels == "b"] += shift
    scores[labels == "b", :6] += lift
    relevant = (rng.random((users, items)) < 0.2).astype(float)
    return scores, labels, relevant


def test_groups_that_are_served_alike_make_no_claim_and_the_headline_says_so():
    scores, labels, relevant = two_groups()
    found = eh.recommender(scores, user_groups=labels, relevant=relevant, top=5, rng=1, interval=None)
    assert [c.metric for c in found.claims] == ["mad", "exposure_tv", "precision_ratio"]
    assert not any(c.made for c in found.claims)
    assert found.headline.startswith("No significant difference between what b and a are shown: ")
    assert found.only("mad").sentences()[0].endswith("Not statistically significant.")


def test_planted_differences_are_claimed_with_their_direction():
    scores, labels, relevant = two_groups(shift=0.1, lift=0.5)
    relevant[labels == "a"] = scores[labels == "a"]  # always right for a, at random for b
    call = {"user_groups": labels, "relevant": relevant, "top": 5, "true_top": 5, "rng": 1, "interval": None}
    found = eh.recommender(scores, **call)
    by_metric = {c.metric: c for c in found.claims}
    assert all(c.made for c in found.claims)
    assert by_metric["exposure_tv"].direction == "differs"
    assert by_metric["mad"].text.startswith("scores are higher for b than for a, by ")
    assert (by_metric["mad"].direction, by_metric["precision_ratio"].direction) == ("lower", "lower")
    assert by_metric["precision_ratio"].text == "mean precision is higher for a than for b"
    row = next(r for r in found.findings.rows() if r["metric"] == "exposure_tv")
    assert found.headline == (
        f"{row['estimate']:.0%} of what b and a are shown differs; with permuted labels {row['chance']:.0%}."
    )
    turned = eh.recommender(scores, **call, convention="holisticai", metrics="precision_ratio")
    assert turned.frame["estimate"][0] > 1
    assert turned.claims[0].text == "mean precision is higher for a than for b"  # whichever way the tool divides


def test_chance_of_total_variation_is_its_mean_over_all_permuted_labels():
    scores = np.array([[3, 1, 0], [0, 3, 1], [3, 0, 1], [1, 3, 0], [0, 1, 3], [3, 1, 0]], dtype=float)
    labels = np.array(list("aabbbb"))
    every = []
    for pair in itertools.combinations(range(6), 2):
        permuted = np.where(np.isin(np.arange(6), pair), "a", "b")
        every.append(eh.metrics.exposure_tv(scores, user_groups=permuted, top=1))
    found = eh.recommender(
        scores, user_groups=labels, top=1, metrics="exposure_tv", interval=None, chance="permutation(20000)", rng=1
    )
    assert np.median(every) != pytest.approx(np.mean(every), abs=0.01)
    assert found.frame["chance"][0] == pytest.approx(np.mean(every), abs=0.005)


def test_labels_are_permuted_within_the_two_groups_that_are_compared():
    scores, labels, _ = two_groups(users=60)
    call = {"top": 5, "metrics": ["exposure_tv", "mad"], "interval": None, "rng": 1}
    alone = eh.recommender(scores, user_groups=labels, **call).frame.row(0, named=True)
    third = np.zeros((500, 30))
    third[:, :5] = 1  # all shown the same: with them the permuted lists would hardly differ
    several = eh.recommender(np.vstack([scores, third]), user_groups=[*labels, *["c"] * 500], **call).frame
    pair = several.row(0, named=True)
    assert pair["group"] == "b vs a"
    assert pair["chance"] == pytest.approx(alone["chance"], abs=1e-12)
    assert pair["p"] == alone["p"]


def test_infinite_divergence_has_no_chance_level_and_says_what_makes_it_infinite():
    scores, labels, _ = two_groups(users=20)
    scores[0, 29] = 9.0  # nobody else is shown it
    scores[1:, 29] = -1.0
    found = eh.recommender(scores, user_groups=labels, top=3, metrics="exposure_kl", rng=1)
    row = found.frame.row(0, named=True)
    assert row["estimate"] == math.inf
    assert np.isnan(row["chance"])
    assert row["note"] == "shown_to_one_group; few_units"
    assert found.sentences()[0].endswith("is infinite: a is shown an item that b never is.")
