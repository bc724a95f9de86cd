"""Slow definitions of everything about exposure: plain Python over lists and dictionaries, no tricks.

A request is `{"prob": w, "rel": {item: y}, "rankings": [{"prob": p, "items": [...]}]}`; `groups` is
`{item: label, {label: share} or None}`.
"""

from itertools import pairwise, permutations
from math import comb, inf, log, log2, nan


def weights(model, n, relevance=None, *, stop=0.5, patience=0.5, offset=0):
    out = []
    for rank in range(1, n + 1):
        if model == "geometric":
            w = stop * (1 - stop) ** (rank - 1)
        elif model == "log":
            w = 1 / log2(max(rank + offset, 2))
        elif model == "rbp":
            w = patience ** (rank - 1)
        elif model == "uniform":
            w = 1.0
        else:
            w = patience ** (rank - 1)
            for above in range(rank - 1):
                w *= 1 - stopping(stop, relevance[above])
        out.append(w)
    return out


def stopping(stop, y):
    if isinstance(stop, dict):
        return stop.get(y, 0.0) if y == 0 else stop[y]
    return stop if y > 0 else 0.0


def row_of(label):
    return {} if label is None else dict(label) if isinstance(label, dict) else {label: 1.0}


def awrf(labels, target, distance, protected=None, *, signed=False, model="geometric", relevance=None, **params):
    w = weights(model, len(labels), relevance, **params)
    exposure = dict.fromkeys(target, 0.0)
    for weight, label in zip(w, labels, strict=True):
        for g, share in row_of(label).items():
            exposure[g] = exposure.get(g, 0.0) + weight * share
    total = sum(exposure.values())
    if total == 0:
        return nan
    p = {g: e / total for g, e in exposure.items()}
    q = {g: target.get(g, 0.0) for g in exposure}
    if distance == "kl":
        return kl(p, q)
    if distance == "js":
        middle = {g: (p[g] + q[g]) / 2 for g in p}
        return (kl(p, middle) + kl(q, middle)) / 2
    if distance == "tv":
        return sum(abs(p[g] - q[g]) for g in p) / 2
    ours, wanted = p.get(protected, 0.0), q.get(protected, 0.0)
    if distance == "rd":
        return nan if 1 in (ours, wanted) else abs(ours / (1 - ours) - wanted / (1 - wanted))
    return ours - wanted if signed else abs(ours - wanted)


def kl(p, q):
    total = 0.0
    for g, share in p.items():
        if share > 0:
            total += share * log2(share / q[g]) if q[g] > 0 else inf
    return total


def fair(labels, protected, p):
    known = [label for label in labels if label is not None]
    chances = []
    for k in range(1, len(known) + 1):
        c = sum(label == protected for label in known[:k])
        chances.append(sum(comb(k, j) * p**j * (1 - p) ** (k - j) for j in range(c + 1)))
    return sum(chances) / len(chances) if chances else nan


def failure(table, p):
    """Every sequence of zeros and ones, one by one."""
    total = 0.0
    for code in range(2 ** len(table)):
        draws = [(code >> i) & 1 for i in range(len(table))]
        if any(sum(draws[: i + 1]) < table[i] for i in range(len(table))):
            total += p ** sum(draws) * (1 - p) ** (len(draws) - sum(draws))
    return total


def target_by_enumeration(relevance, model, **params):
    """Mean weight of each item over every ranking by falling relevance."""
    items = list(relevance)
    sums = dict.fromkeys(items, 0.0)
    count = 0
    for order in permutations(items):
        grades = [relevance[d] for d in order]
        if all(a >= b for a, b in pairwise(grades)):
            count += 1
            for item, w in zip(order, weights(model, len(order), grades, **params), strict=True):
                sums[item] += w
    return {d: s / count for d, s in sums.items()}


def normalised(parts):
    total = sum(p["prob"] for p in parts)
    return [p["prob"] / total for p in parts]


def item_exposure(request, model, **params):
    """Expected attention of every ranked item of a request."""
    found = {}
    for share, ranking in zip(normalised(request["rankings"]), request["rankings"], strict=True):
        grades = [request["rel"].get(d, 0) for d in ranking["items"]]
        for d, w in zip(ranking["items"], weights(model, len(grades), grades, **params), strict=True):
            found[d] = found.get(d, 0.0) + share * w
    return found


def by_group(per_item, groups):
    found = {}
    for d, value in per_item.items():
        for g, share in row_of(groups.get(d)).items():
            found[g] = found.get(g, 0.0) + share * value
    return found


def over_requests(requests, per_request):
    """Weighted mean over requests of a dictionary."""
    found = {}
    for share, request in zip(normalised(requests), requests, strict=True):
        for g, value in per_request(request).items():
            found[g] = found.get(g, 0.0) + share * value
    return found


def exposure(requests, groups, model, **params):
    return over_requests(requests, lambda r: by_group(item_exposure(r, model, **params), groups))


def utility(requests, groups):
    return over_requests(requests, lambda r: by_group(r["rel"], groups))


def gained(requests, groups, model, **params):
    def one(request):
        e = item_exposure(request, model, **params)
        return by_group({d: w * request["rel"].get(d, 0) for d, w in e.items()}, groups)

    return over_requests(requests, one)


def sizes(groups):
    found = {}
    for label in groups.values():
        for g, share in row_of(label).items():
            found[g] = found.get(g, 0.0) + share
    return found


def ratio(a, b):
    if b == 0:
        return nan if a == 0 else inf
    return a / b


def logged(x):
    return x if x != x or x == inf else -inf if x == 0 else log(x)


def dp(requests, groups, plus, minus, model, *, per_item=False, epsilon=0.0, **params):
    e = exposure(requests, groups, model, **params)
    n = sizes(groups)
    ours, theirs = e.get(plus, 0.0), e.get(minus, 0.0)
    if per_item:
        ours, theirs = ours / n[plus], theirs / n[minus]
    return ratio(ours + epsilon, theirs + epsilon)


def eur(requests, groups, plus, minus, model, *, realised=False, as_printed=False, epsilon=0.0, **params):
    top = gained(requests, groups, model, **params) if realised else exposure(requests, groups, model, **params)
    u, n = utility(requests, groups), sizes(groups)
    if not u.get(plus) or not u.get(minus):
        return nan
    ours, theirs = (top.get(g, 0.0) / u[g] * (n[g] if as_printed else 1) for g in (plus, minus))
    return ratio(ours + epsilon, theirs + epsilon)


def expected_exposure(requests, groups, model, *, level="group", aggregate="before", **params):
    """EED, EER, EEL and |e*|^2 by the definition, the target by enumeration."""

    def pair(request):
        e = item_exposure(request, model, **params)
        due = target_by_enumeration(request["rel"], model, **params) if request["rel"] else {}
        return (e, due) if level == "item" else (by_group(e, groups), by_group(due, groups))

    def norms(e, due):
        keys = set(e) | set(due)
        eed = sum(e.get(k, 0.0) ** 2 for k in keys)
        eer = 2 * sum(e.get(k, 0.0) * due.get(k, 0.0) for k in keys)
        norm = sum(due.get(k, 0.0) ** 2 for k in keys)
        return {
            "eed": eed,
            "eer": eer,
            "target_norm": norm,
            "eel": sum((e.get(k, 0) - due.get(k, 0)) ** 2 for k in keys),
        }

    if level == "item" or aggregate == "per_request":
        return over_requests(requests, lambda r: norms(*pair(r)))
    e = over_requests(requests, lambda r: pair(r)[0])
    due = over_requests(requests, lambda r: pair(r)[1])
    return norms(e, due)


def iaa(rankings, groups, model, *, normalize="per_ranking", **params):
    """`rankings`: items, and a score for every scored item; `groups` None compares items."""
    attention, worth = {}, {}
    for ranking in rankings:
        w = weights(model, len(ranking["items"]), **params)
        labelled = {d: row_of(d if groups is None else groups.get(d)) for d in {*ranking["items"], *ranking["score"]}}
        a, r = {}, {}
        for d, weight in zip(ranking["items"], w, strict=True):
            for g, share in labelled[d].items():
                a[g] = a.get(g, 0.0) + share * weight
        for d, score in ranking["score"].items():
            for g, share in labelled[d].items():
                r[g] = r.get(g, 0.0) + share * score
        if normalize == "per_ranking":
            if not sum(r.values()) or not sum(a.values()):
                continue
            a = {g: v / sum(a.values()) for g, v in a.items()}
            r = {g: v / sum(r.values()) for g, v in r.items()}
        for g, v in a.items():
            attention[g] = attention.get(g, 0.0) + v
        for g, v in r.items():
            worth[g] = worth.get(g, 0.0) + v
    if not sum(worth.values()):
        return nan
    keys = set(attention) | set(worth)
    scale_a, scale_r = sum(attention.values()), sum(worth.values())
    return sum(abs(attention.get(k, 0.0) / scale_a - worth.get(k, 0.0) / scale_r) for k in keys)
