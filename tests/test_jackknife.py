"""Leaving out one bucket of requests at a time: the error of a mean is the textbook's, and intervals hold what they should."""

import numpy as np
import pytest
from scipy import stats

from evenhand.intervals.jackknife import jackknife_ends, random_buckets
from evenhand.metrics import gini


def without(values):
    return (values.sum() - values) / (len(values) - 1)


def test_the_interval_of_a_mean_is_the_t_interval():
    x = np.random.default_rng(1).normal(5, 2, 40)
    low, high = jackknife_ends(x.mean(), without(x), 0.9, (-np.inf, np.inf))
    assert (low, high) == pytest.approx(stats.t.interval(0.9, 39, x.mean(), stats.sem(x)))


def test_ends_stay_inside_the_span_and_hold_the_estimate():
    x = np.array([1.0] * 30 + [0.2])
    low, high = jackknife_ends(x.mean(), without(x), 0.95, (0.0, 1.0))
    assert 0 <= low <= x.mean() <= high <= 1


@pytest.mark.parametrize("values", [np.ones(20), np.array([0.1, 0.4, 0.2]), np.array([0.5, np.nan, 0.1, 0.2, 0.3])])
def test_without_variation_or_with_too_few_buckets_there_is_no_interval(values):
    assert np.isnan(jackknife_ends(0.5, values, 0.95, (0.0, 1.0))).all()


def test_buckets_are_dealt_evenly_and_by_the_seed():
    dealt = random_buckets(1_003, np.random.default_rng(4), 100)
    assert sorted(set(np.bincount(dealt))) == [10, 11]
    assert (dealt == random_buckets(1_003, np.random.default_rng(4), 100)).all()
    assert len(set(random_buckets(7, np.random.default_rng(4)))) == 7


def test_intervals_of_a_gini_over_providers_hold_its_mean_over_other_requests():
    """400 sets of 150 requests from one source; ten slots a request over 12 providers of very different size."""
    rng = np.random.default_rng(2)
    chance = rng.dirichlet(np.full(12, 0.7))
    runs = rng.multinomial(10, chance, (400, 150)).astype(float)
    estimates = np.array([gini(run.sum(0)) for run in runs])
    truth = estimates.mean()
    held = 0
    for run, estimate in zip(runs, estimates, strict=True):
        whole = run.sum(0)
        low, high = jackknife_ends(estimate, np.array([gini(whole - one) for one in run]), 0.95, (0.0, 1.0))
        held += low <= truth <= high
    assert 0.92 <= held / 400 <= 0.98
