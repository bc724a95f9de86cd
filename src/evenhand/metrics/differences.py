"""How far the first k labelled items of a ranking are from the whole: F(i) in eq. 1 of Draws et al. (2020).

Each function reads counts that broadcast: `c` items of a group among the first `k`, against `share_of` in `whole`
(the counts of the whole list, or a target share and 1). F is the sum of `term` over the groups looked at; where one
side is protected, only its count is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats
from evenhand.distances import kl_terms, p_log_p

Term = Callable[[Floats, Floats, Floats, Floats], Floats]


@dataclass(frozen=True)
class Difference:
    """A term and what is known about it."""

    term: Term  # the summand of one group; the whole of F where `sided`
    sided: bool  # whether F looks at the protected count only
    symmetric: bool = False  # whether swapping the two sides leaves F as it is
    # whether F never rises with more protected items, so that "protected last" is the worst order
    falling: bool = False
    plain: bool = False  # whether F is the distance between two shares


def nd(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """|c/k - S/N|, eq. 2."""
    return np.abs(c / k - share_of / whole)


def rd(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """|c/(k - c) - S/(N - S)|, eq. 3; a fraction whose denominator is 0 counts as 0."""
    return np.abs(_ratio(c, k) - _ratio(share_of, whole))


def rd_one_sided(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """Shortfall of the protected ratio against the whole list; 0 where there is none."""
    short = np.maximum(_ratio(share_of, whole) - _ratio(c, k), 0.0)
    return np.where(c < k, short, 0.0)


def kl_of_sides(smoothing: float | None) -> Term:
    """KL divergence of the two sides among the first k from the whole, in bits (eq. 4).

    A prefix of one side only is smoothed to (smoothing, 1 - smoothing), whichever side it is.
    """

    def term(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
        p, q = c / k, share_of / whole
        if smoothing is not None:
            p = np.where(c <= 0, smoothing, np.where(c >= k, 1 - smoothing, p))
        return np.asarray(kl_terms(p, q) + kl_terms(1 - p, (whole - share_of) / whole))

    return term


def kl(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """One group's part of KL(first k || whole), in bits; infinite where the whole has none."""
    return kl_terms(c / k, share_of / whole)


def kl_with_added(epsilon: float) -> Term:
    """One group's part of KL in nats, `epsilon` added to every share as tools after Geyik do."""

    def term(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
        p, q = c / k + epsilon, share_of / whole + epsilon
        return np.asarray(kl_terms(p, q) * np.log(2))

    return term


def js(c: Floats, k: Floats, share_of: Floats, whole: Floats) -> Floats:
    """One group's part of the Jensen-Shannon divergence from the whole, in bits (eq. 6)."""
    p, q = c / k, share_of / whole
    return np.asarray((p_log_p(p) + p_log_p(q)) / 2 - p_log_p((p + q) / 2))


def _ratio(part: Floats, whole: Floats) -> Floats:
    rest = whole - part
    return np.where(rest > 0, part / np.where(rest > 0, rest, 1.0), 0.0)
