"""Groups of items through those who made them: each item is shared among the groups of its providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError, refuse_problems
from evenhand.sources.inputs import Inputs
from evenhand.sources.labels import Labels, as_call
from evenhand.sources.opening import open_table
from evenhand.sources.relation import (
    Relation,
    Type,
    comparable,
    count_groups,
    item_column,
    missing_columns,
    relation_of,
)
from evenhand.sources.sql import INFINITY, double

KEYWORDS = {"providers": None, "item": "item", "provider": "provider", "group": "group", "weight": None, "split": None}
"""What `rollup` takes by name, and its defaults."""


def rollup(
    items: Any, providers: Any = None, *, item: str = "item", provider: str = "provider", group: str = "group",
    weight: str | None = None, split: str | None = None,
) -> Labels:  # fmt: skip
    """Groups of items through their providers: each item is shared among the groups of those who made it.

    As text, in plans and on the command line: `rollup(items.csv, providers.csv, weight=part)`.

    Parameters
    ----------
    items : table with one row per item and provider, or `{item: [provider, ...]}`. Without `providers` it holds `group`.
    providers : table provider -> group, or `{provider: group}`. A provider that is absent or has no group is unknown, and
        its part of the item goes to the unknown.
    weight : column of `items` with the weight of each provider in the item (default: equal parts).
    split : what stands between several labels in one text, as in "Comedy|Drama": the item is then shared among them.

    >>> labels = rollup({"paper": ["ann", "bob"]}, {"ann": "f", "bob": "m"})
    >>> sorted(labels.frame.iter_rows())
    [('paper', 'f', 0.5), ('paper', 'm', 0.5)]
    >>> sorted(rollup({"film": "Comedy|Drama"}, split="|").frame.iter_rows())
    [('film', 'Comedy', 0.5), ('film', 'Drama', 0.5)]
    """
    inputs = Inputs()
    with inputs.recording():
        labels = _rolled_up(items, providers, item, provider, group, weight, split)
    return replace(labels, inputs=inputs)


def _rolled_up(
    items: Any, providers: Any, item: str, provider: str, group: str, weight: str | None, split: str | None
) -> Labels:
    maker_role, maker = ("provider", provider) if providers is not None else ("group", group)
    rows = _open_makers(items, item, maker, "items").with_numbers(weight)
    item = item_column(rows, item, "items")
    named = [("item", item), (maker_role, maker), *([("weight", weight)] if weight is not None else [])]
    refuse_problems(missing_columns(rows, named, of="items"), where="eh.rollup")
    if split is not None:
        rows = _split(rows, item, maker, split, weight)
    engine, part = rows.engine, double(1) if weight is None else rows.number(weight)
    chosen = {"item": rows.label(item), "maker": rows.label(maker), "part": part}
    parts = engine.keep(f"{rows.select(chosen)} WHERE {rows.label(item)} IS NOT NULL")
    sound = f"COALESCE(SUM(part) > 0 AND MIN(part) >= 0 AND MAX(part) < {INFINITY}, FALSE)"
    if count := count_groups(engine, parts, ["item"], f"NOT {sound}"):
        raise EvenhandError(
            f"weight gives {count:,} items negative, missing or only zero weights. Pass weights above zero."
        )
    labelled, kind = f"SELECT item, maker AS label, part FROM {parts}", rows.label_type(maker)
    if providers is not None:
        # equal parts mean one row per item and provider; a row that is there twice would count twice
        if weight is None and (count := count_groups(engine, f"{parts} WHERE maker IS NOT NULL", ["item", "maker"])):
            raise EvenhandError(
                f"items lists {count:,} pairs of an item and a provider more than once. "
                "Keep one row of each, or say in weight= what each counts."
            )
        labelled, kind = _with_provider_groups(parts, kind, rows, providers, provider, group)
    shares = engine.keep(f"""
        SELECT item, label, SUM(part) / SUM(SUM(part)) OVER (PARTITION BY item) AS share
        FROM ({labelled}) AS labelled
        GROUP BY item, label
    """)
    origin = f"{rows.origin}, through {provider if providers is not None else 'several rows per item'}"
    schema = {"item": rows.label_type(item), "label": kind, "share": nw.Float64()}
    relation = relation_of(engine, shares, schema, backend=rows.backend, origin=origin)
    keywords = {"item": item, "provider": provider, "group": group, "weight": weight, "split": split}
    # where no item belongs to more than one group, groups are labels like any others
    soft = count_groups(engine, shares, ["item"]) > 0
    return Labels(relation, soft, origin, word=_word(items, providers, keywords))


def _word(items: Any, providers: Any, keywords: Mapping[str, Any]) -> str:
    """The call as text; nothing where its tables have no name."""
    if not isinstance(items, (str, Path)) or not isinstance(providers, (str, Path, type(None))):
        return ""
    files = [repr(str(path)) for path in (items, providers) if path is not None]
    more = [f"{name}={value!r}" for name, value in keywords.items() if value != KEYWORDS[name]]
    return f"rollup({', '.join([*files, *more])})"


def read_rollup(text: str, item: str = "item") -> Labels | None:
    """`rollup(items.csv, providers.csv, split='|')` as plans and the command line write it; None where this is something else.

    `item` is the column of items in the rankings, which that of `items.csv` may be called like.
    """
    call = as_call(text, "rollup", list(KEYWORDS))
    if call is None:
        return None
    files, named = call
    if not 1 <= len(files) + ("providers" in named) <= 2 or not files:
        raise EvenhandError(
            f"{text!r} names {len(files)} files. Write rollup(items.csv, providers.csv), or rollup(items.csv)."
        )
    return rollup(*files, **{"item": item, **named})


def _open_makers(items: Any, item: str, maker: str, role: str, *, same_engine_as: Relation | None = None) -> Relation:
    """A table, or a mapping from each item to what made it, one or several."""
    if isinstance(items, Mapping):
        import polars as pl

        makers = [[m] if isinstance(m, str) or not hasattr(m, "__iter__") else list(m) for m in items.values()]
        ids = [i for i, several in zip(items, makers, strict=True) for _ in several]
        items = pl.DataFrame({item: ids, maker: [m for several in makers for m in several]}, strict=False)
    return open_table(items, role=role, same_engine_as=same_engine_as)


def _split(rows: Relation, item: str, maker: str, between: str, weight: str | None) -> Relation:
    """A row for every label that one text holds; labels that are named twice in a text count once, empty ones not at all."""
    import polars as pl

    if not isinstance(between, str) or not between:
        raise EvenhandError(f"split={between!r} is no separator. Pass what stands between labels, such as '|'.")
    if weight is not None:
        raise EvenhandError("split= shares an item equally, and weight= says otherwise. Pass one of the two.")
    frame = rows.engine.cells(rows.select({item: rows.label(item), maker: rows.label(maker)})).frame
    if frame[maker].dtype != pl.String:
        raise EvenhandError(f"{maker!r} holds {frame[maker].dtype} values, which split= cannot take apart. Pass text.")
    parts = pl.col(maker).str.split(between).list.eval(pl.element().str.strip_chars()).list.unique(maintain_order=True)
    pairs = frame.with_columns(parts).explode(maker).with_columns(pl.col(maker).replace("", None))
    labelled = pairs.filter(pl.col(maker).is_not_null() | ~pl.col(item).is_in(pairs.drop_nulls(maker)[item].implode()))
    return open_table(labelled.unique(maintain_order=True), role="items")


def _with_provider_groups(
    parts: str, kind: Type, rows: Relation, providers: Any, provider: str, group: str
) -> tuple[str, Type]:
    """A SELECT of item, the label of its provider and the provider's part; the type of the labels."""
    pairs = {k: [v] for k, v in providers.items()} if isinstance(providers, Mapping) else providers
    table = _open_makers(pairs, provider, group, "providers", same_engine_as=rows)
    refuse_problems(
        missing_columns(table, [("provider", provider), ("group", group)], of="providers"), where="eh.rollup"
    )
    chosen = {"maker": table.label(provider), "label": table.label(group)}
    groups = table.engine.keep(f"{table.select(chosen)} WHERE {table.label(provider)} IS NOT NULL")
    if count := count_groups(table.engine, groups, ["maker"]):
        raise EvenhandError(f"providers lists {count:,} providers more than once. Give each provider one group.")
    maker_pattern, part_pattern = comparable(
        table.label_type(provider), kind, column="provider", role="providers", other="items"
    )
    query = (
        f"SELECT parts.item AS item, makers.label AS label, parts.part AS part FROM {parts} AS parts "
        f"LEFT JOIN {groups} AS makers ON {part_pattern.format('parts.maker')} = {maker_pattern.format('makers.maker')}"
    )
    return query, table.label_type(group)
