"""Who gets the attention? Dictionaries of items and groups, every ideal order enumerated.

Input of one ranking: `labels` in rank order and `protected`. Input of many: `requests`, each with a `weight`, `rankings`
(`probability` and `items`, best first), `relevance` per item and, for IAA, `scores` per item; `groups` gives the label of each
item, `protected` and `versus` the two that are compared.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from conformance.definitions import defines
from conformance.definitions.prefix import js, kl
from conformance.exact import Undefined, add, frac, ln, log2, minus, over, times


def parsed(text):
    """`"rbp(patience=0.8)"` as a name and its parameters."""
    name, _, inside = text.rstrip(")").partition("(")
    pairs = (part.split("=") for part in inside.split(",") if part)
    return name, {key.strip(): frac(value.strip()) for key, value in pairs}


def weights(attention, n, grades=None):
    """Attention at ranks 1 to n."""
    name, given = parsed(attention)
    out = []
    for rank in range(1, n + 1):
        if name == "geometric":
            stop = given.get("stop", Fraction(1, 2))
            w = stop * (1 - stop) ** (rank - 1)
        elif name == "log":
            w = over(1, log2(max(rank + given.get("offset", 0), 2)))
        elif name == "rbp":
            w = given.get("patience", Fraction(1, 2)) ** (rank - 1)
        elif name == "uniform":
            w = Fraction(1)
        elif name == "cascade":
            w = given.get("patience", Fraction(1, 2)) ** (rank - 1)
            for above in range(rank - 1):
                w *= 1 - given.get("stop", Fraction(1, 2)) if frac(grades[above]) > 0 else 1
        else:
            raise AssertionError(attention)
        out.append(w)
    return out


@defines("awrf")
def awrf(of, target, distance="js", signed=False, attention="geometric(stop=0.5)"):
    labels = of["labels"]
    if not labels:
        raise Undefined("empty")
    groups = list(dict.fromkeys([*(x for x in labels if x is not None), *(target if isinstance(target, dict) else ())]))
    if not any(x is not None for x in labels):
        raise Undefined("no_labelled_items")
    wanted = {g: Fraction(1, len(groups)) if target == "equal" else frac(target.get(g, 0)) for g in groups}
    seen = {g: add(w for w, x in zip(weights(attention, len(labels)), labels, strict=True) if x == g) for g in groups}
    total = add(seen.values())
    p = {g: over(e, total) for g, e in seen.items()}
    if distance == "kl":
        return kl(p, wanted)
    if distance == "js":
        return jensen_shannon(p, wanted)
    if distance == "tv":
        return over(add(abs(minus(p[g], wanted[g])) for g in groups), 2)
    ours, aim = p.get(of["protected"], Fraction(0)), wanted.get(of["protected"], Fraction(0))
    if distance == "rd":
        if 1 in (ours, aim):
            raise Undefined("zero_denominator")
        return abs(minus(over(ours, minus(1, ours)), over(aim, minus(1, aim))))
    return minus(ours, aim) if signed else abs(minus(ours, aim))


def jensen_shannon(p, q):
    if all(isinstance(x, Fraction) for x in p.values()):
        return js(p, q)
    middle = {g: over(add([p[g], q[g]]), 2) for g in p}
    return over(add([kl(p, middle), kl(q, middle)]), 2)


# --- FA*IR -------------------------------------------------------------------------------------------------------------


def as_few(k, most, p):
    """P(Bin(k, p) <= most)."""
    return sum(math.comb(k, j) * p**j * (1 - p) ** (k - j) for j in range(min(k, most) + 1))


def labelled(of):
    if not of["labels"]:
        raise Undefined("empty")
    known = [x == of["protected"] for x in of["labels"] if x is not None]
    if not known:
        raise Undefined("no_labelled_items")
    return known


@defines("fair")
def fair(of, p):
    known, p = labelled(of), frac(p)
    return sum(as_few(k, sum(known[:k]), p) for k in range(1, len(known) + 1)) / len(known)


def failure(table, p):
    """Chance that independent draws fall short of the table somewhere: every sequence, one by one."""
    total = Fraction(0)
    for draws in itertools.product((0, 1), repeat=len(table)):
        if any(sum(draws[: i + 1]) < least for i, least in enumerate(table)):
            total += p ** sum(draws) * (1 - p) ** (len(draws) - sum(draws))
    return total


def at_level(k, p, level):
    """For each prefix the smallest count whose distribution function reaches the level."""
    return [next(m for m in range(i + 1) if as_few(i, m, p) >= level) for i in range(1, k + 1)]


def fair_table(k, p, alpha, adjusted):
    if not adjusted:
        return at_level(k, p, alpha)
    levels = {alpha} | {as_few(i, m, p) for i in range(1, k + 1) for m in range(i + 1)}
    good = [level for level in levels if level <= alpha and failure(at_level(k, p, level), p) <= alpha]
    return at_level(k, p, max(good)) if good else [0] * k


def first_violation(of, p, alpha, adjusted):
    known = labelled(of)
    table = fair_table(len(known), frac(p), frac(alpha), adjusted)
    ranks = [i for i, x in enumerate(of["labels"], start=1) if x is not None]
    return next((ranks[k] for k in range(len(known)) if sum(known[: k + 1]) < table[k]), None)


@defines("fair_satisfied")
def fair_satisfied(of, p, alpha=Fraction(1, 10), adjusted=True):
    return Fraction(first_violation(of, p, alpha, adjusted) is None)


@defines("fair_violation")
def fair_violation(of, p, alpha=Fraction(1, 10), adjusted=True):
    found = first_violation(of, p, alpha, adjusted)
    if found is None:
        raise Undefined("satisfied")
    return Fraction(found)


# --- many requests -----------------------------------------------------------------------------------------------------


def grade(request, item):
    return frac(request.get("relevance", {}).get(item, 0))


def received(request, attention):
    """Expected attention of every ranked item of a request."""
    mass = sum(frac(r.get("probability", 1)) for r in request["rankings"])
    found = {}
    for ranking in request["rankings"]:
        items = ranking["items"]
        for item, w in zip(items, weights(attention, len(items), [grade(request, d) for d in items]), strict=True):
            found[item] = add([found.get(item, Fraction(0)), times(frac(ranking.get("probability", 1)) / mass, w)])
    return found


def due(request, attention):
    """Mean attention of each item over every ranking by falling relevance."""
    items = list(request["relevance"])
    found, many = dict.fromkeys(items, Fraction(0)), 0
    for order in itertools.permutations(items):
        grades = [grade(request, d) for d in order]
        if all(a >= b for a, b in itertools.pairwise(grades)):
            many += 1
            for item, w in zip(order, weights(attention, len(order), grades), strict=True):
                found[item] = add([found[item], w])
    return {d: over(w, many) for d, w in found.items()}


def by_group(per_item, groups):
    found = {}
    for item, value in per_item.items():
        if groups.get(item) is not None:
            found[groups[item]] = add([found.get(groups[item], Fraction(0)), value])
    return found


def over_requests(of, one):
    """Mean over requests, by their weights, of a dictionary."""
    total = sum(frac(r.get("weight", 1)) for r in of["requests"])
    found = {}
    for request in of["requests"]:
        for key, value in one(request).items():
            found[key] = add([found.get(key, Fraction(0)), times(frac(request.get("weight", 1)) / total, value)])
    return found


def attention_on(of, attention):
    return over_requests(of, lambda r: by_group(received(r, attention), of["groups"]))


def quotient(a, b):
    if not b:
        if not a:
            raise Undefined("zero_over_zero")
        return math.inf
    return over(a, b)


def logged(x):
    return x if x == math.inf else -math.inf if not x else ln(x) if x != 1 else Fraction(0)


@defines("dp")
def dp(of, attention="log", per_item=False):
    found = attention_on(of, attention)
    sizes = {g: sum(x == g for x in of["groups"].values()) for g in (of["protected"], of["versus"])}
    ours, theirs = (over(found.get(g, Fraction(0)), sizes[g] if per_item else 1) for g in sizes)
    return quotient(ours, theirs)


@defines("log_dp")
def log_dp(of, attention="log", per_item=False):
    return logged(dp(of, attention, per_item))


@defines("exposure_share")
def exposure_share(of, attention="log"):
    found = attention_on(of, attention)
    return quotient(found.get(of["protected"], Fraction(0)), add(found.values()))


def per_relevance(of, attention, *, realised):
    judged = {**of, "requests": [r for r in of["requests"] if r.get("relevance")]}

    def gained(request):
        seen = received(request, attention)
        return by_group({d: times(w, grade(request, d)) for d, w in seen.items()}, of["groups"])

    top = over_requests(judged, gained) if realised else attention_on(judged, attention)
    worth = over_requests(judged, lambda r: by_group({d: grade(r, d) for d in r["relevance"]}, of["groups"]))
    if not worth.get(of["protected"]) or not worth.get(of["versus"]):
        raise Undefined("no_relevant_in_group")
    return quotient(*(over(top.get(g, Fraction(0)), worth[g]) for g in (of["protected"], of["versus"])))


@defines("eur")
def eur(of, attention="log"):
    return per_relevance(of, attention, realised=False)


@defines("rur")
def rur(of, attention="log"):
    return per_relevance(of, attention, realised=True)


@defines("log_eur")
def log_eur(of, attention="log"):
    return logged(eur(of, attention))


@defines("log_rur")
def log_rur(of, attention="log"):
    return logged(rur(of, attention))


def both(of, attention, level, aggregate):
    """Pairs of exposure and target exposure: one of the groups over all requests, or one for each request."""

    def at(request, what):
        return what if level == "item" else by_group(what, of["groups"])

    requests = of["requests"]
    total = sum(frac(r.get("weight", 1)) for r in requests)
    if level == "item" or aggregate == "per_request":
        return [
            (frac(r.get("weight", 1)) / total, at(r, received(r, attention)), at(r, due(r, attention)))
            for r in requests
        ]
    mean = (
        over_requests(of, lambda r: at(r, received(r, attention))),
        over_requests(of, lambda r: at(r, due(r, attention))),
    )
    return [(Fraction(1), *mean)]


def products(of, attention, level, aggregate, which):
    terms = []
    for share, seen, owed in both(of, attention, level, aggregate):
        for key in {**seen, **owed}:
            e, d = seen.get(key, Fraction(0)), owed.get(key, Fraction(0))
            terms.append(times(share, which(e, d)))
    return add(terms)


RBP = "rbp(patience=0.5)"


@defines("eed")
def eed(of, attention=RBP, level="group", aggregate="before"):
    return products(of, attention, level, aggregate, lambda e, d: times(e, e))


@defines("eer")
def eer(of, attention=RBP, level="group", aggregate="before"):
    return products(of, attention, level, aggregate, lambda e, d: times(2, e, d))


@defines("eel")
def eel(of, attention=RBP, level="group", aggregate="before"):
    return products(of, attention, level, aggregate, lambda e, d: times(minus(e, d), minus(e, d)))


@defines("target_norm")
def target_norm(of, attention=RBP, level="group", aggregate="before"):
    return products(of, attention, level, aggregate, lambda e, d: times(d, d))


@defines("iaa")
def iaa(of, attention="geometric(stop=0.5)", level="group", normalize="per_ranking"):
    """Each request is one ranking: its attention and its predicted scores, as shares, added up over the sequence."""
    seen, worth = {}, {}
    for request in of["requests"]:
        scores = {d: frac(s) for d, s in request["scores"].items()}
        a = received(request, attention)
        if level == "group":
            a, scores = by_group(a, of["groups"]), by_group(scores, of["groups"])
        if normalize == "per_ranking":
            if not add(a.values()) or not add(scores.values()):
                continue
            a, scores = ({k: over(v, add(x.values())) for k, v in x.items()} for x in (a, scores))
        for into, what in ((seen, a), (worth, scores)):
            for key, value in what.items():
                into[key] = add([into.get(key, Fraction(0)), value])
    if not add(worth.values()):
        raise Undefined("zero_utility")
    totals = add(seen.values()), add(worth.values())
    zero = Fraction(0)
    return add(
        abs(minus(over(seen.get(k, zero), totals[0]), over(worth.get(k, zero), totals[1]))) for k in {**seen, **worth}
    )


# --- pairs -------------------------------------------------------------------------------------------------------------


def right_order(of, better, worse):
    """Share of pairs of different relevance that are in the right order; a tie in score is half right. None: any group."""
    rows = list(
        zip(of["scores"], of["relevance"], of["groups"], of.get("requests") or [0] * len(of["scores"]), strict=True)
    )
    won, many = Fraction(0), 0
    for (s, y, g, q), (t, z, h, r) in itertools.permutations(rows, 2):
        if q == r and y > z and better in (None, g) and worse in (None, h):
            many += 1
            won += Fraction(s > t) + Fraction(s == t) / 2
    if not many:
        raise Undefined("no_pairs")
    return won / many


@defines("accuracy")
def accuracy(of):
    return right_order(of, None, None)


def other(of):
    return next(g for g in of["groups"] if g != of["protected"])


@defines("intra_acc")
def intra_acc(of):
    ours, theirs = of["protected"], other(of)
    return right_order(of, theirs, theirs) - right_order(of, ours, ours)


@defines("inter_acc")
def inter_acc(of):
    ours, theirs = of["protected"], other(of)
    return right_order(of, theirs, ours) - right_order(of, ours, theirs)
