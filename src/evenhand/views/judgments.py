"""How relevant items are to requests: a table, a mapping, or a column of the rankings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.sources.files import has_known_ending
from evenhand.views.batches import Asked, nothing, once, repeated, summed
from evenhand.views.columns import how_many, label, number
from evenhand.views.tables import Table, is_number, open_table

MissingRelevance = Literal["zero", "drop", "raise"]


@dataclass(frozen=True)
class Judgments:
    """Checked judgments: columns request, item, relevance; one row per judged pair.

    Attributes
    ----------
    column : of the rankings that holds them, where one does; `gaps` : rows of the table that say nothing.
    """

    lazy: nw.LazyFrame[Any]
    origin: str
    gaps: int
    column: str | None = None


class Walked(Protocol):
    """Rows of rankings that were gone through: `sums` of what was asked of them, and whether pairs are known to be `single`."""

    @property
    def sums(self) -> Mapping[str, Any]: ...

    @property
    def single(self) -> bool: ...


def view_judgments(
    relevance: Any, table: Table, *, request: str, item: str, view: Walked | None = None
) -> Judgments | None:
    """What was passed as `relevance`, checked; None when there is none.

    Where a column of the rankings holds it and a `view` of all their rows was `asked` for what there is to know of it, they
    are not gone through again.
    """
    if relevance is None:
        return None
    from evenhand.sources.trec_fair import fair_paths, trec_fair_queries

    if (fair := fair_paths(relevance)) is not None:
        relevance = trec_fair_queries(fair[0])
    names = table.schema.names()
    if (column := held_by(relevance, table)) is not None:
        return _from_column(table, column, request, item, view)
    if isinstance(relevance, str) and not os.path.exists(relevance) and Path(relevance).suffix == "":
        raise EvenhandError(
            f"relevance={relevance!r} is neither a column of the rankings nor a file. {suggestion(relevance, names)}"
            f"Columns: {listing(names)}."
        )
    return _from_table(_opened(relevance), request, item)


def held_by(relevance: Any, table: Table) -> str | None:
    """The column of the rankings that holds the judgments, where one does."""
    return relevance if isinstance(relevance, str) and relevance in table.schema.names() else None


def carried(relevance: Any, table: Table) -> tuple[dict[str, nw.Expr], Asked]:
    """What a view of the rankings must take along and be asked, so that `view_judgments` need not go through them again."""
    column = held_by(relevance, table)
    if column is None or not is_number(table.schema[column]):
        return {}, nothing
    return {"relevance": number(column, table)}, _asked


def _opened(relevance: Any) -> Table:
    if isinstance(relevance, Mapping):
        return _from_mapping(relevance)
    if isinstance(relevance, (str, Path)) and os.path.isfile(relevance) and not has_known_ending(str(relevance)):
        from evenhand.sources.trec import qrels

        return Table(open_table(qrels(relevance)).lazy, "polars", str(relevance))
    return open_table(relevance, role="relevance").numbers("relevance")


def _from_mapping(relevance: Mapping[Any, Any]) -> Table:
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
    return open_table(frame, role="relevance")


def _from_table(table: Table, request: str, item: str) -> Judgments:
    names = table.schema.names()
    keys = {role: own if own in names else role for role, own in (("request", request), ("item", item))}
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
    lazy = table.lazy.select(
        *(label(name, table).alias(role) for role, name in keys.items()),
        number("relevance", table),
    )
    gaps, count, lazy = _judged(lazy)
    refuse_repeated(count)
    return Judgments(lazy, table.origin, gaps)


def _from_column(table: Table, column: str, request: str, item: str, view: Walked | None) -> Judgments:
    """Judgments that stand in the rankings: every distinct judged pair, which must have one relevance."""
    table, names = table.numbers(column), table.schema.names()
    problems = [
        f"{role}={c!r} is not a column of the rankings. {suggestion(c, names)}Columns: {listing(names)}."
        for role, c in (("request", request), ("item", item))
        if c not in names
    ]
    if not is_number(table.schema[column]):
        problems.append(
            f"relevance={column!r} holds {table.schema[column]} values, not numbers. Convert the column first."
        )
    if problems:
        raise all_problems(problems)
    lazy = table.lazy.select(
        *(label(name, table).alias(role) for role, name in (("request", request), ("item", item))),
        number(column, table).alias("relevance"),
    )
    gaps, count, lazy = _judged(lazy, view)
    if count:
        lazy = once(lazy, ["request"])
        refuse_several(repeated(lazy, ["request"])[0])
    return Judgments(lazy, f"column {column!r} of the rankings", gaps, column)


def refuse_repeated(count: int) -> None:
    """Pairs that a table of judgments has in several rows."""
    if count:
        raise EvenhandError(
            f"relevance judges {count:,} pairs of request and item more than once. Keep one judgment for each."
        )


def refuse_several(count: int) -> None:
    """Pairs of which the rankings say two things."""
    if count:
        raise EvenhandError(
            f"relevance gives {count:,} pairs of request and item more than one relevance. Give each pair one."
        )


def _silent(of: Any = nw) -> Any:
    """Rows that say nothing: a missing relevance is no judgment."""
    y = of.col("relevance")
    return y.is_null() | y.is_nan() | of.col("request").is_null() | of.col("item").is_null()


def _asked(of: Any) -> list[Any]:
    """What there is to know of all judgments."""
    y = of.col("relevance")
    finite = of.when(~y.is_nan()).then(y)
    return [
        how_many(finite < 0, of).alias("judged_negative"),
        how_many(finite == float("inf"), of).alias("judged_infinite"),
        how_many(_silent(of), of).alias("judged_silent"),
    ]


def _judged(lazy: nw.LazyFrame[Any], view: Walked | None = None) -> tuple[int, int, nw.LazyFrame[Any]]:
    """How many rows say nothing, how many pairs may have several of the others, and these others.

    Rankings that share a request mostly share its items too: their pairs are not counted before each is taken once.
    """
    count, facts = 0, {} if view is None else dict(view.sums)
    if view is not None and "judged_silent" in facts:
        count = 0 if view.single else facts["rows"]
    else:
        count, _, seen = repeated(lazy, ["request"], "item", _asked)
        facts, lazy = seen.sums, seen.lazy
    refuse_values(facts["judged_negative"], facts["judged_infinite"])
    gaps = int(facts["judged_silent"] or 0)
    lazy = lazy.filter(~_silent()) if gaps else lazy
    return gaps, repeated(lazy, ["request"])[0] if count and gaps and view is None else count, lazy


def refuse_values(negative: Any, infinite: Any) -> None:
    if negative or infinite:
        raise EvenhandError(
            f"relevance holds {int(negative or 0):,} negative and {int(infinite or 0):,} infinite numbers. "
            "Pass numbers of zero or more."
        )


def unjudged(of: Any = nw) -> Any:
    """Rows whose item nobody judged."""
    return of.col("relevance").is_null() | of.col("relevance").is_nan()


def count_unjudged(lazy: nw.LazyFrame[Any], judgments: Judgments, missing: MissingRelevance, kind: str) -> int:
    """How many rows of that kind have no judgment; refused where the policy is to raise."""
    whole = judgments.column is not None and not judgments.gaps
    found = 0 if whole else int(summed(lazy, lambda of: [how_many(unjudged(of), of).alias("n")])["n"] or 0)
    refuse_unjudged(found, missing, kind)
    return found


def refuse_unjudged(found: int, missing: MissingRelevance, kind: str) -> None:
    if found and missing == "raise":
        raise EvenhandError(
            f"{found:,} {kind} have no judgment. Add them to relevance, or pass missing_relevance='zero' or 'drop'."
        )


def unjudged_as_zero(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The rows with relevance 0 where nobody judged."""
    return lazy.with_columns(nw.when(~unjudged()).then(nw.col("relevance")).otherwise(nw.lit(0.0)).alias("relevance"))
