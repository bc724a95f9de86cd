"""What `min_units` does to what is published: small groups are merged or hidden, figures are rounded.

Sixteen digits of five metrics hold more bits than the amounts of twenty units. The step is at least one over the units of the
smallest slice shown and at least what leaving out any one unit changes, so that one unit more or less, or another amount of
one unit, moves a figure by about one step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from evenhand.cards import MetricSpec
from evenhand.claims import Candidate
from evenhand.findings import RANGE, Row, card_of
from evenhand.intervals.kinds import ANYTHING
from evenhand.labels import OTHERS, all_but, match, several
from evenhand.tallies.requests import Requests
from evenhand.tallies.spectrum import Label

Towards = Callable[[float], float]

SCALED: dict[str, Towards] = {
    "estimate": round, "low": math.floor, "high": math.ceil, "chance": round, "floor": round, "least": math.floor,
    "most": math.ceil, "treatment": round, "control_value": round, "raw": round, "detectable": math.ceil,
    "a": round, "b": round,
}  # fmt: skip
"""Columns on the scale of their metric, and which way each is rounded: intervals and ranges only ever grow."""
P_VALUES = frozenset({"p", "p_adjusted", "p_favoured"})
RELATIVE = frozenset({
    "bin_high", "bin_low", "intercept", "pairs", "se", "selected", "share", "share_used", "slope", "tau_c", "undefined", "units",
    "value", "volume_ratio",
})  # fmt: skip
PARAMETERS = frozenset({"asked", "level", "seed"})
"""Facts that hold no figures: what the caller chose."""


def grid_step(least: float) -> float:
    """The first of 1, 2, 5 and their powers of ten that is not below `least`: a step that tells little by itself.

    >>> grid_step(0.034), grid_step(0.05), grid_step(47.6), grid_step(0.0)
    (0.05, 0.05, 50.0, 0.0)
    """
    if not 0 < least < math.inf:
        return 0.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{m * power:.1g}") for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def rounded(value: float, step: float, towards: Towards = round) -> float:
    """The multiple of `step` nearest to a value, or next below or above it.

    >>> rounded(0.4387, 0.05), rounded(0.4387, 0.05, math.ceil), rounded(1234.0, 50.0)
    (0.45, 0.45, 1250.0)
    """
    if not step or not math.isfinite(value):
        return value
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    slack = 1e-9 if towards is math.floor else -1e-9 if towards is math.ceil else 0.0  # a multiple stays where it is
    return round(towards(value / step + slack) * step, places)


def _is_share(r: Row) -> bool:
    """Whether the metric of a row lies between 0 and 1, as the points of curves do."""
    spec = card_of(r["metric"])
    return spec is not None and spec.span == (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Rounding:
    """How the figures of one result are rounded: by the units of the smallest slice shown."""

    units: float

    @classmethod
    def from_rows(cls, rows: Iterable[Row], fewest: int) -> Rounding:
        shown = (r.get("units") for r in rows if r.get("note") != "suppressed")
        return cls(min((float(n) for n in shown if n), default=float(fewest)))

    def relative(self, value: Any, towards: Towards = round) -> Any:
        """A count, ratio or p to a step of its size size over the units; whole numbers stay whole."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(rounded(value, max(1.0, grid_step(abs(value) / self.units))))
        return rounded(float(value), grid_step(abs(value) / self.units), towards)

    def p(self, value: Any) -> Any:
        """A p rounded up, never beyond 1."""
        return value if value is None or math.isnan(value) else min(1.0, self.relative(float(value), math.ceil))

    def step(self, r: Row) -> float:
        """The step of a row's figures, on the scale of its metric."""
        spec = card_of(r["metric"])
        least, most = r.get("span") or (ANYTHING if spec is None else spec.span)
        if spec is not None and not math.isfinite(most - least):
            least, most = spec.span  # a difference of shares is rounded as they are
        sizes = [abs(r[name]) for name in ("estimate", "low", "high") if math.isfinite(r[name])]
        size = max(sizes, default=0.0)
        if math.isfinite(least) and math.isfinite(most):
            size = max(1.0, (most - least) / 2)
        elif spec is None:
            size = max(1.0, size)  # shares and gaps without a card
        return grid_step(max(size / self.units, r.get("influence", 0.0)))

    def row(self, r: Row) -> Row:
        """A row as published; one that is suppressed has no figure at all, not even an ideal that the data gave."""
        spec, is_suppressed = card_of(r["metric"]), r.get("note") == "suppressed"
        if is_suppressed or not isinstance(r.get("estimate"), float):
            ideal = {"ideal": spec.ideal if spec else math.nan} if is_suppressed and "ideal" in r else {}
            return {name: self._cell(name, value) for name, value in r.items()} | ideal
        step = self.step(r)
        scaled = {
            name: rounded(float(r[name]), step, towards)
            for name, towards in SCALED.items()
            if isinstance(r.get(name), float)
        }
        if spec is None or r.get("ideal") != spec.ideal:
            scaled["ideal"] = rounded(float(r["ideal"]), step)
        return {name: self._cell(name, value) for name, value in r.items()} | scaled

    def _cell(self, name: str, value: Any) -> Any:
        if name in P_VALUES:
            return self.p(value)
        return self.relative(value) if name in RELATIVE else value

    def columns(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        return {name: [self._cell(name, value) for value in column] for name, column in columns.items()}

    def points(self, points: Mapping[str, Sequence[Any]], slices: Sequence[str], rows: Sequence[Row]) -> dict[str, Any]:
        """The points of a curve as published, each by the largest influence in its slice; positions stay as they are."""
        names = [name for name in slices if name in points]
        influence: dict[tuple[Any, ...], float] = {}
        for r in [r for r in rows if _is_share(r)] or rows:  # on another scale, one unit may move a metric by millions
            where = tuple(r.get(name) for name in names)
            influence[where] = max(influence.get(where, 0.0), min(r.get("influence", 0.0), 0.5))
        size = len(next(iter(points.values()), ()))
        where_of = list(zip(*(points[name] for name in names), strict=True)) if names else [()] * size

        def published(column: Sequence[Any]) -> list[Any]:
            scale = max([1.0, *(abs(v) for v in column if isinstance(v, float) and math.isfinite(v))])
            steps = [max(scale / self.units, influence.get(where, 0.0) if scale == 1 else 0.0) for where in where_of]
            cells = zip(column, map(grid_step, steps), strict=True)
            return [rounded(v, step) if isinstance(v, float) else v for v, step in cells]

        places = {*slices, "population"}
        return {name: list(c) if name in places else published(c) for name, c in points.items()}

    def facts(self, facts: Any) -> Any:
        """Figures among facts as published: fractions, and the counts of what was met."""
        if isinstance(facts, Mapping):
            return {k: v if k in PARAMETERS else self.facts(v) for k, v in facts.items()}
        if isinstance(facts, list):
            return [self.facts(v) for v in facts]
        return self.relative(facts) if isinstance(facts, float) else facts

    def counts(self, counts: Any) -> Any:
        """Counts as published, each to a step of its size over the units."""
        if isinstance(counts, Mapping):
            return {k: self.counts(v) for k, v in counts.items()}
        return self.relative(counts) if isinstance(counts, (int, float)) else counts

    def claim(self, candidate: Candidate) -> Candidate:
        """A claim that is decided by the p as published."""
        return replace(candidate, p=float(self.p(candidate.p)))


def hidden(
    units: Sequence[float], fewest: int, *, total_shown: bool = True, already: Sequence[bool] = ()
) -> list[bool]:
    """Which parts of a whole are suppressed: those with too few units; and where the size of the whole is shown, the next
    smallest until a subtraction gives no single one away, and none of them all that is about too few.

    Parts that are hidden `already`, for another reason, stay so.

    >>> hidden([50, 3, 20], fewest=5)
    [False, True, True]
    >>> hidden([50, 1, 1, 20], fewest=5)
    [False, True, True, True]
    >>> hidden([50, 3, 20], fewest=5, total_shown=False)
    [False, True, False]
    """
    before = already or [False] * len(units)
    small = [n < fewest or hide for n, hide in zip(units, before, strict=True)]
    lost = [n for n, hide in zip(units, small, strict=True) if hide and n > 0]  # an empty part hides nothing
    for i in sorted((i for i, hide in enumerate(small) if not hide), key=lambda i: units[i]):
        if total_shown and lost and (len(lost) < 2 or sum(lost) < fewest):
            small[i] = True
            lost.append(units[i])
    return small


def hidden_cells(units: Sequence[Sequence[float]], fewest: int) -> list[list[bool]]:
    """Which cells of a table with known row and column totals are suppressed.

    >>> hidden_cells([[50, 3], [40, 60], [70, 80]], fewest=5)
    [[True, True], [True, True], [False, False]]
    """
    suppressed_cells = [[False] * len(row) for row in units]
    while True:
        along = [hidden(row, fewest, already=hide) for row, hide in zip(units, suppressed_cells, strict=True)]
        columns = [
            hidden(column, fewest, already=hide)
            for column, hide in zip(zip(*units, strict=True), zip(*along, strict=True), strict=True)
        ]
        updated = [list(row) for row in zip(*columns, strict=True)]
        if updated == suppressed_cells:
            return suppressed_cells
        suppressed_cells = updated


def must_withhold(counts: Any, fewest: int, rows: Any) -> bool:
    """Whether counts are withheld: one is below `fewest`, or would give away a suppressed row.

    >>> must_withhold({"rows": 500, "dropped": {"amount is missing": 3}}, 10, [])
    True
    """
    hides = any(
        note == "suppressed"
        for note in (rows.get("note", ()) if isinstance(rows, Mapping) else (r["note"] for r in rows))
    )
    return fewest > 1 and (hides or _counts_few(counts, fewest))


def _counts_few(counts: Any, fewest: int) -> bool:
    if isinstance(counts, Mapping):
        return any(_counts_few(part, fewest) for part in counts.values())
    whole = isinstance(counts, int) or (isinstance(counts, float) and counts > 1)  # shares are none
    return whole and 0 < counts < fewest


def enough(fewest: int, metrics: Sequence[MetricSpec], *, arms: int = 1) -> int:
    """`min_units`, or more: as many exact figures as units could be solved for single units."""
    exact = arms * sum(not a.local for a in metrics)
    return fewest if fewest <= 1 else max(fewest, exact + 2)


def suppressed(r: Row) -> Row:
    """A row with too few units to be shown: no number survives, not even how few."""
    hidden = dict.fromkeys({"estimate", "low", "high", "chance", *(set(RANGE) & set(r))}, math.nan)
    return {**r, **hidden, "units": None, "undefined_draws": 0, "note": "suppressed"}


SUPPRESSED = "(suppressed)"


def without_labels(rows: Sequence[Row], slices: Sequence[str], columns: Sequence[str]) -> list[Row]:
    """Rows with those that are suppressed once per metric and group, their slice unnamed.

    Where slices are cells of several columns, that a cell is there at all tells of the few in it.
    """
    kinds = {name: {type(r[name]) for r in rows if r[name] is not None} for name in slices}
    blank = {name: SUPPRESSED if kinds[name] == {str} else None for name in slices}
    blank |= {name: None for name in columns if name not in slices}
    merged: dict[Any, Row] = {}
    for i, r in enumerate(rows):
        is_hidden = r["note"] == "suppressed"
        merged.setdefault((r["metric"], r["group"]) if is_hidden else i, {**r, **blank} if is_hidden else r)
    return list(merged.values())


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
        by_name: dict[Any, float] = {}
        for label, share in target.items():
            name = self._name(match(label, self.labels)) if self.renamed else label
            if name is not None or not self.renamed:
                by_name[name] = by_name.get(name, 0.0) + share
        whole = sum(by_name.values())
        return {name: share / whole for name, share in by_name.items()} if self.leaves_out and whole else by_name

    def rename_target(self, ask: A) -> A:
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
