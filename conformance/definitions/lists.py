"""What a new list keeps of an old one: `after` and `before`, items best first; or `gains` in rank order."""

from __future__ import annotations

from fractions import Fraction

from conformance.definitions import defines
from conformance.definitions.exposure import weights
from conformance.exact import Undefined, add, frac, fracs, over, times


@defines("ndcg")
def ndcg(of, attention="log(offset=1)"):
    gains = fracs(of["gains"])
    best = sorted(fracs(of.get("candidates") or of["gains"]), reverse=True)[: len(gains)]
    w = weights(attention, len(gains))
    ideal = add(times(a, u) for a, u in zip(w, best, strict=True))
    if not ideal:
        raise Undefined("zero_utility")
    return over(add(times(a, u) for a, u in zip(w, gains, strict=True)), ideal)


@defines("ndcg_relevance")
def ndcg_relevance(of, attention="log(offset=1)"):
    """The best list takes every judged item, whether it could have been shown or not."""
    gains = fracs(of["gains"])
    best = sorted(fracs(of.get("judgments") or of["gains"]), reverse=True)[: len(gains)]
    w = weights(attention, len(gains))
    ideal = add(times(a, u) for a, u in zip(w, best, strict=False))
    if not ideal:
        raise Undefined("zero_normalizer")
    return over(add(times(a, u) for a, u in zip(w, gains, strict=True)), ideal)


@defines("rank_biased_overlap")
def rank_biased_overlap(of, patience=Fraction(9, 10)):
    """Overlap at every depth, weighted; beyond the list's end, that of its last depth goes on."""
    after, before, p = of["after"], of["before"], frac(patience)
    if not after:
        raise Undefined("empty")
    k = len(after)
    agreed = [Fraction(len({*after[:d]} & {*before[:d]}), d) for d in range(1, k + 1)]
    return agreed[-1] * p**k + (1 - p) / p * sum(a * p**d for d, a in enumerate(agreed, 1))


@defines("least_promoted")
def least_promoted(of):
    after, before = of["after"], of["before"]
    if not after:
        raise Undefined("empty")
    return Fraction(max(0, max(before.index(d) + 1 for d in after) - len(after)))
