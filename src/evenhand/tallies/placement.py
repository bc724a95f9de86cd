"""Which group stands at each rank, for many rankings: all that a prefix metric may see."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.distances import total
from evenhand.errors import EvenhandError
from evenhand.labels import in_order, listed, several

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNKNOWN = -1
ROOM = 2
"""How many times the entries that they need tables may have, so that several are laid out alike."""
MOST_CELLS = 1 << 16
"""Ranks handled at a time: keeps the working arrays in cache, and memory flat however many rankings there are."""


@dataclass(frozen=True)
class Placement:
    """The label at every rank of many rankings, end to end.

    Attributes
    ----------
    codes : (T,) group of each item in rank order, an index into `groups`; -1 where the label is unknown.
    starts : (R + 1,) ranking r is codes[starts[r]:starts[r + 1]].
    groups : the labels.
    protected : indices of the labels that together are the protected group, or None when no side is singled out.
    rows : (T, g) share of each group in each item where items may belong to several; `codes` then only says which
        items are unknown.
    depth : how many ranks are looked at where later ones only tell what the whole list holds; None looks at all.
    """

    unlabelled: ClassVar[str] = "keep their rank, count in no share"

    codes: npt.NDArray[Any]
    starts: Ints
    groups: tuple[Any, ...]
    protected: tuple[int, ...] | None = None
    rows: Floats | None = None
    depth: int | None = None

    @classmethod
    def from_arrays(cls, labels: Any, protected: Any = None, groups: Any = None) -> Placement:
        """One ranking from its labels in rank order; None is unknown.

        Rows that share an item out, `{group: share}` or an (n, g) array with `groups`, are taken too.

        >>> Placement.from_arrays(["a", None, "b"], protected="a").codes.tolist()
        [0, -1, 1]
        """
        placement = _soft_rows(labels, groups)
        if placement is None:
            codes, distinct = encoded(labels)
            placement = cls(codes, np.array([0, len(codes)]), distinct)
        return placement.protecting(protected)

    def protecting(self, protected: Any) -> Placement:
        """These rankings with a protected label, or several merged; a label that no item has is an empty group."""
        if protected is None:
            return replace(self, protected=None)
        names = several(protected)
        if not names or None in names or not all(isinstance(label, Hashable) for label in names):
            raise EvenhandError(f"protected={protected!r} names no label. Pass one label, or several taken together.")
        groups = (*self.groups, *(label for label in dict.fromkeys(names) if label not in self.groups))
        protected_codes = tuple(sorted(groups.index(label) for label in set(names)))
        return replace(self.with_groups(groups), protected=protected_codes)

    def with_groups(self, groups: tuple[Any, ...]) -> Placement:
        """These rankings with groups that none of them shows added behind its own."""
        if groups == self.groups:
            return self
        rows = None if self.rows is None else np.pad(self.rows, ((0, 0), (0, len(groups) - len(self.groups))))
        return replace(self, groups=groups, rows=rows)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> Ints:
        """Items in each ranking, unknown ones included."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def level(self) -> int | None:
        """The length of every ranking, where all have the same."""
        lengths = self.lengths
        return int(lengths[0]) if len(lengths) and (lengths == lengths[0]).all() else None

    @cached_property
    def counts(self) -> Floats:
        """(R, g) items of each group, or their shares, in each ranking."""
        per_group = np.zeros((len(self), len(self.groups)))
        if self.rows is not None:
            for batch in self.batches():
                per_group[batch.where] = np.nan_to_num(np.asarray(batch.rows)).sum(1)
            return per_group
        some: Any = slice(None) if self.lengths.all() else np.flatnonzero(self.lengths)
        codes, starts = self.codes[: self.starts[-1]], self.starts[:-1][some]
        counted = len(self.groups) - (codes.min(initial=0) >= 0)  # without gaps, the last group has the rest
        for g in range(counted if len(starts) else 0):
            per_group[some, g] = np.add.reduceat((codes == g).view(np.int8), starts, dtype=np.int32)
        if 0 <= counted < len(self.groups):
            per_group[:, -1] = self.lengths - total(per_group[:, :-1]) if counted else self.lengths
        return per_group

    @cached_property
    def labelled(self) -> Ints:
        """(R,) items with a label."""
        if self.rows is None:
            return total(self.counts).astype(np.int64)
        owners = np.repeat(np.arange(len(self)), self.lengths)
        return np.bincount(owners, self.codes >= 0, minlength=len(self)).astype(np.int64)

    @cached_property
    def protected_counts(self) -> Floats:
        """(R,) items of the protected group."""
        return np.asarray(self.counts[:, list(self.protected or ())].sum(1))

    @cached_property
    def makeups(self) -> tuple[Ints, Ints]:
        """Where each distinct make-up (items of each group) first stands, fewest items first, and which one each ranking has."""
        return distinct_rows(self._made_of)

    @property
    def _made_of(self) -> Floats:
        """(R, ...) numbers that tell make-ups apart, labelled items first; of whole items the last group has the rest."""
        return np.column_stack([self.labelled, self.counts if self.rows is not None else self.counts[:, :-1]])

    @cached_property
    def kinds(self) -> Kinds:
        """The kind of list that each ranking is for every group."""
        return Kinds.from_placement(self, self.counts)

    @cached_property
    def first_kinds(self) -> Kinds:
        """The kind of list that each ranking is for the first group: the protected side, where there are two."""
        return Kinds.from_placement(self, self.counts[:, :1])

    def sides(self) -> Placement:
        """These rankings with two groups: 0 protected, 1 not."""
        return self._sides

    def unsided(self) -> Placement:
        """These rankings without a protected side."""
        return self._unsided

    @cached_property
    def _unsided(self) -> Placement:
        return replace(self, protected=None)

    @cached_property
    def _sides(self) -> Placement:
        if self.protected is None:
            raise EvenhandError("No side is protected. Pass protected= with one label, or several taken together.")
        if self.rows is not None:
            raise EvenhandError(
                "This metric needs one label per item, not shares. Use ndjs, pref_kl or awrf for shares."
            )
        other = self.codes != self.protected[0] if self.protected else np.ones(len(self.codes), dtype=bool)
        for label in self.protected[1:]:
            other &= self.codes != label
        side = other.view(np.int8)  # 0 or 1
        if self.codes.min(initial=0) < 0:
            side -= (self.codes < 0).view(np.int8) << 1  # 1 to -1
        return Placement(side, self.starts, side_names(self), (0,), depth=self.depth)

    def reason(self) -> str:
        """Why no prefix metric can speak about a single ranking, or nothing."""
        return str(self.reasons()[0]) if len(self) else "empty"

    def reasons(self) -> npt.NDArray[Any]:
        """(R,) why no prefix metric can speak about each ranking: empty, unlabelled or of one group only."""
        present = (self.counts > 0).sum(1)
        if self.protected is not None:
            present = (self.protected_counts > 0).astype(int) + (self.labelled - self.protected_counts > 1e-12)
        return np.select(
            [self.lengths == 0, self.labelled == 0, present < 2],
            ["empty", "no_labelled_items", "one_group_only"],
            default="",
        )

    def take(self, chosen: Ints) -> Placement:
        """Some of the rankings, in the order given."""
        if len(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1 and (np.diff(chosen) == 1).all():
            return self._run(int(chosen[0]), int(chosen[-1]) + 1)
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        codes = np.empty(int(starts[-1]), dtype=self.codes.dtype)
        rows = None if self.rows is None else np.empty((len(codes), self.rows.shape[1]), dtype=self.rows.dtype)
        moved, first = self.starts[:-1][chosen] - starts[:-1], 0
        while first < len(chosen):  # some rankings at a time: places of all ranks would take more than the ranks
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + MOST_CELLS, side="right")) - 1)
            span = slice(int(starts[first]), int(starts[last]))
            at = np.arange(span.start, span.stop) + np.repeat(moved[first:last], lengths[first:last])
            codes[span] = self.codes.take(at)
            if rows is not None and self.rows is not None:
                rows[span] = self.rows.take(at, axis=0)  # several times faster than indexing
            first = last
        return replace(self, codes=codes, starts=starts, rows=rows)

    def _run(self, first: int, last: int) -> Placement:
        """Rankings that follow each other: nothing is copied."""
        span = slice(int(self.starts[first]), int(self.starts[last]))
        rows = None if self.rows is None else self.rows[span]
        return replace(self, codes=self.codes[span], starts=self.starts[first : last + 1] - span.start, rows=rows)

    def cut(self, depth: int) -> Placement:
        """The first `depth` ranks of every ranking."""
        ranks = np.arange(len(self.codes)) - np.repeat(self.starts[:-1], self.lengths)
        keep = ranks < depth
        starts = np.concatenate([[0], np.cumsum(np.minimum(self.lengths, depth))])
        return replace(self, codes=self.codes[keep], starts=starts, rows=None if self.rows is None else self.rows[keep])

    def batches(self, most_cells: int = MOST_CELLS) -> Iterator[Batch]:
        """Rankings of similar length as padded blocks (rankings, ranks), a bounded number of cells at a time."""
        if self.level is not None:
            yield from self._level_batches(self.level, most_cells)
            return
        lengths = self.lengths
        order = np.argsort(lengths, kind="stable")
        ordered = lengths[order]
        start = 0
        while start < len(order):
            widest = int(ordered[start] * 1.25) + 4
            stop = int(np.searchsorted(ordered, widest, side="right"))
            stop = max(start + 1, min(stop, start + most_cells // max(1, int(ordered[stop - 1]))))
            yield self._block(order[start:stop])
            start = stop

    def _level_batches(self, width: int, most_cells: int) -> Iterator[Batch]:
        """Blocks of rankings of one length, end to end: views, not copies."""
        base, step = int(self.starts[0]), max(1, most_cells // max(1, width))
        for start in range(0, len(self), step):
            stop = min(start + step, len(self))
            span = slice(base + start * width, base + stop * width)
            codes = self.codes[span].reshape(stop - start, width)
            rows = None if self.rows is None else self.rows[span].reshape(stop - start, width, self.rows.shape[1])
            yield Batch(slice(start, stop), codes, self.lengths[start:stop], len(self.groups), rows)

    @cached_property
    def mixes(self) -> tuple[Mix, ...]:
        """The distinct compositions, and which ranking has which; a bounded number of cells in each part."""
        return tuple(self._mixes())

    def _mixes(self) -> Iterator[Mix]:
        gapless = self.labelled == self.lengths
        yield from self._whole_mixes(np.flatnonzero(gapless))
        if gapless.all():
            return
        rest = np.flatnonzero(~gapless)
        for batch in self.take(rest).batches():
            at = rest[batch.at]
            slots = np.packbits(batch.is_labelled, axis=1)
            keys = np.concatenate([self.lengths[at, None], self.counts[at], slots], axis=1)
            _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
            yield Mix(at[first], batch.is_labelled[first], batch.lengths[first], at, which.reshape(-1))

    def _whole_mixes(self, at: Ints) -> Iterator[Mix]:
        """Rankings without gaps: their length and counts say it all."""
        first, which = self.makeups if len(at) == len(self) else distinct_rows(self._made_of[at])
        lengths = self.lengths[at[first]]  # ascending, so blocks of compositions stay narrow
        members, edges = grouped(which, len(first))
        start = 0
        while start < len(first):
            stop = int(np.searchsorted(lengths, int(lengths[start] * 1.25) + 4, side="right"))
            stop = max(start + 1, min(stop, start + MOST_CELLS // max(1, int(lengths[stop - 1]))))
            rankings = members[edges[start] : edges[stop]]
            is_labelled = np.arange(lengths[start:stop].max()) < lengths[start:stop, None]
            yield Mix(at[first[start:stop]], is_labelled, lengths[start:stop], at[rankings], which[rankings] - start)
            start = stop

    def _block(self, chosen: Ints) -> Batch:
        lengths = self.lengths[chosen]
        width = int(lengths.max())
        inside = np.arange(width) < lengths[:, None]
        at = np.where(inside, self.starts[chosen][:, None] + np.arange(width), 0)
        codes = np.where(inside, self.codes[at], UNKNOWN) if len(self.codes) else np.full(at.shape, UNKNOWN)
        rows = None if self.rows is None else np.where(inside[..., None], self.rows.take(at, axis=0), np.nan)
        first, last = int(chosen[0]), int(chosen[-1])
        run = last - first == len(chosen) - 1 and bool((chosen[1:] > chosen[:-1]).all())
        where = slice(first, last + 1) if run else chosen
        return Batch(where, codes, lengths, len(self.groups), rows)


@dataclass(frozen=True)
class Batch:
    """Some rankings as a block: `codes` (m, W), -1 for unknown labels and past the end.

    `where` says which rankings, as a slice where they follow each other.
    """

    where: Ints | slice
    codes: npt.NDArray[Any]
    lengths: Ints
    groups: int
    rows: Floats | None = None

    @cached_property
    def at(self) -> Ints:
        """(m,) which rankings."""
        return np.arange(self.where.start, self.where.stop) if isinstance(self.where, slice) else self.where

    @property
    def width(self) -> int:
        return int(self.codes.shape[1])

    @cached_property
    def is_labelled(self) -> Bools:
        return np.asarray(self.codes >= 0)

    @cached_property
    def complete(self) -> bool:
        """Whether every rank of every ranking holds a label."""
        return not self.codes.size or int(self.codes.min()) >= 0

    @cached_property
    def seen(self) -> Ints:
        """Labelled items down to each rank: (W,) when complete, else (m, W)."""
        if self.complete:
            return np.arange(1, self.width + 1)
        return _down(self.is_labelled)

    def cum_counts(self, group: int) -> npt.NDArray[Any]:
        """(m, W) items of a group, or their shares, down to each rank."""
        if self.rows is not None:
            return np.asarray(np.cumsum(np.nan_to_num(self.rows[:, :, group]), axis=1))
        return _down(self.codes == group)


@dataclass(frozen=True)
class Mix:
    """Distinct compositions: what stays when the labelled items of a ranking are put in another order.

    Attributes
    ----------
    first : (U,) a ranking of each composition.
    is_labelled : (U, W) which ranks hold a labelled item.
    lengths : (U,) ranks, unknown ones included.
    at, which : (m,) the rankings, and the composition of each.
    """

    first: Ints
    is_labelled: Bools
    lengths: Ints
    at: Ints
    which: Ints

    def weights(self, discount: Floats) -> Floats:
        """(U, K) weight of "the first k labelled items": the discounts of every rank at which exactly k were seen.

        Unknown items keep their ranks, so the prefix metric of a ranking with gaps is that of the list without them
        under these weights.
        """
        compositions, width = self.is_labelled.shape
        inside = np.arange(width) < self.lengths[:, None]
        if np.array_equal(inside, self.is_labelled):
            return np.asarray(inside * discount)
        seen = _down(self.is_labelled)
        cells = seen + np.arange(compositions)[:, None] * (width + 1)
        sums = np.bincount(cells.ravel(), (inside * discount).ravel(), minlength=compositions * (width + 1))
        return np.asarray(sums.reshape(compositions, width + 1)[:, 1:])


@dataclass(frozen=True)
class Kinds:
    """Kinds of lists, each "so many items of a group among so many".

    Attributes
    ----------
    which : (R, G) the kind of each ranking for each group looked at.
    counts, sizes : (Q,) items of the group and labelled items in all.
    groups : (Q,) the group, where lists of other groups are of other kinds; else 0.
    """

    which: Ints
    counts: Floats
    sizes: Floats
    groups: Ints

    @classmethod
    def from_placement(cls, p: Placement, group_counts: Floats, *, by_group: bool = False) -> Kinds:
        """From (R, G) items of each group; `by_group` keeps groups of the same size separate. Shares are a kind per list."""
        examples, makeup = (np.arange(len(p)),) * 2 if p.rows is not None else p.makeups
        list_sizes, group_counts = total(p.counts[examples]), group_counts[examples]
        group = np.arange(group_counts.shape[1]) if by_group else 0
        rows = np.stack([x.ravel() for x in np.broadcast_arrays(list_sizes[:, None], group_counts, group)], axis=1)
        first, which = (np.arange(len(rows)),) * 2 if p.rows is not None else distinct_rows(rows)
        sizes, counts, groups = rows[first].T
        return cls(which.reshape(group_counts.shape).take(makeup, axis=0), counts, sizes, groups.astype(np.int64))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Kinds of about the same size and count, whose tables are laid out alike."""
        laid_out: list[Block] = []
        first = start = tall = wide = filled = 0
        shapes = ((self.sizes + 1).astype(np.int64).tolist(), (self.counts + 1).astype(np.int64).tolist())
        for i, (size, count) in enumerate(zip(*shapes, strict=True)):
            after = max(tall, size), max(wide, count), filled + size * count
            if i > first and after[0] * after[1] * (i + 1 - first) > ROOM * after[2]:
                laid_out.append(Block(first, i, start, tall, wide))
                first, start, after = i, laid_out[-1].end, (size, count, size * count)
            tall, wide, filled = after
        return (*laid_out, Block(first, len(self.sizes), start, tall, wide))

    def block(self, kinds: Ints) -> Block | None:
        """The block that all of these kinds are in."""
        low, high = int(kinds.min(initial=len(self.sizes))), int(kinds.max(initial=-1))
        return next((b for b in self.blocks if b.first <= low and high < b.last), None)

    @cached_property
    def cells(self) -> int:
        """Entries of all tables."""
        return self.blocks[-1].end

    @cached_property
    def offsets(self) -> Ints:
        """(Q,) where the table of each kind starts, all of them end to end: entry [k, c] for c items among k."""
        return np.concatenate([b.start + np.arange(b.last - b.first) * (b.tall * b.wide) for b in self.blocks])

    @cached_property
    def strides(self) -> Ints:
        """(Q,) entries from one k to the next."""
        return np.repeat([b.wide for b in self.blocks], [b.last - b.first for b in self.blocks])

    def places(self, c: Any, k: Any, kind: Any) -> Ints:
        """Where the tables hold c items of the group among the first k, for lists of these kinds."""
        return np.asarray(self.offsets[kind] + k * self.strides[kind] + c)


@dataclass(frozen=True)
class Block:
    """Tables of the kinds from `first` up to `last`, end to end from entry `start`: `tall` times `wide` entries each."""

    first: int
    last: int
    start: int
    tall: int
    wide: int

    @property
    def end(self) -> int:
        return self.start + (self.last - self.first) * self.tall * self.wide

    def tables(self, flat: Floats) -> Floats:
        """(kinds, k, c) its tables, of all that stand end to end."""
        return flat[self.start : self.end].reshape(-1, self.tall, self.wide)


def distinct_rows(rows: Floats) -> tuple[Ints, Ints]:
    """Where each distinct row of whole numbers first stands, in ascending order, and which one every row is."""
    if not rows.shape[1]:
        return np.zeros(min(1, len(rows)), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    low = np.array([column.min(initial=math.inf) for column in rows.T])  # numpy is slow along a short axis
    spans = np.array([column.max(initial=0) for column in rows.T]) - low + 1
    if len(rows) and float(np.prod(spans)) < 2**53 and (rows == np.floor(rows)).all():
        digits = np.append(np.cumprod(spans[:0:-1])[::-1], 1.0)  # one number says it all, and sorts faster
        keys = rows @ digits - low @ digits
        if np.prod(spans) <= max(FEW_KEYS, 4 * len(rows)):
            return _distinct_keys(keys.astype(np.int64), int(np.prod(spans)))
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def grouped(which: Ints, many: int) -> tuple[Ints, Ints]:
    """Places in order of the number below `many` that stands there, and (many + 1,) where those of each number begin."""
    short = which.astype(np.uint16) if many <= 1 << 16 else which  # short numbers are sorted by their digits
    return np.argsort(short, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(which, minlength=many))])


FEW_KEYS = 1 << 12


def _distinct_keys(keys: Ints, most: int) -> tuple[Ints, Ints]:
    """First rows and codes of distinct numbers below `most`, without sorting."""
    first = np.full(most, -1)
    first[keys[::-1]] = np.arange(len(keys))[::-1]  # the last to be written is the first to stand there
    present = first >= 0
    return first[present], (np.cumsum(present) - 1).take(keys)


def _down(mask: Bools) -> Ints:
    """How many of these there are down to each column; numpy takes six times as long to add truth values up row by row."""
    return np.cumsum(mask.astype(np.int64), axis=1)


def side_names(p: Placement) -> tuple[str, str]:
    """Names of the two sides: the protected labels, and everything else."""
    protected = ", ".join(str(p.groups[i]) for i in p.protected or ())
    others = [str(label) for i, label in enumerate(p.groups) if i not in (p.protected or ())]
    return protected, others[0] if len(others) == 1 else f"not {protected}"


def encoded(labels: Any) -> tuple[npt.NDArray[np.int32], tuple[Any, ...]]:
    """Codes and the distinct labels, sorted where they can be; None is -1, NaN is refused."""
    if isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
        raise EvenhandError(f"labels={labels!r} is not a list. Pass one label per rank, best first.")
    named = listed(labels)
    if any(isinstance(label, float) and math.isnan(label) for label in named):
        raise EvenhandError("labels holds NaN. Pass None where the label is unknown.")
    try:
        distinct = in_order(set(named) - {None})
    except TypeError as error:
        raise EvenhandError("labels holds lists or other unhashable things. Pass one plain label per rank.") from error
    place: dict[Any, int] = {label: i for i, label in enumerate(distinct)} | {None: UNKNOWN}
    return np.array([place[label] for label in named], dtype=np.int32), tuple(distinct)


def _soft_rows(labels: Any, groups: Any) -> Placement | None:
    """Rows of shares as a Placement, or None when the labels are plain."""
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        named = tuple(range(labels.shape[1])) if groups is None else tuple(groups)
        if len(named) != labels.shape[1]:
            raise EvenhandError(
                f"groups names {len(named)} groups for {labels.shape[1]} columns. Name each column once."
            )
        return _shared(np.asarray(labels, dtype=np.float64), named)
    if not isinstance(labels, (list, tuple)) or not any(isinstance(row, Mapping) for row in labels):
        return None
    if not all(row is None or isinstance(row, Mapping) for row in labels):
        raise EvenhandError("labels mixes labels and rows of shares. Pass one kind, or None where nothing is known.")
    present = {g for row in labels if row is not None for g in row}
    named = tuple(groups) if groups is not None else tuple(in_order(present))
    if present - set(named):
        raise EvenhandError(f"groups={list(named)!r} lacks {in_order(present - set(named))!r}. Name every group.")
    rows = np.array([[np.nan] * len(named) if r is None else [r.get(g, 0.0) for g in named] for r in labels])
    return _shared(rows.astype(np.float64).reshape(len(labels), len(named)), named)


def _shared(rows: Floats, groups: tuple[Any, ...]) -> Placement:
    """Check rows of shares; rows that give every item to one group are labels, and exact normalisers exist for them."""
    missing = np.isnan(rows)
    part = missing.any(1) & ~missing.all(1)
    labelled = rows[~missing.all(1)]
    if part.any() or (labelled < 0).any() or np.abs(labelled.sum(1) - 1).max(initial=0) > 1e-6:
        raise EvenhandError(
            "Some rows of shares are negative, partly missing or do not sum to 1. Pass shares that sum to 1."
        )
    codes = np.where(missing.all(1), UNKNOWN, np.nan_to_num(rows).argmax(1) if rows.shape[1] else UNKNOWN).astype(
        np.int32
    )
    hard = bool((labelled.max(1, initial=0.0) >= 1 - 1e-12).all())
    return Placement(codes, np.array([0, len(rows)]), groups, rows=None if hard else rows)
