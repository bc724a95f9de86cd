"""What users are shown: lists cut from their scores, how often each group of users was shown each item, and both resampled."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from evenhand.attention import parse
from evenhand.cards import Floats, is_whole
from evenhand.errors import EvenhandError, listing
from evenhand.labels import in_order, listed, missing, plain, several
from evenhand.tallies.ragged import (
    Bools,
    Ints,
    Ragged,
    batches_of_rows,
    cells_of,
    padded_cells,
    similar_rows,
    starts_of,
)
from evenhand.tallies.spectrum import Spectrum

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch
    from evenhand.sources.scores import Facts, Scores, Slice

Codes = npt.NDArray[np.int32]
Ties = Literal["first", "last", "fractional"]

MARKS = (
    "users",
    "viewers",  # users shown something
    "cells",  # scores that are not missing
    "score",
    "seekers",  # users with something relevant, and on: only where there is a truth
    "either",  # users shown something or with something relevant
    "precision",
    "recall",
    "f1",
    "rated",  # cells with both a score and a truth
    "square",
    "absolute",
)
"""Sums over the users of a group, in this order."""

AT = {name: i for i, name in enumerate(MARKS)}
UNJUDGED = AT["seekers"]
"""How many of the marks there are without a truth."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How scores become "shown": the `top` best, all from `threshold` up, or everything."""

    top: int | None = None
    threshold: float | None = None
    ties: Ties = "first"

    @classmethod
    def checked(cls, top: Any, threshold: Any, ties: Any, *, prefix: str = "") -> Cut:
        """A cut from what the user typed; `prefix` is `"true_"` for the truth."""
        if ties not in get_args(Ties):
            raise EvenhandError(f"ties={ties!r} is unknown. Use 'first', 'last' or 'fractional'.")
        if top is not None and threshold is not None:
            raise EvenhandError(
                f"{prefix}top={top!r} and {prefix}threshold={threshold!r} are both given. Pass one of them."
            )
        if top is not None and (isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 1):
            raise EvenhandError(f"{prefix}top={top!r} is not a number of items. Pass a whole number of 1 or more.")
        if threshold is not None:
            number = isinstance(threshold, (int, float, np.integer, np.floating)) and not isinstance(threshold, bool)
            if not number or np.isnan(threshold):
                raise EvenhandError(
                    f"{prefix}threshold={threshold!r} is not a number. Pass the lowest score that is shown."
                )
        return cls(None if top is None else int(top), None if threshold is None else float(threshold), ties)

    @property
    def is_given(self) -> bool:
        return self.top is not None or self.threshold is not None

    def shown(self, scores: Ragged) -> tuple[Ragged, Bools]:
        """How much of each item each user is shown (tied items may share a slot), and who had ties.

        >>> Cut(top=2, ties="fractional").shown(Ragged.from_matrix(np.array([[0.5, 0.5, 0.5, 0.1]])))[0].values.round(2).tolist()
        [0.67, 0.67, 0.67]
        """
        tied = np.zeros(len(scores.starts) - 1, dtype=bool)
        if self.top is None:
            threshold = -np.inf if self.threshold is None else self.threshold
            with np.errstate(over="ignore"):
                single = np.float32(
                    threshold
                )  # 0.7 stored in single precision lies below 0.7, and reaches it all the same
            weights = ((scores.values >= threshold) | (scores.values == float(single))).astype(np.float64)
            return scores.where(weights > 0, weights), tied
        weights = np.ones(len(scores.values))
        longer = np.flatnonzero(scores.lengths > self.top)
        for some in similar_rows(scores.lengths[longer], 1 << 22):  # 32 MB
            rows = longer[some]
            at, inside = padded_cells(scores.starts, rows)
            block, tied[rows] = _best(np.where(inside, scores.values[at], -np.inf), inside, self.top, self.ties)
            weights[at[inside]] = block[inside]
        return scores.where(weights > 0, weights), tied


def _best(x: Floats, inside: Bools, top: int, ties: Ties) -> tuple[npt.NDArray[Any], Bools]:
    """Weights of the `top` best cells of each row, and whether the last slot was tied."""
    last = x.shape[1] - top
    lowest = np.partition(x, last, axis=1)[:, last, None]  # the last of the `top` best of each row
    over, on = x > lowest, (x == lowest) & inside
    free, equal = top - np.count_nonzero(over, axis=1), np.count_nonzero(on, axis=1)
    tied = equal > free
    if ties == "fractional":
        return over + on * (free / equal)[:, None], tied
    some = np.flatnonzero(tied)
    if len(some):
        split = on[some] if ties == "first" else on[some, ::-1]
        split &= np.cumsum(split, axis=1) <= free[some, None]
        on[some] = split if ties == "first" else split[:, ::-1]
    return over | on, tied


@dataclass(frozen=True, slots=True)
class Reading:
    """How scores become "shown" and truth becomes "relevant".

    `normalize` brings both to [0, 1] first, by the range of both or, with `scores_only`, of the scores; `fill` shows missing items
    too, as if they scored lowest (holisticai does);
    `listed` means that every row is shown as it stands.
    """

    shown: Cut
    true: Cut
    normalize: bool = False
    scores_only: bool = False
    fill: bool = False
    listed: bool = False

    @property
    def shows(self) -> bool:
        """Whether it is said what is shown."""
        return self.listed or self.shown.is_given

    def scale(self, facts: Facts, truth_facts: Facts | None) -> tuple[float, float]:
        """Offset and width that scale scores and truth: the range of both, or of the scores alone."""
        both = [f for f in (facts, None if self.scores_only else truth_facts) if f is not None and f.cells]
        return scale_of(min(f.low for f in both), max(f.high for f in both)) if self.normalize and both else (0.0, 1.0)

    def allows_any_item(self, part: Slice) -> bool:
        """Whether any item could have been shown to any user: no score is missing."""
        return self.listed or self.fill or part.facts.cells == part.user_count * part.item_count


@dataclass(frozen=True, slots=True)
class UserLists:
    """The items that every user was shown, end to end, and sums over their scores.

    Attributes
    ----------
    lengths : (U,) how many items each user was shown; items : (n,) their numbers.
    values : (n,) how much of a slot each had; None where all had one.
    marks : (U, M) the first of `MARKS`, of each user.
    tied : (U,) who had a tie at the last slot.
    offered : a row per user with the items that they have a score for, where those are kept.
    """

    lengths: Codes
    items: Codes
    values: Floats | None
    marks: Floats
    tied: Bools
    offered: Ragged | None = None

    @classmethod
    def joined(cls, parts: Sequence[UserLists]) -> UserLists:
        lengths, items, marks, tied = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "items", "marks", "tied")
        )
        values = None
        if any(part.values is not None for part in parts):
            values = np.concatenate([part.parts for part in parts])
        offered = [part.offered for part in parts if part.offered is not None]
        return cls(lengths, items, values, marks, tied, Ragged.joined(offered) if len(offered) == len(parts) else None)

    @classmethod
    def per_slice(cls, scores: Scores, readings: Sequence[Reading]) -> list[UserLists]:
        """The lists of every slice, under its own reading, in one pass over all scores."""
        ends = np.cumsum([0, *(part.user_count for part in scores.slices)])
        cuts = tuple(SliceCut(part, r) for part, r in zip(scores.slices, readings, strict=True))
        pieces = scores.engine.tallied(
            scores.query, ["owner"], ["is_truth", "item"], partial(_cut_users, ends=ends, cuts=cuts)
        )
        for role, repeats in zip(
            ("scores", "relevant"), zip(*(piece.repeats for piece in pieces), strict=True), strict=False
        ):
            if more := sum(count for count, _, _ in repeats):
                raise scores.repeated(role, more, *min((owner, item) for count, owner, item in repeats if count))
        return [cut.whole(pieces, i, int(ends[i + 1] - ends[i])) for i, cut in enumerate(cuts)]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Ints:
        return starts_of(self.lengths)

    @property
    def slots(self) -> Floats:
        if self.values is None:
            return self.lengths.astype(np.float64)
        return np.asarray(np.bincount(np.repeat(np.arange(len(self)), self.lengths), self.values, len(self)))

    @property
    def parts(self) -> Floats:
        """(n,) how much of a slot each item had."""
        return np.ones(len(self.items)) if self.values is None else self.values

    @property
    def is_judged(self) -> bool:
        """Whether there was a truth to hold the scores against."""
        return bool(self.marks.shape[1] > UNJUDGED)

    def take(self, users: Ints) -> UserLists:
        at, _ = cells_of(self.starts, users)
        offered = None
        if self.offered is not None:
            cells, starts = cells_of(self.offered.starts, users)
            offered = Ragged(starts, self.offered.items[cells], self.offered.values[cells])
        values = None if self.values is None else self.values[at]
        return UserLists(self.lengths[users], self.items[at], values, self.marks[users], self.tied[users], offered)

    def odds(self) -> Ragged | None:
        """The chance of every scored item to be on its user's list, if that were filled at random.

        None where slots are shared, and where what users have a score for was not kept.
        """
        if self.offered is None or self.values is not None or not len(self):
            return None
        offered = self.offered
        return Ragged(offered.starts, offered.items, (self.slots / np.maximum(offered.lengths, 1))[offered.rows])

    def per_user(self, per_slot: npt.NDArray[Any]) -> Floats:
        """(U,) sums of a number per slot over the slots of each user."""
        return np.asarray(np.diff(np.concatenate([[0.0], np.cumsum(per_slot)])[self.starts]))

    def summed(self, codes: Ints, groups: int, items: int) -> tuple[Floats, Floats]:
        """(G, J) times shown to each group, and (J,) sums of an item's shares of users' slots."""
        counts, spread = np.zeros(groups * items), np.zeros(items)
        with np.errstate(divide="ignore"):
            share = 1 / self.slots
        starts = self.starts
        for first, last in batches_of_rows(starts, max(1 << 20, groups * items)):
            users, at = slice(first, last), slice(int(starts[first]), int(starts[last]))
            lengths = self.lengths[users]
            cells = np.repeat(codes[users] * items, lengths) + self.items[at]
            values = None if self.values is None else self.values[at]
            counts += np.bincount(cells, values, groups * items)
            shares = np.repeat(share[users], lengths)
            spread += np.bincount(self.items[at], shares if values is None else shares * values, items)
        return counts.reshape(groups, items), spread


@dataclass(frozen=True, slots=True)
class SliceCut:
    """How the scores of one slice are cut into lists."""

    part: Slice
    reading: Reading

    @property
    def keeps_offered(self) -> bool:
        """Whether scores are kept for what lists filled at random would give."""
        most_offered, part = 2_000_000, self.part
        return not self.reading.allows_any_item(part) and self.reading.shows and part.facts.cells <= most_offered

    def lists(self, scores: Ragged, truth: Ragged) -> UserLists:
        """Lists of users, given their scores and the truth."""
        scores, relevant = self._ready(scores, self.reading.shown), self._ready(truth, self.reading.true)
        user_lists = tabulate(
            scores,
            None if self.part.truth_facts is None else relevant,
            self.reading.shown,
            self.reading.true,
            self.part.item_count,
        )
        if not self.keeps_offered:
            user_lists = replace(user_lists, offered=None)
        if self.reading.shows:
            return user_lists
        return replace(user_lists, lengths=np.zeros_like(user_lists.lengths), items=user_lists.items[:0], values=None)

    def _ready(self, cells: Ragged, cut: Cut) -> Ragged:
        """Cells that are not missing, items by their number in the slice, values scaled."""
        cells = cells.drop_missing()
        places = self.part.items
        if len(places) and len(places) <= places[-1]:
            cells = Ragged(cells.starts, np.searchsorted(places, cells.items), cells.values)
        if self.reading.normalize:
            offset, width = self.reading.scale(self.part.facts, self.part.truth_facts)
            cells = Ragged(cells.starts, cells.items, (cells.values - offset) / width)
        return cells.filled(cut.top, self.part.item_count) if self.reading.fill and cut.top is not None else cells

    def whole(self, pieces: Sequence[Piece], at: int, users: int) -> UserLists:
        """The lists of all users of a slice in order, those without a row included."""
        slice_parts = [part for piece in pieces for i, part in piece.parts if i == at]
        owners = np.concatenate([np.zeros(0, dtype=np.int64), *(owner for owner, _ in slice_parts)])
        absent = np.setdiff1d(np.arange(users), owners, assume_unique=True)
        lists = [part for _, part in slice_parts]
        if len(absent) or not lists:
            nothing = Ragged(np.zeros(len(absent) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
            owners = np.append(owners, absent)
            lists.append(self.lists(nothing, nothing))
        joined = UserLists.joined(lists)
        return joined if (owners[1:] > owners[:-1]).all() else joined.take(np.argsort(owners))


Repeats = tuple[int, int, int]
"""How many rows are too many, and the first owner and item that have several."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Lists of a batch of users by slice, with user codes; and repeated (user, item) pairs."""

    parts: Sequence[tuple[int, tuple[Ints, UserLists]]]
    repeats: tuple[Repeats, Repeats]


def _cut_users(batch: Batch, ends: Ints, cuts: Sequence[SliceCut]) -> Piece:
    """The lists of a batch of whole users; those of slice i are `ends[i]` to `ends[i + 1]`."""
    owners, lengths = batch.firsts(["owner"]).integers("owner"), np.diff(batch.starts)
    items, values = batch.integers("item"), batch.floats("value")
    is_truth = batch.integers("is_truth").astype(bool)
    user = np.repeat(np.arange(len(owners)), lengths)
    repeated = np.flatnonzero((items[1:] == items[:-1]) & (is_truth[1:] == is_truth[:-1]) & (user[1:] == user[:-1]))
    repeats = [_repeats(repeated[is_truth[repeated] == kind], owners[user], items) for kind in (False, True)]
    slices = np.searchsorted(ends, owners, side="right") - 1
    parts = []
    for i in np.unique(slices).tolist():
        chosen = slices == i
        rows, numbers = np.repeat(chosen, lengths), (np.cumsum(chosen) - 1)[user]
        tables = []
        for kind in (False, True):
            at = np.flatnonzero(rows & (is_truth == kind))
            starts = starts_of(np.bincount(numbers[at], minlength=int(chosen.sum())))
            tables.append(Ragged(starts, items[at], values[at]))
        parts.append((i, (owners[chosen] - ends[i], cuts[i].lists(*tables))))
    return Piece(parts, (repeats[0], repeats[1]))


def _repeats(at: Ints, owners: Ints, items: Ints) -> Repeats:
    if not len(at):
        return 0, 0, 0
    first = at[np.lexsort((items[at], owners[at]))[0]]
    return len(at), int(owners[first]), int(items[first])


def tabulate(scores: Ragged, truth: Ragged | None, shown_by: Cut, true_by: Cut, items: int) -> UserLists:
    """Lists of users, with sums that compare them with the truth; both have one row per user."""
    shown, tied = shown_by.shown(scores)
    slots = shown.sums(shown.values)
    real = np.isfinite(scores.values)  # a convention may fill missing scores with -inf
    marks = {"users": np.ones(len(slots)), "viewers": slots > 0, "cells": scores.sums(real.astype(np.float64))}
    marks["score"] = scores.sums(np.where(real, scores.values, 0.0))
    if truth is not None:
        relevant = truth.where(truth.values > 0, np.ones(len(truth.values)))
        marks |= _judge(shown, slots, true_by.shown(truth)[0] if true_by.is_given else relevant, items)
        marks |= _errors(scores, truth, items)
    columns = np.column_stack([marks[name] for name in MARKS if name in marks]).astype(np.float64)
    lengths, listed = (part.astype(np.int32) for part in (shown.lengths, shown.items))
    return UserLists(lengths, listed, None if shown.is_binary else shown.values, columns, tied, scores)


def _judge(shown: Ragged, slots: Floats, relevant: Ragged, items: int) -> dict[str, Any]:
    """Precision, recall and F1 of every user (0 where undefined), and who has relevant items."""
    relevant_items = relevant.sums(relevant.values)
    at = shown.lookup(relevant, items)
    hits = shown.sums(shown.values * np.where(at >= 0, np.append(relevant.values, 0.0)[at], 0.0))

    def ratio(over: Floats, times: float = 1.0) -> Floats:
        return np.divide(times * hits, over, out=np.zeros_like(hits), where=over > 0)

    either = slots + relevant_items
    return {
        "seekers": relevant_items > 0, "either": either > 0, "precision": ratio(slots),
        "recall": ratio(relevant_items), "f1": ratio(either, 2.0),
    }  # fmt: skip


def _errors(scores: Ragged, truth: Ragged, items: int) -> dict[str, Floats]:
    """How many scores of every user have a truth, and their squared and absolute errors."""
    at = scores.lookup(truth, items)
    with np.errstate(invalid="ignore"):
        error = np.where(at >= 0, scores.values - np.append(truth.values, 0.0)[at], np.nan)
    defined = np.isfinite(error)
    error = np.where(defined, error, 0.0)
    cells = {"rated": defined.astype(np.float64), "square": error**2, "absolute": np.abs(error)}
    return {name: scores.sums(values) for name, values in cells.items()}


def scale_of(low: float, high: float) -> tuple[float, float]:
    """Offset and width that bring scores to [0, 1]; equal scores all become 0."""
    return (low, high - low) if high > low else (low if np.isfinite(low) else 0.0, 1.0)


@dataclass(frozen=True)
class Lists:
    """Attention that items get from the lists of users.

    Attributes
    ----------
    received : (J,) attention on each item, averaged over users.
    square : sum over items of the squared attention that a user gives each, averaged over users.
    """

    received: Floats
    square: float

    @classmethod
    def from_arrays(cls, lists: Any, items: Any = None, attention: Any = "rbp(patience=0.8)") -> Lists:
        """From the numbers of the items shown to each user, best first; there are so many `items`.

        >>> Lists.from_arrays([[0, 1], [1]], items=3, attention="rbp(patience=0.5)").received.tolist()
        [0.5, 0.75, 0.0]
        """
        if not is_whole(items, least=0):
            raise EvenhandError(f"items={items!r} is not the size of a catalogue. Pass how many items there are.")
        lengths = np.array([len(row) for row in lists], dtype=np.int64)
        shown = np.array([item for row in lists for item in row])
        if shown.size and (shown.dtype.kind not in "iu" or shown.min() < 0 or shown.max() >= items):
            raise EvenhandError(f"lists holds what is no item. Pass numbers from 0 to {items - 1}.")
        rows = np.repeat(np.arange(len(lengths)), lengths)
        if len(np.unique(rows * max(items, 1) + shown.astype(np.int64))) < len(shown):
            raise EvenhandError("A list shows an item twice. Pass each item of a user once.")
        model = parse(attention)
        if model.needs_relevance:
            raise EvenhandError(
                f"attention={attention!r} needs relevance, which lists do not have. Pass rbp, log or geometric."
            )
        ranks = np.arange(len(shown)) - np.repeat(lengths.cumsum() - lengths, lengths)
        weight = model.weights(int(lengths.max(initial=0)))[ranks]
        if not len(lengths):
            return cls(np.zeros(0), 0.0)
        received = np.bincount(shown.astype(np.int64), weight, minlength=items) / len(lengths)
        return cls(received.astype(np.float64), float((weight**2).sum() / len(lengths)))


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
