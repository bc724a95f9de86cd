"""Amounts by unit and bucket of viewers, for permutation tests and draws of whole buckets.

The ids of whatever was randomised are fetched once each and sorted; a permutation that depends on the seed alone then deals
them out (`Assignment`), so that the same viewers share a bucket whatever the engine or the order of rows. A bucket is
re-assigned, left out or drawn as a whole. Every arm that could have been is then a sum over buckets (`Buckets`), and every
metric reads the spectrum of such a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import rows_in_order, whole
from evenhand.sources.relation import count_groups
from evenhand.sources.sql import columns
from evenhand.tallies.ragged import Bools, Ints, cells_of, run_starts, segment_sums, starts_of
from evenhand.tallies.spectrum import SlicedTallies, Spectrum, refuse_weights

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
    from evenhand.sources.logs import Amount, Log

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

    @classmethod
    def from_log(cls, log: Log, *, randomized: str, rng: np.random.Generator, arm: str | None = None) -> Assignment:
        """The randomised units of each arm in buckets of one size; without `arm` there is one arm.

        Units that are left over when an arm is dealt out stay together in a last bucket, which is never re-assigned.
        """
        names = ["randomized", *(["arm"] if arm is not None else [])]
        keys = log.keys if _has_one_slice_each(log) else []
        cells = log.engine.cells(f"SELECT DISTINCT {columns([*names, *keys])} FROM {log.source}").sorted_by(
            ["randomized"]
        )
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
    if not log.keys:
        return False
    pairs = f"(SELECT DISTINCT {columns(['randomized', *log.keys])} FROM {log.source}) AS pairs"
    return not count_groups(log.engine, pairs, ["randomized"])


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


MOST_CELLS = 1 << 20
"""Cells (draws x amounts) handed to the metrics at a time: 8 MB."""


@dataclass(frozen=True)
class Buckets:
    """Amounts by unit and bucket, units in the order of what they received in all.

    Attributes
    ----------
    starts : (U + 1,) cells `starts[u]` to `starts[u + 1]` are unit u.
    bucket, amount : (N,) bucket of each cell, and what the unit received from it: whole numbers, or floats.
    times : (U,) how many units have exactly these cells.
    weights : (U,) weight of each unit, or None when every unit counts once.
    unseen : number of units that received nothing from any bucket.
    sizes : (B,) randomised units (viewers) in each bucket; zero for none.
    arms : (B,) arm of each bucket.
    movable : (B,) whether a bucket may be re-assigned: all of these have the same size.
    """

    starts: Ints
    bucket: np.typing.NDArray[np.int32]
    amount: Any
    times: Floats
    weights: Floats | None
    unseen: float
    sizes: Ints
    arms: Ints
    movable: Bools

    @classmethod
    def from_arrays(
        cls,
        unit: Any,
        bucket: Any,
        amount: Any,
        *,
        sizes: Any,
        arms: Any = None,
        movable: Any = None,
        weights: Any = None,
        unseen: float = 0.0,
    ) -> Buckets:
        """Tally rows of unit (0, 1, ...), bucket and amount; `weights` holds one number per unit.

        >>> tally = Buckets.from_arrays([0, 0, 1, 1], [0, 1, 1, 1], [2, 1, 1, 3], sizes=[1, 1])
        >>> tally.totals.tolist(), tally.amount.tolist()
        ([3, 4], [2, 1, 4])
        """
        from scipy.sparse import coo_matrix

        sizes = np.asarray(sizes, dtype=np.int64)
        amount = np.asarray(amount)
        number = np.int64 if amount.dtype.kind in "iub" else np.float64
        unit = np.asarray(unit)
        units = int(unit.max()) + 1 if len(unit) else 0
        shape = (max(units, 1), max(len(sizes), 1))
        table = coo_matrix((amount.astype(number, copy=False), (unit, np.asarray(bucket))), shape=shape).tocsr()
        table.eliminate_zeros()
        table.sort_indices()
        received = segment_sums(table.data, table.indptr)
        weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        seen = np.arange(units) if weights is not None else np.flatnonzero(np.diff(table.indptr[: units + 1]))
        order = seen[np.argsort(received[seen], kind="stable")]
        table = table[order]
        tally = cls(
            table.indptr.astype(np.int64),
            table.indices.astype(np.int32, copy=False),
            _narrow(table.data),
            np.ones(len(order)),
            None if weights is None else weights[order],
            float(unseen + units - len(order)),
            sizes,
            np.zeros(len(sizes), dtype=np.int64) if arms is None else np.asarray(arms, dtype=np.int64),
            np.ones(len(sizes), dtype=bool) if movable is None else np.asarray(movable, dtype=bool),
        )
        return _collapsed(tally)

    @property
    def counted(self) -> bool:
        """Whether units have whole amounts and no weights, so that they can be counted by their sum."""
        return self.amount.dtype.kind != "f" and self.weights is None

    @cached_property
    def totals(self) -> Any:
        """Amount of each unit over all buckets; never falling where units are counted."""
        return segment_sums(self.amount, self.starts)

    @cached_property
    def volumes(self) -> Floats:
        """Amount of all units from each bucket."""
        by = np.repeat(self.times, np.diff(self.starts)) * self.amount
        return np.bincount(self.bucket, by, minlength=len(self.sizes)).astype(np.float64)

    @cached_property
    def units(self) -> float:
        """Number of units, those that received nothing included."""
        return float(self.times.sum() + self.unseen)

    def padded(self, units: float) -> Buckets:
        return replace(self, unseen=self.unseen + units)

    def only(self, chosen: Bools) -> Buckets:
        """These units with some of the buckets; who received nothing from those is unseen."""
        if chosen.all():
            return self
        mask = chosen[self.bucket]
        lengths = segment_sums(mask.astype(np.int64), self.starts)
        new_codes = (np.cumsum(chosen) - 1).astype(np.int32)
        per_bucket = {name: getattr(self, name)[chosen] for name in ("sizes", "arms", "movable")}
        cells = {"bucket": new_codes[self.bucket[mask]], "amount": self.amount[mask]}
        fewer = replace(self, starts=starts_of(lengths), **cells, **per_bucket)
        seen = np.flatnonzero(lengths) if self.weights is None else np.arange(len(lengths))
        order = seen[np.argsort(fewer.totals[seen], kind="stable")]
        gone = float(self.times.sum() - self.times[order].sum())
        return _collapsed(replace(_taken(fewer, order), unseen=self.unseen + gone))

    def spectra(self, chosen: Bools) -> Iterator[tuple[slice, Spectrum]]:
        """Spectra of the buckets that each draw chose (draws x buckets), some draws at a time."""
        low = self._counted_units if self.counted else 0
        counts = self._count_low(low, chosen)
        high = len(self.times) - low
        step = max(1, MOST_CELLS // max(1, counts.shape[1] + high))
        for start in range(0, len(chosen), step):
            at = slice(start, min(start + step, len(chosen)))
            yield at, self._spectrum(counts[at], self._products(low, len(self.times), chosen[at]).T, low)

    def whole(self) -> Spectrum:
        ((_, spectrum),) = self.spectra(np.ones((1, len(self.sizes)), dtype=bool))
        weights = None if spectrum.weights is None else spectrum.weights[0]
        return Spectrum(spectrum.values[0], spectrum.counts[0], weights)

    @cached_property
    def _counted_units(self) -> int:
        """Units that are counted by their sum: so many that the others are no more than the sums."""
        beyond = len(self.totals) - np.arange(1, len(self.totals) + 1)
        return int(np.count_nonzero(self.totals < np.maximum(beyond, 256)))

    def _count_low(self, low: int, chosen: Bools) -> Floats:
        """(draws, sums) how many of the first `low` and the unseen units have each sum from 0 up."""
        draws = len(chosen)
        counts = np.zeros((draws, int(self.totals[low - 1]) + 1 if low else 1))
        counts[:, 0] = self.unseen
        step = max(1, (1 << 20) // max(1, draws))  # sums (units x draws) at a time
        for start in range(0, low, step):
            stop = min(start + step, low)
            width = int(self.totals[stop - 1]) + 1
            cells = (self._products(start, stop, chosen) + np.arange(draws) * width).ravel()
            units = np.bincount(cells, np.repeat(self.times[start:stop], draws), minlength=draws * width)
            counts[:, :width] += units.reshape(draws, width)
        return counts

    def _spectrum(self, counts: Floats, sums: Any, low: int) -> Spectrum:
        """Cells for the sums that are counted (from 0 up), and one for every unit from `low` on."""
        draws, width = counts.shape
        sums = sums.astype(np.int64 if self.counted else np.float64)
        order = np.argsort(sums, axis=-1, kind="stable")
        sums, times = np.take_along_axis(sums, order, -1), self.times[low:][order]
        if self.counted:  # a draw may give a unit so little that its sum is counted
            is_low = sums < width
            cells = (sums + np.arange(draws)[:, None] * width)[is_low]
            counts = counts + np.bincount(cells, times[is_low], minlength=counts.size).reshape(counts.shape)
            sums, times = np.maximum(sums, width - 1), np.where(is_low, 0.0, times)
        grid = np.broadcast_to(np.arange(width, dtype=np.float64), (draws, width))
        weights = None
        if self.weights is not None:
            weights = np.concatenate([np.ones((draws, width)), self.weights[low:][order]], axis=-1)
        return Spectrum(np.concatenate([grid, sums], axis=-1), np.concatenate([counts, times], axis=-1), weights)

    def _products(self, start: int, stop: int, chosen: Bools) -> Any:
        """(units, draws) amounts of units `start` to `stop` from the buckets that each draw chose."""
        from scipy.sparse import csr_matrix

        at = slice(int(self.starts[start]), int(self.starts[stop]))
        kind = self.amount.dtype
        if kind.kind != "f":
            kind = np.min_scalar_type(
                -1 - int(self.totals[start:stop].max(initial=0))
            )  # signed, and holds the largest sum
        cells = (self.amount[at].astype(kind), self.bucket[at], self.starts[start : stop + 1] - at.start)
        return csr_matrix(cells, shape=(stop - start, len(self.sizes))) @ np.ascontiguousarray(chosen.T).astype(kind)


class BucketSlices(SlicedTallies[Buckets]):
    """Amounts by unit and bucket per slice."""

    @staticmethod
    def query(log: Log, amount: Amount, buckets: str, ids: tuple[str, str]) -> str:
        """SQL of what each unit received from each bucket.

        `buckets` is a table of `randomized` and `bucket`; `ids` are patterns that make the ids of the log and its own comparable.
        """
        same_id = f"{ids[0].format('log.randomized')} = {ids[1].format('dealt.randomized')}"
        rows = f"SELECT log.*, dealt.bucket FROM {log.source} JOIN {buckets} AS dealt ON {same_id}"
        return replace(log, sql=rows).sums(amount, [*log.keys, "unit", "bucket"])

    @classmethod
    def per_slice(
        cls, log: Log, amount: Amount, assignment: Assignment, ids: tuple[str, str] = ("{}", "{}")
    ) -> BucketSlices:
        """Amounts by unit and bucket of every slice. Ids of units stay where the rows are."""
        query = cls.query(log, amount, log.engine.bring(assignment.ids), ids)
        count = partial(_unit_cells, keys=log.keys, is_integer=amount.integer, is_weighted=log.weight is not None)
        batches = log.engine.tallied(query, [*log.keys, "unit"], ["bucket"], count)
        if log.weight is not None:
            refuse_weights(sum(int(cells["changing"].sum()) for batch in batches for _, cells in batch), log.weight)
        parts: dict[Label, list[UnitCells]] = {} if log.keys else {(): []}
        for batch in batches:
            for label, cells in batch:
                parts.setdefault(label, []).append(cells)
        labels = list(parts)
        ordered = [labels[i] for i in rows_in_order(labels)]
        tallies = tuple(
            _buckets(parts[k], assignment.buckets(k), amount, is_weighted=log.weight is not None) for k in ordered
        )
        return cls(tuple(ordered), tallies, log.broken(amount))


UnitCells = dict[str, Any]
"""Amounts of whole units by bucket, in the narrowest types, since Spark sends them to the driver: (units,) `lengths` and, where there
are any, `weights` and whether they are `changing`; (cells,) `bucket` and `amount`, one unit after another."""


def _unit_cells(
    batch: Batch, keys: Sequence[str], *, is_integer: bool, is_weighted: bool
) -> list[tuple[Label, UnitCells]]:
    """Rows of whole units as arrays without ids, slice by slice."""
    slice_codes, labels = batch.codes(keys)
    starts, lengths = batch.starts[:-1], np.diff(batch.starts)
    buckets = batch.integers("bucket")
    amounts = batch.integers("amount") if is_integer else batch.floats("amount")
    weights = least = np.zeros(batch.groups)
    if is_weighted:
        weights = np.maximum.reduceat(batch.floats("weight"), starts)
        least = np.minimum.reduceat(batch.floats("least_weight"), starts)
    slices = []
    for code, label in enumerate(labels):
        rows = np.flatnonzero(slice_codes == code)
        members = np.flatnonzero(slice_codes[starts] == code)
        columns = {"lengths": lengths[members], "bucket": buckets[rows], "amount": amounts[rows]}
        cells = {name: _narrow(column) for name, column in columns.items()}
        if is_weighted:
            cells |= {"weights": weights[members], "changing": (weights != least)[members]}
        slices.append((label, cells))
    return slices


def _buckets(parts: Sequence[UnitCells], dealt: SliceBuckets, amount: Amount, *, is_weighted: bool) -> Buckets:
    """The tally of one slice from the cells of its units, which came in several batches."""

    def joined(name: str, kind: type = np.int64) -> Any:
        return np.concatenate([np.zeros(0, dtype=kind), *(part[name] for part in parts)])

    lengths = joined("lengths")
    return Buckets.from_arrays(
        np.repeat(np.arange(len(lengths)), lengths), joined("bucket"), joined("amount", np.int64 if amount.integer else float),
        weights=joined("weights", float) if is_weighted else None, sizes=dealt.sizes, arms=dealt.arms, movable=dealt.movable,
    )  # fmt: skip


def _taken(tally: Buckets, order: Ints) -> Buckets:
    at, starts = cells_of(tally.starts, order)
    weights = None if tally.weights is None else tally.weights[order]
    cells = {"bucket": tally.bucket[at], "amount": tally.amount[at]}
    return replace(tally, starts=starts, times=tally.times[order], weights=weights, **cells)


def _collapsed(tally: Buckets) -> Buckets:
    """Units of one and the same cell as one: in a sparse log they are many."""
    singles = np.flatnonzero(np.diff(tally.starts) == 1)
    if not tally.counted or len(singles) < 2:
        return tally
    cells = tally.starts[singles]
    order = np.lexsort((tally.bucket[cells], tally.amount[cells]))
    singles, cells = singles[order], cells[order]
    firsts = run_starts(tally.amount[cells], tally.bucket[cells])
    times = tally.times.copy()
    times[singles[firsts]] = np.add.reduceat(tally.times[singles], firsts)
    mask = np.ones(len(times), dtype=bool)
    mask[singles] = False
    mask[singles[firsts]] = True
    return _taken(replace(tally, times=times), np.flatnonzero(mask))


def _narrow(amount: Any) -> Any:
    """Whole numbers of zero or more in the narrowest signed type that holds them."""
    return amount if amount.dtype.kind == "f" else amount.astype(np.min_scalar_type(-1 - int(amount.max(initial=0))))
