"""Groups of items through those who made them: each item is shared among the groups of its providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.sources.engine import Engine
from evenhand.sources.labels import Labels, as_call
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Relation, Type, comparable, relation_of
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
    maker_role, maker = ("provider", provider) if providers is not None else ("group", group)
    rows = _open_makers(items, item, maker).with_numbers(weight)
    named = [("item", item), (maker_role, maker), *([("weight", weight)] if weight is not None else [])]
    _refuse_absent(named, rows, "items")
    if split is not None:
        rows = _split(rows, item, maker, split, weight)
    part = double(1) if weight is None else rows.number(weight)
    chosen = {"item": rows.label(item), "maker": rows.label(maker), "part": part}
    parts = rows.engine.keep(f"{rows.select(chosen)} WHERE {rows.label(item)} IS NOT NULL")
    _refuse_bad_parts(rows.engine, parts)
    grouped = f"SELECT item, maker AS label, part FROM {parts}"
    types: dict[str, Type] = {"item": rows.label_type(item), "label": rows.label_type(maker)}
    if providers is not None:
        if weight is None:
            _refuse_repeated(rows.engine, parts)
        grouped, types["label"] = _with_provider_groups(parts, types["label"], rows, providers, provider, group)
    query = f"""
        WITH makers AS ({grouped}),
        totals AS (SELECT item, SUM(part) AS total FROM makers GROUP BY item),
        parts AS (SELECT item, label, SUM(part) AS part FROM makers GROUP BY item, label)
        SELECT parts.item AS item, parts.label AS label, parts.part / totals.total AS share
        FROM parts JOIN totals ON parts.item = totals.item
    """
    shares = rows.engine.keep(query)
    origin = f"{rows.origin}, through {provider if providers is not None else 'several rows per item'}"
    schema = {**types, "share": nw.Float64()}
    relation = relation_of(rows.engine, shares, schema, backend=rows.backend, origin=origin)
    several = f"SELECT COUNT(*) AS label_count FROM {shares} GROUP BY item"
    most = rows.engine.cells(f"SELECT MAX(label_count) AS most FROM ({several}) AS items").row()["most"]
    keywords = {"item": item, "provider": provider, "group": group, "weight": weight, "split": split}
    # where no item belongs to more than one group, groups are labels like any others
    return Labels(relation, int(most or 0) > 1, origin, word=_word(items, providers, keywords))


def _word(items: Any, providers: Any, keywords: Mapping[str, Any]) -> str:
    """The call as text; nothing where its tables have no name."""
    if not isinstance(items, (str, Path)) or not isinstance(providers, (str, Path, type(None))):
        return ""
    files = [repr(str(path)) for path in (items, providers) if path is not None]
    more = [f"{name}={value!r}" for name, value in keywords.items() if value != KEYWORDS[name]]
    return f"rollup({', '.join([*files, *more])})"


def read_rollup(text: str) -> Labels | None:
    """`rollup(items.csv, providers.csv, split='|')` as plans and the command line write it; None where this is something else."""
    call = as_call(text, "rollup", list(KEYWORDS))
    if call is None:
        return None
    files, named = call
    if not 1 <= len(files) + ("providers" in named) <= 2 or not files:
        raise EvenhandError(
            f"{text!r} names {len(files)} files. Write rollup(items.csv, providers.csv), or rollup(items.csv)."
        )
    return rollup(*files, **named)


def _open_makers(
    items: Any, item: str, maker: str, *, role: str = "items", same_engine_as: Relation | None = None
) -> Relation:
    if not isinstance(items, Mapping):
        return open_table(items, role=role, same_engine_as=same_engine_as)
    import polars as pl

    pairs = [
        (i, p) for i, ps in items.items() for p in ([ps] if isinstance(ps, str) or not hasattr(ps, "__iter__") else ps)
    ]
    frame = pl.DataFrame({item: [i for i, _ in pairs], maker: [p for _, p in pairs]}, strict=False)
    return open_table(frame, role=role, same_engine_as=same_engine_as)


def _refuse_absent(named: Sequence[tuple[str, Any]], table: Relation, where: str) -> None:
    problems = [
        f"{role}={c!r} is not a column of {where}. {suggestion(str(c), table.names)}Columns: {listing(table.names)}."
        for role, c in named
        if c not in table.schema
    ]
    if problems:
        raise all_problems(problems, where="eh.rollup")


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


def _refuse_repeated(engine: Engine, parts: str) -> None:
    """Equal parts mean one row per item and provider; a row that is there twice would count twice."""
    pairs = f"SELECT item, maker FROM {parts} WHERE maker IS NOT NULL GROUP BY item, maker HAVING COUNT(*) > 1"
    count = int(engine.cells(f"SELECT COUNT(*) AS n FROM ({pairs}) AS repeated").row()["n"])
    if count:
        raise EvenhandError(
            f"items lists {count:,} pairs of an item and a provider more than once. "
            "Keep one row of each, or say in weight= what each counts."
        )


def _refuse_bad_parts(engine: Engine, parts: str) -> None:
    sound = f"COALESCE(SUM(part) > 0 AND MIN(part) >= 0 AND MAX(part) < {INFINITY}, FALSE)"
    per_item = f"SELECT item FROM {parts} GROUP BY item HAVING NOT {sound}"
    count = int(engine.cells(f"SELECT COUNT(*) AS n FROM ({per_item}) AS odd").row()["n"])
    if count:
        raise EvenhandError(
            f"weight gives {count:,} items negative, missing or only zero weights. Pass weights above zero."
        )


def _with_provider_groups(
    parts: str, kind: Type, rows: Relation, providers: Any, provider: str, group: str
) -> tuple[str, Type]:
    """A SELECT of item, the label of its provider and the provider's part; the type of the labels."""
    pairs = {k: [v] for k, v in providers.items()} if isinstance(providers, Mapping) else providers
    table = _open_makers(pairs, provider, group, role="providers", same_engine_as=rows)
    _refuse_absent([("provider", provider), ("group", group)], table, "providers")
    chosen = {"maker": table.label(provider), "label": table.label(group)}
    groups = table.engine.keep(f"{table.select(chosen)} WHERE {table.label(provider)} IS NOT NULL")
    repeated = f"SELECT maker FROM {groups} GROUP BY maker HAVING COUNT(*) > 1"
    count = int(table.engine.cells(f"SELECT COUNT(*) AS n FROM ({repeated}) AS repeated").row()["n"])
    if count:
        raise EvenhandError(f"providers lists {count:,} providers more than once. Give each provider one group.")
    maker_pattern, part_pattern = comparable(table.label_type(provider), kind, column="maker", role="providers")
    query = (
        f"SELECT parts.item AS item, makers.label AS label, parts.part AS part FROM {parts} AS parts "
        f"LEFT JOIN {groups} AS makers ON {part_pattern.format('parts.maker')} = {maker_pattern.format('makers.maker')}"
    )
    return query, table.label_type(group)
