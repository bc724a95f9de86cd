"""Does every top of a ranking mirror the whole? Loops over ranks; the worst order is found by looking at every order.

Input: `labels` in rank order (null is unknown: it keeps its rank and counts in no share) and `protected`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

from conformance.definitions import defines
from conformance.exact import Undefined, add, frac, ln, log2, over, times


def read(of, *, sides):
    labels = of["labels"]
    if not labels:
        raise Undefined("empty")
    known = [label for label in labels if label is not None]
    if not known:
        raise Undefined("no_labelled_items")
    if sides:
        labels = [None if label is None else label == of["protected"] for label in labels]
    if len({label for label in labels if label is not None}) < 2:
        raise Undefined("one_group_only")
    return labels


def mix(labels):
    return {g: Fraction(n, len(labels)) for g, n in Counter(labels).items()}


def kl(p, q, log=log2):
    if any(x and not q.get(g, 0) for g, x in p.items()):
        return math.inf
    return add(times(x, log(over(x, q[g]))) for g, x in p.items() if x)


def js(p, q):
    middle = {g: (p.get(g, Fraction(0)) + q.get(g, Fraction(0))) / 2 for g in {**p, **q}}
    return over(add([kl(p, middle), kl(q, middle)]), 2)


def share(labels):
    return Fraction(sum(labels), len(labels))


def ratio(labels):
    """Protected to others; a fraction with denominator 0 counts as 0."""
    ours = sum(labels)
    return Fraction(ours, len(labels) - ours) if ours < len(labels) else Fraction(0)


def share_difference(prefix, whole):
    return abs(share(prefix) - share(whole))


def ratio_difference(prefix, whole):
    return abs(ratio(prefix) - ratio(whole))


def ratio_shortfall(prefix, whole):
    return Fraction(0) if all(prefix) else ratio(whole) - min(ratio(prefix), ratio(whole))


def divergence_of_sides(smoothing):
    """KL of the two sides; a share of 0 or 1 is moved inside by `smoothing`, as the source does."""

    def difference(prefix, whole):
        p, q = share(prefix), share(whole)
        if smoothing is not None and p in (0, 1):
            p = frac(smoothing) if p == 0 else 1 - frac(smoothing)
        return kl({1: p, 0: 1 - p}, {1: q, 0: 1 - q})

    return difference


def mix_divergence(prefix, whole):
    return kl(mix(prefix), mix(whole))


def mix_jensen_shannon(prefix, whole):
    return js(mix(prefix), mix(whole))


def discount_plus_one(i):
    return log2(i + 1)


def prefix_sum(labels, difference, discount=discount_plus_one, step=1):
    whole = [label for label in labels if label is not None]
    terms = []
    for i in range(step, len(labels) + 1, step):
        prefix = [label for label in labels[:i] if label is not None]
        if prefix:
            terms.append(over(difference(prefix, whole), discount(i)))
    return add(terms)


def orders(labels):
    """Every distinct order of the known labels over the known ranks."""
    slots = [i for i, label in enumerate(labels) if label is not None]
    for order in dict.fromkeys(itertools.permutations([labels[i] for i in slots])):
        placed = list(labels)
        for i, label in zip(slots, order, strict=True):
            placed[i] = label
        yield placed


def blocks(labels, step):
    """Orders that differ in what stands within a step count alike: one for each way to deal the labels to the steps."""
    kinds = Counter(labels)
    starts = range(0, len(labels), step)
    sizes = [min(step, len(labels) - s) for s in starts]

    def deal(left, sizes):
        if not sizes:
            yield []
            return
        names = list(left)
        for counts in itertools.product(*(range(left[g] + 1) for g in names)):
            if sum(counts) == sizes[0]:
                rest = Counter({g: left[g] - n for g, n in zip(names, counts, strict=True)})
                block = [g for g, n in zip(names, counts, strict=True) for _ in range(n)]
                for others in deal(rest, sizes[1:]):
                    yield block + others

    yield from deal(kinds, sizes)


def largest(labels, difference, discount=discount_plus_one, step=1):
    every = blocks(labels, step) if step > 1 and None not in labels else orders(labels)
    return max(prefix_sum(order, difference, discount, step) for order in every)


def ordered(labels, *, first):
    """All protected items first, or last, over the known ranks."""
    slots = [i for i, label in enumerate(labels) if label is not None]
    placed = list(labels)
    for i, label in zip(slots, sorted((labels[i] for i in slots), reverse=first), strict=True):
        placed[i] = label
    return placed


def normalised(labels, difference, normalizer, discount=discount_plus_one, step=1, published=True):
    found = prefix_sum(labels, difference, discount, step)
    if normalizer is None:
        return found
    if normalizer == "max":
        z = largest(labels, difference, discount, step)
    elif normalizer == "bound":
        z = add(
            over(1, discount(i)) for i in range(step, len(labels) + 1, step) if any(x is not None for x in labels[:i])
        )
    else:
        z = prefix_sum(ordered(labels, first=published), difference, discount, step)
    if not z:
        raise Undefined("zero_normalizer")
    return over(found, z)


@defines("ndd")
def ndd(of, normalizer="max"):
    return normalised(read(of, sides=True), share_difference, normalizer)


@defines("ndr")
def ndr(of, normalizer="published", one_sided=False):
    """The published Z is "all protected first"; for the one-sided form "all protected last", its exact maximum."""
    difference = ratio_shortfall if one_sided else ratio_difference
    return normalised(read(of, sides=True), difference, normalizer, published=not one_sided)


@defines("ndkl")
def ndkl(of, normalizer="max", smoothing=Fraction(1, 1000)):
    return normalised(read(of, sides=True), divergence_of_sides(smoothing), normalizer)


@defines("ndjs")
def ndjs(of, normalizer="bound"):
    return normalised(read(of, sides=False), mix_jensen_shannon, normalizer)


@defines("output_bias")
def output_bias(of):
    """The mean over prefixes of the mean of each; what is unknown counts in none."""
    prefixes = [[frac(x) for x in of["labels"][: i + 1] if x is not None] for i in range(len(of["labels"]))]
    means = [sum(values) / len(values) for values in prefixes if values]
    if not means:
        raise Undefined("no_labelled_items" if of["labels"] else "empty")
    return sum(means) / len(means)


@defines("ranking_bias")
def ranking_bias(of):
    values = [frac(x) for x in of["labels"] if x is not None]
    return output_bias(of) - sum(values) / max(len(values), 1)


@defines("geyik_ndkl")
def geyik_ndkl(of, epsilon=Fraction(1, 10**7)):
    """Natural logarithms and an epsilon on every share, as the libraries of that name compute it."""
    labels = read(of, sides=False)
    whole = mix([x for x in labels if x is not None])
    epsilon = frac(epsilon)

    def difference(prefix, _):
        shares = {g: mix(prefix).get(g, Fraction(0)) + epsilon for g in whole}
        return add(times(p, ln(p / (whole[g] + epsilon))) for g, p in shares.items() if p)

    return normalised(labels, difference, "bound")


def pref(of, difference, *, sides, step, discount, normalizer):
    labels = read(of, sides=sides)
    if step > len(labels):
        raise Undefined("too_short")
    by = {"log2(i)": log2, "log2(i+1)": discount_plus_one}[discount]
    return normalised(labels, difference, normalizer, by, step)


@defines("pref_nd")
def pref_nd(of, step=10, discount="log2(i)", normalizer="max"):
    return pref(of, share_difference, sides=True, step=step, discount=discount, normalizer=normalizer)


@defines("pref_rd")
def pref_rd(of, step=10, discount="log2(i)", normalizer="max", one_sided=False):
    difference = ratio_shortfall if one_sided else ratio_difference
    return pref(of, difference, sides=True, step=step, discount=discount, normalizer=normalizer)


@defines("pref_kl")
def pref_kl(of, step=10, discount="log2(i)", normalizer="max"):
    """Two sides where one is protected, else every label."""
    if of.get("protected") is not None:
        return pref(of, divergence_of_sides(None), sides=True, step=step, discount=discount, normalizer=normalizer)
    return pref(of, mix_divergence, sides=False, step=step, discount=discount, normalizer=normalizer)
