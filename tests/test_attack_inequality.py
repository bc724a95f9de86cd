"""Hostile acceptance of the inequality path: hidden-case style checks against plain arithmetic."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import evenhand as eh

m = eh.metrics


def undefined(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value = call()
    assert math.isnan(value)
    return [w.message.reason for w in seen if isinstance(w.message, eh.UndefinedWarning)]


def test_gini_of_amounts_near_the_largest_float_is_right():
    small = [0, 1, 3, 10, 10] * 10
    assert m.gini([1e305 * x for x in small]) == pytest.approx(m.gini(small), rel=1e-12)


@pytest.mark.parametrize("name", ["gini", "atkinson", "theil", "hoover", "mean", "top_share"])
def test_amounts_whose_sum_no_float_can_hold_are_refused(name):
    with pytest.raises(eh.EvenhandError, match="adds up to more than a number can hold"):
        getattr(m, name)([1e308, 1e308, 0.0])
    with pytest.raises(eh.EvenhandError, match="adds up to more than a number can hold"):
        getattr(m, name)([1e308, 1e308, 0.0], weights=[1, 1, 1])


@pytest.mark.parametrize("alpha", [-1e-8, 0.0, 1e-8, 0.5, 0.99999999, 1.0])
def test_generalised_entropy_survives_amounts_six_hundred_orders_apart(alpha):
    # mean = 1e300 * 3 / 6.5; the two others vanish beside it but their logarithms do not
    found = m.generalized_entropy([1e-300, 1.0, 1e300], alpha=alpha, weights=[0.5, 3, 3])
    logs = [math.log(x) - math.log(1e300 * 3 / 6.5) for x in (1e-300, 1.0, 1e300)]
    shares = [0.5 / 6.5, 3 / 6.5, 3 / 6.5]
    if alpha == 0:
        want = -sum(s * v for s, v in zip(shares, logs, strict=True))
    elif alpha == 1:
        want = logs[2]
    else:
        want = sum(s * math.expm1(alpha * v) for s, v in zip(shares, logs, strict=True)) / (alpha * (alpha - 1))
        if alpha > 0.9:
            want = math.expm1((alpha - 1) * logs[2]) / (alpha * (alpha - 1))
    assert found == pytest.approx(want, rel=1e-7)


def test_generalised_entropy_with_a_zero_is_finite_however_small_a_positive_alpha():
    assert m.generalized_entropy([0, 1], alpha=1e-10) == pytest.approx(5e9, rel=1e-6)
    assert m.generalized_entropy([0, 1], alpha=0) == math.inf
    assert m.generalized_entropy([1, 3], alpha=1e-10) == pytest.approx(m.generalized_entropy([1, 3], alpha=0), rel=1e-6)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.25, 0.5]])
def test_corrections_for_a_total_weight_of_one_or_less_are_undefined(weights):
    assert undefined(lambda: m.gini([1, 2], weights=weights, corrected=True)) == ["single_member"]
    assert undefined(lambda: m.herfindahl([1, 2], weights=weights, normalized=True)) == ["single_member"]


@pytest.mark.parametrize(
    "x", [["1", "2"], {1: 5, 2: 7}, {1, 2}, [10**400], np.array(["1", "2"]), "12", b"12"], ids=lambda x: repr(x)[:12]
)
def test_what_is_not_an_array_of_numbers_is_refused(x):
    with pytest.raises(eh.EvenhandError, match="Pass a list or array"):
        m.gini(x)


def test_masked_amounts_are_missing():
    x = np.ma.array([1, 2, 3], mask=[False, True, False])
    with pytest.raises(eh.EvenhandError, match="NaN"):
        m.gini(x)
    assert m.gini(x, nan_policy="omit") == m.gini([1, 3])


def test_the_error_of_nothing_is_undefined_and_says_why():
    assert undefined(lambda: m.gini_se([])) == ["empty"]
    assert undefined(lambda: m.gini_se([0, 0])) == ["zero_total"]
    assert undefined(lambda: m.top_share_se([], 0.1)) == ["empty"]


def test_a_lorenz_curve_refuses_what_it_cannot_read():
    curve = m.lorenz([1, 2])
    with pytest.raises(eh.EvenhandError):
        curve.at("a")
    with pytest.raises(eh.EvenhandError):
        curve.dominates([1, 2])
