"""How many units received each amount: all that an inequality metric may see.

One query sums amounts per unit, then counts units per amount and slice (`Slices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

import numpy as np

from evenhand.cards import LARGEST_TOTAL, Floats
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import rows_in_order
from evenhand.sources.quantiles import significant
from evenhand.sources.sql import columns
from evenhand.tallies.ragged import Bools, Ints, run_starts, segment_sums, sorted_runs, starts_of

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.logs import Amount, Log, Units

UNPADDED = 1 << 17
"""Cells above which a slice is measured by itself, as wide as it is."""

BIN_WIDTH = 2.0**-12
"""Relative width of the bins on which draws run when a spectrum is too wide to resample cell by cell."""


@dataclass(frozen=True)
class Spectrum:
    """How many units received each amount.

    Attributes
    ----------
    values : (..., D) amounts, never decreasing along the last axis, none negative.
    counts : (..., D) units holding each amount. Leading axes are replicates or slices, so a bootstrap is one more
        axis and never a loop. A cell with no unit changes nothing.
    weights : (..., D) weight of each unit in the cell, or None when every unit counts once.
    """

    values: Floats
    counts: Floats
    weights: Floats | None = None

    @classmethod
    def from_arrays(
        cls, x: Any, weights: Any = None, nan_policy: Literal["raise", "omit", "propagate"] = "raise"
    ) -> Spectrum:
        """Tally plain amounts, one per unit.

        >>> Spectrum.from_arrays([3, 0, 0, 3, 1])
        Spectrum(values=array([0., 1., 3.]), counts=array([2., 1., 2.]), weights=None)
        """
        if nan_policy not in ("raise", "omit", "propagate"):
            raise EvenhandError(f"nan_policy={nan_policy!r} is unknown. Use 'raise', 'omit' or 'propagate'.")
        x = vector("x", x)
        w = None if weights is None else _check_weights(vector("weights", weights), len(x))
        missing = np.isnan(x)
        if missing.any() and nan_policy == "propagate":
            return cls(np.array([np.nan]), np.ones(1))
        if missing.any() and nan_policy == "omit":
            x, w = x[~missing], None if w is None else w[~missing]
        check_amounts(x, float(len(x) if w is None else w.sum()))
        if w is not None and w.any():
            return collapse(x[w > 0].astype(np.float64), np.ones(int((w > 0).sum())), w[w > 0])
        if w is not None and len(x):
            return cls(np.zeros(1), np.array([float(len(x))]), np.zeros(1))
        ordered = np.sort(x)
        starts = run_starts(ordered)
        values = ordered[starts].astype(np.float64) + 0.0  # -0.0 is zero
        return cls(values, np.diff(starts, append=len(ordered)).astype(np.float64))

    @cached_property
    def mass(self) -> Floats:
        """Units in each cell, times their weight."""
        return self.counts if self.weights is None else self.counts * self.weights

    @cached_property
    def units(self) -> Floats:
        """Number of units, whatever their weight."""
        return np.asarray(self.counts.sum(-1))

    @cached_property
    def size(self) -> Floats:
        """Total weight; the number of units when there are no weights."""
        return np.asarray(dot(self.mass))

    @cached_property
    def total(self) -> Floats:
        """Everything that was received."""
        return dot(self.mass, self.values)

    def sum_of(self, per_unit: Floats) -> Floats:
        """Sum over units of a quantity per cell; cells without units add nothing, even if infinite."""
        sums = dot(self.mass, per_unit)
        if not np.isfinite(sums).all():
            sums = np.where(self.mass > 0, self.mass * per_unit, 0.0).sum(-1)
        return np.asarray(sums + np.zeros(self._lead()))

    def spread_out(self) -> Spectrum:
        """This spectrum with an axis of one entry before the cells, for replicates of each."""
        weights = None if self.weights is None else self.weights[..., None, :]
        return Spectrum(self.values[..., None, :], self.counts[..., None, :], weights)

    @cached_property
    def reach(self) -> Floats:
        """Mass up to and including each cell."""
        return np.cumsum(self.mass, axis=-1)

    @cached_property
    def amount(self) -> Floats:
        """What the units of each cell received."""
        return self.mass * self.values

    @cached_property
    def cum_amount(self) -> Floats:
        return np.cumsum(self.amount, axis=-1)

    def _lead(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.counts.shape[:-1], self.values.shape[:-1])

    def reason(self) -> str:
        if np.isnan(self.values[..., -1:]).any():  # they stand last
            return "nan_in_data"
        if not self.units.any():
            return "empty"
        if not self.size.any():
            return "zero_weight"
        return "" if self.total.any() else "zero_total"

    def merge(self, other: Spectrum) -> Spectrum:
        """Add another shard; the order of shards never matters."""
        both = Spectra.from_spectra([self, other])
        return collapse(both.values, both.counts, both.weights)

    def padded(self, zeros: float) -> Spectrum:
        if not zeros:
            return self
        return self.merge(Spectrum(np.zeros(1), np.array([float(zeros)])))

    @property
    def receivers(self) -> float:
        return float(self.counts[self.values > 0].sum())

    def coarse(self, min_units: int) -> Spectrum:
        """Units averaged `min_units` neighbours at a time from the top: no cell discloses fewer.

        The rest at the lower end joins the last that are averaged; units with nothing stay as they are. Replicates are
        averaged one by one.

        >>> Spectrum.from_arrays([0, 1, 2, 3, 5, 5, 6]).coarse(2).values.tolist()
        [0.0, 1.5, 4.0, 5.5]
        """
        if lead := self._lead():
            stacked = Spectra.from_spectra([replicate.coarse(min_units) for replicate in self._each(lead)]).stacked()
            weights = None if stacked.weights is None else stacked.weights.reshape(*lead, -1)
            return Spectrum(stacked.values.reshape(*lead, -1), stacked.counts.reshape(*lead, -1), weights)
        above = self.values > 0
        values, counts = self.values[above][::-1], self.counts[above][::-1]
        weights = np.ones_like(values) if self.weights is None else self.weights[above][::-1]
        ends = np.cumsum(counts)
        if min_units <= 1 or not len(ends) or ends[-1] < min_units:
            return self
        starts, last = ends - counts, np.floor(ends[-1] / min_units) - 1
        first, behind = np.floor(starts / min_units), np.floor(ends / min_units)
        # A cell begins inside one run of neighbours, fills whole runs, and ends inside another; all from `last` on are one.
        head = np.minimum(ends, (first + 1) * min_units) - starts
        pure = np.maximum(np.minimum(behind, last) - first - 1, 0) * min_units
        low = np.maximum(behind - np.maximum(first + 1, last), 0) * min_units
        units = np.concatenate([head, low, counts - head - pure - low])
        runs = np.concatenate([first, np.full_like(first, last), behind]).clip(max=last).astype(np.int64)
        mass = units * np.tile(weights, 3)
        sums = (np.bincount(runs, part) for part in (units, mass, mass * np.tile(values, 3)))
        number, size, amount = (part[: int(last) + 1] for part in sums)
        filled, whole, zeros = number > 0, pure > 0, ~above
        mean = amount[filled] / np.where(size[filled] > 0, size[filled], 1.0)
        new_weights = None
        if self.weights is not None:
            new_weights = np.concatenate([self.weights[zeros], size[filled] / number[filled], weights[whole]])
        new_values = np.concatenate([self.values[zeros], mean, values[whole]])
        return collapse(new_values, np.concatenate([self.counts[zeros], number[filled], pure[whole]]), new_weights)

    def _each(self, lead: tuple[int, ...]) -> Iterator[Spectrum]:
        """Every replicate by itself, without its empty cells."""
        shape = (*lead, self.values.shape[-1])
        arrays = (self.values, self.counts, np.ones(1) if self.weights is None else self.weights)
        for v, c, w in zip(*(np.broadcast_to(part, shape).reshape(-1, shape[-1]) for part in arrays), strict=True):
            at = c > 0
            yield Spectrum(v[at], c[at], None if self.weights is None else w[at])

    def resample(self, draws: int, rng: np.random.Generator) -> Spectrum:
        """Draw whole populations; the same law as resampling the units one by one."""
        size = round(float(self.units))
        drawn = rng.multinomial(size, self.counts / self.counts.sum(), draws) if size else np.zeros((draws, 0))
        return Spectrum(self.values, drawn.astype(np.float64), self.weights)

    def binned(self, width: float = BIN_WIDTH) -> Spectrum:
        """Units in bins of relative width `width`, each at its mean; weighted cells are unchanged."""
        if self.weights is not None:
            return self
        first = int(np.searchsorted(self.values, 0.0, side="right"))
        return self._joined(first, run_starts(bin_codes(self.values[first:], width)))

    def _joined(self, first: int, starts: Ints) -> Spectrum:
        """The cells from `first` on in bins that begin at `starts`, each at its mean."""
        if not len(starts):
            return self
        counts = np.add.reduceat(self.counts[first:], starts)
        means = np.add.reduceat(self.counts[first:] * self.values[first:], starts) / counts
        return Spectrum(np.append(self.values[:first], means), np.append(self.counts[:first], counts))

    def gathered(self, parts: int, separate_rank: float = 0.0, near: Sequence[tuple[float, float]] = ()) -> Spectrum:
        """Units in fewer cells, each at its mean, for curves and sums; weighted ones unchanged.

        No bin of several amounts spans more than about a part in `parts` of the units or of all they hold, nor a factor of
        more than 2^(16 / parts) in amounts or, about, in ranks from the bottom or the top: so those that hold most, and
        amounts that differ little, stay apart. The amount of the unit of rank `separate_rank` shares its bin with no other, nor does
        any between two ranks of `near`.

        >>> Spectrum.from_arrays([1, 2, *range(1000, 1010), 9000]).gathered(4).values.tolist()
        [1.0, 2.0, 1000.0, 1002.0, 1005.0, 1007.5, 1009.0, 9000.0]
        """
        if self.weights is not None:
            return self
        first = int(np.searchsorted(self.values, 0.0, side="right"))
        values, counts = self.values[first:], self.counts[first:]
        if not len(values):
            return self
        reach, cum_amount = np.cumsum(self.counts)[first:], np.cumsum(counts * (values / values[-1]))
        even, factor = np.arange(1, parts) / parts, 16 / parts
        ends = 2.0 ** np.arange(0.0, np.log2(reach[-1] / 8), factor)  # further in, even parts are narrower
        grid = np.arange(np.log2(values[0]), np.log2(values[-1]), factor)[1:]
        begins = [np.zeros(1), _alone(cum_amount, cum_amount[-1] * even), np.searchsorted(values, 2.0**grid)]
        rank_edges = (reach[-1] * even, ends, (reach[-1] - ends)[::-1], [separate_rank, separate_rank])
        begins += [_alone(reach, edges) for edges in rank_edges]
        begins += [np.arange(*np.searchsorted(reach, ranks) + np.array([0, 2])) for ranks in near]
        starts = np.unique(np.concatenate(begins)).astype(np.int64)
        return self._joined(first, starts[starts < len(values)])


def _alone(cumulated: Floats, edges: Any) -> Ints:
    """Cells at which a new bin begins, so that only a bin of one cell reaches past two edges."""
    at = np.searchsorted(cumulated, edges)
    return np.concatenate([at, at[1:][at[1:] == at[:-1]] + 1])


@dataclass(frozen=True, slots=True)
class Spectra:
    """One spectrum per slice, end to end: cells `starts[i]` to `starts[i + 1]` are slice i."""

    values: Floats
    counts: Floats
    starts: Ints
    weights: Floats | None = None

    @classmethod
    def from_spectra(cls, spectra: Sequence[Spectrum]) -> Self:
        values, counts = (
            np.concatenate([np.zeros(0), *(getattr(s, name) for s in spectra)]) for name in ("values", "counts")
        )
        weights = None
        if any(s.weights is not None for s in spectra):
            weights = np.concatenate([np.ones_like(s.values) if s.weights is None else s.weights for s in spectra])
        return cls(values, counts, starts_of([len(s.values) for s in spectra]), weights)

    @classmethod
    def from_cells(
        cls, slice_codes: Ints, values: Floats, counts: Floats, slices: int, weights: Floats | None = None
    ) -> Spectra:
        """Cells in any order, sorted by slice and amount (and weight), those that agree joined."""
        order, starts = sorted_runs(slice_codes, values, *(() if weights is None else (weights,)))
        codes, values, counts = slice_codes[order], values[order], counts[order]
        weights = None if weights is None else weights[order]
        joined = np.add.reduceat(counts, starts) if len(starts) else np.zeros(0)
        bounds = np.searchsorted(codes[starts], np.arange(slices + 1)).astype(np.int64)
        return cls(values[starts], joined, bounds, None if weights is None else weights[starts])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> Spectrum:
        at = slice(int(self.starts[i]), int(self.starts[i + 1]))
        return Spectrum(self.values[at], self.counts[..., at], None if self.weights is None else self.weights[at])

    def separate(self) -> list[Spectrum]:
        return [self[i] for i in range(len(self))]

    @property
    def units(self) -> Floats:
        return segment_sums(self.counts, self.starts)

    @property
    def receivers(self) -> Floats:
        return segment_sums(np.where(self.values > 0, self.counts, 0.0), self.starts)

    def wider(self, cells: int) -> Bools:
        """Which slices have more cells, all of the same weight."""
        return (np.diff(self.starts) > cells) & (self.weights is None)

    def only(self, chosen: Bools) -> Spectra:
        return self if chosen.all() else Spectra.from_spectra([self[i] for i in np.flatnonzero(chosen).tolist()])

    def each(self, change: Callable[[Spectrum], Spectrum], chosen: Bools | None = None) -> Spectra:
        """Every slice, or those `chosen`, made into another."""
        at = np.ones(len(self), dtype=bool) if chosen is None else chosen
        if not at.any():
            return self
        return Spectra.from_spectra([change(self[i]) if at[i] else self[i] for i in range(len(self))])

    def coarse(self, min_units: int) -> Spectra:
        return self if min_units <= 1 else self.each(lambda s: s.coarse(min_units))

    def padded(self, zeros: Floats) -> Spectra:
        some = np.flatnonzero(zeros)
        codes = np.append(np.repeat(np.arange(len(self)), np.diff(self.starts)), some)
        weights = None if self.weights is None else np.append(self.weights, np.ones(len(some)))
        values, counts = np.append(self.values, np.zeros(len(some))), np.append(self.counts, zeros[some])
        return Spectra.from_cells(codes, values, counts, len(self), weights)

    def batches(self, most_cells: int) -> Iterator[tuple[Ints, Spectrum]]:
        """Slices of similar width as a padded Spectrum (slices, cells) of about `most_cells`.

        A slice is padded to a width that follows from its own length alone: sums then group the same way whatever other
        slices there are, and one more slice changes no bit of any other number.
        """
        widths = _padded_widths(np.diff(self.starts))
        order = np.argsort(widths, kind="stable")
        start = 0
        while start < len(order):
            width = int(widths[order[start]])
            stop = int(np.searchsorted(widths[order], width, side="right"))
            stop = max(start + 1, min(stop, start + most_cells // width))
            chosen = order[start:stop]
            yield chosen, self._stacked(chosen, width)
            start = stop

    def stacked(self) -> Spectrum:
        """All slices as one padded Spectrum (slices, cells)."""
        return self._stacked(np.arange(len(self)), int(np.diff(self.starts).max(initial=1)))

    def _stacked(self, chosen: Ints, width: int) -> Spectrum:
        lengths = np.diff(self.starts)[chosen]
        if len(chosen) == 1 and width == lengths[0]:
            spectrum = self[int(chosen[0])]
            weights = None if spectrum.weights is None else spectrum.weights[None, :]
            return Spectrum(spectrum.values[None, :], spectrum.counts[None, :], weights)
        offsets = np.arange(width)
        inside = offsets < lengths[:, None]
        last = np.maximum(lengths - 1, 0)[:, None]
        at = np.minimum(self.starts[chosen][:, None] + np.minimum(offsets, last), max(len(self.values) - 1, 0))
        if not len(self.values):
            return Spectrum(np.zeros(at.shape), np.zeros(at.shape))
        weights = None if self.weights is None else self.weights[at]
        return Spectrum(self.values[at], np.where(inside, self.counts[at], 0.0), weights)


def _padded_widths(lengths: Ints) -> Ints:
    """Lengths rounded up to three binary digits (at most a quarter more); those of the widest stay.

    >>> _padded_widths(np.array([0, 7, 9, 1000, 10**6])).tolist()
    [1, 7, 10, 1024, 1000000]
    """
    step = 1 << np.maximum(np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64) - 2, 0)
    return np.where(lengths > UNPADDED, lengths, np.maximum(-(-lengths // step) * step, 1))


def bin_codes(values: Floats, width: float) -> Ints:
    """The bin of relative width `width` of each amount; zero has a bin of its own.

    >>> bin_codes(np.array([0.0, 1.0, 1.2, 1.3, 2.0]), 0.25).tolist()
    [-9223372036854775808, 4, 4, 5, 8]
    """
    mantissa, exponent = np.frexp(values)
    steps = round(1 / width)
    codes = exponent.astype(np.int64) * steps + ((mantissa - 0.5) * 2 * steps).astype(np.int64)
    codes[values == 0] = np.iinfo(np.int64).min
    return codes


def collapse(values: Floats, counts: Floats, weights: Floats | None = None) -> Spectrum:
    """Sort cells by amount (and weight) and join those that agree."""
    return Spectra.from_cells(np.zeros(len(values), dtype=np.int64), values, counts, 1, weights)[0]


def dot(a: Floats, b: Floats | None = None) -> Floats:
    """Sums over cells, of products with `b` or with ones."""
    run = 1 << 13  # longer products are split among threads by some BLAS libraries, and then vary in the last bits
    factors = np.ones(a.shape[-1]) if b is None else b
    runs = [slice(i, i + run) for i in range(0, max(1, a.shape[-1]), run)]
    parts = [np.vecdot(a[..., at], factors[..., at]) for at in runs]
    return np.asarray(parts[0] if len(parts) == 1 else np.sum(parts, axis=0))


def entries(of: Any, cells: Ints) -> Any:
    """The entry at one cell of each row; rows of `of` are broadcast. NaN where there are no cells."""
    if not of.shape[-1]:
        return np.full(cells.shape, np.nan)
    rows = np.arange(math.prod(of.shape[:-1])).reshape(of.shape[:-1])
    return of.reshape(-1).take(rows * of.shape[-1] + cells)


def before(running: Floats, cells: Ints) -> Floats:
    """A running sum just before one cell of each row."""
    return np.where(cells > 0, entries(running, np.maximum(cells - 1, 0)), 0.0)


def crossing(running: Floats, bound: Floats) -> tuple[Ints, Bools]:
    """The first cell of each row at which a running sum reaches a bound, and whether there is one."""
    is_reached = running >= bound[..., None]
    cells = is_reached.argmax(-1) if is_reached.shape[-1] else np.zeros(is_reached.shape[:-1], dtype=np.int64)
    return cells, np.asarray(is_reached.any(-1))


def _check_weights(weights: Any, amounts: int) -> Floats:
    if amounts != len(weights):
        raise EvenhandError(f"There are {amounts:,} amounts and {len(weights):,} weights. Pass one weight per amount.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise EvenhandError("weights holds negative, NaN or infinite numbers. Pass weights of zero or more.")
    return np.asarray(weights, dtype=np.float64)


def vector(name: str, data: Any) -> Any:
    """Plain numbers, one per unit, as an array; text is not read as numbers."""
    try:
        # The keys of a mapping are labels, and a set drops ties: none of these is a number per unit.
        if isinstance(data, (str, bytes, Mapping, AbstractSet)):
            raise TypeError(type(data))
        x = np.asarray(data)
        if x.dtype.kind == "O" and not any(isinstance(value, (str, bytes)) for value in x.ravel().tolist()):
            x = x.astype(np.float64)
        if x.dtype.kind not in "uifb" or isinstance(data, np.ma.MaskedArray):
            raise TypeError(x.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise EvenhandError(f"{name} must be numbers. Pass a list or array with one number per unit.") from error
    if x.ndim != 1:
        raise EvenhandError(f"{name} must be one-dimensional, not of shape {x.shape}. Pass one number per unit.")
    return x.astype(np.int64) if x.dtype.kind == "b" else x


def check_amounts(x: Any, units: float) -> None:
    """Refuse amounts that are NaN, negative or infinite, or that add up to too much over so many units."""
    bad = {
        "NaN. Remove them, or pass nan_policy='omit' or 'propagate'": np.isnan(x),
        "negative. Pass amounts of zero or more": x < 0,
        "infinite. Pass finite amounts": np.isinf(x),
    }
    if problems := [f"{int(at.sum()):,} amounts are {what}." for what, at in bad.items() if at.any()]:
        raise all_problems(problems)
    if float(x.max(initial=0)) > LARGEST_TOTAL / max(1.0, units):
        raise EvenhandError("x adds up to more than a number can hold. Pass it in a larger unit.")


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
    def of_units(cls, units: Units, amount: Amount) -> Slices:
        """One spectrum per slice, the unseen included, bins called by name."""
        return units.padded(cls.per_slice(units.log, amount)).named(units)

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
        values = cells.integers("amount").astype(np.float64) if is_integer else significant(cells.floats("amount"))
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

    def named(self, units: Units) -> Slices:
        """Slices in the order of their bins, called by name."""
        ordered = self.in_order(units.order(self.labels)) if units.legend.edges else self
        return replace(ordered, labels=units.names(ordered.labels), broken=frozenset(units.names(self.broken)))

    @property
    def seen(self) -> dict[Label, float]:
        """How many units each slice has."""
        return dict(zip(self.labels, self.spectra.units.tolist(), strict=True))

    def padded(self, sizes: Mapping[Label, int]) -> Slices:
        """These slices with unseen units added, to as many units as `sizes` has for every slice."""
        seen = self.seen
        every = self.with_slices([label for label in sizes if label not in seen])
        zeros = np.array([sizes[label] - seen.get(label, 0) for label in every.labels], dtype=np.float64)
        return replace(every, spectra=every.spectra.padded(zeros))


T = TypeVar("T", bound=Any)
"""A tally of `units` to which some that received nothing can be added (`padded`)."""


@dataclass(frozen=True)
class SlicedTallies(Generic[T]):
    """A tally per slice, in label order, and the slices with a missing amount."""

    labels: tuple[Label, ...]
    tallies: tuple[T, ...]
    broken: frozenset[Label] = frozenset()

    @property
    def seen(self) -> dict[Label, float]:
        """How many units each slice has."""
        return {label: float(tally.units) for label, tally in zip(self.labels, self.tallies, strict=True)}

    def padded(self, sizes: Mapping[Label, int]) -> Self:
        """These tallies with unseen units added, to as many units as `sizes` has for every slice."""
        tallies = zip(self.labels, self.tallies, strict=True)
        return replace(self, tallies=tuple(tally.padded(sizes[label] - tally.units) for label, tally in tallies))

    def named(self, units: Units) -> Self:
        """Slices in the order of their bins, called by name."""
        places = units.order(self.labels)
        return replace(
            self, labels=units.names([self.labels[i] for i in places]), tallies=tuple(self.tallies[i] for i in places),
            broken=frozenset(units.names(self.broken)),
        )  # fmt: skip


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
