"""Evidence of a finding: the p with which it is so and with which it is not, and how parts of a finding are put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

Row = Mapping[str, Any]
T = TypeVar("T")
ALPHA = 0.05
"""Chance that a study in whose world nothing is there says yes or no to any of its findings (Holm over all of them)."""
Z = 1.959964  # normal quantile of a two-sided 95% interval


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a test says of a statement: the two-sided p with which it is so, and with which it is not; NaN where untested."""

    yes: float = math.nan
    no: float = math.nan

    def verdict(self, of: int = 1) -> bool | None:
        """Comes out, does not, or (None) cannot be told; at 5% over `of` such questions (Bonferroni)."""
        return False if self.no * of <= ALPHA else True if self.yes * of <= ALPHA else None

    def __invert__(self) -> Evidence:
        return Evidence(self.no, self.yes)


UNKNOWN = Evidence()


def certain(holds: bool | None) -> Evidence:  # noqa: FBT001
    """Evidence of what is counted and not drawn; None where it cannot be told."""
    return UNKNOWN if holds is None else Evidence(0.0, 1.0) if holds else Evidence(1.0, 0.0)


def above_zero(difference: float, error: float, freedom: float = math.inf) -> Evidence:
    """Whether a difference with this standard error is above zero, by Student's t.

    >>> above_zero(2.5, 1.0).verdict(), above_zero(-2.5, 1.0).verdict(), above_zero(2.5, 1.0, 2).verdict()
    (True, False, None)
    """
    from scipy.special import stdtr

    if not math.isfinite(difference) or not math.isfinite(error):
        return UNKNOWN
    if error == 0:
        return UNKNOWN if difference == 0 else certain(difference > 0)
    below = float(stdtr(min(freedom, 1e9), difference / error))
    return Evidence(min(1.0, 2 * (1 - below)), min(1.0, 2 * below))


def is_number(value: Any) -> bool:
    """Whether a cell of a row holds a finite number."""
    return value is not None and math.isfinite(value)


def with_sign(row: Row) -> Evidence:
    """Whether the estimate of a row is above zero, by the p of its test."""
    p = row["p"]
    return UNKNOWN if not is_number(p) else Evidence(p, 1.0) if row["estimate"] > 0 else Evidence(1.0, p)


def error_of(row: Row) -> float:
    """The standard error behind a 95% interval, or behind a band of chance."""
    return float(row["high"] - row["low"]) / (2 * Z)


def rate_above(hits: int, trials: int, bound: float) -> Evidence:
    """Whether a rate is above a bound, by the exact binomial test.

    >>> [rate_above(hits, 10, 0.5).verdict() for hits in (9, 0, 6)]
    [True, False, None]
    """
    from scipy.stats import binom

    if trials == 0:
        return UNKNOWN
    tails = float(binom.sf(hits - 1, trials, bound)), float(binom.cdf(hits, trials, bound))
    return Evidence(*(min(1.0, 2 * p) for p in tails))


def every(parts: Iterable[Evidence]) -> Evidence:
    """Whether all are so: by the weakest of them; not so if one is not, among as many as were asked.

    >>> parts = [Evidence(0.01, 1), Evidence(0.03, 1), Evidence(0.02, 1)]
    >>> every(parts), every([*parts, Evidence(1, 0.01)]).no, every([*parts, UNKNOWN]).verdict(), every([]).verdict()
    (Evidence(yes=0.03, no=1.0), 0.04, None, None)
    """
    listed = list(parts)
    tested = [part.no for part in listed if not math.isnan(part.no)]
    yes = math.nan if len(tested) < len(listed) or not listed else max(part.yes for part in listed)
    return Evidence(yes, min(1.0, len(tested) * min(tested)) if tested else math.nan)


@dataclass(frozen=True)
class Replicates(Generic[T]):
    """Measurements, and the same ones on a part of their units at a time (jackknife).

    A difference of two numbers that rest on the same units is paired by itself: both are read off the same replicate.

    Attributes
    ----------
    without : the measurements on parts: without each batch in turn or, with `is_halved`, on random halves. Halves are for numbers that
        jump, such as rank correlations: with a small batch left out they may never move.
    """

    whole: T
    without: Sequence[T]
    is_halved: bool = False

    def above(self, number: Callable[[T], float], bound: float = 0.0) -> Evidence:
        """Whether a number is above a bound.

        >>> batches = [[1, 2, 3], [2, 3, 4], [1, 3, 2]]
        >>> whole, without = sum(batches, []), [sum(batches[:i] + batches[i + 1 :], []) for i in range(3)]
        >>> mean = lambda values: sum(values) / len(values)
        >>> [Replicates(whole, without).above(mean, bound).verdict() for bound in (0, 2, 9)]
        [True, None, False]
        """
        estimate, values = number(self.whole), np.array([number(other) for other in self.without])
        n = len(values)
        if n < 2 or not np.isfinite(values).all() or not math.isfinite(estimate):
            return UNKNOWN
        # A number that jumps is biased on halves, and the bias counts as error; sums over units shrink with each batch left out.
        spread = float(((values - (estimate if self.is_halved else values.mean())) ** 2).mean())
        error = math.sqrt(spread if self.is_halved else (n - 1) * spread)
        return above_zero(estimate - bound, error, n - 1)

    def largest(self, numbers: Callable[[T], Mapping[str, float]], name: str) -> Evidence:
        """Whether one of several numbers is larger than each of the others."""

        def lead(other: str) -> Callable[[T], float]:
            return lambda measured: numbers(measured)[name] - numbers(measured)[other]

        return every(self.above(lead(other)) for other in numbers(self.whole) if other != name)
