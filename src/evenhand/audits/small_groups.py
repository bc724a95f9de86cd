"""Groups of rankings too small to be shown: merged, or left out as unlabelled, before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from evenhand.audits.assemble import hidden
from evenhand.cards import MetricSpec
from evenhand.labels import OTHERS, all_but, match, several
from evenhand.tallies.requests import Requests
from evenhand.tallies.slices import Label

NAMES = ("(small groups)", "(small protected groups)", "(small other groups)")
"""New names of merged labels: of all, of the protected side, of the side it is compared with."""


A = TypeVar("A", bound=MetricSpec)


@dataclass(frozen=True)
class SmallGroups:
    """Labels merged or left out because they have too few items, and what is still too small.

    Attributes
    ----------
    labels : the labels there are. renamed : new names of labels, None for one that counts as no label; empty where every
        label can be shown as it is.
    hides_all : whether nothing can be shown at all: a side as a whole has too few items.
    items : (slice, label) -> items, labels as they are renamed.
    """

    fewest: int
    labels: Sequence[Any]
    renamed: Mapping[Any, str | None]
    hides_all: bool
    items: Mapping[tuple[Label, Any], int]

    def side(self, labels: Any) -> Any:
        """Labels of a side as renamed."""
        if labels is None or not self.renamed:
            return labels
        if labels == OTHERS and OTHERS not in self.labels:
            return labels
        names = dict.fromkeys(self._name(label) for label in _meant(labels, self.labels))
        return [name for name in names if name is not None]

    @property
    def leaves_out(self) -> bool:
        """Whether some labels are left out: what adds up to a known whole would then tell of them."""
        return None in self.renamed.values()

    def shares(self, target: Mapping[Any, float]) -> dict[Any, float]:
        """Shares of groups as renamed."""
        by_name: dict[Any, float] = {}
        for label, share in target.items():
            name = self._name(match(label, self.labels)) if self.renamed else label
            if name is not None or not self.renamed:
                by_name[name] = by_name.get(name, 0.0) + share
        whole = sum(by_name.values())
        return {name: share / whole for name, share in by_name.items()} if self.leaves_out and whole else by_name

    def rename_target(self, ask: A) -> A:
        """A metric whose own target names groups, as renamed."""
        target = ask.params.get("target")
        return (
            replace(ask, params={**ask.params, "target": self.shares(target)}) if isinstance(target, Mapping) else ask
        )

    def facts(self) -> dict[str, Any]:
        """For provenance: which labels were merged and which left out, by name."""
        merged = sorted(str(label) for label, name in self.renamed.items() if name is not None)[:100]
        left_out = sorted(str(label) for label, name in self.renamed.items() if name is None)[:100]
        return {k: v for k, v in {"taken_together": merged, "left_out_as_small": left_out}.items() if v}

    def _name(self, label: Any) -> str | None:
        return self.renamed.get(label, str(label))

    def small(self, within: Requests) -> list[bool]:
        """Which slices are suppressed: too few requests, or too few items of a group."""
        sizes = [within.size(s) for s in range(len(within.slices))]
        if self.fewest <= 1:
            return [size < self.fewest for size in sizes]
        short = {where for (where, _), items in self.items.items() if 0 < items < self.fewest}
        counted = [
            min(size, self.fewest - 1) if self.hides_all or tuple(where) in short else size
            for size, where in zip(sizes, within.slices, strict=True)
        ]
        return hidden(counted, self.fewest, total_shown=False)


def merge_small_groups(
    items_of: Callable[[Sequence[str]], Sequence[tuple[tuple[Label, Any], int]]],
    slices: Sequence[str],
    fewest: int,
    *,
    protected: Any = None,
    versus: Any = None,
    unknown: str = "drop",
    in_columns: bool = False,
) -> SmallGroups:
    """Labels with too few items merged or left out, given the items of each label in each slice.

    Labels join within their side only: protected ones, those they are compared with. Others that are small join each other,
    and count as unlabelled where they are too few even so: the large groups stay as they are. Items without a label count
    where `unknown` makes a group of them; it joins no other. `in_columns`: items are shared among columns of the rankings,
    so that there is no label to merge.
    """
    if fewest <= 1:
        return SmallGroups(fewest, (), {}, False, {})
    if in_columns:
        return SmallGroups(fewest, (), {}, True, {})
    cells = [cell for cell in items_of(slices) if unknown == "group" or cell[0][1] is not None]
    labels = list(dict.fromkeys(label for (_, label), _ in cells if label is not None))
    total = {label: items for (_, label), items in items_of(())}
    first, second = _meant(protected, labels), _meant(all_but(versus, protected, labels), labels)
    rest = [label for label in labels if label not in first and label not in second]
    small = [label for label in rest if _is_small(label, total, cells, fewest)]
    joins = len(small) > 1 and sum(total[label] for label in small) >= fewest
    renamed: dict[Any, str | None] = dict.fromkeys(small, NAMES[0] if joins else None)
    nothing = unknown == "group" and 0 < total.get(None, 0) < fewest
    for part, name in ((first, NAMES[1]), (second, NAMES[2])):
        sizes = [total.get(label, 0) for label in part]
        nothing = nothing or 0 < sum(sizes) < fewest
        joined = [label for label, hide in zip(part, hidden(sizes, fewest), strict=True) if hide]
        renamed |= dict.fromkeys(joined, name) if len(joined) > 1 else {}
    by_slice: dict[tuple[Label, Any], int] = {}
    for (where, label), items in cells:
        key = (where, renamed.get(label, label))
        if key[1] is not None or label is None:
            by_slice[key] = by_slice.get(key, 0) + items
    return SmallGroups(fewest, labels, renamed, nothing, by_slice)


def _is_small(
    label: Any, total: Mapping[Any, int], cells: Sequence[tuple[tuple[Label, Any], int]], fewest: int
) -> bool:
    """Whether a label has too few items, in all or in half of the slices where it has any."""
    in_slices = [items for (_, name), items in cells if name == label and items > 0]
    return total.get(label, 0) < fewest or 2 * sum(items < fewest for items in in_slices) >= max(1, len(in_slices))


def _meant(labels: Any, existing: Sequence[Any]) -> list[Any]:
    return [match(label, existing) for label in several(labels)]
