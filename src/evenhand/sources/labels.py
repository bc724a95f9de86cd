"""Which group an item belongs to: the one reader of labels, in whatever form they come.

A column of the rankings, several of them (combined), `eh.shares(...)`, `{item: label}`, a table item -> label, labels per
request and item in the form of judgments, a table of shares, or `eh.rollup(...)`.

How the pieces fit::

    table = ranking_table(rankings, columns=[...])                  # a Relation
    labels = open_labels(groups, table, item=item, request=request) # Labels (a table) or LabelColumns (of the rankings)
    view = open_rankings(table, ..., carry=labels.carry(table))     # the rankings carry what their labels need
    coded = labels.coded(view)                                      # CodedLabels, in the engine of the rankings
    coded.labels                                                    # every label, in the order of results
    coded.rows                                                      # SELECT: columns of the rankings, label, share
    coded.items.sql, coded.items.join(sql, types)                   # SELECT item [, request], label, share; other rows with them

In every SELECT `label` is a BIGINT, the place of the label in `coded.labels`, and NULL where the label is unknown; `share` is
the part of the item that belongs to the label (1 where items are not shared). A row of the rankings stands there once for
each label of its item, and once with NULL where it has none.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, listing, refuse_problems, suggestion
from evenhand.labels import in_order, missing, whole
from evenhand.sources.engine import Engine
from evenhand.sources.files import has_known_ending, may_be_file
from evenhand.sources.inputs import FAIR, Inputs, current, paths_after
from evenhand.sources.opening import open_table
from evenhand.sources.relation import (
    ITEM_NAMES,
    Relation,
    Type,
    comparable,
    count_groups,
    is_number,
    item_column,
    label_problems,
    missing_columns,
    relation_of,
)
from evenhand.sources.sql import columns as column_list
from evenhand.sources.sql import count_where, double, select
from evenhand.sources.sql import text as text_literal

if TYPE_CHECKING:
    from evenhand.sources.rankings import Rankings

NEAR_ONE = 1e-6
"""How far from 1 the shares of an item may add up to."""

SEPARATOR = " & "
"""Between the parts of an intersectional label."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Columns with the share of each group in the item: of the rankings, or of a table of items.

    Attributes
    ----------
    columns : all numbers of the table where none are named.
    of : the table of items, or `{item: {label: share}}`; None for the rankings.
    counts : the numbers are counts, which say how an item is shared once they are divided by their sum.
    """

    columns: tuple[str, ...]
    of: Any = None
    counts: bool = False

    def __str__(self) -> str:
        more = [f"of={str(self.of)!r}"] if self.of is not None else []
        return f"shares({', '.join([*map(repr, self.columns), *more, *(['counts=True'] if self.counts else [])])})"

    def as_word(self) -> str | None:
        """As plans write it; nothing where the table has no name."""
        return str(self) if self.of is None or isinstance(self.of, (str, Path)) else None


def shares(*columns: str, of: Any = None, counts: bool = False) -> Shares:
    """Groups that items are shared among, one column of shares each: `groups=eh.shares("con", "pro")`.

    The shares of an item add up to 1; where all of them are missing, its groups are unknown. A list of columns is something
    else: labels, which are combined.

    Parameters
    ----------
    columns : of the rankings, or of the table `of`; left out, all columns of that table beside the item.
    of : a table (or path) with a row per item, or `{item: {label: share}}`.
    counts : the numbers are counts (two women and one man wrote it): they are divided by their sum. Zeros only: unknown.

    >>> str(shares("con", "pro"))
    "shares('con', 'pro')"
    >>> str(shares(of="authors.csv", counts=True))
    "shares(of='authors.csv', counts=True)"
    """
    few = len(columns) < 2 and not (of is not None and not columns)
    if few or not all(isinstance(c, str) for c in columns) or len(set(columns)) < len(columns):
        raise EvenhandError(
            f"shares({', '.join(map(repr, columns))}) does not name two columns or more. Write shares('con', 'pro')."
        )
    if not isinstance(counts, bool):
        raise EvenhandError(
            f"counts={counts!r} is neither True nor False. Pass counts=True where the numbers are counts."
        )
    return Shares(columns, of, counts)


def read_shares(text: str) -> Shares | None:
    """`shares(con, pro)` as plans and the command line write it, names in quotes or bare; None where this is something else.

    >>> read_shares("shares(con, pro)")
    Shares(columns=('con', 'pro'), of=None, counts=False)
    """
    call = as_call(text, "shares", ("of", "counts"))
    return None if call is None else shares(*call[0], **call[1])


ARGUMENT = r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^,'"])+"""
"""What stands between two commas; commas in quotes do not count."""


def as_call(text: str, name: str, keywords: Sequence[str]) -> tuple[list[Any], dict[str, Any]] | None:
    """Positional and keyword arguments of the text `name(...)`; None where it is no such call.

    >>> as_call("rollup(items.csv, people.csv, split='|')", "rollup", ["split"])
    (['items.csv', 'people.csv'], {'split': '|'})
    """
    call = re.fullmatch(rf"\s*{name}\s*\((.*)\)\s*", text, re.DOTALL)
    if not call:
        return None
    inside = call[1].rstrip(", \n\t")
    parts = re.findall(ARGUMENT, inside)
    if ",".join(parts) != inside:
        raise EvenhandError(
            f"{text!r} has an open quote, or nothing between two commas. Put quotes around the whole word, or around none of it."
        )
    pairs = [(re.fullmatch(r"(\w+)\s*=\s*(.*)", p.strip(), re.DOTALL), p.strip()) for p in parts]
    args = [_word(p) for pair, p in pairs if pair is None]
    named = {pair[1]: _word(pair[2]) for pair, _ in pairs if pair is not None}
    if odd := [k for k in named if k not in keywords]:
        raise EvenhandError(
            f"{text!r} has no argument {odd[0]!r}. {suggestion(odd[0], keywords)}Known: {listing(keywords)}."
        )
    return args, named


def _word(text: str) -> Any:
    """An argument of a text form: in quotes as Python reads it, bare as it stands; true and false are not names."""
    if text[:1] in ("'", '"'):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise EvenhandError(
                f"{text} cannot be read. Put quotes around the whole word, or around none of it."
            ) from None
    return {"True": True, "False": False}.get(text, text)


@dataclass(frozen=True)
class ItemLabels:
    """A SELECT (`sql`) of item (and request, where labels depend on it), `label` and `share`; `types` has those of the keys."""

    keys: tuple[str, ...]
    sql: str
    types: Mapping[str, Type]

    def join(self, rows: str, types: Mapping[str, Type], role: str = "groups") -> str:
        """A SELECT of rows that have an item (and a request), with `label` and `share`."""
        _refuse_unnamed(types, self.keys)
        conditions = []
        for key in self.keys:
            label_pattern, row_pattern = comparable(self.types[key], types[key], column=key, role=role)
            conditions.append(f"{row_pattern.format('ranked.' + key)} = {label_pattern.format('labels.' + key)}")
        return (
            f"SELECT ranked.*, labels.label AS label, COALESCE(labels.share, {double(1)}) AS share "
            f"FROM ({rows}) AS ranked LEFT JOIN ({self.sql}) AS labels ON {' AND '.join(conditions)}"
        )


@dataclass(frozen=True)
class CodedLabels:
    """Labels as codes, beside the rankings that they are for; the top of this file says how its queries look.

    Attributes
    ----------
    labels : every label, in the order of results; a code is a place in it.
    soft : whether an item may belong to several groups.
    rows : a SELECT of the rankings with `label` and `share`. types : of the columns of the rankings.
    table : labels that came in a table of their own; None where the rankings carry them.
    """

    engine: Engine
    labels: tuple[Any, ...]
    soft: bool
    rows: str
    types: Mapping[str, Type]
    origin: str
    role: str
    table: ItemLabels | None = None

    @property
    def has_table(self) -> bool:
        """Whether labels came in a table of their own, whose ids may be others than those of the rankings."""
        return self.table is not None

    @cached_property
    def items(self) -> ItemLabels:
        """Every item (and request, where an item has several labels) with its label; two in one request are refused."""
        if self.table is not None:
            return self.table
        _refuse_unnamed(self.types, ("item",))
        for keys in (("item",), ("item", "request")):
            names = f"{column_list(keys)}, label, share"
            pairs = self.engine.keep(f"SELECT DISTINCT {names} FROM ({self.rows}) AS labelled WHERE label IS NOT NULL")
            count, _ = _repeated(self.engine, pairs, keys, shared=self.soft)
            if not count:
                return ItemLabels(keys, f"SELECT {names} FROM {pairs}", self.types)
        raise EvenhandError(
            f"{self.origin} gives {count:,} items several labels in the same request. "
            f"Give each item one, or pass eh.rollup(...) as {self.role}."
        )

    def with_items(self) -> CodedLabels:
        """Labels with their table of items fixed, whatever happens to `rows` later."""
        return replace(self, table=self.items)

    def items_by_label(self, slices: Sequence[str]) -> list[tuple[tuple[tuple[Any, ...], Any], int]]:
        """Ranked items of each label in each slice (rows, where items have no names): ((slice, label), items)."""
        keys = column_list([*slices, "label"])
        chosen = f"DISTINCT {keys}, item" if "item" in self.types else keys
        each = f"SELECT {chosen} FROM ({self.rows}) AS labelled WHERE share > 0"
        cells = self.engine.cells(f"SELECT {keys}, COUNT(*) AS items FROM ({each}) AS shown GROUP BY {keys}")
        labels = [None if code is None else self.labels[code] for code in cells.values("label")]
        return list(zip(zip(cells.labels(slices), labels, strict=True), cells.integers("items").tolist(), strict=True))

    def renamed(self, names: Mapping[Any, str | None]) -> CodedLabels:
        """Labels renamed, those that get the same name merged, items of those that get none unlabelled; the others as text."""
        if not names:
            return self
        new = [names.get(label, str(label)) for label in self.labels]
        labels = tuple(in_order({name for name in new if name is not None}))
        coded = [(code, labels.index(name)) for code, name in enumerate(new) if name is not None]
        old_codes, new_codes = np.array(coded, dtype=np.int64).reshape(-1, 2).T
        codes = self.engine.bring({"code": old_codes, "new_code": new_codes})

        def recoded(query: str) -> str:
            frame = self.engine.cells(f"SELECT * FROM ({query}) AS labelled LIMIT 0")
            others = [name for name in frame.names if name not in ("label", "share")]
            listed = column_list(others, table="old", leading=True)
            joined = f"FROM ({query}) AS old LEFT JOIN {codes} AS codes ON old.label = codes.code"
            if not self.soft:
                return f"SELECT codes.new_code AS label, old.share AS share{listed} {joined}"
            return f"SELECT codes.new_code AS label, SUM(old.share) AS share{listed} {joined} GROUP BY codes.new_code{listed}"

        table = None if self.table is None else replace(self.table, sql=recoded(self.table.sql))
        return replace(self, labels=labels, rows=recoded(self.rows), table=table)


@dataclass(frozen=True)
class Labels:
    """Items and their groups in a table of their own, one row per item and group.

    Attributes
    ----------
    relation : columns item (and request, where labels depend on it), label, share. A missing label is unknown; the shares
        of an item add up to 1.
    soft : whether an item may belong to several groups.
    origin : where it came from, in a few words.
    named : groups that exist whether or not an item is theirs.
    word : how a plan writes it, where it can.
    inputs : the files and tables that it was made from.
    """

    relation: Relation
    soft: bool
    origin: str
    named: tuple[str, ...] = ()
    word: str = ""
    inputs: Inputs = field(default_factory=Inputs)

    @classmethod
    def from_frame(cls, frame: Any, *, origin: str) -> Labels:
        """From a Polars frame with columns item and group, one label per item."""
        opened = open_table(frame, role="groups")
        chosen = {"label": opened.label("group"), "share": double(1)}
        return cls(_stored(opened, {"item": "item"}, chosen, opened.label_type("group")), False, origin)

    def as_word(self) -> str | None:
        return self.word or None

    @cached_property
    def frame(self) -> Any:
        """The rows as a Polars frame: item (and request), group, share."""
        return self.relation.engine.cells(f"SELECT * FROM {self.relation.name}").frame.rename({"label": "group"})

    @property
    def keys(self) -> tuple[str, ...]:
        """Join keys: the item, or the item and the request."""
        return tuple(c for c in self.relation.schema if c in ("request", "item"))

    def carry(self, _: Relation) -> dict[str, str]:
        """Nothing needs to be taken along from the rankings."""
        return {}

    def coded(self, rankings: Rankings, role: str = "groups") -> CodedLabels:
        """The labels as codes, in the engine of some rankings."""
        _refuse_unnamed(rankings.types, self.keys)
        engine, rows = rankings.engine, open_table(self.relation, same_engine_as=rankings)
        labels, codes = _label_codes(
            engine, f"SELECT DISTINCT label FROM {rows.name} WHERE label IS NOT NULL", self.named
        )
        table = engine.keep(
            f"SELECT {column_list(self.keys, table='labelled')}, codes.code AS label, labelled.share AS share "
            f"FROM {rows.name} AS labelled LEFT JOIN {codes} AS codes ON labelled.label = codes.label"
        )
        items = ItemLabels(self.keys, f"SELECT {column_list(self.keys)}, label, share FROM {table}", rows.schema)
        joined = items.join(rankings.sql, rankings.types, role)
        return CodedLabels(engine, labels, self.soft, joined, rankings.types, self.origin, role, items)


@dataclass(frozen=True)
class LabelColumns:
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

    def carry(self, table: Relation) -> dict[str, str]:
        """SQL of `label_value` (NULL where one of its columns is), or of `share_0`, `share_1`, ..."""
        if not self.soft:
            return {"label_value": combined(list(self.columns), table, self.role)}
        return _share_expressions(table.with_numbers(*self.columns), self.columns, counts=self.counts)

    def coded(self, rankings: Rankings, role: str = "") -> CodedLabels:
        """The labels as codes; `rankings` carry what `carry` asked for. Bad shares are refused."""
        engine, source = rankings.engine, f"({rankings.sql})"
        if self.soft:
            _refuse_bad_shares(engine, source, len(self.columns), self.role)
            labels: tuple[Any, ...] = self.columns
            rows = _shares_as_rows(source, "wide.*", [f"CAST({i} AS BIGINT)" for i in range(len(labels))], "BIGINT")
        else:
            distinct = f"SELECT DISTINCT label_value AS label FROM {source} AS ranked WHERE label_value IS NOT NULL"
            labels, codes = _label_codes(engine, distinct)
            rows = (
                f"SELECT ranked.*, codes.code AS label, {double(1)} AS share "
                f"FROM {source} AS ranked LEFT JOIN {codes} AS codes ON ranked.label_value = codes.label"
            )
        return CodedLabels(engine, labels, self.soft, rows, rankings.types, self.origin, role or self.role)


def open_labels(
    groups: Any,
    table: Relation,
    *,
    item: str,
    request: str = "request",
    role: str = "groups",
    probability: str | None = None,
) -> Labels | LabelColumns:
    """Checked labels from the argument `role`; `table` holds the rankings to be labelled.

    `probability` : a column of the table of labels with the inclusion probability of each; shares are then 1 over it.
    """
    from evenhand.sources.rollup import read_rollup

    names = table.names
    if (fair := paths_after(FAIR, groups)) is not None:
        from evenhand.sources.trec import trec_fair_groups

        groups = trec_fair_groups(fair[0])
    if isinstance(groups, str) and groups not in names:
        groups = read_shares(groups) or read_rollup(groups, item) or groups
    if isinstance(groups, Labels):
        current().include(groups.inputs)
        return groups
    if isinstance(groups, str) and (groups in names or not may_be_file(groups)):
        return _label_columns([groups], table, role)
    several = isinstance(groups, (list, tuple)) and groups and all(isinstance(g, str) for g in groups)
    if several and any(g in names for g in groups):
        return _label_columns(list(groups), table, role)
    shares = groups if isinstance(groups, Shares) else Shares(())
    if shares.columns and shares.of is None:
        return _share_columns(shares, table, role)
    source = groups if shares.of is None else shares.of
    if isinstance(source, Mapping):
        return labels_from_mapping(source, role, counts=shares.counts)
    if isinstance(source, (str, Path)) and os.path.isfile(source) and not has_known_ending(str(source)):
        from evenhand.sources.trec import labels as trec_labels

        opened = replace(open_table(trec_labels(source), role=role, same_engine_as=table), origin=str(source))
    else:
        opened = open_table(source, role=role, same_engine_as=table)
    labels = labels_from_table(opened, item, request, role, shares, probability)
    if isinstance(groups, Shares) and not labels.soft:
        raise EvenhandError(
            f"{role}={str(shares)!r} is a table of labels, not of numbers. Pass the table itself, or name its columns of numbers."
        )
    return labels


def columns_in(groups: Any) -> list[str]:
    """The words in what was passed that may name columns of the rankings."""
    if isinstance(groups, str):
        parsed = read_shares(groups) if groups.lstrip().startswith("shares") else None
        return [groups, *(columns_in(parsed) if parsed is not None else [])]
    if isinstance(groups, Shares):
        return list(groups.columns) if groups.of is None else []
    return [g for g in groups if isinstance(g, str)] if isinstance(groups, (list, tuple)) else []


def combined(columns: list[str], table: Relation, role: str) -> str:
    """SQL of the label that several columns make together; NULL where one of them is."""
    problems = [p for c in columns for p in label_problems(role, c, table)]
    refuse_problems([p.replace("plain labels.", "plain labels, or eh.rollup(...).") for p in problems])
    if len(columns) == 1:
        return table.label(columns[0])
    return f" || {text_literal(SEPARATOR)} || ".join(f"CAST({table.label(c)} AS VARCHAR)" for c in columns)


def _refuse_unnamed(columns: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Rankings without a column that labels are joined by."""
    if lacking := [key for key in keys if key not in columns]:
        raise EvenhandError(
            f"Labels are joined by item, and the rankings have no column of {lacking[0]}s. Name it with {lacking[0]}=."
        )


def _label_codes(engine: Engine, query: str, named: Sequence[str] = ()) -> tuple[tuple[Any, ...], str]:
    """The distinct labels that a query answers in order, and a table of each `label` with its `code`."""
    distinct = engine.cells(query)
    labels = in_order({*distinct.values("label"), *named})
    place = {label: i for i, label in enumerate(labels)}
    codes = np.array([place[label] for label in distinct.values("label")], dtype=np.int64)
    return tuple(whole(labels)), engine.bring(distinct.with_column("code", codes))


def _label_columns(columns: list[str], table: Relation, role: str) -> LabelColumns:
    refuse_problems(missing_columns(table, [(role, c) for c in columns], of="the rankings"))
    numbered = table.with_numbers(*columns)
    if len(columns) > 1 and all(numbered.schema[c].is_float() for c in columns):
        broken = " OR ".join(f"{n} <> ROUND({n})" for n in map(numbered.number, columns))
        if numbered.facts({"n": count_where(broken)})["n"]:  # hardly labels to be combined
            raise EvenhandError(
                f"{role}={columns!r} names columns of shares, and a list of columns means labels that are combined. "
                f"Pass eh.{Shares(tuple(columns))}."
            )
    return LabelColumns(tuple(columns), role)


def _share_columns(shares: Shares, table: Relation, role: str) -> LabelColumns:
    refuse_problems(missing_columns(table, [(role, c) for c in shares.columns], of="the rankings"))
    schema = table.with_numbers(*shares.columns).schema
    words = [c for c in shares.columns if not is_number(schema[c])]
    if words:
        raise EvenhandError(
            f"{role}={str(shares)!r} names columns that hold no numbers: {listing(words)}. Name columns of shares."
        )
    return LabelColumns(tuple(in_order(shares.columns)), role, soft=True, counts=shares.counts)


def _share_expressions(table: Relation, columns: Sequence[str], *, counts: bool) -> dict[str, str]:
    """SQL of `share_0`, `share_1`, ...: the columns, or counts over their sum, which are unknown where all are zero.

    A row with a negative count stays as it is, to be refused as shares are.
    """
    parts = [table.number(c) for c in columns]
    if counts:
        total, least = " + ".join(f"COALESCE({c}, 0)" for c in parts), f"LEAST({', '.join(parts)})"
        parts = [f"CASE WHEN {least} < 0 THEN {c} WHEN {total} > 0 THEN {c} / ({total}) END" for c in parts]
    return {f"share_{i}": part for i, part in enumerate(parts)}


def _shares_as_rows(source: str, chosen: str, labels: Sequence[str], kind: str) -> str:
    """Columns of shares as one row per label (SQL) with a share above zero; one without a label where all are missing."""
    parts = [
        f"SELECT {chosen}, {label} AS label, share_{i} AS share FROM {source} AS wide WHERE share_{i} > 0"
        for i, label in enumerate(labels)
    ]
    unknown = " AND ".join(f"share_{i} IS NULL" for i in range(len(labels)))
    nobody = f"CAST(NULL AS {kind}) AS label, {double(1)} AS share"
    return " UNION ALL ".join([*parts, f"SELECT {chosen}, {nobody} FROM {source} AS wide WHERE {unknown}"])


def _refuse_bad_shares(engine: Engine, source: str, many: int, role: str) -> None:
    """Rows of shares in columns that are negative, partly missing or do not add up to 1."""
    names = [f"share_{i}" for i in range(many)]
    holes, total = " + ".join(f"CASE WHEN {n} IS NULL THEN 1 ELSE 0 END" for n in names), " + ".join(names)
    wrong = (
        f"{holes} BETWEEN 1 AND {many - 1} OR LEAST({', '.join(names)}) < 0 OR ABS({total} - 1) > {double(NEAR_ONE)}"
    )
    count = int(engine.cells(f"SELECT {count_where(wrong)} AS n FROM {source} AS wide").row()["n"])
    if count:
        raise EvenhandError(
            f"{role} has {count:,} rows with shares that are negative, partly missing or do not add up to 1. "
            "Pass shares of zero or more that add up to 1, or say that they are counts: eh.shares(..., counts=True)."
        )


def labels_from_mapping(labels_by_item: Mapping[Any, Any], role: str, *, counts: bool = False) -> Labels:
    """`{item: label}`, or `{item: {label: share}}`; None where unknown."""
    import polars as pl

    labels = list(labels_by_item.values())
    if any(isinstance(label, (list, tuple, set)) for label in labels):
        raise EvenhandError(f"{role} gives an item several labels. Pass {{item: {{label: share}}}}, or one label each.")
    soft = counts or any(isinstance(label, Mapping) for label in labels)
    try:
        items = pl.Series("item", list(labels_by_item), dtype=None if labels else pl.String)
        if soft:
            return _shares_from_mapping(items, labels, role, counts=counts)
        groups = pl.Series("group", [None if missing(label) else label for label in labels])
        frame = pl.DataFrame([items, groups.cast(pl.String) if groups.dtype == pl.Null else groups])
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError(
            f"{role} mixes kinds of items or labels. Pass items of one type and labels of one type."
        ) from error
    return Labels.from_frame(frame, origin="a mapping")


def _shares_from_mapping(items: Any, shares: Sequence[Any], role: str, *, counts: bool) -> Labels:
    """Shares as a table with a column per label, checked as such a table is."""
    import polars as pl

    if not all(share is None or (isinstance(share, Mapping) and None not in share) for share in shares):
        raise EvenhandError(
            f"{role} mixes shares with plain or missing labels. Pass {{item: {{label: share}}}}, or None for an item."
        )
    names = tuple(in_order({str(label) for share in shares if share is not None for label in share}))
    if {"item", "request"} & set(names):
        raise EvenhandError(f"{role} has a label that is called item or request. Rename it.")
    parts = [{} if share is None else {str(label): part for label, part in share.items()} for share in shares]
    columns = [
        pl.Series(name, [part.get(name, 0.0) if part else None for part in parts], dtype=pl.Float64) for name in names
    ]
    opened = replace(open_table(pl.DataFrame([items, *columns]), role=role), origin="a mapping")
    return labels_from_table(opened, "item", "request", role, Shares(names, counts=counts))


def inverse_probability(probability: str, label: str) -> str:
    """SQL of 1 over an inclusion probability where there is a label; NULL where that is none."""
    inverse = f"CASE WHEN {probability} > 0 AND {probability} <= 1 THEN {double(1)} / {probability} END"
    return f"CASE WHEN {label} IS NULL THEN {double(1)} ELSE {inverse} END"


def refuse_bad_probability(engine: Engine, rows: str, column: str) -> None:
    """Labels whose inclusion probability is missing or not above 0 and at most 1."""
    wrong = count_where("label IS NOT NULL AND share IS NULL")
    if count := int(engine.cells(f"SELECT {wrong} AS n FROM {rows} AS labelled").row()["n"]):
        raise EvenhandError(
            f"label_probability={column!r} is missing, 0 or not a probability in {count:,} rows that have a label. Pass the "
            "probability with which each label was drawn, above 0 and at most 1."
        )


def labels_from_table(
    table: Relation, item: str, request: str, role: str, shares: Shares = Shares(()), probability: str | None = None  # noqa: B008
) -> Labels:  # fmt: skip
    """A label per item (or per request and item), several label columns together, or one column of shares per group."""
    names = table.names
    ids = {"item": item_column(table, item, role), "request": request if request in names else "request"}
    if ids["item"] not in names:
        raise EvenhandError(
            f"{role} has no column {item!r}, nor {listing(ITEM_NAMES)}. Its columns are {listing(names)}: rename the one with the "
            f"ids of items to {item!r}."
        )
    if lost := [c for c in shares.columns if c not in names]:
        raise EvenhandError(
            f"{lost[0]!r} is not a column of {role}. {suggestion(lost[0], names)}Columns: {listing(names)}."
        )
    ids = {key: column for key, column in ids.items() if column in names}
    judged = ["iteration"] if "relevance" in names else []  # what judgments hold beside their label
    others = list(shares.columns) or [n for n in names if n not in (*ids.values(), *judged, probability)]
    if not others:
        raise EvenhandError(
            f"{role} needs at least one column of labels beside {ids['item']!r}. Its columns: {listing(names)}."
        )
    read = table.with_numbers(*others) if len(others) > 1 else table
    schema = read.schema
    if (shares.columns or len(others) > 1) and all(is_number(schema[n]) for n in others):
        wide = _one_per_id(read, ids, _share_expressions(read, others, counts=shares.counts), role)
        _refuse_bad_shares(wide.engine, wide.name, len(others), role)
        rows = _shares_as_rows(wide.name, column_list(ids), [text_literal(c) for c in others], "VARCHAR")
        relation = replace(wide, name=wide.engine.keep(rows))
        return Labels(relation, True, table.origin, tuple(others))
    if {"group", "share"} == set(others) and is_number(schema["share"]):
        chosen = {"label": read.label("group"), "share": read.number("share")}
        stored = _stored(read, ids, chosen, read.label_type("group"))
        wrong = f"COALESCE(ABS(SUM(share) - 1) > {double(NEAR_ONE)} OR MIN(share) < 0, TRUE)"
        if count := count_groups(stored.engine, stored.name, list(ids), wrong):
            raise EvenhandError(
                f"{role} gives {count:,} items shares that are negative or do not add up to 1. Pass shares that add up to 1."
            )
        return Labels(stored, True, table.origin)
    if len(others) > 1 and any(schema[n].is_float() for n in others):
        raise EvenhandError(
            f"{role} mixes labels and numbers: {listing(f'{n} ({schema[n]})' for n in others)}. "
            "Pass labels only (they are combined), or one column of shares per group."
        )
    chosen = {"label": combined(others, table, role), "share": double(1)}
    if probability is not None:
        table = table.with_numbers(probability)
        chosen["share"] = inverse_probability(table.number(probability), chosen["label"])
    kind = table.label_type(others[0]) if len(others) == 1 else nw.String()
    labels = Labels(_one_per_id(table, ids, chosen, role, kind), False, table.origin)
    if probability is not None:
        refuse_bad_probability(table.engine, labels.relation.name, probability)
    return labels


def labels_from_columns(table: Relation, item: str, label: str, role: str) -> Labels:
    chosen = {"label": combined([label], table, role), "share": double(1)}
    return Labels(_one_per_id(table, {"item": item}, chosen, role, table.label_type(label)), False, table.origin)


def _stored(
    table: Relation, ids: Mapping[str, str], chosen: Mapping[str, str], label: Type | None = None, *, distinct: bool = False
) -> Relation:  # fmt: skip
    """A temporary table of ids (our name, theirs) and other expressions; rows without an item are left out.

    `label` is the type of the labels (text where None).
    """
    keys = {key: table.label(column) for key, column in ids.items()}
    query = f"SELECT {'DISTINCT ' * distinct}{select({**keys, **chosen})} FROM {table.name} WHERE {keys['item']} IS NOT NULL"
    types: dict[str, Type] = {key: table.label_type(column) for key, column in ids.items()}
    types |= {"label": label or nw.String(), "share": nw.Float64()}
    return relation_of(table.engine, table.engine.keep(query), types, backend=table.backend, origin=table.origin)


def _repeated(engine: Engine, table: str, keys: Sequence[str], *, shared: bool = False) -> tuple[int, Any]:
    """How many keys have several rows, and the first item among them; where items are shared, whose shares exceed 1."""
    several = f"SUM(share) > {double(1 + NEAR_ONE)}" if shared else "COUNT(*) > 1"
    per_key = f"SELECT {column_list(keys)} FROM {table} GROUP BY {column_list(keys)} HAVING {several}"
    row = engine.cells(f"SELECT COUNT(*) AS n, MIN(item) AS first_item FROM ({per_key}) AS repeated").row()
    return int(row["n"]), row["first_item"]


def _one_per_id(
    table: Relation, ids: Mapping[str, str], chosen: Mapping[str, str], role: str, label: Type | None = None
) -> Relation:  # fmt: skip
    """A temporary table with one row for each item (and request); equal rows are one, different ones are refused."""
    rows = _stored(table, ids, chosen, label, distinct=True)
    count, first = _repeated(rows.engine, rows.name, list(ids))
    if count:
        raise EvenhandError(
            f"{role} gives {count:,} of its ids more than one label (for example {first!r}). "
            "Give each id one label, or pass eh.rollup(...) where an item has several providers."
        )
    return rows
