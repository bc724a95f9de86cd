"""The query of an audit: what to count in a database so that the audit can go on from the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.declare import Audit, find, versions
from evenhand.audits.exposure_asks import required_by
from evenhand.audits.outcome_bins import counted_edges_of
from evenhand.audits.outcome_rows import askable
from evenhand.audits.population import WEIGHTLESS
from evenhand.audits.sources import checked_metrics
from evenhand.audits.units import refuse_uncounted
from evenhand.cards import asks, needing
from evenhand.engine.dialects import Dialect
from evenhand.engine.dialects import dialect as dialect_of
from evenhand.engine.queries import Everyone, units_query
from evenhand.engine.queries_outcomes import outcomes_query
from evenhand.engine.queries_rankings import Counting, rankings_query
from evenhand.errors import EvenhandError, all_problems, listing, refuse_keys, unknown_name
from evenhand.present.again import command
from evenhand.sources.files import database_of, has_known_ending
from evenhand.sources.logs import name_problems
from evenhand.sources.outcomes import name_problems as outcome_problems
from evenhand.sources.populations import open_population
from evenhand.sources.rankings import name_problems as ranking_problems
from evenhand.sources.relation import Relation
from evenhand.sources.slicing import slicing
from evenhand.sources.stores import scheme
from evenhand.tallies.spectrum import Spectrum

Given = Mapping[str, Any]


def sql(
    audit: str,
    *,
    table: str,
    dialect: str,
    names: Sequence[str] = (),
    truth: Sequence[str] = (),
    population_by: Sequence[str] = (),
    relevance_in: str | None = None,
    **roles: Any,
) -> str:
    """The query whose rows are the tally of an audit, for a database that evenhand cannot reach; `eh.read.tally` reads them back.

    Parameters
    ----------
    audit : `"inequality"`, `"sources"`, `"exposure"` or `"outcome_test"`.
    table : the table there: `"schema.table"`, or a Jinja expression such as `"{{ ref('events') }}"`.
    dialect : whose SQL to write: duckdb, postgres, bigquery, snowflake, databricks, trino or clickhouse.
    names : the sources, for `"sources"`: no query can find them and count them at once.
    truth : columns that hold true and false.
    population_by : slice columns that the table of all units holds too, where `population` names one of the same database.
    relevance_in : the table that holds the column `relevance`, where the rankings do not; it names requests and items as they do.
    roles : what the audit takes; what only says how to measure (`population` as a number, `rng`) may be left out.

    Examples
    --------
    >>> print(sql("inequality", table="log", dialect="duckdb", unit="author").splitlines()[2])
    --   evenhand inequality --tally rows.csv --unit author --population N
    """
    asked, where = find(audit.replace("-", "_")), dialect_of(dialect)
    if asked.name not in _QUERIES:
        raise unknown_name("audit", audit, ASKABLE, what="an audit that goes on from a query")
    if names and asked.name != "sources":
        raise EvenhandError(f"names are those of sources, and {asked.name} has none. Leave them out.")
    lacking = {name: None for name, p in asked.parameters.items() if p.required and name not in roles}
    bound = asked.call(**{**lacking, **roles}).arguments
    for role, name in (("table", table), ("relevance_in", relevance_in), ("population", bound.get("population"))):
        refuse_keys(role, name)
    if population_by and not isinstance(bound.get("population"), str):
        raise EvenhandError("population_by is of a table of all units, and none was named. Pass population= with it.")
    if relevance_in is not None and bound.get("relevance") is None:
        raise EvenhandError(
            "relevance_in is a table that holds relevance, and no column was named. Pass relevance= with it."
        )
    more = _More(list(names), list(truth), list(population_by), relevance_in)
    text = _QUERIES[asked.name](where, table, bound, more)
    return _head(asked, where, roles) + text


@dataclass(frozen=True)
class _More:
    """What only a query must be told."""

    names: list[str]
    truth: list[str]
    population_by: list[str]
    relevance_in: str | None


def _head(asked: Audit, d: Dialect, roles: Given) -> str:
    """What the query is for, and the command that comes next, as comments."""
    then = command(asked.name, {"tally": "rows.csv", **roles}, placed=())
    left = [f" --{n} N" for n, p in asked.parameters.items() if p.required and not p.positional and n not in roles]
    lines = [
        f"evenhand {versions().get('evenhand', '')}: {asked.question}",
        f"Save the rows of this query ({d.name}) as rows.csv or rows.parquet, and ask:",
        f"  {then}{''.join(left)}",
    ]
    return "".join(f"-- {line}\n" for line in lines)


def _inequality(d: Dialect, table: str, given: Given, more: _More) -> str:
    amount, unit = given["amount"], given["unit"]
    several = isinstance(amount, (list, tuple))
    amounts = list(amount) if several else [amount]
    asks(given["metrics"], needing(Spectrum))
    asked = slicing(given["by"])
    refuse_uncounted(asked, slicing(None), given["within"])
    _refuse(name_problems(unit, [a for a in amounts if a is not None], asked.columns, "", multiple=several))
    return units_query(
        d, table, unit=unit, amounts=amounts, by=asked.columns, weight=given["weight"], truth=more.truth,
        everyone=_everyone(given, asked.columns, more),
    )  # fmt: skip


def _sources(d: Dialect, table: str, given: Given, more: _More) -> str:
    asked, split, unit, amount = (
        slicing(given["by"]),
        slicing([given["source"]], "source"),
        given["unit"],
        given["amount"],
    )
    checked_metrics(given["metrics"])
    refuse_uncounted(asked, split, None)
    by = (*asked.columns, *split.columns)
    _refuse(name_problems(unit, [] if amount is None else [amount], by, "source", multiple=False))
    if not more.names:
        raise EvenhandError(
            "The query counts each source by its name, and none was named. Pass names= with all of them."
        )
    if twice := sorted({name for name in more.names if more.names.count(name) > 1}):
        raise EvenhandError(f"names holds {listing(map(repr, twice))} twice. Name each source once.")
    return units_query(
        d, table, unit=unit, amounts=[amount], by=asked.columns, source=split.columns[0], names=more.names, truth=more.truth,
        everyone=_everyone(given, asked.columns, more),
    )  # fmt: skip


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise all_problems(problems, where="The call")


def _everyone(given: Given, by: Sequence[str], more: _More) -> Everyone | None:
    """The table of all units in the same database, where the population is one."""
    population = given["population"]
    if not isinstance(population, str):
        if population is not None and isinstance(open_population(population, given["unit"]), Relation):
            raise EvenhandError(
                "population is a table that is here, not in the database. Name one of the same database."
            )
        return None
    _refuse_file("population", population, ", or leave it out and pass how many there are with the tally")
    if given["unit"] is None:
        raise EvenhandError(
            "population is a table of units, but unit=None makes every row a unit. Name the unit column."
        )
    if given.get("weight") is not None:
        raise EvenhandError(WEIGHTLESS)
    if lost := [b for b in more.population_by if b not in by]:
        raise EvenhandError(f"population_by={lost[0]!r} is no slice. Name it in by= too, or leave it out.")
    return Everyone(population, tuple(b for b in by if b in more.population_by))


def _refuse_file(role: str, name: str | None, otherwise: str = "") -> None:
    """What is named in place of a table of the database, and is none of it."""
    if name is not None and (has_known_ending(name) or database_of(name) or scheme(name)):
        raise EvenhandError(
            f"{role}={name!r} is a file, which the query cannot reach. Name a table of the same database{otherwise}."
        )


def _exposure(d: Dialect, table: str, given: Given, more: _More) -> str:
    from evenhand.audits.exposure import asked_by, refuse_uncounted, roles_of

    asked, _has = asked_by(given)
    refuse_uncounted(given, asked)
    roles = roles_of(given)
    _refuse(ranking_problems(roles))
    _refuse_file("relevance_in", more.relevance_in)
    few = (given["min_units"] or 0) > 1
    asked_of = Counting(
        roles, given["groups"], required_by(asked), given["relevance"], more.truth, few, more.relevance_in
    )
    return rankings_query(d, table, asked_of)


def _outcome_test(d: Dialect, table: str, given: Given, more: _More) -> str:
    from evenhand.audits.outcome_test import roles_of

    _, roles = roles_of(given)
    _ = given["metrics"] is None or asks(given["metrics"], askable())
    _refuse(outcome_problems(roles))
    edges, threshold = counted_edges_of(given["bins"]), given["threshold"]
    threshold = None if threshold is None else float(threshold)
    return outcomes_query(
        d, table, roles, kind=given["kind"], threshold=threshold, bins=given["bins"], edges=edges, truth=more.truth,
        fewest=given["min_units"] or 0,
    )  # fmt: skip


_QUERIES: dict[str, Callable[[Dialect, str, Given, _More], str]] = {
    "inequality": _inequality,
    "sources": _sources,
    "exposure": _exposure,
    "outcome_test": _outcome_test,
}

ASKABLE = tuple(_QUERIES)
"""Audits that can go on from the rows of a query."""
