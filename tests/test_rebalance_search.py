"""The best policy for a strength, held against linear programmes; its bound, its draws, its lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.allocation.policies import (
    Atkinson,
    Evenness,
    Search,
    Server,
    Shares,
    Welfare,
    onto_permutahedron,
    onto_simplex,
    smallest,
)
from evenhand.metrics.inequality import atkinson, gini
from evenhand.tallies.slates import Owners, Slates
from oracles import rebalance as slow


def instance(seed, requests=5, candidates=6, top=3, providers=4, shared=False):
    """A small market in which everybody has a candidate; `shared`: some items have two providers."""
    rng = np.random.default_rng(seed)
    own = np.concatenate([np.arange(providers), rng.integers(0, providers, candidates)])
    items = np.stack([rng.permutation(len(own))[:candidates] for _ in range(requests)])
    items[0, :providers] = np.arange(providers)  # everybody somewhere
    items[0, providers:] = np.arange(providers, candidates)
    score = rng.gamma(1.0, size=items.shape) * (1 + 2 * (own[items] == 0))
    owners = Owners.from_arrays(own)
    if shared:
        item, provider = np.append(owners.item, [0, 1]), np.append(owners.provider, [1, 2])
        share = np.where(item < 2, 0.5, 1.0)
        owners = Owners(item, provider, share, owners.items, owners.providers)
    request = np.repeat(np.arange(requests), candidates)
    return Slates.from_arrays(request, items.ravel(), score.ravel(), owners, top, 1 / np.log2(np.arange(2, top + 2)))


def found(slates, objective, strength, iterations=200):
    return Search(Server(slates), objective, iterations).at(strength)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strength", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("shared", [False, True])
def test_gini_policies_are_within_a_thousandth_of_the_linear_programme(seed, strength, shared):
    slates = instance(seed, shared=shared)
    best = slow.best_value(slates, strength)
    policy = found(slates, Evenness(slates.owners.providers), strength)
    assert best - 0.001 <= policy.policy.value <= best + 1e-9
    assert policy.bound >= best - 1e-9
    assert policy.converged


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strength", [0.1, 0.6])
def test_target_shares_are_within_a_thousandth_of_the_linear_programme(seed, strength):
    slates = instance(seed)
    target = np.random.default_rng(seed + 50).dirichlet(np.ones(slates.owners.providers))
    best = slow.best_value(slates, strength, target)
    policy = found(slates, Shares(target), strength)
    assert best - 0.001 <= policy.policy.value <= best + 1e-9
    assert policy.bound >= best - 1e-9


@pytest.mark.parametrize("objective", [Atkinson(0.5), Atkinson(2.0), Welfare(0.5), Welfare(1.0), Welfare(2.0)])
@pytest.mark.parametrize("strength", [0.1, 0.6])
def test_smooth_objectives_are_within_a_thousandth_of_a_quadratic_programme(objective, strength):
    slates = instance(3, requests=3, candidates=5, top=2, providers=4)

    def slope(x):
        return (x / objective.equivalent(x)) ** -objective.epsilon / len(x)

    best = slow.best_smooth_value(slates, strength, objective.value, slope)
    policy = found(slates, objective, strength)
    assert best - 0.001 <= policy.policy.value <= best + 2e-6  # the programme stops near its own optimum
    assert policy.bound >= best - 2e-6


def test_values_of_objectives_are_one_minus_the_metrics():
    x = np.array([0.1, 2.0, 0.5, 1.4])
    assert Evenness(4).value(x) == pytest.approx(1 - gini(x))
    for epsilon in (0.5, 1.0, 2.0):
        assert Atkinson(epsilon).value(x) == pytest.approx(1 - atkinson(x, epsilon=epsilon))
    assert Welfare(1.0).value(x) == pytest.approx(1 + np.log(x).mean())
    assert Shares(np.full(4, 0.25)).value(x) == pytest.approx(1 - np.abs(x / 4 - 0.25).sum() / 2)


@pytest.mark.parametrize(
    "objective", [Evenness(5), Shares(np.array([0.5, 0.2, 0.1, 0.1, 0.1])), Welfare(1.0), Atkinson(0.5)]
)
@given(st.lists(st.floats(0.0, 5.0), min_size=5, max_size=5), st.lists(st.floats(0.0, 5.0), min_size=5, max_size=5))
def test_slopes_bound_the_objective_wherever_they_were_taken(objective, at, elsewhere):
    x, y = (np.array(v) + 1e-9 for v in (at, elsewhere))
    x, y = x * 5 / x.sum(), y * 5 / y.sum()
    for width in (0.01, 1.0, 30.0):
        slope = objective.slope(x, np.zeros(5), width)
        assert objective.value(y) <= slope.prices @ y + slope.offset + 1e-9


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=6))
def test_projections_are_the_closest_points(z):
    z = np.array(z)
    n = len(z)
    falling = np.linspace(1.0, -1.0, n)
    rng = np.random.default_rng(0)
    near, sure = onto_permutahedron(z, falling), onto_simplex(z)
    assert sure.min() >= 0
    assert sure.sum() == pytest.approx(1)
    assert near.sum() == pytest.approx(falling.sum(), abs=1e-9)
    for _ in range(20):
        mixed = rng.dirichlet(np.ones(4)) @ np.stack([rng.permutation(falling) for _ in range(4)])
        assert (z - near) @ (mixed - near) <= 1e-7 * (1 + np.abs(z).max())  # no feasible point on the other side
        other = rng.dirichlet(np.ones(n))
        assert (z - sure) @ (other - sure) <= 1e-7 * (1 + np.abs(z).max())


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_the_smallest_are_those_of_a_stable_sort_ties_included(seed, top):
    cost = np.random.default_rng(seed).integers(0, 4, (7, 9)).astype(float)
    assert smallest(cost, top).tolist() == np.argsort(cost, axis=1, kind="stable")[:, :top].tolist()


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_lists_are_those_of_a_full_sort_however_the_boosts_moved_before(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, 12)
    request = np.repeat(np.arange(12), sizes)
    item = np.concatenate([rng.permutation(40)[:n] for n in sizes])
    slates = Slates.from_arrays(
        request,
        item,
        rng.random(len(item)).round(1),
        Owners.from_arrays(np.arange(40) % 7),
        5,
        np.ones(5) / np.arange(1, 6),
    )
    server = Server(slates)
    boosts = np.zeros(7)
    for step in (0.3, 0.01, 0.02, 0.001, 0.5, 0.0, 0.01):
        boosts = boosts + step * rng.normal(size=7)
        per_item = slates.owners.per_item(boosts)
        lists = server.fill(per_item)
        for q in range(12):
            rows = np.arange(slates.starts[q], slates.starts[q + 1])
            worth = -slates.gain[rows] - per_item[slates.item[rows]]
            assert lists[q][lists[q] >= 0].tolist() == rows[np.argsort(worth, kind="stable")][:5].tolist()


def test_ranks_of_equal_attention_are_filled_best_score_first():
    slates = Slates.from_arrays(
        [0] * 4, [0, 1, 2, 3], [4.0, 3.0, 2.0, 1.0], Owners.from_arrays([0, 1, 2, 3]), 3, np.ones(3)
    )
    assert Server(slates).fill(np.array([0.0, 0.0, 0.0, 9.0])).tolist() == [[0, 1, 3]]


def test_a_strength_of_zero_is_the_order_as_ranked_and_one_is_as_even_as_it_gets():
    slates = instance(1)
    objective = Evenness(slates.owners.providers)
    none = found(slates, objective, 0.0)
    assert none.policy.relevance == pytest.approx(1)
    assert none.gap == 0
    every = found(slates, objective, 1.0)
    assert objective.value(every.policy.x) >= slow.best_value(slates, 1.0) - 0.001


def test_the_frontier_falls():
    slates = instance(2, requests=40, candidates=8)
    search = Search(Server(slates), Evenness(slates.owners.providers))
    forth = search.frontier([0.05, 0.2, 0.6])
    relevance = [f.policy.relevance for f in forth]
    assert relevance == sorted(relevance, reverse=True)


def test_too_few_iterations_leave_a_gap_that_is_said_and_still_bounds():
    slates = instance(5, requests=30, candidates=8)
    policy = found(slates, Evenness(slates.owners.providers), 0.7, iterations=2)
    assert not policy.converged
    assert policy.policy.value + policy.gap >= found(slates, Evenness(slates.owners.providers), 0.7).policy.value - 1e-9


def test_a_part_of_the_requests_keeps_their_candidates_and_all_providers():
    slates = instance(0)
    part = slates.only([3, 1])
    assert part.owners is slates.owners
    for new, old in enumerate((3, 1)):
        assert (
            part.item[part.starts[new] : part.starts[new + 1]].tolist()
            == slates.item[slates.starts[old] : slates.starts[old + 1]].tolist()
        )
    both = slates.only([0, 1]).received(slates.only([0, 1]).as_ranked) + slates.only([2, 3, 4]).received(
        slates.only([2, 3, 4]).as_ranked
    )
    assert both == pytest.approx(slates.received(slates.as_ranked))
