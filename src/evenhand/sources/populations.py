"""Everyone who could have received something: a number, numbers by slice, or a table of units beside the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, all_problems
from evenhand.sources.engine import InEngine
from evenhand.sources.logs import Label, Log
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Relation, Type
from evenhand.sources.roles import count_groups, label_problems, missing_columns
from evenhand.sources.sql import columns, quoted

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
    if problems := missing_columns(table, [("unit", unit)], of="the population table"):
        raise all_problems(problems)
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
    if problems:
        raise all_problems([f"In population, {p}" for p in problems])
    kinds = {key: population.label_type(name) for key, name in names.items()}
    shared = [key for key in names if key in log.types]
    other = [key for key in shared if not _alike(key, log.types[key], kinds[key])]
    if other:
        raise all_problems(
            [
                f"{'unit=' if key == 'unit' else ''}{names[key]!r} holds {log.types[key]} values in the table and {kinds[key]} "
                "in population. Make them the same type."
                for key in other
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
