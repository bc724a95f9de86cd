"""Which label an item has: a column of the rankings, columns of shares, a mapping, or a file of labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.views.columns import label, label_problems
from evenhand.views.files import has_known_ending, may_be_file
from evenhand.views.tables import Table, is_number, open_table, to_polars

NAMES = ("group", "label", "relevance")
"""What a column of labels is called where several would do."""


@dataclass(frozen=True)
class Labels:
    """Where labels come from.

    Attributes
    ----------
    carry : columns to take along from the rankings: `group`, or `share_0..` for shares.
    shares : names of the groups where items are shared out, else empty.
    table : Polars frame with columns item (and request) and group, or None when the rankings hold them.
    origin : in a few words.
    """

    carry: Mapping[str, nw.Expr]
    shares: tuple[str, ...]
    table: Any
    origin: str


def view_labels(group: Any, rankings: Table, *, request: str, item: str | None) -> Labels:
    """What was passed as `group`, checked."""
    schema = rankings.schema
    names = list(schema.names())
    if isinstance(group, str) and (group in names or not may_be_file(group)):
        _refuse_absent([group], names)
        if problems := label_problems("group", group, rankings):
            raise all_problems(problems)
        return Labels({"group": label(group, schema[group])}, (), None, f"column {group!r}")
    if isinstance(group, (list, tuple)) and group and all(isinstance(g, str) for g in group):
        return _of_shares([str(g) for g in group], schema)
    found = _from_mapping(group) if isinstance(group, Mapping) else _open(group)
    if item is None or item not in names:
        raise EvenhandError(
            f"Labels are joined by item, and item={item!r} is not a column of the rankings. Columns: {listing(names)}."
        )
    return Labels({}, (), _checked(found, request, item), found.origin)


def _refuse_absent(columns: list[str], names: list[str]) -> None:
    problems = [
        f"group={c!r} is not a column of the table. {suggestion(c, names)}Columns: {listing(names)}."
        for c in columns
        if c not in names
    ]
    if problems:
        raise all_problems(problems)


def _of_shares(columns: list[str], schema: nw.Schema) -> Labels:
    _refuse_absent(columns, list(schema.names()))
    words = [c for c in columns if not is_number(schema[c])]
    if len(columns) < 2 or words:
        raise EvenhandError(
            f"group={columns!r} names {'one column' if len(columns) < 2 else f'columns that hold no numbers: {listing(words)}'}. "
            "Several columns are shares of each group; pass one name, as text, for a column of labels."
        )
    carry = {f"share_{i}": nw.col(c).cast(nw.Float64) for i, c in enumerate(columns)}
    return Labels(carry, tuple(columns), None, f"columns {listing(map(repr, columns))}")


def _open(group: Any) -> Table:
    if isinstance(group, (str, Path)) and not has_known_ending(str(group)):
        from evenhand.views.read import labels

        return Table(open_table(labels(group)).lazy, "polars", str(group))
    return open_table(group, role="group")


def _from_mapping(group: Mapping[Any, Any]) -> Table:
    import polars as pl

    try:
        items, values = list(group), list(group.values())
        blank = pl.Series([], dtype=pl.String)
        frame = pl.DataFrame({"item": items or blank, "group": values or blank})
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError(
            "group maps items or labels of mixed types. Pass {item: label} with one type of each."
        ) from error
    return Table(nw.from_native(frame).lazy(), "polars", "a mapping")


def _checked(table: Table, request: str, item: str) -> Any:
    """Columns item, request (where the labels have one) and group, each pair once."""
    import polars as pl

    schema = table.schema
    names = list(schema.names())
    keys = {
        role: next((n for n in (own, role) if n in names), None) for role, own in (("item", item), ("request", request))
    }
    rest = [n for n in names if n not in keys.values() and n != "iteration"]
    chosen = rest[0] if len(rest) == 1 else next((n for n in NAMES if n in rest), None)
    if keys["item"] is None or chosen is None:
        raise EvenhandError(
            f"The table of labels has no column {item!r} beside one of labels, called group. Its columns are {listing(names)}: "
            "rename them so."
        )
    used = {role: name for role, name in keys.items() if name is not None}
    picked = [label(name, schema[name]).alias(role) for role, name in used.items()]
    frame = to_polars(table.lazy.select(*picked, label(chosen, schema[chosen]).alias("group")))
    frame = frame.filter(pl.col("item").is_not_null()).unique(maintain_order=True)
    twice = frame.filter(pl.struct(*used).is_duplicated())
    if twice.height:
        raise EvenhandError(
            f"{twice.select(*used).n_unique():,} items have two labels (first: {twice['item'][0]!r}). Give each item one label."
        )
    return frame
