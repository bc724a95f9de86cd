"""The outcome-test paper, rerun: two audits on generated marketplaces, and other measures.

The paper's data are private and its figures carry no numbers, so what is rerun is what it says comes out, on marketplaces
whose bias is known; and beside that, how often each measure is wrong where nothing is wrong with the scores.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audits.parameters import Columns, Label
from evenhand.audits.parameters import Table as Data

# A thousand small worlds: eh.outcome_test asks its engine six questions of each, which takes ten times as long.
from evenhand.metrics.outcome import gaps
from evenhand.metrics.outcome_joint import joint_test
from evenhand.studies.outcome_findings import MEASURES, Audit, Rates, Reallocated, claims
from evenhand.studies.outcome_log import on_data
from evenhand.studies.study import Figure, Replicates, Study, Table, ends, is_number, select
from evenhand.studies.user_tables import on_own_data
from evenhand.tallies.moments import Moments

REQUESTS = 15_000
"""Where the rise of the outcome and the moves of the large groups came out in every draw. What the smallest group gains came
out in most: twice as many requests show it no more often. docs/study-outcome.md has the figures."""
BATCHES = 8  # of requests, left out one at a time for the error of the reallocated slots
WORLDS = 200
SMALL: dict[str, Any] = {"requests": 300, "candidates": 40}
"""A world of the comparison: large enough for the joint test to find a scoring bias of 0.3 in four of five."""
TITLE = "Equal opportunity for the equally qualified: the outcome test on marketplaces whose bias is known"
CAVEAT = (
    "The paper's data are private and its figures carry no numbers: these marketplaces are made up with the bias that it "
    "reports. A yes means that the procedure shows such a bias, not that LinkedIn had it."
)
SILENT = (
    "The outcome test finds the scoring bias and stays silent on different qualifications and on human bias; precision and "
    "equalised odds answer to other qualifications."
)
FOLDS = (
    "The paper's change of the outcome is never below zero by construction, and without a window it follows the marginal bin's "
    "line far below the bar. Allocating with one half of the requests and valuing with the other, within a window, gives a "
    "number that can be held against chance."
)
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "other qualifications": {"qualification": {"female": 0.6}},
    "very other qualifications": {"qualification": {"female": 1.0}},
    "human bias": {"human": {"female": 0.3}},
    "scoring bias": {"bias": {"female": 0.3}},
}
"""What differs between the groups, in worlds that are drawn again and again."""
log = logging.getLogger("evenhand")


def study(
    *, size: int | None = None, seed: int = 1, data: Data = None, score: str | None = None, outcome: str | None = None,
    group: str | None = None, reference: Label = None, kind: Literal["ranking", "classification"] | None = None,
    threshold: float | None = None, request: str | None = None, treated: str | None = None, cluster: str | None = None,
    weight: str | None = None, by: Columns = None, nan_policy: Literal["raise", "omit"] | None = None,
) -> Study:  # fmt: skip
    """Rerun both audits on `size` requests, and the comparison of measures on small worlds.

    Or put the paper's questions to a table of one's own: `data`, with its columns by role.

    Parameters
    ----------
    data : table with one row per scored candidate; score, outcome and group name its columns.
    score, outcome, group, reference, kind, threshold, request, treated, cluster, weight, by, nan_policy : as in `eh.outcome_test`.
    """
    needed = {"score": score, "outcome": outcome, "group": group}
    more = {
        "reference": reference, "kind": kind, "threshold": threshold, "request": request, "treated": treated,
        "cluster": cluster, "weight": weight, "by": by, "nan_policy": nan_policy,
    }  # fmt: skip
    if on_own_data(data, needed, more, size):
        return on_data(data, {**needed, **more}, seed)
    return _on_marketplaces(size, seed)


def _on_marketplaces(size: int | None, seed: int) -> Study:
    requests = REQUESTS if size is None else size
    jobs = notifications(requests, {"male": 0.3, "unknown": 0.3}, seed, batches=BATCHES)
    fair = notifications(requests, {}, seed + 1)
    people = ranking(requests, {"female": 0.3, "unknown": 0.3}, seed + 2)
    rates = {}
    for name, setting in SETTINGS.items():
        log.info("%s worlds that differ in: %s", WORLDS, name)
        rates[name] = rates_of(setting, WORLDS, seed)
    stated = claims(jobs, fair, people, rates)
    powers = [
        f"{r['group']} {r['detectable']:.4f}" for r in select(jobs.test, "pooled_gap") if is_number(r["detectable"])
    ]
    power = (
        f"Is that enough data? With {jobs.sample} of notifications a gap over all bins is found with a chance of 80% from: "
        f"{', '.join(powers)}. A no where less was measured than that is no evidence."
    )
    return Study(
        name="outcome",
        title=TITLE,
        setting=f"Generated marketplaces of {requests:,} requests (seed {seed}); rates over {WORLDS} worlds of {SMALL['requests']} "
        f"requests with {SMALL['candidates']} candidates each.",
        claims=stated,
        tables=_tables({"notifications, biased": jobs, "notifications, fair": fair, "ranking, biased": people}, rates),
        figures=_figures(jobs, people),
        sentences=(*([SILENT] if all(c.holds for c in stated if c.statement in MEASURES) else []), FOLDS, power),
        caveats=(CAVEAT,),
    )


def notifications(requests: int, bias: Mapping[str, float], seed: int, batches: int = 0) -> Audit:
    """Notifications, as InstaJob's: a threshold, and outcomes of 0, a part, or 1."""
    log.info("notifications with bias %s", dict(bias))
    data = eh.synthetic.marketplace("notifications", requests=requests, bias=bias, rng=seed)
    bar = float(data.filter(data["treated"])["score"].min())  # type: ignore[arg-type]
    return _audit(data, seed, batches, kind="classification", threshold=bar, reference="female")


def ranking(requests: int, bias: Mapping[str, float], seed: int) -> Audit:
    """Ranked lists, as People You May Know: seen as far as the viewer scrolls."""
    log.info("rankings with bias %s", dict(bias))
    data = eh.synthetic.marketplace("ranking", requests=requests, bias=bias, rng=seed)
    return _audit(data, seed, reference="male")


def _audit(data: pl.DataFrame, seed: int, batches: int = 0, **how: Any) -> Audit:
    """A marketplace and its tests; slots also without each of some batches of requests, for their errors."""
    roles = {"score": "score", "group": "group", "treated": "treated", "request": "request", **how}
    metrics = ("joint_test", "pooled_gap", "outcome_gap", "mean_outcome")
    test = eh.outcome_test(data, outcome="outcome", metrics=metrics, **roles)
    rest = (data.filter(data["request"] % batches != k) for k in range(batches))
    without = [eh.outcome_test(part, outcome="outcome", metrics="mean_outcome", **roles) for part in rest]
    whole, *others = (_reallocated(part, seed) for part in (test, *without))
    return Audit(
        data=data,
        test=test,
        truth=eh.outcome_test(data, outcome="expected", metrics="pooled_gap", **roles),
        slots=Replicates(whole, others),
        honest=test.counterfactual(null_draws=199, rng=seed),
    )


def _reallocated(test: Any, seed: int) -> Reallocated:
    """Slots given again as in the paper, and from one bin below the bar only."""
    return Reallocated(
        test.counterfactual(folds=1, window=None, null_draws=0, rng=seed),
        test.counterfactual(folds=1, null_draws=0, rng=seed),
    )


def rates_of(setting: Mapping[str, Any], worlds: int, seed: int) -> Rates:
    """How often each measure calls a world unfair to women, at the 5% level."""
    calls = np.array([_calls(setting, np.random.default_rng([seed, world])) for world in range(worlds)])
    return Rates(worlds, *(int(n) for n in calls.sum(0)))


def _calls(setting: Mapping[str, Any], rng: np.random.Generator) -> tuple[bool, bool, bool, bool]:
    """Whether joint test, marginal bin, precision and equalised odds call a small world unfair."""
    data = eh.synthetic.marketplace("notifications", rng=rng, groups={"female": 0.5, "male": 0.5}, **SMALL, **setting)
    data = data.filter(data["treated"])  # every score is above the bar, so the lowest bin is the marginal one
    score, outcome = data["score"].to_numpy(), data["outcome"].to_numpy()
    female = (data["group"] == "female").to_numpy()
    inner = np.quantile(score, np.arange(1, 10) / 10, method="inverted_cdf")
    decile = np.searchsorted(inner, score)
    sums = Moments.from_arrays(
        score, outcome, decile, female.astype(np.int64), shape=(10, 2), cluster=data["request"].to_numpy()
    )
    tested = gaps(sums, 0, "cluster")
    women, men = outcome[female], outcome[~female]
    error = np.sqrt(women.var(ddof=1) / len(women) + men.var(ddof=1) / len(men))
    return (
        bool(joint_test(tested).p < 0.05),
        bool(tested.p[0, 1] < 0.05),
        bool(abs(women.mean() - men.mean()) > 1.96 * error),
        _odds_differ(decile, outcome > 0, female, rng),
    )


def _odds_differ(decile: Any, success: Any, female: Any, rng: np.random.Generator, draws: int = 39) -> bool:
    """Whether the equalised-odds gap is beyond what groups shuffled within outcomes give."""
    gaps_by_draw = []
    for outcome in (False, True):
        everyone, women = (
            np.bincount(decile[rows], minlength=10) for rows in (success == outcome, (success == outcome) & female)
        )
        # Shuffled labels: women are drawn from everybody without replacement.
        shuffled = rng.multivariate_hypergeometric(everyone, int(women.sum()), size=draws, method="marginals")
        counts = np.vstack([women, shuffled])
        shares = [part / np.maximum(1, part.sum(1, keepdims=True)) for part in (counts, everyone - counts)]
        gaps_by_draw.append(np.abs(shares[0] - shares[1]).max(1))
    observed, *by_chance = np.maximum(*gaps_by_draw)
    return (1 + int(np.sum(np.array(by_chance) >= observed - 1e-12))) / (1 + draws) <= 0.05


def _tables(audits: Mapping[str, Audit], rates: Mapping[str, Rates]) -> tuple[Table, ...]:
    wrong = Table(
        "How often a world is called unfair, by what differs between the groups (5% is chance)",
        ("differs in", "joint test", "marginal bin", "precision", "equalised odds"),
        tuple((what, *(f"{v / r.worlds:.1%}" for v in r.cells())) for what, r in rates.items()),
    )
    changes = []
    for name, audit in audits.items():
        slots = audit.slots.whole
        plain = [select(r, "outcome_relative_change")[0] for r in (slots.printed, slots.bounded, audit.honest)]
        band = select(audit.honest, "outcome_relative_change_null")[0]
        gained = ", ".join(f"{r['group']} {r['estimate']:+,.0f}" for r in select(audit.honest, "slots_gained"))
        changes.append((name, *(f"{r['estimate']:+.2%}" for r in plain), ends(band, "+.2%"), gained))
    head = ("marketplace", "as printed", "within a bin of the bar", "two folds", "by chance alone", "slots gained")
    change = Table("Change of the outcome with slots given again", head, tuple(changes))
    return wrong, change


def _figures(jobs: Audit, people: Audit) -> tuple[Figure, ...]:
    by_decile = "mean outcome by group for each score decile"
    gap = "difference in outcomes to the reference, controlling for score, for each decile"
    return (
        Figure("figure-4", f"Figure 4, notifications: {by_decile}.", partial(jobs.test.plot, "outcomes")),
        Figure("figure-5", f"Figure 5, notifications: {gap}.", partial(jobs.test.plot, "gaps")),
        Figure("figure-6", f"Figure 6, ranking: {by_decile}.", partial(people.test.plot, "outcomes")),
        Figure("figure-7", f"Figure 7, ranking: {gap}.", partial(people.test.plot, "gaps")),
        Figure(
            "slots", "Who gains and loses notifications, with the band of chance.", partial(jobs.honest.plot, "slots")
        ),
    )
