"""Inequality: from amounts, or a log of events, to numbers with intervals; against the straightforward way and the peers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contestant, Outcome, Race, growth
from benchmarks.peers import loaded

HERE = "benchmarks.inequality"
FIVE = ("gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "percentile_ratio(upper=0.99, lower=0.75)", "equal_share")
REPLICATES = 1000

# --- data, all generated ----------------------------------------------------------------------------------------------


def amounts(folder: Path, kind: str, n: int) -> str:
    """One amount per unit, written in pieces so that making it needs little memory."""
    path = folder / f"{kind}-{n}.npy"
    if not path.exists():
        rng = np.random.default_rng([n, len(kind)])
        out = np.lib.format.open_memmap(path, "w+", np.float64 if kind == "continuous" else np.int32, (n,))
        for start in range(0, n, 5_000_000):
            out[start : start + 5_000_000] = PIECES[kind](rng, min(5_000_000, n - start))
        out.flush()
    return str(path)


def _sparse(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    values[rng.random(len(values)) < 0.6] = 0
    return values


PIECES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "whole": lambda rng, n: _sparse(np.minimum(rng.pareto(1.1, n) + 1, 2**31 - 1).astype(np.int32), rng),
    "whole-wide": lambda rng, n: np.minimum(rng.lognormal(11, 1.2, n), 2**31 - 1).astype(np.int32),
    "continuous": lambda rng, n: _sparse(rng.lognormal(0, 1.5, n), rng),
}


def events(folder: Path, rows: int, slices: int, units: int) -> str:
    """A log in Parquet: unit, slice, amount; a few units get most of the rows."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"events-{rows}-{slices}-{units}.parquet"
    if not path.exists():
        rng = np.random.default_rng([rows, slices])
        with pq.ParquetWriter(
            path, pa.schema([("unit", pa.int64()), ("slice", pa.int32()), ("amount", pa.int32())])
        ) as out:
            for start in range(0, rows, 5_000_000):
                n = min(5_000_000, rows - start)
                frame = pl.DataFrame(
                    {
                        "unit": (units * rng.random(n) ** 3).astype(np.int64),
                        "slice": rng.integers(0, slices, n, dtype=np.int32),
                        "amount": rng.geometric(0.4, n).astype(np.int32),
                    }
                )
                out.write_table(frame.to_arrow())
    return str(path)


# --- contestants: each factory prepares, and returns what is timed ----------------------------------------------------


def gini_ours(path: str) -> Callable[[], float]:
    from evenhand.metrics import gini

    x = loaded(path)
    return lambda: gini(x)


def gini_naive(path: str) -> Callable[[], float]:
    """Sort all units, number them, one weighted sum."""
    x = loaded(path)

    def go() -> float:
        ordered = np.sort(x).astype(np.float64)
        ranks = np.arange(1, len(ordered) + 1)
        return float(((2 * ranks - len(ordered) - 1) * ordered).sum() / (len(ordered) * ordered.sum()))

    return go


def one_pass(path: str) -> Callable[[], None]:
    """The floor: every amount is looked at once."""
    x = loaded(path)

    def go() -> None:
        x.max()

    return go


def intervals_ours(path: str, interval: str) -> Callable[[], list[float]]:
    """All replicates of five metrics, after the tally."""
    from evenhand import metrics  # noqa: F401  fills the registry
    from evenhand.cards import needing, parse_metrics
    from evenhand.intervals.kinds import Interval
    from evenhand.intervals.spectra import estimates
    from evenhand.tallies.spectrum import Spectra, Spectrum

    tally = Spectra.from_spectra([Spectrum.from_arrays(np.load(path, mmap_mode="r"))])
    asked, how = parse_metrics(FIVE, needing(Spectrum)), Interval.parse(interval)
    return lambda: [float(e.estimate[0]) for e in estimates(tally, asked, how, 1, [()])]


def intervals_naive(path: str, replicates: int) -> Callable[[], list[float]]:
    """Draw the units again, sort them, compute the five; times however many replicates are wanted."""
    x = loaded(path)

    def go() -> list[float]:
        rng = np.random.default_rng(1)
        for _ in range(replicates):
            five(x[rng.integers(0, len(x), len(x))])
        return five(np.asarray(x))

    return go


def five(x: np.ndarray) -> list[float]:
    """The five metrics by their formulas on sorted units."""
    ordered = np.sort(x).astype(np.float64)
    n, total = len(ordered), ordered.sum()
    held = np.concatenate([[0.0], np.cumsum(ordered)]) / total
    top = 0.99 * n
    below = held[math.floor(top)] + (top - math.floor(top)) * ordered[math.floor(top)] / total
    half = int(np.searchsorted(held, 0.5))
    inside = (0.5 - held[half - 1]) / (held[half] - held[half - 1])
    gini = float(((2 * np.arange(1, n + 1) - n - 1) * ordered).sum() / (n * total))
    percentiles = [ordered[math.ceil(p * n * (1 - 1e-12)) - 1] for p in (0.99, 0.75)]
    ratio = percentiles[0] / percentiles[1] if percentiles[1] else math.nan
    return [
        gini,
        1 - float(np.sqrt(ordered).mean() ** 2 / ordered.mean()),
        1 - float(below),
        ratio,
        (half - 1 + inside) / n,
    ]


def log_ours(path: str, units: int, interval: str | None = None, engine: str = "polars") -> Callable[[], list[float]]:
    import evenhand as eh

    def table() -> Any:
        if engine == "duckdb":
            import duckdb

            return duckdb.read_parquet(path)
        return path

    def go() -> list[float]:
        call = {"unit": "unit", "amount": "amount", "population": units, "by": "slice", "metrics": ["gini"], "rng": 1}
        found = eh.inequality(table(), **call, interval=interval).findings.columns
        return [g for _, g in sorted(zip(found["slice"], found["estimate"], strict=True))]

    return go


def log_polars(path: str, units: int) -> Callable[[], list[float]]:
    """The bare group-bys, written for this file and nothing else, with no check of anything."""
    import polars as pl

    def go() -> list[float]:
        per_unit = pl.scan_parquet(path).group_by("slice", "unit").agg(pl.col("amount").cast(pl.Int64).sum())
        cells = per_unit.group_by("slice", "amount").agg(pl.len().alias("n")).collect(engine="streaming")
        return _ginis(cells["slice"].to_numpy(), cells["amount"].to_numpy(), cells["n"].to_numpy(), units)

    return go


def log_duckdb(path: str, units: int) -> Callable[[], list[float]]:
    import duckdb

    query = (
        "select slice, amount, count(*) as n from (select slice, unit, sum(amount)::bigint as amount "
        f"from read_parquet('{path}') group by all) group by all"
    )

    def go() -> list[float]:
        cells = duckdb.sql(query).fetchnumpy()
        return _ginis(cells["slice"], cells["amount"], cells["n"], units)

    return go


def log_naive(path: str, units: int) -> Callable[[], list[float]]:
    """A loop over slices: filter, add up, fill with zeros, sort."""
    import pandas as pd

    def go() -> list[float]:
        frame, found = pd.read_parquet(path), []
        for label in sorted(frame["slice"].unique()):
            sums = frame[frame["slice"] == label].groupby("unit")["amount"].sum().to_numpy()
            ordered = np.sort(np.concatenate([np.zeros(units - len(sums)), sums]))
            ranks = np.arange(1, units + 1)
            found.append(float(((2 * ranks - units - 1) * ordered).sum() / (units * ordered.sum())))
        return found

    return go


def _ginis(slices: np.ndarray, values: np.ndarray, counts: np.ndarray, units: int) -> list[float]:
    """Gini per slice from its cells, the unseen units added."""
    order = np.lexsort((values, slices))
    slices, values, counts = slices[order], values[order].astype(np.float64), counts[order].astype(np.float64)
    starts = np.flatnonzero(np.concatenate([[True], slices[1:] != slices[:-1]]))
    lengths = np.diff(np.append(starts, len(slices)))
    seen, running = np.add.reduceat(counts, starts), np.cumsum(counts)
    below = units - seen - (running[starts] - counts[starts])  # the unseen stand below everybody
    reach = running + np.repeat(below, lengths)
    spread = (2 * reach - counts - units) * counts * values
    return (np.add.reduceat(spread, starts) / (units * np.add.reduceat(counts * values, starts))).tolist()


def start_ours(words: Sequence[str]) -> Callable[[], None]:
    """A new process, until it is done."""

    def go() -> None:
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return go


# --- the races --------------------------------------------------------------------------------------------------------


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    """One after the other, so that the data of a race is made when its turn comes."""
    sizes = (100_000, 10_000_000) if quick else (100_000, 1_000_000, 10_000_000, 100_000_000)
    yield _start()
    for kind in ("whole", "continuous"):
        for n in sizes:
            yield _gini(folder, kind, n, peers=not quick or n > 100_000)
    for kind in ("whole", "whole-wide", "continuous"):
        for n in (1_000_000 if kind == "whole" else 10_000,) if quick else (1_000_000, 100_000_000):
            yield _intervals(folder, kind, n)
    yield _log(folder, *((2_000_000, 8, 200_000) if quick else (200_000_000, 8, 20_000_000)))
    rows, units = (200_000, 40_000) if quick else (20_000_000, 2_000_000)
    for slices in (1, 8, 1_000, 10_000):
        yield _slices(folder, rows, slices, units // max(1, slices // 8))


def _start() -> Race:
    words = {
        "import evenhand": ["-c", "import evenhand"],
        "evenhand --help": ["-m", "evenhand", "--help"],
        "python itself": ["-c", "pass"],
        "import numpy": ["-c", "import numpy"],
    }
    contestants = tuple(Contestant(name, f"{HERE}:start_ours", arguments={"words": w}) for name, w in words.items())
    return Race("start", 1, {}, contestants, target="0.3 s of CPU time")


def _gini(folder: Path, kind: str, n: int, *, peers: bool) -> Race:
    rivals = (("LensKit", "gini_lenskit"), ("PySAL", "gini_pysal")) if peers else ()
    targets = {
        "whole": "2.5x faster than LensKit, 15x than PySAL",
        "continuous": "no slower than LensKit, a third of its memory",
    }
    return Race(
        f"Gini of {kind} amounts", n, {"path": amounts(folder, kind, n)},
        (
            Contestant("evenhand", f"{HERE}:gini_ours"),
            Contestant("naive (sort all units)", f"{HERE}:gini_naive"),
            *(Contestant(name, f"benchmarks.peers:{task}", "peers") for name, task in rivals),
            Contestant("floor (one pass)", f"{HERE}:one_pass"),
        ),
        target=targets.get(kind, "") if n == 100_000_000 else "",
    )  # fmt: skip


def _intervals(folder: Path, kind: str, n: int) -> Race:
    replicates = 5 if n <= 1_000_000 else 1
    times = REPLICATES / (replicates + 1)  # its own estimate is one more pass
    naive = Contestant(
        "naive (resample all units)",
        f"{HERE}:intervals_naive",
        times=times,
        rounds=3,
        arguments={"replicates": replicates},
    )
    targets = {"whole": "2 s, 1000x naive", "whole-wide": "100x naive", "continuous": "300x naive"}
    return Race(
        f"{REPLICATES} replicates of 5 metrics, {kind} amounts", n, {"path": amounts(folder, kind, n)},
        (
            *(
                Contestant(f"evenhand, {how}", f"{HERE}:intervals_ours", arguments={"interval": f"{name}({REPLICATES})"})
                for how, name in (("percentile", "percentile"), ("studentised", "bootstrap"))
            ),
            naive,
        ),
        target=targets[kind] if n == 100_000_000 else "",
    )  # fmt: skip


def _log(folder: Path, rows: int, slices: int, units: int) -> Race:
    return Race(
        "events in Parquet to Gini per slice", rows, {"path": events(folder, rows, slices, units), "units": units},
        (
            Contestant("evenhand", f"{HERE}:log_ours"),
            Contestant("evenhand on DuckDB", f"{HERE}:log_ours", arguments={"engine": "duckdb"}),
            Contestant("bare Polars group-by", f"{HERE}:log_polars"),
            Contestant("bare DuckDB group-by", f"{HERE}:log_duckdb"),
            *((Contestant("naive (pandas, loop over slices)", f"{HERE}:log_naive", rounds=3),) if rows <= 20_000_000 else ()),
        ),
        target="1.2x the bare group-by",
    )  # fmt: skip


def _slices(folder: Path, rows: int, slices: int, units: int) -> Race:
    naive = Contestant("naive (pandas, loop over slices)", f"{HERE}:log_naive", rounds=1)
    return Race(
        f"{slices:,} slices", rows, {"path": events(folder, rows, slices, units), "units": units},
        (
            Contestant("evenhand", f"{HERE}:log_ours"),
            Contestant("bare Polars group-by", f"{HERE}:log_polars"),
            Contestant("evenhand, 99 draws", f"{HERE}:log_ours", rounds=1, arguments={"interval": "bootstrap(99)"}),
            *((naive,) if slices <= 1_000 else ()),
        ),
    )  # fmt: skip


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Numbers that need several races: growth with size, and growth with slices."""
    ours = [o for o in outcomes if o.contestant == "evenhand" and o.ran]
    found = {}
    for kind in ("whole", "continuous"):
        found[f"growth exponent, Gini of {kind} amounts"] = growth(
            [o for o in ours if o.race == f"Gini of {kind} amounts"]
        )
    sliced = {o.race: o.cpu for o in ours if o.race.endswith(" slices")}
    if {"1 slices", "10,000 slices"} <= sliced.keys():
        found["CPU of 10,000 slices over 1 slice"] = sliced["10,000 slices"] / sliced["1 slices"]
    return found
