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
from evenhand.sources.sql import INFINITY, count_where

MissingRelevance = Literal["zero", "drop", "raise"]


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
        for key in ("request", "item"):
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
        return _from_column(table, column, request, item, single=single)
    if isinstance(relevance, str) and not os.path.exists(relevance) and Path(relevance).suffix == "":
        raise EvenhandError(
            f"relevance={relevance!r} is neither a column of the rankings nor a file. {suggestion(relevance, table.names)}"
            f"Columns: {listing(table.names)}."
        )
    return _from_table(_opened(relevance, table), request, item)


def column_of(relevance: Any, table: Relation) -> str | None:
    """The column of the rankings that holds the judgments, where one does."""
    return relevance if isinstance(relevance, str) and relevance in table.schema else None


def carried(relevance: Any, table: Relation) -> dict[str, str]:
    """SQL of the columns that rankings must carry for judgments that are columns of theirs."""
    column = column_of(relevance, table)
    return {} if column is None or not is_number(table.schema[column]) else {"relevance": table.number(column)}


def _opened(relevance: Any, table: Relation) -> Relation:
    if isinstance(relevance, Mapping):
        return _from_mapping(relevance, table)
    if isinstance(relevance, (str, Path)) and os.path.isfile(relevance) and not has_known_ending(str(relevance)):
        from evenhand.sources.trec import qrels

        return replace(open_table(qrels(relevance), same_engine_as=table), origin=str(relevance))
    return open_table(relevance, role="relevance", same_engine_as=table).with_numbers("relevance")


def _from_mapping(relevance: Mapping[Any, Any], table: Relation) -> Relation:
    """`{request: {item: relevance}}`."""
    import polars as pl

    if not all(isinstance(judged, Mapping) for judged in relevance.values()):
        raise EvenhandError("relevance is a mapping without mappings inside. Pass {request: {item: relevance}}.")
    rows = [(q, d, y) for q, judged in relevance.items() for d, y in judged.items()]
    try:
        frame = pl.DataFrame(
            {"request": [r[0] for r in rows], "item": [r[1] for r in rows], "relevance": [r[2] for r in rows]},
            schema_overrides={"relevance": pl.Float64} | ({} if rows else {"request": pl.String, "item": pl.String}),
        )
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError(
            "relevance mixes kinds of ids or holds values that are not numbers. Use one type for each."
        ) from error
    return open_table(frame, role="relevance", same_engine_as=table)


def _from_table(table: Relation, request: str, item: str) -> Judgments:
    names = table.names
    keys = {role: column if column in names else role for role, column in (("request", request), ("item", item))}
    lacking = [c for c in [*keys.values(), "relevance"] if c not in names]
    if lacking:
        raise EvenhandError(
            f"relevance lacks the column {listing(map(repr, lacking))}. Columns: {listing(names)}. "
            "Pass a table with a request, an item and a relevance."
        )
    if not is_number(table.schema["relevance"]):
        raise EvenhandError(
            f"relevance holds {table.schema['relevance']} values, not numbers. Convert the column first."
        )
    judgments = _judged(table, keys, "relevance")
    if count := _repeated(judgments):
        raise EvenhandError(
            f"relevance judges {count:,} pairs of request and item more than once. Keep one judgment for each."
        )
    return judgments


def _from_column(table: Relation, column: str, request: str, item: str, *, single: bool) -> Judgments:
    """Judgments that stand in the rankings: every distinct judged pair, which must have one relevance."""
    table = table.with_numbers(column)
    problems = [
        f"{role}={c!r} is not a column of the rankings. {suggestion(c, table.names)}Columns: {listing(table.names)}."
        for role, c in (("request", request), ("item", item))
        if c not in table.schema
    ]
    if not is_number(table.schema[column]):
        problems.append(
            f"relevance={column!r} holds {table.schema[column]} values, not numbers. Convert the column first."
        )
    if problems:
        raise all_problems(problems)
    judgments = _judged(table, {"request": request, "item": item}, column)
    judgments = replace(judgments, origin=f"column {column!r} of the rankings", column=column)
    if single or not _repeated(judgments):
        return judgments
    judgments = replace(judgments, sql=f"SELECT DISTINCT request, item, relevance FROM ({judgments.sql}) AS judged")
    if count := _repeated(judgments):
        raise EvenhandError(
            f"relevance gives {count:,} pairs of request and item more than one relevance. Give each pair one."
        )
    return judgments


def _judged(table: Relation, keys: Mapping[str, str], column: str) -> Judgments:
    """The rows that say something, with their values checked."""
    chosen = {role: table.label(name) for role, name in keys.items()} | {"relevance": table.number(column)}
    silent = " OR ".join(f"{expression} IS NULL" for expression in chosen.values())
    number = chosen["relevance"]
    facts = table.facts(
        {
            "negative": count_where(f"{number} < 0"),
            "infinite": count_where(f"{number} = {INFINITY}"),
            "silent": count_where(silent),
        }
    )
    if facts["negative"] or facts["infinite"]:
        raise EvenhandError(
            f"relevance holds {int(facts['negative']):,} negative and {int(facts['infinite']):,} infinite numbers. "
            "Pass numbers of zero or more."
        )
    gaps = int(facts["silent"])
    where = f" WHERE NOT ({silent})" if gaps else ""
    types: dict[str, Type] = {role: table.label_type(name) for role, name in keys.items()}
    types["relevance"] = nw.Float64()
    return Judgments(table.engine, table.select(chosen) + where, types, table.origin, gaps)


def _repeated(judgments: Judgments) -> int:
    """How many pairs of request and item have several rows."""
    rows = f"({judgments.sql}) AS judged"
    counts = judgments.engine.cells(f"SELECT COUNT(*) AS n, COUNT(DISTINCT hash(request, item)) AS pairs FROM {rows}")
    if counts.row()["n"] == counts.row()["pairs"]:
        return 0
    repeated = f"SELECT request, item FROM {rows} GROUP BY request, item HAVING COUNT(*) > 1"
    return int(judgments.engine.cells(f"SELECT COUNT(*) AS n FROM ({repeated}) AS repeated").row()["n"])
