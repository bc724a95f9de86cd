"""How often each group of users was shown each item, from the lists of users, and resampled."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, listing
from evenhand.labels import in_order, listed, missing, plain, several
from evenhand.tallies.ragged import Ints, Ragged
from evenhand.tallies.spectrum import Spectrum
from evenhand.tallies.user_lists import AT, MARKS, Cut, UserLists, scale_of, tabulate

MOST_CELLS = 1 << 21
"""Cells (draws x groups x items) that replicates have at a time, beyond one draw: 16 MB."""

Times = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Crosstab:
    """How often each item was shown to each group of users, with sums over these users.

    Attributes
    ----------
    counts : (..., G, J) times each item was shown to the users of each group; leading axes are replicates.
    spread : (..., J) sum over users of the share of their own slots that went to the item.
    marks : (..., G, M) sums over the users of each group, by `MARKS`.
    pair : rows of the source's groups a (`versus`) and b (`protected`).
    judged : whether there was a truth to hold the scores against.
    cut : whether it was said what is shown.
    lengths : (K + 1,) how many users were shown 0, 1, ... K items; None where slots are shared or anybody's list could not
        hold any item.
    odds : a row per user with the items that the user has a score for, and the chance of each to be on a list of the same
        length filled with them at random; None where any item could be shown to anybody (`lengths` says it all), where slots
        are shared, and where there are too many.
    unshown : where only items that anybody is shown have a column, how many more items the catalogue has.
    for_each : (...,) how many users stand for each that was drawn: 1, but where draws vary in how many they hold.
    lists : the lists that were counted, one per user; None in replicates.
    """

    counts: Floats
    spread: Floats
    marks: Floats
    pair: tuple[int, int] | None = None
    judged: bool = False
    cut: bool = True
    lengths: Floats | None = None
    odds: Ragged | None = None
    unshown: int = 0
    for_each: Floats | float = 1.0
    lists: UserLists | None = None

    @classmethod
    def from_arrays(
        cls,
        scores: Any,
        user_groups: Any = None,
        protected: Any = None,
        versus: Any = None,
        relevant: Any = None,
        top: int | None = None,
        threshold: float | None = None,
        ties: Literal["first", "last", "fractional"] = "first",
        true_top: int | None = None,
        true_threshold: float | None = None,
        normalize: bool = False,  # noqa: FBT001, FBT002
    ) -> Crosstab:
        """Tally a dense users x items array (NaN is missing), with one group label per row.

        >>> Crosstab.from_arrays([[0.9, 0.2], [0.1, 0.8]], ["a", "b"], top=1).counts[:2].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        from evenhand.sources.scores import dense_matrix

        matrix = dense_matrix(scores, "scores").astype(np.float64)
        truth = None if relevant is None else dense_matrix(relevant, "relevant").astype(np.float64)
        if any(np.isposinf(m).any() for m in (matrix, truth) if m is not None):
            raise EvenhandError("Some scores are infinite. Pass finite scores; NaN marks a missing one.")
        if truth is not None and truth.shape != matrix.shape:
            raise EvenhandError(
                f"relevant has shape {truth.shape} and scores {matrix.shape}. Pass one truth per score."
            )
        if normalize:
            defined = np.concatenate([m[np.isfinite(m)] for m in (matrix, truth) if m is not None])
            offset, width = scale_of(float(defined.min()), float(defined.max())) if len(defined) else (0.0, 1.0)
            matrix, truth = (matrix - offset) / width, None if truth is None else (truth - offset) / width
        shown_by = Cut.checked(top, threshold, ties)
        true_by = Cut.checked(true_top, true_threshold, ties, prefix="true_")
        true_rows = None if truth is None else Ragged.from_matrix(truth)
        lists = tabulate(Ragged.from_matrix(matrix), true_rows, shown_by, true_by, matrix.shape[1])
        codes, groups, pair = np.zeros(len(matrix), dtype=np.int64), 1, None
        if user_groups is not None:
            labels = _user_labels(user_groups, len(matrix))
            user_rows = UserGroups.from_labels(labels, protected, versus)
            codes, groups, pair = user_rows.codes(labels), user_rows.groups, user_rows.single_pair()
        everywhere = bool(np.isfinite(matrix).all())
        total = cls.from_lists(lists, codes, groups, matrix.shape[1], cut=shown_by.is_given, everywhere=everywhere)
        return replace(total, pair=pair)

    @classmethod
    def from_lists(
        cls, lists: UserLists, codes: Ints, groups: int, items: int, *, cut: bool, everywhere: bool
    ) -> Crosstab:
        """Sums over the users of each group; `everywhere`: any item could be shown to anybody."""
        counts, spread = lists.summed(codes, groups, items)
        marks = np.zeros((groups, len(MARKS)))
        for column, values in enumerate(lists.marks.T):
            marks[:, column] = np.bincount(codes, values, groups)
        lengths = None
        if everywhere and lists.values is None:
            lengths = np.bincount(lists.lengths, minlength=1).astype(np.float64)
        odds = None if everywhere else lists.odds()
        return cls(counts, spread, marks, judged=lists.is_judged, cut=cut, lengths=lengths, odds=odds, lists=lists)

    def mark(self, name: str) -> Floats:
        """One of the `MARKS` for every group: (..., G)."""
        return np.asarray(self.marks[..., AT[name]])

    @property
    def items(self) -> int:
        return int(self.counts.shape[-1]) + self.unshown

    @property
    def counted_lists(self) -> UserLists:
        if self.lists is None:
            raise ValueError("a replicate holds no lists")
        return self.lists

    @cached_property
    def popularity(self) -> Floats:
        """Times each item was shown to anybody: (..., J)."""
        self._need_cut()
        return np.asarray(self.counts.sum(-2))

    @cached_property
    def spectrum(self) -> Spectrum:
        """How many items were shown how often, those never shown included."""
        return spectrum_of(self.popularity, self.unshown)

    def balanced(self) -> Floats:
        """(J,) times shown as equal as the number of slots allows."""
        each, over = divmod(float(self.counts.sum()), self.items)
        return np.asarray(each + (np.arange(self.items) < over), dtype=np.float64)

    def nested(self) -> Floats:
        """(J,) times shown if all users saw the same items, as far as lists go; needs `lengths`."""
        counts = np.zeros(self.items)
        longer = (
            () if self.lengths is None else self.lengths[::-1].cumsum()[::-1][1:]
        )  # lists of at least 1, 2, ... items
        counts[: len(longer)] = longer
        return counts

    def sides(self, name: str) -> tuple[Floats, Floats]:
        """One of the `MARKS` for `versus` and for `protected`."""
        a, b = self._pair()
        return self.mark(name)[..., a], self.mark(name)[..., b]

    def exposure(self) -> tuple[Floats, Floats]:
        """Times each item was shown to `versus` and to `protected`."""
        self._need_cut()
        a, b = self._pair()
        return self.counts[..., a, :], self.counts[..., b, :]

    @cached_property
    def slots(self) -> tuple[Floats, Floats]:
        a, b = self.exposure()
        return np.asarray(a.sum(-1)), np.asarray(b.sum(-1))

    def judgement(self, name: str) -> tuple[Floats, Floats]:
        """One of the `MARKS` that need a truth, for `versus` and for `protected`."""
        if not self.judged:
            raise EvenhandError("The metric holds scores against a truth. Pass relevant.")
        if name in ("precision", "recall", "f1"):
            self._need_cut()
        return self.sides(name)

    def _need_cut(self) -> None:
        if not self.cut:
            raise EvenhandError("The metric reads what was shown, and nothing says what was. Pass top or threshold.")

    def _pair(self) -> tuple[int, int]:
        if self.pair is None:
            raise EvenhandError(
                "The metric compares two groups of users. Pass user_groups, and protected where there are more than two."
            )
        return self.pair

    def between(self, versus: int, protected: int) -> Crosstab:
        return replace(self, pair=(versus, protected))

    def reason(self) -> str:
        return "" if self.items and self.mark("users").any() else "empty"


def spectrum_of(shown: Floats, more: int = 0) -> Spectrum:
    """How often each item was shown, from times shown (..., J) and `more` items that never were.

    >>> spectrum_of(np.array([2.0, 0, 1]), more=3).counts.tolist()
    [3.0, 1.0, 1.0, 1.0]
    """
    zeros = np.zeros((*shown.shape[:-1], 1))
    values, ones = np.sort(shown, axis=-1), np.ones(shown.shape)
    return Spectrum(np.concatenate([zeros, values], -1), np.concatenate([zeros + more, ones], -1))


def _user_labels(user_groups: Any, users: int) -> list[Any]:
    if isinstance(user_groups, (str, bytes, Mapping)) or not hasattr(user_groups, "__len__"):
        raise EvenhandError(f"user_groups={user_groups!r} is not a list of labels. Pass one label per row of scores.")
    if len(user_groups) != users:
        raise EvenhandError(
            f"user_groups has {len(user_groups):,} labels for {users:,} users. Pass one label per row of scores."
        )
    labels = [plain(label) for label in listed(user_groups)]
    if not all(isinstance(label, Hashable) for label in labels):
        raise EvenhandError(
            "user_groups holds lists or other unhashable things. Pass one plain label per row of scores."
        )
    return labels


@dataclass(frozen=True, slots=True)
class UserGroups:
    """User groups as rows of a tally.

    Attributes
    ----------
    names : the groups, one row each; behind them come a row for users of unknown group and a row for nobody.
    rows : the row of each label as the user wrote it; labels taken together share one.
    pairs : (versus, protected) rows to compare.
    """

    names: tuple[str, ...]
    rows: Mapping[Any, int]
    pairs: tuple[tuple[int, int], ...]

    @property
    def unknown(self) -> int:
        return len(self.names)

    @property
    def groups(self) -> int:
        return len(self.names) + 2

    @classmethod
    def from_labels(cls, labels: Iterable[Any], protected: Any = None, versus: Any = None) -> UserGroups:
        """Every pair of groups, or those of `protected` and `versus` (a label, or several merged).

        Left to themselves, the first of two groups in order is `versus` and the second `protected`, as in the seed.

        >>> UserGroups.from_labels(["a", "b", "c"], protected="c").pairs
        ((0, 2), (1, 2))
        """
        distinct = in_order({label for label in labels if not missing(label)})
        b, a = (tuple(in_order({plain(label) for label in several(side)})) for side in (protected, versus))
        merged = {**dict.fromkeys(a, a), **dict.fromkeys(b, b)}
        parts = list(dict.fromkeys([merged.get(label, (label,)) for label in distinct]))
        parts += [side for side in (a, b) if side and side not in parts]
        at = {part: i for i, part in enumerate(parts)}
        nobody = len(parts) + 1
        if a and b:
            pairs = [(at[a], at[b])]
        elif b:
            pairs = [(i, at[b]) for part, i in at.items() if part != b] or [(nobody, at[b])]
        elif a:
            pairs = [(at[a], i) for part, i in at.items() if part != a] or [(at[a], nobody)]
        else:
            pairs = list(combinations(range(len(parts)), 2)) or [(0, nobody)]
        rows = {label: at[merged.get(label, (label,))] for label in (*distinct, *merged)}
        return cls(tuple(", ".join(map(str, part)) for part in parts), rows, tuple(pairs))

    def codes(self, labels: Any) -> np.typing.NDArray[np.int64]:
        """The row of every user."""
        return np.fromiter((self.rows.get(plain(label), self.unknown) for label in labels), dtype=np.int64)

    def single_pair(self) -> tuple[int, int]:
        """The one pair to compare; several are refused."""
        if len(self.pairs) > 1:
            raise EvenhandError(
                f"There are {len(self.names)} groups of users: {listing(self.names)}. Pass protected and versus."
            )
        return self.pairs[0]

    def name(self, row: int) -> str:
        return self.names[row] if row < len(self.names) else "(nobody)"


class Weights(Protocol):
    """How often each user counts in each draw, in `rows` of the crosstab."""

    @property
    def draws(self) -> int: ...
    @property
    def rows(self) -> Ints: ...

    def between(self, start: int, stop: int) -> Iterator[tuple[int | Ints, Times]]:
        """For some draws, the row where users count (one for all, or one each) and weights (U, D).

        Called for the same draws, it gives the same weights.
        """
        ...


class ResampledLists:
    """D crosstabs of lists under weights: sparse products with a few draws at a time."""

    def __init__(self, lists: UserLists, weights: Weights) -> None:
        self._lists, self._weights = lists, weights
        self._shown_items, columns = np.unique(lists.items, return_inverse=True)
        self._columns = columns.reshape(-1)
        self._parts = np.ones(len(lists.items), dtype=np.float32) if lists.values is None else lists.values
        self._shown = self._matrix(self._parts, self._columns, len(self._shown_items))
        lengths = np.unique(lists.slots[lists.slots > 0])
        self._slots_each = lengths[0] if len(lengths) == 1 else None  # of most recommenders, and half of the work
        if self._slots_each is None:
            with np.errstate(divide="ignore"):
                shares = np.repeat(1 / lists.slots, lists.lengths) * lists.parts
            self._shares = self._matrix(shares, self._columns, len(self._shown_items))
        self._placed: Any = None

    def crosstabs(self, total: Crosstab) -> Iterator[Crosstab]:
        """The replicates of a crosstab, on a leading axis, a bounded number at a time.

        They have a column for items that anybody is shown.
        """
        groups, items, shown_items = *total.counts.shape, len(self._shown_items)
        rows, draws = self._weights.rows, self._weights.draws
        users = float(total.mark("users")[rows].sum())
        cells = max(1, len(rows) * shown_items)
        # Products with fewer than 16 columns are slow; weights (users x draws) take a byte each, at most 8 MB beyond that.
        at_once = max(1, MOST_CELLS // cells, min(16, 2 * MOST_CELLS // cells))
        at_once = min(at_once, max(16, (1 << 23) // max(1, len(self._lists))))
        for start in range(0, draws, at_once):
            stop = min(start + at_once, draws)
            counts, spread = np.zeros((groups, shown_items, stop - start)), np.zeros((shown_items, stop - start))
            marks = np.zeros((groups, stop - start, total.marks.shape[1]))
            self._add(start, stop, counts, spread, marks)
            drawn = marks[rows, :, 0].sum(0)
            yield Crosstab(
                np.moveaxis(counts, -1, 0), spread.T, np.moveaxis(marks, 1, 0), total.pair, total.judged, total.cut,
                unshown=items - shown_items,
                for_each=np.divide(users, drawn, out=np.ones_like(drawn), where=drawn > 0),
            )  # fmt: skip

    def _add(self, start: int, stop: int, counts: Floats, spread: Floats, marks: Floats) -> None:
        """Add some draws to times shown (G, J, D), shares of slots (J, D) and marks (G, D, M)."""
        rows, user_marks = self._weights.rows, self._lists.marks
        for place, drawn in self._weights.between(start, stop):
            # Whole sums below 2^24 are exact in single precision, which is half the memory to move.
            is_exact = self._lists.values is None and len(self._lists) * int(drawn.max(initial=0)) < 1 << 24
            weights = drawn.astype(np.float32 if is_exact else np.float64)
            if isinstance(place, int):
                shown, at, members = (self._shown @ weights)[None], rows[[place]], [slice(None)]
            else:
                shown, at, members = self._shown_by_place(place, weights), rows, [place == i for i in range(len(rows))]
            counts[at] += shown
            if self._slots_each is None:
                spread += self._shares @ weights.astype(np.float64)
            else:
                spread += shown.sum(0, dtype=np.float64) / self._slots_each
            for row, users in zip(at, members, strict=True):
                marks[row, :, : user_marks.shape[1]] += weights[users].T.astype(np.float64) @ user_marks[users]

    def _shown_by_place(self, place: Ints, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(places, J, D), where every user has a place."""
        places, size = len(self._weights.rows), len(self._shown_items)
        if self._placed is None:
            at = np.repeat(place * size, self._lists.lengths) + self._columns
            self._placed = self._matrix(self._parts, at, places * size)
        return np.asarray(self._placed @ weights).reshape(places, size, weights.shape[1])

    def _matrix(self, values: npt.NDArray[Any], at: Ints, size: int) -> Any:
        """Sparse (size, users)."""
        from scipy.sparse import csc_array

        return csc_array((values, at, self._lists.starts), shape=(size, len(self._lists)))
