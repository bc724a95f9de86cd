"""Slow definitions of the decompositions: nested means over units, no tricks."""

from __future__ import annotations

import math


def gini(x):
    n, total = len(x), math.fsum(x)
    return math.fsum(abs(a - b) for a in x for b in x) / (2 * n * total) if total else math.nan


def entropy(x, alpha):
    n, mean = len(x), math.fsum(x) / len(x)
    if mean == 0:
        return math.nan
    if alpha <= 0 and min(x) == 0:
        return math.inf
    if alpha == 1:
        return math.fsum(v / mean * math.log(v / mean) for v in x if v > 0) / n
    if alpha == 0:
        return -math.fsum(math.log(v / mean) for v in x) / n
    return (math.fsum((v / mean) ** alpha for v in x) / n - 1) / (alpha * (alpha - 1))


def atkinson(x, epsilon):
    n, mean = len(x), math.fsum(x) / len(x)
    if mean == 0:
        return math.nan
    if epsilon >= 1 and min(x) == 0:
        return 1.0
    if math.isinf(epsilon):
        return 1 - min(x) / mean
    if epsilon == 1:
        return 1 - math.exp(math.fsum(math.log(v) for v in x) / n) / mean
    return 1 - (math.fsum(v ** (1 - epsilon) for v in x) / n) ** (1 / (1 - epsilon)) / mean


def split(x, groups):
    return {g: [v for v, other in zip(x, groups, strict=True) if other == g] for g in dict.fromkeys(groups)}


def at_value(members, value):
    """Everybody at a value of their group."""
    return [value(x) for x in members.values() for _ in x]


def mean(x):
    return math.fsum(x) / len(x)


def gini_parts(x, groups):
    members, n, total = split(x, groups), len(x), math.fsum(x)
    within = math.fsum(len(m) / n * sum(m) / total * gini(m) for m in members.values() if sum(m))
    between = gini(at_value(members, mean))
    return {"total": gini(x), "within": within, "between": between, "overlap": gini(x) - within - between}


def entropy_parts(x, groups, alpha):
    members, n, total = split(x, groups), len(x), math.fsum(x)
    within = 0.0
    for m in members.values():
        if sum(m):
            within += (len(m) / n) ** (1 - alpha) * (sum(m) / total) ** alpha * entropy(m, alpha)
        elif alpha <= 0:
            within = math.inf
    return {"total": entropy(x, alpha), "within": within, "between": entropy(at_value(members, mean), alpha)}


def atkinson_parts(x, groups, epsilon):
    members, total = split(x, groups), math.fsum(x)
    within = math.fsum(sum(m) / total * atkinson(m, epsilon) for m in members.values() if sum(m))
    equivalent = lambda m: mean(m) * (1 - atkinson(m, epsilon)) if sum(m) else 0.0  # noqa: E731
    return {
        "total": atkinson(x, epsilon),
        "within": within,
        "between": atkinson(at_value(members, equivalent), epsilon),
    }


def mid_ranks(x):
    """(rank - 1/2) / n, ties averaged."""
    return [(sum(other < v for other in x) + sum(other == v for other in x) / 2) / len(x) for v in x]


def covariance(x, y):
    mx, my = mean(x), mean(y)
    return math.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / len(x)


def source_parts(sources):
    totals = [math.fsum(row) for row in zip(*sources.values(), strict=True)]
    everything, ranks = math.fsum(totals), mid_ranks(totals)
    index = gini(totals)
    out = {}
    for name, x in sources.items():
        own = covariance(x, mid_ranks(x)) if len(set(x)) > 1 else 0.0
        share = math.fsum(x) / everything
        contribution = 2 * covariance(x, ranks) / mean(totals) if own else 0.0
        out[name] = {
            "share": share,
            "gini": gini(x),
            "correlation": covariance(x, ranks) / own if own else math.nan,
            "contribution": contribution,
            "marginal": contribution - share * index,
        }
    return {"total": index, "sources": out}
