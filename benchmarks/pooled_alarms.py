"""False alarms of the pooled gap in fair worlds: rare and frequent success, small groups, groups that differ in score.

python -m benchmarks.pooled_alarms 2000
python -m benchmarks.pooled_alarms 300 clusters
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from evenhand.intervals.outcomes import with_flipped_signs, with_null_draws
from evenhand.metrics.outcome import gaps
from evenhand.metrics.outcome_joint import pooled, spline
from evenhand.tallies.candidates import Rows
from evenhand.tallies.moments import Moments

BINS = 10
SIZES = ((3_000, 50), (3_000, 400), (600, 300), (1_000, 100))
RATES = (0.03, 0.08, 0.5, 0.92, 0.97)
SHIFTS = (0.0, 1.0)


def world(rng: np.random.Generator, rows: int, mine: int, rate: float, shift: float) -> Rows:
    """Outcomes that depend on the score alone; the smaller group's scores may lie higher."""
    g = (np.arange(rows) < mine).astype(np.int64)
    s = rng.normal(size=rows) + shift * g
    y = (rng.random(rows) < 1 / (1 + np.exp(-np.log(rate / (1 - rate)) - 0.75 * s))).astype(np.float64)
    inside = (s >= max(s[g == 1].min(), s[g == 0].min())) & (s <= min(s[g == 1].max(), s[g == 0].max()))
    s, y, g = s[inside], y[inside], g[inside]
    edges = np.quantile(s, np.arange(1, BINS) / BINS, method="inverted_cdf")
    return Rows(s, y, np.searchsorted(edges, s).astype(np.int64), g)


def alarm(rows: Rows) -> tuple[bool, float, bool]:
    """Whether the world is called unfair, the gap, and whether the interval holds the truth."""
    m = Moments.from_arrays(rows.score, rows.outcome, rows.bin, rows.group, shape=(BINS, 2))
    found = gaps(m, 0)
    over_all = with_null_draws(m, found, pooled(m, found), lambda: rows)
    low, high = over_all.ends(0.95)
    return bool(over_all.p[1] < 0.05), float(over_all.estimate[1]), bool(low[1] <= 0 <= high[1])


def cluster_sizes(rng: np.random.Generator, law: str, clusters: int) -> np.ndarray:
    """Rows of each cluster."""
    if law == "equal":
        return np.full(clusters, 25)
    if law == "Pareto 1.1":
        return np.minimum(5 + (rng.pareto(1.1, clusters) * 8).astype(int), 5_000)
    if law == "Dirichlet":
        return 5 + rng.multinomial(20 * clusters, rng.dirichlet(np.ones(clusters)))
    return np.append(np.full(clusters - 1, 15), 15 * clusters)  # one of them half of all rows


def clustered_alarms(rng: np.random.Generator, clusters: int, law: str, mixing: str, bins: int = 5) -> list[bool]:
    """Whether the pooled and the spline gap call a world unfair in which rows of a cluster share a shock."""
    q = np.repeat(np.arange(clusters), cluster_sizes(rng, law, clusters))
    share = {"uniform": rng.random(clusters), "half": np.full(clusters, 0.5), "one group": rng.random(clusters) < 0.4}
    group = (rng.random(len(q)) < share[mixing][q]).astype(np.int64)
    score, shock = rng.random(len(q)), rng.uniform(-0.15, 0.15, clusters)[q]
    outcome = (rng.random(len(q)) < 0.15 + 0.5 * score + shock).astype(np.float64)
    place = np.searchsorted(np.quantile(score, np.arange(1, bins) / bins, method="inverted_cdf"), score)
    m = Moments.from_arrays(score, outcome, place, group, shape=(bins, 2), cluster=q)
    tests = pooled(m, gaps(m, 0, "cluster"), "cluster"), spline(m, 0, "cluster")
    return [bool(with_flipped_signs(test).p[1] <= 0.05) for test in tests]


def clustered(worlds: int) -> None:
    """One line per design with clusters."""
    print("clusters, sizes, members of the group in a cluster | false alarms of the pooled gap, of the spline gap")
    laws, mixings = ("equal", "Dirichlet", "Pareto 1.1", "one large"), ("uniform", "half", "one group")
    for clusters, law, mixing in product((10, 20, 40), laws, mixings):
        rng = np.random.default_rng(7)
        alarms = np.mean([clustered_alarms(rng, clusters, law, mixing) for _ in range(worlds)], axis=0)
        print(f"{clusters}, {law}, {mixing} |", *(f"{share:.3f}" for share in alarms), flush=True)


def main(worlds: int) -> None:
    """One line per design."""
    print("rows group rate shift | false alarms, mean gap, coverage")
    for (rows, mine), rate, shift in product(SIZES, RATES, SHIFTS):
        rng = np.random.default_rng(5)
        found = np.array([alarm(world(rng, rows, mine, rate, shift)) for _ in range(worlds)], dtype=np.float64)
        print(rows, mine, rate, shift, "|", *(f"{value:+.4f}" for value in found.mean(0)), flush=True)


if __name__ == "__main__":
    (clustered if "clusters" in sys.argv else main)(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
