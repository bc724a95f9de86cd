"""Prefix metrics of many rankings: against the straightforward loop, and FairRankTune's NDKL by its own definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contestant, Race

HERE = "benchmarks.prefix"
DEPTH = 100
SHOWN = 20
"""Rankings whose values contestants hand back, to see that they agree."""

# --- data, all generated ----------------------------------------------------------------------------------------------


def labels(folder: Path, rankings: int) -> str:
    """Three labels in random order, `DEPTH` ranks in each ranking."""
    path = folder / f"labels-{rankings}.npy"
    if not path.exists():
        codes = np.random.default_rng(rankings).integers(0, 3, (rankings, DEPTH), dtype=np.int8)
        np.save(path, codes)
    return str(path)


def table(folder: Path, rankings: int) -> str:
    """The same as a table in Parquet: request, rank, label."""
    import polars as pl

    path = folder / f"rankings-{rankings}.parquet"
    if not path.exists():
        codes = np.load(labels(folder, rankings))
        pl.DataFrame(
            {
                "request": np.repeat(np.arange(rankings), DEPTH),
                "rank": np.tile(np.arange(1, DEPTH + 1), rankings),
                "label": pl.Series(["a", "b", "c"]).gather(codes.ravel().astype(np.int64)),
            }
        ).write_parquet(path)
    return str(path)


# --- contestants: each factory prepares, and returns what is timed ----------------------------------------------------


def metric_ours(path: str, metric: str) -> Callable[[], list[float]]:
    from evenhand import metrics
    from evenhand.tallies.placement import Placement

    codes = np.load(path)

    def go() -> list[float]:  # a placement keeps what it found, so each turn makes one
        p = Placement(codes.ravel(), np.arange(len(codes) + 1) * DEPTH, ("a", "b", "c"), (0,))
        return getattr(metrics, metric).on(p)[:SHOWN].tolist()  # type: ignore[no-any-return]

    return go


def metric_numpy(path: str, metric: str) -> Callable[[], list[float]]:
    """All rankings at once, as the formula reads; the normaliser from the two extreme orders of every composition."""
    codes, ranks = np.load(path), np.arange(1, DEPTH + 1)
    discount = 1 / np.log2(ranks + 1)

    def difference(held: np.ndarray, ours: np.ndarray) -> np.ndarray:
        q = ours / DEPTH
        if metric == "ndd":
            return np.abs(held / ranks - q)
        if metric == "ndr":
            return np.abs(np.where(held < ranks, held / np.maximum(ranks - held, 1), 0.0) - q / (1 - q))
        p = np.where(held <= 0, 0.001, np.where(held >= ranks, 0.999, held / ranks))
        return np.asarray(p * np.log2(p / q) + (1 - p) * np.log2((1 - p) / (1 - q)))

    def js() -> np.ndarray:
        found: Any = 0.0
        for g in range(3):
            held = np.cumsum(codes == g, axis=1)
            p, q = held / ranks, held[:, -1:] / DEPTH
            middle = (p + q) / 2
            found = found + p * np.log2(np.where(p > 0, p, 1) / middle) + q * np.log2(q / middle)
        return np.asarray((found / 2 * discount).sum(1) / discount.sum())

    def go() -> list[float]:
        if metric == "ndjs":
            return js()[:SHOWN].tolist()  # type: ignore[no-any-return]
        held = np.cumsum(codes == 0, axis=1)
        counts, which = np.unique(held[:, -1], return_inverse=True)
        extremes = np.minimum(ranks, counts[:, None]), np.maximum(0, ranks - (DEPTH - counts[:, None]))
        first, last = ((difference(one, counts[:, None]) * discount).sum(1) for one in extremes)
        largest = first if metric == "ndr" else np.maximum(first, last)
        return ((difference(held, held[:, -1:]) * discount).sum(1) / largest[which])[:SHOWN].tolist()  # type: ignore[no-any-return]

    return go


def ndkl_fused(path: str, metric: str) -> Callable[[], list[float]]:
    """One compiled loop from labels to values, with the divergences and normalisers of every composition looked up."""
    assert metric == "ndkl"
    from numba import njit

    from evenhand import metrics
    from evenhand.tallies.placement import Placement

    codes = np.load(path)
    sides = (np.arange(DEPTH) >= np.arange(1, DEPTH)[:, None]).astype(np.int8)  # every composition, protected first
    starts = np.arange(DEPTH) * DEPTH
    parts = [
        Placement(sides.ravel(), starts, ("p", "u"), (0,)),
        Placement((1 - sides).ravel(), starts, ("u", "p"), (1,)),
    ]
    raw, scaled = (
        [metrics.ndkl.on(p, normalizer=z) for p in parts] for z in (None, "max")
    )  # of the first order or, where that is further from the whole, the last one
    largest = np.full(DEPTH + 1, np.nan)
    largest[1:DEPTH] = np.where(scaled[0] > 0, raw[0] / scaled[0], raw[1][::-1] / scaled[1][::-1])
    top, many = np.arange(1, DEPTH + 1)[:, None, None], np.arange(DEPTH + 1)[:, None]  # [rank, protected, seen so far]
    p = np.minimum(np.arange(DEPTH + 1) / top, 1.0)
    p = np.where(p <= 0, 0.001, np.where(p >= 1, 0.999, p))
    with np.errstate(divide="ignore", invalid="ignore"):
        q = many / DEPTH
        terms = (p * np.log2(p / q) + (1 - p) * np.log2((1 - p) / (1 - q))) / np.log2(top + 1)

    @njit(cache=True)  # type: ignore[untyped-decorator]
    def ndkl(codes: np.ndarray, terms: np.ndarray, largest: np.ndarray) -> np.ndarray:
        out = np.empty(len(codes))
        for r in range(len(codes)):
            ours = 0
            for i in range(codes.shape[1]):
                ours += codes[r, i] == 0
            held, found = 0, 0.0
            for i in range(codes.shape[1]):
                held += codes[r, i] == 0
                found += terms[i, ours, held]
            out[r] = found / largest[ours]
        return out

    ndkl(codes[:1], terms, largest)
    return lambda: ndkl(codes, terms, largest)[:SHOWN].tolist()


def metric_loop(path: str, metric: str, part: int) -> Callable[[], list[float]]:
    """Ranking by ranking, rank by rank, as the formula reads; the normaliser once per ranking."""
    codes = np.load(path)[:part]
    difference = {"ndd": _nd, "ndr": _rd, "ndkl": _kl, "ndjs": _js}[metric]

    def total(ranking: list[int]) -> float:
        return sum(difference(ranking[:i], ranking) / math.log2(i + 1) for i in range(1, len(ranking) + 1))

    def one(ranking: list[int]) -> float:
        if metric == "ndjs":
            return total(ranking) / sum(1 / math.log2(i + 1) for i in range(1, len(ranking) + 1))
        sides = [int(c != 0) for c in ranking]
        ours = sides.count(0)
        first = [0] * ours + [1] * (len(sides) - ours)
        worst = first if metric == "ndr" or ours <= len(sides) - ours else first[::-1]
        return total(sides) / total(worst)

    def go() -> list[float]:
        return [one(ranking) for ranking in codes.tolist()][:SHOWN]

    return go


def _nd(top: list[int], whole: list[int]) -> float:
    return abs(top.count(0) / len(top) - whole.count(0) / len(whole))


def _rd(top: list[int], whole: list[int]) -> float:
    return abs(_ratio(top) - _ratio(whole))


def _ratio(labels: list[int]) -> float:
    others = len(labels) - labels.count(0)
    return labels.count(0) / others if others else 0.0


def _kl(top: list[int], whole: list[int]) -> float:
    p, q = top.count(0) / len(top), whole.count(0) / len(whole)
    p = min(max(p, 0.001), 0.999) if p in (0, 1) else p
    return p * math.log2(p / q) + (1 - p) * math.log2((1 - p) / (1 - q))


def _js(top: list[int], whole: list[int]) -> float:
    found = 0.0
    for g in set(whole):
        p, q = top.count(g) / len(top), whole.count(g) / len(whole)
        middle = (p + q) / 2
        found += (p * math.log2(p / middle) if p else 0.0) / 2 + q * math.log2(q / middle) / 2
    return found


def audit_ours(path: str, chance: str | None) -> Callable[[], float]:
    import evenhand as eh

    return lambda: float(
        eh.prefix(path, group="label", protected="a", metrics=["ndd"], chance=chance, rng=1).frame["estimate"][0]
    )


def audit_loop(path: str, part: int) -> Callable[[], float]:
    """Read, group, measure ranking by ranking."""
    import polars as pl

    def go() -> float:
        frame = pl.scan_parquet(path).filter(pl.col("request") < part).collect()
        lists = frame.sort("request", "rank").group_by("request", maintain_order=True).agg("label")["label"].to_list()
        values = []
        for ranking in lists:
            sides = [int(label != "a") for label in ranking]
            ours = sides.count(0)
            worst = sorted(sides, reverse=ours > len(sides) - ours)
            sums = [sum(_nd(s[:i], s) / math.log2(i + 1) for i in range(1, len(s) + 1)) for s in (sides, worst)]
            values.append(sums[0] / sums[1])
        return float(np.mean(values))

    return go


# --- the races --------------------------------------------------------------------------------------------------------


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    """One after the other, so that the data of a race is made when its turn comes."""
    rankings = 20_000 if quick else 100_000
    for metric in ("ndd", "ndr", "ndkl", "ndjs"):
        part = 100
        fused = [Contestant("fused loop (numba)", f"{HERE}:ndkl_fused")] if metric == "ndkl" else []
        yield Race(
            f"{metric} of rankings of depth {DEPTH}", rankings, {"path": labels(folder, rankings), "metric": metric},
            (
                Contestant("evenhand", f"{HERE}:metric_ours"),
                Contestant("plain numpy, all at once", f"{HERE}:metric_numpy"),
                Contestant("naive (loop over ranks)", f"{HERE}:metric_loop", times=rankings / part, rounds=3, arguments={"part": part}),
                *fused,
            ),
            target="50,000 rankings a second",
        )  # fmt: skip
    part = 25
    peer = Contestant(
        "FairRankTune",
        "benchmarks.peers:ndkl_fairranktune",
        "peers",
        rankings / part,
        rounds=3,
        arguments={"part": part},
    )
    yield Race(
        "NDKL as FairRankTune defines it", rankings, {"path": labels(folder, rankings)},
        (Contestant("evenhand", f"{HERE}:metric_ours", arguments={"metric": "geyik_ndkl"}), peer),
        tolerance=1e-6, target="100x FairRankTune",
    )  # fmt: skip
    few = 500
    yield Race(
        "from Parquet to the mean with its interval", few, {"path": table(folder, few)},
        (
            Contestant("evenhand, no random orders", f"{HERE}:audit_ours", arguments={"chance": None}),
            Contestant("evenhand, 999 random orders", f"{HERE}:audit_ours", arguments={"chance": "permutation(999)"}),
            Contestant("naive (loop, no interval)", f"{HERE}:audit_loop", rounds=3, arguments={"part": few}),
        ),
    )  # fmt: skip
    yield Race(
        "from Parquet to the mean, all rankings", rankings, {"path": table(folder, rankings)},
        (
            Contestant("evenhand, no random orders", f"{HERE}:audit_ours", arguments={"chance": None}),
            Contestant("evenhand, 999 random orders", f"{HERE}:audit_ours", rounds=3, arguments={"chance": "permutation(999)"}),
        ),
    )  # fmt: skip
