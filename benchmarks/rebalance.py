"""A frontier of ten strengths: from a file of candidates to policies, boosts and held-out rows. Nobody else does this work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import Contestant, Race

HERE = "benchmarks.rebalance"
STRENGTHS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)


def candidates(folder: Path, requests: int, each: int) -> str:
    """Scored candidates in random row order; a few hundred providers of very different size."""
    import polars as pl

    path = folder / f"candidates-{requests}-{each}.parquet"
    if not path.exists():
        items = 10 * each
        rng = np.random.default_rng([requests, each])
        appeal = np.log(rng.pareto(1.2, items) + 0.1)
        owner = np.minimum((3 * rng.pareto(1.0, items)).astype(np.int64), 999)
        item = (
            rng.integers(0, items, (requests, 1)) + np.cumsum(rng.integers(1, 10, (requests, each)), axis=1)
        ) % items
        score = 1 / (1 + np.exp(2 - appeal[item] - 0.7 * rng.normal(size=item.shape)))
        table = pl.DataFrame(
            {
                "request": np.repeat(np.arange(requests), each), "item": item.ravel(), "score": score.ravel(),
                "provider": owner[item].ravel(),
            }
        )  # fmt: skip
        table.sample(fraction=1, shuffle=True, seed=1).write_parquet(path)
    return str(path)


def frontier_ours(path: str) -> Callable[[], list[float]]:
    import evenhand as eh

    def go() -> list[float]:
        found = eh.rebalance(path, top=10, providers="provider", strength=STRENGTHS, rng=1)
        return [float(v) for v in found.findings.columns["estimate"]]

    return go


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    """The size that the budget is written for."""
    requests, each = (300, 50) if quick else (15_000, 500)
    yield Race(
        f"rebalance: ten strengths, {requests:,} requests x {each} candidates", requests * each,
        {"path": candidates(folder, requests, each)},
        [Contestant("evenhand", f"{HERE}:frontier_ours", rounds=1)],
        target="60 CPU s, 2 GiB",
    )  # fmt: skip
