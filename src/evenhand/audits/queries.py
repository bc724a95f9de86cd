"""The query of an audit: what to count in a database so that the audit can go on from the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evenhand.audits.declare import Audit
from evenhand.engine.dialects import Dialect
from evenhand.engine.queries import units_query
from evenhand.errors import EvenhandError, listing
from evenhand.views.bins import slicing

Given = Mapping[str, Any]


def query(audit: Audit, given: Given, d: Dialect, table: str, *, names: Sequence[str], truth: Sequence[str]) -> str:
    """The query, without a comment or a semicolon; `given` are arguments of the audit, those it can do without left out.

    `names` are the sources, which no query can find out and count at once; `truth` are columns that hold true and false.
    """
    if names and audit.name != "sources":
        raise EvenhandError(f"--name says what sources there are, and {audit.name} has none. Leave it out.")
    lacking = {name: None for name, p in audit.parameters.items() if p.required and name not in given}
    bound = audit.call(**{**lacking, **given}).arguments
    return _QUERIES[audit.name](d, table, bound, list(names), list(truth))


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
            "The query counts each source by its name, and none was named. Add --name for each of them."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise EvenhandError(f"--name gives {listing(map(repr, twice))} twice. Name each source once.")
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
}

ASKABLE = tuple(_QUERIES)
"""Audits that can go on from the rows of a query."""
