"""Rankings, labels and judgments as relations of one engine with comparable ids, ready to be joined by the tallies of exposure.

Judgments (how relevant items are to requests) are a table, a mapping, or a column of the rankings; in the last case the
rankings carry it (`carried`), and `Judgments.join` leaves rows as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.attention import Attention
from evenhand.errors import EvenhandError, listing, refuse_problems, suggestion
from evenhand.sources.engine import Engine
from evenhand.sources.files import has_known_ending
from evenhand.sources.inputs import FAIR, paths_after
from evenhand.sources.labels import (
    CodedLabels,
    LabelColumns,
    Labels,
    columns_in,
    inverse_probability,
    open_labels,
    refuse_bad_probability,
)
from evenhand.sources.opening import open_table
from evenhand.sources.rankings import (
    NUMBERS,
    Rankings,
    are_item_lists,
    judged_by,
    open_rankings,
    sliced_table,
)
from evenhand.sources.relation import (
    WHOLE_TABLE,
    Relation,
    Slicing,
    Type,
    comparable,
    count_groups,
    is_number,
    item_column,
    may_repeat,
    role_problems,
    with_request,
)
from evenhand.sources.sql import INFINITY, columns, count_where, double, quoted, select
from evenhand.sources.trec import FAIR_ROLES

MissingRelevance = Literal["zero", "drop", "raise"]

KEYS = ("request", "item")

UNJUDGED = "ranked items without a judgment"
"""Why rows are left out under `missing_relevance="drop"`."""


@dataclass(frozen=True)
class Judgments:
    """Checked judgments.

    Attributes
    ----------
    sql : a SELECT of request, item and relevance; one row per judged pair. types : of its columns.
    column : of the rankings that holds them, where one does.
    """

    engine: Engine
    sql: str
    types: Mapping[str, Type]
    column: str | None = None

    def join(self, rows: str, types: Mapping[str, Type]) -> str:
        """A SELECT of rows that have a request and an item, with `relevance`: NULL where nobody judged."""
        if self.column is not None:
            return rows
        conditions = []
        for key in KEYS:
            judged, ranked = comparable(self.types[key], types[key], column=key, role="relevance")
            conditions.append(f"{ranked.format('ranked.' + key)} = {judged.format('judged.' + key)}")
        return (
            f"SELECT ranked.*, judged.relevance AS relevance FROM ({rows}) AS ranked "
            f"LEFT JOIN ({self.sql}) AS judged ON {' AND '.join(conditions)}"
        )

    def count_unjudged(self, rows: str, missing: MissingRelevance, kind: str) -> int:
        """How many rows of that kind have no judgment; refused where the policy is to raise."""
        query = f"SELECT {count_where('relevance IS NULL')} AS n FROM ({rows}) AS judged"
        count = int(self.engine.cells(query).row()["n"])
        if count and missing == "raise":
            raise EvenhandError(
                f"{count:,} {kind} have no judgment. Add them to relevance, or pass missing_relevance='zero' or 'drop'."
            )
        return count


def open_judgments(relevance: Any, table: Relation, *, request: str, item: str) -> Judgments | None:
    """Checked judgments from the argument `relevance`; None where there is none."""
    if relevance is None:
        return None
    if (fair := paths_after(FAIR, relevance)) is not None:
        from evenhand.sources.trec import trec_fair_queries

        relevance = trec_fair_queries(fair[0])
    if (column := column_of(relevance, table)) is not None:
        return _from_column(table.with_numbers(column), column, request, item)
    if isinstance(relevance, str) and not os.path.exists(relevance) and Path(relevance).suffix == "":
        raise EvenhandError(
            f"relevance={relevance!r} is neither a column of the rankings nor a file. {suggestion(relevance, table.names)}"
            f"Columns: {listing(table.names)}."
        )
    if request == WHOLE_TABLE and isinstance(relevance, Mapping):
        relevance = {"all": relevance}
    opened = _opened(relevance, table)
    if request == WHOLE_TABLE:
        opened, _ = with_request(opened, None)
    keys = {
        "request": request if request in opened.names else "request",
        "item": item_column(opened, item, "relevance"),
    }
    judgments = _judged(opened, keys, "relevance", of="relevance")
    if count := _repeated(judgments):
        raise EvenhandError(
            f"relevance judges {count:,} pairs of request and item more than once. Keep one judgment for each."
        )
    return judgments


def column_of(relevance: Any, table: Relation) -> str | None:
    """The column of the rankings that holds the judgments, where one does."""
    return relevance if isinstance(relevance, str) and relevance in table.schema else None


def carried(relevance: Any, table: Relation) -> dict[str, str]:
    """SQL of the columns that rankings must carry for judgments that are columns of theirs."""
    column = column_of(relevance, table)
    return {} if column is None or not is_number(table.schema[column]) else {"relevance": table.number(column)}


def _opened(relevance: Any, table: Relation) -> Relation:
    """A table of judgments, `{request: {item: relevance}}`, or qrels."""
    if isinstance(relevance, (str, Path)) and os.path.isfile(relevance) and not has_known_ending(str(relevance)):
        from evenhand.sources.trec import qrels

        return replace(open_table(qrels(relevance), role="relevance", same_engine_as=table), origin=str(relevance))
    if isinstance(relevance, Mapping):
        import polars as pl

        if not all(isinstance(judged, Mapping) for judged in relevance.values()):
            raise EvenhandError("relevance is a mapping without mappings inside. Pass {request: {item: relevance}}.")
        rows = [(q, d, y) for q, judged in relevance.items() for d, y in judged.items()]
        ids: dict[str, Any] = {} if rows else {"request": pl.String, "item": pl.String}
        try:
            columns = zip((*KEYS, "relevance"), zip(*rows, strict=True) if rows else ((), (), ()), strict=True)
            relevance = pl.DataFrame(dict(columns), schema_overrides={"relevance": pl.Float64, **ids})
        except (TypeError, pl.exceptions.PolarsError) as error:
            raise EvenhandError(
                "relevance mixes kinds of ids or holds values that are not numbers. Use one type for each."
            ) from error
    return open_table(relevance, role="relevance", same_engine_as=table).with_numbers("relevance")


def _from_column(table: Relation, column: str, request: str, item: str) -> Judgments:
    """Judgments that stand in the rankings: every distinct judged pair, which must have one relevance."""
    judgments = replace(_judged(table, {"request": request, "item": item}, column, of="the rankings"), column=column)
    if not _repeated(judgments):
        return judgments
    judgments = replace(judgments, sql=f"SELECT DISTINCT request, item, relevance FROM ({judgments.sql}) AS judged")
    if count := _repeated(judgments):
        raise EvenhandError(
            f"relevance gives {count:,} pairs of request and item more than one relevance. Give each pair one."
        )
    return judgments


def _judged(table: Relation, keys: Mapping[str, str], column: str, of: str) -> Judgments:
    """The rows that say something, with their roles and values checked."""
    _refuse_words(table, column)
    refuse_problems(role_problems(table, [*keys.items(), ("relevance", column)], ("relevance",), of=of))
    chosen = {role: table.label(name) for role, name in keys.items()} | {"relevance": table.number(column)}
    silent = " OR ".join(f"{expression} IS NULL" for expression in chosen.values())
    number = chosen["relevance"]
    flags = {"negative": f"{number} < 0", "infinite": f"{number} = {INFINITY}"}
    facts = table.facts({name: count_where(condition) for name, condition in flags.items()})
    negative, infinite = (int(facts[name]) for name in flags)
    if negative or infinite:
        raise EvenhandError(
            f"relevance holds {negative:,} negative and {infinite:,} infinite numbers. Pass numbers of zero or more."
        )
    types: dict[str, Type] = {role: table.label_type(name) for role, name in keys.items()}
    types["relevance"] = nw.Float64()
    return Judgments(table.engine, f"{table.select(chosen)} WHERE NOT ({silent})", types)


def _refuse_words(table: Relation, column: str) -> None:
    """Grades that are words: nobody but their author knows their order."""
    if column not in table.schema or table.schema[column] not in (nw.String, nw.Categorical, nw.Enum):
        return
    label = table.label(column)
    grades = table.cells(f"SELECT DISTINCT {label} AS grade FROM {table.name} WHERE {label} IS NOT NULL LIMIT 1000")
    words = sorted(map(str, grades.values("grade")))
    raise EvenhandError(
        f"relevance={column!r} is text: {listing(map(repr, words))}. Replace each grade by a number, the least relevant by 0."
    )


def _repeated(judgments: Judgments) -> int:
    """How many pairs of request and item have several rows."""
    engine, query = judgments.engine, judgments.sql
    return count_groups(engine, f"({query}) AS judged", KEYS) if may_repeat(engine, query, KEYS) else 0


@dataclass(frozen=True)
class JudgedRankings:
    """Checked rankings with the labels and judgments of their items, nothing added up yet.

    Attributes
    ----------
    view : the rankings as they were checked; labels : of their items, beside the rows.
    types : the columns of the rows: those of the view, `relevance` where the rows carry it, and `shown`, which is zero for
        items that were scored but not ranked and for what keeps the place of a list without items.
    rows : a SELECT of the rows without labels.
    judged : a SELECT of request, item and relevance, ids as the rows have them; None where nothing is judged.
    dropped : rows left out, and why.
    weighted : whether shares are 1 over the inclusion probability of a label.
    """

    view: Rankings
    labels: CodedLabels
    types: Mapping[str, Type]
    rows: str
    judged: str | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    weighted: bool = False

    @property
    def engine(self) -> Engine:
        return self.view.engine

    @property
    def slices(self) -> tuple[str, ...]:
        return self.view.slices

    @property
    def rankings(self) -> tuple[str, ...]:
        """Columns that name one ranking: slices, request and sample."""
        return (*self.slices, *(name for name in ("request", "sample") if name in self.types))

    @property
    def soft(self) -> bool:
        """Whether an item may belong to several groups."""
        return self.labels.soft

    @property
    def ranked(self) -> str:
        """The rows with `label` and `share`, as they stand after FROM."""
        return f"({self.labels.rows})"

    @property
    def factors(self) -> list[str]:
        """SQL of what a row counts: its share of an item, and whether it is in a list."""
        return ["ranked.share"] * (self.soft or self.weighted) + ["ranked.shown"] * ("shown" in self.types)

    @property
    def relevance(self) -> str:
        """SQL of a row's relevance: NULL where nobody judged."""
        return "ranked.relevance" if "relevance" in self.types else "judged.relevance"

    def source(self, *, relevance: bool) -> str:
        """The rows as `ranked`, with the judgments joined where they are read and stand in a table of their own."""
        rows = f"{self.ranked} AS ranked"
        if not relevance or "relevance" in self.types:
            return rows
        same = " AND ".join(f"judged.{key} = ranked.{key}" for key in KEYS)
        return f"{rows}\n    LEFT JOIN ({self.judged}) AS judged ON {same}"

    @property
    def judged_items(self) -> str:
        """A SELECT of request, item, relevance, label and share of what is judged."""
        assert self.judged is not None  # noqa: S101  (asked for by who needs judgments)
        return self.labels.items.join(
            self.judged, {**{key: self.types[key] for key in KEYS}, "relevance": nw.Float64()}
        )

    @property
    def labelled_items(self) -> str:
        """A SELECT of item, label and share of every item that has a label, ids as the rows have them."""
        pattern, _ = comparable(self.labels.items.types["item"], self.types["item"], column="item", role="groups")
        once = "DISTINCT " if "request" in self.labels.items.keys else ""
        return f"SELECT {once}{pattern.format('item')} AS item, label, share FROM ({self.labels.items.sql}) AS labelled"

    def same_ranking(self, left: str, right: str) -> str:
        """SQL of whether rows of two tables are of one ranking; slices may be NULL."""
        return " AND ".join(
            f"{left}.{quoted(key)} {'IS NOT DISTINCT FROM' if key.startswith('by_') else '='} {right}.{quoted(key)}"
            for key in self.rankings
        )

    @cached_property
    def depth(self) -> int:
        return int(
            self.engine.cells(f"SELECT MAX(place) AS deepest FROM ({self.rows}) AS ranked").row()["deepest"] or 0
        )

    @cached_property
    def grades(self) -> Any:
        if self.judged is None:
            return np.zeros(0)
        return self.engine.cells(f"SELECT DISTINCT relevance FROM ({self.judged}) AS judged").floats("relevance")

    def reach(self) -> int:
        """The deepest place that anything has or would have in an ideal ranking."""
        if self.judged is None:
            return self.depth
        per_request = f"SELECT COUNT(*) AS items FROM ({self.judged}) AS judged GROUP BY request"
        most = self.engine.cells(f"SELECT MAX(items) AS items FROM ({per_request}) AS per_request").row()["items"]
        return max(self.depth, int(most or 0))

    def refuse_grades(self, models: Iterable[Attention]) -> None:
        """A cascade that names grades must name every one that is judged."""
        named = [m for m in models if m.needs_relevance and None not in m.keeps()]
        if named and self.judged is not None:
            for model in named:
                model.check_grades(self.grades)

    def group_sizes(self, *, unknown: bool) -> Any:
        """(G + 1,) how many items of each label there are to be ranked; the last number is the unknown.

        Items that are ranked but have no row among the labels are counted only when `unknown` asks for it.
        """
        sizes = self._by_label("share")
        if unknown:
            absent = self.engine.cells(
                f"""
                SELECT COUNT(*) AS n
                FROM (SELECT DISTINCT item FROM ({self.rows}) AS ranked) AS ranked
                LEFT JOIN (SELECT DISTINCT item FROM ({self.labelled_items}) AS sized) AS sized ON sized.item = ranked.item
                WHERE sized.item IS NULL
                """
            )
            sizes[-1] += int(absent.row()["n"])
        return sizes

    def size_variance(self) -> Any:
        """(G,) variance of the sizes of groups where labels are a sample: other draws would hold other items."""
        return self._by_label("share * (share - 1)")[:-1]

    def _by_label(self, value: str) -> Any:
        """(G + 1,) sums over the items to be ranked; the last one is of the unknown."""
        groups = len(self.labels.labels)
        sums = np.zeros(groups + 1)
        cells = self.engine.cells(
            f"SELECT COALESCE(label, {groups}) AS code, SUM({value}) AS n FROM ({self.labelled_items}) AS sized GROUP BY label"
        )
        sums[cells.integers("code")] = cells.floats("n")
        return sums

    def count_unjudged(self) -> int:
        """How many ranked items nobody judged."""
        rows = self.source(relevance=True)
        absent = f"CASE WHEN {self.relevance} IS NULL THEN ranked.share ELSE 0 END"
        return round(float(self.engine.cells(f"SELECT SUM({absent}) AS n FROM {rows}").row()["n"] or 0))

    def first_judged(self) -> Any:
        """The first request that is judged, for words about ids; None where nothing is."""
        requests = self.engine.cells(f"SELECT request FROM ({self.judged}) AS judged LIMIT 1").values("request")
        return requests[0] if requests else None

    def renamed(self, names: Mapping[Any, str | None]) -> JudgedRankings:
        """Labels renamed; labels that get the same name are merged."""
        return replace(self, labels=self.labels.renamed(names)) if names else self


def open_judged_rankings(
    rankings: Any, *, groups: Any, relevance: Any, missing: MissingRelevance, by: Slicing, ties: Any, unranked: bool,
    nan_policy: Any, duplicates: Any = "raise", label_probability: str | None = None, **roles: Any,
) -> JudgedRankings:  # fmt: skip
    """Open and check the three tables; with `unranked`, rows that have a score but no rank are kept for what they predict."""
    if paths_after(FAIR, rankings) is not None:
        roles |= {role: role for role in FAIR_ROLES if roles[role] is None}
    words = [relevance] if isinstance(relevance, str) else []
    named = [*roles.values(), *words, *columns_in(groups), label_probability]
    key_roles = {name: roles[name] for name in (*KEYS, "system")}
    table, roles["request"], roles["system"] = sliced_table(
        rankings, by, columns=named, duplicates=duplicates, **key_roles
    )
    ids = {key: roles[key] for key in KEYS}
    table = table.with_numbers(*words, *(roles.get(role) for role in NUMBERS))
    if are_item_lists(relevance):
        relevance = judged_by(relevance, **ids)
    in_rankings = label_probability in table.names
    labels = open_labels(groups, table, probability=None if in_rankings else label_probability, **ids)
    carry = labels.carry(table) | carried(relevance, table)
    if label_probability is not None:
        _refuse_probability(label_probability, labels, in_rankings=in_rankings)
        carry |= (
            {"label_probability": table.with_numbers(label_probability).number(label_probability)}
            if in_rankings
            else {}
        )
    absent = ""
    if unranked and roles["rank"] in table.schema and roles["score"] in table.schema:
        has_no_rank = f"{table.number(roles['rank'])} IS NULL"
        absent = has_no_rank if int(table.facts({"n": count_where(has_no_rank)})["n"]) else ""
    where = f"NOT ({absent})" if absent else ""
    view = open_rankings(
        table, by=by.columns, ties=ties, duplicates=duplicates, nan_policy=nan_policy, carry=carry, where=where, **roles
    )
    judgments = open_judgments(relevance, table, **ids)
    if unranked:
        _refuse_negative(view, roles["score"])
    types: dict[str, Type] = {name: nw.Float64() if name != "label_value" else nw.Unknown() for name in carry}
    rows = _Rows(view.sql, {**view.types, **types})
    if absent:
        rows = rows.with_unranked(table, absent, view, roles, carry)
    joined = _joined(view, rows, labels, judgments, missing)
    if label_probability is None:
        return joined
    return replace(_by_probability(joined, label_probability) if in_rankings else joined, weighted=True)


def _refuse_probability(column: str, labels: Labels | LabelColumns, *, in_rankings: bool) -> None:
    """A sample of labels needs one label per item, and a column that is there."""
    if labels.soft:
        raise EvenhandError("label_probability= needs one label per item, not shares. Pass labels.")
    if not in_rankings and (isinstance(labels, LabelColumns) or labels.origin == "a mapping"):
        raise EvenhandError(
            f"label_probability={column!r} is no column of the rankings. Name a column of the rankings or of the groups table."
        )


def _by_probability(tables: JudgedRankings, column: str) -> JudgedRankings:
    """Labels weighted by a column of the rankings; the population is then the items ranked."""
    coded = tables.labels
    share = inverse_probability("label_probability", "label")
    rows = f"SELECT {columns(tables.types)}, label, {share} AS share FROM ({coded.rows}) AS labelled"
    refuse_bad_probability(tables.engine, f"({rows})", column)
    return replace(tables, labels=replace(coded, rows=rows, table=None).with_items())


def _refuse_negative(view: Rankings, score: str | None) -> None:
    """Scores below zero cannot be shared out."""
    negative = int(view.engine.cells(f"SELECT {count_where('score < 0')} AS n FROM {view.source}").row()["n"])
    if negative:
        raise EvenhandError(
            f"score={score!r} is negative in {negative:,} rows, so it cannot be shared out. "
            "Pass predicted utility of zero or more."
        )


@dataclass(frozen=True)
class _Rows:
    """A SELECT of rows with the types of its columns."""

    sql: str
    types: Mapping[str, Type]

    def select(self, expressions: Mapping[str, str], **types: Type) -> _Rows:
        """The rows with some columns replaced or added."""
        chosen = {name: quoted(name) for name in self.types} | dict(expressions)
        return _Rows(f"SELECT {select(chosen)} FROM ({self.sql}) AS ranked", {**self.types, **types})

    def comparable_with(self, types: Mapping[str, Type], keys: Sequence[str], role: str) -> _Rows:
        """The rows with ids as text where those of another table are text."""
        as_text = [key for key in keys if comparable(types[key], self.types[key], column=key, role=role)[1] != "{}"]
        if not as_text:
            return self
        return self.select({k: f"CAST({k} AS VARCHAR)" for k in as_text}, **dict.fromkeys(as_text, nw.String()))

    def with_unranked(
        self, table: Relation, absent: str, view: Rankings, roles: Mapping[str, Any], carry: Mapping[str, str]
    ) -> _Rows:
        """Ranked rows and those that were only scored, told apart by `shown`."""
        scored = {f"by_{i}": table.label(b) for i, b in enumerate(view.by)} | dict(carry)
        for role in ("system", "request", "sample", "item", "cluster", "score", "probability", "weight"):
            if roles[role] is not None:
                scored[role] = table.number(roles[role]) if role in NUMBERS else table.label(roles[role])
        scored["place"] = "CAST(1 AS BIGINT)"
        order = {name: scored[name] for name in self.types} | {"shown": double(0)}
        ranked = self.select({"shown": double(1)}, shown=nw.Float64())
        return replace(ranked, sql=f"{ranked.sql} UNION ALL {table.select(order)} WHERE {absent}")

    def without_unjudged(self, keys: Sequence[str]) -> _Rows:
        """Lists without the items that nobody judged, places closed up.

        A list that loses all of its items keeps one row that is shown to nobody: the request was made, and nobody was exposed.
        """
        names = columns(keys)
        shown = "shown" if "shown" in self.types else double(1)
        judged = f"SUM(CASE WHEN relevance IS NULL THEN 0 ELSE 1 END) OVER (PARTITION BY {names})"
        counted = self.select({"shown": shown, "judged_rows": judged}, shown=nw.Float64())
        zeroed = [name for name in ("shown", "relevance", "score") if name in counted.types]
        emptied = {name: f"CASE WHEN relevance IS NULL THEN 0 ELSE {name} END" for name in zeroed}
        judged_rows = counted.select(emptied)
        is_kept = "relevance IS NOT NULL OR (judged_rows = 0 AND place = 1 AND shown > 0)"
        judged_rows = replace(judged_rows, sql=f"{judged_rows.sql} WHERE {is_kept}")
        return judged_rows.select({"place": f"DENSE_RANK() OVER (PARTITION BY {names}, shown ORDER BY place)"})


def _joined(
    view: Rankings, rows: _Rows, labels: Labels | LabelColumns, judgments: Judgments | None, missing: MissingRelevance
) -> JudgedRankings:
    """Rows with their labels, and judgments with ids that compare."""
    if isinstance(labels, Labels):
        rows = rows.comparable_with(labels.relation.schema, labels.keys, "groups")
    if judgments is not None:
        rows = rows.comparable_with(judgments.types, KEYS, "relevance")
    coded = labels.coded(replace(view, sql=rows.sql, types=rows.types)).with_items()
    if judgments is None:
        return JudgedRankings(view, coded, rows.types, rows.sql, None, view.dropped)
    judged = _Rows(judgments.sql, judgments.types).comparable_with(rows.types, KEYS, "relevance")
    judgments = replace(judgments, sql=judged.sql, types=judged.types)
    dropped, unjudged = dict(view.dropped), 0
    if missing != "zero":
        unjudged = judgments.count_unjudged(judgments.join(rows.sql, rows.types), missing, "ranked items")
    if unjudged:
        dropped[UNJUDGED] = unjudged
        # with their labels: of items that are no longer listed there are labels too
        labelled = {**rows.types, "label": nw.Int64(), "share": nw.Float64(), "relevance": nw.Float64()}
        rows = _Rows(judgments.join(coded.rows, rows.types), labelled).without_unjudged(view.keys)
        coded = replace(coded, rows=rows.sql)
    return JudgedRankings(view, coded, rows.types, rows.sql, judged.sql, dropped)
