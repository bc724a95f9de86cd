"""Who stands where: a table of rankings (or of scores), checked before anything is measured, as one SELECT with known names.

One row per ranked item. A ranking is what shares its slice, system, request and sample; `rank` (1 is best) or `score`
(highest first) orders it.

How the pieces fit::

    table = ranking_table(as_table(rankings), columns=[...])   # a Relation: any table, TREC runs, mappings, lists of LensKit
    view = open_rankings(table, request="query", by=["device"], carry={"relevance": table.number("rel")})
    view.sql                                             # SELECT by_0, system, request, sample, item, place, score, ...
    view.source                                          # the same in brackets, to stand after FROM
    view.types, view.keys, view.slices                   # types of these columns; which name one ranking; which name its slice
    view.engine.cells(f"SELECT request, ... FROM {view.source} GROUP BY request")
    view.engine.tallied(f"SELECT ... FROM {view.source}", view.keys, ["place"], partial)   # whole rankings, best first

`place` is a whole number from 1, no two alike in a ranking; ranks that stand empty stay empty. Columns of roles that were not
named are absent. `open_scores` gives the same for items that a model scored, where ties are fine and there is no `place`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import narwhals as nw

from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.sources.engine import Engine
from evenhand.sources.files import has_known_ending
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Relation, Type, fits_int64
from evenhand.sources.roles import role_problems, slice_problems
from evenhand.sources.sql import INFINITY, columns, count_where, select

NUMBERS = ("rank", "score", "probability", "weight")
"""Roles that are played by numbers; the others are labels and ids."""

Ties = Literal["raise", "input_order"]

DEEPEST = 1_000
"""Empty ranks that a ranking may have beside as many as it has items: a rank further down is no rank."""


@dataclass(frozen=True)
class Rankings:
    """Checked rankings, or scores.

    Attributes
    ----------
    engine : where its queries run.
    sql : a SELECT of by_0.., system, request, sample, item, place, score, probability, weight, whichever roles were named,
        and of what the caller asked to carry along; `types` says what they hold.
    backend : the dataframe library in which results are handed out. origin : a few words on where the table came from.
    by : the slice columns as the user calls them; `slices` are ours.
    keys : our names of the columns that name one ranking.
    rows, rankings : how many there are.
    gaps : rankings in which some rank is empty. An empty rank counts as an unknown item: the others keep theirs.
    ties : rows that shared their score (or rank) with another of the same ranking.
    ordered_by : "rank" or "score".
    dropped : rows left out, and why.
    single : whether every request is known to have one ranking.
    """

    engine: Engine
    sql: str
    types: Mapping[str, Type]
    backend: str
    origin: str
    by: tuple[str, ...]
    keys: tuple[str, ...]
    rows: int
    rankings: int = 0
    gaps: int = 0
    ties: int = 0
    ordered_by: str = "score"
    dropped: Mapping[str, int] = field(default_factory=dict)
    single: bool = False

    @property
    def source(self) -> str:
        """The rankings as they stand after FROM."""
        return f"({self.sql}) AS rankings"

    @property
    def slices(self) -> tuple[str, ...]:
        """Our names of the slice columns, system last."""
        return tuple(k for k in self.keys if k == "system" or k.startswith("by_"))

    @property
    def slice_names(self) -> tuple[str, ...]:
        """The user's names of the slice columns; the system is always called system."""
        return (*self.by, *(k for k in self.keys if k == "system"))

    def counts(self) -> dict[str, Any]:
        """Counts of rankings, empty ranks and ties, for the provenance of a result."""
        return {"rankings": self.rankings, "rankings_with_empty_ranks": self.gaps, "tied_rows": self.ties}


@dataclass(frozen=True)
class Roles:
    """Which column plays which part, in the user's words."""

    request: str
    item: str | None
    rank: str | None
    score: str | None
    by: tuple[str, ...] = ()
    system: str | None = None
    sample: str | None = None
    probability: str | None = None
    weight: str | None = None

    def named(self) -> list[tuple[str, str]]:
        """(role, column) of every role in use."""
        names = ("system", "request", "sample", "item", "rank", "score", "probability", "weight")
        pairs = [(role, getattr(self, role)) for role in names]
        return [("by", b) for b in self.by] + [(role, column) for role, column in pairs if column is not None]

    @property
    def keys(self) -> tuple[str, ...]:
        """Our names of the columns that name one ranking."""
        more = [role for role in ("system", "request", "sample") if getattr(self, role) is not None]
        return (*(f"by_{i}" for i in range(len(self.by))), *more)

    @property
    def order(self) -> str:
        """The role that orders: rank where there is one, else score."""
        return "rank" if self.rank is not None else "score"

    def words(self, role: str) -> str:
        """A role as it was typed."""
        return f"{role}={getattr(self, role)!r}"

    def expressions(self, table: Relation) -> tuple[dict[str, str], dict[str, Type]]:
        """SQL and types of our columns; a rank is `place`, whole where its column is."""
        chosen = {f"by_{i}": table.label(b) for i, b in enumerate(self.by)}
        types: dict[str, Type] = {f"by_{i}": table.label_type(b) for i, b in enumerate(self.by)}
        for role, column in self.named():
            if role == "rank":
                is_whole = fits_int64(table.schema[column])
                chosen["place"] = table.number(column, "BIGINT" if is_whole else "DOUBLE")
                types["place"] = nw.Int64() if is_whole else nw.Float64()
            elif role in NUMBERS:
                chosen[role], types[role] = table.number(column), nw.Float64()
            elif role != "by":
                chosen[role], types[role] = table.label(column), table.label_type(column)
        return chosen, types


def ranking_table(rankings: Any, *, columns: Sequence[Any] | None = None) -> Relation:
    """A relation from a table of rankings, TREC runs, or runs of the TREC Fair track."""
    from evenhand.sources.trec_fair import fair_paths, trec_fair_run

    if (fair := fair_paths(rankings)) is not None:
        return open_table(trec_fair_run(fair), role="rankings")
    if not are_runs(rankings):
        named = None if columns is None else [*columns, "tied", "score", "system"]  # what readers of runs write
        return open_table(rankings, role="rankings", columns=named)
    from evenhand.sources.trec import trec_runs

    opened = open_table(trec_runs(rankings), role="rankings")
    return replace(opened, origin=listing([rankings] if isinstance(rankings, (str, Path)) else rankings))


def are_runs(table: Any) -> bool:
    """Whether what was passed are TREC runs: paths whose ending is none of a table's."""
    paths = [table] if isinstance(table, (str, Path)) else table
    listed = isinstance(paths, (list, tuple)) and bool(paths) and all(isinstance(p, (str, Path)) for p in paths)
    return listed and not any(has_known_ending(str(p)) or os.path.isdir(p) for p in paths)


def system_of(rankings: Any, table: Relation) -> str | None:
    """The column that tells systems apart where nobody named one: that of several TREC runs."""
    several = are_runs(rankings) and int(table.facts({"n": f"COUNT(DISTINCT {table.column('system')})"})["n"]) > 1
    return "system" if several else None


def as_table(rankings: Any, *, request: str = "request", item: str = "item") -> Any:
    """Mappings and LensKit collections as frames; everything else as it is."""
    from evenhand.sources.item_lists import are_item_lists, table_of

    if isinstance(rankings, Mapping):
        return _from_mapping(rankings)
    if are_item_lists(rankings):
        return table_of(rankings, request=request, item=item, role="rankings")
    return rankings


def _from_mapping(rankings: Mapping[Any, Any]) -> Any:
    """`{request: {item: score}}` ordered by score, or `{request: [item, ...]}` in rank order, as a frame."""
    import numpy as np
    import polars as pl

    are_scores = all(isinstance(items, Mapping) for items in rankings.values())
    are_lists = all(isinstance(items, (list, tuple)) for items in rankings.values())
    if not are_scores and not are_lists:
        raise EvenhandError(
            "rankings is a mapping that cannot be read. Pass {request: {item: score}} or {request: [item, ...]}."
        )
    if are_scores and not all(
        isinstance(s, (int, float, np.number)) for items in rankings.values() for s in items.values()
    ):
        raise EvenhandError("rankings maps items to what is no score. Pass {request: {item: score}}, with numbers.")
    rows = [(q, d, place, s) for q, items in rankings.items() for place, d, s in _placed(items)]
    listed = {"request": [r[0] for r in rows], "item": [r[1] for r in rows], "rank": [r[2] for r in rows]}
    empty = {} if rows else {"request": pl.String, "item": pl.String, "rank": pl.Int64}
    try:
        frame = pl.DataFrame(listed, schema_overrides=empty)
        return frame.with_columns(pl.Series("score", [r[3] for r in rows], dtype=pl.Float64)) if are_scores else frame
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError("rankings mixes kinds of requests or items. Use one type of id for each.") from error


def _placed(items: Any) -> list[tuple[int, Any, float]]:
    if not isinstance(items, Mapping):
        return [(place, d, 0.0) for place, d in enumerate(items, 1)]
    ordered = sorted(items.items(), key=lambda pair: (-pair[1], str(pair[0])))
    return [(place, d, float(s)) for place, (d, s) in enumerate(ordered, 1)]


def open_rankings(
    table: Relation,
    *,
    request: str = "request",
    item: str | None = "item",
    rank: str | None = "rank",
    score: str | None = None,
    by: Sequence[str] = (),
    system: str | None = None,
    sample: str | None = None,
    probability: str | None = None,
    weight: str | None = None,
    ties: Ties = "raise",
    nan_policy: Literal["raise", "omit"] = "raise",
    carry: Mapping[str, str] | None = None,
    where: str = "",
) -> Rankings:
    """Rankings whose roles and values were checked, all problems at once.

    Parameters
    ----------
    rank, score : `rank` orders; where the table has no such column, `score` does.
    item : None where items are not looked at.
    carry : SQL over the table of further columns to keep, by their name in the result.
    where : SQL condition over the table that rows must meet to be looked at.
    """
    table = table.with_numbers(rank, score, probability, weight)
    if ties not in ("raise", "input_order"):
        raise EvenhandError(f"ties={ties!r} is unknown. Use 'raise' or 'input_order'.")
    if nan_policy not in ("raise", "omit"):
        raise EvenhandError(f"nan_policy={nan_policy!r} does not fit rankings. Use 'raise' or 'omit'.")
    if rank is not None and score is not None and rank not in table.names:
        rank = None
    roles = Roles(request, item, rank, score, tuple(by), system, sample, probability, weight)
    _refuse_bad_names(table, roles)
    chosen, types = roles.expressions(table)
    chosen |= carry or {}
    conditions = [f"({where})"] if where else []
    rows, dropped = _check_values(table, roles, chosen, types, nan_policy, where)
    conditions += [f"{chosen['place' if role == 'rank' else role]} IS NOT NULL" for role in dropped]
    meeting = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    query = table.select(chosen) + meeting
    facts = _check_rankings(table.engine, query, roles, ties)
    if facts["tied"]:
        query, tied = _by_input_order(table, roles, chosen, meeting)
    elif roles.rank is None:
        place = f"ROW_NUMBER() OVER (PARTITION BY {columns(roles.keys)} ORDER BY score DESC)"
        query, tied = f"SELECT ranked.*, {place} AS place FROM ({query}) AS ranked", 0
    else:
        query, tied = table.select(chosen | {"place": f"CAST({chosen['place']} AS BIGINT)"}) + meeting, 0
    return Rankings(
        table.engine, query, types | {"place": nw.Int64()}, table.backend, table.origin, roles.by, roles.keys, rows,
        facts["rankings"], facts["gaps"], tied + _ties_of_run(table, roles), roles.order,
        {f"{getattr(roles, role)} is missing": count for role, count in dropped.items()}, facts["requests"] == facts["rankings"],
    )  # fmt: skip


def _refuse_bad_names(table: Relation, roles: Roles) -> None:
    problems = role_problems(table, roles.named(), NUMBERS)
    if roles.rank is not None and roles.rank not in table.names:
        problems.append("To order by score instead, pass score= with its column.")
    problems += name_problems(roles)
    if problems:
        raise all_problems(problems, where="The call")


def name_problems(roles: Roles) -> list[str]:
    """Problems with the named columns alone, whatever the table holds."""
    none = roles.rank is None and roles.score is None
    problems = ["Neither rank nor score orders the rankings. Name the column of one of them."] if none else []
    return problems + slice_problems(roles.by, {"system"})


def _check_values(
    table: Relation, roles: Roles, chosen: Mapping[str, str], types: Mapping[str, Type], nan_policy: str, where: str
) -> tuple[int, dict[str, int]]:
    """The number of rows, and how many miss which role where they are left out; bad values are refused."""
    present = [role for role, _ in roles.named() if role != "by"]
    aggregates = {"rows": "COUNT(*)"}
    for role in present:
        column = chosen["place" if role == "rank" else role]
        aggregates[f"missing_{role}"] = count_where(f"{column} IS NULL")
        if role in NUMBERS:
            aggregates |= {f"low_{role}": f"MIN({column})", f"high_{role}": f"MAX({column})"}
    if "rank" in present and types["place"] == nw.Float64:
        aggregates["broken_rank"] = count_where(f"{chosen['place']} <> ROUND({chosen['place']})")
    query = table.select(aggregates) + (f" WHERE {where}" if where else "")
    facts = {name: value or 0 for name, value in table.engine.cells(query).row().items()}
    rows = int(facts["rows"])
    missing = {role: int(facts[f"missing_{role}"]) for role in present if facts[f"missing_{role}"]}
    problems = missing_words(missing, roles, rows) if nan_policy == "raise" else []
    problems += bad_numbers(facts, roles) if rows else []
    if problems:
        raise all_problems(problems, where="The table of rankings")
    return rows, missing


def missing_words(missing: Mapping[str, int], roles: Roles, rows: int) -> list[str]:
    """That some rows lack a role."""
    return [
        f"{roles.words(role)} is missing in {count:,} of {rows:,} rows. Fill it, remove those rows, or pass nan_policy='omit'."
        for role, count in missing.items()
    ]


def bad_numbers(facts: Mapping[str, Any], roles: Roles) -> list[str]:
    """Ranks that are none, and numbers that are infinite or negative."""
    problems = []
    if roles.rank is not None and facts["low_rank"] < 1:
        remedy = "Add 1 to it" if facts["low_rank"] == 0 else "Pass ranks counted from 1"
        problems.append(f"{roles.words('rank')} goes down to {facts['low_rank']:g}, but 1 is the best rank. {remedy}.")
    if facts.get("broken_rank"):
        problems.append(
            f"{roles.words('rank')} is no whole number in {int(facts['broken_rank']):,} rows. Pass whole ranks, or score=."
        )
    for role in ("score", "probability", "weight"):
        if getattr(roles, role) is None:
            continue
        low, high = facts[f"low_{role}"], facts[f"high_{role}"]
        if math.isinf(low) or math.isinf(high):
            problems.append(f"{roles.words(role)} is infinite in some rows. Pass finite numbers.")
        elif role != "score" and low < 0:
            problems.append(f"{roles.words(role)} is negative in some rows. Pass numbers of zero or more.")
    return problems


def _check_rankings(engine: Engine, query: str, roles: Roles, ties: Ties) -> dict[str, int]:
    """How many rankings there are, and how many are tied or have empty ranks; ties, items listed twice and ranks that are none
    are refused.

    Hashes tell whether anything stands in a ranking twice. Only where two are alike are the values of each ranking counted.
    """
    order = "place" if roles.rank is not None else "score"
    sought = {"tied": order} | ({} if roles.item is None else {"twice": "item"})
    pairs = {name: f"COUNT(DISTINCT hash({columns([*roles.keys, column])}))" for name, column in sought.items()}
    counts = engine.cells(f"SELECT {select({'n': 'COUNT(*)', **pairs})} FROM ({query}) AS ranked").row()
    per = {"n": "COUNT(*)", "best": f"MIN({order})", "deepest": f"MAX({order})"}
    if len(roles.keys) > 1:
        per["request"] = "request"
    odd = {}
    for name, column in sought.items():
        if counts[name] != counts["n"]:
            per[f"different_{name}"] = f"COUNT(DISTINCT {column})"
            odd[name] = f"n <> different_{name}"
    if roles.rank is not None:
        untied = f"NOT ({odd['tied']}) AND " if "tied" in odd else ""
        odd |= {"gaps": f"{untied}deepest <> n", "late": "best > 1", "deep": f"deepest > 2 * n + {DEEPEST}"}
    aggregates = {"rankings": "COUNT(*)", **{name: count_where(condition) for name, condition in odd.items()}}
    if len(roles.keys) > 1:
        aggregates["requests"] = "COUNT(DISTINCT request)"
    per_ranking = f"SELECT {select(per)} FROM ({query}) AS ranked GROUP BY {columns(roles.keys)}"
    facts = dict.fromkeys(("tied", "twice", "gaps", "late", "deep"), 0)
    cells = engine.cells(f"SELECT {select(aggregates)} FROM ({per_ranking}) AS per_ranking").row()
    facts |= {name: int(value or 0) for name, value in cells.items()}
    facts.setdefault("requests", facts["rankings"])
    if problems := _bad_rankings(engine, query, roles, facts, ties):
        raise all_problems(problems, where="The table of rankings")
    return facts


def _bad_rankings(engine: Engine, query: str, roles: Roles, facts: Mapping[str, int], ties: Ties) -> list[str]:
    problems, rankings = [], f"{facts['rankings']:,} rankings"
    if facts["twice"]:
        problems.append(
            f"{facts['twice']:,} of {rankings} list an item twice (first: {_first_double(engine, query, roles, 'item')}). "
            "Keep one row per item, or name what tells the lists apart with by= or system=."
        )
    if facts["tied"] and ties == "raise":
        problems.append(
            f"{roles.words(roles.order)} has ties in {facts['tied']:,} of {rankings} "
            f"(first: {_first_double(engine, query, roles, roles.order)}). Pass ties='input_order', or break them before calling."
        )
    if facts["late"] > 1 and 2 * facts["late"] > facts["rankings"]:
        problems.append(
            f"{roles.words('rank')} does not start at 1 in {facts['late']:,} of {rankings}. "
            "Count ranks from 1 within each request, or order by score."
        )
    elif facts["deep"]:
        problems.append(
            f"{roles.words('rank')} goes far beyond the number of items in {facts['deep']:,} of {rankings}. "
            "Count ranks from 1 within each request, or order by score."
        )
    return problems


def _first_double(engine: Engine, query: str, roles: Roles, role: str) -> str:
    """The first value that stands in a ranking twice, in words."""
    _, first = repeated(engine, query, roles.keys, "place" if role == "rank" else role)
    return f"request {first['request']!r}, {role} {first['place' if role == 'rank' else role]!r}"


def repeated(engine: Engine, query: str, keys: Sequence[str], column: str) -> tuple[int, dict[str, Any]]:
    """How many values of a column stand in a ranking several times, and the first of them with its ranking."""
    names = columns([*keys, column])
    several = f"SELECT {names} FROM ({query}) AS ranked GROUP BY {names} HAVING COUNT(*) > 1"
    count = int(engine.cells(f"SELECT COUNT(*) AS n FROM ({several}) AS repeated").row()["n"])
    if not count:
        return 0, {}
    order = ", ".join(f"{columns([name])} NULLS FIRST" for name in (*keys, column))
    return count, engine.cells(f"SELECT {names} FROM ({several}) AS repeated ORDER BY {order} LIMIT 1").row()


def _by_input_order(table: Relation, roles: Roles, chosen: Mapping[str, str], meeting: str) -> tuple[str, int]:
    """A query for the rankings in which the order of rows settles ties, and how many rows were tied.

    Rankings without ties keep their empty ranks.
    """
    if not table.engine.has_row_order:
        raise EvenhandError("ties='input_order' needs a table whose rows have an order. Break ties before calling.")
    keys = columns(roles.keys)
    order, falling = ("place", "") if roles.rank is not None else ("score", " DESC")
    numbered = table.select({**chosen, "row_of_table": "ROW_NUMBER() OVER ()"}) + meeting
    marked = (
        f"SELECT numbered.*, COUNT(*) OVER (PARTITION BY {keys}, {order}) AS tied_rows FROM ({numbered}) AS numbered"
    )
    place = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}{falling}, row_of_table)"
    if roles.rank is not None:
        place = f"CASE WHEN MAX(tied_rows) OVER (PARTITION BY {keys}) > 1 THEN {place} ELSE CAST(place AS BIGINT) END"
    others = columns([name for name in chosen if name != "place"])
    rows = table.engine.keep(f"SELECT {others}, {place} AS place, tied_rows FROM ({marked}) AS marked")
    tied = table.engine.cells(f"SELECT {count_where('tied_rows > 1')} AS n FROM {rows}").row()["n"]
    return f"SELECT {others}, place FROM {rows}", int(tied)


def _ties_of_run(table: Relation, roles: Roles) -> int:
    """Rows of a TREC run that shared their score: the reader settled them by document id and marked them."""
    is_run = roles.rank == "rank" and table.schema.get("tied") == nw.Boolean and "score" in table.schema
    return int(table.facts({"n": count_where(table.column("tied"))})["n"]) if is_run else 0


def open_scores(
    table: Relation,
    *,
    request: str,
    item: str,
    score: str,
    by: Sequence[str] = (),
    system: str | None = None,
    ranked: bool = False,
    nan_policy: Literal["raise", "omit"] = "raise",
    carry: Mapping[str, str] | None = None,
) -> Rankings:
    """Checked scores of a model: one row per request and item; ties are allowed.

    `ranked`: the column holds ranks, 1 is best; their negatives are the scores.
    """
    if nan_policy not in ("raise", "omit"):
        raise EvenhandError(f"nan_policy={nan_policy!r} does not fit scores. Use 'raise' or 'omit'.")
    table = table.with_numbers(score)
    ordering = "rank" if ranked else "score"
    named = [("request", request), ("item", item), (ordering, score), *([("system", system)] if system else [])]
    by = tuple(by)
    problems = role_problems(table, [*named, *(("by", b) for b in by)], ("score", "rank"))
    problems += slice_problems(by, {"system"})
    if problems:
        raise all_problems(problems, where="The call")
    chosen = {f"by_{i}": table.label(b) for i, b in enumerate(by)}
    types: dict[str, Type] = {f"by_{i}": table.label_type(b) for i, b in enumerate(by)}
    for role, column in named:
        if role != ordering:
            chosen[role], types[role] = table.label(column), table.label_type(column)
    chosen["score"], types["score"] = f"{'-' * ranked}({table.number(score)})", nw.Float64()
    chosen |= carry or {}
    rows, missing = _check_scores(table, named, chosen, ordering, nan_policy)
    query = table.select(chosen) + (f" WHERE {chosen['score']} IS NOT NULL" if missing else "")
    keys = (*(f"by_{i}" for i in range(len(by))), *(["system"] if system else []), "request")
    pairs = f"COUNT(DISTINCT hash({columns([*keys, 'item'])}))"
    counts = table.engine.cells(f"SELECT COUNT(*) AS n, {pairs} AS pairs FROM ({query}) AS scored").row()
    count, first = repeated(table.engine, query, keys, "item") if counts["pairs"] != counts["n"] else (0, {})
    if count:
        raise EvenhandError(
            f"{count:,} items are scored twice for the same request (first: request {first['request']!r}, item "
            f"{first['item']!r}). Keep one row for each, or name what tells them apart with by= or system=."
        )
    return Rankings(
        table.engine, query, types, table.backend, table.origin, by, keys, rows, ordered_by=ordering,
        dropped={f"{score} is missing": missing} if missing else {}, single=keys == ("request",),
    )  # fmt: skip


def _check_scores(
    table: Relation, named: Sequence[tuple[str, str]], chosen: Mapping[str, str], ordering: str, nan_policy: str
) -> tuple[int, int]:
    """The number of rows and of missing scores; missing ids and infinite scores are refused."""
    score, words = chosen["score"], next(f"{role}={column!r}" for role, column in named if role == ordering)
    ids = [(role, column) for role, column in named if role != ordering]
    aggregates = {
        "rows": "COUNT(*)",
        "missing": count_where(f"{score} IS NULL"),
        "infinite": count_where(f"ABS({score}) = {INFINITY}"),
        **{f"missing_{role}": count_where(f"{chosen[role]} IS NULL") for role, _ in ids},
    }
    facts = {name: int(value) for name, value in table.facts(aggregates).items()}
    problems = [
        f"{role}={column!r} is missing in {facts[f'missing_{role}']:,} of {facts['rows']:,} rows. Fill it, or remove those rows."
        for role, column in ids
        if facts[f"missing_{role}"]
    ]
    if facts["infinite"]:
        problems.append(f"{words} is infinite in some rows. Pass finite numbers.")
    if facts["missing"] and nan_policy == "raise":
        problems.append(
            f"{words} is missing in {facts['missing']:,} of {facts['rows']:,} rows. Remove those rows, or pass nan_policy='omit'."
        )
    if problems:
        raise all_problems(problems, where="The table of scores")
    return facts["rows"], facts["missing"]
