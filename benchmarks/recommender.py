"""Recommender measures: against holisticai on a matrix it can hold, and on one that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import Contestant, Race

HERE = "benchmarks.recommender"
TOP = 10


def matrix(folder: Path, users: int, items: int) -> str:
    """Scores without ties, a truth and two groups of users."""
    path = folder / f"scores-{users}-{items}.npz"
    if not path.exists():
        rng = np.random.default_rng([users, items])
        scores, truth = rng.random((users, items)), rng.random((users, items))
        np.savez(path, scores=scores, truth=truth, group_b=rng.random(users) < 0.3)
    return str(path)


def lists(folder: Path, users: int, items: int, length: int) -> str:
    """Scored candidates of many users as a sparse matrix; written dense it would not fit anywhere."""
    from scipy.sparse import csr_array, save_npz

    path = folder / f"lists-{users}-{items}.npz"
    if not path.exists():
        rng = np.random.default_rng([users, length])
        first = (items * rng.random(users) ** 3).astype(np.int32)
        columns = np.stack([(first + 7 * i) % items for i in range(length)], axis=1)
        columns.sort(axis=1)
        cells = (
            rng.random(users * length, dtype=np.float32),
            columns.reshape(-1),
            np.arange(users + 1, dtype=np.int64) * length,
        )
        save_npz(path, csr_array(cells, shape=(users, items)), compressed=False)
    return str(path)


def measures_ours(
    path: str, interval: str | None = None, convention: str | None = "holisticai"
) -> Callable[[], list[float]]:
    """All twelve measures through the audit, under the convention of the peer so that the numbers can be compared."""
    import evenhand as eh

    held = np.load(path)
    scores, truth, groups = held["scores"], held["truth"], np.where(held["group_b"], "b", "a")

    def go() -> list[float]:
        chance = None if interval is None else "permutation(199)"
        call = {
            "versus": "a",
            "protected": "b",
            "interval": interval,
            "chance": chance,
            "convention": convention,
            "rng": 1,
        }
        truths = {"true_top": TOP} if convention is None else {}
        found = eh.recommender(scores, user_groups=groups, relevant=truth, top=TOP, **truths, **call)
        return [float(v) for v in found.findings.columns["estimate"]]

    return go


def lists_ours(path: str, top: int, interval: str | None) -> Callable[[], list[float]]:
    import evenhand as eh

    def go() -> list[float]:
        from scipy.sparse import load_npz

        scores = load_npz(path)
        groups = np.where(np.random.default_rng(1).random(scores.shape[0]) < 0.3, "b", "a")
        found = eh.recommender(scores, user_groups=groups, top=top, interval=interval, rng=1)
        return [float(v) for v in found.findings.columns["estimate"]]

    return go


def races(folder: Path, *, quick: bool) -> Iterator[Race]:
    """A matrix that both can hold, then one that only a sparse program can."""
    ours = f"{HERE}:measures_ours"
    users, items = (300, 200) if quick else (3_000, 200)
    yield Race(
        "recommender: twelve measures of a score matrix", users, {"path": matrix(folder, users, items)},
        [
            Contestant("evenhand", ours),
            Contestant("holisticai", "benchmarks.peers:recommender_holisticai", "peers", rounds=1),
            Contestant("evenhand, with intervals and chance", ours, arguments={"interval": "bootstrap(999)"}),
        ],
        target="100x holisticai",
    )  # fmt: skip
    users, items, length = (1_000 if quick else 1_000_000), 100_000, 100
    yield Race(
        f"recommender: {users:,} users x {items:,} items, top 100 (dense: {users * items * 8 / 2**30:,.0f} GiB)", users,
        {"path": lists(folder, users, items, length), "top": 100},
        [
            Contestant("evenhand", f"{HERE}:lists_ours", arguments={"interval": None}, rounds=1),
            Contestant("evenhand, with intervals", f"{HERE}:lists_ours", arguments={"interval": "bootstrap(999)"}, rounds=1),
        ],
        target="bounded memory; holisticai cannot hold it",
    )  # fmt: skip
