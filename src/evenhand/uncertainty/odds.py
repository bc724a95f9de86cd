"""Equalised odds on data: how far apart the groups' scores lie among those with the same outcome, and what chance gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.rows import Rows
from evenhand.uncertainty.intervals import stream

Bools = np.typing.NDArray[np.bool_]

FEWEST = 30
"""Rows of either group, among those with the same outcome, from which on their scores are compared."""

MOST_GRADES = 20
DRAWS, FEWEST_DRAWS = 199, 19
MOST_WORK = 40_000_000
SEED = 20_220


@dataclass(frozen=True)
class Odds:
    """The largest Kolmogorov distance to the reference over outcomes, its mean under permuted labels, and what was skipped."""

    estimate: float
    chance: float
    skipped: bool


def odds_gap(rows: Rows, group: int, reference: int) -> Odds:
    """Scores of a group against the reference's, given the outcome; graded outcomes are cut at every grade but the lowest."""
    at = np.isin(rows.group, (group, reference))
    order = np.argsort(rows.score[at], kind="stable")
    score, outcome, mine = rows.score[at][order], rows.outcome[at][order], (rows.group[at] == group)[order]
    given = [side for cut in _cuts(outcome) for side in (outcome >= cut, outcome < cut)]
    usable = [g for g in given if min(np.count_nonzero(g & mine), np.count_nonzero(g & ~mine)) >= FEWEST]
    if not usable:
        return Odds(np.nan, np.nan, skipped=True)
    last = np.append(score[1:] != score[:-1], True)  # distribution functions are compared where scores change
    found = _largest(mine, usable, last)
    draws = max(FEWEST_DRAWS, min(DRAWS, MOST_WORK // (len(score) * len(usable))))
    rng = stream(SEED, "odds", len(score))
    by_chance = [_largest(rng.permutation(mine), usable, last) for _ in range(draws)]
    return Odds(found, float(np.nanmean(by_chance)), skipped=len(usable) < len(given))


def _cuts(outcome: Floats) -> list[float]:
    grades = np.unique(outcome)[1:]
    if len(grades) > MOST_GRADES:
        grades = np.unique(grades[np.linspace(0, len(grades) - 1, MOST_GRADES).round().astype(np.int64)])
    return [float(g) for g in grades]


def _largest(mine: Bools, given: list[Bools], last: Bools) -> float:
    return max(_distance(mine & g, ~mine & g, last) for g in given)


def _distance(a: Bools, b: Bools, last: Bools) -> float:
    """Kolmogorov distance of two sets of rows that are sorted by score."""
    many, others = np.count_nonzero(a), np.count_nonzero(b)
    if not many or not others:
        return 0.0
    apart = np.cumsum(a / many - b / others)
    return float(np.abs(apart[last]).max())
