"""Which group an item belongs to: the one reader of labels, in whatever form they come.

A column of the rankings, several of them (combined), `eh.shares(...)`, `{item: label}`, a table item -> label, labels per
request and item in the form of judgments, a table of shares, or `eh.rollup(...)`.

How the pieces fit::

    table = ranking_table(rankings)                                 # a Relation
    labels = open_labels(groups, table, item=item, request=request) # Labels (a table) or LabelColumns (of the rankings)
    view = open_rankings(table, ..., carry=labels.carry(table))     # the rankings carry what their labels need
    coded = labels.coded(view)                                      # CodedLabels, in the engine of the rankings
    coded.labels                                                    # every label, in the order of results
    coded.rows                                                      # SELECT: columns of the rankings, label, share
    coded.items(), coded.join(sql, types)                           # SELECT item [, request], label, share; other rows with them

In every SELECT `label` is a BIGINT, the place of the label in `coded.labels`, and NULL where the label is unknown; `share` is
the part of the item that belongs to the label (1 where items are not shared). A row of the rankings stands there once for
each label of its item, and once with NULL where it has none.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.labels import in_order, whole
from evenhand.sources.engine import Engine
from evenhand.sources.files import has_known_ending, may_be_file
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Relation, Type, comparable, is_number, relation_of
from evenhand.sources.roles import label_problems
from evenhand.sources.sql import INFINITY, count_where, double, quoted, select
from evenhand.sources.sql import columns as column_list
from evenhand.sources.sql import text as text_literal

NEAR_ONE = 1e-6
"""How far from 1 the shares of an item may add up to."""

TOGETHER = " & "
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


class Ranked(Protocol):
    """Rows that labels are joined to: rankings, scores."""

    @property
    def engine(self) -> Engine: ...

    @property
    def sql(self) -> str: ...

    @property
    def types(self) -> Mapping[str, Type]: ...


@dataclass(frozen=True)
class CodedLabels:
    """Labels as codes, beside the rankings that they are for; the top of this file says how its queries look.

    Attributes
    ----------
    labels : every label, in the order of results; a code is a place in it.
    keys : what items are named by, `("item",)` or `("item", "request")`; empty where only rows of the rankings have labels.
    soft : whether an item may belong to several groups.
    rows : a SELECT of the rankings with `label` and `share`.
    table : a SELECT of the keys, `label` and `share`.
    """

    engine: Engine
    labels: tuple[Any, ...]
    keys: tuple[str, ...]
    soft: bool
    rows: str
    table: str
    types: Mapping[str, Type]
    origin: str
    role: str

    @property
    def has_table(self) -> bool:
        """Whether labels came in a table of their own, whose ids may be others than those of the rankings."""
        return True

    def items(self) -> str:
        """A SELECT of every item (and request), label and share."""
        return self.table

    def with_items(self) -> CodedLabels:
        """Labels with their table of items fixed, whatever happens to `rows` later."""
        return self

    @property
    def item_keys(self) -> tuple[str, ...]:
        """Key columns of `items`: the item, and the request where labels depend on it."""
        return self.keys

    def join(self, rows: str, types: Mapping[str, Type], role: str = "groups") -> str:
        """A SELECT of other rows that have an item (and a request), with `label` and `share`."""
        refuse_unnamed(types, self.keys)
        return _joined(rows, types, f"({self.table})", self.types, self.keys, role)

    def items_by_label(self, slices: Sequence[str]) -> list[tuple[tuple[tuple[Any, ...], Any], int]]:
        """Ranked items of each label in each slice (rows, where items have no names): ((slice, label), items)."""
        keys = [*slices, "label"]
        named = "item" in self.row_columns
        each = f"SELECT {'DISTINCT ' if named else ''}{column_list([*keys, *(['item'] if named else [])])} "
        each += f"FROM ({self.rows}) AS labelled WHERE share > 0"
        query = f"SELECT {column_list(keys)}, COUNT(*) AS items FROM ({each}) AS shown GROUP BY {column_list(keys)}"
        cells = self.engine.cells(query)
        labels = [None if code is None else self.labels[code] for code in cells.values("label")]
        return list(zip(zip(cells.labels(slices), labels, strict=True), cells.integers("items").tolist(), strict=True))

    def renamed(self, names: Mapping[Any, str]) -> CodedLabels:
        """Labels renamed, those that get the same name merged; the others as text."""
        if not names:
            return self
        new = [names.get(label, str(label)) for label in self.labels]
        labels = tuple(in_order(set(new)))
        import polars as pl

        frame = pl.DataFrame(
            {"code": range(len(new)), "new_code": [labels.index(name) for name in new]},
            schema={"code": pl.Int64, "new_code": pl.Int64},
        )
        codes = self.engine.bring(frame)

        def moved(query: str, names: Sequence[str]) -> str:
            others = column_list(names, table="old", leading=True)
            by = ", ".join(["codes.new_code", *(f"old.{quoted(name)}" for name in names)])
            joined = f"FROM ({query}) AS old LEFT JOIN {codes} AS codes ON old.label = codes.code"
            if not self.soft:
                return f"SELECT codes.new_code AS label, old.share AS share{others} {joined}"
            return f"SELECT codes.new_code AS label, SUM(old.share) AS share{others} {joined} GROUP BY {by}"

        return replace(
            self, labels=labels, rows=moved(self.rows, list(self.row_columns)), table=moved(self.table, list(self.keys))
        )

    @property
    def row_columns(self) -> list[str]:
        """Columns of `rows` beside `label` and `share`."""
        frame = self.engine.cells(f"SELECT * FROM ({self.rows}) AS labelled LIMIT 0")
        return [name for name in frame.names if name not in ("label", "share")]


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
    """

    relation: Relation
    soft: bool
    origin: str
    named: tuple[str, ...] = ()
    word: str = ""

    @classmethod
    def from_frame(cls, frame: Any, *, soft: bool, origin: str) -> Labels:
        """From a Polars frame with columns item (and request), group, and share where `soft`."""
        opened = open_table(frame, role="groups")
        keys = {c: c for c in ("item", "request") if c in opened.schema}
        share = opened.number("share") if "share" in opened.schema else double(1)
        chosen = {**{c: opened.label(c) for c in keys}, "label": opened.label("group"), "share": share}
        return cls(_materialized(opened, opened.select(chosen), _types(opened, keys, ["group"])), soft, origin)

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

    def refuse_bad_rows(self, _: Ranked) -> None:
        """Nothing: shares in a table were checked when it was opened."""

    def refuse_bad_items(self, _: Ranked) -> None:
        """Nothing: shares in a table were checked when it was opened."""

    def coded(self, rankings: Ranked, role: str = "groups") -> CodedLabels:
        """The labels as codes, in the engine of some rankings."""
        refuse_unnamed(rankings.types, self.keys)
        engine, rows = rankings.engine, open_table(self.relation, same_engine_as=_as_relation(rankings))
        labels, codes = _numbered(engine, f"SELECT DISTINCT label FROM {rows.name} WHERE label IS NOT NULL", self.named)
        keys = column_list(self.keys, table="labelled")
        table = engine.keep(
            f"SELECT {keys}, codes.code AS label, labelled.share AS share "
            f"FROM {rows.name} AS labelled LEFT JOIN {codes} AS codes ON labelled.label = codes.label"
        )
        joined = _joined(rankings.sql, rankings.types, table, rows.schema, self.keys, role)
        query = f"SELECT {column_list(self.keys)}, label, share FROM {table}"
        return CodedLabels(engine, labels, self.keys, self.soft, joined, query, rows.schema, self.origin, role)


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
        table = table.with_numbers(*self.columns)
        numbers = [table.number(c) for c in self.columns]
        return {f"share_{i}": share for i, share in enumerate(_parts(numbers) if self.counts else numbers)}

    def coded(self, rankings: Ranked, role: str = "groups") -> CodedLabels:  # noqa: ARG002  (as that of Labels)
        """The labels as codes; `rankings` carry what `carry` asked for."""
        engine, source = rankings.engine, f"({rankings.sql})"
        if self.soft:
            labels: tuple[Any, ...] = self.columns
            rows = _shares_as_rows(source, len(labels))
        else:
            distinct = f"SELECT DISTINCT label_value AS label FROM {source} AS ranked WHERE label_value IS NOT NULL"
            labels, codes = _numbered(engine, distinct)
            rows = (
                f"SELECT ranked.*, codes.code AS label, {double(1)} AS share "
                f"FROM {source} AS ranked LEFT JOIN {codes} AS codes ON ranked.label_value = codes.label"
            )
        return _ItemsOfColumns(engine, labels, ("item",), self.soft, rows, "", rankings.types, self.origin, self.role)

    def refuse_bad_items(self, rankings: Ranked) -> None:
        """Items whose shares are negative, partly missing or do not add up to 1."""
        if self.soft:
            names = [f"share_{i}" for i in range(len(self.columns))]
            has_shares = f"COALESCE({', '.join(names)}) IS NOT NULL"
            wide = f"SELECT DISTINCT item, {', '.join(names)} FROM ({rankings.sql}) AS ranked WHERE {has_shares}"
            _refuse_bad_shares(rankings.engine, f"({wide}) AS wide", names, self.role)

    def refuse_bad_rows(self, rankings: Ranked) -> None:
        """Rows whose shares are negative, partly missing or do not add up to 1."""
        if not self.soft:
            return
        names = [f"share_{i}" for i in range(len(self.columns))]
        holes, total = " + ".join(f"CASE WHEN {n} IS NULL THEN 1 ELSE 0 END" for n in names), " + ".join(names)
        wrong = f"{holes} BETWEEN 1 AND {len(names) - 1} OR LEAST({', '.join(names)}) < 0 OR ABS({total} - 1) > {double(NEAR_ONE)}"
        count = rankings.engine.cells(f"SELECT {count_where(wrong)} AS n FROM ({rankings.sql}) AS ranked").row()["n"]
        if count:
            raise EvenhandError(
                f"{int(count):,} rows have shares that are negative, partly missing or do not sum to 1. "
                "Pass shares of zero or more that sum to 1, or leave all of a row's missing where nothing is known."
            )


@dataclass(frozen=True)
class _ItemsOfColumns(CodedLabels):
    """Labels that rows of the rankings carry; the table of items is made when somebody asks for it."""

    @property
    def has_table(self) -> bool:
        return False

    def items(self) -> str:
        return self._by_item.table

    def with_items(self) -> CodedLabels:
        keys, table = self._by_item.keys, self._by_item.table
        return CodedLabels(
            self.engine, self.labels, keys, self.soft, self.rows, table, self.types, self.origin, self.role
        )

    @property
    def item_keys(self) -> tuple[str, ...]:
        return self._by_item.keys

    def join(self, rows: str, types: Mapping[str, Type], role: str = "groups") -> str:
        return super(_ItemsOfColumns, self._by_item).join(rows, types, role)

    @cached_property
    def _by_item(self) -> _ItemsOfColumns:
        """With every item (and request, where an item has several labels) once; two labels in one request are refused."""
        refuse_unnamed(self.types, ("item",))
        for keys in (("item",), ("item", "request")):
            pairs = self.engine.keep(
                f"SELECT DISTINCT {column_list(keys)}, label, share FROM ({self.rows}) AS labelled WHERE label IS NOT NULL"
            )
            count, _ = _repeated(self.engine, pairs, keys, shared=self.soft)
            if not count:
                table = f"SELECT {column_list(keys)}, label, share FROM {pairs}"
                return replace(self, keys=keys, table=table)
        raise EvenhandError(
            f"{self.origin} gives {count:,} items several labels in the same request. "
            f"Give each item one, or pass eh.rollup(...) as {self.role}."
        )


def open_labels(
    groups: Any, table: Relation, *, item: str, request: str = "request", role: str = "groups"
) -> Labels | LabelColumns:
    """Checked labels from the argument `role`; `table` holds the rankings to be labelled."""
    if isinstance(groups, Labels):
        return groups
    if (fair := _of_trec_fair(groups)) is not None:
        return fair
    names = table.names
    if isinstance(groups, str) and groups not in names:
        groups = read_shares(groups) or _read_rollup(groups) or groups
    if isinstance(groups, Labels):
        return groups
    if isinstance(groups, Shares):
        return (
            _share_columns(groups, table, role) if groups.of is None else _shares_of(groups, table, item, request, role)
        )
    if isinstance(groups, str) and (groups in names or not may_be_file(groups)):
        return _label_columns([groups], table, role)
    several = isinstance(groups, (list, tuple)) and groups and all(isinstance(g, str) for g in groups)
    if several and any(g in names for g in groups):
        return _label_columns(list(groups), table, role)
    if isinstance(groups, Mapping):
        return _from_mapping(groups, table.engine, role)
    return _from_table(_opened(groups, table, role), item, request, role)


def columns_in(groups: Any) -> list[str]:
    """The words in what was passed that may name columns of the rankings."""
    if isinstance(groups, str):
        parsed = read_shares(groups) if groups.lstrip().startswith("shares") else None
        return [groups, *(columns_in(parsed) if parsed is not None else [])]
    if isinstance(groups, Shares):
        return list(groups.columns) if groups.of is None else []
    return [g for g in groups if isinstance(g, str)] if isinstance(groups, (list, tuple)) else []


def refuse_unnamed(columns: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Rankings without a column that labels are joined by."""
    if lacking := [key for key in keys if key not in columns]:
        raise EvenhandError(
            f"Labels are joined by item, and the rankings have no column of {lacking[0]}s. Name it with {lacking[0]}=."
        )


def combined(columns: list[str], table: Relation, role: str) -> str:
    """SQL of the label that several columns make together; NULL where one of them is."""
    if problems := [p for c in columns for p in label_problems(role, c, table)]:
        raise all_problems([p.replace("plain labels.", "plain labels, or eh.rollup(...).") for p in problems])
    if len(columns) == 1:
        return table.label(columns[0])
    return f" || {text_literal(TOGETHER)} || ".join(f"CAST({table.label(c)} AS VARCHAR)" for c in columns)


def several_labels(role: str, count: int, first: Any) -> EvenhandError:
    """That ids have more than one label."""
    return EvenhandError(
        f"{role} gives {count:,} of its ids more than one label (for example {first!r}). "
        "Give each id one label, or pass eh.rollup(...) where an item has several providers."
    )


def _of_trec_fair(groups: Any) -> Labels | None:
    """A file of the TREC Fair track, `"trec-fair:FILE"`."""
    from evenhand.sources.trec_fair import fair_paths, trec_fair_groups

    paths = fair_paths(groups)
    return None if paths is None else trec_fair_groups(paths[0])


def _read_rollup(text: str) -> Labels | None:
    """`rollup(items.csv, providers.csv)` as plans and the command line write it."""
    from evenhand.sources.rollup import read_rollup

    return read_rollup(text)


def _opened(groups: Any, table: Relation, role: str) -> Relation:
    if isinstance(groups, (str, Path)) and os.path.isfile(groups) and not has_known_ending(str(groups)):
        from evenhand.sources.trec import labels

        return replace(open_table(labels(groups), same_engine_as=table), origin=str(groups))
    return open_table(groups, role=role, same_engine_as=table)


def _materialized(table: Relation, query: str, types: Mapping[str, Type]) -> Relation:
    """A temporary table with the answer of a query, in the engine of another one."""
    return relation_of(table.engine, table.engine.keep(query), types, backend=table.backend, origin=table.origin)


def _types(table: Relation, keys: Mapping[str, str], label: Sequence[str]) -> dict[str, Type]:
    """Types of ids, of the label that some columns make, and of the share."""
    kinds: dict[str, Type] = {role: table.label_type(column) for role, column in keys.items()}
    kinds["label"] = table.label_type(label[0]) if len(label) == 1 else nw.String()
    return kinds | {"share": nw.Float64()}


def _as_relation(rankings: Ranked) -> Relation:
    return relation_of(rankings.engine, f"({rankings.sql})", rankings.types, backend="", origin="")


def _numbered(engine: Engine, query: str, named: Sequence[str] = ()) -> tuple[tuple[Any, ...], str]:
    """The distinct labels that a query answers in order, and a table of each `label` with its `code`."""
    import polars as pl

    frame = engine.cells(query).frame
    labels = in_order({*frame["label"].to_list(), *named})
    place = {label: i for i, label in enumerate(labels)}
    codes = [place[label] for label in frame["label"].to_list()]
    brought = engine.bring(frame.with_columns(pl.Series("code", codes, dtype=pl.Int64)))
    return tuple(whole(labels)), brought


def _joined(
    rows: str, types: Mapping[str, Type], table: str, labelled: Mapping[str, Type], keys: Sequence[str], role: str
) -> str:
    """Rows with the label and share of their item (and request)."""
    conditions = []
    for key in keys:
        label_pattern, row_pattern = comparable(labelled[key], types[key], column=key, role=role)
        conditions.append(f"{row_pattern.format('ranked.' + key)} = {label_pattern.format('labels.' + key)}")
    return (
        f"SELECT ranked.*, labels.label AS label, COALESCE(labels.share, {double(1)}) AS share "
        f"FROM ({rows}) AS ranked LEFT JOIN {table} AS labels ON {' AND '.join(conditions)}"
    )


def _shares_as_rows(source: str, many: int) -> str:
    """Rows with columns of shares as one row per label with a share above zero; one without a label where all are missing."""
    parts = [
        f"SELECT ranked.*, CAST({i} AS BIGINT) AS label, share_{i} AS share FROM {source} AS ranked WHERE share_{i} > 0"
        for i in range(many)
    ]
    unknown = " AND ".join(f"share_{i} IS NULL" for i in range(many))
    parts.append(
        f"SELECT ranked.*, CAST(NULL AS BIGINT) AS label, {double(1)} AS share FROM {source} AS ranked WHERE {unknown}"
    )
    return " UNION ALL ".join(parts)


def _refuse_absent(columns: Sequence[str], table: Relation, role: str) -> None:
    problems = [
        f"{role}={c!r} is not a column of the rankings. {suggestion(c, table.names)}Columns: {listing(table.names)}."
        for c in columns
        if c not in table.schema
    ]
    if problems:
        raise all_problems(problems)


def _label_columns(columns: list[str], table: Relation, role: str) -> LabelColumns:
    _refuse_absent(columns, table, role)
    if len(columns) > 1:
        numbers = table.with_numbers(*columns)
        if all(numbers.schema[c].is_float() for c in columns):
            _refuse_shares(columns, numbers, role)
    return LabelColumns(tuple(columns), role)


def _refuse_shares(columns: list[str], table: Relation, role: str) -> None:
    """Numbers that add up to 1 in every row are hardly labels to be combined."""
    numbers = [table.number(c) for c in columns]
    total = " + ".join(f"COALESCE({n}, 0)" for n in numbers)
    facts = table.facts(
        {
            "one": count_where(f"ABS({total} - 1) <= {double(NEAR_ONE)}"),
            "known": count_where(" OR ".join(f"{n} IS NOT NULL" for n in numbers)),
            "broken": count_where(" OR ".join(f"({n} > 0 AND {n} < 1)" for n in numbers)),
        }
    )
    if facts["broken"] and facts["one"] == facts["known"]:
        raise EvenhandError(
            f"{role}={columns!r} names columns of shares, and a list of columns means labels that are combined. "
            f"Pass eh.{Shares(tuple(columns))}."
        )


def _share_columns(shares: Shares, table: Relation, role: str) -> LabelColumns:
    _refuse_absent(shares.columns, table, role)
    schema = table.with_numbers(*shares.columns).schema
    words = [c for c in shares.columns if not is_number(schema[c])]
    if words:
        raise EvenhandError(
            f"{role}={str(shares)!r} names columns that hold no numbers: {listing(words)}. Name columns of shares."
        )
    return LabelColumns(tuple(in_order(shares.columns)), role, soft=True, counts=shares.counts)


def _shares_of(shares: Shares, table: Relation, item: str, request: str, role: str) -> Labels:
    """Shares, or counts, that stand in a table of items or in a mapping."""
    if isinstance(shares.of, Mapping):
        return _from_mapping(shares.of, table.engine, role, counts=shares.counts)
    labels = _from_table(_opened(shares.of, table, role), item, request, role, shares)
    if not labels.soft:
        raise EvenhandError(
            f"{role}={str(shares)!r} is a table of labels, not of numbers. Pass the table itself, or name its columns of numbers."
        )
    return labels


def _parts(counts: Sequence[str]) -> list[str]:
    """Counts over their sum, unknown where all are zero; a row with a negative one stays as it is, to be refused as shares are."""
    total, least = " + ".join(f"COALESCE({c}, 0)" for c in counts), f"LEAST({', '.join(counts)})"
    return [f"CASE WHEN {least} < 0 THEN {c} WHEN {total} > 0 THEN {c} / ({total}) END" for c in counts]


def _from_mapping(labels_by_item: Mapping[Any, Any], engine: Engine, role: str, *, counts: bool = False) -> Labels:
    """`{item: label}`, `{item: {label: share}}`, None where unknown."""
    import polars as pl

    items: list[Any] = []
    groups: list[Any] = []
    parts: list[float] = []
    soft = False
    for item, label in labels_by_item.items():
        split: Mapping[Any, Any] = label if isinstance(label, Mapping) else {label: 1.0}
        soft = soft or isinstance(label, Mapping)
        for group, share in split.items():
            items.append(item)
            groups.append(None if isinstance(group, float) and math.isnan(group) else group)
            parts.append(share)
    try:
        empty = pl.Series(dtype=pl.String)
        frame = pl.DataFrame({"item": items or empty, "group": groups or empty})
        if frame.schema["group"] == pl.Null:
            frame = frame.with_columns(pl.col("group").cast(pl.String))
        frame = frame.with_columns(pl.Series("share", parts, dtype=pl.Float64))
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError(
            f"{role} mixes kinds of items or labels. Pass items of one type and labels of one type."
        ) from error
    opened = open_table(frame, role=role)
    chosen = {"item": opened.label("item"), "label": opened.label("group"), "share": opened.number("share")}
    types = _types(opened, {"item": "item"}, ["group"])
    labels = Labels(_materialized(opened, opened.select(chosen), types), soft, "a mapping")
    return _with_sound_shares(labels, role, counts=counts) if soft or counts else labels


def _from_table(
    table: Relation,
    item: str,
    request: str,
    role: str,
    shares: Shares = Shares(()),  # noqa: B008  (frozen)
) -> Labels:
    """A label per item (or per request and item), several label columns together, or one column of shares per group."""
    names = list(table.schema)
    key = item if item in names else "item" if "item" in names else None
    asker = request if request in names else "request" if "request" in names else None
    judged = ["iteration"] if "relevance" in names else []  # what judgments hold beside their label
    others = [n for n in names if n not in (key, asker, *judged)]
    if key is None:
        raise EvenhandError(
            f"{role} has no column {item!r}. Its columns are {listing(names)}: rename the one with the ids of items to {item!r}."
        )
    if lost := [c for c in shares.columns if c not in names]:
        raise EvenhandError(
            f"{lost[0]!r} is not a column of {role}. {suggestion(lost[0], names)}Columns: {listing(names)}."
        )
    others = list(shares.columns) or others
    if not others:
        raise EvenhandError(
            f"{role} needs at least one column of labels beside {key!r}. Its columns: {listing(names)}."
        )
    ids = {"item": key} | ({} if asker is None else {"request": asker})
    keys = {role: table.label(column) for role, column in ids.items()}
    named = f"WHERE {keys['item']} IS NOT NULL"
    read = table.with_numbers(*others) if len(others) > 1 else table
    schema = read.schema
    if len(others) > 1 and all(is_number(schema[n]) for n in others):
        numbers = [read.number(c) for c in others]
        numbers = _parts(numbers) if shares.counts else numbers
        wide = {**keys, **{f"share_{i}": share for i, share in enumerate(numbers)}}
        once = _once(_materialized(read, f"{read.select(wide)} {named}", _types(read, ids, [])), list(keys), role)
        return _of_shares(once, list(keys), others, role)
    if {"group", "share"} == set(others) and is_number(schema["share"]):
        chosen = {**keys, "label": read.label("group"), "share": read.number("share")}
        types = _types(read, ids, ["group"])
        labels = Labels(_materialized(read, f"{read.select(chosen)} {named}", types), True, table.origin)
        return _with_sound_shares(labels, role, counts=shares.counts)
    if len(others) > 1 and any(schema[n].is_float() for n in others):
        raise EvenhandError(
            f"{role} mixes labels and numbers: {listing(f'{n} ({schema[n]})' for n in others)}. "
            "Pass labels only (they are combined), or one column of shares per group."
        )
    chosen = {**keys, "label": combined(others, table, role), "share": double(1)}
    labelled = _materialized(table, f"{table.select(chosen)} {named}", _types(table, ids, others))
    labelled = _once(labelled, list(keys), role)
    return Labels(labelled, False, table.origin)


def _repeated(engine: Engine, table: str, keys: Sequence[str], *, shared: bool = False) -> tuple[int, Any]:
    """How many keys have several rows, and the first item among them; where items are shared, whose shares exceed 1."""
    several = f"SUM(share) > {double(1 + NEAR_ONE)}" if shared else "COUNT(*) > 1"
    per_key = f"SELECT {column_list(keys)} FROM {table} GROUP BY {column_list(keys)} HAVING {several}"
    row = engine.cells(f"SELECT COUNT(*) AS n, MIN(item) AS first_item FROM ({per_key}) AS repeated").row()
    return int(row["n"]), row["first_item"]


def _once(rows: Relation, keys: Sequence[str], role: str) -> Relation:
    """One row for each item (and request); the same row twice is one, two different ones are an error."""
    if not _repeated(rows.engine, rows.name, keys)[0]:
        return rows
    distinct = replace(rows, name=rows.engine.keep(f"SELECT DISTINCT * FROM {rows.name}"))
    count, first = _repeated(rows.engine, distinct.name, keys)
    if count:
        raise several_labels(role, count, first)
    return distinct


def _of_shares(wide: Relation, keys: list[str], columns: list[str], role: str) -> Labels:
    """Columns of shares as rows of item and label, without the zeros; a row of missing values is unknown."""
    names = [f"share_{i}" for i in range(len(columns))]
    _refuse_bad_shares(wide.engine, wide.name, names, role)
    ids = column_list(keys)
    parts = [
        f"SELECT {ids}, {text_literal(column)} AS label, {name} AS share FROM {wide.name} WHERE {name} > 0"
        for column, name in zip(columns, names, strict=True)
    ]
    unknown = " AND ".join(f"{n} IS NULL" for n in names)
    parts.append(f"SELECT {ids}, CAST(NULL AS VARCHAR) AS label, {double(1)} AS share FROM {wide.name} WHERE {unknown}")
    return Labels(_materialized(wide, " UNION ALL ".join(parts), wide.schema), True, wide.origin, tuple(columns))


def _refuse_bad_shares(engine: Engine, wide: str, names: Sequence[str], role: str) -> None:
    """Rows of shares in columns that are negative, partly missing or do not add up to 1."""
    holes = " + ".join(f"CASE WHEN {n} IS NULL THEN 1 ELSE 0 END" for n in names)
    counts = {
        "negative": " + ".join(count_where(f"{n} < 0") for n in names),
        "lacking": count_where(f"{holes} BETWEEN 1 AND {len(names) - 1}"),
        "off": count_where(f"ABS({' + '.join(names)} - 1) > {double(NEAR_ONE)}"),
    }
    facts = engine.cells(f"SELECT {select(counts)} FROM {wide}").row()
    below, lacking, off = (int(facts[name] or 0) for name in counts)
    if below or lacking or off:
        raise EvenhandError(
            f"{role} holds {below:,} negative shares, {lacking:,} rows with some shares missing and {off:,} rows that do "
            "not add up to 1. Pass shares of zero or more that add up to 1 for each item, or say that they are counts: "
            "eh.shares(..., counts=True)."
        )


def _with_sound_shares(labels: Labels, role: str, *, counts: bool = False) -> Labels:
    """Labels whose shares are zero or more and add up to 1 for each item; others are refused."""
    if counts:
        labels = _divided(labels, role)
    rows, keys = labels.relation, column_list(labels.keys)
    wrong = f"ABS(SUM(share) - 1) > {double(NEAR_ONE)} OR MIN(share) < 0"
    per_item = f"SELECT {keys} FROM {rows.name} GROUP BY {keys} HAVING {wrong}"
    count = int(rows.engine.cells(f"SELECT COUNT(*) AS n FROM ({per_item}) AS odd").row()["n"])
    if count:
        raise EvenhandError(
            f"{role} gives {count:,} items shares that are negative or do not add up to 1. Pass shares that add up to 1, or say "
            "that they are counts: eh.shares(..., counts=True)."
        )
    return labels


def _divided(labels: Labels, role: str) -> Labels:
    """Counts per item and group over the sum of the item, whose groups are unknown where that is zero."""
    rows = labels.relation
    odd = count_where(f"share IS NULL OR share < 0 OR share = {INFINITY}")
    count = int(rows.facts({"n": odd})["n"] or 0)
    if count:
        raise EvenhandError(
            f"{role} holds {count:,} counts that are negative, missing or infinite. Pass counts of zero or more."
        )
    keys = column_list(labels.keys)
    totals = f"SELECT {keys}, SUM(share) AS total, COUNT(*) AS row_count FROM {rows.name} GROUP BY {keys}"
    on = " AND ".join(f"counts.{quoted(k)} = totals.{quoted(k)}" for k in labels.keys)
    query = (
        f"SELECT {column_list(labels.keys, table='counts')}, CASE WHEN total > 0 THEN label END AS label, "
        f"CASE WHEN total > 0 THEN share / total ELSE {double(1)} / row_count END AS share "
        f"FROM {rows.name} AS counts JOIN ({totals}) AS totals ON {on}"
    )
    return replace(labels, relation=_materialized(rows, query, rows.schema))
