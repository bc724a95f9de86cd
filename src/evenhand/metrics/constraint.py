"""The FA*IR constraint as a check of many rankings: which of them pass, and at which rank the others first fail."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import numpy as np

from evenhand.cards import Between, Card, Floats, metric
from evenhand.errors import EvenhandError
from evenhand.metrics.representation import PROTECTED, Represented, fair_table
from evenhand.tallies.placement import Placement

Share = Annotated[float, Between(0, 1, open_low=True, open_high=True)]


@metric(Card(
    name="fair_satisfied", symbol="FA*IR", title="Rankings that satisfy FA*IR", needs=Represented,
    span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="What share of the rankings holds enough protected items in every prefix?",
    undefined="the ranking is empty or has no labelled item", otherwise="no_labelled_items",
    says="{estimate:percent} of rankings have as many protected items in every prefix as FA*IR requires{interval}.",
    formula=r"\mathbf 1[c_k \ge m(k)\ \forall k]", example="0 0 0 1 0 0, p 0.5, alpha 0.1 -> 1",
    variants=(
        "Adjusted by default: at most a share alpha of fair rankings fails; adjusted=False tests every prefix at alpha.",
        "fairsearchcore picks the closest level, possibly above alpha; here the failure never exceeds alpha.",
    ),
    references=("zehlike2017",), per="ranking", family="exposure", reads=PROTECTED,
))  # fmt: skip
def satisfied(placed: Placement, *, p: Share | None = None, alpha: Share = 0.1, adjusted: bool = True) -> Floats:
    """1 where every prefix holds as many protected items as `fair_table` asks, else 0.

    >>> satisfied([0, 0, 0, 1, 0, 0], protected=1, p=0.5)
    1.0
    """
    violations = first_violations(placed, p, alpha, adjusted=adjusted)
    return np.where(placed.sides().labelled > 0, (violations == 0).astype(np.float64), np.nan)


@metric(Card(
    name="fair_violation", symbol="FA*IR rank", title="First rank that violates FA*IR", needs=Represented,
    span=(1.0, np.inf), ideal=np.nan, better="",
    asks="In rankings with too few protected items, at which rank does it first show?",
    undefined="every prefix of the ranking holds enough protected items",
    otherwise=lambda placed, **_: np.where(placed.sides().labelled > 0, "satisfied", "no_labelled_items"),
    says="Rankings that violate FA*IR first do so at rank {estimate:number} on average{interval}.",
    formula=r"\min\{k : c_k < m(k)\}", example="0 0 0 0 0 1, p 0.5, alpha 0.1 -> 5",
    variants=("The rank in the list as shown: items without a label count in it, though not in the constraint.",),
    references=("zehlike2017",), per="ranking", family="exposure", reads=PROTECTED,
))  # fmt: skip
def fair_violation(placed: Placement, *, p: Share | None = None, alpha: Share = 0.1, adjusted: bool = True) -> Floats:
    """First rank with fewer protected items than `fair_table` asks; undefined without one.

    >>> fair_violation([0, 0, 0, 0, 0, 1], protected=1, p=0.5, alpha=0.1)
    4.0
    """
    violations = first_violations(placed, p, alpha, adjusted=adjusted)
    return np.where(violations > 0, violations, np.nan)


def first_violations(placed: Placement, p: float | None, alpha: float, *, adjusted: bool) -> Floats:
    """(R,) first rank that violates the constraint for lists of its length, 0 where none does."""
    if p is None:
        raise EvenhandError("fair_satisfied needs the share of the protected group. Pass p=, for example p=0.5.")
    sides = placed.sides()
    violations = np.zeros(len(sides))
    for block in sides.batches():
        seen = np.broadcast_to(block.seen, block.codes.shape).astype(np.int64)
        labelled = block.is_labelled.sum(1)
        lengths, which = np.unique(labelled, return_inverse=True)
        needed = np.zeros((len(lengths), int(lengths.max(initial=0)) + 1))
        for i, k in enumerate(lengths.tolist()):  # one table per length, not per ranking
            needed[i, 1 : k + 1] = _table(k, p, alpha, adjusted)
        short = block.is_labelled & (block.cum_counts(0) < needed[which[:, None], seen])
        if short.shape[1]:
            violations[block.at] = np.where(short.any(1), short.argmax(1) + 1, 0)
    return violations


@lru_cache(maxsize=4096)
def _table(k: int, p: float, alpha: float, adjusted: bool) -> tuple[int, ...]:  # noqa: FBT001
    return tuple(fair_table(k, p, alpha, adjusted=adjusted).table) if k else ()
