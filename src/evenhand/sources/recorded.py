"""A table that evenhand cannot reach: queries are printed, and answered from saved rows.

Which queries an audit asks is found by asking it, on a few rows made up here. It is asked twice, of different rows: a query that
is the same both times does not depend on the rows, so it can be run at once; what depends on them waits for the answers.
Every saved row has a mark (`part`) that says what it was made for, and sums that say whether something was lost or changed on the way.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from evenhand.errors import EvenhandError, listing
from evenhand.sources.databases import literal, signed, values_query
from evenhand.sources.engine import Batch, Cells, DuckDBEngine, Engine, frame_of, whole_groups
from evenhand.sources.inputs import Tally
from evenhand.sources.relation import Relation
from evenhand.sources.sql import columns, quoted, select, steps_read, text

FORMAT = "evenhand-tally-4"
"""What the mark of every row begins with. Another meaning of the columns needs another number."""

QUERY, ROWS, CHECK, CHECKS = "query_number", "rows_told", "row_check", "check_told"
"""Columns of every answer: whose rows, how many there are in all, a sum over the columns of a row, and the sum of these."""

OFFSET, NOTHING = 1e-9, -99.0
"""What is added to a number before its logarithm is taken, and what stands for one that is missing."""

AGAIN = "Print the query again with evenhand sql, and run that one."
SAVE = "Save the rows as the query gave them."

NULLS = ("", "NULL", "null", "Null", r"\N", "None", "nan", "NaN", "NA", "<NA>", "<null>")
"""How programs write what is missing into a file of text, where a word of the same letters would not look different."""


class UnansweredError(EvenhandError):
    """An audit asks a query that the rows of a tally do not answer."""


def mark_of(verb: str, roles: Mapping[str, Any]) -> str:
    """An audit and its arguments by role as one string that is safe in any SQL dialect.

    >>> mark_of("inequality", {"unit": "author", "amount": None, "by": ["a", "b's"]})
    'evenhand-tally-4 verb=inequality unit=author amount= by=a by=b~27~s'
    """
    words = [FORMAT, f"verb={verb}"]
    for role, argument in roles.items():
        values = [] if argument is None else [argument] if not isinstance(argument, (list, tuple)) else argument
        encoded = [re.sub(r"[^a-zA-Z0-9_.-]", lambda m: f"~{ord(m[0]):x}~", str(value)) for value in values]
        words += [f"{role}={value}" for value in encoded or [""]]
    return " ".join(words)


def roles_of(mark: str) -> dict[str, list[str]]:
    """Arguments by role, parsed from what `mark_of` wrote.

    >>> roles_of("evenhand-tally-4 verb=inequality amount= by=a by=b~27~s")
    {'verb': ['inequality'], 'amount': [], 'by': ['a', "b's"]}
    """
    roles: dict[str, list[str]] = {}
    for word in mark.split(" ")[1:]:
        role, _, value = word.partition("=")
        values = roles.setdefault(role, [])
        values += [re.sub(r"~([0-9a-f]+)~", lambda m: chr(int(m[1], 16)), value)] if value else []
    return roles


@dataclass(frozen=True)
class Answers:
    """The answers of some queries.

    Attributes
    ----------
    frames : rows by the digest of their query, columns as the query names them.
    roles : what the queries were printed for, by role. origin : where the rows came from.
    backend : the dataframe library in which results are handed out.
    """

    frames: Mapping[str, Any]
    roles: Mapping[str, list[str]]
    origin: str
    backend: str


def read_answers(tally: Tally) -> Answers:
    """The answers in the rows of a tally; rows that were lost or changed are refused."""
    frames: dict[str, Any] = {}
    marks: list[dict[str, list[str]]] = []
    origins, backend = [], "polars"
    for saved in tally.rows:
        frame, origin, backend = _frame(saved)
        roles = roles_of(_mark(frame, origin))
        digests = roles.pop("query", [])
        frame = _checked(frame, origin)
        for number, digest in enumerate(digests, 1):
            rows = frame.filter((pl.col(QUERY) == number) & pl.col("is_there").is_not_null())
            names = [name for name in frame.columns if re.match(rf"[tn]{number}_", name)]
            frames[digest] = rows.select(names).rename({name: name.partition("_")[2] for name in names})
        marks.append(roles)
        origins.append(origin)
    origin = listing(origins)
    if any(roles != marks[0] for roles in marks):
        raise EvenhandError(f"{origin} were made for different questions. Pass the rows of one, query after query.")
    return Answers(frames, marks[0] if marks else {}, origin, backend)


def _frame(rows: Any) -> tuple[pl.DataFrame, str, str]:
    """The rows as a Polars frame with names in lower case, their origin and library."""
    from evenhand.sources.opening import fetch, open_table

    opened = open_table(rows, role="tally")
    frame = fetch(opened).frame if opened.schema else pl.DataFrame()
    frame = frame.rename({name: name.lower() for name in frame.columns if name.lower() not in frame.columns})
    if "part" not in frame.columns:
        raise EvenhandError(f"{opened.origin} is not a tally: it has no column 'part'. {AGAIN}")
    labels, _ = columns_of(frame.columns)
    return frame.with_columns(frame[name].cast(pl.String) for name in labels), opened.origin, opened.backend


def columns_of(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The label columns and the number columns of an answer, in the order of checksums.

    >>> columns_of(["part", "t1_via", "n2_views", "n1_units"])
    (['t1_via'], ['n1_units', 'n2_views'])
    """
    labels = sorted(name for name in names if re.match(r"t\d+_", name))
    return labels, sorted(name for name in names if re.match(r"n\d+_", name))


def _mark(frame: pl.DataFrame, origin: str) -> str:
    """The mark that all rows share; rows of several queries are refused."""
    marks = frame["part"].unique().to_list()
    if not marks:
        raise EvenhandError(f"{origin} has no rows. Save those that the query gave.")
    strange = [mark for mark in marks if not isinstance(mark, str) or not mark.startswith(FORMAT + " ")]
    if strange:
        kind = str(strange[0]).partition(" ")[0]
        other = isinstance(strange[0], str) and kind.startswith(FORMAT.rpartition("-")[0])
        what = f"a tally of another version ({kind}, and this one reads {FORMAT})" if other else "not a tally"
        raise EvenhandError(f"{origin} is {what}. {AGAIN}")
    if len(marks) > 1:
        raise EvenhandError(f"{origin} holds rows of several queries. Save those of each in a file of their own.")
    return str(marks[0])


def _with_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows, numbers as such where a file of text had them beside words for what is missing."""
    numbers = []
    for name in (*columns_of(frame.columns)[1], QUERY, ROWS, CHECK, CHECKS, "is_there"):
        if frame.schema[name] == pl.String:
            bare = frame[name].set(frame[name].is_in(NULLS).fill_null(False), None)
            for kind in (pl.Int64, pl.Float64):
                number = bare.cast(kind, strict=False)
                if number.null_count() == bare.null_count():
                    numbers.append(number)
                    break
    return frame.with_columns(numbers)


def _as_sent(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with the labels that the database sent.

    Text knows no difference between a label that is missing and one that is empty or reads NULL, but the check of its row does.
    """
    labels, _ = columns_of(frame.columns)
    readings = [pl.col(c).fill_null("") for c in labels] + [
        pl.col(c).replace(word, None) for c in labels for word in NULLS
    ]
    if len(labels) > 1:
        readings += [pl.col(*labels).fill_null(""), *(pl.col(*labels).replace(word, None) for word in NULLS)]
    for reading in readings:
        wrong = _changed(frame)
        if not wrong.any():
            break
        other = frame.with_columns(reading)
        better = pl.Series(wrong & ~_changed(other))
        frame = frame.with_columns(pl.when(better).then(other[c]).otherwise(frame[c]).alias(c) for c in labels)
    return frame


def _changed(frame: pl.DataFrame) -> Any:
    """(rows,) where the sum over a row is not the one that the database sent."""
    labels, numbers = columns_of(frame.columns)
    checks = np.zeros(frame.height)
    with np.errstate(all="ignore"):
        terms = [(frame[c].str.len_chars() + 1).fill_null(0).cast(pl.Float64).to_numpy() for c in labels]
        values = [frame[c].cast(pl.Float64, strict=False).to_numpy() for c in numbers]
        terms += [np.where(np.isnan(v), NOTHING, np.log(OFFSET + np.abs(v)) + np.sign(v)) for v in values]
        for k, term in enumerate(terms, 1):
            checks += k * term
        expected = frame[CHECK].cast(pl.Float64).to_numpy()
        return ~np.isclose(checks, expected, rtol=0, atol=1e-8, equal_nan=True)  # databases round logarithms otherwise


def _checked(frame: pl.DataFrame, origin: str) -> pl.DataFrame:
    """The rows with their types, if none was lost, repeated or changed."""
    lost = [name for name in (QUERY, "is_there", ROWS, CHECK, CHECKS) if name not in frame.columns]
    if lost:
        raise EvenhandError(f"{origin} lacks the columns {listing(lost)} of its query. Save all columns.")
    frame = _with_numbers(frame)
    wrong = [
        c
        for c in (*columns_of(frame.columns)[1], ROWS, CHECK)
        if not (frame.schema[c].is_numeric() or frame.schema[c] == pl.Null)
    ]
    if wrong:
        raise EvenhandError(f"{origin} holds no numbers in {listing(wrong)}. {SAVE}")
    frame = _as_sent(frame)
    expected, actual = frame[ROWS][0], frame.height
    if frame[ROWS].n_unique() > 1 or expected is None:
        raise EvenhandError(f"{origin} holds rows of several runs of its query. Save those of one.")
    if int(expected) != actual:
        raise EvenhandError(
            f"{origin} has {actual:,} rows, and its query gave {int(expected):,}. Save each of them once."
        )
    if changed := int(_changed(frame).sum()):
        raise EvenhandError(f"{origin} has {changed:,} rows in which something was changed, or a column less. {SAVE}")
    sums = float(frame[CHECK].cast(pl.Float64).sum()), float(frame[CHECKS][0])
    if not np.isclose(*sums, rtol=1e-12, atol=1e-6, equal_nan=True):
        raise EvenhandError(f"{origin} lacks rows of its query and has others twice. {SAVE}")
    return frame


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
        steps = steps_read(query, self._steps, lambda step: set(re.findall(r"\bstep_\d+\b", step)))
        request = Query(query, {name: self._steps[name] for name in steps}, self._local.types(query))
        answered = self.answers.frames.get(request.digest) if self.answers is not None else None
        if answered is not None:
            return Cells(_typed(answered, request.types))
        if self.is_reading:
            raise UnansweredError(
                "The rows do not answer what this audit asks. Print its query with evenhand sql, and run that one."
            )
        if request.digest not in [other.digest for other in self.recorded]:
            self.recorded.append(request)
        return self._local.cells(query)

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        """Whole groups of rows that a query has added up; single rows stay where they are."""
        if not adds_up(query):
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


def adds_up(query: str) -> bool:
    """Whether the rows of a query are aggregates, and not rows of the table.

    >>> adds_up("SELECT a, SUM(b) AS b FROM t GROUP BY a"), adds_up("SELECT a FROM (SELECT a FROM t GROUP BY a) AS c JOIN d USING (a)")
    (True, True)
    >>> adds_up("SELECT a FROM t JOIN (SELECT b FROM d GROUP BY b) AS c USING (b)")
    False
    """
    depth, outside, first, is_first = 0, "", "", False
    for character in query:
        depth -= character == ")"
        if depth:
            first += character if is_first else ""
        else:
            is_first = character == "(" and not first and outside.rstrip().endswith("FROM")
            outside += character
        depth += character == "("
    return "GROUP BY" in outside or (bool(first) and adds_up(first))


def open_tally(tally: Tally) -> Relation:
    """The table that a tally stands for: its queries are answered by the rows."""
    answers = read_answers(tally)
    kinds: dict[str, dict[str, str]] = {"raw_table": {}}
    for role, columns_of_kind in answers.roles.items():
        name, _, kind = role.partition(".")
        if kind in KINDS:
            kinds.setdefault(name, {}).update(dict.fromkeys(columns_of_kind, kind))
    places = {name: "".join(answers.roles.get(f"{name}.place", [])) for name in kinds}
    tables = {name: RawTable(places[name], columns) for name, columns in kinds.items()}
    return RecordingEngine(tables, answers, is_reading=True).relation("raw_table")


def _typed(frame: pl.DataFrame, types: Mapping[str, str]) -> pl.DataFrame:
    """An answer with the types that its query gives here."""
    if lost := [name for name in types if name not in frame.columns]:
        raise EvenhandError(f"The tally lacks the columns {listing(lost)} of its query. Save all columns.")
    truths = {"true": True, "false": False, "t": True, "f": False}
    typed = []
    for name, kind in types.items():
        column = frame[name]
        if kind == "BOOLEAN":
            column = column.cast(pl.String).str.to_lowercase().replace_strict(truths, default=None)
        elif kind == "VARCHAR":
            column = column.cast(pl.String)
        elif "INT" in kind:
            is_whole = column.dtype.is_integer()
            column = (column if is_whole else column.cast(pl.Float64).round()).cast(pl.Int64)
        elif kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
            column = column.cast(pl.Float64)
        typed.append(column.alias(name))
    return pl.DataFrame(typed)


def statement(queries: Sequence[Query], tables: Mapping[str, RawTable], mark: str) -> str:
    """One query whose rows are the answers of several, numbered, with marks and checksums."""
    numbers = range(1, len(queries) + 1)
    steps = {name: step for query in queries for name, step in query.steps.items()}
    words = " ".join([*steps.values(), *(query.text for query in queries)])
    raw = {name: t for name, t in tables.items() if re.search(rf"\b{name}\b", words)}
    parts = {name: f"SELECT {columns(t.kinds)} FROM {place_of(name)}" for name, t in raw.items()} | steps
    names: dict[str, str] = {}
    for k, query in zip(numbers, queries, strict=True):
        parts[f"answer_{k}"] = f"SELECT {k} AS {QUERY}, {columns(query.types)} FROM ({query.text}) AS answered"
        for column, kind in query.types.items():
            value = f"answer_{k}.{quoted(column)}"
            is_label = kind in ("VARCHAR", "BOOLEAN", "DATE", "TIME") or kind.startswith("TIMESTAMP")
            names[f"{'t' if is_label else 'n'}{k}_{column}"] = f"CAST({value} AS VARCHAR)" if is_label else value
    numbered = " UNION ALL ".join(f"SELECT {k} AS {QUERY}" for k in numbers)
    joined = " ".join(f"LEFT JOIN answer_{k} ON asked.{QUERY} = answer_{k}.{QUERY}" for k in numbers)
    is_there = f"COALESCE({', '.join(f'answer_{k}.{QUERY}' for k in numbers)}, NULL)"
    chosen = {QUERY: f"asked.{QUERY}", "is_there": is_there, **names}
    parts["answers"] = f"SELECT {select(chosen)} FROM ({numbered}) AS asked {joined}"
    parts["checked"] = f"SELECT {columns(chosen)}, {_row_check(list(names))} AS {CHECK} FROM answers"
    steps_text = ", ".join(f"{name} AS ({step})" for name, step in parts.items())
    return (
        f"WITH {steps_text} SELECT {text(mark)} AS part, {columns([*chosen, CHECK])}, COUNT(*) OVER () AS {ROWS}, "
        f"SUM({CHECK}) OVER () AS {CHECKS} FROM checked"
    )


def place_of(name: str) -> str:
    """Placeholder of a database table until the query is printed."""
    return f"place_of_{name}"


def _row_check(names: Sequence[str]) -> str:
    """The checksum of a row: lengths of labels and logarithms of numbers, by position."""
    labels, numbers = columns_of(names)
    terms = [f"COALESCE(LENGTH({quoted(name)}) + 1, 0)" for name in labels]
    for name in numbers:
        value = f"CAST({quoted(name)} AS DOUBLE)"
        terms.append(f"COALESCE(LN({OFFSET!r} + ABS({value})) + SIGN({value}), {NOTHING!r})")
    return " + ".join(f"{k} * {term}" for k, term in enumerate(terms, 1)) or "0"
