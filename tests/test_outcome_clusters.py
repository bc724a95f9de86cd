"""Clusters that are too many to list: their products say what a list of them says."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.engine import clusters as engine
from evenhand.tallies import cluster_squares
from evenhand.tallies.cluster_squares import ClusterSquares, Loose, added_up
from evenhand.tallies.clusters import Clusters
from evenhand.tallies.moments import Moments

pytestmark = pytest.mark.usefixtures("in_passes")
ROLES = {"score": "s", "outcome": "y", "group": "g", "cluster": "c"}


def candidates(rows, clusters, seed=3):
    rng = np.random.default_rng(seed)
    c, g, s = rng.integers(0, clusters, rows), rng.choice(["m", "f", "x"], rows, p=[0.5, 0.4, 0.1]), rng.random(rows)
    shock = rng.normal(0, 0.2, clusters)[c]
    y = (rng.random(rows) < np.clip(0.2 + 0.5 * s + shock, 0, 1)).astype(np.int64)
    return pl.DataFrame({"c": c - 40, "g": g, "s": s, "y": y, "z": y + 0.3 * s + shock})


def some_clusters(seed, bins=6, groups=3):
    rng = np.random.default_rng(seed)
    size = 300
    b, g = np.sort(rng.integers(0, bins, size)), rng.integers(0, groups, size)
    y = rng.normal(size=size) + 0.1 * g
    return Moments.of(b + rng.random(size), y, b, g, shape=(bins, groups), cluster=rng.integers(0, 25, size)).clusters


@pytest.mark.parametrize("seed", range(3))
def test_products_say_of_shifted_tilted_and_joined_bins_what_a_list_says(seed):
    rng, listed = np.random.default_rng(seed), some_clusters(seed)
    into = np.array([0, 0, 1, 2, 2, 2])
    by, line = rng.normal(size=6), rng.normal(size=(2, 6, 3))
    flat, tilt = rng.normal(size=(2, 9, 3))
    one, other = (c.shifted(by).tilted(*line).merged(into) for c in (listed, ClusterSquares.of(listed)))
    assert isinstance(one, Clusters)
    assert (one.total, one.groups) == (other.total, other.groups)
    np.testing.assert_array_equal(one.per_bin(), other.per_bin())
    np.testing.assert_array_equal(one.per_cell(), other.per_cell())
    np.testing.assert_allclose(one.squares(), other.squares(), rtol=1e-9)
    for bins in (None, 3):
        np.testing.assert_allclose(
            one.products(flat, tilt, bins), other.products(flat, tilt, bins), rtol=1e-8, atol=1e-8
        )
    np.testing.assert_allclose(one.effective(flat, tilt), other.effective(flat, tilt), rtol=1e-9)


def test_products_of_parts_add_up():
    listed = some_clusters(9)
    halves = [np.flatnonzero(listed.cluster < 12), np.flatnonzero(listed.cluster >= 12)]
    parts = [
        Clusters(listed.cluster[at] - listed.cluster[at[0]], listed.cell[at], tuple(x[at] for x in listed.sums), 6, 3)
        for at in halves
    ]
    whole, added = ClusterSquares.of(listed), ClusterSquares.of(parts[0]) + ClusterSquares.of(parts[1])
    for name in ("cross", "sums", "steps", "total"):
        np.testing.assert_allclose(getattr(whole, name), getattr(added, name), rtol=1e-12, atol=1e-12)
    joined = Clusters.joined(parts)
    np.testing.assert_array_equal(joined.cluster, listed.cluster)
    np.testing.assert_array_equal(joined.cell, listed.cell)


@pytest.mark.parametrize("thin", [0, 10**6])
def test_rows_that_nobody_added_up_give_the_products_of_joined_bins(thin, monkeypatch):
    monkeypatch.setattr(cluster_squares, "THIN", thin)
    rng, size, clusters = np.random.default_rng(4), 12_000, 4_500
    b, g = np.sort(rng.integers(0, 6, size)), rng.integers(0, 3, size)
    c, w, s, y = rng.integers(0, clusters, size), rng.gamma(2, 1, size), b + rng.random(size), rng.normal(size=size)
    fine = Moments.of(s, y, b, g, shape=(6, 3), cluster=c, weight=w)
    use = engine.Use(1, 6, np.array([0, 0, 1, 1, 2]))
    joined = use.of(fine)
    u = s - fine.origin[b]
    v, codes = y - fine.level[b, g] - fine.slope[b, g] * u, np.unique(c, return_inverse=True)[1]
    at = np.lexsort([b, g, codes])
    rows = Loose(codes[at], (b * 3 + g)[at], u[at], v[at], w[at])
    (found,) = added_up(rows, [use.recut(fine, joined)])
    expected = ClusterSquares.of(joined.clusters)
    for name in ("cross", "sums", "steps", "total"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9)
    summed = np.zeros((len(np.unique(c)), 9))
    np.add.at(summed, (joined.clusters.cluster, joined.clusters.cell), joined.clusters.sums[2])
    np.testing.assert_allclose(found.cross[:, 2, :, 2], summed.T @ summed, rtol=1e-9, atol=1e-9)


def same(found, expected):
    assert found.provenance["clusters"] == expected.provenance["clusters"]
    frames = (pl.DataFrame(dict(r.findings.columns), strict=False) for r in (found, expected))
    assert_frame_equal(*frames, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize(("kind", "outcome"), [("number", "z"), ("text", "y"), ("fraction", "y"), ("duckdb", "y")])
def test_the_test_is_the_same_where_clusters_come_in_ranges_and_as_products(monkeypatch, kind, outcome):
    frame = (
        candidates(9_000, 3_000).drop("y" if outcome == "z" else "z").rename({outcome: "y"} if outcome == "z" else {})
    )
    named = {"text": pl.format("c{}", "c"), "fraction": pl.col("c") + 0.5}
    table = frame.with_columns(named.get(kind, pl.col("c")).alias("c"))
    rows = duckdb.from_arrow(table.to_arrow()) if kind == "duckdb" else table
    expected = eh.outcome_test(table, **ROLES, bins=4)
    monkeypatch.setattr(engine, "AT_ONCE", 2_000)
    same(eh.outcome_test(rows, **ROLES, bins=4), expected)  # ranges, put together to a list
    made = []
    monkeypatch.setattr(engine, "LISTED", 1_500)
    monkeypatch.setattr(engine, "FLIPPED", 100)
    monkeypatch.setattr(ClusterSquares, "__add__", lambda a, b, add=ClusterSquares.__add__: made.append(1) or add(a, b))
    same(eh.outcome_test(rows, **ROLES, bins=4), expected)
    assert len(made) > 2  # several ranges were added up


def test_few_clusters_of_the_reference_in_a_bin_are_listed(monkeypatch):
    frame = candidates(9_000, 2_500)
    expected = eh.outcome_test(frame, **ROLES, reference="x", bins=[0.5, 0.995])
    monkeypatch.setattr(engine, "AT_ONCE", 2_000)
    monkeypatch.setattr(engine, "LISTED", 1_500)
    same(eh.outcome_test(frame, **ROLES, reference="x", bins=[0.5, 0.995]), expected)


@pytest.mark.parametrize("thin", [1, 4, 1_000])
def test_clusters_of_few_and_of_many_rows_are_multiplied_alike(thin, monkeypatch):
    rng = np.random.default_rng(6)
    cluster = np.concatenate([rng.integers(0, 40, 90), np.full(60, 40), np.full(70, 41)])
    bin, group = rng.integers(0, 4, len(cluster)), rng.integers(0, 3, len(cluster))
    at = np.lexsort([bin, group, cluster])
    cluster, cell, (u, v, w) = cluster[at], (bin * 3 + group)[at], rng.normal(size=(3, len(cluster)))
    monkeypatch.setattr(cluster_squares, "THIN", thin)
    monkeypatch.setattr(cluster_squares, "ROWS_AT_ONCE", 50)
    codes = np.unique(cluster, return_inverse=True)[1]
    (found,) = added_up(Loose(codes, cell, u, v, w), [cluster_squares.Recut.nothing(4, 3)])
    table = np.zeros((codes.max() + 1, 12, 5))
    np.add.at(table, (codes, cell), np.stack([w, w * u, w * v, w * u * u, w * u * v], axis=1))
    np.testing.assert_allclose(found.cross, np.einsum("nka,nlb->kalb", table, table), atol=1e-10)
    np.testing.assert_allclose(found.sums, table.sum(0), atol=1e-10)
