"""Groups of items through those who made them: each item is shared among the groups of its providers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.views.columns import how_many, number
from evenhand.views.columns import label as plain_label
from evenhand.views.labels import Alignment, as_call
from evenhand.views.match import matched_ids, same_engine
from evenhand.views.tables import Table, open_table, to_polars


def rollup(
    items: Any, providers: Any = None, *, item: str = "item", provider: str = "provider", group: str = "group",
    weight: str | None = None, split: str | None = None,
) -> Alignment:  # fmt: skip
    """Groups of items through their providers: each item is shared among the groups of those who made it.

    As text, in plans and on the command line: `rollup(items.csv, providers.csv, weight=part)`.

    Parameters
    ----------
    items : table with one row per item and provider, or `{item: [provider, ...]}`. Without `providers` it holds `group`.
    providers : table provider -> group, or `{provider: group}`. A provider that is absent or has no group is unknown, and
        its part of the item goes to the unknown.
    weight : column of `items` with the weight of each provider in the item (default: equal parts).
    split : what stands between several labels in one text, as in "Comedy|Drama": the item is then shared among them.

    >>> found = rollup({"paper": ["ann", "bob"]}, {"ann": "f", "bob": "m"})
    >>> sorted(found.frame.iter_rows())
    [('paper', 'f', 0.5), ('paper', 'm', 0.5)]
    >>> sorted(rollup({"film": "Comedy|Drama"}, split="|").frame.iter_rows())
    [('film', 'Comedy', 0.5), ('film', 'Drama', 0.5)]
    """
    made = _makers(items, item, provider if providers is not None else group).numbers(weight)
    names = made.schema.names()
    wanted = [("item", item), ("provider", provider) if providers is not None else ("group", group)]
    wanted += [("weight", weight)] if weight is not None else []
    problems = [
        f"{role}={c!r} is not a column of items. {suggestion(str(c), names)}Columns: {listing(names)}."
        for role, c in wanted
        if c not in names
    ]
    if problems:
        raise all_problems(problems, where="eh.rollup")
    if split is not None:
        made = _split(made, item, str(wanted[1][1]), split, weight)
    part = nw.lit(1.0) if weight is None else number(weight, made)
    maker = wanted[1][1]
    lazy = made.lazy.select(
        made.col(item).alias("item"), plain_label(str(maker), made).alias("maker"), part.alias("part")
    )
    lazy = lazy.filter(~nw.col("item").is_null())
    _refuse_bad_parts(lazy)
    if providers is None:
        lazy = lazy.with_columns(nw.col("maker").alias("group"))
    else:
        if weight is None:
            _refuse_repeated(lazy)
        lazy = _with_provider_groups(lazy, providers, provider, group)
    totals = lazy.group_by("item").agg(nw.col("part").sum().alias("total"))
    shares = lazy.group_by("item", "group").agg(nw.col("part").sum().alias("part")).join(totals, on="item", how="left")
    shares = shares.with_columns((nw.col("part") / nw.col("total")).alias("share")).select("item", "group", "share")
    origin = f"{made.origin}, through {provider if providers is not None else 'several rows per item'}"
    given = {"item": item, "provider": provider, "group": group, "weight": weight, "split": split}
    return Alignment(shares, _is_shared(shares), origin, word=_word(items, providers, given))


def _is_shared(shares: nw.LazyFrame[Any]) -> bool:
    """Whether any item belongs to more than one group; where none does, groups are labels like any others."""
    several = shares.group_by("item").agg(nw.len().alias("rows")).select(nw.col("rows").max().alias("most"))
    return int(to_polars(several)["most"][0] or 0) > 1


KEYWORDS = {"providers": None, "item": "item", "provider": "provider", "group": "group", "weight": None, "split": None}
"""What `rollup` takes by name, and its defaults."""


def _word(items: Any, providers: Any, given: Mapping[str, Any]) -> str:
    """The call as text; nothing where its tables have no name."""
    if not isinstance(items, (str, Path)) or not isinstance(providers, (str, Path, type(None))):
        return ""
    files = [repr(str(one)) for one in (items, providers) if one is not None]
    more = [f"{name}={value!r}" for name, value in given.items() if value != KEYWORDS[name]]
    return f"rollup({', '.join([*files, *more])})"


def read_rollup(text: str) -> Alignment | None:
    """`rollup(items.csv, providers.csv, split='|')` as plans and the command line write it; None where this is something else."""
    found = as_call(text, "rollup", list(KEYWORDS))
    if found is None:
        return None
    files, named = found
    if not 1 <= len(files) + ("providers" in named) <= 2 or not files:
        raise EvenhandError(
            f"{text!r} names {len(files)} files. Write rollup(items.csv, providers.csv), or rollup(items.csv)."
        )
    return rollup(*files, **named)


def _makers(items: Any, item: str, maker: str) -> Table:
    if not isinstance(items, Mapping):
        return open_table(items, role="items")
    import polars as pl

    pairs = [
        (i, p) for i, ps in items.items() for p in ([ps] if isinstance(ps, str) or not hasattr(ps, "__iter__") else ps)
    ]
    frame = pl.DataFrame({item: [i for i, _ in pairs], maker: [p for _, p in pairs]}, strict=False)
    return open_table(frame, role="items")


def _split(made: Table, item: str, maker: str, between: str, weight: str | None) -> Table:
    """A row for every label that one text holds; labels that are named twice in a text count once, empty ones not at all."""
    import polars as pl

    if not isinstance(between, str) or not between:
        raise EvenhandError(f"split={between!r} is no separator. Pass what stands between labels, such as '|'.")
    if weight is not None:
        raise EvenhandError("split= shares an item equally, and weight= says otherwise. Pass one of the two.")
    frame = to_polars(made.lazy.select(made.col(item), made.col(maker)))
    if frame[maker].dtype != pl.String:
        raise EvenhandError(f"{maker!r} holds {frame[maker].dtype} values, which split= cannot take apart. Pass text.")
    parts = pl.col(maker).str.split(between).list.eval(pl.element().str.strip_chars()).list.unique(maintain_order=True)
    rows = frame.with_columns(parts).explode(maker).with_columns(pl.col(maker).replace("", None))
    named = rows.filter(pl.col(maker).is_not_null() | ~pl.col(item).is_in(rows.drop_nulls(maker)[item].implode()))
    return open_table(named.unique(maintain_order=True), role="items")


def _refuse_repeated(lazy: nw.LazyFrame[Any]) -> None:
    """Equal parts mean one row per item and provider; a row that is there twice would count twice."""
    rows = lazy.filter(~nw.col("maker").is_null()).group_by("item", "maker").agg(nw.len().alias("rows"))
    count = int(to_polars(rows.select(how_many(nw.col("rows") > 1).alias("n")))["n"][0] or 0)
    if count:
        raise EvenhandError(
            f"items lists {count:,} pairs of an item and a provider more than once. "
            "Keep one row of each, or say in weight= what each counts."
        )


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
    known = table.lazy.select(table.col(provider).alias("maker"), plain_label(group, table).alias("group"))
    known = known.filter(~nw.col("maker").is_null())
    twice = known.group_by("maker").agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    count = int(to_polars(twice.select(nw.len().alias("n")))["n"][0])
    if count:
        raise EvenhandError(f"providers lists {count:,} providers more than once. Give each provider one group.")
    known = same_engine(known, lazy)
    known, lazy = matched_ids(known, lazy, ["maker"], role="providers")
    return lazy.join(known, on="maker", how="left").select("item", "group", "part")
