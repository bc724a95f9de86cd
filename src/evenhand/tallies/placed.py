"""Rankings read into a placement: the label at every rank, one loop over whole rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import UNKNOWN_LABEL, Unknown
from evenhand.sources.sql import columns
from evenhand.tallies.placement import UNKNOWN, Ints, Placement
from evenhand.tallies.requests import Requests

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
    from evenhand.sources.labels import CodedLabels
    from evenhand.sources.rankings import Rankings

UNLABELLED = -2
"""An item without a label, until it is settled what becomes of it; a rank without an item is UNKNOWN from the start."""


@dataclass(frozen=True)
class Placed:
    """Rankings as a tally, with what they are called.

    Attributes
    ----------
    placement : the labels, one ranking after another.
    within : the rankings within their slices; each request has one.
    unlabelled : (R,) items without a label in each ranking, before anything was done about them.
    """

    placement: Placement
    within: Requests
    unlabelled: Ints

    @property
    def slices(self) -> Sequence[tuple[Any, ...]]:
        return self.within.slices

    @property
    def starts(self) -> Ints:
        return self.within.starts

    @property
    def requests(self) -> Any:
        return self.within.ids

    def rankings_of(self, s: int) -> Ints:
        """Which rankings a slice holds."""
        return np.arange(self.starts[s], self.starts[s + 1])

    @classmethod
    def from_rankings(
        cls, rankings: Rankings, labels: CodedLabels, unknown: Unknown, *, some_labelled: bool = True
    ) -> Placed:
        """The label at every rank; empty ranks and unknown labels are -1, where `unknown` leaves these unknown.

        Where `some_labelled`, labels of a table that no ranked item has are taken for ids that do not match.
        """
        keys = list(rankings.keys)
        share = ", share" if labels.soft else ""
        label = f"CAST(COALESCE(label, {UNLABELLED}) AS INTEGER) AS label"
        query = f"SELECT {columns(keys)}, place, {label}{share} FROM ({labels.rows}) AS labelled"
        make = partial(_read_lists, keys=keys, groups=len(labels.labels), soft=labels.soft)
        lists = _Lists.merge(rankings.engine.tallied(query, keys, ["place"], make), keys)
        if lists is None:
            lists = _Lists.empty(
                rankings.engine.cells(f"{query} LIMIT 0").select(keys), len(labels.labels), soft=labels.soft
            )
        if some_labelled and labels.has_table:
            _refuse_strangers(lists, rankings, labels)
        lists, groups = (lists, labels.labels) if labels.soft else _used_labels(lists, labels.labels)
        codes, groups = _settled(lists, groups, unknown)
        placement = Placement(codes, lists.starts, groups, rows=lists.shares)
        return cls(placement, Requests.from_heads(lists.heads, rankings.slices), lists.missing)


@dataclass(frozen=True)
class _Lists:
    """Some whole rankings.

    Attributes
    ----------
    heads : what each ranking is called.
    depths : (R,) the last rank of each; missing : (R,) items without a label.
    codes : (T,) places in the labels; -1 where a rank is empty, -2 where its item has no label.
    shares : (T, g), or None.
    """

    heads: Cells
    depths: Ints
    missing: Ints
    codes: npt.NDArray[Any]
    shares: Floats | None

    @classmethod
    def empty(cls, heads: Cells, groups: int, *, soft: bool) -> _Lists:
        none = np.zeros(0, dtype=np.int64)
        return cls(heads, none, none, np.zeros(0, dtype=np.int32), np.zeros((0, groups)) if soft else None)

    @classmethod
    def merge(cls, parts: Sequence[_Lists], keys: Sequence[str]) -> _Lists | None:
        """All rankings, in the order of what they are called; None where there is no part."""
        if not parts:
            return None
        heads = parts[0].heads.followed_by([part.heads for part in parts[1:]])
        depths, missing, codes = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("depths", "missing", "codes")
        )
        shares = (
            None
            if parts[0].shares is None
            else np.concatenate([part.shares for part in parts if part.shares is not None])
        )
        order = heads.order(keys)
        if (np.diff(order) < 0).any():
            starts = np.concatenate([[0], np.cumsum(depths)]).astype(np.int64)
            moved = Placement(codes, starts, (), rows=shares).take(order)
            codes, shares = moved.codes, moved.rows
            heads, depths, missing = heads.take(order), depths[order], missing[order]
        return cls(heads, depths, missing, codes, shares)

    @property
    def starts(self) -> Ints:
        return np.concatenate([[0], np.cumsum(self.depths)]).astype(np.int64)


def _read_lists(batch: Batch, keys: Sequence[str], groups: int, *, soft: bool) -> _Lists:
    """The labels of a batch of whole rankings, best first."""
    places, labels = batch.integers("place"), batch.integers("label")
    depths = places[batch.starts[1:] - 1]  # the rows of a ranking come in order
    at = np.repeat(np.cumsum(depths) - depths - 1, np.diff(batch.starts)) + places
    size = int(depths.sum())
    codes = np.full(size, UNKNOWN, dtype=np.int8 if groups < 120 else np.int32)
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
    return _Lists(batch.firsts(keys), depths, lost[ends] - lost[ends - depths], codes, shares)


def _refuse_strangers(lists: _Lists, rankings: Rankings, labels: CodedLabels) -> None:
    """Labels that no ranked item has are taken for ids that do not match."""
    if not lists.missing.sum() or lists.missing.sum() != (lists.codes != UNKNOWN).sum():
        return
    condition = " WHERE label IS NOT NULL" if labels.soft else ""
    queries = (f"({rankings.sql}) AS rankings", f"({labels.items.sql}) AS labels{condition}")
    ranked, labelled = (rankings.engine.cells(f"SELECT item FROM {rows} LIMIT 1").values("item") for rows in queries)
    if labelled:
        raise EvenhandError(
            f"None of the items in the rankings has a label (for example {ranked[0]!r}; the labels have {labelled[0]!r}). "
            "Check that both name items the same way."
        )


def _used_labels(lists: _Lists, labels: tuple[Any, ...]) -> tuple[_Lists, tuple[Any, ...]]:
    """Codes among the labels that some ranked item has, and those labels."""
    counts = np.bincount(lists.codes.astype(np.int64) - UNLABELLED, minlength=len(labels) - UNLABELLED)
    used = np.flatnonzero(counts[-UNLABELLED:])
    if len(used) == len(labels):
        return lists, labels
    table = np.full(len(labels) - UNLABELLED, UNKNOWN, dtype=np.int8 if len(used) < 120 else np.int32)
    table[0] = UNLABELLED
    table[used - UNLABELLED] = np.arange(len(used))
    codes = table.take(lists.codes.astype(np.int64) - UNLABELLED)
    return replace(lists, codes=codes), tuple(labels[i] for i in used.tolist())


def _settled(lists: _Lists, groups: tuple[Any, ...], unknown: Unknown) -> tuple[Any, tuple[Any, ...]]:
    """Codes and labels after what becomes of items without a label."""
    missing = int(lists.missing.sum())
    if not missing:
        return lists.codes, groups
    if unknown == "raise":
        rows = int((lists.codes != UNKNOWN).sum())
        raise EvenhandError(
            f"{missing:,} of {rows:,} items have no label. Label them, or pass unknown='drop', 'group' or 'unprotected'."
        )
    if unknown == "drop":
        return np.maximum(lists.codes, UNKNOWN), groups
    if lists.shares is not None:
        raise EvenhandError(f"unknown={unknown!r} needs one label per item. With shares, pass unknown='drop'.")
    if UNKNOWN_LABEL not in groups:
        groups = (*groups, UNKNOWN_LABEL)
    return np.where(lists.codes == UNLABELLED, groups.index(UNKNOWN_LABEL), lists.codes).astype(np.int32), groups
