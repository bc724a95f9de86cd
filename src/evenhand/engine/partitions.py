"""From spectra per slice and group to one partition per slice."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from evenhand.engine.spectra import Label, Slices
from evenhand.errors import EvenhandError
from evenhand.tallies.partition import Partition
from evenhand.views.benefits import Benefits
from evenhand.views.tables import each_once, to_polars


def refuse_shared_units(view: Benefits) -> None:
    """A unit in two groups would count twice: groups must partition the units of every slice."""
    if view.unit is None:
        return
    *slices, group = view.keys
    pairs = each_once(view.lazy.select(*slices, "unit", group))
    shared = pairs.group_by(*slices, "unit").agg(nw.len().alias("n")).filter(nw.col("n") > 1)
    many = int(to_polars(shared.select(nw.len().alias("n")))["n"][0])
    if many:
        raise EvenhandError(
            f"group={view.by[-1]!r} differs between rows of the same unit for {many:,} units. Give each unit one group; "
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
