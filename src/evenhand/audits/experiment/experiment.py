"""Did a change make it more even? Arms of an experiment, or two periods, compared by what was randomised."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import enough, notes, suppressed
from evenhand.audits.declare import (
    Call,
    Columns,
    Count,
    Label,
    Level,
    Metrics,
    Seed,
    Table,
    Takes,
    audit,
    pairs,
)
from evenhand.audits.experiment.designs import (
    POWER,
    Comparison,
    ExperimentSpec,
    paired,
    plan_ahead,
    units_randomized,
    viewers_randomized,
)
from evenhand.audits.inequality import METRICS
from evenhand.audits.units import By, Population
from evenhand.cards import Between, MetricSpec, needing, parse_metrics
from evenhand.errors import EvenhandError
from evenhand.findings import Row, row
from evenhand.intervals.difference import holm
from evenhand.intervals.experiments import FEWEST, GRID
from evenhand.report.words.text import plural
from evenhand.results import Result, as_frame
from evenhand.sources.logs import NanPolicy
from evenhand.sources.slicing import slicing
from evenhand.tallies.spectrum import Spectrum

EXTRA = ("treatment", "control_value", "raw", "volume_ratio", "p", "p_adjusted", "detectable")
MISMATCH = 0.001
"""p of the split below which the arms are said not to match their design."""

MOST_CURVES = 40
BINS = 41


def rows_of(compared: Sequence[Comparison], spec: ExperimentSpec, ratio_p: float, fewest: int) -> list[Row]:
    """A row per metric, slice and arm, p adjusted over all of them."""
    has_intervals = spec.level is not None
    rows = [
        _row(c, a, i, ratio_p, fewest, has_intervals=has_intervals)
        for c in compared
        for i, a in enumerate(spec.metrics)
    ]
    adjusted = holm([r["p"] for r in rows])
    return [{**r, "p_adjusted": float(p)} for r, p in zip(rows, adjusted, strict=True)]


def _row(c: Comparison, a: MetricSpec, i: int, ratio_p: float, fewest: int, *, has_intervals: bool) -> Row:
    contrast = c.contrast
    cells = row(
        {**c.labels, "arm": c.arm}, a.text, estimate=float(contrast.estimate[i]), low=float(contrast.low[i]),
        high=float(contrast.high[i]), chance=float(contrast.chance[i]), ideal=0.0, better=a.better, units=c.units,
        undefined_draws=int(contrast.undefined[i]), note=_note(c, a, i, ratio_p, has_intervals=has_intervals),
        treatment=float(contrast.treatment[i]),
        control_value=float(contrast.control[i]), raw=float(contrast.raw[i]), volume_ratio=c.volume_ratio, p=float(contrast.p[i]),
        detectable=math.nan,
    )  # fmt: skip
    numbers = ("estimate", "low", "high", "chance", "treatment", "control_value", "raw", "volume_ratio", "p")
    if c.broken:
        cells |= dict.fromkeys(numbers, math.nan) | {"note": "nan_in_data"}
    return suppressed(cells) | dict.fromkeys(numbers[4:], math.nan) if c.few(fewest) else cells


def _note(c: Comparison, a: MetricSpec, i: int, ratio_p: float, *, has_intervals: bool) -> str | None:
    """Why there is no value, or no interval where one was `wanted`; and what to be careful of."""
    contrast = c.contrast
    if math.isnan(contrast.estimate[i]):
        undefined = [s for s in c.sides() if np.isnan(a.on(s))]
        return a.card.reason(undefined[0], **a.params) if undefined else "undefined"
    without = math.isnan(contrast.low[i]) and has_intervals
    return notes(
        ("few_units" if c.fewest < FEWEST else "no_variation") if without else "",
        "sample_ratio_mismatch" if ratio_p < MISMATCH else "",
        "volume_changed" if c.changed else "",
    )


def curves_of(compared: Sequence[Comparison], spec: ExperimentSpec, fewest: int) -> dict[str, Any]:
    """Lorenz curves of the arms at equal volume, and how often re-assignment gave each difference."""
    shown = [c for c in compared if not c.few(fewest) and not c.broken][:MOST_CURVES]
    lorenz: dict[str, list[Any]] = {}
    moved: dict[str, list[Any]] = {}
    for c in shown:
        labels = {**c.labels, "arm": c.arm}
        for side, curve in zip(("arm", "control"), c.contrast.curves or (), strict=False):
            if not np.isnan(curve).any():
                at = _grid_points(c, fewest)
                _add(lorenz, labels | {"side": side}, population=GRID[at].tolist(), share=curve[at].tolist())
        if not c.reassigned:
            continue
        for i, a in enumerate(spec.metrics):
            draws = c.contrast.draws[:, i]
            draws = draws[~np.isnan(draws)]
            if len(draws) and np.ptp(draws) > 0 and not math.isnan(c.contrast.observed[i]):
                counts, edges = np.histogram(draws, BINS)
                _add(moved, labels | {"metric": a.text, "found": float(c.contrast.observed[i]), "chance": float(draws.mean())},
                     low=edges[:-1].tolist(), high=edges[1:].tolist(), draws=counts.tolist())  # fmt: skip
    return {name: curve for name, curve in (("arms", lorenz), ("reassigned", moved)) if curve}


def _grid_points(c: Comparison, fewest: int) -> list[int]:
    """Points of the grid with at least `fewest` receivers between any two, in either arm."""
    if fewest <= 1:
        return list(range(len(GRID)))
    sides = c.sides()
    reached = np.min([np.maximum(0.0, GRID * s.units - (s.units - s.receivers)) for s in sides], axis=0)
    points, last = [0], 0.0
    for i in range(1, len(GRID) - 1):
        if reached[i] == 0 or (reached[i] - last >= fewest and reached[-1] - reached[i] >= fewest):
            points, last = [*points, i], float(reached[i])
    return [*points, len(GRID) - 1]


def _add(curve: dict[str, list[Any]], labels: dict[str, Any], **points: list[Any]) -> None:
    many = len(next(iter(points.values())))
    for name, value in labels.items():
        curve.setdefault(name, []).extend([value] * many)
    for name, values in points.items():
        curve.setdefault(name, []).extend(values)


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

    planned: Mapping[str, Any] = field(default_factory=dict)

    @property
    def detectable(self) -> Any:
        """The smallest difference that is found with 80% power, by metric and number of randomised units (`arm=None`)."""
        if not self.planned:
            raise EvenhandError(
                "This result compares arms, and plans none. Call eh.experiment(..., arm=None) on a log without a change."
            )
        return as_frame(self.planned, self.backend, self.findings.slices)


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
    spec = ExperimentSpec(
        table=table, unit=unit, amount=amount, arm=arm, randomized=randomized, population=population, control=control,
        by=by, weight=weight, before=before, shares=shares, equal=equal, metrics=measured,
        draws=draws, level=None if interval is None else level, seed=call.seed, nan_policy=nan_policy,
    )  # fmt: skip
    _refuse(spec, interval)
    if arm is None:
        return plan_ahead(call, spec, level, ExperimentResult)
    return _compare_arms(call, spec)


def _compare_arms(call: Call, spec: ExperimentSpec) -> ExperimentResult:
    """Every arm against control, by the design that fits what was randomised."""
    unit, amount, randomized, has_interval = spec.unit, spec.amount, spec.randomized, spec.level is not None
    design = paired if randomized is None else units_randomized if randomized == unit else viewers_randomized
    trial = design(spec)
    log, amounts = trial.units.log, trial.amounts
    fewest = enough(call.min_units, spec.metrics, arms=2)
    meant = STANDS_FOR[design].format(units=plural(unit), randomized=plural(randomized or "")) if has_interval else None
    facts = {
        "design": trial.design, "randomized": randomized, "control": trial.control,
        "interval": trial.interval if has_interval else "none", "interval_for": meant,
        "population": trial.units.population_words, "p_adjusted": "Holm over all rows", "before": trial.past,
        "power": POWER,
    }  # fmt: skip
    counts = {"arms": dict(trial.sizes)} | ({"sample_ratio": dict(trial.ratio)} if trial.ratio else {})
    words = {
        "unit": unit, "amount": amount if isinstance(amount, str) else "rows" if amount is None else "amounts",
        "randomized": randomized or "", "counted": randomized or unit, "control": str(trial.control),
        "chance": "what unequal volume alone gives" if randomized != unit else "what unequal numbers of units alone give",
    }  # fmt: skip
    return call.result(
        rows_of(trial.compared, spec, trial.ratio_p, fewest), backend=log.backend, read=log.rows, dropped=log.dropped,
        slices=(*trial.units.by, *amounts, "arm"), columns=(*trial.units.columns, *amounts, "arm"),
        curves=curves_of(trial.compared, spec, fewest), words=words,
        facts={k: v for k, v in facts.items() if v is not None}, counts=counts, of=ExperimentResult,
    )  # fmt: skip


def _refuse(spec: ExperimentSpec, interval: str | None) -> None:
    """Refuse arguments that exclude each other."""
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
