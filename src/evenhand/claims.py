"""What a result asserts, each assertion with the test behind it.

A claim is a clause with a direction ("higher", "fewer near the top"), a superlative or a cause. An audit lists every claim that
its data could bear out, each with the p of a two-sided test; `decide` adjusts all of them together (Holm), so that at most
`1 - level` of all results make any false claim. Headlines, sentences, remedies, checks and reports read these claims and
compose none of their own, so they cannot contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Literal, get_args

from evenhand.errors import printable
from evenhand.intervals.kinds import holm
from evenhand.metrics.outcome import POWER

Direction = Literal["higher", "lower", "differs", "most", "least", "none"]
DIRECTIONS: tuple[str, ...] = get_args(Direction)


@dataclass(frozen=True, slots=True)
class Claim:
    """One assertion of a result and whether its test bears it out.

    Attributes
    ----------
    text : the clause as it may be said: the assertion where it is made, else that nothing can be told.
    metric, group : the rows of the frame that it is about.
    where : the slice, bin, arm or pair of those rows, by column.
    direction : higher, lower, differs, most, least; none where the claim is not made.
    p_adjusted : Holm over all claims that the result could make.
    made : whether `p_adjusted` is at most one minus the level.
    p : of the test by itself.
    """

    text: str
    metric: str
    group: str | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    direction: Direction = "none"
    p_adjusted: float = math.nan
    made: bool = False
    p: float = math.nan

    def is_about(self, row: Mapping[str, Any]) -> bool:
        same_number = self.metric == row["metric"] and self.group == row.get("group")
        return same_number and all(str(row.get(name)) == str(value) for name, value in self.where.items())


@dataclass(frozen=True, slots=True)
class Candidate:
    """A claim before its p is adjusted: `text` if the test bears it out, `otherwise` if not."""

    p: float
    direction: Direction
    text: str
    otherwise: str
    metric: str
    group: str | None = None
    where: Mapping[str, Any] = field(default_factory=dict)


def decide(candidates: Iterable[Candidate], level: float) -> tuple[Claim, ...]:
    """Claims that their tests bear out, and those that they do not; a candidate without a p is never made.

    >>> pair = [Candidate(0.01, "higher", "a is higher", "no difference", "gini", where={"source": s}) for s in "ab"]
    >>> [(claim.made, claim.p_adjusted) for claim in decide(pair, 0.95)]
    [(True, 0.02), (True, 0.02)]
    """
    listed = list(candidates)
    bound = round(1 - level, 12)
    claims = []
    for candidate, p in zip(listed, holm([c.p for c in listed]).tolist(), strict=True):
        is_made = p <= bound
        text = printable(candidate.text if is_made else candidate.otherwise)
        direction: Direction = candidate.direction if is_made else "none"
        where = dict(candidate.where)
        claims.append(Claim(text, candidate.metric, candidate.group, where, direction, p, is_made, float(candidate.p)))
    return tuple(claims)


def detectable_of(error: float, level: float, tests: int = 1) -> float:
    """The difference that a test with this standard error finds with 80% power, once p is adjusted over so many tests.

    >>> round(detectable_of(1.0, 0.95), 2), round(detectable_of(1.0, 0.95, tests=10), 2)
    (2.8, 3.65)
    """
    normal = NormalDist()
    return error * (normal.inv_cdf(1 - (1 - level) / 2 / max(tests, 1)) + normal.inv_cdf(POWER))


def adjusted_detectable(detectable: float, tests: int, level: float) -> float:
    """The difference with 80% power once p is adjusted over so many tests, from the one with 80% power for a single test."""
    return detectable * detectable_of(1.0, level, tests) / detectable_of(1.0, level)


def power_text(gap: float, *, points: bool) -> str:
    """What a test could find, in words; `points` : gaps are in percentage points.

    >>> power_text(0.0289, points=True)
    'the test had 80% power for gaps of 2.9 points or more'
    """
    size = 100 * gap if points else gap
    text = f"{size:,.0f}" if size >= 100 else f"{size:.2g}"
    return f"the test had 80% power for gaps of {text}{' points' if points else ''} or more"


def direction_of(difference: float) -> Direction:
    """The direction of a difference; `differs` where its sign says nothing.

    >>> direction_of(0.2), direction_of(-0.2)
    ('higher', 'lower')
    """
    return "higher" if difference > 0 else "lower" if difference < 0 else "differs"
