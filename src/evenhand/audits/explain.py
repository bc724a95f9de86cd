"""Who changed it? A change of inequality split over entry and exit, sources and groups, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.audits.declare import Call, Count, Label, Level, Population, Seed, Table, audit, log
from evenhand.audits.min_units import enough, hidden, suppressed
from evenhand.cards import Between, Floats, MetricSpec, needing, parse_metric
from evenhand.claims import Candidate, direction_of
from evenhand.errors import EvenhandError, listing, plural
from evenhand.findings import Row, label, notes, row
from evenhand.intervals.experiments import Contrast, paired_contrast, units_contrast
from evenhand.intervals.kinds import MIN_UNITS, holm, t_quantile
from evenhand.intervals.parts import Split, measured_parts
from evenhand.labels import stream
from evenhand.metrics.decomposition import Worlds, amounts_of_sources, amounts_of_units, largest_first, values_without
from evenhand.report.words.phrases import metric_title
from evenhand.results import Result, as_frame
from evenhand.sources.engine import Cells
from evenhand.sources.logs import Amount, NanPolicy, Units, units_of
from evenhand.sources.opening import open_table
from evenhand.tallies.paired_amounts import Changes, PairedAmounts, arms_of, has_shared_units, unit_ids
from evenhand.tallies.sources import refuse_shared_units
from evenhand.tallies.spectrum import Slices, Spectrum

EXTRA = ("control_value", "treatment", "p", "p_adjusted")
KINDS = ("entry", "exit", "stayed")
ROBUST = ("without_largest", "without_top_1%")
SMALL = {"source": "(small sources)", "group": "(small groups)"}
THINNED = 20
"""How often events are thinned, where units are few; a mean over fewer suffices for many."""

MOST_THINNED = 20_000_000
"""Units up to which the effect of volume is worked out: thinning takes them one by one."""

NO_MOVERS: dict[str, list[Any]] = {"unit": [], "before": [], "after": [], "effect": []}

MOST_ARMS = 200
"""Each arm is re-randomised against the control; more of them are ids that were taken for arms."""

Top = Annotated[int, Between(0, 10_000)]


@dataclass(frozen=True, repr=False)
class ExplainResult(Result):
    """A change and its parts; `.movers` lists the units that it goes with."""

    @property
    def movers(self) -> Any:
        """Units with the largest effects: id, amounts `before` and `after`, and `effect`, the part of the change that goes with the
        unit; empty under `min_units`.
        """
        return as_frame(self.findings.curves["movers"], self.backend)


@audit(
    "explain",
    question="Who changed it?",
    charts=("waterfall", "intervals"),
    extra=EXTRA,
    over="units",
    stands_for="The interval is for other {units} like these, seen both times.",
)
def explain(
    call: Call,
    table: Table,
    *,
    unit: str,
    amount: str | None,
    arm: str,
    population: Population,
    control: Label = None,
    source: str | None = None,
    group: str | None = None,
    metric: str = "gini",
    weight: str | None = None,
    top: Top = 10,
    interval: Literal["auto"] | None = "auto",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: NanPolicy = "raise",
) -> ExplainResult:
    """A change of inequality between two periods or arms of the same units, split over what made it.

    `change` = `volume` + `entry` + `exit` + `stayed` = `volume` + the sources = `volume` + the groups (column `part`). `volume` is
    what more events alone do to a metric of counts; the others are Shapley values: what a kind of unit, a source or a group
    adds when they switch to their later amounts in random order. `without_largest` and `without_top_1%` are the change
    without the units it goes with most.

    Parameters
    ----------
    table, unit, population, weight, nan_policy : as in `eh.inequality`.
    amount : column of amounts, or None to count rows.
    arm : column with the period or arm of each row; two of them.
    control : label of the earlier period or control arm (default: "control").
    source : column with the source of each amount, to split the change over.
    group : column with the group of each unit, to split the change over.
    metric : the metric of inequality whose change is explained.
    top : how many units `.movers` lists.
    interval : `"auto"` (bootstrap over units, studentised), or None.
    min_units : suppress parts that fewer units make, merge sources and groups with fewer, list no movers.

    Examples
    --------
    >>> import polars as pl
    >>> log = pl.DataFrame({"who": list("abcabc"), "month": ["may"] * 3 + ["june"] * 3, "sales": [1.5, 2.5, 3.0, 1.5, 2.5, 9.0]})
    >>> result = explain(log, unit="who", amount="sales", arm="month", control="may", population=None, interval=None)
    >>> result.frame["part"][0], round(result.frame["estimate"][0], 4), result.movers.row(0)[:3]
    ('change', 0.2418, ('c', 3.0, 9.0))
    """
    spec = parse_metric(metric, needing(Spectrum)).coarse(call.min_units)
    question = Question(call, spec, None if interval is None else level)
    _refuse_same_columns({"unit": unit, "arm": arm, "source": source, "group": group})
    columns = [unit, amount, arm, source, group, weight]
    table = open_table(table, columns=columns)  # read twice below: a stream can be read once
    read = question.units(table, None, marks=question.marks)
    codes, arms = arms_of(read.log)
    if len(arms) > 2:
        raise EvenhandError(
            f"arm={arm!r} has {len(arms):,} values: {listing(map(repr, arms))}. Pass the rows of two of them."
        )
    before = control_of(arms, control)
    sides = {"control": str(arms[before]), "arm": str(arms[1 - before])}
    codes = codes.select(["arm"]).with_column("code", [int(name != arms[before]) for (name,) in codes.labels(["arm"])])
    if not has_shared_units(read.log):
        explained = _of_different_units(question, table, population, sides)
    else:
        explained = _of_same_units(question, table, population, codes)
    words = {"unit": unit, "amount": amount or "rows", "source": source or "", "group": group or "", **sides}
    claims = list(_claims(explained, words))
    levels = {c.where["part"]: p for c, p in zip(claims, holm([c.p for c in claims]).tolist(), strict=True)}
    rows = [
        {**r, "p_adjusted": levels.get(r["part"], math.nan) if r["part"] in ("change", *ROBUST) else math.nan}
        for r in explained.rows
    ]
    return call.result(
        rows, claims=claims, backend=read.log.backend, read=read.log.rows,
        dropped=read.log.dropped, slices=("part",), words=words, facts=explained.facts, of=ExplainResult,
        curves={"movers": explained.movers},
    )  # fmt: skip


@dataclass(frozen=True)
class Question:
    """What is explained: the call, its metric, and the level of intervals, None where there are none."""

    call: Call
    spec: MetricSpec
    level: float | None

    @property
    def marks(self) -> dict[str, str]:
        return {role: self.call.arguments[role] for role in ("arm", "source") if self.call.arguments[role]}

    def units(self, table: Any, population: Any, **columns: Any) -> Units:
        roles = {role: self.call.arguments[role] for role in ("unit", "amount", "weight", "nan_policy")}
        return units_of(table, population=population, **roles, **columns)

    def row(self, part: str, **values: Any) -> Row:
        return row({"part": part}, self.spec.text, better=self.spec.better if part == "change" else "", **values)


Largest = tuple[str, str | None, float]
"""Part and group of the largest part of one way to split a change, and the p of its lead over the others."""


@dataclass(frozen=True)
class Explanation:
    """Rows of the frame, facts for the record, and the units that the change goes with."""

    rows: list[Row]
    facts: dict[str, Any]
    movers: dict[str, list[Any]]
    largest: Sequence[Largest] = ()


def control_of(arms: Sequence[Any], control: Any) -> int:
    """Which of the arms is the control: the one named, or the one that is called so."""
    if len(arms) < 2:
        raise EvenhandError(f"There is only one arm: {listing(map(repr, arms))}. Pass rows of two arms or more.")
    if len(arms) > MOST_ARMS:
        raise EvenhandError(
            f"There are {len(arms):,} arms, and at most {MOST_ARMS} are compared. Name the column with the arms."
        )
    name = "control" if control is None else control
    same = [i for i, a in enumerate(arms) if a == name or str(a) == str(name)]
    if not same:
        fact = "No arm is called 'control'" if control is None else f"control={control!r} is no arm"
        raise EvenhandError(f"{fact}. Name one as control: {listing(map(repr, arms))}.")
    return same[0]


def refuse_one_number(population: Any, arm: str | None) -> None:
    """Refuse one number of units where every arm has its own."""
    if isinstance(population, (int, np.integer)):
        raise EvenhandError(
            f"population={population!r} does not say how many units each arm has. Pass {{arm: number}}, a table of units "
            f"with the column {arm!r}, or None for those seen."
        )


def _refuse_same_columns(roles: Mapping[str, str | None]) -> None:
    named = [(role, column) for role, column in roles.items() if column is not None]
    for i, (role, column) in enumerate(named):
        for other, same in named[:i]:
            if column == same:
                raise EvenhandError(f"{role}={column!r} is also named as {other}. Name another column.")


def _of_same_units(question: Question, table: Any, population: Any, arms: Cells) -> Explanation:
    """Everything that can be said where units have both amounts."""
    call, group = question.call, question.call.arguments["group"]
    units = question.units(table, population, marks=question.marks, part=("group", group) if group else None)
    amount = units.log.amounts[0]
    if group:
        refuse_shared_units(units.log)
    log.info("adding up %s", amount.name or "rows")
    tally = units.padded(Changes.from_log(units.log, amount, arms))
    tally = replace(tally, groups=tuple((units.legend.name(units.by, g) or (None,))[0] for g in tally.groups))
    if units.log.broken(amount):
        facts = {"population": units.population_words}
        return Explanation([question.row("change", note="nan_in_data")], facts, NO_MOVERS)
    tally = _with_small_merged(tally, call.min_units)
    effects = _effects(tally.pairs, question.spec)
    whole, *robust = _contrast_rows(question, effects, tally.pairs)
    log.info("splitting the change")
    parts, largest, facts = _parts(question, tally, amount)
    top = call.arguments["top"]
    movers = NO_MOVERS if call.min_units > 1 else _movers(units, amount, arms, tally.pairs, effects, top)
    facts |= {"population": units.population_words, "interval": _interval_words(question)}
    rows = _with_few_hidden([whole, *parts, *robust], tally, question)
    hides = {r["part"] for r in rows if r["note"] == "suppressed"}
    return Explanation(rows, facts, movers, [x for x in largest if x[0] not in hides])


def _of_different_units(question: Question, table: Any, population: Any, sides: Mapping[str, str]) -> Explanation:
    """The change and what it rests on, where arms share no unit."""
    call, spec, arm = question.call, question.spec, question.call.arguments["arm"]
    refuse_one_number(population, arm)
    units = question.units(table, population, part=("arm", arm))
    slices = units.padded(Slices.per_slice(units.log, units.log.amounts[0]))
    spectra = {str(name): s for (name,), s in zip(slices.labels, slices.spectra.separate(), strict=True)}
    arms, effects = [], []
    for sign, s in ((1, spectra[sides["arm"]]), (-1, spectra[sides["control"]])):
        arms.append(PairedAmounts(s.values, np.zeros(len(s.values)), s.counts, s.weights))
        effects.append(sign * (float(spec.on(s)) - values_without(s.values, s.counts, s.weights, spec)))
    rows = _contrast_rows(question, np.concatenate(effects), *arms)
    facts = {
        "population": units.population_words, "interval": _interval_words(question),
        "arms": "they share no unit: eh.experiment with randomized= compares them",
    }  # fmt: skip
    few = min(s.receivers for s in spectra.values()) < enough(call.min_units, [spec], arms=2)
    rows = [_suppressed(r) if few or _leaves_out_few(r, call) else r for r in rows]
    return Explanation(rows, facts, NO_MOVERS)


def _contrast_rows(question: Question, effects: Floats, *tallies: PairedAmounts) -> list[Row]:
    """The change of pairs of amounts, or between two arms: as a whole, then without the units with the largest effects."""
    compare: Callable[..., Contrast] = paired_contrast if len(tallies) == 1 else units_contrast
    counts = np.concatenate([t.counts for t in tallies])
    rows = []
    for part, number in (("change", 0), (ROBUST[0], 1), (ROBUST[1], math.ceil(sum(t.units for t in tallies) / 100))):
        fewer = counts.copy()
        for cell, many in largest_first(effects, counts, number):
            fewer[cell] -= many
        split = np.split(fewer, [len(tallies[0].counts)][: len(tallies) - 1])
        compared = [replace(t, counts=c) for t, c in zip(tallies, split, strict=True)]
        rng = stream(question.call.seed, "explain", "change")
        contrast = compare(*compared, [question.spec], draws=999, level=question.level, rng=rng)
        rows.append(_contrast_row(question, part, contrast, compared, number))
    return rows


def _contrast_row(
    question: Question, part: str, contrast: Contrast, tallies: Sequence[PairedAmounts], number: int
) -> Row:
    spectra = [t.sides[0].spectrum(t.counts) for t in tallies]
    if len(tallies) == 1:
        spectra.append(tallies[0].sides[1].spectrum(tallies[0].counts))
    undefined = [s for s in spectra if math.isnan(question.spec.on(s))]
    if undefined:
        return question.row(
            part, note=question.spec.card.reason(undefined[0], **question.spec.params), left_out=number, p=math.nan
        )
    estimate, low, high, p = (float(x[0]) for x in (contrast.raw, contrast.low, contrast.high, contrast.p))
    few = min(t.units for t in tallies) < MIN_UNITS
    note = "" if question.level is None or not math.isnan(low) else "few_units" if few else "no_variation"
    sides = {"treatment": contrast.treatment[0], "control_value": contrast.control[0]} if part == "change" else {}
    return question.row(
        part, estimate=estimate, low=min(low, estimate), high=max(high, estimate), p=p, ideal=0.0 if part == "change" else math.nan,
        units=round(sum(t.units for t in tallies)), note=notes(note), span=(-math.inf, math.inf), left_out=number,
        **{name: float(value) for name, value in sides.items()},
    )  # fmt: skip


def _effects(pairs: PairedAmounts, spec: MetricSpec) -> Floats:
    """(K,) of the change, what goes with one unit of each pair of amounts."""
    change = [float(spec.on(side.spectrum(pairs.counts))) for side in pairs.sides]
    without = [values_without(x, pairs.counts, pairs.weights, spec) for x in (pairs.first, pairs.second)]
    return (change[0] - change[1]) - (without[0] - without[1])


@dataclass(frozen=True)
class Way:
    """One way to split a change: `part` and `group` of the frame and units of each player, its worlds, and whose units are whose."""

    players: Sequence[tuple[str, str | None, int]]
    worlds: Worlds
    codes: Any

    def amounts(self, thinned: Changes, cells: Any) -> list[Floats]:
        """Amounts of every world; `cells` are the cells of the whole tally that those of the thinned one come from."""
        if self.codes is None:
            return amounts_of_sources(thinned, self.worlds)
        return amounts_of_units(thinned, self.codes[cells], self.worlds)


def _ways(question: Question, tally: Changes, rng: np.random.Generator) -> list[Way]:
    """By kind of unit, and by source and group where they are named."""

    def counted(codes: Any, players: int) -> tuple[int, ...]:
        received = (tally.totals[0] + tally.totals[1] > 0) * tally.counts
        return tuple(np.bincount(codes, received, players).round().astype(int).tolist())

    def players(part: str, names: Sequence[Any], units: Any) -> list[tuple[str, str | None, int]]:
        return [(part, label(name), int(n)) for name, n in zip(names, units, strict=True)]

    kinds = [(kind, None, n) for kind, n in zip(KINDS, counted(tally.kind, 3), strict=True)]
    ways = [Way(kinds, Worlds.between(3, rng), tally.kind)]
    if question.call.arguments["source"]:
        served = tally.counts @ ((tally.before + tally.after) > 0)
        ways.append(Way(players("source", tally.sources, served), Worlds.between(len(tally.sources), rng), None))
    if question.call.arguments["group"]:
        units, many = counted(tally.group, len(tally.groups)), len(tally.groups)
        ways.append(Way(players("group", tally.groups, units), Worlds.between(many, rng), tally.group))
    return ways


def _parts(question: Question, tally: Changes, amount: Amount) -> tuple[list[Row], list[Largest], dict[str, Any]]:
    """Rows of volume and of every way to split the rest, the largest part of each way, and facts for the record."""
    seed = question.call.seed
    ways = _ways(question, tally, stream(seed, "explain", "orders"))
    splits = _splits(tally, ways, amount, stream(seed, "explain", "thinned"))
    rng = stream(seed, "explain", "parts")
    sizes = np.array([len(way.players) for way in ways])
    point = measured_parts(splits, question.spec, None, rng).estimate
    leads = _leads(point[1:], ways)
    shares = [replace(s, shares=np.concatenate([s.shares, leads @ s.shares[1:]])) for s in splits]
    measured = measured_parts(shares, question.spec, question.level, rng)
    noise = _order_errors(splits, ways, question.spec)  # zero but for volume and parts of random orders
    reach = 0.0 if question.level is None else t_quantile(question.level, tally.counts.sum()) * noise
    low, high = measured.low[: len(noise)] - reach, measured.high[: len(noise)] + reach
    why = "" if not np.isnan(point).any() else "zero_total"
    few = None if question.level is None else "few_units"  # too few for the draws to say how far a part would move
    rows = []
    names = [
        ("volume", None, round(tally.counts.sum())),
        *(player for way in ways for player in way.players),
    ]
    for i, (part, group, units) in enumerate(names):
        if part == "volume" and not amount.integer:
            continue
        is_nothing = not units or (part == "volume" and not splits[0].shares[0].any())
        value, *ends = (0.0,) * 3 if is_nothing and not why else (float(x[i]) for x in (measured.estimate, low, high))
        rows.append(question.row(
            part, group=group, estimate=value, low=ends[0], high=ends[1],
            units=units, undefined_draws=int(measured.undefined[i]), p=math.nan,
            note=why or (few if math.isnan(ends[0]) else None), span=(-math.inf, math.inf), certain=is_nothing,
        ))  # fmt: skip
    largest = []
    by_way = np.split(point[1:], np.cumsum(sizes)[:-1])
    p_of_leads = np.split(measured.p[1 + sizes.sum() :], np.cumsum(sizes - 1)[:-1])
    for way, values, p in zip(ways, by_way, p_of_leads, strict=True):
        if len(values) > 1 and question.level is not None and not np.isnan(values).any():
            top = int(np.argmax(np.abs(values)))
            part, group, _ = way.players[top]
            largest.append((part, group, float(np.max(p))))
    walked = [w.players[0][0] for w in ways if w.worlds.steps is not None]
    orders = f"random, for {listing(walked)}: more than 12 players; standard error of a part at most {noise.max():.2g}"
    return rows, largest, {"orders": orders} if walked else {}


def _order_errors(splits: Sequence[Split], ways: Sequence[Way], spec: MetricSpec) -> Floats:
    """(parts,) standard errors because random orders stand for all of them; none for the volume."""
    errors, first = [np.zeros(1)], 2  # the two occasions come before the worlds of the ways
    for way in ways:
        worlds = slice(first, first + len(way.worlds.switched))
        if way.worlds.steps is None:
            errors.append(np.zeros(len(way.players)))
        else:
            values = [[float(spec.on(side.spectrum(s.counts))) for side in s.sides()[worlds]] for s in splits]
            errors.append(way.worlds.sampling_error(np.mean(values, axis=0)))
        first = worlds.stop
    return np.concatenate(errors)


def _leads(parts: Floats, ways: Sequence[Way]) -> Floats:
    """(comparisons, parts) of the size of the largest part of each way over that of each of the others."""
    from scipy.linalg import block_diag

    blocks = []
    for of_way in np.split(np.nan_to_num(parts), np.cumsum([len(way.players) for way in ways])[:-1]):
        top, signs = int(np.argmax(np.abs(of_way))), np.sign(of_way)
        lead = -np.diag(signs)
        lead[:, top] = signs[top] or 1.0
        blocks.append(np.delete(lead, top, axis=0))
    return np.asarray(block_diag(*blocks))


def _splits(tally: Changes, ways: Sequence[Way], amount: Amount, rng: np.random.Generator) -> list[Split]:
    """Worlds of every way; of counts, with the larger occasion thinned to the smaller one.

    The first part is the volume: the change less that between the thinned occasions.
    """
    from scipy.linalg import block_diag

    mass = tally.counts if tally.weights is None else tally.counts * tally.weights
    totals = [float((x * mass).sum()) for x in tally.totals]
    thins = amount.integer and min(totals) > 0 and totals[0] != totals[1] and tally.counts.sum() <= MOST_THINNED
    shares_left = (min(1.0, totals[1] / totals[0]), min(1.0, totals[0] / totals[1])) if thins else (1.0, 1.0)
    many = max(1, min(THINNED, int(2_000_000 // max(1.0, tally.counts.sum())))) if thins else 1
    shares = np.pad(block_diag(*(way.worlds.shares for way in ways)), ((1, 0), (2, 0)))
    if thins:
        shares[0, [1, 2]], shares[0, [0, 1 + len(ways[0].worlds.switched)]] = 1.0, -1.0
    splits = []
    for _ in range(many):
        whole, thinned, cells = (
            tally.thinned(shares_left, rng) if thins else (tally, tally, np.arange(len(tally.counts)))
        )
        amounts = [*whole.totals, *(amounts for way in ways for amounts in way.amounts(thinned, cells))]
        splits.append(Split(amounts, shares, whole.counts, whole.weights))
    return splits


def _with_small_merged(tally: Changes, fewest: int) -> Changes:
    """Sources and groups that fewer units received anything in, taken together."""
    if fewest <= 1:
        return tally
    received = (tally.before + tally.after) > 0
    sizes = {
        "source": tally.counts @ received,
        "group": np.bincount(tally.group, tally.counts * received.any(1), len(tally.groups)),
    }
    codes, names = {}, {}
    for role, labels in (("source", tally.sources), ("group", tally.groups)):
        small = hidden(sizes[role].tolist(), fewest) if len(labels) > 1 else [False]
        shown = [name for name, hide in zip(labels, small, strict=True) if not hide]
        names[role] = [*shown, SMALL[role]] if any(small) else shown
        codes[role] = np.array(
            [len(shown) if hide else shown.index(name) for name, hide in zip(labels, small, strict=True)]
        )
    return tally.merged(codes["source"], names["source"], codes["group"], names["group"])


def _with_few_hidden(rows: list[Row], tally: Changes, question: Question) -> list[Row]:
    """Rows about fewer than `min_units`, and those that would give them away, suppressed."""
    call = question.call
    fewest = enough(call.min_units, [question.spec], arms=2)
    if fewest <= 1:
        return rows
    receivers = min(float(tally.counts @ (x > 0)) for x in tally.totals)
    kinds = np.bincount(tally.kind, tally.counts, 3)
    few_kinds = bool(((kinds > 0) & (kinds < fewest)).any())
    return [
        _suppressed(r) if receivers < fewest or (few_kinds and r["part"] in KINDS) or _leaves_out_few(r, call) else r
        for r in rows
    ]


def _leaves_out_few(r: Row, call: Call) -> bool:
    """Whether a row is the change without so few units that it tells of them."""
    return call.min_units > 1 and r["part"] in ROBUST and r["left_out"] < call.min_units


def _suppressed(r: Row) -> Row:
    return suppressed(r) | dict.fromkeys(EXTRA, math.nan)


def _movers(
    units: Units, amount: Amount, arms: Cells, pairs: PairedAmounts, effects: Floats, top: int
) -> dict[str, list[Any]]:
    chosen = [cell for cell, _ in largest_first(effects, pairs.counts, top)] if not np.isnan(effects).all() else []
    if not chosen or top == 0:
        return NO_MOVERS
    ids = unit_ids(units.log, amount, arms, pairs.first[chosen], pairs.second[chosen], top)
    number = int if amount.integer else float
    by_place = [
        (name, number(before), number(after), float(effects[chosen[place]])) for name, before, after, place in ids
    ]
    return {column: [r[i] for r in by_place] for i, column in enumerate(NO_MOVERS)}


def _claims(explained: Explanation, words: Mapping[str, str]) -> Iterator[Candidate]:
    """Whether there is a change, whether it is there without the units it goes with most, and which part is the largest.

    Who is left out, who entered and who left was chosen by the data: nothing is claimed of them unless the change itself is.
    """
    rows = {
        r["part"]: r
        for r in explained.rows
        if r["part"] in ("change", *ROBUST) and not math.isnan(r.get("p", math.nan))
    }
    if "change" not in rows:
        return
    title = metric_title(rows["change"]["metric"])
    units, least = plural(words["unit"]), float(rows["change"]["p"])
    without = {
        "change": "",
        ROBUST[0]: f" without its largest {words['unit']}",
        ROBUST[1]: f" without the largest 1% of {units}",
    }
    for part, r in rows.items():
        side = "higher" if r["estimate"] > 0 else "lower"
        text = f"{title} is {side} in {words['arm']} than in {words['control']}{without[part]}"
        otherwise = (
            f"{title} does not differ significantly between {words['control']} and {words['arm']}{without[part]}"
        )
        yield Candidate(
            max(least, r["p"]), direction_of(r["estimate"]), text, otherwise, r["metric"], None, {"part": part}
        )
    kinds = {"entry": f"{units} that entered", "exit": f"{units} that left", "stayed": f"{units} that stayed"}
    for part, group, p in explained.largest:
        name = kinds.get(part) or f"{words[part]} {group}"
        whose = "kind of unit" if part in KINDS else words[part]
        text = f"the largest part comes from {name}"
        yield Candidate(p, "most", text, f"no {whose} stands out", rows["change"]["metric"], group, {"part": part})


def _interval_words(question: Question) -> str:
    return "none" if question.level is None else "bootstrap over units, each with both of its amounts, studentised"
