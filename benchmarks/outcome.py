"""The outcome test: from rows in Parquet to gaps per decile with robust errors, against statsmodels bin by bin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness import Contestant, Outcome, Race, growth

HERE = "benchmarks.outcome"
BINS = 10
PEER_ROWS = 5_000_000


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


def by_statsmodels(
    path: str, edges: Sequence[float] | None = None, *, timed_only: bool = False
) -> Callable[[], list[float] | None]:
    """np.quantile (not where `edges` are given), a mask per decile, a design matrix, OLS with HC1."""
    import polars as pl
    import statsmodels.api as sm

    def go() -> list[float] | None:
        frame = pl.read_parquet(path, columns=["score", "outcome", "group"])
        score, outcome, group = (frame[name].to_numpy() for name in frame.columns)
        inner = edges if edges is not None else np.quantile(score, np.arange(1, BINS) / BINS, method="inverted_cdf")
        where = np.searchsorted(inner, score)
        found: list[float] = []
        for b in range(BINS):
            at = where == b
            x = np.column_stack([np.ones(at.sum()), group[at] == 1, group[at] == 2, score[at]]).astype(np.float64)
            fit = sm.OLS(outcome[at].astype(np.float64), x).fit(cov_type="HC1")
            found += [fit.params[1], fit.bse[1], fit.params[2], fit.bse[2]]
        return None if timed_only else found

    return go


def one_pass(path: str) -> Callable[[], None]:
    """The floor: the three columns are read and added up."""
    import polars as pl

    def go() -> None:
        pl.scan_parquet(path).select("score", "outcome", "group").sum().collect(engine="streaming")

    return go


def one_grouping(path: str, edges: Sequence[float]) -> Callable[[], None]:
    """What the engine itself needs for one pass: the decile of a row, and the twelve sums per decile and group."""
    import polars as pl

    score, v = pl.col("score"), pl.col("outcome").cast(pl.Float64)
    powers = [f"s{i}{j}" for j in range(3) for i in range(5 - j) if i + j]

    def bin_of(first: int, last: int) -> pl.Expr:
        if first == last:
            return pl.lit(first, dtype=pl.Int16)
        middle = (first + last) // 2
        return pl.when(score <= edges[middle]).then(bin_of(first, middle)).otherwise(bin_of(middle + 1, last))

    def power(name: str) -> pl.Expr:
        factors = [score] * int(name[1]) + [v] * int(name[2])
        found = factors[0]
        for factor in factors[1:]:
            found = found * factor
        return found

    def go() -> None:
        columns = {name: power(name) for name in powers}
        rows = pl.scan_parquet(path).with_columns(bin_of(0, len(edges)).alias("bin"), **columns)
        cells = rows.group_by("bin", "group").agg(pl.len(), *(pl.col(name).sum() for name in columns))
        cells.collect(engine="streaming")

    return go


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    for n in (500_000,) if quick else (1_000_000, 5_000_000, 100_000_000):
        path = rows(folder, n)
        small = path if n <= PEER_ROWS else rows(folder, PEER_ROWS)  # statsmodels would need tens of GB for the rest
        import polars as pl

        sample = pl.scan_parquet(path).select("score").head(1_000_000).collect()["score"].to_numpy()
        edges = np.quantile(sample, np.arange(1, BINS) / BINS).tolist()
        rounds = 5 if n <= PEER_ROWS else 3
        peer = Contestant(
            "statsmodels, bin by bin", f"{HERE}:by_statsmodels", times=max(1.0, n / PEER_ROWS), rounds=3,
            arguments={"path": small, "timed_only": small != path},
        )  # fmt: skip
        on_duckdb = {"engine": "duckdb"}
        yield Race(
            "gaps per decile with HC1", n, {"path": path},
            (
                Contestant("evenhand", f"{HERE}:ours", rounds=rounds),
                Contestant("evenhand on DuckDB", f"{HERE}:ours", rounds=rounds, arguments=on_duckdb),
                peer,
                Contestant("floor (one pass)", f"{HERE}:one_pass", rounds=rounds),
            ),
            tolerance=1e-8, target="none of its own: exact edges included, which the next race counts apart",
        )  # fmt: skip
        yield Race(
            "the same with edges given", n, {"path": path, "edges": edges},
            (
                Contestant("evenhand", f"{HERE}:ours", rounds=rounds),
                Contestant("evenhand on DuckDB", f"{HERE}:ours", rounds=rounds, arguments=on_duckdb),
                peer,
                Contestant("the engine's own grouped sums", f"{HERE}:one_grouping", rounds=rounds),
            ),
            tolerance=1e-8, target="1.5x of the engine's own pass, 10x less than statsmodels",
        )  # fmt: skip
        if n <= PEER_ROWS:
            yield Race(
                "gaps per decile, clustered by request", n, {"path": path, "request": "request"},
                (Contestant("evenhand", f"{HERE}:ours"),), tolerance=1e-8,
            )  # fmt: skip


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    ours_only = [o for o in outcomes if o.contestant == "evenhand" and o.race == "gaps per decile with HC1" and o.ran]
    return {"growth exponent, outcome test": growth(ours_only)} if len(ours_only) > 1 else {}
