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


def predicted(rows, inner, reference, treated):
    """Outcome that the row's bin regression predicts, fitted on the treated rows of that bin; rows are dictionaries."""
    lines = {}
    for b in range(len(inner) + 1):
        part = [r for r in treated if bin_of(r["score"], inner) == b]
        gaps, alpha, gamma, _ = regression(
            [r["score"] for r in part], [r["y"] for r in part], [r["group"] for r in part], reference
        )
        lines[b] = (gaps, alpha, 0.0 if math.isnan(gamma) else gamma)
    out = []
    for r in rows:
        gaps, alpha, gamma = lines[bin_of(r["score"], inner)]
        out.append(alpha + gaps.get(r["group"], 0.0) + gamma * r["score"])
    return out


def reallocated(rows, hat):
    """Indices of the rows that get the slots: per request as many as were treated, highest prediction first."""
    chosen = []
    for q in sorted({r["query"] for r in rows}):
        mine = [i for i, r in enumerate(rows) if r["query"] == q]
        slots = sum(rows[i]["treated"] for i in mine)
        chosen.append(sorted(mine, key=lambda i: (-round(hat[i], 11), -rows[i]["score"], i))[:slots])
    return chosen
