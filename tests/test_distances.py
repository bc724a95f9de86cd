"""Distances between distributions over groups."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import distances
from evenhand.errors import EvenhandError
from oracles import exposure as slow

CASES = json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())
CASES = CASES if isinstance(CASES, list) else CASES["cases"]


@st.composite
def pairs(draw):
    size = draw(st.integers(1, 5))
    counts = [draw(st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any)) for _ in "pq"]
    return tuple(np.array(c) / sum(c) for c in counts)


@pytest.mark.parametrize("case", [c for c in CASES if c["fn"] in ("kl", "jsd")], ids=lambda c: c["id"])
def test_divergences_are_those_of_the_reference_cases(case):
    found = getattr(distances, {"kl": "kl", "jsd": "js"}[case["fn"]])(case["args"]["p"], case["args"]["q"])
    expect = math.inf if isinstance(case["expect"], dict) else case["expect"]
    assert found == pytest.approx(expect, abs=case["tol"])


@given(pairs())
def test_divergences_follow_the_definition(both):
    p, q = (dict(enumerate(x)) for x in both)
    middle = {g: (p[g] + q[g]) / 2 for g in p}
    assert distances.kl(*both) == pytest.approx(slow.kl(p, q), abs=1e-12)
    assert distances.js(*both) == pytest.approx((slow.kl(p, middle) + slow.kl(q, middle)) / 2, abs=1e-12)
    assert distances.tv(*both) == pytest.approx(sum(abs(p[g] - q[g]) for g in p) / 2, abs=1e-12)


@given(pairs())
def test_js_and_tv_are_symmetric_bounded_and_zero_only_for_equals(both):
    p, q = both
    for distance in (distances.js, distances.tv):
        assert distance(p, q) == pytest.approx(distance(q, p), abs=1e-12)
        assert 0 <= distance(p, q) <= 1 + 1e-12
        assert distance(p, p) == 0
        assert (distance(p, q) > 0) == (not np.array_equal(p, q))


@given(pairs())
def test_js_is_the_square_of_the_distance_that_scipy_returns(both):
    from scipy.spatial.distance import jensenshannon

    with np.errstate(invalid="ignore"):  # scipy takes the root of a rounding error below zero
        root = np.nan_to_num(jensenshannon(*both, base=2))
    assert distances.js(*both) == pytest.approx(float(root) ** 2, abs=1e-9)


def test_natural_logarithms_are_a_choice():
    assert distances.kl([0.5, 0.5], [0.25, 0.75], base=math.e) == pytest.approx(0.20751874963942185 * math.log(2))


def test_differences_of_one_share():
    assert distances.nd(0.2, 0.5) == pytest.approx(0.3)
    assert distances.nd(0.2, 0.5, signed=True) == pytest.approx(-0.3)
    assert distances.rd(0.2, 0.5) == pytest.approx(0.75)
    assert math.isnan(distances.rd(1.0, 0.5))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.5], [1.0]),
        ([0.5, 0.6], [0.5, 0.5]),
        ([-0.5, 1.5], [0.5, 0.5]),
        ([math.nan, 1], [0.5, 0.5]),
        (["a"], [1]),
    ],
)
def test_what_is_no_distribution_is_refused(p, q):
    with pytest.raises(EvenhandError):
        distances.kl(p, q)


def test_a_share_outside_zero_to_one_is_refused():
    with pytest.raises(EvenhandError, match="outside"):
        distances.nd(1.2, 0.5)
