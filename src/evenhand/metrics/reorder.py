"""What a new order costs and how far it is from the old one: nDCG, rank-biased overlap, the least item promoted."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from evenhand.cards import Between, Card, Floats, metric
from evenhand.tallies.slates import Gained, Judged, Reordered

Patience = Annotated[float, Between(0, 1, open_low=True, open_high=True)]


@metric(Card(
    name="ndcg", symbol="nDCG", title="Relevance kept", needs=Gained, span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="How much of the gain of the best order does a list keep?",
    undefined="no candidate has a gain above zero", otherwise="zero_utility",
    says="Lists keep {estimate:percent} of the best possible gain (nDCG){interval}.",
    formula=r"\sum_r a(r)\, u_{L(r)} \Big/ \sum_r a(r)\, u_{(r)}", example="gains 1 3 -> 0.7967",
    variants=("Gains are the scores or grades themselves; the exponential form of Burges takes 2^grade - 1.",),
    references=("jarvelin2002",), per="ranking", family="reorder",
))  # fmt: skip
def ndcg(t: Gained) -> Floats:
    """Attention-weighted gain of a list over that of the best list from the same candidates.

    >>> round(ndcg([1, 3]), 4)
    0.7967
    """
    return np.where(t.ideal > 0, t.gained / t.ideal, np.nan)


@metric(Card(
    name="ndcg_relevance", symbol="nDCG", title="nDCG against judgments", needs=Judged, span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="How much of the relevance of the best list of all judged items do the lists hold?",
    undefined="no item is relevant to the request", otherwise="zero_normalizer",
    says="nDCG against all judgments: {estimate:number}{interval}.",
    formula=r"\sum_r a(r)\, y_{L(r)} \Big/ \sum_r a(r)\, y_{(r)}", example="relevance 0 1, judged 1 1 0 -> 0.3869",
    variants=(
        "The best list takes all judged items, also those that are no candidates: a re-ranker cannot always reach 1.",
        "A request whose relevant items are no candidates scores 0; one without a relevant item is left out, and counted.",
        "Gains are the grades themselves; the exponential form of Burges takes 2^grade - 1.",
    ),
    references=("jarvelin2002",), per="ranking", family="reorder",
))  # fmt: skip
def ndcg_relevance(t: Judged) -> Floats:
    """Attention-weighted relevance of a list over that of the best list of all judged items.

    >>> round(ndcg_relevance([0, 1], judgments=[1, 1, 0]), 4)
    0.3869
    """
    return ndcg.on(t)


@metric(Card(
    name="rank_biased_overlap", symbol="RBO", title="Rank-biased overlap", needs=Reordered,
    span=(0.0, 1.0), ideal=1.0, better="",
    asks="Going down both lists, how much of the old one does a reader find in the new one?",
    undefined="the list is empty", otherwise="empty",
    says="Rank-biased overlap of the new lists with the old: {estimate:number}{interval}.",
    formula=r"\frac{X_k}{k}p^k + \frac{1-p}{p}\sum_{d=1}^k \frac{X_d}{d}p^d",
    example="a b c against b a c, patience 0.9 -> 0.9",
    variants=("Extrapolated from the length of the list, as RBO_ext of the paper.",),
    references=("webber2010",), per="ranking", family="reorder",
))  # fmt: skip
def rank_biased_overlap(t: Reordered, *, patience: Patience = 0.9) -> Floats:
    """Overlap of the first d items, averaged over d with weights patience^(d - 1) (eq. 32).

    >>> round(rank_biased_overlap(["a", "b", "c"], before=["b", "a", "c"]), 4)
    0.9
    """
    listed = t.was > 0
    k = t.was.shape[1]
    depth = np.arange(1, k + 1)
    # An item is in both prefixes from the later of its two ranks on.
    enters = np.where(listed, np.minimum(np.maximum(t.was, depth), k + 1), k + 1)
    shared = np.zeros((len(t.was), k + 2))
    np.add.at(shared, (np.arange(len(t.was))[:, None], enters), 1.0)
    agreed = np.cumsum(shared, axis=1)[:, 1 : k + 1] / depth
    weights = np.where(listed, (1 - patience) * patience ** (depth - 1), 0.0)
    last = np.maximum(t.lengths, 1)
    tail = agreed[np.arange(len(last)), last - 1] * patience**last if k else np.zeros(len(last))
    return np.where(t.lengths > 0, (agreed * weights).sum(1) + tail, np.nan)


@metric(Card(
    name="least_promoted", symbol="LIP", title="Least item promoted", needs=Reordered,
    span=(0.0, np.inf), ideal=0.0, better="",
    asks="From how far below the old list does the new one take an item?",
    undefined="the list is empty", otherwise="empty",
    says="On average, the lowest item promoted into a list came from {estimate:number} ranks below its end{interval}.",
    formula=r"\max(0, \max_r \mathrm{old}(L(r)) - k)", example="a d b against a b c d e -> 1",
    variants=("LensKit counts old ranks from 0 beside a list length counted from 1: one less where anything entered.",),
    references=("lenskit-lip",), per="ranking", family="reorder",
))  # fmt: skip
def least_promoted(t: Reordered) -> Floats:
    """How far below the end of the list its lowest new item came from; 0 without one.

    >>> least_promoted(["a", "d", "b"], before=["a", "b", "c", "d", "e"])
    1.0
    """
    lengths = t.lengths
    lowest = t.was.max(1, initial=0)
    return np.where(lengths > 0, np.maximum(lowest - lengths, 0), np.nan)
