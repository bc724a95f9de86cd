"""Recommender measures by their definitions: loops over users and items, one line of the formula book at a time."""

from __future__ import annotations

import math
from fractions import Fraction

NAN = math.nan


def missing(value):
    return value is None or math.isnan(value) or value == -math.inf


def shown(matrix, top=None, threshold=None, ties="first"):
    """How much of each item each user is shown."""
    return [_row(row, top, threshold, ties) for row in matrix]


def _row(row, top, threshold, ties):
    if top is None:
        return [0 if missing(v) else 1 if threshold is None else int(v >= threshold) for v in row]
    there = [j for j, v in enumerate(row) if not missing(v)]
    if ties == "fractional":
        weights = [0] * len(row)
        left = top
        for value in sorted({row[j] for j in there}, reverse=True):
            equal = [j for j in there if row[j] == value]
            for j in equal:
                weights[j] = min(Fraction(1), Fraction(left, len(equal)))
            left = max(0, left - len(equal))
        return [float(w) for w in weights]
    order = sorted(there, key=lambda j: (-row[j], j if ties == "first" else -j))
    return [int(j in order[:top]) for j in range(len(row))]


def times_shown(shown_matrix, users=None):
    rows = shown_matrix if users is None else [shown_matrix[u] for u in users]
    return [sum(row[j] for row in rows) for j in range(len(shown_matrix[0]))] if shown_matrix else []


def members(groups, label):
    return [u for u, g in enumerate(groups) if g == label]


def mad(matrix, groups, versus, protected):
    means = []
    for label in (versus, protected):
        values = [v for u in members(groups, label) for v in matrix[u] if not missing(v)]
        if not values:
            return NAN
        means.append(sum(values) / len(values))
    return means[0] - means[1]


def _shares(counts):
    total = sum(counts)
    return [c / total for c in counts] if total else None


def exposure_tv(shown_matrix, groups, versus, protected):
    a, b = (_shares(times_shown(shown_matrix, members(groups, g))) for g in (versus, protected))
    return NAN if a is None or b is None else sum(abs(p - q) for p, q in zip(a, b, strict=True)) / 2


def exposure_kl(shown_matrix, groups, versus, protected):
    a, b = (_shares(times_shown(shown_matrix, members(groups, g))) for g in (versus, protected))
    if a is None or b is None:
        return NAN
    total = 0.0
    for p, q in zip(a, b, strict=True):
        if p > 0 and q == 0:
            return math.inf
        total += p * math.log(p / q) if p > 0 else 0.0
    return total


def _per_user(which, shown_row, relevant_row):
    hits = sum(s * r for s, r in zip(shown_row, relevant_row, strict=True))
    precision = hits / sum(shown_row) if sum(shown_row) else 0.0
    recall = hits / sum(relevant_row) if sum(relevant_row) else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}[which]


def _counted(which, shown_row, relevant_row):
    return {"precision": sum(shown_row), "recall": sum(relevant_row), "f1": sum(shown_row) + sum(relevant_row)}[
        which
    ] > 0


def opportunity_ratio(which, shown_matrix, relevant, groups, versus, protected, zero_division=0):
    means = []
    for label in (versus, protected):
        users = members(groups, label)
        if zero_division == "skip":
            users = [u for u in users if _counted(which, shown_matrix[u], relevant[u])]
        if not users:
            return NAN
        means.append(sum(_per_user(which, shown_matrix[u], relevant[u]) for u in users) / len(users))
    return means[1] / means[0] if means[0] else NAN


def error_ratio(which, matrix, truth, groups, versus, protected):
    means = []
    for label in (versus, protected):
        errors = [
            v - t
            for u in members(groups, label)
            for v, t in zip(matrix[u], truth[u], strict=True)
            if not missing(v) and not missing(t)
        ]
        if not errors:
            return NAN
        means.append(
            math.sqrt(sum(e * e for e in errors) / len(errors))
            if which == "rmse"
            else sum(map(abs, errors)) / len(errors)
        )
    return means[1] / means[0] if means[0] else NAN


def aggregate_diversity(shown_matrix):
    counts = times_shown(shown_matrix)
    return sum(c > 0 for c in counts) / len(counts)


def item_gini(shown_matrix, corrected=False):
    counts = times_shown(shown_matrix)
    n, total = len(counts), sum(counts)
    if not total or (corrected and n == 1):
        return NAN
    pairs = sum(abs(c - d) for c in counts for d in counts)
    return pairs / (2 * (n - 1 if corrected else n) * total)


def exposure_entropy(shown_matrix, base=math.e):
    shares = _shares(times_shown(shown_matrix))
    return NAN if shares is None else -sum(p * math.log(p, base) for p in shares if p > 0)


def recommendation_popularity(shown_matrix):
    counts = times_shown(shown_matrix)
    means = [sum(s * c for s, c in zip(row, counts, strict=True)) / sum(row) for row in shown_matrix if sum(row)]
    return sum(means) / len(means) if means else NAN
