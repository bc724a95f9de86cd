"""From checked rankings to placements: the label at every rank, rankings sorted by slice and request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError
from evenhand.tallies.ledger import UNKNOWN_LABEL
from evenhand.tallies.ledger import Unknown as Unknown
from evenhand.tallies.placement import UNKNOWN, Ints, Placement
from evenhand.tallies.requests import Requests
from evenhand.views.labels import Labels
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


def tally_placements(view: Rankings, labels: Labels, unknown: Unknown, *, some_labelled: bool = True) -> Placed:
    """The label at every rank; `view` carries what `labels` asked for.

    Empty ranks and unknown labels are -1; `unknown` says whether unknown labels stay so. Where `some_labelled`, labels that
    no item has are taken for ids that do not match.
    """
    keys, soft = list(view.keys), labels.shares
    rows = to_polars(view.lazy)
    if labels.table is not None:
        rows = _labelled(rows, labels.table, some_labelled=some_labelled)
    rows = rows.sort(*keys, "rank", nulls_last=True)
    first = _first_of_runs(rows, keys)
    heads = rows[first]
    depths = _last_of_runs(rows["rank"].to_numpy(), first)
    starts = np.concatenate([[0], np.cumsum(depths)]).astype(np.int64)
    owner = np.repeat(np.arange(len(first)), np.diff(first, append=rows.height))
    at = starts[owner] + rows["rank"].to_numpy() - 1
    codes, groups, shares = _shares(rows, soft) if soft else (*_codes(rows["group"]), None)
    missing = np.bincount(owner, codes < 0, minlength=len(first)).astype(np.int64)
    if missing.any():
        codes, groups = _settled(codes, groups, unknown, int(missing.sum()), rows.height, soft=bool(soft))
    placed = np.full(int(starts[-1]), UNKNOWN, dtype=codes.dtype)
    placed[at] = codes
    spread = None
    if shares is not None:
        spread = np.full((int(starts[-1]), len(groups)), np.nan)
        spread[at] = shares
    slices, edges = _slices(heads, list(view.slices))
    tally = Placement(placed, starts, groups, rows=spread)
    return Placed(tally, slices, edges, tuple(heads["request"].to_list()), missing)


def _labelled(rows: Any, labels: Any, *, some_labelled: bool) -> Any:
    """Join the labels by item, or by request and item; ids are compared as text where their types differ."""
    import polars as pl

    keys = [key for key in ("request", "item") if key in labels.columns]
    for key in keys:
        if rows[key].dtype != labels[key].dtype:
            labels = labels.with_columns(pl.col(key).cast(pl.String).alias(f"text_{key}")).drop(key)
            rows = rows.with_columns(pl.col(key).cast(pl.String).alias(f"text_{key}"))
    on = [key if key in labels.columns else f"text_{key}" for key in keys]
    if some_labelled and labels.height and rows.height and not rows.join(labels, on=on, how="semi").height:
        raise EvenhandError(
            f"None of the items in the rankings has a label (for example {rows['item'][0]!r}; the labels have "
            f"{labels[on[-1]][0]!r}). Check that both name items the same way."
        )
    return rows.join(labels, on=on, how="left", maintain_order="left")


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
    """Codes and labels, sorted; a column of whole numbers with gaps comes as floats and is turned back."""
    import polars as pl

    if column.dtype.is_float() and bool((column.drop_nulls() == column.drop_nulls().round()).all()):
        column = column.cast(pl.Int64)
    labels = column.drop_nulls().unique().sort()
    kind = np.int8 if len(labels) < 120 else np.int32
    if not len(labels):
        return np.full(len(column), UNKNOWN, dtype=kind), ()
    codes = column.rank("dense").cast(pl.Int64) - 1
    return codes.fill_null(UNKNOWN).to_numpy().astype(kind), tuple(labels.to_list())


def _shares(rows: Any, soft: tuple[str, ...]) -> tuple[Any, tuple[Any, ...], Any]:
    """Codes (0 where known), groups and (rows, groups) shares."""
    shares = rows.select(f"share_{i}" for i in range(len(soft))).to_numpy().astype(np.float64)
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
