"""From a log to buckets of what was randomised: viewers are put into buckets, amounts are added up by bucket and unit.

Ids are counted in the engine and sorted; a shuffle that depends on the seed alone then deals them out, so that the same
viewers share a bucket whatever the engine or the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.engine.gathered import is_apart
from evenhand.engine.holdings import holdings
from evenhand.engine.spectra import (
    Label,
    Slices,
    added_up,
    refuse_changing_weights,
    rows_in_order,
    sound_rows,
    whole_labels,
)
from evenhand.errors import EvenhandError
from evenhand.tallies.buckets import Buckets, Chosen, Ints
from evenhand.tallies.spectrum import Spectra
from evenhand.views.benefits import Amount, Benefits
from evenhand.views.match import same_engine
from evenhand.views.tables import each_once, to_polars

ALONE = 1_000
"""Up to so many randomised units, each is a bucket of its own."""

FROM, TO = 400, 800
"""Otherwise there are about so many buckets: the number that leaves the fewest units over."""

FEWEST = 20
"""Buckets of the smallest arm."""

MOST = 20_000
"""Buckets in all, however small the smallest arm is."""


@dataclass(frozen=True)
class Dealt:
    """Buckets of one slice: how many randomised units each holds, its arm, and whether it may be re-assigned."""

    sizes: Ints
    arms: Ints
    movable: Chosen


@dataclass(frozen=True)
class Assignment:
    """Which bucket every randomised unit is in.

    Attributes
    ----------
    arms : labels of the arms, in order; the buckets' arms are places in it.
    buckets : a Polars table of `randomized` and `bucket`.
    dealt : buckets per slice where every randomised unit belongs to one slice, else those of the whole table under None.
    """

    arms: tuple[Any, ...]
    buckets: Any
    dealt: Mapping[Label | None, Dealt]

    def of(self, label: Label) -> Dealt:
        return self.dealt[None] if None in self.dealt else self.dealt[label]

    def units(self, label: Label) -> Ints:
        """How many randomised units each arm has."""
        dealt = self.of(label)
        return np.bincount(dealt.arms, dealt.sizes, minlength=len(self.arms)).astype(np.int64)


@dataclass(frozen=True)
class BucketSlices:
    """A tally of buckets per slice, in the order of the labels, and the slices that hold a NaN."""

    labels: tuple[Label, ...]
    tallies: tuple[Buckets, ...]
    broken: frozenset[Label] = frozenset()

    @property
    def pooled(self) -> Slices:
        """The slices with all arms together."""
        return Slices(self.labels, Spectra.of([tally.whole() for tally in self.tallies]), self.broken)

    def among(self, everyone: Slices) -> BucketSlices:
        """The same with units that nobody saw: `everyone` says how many each slice has in all."""
        mine = dict(zip(self.labels, self.tallies, strict=True))
        units = dict(zip(everyone.labels, everyone.spectra.units.tolist(), strict=True))
        kept = tuple(label for label in everyone.labels if label in mine)
        padded = (replace(mine[k], unseen=mine[k].unseen + units[k] - mine[k].units) for k in kept)
        return BucketSlices(kept, tuple(padded), self.broken)


def assign(view: Benefits, *, randomized: str, rng: np.random.Generator, arm: str | None = None) -> Assignment:
    """Deal the randomised units of each arm into buckets of one size; without `arm` there is one arm.

    Units that are left over when an arm is dealt out stay together in a last bucket, which is never re-assigned.
    """
    names = ["randomized", *(["arm"] if arm is not None else [])]
    own = bool(view.keys) and _distinct(view, ["randomized"]) == _distinct(view, ["randomized", *view.keys])
    pairs = to_polars(each_once(view.lazy.select(*names, *(view.keys if own else []))))
    ids = pairs["randomized"].n_unique()
    if pairs.height > ids:
        raise EvenhandError(
            f"{pairs.height - ids:,} values of randomized={randomized!r} have rows in several arms. "
            "Remove them, or name the column that was randomised."
        )
    pairs = pairs.sort("randomized")
    labels = [()] if arm is None else [(v,) for v in pairs["arm"].unique().to_list()]
    order = rows_in_order(labels)
    arms = tuple(v[0] for v in whole_labels([labels[i] for i in order])) if arm is not None else (None,)
    code = {labels[i]: k for k, i in enumerate(order)}
    arm_of = np.zeros(ids, dtype=np.int64) if arm is None else np.array([code[(v,)] for v in pairs["arm"]])
    bucket = np.zeros(ids, dtype=np.int32)
    dealt: dict[Label | None, Dealt] = {}
    lots = rng.permutation(ids)
    for label, at in _members(pairs, view.keys if own else []):
        bucket[at], dealt[label] = _deal(arm_of[at], lots[at], len(arms))
    bucket = bucket if bucket.max(initial=0) >= 1 << 15 else bucket.astype(np.int16)
    return Assignment(arms, pairs.select("randomized").with_columns(_series("bucket", bucket)), dealt)


def _distinct(view: Benefits, columns: list[str]) -> int:
    return int(to_polars(each_once(view.lazy.select(*columns)).select(nw.len().alias("n")))["n"][0])


def tally_buckets(view: Benefits, amount: Amount, assignment: Assignment) -> BucketSlices:
    """What each unit received from each bucket, per slice. Only sums by bucket and unit leave the engine.

    A cluster and a database keep the ids of units to themselves.
    """
    lazy, broken = sound_rows(view, amount)
    buckets: nw.LazyFrame[Any] = same_engine(nw.from_native(assignment.buckets).lazy(), lazy)
    lazy = lazy.join(buckets, on="randomized", how="inner")
    summed = added_up(lazy, view, amount, [*view.keys, "unit", "bucket"])
    weights = ["weight", "least_weight"] if view.weight is not None else []
    cells = holdings(summed, view.keys, weights) if is_apart(summed) else to_polars(summed)
    if view.weight is not None:
        cells = _one_weight(cells, view)
    found = [(label, _tally(part, assignment.of(label))) for label, part in _parts(cells, view.keys)]
    order = rows_in_order([label for label, _ in found])
    return BucketSlices(tuple(found[i][0] for i in order), tuple(found[i][1] for i in order), broken)


def bucket_size(arms: Sequence[int]) -> int:
    """How many randomised units go into a bucket, for arms of these sizes.

    >>> bucket_size([500, 500]), bucket_size([50_000, 50_000]), bucket_size([2_000, 98_000])
    (1, 250, 100)
    """
    everyone, smallest = sum(arms), min((n for n in arms if n), default=0)
    if everyone <= ALONE:
        return 1
    sizes = {max(1, min(everyone // total, smallest // FEWEST), everyone // MOST) for total in range(FROM, TO + 1)}
    return min(sorted(sizes, reverse=True), key=lambda size: sum(n % size for n in arms))


def _deal(arm_of: Ints, lots: Ints, arms: int) -> tuple[Any, Dealt]:
    """The bucket of each randomised unit: arm by arm, in the order of the lots drawn."""
    counts = np.bincount(arm_of, minlength=arms)
    size = bucket_size(counts.tolist())
    bucket = np.zeros(len(arm_of), dtype=np.int32)
    sizes: list[int] = []
    of_arm: list[int] = []
    movable: list[bool] = []
    for arm in range(arms):
        mine = np.flatnonzero(arm_of == arm)
        mine = mine[np.argsort(lots[mine])]
        full, rest = divmod(len(mine), size)
        bucket[mine] = len(sizes) + np.arange(len(mine)) // size
        sizes += [size] * full + [rest] * bool(rest)
        movable += [True] * full + [False] * bool(rest)
        of_arm += [arm] * (full + bool(rest))
    return bucket, Dealt(
        np.array(sizes, dtype=np.int64), np.array(of_arm, dtype=np.int64), np.array(movable, dtype=bool)
    )


def _members(pairs: Any, keys: Sequence[str]) -> list[tuple[Label | None, Any]]:
    """Rows of each slice to which randomised units belong; all of them where they belong to none."""
    if not keys:
        return [(None, slice(None))]
    parts = pairs.with_row_index("place").group_by(keys).agg("place").sort(keys, nulls_last=True)
    return [(tuple(r[:-1]), np.sort(np.array(r[-1]))) for r in parts.iter_rows()]


def _one_weight(cells: Any, view: Benefits) -> Any:
    """Cells with the weight of their unit, which must be one."""
    import polars as pl

    keys = [*view.keys, "unit"]
    per_unit = cells.group_by(keys).agg(pl.col("weight").max(), pl.col("least_weight").min(), pl.lit(1).alias("units"))
    refuse_changing_weights(per_unit, view)
    return cells.drop("weight", "least_weight").join(per_unit.drop("least_weight", "units"), on=keys, nulls_equal=True)


def _parts(cells: Any, keys: Sequence[str]) -> list[tuple[Label, Any]]:
    if not keys:
        return [((), cells)]
    return [(tuple(label), part) for label, part in cells.partition_by(keys, as_dict=True).items()]


def _tally(cells: Any, dealt: Dealt) -> Buckets:
    code, units = dense(cells["unit"])
    weights = None
    if "weight" in cells.columns:
        weights = np.zeros(units)
        weights[code] = cells["weight"].to_numpy()
    times = None
    if "units" in cells.columns:
        times = np.ones(units)
        times[code] = cells["units"].to_numpy()
    return Buckets.of(
        code, cells["bucket"].to_numpy(), cells["amount"].to_numpy(), weights=weights, times=times,
        sizes=dealt.sizes, arms=dealt.arms, movable=dealt.movable,
    )  # fmt: skip


def dense(ids: Any) -> tuple[Any, int]:
    """Ids as 0, 1, ... without gaps, and how many there are."""
    if ids.dtype.is_integer() and len(ids):
        least, most = int(ids.min()), int(ids.max())
        if most - least < 4 * len(ids) + 1_000:
            values = ids.to_numpy() - least
            seen = np.zeros(most - least + 1, dtype=np.int32)
            seen[values] = 1
            place = np.cumsum(seen, dtype=np.int32) - 1
            return place[values], int(place[-1]) + 1
    frame = ids.to_frame("id")
    known = frame.unique().with_row_index("place")
    return frame.join(known, on="id", how="left", maintain_order="left")["place"].to_numpy(), known.height


def _series(name: str, values: Any) -> Any:
    import polars as pl

    return pl.Series(name, values)
