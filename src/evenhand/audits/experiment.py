"""Did a change make it more even? Arms of an experiment, or two periods, compared by what was randomised."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.declare import (
    By,
    Call,
    Columns,
    Count,
    Label,
    Level,
    Metrics,
    Population,
    Seed,
    Table,
    Takes,
    audit,
    log,
    pairs,
    refuse_many_slices,
)
from evenhand.audits.explain import KINDS, control_of, explain, refuse_one_number
from evenhand.audits.inequality import METRICS
from evenhand.audits.min_units import enough, suppressed
from evenhand.cards import Between, Floats, MetricSpec, needing, parse_metrics
from evenhand.errors import EvenhandError, listing, plural
from evenhand.findings import Points, Row, join_points, notes, row
from evenhand.intervals.experiments import (
    GRID,
    Contrast,
    contrast,
    detectable,
    paired_contrast,
    sample_ratio,
    undefined_contrast,
    units_contrast,
    volume_ratio,
    with_volume_effect,
)
from evenhand.intervals.jackknife import influence_of_units
from evenhand.intervals.kinds import FEW_UNITS, MIN_UNITS, ROUNDING, holm
from evenhand.intervals.spectra import cautions
from evenhand.labels import stream
from evenhand.metrics.outcome import POWER
from evenhand.results import Result, as_frame, difference_claims
from evenhand.sources.logs import Amount, Log, NanPolicy, Units, units_of
from evenhand.sources.opening import open_table
from evenhand.sources.relation import comparable, slicing
from evenhand.tallies.buckets import Assignment, Buckets, BucketSlices
from evenhand.tallies.paired_amounts import PairedAmounts, PairedSlices, arms_of, refuse_several_arms
from evenhand.tallies.spectrum import Label as SliceLabel
from evenhand.tallies.spectrum import Slices, Spectra, Spectrum


@dataclass(frozen=True)
class ExperimentSpec:
    """Arguments of an experiment, shared by all designs."""

    table: Any
    unit: str
    amount: Any
    arm: str | None
    randomized: str | None
    population: Any
    control: Any
    by: Any
    weight: str | None
    before: Any
    shares: Mapping[Any, float] | None
    equal: Literal["units", "amount"]
    metrics: Sequence[MetricSpec]
    draws: int
    level: float | None
    seed: int
    nan_policy: NanPolicy

    @property
    def amount_columns(self) -> tuple[str, ...]:
        """The column of the frame that names the amount, where there are several."""
        return ("amount",) if self.amount is not None and not isinstance(self.amount, str) else ()

    def units(self, marks: Mapping[str, str], part: tuple[str, str] | None = None) -> Units:
        return units_of(
            self.table, unit=self.unit, amount=self.amount, population=self.population, by=self.by, weight=self.weight,
            nan_policy=self.nan_policy, marks=marks, part=part,
        )  # fmt: skip

    def past(self, marks: Mapping[str, str], now: Log) -> Units | None:
        """The log from before the change, beside that of the experiment: whoever was seen in it."""
        if self.before is None:
            return None
        try:
            return units_of(
                self.before, unit=self.unit, amount=self.amount, population=None, by=self.by, nan_policy=self.nan_policy,
                marks=marks, joined_with=now,
            )  # fmt: skip
        except EvenhandError as error:
            raise EvenhandError(f"In before: {error}") from error

    def assignment(self, units: Units) -> Assignment:
        """Buckets of what was randomised, at random within each arm."""
        log.info("putting %s into buckets", self.randomized)
        rng = stream(self.seed, "buckets")
        return Assignment.from_log(units.log, randomized=str(self.randomized), arm=self.arm, rng=rng)

    def cells(self, units: Units, label: SliceLabel, amount: Amount) -> dict[str, Any]:
        cells = units.cells(units.names([label])[0])
        return cells | dict.fromkeys(self.amount_columns, amount.name)

    def rng(self, amount: Amount, arm: Any, label: SliceLabel) -> np.random.Generator:
        return stream(self.seed, "experiment", amount.name, arm, *label)


@dataclass(frozen=True)
class Comparison:
    """One arm against control in one slice: `sides` are the spectra of the two, `units` and `smaller` their randomised units.

    `volume_ratio` is the volume per randomised unit over that of control, `changed` whether it differs by more than chance.
    """

    labels: dict[str, Any]
    arm: Any
    contrast: Contrast
    sides: tuple[Spectrum, Spectrum]
    units: int
    smaller: int
    volume_ratio: float
    broken: bool
    changed: bool = False
    reassigned: bool = True
    caution: str = ""

    def few(self, fewest: int) -> bool:
        """Whether an arm has fewer randomised units, or fewer units that received anything."""
        return fewest > 1 and min(self.smaller, *(side.receivers for side in self.sides)) < fewest


@dataclass(frozen=True)
class Trial:
    """Everything compared, and what a reader should know about the design."""

    units: Units
    compared: list[Comparison]
    design: str
    interval: str
    control: Any
    sizes: Mapping[str, int]
    ratio: Mapping[str, Any] | None = None
    past: Units | None = None


def viewers_randomized(spec: ExperimentSpec) -> Trial:
    """Another column than the unit was randomised: all arms hold the same units."""
    units = spec.units({"arm": str(spec.arm), "randomized": str(spec.randomized)})
    deal = spec.assignment(units)
    control = control_of(deal.arms, spec.control)
    before = spec.past({"randomized": str(spec.randomized)}, units.log)
    compared: list[Comparison] = []
    for i, amount in enumerate(units.log.amounts):
        slices = bucket_slices(units, amount, deal)
        past = _past_buckets(before, units, i, deal, slices) if before else {}
        for label, tally in in_order(units, slices):
            sizes = deal.units(label)
            for arm, name in enumerate(deal.arms):
                if arm == control:
                    continue
                effect = undefined_contrast(spec.metrics) if not (sizes[arm] and sizes[control]) else contrast(
                    tally, spec.metrics, arm=arm, control=control, draws=spec.draws, level=spec.level, equal=spec.equal,
                    rng=spec.rng(amount, name, label), before=past.get(label),
                )  # fmt: skip
                ratio, error = volume_ratio(tally, arm, control)
                compared.append(Comparison(
                    spec.cells(units, label, amount), name, effect,
                    (tally.only(tally.arms == arm).whole(), tally.only(tally.arms == control).whole()),
                    int(sizes[arm] + sizes[control]), int(min(sizes[arm], sizes[control])), ratio, label in slices.broken,
                    changed=bool(ratio > 0 and abs(np.log(ratio)) > 2 * error),  # by more than two standard errors
                ))  # fmt: skip
    totals = {str(a): int(n) for a, n in zip(deal.arms, deal.totals(), strict=True)}
    words = f"leaving out buckets of {spec.randomized} (delete-d jackknife) at the volume compared, t quantiles"
    return Trial(
        units, compared, "another column randomised", words, deal.arms[control], totals, ratio_of(totals, spec.shares), before
    )  # fmt: skip


def units_randomized(spec: ExperimentSpec) -> Trial:
    """The unit itself was randomised: arms hold different units."""
    refuse_one_number(spec.population, spec.arm)
    units = spec.units({}, part=("arm", str(spec.arm)))
    refuse_several_arms(units.log, f"by_{len(units.by) - 1}")
    before, nobody = spec.past({}, units.log), PairedAmounts.from_arrays([])
    compared: list[Comparison] = []
    sizes: dict[str, int] = {}
    control: Any = None
    for i, amount in enumerate(units.log.amounts):
        log.info("adding up %s", amount.name or "rows")
        slices = _arms_of_units(units, amount, before, i)
        tallies = dict(zip(slices.labels, slices.tallies, strict=True))
        arms = tuple(dict.fromkeys(label[-1] for label in slices.labels))
        control = arms[control_of(arms, spec.control)]
        sizes = {str(a): round(sum(t.units for k, t in tallies.items() if k[-1] == a)) for a in arms}
        refuse_many_slices("experiment", len(tallies) // len(arms))
        for label in dict.fromkeys(k[:-1] for k in tallies):
            for name in (name for name in arms if name != control):
                treated, other = (tallies.get((*label, arm), nobody) for arm in (name, control))
                effect = undefined_contrast(spec.metrics) if not (treated.units and other.units) else units_contrast(
                    treated, other, spec.metrics, draws=spec.draws, level=spec.level, rng=spec.rng(amount, name, label)
                )  # fmt: skip
                sides = treated.sides[0].spectrum(treated.counts), other.sides[0].spectrum(other.counts)
                means = [float(s.total) / max(1.0, float(s.units)) for s in sides]
                compared.append(Comparison(
                    spec.cells(units.whole(), label, amount), name, effect, sides, round(treated.units + other.units),
                    round(min(treated.units, other.units)), means[0] / means[1] if means[1] else np.nan,
                    bool({(*label, name), (*label, control)} & slices.broken),
                ))  # fmt: skip
    return Trial(
        units.whole(), compared, "units randomised", "re-assigning units, each difference over its own error", control,
        sizes, ratio_of(sizes, spec.shares), before,
    )  # fmt: skip


def paired(spec: ExperimentSpec) -> Trial:
    """Nothing was randomised: each unit is compared with itself."""
    units = spec.units({"arm": str(spec.arm)})
    codes, arms = arms_of(units.log)
    control = control_of(arms, spec.control)
    compared: list[Comparison] = []
    for amount in units.log.amounts:
        if spec.equal == "amount" and not amount.integer:
            raise EvenhandError(
                f"equal='amount' thins events, and amount={amount.name!r} holds fractions. Pass counts, or leave equal out."
            )
        for code, name in enumerate(arms):
            if code == control:
                continue
            log.info("pairing %s", amount.name or "rows")
            seen = PairedSlices.of_arms(units.log, amount, codes, code, control)
            slices = units.padded(seen)
            for label, tally in in_order(units, slices):
                rng = spec.rng(amount, name, label)
                effect = paired_contrast(tally, spec.metrics, draws=spec.draws, level=spec.level, rng=rng)
                if amount.integer:
                    effect = with_volume_effect(effect, tally, spec.metrics, equal=spec.equal == "amount", rng=rng)
                sides = tally.sides[0].spectrum(tally.counts), tally.sides[1].spectrum(tally.counts)
                totals = [float(s.total) for s in sides]
                compared.append(Comparison(
                    spec.cells(units, label, amount), name, effect, sides, round(tally.units), round(tally.units),
                    totals[0] / totals[1] if totals[1] else np.nan, label in slices.broken, reassigned=False,
                    caution=max(cautions(Spectra.from_spectra([*sides]))),  # a heavy tail before few receivers
                ))  # fmt: skip
    words = (
        "the wider of two, both studentised: the test by swaps of the two amounts within units, inverted, and a bootstrap over "
        "units, each with both of its amounts"
    )
    return Trial(units, compared, "nothing randomised", words, arms[control], {})


def ratio_of(sizes: Mapping[str, int], shares: Mapping[Any, float] | None) -> dict[str, Any] | None:
    """The split found beside the one intended, and how likely it is."""
    if shares is None:
        return None
    intended = {str(k): float(v) for k, v in shares.items()}
    if intended.keys() != sizes.keys():
        raise EvenhandError(
            f"shares names the arms {listing(sorted(intended))}, and the table has {listing(sorted(sizes))}. Give each arm its share."
        )
    refuse_shares(intended)
    p = sample_ratio(list(sizes.values()), [intended[k] for k in sizes])
    return {"intended": intended, "found": dict(sizes), "p": p}


def refuse_shares(shares: Mapping[str, float]) -> None:
    if any(not 0 < v <= 1 for v in shares.values()) or sum(shares.values()) > 1 + 1e-9:
        raise EvenhandError(f"shares={dict(shares)} are not shares. Pass numbers above 0 that add up to 1 or less.")


def _arms_of_units(units: Units, amount: Amount, before: Units | None, i: int) -> PairedSlices:
    """Units of every slice and arm, with what they received before where that is known."""
    if before is None:
        slices = units.padded(Slices.per_slice(units.log, amount))
        spectra = slices.spectra.separate()
        tallies = tuple(PairedAmounts(s.values, np.zeros(len(s.values)), s.counts, s.weights) for s in spectra)
        return PairedSlices(slices.labels, tallies, slices.broken)
    ids = comparable(before.log.types["unit"], units.log.types["unit"], column="unit", role="before", other="the table")
    seen = PairedSlices.with_past(units.log, amount, before.log, before.log.amounts[i], ids)
    return units.padded(seen)


def _past_buckets(
    before: Units, during: Units, i: int, deal: Assignment, now: BucketSlices
) -> dict[SliceLabel, Buckets]:
    """Buckets of the past, per slice, over as many units as the experiment has."""
    types = [units.log.types["randomized"] for units in (before, during)]
    ids = comparable(*types, column="randomized", role="before", other="the table")
    past = BucketSlices.per_slice(before.log, before.log.amounts[i], deal, ids)
    units = dict(zip(now.labels, (t.units for t in now.tallies), strict=True))
    return {
        label: replace(tally, unseen=max(0.0, units[label] - tally.units))
        for label, tally in zip(past.labels, past.tallies, strict=True)
        if label in units
    }


def bucket_slices(units: Units, amount: Amount, deal: Assignment) -> BucketSlices:
    """An amount by bucket and slice, with the units of the population that nobody saw."""
    log.info("adding up %s by bucket", amount.name or "rows")
    seen = BucketSlices.per_slice(units.log, amount, deal)
    return units.padded(seen)


def in_order(units: Units, slices: Any) -> Iterator[tuple[SliceLabel, Any]]:
    refuse_many_slices("experiment", len(slices.labels))
    for i in units.order(slices.labels):
        yield slices.labels[i], slices.tallies[i]


EXTRA = ("treatment", "control_value", "raw", "volume_ratio", "p", "p_adjusted", "detectable")


def rows_of(compared: Sequence[Comparison], spec: ExperimentSpec, ratio_p: float, fewest: int) -> list[Row]:
    rows = [
        _row(c, a, i, _note(c, a, i, ratio_p, spec.level), fewest) for c in compared for i, a in enumerate(spec.metrics)
    ]
    adjusted = holm([r["p"] for r in rows])
    return [{**r, "p_adjusted": float(p)} for r, p in zip(rows, adjusted, strict=True)]


def _row(c: Comparison, a: MetricSpec, i: int, note: str | None, fewest: int) -> Row:
    effect = c.contrast
    numbers = {
        "estimate": effect.estimate, "low": effect.low, "high": effect.high, "chance": effect.chance,
        "treatment": effect.treatment, "control_value": effect.control, "raw": effect.raw, "p": effect.p,
    }  # fmt: skip
    values = {name: float(x[i]) for name, x in numbers.items()} | {"volume_ratio": c.volume_ratio}
    if c.broken:
        values, note = dict.fromkeys(values, math.nan), "nan_in_data"
    cells = row(
        {**c.labels, "arm": c.arm}, a.text, ideal=0.0, better=a.better, units=c.units, note=note, detectable=math.nan,
        undefined_draws=int(effect.undefined[i]), **values,
    )  # fmt: skip
    if c.few(fewest):
        return suppressed(cells) | dict.fromkeys(EXTRA[:5], math.nan)
    return cells | ({"influence": max(influence_of_units(side, [a])[0] for side in c.sides)} if fewest > 1 else {})


def _note(c: Comparison, a: MetricSpec, i: int, ratio_p: float, level: float | None) -> str | None:
    """Why there is no value, or no interval at this level; and what to be careful of."""
    if math.isnan(c.contrast.estimate[i]):
        undefined = [s for s in c.sides if np.isnan(a.on(s))]
        return a.card.reason(undefined[0], **a.params) if undefined else "undefined"
    has_no_interval = math.isnan(c.contrast.low[i]) and level is not None
    few = c.smaller < (MIN_UNITS if c.reassigned else max(FEW_UNITS, a.interval_units))
    return notes(
        "few_units" if few and level is not None else "no_variation" if has_no_interval else "",
        c.caution if level is not None else "",
        "sample_ratio_mismatch" if ratio_p < 0.001 else "",
        "volume_changed" if c.changed else "",
    )


def curves_of(compared: Sequence[Comparison], spec: ExperimentSpec, fewest: int) -> dict[str, Any]:
    """Lorenz curves of arms at equal volume, and histograms of re-assigned differences."""
    shown = [c for c in compared if not c.few(fewest) and not c.broken][:40]  # as many as a chart can show
    lorenz, moved = [], []
    for c in shown:
        labels = {**c.labels, "arm": c.arm}
        for side, curve in zip(("arm", "control"), c.contrast.curves or (), strict=False):
            if not np.isnan(curve).any():
                at = _grid_points(c, fewest)
                lorenz.append((labels | {"side": side}, {"population": GRID[at].tolist(), "share": curve[at].tolist()}))
        if not c.reassigned:
            continue
        for i, a in enumerate(spec.metrics):
            draws = c.contrast.draws[:, i]
            draws = draws[~np.isnan(draws)]
            varies = len(draws) and np.ptp(draws) > ROUNDING * np.abs(draws).max()
            if varies and not math.isnan(c.contrast.observed[i]):
                counts, edges = np.histogram(draws, bins=41)
                where = {"metric": a.text, "found": float(c.contrast.observed[i]), "chance": float(draws.mean())}
                points = {"low": edges[:-1].tolist(), "high": edges[1:].tolist(), "draws": counts.tolist()}
                moved.append((labels | where, points))
    return {name: join_points(parts) for name, parts in (("arms", lorenz), ("reassigned", moved)) if parts}


def _grid_points(c: Comparison, fewest: int) -> list[int]:
    """Points of the grid with at least `fewest` receivers between any two, in either arm."""
    if fewest <= 1:
        return list(range(len(GRID)))
    reached = np.min([np.maximum(0.0, GRID * s.units - (s.units - s.receivers)) for s in c.sides], axis=0)
    points, last = [0], 0.0
    for i in range(1, len(GRID) - 1):
        if reached[i] == 0 or (reached[i] - last >= fewest and reached[-1] - reached[i] >= fewest):
            points, last = [*points, i], float(reached[i])
    return [*points, len(GRID) - 1]


MOST_EXPLAINED = 1_000_000
"""Rows up to which a change is split into parts beside its test: some seconds."""

Draws = Annotated[int, Between(99, 100_000)]
Shares = Annotated[
    Mapping[Any, float] | None, Takes("ARM=SHARE,...", read=lambda words: pairs("shares", words[-1], float))
]

HOW_TO_CHOOSE = (
    "Pass the column whose values were assigned to arms at random: viewers, requests or sessions, or the unit itself. "
    "Pass None if nothing was (two periods, two sources): the same units are then compared with themselves."
)


@dataclass(frozen=True, repr=False)
class ExperimentResult(Result):
    """Arms against control; `.detectable` says what a planned experiment could find."""

    @property
    def detectable(self) -> Any:
        """The smallest difference that is found with 80% power, by metric and number of randomised units (`arm=None`)."""
        planned = self.findings.curves.get("detectable")
        if not planned:
            raise EvenhandError(
                "This result compares arms, and plans none. Call eh.experiment(..., arm=None) on a log without a change."
            )
        return as_frame(planned, self.backend, self.findings.slices)


STANDS_FOR = {
    viewers_randomized: "The interval is for other {randomized} like these, put into arms in the same way and shown these same "
    "{units}: how far the effect would move had others come. It is not for other {units}.",
    units_randomized: "The interval is for other {units} like these, put into arms in the same way: how far the effect would move "
    "had others been drawn.",
    paired: "The interval is for other {units} like these, seen both times: how far the change would move had others been drawn. "
    "It does not say what caused the change.",
}


@audit(
    "experiment",
    question="Did the change make it more even?",
    charts=("arms", "reassigned", "detectable", "intervals"),
    extra=EXTRA,
)
def experiment(
    call: Call,
    table: Table,
    *,
    unit: str,
    amount: Columns = None,
    arm: str | None,
    randomized: str | None,
    population: Population,
    control: Label = None,
    by: By = None,
    weight: str | None = None,
    before: Table = None,
    shares: Shares = None,
    equal: Literal["units", "amount"] = "units",
    metrics: Metrics = METRICS,
    draws: Draws = 999,
    interval: Literal["auto", "jackknife"] | None = "auto",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: NanPolicy = "raise",
) -> ExperimentResult:
    """Difference in inequality between arms at equal volume, with interval and p; or what a planned test could find.

    Parameters
    ----------
    table : as in `eh.inequality`: a log of who received what, with the arm of every row.
    unit : column with the id of who receives (an author, a seller).
    amount : as in `eh.inequality`.
    arm : column with the arm of each row; None plans a test from a log without a change.
    randomized : column whose values were randomly assigned to arms: viewers, requests, sessions, or the unit itself;
        None if nothing was randomised (two periods, two sources), and each unit is compared with itself.
    population : as in `eh.inequality`, the same for every arm; if units were randomised, a table with the arm column
        or `{arm: number}`.
    control : label of the control arm, which the others are compared with (default: "control").
    by, weight : as in `eh.inequality`.
    before : the same log from before the change; adjusting for it (as CUPED does) narrows the interval.
    shares : the intended split, `{arm: share}`: tested against the observed split, or used to plan a test (default:
        equal).
    equal : what to equalise before arms are compared: the number of randomised `"units"`, or the total `"amount"`.
    draws : re-assignments (or resamples) for the test; more if they are cheap.
    interval : `"auto"`, `"jackknife"` (over buckets of what was randomised), or None.
    min_units : suppress arms with fewer randomised units, or fewer units that received anything.
    nan_policy : as in `eh.inequality`.

    Examples
    --------
    >>> import polars as pl
    >>> log = pl.DataFrame({"author": ["a", "b"] * 20, "viewer": [v for v in range(20) for _ in "ab"],
    ...     "arm": ["control"] * 20 + ["new"] * 20, "views": [3, 1] * 10 + [2, 2] * 10})
    >>> found = experiment(log, unit="author", amount="views", arm="arm", randomized="viewer", population=None, metrics="gini", rng=1)
    >>> found.frame.select("arm", "estimate", "treatment", "control_value", "p").row(0)
    ('new', -0.25, 0.0, 0.25, 0.001)
    """
    measured = [a.coarse(call.min_units) for a in parse_metrics(metrics, needing(Spectrum))]
    arguments = {**call.arguments, "metrics": measured, "level": None if interval is None else level, "seed": call.seed}
    spec = ExperimentSpec(**{f.name: arguments[f.name] for f in fields(ExperimentSpec)})
    _refuse(spec, interval)
    return _plan(call, spec, level) if arm is None else _compare_arms(call, spec)


def _compare_arms(call: Call, spec: ExperimentSpec) -> ExperimentResult:
    """Every arm against control, by the design that fits what was randomised."""
    unit, amount, randomized, has_interval = spec.unit, spec.amount, spec.randomized, spec.level is not None
    design = paired if randomized is None else units_randomized if randomized == unit else viewers_randomized
    is_single = design is paired and spec.by is None and not spec.amount_columns
    if is_single:  # explained below: a stream can be read once
        spec = replace(spec, table=open_table(spec.table, columns=[unit, amount, spec.arm, spec.weight]))
    trial = design(spec)
    past, ratio = trial.past, trial.ratio
    fewest = enough(call.min_units, spec.metrics, arms=2)
    meant = STANDS_FOR[design].format(units=plural(unit), randomized=plural(randomized or "")) if has_interval else None
    facts = {
        "design": trial.design, "randomized": randomized, "control": trial.control,
        "interval": trial.interval if has_interval else "none", "interval_for": meant,
        "population": trial.units.population_words, "p_adjusted": "Holm over all rows",
        "before": past.log.origin if past else None, "power": POWER,
    }  # fmt: skip
    words = {
        "unit": unit, "amount": amount if isinstance(amount, str) else "rows" if amount is None else "amounts",
        "randomized": randomized or "", "counted": randomized or unit, "control": str(trial.control),
        "chance": "what unequal volume alone gives" if randomized != unit else "what unequal numbers of units alone give",
    }  # fmt: skip
    rows = rows_of(trial.compared, spec, float(ratio["p"]) if ratio else 1.0, fewest)
    curves = curves_of(trial.compared, spec, fewest)
    if is_single and len(trial.compared) == 1 and trial.units.log.rows <= MOST_EXPLAINED:
        curves["parts"] = _parts_of_change(call, spec)
    slices = (*trial.units.by, *spec.amount_columns, "arm")
    return _result(
        call, spec, trial.units, rows, claims=difference_claims(rows, slices, lambda r: (str(trial.control), str(r["arm"]))),
        curves=curves, words=words,
        facts={k: v for k, v in facts.items() if v is not None},
        counts={"arms": dict(trial.sizes)} | ({"sample_ratio": dict(ratio)} if ratio else {}),
    )  # fmt: skip


def _parts_of_change(call: Call, spec: ExperimentSpec) -> dict[str, list[Any]]:
    """What units that entered, left and stayed, and volume, are of the change of the first metric."""
    explained = explain(
        spec.table, unit=spec.unit, amount=spec.amount, arm=str(spec.arm), control=spec.control, population=spec.population,
        weight=spec.weight, metric=spec.metrics[0].text, top=0, interval=None, rng=spec.seed,
        min_units=call.arguments["min_units"], nan_policy=spec.nan_policy,
    )  # fmt: skip
    rows = [r for r in explained.findings.rows() if r["part"] in ("volume", *KINDS)]
    return {name: [r[name] for r in rows] for name in ("part", "group", "metric", "estimate")}


def _result(call: Call, spec: ExperimentSpec, units: Units, rows: list[Row], **parts: Any) -> ExperimentResult:
    columns = (*spec.amount_columns, "arm")
    return call.result(
        rows, backend=units.log.backend, read=units.log.rows, dropped=units.log.dropped, slices=(*units.by, *columns),
        columns=(*units.columns, *columns), of=ExperimentResult, **parts,
    )  # fmt: skip


def _plan(call: Call, spec: ExperimentSpec, level: float) -> ExperimentResult:
    """Smallest difference that a test with these shares would detect, per metric, slice and arm."""
    shares, control = _planned_shares(spec)
    units = spec.units({"randomized": str(spec.randomized)})
    deal = spec.assignment(units)
    rows: list[Row] = []
    planned = []
    slices = [
        (amount, *part) for amount in units.log.amounts for part in in_order(units, bucket_slices(units, amount, deal))
    ]
    tests = len(slices) * (len(shares) - 1) * len(spec.metrics)  # p of the experiment will be adjusted over all of them
    for amount, label, tally in slices:
        randomized = float(deal.units(label).sum())
        few = min(tally.whole().receivers, randomized * min(shares.values())) < call.min_units
        for arm in (name for name in shares if name != control):
            where = spec.cells(units, label, amount) | {"arm": arm}
            if few:
                nothing = {"control_value": math.nan, "detectable": math.nan}
                rows += [suppressed(row(where, a.text, **nothing)) for a in spec.metrics]
                continue
            rng = stream(spec.seed, "power", amount.name, arm, *label)
            by_size = _detectable_by_size(tally, spec, (shares[arm], shares[control]), 1 - (1 - level) / tests, rng)
            used = randomized * (shares[arm] + shares[control])
            for i, a in enumerate(spec.metrics):
                smallest, value = (float(x[i]) for x in by_size[1.0])
                rows.append(row(
                    where, a.text, ideal=a.ideal, better=a.better, units=round(used), control_value=value,
                    detectable=smallest, note="planned",
                ))  # fmt: skip
                times = sorted(by_size)
                points: Points = {
                    "times": times,
                    "units": [round(used * t) for t in times],
                    "value": [float(by_size[t][1][i]) for t in times],
                    "detectable": [float(by_size[t][0][i]) for t in times],
                    "note": ["extrapolated" if t > 1 else None for t in times],
                }
                planned.append((where | {"metric": a.text, "share": shares[arm]}, points))
    randomised = dict.fromkeys(("randomized", "counted"), str(spec.randomized))
    words = {"unit": spec.unit, "amount": str(spec.amount or "rows"), **randomised}
    facts = {
        "design": "planned", "randomized": spec.randomized, "shares": {str(k): v for k, v in shares.items()},
        "power": POWER, "population": units.population_words,
    }  # fmt: skip
    return _result(call, spec, units, rows, curves={"detectable": join_points(planned)}, words=words, facts=facts)


def _planned_shares(spec: ExperimentSpec) -> tuple[dict[Any, float], Any]:
    shares = {"control": 0.5, "treatment": 0.5} if spec.shares is None else dict(spec.shares)
    if len(shares) < 2:
        raise EvenhandError(
            f"shares names {len(shares)} arms. Name two or more, such as {{'control': 0.9, 'new': 0.1}}."
        )
    refuse_shares({str(k): float(v) for k, v in shares.items()})
    control = "control" if spec.control is None else spec.control
    if control not in shares:
        raise EvenhandError(f"No arm of shares is {control!r}. Name one as control: {listing(map(repr, shares))}.")
    return shares, control


def _detectable_by_size(
    tally: Buckets, spec: ExperimentSpec, shares: tuple[float, float], level: float, rng: np.random.Generator
) -> dict[float, tuple[Floats, Floats]]:
    """Detectable difference and metric's value, by multiple of the log's randomised units.

    Multiples above 1 follow the trend below it.
    """
    movable = int(tally.movable.sum())
    if min(shares) * movable < MIN_UNITS:
        raise EvenhandError(
            f"An arm with a share of {min(shares):g} would hold fewer than {MIN_UNITS} of {movable:,} buckets. "
            "Pass a longer log, or larger shares."
        )
    by_size = {
        times: detectable(
            tally, spec.metrics, (shares[0] * times, shares[1] * times), draws=spec.draws, level=level, power=POWER, rng=rng
        )
        for times in (0.25, 0.5, 1.0)
        if min(shares) * times * movable >= MIN_UNITS
    }  # fmt: skip
    if 0.5 in by_size:
        with np.errstate(invalid="ignore", divide="ignore"):
            halving = np.clip(by_size[1.0][0] / by_size[0.5][0], 0.5, 1.0)  # what twice as many units do to it
        for times in (2.0, 4.0):
            by_size[times] = (by_size[1.0][0] * halving ** math.log2(times), by_size[1.0][1])
    return by_size


def _refuse(spec: ExperimentSpec, interval: str | None) -> None:
    taken = [b for b in slicing(spec.by).columns if b in ("arm", *EXTRA)]
    if taken:
        raise EvenhandError(f"by={taken[0]!r} is also a column of this result. Rename that column of the table first.")
    viewers = spec.randomized is not None and spec.randomized != spec.unit
    if interval == "jackknife" and not viewers:
        raise EvenhandError(
            "interval='jackknife' leaves out buckets of what was randomised, and here errors come from units. Use 'auto'."
        )
    if spec.before is not None and spec.randomized is None:
        raise EvenhandError(
            "before= takes off what the past explains of a random split, and nothing was randomised. Leave it out."
        )
    if spec.arm is not None and spec.arm in (spec.unit, spec.randomized):
        raise EvenhandError(f"arm={spec.arm!r} is also named as another role. {HOW_TO_CHOOSE}")
    if spec.arm is None and spec.randomized is None:
        raise EvenhandError(
            f"arm=None plans a test, and randomized=None says that nothing is randomised. {HOW_TO_CHOOSE}"
        )
    if spec.equal == "amount" and spec.randomized == spec.unit:
        raise EvenhandError(
            "equal='amount' thins an arm by leaving out viewers, and here units were randomised. Leave it out."
        )
