"""Designs of an experiment: viewers, units or nothing randomised; and what a planned one could detect."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from evenhand.audits.assemble import suppressed
from evenhand.audits.declare import Call, log
from evenhand.audits.units import Units, units_of
from evenhand.cards import MetricSpec
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Row, row
from evenhand.intervals.arms import paired_contrast, thinned, units_contrast
from evenhand.intervals.experiments import Contrast, absent, contrast, detectable, sample_ratio, volume_ratio
from evenhand.results import Result
from evenhand.sources.logs import Amount, Log, NanPolicy
from evenhand.sources.relation import comparable
from evenhand.streams import stream
from evenhand.tallies.assignment import Assignment
from evenhand.tallies.buckets import Buckets, BucketSlices
from evenhand.tallies.paired_amounts import PairedAmounts, PairedSlices, arms_of, refuse_several_arms
from evenhand.tallies.slices import Label, Slices, whole_labels
from evenhand.tallies.spectrum import Spectrum

CHANGED = 2.0
"""Errors by which volume per randomised unit must differ before it counts as changed."""


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

    def units(self, marks: Mapping[str, str], part: tuple[str, str] | None = None) -> Units:
        """The table with these columns beside the roles of every audit of units."""
        return units_of(
            self.table, unit=self.unit, amount=self.amount, population=self.population, by=self.by, weight=self.weight,
            nan_policy=self.nan_policy, marks=marks, part=part,
        )  # fmt: skip

    def past(self, marks: Mapping[str, str], now: Log) -> Units:
        """The log from before the change, beside that of the experiment: whoever was seen in it."""
        try:
            return units_of(
                self.before, unit=self.unit, amount=self.amount, population=None, by=self.by, nan_policy=self.nan_policy,
                marks=marks, joined_with=now,
            )  # fmt: skip
        except EvenhandError as error:
            raise EvenhandError(f"In before: {error}") from error


@dataclass(frozen=True)
class Comparison:
    """One arm against control in one slice.

    Attributes
    ----------
    labels : the slice and the amount as cells of the frame; where : what names its random stream.
    sides : gives the spectra of the two arms as found, for the reason why a metric has no value.
    units : randomised units of the two arms, and the smaller of the two numbers.
    changed : whether volume per randomised unit differs by more than chance.
    """

    labels: dict[str, Any]
    arm: Any
    contrast: Contrast
    sides: Callable[[], tuple[Spectrum, Spectrum]]
    units: int
    fewest: int
    volume_ratio: float
    changed: bool
    reassigned: bool
    broken: bool = False

    def few(self, fewest: int) -> bool:
        """Whether an arm has fewer randomised units, or fewer units that received anything."""
        return fewest > 1 and min(self.fewest, *(side.receivers for side in self.sides())) < fewest


@dataclass(frozen=True)
class Trial:
    """Everything compared, and what a reader should know about the design."""

    units: Units
    compared: list[Comparison]
    design: str
    interval: str
    control: Any
    sizes: Mapping[str, int]
    amounts: tuple[str, ...]
    ratio: Mapping[str, Any] | None = None
    past: str | None = None

    @property
    def ratio_p(self) -> float:
        return float(self.ratio["p"]) if self.ratio else 1.0


def viewers_randomized(spec: ExperimentSpec) -> Trial:
    """Another column than the unit was randomised: all arms hold the same units."""
    marks = {"arm": str(spec.arm), "randomized": str(spec.randomized)}
    units = spec.units(marks)
    log.info("putting %s into buckets", spec.randomized)
    deal = Assignment.from_log(
        units.log, randomized=str(spec.randomized), arm=spec.arm, rng=stream(spec.seed, "buckets")
    )
    at = control_of(deal.arms, spec.control)
    before = spec.past({"randomized": str(spec.randomized)}, units.log) if spec.before is not None else None
    compared: list[Comparison] = []
    for i, amount in enumerate(units.log.amounts):
        log.info("adding up %s by bucket", amount.name or "rows")
        seen = BucketSlices.per_slice(units.log, amount, deal)
        slices = seen.among(units.padded(seen.pooled))
        past = _past_buckets(before, units, i, deal, slices) if before else {}
        for label, tally in _in_order(units, slices):
            extra = {"amount": amount.name} if _several(spec) else {}
            for k, name in enumerate(deal.arms):
                if k == at:
                    continue
                sizes = deal.units(label)
                effect = absent(spec.metrics) if not (sizes[k] and sizes[at]) else contrast(
                    tally, spec.metrics, arm=k, control=at, draws=spec.draws, level=spec.level, equal=spec.equal,
                    rng=stream(spec.seed, "experiment", amount.name, name, *label), before=past.get(label),
                )  # fmt: skip
                ratio, error = volume_ratio(tally, k, at)
                compared.append(Comparison(
                    _cells(units, label) | extra, name, effect, partial(_sides, tally, k, at), int(sizes[k] + sizes[at]),
                    int(min(sizes[k], sizes[at])), ratio, bool(abs(np.log(ratio)) > CHANGED * error) if ratio > 0 else False,
                    True, label in slices.broken,
                ))  # fmt: skip
    everyone = {str(a): int(n) for a, n in zip(deal.arms, deal.totals(), strict=True)}
    words = "leaving out buckets of {} (delete-d jackknife) at the volume compared, t quantiles"
    return Trial(
        units, compared, "another column randomised", words.format(spec.randomized), deal.arms[at], everyone,
        ("amount",) if _several(spec) else (), ratio_of(everyone, spec.shares), before.log.origin if before else None,
    )  # fmt: skip


def units_randomized(spec: ExperimentSpec) -> Trial:
    """The unit itself was randomised: arms hold different units."""
    if isinstance(spec.population, (int, np.integer)):
        raise EvenhandError(
            f"population={spec.population!r} does not say how many units each arm has. Pass {{arm: number}}, a table of units "
            f"with the column {spec.arm!r}, or None for those seen."
        )
    units = spec.units({}, part=("arm", str(spec.arm)))
    refuse_several_arms(units.log, f"by_{len(units.by) - 1}")
    before = spec.past({}, units.log) if spec.before is not None else None
    compared: list[Comparison] = []
    arms: tuple[Any, ...] = ()
    sizes: dict[str, int] = {}
    at: Any = None
    for i, amount in enumerate(units.log.amounts):
        log.info("adding up %s", amount.name or "rows")
        slices = _arms_of_units(units, amount, before, i)
        arms = whole_arms(slices.labels)
        at = arms[control_of(arms, spec.control)]
        tallies = dict(zip(slices.labels, slices.tallies, strict=True))
        sizes = {str(a): round(sum(t.units for k, t in tallies.items() if k[-1] == a)) for a in arms}
        for label in dict.fromkeys(k[:-1] for k in tallies):
            other = tallies.get((*label, at), PairedAmounts.from_arrays([]))
            for name in (name for name in arms if name != at):
                treated = tallies.get((*label, name), PairedAmounts.from_arrays([]))
                rng = stream(spec.seed, "experiment", amount.name, name, *label)
                effect = absent(spec.metrics) if not (treated.units and other.units) else units_contrast(
                    treated, other, spec.metrics, draws=spec.draws, level=spec.level, rng=rng
                )  # fmt: skip
                spectra = treated.sides[0].spectrum(treated.counts), other.sides[0].spectrum(other.counts)
                means = [float(s.total) / max(1.0, float(s.units)) for s in spectra]
                few = round(min(treated.units, other.units))
                compared.append(Comparison(
                    _cells(units.whole(), label) | ({"amount": amount.name} if _several(spec) else {}), name, effect,
                    partial(_fixed, spectra), round(treated.units + other.units), few,
                    means[0] / means[1] if means[1] else np.nan, False, True,
                    bool({(*label, name), (*label, at)} & slices.broken),
                ))  # fmt: skip
    return Trial(
        units.whole(), compared, "units randomised", "re-assigning units, each difference over its own error", at, sizes,
        ("amount",) if _several(spec) else (), ratio_of(sizes, spec.shares), before.log.origin if before else None,
    )  # fmt: skip


def paired(spec: ExperimentSpec) -> Trial:
    """Nothing was randomised: each unit is compared with itself."""
    units = spec.units({"arm": str(spec.arm)})
    codes, arms = arms_of(units.log)
    control = control_of(arms, spec.control)
    at = arms[control]
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
            slices = seen.among(units.padded(seen.pooled))
            for label, pairs in _in_order(units, slices):
                rng = stream(spec.seed, "experiment", amount.name, name, *label)
                effect = paired_contrast(pairs, spec.metrics, draws=spec.draws, level=spec.level, rng=rng)
                if amount.integer:
                    effect = thinned(effect, pairs, spec.metrics, equal=spec.equal == "amount", rng=rng)
                spectra = pairs.sides[0].spectrum(pairs.counts), pairs.sides[1].spectrum(pairs.counts)
                totals = [float(s.total) for s in spectra]
                compared.append(Comparison(
                    _cells(units, label) | ({"amount": amount.name} if _several(spec) else {}), name, effect,
                    partial(_fixed, spectra), round(pairs.units), round(pairs.units),
                    totals[0] / totals[1] if totals[1] else np.nan, False, False, label in slices.broken,
                ))  # fmt: skip
    words = "bootstrap over units, each with both of its amounts, studentised"
    return Trial(units, compared, "nothing randomised", words, at, {}, ("amount",) if _several(spec) else ())


def control_of(arms: Sequence[Any], control: Any) -> int:
    """Which of the arms is the control: the one named, or the one that is called so."""
    if len(arms) < 2:
        raise EvenhandError(f"There is only one arm: {listing(map(repr, arms))}. Pass rows of two arms or more.")
    name = "control" if control is None else control
    same = [i for i, a in enumerate(arms) if a == name or str(a) == str(name)]
    if not same:
        fact = "No arm is called 'control'" if control is None else f"control={control!r} is no arm"
        raise EvenhandError(f"{fact}. Name one as control: {listing(map(repr, arms))}.")
    return same[0]


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


def whole_arms(labels: Sequence[Label]) -> tuple[Any, ...]:
    """The arms among labels whose last place is the arm, in order of first appearance."""
    return tuple(dict.fromkeys(label[-1] for label in labels))


def _arms_of_units(units: Units, amount: Amount, before: Units | None, i: int) -> PairedSlices:
    """Units of every slice and arm, with what they received before where that is known."""
    if before is None:
        slices = units.padded(Slices.per_slice(units.log, amount))
        spectra = slices.spectra.separate()
        tallies = tuple(PairedAmounts(s.values, np.zeros(len(s.values)), s.counts, s.weights) for s in spectra)
        return PairedSlices(slices.labels, tallies, slices.broken)
    ids = comparable(before.log.types["unit"], units.log.types["unit"], column="unit", role="before", other="the table")
    seen = PairedSlices.with_past(units.log, amount, before.log, before.log.amounts[i], ids)
    return seen.among(units.padded(seen.pooled))


def _past_buckets(before: Units, during: Units, i: int, deal: Assignment, now: BucketSlices) -> dict[Label, Buckets]:
    """Buckets of the past, per slice, over as many units as the experiment has."""
    ids = comparable(
        before.log.types["randomized"],
        during.log.types["randomized"],
        column="randomized",
        role="before",
        other="the table",
    )
    past = BucketSlices.per_slice(before.log, before.log.amounts[i], deal, ids)
    units = dict(zip(now.labels, (t.units for t in now.tallies), strict=True))
    return {
        label: replace(tally, unseen=max(0.0, units[label] - tally.units))
        for label, tally in zip(past.labels, past.tallies, strict=True)
        if label in units
    }


def _in_order(units: Units, slices: Any) -> Iterator[tuple[Label, Any]]:
    """Slices in the order of their labels."""
    for i in units.legend.order(slices.labels):
        yield slices.labels[i], slices.tallies[i]


def _cells(units: Units, label: Label) -> dict[str, Any]:
    return units.cells(whole_labels([units.legend.name(units.by, label)])[0])


def _sides(tally: Buckets, arm: int, control: int) -> tuple[Spectrum, Spectrum]:
    return tally.only(tally.arms == arm).whole(), tally.only(tally.arms == control).whole()


def _fixed(spectra: tuple[Spectrum, Spectrum]) -> tuple[Spectrum, Spectrum]:
    return spectra


def _several(spec: ExperimentSpec) -> bool:
    return spec.amount is not None and not isinstance(spec.amount, str)


ResultT = TypeVar("ResultT", bound=Result)

POWER = 0.8
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Numbers of randomised units to plan for, as multiples of those in the log; above 1 by the trend below it."""

FEWEST = 5
"""Buckets that the smallest arm must have."""


def plan_ahead(call: Call, spec: ExperimentSpec, level: float, kind: Callable[..., ResultT]) -> ResultT:
    """Smallest difference that a test with these shares would detect, per metric, slice and arm."""
    shares = _shares(spec)
    control = _control(shares, spec.control)
    units = spec.units({"randomized": str(spec.randomized)})
    log.info("putting %s into buckets", spec.randomized)
    deal = Assignment.from_log(units.log, randomized=str(spec.randomized), rng=stream(spec.seed, "buckets"))
    rows: list[Row] = []
    planned: dict[str, list[Any]] = {}
    several = spec.amount is not None and not isinstance(spec.amount, str)
    for amount in units.log.amounts:
        seen = BucketSlices.per_slice(units.log, amount, deal)
        slices = seen.among(units.padded(seen.pooled))
        for i in units.legend.order(slices.labels):
            label, tally = slices.labels[i], slices.tallies[i]
            cells = units.cells(whole_labels([units.legend.name(units.by, label)])[0])
            cells |= {"amount": amount.name} if several else {}
            few = min(tally.whole().receivers, deal.units(label).sum() * min(shares.values())) < call.min_units
            for arm in (name for name in shares if name != control):
                where = cells | {"arm": arm}
                if few:
                    rows += [
                        suppressed(row(where, a.text, control_value=math.nan, detectable=math.nan))
                        for a in spec.metrics
                    ]
                    continue
                rng = stream(spec.seed, "power", amount.name, arm, *label)
                detectable_by_size = _planned(tally, spec, (shares[arm], shares[control]), level, rng)
                rows += _rows(where, spec, detectable_by_size, deal, label, shares[arm] + shares[control])
                _add(
                    planned,
                    where,
                    spec,
                    detectable_by_size,
                    (shares[arm], shares[control]),
                    int(deal.units(label).sum()),
                )
    return _result(call, spec, units, rows, planned, shares, kind, several=several)


def _planned(
    tally: Buckets, spec: ExperimentSpec, shares: tuple[float, float], level: float, rng: np.random.Generator
) -> dict[float, tuple[Any, Any]]:
    """The smallest difference and the metric's value, by multiple of the randomised units in the log."""
    movable = int(tally.movable.sum())
    if min(shares) * movable < FEWEST:
        raise EvenhandError(
            f"An arm with a share of {min(shares):g} would hold fewer than {FEWEST} of {movable:,} buckets. "
            "Pass a longer log, or larger shares."
        )
    by_size: dict[float, tuple[Any, Any]] = {}
    for times in (t for t in TIMES if t <= 1):
        part = (shares[0] * times, shares[1] * times)
        if min(part) * movable >= FEWEST:
            by_size[times] = detectable(tally, spec.metrics, part, draws=spec.draws, level=level, power=POWER, rng=rng)
    if 0.5 in by_size:
        with np.errstate(invalid="ignore", divide="ignore"):
            halving = np.clip(by_size[1.0][0] / by_size[0.5][0], 0.5, 1.0)  # what twice as many do to it
        for times in (t for t in TIMES if t > 1):
            by_size[times] = (by_size[1.0][0] * halving ** math.log2(times), by_size[1.0][1])
    return by_size


def _rows(
    where: dict[str, Any], spec: ExperimentSpec, by_size: Any, deal: Assignment, label: Any, used: float
) -> list[Row]:
    smallest, value = by_size[1.0]
    units = round(float(deal.units(label).sum()) * used)
    return [
        row(where, a.text, ideal=a.ideal, better=a.better, units=units, control_value=float(value[i]),
            detectable=float(smallest[i]), note="planned")
        for i, a in enumerate(spec.metrics)
    ]  # fmt: skip


def _add(
    planned: dict[str, list[Any]], where: Any, spec: ExperimentSpec, by_size: Any, shares: Any, units: int
) -> None:
    for i, a in enumerate(spec.metrics):
        for times, (smallest, value) in sorted(by_size.items()):
            line = {
                **where, "metric": a.text, "share": shares[0], "times": times, "units": round(units * sum(shares) * times),
                "value": float(value[i]), "detectable": float(smallest[i]), "note": "extrapolated" if times > 1 else None,
            }  # fmt: skip
            for name, cell in line.items():
                planned.setdefault(name, []).append(cell)


def _result(
    call: Call,
    spec: ExperimentSpec,
    units: Units,
    rows: Any,
    planned: Any,
    shares: Any,
    kind: Callable[..., ResultT],
    *,
    several: bool,
) -> ResultT:
    log_read = units.log
    amounts = ("amount",) if several else ()
    words = {
        "unit": spec.unit,
        "amount": str(spec.amount or "rows"),
        "randomized": str(spec.randomized),
        "counted": str(spec.randomized),
    }
    facts = {
        "design": "planned", "randomized": spec.randomized, "shares": {str(k): v for k, v in shares.items()},
        "power": POWER, "population": units.population_words,
    }  # fmt: skip
    return call.result(
        rows, backend=log_read.backend, read=log_read.rows, dropped=log_read.dropped, slices=(*log_read.by, *amounts, "arm"),
        columns=(*units.columns, *amounts, "arm"), curves={"detectable": planned}, words=words, facts=facts, of=kind,
        planned=planned,
    )  # fmt: skip


def _shares(spec: ExperimentSpec) -> dict[Any, float]:
    shares = {"control": 0.5, "treatment": 0.5} if spec.shares is None else dict(spec.shares)
    if len(shares) < 2:
        raise EvenhandError(
            f"shares names {len(shares)} arms. Name two or more, such as {{'control': 0.9, 'new': 0.1}}."
        )
    refuse_shares({str(k): float(v) for k, v in shares.items()})
    return shares


def _control(shares: dict[Any, float], control: Any) -> Any:
    name = "control" if control is None else control
    if name not in shares:
        raise EvenhandError(f"No arm of shares is {name!r}. Name one as control: {listing(map(repr, shares))}.")
    return name
