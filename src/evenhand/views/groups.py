"""Which group an item belongs to: one label, shares of several, labels of several columns together, or via providers."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.views.columns import label as plain_label
from evenhand.views.columns import label_problems
from evenhand.views.files import has_known_ending, may_be_file
from evenhand.views.match import how_many, matched_ids, same_engine
from evenhand.views.tables import Table, is_number, open_table, to_polars

NEAR = 1e-6
"""How far from 1 the shares of an item may add up to."""

TOGETHER = " & "
"""Between the parts of an intersectional label."""


@dataclass(frozen=True)
class Alignment:
    """Items and their groups, one row per item and group.

    Attributes
    ----------
    lazy : columns item, group, share. A missing group is unknown; the shares of an item add up to 1.
    soft : whether an item may belong to several groups.
    origin : where it came from, in a few words.
    named : groups that exist whether or not an item is theirs.
    """

    lazy: nw.LazyFrame[Any]
    soft: bool
    origin: str
    named: tuple[str, ...] = ()

    @property
    def frame(self) -> Any:
        """The rows as a Polars frame."""
        return to_polars(self.lazy)


@dataclass(frozen=True)
class LabelColumns:
    """Labels that stand in the table of rankings itself."""

    columns: tuple[str, ...]

    @property
    def origin(self) -> str:
        return f"column {listing(map(repr, self.columns))} of the rankings"

    def expression(self, table: Table) -> nw.Expr:
        """One label per row; several columns are combined, and unknown where one of them is."""
        return _combined(list(self.columns), table)


def view_groups(groups: Any, table: Table, *, item: str, request: str = "request") -> Alignment | LabelColumns:
    """What was passed as `groups`, checked."""
    if isinstance(groups, Alignment):
        return groups
    if isinstance(groups, Mapping):
        return _from_mapping(groups)
    if (fair := _fair_groups(groups)) is not None:
        return fair
    names = table.schema.names()
    if isinstance(groups, str) and (groups in names or not may_be_file(groups)):
        return _label_columns([groups], names)
    several = isinstance(groups, (list, tuple)) and groups and all(isinstance(g, str) for g in groups)
    if several and any(g in names for g in groups):
        return _label_columns(list(groups), names)
    return _from_table(_opened(groups), item, request)


def _fair_groups(groups: Any) -> Alignment | None:
    """A file of the TREC Fair track, `"trec-fair:FILE"`."""
    from evenhand.views.trec_fair import fair_paths, trec_fair_groups

    found = fair_paths(groups)
    return None if found is None else trec_fair_groups(found[0])


def _opened(groups: Any) -> Table:
    if isinstance(groups, (str, Path)) and os.path.isfile(groups) and not has_known_ending(str(groups)):
        from evenhand.views.read import labels

        return Table(open_table(labels(groups)).lazy, "polars", str(groups))
    return open_table(groups, role="groups")


def _label_columns(columns: list[str], names: Sequence[str]) -> LabelColumns:
    problems = [
        f"groups={c!r} is not a column of the rankings. {suggestion(c, names)}Columns: {listing(names)}."
        for c in columns
        if c not in names
    ]
    if problems:
        raise all_problems(problems)
    return LabelColumns(tuple(columns))


def _combined(columns: list[str], table: Table) -> nw.Expr:
    if problems := [p for c in columns for p in label_problems("groups", c, table)]:
        raise all_problems([p.replace("plain labels.", "plain labels, or eh.rollup(...).") for p in problems])
    schema = table.schema
    if len(columns) == 1:
        return plain_label(columns[0], schema[columns[0]])
    parts = [plain_label(c, schema[c]).cast(nw.String) for c in columns]
    return nw.concat_str(parts, separator=TOGETHER)


def _from_mapping(groups: Mapping[Any, Any]) -> Alignment:
    """`{item: label}`, `{item: {label: share}}`, None where unknown."""
    import polars as pl

    items: list[Any] = []
    labels: list[Any] = []
    shares: list[float] = []
    soft = False
    for item, label in groups.items():
        parts: Mapping[Any, Any] = label if isinstance(label, Mapping) else {label: 1.0}
        soft = soft or isinstance(label, Mapping)
        for group, share in parts.items():
            items.append(item)
            labels.append(None if isinstance(group, float) and math.isnan(group) else group)
            shares.append(share)
    try:
        frame = pl.DataFrame(
            {"item": items or pl.Series(dtype=pl.String), "group": labels or pl.Series(dtype=pl.String)}
        )
        frame = frame.with_columns(pl.Series("share", shares, dtype=pl.Float64))
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError(
            "groups mixes kinds of items or labels. Pass items of one type and labels of one type."
        ) from error
    found = Alignment(nw.from_native(frame).lazy(), soft, "a mapping")
    return _sound_shares(found) if soft else found


def _from_table(table: Table, item: str, request: str) -> Alignment:
    """A label per item (or per request and item), several label columns together, or one column of shares per group."""
    schema = table.schema
    names = list(schema.names())
    key = item if item in names else "item" if "item" in names else None
    asker = request if request in names else "request" if "request" in names else None
    others = [n for n in names if n not in (key, asker)]
    if key is None:
        raise EvenhandError(
            f"groups has no column {item!r}. Its columns are {listing(names)}: rename the one with the ids of items to {item!r}."
        )
    if not others:
        raise EvenhandError(
            f"groups needs at least one column of labels beside {key!r}. Its columns: {listing(names)}."
        )
    if len(others) > 1 and all(is_number(schema[n]) for n in others):
        return _from_shares(table, key, others)
    if {"group", "share"} == set(others) and is_number(schema["share"]):
        chosen = table.lazy.select(
            plain_label(key, schema[key]).alias("item"),
            plain_label("group", schema["group"]).alias("group"),
            nw.col("share").cast(nw.Float64),
        )
        return _sound_shares(Alignment(_with_items(chosen), True, table.origin))
    if len(others) > 1 and any(schema[n].is_float() for n in others):
        raise EvenhandError(
            f"groups mixes labels and numbers: {listing(f'{n} ({schema[n]})' for n in others)}. "
            "Pass labels only (they are combined), or one column of shares per group."
        )
    roles = {"item": key} | ({} if asker is None else {"request": asker})
    keys = [plain_label(name, schema[name]).alias(role) for role, name in roles.items()]
    chosen = table.lazy.select(*keys, _combined(others, table).alias("group"))
    chosen = _with_items(chosen).with_columns(nw.lit(1.0).alias("share"))
    _refuse_twice(chosen, ["item"] if asker is None else ["request", "item"])
    return Alignment(chosen, False, table.origin)


def _with_items(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return lazy.filter(~nw.col("item").is_null())


def _refuse_twice(lazy: nw.LazyFrame[Any], keys: Sequence[str] = ("item",)) -> None:
    twice = lazy.group_by(*keys).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    count = int(to_polars(twice.select(nw.len().alias("n")))["n"][0])
    if count:
        first = to_polars(twice.select(nw.col("item").min()))["item"][0]
        raise EvenhandError(
            f"groups lists {count:,} items more than once (for example {first!r}). "
            "Give each item one row, or pass eh.rollup(...) where an item has several providers."
        )


def _from_shares(table: Table, key: str, columns: list[str]) -> Alignment:
    """Item x group columns of shares: long, without the zeros; a row of missing values is unknown."""
    items = plain_label(key, table.schema[key]).alias("item")
    wide = _with_items(table.lazy.select(items, *(nw.col(c).cast(nw.Float64) for c in columns)))
    holes = [nw.col(c).is_null() | nw.col(c).is_nan() for c in columns]
    total = nw.sum_horizontal(*columns)
    facts = to_polars(
        wide.select(
            nw.len().alias("rows"),
            *(how_many(nw.col(c) < 0).alias(f"negative_{i}") for i, c in enumerate(columns)),
            how_many(
                ~nw.all_horizontal(*holes, ignore_nulls=True) & nw.any_horizontal(*holes, ignore_nulls=True)
            ).alias("part"),
            how_many((total - 1).abs() > NEAR).alias("off"),
            how_many(nw.all_horizontal(*holes, ignore_nulls=True)).alias("unknown"),
        )
    ).row(0, named=True)
    off = int(facts["off"] or 0) - int(facts["unknown"] or 0)
    negative = sum(int(facts[f"negative_{i}"] or 0) for i in range(len(columns)))
    if negative or facts["part"] or off > 0:
        raise EvenhandError(
            f"groups holds {negative:,} negative shares, {int(facts['part'] or 0):,} rows with some shares missing and "
            f"{max(off, 0):,} rows that do not add up to 1. Pass shares of zero or more that add up to 1 for each item."
        )
    _refuse_twice(wide.select("item"))
    unknown = wide.filter(nw.all_horizontal(*holes, ignore_nulls=True)).select("item")
    blank = unknown.with_columns(nw.lit(None, nw.String).alias("group"), nw.lit(1.0).alias("share"))
    long = wide.unpivot(columns, index="item", variable_name="group", value_name="share").filter(nw.col("share") > 0)
    together = nw.concat([long.select("item", "group", "share"), blank.select("item", "group", "share")])
    return Alignment(together, True, table.origin, tuple(columns))


def _sound_shares(found: Alignment) -> Alignment:
    share = nw.col("share")
    per_item = found.lazy.group_by("item").agg(share.sum().alias("total"), share.min().alias("least"))
    off = per_item.filter(((nw.col("total") - 1).abs() > NEAR) | (nw.col("least") < 0)).select(nw.len().alias("n"))
    count = int(to_polars(off)["n"][0])
    if count:
        raise EvenhandError(
            f"groups gives {count:,} items shares that are negative or do not add up to 1. Pass shares that add up to 1."
        )
    return found


def rollup(
    items: Any, providers: Any = None, *, item: str = "item", provider: str = "provider", group: str = "group",
    weight: str | None = None,
) -> Alignment:  # fmt: skip
    """Groups of items through their providers: each item is shared among the groups of those who made it.

    Parameters
    ----------
    items : table with one row per item and provider, or `{item: [provider, ...]}`. Without `providers` it holds `group`.
    providers : table provider -> group, or `{provider: group}`. A provider that is absent or has no group is unknown, and
        its part of the item goes to the unknown.
    weight : column of `items` with the weight of each provider in the item (default: equal parts).

    >>> found = rollup({"paper": ["ann", "bob"]}, {"ann": "f", "bob": "m"})
    >>> sorted(found.frame.iter_rows())
    [('paper', 'f', 0.5), ('paper', 'm', 0.5)]
    """
    made = _makers(items, item, provider if providers is not None else group)
    schema, names = made.schema, made.schema.names()
    wanted = [("item", item), ("provider", provider) if providers is not None else ("group", group)]
    wanted += [("weight", weight)] if weight is not None else []
    problems = [
        f"{role}={c!r} is not a column of items. {suggestion(str(c), names)}Columns: {listing(names)}."
        for role, c in wanted
        if c not in names
    ]
    if problems:
        raise all_problems(problems, where="eh.rollup")
    part = nw.lit(1.0) if weight is None else nw.col(weight).cast(nw.Float64)
    maker = wanted[1][1]
    lazy = made.lazy.select(
        nw.col(item).alias("item"), plain_label(str(maker), schema[str(maker)]).alias("maker"), part.alias("part")
    )
    lazy = _with_items(lazy)
    _refuse_bad_parts(lazy)
    if providers is None:
        lazy = lazy.with_columns(nw.col("maker").alias("group"))
    else:
        lazy = _with_provider_groups(lazy, providers, provider, group)
    totals = lazy.group_by("item").agg(nw.col("part").sum().alias("total"))
    shares = lazy.group_by("item", "group").agg(nw.col("part").sum().alias("part")).join(totals, on="item", how="left")
    shares = shares.with_columns((nw.col("part") / nw.col("total")).alias("share")).select("item", "group", "share")
    return Alignment(
        shares, True, f"{made.origin}, through {provider if providers is not None else 'several rows per item'}"
    )


def _makers(items: Any, item: str, maker: str) -> Table:
    if not isinstance(items, Mapping):
        return open_table(items, role="items")
    import polars as pl

    pairs = [
        (i, p) for i, ps in items.items() for p in ([ps] if isinstance(ps, str) or not hasattr(ps, "__iter__") else ps)
    ]
    frame = pl.DataFrame({item: [i for i, _ in pairs], maker: [p for _, p in pairs]}, strict=False)
    return open_table(frame, role="items")


def _refuse_bad_parts(lazy: nw.LazyFrame[Any]) -> None:
    part = nw.col("part")
    per_item = lazy.group_by("item").agg(part.sum().alias("total"), part.min().alias("least"), part.max().alias("most"))
    sound = (nw.col("total") > 0) & (nw.col("least") >= 0) & nw.col("most").is_finite()
    count = int(to_polars(per_item.select(how_many(~sound.fill_null(False)).alias("n")))["n"][0] or 0)
    if count:
        raise EvenhandError(
            f"weight gives {count:,} items negative, missing or only zero weights. Pass weights above zero."
        )


def _with_provider_groups(lazy: nw.LazyFrame[Any], providers: Any, provider: str, group: str) -> nw.LazyFrame[Any]:
    if isinstance(providers, Mapping):
        table = _makers({k: [v] for k, v in providers.items()}, provider, group)
    else:
        table = open_table(providers, role="providers")
    names = table.schema.names()
    problems = [
        f"{role}={c!r} is not a column of providers. {suggestion(c, names)}Columns: {listing(names)}."
        for role, c in (("provider", provider), ("group", group))
        if c not in names
    ]
    if problems:
        raise all_problems(problems, where="eh.rollup")
    known = table.lazy.select(nw.col(provider).alias("maker"), plain_label(group, table.schema[group]).alias("group"))
    known = known.filter(~nw.col("maker").is_null())
    twice = known.group_by("maker").agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    count = int(to_polars(twice.select(nw.len().alias("n")))["n"][0])
    if count:
        raise EvenhandError(f"providers lists {count:,} providers more than once. Give each provider one group.")
    known = same_engine(known, lazy)
    known, lazy = matched_ids(known, lazy, ["maker"], role="providers")
    return lazy.join(known, on="maker", how="left").select("item", "group", "part")
