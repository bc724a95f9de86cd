"""Who received what: a log of units and amounts with known column names, checked before anything is added up; and everyone who
could have received something: a number, numbers by slice, or a table of units beside the log.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import narwhals as nw
import numpy as np

from evenhand.cards import LARGEST_TOTAL, Floats, is_whole
from evenhand.errors import EvenhandError, listing, refuse_problems
from evenhand.labels import rows_in_order, spellings, whole_labels
from evenhand.sources.engine import Engine
from evenhand.sources.opening import open_table
from evenhand.sources.quantiles import quantile_edges, significant
from evenhand.sources.relation import (
    INTEGERS,
    Bins,
    Periods,
    Relation,
    Type,
    count_groups,
    counted_rows,
    fits_int64,
    in_periods,
    is_number,
    label_problems,
    missing_columns,
    role_problems,
    slice_problems,
    slicing,
)
from evenhand.sources.sql import columns, count_where, double, nan_as_null, quoted, select

logger = logging.getLogger("evenhand")

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
    opened: Relation, *, unit: str | None, amount: str | Sequence[str] | None, by: Sequence[str], weight: str | None,
    nan_policy: NanPolicy, population_by: Sequence[str], part: str, marks: Mapping[str, str] | None,
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
    opened = opened.with_numbers(*names, weight)
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
        elif facts[f"sum_{i}"] > LARGEST_TOTAL:
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
"""Above that a number loses its last digits."""


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
    if isinstance(population, (bool, int, float, np.integer)):
        if isinstance(population, bool) or population != population // 1 or population < 1:
            raise EvenhandError(
                f"population={population!r} is not a number of units. Pass how many could have received something, a table, or None."
            )
        if population > MOST_UNITS:
            raise EvenhandError(f"population is too many. Pass at most {MOST_UNITS:,} units.")
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
    return not varying(log, f"SELECT unit, {quoted(key)} AS label FROM {log.source}", "label")


def varying(log: Log, pairs: str, column: str) -> int:
    """How many units have several values in a column of a SELECT, missing ones included."""
    different = f"(SELECT DISTINCT unit, {quoted(column)} FROM ({pairs}) AS pairs) AS different"
    return count_groups(log.engine, different, ["unit"])


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


@dataclass(frozen=True)
class Edges:
    """The bins of one column: bin k holds values above `inner[k - 1]` and up to `inner[k]`.

    One more bin, without a name, takes the units whose value is missing.
    """

    inner: Floats
    lows: list[float]
    highs: list[float]
    names: list[str]

    @property
    def labels(self) -> list[str | None]:
        return [*self.names, None]

    @classmethod
    def from_values(cls, engine: Engine, values: str, spec: Bins) -> Edges:
        """Edges over units, from a table with the `value` of each unit that has one."""
        facts = engine.cells(f"""
            SELECT MIN(value) AS low, MAX(value) AS high, MIN(CASE WHEN value > 0 THEN value END) AS least
            FROM {values}
        """).row()
        low, high, least = facts["low"], facts["high"], facts["least"]
        if low is None:
            return cls(np.zeros(0), [np.nan], [np.nan], ["all"])
        if math.isinf(low) or math.isinf(high):
            raise EvenhandError(f"{spec.column!r} is infinite for some units, which no bin holds. Pass finite values.")
        if not spec.is_log:
            return _right_closed(quantile_edges(engine, f"SELECT value FROM {values}", spec.bins), low, high)
        if low < 0:
            raise EvenhandError(
                f"{spec.column!r} is negative for some units, and by={spec} needs values of zero or more. Use quantile_bins."
            )
        if least is None:
            return _right_closed(np.zeros(0), 0.0, 0.0)
        grid = significant(np.geomspace(least, high, spec.bins + 1))[1:-1]
        inner = np.unique(grid[(grid >= least) & (grid < high)])
        above = _right_closed(inner, least, high)
        if low > 0:
            return above
        return cls(np.concatenate([[0.0], inner]), [0.0, *above.lows], [0.0, *above.highs], ["0", *above.names])

    def code(self, value: str) -> str:
        """SQL of the number of a value's bin; the missing are in the bin after the last."""
        number = f"CAST({value} AS DOUBLE)"
        cases = "".join(f" WHEN {number} <= {double(edge)} THEN {k}" for k, edge in enumerate(self.inner.tolist()))
        last = len(self.inner)
        return f"CAST(CASE WHEN {nan_as_null(number)} IS NULL THEN {last + 1}{cases} ELSE {last} END AS BIGINT)"


@dataclass(frozen=True)
class Legend:
    """Names and edges of the bins of each binned slice column."""

    edges: Mapping[str, Edges] = field(default_factory=dict)

    def columns(self, by: Sequence[str]) -> list[str]:
        """Slice columns of the frame: a binned one is followed by its edges."""
        return [name for b in by for name in ((b, f"{b}_low", f"{b}_high") if b in self.edges else (b,))]

    def cells(self, by: Sequence[str], label: Label) -> dict[str, Any]:
        """A slice as cells of the frame."""
        out: dict[str, Any] = {}
        for name, value in zip(by, label, strict=True):
            out[name] = value
            if name in self.edges:
                e = self.edges[name]
                at = e.labels.index(value)
                out[f"{name}_low"], out[f"{name}_high"] = [*e.lows, np.nan][at], [*e.highs, np.nan][at]
        return out

    def name(self, by: Sequence[str], label: Label) -> Label:
        """A slice with its bins called by name."""
        pairs = zip(by, label, strict=True)
        return tuple(self.edges[b].labels[v] if b in self.edges else v for b, v in pairs)


def _right_closed(inner: Floats, low: float, high: float) -> Edges:
    lows, highs = [low, *inner.tolist()], [*inner.tolist(), high]
    distinct = {*lows, *highs}
    digits = next((d for d in range(4, 17) if len({_short(e, d) for e in distinct}) == len(distinct)), 17)
    bounds = [f"{_short(a, digits)}, {_short(b, digits)}]" for a, b in zip(lows, highs, strict=True)]
    return Edges(inner, lows, highs, [f"{'(' if k else '['}{both}" for k, both in enumerate(bounds)])


def _short(edge: float, digits: int) -> str:
    """An edge in the name of a bin; whole numbers in full.

    >>> _short(12345.0, 4), _short(17.7827941, 4), _short(12345.678, 4)
    ('12345', '17.78', '12350')
    """
    is_whole = edge == round(edge) and abs(edge) < 1e15
    return str(int(edge)) if is_whole else f"{float(f'{edge:.{digits}g}'):.15g}"


def slice_sizes(seen: Mapping[Label, float], log: Log, population: Any) -> Mapping[Label, int]:
    """How many units every slice has, those that nobody saw included; `seen` are those that somebody did."""
    if log.weight is not None:
        raise EvenhandError("population does not say what the unseen units weigh. Pass population=None with weight=.")
    sizes: Mapping[Label, int]
    if isinstance(population, Relation):
        sizes = _sizes_of_table(seen, log, population)
    elif isinstance(population, Mapping):
        sizes = _mapped(seen, log, population)
    else:
        if len(log.by) != 1 or sum(seen.values()) <= population:  # more than that: some unit is in two slices
            _refuse_padding_of_unit_properties(seen, log, list(log.by), f"population={population!r}")
        sizes = dict.fromkeys(seen if log.by else ((),), int(population))
    short = {label: n for label, n in seen.items() if sizes[label] < n}
    if short:
        worst = max(short, key=lambda label: short[label] - sizes[label])
        where = f" in slice {slice_words([worst])}" if worst else ""
        raise EvenhandError(
            f"population={sizes[worst]:,} is smaller than the {int(short[worst]):,} units in the table{where}. "
            "Pass the number of units that could have received something, or None for those seen."
        )
    return sizes


def _sizes_of_table(seen: Mapping[Label, float], log: Log, population: Relation) -> dict[Label, int]:
    """Sizes of slices from a table of units that has some of the slice columns: each is for all values of the others."""
    columns = [i for i, b in enumerate(log.by) if b in population.schema]
    others = [i for i in range(len(log.by)) if i not in columns]
    what = "population is a table without that column and"
    _refuse_padding_of_unit_properties(seen, log, [log.by[i] for i in others], what)
    if count := outside_population(log, population, columns):  # then one of the two tables is wrong
        raise EvenhandError(
            f"{count:,} units received something but are not in population{' with the same slice' if columns else ''}. "
            "Add them to the population table, or remove their rows."
        )
    values = dict.fromkeys(tuple(label[i] for i in others) for label in seen) if others else {(): None}
    sizes = population_sizes(log, population, columns)
    places = [*others, *columns]
    both = {other + key: n for other in values for key, n in sizes.items()}
    return {tuple(key[places.index(i)] for i in range(len(places))): n for key, n in both.items()}


def _mapped(seen: Mapping[Label, float], log: Log, population: Mapping[Any, Any]) -> dict[Label, int]:
    sizes = _typed({k if isinstance(k, tuple) else (k,): v for k, v in population.items()}, tuple(seen))
    if not log.by:
        raise EvenhandError("population gives a size per slice, but there are no slices. Pass one number, or name by=.")
    wrong = [
        k for k, v in sizes.items() if len(k) != len(log.by) or isinstance(v, bool) or not is_whole(v, 0, MOST_UNITS)
    ]
    if wrong:
        raise EvenhandError(
            f"population has entries that cannot be read: {slice_words(wrong)}. Pass {{slice: number}}, whole numbers up to {MOST_UNITS:,}."
        )
    lacking = [label for label in seen if label not in sizes]
    if lacking:
        raise EvenhandError(
            f"population lacks {len(lacking):,} slices of the table: {slice_words(lacking)}. Give each slice its size."
        )
    return {label: int(size) for label, size in sizes.items()}


def _typed(sizes: dict[Label, Any], labels: tuple[Label, ...]) -> dict[Label, Any]:
    """Sizes with labels typed as in the table: command lines and files know text only."""
    columns = [set(column) for column in zip(*labels, strict=True)]
    written = [{word: v for v in column if v is not None for word in spellings(v)} for column in columns]

    def meant(at: int, value: Any) -> Any:
        if at >= len(columns) or value in columns[at]:
            return value
        return next((written[at][word] for word in spellings(value) if word in written[at]), value)

    return {tuple(meant(i, v) for i, v in enumerate(key)): size for key, size in sizes.items()}


def _refuse_padding_of_unit_properties(seen: Mapping[Label, float], log: Log, columns: list[str], what: str) -> None:
    """Refuse one size for every slice where a unit is in one slice only."""
    places = {b: log.by.index(b) for b in columns}
    several = [b for b, i in places.items() if len({label[i] for label in seen}) > 1]
    fixed = [b for b in several if never_varies(log, f"by_{places[b]}")]
    if fixed:
        raise EvenhandError(
            f"by={fixed[0]!r} never varies within a unit, so {what} would count every unit in every slice. "
            "Pass {slice: size}, a table of units that holds the column, or None for those seen."
        )


T = TypeVar("T", bound=Any)
"""Tallies of slices, which know how many units they have `seen` and can be `padded`."""


@dataclass(frozen=True)
class Units:
    """A checked log of who received what, bins in place of numbers that are binned, and what the bins are called.

    `everyone` who could have received something is None, a number, numbers by slice, or a relation.
    """

    log: Log
    everyone: Any
    legend: Legend

    @property
    def by(self) -> tuple[str, ...]:
        return self.log.by

    @property
    def columns(self) -> list[str]:
        """Slice columns of the frame, edges of bins included."""
        return self.legend.columns(self.by)

    def padded(self, tallies: T) -> T:
        """Tallies of slices with the units that nobody saw."""
        if self.everyone is None:
            return tallies
        padded: T = tallies.padded(slice_sizes(tallies.seen, self.log, self.everyone))
        return padded

    def order(self, labels: Sequence[Label]) -> list[int]:
        """The places of slices so that bins are in order."""
        return rows_in_order(labels) if self.legend.edges else [*range(len(labels))]

    def names(self, labels: Collection[Label]) -> tuple[Label, ...]:
        """Slices with their bins called by name, and whole numbers as integers."""
        return whole_labels([self.legend.name(self.by, label) for label in labels]) if self.by else tuple(labels)

    def whole(self) -> Units:
        """The units without the part that splits them."""
        return replace(self, log=replace(self.log, by=self.by[:-1]))

    def cells(self, label: Label) -> dict[str, Any]:
        return self.legend.cells(self.by, label)

    @property
    def population_words(self) -> Any:
        """Who was counted, for the record."""
        if self.everyone is None:
            return "only units seen"
        if isinstance(self.everyone, Relation):
            return self.everyone.origin
        return {str(k): v for k, v in self.everyone.items()} if isinstance(self.everyone, Mapping) else self.everyone


def units_of(
    table: Any,
    *,
    unit: str | None,
    amount: str | Sequence[str] | None,
    population: Any,
    by: Any = None,
    weight: str | None = None,
    nan_policy: NanPolicy = "raise",
    part: tuple[str, str | Bins | Periods] | None = None,
    marks: Mapping[str, str] | None = None,
    joined_with: Log | None = None,
) -> Units:
    """Open and check everything that was passed; nothing is added up yet.

    `part` is a role and its column (`("group", "band")`) that splits the units' amounts further without being a slice; it
    becomes the last of `by`. `marks` are other columns by role (`{"arm": "variant"}`). `joined_with` is a log in whose engine this
    one is to be, so that the two can be joined.
    """
    slices = slicing(by)
    split = slicing([part[1]], part[0]) if part else slicing(None)
    by_columns, bins = (*slices.columns, *split.columns), (*slices.bins, *split.bins)
    numbers = [spec.column for spec in bins]
    if isinstance(population, (bool, int, float, Mapping)) or hasattr(population, "dtype"):
        open_population(population, unit)  # refused before the table is opened
    amounts = [amount] if amount is None or isinstance(amount, str) else list(amount)
    needed = [unit, *amounts, *by_columns, weight, *(marks or {}).values()]
    opened = open_table(table, columns=needed, same_engine_as=joined_with).with_numbers(*numbers)
    opened = in_periods(in_periods(opened, slices.periods), split.periods, part[0] if part else "")
    everyone = open_population(population, unit, columns=by_columns, numbers=numbers, same_engine_as=opened)
    only_in_population: list[str] = []
    if isinstance(everyone, Relation):
        everyone = in_periods(in_periods(everyone, slices.periods), split.periods, part[0] if part else "")
        only_in_population = [b for b in by_columns if b not in opened.schema and b in everyone.schema]
    logger.info("checking the table")
    read = open_log(
        opened, unit=unit, amount=amount, by=by_columns, weight=weight, nan_policy=nan_policy, population_by=only_in_population,
        part=part[0] if part else "", marks=marks,
    )  # fmt: skip
    if isinstance(everyone, Relation):
        read = with_slices_of_units(with_text_ids(read, everyone), everyone, only_in_population)
    read, everyone, legend = _binned(read, everyone, bins)
    repeated = [name for name in legend.columns(read.by) if legend.columns(read.by).count(name) > 1]
    if repeated:
        raise EvenhandError(
            f"by={repeated[0]!r} is also the name of a bin's edge. Rename that column of the table first."
        )
    return Units(read, everyone, legend)


def _binned(read: Log, everyone: Any, bins: Sequence[Bins]) -> tuple[Log, Any, Legend]:
    """The log and the population with the number of its bin in place of each binned value."""
    edges: dict[str, Edges] = {}
    for spec in bins:
        if isinstance(everyone, (int, Mapping)):
            raise EvenhandError(
                f"population={everyone!r} does not say which units are in which bin of by={spec}. "
                f"Pass a table of units that holds {spec.column!r}, or None for those seen."
            )
        key = f"by_{read.by.index(spec.column)}"
        in_population = isinstance(everyone, Relation) and spec.column in everyone.schema
        if not read.is_number(key) or (in_population and not is_number(everyone.schema[spec.column])):
            raise EvenhandError(f"by={spec} needs numbers, and {spec.column!r} holds none. Slice by the column itself.")
        value = nan_as_null("CAST(value AS DOUBLE)")
        units = _values_of_units(read, everyone if in_population else None, key, spec)
        values = read.engine.keep(f"SELECT {value} AS value FROM ({units}) AS units WHERE {value} IS NOT NULL")
        bin_edges = edges[spec.column] = Edges.from_values(read.engine, values, spec)
        read = read.with_columns({key: bin_edges.code(quoted(key))}, {key: INTEGERS})
        if in_population:
            everyone = everyone.with_column(spec.column, bin_edges.code(everyone.number(spec.column)), INTEGERS)
    return read, everyone, Legend(edges)


def _values_of_units(read: Log, population: Relation | None, key: str, spec: Bins) -> str:
    """SELECT of each unit's value, from the population where it holds the column."""
    if read.unit is None:
        return f"SELECT {quoted(key)} AS value FROM {read.source}"
    seen = f"SELECT DISTINCT unit, {quoted(key)} AS value FROM {read.source}"
    _refuse_varying(read, seen, f"{spec.column!r} differs between rows of the same unit", spec)
    if population is None:
        return seen
    chosen = {"unit": population.label(read.unit), "value": population.number(spec.column)}
    everyone = population.select(chosen).replace("SELECT", "SELECT DISTINCT", 1)
    _refuse_varying(read, everyone, f"{spec.column!r} differs between rows of the same unit in population", spec)
    return everyone


def _refuse_varying(read: Log, values: str, fact: str, spec: Bins) -> None:
    if count := varying(read, values, "value"):
        raise EvenhandError(
            f"{fact} for {count:,} units, so by={spec} would put them in several bins. Give each unit one value."
        )
