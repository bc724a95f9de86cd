"""An experiment on a log: 999 re-assignments of viewers against the engine's bare group-by of the same log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness import Contestant, Outcome, Race

HERE = "benchmarks.experiment"


def log(folder: Path, rows: int, share: float) -> str:
    """Viewers of very different activity look at authors of very different popularity."""
    import polars as pl

    path = folder / f"log-{rows}-{share}.parquet"
    if not path.exists():
        rng = np.random.default_rng([rows, round(100 * share)])
        authors, viewers = rows // 10, rows // 100

        def drawn(n: int, sigma: float) -> np.ndarray:
            chances = np.cumsum(rng.lognormal(0, sigma, n))
            return np.searchsorted(chances, rng.random(rows) * chances[-1]).astype(np.int64)

        viewer = drawn(viewers, 1.0)
        arm = np.where(rng.permutation(viewers) < share * viewers, "new", "control")[viewer]
        pl.DataFrame({"viewer": viewer, "author": drawn(authors, 1.5), "arm": arm, "views": 1}).write_parquet(path)
    return str(path)


def ours(path: str, draws: int) -> Callable[[], float]:
    import evenhand as eh

    def compare() -> float:
        found = eh.experiment(
            path, unit="author", amount="views", arm="arm", randomized="viewer", population=None, draws=draws, rng=1
        )
        return float(found.frame["raw"][0])

    return compare


def bare(path: str, draws: int) -> Callable[[], float]:
    """The group-by by author and arm, and the difference of Gini indices; nothing is tested."""
    import polars as pl

    from evenhand.metrics import gini

    def compare() -> float:
        sums = pl.scan_parquet(path).group_by("author", "arm").agg(pl.col("views").sum()).collect(engine="streaming")
        wide = sums.pivot("arm", index="author", values="views").fill_null(0)
        return gini(wide["new"].to_numpy()) - gini(wide["control"].to_numpy())

    return compare


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    rows = 1_000_000 if quick else 10_000_000
    for share in (0.5, 0.1):
        yield Race(
            f"experiment, {share:.0%} of viewers treated", rows, {"path": log(folder, rows, share), "draws": 999},
            (
                Contestant("evenhand, 999 re-assignments", f"{HERE}:ours", rounds=3),
                Contestant("bare Polars group-by by author and arm", f"{HERE}:bare"),
            ),
            target="10x the bare group-by, under 2 GiB",
        )  # fmt: skip


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """How many bare group-bys an experiment costs."""
    found = {(o.race, o.contestant.split(",")[0]): o.cpu for o in outcomes if o.ran}
    races = dict.fromkeys(o.race for o in outcomes)
    bare = "bare Polars group-by by author and arm"
    return {
        f"{race}: CPU of bare group-bys": found[race, "evenhand"] / found[race, bare]
        for race in races
        if (race, "evenhand") in found and (race, bare) in found
    }
