"""AWRF of many rankings against plain numpy and the peers' lists per second; the audit against the engine's bare join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contestant, Race
from benchmarks.prefix import DEPTH, SHOWN, labels

HERE = "benchmarks.exposure"
GROUPS = ("a", "b", "c")
ITEMS = 100_000
SLAB = 2_500
"""Rankings whose shares are looked up at a time, by every contestant that does not go one by one."""

# --- data, all generated ----------------------------------------------------------------------------------------------


def items(folder: Path, rankings: int) -> str:
    """`DEPTH` different items in each ranking, of `ITEMS`: steps that together stay below once around."""
    path = folder / f"items-{rankings}.npy"
    if not path.exists():
        rng = np.random.default_rng(rankings)
        found = np.lib.format.open_memmap(path, "w+", np.int32, (rankings, DEPTH))
        for at in range(0, rankings, SLAB):
            part = found[at : at + SLAB]
            steps = rng.integers(1, ITEMS // DEPTH, part.shape)
            part[:] = (steps.cumsum(1) + rng.integers(0, ITEMS, (len(part), 1))) % ITEMS
        found.flush()
    return str(path)


def shares(folder: Path) -> str:
    """How much of each item is each group's."""
    path = folder / "shares.npy"
    if not path.exists():
        np.save(path, np.random.default_rng(1).dirichlet(np.ones(len(GROUPS)), ITEMS))
    return str(path)


def tables(folder: Path, rankings: int) -> dict[str, str]:
    """The same rankings as a table in Parquet (request, item, rank), and one of items and their group."""
    import polars as pl

    path, group = folder / f"exposure-{rankings}.parquet", folder / "groups.parquet"
    if not path.exists():
        columns = {
            "request": np.repeat(np.arange(rankings), DEPTH),
            "item": np.load(items(folder, rankings)).ravel(),
            "rank": np.tile(np.arange(1, DEPTH + 1), rankings),
        }
        pl.DataFrame(columns).write_parquet(path)
    if not group.exists():
        codes = np.random.default_rng(2).integers(0, len(GROUPS), ITEMS)
        named = pl.Series(GROUPS).gather(codes)
        pl.DataFrame({"item": np.arange(ITEMS, dtype=np.int32), "group": named}).write_parquet(group)
    return {"path": str(path), "groups": str(group)}


# --- contestants: each factory prepares, and returns what is timed ----------------------------------------------------


def hard_ours(path: str) -> Callable[[], list[float]]:
    """From labels in rank order to one value per ranking."""
    codes, awrf = np.load(path), _awrf()
    return lambda: awrf(codes.ravel(), len(codes))[:SHOWN].tolist()


def soft_ours(path: str, shares: str) -> Callable[[], list[float]]:
    """From items in rank order, their shares looked up, to one value per ranking."""
    ids, rows, awrf = np.load(path), np.load(shares), _awrf()
    known = np.zeros(SLAB * DEPTH, dtype=np.int8)

    def go() -> list[float]:
        slabs = (ids[at : at + SLAB] for at in range(0, len(ids), SLAB))
        values = [awrf(known[: part.size], len(part), rows.take(part.ravel(), axis=0)) for part in slabs]
        return np.concatenate(values)[:SHOWN].tolist()

    return go


def _awrf() -> Callable[..., np.ndarray]:
    """The metric of rankings given as codes, with shares where items have them; imports are not timed."""
    from evenhand import metrics
    from evenhand.attention import parse
    from evenhand.tallies.exposure import Exposed
    from evenhand.tallies.placement import Placement

    attention, equal = parse("geometric(stop=0.5)"), np.full(len(GROUPS), 1 / len(GROUPS))

    def of(codes: np.ndarray, rankings: int, rows: np.ndarray | None = None) -> np.ndarray:
        placed = Placement(codes, np.arange(rankings + 1) * DEPTH, GROUPS, None, rows)
        return np.asarray(metrics.awrf.on(Exposed.from_placement(placed, attention, equal)))

    return of


def hard_fused(path: str) -> Callable[[], list[float]]:
    """One compiled loop from labels to values, nothing in between; compiling is not timed."""
    from numba import njit

    codes, weights, groups = np.load(path), _attention(), len(GROUPS)

    @njit(cache=True)  # type: ignore[untyped-decorator]
    def awrf(codes: np.ndarray, weights: np.ndarray, groups: int) -> np.ndarray:
        out, received = np.empty(len(codes)), np.empty(groups)
        for r in range(len(codes)):
            received[:] = 0.0
            for i in range(codes.shape[1]):
                received[codes[r, i]] += weights[i]
            whole, found, q = received.sum(), 0.0, 1 / groups
            for g in range(groups):
                p = received[g] / whole
                found += q * np.log2(2 * q / (p + q)) + (p * np.log2(2 * p / (p + q)) if p > 0 else 0.0)
            out[r] = found / 2
        return out

    awrf(codes[:1], weights, groups)
    return lambda: awrf(codes, weights, groups)[:SHOWN].tolist()


def hard_numpy(path: str) -> Callable[[], list[float]]:
    """All rankings at once, a comparison and a product for each group."""
    codes, weights = np.load(path), _attention()
    return lambda: _js(np.stack([(codes == g) @ weights for g in range(len(GROUPS))], axis=1))[:SHOWN].tolist()


def hard_loop(path: str, part: int) -> Callable[[], list[float]]:
    codes, weights = np.load(path, mmap_mode="r")[:part], _attention()
    return lambda: [float(_js(np.bincount(one, weights, len(GROUPS)))) for one in codes][:SHOWN]


def soft_numpy(path: str, shares: str) -> Callable[[], list[float]]:
    """As many rankings at a time as ours, one sum over ranks."""
    ids, rows, weights = np.load(path), np.load(shares), _attention()

    def go() -> list[float]:
        slabs = (ids[at : at + SLAB] for at in range(0, len(ids), SLAB))
        return np.concatenate([_js(np.matmul(weights, rows.take(part, axis=0))) for part in slabs])[:SHOWN].tolist()

    return go


def soft_loop(path: str, shares: str, part: int) -> Callable[[], list[float]]:
    ids, rows, weights = np.load(path, mmap_mode="r")[:part], np.load(shares), _attention()
    return lambda: [float(_js(weights @ rows[one])) for one in ids][:SHOWN]


def _attention() -> np.ndarray:
    return 0.5 ** np.arange(1.0, DEPTH + 1)


def _js(received: np.ndarray) -> np.ndarray:
    """Jensen-Shannon divergence in bits between each row's shares and equal shares."""
    p, q = received / received.sum(-1, keepdims=True), 1 / received.shape[-1]
    middle = (p + q) / 2
    of_p = p * np.log2(np.where(p > 0, p, 1) / middle)
    return np.asarray((of_p + q * np.log2(q / middle)).sum(-1) / 2)


def audit_ours(path: str, groups: str, interval: str | None = None, engine: str = "polars") -> Callable[[], float]:
    import evenhand as eh

    def table() -> Any:
        if engine == "duckdb":
            import duckdb

            return duckdb.read_parquet(path)
        return path

    def go() -> float:
        call: dict[str, Any] = {"groups": groups, "target": "equal", "metrics": "awrf", "chance": False, "rng": 1}
        return float(eh.exposure(table(), **call, interval=interval).findings.columns["estimate"][0])

    return go


def audit_polars(path: str, groups: str) -> Callable[[], float]:
    """The bare join and group-by, written for these files and nothing else, with no check of anything."""
    import polars as pl

    def go() -> float:
        looked = pl.scan_parquet(path).with_columns((0.5 ** pl.col("rank").cast(pl.Float64)).alias("attention"))
        joined = looked.join(pl.scan_parquet(groups), on="item", how="left")
        cells = joined.group_by("request", "group").agg(pl.col("attention").sum()).collect(engine="streaming")
        codes = cells["group"].replace_strict(GROUPS, range(len(GROUPS)), return_dtype=pl.Int64)
        return _mean(cells["request"].to_numpy(), codes.to_numpy(), cells["attention"].to_numpy())

    return go


def audit_duckdb(path: str, groups: str) -> Callable[[], float]:
    import duckdb

    query = (
        'select request, ascii("group") - 97 as code, sum(pow(0.5, rank)) as attention '
        f"from read_parquet('{path}') left join read_parquet('{groups}') using (item) group by all"
    )

    def go() -> float:
        cells = duckdb.sql(query).fetchnumpy()
        return _mean(cells["request"], cells["code"], cells["attention"])

    return go


def _mean(requests: np.ndarray, codes: np.ndarray, attention: np.ndarray) -> float:
    received = np.zeros((int(requests.max()) + 1, len(GROUPS)))
    received[requests, codes] = attention
    return float(_js(received).mean())


# --- the races --------------------------------------------------------------------------------------------------------


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    """One after the other, so that the data of a race is made when its turn comes."""
    rankings = 20_000 if quick else 1_000_000
    yield _hard(folder, rankings)
    yield _soft(folder, rankings)
    for size in (5_000,) if quick else (20_000, 100_000):
        yield Race(
            "exposure: from Parquet to the mean AWRF", size, tables(folder, size),
            (
                Contestant("evenhand (Polars)", f"{HERE}:audit_ours"),
                Contestant("floor: Polars join + group-by", f"{HERE}:audit_polars"),
                Contestant("evenhand (DuckDB)", f"{HERE}:audit_ours", arguments={"engine": "duckdb"}),
                Contestant("floor: DuckDB join + group-by", f"{HERE}:audit_duckdb"),
                Contestant("evenhand (Polars), 999 resamples", f"{HERE}:audit_ours", arguments={"interval": "bootstrap(999)"}),
            ),
            target="memory flat in the number of rankings",
        )  # fmt: skip


def _hard(folder: Path, rankings: int) -> Race:
    """The peers measure something else (nDCG, an AWRF without target), so only their speed is compared."""
    part, few = 2_000, 100
    peers = "benchmarks.peers"
    return Race(
        f"awrf of rankings of depth {DEPTH}, one group per item", rankings, {"path": labels(folder, rankings)},
        (
            Contestant("evenhand", f"{HERE}:hard_ours"),
            Contestant("plain numpy, all at once", f"{HERE}:hard_numpy"),
            Contestant("fused loop (numba)", f"{HERE}:hard_fused"),
            Contestant("naive (loop over rankings)", f"{HERE}:hard_loop", times=rankings / part, rounds=3, arguments={"part": part}),
            Contestant("LensKit, nDCG (speed only)", f"{peers}:ndcg_lenskit", "peers", rankings / part, 3, {"part": part}),
            Contestant("FairRankTune, its AWRF (speed only)", f"{peers}:awrf_fairranktune", "peers", rankings / few, 3, {"part": few}),
        ),
        target="400,000 rankings a second, 10x LensKit's nDCG",
    )  # fmt: skip


def _soft(folder: Path, rankings: int) -> Race:
    part = 2_000
    return Race(
        f"awrf of rankings of depth {DEPTH}, shares of groups", rankings,
        {"path": items(folder, rankings), "shares": shares(folder)},
        (
            Contestant("evenhand", f"{HERE}:soft_ours"),
            Contestant("plain numpy", f"{HERE}:soft_numpy"),
            Contestant("naive (loop over rankings)", f"{HERE}:soft_loop", times=rankings / part, rounds=3, arguments={"part": part}),
        ),
        target="200,000 rankings a second",
    )  # fmt: skip
