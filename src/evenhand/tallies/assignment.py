"""Buckets of randomised units (viewers, sessions) that are permuted or drawn together.

The ids are fetched once each and sorted; a permutation that depends on the seed alone then deals them out, so that the same
viewers share a bucket whatever the engine or the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import EvenhandError
from evenhand.labels import whole
from evenhand.sources.sql import columns
from evenhand.tallies.ragged import Bools, Ints

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.logs import Log

Label = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SliceBuckets:
    """Buckets of one slice: randomised units, arm, and whether the bucket may be re-assigned."""

    sizes: Ints
    arms: Ints
    movable: Bools


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which bucket every randomised unit is in.

    Attributes
    ----------
    arms : labels of the arms, in order; the buckets' arms are indices into it.
    ids : the randomised units with their `bucket`, for `engine.bring`.
    slices : buckets per slice where every randomised unit belongs to one slice, else those of the whole table under None.
    """

    arms: tuple[Any, ...]
    ids: Cells
    slices: Mapping[Label | None, SliceBuckets]

    def buckets(self, label: Label) -> SliceBuckets:
        """The buckets of a slice."""
        return self.slices[None] if None in self.slices else self.slices[label]

    def units(self, label: Label) -> Ints:
        """(arms,) how many randomised units each arm has in a slice."""
        buckets = self.buckets(label)
        return np.bincount(buckets.arms, buckets.sizes, minlength=len(self.arms)).astype(np.int64)

    def totals(self) -> Ints:
        """(arms,) how many randomised units each arm has, over all slices to which they belong."""
        totals = np.zeros(len(self.arms), dtype=np.int64)
        for buckets in self.slices.values():
            totals += np.bincount(buckets.arms, buckets.sizes, minlength=len(self.arms)).astype(np.int64)
        return totals

    @staticmethod
    def query(log: Log, names: Sequence[str]) -> str:
        """One row per randomised unit, with its arm and slice."""
        return f"SELECT DISTINCT {columns(names)} FROM {log.source}"

    @classmethod
    def from_log(cls, log: Log, *, randomized: str, rng: np.random.Generator, arm: str | None = None) -> Assignment:
        """The randomised units of each arm in buckets of one size; without `arm` there is one arm.

        Units that are left over when an arm is dealt out stay together in a last bucket, which is never re-assigned.
        """
        names = ["randomized", *(["arm"] if arm is not None else [])]
        keys = log.keys if _has_one_slice_each(log) else []
        cells = log.engine.cells(cls.query(log, [*names, *keys])).sorted_by(["randomized"])
        count = cells.distinct(["randomized"])
        if len(cells) > count:
            raise EvenhandError(
                f"{len(cells) - count:,} values of randomized={randomized!r} have rows in several arms. "
                "Remove them, or name the column that was randomised."
            )
        arm_codes, arms = cells.codes(["arm"] if arm is not None else [])
        bucket = np.zeros(count, dtype=np.int32)
        slices: dict[Label | None, SliceBuckets] = {}
        lots = rng.permutation(count)
        slice_codes, labels = cells.codes(keys)
        for code, label in enumerate(labels):
            members = np.flatnonzero(slice_codes == code) if keys else slice(None)
            bucket[members], slices[label if keys else None] = deal(arm_codes[members], lots[members], len(arms))
        names_of_arms = tuple(whole([label[0] for label in arms])) if arm is not None else (None,)
        return cls(names_of_arms, cells.select(["randomized"]).with_column("bucket", bucket), slices)


def _has_one_slice_each(log: Log) -> bool:
    """Whether every randomised unit belongs to one slice."""
    if not log.keys:
        return False
    counts = log.engine.cells(f"""
        SELECT
            (SELECT COUNT(*) FROM (SELECT DISTINCT randomized FROM {log.source}) AS randomized_units) AS ids,
            (SELECT COUNT(*) FROM (SELECT DISTINCT randomized, {columns(log.keys)} FROM {log.source}) AS of_slices) AS pairs
    """).row()
    return int(counts["ids"]) == int(counts["pairs"])


def bucket_size(arms: Sequence[int]) -> int:
    """How many randomised units go into a bucket, for arms of these sizes.

    Up to 1,000 units, each is a bucket of its own. Otherwise there are 400 to 800 buckets, whichever number leaves the fewest units
    over, or more where the smallest arm would have fewer than 20; at most 20,000.

    >>> bucket_size([500, 500]), bucket_size([50_000, 50_000]), bucket_size([2_000, 98_000])
    (1, 250, 100)
    """
    total, smallest = sum(arms), min((n for n in arms if n), default=0)
    if total <= 1_000:
        return 1
    sizes = {max(1, min(total // buckets, smallest // 20), total // 20_000) for buckets in range(400, 801)}
    return min(sorted(sizes, reverse=True), key=lambda size: sum(n % size for n in arms))


def deal(arm_codes: Ints, lots: Ints, arms: int) -> tuple[np.typing.NDArray[np.int32], SliceBuckets]:
    """The bucket of each randomised unit: arm by arm, in the order of the lots drawn."""
    counts = np.bincount(arm_codes, minlength=arms)
    size = bucket_size(counts.tolist())
    bucket = np.zeros(len(arm_codes), dtype=np.int32)
    sizes: list[int] = []
    bucket_arms: list[int] = []
    movable: list[bool] = []
    for arm in range(arms):
        members = np.flatnonzero(arm_codes == arm)
        members = members[np.argsort(lots[members])]
        full, rest = divmod(len(members), size)
        bucket[members] = len(sizes) + np.arange(len(members)) // size
        sizes += [size] * full + [rest] * bool(rest)
        movable += [True] * full + [False] * bool(rest)
        bucket_arms += [arm] * (full + bool(rest))
    return bucket, SliceBuckets(
        np.array(sizes, dtype=np.int64), np.array(bucket_arms, dtype=np.int64), np.array(movable, dtype=bool)
    )
