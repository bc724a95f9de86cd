"""The outcome test by its definition: rows, design matrices and loops, no tally and no closed form."""

from __future__ import annotations

import math

import numpy as np


def edges(scores, bins):
    """Inverted-CDF quantiles d/B; equal edges merge, and the largest score is no edge."""
    ordered = sorted(scores)
    found = {ordered[max(1, -(-d * len(ordered) // bins)) - 1] for d in range(1, bins)}
    return sorted(e for e in found if e < ordered[-1])


def bin_of(score, inner):
    return sum(score > e for e in inner)


def regression(scores, outcomes, groups, reference, clusters=None):
    """OLS of the outcome on a constant, a dummy per other group, and the score if it varies.

    Gives {group: gap}, intercept, slope, and {kind: {group: standard error}}.
    """
    others = sorted(set(groups) - {reference})
    columns = [np.ones(len(scores)), *[np.array([float(g == o) for g in groups]) for o in others]]
    if len(set(scores)) > 1:
        columns.append(np.array(scores, float))
    x, y = np.column_stack(columns), np.array(outcomes, float)
    n, k = x.shape
    bread = np.linalg.inv(x.T @ x)
    beta = bread @ x.T @ y
    e = y - x @ beta
    errors = {"classical": bread * (e @ e) / (n - k)}
    errors["HC1"] = bread @ sum(np.outer(x[i], x[i]) * e[i] ** 2 for i in range(n)) @ bread * n / (n - k)
    if clusters is not None:
        names = sorted(set(clusters))
        sums = [sum(x[i] * e[i] for i in range(n) if clusters[i] == c) for c in names]
        factor = len(names) / (len(names) - 1) * (n - 1) / (n - k)
        errors["cluster"] = bread @ sum(np.outer(s, s) for s in sums) @ bread * factor
    gaps = {o: beta[1 + i] for i, o in enumerate(others)}
    slope = beta[-1] if len(set(scores)) > 1 else math.nan
    spread = {kind: {o: math.sqrt(v[1 + i, 1 + i]) for i, o in enumerate(others)} for kind, v in errors.items()}
    return gaps, beta[0], slope, spread
