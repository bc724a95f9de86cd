"""Pairwise accuracy against the plain double loop; Kendall's tau-c against scipy."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

import evenhand as eh
from evenhand.metrics import accuracy, inter_acc, intra_acc, kendall_tau_c
from evenhand.metrics.agreement import tau_c_p
from evenhand.tallies.pairs import Pairs, counted_pairs
from golden_cases import cases


def by_definition(request, score, relevance, group, groups):
    wins = np.zeros((max(request, default=-1) + 1, groups, groups))
    pairs = np.zeros_like(wins)
    for i in range(len(score)):
        for j in range(len(score)):
            if request[i] == request[j] and relevance[i] > relevance[j] and group[i] >= 0 and group[j] >= 0:
                pairs[request[i], group[i], group[j]] += 1
                wins[request[i], group[i], group[j]] += (score[i] > score[j]) + 0.5 * (score[i] == score[j])
    return wins, pairs


items = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 6), st.integers(-1, 2)), min_size=0, max_size=40
)


@given(items)
def test_pairs_equal_the_double_loop(rows):
    request, score, relevance, group = (np.array([r[k] for r in rows], dtype=np.int64) for k in range(4))
    found = counted_pairs(request, score.astype(float), relevance.astype(float), group, 3)
    expected = by_definition(request, score, relevance, group, 3)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@given(items)
def test_swapping_the_sides_flips_the_sign(rows):
    score, relevance, group = ([r[k] for r in rows] for k in (1, 2, 3))
    labels = ["PUX"[g] if g >= 0 else None for g in group]
    for metric in (intra_acc, inter_acc):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", eh.UndefinedWarning)
            one = metric(score, relevance=relevance, groups=labels, protected="P", versus="U")
            other = metric(score, relevance=relevance, groups=labels, protected="U", versus="P")
        assert one == pytest.approx(-other, nan_ok=True)


def test_continuous_relevance_takes_all_its_bits():
    rng = np.random.default_rng(1)
    n = 200
    request, score, relevance, group = (
        rng.integers(0, 3, n),
        rng.normal(size=n),
        rng.normal(size=n),
        rng.integers(0, 2, n),
    )
    for a, b in zip(
        counted_pairs(request, score, relevance, group, 2),
        by_definition(request, score, relevance, group, 2),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("length", "groups"), [(3, 40), (200, 5), (700, 3)])
def test_counts_of_many_groups_and_of_long_lists_do_not_run_into_each_other(length, groups):
    rng = np.random.default_rng(length)
    request, group = np.repeat([0, 1], length), rng.integers(0, groups, 2 * length)
    relevance, score = rng.integers(0, 2, 2 * length) * 7.0, np.tile([0.0, 1.0], length)
    relevance[:length], score[:length] = np.arange(length) % 2, np.arange(length) % 2  # every pair is won
    found = counted_pairs(request, score, relevance, group, groups)
    above, beaten = relevance[:, None] > relevance, (score[:, None] > score) + (score[:, None] == score) / 2
    for one, counted in zip(found, (above * beaten, above), strict=True):
        for q in (0, 1):
            here = [(request == q) & (group == g) for g in range(groups)]
            assert one[q].tolist() == [[counted[np.ix_(i, j)].sum() for j in here] for i in here]


@cases(["pairwise_accuracy", "pair"])
def test_cases_of_the_book(case):
    args, expect = case["args"], case["expect"]
    rows = [
        (q, request["score"][d], request["rel"][d], args["groups"][d])
        for q, request in enumerate(args["requests"])
        for d in request["score"]
        if d in request["rel"]
    ]
    request, score, relevance, group = zip(*rows, strict=True)
    if case["fn"] == "pair":
        named = dict(relevance=relevance, groups=group, requests=request, protected=args["plus"], versus=args["minus"])
        if "nan" in expect:
            with pytest.warns(eh.UndefinedWarning) as caught:
                assert math.isnan(intra_acc(score, **named))
            assert caught[0].message.reason == expect["nan"]
        else:
            assert intra_acc(score, **named) == pytest.approx(expect["IntraAcc"], abs=case["tol"])
            assert inter_acc(score, **named) == pytest.approx(expect["InterAcc"], abs=case["tol"])
        return
    found = Pairs.from_arrays(score, relevance, group, requests=request)
    above = found.groups.index(args["g1"])
    if args["g2"] is None:
        value = found.wins[above].sum() / found.pairs[above].sum()
    else:
        value = float(found.accuracy(above, found.groups.index(args["g2"])))
    assert value == pytest.approx(expect, abs=case["tol"])


@cases(["kendall_tau_c"])
def test_tau_cases_of_the_book(case):
    if isinstance(case["expect"], dict):
        with pytest.warns(eh.UndefinedWarning) as caught:
            assert math.isnan(kendall_tau_c(**case["args"]))
        assert caught[0].message.reason == case["expect"]["nan"]
    else:
        assert kendall_tau_c(**case["args"]) == pytest.approx(case["expect"], abs=case["tol"])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=20))
def test_tau_c_equals_scipy(pairs):
    x, y = zip(*pairs, strict=True)
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert kendall_tau_c(x, y) == pytest.approx(kendalltau(x, y, variant="c").statistic)


def test_with_four_systems_p_cannot_fall_below_one_in_twelve():
    p = tau_c_p(np.arange(4.0), np.arange(4.0), 999, np.random.default_rng(0))
    assert p == pytest.approx(2 / 24)


def test_accuracy_of_everything_and_of_nothing():
    assert accuracy([2, 1], relevance=[1, 0], groups=["a", "b"]) == 1.0
    with pytest.warns(eh.UndefinedWarning):
        assert math.isnan(accuracy([2, 1], relevance=[1, 1], groups=["a", "b"]))
