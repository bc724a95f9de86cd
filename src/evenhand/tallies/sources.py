"""What each unit received from each source, units alike taken together: what a decomposition by source may see."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, all_problems
from evenhand.sources.rounding import significant as significant
from evenhand.tallies.amounts import vector
from evenhand.tallies.spectrum import Spectrum, collapse

Ints = np.typing.NDArray[np.int64]


class Ladder(NamedTuple):
    """Cells in the order of one amount: `order` sorts them, `steps` are where a new amount begins, `step` is each cell's."""

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
    def of(cls, sources: Mapping[Any, Any]) -> Sources:
        """Tally plain amounts: for each source one amount per unit, in the same order of units.

        >>> Sources.of({"a": [1, 0, 1], "b": [2, 0, 2]}).counts
        array([1., 2.])
        """
        if not isinstance(sources, Mapping) or not sources:
            raise EvenhandError("sources must be a dictionary of at least one source. Pass {name: amounts, ...}.")
        columns = {name: _amounts(name, x) for name, x in sources.items()}
        lengths = {len(x) for x in columns.values()}
        if len(lengths) > 1:
            found = ", ".join(f"{name} {len(x):,}" for name, x in columns.items())
            raise EvenhandError(f"The sources differ in length ({found}). Pass for each source one amount per unit.")
        amounts = np.stack(list(columns.values()), axis=1)
        return cls.collapsed(tuple(columns), amounts, np.ones(len(amounts)))

    @classmethod
    def collapsed(cls, names: tuple[Any, ...], amounts: Floats, counts: Floats) -> Sources:
        """Sort cells and join those that agree."""
        if not len(amounts):
            return cls(names, amounts, counts)
        order = np.lexsort(amounts.T[::-1])
        amounts, counts = amounts[order], counts[order]
        new = np.ones(len(amounts), dtype=bool)
        np.any(amounts[1:] != amounts[:-1], axis=1, out=new[1:])
        starts = np.flatnonzero(new)
        return cls(names, amounts[starts], np.add.reduceat(counts, starts))

    def __len__(self) -> int:
        return len(self.names)

    def few(self, fewest: int) -> list[int]:
        """Sources with fewer receivers, and the next smallest until more than one, and so many receivers, are among them."""
        given = self.amounts > 0
        served = self.counts @ given
        order = np.argsort(served, kind="stable").tolist()
        few = [k for k in order if served[k] < fewest]
        for k in order[len(few) :]:
            some = [j for j in few if served[j]]
            if some and (len(some) < 2 or self.counts @ given[:, few].any(1) < fewest):
                few.append(k)
        return sorted(few)

    def together(self, sources: Collection[int], name: str) -> Sources:
        """The same units with some sources, by number, as one of this name, which stands last."""
        if not sources:
            return self
        kept = [k for k in range(len(self)) if k not in sources]
        joined = significant(self.amounts[:, list(sources)].sum(1))
        amounts = np.column_stack([self.amounts[:, kept], joined])
        return Sources.collapsed((*(self.names[k] for k in kept), name), amounts, self.counts)

    @cached_property
    def totals(self) -> Floats:
        """(C,) what a unit of each cell received in all."""
        return significant(np.asarray(self.amounts.sum(-1)))

    @cached_property
    def units(self) -> Floats:
        """Number of units."""
        return np.asarray(self.counts.sum(-1))

    @cached_property
    def spectrum(self) -> Spectrum:
        """The units' totals as a spectrum (one population, no replicates)."""
        return collapse(self.totals, self.counts)

    def spectrum_of(self, k: int) -> Spectrum:
        """What units received from source k alone (one population, no replicates)."""
        return collapse(self.amounts[:, k], self.counts)

    @cached_property
    def by_total(self) -> Ladder:
        return ladder(self.totals)

    @cached_property
    def by_source(self) -> tuple[Ladder, ...]:
        return tuple(ladder(self.amounts[:, k]) for k in range(len(self)))

    def with_counts(self, counts: Floats) -> Sources:
        """The same cells with other units in them; what is known about the order of cells is kept."""
        drawn = replace(self, counts=counts)
        drawn.__dict__.update({name: getattr(self, name) for name in ("totals", "by_total", "by_source")})
        return drawn

    def resample(self, draws: int, rng: np.random.Generator) -> Sources:
        """Draw whole populations; the same law as resampling the units one by one."""
        size = round(float(self.units))
        drawn = rng.multinomial(size, self.counts / self.counts.sum(), draws) if size else np.zeros((draws, 0))
        return self.with_counts(drawn.astype(np.float64))

    def padded(self, units: float) -> Sources:
        """Add units that received nothing from any source."""
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
        """Why nothing can be said about these units, or nothing."""
        if not self.units.any():
            return "empty"
        return "" if (self.counts * self.totals).any() else "zero_total"


def ladder(values: Floats) -> Ladder:
    """How cells climb in one amount."""
    order = np.argsort(values, kind="stable")
    climbed = values[order]
    new = np.ones(len(climbed), dtype=bool)
    new[1:] = climbed[1:] != climbed[:-1]
    return Ladder(order, np.flatnonzero(new), np.cumsum(new) - 1)


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
