"""Designs of an experiment: viewers, units or nothing randomised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evenhand.audits.declare import log, refuse_many_slices
from evenhand.audits.units import Units, units_of
from evenhand.cards import MetricSpec
from evenhand.errors import EvenhandError, listing
from evenhand.intervals.experiments import (
    Contrast,
    contrast,
    paired_contrast,
    sample_ratio,
    undefined_contrast,
    units_contrast,
    volume_ratio,
    with_volume_effect,
)
from evenhand.intervals.spectra import cautions
from evenhand.labels import stream, whole_labels
from evenhand.sources.logs import Amount, Log, NanPolicy
from evenhand.sources.relation import comparable
from evenhand.tallies.buckets import Assignment, Buckets, BucketSlices
from evenhand.tallies.paired_amounts import PairedAmounts, PairedSlices, arms_of, refuse_several_arms
from evenhand.tallies.slices import Label, Slices
from evenhand.tallies.spectrum import Spectra, Spectrum

MOST_ARMS = 200
"""Each arm is re-randomised against the control; more of them are ids that were taken for arms."""


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

    def cells(self, units: Units, label: Label, amount: Amount) -> dict[str, Any]:
        cells = units.cells(whole_labels([units.legend.name(units.by, label)])[0])
        return cells | dict.fromkeys(self.amount_columns, amount.name)

    def rng(self, amount: Amount, arm: Any, label: Label) -> np.random.Generator:
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
    if isinstance(spec.population, (int, np.integer)):
        raise EvenhandError(
            f"population={spec.population!r} does not say how many units each arm has. Pass {{arm: number}}, a table of units "
            f"with the column {spec.arm!r}, or None for those seen."
        )
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
            slices = seen.among(units.padded(seen.pooled))
            for label, pairs in in_order(units, slices):
                rng = spec.rng(amount, name, label)
                effect = paired_contrast(pairs, spec.metrics, draws=spec.draws, level=spec.level, rng=rng)
                if amount.integer:
                    effect = with_volume_effect(effect, pairs, spec.metrics, equal=spec.equal == "amount", rng=rng)
                sides = pairs.sides[0].spectrum(pairs.counts), pairs.sides[1].spectrum(pairs.counts)
                totals = [float(s.total) for s in sides]
                compared.append(Comparison(
                    spec.cells(units, label, amount), name, effect, sides, round(pairs.units), round(pairs.units),
                    totals[0] / totals[1] if totals[1] else np.nan, label in slices.broken, reassigned=False,
                    caution=max(cautions(Spectra.from_spectra([*sides]))),  # a heavy tail before few receivers
                ))  # fmt: skip
    words = (
        "the wider of two, both studentised: the test by swaps of the two amounts within units, inverted, and a bootstrap over "
        "units, each with both of its amounts"
    )
    return Trial(units, compared, "nothing randomised", words, arms[control], {})


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
    return seen.among(units.padded(seen.pooled))


def _past_buckets(before: Units, during: Units, i: int, deal: Assignment, now: BucketSlices) -> dict[Label, Buckets]:
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
    return seen.among(units.padded(seen.pooled))


def in_order(units: Units, slices: Any) -> Iterator[tuple[Label, Any]]:
    refuse_many_slices("experiment", len(slices.labels))
    for i in units.legend.order(slices.labels):
        yield slices.labels[i], slices.tallies[i]
