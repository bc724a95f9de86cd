"""The viewpoints study: verdicts come out, do not, or cannot be told; and lists of one's own."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.studies.viewpoints import ALPHAS, METRICS, Point, claims

SETS = ("S1", "S2", "S3")


def world(mean, noise=0.0, detected=0.5):
    """Points whose means follow a function of metric, set and bias, with batches that differ by noise."""
    rng = np.random.default_rng(1)
    points = {}
    for metric in METRICS:
        for name in SETS:
            for alpha in ALPHAS:
                value = mean(metric, name, alpha)
                without = tuple(Point(value + noise * rng.normal(), 0.05, detected) for _ in range(20))
                points[metric, name, alpha] = Point(value, 0.05, detected, without)
    return points


POWERS = {"ndd": 3.0, "ndr": 0.5, "ndkl": 0.3, "ndjs": 1.0}


def falling(metric, name, alpha):
    """Highest without bias, and higher for a disadvantaged minority."""
    return 5 - (1.0 if alpha < 0 else 0.5) * abs(alpha) ** POWERS[metric] / (1 + SETS.index(name))


def rising(metric, name, alpha, *, larger="S3"):
    """A disadvantaged minority is seen better, mild bias by nDKL, severe by nDD; nDR is steepest, but not on S3."""
    many = 3 - abs(SETS.index(name) - SETS.index(larger))
    top = {"ndr": 0.1 if name == "S3" else 0.9}.get(metric, 0.3)
    return 0.05 + top * (0.5 if alpha < 0 else 1.0) * abs(alpha) ** POWERS[metric] * many / 3


def test_every_verdict_says_no_in_a_planted_world():
    worlds = [
        falling,
        rising,
        lambda *key: rising(*key, larger="S1"),
        lambda metric, _, alpha: 0.01 + 0.8 * abs(alpha) * (metric == "ndd"),
    ]
    refuted = {c.statement for mean in worlds for c in claims(world(mean)) if c.holds is False}
    asked = {c.statement for c in claims(world(falling)) if c.where != "Table 5"}
    assert asked - refuted == set()


@pytest.mark.parametrize("mild", ["ndd", "ndkl"])
def test_table_5_is_refuted_where_the_other_metric_rises_more(mild):
    def mean(metric, name, alpha):
        return abs(alpha) * (0.9 if metric == mild else 0.1)

    for claim in claims(world(mean)):
        if claim.where == "Table 5" and not claim.is_ours:
            assert claim.holds is (claim.stated.lower() == mild), claim


def test_noise_decides_nothing():
    told = claims(world(lambda metric, name, alpha: 0.08, noise=1.0))
    assert {c.holds for c in told if c.where in ("4.2.1", "Table 5") and not c.is_ours} == {None}
