"""A recommender before groups of users and before its catalogue: loops over users and items.

Input: `scores`, users by items (null is missing), `top` or `threshold` for what is shown, `user_groups` with `protected` and
`versus`, `relevant` as users by items. Of ties, the lower column is shown. Or `lists`: of each user, the items shown, best
first, and `items`: how many the catalogue holds (they are numbered from 0).
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from conformance.definitions import defines
from conformance.definitions.amounts import gini
from conformance.definitions.exposure import weights
from conformance.exact import Undefined, add, frac, ln, minus, over, root, times


def shown(of):
    """Of each user, 1 for every item shown."""
    if not of["scores"] or not of["scores"][0]:
        raise Undefined("empty")
    rows = []
    for row in of["scores"]:
        there = [j for j, v in enumerate(row) if v is not None]
        if of.get("top") is not None:
            chosen = sorted(there, key=lambda j: (-frac(row[j]), j))[: of["top"]]
        else:
            chosen = [j for j in there if frac(row[j]) >= frac(of["threshold"])]
        rows.append([int(j in chosen) for j in range(len(row))])
    return rows


def counts(of, group=None):
    """Times each item is shown, to everybody or to a group of users."""
    rows = [row for u, row in enumerate(shown(of)) if group is None or of["user_groups"][u] == group]
    return [sum(row[j] for row in rows) for j in range(len(of["scores"][0]))]


def slots(of):
    found = counts(of)
    if not sum(found):
        raise Undefined("zero_total")
    return found


def users_of(of, group):
    return [u for u, g in enumerate(of["user_groups"]) if g == group]


def mix_of(of, group):
    found = counts(of, group)
    if not sum(found):
        raise Undefined("nothing_shown")
    return [Fraction(c, sum(found)) for c in found]


@defines("aggregate_diversity")
def aggregate_diversity(of):
    found = counts(of)
    return Fraction(sum(c > 0 for c in found), len(found))


@defines("item_gini")
def item_gini(of, corrected=False):
    return gini({"amounts": slots(of)}, corrected)


@defines("exposure_entropy")
def exposure_entropy(of, base=None, normalized=False):
    found = slots(of)
    shares = [Fraction(c, sum(found)) for c in found if c]
    entropy = -add(times(p, ln(p)) for p in shares)
    if normalized:
        if len(found) == 1:
            raise Undefined("single_member")
        return over(entropy, ln(len(found)))
    return entropy if base is None else over(entropy, ln(frac(base)))


@defines("recommendation_popularity")
def recommendation_popularity(of):
    found, rows = counts(of), [row for row in shown(of) if any(row)]
    if not rows:
        raise Undefined("nothing_shown")
    return sum(Fraction(sum(s * c for s, c in zip(row, found, strict=True)), sum(row)) for row in rows) / len(rows)


@defines("exposure_tv")
def exposure_tv(of):
    a, b = (mix_of(of, of[side]) for side in ("versus", "protected"))
    return sum(abs(p - q) for p, q in zip(a, b, strict=True)) / 2


@defines("exposure_kl")
def exposure_kl(of, smoothing=0):
    mixes = []
    for side in ("versus", "protected"):
        mix_of(of, of[side])
        found = [c + frac(smoothing) for c in counts(of, of[side])]
        mixes.append([c / sum(found) for c in found])
    if any(p and not q for p, q in zip(*mixes, strict=True)):
        return math.inf
    return add(times(p, ln(p / q)) for p, q in zip(*mixes, strict=True) if p)


@defines("mad")
def mad(of):
    means = []
    for side in ("versus", "protected"):
        values = [frac(v) for u in users_of(of, of[side]) for v in of["scores"][u] if v is not None]
        if not values:
            raise Undefined("group_absent")
        means.append(sum(values) / len(values))
    return means[0] - means[1]


def served(of, which):
    """Mean over the users of each side of precision, recall or F1; 0 where a user was shown or wanted nothing."""
    rows, means = shown(of), []
    for side in ("versus", "protected"):
        values = []
        for u in users_of(of, of[side]):
            wanted = [int(frac(y) > 0) for y in of["relevant"][u]]
            hits = sum(s * y for s, y in zip(rows[u], wanted, strict=True))
            size = {"precision": sum(rows[u]), "recall": sum(wanted), "f1": Fraction(sum(rows[u]) + sum(wanted), 2)}[
                which
            ]
            values.append(Fraction(hits) / size if size else Fraction(0))
        means.append(sum(values) / len(values))
    if not means[0]:
        raise Undefined("zero_denominator")
    return means[1] / means[0]


for _which in ("precision", "recall", "f1"):
    defines(f"{_which}_ratio")(lambda of, which=_which: served(of, which))


def error_ratio(of, error):
    means = []
    for side in ("versus", "protected"):
        pairs = [
            (v, y) for u in users_of(of, of[side]) for v, y in zip(of["scores"][u], of["relevant"][u], strict=True)
        ]
        apart = [frac(v) - frac(y) for v, y in pairs if v is not None and y is not None]
        means.append(error(apart))
    if not means[0]:
        raise Undefined("zero_denominator")
    return over(means[1], means[0])


@defines("mae_ratio")
def mae_ratio(of):
    return error_ratio(of, lambda e: sum(map(abs, e)) / len(e))


@defines("rmse_ratio")
def rmse_ratio(of):
    return error_ratio(of, lambda e: root(sum(x * x for x in e) / len(e)))


# --- single items -----------------------------------------------------------------------------------------------------


@defines("jain_index")
def jain_index(of):
    found = slots(of)
    return Fraction(sum(found) ** 2, len(found) * sum(c * c for c in found))


@defines("satisfied_items")
def satisfied_items(of):
    """Items shown at least as often as an equal deal of all slots would show each of them at least."""
    found = slots(of)
    return Fraction(sum(c >= sum(found) // len(found) for c in found), len(found))


@defines("count_disparity")
def count_disparity(of):
    found = [c for c in slots(of) if c]
    if len(found) < 2:
        raise Undefined("single_member")
    pairs = list(itertools.combinations(found, 2))
    return sum(Fraction(abs(a - b), max(a, b)) for a, b in pairs) / len(pairs)


def attention_by_user(of, attention):
    """Users by items: the attention that each item gets."""
    if not of["lists"] or not of["items"]:
        raise Undefined("empty")
    rows = []
    for shown_items in of["lists"]:
        row = [Fraction(0)] * of["items"]
        for item, w in zip(shown_items, weights(attention, len(shown_items)), strict=True):
            row[item] = w
        rows.append(row)
    return rows


def variance(values):
    mean = over(add(values), len(values))
    return over(add(times(minus(v, mean), minus(v, mean)) for v in values), len(values))


@defines("ai_disparity")
def ai_disparity(of, attention="rbp(patience=0.8)"):
    rows = attention_by_user(of, attention)
    return variance([over(add(column), len(rows)) for column in zip(*rows, strict=True)])


@defines("ii_disparity")
def ii_disparity(of, attention="rbp(patience=0.8)"):
    return variance([e for row in attention_by_user(of, attention) for e in row])


@defines("ranked_gini")
def ranked_gini(of, attention="rbp(patience=0.8)"):
    x = [add(column) for column in zip(*attention_by_user(of, attention), strict=True)]
    if not add(x):
        raise Undefined("zero_total")
    return over(add(abs(minus(a, b)) for a in x for b in x), times(2, len(x), add(x)))
