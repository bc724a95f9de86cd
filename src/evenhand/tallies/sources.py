"""Units by what their amounts are made of: groups of units (`Partition`), or amounts from several sources (`Sources`)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import in_order, listed, rows_in_order, whole
from evenhand.sources.quantiles import significant
from evenhand.sources.relation import count_groups
from evenhand.sources.sql import columns, quoted
from evenhand.tallies.ragged import Ints, sorted_runs
from evenhand.tallies.spectrum import NOBODY, Label, SlicedTallies, Slices, Spectra, Spectrum, collapse, vector

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
        amounts, counts = np.vstack([self.amounts, np.zeros(len(self))]), np.append(self.counts, units)
        return Sources.collapsed(self.names, amounts, counts)

    def reason(self) -> str:
        if not self.units.any():
            return "empty"
        return "" if (self.counts * self.totals).any() else "zero_total"


@dataclass(frozen=True)
class SourceSlices(SlicedTallies[Sources]):
    """One tally of sources per slice; `names` are the sources."""

    names: tuple[Any, ...] = ()

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
        codes, labels = coded_sources(log, key)
        names, broken = tuple(whole(labels)), log.broken(amount)
        if not names:  # every row was left out
            return cls((), ()) if log.keys else cls((), ()).with_slices([()])
        cells = log.engine.cells(cls.query(log, amount, key, log.engine.bring(codes), len(names)))
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
            amounts = significant(np.column_stack([cells.floats(part) for part in parts]))
        counts = cells.integers("units").astype(np.float64)
        codes, labels = cells.codes(keys)
        order = np.argsort(codes, kind="stable")
        members = np.split(order, np.searchsorted(codes[order], np.arange(1, len(labels)))) if labels else []
        tallies = [Sources.collapsed(names, amounts[m], counts[m]) for m in members]
        return cls(tuple(labels), tuple(tallies), broken, names).with_slices(broken)

    def with_slices(self, labels: Collection[Label]) -> SourceSlices:
        """These slices, with an empty one for every label that has none."""
        absent = [label for label in labels if label not in self.seen]
        nobody = Sources(self.names, np.zeros((0, len(self.names))), np.zeros(0))
        every, tallies = (*self.labels, *absent), (*self.tallies, *[nobody] * len(absent))
        places = rows_in_order(every) if absent else range(len(every))
        return replace(self, labels=tuple(every[i] for i in places), tallies=tuple(tallies[i] for i in places))

    def padded(self, sizes: Mapping[Label, int]) -> SourceSlices:
        every = self.with_slices(sizes)
        tallies = zip(every.labels, every.tallies, strict=True)
        return replace(
            every, tallies=tuple(tally.padded(sizes[label] - float(tally.units)) for label, tally in tallies)
        )

    @property
    def totals(self) -> Slices:
        """The units' totals, as the inequality audit sees them."""
        return Slices(self.labels, Spectra.from_spectra([t.spectrum for t in self.tallies]), self.broken)

    def renamed(self, names: tuple[Any, ...]) -> SourceSlices:
        return replace(self, names=names, tallies=tuple(replace(tally, names=names) for tally in self.tallies))


def coded_sources(log: Log, key: str) -> tuple[Cells, list[Any]]:
    """The sources in a column of a log with the code of each, and their labels in the order of the codes."""
    sources = log.engine.cells(f"SELECT DISTINCT {quoted(key)} AS label FROM {log.source} LIMIT {MOST_SOURCES + 1}")
    if len(sources) > MOST_SOURCES:
        raise EvenhandError(
            f"source has more than {MOST_SOURCES} different values, too many to tell apart. Group them into fewer sources."
        )
    codes, labels = sources.codes(["label"])
    return sources.with_column("code", codes), [label for (label,) in labels]


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


@dataclass(frozen=True)
class Partition(Spectra):
    """Units split into groups: the spectra of the groups. Leading axes of `counts` are replicates."""

    groups: tuple[Any, ...] = ()

    @classmethod
    def from_arrays(cls, x: Any, groups: Any, weights: Any = None) -> Partition:
        """Tally plain amounts, one per unit, with the group of each.

        >>> Partition.from_arrays([3, 0, 0, 3], ["b", "a", "b", "b"]).counts
        array([1., 1., 2.])
        """
        labels, code = coded(groups)
        amounts = vector("x", x)
        if amounts.ndim != 1 or len(code) != len(amounts):
            raise EvenhandError(
                f"There are {amounts.size:,} amounts and {len(code):,} groups. Pass one group per amount."
            )
        every = None if weights is None else np.asarray(weights)
        if every is not None and every.shape != amounts.shape:
            raise EvenhandError(
                f"There are {amounts.size:,} amounts and {every.size:,} weights. Pass one weight per amount."
            )
        order = np.argsort(code, kind="stable")
        edges = np.searchsorted(code[order], np.arange(len(labels) + 1))
        members = [order[low:high] for low, high in pairwise(edges)]
        return cls.joined(
            labels, [Spectrum.from_arrays(amounts[m], None if every is None else every[m]) for m in members]
        )

    @classmethod
    def joined(cls, groups: Sequence[Any], spectra: Sequence[Spectrum]) -> Partition:
        """One spectrum per group, put end to end."""
        return replace(cls.from_spectra(spectra), groups=tuple(groups))

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.values, kind="stable")

    @cached_property
    def pooled(self) -> Spectrum:
        weights = None if self.weights is None else self.weights[self._order]
        return Spectrum(self.values[self._order], self.counts[..., self._order], weights)

    def unpooled(self, per_cell: Floats) -> Floats:
        """A quantity given per cell of `pooled`, in the order of this tally's own cells."""
        out = np.empty_like(per_cell)
        out[..., self._order] = per_cell
        return out

    @property
    def cell_group(self) -> Ints:
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def with_counts(self, counts: Floats) -> Partition:
        return replace(self, counts=counts)

    def reason(self) -> str:
        return self.pooled.reason()

    def without(self, group: Any) -> Partition:
        rest = [g for g, label in enumerate(self.groups) if label != group]
        return Partition.joined([self.groups[g] for g in rest], [self[g] for g in rest])

    def merge_groups(self, groups: Collection[int], name: str) -> Partition:
        """This partition with some groups (by code) merged into one of this name, which stands last."""
        if not groups:
            return self
        merged = NOBODY
        for g in groups:
            merged = merged.merge(self[g])
        rest = [g for g in range(len(self)) if g not in groups]
        return Partition.joined([*(self.groups[g] for g in rest), name], [*(self[g] for g in rest), merged])

    def coarse(self, min_units: int) -> Partition:
        return Partition.joined(self.groups, [self[g].coarse(min_units) for g in range(len(self))])

    def binned(self) -> Partition:
        """This partition with each group's amounts binned, for draws."""
        return Partition.joined(self.groups, [self[g].binned() for g in range(len(self))])


def refuse_shared_units(log: Log) -> None:
    """Refuse units in two groups, the last of the log's slice columns: they would count twice."""
    if log.unit is None:
        return
    pairs = f"(SELECT DISTINCT {columns([*log.keys, 'unit'])} FROM {log.source}) AS pairs"
    count = count_groups(log.engine, pairs, [*log.keys[:-1], "unit"])
    if count:
        raise EvenhandError(
            f"group={log.by[-1]!r} differs between rows of the same unit for {count:,} units. Give each unit one group; "
            "to split the amounts of a unit, use sources."
        )


def partitions(slices: Slices) -> dict[Label, Partition]:
    """The groups of each slice side by side; the last part of a label is the group."""
    members: dict[Label, dict[Any, int]] = {}
    for i, label in enumerate(slices.labels):
        members.setdefault(label[:-1], {})[label[-1]] = i
    return {
        where: Partition.joined(tuple(at), [slices.spectra[i] for i in at.values()]) for where, at in members.items()
    }


def coded(groups: Any) -> tuple[list[Any], Ints]:
    """The distinct labels in order, and for each unit the place of its label among them.

    >>> labels, code = coded(["b", None, "b"])
    >>> labels, code.tolist()
    (['b', None], [0, 1, 0])
    """
    if isinstance(groups, str) or not hasattr(groups, "__len__"):
        raise EvenhandError(f"groups={groups!r} is not a list of labels. Pass one label per amount.")
    if hasattr(groups, "dtype") and isinstance(groups, np.ndarray) and groups.dtype.kind != "O":
        distinct, code = np.unique(groups, return_inverse=True)
        return distinct.tolist(), code.astype(np.int64)
    named = listed(groups)
    if not all(isinstance(label, Hashable) for label in named):
        raise EvenhandError("groups holds lists or other unhashable things. Pass one plain label per amount.")
    # NaN is how some libraries spell a missing label; it equals nothing, so it would be a new group at every row.
    named = [None if label != label else label for label in named]
    labels = in_order(set(named))
    place = {label: i for i, label in enumerate(labels)}
    return labels, np.fromiter((place[label] for label in named), dtype=np.int64, count=len(named))
