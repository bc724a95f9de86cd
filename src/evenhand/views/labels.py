"""Which group an item belongs to: the one reader of labels, whatever they are written in.

A column of the rankings, several of them (combined), `eh.shares(...)`, `{item: label}`, a table item -> label, labels per
request and item in the form of judgments, a table of shares, or `eh.rollup(...)`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.labels import in_order
from evenhand.sources.files import has_known_ending, may_be_file
from evenhand.sources.labels import Labels, Shares, read_shares
from evenhand.views.columns import how_many, in_words, label_problems, number
from evenhand.views.columns import label as plain_label
from evenhand.views.match import matched_ids, same_engine
from evenhand.views.places import Places, are_distinct
from evenhand.views.tables import Table, each_once, is_number, open_table, to_polars

NEAR = 1e-6
"""How far from 1 the shares of an item may add up to."""

FEW = 1 << 18
"""Labels that are kept in memory from the start."""

MOST_PAIRS = 1 << 22
"""Different items of rankings that carry their labels, which are kept: to find them has taken more memory than that."""

COMPARED = 6
"""Labels that a column is compared with, one by one: of more, they are looked up."""

SOON = 1_000
"""Rows in which all labels are likely to be met, where these are few."""

TOGETHER = " & "
"""Between the parts of an intersectional label."""


@dataclass(frozen=True)
class Alignment:
    """Items and their groups, one row per item and group.

    Attributes
    ----------
    lazy : columns item (and request, where labels depend on it), group, share. A missing group is unknown; the shares of
        an item add up to 1.
    soft : whether an item may belong to several groups.
    origin : where it came from, in a few words.
    named : groups that exist whether or not an item is theirs.
    word : how a plan writes it, where it can.
    """

    lazy: nw.LazyFrame[Any]
    soft: bool
    origin: str
    named: tuple[str, ...] = ()
    word: str = ""

    def as_word(self) -> str | None:
        return self.word or None

    @property
    def frame(self) -> Any:
        """The rows as a Polars frame."""
        return to_polars(self.lazy)

    @property
    def keys(self) -> list[str]:
        """What rows are joined by: the item, or the request and the item."""
        return [c for c in self.lazy.collect_schema().names() if c in ("request", "item")]

    def carry(self, _: Table) -> dict[str, nw.Expr]:
        """Nothing needs to be taken along from the rankings."""
        return {}

    def beside(self, rows: nw.LazyFrame[Any]) -> tuple[Alignment, nw.LazyFrame[Any]]:
        """The same in the engine of the rankings, with ids that compare, and the rankings likewise."""
        refuse_unnamed(rows.collect_schema().names(), self.keys)
        groups, rows = matched_ids(same_engine(self.lazy, rows), rows, self.keys, role="groups")
        return replace(self, lazy=groups), rows


def refuse_unnamed(columns: Sequence[str], keys: Sequence[str]) -> None:
    """Rankings without a column that labels are joined by."""
    if lacking := [key for key in keys if key not in columns]:
        raise EvenhandError(
            f"Labels are joined by item, and the rankings have no column of {lacking[0]}s. Name it with {lacking[0]}=."
        )


@dataclass(frozen=True)
class Carried:
    """Labels, or shares, that stand in the table of rankings itself.

    Attributes
    ----------
    columns : of labels, which are combined; or, where `soft`, of shares, in the order of the labels.
    """

    columns: tuple[str, ...]
    role: str = "groups"
    soft: bool = False
    counts: bool = False

    @property
    def origin(self) -> str:
        return f"column {listing(map(repr, self.columns))} of the rankings"

    def carry(self, table: Table) -> dict[str, nw.Expr]:
        """What to take along from the rankings: `group`, unknown where one of its columns is; or `share_0`, `share_1`, ..."""
        if self.soft:
            held = [number(c, table) for c in self.columns]
            return {f"share_{i}": share for i, share in enumerate(_parts(held) if self.counts else held)}
        return {"group": combined(list(self.columns), table, self.role)}

    def beside(self, rows: nw.LazyFrame[Any]) -> tuple[Alignment, nw.LazyFrame[Any]]:
        """Rows that carry labels as a table of items; of requests and items where an item has several."""
        held = [f"share_{i}" for i in range(len(self.columns))] if self.soft else ["group"]
        unknown = (
            nw.all_horizontal(*map(_is_missing, held), ignore_nulls=True) if self.soft else nw.col("group").is_null()
        )
        labelled = rows.select("request", "item", *held).filter(~unknown)
        pairs = _at_hand(each_once(labelled.select("item", *held)), MOST_PAIRS)
        keys = ["item"]
        if _repeated(pairs, keys)[0]:  # a label that depends on the request, as a viewpoint may
            pairs, keys = each_once(labelled), ["request", "item"]
            count, _ = _repeated(pairs, keys)
            if count:
                raise EvenhandError(
                    f"{self.origin} gives {count:,} items several labels in the same request. "
                    f"Give each item one, or pass eh.rollup(...) as {self.role}."
                )
        if not self.soft:
            return Alignment(pairs.with_columns(nw.lit(1.0).alias("share")), False, self.origin), rows
        wide = pairs.rename(dict(zip(held, self.columns, strict=True)))
        return _of_shares(wide, keys, list(self.columns), self.origin, self.role), rows.drop(*held)


def view_labels(
    given: Any, table: Table, *, item: str, request: str = "request", role: str = "groups"
) -> Alignment | Carried:
    """What was passed as `role`, checked; `table` holds the rankings that the labels are for."""
    if isinstance(given, Labels):
        return _aligned(given)
    if isinstance(given, Alignment):
        return given
    if (fair := _of_trec_fair(given)) is not None:
        return fair
    names = table.schema.names()
    if isinstance(given, str) and given not in names:
        given = read_shares(given) or _rolled_up(given) or given
    if isinstance(given, Shares):
        return _share_columns(given, table, role) if given.of is None else _shares_of(given, item, request, role)
    if isinstance(given, Alignment):
        return given
    if isinstance(given, str) and (given in names or not may_be_file(given)):
        return _label_columns([given], table, role)
    several = isinstance(given, (list, tuple)) and given and all(isinstance(g, str) for g in given)
    if several and any(g in names for g in given):
        return _label_columns(list(given), table, role)
    if isinstance(given, Mapping):
        return _from_mapping(given, role)
    return _from_table(_opened(given, role), item, request, role)


def _of_trec_fair(given: Any) -> Alignment | None:
    """A file of the TREC Fair track, `"trec-fair:FILE"`."""
    from evenhand.sources.trec_fair import fair_paths, trec_fair_groups

    found = fair_paths(given)
    return None if found is None else _aligned(trec_fair_groups(found[0]))


def _aligned(labels: Labels) -> Alignment:
    """Labels of the new door for audits that have not gone through it yet."""
    return Alignment(nw.from_native(labels.frame).lazy(), labels.soft, labels.origin, labels.named, labels.word)


def _opened(given: Any, role: str) -> Table:
    if isinstance(given, (str, Path)) and os.path.isfile(given) and not has_known_ending(str(given)):
        from evenhand.sources.trec import labels

        return Table(open_table(labels(given)).lazy, "polars", str(given))
    return open_table(given, role=role)


def _refuse_absent(columns: Sequence[str], table: Table, role: str) -> None:
    names = table.schema.names()
    problems = [
        f"{role}={c!r} is not a column of the rankings. {suggestion(c, names)}Columns: {listing(names)}."
        for c in columns
        if c not in names
    ]
    if problems:
        raise all_problems(problems)


def _label_columns(columns: list[str], table: Table, role: str) -> Carried:
    _refuse_absent(columns, table, role)
    if len(columns) > 1 and all((read := table.numbers(*columns)).schema[c].is_float() for c in columns):
        _refuse_shares(columns, read, role)
    return Carried(tuple(columns), role)


def _refuse_shares(columns: list[str], table: Table, role: str) -> None:
    """Numbers that add up to 1 in every row are hardly labels to be combined."""
    held = [table.col(c) for c in columns]
    total, broken = nw.sum_horizontal(*held), [(share > 0) & (share < 1) for share in held]
    asked = table.lazy.select(
        how_many((total - 1).abs() <= NEAR).alias("one"),
        how_many(~nw.all_horizontal(*(s.is_null() | s.is_nan() for s in held), ignore_nulls=True)).alias("known"),
        how_many(nw.any_horizontal(*broken, ignore_nulls=True)).alias("broken"),
    )
    facts = {name: int(count or 0) for name, count in to_polars(asked).row(0, named=True).items()}
    if facts["broken"] and facts["one"] == facts["known"]:
        raise EvenhandError(
            f"{role}={columns!r} names columns of shares, and a list of columns means labels that are combined. "
            f"Pass eh.{Shares(tuple(columns))}."
        )


def _share_columns(given: Shares, table: Table, role: str) -> Carried:
    _refuse_absent(given.columns, table, role)
    schema = table.numbers(*given.columns).schema
    words = [c for c in given.columns if not is_number(schema[c])]
    if words:
        raise EvenhandError(
            f"{role}={str(given)!r} names columns that hold no numbers: {listing(words)}. Name columns of shares."
        )
    return Carried(tuple(in_order(given.columns)), role, soft=True, counts=given.counts)


def _shares_of(given: Shares, item: str, request: str, role: str) -> Alignment:
    """Shares, or counts, that stand in a table of items or in a mapping."""
    if isinstance(given.of, Mapping):
        return _from_mapping(given.of, role, counts=given.counts)
    found = _from_table(_opened(given.of, role), item, request, role, given)
    if not found.soft:
        raise EvenhandError(
            f"{role}={str(given)!r} is a table of labels, not of numbers. Pass the table itself, or name its columns of numbers."
        )
    return found


def _rolled_up(text: str) -> Alignment | None:
    """`rollup(items.csv, providers.csv)` as plans and the command line write it."""
    from evenhand.sources.rollup import read_rollup

    found = read_rollup(text)
    return None if found is None else _aligned(found)


def _parts(counts: Sequence[nw.Expr]) -> list[nw.Expr]:
    """Counts over their sum, unknown where all are zero; a row with a negative one stays as it is, to be refused as shares are."""
    held = [nw.when(~c.is_nan()).then(c) for c in counts]
    total, least = nw.sum_horizontal(*held), nw.min_horizontal(*held)
    return [nw.when(least < 0).then(c).otherwise(nw.when(total > 0).then(c / total)) for c in held]


def combined(columns: list[str], table: Table, role: str) -> nw.Expr:
    if problems := [p for c in columns for p in label_problems(role, c, table)]:
        raise all_problems([p.replace("plain labels.", "plain labels, or eh.rollup(...).") for p in problems])
    if len(columns) == 1:
        return plain_label(columns[0], table)
    parts = [in_words(plain_label(c, table)) for c in columns]
    return nw.concat_str(parts, separator=TOGETHER)


def _from_mapping(given: Mapping[Any, Any], role: str, *, counts: bool = False) -> Alignment:
    """`{item: label}`, `{item: {label: share}}`, None where unknown."""
    import polars as pl

    items: list[Any] = []
    labels: list[Any] = []
    parts: list[float] = []
    soft = False
    for item, label in given.items():
        split: Mapping[Any, Any] = label if isinstance(label, Mapping) else {label: 1.0}
        soft = soft or isinstance(label, Mapping)
        for group, share in split.items():
            items.append(item)
            labels.append(None if isinstance(group, float) and math.isnan(group) else group)
            parts.append(share)
    try:
        frame = pl.DataFrame(
            {"item": items or pl.Series(dtype=pl.String), "group": labels or pl.Series(dtype=pl.String)}
        )
        frame = frame.with_columns(pl.Series("share", parts, dtype=pl.Float64))
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError(
            f"{role} mixes kinds of items or labels. Pass items of one type and labels of one type."
        ) from error
    found = Alignment(nw.from_native(frame).lazy(), soft, "a mapping")
    return _sound(found, role, counts=counts) if soft or counts else found


def _from_table(
    table: Table,
    item: str,
    request: str,
    role: str,
    asked: Shares = Shares(()),  # noqa: B008  (frozen)
) -> Alignment:
    """A label per item (or per request and item), several label columns together, or one column of shares per group."""
    names = list(table.schema.names())
    key = item if item in names else "item" if "item" in names else None
    asker = request if request in names else "request" if "request" in names else None
    judged = ["iteration"] if "relevance" in names else []  # what judgments hold beside their label
    others = [n for n in names if n not in (key, asker, *judged)]
    if key is None:
        raise EvenhandError(
            f"{role} has no column {item!r}. Its columns are {listing(names)}: rename the one with the ids of items to {item!r}."
        )
    if lost := [c for c in asked.columns if c not in names]:
        raise EvenhandError(
            f"{lost[0]!r} is not a column of {role}. {suggestion(lost[0], names)}Columns: {listing(names)}."
        )
    others = list(asked.columns) or others
    if not others:
        raise EvenhandError(
            f"{role} needs at least one column of labels beside {key!r}. Its columns: {listing(names)}."
        )
    roles = {"item": key} | ({} if asker is None else {"request": asker})
    keys = [plain_label(name, table).alias(name_of) for name_of, name in roles.items()]
    read = table.numbers(*others) if len(others) > 1 else table
    schema = read.schema
    if len(others) > 1 and all(is_number(schema[n]) for n in others):
        held = [number(c, read) for c in others]
        held = _parts(held) if asked.counts else held
        wide = read.lazy.select(*keys, *(share.alias(c) for c, share in zip(others, held, strict=True)))
        return _of_shares(_once(_with_items(wide), list(roles), role), list(roles), others, table.origin, role)
    if {"group", "share"} == set(others) and is_number(schema["share"]):
        chosen = table.numbers("share").lazy.select(
            *keys, plain_label("group", table).alias("group"), number("share", table).alias("share")
        )
        return _sound(Alignment(_with_items(chosen), True, table.origin), role, counts=asked.counts)
    if len(others) > 1 and any(schema[n].is_float() for n in others):
        raise EvenhandError(
            f"{role} mixes labels and numbers: {listing(f'{n} ({schema[n]})' for n in others)}. "
            "Pass labels only (they are combined), or one column of shares per group."
        )
    chosen = _with_items(table.lazy.select(*keys, combined(others, table, role).alias("group")))
    labelled = _once(chosen, list(roles), role).with_columns(nw.lit(1.0).alias("share"))
    return Alignment(labelled, False, table.origin)


def _with_items(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Rows that name an item; in memory where they are few, for they are looked at several times."""
    found, named = few_rows(lazy), ~nw.col("item").is_null()
    if found is None:
        return lazy.filter(named)
    held: nw.LazyFrame[Any] = nw.from_native(found).lazy()
    return held.filter(named) if found["item"].null_count() else held


def _at_hand(lazy: nw.LazyFrame[Any], most: int) -> nw.LazyFrame[Any]:
    """The rows in memory, so that they are made once; as they were where they are more, or another engine holds them."""
    found = few_rows(lazy, most)
    return lazy if found is None else nw.from_native(found).lazy()


def few_rows(lazy: nw.LazyFrame[Any], most: int = FEW) -> Any:
    """The rows as a Polars frame; None where they are more, or another engine holds them."""
    found = to_polars(lazy.head(most + 1)) if lazy.implementation.is_polars() else None
    return found if found is not None and found.height <= most else None


def _repeated(lazy: nw.LazyFrame[Any], keys: Sequence[str]) -> tuple[int, Any]:
    """How many keys have several rows, and the first item among them."""
    if lazy.implementation.is_polars() and are_distinct(lazy, keys):
        return 0, None
    twice = lazy.group_by(*keys).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    count, first = to_polars(twice.select(nw.len().alias("n"), nw.col("item").min().alias("first"))).row(0)
    return int(count), first


def _once(lazy: nw.LazyFrame[Any], keys: Sequence[str], role: str) -> nw.LazyFrame[Any]:
    """One row for each item (and request); the same row twice is one, two different ones are an error."""
    if not _repeated(lazy, keys)[0]:
        return lazy
    rows = each_once(lazy)
    count, first = _repeated(rows, keys)
    if count:
        raise several_labels(role, count, first)
    return rows


def several_labels(role: str, count: int, first: Any) -> EvenhandError:
    """That ids have more than one label."""
    return EvenhandError(
        f"{role} gives {count:,} of its ids more than one label (for example {first!r}). "
        "Give each id one label, or pass eh.rollup(...) where an item has several providers."
    )


def _is_missing(column: str) -> nw.Expr:
    return nw.col(column).is_null() | nw.col(column).is_nan()


def _of_shares(wide: nw.LazyFrame[Any], keys: list[str], columns: list[str], origin: str, role: str) -> Alignment:
    """Item x group columns of shares: long, without the zeros; a row of missing values is unknown."""
    holes = [_is_missing(c) for c in columns]
    unknown, part = nw.all_horizontal(*holes, ignore_nulls=True), nw.any_horizontal(*holes, ignore_nulls=True)
    facts = to_polars(
        wide.select(
            *(how_many(~hole & (nw.col(c) < 0)).alias(c) for c, hole in zip(columns, holes, strict=True)),
            how_many(part & ~unknown).alias("evenhand_part"),
            how_many(~part & ((nw.sum_horizontal(*columns) - 1).abs() > NEAR)).alias("evenhand_off"),
        )
    ).row(0)
    *below, lacking, off = (int(count or 0) for count in facts)
    if any(facts):
        raise EvenhandError(
            f"{role} holds {sum(below):,} negative shares, {lacking:,} rows with some shares missing and {off:,} rows that do "
            "not add up to 1. Pass shares of zero or more that add up to 1 for each item, or say that they are counts: "
            "eh.shares(..., counts=True)."
        )
    blank = wide.filter(unknown).select(*keys, nw.lit(None, nw.String).alias("group"), nw.lit(1.0).alias("share"))
    # not unpivot, for which narwhals leaves the connection that a DuckDB relation lives in
    parts = [
        wide.filter(~hole & (nw.col(c) > 0)).select(*keys, nw.lit(c).alias("group"), nw.col(c).alias("share"))
        for c, hole in zip(columns, holes, strict=True)
    ]
    return Alignment(nw.concat([*parts, blank]), True, origin, tuple(columns))


def _sound(found: Alignment, role: str, *, counts: bool = False) -> Alignment:
    share = nw.col("share")
    if counts:
        found = _divided(found, role)
    per_item = found.lazy.group_by(*found.keys).agg(share.sum().alias("total"), share.min().alias("least"))
    off = per_item.filter(((nw.col("total") - 1).abs() > NEAR) | (nw.col("least") < 0)).select(nw.len().alias("n"))
    count = int(to_polars(off)["n"][0])
    if count:
        raise EvenhandError(
            f"{role} gives {count:,} items shares that are negative or do not add up to 1. Pass shares that add up to 1, or say "
            "that they are counts: eh.shares(..., counts=True)."
        )
    return found


def _divided(found: Alignment, role: str) -> Alignment:
    """Counts per item and group over the sum of the item, whose groups are unknown where that is zero."""
    share, total = nw.col("share"), nw.col("total")
    sums = found.lazy.group_by(*found.keys).agg(share.sum().alias("total"), nw.len().alias("rows"))
    odd = how_many(share.is_null() | share.is_nan() | ~share.is_finite() | (share < 0)).alias("n")
    count = int(to_polars(found.lazy.select(odd))["n"][0] or 0)
    if count:
        raise EvenhandError(
            f"{role} holds {count:,} counts that are negative, missing or infinite. Pass counts of zero or more."
        )
    joined = found.lazy.join(sums, on=found.keys, how="left").with_columns(
        nw.when(total > 0).then(nw.col("group")).alias("group"),
        nw.when(total > 0).then(share / total).otherwise(1.0 / nw.col("rows")).alias("share"),
    )
    return replace(found, lazy=joined.select(*found.keys, "group", "share"))


def coded(column: Any) -> tuple[npt.NDArray[np.int64], tuple[Any, ...]]:
    """Codes of a Polars column, as `codes` gives them, and its labels in order."""
    soon = tuple(in_order(column.head(SOON).unique().drop_nulls().to_list()))
    if len(soon) <= COMPARED and (found := _compared(column, soon)) is not None:
        return found, soon
    labels = tuple(in_order(column.unique().drop_nulls().to_list()))
    return codes(column, labels), labels


def codes(column: Any, labels: Sequence[Any]) -> npt.NDArray[np.int64]:
    """(rows,) where each label of a Polars column stands among `labels`; a missing one stands behind the last."""
    if len(labels) <= COMPARED and (found := _compared(column, labels)) is not None:
        return found
    place = {label: i for i, label in enumerate(labels)}
    there = column.unique()  # not the labels, of which several may be one value of the column, or none
    known = np.array([len(place) if g is None else place[g] for g in there.to_list()], dtype=np.int64)
    return known.take(Places.of(there.to_frame("group")).of_known(column.to_frame("group")))


def _compared(column: Any, labels: Sequence[Any]) -> npt.NDArray[np.int64] | None:
    """The same for a few labels in words, each held against the column; None where there are others."""
    import polars as pl

    if column.dtype != pl.String or not all(isinstance(label, str) for label in labels):
        return None
    found, missing = np.full(column.len(), len(labels), dtype=np.uint8), column.null_count()
    for i, label in enumerate(labels):
        same = (column == label).fill_null(value=False) if missing else column == label
        found -= same.to_numpy().view(np.uint8) * np.uint8(len(labels) - i)
    return None if np.count_nonzero(found == len(labels)) > missing else found.astype(np.int64)
