"""Random orders of lists: every order is equally likely, and what they give is what the metric gives on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest

from evenhand.cards import parse_metric
from evenhand.intervals import orders as orders_module
from evenhand.intervals.orders import item_blocks, null_sums, random_orders, random_places, shuffled
from evenhand.metrics.prefix import looked_at, reading_of
from evenhand.tallies.placement import Placement, distinct_rows, grouped

METRICS = ("ndd", "ndr", "ndkl", "ndjs", "ndjs(target='equal')", "pref_nd(step=2)", "ndd(reference='list')@4")


def lists(lengths, gaps=0.0, seed=1, groups=3):
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random(sum(lengths)) < gaps, -1, rng.integers(0, groups, sum(lengths))).astype(np.int8)
    return Placement(codes, np.cumsum([0, *lengths]), tuple("abc"[:groups]), (0,))


def orders_of(p, *metrics, draws=199, seed=1):
    """The metrics and their random orders."""
    wanted = [parse_metric(metric) for metric in metrics]
    readings = [reading_of(a, looked_at(a, p)) for a in wanted]
    return [random_orders(reading, reading.scores(), draws, seed) for reading in readings]


def test_every_order_is_equally_likely():
    drawn = shuffled(4, 24_000, np.random.default_rng(1))
    _, times = np.unique(drawn @ 10 ** np.arange(4), return_counts=True)
    assert len(times) == 24
    assert ((times - 1000) ** 2 / 1000).sum() < 45  # chi square of 23 degrees: 0.4%
    assert shuffled(1, 3, np.random.default_rng(1)).tolist() == [[0], [0], [0]]


def test_what_is_left_of_random_orders_of_more_items_is_as_random():
    six, five = (np.concatenate([order for _, order in random_places(lists([size]), 0, 24_000, 1)]) for size in (6, 5))
    assert (six[six < 5].reshape(-1, 5) == five).all()
    _, times = np.unique(five @ 10 ** np.arange(5), return_counts=True)
    assert len(times) == 120
    assert ((times - 200) ** 2 / 200).sum() < 165  # chi square of 119 degrees: 0.3%


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_sums_over_random_orders_are_those_of_the_metric_on_them(metric, gaps):
    p = lists([9, 12, 12, 7, 12, 30], gaps)
    wanted = parse_metric(metric)
    for i in range(len(p)):
        alone = p.take(np.array([i]))
        reading = reading_of(wanted, looked_at(wanted, alone))
        (mix,) = reading.placement.mixes
        sums = null_sums(reading, np.array([0]), mix.weights(reading.weights(mix.is_labelled.shape[1])), 50, 1)[0]
        places = np.concatenate([order for _, order in random_places(reading.placement, 0, 50, 1)])
        blocks, seen = item_blocks(reading, 0), reading.placement
        codes = np.tile(seen.codes, (50, 1))
        at = np.flatnonzero(seen.codes >= 0)
        others = set(range(len(seen.groups))) - {group for group, _, _ in blocks}
        codes[:, at] = min(others, default=0)
        for group, start, stop in blocks:
            np.put_along_axis(codes, at[places[:, start:stop]], group, axis=1)
        many = replace(seen, codes=codes.ravel(), starts=np.arange(51) * len(seen.codes))
        np.testing.assert_allclose(sums, replace(reading, placement=many).sums(), atol=1e-9)


@pytest.mark.parametrize("metric", ["ndd", "ndkl", "ndjs"])
def test_random_orders_have_the_law_of_all_orders(metric):
    p = lists([7], seed=4)
    every = np.array([p.codes[list(order)] for order in set(permutations(range(7)))])
    values = looked_at(parse_metric(metric), p)
    exact = reading_of(parse_metric(metric), Placement(every.ravel(), np.arange(0, every.size + 1, 7), p.groups, (0,)))
    exact = exact.scores(chance=False).values
    (orders,) = orders_of(values, metric, draws=20_000)
    drawn = orders.null_means(np.array([0]))
    assert orders.variances[0] == pytest.approx(exact.var(), rel=0.06)
    assert orders.thirds[0] == pytest.approx(((exact - exact.mean()) ** 3).mean(), abs=0.1 * exact.std() ** 3)
    assert drawn.mean() == pytest.approx(exact.mean(), rel=0.01)
    for level in (0.1, 0.5, 0.9):
        cut = np.quantile(exact, level)
        assert (drawn <= cut + 1e-6).mean() == pytest.approx((exact <= cut + 1e-6).mean(), abs=0.015)


def test_other_lists_change_no_order_and_lists_of_one_length_share_theirs():
    p = lists([12, 9, 12, 12, 9, 15], seed=3)
    (all_of_them,) = orders_of(p, "ndkl")
    for i in range(len(p)):
        (alone,) = orders_of(p.take(np.array([i])), "ndkl")
        assert alone.p[0] == all_of_them.p[i]
        assert alone.variances[0] == pytest.approx(all_of_them.variances[i], rel=1e-12)


def test_shares_have_orders_of_their_own():
    rows = np.tile([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [0.25, 0.75]], (2, 1))
    p = Placement(np.zeros(8, np.int8), np.array([0, 4, 8]), ("a", "b"), rows=rows + np.repeat([0, 1e-9], 4)[:, None])
    (orders,) = orders_of(p, "ndjs", draws=99)
    first, second = (orders.null_means(np.array([i])) for i in range(2))
    assert np.abs(first - second).max() > 0.01


def test_every_ranking_of_a_mean_has_orders_of_its_own():
    p = Placement(np.tile([0, 0, 1, 1], 100).astype(np.int8), np.arange(0, 401, 4), ("a", "b"), (0,))
    (orders,) = orders_of(p, "ndd", draws=999)
    one, all_of_them = (orders.null_means(np.arange(many)) for many in (1, 100))
    assert all_of_them.std() == pytest.approx(one.std() / 10, rel=0.1)
    assert all_of_them.mean() == pytest.approx(orders.means[0], abs=4 * one.std() / np.sqrt(999 * 100))


@pytest.mark.parametrize("metric", ["ndd", "ndkl", "ndjs"])
def test_p_of_a_mean_differs_between_seeds_by_binomial_error_and_by_no_name(metric):
    p = lists([10] * 60, seed=8)
    ps = np.array([orders_of(p, metric, draws=999, seed=s)[0].p_of_mean(np.arange(60)) for s in range(30)])
    level = ps.mean()
    assert 0.01 < level < 0.99
    assert ps.std() < 1.5 * np.sqrt(level * (1 - level) / 999)
    renamed = Placement(2 - p.codes, p.starts, ("a", "b", "c"), (2,)).take(np.arange(60)[::-1])
    assert orders_of(renamed, metric, draws=999, seed=3)[0].p_of_mean(np.arange(60)) == ps[3]


@pytest.mark.parametrize("metric", ["ndd", "ndkl"])
def test_three_moments_stand_for_the_orders_of_many(metric, monkeypatch):
    p = lists([12] * 150, seed=2, groups=2)
    (orders,) = orders_of(p, metric, draws=3999)
    drawn = orders.p_of_mean(np.arange(150))
    monkeypatch.setattr(orders_module, "MANY", 20)
    assert orders.p_of_mean(np.arange(150)) == pytest.approx(drawn, abs=0.03)


def test_a_list_that_no_target_allows_is_infinitely_far_in_every_order():
    p = lists([6], groups=2, seed=2)
    (orders,) = orders_of(p, "pref_kl(target={'a': 1.0}, normalizer=None, step=1, discount='log2(i+1)')", draws=99)
    assert orders.p[0] == 1.0


@pytest.mark.parametrize("spread", [3, 1000])
def test_distinct_rows_are_those_of_a_sort(spread):
    rows = np.random.default_rng(1).integers(0, spread, (300, 2)).astype(np.float64)
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    for found, wanted in zip(distinct_rows(rows), (first, which.reshape(-1)), strict=True):
        assert found.tolist() == wanted.tolist()
    order, edges = grouped(which.reshape(-1), len(first))
    assert [which[order[a:b]].tolist() for a, b in pairwise(edges)] == [
        [i] * (b - a) for i, (a, b) in enumerate(pairwise(edges))
    ]
