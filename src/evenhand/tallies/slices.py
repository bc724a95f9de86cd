"""One spectrum per slice: amounts added up per unit, then units counted per amount, by one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import order, whole
from evenhand.sources.sql import columns
from evenhand.tallies.amounts import run_starts
from evenhand.tallies.spectrum import Spectra, Spectrum

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.logs import Amount, Log

DIGITS = 12
"""Float amounts are rounded to this many significant digits: their sums depend on row order in the last bits."""

Label = tuple[Any, ...]
NOBODY = Spectrum(np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Slices:
    """Spectra with the labels of their slices, in the order of the labels, and the slices that hold a missing amount."""

    labels: tuple[Label, ...]
    spectra: Spectra
    broken: frozenset[Label] = frozenset()

    @staticmethod
    def query(log: Log, amount: Amount) -> str:
        """SQL that counts, per slice, the units that received each amount."""
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
        """How many units of each slice of a log received each amount."""
        cells, broken = log.engine.cells(cls.query(log, amount)), log.broken(amount)
        if log.weight is not None:
            several = cells.floats("weight") != cells.floats("least_weight")
            refuse_weights(int(cells.integers("units")[several].sum()), log.weight)
        return cls.from_cells(cells, log.keys, broken, is_weighted=log.weight is not None, is_integer=amount.integer)

    @classmethod
    def from_cells(
        cls, cells: Cells, keys: Sequence[str], broken: frozenset[Label], *, is_weighted: bool, is_integer: bool
    ) -> Slices:
        """Cells sorted by slice and amount; float amounts are rounded, and cells that then agree are merged."""
        codes, labels = cells.codes(keys)
        values = cells.integers("amount").astype(np.float64) if is_integer else rounded(cells.floats("amount"))
        units = cells.integers("units").astype(np.float64)
        by = [codes, values]
        if is_weighted:
            by.append(cells.floats("weight"))
            # A slice without any weight is kept, so that it can say why it has no number.
            weightless = np.bincount(codes, by[-1], len(labels)) == 0
            mask = (by[-1] > 0) | weightless[codes]
            by, units = [column[mask] for column in by], units[mask]
        rising = np.lexsort(by[::-1]) if is_weighted else _rising(codes, values)
        by, units = [column[rising] for column in by], units[rising]
        starts = run_starts(*by)
        codes, values, *weights = (column[starts] for column in by)
        counts = np.add.reduceat(units, starts) if len(starts) else units
        bounds = np.searchsorted(codes, np.arange(len(labels) + 1)).astype(np.int64)
        return cls(tuple(labels), Spectra(values, counts, bounds, *weights), broken).with_slices(broken)

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
        """The slices at these places."""
        each = self.spectra.separate()
        labels = tuple(self.labels[i] for i in places)
        return replace(self, labels=labels, spectra=Spectra.from_spectra([each[i] for i in places]))

    def padded(self, sizes: Mapping[Label, int]) -> Slices:
        """These slices with unseen units added: each has as many units as `sizes` says, which must cover all slices."""
        seen = dict(zip(self.labels, self.spectra.units.tolist(), strict=True))
        every = self.with_slices([label for label in sizes if label not in seen])
        zeros = np.array([sizes[label] - seen.get(label, 0) for label in every.labels], dtype=np.float64)
        return replace(every, spectra=every.spectra.padded(zeros))


def _rows_as_units(log: Log, amount: Amount) -> str:
    weights = ", weight, weight AS least_weight" if log.weight is not None else ""
    chosen = f"{columns(log.keys)}, " if log.keys else ""
    return f"SELECT {chosen}{log.value(amount)} AS amount{weights} FROM {log.non_missing(amount)}"


def refuse_weights(changing: int, weight: str) -> None:
    """Refuse units that have several weights, `changing` of them."""
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


def whole_labels(labels: Sequence[Label]) -> tuple[Label, ...]:
    """Labels of slices, column by column as their owner wrote them.

    >>> whole_labels([(1.0, 0.5), (2.0, 1.0), (None, 1.0)])
    ((1, 0.5), (2, 1.0), (None, 1.0))
    """
    by_column = [whole(column) for column in zip(*labels, strict=True)]
    return tuple(zip(*by_column, strict=True)) if by_column else tuple(labels)


def _rising(codes: Any, values: Floats) -> Any:
    """The order of cells by slice and amount, those that agree in any order: narrow numbers are put in order in one pass."""
    rising = np.argsort(values)
    if not codes.any():
        return rising
    narrow = codes[rising].astype(np.min_scalar_type(codes.max()))
    return rising[np.argsort(narrow, kind="stable")]


def rounded(values: Floats, digits: int = DIGITS) -> Floats:
    """Floats to `digits` significant decimal digits, so that sums that differ in the last bits tie again.

    >>> rounded(np.array([0.1 + 0.2, 0.0, 123456789.123456])).tolist()
    [0.3, 0.0, 123456789.123]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        places = digits - 1 - np.floor(np.log10(np.where(values > 0, values, 1.0)))
        scale = 10.0 ** np.abs(places)
        shortened = np.where(places >= 0, np.round(values * scale) / scale, np.round(values / scale) * scale)
    return np.where((values > 0) & np.isfinite(shortened) & (np.abs(places) <= 300), shortened, values)
