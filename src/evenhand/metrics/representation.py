"""Is one ranking representative? Attention-weighted rank fairness, and FA*IR: the test of every prefix, and where it fails.

`awrf` reads the attention on each group; `fair` reads the labels in rank order. Both give one value per ranking.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.cards import Between, Card, Floats, Fraction, is_whole, metric
from evenhand.distances import BETWEEN, rd_of
from evenhand.errors import EvenhandError
from evenhand.metrics.prefix import TWO_SIDES
from evenhand.metrics.prefix_terms import Terms, expected_terms
from evenhand.metrics.random_orders import ShuffledLists
from evenhand.tallies.exposure import Exposed
from evenhand.tallies.placement import Placement

SLACK = 1e-12
"""Levels are values of the distribution function itself: equal ones may differ by rounding."""

Distance = Literal["js", "kl", "tv", "nd", "rd"]


class Represented(Placement):
    """Labels in rank order, as FA*IR reads them: whether items are protected, and nothing about the list as a whole."""

    def reason(self) -> str:
        return "" if len(self.codes) else "empty"

    def reasons(self) -> npt.NDArray[Any]:
        """(R,) why nothing can be said about each ranking: it is empty, or unlabelled."""
        return np.select([self.lengths == 0, self.labelled == 0], ["empty", "no_labelled_items"], default="")


def _awrf_reads(distance: str, target: Any) -> frozenset[str]:
    sides = {"sides"} if distance in ("nd", "rd") else set()
    return frozenset(sides | ({"relevance"} if isinstance(target, str) and target == "relevant" else set()))


def _awrf_span(distance: str, signed: bool) -> tuple[float, float]:  # noqa: FBT001
    if signed:
        return (-1.0, 1.0)
    return (0.0, 1.0) if distance in ("js", "tv", "nd") else (0.0, np.inf)


@metric(Card(
    name="awrf", symbol="AWRF", title="Attention-weighted rank fairness", needs=Exposed,
    span=_awrf_span, ideal=0.0, better=lambda signed: "ideal" if signed else "lower",
    asks="How far is the attention on each group, in one ranking, from the target?",
    undefined="the ranking is empty or has no labelled item; with rd also where a share is 1",
    otherwise="zero_denominator",
    says="AWRF: {estimate:number}{interval} (0 is on target)"
    "[; random order would give {chance:number}].",
    formula=r"\Delta(\epsilon_L / \lVert \epsilon_L \rVert_1,\ \hat p)",
    example="m f m, geometric, target half and half, tv -> 0.2143",
    variants=(
        "The default distance is Jensen-Shannon: bounded, symmetric, any number of groups. The paper used nd.",
        "A random order does not score 0 on average: see the chance column, or signed=True, whose mean is then 0.",
        "TREC Fair 2021 reports 1 - JS with the logarithmic discount. FairRankTune's AWRF has no target: not comparable.",
    ),
    references=("sapiezynski2019", "raj2022"), per="ranking", family="exposure", reads=_awrf_reads,
))  # fmt: skip
def awrf(
    t: Exposed, *, distance: Distance = "js", signed: bool = False, attention: Any = "geometric(stop=0.5)",
    target: Any = None,
) -> Floats:  # fmt: skip
    """Distance between the attention that groups get in a ranking and the target (eq. 3).

    Attention is normalised over the labelled items; unlabelled ones keep their rank. `js`, `kl` and `tv` look at all groups
    and take shares; `nd` and `rd` look at the protected group. `signed` keeps the sign of `nd`: negative where the protected
    group gets less.

    >>> round(awrf(["m", "f", "m"], target="equal", distance="tv"), 4)
    0.2143
    """
    if signed and distance != "nd":
        raise EvenhandError(f"awrf(signed=True) has no meaning with distance={distance!r}. Use distance='nd'.")
    if distance in BETWEEN:
        return np.where(t.whole > 0, BETWEEN[distance](t.shares, t.target), np.nan)
    share, due = t.side(t.shares), t.side(t.target)
    if distance == "rd":
        return rd_of((share, t.others(t.shares)), (due, t.others(t.target)))
    return share - due if signed else np.abs(share - due)


@awrf.chance
def _(lists: ShuffledLists, convention: str | None = None, **params: Any) -> Floats:
    """(m,) mean of awrf when the labels of each list are in random order."""
    return lists.mean(lambda t: awrf.on(t, convention=convention, **params))


@metric(Card(
    name="fair", symbol="FAIR", title="FA*IR score", needs=Represented, span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="Going down the ranking, is the protected group under-represented (near 0) or not (near 1)?",
    undefined="the ranking is empty or has no labelled item", otherwise="no_labelled_items",
    says="FA*IR score: {estimate:number}{interval} (mean probability of so few protected items, over all prefixes)"
    "[; random order would give {chance:number}].",
    formula=r"\frac1N\sum_k P(\mathrm{Bin}(k, p) \le c_k)", example="one unprotected item, p 0.3 -> 0.7",
    variants=(
        "The sum of eq. 2 starts at j = 1 as printed; the distribution function above it needs j = 0, as here.",
        "A proportional list scores about 0.55 to 0.77, not 1: compare lists, do not read it as a percentage.",
    ),
    references=("zehlike2017", "raj2022"), per="ranking", family="exposure", reads=TWO_SIDES,
))  # fmt: skip
def fair(placed: Placement, *, p: Fraction | None = None) -> Floats:
    """Mean over prefixes of the probability that a fair draw has as few protected items (eq. 2).

    A fair draw takes protected items with probability `p`. Over-representation is never penalised. Unknown labels are
    skipped: k counts the labelled items so far. Only an audit, which knows the target, can do without `p`.

    >>> fair([0], protected=1, p=0.3)
    0.7
    >>> fair([1, 1, 1], protected=1, p=0.5)
    1.0
    """
    if p is None:
        raise EvenhandError("fair needs the share of the protected group. Pass p=, for example p=0.5.")
    sides = placed.sides()
    values = np.full(len(sides), np.nan)
    table = _distribution(int(sides.lengths.max(initial=0)), p)
    for block in sides.batches():
        seen = np.broadcast_to(block.seen, block.codes.shape).astype(np.int64)
        chances = np.where(block.is_labelled, table[seen, block.cum_counts(0).astype(np.int64)], 0.0)
        labelled = block.is_labelled.sum(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            values[block.where] = chances.sum(1) / labelled
    return values


@fair.chance
def fair_chance(placed: Placement, p: float, looked: Floats | None = None) -> Floats:
    """(R,) mean of `fair` when the labelled items of each ranking are in random order: exact.

    `looked` is how many labelled items of each whole ranking are looked at; all where it is left out.

    >>> fair_chance(Placement.from_arrays([0, 1], protected=1), 0.5).tolist()
    [0.75]
    """
    sides = placed.sides()
    table = _distribution(int(sides.labelled.max(initial=0)), p)
    upto = sides.labelled if looked is None else looked
    keys: Floats = np.column_stack([sides.counts[:, 0], sides.labelled, upto]).astype(np.float64)
    kinds, which = np.unique(keys, axis=0, return_inverse=True)

    def term(c: Floats, k: Floats, *_: Floats) -> Floats:
        return np.asarray(table[k, c])

    terms = Terms(term, kinds[:, 0], kinds[:, 1], kinds[:, 0], kinds[:, 1])
    means = [expected_terms(terms, i)[: int(n)].mean() if n else np.nan for i, n in enumerate(kinds[:, 2])]
    return np.array(means)[which.reshape(-1)]


@dataclass(frozen=True)
class FairTable:
    """How many protected items each prefix must hold.

    Attributes
    ----------
    table : (k,) least number of protected items among the first 1, 2, ..., k.
    level : significance level of each single prefix.
    failure : chance that a fair ranking fails somewhere.
    """

    table: list[int]
    level: float
    failure: float


def fair_table(k: int, p: float, alpha: float, *, adjusted: bool = True) -> FairTable:
    """The FA*IR constraint: the least number of protected items in every prefix of up to `k`.

    Every prefix is a test, so the unadjusted table at level `alpha` may fail fair rankings more often than `alpha`.
    `adjusted` takes the highest level at which the exact chance that a fair ranking fails is at most `alpha`: `alpha` itself,
    or a value of the distribution function below it.

    >>> fair_table(10, 0.5, 0.1, adjusted=False).table
    [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    >>> fair_table(10, 0.5, 0.1)
    FairTable(table=[0, 0, 0, 0, 1, 1, 1, 2, 2, 3], level=0.0625, failure=0.0751953125)
    """
    if not is_whole(k, 1):
        raise EvenhandError(f"k={k!r} is not a length. Pass a whole number of one or more.")
    for name, value in (("p", p), ("alpha", alpha)):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < 1:
            raise EvenhandError(f"{name}={value!r} is not between 0 and 1. Pass a share such as 0.5.")
    below = _distribution(k, p)[1:]  # row i: P(Bin(i + 1, p) <= m)
    if not adjusted:
        table = _least(below, alpha)
        return FairTable(table.tolist(), float(alpha), failure_probability(table, p))
    levels = np.unique(np.append(below[below <= alpha + SLACK], alpha))
    levels = levels[np.append(np.diff(levels) > SLACK, True)]
    # The failure rises with the level: the strictest that keeps to alpha.
    admissible = bisect_right(levels, alpha + SLACK, key=lambda level: failure_probability(_least(below, level), p))
    if not admissible:
        return FairTable([0] * k, 0.0, 0.0)
    table = _least(below, levels[admissible - 1])
    return FairTable(table.tolist(), float(levels[admissible - 1]), failure_probability(table, p))


def fair_satisfied(labels: Sequence[Any], *, protected: Any, p: float, alpha: float, adjusted: bool = True) -> bool:
    """Whether every prefix of labelled items has as many protected ones as `fair_table` asks.

    >>> fair_satisfied([0, 0, 0, 1, 0, 0], protected=1, p=0.5, alpha=0.1, adjusted=False)
    True
    """
    placed = Placement.from_arrays(labels, protected=protected)
    return not first_violations(placed, p, alpha, adjusted=adjusted).any()


def failure_probability(table: Any, p: float) -> float:
    """Probability that independent draws with share `p` fall short of the table at some prefix.

    >>> failure_probability([0, 0, 0, 1, 1, 1, 2, 2, 3, 3], 0.5)
    0.12890625
    """
    needed = np.asarray(table, dtype=np.int64)
    alive = np.zeros(len(needed) + 1)
    alive[0] = 1.0
    failed = 0.0
    for least in needed:  # one step per rank; each handles every count at once
        alive[1:], alive[0] = alive[1:] * (1 - p) + alive[:-1] * p, alive[0] * (1 - p)
        failed += float(alive[:least].sum())
        alive[:least] = 0.0
    return failed


def _least(below: Floats, level: float) -> Any:
    """Smallest m with P(Bin(k, p) <= m) >= level, for every k."""
    return (below < level - SLACK).sum(1)


@lru_cache(maxsize=8)
def _distribution(k: int, p: float) -> Floats:
    """(k + 1, k + 1) P(Bin(i, p) <= m) for i draws and m successes; 1 for m >= i."""
    from scipy.special import bdtr

    draws = np.arange(k + 1)[:, None]
    below: Floats = np.asarray(bdtr(np.minimum(np.arange(k + 1), draws), draws, p), dtype=np.float64)
    below.flags.writeable = False
    return below


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
    references=("zehlike2017",), per="ranking", family="exposure", reads=TWO_SIDES,
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
    references=("zehlike2017",), per="ranking", family="exposure", reads=TWO_SIDES,
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
            violations[block.where] = np.where(short.any(1), short.argmax(1) + 1, 0)
    return violations


@lru_cache(maxsize=4096)
def _table(k: int, p: float, alpha: float, adjusted: bool) -> tuple[int, ...]:  # noqa: FBT001
    return tuple(fair_table(k, p, alpha, adjusted=adjusted).table) if k else ()
