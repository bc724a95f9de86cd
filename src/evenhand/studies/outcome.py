"""The outcome-test paper, rerun: two audits on generated marketplaces, and other measures.

The paper's data are private and its figures carry no numbers, so what is rerun is what it says comes out, on marketplaces
whose bias is known; and beside that, how often each measure is wrong where nothing is wrong with the scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audits.declare import Label
from evenhand.audits.declare import Table as Data
from evenhand.errors import EvenhandError, listing

# A thousand small worlds: eh.outcome_test asks its engine six questions of each, which takes ten times as long.
from evenhand.metrics.outcome import gaps
from evenhand.metrics.outcome_joint import joint_test
from evenhand.report.words.text import p_text
from evenhand.studies.study import (
    UNKNOWN,
    Claim,
    Evidence,
    Figure,
    Replicates,
    Row,
    Study,
    Table,
    above_zero,
    certain,
    decide,
    ends,
    error_of,
    every,
    is_number,
    on_own_data,
    rate_above,
    result_table,
    select,
    with_interval,
    with_sign,
)
from evenhand.tallies.moments import Moments

if TYPE_CHECKING:
    from evenhand.audits.outcome.remedies import OutcomeResult

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
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "other qualifications": {"qualification": {"female": 0.6}},
    "very other qualifications": {"qualification": {"female": 1.0}},
    "human bias": {"human": {"female": 0.3}},
    "scoring bias": {"bias": {"female": 0.3}},
}
"""What differs between the groups, in worlds that are drawn again and again."""


def study(
    *, size: int | None = None, seed: int = 1, data: Data = None, score: str | None = None, outcome: str | None = None,
    group: str | None = None, reference: Label = None, kind: Literal["ranking", "classification"] | None = None,
    threshold: float | None = None, request: str | None = None, treated: str | None = None, cluster: str | None = None,
    nan_policy: Literal["raise", "omit"] | None = None,
) -> Study:  # fmt: skip
    """Rerun both audits on `size` requests, and the comparison of measures on small worlds.

    Or put the paper's questions to a table of one's own: `data`, with its columns by role.

    Parameters
    ----------
    data : table with one row per scored candidate; score, outcome and group name its columns.
    score, outcome, group, reference, kind, threshold, request, treated, cluster, nan_policy : as in `eh.outcome_test`.
    """
    needed = {"score": score, "outcome": outcome, "group": group}
    more = {
        "reference": reference, "kind": kind, "threshold": threshold, "request": request, "treated": treated,
        "cluster": cluster, "nan_policy": nan_policy,
    }  # fmt: skip
    if on_own_data(data, needed, more, size):
        return _on_data(data, {**needed, **more}, seed)
    return _on_marketplaces(size, seed)


def _on_marketplaces(size: int | None, seed: int) -> Study:
    requests = REQUESTS if size is None else size
    jobs = notifications(requests, {"male": 0.3, "unknown": 0.3}, seed, batches=BATCHES)
    fair = notifications(requests, {}, seed + 1)
    people = ranking(requests, {"female": 0.3, "unknown": 0.3}, seed + 2)
    rates = {}
    for name, setting in SETTINGS.items():
        rates[name] = rates_of(setting, WORLDS, seed)
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
        claims=claims(jobs, fair, people, rates),
        tables=_tables({"notifications, biased": jobs, "notifications, fair": fair, "ranking, biased": people}, rates),
        figures=_figures(jobs, people),
        sentences=(power,),
        caveats=(CAVEAT,),
    )


def notifications(requests: int, bias: Mapping[str, float], seed: int, batches: int = 0) -> Audit:
    """Notifications, as InstaJob's: a threshold, and outcomes of 0, a part, or 1."""
    data = eh.synthetic.marketplace("notifications", requests=requests, bias=bias, rng=seed)
    bar = float(data.filter(data["treated"])["score"].min())  # type: ignore[arg-type]
    return _audit(data, seed, batches, kind="classification", threshold=bar, reference="female")


def ranking(requests: int, bias: Mapping[str, float], seed: int) -> Audit:
    """Ranked lists, as People You May Know: seen as far as the viewer scrolls."""
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
    return Reallocated(
        test.counterfactual(folds=1, window=None, null_draws=0, rng=seed),
        test.counterfactual(folds=1, null_draws=0, rng=seed),
    )


def rates_of(setting: Mapping[str, Any], worlds: int, seed: int) -> Rates:
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


@dataclass(frozen=True)
class Move:
    """The change of a group, and the range in which it lies by chance alone."""

    change: Row
    band: Row

    @property
    def is_gain(self) -> Evidence:
        """Whether the change is above zero and above what chance gives; not so if it is below both."""
        change = float(self.change["estimate"])
        beyond = above_zero(change - self.band["estimate"], error_of(self.band))
        return Evidence(beyond.yes if change > 0 else 1.0, beyond.no if change < 0 else 1.0)

    def text(self, form: str) -> str:
        return f"{self.change['group'] or 'all'} {self.change['estimate']:{form}} (by chance {ends(self.band, form)})"


@dataclass(frozen=True)
class Reallocated:
    """Slots given again as in the paper (`printed`), and to candidates from one bin below the bar only (`bounded`)."""

    printed: eh.Result
    bounded: eh.Result

    def rise(self, how: str) -> float:
        """Relative change of the outcome of all slots."""
        return float(select(getattr(self, how), "outcome_relative_change")[0]["estimate"])

    def moved(self, how: str) -> float:
        """Largest relative change of a group's slots."""
        return max(abs(float(r["estimate"])) for r in select(getattr(self, how), "slots_relative_change"))


@dataclass(frozen=True)
class Audit:
    """A marketplace, its test, the test of true qualifications, and slots given again.

    `slots` also without a batch of requests each, where their errors are asked for; `honest`: from one bin below the bar only,
    with two folds.
    """

    data: pl.DataFrame
    test: eh.Result
    truth: eh.Result
    slots: Replicates[Reallocated]
    honest: eh.Result

    @property
    def sample(self) -> str:
        return f"{self.data['request'].n_unique():,} requests"


@dataclass(frozen=True)
class Rates:
    worlds: int
    joint: int
    marginal: int
    precision: int
    odds: int

    def cells(self) -> tuple[int, int, int, int]:
        return self.joint, self.marginal, self.precision, self.odds

    def text(self, measure: str) -> str:
        return f"{getattr(self, measure) / self.worlds:.1%}"

    def above(self, measure: str, bound: float) -> Evidence:
        return rate_above(getattr(self, measure), self.worlds, bound)

    def is_silent(self, measure: str) -> Evidence:
        """Whether a 5% test is surely below `MOST` of worlds; no if it is surely above 5%."""
        return Evidence(self.above(measure, MOST).no, self.above(measure, 0.05).yes)


def claims(jobs: Audit, fair: Audit, people: Audit, rates: Mapping[str, Rates]) -> tuple[Claim, ...]:
    return decide((
        *_toys(),
        *(replace(c, sample=jobs.sample) for c in notification_claims(jobs, fair)),
        *(replace(c, sample=people.sample) for c in ranking_claims(people)),
        *(replace(c, sample=f"{rates['nothing'].worlds} worlds each") for c in _measures(rates)),
        *_equalised_odds(),
    ))  # fmt: skip


def _moves(result: eh.Result, groups: Sequence[str | None], metric: str = "slots_gained") -> list[Move]:
    return [Move(select(result, metric, group=g)[0], select(result, f"{metric}_null", group=g)[0]) for g in groups]


def _listed(moves: Sequence[Move], form: str = "+,.0f") -> str:
    return ", ".join(move.text(form) for move in moves)


def _as_stated(moves: Sequence[Move], stated: Sequence[int]) -> Evidence:
    return every(m.is_gain if sign > 0 else ~m.is_gain for m, sign in zip(moves, stated, strict=True))


def _in_every_decile(result: eh.Result, group: str) -> tuple[str, Evidence]:
    """Whether a group's outcome is above the reference's in each decile at equal score."""
    rows = select(result, "outcome_gap", group=group)
    signs = [with_sign(r) for r in rows]
    higher = sum(sign.verdict() is True for sign in signs)
    text = f"higher in {sum(r['estimate'] > 0 for r in rows)} of {len(rows)} deciles, significantly in {higher}"
    return text, every(signs)


BEYOND = "each beyond its band of chance"
EVERY = "significantly in each; no if significantly lower in one"
MOST = 0.10  # of worlds: twice what a 5% test calls by chance


def _toys() -> tuple[Claim, ...]:
    o, x = {0.6: 2, 0.8: 1, 1.0: 1}, {0.6: 4, 0.8: 5, 1.0: 3}
    averages = (
        eh.metrics.average_outcome(o, 0.6),
        eh.metrics.average_outcome(x, 0.6),
        eh.metrics.average_outcome({0.6: 3, 0.8: 4, 1.0: 5}, 0.6),
    )
    margins = eh.metrics.marginal_outcome(o, 0.6), eh.metrics.marginal_outcome(x, 0.6)
    blind = eh.metrics.average_outcome({0.8: 3, 1.0: 3}, 0.8), eh.metrics.average_outcome({0.6: 1, 0.8: 1, 1.0: 4}, 0.6)
    return (
        Claim(
            "One bar for both groups, and the average outcomes differ (infra-marginality)", "3.4", "0.75, 0.78 and 0.83",
            ", ".join(f"{v:.4f}" for v in averages), certain([round(v, 2) for v in averages] == [0.75, 0.78, 0.83]),
        ),
        Claim("The marginal outcomes agree", "3.5", "0.6 and 0.6", f"{margins[0]} and {margins[1]}", certain(margins == (0.6, 0.6))),
        Claim(
            "Precision can be equal although one group is under-scored", "5.4.2.2", "0.9 and 0.9",
            f"{blind[0]:.4f} and {blind[1]:.4f}", certain(all(round(v, 9) == 0.9 for v in blind)),
        ),
    )  # fmt: skip


def notification_claims(jobs: Audit, fair: Audit) -> tuple[Claim, ...]:
    first = select(jobs.test, "outcome_gap", group="male")[0]
    slots = _moves(jobs.honest, ("male", "unknown", "female"))
    return (
        Claim(
            "Men, under-scored, realise higher outcomes in every decile, the marginal one included", "4.1, fig. 4",
            "systematically higher", *_in_every_decile(jobs.test, "male"), counts=EVERY,
        ),
        Claim(
            "The gap in the marginal decile is positive and significant", "4.1, fig. 5", "positive, significant",
            f"{first['estimate']:.4f} (p = {first['p']:.4f})", with_sign(first),
        ),
        _size(jobs, "male", "4.1"),
        Claim(
            "Without the bias men and unknown gain notifications, women lose them", "4.1", "up, up, down",
            _listed(slots), _as_stated(slots, (1, 1, -1)), counts=BEYOND,
        ),
        *_outcome_rises(jobs.slots),
        _honest_rise(jobs, fair),
    )  # fmt: skip


def _outcome_rises(slots: Replicates[Reallocated]) -> tuple[Claim, ...]:
    """Claims on the outcome of all slots, next to how many of them move; errors by leaving out batches of requests."""
    printed, bounded = (slots.whole.rise(how) for how in ("printed", "bounded"))
    largest, near = (slots.whole.moved(how) for how in ("printed", "bounded"))

    def within(how: str) -> Evidence:
        return slots.within(lambda r: r.rise(how), 0.0, 0.02)

    def is_smaller(how: str) -> Evidence:
        return slots.above(lambda r: r.moved(how) - abs(r.rise(how)))

    return (
        Claim(
            "The outcome rises with the slots given again, predicted and valued with the same rows", "4.1", "by almost 1%",
            f"{printed:+.2%}: the line of the marginal bin reaches far below the bar", within("printed"), counts="surely 0 to 2%",
        ),
        Claim(
            "The outcome changes less than the notifications", "4.1", "small compared to them",
            f"{abs(printed):.2%} against {largest:.2%}", is_smaller("printed"),
        ),
        Claim(
            "Both, with candidates from one bin below the bar only (our window)", "4.1", "(not done there)",
            f"{bounded:+.2%}, against {near:.2%} of notifications", every((within("bounded"), is_smaller("bounded"))), is_ours=True,
        ),
    )  # fmt: skip


def _size(audit: Audit, group: str, where: str) -> Claim:
    gap, truth = (select(result, "pooled_gap", group=group)[0] for result in (audit.test, audit.truth))
    from_zero, from_truth = (above_zero(gap["estimate"] - x, error_of(gap)) for x in (0.0, truth["estimate"]))
    return Claim(
        "The gap found is the gap that the true qualifications give", where, "(not stated: the truth is unknown there)",
        f"{with_interval(gap)}, true {truth['estimate']:.4f}",
        Evidence(min(from_zero.yes, from_zero.no), min(from_truth.yes, from_truth.no)),
        counts="the interval holds the truth, and not 0", is_ours=True,
    )  # fmt: skip


def _honest_rise(jobs: Audit, fair: Audit) -> Claim:
    """Whether the rise is beyond chance where there is bias, and is not where there is none."""
    moves = [
        Move(
            select(audit.honest, "outcome_relative_change")[0], select(audit.honest, "outcome_relative_change_null")[0]
        )
        for audit in (jobs, fair)
    ]
    texts = (f"{m.change['estimate']:+.2%}, by chance {ends(m.band, '+.2%')}" for m in moves)
    return Claim(
        "The rise is beyond chance with bias and not without (two folds)", "4.1", "(not tested there)",
        "; ".join(f"{name} {text}" for name, text in zip(("biased", "fair"), texts, strict=True)),
        every((moves[0].is_gain, Evidence(0.0, moves[1].is_gain.yes))), counts="above zero and above the band with bias only", is_ours=True,
    )  # fmt: skip


def ranking_claims(people: Audit) -> tuple[Claim, ...]:
    joint, pooled = select(people.test, "joint_test")[0], select(people.test, "pooled_gap", group="female")[0]
    slots = _moves(people.honest, ("female", "unknown", "male"))
    ranks = _moves(people.honest, ("female", "unknown", "male"), "mean_rank_change")
    return (
        Claim(
            "Women, under-scored, realise higher outcomes in every decile", "4.2, fig. 6", "systematically higher",
            *_in_every_decile(people.test, "female"), counts=EVERY,
        ),
        Claim(
            "Outcomes differ at equal score along the scores", "4.2, fig. 7", "positive, significant",
            f"joint test p = {joint['p']:.2g}; over all {with_interval(pooled, '+.4f')}",
            every((Evidence(joint["p"], 1.0), with_sign(pooled))), counts="joint test below 5%, and women do better over all",
        ),
        _size(people, "female", "4.2"),
        Claim(
            "Re-ranked without the bias, men move up, women and unknown down, in line with women being under-scored", "4.2",
            "men up, women and unknown down", f"change of the mean rank: {_listed(ranks, '+,.2f')}; below zero is up",
            _as_stated(ranks, (1, 1, -1)), counts=BEYOND,
        ),
        Claim(
            "The under-scored groups gain slots", "4.2", "(not stated)",
            _listed(slots), _as_stated(slots, (1, 1, -1)), counts=BEYOND, is_ours=True,
        ),
    )  # fmt: skip


MEASURES = (
    "Fair scores are not called unfair",
    "Different qualifications alone (0.6 and 1 standard deviation) are not taken for bias",
    "Precision takes them for bias",
    "Equalised odds takes them for bias",
    "Human bias is not sent to the algorithm",
    "A scoring bias is found",
)
SILENCE = f"surely below {MOST:.0%} of worlds; no if surely above 5%"
OFTEN = f"surely above {MOST:.0%} of worlds"


def _measures(rates: Mapping[str, Rates]) -> tuple[Claim, ...]:
    none, human, biased = (rates[k] for k in ("nothing", "human bias", "scoring bias"))
    qualified = [rates["other qualifications"], rates["very other qualifications"]]

    def both(name: str) -> str:
        return " and ".join(r.text(name) for r in qualified)

    return (
        Claim(
            MEASURES[0], "3.5", "no violation",
            f"joint test {none.text('joint')}, marginal bin {none.text('marginal')} of {none.worlds} worlds (5% is chance)",
            every(map(none.is_silent, ("joint", "marginal"))), counts=SILENCE,
        ),
        Claim(
            MEASURES[1], "3.4, 5.4", "not by the outcome test", f"joint test {both('joint')}, marginal bin {both('marginal')}",
            every(r.is_silent(name) for r in qualified for name in ("joint", "marginal")), counts=SILENCE,
        ),
        Claim(
            MEASURES[2], "5.4.2", "false positive", f"{both('precision')} of worlds",
            every(r.above("precision", MOST) for r in qualified), counts=OFTEN,
        ),
        Claim(
            MEASURES[3], "5.4.1", "false positive", f"{both('odds')} of worlds",
            every(r.above("odds", MOST) for r in qualified), counts=OFTEN,
        ),
        Claim(
            MEASURES[4], "5.1", "separate", f"joint test {human.text('joint')}; precision {human.text('precision')} of worlds",
            every((human.is_silent("joint"), human.above("precision", MOST))), counts=f"joint test {SILENCE}; precision {OFTEN}",
        ),
        Claim(
            MEASURES[5], "3.6", "found", f"joint test {biased.text('joint')}, marginal bin {biased.text('marginal')}",
            biased.above("joint", 0.5), counts="joint test surely in more than half",
        ),
    )  # fmt: skip


def _equalised_odds() -> tuple[Claim, Claim]:
    """The paper's example of scores that satisfy equalised odds, which does not, and one that does."""
    masses = {0.2: 1, 0.4: 2, 0.6: 2, 0.8: 1}
    printed = {"O": [(m, q, q) for q, m in masses.items()], "X": [(m, round(1 - q, 1), q) for q, m in masses.items()]}
    repaired = {"O": [(25, 0.8, 0.8), (25, 0.2, 0.2)], "X": [(34, 0.8, 16 / 17), (16, 0.2, 1 / 2)]}
    gaps = [eh.metrics.equalized_odds_gap(groups) for groups in (printed, repaired)]
    return (
        Claim(
            "Scores q for one group and 1 - q for the other satisfy equalised odds", "5.4.1.2", "gap 0",
            f"gap {gaps[0]:.2f} for masses 1, 2, 2, 1; no distribution on several scores gives 0", certain(gaps[0] < 1e-9),
        ),
        Claim(
            "Equalised odds can hold although a group is under-scored (another example)", "5.4.1", "false negative",
            f"gap {gaps[1]:.1g} with 16/17 scored 0.8 and 1/2 scored 0.2", certain(gaps[1] < 1e-9), is_ours=True,
        ),
    )  # fmt: skip


OWN_TITLE = "Equal opportunity for the equally qualified: the outcome test on a table of one's own"
OWN = (
    "A yes or a no says what this table shows by the rule beside it. The paper speaks of other data: neither confirms nor "
    "refutes it. Who is really qualified stands in no table, so that what needs it cannot be told."
)
SMALL_GAP = 0.05  # of the mean outcome
NEGLIGIBLE = f"no if all gaps are significantly within {SMALL_GAP:.0%} of the mean outcome around 0"
MIN_BINS = 5  # for "in every bin" to say something: a coin falls the same way four times in a row too often
NULL_DRAWS = 999  # for a p that stays small when it is adjusted over a dozen groups
HIGHER = "A group realises higher outcomes than the reference in every bin"
SIZE = "Over all bins a group does better or worse than the reference at equal score"
BEYOND_CHANCE = ("The outcome rises with the slots given again, beyond chance (two folds)", "4.1", "by almost 1%")


def _on_data(data: Any, roles: Mapping[str, Any], seed: int) -> Study:
    """All figures and findings that a table allows, whose truth nobody knows."""
    arguments = {role: value for role, value in roles.items() if value is not None}
    test: OutcomeResult = eh.outcome_test(data, **arguments)
    slots = _reallocate(test, arguments, seed)
    is_ranking = arguments.get("kind", "ranking") == "ranking"
    facts, reference = test.provenance, test.findings.words.get("reference", "nobody")
    table = facts["plan"].get("table")
    read = "Rows" if facts.get("rows") is None else f"{facts['rows']:,} rows"
    where = f" of {table}" if isinstance(table, str) else ""
    limits = "; ".join(f"{limit[0].lower()}{limit[1:].rstrip('.')}" for limit in facts["cannot_say"])
    tests = [m for m in ("joint_test", "marginal_test", "pooled_gap") if m in test.findings.metrics()]
    honest = None if isinstance(slots, str) else slots
    return Study(
        name="outcome",
        title=OWN_TITLE,
        setting=f"{read}{where}; others are compared with {reference!r} (seed {seed}).",
        claims=decide((*_differences(test, is_ranking=is_ranking), *_reallocations(slots, is_ranking=is_ranking))),
        tables=_own_tables(test, honest),
        figures=_own_figures(test, honest),
        sentences=tuple(test.only(*tests).sentences()[:12]) if tests else (),
        caveats=(OWN, f"What it cannot say: {limits}."),
    )


def _reallocate(test: OutcomeResult, arguments: Mapping[str, Any], seed: int) -> eh.Result | str:
    if not test.evidence:
        return "there are no two groups to compare"
    if "treated" not in arguments and arguments.get("kind") != "classification" and "request" not in arguments:
        return "every row has its slot: the column of who was treated, or of the request, is not named"
    try:
        return test.counterfactual(null_draws=NULL_DRAWS, rng=seed)
    except EvenhandError as error:
        return str(error).partition(". ")[0]


def _units(rows: Iterable[Row], what: str = "rows") -> str:
    return f"{sum(int(r['units'] or 0) for r in rows):,} {what}"


def _tested(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a p, the smallest first."""
    return sorted((r for r in rows if is_number(r["p"])), key=lambda r: float(r["p"]))


def _differences(test: OutcomeResult, *, is_ranking: bool) -> tuple[Claim, ...]:
    """Claims on outcomes at equal score: all bins of a ranking or the lowest of a threshold, each bin, and the size."""
    if is_ranking:
        metric, name = "joint_test", "joint test"
        statement = ("Outcomes differ at equal score along the scores", "4.2, fig. 7", "positive, significant")
    else:
        metric, name = "marginal_test", "test of the lowest bin"
        statement = ("Outcomes differ right above the threshold", "4.1, fig. 5", "positive, significant")
    rows, gaps = select(test, metric), _tested(select(test, "pooled_gap"))
    p = min((r["p"] for r in _tested(rows)), default=math.nan)
    near = gaps if is_ranking else _tested(select(test, "outcome_gap", bin=1))
    size = Evidence(min((r["p_adjusted"] for r in gaps), default=math.nan), _negligible(test, gaps))
    sizes = listing([f"{r['group']} {with_interval(r, '+.4f')}" for r in gaps], 4)
    return (
        Claim(
            *statement, f"{name} {p_text(p) if is_number(p) else 'has nothing to test'}", Evidence(p, _negligible(test, near)),
            counts=f"p below 5%; {NEGLIGIBLE}", sample=_units(rows),
        ),
        _higher(test),
        Claim(
            SIZE, "4.1, 4.2", "(not stated)", sizes or "nothing to test", size,
            counts=f"adjusted p below 5%; {NEGLIGIBLE}", is_ours=True, sample=_units(select(test, "pooled_gap")),
        ),
    )  # fmt: skip


def _negligible(test: OutcomeResult, gaps: Sequence[Row]) -> float:
    """The p with which every gap is too small to matter."""
    means = [abs(r["estimate"]) for r in select(test, "mean_outcome") if is_number(r["estimate"])]
    if not means or not gaps:
        return math.nan
    bound = SMALL_GAP * sum(means) / len(means)
    within = ((bound + sign * r["estimate"], error_of(r)) for r in gaps for sign in (-1, 1))
    return every(above_zero(room, error) for room, error in within).yes


def _higher(test: OutcomeResult) -> Claim:
    by_group: dict[str, list[Row]] = {}
    for r in _tested(select(test, "outcome_gap")):
        by_group.setdefault(r["group"], []).append(r)
    texts, parts = [], []
    for group, rows in by_group.items():
        texts.append(f"{group} in {sum(r['estimate'] > 0 for r in rows)} of {len(rows)}")
        in_each = every(map(with_sign, rows))
        parts.append(in_each if len(rows) >= MIN_BINS else Evidence(1.0, in_each.no))
    return Claim(
        HIGHER, "4, fig. 4, 6", "systematically higher", listing(texts, 6) or "no bin holds two groups",
        ~every(~part for part in parts),
        counts=f"significantly in all of {MIN_BINS} bins or more; no if every group is significantly lower in a bin",
        sample=_units(select(test, "mean_outcome")),
    )  # fmt: skip


def _reallocations(slots: eh.Result | str, *, is_ranking: bool) -> tuple[Claim, Claim]:
    """Claims on slots given again: who moves, and how the outcome of all slots changes."""
    metric, moved = ("mean_rank_change", "mean rank changes") if is_ranking else ("slots_gained", "slots change")
    stated = ("4.2", "men up, women and unknown down") if is_ranking else ("4.1", "up, up, down")
    statement = (f"With slots given again, some group's {moved} beyond chance", *stated)
    if isinstance(slots, str):
        return Claim(*statement, slots, UNKNOWN), Claim(*BEYOND_CHANCE, slots, UNKNOWN)
    sample = _units(select(slots, "outcome_before"), "slots")
    changes, rises = (
        _moves(slots, [r["group"] for r in _tested(select(slots, name))], name)
        for name in (metric, "outcome_relative_change")
    )
    form = "+,.2f" if is_ranking else "+,.0f"
    return (
        Claim(
            *statement, listing([move.text(form) for move in changes], 4) or "nothing to test",
            Evidence(yes=changes[0].change["p"] * len(changes)) if changes else UNKNOWN, counts="p adjusted over groups below 5%",
            sample=sample,
        ),
        Claim(
            *BEYOND_CHANCE, listing([move.text("+.2%") for move in rises], 4) or "nothing to test",
            ~every(~move.is_gain for move in rises), counts="above zero and above the band; no if below both", sample=sample,
        ),
    )  # fmt: skip


def _own_tables(test: OutcomeResult, honest: eh.Result | None) -> tuple[Table, ...]:
    in_bins = ("mean_outcome", "outcome_gap")
    others = [metric for metric in test.findings.metrics() if metric not in in_bins]
    slots = "Slots given again to the highest predicted outcomes (two folds)"
    return (
        result_table("The groups, at equal score and as other measures see them", test, *others),
        result_table("Mean outcomes and gaps along the score", test, *in_bins),
        *([] if honest is None else [result_table(slots, honest)]),
    )


def _own_figures(test: OutcomeResult, honest: eh.Result | None) -> tuple[Figure, ...]:
    captions = {
        "outcomes": "Mean outcome by group along the score (figures 4 and 6 of the paper).",
        "gaps": "Gap to the reference at equal score (figures 5 and 7 of the paper).",
        "calibration": "Mean outcome against mean score.",
    }
    drawn = [Figure(kind, text, partial(test.plot, kind)) for kind, text in captions.items() if kind in test.kinds]
    slots = "Who gains and loses slots, with the band of chance."
    return (*drawn, *([] if honest is None else [Figure("slots", slots, partial(honest.plot, "slots"))]))
