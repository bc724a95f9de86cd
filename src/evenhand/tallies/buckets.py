"""Amounts by unit and bucket of viewers, requests or sessions, for permutation tests and draws of whole buckets.

Whatever was randomised is put into buckets; a bucket is re-assigned, left out or drawn as a whole. Every arm that could
have been is then a sum over buckets, and every metric reads the spectrum of such a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.amounts import run_starts
from evenhand.tallies.assignment import Assignment, Label, SliceBuckets
from evenhand.tallies.slices import Slices, refuse_weights, rows_in_order
from evenhand.tallies.spectrum import Spectra, Spectrum

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch
    from evenhand.sources.logs import Amount, Log

Ints = np.typing.NDArray[np.int64]
Chosen = np.typing.NDArray[np.bool_]

BLOCK_BYTES = 1 << 22
"""Sums (units x draws) held at a time."""

MOST_CELLS = 1 << 20
"""Cells (draws x amounts) handed to the metrics at a time."""

LOW = 24
"""Units that received less than this in all are counted by comparing with each possible sum, which needs no wider numbers."""

RUN = 120
"""So many truth values are added up in eight bits."""


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
    movable: Chosen

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
        times: Any = None,
        unseen: float = 0.0,
    ) -> Buckets:
        """Tally rows of unit (0, 1, ...), bucket and amount; `weights` holds one number per unit, `times` for how many it stands.

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
        received = _sums(table.data, table.indptr)
        times = np.ones(units) if times is None else np.asarray(times, dtype=np.float64)
        weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        seen = np.arange(units) if weights is not None else np.flatnonzero(np.diff(table.indptr[: units + 1]))
        order = seen[np.argsort(received[seen], kind="stable")]
        if not np.array_equal(order, np.arange(shape[0])):
            table = table[order]
        tally = cls(
            table.indptr.astype(np.int64),
            table.indices.astype(np.int32, copy=False),
            _narrow(table.data),
            times[order],
            None if weights is None else weights[order],
            float(unseen + times.sum() - times[order].sum()),
            sizes,
            np.zeros(len(sizes), dtype=np.int64) if arms is None else np.asarray(arms, dtype=np.int64),
            np.ones(len(sizes), dtype=bool) if movable is None else np.asarray(movable, dtype=bool),
        )
        return _collapsed(tally)

    @property
    def counted(self) -> bool:
        """Whether sums are whole numbers of units that count once, so that units can be counted by their sum."""
        return self.amount.dtype.kind != "f" and self.weights is None

    @cached_property
    def totals(self) -> Any:
        """Amount of each unit over all buckets; never falling where units are counted."""
        return _sums(self.amount, self.starts)

    @cached_property
    def volumes(self) -> Floats:
        """Amount of all units from each bucket."""
        by = np.repeat(self.times, np.diff(self.starts)) * self.amount
        return np.bincount(self.bucket, by, minlength=len(self.sizes)).astype(np.float64)

    @cached_property
    def units(self) -> float:
        """Number of units, those that received nothing included."""
        return float(self.times.sum() + self.unseen)

    def merge(self, other: Buckets) -> Buckets:
        """Add a shard with other units and the same buckets; the order of shards never matters."""
        weighted = self.weights is not None or other.weights is not None
        lengths = np.concatenate([np.diff(self.starts), np.diff(other.starts)])
        joined = replace(
            self,
            starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            bucket=np.concatenate([self.bucket, other.bucket]),
            amount=np.concatenate([self.amount, other.amount]),
            times=np.concatenate([self.times, other.times]),
            weights=np.concatenate([_or_ones(self), _or_ones(other)]) if weighted else None,
            unseen=self.unseen + other.unseen,
        )
        return _collapsed(_taken(joined, np.argsort(joined.totals, kind="stable")))

    def only(self, chosen: Chosen) -> Buckets:
        """These units with some of the buckets; who received nothing from those is unseen."""
        if chosen.all():
            return self
        places = np.cumsum(chosen) - 1
        mask = chosen[self.bucket]
        lengths = _sums(mask.astype(np.int64), self.starts)
        fewer = replace(
            self,
            starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            bucket=places[self.bucket[mask]].astype(np.int32),
            amount=self.amount[mask],
            sizes=self.sizes[chosen],
            arms=self.arms[chosen],
            movable=self.movable[chosen],
        )
        seen = np.flatnonzero(lengths) if self.weights is None else np.arange(len(lengths))
        order = seen[np.argsort(fewer.totals[seen], kind="stable")]
        gone = float(self.times.sum() - self.times[order].sum())
        return _collapsed(replace(_taken(fewer, order), unseen=self.unseen + gone))

    def spectra(self, chosen: Chosen) -> Iterator[tuple[slice, Spectrum]]:
        """The spectrum of what each draw's buckets give (`chosen` is draws x buckets), a bounded number of draws at a time."""
        return ((at, first) for at, first, _ in self._drawn(chosen, both=False))

    def halves(self, chosen: Chosen) -> Iterator[tuple[slice, Spectrum, Spectrum]]:
        """For each draw the spectrum of the buckets chosen and that of all others."""
        return ((at, first, second) for at, first, second in self._drawn(chosen, both=True) if second is not None)

    def whole(self) -> Spectrum:
        """The spectrum of all buckets together."""
        ((_, spectrum),) = self.spectra(np.ones((1, len(self.sizes)), dtype=bool))
        weights = None if spectrum.weights is None else spectrum.weights[0]
        return Spectrum(spectrum.values[0], spectrum.counts[0], weights)

    def _drawn(self, chosen: Chosen, *, both: bool) -> Iterator[tuple[slice, Spectrum, Spectrum | None]]:
        if self.counted:
            yield from self._by_counting(chosen, both=both)
            return
        step = max(1, MOST_CELLS // max(1, len(self.times)))
        for start in range(0, len(chosen), step):
            at = slice(start, min(start + step, len(chosen)))
            others = self._listed(~chosen[at]) if both else None  # a difference of floats would not be zero where it is
            yield at, self._listed(chosen[at]), others

    def _listed(self, chosen: Chosen) -> Spectrum:
        """A cell for every unit: for floats and weights."""
        sums = self._products(0, len(self.times), _picked(chosen)).T
        order = np.argsort(sums, axis=-1, kind="stable")
        front = np.zeros((len(sums), 1))
        values = np.concatenate([front, np.take_along_axis(sums, order, -1)], axis=-1).astype(np.float64)
        counts = np.concatenate([front + self.unseen, self.times[order]], axis=-1)
        weights = None if self.weights is None else np.concatenate([front + 1.0, self.weights[order]], axis=-1)
        return Spectrum(values, counts, weights)

    def _by_counting(self, chosen: Chosen, *, both: bool) -> Iterator[tuple[slice, Spectrum, Spectrum | None]]:
        """How many units have each sum, for sums up to a bound; the few units that received more get a cell each."""
        low = self._counted_units
        bound = int(self.totals[low - 1]) if low else 0
        first = np.zeros((len(chosen), bound + 1))
        second = np.zeros((len(chosen), bound + 1)) if both else None
        picked = _picked(chosen)
        for start, stop in self._blocks(low, len(chosen)):
            self._count(start, stop, picked, first, second)
        first[:, 0] += self.unseen
        if second is not None:
            second[:, 0] += self.unseen
        high = self._products(low, len(self.times), picked)
        step = max(1, MOST_CELLS // max(1, bound + 1 + len(high)))
        for start in range(0, len(chosen), step):
            at = slice(start, min(start + step, len(chosen)))
            sums = high[:, at].T.astype(np.int64)
            others = self.totals[low:] - sums
            yield (
                at,
                self._topped(first[at], sums, low),
                None if second is None else self._topped(second[at], others, low),
            )

    def _topped(self, counts: Floats, sums: Ints, low: int) -> Spectrum:
        """Counts of the sums up to a bound, and a cell for each sum beyond it; who was given less is counted with the others."""
        draws, width = counts.shape
        times = np.broadcast_to(self.times[low:], sums.shape)
        few = sums < width
        if few.any():
            key = (sums + np.arange(draws)[:, None] * width)[few]
            counts = counts + np.bincount(key, times[few], minlength=counts.size).reshape(counts.shape)
        sums = np.maximum(sums, width - 1)
        if (self.times[low:] == 1).all():
            sums = np.sort(sums, axis=-1)
            many = (sums >= width).astype(np.float64)
        else:
            order = np.argsort(sums, axis=-1, kind="stable")
            sums = np.take_along_axis(sums, order, -1)
            many = np.where(sums >= width, np.take_along_axis(times, order, -1), 0.0)
        grid = np.broadcast_to(np.arange(width, dtype=np.float64), (draws, width))
        return Spectrum(np.concatenate([grid, sums], axis=-1), np.concatenate([counts, many], axis=-1))

    @cached_property
    def _counted_units(self) -> int:
        """How many units are counted by their sum: so many that the others are no more than the sums to tell apart."""
        beyond = len(self.totals) - np.arange(1, len(self.totals) + 1)
        return int(np.count_nonzero(self.totals < np.maximum(beyond, 256)))

    def _blocks(self, stop: int, draws: int) -> Iterator[tuple[int, int]]:
        """Runs of units whose sums fit into a block; those with the same low total are kept apart from the others."""
        totals = self.totals[:stop]
        cuts = np.searchsorted(totals, np.arange(LOW + 1))
        edges = np.unique(np.concatenate([cuts, [0, stop]]))
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            size = _whole_type(totals[high - 1]).itemsize
            step = max(RUN, BLOCK_BYTES // max(1, draws * size) // RUN * RUN)
            for start in range(low, high, step):
                yield start, min(start + step, high)

    def _count(
        self, start: int, stop: int, picked: np.typing.NDArray[np.int8], first: Floats, second: Floats | None
    ) -> None:
        """Add the units of a block to the counts of their draws."""
        totals, times = self.totals[start:stop], self.times[start:stop]
        sums = self._products(start, stop, picked)
        highest = int(totals[-1])
        if highest < LOW and int(totals[0]) == highest and (times == 1).all():
            for value in range(highest + 1):
                units = _how_many(sums == value)
                first[:, value] += units
                if second is not None:
                    second[:, highest - value] += units
            return
        rows = np.arange(picked.shape[1]) * (highest + 1)
        many = None if (times == 1).all() else np.repeat(times, picked.shape[1])
        for into, what in ((first, sums), (second, None)):
            if into is not None:
                what = totals[:, None] - sums if what is None else what
                units = np.bincount((what + rows).ravel(), many, minlength=len(rows) * (highest + 1))
                into[:, : highest + 1] += units.reshape(len(rows), highest + 1)

    def _products(self, start: int, stop: int, picked: np.typing.NDArray[np.int8]) -> Any:
        """(units, draws) amounts of units `start` to `stop` from the buckets picked (buckets x draws)."""
        from scipy.sparse import csr_matrix

        at = slice(int(self.starts[start]), int(self.starts[stop]))
        kind = self.amount.dtype
        if kind.kind != "f":
            kind = _whole_type(self.totals[start:stop].max(initial=0))
        cells = (self.amount[at].astype(kind), self.bucket[at], self.starts[start : stop + 1] - at.start)
        return csr_matrix(cells, shape=(stop - start, len(self.sizes))) @ picked.astype(kind, copy=False)


@dataclass(frozen=True)
class BucketSlices:
    """Amounts by unit and bucket of each slice, in the order of the labels, and the slices that hold a missing amount."""

    labels: tuple[Label, ...]
    tallies: tuple[Buckets, ...]
    broken: frozenset[Label] = frozenset()

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
            refuse_weights(sum(cells.changing for batch in batches for _, cells in batch), log.weight)
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

    @property
    def pooled(self) -> Slices:
        """The slices with all arms together."""
        return Slices(self.labels, Spectra.from_spectra([tally.whole() for tally in self.tallies]), self.broken)

    def among(self, everyone: Slices) -> BucketSlices:
        """These tallies with unseen units added: `everyone` says how many each slice has in all."""
        seen = dict(zip(self.labels, self.tallies, strict=True))
        units = dict(zip(everyone.labels, everyone.spectra.units.tolist(), strict=True))
        labels = tuple(label for label in everyone.labels if label in seen)
        padded = (replace(seen[k], unseen=seen[k].unseen + units[k] - seen[k].units) for k in labels)
        return BucketSlices(labels, tuple(padded), self.broken)


@dataclass(frozen=True, slots=True)
class UnitCells:
    """Amounts of whole units of a slice by bucket, in types as narrow as the numbers allow: a cluster sends it.

    Attributes
    ----------
    lengths : (units,) how many cells each unit has, one unit after another.
    buckets, amounts : (cells,) the bucket, and what the unit received from it.
    weights : (units,) the weight of each unit, where there are weights.
    changing : units with several weights.
    """

    lengths: Any
    buckets: Any
    amounts: Any
    weights: Floats | None = None
    changing: int = 0


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
        cells = UnitCells(
            _narrow(lengths[members]), _narrow(buckets[rows]), _narrow(amounts[rows]), weights[members] if is_weighted else None,
            int((weights != least)[members].sum()),
        )  # fmt: skip
        slices.append((label, cells))
    return slices


def _buckets(parts: Sequence[UnitCells], dealt: SliceBuckets, amount: Amount, *, is_weighted: bool) -> Buckets:
    """The tally of one slice from the cells of its units, which came in several batches."""
    none = np.zeros(0, dtype=np.int64)
    lengths = np.concatenate([none, *(part.lengths for part in parts)])
    return Buckets.from_arrays(
        np.repeat(np.arange(len(lengths)), lengths),
        np.concatenate([none, *(part.buckets for part in parts)]),
        np.concatenate([none if amount.integer else np.zeros(0), *(part.amounts for part in parts)]),
        weights=np.concatenate([np.zeros(0), *(part.weights for part in parts)]) if is_weighted else None,
        sizes=dealt.sizes, arms=dealt.arms, movable=dealt.movable,
    )  # fmt: skip


def _taken(tally: Buckets, order: Ints) -> Buckets:
    """Some of the units, in this order."""
    lengths = np.diff(tally.starts)[order]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.repeat(tally.starts[order] - starts[:-1], lengths) + np.arange(starts[-1])
    weights = None if tally.weights is None else tally.weights[order]
    return replace(
        tally,
        starts=starts,
        bucket=tally.bucket[at],
        amount=tally.amount[at],
        times=tally.times[order],
        weights=weights,
    )


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


def _sums(per_cell: Any, starts: Any) -> Any:
    """Sums between starts, in the widest type of their kind; nothing adds up to zero."""
    wide = np.float64 if per_cell.dtype.kind == "f" else np.int64
    sums = np.add.reduceat(np.append(per_cell, per_cell.dtype.type(0)), starts[:-1], dtype=wide)
    sums[np.diff(starts) == 0] = 0
    return sums


def _or_ones(tally: Buckets) -> Floats:
    return np.ones(len(tally.times)) if tally.weights is None else tally.weights


def _narrow(amount: Any) -> Any:
    return amount if amount.dtype.kind == "f" else amount.astype(_whole_type(amount.max(initial=0)))


def _whole_type(most: Any) -> np.dtype[Any]:
    """The narrowest type that holds whole numbers up to `most`."""
    return next(np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64) if most <= np.iinfo(t).max)


def _picked(chosen: Chosen) -> np.typing.NDArray[np.int8]:
    """Draws as columns of zeros and ones."""
    return np.ascontiguousarray(chosen.T).astype(np.int8)


def _how_many(true: Chosen) -> Any:
    """How many are true in each column, eight bits at a time."""
    rows = len(true) // RUN * RUN
    bits = true.view(np.int8)
    counts = bits[rows:].sum(0, dtype=np.int64)
    if rows:
        counts += bits[:rows].reshape(-1, RUN, true.shape[1]).sum(1, dtype=np.int8).sum(0, dtype=np.int64)
    return counts
