"""Bins of a number that belongs to the unit: edges over units, then the bin of each row in place of its number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.sources.quantiles import quantile_edges
from evenhand.sources.slicing import Bins
from evenhand.sources.sql import double, nan_as_null
from evenhand.tallies.slices import Label, Slices, rounded, rows_in_order

if TYPE_CHECKING:
    from evenhand.sources.engine import Engine


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

    @classmethod
    def from_values(cls, engine: Engine, values: str, spec: Bins) -> Edges:
        """Edges over units, from the name of a table with the `value` of each unit; missing ones are not in it."""
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
