"""The queries of an audit, for a database that evenhand cannot reach: those that the local engine would run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.audits.declare import Audit, find, versions
from evenhand.errors import EvenhandError, refuse_keys, unknown_name
from evenhand.findings import names_of
from evenhand.report.reproduce import command
from evenhand.sources.files import database_of, has_known_ending
from evenhand.sources.inputs import Tally, scheme, tally_of
from evenhand.sources.inputs import tally as tally_from
from evenhand.sources.recorded import (
    AGAIN,
    Answers,
    NeedsRowsError,
    Query,
    RawTable,
    RecordingEngine,
    mark_of,
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

UNASKED = frozenset({"rng", "interval", "level", "nan_policy", "chance", "min_units", "population"})
"""Parameters that only say how to measure: they stand in no mark."""


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
    places = {"raw_table": table} | _population(arguments, dialect, population_by)
    before = None if tally is None else tally_of(tally) or tally_from(*(tally if isinstance(tally, list) else [tally]))
    answers = None if before is None else read_answers(before)
    warehouse = Warehouse(places, kinds, arguments, population_by)
    queries, is_last = _queries(audited, roles, warehouse, answers)
    files = [
        str(rows) if isinstance(rows, str) or hasattr(rows, "__fspath__") else f"rows-{k}.csv"
        for k, rows in enumerate(() if before is None else before.rows, 1)
    ]
    title = f"evenhand {versions().get('evenhand', '')}: {audited.question}"
    if not queries:
        return _comment(title, "Every query is answered. Ask:", f"  {_next_command(audited, roles, files)}")
    text = _statement(audited, roles, warehouse, queries, dialect)
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
    _refuse_viewers(arguments)
    return audit, arguments


def _refuse_viewers(arguments: Mapping[str, Any]) -> None:
    """Refuse intervals over viewers: they need single rows."""
    if arguments.get("within") is not None:
        raise EvenhandError(
            f"within={arguments['within']!r} needs the table: a tally holds no single viewers. Leave it out."
        )


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


def _population(arguments: Mapping[str, Any], dialect: str, population_by: Sequence[str]) -> dict[str, str]:
    """The table of all units in the same database, where the population is one."""
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
        return {}
    if has_known_ending(population) or database_of(population) or scheme(population):
        raise EvenhandError(
            f"population={population!r} is a file, which the query cannot reach. Name a table of the same database, or leave it out "
            "and pass how many there are with the tally."
        )
    _refuse_name(population, dialect, "population")
    if lost := [b for b in population_by if b not in names_of(arguments.get("by"))]:
        raise EvenhandError(f"population_by={lost[0]!r} is no slice. Name it in by= too, or leave it out.")
    return {"raw_population": population}


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


@dataclass(frozen=True)
class Warehouse:
    """The tables of a database that a call reads: their names there, what each column holds, and the arguments of the audit."""

    places: Mapping[str, str]
    kinds: Mapping[str, str]
    arguments: Mapping[str, Any]
    population_by: Sequence[str]

    def tables(self, made_up: MadeUp | None = None) -> dict[str, RawTable]:
        """The tables, with rows that are made up where an audit is to be run on them."""
        roles = {name: role for role in COLUMNS for name in names_of(self.arguments.get(role)) if isinstance(name, str)}
        by = [name for name in names_of(self.arguments.get("by")) if isinstance(name, str)]
        columns = {"raw_table": list(self.kinds)}
        if "raw_population" in self.places:
            columns["raw_population"] = [*names_of(self.arguments["unit"]), *self.population_by]
        tables = {}
        for name, names in columns.items():
            kinds = {column: self.kinds[column] for column in names}
            rows = {}
            if made_up is not None:
                rows = {c: made_up.column(roles.get(c, ""), k, by.index(c) if c in by else 0) for c, k in kinds.items()}
            tables[name] = RawTable(self.places[name], kinds, rows)
        return tables


def _statement(audit: Audit, roles: Mapping[str, Any], warehouse: Warehouse, queries: list[Query], dialect: str) -> str:
    """The queries as one statement whose rows say what they answer."""
    tables = warehouse.tables()
    marked: dict[str, Any] = {
        name: [str(value) for value in names_of(roles[name])]
        for name, p in audit.parameters.items()
        if name in roles and name not in UNASKED and not p.positional
    }
    marked["version"] = versions().get("evenhand", "")
    for name, table in tables.items():
        marked |= {f"{name}.place": warehouse.places[name]} if name != "raw_table" else {}
        for column, kind in table.kinds.items():
            marked.setdefault(f"{name}.{kind}", []).append(column)
    mark = mark_of(audit.name, {**marked, "query": [q.digest for q in queries]})
    text = translated(statement(queries, tables, mark), dialect, pretty=True, identify=True)
    for name, place in warehouse.places.items():
        text = place.join(re.split(rf"""["`]?{place_of(name)}["`]?""", text))
    return text


@dataclass(frozen=True)
class MadeUp:
    """Made-up rows on which an audit is run to record its queries: so many in each slice and group, or of one ranking.

    Labels that the answers do not hold begin with the `letter`; `slices` are the labels of each slice column, `scores` a range.
    """

    letter: str
    rows: int
    groups: Sequence[Any]
    slices: Sequence[Sequence[Any]]
    scores: tuple[float, float]
    is_ranking: bool

    @classmethod
    def for_call(cls, letter: str, rows: int, arguments: Mapping[str, Any], answers: Answers | None) -> MadeUp:
        named = [label for role in ("protected", "versus", "reference") for label in names_of(arguments.get(role))]
        others = [f"{letter} one", f"{letter} two"]
        by = [_labels(answers, f"by_{k}") or others for k in range(len(names_of(arguments.get("by"))))]
        groups = _labels(answers, "label") or list(dict.fromkeys([*named, *others]))
        scores = (0.0, 1.0)
        for frame in () if answers is None else answers.frames.values():
            if {"low", "high"} <= {*frame.columns} and frame.height:  # the scores that all groups share
                low, high = frame["low"].cast(float).max(), frame["high"].cast(float).min()
                if low is not None and high is not None and low < high:
                    scores = (float(low), float(high))
                break
        return cls(letter, rows, groups, by, scores, "item" in arguments)

    def column(self, role: str, kind: str, place: int) -> list[Any]:
        """The values of a column in a role, of a kind; `place` is that of a slice column."""
        many = 1 if self.is_ranking else math.prod(map(len, self.slices))
        size = self.rows * len(self.groups) * many
        if role in ("request", "system", "sample"):
            return [self._label(0, kind)] * size
        if role in ("unit", "item"):
            return [self._label(i // (1 if self.is_ranking else 2), kind) for i in range(size)]
        if role == "by":
            labels = self._of_kind(self.slices[place], kind)
            before = size if self.is_ranking else math.prod(len(slices) for slices in self.slices[:place])
            return [labels[i // before % len(labels)] for i in range(size)]
        if COLUMNS.get(role, "label") == "label":
            labels = self._of_kind(self.groups, kind)
            return [labels[i // many % len(labels)] for i in range(size)]
        turn = [i // many // len(self.groups) % 2 for i in range(size)]
        if kind == "truth":
            return [bool(t) for t in turn]
        if role in ("weight", "probability", "treated"):
            return [1] * size
        if role == "score":
            low, high = self.scores
            return [low + (high - low) * (size - i) / (size + 1) for i in range(size)]
        return turn if role in ("outcome", "relevance") else [i + 1 for i in range(size)]

    def _label(self, number: int, kind: str) -> Any:
        number += 0 if self.letter == "a" else 1_000
        if kind == "label":
            return f"{self.letter} {number}"
        return number % 2 == 0 if kind == "truth" else TYPES[kind](number)

    def _of_kind(self, labels: Sequence[Any], kind: str) -> list[Any]:
        """Those of some labels that a column of a kind can hold, or others."""
        return [label for label in labels if type(label) is TYPES[kind]] or [self._label(k, kind) for k in (0, 1)]


def _labels(answers: Answers | None, name: str) -> list[Any]:
    frames = [] if answers is None else [frame for frame in answers.frames.values() if name in frame.columns]
    return sorted({label for frame in frames for label in frame[name].drop_nulls().to_list()}, key=str)[:20]


def _queries(
    audit: Audit, roles: Mapping[str, Any], warehouse: Warehouse, answers: Answers | None
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
        made_up = MadeUp.for_call(letter, rows, warehouse.arguments, answers)
        engine = RecordingEngine(warehouse.tables(made_up), answers, is_reading=False)
        try:
            audit(**{**named, first: engine.relation("raw_table")})
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


def refuse_other(tally: Tally, audit: Audit, arguments: Mapping[str, Any]) -> None:
    """Refuse rows that answer another question, or the same of other columns."""
    _refuse_viewers(arguments)
    answers = read_answers(tally)
    if answers.roles["verb"] != [audit.name]:
        raise EvenhandError(
            f"{answers.origin} was made for evenhand {answers.roles['verb'][0]}. Ask that, or print another query."
        )
    columns = [r for r in COLUMNS if r in audit.parameters]
    named = [r for r in columns if all(isinstance(c, str) for c in names_of(arguments.get(r)))]
    if error := _made_for_other(answers, audit, arguments, named):
        raise error


def unanswered(tally: Tally, audit: Audit, arguments: Mapping[str, Any]) -> EvenhandError:
    """Why the rows of a tally do not answer an audit, in words."""
    answers = read_answers(tally)
    version = "".join(answers.roles.get("version", []))
    roles = [name for name, p in audit.parameters.items() if name not in UNASKED and not p.positional]
    if error := _made_for_other(answers, audit, arguments, roles):
        return error
    if version != versions().get("evenhand", ""):
        return EvenhandError(f"{answers.origin} is a tally of another version (evenhand {version}). {AGAIN}")
    return EvenhandError(
        f"{answers.origin} does not answer all that is asked: the next query depends on its rows. Print that with evenhand sql and "
        "tally=, run it, and pass the rows of both."
    )


def _made_for_other(
    answers: Answers, audit: Audit, arguments: Mapping[str, Any], roles: Sequence[str]
) -> EvenhandError | None:
    words = []
    for role in roles:
        parameter = audit.parameters[role]
        default = [] if parameter.required else [str(value) for value in names_of(parameter.default)]
        before, now = answers.roles.get(role, default), [str(value) for value in names_of(arguments.get(role))]
        if before != now:
            was, now_is = (f"{role}={', '.join(names)!r}" if names else f"no {role}" for names in (before, now))
            words.append(f"{was}, not {now_is}")
    if not words:
        return None
    return EvenhandError(
        f"{answers.origin} was made for {'; '.join(words)}. Ask what it was made for, or print another query."
    )
