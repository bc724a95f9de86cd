"""Within groups or between them? An index of inequality split over groups of units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenhand.audits.assemble import hidden, names_of, notes, suppressed
from evenhand.audits.declare import OTHER_UNITS, Call, Count, Level, Metrics, Seed, Table, audit, log
from evenhand.audits.units import By, Population, Units, units_of
from evenhand.cards import MetricSpec, parse_call
from evenhand.errors import EvenhandError, all_problems, unknown_name
from evenhand.findings import Row, label, row
from evenhand.intervals.kinds import Estimates, Interval
from evenhand.intervals.parts import WIDE, Ends, blank, drawn_ends, linearised_ends
from evenhand.intervals.spectra import WIDE as BINNED
from evenhand.intervals.spectra import estimates
from evenhand.intervals.tails import cautions
from evenhand.metrics.decomposition import INDICES, TUNED, Index, Parts, checked_index, parts, parts_influence
from evenhand.results import Result
from evenhand.sources.columns import TEXT
from evenhand.sources.labels import TOGETHER, combined
from evenhand.sources.logs import NanPolicy
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Relation
from evenhand.sources.roles import missing_columns
from evenhand.streams import stream
from evenhand.tallies.partition import Partition, partitions, refuse_shared_units
from evenhand.tallies.slices import Label
from evenhand.tallies.spectrum import Spectra, Spectrum, collapse

NOTHING_BETWEEN = frozenset({"between", "overlap"})
"""Parts that are certain where there is one group only."""

WHOLE = ("total", "within", "between", "overlap")
PER_GROUP = ("index", "share", "population_share")
METRICS = (*WHOLE, *PER_GROUP)
SMALL = "(small groups)"
"""What groups with too few receivers are called, taken together before anything is measured."""

SHARES = (0.0, 1.0)
NAMES: dict[Index, str] = {"gini": "Gini", "theil": "Theil", "ge": "generalised entropy", "atkinson": "Atkinson"}


MOST_GROUPS = 100_000
"""Every group has rows of its own, and nobody reads more."""


@audit(
    "decompose",
    question="Does the inequality lie within groups or between them?",
    charts=("decomposition", "intervals", "scatter"),
    default="all parts",
    over="units",
    stands_for=OTHER_UNITS,
)
def decompose(
    call: Call,
    table: Table,
    *,
    unit: str | None,
    amount: str | None = None,
    group: By,
    population: Population,
    index: str = "gini",
    alpha: float | None = None,
    epsilon: float | None = None,
    weight: str | None = None,
    by: By = None,
    unknown: Literal["group", "drop", "raise"] = "group",
    metrics: Metrics | None = None,
    interval: str | None = "bootstrap(999)",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: NanPolicy = "raise",
) -> Result:
    """How much of the inequality of `amount` lies within groups of units and how much between them.

    Gini: total = within + between + overlap. Theil and generalised entropy: total = within + between. Atkinson:
    1 - total = (1 - within)(1 - between). Per group (column `group`): its own `index`, its `share` of the total and its
    `population_share`.

    Parameters
    ----------
    table, unit, amount, weight, by, interval, level, rng, nan_policy : as in `eh.inequality`.
    group : column with the group of each unit, one group per unit; several columns are combined;
        `eh.log_bins("followers", 5)` groups by size.
    population : everyone who could have received something, with their group: `{group: number}`, a table of units
        with the group column, or None for the units seen in the table only.
    index : `"gini"`, `"theil"`, `"ge(alpha=2)"` or `"atkinson(epsilon=0.5)"`.
    unknown : what to do with units without a group label: make them a group ("group"), leave them out ("drop"), or
        raise an error.
    alpha : parameter of `ge`, if `index` does not state it.
    epsilon : parameter of `atkinson`, if `index` does not state it.
    min_units : suppress slices with fewer units that received anything, and merge groups with fewer.
    metrics : any of `total`, `within`, `between`, `overlap`, `index`, `share`, `population_share`.

    Examples
    --------
    >>> import polars as pl
    >>> log = pl.DataFrame({"who": list("abcd"), "band": list("xxyy"), "views": [1, 1, 3, 3]})
    >>> r = decompose(log, unit="who", amount="views", group="band", population=None, interval=None)
    >>> r.frame.filter(pl.col("group").is_null()).select("metric", "estimate").rows()
    [('total', 0.25), ('within', 0.0), ('between', 0.25), ('overlap', 0.0)]
    """
    chosen, params = _index(index, alpha, epsilon)
    chosen_metrics = _checked(metrics, chosen)
    table, population, split_by = _combine_groups(table, population, group)
    prepared = units_of(
        table, unit=unit, amount=amount, population=population, by=by, weight=weight, nan_policy=nan_policy,
        part=("group", split_by),
    )  # fmt: skip
    read, whole = prepared.log, prepared.whole()
    _refuse_unplaced(prepared, read.by[-1], population)
    refuse_shared_units(read)
    log.info("adding up %s per group", amount or "rows")
    split, broken, left_out = _partitions(prepared, unknown)
    measured = _Measure(MetricSpec(index, INDICES[chosen], params), chosen, call, ("inequality",))
    facts = {
        "interval": _interval_words(call.interval), "population": prepared.population_words,
        "missing_slice_labels": "shown as a slice or group of their own", "unknown": unknown,
    }  # fmt: skip
    words = {"unit": unit or "row", "amount": "rows" if amount is None else amount, "index": NAMES[chosen]}
    return call.result(
        measured.rows(split, whole, chosen_metrics, broken), backend=read.backend, read=read.rows, dropped=read.dropped,
        slices=whole.by, columns=whole.columns, words=words, facts=facts, counts={"units_without_group": left_out},
    )  # fmt: skip


def _partitions(prepared: Units, unknown: str) -> tuple[dict[Label, Partition], set[Label], int]:
    """Units by group for each slice, the slices with undefined amounts, and how many units have no group."""
    slices = prepared.slices(prepared.log.amounts[0])
    if len(slices.labels) > MOST_GROUPS:
        raise EvenhandError(
            f"group={prepared.by[-1]!r} splits the units into {len(slices.labels):,} groups, too many to be told apart. Group them "
            f"into at most {MOST_GROUPS:,}."
        )
    split = dict(partitions(slices))
    left_out = sum(int(p[p.groups.index(None)].units) for p in split.values() if None in p.groups)
    if left_out and unknown == "raise":
        raise EvenhandError(
            f"{left_out:,} units have no group. Give them one, or pass unknown='group' or unknown='drop'."
        )
    if unknown == "drop":
        split = {where: partition.without(None) for where, partition in split.items()}
    if not split and not prepared.whole().by:
        split = {(): Partition.joined((), ())}  # every amount was left out
    return split, {where[:-1] for where in slices.broken}, left_out


def _combine_groups(table: Any, population: Any, group: By) -> tuple[Any, Any, Any]:
    """The table, the population and the group; of several columns the labels are combined into one."""
    if not isinstance(group, (list, tuple)):
        return table, population, group
    if len(group) == 1:
        return table, population, group[0]
    if len(group) < 1 or not all(isinstance(c, str) for c in group):
        raise EvenhandError(f"group={group!r} does not name columns. Pass one column, several, or one set of bins.")
    opened, name = open_table(table), TOGETHER.join(group)
    if lost := missing_columns(opened, [("group", c) for c in group]):
        raise all_problems(lost)
    opened = _with_combined(opened, list(group), name)
    if population is None or isinstance(population, (int, Mapping)):
        return opened, population, name
    everyone = open_table(population, role="population", same_engine_as=opened)
    if all(c in everyone.schema for c in group):
        everyone = _with_combined(everyone, list(group), name)
    return opened, everyone, name


def _with_combined(opened: Relation, columns: Sequence[str], name: str) -> Relation:
    """The table with one more column, of the labels that several columns make; missing where one of them is."""
    return opened.with_column(name, combined(list(columns), opened, "group"), TEXT)


def _index(text: str, alpha: float | None, epsilon: float | None) -> tuple[Index, dict[str, float]]:
    """The index and its parameter, written into the text or passed apart."""
    if not isinstance(text, str):
        raise EvenhandError(
            f"index={text!r} is not text. Pass 'gini', 'theil', 'ge(alpha=2)' or 'atkinson(epsilon=0.5)'."
        )
    name, args, params = parse_call(text, role="index")
    if len(args) > 1 or (args and name not in TUNED):
        raise EvenhandError(f"index={text!r} has too many values. Write 'ge(alpha=2)' or 'atkinson(epsilon=0.5)'.")
    params |= {TUNED[name]: args[0]} if args else {}
    params |= {k: v for k, v in (("alpha", alpha), ("epsilon", epsilon)) if v is not None}
    return checked_index(name, params), params


def _checked(metrics: str | Sequence[str] | None, index: Index) -> tuple[str, ...]:
    possible = METRICS if index == "gini" else tuple(m for m in METRICS if m != "overlap")
    if metrics is None:
        return possible
    listed = names_of(metrics)
    for name in listed:
        if name not in possible:
            raise unknown_name("metrics", str(name), possible, what=f"a figure of this audit with index={index!r}")
    if not listed or len(set(listed)) < len(listed):
        raise EvenhandError(f"metrics={metrics!r} is empty or names one twice. Name some of {', '.join(possible)}.")
    return listed


def _refuse_unplaced(prepared: Units, group: str, population: Any) -> None:
    """A number of units, or a table without the group, does not say which group the unseen belong to."""
    everyone = prepared.everyone
    placed = group in everyone.schema if isinstance(everyone, Relation) else not isinstance(everyone, int)
    if not placed:
        what = (
            "population is a table without that column and"
            if isinstance(everyone, Relation)
            else f"population={population!r}"
        )
        raise EvenhandError(
            f"group={group!r}: {what} does not say which group the unseen units belong to. "
            f"Pass {{group: size}}, a table of units that holds {group!r}, or None for those seen."
        )


@dataclass(frozen=True, slots=True)
class _Measure:
    """Everything that stays the same from slice to slice."""

    ask: MetricSpec
    index: Index
    call: Call
    labels: tuple[Any, ...]

    @property
    def how(self) -> Interval:
        return self.call.interval

    @property
    def seed(self) -> int:
        return int(self.call.seed)

    def rows(
        self, tallies: Mapping[Label, Partition], whole: Units, metrics: Sequence[str], broken: set[Label]
    ) -> list[Row]:
        log.info("measuring %s slices", f"{len(tallies):,}")
        small = {where: self._small(tally) for where, tally in tallies.items()}
        originals, tallies = tallies, {where: self._shown(tally, small[where]) for where, tally in tallies.items()}
        pooled = Spectra.from_spectra(
            [collapse(p.pooled.values, p.pooled.counts, p.pooled.weights) for p in tallies.values()]
        )
        (totals,) = estimates(pooled, [self.ask], self.how, self.seed, [(*self.labels, *where) for where in tallies])
        warned = cautions(pooled) if self.how.kind != "none" else [""] * len(pooled)
        rows: list[Row] = []
        for i, (where, tally) in enumerate(tallies.items()):
            slice_rows = self._slice(tally, where, whole.cells(where), metrics, totals, i)
            names = [label(originals[where].groups[g]) for g in small[where]]
            figures = [(name, figure) for name in names for figure in PER_GROUP if figure in metrics]
            few = pooled.receivers[i] < self.call.min_units
            for r in slice_rows:
                defined = not math.isnan(r["estimate"])
                r["note"] = notes(*dict.fromkeys([r["note"] or "", warned[i] if defined else ""]))
                if where in broken:
                    r |= dict.fromkeys(("estimate", "low", "high"), math.nan) | {"note": "nan_in_data"}
                rows.append(suppressed(r) if few else r)
            rows += [suppressed(row(whole.cells(where), figure, group=name)) for name, figure in figures]
        return rows

    def _small(self, tally: Partition) -> list[int]:
        """Groups, by number, that are taken together before anything is measured; none where the whole slice is too small."""
        receivers = [tally[g].receivers for g in range(len(tally))]
        if self.call.min_units <= 1 or sum(receivers) < self.call.min_units:
            return []
        return [g for g, hide in enumerate(hidden(receivers, self.call.min_units)) if hide]

    def _shown(self, tally: Partition, small: Sequence[int]) -> Partition:
        """The partition with small groups merged, coarsened to `min_units` where the index reads single units."""
        joined = tally.together(small, SMALL)
        return joined.coarse(self.call.min_units) if self.ask.local and self.call.min_units > 1 else joined

    def _slice(
        self, tally: Partition, where: Label, cells: dict[str, Any], metrics: Sequence[str], totals: Estimates, i: int
    ) -> list[Row]:
        """The rows of one slice: the whole first, then each group."""
        split = parts(tally, self.index, **self.ask.params)
        values = {name: getattr(split, name) for name in METRICS}
        ends = self._ends(tally, split, values, where)
        ends["total"] = Ends(totals.low[i], totals.high[i], totals.undefined_draws[i])
        if self.how.kind == "bootstrap":  # only the total is drawn from tails that go on beyond what was seen
            low, high = float(totals.low[i]), float(totals.high[i])
            for part in ends.keys() & set(WHOLE[1:]):
                ends[part] = ends[part].in_proportion(values[part], float(values["total"]), low, high)
        rows = []
        for name in (m for m in WHOLE if m in metrics):
            code = tally.reason() or ("zero_over_zero" if np.isnan(values[name]) else "")
            numbers = _numbers(values[name], ends[name], ()) | (self._direction if name == "total" else {})
            certain = len(tally) == 1 and name in NOTHING_BETWEEN
            units, note = int(tally.pooled.units), code or None
            rows.append(row(cells, name, units=units, note=note, span=self.ask.span, certain=certain, **numbers))
        return rows + self._group_rows(tally, where, cells, metrics, values, ends)

    def _group_rows(
        self, tally: Partition, where: Label, cells: dict[str, Any], metrics: Sequence[str], values: Mapping[str, Any],
        ends: dict[str, Ends],
    ) -> list[Row]:  # fmt: skip
        """The rows of each group: its own index, its share of the total and of the units."""
        groups = Spectra.from_spectra([tally[g] for g in range(len(tally))])
        streams = [(*self.labels, *where, name) for name in tally.groups]
        (index,) = estimates(groups, [self.ask], self.how, self.seed, streams)
        ends = {**ends, "index": Ends(index.low, index.high, index.undefined_draws)}
        warned = cautions(groups) if self.how.kind != "none" else [""] * len(tally)
        rows = []
        for g, name in enumerate(tally.groups):
            for figure in (m for m in PER_GROUP if m in metrics):
                is_index = figure == "index"
                numbers = _numbers(values[figure], ends[figure], (g,)) | (self._direction if is_index else {})
                why = groups[g].reason() if is_index else tally.reason()
                code = why if math.isnan(numbers["estimate"]) else warned[g] if is_index else ""
                rows.append(row(
                    cells, figure, group=label(name), units=int(groups.units[g]), note=code or None,
                    span=self.ask.span if is_index else SHARES, certain=len(tally) == 1 and not is_index, **numbers,
                ))  # fmt: skip
        return rows

    @property
    def _direction(self) -> dict[str, Any]:
        return {"ideal": self.ask.ideal, "better": self.ask.better}

    def _ends(self, tally: Partition, split: Parts, values: Mapping[str, Any], where: Label) -> dict[str, Ends]:
        """Percentile bootstrap over units (wide tallies on bins), never shorter than Student's t unless percentiles were asked
        for; normal with the linearised error on request.
        """
        names = [n for n in METRICS if n not in ("total", "index") and (self.index == "gini" or n != "overlap")]
        chosen = {n: values[n] for n in names}
        if self.how.kind == "none" or tally.reason():
            return blank({n: values[n] for n in METRICS})
        drawable = tally.binned() if len(tally.values) > BINNED else tally
        if self.how.kind == "normal" or len(drawable.values) > WIDE:
            return self._linearised(tally, split, chosen)

        def draw(some: Partition) -> dict[str, Any]:
            split = parts(some, self.index, **self.ask.params)
            return {n: getattr(split, n) for n in names}

        drawn = drawn_ends(drawable, draw, chosen, self.how, stream(self.seed, "decompose", *self.labels, *where))
        if self.how.kind == "percentile":
            return drawn
        least = self._linearised(tally, split, chosen)
        return {n: ends.reaching(least[n].low, least[n].high) for n, ends in drawn.items()}

    def _linearised(self, tally: Partition, split: Parts, chosen: Mapping[str, Any]) -> dict[str, Ends]:
        moves: dict[str, Any] = parts_influence(tally, split, self.index, **self.ask.params)
        in_group = np.arange(len(tally))[:, None] == tally.cell_group
        mean = float(tally.pooled.total / tally.pooled.size)
        moves["population_share"] = in_group.astype(np.float64)
        moves["share"] = (in_group - split.share[:, None]) * tally.values / mean
        spans = {n: SHARES if "share" in n else self.ask.span for n in chosen}
        units = Spectrum(tally.values, tally.counts, tally.weights)
        return linearised_ends(units, {n: moves[n] for n in chosen}, chosen, spans, self.how.level)


def _numbers(values: Any, ends: Ends, at: tuple[int, ...]) -> dict[str, Any]:
    low, high, undefined = (np.asarray(end)[at] for end in (ends.low, ends.high, ends.undefined_draws))
    return {
        "estimate": float(np.asarray(values)[at]), "low": float(low), "high": float(high), "undefined_draws": int(undefined)
    }  # fmt: skip


def _interval_words(how: Interval) -> str:
    if how.kind in ("none", "normal"):
        return {"none": "none", "normal": "normal, with the linearised error"}[how.kind]
    kind = "studentised" if how.kind == "bootstrap" else "percentile"
    least = ", never shorter than Student's t and, in proportion, than the total's" if how.kind == "bootstrap" else ""
    return (
        f"bootstrap over units, {how.draws:,} draws: {kind} for the total and each group's index, percentile for the parts "
        f"and shares{least}; slices with over {BINNED:,} cells are drawn on amounts binned at a relative width of 2^-12, "
        f"those with over {WIDE:,} bins have normal intervals with the linearised error"
    )
