"""Ranked items of every group label, counted in the engine; labels that are taken together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw

from evenhand.views.columns import in_words
from evenhand.views.labels import Alignment, Carried
from evenhand.views.tables import to_polars

Found = Alignment | Carried


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
    return rows.select(*keys, "item").unique() if named else rows.select(*keys)
