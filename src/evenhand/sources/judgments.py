"""How relevant items are to requests: a table, a mapping, or a column of the rankings, as one relation.

How the pieces fit::

    judgments = open_judgments(relevance, table, request=request, item=item)   # after `table` became Rankings: single=view.single
    judgments.sql                                                              # SELECT request, item, relevance
    rows = judgments.join(view.sql, view.types)                                # rows with `relevance`, NULL where nobody judged
    lost = judgments.count_unjudged(rows, missing, "ranked items")             # refused where the policy is to raise

Where a column of the rankings holds the judgments, the rankings carry it (`carry=carried(relevance, table)`), and `join`
leaves rows as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.sources.engine import Engine
from evenhand.sources.files import has_known_ending
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Relation, Type, comparable, is_number
from evenhand.sources.roles import WHOLE_TABLE, count_groups, item_column, may_repeat, role_problems, with_request
from evenhand.sources.sql import INFINITY, count_where

MissingRelevance = Literal["zero", "drop", "raise"]

KEYS = ("request", "item")


@dataclass(frozen=True)
class Judgments:
    """Checked judgments.

    Attributes
    ----------
    sql : a SELECT of request, item and relevance; one row per judged pair. types : of its columns.
    column : of the rankings that holds them, where one does; `gaps` : rows of the table that say nothing.
    """

    engine: Engine
    sql: str
    types: Mapping[str, Type]
    origin: str
    gaps: int
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
        if self.column is not None and not self.gaps:
            return 0
        query = f"SELECT {count_where('relevance IS NULL')} AS n FROM ({rows}) AS judged"
        count = int(self.engine.cells(query).row()["n"])
        if count and missing == "raise":
            raise EvenhandError(
                f"{count:,} {kind} have no judgment. Add them to relevance, or pass missing_relevance='zero' or 'drop'."
            )
        return count


def open_judgments(
    relevance: Any, table: Relation, *, request: str, item: str, single: bool = False
) -> Judgments | None:
    """Checked judgments from the argument `relevance`; None where there is none.

    `single`: pairs of request and item are known to stand in the rankings once.
    """
    if relevance is None:
        return None
    from evenhand.sources.trec_fair import fair_paths, trec_fair_queries

    if (fair := fair_paths(relevance)) is not None:
        relevance = trec_fair_queries(fair[0])
    if (column := column_of(relevance, table)) is not None:
        return _from_column(table.with_numbers(column), column, request, item, single=single)
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


def _from_column(table: Relation, column: str, request: str, item: str, *, single: bool) -> Judgments:
    """Judgments that stand in the rankings: every distinct judged pair, which must have one relevance."""
    judgments = _judged(table, {"request": request, "item": item}, column, of="the rankings")
    judgments = replace(judgments, origin=f"column {column!r} of the rankings", column=column)
    if single or not _repeated(judgments):
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
    if problems := role_problems(table, [*keys.items(), ("relevance", column)], ("relevance",), of=of):
        raise all_problems(problems)
    chosen = {role: table.label(name) for role, name in keys.items()} | {"relevance": table.number(column)}
    silent = " OR ".join(f"{expression} IS NULL" for expression in chosen.values())
    number = chosen["relevance"]
    flags = {"negative": f"{number} < 0", "infinite": f"{number} = {INFINITY}", "silent": silent}
    facts = table.facts({name: count_where(condition) for name, condition in flags.items()})
    negative, infinite, gaps = (int(facts[name]) for name in flags)
    if negative or infinite:
        raise EvenhandError(
            f"relevance holds {negative:,} negative and {infinite:,} infinite numbers. Pass numbers of zero or more."
        )
    where = f" WHERE NOT ({silent})" if gaps else ""
    types: dict[str, Type] = {role: table.label_type(name) for role, name in keys.items()}
    types["relevance"] = nw.Float64()
    return Judgments(table.engine, table.select(chosen) + where, types, table.origin, gaps)


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
