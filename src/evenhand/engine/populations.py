"""Everyone who could have received something: how many units each slice has, seen or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.engine.counted import CountedPopulation
from evenhand.engine.spectra import Label, Slices, rows_in_order
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import spellings
from evenhand.tallies.spectrum import Spectra, Spectrum
from evenhand.views.benefits import Benefits, slice_words
from evenhand.views.columns import label, label_problems
from evenhand.views.match import same_engine
from evenhand.views.tables import Table, each_once, missing_columns, open_table, to_polars

SAMPLE = 100_000

WEIGHTLESS = "population as a table does not say what the unseen units weigh. Pass population=None with weight=."

REMEDY = "Pass {slice: size}, a table of units that holds the column, or None for those seen."


def join_population(view: Benefits, population: Table | None, elsewhere: list[str]) -> Benefits:
    """Bring in slice columns that only the population table holds."""
    if population is None or not elsewhere:
        return view
    units = same_engine(_units(population, view, [i for i, b in enumerate(view.by) if b in elsewhere]), view.lazy)
    twice = to_polars(
        units.group_by("unit").agg(nw.len().alias("n")).filter(nw.col("n") > 1).select(nw.len().alias("n"))
    )["n"][0]
    if twice:
        raise EvenhandError(
            f"population lists {twice:,} units more than once. Give each unit one row, so that its slice is clear."
        )
    return view.with_lazy(view.lazy.join(units, on="unit", how="left"))


def pad(slices: Slices, view: Benefits, population: Any) -> Slices:
    """Add to every slice the units that nobody saw."""
    if population is None:
        return slices
    if isinstance(population, Table):
        return _pad_from_table(slices, view, population)
    if isinstance(population, CountedPopulation):
        _refuse_weights(view)
        _refuse_other_slices(slices, view, population.held)
        _refuse_those(population.outside, slices=bool(population.held))
        return _pad_held(slices, view, population.held, population.sizes)
    if view.weight is not None:
        raise EvenhandError(
            "population as a number does not say what the unseen units weigh. Pass population=None with weight=."
        )
    if isinstance(population, Mapping):
        return _pad_to(slices, _mapped(slices, view, population))
    if len(view.by) != 1 or slices.spectra.units.sum() <= population:  # more than that: some unit is in two slices
        _refuse_padding_of_unit_properties(slices, view, list(view.by), f"population={population!r}")
    return _pad_to(slices, dict.fromkeys(_labels(slices, view), int(population)))


MOST_UNITS = 2**53
AT_MOST = f"Pass at most {MOST_UNITS:,} units: above that a number loses its last digits."


def _digits(number: Any) -> str:
    """A large number as it was typed, or how long it is."""
    return f"{number}" if isinstance(number, float) or number < 10**40 else "a number of more than 40 digits"


def meeting(view: Benefits, population: Any) -> Benefits:
    """The view with ids and labels that are whole numbers as text where the population, from a text file, has text."""
    if not isinstance(population, Table):
        return view
    mine, theirs = view.lazy.collect_schema(), population.schema
    names = {"unit": view.unit, **dict(zip(view.keys, view.by, strict=True))}
    words = [
        k for k, name in names.items() if k in mine and mine[k].is_integer() and name and theirs.get(name) == nw.String
    ]
    return view.with_lazy(view.lazy.with_columns(*(nw.col(k).cast(nw.String) for k in words))) if words else view


def open_population(population: Any, view_unit: str | None, *, numbers: Sequence[str] = ()) -> Any:
    """What was passed as `population`, checked: None, a count, a mapping of counts, or an opened table with these `numbers`."""
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
            raise EvenhandError(f"population={_digits(population)} is too many. {AT_MOST}")
        return int(population)
    table = open_table(population, role="population").numbers(*numbers)
    if view_unit is None:
        raise EvenhandError(
            "population is a table of units, but unit=None makes every row a unit. Name the unit column."
        )
    problems = missing_columns(table, [("unit", view_unit)])
    if problems:
        raise all_problems([p.replace("column of the table", "column of the population table") for p in problems])
    return table


def _mapped(slices: Slices, view: Benefits, population: Mapping[Any, Any]) -> dict[Label, int]:
    sizes = _typed({k if isinstance(k, tuple) else (k,): v for k, v in population.items()}, slices.labels)
    if not view.by:
        raise EvenhandError("population gives a size per slice, but there are no slices. Pass one number, or name by=.")
    wrong = [
        k
        for k, v in sizes.items()
        if len(k) != len(view.by) or isinstance(v, bool) or not isinstance(v, (int, np.integer)) or v < 0
    ]
    if wrong:
        raise EvenhandError(
            f"population has entries that cannot be read: {slice_words(wrong)}. Pass {{slice: whole number}}."
        )
    if many := [k for k, v in sizes.items() if v > MOST_UNITS]:
        raise EvenhandError(f"population has sizes that are too many: {slice_words(many)}. {AT_MOST}")
    lacking = [label for label in slices.labels if label not in sizes]
    if lacking:
        raise EvenhandError(
            f"population lacks {len(lacking):,} slices of the table: {slice_words(lacking)}. Give each slice its size."
        )
    return {label: int(size) for label, size in sizes.items()}


def _typed(sizes: dict[Label, Any], labels: tuple[Label, ...]) -> dict[Label, Any]:
    """Sizes by slices as the table has them: a command line, and a text file, know numbers as text only."""
    columns = [set(column) for column in zip(*labels, strict=True)]
    written = [{word: v for v in column if v is not None for word in spellings(v)} for column in columns]

    def meant(at: int, value: Any) -> Any:
        if at >= len(columns) or value in columns[at]:
            return value
        return next((written[at][word] for word in spellings(value) if word in written[at]), value)

    return {tuple(meant(i, v) for i, v in enumerate(key)): size for key, size in sizes.items()}


def _pad_to(slices: Slices, sizes: Mapping[Label, int]) -> Slices:
    seen = dict(zip(slices.labels, slices.spectra.units.tolist(), strict=True))
    short = {label: n for label, n in seen.items() if sizes[label] < n}
    if short:
        worst = max(short, key=lambda label: short[label] - sizes[label])
        where = f" in slice {slice_words([worst])}" if worst else ""
        raise EvenhandError(
            f"population={sizes[worst]:,} is smaller than the {int(short[worst]):,} units in the table{where}. "
            "Pass the number of units that could have received something, or None for those seen."
        )
    unseen = [label for label in sizes if label not in seen]
    spectra, labels = slices.spectra, slices.labels
    if unseen:
        every = (*labels, *unseen)
        nobody = Spectrum(np.zeros(0), np.zeros(0))
        order = rows_in_order(every)
        spectra = Spectra.of([spectra[i] if i < len(seen) else nobody for i in order])
        labels = tuple(every[i] for i in order)
    zeros = np.array([sizes[label] - seen.get(label, 0) for label in labels], dtype=np.float64)
    return replace(slices, labels=labels, spectra=spectra.padded(zeros))


def _pad_from_table(slices: Slices, view: Benefits, population: Table) -> Slices:
    _refuse_weights(view)
    names = list(population.schema.names())
    held = [i for i, b in enumerate(view.by) if b in names]
    _refuse_other_slices(slices, view, held)
    keys = [f"by_{i}" for i in held]
    everyone = same_engine(each_once(_units(population, view, held)), view.lazy)
    _refuse_outsiders(view, everyone, keys)
    if not keys:
        counts = to_polars(everyone.select(nw.len().alias("n")))
    else:
        counts = to_polars(everyone.group_by(*keys).agg(nw.len().alias("n")))
    sizes = {tuple(row[:-1]): int(row[-1]) for row in counts.select(*keys, "n").iter_rows()}
    return _pad_held(slices, view, held, sizes)


def _refuse_weights(view: Benefits) -> None:
    if view.weight is not None:
        raise EvenhandError(WEIGHTLESS)


def _refuse_other_slices(slices: Slices, view: Benefits, held: Sequence[int]) -> None:
    """Slices of units that the table of all units does not know."""
    others = [b for i, b in enumerate(view.by) if i not in held]
    _refuse_padding_of_unit_properties(slices, view, others, "population is a table without that column and")


def _pad_held(slices: Slices, view: Benefits, held: Sequence[int], sizes: Mapping[Label, int]) -> Slices:
    """Padded to the sizes of slices that a table of units tells at the places `held` of their labels."""
    if not held:
        return _pad_to(slices, dict.fromkeys(_labels(slices, view), sizes.get((), 0)))
    if len(held) == len(view.by):
        return _pad_to(slices, sizes)
    rest = [i for i in range(len(view.by)) if i not in held]
    seen = dict.fromkeys(tuple(label[i] for i in rest) for label in slices.labels)
    both = {other + key: n for other in seen for key, n in sizes.items()}
    places = [*rest, *held]
    return _pad_to(slices, {tuple(key[places.index(i)] for i in range(len(places))): n for key, n in both.items()})


def _labels(slices: Slices, view: Benefits) -> tuple[Label, ...]:
    """The slices seen; without slices the whole table is one, also where it holds nobody."""
    return slices.labels if view.by else ((),)


def _refuse_outsiders(view: Benefits, everyone: nw.LazyFrame[Any], keys: list[str]) -> None:
    """A unit that received something but is not in the population means that one of the two tables is wrong."""
    mine, theirs = view.lazy.collect_schema(), everyone.collect_schema()
    floats = [nw.col(k).cast(nw.Float64) for k in keys if mine[k].is_float() != theirs[k].is_float()]
    seen = each_once(view.lazy.select("unit", *keys))
    if floats:
        seen, everyone = seen.with_columns(*floats), everyone.with_columns(*floats)
    outside = int(to_polars(seen.join(everyone, on=["unit", *keys], how="anti").select(nw.len().alias("n")))["n"][0])
    if outside and keys:  # a missing label never joins; compare those by the unit alone
        nulls = nw.any_horizontal(*(nw.col(k).is_null() for k in keys), ignore_nulls=True)
        missing = each_once(seen.filter(nulls).select("unit"))
        fine = missing.join(each_once(everyone.filter(nulls).select("unit")), on="unit", how="inner")
        outside -= int(to_polars(fine.select(nw.len().alias("n")))["n"][0])
    _refuse_those(outside, slices=bool(keys))


def _refuse_those(outside: int, *, slices: bool) -> None:
    if outside:
        raise EvenhandError(
            f"{outside:,} units received something but are not in population{' with the same slice' if slices else ''}. "
            "Add them to the population table, or remove their rows."
        )


def _units(population: Table, view: Benefits, places: list[int]) -> nw.LazyFrame[Any]:
    """The units of a population with their slices at some places of `by`, comparable with those of the view."""
    names = {"unit": str(view.unit)} | {f"by_{i}": view.by[i] for i in places}
    mine = view.lazy.collect_schema()
    problems = [p for key, name in names.items() for p in label_problems(key.split("_")[0], name, population)]
    if problems:
        raise all_problems([f"In population, {p}" for p in problems])
    lazy = population.lazy.select(*(label(name, population).alias(key) for key, name in names.items()))
    theirs = lazy.collect_schema()
    other = [key for key in names if key in mine and not _alike(key, mine[key], theirs[key])]
    if other:
        raise all_problems(
            [
                f"{'unit=' if key == 'unit' else ''}{names[key]!r} holds {mine[key]} values in the table and {theirs[key]} "
                "in population. Make them the same type."
                for key in other
            ]
        )
    moments = [k for k in names if k in mine and theirs[k] == nw.Datetime and theirs[k] != mine[k]]
    words = [k for k in names if k in mine and mine[k] == nw.String and theirs[k].is_integer()]
    same = [nw.col(k).cast(mine[k]) for k in (*moments, *words)]
    return (lazy.with_columns(*same) if same else lazy).filter(~nw.col("unit").is_null())


def _alike(key: str, a: nw.dtypes.DType, b: nw.dtypes.DType) -> bool:
    """Whether labels of two types can be compared; slices of whole numbers with gaps are floats in some libraries."""
    if (a.is_integer() or a.is_float()) and not b.is_decimal():
        return (b.is_integer() or b.is_float()) and (key != "unit" or a.is_float() == b.is_float())
    if a.is_decimal() or b.is_decimal():  # ids of databases often are, with no digit behind the point
        return a.is_numeric() and b.is_numeric()
    if a == nw.String and b.is_integer():
        return True
    zones = {str(dtype.time_zone).removeprefix("Etc/") for dtype in (a, b) if isinstance(dtype, nw.Datetime)}
    return type(a) is type(b) and len(zones) <= 1


def _refuse_padding_of_unit_properties(slices: Slices, view: Benefits, columns: list[str], what: str) -> None:
    """One size for every slice is wrong where the slice is a property of the unit: nobody could be in two of them."""
    places = {b: view.by.index(b) for b in columns}
    several = [b for b, i in places.items() if len({label[i] for label in slices.labels}) > 1]
    fixed = [b for b in several if _never_varies(view, f"by_{places[b]}")]
    if fixed:
        raise EvenhandError(
            f"by={fixed[0]!r} never varies within a unit, so {what} would count every unit in every slice. {REMEDY}"
        )


def _never_varies(view: Benefits, key: str) -> bool:
    """Whether every unit has one label only. The first rows usually settle it."""
    if view.unit is None:
        return True
    if view.counted is not None:
        return bool(view.counted.most[key] <= 1)
    pairs = view.lazy.select("unit", key)
    return not (changing(each_once(pairs.head(SAMPLE))) or changing(each_once(pairs)))


def changing(pairs: nw.LazyFrame[Any]) -> int:
    """How many units have several labels, of the different pairs of a `unit` and its label."""
    several = pairs.group_by("unit").agg(nw.len().alias("n")).filter(nw.col("n") > 1)
    return int(to_polars(several.select(nw.len().alias("n")))["n"][0])
