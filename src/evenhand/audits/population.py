"""Slices with everyone who could have received something: the units that nobody saw are added, or the population is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError
from evenhand.labels import spellings
from evenhand.sources.logs import (
    AT_MOST,
    MOST_UNITS,
    Log,
    never_varies,
    outside_population,
    population_sizes,
    slice_words,
)
from evenhand.sources.relation import Relation
from evenhand.tallies.slices import Label, Slices

WEIGHTLESS = "population as a table does not say what the unseen units weigh. Pass population=None with weight=."

REMEDY = "Pass {slice: size}, a table of units that holds the column, or None for those seen."


def padded(slices: Slices, log: Log, population: Any) -> Slices:
    """The slices with the units that nobody saw."""
    if population is None:
        return slices
    if isinstance(population, Relation):
        if log.weight is not None:
            raise EvenhandError(WEIGHTLESS)
        columns = [i for i, b in enumerate(log.by) if b in population.schema]
        others = [b for i, b in enumerate(log.by) if i not in columns]
        _refuse_padding_of_unit_properties(slices, log, others, "population is a table without that column and")
        if count := outside_population(log, population, columns):  # then one of the two tables is wrong
            raise EvenhandError(
                f"{count:,} units received something but are not in population{' with the same slice' if columns else ''}. "
                "Add them to the population table, or remove their rows."
            )
        return _padded_by_columns(slices, log, columns, population_sizes(log, population, columns))
    if log.weight is not None:
        raise EvenhandError(
            "population as a number does not say what the unseen units weigh. Pass population=None with weight=."
        )
    if isinstance(population, Mapping):
        return _padded_to(slices, _mapped(slices, log, population))
    if len(log.by) != 1 or slices.spectra.units.sum() <= population:  # more than that: some unit is in two slices
        _refuse_padding_of_unit_properties(slices, log, list(log.by), f"population={population!r}")
    return _padded_to(slices, dict.fromkeys(_labels(slices, log), int(population)))


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


def _padded_to(slices: Slices, sizes: Mapping[Label, int]) -> Slices:
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


def _padded_by_columns(slices: Slices, log: Log, columns: Sequence[int], sizes: Mapping[Label, int]) -> Slices:
    """Padded to sizes that a table of units gives for some of the slice columns."""
    if not columns:
        return _padded_to(slices, dict.fromkeys(_labels(slices, log), sizes.get((), 0)))
    if len(columns) == len(log.by):
        return _padded_to(slices, sizes)
    rest = [i for i in range(len(log.by)) if i not in columns]
    seen = dict.fromkeys(tuple(label[i] for i in rest) for label in slices.labels)
    both = {other + key: n for other in seen for key, n in sizes.items()}
    places = [*rest, *columns]
    return _padded_to(slices, {tuple(key[places.index(i)] for i in range(len(places))): n for key, n in both.items()})


def _labels(slices: Slices, log: Log) -> tuple[Label, ...]:
    """The slices seen; without slices the whole table is one, also where it holds nobody."""
    return slices.labels if log.by else ((),)


def _refuse_padding_of_unit_properties(slices: Slices, log: Log, columns: list[str], what: str) -> None:
    """Refuse one size for every slice where a unit is in one slice only."""
    places = {b: log.by.index(b) for b in columns}
    several = [b for b, i in places.items() if len({label[i] for label in slices.labels}) > 1]
    fixed = [b for b in several if never_varies(log, f"by_{places[b]}")]
    if fixed:
        raise EvenhandError(
            f"by={fixed[0]!r} never varies within a unit, so {what} would count every unit in every slice. {REMEDY}"
        )
