"""From checked rankings to placements: the label at every rank, rankings sorted by slice and request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.engine.gathered import gathered, is_apart, labelled
from evenhand.engine.labelled import Lookup
from evenhand.errors import EvenhandError
from evenhand.labels import in_order, whole
from evenhand.tallies.ledger import UNKNOWN_LABEL
from evenhand.tallies.ledger import Unknown as Unknown
from evenhand.tallies.placement import UNKNOWN, Ints, Placement
from evenhand.tallies.requests import Requests
from evenhand.views.batches import by_ranking, first_of_runs
from evenhand.views.labels import Alignment, Carried, coded, refuse_unnamed
from evenhand.views.match import matched_ids
from evenhand.views.rankings import Rankings
from evenhand.views.tables import to_polars

UNLABELLED = -2
"""An item without a label, until it is settled what becomes of it."""


@dataclass(frozen=True)
class Placed:
    """Rankings as a tally, with what they are called.

    Attributes
    ----------
    placement : the labels, one ranking after another.
    slices : labels of the slices, sorted; slice s holds rankings starts[s] to starts[s + 1].
    requests : a Polars column, the request of each ranking.
    unlabelled : (R,) items without a label in each ranking, before anything was done about them.
    """

    placement: Placement
    slices: tuple[tuple[Any, ...], ...]
    starts: Ints
    requests: Any
    unlabelled: Ints

    @property
    def within(self) -> Requests:
        """The requests within their slices; each has one ranking."""
        return Requests(self.slices, self.starts, self.requests)

    def rankings_of(self, s: int) -> Ints:
        """Which rankings a slice holds."""
        return np.arange(self.starts[s], self.starts[s + 1])


@dataclass(frozen=True)
class Placing:
    """What makes a block of rows of whole rankings, which carry what their labels asked for.

    Attributes
    ----------
    keys : columns that name a ranking. on : ids that labels are joined by.
    table : shares by id, where they stand beside the rows; soft : the groups of shares, wherever they stand.
    lookup : labels by id, where they stand beside the rows.
    """

    keys: list[str]
    on: list[str]
    table: Any = None
    soft: tuple[Any, ...] | None = None
    lookup: Lookup | None = None

    @classmethod
    def of(
        cls,
        found: Alignment | Carried,
        keys: list[str],
        *,
        groups: tuple[Any, ...] | None = None,
        carried: bool = False,
    ) -> Placing:
        """With all labels at hand, unless rows have `carried` them; `groups` are all that items are shared among."""
        if isinstance(found, Carried):
            return cls(keys, [], soft=found.columns if found.soft else None)
        if carried:
            return cls(keys, [])
        table, soft = _beside_rows(found, groups)
        if found.soft:
            return cls(keys, found.keys, table, soft)
        return cls(keys, found.keys, lookup=Lookup.of(table, found.keys, "the labels"))

    def __call__(self, rows: Any, first: Ints) -> _Block:
        if self.soft is not None:
            split = rows if self.table is None else _with_shares(rows, self.table, self.on)
            return _Block.of(rows, first, self.keys, *_shares(split, self.soft))
        lookup = self.lookup
        held = coded(rows["group"]) if lookup is None else (lookup.codes(rows), lookup.labels)
        return _Block.of(rows, first, self.keys, *_places(*held), None)


def tally_placements(
    view: Rankings,
    found: Alignment | Carried,
    unknown: Unknown,
    *,
    groups: tuple[Any, ...] | None = None,
    some_labelled: bool = True,
) -> Placed:
    """The label at every rank; `view` carries what `found` asked for.

    Empty ranks and unknown labels are -1; `unknown` says whether unknown labels stay so. `groups` are all there are where
    items are shared among them. Where `some_labelled`, labels that no item has are taken for ids that do not match. What a
    `Placing` made while the rankings were checked is not made again.
    """
    keys, lazy = list(view.keys), view.lazy
    names = lazy.collect_schema().names()
    beside = found if isinstance(found, Alignment) and "group" not in names else None
    if is_apart(lazy) and not found.soft:
        lazy = lazy if beside is None else labelled(lazy, beside)
        lazy = gathered(lazy, keys, ["group"], "rank") or lazy
        names = lazy.collect_schema().names()
    needed = [*keys, "rank", *(["item"] if beside is not None and "item" in names and "group" not in names else [])]
    lazy = lazy.select(*needed, *(c for c in names if c == "group" or c.startswith("share_")))
    made = view.made or by_ranking(lazy, keys, Placing.of(found, keys, groups=groups, carried="group" in names))
    whole = _Block.joined(made, keys)
    if some_labelled and beside is not None:
        _refuse_strangers(whole, view, beside)
    codes, labels = _settled(whole, unknown)
    slices, edges = _slices(whole.heads, list(view.slices))
    tally = Placement(codes, whole.starts, labels, rows=whole.shares)
    return Placed(tally, slices, edges, whole.heads["request"], whole.missing)


@dataclass(frozen=True)
class _Block:
    """Some whole rankings.

    Attributes
    ----------
    heads : a Polars frame of what each ranking is called.
    depths : (R,) the last rank of each; missing : (R,) items without a label.
    codes : (T,) places in `labels`; -1 where a rank is empty, -2 where its item has no label.
    shares : (T, g), or None.
    """

    heads: Any
    depths: Ints
    missing: Ints
    codes: Any
    labels: tuple[Any, ...]
    shares: Any

    @classmethod
    def of(cls, rows: Any, first: Ints, keys: list[str], held: Any, labels: tuple[Any, ...], shares: Any) -> _Block:
        """From rows of which those of a ranking stand together, in any order."""
        ranks = rows["rank"].to_numpy()
        depths = np.maximum.reduceat(ranks, first) if len(first) else np.zeros(0, dtype=np.int64)
        at = np.repeat(np.cumsum(depths) - depths - 1, np.diff(first, append=rows.height)) + ranks
        lost = np.flatnonzero(held < 0)
        missing = np.bincount(np.searchsorted(first, lost, side="right") - 1, minlength=len(first))
        size = int(depths.sum())
        codes = np.full(size, UNKNOWN, dtype=held.dtype)
        codes[at] = held
        spread = None
        if shares is not None:
            spread = np.full((size, len(labels)), np.nan)
            spread[at] = shares
        return cls(rows.select(keys)[first], depths, missing, codes, labels, spread)

    @classmethod
    def joined(cls, blocks: Sequence[_Block], keys: list[str]) -> _Block:
        """All rankings, in order of what they are called."""
        import polars as pl

        named = {label for one in blocks for label in one.labels}
        labels = blocks[0].labels if blocks[0].shares is not None else tuple(whole(in_order(named)))
        if len(blocks) == 1 and blocks[0].heads.equals(blocks[0].heads.sort(*keys, nulls_last=True)):
            return replace(blocks[0], labels=labels)
        shares = None if blocks[0].shares is None else np.concatenate([one.shares for one in blocks])
        codes = np.concatenate([one.codes if shares is not None else _renumbered(one, labels) for one in blocks])
        depths, missing = (np.concatenate([getattr(one, name) for one in blocks]) for name in ("depths", "missing"))
        heads = pl.concat([one.heads for one in blocks]).with_row_index("evenhand place")
        heads = heads.sort(*keys, nulls_last=True)
        order = heads["evenhand place"].to_numpy().astype(np.int64)
        if (np.diff(order) < 0).any():
            starts = np.concatenate([[0], np.cumsum(depths)]).astype(np.int64)
            moved = Placement(codes, starts, labels, rows=shares).take(order)
            codes, shares, depths, missing = moved.codes, moved.rows, depths[order], missing[order]
        return cls(heads.drop("evenhand place"), depths, missing, codes, labels, shares)

    @property
    def starts(self) -> Ints:
        return np.concatenate([[0], np.cumsum(self.depths)]).astype(np.int64)


def _renumbered(one: _Block, labels: tuple[Any, ...]) -> Any:
    """Codes of a block as places in the labels of all."""
    place = {label: i for i, label in enumerate(labels)}
    table = np.array([*(place[label] for label in one.labels), UNLABELLED, UNKNOWN], dtype=_kind(labels))
    return table[one.codes]  # -2 and -1 look at the end


def _beside_rows(found: Alignment, groups: tuple[Any, ...] | None) -> tuple[Any, tuple[Any, ...]]:
    """A table of one row per item (and request): its label, or its shares of the groups in columns of their own."""
    import polars as pl

    frame = found.frame
    if not found.soft:
        return frame, ()
    known = frame.filter(pl.col("group").is_not_null())
    if groups is None:
        groups = tuple(whole(in_order({*found.named, *known["group"].unique().to_list()})))
    whole_item = pl.col("share").sum().over(found.keys)  # what is known of an item is all that a prefix can count
    columns = [
        pl.when(pl.col("group") == label).then(pl.col("share")).otherwise(0.0).sum().alias(f"share_{i}")
        for i, label in enumerate(groups)
    ]
    return known.with_columns(pl.col("share") / whole_item).group_by(found.keys).agg(columns), groups


def _with_shares(rows: Any, labels: Any, on: list[str]) -> Any:
    """Join the shares by item, or by request and item."""
    refuse_unnamed(rows.columns, on)
    beside, ranked = matched_ids(
        nw.from_native(labels).lazy(), nw.from_native(rows.select(on)).lazy(), on, role="the labels"
    )
    known, asked = (lazy.collect("polars").to_native() for lazy in (beside, ranked))
    return rows.hstack(asked.join(known, on=on, how="left", maintain_order="left").drop(on))


def _refuse_strangers(placed: _Block, view: Rankings, found: Alignment) -> None:
    """Labels that no ranked item has are taken for ids that do not match."""
    if not placed.missing.sum() or placed.missing.sum() != (placed.codes != UNKNOWN).sum():
        return
    labels = found.lazy.filter(~nw.col("group").is_null()) if found.soft else found.lazy
    ranked, known = (to_polars(lazy.select("item").head(1))["item"] for lazy in (view.lazy, labels))
    if known.len():
        raise EvenhandError(
            f"None of the items in the rankings has a label (for example {ranked[0]!r}; the labels have {known[0]!r}). "
            "Check that both name items the same way."
        )


def _places(found: Any, labels: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Codes among the labels that are there at all, and those labels."""
    there = np.flatnonzero(np.bincount(found, minlength=len(labels) + 1)[:-1])
    kept = tuple(labels[i] for i in there.tolist())
    table = np.full(len(labels) + 1, UNLABELLED, dtype=_kind(kept))
    table[there] = np.arange(len(there))
    return table.take(found), kept


def _kind(labels: tuple[Any, ...]) -> Any:
    return np.int8 if len(labels) < 120 else np.int32


def _shares(rows: Any, soft: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], Any]:
    """Codes (0 where known), groups and (rows, groups) shares."""
    shares = rows.select(f"share_{i}" for i in range(len(soft))).to_numpy().astype(np.float64)
    shares = shares.reshape(rows.height, len(soft))
    holes = np.isnan(shares)
    known = ~holes.all(1)
    wrong = holes.any(1) & known
    wrong |= known & ((np.nan_to_num(shares) < 0).any(1) | (np.abs(np.nan_to_num(shares).sum(1) - 1) > 1e-6))
    if wrong.any():
        raise EvenhandError(
            f"{int(wrong.sum()):,} rows have shares that are negative, partly missing or do not sum to 1. "
            "Pass shares of zero or more that sum to 1, or leave all of a row's missing where nothing is known."
        )
    return np.where(known, 0, UNLABELLED).astype(np.int8), soft, shares


def _settled(placed: _Block, unknown: Unknown) -> tuple[Any, tuple[Any, ...]]:
    """Codes and labels after what becomes of items without a label."""
    groups, missing = placed.labels, int(placed.missing.sum())
    if not missing:
        return placed.codes, groups
    if unknown == "raise":
        rows = int((placed.codes != UNKNOWN).sum())
        raise EvenhandError(
            f"{missing:,} of {rows:,} items have no label. Label them, or pass unknown='drop', 'group' or 'unprotected'."
        )
    if unknown == "drop":
        return np.maximum(placed.codes, UNKNOWN), groups
    if placed.shares is not None:
        raise EvenhandError(f"unknown={unknown!r} needs one label per item. With shares, pass unknown='drop'.")
    if UNKNOWN_LABEL not in groups:
        groups = (*groups, UNKNOWN_LABEL)
    return np.where(placed.codes == UNLABELLED, groups.index(UNKNOWN_LABEL), placed.codes).astype(np.int32), groups


def _slices(heads: Any, keys: list[str]) -> tuple[tuple[tuple[Any, ...], ...], Ints]:
    if not keys:
        return ((),), np.array([0, heads.height])
    first = first_of_runs(heads, keys)
    return tuple(tuple(row) for row in heads.select(keys)[first].iter_rows()), np.append(first, heads.height)
