"""Lists that users are shown (`top` best, or all from `threshold` up): one loop over users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from evenhand.attention import parse
from evenhand.cards import Floats, is_whole
from evenhand.errors import EvenhandError
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
