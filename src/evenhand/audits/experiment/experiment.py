"""Did a change make it more even? Arms of an experiment, or two periods, compared by what was randomised."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.declare import Call, Columns, Count, Label, Level, Metrics, Seed, Table, Takes, audit, pairs
from evenhand.audits.experiment.designs import (
    Comparison,
    ExperimentSpec,
    bucket_slices,
    in_order,
    paired,
    refuse_shares,
    units_randomized,
    viewers_randomized,
)
from evenhand.audits.explain import KINDS, explain
from evenhand.audits.inequality import METRICS
from evenhand.audits.min_units import enough, suppressed
from evenhand.audits.units import By, Population, Units
from evenhand.cards import Between, Floats, MetricSpec, needing, parse_metrics
from evenhand.errors import EvenhandError, listing, plural
from evenhand.findings import Points, Row, join_points, notes, row
from evenhand.intervals.experiments import GRID, detectable
from evenhand.intervals.jackknife import influence_of_units
from evenhand.intervals.kinds import FEW_UNITS, MIN_UNITS, ROUNDING, holm
from evenhand.labels import stream
from evenhand.metrics.outcome import POWER
from evenhand.results import Result, as_frame, difference_claims
from evenhand.sources.logs import NanPolicy
from evenhand.sources.opening import open_table
from evenhand.sources.relation import slicing
from evenhand.tallies.buckets import Buckets
from evenhand.tallies.spectrum import Spectrum

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
