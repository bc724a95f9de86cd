"""False alarms of the pooled gap in fair worlds: rare and frequent success, small groups, groups that differ in score.

python -m benchmarks.pooled_alarms 2000
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from evenhand.intervals.pooled import with_null_draws
from evenhand.metrics.outcome import gaps
from evenhand.metrics.outcome_pooled import pooled
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


def main(worlds: int) -> None:
    """One line per design."""
    print("rows group rate shift | false alarms, mean gap, coverage")
    for (rows, mine), rate, shift in product(SIZES, RATES, SHIFTS):
        rng = np.random.default_rng(5)
        found = np.array([alarm(world(rng, rows, mine, rate, shift)) for _ in range(worlds)], dtype=np.float64)
        print(rows, mine, rate, shift, "|", *(f"{value:+.4f}" for value in found.mean(0)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
