"""How many units of each group received each amount: what a decomposition by group may see."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import in_order, listed
from evenhand.sources.sql import columns
from evenhand.tallies.ragged import Ints
from evenhand.tallies.slices import Label, Slices
from evenhand.tallies.spectrum import Spectra, Spectrum, vector

if TYPE_CHECKING:
    from evenhand.sources.logs import Log


@dataclass(frozen=True)
class Partition:
    """Units split into groups, each group a spectrum, end to end.

    Attributes
    ----------
    groups : (G,) labels.
    values : (C,) amounts; within a group never decreasing, none negative.
    counts : (..., C) units in each cell. Leading axes are replicates.
    starts : (G + 1,) cells `starts[g]` to `starts[g + 1]` are group g.
    weights : (C,) weight of each unit in the cell, or None when every unit counts once.
    """

    groups: tuple[Any, ...]
    values: Floats
    counts: Floats
    starts: Ints
    weights: Floats | None = None

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
        every = Spectra.from_spectra(list(spectra))
        return cls(tuple(groups), every.values, every.counts, every.starts, every.weights)

    def __getitem__(self, g: int) -> Spectrum:
        at = slice(int(self.starts[g]), int(self.starts[g + 1]))
        return Spectrum(self.values[at], self.counts[..., at], None if self.weights is None else self.weights[at])

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.values, kind="stable")

    @cached_property
    def pooled(self) -> Spectrum:
        """All units together; a cell per group and amount, which changes no metric."""
        weights = None if self.weights is None else self.weights[self._order]
        return Spectrum(self.values[self._order], self.counts[..., self._order], weights)

    def unpooled(self, per_cell: Floats) -> Floats:
        """A quantity given per cell of `pooled`, in the order of this tally's own cells."""
        out = np.empty_like(per_cell)
        out[..., self._order] = per_cell
        return out

    @property
    def cell_group(self) -> Ints:
        """(C,) the group each cell belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def with_counts(self, counts: Floats) -> Partition:
        """This partition with other counts in its cells."""
        return replace(self, counts=counts)

    def reason(self) -> str:
        """Why nothing can be said about these units, or nothing."""
        return self.pooled.reason()

    def without(self, group: Any) -> Partition:
        """This partition without one group."""
        rest = [g for g, label in enumerate(self.groups) if label != group]
        return Partition.joined([self.groups[g] for g in rest], [self[g] for g in rest])

    def merge_groups(self, groups: Collection[int], name: str) -> Partition:
        """This partition with some groups (by code) merged into one of this name, which stands last."""
        if not groups:
            return self
        merged = Spectrum(np.zeros(0), np.zeros(0))
        for g in groups:
            merged = merged.merge(self[g])
        rest = [g for g in range(len(self)) if g not in groups]
        return Partition.joined([*(self.groups[g] for g in rest), name], [*(self[g] for g in rest), merged])

    def coarse(self, min_units: int) -> Partition:
        """Every group with so many neighbours at their mean."""
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
