"""How often the outcome test within lists finds a group that is ranked too low, and how often it finds one that is not there.

`python -m benchmarks.listwise [--worlds 400]`: a row per design. A bias is in units of the outcome's rate; neighbours in a list
differ by about spread / length. Pairs are added up in numpy, which is what the audit's query does where no scores are equal.
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl

from benchmarks.null_worlds import lists
from evenhand.metrics.outcome import OrderGaps
from evenhand.tallies.candidates import Neighbours

DESIGNS: dict[str, dict[str, float]] = {
    "all orders equally good": {"spread": 0.0},
    "in the order of merit": {},
    "too low by 5 points": {"bias": 0.05},
    "too low by 10 points": {"bias": 0.10},
    "too low by 15 points": {"bias": 0.15},
}
SIZES = ((400, 8), (400, 20), (2000, 8))


def neighbours(table: pl.DataFrame) -> Neighbours:
    """Pairs of g1 right below and right above g0."""
    ordered = table.sort("request", "score", descending=[False, True])
    request, group, outcome = (ordered[name].to_numpy() for name in ("request", "group", "outcome"))
    is_pair = request[1:] == request[:-1]
    sums = np.zeros((7, 2, 1))
    for side, (upper, lower, sign) in enumerate((("g0", "g1", 1.0), ("g1", "g0", -1.0))):
        at = np.flatnonzero(is_pair & (group[:-1] == upper) & (group[1:] == lower))
        gap = sign * (outcome[at + 1] - outcome[at])
        pairs, gaps = np.bincount(request[at]), np.bincount(request[at], gap)
        products = [(gaps**2).sum(), (gaps * pairs).sum(), (pairs**2).sum()]
        sums[:, side, 0] = [len(at), gap.sum(), *products, np.count_nonzero(pairs), np.count_nonzero(gap)]
    return Neighbours(*sums)


def share_found(worlds: int, requests: int, length: int, **design: float) -> float:
    """Share of worlds in which g1 is found to be ranked too low or too high: the smaller p, times two."""
    tables = (lists(np.random.default_rng([2026, i]), requests, length, **design) for i in range(worlds))
    return float(np.mean([2 * np.nanmin(OrderGaps(neighbours(table)).p) <= 0.05 for table in tables]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    worlds = parser.parse_args().worlds
    print(f"| lists | {' | '.join(f'{n:,} of {k}' for n, k in SIZES)} |\n|---|{'---|' * len(SIZES)}")
    for name, design in DESIGNS.items():
        shares = [share_found(worlds, n, k, **design) for n, k in SIZES]
        print(f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
