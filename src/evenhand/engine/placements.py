"""From checked rankings to placements: the label at every rank, rankings sorted by slice and request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError
from evenhand.labels import in_order, whole
from evenhand.tallies.ledger import UNKNOWN_LABEL
from evenhand.tallies.ledger import Unknown as Unknown
from evenhand.tallies.placement import UNKNOWN, Ints, Placement
from evenhand.tallies.requests import Requests
from evenhand.views.labels import Alignment, Carried, codes
from evenhand.views.match import matched_ids
from evenhand.views.rankings import Rankings
from evenhand.views.tables import to_polars


@dataclass(frozen=True)
class Placed:
    """Rankings as a tally, with what they are called.

    Attributes
    ----------
    placement : the labels, one ranking after another.
    slices : labels of the slices, sorted; slice s holds rankings starts[s] to starts[s + 1].
    requests : the request of each ranking.
    unlabelled : (R,) items without a label in each ranking, before anything was done about them.
    """

    placement: Placement
    slices: tuple[tuple[Any, ...], ...]
    starts: Ints
    requests: tuple[Any, ...]
    unlabelled: Ints

    @property
    def within(self) -> Requests:
        """The requests within their slices; each has one ranking."""
        return Requests(self.slices, self.starts, self.requests)

    def rankings_of(self, s: int) -> Ints:
        """Which rankings a slice holds."""
        return np.arange(self.starts[s], self.starts[s + 1])


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
    items are shared among them. Where `some_labelled`, labels that no item has are taken for ids that do not match.
    """
    keys = list(view.keys)
    rows = to_polars(view.lazy)
    shared = found.soft
    soft: tuple[Any, ...] = found.columns if isinstance(found, Carried) else ()
    if isinstance(found, Alignment) and "group" not in rows.columns:
        table, soft = _beside_rows(found, groups)
        rows = _labelled(rows, table, found.keys, some_labelled=some_labelled)
    rows = rows.sort(*keys, "rank", nulls_last=True)
    first = _first_of_runs(rows, keys)
    heads = rows[first]
    depths = _last_of_runs(rows["rank"].to_numpy(), first)
    starts = np.concatenate([[0], np.cumsum(depths)]).astype(np.int64)
    owner = np.repeat(np.arange(len(first)), np.diff(first, append=rows.height))
    at = starts[owner] + rows["rank"].to_numpy() - 1
    held, labels, shares = _shares(rows, soft) if shared else (*_codes(rows["group"]), None)
    missing = np.bincount(owner, held < 0, minlength=len(first)).astype(np.int64)
    if missing.any():
        held, labels = _settled(held, labels, unknown, int(missing.sum()), rows.height, soft=shared)
    placed = np.full(int(starts[-1]), UNKNOWN, dtype=held.dtype)
    placed[at] = held
    spread = None
    if shares is not None:
        spread = np.full((int(starts[-1]), len(labels)), np.nan)
        spread[at] = shares
    slices, edges = _slices(heads, list(view.slices))
    tally = Placement(placed, starts, labels, rows=spread)
    return Placed(tally, slices, edges, tuple(heads["request"].to_list()), missing)


def _beside_rows(found: Alignment, groups: tuple[Any, ...] | None) -> tuple[Any, tuple[Any, ...]]:
    """A table of one row per item (and request): its label, or its shares of the groups in columns of their own."""
    import polars as pl

    frame = found.frame
    if not found.soft:
        return frame.drop("share"), ()
    known = frame.filter(pl.col("group").is_not_null())
    if groups is None:
        groups = tuple(whole(in_order({*found.named, *known["group"].unique().to_list()})))
    whole_item = pl.col("share").sum().over(found.keys)  # what is known of an item is all that a prefix can count
    columns = [
        pl.when(pl.col("group") == label).then(pl.col("share")).otherwise(0.0).sum().alias(f"share_{i}")
        for i, label in enumerate(groups)
    ]
    return known.with_columns(pl.col("share") / whole_item).group_by(found.keys).agg(columns), groups


def _labelled(rows: Any, labels: Any, on: list[str], *, some_labelled: bool) -> Any:
    """Join the labels by item, or by request and item."""
    if lacking := [key for key in on if key not in rows.columns]:
        raise EvenhandError(
            f"Labels are joined by item, and the rankings have no column of {lacking[0]}s. Name it with {lacking[0]}=."
        )
    beside, ranked = matched_ids(
        nw.from_native(labels).lazy(), nw.from_native(rows.select(on)).lazy(), on, role="the labels"
    )
    known, asked = (lazy.collect("polars").to_native() for lazy in (beside, ranked))
    if some_labelled and known.height and rows.height and not asked.join(known, on=on, how="semi").height:
        raise EvenhandError(
            f"None of the items in the rankings has a label (for example {rows['item'][0]!r}; the labels have "
            f"{known['item'][0]!r}). Check that both name items the same way."
        )
    return rows.hstack(asked.join(known, on=on, how="left", maintain_order="left").drop(on))


def _first_of_runs(rows: Any, keys: list[str]) -> Ints:
    """Where a new ranking begins in sorted rows."""
    new = np.zeros(rows.height, dtype=bool)
    new[:1] = True
    for key in keys:
        column = rows[key]
        changed = column.ne_missing(column.shift(1)).to_numpy()
        new |= changed
    return np.flatnonzero(new)


def _last_of_runs(ranks: Ints, first: Ints) -> Ints:
    """The last rank of each ranking; rows are sorted by rank."""
    ends = np.append(first[1:], len(ranks)) - 1
    return ranks[ends] if len(first) else np.zeros(0, dtype=np.int64)


def _codes(column: Any) -> tuple[Any, tuple[Any, ...]]:
    """Codes and labels, in order."""
    labels = tuple(whole(in_order(column.drop_nulls().unique().to_list())))
    kind = np.int8 if len(labels) < 120 else np.int32
    found = codes(column, labels)
    return np.where(found == len(labels), UNKNOWN, found).astype(kind), labels


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
    return np.where(known, 0, UNKNOWN).astype(np.int8), soft, shares


def _settled(
    codes: Any, groups: tuple[Any, ...], unknown: Unknown, missing: int, rows: int, *, soft: bool
) -> tuple[Any, tuple[Any, ...]]:
    """What becomes of items without a label."""
    if unknown == "raise":
        raise EvenhandError(
            f"{missing:,} of {rows:,} items have no label. Label them, or pass unknown='drop', 'group' or 'unprotected'."
        )
    if unknown == "drop":
        return codes, groups
    if soft:
        raise EvenhandError(f"unknown={unknown!r} needs one label per item. With shares, pass unknown='drop'.")
    if UNKNOWN_LABEL not in groups:
        groups = (*groups, UNKNOWN_LABEL)
    return np.where(codes < 0, groups.index(UNKNOWN_LABEL), codes).astype(np.int32), groups


def _slices(heads: Any, keys: list[str]) -> tuple[tuple[tuple[Any, ...], ...], Ints]:
    if not keys:
        return ((),), np.array([0, heads.height])
    first = _first_of_runs(heads, keys)
    return tuple(tuple(row) for row in heads.select(keys)[first].iter_rows()), np.append(first, heads.height)
