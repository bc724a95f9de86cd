"""Who received what: a log of units and amounts with known column names, checked before anything is added up; and everyone who
could have received something: a number, numbers by slice, or a table of units beside the log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, listing, refuse_problems
from evenhand.sources.engine import Engine, InEngine
from evenhand.sources.opening import open_table
from evenhand.sources.relation import (
    Relation,
    Type,
    count_groups,
    counted_rows,
    fits_int64,
    is_number,
    label_problems,
    missing_columns,
    role_problems,
    slice_problems,
)
from evenhand.sources.sql import columns, count_where, quoted, select

LARGEST_SUM = 9e18
"""Above this an int64 sum could wrap; amounts are then added as float64, good to 16 digits."""

MOST_AMOUNTS = 300  # a query for each, and each query reads the whole SELECT: time grows with the square
NO_ROWS = "The table has no rows. Pass a table of who received what; check the path or the filter before it."

NanPolicy = Literal["raise", "omit", "propagate"]
Label = tuple[Any, ...]


@dataclass(frozen=True)
class Amount:
    """An amount column: its name in the user's table (None: rows are counted), its name in a `Log`, and its type.

    Attributes
    ----------
    integer : whether amounts are added up as whole numbers.
    missing : rows without the amount.
    """

    name: str | None
    column: str
    integer: bool
    missing: int


@dataclass(frozen=True)
class Log:
    """A checked log with columns `unit`, `by_0..`, `amount_0..`, `weight` and marks, whichever roles were named.

    Attributes
    ----------
    engine : where its queries run.
    sql : a SELECT of these columns; stands in brackets after FROM (`rows`).
    types : the type of each column.
    backend : the dataframe library in which results are handed out. origin : a few words on where the table came from.
    unit, by, weight : the columns of the user's table in these roles.
    amounts : the amount columns. rows : rows read.
    dropped : rows left out, by reason.
    """

    engine: Engine
    sql: str
    types: Mapping[str, Type]
    backend: str
    origin: str
    unit: str | None
    by: tuple[str, ...]
    amounts: tuple[Amount, ...]
    weight: str | None
    rows: int
    nan_policy: NanPolicy
    dropped: dict[str, int]

    @property
    def keys(self) -> list[str]:
        return [f"by_{i}" for i in range(len(self.by))]

    @property
    def source(self) -> str:
        """The log as it stands after FROM."""
        return f"({self.sql}) AS log"

    def is_number(self, key: str) -> bool:
        return is_number(self.types.get(key))

    def with_rows(self, sql: str, types: Mapping[str, Type]) -> Log:
        """The log read by another SELECT, which has additional columns."""
        return replace(self, sql=sql, types={**self.types, **types})

    def with_columns(self, expressions: Mapping[str, str], types: Mapping[str, Type]) -> Log:
        """The log with columns replaced or added: SQL by column name, over its own columns."""
        unchanged = {name: quoted(name) for name in self.types}
        return self.with_rows(f"SELECT {select({**unchanged, **expressions})} FROM {self.source}", types)

    def non_missing(self, amount: Amount) -> str:
        """The rows whose amount is known, as they stand after FROM."""
        return f"{self.source} WHERE {quoted(amount.column)} IS NOT NULL" if amount.missing else self.source

    def value(self, amount: Amount) -> str:
        """SQL of what a row adds to its unit's amount."""
        return quoted(amount.column) if amount.name is not None else "CAST(1 AS BIGINT)"

    def sums(self, amount: Amount, keys: Sequence[str]) -> str:
        """A SELECT of what was received in all by each combination of `keys`: `amount`, and the extreme weights where there are any.

        Rows whose amount is missing are left out.
        """
        total = "COUNT(*)" if amount.name is None else f"SUM({quoted(amount.column)})"
        added = f"CAST({total} AS {'BIGINT' if amount.integer else 'DOUBLE'}) AS amount"
        weights = ", MAX(weight) AS weight, MIN(weight) AS least_weight" if self.weight is not None else ""
        return f"SELECT {columns(keys)}, {added}{weights} FROM {self.non_missing(amount)} GROUP BY {columns(keys)}"

    def broken(self, amount: Amount) -> frozenset[Label]:
        """Slices that a missing amount spoils: those that hold one, where it propagates."""
        if not amount.missing or self.nan_policy != "propagate":
            return frozenset()
        if not self.keys:
            return frozenset({()})
        query = f"SELECT DISTINCT {columns(self.keys)} FROM {self.source} WHERE {quoted(amount.column)} IS NULL"
        return frozenset(self.engine.cells(query).labels(self.keys))


def open_log(
    table: Any, *, unit: str | None, amount: str | Sequence[str] | None, by: Sequence[str] = (), weight: str | None = None,
    nan_policy: NanPolicy = "raise", population_by: Sequence[str] = (), part: str = "", marks: Mapping[str, str] | None = None,
) -> Log:  # fmt: skip
    """A log with its roles checked and everything that is wrong with its values counted by one query.

    Parameters
    ----------
    population_by : slice columns that another table (the population) holds; they are joined in later.
    part : the role (`"source"`, `"group"`) of the last column of `by` where that one is not a slice.
    marks : labels that every row has, by role (`{"arm": "variant"}`); they are columns of that name. A missing `source` is a label
        of its own, as a missing slice is.
    """
    names: list[Any] = [] if amount is None else list(amount) if isinstance(amount, (list, tuple)) else [amount]
    needed = ({"unit": unit} if unit is not None else {}) | dict(marks or {})
    slices = {f"by_{i}": b for i, b in enumerate(by) if b not in population_by}
    opened = open_table(table, columns=[*needed.values(), *names, *slices.values(), weight]).with_numbers(
        *names, weight
    )
    if nan_policy not in ("raise", "omit", "propagate"):
        raise EvenhandError(f"nan_policy={nan_policy!r} is unknown. Use 'raise', 'omit' or 'propagate'.")
    roles = [*needed.items(), *(("amount", a) for a in names), *(("by", b) for b in slices.values())]
    roles += [("weight", weight)] if weight is not None else []
    if part and by[-1] in slices.values():
        roles[roles.index(("by", by[-1]))] = (part, by[-1])
    multiple = not isinstance(amount, str) and amount is not None
    _refuse_bad_names(opened, roles, unit, names, list(by), part, multiple=multiple)
    required = {role: column for role, column in needed.items() if role != "source"}
    facts = _facts(opened, names, {role: opened.label(column) for role, column in required.items()}, weight)
    refuse_problems(value_problems(facts, names, required, weight, nan_policy), where="The table")
    amounts = [
        Amount(name, f"amount_{i}", _stays_integer(opened.schema[name], facts, i), int(facts[f"missing_{i}"]))
        for i, name in enumerate(names)
    ]
    chosen = {role: opened.label(column) for role, column in (needed | slices).items()}
    types: dict[str, Type] = {role: opened.label_type(column) for role, column in (needed | slices).items()}
    chosen |= {a.column: opened.number(str(a.name), "BIGINT" if a.integer else "DOUBLE") for a in amounts}
    types |= {a.column: nw.Int64() if a.integer else nw.Float64() for a in amounts}
    if weight is not None:
        chosen["weight"], types["weight"] = opened.number(weight), nw.Float64()
    if not chosen:
        chosen, types = {"row_of_log": "1"}, {"row_of_log": nw.Int64()}
    lost = [role for role in required if facts[f"missing_{role}"]]
    dropped = {f"{needed[role]} is missing": int(facts[f"missing_{role}"]) for role in lost}
    if nan_policy == "omit":
        dropped |= {f"{a.name} is missing": a.missing for a in amounts if a.missing}
    where = f" WHERE {' AND '.join(f'{chosen[role]} IS NOT NULL' for role in lost)}" if lost else ""
    return Log(
        opened.engine, opened.select(chosen) + where, types, opened.backend, opened.origin, unit, tuple(by),
        tuple(amounts) or (Amount(None, "", True, 0),), weight, int(facts["rows"]), nan_policy, dropped,
    )  # fmt: skip


def _refuse_bad_names(
    opened: Relation, roles: Sequence[tuple[str, Any]], unit: str | None, names: list[str], by: list[str], part: str, *,
    multiple: bool,
) -> None:  # fmt: skip
    nameless = [(role, name) for role, name in [*roles, *(("by", b) for b in by)] if not isinstance(name, str)]
    refuse_problems(missing_columns(opened, list(dict.fromkeys(nameless))), where="The call")
    problems = role_problems(opened, roles, ("amount", "weight"))
    problems += name_problems(unit, names, by, part, multiple=multiple)
    if problems and not missing_columns(opened, roles) and not opened.facts({"n": "COUNT(*)"})["n"]:
        raise EvenhandError(NO_ROWS)  # a file of a header alone has no types to speak of
    refuse_problems(problems, where="The call")


def name_problems(unit: str | None, names: Sequence[str], by: Sequence[str], part: str, *, multiple: bool) -> list[str]:
    """Problems with the named columns alone; `part` is the role of the last of `by`."""
    slices = list(by[:-1] if part else by)
    problems = slice_problems(slices, {"amount"} if multiple else ())
    problems += [
        f"amount names {a!r} twice. Name each column once." for a in sorted({a for a in names if names.count(a) > 1})
    ]
    problems += [f"unit={unit!r} is also named in by. A unit cannot be its own slice." for b in slices if b == unit]
    if part and by[-1] in [unit, *slices]:
        problems.append(
            f"{part}={by[-1]!r} is also named as {'unit' if by[-1] == unit else 'by'}. Name another column."
        )
    if len(names) > MOST_AMOUNTS:
        problems.append(
            f"amount names {len(names):,} columns, more than {MOST_AMOUNTS}. Reshape the table to one row per unit and kind of "
            "amount, and name the column of the kind in by."
        )
    if multiple and not names:
        problems.append("amount is an empty list. Name at least one column, or pass None to count rows.")
    return problems


def _facts(opened: Relation, names: Sequence[str], labels: Mapping[str, str], weight: str | None) -> dict[str, Any]:
    numbers = {
        str(i): opened.number(a, "BIGINT" if fits_int64(opened.schema[a]) else "DOUBLE") for i, a in enumerate(names)
    }
    numbers |= {"weight": opened.number(weight)} if weight is not None else {}
    inner = {f"number_{tag}": number for tag, number in numbers.items()}
    inner |= {f"label_{role}": label for role, label in labels.items()}
    aggregates = {"rows": "COUNT(*)"}
    aggregates |= {f"missing_{role}": count_where(f"{quoted(f'label_{role}')} IS NULL") for role in labels}
    for tag in numbers:
        number = quoted(f"number_{tag}")
        aggregates |= {
            f"missing_{tag}": count_where(f"{number} IS NULL"),
            f"negative_{tag}": count_where(f"{number} < 0"),
        }
        aggregates |= {f"low_{tag}": f"MIN({number})", f"high_{tag}": f"MAX({number})"}
    aggregates |= {f"sum_{tag}": f"SUM(CAST({quoted(f'number_{tag}')} AS DOUBLE))" for tag in numbers}
    rows = f"({opened.select(inner)}) AS numbers" if inner else opened.name
    facts = opened.engine.cells(f"SELECT {select(aggregates)} FROM {rows}").row()
    return {name: 0.0 if value is None else float(value) for name, value in facts.items()}


def value_problems(
    facts: Mapping[str, Any], names: Sequence[str], needed: Mapping[str, str], weight: str | None, nan_policy: NanPolicy
) -> list[str]:
    if not facts["rows"]:
        return [NO_ROWS]
    problems = []
    for i, name in enumerate(names):
        missing, negative = int(facts[f"missing_{i}"]), int(facts[f"negative_{i}"])
        if missing and nan_policy == "raise":
            problems.append(
                f"amount={name!r} is missing (null or NaN) in {missing:,} of {int(facts['rows']):,} rows. "
                "Fill them, or pass nan_policy='omit' or nan_policy='propagate'."
            )
        if negative:
            problems.append(f"amount={name!r} is negative in {counted_rows(negative)}. Pass amounts of zero or more.")
        if facts[f"high_{i}"] == math.inf:
            problems.append(f"amount={name!r} is infinite in some rows. Pass finite amounts.")
        elif facts[f"sum_{i}"] == math.inf:
            problems.append(f"amount={name!r} adds up to more than a number can hold. Pass it in a larger unit.")
    problems += [
        f"{role}={column!r} is missing in {counted_rows(facts[f'missing_{role}'])}. Remove them, or pass nan_policy='omit'."
        for role, column in needed.items()
        if facts[f"missing_{role}"] and nan_policy != "omit"
    ]
    if weight is not None and (facts["missing_weight"] or facts["low_weight"] < 0 or facts["high_weight"] == math.inf):
        problems.append(f"weight={weight!r} holds missing, negative or infinite values. Pass weights of zero or more.")
    return problems


def _stays_integer(kind: Type, facts: Mapping[str, Any], i: int) -> bool:
    """Whether amounts are added up as int64; the facts are float64, exact for whole numbers up to 2**53."""
    exact = fits_int64(kind) or (kind.is_integer() and facts[f"high_{i}"] <= 2**53)
    return bool(exact and facts[f"sum_{i}"] <= LARGEST_SUM)


def slice_words(labels: Sequence[Any]) -> str:
    return listing(repr(label if len(label) > 1 else label[0]) for label in labels)


MOST_UNITS = 2**53
AT_MOST = f"Pass at most {MOST_UNITS:,} units: above that a number loses its last digits."


def open_population(
    population: Any,
    unit: str | None,
    *,
    columns: Sequence[str] = (),
    numbers: Sequence[str] = (),
    same_engine_as: Relation | None = None,
) -> Any:
    """The checked `population`: None, a count, counts by slice, or a relation.

    `columns` are slice columns that it may hold; `same_engine_as` is the table of the log.
    """
    if population is None or isinstance(population, Mapping):
        return population
    if isinstance(population, bool) or (isinstance(population, float) and not population.is_integer()):
        raise EvenhandError(
            f"population={population!r} is not a number of units. Pass a whole number, a table, or None."
        )
    if isinstance(population, (int, float, np.integer)):
        if population < 1:
            raise EvenhandError(
                f"population={population} is not a number of units. Pass how many could have received something."
            )
        if population > MOST_UNITS:
            is_short = isinstance(population, float) or population < 10**40
            typed = population if is_short else "a number of more than 40 digits"
            raise EvenhandError(f"population={typed} is too many. {AT_MOST}")
        return int(population)
    table = open_table(
        population, role="population", columns=[unit, *columns], same_engine_as=same_engine_as
    ).with_numbers(*numbers)
    if unit is None:
        raise EvenhandError(
            "population is a table of units, but unit=None makes every row a unit. Name the unit column."
        )
    refuse_problems(missing_columns(table, [("unit", unit)], of="the population table"))
    return table


def with_text_ids(log: Log, population: Relation) -> Log:
    """The log with ids and labels that are whole numbers as text where the population, from a text file, has text."""
    names = {"unit": log.unit, **dict(zip(log.keys, log.by, strict=True))}
    numerals = [
        key
        for key, name in names.items()
        if key in log.types and log.types[key].is_integer() and name and population.schema.get(name) == nw.String
    ]
    if not numerals:
        return log
    return log.with_columns(
        {key: f"CAST({quoted(key)} AS VARCHAR)" for key in numerals}, dict.fromkeys(numerals, nw.String())
    )


def with_slices_of_units(log: Log, population: Relation, population_by: Sequence[str]) -> Log:
    """The log joined with slice columns that only the population table holds."""
    if not population_by:
        return log
    places = [i for i, b in enumerate(log.by) if b in population_by]
    people = units_of_population(log, population, places)
    if several := count_groups(log.engine, f"({people}) AS people", ["unit"]):
        raise EvenhandError(
            f"population lists {several:,} units more than once. Give each unit one row, so that its slice is clear."
        )
    keys = [f"by_{i}" for i in places]
    joined = f"""
        SELECT log.*, {columns(keys, table="people")}
        FROM {log.source}
        LEFT JOIN ({people}) AS people ON log.unit = people.unit
    """
    kinds = {f"by_{i}": population.label_type(log.by[i]) for i in places}
    return log.with_rows(joined, kinds)


def units_of_population(log: Log, population: Relation, places: Sequence[int]) -> str:
    """A SELECT of the units of a population with their slices at some places of `by`, comparable with those of the log."""
    names = {"unit": str(log.unit)} | {f"by_{i}": log.by[i] for i in places}
    problems = [p for key, name in names.items() for p in label_problems(key.split("_")[0], name, population)]
    refuse_problems([f"In population, {p}" for p in problems])
    kinds = {key: population.label_type(name) for key, name in names.items()}
    shared = [key for key in names if key in log.types]
    refuse_problems(
        [
            f"{'unit=' if key == 'unit' else ''}{names[key]!r} holds {log.types[key]} values in the table and {kinds[key]} "
            "in population. Make them the same type."
            for key in shared
            if not _alike(key, log.types[key], kinds[key])
        ]
    )
    chosen = {key: population.label(name) for key, name in names.items()}
    numerals = [key for key in shared if log.types[key] == nw.String and kinds[key].is_integer()]
    chosen |= {key: f"CAST({chosen[key]} AS VARCHAR)" for key in numerals}
    return f"{population.select(chosen)} WHERE {chosen['unit']} IS NOT NULL"


def population_sizes(log: Log, population: Relation, places: Sequence[int]) -> dict[Label, int]:
    """How many units a population has, by the labels of its slices at some places of `by`."""
    keys = [f"by_{i}" for i in places]
    people = units_of_population(log, population, places)
    different = f"SELECT DISTINCT {columns(['unit', *keys])} FROM ({people}) AS people"
    grouped = f" GROUP BY {columns(keys)}" if keys else ""
    chosen = f"{columns(keys)}, " if keys else ""
    cells = log.engine.cells(f"SELECT {chosen}COUNT(*) AS units FROM ({different}) AS everyone{grouped}")
    return dict(zip(cells.labels(keys), cells.integers("units").tolist(), strict=True))


def outside_population(log: Log, population: Relation, places: Sequence[int]) -> int:
    """How many units of the log are not in the population, with the same slice where it holds the slices."""
    keys = ["unit", *(f"by_{i}" for i in places)]
    people = units_of_population(log, population, places)
    query = f"""
        SELECT COUNT(*) AS n FROM (
            SELECT {columns(keys)} FROM {log.source}
            EXCEPT
            SELECT {columns(keys)} FROM ({people}) AS people
        ) AS outsiders
    """
    return int(log.engine.cells(query).row()["n"])


def never_varies(log: Log, key: str) -> bool:
    """Whether every unit has one label only."""
    if log.unit is None:
        return True
    pairs = f"SELECT unit, {quoted(key)} AS label FROM {log.source}"
    # the first rows usually show that a label varies, before all rows are asked
    return not (varying(log, f"{pairs} LIMIT 100000", "label") or varying(log, pairs, "label"))


def varying(rows: InEngine, pairs: str, column: str) -> int:
    """How many units have several values in a column of a SELECT, missing ones included."""
    different = f"(SELECT DISTINCT unit, {quoted(column)} FROM ({pairs}) AS pairs) AS different"
    return count_groups(rows.engine, different, ["unit"])


def _alike(key: str, a: Type, b: Type) -> bool:
    """Whether labels of two types can be compared; slices of whole numbers with gaps are floats in some libraries."""
    if (a.is_integer() or a.is_float()) and not b.is_decimal():
        return (b.is_integer() or b.is_float()) and (key != "unit" or a.is_float() == b.is_float())
    if a.is_decimal() or b.is_decimal():  # ids of databases often are, with no digit behind the point
        return a.is_numeric() and b.is_numeric()
    if a == nw.String and b.is_integer():
        return True
    zones = {str(dtype.time_zone).removeprefix("Etc/") for dtype in (a, b) if isinstance(dtype, nw.Datetime)}
    return type(a) is type(b) and len(zones) <= 1
