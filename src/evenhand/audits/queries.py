"""The queries of an audit, for a database that evenhand cannot reach: those that the local engine would run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evenhand.audits.declare import Audit, find, versions
from evenhand.errors import EvenhandError, refuse_keys, unknown_name
from evenhand.findings import names_of
from evenhand.report.reproduce import command
from evenhand.sources.files import database_of, has_known_ending
from evenhand.sources.inputs import scheme, tally_of
from evenhand.sources.inputs import tally as tally_from
from evenhand.sources.recorded import (
    TABLE,
    Answers,
    NeedsRowsError,
    Query,
    RawTable,
    RecordingEngine,
    place_of,
    read_answers,
    statement,
)
from evenhand.sources.sql import translated

DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake", "databricks", "trino", "clickhouse")
"""Whose SQL is written. The tests run queries of the first two, and of databricks one verb on Spark; the others are parsed."""

ASKABLE = ("inequality", "sources", "exposure", "outcome_test")
"""Audits that can go on from the rows of a query."""

COLUMNS: Mapping[str, str] = {
    "unit": "label", "amount": "number", "weight": "number", "within": "label", "by": "label", "source": "label",
    "groups": "label", "relevance": "number", "request": "label", "item": "label", "rank": "number", "score": "number",
    "sample": "label", "probability": "number", "system": "label", "outcome": "number", "group": "label",
    "treated": "number", "cluster": "label",
}  # fmt: skip
"""Parameters that name columns, and what these hold unless something else is declared."""

TYPES: Mapping[str, type] = {"label": str, "whole": int, "number": float, "truth": bool}
"""What values of each kind are in Python."""


def sql(
    audit: str,
    *,
    table: str,
    dialect: str,
    truth: Sequence[str] = (),
    whole: Sequence[str] = (),
    number: Sequence[str] = (),
    population_by: Sequence[str] = (),
    tally: Any = None,
    **roles: Any,
) -> str:
    """The query whose rows answer what an audit asks, for a database that evenhand cannot reach; `eh.read.tally` reads them back.

    Parameters
    ----------
    audit : `"inequality"`, `"sources"`, `"exposure"` or `"outcome_test"`.
    table : the table in the warehouse: `"schema.table"`, or a Jinja expression such as `"{{ ref('events') }}"`.
    dialect : SQL dialect: duckdb, postgres, bigquery, snowflake, databricks, trino or clickhouse.
    truth, whole, number : columns that hold booleans, integers, or other numbers. Amounts, scores and the like are
        numbers unless you say otherwise; other columns are text.
    population_by : slice columns that the table of all units has too, if `population` names a table of the same
        database.
    tally : the rows of earlier queries that this one depends on.
    roles : the arguments of the audit; those that only say how to measure (`population` as a number, `rng`) may be
        left out.

    Examples
    --------
    >>> print(sql("inequality", table="log", dialect="duckdb", unit="author").splitlines()[2])
    --   evenhand inequality --tally rows.csv --unit author --population N
    """
    audited, arguments = _checked_call(audit, dialect, table, roles)
    kinds = _kinds(arguments, {"truth": truth, "whole": whole, "number": number})
    tables = {TABLE: RawTable(table, kinds)}
    if population := _population(arguments, dialect, population_by):
        unit_columns = [*names_of(arguments["unit"]), *population_by]
        tables["raw_population"] = RawTable(population, {column: kinds[column] for column in unit_columns})
    before = None if tally is None else tally_of(tally) or tally_from(*(tally if isinstance(tally, list) else [tally]))
    answers = None if before is None else read_answers(before)
    queries, is_last = _queries(audited, roles, arguments, tables, answers)
    files = [
        str(rows) if isinstance(rows, str) or hasattr(rows, "__fspath__") else f"rows-{k}.csv"
        for k, rows in enumerate(() if before is None else before.rows, 1)
    ]
    title = f"evenhand {versions().get('evenhand', '')}: {audited.question}"
    if not queries:
        return _comment(title, "Every query is answered. Ask:", f"  {_next_command(audited, roles, files)}")
    text = translated(statement(queries, tables), dialect, pretty=True, identify=True)
    for name, raw in tables.items():
        text = raw.place.join(re.split(rf"""["`]?{place_of(name)}["`]?""", text))
    saved = "rows.csv" if is_last and before is None else f"rows-{len(files) + 1}.csv"
    save = f"Save the rows of this query ({dialect}) as {saved} or {saved.replace('.csv', '.parquet')}, and "
    if is_last:
        return _comment(title, f"{save}ask:", f"  {_next_command(audited, roles, [*files, saved])}") + text + "\n"
    more = {
        "table": table, "dialect": dialect, "tally": [*files, saved], "truth": list(truth), "whole": list(whole),
        "number": list(number), "population_by": list(population_by),
    }  # fmt: skip
    words = command(audited.name, {**{k: v for k, v in more.items() if v}, **roles}, placed=())
    next_query = words.replace("evenhand ", "evenhand sql ", 1)
    return _comment(title, f"{save}print the next one, which depends on them:", f"  {next_query}") + text + "\n"


def _comment(*lines: str) -> str:
    return "".join(f"-- {line}\n" for line in lines)


def _next_command(audit: Audit, roles: Mapping[str, Any], files: Sequence[str]) -> str:
    left = [f" --{n} N" for n, p in audit.parameters.items() if p.required and not p.positional and n not in roles]
    return command(audit.name, {"tally": list(files), **roles}, placed=()) + "".join(left)


def _checked_call(name: str, dialect: str, table: str, roles: Mapping[str, Any]) -> tuple[Audit, Mapping[str, Any]]:
    """The audit and its arguments, checked; what is required and left out is None."""
    audit = find(name.replace("-", "_"))
    if audit.name not in ASKABLE:
        raise unknown_name("audit", name, ASKABLE, what="an audit that goes on from a query")
    if dialect not in DIALECTS:
        raise unknown_name("dialect", dialect, list(DIALECTS), what="a dialect")
    lacking = {role: None for role, p in audit.parameters.items() if p.required and role not in roles}
    arguments = audit.call(**{**lacking, **roles}).arguments
    refuse_keys("table", table)
    refuse_keys("population", arguments.get("population"))
    _refuse_name(table, dialect, "table")
    if arguments["min_units"] is not None:
        raise EvenhandError(
            "min_units rounds what could show single rows, and a database rounds nothing. Leave it out of the query, and pass it "
            "with the tally where the audit takes it."
        )
    if arguments.get("positive") is not None:
        raise EvenhandError(
            "positive= asks the database which labels there are, and a printed query cannot. Pass a column of 0 and 1, such as that "
            "of a view."
        )
    if arguments.get("within") is not None:
        raise EvenhandError(
            f"within={arguments['within']!r} needs the table: a tally holds no single viewers. Leave it out."
        )
    return audit, arguments


def _kinds(arguments: Mapping[str, Any], declared: Mapping[str, Sequence[str]]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for role, kind in COLUMNS.items():
        for column in names_of(arguments.get(role)):
            name = column if isinstance(column, str) else getattr(column, "column", None)
            if isinstance(name, str) and (kind == "number" or name not in kinds):
                kinds[name] = kind if isinstance(column, str) else "number"
    for kind, columns in declared.items():
        for column in columns:
            if column not in kinds:
                raise EvenhandError(f"{kind}={column!r} is no column that the call names. Leave it out.")
            kinds[column] = kind
    return kinds


def _population(arguments: Mapping[str, Any], dialect: str, population_by: Sequence[str]) -> str:
    """The table of all units in the same database, where the population is one; else nothing."""
    population = arguments.get("population")
    if not isinstance(population, str):
        if population_by:
            raise EvenhandError(
                "population_by is of a table of all units, and none was named. Pass population= with it."
            )
        if population is not None and not isinstance(population, (int, float, Mapping)):
            raise EvenhandError(
                "population is a table that is here, not in the database. Name one of the same database."
            )
        return ""
    if has_known_ending(population) or database_of(population) or scheme(population):
        raise EvenhandError(
            f"population={population!r} is a file, which the query cannot reach. Name a table of the same database, or leave it out "
            "and pass how many there are with the tally."
        )
    _refuse_name(population, dialect, "population")
    if lost := [b for b in population_by if b not in names_of(arguments.get("by"))]:
        raise EvenhandError(f"population_by={lost[0]!r} is no slice. Name it in by= too, or leave it out.")
    return population


def _refuse_name(name: str, dialect: str, role: str) -> None:
    """Refuse what is no name of a table: names with dots, quoted or not, or a Jinja expression."""
    mark = "`" if dialect in ("bigquery", "databricks") else '"'
    doubled = "" if dialect in ("bigquery", "clickhouse") else f"|{mark}{mark}"
    in_quotes = f"{mark}(?:[^{mark}\\\\\\x00-\\x1f]{doubled})+{mark}"
    plain = r"\w+(?:-\w+)*" if dialect == "bigquery" else r"\w[\w$]*"
    part = f"(?:{plain}|{in_quotes})"
    if not re.fullmatch(rf"{part}(?:\.{part}){{0,3}}|\{{\{{[^{{}}\x00-\x1f]+\}}\}}", name):
        raise EvenhandError(
            f"{role}={name!r} is not the name of a table. Write schema.table, its parts in {mark} where they hold "
            "other characters, or \"{{ ref('model') }}\"."
        )


def _made_up(kinds: Mapping[str, str], arguments: Mapping[str, Any], letter: str, rows: int) -> dict[str, list[Any]]:
    """Columns of rows on which an audit is run to record its queries: so many of each group in two slices, each a ranking.

    Labels that the call does not name begin with the letter.
    """
    roles = {name: role for role in COLUMNS for name in names_of(arguments.get(role)) if isinstance(name, str)}
    named = [label for role in ("protected", "versus", "reference") for label in names_of(arguments.get(role))]
    most_groups = len(named) + 2
    size = 2 * most_groups * rows

    def value(i: int, role: str, kind: str) -> Any:
        slice_number, place = i % 2, i // 2
        label_numbers = {
            "system": 0,
            "sample": 0,
            "request": slice_number,
            "by": slice_number,
            "unit": place,
            "item": i,
        }
        if role in label_numbers:
            return _label(letter, label_numbers[role], kind)
        if COLUMNS.get(role, "label") == "label":
            groups = [
                *(label for label in named if type(label) is TYPES[kind]),
                *(_label(letter, k, kind) for k in (0, 1)),
            ]
            return groups[place % len(groups)]
        is_odd = bool(place // most_groups % 2)
        if kind == "truth" or role in ("outcome", "relevance"):
            return is_odd if kind == "truth" else int(is_odd)
        others = {"weight": 1, "probability": 1, "treated": 1, "score": 1 - (i + 1) / (size + 1), "rank": place + 1}
        return others.get(role, i + 1)

    return {column: [value(i, roles.get(column, ""), kind) for i in range(size)] for column, kind in kinds.items()}


def _label(letter: str, number: int, kind: str) -> Any:
    if kind == "label":
        return f"{letter} {number}"
    return number % 2 == 0 if kind == "truth" else TYPES[kind](number + 1_000 * (letter != "a"))


def _queries(
    audit: Audit,
    roles: Mapping[str, Any],
    arguments: Mapping[str, Any],
    tables: Mapping[str, RawTable],
    answers: Answers | None,
) -> tuple[list[Query], bool]:
    """The queries that an audit asks whatever the rows are, and whether there are no others.

    The audit is run on two sets of made-up rows; what it asks of both does not depend on them.
    """
    runs: list[list[Query]] = []
    errors: list[Exception | None] = []
    first, *_ = audit.parameters
    named = {**{name: None for name, p in audit.parameters.items() if p.required}, **roles}
    if "population" in named and not isinstance(named["population"], str):
        is_number = "population" not in roles or isinstance(roles["population"], int)
        named["population"] = 2**40 if is_number else None  # more than any rows can contradict
    for rows, letter in ((4, "a"), (6, "b")):
        made_up = {name: replace(t, rows=_made_up(t.kinds, arguments, letter, rows)) for name, t in tables.items()}
        engine = RecordingEngine(made_up, answers, is_reading=False)
        try:
            audit(**{**named, first: engine.relation(TABLE)})
            errors.append(None)
        except NeedsRowsError:
            raise
        except Exception as error:  # noqa: BLE001  (made-up rows need not make sense to the audit)
            errors.append(error)
        runs.append(engine.recorded)
    other = {query.digest for query in runs[1]}
    same = [query for query in runs[0] if query.digest in other]
    is_refused = (
        answers is None and all(isinstance(e, EvenhandError) for e in errors) and str(errors[0]) == str(errors[1])
    )
    if errors[0] is not None and errors[1] is not None and (is_refused or not same):
        raise errors[0]  # whatever the rows are
    return same, not any(errors) and len(same) == len(runs[0]) == len(runs[1])
