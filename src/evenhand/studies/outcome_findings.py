"""The findings of the outcome-test paper, checked on marketplaces of known bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

import evenhand as eh
from evenhand.studies.study import Claim, Row, ends, select, with_interval


@dataclass(frozen=True)
class Audit:
    """A marketplace, its test, the test of true qualifications, and slots given again in three ways.

    `printed`: as in the paper; `bounded`: candidates from one bin below the bar only; `honest`: that, with two folds.
    """

    data: pl.DataFrame
    test: eh.Result
    truth: eh.Result
    printed: eh.Result
    bounded: eh.Result
    honest: eh.Result

    @property
    def sample(self) -> str:
        return f"{self.data['request'].n_unique():,} requests"


@dataclass(frozen=True)
class Rates:
    """Share of worlds that each measure calls unfair."""

    worlds: int
    joint: float
    marginal: float
    precision: float
    odds: float

    def cells(self) -> tuple[float, float, float, float]:
        return self.joint, self.marginal, self.precision, self.odds


def claims(jobs: Audit, fair: Audit, people: Audit, rates: Mapping[str, Rates]) -> tuple[Claim, ...]:
    """Every statement of sections 3 to 5 that a number can answer."""
    return (
        *_toys(),
        *(replace(c, sample=jobs.sample) for c in _notifications(jobs, fair)),
        *(replace(c, sample=people.sample) for c in _ranking(people)),
        *(replace(c, sample=f"{rates['nothing'].worlds} worlds each") for c in _measures(rates)),
        *_equalised_odds(),
    )


@dataclass(frozen=True)
class Move:
    """The change of a group, and the range in which it lies by chance alone."""

    change: Row
    band: Row

    @property
    def sign(self) -> int:
        """Sign of a statistically significant change; 0 if it is not significant."""
        change, low, high = self.change["estimate"], self.band["low"], self.band["high"]
        return int(change > max(high, 0)) - int(change < min(low, 0))


def _moves(result: eh.Result, groups: Sequence[str], metric: str = "slots_gained") -> list[Move]:
    return [Move(select(result, metric, group=g)[0], select(result, f"{metric}_null", group=g)[0]) for g in groups]


def _listed(moves: Sequence[Move], form: str = "+,.0f") -> str:
    return ", ".join(
        f"{m.change['group']} {m.change['estimate']:{form}} (by chance {ends(m.band, form)})" for m in moves
    )


def _deciles_in_which(result: eh.Result, group: str, other: str) -> tuple[int, int]:
    """In how many deciles the mean outcome of a group is above another's, and how many there are."""
    pairs = zip(*(select(result, "mean_outcome", group=g) for g in (group, other)), strict=True)
    higher = [a["estimate"] > b["estimate"] for a, b in pairs]
    return sum(higher), len(higher)


BEYOND = "each beyond its band of chance"


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
            ", ".join(f"{v:.4f}" for v in averages), [round(v, 2) for v in averages] == [0.75, 0.78, 0.83],
        ),
        Claim("The marginal outcomes agree", "3.5", "0.6 and 0.6", f"{margins[0]} and {margins[1]}", margins == (0.6, 0.6)),
        Claim(
            "Precision can be equal although one group is under-scored", "5.4.2.2", "0.9 and 0.9",
            f"{blind[0]:.4f} and {blind[1]:.4f}", all(round(v, 9) == 0.9 for v in blind),
        ),
    )  # fmt: skip


def _notifications(jobs: Audit, fair: Audit) -> tuple[Claim, ...]:
    higher, deciles = _deciles_in_which(jobs.test, "male", "female")
    first = select(jobs.test, "outcome_gap", group="male")[0]
    slots = _moves(jobs.honest, ("male", "unknown", "female"))
    unbiased = select(fair.bounded, "outcome_relative_change")[0]["estimate"]
    return (
        Claim(
            "Men, under-scored, realise higher outcomes in every decile, the marginal one included", "4.1, fig. 4",
            "systematically higher", f"in {higher} of {deciles} deciles", higher == deciles,
        ),
        Claim(
            "The gap in the marginal decile is positive and significant", "4.1, fig. 5", "positive, significant",
            f"{first['estimate']:.4f} (p = {first['p']:.4f})", first["estimate"] > 0 and first["p"] < 0.05,
        ),
        _size(jobs, "male", "4.1"),
        Claim(
            "Without the bias men and unknown gain notifications, women lose them", "4.1", "up, up, down",
            _listed(slots), [move.sign for move in slots] == [1, 1, -1], counts=BEYOND,
        ),
        *_outcome_rises(jobs),
        _honest_rise(jobs, fair),
        Claim(
            "The same procedure shows no rise where the scores are fair", "4.1", "(implied)",
            f"{unbiased:+.2%} although nothing is wrong", bool(unbiased <= 0), is_ours=True,
        ),
    )  # fmt: skip


def _outcome_rises(jobs: Audit) -> tuple[Claim, ...]:
    """Claims on the outcome of all slots, next to how many of them move."""
    printed, bounded = (select(r, "outcome_relative_change")[0]["estimate"] for r in (jobs.printed, jobs.bounded))
    largest, near = (
        max(abs(r["estimate"]) for r in select(result, "slots_relative_change"))
        for result in (jobs.printed, jobs.bounded)
    )
    return (
        Claim(
            "The outcome rises with the slots given again, predicted and valued with the same rows", "4.1", "by almost 1%",
            f"{printed:+.2%}: the line of the marginal bin reaches far below the bar", 0 < printed < 0.02, counts="0 to 2%",
        ),
        Claim(
            "The outcome changes less than the notifications", "4.1", "small compared to them",
            f"{abs(printed):.2%} against {largest:.2%}", abs(printed) < largest,
        ),
        Claim(
            "Both, with candidates from one bin below the bar only (our window)", "4.1", "(not done there)",
            f"{bounded:+.2%}, against {near:.2%} of notifications", 0 < bounded < min(0.02, near), is_ours=True,
        ),
    )  # fmt: skip


def _size(audit: Audit, group: str, where: str) -> Claim:
    gap, truth = (select(result, "pooled_gap", group=group)[0] for result in (audit.test, audit.truth))
    return Claim(
        "The gap found is the gap that the true qualifications give", where, "(not stated: the truth is unknown there)",
        f"{with_interval(gap)}, true {truth['estimate']:.4f}", bool(gap["low"] <= truth["estimate"] <= gap["high"]),
        counts="the interval holds the truth", is_ours=True,
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
        moves[0].sign > 0 >= moves[1].sign, counts="above zero and above the band with bias only", is_ours=True,
    )  # fmt: skip


def _ranking(people: Audit) -> tuple[Claim, ...]:
    higher, deciles = _deciles_in_which(people.test, "female", "male")
    joint = select(people.test, "joint_test")[0]
    slots = _moves(people.honest, ("female", "unknown", "male"))
    ranks = _moves(people.honest, ("female", "unknown", "male"), "mean_rank_change")
    return (
        Claim(
            "Women, under-scored, realise higher outcomes in every decile", "4.2, fig. 6", "systematically higher",
            f"in {higher} of {deciles} deciles", higher == deciles,
        ),
        Claim(
            "Outcomes differ at equal score along the scores", "4.2, fig. 7", "positive, significant",
            f"joint test p = {joint['p']:.2g}", joint["p"] < 0.05,
        ),
        _size(people, "female", "4.2"),
        Claim(
            "Re-ranked without the bias, men move up, women and unknown down, in line with women being under-scored", "4.2",
            "men up, women and unknown down", f"change of the mean rank: {_listed(ranks, '+,.2f')}; below zero is up",
            [move.sign for move in ranks] == [1, 1, -1], counts=BEYOND,
        ),
        Claim(
            "The under-scored groups gain slots", "4.2", "(not stated)",
            _listed(slots), [move.sign for move in slots] == [1, 1, -1], counts=BEYOND, is_ours=True,
        ),
    )  # fmt: skip


def _measures(rates: Mapping[str, Rates]) -> tuple[Claim, ...]:
    none, human, biased = (rates[k] for k in ("nothing", "human bias", "scoring bias"))
    qualified = [rates["other qualifications"], rates["very other qualifications"]]
    low, high = 0.01, 0.10  # where the rate of a 5% test lies in 200 worlds, but for one time in a hundred

    def both(name: str) -> str:
        return " and ".join(f"{getattr(r, name):.1%}" for r in qualified)

    return (
        Claim(
            "Fair scores are not called unfair", "3.5", "no violation",
            f"joint test {none.joint:.1%}, marginal bin {none.marginal:.1%} of {none.worlds} worlds (5% is chance)",
            low <= none.joint <= high and low <= none.marginal <= high, counts=f"{low:.0%} to {high:.0%} of worlds",
        ),
        Claim(
            "Different qualifications alone (0.6 and 1 standard deviation) are not taken for bias", "3.4, 5.4",
            "not by the outcome test", f"joint test {both('joint')}, marginal bin {both('marginal')}",
            all(r.joint <= high and r.marginal <= high for r in qualified), counts=f"at most {high:.0%} of worlds",
        ),
        Claim(
            "Precision takes them for bias", "5.4.2", "false positive", f"{both('precision')} of worlds",
            all(r.precision > high for r in qualified), counts=f"more than {high:.0%} of worlds",
        ),
        Claim(
            "Equalised odds takes them for bias", "5.4.1", "false positive", f"{both('odds')} of worlds",
            all(r.odds > high for r in qualified), counts=f"more than {high:.0%} of worlds",
        ),
        Claim(
            "Human bias is not sent to the algorithm", "5.1", "separate",
            f"joint test {human.joint:.1%}; precision {human.precision:.1%} of worlds", human.joint <= high < human.precision,
            counts=f"joint test at most {high:.0%}, precision more",
        ),
        Claim(
            "A scoring bias is found", "3.6", "found", f"joint test {biased.joint:.1%}, marginal bin {biased.marginal:.1%}",
            biased.joint > 0.5, counts="joint test in more than half",
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
            f"gap {gaps[0]:.2f} for masses 1, 2, 2, 1; no distribution on several scores gives 0", gaps[0] < 1e-9,
        ),
        Claim(
            "Equalised odds can hold although a group is under-scored (another example)", "5.4.1", "false negative",
            f"gap {gaps[1]:.1g} with 16/17 scored 0.8 and 1/2 scored 0.2", gaps[1] < 1e-9, is_ours=True,
        ),
    )  # fmt: skip
