"""Recommender measures on plain matrices: against their definitions, the worked cases, and at the edges."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import EvenhandError, UndefinedWarning
from evenhand import metrics as m
from evenhand.cards import needing
from evenhand.tallies.crosstab import Crosstab, Cut
from evenhand.tallies.ragged import Ragged
from golden_cases import CASES, cases, holds, plain
from oracles import recommender as slow

SINGLE = {
    "aggregate_diversity": m.aggregate_diversity,
    "item_gini": m.item_gini,
    "exposure_entropy": m.exposure_entropy,
    "average_recommendation_popularity": m.recommendation_popularity,
}
PAIRED = {"mad": m.mad, "exposure_total_variation": m.exposure_tv, "exposure_kl": m.exposure_kl}
OPPORTUNITY = {"precision": m.precision_ratio, "recall": m.recall_ratio, "f1": m.f1_ratio}


def groups_of(args):
    return ["a" if a else "b" if b else None for a, b in zip(args["in_a"], args["in_b"], strict=True)]


def how_of(args):
    names = {"thresh": "threshold", "true_thresh": "true_threshold"}
    known = ("top", "thresh", "ties", "true_top", "true_thresh", "normalize", "corrected", "base")
    return {names.get(k, k): args[k] for k in known if k in args}


@cases([*SINGLE, *PAIRED, "opportunity_ratio"])
def test_worked_cases(case):
    args = plain(case["args"])
    data, call = args.get("mat", args.get("mat_pred")), how_of(args)
    if "in_a" in args:
        call |= {"user_groups": groups_of(args), "versus": "a", "protected": "b"}
    if "mat_true" in args:
        call["relevant"] = args["mat_true"]
    function = OPPORTUNITY[args["which"]] if "which" in args else {**SINGLE, **PAIRED}[case["fn"]]
    holds(case["expect"], case["tol"], lambda: function(data, **call))


def test_what_is_shown_in_the_worked_case():
    (case,) = [c for c in CASES if c["fn"] == "shown"]
    cut = Cut(top=case["args"]["top"], ties=case["args"]["ties"])
    rows, tied = cut.shown(Ragged.from_matrix(np.array(case["args"]["mat"])))
    assert rows.items.tolist() == [0, 1, 2]
    assert rows.values == pytest.approx([2 / 3] * 3)
    assert tied.tolist() == [True]


score = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, -1.0, None])


@st.composite
def audits(draw, values=score):
    users, items = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    matrix = draw(st.lists(st.lists(values, min_size=items, max_size=items), min_size=users, max_size=users))
    truth = draw(st.lists(st.lists(values, min_size=items, max_size=items), min_size=users, max_size=users))
    groups = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=users, max_size=users))
    cut = draw(st.sampled_from([{"top": 1}, {"top": 2}, {"top": 4}, {"threshold": 0.5}, {"threshold": 2.0}]))
    true = draw(st.sampled_from([{"true_top": 1}, {"true_top": 3}, {"true_threshold": 0.5}]))
    return matrix, truth, groups, cut, true, draw(st.sampled_from(["first", "last", "fractional"]))


def value(function, *args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)
        return function(*args, **keywords)


def same(found, expected):
    return found == pytest.approx(expected, abs=1e-9, nan_ok=True)


@given(audits())
def test_every_measure_agrees_with_its_definition(audit):
    matrix, truth, groups, cut, true, ties = audit
    shown = slow.shown(matrix, **cut, ties=ties)
    relevant = slow.shown(truth, **{k.removeprefix("true_"): v for k, v in true.items()}, ties=ties)
    sides = {"user_groups": groups, "versus": "a", "protected": "b"}
    call = {**cut, "ties": ties}
    assert same(value(m.mad, matrix, **sides), slow.mad(matrix, groups, "a", "b"))
    assert same(value(m.exposure_tv, matrix, **sides, **call), slow.exposure_tv(shown, groups, "a", "b"))
    assert same(value(m.exposure_kl, matrix, **sides, **call), slow.exposure_kl(shown, groups, "a", "b"))
    for which, function in OPPORTUNITY.items():
        for rule in (0, "skip"):
            expected = slow.opportunity_ratio(which, shown, relevant, groups, "a", "b", rule)
            assert same(value(function, matrix, relevant=truth, zero_division=rule, **sides, **call, **true), expected)
    for which, function in (("rmse", m.rmse_ratio), ("mae", m.mae_ratio)):
        assert same(
            value(function, matrix, relevant=truth, **sides), slow.error_ratio(which, matrix, truth, groups, "a", "b")
        )
    assert same(value(m.aggregate_diversity, matrix, **call), slow.aggregate_diversity(shown))
    for corrected in (False, True):
        assert same(value(m.item_gini, matrix, corrected=corrected, **call), slow.item_gini(shown, corrected))
    for base in (math.e, 2):
        assert same(value(m.exposure_entropy, matrix, base=base, **call), slow.exposure_entropy(shown, base))
    assert same(value(m.recommendation_popularity, matrix, **call), slow.recommendation_popularity(shown))


@given(audits())
def test_no_more_than_top_is_shown_and_a_missing_score_never_is(audit):
    matrix, _, _, _, _, ties = audit
    rows, tied = Cut(top=2, ties=ties).shown(Ragged.from_matrix(np.array(matrix, dtype=float)))
    slots = rows.sums(rows.values)
    held = np.array([sum(v is not None for v in row) for row in matrix])
    assert slots == pytest.approx(np.minimum(held, 2))
    assert all(matrix[u][j] is not None for u, j in zip(rows.rows, rows.items, strict=True))
    if ties != "fractional":
        assert set(rows.values) <= {1.0}
    assert not tied[held <= 2].any()


@given(audits())
def test_swapping_the_groups_turns_each_measure_as_its_card_says(audit):
    matrix, truth, groups, cut, true, ties = audit
    call = {**cut, "ties": ties, "user_groups": groups}
    there, back = ({"versus": "a", "protected": "b"}, {"versus": "b", "protected": "a"})
    assert same(value(m.mad, matrix, user_groups=groups, **there), -value(m.mad, matrix, user_groups=groups, **back))
    assert same(value(m.exposure_tv, matrix, **call, **there), value(m.exposure_tv, matrix, **call, **back))
    one, other = (value(m.precision_ratio, matrix, relevant=truth, **true, **call, **side) for side in (there, back))
    if one > 0 and other > 0:
        assert one * other == pytest.approx(1)


@given(audits(values=st.integers(-3, 3).map(float)), st.integers(1, 9))
def test_normalizing_gives_the_same_lists_and_a_mad_on_the_scale_of_the_range(audit, factor):
    matrix, _, groups, _, _, ties = audit
    call = {"top": 2, "ties": ties}
    grown = [[v * factor + 7 for v in row] for row in matrix]
    assert same(
        value(m.mad, matrix, user_groups=groups, versus="a", protected="b", normalize=True),
        value(m.mad, grown, user_groups=groups, versus="a", protected="b", normalize=True),
    )
    assert same(value(m.item_gini, matrix, **call), value(m.item_gini, grown, normalize=True, **call))


def test_normalizing_takes_scores_and_truth_together():
    scores, truth = [[0.0, 5.0], [5.0, 0.0]], [[10.0, 0.0], [10.0, 0.0]]
    call = {"user_groups": ["a", "b"], "relevant": truth, "normalize": True, "true_threshold": 0.9}
    assert m.precision_ratio([[5.0, 0.0], [0.0, 5.0]], threshold=0.5, **call) == 0.0
    with pytest.warns(UndefinedWarning, match="zero_denominator"):
        assert math.isnan(m.precision_ratio(scores, threshold=0.5, **call))


@given(audits())
def test_fractional_ties_do_not_depend_on_the_order_of_items(audit):
    matrix, *_ = audit
    turned = [row[::-1] for row in matrix]
    for function in (m.item_gini, m.exposure_entropy, m.recommendation_popularity, m.aggregate_diversity):
        assert same(
            value(function, matrix, top=2, ties="fractional"), value(function, turned, top=2, ties="fractional")
        )


@given(audits())
def test_a_batch_of_replicates_equals_a_loop(audit):
    matrix, truth, groups, cut, true, ties = audit
    one = Crosstab.from_arrays(matrix, groups, "b", "a", truth, ties=ties, **cut, **true)
    two = Crosstab.from_arrays(matrix[::-1], groups[::-1], "b", "a", truth, ties=ties, **cut, **true)
    both = Crosstab(
        np.stack([one.counts, two.counts]),
        np.stack([one.spread, two.spread]),
        np.stack([one.marks, two.marks]),
        one.pair,
        judged=True,
    )
    for metric in needing(Crosstab).values():
        np.testing.assert_allclose(metric.on(both), [metric.on(one), metric.on(two)], equal_nan=True)


A, B = [[1.0, 0.0], [1.0, 0.0]], ["a", "b"]


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (lambda: m.item_gini([[0.1, 0.2]], threshold=0.5), "zero_total"),
        (lambda: m.exposure_entropy([[0.1, 0.2]], threshold=0.5), "zero_total"),
        (lambda: m.recommendation_popularity([[0.1, 0.2]], threshold=0.5), "nothing_shown"),
        (lambda: m.exposure_tv([[0.1], [1.0]], user_groups=B, threshold=0.5), "nothing_shown"),
        (lambda: m.exposure_kl([[0.1], [1.0]], user_groups=B, threshold=0.5, smoothing=1.0), "nothing_shown"),
        (lambda: m.mad(A, user_groups=["a", "a"]), "group_absent"),
        (lambda: m.mad(A, user_groups=["a", "a"], protected="b", versus="a"), "group_absent"),
        (lambda: m.mad([[None, None], [1, 1]], user_groups=B), "empty"),
        (lambda: m.item_gini([[1.0]], top=1, corrected=True), "single_member"),
        (lambda: m.exposure_entropy([[1.0]], top=1, normalized=True), "single_member"),
        (lambda: m.item_gini(np.zeros((0, 3)), top=1), "empty"),
        (lambda: m.aggregate_diversity(np.zeros((3, 0)), top=1), "empty"),
        (lambda: m.aggregate_diversity(np.zeros((0, 3)), top=1), "empty"),
        (lambda: m.exposure_tv(np.zeros((2, 0)), user_groups=B, top=1), "empty"),
        (lambda: m.exposure_kl(np.zeros((2, 0)), user_groups=B, top=1), "empty"),
        (lambda: m.exposure_entropy(np.zeros((2, 0)), top=1), "empty"),
        (lambda: m.precision_ratio(A, user_groups=B, relevant=[[0, 1], [1, 0]], top=1), "zero_denominator"),
        (lambda: m.precision_ratio(A, user_groups=B, relevant=[[0, 1], [0, 1]], top=1), "zero_over_zero"),
        (
            lambda: m.precision_ratio([[1.0], [0.1]], user_groups=B, relevant=[[0], [1]], threshold=0.5),
            "zero_over_zero",
        ),
        (
            lambda: m.precision_ratio([[0.1], [1.0]], user_groups=B, relevant=[[0], [1]], threshold=0.5),
            "zero_denominator",
        ),
        (lambda: m.precision_ratio([[0.1], [0.1]], user_groups=B, relevant=[[0], [1]], threshold=0.5), "nothing_shown"),
        (
            lambda: m.recall_ratio(A, user_groups=B, relevant=[[0, 0], [1, 0]], top=1, zero_division="skip"),
            "no_relevant_in_group",
        ),
        (lambda: m.rmse_ratio(A, user_groups=B, relevant=A), "zero_over_zero"),
        (lambda: m.mae_ratio(A, user_groups=B, relevant=[[1, 0], [0, 0]]), "zero_denominator"),
    ],
)
def test_undefined_is_nan_with_its_reason(compute, reason):
    with pytest.warns(UndefinedWarning) as caught:
        assert math.isnan(compute())
    assert [w.message.reason for w in caught] == [reason]


def test_one_group_without_relevant_items_counts_as_zero_by_default():
    assert m.recall_ratio(A, user_groups=B, relevant=[[1, 0], [0, 0]], top=1) == 0.0


def test_smoothing_makes_the_divergence_finite():
    matrix = [[1, 1], [0, 1]]
    assert m.exposure_kl(matrix, user_groups=B, threshold=0.5) == math.inf
    a, b = np.array([2, 2]) / 4, np.array([1, 2]) / 3
    assert m.exposure_kl(matrix, user_groups=B, threshold=0.5, smoothing=1.0) == pytest.approx(
        (a * np.log(a / b)).sum()
    )


def test_a_score_of_minus_infinity_is_masked():
    assert m.aggregate_diversity([[-np.inf, 0.1, 0.2]], top=2) == pytest.approx(2 / 3)
    assert m.mad([[-np.inf, 1.0], [0.0, 0.0]], user_groups=B) == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: m.item_gini([[1.0]], top=0), "top=0 is not a number of items"),
        (lambda: m.item_gini([[1.0]], top=1, threshold=0.5), "both given"),
        (lambda: m.item_gini([[1.0]], threshold="high"), "threshold='high' is not a number"),
        (lambda: m.item_gini([[1.0]], top=1, ties="random"), "ties='random' is unknown"),
        (lambda: m.item_gini([1.0, 2.0], top=1), "two dimensions"),
        (lambda: m.item_gini([["x"]], top=1), "matrix of numbers"),
        (lambda: m.item_gini([[np.inf]], top=1), "infinite"),
        (lambda: m.mad([[1.0]], user_groups=["a", "b"]), "2 labels for 1 users"),
        (lambda: m.mad([[1.0]] * 3, user_groups=["a", "b", "c"]), "Pass protected and versus"),
        (lambda: m.mad([[1.0]]), "Pass user_groups"),
        (lambda: m.precision_ratio(A, user_groups=B, top=1), "Pass relevant"),
        (lambda: m.item_gini(A), "Pass top or threshold"),
        (lambda: m.exposure_tv(A, user_groups=B), "Pass top or threshold"),
        (lambda: m.precision_ratio(A, user_groups=B, relevant=[[1, 0]], top=1), "has shape"),
        (lambda: m.exposure_entropy(A, top=1, base=1.0), "outside"),
        (lambda: m.precision_ratio(A, user_groups=B, relevant=A, top=1, zero_division=1), "zero_division"),
        (lambda: m.item_gini(A, top=1, convention="ginni"), "Known: elliot"),
    ],
)
def test_bad_input_says_what_is_wrong_and_what_to_do(call, words):
    with pytest.raises(EvenhandError, match=words):
        call()


def test_groups_taken_together_are_one_group():
    matrix, groups = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], ["a", "b", "c"]
    together = m.exposure_tv(matrix, user_groups=groups, protected=["b", "c"], versus="a", top=1)
    assert together == m.exposure_tv(matrix, user_groups=["a", "x", "x"], top=1) == 0.5


def test_a_score_in_single_precision_reaches_the_threshold_it_was_written_as():
    scores = np.array([[0.7, 0.1], [0.3, 0.7]], dtype=np.float32)
    assert m.aggregate_diversity(scores, threshold=0.7) == 1
    assert m.aggregate_diversity(np.array([[0.69999999, 0.1]]), threshold=0.7) == 0
