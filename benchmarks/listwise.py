"""How often the outcome test within lists finds a group that is ranked too low, and how often it finds one that is not there.

`python -m benchmarks.listwise [--worlds 400]`: a row per design. A bias is in units of the outcome's rate; neighbours in a list
differ by about spread / length.
"""

from __future__ import annotations

import argparse

import numpy as np

import evenhand as eh
from benchmarks.null_worlds import lists

DESIGNS: dict[str, dict[str, float]] = {
    "all orders equally good": {"spread": 0.0},
    "in the order of merit": {},
    "too low by 5 points": {"bias": 0.05},
    "too low by 10 points": {"bias": 0.10},
    "too low by 15 points": {"bias": 0.15},
}
SIZES = ((400, 8), (400, 20), (2000, 8))


def share_found(worlds: int, requests: int, length: int, **design: float) -> float:
    """Share of worlds whose result claims that g1 is under- or over-rated."""
    roles = {"score": "score", "outcome": "outcome", "group": "group", "request": "request", "reference": "g0"}
    made = 0
    for i in range(worlds):
        table = lists(np.random.default_rng([2026, i]), requests, length, **design)
        result = eh.outcome_test(table, **roles, kind="listwise")
        made += any(claim.made for claim in result.claims)
    return made / worlds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    worlds = parser.parse_args().worlds
    print(f"| lists | {' | '.join(f'{n:,} of {k}' for n, k in SIZES)} |\n|---|{'---|' * len(SIZES)}")
    for name, design in DESIGNS.items():
        shares = [share_found(worlds, n, k, **design) for n, k in SIZES]
        print(f"| {name} | {' | '.join(f'{share:.0%}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
