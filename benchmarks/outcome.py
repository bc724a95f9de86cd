"""The outcome test: from rows in Parquet to gaps per decile with robust errors, against statsmodels bin by bin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness import Contestant, Outcome, Race, growth

HERE = "benchmarks.outcome"
BINS = 10


def rows(folder: Path, n: int) -> str:
    """Scores, outcomes and three groups, written in pieces."""
    import polars as pl
    import pyarrow.parquet as pq

    path = folder / f"outcomes-{n}.parquet"
    if not path.exists():
        rng, out = np.random.default_rng(n), None
        for start in range(0, n, 5_000_000):
            size = min(5_000_000, n - start)
            score = rng.beta(2, 3, size)
            frame = pl.DataFrame(
                {
                    "score": score,
                    "outcome": (rng.random(size) < score).astype(np.int8),
                    "group": rng.integers(0, 3, size, dtype=np.int8),
                    "request": rng.integers(0, max(1, n // 20), size),
                }
            ).to_arrow()
            out = out or pq.ParquetWriter(path, frame.schema)
            out.write_table(frame)
        assert out is not None
        out.close()
    return str(path)


def ours(
    path: str, engine: str = "polars", request: str | None = None, edges: Sequence[float] | None = None
) -> Callable[[], list[float]]:
    """The whole audit; with `edges`, without the passes that find them."""
    import evenhand as eh

    def table() -> object:
        if engine == "duckdb":
            import duckdb

            return duckdb.read_parquet(path)
        return path

    def go() -> list[float]:
        found = eh.outcome_test(
            table(), score="score", outcome="outcome", group="group", reference=0, request=request,
            kind="classification", bins=edges if edges is not None else BINS,
        ).findings  # fmt: skip
        chosen = [r for r in found.rows() if r["metric"] == "outcome_gap" and r["group"] != "0"]
        return [v for r in chosen for v in (r["estimate"], r["se"])]

    return go


def by_statsmodels(path: str) -> Callable[[], list[float]]:
    """np.quantile, a mask per decile, a design matrix, OLS with HC1."""
    import polars as pl
    import statsmodels.api as sm

    def go() -> list[float]:
        frame = pl.read_parquet(path, columns=["score", "outcome", "group"])
        score, outcome, group = (frame[name].to_numpy() for name in frame.columns)
        inner = np.quantile(score, np.arange(1, BINS) / BINS, method="inverted_cdf")
        where = np.searchsorted(inner, score)
        found: list[float] = []
        for b in range(BINS):
            at = where == b
            x = np.column_stack([np.ones(at.sum()), group[at] == 1, group[at] == 2, score[at]]).astype(np.float64)
            fit = sm.OLS(outcome[at].astype(np.float64), x).fit(cov_type="HC1")
            found += [fit.params[1], fit.bse[1], fit.params[2], fit.bse[2]]
        return found

    return go


def one_pass(path: str) -> Callable[[], None]:
    """The floor: the three columns are read and added up."""
    import polars as pl

    def go() -> None:
        pl.scan_parquet(path).select("score", "outcome", "group").sum().collect(engine="streaming")

    return go


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    for n in (200_000, 1_000_000) if quick else (1_000_000, 5_000_000, 100_000_000):
        path = rows(folder, n)
        import polars as pl

        sample = pl.scan_parquet(path).select("score").head(1_000_000).collect()["score"].to_numpy()
        edges = np.quantile(sample, np.arange(1, BINS) / BINS).tolist()
        naive = (Contestant("statsmodels, bin by bin", f"{HERE}:by_statsmodels", rounds=3),)
        yield Race(
            "gaps per decile with HC1", n, {"path": path},
            (
                Contestant("evenhand", f"{HERE}:ours"),
                Contestant("evenhand on DuckDB", f"{HERE}:ours", arguments={"engine": "duckdb"}),
                *(naive if n <= 5_000_000 else ()),
                Contestant("floor (one pass)", f"{HERE}:one_pass"),
            ),
            tolerance=1e-8, target="2.5x less CPU than statsmodels from 5M rows on",
        )  # fmt: skip
        yield Race(
            "the same with edges given", n, {"path": path, "edges": edges},
            (
                Contestant("evenhand", f"{HERE}:ours"),
                Contestant("evenhand on DuckDB", f"{HERE}:ours", arguments={"engine": "duckdb"}),
            ),
            tolerance=1e-8,
        )  # fmt: skip
        if n <= 5_000_000:
            yield Race(
                "gaps per decile, clustered by request", n, {"path": path, "request": "request"},
                (Contestant("evenhand", f"{HERE}:ours"),), tolerance=1e-8,
            )  # fmt: skip


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    ours_only = [o for o in outcomes if o.contestant == "evenhand" and o.race == "gaps per decile with HC1" and o.ran]
    return {"growth exponent, outcome test": growth(ours_only)} if len(ours_only) > 1 else {}
