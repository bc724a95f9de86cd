"""How many units received each amount: all that an inequality metric may see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.tallies.amounts import (
    LARGEST,
    PIECE,
    distinct,
    negative,
    positive,
    refuse_endless,
    run_starts,
    sound,
    vector,
)

Ints = np.typing.NDArray[np.int64]

BLOCK = 1 << 17
"""A spectrum of at most so many cells is walked in one block, whose sums all metrics share."""

RUN = 1 << 13
"""Cells whose products are added up at once."""

ONES = np.ones(RUN)

SORTED = 1 << 18
"""Whole numbers sorted at a time where few differ, so that sorting stays in cache."""

FEW = 64
"""Few differ: a piece holds this many times as many numbers as it has different ones."""

LOW = 1 << 18
"""Whole numbers below this are counted by value, in an array that stays in cache, where most are and many differ."""

BIN_WIDTH = 2.0**-12
"""Relative width of the bins on which draws run when a spectrum is too wide to resample cell by cell."""


@dataclass(frozen=True)
class Block:
    """A run of cells: `mass` in each, and `reach` (mass) and `cum_amount` (amount) up to and including each.

    What is cumulated is worked out when a metric first asks for it; `reached` and `before` are what precedes the block.
    """

    values: Floats
    mass: Floats
    reached: Floats
    before: Floats

    @cached_property
    def reach(self) -> Floats:
        return _after(self.reached, np.cumsum(self.mass, axis=-1))

    @cached_property
    def amount(self) -> Floats:
        """Amount held by the units of each cell."""
        return self.mass * self.values

    @cached_property
    def cum_amount(self) -> Floats:
        return _after(self.before, np.cumsum(self.amount, axis=-1))

    def crossed(self, run: Floats, bound: Floats) -> tuple[Ints, Any]:
        """The first cell at which a running sum is no longer below a bound, and whether there is one in this block."""
        reached = run >= bound[..., None]
        cell = reached.argmax(-1)
        return cell, entries(reached, cell)


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
        if weights is not None:
            return _weighted(x, vector("weights", weights), nan_policy)
        if x.dtype.kind in "ui":
            spectrum = _counted_in_pieces(x) or _counted_by_value(x) or cls._counted(np.sort(x))
            if len(spectrum.values) and spectrum.values[0] < 0:
                raise negative(int(spectrum.counts[spectrum.values < 0].sum()))
            return spectrum
        return cls._ordered(x.astype(np.float64, copy=False), nan_policy)

    @classmethod
    def _ordered(cls, x: Floats, nan_policy: str) -> Spectrum:
        """Sort what is above zero, in one array with a cell for the zeros in front."""
        values, above, zeros = positive(x)
        if above + zeros < len(x):
            x = sound(x, nan_policy)
            if np.isnan(x).any():
                return cls(x, np.ones(1))
        values[1:].sort()
        values = values[0 if zeros else 1 :]
        if len(values) and values[-1] > LARGEST / len(values):
            sound(x, nan_policy)
            refuse_endless((values * 2.0**-100).sum())
        if above > BLOCK and 2 * distinct(values) > len(values):
            return Untied(values, zeros)
        spectrum = cls._counted(values)
        if zeros:
            spectrum.counts[0] = zeros
        return spectrum

    @classmethod
    def _counted(cls, ordered: Any) -> Spectrum:
        """Collapse sorted amounts."""
        if not len(ordered):
            return cls(np.zeros(0), np.zeros(0))
        starts = run_starts(ordered)
        counts = np.diff(starts, append=len(ordered)).astype(np.float64)
        return cls(ordered[starts].astype(np.float64), counts)

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
        out: Any = np.zeros(self._lead())
        for at in self._cells():
            out = out + dot(self.mass_at(at), self.values[..., at])
        return np.asarray(out)

    def sum_of(self, per_unit: Floats) -> Floats:
        """Sum over units of a quantity given per cell; a cell without units adds nothing, even where it is infinite."""
        out: Any = 0.0
        for at in self._cells():
            mass, each = self.mass_at(at), per_unit[..., at]
            part = dot(mass, each)
            out = out + (part if np.isfinite(part).all() else np.where(mass > 0, mass * each, 0.0).sum(-1))
        return np.asarray(out, dtype=np.float64) + np.zeros(self._lead())

    def spread_out(self) -> Spectrum:
        """This spectrum with an axis of one entry before the cells: for replicates or populations of each."""
        weights = None if self.weights is None else self.weights[..., None, :]
        return Spectrum(self.values[..., None, :], self.counts[..., None, :], weights)

    def among(self, start: int, stop: int) -> Spectrum:
        """Some neighbours along the axis before the cells."""
        parts = (
            part if part is None else part[..., start:stop, :] for part in (self.values, self.counts, self.weights)
        )
        return Spectrum(*parts)  # type: ignore[arg-type]

    def mass_at(self, at: slice) -> Floats:
        counts = self.counts[..., at]
        return counts if self.weights is None else counts * self.weights[..., at]

    def walk(self, *, amounts: bool = True) -> Iterator[Block]:
        """The cells from the poorest up, a block at a time; who reads no block's `cum_amount` saves a pass without `amounts`."""
        return iter(self._one_block) if self.values.shape[-1] <= BLOCK else self._blocks(amounts=amounts)

    @cached_property
    def _one_block(self) -> list[Block]:
        """Cumulated once and shared by every metric that looks at this spectrum."""
        return list(self._blocks(amounts=True))

    def _blocks(self, *, amounts: bool) -> Iterator[Block]:
        reached: Any = np.zeros((*self._lead(), 1))
        before: Any = reached
        for at in self._cells():
            mass, values = self.mass_at(at), self.values[..., at]
            yield Block(values, mass, reached, before)
            if at.stop < self.values.shape[-1]:
                reached = reached + mass.sum(-1, keepdims=True)
                before = before + dot(mass, values)[..., None] if amounts else before

    def _lead(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.counts.shape[:-1], self.values.shape[:-1])

    def _cells(self) -> Iterator[slice]:
        cells = self.values.shape[-1]
        step = BLOCK if cells <= BLOCK else PIECE
        return (slice(start, min(start + step, cells)) for start in range(0, cells, step))

    def reason(self) -> str:
        """Why nothing can be said about this spectrum, or nothing."""
        if np.isnan(self.values[..., -1:]).any():  # they stand last
            return "nan_in_data"
        if not self.units.any():
            return "empty"
        if not self.size.any():
            return "zero_weight"
        return "" if self.total.any() else "zero_total"

    def merge(self, other: Spectrum) -> Spectrum:
        """Add another shard; the order of shards never matters."""
        weighted = self.weights is not None or other.weights is not None
        weights = [w if w is not None else np.ones_like(s.values) for s in (self, other) for w in [s.weights]]
        return collapse(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate(weights) if weighted else None,
        )

    def padded(self, zeros: float) -> Spectrum:
        """Add units that received nothing."""
        if not zeros:
            return self
        return self.merge(Spectrum(np.zeros(1), np.array([float(zeros)])))

    @property
    def receivers(self) -> float:
        """Number of units that received anything."""
        return float(self.counts[self.values > 0].sum())

    def coarse(self, fewest: int) -> Spectrum:
        """Units averaged `fewest` neighbours at a time, from the top, so that no cell discloses fewer.

        Those that are left over at the lower end join the last that are averaged; units with nothing stay as they are.

        Replicates are each taken by themselves.

        >>> Spectrum.from_arrays([0, 1, 2, 3, 5, 5, 6]).coarse(2).values.tolist()
        [0.0, 1.5, 4.0, 5.5]
        """
        if lead := self._lead():
            stacked = Spectra.from_spectra([replicate.coarse(fewest) for replicate in self._each(lead)]).stacked()
            weights = None if stacked.weights is None else stacked.weights.reshape(*lead, -1)
            return Spectrum(stacked.values.reshape(*lead, -1), stacked.counts.reshape(*lead, -1), weights)
        above = self.values > 0
        values, counts = self.values[above][::-1], self.counts[above][::-1]
        weights = np.ones_like(values) if self.weights is None else self.weights[above][::-1]
        ends = np.cumsum(counts)
        if fewest <= 1 or not len(ends) or ends[-1] < fewest:
            return self
        starts, last = ends - counts, np.floor(ends[-1] / fewest) - 1
        first, behind = np.floor(starts / fewest), np.floor(ends / fewest)
        # A cell begins inside one run of neighbours, fills whole runs, and ends inside another; all from `last` on are one.
        head = np.minimum(ends, (first + 1) * fewest) - starts
        pure = np.maximum(np.minimum(behind, last) - first - 1, 0) * fewest
        low = np.maximum(behind - np.maximum(first + 1, last), 0) * fewest
        units = np.concatenate([head, low, counts - head - pure - low])
        runs = np.concatenate([first, np.full_like(first, last), behind]).clip(max=last).astype(np.int64)
        mass = units * np.tile(weights, 3)
        sums = (np.bincount(runs, part) for part in (units, mass, mass * np.tile(values, 3)))
        number, size, amount = (part[: int(last) + 1] for part in sums)
        filled, whole, zeros = number > 0, pure > 0, ~above
        mean = amount[filled] / np.where(size[filled] > 0, size[filled], 1.0)
        return collapse(
            np.concatenate([self.values[zeros], mean, values[whole]]),
            np.concatenate([self.counts[zeros], number[filled], pure[whole]]),
            self.weights
            if self.weights is None
            else np.concatenate([self.weights[zeros], size[filled] / number[filled], weights[whole]]),
        )

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
        """Units in bins of relative width `width`, each at its mean; weighted cells stay as they are."""
        if self.weights is not None:
            return self
        first = int(np.searchsorted(self.values, 0.0, side="right"))
        starts = run_starts(bin_codes(self.values[first:], width))
        counts = np.add.reduceat(self.counts[first:], starts) if len(starts) else np.zeros(0)
        amount = np.add.reduceat(self.counts[first:] * self.values[first:], starts) if len(starts) else np.zeros(0)
        head = slice(0, first)
        return Spectrum(
            np.concatenate([self.values[head], amount / counts]), np.concatenate([self.counts[head], counts])
        )

    def gathered(self, parts: int, separate_rank: float = 0.0, near: Sequence[tuple[float, float]] = ()) -> Spectrum:
        """Units in fewer cells, each at its mean, for sums and points of the curve; weighted cells stay as they are.

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
        starts = np.unique(
            np.concatenate(
                [
                    [0],
                    *(_alone(cum_amount, cum_amount[-1] * even), np.searchsorted(values, 2.0**grid)),
                    *(
                        _alone(reach, edges)
                        for edges in (reach[-1] * even, ends, (reach[-1] - ends)[::-1], [separate_rank, separate_rank])
                    ),
                    *(np.arange(*np.searchsorted(reach, ranks) + np.array([0, 2])) for ranks in near),
                ]
            )
        )
        starts = starts[starts < len(values)].astype(np.int64)
        joined = np.add.reduceat(counts, starts)
        mean = np.add.reduceat(counts * values, starts) / joined
        return Spectrum(np.concatenate([self.values[:first], mean]), np.concatenate([self.counts[:first], joined]))


def _alone(cumulated: Floats, edges: Any) -> np.typing.NDArray[np.int64]:
    """Cells that a new bin begins at so that none reaches from one edge past the next, unless it is of one cell."""
    at = np.searchsorted(cumulated, edges)
    return np.concatenate([at, at[1:][at[1:] == at[:-1]] + 1])


class Untied(Spectrum):
    """Hardly any two units tie: a cell for each, and one for `zeros` in front; counts take up memory only when asked for."""

    zeros: int

    def __init__(self, values: Floats, zeros: int) -> None:
        for name, value in (("values", values), ("weights", None), ("zeros", zeros)):
            object.__setattr__(self, name, value)

    @cached_property
    def counts(self) -> Floats:
        return self.mass_at(slice(0, len(self.values)))

    @cached_property
    def units(self) -> Floats:
        return np.asarray(float(len(self.values) - bool(self.zeros) + self.zeros))

    @cached_property
    def size(self) -> Floats:
        return self.units

    def mass_at(self, at: slice) -> Floats:
        mass = np.ones(at.stop - at.start)
        if self.zeros and at.start == 0:
            mass[0] = self.zeros
        return mass

    def _lead(self) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Spectra:
    """One spectrum per slice, end to end: cells `starts[i]` to `starts[i + 1]` are slice i."""

    values: Floats
    counts: Floats
    starts: np.typing.NDArray[np.int64]
    weights: Floats | None = None

    @classmethod
    def from_spectra(cls, spectra: list[Spectrum]) -> Spectra:
        starts = np.concatenate([[0], np.cumsum([len(s.values) for s in spectra])]).astype(np.int64)
        weighted = any(s.weights is not None for s in spectra)
        return cls(
            np.concatenate([s.values for s in spectra] or [np.zeros(0)]),
            np.concatenate([s.counts for s in spectra] or [np.zeros(0)]),
            starts,
            np.concatenate([np.ones_like(s.values) if s.weights is None else s.weights for s in spectra])
            if weighted
            else None,
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> Spectrum:
        at = slice(int(self.starts[i]), int(self.starts[i + 1]))
        return Spectrum(self.values[at], self.counts[at], None if self.weights is None else self.weights[at])

    def separate(self) -> list[Spectrum]:
        """Every slice by itself."""
        return [self[i] for i in range(len(self))]

    @property
    def units(self) -> Floats:
        return _segment_sums(self.counts, self.starts)

    @property
    def receivers(self) -> Floats:
        """How many units of each slice received anything."""
        return _segment_sums(np.where(self.values > 0, self.counts, 0.0), self.starts)

    def wider(self, cells: int) -> np.typing.NDArray[np.bool_]:
        """Which slices have more cells, all of the same weight."""
        return (np.diff(self.starts) > cells) & (self.weights is None)

    def only(self, chosen: np.typing.NDArray[np.bool_]) -> Spectra:
        """Some of the slices."""
        return self if chosen.all() else Spectra.from_spectra([self[i] for i in np.flatnonzero(chosen).tolist()])

    def each(
        self, change: Callable[[Spectrum], Spectrum], chosen: np.typing.NDArray[np.bool_] | None = None
    ) -> Spectra:
        """Every slice, or those `chosen`, made into another."""
        at = np.ones(len(self), dtype=bool) if chosen is None else chosen
        return (
            Spectra.from_spectra([change(self[i]) if at[i] else self[i] for i in range(len(self))])
            if at.any()
            else self
        )

    def coarse(self, fewest: int) -> Spectra:
        """Every slice with so many neighbours at their mean."""
        return self if fewest <= 1 else self.each(lambda s: s.coarse(fewest))

    def padded(self, zeros: Floats) -> Spectra:
        """Add to each slice its units that received nothing: one more cell at the front, at amount zero."""
        if self.weights is not None:
            return Spectra.from_spectra([self[i].padded(float(z)) for i, z in enumerate(zeros)])
        lengths = np.diff(self.starts)
        starts = self.starts + np.arange(len(self) + 1)
        fronts = starts[:-1]
        old = np.ones(int(starts[-1]), dtype=bool)
        old[fronts] = False
        values, counts = np.zeros(int(starts[-1])), np.zeros(int(starts[-1]))
        values[old], counts[old] = self.values, self.counts
        counts[fronts] = zeros
        # A slice that already had a cell at zero takes the new units into it, so that cells stay distinct.
        has_zero = np.zeros(len(self), dtype=bool)
        filled = lengths > 0
        has_zero[filled] = self.values[self.starts[:-1][filled]] == 0
        drop = np.zeros(int(starts[-1]), dtype=bool)
        doubled = fronts[has_zero]
        counts[doubled] += counts[doubled + 1]
        drop[doubled + 1] = True
        drop[fronts[~has_zero & (zeros == 0)]] = True
        keep = ~drop
        bounds = np.concatenate([[0], np.cumsum(_segment_sums(keep.astype(np.float64), starts))]).astype(np.int64)
        return Spectra(values[keep], counts[keep], bounds)

    def batches(self, most_cells: int) -> Iterator[tuple[np.typing.NDArray[np.int64], Spectrum]]:
        """Slices of similar width as one padded Spectrum (slices, cells), about `most_cells` at a time.

        A slice is padded to a width that follows from its own length alone: sums then group the same way whatever other
        slices there are, and one more slice changes no bit of any other number.
        """
        widths = _padded_widths(np.diff(self.starts))
        order = np.argsort(widths, kind="stable")
        start = 0
        while start < len(order):
            width = int(widths[order[start]])
            stop = int(np.searchsorted(widths[order], width, side="right"))
            stop = start + 1 if width > BLOCK else max(start + 1, min(stop, start + most_cells // max(1, width)))
            chosen = order[start:stop]
            yield chosen, self._stacked(chosen, width)
            start = stop

    def stacked(self) -> Spectrum:
        """All slices as one padded Spectrum (slices, cells)."""
        return self._stacked(np.arange(len(self)), int(np.diff(self.starts).max(initial=1)))

    def _stacked(self, chosen: np.typing.NDArray[np.int64], width: int) -> Spectrum:
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


def _padded_widths(lengths: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.int64]:
    """Lengths rounded up to three binary digits (at most a quarter more); those beyond a block stay as they are.

    >>> _padded_widths(np.array([0, 7, 9, 1000, 10**6])).tolist()
    [1, 7, 10, 1024, 1000000]
    """
    step = 1 << np.maximum(np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64) - 2, 0)
    return np.where(lengths > BLOCK, lengths, np.maximum(-(-lengths // step) * step, 1))


def bin_codes(values: Floats, width: float) -> np.typing.NDArray[np.int64]:
    """Which bin of relative width `width` an amount lies in, never decreasing in it; zero is in one of its own.

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
    order = np.argsort(values, kind="stable") if weights is None else np.lexsort((weights, values))
    values, counts = values[order], counts[order]
    starts = run_starts(values) if weights is None else run_starts(values, weights := weights[order])
    joined = np.add.reduceat(counts, starts) if len(starts) else np.zeros(0)
    return Spectrum(values[starts], joined, None if weights is None else weights[starts])


def dot(a: Floats, b: Floats | None = None) -> Floats:
    """Sums over cells, of products with `b` or with ones, no more at a time than linear algebra adds up without threads."""
    runs = [slice(i, i + RUN) for i in range(0, max(1, a.shape[-1]), RUN)]
    parts = [np.vecdot(a[..., at], ONES[: a.shape[-1] - at.start] if b is None else b[..., at]) for at in runs]
    return np.asarray(parts[0] if len(parts) == 1 else np.sum(parts, axis=0))


def entries(of: Any, cells: Ints) -> Any:
    """The entry at one cell of each row; rows of `of` are broadcast."""
    rows = np.arange(math.prod(of.shape[:-1])).reshape(of.shape[:-1])
    return of.reshape(-1).take(rows * of.shape[-1] + cells)


def before(running: Floats, cells: Ints, start: Floats) -> Floats:
    """A running sum just before one cell of each row, of which `start` precedes the first."""
    return np.where(cells > 0, entries(running, np.maximum(cells - 1, 0)), start[..., 0])


def _after(start: Floats, cumulated: Floats) -> Floats:
    """Cumulated sums of a block plus what precedes it, without a pass where that is zero."""
    if not start.any():
        return cumulated
    if cumulated.shape[:-1] == start.shape[:-1]:
        cumulated += start
        return cumulated
    return np.asarray(cumulated + start)


def _counted_in_pieces(x: Any) -> Spectrum | None:
    """Whole numbers of which few differ, counted piece by piece without a copy of them all; None where many do."""
    if len(x) <= SORTED:
        return None
    values, counts, cells = [], [], 0
    for start in range(0, len(x), SORTED):
        piece = np.sort(x[start : start + SORTED])
        starts = run_starts(piece)
        cells += len(starts)
        if cells * FEW > start + len(piece):
            return None
        values.append(piece[starts])
        counts.append(np.diff(starts, append=len(piece)).astype(np.float64))
    joined = collapse(np.concatenate(values), np.concatenate(counts))
    return Spectrum(joined.values.astype(np.float64), joined.counts)


def _counted_by_value(x: Any) -> Spectrum | None:
    """Whole numbers most of which are low: those are counted, only the others sorted; None for few or other numbers."""
    if len(x) < 4 * LOW or x.dtype.itemsize < 4:
        return None
    counts, high, many = np.zeros(LOW + 1, dtype=np.int64), [], 0
    for start in range(0, len(x), 4 * LOW):
        piece = x[start : start + 4 * LOW]
        if piece.min() < 0:
            return None
        counts += np.bincount(np.minimum(piece, LOW).astype(np.intp, copy=False), minlength=LOW + 1)
        high.append(piece[np.flatnonzero(piece >= LOW)])
        many += len(high[-1])
        if 4 * many > start + len(piece):
            return None
    values = np.flatnonzero(counts[:LOW])
    above = Spectrum._counted(np.sort(np.concatenate(high)))  # noqa: SLF001
    return Spectrum(
        np.concatenate([values.astype(np.float64), above.values]),
        np.concatenate([counts[values].astype(np.float64), above.counts]),
    )


def _segment_sums(values: Floats, starts: np.typing.NDArray[np.int64]) -> Floats:
    running = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(running[starts[1:]] - running[starts[:-1]])


def _weighted(x: Any, w: Any, nan_policy: str) -> Spectrum:
    if len(x) != len(w):
        raise EvenhandError(f"There are {len(x):,} amounts and {len(w):,} weights. Pass one weight per amount.")
    w = w.astype(np.float64)
    if not np.isfinite(w).all() or (w < 0).any():
        raise EvenhandError("weights holds negative, NaN or infinite numbers. Pass weights of zero or more.")
    x = x.astype(np.float64)
    if np.isnan(x).any() and nan_policy == "omit":
        w, x = w[~np.isnan(x)], x[~np.isnan(x)]
    if len(sound(x, nan_policy)) < len(x):
        return Spectrum(np.array([np.nan]), np.ones(1))
    if not len(x):
        return Spectrum(np.zeros(0), np.zeros(0))
    if not w.any():
        return Spectrum(np.zeros(1), np.array([float(len(x))]), np.zeros(1))
    with np.errstate(over="ignore"):
        refuse_endless((x * 2.0**-100 * w).sum())
    return collapse(x[w > 0], np.ones(int((w > 0).sum())), w[w > 0])
