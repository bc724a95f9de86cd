"""Who stands where: a table of rankings (or of scores), checked before anything is measured, as one SELECT with known names.

One row per ranked item. A ranking is what shares its slice, system, request and sample; `rank` (1 is best) or `score`
(highest first) orders it.

How the pieces fit::

    table = ranking_table(rankings, columns=[...])       # a Relation: any table, TREC runs, mappings, lists of LensKit
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import narwhals as nw

from evenhand.errors import EvenhandError, listing, refuse_problems
from evenhand.sources.engine import DuckDBEngine, Engine
from evenhand.sources.files import has_known_ending
from evenhand.sources.inputs import FAIR, current, paths_after
from evenhand.sources.opening import open_table
from evenhand.sources.relation import (
    ITEM_NAMES,
    Relation,
    Slicing,
    Type,
    counted_rows,
    fits_int64,
    in_periods,
    may_repeat,
    role_problems,
    slice_problems,
    with_request,
)
from evenhand.sources.sql import columns, count_where, quoted, select, text

NUMBERS = ("rank", "score", "probability", "weight")
"""Roles that are played by numbers; the others are labels and ids."""

Ties = Literal["raise", "input_order"]
Duplicates = Literal["raise", "first"]

REPEATED = "item is listed higher up in the same ranking"
"""Why rows are left out under `duplicates="first"`."""

MOST_EMPTY_RANKS = 1_000
"""Empty ranks that a ranking may have beyond as many as it has items: a rank further down is a mistake."""


@dataclass(frozen=True)
class Rankings:
    """Checked rankings, or scores.

    Attributes
    ----------
    engine : where its queries run.
    sql : a SELECT of by_0.., system, request, sample, item, place, score, probability, weight, whichever roles were named,
        and of what the caller asked to carry along; `types` says what they hold.
    backend : the dataframe library in which results are handed out.
    by : the slice columns as the user calls them; `slices` are ours.
    keys : our names of the columns that name one ranking; `heads` : these, and the cluster where there is one.
    rows, rankings : how many there are.
    gaps : rankings in which some rank is empty. An empty rank counts as an unknown item: the others keep theirs.
    ties : rows that shared their score (or rank) with another of the same ranking.
    ordered_by : "rank" or "score".
    dropped : rows left out, and why.
    """

    engine: Engine
    sql: str
    types: Mapping[str, Type]
    backend: str
    by: tuple[str, ...]
    keys: tuple[str, ...]
    rows: int
    rankings: int = 0
    gaps: int = 0
    ties: int = 0
    ordered_by: str = "score"
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The rankings as they stand after FROM."""
        return f"({self.sql}) AS rankings"

    @property
    def heads(self) -> tuple[str, ...]:
        return (*self.keys, "cluster") if "cluster" in self.types else self.keys

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


def ranking_table(
    rankings: Any,
    *,
    columns: Sequence[Any] | None = None,
    request: str | None = "request",
    item: str = "item",
    duplicates: Duplicates = "raise",
) -> Relation:
    """A relation from whatever holds rankings.

    That is a table (a row per item, or lists of items), TREC runs, runs of the TREC Fair track, `{request: {item: score}}`,
    `{request: [item, ...]}`, or lists of LensKit.
    """
    if isinstance(rankings, Mapping):
        if {request, item} <= rankings.keys():
            raise EvenhandError(
                "rankings is a mapping of columns. Make a dataframe of it, such as pl.DataFrame(rankings)."
            )
        rankings = _from_mapping(rankings)
    elif are_item_lists(rankings):
        rankings = _table_of_lists(rankings, request=request or "request", item=item, role="rankings")
    if (fair := paths_after(FAIR, rankings)) is not None:
        from evenhand.sources.trec import trec_fair_run

        return open_table(trec_fair_run(fair), role="rankings")
    if are_runs(rankings):
        from evenhand.sources.trec import trec_runs

        opened = open_table(trec_runs(rankings, duplicates=duplicates), role="rankings")
        return replace(opened, origin=listing([rankings] if isinstance(rankings, (str, Path)) else rankings))
    named = None if columns is None else [*columns, "tied", "score", "system"]  # what readers of runs write
    opened = open_table(rankings, role="rankings", columns=named)
    columns = list(opened.schema) if columns is None else columns
    if lists := lists_with(opened, columns):
        opened = open_table(rankings, role="rankings", columns=[*columns, *lists])
    return unnested(opened, columns, item)


def sliced_table(
    rankings: Any, by: Slicing, *, columns: Sequence[Any], request: str | None, item: str, system: str | None, duplicates: Duplicates
) -> tuple[Relation, str, str | None]:  # fmt: skip
    """The table of rankings with its periods, its column of requests, and its column of systems if it has one."""
    table = ranking_table(
        rankings,
        columns=[*columns, *by.columns, request, item, system],
        request=request,
        item=item,
        duplicates=duplicates,
    )
    table, request = with_request(in_periods(table, by.periods), request)
    if system is None and are_runs(rankings):  # nobody named the column that tells several TREC runs apart
        several = int(table.facts({"n": f"COUNT(DISTINCT {table.column('system')})"})["n"]) > 1
        system = "system" if several else None
    return table, request, system


def are_runs(table: Any) -> bool:
    """Whether what was passed are TREC runs: paths whose ending is none of a table's."""
    paths = [table] if isinstance(table, (str, Path)) else table
    listed = isinstance(paths, (list, tuple)) and bool(paths) and all(isinstance(p, (str, Path)) for p in paths)
    return listed and not any(has_known_ending(str(p)) or os.path.isdir(p) for p in paths)


def are_item_lists(thing: Any) -> bool:
    """Whether this is an ItemListCollection of LensKit, which is not imported to find out."""
    made_by = [k for k in type(thing).__mro__ if k.__module__.split(".")[0] == "lenskit"]
    return any(k.__name__ == "ItemListCollection" for k in made_by)


def _table_of_lists(lists: Any, *, request: str, item: str, role: str) -> Any:
    """Lists of LensKit, a row per item: the request, the item, rank and score where the lists have them, further keys.

    A rank is there where a list is ordered, and is not the place of the row: LensKit keeps lists in any order.
    """
    keys = list(lists.key_fields)
    if not any(len(items) for items in lists.lists()):
        import polars as pl

        return pl.DataFrame(schema={request: pl.String, item: pl.String, "rank": pl.Int64, "score": pl.Float64})
    frame = nw.from_native(lists.to_df(), eager_only=True)
    names = {} if item in frame.columns else {"item_id": item}
    if request not in frame.columns:
        users = ("request", "user_id", "query_id")  # keys that name who asked, where a collection has several
        asking = [k for k in users if k in keys] or (keys if len(keys) == 1 else [])
        if not asking:
            raise EvenhandError(
                f"{role} is keyed by {listing(keys)}, none of which is known to be the request. Pass request= with one of them."
            )
        names[asking[0]] = request
    return frame.rename(names).to_native()


def judged_by(lists: Any, *, request: str, item: str) -> Any:
    """Test data as judgments: every item of a test list is relevant, with relevance 1."""
    frame = nw.from_native(_table_of_lists(lists, request=request, item=item, role="relevance"), eager_only=True)
    return frame.select(request, item, nw.lit(1.0).alias("relevance")).to_native()


def _from_mapping(rankings: Mapping[Any, Any]) -> Any:
    """`{request: {item: score}}`, ordered by score and then by id, or `{request: [item, ...]}` as a frame."""
    import numpy as np
    import polars as pl

    rows: list[tuple[Any, Any, int, float | None]] = []
    for request, items in rankings.items():
        if isinstance(items, (list, tuple)):
            rows += [(request, item, place, None) for place, item in enumerate(items, 1)]
            continue
        is_scored = isinstance(items, Mapping) and all(isinstance(s, (int, float, np.number)) for s in items.values())
        if not is_scored:
            raise EvenhandError(
                "rankings is a mapping that cannot be read. Pass {request: {item: score}} or {request: [item, ...]}."
            )
        scored = sorted(items.items(), key=lambda pair: (-pair[1], str(pair[0])))
        rows += [(request, item, place, float(score)) for place, (item, score) in enumerate(scored, 1)]
    kinds = {"rank": pl.Int64, "score": pl.Float64} | ({} if rows else {"request": pl.String, "item": pl.String})
    columns = zip(*rows, strict=True) if rows else ((),) * 4
    try:
        frame = pl.DataFrame(
            dict(zip(("request", "item", "rank", "score"), columns, strict=True)), schema_overrides=kinds
        )
        return frame.drop("score") if frame["score"].null_count() == len(frame) else frame
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError("rankings mixes kinds of requests or items. Use one type of id for each.") from error


def open_rankings(
    table: Relation, *, request: str = "request", item: str | None = "item", rank: str | None = "rank",
    score: str | None = None, by: Sequence[str] = (), system: str | None = None, sample: str | None = None,
    probability: str | None = None, weight: str | None = None, cluster: str | None = None, ties: Ties = "raise",
    duplicates: Duplicates = "raise", nan_policy: Literal["raise", "omit"] = "raise",
    carry: Mapping[str, str] | None = None, where: str = "",
) -> Rankings:  # fmt: skip
    """Rankings whose roles and values were checked, all problems at once.

    Parameters
    ----------
    rank, score : `rank` orders; where the table has no such column, `score` does.
    item : None where items are not looked at.
    cluster : what requests share (user, topic): every request is in one.
    duplicates : `"first"` keeps the best row of an item that a ranking lists several times; stated ranks stay.
    carry : SQL over the table of further columns to keep, by their name in the result.
    where : SQL condition over the table that rows must meet to be looked at.
    """
    if ties not in ("raise", "input_order"):
        raise EvenhandError(f"ties={ties!r} is unknown. Use 'raise' or 'input_order'.")
    if rank is not None and score is not None and rank not in table.names:
        rank = None
    named = {"system": system, "request": request, "sample": sample, "item": item, "cluster": cluster}
    numbers = {"rank": rank, "score": score, "probability": probability, "weight": weight}
    checked = _Checked.from_table(table, "rankings", by, named | numbers, nan_policy, carry, where)
    if duplicates == "first":
        checked = checked.without_repeats()
    facts = _check_rankings(checked, ties)
    tied = _ties_of_run(table, checked.roles)
    if facts["tied"]:
        query, tied_rows = _by_input_order(table.engine, checked)
        tied += tied_rows
    elif checked.order == "score":
        place = f"ROW_NUMBER() OVER (PARTITION BY {columns(checked.keys)} ORDER BY score DESC)"
        query = f"SELECT ranked.*, {place} AS place FROM ({checked.query}) AS ranked"
    else:
        query = checked.select({"place": f"CAST({checked.chosen['place']} AS BIGINT)"})
    opened = checked.rankings(query, {"place": nw.Int64()})
    return replace(opened, rankings=facts["rankings"], gaps=facts["gaps"], ties=tied)


def open_scores(
    table: Relation, *, request: str, item: str, score: str, by: Sequence[str] = (), system: str | None = None,
    cluster: str | None = None, ranked: bool = False, duplicates: Duplicates = "raise",
    nan_policy: Literal["raise", "omit"] = "raise", carry: Mapping[str, str] | None = None,
) -> Rankings:  # fmt: skip
    """Checked scores of a model: one row per request and item; ties are allowed.

    `ranked`: the column holds ranks, 1 is best; their negatives are the scores.
    """
    order = "rank" if ranked else "score"
    named = {"system": system, "request": request, "item": item, "cluster": cluster, order: score}
    checked = _Checked.from_table(table, "scores", by, named, nan_policy, carry)
    if duplicates == "first":
        checked = checked.without_repeats()
    pairs = (*checked.keys, "item")
    count, first = _repeated(checked, "item") if may_repeat(table.engine, checked.query, pairs) else (0, {})
    if count:
        raise EvenhandError(
            f"{count:,} items are scored twice for the same request (first: request {first['request']!r}, item "
            f"{first['item']!r}). Keep one row for each, pass duplicates='first', or name what tells them apart with by= or system=."
        )
    query = checked.query
    if ranked:
        query = f"SELECT ranked.*, CAST(-place AS DOUBLE) AS score FROM ({query}) AS ranked"
    return checked.rankings(query, {"score": nw.Float64()})


@dataclass(frozen=True)
class _Checked:
    """A table whose roles and values were checked row by row.

    Attributes
    ----------
    roles : the role and the column of the caller's table behind each of our columns; a rank is `place`.
    chosen, types : SQL and type of our columns, and of what is carried along.
    where : WHERE clause of the rows that count, or nothing.
    rows : how many rows were read. dropped : rows left out, by the reason.
    """

    table: Relation
    roles: Mapping[str, tuple[str, str]]
    chosen: Mapping[str, str]
    types: Mapping[str, Type]
    where: str
    rows: int
    dropped: Mapping[str, int]

    @classmethod
    def from_table(
        cls, table: Relation, kind: str, by: Sequence[str], named: Mapping[str, str | None], nan_policy: str,
        carry: Mapping[str, str] | None, where: str = "",
    ) -> _Checked:  # fmt: skip
        """Every problem of a table of rankings or scores (`kind`) in one error."""
        if nan_policy not in ("raise", "omit"):
            raise EvenhandError(f"nan_policy={nan_policy!r} does not fit {kind}. Use 'raise' or 'omit'.")
        table = table.with_numbers(*(column for role, column in named.items() if role in NUMBERS))
        roles = {f"by_{i}": ("by", b) for i, b in enumerate(by)}
        roles |= {
            "place" if role == "rank" else role: (role, column) for role, column in named.items() if column is not None
        }
        _refuse_bad_roles(table, roles)
        chosen, types = {}, {}
        for name, (role, column) in roles.items():
            is_number, is_whole = role in NUMBERS, role == "rank" and fits_int64(table.schema[column])
            chosen[name] = (
                table.number(column, "BIGINT" if is_whole else "DOUBLE") if is_number else table.label(column)
            )
            types[name] = nw.Int64() if is_whole else nw.Float64() if is_number else table.label_type(column)
        rows, missing = _check_values(table, kind, roles, chosen, nan_policy, where)
        conditions = [f"({where})"] * bool(where) + [f"{chosen[name]} IS NOT NULL" for name in missing]
        dropped = {f"{roles[name][1]} is missing": count for name, count in missing.items()}
        meeting = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        checked = cls(table, roles, chosen | dict(carry or {}), types, meeting, rows, dropped)
        _refuse_split_requests(checked)
        return checked

    @property
    def order(self) -> str:
        """Our column that orders a ranking."""
        return "place" if "place" in self.roles else "score"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(name for name in self.roles if name in ("system", "request", "sample") or name.startswith("by_"))

    @property
    def query(self) -> str:
        return self.select({})

    def without_repeats(self) -> _Checked:
        """The rows without those of items that stand higher up in the same ranking."""
        if "item" not in self.roles or not may_repeat(self.table.engine, self.query, (*self.keys, "item")):
            return self
        best = self.chosen[self.order] + ("" if self.order == "place" else " DESC")
        names = (*self.keys, "item")
        others = [
            sql for name, sql in self.chosen.items() if name not in (*names, self.order)
        ]  # so that no row order counts
        pairs = ", ".join(self.chosen[name] for name in names)
        number = f"ROW_NUMBER() OVER (PARTITION BY {pairs} ORDER BY {', '.join([best, *others])})"
        numbered = f"SELECT *, {number} AS evenhand_copy FROM {self.table.name}{self.where}"
        rows = f"(SELECT * FROM ({numbered}) AS numbered WHERE evenhand_copy = 1) AS firsts"
        checked = replace(self, table=replace(self.table, name=rows))
        kept_rows = int(checked.table.facts({"n": "COUNT(*)"})["n"])
        repeats = self.rows - sum(self.dropped.values()) - kept_rows
        return replace(checked, dropped={**self.dropped, REPEATED: repeats}) if repeats else self

    def select(self, replaced: Mapping[str, str]) -> str:
        """A SELECT of our columns, some of them replaced or added, and of what is carried along."""
        return self.table.select({**self.chosen, **replaced}) + self.where

    def words(self, name: str) -> str:
        return "{}={!r}".format(*self.roles[name])

    def rankings(self, query: str, types: Mapping[str, Type]) -> Rankings:
        """The rankings that a query of the checked rows answers."""
        return Rankings(
            self.table.engine, query, {**self.types, **types}, self.table.backend,
            tuple(column for role, column in self.roles.values() if role == "by"), self.keys, self.rows,
            ordered_by=self.roles[self.order][0], dropped=self.dropped,
        )  # fmt: skip


def _refuse_bad_roles(table: Relation, roles: Mapping[str, tuple[str, str]]) -> None:
    problems = role_problems(table, list(roles.values()), NUMBERS)
    if "place" in roles and roles["place"][1] not in table.names:
        problems.append("To order by score instead, pass score= with its column.")
    if "item" in roles and roles["item"][1] not in table.names:
        problems += [f"If {name!r} holds the items, pass item={name!r}." for name in ITEM_NAMES if name in table.names][
            :1
        ]
    if "request" in roles and roles["request"][1] not in table.names:
        problems.append("If the whole table is one ranking, pass request=None.")
    if "place" not in roles and "score" not in roles:
        problems.append("Neither rank nor score orders the rankings. Name the column of one of them.")
    problems += slice_problems([column for role, column in roles.values() if role == "by"], {"system"})
    refuse_problems(problems, where="The call")


def _check_values(
    table: Relation, kind: str, roles: Mapping[str, tuple[str, str]], chosen: Mapping[str, str], nan_policy: str, where: str
) -> tuple[int, dict[str, int]]:  # fmt: skip
    """The number of rows, and how many miss which of our columns where they are left out; bad values are refused."""
    aggregates = {"rows": "COUNT(*)"}
    for name, (role, _) in roles.items():
        column = chosen[name]
        if role != "by":
            aggregates[f"missing_{name}"] = count_where(f"{column} IS NULL")
        if role in NUMBERS:
            aggregates |= {f"low_{name}": f"MIN({column})", f"high_{name}": f"MAX({column})"}
        if role == "rank":
            aggregates["broken"] = count_where(f"{column} <> ROUND({column})")
    facts = table.engine.cells(table.select(aggregates) + (f" WHERE {where}" if where else "")).row()
    rows, problems, missing = int(facts["rows"]), [], {}
    for name, (role, column) in roles.items():
        if not (count := int(facts.get(f"missing_{name}") or 0)):
            continue
        can_omit = kind == "rankings" or role in NUMBERS  # scores of nobody are a mistake, not a gap
        missing[name] = count
        if nan_policy == "raise" or not can_omit:
            remedy = (
                "Fill it, remove those rows, or pass nan_policy='omit'."
                if can_omit
                else "Fill it, or remove those rows."
            )
            problems.append(f"{role}={column!r} is missing in {count:,} of {rows:,} rows. {remedy}")
    if kind == "rankings" and rows and "place" in roles:
        words, lowest, broken = "rank={!r}".format(roles["place"][1]), facts["low_place"] or 0, int(facts["broken"])
        if lowest < 1:
            remedy = "Add 1 to it" if lowest == 0 else "Pass ranks counted from 1"
            problems.append(f"{words} goes down to {lowest:g}, but 1 is the best rank. {remedy}.")
        if broken:
            problems.append(f"{words} is no whole number in {broken:,} rows. Pass whole ranks, or score=.")
    for name, (role, column) in roles.items():
        low, high = facts.get(f"low_{name}") or 0, facts.get(f"high_{name}") or 0
        if (math.isinf(low) or math.isinf(high)) and (role != "rank" or kind == "scores"):
            problems.append(f"{role}={column!r} is infinite in some rows. Pass finite numbers.")
        elif role in ("probability", "weight") and low < 0:
            problems.append(f"{role}={column!r} is negative in some rows. Pass numbers of zero or more.")
    refuse_problems(problems, where=f"The table of {kind}")
    return rows, missing


def _check_rankings(checked: _Checked, ties: Ties) -> dict[str, int]:
    """How many rankings there are, and how many are tied or have empty ranks; what is no ranking is refused."""
    order, per = checked.order, {"n": "COUNT(*)"}
    per |= {"best": f"MIN({checked.order})", "deepest": f"MAX({checked.order})"}
    odd = {}
    for name, column in {"tied": order, "twice": "item"}.items():
        if column in checked.roles and may_repeat(checked.table.engine, checked.query, (*checked.keys, column)):
            per[f"different_{name}"] = f"COUNT(DISTINCT {column})"
            odd[name] = f"n <> different_{name}"
    if order == "place":
        untied = f"NOT ({odd['tied']}) AND " if "tied" in odd else ""
        odd |= {"gaps": f"{untied}deepest <> n", "late": "best > 1", "deep": f"deepest > 2 * n + {MOST_EMPTY_RANKS}"}
    aggregates = {"rankings": "COUNT(*)", **{name: count_where(condition) for name, condition in odd.items()}}
    per_ranking = f"SELECT {select(per)} FROM ({checked.query}) AS ranked GROUP BY {columns(checked.keys)}"
    cells = checked.table.engine.cells(f"SELECT {select(aggregates)} FROM ({per_ranking}) AS per_ranking").row()
    facts = dict.fromkeys(("tied", "twice", "gaps", "late", "deep"), 0)
    facts |= {name: int(value or 0) for name, value in cells.items()}
    refuse_problems(_bad_rankings(checked, facts, ties), where="The table of rankings")
    return facts


def _bad_rankings(checked: _Checked, facts: Mapping[str, int], ties: Ties) -> list[str]:
    def first(column: str) -> str:
        _, row = _repeated(checked, column)
        return f"(first: request {row['request']!r}, {checked.roles[column][0]} {row[column]!r})"

    problems, rankings, order = [], f"{facts['rankings']:,} rankings", checked.order
    if facts["twice"]:
        problems.append(
            f"{facts['twice']:,} of {rankings} list an item twice {first('item')}. "
            "Keep one row per item, pass duplicates='first', or name what tells the lists apart with by= or system=."
        )
    if facts["tied"] and ties == "raise":
        problems.append(
            f"{checked.words(order)} has ties in {facts['tied']:,} of {rankings} {first(order)}. "
            "Pass ties='input_order', or break them before calling."
        )
    if facts["late"] > 1 and 2 * facts["late"] > facts["rankings"]:
        problems.append(
            f"{checked.words(order)} does not start at 1 in {facts['late']:,} of {rankings}. "
            "Count ranks from 1 within each request, or order by score."
        )
    elif facts["deep"]:
        problems.append(
            f"{checked.words(order)} goes far beyond the number of items in {facts['deep']:,} of {rankings}. "
            "Count ranks from 1 within each request, or order by score."
        )
    return problems


def _refuse_split_requests(checked: _Checked) -> None:
    """Refuse requests that are in several clusters, within a ranking or from one system to another."""
    if "cluster" not in checked.roles:
        return
    keys = columns([name for name in checked.keys if name not in ("system", "sample")])
    split = f"SELECT request FROM ({checked.query}) AS ranked GROUP BY {keys} HAVING MIN(cluster) <> MAX(cluster)"
    facts = checked.table.engine.cells(f"SELECT COUNT(*) AS n, MIN(request) AS first FROM ({split}) AS split").row()
    if facts["n"]:
        raise EvenhandError(
            f"{checked.words('cluster')} differs between rows of the same request in {int(facts['n']):,} requests (first: "
            f"{facts['first']!r}). Give each request one cluster."
        )


def _repeated(checked: _Checked, column: str) -> tuple[int, dict[str, Any]]:
    """How many values of a column stand in a ranking several times, and the first of them with its ranking."""
    names = [*checked.keys, column]
    several = f"SELECT {columns(names)} FROM ({checked.query}) AS ranked GROUP BY {columns(names)} HAVING COUNT(*) > 1"
    order = ", ".join(f"{quoted(name)} NULLS FIRST" for name in names)
    cells = checked.table.engine.cells(
        f"SELECT {columns(names)}, COUNT(*) OVER () AS n FROM ({several}) AS repeated ORDER BY {order} LIMIT 1"
    )
    return (int(cells.row()["n"]), cells.row()) if len(cells) else (0, {})


def _by_input_order(engine: Engine, checked: _Checked) -> tuple[str, int]:
    """A query for the rankings in which the order of rows settles ties, and how many rows were tied.

    Rankings without ties keep their empty ranks.
    """
    if not engine.has_row_order:
        raise EvenhandError("ties='input_order' needs a table whose rows have an order. Break ties before calling.")
    keys, order = columns(checked.keys), checked.order
    numbered = checked.select({"row_of_table": "ROW_NUMBER() OVER ()"})
    marked = (
        f"SELECT numbered.*, COUNT(*) OVER (PARTITION BY {keys}, {order}) AS tied_rows FROM ({numbered}) AS numbered"
    )
    best_first = "place" if order == "place" else "score DESC"
    place = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {best_first}, row_of_table)"
    if order == "place":
        place = f"CASE WHEN MAX(tied_rows) OVER (PARTITION BY {keys}) > 1 THEN {place} ELSE CAST(place AS BIGINT) END"
    others = columns([name for name in checked.chosen if name != "place"])
    rows = engine.keep(f"SELECT {others}, {place} AS place, tied_rows FROM ({marked}) AS marked")
    tied = engine.cells(f"SELECT {count_where('tied_rows > 1')} AS n FROM {rows}").row()["n"]
    return f"SELECT {others}, place FROM {rows}", int(tied)


def _ties_of_run(table: Relation, roles: Mapping[str, tuple[str, str]]) -> int:
    """Rows of a TREC run that shared their score: the reader settled them by document id and marked them."""
    is_run = (
        roles.get("place") == ("rank", "rank") and table.schema.get("tied") == nw.Boolean and "score" in table.schema
    )
    return int(table.facts({"n": count_where(table.column("tied"))})["n"]) if is_run else 0


POSITION = "rank"
"""The column that holds the place of an item in its list, where the table has none of that name."""


def lists_with(table: Relation, names: Sequence[str]) -> list[str]:
    """Columns of lists of objects that have fields of these names, which no column has."""
    absent = {name for name in names if name not in table.schema}
    return [name for name in table.schema if absent & set(_fields(table, name))]


def unnested(table: Relation, names: Sequence[str], item: str) -> Relation:
    """A row per element of the lists among some columns, which run side by side; the position is the rank.

    The table as it is where its rows are items: a list is then one of labels of an item.
    """
    if POSITION in table.schema if item not in table.schema else table.schema[item] != nw.List:
        return table
    elements = dict(_elements(table, names))
    lists = list(dict.fromkeys(column for column, _, _ in elements.values()))
    if not lists:
        return table
    if not isinstance(table.engine, DuckDBEngine):
        raise EvenhandError(
            f"{lists[0]!r} holds lists, which are read by the local engine only. Unnest them where the table is, with the position "
            "as rank (Spark: posexplode), or pass a file."
        )
    lengths = [f"COALESCE(LEN({table.column(name)}), 0)" for name in lists]
    uneven = " OR ".join(f"{lengths[0]} <> {other}" for other in lengths[1:]) or "FALSE"
    facts = table.facts({"uneven": count_where(uneven), "empty": count_where(f"{lengths[0]} = 0")})
    if facts["uneven"]:
        raise EvenhandError(
            f"The lists in {' and '.join(map(repr, lists))} differ in length in {counted_rows(facts['uneven'])}. "
            "Pass lists with a value for each item."
        )
    current().numerals[lists[0]] = {"list": "items", **({"empty": int(facts["empty"])} if facts["empty"] else {})}
    plain = {name: sql for name, sql in table.expressions.items() if name not in lists}
    values = {name: value.format(f"UNNEST({table.column(column)})") for name, (column, value, _) in elements.items()}
    place = {} if POSITION in table.schema else {POSITION: f"GENERATE_SUBSCRIPTS({table.column(lists[0])}, 1)"}
    expressions = {**plain, **values, **place}
    inner = dict(zip(expressions, (f"c{i}" for i in range(len(expressions))), strict=True))
    view = table.engine.view(table.select({inner[name]: sql for name, sql in expressions.items()}))
    kinds = {name: kind for name, (_, _, kind) in elements.items()} | ({POSITION: nw.Int64()} if place else {})
    schema = {name: kind for name, kind in table.schema.items() if name not in lists} | kinds
    return replace(table, name=view, schema=schema, expressions={name: quoted(inner[name]) for name in expressions})


def _elements(table: Relation, names: Sequence[str]) -> Iterator[tuple[str, tuple[str, str, Type]]]:
    """What each name stands for in a row of the table: its column, SQL of its value in an element, its type."""
    kind: Any
    for column, kind in table.schema.items():
        if column in names and kind == nw.List:
            yield column, (column, "{}", kind.inner)
        for name, field_kind in _fields(table, column).items():
            if name in names and name not in table.schema:
                yield name, (column, f"STRUCT_EXTRACT({{}}, {text(name)})", field_kind)


def _fields(table: Relation, column: str) -> dict[str, Type]:
    """The fields of the objects that a column lists."""
    kind: Any = table.schema[column]
    inner = kind.inner if kind == nw.List else None
    return (
        dict(zip((f.name for f in inner.fields), (f.dtype for f in inner.fields), strict=True))
        if inner == nw.Struct
        else {}
    )
