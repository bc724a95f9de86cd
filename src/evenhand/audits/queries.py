"""The query of an audit: what to count in a database so that the audit can go on from the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evenhand.audits.declare import Audit, find, versions
from evenhand.audits.exposure_asks import wanted_by
from evenhand.audits.outcome_bins import counted_edges_of
from evenhand.engine.dialects import Dialect
from evenhand.engine.dialects import dialect as dialect_of
from evenhand.engine.queries import units_query
from evenhand.engine.queries_outcomes import outcomes_query
from evenhand.engine.queries_rankings import rankings_query
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.present.again import command
from evenhand.views.bins import slicing

Given = Mapping[str, Any]


def sql(
    audit: str, *, table: str, dialect: str, names: Sequence[str] = (), truth: Sequence[str] = (), **roles: Any
) -> str:
    """The query whose rows are the tally of an audit, for a database that evenhand cannot reach; `eh.read.tally` reads them back.

    Parameters
    ----------
    audit : `"inequality"`, `"sources"`, `"exposure"` or `"outcome_test"`.
    table : the table there: `"schema.table"`, or a Jinja expression such as `"{{ ref('events') }}"`.
    dialect : whose SQL to write: duckdb, postgres, bigquery, snowflake, databricks, trino or clickhouse.
    names : the sources, for `"sources"`: no query can find them and count them at once.
    truth : columns that hold true and false.
    roles : what the audit takes; what only says how to measure (`population`, `rng`) may be left out.

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
    text = _QUERIES[asked.name](where, table, bound, list(names), list(truth))
    return _head(asked, where, roles) + text


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


def _inequality(d: Dialect, table: str, given: Given, _: list[str], truth: list[str]) -> str:
    if given["within"] is not None:
        raise EvenhandError(
            f"within={given['within']!r} needs the table: a tally holds no single viewers. Leave it out."
        )
    amount = given["amount"]
    amounts = list(amount) if isinstance(amount, (list, tuple)) else [amount]
    return units_query(
        d, table, unit=given["unit"], amounts=amounts, by=_slices(given["by"]), weight=given["weight"], truth=truth
    )


def _sources(d: Dialect, table: str, given: Given, names: list[str], truth: list[str]) -> str:
    (source,) = _slices(given["source"], "source")
    if not names:
        raise EvenhandError(
            "The query counts each source by its name, and none was named. Pass names= with all of them."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise EvenhandError(f"names holds {listing(map(repr, twice))} twice. Name each source once.")
    return units_query(
        d,
        table,
        unit=given["unit"],
        amounts=[given["amount"]],
        by=_slices(given["by"]),
        source=source,
        names=names,
        truth=truth,
    )


def _exposure(d: Dialect, table: str, given: Given, _: list[str], __: list[str]) -> str:
    from evenhand.audits.exposure import asked_by, refuse_uncounted, roles_of

    asked, _has = asked_by(given)
    refuse_uncounted(given, asked, given["min_units"] or 0)
    return rankings_query(d, table, roles_of(given), given["groups"], wanted_by(asked).looks)


def _outcome_test(d: Dialect, table: str, given: Given, _: list[str], truth: list[str]) -> str:
    from evenhand.audits.outcome_test import refuse_uncounted, roles_of

    how, roles = roles_of(given)
    refuse_uncounted(how, given["min_units"] or 0)
    edges, threshold = counted_edges_of(given["bins"]), given["threshold"]
    threshold = None if threshold is None else float(threshold)
    return outcomes_query(
        d, table, roles, kind=given["kind"], threshold=threshold, bins=given["bins"], edges=edges, truth=truth
    )


def _slices(by: Any, role: str = "by") -> tuple[str, ...]:
    asked = slicing(by, role)
    if asked.bins:
        raise EvenhandError(
            f"{role}={asked.bins[0]} needs the table: its edges are not known yet. Make the bins a column."
        )
    return asked.columns


_QUERIES: dict[str, Callable[[Dialect, str, Given, list[str], list[str]], str]] = {
    "inequality": _inequality,
    "sources": _sources,
    "exposure": _exposure,
    "outcome_test": _outcome_test,
}

ASKABLE = tuple(_QUERIES)
"""Audits that can go on from the rows of a query."""
