"""Tallies of units that a database counted: the rows of `units_query`, checked as the table itself would have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenhand.engine.queries import FAULTS, OUTSIDE, slice_keys, units_columns, units_part
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import in_order, whole
from evenhand.sources.engine import Cells, DuckDBEngine
from evenhand.sources.logs import LARGEST_SUM, Amount, Log, NanPolicy, name_problems, value_problems
from evenhand.views.tally import Tally, in_roles, kind_in, open_tally, told, typed


@dataclass(frozen=True)
class CountedPopulation:
    """How many units a table of the database has, for each of the slices that it knows.

    Attributes
    ----------
    table : what it is called. held : the places of the slice columns that it holds.
    sizes : units by the labels of these columns. outside : units that received something and are not there.
    """

    table: str
    held: tuple[int, ...]
    sizes: Mapping[tuple[Any, ...], int]
    outside: int


@dataclass(frozen=True)
class Counted:
    """What a database counted.

    Attributes
    ----------
    cells : by amount, a row per slice and amount (`amount`, `units`, `weight`, `least_weight`, `from_0`...) of sound units.
    broken : by amount, the slices in which one is missing.
    most : by slice column, the most labels that one unit has.
    names : the sources there are, in order, each with its number among the columns `from_0`, `from_1`...
    everyone : all units, where the query counted them.
    """

    cells: Mapping[str, Any]
    broken: Mapping[str, frozenset[tuple[Any, ...]]]
    most: Mapping[str, int]
    names: Mapping[Any, int] = field(default_factory=dict)
    everyone: CountedPopulation | None = None

    def units(self, amount: Amount) -> Cells:
        """How many units hold each amount, per slice."""
        return Cells(self.cells[amount.column])

    def sources(self, amount: Amount) -> Cells:
        """The same with a column for each source there is, in order."""
        cells = self.cells[amount.column]
        return Cells(
            cells.with_columns(cells[f"from_{k}"].alias(f"from_{i}") for i, k in enumerate(self.names.values()))
        )

    def spoilt(self, log: Log, amount: Amount) -> frozenset[tuple[Any, ...]]:
        """Slices that a missing amount spoils."""
        return self.broken[amount.column] if log.nan_policy == "propagate" else frozenset()


def view_counted(
    held: Tally,
    *,
    unit: str | None,
    amounts: Sequence[str | None],
    by: Sequence[str],
    weight: str | None,
    nan_policy: NanPolicy,
    source: str | None = None,
) -> Log:
    """The rows of a query as the log that the table would have given, with the same complaints."""
    import polars as pl

    names = told(held, "name") if source is not None else []
    keys, varying = slice_keys(by), unit is not None and bool(by)
    sources = len(names) + 1 if source is not None else 0
    named = [a for a in amounts if a is not None]
    wanted = [units_part(unit, amount, by, weight, source, names) for amount in amounts]
    numbers = units_columns(by, weight=weight is not None, sources=sources, varying=varying)
    counts = [c for c in numbers if c in ("nameless", "units_held", "rows_read", *FAULTS) or c.startswith("from_rows_")]
    several = len(amounts) > 1
    problems = name_problems(unit, named, [*by, source] if source else by, "source" if source else "", multiple=several)
    if problems:
        raise all_problems(problems, where="The call")
    frame, opened = open_tally(held, wanted, numbers, keys, counts)
    parts = [frame.filter(pl.col("part") == part) for part in wanted]
    facts = _facts(parts, weight)
    needed = {} if unit is None else {"unit": unit}
    if problems := value_problems(facts, named, needed, weight, nan_policy):
        raise all_problems(problems, where="The table")
    dropped = {f"{unit} is missing": int(facts["missing_unit"])} if facts["missing_unit"] else {}
    read = []
    for i, (name, part) in enumerate(zip(amounts, parts, strict=True)):
        whole = not part["fractions"].sum() and facts[f"sum_{i}"] <= LARGEST_SUM
        read.append(Amount(name, "" if name is None else f"amount_{i}", whole, int(facts[f"missing_{i}"])))
        if read[-1].missing and nan_policy == "omit":
            dropped[f"{name} is missing"] = read[-1].missing
    counted = Counted(
        {a.column: _sound(part, a) for a, part in zip(read, parts, strict=True)},
        {a.column: _broken(part, keys) for a, part in zip(read, parts, strict=True)},
        {key: int(parts[0][f"labels_{i}"].max() or 0) for i, key in enumerate(keys) if varying},
        _sources(parts[0], names, kind_in(frame, "source")) if source is not None else {},
        _everyone(frame, by),
    )
    return Log(
        DuckDBEngine(), "", {}, opened.backend, opened.origin, unit, tuple(by), tuple(read), weight, int(facts["rows"]), nan_policy,
        dropped, counted,
    )  # fmt: skip


def _everyone(frame: Any, by: Sequence[str]) -> CountedPopulation | None:
    """The rows that say how many units there are, if the query counted them."""
    import polars as pl

    rows = frame.filter(pl.col("part").str.contains(" verb=population "))
    if not rows.height:
        return None
    told = in_roles(rows["part"][0])
    held = tuple(list(by).index(column) for column in told.get("by", ()))
    keys = [f"by_{i}" for i in held]
    sizes = {tuple(row[:-1]): int(row[-1]) for row in rows.select(*keys, "units_held").iter_rows()}
    return CountedPopulation(told["population"][0], held, sizes, int(rows[OUTSIDE][0] or 0))


def _facts(parts: Sequence[Any], weight: str | None) -> dict[str, Any]:
    """What `sources/logs.py` asks of a table."""
    import polars as pl

    first = parts[0]
    facts: dict[str, Any] = {"rows": float(first["rows_read"].sum())}
    facts["missing_unit"] = float(first.filter(pl.col("nameless") > 0)["rows_read"].sum())
    for i, part in enumerate(parts):
        facts |= {f"{name}_{i}": float(part[name].sum()) for name in FAULTS}
        facts |= {
            f"high_{i}": part["amount"].max() or 0.0,
            f"sum_{i}": float((part["amount"] * part["units_held"]).sum()),
        }
    if weight is not None:
        facts |= {"missing_weight": first["no_weight"].sum()}
        facts |= {"low_weight": first["least_weight"].min() or 0.0, "high_weight": first["weight"].max() or 0.0}
    return facts


def _sound(part: Any, amount: Amount) -> Any:
    """Cells of units that have a name and an amount, in the types in which an engine would have counted them."""
    import polars as pl

    kept = part.filter((pl.col("nameless") == 0) & pl.col("amount").is_not_null())
    values = [c for c in kept.columns if c == "amount" or (c.startswith("from_") and not c.startswith("from_rows"))]
    kind = pl.Int64 if amount.integer else pl.Float64
    return kept.with_columns(pl.col(*values).cast(kind), pl.col("units_held").cast(pl.Int64).alias("units"))


def _broken(part: Any, keys: Sequence[str]) -> frozenset[tuple[Any, ...]]:
    """Slices in which an amount is missing; units without a name are no part of it."""
    import polars as pl

    hurt = part.filter((pl.col("missing") > 0) & (pl.col("nameless") == 0))
    return frozenset(hurt.select(*keys).iter_rows()) if keys else frozenset({()} if hurt.height else set())


def _sources(part: Any, names: Sequence[str], kind: str) -> dict[Any, int]:
    """The sources that have rows, as the table has them, in the order in which results list them."""
    import polars as pl

    many = {name: float(part[f"from_rows_{k}"].sum()) for k, name in enumerate([*names, None])}
    others = int(part["rows_read"].sum() - sum(many.values()))
    if others:
        raise EvenhandError(
            f"{others:,} rows come from sources that the query does not name. Print it again with all of them after --name."
        )
    labels = whole([*typed(pl.Series("source", names, dtype=pl.String), kind).to_list(), None])
    places = {label: k for k, (label, rows) in enumerate(zip(labels, many.values(), strict=True)) if rows}
    return {label: places[label] for label in in_order(places)}
