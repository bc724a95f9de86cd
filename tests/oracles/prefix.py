"""Prefix metrics by definition: loops over ranks, every arrangement enumerated, no tricks."""

from __future__ import annotations

import itertools
import math
from collections import Counter


def share_difference(prefix, whole, protected=1):
    return abs(share(prefix, protected) - share(whole, protected))


def ratio_difference(prefix, whole, protected=1):
    return abs(ratio(prefix, protected) - ratio(whole, protected))


def ratio_shortfall(prefix, whole, protected=1):
    if all(label == protected for label in prefix):
        return 0.0
    return ratio(whole, protected) - min(ratio(prefix, protected), ratio(whole, protected))


def smoothed_divergence(prefix, whole, protected=1, smoothing=0.001):
    p, q = share(prefix, protected), share(whole, protected)
    if smoothing is not None and p in (0, 1):
        p = smoothing if p == 0 else 1 - smoothing
    return divergence({1: p, 0: 1 - p}, {1: q, 0: 1 - q})


def mix_divergence(prefix, whole):
    return divergence(mix(prefix), mix(whole))


def mix_jensen_shannon(prefix, whole):
    p, q = mix(prefix), mix(whole)
    middle = {g: (p.get(g, 0) + q.get(g, 0)) / 2 for g in {**p, **q}}
    return (divergence(p, middle) + divergence(q, middle)) / 2


def share(labels, protected):
    return sum(label == protected for label in labels) / len(labels)


def ratio(labels, protected):
    ours = sum(label == protected for label in labels)
    return ours / (len(labels) - ours) if ours < len(labels) else 0.0


def mix(labels):
    return {g: n / len(labels) for g, n in Counter(labels).items()}


def divergence(p, q):
    return sum(x * math.log2(x / q[g]) for g, x in p.items() if x > 0)


def prefix_sum(labels, difference, *, step=1, plus_one=True, depth=None, target=None):
    """The sum over prefixes; an unknown item (None) keeps its rank and counts in no share.

    Prefixes of at most `depth` ranks, held against the whole list, or against a list of the mix aimed at.
    """
    whole = target or [label for label in labels if label is not None]
    total = 0.0
    for i in range(step, min(len(labels), depth or len(labels)) + 1, step):
        prefix = [label for label in labels[:i] if label is not None]
        if prefix:
            total += difference(prefix, whole) / math.log2(i + 1 if plus_one else i)
    return total


def arrangements(labels):
    """Every distinct order of the known labels over the known ranks."""
    slots = [i for i, label in enumerate(labels) if label is not None]
    for order in set(itertools.permutations([labels[i] for i in slots])):
        placed = list(labels)
        for i, label in zip(slots, order, strict=True):
            placed[i] = label
        yield placed


def largest(labels, difference, **keywords):
    return max(prefix_sum(order, difference, **keywords) for order in arrangements(labels))


def expected(labels, difference, **keywords):
    """Mean over every order; all distinct orders are equally likely."""
    values = [prefix_sum(order, difference, **keywords) for order in arrangements(labels)]
    return sum(values) / len(values)
