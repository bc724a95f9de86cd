"""Long tables of users, items and values, read once: every row becomes a record of two numbers and its value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand.views.batches import first_of_runs
from evenhand.views.numbering import Codes, Numbering
from evenhand.views.scores import Floats, Ints, Rows, Sums, Thinning
from evenhand.views.spilled import Records

RECORD = np.dtype([("user", np.int32), ("item", np.int32), ("value", np.float64)])

FEW = 4
"""Rows in a run of one user, on average, from which users are looked up run by run."""


class _Rows(NamedTuple):
    """Some rows of a table: the numbers of their users and items, and their values."""

    user: Codes
    item: Codes
    value: Floats

    def at(self, places: Ints) -> _Rows:
        return _Rows(self.user.take(places), self.item.take(places), self.value.take(places))

    def between(self, first: int, last: int) -> _Rows:
        return _Rows(self.user[first:last], self.item[first:last], self.value[first:last])

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def records(self) -> npt.NDArray[Any]:
        found = np.empty(len(self.user), RECORD)
        for name, column in zip(RECORD.names or (), self, strict=True):
            found[name] = column
        return found


class CannotThinError(Exception):
    """Rows were dropped, and now a user comes again or has an item twice: all rows are needed."""


@dataclass(frozen=True)
class Walked:
    """All rows of a table: the ids of users and items in the order in which they first came, which is that of their numbers.

    `counts` are the records of every user, which stand `together` or anywhere; `facts` are counts and ends of the values. Where
    records hold only some of the rows, `sums` are those of all.
    """

    users: Any
    items: Any
    counts: Ints
    together: bool
    facts: dict[str, float]
    records: Records | None
    sums: Sums | None = None

    @classmethod
    def of(cls, frames: Iterable[Any], most: int, thinning: Thinning | None = None) -> Walked:
        """Of Polars frames with columns `user`, `item` and `value`; up to `most` rows are held in memory."""
        users, items, records = Numbering(), Numbering(), Records(RECORD, most)
        thin = _Thin(thinning, records) if thinning else None
        facts = dict.fromkeys(("rows", "no_user", "no_item", "cells", "masked", "bits"), 0.0)
        facts |= {"low": np.inf, "high": -np.inf}
        counts, together = np.zeros(0, dtype=np.int64), True
        for frame in frames:
            facts["rows"] += frame.height
            facts["no_user"] += frame["user"].null_count()
            facts["no_item"] += frame["item"].null_count()
            if facts["no_user"] or facts["no_item"]:
                frame = frame.drop_nulls(["user", "item"])  # an error will say so
            values = _values(frame["value"], facts)
            known, own = users.size, _by_run(frame, users)
            together = together and _one_after_the_other(own, known, users.size)
            counts = _counted(counts, own, users.size)
            rows = _Rows(own, items.of(frame["item"]), values)
            if thin is None:
                records.append(rows.records())
            else:
                thin = thin.append(rows, facts["cells"], together=together)
        found = cls(users.ids, items.ids, counts[: users.size], together, facts, records)
        return found if thin is None else thin.ended(found)

    def without_rows(self) -> Walked:
        return replace(self, records=None)


class _Thin:
    """Rows on their way to records, of which only those are kept that are wanted, once there are many; until then all wait."""

    def __init__(self, how: Thinning, records: Records) -> None:
        self._how, self._records = how, records
        self._waiting: list[_Rows] = []
        self._dropping = False
        self._counts: list[Ints] = []
        self._sums: list[Sums] = []

    def append(self, rows: _Rows, cells: float, *, together: bool) -> _Thin | None:
        """None from when all rows are kept: users stand apart, or few rows have a value."""
        if self._dropping and not together:
            raise CannotThinError
        if self._dropping:
            self._next(rows)
            return self
        self._waiting.append(rows)
        if together and cells > self._how.after:
            waiting, self._waiting, self._dropping = self._waiting, [], True
            for some in waiting:
                self._next(some)
        elif not together or sum(len(some.user) for some in self._waiting) > 2 * self._how.after:
            self._release()
            return None
        return self

    def ended(self, walked: Walked) -> Walked:
        """The table, when all rows came."""
        if not self._dropping:
            self._release()
            return walked
        self._drop(_Rows.joined(self._waiting))
        sums = Sums(*(np.concatenate(parts) for parts in zip(*self._sums, strict=True)))
        return replace(walked, counts=np.concatenate(self._counts), sums=sums)

    def _next(self, rows: _Rows) -> None:
        """Rows after those that wait: all but those of the last user, who may go on, are looked through."""
        if len(rows.user) and rows.user[0] != rows.user[-1]:
            rows = _Rows.joined([*self._waiting, rows])
            last = int(np.searchsorted(rows.user, rows.user[-1]))
            self._drop(rows.between(0, last))
            self._waiting, rows = (
                [],
                _Rows.joined([rows.between(last, len(rows.user))]),
            )  # a copy, which holds on to no others
        self._waiting.append(rows)

    def _release(self) -> None:
        for rows in self._waiting:
            self._records.append(rows.records())

    def _drop(self, rows: _Rows) -> None:
        """What is wanted of the rows of some users, who came one after the other, goes on."""
        if not len(rows.user):
            return
        first, many = rows.user[0], int(rows.user[-1] - rows.user[0]) + 1
        starts = _starts(rows.user - first, many)
        if _any_twice(starts, rows.item):
            raise CannotThinError
        if (missing := _missing(rows.value)).any():
            rows = rows.at(np.flatnonzero(~missing))
            starts = _starts(rows.user - first, many)
        cells = np.diff(starts)
        total = np.zeros(many)
        total[cells > 0] = np.add.reduceat(rows.value, starts[:-1][cells > 0]) if len(rows.value) else 0.0
        kept = rows.at(np.flatnonzero(self._how.keep(starts, rows.value)))
        self._sums.append(Sums(cells.astype(np.float64), total))
        self._counts.append(np.bincount(kept.user - first, minlength=many))
        self._records.append(kept.records())


def _counted(counts: Ints, own: Codes, users: int) -> Ints:
    """How many rows every user has by now; there is room for more users than there are."""
    if users > len(counts):
        counts = np.append(counts, np.zeros(2 * users - len(counts), dtype=np.int64))
    if len(own):
        first = int(own.min())
        more = np.bincount(own - first)
        counts[first : first + len(more)] += more
    return counts


def _starts(own: Codes, many: int = 0) -> Ints:
    """(users + 1,) where the rows of every user begin, who come one after the other."""
    return np.append(0, np.cumsum(np.bincount(own, minlength=many)))


def _by_run(frame: Any, users: Numbering) -> Codes:
    """The numbers of users, who may have many rows in a row."""
    import polars as pl

    first = first_of_runs(frame.select(pl.col("user").to_physical()), ["user"])
    if FEW * len(first) > frame.height:
        return users.of(frame["user"])
    return np.repeat(users.of(frame["user"].gather(first)), np.diff(first, append=frame.height))


def _one_after_the_other(own: Codes, known: int, now: int) -> bool:
    """Whether users come in the order of their numbers, after those known before or at most the last of them."""
    return not len(own) or bool(own[0] >= known - 1 and (own[1:] >= own[:-1]).all() and own[-1] == now - 1)


def _values(column: Any, facts: dict[str, float]) -> Floats:
    """The values of rows, whose facts are added."""
    import polars as pl

    values: Floats = column.cast(pl.Float64).to_numpy()  # null becomes NaN
    missing = _missing(values)
    there = values[~missing] if missing.any() else values
    facts["cells"] += len(there)
    facts["masked"] += float((values == -np.inf).sum()) if len(there) < len(values) else 0.0
    if len(there):
        low, high = float(there.min()), float(there.max())
        facts["low"], facts["high"] = min(facts["low"], low), max(facts["high"], high)
        if low >= 0 and high <= 1:  # else not all are bits, which is all that is asked
            facts["bits"] += float(((there == 0) | (there == 1)).sum())
    return values


def _missing(values: Floats) -> npt.NDArray[np.bool_]:
    if len(values) and values.min() > -np.inf:  # NaN is above nothing
        return np.zeros(len(values), dtype=bool)
    return np.asarray(np.isnan(values) | (values == -np.inf))


class Run(NamedTuple):
    """The rows of some users, by user and item: user i has cells `starts[i]` to `starts[i + 1]`.

    `twice` is the first user and item that several of them have, and how many are too many.
    """

    starts: Ints
    items: Codes
    values: Floats
    twice: tuple[int, int, int] | None

    def between(self, first: int, last: int) -> Rows:
        """Some rows; copies, so that who holds them holds no run."""
        starts = self.starts[first : last + 1]
        at = slice(int(starts[0]), int(starts[-1]))
        return Rows(starts - starts[0], self.items[at].astype(np.int64), self.values[at].copy())


class Runs:
    """A walked table as runs of users, who and whose items have other numbers now: `users[n]` and `items[n]` of number n."""

    def __init__(self, table: Walked, users: Codes, items: Codes, sizes: tuple[int, int]) -> None:
        self._table, self._users, self._items, self._wide = table, users, items, sizes[1]
        self.before = np.zeros(sizes[0] + 1, dtype=np.int64)
        self.before[1:] = np.cumsum(np.bincount(users, table.counts, sizes[0]).astype(np.int64))
        self._ordered = table.together and bool((users[1:] > users[:-1]).all())

    def sums(self) -> Sums | None:
        """Those of every user, under their numbers now."""
        if self._table.sums is None:
            return None
        cells, total = (np.zeros(len(self.before) - 1) for _ in range(2))
        cells[self._users], total[self._users] = self._table.sums
        return Sums(cells, total)

    def of(self, spans: Sequence[tuple[int, int]]) -> Iterator[Run]:
        """One run after the other, each of the users from one number to another."""
        records: Any = self._table.records
        if self._ordered or len(spans) == 1:
            for start, stop in spans:
                yield self._run(records.between(int(self.before[start]), int(self.before[stop])), start, stop)
            return
        for part, (start, stop) in zip(self._parted(records, spans), spans, strict=True):
            yield self._run(part.between(0, part.size), start, stop)

    def _parted(self, records: Records, spans: Sequence[tuple[int, int]]) -> list[Records]:
        """The records of every run, in the order in which they came."""
        part_of = np.searchsorted([stop for _, stop in spans], self._users, side="right")
        part_of = part_of.astype(np.min_scalar_type(len(spans)))
        parts = [Records(RECORD, -1) for _ in spans]
        for first in range(0, records.size, AT_ONCE):
            some = records.between(first, min(first + AT_ONCE, records.size))
            part = part_of.take(some["user"])
            order = np.argsort(part, kind="stable")
            edges = np.searchsorted(part[order], np.arange(len(parts) + 1))
            some = some.take(order)
            for i in range(len(parts)):
                parts[i].append(some[edges[i] : edges[i + 1]])
        return parts

    def _run(self, records: npt.NDArray[Any], start: int, stop: int) -> Run:
        starts = self.before[start : stop + 1] - self.before[start]
        users, twice = self._users.take(records["user"]), None
        users -= start
        if not (users[1:] >= users[:-1]).all():
            records = records.take(_in_order(users, stop - start))
            users = np.repeat(np.arange(stop - start, dtype=np.int32), np.diff(starts))
        items, values = self._items.take(records["item"]), np.ascontiguousarray(records["value"])
        back = (items[1:] <= items[:-1]) & (users[1:] == users[:-1])
        if back.any():
            items, values = _rising(starts, items, values, np.unique(users[1:][back]))
            again = np.flatnonzero((items[1:] == items[:-1]) & (users[1:] == users[:-1]))
            twice = (int(users[again[0]]), int(items[again[0]]), len(again)) if len(again) else None
        return Run(starts, items, values, twice)


AT_ONCE = 1 << 20
"""Records that are dealt out to runs at a time."""

MOST_CELLS = 1 << 18
"""Cells of rows of similar length that are sorted at a time."""


def _in_order(numbers: Codes, many: int) -> Ints:
    """Where numbers below `many` stand, in their order: half of their bits at a time, which numpy sorts by counting."""
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    if many > 1 << 16:
        order = order[np.argsort((numbers >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def _rising(starts: Ints, items: Codes, values: Floats, rows: Codes) -> tuple[Codes, Floats]:
    """Items and values with the items of some rows in order: each row by itself, for numpy sorts short ones much faster."""
    items, values = items.copy(), values.copy()
    for begin, within, inside in _similar(starts, rows):
        at, bits = (begin + within)[inside], len(within).bit_length()
        packed = np.full(inside.shape, np.iinfo(np.int64).max)
        packed[inside] = items.take(at).astype(np.int64) << bits
        packed |= within  # what stands past the end of a row stays there
        packed.sort(axis=1)
        items[at], values[at] = (packed >> bits)[inside], values.take((begin + (packed & ((1 << bits) - 1)))[inside])
    return items, values


def _any_twice(starts: Ints, items: Codes) -> bool:
    """Whether an item stands in a row twice."""
    for begin, within, inside in _similar(starts, np.arange(len(starts) - 1)):
        if inside.all():
            rows = items.take(begin + within)
        else:
            rows = np.tile(~within.astype(np.int32), (len(inside), 1))  # what stands past the end is no item
            rows[inside] = items.take((begin + within)[inside])
        rows.sort(axis=1)
        if (rows[:, 1:] == rows[:, :-1]).any():
            return True
    return False


def _similar(starts: Ints, rows: npt.NDArray[Any]) -> Iterator[tuple[Ints, Ints, npt.NDArray[np.bool_]]]:
    """Rows of similar length together, some at a time: where each begins (rows, 1), places in them, and which are inside."""
    lengths = (starts[1:] - starts[:-1])[rows]
    order = np.argsort(lengths, kind="stable")
    rows, lengths = rows[order], lengths[order]
    first = int(np.searchsorted(lengths, 1))
    while first < len(rows):
        last = int(np.searchsorted(lengths, 2 * lengths[first], side="right"))
        last = max(first + 1, min(last, first + MOST_CELLS // (2 * int(lengths[first]))))
        within = np.arange(lengths[last - 1])
        yield starts[rows[first:last], None], within, within < lengths[first:last, None]
        first = last
