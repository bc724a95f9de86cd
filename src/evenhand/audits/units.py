"""What every audit of units does at its start: check the table, the slices and the population, and add units that nobody saw."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from evenhand.audits.declare import Takes, log, pairs
from evenhand.errors import EvenhandError
from evenhand.labels import spellings, whole_labels
from evenhand.sources.frames import INTEGERS
from evenhand.sources.logs import (
    AT_MOST,
    MOST_UNITS,
    Amount,
    Log,
    NanPolicy,
    never_varies,
    open_log,
    open_population,
    outside_population,
    population_sizes,
    slice_words,
    varying,
    with_slices_of_units,
    with_text_ids,
)
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Bins, Periods, Relation, in_periods, is_number, slicing
from evenhand.sources.sql import nan_as_null, quoted
from evenhand.tallies.slices import Edges, Label, Legend, Slices

REMEDY = "Pass {slice: size}, a table of units that holds the column, or None for those seen."


def padded(slices: Slices, log: Log, population: Any) -> Slices:
    """The slices with the units that nobody saw."""
    if population is None:
        return slices
    if log.weight is not None:
        kind = "a table" if isinstance(population, Relation) else "a number"
        raise EvenhandError(
            f"population as {kind} does not say what the unseen units weigh. Pass population=None with weight=."
        )
    sizes: Mapping[Label, int]
    if isinstance(population, Relation):
        sizes = _sizes_of_table(slices, log, population)
    elif isinstance(population, Mapping):
        sizes = _mapped(slices, log, population)
    else:
        if len(log.by) != 1 or slices.spectra.units.sum() <= population:  # more than that: some unit is in two slices
            _refuse_padding_of_unit_properties(slices, log, list(log.by), f"population={population!r}")
        sizes = dict.fromkeys(slices.labels if log.by else ((),), int(population))
    seen = dict(zip(slices.labels, slices.spectra.units.tolist(), strict=True))
    short = {label: n for label, n in seen.items() if sizes[label] < n}
    if short:
        worst = max(short, key=lambda label: short[label] - sizes[label])
        where = f" in slice {slice_words([worst])}" if worst else ""
        raise EvenhandError(
            f"population={sizes[worst]:,} is smaller than the {int(short[worst]):,} units in the table{where}. "
            "Pass the number of units that could have received something, or None for those seen."
        )
    return slices.padded(sizes)


def _sizes_of_table(slices: Slices, log: Log, population: Relation) -> dict[Label, int]:
    """Sizes of slices from a table of units that has some of the slice columns: each is for all values of the others."""
    columns = [i for i, b in enumerate(log.by) if b in population.schema]
    others = [i for i in range(len(log.by)) if i not in columns]
    what = "population is a table without that column and"
    _refuse_padding_of_unit_properties(slices, log, [log.by[i] for i in others], what)
    if count := outside_population(log, population, columns):  # then one of the two tables is wrong
        raise EvenhandError(
            f"{count:,} units received something but are not in population{' with the same slice' if columns else ''}. "
            "Add them to the population table, or remove their rows."
        )
    seen = dict.fromkeys(tuple(label[i] for i in others) for label in slices.labels) if others else {(): None}
    sizes = population_sizes(log, population, columns)
    places = [*others, *columns]
    both = {other + key: n for other in seen for key, n in sizes.items()}
    return {tuple(key[places.index(i)] for i in range(len(places))): n for key, n in both.items()}


def _mapped(slices: Slices, log: Log, population: Mapping[Any, Any]) -> dict[Label, int]:
    sizes = _typed({k if isinstance(k, tuple) else (k,): v for k, v in population.items()}, slices.labels)
    if not log.by:
        raise EvenhandError("population gives a size per slice, but there are no slices. Pass one number, or name by=.")
    wrong = [
        k
        for k, v in sizes.items()
        if len(k) != len(log.by) or isinstance(v, bool) or not isinstance(v, (int, np.integer)) or v < 0
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
    """Sizes with labels typed as in the table: command lines and files know text only."""
    columns = [set(column) for column in zip(*labels, strict=True)]
    written = [{word: v for v in column if v is not None for word in spellings(v)} for column in columns]

    def meant(at: int, value: Any) -> Any:
        if at >= len(columns) or value in columns[at]:
            return value
        return next((written[at][word] for word in spellings(value) if word in written[at]), value)

    return {tuple(meant(i, v) for i, v in enumerate(key)): size for key, size in sizes.items()}


def _refuse_padding_of_unit_properties(slices: Slices, log: Log, columns: list[str], what: str) -> None:
    """Refuse one size for every slice where a unit is in one slice only."""
    places = {b: log.by.index(b) for b in columns}
    several = [b for b, i in places.items() if len({label[i] for label in slices.labels}) > 1]
    fixed = [b for b in several if never_varies(log, f"by_{places[b]}")]
    if fixed:
        raise EvenhandError(
            f"by={fixed[0]!r} never varies within a unit, so {what} would count every unit in every slice. {REMEDY}"
        )


ONLY_SEEN = "only units seen"


def sizes(words: list[str]) -> Any:
    """A population as the command line writes it: a number, `slice=number,...`, or a path.

    >>> sizes(["1,000"]), sizes(["a=3,b=4"]), sizes(["authors.csv"])
    (1000, {'a': 3, 'b': 4}, 'authors.csv')
    """
    text = words[-1]
    if re.fullmatch(r"-?(\d+(_\d+)*|\d{1,3}(,\d{3})+)", text):
        return int(text.replace(",", ""))
    if re.fullmatch(r"-?[\d,]+", text):
        raise EvenhandError(
            f"--population {text!r} is not one number: a comma stands before every three digits, as in 1,000,000. "
            "Write one number, or slice=number,slice=number."
        )
    if "=" not in text or text.endswith((".parquet", ".csv", ".jsonl", ".gz")):
        return text
    return pairs("population", text, int)


By = Annotated[str | Bins | Periods | Sequence[str | Bins | Periods] | None, Takes("COLUMN", many=True)]
Population = Annotated[Any, Takes("N|FILE|SLICE=N,...|none", table=True, sizes=True, read=sizes)]


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

    def slices(self, amount: Amount) -> Slices:
        """One spectrum per slice, the unseen included, called by name."""
        named = self.legend.named(self.by, self.padded(Slices.per_slice(self.log, amount)))
        return replace(named, labels=whole_labels(named.labels))

    def padded(self, seen: Slices) -> Slices:
        return padded(seen, self.log, self.legend.numbered(self.by, self.everyone))

    def whole(self) -> Units:
        """The units without the part that splits them."""
        return replace(self, log=replace(self.log, by=self.by[:-1]))

    def cells(self, label: Label) -> dict[str, Any]:
        return self.legend.cells(self.by, label)

    @property
    def population_words(self) -> Any:
        """Who was counted, for the record."""
        if self.everyone is None:
            return ONLY_SEEN
        if isinstance(self.everyone, Relation):
            return self.everyone.origin
        return {str(k): v for k, v in self.everyone.items()} if isinstance(self.everyone, Mapping) else self.everyone


def units_of(
    table: Any,
    *,
    unit: str | None,
    amount: str | Sequence[str] | None,
    population: Any,
    by: By = None,
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
    log.info("checking the table")
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
        if isinstance(everyone, int):
            raise EvenhandError(
                f"population={everyone!r} would count every unit in every bin of by={spec}. "
                f"Pass a table of units that holds {spec.column!r}, {{bin: size}}, or None for those seen."
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
