"""Did a change make it more even? Arms of an experiment, or two periods, compared by what was randomised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import enough
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
)  # fmt: skip
from evenhand.audits.experiment_designs import Asked, Compared, paired, units_randomized, viewers_randomized
from evenhand.audits.experiment_power import POWER, plan_ahead
from evenhand.audits.experiment_rows import EXTRA, curves_of, rows_of
from evenhand.audits.inequality import METRICS
from evenhand.audits.units import By, Population
from evenhand.cards import Between, needing, parse_metrics
from evenhand.errors import EvenhandError
from evenhand.report.words.text import plural
from evenhand.results import Result, as_frame
from evenhand.sources.logs import NanPolicy
from evenhand.sources.slicing import slicing
from evenhand.tallies.spectrum import Spectrum

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
    measured = [a.coarse(call.fewest) for a in parse_metrics(metrics, needing(Spectrum))]
    asked = Asked(
        table=table, unit=unit, amount=amount, arm=arm, randomized=randomized, population=population, control=control,
        by=by, weight=weight, before=before, shares=shares, equal=equal, metrics=measured,
        draws=draws, level=None if interval is None else level, seed=call.seed, nan_policy=nan_policy,
    )  # fmt: skip
    _refuse(asked, interval)
    if arm is None:
        return plan_ahead(call, asked, level, ExperimentResult)
    design = paired if randomized is None else units_randomized if randomized == unit else viewers_randomized
    trial = design(asked)
    compared: list[Compared] = trial.compared
    fewest = enough(call.fewest, measured, arms=2)
    rows = rows_of(compared, asked, trial.ratio_p, fewest)
    names = (*trial.units.by, *trial.amounts)
    meant = STANDS_FOR[design].format(units=plural(unit), randomized=plural(randomized or "")) if interval else None
    facts = {
        "design": trial.design, "randomized": randomized, "control": trial.control,
        "interval": trial.interval if interval else "none",
        "interval_for": meant, "population": trial.units.population_words,
        "p_adjusted": "Holm over all rows", "before": trial.past,
        "power": POWER,
    }  # fmt: skip
    counts = {"arms": dict(trial.sizes)} | ({"sample_ratio": dict(trial.ratio)} if trial.ratio else {})
    words = {
        "unit": unit, "amount": amount if isinstance(amount, str) else "rows" if amount is None else "amounts",
        "randomized": randomized or "", "counted": randomized or unit, "control": str(trial.control),
        "chance": "what unequal volume alone gives" if randomized != unit else "what unequal numbers of units alone give",
    }  # fmt: skip
    return call.result(
        rows, backend=trial.units.log.backend, read=trial.units.log.rows, dropped=trial.units.log.dropped,
        slices=(*names, "arm"), columns=(*trial.units.columns, *trial.amounts, "arm"),
        curves=curves_of(compared, asked, fewest), words=words,
        facts={k: v for k, v in facts.items() if v is not None}, counts=counts, of=ExperimentResult,
    )  # fmt: skip


def _refuse(asked: Asked, interval: str | None) -> None:
    """What cannot be asked together."""
    taken = [b for b in slicing(asked.by).columns if b in ("arm", *EXTRA)]
    if taken:
        raise EvenhandError(f"by={taken[0]!r} is also a column of this result. Rename that column of the table first.")
    viewers = asked.randomized is not None and asked.randomized != asked.unit
    if interval == "jackknife" and not viewers:
        raise EvenhandError(
            "interval='jackknife' leaves out buckets of what was randomised, and here errors come from units. Use 'auto'."
        )
    if asked.before is not None and asked.randomized is None:
        raise EvenhandError(
            "before= takes off what the past explains of a random split, and nothing was randomised. Leave it out."
        )
    if asked.arm is not None and asked.arm in (asked.unit, asked.randomized):
        raise EvenhandError(f"arm={asked.arm!r} is also named as another role. {HOW_TO_CHOOSE}")
    if asked.arm is None and asked.randomized is None:
        raise EvenhandError(
            f"arm=None plans a test, and randomized=None says that nothing is randomised. {HOW_TO_CHOOSE}"
        )
    if asked.equal == "amount" and asked.randomized == asked.unit:
        raise EvenhandError(
            "equal='amount' thins an arm by leaving out viewers, and here units were randomised. Leave it out."
        )
