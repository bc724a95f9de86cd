"""Many crosstabs at once: the same users counted again and again, with other weights or under other labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.tallies.audience import Audience, Codes
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.shown import Ints

MOST_CELLS = 1 << 21
"""Cells (draws x groups x items) turned into a crosstab at a time."""

WIDE = 1 << 23
"""The same that are added up at a time, in few bytes each: of several draws side by side, each costs less."""

EVEN = 8
"""Draws at a time are a multiple of this where they are more, and twice this where twice the cells allow it: short rows are slow."""

Times = npt.NDArray[np.uint8]


class Weights(Protocol):
    """How often each user counts in each draw, up to `most` times; `rows` are the rows of the crosstab they count in."""

    @property
    def draws(self) -> int: ...
    @property
    def rows(self) -> Ints: ...
    @property
    def most(self) -> int: ...
    @property
    def rest(self) -> int | None:
        """The place of those whom no other place counts: it is what these leave of all, whose weights (U, 1) come instead."""
        ...

    def between(self, start: int, stop: int) -> Iterator[tuple[int | Ints, Times]]:
        """For some draws: the place in `rows` where users count (one for all, or one each), and the weights of all (U, D).

        Who asks for the same draws again gets the same weights.
        """
        ...


@dataclass(frozen=True, slots=True)
class Replicates:
    """D crosstabs of one audience under weights, or of several whose weights add up; `usual` is how many slots most users have."""

    parts: tuple[tuple[Audience, Weights], ...]
    usual: float

    @property
    def draws(self) -> int:
        return self.parts[0][1].draws

    def with_other(self, other: Replicates) -> Replicates:
        """Both audiences together: the same users in the same rows, each counted by one of the two."""
        return Replicates(self.parts + other.parts, self.usual)

    def crosstabs(self, like: Crosstab) -> Iterator[Crosstab]:
        """The replicates as crosstabs with a leading axis, a bounded number at a time: each is good until the next is asked for.

        They have a column for items that anybody is shown.
        """
        groups, items = like.counts.shape
        seen = np.zeros(items, dtype=bool)
        for audience, _ in self.parts:
            for some in _runs(audience.items):
                seen[some] = True
        places = np.flatnonzero(seen)
        column = None if seen.all() else np.cumsum(seen, dtype=np.int32) - 1
        sums = [
            _Sums(audience, plan, _under_other_numbers(audience.items, column), len(places), self.usual)
            for audience, plan in self.parts
        ]
        rows = self.parts[0][1].rows
        users = float(like.mark("users")[rows].sum())
        cells = max(1, len(rows) * len(places))
        at_once = max(1, MOST_CELLS // cells, min(2 * EVEN, 2 * MOST_CELLS // cells))
        at_once = min(self.draws, at_once // EVEN * EVEN or at_once)
        wide = at_once * max(1, WIDE // (at_once * max(cells, len(self.parts[0][0].lengths))))
        held = np.zeros((groups, len(places), at_once))
        for start in range(0, self.draws, at_once):
            stop = min(start + at_once, self.draws)
            counts, marks = held[..., : stop - start], np.zeros((groups, stop - start, like.marks.shape[1]))
            odd: Any = None
            for i, one in enumerate(sums):
                odd = one.add(range(start, stop), wide, counts, marks, odd, more=i > 0)
            shown = np.zeros(counts.shape[1:]) if not len(rows) else counts[rows[0]].copy()
            for row in rows[1:]:
                shown += counts[row]
            spread = shown.T / self.usual
            drawn = marks[rows, :, 0].sum(0)
            made = Crosstab(
                np.moveaxis(counts, -1, 0),  # draws lie side by side in memory, as the sums are made
                spread if odd is None else spread + odd, np.moveaxis(marks, 1, 0), like.pair, like.judged, like.cut,
                places=places, unshown=items - len(places),
                for_each=np.divide(users, drawn, out=np.ones_like(drawn), where=drawn > 0),
            )  # fmt: skip
            if like.cut:
                vars(made)["popularity"] = shown.T  # as it would find it
            yield made


class _Sums:
    """Sums over the users of one audience under weights: sparse products of what was shown with a few draws at a time."""

    def __init__(self, audience: Audience, plan: Weights, columns: Codes, size: int, usual: float) -> None:
        self.audience, self.plan, self.columns, self.size = audience, plan, columns, size
        self._products: dict[str, _Product] = {}
        self._odd = self._with_other_lists(usual)
        self._members: list[Ints] = []
        self._all: tuple[Floats, Floats] | None = None
        self._made: list[tuple[int | Ints, Times, _Shown, Floats]] = []
        self._held = range(0)

    def add(
        self, draws: range, wide: int, counts: Floats, marks: Floats, odd: Floats | None, *, more: bool
    ) -> Floats | None:
        """Fill in times shown (G, J, D), or add `more`, and add to marks (G, D, M); gives what spread has beside times shown / usual."""
        rows, width = self.plan.rows, self.audience.marks.shape[1]
        for place, few, made, marked in self._under(draws, wide):
            for i, row in enumerate(rows[place : place + 1] if isinstance(place, int) else rows):
                made.put(counts[row], i * self.size, more=more)
                marks[row, :, :width] += marked[i]
            if not isinstance(place, int):
                odd = self._with_odd(few, odd)
        if self._all is not None and self.plan.rest is not None:
            rest, others = rows[self.plan.rest], np.delete(rows, self.plan.rest)
            counts[rest] = self._all[0]
            for row in others:
                counts[rest] -= counts[row]
            np.maximum(counts[rest], 0.0, out=counts[rest])  # parts of a slot do not add up to the last digit
            marks[rest, :, :width] = self._all[1] - marks[others, :, :width].sum(0)
        return odd

    def _under(self, draws: range, wide: int) -> Iterator[tuple[int | Ints, Times, _Shown, Floats]]:
        """Where users count, their weights (U, D), and times shown and marks under some draws, which are made for more at once."""
        if not (draws.start in self._held and draws[-1] in self._held):
            self._held = range(draws.start, min(draws.start + wide, self.plan.draws))
            self._made = []  # before others are made
            for place, weights in self.plan.between(self._held.start, self._held.stop):
                if isinstance(place, int) and place == self.plan.rest:
                    if self._all is None:
                        counted = np.zeros((self.size, 1))
                        self._product(weights).put(counted, 0, more=False)
                        self._all = counted, self._marked(weights)[0]
                    continue
                by = None if isinstance(place, int) else place
                self._made.append((place, weights, self._product(weights, by), self._marked(weights, by)))
        at = slice(draws.start - self._held.start, draws.stop - self._held.start)
        for place, weights, made, marked in self._made:
            yield place, weights[:, at], made.between(at), marked[:, at]

    def _marked(self, weights: Times, place: Ints | None = None) -> Floats:
        """Sums of marks (1, D, M), or (places, D, M) where every user has a place."""
        if not self._members:
            places = np.zeros(weights.shape[0]) if place is None else place
            self._members = [np.flatnonzero(places == i) for i in range(1 if place is None else len(self.plan.rows))]
        own, draws = self.audience.marks, weights.shape[1]
        found = np.zeros((len(self._members), draws, own.shape[1]))
        some = max(1, ALONE // max(1, draws * own.shape[1]))
        for sums, members in zip(found, self._members, strict=True):
            for first in range(0, len(members), some):
                users = members[first : first + some]
                sums += weights.take(users, axis=0).astype(np.float64).T @ own.take(users, axis=0)
        return found

    def _product(self, weights: Times, place: Ints | None = None) -> _Shown:
        """Times shown (J, D), or (places x J, D) where every user has a place."""
        name = "all" if place is None else "placed"
        if name not in self._products:
            at, size = self.columns, self.size
            if place is not None:
                size *= len(self.plan.rows)
                at = self.audience.of_slots((place * self.size).astype(np.int32 if size < 1 << 31 else np.int64)) + at
            self._products[name] = _Product(at, self.audience.lengths, self.audience.values, size, self.plan.most)
        return self._products[name].under(weights)

    def _with_other_lists(self, usual: float) -> tuple[Any, Audience, Floats] | None:
        """Users with another number of slots than most, what they are shown, and what one of their slots is worth beside 1 / `usual`.

        All users, where these are most of them: then nothing is copied.
        """
        with np.errstate(divide="ignore"):
            off = 1 / self.audience.slots - 1 / usual
        odd = (np.abs(off) > 1e-12) & (self.audience.lengths > 0)
        if not odd.any():
            return None
        if 2 * np.count_nonzero(odd) > len(odd):
            return slice(None), replace(self.audience, items=self.columns), np.where(odd, off, 0.0)
        theirs, values = self.audience.of_slots(odd), self.audience.values
        some = Audience(
            self.audience.lengths[odd], self.columns[theirs], None if values is None else values[theirs],
            self.audience.marks[odd],
        )  # fmt: skip
        return np.flatnonzero(odd), some, off[odd]

    def _with_odd(self, weights: Times, odd: Floats | None) -> Floats | None:
        """(D, J): where users have another number of slots than most, an item's share of them is not times shown / `usual`."""
        if self._odd is None:
            return odd
        who, theirs, off = self._odd
        found, worth = np.zeros((self.size, weights.shape[1])), weights[who]
        for users, slots in theirs.runs(RUN):
            part = np.ones(slots.stop - slots.start) if theirs.values is None else theirs.values[slots]
            shown = _matrix(part, theirs.items[slots], theirs.lengths[users], self.size)
            found += shown @ (worth[users] * off[users, None])
        return found.T if odd is None else odd + found.T


ALONE = 1 << 19
"""Products of weights and marks added up at a time: past so many numpy wakes other threads, which cost more than they help here."""

RUN = 1 << 21
"""Slots that are weighted by parts at a time."""


def _runs(items: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Some at a time: as an index of another kind than numpy's own, all would be copied."""
    return (items[first : first + RUN] for first in range(0, len(items), RUN))


def _under_other_numbers(items: Codes, numbers: Codes | None) -> Codes:
    return items if numbers is None else np.concatenate([items[:0], *(numbers[some] for some in _runs(items))])


class _Shown(NamedTuple):
    """Times shown (size, D); what is shown too often for this has `rows` of its own, and zeros here."""

    most: npt.NDArray[Any]
    rows: Ints
    often: npt.NDArray[Any]

    def between(self, draws: slice) -> _Shown:
        return _Shown(self.most[:, draws], self.rows, self.often[:, draws])

    def put(self, into: Floats, first: int, *, more: bool) -> None:
        """Fill in those from `first` on, or add `more`."""
        some = self.most[first : first + len(into)]
        if more:
            into += some
        else:
            into[:] = some
        at = slice(*np.searchsorted(self.rows, [first, first + len(into)]))
        into[self.rows[at] - first] += self.often[at]


class _Product:
    """Times shown as a product of what was shown (size, users) with weights up to `most`.

    Whole numbers are added up in the smallest kind that holds every sum. The few items that are shown too often for 16 bits have
    a matrix of their own, for sums of twice the bytes cost twice the time.
    """

    def __init__(self, at: npt.NDArray[Any], lengths: Codes, values: Floats | None, size: int, most: int) -> None:
        self._often: Any = None
        if values is None:
            sums = np.zeros(max(1, size), dtype=np.int64)
            for some in _runs(at):
                sums += np.bincount(some, minlength=len(sums))
            sums *= most
            kind = np.min_scalar_type(int(sums.max()))
            if kind.itemsize > SHORT.itemsize and size > MANY:
                many = sums > np.iinfo(SHORT).max
                self._rows = np.flatnonzero(many)
                their, held = (np.cumsum(many) - 1).astype(at.dtype), many[at]
                own, some = np.zeros_like(lengths), np.flatnonzero(lengths)
                starts = np.cumsum(lengths, dtype=np.int64)[some] - lengths[some]
                own[some] = np.add.reduceat(held, starts, dtype=lengths.dtype)
                self._often = _matrix(np.ones(int(own.sum()), dtype=kind), their[at[held]], own, len(self._rows))
                at, lengths, kind = at[~held], lengths - own, SHORT
            values = np.ones(len(at), dtype=kind)
        self._others: Any = _matrix(values, at, lengths, size)

    def under(self, weights: Times) -> _Shown:
        most = np.asarray(self._others @ weights.astype(self._others.dtype))
        if self._often is None:
            return _Shown(most, np.zeros(0, dtype=np.int64), most[:0])
        return _Shown(most, self._rows, np.asarray(self._often @ weights.astype(self._often.dtype)))


SHORT = np.dtype(np.uint16)

MANY = 1 << 12
"""Items whose sums do not stay in the nearest memory."""


def _matrix(values: npt.NDArray[Any], columns: npt.NDArray[Any], lengths: npt.NDArray[Any], size: int) -> Any:
    """What was shown (size, users)."""
    from scipy.sparse import csc_array

    starts = np.append(0, np.cumsum(lengths, dtype=columns.dtype)).astype(columns.dtype)
    return csc_array((values, columns, starts), shape=(size, len(lengths)))
