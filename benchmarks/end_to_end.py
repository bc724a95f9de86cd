"""Every audit from a Parquet file to its result, as a user calls it, beside the engine's own query where there is one.

What is timed is one call in a fresh process that has imported the package, so the peak of memory is that of the call. The bare
query runs in DuckDB with the same limit on memory (`EVENHAND_MEMORY`). Each audit runs in several worlds (whole and text ids, rows
in order and in no order, few and many units or items, scores of several shapes) and at two sizes: what is fast in one world only
has been fitted to it. Targets are the costs that the design allows (docs/benchmarks.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
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


def _ids(numbers: Any, word: str, *, named: bool) -> Any:
    """Whole numbers as they are, or text of 24 characters that begins with a word."""
    import polars as pl

    if not named:
        return numbers
    digits = pl.Series(numbers).cast(pl.String).str.zfill(23 - len(word))
    return pl.select(pl.format(word + "-{}", digits))[""]


def events(folder: Path, rows: int, units: int = 0, *, named: bool = False, continuous: bool = False) -> str:
    """Amounts that units of eight sources received; a few units receive most of them."""
    many = units or max(1, rows // 5)

    def part(rng: np.random.Generator, _: int, size: int) -> dict[str, Any]:
        unit = (many * rng.random(size) ** 3).astype(np.int64)
        return {
            "unit": _ids(unit, "author", named=named),
            "source": _named(rng, list("abcdefgh"), size),
            "amount": rng.standard_gamma(2, size) if continuous else rng.integers(0, 5, size),
        }

    return written(folder, f"events-{many}-{named:d}{continuous:d}", rows, part)


def payments(folder: Path, rows: int) -> str:
    """Amounts without two alike: three events for every unit that there is, anywhere in the file."""

    def part(rng: np.random.Generator, _: int, size: int) -> dict[str, Any]:
        return {"unit": rng.integers(0, max(1, rows // 3), size), "amount": rng.standard_gamma(0.5, size)}

    return written(folder, "payments", rows, part)


SCORES: dict[str, tuple[Callable[[np.random.Generator, int], Any], tuple[float, float]]] = {
    "between 0 and 1": (lambda rng, size: rng.beta(2, 3, size), (0.0, 1.0)),
    "normal": (lambda rng, size: rng.normal(size=size), (-3.0, 3.0)),
    "whole, up to 1,000": (lambda rng, size: rng.binomial(1_000, rng.beta(2, 3, size)), (0.0, 1_000.0)),
}
"""How scores are drawn, and about where they lie."""


def candidates(folder: Path, rows: int, scores: str = "between 0 and 1", groups: int = 3) -> str:
    """Scores and outcomes of a few groups; a cluster has twenty rows, anywhere in the file."""
    many, (draw, (low, high)) = max(1, rows // 20), SCORES[scores]
    shares = 0.5 ** np.arange(1, groups + 1)

    def part(rng: np.random.Generator, _: int, size: int) -> dict[str, Any]:
        cluster, score = rng.integers(0, many, size), draw(rng, size)
        shock = 0.1 * np.sin(cluster)
        outcome = (rng.random(size) < np.clip(0.6 * (score - low) / (high - low) + shock, 0, 1)).astype(np.int8)
        return {
            "cluster": cluster,
            "group": _named(rng, [chr(97 + i) for i in range(groups)], size, shares / shares.sum()),
            "score": score,
            "outcome": outcome,
        }

    return written(folder, f"candidates-{scores[:3]}-{groups}", rows, part)


def shuffled(path: str) -> str:
    """A file with the same rows in no order."""
    import polars as pl

    target = path.replace(".parquet", "-shuffled.parquet")
    if not Path(target).exists():
        pl.read_parquet(path).sample(fraction=1, shuffle=True, seed=1).write_parquet(target, row_group_size=500_000)
    return target


def rankings(
    folder: Path, many: int, items: int = ITEMS, *, named: bool = False, in_order: bool = True
) -> dict[str, str]:
    """Rankings of `DEPTH` with scores and relevance, and the groups of their items."""

    def part(rng: np.random.Generator, start: int, size: int) -> dict[str, Any]:
        requests = size // DEPTH
        step = rng.integers(1, items // DEPTH, (requests, 1))
        item = (rng.integers(0, items, (requests, 1)) + step * np.arange(DEPTH)) % items
        request = np.repeat(np.arange(start // DEPTH, start // DEPTH + requests), DEPTH)
        return {
            "request": _ids(request, "query", named=named),
            "rank": np.tile(np.arange(1, DEPTH + 1), requests),
            "item": _ids(item.ravel(), "page", named=named),
            "score": -np.tile(np.arange(DEPTH, dtype=np.float64), requests) + rng.random(size),
            "relevance": (rng.random(size) < 0.1).astype(np.int8),
        }

    def labels(rng: np.random.Generator, start: int, size: int) -> dict[str, Any]:
        item = _ids(np.arange(start, start + size), "page", named=named)
        return {"item": item, "group": _named(rng, list("abc"), size, [0.6, 0.3, 0.1])}

    path = written(folder, f"rankings-{items}-{named:d}", many * DEPTH, part)
    return {
        "path": path if in_order else shuffled(path),
        "groups": written(folder, f"labels-{named:d}", items, labels),
    }


def scores(folder: Path, rows: int, *, named: bool = False) -> dict[str, str]:
    """Fifty scored items of every user, and the users' groups."""
    users = rows // 50

    def part(rng: np.random.Generator, start: int, size: int) -> dict[str, Any]:
        own = size // 50
        step = rng.integers(1, ITEMS // 50, (own, 1))
        item = (rng.integers(0, ITEMS, (own, 1)) + step * np.arange(50)) % ITEMS
        return {
            "user": _ids(np.repeat(np.arange(start // 50, start // 50 + own), 50), "user", named=named),
            "item": _ids(item.ravel(), "item", named=named),
            "score": rng.random(size),
        }

    def labels(rng: np.random.Generator, start: int, size: int) -> dict[str, Any]:
        user = _ids(np.arange(start, start + size), "user", named=named)
        return {"user": user, "group": _named(rng, ["f", "m"], size)}

    return {
        "path": written(folder, f"scores-{named:d}", rows, part),
        "groups": written(folder, f"users-{named:d}", users, labels),
    }


# --- contestants: each factory prepares, and returns what is timed ----------------------------------------------------


def audit(
    name: str,
    path: str,
    groups: str | None = None,
    repeat: int = 1,
    gib: int = 0,
    limit: str = "",
    **arguments: Any,
) -> Callable[[], None]:
    """A call of an audit on a file; `groups` is a file too. `repeat` calls it several times, for what takes milliseconds.

    `limit` is what DuckDB may use; `gib` a limit that the system holds the process to: memory of its own, not mapped files.
    """
    import evenhand as eh

    if limit:
        os.environ["EVENHAND_MEMORY"] = limit

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


def bare(query: str) -> Callable[[], None]:
    """The engine's own work on a query, its answer thrown away, with the limit on memory that evenhand sets."""
    import duckdb

    from evenhand.sources.engine import memory_limit

    def go() -> None:
        with duckdb.connect() as connection:
            connection.execute(f"SET memory_limit = '{memory_limit() // 2**20}MiB'")
            connection.execute(f"CREATE TEMPORARY TABLE answer AS {query}")

    return go


def bare_events(path: str) -> Callable[[], None]:
    """Sum per unit and source, then how many units hold each sum."""
    sums = f"SELECT source, unit, SUM(amount) AS amount FROM '{path}' GROUP BY source, unit"
    return bare(f"SELECT source, amount, COUNT(*) AS units FROM ({sums}) GROUP BY source, amount")


def bare_rankings(path: str, groups: str) -> Callable[[], None]:
    """Join the groups, and add attention and relevance up per request and group."""
    return bare(
        f'''SELECT request, "group", COUNT(*), SUM(POWER(0.5, rank - 1)), SUM(POWER(0.5, rank - 1) * relevance)
        FROM '{path}' LEFT JOIN '{groups}' USING (item) GROUP BY request, "group"'''
    )


def bare_sort(path: str, groups: str) -> Callable[[], None]:
    """Join the groups, and put every ranking in order."""
    return bare(
        f"""SELECT request, rank, "group", relevance FROM '{path}' LEFT JOIN '{groups}' USING (item) ORDER BY request, rank"""
    )


def bare_top(path: str, groups: str) -> Callable[[], None]:
    """The ten items of each user with the highest scores, with the user's group."""
    tops = f'SELECT "user", max_by(item, score, 10) AS items FROM \'{path}\' GROUP BY "user"'
    return bare(f"SELECT * FROM ({tops}) LEFT JOIN '{groups}' USING (\"user\")")


def bare_candidates(path: str, by: Sequence[str], scores: str) -> Callable[[], None]:
    """Sums per score bin and whatever else is named, edges given."""
    edges = np.linspace(*SCORES[scores][1], 21)[1:-1]
    place = " + ".join(f"CAST(score > {edge!r} AS INTEGER)" for edge in edges.tolist())
    names = ", ".join(f'"{name}"' for name in by)
    sums = "SUM(score), SUM(outcome), SUM(score * score), SUM(score * outcome)"
    return bare(f"SELECT {place} AS bin, {names}, COUNT(*), {sums} FROM '{path}' GROUP BY bin, {names}")


def contestant(name: str, audit_: str, rounds: int, **arguments: Any) -> Contestant:
    return Contestant(name, f"{HERE}:audit", rounds=rounds, arguments={"name": audit_, **arguments})


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    scale, rounds = (100, 2) if quick else (1, 3)
    yield from _small(folder)
    yield from _grown(folder, 10**6 if quick else 10**8)
    yield from _spread(folder, 50_000_000 // scale, rounds, quick=quick)
    yield from _tested(folder, 50_000_000 // scale, rounds)
    yield from _rankings(folder, 100_000 // scale, rounds)
    n = 10_000_000 // scale
    for size, named in ((n, False), (2 * n, False), (n, True), (2 * n, True)):
        yield Race(
            f"recommender, 50 scores a user{_said(named=named)}", size, partial(scores, folder, size, named=named),
            (
                contestant("evenhand", "recommender", rounds, protected="f", versus="m", top=10, rng=1),
                Contestant("bare top ten", f"{HERE}:bare_top", rounds=rounds),
            ),
            target="4x the bare query",
        )  # fmt: skip


def _said(*, named: bool) -> str:
    return ", text ids" if named else ""


def _spread(folder: Path, n: int, rounds: int, *, quick: bool) -> Iterator[Race]:
    asked = {"unit": "unit", "amount": "amount", "population": None, "rng": 1}
    spread: dict[str, Any] = {**asked, "by": "source", "metrics": FIVE}
    for world, how in (
        ("10 million units", {}),
        ("200,000 units", {"units": 200_000}),
        ("200,000 units, no two amounts alike", {"units": 200_000, "continuous": True}),
        ("200,000 units, text ids", {"units": 200_000, "named": True}),
    ):
        yield Race(
            f"inequality, 8 slices, 5 metrics, {world}", n, lambda how=how: {"path": events(folder, n, **how)},
            (
                contestant("evenhand, 999 draws", "inequality", rounds, **spread),
                contestant("evenhand, no interval", "inequality", rounds, interval=None, **spread),
                Contestant("bare group-by", f"{HERE}:bare_events", rounds=rounds),
            ),
            target="2x the bare query",
        )  # fmt: skip
    if not quick:
        many = 300_000_000
        yield Race(
            "inequality, 100 million units, no two amounts alike, limit of 4 GiB", many,
            lambda: {"path": payments(folder, many)},
            (contestant("evenhand", "inequality", 1, gib=4, **asked),), target="done, under 4 GiB",
        )  # fmt: skip


def _tested(folder: Path, n: int, rounds: int) -> Iterator[Race]:
    tested = {"score": "score", "outcome": "outcome", "group": "group"}
    for scored, groups in (("between 0 and 1", 3), ("normal", 4), ("whole, up to 1,000", 8)):
        bare = {"by": ["group"], "scores": scored}
        yield Race(
            f"outcome test, {groups} groups, scores {scored}", n,
            lambda scored=scored, groups=groups: {"path": candidates(folder, n, scored, groups)},
            (
                contestant("evenhand, edges found", "outcome_test", rounds, **tested),
                Contestant("bare group-by, edges given", f"{HERE}:bare_candidates", rounds=rounds, arguments=bare),
            ),
            target="4x the bare query",
        )  # fmt: skip
    for scored, groups in (("between 0 and 1", 3), ("normal", 4)):
        bare = {"by": ["cluster", "group"], "scores": scored}
        yield Race(
            f"outcome test, clustered, {groups} groups, scores {scored}", n,
            lambda scored=scored, groups=groups: {"path": candidates(folder, n, scored, groups)},
            (
                contestant(f"evenhand, {n // 20:,} clusters", "outcome_test", 1, cluster="cluster", **tested),
                Contestant("bare group-by", f"{HERE}:bare_candidates", rounds=1, arguments=bare),
            ),
            target="8x the bare query, under 2 GiB",
        )  # fmt: skip


def _rankings(folder: Path, many: int, rounds: int) -> Iterator[Race]:
    sides = {"protected": "c", "versus": "a", "relevance": "relevance", "rng": 1}
    calls = (
        ("exposure", "5x the bare query, 600 MiB", {**sides, "metrics": SEVEN}),
        ("prefix", "5x the bare query, 600 MiB", {"protected": "c", "metrics": ["ndd", "ndkl"], "rng": 1}),
        ("pairwise", "6x the bare query, 600 MiB", sides),
    )
    worlds = (
        ("", {}),
        (", 2 million items", {"items": 20 * ITEMS}),
        (", text ids", {"named": True}),
        (", text ids, rows in no order", {"named": True, "in_order": False}),
    )
    for (name, target, asked), (world, how), size in product(calls, worlds, (many, 2 * many)):
        ours = contestant("evenhand", name, rounds, limit="400MB", **asked)
        query = "bare_rankings" if name == "exposure" else "bare_sort"
        yield Race(
            f"{name}, rankings of 100{world}", size, partial(rankings, folder, size, **how),
            (ours, Contestant("bare query", f"{HERE}:{query}", rounds=rounds)), target=target,
        )  # fmt: skip


def _small(folder: Path) -> Iterator[Race]:
    """Twenty calls in a row on a thousand rows, warm."""
    files, rated = rankings(folder, 10), scores(folder, 1_000)
    rated = {**rated, "protected": "f", "versus": "m", "top": 10, "rng": 1}
    tested = {"score": "score", "outcome": "outcome", "group": "group"}
    spread = {"path": events(folder, 1_000), "unit": "unit", "amount": "amount", "population": None, "rng": 1}
    for name, arguments in (
        ("inequality", spread),
        ("sources", {**spread, "source": "source"}),
        ("decompose", {**spread, "group": "source", "unit": None}),
        ("prefix", {**files, "protected": "c", "metrics": ["ndd", "ndkl"], "rng": 1}),
        ("exposure", {**files, "relevance": "relevance", "rng": 1}),
        ("pairwise", {**files, "protected": "c", "versus": "a", "relevance": "relevance", "rng": 1}),
        ("outcome_test", {"path": candidates(folder, 1_000), **tested}),
        ("outcome_test", {"path": candidates(folder, 1_000), **tested, "cluster": "cluster"}),
        ("recommender", rated),
    ):
        call = Contestant(
            "evenhand", f"{HERE}:audit", times=1 / 20, arguments={"name": name, "repeat": 20, **arguments}
        )
        how = ", clustered" if "cluster" in arguments else ""
        yield Race(f"small table, warm: {name}{how}", 1_000, {}, (call,), target="80 ms")


def _grown(folder: Path, most: int) -> Iterator[Race]:
    """The same call from ten thousand rows to `most`."""
    size = 10_000
    while size <= most:
        asked = {"unit": "unit", "amount": "amount", "by": "source", "population": None, "rng": 1}
        call = contestant("evenhand", "inequality", 3 if size < 10**8 else 1, **asked)
        yield Race(
            "growth: inequality with intervals", size, lambda n=size: {"path": events(folder, n)}, (call,),
            target="exponent 1.0",
        )  # fmt: skip
        tested = {"score": "score", "outcome": "outcome", "group": "group", "bins": [0.2, 0.4, 0.6]}
        call = contestant("evenhand", "outcome_test", 3 if size < 10**8 else 1, **tested, metrics=["pooled_gap"])
        data = lambda n=size: {"path": candidates(folder, n)}  # noqa: E731
        yield Race("growth: outcome test", size, data, (call,), target="exponent 1.0")
        size *= 10


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Ratios to the bare query, growth exponents, and what one more ranking or score takes of memory."""
    found: dict[str, float] = {}
    for race in dict.fromkeys(o.race for o in outcomes):
        here = [o for o in outcomes if o.race == race and o.ran]
        if race.startswith("growth"):
            found[f"{race}, exponent"] = growth(here)
        for size in dict.fromkeys(o.size for o in here):
            turn = [o for o in here if o.size == size]
            bare = next((o for o in turn if o.contestant.startswith("bare")), None)
            if bare is not None:
                of = {
                    f"{race}, n = {size:,}: {o.contestant}, times bare": o.cpu / bare.cpu for o in turn if o is not bare
                }
                found |= of
        ours = [o for o in here if not o.contestant.startswith("bare")]
        if race.startswith(("exposure", "prefix", "pairwise", "recommender")) and len(ours) == 2:
            small, large = sorted(ours, key=lambda o: o.size)
            more = (large.extra_mib - small.extra_mib) * 2**20 / (large.size - small.size)
            found[f"{race}: bytes for one more of n"] = more
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
