"""The findings of the outcome-test paper, checked on marketplaces of known bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand.metrics.contrast import average_outcome, equalized_odds_gap, marginal_outcome
from evenhand.studies.study import Claim

NOMINAL = (0.01, 0.10)
"""Where the rate of a 5% test lies in 200 worlds, but for one time in a hundred."""


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


def claims(jobs: Any, fair: Any, people: Any, rates: Mapping[str, Rates]) -> tuple[Claim, ...]:
    """Every statement of sections 3 to 5 that a number can answer."""
    return (
        *_toys(),
        *(replace(c, sample=jobs.sample) for c in _notifications(jobs, fair)),
        *(replace(c, sample=people.sample) for c in _ranking(people)),
        *(replace(c, sample=f"{rates['nothing'].worlds} worlds each") for c in _measures(rates)),
        _equalised_odds_as_printed(),
        _equalised_odds_repaired(),
    )


def _rows(result: Any, metric: str, **where: Any) -> list[dict[str, Any]]:
    rows = [r for r in result.findings.rows() if r["metric"] == metric]
    return [r for r in rows if all(r[k] == v for k, v in where.items())]


def _row(result: Any, metric: str, **where: Any) -> dict[str, Any]:
    return _rows(result, metric, **where)[0]


def _moves(result: Any, groups: Sequence[str], metric: str = "slots_gained") -> dict[str, tuple[float, float, float]]:
    """Each group's change, and the band in which it lies by chance alone."""
    moves = {}
    for g in groups:
        band = _row(result, f"{metric}_null", group=g)
        moves[g] = (_row(result, metric, group=g)["estimate"], band["low"], band["high"])
    return moves


def _way(move: tuple[float, float, float]) -> int:
    """Sign of a statistically significant change; 0 if it is not significant."""
    change, low, high = move
    return int(change > max(high, 0)) - int(change < min(low, 0))


def _said(moves: Mapping[str, tuple[float, float, float]], digits: int = 0) -> str:
    return ", ".join(
        f"{g} {v:+,.{digits}f} (by chance {low:+,.{digits}f} to {high:+,.{digits}f})"
        for g, (v, low, high) in moves.items()
    )


BEYOND = "each beyond its band of chance"


def _toys() -> tuple[Claim, ...]:
    o, x = {0.6: 2, 0.8: 1, 1.0: 1}, {0.6: 4, 0.8: 5, 1.0: 3}
    averages = average_outcome(o, 0.6), average_outcome(x, 0.6), average_outcome({0.6: 3, 0.8: 4, 1.0: 5}, 0.6)
    margins = marginal_outcome(o, 0.6), marginal_outcome(x, 0.6)
    blind = average_outcome({0.8: 3, 1.0: 3}, 0.8), average_outcome({0.6: 1, 0.8: 1, 1.0: 4}, 0.6)
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


def _notifications(jobs: Any, fair: Any) -> tuple[Claim, ...]:
    gaps = _rows(jobs.test, "outcome_gap", group="male")
    means = {g: [r["estimate"] for r in _rows(jobs.test, "mean_outcome", group=g)] for g in ("male", "female")}
    higher = sum(m > f for m, f in zip(means["male"], means["female"], strict=True))
    first = gaps[0]
    slots = _moves(jobs.honest, ("male", "unknown", "female"))
    printed, bounded = (_row(r, "outcome_relative_change")["estimate"] for r in (jobs.printed, jobs.bounded))
    largest, near = (
        max(abs(_row(r, "slots_relative_change", group=g)["estimate"]) for g in slots)
        for r in (jobs.printed, jobs.bounded)
    )
    return (
        Claim(
            "Men, under-scored, realise higher outcomes in every decile, the marginal one included", "4.1, fig. 4",
            "systematically higher", f"in {higher} of {len(gaps)} deciles", higher == len(gaps),
        ),
        Claim(
            "The gap in the marginal decile is positive and significant", "4.1, fig. 5", "positive, significant",
            f"{first['estimate']:.4f} (p = {first['p']:.4f})", first["estimate"] > 0 and first["p"] < 0.05,
        ),
        _size(jobs, "male", "4.1"),
        Claim(
            "Without the bias men and unknown gain notifications, women lose them", "4.1", "up, up, down",
            _said(slots), [_way(m) for m in slots.values()] == [1, 1, -1], counts=BEYOND,
        ),
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
        _honest_rise(jobs, fair),
        _mechanical(fair),
    )  # fmt: skip


def _size(audit: Any, group: str, where: str) -> Claim:
    gap, true = _row(audit.test, "pooled_gap", group=group), _row(audit.truth, "pooled_gap", group=group)["estimate"]
    return Claim(
        "The gap found is the gap that the true qualifications give",
        where,
        "(not stated: the truth is unknown there)",
        f"{gap['estimate']:.4f} ({gap['low']:.4f} to {gap['high']:.4f}), true {true:.4f}",
        bool(gap["low"] <= true <= gap["high"]),
        counts="the interval holds the truth",
        is_ours=True,
    )


def _honest_rise(jobs: Any, fair: Any) -> Claim:
    """Whether the rise is beyond chance where there is bias, and is not where there is none."""
    parts, verdicts = [], []
    for name, audit in (("biased", jobs), ("fair", fair)):
        change, band = _row(audit.honest, "outcome_relative_change"), _row(audit.honest, "outcome_relative_change_null")
        parts.append(f"{name} {change['estimate']:+.2%}, by chance {band['low']:+.2%} to {band['high']:+.2%}")
        verdicts.append(change["estimate"] > max(band["high"], 0))  # a fall that chance would make larger is no rise
    return Claim(
        "The rise is beyond chance with bias and not without (two folds)",
        "4.1",
        "(not tested there)",
        "; ".join(parts),
        verdicts[0] and not verdicts[1],
        counts="above zero and above the band with bias only",
        is_ours=True,
    )


def _mechanical(fair: Any) -> Claim:
    printed = _row(fair.bounded, "outcome_relative_change")["estimate"]
    return Claim(
        "The same procedure shows no rise where the scores are fair",
        "4.1",
        "(implied)",
        f"{printed:+.2%} although nothing is wrong",
        bool(printed <= 0),
        is_ours=True,
    )


def _ranking(people: Any) -> tuple[Claim, ...]:
    means = {g: [r["estimate"] for r in _rows(people.test, "mean_outcome", group=g)] for g in ("male", "female")}
    higher = sum(f > m for m, f in zip(means["male"], means["female"], strict=True))
    joint = _row(people.test, "joint_test")
    slots = _moves(people.honest, ("female", "unknown", "male"))
    ranks = _moves(people.honest, ("female", "unknown", "male"), "mean_rank_change")
    return (
        Claim(
            "Women, under-scored, realise higher outcomes in every decile", "4.2, fig. 6", "systematically higher",
            f"in {higher} of {len(means['male'])} deciles", higher == len(means["male"]),
        ),
        Claim(
            "Outcomes differ at equal score along the scores", "4.2, fig. 7", "positive, significant",
            f"joint test p = {joint['p']:.2g}", joint["p"] < 0.05,
        ),
        _size(people, "female", "4.2"),
        Claim(
            "Re-ranked without the bias, men move up, women and unknown down, in line with women being under-scored", "4.2",
            "men up, women and unknown down", f"change of the mean rank: {_said(ranks, 2)}; below zero is up",
            [_way(m) for m in ranks.values()] == [1, 1, -1], counts=BEYOND,
        ),
        Claim(
            "The under-scored groups gain slots", "4.2", "(not stated)",
            _said(slots), [_way(m) for m in slots.values()] == [1, 1, -1], counts=BEYOND, is_ours=True,
        ),
    )  # fmt: skip


def _measures(rates: Mapping[str, Rates]) -> tuple[Claim, ...]:
    none, human, biased = (rates[k] for k in ("nothing", "human bias", "scoring bias"))
    qualified = [rates["other qualifications"], rates["very other qualifications"]]
    low, high = NOMINAL

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


def _equalised_odds_as_printed() -> Claim:
    masses = {0.2: 1, 0.4: 2, 0.6: 2, 0.8: 1}
    groups = {"O": [(m, q, q) for q, m in masses.items()], "X": [(m, round(1 - q, 1), q) for q, m in masses.items()]}
    gap = equalized_odds_gap(groups)
    return Claim(
        "Scores q for one group and 1 - q for the other satisfy equalised odds", "5.4.1.2", "gap 0",
        f"gap {gap:.2f} for masses 1, 2, 2, 1; no distribution on several scores gives 0", gap < 1e-9,
    )  # fmt: skip


def _equalised_odds_repaired() -> Claim:
    groups = {"O": [(25, 0.8, 0.8), (25, 0.2, 0.2)], "X": [(34, 0.8, 16 / 17), (16, 0.2, 1 / 2)]}
    gap = equalized_odds_gap(groups)
    return Claim(
        "Equalised odds can hold although a group is under-scored (another example)", "5.4.1", "false negative",
        f"gap {gap:.1g} with 16/17 scored 0.8 and 1/2 scored 0.2", gap < 1e-9, is_ours=True,
    )  # fmt: skip
