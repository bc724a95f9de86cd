"""What an audit costs on Spark, from Spark's own books, and what that comes to on a table that no machine here holds.

    python -m benchmarks.spark --rows 400000 1600000

Each audit is asked of two tables, the larger one four times the smaller by default. The difference, by row, is what a further
row costs: processor time of the executors, bytes that are shuffled, bytes that reach the driver. What does not grow with the
rows (starting jobs, compiling them) drops out. Reckoned for 10^9 units and 10^11 events, it is a reckoning and no run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

EVENTS = 10**11
"""Rows of the log that is reckoned."""

ITEMS = 10
"""Rows of a ranking."""


def log(path: str, rows: int) -> None:
    """Events of as many authors, so that a part of the log rarely meets one twice, as a part of a far larger log would not."""
    import polars as pl

    rng = np.random.default_rng(1)
    author = rng.integers(0, rows, rows)
    viewer = rng.integers(0, rows // 50, rows)
    columns = {
        "author": author, "viewer": viewer, "arm": viewer % 2, "source": rng.integers(0, 3, rows),
        "band": author % 4, "views": rng.poisson(2, rows),
    }  # fmt: skip
    pl.DataFrame(columns).write_parquet(path)


def lists(path: str, rows: int) -> None:
    """Rankings of ten items each."""
    import polars as pl

    rng = np.random.default_rng(2)
    requests = rows // ITEMS
    item = (rng.integers(0, rows // ITEMS, (requests, 1)) + np.arange(ITEMS) * 17).ravel() % (rows // ITEMS)
    columns = {
        "request": np.repeat(np.arange(requests), ITEMS), "item": item, "side": item % 2,
        "rank": np.tile(np.arange(1, ITEMS + 1), requests),
    }  # fmt: skip
    pl.DataFrame(columns).write_parquet(path)


def asks() -> dict[str, tuple[Callable[[str, int], None], Callable[[Any], Any]]]:
    """A table and a question by the name of the audit."""
    import evenhand as eh

    units = {"unit": "author", "amount": "views", "population": None, "interval": None, "rng": 1}
    return {
        "inequality": (log, lambda t: eh.inequality(t, **units)),
        "sources": (log, lambda t: eh.sources(t, **units, source="source")),
        "decompose": (log, lambda t: eh.decompose(t, **units, group="band")),
        "experiment": (log, lambda t: eh.experiment(t, **units, arm="arm", control=0, randomized="viewer", draws=99)),
        "exposure": (lists, lambda t: eh.exposure(t, groups="side", protected=1, interval=None, rng=1)),
        "prefix": (lists, lambda t: eh.prefix(t, group="side", protected=1, interval=None, chance=None, rng=1)),
    }


@dataclass(frozen=True)
class Cost:
    """Seconds of processors, bytes shuffled, bytes sent to the driver."""

    seconds: float
    shuffled: float
    sent: float

    def by_row(self, less: Cost, rows: int) -> Cost:
        """What each of so many further rows cost."""
        return Cost(*((a - b) / rows for a, b in zip(self.all, less.all, strict=True)))

    @property
    def all(self) -> tuple[float, float, float]:
        return self.seconds, self.shuffled, self.sent


def stages(spark: Any) -> list[Any]:
    """What Spark's own books say of every stage so far."""
    python = spark.sparkContext
    context, jvm = python._jsc.sc(), python._jvm  # noqa: SLF001  (Python has no other way to them)
    context.listenerBus().waitUntilEmpty()
    none = python._gateway.new_array(jvm.double, 0)  # noqa: SLF001
    nothing = jvm.java.util.ArrayList()
    found = context.statusStore().stageList(nothing, False, False, none, nothing)
    return [found.apply(i) for i in range(found.size())]


def cost(spark: Any, ask: Callable[[Any], Any], path: str) -> Cost:
    """What the executors did for one question; a stage that shuffles nothing hands its result to the driver."""
    before = {stage.stageId() for stage in stages(spark)}
    ask(spark.read.parquet(path))
    new = [stage for stage in stages(spark) if stage.stageId() not in before]
    return Cost(
        sum(stage.executorCpuTime() for stage in new) / 1e9,
        sum(stage.shuffleWriteBytes() for stage in new),
        sum(stage.resultSize() for stage in new if not stage.shuffleWriteBytes()),
    )


def session(master: str) -> Any:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "4"}
    builder = SparkSession.builder.master(master).appName("evenhand benchmark")
    for name, value in quiet.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found


def line(name: str, table: int, by_row: Cost) -> str:
    """A row of the table in docs/engines.md: measured by row, then reckoned for all events."""
    hours, shuffled, sent = by_row.seconds * EVENTS / 3600, by_row.shuffled * EVENTS / 1e12, by_row.sent * EVENTS / 1e9
    measured = f"{by_row.seconds * 1e6:.2f} | {by_row.shuffled:.1f} | {by_row.sent:.2f} | {by_row.sent / table:.3f}"
    return f"| `{name}` | {measured} | {hours:,.0f} | {shuffled:.2f} | {sent:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs=2, default=(400_000, 1_600_000), metavar="N")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--audits", nargs="+", metavar="NAME", help="some of them only")
    args = parser.parse_args()
    import polars as pl

    spark = session(args.master)
    few, many = args.rows
    print(
        "| audit | µs | bytes shuffled | bytes sent | of the table | core hours | TB shuffled | GB sent |", flush=True
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (made, ask) in asks().items():
            if args.audits and name not in args.audits:
                continue
            paths = [str(Path(folder) / f"{made.__name__}-{rows}.parquet") for rows in (few, many)]
            for path, rows in zip(paths, (few, many), strict=True):
                if not Path(path).exists():
                    made(path, rows)
            cost(spark, ask, paths[0])  # once for the compiler
            found = [cost(spark, ask, path) for path in paths]
            width = pl.read_parquet(paths[0]).to_arrow().nbytes / few
            print(line(name, width, found[1].by_row(found[0], many - few)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
