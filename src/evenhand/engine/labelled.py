"""Ranked items of every group label, counted in the engine or looked up; labels that are taken together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.views.columns import in_words
from evenhand.views.labels import Alignment, Carried, coded, codes, refuse_unnamed
from evenhand.views.match import matched_ids
from evenhand.views.places import Places
from evenhand.views.tables import each_once, to_polars

Found = Alignment | Carried

SPARSEST = 8
"""Whole numbers that items may be spread over, per item, for their labels to be looked up in an array."""


@dataclass(frozen=True)
class Lookup:
    """The labels of rows by their ids, as places in `labels`.

    Attributes
    ----------
    ids : a Polars frame of ids (columns `keys`), no row twice; None where rows carry their labels.
    held : (n + 1,) the codes of the ids, and "none" behind the last.
    table : the codes of items `low`, `low` + 1, ..., and "none" at its end, where items are whole numbers close together.
    sought : where ids stand, by the types of those that were asked for.
    """

    labels: tuple[Any, ...]
    keys: list[str]
    ids: Any
    role: str
    held: npt.NDArray[Any] | None = None
    low: int = 0
    table: npt.NDArray[Any] | None = None
    sought: dict[tuple[Any, ...], Places] = field(default_factory=dict)

    @classmethod
    def carried(cls, labels: Sequence[Any]) -> Lookup:
        """For rows that carry their labels."""
        return cls(tuple(labels), [], None, "groups")

    @classmethod
    def of(cls, known: Any, keys: list[str], role: str, labels: Sequence[Any] | None = None) -> Lookup:
        """From a Polars frame of ids and groups, an id once; the labels are those that are there, unless told."""
        found, labels = coded(known["group"]) if labels is None else (codes(known["group"], labels), labels)
        kind = np.int16 if len(labels) < 2**15 else np.int32
        held = np.append(found.astype(kind), kind(len(labels)))
        made = cls(tuple(labels), keys, known.select(keys), role, held)
        items = known[keys[-1]]
        if len(keys) > 1 or not items.len() or not _whole(items):
            return made
        low, high = int(items.min()), int(items.max())
        if high - low > SPARSEST * items.len() + 2**16:
            return made
        table = np.full(high - low + 2, len(labels), dtype=kind)
        table[items.to_numpy().astype(np.int64) - low] = held[:-1]
        return replace(made, low=low, table=table)

    def codes(self, rows: Any) -> npt.NDArray[Any]:
        """(rows,) places in `labels`; behind the last where an item has none. Rows that carry their label are asked for it."""
        if self.held is None or "group" in rows.columns:
            return codes(rows["group"], self.labels)
        refuse_unnamed(rows.columns, self.keys)
        if self.table is not None and _whole(rows[self.keys[0]]):
            at = np.subtract(rows[self.keys[0]].to_numpy(), self.low, dtype=np.int64).view(np.uint64)
            np.minimum(at, np.uint64(len(self.table) - 1), out=at)  # what is below the lowest has become very large
            return np.asarray(self.table.take(at.view(np.int64), mode="clip"))
        return np.asarray(self.held.take(self._places(rows.select(self.keys))))

    def _places(self, rows: Any) -> npt.NDArray[Any]:
        """(rows,) where their ids stand among ours, which are made comparable once."""
        kinds = tuple(rows.dtypes)
        ids, asked = self.ids, rows
        if kinds != tuple(ids.dtypes):
            mine, theirs = (nw.from_native(frame).lazy() for frame in (ids, asked))
            matched = matched_ids(mine, theirs, self.keys, role=self.role)
            ids, asked = (one.collect("polars").to_native() for one in matched)
        if kinds not in self.sought:
            self.sought[kinds] = Places.of(ids)
        return self.sought[kinds].of_rows(asked)


def _whole(ids: Any) -> bool:
    """Whether these are whole numbers that 64 bits with a sign hold, none of them missing."""
    import polars as pl

    return bool(ids.dtype.is_integer() and ids.dtype not in (pl.UInt64, pl.Int128) and not ids.null_count())


def items_by_label(
    lazy: nw.LazyFrame[Any], found: Found, slices: Sequence[str]
) -> list[tuple[tuple[tuple[Any, ...], Any], int]]:
    """Items of each label in each slice (rows, where items have no names)."""
    keys = [*slices, "group"]
    counted = _once(_labelled(lazy, found), keys).group_by(*keys).agg(nw.len().alias("items"))
    frame = to_polars(counted.select(*keys, "items"))
    return [((tuple(row[:-2]), row[-2]), int(row[-1])) for row in frame.iter_rows()]


def renamed_rows(lazy: nw.LazyFrame[Any], names: Mapping[Any, str]) -> nw.LazyFrame[Any]:
    """Rows with their labels, if they carry any, under other names."""
    carries = "group" in lazy.collect_schema().names()
    return lazy.with_columns(_renamed(nw.col("group"), names).alias("group")) if carries else lazy


def renamed_labels(found: Alignment, names: Mapping[Any, str]) -> Alignment:
    """Groups of items under other names; the shares of groups that get one name are added up."""
    named = found.lazy.with_columns(_renamed(nw.col("group"), names).alias("group"))
    summed = named.group_by(*found.keys, "group").agg(nw.col("share").sum())
    every = tuple(dict.fromkeys(names.get(label, str(label)) for label in found.named))
    return replace(found, lazy=summed, named=every)


def _renamed(column: nw.Expr, names: Mapping[Any, str]) -> nw.Expr:
    renamed = in_words(column)
    for name in dict.fromkeys(names.values()):
        joined = [label for label, new in names.items() if new == name]
        renamed = nw.when(column.is_in(joined)).then(nw.lit(name)).otherwise(renamed)
    return renamed


def _labelled(lazy: nw.LazyFrame[Any], found: Found) -> nw.LazyFrame[Any]:
    if isinstance(found, Carried):
        return lazy
    aligned, lazy = found.beside(lazy)
    shown = aligned.lazy.filter(nw.col("share") > 0).select(*aligned.keys, nw.col("group").alias("evenhand_group"))
    joined = lazy.join(shown, on=aligned.keys, how="left")
    return joined.with_columns(nw.col("evenhand_group").alias("group"))


def _once(rows: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    named = "item" in rows.collect_schema().names()
    return each_once(rows.select(*keys, "item")) if named else rows.select(*keys)
