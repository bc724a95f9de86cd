"""Slow definitions behind rebalancing: linear programmes over all stochastic policies, and re-rankers item by item."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import linprog, minimize


def policies(slates):
    """Every stochastic policy of a small instance, as the chance that a candidate stands at a rank.

    Returns the constraints (each candidate at most once, each rank once), exposure over its mean and relevance as linear maps.
    """
    many, top = len(slates.item), slates.top
    request = np.repeat(np.arange(slates.requests), slates.sizes)
    once, filled = np.zeros((many, many * top)), np.zeros((slates.requests * top, many * top))
    providers = slates.owners.providers
    exposure, relevance = np.zeros((providers, many * top)), np.zeros(many * top)
    for d in range(many):
        for r in range(top):
            at = d * top + r
            once[d, at] = filled[request[d] * top + r, at] = 1
            owned = slates.owners.item == slates.item[d]
            for p, share in zip(slates.owners.provider[owned], slates.owners.share[owned], strict=True):
                exposure[p, at] += share * slates.attention[r] * providers / slates.exposure
            relevance[at] = slates.attention[r] * slates.gain[d] / slates.requests
    return once, filled, exposure, relevance


def best_value(slates, strength, target=None):
    """The optimum of (1 - strength) nDCG + strength (1 - Gini), or (1 - TV to the target), by linear programming."""
    once, filled, exposure, relevance = policies(slates)
    providers = len(exposure)
    if target is None:
        pairs = list(combinations(range(providers), 2))
        apart = np.stack([exposure[a] - exposure[b] for a, b in pairs])
        wanted, weight = np.zeros(len(pairs)), 1 / providers**2
    else:
        apart, wanted, weight = exposure, np.asarray(target) * providers, 0.5 / providers
    extra = len(apart)
    cost = np.concatenate([-(1 - strength) * relevance, np.full(extra, strength * weight)])
    blank = np.zeros((len(once), extra))
    limits = np.block([[once, blank], [apart, -np.eye(extra)], [-apart, -np.eye(extra)]])
    most = np.concatenate([np.ones(len(once)), wanted, -wanted])
    equal = np.hstack([filled, np.zeros((len(filled), extra))])
    found = linprog(cost, A_ub=limits, b_ub=most, A_eq=equal, b_eq=np.ones(len(filled)))
    return strength - found.fun


def best_smooth_value(slates, strength, value, slope):
    """The optimum for a smooth objective, by sequential quadratic programming from the uniform policy."""
    once, filled, exposure, relevance = policies(slates)
    start = np.full(once.shape[1], 1 / slates.sizes[0])

    def worth(z):
        return -((1 - strength) * relevance @ z + strength * value(np.maximum(exposure @ z, 1e-9)))

    def steep(z):
        return -((1 - strength) * relevance + strength * (exposure.T @ slope(np.maximum(exposure @ z, 1e-9))))

    rules = [
        {"type": "eq", "fun": lambda z: filled @ z - 1, "jac": lambda z: filled},
        {"type": "ineq", "fun": lambda z: 1 - once @ z, "jac": lambda z: -once},
    ]
    options = {"maxiter": 200, "ftol": 1e-10}
    return -minimize(
        worth, start, jac=steep, method="SLSQP", bounds=[(0, 1)] * len(start), constraints=rules, options=options
    ).fun


def overlap(after, before, patience):
    """Rank-biased overlap, extrapolated from the length of the list."""
    k = len(after)
    agreed = [len({*after[:d]} & {*before[:d]}) / d for d in range(1, k + 1)]
    return agreed[-1] * patience**k + (1 - patience) / patience * sum(a * patience**d for d, a in enumerate(agreed, 1))


def fa_star_ir(protected, top, table):
    """Candidates in score order (True: protected): at each rank the best one, or the best protected one where too few stand."""
    left, out, held = list(range(len(protected))), [], 0
    for rank in range(min(top, len(protected))):
        ours = [i for i in left if protected[i]]
        pick = ours[0] if held < table[rank] and ours else left[0]
        left.remove(pick)
        out.append(pick)
        held += protected[pick]
    return out


def det_const_sort(score, group, top, target):
    """Algorithm 3 of Geyik et al. (2019), candidates in score order; slots left over go to the best left."""
    queues = [[i for i in range(len(score)) if group[i] == g] for g in range(len(target))]
    counts, least, placed, latest, k = [0] * len(target), [0] * len(target), [], [], 0
    length = min(top, len(score))
    while len(placed) < length and k < top + len(target):
        k += 1
        now = [int(np.floor(k * share + 1e-9)) for share in target]
        rising = [g for g in range(len(target)) if least[g] < now[g] and counts[g] < len(queues[g])]
        for g in sorted(rising, key=lambda g: queues[g][counts[g]]):
            if len(placed) >= length:
                break
            placed.append(queues[g][counts[g]])
            latest.append(k - 1)
            at = len(placed) - 1
            while at > 0 and latest[at - 1] >= at and score[placed[at - 1]] < score[placed[at]]:
                placed[at - 1], placed[at] = placed[at], placed[at - 1]
                latest[at - 1], latest[at] = latest[at], latest[at - 1]
                at -= 1
            counts[g] += 1
        least = now
    return placed + [i for i in range(len(score)) if i not in placed][: length - len(placed)]


def calibrated(score, group, top, target, strength):
    """Steck's greedy list: whichever candidate adds most, all of them tried at every rank."""
    target = np.asarray(target)

    def worth(chosen):
        shares = 0.99 * np.bincount(group[chosen], minlength=len(target)) / len(chosen) + 0.01 * target
        aims = target > 0
        away = (target[aims] * np.log2(target[aims] / shares[aims])).sum()
        return (1 - strength) * score[chosen].sum() - strength * away

    out = []
    for _ in range(min(top, len(score))):
        left = [i for i in range(len(score)) if i not in out]
        out.append(max(left, key=lambda i: (round(worth([*out, i]), 12), -i)))
    return out
