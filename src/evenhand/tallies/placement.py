"""Which group stands at each rank, for many rankings: all that a prefix metric may see.

Read by one loop over whole rankings. Rankings of one composition share exact normalisers and chance levels (`Mix`, `Kinds`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import UNKNOWN_LABEL, Unknown, in_order, listed, several
from evenhand.sources.sql import columns
from evenhand.tallies.ragged import (
    Bools,
    Ints,
    batches_of_rows,
    cells_of,
    padded_cells,
    similar_rows,
    sorted_runs,
    starts_of,
)
from evenhand.tallies.requests import Requests, sort_heads

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch as RowBatch
    from evenhand.sources.labels import CodedLabels
    from evenhand.sources.rankings import Rankings


@dataclass(frozen=True)
class Mix:
    """Distinct compositions: what stays when the labelled items of a ranking are permuted.

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
        """(U, K) weight of the first k labelled items: discounts of ranks with k seen so far.

        Unknown items keep their ranks, so the prefix metric of a ranking with gaps is that of the list without them
        under these weights.
        """
        compositions, width = self.is_labelled.shape
        inside = np.arange(width) < self.lengths[:, None]
        seen = counts_down(self.is_labelled)
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
        """From (R, G) items of each group; `by_group` keeps groups of the same size separate."""
        examples, makeup = (np.arange(len(p)),) * 2 if p.rows is not None else p.makeups
        list_sizes, group_counts = p.counts[examples].sum(-1), group_counts[examples]
        group = np.arange(group_counts.shape[1]) if by_group else 0
        rows = np.stack([x.ravel() for x in np.broadcast_arrays(list_sizes[:, None], group_counts, group)], axis=1)
        first, which = (np.arange(len(rows)),) * 2 if p.rows is not None else distinct_rows(rows)
        sizes, counts, groups = rows[first].T
        return cls(which.reshape(group_counts.shape).take(makeup, axis=0), counts, sizes, groups.astype(np.int64))


def distinct_rows(rows: Floats) -> tuple[Ints, Ints]:
    """First index of each distinct row, in ascending order of rows, and the code of every row."""
    if not rows.shape[1] or not len(rows):
        return np.zeros(min(1, len(rows)), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    order, starts = sorted_runs(*rows.T)
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    return order[starts], which


def grouped(which: Ints, many: int) -> tuple[Ints, Ints]:
    """Indices sorted by code, and (many + 1,) where those of each code begin."""
    return np.argsort(which, kind="stable"), starts_of(np.bincount(which, minlength=many))


def counts_down(mask: Bools) -> Ints:
    """How many are true down to each column."""
    return np.cumsum(mask.astype(np.int64), axis=1)  # numpy takes six times as long to add truth values up row by row


UNKNOWN = -1
"""The code of a rank without an item, and of an item whose label stays unknown."""

UNLABELLED = -2
"""The code of an item without a label, until it is decided what becomes of it."""

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
        """These rankings with a protected label, or several merged; unseen labels are empty groups."""
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
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def counts(self) -> Floats:
        """(R, g) items of each group, or their shares, in each ranking."""
        per_group = np.zeros((len(self), len(self.groups)))
        for batch in self.batches():
            if batch.rows is not None:
                per_group[batch.where] = np.nan_to_num(batch.rows).sum(1)
            else:
                rankings, width = len(batch.codes), len(self.groups) + 1  # the first column is that of unknown labels
                cells = batch.codes + 1 + np.arange(rankings)[:, None] * width
                counts = np.bincount(cells.ravel(), minlength=rankings * width).reshape(rankings, width)
                per_group[batch.where] = counts[:, 1:]
        return per_group

    @cached_property
    def labelled(self) -> Ints:
        if self.rows is None:
            return np.asarray(self.counts.sum(-1).astype(np.int64))
        owners = np.repeat(np.arange(len(self)), self.lengths)
        return np.bincount(owners, self.codes >= 0, minlength=len(self)).astype(np.int64)

    @cached_property
    def protected_counts(self) -> Floats:
        return np.asarray(self.counts[:, list(self.protected or ())].sum(1))

    @cached_property
    def makeups(self) -> tuple[Ints, Ints]:
        """First ranking of each distinct composition, shortest first, and the composition of each."""
        return distinct_rows(self._composition_keys)

    @property
    def _composition_keys(self) -> Floats:
        """(R, ...) labelled items, and items of each group but those that follow from the others."""
        return np.column_stack([self.labelled, self.counts if self.rows is not None else self.counts[:, :-1]])

    @cached_property
    def kinds(self) -> Kinds:
        return Kinds.from_placement(self, self.counts)

    @cached_property
    def first_kinds(self) -> Kinds:
        """The kind of list that each ranking is for the first group, the protected of two sides."""
        return Kinds.from_placement(self, self.counts[:, :1])

    def sides(self) -> Placement:
        """These rankings with two groups: 0 protected, 1 not."""
        return self._sides

    @cached_property
    def _sides(self) -> Placement:
        if self.protected is None:
            raise EvenhandError("No side is protected. Pass protected= with one label, or several taken together.")
        if self.rows is not None:
            raise EvenhandError(
                "This metric needs one label per item, not shares. Use ndjs, pref_kl or awrf for shares."
            )
        side = np.ones(len(self.codes), dtype=np.int8)  # looking codes up in a table would take eight bytes for each
        for label in self.protected:
            side[self.codes == label] = 0
        side[self.codes < 0] = UNKNOWN
        return Placement(side, self.starts, side_names(self), (0,), depth=self.depth)

    def reason(self) -> str:
        return str(self.reasons()[0]) if len(self) else "empty"

    def reasons(self) -> npt.NDArray[Any]:
        """(R,) why no prefix metric is defined on a ranking: empty, unlabelled or of one group."""
        present = (self.counts > 0).sum(1)
        if self.protected is not None:
            present = (self.protected_counts > 0).astype(int) + (self.labelled - self.protected_counts > 1e-12)
        return np.select(
            [self.lengths == 0, self.labelled == 0, present < 2],
            ["empty", "no_labelled_items", "one_group_only"],
            default="",
        )

    def take(self, chosen: Ints) -> Placement:
        codes, starts = [self.codes[:0]], starts_of(self.lengths[chosen])
        rows = None if self.rows is None else [self.rows[:0]]
        for first, last in batches_of_rows(starts, MOST_CELLS):  # places of all ranks would take more than the ranks
            at, _ = cells_of(self.starts, chosen[first:last])
            codes.append(self.codes.take(at))
            if rows is not None and self.rows is not None:
                rows.append(self.rows.take(at, axis=0))
        shares = None if rows is None else np.concatenate(rows)
        return replace(self, codes=np.concatenate(codes), starts=starts, rows=shares)

    def cut(self, depth: int) -> Placement:
        ranks = np.arange(len(self.codes)) - np.repeat(self.starts[:-1], self.lengths)
        keep = ranks < depth
        starts = starts_of(np.minimum(self.lengths, depth))
        return replace(self, codes=self.codes[keep], starts=starts, rows=None if self.rows is None else self.rows[keep])

    def batches(self) -> Iterator[Batch]:
        """Rankings of similar length as padded blocks (rankings, ranks)."""
        for chosen in similar_rows(self.lengths, MOST_CELLS):
            at, inside = padded_cells(self.starts, chosen)
            codes = np.where(inside, self.codes[at], UNKNOWN) if len(self.codes) else np.full(at.shape, UNKNOWN)
            rows = None if self.rows is None else np.where(inside[..., None], self.rows.take(at, axis=0), np.nan)
            yield Batch(chosen, codes, self.lengths[chosen], len(self.groups), rows)

    @cached_property
    def mixes(self) -> tuple[Mix, ...]:
        """The distinct compositions and the rankings of each, in parts of up to `MOST_CELLS` cells."""
        gapless = self.labelled == self.lengths
        mixes = [*self._gapless_mixes(np.flatnonzero(gapless))]
        rest = np.flatnonzero(~gapless)
        for batch in self.take(rest).batches():
            at = rest[batch.where]
            slots = np.packbits(batch.is_labelled, axis=1)
            keys = np.concatenate([self.lengths[at, None], self.counts[at], slots], axis=1)
            first, which = distinct_rows(keys)
            mixes.append(Mix(at[first], batch.is_labelled[first], batch.lengths[first], at, which))
        return tuple(mixes)

    def _gapless_mixes(self, at: Ints) -> Iterator[Mix]:
        """Rankings without gaps: their length and counts say it all."""
        first, which = self.makeups if len(at) == len(self) else distinct_rows(self._composition_keys[at])
        lengths = self.lengths[at[first]]  # ascending, so blocks of compositions stay narrow
        members, edges = grouped(which, len(first))
        for block in similar_rows(lengths, MOST_CELLS):
            start, stop = int(block[0]), int(block[-1]) + 1
            rankings = members[edges[start] : edges[stop]]
            is_labelled = np.arange(lengths[block].max()) < lengths[block, None]
            yield Mix(at[first[block]], is_labelled, lengths[block], at[rankings], which[rankings] - start)


@dataclass(frozen=True)
class Batch:
    """The rankings `where` (m,) as a block: `codes` (m, W), -1 for unknown labels and past the end."""

    where: Ints
    codes: npt.NDArray[Any]
    lengths: Ints
    groups: int
    rows: Floats | None = None

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
        return counts_down(self.is_labelled)

    def cum_counts(self, group: int) -> npt.NDArray[Any]:
        """(m, W) items of a group, or their shares, down to each rank."""
        if self.rows is not None:
            return np.asarray(np.cumsum(np.nan_to_num(self.rows[:, :, group]), axis=1))
        return counts_down(self.codes == group)


@dataclass(frozen=True)
class LabelledRankings:
    """Rankings of a table as a tally, with what they are called.

    Attributes
    ----------
    placement : the labels, one ranking after another.
    within : the rankings within their slices; each request has one.
    unlabelled : (R,) items without a label in each ranking, before anything was done about them.
    unlabelled_at : where they stand among the codes of the placement.
    """

    placement: Placement
    within: Requests
    unlabelled: Ints
    unlabelled_at: Ints

    def rankings_of(self, s: int) -> Ints:
        return np.arange(self.within.starts[s], self.within.starts[s + 1])

    @classmethod
    def from_rankings(
        cls, rankings: Rankings, labels: CodedLabels, unknown: Unknown, *, some_labelled: bool = True
    ) -> LabelledRankings:
        """The label at every rank; -1 at empty ranks, and where `unknown` drops the item.

        Where `some_labelled`, labels of a table that no ranked item has are taken for ids that do not match.
        """
        keys, names, groups = list(rankings.keys), list(rankings.heads), len(labels.labels)
        share = ", share" if labels.soft else ""
        label = f"CAST(COALESCE(label, {UNLABELLED}) AS INTEGER) AS label"
        query = f"SELECT {columns(names)}, place, {label}{share} FROM ({labels.rows}) AS labelled"
        read = partial(_read_lists, names=names, groups=groups, soft=labels.soft)
        parts = rankings.engine.tallied(query, keys, ["place"], read)
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            heads = rankings.engine.cells(f"{query} LIMIT 0").select(names)
            parts = [{"heads": heads, "depths": none, "missing": none, "codes": none, "label_counts": np.zeros(groups)}]
            parts[0]["shares"] = np.zeros((0, groups))
        heads, order = sort_heads([part["heads"] for part in parts], keys)
        depths, missing, codes = (
            np.concatenate([part[name] for part in parts]) for name in ("depths", "missing", "codes")
        )
        shares = np.concatenate([part["shares"] for part in parts]) if labels.soft else None
        counts = sum((part["label_counts"] for part in parts), np.zeros(groups))
        del parts
        placement = Placement(codes, starts_of(depths), labels.labels, rows=shares).take(order)
        del codes, shares
        if some_labelled and labels.has_table and missing.any() and not counts.any():
            _refuse_strangers(rankings, labels)
        if not labels.soft:
            placement = _drop_unused_labels(placement, np.flatnonzero(counts))
        at = np.flatnonzero(placement.codes == UNLABELLED) if missing.any() else np.zeros(0, dtype=np.int64)
        placement = _settle_unlabelled(placement, int(missing.sum()), unknown)
        return cls(placement, Requests.from_heads(heads, rankings.slices), missing[order], at)


def _read_lists(batch: RowBatch, names: Sequence[str], groups: int, *, soft: bool) -> dict[str, Any]:
    """A batch of whole rankings: `heads`, (R,) last rank `depths` and `missing` labels, (T,) `codes`, `shares` (T, g), `label_counts`.

    Codes are -1 where a rank is empty, -2 where its item has no label.
    """
    places, labels = batch.integers("place"), batch.integers("label")
    depths = places[batch.starts[1:] - 1]  # the rows of a ranking come in order
    at = np.repeat(np.cumsum(depths) - depths - 1, np.diff(batch.starts)) + places
    size = int(depths.sum())
    codes = np.full(size, UNKNOWN, dtype=_code_type(groups))
    shares = None
    if soft:
        is_labelled = labels >= 0
        codes[at] = UNLABELLED
        codes[at[is_labelled]] = 0
        share = batch.floats("share")[is_labelled]
        # what is known of an item is all that a prefix can count
        share = share / np.bincount(at[is_labelled], share, minlength=size)[at[is_labelled]]
        shares = np.full((size, groups), np.nan)
        shares[at[is_labelled]] = 0.0
        shares[at[is_labelled], labels[is_labelled]] = share
    else:
        codes[at] = labels
    lost = np.cumsum(np.append(0, codes == UNLABELLED))
    ends = np.cumsum(depths)
    label_counts = np.bincount(labels - UNLABELLED, minlength=groups - UNLABELLED)[-UNLABELLED:]
    return {
        "heads": batch.firsts(names), "depths": depths, "missing": lost[ends] - lost[ends - depths], "codes": codes,
        "shares": shares, "label_counts": label_counts,
    }  # fmt: skip


def _code_type(groups: int) -> type[np.signedinteger[Any]]:
    """The type of group codes, of which every ranked item has one: a byte where that is enough."""
    return np.int8 if groups < 120 else np.int32


def _refuse_strangers(rankings: Rankings, labels: CodedLabels) -> None:
    """Labels that no ranked item has are taken for ids that do not match."""
    condition = " WHERE label IS NOT NULL" if labels.soft else ""
    queries = (f"({rankings.sql}) AS rankings", f"({labels.items.sql}) AS labels{condition}")
    ranked, labelled = (rankings.engine.cells(f"SELECT item FROM {rows} LIMIT 1").values("item") for rows in queries)
    if labelled:
        raise EvenhandError(
            f"None of the items in the rankings has a label (for example {ranked[0]!r}; the labels have {labelled[0]!r}). "
            "Check that both name items the same way."
        )


def _drop_unused_labels(p: Placement, used: Ints) -> Placement:
    """These rankings with the groups that some ranked item has."""
    if len(used) == len(p.groups):
        return p
    new_codes = np.full(len(p.groups) - UNLABELLED, UNKNOWN, dtype=_code_type(len(used)))
    new_codes[used] = np.arange(len(used))
    new_codes[UNLABELLED] = UNLABELLED  # negative codes count from the end
    return replace(p, codes=new_codes.take(p.codes, mode="wrap"), groups=tuple(p.groups[i] for i in used.tolist()))


def _settle_unlabelled(p: Placement, missing: int, unknown: Unknown) -> Placement:
    """What becomes of the items without a label, of which there are so many."""
    if not missing:
        return p
    if unknown == "raise":
        rows = int((p.codes != UNKNOWN).sum())
        raise EvenhandError(
            f"{missing:,} of {rows:,} items have no label. Label them, or pass unknown='drop', 'group' or 'unprotected'."
        )
    if unknown == "drop":
        return replace(p, codes=np.maximum(p.codes, UNKNOWN))
    if p.rows is not None:
        raise EvenhandError(f"unknown={unknown!r} needs one label per item. With shares, pass unknown='drop'.")
    groups = p.groups if UNKNOWN_LABEL in p.groups else (*p.groups, UNKNOWN_LABEL)
    codes = np.where(p.codes == UNLABELLED, groups.index(UNKNOWN_LABEL), p.codes).astype(np.int32)
    return replace(p, codes=codes, groups=groups)


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
    """Rows of shares, checked; plain labels where every item belongs to one group."""
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
