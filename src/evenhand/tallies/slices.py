"""One spectrum per slice: one query sums amounts per unit, then counts units per amount.

A slice may be a bin of a number that belongs to the unit (`Edges`, `Legend`); the groups of a slice are a `Partition`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import in_order, listed, order
from evenhand.sources.quantiles import quantile_edges
from evenhand.sources.relation import Bins
from evenhand.sources.sql import columns, double, nan_as_null
from evenhand.tallies.ragged import Ints
from evenhand.tallies.spectrum import Spectra, Spectrum, vector

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells, Engine
    from evenhand.sources.logs import Amount, Log

Label = tuple[Any, ...]
NOBODY = Spectrum(np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Slices:
    """Spectra per slice, in label order, and the slices with a missing amount."""

    labels: tuple[Label, ...]
    spectra: Spectra
    broken: frozenset[Label] = frozenset()

    @staticmethod
    def query(log: Log, amount: Amount) -> str:
        keys = [*log.keys, "amount"]
        if log.weight is not None:
            keys += ["weight", "least_weight"]
        return f"""
            WITH per_unit AS (
                {log.sums(amount, [*log.keys, "unit"]) if log.unit is not None else _rows_as_units(log, amount)}
            )
            SELECT {columns(keys)}, COUNT(*) AS units
            FROM per_unit
            GROUP BY {columns(keys)}
        """

    @classmethod
    def per_slice(cls, log: Log, amount: Amount) -> Slices:
        cells, broken = log.engine.cells(cls.query(log, amount)), log.broken(amount)
        if log.weight is not None:
            refuse_changing_weights(cells, log.weight)
        return cls.from_cells(cells, log.keys, broken, is_weighted=log.weight is not None, is_integer=amount.integer)

    @classmethod
    def from_cells(
        cls, cells: Cells, keys: Sequence[str], broken: frozenset[Label], *, is_weighted: bool, is_integer: bool
    ) -> Slices:
        """Cells by slice and amount; float amounts are rounded, cells that then agree merged."""
        codes, labels = cells.codes(keys)
        values = cells.integers("amount").astype(np.float64) if is_integer else rounded(cells.floats("amount"))
        units = cells.integers("units").astype(np.float64)
        weights = cells.floats("weight") if is_weighted else None
        if weights is not None:
            # A slice without any weight is kept, so that it can say why it has no number.
            weightless = np.bincount(codes, weights, len(labels)) == 0
            mask = (weights > 0) | weightless[codes]
            codes, values, units, weights = codes[mask], values[mask], units[mask], weights[mask]
        spectra = Spectra.from_cells(codes, values, units, len(labels), weights)
        return cls(tuple(labels), spectra, broken).with_slices(broken)

    def with_slices(self, labels: Sequence[Label] | frozenset[Label]) -> Slices:
        """These slices, with an empty one for every label that has none."""
        present = set(self.labels)
        absent = [label for label in labels if label not in present]
        if not absent:
            return self
        every = (*self.labels, *absent)
        return replace(
            self, labels=every, spectra=Spectra.from_spectra([*self.spectra.separate(), *[NOBODY] * len(absent)])
        ).in_order(rows_in_order(every))

    def in_order(self, places: Sequence[int]) -> Slices:
        each = self.spectra.separate()
        labels = tuple(self.labels[i] for i in places)
        return replace(self, labels=labels, spectra=Spectra.from_spectra([each[i] for i in places]))

    def padded(self, sizes: Mapping[Label, int]) -> Slices:
        """These slices with unseen units added, to as many units as `sizes` has for every slice."""
        seen = dict(zip(self.labels, self.spectra.units.tolist(), strict=True))
        every = self.with_slices([label for label in sizes if label not in seen])
        zeros = np.array([sizes[label] - seen.get(label, 0) for label in every.labels], dtype=np.float64)
        return replace(every, spectra=every.spectra.padded(zeros))


class Padded(Protocol):
    """A tally to which units that received nothing can be added."""

    @property
    def units(self) -> float: ...
    def padded(self, units: float) -> Self: ...
    def whole(self) -> Spectrum: ...


T = TypeVar("T", bound=Padded)


@dataclass(frozen=True)
class SlicedTallies(Generic[T]):
    """A tally per slice, in label order, and the slices with a missing amount."""

    labels: tuple[Label, ...]
    tallies: tuple[T, ...]
    broken: frozenset[Label] = frozenset()

    @property
    def pooled(self) -> Slices:
        return Slices(self.labels, Spectra.from_spectra([tally.whole() for tally in self.tallies]), self.broken)

    def among(self, everyone: Slices) -> Self:
        """These tallies with unseen units added: `everyone` says how many each slice has in all."""
        seen = dict(zip(self.labels, self.tallies, strict=True))
        sizes = zip(everyone.labels, everyone.spectra.units.tolist(), strict=True)
        padded = {label: seen[label].padded(n - seen[label].units) for label, n in sizes if label in seen}
        return replace(self, labels=tuple(padded), tallies=tuple(padded.values()))


def _rows_as_units(log: Log, amount: Amount) -> str:
    weights = ", weight, weight AS least_weight" if log.weight is not None else ""
    chosen = f"{columns(log.keys)}, " if log.keys else ""
    return f"SELECT {chosen}{log.value(amount)} AS amount{weights} FROM {log.non_missing(amount)}"


def refuse_changing_weights(cells: Cells, weight: str) -> None:
    """Refuse cells of units with several weights, which are columns `weight` and `least_weight`."""
    several = cells.floats("weight") != cells.floats("least_weight")
    refuse_weights(int(cells.integers("units")[several].sum()), weight)


def refuse_weights(changing: int, weight: str) -> None:
    if changing:
        raise EvenhandError(
            f"weight={weight!r} differs between rows of the same unit for {changing:,} units. Give each unit one weight."
        )


def rows_in_order(labels: Sequence[Label]) -> list[int]:
    """The places of slices in the order of their labels.

    >>> rows_in_order([("b",), (None,), ("a",)])
    [2, 0, 1]
    """
    return sorted(range(len(labels)), key=lambda i: [order(v) for v in labels[i]])


def rounded(values: Floats, digits: int = 12) -> Floats:
    """Floats to `digits` significant digits, so that sums that differ in the last bits tie.

    >>> rounded(np.array([0.1 + 0.2, 0.0, 123456789.123456])).tolist()
    [0.3, 0.0, 123456789.123]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        places = digits - 1 - np.floor(np.log10(np.where(values > 0, values, 1.0)))
        scale = 10.0 ** np.abs(places)
        shortened = np.where(places >= 0, np.round(values * scale) / scale, np.round(values / scale) * scale)
    return np.where((values > 0) & np.isfinite(shortened) & (np.abs(places) <= 300), shortened, values)


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
        grid = rounded(np.geomspace(least, high, spec.bins + 1))[1:-1]
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

    def numbered(self, by: Sequence[str], population: Any) -> Any:
        """Sizes given per slice, by the number of the bin instead of its name."""
        if not self.edges or not isinstance(population, Mapping):
            return population
        places = [{label: k for k, label in enumerate(self.edges[b].labels)} if b in self.edges else {} for b in by]
        keys = {key: key if isinstance(key, tuple) else (key,) for key in population}
        return {
            tuple(p.get(v, v) for p, v in zip(places, keys[key], strict=False)) if len(keys[key]) == len(by) else key: n
            for key, n in population.items()
        }

    def named(self, by: Sequence[str], slices: Slices) -> Slices:
        """Slices in the order of their bins, called by name."""
        if not self.edges:
            return slices
        ordered = slices.in_order(self.order(slices.labels))
        broken = frozenset(self.name(by, label) for label in slices.broken)
        return replace(ordered, labels=tuple(self.name(by, label) for label in ordered.labels), broken=broken)

    def order(self, labels: Sequence[Label]) -> list[int]:
        """The places of slices so that bins are in order."""
        return rows_in_order(labels) if self.edges else [*range(len(labels))]

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
    *slices, _ = log.keys
    query = f"""
        SELECT COUNT(*) AS n FROM (
            SELECT {columns([*slices, "unit"])}
            FROM (SELECT DISTINCT {columns([*log.keys, "unit"])} FROM {log.source}) AS pairs
            GROUP BY {columns([*slices, "unit"])}
            HAVING COUNT(*) > 1
        ) AS shared
    """
    count = int(log.engine.cells(query).row()["n"])
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
