"""`make gates`: how often a build fails though nothing changed: 20 slices against a baseline, inconclusive checks pass.

Exit 1 where more than 5% (within two Monte Carlo errors) fail with Holm's adjustment; without it the figures are printed beside.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings

import numpy as np
import polars as pl

import evenhand as eh

SLICES, RATE = 20, 0.05
RULES = ("gini <= baseline", "top_share(p=0.1) <= baseline")
LAWS = {
    "lognormal(0.7)": lambda rng, n: rng.lognormal(0, 0.7, n),
    "lognormal(1)": lambda rng, n: rng.lognormal(0, 1, n),
    "gamma(2)": lambda rng, n: rng.gamma(2, 1, n),
    "counts, half zero": lambda rng, n: rng.poisson(4, n) * (rng.random(n) < 0.5),
}


def audited(law: str, units: int, rng: np.random.Generator, interval: str) -> eh.Result:
    """A result of one day: the same law in every slice."""
    log = pl.DataFrame({
        "author": range(SLICES * units),
        "source": [f"s{i:02}" for i in range(SLICES) for _ in range(units)],
        "views": LAWS[law](rng, SLICES * units),
    })  # fmt: skip
    return eh.inequality(
        log, unit="author", amount="views", population=None, by="source", metrics=["gini", "top_share(p=0.1)"],
        interval=interval, rng=1,
    )  # fmt: skip


def failures(
    law: str, units: int, before: int, builds: int, rng: np.random.Generator, interval: str = "normal"
) -> tuple[float, float]:
    """Shares of builds that fail though nothing changed, with Holm's adjustment and without."""
    failed = np.zeros(2)
    for _ in range(builds):
        result, baseline = audited(law, units, rng, interval), audited(law, before, rng, interval)
        for i, adjust in enumerate(("holm", None)):
            failed[i] += not result.check(*RULES, baseline=baseline, inconclusive="pass", adjust=adjust).passed
    adjusted, raw = failed / builds
    return float(adjusted), float(raw)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--builds", type=int, default=200)
    parser.add_argument("--interval", default="bootstrap(199)")
    args = parser.parse_args()
    warnings.simplefilter("ignore", eh.DataWarning)
    rng, broken = np.random.default_rng(1), False
    print(f"{args.builds:,} builds each, {SLICES} slices, rules {' and '.join(RULES)}, interval {args.interval}")
    print(
        "| amounts | units a slice | of the baseline | builds that fail | without adjustment |\n|---|---|---|---|---|"
    )
    for law in LAWS:
        for units, before in ((500, 500), (1_000, 100)):
            adjusted, raw = failures(law, units, before, args.builds, rng, args.interval)
            error = math.sqrt(max(adjusted * (1 - adjusted), RATE * (1 - RATE)) / args.builds)
            broken |= adjusted > RATE + 2 * error
            print(f"| {law} | {units:,} | {before:,} | {adjusted:.1%} ± {error:.1%} | {raw:.1%} |", flush=True)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
