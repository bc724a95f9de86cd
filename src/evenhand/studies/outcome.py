"""The outcome-test paper, rerun: two audits on generated marketplaces, and other measures.

The paper's data are private and its figures carry no numbers, so what is rerun is what it says comes out, on marketplaces
whose bias is known; and beside that, how often each measure is wrong where nothing is wrong with the scores.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.audits.outcome.outcome_test import outcome_test
from evenhand.audits.outcome.remedies import OutcomeResult
from evenhand.audits.parameters import Columns, Label
from evenhand.audits.parameters import Table as Data
from evenhand.metrics.outcome import gaps
from evenhand.metrics.outcome_joint import joint_test
from evenhand.results import Result
from evenhand.sources.outcomes import Missing
from evenhand.studies.outcome_findings import Rates, claims
from evenhand.studies.outcome_log import on_data, reach
from evenhand.studies.study import Figure, Study, Table, on_own_data
from evenhand.synthetic.marketplace import marketplace
from evenhand.tallies.moments import Moments

if TYPE_CHECKING:
    import polars as pl

REQUESTS = 15_000
"""Where the rise of the outcome and the moves of the large groups came out in every draw. What the smallest group gains came
out in most: twice as many requests show it no more often. docs/study-outcome.md has the figures."""
WORLDS = 200
SMALL: dict[str, Any] = {"requests": 300, "candidates": 40}
"""A world of the comparison: large enough for the joint test to find a scoring bias of 0.3 in four of five."""
TITLE = "Equal opportunity for the equally qualified: the outcome test on marketplaces whose bias is known"
ROLES: dict[str, Any] = {
    "score": "score",
    "outcome": "outcome",
    "group": "group",
    "treated": "treated",
    "request": "request",
}
READ = ("joint_test", "pooled_gap", "outcome_gap", "mean_outcome")
"""What the findings and figures read of the test."""
log = logging.getLogger("evenhand")

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "other qualifications": {"qualification": {"female": 0.6}},
    "very other qualifications": {"qualification": {"female": 1.0}},
    "human bias": {"human": {"female": 0.3}},
    "scoring bias": {"bias": {"female": 0.3}},
}
"""What differs between the groups, in worlds that are drawn again and again."""


@dataclass(frozen=True)
class Audit:
    """A marketplace, its test and what would change."""

    data: pl.DataFrame
    test: OutcomeResult
    truth: Result
    printed: Result
    bounded: Result
    honest: Result

    @property
    def sample(self) -> str:
        return f"{self.data['request'].n_unique():,} requests"


def study(
    *, size: int | None = None, seed: int = 1, data: Data = None, score: str | None = None, outcome: str | None = None,
    group: str | None = None, reference: Label = None, kind: Literal["ranking", "classification"] | None = None,
    threshold: float | None = None, request: str | None = None, treated: str | None = None, cluster: str | None = None,
    weight: str | None = None, by: Columns = None, nan_policy: Missing | None = None,
) -> Study:  # fmt: skip
    """Rerun both audits on `size` requests, and the comparison of measures on small worlds.

    Or put the paper's questions to a table of one's own: `data`, with its columns by role.

    Parameters
    ----------
    data : table with a row per scored candidate, its columns named by the roles score, outcome and group at least.
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
    jobs = _jobs(requests, {"male": 0.3, "unknown": 0.3}, seed)
    fair = _jobs(requests, {}, seed + 1)
    people = _people(requests, {"female": 0.3, "unknown": 0.3}, seed + 2)
    rates = {}
    for name, setting in SETTINGS.items():
        log.info("%s worlds that differ in: %s", WORLDS, name)
        rates[name] = rates_of(setting, WORLDS, seed)
    setting_words = (
        f"Generated marketplaces of {requests:,} requests (seed {seed}); rates over {WORLDS} worlds of {SMALL['requests']} "
        f"requests with {SMALL['candidates']} candidates each."
    )
    stated = claims(jobs, fair, people, rates)
    return Study(
        "outcome", TITLE, setting_words, stated, _tables(jobs, fair, people, rates), _figures(jobs, people),
        (*SENTENCES, _power(jobs)),
        (CAVEAT,),
    )  # fmt: skip


CAVEAT = (
    "The paper's data are private and its figures carry no numbers: these marketplaces are made up with the bias that it "
    "reports. A yes means that the procedure shows such a bias, not that LinkedIn had it."
)
SENTENCES = (
    "The outcome test finds the scoring bias and stays silent on different qualifications and on human bias; precision and "
    "equalised odds answer to all three.",
    "The paper's change of the outcome is never below zero by construction, and without a window it follows the marginal bin's "
    "line far below the bar. Allocating with one half of the requests and valuing with the other, within a window, gives a "
    "number that can be held against chance.",
)


def _power(jobs: Audit) -> str:
    """The smallest effects detected with 80% power, next to those measured."""
    seen = {what: (measured, least) for what, measured, least, _ in reach(jobs.test, jobs.honest).rows}
    parts = [f"{what} {least} (measured {measured})" for what, (measured, least) in seen.items() if "bin" not in what]
    return (
        f"Is that enough data? With {jobs.sample} of notifications a change is found with a chance of 80% from: {', '.join(parts)}. "
        "A no where less was measured than that is no evidence."
    )


def _jobs(requests: int, bias: Mapping[str, float], seed: int) -> Audit:
    """Notifications, as InstaJob's: a threshold, and outcomes of 0, a part, or 1."""
    log.info("notifications with bias %s", dict(bias))
    data = marketplace("notifications", requests=requests, bias=bias, rng=seed)
    bar = float(data.filter(data["treated"])["score"].min())  # type: ignore[arg-type]
    return _audit(data, {"kind": "classification", "threshold": bar, "reference": "female"}, seed)


def _people(requests: int, bias: Mapping[str, float], seed: int) -> Audit:
    """Ranked lists, as People You May Know: seen as far as the viewer scrolls."""
    log.info("rankings with bias %s", dict(bias))
    return _audit(marketplace("ranking", requests=requests, bias=bias, rng=seed), {"reference": "male"}, seed)


def _audit(data: pl.DataFrame, how: Mapping[str, Any], seed: int) -> Audit:
    test = outcome_test(data, **ROLES, **how, metrics=READ)
    truth = outcome_test(data, **{**ROLES, "outcome": "expected"}, **how, metrics="pooled_gap")
    printed = test.counterfactual(folds=1, window=None, null_draws=0, rng=seed)
    bounded = test.counterfactual(folds=1, null_draws=0, rng=seed)
    return Audit(data, test, truth, printed, bounded, test.counterfactual(null_draws=99, rng=seed))


def rates_of(setting: Mapping[str, Any], worlds: int, seed: int) -> Rates:
    """How often each measure calls a world unfair to women, at the 5% level."""
    verdicts = np.array([_verdicts(setting, [seed, world]) for world in range(worlds)])
    return Rates(worlds, *verdicts.mean(0).tolist())


def _verdicts(setting: Mapping[str, Any], seed: list[int]) -> tuple[bool, bool, bool, bool]:
    """Verdicts of joint test, marginal bin, precision and equalised odds on a small world."""
    draw = np.random.default_rng(seed)
    data = marketplace("notifications", rng=draw, groups={"female": 0.5, "male": 0.5}, **SMALL, **setting)
    data = data.filter(data["treated"])
    s, y = data["score"].to_numpy(), data["outcome"].to_numpy()
    female = (data["group"] == "female").to_numpy()
    inner = np.quantile(s, np.arange(1, 10) / 10, method="inverted_cdf")
    b, g, success = np.searchsorted(inner, s), female.astype(np.int64), (y > 0).astype(np.float64)
    tested = gaps(Moments.from_arrays(s, y, b, g, shape=(10, 2), cluster=data["request"].to_numpy()), 0, "cluster")
    means = [y[female == side] for side in (True, False)]
    error = np.sqrt(sum(m.var(ddof=1) / len(m) for m in means))
    return (
        joint_test(tested).p < 0.05,
        bool(tested.p[0, 1] < 0.05),
        abs(means[0].mean() - means[1].mean()) > 1.96 * error,
        _odds_differ(Moments.from_arrays(s, success, b, g, shape=(10, 2)), b, g, success, draw),
    )


def _binned_odds(m: Moments) -> float:
    """Largest difference between the two groups in the share of a score bin, given the outcome."""
    shares = [counts / counts.sum(0) for counts in (m.above, m.rows - m.above)]
    return float(max(np.abs(share[:, 1] - share[:, 0]).max() for share in shares))


def _odds_differ(m: Moments, b: Any, g: Any, success: Any, draw: np.random.Generator, draws: int = 39) -> bool:
    """Whether the equalised-odds gap is beyond what groups shuffled within outcomes give."""
    seen = _binned_odds(m)
    shuffled = 0
    for _ in range(draws):
        mixed = g.copy()
        for side in (0.0, 1.0):
            at = np.flatnonzero(success == side)
            mixed[at] = mixed[draw.permutation(at)]
        shares = [np.bincount(b[(mixed == h) & (success == r)], minlength=10) for r in (0.0, 1.0) for h in (0, 1)]
        parts = [x / max(1, x.sum()) for x in shares]
        shuffled += max(np.abs(parts[0] - parts[1]).max(), np.abs(parts[2] - parts[3]).max()) >= seen
    return (1 + shuffled) / (1 + draws) <= 0.05


def _tables(jobs: Audit, fair: Audit, people: Audit, rates: Mapping[str, Rates]) -> tuple[Table, ...]:
    names = ("joint test", "marginal bin", "precision", "equalised odds")
    rows = tuple((what, *(f"{v:.1%}" for v in r.cells())) for what, r in rates.items())
    wrong = Table(
        "How often a world is called unfair, by what differs between the groups (5% is chance)",
        ("differs in", *names),
        rows,
    )
    audits = {"notifications, biased": jobs, "notifications, fair": fair, "ranking, biased": people}
    power = (reach(a.test, a.honest, of=name) for name, a in audits.items())
    return wrong, _change_table(audits), *power


def _change_table(audits: Mapping[str, Audit]) -> Table:
    head = (
        "marketplace",
        "as printed",
        "within a bin of the bar",
        "two folds",
        "by chance alone",
        "slots gained (two folds)",
    )
    rows = []
    for name, audit in audits.items():
        values = {(r["metric"], r["group"]): r for r in audit.honest.findings.rows()}
        plain = [
            next(r for r in result.findings.rows() if r["metric"] == "outcome_relative_change")
            for result in (audit.printed, audit.bounded)
        ]
        band = values["outcome_relative_change_null", None]
        gained = ", ".join(f"{g} {r['estimate']:+,.0f}" for (m, g), r in values.items() if m == "slots_gained")
        rows.append(
            (
                name,
                *(f"{r['estimate']:+.2%}" for r in plain),
                f"{values['outcome_relative_change', None]['estimate']:+.2%}",
                f"{band['low']:+.2%} to {band['high']:+.2%}",
                gained,
            )
        )
    return Table("Change of the outcome with slots given again", head, tuple(rows))


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
