"""Every audit from a Parquet file to its result, as a user calls it, beside the engine's own query where there is one.

What is timed is one call in a fresh process that has imported the package, so the peak of memory is that of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contestant, Outcome, Race, growth

HERE = "benchmarks.end_to_end"
CHUNK = 5_000_000
DEPTH, ITEMS = 100, 100_000
FIVE = ["gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "percentile_ratio", "equal_share"]
SEVEN = ["awrf", "eed", "eel", "eer", "dp", "log_dp", "eur"]

# --- data, all generated ----------------------------------------------------------------------------------------------


def written(folder: Path, name: str, rows: int, part: Callable[[np.random.Generator, int, int], dict[str, Any]]) -> str:
    """A Parquet file, a chunk of rows at a time: `part` makes the columns of so many rows from a given one on."""
    import polars as pl
    import pyarrow.parquet as pq

    path = folder / f"{name}-{rows}.parquet"
    if not path.exists():
        rng, writer = np.random.default_rng(rows), None
        for start in range(0, rows, CHUNK):
            table = pl.DataFrame(part(rng, start, min(CHUNK, rows - start))).to_arrow()
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table, row_group_size=500_000)
        if writer is not None:
            writer.close()
    return str(path)


def _named(rng: np.random.Generator, names: Sequence[str], size: int, shares: Sequence[float] | None = None) -> Any:
    import polars as pl

    return pl.Series(names).gather(rng.choice(len(names), size, p=shares))


def events(folder: Path, rows: int) -> str:
    """Whole amounts that units of eight sources received."""

    def part(rng: np.random.Generator, _: int, size: int) -> dict[str, Any]:
        unit = (max(1, rows // 5) * rng.random(size) ** 3).astype(np.int64)
        return {"unit": unit, "source": _named(rng, list("abcdefgh"), size), "amount": rng.integers(0, 5, size)}

    return written(folder, "events", rows, part)


def payments(folder: Path, rows: int) -> str:
    """Amounts without two alike: three events for every unit that there is, anywhere in the file."""

    def part(rng: np.random.Generator, _: int, size: int) -> dict[str, Any]:
        return {"unit": rng.integers(0, max(1, rows // 3), size), "amount": rng.standard_gamma(0.5, size)}

    return written(folder, "payments", rows, part)


def candidates(folder: Path, rows: int) -> str:
    """Scores and outcomes of three groups; a cluster has twenty rows, anywhere in the file."""
    many = max(1, rows // 20)

    def part(rng: np.random.Generator, _: int, size: int) -> dict[str, Any]:
        cluster, score = rng.integers(0, many, size), rng.beta(2, 3, size)
        shock = 0.1 * np.sin(cluster)
        outcome = (rng.random(size) < np.clip(0.6 * score + shock, 0, 1)).astype(np.int8)
        return {
            "cluster": cluster,
            "group": _named(rng, list("abc"), size, [0.6, 0.3, 0.1]),
            "score": score,
            "outcome": outcome,
        }

    return written(folder, "candidates", rows, part)


def rankings(folder: Path, many: int) -> dict[str, str]:
    """Rankings of `DEPTH` with scores and relevance, and the groups of their items."""

    def part(rng: np.random.Generator, start: int, size: int) -> dict[str, Any]:
        requests = size // DEPTH
        step = rng.integers(1, ITEMS // DEPTH, (requests, 1))
        item = (rng.integers(0, ITEMS, (requests, 1)) + step * np.arange(DEPTH)) % ITEMS
        return {
            "request": np.repeat(np.arange(start // DEPTH, start // DEPTH + requests), DEPTH),
            "rank": np.tile(np.arange(1, DEPTH + 1), requests),
            "item": item.ravel(),
            "score": -np.tile(np.arange(DEPTH, dtype=np.float64), requests) + rng.random(size),
            "relevance": (rng.random(size) < 0.1).astype(np.int8),
        }

    def labels(rng: np.random.Generator, start: int, size: int) -> dict[str, Any]:
        return {"item": np.arange(start, start + size), "group": _named(rng, list("abc"), size, [0.6, 0.3, 0.1])}

    return {"path": written(folder, "rankings", many * DEPTH, part), "groups": written(folder, "labels", ITEMS, labels)}


def scores(folder: Path, rows: int) -> dict[str, str]:
    """Fifty scored items of every user, and the users' groups."""
    users = rows // 50

    def part(rng: np.random.Generator, start: int, size: int) -> dict[str, Any]:
        own = size // 50
        step = rng.integers(1, ITEMS // 50, (own, 1))
        item = (rng.integers(0, ITEMS, (own, 1)) + step * np.arange(50)) % ITEMS
        return {
            "user": np.repeat(np.arange(start // 50, start // 50 + own), 50),
            "item": item.ravel(),
            "score": rng.random(size),
        }

    def labels(rng: np.random.Generator, start: int, size: int) -> dict[str, Any]:
        return {"user": np.arange(start, start + size), "group": _named(rng, ["f", "m"], size)}

    return {"path": written(folder, "scores", rows, part), "groups": written(folder, "users", users, labels)}


# --- contestants: each factory prepares, and returns what is timed ----------------------------------------------------


def audit(
    name: str, path: str, groups: str | None = None, repeat: int = 1, gib: int = 0, **arguments: Any
) -> Callable[[], None]:
    """A call of an audit on a file; `groups` is a file too. `repeat` calls it several times, for what takes milliseconds.

    `gib` is a limit that the system holds the process to: memory of its own, not the files that it maps.
    """
    import evenhand as eh

    if gib:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (gib << 30, gib << 30))

    call = getattr(eh, name)
    beside = {"prefix": "group", "exposure": "groups", "pairwise": "groups", "recommender": "user_groups"}
    more = {} if groups is None else {beside[name]: groups}
    for _ in range(repeat > 1):
        call(path, **more, **arguments)  # small tables are measured warm

    def go() -> None:
        for _ in range(repeat):
            call(path, **more, **arguments)

    return go


def collected(query: Any) -> Callable[[], None]:
    """The engine's own work, its answer thrown away: there is no value to compare."""

    def go() -> None:
        query.collect(engine="streaming")

    return go


def bare_events(path: str) -> Callable[[], None]:
    """Sum per unit and source, then how many units hold each sum."""
    import polars as pl

    sums = pl.scan_parquet(path).group_by("source", "unit").agg(pl.col("amount").sum())
    return collected(sums.group_by("source", "amount").agg(pl.len()))


def bare_rankings(path: str, groups: str) -> Callable[[], None]:
    """Join the groups, and add attention and relevance up per request and group."""
    import polars as pl

    rows = pl.scan_parquet(path).join(pl.scan_parquet(groups), on="item", how="left")
    attention = (0.5 ** (pl.col("rank") - 1)).sum()
    sums = rows.group_by("request", "group").agg(attention, pl.col("relevance").cast(pl.Float64).sum())

    return collected(sums)


def bare_candidates(path: str, by: Sequence[str]) -> Callable[[], None]:
    """Sums per score bin and whatever else is named, edges given."""
    import polars as pl

    score, edges = pl.col("score"), np.linspace(0.05, 0.95, 19)
    place = sum(((score > edge).cast(pl.Int16) for edge in edges[1:]), (score > edges[0]).cast(pl.Int16))
    y = pl.col("outcome").cast(pl.Float64)
    sums = (
        score.sum().alias("s"),
        y.sum().alias("y"),
        (score * score).sum().alias("ss"),
        (score * y).sum().alias("sy"),
    )
    rows = pl.scan_parquet(path).with_columns(place.alias("bin")).group_by("bin", *by).agg(pl.len(), *sums)
    return collected(rows.select(pl.len()))


def contestant(name: str, audit_: str, rounds: int, **arguments: Any) -> Contestant:
    return Contestant(name, f"{HERE}:audit", rounds=rounds, arguments={"name": audit_, **arguments})


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    scale, rounds = (100, 2) if quick else (1, 3)
    yield from _small(folder)
    yield from _grown(folder, 10**6 if quick else 10**8)
    n = 50_000_000 // scale
    spread: dict[str, Any] = {
        "unit": "unit",
        "amount": "amount",
        "by": "source",
        "population": None,
        "metrics": FIVE,
        "rng": 1,
    }
    yield Race(
        "inequality, 8 slices, 5 metrics", n, {"path": events(folder, n)},
        (
            contestant("evenhand, 999 draws", "inequality", rounds, **spread),
            contestant("evenhand, no interval", "inequality", rounds, interval=None, **spread),
            Contestant("bare group-by", f"{HERE}:bare_events", rounds=rounds),
        ),
        target="1.6x and 1.1x the bare group-by",
    )  # fmt: skip
    if not quick:
        many, paid = 300_000_000, {"unit": "unit", "amount": "amount", "population": None, "rng": 1}
        yield Race(
            "inequality, 100 million units, no two amounts alike, limit of 4 GiB", many, {"path": payments(folder, many)},
            (contestant("evenhand", "inequality", 1, gib=4, **paid),), target="done, under 4 GiB",
        )  # fmt: skip
    tested = {"score": "score", "outcome": "outcome", "group": "group"}
    yield Race(
        "outcome test", n, {"path": candidates(folder, n)},
        (
            contestant("evenhand, edges found", "outcome_test", rounds, **tested),
            Contestant("bare group-by, edges given", f"{HERE}:bare_candidates", rounds=rounds, arguments={"by": ["group"]}),
        ),
        target="2.5x the bare group-by",
    )  # fmt: skip
    yield Race(
        "outcome test, clustered", n, {"path": candidates(folder, n)},
        (
            contestant(f"evenhand, {n // 20:,} clusters", "outcome_test", 1, cluster="cluster", **tested),
            Contestant(
                "bare group-by", f"{HERE}:bare_candidates", rounds=1, arguments={"by": ["cluster", "group"]}
            ),
        ),
        target="6x the bare group-by, under 1 GiB",
    )  # fmt: skip
    many = 100_000 // scale
    yield from _rankings(folder, many, rounds)
    n = 10_000_000 // scale
    yield Race(
        "recommender, 50 scores a user", n, scores(folder, n),
        (contestant("evenhand", "recommender", rounds, protected="f", versus="m", top=10, rng=1),),
        target="4 CPU s, 400 MiB",
    )  # fmt: skip


def _rankings(folder: Path, many: int, rounds: int) -> Iterator[Race]:
    files = rankings(folder, many)
    yield Race(
        "exposure with relevance, rankings of 100", many, files,
        (
            contestant("evenhand, 7 metrics", "exposure", rounds, relevance="relevance", protected="c", versus="a", metrics=SEVEN, rng=1),
            Contestant("bare join and group-by", f"{HERE}:bare_rankings", rounds=rounds),
        ),
        target="3x the bare join and group-by",
    )  # fmt: skip
    for name, target, asked in (
        ("prefix", "3 CPU s, under 2 KB a ranking", {"protected": "c", "metrics": ["ndd", "ndkl"]}),
        ("pairwise", "4 CPU s, under 2 KB a ranking", {"protected": "c", "versus": "a", "relevance": "relevance"}),
    ):
        call = contestant("evenhand", name, rounds, rng=1, **asked)
        yield Race(f"{name}, rankings of 100", many, files, (call,), target=target)


def _small(folder: Path) -> Iterator[Race]:
    """Twenty calls in a row on a thousand rows, warm."""
    files, rated = rankings(folder, 10), scores(folder, 1_000)
    rated = {**rated, "protected": "f", "versus": "m", "top": 10, "rng": 1}
    tested = {"score": "score", "outcome": "outcome", "group": "group"}
    spread = {"path": events(folder, 1_000), "unit": "unit", "amount": "amount", "population": None, "rng": 1}
    for name, arguments, ms in (
        ("inequality", spread, 10),
        ("sources", {**spread, "source": "source"}, 0),
        ("decompose", {**spread, "group": "source", "unit": None}, 0),
        ("prefix", {**files, "protected": "c", "metrics": ["ndd", "ndkl"], "rng": 1}, 15),
        ("exposure", {**files, "relevance": "relevance", "rng": 1}, 54),
        ("pairwise", {**files, "protected": "c", "versus": "a", "relevance": "relevance", "rng": 1}, 0),
        ("outcome_test", {"path": candidates(folder, 1_000), **tested}, 19),
        ("outcome_test", {"path": candidates(folder, 1_000), **tested, "cluster": "cluster"}, 0),
        ("recommender", rated, 23),
    ):
        call = Contestant(
            "evenhand", f"{HERE}:audit", times=1 / 20, arguments={"name": name, "repeat": 20, **arguments}
        )
        how = ", clustered" if "cluster" in arguments else ""
        yield Race(f"small table, warm: {name}{how}", 1_000, {}, (call,), target=f"{ms} ms" if ms else "")


def _grown(folder: Path, most: int) -> Iterator[Race]:
    """The same call from ten thousand rows to `most`."""
    size = 10_000
    while size <= most:
        asked = {"unit": "unit", "amount": "amount", "by": "source", "population": None, "rng": 1}
        call = contestant("evenhand", "inequality", 3 if size < 10**8 else 1, **asked)
        yield Race(
            "growth: inequality with intervals", size, {"path": events(folder, size)}, (call,), target="exponent 1.0"
        )
        tested = {"score": "score", "outcome": "outcome", "group": "group", "bins": [0.2, 0.4, 0.6]}
        call = contestant("evenhand", "outcome_test", 3 if size < 10**8 else 1, **tested, metrics=["pooled_gap"])
        yield Race("growth: outcome test", size, {"path": candidates(folder, size)}, (call,), target="exponent 1.0")
        size *= 10


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Ratios to the bare query, and growth exponents."""
    found: dict[str, float] = {}
    for race in dict.fromkeys(o.race for o in outcomes):
        here = [o for o in outcomes if o.race == race and o.ran]
        if race.startswith("growth"):
            found[f"{race}, exponent"] = growth(here)
        bare = next((o for o in here if o.contestant.startswith("bare")), None)
        if bare is not None:
            found |= {f"{race}: {o.contestant}, times bare": o.cpu / bare.cpu for o in here if o is not bare}
    return found


def charts(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Growth: CPU seconds over rows, both on log axes, with a line of exponent 1 through the largest size."""
    import altair as alt

    grown = [o for o in outcomes if o.race.startswith("growth") and o.ran and o.cpu > 0]
    points = [
        {"rows": o.size, "cpu": o.cpu, "call": o.race.removeprefix("growth: "), "line": "measured"} for o in grown
    ]
    for race in dict.fromkeys(o.race for o in grown):
        here = [o for o in grown if o.race == race]
        last = max(here, key=lambda o: o.size)
        linear = [{"rows": o.size, "cpu": last.cpu * o.size / last.size, "line": "exponent 1"} for o in here]
        points += [{**point, "call": race.removeprefix("growth: ")} for point in linear]
    log = alt.Scale(type="log")
    chart = alt.Chart(alt.Data(values=points)).mark_line(point=True)
    x, y = alt.X("rows:Q", scale=log, title="rows"), alt.Y("cpu:Q", scale=log, title="CPU seconds")
    return (
        {"growth": chart.encode(x=x, y=y, color="call:N", strokeDash="line:N").properties(width=420)} if points else {}
    )
