"""How many units received each combination of amounts from several sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import whole
from evenhand.sources.quantiles import significant
from evenhand.sources.sql import columns, quoted
from evenhand.tallies.ragged import Ints, sorted_runs
from evenhand.tallies.slices import Label, Slices, rounded, rows_in_order
from evenhand.tallies.spectrum import Spectra, Spectrum, collapse, vector

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.logs import Amount, Log

MOST_SOURCES = 200
"""Each source is a column of the query's sums per unit; more would make a query of thousands of terms."""


class Ladder(NamedTuple):
    """Cells by one amount: their `order`, `steps` where a new amount begins, `step` of each."""

    order: Ints
    steps: Ints
    step: Ints


@dataclass(frozen=True)
class Sources:
    """How many units received each combination of amounts.

    Attributes
    ----------
    names : (K,) the sources.
    amounts : (C, K) what a unit of each cell received from each source; rows distinct, in lexical order.
    counts : (..., C) units in each cell. Leading axes are replicates, so a bootstrap over units is one more axis.
    """

    names: tuple[Any, ...]
    amounts: Floats
    counts: Floats

    @classmethod
    def from_arrays(cls, sources: Mapping[Any, Any]) -> Sources:
        """Tally plain amounts: for each source one amount per unit, in the same order of units.

        >>> Sources.from_arrays({"a": [1, 0, 1], "b": [2, 0, 2]}).counts
        array([1., 2.])
        """
        if not isinstance(sources, Mapping) or not sources:
            raise EvenhandError("sources must be a dictionary of at least one source. Pass {name: amounts, ...}.")
        columns = {name: _amounts(name, x) for name, x in sources.items()}
        lengths = {len(x) for x in columns.values()}
        if len(lengths) > 1:
            listed = ", ".join(f"{name} {len(x):,}" for name, x in columns.items())
            raise EvenhandError(f"The sources differ in length ({listed}). Pass for each source one amount per unit.")
        amounts = np.stack(list(columns.values()), axis=1)
        return cls.collapsed(tuple(columns), amounts, np.ones(len(amounts)))

    @classmethod
    def collapsed(cls, names: tuple[Any, ...], amounts: Floats, counts: Floats) -> Sources:
        if not len(amounts):
            return cls(names, amounts, counts)
        order, starts = sorted_runs(*amounts.T)
        return cls(names, amounts[order[starts]], np.add.reduceat(counts[order], starts))

    def __len__(self) -> int:
        return len(self.names)

    def small_sources(self, min_units: int) -> list[int]:
        """Sources to merge so that none is left with fewer receivers: at least two, smallest first."""
        received = self.amounts > 0
        served = self.counts @ received
        order = np.argsort(served, kind="stable").tolist()
        few = [k for k in order if served[k] < min_units]
        for k in order[len(few) :]:
            some = [j for j in few if served[j]]
            if some and (len(some) < 2 or self.counts @ received[:, few].any(1) < min_units):
                few.append(k)
        return sorted(few)

    def merge_sources(self, sources: Collection[int], name: str) -> Sources:
        """These units with some sources (by code) merged into one of this name, which stands last."""
        if not sources:
            return self
        rest = [k for k in range(len(self)) if k not in sources]
        joined = significant(self.amounts[:, list(sources)].sum(1))
        amounts = np.column_stack([self.amounts[:, rest], joined])
        return Sources.collapsed((*(self.names[k] for k in rest), name), amounts, self.counts)

    @cached_property
    def totals(self) -> Floats:
        """(C,) what a unit of each cell received in all."""
        return significant(np.asarray(self.amounts.sum(-1)))

    @cached_property
    def units(self) -> Floats:
        return np.asarray(self.counts.sum(-1))

    @cached_property
    def spectrum(self) -> Spectrum:
        """The units' totals as a spectrum (one population, no replicates)."""
        return collapse(self.totals, self.counts)

    def spectrum_of(self, k: int) -> Spectrum:
        """Spectrum of the amounts from source k (one population, no replicates)."""
        return collapse(self.amounts[:, k], self.counts)

    @cached_property
    def by_total(self) -> Ladder:
        return ladder(self.totals)

    @cached_property
    def by_source(self) -> tuple[Ladder, ...]:
        return tuple(ladder(self.amounts[:, k]) for k in range(len(self)))

    def with_counts(self, counts: Floats) -> Sources:
        """This tally with other counts in its cells; the sort orders of cells are reused."""
        drawn = replace(self, counts=counts)
        drawn.__dict__.update({name: getattr(self, name) for name in ("totals", "by_total", "by_source")})
        return drawn

    def padded(self, units: float) -> Sources:
        if not units:
            return self
        return self.merge(Sources(self.names, np.zeros((1, len(self))), np.array([float(units)])))

    def merge(self, other: Sources) -> Sources:
        """Add another shard of the same sources; the order of shards never matters."""
        if set(self.names) != set(other.names):
            raise EvenhandError("The shards hold different sources. Tally both with the same list of sources.")
        same = [other.names.index(name) for name in self.names]
        return Sources.collapsed(
            self.names,
            np.concatenate([self.amounts, other.amounts[:, same]]),
            np.concatenate([self.counts, other.counts]),
        )

    def reason(self) -> str:
        if not self.units.any():
            return "empty"
        return "" if (self.counts * self.totals).any() else "zero_total"


@dataclass(frozen=True)
class SourceSlices:
    """One tally of sources per slice, in label order, and the slices with a missing amount."""

    names: tuple[Any, ...]
    labels: tuple[Label, ...]
    tallies: tuple[Sources, ...]
    broken: frozenset[Label] = frozenset()

    @staticmethod
    def query(log: Log, amount: Amount, key: str, codes: str, count: int) -> str:
        """SQL that counts, per slice, the units that hold each vector of amounts.

        `key` is the column of the source, `codes` a table of sources (`label`) with their numbers (`code`), of which there
        are `count`; the missing source has the last.
        """
        kind = "BIGINT" if amount.integer else "DOUBLE"
        parts = [f"from_{k}" for k in range(count)]
        sums = ", ".join(
            f"CAST(SUM(CASE WHEN code = {k} THEN {log.value(amount)} ELSE 0 END) AS {kind}) AS {part}"
            for k, part in enumerate(parts)
        )
        return f"""
            WITH coded AS (
                SELECT log.*, COALESCE(codes.code, {count - 1}) AS code
                FROM {log.source}
                LEFT JOIN {codes} AS codes ON log.{quoted(key)} = codes.label
            ), per_unit AS (
                SELECT {columns([*log.keys, "unit"])}, {sums}
                FROM coded
                {f"WHERE {quoted(amount.column)} IS NOT NULL" if amount.missing else ""}
                GROUP BY {columns([*log.keys, "unit"])}
            )
            SELECT {columns([*log.keys, *parts])}, COUNT(*) AS units
            FROM per_unit
            GROUP BY {columns([*log.keys, *parts])}
        """

    @classmethod
    def per_slice(cls, log: Log, amount: Amount, key: str) -> SourceSlices:
        """Amounts by source of the units of each slice of a log; `key` is the column of the source."""
        sources = log.engine.cells(f"SELECT DISTINCT {quoted(key)} AS label FROM {log.source} LIMIT {MOST_SOURCES + 1}")
        if len(sources) > MOST_SOURCES:
            raise EvenhandError(
                f"source has more than {MOST_SOURCES} different values, too many to tell apart. Group them into fewer sources."
            )
        codes, labels = sources.codes(["label"])
        names, broken = tuple(whole([label for (label,) in labels])), log.broken(amount)
        if not names:  # every row was left out
            nobody = Sources((), np.zeros((0, 0)), np.zeros(0))
            return cls((), (), ()) if log.keys else cls((), ((),), (nobody,))
        table = log.engine.bring(sources.with_column("code", codes))
        cells = log.engine.cells(cls.query(log, amount, key, table, len(names)))
        return cls.from_cells(cells, log.keys, names, broken, is_integer=amount.integer)

    @classmethod
    def from_cells(
        cls, cells: Cells, keys: list[str], names: tuple[Any, ...], broken: frozenset[Label], *, is_integer: bool
    ) -> SourceSlices:
        """Cells (`from_0`, ..., `units`) by slice; float amounts are rounded, equal cells merged."""
        parts = [f"from_{k}" for k in range(len(names))]
        if is_integer:
            amounts = np.column_stack([cells.integers(part) for part in parts]).astype(np.float64)
        else:
            amounts = rounded(np.column_stack([cells.floats(part) for part in parts]))
        counts = cells.integers("units").astype(np.float64)
        codes, labels = cells.codes(keys)
        order = np.argsort(codes, kind="stable")
        members = np.split(order, np.searchsorted(codes[order], np.arange(1, len(labels)))) if labels else []
        tallies = [Sources.collapsed(names, amounts[m], counts[m]) for m in members]
        present = set(labels)
        absent = [label for label in broken if label not in present]
        tallies += [Sources(names, np.zeros((0, len(names))), np.zeros(0)) for _ in absent]
        every = [*labels, *absent]
        rising = rows_in_order(every) if absent else range(len(every))
        return cls(names, tuple(every[i] for i in rising), tuple(tallies[i] for i in rising), broken)

    @property
    def totals(self) -> Slices:
        """The units' totals, as the inequality audit sees them."""
        return Slices(self.labels, Spectra.from_spectra([t.spectrum for t in self.tallies]), self.broken)

    def padded(self, totals: Slices) -> SourceSlices:
        seen = dict(zip(self.labels, self.tallies, strict=True))
        nobody = Sources(self.names, np.zeros((0, len(self.names))), np.zeros(0))
        everyone = []
        for label, units in zip(totals.labels, totals.spectra.units.tolist(), strict=True):
            tally = seen.get(label, nobody)
            everyone.append(tally.padded(units - float(tally.units)))
        return SourceSlices(self.names, totals.labels, tuple(everyone), totals.broken)

    def renamed(self, names: tuple[Any, ...]) -> SourceSlices:
        return replace(self, names=names, tallies=tuple(replace(tally, names=names) for tally in self.tallies))


def ladder(values: Floats) -> Ladder:
    """How cells climb in one amount."""
    order, steps = sorted_runs(values)
    return Ladder(order, steps, np.repeat(np.arange(len(steps)), np.diff(steps, append=len(values))))


def _amounts(name: Any, data: Any) -> Floats:
    x: Floats = vector(f"Source {name!r}", data).astype(np.float64)
    bad = {"NaN": np.isnan(x), "infinite": np.isinf(x), "negative": x < 0}
    problems = [
        f"Source {name!r} holds {int(where.sum()):,} {what} amounts. Pass amounts of zero or more."
        for what, where in bad.items()
        if where.any()
    ]
    if problems:
        raise all_problems(problems)
    return x
