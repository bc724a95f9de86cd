"""Clusters that are read some at a time: what is asked of them is what a list of all of them says."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.metrics.outcome import gaps, mean_errors
from evenhand.metrics.outcome_joint import leverage_factor, pooled, spline
from evenhand.sources import engine
from evenhand.tallies import clusters as module
from evenhand.tallies.clusters import Clusters, Parts, PendingClusters
from evenhand.tallies.moments import Moments

ROLES = {"score": "s", "outcome": "y", "group": "g", "cluster": "c"}


def candidates(rows, clusters, seed=3):
    rng = np.random.default_rng(seed)
    c, g, s = rng.integers(0, clusters, rows), rng.choice(["m", "f", "x"], rows, p=[0.5, 0.4, 0.1]), rng.random(rows)
    shock = rng.normal(0, 0.2, clusters)[c]
    y = (rng.random(rows) < np.clip(0.2 + 0.5 * s + shock, 0, 1)).astype(np.int64)
    return pl.DataFrame({"c": c - 40, "g": g, "s": s, "y": y, "z": y + 0.3 * s + shock})


def moments(seed, bins=6, groups=3, size=300):
    rng = np.random.default_rng(seed)
    b, g = np.sort(rng.integers(0, bins, size)), rng.integers(0, groups, size)
    y, w = rng.normal(size=size) + 0.1 * g, rng.gamma(2, 1, size)
    return Moments.from_arrays(
        b + rng.random(size), y, b, g, shape=(bins, groups), cluster=rng.integers(0, 25, size), weight=w
    )


def halves(listed):
    """The first clusters and the others."""
    for at in (np.flatnonzero(listed.cluster < 12), np.flatnonzero(listed.cluster >= 12)):
        yield Clusters(
            listed.cluster[at], listed.cell[at], tuple(x[at] for x in listed.sums), listed.bins, listed.groups
        )


def errors(m):
    found = gaps(m, 0, "cluster")
    over_all = pooled(m, found, "cluster")
    bent = spline(m, 0, "cluster")
    return [
        found.across,
        found.total_freedom,
        over_all.square,
        *over_all.by_cluster.values(),
        bent.error,
        *mean_errors(m, "cluster"),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_asked_of_clusters_adds_up_over_parts_of_them(seed):
    whole = moments(seed)
    pending = PendingClusters.from_shape(*whole.rows.shape)
    waiting = replace(whole, clusters=pending)
    with np.errstate(all="ignore"):
        errors(waiting)
    questions = list(pending.calls.values())
    assert len(questions) > 10
    first, second = (module._answer(part, questions, list(range(25))) for part in halves(whole.clusters))
    added = [a + b for a, b in zip(first, second, strict=True)]
    pending.answer([a.in_order() if isinstance(a, Parts) else a for a in added])
    for one, other in zip(errors(waiting), errors(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_parts_of_many_clusters_are_not_kept_and_few_are_in_order(monkeypatch):
    monkeypatch.setattr(module, "FLIPPED", 3)
    ids = ["d", "a", "c", "b"]
    one = Parts.from_values(np.array([4.0, 0.0, 3.0, 0.0]), ids)
    other = Parts.from_values(np.array([0.0, 1.0, 0.0, 0.0]), ids)
    assert (one + other).in_order().tolist() == [1.0, 3.0, 4.0]
    assert (one + one).in_order() is None
    assert (one + one + other).in_order() is None


def in_small_batches(monkeypatch):
    whole = engine.DuckDBEngine._stream
    monkeypatch.setattr(engine, "BATCH_ROWS", 500)
    monkeypatch.setattr(
        engine.DuckDBEngine,
        "_stream",
        lambda self, query: (part for f in whole(self, query) for part in f.iter_slices(400)),
    )


def same(found, expected):
    assert found.provenance["clusters"] == expected.provenance["clusters"]
    frames = (pl.DataFrame(dict(r.findings.columns), strict=False) for r in (found, expected))
    assert_frame_equal(*frames, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize(("kind", "outcome"), [("number", "z"), ("text", "y"), ("fraction", "y"), ("duckdb", "y")])
def test_the_test_is_the_same_whatever_clusters_are_and_however_many_are_read_at_a_time(monkeypatch, kind, outcome):
    frame = (
        candidates(9_000, 3_000).drop("y" if outcome == "z" else "z").rename({outcome: "y"} if outcome == "z" else {})
    )
    named = {"text": pl.format("c{}", "c"), "fraction": pl.col("c") + 0.5}
    table = frame.with_columns(named.get(kind, pl.col("c")).alias("c"))
    rows = duckdb.from_arrow(table.to_arrow()) if kind == "duckdb" else table
    expected = eh.outcome_test(table, **ROLES, bins=4)
    in_small_batches(monkeypatch)
    same(eh.outcome_test(rows, **ROLES, bins=4), expected)


def test_few_clusters_of_the_reference_in_a_bin_are_looked_at_one_by_one(monkeypatch):
    frame = candidates(9_000, 2_500)
    expected = eh.outcome_test(frame, **ROLES, reference="x", bins=[0.5, 0.995])
    in_small_batches(monkeypatch)
    same(eh.outcome_test(frame, **ROLES, reference="x", bins=[0.5, 0.995]), expected)


def test_large_clusters_raise_the_error_of_a_gap_as_matrices_of_all_rows_say():
    rng = np.random.default_rng(5)
    q = np.repeat(np.arange(8), [200, 60, 10, 10, 10, 10, 10, 10])
    group, bin = (rng.random(8) < 0.5).astype(int)[q], rng.integers(0, 2, len(q))
    group[q == 0] = 1
    outcome = rng.normal(size=8)[q] + rng.normal(size=len(q))
    m = Moments.from_arrays(np.zeros(len(q)), outcome, bin, group, shape=(2, 2), cluster=q)
    flat, tilt = rng.normal(size=(2, 2)), np.zeros((2, 2))
    mean = np.stack([bin == 0, bin == 1], axis=1) / np.bincount(bin)
    rest = np.eye(len(q)) - mean @ np.stack([bin == 0, bin == 1])
    level = (mean.T @ outcome)[:, None] + np.zeros((2, 2))
    residual, weight, member = rest @ outcome, flat[bin, group], np.equal.outer(np.arange(8), q)
    totals, sizes = member @ residual, member.sum(1)
    shock = (totals @ totals - residual @ residual) / (sizes @ sizes - len(q))
    covariance = shock * member.T.astype(float) @ member + (residual @ residual / len(q) - shock) * np.eye(len(q))
    in_clusters = member * weight
    expected = (in_clusters @ covariance * in_clusters).sum() / (
        (in_clusters @ rest) @ covariance * (in_clusters @ rest)
    ).sum()
    factor = leverage_factor(m.residuals(level, np.zeros((2, 2))), flat, tilt, [0, 1])
    assert factor == pytest.approx(expected)
    assert factor > 1.1
