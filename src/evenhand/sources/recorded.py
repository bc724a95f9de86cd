"""A table that evenhand cannot reach: queries are printed, and answered from saved rows.

Which queries an audit asks is found by asking it, on a few rows made up here. It is asked twice, of different rows: a query that
is the same both times does not depend on the rows, so it can be run at once; what depends on them waits for the answers.
Every saved row has a mark (`part`) that says which queries it answers, and the number of rows that there must be.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import polars as pl

from evenhand.errors import EvenhandError, listing
from evenhand.sources.databases import literal, signed, values_query
from evenhand.sources.engine import Batch, Cells, DuckDBEngine, Engine, frame_of, whole_groups
from evenhand.sources.inputs import Tally
from evenhand.sources.relation import Relation
from evenhand.sources.sql import columns, expressions, parsed, quoted, select, steps_read, text

FORMAT = "evenhand-tally-5"
"""What the mark of every row begins with. Another meaning of the columns needs another number."""

PART, QUERY, IS_THERE, ROWS = "part", "query_number", "is_there", "rows_told"
"""Columns of every answer: its mark, whose rows, whether that query gave any, and how many rows there are in all."""

LABEL = ":"
"""What every label begins with on its way: one that is empty, or reads NULL or 007, comes back as it was."""

AGAIN = "Print the query again with evenhand sql, and run that one."

NULLS = ("", "NULL", "null", "Null", r"\N", "None", "nan", "NaN", "NA", "<NA>", "<null>")
"""How programs write a missing number into a file of text."""


@dataclass(frozen=True)
class Answers:
    """The answers of some queries.

    Attributes
    ----------
    frames : rows by the digest of their query, columns as the query names them.
    tables : the tables of the database that the queries read. origin : where the rows came from.
    backend : the dataframe library in which results are handed out.
    """

    frames: Mapping[str, Any]
    tables: Mapping[str, RawTable]
    origin: str
    backend: str


def read_answers(tally: Tally) -> Answers:
    """The answers in the rows of a tally; rows that were lost or are there twice are refused."""
    from evenhand.sources.opening import fetch, open_table

    frames: dict[str, Any] = {}
    tables: dict[str, RawTable] = {}
    origins, backend = [], "polars"
    for saved in tally.rows:
        opened = open_table(saved, role="tally")
        origin, backend = opened.origin, opened.backend
        frame = fetch(opened).frame if opened.schema else pl.DataFrame()
        frame = frame.rename({name: name.lower() for name in frame.columns if name.lower() not in frame.columns})
        if lost := [name for name in (PART, QUERY, IS_THERE, ROWS) if name not in frame.columns]:
            raise EvenhandError(f"{origin} is not a tally: it lacks the columns {listing(lost)}. {AGAIN}")
        mark = _read_mark(frame[PART].unique().to_list(), origin)
        expected = _numbers(frame[ROWS]).unique().to_list()
        if expected != [frame.height]:
            raise EvenhandError(
                f"{origin} has {frame.height:,} rows, and its query gave {listing(expected)}. Save each of them once."
            )
        numbers, is_there = _numbers(frame[QUERY]), _numbers(frame[IS_THERE]).is_not_null()
        for number, digest in enumerate(mark["queries"], 1):
            names = [name for name in frame.columns if name.startswith(f"a{number}_")]
            rows = frame.filter((numbers == number) & is_there).select(names)
            if rows.is_duplicated().any():  # every cell of a query is there once
                raise EvenhandError(f"{origin} has rows twice. Save each row of its query once.")
            frames[digest] = rows.rename({name: name.partition("_")[2] for name in names})
        tables |= {name: RawTable(place, kinds) for name, (place, kinds) in mark["tables"].items()}
        origins.append(origin)
    return Answers(frames, tables, listing(origins), backend)


def write_mark(queries: Sequence[Query], tables: Mapping[str, RawTable]) -> str:
    """Queries and tables as one string that is safe in any SQL dialect; the table itself may have any name."""
    places = {name: (table.place if name != TABLE else "", dict(table.kinds)) for name, table in tables.items()}
    words = json.dumps({"queries": [query.digest for query in queries], "tables": places})
    return f"{FORMAT} {base64.b64encode(words.encode()).decode()}"


def _read_mark(marks: Sequence[Any], origin: str) -> Any:
    if len(marks) != 1:
        raise EvenhandError(
            f"{origin} has no rows, or those of several queries. Save those of each in a file of their own."
        )
    version, _, words = str(marks[0]).partition(" ")
    try:
        mark = json.loads(base64.b64decode(words)) if version == FORMAT else None
    except ValueError:
        mark = None
    if isinstance(mark, dict) and {"queries", "tables"} <= mark.keys():
        return mark
    raise EvenhandError(f"{origin} is not a tally of this version ({FORMAT}). {AGAIN}")


def _numbers(column: pl.Series) -> pl.Series:
    """A column of numbers, which a file of text may hold beside words for what is missing."""
    if column.dtype == pl.String:
        bare = column.set(column.is_in(NULLS).fill_null(False), None)
        for kind in (pl.Int64, pl.Float64):
            number = bare.cast(kind, strict=False)
            if number.null_count() == bare.null_count():
                return number
    if column.dtype.is_numeric() or column.dtype == pl.Null:
        return column
    raise EvenhandError(f"The tally holds no numbers in {column.name!r}. Save the rows as the query gave them.")


TABLE = "raw_table"
"""What the table of an audit is called in its queries."""

MOST_VALUES = 10_000
"""Rows that a query may bring along: they are written into it."""

KINDS: Mapping[str, tuple[Any, str]] = {
    "label": (nw.String(), "VARCHAR"),
    "number": (nw.Float64(), "DOUBLE"),
    "whole": (nw.Int64(), "BIGINT"),
    "truth": (nw.Boolean(), "BOOLEAN"),
}
"""What a column may be declared to hold: its type for the checks of roles, and in DuckDB."""


class NeedsRowsError(EvenhandError):
    """The audit needs whole groups of rows, which no aggregate query returns."""


@dataclass(frozen=True)
class RawTable:
    """A table of the database: its name there, its columns with their kinds, made-up rows."""

    place: str
    kinds: Mapping[str, str]
    rows: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Query:
    """A recorded query: its text, the steps that it reads, the columns of its answer."""

    text: str
    steps: Mapping[str, str]
    types: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Tells this query from others, whatever table it is run on."""
        words = " ".join([*self.steps.values(), self.text]).split()
        return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


class RecordingEngine(Engine):
    """Answers queries from a tally; others are recorded and answered by made-up rows."""

    has_row_order = False
    has_rows = False

    def __init__(self, tables: Mapping[str, RawTable], answers: Answers | None = None, *, is_reading: bool) -> None:
        self.tables = tables
        self.answers = answers
        self.is_reading = is_reading
        self.recorded: list[Query] = []
        self._steps: dict[str, str] = {}
        self._local = DuckDBEngine()
        for name, table in tables.items():
            kinds = ", ".join(f"{quoted(column)} {KINDS[kind][1]}" for column, kind in table.kinds.items())
            self._local.execute(f"CREATE TEMPORARY TABLE {name} ({kinds})")
            if table.rows:
                rows = zip(*(table.rows[column] for column in table.kinds), strict=True)
                lines = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
                self._local.execute(f"INSERT INTO {name} VALUES {lines}")

    def table(self, name: str, role: str) -> Relation:
        """A table of the database by the name that it has there."""
        inner = next((inner for inner, table in self.tables.items() if table.place == name), None)
        if inner is None:
            raise EvenhandError(
                f"{role}={name!r} is a table that the query of this tally did not count. Print the query with it, or pass how many "
                "there are, or {slice: number}."
            )
        return self.relation(inner)

    def relation(self, inner: str) -> Relation:
        """A table of the database as audits take it."""
        kinds = self.tables[inner].kinds
        schema = {column: KINDS[kind][0] for column, kind in kinds.items()}
        origin, backend = (self.answers.origin, self.answers.backend) if self.answers else ("a database", "polars")
        place = self.tables[inner].place
        return Relation(self, inner, schema, {c: quoted(c) for c in kinds}, backend, place or origin)

    def cells(self, query: str) -> Cells:
        request = Query(query, steps_read(query, self._steps), self._local.types(query))
        answered = self.answers.frames.get(request.digest) if self.answers is not None else None
        if answered is not None:
            return Cells(_typed(answered, request.types))
        if self.is_reading:
            raise EvenhandError(
                f"{self.answers.origin if self.answers else 'The tally'} does not answer all that is asked: it was made for another call, "
                "or the next query depends on its rows. Print that with evenhand sql and tally=, run it, and pass the rows of both."
            )
        if request.digest not in [other.digest for other in self.recorded]:
            self.recorded.append(request)
        return self._local.cells(query)

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        """Whole groups of rows that a query has added up; single rows stay where they are."""
        if not self.is_reading and not adds_up(parsed(query)):
            raise NeedsRowsError(
                "This needs the rows themselves, and a tally holds none. Leave it out, or pass the table."
            )
        rows = self.cells(query).frame.sort([*key, *order], nulls_last=True)
        yield from whole_groups([rows], key, key, order)

    def bring(self, frame: Any) -> str:
        rows = frame_of(frame)
        if rows.height > MOST_VALUES:
            raise NeedsRowsError(
                f"The query would have to bring {rows.height:,} rows along, more than {MOST_VALUES:,}. Pass the table itself."
            )
        return self.view(values_query(signed(rows)))

    def keep(self, query: str) -> str:
        return self.view(query)

    def view(self, query: str) -> str:
        """The name of a step that is written before each query that reads it."""
        name = f"step_{len(self._steps) + 1}"
        self._steps[name] = query
        self._local.execute(f"CREATE TEMPORARY VIEW {name} AS {query}")
        return name


def adds_up(tree: Any) -> bool:
    """Whether the rows of a query (of sqlglot) are aggregates, and not rows of the table.

    >>> adds_up(parsed("SELECT a, SUM(b) AS b FROM t GROUP BY a"))
    True
    >>> adds_up(parsed("SELECT a FROM (SELECT a FROM t GROUP BY a) AS c JOIN d USING (a)"))
    True
    >>> adds_up(parsed("SELECT a FROM t JOIN (SELECT b FROM d GROUP BY b) AS c USING (b)"))
    False
    """
    if tree.args.get("group") is not None:
        return True
    source = tree.find(expressions().From).this  # the outermost
    return isinstance(source, expressions().Subquery) and adds_up(source.this)


def open_tally(tally: Tally) -> Relation:
    """The table that a tally stands for: its queries are answered by the rows."""
    answers = read_answers(tally)
    return RecordingEngine(answers.tables, answers, is_reading=True).relation(TABLE)


def _is_label(kind: str) -> bool:
    return kind in ("VARCHAR", "BOOLEAN", "DATE", "TIME") or kind.startswith("TIMESTAMP")


def _typed(frame: pl.DataFrame, types: Mapping[str, str]) -> pl.DataFrame:
    """An answer with the types that its query gives here."""
    if lost := [name for name in types if name not in frame.columns]:
        raise EvenhandError(f"The tally lacks the columns {listing(lost)} of its query. Save all columns.")
    truths = {"true": True, "false": False, "t": True, "f": False}
    typed = []
    for name, kind in types.items():
        column = frame[name]
        if _is_label(kind):
            column = column.cast(pl.String)
            column = column.set(~column.str.starts_with(LABEL), None).str.strip_prefix(LABEL)
            if kind == "BOOLEAN":
                column = column.str.to_lowercase().replace_strict(truths, default=None)
        else:
            column = _numbers(column)
            if "INT" in kind:
                is_whole = column.dtype.is_integer()
                column = (column if is_whole else column.cast(pl.Float64).round()).cast(pl.Int64)
            else:
                column = column.cast(pl.Float64)
        typed.append(column.alias(name))
    return pl.DataFrame(typed)


def statement(queries: Sequence[Query], tables: Mapping[str, RawTable]) -> str:
    """One query whose rows are the answers of several, numbered, each with the mark."""
    numbers = range(1, len(queries) + 1)
    steps = {name: step for query in queries for name, step in query.steps.items()}
    words = " ".join([*steps.values(), *(query.text for query in queries)])
    raw = {name: t for name, t in tables.items() if re.search(rf"\b{name}\b", words)}
    parts = {name: f"SELECT {columns(t.kinds)} FROM {place_of(name)}" for name, t in raw.items()} | steps
    values: dict[str, str] = {}
    for k, query in zip(numbers, queries, strict=True):
        parts[f"answer_{k}"] = f"SELECT {k} AS {QUERY}, {columns(query.types)} FROM ({query.text}) AS answered"
        for column, kind in query.types.items():
            value = f"answer_{k}.{quoted(column)}"
            values[f"a{k}_{column}"] = f"{text(LABEL)} || CAST({value} AS VARCHAR)" if _is_label(kind) else value
    numbered = " UNION ALL ".join(f"SELECT {k} AS {QUERY}" for k in numbers)
    joined = " ".join(f"LEFT JOIN answer_{k} ON asked.{QUERY} = answer_{k}.{QUERY}" for k in numbers)
    is_there = f"COALESCE({', '.join(f'answer_{k}.{QUERY}' for k in numbers)}, NULL)"
    mark = text(write_mark(queries, tables))
    chosen = {PART: mark, QUERY: f"asked.{QUERY}", IS_THERE: is_there, **values, ROWS: "COUNT(*) OVER ()"}
    steps_text = ", ".join(f"{name} AS ({step})" for name, step in parts.items())
    return f"WITH {steps_text} SELECT {select(chosen)} FROM ({numbered}) AS asked {joined}"


def place_of(name: str) -> str:
    """Placeholder of a database table until the query is printed."""
    return f"place_of_{name}"
