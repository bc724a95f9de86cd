"""Pairwise accuracy: does a more relevant item stand above a less relevant one, whatever their groups? (equations of raj2022)"""

from __future__ import annotations

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.tallies.pairs import Pairs


@metric(Card(
    name="intra_acc", symbol="IntraAcc", title="Difference of accuracy within groups", needs=Pairs,
    span=(-1.0, 1.0), ideal=0.0, better="ideal",
    asks="Is the order within the other group more accurate than within the protected group?",
    undefined="one of the groups has no pair of different relevance", otherwise="no_pairs",
    says="Pairwise accuracy within groups, {other} minus {who}: {estimate:number}{interval}.",
    formula=r"A_{->-} - A_{+>+}", example="scores 4 3 2 1, relevance 1 0 1 0, groups U U P P -> 0",
    variants=(
        "The source prints the range [0, 1]; a difference of two shares lies in [-1, 1], positive favours the others.",
    ),
    references=("beutel2019", "raj2022"), family="pairwise", reads=frozenset({"sides", "within"}),
))  # fmt: skip
def intra_acc(t: Pairs) -> Floats:
    """Accuracy within the other group minus accuracy within the protected group.

    >>> intra_acc([4, 3, 2, 1], relevance=[1, 0, 1, 0], groups=["U", "U", "P", "P"], protected="P")
    0.0
    """
    return t.accuracy(t.versus, t.versus) - t.accuracy(t.protected, t.protected)


@metric(Card(
    name="inter_acc", symbol="InterAcc", title="Difference of accuracy between groups", needs=Pairs,
    span=(-1.0, 1.0), ideal=0.0, better="ideal",
    asks="Does a relevant item of the other group beat the protected group's more often than the other way round?",
    undefined="there is no pair between the groups in one of the two directions", otherwise="no_pairs",
    says="Pairwise accuracy between groups, {other} more relevant minus {who} more relevant: {estimate:number}{interval}.",
    formula=r"A_{->+} - A_{+>-}", example="scores 4 3 2 1, relevance 1 0 1 0, groups U U P P -> 1",
    variants=(
        "The source prints the range [0, 1]; a difference of two shares lies in [-1, 1], positive favours the others.",
    ),
    references=("beutel2019", "raj2022"), family="pairwise", reads=frozenset({"sides", "between"}),
))  # fmt: skip
def inter_acc(t: Pairs) -> Floats:
    """How much more often the other group's relevant items beat protected ones than the reverse.

    >>> inter_acc([4, 3, 2, 1], relevance=[1, 0, 1, 0], groups=["U", "U", "P", "P"], protected="P")
    1.0
    """
    return t.accuracy(t.versus, t.protected) - t.accuracy(t.protected, t.versus)


@metric(Card(
    name="accuracy", symbol="A", title="Pairwise accuracy", needs=Pairs, span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="How often does a more relevant item stand above a less relevant one?",
    undefined="no two items differ in relevance", otherwise="no_pairs",
    says="{group}: the more relevant item ranks higher in {estimate:percent} of pairs{interval}.",
    formula=r"A_{G_1>G_2} = P(s_1 > s_2 \mid y_1 > y_2, d_1 \in G_1, d_2 \in G_2)",
    example="scores 4 3 2 1, relevance 1 0 1 0 -> 0.75",
    variants=("A tied score counts one half; pairs of equal relevance are not counted.",),
    references=("beutel2019", "raj2022"), per="pair", family="pairwise",
))  # fmt: skip
def accuracy(t: Pairs) -> Floats:
    """Share of pairs of different relevance that are in the right order.

    >>> accuracy([4, 3, 2, 1], relevance=[1, 0, 1, 0], groups=["U", "U", "P", "P"])
    0.75
    """
    return np.asarray(t.wins.sum((-1, -2)) / t.pairs.sum((-1, -2)))
