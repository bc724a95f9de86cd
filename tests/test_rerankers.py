"""Re-rankers and distances between lists, held against their definitions on small lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.allocation.rerankers import boosted, calibrated, det_const_sort, fa_star_ir
from evenhand.metrics.reorder import least_promoted, ndcg, rank_biased_overlap
from evenhand.metrics.representation import fair_satisfied, fair_table
from evenhand.tallies.slates import Owners, Reordered, Slates
from oracles import rebalance as slow


def drawn(seed):
    """A few requests of different sizes with tied scores, groups and targets."""
    rng = np.random.default_rng(seed)
    sizes, top, groups = rng.integers(1, 12, 4), int(rng.integers(1, 9)), int(rng.integers(2, 5))
    item = np.concatenate([rng.permutation(14)[:n] for n in sizes])
    target = rng.dirichlet(np.ones(groups)).round(2)
    slates = Slates.from_arrays(
        np.repeat(np.arange(4), sizes),
        item,
        rng.random(len(item)).round(1),
        Owners.from_arrays(np.arange(14)),
        top,
        np.ones(top),
    )
    return slates, rng.integers(0, groups, 14), target / target.sum()


def each(slates, lists):
    """Scores and item codes of every request, with its list as places among its own candidates."""
    for q in range(slates.requests):
        rows = slice(slates.starts[q], slates.starts[q + 1])
        chosen = lists[q][lists[q] >= 0] - slates.starts[q]
        yield slates.score[rows], slates.item[rows], chosen.tolist()


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_det_const_sort_is_the_published_algorithm(seed):
    slates, group, target = drawn(seed)
    for score, item, chosen in each(slates, det_const_sort(slates, group, target)):
        assert chosen == slow.det_const_sort(score, group[item], slates.top, target)


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_calibrated_lists_are_what_trying_every_candidate_gives(seed):
    slates, group, target = drawn(seed)
    for score, item, chosen in each(slates, calibrated(slates, group, target, 0.5)):
        assert chosen == slow.calibrated(score, group[item], slates.top, target, 0.5)


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_fa_star_ir_takes_the_best_unless_too_few_protected_stand_above(seed):
    slates, group, _ = drawn(seed)
    side = np.minimum(group, 1)
    lists = fa_star_ir(slates, side, lambda k: np.array(fair_table(k, 0.4, 0.2).table))
    for score, item, chosen in each(slates, lists):
        table = fair_table(len(chosen), 0.4, 0.2).table
        assert chosen == slow.fa_star_ir(side[item] == 0, slates.top, table)
        enough = (side[item] == 0).sum() >= table[-1]
        if enough:
            assert fair_satisfied((side[item] == 0)[chosen].tolist(), protected=True, p=0.4, alpha=0.2)
        assert len(score) >= len(chosen)


def test_fa_star_ir_favours_the_protected_and_not_the_others():
    slates = Slates.from_arrays([0] * 6, range(6), [6.0, 5, 4, 3, 2, 1], Owners.from_arrays(range(6)), 4, np.ones(4))
    side = np.array([1, 1, 1, 1, 0, 0])  # the protected have the lowest scores
    lists = fa_star_ir(slates, side, lambda k: np.array(fair_table(k, 0.6, 0.2, adjusted=False).table))
    assert (side[slates.item[lists[0]]] == 0).sum() >= 1


def test_boosts_are_added_to_the_score_over_the_ideal_gain_of_the_request():
    slates = Slates.from_arrays(
        [0, 0, 1, 1], [0, 1, 0, 1], [2.0, 1.0, 20.0, 10.0], Owners.from_arrays([0, 1]), 1, np.ones(1)
    )
    assert boosted(slates, np.array([0.0, 0.49])).tolist() == [[0], [2]]
    assert boosted(slates, np.array([0.0, 0.51])).tolist() == [[1], [3]]


@given(st.permutations(range(9)), st.permutations(range(11)), st.integers(1, 8), st.sampled_from([0.5, 0.9]))
def test_rank_biased_overlap_is_its_definition(before, after, length, patience):
    shown = list(after)[:length]
    assert rank_biased_overlap(shown, before=before, patience=patience) == pytest.approx(
        slow.overlap(shown, list(before), patience)
    )


def test_the_least_item_promoted_is_counted_from_the_end_of_the_list():
    assert least_promoted(["e", "a"], before=["a", "b", "c", "d", "e"]) == 3
    assert least_promoted(["b", "a"], before=["a", "b", "c"]) == 0


def test_lists_of_different_length_are_measured_side_by_side():
    both = Reordered(np.array([[2, 1, 0], [1, 2, 5]]))
    assert rank_biased_overlap.on(both).tolist() == pytest.approx(
        [rank_biased_overlap(["b", "a"], before=["a", "b"]), rank_biased_overlap(["a", "b", "e"], before=list("abcde"))]
    )
    assert least_promoted.on(both).tolist() == [0, 2]


def test_ndcg_is_one_for_the_best_order_and_undefined_without_any_gain():
    assert ndcg([3, 2, 1]) == 1
    assert ndcg([1, 2], candidates=[3, 2, 1]) == pytest.approx((1 + 2 / np.log2(3)) / (3 + 2 / np.log2(3)))
    with pytest.warns(UserWarning, match="zero_utility"):
        assert np.isnan(ndcg([0, 0]))
