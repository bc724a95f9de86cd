"""Within groups or between them? An index of inequality split over groups of units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenhand.audits.declare import (
    OTHER_UNITS,
    By,
    Call,
    Count,
    Level,
    Metrics,
    Population,
    Seed,
    Table,
    audit,
    log,
    refuse_many_slices,
)
from evenhand.audits.min_units import hidden, suppressed
from evenhand.cards import MetricSpec, parse_call
from evenhand.claims import Candidate
from evenhand.errors import EvenhandError, all_problems, plural
from evenhand.findings import Row, chosen_figures, label, nan_in_data, notes, row
from evenhand.intervals.jackknife import influence_of_units, influence_on_parts
from evenhand.intervals.kinds import ANYTHING, Estimates, Interval
from evenhand.intervals.parts import WIDE, blank, bootstrap_draws, ends_of_draws, linearised_ends, permuted_partitions
from evenhand.intervals.spectra import WIDE as BINNED
from evenhand.intervals.spectra import cautions, estimates
from evenhand.labels import stream
from evenhand.metrics.decomposition import INDICES, TUNED, Index, Parts, checked_index, parts, parts_influence
from evenhand.results import Result
from evenhand.sources.labels import SEPARATOR, combined
from evenhand.sources.logs import NanPolicy, Units, units_of
from evenhand.sources.opening import open_table
from evenhand.sources.relation import TEXT, Relation, missing_columns
from evenhand.tallies.sources import Partition, partitions, refuse_shared_units
from evenhand.tallies.spectrum import Label, Slices, Spectra, Spectrum, collapse

WHOLE = ("total", "within", "between", "overlap")
PER_GROUP = ("index", "share", "population_share")
METRICS = (*WHOLE, *PER_GROUP)
SMALL = "(small groups)"
"""What groups with too few receivers are called, taken together before anything is measured."""

PERMUTATIONS = 999
"""How often groups are permuted over units for `chance` and `p`."""

SHARES = (0.0, 1.0)
MOST_CELLS = 2 * 10**8  # groups times amounts: a float for each takes 1.6 GB
NAMES: dict[Index, str] = {"gini": "Gini", "theil": "Theil", "ge": "generalised entropy", "atkinson": "Atkinson"}


@audit(
    "decompose",
    question="Does the inequality lie within groups or between them?",
    charts=("decomposition", "intervals", "scatter"),
    default="all parts",
    extra=("p", "p_adjusted"),
    over="units",
    stands_for=OTHER_UNITS,
    null="with groups permuted",
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
    1 - total = (1 - within)(1 - between). `chance` is what the parts would be on average if groups were permuted over
    units, `p` how often `between` would then be as large; both are drawn where there are intervals, unless groups are so many
    (hundreds, or 500 million units) that groups times binned amounts exceed 262,144 (note `no_permutation`). Per group (column
    `group`): its own `index`, its `share` of the total and its `population_share`.

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
    possible = METRICS if chosen == "gini" else tuple(m for m in METRICS if m != "overlap")
    figures = chosen_figures(
        possible if metrics is None else metrics, possible, f"a figure of this audit with index={chosen!r}"
    )
    table, population, split_by = _combine_groups(table, population, group)
    prepared = units_of(
        table, unit=unit, amount=amount, population=population, by=by, weight=weight, nan_policy=nan_policy,
        part=("group", split_by),
    )  # fmt: skip
    read, whole = prepared.log, prepared.whole()
    split, broken, left_out = _partitions(prepared, population, unknown)
    facts = {
        "interval": _interval_words(call.interval), "population": prepared.population_words,
        "missing_slice_labels": "shown as a slice or group of their own", "unknown": unknown,
    }  # fmt: skip
    words = {
        "unit": unit or "row", "amount": "rows" if amount is None else amount, "index": NAMES[chosen], "group": prepared.by[-1]
    }  # fmt: skip
    decomposed = Decomposed(MetricSpec(index, INDICES[chosen], params), chosen, call, call.interval)
    rows = decomposed.rows(split, whole, figures, broken)
    return call.result(
        rows, claims=_claims(rows, whole.by, words), backend=read.backend, read=read.rows, dropped=read.dropped,
        slices=whole.by, columns=whole.columns, words=words, facts=facts, counts={"units_without_group": left_out},
    )  # fmt: skip


def _index(text: str, alpha: float | None, epsilon: float | None) -> tuple[Index, dict[str, float]]:
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


def _combine_groups(table: Any, population: Any, group: By) -> tuple[Any, Any, Any]:
    """Table, population and group column; several group columns are combined into one."""
    if not isinstance(group, (list, tuple)):
        return table, population, group
    if len(group) == 1:
        return table, population, group[0]
    if not group or not all(isinstance(c, str) for c in group):
        raise EvenhandError(f"group={group!r} does not name columns. Pass one column, several, or one set of bins.")
    columns, name = [str(c) for c in group], SEPARATOR.join(map(str, group))
    opened = open_table(table)
    if lost := missing_columns(opened, [("group", c) for c in columns]):
        raise all_problems(lost)
    opened = opened.with_column(name, combined(columns, opened, "group"), TEXT)
    if population is None or isinstance(population, (int, Mapping)):
        return opened, population, name
    everyone = open_table(population, role="population", same_engine_as=opened)
    if all(c in everyone.schema for c in columns):
        everyone = everyone.with_column(name, combined(columns, everyone, "group"), TEXT)
    return opened, everyone, name


def _refuse_unplaced(prepared: Units, group: str, population: Any) -> None:
    everyone = prepared.everyone
    if isinstance(everyone, Relation) and group not in everyone.schema:
        what = "population is a table without that column and"
    elif isinstance(everyone, int):
        what = f"population={population!r}"
    else:
        return
    raise EvenhandError(
        f"group={group!r}: {what} does not say which group the unseen units belong to. "
        f"Pass {{group: size}}, a table of units that holds {group!r}, or None for those seen."
    )


MOST_GROUPS = 100_000
"""Every group has rows of its own, and nobody reads more."""


def _partitions(prepared: Units, population: Any, unknown: str) -> tuple[dict[Label, Partition], set[Label], int]:
    """Partition of each slice, slices with missing amounts, and how many units have no group."""
    _refuse_unplaced(prepared, prepared.by[-1], population)
    refuse_shared_units(prepared.log)
    log.info("adding up %s per group", prepared.log.amounts[0].name or "rows")
    slices = Slices.of_units(prepared, prepared.log.amounts[0])
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


@dataclass(frozen=True, slots=True)
class Decomposed:
    """An index split over groups, slice by slice."""

    ask: MetricSpec
    index: Index
    call: Call
    how: Interval

    def rows(
        self, originals: Mapping[Label, Partition], whole: Units, metrics: Sequence[str], broken: set[Label]
    ) -> list[Row]:
        """Every slice: the whole first, then each group; small groups merged and suppressed."""
        refuse_many_slices("decompose", len(originals))
        log.info("measuring (slices: %s)", f"{len(originals):,}")
        fewest = self.call.min_units
        small = {where: self._small_groups(tally) for where, tally in originals.items()}
        tallies = {where: tally.merge_groups(small[where], SMALL) for where, tally in originals.items()}
        if self.ask.local and fewest > 1:  # the index reads single units
            tallies = {where: tally.coarse(fewest) for where, tally in tallies.items()}
        pooled = Spectra.from_spectra(
            [collapse(p.pooled.values, p.pooled.counts, p.pooled.weights) for p in tallies.values()]
        )
        streams = [("inequality", *where) for where in tallies]
        (totals,) = estimates(pooled, [self.ask], self.how, self.call.seed, streams)
        warned = cautions(pooled) if self.how.kind != "none" else [""] * len(pooled)
        rows: list[Row] = []
        for i, (where, tally) in enumerate(tallies.items()):
            cells, few = whole.cells(where), pooled.receivers[i] < fewest
            for r in self._slice(tally, where, cells, metrics, totals.at(i)):
                r["note"] = notes(*dict.fromkeys([r["note"] or "", "" if math.isnan(r["estimate"]) else warned[i]]))
                shown = nan_in_data(r | {"p": math.nan}) if where in broken else r
                rows.append(suppressed(shown | {"p": math.nan}) if few else shown)
            names = [label(originals[where].groups[g]) for g in small[where]]
            rows += [suppressed(row(cells, m, group=name)) for name in names for m in PER_GROUP if m in metrics]
        return rows

    def _small_groups(self, tally: Partition) -> list[int]:
        """Indices of groups that are merged; none where the whole slice is too small."""
        receivers = [tally[g].receivers for g in range(len(tally))]
        if self.call.min_units <= 1 or sum(receivers) < self.call.min_units:
            return []
        return [g for g, hide in enumerate(hidden(receivers, self.call.min_units)) if hide]

    def _slice(
        self, tally: Partition, where: Label, cells: dict[str, Any], metrics: Sequence[str], ends: Mapping[str, Any]
    ) -> list[Row]:
        split = parts(tally, self.index, **self.ask.params)
        values = {name: getattr(split, name) for name in METRICS}
        total = Estimates(split.total, *(np.asarray(ends[name]) for name in ("low", "high", "undefined_draws")))
        figures = {**self._figures(tally, split, values, where), "total": total}
        if self.how.kind == "bootstrap":  # only the total is drawn from tails that go on beyond what was seen
            for part in figures.keys() & (set(WHOLE[1:]) if self.index == "gini" else {"within"}):
                figures[part] = figures[part].in_proportion(total)
        chance, p, noise = self._by_chance(tally, float(values["between"]), where)
        if self.how.kind == "bootstrap" and not math.isnan(noise):
            figures |= _less_noise(figures, noise, power=2 if self.index == "gini" else 1)
        influence = self._influence(tally)
        rows = []
        for name in (m for m in WHOLE if m in metrics):
            code = tally.reason() or ("zero_over_zero" if np.isnan(values[name]) else "")
            if name == "between" and self.how.kind != "none" and len(tally) > 1 and not code and math.isnan(p):
                code = "no_permutation"
            numbers = figures[name].at() | (self._direction if name == "total" else {})
            certain = len(tally) == 1 and name in ("between", "overlap")  # one group: nothing lies between groups
            units, note = int(tally.pooled.units), code or None
            numbers["chance"] = chance.get(name, math.nan)
            numbers["influence"] = float(influence.get(name, 0.0))
            r = row(cells, name, units=units, note=note, span=self.ask.span, certain=certain, **numbers)
            rows.append(r | ({"p": p} if name == "between" else {}))
        groups = Spectra.from_spectra([tally[g] for g in range(len(tally))])
        streams = [("inequality", *where, name) for name in tally.groups]
        (figures["index"],) = estimates(groups, [self.ask], self.how, self.call.seed, streams)
        warned = cautions(groups) if self.how.kind != "none" else [""] * len(tally)
        sizes = groups.units.astype(int).tolist()
        for g, name in enumerate(tally.groups):
            for figure in (m for m in PER_GROUP if m in metrics):
                is_index = figure == "index"
                numbers = figures[figure].at(g) | (self._direction if is_index else {})
                why = groups[g].reason() if is_index else tally.reason()
                code = why if math.isnan(numbers["estimate"]) else warned[g] if is_index else ""
                numbers["influence"] = float(influence[figure][g]) if figure in influence else 0.0
                rows.append(row(
                    cells, figure, group=label(name), units=sizes[g], note=code or None,
                    span=self.ask.span if is_index else SHARES, certain=len(tally) == 1 and not is_index, **numbers,
                ))  # fmt: skip
        return rows

    def _influence(self, tally: Partition) -> dict[str, Any]:
        """For each figure, the largest change that leaving out one unit makes; nothing without `min_units`."""
        if self.call.min_units <= 1 or tally.reason():
            return {}

        groups = [influence_of_units(tally[g], [self.ask])[0] for g in range(len(tally))]
        total = influence_of_units(tally.pooled, [self.ask])[0]
        return influence_on_parts(tally, self._drawn) | {"total": total, "index": groups}

    def _by_chance(self, tally: Partition, between: float, where: Label) -> tuple[dict[str, float], float, float]:
        """With groups permuted over units: means of the parts, p of `between`, and what it exceeds at 1 - level."""
        if self.how.kind == "none" or tally.reason() or len(tally) < 2 or math.isnan(between):
            return {}, math.nan, math.nan
        rng = stream(self.call.seed, "permuted", "inequality", *where)
        replicates = [parts(p, self.index, **self.ask.params) for p in permuted_partitions(tally, PERMUTATIONS, rng)]
        if not replicates:
            return {}, math.nan, math.nan
        drawn = {name: np.concatenate([getattr(r, name) for r in replicates]) for name in WHOLE[1:]}
        count = int((drawn["between"] >= between * (1 - 1e-9)).sum())
        means = {name: float(values.mean()) for name, values in drawn.items()}
        noise = float(np.quantile(drawn["between"], self.how.level, method="higher"))
        return means, (1 + count) / (1 + PERMUTATIONS), noise

    @property
    def _direction(self) -> dict[str, Any]:
        return {"ideal": self.ask.ideal, "better": self.ask.better}

    def _figures(self, tally: Partition, split: Parts, values: Mapping[str, Any], where: Label) -> dict[str, Estimates]:
        """Percentile bootstrap over units, for `bootstrap` never shorter than Student's t.

        Wide tallies are drawn on bins. Normal with the linearised error on request, or where the bins are too many.
        """
        if self.how.kind == "none" or tally.reason():
            return blank({n: values[n] for n in METRICS})
        if len(tally) * len(tally.values) > MOST_CELLS:
            raise EvenhandError(
                f"{len(tally):,} groups over {len(tally.values):,} amounts are too many for intervals. Pass interval=None, or merge "
                "the smallest groups first."
            )
        chosen = self._drawn(tally)
        drawable = tally.binned() if len(tally.values) > BINNED else tally
        if self.how.kind == "normal" or len(drawable.values) > WIDE:
            return self._linearised(tally, split, chosen)

        rng = stream(self.call.seed, "decompose", "inequality", *where)
        draws = bootstrap_draws(drawable, self._drawn, self.how.draws, rng)
        drawn = ends_of_draws(draws, chosen, self.how, round(float(drawable.counts.sum())))
        if self.how.kind == "percentile":
            return drawn
        least = self._linearised(tally, split, chosen)
        return {n: ends.reaching(least[n].low, least[n].high) for n, ends in drawn.items()}

    def _drawn(self, tally: Partition) -> dict[str, Any]:
        """The figures that need all groups: parts and shares, not the total or the index of a group."""
        split = parts(tally, self.index, **self.ask.params)
        names = [n for n in METRICS if n not in ("total", "index") and (self.index == "gini" or n != "overlap")]
        return {n: getattr(split, n) for n in names}

    def _linearised(self, tally: Partition, split: Parts, chosen: Mapping[str, Any]) -> dict[str, Estimates]:
        moves: dict[str, Any] = parts_influence(tally, split, self.index, **self.ask.params)
        in_group = np.arange(len(tally))[:, None] == tally.cell_group
        mean = float(tally.pooled.total / tally.pooled.size)
        moves["population_share"] = in_group.astype(np.float64)
        moves["share"] = (in_group - split.share[:, None]) * tally.values / mean
        spans = {n: SHARES if "share" in n else self.ask.span for n in chosen}
        if "between" in spans:  # near zero, where noise alone puts it, a logit or log scale has no end
            spans["between"] = ANYTHING
        units = Spectrum(tally.values, tally.counts, tally.weights)
        return linearised_ends(units, {n: moves[n] for n in chosen}, chosen, spans, self.how.level)


def _claims(rows: Sequence[Row], by: Sequence[str], words: Mapping[str, str]) -> Iterator[Candidate]:
    """Whether groups differ, by what lies between them."""
    groups = plural(words["group"])
    for r in rows:
        if r["metric"] == "between" and not math.isnan(r.get("p", math.nan)):
            where = {name: r[name] for name in by}
            lead = f"For {', '.join(map(str, where.values()))}, " if where else ""
            text = f"{groups} differ in {words['amount']}"
            otherwise = f"no significant difference between {groups}"
            yield Candidate(r["p"], "differs", lead + text, lead + otherwise, "between", None, where)


def _less_noise(figures: Mapping[str, Estimates], noise: float, power: int) -> dict[str, Estimates]:
    """Ends of the parts that noise moves: what lies between groups is above zero where groups are alike.

    The lower end of `between` is zero where a permutation test at this level does not tell groups apart, and hardly moves
    where it does by far: noise adds in squares to a Gini index, as it is (`power` 1) to indices that are squares themselves.
    What lies between groups by noise alone overlaps.
    """
    between = float(figures["between"].estimate)
    low = np.asarray(max(0.0, between**power - noise**power) ** (1 / power))
    moved = {"between": figures["between"].reaching(low, low)}
    if "overlap" in figures:
        high = figures["overlap"].high
        moved["overlap"] = figures["overlap"].reaching(high, high + between - low)
    return moved


def _interval_words(how: Interval) -> str:
    if how.kind in ("none", "normal"):
        return {"none": "none", "normal": "normal, with the linearised error"}[how.kind]
    return f"{how.kind} over units, {how.draws:,} draws; normal with the linearised error where amounts are very many"
