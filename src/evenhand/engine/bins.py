"""Bins of a number that belongs to the unit: edges over units, then the bin of each row, in the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.populations import changing
from evenhand.engine.quantiles import quantile_edges
from evenhand.engine.spectra import Label, Slices, rounded, rows_in_order
from evenhand.errors import EvenhandError
from evenhand.sources.slicing import Bins, LogBins
from evenhand.tallies.spectrum import Spectra
from evenhand.views.benefits import Benefits
from evenhand.views.columns import flag
from evenhand.views.tables import Table, each_once, is_number, to_polars


@dataclass(frozen=True)
class Edges:
    """The bins of one column, in order: bin k holds values above `inner[k - 1]` up to and including `inner[k]`.

    One more bin, without a name, takes the units whose value is missing.
    """

    inner: Floats
    lows: list[float]
    highs: list[float]
    names: list[str]

    @property
    def labels(self) -> list[str | None]:
        return [*self.names, None]


@dataclass(frozen=True)
class Legend:
    """What the bins of each binned slice column are called and where they lie."""

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
        order = self.order(slices.labels)
        spectra = Spectra.of([slices.spectra[i] for i in order])
        broken = frozenset(self.name(by, label) for label in slices.broken)
        labels = tuple(self.name(by, slices.labels[i]) for i in order)
        return replace(slices, labels=labels, spectra=spectra, broken=broken)

    def order(self, labels: Sequence[Label]) -> list[int]:
        """Where each slice goes so that bins are in order."""
        return rows_in_order(labels) if self.edges else [*range(len(labels))]

    def name(self, by: Sequence[str], label: Label) -> Label:
        """A slice with its bins called by name."""
        named = zip(by, label, strict=True)
        return tuple(self.edges[b].labels[v] if b in self.edges else v for b, v in named)


def bin_slices(view: Benefits, everyone: Any, bins: Sequence[Bins]) -> tuple[Benefits, Any, Legend]:
    """The view and the population with the number of its bin in place of each binned value."""
    found: dict[str, Edges] = {}
    for spec in bins:
        if isinstance(everyone, int):
            raise EvenhandError(
                f"population={everyone!r} would count every unit in every bin of by={spec}. "
                f"Pass a table of units that holds {spec.column!r}, {{bin: size}}, or None for those seen."
            )
        key = f"by_{view.by.index(spec.column)}"
        schemas = [(view.lazy.collect_schema(), key)]
        if isinstance(everyone, Table) and spec.column in everyone.schema.names():
            schemas.append((everyone.schema, spec.column))
        if not all(is_number(schema[name]) for schema, name in schemas):
            raise EvenhandError(f"by={spec} needs numbers, and {spec.column!r} holds none. Slice by the column itself.")
        units = _units(view, everyone, key, spec)
        found[spec.column] = _edges(units, spec)
        inner = found[spec.column].inner
        view = view.with_lazy(view.lazy.with_columns(_bin(key, inner).alias(key)))
        if isinstance(everyone, Table) and len(schemas) > 1:
            own = everyone.called.get(spec.column, spec.column)
            everyone = replace(everyone, lazy=everyone.lazy.with_columns(_bin(own, inner).alias(own)))
    return view, everyone, Legend(found)


def _units(view: Benefits, everyone: Any, key: str, spec: Bins) -> nw.LazyFrame[Any]:
    """One row per unit with its value: everyone where the population holds the column, else those seen."""
    if view.unit is None:
        return view.lazy.select(nw.col(key).alias("value"))
    mine = each_once(view.lazy.select("unit", nw.col(key).alias("value")))
    _refuse_changing(mine, f"{spec.column!r} differs between rows of the same unit", spec)
    if isinstance(everyone, Table) and spec.column in everyone.schema.names():
        theirs = each_once(
            everyone.lazy.select(everyone.col(view.unit).alias("unit"), everyone.col(spec.column).alias("value"))
        )
        _refuse_changing(theirs, f"{spec.column!r} differs between rows of the same unit in population", spec)
        return theirs
    return mine


def _refuse_changing(pairs: nw.LazyFrame[Any], fact: str, spec: Bins) -> None:
    if count := changing(pairs):
        raise EvenhandError(
            f"{fact} for {count:,} units, so by={spec} would put them in several bins. Give each unit one value."
        )


def _edges(units: nw.LazyFrame[Any], spec: Bins) -> Edges:
    value = nw.col("value").cast(nw.Float64)
    held = units.with_columns(value.alias("value")).filter(~nw.col("value").is_null()).filter(~nw.col("value").is_nan())
    positive = nw.when(nw.col("value") > 0).then(nw.col("value"))
    facts = to_polars(
        held.select(
            nw.col("value").min().alias("low"), nw.col("value").max().alias("high"), positive.min().alias("least")
        )
    ).row(0, named=True)
    low, high, least = facts["low"], facts["high"], facts["least"]
    if low is None:
        return Edges(np.zeros(0), [np.nan], [np.nan], ["all"])
    if np.isinf(low) or np.isinf(high):
        raise EvenhandError(f"{spec.column!r} is infinite for some units, which no bin holds. Pass finite values.")
    if not isinstance(spec, LogBins):
        return _right_closed(quantile_edges(held, "value", spec.bins), low, high)
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
    return Edges(np.concatenate([[0.0], inner]), [0.0, *above.lows], [0.0, *above.highs], ["0", *above.names])


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
    whole = edge == round(edge) and abs(edge) < 1e15
    return str(int(edge)) if whole else f"{float(f'{edge:.{digits}g}'):.15g}"


def _bin(column: str, inner: Floats) -> nw.Expr:
    """How many inner edges lie below the value: the number of its bin. Missing ones are in the bin after the last.

    A null would do, but pandas turns a column of whole numbers with a null into floats.
    """
    value = nw.col(column).cast(nw.Float64)
    above = [flag(value > edge) for edge in inner.tolist()] or [flag(value > np.inf)]
    known = nw.when(~(value.is_null() | value.is_nan()))
    return known.then(nw.sum_horizontal(*above)).otherwise(nw.lit(len(inner) + 1)).cast(nw.Int64)
